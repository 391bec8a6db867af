"""Read from an error which parameter of a request a server refuses.

Wordings of OpenAI, Azure, Anthropic, Bedrock, Google, Mistral, Groq, vLLM and litellm, each as its service answers it. An error
may repeat words of the prompt, so a wording counts only where nothing that is quoted goes before it.
"""

from __future__ import annotations

import re

from titjudge.providers.base import SAMPLING_PARAMETERS

_BEFORE = r"^[^'\"`\n]{0,90}?"  # no quotation: it may be the prompt's
_NAME = r"(?P<quote>[`'\"]?)\b(?P<name>[a-z][a-zA-Z_]+)\b(?P=quote)"
_REFUSALS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_BEFORE}\b(?:unsupported|unrecognized|unknown|unexpected)(?: request)? (?:parameter|value|argument|field|name|option|"
        rf"keyword argument)s?(?: supplied)?:? {_NAME}",
        rf"{_BEFORE}{_NAME}(?: parameter| argument)?(?: is|:) (?:not (?:supported|allowed|permitted|enabled)|unsupported|deprecated|"
        rf"no longer supported|extra (?:inputs|fields) (?:are )?not permitted)",
        rf"{_BEFORE}{_NAME} (?:does not support|may only be set|can only be set)",
        rf"{_BEFORE}[`'\"]*temperature[`'\"]* and {_NAME} cannot both be",
        rf"{_BEFORE}(?:does not|doesn't|do not|don't) support(?: parameters?)?:? ?\[?{_NAME}",
        r"extra_forbidden['\"], ['\"]loc['\"]: [\[(]['\"]body['\"], ['\"](?P<name>\w+)['\"]",
    )
]
_INNER = re.compile(r"""['"]message['"]\s*:\s*(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)')""")
_LITELLM = re.compile(r"^litellm\.\w+: (?:(?:litellm\.)?\w+(?:Exception|Error)\w* ?[-:] )*")
_SAME = {
    "topP": "top_p", "topK": "top_k", "presencePenalty": "presence_penalty", "frequencyPenalty": "frequency_penalty",
    "thinkingBudget": "thinking_budget", "thinkingLevel": "thinking_level",
}  # fmt: skip
_PARAMETERS = SAMPLING_PARAMETERS | {"max_completion_tokens"}


def refused_parameter(message: str) -> str:
    """Return the name of the parameter that an error refuses, "" where it refuses none.

    >>> refused_parameter("Unsupported value: 'temperature' does not support 0 with this model.")
    'temperature'
    """
    text = _LITELLM.sub("", message.strip())
    if (inner := _INNER.search(text)) is not None and text.startswith(("{", "b'{", 'b"{')):
        text = inner["double"] or inner["single"] or ""
    names = (match["name"] for pattern in _REFUSALS if (match := pattern.search(text[:600])) is not None)
    return next((name for name in (_SAME.get(name, name) for name in names) if name in _PARAMETERS), "")
