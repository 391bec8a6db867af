"""Read text, YAML, JSON lines and CSV, with errors that name file and line; write files whole or not at all."""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import json
import os
import re
import stat
import tempfile
import weakref
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any, cast

import orjson

from titjudge.core.cells import check_columns
from titjudge.core.errors import ConfigError, DataError, file_fault, first_fault, must_be
from titjudge.core.gzip_files import GzipReader
from titjudge.core.names import plain
from titjudge.core.patterns import lazy_pattern
from titjudge.core.serialization import json_bytes, json_problem

_PADDED = lazy_pattern(r' *"[^"]*" +| +"[^"]*"')  # a cell in quotes with blanks around them
_FILE_NAME = lazy_pattern(r"\S(.*\S)?\.[A-Za-z]{2,5}[0-9]?")
_NUMERAL = lazy_pattern(r"[-+]?[\d.,]+")
_PROSE = lazy_pattern(
    r"[\s\u0e00-\u0eff\u1100-\u11ff\u3040-\u9fff\uac00-\ud7af]"
)  # blanks, and scripts that write few or none


def checked_quotes(row: list[str], lines: list[str], mark: str, width: int, path: Path, first: int) -> list[str]:
    """Return the cells of a row with quotes, read as they are written if the quotes do not follow CSV rules.

    Args:
        row: The cells, as `csv` reads them.
        lines: The lines of the row.
        mark: The separator.
        width: Number of columns; 0 for the header.
        path: The file, for messages.
        first: Number of the first line.

    Raises:
        DataError: A quote may have swallowed rows.
    """
    bare = [line.rstrip("\r\n").split(mark) for line in lines]
    if _strictly(lines, delimiter=mark) is not None:
        if len(lines) == 1 or not (_hold_rows(row, bare, width) if width else _are_even(bare, len(row))):
            return row
    elif not any(line.strip() for line in lines[1:]):
        escaped = _strictly(lines[:1], delimiter=mark, escapechar="\\", doublequote=False)
        if escaped is not None and '\\"' in lines[0]:
            return escaped
        padded = any(_PADDED.fullmatch(cell) for cell in bare[0])
        return row if padded or len(bare[0]) != (width or len(row)) else bare[0]
    last = first + len(lines) - 1
    raise DataError(
        f"a quote in line {first} opens a cell that ends in line {last}, and contains text that looks like rows. Double each "
        'quote inside a text, and put the cell in quotes: "a 5"" nail"',
        path,
        first,
    )


def _strictly(lines: Sequence[str], **form: Any) -> list[str] | None:
    """Read a row by the rules of CSV; None if its quotes do not follow them."""
    try:
        return next(csv.reader(iter(lines), strict=True, **form))
    except csv.Error:
        return None


def _are_even(lines: Iterable[Sequence[str]], width: int) -> bool:
    """Return True if each line alone has as many cells as a row, and none begins with a blank, as texts after a comma do."""
    return width > 1 and all(len(cells) == width and not any(cell[:1] == " " for cell in cells) for cells in lines)


def _hold_rows(row: Sequence[str], lines: Sequence[Sequence[str]], width: int) -> bool:
    """Return True if any of the lines of a row looks like a separate row.

    It has as many cells, and file names and numbers (without any, single words) in the columns where this row has them.
    """
    spans = [index for index, cell in enumerate(row) if "\n" in cell or "\r" in cell]
    if not spans:
        return False
    before, after = row[: spans[0]], row[spans[-1] + 1 :] if len(row) == width else []
    if not any(_kind(cell) not in ("", "text") for cell in (*before, *after)):
        return _are_even(lines, width)
    for index, cells in enumerate(lines):
        if _are_even([cells], width):
            pairs = [*zip(before, cells, strict=False)] if index else []
            pairs += zip(after, cells[width - len(after) :], strict=True) if index < len(lines) - 1 else []
            kinds = [(_kind(mine), _kind(other)) for mine, other in pairs]
            sure = [pair for pair in kinds if pair[0] in ("file", "number")]
            kinds = sure or [pair for pair in kinds if pair[0]]
            if kinds and all(mine == other for mine, other in kinds):
                return True
    return False


