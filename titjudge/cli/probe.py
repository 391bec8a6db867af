"""`probe judge`: test a judge, and print its trust card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from titjudge.cli import BUDGET_REACHED
from titjudge.cli.commands import Group
from titjudge.cli.options import JSON, RunKeys, configured, model_options, options
from titjudge.cli.output import show_tables, write_json
from titjudge.cli.terminal import say


@click.group(cls=Group, default="judge", alone=True, resumed=True)
def probe() -> None:
    """Test a judge on known errors (`probe --judge MODEL`), or make test images with known errors.

    \b
    Examples:
      python cli.py probe --provider openai --dry-run
      python cli.py probe --provider openai --max-cost 10
      python cli.py probe images --scenes 20 --seed 1 --out my_answers
    """


@probe.command(short_help="Test a judge, and print its trust card.")
@options("data", "metric")
@model_options
@options(repeats=3, errors=6, out=None, dry_run=None)
@JSON
@configured
def judge(keys: RunKeys, metric: str | None, repeats: int, errors: int, dry_run: bool, json_file: Path | None) -> int:
    """Test a judge on known errors, planted errors, prompt injection and harmless changes, and print its trust card.

    Each line of the card has an effect, an interval, a p-value and a verdict: pass, caught, or not enough data (with the
    number of prompts it would take; 12 catch a judge that is blind to a kind of error, or to the end of a prompt). With several judges each gets a card, and judges of different families describe the
    images and judge each other's descriptions (self-preference). Takes about 1,000 scores, 600 with --errors 2; answers are
    cached, so running it again costs nothing.

    \b
    Examples:
      python cli.py probe --provider openai --dry-run
      python cli.py probe --provider openai --max-cost 10
      two cards, with self-preference:
      python cli.py probe --judge openai/gpt-6-luna --judge openai/gpt-6.1-sol
      recorded descriptions, so that no image is sent:
      python cli.py probe --judge gemini/gemini-3.8-flash
      python cli.py probe --metric lmm-critique --provider gemini --errors 2
      no key, no network:
      python cli.py probe --metric tit
    """
    from titjudge.runs.folder.run_folder import rest_of_caps
    from titjudge.runs.probe_run import dry_run as plan
    from titjudge.runs.probe_run import probe_folder, run_probe

    config = keys.config()
    metric = metric or (config.metrics[0] if config.metrics else "tit-llm" if config.judge else "lmm-critique")
    config = keys.config(metrics=[metric])
    judges = [config.judge, *config.panel]
    configs = []
    for number, judge in enumerate(judges, 1):
        changes: dict[str, Any] = {"judge": judge, "panel": []}
        if config.panel and config.out is not None:
            changes["out"] = config.out / f"judge-{number}"
        configs.append(config.model_copy(update=changes))
    folders = [probe_folder(judge_config) for judge_config in configs]
    records, incomplete = [], False
    for number, (judge, judge_config) in enumerate(zip(judges, configs, strict=True)):
        limits = rest_of_caps(config.limits, folders[:number] + folders[number + 1 :])
        judge_config = judge_config.model_copy(update={"limits": limits})
        rivals = [rival for rival in judges if rival is not None and rival is not judge]
        amounts: dict[str, Any] = {"repeats": repeats, "edits": errors, "rivals": rivals}
        if dry_run:
            forecast = plan(judge_config, **amounts)
            show_tables([forecast.table()])
            records.append(forecast.to_json())
            continue
        card, folder = run_probe(judge_config, **amounts, say=lambda line: say(line, err=True))
        show_tables([card.table()])
        say(f"card {folder / 'card.json'}")
        records.append(card.to_json())
        incomplete |= bool(card.notes)
    write_json(json_file, records[0] if len(records) == 1 else records)
    return BUDGET_REACHED if incomplete else 0
