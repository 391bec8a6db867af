"""The vendors' SDKs as a way to send: the same bodies and answers as our own HTTP, with credentials that only they know."""

import asyncio
import json
import logging
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from test_provider_spec import google_credentials

from tests.kit import Scripted, Seen, Server
from titjudge.core.config import load_config
from titjudge.core.errors import ConfigError, MissingExtra
from titjudge.core.prompts import PromptLibrary
from titjudge.core.structured_output import schema_of
from titjudge.core.types import Failure, FailureKind, Message, Reply, Request, Tool
from titjudge.engine.budget import Budget
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.providers import ProviderSettings
from titjudge.providers.batch.provider import batch_service_for
from titjudge.providers.hosted.azure import Azure
from titjudge.providers.hosted.embeddings import GeminiEmbedder
from titjudge.providers.hosted.gemini import Gemini
from titjudge.providers.hosted.openai import OpenAI
from titjudge.testing.provider_spec import PICTURE, SampleVerdict

pytestmark = pytest.mark.usefixtures("keys_of_nobody")

VERTEX = {"vertexai": True, "project": "my-project", "location": "here"}
TOKEN = "token-of-entra-or-google-1234567890"


def asked(provider: Any, *requests: Request) -> list[Reply]:
    async def work() -> list[Reply]:
        try:
            return [await provider.complete(each) for each in requests]
        finally:
            await provider.aclose()

    return asyncio.run(work())


def failed(provider: Any) -> Failure:
    with pytest.raises(Exception) as caught:
        asked(provider, question(provider.model))
    return provider.classify(caught.value)  # type: ignore[no-any-return]


def question(model: str, **more: Any) -> Request:
    return Request("", model, (Message("user", ("What is it?",)),), {"max_tokens": 50}, **more)


GEMINI_PARAMS = {
    "max_tokens": 99,
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 3,
    "seed": 7,
    "stop": ["END"],
    "thinking_budget": 128,
    "media_resolution": "low",
    "safety_settings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
}
OPENAI_PARAMS = {"max_tokens": 99, "temperature": 0.5, "seed": 7, "stop": ["END"], "detail": "low", "odd_one": [1]}


def requests(model: str, params: dict[str, Any]) -> list[Request]:
    """One with an image, a system turn, several turns and a schema; one with a tool."""
    turns = (
        Message("system", ("Be brief.",)),
        Message("user", (PICTURE, "Describe it — 用一句话 🍎")),
        Message("assistant", ("A lamp.",)),
        Message("user", ("Sure?",)),
    )
    tool = Tool("zoom", "Look closer.", {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]})
    return [Request("", model, turns, params, schema_of(SampleVerdict), "Verdict"), question(model, tools=(tool,))]


