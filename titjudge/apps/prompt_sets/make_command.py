"""`prompts make`: write prompts with a language model, by the recipe of a paper, and check each."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from titjudge.cli.commands import Command
from titjudge.cli.judge import run_prompts
from titjudge.cli.options import JSON, RunKeys, configured, model_options, options
from titjudge.cli.output import check_writable
from titjudge.cli.terminal import say


@click.command(cls=Command, resumed=True, short_help="Make a set of prompts with a language model.")
@options(recipe=..., number=20, themes=None, seed=0, out=...)
@model_options
@options("retry_failed", "dry_run")
@JSON
@configured
def make(
    keys: RunKeys, recipe: str, number: int, themes: Path | None, out: Path, dry_run: bool, json_file: Path | None
) -> int:
    """Make a set of prompts with a language model (--judge), by the recipe of a paper.

    Balanced starting points are drawn at random and written to FILE.seeds.jsonl. Code checks each prompt, and the model also does
    if the recipe requires it. A prompt that fails is rewritten at most three times, and then skipped and reported. Near-duplicates
    (cosine of at least 0.85) are skipped. Every line lists its checks, model, template hashes and seed. To continue, run the
    command again: finished prompts are in FILE.part.jsonl until all are made.

    \b
    Examples:
      python cli.py prompts make --recipe tiif --number 36 --out tiif.jsonl \\
        --judge openai/gpt-6-luna --dry-run
      python cli.py prompts make --recipe six-block --themes themes.txt \\
        --out long.jsonl --judge gemini/gemini-3.8-flash --max-cost 2
    """
    from titjudge.apps.prompt_sets.make import balance, finished_lines, write_prompt_lines, write_seeds

    check_writable(out, themes)
    with tempfile.TemporaryDirectory() as temporary:
        seeds_file = Path(temporary) / "seeds.jsonl" if dry_run else out.with_suffix(".seeds.jsonl")
        seeds = write_seeds(recipe, number, keys["seed"], themes, seeds_file)
        code, run, complete = run_prompts(
            keys, json_file, dry_run=dry_run, data=str(seeds_file), suite="prompts", metrics=[recipe]
        )
    if run is None:
        return code
    lines, alike = finished_lines(run, recipe, keys.config(), None if themes else keys["seed"])
    for pair in alike:
        say(f"  {pair.prompt}: skipped, near-duplicate of {pair.other} (cosine {pair.cosine:.2f})", err=True)
    if covered := balance(recipe, lines):
        say(f"balance {covered}")
    say(f"prompts {len(lines):,} of {len(seeds):,} seeds in {write_prompt_lines(lines, out, complete=complete)}")
    return code
