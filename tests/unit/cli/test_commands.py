"""All commands: those of titjudge, those of its wing and those of other packages, and their help."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from builders import described_images
from commands import HEAVY, cli

from titjudge.cli.commands import OTHERS, Command, Group, command_of, run_command
from titjudge.cli.overview import FIRST, SECTIONS, SUMMARIES, names, names_in, target_of
from titjudge.core import registry

ROOT = Path(__file__).resolve().parents[3]
Announce = Callable[[str, str], None]


@pytest.fixture
def announce(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Announce:
    """Announce a command of another package, whose module has this source."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def add(name: str, source: str) -> None:
        module = f"package_with_{name}"
        (tmp_path / f"{module}.py").write_text(source)
        monkeypatch.setitem(registry.announced("commands"), name, f"{module}:command")

    return add


def imported(code: str) -> list[str]:
    """Return what the code has printed in a new process, whose last line lists the heavy modules it has imported."""
    ask = f"{code}\nimport sys\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", ask], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_commands_of_the_wing_are_announced_as_those_of_any_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wing = project["entry-points"]["titjudge.commands"]
    assert {target.partition(".command")[0].split(".")[1] for target in wing.values()} == {"apps"}
    assert wing.items() <= registry.announced("commands").items()
    assert {*wing} <= {*names(), *(f"{name}.{part}" for name in names() for part in names_in(name))}


def test_the_help_lists_every_command_in_its_section(tmp_path: Path) -> None:
    text = cli(tmp_path, "--help")
    titles = [line.removesuffix(":") for line in text.splitlines() if line.removesuffix(":") in SECTIONS]
    assert titles == [title for title in SECTIONS if title != OTHERS]
    listed, more = text.split("\nMore:\n")
    explained = [name for name in names() if f"\n  {name} " in listed]
    assert {*explained} == FIRST
    assert len(explained) <= 16
    assert {*names()} == {*explained, *"".join(more.split()).split(",")}


@pytest.mark.parametrize("words", [(), ("-h",), ("help",)])
def test_help_has_several_names(words: tuple[str, ...], tmp_path: Path) -> None:
    assert cli(tmp_path, *words) == cli(tmp_path, "--help")


def test_help_takes_a_command(tmp_path: Path) -> None:
    assert cli(tmp_path, "help", "judge") == cli(tmp_path, "judge", "--help")


def test_help_prints_the_pages_of_the_documentation(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "control-cost.md").read_text(encoding="utf-8")
    assert cli(tmp_path, "help", "control-cost").rstrip() == cli(tmp_path, "help", "cost").rstrip() == page.rstrip()
    assert "judge-images, " in cli(tmp_path, "help", "nothing", code=2)
    assert "judge-edits, judge-images" in cli(tmp_path, "help", "judge-", code=2)


