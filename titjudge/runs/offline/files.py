"""Write the questions of an offline batch to files, and read answers from files."""

from __future__ import annotations

import contextlib
import itertools
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from titjudge.core.answer_probabilities import FirstToken
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.files import scan_jsonl
from titjudge.core.serialization import without_surrogates
from titjudge.core.types import Json, Reply, Status, Values
from titjudge.providers import ProviderSettings
from titjudge.providers.hosted import http
from titjudge.providers.hosted.failures import ProviderFailure
from titjudge.providers.hosted.openai import OpenAI

IMPORTED = "imported"  # flag of an answer that came from a file
Rank = tuple[bytes, str, str]


@dataclass(slots=True)
class Exported:
    """What `export` wrote.

    Attributes:
        requests: How many questions.
        files: The files; one that is empty where there is nothing to ask.
    """

    requests: int = 0
    files: list[Path] = field(default_factory=list)


@dataclass(slots=True)
class ImportedAnswers:
    """What became of the lines of an answer file.

    Attributes:
        imported: Number of answers that were stored.
        already: Number of answers to questions that had one.
        unusable: Key and reason of each line without an answer that fits.
        unknown: Keys of answers to what this run does not ask, or not yet.
        bad: Malformed lines, each with file and line.
    """

    imported: int = 0
    already: int = 0
    unusable: list[tuple[str, str]] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)


class SplitJsonlWriter:
    """Collects lines in any order in a temporary file, and writes them sorted to files of limited size.

    Args:
        out: The first file; further ones are NAME-2.jsonl, NAME-3.jsonl, ...
        most: Most lines of a file.
        most_bytes: Most bytes of a file.
    """

    def __init__(self, out: Path, most: int, most_bytes: int) -> None:
        if out.is_dir():
            raise ConfigError(f"{out} is a folder: --out names a file")
        self.out, self._most, self._most_bytes = out, most, most_bytes
        self._places: dict[str, tuple[int, int]] = {}
        self._spool: Any = None
        self._size = 0
        self._parts: list[tuple[Path, Path]] = []

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def put(self, key: str, line: bytes) -> None:
        if self._spool is None:
            self.out.parent.mkdir(parents=True, exist_ok=True)
            self._spool = tempfile.TemporaryFile(dir=self.out.parent)  # noqa: SIM115
        self._spool.write(line)
        self._places[key] = (self._size, len(line))
        self._size += len(line)

    def finish(self, rank: Callable[[str], Rank], ready: Callable[[str, bytes], bytes]) -> Exported:
        """Write the files, with lines sorted by the rank of their key, each passed through `ready`.

        Further files of an earlier export, whose questions are no longer asked, are removed.
        """
        lines = 0
        with contextlib.ExitStack() as files:
            file = files.enter_context(self._next())
            for key in sorted(self._places, key=rank):
                offset, length = self._places[key]
                self._spool.seek(offset)
                line = ready(key, self._spool.read(length))
                if lines and (lines >= self._most or file.tell() + len(line) > self._most_bytes):
                    file, lines = files.enter_context(self._next()), 0
                file.write(line)
                lines += 1
        for new, target in self._parts:
            new.replace(target)
        exported = Exported(len(self._places), [target for _, target in self._parts])
        further = map(self._part, itertools.count(len(self._parts) + 1))
        for stale in itertools.takewhile(_questions, further):
            stale.unlink()
        self._parts = []
        return exported

    def _part(self, number: int) -> Path:
        return self.out if number == 1 else self.out.with_name(f"{self.out.stem}-{number}{self.out.suffix}")

    def _next(self) -> Any:
        target = self._part(len(self._parts) + 1)
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(f".{target.name}.new")
        self._parts.append((new, target))
        return new.open("wb")

    def drop(self) -> None:
        """Remove what was not finished."""
        if self._spool is not None:
            self._spool.close()
        for new, _ in self._parts:
            new.unlink(missing_ok=True)


