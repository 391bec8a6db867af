"""`export`: finished runs as training data."""

from __future__ import annotations

from pathlib import Path

import click

from titjudge.cli.options import PATH, option
from titjudge.cli.terminal import say

_METRIC = option("--metric", "The metric of the run; needed where it has several.", "NAME")


@click.group()
def export() -> None:
    """Write finished runs as data to train judges and generators with, or split such data by prompt.

    \b
    Examples:
      python cli.py export sft runs/mine --format ms-swift -o sft.jsonl
      python cli.py export preferences runs/mine --margin 5 -o pairs.jsonl
      python cli.py export split sft.jsonl --val 0.1 --test 0.1 --out parts
    """


@export.command(short_help="Write the judge's answers as conversations.")
@click.argument("run", type=PATH)
@_METRIC
@option(
    "--format", "ms-swift, llama-factory (its sharegpt form) or trl.", name="form",
    type=click.Choice(["ms-swift", "llama-factory", "trl"]), default="ms-swift",
)  # fmt: skip
@option("--template", "Only answers to this prompt template.", "NAME", default="")
@option("-o", "The file to write.", "FILE", name="output", type=PATH, required=True)
def sft(run: Path, metric: str | None, form: str, template: str, output: Path) -> int:
    """Write every answer that a score of the run rests on as a conversation: image, question, answer, score.

    What is learnt is the judge: the pillars of the checklist, the chain of thought of LongT2IBench (run with --protocol
    official), descriptions, ratings. JSON lines with messages, images (absolute paths), score, prompt_id and provenance;
    llama-factory's file is one JSON list, with the entry for its dataset_info.json beside it.

    \b
    Examples:
      python cli.py export sft runs/mine --metric checklist -o sft.jsonl
      python cli.py export sft runs/mine --metric tit --template tit/describe \\
        --format trl -o captions.jsonl
    """
    from titjudge.runs.training_files import sft_lines, write_lines, write_llama_factory

    lines, left = sft_lines(run, metric, form, template)
    for line in left[:20]:
        say(f"  left out: {line}", err=True)
    if len(left) > 20:
        say(f"  ... and {len(left) - 20:,} more", err=True)
    if form == "llama-factory":
        write_llama_factory({output: lines})
    else:
        write_lines(lines, output)
    say(f"{len(lines):,} conversations in {output}")
    return 0


@export.command(short_help="Write pairs of images, the better one chosen.")
@click.argument("run", type=PATH)
@_METRIC
@option("--margin", "How far apart the two scores are at least.", "M", type=click.FloatRange(min=0), default=0.0)
@option(
    "--agree", "A further metric of the run that must order the pair the same way; repeatable.", "NAME", multiple=True
)
@option("--pairs", "People's pairs: only those that people have ordered the same way.", "FILE", type=PATH)
@option("-o", "The file to write.", "FILE", name="output", type=PATH, required=True)
def preferences(
    run: Path, metric: str | None, margin: float, agree: tuple[str, ...], pairs: Path | None, output: Path
) -> int:
    """Write pairs of images of one prompt, the better one chosen: for DPO and for reward models.

    Equal scores make no pair. A pair that another metric (--agree) or people (--pairs) order otherwise is dropped: train
    only on what more than one judge says. JSON lines with prompt, chosen and rejected (absolute paths), margin and scores.

    \b
    Examples:
      python cli.py export preferences runs/mine --metric tit \\
        --margin 0.05 -o pairs.jsonl
      python cli.py export preferences runs/mine --metric tit-llm \\
        --agree tit --pairs my_images/pairs.jsonl -o trusted.jsonl
    """
    from titjudge.cli.output import check_writable
    from titjudge.core.errors import UserError
    from titjudge.runs.training_files import preferences as made
    from titjudge.runs.training_files import write_lines

    check_writable(output, pairs)
    lines, dropped = made(run, metric, margin=margin, agree=agree, people=pairs)
    said = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items() if count)
    if not lines:
        raise UserError(f"{run}: no pair is left ({said or 'no two images of one prompt have scores'})")
    write_lines(lines, output)
    say(f"{len(lines):,} pairs in {output}{f'; dropped: {said}' if said else ''}")
    return 0


@export.command(short_help="Split lines by prompt: no prompt in two parts.")
@click.argument("table", type=PATH)
@option("--val", "Share of the prompts for validation.", "SHARE", type=click.FloatRange(0, 1), default=0.1)
@option("--test", "Share of the prompts for the test.", "SHARE", type=click.FloatRange(0, 1), default=0.1)
@option("--seed", "Deals the prompts otherwise.", "N", type=int, default=0)
@option(
    "--out",
    "A folder for train.jsonl, val.jsonl and test.jsonl (.json, of a JSON list).",
    "DIR",
    type=PATH,
    required=True,
)
def split(table: Path, val: float, test: float, seed: int, out: Path) -> int:
    """Split JSON lines, CSV or a JSON list by prompt, so that no prompt stands in two parts.

    Rows with the same prompt_id, the same text of a prompt, or the same pair (short and long versions) stay together. The
    JSON list of llama-factory becomes train.json, val.json, test.json and their dataset_info.json.

    \b
    Example:
      python cli.py export split sft.jsonl --val 0.1 --test 0.1 --out parts
    """
    from titjudge.cli.output import check_writable
    from titjudge.runs.training_files import is_json_list
    from titjudge.runs.training_files import split as dealt

    shares = {"train": 1 - val - test, "val": val, "test": test}
    for name in shares:
        check_writable(out / f"{name}.json{'' if is_json_list(table) else 'l'}", table)
    counts = dealt(table, shares, seed, out)
    say(f"{', '.join(f'{count:,} {name}' for name, count in counts.items())} in {out}")
    return 0
