"""Groups of options, and the two forms of a long command's help: one screen (`--help`) and everything (`--help-all`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

GROUPS = DATA, MODELS, METRIC, MONEY, STOPPING, CLUSTER, OUTPUT = (
    "Data",
    "Models",
    "Metric and suite",
    "Money and pace",
    "Stopping",
    "Cluster",
    "Output",
)
"""Titles of the groups, in the order of the help; options without a group come first."""

KEYS: dict[str, dict[str, str]] = {
    DATA: {
        "data": "Folder or table of images with prompts.",
        "images": "Where they lie: {generator}/{prompt_id}.png",
        "prompt_file": "Prompts of --images: prompts.txt, .csv, ...",
        "sources": "",
        "columns": "",
        "image_root": "",
        "pairs": "Which images people prefer, to test metrics.",
        "ignore_sources": "",
        "grid": "",
        "limit": "Only the first N images, in whole prompts.",
        "limit_seed": "",
    },
    MODELS: {
        "captioner": "The model that describes images.",
        "judge": "The model that judges; several: a panel.",
        "panel": "",
        "embedder": "",
        "detector": "",
        "cache": "",
        "lenient": "",
        "canary": "",
    },
    METRIC: {
        "metrics": "What is computed, see `metrics`; repeatable.",
        "metric_options": "",
        "suite": "A published benchmark, see `suites`.",
        "suite_options": "",
        "protocol": "",
        "prompts": "",
        "per_prompt": "",
        "samples": "",
        "vote": "",
        "quorum": "",
        "seed": "",
    },
    MONEY: {
        "max_cost": "Hard cap on what it may spend.",
        "prices": "",
        "max_requests": "",
        "max_tokens": "",
        "concurrency": "",
        "rpm": "",
        "tpm": "",
        "timeout": "",
        "attempts": "",
        "patience": "",
        "batch": "",
        "batch_poll": "",
        "batch_idle": "",
        "retry_failed": "Ask again what was refused or cut off.",
    },
    STOPPING: {"min_coverage": ""},
    CLUSTER: {"shard": "", "engine": "", "ray_address": "", "workers": ""},
    OUTPUT: {"out": "The run folder; without it runs/DATA-HASH.", "report": ""},
}
"""The keys of run.yaml by group, with the line that their flag has in the short help; empty: only in `--help-all`."""

_OWN = "Options"  # title of the options without a group: options that only this command has
MOST = 20  # options of a command whose help has them all in one list
_WIDEST = 30  # characters of a flag and its placeholder that are next to their text
_HELP_ALL = "titjudge.help_all"  # key of the click context: whether the help shows everything


class Option(click.Option):
    """An option that knows its place in the help of a long command.

    Attributes:
        group: One of `GROUPS`; empty for an option that only this command has.
        brief: Its line in `--help`; an option of a group without one is listed in `--help-all` only.
    """

    def __init__(self, *arguments: Any, group: str = "", brief: str = "", **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.group, self.brief = group, brief


def place_of_key(key: str) -> dict[str, str]:
    """Return `group` and `brief` of the flag of a key of run.yaml; nothing for a key that is not in `KEYS`."""
    return next(({"group": group, "brief": briefs[key]} for group, briefs in KEYS.items() if key in briefs), {})


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
