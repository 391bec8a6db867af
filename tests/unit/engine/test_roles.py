"""Who plays which role: one model of this machine is there once, whatever it plays."""

import asyncio
from typing import Any

import pytest

from titjudge.core import registry
from titjudge.core.config import RunConfig
from titjudge.engine.roles import Roles
from titjudge.providers import ProviderSettings
from titjudge.providers.fake import Fake


class Here(Fake):
    """A model of this machine that counts its lives."""

    made = closed = 0
    name = account = "here"

    def __init__(self, settings: ProviderSettings) -> None:
        super().__init__(settings)
        type(self).made += 1

    async def aclose(self) -> None:
        type(self).closed += 1


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Here, "made", 0)
    monkeypatch.setattr(Here, "closed", 0)
    load = registry.load
    monkeypatch.setattr(registry, "load", lambda kind, name: Here if name == "local" else load(kind, name))


def roles(**models: Any) -> Roles:
    return Roles(RunConfig.model_validate(models))


def test_a_local_model_in_two_roles_is_loaded_and_closed_once() -> None:
    found = roles(captioner="local/m", judge="local/m", panel=["local/m"])
    assert found["captioner"].provider is found["judge"].provider
    assert found["captioner"].tally is not found["judge"].tally
    asyncio.run(found.aclose())
    assert (Here.made, Here.closed) == (1, 1)


@pytest.mark.parametrize("other", ["local/n", {"model": "local/m", "options": {"remember": False}}])
def test_another_model_or_another_way_to_load_it_is_another(other: Any) -> None:
    found = roles(captioner="local/m", judge=other)
    assert found["captioner"].provider is not found["judge"].provider
    asyncio.run(found.aclose())
    assert (Here.made, Here.closed) == (2, 2)


def test_a_hosted_model_in_two_roles_has_two_clients_and_one_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    found = roles(captioner="openai/gpt-4o", judge="openai/gpt-4o")
    assert found["captioner"].provider is not found["judge"].provider
    assert found["captioner"].limiter is found["judge"].limiter


def test_what_a_server_does_not_take_is_neither_sent_nor_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A metric's own decoding may hold parameters that a compatible server answers with an error."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    from titjudge.metrics.checklist import DECODING

    server = {"model": "openai/some-model", "base_url": "http://127.0.0.1:9/v1"}
    without = ["chat_template_kwargs", "repetition_penalty"]
    found = roles(judge={**server, "omit": without}, captioner=server)
    assert set(DECODING) <= set(found["captioner"].sampling(DECODING, "strict"))
    assert set(found["judge"].sampling(DECODING, "strict")) == set(DECODING) - set(without)
    asyncio.run(found.aclose())


def test_a_guessed_price_and_parameters_that_are_not_sent_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(key, "sk-x")
    hosts = {"base_url": "http://127.0.0.1:9/v1"}
    found = roles(
        captioner={"model": "openai/gpt-4o", **hosts}, judge={"model": "gemini/gemini-3.8-flash", "top_p": 0.9}
    )
    assert found.notes() == []  # nobody has been asked
    sent = [found[name].sampling({"temperature": 0.5}, "strict") for name in ("captioner", "judge")]
    assert [each.get("temperature") for each in sent] == [0.5, None]
    assert "top_p" not in sent[1]
    guess, unsent = found.notes()
    assert "The price of openai/gpt-4o at http://127.0.0.1:9/v1 is not known" in guess
    assert "gemini/gemini-3.8-flash does not support temperature, top_p: not sent" in unsent
    asyncio.run(found.aclose())
    plain = roles(
        captioner="openai/gpt-4o",
        judge={"model": "openai/gpt-4o", **hosts},
        prices={"gpt-4o": {"input": 1, "output": 1}},
    )
    assert plain["captioner"].price is not None
    assert plain["judge"].price is not None
    assert plain.notes() == []
    asyncio.run(plain.aclose())


def test_a_run_that_omits_nothing_has_the_identity_it_had() -> None:
    from titjudge.runs.folder.identity import identity

    plain, less = (
        RunConfig.model_validate({"judge": {"model": "openai/m", **more}}) for more in ({}, {"omit": ["seed"]})
    )
    assert "omit" not in identity(plain)["judge"]
    assert identity(less)["judge"]["omit"] == ["seed"]


def test_the_default_model_does_not_change_while_a_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider goes on asking the one it was made for: an answer under the name of another would be kept as its."""
    monkeypatch.setenv("TITJUDGE_TODAY", "2026-09-01")
    role = roles(judge="gemini")["judge"]
    monkeypatch.setenv("TITJUDGE_TODAY", "2026-09-02")
    assert role.model == role.provider.model == "gemini-2.5-pro"
    assert roles(judge="gemini")["judge"].model == "gemini-3.8-flash"
