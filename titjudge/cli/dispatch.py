"""Run one command; turn its errors into one line and an exit code."""

from __future__ import annotations

import errno
import os
import shlex
import sys

import click

from titjudge.cli import BUDGET_REACHED, COMPLETE
from titjudge.cli.commands import Command, command_of, commands
from titjudge.cli.overview import names
from titjudge.cli.terminal import say
from titjudge.core.errors import BudgetExhausted, TitjudgeError, UnclearData
from titjudge.core.signals import INTERRUPTED, terminated_like_ctrl_c

_PATH_ERRORS = {errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.EEXIST}  # the user named a wrong path
_MACHINE_ERRORS = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENAMETOOLONG,
}


def _open_closed_streams() -> None:
    """Discard what is written to standard output or error if the shell has closed it (`>&-`)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def run_command(program: str, arguments: list[str]) -> int:
    """Run the command that `arguments` name; returns its exit code."""
    _open_closed_streams()
    try:
        with terminated_like_ctrl_c():
            result = commands.main(arguments, prog_name=program, complete_var=COMPLETE, standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        return _interrupted(arguments)
    except BudgetExhausted as error:
        say(f"titjudge: {error}", err=True)
        return BUDGET_REACHED
    except UnclearData as error:
        takes_patterns = arguments and _has_option(arguments[0], "images")
        message = error.with_command(f"{program} {shlex.join(arguments)}") if takes_patterns else error
        say(f"titjudge: {message}", err=True)
        return 2
    except TitjudgeError as error:
        say(f"titjudge: {error}", err=True)
        return 2
    except OSError as error:
        if error.errno in _PATH_ERRORS and error.filename:
            say(f"titjudge: {error.filename2 or error.filename}: {error.strerror}", err=True)
            return 2
        if error.errno not in _MACHINE_ERRORS:
            raise
        where = f" ({error.filename})" if error.filename else ""
        say(f"titjudge: {error.strerror}{where}; what was answered is kept, the same command goes on", err=True)
        return 1
    except BaseException as error:
        # asyncio's, which is not imported for --help; pydantic puts an error of its own in the place of a KeyboardInterrupt
        if type(error).__name__ != "CancelledError" and "KeyboardInterrupt" not in str(error):
            raise
        return _interrupted(arguments)


def _has_option(name: str, option: str) -> bool:
    return name in names() and any(parameter.name == option for parameter in command_of(name).params)


def _interrupted(arguments: list[str]) -> int:
    command = command_of(arguments[0]) if {*arguments[:1]} & {*names()} else None
    ends = "; the same command goes on where it stopped" if isinstance(command, Command) and command.resumed else ""
    say(f"titjudge: interrupted{ends}", err=True)
    return INTERRUPTED
