"""The two kinds of file that comparisons read: CSV, and votes as CSV or JSON lines."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from titjudge.compare.votes import Vote
from titjudge.errors import DataError
from titjudge.jsonl import read_jsonl
from titjudge.types import Pair

COLUMNS = ("prompt_id", "image_a", "image_b", "annotator", "preference")
_SAME = {"left": "a", "right": "b"}


def csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """`(line, cells)` of every row that is not blank, the header among them.

    Raises:
        DataError: the file cannot be read, is not UTF-8 or not CSV.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            for row in reader:
                if any(cell.strip() for cell in row):
                    yield reader.line_num, row
    except UnicodeDecodeError as error:
        raise DataError("not UTF-8 text; save the file as UTF-8 CSV", path) from error
    except (OSError, csv.Error) as error:
        raise DataError(f"cannot be read: {getattr(error, 'strerror', None) or error}", path) from error


def read_votes(path: Path | str) -> list[Vote]:
    """Votes from a `.csv` with a header or from JSON lines, with the columns of `COLUMNS`; others are ignored.

    `preference` is a, b or tie (left and right mean a and b; case does not matter).

    Raises:
        DataError: with file and line, for a missing column or value, another preference, or a line that is no object.
    """
    path = Path(path)
    records = _csv_records(path) if path.suffix.lower() == ".csv" else _json_records(path)
    return [_vote(record, path, line) for line, record in records]


def pair_records(pairs: Sequence[Pair]) -> list[dict[str, str]]:
    """Pairs as the lines of a `pairs.jsonl`, or the rows of a `pairs.csv`."""
    return [
        {"prompt_id": p.group, "image_a": p.a, "image_b": p.b, "preference": p.preference, "source": p.source}
        for p in pairs
    ]


def _csv_records(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    rows = csv_rows(path)
    line, header = next(rows, (1, []))
    names = [name.strip() for name in header]
    lacking = [name for name in COLUMNS if name not in names]
    if lacking:
        raise DataError(f"no column '{lacking[0]}'; the first line must name {', '.join(COLUMNS)}", path, line)
    for line, cells in rows:
        if len(cells) != len(names):
            raise DataError(f"{len(cells)} cells where the first line has {len(names)} columns", path, line)
        yield line, dict(zip(names, cells, strict=True))


def _json_records(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise DataError("not UTF-8 text; save the file as UTF-8", path) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path) from error
    for line, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError("not JSON; each line must be one object", path, line) from error
        if not isinstance(record, dict):
            raise DataError("not an object; each line must be one, such as {...}", path, line)
        yield line, record


def _vote(record: Mapping[str, Any], path: Path, line: int) -> Vote:
    cells = []
    for name in COLUMNS:
        value = record.get(name)
        if isinstance(value, bool) or not isinstance(value, (str, int)) or not str(value).strip():
            raise DataError(f"'{name}' is missing or no text", path, line)
        cells.append(str(value).strip())
    group, a, b, annotator, choice = cells
    choice = _SAME.get(choice.lower(), choice.lower())
    if choice not in ("a", "b", "tie"):
        raise DataError(f"preference '{cells[-1]}' is not a, b or tie", path, line)
    return Vote(group, a, b, annotator, choice)


def read_human_scores(path: Path | str) -> dict[str, float]:
    """Human score by image id, from JSON lines or a CSV table with `image` and `score`.

    Raises:
        DataError: a column is missing, or a score is no finite number; names file and line.
    """
    path = Path(path)
    found: dict[str, float] = {}
    for line, record in _named(path) if path.suffix.lower() == ".csv" else read_jsonl(path):
        for key in ("image", "score"):
            if record.get(key) is None:
                raise DataError(f"'{key}' is missing", path, line)
        try:
            value = float(record["score"])
        except (TypeError, ValueError):
            value = math.nan
        if not math.isfinite(value):
            raise DataError(f"the score is a number, not '{record['score']}'", path, line)
        found[str(record["image"])] = value
    return found


def _named(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Lines of a CSV table as mappings from its first line's names."""
    names: list[str] | None = None
    for line, row in csv_rows(path):
        if names is None:
            names = row
        else:
            yield line, dict(zip(names, row, strict=False))
