"""UnifiedReward: ratings by the UnifiedReward models (github.com/CodeGoat24/UnifiedReward; prompts quoted exactly)."""

from __future__ import annotations

import re

from titjudge.core.structured_output import after_thinking
from titjudge.core.types import Ask, Item, Json, Reply, Score, Status
from titjudge.metrics import metric
from titjudge.metrics.rubric import questions

_NUMBER = r"\s*\**\s*([-+]?\d+(?:\.\d+)?)"
_FINAL = re.compile(r"final score\**\s*:" + _NUMBER, re.IGNORECASE)
_AXES = ("alignment", "coherence", "style")


def read_final_score(text: str) -> float | None:
    """Return the number after the last "Final Score:"; None unless there is one from 1 to 5."""
    return _in_range(_FINAL.findall(after_thinking(text)))


def read_axes(text: str) -> dict[str, float] | None:
    """Return alignment, coherence and style ("Alignment Score (1-5): 2.69"); None unless all three are from 1 to 5."""
    answer = after_thinking(text)
    scores = {
        axis: _in_range(re.findall(rf"{axis} score\**\s*\(1-5\)\**\s*:{_NUMBER}", answer, re.IGNORECASE))
        for axis in _AXES
    }
    complete = {axis: score for axis, score in scores.items() if score is not None}
    return complete if len(complete) == len(_AXES) else None


def _in_range(numbers: list[str]) -> float | None:
    value = float(numbers[-1]) if numbers else None
    return value if value is not None and 1 <= value <= 5 else None


async def _rate(metric: str, item: Item, ask: Ask) -> Reply:
    (question,) = questions(metric, item, ask).values()
    return await ask(planned=question.declared.planned, **question.request)


@metric(
    "unifiedreward",
    roles=("captioner",),
    range=(1, 5),
    source="UnifiedReward 1.0, github.com/CodeGoat24/UnifiedReward; prompt quoted exactly; captioner CodeGoat24/UnifiedReward-qwen-7b",
)
async def unifiedreward(item: Item, ask: Ask) -> Score:
    """UnifiedReward 1.0, point-wise: the "Final Score" (1 to 5) for alignment and quality together."""
    reply = await _rate("unifiedreward", item, ask)
    value = read_final_score(reply.text)
    if value is None:
        return _unparsed(reply, "no 'Final Score:' from 1 to 5")
    return Score.of(value, output=reply.text)


@metric(
    "unifiedreward-2",
    roles=("captioner",),
    range=(1, 5),
    source="UnifiedReward 2.0, github.com/CodeGoat24/UnifiedReward; prompt quoted exactly; captioner CodeGoat24/UnifiedReward-2.0-qwen-7b",
)
async def unifiedreward_2(item: Item, ask: Ask) -> Score:
    """UnifiedReward 2.0, point-wise: the alignment score (1 to 5); coherence and style are kept beside it."""
    reply = await _rate("unifiedreward-2", item, ask)
    axes = read_axes(reply.text)
    if axes is None:
        return _unparsed(reply, "no alignment, coherence and style score from 1 to 5 each")
    parts: Json = {**axes, "output": reply.text}
    return Score.of(axes["alignment"], **parts)


def _unparsed(reply: Reply, why: str) -> Score:
    return Score.none(Status.UNPARSED, f"the answer has {why}", output=reply.text)
