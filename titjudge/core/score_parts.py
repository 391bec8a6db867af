"""What metrics keep in `Score.parts` beside their number, and what runs, reports and statistics read of it.

Parts are JSON: they are written to scores.jsonl as they are, and keys are only ever added. A metric may keep anything;
what more than one module knows is defined here, as a `TypedDict` for whoever writes it and as a function for whoever
reads it. What is read comes from a file that may be old, foreign or damaged, so readers leave out what is malformed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NotRequired, TypedDict, cast

from titjudge.core.numbers import is_number

Parts = Mapping[str, Any]

_TYPED = re.compile(r"(.*\S)\s*\(([^()]+)\)\s*")  # an element of a prompt as EvalMuse writes it: "red cube (color)"
LEVELS = ("pillar", "sub_capability", "facet")  # of a checklist, each within the one before
TABLED = (
    "am", "lower", "upper", "questions", "matched", "wanted", "distance", "level1", "level2", "level3",
)  # fmt: skip
"""What suites make tables of: a panel keeps it joined, as its votes are."""


# -- texts that a model read -------------------------------------------------------------------------------------------


class TokensRead(TypedDict, total=False):
    """How much of its texts a model read: `tit` and the learned metrics. Fewer used than there are: the text was cut."""

    prompt_tokens_used: int
    prompt_tokens: int
    description_tokens_used: int
    description_tokens: int


class PromptRead(TypedDict):
    """How much of the prompt a learned metric's model read; `cut` where that was not all."""

    prompt_tokens_used: int
    prompt_tokens: int
    cut: bool


class TextRead(NamedTuple):
    """Tokens of one text that were read, and tokens that there were."""

    used: int
    total: int


def texts_cut(parts: Parts) -> list[TextRead]:
    """Return the texts of which a model read only a part."""
    read = [(parts.get(f"{text}_tokens_used"), parts.get(f"{text}_tokens")) for text in ("prompt", "description")]
    return [
        TextRead(used, total)
        for used, total in read
        if isinstance(used, int) and isinstance(total, int) and used < total
    ]


class ElementScores(TypedDict):
    """How well each element of the prompt matches, 0 to 1: `fga-blip2`. None: the prompt as read does not hold its words."""

    elements: dict[str, float | None]


def element_words(element: str) -> tuple[str, str]:
    """Split an element into its words and its type: `red cube (color)`; the type is empty where none is told."""
    found = _TYPED.fullmatch(element)
    return (found[1], found[2].strip()) if found else (element, "")


def element_scores(parts: Parts) -> Iterator[tuple[str, str, float]]:
    """Yield the elements that have a score: name, type, score."""
    found = parts.get("elements")
    for element, value in found.items() if isinstance(found, Mapping) else ():
        if is_number(value):
            yield str(element), element_words(str(element))[1] or "element", float(value)


class Bounds(TypedDict):
    """The least and the most that a value can be, where only the likeliest tokens of an answer are known."""

    lower: float
    upper: float


class Compared(TypedDict):
    """A judge's comparison of prompt and description: `tit-llm`, `self-eval`."""

    missing: list[str]
    contradicted: list[str]
    description: str


def missing(parts: Parts) -> Sequence[Any]:
    """Return what the description does not mention."""
    return sequence(parts.get("missing"))


def contradicted(parts: Parts) -> Sequence[Any]:
    """Return what the description contradicts."""
    return sequence(parts.get("contradicted"))


def description(parts: Parts) -> str:
    """Return the description of the image that the metric read; empty where it read none."""
    return str(parts.get("description") or "").strip()


# -- how steady a judge is ---------------------------------------------------------------------------------------------


class Vote(TypedDict):
    """One judge's vote in a panel."""

    judge: str
    value: float | None
    status: str
    reason: str


class PanelVotes(TypedDict):
    """The votes of several judges; `disagreement` is the highest minus the lowest value."""

    votes: list[Vote]
    disagreement: float | None


