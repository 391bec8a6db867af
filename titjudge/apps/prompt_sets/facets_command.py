"""`prompts facets`: let a judge name the facets of the checklist that each prompt tests."""

from __future__ import annotations

from pathlib import Path

import click

from titjudge.cli.commands import Command
from titjudge.cli.judge import run_prompts
from titjudge.cli.options import (
    DRY_RUN,
    JSON,
    PATH,
    PROMPT_COLUMNS,
    RunKeys,
    configured,
    key_option,
    key_options,
    model_options,
    option,
)
from titjudge.cli.output import check_writable
from titjudge.cli.terminal import say
from titjudge.core.errors import UserError


@click.command(cls=Command, resumed=True, short_help="Let a judge name the facets that each prompt tests.")
@option(
    "--data", "A data folder, or a list of prompts (.jsonl, .csv, .parquet, .txt).", "DATA", type=PATH, required=True
)
@PROMPT_COLUMNS
@option("-o", "The file to write  [default: facets.jsonl in the data folder].", "FILE", name="output")
@model_options
@key_option("limit", "N", help="Only the first N prompts.")
@key_options(max_requests="N", out="DIR", retry_failed=None)
@DRY_RUN
@JSON
@configured
def facets(keys: RunKeys, data: Path, columns: str, output: Path | None, dry_run: bool, json_file: Path | None) -> int:
    """Let a judge name the facets of the Qwen-Image-Bench rubric that each prompt tests.

    It asks one question for each prompt. `judge --metric checklist` looks the prompt up in facets.jsonl of the data folder
    and then asks only about the pillars of its facets, and the strict protocol counts only these facets; without the file
    it asks about all five pillars. An answer that names fewer than three facets, or one that is not in the rubric, is
    rejected.

    \b
    Examples:
      python cli.py prompts facets --data my_images --dry-run \\
        --judge openai/gpt-6-luna
      python cli.py prompts facets --data my_images --max-cost 1 \\
        --judge openai/gpt-6-luna
      python cli.py prompts facets --data prompts.csv --columns id,text \\
        --judge openai/gpt-6-luna -o facets.jsonl
    """
    from titjudge.apps.prompt_sets.make import prompt_lines, write_prompt_lines

    if output is None:
        if not data.exists():
            raise UserError(f"{data}: no such file or folder. Give a list of prompts or a data folder")
        if not data.is_dir():
            raise UserError(f"{data} is a list of prompts, so -o FILE is required for the facets. Add -o FILE")
        output = data / "facets.jsonl"
    check_writable(output, data, data / "prompts.jsonl", data / "images.jsonl")
    code, run, complete = run_prompts(
        keys,
        json_file,
        dry_run=dry_run,
        data=data,
        suite="prompts",
        metrics=["facet-map"],
        suite_options={"columns": columns} if columns else None,
    )
    if run is not None:
        lines = list(prompt_lines(run, "facet-map"))
        say(f"facets {len(lines):,} prompts in {write_prompt_lines(lines, output, complete=complete)}")
    return code
