"""`merge`: join the run folders of shards; `verify`: recompute the content of a run."""

from __future__ import annotations

from pathlib import Path

import click

from titjudge.cli.commands import Command
from titjudge.cli.judge import results_json, without_score
from titjudge.cli.option_table import PATH
from titjudge.cli.options import EXPLAIN, JSON, options
from titjudge.cli.output import show_notes, show_places, show_tables, write_json
from titjudge.cli.terminal import say


@click.command(cls=Command)
@click.argument("runs", nargs=-1, required=True, type=PATH)
@options(out=..., pairs=None, report=True)
@EXPLAIN
@JSON
def merge(runs: tuple[Path, ...], out: Path, pairs: Path | None, report: bool, json_file: Path | None) -> int:
    """Join the shards of a run (made with `judge --shard`) into one run folder with tables and report.

    Runs with different configurations are refused. The merged run can be resumed, compared and verified like any other. Above
    100,000 images the report is left to `report --format folder`.

    \b
    Examples:
      python cli.py judge --provider openai --shard 1/2 --out runs/one
      python cli.py judge --provider openai --shard 2/2 --out runs/two
      python cli.py merge runs/one runs/two --out runs/both
    """
    from titjudge.runs.check.merge import merge as join
    from titjudge.suites.base import Notes
    from titjudge.suites.pair_files import read_pairs

    notes = Notes()
    outcome = join(runs, out, pairs=read_pairs(pairs, notes=notes) if pairs else None, report=report)
    show_notes(notes)
    show_tables(outcome.tables)
    show_notes(outcome.warnings, outcome.tables)
    if outcome.failures:
        say(f"\n{without_score(outcome)}; all in results.json", err=True)
    if outcome.status != "complete":
        say(f"\n{outcome.status}")
    show_places(outcome)
    write_json(json_file, results_json(outcome))
    return 0 if outcome.status == "complete" else 1


@click.command(cls=Command)
@click.argument("run", type=PATH)
@JSON
def verify(run: Path, json_file: Path | None) -> int:
    """Recompute every number of a run from its stored answers, and compare. No model is asked, nothing is written.

    Checks image hashes, prompt templates, every score and every table cell. The exit code is 1 if something differs. The
    first item and the first cell that differ are printed.

    \b
    Examples:
      python cli.py verify runs/first
      python cli.py verify runs/first --json verified.json
    """
    from titjudge.runs.check.verify import verify as check

    verdict = check(run)
    say(f"checked {', '.join(f'{count:,} {name}' for name, count in verdict.checked.items())}")
    show_notes(verdict.notes)
    write_json(json_file, verdict.to_json())
    if verdict.holds:
        say(f"{run}: verified")
        return 0
    item, cell = verdict.first_item, verdict.first_cell
    if item:
        say(f"first item that differs: {item.item}: {item}")
    if cell:
        say(f"first cell that differs: {cell}")
    others = [problem for problem in verdict.problems if problem not in (item, cell) and problem.kind != "table"]
    for problem in others[:20]:
        say(f"  {problem.kind}: {problem}")
    if not cell:
        say("no table cell differs")
    wrong = verdict.to_json()["wrong"]
    say(f"{run} differs from its stored answers: " + ", ".join(f"{kind} {count:,}" for kind, count in wrong.items()))
    return 1
