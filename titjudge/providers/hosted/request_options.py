"""The option `body` of a role: settings that only the server knows, put into the body of each request.

It does not replace anything that titjudge itself writes. If a setting with a separate key could be replaced, the manifest
and the request would differ, and a cap could fail.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import orjson

from titjudge.core.errors import ConfigError, must_be
from titjudge.core.types import Json, Values

_OF_THE_ROLE = {  # by its name in a request: the key of the role
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "maxOutputTokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "topP": "top_p",
    "seed": "seed",
    "reasoning_effort": "reasoning_effort",
    "top_logprobs": "top_logprobs",
    "response_format": "structured",
    "responseSchema": "structured",
    "responseJsonSchema": "structured",
    "responseMimeType": "structured",
}
_OF_TITJUDGE = frozenset(
    (
        "model models route fallbacks messages contents system systemInstruction system_instruction prompt "
        "input tools tool_choice toolConfig tool_config functions function_call stream stream_options n "
        "best_of candidateCount max_output_tokens generation_config extra_body extra_headers extra_query "
        "headers api_base base_url timeout logprobs responseLogprobs responseModalities modalities "
        "cachedContent cached_content"
    ).split()
)
_SECRET = re.compile(r"api_?key|secret|password|authori[sz]ation|credential", re.IGNORECASE)
_KEY = re.compile(rb"\b(?:(?:sk|gsk|xai|hf|r8)[-_]|AIza|Bearer )[\w.-]{20,}")  # of the vendors, in any value


def checked(body: Any) -> Json:
    """Return the settings of the option `body`, an empty dict for None.

    Raises:
        ConfigError: They are not a mapping of JSON values, or set a key that they may not set.
    """
    if body is None:
        return {}
    if not isinstance(body, Mapping) or not all(isinstance(name, str) for name in body):
        raise ConfigError(must_be("options.body", "a mapping of settings, such as {service_tier: flex}", body))
    config = body.get("generationConfig")
    for name in [*body, *(config if isinstance(config, Mapping) else ())]:
        if key := _OF_THE_ROLE.get(name):
            raise ConfigError(f"options.body: {name} is a key of the role. Use {key} instead")
        if name in _OF_TITJUDGE:
            raise ConfigError(f"options.body: {name} is set by titjudge. Remove it")
        if _SECRET.search(name):
            raise ConfigError(
                f"options.body: {name} must not be in a file. Put the key into an environment variable (api_key_env)"
            )
    try:
        written = orjson.dumps(body)
    except TypeError as error:
        raise ConfigError(f"options.body is not JSON: {error}. Correct it") from None
    if _KEY.search(written):
        raise ConfigError(
            "options.body contains an API key, which would be stored with the run. Put it into an environment variable (api_key_env)"
        )
    return dict(orjson.loads(written))


def check_foreign(body: Values, foreign: Collection[str]) -> None:
    """Refuse settings of the program that sends a request, which never reach the server.

    Raises:
        ConfigError: There is one.
    """
    if names := sorted(set(body) & set(foreign)):
        raise ConfigError(f"options.body: {names[0]} is a setting of litellm and cannot be changed. Remove it")


def merged(body: Json, extra: Values, place: str = "") -> Json:
    """Put settings into the body of a request; mappings that both have are merged.

    Raises:
        ConfigError: The body has a different value for one of the keys.
    """
    for name, value in extra.items():
        existing = body.get(name)
        if isinstance(existing, dict) and isinstance(value, Mapping):
            merged(existing, value, f"{place}{name}.")
        elif name in body and existing != value:
            raise ConfigError(f"options.body: {place}{name} is set by titjudge or by a key of the role. Remove it")
        else:
            body[name] = value
    return body
