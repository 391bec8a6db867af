"""The models of a server that speaks OpenAI's API, for a role that names no model: `--provider openai --base-url URL`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from titjudge.core.errors import ConfigError, Unclear
from titjudge.core.redaction import one_line
from titjudge.core.types import ProviderSettings, Values
from titjudge.providers.hosted import http
from titjudge.providers.hosted.openai import OpenAI
from titjudge.providers.retirements import default_model

_PROGRAMS = {  # by `owned_by` in the list of models
    "vllm": "vLLM",
    "sglang": "SGLang",
    "llamacpp": "llama.cpp",
    "library": "Ollama",
    "organization_owner": "LM Studio",
}
_NO_CHAT = re.compile(r"embed|rerank|whisper|tts", re.IGNORECASE)  # names of models that describe and judge nothing
_TIMEOUT = 15.0  # seconds


def served_model(settings: ProviderSettings, flags: Sequence[str]) -> str:
    """Return the only model of a server.

    Args:
        settings: Address and key of the server.
        flags: The options that name the model, for example `--captioner `, up to the model.

    Returns:
        The name; empty for the default model of the provider: at the addresses of OpenAI and Azure, and on a gateway that
        has it.

    Raises:
        ConfigError: The server gives no list of models; the message explains how to name the model.
        Unclear: It has several models; lists the option for each.
    """
    provider = OpenAI(settings)
    if provider.at_openai:
        return ""
    endpoint = provider.endpoints.all[0]
    with ThreadPoolExecutor(1) as pool:  # the caller may be in an event loop
        answer = pool.submit(asyncio.run, _listed(provider, endpoint)).result()
    where, name_it = endpoint.identity, f"name the model: {flags[0]}openai/MODEL"
    if isinstance(answer, http.TransportError):
        raise ConfigError(f"{one_line(str(answer))}. Start the server, or {name_it}")
    if answer.status in (401, 403):
        raise ConfigError(
            f"{where} refuses the key (HTTP {answer.status}). Set {settings.api_key_env or provider.key_envs[0]} to the server's key"
        )
    models = _models(answer) if answer.is_success else None
    if models is None:
        complete = "" if re.search(r"/v\d", where) else ", or add /v1 to the address"
        raise ConfigError(
            f"{where} has no list of models (HTTP {answer.status} from /models). Give {flags[0]}openai/MODEL{complete}"
        )
    names = [str(model["id"]) for model in models if not _NO_CHAT.search(str(model["id"]))]
    if len(names) == 1:
        return names[0]
    if default_model(provider.name) in names:
        return ""
    program = next(
        (_PROGRAMS[str(model.get("owned_by"))] for model in models if model.get("owned_by") in _PROGRAMS), "The server"
    )
    if not names:
        raise ConfigError(f"{program} at {where} has no model loaded. Load one there, or {name_it}")
    options = [(" ".join(f"{flag}openai/{name}" for flag in flags), "") for name in names]
    raise Unclear(f"{program} at {where} has {len(names)} models; choose one:", None, options)


async def _listed(provider: OpenAI, endpoint: http.Endpoint) -> http.Answer | http.TransportError:
    try:
        return await http.shared.post_json(
            endpoint.url("/models"), headers=provider.headers_for(endpoint), body=b"", timeout=_TIMEOUT
        )
    except http.TransportError as error:
        return error
    finally:
        await http.shared.aclose()


def _models(answer: http.Answer) -> list[Values] | None:
    """Read the list of models; None if the answer is something else."""
    try:
        data = answer.json()
    except ValueError:
        return None
    models = data.get("data") if isinstance(data, dict) else None
    if not isinstance(models, list):
        return None
    return [model for model in models if isinstance(model, dict) and isinstance(model.get("id"), str)]