class Samples(TypedDict):
    """The values of one judge that was asked repeatedly; `spread` is their standard deviation."""

    samples: list[float | None]
    spread: float | None


class Duel(TypedDict):
    """A comparison of the image with another one of its prompt, asked in both orders. Points are 0 to 1, 1 a win."""

    other: str
    points: float
    order_decided: bool
    shown_first: float
    shown_second: float
    reason: str


class Duels(TypedDict):
    """All comparisons of an image: `pairwise`, `pairwise-text`; `against` where they were drawn: points by the other's id."""

    duels: list[Duel]
    unanswered: int
    order_effect: float
    first_advantage: float
    against: NotRequired[dict[str, float]]


STEADINESS = ("disagreement", "spread", "order_effect", "first_advantage")
SUMMED = frozenset({*TokensRead.__annotations__, *STEADINESS, "against"})
"""All that is left of a score's parts where only tables are made of it."""


def steadiness(parts: Parts) -> dict[str, float]:
    """Return the measures of steadiness that the score has, by name."""
    return {name: parts[name] for name in STEADINESS if isinstance(parts.get(name), int | float)}


def against(parts: Parts) -> dict[str, float]:
    """Return the points of a pairwise score by the id of the other image, where comparisons were drawn."""
    told = parts.get("against")
    pairs = told.items() if isinstance(told, Mapping) else ()
    return {other: points for other, points in pairs if isinstance(points, int | float)}


def duels(parts: Parts) -> list[Duel]:
    """Return the comparisons of a pairwise score."""
    return cast(list[Duel], objects(parts.get("duels")))


# -- questions and answers ---------------------------------------------------------------------------------------------


class YesNoAnswers(TypedDict):
    """Answers of the judge to yes/no questions: `yes-no`. Without a value there are no `preds`."""

    preds: NotRequired[list[str]]
    gold: list[str]
    questions: list[str]
    output: str
    template: str
    tries: int


def predictions(parts: Parts) -> Sequence[str]:
    """Return the answers to yes/no questions; empty where there are none."""
    found: Sequence[str] = parts.get("preds") or ()
    return found


def questions(parts: Parts) -> list[Mapping[str, Any]]:
    """Return the questions of DSG (`tuple`, `yes`, `valid`) or TIFA (`element`, `type`, `right`)."""
    return objects(parts.get("questions"))


def alignment(parts: Parts) -> Mapping[str, Any] | None:
    """`graph-alignment`: by category, each element (its words) and whether the image shows it."""
    found = parts.get("alignment")
    return found if isinstance(found, Mapping) else None


def levels(parts: Parts) -> dict[str, dict[tuple[str, ...], float]]:
    """`checklist`: the points of each pillar, sub-capability and facet that was judged, by its names from the pillar down."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for depth, column in enumerate(LEVELS, 1):
        tree: list[tuple[tuple[str, ...], Any]] = [((), parts.get(f"level{depth}"))]
        for _ in range(depth):
            tree = [
                ((*names, str(name)), each)
                for names, of in tree
                if isinstance(of, Mapping)
                for name, each in of.items()
            ]
        if points := {names: float(each) for names, each in tree if is_number(each)}:
            found[column] = points
    return found


def element_name(words: Iterable[Any]) -> str:
    """Name an element of a graph in files and tables: `cat | on | mat`."""
    return " | ".join(map(str, words))


def facet_name(pillar: str, sub: str, facet: str) -> str:
    """Name a facet in files and tables, since a facet's own name may stand under two pillars."""
    return f"{pillar} / {sub} / {facet}"