@pytest.mark.parametrize(
    "made",
    [
        lambda url: OpenAI(ProviderSettings("gpt-4o", f"{url}/v1", options={"client": "sdk"})),
        lambda url: Azure(ProviderSettings("gpt-4o", url)),
        lambda url: Gemini(ProviderSettings("gemini-2.0-flash", url, options={"client": "sdk"})),
        lambda url: Gemini(ProviderSettings("gemini-2.0-flash", url, options=VERTEX)),
    ],
    ids=["openai", "azure", "gemini", "vertex"],
)
def test_they_tell_how_likely_the_first_token_is(made: Any, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    google_credentials(monkeypatch, TOKEN)
    server.handler = lambda seen: Scripted("Yes", "length", tops=[("Yes", -0.25), ("No", -2.5)])
    provider = made(server.url)
    assert provider.capabilities.probabilities
    (reply,) = asked(provider, question(provider.model, choices=("Yes",)))
    assert reply.first_token is not None
    assert reply.first_token.tokens == (("Yes", -0.25), ("No", -2.5))


@pytest.mark.parametrize(
    ("kind", "base", "sdk"),
    [
        (OpenAI, "/v1", lambda url: OpenAI(ProviderSettings("gpt-4o", f"{url}/v1", options={"client": "sdk"}))),
        (OpenAI, "/v1", lambda url: Azure(ProviderSettings("gpt-4o", url))),
        (Gemini, "", lambda url: Gemini(ProviderSettings("gemini-2.5-pro", url, options={"client": "sdk"}))),
        (Gemini, "", lambda url: Gemini(ProviderSettings("gemini-2.5-pro", url, options=VERTEX))),
    ],
    ids=["openai", "azure", "gemini", "vertex"],
)
def test_both_ways_send_the_same_and_read_the_same(
    kind: Any, base: str, sdk: Any, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    google_credentials(monkeypatch, TOKEN)
    through_sdk = sdk(server.url)
    own = kind(ProviderSettings(through_sdk.model, f"{server.url}{base}", options={"tools": True}))
    wanted = requests(own.model, OPENAI_PARAMS if kind is OpenAI else GEMINI_PARAMS)
    server.script(*[Scripted("a red apple", headers={"x-one": "1"}), Scripted(calls=[("zoom", {"x": 1})])] * 2)
    mine, theirs = asked(own, *wanted), asked(through_sdk, *wanted)
    bodies = [each.body for each in server.requests]
    assert bodies[:2] == bodies[2:]
    assert server.requests[2].images == (PICTURE.sha256,)
    assert list(map(said, mine)) == list(map(said, theirs))
    assert [len(each.tool_calls) for each in theirs] == [0, 1]


def said(reply: Reply) -> list[Any]:
    calls = [(call.name, call.arguments) for call in reply.tool_calls]
    return [reply.text, reply.status, reply.usage.input, reply.finish_reason, reply.model_version, reply.flags, calls]


def test_the_key_of_one_vendor_goes_to_no_other(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDKs read variables of their own."""
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, "a-secret-of-the-environment")
    for provider in (
        OpenAI(ProviderSettings("gpt-4o", server.openai, options={"client": "sdk"})),
        Gemini(ProviderSettings("gemini-2.5-pro", server.url, options={"client": "sdk"})),
        Azure(ProviderSettings("gpt-4o", server.url)),
    ):
        asked(provider, question(provider.model))
        assert "a-secret-of-the-environment" not in str(server.last.headers)
        assert "key-of-nobody" in str(server.last.headers)


def test_azure_is_asked_at_the_deployment_by_key(server: Server) -> None:
    provider = Azure(ProviderSettings("my deployment", server.url, options={"api_version": "2030-01-01"}))
    (reply,) = asked(provider, question("my deployment"))
    assert server.last.path == "/openai/deployments/my%20deployment/chat/completions?api-version=2030-01-01"
    assert server.last.headers["api-key"] == "key-of-nobody"
    assert "authorization" not in server.last.headers
    assert reply.endpoint == server.url


PLAIN = "/openai/deployments/my-dep/chat/completions?api-version="


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("/", f"{PLAIN}2024-10-21"),
        ("/openai/", f"{PLAIN}2024-10-21"),
        ("/?api-version=2031-02-02", f"{PLAIN}2031-02-02"),
        (f"{PLAIN}2025-01-01-preview", f"{PLAIN}2025-01-01-preview"),
        ("/openai/deployments/my-dep", f"{PLAIN}2024-10-21"),
        ("/openai/v1/", "/openai/v1/chat/completions"),
        ("/openai/v1", "/openai/v1/chat/completions"),
        ("/openai/v1/chat/completions", "/openai/v1/chat/completions"),
        ("/openai/v1/?api-version=preview", "/openai/v1/chat/completions?api-version=preview"),
    ],
)
def test_azure_takes_an_address_in_any_form_of_its_portal(server: Server, address: str, path: str) -> None:
    provider = Azure(ProviderSettings("my-dep", server.url + address))
    asked(provider, question("my-dep"))
    assert server.last.path == path
    assert json.loads(server.last.raw)["model"] == "my-dep"
    assert server.last.headers["api-key"] == "key-of-nobody"
    assert server.last.headers.get("authorization", "Bearer key-of-nobody") == "Bearer key-of-nobody"
    assert provider.base_url == server.url + ("/openai/v1" if "/openai/v1" in address else "")


def test_azure_says_where_the_address_is_of_another_deployment(server: Server) -> None:
    with pytest.raises(ConfigError, match="the address contains the deployment other, but the model is azure/my-dep"):
        Azure(ProviderSettings("my-dep", f"{server.url}/openai/deployments/other/chat/completions?api-version=1"))
    given = Azure(ProviderSettings("my-dep", f"{server.url}{PLAIN}1", options={"api_version": "2"}))
    asked(given, question("my-dep"))
    assert server.last.path == f"{PLAIN}2"


@pytest.mark.parametrize("path", ["", "/openai/v1/"])
def test_azure_goes_by_a_token_before_a_key(server: Server, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", TOKEN)
    asked(Azure(ProviderSettings("gpt-4o", server.url + path)), question("gpt-4o"))
    assert server.last.headers["authorization"] == f"Bearer {TOKEN}"
    monkeypatch.delenv("AZURE_OPENAI_AD_TOKEN")
    monkeypatch.delenv("AZURE_OPENAI_API_KEY")
    closed = entra(monkeypatch)
    asked(Azure(ProviderSettings("gpt-4o", server.url + path)), question("gpt-4o"))
    assert server.last.headers["authorization"] == f"Bearer {TOKEN} for https://cognitiveservices.azure.com/.default"
    assert len(closed) == 1


def test_azure_without_credentials_says_in_one_line_what_to_set(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_OPENAI_API_KEY")
    closed = entra(monkeypatch, found=False)
    with pytest.raises(ConfigError, match=r"set AZURE_OPENAI_API_KEY, or sign in to Entra ID .*: no credential here"):
        asked(Azure(ProviderSettings("gpt-4o", server.url)), question("gpt-4o"))
    assert (server.count(), len(closed)) == (0, 1)
    assert logging.getLogger("azure").hasHandlers()  # without one its ten lines would go to standard error


def test_azure_goes_by_entra_id_where_there_is_no_key(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_OPENAI_API_KEY")
    entra(monkeypatch)
    provider = Azure(ProviderSettings("gpt-4o", server.url))
    asked(provider, question("gpt-4o"))
    assert server.last.headers["authorization"] == f"Bearer {TOKEN} for https://cognitiveservices.azure.com/.default"
    told = server.last.headers["authorization"].removeprefix("Bearer ")
    server.script(Scripted(status=401, body={"error": {"message": f"the token {told} has expired"}}))
    found = failed(Azure(ProviderSettings("gpt-4o", server.url)))
    assert found.kind is FailureKind.FATAL
    assert "has expired" in found.message
    assert TOKEN not in found.message
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", TOKEN)
    asked(Azure(ProviderSettings("gpt-4o", server.url)), question("gpt-4o"))
    assert server.last.headers["authorization"] == f"Bearer {TOKEN}"


def entra(monkeypatch: pytest.MonkeyPatch, *, found: bool = True) -> list[object]:
    """A stand-in for azure-identity; the list gets the credentials that were closed."""
    closed: list[object] = []

    class Credential:
        async def close(self) -> None:
            closed.append(self)

    made: Any = ModuleType("azure.identity.aio")

    def provider(credential: object, scope: str) -> Any:
        async def token() -> str:
            if not found:
                raise RuntimeError("no credential\nhere")
            return f"{TOKEN} for {scope}"

        return token

    made.DefaultAzureCredential, made.get_bearer_token_provider = Credential, provider
    for name, module in (("azure", ModuleType("azure")), ("azure.identity", ModuleType("i")), (made.__name__, made)):
        monkeypatch.setitem(sys.modules, name, module)
    return closed


def test_azure_says_what_is_missing(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_OPENAI_API_KEY")
    with pytest.raises(ConfigError, match="Set AZURE_OPENAI_ENDPOINT, or add --base-url"):
        Azure(ProviderSettings("gpt-4o"))
    monkeypatch.setitem(sys.modules, "azure.identity.aio", None)
    with pytest.raises(MissingExtra, match=r"pip install 'titjudge\[azure\]'"):
        asked(Azure(ProviderSettings("gpt-4o", server.url)), question("gpt-4o"))
    assert server.count() == 0


def test_a_deployment_is_known_and_priced_by_its_model(server: Server) -> None:
    """By the option `model` before, and by the model that answered."""

    async def spent(role: dict[str, Any]) -> tuple[float, float | None]:
        given = {"model": "azure/mine", "base_url": "https://x.openai.azure.com", **role}
        roles = Roles(load_config(None, {"captioner": given}))
        at = roles["captioner"]
        at.provider.endpoints.all[0].identity = server.url  # type: ignore[attr-defined]
        engine = Engine(roles, PromptLibrary())
        engine.sender.budget = budget = Budget(None)
        request = engine.request(at, (Message("user", ("?",)),), template="t", item_id="i", schema=None, params={})
        reply = await engine.answer(at, request)
        await engine.aclose()
        return budget.spent, at.price_of(reply.usage)

    listed = 1000 * 2.5e-6 + 100 * 10e-6
    server.handler = lambda seen: Scripted(body=answer_of("gpt-4o-2024-08-06"))
    for role, known in (({}, None), ({"options": {"model": "gpt-4o"}}, listed)):
        cost, by_name = asyncio.run(spent(role))
        assert cost == pytest.approx(listed)
        assert by_name == (pytest.approx(known) if known else None)
    assert Azure(ProviderSettings("mine", server.url, options={"model": "o4-mini"})).family.name == "o-series"


def answer_of(model: str) -> Any:
    choice = {"message": {"role": "assistant", "content": "fine"}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    return {"model": model, "choices": [choice], "usage": usage}


# ---------------------------------------------------------------------- Vertex AI


def test_vertex_is_asked_in_the_project_and_by_a_token(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    google_credentials(monkeypatch, TOKEN)
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "my-project")
    monkeypatch.setenv("GOOGLE_VERTEX_BASE_URL", server.url)
    provider = Gemini(ProviderSettings("gemini-2.5-pro"))
    (reply,) = asked(provider, question("gemini-2.5-pro"))
    place = "projects/my-project/locations/global"
    assert server.last.path == f"/v1beta1/{place}/publishers/google/models/gemini-2.5-pro:generateContent"
    assert server.last.headers["authorization"] == f"Bearer {TOKEN}"
    assert "x-goog-api-key" not in server.last.headers
    assert reply.endpoint == provider.base_url == f"{server.url}/{place}"


@pytest.mark.parametrize(
    ("location", "host"),
    [
        ("global", "aiplatform.googleapis.com"),
        ("us-central1", "us-central1-aiplatform.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
    ],
)
def test_vertex_goes_where_the_sdk_would(location: str, host: str) -> None:
    from google import genai
    from google.oauth2.credentials import Credentials

    provider = Gemini(ProviderSettings("gemini-2.5-pro", options={**VERTEX, "location": location}))
    assert provider.base_url == f"https://{host}/projects/my-project/locations/{location}"
    sdk = genai.Client(vertexai=True, project="my-project", location=location, credentials=Credentials(TOKEN))
    assert sdk._api_client._http_options.base_url == f"https://{host}/"
    price = Roles(load_config(None, {"captioner": "gemini/gemini-2.5-pro"}))._price(
        load_config(None, {"captioner": "gemini/gemini-2.5-pro"}).roles["captioner"], provider
    )
    assert price is not None
    assert not price.elsewhere


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server) -> Path:
    """Application-default credentials: the file of a service account whose tokens come from the loopback server."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PrivateFormat.PKCS8
    pem = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()
    record = {"type": "service_account", "project_id": "p", "private_key_id": "1", "private_key": pem}
    file = tmp_path / "account.json"
    file.write_text(json.dumps({**record, "client_email": "a@b.c", "token_uri": f"{server.url}/token"}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    return file


def tokens(status: int, body: Any) -> Any:
    def handler(seen: Seen) -> Scripted | None:
        return Scripted(status=status, body=body) if seen.path == "/token" else None

    return handler


def test_application_default_credentials_get_a_token_once(server: Server, account: Path) -> None:
    server.handler = tokens(200, {"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"})
    asked(Gemini(ProviderSettings("gemini-2.5-pro", server.url, options=VERTEX)), *[question("gemini-2.5-pro")] * 3)
    assert server.count(lambda seen: seen.path == "/token") == 1
    assert server.last.headers["authorization"] == f"Bearer {TOKEN}"


def test_credentials_that_are_missing_or_refused_end_the_run(
    server: Server, account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.handler = tokens(400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."})
    provider = Gemini(ProviderSettings("gemini-2.5-pro", server.url, options=VERTEX))
    refused = failed(provider)
    assert (refused.kind, refused.maybe_billed) == (FailureKind.FATAL, False)
    assert "Invalid JWT Signature" in refused.message
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account.with_name("gone.json")))
    missing = failed(Gemini(ProviderSettings("gemini-2.5-pro", server.url, options=VERTEX)))
    assert missing.kind is FailureKind.FATAL
    assert "gone.json" in missing.message
    assert server.count("gemini") == 0


def test_vertex_takes_an_api_key_where_there_is_no_project(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    provider = Gemini(ProviderSettings("gemini-2.5-pro", server.url, options={"vertexai": True}))
    asked(provider, question("gemini-2.5-pro"))
    assert server.last.path == "/v1beta1/publishers/google/models/gemini-2.5-pro:generateContent"
    assert server.last.headers["x-goog-api-key"] == "key-of-nobody"
    vendor = Gemini(ProviderSettings("gemini-2.5-pro", options={"vertexai": True}))
    assert vendor.base_url == "https://aiplatform.googleapis.com/v1beta1/publishers/google"
    config = load_config(None, {"captioner": "gemini/gemini-2.5-pro"})
    price = Roles(config)._price(config.roles["captioner"], vendor)
    assert price is not None
    assert not price.elsewhere


def test_settings_that_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="Vertex AI requires a project"):
        Gemini(ProviderSettings("gemini-2.5-pro", options={"vertexai": True}))
    with pytest.raises(ConfigError, match="requires a project and a location"):
        Gemini(ProviderSettings("gemini-2.5-pro", options={**VERTEX, "location": "x/../y"}))
    with pytest.raises(ConfigError, match=r"client must be http .* or sdk"):
        OpenAI(ProviderSettings("gpt-4o", options={"client": "curl"}))
    for provider in (Gemini(ProviderSettings("g", options=VERTEX)), Azure(ProviderSettings("g", "http://127.0.0.1:9"))):
        with pytest.raises(ConfigError, match=r"only gemini and openai\. Remove --batch"):
            batch_service_for(provider)
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "1")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    with pytest.raises(ConfigError, match="chat models only"):
        GeminiEmbedder("gemini-embedding-001", ProviderSettings("gemini-embedding-001"))
