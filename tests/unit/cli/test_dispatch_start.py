from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from commands import cli
from PIL import Image

import titjudge
from titjudge.cli import help_text
from titjudge.cli.commands import COMMANDS, RESUMED
from titjudge.cli.dispatch import run_command

ROOT = Path(__file__).resolve().parents[3]
HEAVY = [
    "logging",
    "openai",
    "google",
    "litellm",
    "torch",
    "transformers",
    "numpy",
    "scipy",
    "pydantic",
    "rich",
    "jinja2",
    "asyncio",
    "pandas",
    "aiohttp",
]


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_only_a_command_that_goes_on_promises_that_it_does(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("titjudge.cli.dispatch.command_of", stopped)
    assert run_command("titjudge", [name]) == 130
    assert ("goes on where it stopped" in capsys.readouterr().err) == (name in RESUMED)
    assert name not in ("metrics", "doctor", "merge", "compare", "report") or name not in RESUMED


def test_help_imports_nothing_heavy() -> None:
    code = f"import sys; sys.argv = ['cli.py', '--help']; import titjudge.cli; titjudge.cli.main(); print([m for m in {HEAVY!r} if m in sys.modules])"
    assert run(code).splitlines()[-1] == "[]"


def test_help_of_every_command_imports_nothing_heavy_and_shows_an_example() -> None:
    code = f"""
import sys
from titjudge.cli.dispatch import command_of
from titjudge.cli.commands import COMMANDS, RESUMED
from titjudge.cli.dispatch import run_command
import click
for name in COMMANDS:
    text = command_of(name).get_help(click.Context(command_of(name), info_name=name))
    print(name, 'ok' if 'Usage' in text else 'none')
print([m for m in {[m for m in HEAVY if m not in ("asyncio", "logging")]!r} if m in sys.modules])
"""
    lines = run(code).splitlines()
    assert lines[-1] == "[]"
    assert len(lines) == len(COMMANDS) + 1


def test_a_slip_in_the_second_word_is_no_folder(tmp_path: Path) -> None:
    for words, meant in (("compare", "generatrs", "x"), "generators"), (("label", "exprot", "a.db", "b"), "export"):
        assert f"{words[1]}: no such command, file or folder. Did you mean '{meant}'?" in cli(tmp_path, *words, code=2)
    (tmp_path / "peopel").mkdir()
    assert "peopel: not a run folder" in cli(tmp_path, "compare", "peopel", code=2)


def test_import_titjudge_is_light() -> None:
    assert run(f"import titjudge, sys; print([m for m in {HEAVY!r} if m in sys.modules])").strip() == "[]"


def test_a_run_without_pairs_imports_no_statistics_and_no_model(tmp_path: Path) -> None:
    """Each of these takes longer to import than such a run lasts."""
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    (tmp_path / "a.txt").write_text("a cat")
    given = ["judge", "--data", str(tmp_path), "--captioner", "fake/x", "--judge", "fake/x", "--metric", "tit-llm"]
    slow = ["scipy.stats", "torch", "pandas", "matplotlib", "litellm", "openai", "transformers"]
    code = f"""
import sys
from titjudge.cli.dispatch import run_command
assert run_command("titjudge", {[*given, "--out", str(tmp_path / "run")]!r}) == 0
print([name for name in {slow!r} if name in sys.modules])
"""
    assert run(code).splitlines()[-1] == "[]"


def test_the_public_names() -> None:
    assert sorted(titjudge.__all__) == [
        "Capabilities", "Embedding", "Failure", "FailureKind", "Item", "Judge", "Message", "Metric", "Pair", "Provider",
        "ProviderSettings", "Reply", "Request", "Score", "Status", "TitjudgeError", "Tool", "Unanswered", "Usage",
        "UserError", "__version__", "metric", "task",
    ]  # fmt: skip
    for name in titjudge.__all__:
        assert getattr(titjudge, name) is not None


def test_the_top_help_names_every_command() -> None:
    text = help_text("titjudge")
    assert all(f"  {name} " in text for name in COMMANDS)


def test_run_as_a_folder_the_torch_of_others_is_found() -> None:
    """`python titjudge` makes Python look in that folder first, where a module is named torch."""
    ask = "import importlib.util; print(importlib.util.find_spec('torch').origin)\n"
    command = [sys.executable, "-i", str(ROOT / "titjudge"), "--version"]
    done = subprocess.run(command, input=ask, cwd=ROOT.parent, capture_output=True, text=True, timeout=120)
    assert "torch" in done.stdout, done.stderr
    assert str(ROOT / "titjudge" / "torch.py") not in done.stdout
