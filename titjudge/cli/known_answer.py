"""`known-answer`: test material whose truth is known by construction."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from titjudge.cli.options import PATH, option
from titjudge.cli.terminal import say

if TYPE_CHECKING:
    from titjudge.suites.known_answer.scenes.generate import Progress


@click.group("known-answer")
def known_answer() -> None:
    """Make test images whose adherence to their long prompts is known by construction.

    \b
    Example:
      python cli.py known-answer make --scenes 20 --seed 1 --out my_answers
    """


@known_answer.command(short_help="Render scenes at levels of adherence, with what can be seen in them.")
@option("--scenes", "How many prompts.", "N", type=click.IntRange(1, 9999), default=6)
@option("--seed", "Another seed, other scenes.", "S", type=click.IntRange(min=0), default=0)
@option("--out", "A new folder, or one to go on with.", "DIR", type=PATH, required=True)
@option("--hard", "Crowded scenes: 40 to 80 small things, counts to 12, small text, near-duplicates.", is_flag=True)
@option("--size", "Width and height of the images; 512, or 768 with --hard.", "PX", type=click.IntRange(16, 4096))
@option("--samples", "Rays a pixel: more is finer and slower.", "N", type=click.IntRange(1, 4096), default=16)
@option(
    "--levels",
    "Levels of adherence: 0 as asked, 1 one error, 2 a third wrong, 3 two thirds.",
    "LIST",
    default="0,1,2,3",
)
def make(scenes: int, seed: int, out: Path, hard: bool, size: int | None, samples: int, levels: str) -> int:
    """Compose scenes, write long prompts, render each at levels of adherence, and annotate what is really to be seen.

    Needs Mitsuba 3 (pip install 'titjudge[scenes]'). Ctrl-C ends; the same command goes on, a larger --scenes adds some.

    \b
    Examples:
      python cli.py known-answer make --scenes 20 --seed 1 --out my_answers
      python cli.py known-answer make --hard --scenes 10 --out my_hard_answers
      python cli.py judge --suite known-answer --data my_answers \\
        --captioner openai/gpt-4o --judge openai/gpt-4o
    """
    from titjudge.suites.known_answer.scenes.generate import make as make_folder
    from titjudge.suites.known_answer.scenes.render import Stage, mitsuba
    from titjudge.suites.known_answer.scenes.scene import Options
    from titjudge.suites.known_answer.scenes.visibility import look, look_crowd

    mitsuba()
    pixels = size or (768 if hard else 512)
    folder = make_folder(
        out,
        scenes,
        options := Options(seed, pixels, samples, _levels(levels), hard),
        look=look_crowd if hard else look,
        render=lambda scene: Stage(scene, pixels).picture(samples),
        watch=_Watch().show,
    )
    say(f"{folder}: {scenes} prompts at {len(options.levels)} levels; how it was made is in {folder / 'README.md'}")
    return 0


def _levels(text: str) -> tuple[int, ...]:
    found = [each.strip() for each in text.split(",")]
    if not set(found) <= {"0", "1", "2", "3"} or len(set(found)) != len(found):
        raise click.BadParameter(f"'{text}' is not a list of levels, each once, like 0,1,2,3", param_hint="--levels")
    return tuple(sorted(map(int, found)))


class _Watch:
    """A line on standard error for each image."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def show(self, progress: Progress) -> None:
        each = (time.monotonic() - self._started) / progress.fresh
        left = round(each * (progress.total - progress.done))
        text = f"{progress.done}/{progress.total} images, {each:.1f} s each, {left // 60}:{left % 60:02} left"
        say(text, err=True)
