"""Output that cannot be written, a second Ctrl-C, a full disk: one line and an exit code, never a traceback."""

import asyncio
import errno
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from titjudge.cli import commands as all_commands

ROOT = Path(__file__).resolve().parents[2]


def python(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What a new process does, in which nothing is imported yet."""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-c", script]
    return subprocess.run(words, cwd=folder, env=variables, capture_output=True, text=True, timeout=60)


def shell(command: str) -> subprocess.CompletedProcess[str]:
    line = command.replace("CLI", f"'{sys.executable}' '{ROOT / 'cli.py'}'")
    return subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize("tail", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stream_is_no_error(tail: str) -> None:
    done = shell(f"CLI suites {tail}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_traceback() -> None:
    done = shell("CLI metrics | true")
    assert (done.returncode in (0, 1), done.stderr) == (True, "")


def ends_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> int:
    @click.command()
    def failing() -> None:
        raise error

    monkeypatch.setattr(all_commands.Commands, "get_command", lambda self, context, name: failing)
    return all_commands.run_command("titjudge", ["judge"])


def test_a_second_interrupt_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends_with(asyncio.CancelledError(), monkeypatch) == 130
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize("module", ["click", "titjudge.cli.judge", "titjudge.runs.session"])
def test_ctrl_c_while_modules_are_imported_is_one_line(tmp_path: Path, module: str) -> None:
    script = f"""
import os, signal, sys
class Pressing:
    def find_spec(self, name, *more):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Pressing())
from titjudge.cli import main
main(["judge"])
"""
    done = python(script, tmp_path)
    assert (done.returncode, done.stdout) == (130, "")
    err = done.stderr
    assert err.strip().startswith("titjudge: interrupted")
    assert len(err.strip().splitlines()) == 1


def test_ctrl_c_while_ctrl_c_is_told_is_no_traceback(tmp_path: Path) -> None:
    script = """
import os, signal
from titjudge.cli import commands, main
commands.command_of = lambda name: os.kill(os.getpid(), signal.SIGINT)
commands.say = lambda *told, **how: os.kill(os.getpid(), signal.SIGINT)
main(["judge"])
"""
    done = python(script, tmp_path)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "")


def test_an_interrupt_that_a_library_wraps_is_one_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends_with(ValueError("Error building `model-fields` serializer:\n  KeyboardInterrupt: "), monkeypatch) == 130
    assert "interrupted" in capsys.readouterr().err


def test_a_full_disk_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "runs/x/scores.jsonl")
    assert ends_with(full, monkeypatch) == 1
    assert capsys.readouterr().err == (
        "titjudge: runs/x/scores.jsonl: No space left on device. Free space on the disk, then run the command again. "
        "All answers are kept\n"
    )


@pytest.mark.parametrize(
    ("number", "action"),
    [
        (errno.ENOENT, "Correct the path"),
        (errno.ENOTDIR, "a part of it is a file"),
        (errno.EISDIR, "Give a file"),
        (errno.EEXIST, "Choose another name"),
        (errno.EROFS, "Choose a path"),
        (errno.ENAMETOOLONG, "Shorten"),
        (errno.EACCES, "Change its permissions"),
        (errno.EPERM, "Change its permissions"),
    ],
)
def test_a_path_that_cannot_be_used_is_one_line_with_the_action(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, action: str
) -> None:
    assert ends_with(OSError(number, "the fault", "pages/a.html"), monkeypatch) == 2
    said = capsys.readouterr().err
    assert said.startswith("titjudge: pages/a.html: the fault. ")
    assert action in said


def test_a_mistake_of_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="odd"):
        ends_with(OSError(errno.EINVAL, "odd"), monkeypatch)
    with pytest.raises(KeyError):
        ends_with(KeyError("x"), monkeypatch)
