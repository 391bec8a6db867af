"""Every hosted provider passes the contract of `tests.kit`, against a loopback server."""

import sys
from types import ModuleType
from typing import Any

import pytest
from google.oauth2.credentials import Credentials
from pages import page_text

from tests.kit.provider_spec import KEY, ProviderCase, ProviderSpec
from titjudge.core import registry
from titjudge.providers.hosted.azure import Azure
from titjudge.providers.hosted.gemini import Gemini
from titjudge.providers.hosted.litellm import LiteLLM
from titjudge.providers.hosted.openai import OpenAI

pytestmark = pytest.mark.slow  # many in all, each of them short


def _example() -> Any:
    """The hosted provider of docs/extend/provider.md, as a module of its own."""
    page = page_text("provider")
    code = page.partition("# my_package/messages.py\n")[2].partition("```")[0]
    module = sys.modules["extending_messages"] = ModuleType("extending_messages")
    exec(compile(code, "docs/extend/provider.md", "exec"), module.__dict__)
    return module.Messages


Messages = _example()
VERTEX = {"vertexai": True, "project": "my-project", "location": "here"}
CASES = [
    ProviderCase("openai", OpenAI, "gpt-4o", "openai"),
    ProviderCase("openai-compatible", OpenAI, "Qwen/Qwen2.5-VL-7B-Instruct", "openai"),
    ProviderCase("openai-reasoning", OpenAI, "o4-mini", "openai"),
    ProviderCase("gemini", Gemini, "gemini-2.5-pro", "gemini"),
    ProviderCase("openai-sdk", OpenAI, "gpt-4o", "openai", options={"client": "sdk"}),
    ProviderCase("gemini-sdk", Gemini, "gemini-2.5-pro", "gemini", options={"client": "sdk"}),
    ProviderCase("azure", Azure, "gpt-4o", "openai", path="", address="https://mine.openai.azure.com"),
    ProviderCase(
        "vertex", Gemini, "gemini-2.5-pro", "gemini", options=VERTEX, endpoint="/projects/my-project/locations/here"
    ),
    ProviderCase("litellm-openai", LiteLLM, "openai/gpt-4o", "openai"),
    ProviderCase(
        "litellm-gemini",
        LiteLLM,
        "gemini/gemini-2.5-pro",
        "gemini",
        path="/v1beta",
        tells_quota=False,
        tells_headers=False,
    ),
    ProviderCase("messages", Messages, "claude-sonnet-4-5", "anthropic", tells_quota=False, tells_thinking=False),
    ProviderCase(
        "litellm-anthropic",
        LiteLLM,
        "anthropic/claude-sonnet-4-5",
        "anthropic",
        tells_quota=False,
        tells_thinking=False,
    ),
]


# litellm's own types make pydantic warn, and it lets go of sockets late.
_OF_LITELLM = pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict class:UserWarning")


def google_credentials(monkeypatch: pytest.MonkeyPatch, token: str = KEY) -> None:
    """Application-default credentials with a token that is good already."""
    monkeypatch.setattr("google.auth.default", lambda scopes=(): (Credentials(token), "another-project"))


def _param(case: ProviderCase) -> Any:
    return pytest.param(case, id=case.name, marks=[_OF_LITELLM] if case.make is LiteLLM else [])


class EveryProvider:
    """Tests get each of them as `case`."""

    @pytest.fixture(params=[_param(case) for case in CASES])
    def case(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ProviderCase:
        monkeypatch.setenv("SPEC_API_KEY", KEY)
        monkeypatch.setitem(registry.TABLES["providers"], "messages", "extending_messages:Messages")
        google_credentials(monkeypatch)
        return request.param  # type: ignore[no-any-return]


class TestHostedProviders(EveryProvider, ProviderSpec):
    def test_registered(self, case: ProviderCase) -> None:
        assert registry.load("providers", case.make.name) is case.make  # type: ignore[attr-defined]
