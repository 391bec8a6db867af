"""The commands: those here and those that packages announce, each imported when it is used or listed.

A package, and `titjudge.apps` like any other, announces a command by an entry point:

    [project.entry-points."titjudge.commands"]
    my-command = "my_package.command:my_command"
"""

from __future__ import annotations

import functools
import importlib
import inspect
from pathlib import Path
from typing import Any, NoReturn

import click

from titjudge import __version__
from titjudge.cli.logs import add_log_options
from titjudge.cli.option_groups import help_all_option, is_long, shows_all, write_groups
from titjudge.core import registry
from titjudge.core.errors import ConfigError, UserError, nearest
from titjudge.core.signals import ended_by_ctrl_c

SECTIONS = JUDGE, COMPARE, TRUST, PROMPTS, LOOK_UP, OTHERS = (
    "Judge images",
    "Compare and report",
    "Trust a judge",
    "Prompts and images",
    "Look things up",
    "Other packages",
)
"""Titles of `--help`, in this order; those that a package adds come last."""

_BUILT_IN = {
    "judge": "titjudge.cli.judge:judge",
    "score": "titjudge.cli.score:score",
    "sweep": "titjudge.cli.sweep:sweep",
    "batch": "titjudge.cli.batch:batch",
    "merge": "titjudge.cli.merge:merge",
    "verify": "titjudge.cli.verify:verify",
    "compare": "titjudge.cli.compare:compare",
    "report": "titjudge.cli.report:report",
    "aggregate": "titjudge.cli.aggregate:aggregate",
    "reference": "titjudge.cli.reference:reference",
    "view": "titjudge.cli.view:view",
    "probe": "titjudge.cli.probe:probe",
    "prompts": "titjudge.cli.catalog:prompts",
    "fetch": "titjudge.cli.fetch:fetch",
    "coverage": "titjudge.cli.coverage:coverage",
    "metrics": "titjudge.cli.catalog:metrics",
    "suites": "titjudge.cli.catalog:suites",
    "providers": "titjudge.cli.catalog:providers",
    "cache": "titjudge.cli.cache:cache",
    "doctor": "titjudge.cli.doctor:doctor",
}
"""Name -> `module:attribute`; no package can take such a name, and `doctor` says where one has tried."""


class Command(click.Command):
    """A command of titjudge. The help of one with many options is one screen, and `--help-all` shows the rest.

    A form feed in the docstring ends what the short help shows of it.

    Attributes:
        section: The title under which `--help` lists it.
        resumed: Whether it goes on where it stopped, if it is stopped and given again.
    """

    def __init__(self, *arguments: Any, section: str = OTHERS, resumed: bool = False, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.section, self.resumed = section, resumed
        self._help_all: dict[int, click.Option] = {}  # by number of options: click wants the same object each time

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        count = sum(isinstance(parameter, click.Option) for parameter in self.params)
        return [*super().get_params(ctx), self._help_all.setdefault(count, help_all_option(count))]

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not shows_all(ctx):
            return super().format_help_text(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(inspect.cleandoc(self.help or "").replace("\f\n", ""))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if is_long(self.params):
            listed = (parameter for parameter in self.get_params(ctx) if parameter is not self.get_help_option(ctx))
            write_groups(ctx, listed, formatter)
        else:
            super().format_options(ctx, formatter)


class Group(Command, click.Group):
    """A command with sub-commands, of which it runs `default` when the first argument names none.

    `compare RUN` is `compare runs RUN`.
    """

    command_class = Command

    def __init__(self, *arguments: Any, default: str = "", **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if self.default and args and args[0] not in (*self.commands, *ctx.help_option_names):
            if not (ctx.resilient_parsing or Path(args[0]).exists()) and (meant := nearest(args[0], self.commands)):
                raise UserError(f"{args[0]}: no such command, file or folder.{meant}")
            args = [self.default, *args]
        return super().parse_args(ctx, args)


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
        return command_of(cmd_name) if _target(cmd_name) else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] == "help":
            args = [*args[1:], "--help"]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if _target(args[0]) is None and not ctx.resilient_parsing:
            meant = nearest(args[0], names())
            raise UserError(f"there is no command '{args[0]}'.{meant} Try `{ctx.info_name} --help`.")
        return super().resolve_command(ctx, args)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(inspect.cleandoc(self.help or "").replace("python cli.py", ctx.info_name or ""))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in SECTIONS}
        for name in names():
            command = command_of(name)
            section = command.section if isinstance(command, Command) else OTHERS
            sections.setdefault(section, []).append((name, command.get_short_help_str(limit=1000)))
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def names() -> list[str]:
    """List the names of all commands; nothing is imported."""
    return [*_BUILT_IN, *sorted(registry.announced("commands").keys() - _BUILT_IN.keys())]


def overridden() -> dict[str, str]:
    """Return the commands of packages that have the name of one of titjudge's own: name -> `module:attribute`."""
    return registry.overridden("commands", _BUILT_IN)


def _target(name: str) -> str | None:
    return _BUILT_IN.get(name) or registry.announced("commands").get(name)


@functools.cache
def command_of(name: str) -> click.Command:
    """Import a command, and add the options that every command has."""
    target = _target(name) or ""
    with ended_by_ctrl_c():
        command = _imported(target) if name in _BUILT_IN else _of_package(name, target)
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
        raise TypeError(f"{target} is no command of click")
    return command


@click.group(
    cls=Commands,
    options_metavar="",
    subcommand_metavar="COMMAND [OPTIONS] [ARGUMENTS]",
    context_settings={"help_option_names": ["--help", "-h"]},
)
@click.version_option(__version__, "--version", "-V", message="titjudge %(version)s")
def commands() -> None:
    """Judge text-to-image outputs against their prompts with vision-language models, language models and embeddings.

    It also measures how far the judgement agrees with people.

    \b
    Examples:
      python cli.py judge             the bundled example: no key, no network
      python cli.py judge --data my_images --provider gemini --max-cost 5
      python cli.py score --prompt "a red cube" --provider openai image.png
      python cli.py COMMAND --help    options and examples of a command
    """
