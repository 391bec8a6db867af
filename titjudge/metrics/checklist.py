"""Qwen-Image-Bench: five pillars of facets that a judge marks 0, 1, 2 or N/A (paper, 3.3 and 3.4; official code @b6b556b).

Everything between a judge's answer and its numbers stands here: extraction, correction, marks, means. The rubric (5
pillars, 23 sub-capabilities, 56 facets, with their criteria) is `prompts/qwen_image_bench/rubric.json`.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from titjudge.core.errors import ConfigError, Unanswered
from titjudge.core.numbers import mean
from titjudge.core.score_parts import facet_name
from titjudge.core.serialization import without_surrogates
from titjudge.core.structured_output import after_thinking
from titjudge.core.types import Ask, Item, Score, Status
from titjudge.metrics import metric
from titjudge.metrics._shared import image_of

Rubric = Mapping[str, Mapping[str, Mapping[str, str]]]  # pillar -> sub-capability -> facet -> criterion
Facets = dict[str, dict[str, Any]]  # sub-capability -> facet -> what the judge wrote
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
FACETS = (56, 38)  # of the paper's rubric; of the one that Stability AI's fork of the code has cut it to (@1e8e78c)
_FORK_LACKS = {
    "Aesthetics": {"Emotional Expression"},
    "Alignment": {"Containment", "Real-world Scene", "Virtual Scene"},
    "Creative Generation": {
        "Cross-lingual Generation", "Graphic Design", "Product Design", "Spatial Design", "Fashion Styling", "Game Design",
        "Art Design", "Cinematic Style", "Camera / Lens Style", "Storyboard Creation", "Shot Sizes", "Composition", "Angles",
        "Comic Creation",
    },
}  # fmt: skip
_OBJECT = re.compile(r"\{.*\}", re.DOTALL)


@functools.cache
def rubric(facets: int = FACETS[0]) -> Rubric:
    """Read the published rubric: pillar -> sub-capability -> facet -> criterion, in the published order.

    Args:
        facets: How many it has: 56, or the 38 of the fork.
    """
    from titjudge.core.paths import bundled_root

    loaded: Rubric = json.loads((bundled_root() / "qwen_image_bench" / "rubric.json").read_text(encoding="utf-8"))
    if facets == FACETS[0]:
        return loaded
    kept = {
        pillar: {
            sub: {facet: text for facet, text in of.items() if facet not in _FORK_LACKS.get(pillar, ())}
            for sub, of in subs.items()
        }
        for pillar, subs in loaded.items()
    }
    return {pillar: {sub: of for sub, of in subs.items() if of} for pillar, subs in kept.items()}


@functools.cache
def checklist_text(pillar: str, facets: int = FACETS[0]) -> str:
    """Write the checklist of one pillar as it stands in the published prompt.

    Raises:
        ConfigError: there is no such pillar.
    """
    if pillar not in rubric():
        raise ConfigError(f"there is no pillar '{pillar}'; there are: {', '.join(rubric())}")
    lines = []
    for sub, of in rubric(facets)[pillar].items():
        lines += [f"## {sub}", *(f"- {facet}: {criterion}" for facet, criterion in of.items())]
    return "\n".join(lines)


@functools.cache
def homes(pillar: str, facets: int = FACETS[0]) -> Mapping[str, str]:
    """Facet -> sub-capability within one pillar."""
    return {facet: sub for sub, of in rubric(facets).get(pillar, {}).items() for facet in of}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one answer on one pillar says.

    `status` is ok, parse_failure (no JSON object) or invalid (JSON on which the official code crashes: a list, a number,
    a score of Infinity). The levels are in [0, 100], None where nothing was marked, and empty unless `status` is ok.
    `foreign` are names that the rubric does not have in this pillar; `unread` facets whose mark is neither 0, 1, 2 nor N/A.
    """

    status: str
    reason: str = ""
    level1: float | None = None
    level2: Mapping[str, float | None] = field(default_factory=dict)
    level3: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    corrected: Mapping[str, Mapping[str, Any]] | None = None
    foreign: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def extract(text: str) -> Any:
    """Read the JSON value in an answer by the official rule, or None when there is none (or it is `null`).

    What follows the last `</think>`, stripped; as a whole, else from its first `{` to its last `}`. So two objects, a
    brace in the prose, comments, trailing commas and truncated JSON have no value.

    Raises:
        ValueError, RecursionError: JSON that Python refuses to hold (an integer of thousands of digits, deep nesting).
    """
    answer = after_thinking(text).strip()
    match = _OBJECT.search(answer)
    for candidate in (answer, match[0] if match else None):
        if candidate is not None:
            try:
                return json.loads(candidate)
            except json.JSONDecodeError:
                continue
    return None