def test_the_help_shows_how_titjudge_was_started(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("titjudge", ["--help"]) == 0
    assert "  titjudge judge --data my_images" in capsys.readouterr().out


def test_the_list_of_commands_has_the_first_sentence_of_each() -> None:
    listed = {target: text for texts in SUMMARIES.values() for target, text in texts.items()}
    assert {target_of(name): command_of(name).get_short_help_str(limit=1000) for name in names()} == listed


def test_help_imports_neither_click_nor_a_command() -> None:
    """It writes what click would write for it, such as for `--help judge`."""
    code = """
import sys
from titjudge.cli import main
try:
    main(["--help"])
except SystemExit as end:
    assert end.code == 0
own = sorted(name for name in sys.modules if name.startswith("titjudge."))
assert own == [f"titjudge.{name}" for name in OWN], own
assert not {"click", "importlib.metadata", "pathlib"} & {*sys.modules}"""
    own = ["cli", "cli.overview", "core", "core.entry_points", "core.lazy", "core.signals"]
    *lines, heavy = imported(code.replace("OWN", repr(own)))
    assert heavy == "[]"
    usual = imported("from titjudge.cli.commands import run_command\nrun_command('-c', ['--help', 'judge'])")
    assert [line.replace("python cli.py", "-c") for line in lines] == usual[:-1]


def test_a_dry_run_imports_no_statistics_and_no_records_of_runs(tmp_path: Path) -> None:
    code = f"""
import os, sys
os.environ["TITJUDGE_CACHE"] = {str(tmp_path)!r}
from titjudge.cli.commands import run_command
assert run_command("titjudge", ["judge", "--metric", "tit-llm", "--judge", "recorded", "--dry-run"]) == 0
own = [name for name in sys.modules if name.startswith("titjudge.")]
assert len(own) <= 130, len(own)
assert not [name for name in own if name.startswith(("titjudge.report", "titjudge.probes", "titjudge.core.run_records"))]"""
    assert imported(code)[-1] == "['pydantic', 'jinja2']"


def test_a_shell_that_completes_a_command_gets_no_help(tmp_path: Path) -> None:
    line = {"_TITJUDGE_COMPLETE": "bash_complete", "COMP_WORDS": "titjudge verif", "COMP_CWORD": "1"}
    words = [sys.executable, "cli.py"]
    done = subprocess.run(words, cwd=ROOT, env={**os.environ, **line}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["plain,verify"]


def test_help_of_every_command_imports_nothing_heavy() -> None:
    code = """
from titjudge.cli.commands import names
from titjudge.cli.commands import run_command
from titjudge.cli.overview import SECTIONS, SUMMARIES, names, target_of
for name in names():
    assert run_command("titjudge", [name, "--help"]) == 0"""
    lines = imported(code)
    assert lines[-1] == "[]"
    assert len([line for line in lines if line.startswith("Usage: titjudge ")]) == len(names())


def test_a_slip_is_named_with_what_was_meant(tmp_path: Path) -> None:
    said = cli(tmp_path, "jugde", code=2)
    assert said == "titjudge: unknown command 'jugde'. Did you mean 'judge'? Try `python cli.py --help`\n"


def test_an_option_of_the_command_without_a_name_is_no_slip(tmp_path: Path) -> None:
    words = ("probe", "--judge", "openai/gpt-6-luna"), ("compare", "--explain"), ("label", "--port", "0")
    for command in words:
        assert "no such command" not in cli(tmp_path, *command, "--nothing", code=2)


def test_a_slip_in_the_second_word_is_no_folder(tmp_path: Path) -> None:
    for words, meant in (("compare", "generatrs", "x"), "generators"), (("label", "exprot", "a.db", "b"), "export"):
        assert f"{words[1]}: no such command, file or folder. Did you mean '{meant}'?" in cli(tmp_path, *words, code=2)
    (tmp_path / "plann").mkdir()
    assert "plann: not a run folder" in cli(tmp_path, "compare", "plann", code=2)


def test_a_plain_command_of_another_package_runs(announce: Announce, tmp_path: Path) -> None:
    announce(
        "mood", "import click\n@click.command(help='Tell the mood. Nothing else.')\ndef command():\n    return 4\n"
    )
    assert f"{OTHERS}:\n  mood  Tell the mood." in cli(tmp_path, "--help")
    assert cli(tmp_path, "mood", code=4) == ""
    assert "--log-file" in cli(tmp_path, "--help")


@pytest.mark.parametrize(
    ("name", "source", "cause"),
    [
        ("m1", "import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("m2", "def command(): pass", "TypeError: package_with_m2:command is not a click command"),
        ("m3", "", "AttributeError: module 'package_with_m3' has no attribute 'command'"),
    ],
)  # a command is loaded once, so each has a name of its own
def test_a_broken_command_is_one_line_and_the_others_work(
    name: str, source: str, cause: str, announce: Announce, tmp_path: Path
) -> None:
    announce(name, source)
    line = f"the command '{name}' of an entry point (package_with_{name}:command) does not load: {cause}"
    listed = cli(tmp_path, "--help").partition(f"{OTHERS}:\n")[2]
    assert " ".join(listed.split()) == f"{name} {line}"
    assert cli(tmp_path, name, "--some", "thing", code=2) == f"titjudge: {line}\n"
    assert cli(tmp_path, "--version").startswith("titjudge ")


def test_no_package_takes_the_name_of_a_command(announce: Announce) -> None:
    announce("judge", "raise SystemExit('taken')")
    assert names().count("judge") == 1
    assert command_of("judge").short_help is None


@pytest.mark.parametrize("name", names())
def test_a_command_that_goes_on_promises_it_when_it_is_stopped(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(context: click.Context) -> None:
        raise KeyboardInterrupt

    command = command_of(name)
    assert isinstance(command, Command)
    monkeypatch.setattr(command, "parse_args", lambda context, arguments: [])
    monkeypatch.setattr(command, "invoke", stopped)
    assert run_command("titjudge", [name]) == 130
    assert ("run the command again" in capsys.readouterr().err) == command.resumed


def test_what_is_made_anew_promises_nothing() -> None:
    listed = {name for name in names() if getattr(command_of(name), "resumed", False)}
    assert {"judge", "serve", "label", "suites"} <= listed
    assert listed.isdisjoint({"metrics", "doctor", "merge", "judges", "compare", "report"})


def test_each_page_has_a_port_of_its_own() -> None:
    texts = [help_of(command) for name in names() for command in run_by(command_of(name))]
    ports = [int(port) for text in texts for port in re.findall(r"free one if that is taken\. +\[default: (\d+)", text)]
    assert len(ports) == len(set(ports)) == 4


def help_of(command: click.Command) -> str:
    return command.get_help(click.Context(command, info_name="x", terminal_width=200, max_content_width=200))


def run_by(command: click.Command) -> list[click.Command]:
    """A command, or those of a group; `label experts` has the port of `label serve`."""
    if not isinstance(command, Group):
        return [command]
    context = click.Context(command)
    found = [command.get_command(context, name) for name in command.list_commands(context) if name != "experts"]
    return [each for each in found if each is not None]


def test_a_missing_key_is_reported_before_the_embedder_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described_images(tmp_path / "data", 2)
    monkeypatch.setenv("TITJUDGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    words = ["judge", str(tmp_path / "data"), "--provider", "openai", "--out", str(tmp_path / "run")]
    *said, heavy = imported(
        f"from titjudge.cli.commands import run_command\nassert run_command('titjudge', {words!r}) == 2"
    )
    assert said[0].startswith("judging")
    assert not {"torch", "transformers"} & set(re.findall(r"\w+", heavy))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("judge --datta x", "unknown option '--datta'. Did you mean '--data'? See `titjudge judge --help`"),
        ("judge --limit abc", "--limit must be a whole number, not 'abc'. See `titjudge judge --help`"),
        ("judge --max-cost x", "--max-cost must be a number, not 'x'. See `titjudge judge --help`"),
        ("judge --log-level loud", "--log-level must be one of 'debug', 'info', 'warning', 'error', not 'loud'. See "),
        ("compare plan r --power 3", "--power must be in the range 0.5<=x<=0.999, not 3.0. See "),
        ("judge --limit", "--limit requires a value. Add it"),
        ("judge --dry-run=3", "--dry-run accepts no value. Remove the value"),
        ("judge a b c", "too many arguments: b c. Remove them, or put a text with spaces in quotes. See "),
        ("report", "RUNS is missing. Add it. See `titjudge report --help`"),
        ("answers export", "--out is missing. Add it. See `titjudge answers export --help`"),
        ("judges foo", "unknown command 'foo'. See `titjudge judges --help`"),
        ("probe images --levels 7 --out x", "--levels must be different levels such as 0,1,2,3, not '7'"),
    ],
)
def test_wrong_options_are_one_line_in_our_words(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("titjudge", words.split()) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"titjudge: {message}")
    assert said.count("\n") == 1
