"""The commands of README and docs, page by page, from the first to the last, as they stand, in one folder.

Models behind a key are stood for by one that answers at once; all else is real. Servers are started, asked once and stopped.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any, cast

import pytest
from commands import ROOT, cli, start
from docs_data import HOSTED, PAINTERS, working_folder

from titjudge.apps.generate import image_models
from titjudge.core import registry

README = ROOT / "README.md"
PAGES = [README, *(ROOT / "docs" / f"{name}.md" for name in ("data", "generating", "verdicts"))]
NEEDS = {
    r"pip install": "installs packages and runs all tests, as the build does",
    r"diffusers/|--command": "asks a generator of images",
    r"--sink ": "needs the packages and accounts of trackers",
    r"^python cli\.py probe ": "asks thousands of questions: see the tests of probes",
    r"--suite \w": "needs the data of others: see test_benchmark_trees.py",
    r"train\.parquet|evaluation_metadata": "needs the data of others: see tests/unit/suites",
    r"--reference": "needs a run of the reference's own data: see tests/unit/runs/test_reference.py",
}
"""Commands that are not run here, and why."""
SERVERS = r"^(view|label my_images|label serve)"
AS_HOSTED = """
import sys
sys.path.insert(0, {tests!r})
from docs_data import HOSTED
from titjudge.core import registry
registry.TABLES["providers"] |= HOSTED
from titjudge.cli import main
sys.argv[0] = "cli.py"
main()
"""


def commands(page: Path) -> list[str]:
    """The commands of the shell blocks of a page, one a line, without their comments."""
    text = "\n".join(re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
    lines = [re.sub(r"\s+#.*", "", line).strip() for line in re.sub(r"\\\n\s*", " ", text).splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def reason_to_leave_out(command: str) -> str:
    return next((reason for form, reason in NEEDS.items() if re.search(form, command)), "")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, provider in HOSTED.items():
        monkeypatch.setitem(registry.TABLES["providers"], name, provider)
        monkeypatch.setenv(f"{name.upper()}_API_KEY", "none")
    for name, painter in PAINTERS.items():
        monkeypatch.setitem(cast("dict[str, Any]", image_models._MODELS), name, painter)
    working_folder(tmp_path)
    return tmp_path


def test_each_reason_to_leave_a_command_out_is_that_of_a_command() -> None:
    every = [command for page in PAGES for command in commands(page)]
    assert [form for form in NEEDS if not any(re.search(form, command) for command in every)] == []


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.stem)
def test_the_commands_of_a_page_run_in_order(page: Path, place: Path) -> None:
    if page != README and any("runs/first" in command for command in commands(page)):  # the README has made it
        for command in commands(README):
            if "--out runs/" in command:
                assert run(place, command) == ""
    wrong = [run(place, command) for command in commands(page) if not reason_to_leave_out(command)]
    assert "\n".join(filter(None, wrong)) == ""


def run(place: Path, command: str) -> str:
    """Run a command as it stands, a server until it says its address; returns what was wrong."""
    words = shlex.split(command)
    if words[0] == "export":
        return ""
    assert words[0] == "titjudge" or words[:2] == ["python", "cli.py"], command
    arguments = words[1:] if words[0] == "titjudge" else words[2:]
    try:
        if re.match(SERVERS, " ".join(arguments)):
            served(place, arguments)
        else:
            cli(place, *arguments)
    except AssertionError as error:
        return "" if "--fail-if-worse" in arguments and str(error).startswith("exit 1") else f"{command}\n{error}"
    return ""


def served(place: Path, arguments: list[str]) -> None:
    with start(place, *arguments, script=AS_HOSTED.format(tests=str(ROOT / "tests"))) as process:
        assert process.stdout is not None
        said = next((line for line in process.stdout if "http://" in line), "")
        process.terminate()
        assert said, f"{shlex.join(arguments)}: {process.stderr.read() if process.stderr else ''}"
