"""`export`: write finished runs as training data."""

from __future__ import annotations

from pathlib import Path

import click

from titjudge.cli.commands import Group
from titjudge.cli.options import PATH, option
from titjudge.cli.output import check_writable
from titjudge.cli.terminal import say
from titjudge.core.errors import ConfigError, UserError, not_combined

_SHOWN = 20  # left-out answers that are printed
_METRIC = option("--metric", "The metric of the run; needed if it has several.", "NAME")


@click.group(cls=Group)
def export() -> None:
    """Write finished runs as training data for judges and generators, or split such data by prompt.

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
    "--format",
    "ms-swift, llama-factory (its sharegpt form) or trl.",
    name="form",
    type=click.Choice(["ms-swift", "llama-factory", "trl"]),
    default="ms-swift",
)
@option("--template", "Only the answers to this prompt template.", "NAME", default="")
@option(
    "--human", "Write people's marks of facets (elements.csv of label export) in place of the judge's answers.", "FILE"
)
@option("-o", "The file to write.", "FILE", name="output", required=True)
def sft(run: Path, metric: str | None, form: str, template: str, human: Path | None, output: Path) -> int:
    """Write every answer behind a score of the run as a conversation (image, question, answer, score), to train a judge.

    With --human, the answers are people's marks of the facets of Qwen-Image-Bench, with the votes for each mark.

    Answers are, by metric, the pillars of the checklist, the chain of thought of LongT2IBench (run with --protocol
    official), descriptions or ratings. Each line has messages, images (absolute paths), score, prompt_id and provenance.
    The file for llama-factory is one JSON list, with the entry for its dataset_info.json beside it.

    \b
    Examples:
      python cli.py export sft runs/mine --metric checklist -o sft.jsonl
      python cli.py export sft runs/mine --metric tit --template tit/describe \\
        --format trl -o captions.jsonl
    """
    from titjudge.apps.training.files import people_lines, sft_lines, write_llama_factory
    from titjudge.core.files import write_jsonl

    if human is not None and (metric or template):
        raise ConfigError(not_combined("--human", "--metric" if metric else "--template"))
    lines, left_out = people_lines(run, human, form) if human else sft_lines(run, metric, form, template)
    for line in left_out[:_SHOWN]:
        say(f"  left out: {line}", err=True)
    if len(left_out) > _SHOWN:
        say(f"  ... and {len(left_out) - _SHOWN:,} more", err=True)
    if form == "llama-factory":
        write_llama_factory({output: lines})
    else:
        write_jsonl(output, lines)
    say(f"{len(lines):,} conversations in {output}")
    return 0


@export.command(short_help="Write pairs of images, the better one chosen.")
@click.argument("run", type=PATH)
@_METRIC
@option("--margin", "Smallest difference of the two scores.", "M", type=click.FloatRange(min=0), default=0.0)
@option("--agree", "Another metric of the run that must prefer the same image; repeatable.", "NAME", multiple=True)
@option("--pairs", "Human pairs: keep only pairs in which people prefer the same image.", "FILE")
@option(
    "--format",
    "jsonl: prompt, chosen, rejected; pick-a-pic: a parquet table (jpg_0, jpg_1, label_0, caption) for Diffusion-DPO; paths: a JSON "
    "list (prompt, path1, path2) for reward models.",
    name="form",
    type=click.Choice(["jsonl", "pick-a-pic", "paths"]),
    default="jsonl",
)
@option("-o", "The file to write.", "FILE", name="output", required=True)
def preferences(
    run: Path, metric: str | None, margin: float, agree: tuple[str, ...], pairs: Path | None, form: str, output: Path
) -> int:
    """Write pairs of images of one prompt, the better one chosen, for DPO and reward models.

    Equal scores make no pair. With --agree or --pairs, a pair is dropped if that metric or people do not prefer the same
    image. Each line has prompt, chosen and rejected (absolute paths), margin and scores.

    \b
    Examples:
      python cli.py export preferences runs/mine --metric tit \\
        --margin 0.05 -o pairs.jsonl
      python cli.py export preferences runs/mine --metric tit-llm \\
        --agree tit --pairs my_images/pairs.jsonl -o trusted.jsonl
      python cli.py export preferences runs/mine --metric tit \\
        --format pick-a-pic -o pairs.parquet
    """
    from titjudge.apps.training.files import preferences as preference_lines
    from titjudge.apps.training.files import write_preferences

    check_writable(output, pairs)
    lines, dropped = preference_lines(run, metric, margin=margin, agree=agree, people=pairs)
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items() if count)
    if not lines:
        raise UserError(
            f"{run}: no pair is left ({reasons or 'no two images of one prompt have scores'}). Judge more images"
        )
    write_preferences(lines, form, output)
    say(f"{len(lines):,} pairs in {output}{f'; dropped: {reasons}' if reasons else ''}")
    return 0


@export.command(short_help="Split lines into train, val and test by prompt.")
@click.argument("table", type=PATH)
@option("--val", "Share of the prompts for validation.", "SHARE", type=click.FloatRange(0, 1), default=0.1)
@option("--test", "Share of the prompts for testing.", "SHARE", type=click.FloatRange(0, 1), default=0.1)
@option("--seed", "Seed of the random split.", "N", default=0)
@option(
    "--even-words",
    "Split each word-count interval of LongT2IBench (30, 50, 70, 90, 110) by these shares.",
    is_flag=True,
)
@option("--out", "A folder for train.jsonl, val.jsonl and test.jsonl (.json, of a JSON list).", "DIR", required=True)
def split(table: Path, val: float, test: float, seed: int, even_words: bool, out: Path) -> int:
    """Split JSON lines, CSV or a JSON list into train, val and test, so that no prompt is in two parts.

    Rows with the same prompt_id, the same prompt text, or the same pair (short and long versions) stay together. The JSON
    list of llama-factory becomes train.json, val.json, test.json and their dataset_info.json.

    \b
    Example:
      python cli.py export split sft.jsonl --val 0.1 --test 0.1 --out parts
    """
    from titjudge.apps.training.files import is_json_list
    from titjudge.apps.training.files import split as split_file

    shares = {"train": 1 - val - test, "val": val, "test": test}
    for name in shares:
        check_writable(out / f"{name}.json{'' if is_json_list(table) else 'l'}", table)
    counts = split_file(table, shares, seed, out, even_words=even_words)
    say(f"{', '.join(f'{count:,} {name}' for name, count in counts.items())} in {out}")
    return 0
