"""One run while it goes on: the images that are judged, the newest first, their pictures, and why images have no score."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError
from titjudge.core.files import JsonlReader, locate_jsonl
from titjudge.report.judged_images import Judged
from titjudge.report.thumbnails import Thumbnail, thumbnail
from titjudge.web.view.score_tail import Identity, ScoreLine, ScoreTail, identity

_EDGE, _QUALITY = 480, 78  # of a picture: longest edge in pixels, quality of the WebP file
_PROMPT = 400  # characters of a prompt that the page gets
_REASONS = 8


class LiveRun:
    """The judged images of one run folder. Methods may be called from any thread."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "items.jsonl"
        self._tail = ScoreTail(folder / "scores.jsonl")
        self._listed: Identity = ()
        self._offsets: dict[str, int] = {}
        self._reader: JsonlReader | None = None
        self._shown: dict[tuple[int, bool, str], dict[str, Any]] = {}  # what was described since the last new score
        self._lock = threading.Lock()

    def look(self, most: int, *, failed: bool = False, generator: str = "") -> dict[str, Any]:
        """Describe the judged images for the page.

        Args:
            most: How many images to describe, the last ones that were judged.
            failed: Only those that lack a score.
            generator: Only those of this generator; all if empty.

        Returns:
            `images`, newest first, each with its scores; `more`, how many others there are; `reasons`, why scores are missing,
            with their number; `means` of each generator by metric.
        """
        query = most, failed, generator
        with self._lock:
            if self._tail.look():
                self._shown.clear()
            if query not in self._shown:
                self._shown[query] = self._describe(*query)
            return self._shown[query]

    def _describe(self, most: int, failed: bool, generator: str) -> dict[str, Any]:
        """Describe the images, as `look` says."""
        matching = {
            item: lines
            for item, lines in self._newest_first().items()
            if not (failed and all(line.value is not None for line in lines)) and generator in ("", lines[0].generator)
        }
        listed = list(matching.items())[:most]
        return {
            "images": [self._image(item, lines) for item, lines in listed],
            "more": len(matching) - len(listed),
            "reasons": self._tail.reasons().most_common(_REASONS),
            "means": {metric: dict(self._tail.means(metric)) for metric in self._tail.metrics},
        }

    def _newest_first(self) -> dict[str, list[ScoreLine]]:
        groups: dict[str, list[ScoreLine]] = {}
        for line in reversed(self._tail.latest.values()):
            groups.setdefault(line.item, []).append(line)
        return groups

    def _image(self, item: str, lines: list[ScoreLine]) -> dict[str, Any]:
        """Describe one image with its prompt and its scores, in the order in which they were written."""
        record = self._record(item)
        prompt, scores = str(record.get("prompt", "")), [asdict(line) for line in reversed(lines)]
        return {
            "item": item,
            "generator": lines[0].generator,
            "prompt": prompt[:_PROMPT] + ("..." if len(prompt) > _PROMPT else ""),
            "scores": [{key: score[key] for key in ("metric", "value", "status", "reason")} for score in scores],
        }

    def picture(self, item: str) -> Thumbnail:
        """Return a small copy of an image as WebP, or why it cannot be shown: a file of another size than the judged one is not."""
        with self._lock:
            record = self._record(item)
        path = record.get("image")
        if not isinstance(path, str) or not path:
            return "no image"
        return thumbnail(Judged.from_record(Path(path), record.get("stat"), ()), _EDGE, _QUALITY)

    def _record(self, item: str) -> dict[str, Any]:
        """Read the line of an item; empty where there is none."""
        if (now := identity(self._file)) != self._listed:
            self._listed, self._offsets = now, dict(_offsets(self._file)) if now else {}
            self._reader = JsonlReader(self._file) if now else None
        offset = self._offsets.get(item)
        return {} if offset is None or self._reader is None else self._reader.read_at(offset)


def _offsets(file: Path) -> Iterator[tuple[str, int]]:
    for _, offset, record in locate_jsonl(file, whole=True):
        if not isinstance(record, DataError) and isinstance(record.get("id"), str):
            yield record["id"], offset
