"""Native tool calling: bodies equal to the SDKs', calls read from every wire, and servers that know no tools."""

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, Field
from test_provider_sdk import SYSTEM, gemini_sdk, plain
from test_provider_spec import CASES, Messages, _param, google_credentials

from tests.kit import Scripted, Server
from tests.kit.provider_spec import KEY, ProviderCase, SampleVerdict, on_a_loop
from tests.kit.wires import signature
from titjudge.core.errors import ConfigError
from titjudge.core.serialization import request_key
from titjudge.core.structured_output import json_object, schema_of
from titjudge.core.types import FailureKind, Message, Reply, Request, Status, Tool, ToolCall, ToolResult
from titjudge.providers import ProviderSettings
from titjudge.providers.hosted.gemini import Gemini
from titjudge.providers.hosted.openai import OpenAI
from titjudge.providers.hosted.tool_calls import openai_calls, openai_tools, unknown_here
from titjudge.providers.json_schema import strict

pytestmark = pytest.mark.slow  # many in all, each of them short


class Zoom(BaseModel):
    """Look at a part."""

    box: list[float] = Field(min_length=4, max_length=4)
    question: str


TOOLS = (
    Tool("zoom", "Look at a part.", schema_of(Zoom)),
    Tool("read_text", "Read all.", {"type": "object", "properties": {}}),
)
BOX = {"box": [0.0, 0.5, 0.25, 1.0], "question": "What — 用?"}
ASKED = "Which claims hold?"


@pytest.fixture(params=[_param(case) for case in CASES if case.make is not Messages])  # the page's example has no tools
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ProviderCase:
    monkeypatch.setenv("SPEC_API_KEY", KEY)
    google_credentials(monkeypatch)
    return request.param  # type: ignore[no-any-return]


def offer(model: str, *turns: Message, **params: Any) -> Request:
    messages = (Message("system", (SYSTEM,)), Message("user", (ASKED,)), *turns)
    return Request("", model, messages, params or {"max_tokens": 300}, tools=TOOLS)


def talk(reply: Reply, *results: str) -> tuple[Message, Message]:
    """The turn of a reply and the results of its calls."""
    pairs = zip(reply.tool_calls, results, strict=True)
    said = (reply.text,) if reply.text else ()
    return Message("assistant", said, reply.tool_calls), Message(
        "user", (), (), tuple(ToolResult(c, t) for c, t in pairs)
    )


def answered(provider: Any, *requests: Request) -> list[Reply]:
    async def work() -> list[Reply]:
        return [await provider.complete(each) for each in requests]

    return on_a_loop(provider, work)  # type: ignore[no-any-return]


def test_calls_are_read_and_go_back_with_their_results(case: ProviderCase, server: Server) -> None:
    provider = case.provider(server, options={"tools": True})
    assert provider.capabilities.tools
    server.script(Scripted("One moment.", calls=[("zoom", BOX), ("read_text", {})]), "E2 shows it.")

    async def work() -> tuple[Reply, Reply]:
        first = await provider.complete(offer(case.model))
        return first, await provider.complete(offer(case.model, *talk(first, "a red kite", "no text")))

    first, second = on_a_loop(provider, work)
    assert (first.status, first.text) == (Status.OK, "One moment.")
    assert [(call.name, json_object(call.arguments)) for call in first.tool_calls] == [("zoom", BOX), ("read_text", {})]
    assert len({call.id for call in first.tool_calls}) == 2
    assert (second.text, second.tool_calls) == ("E2 shows it.", ())
    sent = json.dumps(server.last.body, ensure_ascii=False)
    assert (
        sent.index(ASKED)
        < sent.index("One moment.")
        < sent.index("question")
        < sent.index("a red kite")
        < sent.index("no text")
    )
    assert server.requests[0].schema is None


def test_an_answer_without_a_call_is_an_answer(case: ProviderCase, server: Server) -> None:
    server.script("I need no tool.")
    (reply,) = answered(case.provider(server, options={"tools": True}), offer(case.model))
    assert (reply.text, reply.tool_calls) == ("I need no tool.", ())


def test_calls_that_nobody_offered_are_no_answer(case: ProviderCase, server: Server) -> None:
    server.script(Scripted(calls=[("zoom", BOX)]))
    provider = case.provider(server)
    with pytest.raises(Exception) as caught:
        answered(provider, replace(offer(case.model), tools=()))
    assert provider.classify(caught.value).kind is FailureKind.UNUSABLE


def test_a_truncated_call_is_truncated(case: ProviderCase, server: Server) -> None:
    if case.name == "litellm-gemini":
        pytest.skip("litellm says tool_calls where Gemini says MAX_TOKENS")
    server.script(Scripted(kind="length", calls=[("zoom", BOX)]))
    (reply,) = answered(case.provider(server, options={"tools": True}), offer(case.model))
    assert reply.status is Status.TRUNCATED


