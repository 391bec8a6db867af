"""`prompts export`, `prompts coverage`: the images that a generator has to make for the prompts of a suite, and those missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from titjudge.cli.commands import Group
from titjudge.cli.options import (
    JSON,
    SUITE_OPTION,
    F,
    RunKeys,
    configured,
    key_option,
    key_options,
    option,
    with_options,
)
from titjudge.cli.output import check_writable, show_notes, show_problems, show_results
from titjudge.cli.terminal import say
from titjudge.core.errors import ConfigError
from titjudge.core.names import plain

if TYPE_CHECKING:
    from titjudge.suites.base import Suite

_SUITE: Callable[[F], F] = with_options(
    key_options(data="DATA", suite="NAME", images="PATTERN", prompt_file="FILE[:ID,PROMPT]"),
    key_option("sources", "PATTERN", multiple=True),
    key_option("image_root", "DIR", multiple=True),
    SUITE_OPTION,
    option(
        "--length",
        "Only short or only long prompts, if the suite has both.",
        type=click.Choice(("short", "long", "both")),
        default="both",
    ),
)


@click.group(cls=Group, resumed=True)
def prompts() -> None:
    """Make, review and audit sets of prompts, export the prompts of a suite, and list missing images.

    \b
    Examples:
      python cli.py prompts make --recipe tiif --number 36 -o tiif.jsonl \\
        --judge openai/gpt-6-luna --dry-run
      python cli.py prompts audit prompts.csv
      python cli.py prompts export --suite tiif --data TIIF -o todo.jsonl
      python cli.py prompts coverage --data my_images
    """


@prompts.command("export", short_help="Write the prompts of a suite, with the path of each image to make.")
@_SUITE
@option("--samples", "Images for each prompt.", "K", type=click.IntRange(1, 10_000), default=1)
@option(
    "--seed",
    "Seed of the first image of each prompt; the next images count up from it.",
    "S",
    type=click.IntRange(0),
    default=0,
)
@option("--limit", "Only the first N prompts.", "N", type=click.IntRange(1))
@option("-o", "The file to write (.jsonl).", "FILE", "--out", required=True)
@configured
def export(keys: RunKeys, samples: int, seed: int, limit: int | None, length: str, out: Path) -> int:
    """Write a line for each image that a generator has to make: the prompt, the path of the image, and a seed.

    Paths are relative to the data folder; `generate` fills in {generator}.

    \b
    Examples:
      python cli.py prompts export --suite tiif --data TIIF -o todo.jsonl
      python cli.py prompts export --data my_prompts --samples 4 -o todo.jsonl
      python cli.py prompts export \\
          --images 'out/{generator}/{prompt_id}_{sample}.png' \\
          --prompt-file prompts.csv:index,prompt_en -o todo.jsonl
    """
    import orjson

    from titjudge.core.files import write_atomic
    from titjudge.runs.study.coverage import suite_prompts

    suite, data = _suite(keys)
    prompt_file = keys["prompt_file"] or ""
    check_writable(out, data, data / "prompts.jsonl", Path(prompt_file), Path(prompt_file.rpartition(":")[0]))
    problems: list[tuple[str, str]] = []
    places = suite_prompts(suite, data, _lengths(length), problems)[:limit]
    lines = [line for place in places for line in place.lines(samples, seed)]
    write_atomic(out, b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines))
    show_problems(problems, "cannot be used")
    say(f"{out}: {len(lines):,} images of {len(places):,} prompts")
    return 0 if lines else 1


@prompts.command(short_help="List the missing images of each generator.")
@_SUITE
@key_option("columns", "image=COLUMN,prompt=...")
@key_option("grid", "ROWSxCOLUMNS")
@option(
    "--samples",
    "Images that each prompt should have  [default: as many as the prompt with the most].",
    "K",
    type=click.IntRange(1),
)
@option(
    "--generator",
    "A generator that should have images, even if it has none yet; repeatable.",
    "NAME",
    multiple=True,
    type=plain,
)
@JSON
@configured
def coverage(
    keys: RunKeys,
    samples: int | None,
    length: str,
    grid: str | None,
    generator: tuple[str, ...],
    json_file: Path | None,
) -> int:
    """List the missing images of each generator, before money is spent on judging the rest.

    A generator without any image is only listed if --generator names it. The exit code is 0 if every generator has every
    image, otherwise 1.

    \b
    Examples:
      python cli.py prompts coverage --data my_images
      python cli.py prompts coverage --suite tiif --data TIIF --length short \\
        --samples 4
      python cli.py prompts coverage --suite tiif --data TIIF --generator flux
    """
    from titjudge.runs.study.coverage import coverage as cover

    suite, data = _suite(keys)
    report = cover(suite, data, samples=samples, lengths=_lengths(length), grid=grid, generators=generator)
    missing = [
        {"generator": m.generator, "prompt_id": m.prompt_id, "images": m.images, "reason": m.reason}
        for m in report.missing
    ]
    record = {
        "prompts": report.prompts,
        "samples": report.samples,
        "images": report.images,
        "missing": missing,
        "problems": [{"id": name, "reason": reason} for name, reason in report.problems],
    }
    show_results([report.table()], record, json_file)
    show_problems(report.problems, "cannot be used")
    show_notes(suite.notes)
    places = (f"{m.generator}/{m.prompt_id}" if m.generator else m.prompt_id for m in report.missing)
    show_problems(list(zip(places, map(_lack, report.missing), strict=True)), "missing")
    complete = bool(report.images) and not report.missing
    lacking = sum(prompt.images for prompt in report.missing)
    say("complete" if complete else "1 image is missing" if lacking == 1 else f"{lacking:,} images are missing")
    return 0 if complete else 1


def _lack(missing: Any) -> str:
    """Write how many images of a prompt are missing, and why if that is known."""
    from titjudge.runs.study.coverage import NO_IMAGE

    if missing.images == 1:
        return str(missing.reason)
    return f"{missing.images} images" + ("" if missing.reason == NO_IMAGE else f", {missing.reason}")


def _suite(keys: RunKeys) -> tuple[Suite, Path]:
    """Load the suite that the flags name, and find its data."""
    from titjudge.suites.loading import check_paths, open_suite, with_image_tree

    given = keys.config()
    config = with_image_tree(given)
    if config.data is None:
        raise ConfigError("the prompts are missing. Add --data DIR, or --images PATTERN with --prompt-file FILE")
    check_paths(given, None if config.images else config.data)
    return open_suite(config), config.data


def _lengths(length: str) -> tuple[str, ...]:
    return () if length == "both" else (length,)