def _kind(cell: str) -> str:
    """Name what a cell is: a file name, a number, a word, or a text; empty for an empty cell."""
    cell = cell.strip().strip('"')
    if _FILE_NAME.fullmatch(cell):
        return "file"
    if _NUMERAL.fullmatch(cell):
        return "number"
    return "text" if _PROSE.search(cell) else cell and "word"


_NO_FILE = "a pipe or a device, not a file. Give a regular file"
_SQLITE = b"SQLite format 3\0"
_DATABASE = "a database, not a table. Give a table; `label export` writes the tables of a store of votes"
UTF16 = "this is UTF-16 text. Save the file as UTF-8"
_BOM = b"\xef\xbb\xbf"
_LINE = 4096  # bytes: nearly all lines are shorter
_DEEPEST = 50
_MOST_VALUES = 100_000
_MOST_DIGITS = 100
_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def is_utf16(head: bytes) -> bool:
    """Return True if a file is UTF-16 by its first bytes: a byte order mark, or a zero in every other byte."""
    return head.startswith(_MARKS) or (len(head) >= 4 and (not any(head[1:4:2]) or not any(head[0:4:2])))


def check_regular(path: Path) -> None:
    """Refuse files whose reading may block or never end.

    Raises:
        DataError: A pipe, a device or a socket.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise DataError(_NO_FILE, path)


def open_regular(path: Path) -> IO[bytes]:
    """Open a file to read its bytes; unlike `open` it never waits for a writer of a pipe.

    Raises:
        OSError: It cannot be opened.
        DataError: A pipe, a device or a socket.
    """
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise DataError(_NO_FILE, path)
    return os.fdopen(opened, "rb")


def read_text(path: Path) -> str:
    """Read a text file, without its byte order mark.

    Raises:
        DataError: It cannot be read, or is not UTF-8.
    """
    check_regular(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(file_fault(error), path) from error
    if is_utf16(raw):
        raise DataError(UTF16, path)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8 text (byte {error.start:,}). Save it as UTF-8", path) from error


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        DataError: It cannot be read, or is not JSON in UTF-8.
    """
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"not JSON: {json_fault(error)}", path, getattr(error, "lineno", None)) from error


_JSON_FAULTS = {
    "depth": "it is nested too deeply. Flatten it",
    "UTF-8|surrogate": "a text is not UTF-8, or has half of an emoji. Correct it",
    "Unterminated|end of data|empty": "it ends too early. Close every quotation mark and bracket",
    "trailing": "a comma before a closing bracket. Remove it",
    "control": "a line break or a control character in a text. Write \\n, or remove it",
    "scape": "an unknown escape in a text. Double the backslash",
    "Extra|after document": "more text after the value. Remove it",
    "": "{!r} is not expected. Put texts in double quotes, write null for NaN, and correct the commas",
}
_YAML_FAULTS = {
    "unacceptable": "a control character. Remove it",
    r"'\\t'": "a tab. Indent with spaces",
    "quoted scalar.*end of stream": "a quotation mark is not closed. Close it",
    "escape": "an unknown escape after a backslash. Use single quotes",
    "start any token|alias|tag|anchor": "a special character begins a text. Put the text in quotes",
    "flow": "a bracket is not closed, or a comma is missing. Add it",
    "another document": "a second document. Remove it",
    "": "a key or a colon in a wrong place. Align the keys, and put texts with a colon in quotes",
}


def json_fault(error: Exception) -> str:
    """Return the column and the fault of JSON that cannot be parsed, with the next action."""
    fault = first_fault(error, _JSON_FAULTS)
    if not isinstance(error, json.JSONDecodeError):
        return fault
    text = error.doc.rstrip()
    end = min(error.pos, len(text))
    return f"column {end - text.rfind(chr(10), 0, end)}: {fault.format(text[end : end + 12])}"