def correct(marks: Mapping[str, Any], pillar: str, facets: int = FACETS[0]) -> Facets:
    """Facets under their sub-capabilities, by the official rule.

    If the first value is an object with "score", every key is taken for a facet. Else two levels are read, and values that
    are no objects are dropped. A facet of the pillar goes to its own sub-capability wherever it stood; names that the
    pillar does not have stay where they are (and count). The later of two marks for one facet counts.
    """
    rename, home = RENAMED.get(pillar, {}), homes(pillar, facets)
    first = next(iter(marks.values()), None)
    flat = isinstance(first, dict) and "score" in first
    found: Facets = {}
    for key, value in marks.items():
        placed = {key: value} if flat else value if isinstance(value, dict) else {}
        for written, mark in placed.items():
            facet = without_surrogates(rename.get(written, written))
            found.setdefault(home.get(facet, facet if flat else without_surrogates(key)), {})[facet] = mark
    return found


def official_points(mark: Any) -> float | None:
    """Points of a mark by the official code: whatever `int()` makes 0, 1 or 2; all else, like N/A, is left out.

    Raises:
        OverflowError: the mark is Infinity.
    """
    if isinstance(mark, str) and mark.upper() == "N/A":
        return None
    try:
        return POINTS.get(int(mark))
    except (TypeError, ValueError):
        return None


def plain_points(mark: Any) -> float | None:
    """Points of a mark that is 0, 1 or 2, as a number or its digit; nothing else is a mark."""
    if isinstance(mark, str) and mark.strip() in ("0", "1", "2"):
        return POINTS[int(mark)]
    if isinstance(mark, int | float) and not isinstance(mark, bool) and mark in POINTS:
        return POINTS[int(mark)]
    return None


def judge_answer(
    text: Any, pillar: str, targeted: Sequence[Sequence[str]] | None = None, facets: int = FACETS[0]
) -> Verdict:
    """Read the verdict in a judge's answer on one pillar.

    Args:
        text: the answer; None and blank texts are parse failures, other types invalid.
        pillar: one of the five.
        targeted: (sub-capability, facet) pairs that the prompt activates: only they enter the levels (paper, Eq. 8 to
            10). None: all that the judge marked (official code).
        facets: How many the rubric has.
    """
    if text is None:
        return Verdict("parse_failure", "no answer")
    if not isinstance(text, str):
        return Verdict("invalid", f"the answer is a {type(text).__name__}, not a text")
    try:
        value = extract(text)
    except (ValueError, RecursionError) as error:
        return Verdict("invalid", f"unreadable JSON: {type(error).__name__}")
    if value is None:
        return Verdict("parse_failure", "no JSON object in the answer" if text.strip() else "the answer is empty")
    if not isinstance(value, dict):
        return Verdict("invalid", f"the answer is a JSON {type(value).__name__}, not an object")
    corrected = correct(value, pillar, facets)
    known = homes(pillar, facets)
    foreign = tuple(sorted(_foreign(corrected, known)))
    try:
        counted = (
            corrected if targeted is None else _targeted(corrected, [each for each in targeted if each[1] in known])
        )
        level3 = {
            sub: {name: _points(mark, targeted is None) for name, mark in of.items()} for sub, of in counted.items()
        }
    except OverflowError:
        return Verdict("invalid", "a score is Infinity", corrected=corrected, foreign=foreign)
    level2 = {sub: mean(of.values()) for sub, of in level3.items()}
    unread = tuple(
        name
        for sub, of in level3.items()
        for name, points in of.items()
        if points is None and not _is_na(counted[sub][name])
    )
    reason = "" if any(level2[sub] is not None for sub in level2) else "no facet was marked 0, 1 or 2"
    return Verdict("ok", reason, mean(level2.values()), level2, level3, corrected, foreign, unread)


def _points(mark: Any, official: bool) -> float | None:
    raw = mark.get("score") if isinstance(mark, dict) else mark
    return official_points(raw) if official else plain_points(raw)


def _is_na(mark: Any) -> bool:
    raw = mark.get("score") if isinstance(mark, dict) else mark
    return isinstance(raw, str) and raw.strip().upper() == "N/A"


def _targeted(corrected: Facets, targeted: Sequence[Sequence[str]]) -> Facets:
    """Keep the activated facets only; one that the judge left out stands there without a mark."""
    kept: Facets = {}
    for sub, facet in targeted:
        kept.setdefault(sub, {})[facet] = corrected.get(sub, {}).get(facet)
    return kept