def facet_points(parts: Parts) -> Mapping[tuple[str, str, str], float | None]:
    """`checklist`: the points of each facet that was judged, None where it does not apply; what could not be read is left out."""
    found = parts.get("level3")
    unread = {(pillar, str(facet)) for pillar, of in (parts.get("unread") or {}).items() for facet in of}
    return {
        (str(pillar), str(sub), str(facet)): points
        for pillar, subs in (found.items() if isinstance(found, Mapping) else ())
        for sub, of in subs.items()
        for facet, points in of.items()
        if (pillar, facet) not in unread
    }


# -- the agentic judge -------------------------------------------------------------------------------------------------


class ClaimRow(TypedDict):
    """One claim of the prompt and its verdict.

    `number` counts from 1 in the order of the prompt; `kind` is entity, attribute, relation, text or style; `level` macro,
    micro or generic; `weight` its points of 100; `span` [start, end) in characters of the prompt, `quote` its words,
    `position` its start over the prompt's length; `verdict` met, not_met, cannot_be_seen or open; `evidence` the id of what settled it; `before` the earlier
    verdicts, each [verdict, evidence].
    """

    number: int
    claim: str
    kind: str
    level: str
    weight: float
    span: list[int]
    quote: str
    position: float
    verdict: str
    evidence: str | None
    before: list[list[str]]


class EvidenceRow(TypedDict):
    """What one look brought.

    `tool` is describe, ask, zoom, count or read_text; `box` [left, top, right, bottom] in fractions; `failed`
    empty or a status; `cut`: the answer was longer than is read; `settles`: it can settle a claim; `source`: the OCR
    engine.
    """

    id: str
    tool: str
    question: str
    box: list[float] | None
    text: str
    failed: str
    cut: bool
    settles: bool
    source: str


class SettledRow(TypedDict):
    """A verdict as one round gave it."""

    claim: int
    verdict: str
    evidence: str


class RoundRow(TypedDict):
    """One round of the transcript, 0 being the description.

    `protocol` is tools or json, empty for round 0; `looks` are the ids of the evidence that came of it; `refused` the
    lines on what was not accepted.
    """

    round: int
    protocol: str
    thought: str
    settled: list[SettledRow]
    looks: list[str]
    refused: list[str]


class AgentParts(TypedDict):
    """All that `tit-agent` keeps; a score without a number has it too, as far as it came.

    `number` and `weight` are of claims, by verdict; `levels` the met share of decided claims that are macro, micro
    or style, None where none is decided; `counts` looks, rounds and everything refused, by kind; `stopped` covered, little left, looks, budget, no
    progress, rounds, or "no answer: STATUS"; `protocol` that of the last round; `max_looks` and `max_cost` (USD or None)
    the bounds it was judged under. `unfounded` are claims whose words are not in the prompt; `repeated` and `claims_over`
    count those said twice and those beyond the limit.
    """

    claims: list[ClaimRow]
    number: dict[str, int]
    weight: dict[str, float]
    levels: dict[str, float | None]
    unfounded: list[str]
    repeated: int
    claims_over: int
    prompt_words: int
    prompt_covered: float
    evidence: list[EvidenceRow]
    transcript: list[RoundRow]
    counts: dict[str, int]
    max_looks: int
    max_cost: float | None
    stopped: str
    protocol: str
    ocr: str


def claims(parts: Parts) -> list[Mapping[str, Any]]:
    """Return rows like `ClaimRow`; other metrics may leave out columns."""
    return objects(parts.get("claims"))


def evidence(parts: Parts) -> list[Mapping[str, Any]]:
    """Return rows like `EvidenceRow`."""
    return objects(parts.get("evidence"))


def transcript(parts: Parts) -> list[Mapping[str, Any]]:
    """Return rows like `RoundRow`."""
    return objects(parts.get("transcript"))


def objects(value: Any) -> list[Mapping[str, Any]]:
    """Return the JSON objects of a list; none of anything else."""
    return [each for each in sequence(value) if isinstance(each, Mapping)]


def sequence(value: Any) -> Sequence[Any]:
    """Return the entries of a list; none of anything else."""
    return value if isinstance(value, list | tuple) else ()
