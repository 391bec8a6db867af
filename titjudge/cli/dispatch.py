"""Find and run one command; turn its errors into one line and an exit code."""

from __future__ import annotations

import errno
import functools
import importlib
import os
import sys

import click

from titjudge.cli.commands import COMMANDS, RESUMED
from titjudge.cli.logs import add_log_options
from titjudge.cli.terminal import say
from titjudge.core.errors import BudgetExhausted, TitjudgeError, nearest
from titjudge.core.signals import INTERRUPTED, ended_by_ctrl_c, terminated_like_ctrl_c

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


@functools.cache
def command_of(name: str) -> click.Command:
    """Load a command, with the options that every command has."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    place = module if "." in module else f"titjudge.cli.{module}"
    command: click.Command = getattr(importlib.import_module(place), attribute or module)
    add_log_options(command)
    return command


def _open_closed_streams() -> None:
    """Discard what is written to standard output or error if the shell has closed it (`>&-`)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def run_command(program: str, arguments: list[str]) -> int:
    """Run the command that `arguments` name; returns its exit code."""
    _open_closed_streams()
    name = arguments[0]
    if name not in COMMANDS:
        say(f"titjudge: there is no command '{name}'.{nearest(name, COMMANDS)} Try `{program} --help`.", err=True)
        return 2
    try:
        with ended_by_ctrl_c():
            command = command_of(name)
        with terminated_like_ctrl_c():
            result = command.main(arguments[1:], prog_name=f"{program} {name}", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        return _interrupted(name)
    except BudgetExhausted as error:
        say(f"titjudge: {error}", err=True)
        return 3
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
        return _interrupted(name)


def _interrupted(name: str) -> int:
    ends = "; the same command goes on where it stopped" if name in RESUMED else ""
    say(f"titjudge: interrupted{ends}", err=True)
    return INTERRUPTED
