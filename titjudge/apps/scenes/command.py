"""`probe images`: make test images whose errors are known."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from titjudge.cli.commands import Command
from titjudge.cli.options import gathered, options
from titjudge.cli.progress import duration
from titjudge.cli.terminal import say
from titjudge.core.errors import UserError, must_be, not_combined, unknown

if TYPE_CHECKING:
    from titjudge.apps.scenes.generate import RenderProgress
    from titjudge.apps.scenes.scene import AskedElements, Scene


class _Wanted(NamedTuple):
    """Which images are rendered, and how.

    Attributes:
        scenes: Number of prompts, each with a different scene.
        seed: Seed of the scenes.
        hard: Whether scenes are crowded.
        ladder: The difficulty of flat scenes, 1 to 3; None for rendered ones.
        scene: The kind of flat scenes.
        edits: Whether edits are made instead of prompts.
        size: Width and height in pixels, if it is not the usual one.
        rays: Rays for each pixel, if it is not the usual number.
        levels: Levels of adherence, with commas between.
    """

    scenes: int = 6
    seed: int = 0
    hard: bool = False
    ladder: int | None = None
    scene: str | None = None
    edits: bool = False
    size: int | None = None
    rays: int | None = None
    levels: str = "0,1,2,3"

    def check(self) -> None:
        """Check that the options go together.

        Raises:
            UserError: They do not.
        """
        if (self.edits, self.hard, self.ladder is not None).count(True) > 1:
            raise UserError("--hard, --ladder and --edits cannot be combined. Give one of them")
        if self.ladder is None and self.scene is not None:
            raise UserError("--scene requires --ladder. Add --ladder 1, 2 or 3")
        for name in ("size", "rays"):
            if self.ladder is not None and getattr(self, name) is not None:
                raise UserError(not_combined(f"--{name}", "--ladder"))


@click.command(cls=Command, short_help="Render scenes that follow their prompts more or less, and annotate them.")
@options(out=...)
@gathered("wanted", _Wanted)
def images(out: Path, wanted: _Wanted) -> int:
    """Compose scenes, write a long prompt for each, render it at every level of adherence, and annotate what is visible.

    Images have 512 x 512 pixels (768 with --hard) and 16 rays for each. Requires Mitsuba 3 (pip install 'titjudge[scenes]'),
    except with --ladder. To continue, run the command again; a larger --scenes adds more.

    \b
    Examples:
      python cli.py probe images --scenes 20 --seed 1 --out my_answers
      python cli.py probe images --hard --scenes 10 --out my_hard_answers
      python cli.py probe images --ladder 3 --scenes 20 --out my_ladder
      python cli.py probe images --ladder 3 --scene cabinet --out cabinets
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

    scenes, seed, ladder, template = wanted.scenes, wanted.seed, wanted.ladder, wanted.scene
    shown, watch = _levels(wanted.levels), _RenderWatch().show
    if ladder is None:
        mitsuba()
        size = wanted.size or (768 if wanted.hard else 512)
        options = Options(seed, size, wanted.rays or 16, () if wanted.edits else shown, wanted.hard)
    else:
        if template is not None and template not in (MIXED, *TEMPLATES):
            raise UserError(f"--scene: {unknown('template', template, [*TEMPLATES, MIXED])}")
        (width, height), images = SIZES[ladder], scenes * len(shown)
        say(f"{images} images of {width} x {height} pixels, about {duration(4.0 * images)}", err=True)
        options = Options(seed, width, 0, shown, ladder=ladder, template=template or template_in(out) or MIXED)

    def look(scene: Scene, graph: AskedElements) -> list[str]:
        """List what cannot be seen; errors of drawn scenes that cannot be seen are not drawn."""
        return visibility.look(scene, graph) if ladder is None else []

    def render(scene: Scene) -> Any:
        if ladder is None:
            return Stage(scene, options.size).picture(options.samples)
        return TEMPLATES[scene.template].picture(scene, TEMPLATES[scene.template].rungs[ladder])

    if wanted.edits:
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
        raise UserError(must_be("--levels", "different levels such as 0,1,2,3", text))
    return tuple(sorted(map(int, levels)))


class _RenderWatch:
    """Prints a line on standard error for each image."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def show(self, progress: RenderProgress) -> None:
        seconds = (time.monotonic() - self._started) / progress.fresh
        left = duration(seconds * (progress.total - progress.done))
        say(f"{progress.done}/{progress.total} images, {seconds:.1f} s each, {left} left", err=True)
