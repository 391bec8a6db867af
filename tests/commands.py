"""Runs titjudge's command line inside the test process: what a shell would see, without the seconds a new process costs.

    out = cli(tmp_path, "judge", "--json", "out.json", OPENAI_API_KEY="sk-test")    # exit code 0 is expected
    out = cli(tmp_path, "jugde", code=2)

Where the process is the point (signals, kill -9, closed streams, what is imported), use `shell` or `start`.
"""

import atexit
import contextlib
import io
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Self
from unittest import mock

from tests.kit import Server
from titjudge.cli import main

ROOT = Path(__file__).resolve().parent.parent
HEAVY = (
    "openai", "google", "litellm", "torch", "transformers", "numpy", "scipy", "pydantic", "rich", "jinja2", "pandas", "aiohttp",
)  # fmt: skip
"""Packages that take long to import: no command loads them before it needs them."""


def environment(folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    """The cache lies in `folder`; tables are not cut at the width of whoever runs the tests."""
    return {"TITJUDGE_CACHE": str(folder / "cache"), "COLUMNS": "160", **more}


@contextlib.contextmanager
def _standing_in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def cli(folder: Path, *arguments: str, code: int = 0, **variables: str) -> str:
    """What `titjudge ARGUMENTS` prints when started in `folder`, standard output first; its exit code must be `code`."""
    out, err = io.StringIO(), io.StringIO()
    ended = 0
    with (
        _standing_in(folder),
        mock.patch.dict(os.environ, environment(folder, variables)),
        mock.patch.object(sys, "argv", ["cli.py", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            ended = end.code if isinstance(end.code, int) else int(end.code is not None)
    assert ended == code, f"exit {ended}\n{out.getvalue()}\n{err.getvalue()}"
    return out.getvalue() + err.getvalue()


def hosted(server: Server) -> dict[str, str]:
    """The variables that send the requests to OpenAI to a loopback server."""
    return {"OPENAI_API_KEY": "sk-test-0123456789", "OPENAI_BASE_URL": server.openai}


def judge(folder: Path, server: Server, *arguments: str, code: int = 0, report: bool = False) -> str:
    """What `titjudge judge` prints of the images in `folder/data`, judged by OpenAI's models at a loopback server."""
    flags = arguments if report else (*arguments, "--no-report")
    return cli(folder, "judge", "--data", "data", "--provider", "openai/gpt-4o", *flags, code=code, **hosted(server))


class Started:
    """A process in which titjudge is imported already, used as `subprocess.Popen` is: forked, it starts a second sooner."""

    def __init__(self, folder: Path, arguments: Sequence[str], script: str, variables: Mapping[str, str]) -> None:
        (out, to_out), (err, to_err) = _FORKING.Pipe(duplex=False), _FORKING.Pipe(duplex=False)
        given = (folder, arguments, script, {**os.environ, **variables}, to_out, to_err)
        self._process = _FORKING.Process(target=_work, args=given, daemon=True)
        self._process.start()
        for end in (to_out, to_err):
            end.close()
        self.stdout, self.stderr = (open(os.dup(pipe.fileno()), encoding="utf-8") for pipe in (out, err))  # noqa: SIM115

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None and self._process.pid is not None:
            os.kill(self._process.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def wait(self, timeout: float | None = None) -> None:
        self._process.join(timeout)
        if self.returncode is None:
            self.kill()
            raise TimeoutError(f"still running after {timeout} seconds")

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        with ThreadPoolExecutor(2) as pool:
            texts = [pool.submit(stream.read) for stream in (self.stdout, self.stderr)]
            self.wait(timeout)
            out, err = (text.result() for text in texts)
        self._close()
        return out, err

    def _close(self) -> None:
        self.stdout.close()
        self.stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        self._close()


_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload([
    "titjudge.cli.judge", "titjudge.runs.session", "titjudge.apps.label.server", "titjudge.web.view.server", "uvicorn",
])  # fmt: skip


def _work(
    folder: Path, arguments: Sequence[str], script: str, variables: Mapping[str, str], out: Connection, err: Connection
) -> None:
    """Run the command, or `script`, in a process that has just been forked."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    for number, pipe in ((1, out), (2, err)):
        os.dup2(pipe.fileno(), number)
        pipe.close()
    sys.stdout, sys.stderr = (open(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))  # noqa: SIM115
    sys.argv = ["-c" if script else "cli.py", *arguments]
    try:
        exec(script or "from titjudge.cli import main\nmain()", {"__name__": "__main__"})
    finally:
        atexit._run_exitfuncs()  # a process of `multiprocessing` ends without them


def start(folder: Path, *arguments: str, script: str = "", **variables: str) -> Started:
    """The command in a process of its own; `script` is Python to run in its place."""
    return Started(folder, arguments, script, environment(folder, variables))


@contextlib.contextmanager
def serving(script: str, *arguments: object) -> Iterator[tuple[Started, list[str]]]:
    """A server that `script` starts in a process of its own, and the links that it prints on one line."""
    given = list(map(str, arguments))
    with Started(Path.cwd(), given, script, {}) as process:
        try:
            yield process, process.stdout.readline().split()
        finally:
            process.kill()


def shell(folder: Path, *arguments: str, code: int = 0, **variables: str) -> str:
    """Like `cli`, in a process of its own."""
    with start(folder, *arguments, **variables) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == code, f"exit {process.returncode}\n{out}\n{err}"
    return out + err
