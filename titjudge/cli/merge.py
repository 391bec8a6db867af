"""`merge`: join the run folders of shards."""

from __future__ import annotations

from pathlib import Path

import click

from titjudge.cli.commands import Command
from titjudge.cli.judge import results_json, without_score
from titjudge.cli.options import EXPLAIN, JSON, PATH, option
from titjudge.cli.output import show_notes, show_places, show_tables, write_json
from titjudge.cli.terminal import say


@click.command(cls=Command)
@click.argument("runs", nargs=-1, required=True, type=PATH)
@option("--out", "The run folder to write.", "DIR", required=True)
@option("--pairs", "Human pairs (jsonl or csv)  [default: those of the runs].", "FILE")
@option("--report/--no-report", "Write report.html at the end.", default=True)
@EXPLAIN
@JSON
def merge(runs: tuple[Path, ...], out: Path, pairs: Path | None, report: bool, json_file: Path | None) -> int:
    """Join the shards of a run (made with `judge --shard`) into one run folder with tables and report.

    Runs with different configurations are refused. The merged run can be resumed, compared and verified like any other. Above
    100,000 images the report is left to `report --folder`.

    \b
    Examples:
      python cli.py judge --provider openai --shard 1/2 --out runs/one
      python cli.py judge --provider openai --shard 2/2 --out runs/two
      python cli.py merge runs/one runs/two --out runs/both
    """
    from titjudge.runs.check.merge import merge as join
    from titjudge.suites.pair_files import read_pairs

    notes: dict[str, None] = {}
    outcome = join(runs, out, pairs=read_pairs(pairs, notes=notes) if pairs else None, report=report)
    show_notes(notes)
    show_tables(outcome.tables)
    show_notes(outcome.warnings, outcome.tables)
    if outcome.failures:
        say(f"\n{without_score(outcome)}; all in results.json", err=True)
    if outcome.status != "complete":
        say(f"\n{outcome.status}")
    show_places(outcome)
    write_json(json_file, results_json(outcome.results))
    return 0 if outcome.status == "complete" else 1
