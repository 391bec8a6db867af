"""The commands of README and docs, page by page, from the first to the last, as they stand, in one folder.

Models behind a key are stood for by one that answers at once; all else is real. Servers are started, people answer on their
pages, and they are stopped when the next one starts or the page ends.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from unittest import mock

import pytest
from commands import ROOT, Started, cli, start
from docs_data import HOSTED, PAINTERS, working_folder
from docs_people import answer_all, links_in
from filelock import FileLock
from pages import README, all_pages, relative

from titjudge.apps.generate import image_models
from titjudge.core import registry

WALKED_ELSEWHERE = {"recorded-answers": "round by round, by test_recorded_page.py"}
PAGES = [page for page in all_pages() if page.stem not in WALKED_ELSEWHERE]
NEEDS = {
    r"pip install": "installs packages and runs all tests, as the build does",
    r"^docker ": "needs Docker: see tests/unit/test_docker.py",
    r"^cloudflared ": "needs a tunnel of others",
    r"answers import ": "needs the answers of another machine: see test_batch_offline.py",
    r"probe images|--suite known-answer|known_edits": "renders scenes, or reads texts in them, for long: see test_scenes_cli.py",
    r"diffusers/|my_model": "asks a generator of images",
    r"--set engine=ray": "needs a cluster: see test_cluster.py",
    r"--batch ": "needs a service of batch jobs: see test_batch_judge.py",
    r"--embedder sentence-transformers/": "needs weights of the hub",
    r"--set detector=": "needs weights of the hub: see test_agent_detector.py",
    r"localhost:8000": "needs a model server: see test_own_server.py",
    r"--sink ": "needs the packages and accounts of trackers",
    r"^python cli\.py probe (?!images)": "asks thousands of questions: see the tests of probes",
    r"^python cli\.py suites fetch ": "downloads from the hub",
    r"--suite (?!starter|known-answer)\w": "needs the data of others: see test_benchmark_trees.py",
    r"^python cli\.py suites aggregate ": "needs answers of the official scripts: see test_aggregate_cli.py",
    r"^python -m benchmarks\.study |marks\.csv\.gz": "needs the data of others: see tests/unit/benchmarks",
    r"docs/trust_table\.py": "reads the cards in the checkout: see tests/unit/probes/test_trust_card_table.py",
    r"train\.parquet|evaluation_metadata": "needs the data of others: see tests/unit/suites",
    r"--reference": "needs a run of the reference's own data: see tests/unit/runs/test_reference.py",
}
"""Commands that are not run here, and why."""
SERVERS = r"(view|serve|prompts review(?!.* --out)|label (experts|serve|my_images))( |$)"
ASKING = ("label", "prompts")
SHELL = ("curl", "export", "python")
"""What is left to a shell; `python` where it runs no command of ours."""
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


class Reader:
    """Whoever types the commands of a page in `folder`; a server is left on in another terminal until the next one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._server: Started | None = None
        self._address = ""

    def run(self, command: str) -> str:
        """Run a command as it stands; returns what was wrong."""
        words = shlex.split(command)
        ours = words[0] == "titjudge" or words[:2] == ["python", "cli.py"]
        assert ours or words[0] in SHELL, command
        arguments = words[1:] if words[0] == "titjudge" else words[2:]
        try:
            if not ours:
                self._shell(command)
            elif re.match(SERVERS, " ".join(arguments)):
                self._serve(arguments)
            else:
                cli(self.folder, *arguments)
        except AssertionError as error:
            return "" if "--fail-if-worse" in arguments and str(error).startswith("exit 1") else f"{command}\n{error}"
        return ""

    def leave(self) -> None:
        """Stop the server that is left on."""
        if self._server is not None:
            with self._server as process:
                process.terminate()
            self._server = None

    def _shell(self, command: str) -> None:
        """Let bash run a command, at the address of the server that is on; what it exports is there for the next ones."""
        asked = re.sub(r"127\.0\.0\.1:\d+", self._address, command)
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        done = subprocess.run(
            ["bash", "-c", f"{asked} && env -0" if command.startswith("export") else asked], cwd=self.folder,
            capture_output=True, text=True, env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        if command.startswith("curl"):
            assert '"status":"ok"' in done.stdout, done.stdout
        if command.startswith("export"):
            now = dict(line.split("=", 1) for line in done.stdout.split("\0") if line)
            os.environ.update({name: now[name] for name in re.findall(r"(\w+)=", command) if name in now})

    def _serve(self, arguments: list[str]) -> None:
        """Start a server, on a free port as other tests run beside this one, and let people answer what it asks them."""
        self.leave()
        script = AS_HOSTED.format(tests=str(ROOT / "tests"))
        self._server = process = start(self.folder, *arguments, "--port", "0", script=script)
        lines = []
        while not lines or (lines[-1] and "Ctrl-C" not in lines[-1]):
            lines.append(process.stdout.readline())
        said = "".join(lines)
        assert lines[-1], f"{said}\n{process.stderr.read()}"
        if arguments[0] in ASKING:
            answer_all(links_in(said))
        self._address = next(iter(re.findall(r"127\.0\.0\.1:\d+", said)), self._address)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, provider in HOSTED.items():
        monkeypatch.setitem(registry.TABLES["providers"], name, provider)
        monkeypatch.setenv(f"{name.upper()}_API_KEY", "none")
    for name, painter in PAINTERS.items():
        monkeypatch.setitem(cast("dict[str, Any]", image_models._MODELS), name, painter)
    working_folder(tmp_path)
    (editor := tmp_path / "bin" / "my_editor").parent.mkdir()
    editor.write_text('#!/bin/sh\ncp "$1" "${3#--file=}"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(editor.parent), os.environ["PATH"]]))
    return tmp_path


@pytest.fixture
def readme_runs(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs that README makes, made once for all workers and pages."""
    root = tmp_path_factory.getbasetemp()
    made = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "readme_runs"
    with FileLock(made.with_suffix(".lock")):
        if not (made / "runs").is_dir():
            shutil.copytree(place, made, dirs_exist_ok=True)
            wrong = [Reader(made).run(command) for command in commands(README) if "--out runs/" in command]
            assert "\n".join(filter(None, wrong)) == ""
    return made / "runs"


@pytest.fixture
def reader(place: Path) -> Iterator[Reader]:
    one = Reader(place)
    with mock.patch.dict(os.environ):
        yield one
    one.leave()


def test_each_reason_to_leave_a_command_out_is_that_of_a_command() -> None:
    every = [command for page in PAGES for command in commands(page)]
    assert [form for form in NEEDS if not any(re.search(form, command) for command in every)] == []


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=relative)
def test_the_commands_of_a_page_run_in_order(page: Path, reader: Reader, request: pytest.FixtureRequest) -> None:
    told = [command for command in commands(page) if not reason_to_leave_out(command)]
    if page != README and any("runs/first" in command for command in told):  # the README has made it
        shutil.copytree(request.getfixturevalue("readme_runs"), reader.folder / "runs")
    wrong = [reader.run(command) for command in told]
    assert "\n".join(filter(None, wrong)) == ""
