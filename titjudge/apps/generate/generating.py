"""Make the images that a file asks for, where they belong in the data folder, and list them there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from titjudge.apps.generate.hosted_maker import HostedMaker, MakingOutcome
from titjudge.apps.generate.image_folder import LISTS, ImageFolder, ImageToMake
from titjudge.apps.generate.image_makers import Maker
from titjudge.apps.generate.image_models import ImageRequest, MadeImage
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.numbers import as_sample
from titjudge.core.types import Json, Status
from titjudge.data.data_paths import inside
from titjudge.data.images import SUFFIXES, check_header
from titjudge.data.tables import scan_table
from titjudge.engine.budget import Bill
from titjudge.suites.base import check_generator
from titjudge.suites.patterns import GENERATOR, SOURCE, source_field, sources_of
from titjudge.suites.sources import content_name, named_sources, without_named_sources

LEDGERS = Path(".generate")  # below the data folder: what each generator was paid
_HOPELESS = 10  # failures before the first image, after which no more is tried


@dataclass(slots=True)
class Generated:
    """Progress of `generate`.

    Attributes:
        total: Images to make.
        made: Images made.
        there: Images that existed already.
        failed: Row or name of an image that was not made, and why.
        refused: Those that moderation refused, likewise.
        odd: Images made that are not as they were asked for, and in what.
        stopped: Why it ended before every image was tried; empty where all were.
        outcome: What asking a hosted model came to.
    """

    total: int
    made: int = 0
    there: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    odd: list[tuple[str, str]] = field(default_factory=list)
    stopped: str = ""
    outcome: MakingOutcome | None = None

    @property
    def done(self) -> int:
        """Images that exist, were refused or have failed."""
        return self.made + self.there + len(self.refused) + len(self.failed)

    @property
    def missing(self) -> int:
        """Images that do not exist."""
        return self.total - self.made - self.there


def read_wanted(file: Path, out: Path, generator: str, failed: list[tuple[str, str]]) -> Iterator[ImageToMake]:
    """Read a file of wanted images (`prompts export`); invalid lines go to `failed`.

    Raises:
        DataError: The file cannot be read, or the generator is no folder name.
    """
    check_generator(generator)
    rows_by_place: dict[Path, int] = {}
    for row, record in scan_table(file, ("prompt", "image")):
        where = f"{file.name}:{row}"
        try:
            if isinstance(record, DataError):
                raise record
            prompt, image = record["prompt"], str(record["image"]).replace(GENERATOR, generator)
            if not isinstance(prompt, str) or not prompt.strip():
                raise DataError(f"the prompt is empty or no text: {prompt!r:.60}")
            if Path(image).suffix.lower() not in SUFFIXES:
                raise DataError(f"'{image[:200]}' has no ending of an image: {', '.join(sorted(SUFFIXES))}")
            place = inside(out, image)
            if (first := rows_by_place.setdefault(place, row)) != row:
                raise DataError(f"the image '{image[:200]}' is wanted twice (first in row {first})")
            sources = named_sources(record, file.parent, (Path("/"),))
            for source in sources:
                check_header(source)
        except DataError as error:
            failed.append((where, error.message))
            continue
        sample = as_sample(record.get("sample") or 0)
        seed = sample if record.get("seed") in (None, "") else as_sample(record["seed"])
        prompt_id = str(record.get("prompt_id") or prompt)
        fields = {"prompt_id": prompt_id, "generator": generator, "image": image, "sample": sample, "seed": seed}
        line = {**without_named_sources(record), **fields, **source_field(sources)}
        yield ImageToMake(row, place, line, tuple(map(content_name, sources)))


def generate(
    images: list[ImageToMake],
    out: Path,
    maker: Maker | HostedMaker,
    failed: list[tuple[str, str]],
    watch: Callable[[Generated], None],
    *,
    say: Callable[[str], None] = lambda line: None,
    retry_failed: bool = False,
) -> Generated:
    """Make the images that do not exist yet. Each is written whole, and Ctrl-C loses at most the one in progress.

    Args:
        images: The images.
        out: The data folder.
        maker: Makes them, one by one here or many at once elsewhere.
        failed: Invalid lines; images that fail are added.
        watch: Called after each image.
        say: Called with lines for the user.
        retry_failed: Ask again for images that moderation has refused, or whose paid answers held no usable image.

    Raises:
        UserError: The folder has a list of images from elsewhere, another process is asking for the same, or edits are wanted of
            what makes none.
    """
    progress = Generated(len(images) + len(failed), failed=failed)
    with ImageFolder(out) as folder:
        todo = list(_missing(images, folder, progress, retry_failed=retry_failed))
        check_makes_edits(todo, maker)
        watch(progress)
        if isinstance(maker, HostedMaker):
            _ask(todo, folder, maker, out / LEDGERS, progress, watch, say)
        else:
            _make(todo, folder, maker, progress, watch)
    return progress


def _missing(
    images: Iterable[ImageToMake], folder: ImageFolder, progress: Generated, *, retry_failed: bool
) -> Iterator[ImageToMake]:
    """Yield the images that are to be made, and count the others."""
    for image in images:
        try:
            if folder.holds(image):
                progress.there += 1
            elif not retry_failed and (before := folder.in_vain(image)) is not None:
                status, reason = before
                if status is Status.REFUSED:
                    progress.refused.append((image.label, f"refused before: {reason}"))
                else:
                    progress.failed.append((image.label, f"paid before, and not asked for again: {reason}"))
            else:
                yield image
        except DataError as error:
            progress.failed.append((image.label, error.message))


def check_makes_edits(todo: Sequence[ImageToMake], maker: Maker | HostedMaker) -> None:
    """Refuse edits of what takes no source images: it would be paid for what the instructions say alone.

    Raises:
        ConfigError: There are edits among the images, and the maker makes none.
    """
    edits = sum(SOURCE in image.fields for image in todo)
    if edits and not maker.makes_edits:
        raise ConfigError(
            f"{maker.name} takes no source images, and there are edits among the images to make ({edits:,} of {len(todo):,}): "
            "use a model that makes edits, or a --command with {source}"
        )


def _make(
    todo: Iterable[ImageToMake],
    folder: ImageFolder,
    maker: Maker,
    progress: Generated,
    watch: Callable[[Generated], None],
) -> None:
    """Make images here, one after the other; stop when the first ones all fail."""
    failures = 0
    for image in todo:
        started = time.monotonic()
        try:
            raw = maker.make(image.fields)
            folder.add(image, raw, {**maker.settings, "seconds": round(time.monotonic() - started, 3)})
            progress.made += 1
        except DataError as error:
            progress.failed.append((image.label, error.message))
            failures += 1
            if failures >= _HOPELESS and not progress.made:
                progress.stopped = f"the first {failures} images failed, and no other was made"
                break
        finally:
            watch(progress)


def _ask(
    todo: Sequence[ImageToMake],
    folder: ImageFolder,
    maker: HostedMaker,
    ledgers: Path,
    progress: Generated,
    watch: Callable[[Generated], None],
    say: Callable[[str], None],
) -> None:
    """Have images made by a hosted model."""
    by_name = {image.name: image for image in todo}

    def keep(request: ImageRequest, answer: MadeImage, bill: Bill) -> None:
        details = {"revised_prompt": answer.revised_prompt, "version": answer.version}
        settings: Json = {**maker.settings, **{name: value for name, value in details.items() if value}}
        if not bill.unpriced:
            settings["cost"] = round(bill.cost, 6)
        size = folder.add(by_name[request.name], answer.raw, settings)
        progress.made += 1
        if maker.size is not None and maker.size != size:
            progress.odd.append((request.name, "{} x {} pixels, not {} x {}".format(*size, *maker.size)))
        if answer.others:
            progress.odd.append((request.name, f"the answer held {answer.others} more, which are not kept"))
        watch(progress)

    def leave(request: ImageRequest, status: Status, reason: str) -> None:
        image = by_name[request.name]
        if status in LISTS:
            folder.leave(image, status, reason, maker.settings)
        (progress.refused if status is Status.REFUSED else progress.failed).append((image.label, reason))

    if not todo:
        return
    ledger = ledgers / str(todo[0].fields["generator"])
    outcome = maker.make_all(requests(todo), ledger, keep, leave, say)
    progress.stopped, progress.outcome = outcome.ended, outcome


def requests(images: Iterable[ImageToMake]) -> list[ImageRequest]:
    """Make the requests for images."""
    return [
        ImageRequest(
            image.name, str(image.fields["prompt"]), int(image.fields["seed"]), tuple(sources_of(image.fields))
        )
        for image in images
    ]
