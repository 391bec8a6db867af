"""`--base-url` alone: the server says which model it has."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from builders import described_images
from commands import cli

from tests.kit import Scripted, Seen, Server
from titjudge import Judge
from titjudge.core.config import load_config
from titjudge.core.errors import ConfigError, Unclear
from titjudge.core.types import ProviderSettings
from titjudge.providers.hosted.openai import OpenAI
from titjudge.providers.hosted.served_models import served_model
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.resolve import resolve_metrics

QWEN, LLAVA = "Qwen/Qwen2.5-VL-7B-Instruct", "llava:7b"


def serving(models: Sequence[str], owner: str = "vllm", **scripted: object) -> Server:
    """A server that knows these models; any other name gets vLLM's 404."""

    def answer(seen: Seen) -> Scripted | None:
        if seen.api == "models":
            listed = [{"id": name, "object": "model", "owned_by": owner} for name in models]
            return Scripted(**{"body": {"object": "list", "data": listed}, **scripted})  # type: ignore[arg-type]
        missing = {"object": "error", "message": f"The model `{seen.model}` does not exist.", "code": 404}
        return None if seen.model in models else Scripted(status=404, body=missing)

    return Server(answer)


def asked(server: Server, url: str | None = None) -> str:
    return served_model(ProviderSettings("", url or server.openai), ["--provider "])


@pytest.mark.parametrize("models", [[QWEN], [QWEN, "nomic-embed-text"]])
def test_the_only_model_that_reads_prompts_is_asked(models: list[str]) -> None:
    with serving(models) as server:
        assert asked(server) == QWEN
    assert server.count() == 1


@pytest.mark.parametrize(
    ("owner", "program"),
    [
        ("vllm", "vLLM"),
        ("sglang", "SGLang"),
        ("llamacpp", "llama.cpp"),
        ("library", "Ollama"),
        ("organization_owner", "LM Studio"),
        ("me", "The server"),
    ],
)
def test_several_models_are_a_choice(owner: str, program: str) -> None:
    with serving([QWEN, LLAVA], owner) as server, pytest.raises(Unclear) as refused:
        asked(server)
    assert str(refused.value).startswith(f"{program} at http://127.0.0.1:{server.port}/v1 has 2 models")
    assert [options for options, _ in refused.value.options] == [f"--provider openai/{name}" for name in (QWEN, LLAVA)]


@pytest.mark.parametrize(
    ("scripted", "words"),
    [
        ({"status": 404}, ["404", "--provider openai/MODEL"]),
        ({"status": 401}, ["401", "OPENAI_API_KEY"]),
        ({"status": 302}, ["302", "--provider openai/MODEL"]),
        ({"body": ["a list"]}, ["--provider openai/MODEL"]),
        ({"body": {"data": [{"no": "id"}]}}, ["no model loaded", "--provider openai/MODEL"]),
    ],
)
def test_a_server_without_a_list_names_the_option(scripted: dict[str, object], words: list[str]) -> None:
    with serving([QWEN], **scripted) as server, pytest.raises(ConfigError) as refused:
        asked(server)
    assert all(word in str(refused.value) for word in words)
    assert "\n" not in str(refused.value)


def test_a_gateway_with_the_default_model_needs_no_choice() -> None:
    with serving([QWEN, OpenAI.default_model]) as server:
        assert asked(server) == ""


def test_an_address_without_its_version_is_told() -> None:
    with serving([QWEN], status=404) as server, pytest.raises(ConfigError, match="add /v1"):
        asked(server, server.url)


def test_a_server_that_does_not_run_is_one_line() -> None:
    with serving([QWEN]) as server:
        url = server.openai
    with pytest.raises(ConfigError, match=r"Start the server, or name the model: --provider openai/MODEL"):
        served_model(ProviderSettings("", url), ["--provider "])


def test_the_vendors_own_addresses_are_not_asked() -> None:
    assert served_model(ProviderSettings("gpt-4o", "https://api.openai.com/v1"), ["--provider "]) == ""


def test_a_named_model_is_not_looked_for(tmp_path: Path) -> None:
    with serving([QWEN]) as server:
        config = load_config(None, {"captioner": "openai/m", "base_url": server.openai, "metrics": ["lmm-score"]})
        assert resolve_metrics(config).config.captioner == config.captioner
    assert server.count() == 0


def test_judge_with_the_address_alone(tmp_path: Path) -> None:
    described_images(tmp_path / "data", 2)
    with serving([QWEN]) as server:
        cli(tmp_path, "judge", "data", "--base-url", server.openai, "--out", "run", "--no-report")
    assert {seen.model for seen in server.requests if seen.api == "openai"} == {QWEN}
    assert RunFolder(tmp_path / "run").manifest().identity["judge"]["model"] == f"openai/{QWEN}"


def test_judge_prints_the_command_for_each_model(tmp_path: Path) -> None:
    described_images(tmp_path / "data", 2)
    with serving([QWEN, LLAVA]) as server:
        out = cli(tmp_path, "judge", "data", "--base-url", server.openai, code=2)
    lines = [line for line in out.splitlines() if line.startswith("  ")]
    assert [line.split()[-2:] for line in lines] == [["--provider", f"openai/{name}"] for name in (QWEN, LLAVA)]
    assert all(f"judge data --base-url {server.openai}" in line for line in lines)


def test_a_folder_without_an_answer_takes_another_model(tmp_path: Path) -> None:
    described_images(tmp_path / "data", 2)
    with serving([QWEN]) as server:
        judge = ("judge", "data", "--base-url", server.openai, "--out", "run", "--no-report")
        wrong = cli(tmp_path, *judge, "--provider", "openai/m", code=2)
        cli(tmp_path, *judge)
        other = cli(tmp_path, *judge, "--captioner", f"openai/{LLAVA}", code=2)
    assert "--captioner" in wrong
    assert "another captioner" in other


def test_the_judge_of_a_program_asks_from_an_event_loop(tmp_path: Path) -> None:
    image = described_images(tmp_path / "data", 1) / "0.png"

    async def score(url: str) -> str:
        async with Judge("self-eval", captioner={"model": "openai", "base_url": url}, cache=tmp_path / "c") as judge:
            return str((await judge.ascore(image, "a cube")).status)

    with serving([QWEN]) as server:
        assert asyncio.run(score(server.openai)) == "ok"
