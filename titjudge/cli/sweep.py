"""`sweep`: judge the same data with every combination of models and prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from titjudge.cli.commands import Command
from titjudge.cli.judge import exit_code, how_to_resume
from titjudge.cli.option_table import PATH
from titjudge.cli.options import EXPLAIN, JSON, RunKeys, configured, options
from titjudge.cli.output import declared, show_results, show_tables, write_json
from titjudge.cli.terminal import say
from titjudge.core.numbers import sum_words
from titjudge.core.types import Note


@click.command(cls=Command, resumed=True)
@click.argument("file", type=PATH)
@options("data", "out", "limit", "max_cost", "settings", "dry_run")
@EXPLAIN
@JSON
@configured
def sweep(keys: RunKeys, file: Path, dry_run: bool, json_file: Path | None) -> int:
    """Run every combination of the captioners, embedders, judges and prompts of a YAML file over the same data.

    All combinations share one cache and one cap. The run folders are in --out, or in runs/NAME-OF-FILE. The table at the end gives accuracy with its interval and the chance threshold,
    the difference of each row to the best, and price per 1,000 images. A wide terminal and the page sweep.html also show time,
    refusals, ties, SRCC, KRCC and nDCG.

    \b
    Examples:
      python cli.py sweep sweep.yaml --dry-run
      python cli.py sweep sweep.yaml --max-cost 20 --json sweep.json
    \b
    sweep.yaml:
      data: my_images
      captioners: [openai/gpt-6-luna, gemini/gemini-3.8-flash]
      judges: [openai/gpt-6-luna, gemini/gemini-3.8-flash]
      metrics: [tit, tit-llm]
    """
    from titjudge.cli.progress import watcher
    from titjudge.runs.study.sweep import PAGE, Sweep

    overrides = keys.settings() | {"data": keys["data"] and str(keys["data"]), "limit": keys["limit"]}
    if keys["max_cost"] is not None:
        overrides["limits"] = {**overrides.get("limits", {}), "max_cost": keys["max_cost"]}
    plan = Sweep(file, keys["out"], overrides)
    if dry_run:
        return _dry_run(plan, json_file)
    outcome = plan.run(lambda config: watcher(config.limits.max_cost), say)
    show_tables([outcome.table(), *outcome.matrix()])
    say(f"\nspent {sum_words(outcome.spent, outcome.unpriced, f'${outcome.spent:.4f}')}")
    if outcome.status != "complete":
        say(how_to_resume(outcome.status))
    say(f"runs   {outcome.folder}")
    if outcome.outcomes:
        say(f"page   {outcome.folder / PAGE}")
    write_json(json_file, declared(outcome.to_json(), [outcome.table(), *outcome.matrix()]))
    return exit_code(outcome.status)


def _dry_run(plan: Any, json_file: Path | None) -> int:
    """Print what every combination would cost; returns the exit code."""
    from dataclasses import replace

    from titjudge.core.types import Table

    forecasts = plan.dry_run()
    for line in forecasts[0][1].lines() if forecasts else ():  # the data are the same for all
        say(line)
    rows, stored = [], []
    for combination, forecast in forecasts:
        requests = sum(role.requests for role in forecast.roles.values())
        rows.append((combination.folder, forecast.items, requests, *(forecast.total or (None, None, None))))
        stored.append({"run": combination.folder, **forecast.to_json()})
    from titjudge.engine.forecast import FORECAST

    line = (
        "list price in USD at p10, p50, p90; requests shared by several combinations are counted in each and paid once"
    )
    notes = (Note("about_sweep_forecast", line),)
    columns = ("run", "items", "requests", "p10", "p50", "p90")
    table = Table("Dry run", columns, tuple(rows), notes, declared=replace(FORECAST, counts="items"), keys=columns)
    show_results([table], {"dry_run": True, "combinations": stored}, json_file)
    return 0
