"""Make the images that a file asks for, where they belong in the data folder, and list them there."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from titjudge.apps.generate.hosted_maker import HostedMaker, Session
from titjudge.apps.generate.image_makers import Maker, sources_of
from titjudge.apps.generate.image_models import ImageRequest, MadeImage
from titjudge.core.cells import MAX_BYTES
from titjudge.core.errors import DataError, UserError
from titjudge.core.files import Appender, scan_jsonl, write_atomic
from titjudge.data.data_paths import inside
from titjudge.data.image_decoding import inspect
from titjudge.data.images import SUFFIXES, check_header
from titjudge.data.tables import scan_table
from titjudge.engine.budget import Bill
from titjudge.suites.base import check_generator
from titjudge.suites.prompt_places import GENERATOR, SOURCE, source_field
from titjudge.suites.samples import as_sample
from titjudge.suites.sources import named_sources, without_named_sources

REFUSED = "refused.jsonl"  # images that moderation refused
LEDGERS = Path(".generate")  # below the data folder: what each generator was paid
LIST = "metadata.jsonl"  # the name in an imagefolder of Hugging Face, which `judge --data` and `datasets` read
MADE = "made_with"  # key in every line that `generate` writes
_HOPELESS = 10  # failures before the first image, after which no more is tried


@dataclass(frozen=True, slots=True)
class ImageToMake:
    """An image to make.

    Attributes:
        row: The number of its line in the file, from 1.
        place: Where it is written.
        fields: Its line; sources of an edit are absolute paths.
    """

    row: int
    place: Path
    fields: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Its path below the data folder."""
        return str(self.fields["image"])

    @property
    def label(self) -> str:
        """How messages name it."""
        return f"row {self.row}, {self.name}"


@dataclass(slots=True)
class Generated:
    """Progress of `generate`.

    Attributes:
        total: Images to make.
        made: Images made.
        there: Images that existed already.
        failed: Row or name of an image that was not made, and why.
        refused: Those that moderation refused, likewise.
        stopped: Why it ended before every image was tried; empty where all were.
        session: What asking a hosted model came to.
    """

    total: int
    made: int = 0
    there: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    stopped: str = ""
    session: Session | None = None

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
    seen: dict[Path, int] = {}
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
            if (first := seen.setdefault(place, row)) != row:
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
        yield ImageToMake(row, place, {**without_named_sources(record), **fields, **source_field(sources)})


class ImageFolder:
    """The data folder: which images are there, and the lists of those that were made or refused. Used as a context manager.

    Args:
        out: The folder, which is made if it is missing.

    Raises:
        UserError: It has a list of images from elsewhere.
    """

    def __init__(self, out: Path) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self._listed = _listed(out / LIST)
        self.refused = {name: str(line.get("reason") or "") for name, line in _lines(out / REFUSED)}
        self._log, self._refusals = Appender(out / LIST), out / REFUSED

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()

    def holds(self, one: ImageToMake) -> bool:
        """Whether an image is there already; it is listed where it was not.

        Raises:
            DataError: The file is no image.
        """
        if not one.place.exists():
            return False
        check_header(one.place)
        if one.name not in self._listed:
            self._log.add(_line(one, {}))
        return True

    def add(self, one: ImageToMake, raw: bytes, settings: Mapping[str, Any]) -> None:
        """Put an image in its place, whole or not at all, and list it.

        Raises:
            DataError: It is no image, or has too many bytes.
            OSError: It cannot be written.
        """
        if len(raw) > MAX_BYTES:
            raise DataError(f"the image has {len(raw) / 2**20:.0f} MiB, more than {MAX_BYTES >> 20}")
        inspect(raw, one.place)
        write_atomic(one.place, raw)
        self._log.add(_line(one, settings))

    def refuse(self, one: ImageToMake, reason: str, settings: Mapping[str, Any]) -> None:
        """List an image that moderation refused, so that it is not asked for again."""
        with closing(Appender(self._refusals)) as refusals:
            refusals.add({**_line(one, settings), "reason": reason})


