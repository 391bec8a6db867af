"""The schema of `Score.parts`: the data that metrics keep with their score, for runs, reports and statistics.

Parts are JSON, written to scores.jsonl; keys are only ever added. A metric may keep anything. Parts that more than one
module uses are defined here, as a `TypedDict` for writers and a function for readers. A file may be old, foreign or
damaged, so the readers leave out what is malformed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, NotRequired, TypedDict, cast

from titjudge.core.numbers import is_number
from titjudge.core.words import count_words

Parts = Mapping[str, Any]

_TYPED = re.compile(r"(.*\S)\s*\(([^()]+)\)\s*")  # an element of a prompt as EvalMuse writes it: "red cube (color)"
LEVELS = ("pillar", "sub_capability", "facet")  # of a checklist, each within the one before
TABLED = tuple(
    (
        "am lower upper questions matched wanted distance level1 level2 level3 SC PQ VC IF VQ KP accuracy "
        "ApprConsistency Reasoning VisualPlausibility"
    ).split()
)
"""The parts from which suites make tables; a panel of judges combines them as it does its votes."""


class GraphFrom(StrEnum):
    """The source of the elements of a graph: `graph_from` of the parts."""

    JUDGE = "the judge"
    DATA = "the data"
    EXTRACTED = "extracted"


# -- texts that a model read -------------------------------------------------------------------------------------------


class TokensRead(TypedDict, total=False):
    """Tokens that a model read of its texts, and all their tokens: `tit` and the learned metrics."""

    prompt_tokens_used: int
    prompt_tokens: int
    description_tokens_used: int
    description_tokens: int


class PromptRead(TypedDict):
    """Tokens of the prompt that a learned metric's model read; `cut` if these are not all."""

    prompt_tokens_used: int
    prompt_tokens: int
    cut: bool


class TextRead(NamedTuple):
    """Tokens of one text that were read, and all its tokens."""

    used: int
    total: int


def texts_cut(parts: Parts) -> list[TextRead]:
    """Return the token counts of the texts that a model read only in part."""
    read = [(parts.get(f"{text}_tokens_used"), parts.get(f"{text}_tokens")) for text in ("prompt", "description")]
    return [
        TextRead(used, total)
        for used, total in read
        if isinstance(used, int) and isinstance(total, int) and used < total
    ]


class ElementScores(TypedDict):
    """Scores of the elements of the prompt, 0 to 1: `fga-blip2`. None for one whose words the model has not read."""

    elements: dict[str, float | None]


def element_words(element: str) -> tuple[str, str]:
    """Split an element such as `red cube (color)` into its words and its type, which may be empty."""
    match = _TYPED.fullmatch(element)
    return (match[1], match[2].strip()) if match else (element, "")


def element_scores(parts: Parts) -> Iterator[tuple[str, str, float]]:
    """Yield name, type and score of the elements that have a score."""
    for element, value in mapping(parts.get("elements")).items():
        if is_number(value):
            yield str(element), element_words(str(element))[1] or "element", float(value)


class Bounds(TypedDict):
    """Bounds of a score of which not all is known: only the likeliest tokens of an answer, or claims that stay open."""

    lower: float
    upper: float


def bounds_of(parts: Parts) -> tuple[float, float] | None:
    """Return the lower and the upper bound of a score; None if it has none."""
    low, high = parts.get("lower"), parts.get("upper")
    return (low, high) if is_number(low) and is_number(high) else None


class Faults(TypedDict):
    """Faults that a judge finds: `lmm-critique`."""

    missing: list[str]
    contradicted: list[str]


class Compared(Faults):
    """A judge's comparison of prompt and description: `tit-llm`, `self-eval`."""

    description: str


class SentenceMatch(TypedDict):
    """A sentence of the prompt, the closest part of the description, and the match of the two, -1 to 1."""

    sentence: str
    closest: str
    match: float


class Aligned(TokensRead):
    """The sentences with the worst match, worst first, and the description: `tit-aligned`."""

    weakest: list[SentenceMatch]
    description: str


def weakest(parts: Parts) -> list[Mapping[str, Any]]:
    """Return the sentences of the prompt with the worst match, worst first."""
    return [entry for entry in objects(parts.get("weakest")) if entry.get("sentence")]


def missing(parts: Parts) -> Sequence[Any]:
    """Return the elements that are missing in the description or the image."""
    return sequence(parts.get("missing"))


def contradicted(parts: Parts) -> Sequence[Any]:
    """Return the elements that the description or the image contradicts."""
    return sequence(parts.get("contradicted"))


def unread_as(parts: Parts) -> list[str]:
    """Return the beginning of each unreadable reply to a yes/no question: `denial`, `affirmation` or empty."""
    return [str(kind) for kind in parts.get("unread_as") or ()]


def description(parts: Parts) -> str:
    """Return the description of the image that the metric read; empty if it read none."""
    return str(parts.get("description") or "").strip()


def description_words(parts: Parts) -> int:
    """Return the number of words of that description, even if only this number was kept."""
    kept = parts.get("description_words")
    return kept if isinstance(kept, int) else count_words(description(parts))


