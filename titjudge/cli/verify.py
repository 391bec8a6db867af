"""`verify`: does a run hold?"""

from __future__ import annotations

from pathlib import Path

import click

from titjudge.cli.options import JSON, PATH
from titjudge.cli.terminal import say


@click.command()
@click.argument("run", type=PATH)
@JSON
def verify(run: Path, json_file: Path | None) -> int:
    """Compute every number of a run again from its stored answers, and compare. Nothing is asked, nothing is written.

    Checks image hashes, prompt templates, every score and every table cell. Exit code 1 when something does not
    hold; the first item and the first cell are named.

    \b
    Examples:
      python cli.py verify runs/first
      python cli.py verify runs/first --json verified.json
    """
    from titjudge.cli.output import show_notes, write_json
    from titjudge.runs.verify import verify as check

    found = check(run)
    counts = ", ".join(f"{count:,} {name}" for name, count in found.checked.items())
    say(f"checked {counts}")
    show_notes(found.notes)
    write_json(json_file, found.to_json())
    if found.holds:
        say(f"{run} holds")
        return 0
    item, cell = found.first_item, found.first_cell
    if item:
        say(f"first item that does not hold: {item.item}: {item}")
    if cell:
        say(f"first cell that does not hold: {cell}")
    for problem in [each for each in found.problems if each not in (item, cell) and each.kind != "table"][:20]:
        say(f"  {problem.kind}: {problem}")
    if not cell:
        say("every table cell holds: none depends on what changed")
    wrong = found.to_json()["wrong"]
    say(f"{run} does not hold: " + ", ".join(f"{kind} {count:,}" for kind, count in wrong.items()))
    return 1