def test_a_server_without_tools_is_noticed_once_and_offered_none(
    case: ProviderCase, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = case.provider(server)
    provider.capabilities = replace(provider.capabilities, tools=True)
    server.script(Scripted.fault("no_tools"))
    with pytest.raises(Exception) as caught:
        answered(provider, offer(case.model))
    assert provider.classify(caught.value).kind is FailureKind.REJECTED
    assert not provider.capabilities.tools
    assert server.count() == 1


def test_who_says_that_tools_are_there_is_told_when_they_are_not(case: ProviderCase, server: Server) -> None:
    provider = case.provider(server, options={"tools": True})
    server.script(Scripted.fault("no_tools"))
    with pytest.raises(Exception) as caught:
        answered(provider, offer(case.model))
    assert "does not support tools" in provider.classify(caught.value).message
    assert provider.capabilities.tools


def test_the_option_is_true_or_false(case: ProviderCase, server: Server) -> None:
    assert not case.provider(server, options={"tools": False}).capabilities.tools
    with pytest.raises(ConfigError, match="true or false, not 'yes'"):
        case.provider(server, options={"tools": "yes"})


@pytest.mark.parametrize(
    ("model", "base", "tools"),
    [
        ("gpt-4o", "", True),
        ("gpt-4o", "https://me.openai.azure.com/openai/v1", True),
        ("gpt-4o", "http://127.0.0.1:8000/v1", False),
        ("gpt-4o", "https://api.openai.com/v1,http://127.0.0.1:8000/v1", False),
        ("Qwen/Qwen3-32B", "", False),
        ("gpt-5.4", "", False),
    ],
)
def test_unknown_servers_are_offered_no_tools(
    model: str, base: str, tools: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert OpenAI(ProviderSettings(model, base_url=base)).capabilities.tools is tools


@pytest.mark.parametrize(
    ("status", "message", "known"),
    [
        (400, "Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions", True),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', True),
        (400, "registry.ollama.ai/library/gemma3 does not support tools", True),
        (404, "No endpoints found that support tool use", True),
        (500, "tools param requires --jinja flag", True),
        (500, "the tool server is down", False),
        (400, "Invalid image.", False),
        (429, "too many tools", False),
    ],
)
def test_how_servers_say_that_they_know_no_tools(status: int, message: str, known: bool) -> None:
    assert unknown_here(status, message) is known


@pytest.mark.parametrize(
    ("given", "calls"),
    [
        (None, []),
        ([], []),
        ([{"function": {"name": "a", "arguments": "{}"}}], [("a", "{}", "call_0")]),
        ([{"id": "x", "function": {"name": "a", "arguments": {"b": 1}}}], [("a", '{"b": 1}', "x")]),
        (
            [{"id": "x", "function": {"name": "a"}}, {"id": "x", "function": {"name": "b"}}],
            [("a", "", "x"), ("b", "", "x_1")],
        ),
        (
            [None, "odd", {"type": "custom", "id": "c", "custom": {"name": "p", "input": "ls"}}],
            [("", "", "call_0"), ("", "", "call_1"), ("p", "ls", "c")],
        ),
    ],
)
def test_calls_are_read_as_servers_write_them(given: Any, calls: list[tuple[str, str, str]]) -> None:
    assert [(call.name, call.arguments, call.id) for call in openai_calls(given)] == calls


@pytest.mark.parametrize("arguments", ["{bad", "[1]", '"x"', "7", "{} {}"])
def test_garbled_arguments_are_told_apart_and_never_sent_back(arguments: str, server: Server) -> None:
    call = ToolCall("drop table; " * 20, arguments, "call_1")
    assert json_object(call.arguments) is None
    turns = talk(Reply("", tool_calls=(call,)), "these are no arguments")
    answered(OpenAI(ProviderSettings("gpt-4o", base_url=server.openai)), offer("gpt-4o", *turns))
    said, result = server.last.body["messages"][2:]
    function = said["tool_calls"][0]["function"]
    assert function["arguments"] == "{}"
    assert len(function["name"]) <= 64
    assert " " not in function["name"]
    assert result == {"role": "tool", "tool_call_id": "call_1", "content": "these are no arguments"}


# ---------------------------------------------------------------------- the SDKs as yardsticks


def test_openai_tools_equal_the_sdk(server: Server) -> None:
    import openai

    calls = [("zoom", BOX), ("read_text", {})]
    server.script(Scripted(calls=calls), "fine", Scripted(calls=calls), "fine")
    provider = OpenAI(ProviderSettings("gpt-4o", base_url=server.openai))

    async def work() -> None:
        first = await provider.complete(offer("gpt-4o"))
        await provider.complete(offer("gpt-4o", *talk(first, "a kite", "none")))

    on_a_loop(provider, work)
    tools = [openai.pydantic_function_tool(Zoom, name="zoom")]
    empty = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    tools.append(
        {
            "type": "function",
            "function": {"name": "read_text", "description": "Read all.", "parameters": empty, "strict": True},
        }
    )
    messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": ASKED}]
    with openai.OpenAI(base_url=server.openai, api_key="k", max_retries=0, timeout=60) as client:
        for _ in range(2):
            answer = client.chat.completions.create(model="gpt-4o", messages=messages, tools=tools, max_tokens=300)
            made = answer.choices[0].message
            messages.append(
                {
                    "role": "assistant",
                    "content": made.content,
                    "tool_calls": [each.to_dict() for each in made.tool_calls or ()],
                }
            )
            for each, text in zip(made.tool_calls or (), ("a kite", "none"), strict=False):
                messages.append({"role": "tool", "tool_call_id": each.id, "content": text})
    ours, theirs = server.requests[:2], server.requests[2:]
    assert [untitled(each.body) for each in ours] == [untitled(each.body) for each in theirs]


def untitled(node: Any) -> Any:
    """A body without the description that pydantic puts into the parameters of a tool, too."""
    body = json.loads(json.dumps(node))
    for tool in body["tools"]:
        tool["function"]["parameters"].pop("description", None)
    return body


def test_gemini_tools_equal_the_sdk(server: Server) -> None:
    from google.genai import types

    calls = [("zoom", BOX), ("read_text", {})]
    server.script(Scripted(calls=calls), "fine", Scripted(calls=calls), "fine")
    provider = Gemini(ProviderSettings("gemini-3-pro-preview", base_url=server.url))

    async def work() -> None:
        first = await provider.complete(offer("gemini-3-pro-preview"))
        await provider.complete(offer("gemini-3-pro-preview", *talk(first, "a kite", "none")))

    on_a_loop(provider, work)
    declared = [
        types.FunctionDeclaration(name=t.name, description=t.description, parameters_json_schema=t.parameters)
        for t in TOOLS
    ]
    config = {
        "tools": [types.Tool(function_declarations=declared)],
        "max_output_tokens": 300,
        "automatic_function_calling": types.AutomaticFunctionCallingConfig(disable=True),
    }
    contents = [types.Content(role="user", parts=[types.Part.from_text(text=ASKED)])]
    for _ in range(2):
        answer = gemini_sdk(server, "gemini-3-pro-preview", contents, config)
        contents.append(answer.candidates[0].content)
        parts = [
            types.Part(function_response=types.FunctionResponse(id=call.id, name=call.name, response={"output": text}))
            for call, text in zip(answer.function_calls or (), ("a kite", "none"), strict=False)
        ]
        contents.append(types.Content(role="user", parts=parts))
    ours, theirs = server.requests[:2], server.requests[2:]
    assert [plain(each.body) for each in ours] == [plain(each.body) for each in theirs]
    made = server.requests[1].body["contents"][1]["parts"]
    assert [each.get("thoughtSignature") for each in made] == [signature(server.requests[0]), None]


def test_a_call_that_gemini_could_not_finish_is_an_answer_without_calls(server: Server) -> None:
    server.script(Scripted(calls=[("zoom", "print(default_api.zoom(")]))
    (reply,) = answered(Gemini(ProviderSettings("gemini-2.5-pro", base_url=server.url)), offer("gemini-2.5-pro"))
    assert (reply.status, reply.text, reply.tool_calls) == (Status.OK, "", ())
    assert reply.finish_reason == "MALFORMED_FUNCTION_CALL"


@pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict class:UserWarning")
def test_the_thinking_before_a_call_goes_back_through_litellm(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEC_API_KEY", KEY)
    (claude,) = [each for each in CASES if each.name == "litellm-anthropic"]
    (gemini,) = [each for each in CASES if each.name == "litellm-gemini"]
    for each in (claude, gemini):
        provider = each.provider(server)
        server.script(Scripted(calls=[("zoom", BOX)]), "fine")
        params = {"max_tokens": 3000, "thinking_budget": 1024}

        async def work(each: ProviderCase = each, provider: Any = provider, params: Any = params) -> None:
            first = await provider.complete(offer(each.model, **params))
            await provider.complete(offer(each.model, *talk(first, "a kite"), **params))

        on_a_loop(provider, work)
    assert server.requests[1].body["messages"][1]["content"][0] == {
        "type": "thinking",
        "thinking": "Let me look.",
        "signature": "sig",
    }
    made = next(turn for turn in server.last.body["contents"] if turn["role"] == "model")
    assert made["parts"][0]["thoughtSignature"] == signature(server.requests[2])


def test_ids_and_signatures_of_calls_are_part_of_the_question() -> None:
    one, two = (talk(Reply("", tool_calls=(ToolCall("zoom", "{}", ident),)), "a kite") for ident in ("a", "b"))
    assert request_key(offer("gpt-4o", *one)) != request_key(offer("gpt-4o", *two))


def test_nobody_changes_a_schema_that_is_shared(case: ProviderCase, server: Server) -> None:
    """litellm takes keywords out of the schemas it is given, in place; they are made once for all requests."""
    before = json.dumps([openai_tools(TOOLS), strict(schema_of(SampleVerdict))])
    schema = replace(offer(case.model), tools=(), schema=schema_of(SampleVerdict), schema_name="Verdict")
    answered(case.provider(server, options={"tools": True}), offer(case.model), schema)
    assert json.dumps([openai_tools(TOOLS), strict(schema_of(SampleVerdict))]) == before
