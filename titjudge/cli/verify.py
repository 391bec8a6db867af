"""`verify`: recompute a run from its stored answers."""

from __future__ import annotations

from pathlib import Path

import click

from titjudge.cli.commands import Command
from titjudge.cli.options import JSON, PATH
from titjudge.cli.output import show_notes, write_json
from titjudge.cli.terminal import say


@click.command(cls=Command)
@click.argument("run", type=PATH)
@JSON
def verify(run: Path, json_file: Path | None) -> int:
    """Recompute every number of a run from its stored answers, and compare. No model is asked, nothing is written.

    Checks image hashes, prompt templates, every score and every table cell. The exit code is 1 if something differs; the
    first item and the first cell that differ are named.

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
        say(f"{run} holds")
        return 0
    item, cell = verdict.first_item, verdict.first_cell
    if item:
        say(f"first item that does not hold: {item.item}: {item}")
    if cell:
        say(f"first cell that does not hold: {cell}")
    others = [problem for problem in verdict.problems if problem not in (item, cell) and problem.kind != "table"]
    for problem in others[:20]:
        say(f"  {problem.kind}: {problem}")
    if not cell:
        say("every table cell holds: none depends on what changed")
    wrong = verdict.to_json()["wrong"]
    say(f"{run} does not hold: " + ", ".join(f"{kind} {count:,}" for kind, count in wrong.items()))
    return 1
