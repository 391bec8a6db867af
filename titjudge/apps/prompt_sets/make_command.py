"""`prompts make`: write prompts with a language model, by the recipe of a paper, and check each."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from titjudge.cli.commands import Command
from titjudge.cli.judge import run_prompts
from titjudge.cli.options import DRY_RUN, JSON, RunKeys, configured, key_options, model_options, option
from titjudge.cli.output import check_writable
from titjudge.cli.terminal import say


@click.command(cls=Command, resumed=True, short_help="Make a set of prompts with a language model.")
@option(
    "--recipe",
    "six-block: long prompts as in LPG-Bench. tiif: short and long ones, with questions. facets: bilingual, short and long "
    "ones, with facets of Qwen-Image-Bench. long-graph: of several lengths, with graphs as in LongT2IBench. elements: "
    "questions, facets and graphs for prompts that you have.",
    type=click.Choice(["six-block", "tiif", "facets", "long-graph", "elements"]),
    required=True,
)
@option(
    "--number",
    "How many prompts to make; with tiif and facets: pairs of a short and a long one.",
    "N",
    type=click.IntRange(min=1),
    default=20,
)
@option(
    "--themes",
    "Your own themes for six-block (.txt, .csv, .jsonl), instead of random ones; with elements: the prompts.",
    "FILE",
)
@option("--seed", "Seed of the random choices.", "N", default=0)
@option("-o", "The file to write (JSON lines).", "FILE", name="output", required=True)
@model_options
@key_options(max_requests="N", out="DIR", retry_failed=None)
@DRY_RUN
@JSON
@configured
def make(
    keys: RunKeys, recipe: str, number: int, themes: Path | None, output: Path, dry_run: bool, json_file: Path | None
) -> int:
    """Make a set of prompts with a language model (--judge), by the recipe of a paper.

    Balanced starting points are drawn at random and written to FILE.seeds.jsonl. Code checks each prompt, and the model also does
    if the recipe requires it. A prompt that fails is rewritten at most three times, and then skipped and reported. Near-duplicates
    (cosine of at least 0.85) are skipped. Every line lists its checks, model, template hashes and seed. To continue, run the
    command again: finished prompts are in FILE.part.jsonl until all are made.

    \b
    Examples:
      python cli.py prompts make --recipe tiif --number 36 -o tiif.jsonl \\
        --judge openai/gpt-6-luna --dry-run
      python cli.py prompts make --recipe six-block --themes themes.txt \\
        -o long.jsonl --judge gemini/gemini-3.8-flash --max-cost 2
    """
    from titjudge.apps.prompt_sets.make import balance, finished_lines, write_prompt_lines, write_seeds

    check_writable(output, themes)
    with tempfile.TemporaryDirectory() as temporary:
        seeds_file = Path(temporary) / "seeds.jsonl" if dry_run else output.with_suffix(".seeds.jsonl")
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
    say(f"prompts {len(lines):,} of {len(seeds):,} seeds in {write_prompt_lines(lines, output, complete=complete)}")
    return code
