"""Qwen-Image-Bench: five pillars of facets, marked 0, 1, 2 or N/A (paper, 3.3 and 3.4; official code @b6b556b).

A judge's answer becomes numbers in four steps, all of them here: extract the JSON, put facets under the
sub-capabilities of the rubric, turn marks into points, average. The rubric (5 pillars, 23 sub-capabilities, 56 facets,
each with its criterion) is `prompts/qwen_image_bench/rubric.json`; `fork_drops.json` are the facets that the fork has dropped.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from titjudge.core import item_meta
from titjudge.core.errors import ConfigError, Unanswered, must_be, unknown
from titjudge.core.numbers import mean
from titjudge.core.score_parts import QuestionCounts, facet_name
from titjudge.core.serialization import without_surrogates
from titjudge.core.structured_output import after_thinking
from titjudge.core.types import Ask, Item, Json, Score, Status, Values
from titjudge.metrics import metric
from titjudge.metrics._shared import image_of

Rubric = Mapping[str, Mapping[str, Mapping[str, str]]]  # pillar -> sub-capability -> facet -> criterion
Facets = dict[str, Json]  # sub-capability -> facet -> the judge's mark, as written
Activated = Mapping[str, Sequence[Sequence[str]]]  # pillar -> (sub-capability, facet) pairs that a prompt targets

POINTS = {0: 0.0, 1: 60.0, 2: 100.0}
RENAMED = {"Creative Generation": {"Feature Mapping": "Feature Matching"}}
COLUMNS = {  # how the official files name the pillars
    "quality": "Quality",
    "aesthetics": "Aesthetics",
    "alignment": "Alignment",
    "real_world_fidelity": "Real-world Fidelity",
    "creative_generation": "Creative Generation",
}
PILLAR = "qwen_image_bench/pillar"  # the template of a question
GATED = ("strict", "paper-gated")
DECODING = {  # of Q-Judger (judge.py and the paper, 4.1)
    "temperature": 0,
    "top_p": 1,
    "top_k": 1,
    "repetition_penalty": 1.05,
    "seed": 42,
    "max_tokens": 4096,
    "chat_template_kwargs": {"enable_thinking": True},
}
FACETS = (56, 38)  # in the paper's rubric; in the shorter one of Stability AI's fork of the code (@1e8e78c)
_OBJECT = re.compile(r"\{.*\}", re.DOTALL)


@functools.cache
def rubric(facets: int = FACETS[0]) -> Rubric:
    """Read the published rubric: pillar -> sub-capability -> facet -> criterion, in the published order.

    Args:
        facets: Number of facets: 56, or the 38 of the fork.
    """
    loaded: Rubric = _published("rubric")
    if facets == FACETS[0]:
        return loaded
    dropped: Mapping[str, list[str]] = _published("fork_drops")
    shorter = {}
    for pillar, subs in loaded.items():
        kept = {
            sub: {name: criteria[name] for name in criteria if name not in dropped.get(pillar, ())}
            for sub, criteria in subs.items()
        }
        shorter[pillar] = {sub: criteria for sub, criteria in kept.items() if criteria}
    return shorter


def _published(name: str) -> Any:
    from titjudge.core.paths import bundled_root

    return json.loads((bundled_root() / "qwen_image_bench" / f"{name}.json").read_text(encoding="utf-8"))


@functools.cache
def checklist_text(pillar: str, facets: int = FACETS[0]) -> str:
    """Write the checklist of one pillar as the published prompt has it.

    Raises:
        ConfigError: There is no such pillar.
    """
    if pillar not in rubric():
        raise ConfigError(unknown("pillar", pillar, rubric()))
    lines = []
    for sub, criteria in rubric(facets)[pillar].items():
        lines += [f"## {sub}", *(f"- {facet}: {criterion}" for facet, criterion in criteria.items())]
    return "\n".join(lines)


@functools.cache
def _best_marks(pillar: str, facets: int) -> str:
    """Write an answer to `checklist_text` in which every facet has the highest mark."""
    subs = rubric(facets)[pillar].items()
    return json.dumps({sub: {facet: {"score": max(POINTS)} for facet in criteria} for sub, criteria in subs})


@functools.cache
def sub_capabilities(pillar: str, facets: int = FACETS[0]) -> Mapping[str, str]:
    """Map each facet of a pillar to its sub-capability."""
    return {facet: sub for sub, criteria in rubric(facets).get(pillar, {}).items() for facet in criteria}


@dataclass(frozen=True, slots=True)
class PillarMarks:
    """The judge's marks for one pillar, parsed.

    Attributes:
        status: Ok, parse_failure (no JSON object) or invalid (JSON on which the official code crashes: a list, a
            number, a score of Infinity).
        reason: Why there is no level, in words.
        level1: Points of the pillar, 0 to 100: the mean of `level2`. None if no facet was marked.
        level2: Points by sub-capability: the means of `level3`.
        level3: Points by sub-capability and facet; None for N/A.
        corrected: The judge's marks under the sub-capabilities of the rubric.
        foreign: Facets that the rubric does not have in this pillar, as `sub-capability / facet`.
        unread: Facets whose mark is neither 0, 1, 2 nor N/A.
    """

    status: str
    reason: str = ""
    level1: float | None = None
    level2: Mapping[str, float | None] = field(default_factory=dict)
    level3: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    corrected: Mapping[str, Values] | None = None
    foreign: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def extract(text: str) -> Any:
    """Read the JSON value in an answer by the official rule; None when there is none (or it is `null`).

    The text behind the last `</think>` is parsed as a whole, otherwise from its first `{` to its last `}`. Two objects, a
    brace in the prose, comments, trailing commas and truncated JSON thus cannot be read.

    Raises:
        ValueError, RecursionError: JSON that Python refuses to load (an integer of thousands of digits, deep nesting).
    """
    answer = text.rpartition("</think>")[2].strip()  # upstream also reads a thought that has no end
    match = _OBJECT.search(answer)
    for candidate in (answer, match[0] if match else None):
        if candidate is not None:
            try:
                return without_surrogates(json.loads(candidate))
            except json.JSONDecodeError:
                continue
    return None


def correct(marks: Values, pillar: str, facets: int = FACETS[0]) -> Facets:
    """Put the marks of an answer under their sub-capabilities, by the official rule.

    If the first value is an object with "score", every key is taken for a facet. Otherwise two levels are read, and
    values that are not objects are dropped. A facet of the pillar is moved to its sub-capability; names that the pillar
    does not have stay in place (and count). The later of two marks for one facet counts.
    """
    rename, sub_of = RENAMED.get(pillar, {}), sub_capabilities(pillar, facets)
    first = next(iter(marks.values()), None)
    flat = isinstance(first, dict) and "score" in first
    corrected: Facets = {}
    for key, value in marks.items():
        of_key = {key: value} if flat else value if isinstance(value, dict) else {}
        for name, mark in of_key.items():
            facet = rename.get(name, name)
            corrected.setdefault(sub_of.get(facet, facet if flat else key), {})[facet] = mark
    return corrected


def official_points(mark: Any) -> float | None:
    """Return the points of a mark by the official code: of whatever `int()` makes 0, 1 or 2; None for all else.

    Raises:
        OverflowError: The mark is Infinity.
    """
    if isinstance(mark, str) and mark.upper() == "N/A":
        return None
    try:
        return POINTS.get(int(mark))
    except (TypeError, ValueError):
        return None


def plain_points(mark: Any) -> float | None:
    """Return the points of a mark that is 0, 1 or 2, as a number or as a digit; None for all else."""
    if isinstance(mark, str) and mark.strip() in ("0", "1", "2"):
        return POINTS[int(mark)]
    if isinstance(mark, int | float) and not isinstance(mark, bool) and mark in POINTS:
        return POINTS[int(mark)]
    return None


def judge_answer(
    text: Any, pillar: str, targeted: Sequence[Sequence[str]] | None = None, facets: int = FACETS[0]
) -> PillarMarks:
    """Parse a judge's answer on one pillar.

    Args:
        text: The answer; None and blank texts are parse failures, other types invalid.
        pillar: One of the five.
        targeted: (sub-capability, facet) pairs that the prompt activates: only they enter the levels (paper, Eq. 8 to
            10). None: all that the judge marked (official code).
        facets: Number of facets in the rubric.
    """
    if text is None:
        return PillarMarks("parse_failure", "no answer")
    if not isinstance(text, str):
        return PillarMarks("invalid", f"the answer is a {type(text).__name__}, not a text")
    try:
        value = extract(text)
    except (ValueError, RecursionError) as error:
        return PillarMarks("invalid", f"unreadable JSON: {type(error).__name__}")
    if value is None:
        return PillarMarks("parse_failure", "no JSON object in the answer" if text.strip() else "the answer is empty")
    if not isinstance(value, dict):
        return PillarMarks("invalid", f"the answer is a JSON {type(value).__name__}, not an object")
    corrected = correct(value, pillar, facets)
    sub_of = sub_capabilities(pillar, facets)
    foreign = {f"{sub} / {facet}" for sub, marks in corrected.items() for facet in marks if sub_of.get(facet) != sub}
    counted = corrected
    if targeted is not None:  # a targeted facet that the judge left out counts as one without a mark
        counted = {}
        for sub, facet in targeted:
            if facet in sub_of:
                counted.setdefault(sub, {})[facet] = corrected.get(sub, {}).get(facet)
    points_of = official_points if targeted is None else plain_points
    try:
        level3 = {
            sub: {facet: points_of(_score_in(mark)) for facet, mark in marks.items()} for sub, marks in counted.items()
        }
    except OverflowError:
        return PillarMarks("invalid", "a score is Infinity", corrected=corrected, foreign=tuple(sorted(foreign)))
    level2 = {sub: mean(points.values()) for sub, points in level3.items()}
    unread = [
        facet
        for sub, marks in counted.items()
        for facet, mark in marks.items()
        if level3[sub][facet] is None and str(_score_in(mark)).strip().upper() != "N/A"
    ]
    level1 = mean(level2.values())
    reason = "no facet was marked 0, 1 or 2" if level1 is None else ""
    return PillarMarks("ok", reason, level1, level2, level3, corrected, tuple(sorted(foreign)), tuple(unread))


def _score_in(mark: Any) -> Any:
    return mark.get("score") if isinstance(mark, dict) else mark


def gate(protocol: str, activated: Activated, pillar: str) -> Sequence[Sequence[str]] | None:
    """Return the facets that count in a pillar under a protocol; None means all of them.

    Raises:
        ConfigError: The protocol is none of official, strict, paper-gated.
    """
    if protocol in GATED:
        return activated.get(pillar, ())
    if protocol == "official":
        return None
    raise ConfigError(must_be("--protocol", "official or strict", protocol))


@metric(
    "checklist",
    roles=("judge",),
    range=(0, 100),
    version="2",  # 1 asked for the decoding of Q-Judger under the official protocol alone
    source="Qwen-Image-Bench paper, 3.3, 3.4 and A.3; official code @b6b556b",
    needs=("facets",),
)
async def checklist(item: Item, ask: Ask) -> Score:
    """Mean over the pillars a prompt activates of 0/60/100 points for checklist facets, judged one pillar at a time.

    `item.meta["facets"]` maps each active pillar to its (sub-capability, facet) pairs; without it all five pillars are
    judged, and facets that the judge finds not applicable are excluded (Eq. 5). Under the official protocol every facet
    the judge marks counts, under the strict one only the activated facets; both ask for the decoding of Q-Judger. A
    pillar without a usable answer is listed in `parts["failed"]`, and the mean is over the others.
    `item.meta["rubric_facets"]` is 38 for the rubric of Stability AI's fork of the code.
    """
    activated = activated_facets(item)
    image = image_of(item)
    official = ask.protocol == "official"
    verdicts: dict[str, PillarMarks] = {}
    outputs: dict[str, str] = {}
    failed: dict[str, tuple[Status, str]] = {}
    invalid: list[str] = []
    facets = rubric_size(item)
    for pillar in activated:
        try:
            reply = await ask(
                PILLAR,
                role="judge",
                images=[image],
                params=DECODING,
                accept_truncated=official,
                planned=_best_marks(pillar, facets),
                prompt=item.prompt,
                pillar=pillar,
                checklist=checklist_text(pillar, facets),
            )
        except Unanswered as failure:
            failed[pillar] = (failure.status, failure.reason)
            continue
        outputs[pillar] = reply.text
        text = reply.text if official else after_thinking(reply.text)
        verdict = judge_answer(text, pillar, gate(ask.protocol, activated, pillar), facets)
        if verdict.status == "ok":
            verdicts[pillar] = verdict
        else:
            failed[pillar] = (Status.UNPARSED, f"{verdict.status}: {verdict.reason}")
            invalid += [pillar] if verdict.status == "invalid" else []
    score = _score(verdicts, outputs, failed, activated)
    return replace(score, parts={**score.parts, "invalid": invalid}) if invalid else score


def rubric_size(item: Item) -> int:
    """Return the number of facets of the rubric of an item: 56, or 38 if it names the shorter one."""
    return FACETS[1] if item_meta.RUBRIC_FACETS.get(item) == FACETS[1] else FACETS[0]


def activated_facets(item: Item) -> Activated:
    """Return the facets that an item's prompt activates: all of the rubric if the item does not name them.

    Raises:
        Unanswered: The item names facets that are not in the rubric.
    """
    facets = item_meta.FACETS.get(item)
    if facets is None:
        return {pillar: [[sub, facet] for facet, sub in sub_capabilities(pillar).items()] for pillar in rubric()}
    try:
        activated = {str(pillar): [(str(sub), str(facet)) for sub, facet in pairs] for pillar, pairs in facets.items()}
    except (AttributeError, TypeError, ValueError) as error:
        reason = "its facets must be an object of pillar: [[sub-capability, facet], ...]"
        raise Unanswered(Status.BAD_INPUT, reason) from error
    for pillar, pairs in activated.items():
        if pillar not in rubric():
            raise Unanswered(Status.BAD_INPUT, f"the rubric has no pillar '{pillar}'")
        for sub, facet in pairs:
            if sub_capabilities(pillar).get(facet) != sub:
                raise Unanswered(Status.BAD_INPUT, f"the rubric has no facet '{facet_name(pillar, sub, facet)}'")
    if not any(activated.values()):
        raise Unanswered(Status.BAD_INPUT, "the item has no facets to judge")
    return activated


def _score(
    verdicts: Mapping[str, PillarMarks],
    outputs: Mapping[str, str],
    failed: Mapping[str, tuple[Status, str]],
    activated: Activated,
) -> Score:
    """Make the score of an image from the verdicts on its pillars: their mean, without the failed ones."""
    unread = {pillar: list(verdict.unread) for pillar, verdict in verdicts.items() if verdict.unread}
    marks = [points for verdict in verdicts.values() for facets in verdict.level3.values() for points in facets]
    lost = sum(len(activated[pillar]) for pillar in failed)
    counts = QuestionCounts(questions_asked=len(marks) + lost, questions_skipped=sum(map(len, unread.values())) + lost)
    parts: Json = {
        "level1": {pillar: verdict.level1 for pillar, verdict in verdicts.items()},
        "level2": {pillar: verdict.level2 for pillar, verdict in verdicts.items()},
        "level3": {pillar: verdict.level3 for pillar, verdict in verdicts.items()},
        "foreign": {pillar: list(verdict.foreign) for pillar, verdict in verdicts.items() if verdict.foreign},
        "unread": unread,
        "failed": {pillar: f"{status}: {reason}" for pillar, (status, reason) in failed.items()},
        "outputs": outputs,
        **counts,
    }
    reason = "; ".join(f"{pillar}: {reason}" for pillar, (_, reason) in failed.items())
    total = mean(parts["level1"].values())
    if total is not None:
        return Score.of(total, reason=f"without {reason}" if reason else "", **parts)
    status = next((status for status, _ in failed.values()), Status.UNPARSED)
    return Score.none(status, reason or "no facet was marked 0, 1 or 2", **parts)