def _questions(file: Path) -> bool:
    """Tell by its first line whether a file holds exported questions."""
    if not file.is_file():
        return False
    with file.open("rb") as lines:
        return lines.readline().startswith(b'{"custom_id":')


def boxes_of(boxes: Sequence[list[float] | None]) -> Json:
    """Write where the parts of images are that a question shows: `box` of one image, `boxes` of several; nothing of whole ones."""
    if not any(boxes):
        return {}
    return {"box": boxes[0]} if len(boxes) == 1 else {"boxes": list(boxes)}


def question_text(messages: Sequence[Any]) -> str:
    """Join the texts of the messages of a `request_record`."""
    return "\n\n".join(part for _, *parts in messages for part in parts if isinstance(part, str)).strip()


def read_answers(files: Sequence[Path], result: ImportedAnswers) -> dict[str, Reply]:
    """Read the first good answer to each key; other lines, and second answers that differ, are noted in `result`."""
    answers: dict[str, Reply] = {}
    for file in files:
        for key, reply in _read(file, result):
            if key not in answers or answers[key].status is not Status.OK:
                answers[key] = reply
            elif reply.status is Status.OK and reply.text != answers[key].text:
                result.bad.append(f"{file}: {key} is answered twice; the first answer counts")
    result.unusable = [(key, reason) for key, reason in dict(result.unusable).items() if key not in answers]
    return answers


def _read(file: Path, result: ImportedAnswers) -> list[tuple[str, Reply]]:
    """Read key and reply of every line that holds an answer; the others are noted in `result`."""
    reader = OpenAI(ProviderSettings("imported", base_url="http://localhost"))
    answers: list[tuple[str, Reply]] = []
    for number, record in scan_jsonl(file):
        if isinstance(record, DataError):
            result.bad.append(str(record))
            continue
        key = record.get("custom_id")
        if not isinstance(key, str) or not (_answer_key(record) or "response" in record or record.get("error")):
            problem = 'expected {"custom_id": KEY, "text": "..."} (or "answer"), or a line of a batch\'s output'
            result.bad.append(str(DataError(problem, file, number)))
            continue
        key = f"ask:{key}" if re.fullmatch(r"[0-9a-f]{64}", key) else key
        try:
            reply = _reply(reader, record)
        except (ProviderFailure, ValueError, TypeError, LookupError, AttributeError) as error:
            result.unusable.append((key, str(error) or type(error).__name__))
            continue
        answers.append((key, replace(reply, endpoint=f"file {file.name}", flags=(*reply.flags, IMPORTED))))
    return answers


def _reply(reader: OpenAI, record: Values) -> Reply:
    """Parse the reply in a line.

    Raises:
        ProviderFailure, ValueError: There is none. Malformed content may raise other built-in errors.
    """
    if name := _answer_key(record):
        text = record[name]
        if isinstance(text, dict | list):  # a JSON answer that is not encoded as a string
            text = orjson.dumps(text).decode()
        if not isinstance(text, str):
            raise ValueError(f"'{name}' is not a text")
        first = FirstToken.read(record["first_token"]) if "first_token" in record else None
        if not (text.strip() or first):
            raise ValueError(f"'{name}' is empty")
        version = str(record.get("model") or "")
        return Reply(without_surrogates(text), finish_reason="stop", model_version=version, first_token=first)
    response = record.get("response")
    if not response:
        raise ValueError(f"no answer: {_message(record.get('error'))}")
    status = int(response.get("status_code") or 200)
    if not 200 <= status < 300:
        raise ValueError(f"no answer: HTTP {status}: {_message(response.get('body'))}")
    return reader.read_reply(http.Answer(200, {}, orjson.dumps(response["body"])), "", tools=True)


def _answer_key(record: Values) -> str:
    """Return the key of the answer: `text`, or `answer` as in a recording; empty where there is neither."""
    return next((name for name in ("text", "answer") if name in record), "")


def _message(error: Any) -> str:
    while isinstance(error, Mapping):
        error = error.get("message") or error.get("error") or error.get("code")
    return " ".join(str(error or "no reason given").split())[:200]
