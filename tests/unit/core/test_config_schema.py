"""The published schema of run.yaml: what it allows is what `load_config` takes, and every key says what it is."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from titjudge.core.config import load_config
from titjudge.core.errors import ConfigError
from titjudge.core.paths import run_schema


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    published = json.loads(run_schema().read_bytes())
    Draft202012Validator.check_schema(published)
    return Draft202012Validator(published)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "captioner: openai/gpt-4o",
        "captioner: {model: openai/gpt-4o, max_tokens: 512}",
        "judge: [openai/gpt-4o, {model: gemini/gemini-2.5-pro, temperature: 0.5}]",
        "judge: openai/a\npanel: [openai/b]",
        "limits:\nprices:\nmetrics:",
        "limits: {max_cost: 5}\nprices: {m: {input: 1, output: 2}}",
        "suite: tiif\nsuite_options: {length: short}\nmetric_options: {tit-agent: {max_looks: 3}}",
        "shard: 2/4",
    ],
)
def test_the_schema_allows_what_is_read(text: str, schema: Draft202012Validator, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(text)
    load_config(tmp_path / "run.yaml")
    assert [error.message for error in schema.iter_errors(yaml.safe_load(text))] == []


@pytest.mark.parametrize(
    "text",
    [
        "metric: [tit]",
        "metrics: tit",
        "limits: {max_costs: 5}",
        "limits: {concurrency: 0}",
        "captioner: {max_tokens: 5}",
        "captioner: {model: openai/gpt-4o, api_key: x}",
        "engine: slurm",
        "samples: 0",
    ],
)
def test_the_schema_marks_what_is_refused(text: str, schema: Draft202012Validator, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(text)
    with pytest.raises(ConfigError):
        load_config(tmp_path / "run.yaml")
    assert not schema.is_valid(yaml.safe_load(text))


def test_every_key_is_described_and_names_are_suggested(schema: Draft202012Validator) -> None:
    def bare(where: str, model: dict[str, Any]) -> list[str]:
        return [f"{where}{key}" for key, value in model["properties"].items() if "description" not in value]

    found: Any = schema.schema
    assert (
        bare("", found) + bare("limits.", found["$defs"]["Limits"]) + bare("role.", found["$defs"]["RoleConfig"]) == []
    )
    assert "tit-llm" in found["properties"]["metrics"]["anyOf"][0]["items"]["anyOf"][0]["enum"]
    assert schema.is_valid({"metrics": ["a-metric-of-another-package"]})
