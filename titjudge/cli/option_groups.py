"""Groups of options, and the two forms of a long command's help: one screen (`--help`) and everything (`--help-all`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from titjudge.cli.option_table import GROUPS, OUTPUT

_OWN = "Options"  # title of the options without a group: those that only this command has
MOST = 11  # options of a command whose help has them all in one list
_WIDEST = 30  # characters of a flag and its placeholder that stand beside their text
_HELP_ALL = "titjudge.help_all"  # key of the click context: whether the help shows everything


class Option(click.Option):
    """An option that knows its place in the help of a long command.

    Attributes:
        group: One of `GROUPS`; empty for an option that only few commands have.
        brief: Its line in `--help`; an option of a group that has none stands in `--help-all` only.
        shown: The default that the help shows, if click does not know it.
    """

    def __init__(self, *arguments: Any, group: str = "", brief: str = "", shown: Any = None, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.group, self.brief = group, brief
        self.shown = (
            "" if shown in (None, False) or isinstance(shown, dict | list) else "yes" if shown is True else str(shown)
        )

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        if record is None:
            return None
        text, gap, extra = record[1].partition("  [")
        text += " Repeatable." if self.multiple else ""
        return record[0], f"{text}{gap}{extra}" + (f"  [default: {self.shown}]" if self.shown else "")


def shows_all(context: click.Context) -> bool:
    """Return True if the help of this context shows everything."""
    return bool(context.meta.get(_HELP_ALL))


def count_options(parameters: Iterable[click.Parameter]) -> int:
    """Count the options that a help lists; above `MOST`, the help has two forms."""
    return sum(isinstance(parameter, click.Option) and not parameter.hidden for parameter in parameters)


def full_help(context: click.Context) -> str:
    """Return the help of a command with all its options."""
    context.meta[_HELP_ALL] = True
    return context.get_help()


def _show_full_help(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        click.echo(full_help(context), color=context.color)
        context.exit()


def help_all_option(count: int) -> Option:
    """Make `--help-all` of a command with `count` options; a command whose help is short does not list it."""
    return Option(
        ["--help-all"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        hidden=count <= MOST,
        callback=_show_full_help,
        group=OUTPUT,
        brief=f"All {count} options and more explanation.",
        help="Show all options and exit.",
    )


def write_groups(context: click.Context, parameters: Iterable[click.Parameter], formatter: click.HelpFormatter) -> None:
    """Write the options of a long command group by group, with their texts in one column."""
    sections = _sections(context, parameters)
    width = min(_WIDEST, max(len(flag) for rows in sections.values() for flag, _ in rows))
    for title, rows in sections.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl([(flag.ljust(width), text) for flag, text in rows], col_max=_WIDEST)


def _sections(context: click.Context, parameters: Iterable[click.Parameter]) -> dict[str, list[tuple[str, str]]]:
    """Collect flag and text of the options that the help lists, by group."""
    sections: dict[str, list[tuple[str, str]]] = {title: [] for title in (_OWN, *GROUPS)}
    everything = shows_all(context)
    for parameter in parameters:
        group, brief = (parameter.group, parameter.brief) if isinstance(parameter, Option) else ("", "")
        if not (everything or brief or not group) or isinstance(parameter, click.Argument):
            continue
        if record := parameter.get_help_record(context):
            sections[group or _OWN].append(record if everything or not group else (record[0], brief))
    return sections
