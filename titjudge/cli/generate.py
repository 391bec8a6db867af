"""`prompts export`, `generate`, `coverage`: from the prompts of a suite to its images, and what is missing of them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from titjudge.cli.options import JSON, PATH, key_option, key_values, option, with_options
from titjudge.cli.terminal import say

if TYPE_CHECKING:
    from titjudge.runs.generating import Generated

F = TypeVar("F", bound=Callable[..., Any])

_SUITE: Callable[[F], F] = with_options(
    key_option("data", "DATA"),
    key_option("suite", "NAME"),
    key_option("images", "PATTERN"),
    key_option("prompt_file", "FILE[:ID,PROMPT]"),
    key_option("suite_options", "KEY=VALUE", "--suite-option", multiple=True),
    option(
        "--length",
        "Only short or only long prompts, where a suite has both.",
        type=click.Choice(("short", "long", "both")),
        default="both",
    ),
)
_PLAIN = 10.0  # seconds between lines of progress


@click.command("export", short_help="Write the prompts of a suite, and where their images belong.")
@_SUITE
@option("--samples", "Images of each prompt.", "K", type=click.IntRange(1, 10_000), default=1)
@option(
    "--seed", "Seed of the first image of each prompt; the next ones count on.", "S", type=click.IntRange(0), default=0
)
@option("--limit", "Only the first N prompts.", "N", type=click.IntRange(1))
@click.option("-o", "--out", type=PATH, metavar="FILE", required=True, help="The file of lines to write (.jsonl).")
def export(samples: int, seed: int, limit: int | None, length: str, out: Path, **flags: Any) -> int:
    """Write a line for each image that a generator is to make: prompt, where the image belongs, seed.

    Paths are below the data folder; {generator} in them is filled in by `generate`.

    \b
    Examples:
      python cli.py prompts export --suite tiif --data TIIF -o todo.jsonl
      python cli.py prompts export --data my_prompts --samples 4 -o todo.jsonl
      python cli.py prompts export \\
          --images 'out/{generator}/{prompt_id}_{sample}.png' \\
          --prompt-file prompts.csv:index,prompt_en -o todo.jsonl
    """
    import orjson

    from titjudge.cli.output import check_writable
    from titjudge.core.files import write_atomic
    from titjudge.runs.coverage import chosen

    suite, data = _suite(flags)
    told = flags["prompt_file"] or ""
    check_writable(out, data, data / "prompts.jsonl", Path(told), Path(told.rpartition(":")[0]))
    problems: list[tuple[str, str]] = []
    places = chosen(suite, data, _lengths(length), problems)[:limit]
    lines = [line for place in places for line in place.lines(samples, seed)]
    write_atomic(out, b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines))
    _problems(problems)
    say(f"{out}: {len(lines):,} images of {len(places):,} prompts")
    return 0 if lines else 1


@click.command()
@click.argument("todo", type=PATH)
@option("--command", "Words to run for each image, without a shell: 'prog {prompt} {out} {seed}'.", "COMMAND")
@option("--model", "A pipeline that runs here: diffusers/REPO, or diffusers/ and a folder.", "diffusers/REPO")
@option("--out", "The data folder that paths are below; made where it is missing.", "DIR", type=PATH, required=True)
@option("--generator", "What the generator is called  [default: the program or the repository].", "NAME")
@option(
    "--option",
    "Of the pipeline: num_inference_steps=30, height=512, dtype=float16, device=cpu, ...; repeatable.",
    "KEY=VALUE",
    "options",
    multiple=True,
)
@option(
    "--timeout",
    "Longest time for one image of a command, in seconds.",
    "SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    default=600,
)
@option("--shard", "Make only every N-th image, from the K-th on: one command for each GPU.", "K/N")
@JSON
def generate(
    todo: Path, command: str | None, model: str | None, out: Path, generator: str | None, options: tuple[str, ...],
    timeout: float, shard: str | None, json_file: Path | None,
) -> int:  # fmt: skip
    """Make the images of a file of prompts (`prompts export`), one after the other.

    What is there already is not made again: Ctrl-C ends, the same command goes on. DIR/metadata.jsonl lists the images with
    prompt, seed and settings. A command must write the file {out}; further fields of the lines are {prompt_id}, {sample}, ...

    \b
    Examples:
      python cli.py generate todo.jsonl --out TIIF \\
          --command 'my_model --prompt={prompt} --seed={seed} --file={out}'
      python cli.py generate todo.jsonl --model diffusers/stabilityai/sdxl-turbo \\
          --option num_inference_steps=4 --out TIIF
    """
    from titjudge.cli.output import write_json
    from titjudge.core.errors import ConfigError, DataError
    from titjudge.core.signals import terminated_like_ctrl_c
    from titjudge.runs.generating import generate as run
    from titjudge.runs.generating import read_wanted
    from titjudge.runs.image_makers import CommandMaker, DiffusersMaker

    if (command is None) == (model is None):
        raise ConfigError("say what makes the images: --command 'prog {prompt} {out} {seed}' or --model diffusers/REPO")
    if command is not None and options:
        raise ConfigError("--option is for --model; options of a command are words of it")
    if (model is not None and not model.removeprefix("diffusers/").strip("/ ")) or not (
        model or "diffusers/"
    ).startswith("diffusers/"):
        raise ConfigError(f"--model is diffusers/REPO, not '{model}'")
    part = _share(shard)
    maker: Any = CommandMaker(command, timeout) if command is not None else None
    maker = maker or DiffusersMaker(str(model).removeprefix("diffusers/"), key_values("--option", options))
    failed: list[tuple[str, str]] = []
    wanted = list(read_wanted(todo, out, generator or maker.name, failed))
    if not wanted and not failed:
        raise DataError("no lines here: `prompts export` writes them", todo)
    wanted = wanted[part]
    with terminated_like_ctrl_c():
        found = run(wanted, out, maker, failed, _Watch().show)
    _problems(found.failed, "images were not made")
    if found.stopped:
        say(f"stopped: the first {len(found.failed)} images failed, and no other was made", err=True, colour="red")
    left = found.total - found.made - found.there
    say(f"{out}: {found.made:,} images made, {found.there:,} were there" + (f", {left:,} missing" if left else ""))
    write_json(json_file, {"made": found.made, "there": found.there, "missing": left,
                           "failed": [{"image": name, "reason": reason} for name, reason in found.failed]})  # fmt: skip
    return 1 if left or not found.total else 0


@click.command()
@_SUITE
@key_option("columns", "image=COLUMN,prompt=...")
@key_option("image_root", "DIR", multiple=True)
@key_option("grid", "ROWSxCOLUMNS")
@option(
    "--samples",
    "Images that a prompt should have  [default: as many as the one that has most].",
    "K",
    type=click.IntRange(1),
)
@option(
    "--generator",
    "A generator that should have images, though it may have none yet; repeatable.",
    "NAME",
    multiple=True,
)
@JSON
def coverage(
    samples: int | None, length: str, grid: str | None, generator: tuple[str, ...], json_file: Path | None, **flags: Any
) -> int:
    """Say which images are missing, by generator, before money is spent on the rest.

    Of a generator without any image only --generator tells. Exit code 0 when every generator has every image, else 1.

    \b
    Examples:
      python cli.py coverage --data my_images
      python cli.py coverage --suite tiif --data TIIF --length short --samples 4
      python cli.py coverage --suite tiif --data TIIF --generator flux
    """
    from titjudge.cli.output import show_tables, write_json
    from titjudge.runs.coverage import coverage as look

    suite, data = _suite(flags)
    found = look(suite, data, samples=samples, lengths=_lengths(length), grid=grid, generators=generator)
    show_tables([found.table()])
    _problems(found.problems)
    for line in getattr(suite, "notes", ()):
        say(f"  note: {line}")
    missing = [
        (f"{each.generator}/{each.prompt_id}" if each.generator else each.prompt_id, _lack(each))
        for each in found.missing
    ]
    _problems(missing, "missing")
    write_json(json_file, {
        "prompts": found.prompts, "samples": found.samples, "images": found.images,
        "missing": [{"generator": m.generator, "prompt_id": m.prompt_id, "images": m.images, "reason": m.reason} for m in found.missing],
        "problems": [{"id": name, "reason": reason} for name, reason in found.problems],
    })  # fmt: skip
    whole = bool(found.images) and not found.missing
    say("complete" if whole else f"{sum(each.images for each in found.missing):,} images are missing")
    return 0 if whole else 1


def _lack(missing: Any) -> str:
    from titjudge.runs.coverage import NO_IMAGE

    if missing.images == 1:
        return str(missing.reason)
    return f"{missing.images} images" + ("" if missing.reason == NO_IMAGE else f", {missing.reason}")


def _suite(flags: dict[str, Any]) -> tuple[Any, Path]:
    """Load the suite that flags name, and find its data."""
    from titjudge.core.config import load_config
    from titjudge.core.errors import ConfigError
    from titjudge.runs.resolve import load_suite, with_tree

    given = {**flags, "suite_options": key_values("--suite-option", flags["suite_options"])}
    config = with_tree(load_config(None, {key: value for key, value in given.items() if value not in (None, (), {})}))
    if config.data is None:
        raise ConfigError("whose prompts? give --data DIR, or --images PATTERN with --prompt-file FILE")
    if not config.data.exists() and not config.images:
        raise ConfigError(f"{config.data}: no such file or folder")
    return load_suite(config), config.data


def _lengths(length: str) -> tuple[str, ...]:
    return () if length == "both" else (length,)


def _share(shard: str | None) -> slice:
    from titjudge.core.config import load_config

    first, step = load_config(None, {"shard": shard}).share
    return slice(first, None, step)


def _problems(found: Sequence[tuple[str, str]], what: str = "cannot be used") -> None:
    from titjudge.cli.output import show_problems

    if found:
        say(f"\n{len(found):,} {what}:", err=True)
        show_problems(found)


class _Watch:
    """A line on standard error now and then."""

    def __init__(self) -> None:
        self._started = self._last = time.monotonic()

    def show(self, found: Generated) -> None:
        now = time.monotonic()
        live = sys.stderr.isatty()
        if found.done < found.total and now - self._last < (0.2 if live else _PLAIN):
            return
        self._last = now
        each = (now - self._started) / max(1, found.made)
        left = round(each * (found.total - found.done)) if found.made else 0
        failed = f", {len(found.failed)} failed" if found.failed else ""
        text = f"{found.done}/{found.total} images{failed}, {each:.1f} s each, {left // 60}:{left % 60:02} left"
        say(text, err=True)
