"""`aggregate`: the official tables from answers that exist already."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from titjudge.cli.options import JSON, PATH


@click.group()
def aggregate() -> None:
    """Read what official scripts or other tools produced and print the official table. No model is asked.

    \b
    Examples:
      python cli.py aggregate tiif --answers eval_results --json tiif.json
      python cli.py aggregate tiif-text --ocr ocr.json
      python cli.py aggregate qwen-image-bench --responses responses.jsonl --metadata bench_metadata.json
    """


def _show(work: Callable[[], tuple[dict[str, Any], list[Any]]], json_file: Path | None) -> int:
    from titjudge.cli.show import show_tables, write_json

    results, tables = work()
    show_tables(tables)
    write_json(json_file, results)
    return 0


@aggregate.command()
@click.option(
    "--answers", type=PATH, required=True, metavar="DIR", help="Holds GENERATOR/TYPE/{short,long}/INDEX.json."
)
@JSON
def tiif(answers: Path, json_file: Path | None) -> int:
    """TIIF-Bench: types, nine dimensions, Basic, Advanced, Overall, in percent."""
    from titjudge.suites.tiif import aggregate_answers

    return _show(lambda: aggregate_answers(answers), json_file)


@aggregate.command("tiif-text")
@click.option("--ocr", type=PATH, required=True, metavar="FILE", help="PaddleOCR results (2 or 3) with the gold words.")
@click.option("--questions", type=PATH, metavar="FILE", help="The text questions, when the results hold no gold words.")
@JSON
def tiif_text(ocr: Path, questions: Path | None, json_file: Path | None) -> int:
    """TIIF-Bench text rendering: GNED and recall."""
    from titjudge.suites.tiif_text import aggregate_text

    return _show(lambda: aggregate_text(ocr, questions), json_file)


@aggregate.command("qwen-image-bench")
@click.option(
    "--responses", type=PATH, required=True, metavar="FILE", help="JSON lines of case, ID, model, dim, response."
)
@click.option("--metadata", type=PATH, required=True, metavar="FILE", help="bench_metadata.json.")
@click.option(
    "--protocol",
    type=click.Choice(["official", "strict"]),
    default="official",
    show_default=True,
    help="strict averages over the facets a prompt activates (paper, Eq. 8 to 10).",
)
@JSON
def qwen_image_bench(responses: Path, metadata: Path, protocol: str, json_file: Path | None) -> int:
    """Qwen-Image-Bench: levels 1, 2, 3 and overall from judge responses."""
    from titjudge.suites.qwen_image_bench import aggregate_responses

    return _show(lambda: aggregate_responses(responses, metadata, protocol=protocol), json_file)


@aggregate.command()
@click.option(
    "--generations",
    type=PATH,
    required=True,
    metavar="FILE",
    help="A saved generation_results file of the official script.",
)
@click.option(
    "--split",
    type=PATH,
    required=True,
    metavar="FILE",
    help="The split (train, test or val .json) with the annotations.",
)
@click.option(
    "--matching", default="casefold", show_default=True, metavar="RULE", help="How predicted elements are matched."
)
@JSON
def longt2ibench(generations: Path, split: Path, matching: str, json_file: Path | None) -> int:
    """LongT2IBench: interpretation accuracy, SRCC and PLCC overall and by prompt length."""
    from titjudge.suites.longt2ibench import aggregate_generations

    return _show(lambda: aggregate_generations(generations, split, matching=matching), json_file)