def _yaml_fault(error: Any, text: str) -> str:
    fault = first_fault(" ".join(str(error).split()), _YAML_FAULTS)
    mark = getattr(error, "context_mark" if "closed" in fault else "problem_mark", None)
    line = mark.line if mark else text.count("\n", 0, getattr(error, "position", 0))
    return f"line {line + 1}: {fault}"


def load_yaml(text: str, place: str = "") -> Any:
    """Parse YAML: only values that JSON has, no key twice, and a limited size and depth. Dates are texts.

    Raises:
        ConfigError: It is not YAML, or not of that kind; begins with `place`, such as "--set judge: ".
    """
    try:
        return _parsed_yaml(text)
    except ConfigError as error:
        raise ConfigError(f"{place}{error}") from error


def _parsed_yaml(text: str) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen: set[str] = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                    if key.value in seen:
                        raise ConfigError(
                            f"line {key.start_mark.line + 1}: duplicate key '{key.value[:80]}'. Remove one of the two"
                        )
                    seen.add(key.value)
            return super().construct_mapping(node, deep)

        def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
            if len(node.value) > _MOST_DIGITS:
                raise ConfigError(
                    f"line {node.start_mark.line + 1}: a number of {len(node.value):,} characters. Shorten it"
                )
            return super().construct_yaml_int(node)

    own = {"int": Loader.construct_yaml_int, "timestamp": Loader.construct_yaml_str}
    Loader.yaml_constructors = Loader.yaml_constructors | {
        f"tag:yaml.org,2002:{tag}": make for tag, make in own.items()
    }
    try:
        loader = Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _measure(node, {}, 0)
            content = loader.construct_document(node)
            if problem := json_problem(content):
                raise ConfigError(problem)
            return content
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise ConfigError(_yaml_fault(error, text)) from error
    except RecursionError as error:
        raise ConfigError(_JSON_FAULTS["depth"]) from error
    except (LookupError, TypeError, AttributeError, ArithmeticError, ValueError) as error:  # PyYAML, of `!!bool x`
        raise ConfigError("a value does not fit its tag. Remove the tag") from error


def _measure(node: Any, sizes: dict[int, int], depth: int) -> int:
    """Count the values in a YAML node, with aliases expanded."""
    if depth > _DEEPEST:
        raise ConfigError(f"it is nested more than {_DEEPEST} levels deep, or contains itself. Flatten it")
    if id(node) not in sizes:
        pairs = node.value if isinstance(node.value, list) else ()
        children = [child for pair in pairs for child in (pair if isinstance(pair, tuple) else (pair,))]
        sizes[id(node)] = 1 + sum(_measure(child, sizes, depth + 1) for child in children)
        if sizes[id(node)] > _MOST_VALUES:
            raise ConfigError(f"its aliases expand to more than {_MOST_VALUES:,} values. Remove some")
    return sizes[id(node)]


def read_yaml(path: Path, what: str, named_by: str = "") -> dict[str, Any]:
    """Read a YAML file that is a mapping, or empty.

    Args:
        path: The file.
        what: The kind of file, for messages (`a configuration`).
        named_by: The source of the path, for messages, if not from the command line (an environment variable).

    Raises:
        ConfigError: It cannot be read, is not UTF-8, not YAML, or not a mapping.
    """
    source = f"{named_by}: " if named_by else ""
    try:
        content = load_yaml(read_text(path), f"{source}{path}: ")
    except DataError as error:
        raise ConfigError(f"{source}{error}") from error
    if content is not None and not isinstance(content, dict):
        raise ConfigError(f"{source}{path}: {must_be(what, 'a mapping of keys', content)}")
    return content or {}


def scan_jsonl(
    path: Path, required: tuple[str, ...] = (), *, whole: bool = False
) -> Iterator[tuple[int, dict[str, Any] | DataError]]:
    """Yield line number and object of every line that is not blank; for a bad line the DataError that describes it.

    `whole` leaves out a last line without a newline.

    Raises:
        DataError: The file cannot be read, or is UTF-16.
    """
    return ((number, record) for number, _, record in locate_jsonl(path, required, whole=whole))


