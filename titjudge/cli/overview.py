"""The commands, and what `--help` lists of them. Without click and without the commands, so that the list is there at once.

A package, and `titjudge.apps` like any other, announces a command by an entry point, and a command of a group with a dot:

    [project.entry-points."titjudge.commands"]
    my-command = "my_package.command:my_command"
    "prompts.make" = "my_package.command:make"
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from titjudge.core.entry_points import announced

SECTIONS = JUDGE, COMPARE, TRUST, PROMPTS, LOOK_UP, OTHERS = (
    "Judge images",
    "Compare and report",
    "Trust a judge",
    "Prompts and images",
    "Look things up",
    "Other packages",
)
"""Titles of `--help`, in this order; sections that a package adds come last."""

SUMMARIES = {
    JUDGE: {
        "titjudge.cli.judge:judge": "Judge the images of a data folder, and measure how well each metric agrees with people.",
        "titjudge.cli.score:score": "Score images against one prompt.",
        "titjudge.cli.sweep:sweep": "Run every combination of the captioners, embedders, judges and prompts of a YAML file over the same data.",
        "titjudge.cli.answers:answers": "Export the questions of a run to a file, and import or record answers from a file.",
        "titjudge.cli.merge:merge": "Join the shards of a run (made with `judge --shard`) into one run folder with tables and report.",
        "titjudge.cli.merge:verify": "Recompute every number of a run from its stored answers, and compare.",
        "titjudge.apps.bench.command:bench": "Find the better generator: make the images of PROMPTS, judge them, and keep a cap.",
        "titjudge.apps.rewards.command:serve": "Serve rewards to a training run: any metrics, in the wire formats of five frameworks, from one process.",
    },
    COMPARE: {
        "titjudge.cli.compare:compare": "Compare the mean scores of generators (`compare RUN...`), plan a comparison, replay early stopping, or map scores to a new judge.",
        "titjudge.cli.report:report": "Write one self-contained HTML report of one or several runs, or a folder of many images.",
        "titjudge.cli.report:view": "Serve a page with the runs of a folder: scores, progress and cost, images as they are judged, and reports.",
        "titjudge.apps.training.command:export": "Write finished runs as training data for judges and generators, or split such data by prompt.",
    },
    TRUST: {
        "titjudge.cli.judges:judges": "Measure how well judges agree with people, and the price of their answers.",
        "titjudge.cli.probe:probe": "Test a judge on known errors (`probe --judge MODEL`), or make test images with known errors.",
        "titjudge.apps.label.command:label": "Let people vote on pairs of images, or mark single images (`label DATA`); turn votes into labels and agreement.",
    },
    PROMPTS: {
        "titjudge.cli.prompts:prompts": "Make, review and audit sets of prompts, export the prompts of a suite, and list missing images.",
        "titjudge.cli.catalog:templates": "List the prompt templates, or show one.",
        "titjudge.apps.generate.command:generate": "Make the images of the lines in TODO (`prompts export` writes them).",
    },
    LOOK_UP: {
        "titjudge.cli.catalog:metrics": "List the metrics: the models they ask, range, source and options; and the learned ones with their weights.",
        "titjudge.cli.catalog:suites": "List the suites, download their files, compute their official tables, and show published leaderboards.",
        "titjudge.cli.catalog:providers": "List the providers and embedders, and the environment variable for the key of each.",
        "titjudge.cli.catalog:cache": "Show or clear the cache: answers, embeddings and image checks, kept on disk so that nothing is paid twice.",
        "titjudge.cli.doctor:doctor": "Check which providers have keys, which models load, and where the cache is; with --ask, also whether models answer.",
    },
}
"""Title -> `module:attribute` -> the first sentence of its docstring. `_` is `-` in the name of a command."""

BUILT_IN = {
    target.partition(":")[2].replace("_", "-"): target
    for targets in SUMMARIES.values()
    for target in targets
    if target.startswith("titjudge.cli.")
}
"""Name -> `module:attribute`; no package can take such a name, and `doctor` reports one that tries."""

FIRST = frozenset(
    "judge score bench generate compare judges report view verify label probe serve prompts suites doctor".split()
)
"""The commands that `--help` explains; it lists the others by name."""
_MORE = "More"

_PAGE = """Usage: {program} COMMAND [OPTIONS] [ARGUMENTS]

{about}
  Examples:
    {program} judge             the bundled example: no key, no network
    {program} judge --data my_images --provider gemini --max-cost 5
    {program} score --prompt "a red cube" --provider openai image.png
    {program} COMMAND --help    options and examples of a command
    {program} help TOPIC        a page of the documentation

Options:
  -V, --version      Show the version and exit.
  -h, --help         Show this message, or the help of a command.

Global options, after the name of a command:
  --json FILE        Also write the results as JSON; - is standard output (other
                     text then goes to standard error).
  --explain          Also explain the columns of the tables, and how their
                     intervals and p-values are computed.
  --log-level LEVEL  Log requests, retries, waits and batch jobs (debug, info,
                     warning or error).
  --log-file FILE    Append the log to FILE, as JSON lines.
"""
_ABOUT = (
    "Judge text-to-image outputs against their prompts with vision-language models, language models and embeddings.",
    "It also measures how well the scores agree with people.",
)


def names() -> list[str]:
    """List the names of all commands; nothing is imported."""
    return [*BUILT_IN, *sorted(name for name in announced("commands").keys() - BUILT_IN.keys() if "." not in name)]


def names_in(group: str) -> list[str]:
    """List the names of the commands that packages announce in a group: GROUP.NAME."""
    return [name.partition(".")[2] for name in announced("commands") if name.startswith(f"{group}.")]


def target_of(name: str) -> str | None:
    """Return the `module:attribute` of a command, or of GROUP.NAME; None if there is none of this name."""
    return BUILT_IN.get(name) or announced("commands").get(name)


def unlisted() -> list[str]:
    """List the commands of other packages: their code has the values that `page` needs."""
    listed = {target for texts in SUMMARIES.values() for target in texts}
    return [name for name in names() if target_of(name) not in listed]


def page(program: str, width: int, others: Mapping[str, tuple[str, str]]) -> str:
    """Write the help of the program, in lines of at most `width` characters; `others` are title and text of each `unlisted`."""
    texts = {target: (title, text) for title, listed in SUMMARIES.items() for target, text in listed.items()}
    sections: dict[str, dict[str, str]] = {title: {} for title in (*SECTIONS[:-1], _MORE, OTHERS)}
    for name in names():
        title, text = others.get(name) or texts[target_of(name) or ""]
        sections.setdefault(title if name in FIRST or name in others else _MORE, {})[name] = text
    more = textwrap.fill(", ".join(sections[_MORE]), width - 2, break_on_hyphens=False)
    lists = [
        f"\n{title}:\n{textwrap.indent(more, '  ') if title == _MORE else _rows(rows, width)}\n"
        for title, rows in sections.items()
        if rows
    ]
    about = [textwrap.fill(text, width, initial_indent="  ", subsequent_indent="  ") + "\n" for text in _ABOUT]
    return _PAGE.format(program=program, about="\n".join(about)) + "".join(lists)


def _rows(rows: Mapping[str, str], width: int) -> str:
    indent = " " * (4 + max(map(len, rows)))
    return "\n".join(
        textwrap.fill(text, width, initial_indent=f"  {name}".ljust(len(indent)), subsequent_indent=indent)
        for name, text in rows.items()
    )
