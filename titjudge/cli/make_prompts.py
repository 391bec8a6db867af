"""`make-prompts`: sets of prompts after the papers' recipes, each prompt checked."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click

from titjudge.cli.options import JSON, PATH, key_option, model_options, option
from titjudge.cli.terminal import say


@click.command()
@option(
    "--recipe",
    "six-block: long prompts of LPG-Bench. tiif: short and long, with questions. facets: bilingual, short and long, with facets of "
    "Qwen-Image-Bench. long-graph: by length, with graphs as LongT2IBench. elements: questions, facets and graphs for "
    "prompts that are there.",
    type=click.Choice(["six-block", "tiif", "facets", "long-graph", "elements"]),
    required=True,
)
@option(
    "--number",
    "How many prompts (of tiif and facets: pairs, short and long) to make.",
    "N",
    type=click.IntRange(min=1),
    default=20,
)
@option(
    "--themes",
    "Themes of your own for six-block (.txt, .csv, .jsonl), in the place of drawn ones; for elements the prompts.",
    "FILE",
    type=PATH,
)
@option("--seed", "Draws other seeds.", "N", type=int, default=0)
@option("-o", "Where the prompts go, as JSON lines.", "FILE", name="output", type=PATH, required=True)
@model_options
@key_option("max_requests", "N")
@key_option("out", "DIR")
@key_option("retry_failed")
@option("--dry-run", "Count requests and tokens and price them; send nothing.", is_flag=True)
@JSON
def make_prompts(**flags: Any) -> int:
    """Make a set of prompts with a language model (--judge), after the recipe of a paper.

    What a prompt starts from is drawn by lot, balanced, and written beside the result (FILE.seeds.jsonl). Each prompt is
    checked by code, and where the recipe has it by the model; one that fails is written again with what was wrong, at most
    three times, and then left out and named. Prompts that say the same as another (cosine .85) are left out. Every line
    has its checks, its model, the hashes of its templates and the seed. Answers are cached: the same command goes on where it
    stopped; until all are made, those that are there stand in FILE.part.jsonl.

    \b
    Examples:
      python cli.py make-prompts --recipe tiif --number 36 -o tiif.jsonl \\
        --judge openai/gpt-4o --dry-run
      python cli.py make-prompts --recipe six-block --themes themes.txt \\
        -o long.jsonl --judge gemini/gemini-2.5-pro --max-cost 2
    """
    from titjudge.cli.judge import run_prompts
    from titjudge.cli.options import overrides_of
    from titjudge.cli.output import check_writable
    from titjudge.core.config import load_config
    from titjudge.runs.prompt_lines import write_prompt_lines
    from titjudge.runs.prompt_recipes import balance, made_lines, write_seeds

    recipe, output = flags["recipe"], flags["output"]
    check_writable(output, flags["themes"])
    with tempfile.TemporaryDirectory() as aside:
        place = Path(aside) / "seeds.jsonl" if flags["dry_run"] else output.with_suffix(".seeds.jsonl")
        drawn = write_seeds(recipe, flags["number"], flags["seed"], flags["themes"], place)
        code, run, whole = run_prompts(flags, {"data": str(place), "suite": "prompts", "metrics": [recipe]})
    if run is None:
        return code
    config = load_config(flags["config_file"], overrides_of(flags))
    lines, alike = made_lines(run, recipe, config, None if flags["themes"] else flags["seed"])
    for each in alike:
        say(f"  {each.prompt}: left out, it says the same as {each.other} (cosine {each.cosine:.2f})", err=True)
    if covered := balance(recipe, lines):
        say(f"balance {covered}")
    say(f"prompts {len(lines):,} of {len(drawn):,} seeds in {write_prompt_lines(lines, output, whole=whole)}")
    return code