# -- how steady a judge is ---------------------------------------------------------------------------------------------


class PanelVote(TypedDict):
    """One judge's vote in a panel."""

    judge: str
    value: float | None
    status: str
    reason: str


class PanelVotes(TypedDict):
    """The votes of a panel; `disagreement` is the greatest minus the least value."""

    votes: list[PanelVote]
    disagreement: float | None


class Samples(TypedDict):
    """The repeated scores of one judge; `spread` is their standard deviation."""

    samples: list[float | None]
    spread: float | None


class Duel(TypedDict):
    """A comparison with another image of the prompt, asked in both orders; points are 0 (loss) to 1 (win)."""

    other: str
    points: float
    order_decided: bool
    shown_first: float
    shown_second: float
    reason: str


class Duels(TypedDict):
    """The comparisons of an image: `pairwise`, `pairwise-text`. `against` (points by id) if only some are asked."""

    duels: list[Duel]
    unanswered: int
    order_effect: float
    first_advantage: float
    against: NotRequired[dict[str, float]]


STEADINESS = ("disagreement", "spread", "order_effect", "first_advantage")
SUMMED = frozenset(
    {*TokensRead.__annotations__, *STEADINESS, "against", "unread_as", "questions_asked", "questions_skipped"}
)
"""The parts that are kept in memory if only tables are made."""


def steadiness(parts: Parts) -> dict[str, float]:
    """Return the measures of steadiness that the score has, by name."""
    return {name: parts[name] for name in STEADINESS if isinstance(parts.get(name), int | float)}


def against(parts: Parts) -> dict[str, float]:
    """Return the points of a pairwise score by the id of the other image, if only some comparisons are asked."""
    return {other: pts for other, pts in mapping(parts.get("against")).items() if isinstance(pts, int | float)}


def duels(parts: Parts) -> list[Duel]:
    """Return the comparisons of a pairwise score."""
    return cast(list[Duel], objects(parts.get("duels")))


# -- questions and answers ---------------------------------------------------------------------------------------------


class YesNoAnswers(TypedDict):
    """The judge's answers to yes/no questions: `yes-no`. A score without a value has no `preds`."""

    preds: NotRequired[list[str]]
    gold: list[str]
    questions: list[str]
    output: str
    template: str
    tries: int


def predictions(parts: Parts) -> Sequence[str]:
    """Return the answers to yes/no questions; empty if there are none."""
    answers: Sequence[str] = parts.get("preds") or ()
    return answers


def questions(parts: Parts) -> list[Mapping[str, Any]]:
    """Return the rows on questions, of DSG (`tuple`, `yes`, `valid`) or TIFA (`element`, `type`, `right`)."""
    return objects(parts.get("questions"))


class QuestionCounts(TypedDict):
    """The questions (of `checklist`: facets) that a score was asked for, and how many of them have no answer."""

    questions_asked: int
    questions_skipped: int


COULD_BE = "could_be"


def could_be(parts: Parts) -> Mapping[str, Any]:
    """Return [worst, best] of the value ("") and of parts that missing ratings could change, by name; empty if none is missing."""
    return mapping(parts.get(COULD_BE))


def question_counts(parts: Parts) -> tuple[int, int]:
    """Count the questions behind a score, and the unanswered ones; (0, 0) if it is not made of questions."""
    if rows := questions(parts):
        return len(rows), sum(all(row.get(key) is None for key in ("answer", "yes", "right")) for row in rows)
    asked, skipped = (parts.get(key) for key in QuestionCounts.__annotations__)
    if isinstance(asked, int) and isinstance(skipped, int):
        return asked, skipped
    return len(predictions(parts)), 0


def alignment(parts: Parts) -> Mapping[str, Any] | None:
    """Return the elements of `graph-alignment` by category, each with its words and whether the image shows it."""
    by_category = parts.get("alignment")
    return by_category if isinstance(by_category, Mapping) else None


def levels(parts: Parts) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the points of each pillar, sub-capability and facet of `checklist`, by its names from the pillar down."""
    points: dict[str, dict[tuple[str, ...], float]] = {}
    for depth, column in enumerate(LEVELS, 1):
        tree: list[tuple[tuple[str, ...], Any]] = [((), parts.get(f"level{depth}"))]
        for _ in range(depth):
            branches = [(names, node) for names, node in tree if isinstance(node, Mapping)]
            tree = [((*names, str(name)), child) for names, node in branches for name, child in node.items()]
        if of_level := {names: float(value) for names, value in tree if is_number(value)}:
            points[column] = of_level
    return points


def element_name(words: Iterable[Any]) -> str:
    """Return the name of a graph's element in files and tables: `cat | on | mat`."""
    return " | ".join(map(str, words))


def facet_name(pillar: str, sub: str, facet: str) -> str:
    """Return the name of a facet in files and tables; the same short name may occur under two pillars."""
    return f"{pillar} / {sub} / {facet}"


