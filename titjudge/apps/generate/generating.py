"""Make the images that a file asks for, at their paths in the data folder, and list them there."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

from titjudge.apps.generate.image_makers import HostedMaker, Maker, MakingOutcome, PlacedRequest, make_all
from titjudge.apps.generate.image_models import ImageRequest, MadeImage
from titjudge.core.cells import MAX_BYTES
from titjudge.core.errors import ConfigError, DataError, UserError, must_be
from titjudge.core.files import Appender, scan_jsonl
from titjudge.core.numbers import as_sample
from titjudge.core.serialization import json_bytes, short_digest
from titjudge.core.types import Json, Status, Values
from titjudge.data.data_paths import inside, relative_below
from titjudge.data.image_decoding import as_png, inspect
from titjudge.data.images import SUFFIXES, check_header
from titjudge.data.tables import scan_table
from titjudge.engine.budget import Bill
from titjudge.engine.rate_limiter import PromptTurn
from titjudge.suites.base import check_generator
from titjudge.suites.manifests import GENERATED, MADE, SOURCE_DIGESTS
from titjudge.suites.patterns import GENERATOR, SOURCE, source_field, sources_of
from titjudge.suites.sources import content_name, named_sources, without_named_sources

# Images that are not requested again: refused by moderation, or paid for without a usable image in the answer.
LISTS = {Status.REFUSED: "refused.jsonl", Status.UNPARSED: "failed.jsonl"}
_PNG = b"\x89PNG\r\n"
_ANEW = "delete the file to generate it again, or choose another --out"


@dataclass(frozen=True, slots=True)
class ImageToMake:
    """An image to make.

    Attributes:
        row: The number of its line in the file, from 1.
        place: The path of its file.
        fields: Its line; sources of an edit are absolute paths.
        source_digests: The content of these sources (`content_name`) when the line was read.
    """

    row: int
    place: Path
    fields: Values
    source_digests: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its path below the data folder."""
        return str(self.fields["image"])

    @property
    def label(self) -> str:
        """How messages name it."""
        return f"row {self.row}, {self.name}"


