"""Flags and the configuration file that they override."""

from pathlib import Path

import pytest

from titjudge.cli.judge import judge
from titjudge.cli.options import RunKeys, key_option
from titjudge.core.config import RunConfig


def config_of(*arguments: str) -> RunConfig:
    return RunKeys(judge.make_context("judge", list(arguments)).params).config()


@pytest.mark.parametrize("flags", [(), ("--limit", "3")])
def test_a_repeatable_flag_that_is_not_given_leaves_the_key_of_the_file(tmp_path: Path, flags: tuple[str, ...]) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(f"image_root: [{tmp_path}]\nsources: ['src/{{prompt_id}}.png']\n", encoding="utf-8")
    config = config_of("--config", str(file), *flags)
    assert (config.image_root, config.sources) == ([tmp_path], ["src/{prompt_id}.png"])


def test_a_repeatable_flag_replaces_the_key_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("sources: ['src/{prompt_id}.png']\n", encoding="utf-8")
    assert config_of("--config", str(file), "--sources", "a.png", "--sources", "b.png").sources == ["a.png", "b.png"]


def test_a_key_that_the_schema_does_not_have_names_the_command() -> None:
    with pytest.raises(LookupError, match=r"max_failures: run `make docs`"):
        key_option("max_failures")
