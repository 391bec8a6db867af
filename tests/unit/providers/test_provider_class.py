"""A hosted provider describes itself: one class and one line make it known to everything that names providers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from titjudge.cli.commands import run_command
from titjudge.cli.options import known_values
from titjudge.core import registry
from titjudge.core.config import load_config
from titjudge.core.errors import ConfigError
from titjudge.core.types import ProviderSettings
from titjudge.engine.prices import price_of
from titjudge.engine.roles import Roles
from titjudge.providers import make_provider, retirements, vendors
from titjudge.providers.batch.provider import batch_service_for
from titjudge.providers.hosted.openai import OpenAI
from titjudge.runs.folder.manifest import Pins


class Gateway(OpenAI):
    name, vendor, default_model = "gateway", "gemini", "gemini-2.5-pro"
    default_base, base_env, key_envs = "https://gateway.example/v1", "GATEWAY_URL", ("GATEWAY_KEY",)


@pytest.fixture(autouse=True)
def _announced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    announced = {"providers": {"gateway": f"{__name__}:Gateway"}}
    monkeypatch.setattr(registry, "announced", lambda kind: announced.get(kind, {}))
    retirements.retirement_of.cache_clear()
    vendors.image_rule.cache_clear()
    monkeypatch.setenv("GATEWAY_KEY", "k")
    yield
    retirements.retirement_of.cache_clear()
    vendors.image_rule.cache_clear()


def listed(tmp_path: Path, *command: str) -> list[dict[str, Any]]:
    assert run_command("titjudge", [*command, "--json", str(tmp_path / "listed.json")]) == 0
    rows: list[dict[str, Any]] = json.loads((tmp_path / "listed.json").read_text(encoding="utf-8"))
    return rows


def test_providers_and_completion_name_its_default_model_and_key(tmp_path: Path) -> None:
    row = {"kind": "provider", "name": "gateway", "default_model": "gemini-2.5-pro", "key": "GATEWAY_KEY"}
    assert row in listed(tmp_path, "providers")
    assert "gateway/gemini-2.5-pro" in known_values("models")


def test_doctor_names_its_key_and_the_retirement_of_its_default_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("titjudge.cli.doctor._embedder", lambda config: ("embedder", "ok", ""))
    rows = listed(tmp_path, "doctor", "--set", f"cache={tmp_path / 'cache'}")
    assert {"what": "gateway", "state": "ok", "facts": "GATEWAY_KEY is set"} in rows
    assert any(row["facts"].startswith("gateway/gemini-2.5-pro retires") for row in rows)


def test_its_models_are_priced_counted_and_read_as_those_of_its_vendor() -> None:
    known = price_of("gateway", "gemini-2.5-pro", base_url=Gateway.default_base)
    assert known is not None
    assert known == price_of("gemini", "gemini-2.5-pro")
    assert vendors.image_rule("gateway", "gemini-2.5-pro") == vendors.image_rule("gemini", "gemini-2.5-pro")
    provider: Any = make_provider("gateway", ProviderSettings("gemini-2.5-pro"))
    assert provider.family.name == "gemini-2.5"


def test_genai_prices_name_of_a_vendor_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gateway, "vendor", "google")
    assert retirements.retirement_of("gateway", "gemini-2.5-pro") == retirements.retirement_of(
        "gemini", "gemini-2.5-pro"
    )
    provider: Any = make_provider("gateway", ProviderSettings("gemini-2.5-pro"))
    assert provider.family.name == "gemini-2.5"


def test_one_without_key_variables_sends_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gateway, "key_envs", ())
    provider: Any = make_provider("gateway", ProviderSettings("m"))
    provider.ready()
    assert provider.headers_for(provider.endpoints.all[0]) == {}
    assert Gateway.setup() == []


def test_what_uses_the_machines_device_or_needs_no_model_is_said_by_its_class() -> None:
    names = [*registry.names("providers"), *registry.names("embedders")]
    here = {"external", "local", "scorer", "sentence-transformers", "vllm", "zero-shot-object-detection"}
    assert {name for name in names if registry.uses_device(name)} == here
    assert {name for name in registry.names("providers") if not registry.needs_model(name)} == {"fake", "recorded"}


def test_a_run_is_pinned_to_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_URL", "https://other.example/v1")
    roles = Roles(load_config(None, {"judge": "gateway"}))
    assert Pins(roles, ["judge"]).models == {"judge": "https://other.example/v1"}


@pytest.mark.parametrize("model", ["openai/m", "azure/m", "gemini/m", "litellm/anthropic/m"])
def test_a_run_is_pinned_to_its_address_whoever_the_hosted_provider_is(model: str) -> None:
    roles = Roles(load_config(None, {"judge": {"model": model, "base_url": "http://127.0.0.1:9/v1"}}))
    assert Pins(roles, ["judge"]).models == {"judge": "http://127.0.0.1:9/v1"}


def test_it_has_the_batch_service_that_its_class_names_and_else_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"https://gateway.example/v1 has no batch jobs, only gemini and openai"):
        batch_service_for(make_provider("gateway", ProviderSettings("m")))
    monkeypatch.setattr(Gateway, "batch_service", OpenAI.batch_service)
    assert batch_service_for(make_provider("gateway", ProviderSettings("m"))).label == "gateway/m"
