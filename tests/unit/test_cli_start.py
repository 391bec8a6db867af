from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import titjudge
from titjudge.cli import help_text
from titjudge.cli.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
HEAVY = [
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


def test_help_imports_nothing_heavy() -> None:
    code = f"import sys; sys.argv = ['cli.py', '--help']; import titjudge.cli; titjudge.cli.main(); print([m for m in {HEAVY!r} if m in sys.modules])"
    assert run(code).splitlines()[-1] == "[]"


def test_help_of_every_command_imports_nothing_heavy_and_shows_an_example() -> None:
    code = f"""
import sys
from titjudge.cli.run import command_of
from titjudge.cli.commands import COMMANDS
import click
for name in COMMANDS:
    text = command_of(name).get_help(click.Context(command_of(name), info_name=name))
    print(name, 'ok' if 'Usage' in text else 'none')
print([m for m in {[m for m in HEAVY if m != "asyncio"]!r} if m in sys.modules])
"""
    lines = run(code).splitlines()
    assert lines[-1] == "[]"
    assert len(lines) == len(COMMANDS) + 1


def test_import_titjudge_is_light() -> None:
    assert run(f"import titjudge, sys; print([m for m in {HEAVY!r} if m in sys.modules])").strip() == "[]"


def test_the_public_names() -> None:
    assert sorted(titjudge.__all__) == [
        "Item", "Judge", "Metric", "Pair", "Reply", "Request", "Score", "Status", "TitjudgeError", "Unanswered", "Usage",
        "UserError", "__version__", "metric",
    ]  # fmt: skip
    for name in titjudge.__all__:
        assert getattr(titjudge, name) is not None


def test_the_top_help_names_every_command() -> None:
    text = help_text("titjudge")
    assert all(f"  {name} " in text for name in COMMANDS)
