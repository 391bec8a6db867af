"""VQAScore, the expected-value LMM score and Q-Eval with any captioner that returns token probabilities.

The metrics of similar names in `titjudge.metrics.learned` run fixed models in this process; these ask the captioner the
same question, wherever it runs, and compute the same number. Where a server returns only its likeliest tokens, the
score is computed from these, and the parts `lower` and `upper` bound what it would be with all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from titjudge.core.answer_probabilities import Expectation, Probability, expectation
from titjudge.core.errors import Unanswered
from titjudge.core.score_parts import Bounds
from titjudge.core.types import Ask, Item, Score, Status
from titjudge.data.learned_metrics import TABLE
from titjudge.metrics import metric
from titjudge.metrics._shared import image_of

_WIDE = 0.005  # of the score's range: wider bounds are named in the score's reason
_VQA, _DIGIT, _Q_EVAL = (
    TABLE["vqascore-qwen2.5-vl-7b"],
    TABLE["lmm-score-expected-qwen2.5-vl-7b"],
    TABLE["q-eval-score"],
)


async def _probabilities(item: Item, ask: Ask, template: str, answers: Mapping[str, Any]) -> Mapping[str, Probability]:
    """Ask for the probability of each answer, which is one token exactly as spelled, as in the official code."""
    choices = {answer: (answer,) for answer in answers}
    reply = await ask(template, role="captioner", images=[image_of(item)], prompt=item.prompt, choices=choices)
    return reply.probabilities


def _score(value: float, bounds: Probability | Expectation, span: float, **parts: Any) -> Score:
    """Make a score; with bounds among its parts where they differ, and a reason where they differ by much of `span`."""
    if bounds.lower == bounds.upper:
        return Score.of(value, **parts)
    wide = bounds.upper - bounds.lower > _WIDE * span
    why = f"between {bounds.lower:.3g} and {bounds.upper:.3g}: only the likeliest tokens are known" if wide else ""
    parts |= Bounds(lower=bounds.lower, upper=bounds.upper)
    return Score.of(value, reason=why, **parts)


async def _expected(item: Item, ask: Ask, options: Mapping[str, Any]) -> Score:
    values: Mapping[str, float] = options["labels"]
    probabilities = await _probabilities(item, ask, options["template"], values)
    expected = expectation(probabilities, values)
    if expected is None:
        raise Unanswered(Status.UNPARSED, f"none of {', '.join(values)} is among the likeliest tokens of the answer")
    mass = sum(probability.lower for probability in probabilities.values())
    return _score(expected.value, expected, max(values.values()) - min(values.values()), mass=mass)


@metric("vqascore", roles=("captioner",), range=_VQA.range, source="github.com/linzhiqiu/t2v_metrics 3.1")
async def vqascore(item: Item, ask: Ask) -> Score:
    """VQAScore with the captioner: P(Yes) at the first token of its answer."""
    yes = (await _probabilities(item, ask, _VQA.options["template"], {_VQA.options["answer"]: 1}))["Yes"]
    return _score(yes.lower, yes, 1.0)


@metric("lmm-score-expected", roles=("captioner",), range=_DIGIT.range, source=_DIGIT.source)
async def lmm_score_expected(item: Item, ask: Ask) -> Score:
    """LMM score as an expected value with the captioner: ten digits weighted by their probability; few ties."""
    return await _expected(item, ask, _DIGIT.options)


@metric("q-eval", roles=("captioner",), range=_Q_EVAL.range, source=f"{_Q_EVAL.source}; captioner {_Q_EVAL.weights}")
async def q_eval(item: Item, ask: Ask) -> Score:
    """Q-Eval-Score with the captioner: five words from Excellent (1) to Bad (0), weighted by their probability."""
    return await _expected(item, ask, _Q_EVAL.options)
