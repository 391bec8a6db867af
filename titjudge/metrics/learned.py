"""Learned metrics: models that were trained to score images.

Each is a row of `titjudge.data.learned_metrics`; its model runs as the provider `scorer`, which also returns how
many tokens of the prompt the model read.

LMM4LMM, VisionReward and any metric that `external` declares are computed by a command of the user's
(`titjudge.providers.learned.external` describes its input and output).

FGA-BLIP2 also scores elements of the prompt (phrases that occur in it) if `item.meta["elements"]` lists them; a type
in parentheses (`red cube (color)`, as EvalMuse writes it) is not passed to the model.
"""

from __future__ import annotations

import functools

from pydantic import BaseModel, ConfigDict, Field

from titjudge.core import item_meta
from titjudge.core.errors import ConfigError
from titjudge.core.score_parts import ElementScores, element_words
from titjudge.core.types import Ask, Item, Json, Score
from titjudge.data.learned_metrics import COMMAND, NATIVE, LearnedMetric, find
from titjudge.metrics import Metric, Sources, metric
from titjudge.metrics._shared import image_of, prompt_read, sources_of

_ELEMENT = "element: "  # prefix of the elements' scores among the parts of a measurement


class Measurement(BaseModel):
    """What a learned metric's model answers: the score, the tokens read and the tokens there were, raw parts."""

    model_config = ConfigDict(extra="ignore")

    score: float = Field(allow_inf_nan=False)
    tokens_used: int = Field(ge=0)
    tokens_total: int = Field(ge=0)
    parts: dict[str, float] = Field(default_factory=dict)


class CommandAnswer(BaseModel):
    """What the command answers; the counts are given together or not at all."""

    model_config = ConfigDict(extra="ignore", title="Answer")  # its name in the keys of caches on disk

    score: float = Field(allow_inf_nan=False)
    tokens_used: int | None = Field(default=None, ge=0)
    tokens_total: int | None = Field(default=None, ge=0)
    parts: dict[str, float] = Field(default_factory=dict)
    reason: str = ""


def _score(measured: Measurement, elements: list[str]) -> Score:
    """Make the score of a measurement, with the scores of the prompt's elements, and with a note if tokens were not read."""
    read, cut = prompt_read(measured.tokens_used, measured.tokens_total)
    reasons = [cut] if cut else []
    raw_parts = {name: value for name, value in measured.parts.items() if not name.startswith(_ELEMENT)}
    parts: Json = {**raw_parts, **read}
    if elements:
        scores = {element: measured.parts.get(f"{_ELEMENT}{element_words(element)[0]}") for element in elements}
        parts |= ElementScores(elements=scores)
        missing = [element for element, value in scores.items() if value is None]
        if missing:
            reasons.append(
                f"{len(missing)} of {len(elements)} elements are not in the prompt as read: {', '.join(missing[:3])}"
            )
    return Score.of(measured.score, reason="; ".join(reasons), **parts)


def _declare(row: LearnedMetric) -> Metric:
    """Declare the metric of a row of the table."""

    async def measure(item: Item, ask: Ask) -> Score:
        elements = (item_meta.ELEMENTS.checked(item) or []) if row.options.get("elements") else []
        template, variables = "baselines/text", Json(prompt=item.prompt if row.reads_prompt else "")
        if elements:
            template = "baselines/elements"
            variables["elements"] = [element_words(element)[0] for element in elements]
        images = [*(sources_of(item) if row.reads_source else ()), image_of(item)]
        reply = await ask(template, role=f"scorer/{row.key}", images=images, schema=Measurement, **variables)
        return _score(reply.data, elements)

    measure.__doc__ = row.summary
    sources: Sources = "required" if row.reads_source else "ignored"
    return metric(row.key, roles=(f"scorer/{row.key}",), range=row.range, source=row.source, sources=sources)(measure)


def external(
    name: str, *, range: tuple[float, float], source: str, summary: str, higher_is_better: bool = True
) -> Metric:
    """Declare a metric that the command of the model `external/NAME` computes, for your entry point.

    Args:
        name: Name of the metric and of its command (`TITJUDGE_EXTERNAL_NAME`).
        range: Its lowest and highest value.
        source: The paper or code that defines it.
        summary: One line for the list of metrics.
        higher_is_better: Whether a higher value is a better image.
    """

    async def measure(item: Item, ask: Ask) -> Score:
        reply = await ask(
            "baselines/text", role=f"external/{name}", images=[image_of(item)], schema=CommandAnswer, prompt=item.prompt
        )
        return _command_score(reply.data)

    measure.__doc__ = summary
    return metric(name, roles=(f"external/{name}",), range=range, source=source, higher_is_better=higher_is_better)(
        measure
    )


def _command_score(answer: CommandAnswer) -> Score:
    """Make the score of an answer, with a reason if the command reports that it did not read the whole prompt."""
    parts: Json = dict(answer.parts)
    if answer.tokens_used is None or answer.tokens_total is None:
        return Score.of(answer.score, reason=answer.reason, **parts)
    read, cut = prompt_read(answer.tokens_used, answer.tokens_total)
    return Score.of(answer.score, reason="; ".join(filter(None, (cut, answer.reason))), **parts, **read)


@functools.cache
def learned_metric(name: str) -> Metric:
    """Make the metric of a row, as the registry asks for it.

    Raises:
        ConfigError: There is no such row, or none that titjudge or the user's command computes.
    """
    row = find(name)
    if row is not None and row.status == COMMAND:
        return external(row.key, range=row.range, source=row.source, summary=row.summary)
    if row is None or row.status != NATIVE:
        raise ConfigError(f"unknown learned metric '{name}'. See the list of `metrics`")
    return _declare(row)
