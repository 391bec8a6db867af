"""A model of this machine named on the command line: what cannot be loaded is one line, before anything is judged."""

import json
from pathlib import Path

import pytest
import tiny_models
from builders import compared_images
from test_judge_cli import cli


def judged(folder: Path, model: Path, *more: str, code: int = 2) -> str:
    data = compared_images(folder / "data", 2, 1)
    arguments = (
        "judge",
        "--data",
        str(data),
        "--metric",
        "tit",
        "--out",
        "run",
        "--captioner",
        f"local/{model}",
        *more,
    )
    return cli(folder, *arguments, code=code)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"auto_map": {"AutoConfig": "own.Config"}, "model_type": "own"}, "--set trust_remote_code=yes"),
        ({"model_type": "flux9000"}, "does not know its architecture"),
        (None, "is not a model folder"),
    ],
)
def test_a_model_that_cannot_be_loaded_is_one_line(change: dict[str, object] | None, line: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    if change is not None:
        folder.mkdir()
        tiny_models.qwen25_vl(folder)
        about = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**about, **change}))
    shown = judged(tmp_path, folder)
    assert line in shown
    assert "Traceback" not in shown
    assert sum("titjudge:" in each or "Error" in each for each in shown.splitlines()) == 1


def test_trusting_code_needs_a_model_that_runs_here(tmp_path: Path) -> None:
    shown = cli(tmp_path, "judge", "--captioner", "openai/gpt-4o", "--set", "trust_remote_code=yes", code=2)
    assert "requires a model on this machine" in shown
