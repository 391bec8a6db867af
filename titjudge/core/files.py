"""JSON lines: read with names for what is wrong, appended so that a kill loses at most the line being written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from titjudge.core.errors import DataError
from titjudge.core.textfile import UTF16, check_regular, is_utf16


def scan_jsonl(
    path: Path, required: tuple[str, ...] = (), *, whole: bool = False
) -> Iterator[tuple[int, dict[str, Any] | DataError]]:
    """Line number and object of every line that is not blank; a bad line comes as the DataError that describes it.

    `whole` leaves out a last line that has no end.

    Raises:
        DataError: the file cannot be read, or is UTF-16.
    """
    check_regular(path)
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if number == 1:
                    if is_utf16(line):
                        raise DataError(UTF16, path)
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if line.strip() and (line.endswith(b"\n") or not whole):
                    yield number, _object(line, path, number, required)
    except OSError as error:
        raise DataError(error.strerror or str(error), path) from error


def _object(line: bytes, path: Path, number: int, required: tuple[str, ...]) -> dict[str, Any] | DataError:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return DataError(f"not a JSON object in UTF-8 ({error})", path, number)
    if not isinstance(record, dict):
        return DataError("every line is a JSON object", path, number)
    absent = [key for key in required if key not in record]
    return DataError(f"the key '{absent[0]}' is missing", path, number) if absent else record


def read_jsonl(path: Path, required: tuple[str, ...] = ()) -> Iterator[tuple[int, dict[str, Any]]]:
    """Like `scan_jsonl`, for files in which every line must be good.

    Raises:
        DataError: missing file, not UTF-8, not an object, or a required key is absent; names file and line.
    """
    for number, record in scan_jsonl(path, required):
        if isinstance(record, DataError):
            raise record
        yield number, record


class Appender:
    """Appends objects to a JSONL file, each in one write, flushed to the operating system before `add` returns.

    Opening cuts off a last line that a kill left incomplete.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        _drop_incomplete_line(path)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def add(self, record: Any) -> None:
        """Append a whole line or nothing.

        Raises:
            OSError: it cannot be written (a full disk); names the file.
        """
        line = orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY)
        written = 0
        try:
            while written < len(line):
                written += os.write(self._file, line[written:])
        except OSError as error:
            if written:  # half a line would spoil the next one
                os.ftruncate(self._file, os.fstat(self._file).st_size - written)
            error.filename = str(self.path)
            raise

    def close(self) -> None:
        os.close(self._file)


def _drop_incomplete_line(path: Path) -> None:
    if not path.is_file():
        return
    with path.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        step = 1 << 16
        at = end
        while at > 0:
            start = max(0, at - step)
            file.seek(start)
            newline = file.read(at - start).rfind(b"\n")
            if newline >= 0:
                if start + newline + 1 < end:
                    file.truncate(start + newline + 1)
                return
            at = start
        file.truncate(0)
