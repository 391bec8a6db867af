"""`generate`: make the images for the prompts of a suite."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from titjudge.cli.commands import PROMPTS, Command
from titjudge.cli.options import JSON, PATH, key_values, option
from titjudge.cli.output import show_problems, write_json
from titjudge.cli.progress import PLAIN_INTERVAL, duration
from titjudge.cli.terminal import say
from titjudge.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from titjudge.apps.generate.generating import Generated


@click.command(cls=Command, section=PROMPTS, resumed=True)
@click.argument("todo", type=PATH)
@option(
    "--command",
    "Program and arguments that make one image, run without a shell: 'prog --prompt={prompt} --out={out} --seed={seed}'.",
    "COMMAND",
)
@option(
    "--model", "A pipeline that runs on this machine: diffusers/REPO, or diffusers/ and a folder.", "diffusers/REPO"
)
@option("--out", "The data folder that the paths are relative to; it is made if it is missing.", "DIR", required=True)
@option("--generator", "Name of the generator  [default: the program or the repository].", "NAME")
@option(
    "--option",
    "Option of the pipeline: num_inference_steps=30, height=512, dtype=float16, device=cpu, ...; repeatable.",
    "KEY=VALUE",
    "options",
    multiple=True,
)
@option(
    "--timeout",
    "The longest time that --command may take for one image.",
    "SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    default=600,
)
@option("--shard", "Make only every N-th image, from the K-th on: run one such command on each GPU.", "K/N")
@JSON
def generate(
    todo: Path, command: str | None, model: str | None, out: Path, generator: str | None, options: tuple[str, ...],
    timeout: float, shard: str | None, json_file: Path | None,
) -> int:  # fmt: skip
    """Make the images that the lines of TODO ask for (`prompts export` writes them), one after the other.

    Images that exist are not made again: after Ctrl-C the same command continues. DIR/metadata.jsonl lists the images with
    prompt, seed and settings. The program of --command must write the file {out}; its arguments can also contain other
    fields of a line, as {prompt_id} or {sample}. Of a line with source_image, an edit, it gets {source} ({source_1}, {source_2},
    ... where there are several); a pipeline gets them as its `image`.

    \b
    Examples:
      python cli.py generate todo.jsonl --out TIIF \\
          --command 'my_model --prompt={prompt} --seed={seed} --file={out}'
      python cli.py generate todo.jsonl --model diffusers/stabilityai/sdxl-turbo \\
          --option num_inference_steps=4 --out TIIF
      python cli.py generate edits.jsonl --out my_edits \\
          --command 'my_editor {source} --prompt={prompt} --file={out}'
    """
    from titjudge.apps.generate.generating import generate as run
    from titjudge.apps.generate.generating import read_wanted
    from titjudge.apps.generate.image_makers import CommandMaker, DiffusersMaker
    from titjudge.core.config import load_config

    if (command is None) == (model is None):
        raise ConfigError(
            "say what makes the images: --command 'prog --prompt={prompt} --out={out} --seed={seed}' or --model diffusers/REPO"
        )
    if command is not None and options:
        raise ConfigError("--option is for --model; options of a command are words of it")
    repo = (model or "").removeprefix("diffusers/")
    if model is not None and (repo == model or not repo.strip("/ ")):
        raise ConfigError(f"--model is diffusers/REPO, not '{model}'")
    first, step = load_config(None, {"shard": shard}).share
    maker: Any = (
        DiffusersMaker(repo, key_values("--option", options)) if command is None else CommandMaker(command, timeout)
    )
    failed: list[tuple[str, str]] = []
    wanted = list(read_wanted(todo, out, generator or maker.name, failed))
    if not wanted and not failed:
        raise DataError("no lines here: `prompts export` writes them", todo)
    result = run(wanted[first::step], out, maker, failed, _ImageWatch().show)
    show_problems(result.failed, "images were not made")
    if result.stopped:
        say(f"stopped: the first {len(result.failed)} images failed, and no other was made", err=True, colour="red")
    missing = result.total - result.made - result.there
    rest = f", {missing:,} missing" if missing else ""
    say(f"{out}: {result.made:,} images made, {result.there:,} were there{rest}")
    failures = [{"image": name, "reason": reason} for name, reason in result.failed]
    write_json(json_file, {"made": result.made, "there": result.there, "missing": missing, "failed": failures})
    return 1 if missing or not result.total else 0


class _ImageWatch:
    """Prints a line on standard error now and then."""

    def __init__(self) -> None:
        self._started = self._last = time.monotonic()

    def show(self, progress: Generated) -> None:
        now = time.monotonic()
        interval = 0.2 if sys.stderr.isatty() else PLAIN_INTERVAL
        if progress.done < progress.total and now - self._last < interval:
            return
        self._last = now
        seconds = (now - self._started) / max(1, progress.made)
        left = duration(seconds * (progress.total - progress.done) if progress.made else 0)
        failed = f", {len(progress.failed)} failed" if progress.failed else ""
        say(f"{progress.done}/{progress.total} images{failed}, {seconds:.1f} s each, {left} left", err=True)
