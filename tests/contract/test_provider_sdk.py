"""The SDKs as yardsticks: what an adapter sends equals what the real SDK sends, and the SDKs can talk to our server."""

import asyncio
import base64
import re
from typing import Any

import pytest
from pydantic import BaseModel, Field

from tests.kit import Server
from titjudge.core.structured_output import schema_of
from titjudge.core.types import Message, Request
from titjudge.providers import ProviderSettings
from titjudge.providers.hosted.gemini import Gemini
from titjudge.providers.hosted.openai import OpenAI
from titjudge.providers.json_schema import gemini, strict
from titjudge.testing.provider_spec import PICTURE, PIXELS, SampleVerdict, on_a_loop

URL = f"data:image/webp;base64,{base64.b64encode(PIXELS).decode()}"
SYSTEM, TEXT = "Be brief.", "Describe it — 用一句话 🍎"


def request(model: str, *, params: dict[str, Any], schema: type[BaseModel] | None = None, turns: int = 1) -> Request:
    messages = [Message("system", (SYSTEM,)), Message("user", (PICTURE, TEXT))]
    if turns == 2:
        messages += [Message("assistant", ("A lamp.",)), Message("user", ("Sure?",))]
    given = schema_of(schema) if schema else None
    return Request("", model, tuple(messages), params, given, schema.__name__ if schema else "")


def ours(server: Server, kind: type[OpenAI] | type[Gemini], base: str, asked: Request) -> Any:
    provider = kind(ProviderSettings(asked.model, base_url=base))
    on_a_loop(provider, lambda: provider.complete(asked))
    return server.last.body


def openai_sdk(server: Server, **body: Any) -> Any:
    import openai

    with openai.OpenAI(base_url=server.openai, api_key="k", max_retries=0, timeout=60) as client:
        answer = client.chat.completions.create(**body)
    assert answer.choices[0].finish_reason == "stop"
    return answer


def gemini_sdk(server: Server, model: str, contents: Any, config: dict[str, Any]) -> Any:
    from google import genai
    from google.genai import types

    options = types.HttpOptions(base_url=server.url, api_version="v1beta", timeout=60_000)
    client = genai.Client(api_key="k", http_options=options)
    try:
        return client.models.generate_content(
            model=model, contents=contents, config=types.GenerateContentConfig(system_instruction=SYSTEM, **config)
        )
    finally:
        client.close()


OPENAI_MESSAGES = [
    {"role": "system", "content": SYSTEM},
    {
        "role": "user",
        "content": [{"type": "image_url", "image_url": {"url": URL}}, {"type": "text", "text": TEXT}],
    },
]


def test_openai_chat_with_image_equals_the_sdk(server: Server) -> None:
    params = {"max_tokens": 512, "temperature": 0.2, "top_p": 0.9, "seed": 7, "stop": ["END"], "frequency_penalty": 0.1}
    mine = ours(server, OpenAI, server.openai, request("gpt-4o", params=params))
    openai_sdk(server, model="gpt-4o", messages=OPENAI_MESSAGES, **params)
    assert mine == server.last.body
    assert server.last.images == (PICTURE.sha256,)


def test_openai_reasoning_model_equals_the_sdk(server: Server) -> None:
    params = {"max_tokens": 512, "temperature": 0, "reasoning_effort": "low"}
    mine = ours(server, OpenAI, server.openai, request("o4-mini", params=params))
    openai_sdk(server, model="o4-mini", messages=OPENAI_MESSAGES, max_completion_tokens=512, reasoning_effort="low")
    assert mine == server.last.body


def test_openai_conversation_equals_the_sdk(server: Server) -> None:
    mine = ours(server, OpenAI, server.openai, request("gpt-4o", params={}, turns=2))
    more = [{"role": "assistant", "content": "A lamp."}, {"role": "user", "content": "Sure?"}]
    openai_sdk(server, model="gpt-4o", messages=OPENAI_MESSAGES + more)
    assert mine == server.last.body


def test_openai_structured_equals_the_sdk(server: Server) -> None:
    import openai

    mine = ours(server, OpenAI, server.openai, request("gpt-4o", params={"max_tokens": 99}, schema=SampleVerdict))
    with openai.OpenAI(base_url=server.openai, api_key="k", max_retries=0, timeout=60) as client:
        answer = client.chat.completions.parse(
            model="gpt-4o",
            messages=OPENAI_MESSAGES,  # type: ignore[arg-type]
            max_tokens=99,
            response_format=SampleVerdict,
        )
    assert isinstance(answer.choices[0].message.parsed, SampleVerdict)
    assert {**mine, "stream": False} == server.last.body


class Claim(BaseModel):
    text: str
    kind: str = "object"
    weight: float | None = Field(default=None, ge=0)


class Claims(BaseModel):
    """Nested, with defaults and optional fields."""

    claims: list[Claim] = Field(min_length=1, max_length=9)
    verdict: Claim
    sure: bool = True