def _foreign(corrected: Facets, known: Mapping[str, str]) -> set[str]:
    return {f"{sub} / {facet}" for sub, of in corrected.items() for facet in of if known.get(facet) != sub}


def gate(protocol: str, activated: Activated, pillar: str) -> Sequence[Sequence[str]] | None:
    """List the facets that count in a pillar under a protocol; None means all of them.

    Raises:
        ConfigError: the protocol is none of official, strict, paper-gated.
    """
    if protocol in GATED:
        return activated.get(pillar, ())
    if protocol == "official":
        return None
    raise ConfigError(f"the protocol is official or strict (the paper's gating), not '{protocol}'")


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
    judged, and what the judge finds not applicable drops out (Eq. 5). Under the official protocol every facet the judge
    marks counts, under the strict one only the activated facets; both ask for the decoding of Q-Judger. A pillar without a
    usable answer is named in `parts["failed"]` and the mean is over the others. `item.meta["rubric_facets"]` is 38 for
    the rubric of Stability AI's fork of the code.
    """
    facets = activated_facets(item)
    image = image_of(item)
    official = ask.protocol == "official"
    verdicts: dict[str, Verdict] = {}
    outputs: dict[str, str] = {}
    failed: dict[str, tuple[Status, str]] = {}
    size = FACETS[1] if item.meta.get("rubric_facets") == FACETS[1] else FACETS[0]
    for pillar in facets:
        try:
            reply = await ask(
                "qwen_image_bench/pillar",
                role="judge",
                images=[image],
                params=DECODING,
                accept_truncated=official,
                prompt=item.prompt,
                pillar=pillar,
                checklist=checklist_text(pillar, size),
            )
        except Unanswered as failure:
            failed[pillar] = (failure.status, failure.reason)
            continue
        outputs[pillar] = reply.text
        verdict = judge_answer(reply.text, pillar, gate(ask.protocol, facets, pillar), size)
        if verdict.status == "ok":
            verdicts[pillar] = verdict
        else:
            failed[pillar] = (Status.UNPARSED, f"{verdict.status}: {verdict.reason}")
    return _score(verdicts, outputs, failed)


def activated_facets(item: Item) -> Activated:
    """Read the facets that an item's prompt activates: all of the rubric, where it names none.

    Raises:
        Unanswered: it names what is not in the rubric.
    """
    given = item.meta.get("facets")
    if given is None:
        return {pillar: [[sub, facet] for facet, sub in homes(pillar).items()] for pillar in rubric()}
    try:
        found = {str(pillar): [(str(sub), str(facet)) for sub, facet in pairs] for pillar, pairs in given.items()}
    except (AttributeError, TypeError, ValueError) as error:
        reason = "its facets are no object of pillar: [[sub-capability, facet], ...]"
        raise Unanswered(Status.BAD_INPUT, reason) from error
    for pillar, pairs in found.items():
        if pillar not in rubric():
            raise Unanswered(Status.BAD_INPUT, f"the rubric has no pillar '{pillar}'")
        for sub, facet in pairs:
            if homes(pillar).get(facet) != sub:
                raise Unanswered(Status.BAD_INPUT, f"the rubric has no facet '{facet_name(pillar, sub, facet)}'")
    if not any(found.values()):
        raise Unanswered(Status.BAD_INPUT, "it names no facets to judge")
    return found


def _score(
    verdicts: Mapping[str, Verdict], outputs: Mapping[str, str], failed: Mapping[str, tuple[Status, str]]
) -> Score:
    parts: dict[str, Any] = {
        "level1": {pillar: verdict.level1 for pillar, verdict in verdicts.items()},
        "level2": {pillar: dict(verdict.level2) for pillar, verdict in verdicts.items()},
        "level3": {
            pillar: {sub: dict(of) for sub, of in verdict.level3.items()} for pillar, verdict in verdicts.items()
        },
        "foreign": {pillar: list(verdict.foreign) for pillar, verdict in verdicts.items() if verdict.foreign},
        "unread": {pillar: list(verdict.unread) for pillar, verdict in verdicts.items() if verdict.unread},
        "failed": {pillar: f"{status}: {reason}" for pillar, (status, reason) in failed.items()},
        "outputs": dict(outputs),
    }
    reason = "; ".join(f"{pillar}: {reason}" for pillar, (_, reason) in failed.items())
    total = mean(parts["level1"].values())
    if total is not None:
        return Score.of(total, reason=f"without {reason}" if reason else "", **parts)
    status = next((status for status, _ in failed.values()), Status.UNPARSED)
    return Score.none(status, reason or "no facet was marked 0, 1 or 2", **parts)
