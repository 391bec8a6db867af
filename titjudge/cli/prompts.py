"""`prompts export`, `prompts coverage`: the images that a generator has to make for the prompts of a suite, and those missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from titjudge.cli.commands import Group
from titjudge.cli.options import JSON, F, RunKeys, configured, option, options, with_options
from titjudge.cli.output import check_writable, show_notes, show_problems, show_results
from titjudge.cli.terminal import say
from titjudge.core.errors import ConfigError
from titjudge.core.names import plain

if TYPE_CHECKING:
    from titjudge.suites.base import Suite

_SUITE: Callable[[F], F] = with_options(
    options("data", "suite", "images", "prompt_file", "sources", "image_root", "suite_options"),
    option("length", default="both"),
)


@click.group(cls=Group, resumed=True)
def prompts() -> None:
    """Make, review and audit sets of prompts, export the prompts of a suite, and list missing images.

    \b
    Examples:
      python cli.py prompts make --recipe tiif --number 36 --out tiif.jsonl \\
        --judge openai/gpt-6-luna --dry-run
      python cli.py prompts audit prompts.csv
      python cli.py prompts export --suite tiif --data TIIF --out todo.jsonl
      python cli.py prompts coverage --data my_images
    """


@prompts.command("export", short_help="Write the prompts of a suite, with the path of each image to make.")
@_SUITE
@options(images_per_prompt=1, seed=0, limit=None, out=...)
@configured
def export(keys: RunKeys, images_per_prompt: int, seed: int, length: str, out: Path) -> int:
    """Write a line for each image that a generator has to make: the prompt, the path of the image, and a seed.

    --seed is that of the first image of each prompt; the next images count up from it.
    Paths are relative to the data folder; `generate` fills in {generator}.

    \b
    Examples:
      python cli.py prompts export --suite tiif --data TIIF --out todo.jsonl
      python cli.py prompts export --data my_prompts --out todo.jsonl \\
          --images-per-prompt 4
      python cli.py prompts export \\
          --images 'out/{generator}/{prompt_id}_{sample}.png' \\
          --prompt-file prompts.csv:index,prompt_en --out todo.jsonl
    """
    import orjson

    from titjudge.core.files import write_atomic
    from titjudge.runs.study.coverage import suite_prompts

    suite, data = _suite(keys)
    prompt_file = keys["prompt_file"] or ""
    check_writable(out, data, data / "prompts.jsonl", Path(prompt_file), Path(prompt_file.rpartition(":")[0]))
    problems: list[tuple[str, str]] = []
    places = suite_prompts(suite, data, _lengths(length), problems)[: keys["limit"]]
    lines = [line for place in places for line in place.lines(images_per_prompt, seed)]
    write_atomic(out, b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines))
    show_problems(problems, "cannot be used")
    say(f"{out}: {len(lines):,} images of {len(places):,} prompts")
    return 0 if lines else 1


@prompts.command(short_help="List the missing images of each generator.")
@_SUITE
@options("columns", "grid", "images_per_prompt")
@click.argument("generators", nargs=-1, type=plain)
@JSON
@configured
def coverage(
    keys: RunKeys,
    images_per_prompt: int | None,
    length: str,
    grid: str | None,
    generators: tuple[str, ...],
    json_file: Path | None,
) -> int:
    """List the missing images of each generator, before money is spent on judging the rest.

    A prompt should have --images-per-prompt, or as many as the prompt with the most. A generator without any image is only
    listed if GENERATORS name it. The exit code is 0 if every generator has every
    image, otherwise 1.

    \b
    Examples:
      python cli.py prompts coverage --data my_images
      python cli.py prompts coverage --suite tiif --data TIIF --length short \\
        --images-per-prompt 4
      python cli.py prompts coverage --suite tiif --data TIIF flux
    """
    from titjudge.runs.study.coverage import coverage as cover

    suite, data = _suite(keys)
    report = cover(suite, data, samples=images_per_prompt, lengths=_lengths(length), grid=grid, generators=generators)
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
