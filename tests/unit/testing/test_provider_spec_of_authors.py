"""The contract for authors of providers: good ones pass, and one that keeps broken answers does not."""

from dataclasses import replace
from typing import Any

import pytest

from titjudge.core.types import Reply, Status
from titjudge.providers.hosted.gemini import Gemini
from titjudge.providers.hosted.openai import OpenAI
from titjudge.testing.provider_spec import KEY, ProviderCase, ProviderSpec, Wire


def openai_answer(text: str, end: str | None) -> Any:
    message = {"role": "assistant", "content": text, "refusal": "No." if end == "refusal" else None}
    choice = {"message": message, "finish_reason": "stop" if end == "refusal" else end}
    return {"model": "gpt-4o", "choices": [choice], "usage": {"prompt_tokens": 20, "completion_tokens": 5}}


def gemini_answer(text: str, end: str | None) -> Any:
    reason = {"stop": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"}.get(str(end), end)
    candidate = {"content": {"role": "model", "parts": [{"text": text}] if text else []}, "finishReason": reason}
    usage = {"promptTokenCount": 20, "candidatesTokenCount": 5}
    return {"modelVersion": "gemini-2.5-pro-001", "candidates": [candidate], "usageMetadata": usage}


class TestOpenAI(ProviderSpec):
    provider = ProviderCase("openai", OpenAI, "gpt-4o", openai_answer)


class TestGemini(ProviderSpec):
    provider = ProviderCase("gemini", Gemini, "gemini-2.5-pro", gemini_answer)


class Credulous(OpenAI):
    """It takes every answer for whole."""

    def read_reply(self, *arguments: Any, **named: Any) -> Reply:
        return replace(super().read_reply(*arguments, **named), status=Status.OK)


def test_a_provider_that_keeps_broken_answers_breaks_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEC_API_KEY", KEY)
    case = ProviderCase("credulous", Credulous, "gpt-4o", openai_answer)
    for broken in (ProviderSpec.test_output_is_truncated, ProviderSpec.test_refusals_are_replies_with_what_they_cost):
        with pytest.raises(AssertionError):
            broken(ProviderSpec(), case, Wire(openai_answer))