class ImageFolder:
    """The data folder: the images in it, and the lists of images that were made or refused. Used as a context manager.

    Args:
        out: The folder, which is made if it is missing.

    Raises:
        UserError: It has a list of images from elsewhere.
    """

    def __init__(self, out: Path) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self._out, self._listed = out, _origins(out / GENERATED)
        self._in_vain = {
            name: (_Origin.of_line(line), status, str(line.get("reason") or ""))
            for status, file in LISTS.items()
            for name, line in _lines(out / file)
        }
        self._log, self._place = Appender(out / GENERATED), os.open(out, os.O_RDONLY | os.O_DIRECTORY)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()
        os.close(self._place)

    def holds(self, image: ImageToMake) -> bool:
        """Return True if an image is there already; it is listed if it was not.

        Raises:
            DataError: The file is not an image, or was made of another prompt or source.
        """
        if not image.place.exists():
            return False
        check_header(image.place)
        if image.name not in self._listed:
            self._log.add(self._line(image, {}))
        elif change := self._listed[image.name].change(image):
            raise DataError(f"{change}: {_ANEW}")
        return True

    def in_vain(self, image: ImageToMake) -> tuple[Status, str] | None:
        """Return why this image of this prompt and these sources is not asked for again (`LISTS`); None if it may be."""
        origin, status, reason = self._in_vain.get(image.name, (None, Status.OK, ""))
        return None if origin is None or origin.change(image) else (status, reason)

    def add(self, image: ImageToMake, raw: bytes, settings: Values) -> tuple[int, int]:
        """Put an image in its place, whole or not at all, and list it; returns its width and height.

        In a `.png` file an image of another format is stored as PNG, without loss.

        Raises:
            DataError: It is not an image, or has too many bytes.
            OSError: It cannot be written.
        """
        if len(raw) > MAX_BYTES:
            raise DataError(
                f"the image has {len(raw) / 2**20:.0f} MiB, more than {MAX_BYTES >> 20}. Generate smaller images"
            )
        facts = inspect(raw, image.place)
        if image.place.suffix.lower() == ".png" and not raw.startswith(_PNG):
            raw = as_png(raw, image.place)
        self._write(Path(image.name), raw)
        size = facts["width"], facts["height"]
        self._log.add(self._line(image, {**settings, "size": list(size)}))
        return size

    @contextlib.contextmanager
    def _named(self, name: Path) -> Iterator[None]:
        """Name an image by its path in an error."""
        try:
            yield
        except OSError as error:
            error.filename, error.filename2 = str(self._out / name), None
            raise

    def _write(self, name: Path, raw: bytes) -> None:
        """Write an image whole or not at all: into the folder that was opened, wherever it has been moved meanwhile."""
        with contextlib.ExitStack() as opened, self._named(name):
            folder = self._place
            for part in name.parent.parts:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
                folder = os.open(part, os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
                opened.callback(os.close, folder)
            new = f".{name.name}.new"
            try:
                with open(new, "wb", opener=lambda path, flags: os.open(path, flags, 0o644, dir_fd=folder)) as file:
                    file.write(raw)
                os.replace(new, name.name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(new, dir_fd=folder)
                raise

    def leave(self, image: ImageToMake, status: Status, reason: str, settings: Values) -> None:
        """List an image that was asked for in vain (`LISTS`), so that it is not asked for again."""
        if os.path.samestat(os.stat(self._out), os.fstat(self._place)):
            with contextlib.closing(Appender(self._out / LISTS[status])) as lines:
                lines.add({**self._line(image, settings), "reason": reason})

    def _line(self, image: ImageToMake, settings: Values) -> Json:
        """Return the line of an image; sources below the folder get relative paths, so that it can be moved."""
        line = {"file_name": image.name, **{key: value for key, value in image.fields.items() if key != "image"}}
        if SOURCE in line:
            names = [relative_below(self._out, str(source)) for source in sources_of(line)]
            line[SOURCE] = names[0] if len(names) == 1 else names
        digests = {SOURCE_DIGESTS: list(image.source_digests)} if image.source_digests else {}
        return {**line, MADE: {**settings, **digests}}


def changed(images: Iterable[ImageToMake], out: Path) -> Iterator[tuple[ImageToMake, str]]:
    """Yield the images that exist but were made from another prompt or source than requested now, with the remedy.

    Raises:
        UserError: The folder has a list of images from elsewhere.
    """
    listed = _origins(out / GENERATED)
    for image in images:
        if image.name in listed and image.place.exists() and (change := listed[image.name].change(image)):
            yield image, f"{change}: {_ANEW}"


class _Origin(NamedTuple):
    """The inputs that an image was made from.

    Attributes:
        prompt: A digest of the prompt.
        sources: Digests of its sources.
    """

    prompt: bytes
    sources: tuple[str, ...]

    @classmethod
    def of_line(cls, line: Values) -> _Origin:
        settings = line[MADE] if isinstance(line[MADE], Mapping) else {}
        return cls(_digest(line.get("prompt")), tuple(settings.get(SOURCE_DIGESTS, ())))

    def change(self, image: ImageToMake) -> str:
        """Describe how the image differs in prompt or sources from the requested one; empty if it does not."""
        if self.prompt != _digest(image.fields["prompt"]):
            return "it is there, made of another prompt"
        if self.sources != image.source_digests:
            return "it is there, made from another source image"
        return ""


def _digest(prompt: Any) -> bytes:
    return short_digest(json_bytes(prompt))  # as it is written


def _origins(file: Path) -> dict[str, _Origin]:
    """Read what the images in a list were made of; of one that is listed again the last line counts."""
    return {name: _Origin.of_line(line) for name, line in _lines(file)}


def _lines(file: Path) -> Iterator[tuple[str, Values]]:
    """Read a list that `generate` has written: the name of each image, and its line.

    Raises:
        UserError: It was written by something else.
    """
    for number, record in scan_jsonl(file, whole=True) if file.exists() else ():
        if isinstance(record, DataError) or MADE not in record:
            raise UserError(f"{file}:{number}: `generate` did not write this list of images. Choose another --out")
        yield str(record.get("file_name")), record


LEDGERS = Path(".generate")  # below the data folder: the payments to each generator
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
        stopped: Why it ended before every image was tried; empty if all were.
        untried: The prompts of images that a hosted model was not asked for.
        outcome: The result of requests to a hosted model.
    """

    total: int
    made: int = 0
    there: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    odd: list[tuple[str, str]] = field(default_factory=list)
    stopped: str = ""
    untried: set[str] = field(default_factory=set)
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
        DataError: The file cannot be read, or the generator is not a folder name.
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
                raise DataError(must_be("the prompt", "a text that is not empty", prompt))
            if Path(image).suffix.lower() not in SUFFIXES:
                raise DataError(f"'{image[:200]}' must end in one of {', '.join(sorted(SUFFIXES))}")
            place = inside(out, image)
            if (first := rows_by_place.setdefault(place, row)) != row:
                raise DataError(f"duplicate image '{image[:200]}' (first in row {first}). Give each row another image")
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
        retry_failed: Ask again for images that moderation has refused, or whose paid answers had no usable image.

    Raises:
        UserError: The folder has a list of images from elsewhere, another process is asking for the same, or edits are
            requested from a maker that makes none.
    """
    progress = Generated(len(images) + len(failed), failed=failed)
    generate_all([Making(images, maker, progress, watch)], out, say=say, retry_failed=retry_failed)
    if progress.outcome is not None and progress.outcome.interrupted:
        raise KeyboardInterrupt
    return progress


@dataclass(frozen=True, slots=True)
class Making:
    """The images of one generator.

    Attributes:
        images: The images.
        maker: Makes them.
        progress: Counts them.
        watch: Called after each image.
    """

    images: Sequence[ImageToMake]
    maker: Maker | HostedMaker
    progress: Generated
    watch: Callable[[Generated], None]


def generate_all(
    makings: Sequence[Making],
    out: Path,
    *,
    say: Callable[[str], None],
    by_prompt: bool = False,
    retry_failed: bool = False,
) -> None:
    """Make the images of generators that do not exist yet.

    Args:
        makings: The generators.
        out: The data folder.
        say: Called with lines for the user.
        by_prompt: Go prompt by prompt over the hosted models, so that a stopped session leaves whole prompts.
        retry_failed: As of `generate`.

    Raises:
        UserError: As `generate`.
    """
    with ImageFolder(out) as folder:
        missing = [[*_missing(one.images, folder, one.progress, retry_failed=retry_failed)] for one in makings]
        for one, todo in zip(makings, missing, strict=True):
            check_makes_edits(todo, one.maker)
            one.watch(one.progress)
        hosted: list[tuple[Making, HostedMaker, ImageToMake]] = []
        ledgers: dict[Path, HostedMaker] = {}
        for one, todo in zip(makings, missing, strict=True):
            if not isinstance(one.maker, HostedMaker):
                _make(todo, folder, one.maker, one.progress, one.watch)
                if one.progress.stopped:
                    return
            elif one.images:  # also without an image to make: what it has cost counts against the cap
                ledgers[out / LEDGERS / str(one.images[0].fields["generator"])] = one.maker
                hosted += [(one, one.maker, image) for image in todo]
        if hosted:
            order = {prompt: PromptTurn(number) for number, prompt in enumerate(_prompts(makings) if by_prompt else ())}
            _ask(hosted, order, folder, ledgers, say)


def _prompts(makings: Iterable[Making]) -> dict[str, None]:
    """List the prompts of the images, each once, in order."""
    return dict.fromkeys(str(image.fields["prompt_id"]) for one in makings for image in one.images)


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
    """Refuse edits by a maker that takes no source images: it would be paid for following only the instructions.

    Raises:
        ConfigError: There are edits among the images, and the maker makes none.
    """
    edits = sum(SOURCE in image.fields for image in todo)
    if edits and not maker.makes_edits:
        raise ConfigError(
            f"{maker.name} cannot use source images, but {edits:,} of {len(todo):,} images are edits. Use a model that makes "
            "edits, or a --command with {source}"
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
    todo: Sequence[tuple[Making, HostedMaker, ImageToMake]],
    turns: Mapping[str, PromptTurn],
    folder: ImageFolder,
    ledgers: Mapping[Path, HostedMaker],
    say: Callable[[str], None],
) -> None:
    """Have images made by hosted models, in the order of the turns of their prompts."""
    by_name = {image.name: (one, maker, image) for one, maker, image in todo}

    def keep(request: ImageRequest, answer: MadeImage, bill: Bill) -> None:
        one, maker, image = by_name[request.name]
        progress = one.progress
        details = {"revised_prompt": answer.revised_prompt, "version": answer.version, "seconds": answer.seconds}
        settings = {**maker.settings, **{name: value for name, value in details.items() if value}}
        if not bill.unpriced:
            settings["cost"] = round(bill.cost, 6)
        size = folder.add(image, answer.raw, settings)
        del by_name[request.name]
        progress.made += 1
        if maker.size is not None and maker.size != size:
            progress.odd.append((request.name, "{} x {} pixels, not {} x {}".format(*size, *maker.size)))
        if answer.others:
            progress.odd.append((request.name, f"the answer had {answer.others} more, which are not kept"))
        one.watch(progress)

    def leave(request: ImageRequest, status: Status, reason: str) -> None:
        one, maker, image = by_name.pop(request.name)
        if status in LISTS:
            folder.leave(image, status, reason, maker.settings)
        progress = one.progress
        (progress.refused if status is Status.REFUSED else progress.failed).append((image.label, reason))

    wanted = [
        PlacedRequest(maker.role, request, turns.get(str(image.fields["prompt_id"])))
        for _, maker, image in todo
        for request in requests([image])
    ]
    wanted.sort(key=lambda one: one.turn.number if one.turn else 0)
    outcome = make_all(wanted, ledgers, keep, leave, say)
    for one, _, image in by_name.values():
        one.progress.untried.add(str(image.fields["prompt_id"]))
    for one, _, _ in todo:
        one.progress.stopped, one.progress.outcome = outcome.ended, outcome


def requests(images: Iterable[ImageToMake]) -> list[ImageRequest]:
    """Make the requests for images."""
    return [
        ImageRequest(
            image.name, str(image.fields["prompt"]), int(image.fields["seed"]), tuple(sources_of(image.fields))
        )
        for image in images
    ]
