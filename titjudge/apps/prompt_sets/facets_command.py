"""`prompts facets`: let a judge name the facets of the checklist that each prompt tests."""

from __future__ import annotations

from pathlib import Path

import click

from titjudge.cli.commands import Command
from titjudge.cli.judge import run_prompts
from titjudge.cli.option_table import PATH
from titjudge.cli.options import JSON, RunKeys, configured, model_options, options
from titjudge.cli.output import check_writable
from titjudge.cli.terminal import say
from titjudge.core.errors import UserError


@click.command(cls=Command, resumed=True, short_help="Let a judge name the facets that each prompt tests.")
@click.argument("data", type=PATH)
@options("out")
@model_options
@options("limit", "retry_failed", "dry_run")
@JSON
@configured
def facets(keys: RunKeys, data: Path, out: Path | None, dry_run: bool, json_file: Path | None) -> int:
    """Let a judge name the facets of the Qwen-Image-Bench rubric that each prompt tests.

    DATA is a data folder, or a list of prompts as FILE or FILE:ID,PROMPT with two columns. Without --out the facets are
    written into facets.jsonl of the data folder. It asks one question for each prompt. `judge --metric checklist` looks the prompt up in facets.jsonl of the data folder
    and then asks only about the pillars of its facets, and the strict protocol counts only these facets; without the file
    it asks about all five pillars. An answer that names fewer than three facets, or one that is not in the rubric, is
    rejected.

    \b
    Examples:
      python cli.py prompts facets my_images --dry-run \\
        --judge openai/gpt-6-luna
      python cli.py prompts facets my_images --max-cost 1 \\
        --judge openai/gpt-6-luna
      python cli.py prompts facets prompts.csv:id,text --out facets.jsonl \\
        --judge openai/gpt-6-luna
    """
    from titjudge.apps.prompt_sets.make import prompt_lines, write_prompt_lines
    from titjudge.suites.prompt_list import split_columns

    data, columns = split_columns(str(data))
    if out is None:
        if not data.exists():
            raise UserError(f"{data}: no such file or folder. Give a list of prompts or a data folder")
        if not data.is_dir():
            raise UserError(f"{data} is a list of prompts, so a file is required for the facets. Add --out FILE")
        out = data / "facets.jsonl"
    check_writable(out, data, data / "prompts.jsonl", data / "images.jsonl")
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
        say(f"facets {len(lines):,} prompts in {write_prompt_lines(lines, out, complete=complete)}")
    return code