def packed(path: Path) -> Path | None:
    """Return `path` with `.gz` behind it, if only that is there: a published run has its lines packed."""
    file = path.parent / f"{path.name}.gz"
    return file if not path.is_file() and file.is_file() else None


def has_lines(path: Path) -> bool:
    """Return True if a JSONL file is there, plain or packed."""
    return path.is_file() or packed(path) is not None


def _opened_lines(path: Path) -> contextlib.AbstractContextManager[Iterable[bytes]]:
    """Open a file, plain or packed, for its lines as they are."""
    file = packed(path)
    return path.open("rb") if file is None else contextlib.nullcontext(GzipReader(file).lines())


def raw_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, plain or packed, as they are.

    Raises:
        OSError, DataError: It cannot be read.
    """
    with _opened_lines(path) as lines:
        yield from lines


def locate_jsonl(
    path: Path, required: tuple[str, ...] = (), *, whole: bool = False, strict: bool = False
) -> Iterator[tuple[int, int, dict[str, Any] | DataError]]:
    """Yield the lines as `scan_jsonl` does, each with its offset (bytes) in the file, at which `JsonlReader` reads it again.

    With `strict`, the first bad line is raised.
    """
    check_regular(path)
    offset, wanted = 0, set(required)
    try:
        with _opened_lines(path) as lines:
            for number, line in enumerate(lines, 1):
                start, offset = offset, offset + len(line)
                if number == 1:
                    if is_utf16(line):
                        raise DataError(UTF16, path)
                    if line.startswith(_SQLITE):
                        raise DataError(_DATABASE, path)
                    line = line.removeprefix(_BOM)
                if not line.strip() or (whole and not line.endswith(b"\n")):
                    continue
                try:
                    record = orjson.loads(line)
                    if isinstance(record, dict) and wanted <= record.keys():
                        yield number, start, record
                        continue
                    problem = (
                        missing_key(record, required)
                        if isinstance(record, dict)
                        else must_be("the line", "a JSON object", record)
                    )
                except orjson.JSONDecodeError as error:
                    problem = f"not JSON: {json_fault(error)}"
                bad = DataError(problem, path, number)
                if strict:
                    raise bad
                yield number, start, bad
    except OSError as error:
        raise DataError(file_fault(error), path) from error


class JsonlReader:
    """Reads objects of a JSONL file again, by the offsets that `locate_jsonl` gave; the file is closed with the reader.

    Raises:
        OSError, DataError: The file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if packed(path) is None else _unpacked(path)
        self.close = weakref.finalize(self, os.close, self._file)

    def read_at(self, offset: int) -> dict[str, Any]:
        line, size = os.pread(self._file, _LINE, offset), _LINE
        while (end := line.find(b"\n")) < 0 and (more := os.pread(self._file, size, offset + len(line))):
            line, size = line + more, 2 * size
        record: dict[str, Any] = orjson.loads(line[: end + 1 or None].removeprefix(_BOM))
        return record


def _unpacked(path: Path) -> int:
    """Unpack a file into one without a name, and open that: a record far into a packed file is found by unpacking up to it."""
    with tempfile.TemporaryFile() as file:
        file.writelines(raw_lines(path))
        file.flush()
        return os.dup(file.fileno())


def missing_key(record: Mapping[str, Any], required: Iterable[str]) -> str:
    """Report the required keys that a record does not have; an empty text if it has all."""
    absent = [f"'{key}'" for key in required if key not in record]
    return (
        f"the key{'s' * (len(absent) > 1)} {', '.join(absent)} {'are' if len(absent) > 1 else 'is'} missing. Add {'them' if len(absent) > 1 else 'it'}"
        if absent
        else ""
    )


def read_jsonl(path: Path, required: tuple[str, ...] = ()) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the lines as `scan_jsonl` does; the first bad line is raised.

    Raises:
        DataError: The file is missing, or a line is not UTF-8, not an object, or has no value for a required key.
    """
    lines = locate_jsonl(path, required, strict=True)
    return cast("Iterator[tuple[int, dict[str, Any]]]", ((number, record) for number, _, record in lines))


def write_atomic(path: Path, content: bytes | str, *, sync: bool = False) -> None:
    """Write a file whole or not at all; a missing folder is made.

    Args:
        path: The file.
        content: Its content.
        sync: Whether to wait for the disk (fsync), so that the file survives a power failure; may take long.

    Raises:
        OSError: It cannot be written; an existing file is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    try:
        with new.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        new.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)
        raise


