"""The types that describe a vendor's models, on whichever server they run, and the rules that several vendors share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from titjudge.core.answer_probabilities import TOP
from titjudge.core.types import Json, Request
from titjudge.providers.base import Capabilities, rejected

Rule = Callable[[int, int, str], int]
"""From width and height in pixels and the detail that is asked for, the tokens of an image."""
LOCAL_ONLY = frozenset({"top_k", "min_p", "repetition_penalty", "chat_template_kwargs"})
ON_REASONING: Json = {"thinks": True, "thinking": 8_192, "max_output": 65_536}


@dataclass(frozen=True, slots=True)
class Family:
    """Accepted parameters and abilities of the models that a pattern matches.

    Attributes:
        pattern: Regular expression that the beginning of a model's name matches.
        omit: Parameters that they do not accept.
        limit_name: What `max_tokens` is called in a request.
        thinks: Hidden tokens are billed as output.
        thinking: Number of hidden tokens to reserve when no budget is set.
        thinking_asked: The same, of a model that thinks only if a `reasoning_effort` is set.
        omit_thinking: Parameters that it rejects in addition to `omit` if it is asked to think.
        max_output: Bounds the tokens of an answer for which no `max_tokens` is set.
        system: It takes a system turn.
        tools: It calls tools in chat completions (OpenAI's from 5.2 on, which reason, do so on another address only).
    """

    name: str
    pattern: str
    omit: frozenset[str] = frozenset()
    limit_name: str = "max_tokens"
    thinks: bool = False
    thinking: int = 0
    max_output: int = 16_384
    images: bool = True
    schema: bool = True
    system: bool = True
    tools: bool = True
    thinking_asked: int = 0
    omit_thinking: frozenset[str] = frozenset()

    def capabilities(self, *, tools: bool = False) -> Capabilities:
        """Return the capabilities of a model of this family; `tools` shows whether its provider sends tools."""
        return Capabilities(
            images=self.images,
            schema=self.schema,
            omit=self.omit,
            thinking=self.thinking,
            tools=tools,
            probabilities="top_logprobs" not in self.omit,
            omit_thinking=self.omit_thinking,
            thinking_asked=self.thinking_asked,
        )

    def sent(self, request: Request) -> Json:
        """Return the parameters that are sent: the request's, without those the family rejects."""
        logprobs = {"logprobs": True, "top_logprobs": TOP} if request.choices else {}
        params = {**logprobs, **request.params}
        left_out = rejected(params, self.omit, self.omit_thinking)
        return {name: value for name, value in params.items() if name not in left_out and value is not None}


@dataclass(frozen=True, slots=True)
class ImageRule:
    """How many tokens an image has for the models that a pattern matches.

    Attributes:
        pattern: Regular expression that the beginning of a model's name matches.
        rule: Returns the tokens of an image from width and height in pixels, and `detail`.
        source: Publication of the rule.
        margin: Tokens that are added for a bound, if more than the published number was seen billed.
    """

    pattern: str
    rule: Rule
    source: str
    margin: int = 0


def grid(width: float, height: float, unit: int) -> int:
    """Count the squares of `unit` pixels that cover an area of these pixels."""
    return math.ceil(round(width / unit, 6)) * math.ceil(round(height / unit, 6))


@dataclass(frozen=True, slots=True)
class BatchDiscount:
    """The cost of a vendor's batch jobs relative to its list price, from a date on.

    Attributes:
        factor: Of the list price, 0 to 1.
        since: The first day.
        source: The announcement.
    """

    factor: float
    since: date
    source: str


@dataclass(frozen=True, slots=True)
class Vendor:
    """One vendor.

    Attributes:
        name: As `Provider.vendor` and genai-prices call it.
        model_names: Regular expression that the beginning of its models' names matches.
        families: The parameters its models accept; the first row that matches counts.
        image_rules: How many tokens an image has for them; the first row that matches counts.
        batch_discounts: The cost of batch jobs; the newest one that is in force counts.
    """

    name: str
    model_names: str
    families: tuple[Family, ...]
    image_rules: tuple[ImageRule, ...]
    batch_discounts: tuple[BatchDiscount, ...] = ()
