"""An answer that a server broke off is no answer: it is cut or asked again, kept in the record, and never scored."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from batch_server import BatchServer
from builders import described_images

from tests.kit import Scripted, Seen, Server
from titjudge.core.config import load_config
from titjudge.core.structured_output import after_thinking
from titjudge.core.types import EMPTY, Failure, Message, Reply, Request, Score, Status, Usage
from titjudge.engine import retry
from titjudge.engine.cache import AnswerCache
from titjudge.providers import ProviderSettings
from titjudge.providers.base import UNFINISHED
from titjudge.providers.batch import provider as batch
from titjudge.providers.hosted.gemini import Gemini
from titjudge.providers.hosted.litellm import LiteLLM
from titjudge.providers.hosted.openai import OpenAI
from titjudge.providers.local.base import make_reply
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.session import Session
from titjudge.testing.provider_spec import on_a_loop

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("quick_retries", "keys_of_nobody"),
]  # many in all, each of them short
HALF = "The image shows a red cube standing on the"
ABSENT = object()


def chat(finish: Any, text: str = HALF, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish, **more}
    if finish is ABSENT:
        del choice["finish_reason"]
    usage = {"prompt_tokens": 400, "completion_tokens": 9, "total_tokens": 409}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


def google(finish: Any, text: str = HALF) -> dict[str, Any]:
    candidate = {"content": {"parts": [{"text": text}]}, "finishReason": finish}
    if finish is ABSENT:
        del candidate["finishReason"]
    usage = {"promptTokenCount": 400, "candidatesTokenCount": 9, "totalTokenCount": 409}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m"}


def claude(finish: Any, text: str = HALF) -> dict[str, Any]:
    usage = {"input_tokens": 400, "output_tokens": 9}
    content = [{"type": "text", "text": text}]
    return {"id": "x", "type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": finish, "usage": usage}  # fmt: skip


WIRES: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "openai": (OpenAI, "gpt-4o", chat),
    "gemini": (Gemini, "gemini-2.5-pro", google),
    "litellm/openai": (LiteLLM, "openai/gpt-4o", chat),
    "litellm/anthropic": (LiteLLM, "anthropic/claude-sonnet-4-5", claude),
}
WHOLE = {"stop", "STOP", "end_turn", "eos_token", "stop_sequence", "tool_calls", ABSENT, ""}
CUT = {"length", "MAX_TOKENS", "model_length", "model_context_window_exceeded"}
BROKEN = {"abort", "error", "insufficient_system_resource", "network_error", "OTHER", "ERROR"}
UNKNOWN = {None, "a vendor's own", "load", "pause_turn", 7}
FILTERED = {"content_filter", "refusal", "sensitive", "SAFETY"}
GOOGLE_ONLY_WHOLE = WHOLE - {ABSENT, ""}


def answered(wire: str, finish: Any, text: str = HALF) -> Reply | Failure:
    return read(wire, WIRES[wire][2](finish, text))


def read(wire: str, content: dict[str, Any]) -> Reply | Failure:
    cls, model, make = WIRES[wire]
    body = json.dumps(content).encode()
    with Server(lambda seen: Scripted(body=body)) as server:
        provider = cls(ProviderSettings(model, base_url=server.openai if make is chat else server.url, timeout=60.0))

        async def ask() -> Reply | Failure:
            try:
                return await provider.complete(
                    Request("", model, (Message("user", ("Describe it.",)),), {"max_tokens": 60})
                )
            except Exception as error:
                return provider.classify(error)

        return on_a_loop(provider, ask)  # type: ignore[no-any-return]


@pytest.mark.parametrize("wire", WIRES)
def test_each_word_is_taken_for_what_it_means(wire: str) -> None:
    whole = GOOGLE_ONLY_WHOLE if wire == "gemini" else WHOLE - {ABSENT, ""} if wire == "litellm/anthropic" else WHOLE
    for finish in whole:
        reply = answered(wire, finish)
        assert isinstance(reply, Reply)
        assert (reply.status, reply.text, reply.flags) == (Status.OK, HALF, ()), finish
    for finish in CUT:
        reply = answered(wire, finish)
        assert isinstance(reply, Reply)
        assert (reply.status, reply.flags) == (Status.TRUNCATED, ()), finish
    for finish in FILTERED:
        reply = answered(wire, finish)
        assert isinstance(reply, Reply)
        assert reply.status is Status.REFUSED, finish
    for finish in BROKEN:
        failure = answered(wire, finish)
        assert isinstance(failure, Failure)
        assert (failure.kind, failure.answered, failure.usage) == ("retry", True, Usage(400, 9)), finish
        assert str(finish) in failure.message
    for finish in UNKNOWN | ({ABSENT} if wire == "gemini" else set()):
        reply = answered(wire, finish)
        assert isinstance(reply, Reply)
        assert (reply.status, reply.text, reply.flags) == (Status.TRUNCATED, HALF, (UNFINISHED,)), finish
        assert ("null" if finish in (None, ABSENT) else str(finish)) in reply.reason


@pytest.mark.parametrize("wire", ["openai", "gemini"])
def test_only_a_known_end_makes_an_empty_answer(wire: str) -> None:
    """Some metrics take an empty answer, so one without a known end must not look like it."""

    def empty(finish: Any) -> bool:
        content = WIRES[wire][2](finish, "")
        for candidate in content.get("candidates", ()):
            candidate["content"] = {}
        reply = read(wire, content)
        assert isinstance(reply, Failure)
        assert reply.usage == Usage(400, 9)
        return reply.reply is not None and EMPTY in reply.reply.flags

    assert [empty(finish) for finish in ("stop", "a vendor's own", None, ABSENT)] == [True, False, False, False]


def test_the_message_of_google_says_why_there_is_no_text() -> None:
    content = google("OTHER", "")
    content["candidates"][0]["finishMessage"] = "the image is broken"
    reply = read("gemini", content)
    assert isinstance(reply, Failure)
    assert reply.message.endswith("OTHER): the image is broken")


def test_the_likelihood_of_a_first_token_is_known_whatever_comes_after_it() -> None:
    logprobs = {"content": [{"token": "yes", "logprob": -0.1, "top_logprobs": [{"token": "yes", "logprob": -0.1}]}]}
    for finish in ("abort", None):
        body = chat(finish, "yes", logprobs=logprobs)
        with Server(lambda seen, body=body: Scripted(body=body)) as server:  # type: ignore[misc]
            provider = OpenAI(ProviderSettings("gpt-4o", base_url=server.openai))
            request = Request("", "gpt-4o", (Message("user", ("?",)),), {"max_tokens": 1}, choices=("yes", "no"))
            reply: Reply = on_a_loop(provider, partial(provider.complete, request))
        assert reply.first_token is not None


def test_an_answer_that_this_process_breaks_off_is_none() -> None:
    reply = make_reply("", HALF, Usage(1, 2), "abort")
    assert (reply.status, reply.flags) == (Status.TRUNCATED, (UNFINISHED,))
    assert make_reply("", "whole", Usage(1, 2), "").status is Status.OK


# ---------------------------------------------------------------------- what becomes of it in a run


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return described_images(tmp_path / "data", 2)


def scores(
    data: Path, server: Server, model: str = "openai/gpt-4o", metric: str = "tit-llm", **more: Any
) -> list[Score]:
    role = {"model": model, "base_url": server.url if model.startswith("gemini") else server.openai}
    out = data.parent / f"run-{metric}"
    out = more.pop("out", out)
    settings = {"data": data, "metrics": [metric], "captioner": role, "judge": role, "out": out, "report": False}
    Session(load_config(None, {"cache": data.parent / "cache", **settings, **more})).run()
    return list(RunFolder(out).scores().values())


def half(finish: Any, text: str = HALF) -> Callable[[Seen], Scripted]:
    """Descriptions end by `finish`, judgements well."""
    verdict = json.dumps({"missing": [], "contradicted": [], "reason": "r", "score": 61})
    return lambda seen: Scripted(body=json.dumps(chat(finish, text) if seen.images else chat("stop", verdict)).encode())


@pytest.mark.parametrize("protocol", ["strict", "official"])
@pytest.mark.parametrize("model", ["openai/gpt-4o", "litellm/openai/gpt-4o"])
def test_half_a_description_has_no_score(data: Path, model: str, protocol: str) -> None:
    with Server(half("a vendor's own")) as server:
        first = scores(data, server, model, protocol=protocol)
        paid = server.count()
        again = scores(data, server, model, protocol=protocol)
        assert server.count() == paid == 2  # kept: not paid again, and not scored
    assert [(each.value, each.status) for each in first] == [(None, "unparsed")] * 2
    assert [(each.value, each.status) for each in again] == [(None, "unparsed")] * 2
    assert [reply["finish_reason"] for reply in RunFolder(data.parent / "run-tit-llm").replies()] == [
        "a vendor's own"
    ] * 2


def test_what_may_pass_is_asked_again(data: Path) -> None:
    with Server(half("stop")) as server:
        server.script(*[Scripted(body=chat("abort"))] * 2)
        found = scores(data, server)
        assert [each.value for each in found] == [61.0] * 2
        assert server.count() == 6


def test_what_does_not_pass_is_kept_after_three_requests(data: Path) -> None:
    with Server(half("abort")) as server:
        found = scores(data, server)
        scores(data, server)
        assert server.count() == 2 * retry.DEFAULT.unusable
    assert {(each.value, str(each.status)) for each in found} == {(None, "unparsed")}
    assert all("abort" in each.reason for each in found)
    assert [reply["text"] for reply in RunFolder(data.parent / "run-tit-llm").replies()] == [HALF] * 2


@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
@pytest.mark.parametrize(
    ("finish", "status"), [("a vendor's own", "unparsed"), (None, "unparsed"), ("abort", "unparsed")]
)
def test_batch_jobs_take_the_same_words(data: Path, finish: Any, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    timing = batch.BatchTiming(poll=0.01, idle=0.02, settle=0.0)
    monkeypatch.setattr(batch, "BatchTiming", lambda *given: timing)

    class Jobs(BatchServer):
        def _worked(self, line: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
            response = {"status_code": 200, "body": chat(finish)}
            return True, {"custom_id": line["custom_id"], "response": response, "error": None}

    with Jobs() as server:
        found = scores(data, server, limits={"batch": True})
    assert {(each.value, str(each.status)) for each in found} == {(None, status)}


@pytest.mark.parametrize("metric", ["lmm-score", "tit-llm"])
def test_a_thought_without_an_end_is_no_answer(data: Path, metric: str) -> None:
    open_thought = '<think>{"reason": "x", "score": 99}'
    with Server(lambda seen: Scripted(body=chat("stop", open_thought))) as server:
        for protocol in ("strict", "official"):
            found = scores(data, server, metric=metric, protocol=protocol, out=data.parent / protocol)
            assert {(each.value, str(each.status)) for each in found} == {(None, "truncated")}
            assert all("thinking" in each.reason for each in found)
        assert server.count() <= 4
    assert after_thinking(open_thought) == after_thinking(f"<think>a</think>\n{open_thought}") == ""
    assert after_thinking("<think>a</think>b") == after_thinking("a</think>b") == "b"
    assert after_thinking("a <think> in the middle") == "a <think> in the middle"


def test_half_an_answer_that_was_kept_as_a_whole_one_is_asked_for_again(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(half("stop")) as server:
        scores(data, server)
        assert server.count() == 4
        get = AnswerCache.get

        def of_old(self: AnswerCache, key: str) -> Any:
            record = get(self, key)
            return record and {**record, "finish_reason": "abort"}

        monkeypatch.setattr(AnswerCache, "get", of_old)
        scores(data, server, out=data.parent / "other")
        assert server.count() == 8