def generate(
    wanted: list[ImageToMake],
    out: Path,
    maker: Maker | HostedMaker,
    failed: list[tuple[str, str]],
    watch: Callable[[Generated], None],
    *,
    say: Callable[[str], None] = lambda line: None,
    retry_refused: bool = False,
) -> Generated:
    """Make the images that do not exist yet. Each is written whole, and Ctrl-C loses at most the one in progress.

    Args:
        wanted: The images.
        out: The data folder.
        maker: Makes them, one by one here or many at once elsewhere.
        failed: Invalid lines; images that fail are added.
        watch: Called after each image.
        say: Called with lines for the user.
        retry_refused: Ask again for images that moderation has refused.

    Raises:
        UserError: The folder has a list of images from elsewhere, or another process is asking for the same.
    """
    progress = Generated(len(wanted) + len(failed), failed=failed)
    with ImageFolder(out) as folder:
        todo = list(_missing(wanted, folder, progress, () if retry_refused else folder.refused))
        watch(progress)
        if isinstance(maker, HostedMaker):
            todo = todo if maker.makes_edits else list(_without_edits(todo, progress))
            _ask(todo, folder, maker, out / LEDGERS, progress, watch, say)
        else:
            _make(todo, folder, maker, progress, watch)
    return progress


def _missing(
    wanted: Iterable[ImageToMake], folder: ImageFolder, progress: Generated, refused: Container[str]
) -> Iterator[ImageToMake]:
    """Yield the images that are to be made, and count the others."""
    for one in wanted:
        try:
            if folder.holds(one):
                progress.there += 1
            elif one.name in refused:
                progress.refused.append((one.label, f"refused before: {folder.refused[one.name]}"))
            else:
                yield one
        except DataError as error:
            progress.failed.append((one.label, error.message))


def _without_edits(todo: Iterable[ImageToMake], progress: Generated) -> Iterator[ImageToMake]:
    """Yield the images that are no edits: for the others this model would be paid for what the prompt says alone."""
    for one in todo:
        if SOURCE in one.fields:
            reason = "this is an edit, and this model takes no source images: use another one, or --command"
            progress.failed.append((one.label, reason))
        else:
            yield one


def _make(
    todo: Iterable[ImageToMake],
    folder: ImageFolder,
    maker: Maker,
    progress: Generated,
    watch: Callable[[Generated], None],
) -> None:
    """Make images here, one after the other; stop when the first ones all fail."""
    failures = 0
    for one in todo:
        started = time.monotonic()
        try:
            raw = maker.make(one.fields)
            folder.add(one, raw, {**maker.settings, "seconds": round(time.monotonic() - started, 3)})
            progress.made += 1
        except DataError as error:
            progress.failed.append((one.label, error.message))
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
    by_name = {one.name: one for one in todo}

    def keep(request: ImageRequest, made: MadeImage, bill: Bill) -> None:
        more = {"revised_prompt": made.revised_prompt, "version": made.version}
        settings = {**maker.settings, **{name: value for name, value in more.items() if value}}
        folder.add(by_name[request.name], made.raw, settings | ({} if bill.unpriced else {"cost": round(bill.cost, 6)}))
        progress.made += 1
        watch(progress)

    if not todo:
        return
    ledger = ledgers / str(todo[0].fields["generator"])
    session = maker.make_all(requests(todo), ledger, keep, say)
    for request, reason in session.refused:
        one = by_name[request.name]
        folder.refuse(one, reason, maker.settings)
        progress.refused.append((one.label, reason))
    progress.failed += [(by_name[request.name].label, reason) for request, reason in session.failed]
    progress.stopped, progress.session = session.ended, session


def requests(wanted: Iterable[ImageToMake]) -> list[ImageRequest]:
    """Make the requests for images."""
    return [
        ImageRequest(one.name, str(one.fields["prompt"]), int(one.fields["seed"]), tuple(sources_of(one.fields)))
        for one in wanted
    ]


def _line(one: ImageToMake, settings: Mapping[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in one.fields.items() if key != "image"}
    return {"file_name": one.name, **rest, MADE: settings}


def _listed(file: Path) -> set[str]:
    """Read the names of the images in a list that `generate` has written."""
    return {name for name, _ in _lines(file)}


def _lines(file: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Read a list that `generate` has written: the name of each image, and its line.

    Raises:
        UserError: It was written by something else.
    """
    for number, record in scan_jsonl(file, whole=True) if file.exists() else ():
        if isinstance(record, DataError) or MADE not in record:
            raise UserError(f"{file}:{number}: this list of images is not one of `generate`: choose another --out")
        yield str(record.get("file_name")), record
