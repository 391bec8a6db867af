"""Make the images that a file asks for, where they belong in the data folder, and list them there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from titjudge.apps.generate.image_makers import Maker
from titjudge.core.cells import MAX_BYTES
from titjudge.core.errors import DataError, UserError
from titjudge.core.files import Appender, scan_jsonl, write_atomic
from titjudge.data.data_paths import inside
from titjudge.data.image_decoding import inspect
from titjudge.data.images import SUFFIXES, check_header
from titjudge.data.tables import scan_table
from titjudge.suites.base import check_generator
from titjudge.suites.prompt_places import GENERATOR, source_field
from titjudge.suites.samples import as_sample
from titjudge.suites.sources import named_sources, without_named_sources

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


@dataclass(slots=True)
class Generated:
    """Progress of `generate`.

    Attributes:
        total: Images to make.
        made: Images made.
        there: Images that existed already.
        failed: Row or name of an image that was not made, and why.
        stopped: Whether it ended after too many failures.
    """

    total: int
    made: int = 0
    there: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    stopped: bool = False

    @property
    def done(self) -> int:
        """Images that exist or have failed."""
        return self.made + self.there + len(self.failed)


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


def generate(
    wanted: list[ImageToMake],
    out: Path,
    maker: Maker,
    failed: list[tuple[str, str]],
    watch: Callable[[Generated], None],
) -> Generated:
    """Make the images that do not exist yet. Each is written whole, and Ctrl-C loses at most the one in progress.

    Raises:
        UserError: The folder has a list of images from elsewhere.
    """
    progress = Generated(len(wanted) + len(failed), failed=failed)
    out.mkdir(parents=True, exist_ok=True)
    listed = _listed(out / LIST)
    log = Appender(out / LIST)
    failures = 0
    try:
        for one in wanted:
            name = str(one.fields["image"])
            try:
                if one.place.exists():
                    check_header(one.place)
                    progress.there += 1
                    if name not in listed:
                        log.add(_line(one, {}))
                    continue
                started = time.monotonic()
                raw = maker.make(one.fields)
                if len(raw) > MAX_BYTES:
                    raise DataError(f"the image has {len(raw) / 2**20:.0f} MiB, more than {MAX_BYTES >> 20}")
                inspect(raw, one.place)
                write_atomic(one.place, raw)
                log.add(_line(one, {**maker.settings, "seconds": round(time.monotonic() - started, 3)}))
                progress.made += 1
            except DataError as error:
                progress.failed.append((f"row {one.row}, {name}", error.message))
                failures += 1
                if failures >= _HOPELESS and not progress.made:
                    progress.stopped = True
                    break
            finally:
                watch(progress)
    finally:
        log.close()
    return progress


def _line(one: ImageToMake, settings: Mapping[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in one.fields.items() if key != "image"}
    return {"file_name": one.fields["image"], **rest, MADE: settings}


def _listed(file: Path) -> set[str]:
    """Read the names of the images in a list that `generate` has written."""
    names = set()
    for number, record in scan_jsonl(file, whole=True) if file.exists() else ():
        if isinstance(record, DataError) or MADE not in record:
            raise UserError(f"{file}:{number}: this list of images is not one of `generate`: choose another --out")
        names.add(str(record.get("file_name")))
    return names
