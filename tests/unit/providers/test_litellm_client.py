"""What guards litellm's network guards the calls of titjudge alone: a program's own calls beside it are as they were."""

import asyncio
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
