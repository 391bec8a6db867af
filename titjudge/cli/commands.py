"""The commands: the commands of `overview` and of packages, each imported when it is used."""

from __future__ import annotations

import errno
import functools
import importlib
import inspect
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from titjudge import __version__
from titjudge.cli import BUDGET_REACHED, COMPLETE, overview
from titjudge.cli.logs import add_log_options
from titjudge.cli.option_groups import MOST, count_options, help_all_option, shows_all, write_groups
from titjudge.cli.overview import BUILT_IN, COMPARE, JUDGE, LOOK_UP, OTHERS, PROMPTS, TRUST, names, names_in, target_of
from titjudge.cli.terminal import say
from titjudge.core.errors import (
    FILE_REMEDIES,
    BudgetExhausted,
    ConfigError,
    TitjudgeError,
    Unclear,
    UserError,
    file_fault,
    nearest,
    unknown,
)
from titjudge.core.paths import pages
from titjudge.core.signals import INTERRUPTED, ended_by_ctrl_c, terminated_like_ctrl_c

__all__ = [
    "COMPARE",
    "JUDGE",
    "LOOK_UP",
    "OTHERS",
    "PROMPTS",
    "TRUST",
    "Command",
    "Commands",
    "Group",
    "command_of",
    "commands",
]


class Command(click.Command):
    """A command of titjudge. The help of one with many options is one screen, and `--help-all` shows the rest.

    A form feed in the docstring ends what the short help shows of it.

    Attributes:
        section: The title under which `--help` lists it.
        resumed: Whether it continues an interrupted run if the command is repeated.
    """

    def __init__(self, *arguments: Any, section: str = OTHERS, resumed: bool = False, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.section, self.resumed = section, resumed
        self._help_all: dict[int, click.Option] = {}  # by number of options: click wants the same object each time

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        count = count_options(self.params)
        return [*super().get_params(ctx), self._help_all.setdefault(count, help_all_option(count))]

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        option = super().get_help_option(ctx)
        if option:
            option.hidden = True  # as all global options: `titjudge --help` lists them
        return option

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not shows_all(ctx):
            return super().format_help_text(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(inspect.cleandoc(self.help or "").replace("\f\n", ""))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if count_options(self.params) > MOST:
            own = self.get_help_option(ctx)
            write_groups(ctx, (parameter for parameter in self.get_params(ctx) if parameter is not own), formatter)
        else:
            super().format_options(ctx, formatter)


class Group(Command, click.Group):
    """A command with sub-commands: its fixed ones, and the ones that packages announce in it.

    `compare RUN` is `compare generators RUN`.

    Attributes:
        default: The sub-command that runs when the first argument names none.
        alone: Whether it also runs without arguments.
    """

    command_class = Command

    def __init__(self, *arguments: Any, default: str = "", alone: bool = False, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.default, self.alone = default, alone

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self.commands, *names_in(self.name or "")})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if found := self.commands.get(cmd_name):
            return found
        return command_of(f"{self.name}.{cmd_name}") if cmd_name in names_in(self.name or "") else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        listed = self.list_commands(ctx)
        if args and self.default and args[0] not in (*listed, *ctx.help_option_names):
            word = args[0]
            is_name = not (ctx.resilient_parsing or word.startswith("-") or Path(word).exists())
            if is_name and (meant := nearest(word, listed)):
                raise UserError(f"{word}: no such command, file or folder.{meant} Correct the name")
            args = [self.default, *args]
        return super().parse_args(ctx, args or [self.default] * self.alone)


class Broken(Command):
    """Stands for a command of another package that does not load: `--help` lists the reason, and a call raises it."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, short_help=reason)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return []

    def invoke(self, ctx: click.Context) -> NoReturn:
        raise ConfigError(self.short_help or "")


class Commands(click.Group):
    """All commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return command_of(cmd_name) if cmd_name in names() else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] == "help":
            if len(args) == 2 and args[1] not in names() and not args[1].startswith("-"):
                say(_page(args[1]))
                ctx.exit()
            args = [*args[1:], "--help"]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in names() and not ctx.resilient_parsing:
            meant = nearest(args[0], names())
            raise UserError(f"unknown command '{args[0]}'.{meant} Try `{ctx.info_name} --help`")
        return super().resolve_command(ctx, args)

    def get_help(self, ctx: click.Context) -> str:
        others = {}
        for name in overview.unlisted():
            command = command_of(name)
            title = command.section if isinstance(command, Command) else OTHERS
            others[name] = (title, command.get_short_help_str(limit=1000))
        return overview.page(ctx.info_name or "", ctx.make_formatter().width, others).rstrip()


def _page(topic: str) -> str:
    """Read the page of the documentation whose name is or alone contains `topic`.

    Raises:
        UserError: There is none, or there are several; lists their names.
    """
    named = pages()
    found = [topic] if topic in named else [name for name in named if topic.lower() in name]
    if len(found) != 1:
        raise UserError(unknown("page or command", topic, found or named))
    return named[found[0]].read_text(encoding="utf-8")


