"""`metrics`, `providers`, `suites`, `templates`: list what titjudge has, and download it; `cache`: answers that it keeps."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from titjudge.cli.aggregate import aggregate
from titjudge.cli.commands import Command, Group
from titjudge.cli.option_table import PATH
from titjudge.cli.options import JSON, completer, options
from titjudge.cli.output import show_results, show_tables
from titjudge.cli.terminal import say
from titjudge.core.declarations import FACTS
from titjudge.core.errors import ConfigError
from titjudge.core.types import Note

if TYPE_CHECKING:
    from titjudge.metrics import Metric


def _load_all(kind: str) -> list[Any]:
    """Load everything of a kind (`metrics`, `suites`); an entry point that fails is reported on standard error."""
    from titjudge.core import registry

    loaded = []
    for name in registry.names(kind):
        try:
            loaded.append(registry.load(kind, name))
        except ConfigError as error:
            say(f"titjudge: {error}", err=True)
    return loaded


_WEIGHTS_NOTES = (
    Note(
        "weights_from_hub",
        "Weights come from the hub (huggingface.co) when a metric is first used, small files of the second repository with them.",
    ),
    Note(
        "own_weights",
        "Put your weights into $TITJUDGE_WEIGHTS/METRIC/ (the released file, or a folder that transformers saved), or name them "
        "in the YAML file $TITJUDGE_SCORERS: {METRIC: {weights: PATH, base: FOLDER, dtype: bfloat16}}.",
    ),
    Note("nothing_downloaded", "With HF_HUB_OFFLINE=1 nothing is downloaded."),
)


def _size(row: Any) -> str | None:
    """Format the download size of the weights: as listed on the hub, or estimated from the number of parameters."""
    if row.gigabytes:
        return f"{row.gigabytes:.2f} GB"
    return None if row.size is None else f"about {row.size.weights / 1e9:.1f} GB"


def _also(row: Any) -> str | None:
    """Name the second repository that the weights need, and the files to download from it."""
    return f"{row.also} ({'with its weights' if row.whole_base else 'small files'})" if row.also else None


def _metric_record(metric: Metric) -> dict[str, Any]:
    others = ["the prompt's other images"] if metric.scope == "prompt" else []
    others += ["source images"] if metric.sources == "required" else []
    return {
        "metric": metric.name,
        "asks": metric.asks,
        "range": f"{metric.range[0]:g} to {metric.range[1]:g}",
        "needs": ", ".join([*metric.needs, *others]) or None,
        "summary": metric.summary,
        "source": metric.source,
        "options": metric.about_options,
    }


def _weights_record(row: Any) -> dict[str, Any]:
    from titjudge.data.learned_metrics import ASKED

    return {
        "weights": row.weights or ("any" if row.status == ASKED else "from its authors"),
        "size": _size(row),
        "also_needed": _also(row),
        "licence": row.licence,
        "tokens": row.tokens or None,
        "status": row.status,
    }


@click.command(cls=Command)
@JSON
def metrics(json_file: Path | None) -> int:
    """List the metrics: the models they ask, range, source and options; and the learned ones with their weights."""
    from titjudge.core.types import Table
    from titjudge.data.learned_metrics import rows

    loaded: list[Metric] = _load_all("metrics")
    records = [_metric_record(metric) for metric in loaded]
    learned = {row.key: _weights_record(row) for row in rows()}
    overview = (
        (r["metric"], re.sub(r"scorer/\S+", "weights", r["asks"]), r["range"], r["needs"], r["summary"])
        for r in records
    )
    sources = ((record["metric"], record["source"]) for record in records)
    options = ((f"{m.name}.{name}", m.defaults[name], text) for m in loaded for name, text in m.about_options.items())
    weights = ((name, *facts.values()) for name, facts in learned.items())
    about = ("metric", "weights", "size", "also needed", "licence", "token limit", "status")
    tables = [
        Table("metrics", ("metric", "asks", "range", "needs", "what it is"), tuple(overview), declared=FACTS),
        Table("source", ("metric", "source"), tuple(sources), declared=FACTS),
        Table("options of metrics", ("--set", "default", "what it is"), tuple(options), declared=FACTS),
        Table("learned metrics (higher is better)", about, tuple(weights), _WEIGHTS_NOTES, declared=FACTS),
    ]
    for record in records:
        if record["metric"] in learned:
            record |= learned[record["metric"]] | {"direction": "higher is better"}
    show_results(tables, records, json_file)
    return 0


@click.command(cls=Command)
@JSON
def providers(json_file: Path | None) -> int:
    """List the providers and embedders, and the environment variable for the key of each."""
    from titjudge.core import registry
    from titjudge.core.types import Table
    from titjudge.providers.retirements import default_model

    keys = {name: getattr(registry.provider_class(name), "key_envs", ()) for name in registry.names("providers")}
    rows = [("provider", name, default_model(name) or None, " or ".join(keys[name]) or None) for name in keys]
    rows += [("embedder", name, None, None) for name in registry.names("embedders")]
    table = Table("providers and embedders", ("kind", "name", "default model", "key"), tuple(rows), declared=FACTS)
    columns = ("kind", "name", "default_model", "key")
    show_results([table], [dict(zip(columns, row, strict=True)) for row in rows], json_file)
    return 0


@click.group(cls=Group, default="list", alone=True, resumed=True)
def suites() -> None:
    """List the suites, download their files, compute their official tables, and show published leaderboards.

    \b
    Examples:
      python cli.py suites
      python cli.py suites fetch geneval2
      python cli.py suites aggregate tiif eval_results --json tiif.json
      python cli.py suites published qwen-image-bench
    """


suites.add_command(aggregate)


@suites.command("list", short_help="List the suites, and their deviations from the official code.")
@JSON
def list_suites(json_file: Path | None) -> int:
    """List the suites: version, metrics, required data, and deviations from the official code."""
    from titjudge.core.types import Table

    loaded = _load_all("suites")
    rows = tuple(
        (s.name, s.VERSION, ", ".join(s.metrics), _needed(s.metrics), (s.__doc__ or "").strip().partition("\n")[0])
        for s in loaded
    )
    notes = tuple(Note("deviation", f"{s.name}: {deviation}") for s in loaded for deviation in s.DEVIATIONS)
    records = [
        {"suite": s.name, "version": s.VERSION, "metrics": list(s.metrics), "deviations": list(s.DEVIATIONS)}
        for s in loaded
    ]
    table = Table("suites", ("suite", "version", "metrics", "needs", "what it is"), rows, notes, declared=FACTS)
    show_results([table], records, json_file)
    return 0


def _needed(metrics: tuple[str, ...]) -> str:
    """List the options that a suite needs for the models of its metrics."""
    from titjudge.core import registry
    from titjudge.core.config import flag_of

    roles = {role for name in metrics for role in registry.load("metrics", name).roles}
    return ", ".join(["--data DIR", *(flag_of(role).strip() for role in sorted(roles) if "/" not in role)])


@suites.command(short_help="List or show leaderboards published in papers.")
@click.argument("name", required=False)
@JSON
def published(name: str | None, json_file: Path | None) -> int:
    """List the leaderboards published in papers, or show one with its judge, protocol, date and source.

    `report RUN --reference NAME` puts a run among the rows of a leaderboard.

    \b
    Examples:
      python cli.py suites published
      python cli.py suites published qwen-image-bench
      python cli.py report runs/first --reference qwen-image-bench
    """
    from titjudge.stats.generators import published_tables

    if name is None:
        table = published_tables.list_table(published_tables.published_names())
        show_results([table], table.records, json_file)
        return 0
    leaderboard = published_tables.published(name)
    table = leaderboard.table()
    facts = ("name", "title", "of", "source", "date", "scale", "judge", "protocol", "prompts", "prompts_of", "script", "differs",
             "remarks")  # fmt: skip
    record = {key: getattr(leaderboard, key) for key in facts} | {"rows": table.records}
    record["differs"] = ": ".join(leaderboard.differs or ())
    show_results([table], record, json_file)
    return 0


@suites.command(short_help="Download the published files of a suite.")
@click.argument("suite")
@options("out", "include", revision="")
def fetch(suite: str, out: Path | None, include: tuple[str, ...], revision: str) -> int:
    """Download the published files of a suite at a pinned revision, and verify their checksums.

    They are written into --out, or into a folder with the name of the suite.
    Files that exist are verified and not downloaded again; a broken download is resumed. Most files come from GitHub,
    without images: you make these. HF_ENDPOINT is the address of another hub, HF_TOKEN its token. If titjudge
    does not pin the revision of a data set, the first download does, in fetched.json. Without a network, the message lists
    the files, their repository and their places.

    \b
    Examples:
      python cli.py suites fetch geneval2
      python cli.py suites fetch tiif --out tiif_data
      python cli.py suites fetch qwen-image-bench --include 'images/gpt-image-2/*'
      python cli.py suites fetch lpg-bench
    """
    from titjudge.suites.official_files import fetch_suite

    folder = out or Path(suite.rpartition("/")[2])
    count = fetch_suite(suite, folder, say, include=include, revision=revision)
    say(f"{count:,} files downloaded into {folder}")
    return 0


@click.group(cls=Group, default="list", alone=True)
def templates() -> None:
    """List the prompt templates, or show one.

    \b
    Examples:
      python cli.py templates
      python cli.py templates show tit/compare
    """


@templates.command("list")
@click.argument("folder", type=PATH, required=False)
def list_templates(folder: Path | None) -> int:
    """List the prompt templates, with version, variables and source.

    Those in FOLDER replace the bundled ones of the same name.
    """
    from titjudge.core.prompts import PromptLibrary
    from titjudge.core.types import Table

    library = PromptLibrary(folder)
    prompts = map(library.get, library.names())
    rows = tuple((p.name, p.version, ", ".join(sorted(p.variables)), p.source, p.sha256[:16]) for p in prompts)
    show_tables([Table("prompts", ("prompt", "version", "variables", "source", "sha256"), rows, declared=FACTS)])
    return 0


@templates.command()
@click.argument("name", shell_complete=completer("prompts"))
@click.argument("folder", type=PATH, required=False)
def show(name: str, folder: Path | None) -> int:
    """Show the file of a prompt template.

    It is the one in FOLDER, or the bundled one.
    """
    from titjudge.core.prompts import PromptLibrary

    library = PromptLibrary(folder)
    library.get(name)
    file = next(file for root in library.roots if (file := root / f"{name}.md").is_file())
    say(file.read_text(encoding="utf-8"), nl=False)
    return 0


@click.group(cls=Group)
def cache() -> None:
    """Show or clear the cache: answers, embeddings and image checks, kept on disk so that nothing is paid twice.

    \b
    Examples:
      python cli.py cache stats
      python cli.py cache clear --yes
    """


@cache.command()
@click.argument("folder", type=PATH, required=False)
@JSON
def stats(folder: Path | None, json_file: Path | None) -> int:
    """Show the folder of the cache, its size and entries.

    Without FOLDER it is the folder $TITJUDGE_CACHE, or cache/.
    """
    from titjudge.core.types import Table
    from titjudge.engine.cache import open_cache

    with open_cache(folder) as opened:
        kinds = Counter(key.partition(":")[0] for key in opened.keys())  # noqa: SIM118
        size = opened.size()
        names = {"ask": "answers", "embed": "embeddings", "image": "image verdicts"}
        rows = tuple((names.get(kind, kind), count) for kind, count in sorted(kinds.items()))
        notes = (Note("size_on_disk", f"{size / 2**20:.1f} MiB on disk"), *opened.warnings)
        table = Table(f"cache {opened.folder}", ("kind", "entries"), rows, notes, declared=FACTS)
        show_results([table], {"folder": str(opened.folder), "bytes": size, "entries": dict(kinds)}, json_file)
    return 0


@cache.command()
@click.argument("folder", type=PATH, required=False)
@options("yes")
def clear(folder: Path | None, yes: bool) -> int:
    """Delete all entries. Answers that were paid for are lost."""
    from titjudge.engine.cache import open_cache

    with open_cache(folder) as opened:
        if not yes:
            click.confirm(f"Forget {len(opened)} entries in {opened.folder}?", abort=True)
        say(f"{opened.clear()} entries forgotten")
    return 0
