"""The command line. Only the standard library and click are imported until the command is known, and for `--help` not click."""

from __future__ import annotations

import gc
import os
import sys
from typing import NoReturn

BUDGET_REACHED, TOO_FEW_SCORED = 3, 4  # exit codes
COMPLETE = "_TITJUDGE_COMPLETE"  # environment variable with the request of a shell that completes a command


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command and exit.

    Exit codes: 0 done, 1 failed, 2 an error that the user can correct, 3 the cap was reached, 4 less than nine tenths of the images
    were scored (or than `--min-coverage`), 130 interrupted.
    """
    sys.exit(_run(sys.argv[1:] if arguments is None else arguments))


def process() -> NoReturn:
    """Be the process of a command: run it as `main` does, and end at once."""
    from titjudge.core.signals import end

    end(_run(sys.argv[1:]))


def _run(given: list[str]) -> int:
    """Run a command; returns its exit code, unless Ctrl-C has ended it."""
    from titjudge.core.signals import INTERRUPTED, end_interrupted, ended_by_ctrl_c

    gc.set_threshold(10_000, 50, 50)  # by default the search for cycles takes 8% of a run and finds hardly any
    program = _program(sys.argv[0])
    with ended_by_ctrl_c():
        if given in ([], ["help"], ["--help"], ["-h"]) and COMPLETE not in os.environ and _show_overview(program):
            return 0
        from titjudge.cli.commands import run_command
    try:
        code = run_command(program, given)
    except KeyboardInterrupt:  # a second one, while the first is being reported
        code = INTERRUPTED
    if code == INTERRUPTED:
        end_interrupted()
    return code


def _show_overview(program: str) -> bool:
    """Print the list of commands; False if `run_command` must, as other packages have some or it cannot be written."""
    import shutil

    from titjudge.cli.overview import page, unlisted

    if unlisted():
        return False
    try:
        print(page(program, max(50, min(80, shutil.get_terminal_size().columns) - 2), {}), end="", flush=True)
    except OSError:
        return False
    return True


def _program(started: str) -> str:
    """Return the command that started titjudge, for messages that show a command."""
    if started.endswith("__main__.py"):
        return "python -m titjudge"
    return "titjudge" if started.endswith("titjudge") else "python cli.py"
