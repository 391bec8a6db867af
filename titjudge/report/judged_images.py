"""Identify the image that a run judged by its content, so that two files of one name are never confused."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError
from titjudge.core.types import Values
from titjudge.data.image_decoding import inspect
from titjudge.data.images import RequestImages, read


@dataclass(frozen=True, slots=True)
class Judged:
    """The image of one item of one run.

    Attributes:
        stat: Size and time (ns) of the file when the run listed it.
        sha256: Of the image as it was sent to models, if the answers record it.
        sent: SHA-256 of all images that were sent for the item, with opponents and crops.
    """

    path: Path | None
    stat: tuple[int, int] | None = None
    sha256: str | None = None
    sent: frozenset[str] = frozenset()

    @classmethod
    def from_record(cls, path: Path | None, stat: Any, answers: Sequence[Values], *, of_edit: bool = False) -> Judged:
        """Read the identity from an item's record and the answers to its requests.

        Args:
            path: The image.
            stat: Size and time of its file, as the run listed them.
            answers: The answers to the requests about the item.
            of_edit: Whether sources were sent as well, so that the images cannot be distinguished.
        """
        sent = RequestImages.from_requests([(str(answer.get("template")), _hashes(answer)) for answer in answers])
        return cls(path, _stat(stat), None if of_edit else sent.judged, sent.all)

    @classmethod
    def from_source_record(cls, path: Path, stat: Any, answers: Sequence[Values]) -> Judged:
        """Read the identity of a source; if the run's metrics looked only at results, its size has to suffice."""
        hashes = list(map(_hashes, answers))
        sent = frozenset().union(*hashes) if any(len(set(listed)) > 1 for listed in hashes) else frozenset()
        return cls(path, _stat(stat), None, sent)

    def refusal(self, raw: bytes) -> str:
        """Return why the present content of the file must not be shown as the judged image; empty if it may be.

        A run folder may come from anybody, and a report is passed on: a file is shown only if the run's answers or, if no
        image was sent, its size identify it, whatever path the folder names.

        Raises:
            DataError: It is not an image.
        """
        if self.sent:
            here = hashlib.sha256(raw).hexdigest()
            same = here in self.sent or inspect(raw, self.path or Path())["sha256"] in self.sent
        else:
            if self.stat is None:
                return "the run has no record of the judged image"
            same = self.stat[0] == len(raw)
        return "" if same else "the file has changed since it was judged"


def _stat(stat: Any) -> tuple[int, int] | None:
    valid = isinstance(stat, list | tuple) and len(stat) == 2 and all(isinstance(number, int) for number in stat)
    return (stat[0], stat[1]) if valid else None


def _hashes(answer: Values) -> list[str]:
    turns = answer.get("messages")
    parts = [part for turn in turns if isinstance(turn, list) for part in turn] if isinstance(turns, list) else []
    return [str(part["image"]) for part in parts if isinstance(part, Mapping) and part.get("image")]


class Sameness:
    """Decide whether two runs judged the same image; each file is hashed once."""

    def __init__(self) -> None:
        self._files: dict[tuple[Path, tuple[int, int] | None], tuple[str, ...]] = {}

    def __call__(self, first: Judged, second: Judged) -> bool:
        if first.path is None or second.path is None:
            return first.path is second.path
        if first.sha256 and second.sha256:
            return first.sha256 == second.sha256
        if first.stat is not None and (first.path, first.stat) == (second.path, second.stat):
            return True
        mine, theirs = self._contents(first), self._contents(second)
        if mine and theirs:
            return not mine.isdisjoint(theirs)
        # The files are gone, or nothing identifies their content. A file that was moved keeps its size and time.
        return first.stat is not None and first.stat == second.stat

    def _contents(self, judged: Judged) -> frozenset[str]:
        """Return the SHA-256 of the image as sent; otherwise of the file and of the image to send, if it has not changed."""
        if judged.sha256:
            return frozenset({judged.sha256})
        assert judged.path is not None
        key = judged.path, judged.stat
        if key not in self._files:
            self._files[key] = _file(judged)
        return frozenset(self._files[key])


def _file(judged: Judged) -> tuple[str, ...]:
    """Return the SHA-256 of a file and of the image that would be sent; nothing if it has changed or cannot be read."""
    assert judged.path is not None
    try:
        raw = read(judged.path)
        if judged.refusal(raw):
            return ()
        return hashlib.sha256(raw).hexdigest(), str(inspect(raw, judged.path)["sha256"])
    except (DataError, OSError):
        return ()
