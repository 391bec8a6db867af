"""The folder that images are made into: which are there, what they were made of, and which were paid or refused in vain."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from titjudge.core.cells import MAX_BYTES
from titjudge.core.errors import DataError, UserError
from titjudge.core.files import Appender, scan_jsonl
from titjudge.core.serialization import json_bytes, short_digest
from titjudge.core.types import Json, Status, Values
from titjudge.data.data_paths import relative_below
from titjudge.data.image_decoding import as_png, inspect
from titjudge.data.images import check_header
from titjudge.suites.manifests import GENERATED, MADE, SOURCE_DIGESTS
from titjudge.suites.patterns import SOURCE, sources_of

# Images that are not asked for again: those that moderation refused, and those whose paid answers held no usable image.
LISTS = {Status.REFUSED: "refused.jsonl", Status.UNPARSED: "failed.jsonl"}
_PNG = b"\x89PNG\r\n"
_ANEW = "delete the file to have it made anew, or choose another --out"


@dataclass(frozen=True, slots=True)
class ImageToMake:
    """An image to make.

    Attributes:
        row: The number of its line in the file, from 1.
        place: Where it is written.
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
    """The data folder: which images are there, and the lists of those that were made or refused. Used as a context manager.

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
        """Whether an image is there already; it is listed where it was not.

        Raises:
            DataError: The file is no image, or was made of another prompt or source.
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
            DataError: It is no image, or has too many bytes.
            OSError: It cannot be written.
        """
        if len(raw) > MAX_BYTES:
            raise DataError(f"the image has {len(raw) / 2**20:.0f} MiB, more than {MAX_BYTES >> 20}")
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
        """Return the line of an image; sources below the folder are named relative to it, so that it can be moved."""
        line = {"file_name": image.name, **{key: value for key, value in image.fields.items() if key != "image"}}
        if SOURCE in line:
            names = [relative_below(self._out, str(source)) for source in sources_of(line)]
            line[SOURCE] = names[0] if len(names) == 1 else names
        digests = {SOURCE_DIGESTS: list(image.source_digests)} if image.source_digests else {}
        return {**line, MADE: {**settings, **digests}}


def changed(images: Iterable[ImageToMake], out: Path) -> Iterator[tuple[ImageToMake, str]]:
    """Yield the images that are there and were made of another prompt or source than is wanted now, and what to do.

    Raises:
        UserError: The folder has a list of images from elsewhere.
    """
    listed = _origins(out / GENERATED)
    for image in images:
        if image.name in listed and image.place.exists() and (change := listed[image.name].change(image)):
            yield image, f"{change}: {_ANEW}"


class _Origin(NamedTuple):
    """What an image was made of.

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
        """Describe how the image differs in prompt or sources from the one that is asked for now; empty where it does not."""
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
            raise UserError(f"{file}:{number}: this list of images is not one of `generate`: choose another --out")
        yield str(record.get("file_name")), record
