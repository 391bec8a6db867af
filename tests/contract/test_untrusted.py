"""Where keys, prompts and images may go: to no server whose certificate is not trusted, and to none that another points to."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from batch_server import BatchServer
from test_batch_services import BaseBatchService
from test_provider_quirks import failure
from test_provider_spec import google_credentials
from tls import Untrusted

from tests.kit import Scripted, Server
from titjudge.core.types import FailureKind
from titjudge.providers import ProviderSettings
from titjudge.providers.hosted.azure import Azure
from titjudge.providers.hosted.gemini import Gemini
from titjudge.providers.hosted.litellm import LiteLLM
from titjudge.providers.hosted.openai import OpenAI

pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
SDK = {"client": "sdk"}
LIVE: dict[str, tuple[Any, str, str, dict[str, Any]]] = {
    "openai": (OpenAI, "gpt-4o", "/v1", {}),
    "openai, SDK": (OpenAI, "gpt-4o", "/v1", SDK),
    "azure": (Azure, "gpt-4o", "", {}),
    "gemini": (Gemini, "gemini-2.5-pro", "", {}),
    "gemini, SDK": (Gemini, "gemini-2.5-pro", "", SDK),
    "vertex": (Gemini, "gemini-2.5-pro", "", {"vertexai": True, "project": "p", "location": "here"}),
    "litellm": (LiteLLM, "openai/gpt-4o", "/v1", {}),
}


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-nobody")
    monkeypatch.setenv("GEMINI_API_KEY", "key-of-nobody")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "key-of-nobody")
    google_credentials(monkeypatch)


def made(kind: str, url: str) -> Any:
    cls, model, path, options = LIVE[kind]
    return cls(ProviderSettings(model, base_url=f"{url}{path}", timeout=60.0, options=options))


@pytest.mark.parametrize("kind", LIVE)
def test_a_certificate_that_nobody_signed_ends_the_run_before_anything_is_said(kind: str) -> None:
    with Untrusted() as server:
        found = failure(made(kind, server.url))
    assert server.heard == 0
    assert found.kind is FailureKind.FATAL
    assert "certificate" in found.message.lower()
    assert not found.maybe_billed


@pytest.mark.parametrize("kind", ["openai", "gemini"])
def test_batch_jobs_name_such_a_certificate_at_once(kind: str, tmp_path: Path) -> None:
    with BatchServer() as unused, Untrusted() as server:
        service = BaseBatchService(unused, kind, tmp_path / "jobs")
        real = service.real()
        moved: Any = type(real)(replace(real.settings, base_url=server.url + LIVE[kind][2]))
        service.real = lambda: moved  # type: ignore[method-assign]
        found = service.ask(service.requests(2))
    assert server.heard == 0
    assert service.kinds(found) == [FailureKind.FATAL] * 2
    assert all("certificate" in str(each).lower() for each in found)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("kind", LIVE)
def test_no_redirect_is_followed(kind: str, status: int) -> None:
    with Server() as server, Server() as other:
        there = other.url if LIVE[kind][0] is Gemini else other.openai
        server.script(Scripted(status=status, headers={"Location": f"{there}/chat/completions"}, body=b"{}"))
        found = failure(made(kind, server.url))
        assert other.count() == 0
    assert found.kind is FailureKind.FATAL
