"""`generate`: make the images for the prompts of a suite."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from titjudge.cli import BUDGET_REACHED
from titjudge.cli.commands import Command
from titjudge.cli.option_table import PATH, flag_of
from titjudge.cli.options import JSON, gathered, key_values, options
from titjudge.cli.output import show_problems, write_json
from titjudge.cli.progress import PLAIN_INTERVAL, duration
from titjudge.cli.terminal import say
from titjudge.core.errors import ConfigError, DataError, must_be
from titjudge.core.numbers import sum_words, uncertain_words

if TYPE_CHECKING:
    from titjudge.apps.generate.generating import Generated
    from titjudge.apps.generate.image_makers import MakingOutcome


class _Choice(NamedTuple):
    """The maker of the images, and its limits.

    Attributes:
        command: Program and arguments that make one image.
        model: `provider/model`; the alternative to a program.
        options: KEY=VALUE settings of the model.
        timeout: Seconds for one image.
        base_url: Address of the server of a hosted model.
        api_key_env: The environment variable with its key.
        image_price: MODEL=USD of an image.
        max_cost: USD that it may cost in all.
        concurrency: Images at a time.
        rpm: Requests a minute.
    """

    command: str | None = None
    model: str | None = None
    options: Sequence[str] = ()
    timeout: float = 600
    base_url: str | None = None
    api_key_env: str | None = None
    image_price: Sequence[str] = ()
    max_cost: float | None = None
    concurrency: int | None = None
    rpm: int | None = None

    def maker(self) -> Any:
        """Choose the maker of the images.

        Raises:
            ConfigError: Neither or both are named, or an option does not go with it.
        """
        from titjudge.apps.generate.image_makers import CommandMaker, DiffusersMaker, hosted_maker

        options, model = key_values("--option", self.options), self.model
        if (self.command is None) == (model is None):
            raise ConfigError(
                "give one image model: --command 'prog --prompt={prompt} --out={out} --seed={seed}' or --model PROVIDER/MODEL"
            )
        provider, slash, name = (model or "").partition("/")
        if model is not None and not (slash and name.strip("/ ")):
            raise ConfigError(must_be("--model", "PROVIDER/MODEL, such as openai/gpt-image-2 or diffusers/REPO", model))
        keys = {key: getattr(self, key) for key in ("base_url", "api_key_env", "max_cost", "concurrency", "rpm")}
        if model is not None and provider != "diffusers":
            return hosted_maker(model, options, self.timeout, self.image_price, keys)
        if unused := [
            key for key, value in {**keys, "image_price": self.image_price}.items() if value not in (None, ())
        ]:
            raise ConfigError(
                f"{flag_of(unused[0])} requires a hosted model: --model openai/MODEL, gemini/MODEL or litellm/VENDOR/MODEL"
            )
        if self.command is None:
            return DiffusersMaker(name, options)
        if options:
            raise ConfigError("--option requires --model. Write options of a program into --command")
        return CommandMaker(self.command, self.timeout)


@click.command(cls=Command, resumed=True)
@click.argument("todo", type=PATH)
@gathered("choice", _Choice)
@options(out=..., name=None, shard=None, retry_failed=None, dry_run=None)
@JSON
def generate(
    todo: Path,
    choice: _Choice,
    out: Path,
    name: str | None,
    shard: str | None,
    retry_failed: bool | None,
    dry_run: bool,
    json_file: Path | None,
) -> int:
    """Make the images of the lines in TODO (`prompts export` writes them).

    Images that exist are not made again: after Ctrl-C the same command continues. One that was made of another prompt or source
    is named: delete it, and it is made anew. DIR/metadata.jsonl lists the images with
    prompt, seed and settings. The program of --command must write the file {out}; its arguments can also contain other
    fields of a line, as {prompt_id} or {sample}. Of a line with source_image, an edit, it gets {source} ({source_1}, {source_2},
    ... where there are several); a pipeline gets them as its `image`, a hosted model at its endpoint for edits.

    A hosted model is asked for many images at once, and never for more than --max-cost in all: the worst case is set aside before
    a request goes out, and what was spent is kept with the images. What moderation refuses is listed in DIR/refused.jsonl and not
    asked for again; likewise in DIR/failed.jsonl images of which two paid answers could not be used.

    \b
    Examples:
      python cli.py generate todo.jsonl --out TIIF \\
          --command 'my_model --prompt={prompt} --seed={seed} --file={out}'
      python cli.py generate todo.jsonl --model openai/gpt-image-2 \\
          --option quality=low --max-cost 5 --out TIIF
      python cli.py generate todo.jsonl --model diffusers/stabilityai/sdxl-turbo \\
          --option num_inference_steps=4 --out TIIF
      python cli.py generate edits.jsonl --out my_edits \\
          --command 'my_editor {source} --prompt={prompt} --file={out}'
    """
    from titjudge.apps.generate.generating import generate as run
    from titjudge.apps.generate.generating import read_wanted
    from titjudge.core.config import load_config

    first, step = load_config(None, {"shard": shard}).share
    maker = choice.maker()
    failed: list[tuple[str, str]] = []
    images = list(read_wanted(todo, out, name or maker.name, failed))
    if not images and not failed:
        raise DataError("the list has no images to generate. Write it with `prompts export`", todo)
    images = images[first::step]
    if dry_run:
        return _show_dry_run(images, out, maker, failed, json_file)
    result = run(
        images,
        out,
        maker,
        failed,
        _ImageWatch().show,
        say=partial(say, err=True),
        retry_failed=bool(retry_failed),
    )
    show_problems(result.refused, "images were refused by moderation (--retry-failed asks again)")
    show_problems(result.odd, "images are not as they were asked for")
    show_problems(result.failed, "images were not made")
    if result.stopped:
        say(f"stopped: {result.stopped}", err=True, colour="red")
    rest = f", {result.missing:,} missing" if result.missing else ""
    refused = f" ({len(result.refused):,} refused)" if result.refused else ""
    say(f"{out}: {result.made:,} images made, {result.there:,} were there{rest}{refused}")
    write_json(json_file, _as_json(result))
    if result.outcome is not None:
        say(_spent(result.outcome))
        if result.outcome.budget:
            say("the cap is reached. To continue, run the command again with a higher --max-cost", err=True)
            return BUDGET_REACHED
    return 1 if result.missing or not result.total else 0


def _show_dry_run(
    images: list[Any], out: Path, maker: Any, failed: list[tuple[str, str]], json_file: Path | None
) -> int:
    """Print how many images would be made, and an upper bound of their cost; returns the exit code."""
    from titjudge.apps.generate.generating import changed, check_makes_edits, requests
    from titjudge.apps.generate.image_makers import HostedMaker

    todo = [image for image in images if not image.place.exists()]
    check_makes_edits(todo, maker)
    failed += [(image.label, reason) for image, reason in changed(images, out)]
    show_problems(failed, "lines cannot be used")
    most = maker.most(requests(todo)) if isinstance(maker, HostedMaker) else 0.0
    price = "; their price is not known (--image-price gives it)" if most is None else f", ${most:.4f} at most"
    say(f"{out}: {len(todo):,} images would be made, {len(images) - len(todo):,} are there{price}")
    write_json(json_file, {"images": len(todo), "there": len(images) - len(todo), "max_cost": most})
    return 1 if failed else 0


def _spent(outcome: MakingOutcome) -> str:
    """Return a line with the cost of a generator's images."""
    spent = sum_words(outcome.spent, outcome.unpriced, f"${outcome.spent:.4f}")
    return f"spent {spent}{uncertain_words(outcome.uncertain)}"


def _as_json(result: Generated) -> dict[str, Any]:
    lists = {"failed": result.failed, "refused": result.refused, "odd": result.odd}
    named = {key: [{"image": name, "reason": reason} for name, reason in rows] for key, rows in lists.items()}
    spent = {} if result.outcome is None else {"spent": result.outcome.spent, "uncertain": result.outcome.uncertain}
    return {"made": result.made, "there": result.there, "missing": result.missing, **named, **spent}


class _ImageWatch:
    """Prints the progress on standard error from time to time."""

    def __init__(self) -> None:
        self._started = self._last = time.monotonic()

    def show(self, progress: Generated) -> None:
        now = time.monotonic()
        interval = 0.2 if sys.stderr.isatty() else PLAIN_INTERVAL
        if progress.done < progress.total and now - self._last < interval:
            return
        self._last = now
        seconds = (now - self._started) / max(1, progress.made)
        remaining = duration(seconds * (progress.total - progress.done) if progress.made else 0)
        failed = f", {len(progress.failed)} failed" if progress.failed else ""
        say(f"{progress.done}/{progress.total} images{failed}, {seconds:.1f} s each, {remaining} left", err=True)