@pytest.mark.parametrize("model", [SampleVerdict, Claims])
def test_strict_schema_equals_the_sdk_but_for_defaults(model: type[BaseModel]) -> None:
    from openai.lib._pydantic import to_strict_json_schema

    def plain(node: Any, definitions: Any) -> Any:
        if isinstance(node, list):
            return [plain(each, definitions) for each in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return plain(definitions[node["$ref"].rpartition("/")[2]], definitions)
        return {key: plain(value, definitions) for key, value in node.items() if key not in ("$defs", "default")}

    theirs = to_strict_json_schema(model)
    assert strict(schema_of(model)) == (plain(theirs, theirs.get("$defs")), True)


def test_free_form_objects_cannot_be_strict() -> None:
    class Loose(BaseModel):
        notes: dict[str, str]

    schema, is_strict = strict(schema_of(Loose))
    assert (schema, is_strict) == (schema_of(Loose), False)


def gemini_contents() -> list[Any]:
    from google.genai import types

    picture = types.Part.from_bytes(data=PIXELS, mime_type="image/webp")
    return [types.Content(role="user", parts=[picture, types.Part.from_text(text=TEXT)])]


def plain(node: Any) -> Any:
    """A body in one spelling: the SDK mixes snake_case into camelCase and writes URL-safe base64, both of
    which the API reads as well; empty objects say nothing."""
    if isinstance(node, list):
        return [plain(each) for each in node]
    if not isinstance(node, dict):
        return node
    node = {re.sub(r"_(\w)", lambda found: found[1].upper(), key): value for key, value in node.items()}
    if "mimeType" in node:
        return {**node, "data": base64.b64decode(node["data"], "-_" if set("-_") & set(node["data"]) else None)}
    return {key: plain(value) for key, value in node.items() if value != {}}


def test_gemini_with_image_equals_the_sdk(server: Server) -> None:
    params = {"max_tokens": 512, "temperature": 0.2, "top_p": 0.9, "top_k": 3, "seed": 7, "thinking_budget": 128}
    mine = ours(server, Gemini, server.url, request("gemini-2.5-pro", params={**params, "stop": "END"}))
    config = {"max_output_tokens": 512, "temperature": 0.2, "top_p": 0.9, "top_k": 3, "seed": 7}
    more = {"thinking_config": {"thinking_budget": 128}, "stop_sequences": ["END"]}
    gemini_sdk(server, "gemini-2.5-pro", gemini_contents(), {**config, **more})
    assert plain(mine) == plain(server.last.body)
    assert server.requests[0].path == server.requests[1].path
    assert "k" not in server.requests[0].path.partition("?")[2]


def test_gemini_structured_equals_the_sdk(server: Server) -> None:
    mine = ours(server, Gemini, server.url, request("gemini-2.5-pro", params={}, schema=Claims))
    config = {"response_mime_type": "application/json", "response_json_schema": gemini(schema_of(Claims))}
    answer = gemini_sdk(server, "gemini-2.5-pro", gemini_contents(), config)
    assert Claims.model_validate_json(answer.text)
    assert plain(mine) == plain(server.last.body)


def test_gemini_conversation_equals_the_sdk(server: Server) -> None:
    from google.genai import types

    mine = ours(server, Gemini, server.url, request("gemini-2.5-pro", params={}, turns=2))
    said = types.Content(role="model", parts=[types.Part.from_text(text="A lamp.")])
    asked = types.Content(role="user", parts=[types.Part.from_text(text="Sure?")])
    gemini_sdk(server, "gemini-2.5-pro", [*gemini_contents(), said, asked], {})
    assert plain(mine) == plain(server.last.body)


def test_the_sdks_read_usage_faults_and_refusals_of_our_server() -> None:
    import openai

    from tests.kit import Scripted

    with Server(cached_tokens=5, reasoning_tokens=40) as server:
        usage = openai_sdk(server, model="gpt-4o", messages=OPENAI_MESSAGES).usage
        assert (usage.prompt_tokens_details.cached_tokens, usage.completion_tokens_details.reasoning_tokens) == (5, 40)
        meta = gemini_sdk(server, "gemini-2.5-pro", gemini_contents(), {}).usage_metadata
        assert (meta.cached_content_token_count, meta.thoughts_token_count) == (5, 40)
        server.script(Scripted(kind="blocked"))
        blocked = gemini_sdk(server, "gemini-2.5-pro", gemini_contents(), {})
        assert blocked.prompt_feedback.block_reason == "PROHIBITED_CONTENT"
        server.script(Scripted.fault(429, retry_after=2))
        with pytest.raises(openai.RateLimitError) as caught:
            openai_sdk(server, model="gpt-4o", messages=OPENAI_MESSAGES)
        assert caught.value.response.headers["retry-after"] == "2"


def test_embeddings_of_our_server_are_unit_vectors_that_repeat(server: Server) -> None:
    import openai

    async def embed() -> list[list[float]]:
        async with openai.AsyncOpenAI(base_url=server.openai, api_key="k", max_retries=0) as client:
            answer = await client.embeddings.create(model="text-embedding-3-small", input=["a", "b", "a"])
        return [each.embedding for each in answer.data]

    first, second, again = asyncio.run(embed())
    assert first == again != second
    assert sum(each * each for each in first) == pytest.approx(1.0, abs=1e-5)
    assert server.count("embeddings") == 1
