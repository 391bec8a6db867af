"""`probe images`: make test images whose errors are known."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from titjudge.cli.commands import Command
from titjudge.cli.options import option
from titjudge.cli.progress import duration
from titjudge.cli.terminal import say
from titjudge.core.errors import UserError, not_combined, unknown

if TYPE_CHECKING:
    from titjudge.apps.scenes.generate import RenderProgress
    from titjudge.apps.scenes.scene import Scene


@click.command(cls=Command, short_help="Render scenes that follow their prompts more or less, and annotate them.")
@option("--scenes", "Number of prompts, each with a different scene.", "N", type=click.IntRange(1, 9999), default=6)
@option("--seed", "Seed of the scenes.", "S", type=click.IntRange(min=0), default=0)
@option("--out", "A new folder, or one to continue.", "DIR", required=True)
@option("--hard", "Crowded scenes: 40 to 80 small objects, counts up to 12, small text, near-duplicates.", is_flag=True)
@option(
    "--ladder",
    "Scenes of 25, 40 or 60 groups with details of 8 to 20 pixels, drawn in seconds: three difficulties.",
    "1|2|3",
    type=click.IntRange(1, 3),
)
@option(
    "--template",
    "Kind of scenes for --ladder: cabinet (from above), stand (people on a grandstand), shelves (several materials)  "
    "[default: mixed, all in turns].",
    "NAME",
)
@option(
    "--edits",
    "Edits instead of prompts:  a source, an instruction, and results that are done, not done, done elsewhere, with a further "
    "change, or over-edited.",
    is_flag=True,
)
@option(
    "--size", "Width and height of the images  [default: 512, or 768 with --hard].", "PX", type=click.IntRange(16, 4096)
)
@option("--samples", "Rays for each pixel; more is finer and slower  [default: 16].", "N", type=click.IntRange(1, 4096))
@option(
    "--levels",
    "Levels of adherence: 0 no error, 1 one error, 2 a third wrong, 3 two thirds wrong (--ladder: 4 and 12 errors).",
    "LIST",
    default="0,1,2,3",
)
def images(
    scenes: int,
    seed: int,
    out: Path,
    hard: bool,
    ladder: int | None,
    template: str | None,
    edits: bool,
    size: int | None,
    samples: int | None,
    levels: str,
) -> int:
    """Compose scenes, write a long prompt for each, render it at every level of adherence, and annotate what is visible.

    Requires Mitsuba 3 (pip install 'titjudge[scenes]'), except with --ladder. To continue, run the command again; a larger --scenes adds more.

    \b
    Examples:
      python cli.py probe images --scenes 20 --seed 1 --out my_answers
      python cli.py probe images --hard --scenes 10 --out my_hard_answers
      python cli.py probe images --ladder 3 --scenes 20 --out my_ladder
      python cli.py probe images --ladder 3 --template cabinet --out cabinets
      python cli.py probe images --edits --scenes 20 --out my_edits
      python cli.py judge --suite known-answer --data my_answers \\
        --captioner openai/gpt-6-luna --judge openai/gpt-6-luna
    """
    from titjudge.apps.scenes import visibility
    from titjudge.apps.scenes.edits import make_edits
    from titjudge.apps.scenes.generate import make as make_folder
    from titjudge.apps.scenes.generate import template_in
    from titjudge.apps.scenes.ladder import MIXED, TEMPLATES
    from titjudge.apps.scenes.render import Stage, mitsuba
    from titjudge.apps.scenes.scene import Options
    from titjudge.apps.scenes.template import SIZES
    from titjudge.suites.known_answer.suite import OUTCOMES

    if (edits, hard, ladder is not None).count(True) > 1:
        raise UserError("--hard, --ladder and --edits cannot be combined. Give one of them")
    shown, watch = _levels(levels), _RenderWatch().show
    if ladder is None:
        if template is not None:
            raise UserError("--template requires --ladder. Add --ladder 1, 2 or 3")
        mitsuba()
        options = Options(seed, size or (768 if hard else 512), samples or 16, () if edits else shown, hard)
        look = visibility.look_crowd if hard else visibility.look
    else:
        for name, value in (("size", size), ("samples", samples)):
            if value is not None:
                raise UserError(not_combined(f"--{name}", "--ladder"))
        if template is not None and template not in (MIXED, *TEMPLATES):
            raise UserError(f"--template: {unknown('template', template, [*TEMPLATES, MIXED])}")
        (width, height), images = SIZES[ladder], scenes * len(shown)
        say(f"{images} images of {width} x {height} pixels, about {duration(4.0 * images)}", err=True)
        options = Options(seed, width, 0, shown, ladder=ladder, template=template or template_in(out) or MIXED)
        look = visibility.no_look

    def render(scene: Scene) -> Any:
        if ladder is None:
            return Stage(scene, options.size).picture(options.samples)
        return TEMPLATES[scene.template].picture(scene, TEMPLATES[scene.template].rungs[ladder])

    if edits:
        make_edits(out, scenes, options, look=look, render=render, watch=watch)
        made = f"{scenes} edits with {len(OUTCOMES)} results each"
        say(f"{out}: {made}; see {out / 'README.md'}")
        return 0
    make_folder(out, scenes, options, look=look, render=render, watch=watch)
    say(f"{out}: {scenes} prompts at {len(shown)} levels; how it was made is in {out / 'README.md'}")
    return 0


def _levels(text: str) -> tuple[int, ...]:
    levels = [level.strip() for level in text.split(",")]
    if not set(levels) <= {"0", "1", "2", "3"} or len(set(levels)) != len(levels):
        raise click.BadParameter(f"must be different levels such as 0,1,2,3, not '{text}'", param_hint="--levels")
    return tuple(sorted(map(int, levels)))


class _RenderWatch:
    """Prints a line on standard error for each image."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def show(self, progress: RenderProgress) -> None:
        seconds = (time.monotonic() - self._started) / progress.fresh
        left = duration(seconds * (progress.total - progress.done))
        say(f"{progress.done}/{progress.total} images, {seconds:.1f} s each, {left} left", err=True)
