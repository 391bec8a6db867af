"""`export`: write finished runs as training data."""

from __future__ import annotations

from pathlib import Path

import click

from titjudge.cli.commands import Group
from titjudge.cli.option_table import PATH
from titjudge.cli.options import options
from titjudge.cli.output import check_writable
from titjudge.cli.terminal import say
from titjudge.core.errors import ConfigError, UserError, must_be, not_combined

_SHOWN = 20  # left-out answers that are printed


@click.group(cls=Group)
def export() -> None:
    """Write finished runs as training data for judges and generators, or split such data by prompt.

    \b
    Examples:
      python cli.py export sft runs/mine --framework ms-swift --out sft.jsonl
      python cli.py export preferences runs/mine --difference 5 --out pairs.jsonl
      python cli.py export split sft.jsonl --val 0.1 --test 0.1 --out parts
    """


@export.command(short_help="Write the judge's answers as conversations.")
@click.argument("run", type=PATH)
@options("metric", framework="ms-swift", template="", human=None, out=...)
def sft(run: Path, metric: str | None, framework: str, template: str, human: Path | None, out: Path) -> int:
    """Write every answer behind a score of the run as a conversation (image, question, answer, score), to train a judge.

    With --human, the answers are people's marks of the facets of Qwen-Image-Bench, with the votes for each mark.

    Answers are, by metric, the pillars of the checklist, the chain of thought of LongT2IBench (run with --protocol
    official), descriptions or ratings. Each line has messages, images (absolute paths), score, prompt_id and provenance.
    A run with several metrics needs --metric. The file for llama-factory (its sharegpt form) is one JSON list, with the entry for its dataset_info.json beside it.

    \b
    Examples:
      python cli.py export sft runs/mine --metric checklist --out sft.jsonl
      python cli.py export sft runs/mine --metric tit --template tit/describe \\
        --framework trl --out captions.jsonl
    """
    from titjudge.apps.training.files import people_lines, sft_lines, write_llama_factory
    from titjudge.core.files import write_jsonl

    if human is not None and (metric or template):
        raise ConfigError(not_combined("--human", "--metric" if metric else "--template"))
    lines, left_out = people_lines(run, human, framework) if human else sft_lines(run, metric, framework, template)
    for line in left_out[:_SHOWN]:
        say(f"  left out: {line}", err=True)
    if len(left_out) > _SHOWN:
        say(f"  ... and {len(left_out) - _SHOWN:,} more", err=True)
    if framework == "llama-factory":
        write_llama_factory({out: lines})
    else:
        write_jsonl(out, lines)
    say(f"{len(lines):,} conversations in {out}")
    return 0


@export.command(short_help="Write pairs of images, the better one chosen.")
@click.argument("run", type=PATH)
@options("metric", "difference", "agree", "pairs", out=...)
def preferences(
    run: Path, metric: str | None, difference: float | None, agree: tuple[str, ...], pairs: Path | None, out: Path
) -> int:
    """Write pairs of images of one prompt, the better one chosen, for DPO and reward models.

    Equal scores make no pair. With --agree or --pairs, a pair is dropped if that metric or people do not prefer the same
    image. Each line has prompt, chosen and rejected (absolute paths), margin and scores. The ending of --out chooses the form:
    .parquet is a table (jpg_0, jpg_1, label_0, caption) for Diffusion-DPO as in Pick-a-Pic, .json a list (prompt, path1,
    path2) for reward models, .jsonl JSON lines. A run with several metrics needs --metric.

    \b
    Examples:
      python cli.py export preferences runs/mine --metric tit \\
        --difference 0.05 --out pairs.jsonl
      python cli.py export preferences runs/mine --metric tit-llm \\
        --agree tit --pairs my_images/pairs.jsonl --out trusted.jsonl
      python cli.py export preferences runs/mine --metric tit \\
        --out pairs.parquet
    """
    from titjudge.apps.training import files

    form = {".parquet": "pick-a-pic", ".json": "paths", ".jsonl": "jsonl"}.get(out.suffix)
    if form is None:
        raise ConfigError(must_be("--out", "a file that ends in .jsonl, .json or .parquet", str(out)))
    check_writable(out, pairs)
    lines, dropped = files.preferences(run, metric, margin=difference or 0.0, agree=agree, people=pairs)
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items() if count)
    if not lines:
        raise UserError(
            f"{run}: no pair is left ({reasons or 'no two images of one prompt have scores'}). Judge more images"
        )
    files.write_preferences(lines, form, out)
    say(f"{len(lines):,} pairs in {out}{f'; dropped: {reasons}' if reasons else ''}")
    return 0


@export.command(short_help="Split lines into train, val and test by prompt.")
@click.argument("table", type=PATH)
@options(val=0.1, test=0.1, seed=0, even_words=None, out=...)
def split(table: Path, val: float, test: float, seed: int, even_words: bool, out: Path) -> int:
    """Split JSON lines, CSV or a JSON list into train, val and test in the folder --out, so that no prompt is in two parts.

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