@functools.cache
def command_of(name: str) -> click.Command:
    """Import a command, and add the options that every command has."""
    target = target_of(name) or ""
    with ended_by_ctrl_c():
        command = _imported(target) if name in BUILT_IN else _of_package(name, target)
    add_log_options(command)
    return command


def _of_package(name: str, target: str) -> click.Command:
    try:
        return _imported(target)
    except Exception as error:
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        return Broken(name, f"the command '{name}' of an entry point ({target}) does not load: {cause}")


def _imported(target: str) -> click.Command:
    module, _, attribute = target.partition(":")
    command = getattr(importlib.import_module(module), attribute)
    if not isinstance(command, click.Command):
        raise TypeError(f"{target} is not a click command")
    return command


@click.group(
    cls=Commands,
    options_metavar="",
    subcommand_metavar="COMMAND [OPTIONS] [ARGUMENTS]",
    context_settings={"help_option_names": ["--help", "-h"]},
)
@click.version_option(__version__, "--version", "-V", message="titjudge %(version)s")
def commands() -> None:
    """Run a command of titjudge; `overview.page` is the help."""


_MACHINE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE}


def _open_closed_streams() -> None:
    """Discard what is written to standard output or error if the shell has closed it (`>&-`)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


_OPTION = r"'?(?:-\w' / ')?([^']*?)(?:\.\.\.)?'?"
_OF_CLICK = {
    r"No such (option|command) ('.*?')\.?": r"unknown \1 \2.",
    r"\((Did you mean.*)\)": r"\1",
    rf"Missing \w+ {_OPTION}\.": r"\1 is missing. Add it.",
    rf"Invalid value for {_OPTION}: (.*) is not a valid integer.*": r"\1 must be a whole number, not \2.",
    rf"Invalid value for {_OPTION}: (.*) is not a valid float.*": r"\1 must be a number, not \2.",
    rf"Invalid value for {_OPTION}: (.*?) is not ((?:one of|in the range) .*)\.": r"\1 must be \3, not \2.",
    rf"Option {_OPTION} requires an argument": r"\1 requires a value. Add it",
    rf"Option {_OPTION} does not take a value": r"\1 accepts no value. Remove the value",
    r"Got unexpected extra arguments? \((.*)\)": r"too many arguments: \1. Remove them, or put a text with spaces in quotes.",
}
"""Messages of click, and how they are written here."""


def _usage_fault(error: click.ClickException) -> str:
    """Return a message about options and arguments, with the command whose help lists them."""
    message = error.format_message()
    for theirs, ours in _OF_CLICK.items():
        message = re.sub(theirs, ours, message)
    context = getattr(error, "ctx", None)
    return f"{message} See `{context.command_path} --help`" if context else message.removesuffix(".")


def run_command(program: str, arguments: list[str]) -> int:
    """Run the command that `arguments` name; returns its exit code."""
    _open_closed_streams()
    try:
        with terminated_like_ctrl_c():
            result = commands.main(arguments, program, complete_var=COMPLETE, standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        say(f"titjudge: {_usage_fault(error)}", err=True)
        return 2
    except (click.Abort, KeyboardInterrupt):
        return _interrupted(arguments)
    except Unclear as error:
        from titjudge.core.redaction import redact

        flag = next((options for options, _ in error.options), "").split()[:1]
        takes_flag = arguments and flag and _has_option(arguments[0], flag[0])
        message = redact(str(error.with_command(f"{program} {shlex.join(arguments)}") if takes_flag else error))
        say(f"titjudge: {message}", err=True)
        return 2
    except TitjudgeError as error:
        say(f"titjudge: {error}", err=True)
        return BUDGET_REACHED if isinstance(error, BudgetExhausted) else 2
    except OSError as error:
        path, broken = error.filename2 or error.filename, error.errno in _MACHINE_ERRORS
        if not (broken or (path and error.errno in FILE_REMEDIES)):
            raise
        where, kept = f"{path}: " if path else "", ". All answers are kept" if broken else ""
        say(f"titjudge: {where}{file_fault(error)}{kept}", err=True)
        return 1 if broken else 2
    except BaseException as error:
        # asyncio's, which is not imported for --help; pydantic replaces a KeyboardInterrupt by an error
        if type(error).__name__ != "CancelledError" and "KeyboardInterrupt" not in str(error):
            raise
        return _interrupted(arguments)


def _has_option(name: str, option: str) -> bool:
    return name in names() and any(option in parameter.opts for parameter in command_of(name).params)


def _interrupted(arguments: list[str]) -> int:
    command = command_of(arguments[0]) if {*arguments[:1]} & {*names()} else None
    ends = "; to continue, run the command again" if isinstance(command, Command) and command.resumed else ""
    say(f"titjudge: interrupted{ends}", err=True)
    return INTERRUPTED
