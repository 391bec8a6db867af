"""JSON files as tables: an array of objects, COCO captions, objects by file names (DiffusionDB) or ids (PIE-Bench), or JSON lines."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from titjudge.core.cells import IMAGE_ENDINGS
from titjudge.core.errors import DataError, file_fault, must_be
from titjudge.core.files import json_fault, missing_key, open_regular, read_json, scan_jsonl
from titjudge.core.types import Json, Values

SUFFIX = ".json"
_LARGEST = 2**28  # bytes of a file that is read as a whole
_DIFFUSION_DB = {"p": "prompt", "se": "seed"}  # its key of a record, and the usual name


def columns(path: Path) -> tuple[str, ...] | None:
    """Return None: rows may have different columns."""
    return None


def rows(path: Path, required: tuple[str, ...] = ()) -> Iterator[tuple[int, Json | DataError]]:
    """Yield number, from 1, and record of every row; for a bad one the DataError that describes it.

    A row is an element of an array (alone, or as the only key of an object), a caption of COCO (with the keys of its image), an image of an object whose keys are file
    names (as DiffusionDB's `part-000001.json`; the file name is the key `image`) or ids (as PIE-Bench's `mapping_file.json`; the id
    is the key `id`), or a line of JSON lines.

    Raises:
        DataError: It cannot be read, or is JSON of another kind.
    """
    content = _whole(path)
    if content is None:
        yield from scan_jsonl(path, required)
        return
    for number, row in enumerate(_records(content, path), 1):
        yield number, _checked(row, path, number, required)


def _whole(path: Path) -> list[Any] | Json | None:
    """Read a file that is one array or object; None of JSON lines, which may be of any size."""
    first, size = _first_line(path)
    array = first.startswith(b"[")
    try:
        record = {} if array else orjson.loads(first)
        if not array and not (
            isinstance(record, dict) and (_only_list(record) or _is_coco(record) or _is_by_name(record))
        ):
            return None
    except orjson.JSONDecodeError:  # an object of several lines, or a bad line of JSON lines
        try:
            content: Any = read_json(path) if size <= _LARGEST else None
        except DataError:
            return None
        return content if isinstance(content, dict) else None
    if size > _LARGEST:
        raise DataError(
            f"one JSON value of {size / 2**20:,.0f} MiB, more than {_LARGEST >> 20}. Write one object per line with jq -c '.[]'",
            path,
        )
    content = read_json(path)
    return content if isinstance(content, list | dict) else None


def _first_line(path: Path) -> tuple[bytes, int]:
    """Read the first line that is not blank; return it and the size of the file in bytes."""
    try:
        with open_regular(path) as file:
            line = file.readline(_LARGEST)
            first = line.removeprefix(b"\xef\xbb\xbf").strip()
            while line and not first:
                line = file.readline(_LARGEST)
                first = line.strip()
            return first, os.fstat(file.fileno()).st_size
    except OSError as error:
        raise DataError(file_fault(error), path) from error


def _only_list(content: Values) -> list[Any] | None:
    """Return the rows of an object with nothing but a list of objects: `{"data": [...]}`."""
    rows = next(iter(content.values()), None) if len(content) == 1 else None
    return rows if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows) else None


def _is_coco(content: Values) -> bool:
    return isinstance(content.get("images"), list) and isinstance(content.get("annotations"), list)


def _is_by_name(content: Values) -> bool:
    """Return True if an object has images by their file names, or nothing but objects."""
    name, record = next(iter(content.items()), ("", None))
    by_file = isinstance(record, dict) and name.lower().endswith(IMAGE_ENDINGS)
    return by_file or (bool(content) and all(isinstance(value, dict) for value in content.values()))


def _records(content: list[Any] | Json, path: Path) -> Iterable[Any]:
    """Yield the rows; for a bad one the DataError that describes it, without its place.

    Raises:
        DataError: It is an object of another kind.
    """
    if isinstance(content, list):
        return content
    if rows := _only_list(content):
        return rows
    if _is_coco(content):
        return _captions(content["images"], content["annotations"], path)
    if _is_by_name(content):
        by_file = next(iter(content)).lower().endswith(IMAGE_ENDINGS)
        return (
            {
                "image" if by_file else "id": name,
                **{_DIFFUSION_DB.get(key, key): value for key, value in record.items()},
            }
            if isinstance(record, dict)
            else DataError(must_be(f"'{name:.80}'", "an object", record))
            for name, record in content.items()
        )
    raise DataError(
        "one JSON object, but neither COCO captions nor objects by file name or id. Write an array of objects", path
    )


def _captions(images: list[Any], annotations: list[Any], path: Path) -> Iterator[Any]:
    """Yield a row for each caption of COCO, with its image's keys; then what is wrong with images that have none."""
    by_id = {str(image["id"]): image for image in images if isinstance(image, dict) and "id" in image}
    without = dict.fromkeys(by_id)
    nameless = sum(not isinstance(image, dict) or "id" not in image for image in images)
    if not any(isinstance(annotation, dict) and "caption" in annotation for annotation in annotations):
        raise DataError("COCO annotations without a caption. Use captions_*.json", path)
    for caption in annotations:
        if not isinstance(caption, dict):
            yield DataError(must_be("the annotation", "a JSON object", caption))
            continue
        image_id = str(caption.get("image_id"))
        without.pop(image_id, None)
        yield (
            {**by_id[image_id], **caption}
            if image_id in by_id
            else DataError(f"there is no image with the id {image_id:.40}. Add it to images")
        )
    yield from [DataError("an image has no id. Add it")] * nameless
    yield from (
        DataError(f"the image with the id {image_id:.40} has no caption. Add one, or remove the image")
        for image_id in without
    )


def _checked(row: Any, path: Path, number: int, required: tuple[str, ...]) -> Json | DataError:
    if isinstance(row, DataError):
        return DataError(row.message, path, number)
    if not isinstance(row, dict):
        return DataError(must_be("the row", "a JSON object", row), path, number)
    try:
        orjson.dumps(row)
    except TypeError as error:  # half an emoji, a whole number of 30 digits
        return DataError(f"not JSON: {json_fault(error)}", path, number)
    absent = missing_key(row, required)
    return DataError(absent, path, number) if absent else row