def write_json(path: Path, content: Any, *, indent: int = 2, sync: bool = False) -> None:
    """Write JSON with non-ASCII characters as they are (lone surrogates become question marks), whole or not at all.

    Raises:
        OSError: It cannot be written; an existing file is unchanged.
    """
    write_atomic(path, json.dumps(content, ensure_ascii=False, indent=indent).encode(errors="replace"), sync=sync)


def write_jsonl(path: Path, records: Iterable[Any]) -> None:
    """Write records as JSON lines, whole or not at all."""
    write_atomic(path, jsonl_text(records))


class Appender:
    """Append objects to a JSONL file, each in one write that has reached the operating system when `add` returns.

    Opening removes a last line that a kill left incomplete. `sync` also waits for the disk, so that a line survives a
    power failure.
    """

    def __init__(self, path: Path, *, sync: bool = False) -> None:
        self.path, self._sync = path, sync
        _drop_incomplete_line(path)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def add(self, record: Any) -> None:
        """Append a whole line or nothing.

        Raises:
            OSError: It cannot be written (a full disk); names the file.
        """
        line = json_bytes(record, orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY)
        written = 0
        try:
            while written < len(line):
                written += os.write(self._file, line[written:])
            if self._sync:
                os.fsync(self._file)
        except OSError as error:
            if written:  # half a line would spoil the next one
                os.ftruncate(self._file, os.fstat(self._file).st_size - written)
            error.filename = str(self.path)
            raise

    def close(self) -> None:
        os.close(self._file)


def _drop_incomplete_line(path: Path) -> None:
    """Cut a file off behind its last line feed: a kill may have left half a line."""
    if not path.is_file():
        return
    with path.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        step = 1 << 16
        position = end
        while position > 0:
            start = max(0, position - step)
            file.seek(start)
            newline = file.read(position - start).rfind(b"\n")
            if newline >= 0:
                if start + newline + 1 < end:
                    file.truncate(start + newline + 1)
                return
            position = start
        file.truncate(0)


_FORMULA = tuple("=+-@\t＝＋－＠")
_SEPARATOR = re.compile(r"sep=([,;\t|])\s*")
_FIELD_LIMIT = 10_000_000  # characters; a prompt of 20,000 words is not a mistake


def csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield `(line, cells)` of every row that is not blank, with the header.

    The separator is a tab in `.tsv` files; in others it is found by the header. A cell that begins with a quote and does not end
    with one, such as `"STOP" sign`, is read as it is written.

    Raises:
        DataError: The file cannot be read, is neither UTF-8 nor UTF-16 with a byte order mark, or not CSV; or a cell in quotes goes
            over several lines and may have swallowed rows (names the first and the last line).
    """
    csv.field_size_limit(_FIELD_LIMIT)
    check_regular(path)
    taken: list[str] = []  # the lines of the row that is being read
    first_line = 1
    try:
        with _opened(path) as file:
            first = file.readline()
            tabs = path.name.lower().endswith((".tsv", ".tsv.gz"))
            separator = _SEPARATOR.fullmatch(first)  # a line that spreadsheets write before the header
            if separator is None:
                file.seek(0)
            mark = separator[1] if separator else "\t" if tabs else _delimiter(first)
            first_line += separator is not None
            width = 0
            for row in csv.reader(_kept(file, taken), delimiter=mark):
                if any('"' in line for line in taken):
                    row = checked_quotes(row, taken, mark, width, path, first_line)
                width = width or len(row)
                first_line += len(taken)
                taken.clear()
                if any(cell.strip() for cell in row):
                    yield first_line - 1, row
    except UnicodeDecodeError as error:
        raise DataError(f"not {error.encoding.upper()} text. Save the file as UTF-8 CSV", path) from error
    except csv.Error as error:
        problem = f"a cell has more than {_FIELD_LIMIT:,} characters. Close its quotation mark, or shorten it"
        raise DataError(problem, path, first_line) from error
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot be read: {file_fault(error)}", path) from error


def _kept(lines: Iterable[str], taken: list[str]) -> Iterator[str]:
    """Yield the lines, and add each to `taken`."""
    for line in lines:
        taken.append(line)
        yield line


def _delimiter(header: str) -> str:
    """Choose the separator that the header has most of: spreadsheets use the one of their locale."""
    plain = re.sub(r'"[^"]*"', "", header)
    return max(",;\t|", key=plain.count)


def csv_separator(path: Path) -> str:
    """Return the separator of the cells of a CSV or TSV file; empty for files of other formats, and unreadable ones."""
    name = path.name.lower().removesuffix(".gz")
    if not name.endswith((".csv", ".tsv")):
        return ""
    try:
        with _opened(path) as file:
            first = file.readline()
    except (UnicodeDecodeError, DataError, OSError, EOFError, zlib.error):
        return ""
    named = _SEPARATOR.fullmatch(first)
    return named[1] if named else "\t" if name.endswith(".tsv") else _delimiter(first)


def _opened(path: Path) -> IO[str]:
    """Open a CSV file, which may be compressed, and be the UTF-16 that Excel calls "Unicode text"."""
    file: Any = gzip.GzipFile(path) if path.suffix.lower() == ".gz" else path.open("rb")
    try:
        head = file.read(4)
        file.seek(0)
        if is_utf16(head) and not head.startswith(_MARKS):
            raise DataError(UTF16, path)
        return io.TextIOWrapper(file, encoding="utf-16" if head.startswith(_MARKS) else "utf-8-sig", newline="")
    except BaseException:
        file.close()
        raise


def jsonl_text(records: Iterable[Any]) -> str:
    """Write records as JSON lines."""
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Write a table as CSV in which a spreadsheet finds no formula.

    A text that a spreadsheet would take for a formula gets an apostrophe in front, which `scan_csv` removes, and
    carriage returns inside cells are replaced.
    """
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    for row in (columns, *rows):
        writer.writerow([_guarded(cell) for cell in row])
    return out.getvalue()


def _guarded(cell: Any) -> Any:
    if not isinstance(cell, str):
        return "" if cell is None else cell
    text = cell.replace("\r\n", "\n").replace("\r", " ").replace("\0", "")
    return f"'{text}" if _is_formula(text) else text


def _unguarded(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and _is_formula(cell) else cell


def _is_formula(text: str) -> bool:
    """Return True if a spreadsheet would take a text for a formula, without the apostrophes in front of it."""
    bare = text.lstrip("'")
    return bare.startswith(_FORMULA) or bare.lstrip().startswith(_FORMULA)


def scan_csv(path: Path, required: tuple[str, ...] = ()) -> Iterator[tuple[int, dict[str, Any] | DataError]]:
    """Yield line number and cells by column name of every row; for a bad row the DataError that describes it.

    Cells may be missing at the end of a row, except in required columns: they are None. An apostrophe in front
    of a formula (`'=1`) is not part of the text.

    Raises:
        DataError: The file cannot be read, or a required column is missing.
    """
    rows = csv_rows(path)
    line, header = next(rows, (1, []))
    names = [plain(name) for name in header]
    check_columns(names, required, path, line)
    for line, cells in rows:
        record = dict(zip_longest(names, map(_unguarded, cells[: len(names)])))
        if len(cells) > len(names) or any(record[name] is None for name in required):
            problem = f"{len(cells)} cells where the first line has {len(names)} columns"
            hint = "Put a text with commas in quotes" if len(cells) > len(names) else "Add cells"
            yield line, DataError(f"{problem}. {hint}", path, line)
        else:
            yield line, record


def csv_columns(path: Path) -> tuple[str, ...]:
    """Read the names of the columns of a CSV file.

    Raises:
        DataError: The file cannot be read.
    """
    return tuple(plain(name) for name in next(csv_rows(path), (1, []))[1])
