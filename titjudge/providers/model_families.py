"""What each family of hosted models accepts and does: one row a family, the first that matches counts.

Rows say what the providers' documentation says of their families, as known in November 2026 ("Reasoning models" and "Images
and vision" of OpenAI, "Thinking", "Gemini models" and "What's new in Gemini 3.6 Flash and 3.5 Flash-Lite" of Google,
"Models overview" and "Migration guide" of Anthropic);
none was tried against a live service. A model without a row is assumed to accept everything; its server rejects what it
does not take.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from titjudge.core.answer_probabilities import TOP
from titjudge.core.types import Request
from titjudge.providers import Capabilities

_LOCAL_ONLY = {"top_k", "min_p", "repetition_penalty", "chat_template_kwargs"}
_SAMPLING = {"temperature", "top_p", "frequency_penalty", "presence_penalty", "logprobs", "top_logprobs", "logit_bias"}
_OPENAI = frozenset(_LOCAL_ONLY | {"thinking_budget", "thinking_level", "media_resolution"})
_OPENAI_REASONING = frozenset(_OPENAI | _SAMPLING | {"stop"})
_COMPATIBLE = frozenset({"thinking_budget", "thinking_level", "media_resolution"})
_GEMINI = frozenset(
    {"detail", "reasoning_effort", "frequency_penalty", "presence_penalty", "logit_bias"} | _LOCAL_ONLY - {"top_k"}
)
_CLAUDE = frozenset(
    {"seed", "detail", "logprobs", "top_logprobs", "logit_bias", "frequency_penalty", "presence_penalty"}
    | {"thinking_level", "media_resolution"}
    | _LOCAL_ONLY - {"top_k"}
)


@dataclass(frozen=True, slots=True)
class Family:
    """One row.

    Attributes:
        limit_name: What `max_tokens` is called in a request.
        thinks: Hidden tokens are billed as output.
        thinking: How many of them to leave room for when no budget is set.
        thinking_asked: The same, of a model that thinks only where a `reasoning_effort` is set.
        omit_thinking: What it does not accept besides `omit` where it is asked to think.
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

    def sent(self, request: Request) -> dict[str, Any]:
        """Return the parameters that are sent: those of the request, without those that the family rejects."""
        asked = {"logprobs": True, "top_logprobs": TOP} if request.choices else {}
        params = {**asked, **request.params}
        left_out = self.capabilities().left_out(params)
        return {name: value for name, value in params.items() if name not in left_out and value is not None}


_REASONS: dict[str, Any] = {
    "omit": _OPENAI_REASONING, "limit_name": "max_completion_tokens", "thinks": True, "thinking": 8_192,
}  # fmt: skip
_NO_THINKING = _GEMINI | {"thinking_budget", "thinking_level"}
_BY_BUDGET = _GEMINI | {"thinking_level"}
_OWN_SAMPLING = _GEMINI | {"temperature", "top_p", "top_k"}  # ignored, and an error in later models
_FIXED_SAMPLING = _CLAUDE | {"temperature", "top_p", "top_k"}