def facet_points(parts: Parts) -> Mapping[tuple[str, str, str], float | None]:
    """Return the points of each facet of `checklist`, None if it does not apply; without unreadable marks."""
    unread = {(pillar, str(facet)) for pillar, facets in (parts.get("unread") or {}).items() for facet in facets}
    return {
        (str(pillar), str(sub), str(facet)): points
        for pillar, subs in mapping(parts.get("level3")).items()
        for sub, facets in subs.items()
        for facet, points in facets.items()
        if (pillar, facet) not in unread
    }


# -- the agentic judge -------------------------------------------------------------------------------------------------


class SeenRow(TypedDict, total=False):
    """The place in the image where a claim was decided, and the observation there, as far as known.

    Attributes:
        place: [left, top, right, bottom] in fractions of width and height.
        seen: The line of the inventory, or the words of a judge that sees the image.
        sure: Whether the reader of the inventory was sure of it.
    """

    place: list[float]
    seen: str
    sure: bool


class ClaimRow(SeenRow):
    """One claim of the prompt and its verdict.

    Attributes:
        number: From 1, in the order of the prompt.
        kind: entity, attribute, relation, text or style.
        level: macro, micro or generic.
        weight: Its points of 100.
        span: [start, end) in characters of the prompt; `quote` are the words there.
        position: Start of the span over the length of the prompt.
        verdict: met, not_met, cannot_be_seen or open.
        evidence: Id of the evidence that settled it.
        before: Earlier verdicts, each [verdict, evidence].
        thing: The object that it is about; empty if there is none.
    """

    number: int
    claim: str
    thing: str
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
    """The result of one look.

    Attributes:
        tool: describe, inventory, see (the image itself), ask, zoom, count or read_text.
        box: [left, top, right, bottom] in fractions of width and height.
        failed: The status of an image request without a result, otherwise empty.
        cut: The answer was truncated.
        settles: It can settle a claim.
        source: The OCR engine.
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
    """A verdict of one round."""

    claim: int
    verdict: str
    evidence: str


class RoundRow(TypedDict):
    """One round of the transcript; round 0 is the first look.

    Attributes:
        protocol: tools, json or sight; empty for round 0.
        looks: Ids of the evidence of this round.
        refused: The notes on looks and verdicts that were not accepted.
    """

    round: int
    protocol: str
    thought: str
    settled: list[SettledRow]
    looks: list[str]
    refused: list[str]


class PlaceRow(TypedDict):
    """A place that a detector proposed.

    Attributes:
        box: [left, top, right, bottom] in fractions of width and height.
        score: The detector's, 0 to 1.
    """

    thing: str
    box: list[float]
    score: float


class PlacesPart(TypedDict):
    """The proposals of a detector.

    Attributes:
        things: The names that it was asked for.
        proposed: The places that the judge was shown.
        failed: Status and reason if it gave no usable answer, otherwise empty.
    """

    things: list[str]
    proposed: list[PlaceRow]
    failed: str


class AgentParts(TypedDict):
    """The parts of `tit-agent`; a score without a value has them, too, as far as they are known.

    Attributes:
        number: Number of claims, by verdict.
        weight: Weight of claims, by verdict.
        levels: Met share of the decided macro, micro and style claims; None if none is decided.
        unfounded: Claims whose words are not in the prompt.
        repeated: Number of claims that repeat another one.
        claims_over: Number of claims beyond the limit.
        prompt_covered: Share of the prompt's words that claims quote.
        counts: Looks, rounds and everything refused, by kind.
        max_looks: Bound on looks.
        max_cost: Bound in USD, or None.
        stopped: covered, little left, too expensive (`too dear`), looks, budget, no progress, rounds, or "no answer: STATUS".
        protocol: That of the last round.
        ocr: The OCR engine.
        places: The proposals of a detector; absent if none is configured.
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
    places: NotRequired[PlacesPart]


def claims(parts: Parts) -> list[Mapping[str, Any]]:
    """Return rows like `ClaimRow`; rows of other metrics may have fewer columns."""
    return objects(parts.get("claims"))


def evidence(parts: Parts) -> list[Mapping[str, Any]]:
    """Return rows like `EvidenceRow`."""
    return objects(parts.get("evidence"))


def transcript(parts: Parts) -> list[Mapping[str, Any]]:
    """Return rows like `RoundRow`."""
    return objects(parts.get("transcript"))


def place(value: Any) -> tuple[float, float, float, float] | None:
    """Return a place in an image: left, top, right, bottom as fractions of width and height; None if it is not one."""
    listed = sequence(value)
    if len(listed) != 4 or not all(is_number(number) and 0 <= number <= 1 for number in listed):
        return None
    left, top, right, bottom = map(float, listed)
    return left, top, right, bottom


def objects(value: Any) -> list[Mapping[str, Any]]:
    """Return the JSON objects of a list; an empty list for anything else."""
    return [entry for entry in sequence(value) if isinstance(entry, Mapping)]


def sequence(value: Any) -> Sequence[Any]:
    """Return a list; an empty one for anything else."""
    return value if isinstance(value, list | tuple) else ()


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a JSON object; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}
