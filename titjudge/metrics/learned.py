"""The learned baselines as metrics: CLIPScore, PickScore, HPSv2 and 3, MPS, ImageReward, BLIP-2, VQAScore, Q-Eval-Score...

Each is a row of `titjudge.core.learned_metrics.TABLE`; its model runs as the provider `scorer` and says how much of the prompt it
read. Registry names are the keys of `METRICS`.

FGA-BLIP2 also scores the elements of a prompt, words as they stand in it, where `item.meta["elements"]` lists them; a type
in parentheses behind them (`red cube (color)`, as EvalMuse writes it) is not read by the model.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from titjudge.core.learned_metrics import BUILT_IN, Baseline
from titjudge.core.score_parts import ElementScores, element_words
from titjudge.core.types import Ask, Item, Score
from titjudge.metrics import Metric, metric
from titjudge.metrics._shared import image_of, prompt_read

_ELEMENT = "element: "  # begins the names of an element's numbers among the parts of a measurement


class Measurement(BaseModel):
    """What a learned metric's model answers: the score, the tokens read and the tokens there were, raw parts."""

    model_config = ConfigDict(extra="ignore")

    score: float = Field(allow_inf_nan=False)
    tokens_used: int = Field(ge=0)
    tokens_total: int = Field(ge=0)
    parts: dict[str, float] = Field(default_factory=dict)


def _elements(item: Item) -> list[str]:
    """List the item's elements.

    Raises:
        ValueError: they are no list of texts.
    """
    found = item.meta.get("elements") or []
    if not isinstance(found, list) or not all(isinstance(each, str) and each.strip() for each in found):
        raise ValueError("the item's elements are no list of texts")
    return found


def _score(found: Measurement, elements: list[str]) -> Score:
    read, cut = prompt_read(found.tokens_used, found.tokens_total)
    reasons = [cut] if cut else []
    own = {name: value for name, value in found.parts.items() if not name.startswith(_ELEMENT)}
    parts: dict[str, Any] = {**own, **read}
    if elements:
        told = {each: found.parts.get(f"{_ELEMENT}{element_words(each)[0]}") for each in elements}
        parts |= ElementScores(elements=told)
        missing = [each for each, value in told.items() if value is None]
        if missing:
            reasons.append(
                f"{len(missing)} of {len(elements)} elements are not in the prompt as read: {', '.join(missing[:3])}"
            )
    return Score.of(found.score, reason="; ".join(reasons), **parts)


def _declare(row: Baseline) -> Metric:
    async def measure(item: Item, ask: Ask) -> Score:
        elements = _elements(item) if row.options.get("elements") else []
        more: dict[str, Any] = {"elements": [element_words(each)[0] for each in elements]} if elements else {}
        reply = await ask(
            "baselines/elements" if elements else "baselines/text",
            role=f"scorer/{row.key}",
            images=[image_of(item)],
            schema=Measurement,
            prompt=item.prompt,
            **more,
        )
        return _score(reply.data, elements)

    measure.__doc__ = row.summary
    return metric(row.key, roles=(f"scorer/{row.key}",), range=row.range, source=row.source)(measure)


METRICS: dict[str, Metric] = {row.key: _declare(row) for row in BUILT_IN}
globals().update(METRICS)  # the registry takes their names for attributes of this module
