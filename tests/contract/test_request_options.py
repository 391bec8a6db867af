"""Settings of a role that reach the request, and those that are refused before anything is sent."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import png
from commands import cli

from tests.kit import Server
from titjudge import Judge
from titjudge.core.config import RunConfig
from titjudge.core.errors import ConfigError
from titjudge.core.serialization import request_key
from titjudge.core.types import Message, Request
from titjudge.engine.roles import Roles
from titjudge.providers import ProviderSettings, make_provider
from titjudge.providers.batch.provider import batch_service_for
from titjudge.runs.folder.identity import identity

pytestmark = pytest.mark.usefixtures("keys_of_nobody")

ADDRESS = {"openai": "/v1", "litellm": "", "gemini": ""}


def body_of(server: Server, model: str, protocol: str = "strict", **role: Any) -> tuple[dict[str, Any], str]:
    """Ask one question in a role, and return the body that the server got and the key of the answer."""
    provider, _, name = model.partition("/")
    address = server.url + ADDRESS[provider]
    config = RunConfig.model_validate({"judge": {"model": model, "base_url": address, **role}, "protocol": protocol})

    async def work() -> str:
        roles = Roles(config)
        judge = roles["judge"]
        params = judge.sampling({}, protocol)
        request = Request(provider, name, (Message("user", ("Is it red?",)),), params)
        await judge.provider.complete(request)
        bound = judge.provider.usage_bound(request)
        bare = replace(request, params={key: value for key, value in params.items() if key != "body"})
        assert ("body" not in params) or bound.input > judge.provider.usage_bound(bare).input
        await roles.aclose()
        return request_key(request)

    key = asyncio.run(work())
    return json.loads(server.last.raw), key


# ---------------------------------------------------------------------- a way through


@pytest.mark.parametrize(
    ("model", "body"),
    [
        ("openai/qwen", {"chat_template_kwargs": {"enable_thinking": False}, "top_k": 1}),
        ("openai/gpt-5", {"service_tier": "flex"}),
        ("openai/vendor/model", {"provider": {"order": ["vendor"], "max_price": {"prompt": 1}}}),
        ("gemini/gemini-2.5-pro", {"safetySettings": [{"category": "C", "threshold": "BLOCK_NONE"}]}),
        pytest.param("litellm/anthropic/claude-sonnet-4-5", {"service_tier": "standard_only"}, marks=pytest.mark.slow),
    ],
)
def test_settings_that_only_the_server_knows_are_in_the_body_and_in_the_key(
    server: Server, model: str, body: dict[str, Any]
) -> None:
    plain, plain_key = body_of(server, model)
    sent, key = body_of(server, model, options={"body": body})
    assert {name: sent[name] for name in body} == body
    assert {name: value for name, value in sent.items() if name not in body} == plain
    assert key != plain_key


def test_mappings_are_merged_into_those_of_the_request(server: Server) -> None:
    options = {"body": {"generationConfig": {"topK": 1, "thinkingConfig": {"includeThoughts": False}}}}
    sent, _ = body_of(server, "gemini/gemini-3-pro-preview", thinking_level="low", options=options)
    config = sent["generationConfig"]
    assert (config["topK"], config["temperature"]) == (1, 0)
    assert config["thinkingConfig"] == {"thinkingLevel": "low", "includeThoughts": False}


@pytest.mark.parametrize(
    ("provider", "options", "why"),
    [
        (
            "openai",
            {"nonsense": 1},
            "unknown option of openai models 'nonsense'. Known: body, client, tools. Put parameters",
        ),
        ("openai", {"toolz": True}, "Did you mean 'tools'"),
        ("gemini", {"safety_settings": []}, "Known: body, client, location, project, tools, vertexai"),
        ("gemini", {"thinking_level": "low"}, "unknown option of gemini models 'thinking_level'"),
        ("openai", {"extra_body": {}}, "into body"),
        ("litellm", {"client": "sdk"}, "unknown option of litellm models 'client'"),
        ("recorded", {"fil": "x"}, "unknown option of recorded answers 'fil'. Did you mean 'file'"),
        ("fake", {"nonsense": 1}, "unknown option of the fake provider"),
        ("openai", {"body": ["service_tier"]}, "options.body must be a mapping"),
        ("openai", {"body": {"model": "dearer"}}, "model is set by titjudge"),
        ("openai", {"body": {"messages": []}}, "messages is set by titjudge"),
        ("openai", {"body": {"n": 100}}, "n is set by titjudge"),
        ("openai", {"body": {"stream": True}}, "stream is set by titjudge"),
        ("openai", {"body": {"max_completion_tokens": 10**6}}, "is a key of the role. Use max_tokens"),
        ("openai", {"body": {"temperature": 1}}, "is a key of the role. Use temperature"),
        ("gemini", {"body": {"generationConfig": {"candidateCount": 8}}}, "candidateCount is set by titjudge"),
        ("gemini", {"body": {"contents": []}}, "contents is set by titjudge"),
        ("litellm", {"body": {"api_key": "sk-1"}}, "into an environment variable"),
        ("openai", {"body": {"metadata": {"user": "sk-proj-" + 20 * "a1"}}}, "contains an API key"),
        ("openai", {"body": {"x": {1, 2}}}, "is not JSON"),
    ],
)
def test_options_that_do_nothing_or_too_much_are_errors(provider: str, options: dict[str, Any], why: str) -> None:
    model = "openai/m" if provider == "litellm" else "m"
    with pytest.raises(ConfigError) as caught:
        make_provider(provider, ProviderSettings(model, "http://127.0.0.1:9/v1", options=options))
    assert why in str(caught.value)


@pytest.mark.slow
def test_settings_of_litellm_itself_are_not_of_the_server(server: Server) -> None:
    with pytest.raises(ConfigError, match="mock_response is a setting of litellm and cannot be changed"):
        body_of(server, "litellm/anthropic/claude-sonnet-4-5", options={"body": {"mock_response": "yes"}})
    assert server.count() == 0


def test_what_a_key_of_the_role_sets_is_not_replaced(server: Server) -> None:
    options = {"body": {"generationConfig": {"thinkingConfig": {"thinkingLevel": "high"}}}}
    with pytest.raises(
        ConfigError, match=r"generationConfig.thinkingConfig.thinkingLevel is set by titjudge or by a key"
    ):
        body_of(server, "gemini/gemini-3-pro-preview", thinking_level="low", options=options)
    assert server.count() == 0


def test_a_role_without_the_new_keys_has_the_identity_it_had() -> None:
    record = identity(RunConfig.model_validate({"judge": "openai/m"}))
    assert not {"thinking_level", "body"} & (set(record["judge"]) | set(record["judge"]["options"]))


# ---------------------------------------------------------------------- thinking


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["strict", "official"])
@pytest.mark.parametrize(
    ("model", "thinking"),
    [
        ("claude-sonnet-4-5", {"thinking_budget": 2048}),
        ("claude-sonnet-4-5", {"reasoning_effort": "low"}),
        ("claude-3-7-sonnet-20250219", {"reasoning_effort": "high"}),
        ("claude-sonnet-4-6", {"reasoning_effort": "high"}),
        ("claude-opus-4-7", {"reasoning_effort": "high"}),
    ],
)
def test_a_claude_that_is_asked_to_think_gets_no_temperature_and_room_to_answer(
    server: Server, model: str, thinking: dict[str, Any], protocol: str
) -> None:
    sent, _ = body_of(server, f"litellm/anthropic/{model}", protocol, **thinking)
    assert sent["thinking"]["type"] in ("enabled", "adaptive")
    assert "temperature" not in sent
    assert sent["max_tokens"] - sent["thinking"].get("budget_tokens", 0) >= 2048


@pytest.mark.slow
@pytest.mark.parametrize("thinking", [{}, {"thinking_budget": 0}, {"reasoning_effort": "none"}])
def test_a_claude_that_does_not_think_gets_the_temperature_of_the_protocol(
    server: Server, thinking: dict[str, Any]
) -> None:
    sent, _ = body_of(server, "litellm/anthropic/claude-sonnet-4-5", **thinking)
    assert (sent["temperature"], sent["max_tokens"]) == (0, 2048)


# ---------------------------------------------------------------------- what is left out is said


def test_each_parameter_that_a_family_does_not_take_is_said() -> None:
    judges = [
        {"model": "gemini/gemini-2.5-pro", "reasoning_effort": "low"},
        {"model": "openai/gpt-5", "temperature": 0.5},
        {"model": "openai/gpt-4o", "thinking_level": "low"},
        {"model": "litellm/anthropic/claude-sonnet-4-5", "thinking_budget": 1024},
        {"model": "openai/o3", "omit": ["temperature"]},
    ]
    config = RunConfig.model_validate({"judge": judges[0], "panel": judges[1:]})
    roles = Roles(config)
    for name in config.judge_roles:
        assert roles[name]
    assert roles.left_out("strict") == [
        "gemini/gemini-2.5-pro does not support reasoning_effort: not sent",
        "openai/gpt-5 does not support temperature: not sent, so the vendor's default applies",
        "openai/gpt-4o does not support thinking_level: not sent",
        "litellm/anthropic/claude-sonnet-4-5 does not support temperature: not sent, so the vendor's default applies",
    ]
    assert len(roles.left_out("official")) == 3
    asyncio.run(roles.aclose())


def test_a_dry_run_and_the_manifest_say_what_is_not_sent(server: Server, tmp_path: Path) -> None:
    given = {"judge": {"model": "openai/gpt-5", "base_url": server.openai, "temperature": 0.5, "thinking_level": "low"}}
    (tmp_path / "run.yaml").write_text(json.dumps(given))
    png(tmp_path / "data" / "a.png")
    (tmp_path / "data" / "a.txt").write_text("a red cube")
    common = ("judge", "--config", "run.yaml", "--data", "data", "--captioner", "openai/gpt-4o", "--metric", "tit-llm")
    address = {"OPENAI_BASE_URL": server.openai}
    dry = cli(tmp_path, *common, "--dry-run", **address)
    assert server.count() == 0
    done = cli(tmp_path, *common, "--out", "run", "--no-report", **address)
    for text in (dry, done):
        words = " ".join(text.split())
        assert "openai/gpt-5 does not support temperature: not sent" in words
        assert "openai/gpt-5 does not support thinking_level: not sent" in words
    roles = json.loads((tmp_path / "run" / "manifest.json").read_text())["roles"]
    assert (roles["judge"]["not_sent"], roles["captioner"]["not_sent"]) == (["temperature", "thinking_level"], [])


def test_python_warns_once_of_what_was_asked_for_and_is_not_sent(server: Server, tmp_path: Path) -> None:
    captioner = {"model": "openai/gpt-5", "base_url": server.openai, "temperature": 0.5}
    pairs = [(png(tmp_path / "a.png"), prompt) for prompt in ("a red cube", "a blue cube")]
    with Judge("lmm-score", captioner=captioner, cache=tmp_path / "cache") as judge:
        with pytest.warns(UserWarning, match="openai/gpt-5 does not support temperature: not sent") as caught:
            judge.score_many(pairs)
        judge.score_many(pairs)
    assert len(caught) == 1


def test_a_batch_file_carries_the_settings_of_the_body(server: Server, tmp_path: Path) -> None:
    png(tmp_path / "data" / "a.png")
    (tmp_path / "data" / "a.txt").write_text("a red cube")
    for model, code in (("openai/gpt-4o", 0), ("gemini/gemini-2.5-pro", 2)):
        given = {"captioner": {"model": model, "options": {"body": {"service_tier": "flex"}}}}
        (tmp_path / "run.yaml").write_text(json.dumps(given))
        common = ("--config", "run.yaml", "--data", "data", "--metric", "lmm-score")
        said = cli(tmp_path, "answers", "export", *common, "--out", f"{code}.jsonl", code=code)
        assert code == 0 or "options.body cannot be used" in said
    assert json.loads((tmp_path / "0.jsonl").read_text())["body"]["service_tier"] == "flex"


@pytest.mark.parametrize("model", ["openai/gpt-4o", "gemini/gemini-2.5-pro"])
def test_a_batch_job_carries_the_settings_of_the_body(server: Server, model: str) -> None:
    provider, _, name = model.partition("/")
    real = make_provider(provider, ProviderSettings(name, server.url, options={"body": {"service_tier": "flex"}}))
    request = Request(provider, name, (Message("user", ("Is it red?",)),), {"body": real.extra_body})
    line = json.loads(asyncio.run(batch_service_for(real).line("key", request, in_prompt=False)))
    assert (line.get("body") or line["request"])["service_tier"] == "flex"