# "Building with extended thinking" of Anthropic: no temperature but 1, no top_k; what is thought counts as output.
_ON_REQUEST: dict[str, Any] = {"thinking_asked": 8_192, "omit_thinking": frozenset({"temperature", "top_k"})}
_THINKS: dict[str, Any] = {"thinks": True, "thinking": 8_192, "max_output": 65_536}
_OPEN_THINKERS = r".*(thinking|reasoning|reasoner)|qwq|qvq|.*\br1\b"  # open models that always think, by their names
_OTHERS = (  # open models, on servers that speak OpenAI's language
    Family("compatible, thinking", _OPEN_THINKERS, _COMPATIBLE, tools=False, **_THINKS),
    Family("compatible", "", _COMPATIBLE, tools=False),
)
_FAMILIES: dict[str, tuple[Family, ...]] = {
    "openai": (
        Family("gpt-5-chat", r"gpt-5(\.\d+)?-chat", _OPENAI, tools=False),
        Family("o1, first", r"o1-mini|o1-preview", max_output=100_000, images=False, tools=False, **_REASONS),
        Family("o-series, text only", r"o3-mini", max_output=100_000, images=False, **_REASONS),
        Family("o-series", r"o[1-9]\b", max_output=100_000, **_REASONS),
        Family("gpt-5", r"gpt-5(\.1)?(?!\.)", max_output=128_000, **_REASONS),
        Family("gpt-5.2 and later", r"(gpt|chatgpt)-[5-9]", max_output=128_000, tools=False, **_REASONS),
        Family("gpt-4.1", r"gpt-4\.1", _OPENAI, max_output=32_768),
        Family("gpt-4o", r"(chat)?gpt-4o|gpt-4\.5", _OPENAI),
        Family("gpt-4-turbo", r"gpt-4-(turbo|vision)", _OPENAI, max_output=4_096, schema=False),
        Family("gpt-4, text only", r"gpt-(4|3\.5)\b", _OPENAI, max_output=8_192, images=False, schema=False),
    ),
    "gemini": (
        Family("gemma", r"gemma", _NO_THINKING, max_output=8_192, schema=False, system=False, tools=False),
        Family("gemini-2.0", r"gemini-(1|2\.0)", _NO_THINKING, max_output=8_192),
        Family("gemini-2.5-flash-lite", r"gemini-2\.5-flash-lite", _BY_BUDGET, thinks=True, max_output=65_536),
        Family("gemini-2.5", r"gemini-2\.5", _BY_BUDGET, thinks=True, thinking=8_192, max_output=65_536),
        Family("gemini-3", r"gemini-3(-|\.[0-4](?!\d)|\.5(?!-flash-lite)(?!\d))", _GEMINI, **_THINKS),
        Family(
            "gemini-3.5-flash-lite, 3.6 and later", r"gemini-([3-9]|flash(-lite)?-latest)", _OWN_SAMPLING, **_THINKS
        ),
        Family("gemini, unknown", r"", _GEMINI, **_THINKS),
    ),
    "anthropic": (
        Family("claude-3", r"claude-3", _CLAUDE, max_output=8_192, **_ON_REQUEST),
        Family(
            "claude-4", r"claude-(opus|sonnet|haiku)-4(-[0-6])?(?!-[7-9])", _CLAUDE, max_output=64_000, **_ON_REQUEST
        ),
        Family("claude-4.7 and later", r"claude", _FIXED_SAMPLING, max_output=128_000, **_ON_REQUEST),
    ),
}


@lru_cache(maxsize=256)
def family(provider: str, model: str, own: tuple[Family, ...] = ()) -> Family:
    """Find the row for a model, first among a provider's `own`.

    `provider` is openai, gemini, anthropic or litellm (then the model's prefix says which).

    >>> family("openai", "o4-mini").limit_name
    'max_completion_tokens'
    """
    name, table = bare(model), vendor(model) if provider == "litellm" else provider
    return next(row for row in (*own, *_FAMILIES.get(table, ()), *_OTHERS) if re.match(row.pattern, name))


def thinking_room(model: str) -> int:
    """Return how many tokens an open model thinks before it answers, as far as its name says that it does; else 0.

    >>> thinking_room("Qwen/Qwen3-VL-8B-Thinking"), thinking_room("Qwen/Qwen3-VL-8B-Instruct")
    (8192, 0)
    """
    return family("", model).thinking


def vendor(model: str) -> str:
    """Return the vendor of a model by its name: openai, gemini, anthropic, or "" where the name does not say."""
    name = bare(model)
    if name.startswith("claude"):
        return "anthropic"
    if name.startswith(("gemini", "gemma")):
        return "gemini"
    return "openai" if re.match(r"(chat)?gpt-\d|o[1-9]\b", name) else ""


def bare(model: str) -> str:
    """Return the model's own name, without prefixes as of `models/gemini-2.5-pro` and `bedrock/eu.anthropic.claude-3`."""
    name = model.rsplit("/", 1)[-1].lower()
    match = re.search(r"(claude|gemini)-.*", name)
    return match.group(0) if match else name
