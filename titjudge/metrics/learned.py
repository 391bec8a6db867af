"""Learned metrics: models with weights of their own that score an image.

Each is a row of `titjudge.data.learned_metrics`; its model runs as the provider `scorer`, which also returns how
many tokens of the prompt the model read.

FGA-BLIP2 also scores elements of the prompt (phrases that occur in it) where `item.meta["elements"]` lists them; a type
in parentheses (`red cube (color)`, as EvalMuse writes it) is not passed to the model.
"""

from __future__ import annotations

import functools
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from titjudge.core import item_meta
from titjudge.core.errors import ConfigError
from titjudge.core.score_parts import ElementScores, element_words
from titjudge.core.types import Ask, Item, Score
from titjudge.data.learned_metrics import NATIVE, LearnedMetric, find
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


def _score(measured: Measurement, elements: list[str]) -> Score:
    """Make the score of a measurement, with those of elements of the prompt, and say what was not read."""
    read, cut = prompt_read(measured.tokens_used, measured.tokens_total)
    reasons = [cut] if cut else []
    raw_parts = {name: value for name, value in measured.parts.items() if not name.startswith(_ELEMENT)}
    parts: dict[str, Any] = {**raw_parts, **read}
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
        template, variables = "baselines/text", dict[str, Any](prompt=item.prompt if row.reads_prompt else "")
        if elements:
            template = "baselines/elements"
            variables["elements"] = [element_words(element)[0] for element in elements]
        images = [*(sources_of(item) if row.reads_source else ()), image_of(item)]
        reply = await ask(template, role=f"scorer/{row.key}", images=images, schema=Measurement, **variables)
        return _score(reply.data, elements)

    measure.__doc__ = row.summary
    sources: Sources = "required" if row.reads_source else "ignored"
    return metric(row.key, roles=(f"scorer/{row.key}",), range=row.range, source=row.source, sources=sources)(measure)


@functools.cache
def learned_metric(name: str) -> Metric:
    """Make the metric of a row, as the registry asks for it.

    Raises:
        ConfigError: There is no such row, or none that titjudge computes.
    """
    row = find(name)
    if row is None or row.status != NATIVE:
        raise ConfigError(f"there is no learned metric '{name}' that runs here")
    return _declare(row)
