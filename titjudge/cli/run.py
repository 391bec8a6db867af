"""Finds and runs one command; the one place where an error becomes a line and an exit code."""

from __future__ import annotations

import importlib
import sys

import click

from titjudge.cli import COMMANDS
from titjudge.errors import BudgetExhausted, TitjudgeError, nearest


def command_of(name: str) -> click.Command:
    module, _, attribute = COMMANDS[name][0].partition(":")
    found: click.Command = getattr(importlib.import_module(module), attribute)
    return found


def run_command(program: str, arguments: list[str]) -> int:
    name = arguments[0]
    if name not in COMMANDS:
        print(
            f"titjudge: there is no command '{name}'.{nearest(name, COMMANDS)} Try `{program} --help`.", file=sys.stderr
        )
        return 2
    try:
        result = command_of(name).main(arguments[1:], prog_name=f"{program} {name}", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        print("titjudge: interrupted; the same command goes on where it stopped", file=sys.stderr)
        return 130
    except BudgetExhausted as error:
        print(f"titjudge: {error}", file=sys.stderr)
        return 3
    except TitjudgeError as error:
        print(f"titjudge: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()
        return 141
