"""Hosted embedders against the loopback server: what is sent, what is made of the answer, what a failure is called."""

import asyncio
from typing import Any

import numpy as np
import pytest

from tests.kit import Scripted, Seen, Server
from titjudge.core.errors import ConfigError
from titjudge.core.types import Embedding, FailureKind, ProviderSettings
from titjudge.providers.hosted.embeddings import GeminiEmbedder, OpenAIEmbedder
from titjudge.providers.hosted.http import Transport


def run(kind: type[Any], server: Server, texts: list[str], model: str = "m", **options: Any) -> list[Embedding]:
    base = server.openai if kind is OpenAIEmbedder else server.url
    embedder = kind(model, ProviderSettings(model, base_url=base, timeout=60, options=options), Transport())

    async def go() -> list[Embedding]:
        try:
            return await embedder.embed(texts)
        finally:
            await embedder.aclose()

    return asyncio.run(go())


def failure(kind: type[Any], server: Server) -> FailureKind:
    with pytest.raises(Exception, match=r".+") as caught:
        run(kind, server, ["a"])
    settings = ProviderSettings("m", base_url=server.url)
    return kind("m", settings).classify(caught.value).kind


def openai_body(values: list[float], tokens: int) -> Scripted:
    return Scripted(body={"data": [{"embedding": values, "index": 0}], "usage": {"prompt_tokens": tokens}})


def test_openai_sends_plain_text_and_normalises() -> None:
    with Server() as server:
        server.script(openai_body([3.0, 4.0], 7))
        (one,) = run(OpenAIEmbedder, server, ["a red cube"], dimensions=2)
        assert server.last.path == "/v1/embeddings"
        assert server.last.body == {"model": "m", "input": "a red cube", "encoding_format": "float", "dimensions": 2}
    assert np.allclose(one.vector, [0.6, 0.8])
    assert one.vector.dtype == np.float32
    assert (one.tokens_used, one.cut) == (7, False)


def test_openai_order_is_kept() -> None:
    def answer(seen: Seen) -> Scripted:
        return openai_body([1.0, float(len(seen.body["input"]))], 1)

    with Server(answer) as server:
        found = run(OpenAIEmbedder, server, ["a", "bbb", "cc"])
    assert [round(float(each.vector[1] / each.vector[0])) for each in found] == [1, 3, 2]


def test_a_server_that_cuts_at_its_limit_is_noticed() -> None:
    with Server() as server:
        server.script(openai_body([1.0], 20))
        (one,) = run(OpenAIEmbedder, server, ["word " * 50], max_length=20)
    assert one.cut
    assert one.tokens_total == 50


@pytest.mark.parametrize(
    "body", [{"data": []}, {"data": [{"embedding": [0.0, 0.0]}]}, {"data": [{"embedding": "x"}]}, []]
)
def test_an_answer_without_a_vector_is_no_vector(body: Any) -> None:
    with Server() as server:
        server.script(Scripted(body=body))
        assert failure(OpenAIEmbedder, server) is FailureKind.RETRY


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, FailureKind.RATE_LIMIT), (503, FailureKind.LATER), (401, FailureKind.FATAL), (400, FailureKind.REJECTED)],
)
@pytest.mark.parametrize("embedder", [OpenAIEmbedder, GeminiEmbedder])
def test_failures_are_classified(embedder: type[Any], status: int, kind: FailureKind) -> None:
    with Server() as server:
        server.script(Scripted.fault(status))
        assert failure(embedder, server) is kind


def test_gemini_short_text_is_one_request_without_task_type() -> None:
    with Server() as server:
        server.script(Scripted(body={"embedding": {"values": [0.0, 2.0]}}))
        (one,) = run(GeminiEmbedder, server, ["a red cube"], model="gemini-embedding-001")
        assert server.last.path == "/v1beta/models/gemini-embedding-001:embedContent"
        wanted = {"model": "models/gemini-embedding-001", "content": {"parts": [{"text": "a red cube"}]}}
        assert server.last.body == wanted
        assert server.count() == 1
    assert np.allclose(one.vector, [0.0, 1.0])
    assert not one.cut


def test_gemini_counts_what_google_would_cut_silently() -> None:
    with Server() as server:
        server.script(Scripted(body={"totalTokens": 3000}), Scripted(body={"embedding": {"values": [1.0]}}))
        (one,) = run(GeminiEmbedder, server, ["word " * 3000], model="gemini-embedding-001")
        assert [each.path.rpartition(":")[2] for each in server.requests] == ["countTokens", "embedContent"]
    assert (one.tokens_used, one.tokens_total, one.cut) == (2048, 3000, True)


def test_identity_holds_what_changes_a_vector() -> None:
    def identity(**options: Any) -> Any:
        return GeminiEmbedder("m", ProviderSettings("m", options=options)).identity

    assert identity() != identity(dimensions=256) != identity(task_type="SEMANTIC_SIMILARITY")
    one, other = (OpenAIEmbedder("m", ProviderSettings("m", base_url=f"http://h{n}/v1")) for n in "12")
    assert one.identity != other.identity
    with pytest.raises(ConfigError, match="dimension"):
        identity(dimension=3)
