"""The scores that `Judge` returns, with their image and prompt: as a table, for a notebook, and as they come."""

from __future__ import annotations

import base64
import contextlib
import html
import os
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import Any, overload

from titjudge.core.errors import MissingExtra
from titjudge.core.serialization import score_record
from titjudge.core.types import Json, Score
from titjudge.core.words import truncated
from titjudge.data.image_decoding import upright

_EDGE, _QUALITY = 192, 75  # longest edge (pixels) and WebP quality of an image in a notebook
_MOST_SHOWN = 12  # images of `Scores` in a notebook
_MOST_TEXT = 600  # characters of a prompt or a reason in a notebook
_OF_SCORE = tuple(field.name for field in fields(Score))


@dataclass(frozen=True, slots=True, repr=False)
class JudgedScore(Score):
    """A score with its image and prompt. A notebook shows it with its image.

    Attributes:
        number: Position of the (image, prompt) pair among those given, from 0.
        prompt: The prompt the image was judged against.
        image: The image file; the file of an image in memory is deleted when the judge is closed.
    """

    number: int = 0
    prompt: str = ""
    image: Path | None = None
    _stat: tuple[int, int] | None = field(default=None, repr=False, compare=False)
    _thumbnail: bytes | None = field(default=None, repr=False, compare=False)

    @classmethod
    def judged(cls, score: Score, number: int, prompt: str, image: Path | None, thumbnail: bytes | None) -> JudgedScore:
        """Add image and prompt to a score; `thumbnail` is a WebP file, for an image that may be deleted until shown."""
        stat: tuple[int, int] | None = None
        if image is not None:
            with contextlib.suppress(OSError, ValueError):
                file = os.stat(image)
                stat = file.st_size, file.st_mtime_ns
        values = {name: getattr(score, name) for name in _OF_SCORE}
        return cls(**values, number=number, prompt=prompt, image=image, _stat=stat, _thumbnail=thumbnail)

    def __repr__(self) -> str:
        value = f"{self.value:.4g}" if self.value is not None else f"{self.status}: {truncated(self.reason, 80)!r}"
        return f"<{self.metric} {value}; {truncated(self.item_id, 40)!r}: {truncated(self.prompt, 40)!r}>"

    def _repr_html_(self) -> str:
        value = "no score" if self.value is None else f"{self.value:.4g}"
        status = "" if self.status == "ok" else f" ({_text(str(self.status))})"
        lines = "".join(f"<div dir='auto'>{_text(text)}</div>" for text in (self.prompt, self.reason) if text)
        return (
            # Without these classes MathJax would run text between dollar signs as commands, among them links to scripts.
            "<div class='mathjax_ignore tex2jax_ignore' style='display:flex;gap:12px;align-items:flex-start;margin:4px 0'>"
            f"{self._image_html()}<div style='max-width:60em;white-space:pre-wrap;overflow-wrap:anywhere;text-align:start'>"
            f"<div><b>{_text(self.metric)} {value}</b>{status}</div>{lines}</div></div>"
        )

    def _image_html(self) -> str:
        from titjudge.report.judged_images import Judged
        from titjudge.report.thumbnails import thumbnail

        if self.image is None:
            return ""
        made = self._thumbnail or thumbnail(Judged(self.image, self._stat), _EDGE, _QUALITY)
        if isinstance(made, str):
            return f"<div style='width:{_EDGE}px'>{_text(made)}</div>"
        data = base64.b64encode(made).decode()
        return f"<img src='data:image/webp;base64,{data}' alt='the judged image' style='max-width:{_EDGE}px'>"


@dataclass(frozen=True, slots=True, repr=False)
class Scores:
    """Scores of several images: a sequence with `to_records` and `to_pandas`.

    Attributes:
        scores: In the order of the images, for each image one by each metric.
    """

    scores: tuple[JudgedScore, ...]

    def __iter__(self) -> Iterator[JudgedScore]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    @overload
    def __getitem__(self, index: int) -> JudgedScore: ...
    @overload
    def __getitem__(self, index: slice) -> Scores: ...
    def __getitem__(self, index: int | slice) -> JudgedScore | Scores:
        return Scores(self.scores[index]) if isinstance(index, slice) else self.scores[index]

    def __repr__(self) -> str:
        more = ", ..." if len(self) > _MOST_SHOWN else ""
        return f"Scores of {len(self):,}: [{', '.join(map(repr, self.scores[:_MOST_SHOWN]))}{more}]"

    def to_records(self) -> list[Json]:
        """Return a dict for each score: image, prompt, generator, metric, value, status, reason, parts, ..."""
        return [
            {"image": str(score.image or ""), "prompt": score.prompt} | score_record(score) for score in self.scores
        ]

    def to_pandas(self) -> Any:
        """Make a pandas DataFrame with a row for each score and all its fields; `titjudge.frame` makes one as of runs.

        A column with only empty mappings is omitted, because Parquet cannot store it.

        Raises:
            MissingExtra: pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise MissingExtra("pandas", "pandas", "to_pandas()") from None
        table = pandas.DataFrame(self.to_records())
        return table if any(score.parts for score in self.scores) else table.drop(columns="parts", errors="ignore")

    def _repr_html_(self) -> str:
        more = len(self.scores) - _MOST_SHOWN
        rest = f"<div>and {more:,} more: .to_pandas() has them all</div>" if more > 0 else ""
        return "".join(score._repr_html_() for score in self.scores[:_MOST_SHOWN]) + rest


def small(image: Any) -> bytes:
    """Make the thumbnail of a PIL image, a WebP file."""
    from titjudge.report.thumbnails import encode

    return encode(upright(image), _EDGE, _QUALITY)


def _text(text: str) -> str:
    """Escape the first characters of a prompt or an answer for HTML."""
    return html.escape(truncated(text, _MOST_TEXT))


class ScoreStream(Coroutine[Any, Any, Scores], AsyncIterator[JudgedScore]):
    """Scores to `await`, all of them in order, or to iterate over with `async for`, each as it comes; only once."""

    def __init__(self, scores: AsyncGenerator[JudgedScore, None]) -> None:
        self._scores = scores
        self._all: Coroutine[Any, Any, Scores] | None = None

    def __aiter__(self) -> ScoreStream:
        return self

    async def __anext__(self) -> JudgedScore:
        return await anext(self._scores)

    async def aclose(self) -> None:
        """Ask nothing more; the answers in flight are awaited and kept."""
        await self._scores.aclose()

    def __await__(self) -> Generator[Any, Any, Scores]:
        return self._collect().__await__()

    def _collect(self) -> Coroutine[Any, Any, Scores]:
        return collected(self._scores)

    # The methods of a coroutine, for `asyncio.run(judge.ascore_many(...))` and `asyncio.create_task`.

    def send(self, value: Any) -> Any:
        self._all = self._all or self._collect()
        return self._all.send(value)

    def throw(
        self,
        kind: type[BaseException] | BaseException,
        value: BaseException | object = None,
        trace: TracebackType | None = None,
    ) -> Any:
        self._all = self._all or self._collect()
        return self._all.throw(kind if isinstance(kind, BaseException) else value or kind)  # type: ignore[call-overload]

    def close(self) -> None:
        if self._all is not None:
            self._all.close()


async def collected(stream: AsyncGenerator[JudgedScore, None]) -> Scores:
    """Return all scores in the order of their images."""
    async with contextlib.aclosing(stream):
        scores = [score async for score in stream]
    return Scores(tuple(sorted(scores, key=lambda score: score.number)))  # stable: metrics keep their order
