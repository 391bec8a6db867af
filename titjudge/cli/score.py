"""`score`: score images against one prompt."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from titjudge.cli import BUDGET_REACHED
from titjudge.cli.commands import Command
from titjudge.cli.option_table import PATH
from titjudge.cli.options import JSON, RunKeys, configured, model_options, options
from titjudge.cli.output import show_results
from titjudge.core.declarations import Declaration, Population, Unit
from titjudge.core.errors import UserError

SINGLE = Declaration("score", "scores of one image", Population.SCORED_IMAGES, Unit.IMAGE)


@click.command(cls=Command, resumed=True)
@click.argument("images", nargs=-1, required=True, type=PATH)
@options(prompt=..., metrics=None)
@model_options
@JSON
@configured
def score(
    keys: RunKeys,
    images: tuple[Path, ...],
    prompt: str,
    metrics: tuple[str, ...],
    json_file: Path | None,
) -> int:
    """Score images against one prompt.

    Without --metric it is tit, or tit-llm with a judge.

    \b
    Examples:
      python cli.py score --prompt "a red cube" --provider openai a.png b.png
      python cli.py score --prompt - --provider gemini a.png < prompt.txt
    """
    from titjudge.core.types import Table
    from titjudge.runs.api.judge import Judge

    if prompt == "-":
        try:
            prompt = sys.stdin.buffer.read().decode("utf-8-sig").strip()
        except UnicodeDecodeError as error:
            raise UserError("the prompt on standard input must be UTF-8. Save it as UTF-8") from error
    if not prompt.strip():
        raise UserError("the prompt is empty. Write it into --prompt TEXT")
    config = keys.config()
    names = list(dict.fromkeys(metrics)) or ["tit-llm" if config.judge else "tit"]
    with Judge.from_config(config, names) as judge:
        scores = judge.score_many([(image, prompt) for image in images])
    tables = [
        Table(
            name,
            ("image", "score", "status", "reason"),
            tuple((s.item_id, s.value, str(s.status), s.reason) for s in scores if s.metric == name),
            declared=SINGLE.over(sum(s.metric == name and s.value is not None for s in scores)),
        )
        for name in names
    ]
    single = {"metric": names[0]} if len(names) == 1 else {"metrics": names}
    show_results(tables, {**single, "scores": scores.to_records()}, json_file)
    if any(score.status == "budget" for score in scores):
        return BUDGET_REACHED
    return 0 if any(score.value is not None for score in scores) else 1
