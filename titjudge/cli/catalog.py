"""`metrics`, `providers`, `suites`, `prompts`: what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from titjudge.cli.generate import export
from titjudge.cli.options import JSON, PATH, GroupByDefault, option
from titjudge.cli.terminal import say


def _loaded(kind: str) -> list[Any]:
    """Everything of a kind; an entry point that does not load is named on standard error."""
    from titjudge.core import registry
    from titjudge.core.errors import ConfigError

    found = []
    for name in registry.names(kind):
        try:
            found.append(registry.load(kind, name))
        except ConfigError as error:
            say(f"titjudge: {error}", err=True)
    return found


WHERE = (
    "Weights come from the hub (huggingface.co) when a metric is first used, small files of the second repository with them.",
    "Your own lie in $TITJUDGE_WEIGHTS/METRIC/ (the released file under its name, or a folder as transformers saves it), or "
    "where the YAML file that $TITJUDGE_SCORERS names says so: {METRIC: {weights: PATH, base: FOLDER, dtype: bfloat16}}.",
    "With HF_HUB_OFFLINE=1 nothing is downloaded.",
)


def _size(row: Any) -> str | None:
    """How much the weights are to download: as the hub lists them, else about parameters times bytes."""
    if row.gigabytes:
        return f"{row.gigabytes:.2f} GB"
    return None if row.size is None else f"about {row.size.weights / 1e9:.1f} GB"


def _also(row: Any) -> str | None:
    """Name a second repository, and what is used of it."""
    return f"{row.also} ({'with its weights' if row.whole_base else 'small files'})" if row.also else None


@click.command()
@JSON
def metrics(json_file: Path | None) -> int:
    """List the metrics with the models they ask, the span of their values and their source; their options; the learned baselines."""
    from titjudge.cli.output import show_tables, write_json
    from titjudge.core.learned_metrics import ASKED, LISTED
    from titjudge.core.types import Table
    from titjudge.metrics import Metric

    found: list[Metric] = _loaded("metrics")
    rows = tuple(
        (
            m.name,
            ", ".join(m.roles),
            f"{m.range[0]:g} to {m.range[1]:g}",
            ", ".join([*m.needs, *(["the prompt's other images"] if m.scope == "prompt" else [])]) or None,
            m.summary,
            m.source,
        )
        for m in found
    )
    shown = tuple((row[0], re.sub(r"scorer/\S+", "weights", row[1]), *row[2:-1]) for row in rows)
    learned = tuple(
        (
            row.key,
            row.weights or ("any" if row.status == ASKED else "from its authors"),
            _size(row),
            _also(row),
            row.licence,
            row.tokens or None,
            row.status,
        )
        for row in LISTED
    )
    options = {m.name: m.about_options for m in found}
    taken = tuple((f"{m.name}.{name}", m.defaults[name], what) for m in found for name, what in options[m.name].items())
    about = ("metric", "weights", "size", "also needed", "licence", "token limit", "status")
    show_tables(
        [
            Table("metrics", ("metric", "asks", "range", "needs", "what it is"), shown),
            Table("where they come from", ("metric", "source"), tuple((row[0], row[-1]) for row in rows)),
            Table("options of metrics", ("--metric-option", "default", "what it is"), taken),
            Table("learned baselines (higher is better)", about, learned, WHERE),
        ]
    )
    keys = ("weights", "size", "also_needed", "licence", "tokens", "status")
    more = {name: dict(zip(keys, facts, strict=True)) | {"direction": "higher is better"} for name, *facts in learned}
    write_json(
        json_file,
        [
            dict(zip(("metric", "asks", "range", "needs", "summary", "source"), row, strict=True))
            | {"options": options[row[0]]}
            | more.get(row[0], {})
            for row in rows
        ],
    )
    return 0


@click.command()
@JSON
def providers(json_file: Path | None) -> int:
    """List the providers and embedders, and the environment variable each reads its key from."""
    from titjudge.cli.doctor import KEYS
    from titjudge.cli.output import show_tables, write_json
    from titjudge.core import registry
    from titjudge.core.retirements import default_model
    from titjudge.core.types import Table

    rows = [
        ("provider", name, default_model(name) or None, " or ".join(KEYS.get(name, ())) or None)
        for name in registry.names("providers")
    ]
    rows += [("embedder", name, None, None) for name in registry.names("embedders")]
    show_tables([Table("providers and embedders", ("kind", "name", "default model", "key"), tuple(rows))])
    write_json(json_file, [dict(zip(("kind", "name", "default_model", "key"), row, strict=True)) for row in rows])
    return 0


@click.command()
@JSON
def suites(json_file: Path | None) -> int:
    """List the suites with their version, metrics, what they need, and how they deviate from the official code."""
    from titjudge.cli.output import show_tables, write_json
    from titjudge.core.types import Table

    found = _loaded("suites")
    rows = tuple(
        (s.name, s.VERSION, ", ".join(s.metrics), _models(s.metrics), (s.__doc__ or "").strip().partition("\n")[0])
        for s in found
    )
    notes = tuple(f"{s.name}: {deviation}" for s in found for deviation in s.DEVIATIONS)
    show_tables([Table("suites", ("suite", "version", "metrics", "needs", "what it is"), rows, notes)])
    write_json(
        json_file,
        [
            {"suite": s.name, "version": s.VERSION, "metrics": list(s.metrics), "deviations": list(s.DEVIATIONS)}
            for s in found
        ],
    )
    return 0


def _models(metrics: tuple[str, ...]) -> str:
    """Name the roles that a suite's metrics ask."""
    from titjudge.core import registry

    roles = {role for name in metrics for role in registry.load("metrics", name).roles}
    return ", ".join(["--data DIR", *(f"--{role}" for role in sorted(roles) if "/" not in role)])


class _Prompts(GroupByDefault):
    """The name of a template is a command line of its own: `prompts tit/compare`; no name lists them all."""

    default = "show"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or [self.default])


@click.group(cls=_Prompts)
def prompts() -> None:
    """List the prompt templates, show one, or export the prompts of a suite.

    \b
    Examples:
      python cli.py prompts
      python cli.py prompts tit/compare
      python cli.py prompts export --suite tiif --data TIIF -o todo.jsonl
    """


prompts.add_command(export)


@prompts.command(short_help="List the templates, or show the file of one.")
@click.argument("name", required=False)
@option("--prompts", "Templates that replace the bundled ones of the same name.", "DIR", name="overlay", type=PATH)
def show(name: str | None, overlay: Path | None) -> int:
    """List the prompt templates, or show the file of one.

    \b
    Examples:
      python cli.py prompts
      python cli.py prompts tit/compare
    """
    from titjudge.cli.output import show_tables
    from titjudge.core.prompts import PromptLibrary
    from titjudge.core.types import Table

    library = PromptLibrary(overlay)
    if name:
        library.get(name)
        say(
            next(root / f"{name}.md" for root in library.roots if (root / f"{name}.md").is_file()).read_text(
                encoding="utf-8"
            ),
            nl=False,
        )
        return 0
    found = [library.get(each) for each in library.names()]
    rows = tuple((p.name, p.version, ", ".join(sorted(p.variables)), p.source, p.sha256[:16]) for p in found)
    show_tables([Table("prompts", ("prompt", "version", "variables", "source", "sha256"), rows)])
    return 0
