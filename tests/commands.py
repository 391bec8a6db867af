"""Runs titjudge's command line inside the test process: what a shell would see, without the seconds a new process costs.

    out = cli(tmp_path, "judge", "--json", "out.json", OPENAI_API_KEY="sk-test")    # exit code 0 is expected
    out = cli(tmp_path, "jugde", code=2)

Where the process is the point (signals, kill -9, closed streams, what is imported), use `shell` or `start`.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
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
    return cli(folder, "judge", "--data", "data", "--provider", "openai", *flags, code=code, **hosted(server))


def start(folder: Path, *arguments: str, script: str = "", **variables: str) -> subprocess.Popen[str]:
    """The command in a process of its own, as a shell starts it; `script` is Python to run in its place."""
    return subprocess.Popen(
        [sys.executable, *(("-c", script) if script else (str(ROOT / "cli.py"),)), *arguments],
        cwd=folder,
        env={**os.environ, **environment(folder, variables)},
        text=True,
        encoding="utf-8",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def shell(folder: Path, *arguments: str, code: int = 0, **variables: str) -> str:
    """Like `cli`, in a process of its own."""
    with start(folder, *arguments, **variables) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == code, f"exit {process.returncode}\n{out}\n{err}"
    return out + err
