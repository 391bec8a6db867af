"""What guards litellm's network guards the calls of titjudge alone: a program's own calls beside it are as they were."""

import asyncio
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from titjudge.core.types import FailureKind, ProviderSettings
from titjudge.providers.hosted import litellm_client
from titjudge.providers.hosted.failures import ProviderFailure
from titjudge.providers.hosted.http import Unreachable
from titjudge.providers.hosted.litellm import LiteLLM
from titjudge.providers.hosted.sdk import lost


@pytest.fixture
def outgoing() -> httpx.Request:
    return httpx.Request("POST", "http://127.0.0.1:9/v1/chat/completions")


async def _moved(client: Any, request: httpx.Request) -> httpx.Response:
    return httpx.Response(302, headers={"Location": "http://elsewhere/"}, request=request)


OF_TRANSPORT = ("get_valid_client_session", "_get_valid_client_session", "_get_proxy_settings")


@pytest.mark.slow
def test_threads_that_load_litellm_at_once_guard_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a guard around the guard, every answer was lost: the inner one had read it."""
    litellm_client.load()
    transport = sys.modules["litellm.llms.custom_httpx.aiohttp_transport"].LiteLLMAiohttpTransport
    handler = sys.modules["litellm.llms.custom_httpx.http_handler"].AsyncHTTPHandler
    monkeypatch.setattr(transport, "handle_async_request", _moved)
    for kind, names in ((transport, OF_TRANSPORT), (handler, litellm_client._SENDS_AGAIN)):
        for name in names:
            if hasattr(kind, name):
                monkeypatch.setattr(kind, name, getattr(kind, name))
    guards = []

    def guarded(send: Any) -> Any:
        guards.append(once_guarded(send))
        time.sleep(0.02)
        return guards[-1]

    once_guarded = litellm_client._guarded
    monkeypatch.setattr(litellm_client, "_guarded", guarded)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: litellm_client.load(), range(4)))
    assert guards == [transport.handle_async_request]


async def _anew(*arguments: Any, **named: Any) -> str:
    return "sent again"


def test_a_call_of_a_program_is_not_touched(outgoing: httpx.Request) -> None:
    answer = asyncio.run(litellm_client._guarded(_moved)(None, outgoing))
    assert answer.status_code == 302
    assert "accept-encoding" not in outgoing.headers
    assert asyncio.run(litellm_client._once(_anew)()) == "sent again"


def test_a_call_of_titjudge_follows_no_redirect_and_is_sent_once(outgoing: httpx.Request) -> None:
    async def guarded() -> None:
        with litellm_client.traced(outgoing) as trace:
            with pytest.raises(ProviderFailure, match="points to another address"):
                await litellm_client._guarded(_moved)(None, outgoing)
            assert trace.sent
            with pytest.raises(ConnectionError, match="broke"):
                await litellm_client._once(_anew)()

    asyncio.run(guarded())


def test_a_reset_that_litellm_calls_a_failed_connection_may_have_been_billed() -> None:
    """litellm raises httpx.ConnectError for connections that break after sending, too; in an SDK it says that none was made."""
    provider = LiteLLM(ProviderSettings("openai/m", base_url="http://127.0.0.1:9/v1"))
    reset = httpx.ConnectError("Connection reset by peer")
    failure = provider._failure_of(reset, litellm_client.CallTrace(sent=True))
    assert (failure.kind, failure.maybe_billed, failure.not_sent) == (FailureKind.RETRY, True, False)
    assert isinstance(lost(reset, "http://127.0.0.1:9"), Unreachable)
    refused = provider._failure_of(ConnectionRefusedError("refused"), litellm_client.CallTrace(sent=True))
    assert (refused.maybe_billed, refused.not_sent) == (False, True)
