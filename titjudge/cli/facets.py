"""`facets`: which facets of the checklist a prompt puts to the test."""

from __future__ import annotations

from typing import Any

import click

from titjudge.cli.options import JSON, PATH, key_option, model_options, option
from titjudge.cli.terminal import say


@click.command()
@option(
    "--data", "A data folder, or a list of prompts (.jsonl, .csv, .parquet, .txt).", "DATA", type=PATH, required=True
)
@option("--columns", "The columns of a list of prompts, where they are not named as usual.", "ID,PROMPT", default="")
@option("-o", "Where the facets go  [default: facets.jsonl in the data folder].", "FILE", name="output", type=PATH)
@model_options
@key_option("limit", "N", help="Ask about the first N prompts only.")
@key_option("max_requests", "N")
@key_option("out", "DIR")
@key_option("retry_failed")
@option("--dry-run", "Count requests and tokens and price them; send nothing.", is_flag=True)
@JSON
def facets(**flags: Any) -> int:
    """Have a judge name the facets of the Qwen-Image-Bench rubric that each prompt puts to the test.

    One question a prompt. `judge --metric checklist` then asks about the pillars of these facets alone, and the strict
    protocol counts these facets alone; without them it asks about all five pillars. It reads facets.jsonl in the data
    folder by the text of the prompt. An answer with a facet that the rubric does not have, or with fewer than three, is
    no answer.

    \b
    Examples:
      python cli.py facets --data my_images --judge openai/gpt-4o --dry-run
      python cli.py facets --data my_images --judge openai/gpt-4o --max-cost 1
      python cli.py facets --data prompts.csv --columns id,text \\
        --judge openai/gpt-4o -o facets.jsonl
    """
    from titjudge.cli.judge import run_prompts
    from titjudge.cli.output import check_writable
    from titjudge.core.errors import UserError
    from titjudge.runs.prompt_lines import prompt_lines, write_prompt_lines

    data, output, columns = flags["data"], flags["output"], flags.pop("columns")
    if output is None:
        if not data.exists():
            raise UserError(f"{data}: no such file or folder")
        if not data.is_dir():
            raise UserError("give -o FILE: where the facets of a list of prompts go")
        output = data / "facets.jsonl"
    check_writable(output, data, data / "prompts.jsonl", data / "images.jsonl")
    task = {
        "suite": "prompts",
        "metrics": ["facet-map"],
        "suite_options": {"columns": columns} if columns else None,
    }
    code, run, whole = run_prompts(flags, task)
    if run is not None:
        lines = list(prompt_lines(run, "facet-map"))
        say(f"facets {len(lines):,} prompts in {write_prompt_lines(lines, output, whole=whole)}")
    return code
