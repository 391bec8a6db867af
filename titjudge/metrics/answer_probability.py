"""VQAScore, the expected-value LMM score and Q-Eval with any captioner that returns token probabilities.

The metrics of similar names in `titjudge.metrics.learned` run fixed models in this process; these ask the captioner the
same question, wherever it runs, and compute the same number. There is a score if the possible answers, in all spellings,
have at least half of the probability; otherwise the model answers something else. If a server returns only its likeliest
tokens, the score is computed from these, and the parts `lower` and `upper` bound the score with all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from titjudge.core.answer_probabilities import Choices, Expectation, Probability, expectation
from titjudge.core.errors import Unanswered
from titjudge.core.score_parts import Bounds
from titjudge.core.types import Ask, Item, Json, Score, Status, Values
from titjudge.data.learned_metrics import TABLE
from titjudge.metrics import metric
from titjudge.metrics._shared import Mass, image_of, mass_of

_WIDE = 0.005  # of the score's range: wider bounds are given in the score's reason
_VQA, _DIGIT, _Q_EVAL = (
    TABLE["vqascore-qwen2.5-vl-7b"],
    TABLE["lmm-score-expected-qwen2.5-vl-7b"],
    TABLE["q-eval-score"],
)


async def _probabilities(
    item: Item, ask: Ask, template: str, answers: Iterable[str]
) -> tuple[Mapping[str, Probability], Mass]:
    """Ask for the probability of each answer: of all its spellings, or of the one in the official code.

    Raises:
        Unanswered: The answers have less than half of the probability.
    """
    official = ask.protocol == "official"
    choices: Choices = {answer: (answer,) for answer in answers} if official else tuple(answers)
    reply = await ask(template, role="captioner", images=[image_of(item)], prompt=item.prompt, choices=choices)
    return reply.probabilities, mass_of(reply, official=official)


def _score(value: float, bounds: Probability | Expectation, span: float, mass: Mass) -> Score:
    """Make a score, with bounds in its parts if they differ, and a reason if they differ by much of `span`."""
    reasons, parts = [mass.warning], Json(mass=mass.share)
    if bounds.lower != bounds.upper:
        parts |= Bounds(lower=bounds.lower, upper=bounds.upper)
        if bounds.upper - bounds.lower > _WIDE * span:
            reasons.append(f"between {bounds.lower:.3g} and {bounds.upper:.3g}: only the likeliest tokens are known")
    return Score.of(value, reason="; ".join(filter(None, reasons)), **parts)


async def _expected(item: Item, ask: Ask, options: Values) -> Score:
    values: Mapping[str, float] = options["labels"]
    probabilities, mass = await _probabilities(item, ask, options["template"], values)
    expected = expectation(probabilities, values)
    if expected is None:
        raise Unanswered(Status.UNPARSED, f"none of {', '.join(values)} is among the likeliest tokens of the answer")
    return _score(expected.value, expected, max(values.values()) - min(values.values()), mass)


@metric(
    "vqascore",
    roles=("captioner",),
    range=_VQA.range,
    version="2",  # 1 counted one spelling of an answer, and scored whatever the model began with
    source="github.com/linzhiqiu/t2v_metrics 3.1",
)
async def vqascore(item: Item, ask: Ask) -> Score:
    """VQAScore with the captioner: P(Yes) at the first token of its answer.

    Yes counts in every spelling; under the official protocol only as `Yes`.
    """
    probabilities, mass = await _probabilities(item, ask, _VQA.options["template"], (_VQA.options["answer"], "No"))
    yes = probabilities[_VQA.options["answer"]]
    return _score(yes.lower, yes, 1.0, mass)


@metric("lmm-score-expected", roles=("captioner",), range=_DIGIT.range, version="2", source=_DIGIT.source)
async def lmm_score_expected(item: Item, ask: Ask) -> Score:
    """LMM score as an expected value with the captioner: ten digits weighted by their probability; few ties."""
    return await _expected(item, ask, _DIGIT.options)


@metric(
    "q-eval",
    roles=("captioner",),
    range=_Q_EVAL.range,
    version="2",
    source=f"{_Q_EVAL.source}; captioner {_Q_EVAL.weights}",
)
async def q_eval(item: Item, ask: Ask) -> Score:
    """Q-Eval-Score with the captioner: five words from Excellent (1) to Bad (0), weighted by their probability."""
    return await _expected(item, ask, _Q_EVAL.options)
