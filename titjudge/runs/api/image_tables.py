"""Tables with an image and a prompt in each row (pandas.DataFrame, datasets.Dataset), for `Judge.judge_table`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from titjudge.core.errors import UserError, nearest
from titjudge.core.types import Score


@dataclass(frozen=True, slots=True)
class ImageInTable:
    """An image that is read from its table only when it is judged: a data set need not fit into memory.

    Attributes:
        load: Reads it: a PIL image, or what a cell of the table holds.
    """

    load: Callable[[], Any]


class ImageTable:
    """Reads the rows of a table and adds columns to a copy of it; arguments as in `Judge.judge_table`.

    Raises:
        TypeError: It is no such table.
        UserError: It has no such column.
    """

    def __init__(self, table: Any, image: str, prompt: str, sources: Sequence[str] = ()) -> None:
        library = type(table).__module__.partition(".")[0]
        if library == "pandas" and hasattr(table, "iloc") and hasattr(table, "columns"):
            self._columns = [str(name) for name in table.columns]
        elif library == "datasets" and hasattr(table, "select_columns") and hasattr(table, "__len__"):
            self._columns = list(table.column_names)
        else:
            kind = f"{type(table).__module__}.{type(table).__qualname__}"
            raise TypeError(f"judge_table takes a pandas.DataFrame or a datasets.Dataset; not {kind}")
        self._table, self._is_pandas = table, library == "pandas"
        for name in (image, prompt, *sources):
            if self._columns.count(name) != 1:
                has = "two columns" if name in self._columns else "no column"
                raise UserError(
                    f"the table has {has} '{name}'.{nearest(name, self._columns)} It has: {', '.join(self._columns)}"
                )
        names = list(dict.fromkeys((image, *sources)))
        self._images = table[names] if self._is_pandas else table.select_columns(names)
        self._image, self._sources = image, sources
        self._prompts = [text if isinstance(text, str) else "" for text in table[prompt]]

    def entries(self) -> list[tuple[ImageInTable, str, list[ImageInTable]]]:
        """Return the image of each row with its prompt and its sources; none is read yet."""
        return [
            (self._cell(row, self._image), prompt, [self._cell(row, source) for source in self._sources])
            for row, prompt in enumerate(self._prompts)
        ]

    def _cell(self, row: int, column: str) -> ImageInTable:
        return ImageInTable(lambda: self._load(row, column))

    def _load(self, row: int, column: str) -> Any:
        value = self._images[column].iloc[row] if self._is_pandas else self._images[row][column]
        if isinstance(value, dict) and {"bytes", "path"} & set(value):
            value = value.get("bytes") or value.get("path")
        return value

    def check_free(self, columns: Iterable[str]) -> None:
        """Check that the table has none of these columns.

        Raises:
            UserError: It has one.
        """
        if taken := [name for name in columns if name in self._columns]:
            raise UserError(
                f"the table has a column '{taken[0]}' already: judge_table(..., prefix='new_') renames ours"
            )

    def with_columns(self, columns: dict[str, Any]) -> Any:
        if self._is_pandas:
            return self._table.assign(**columns)
        table = self._table
        for name, values in columns.items():
            table = table.add_column(name, values)
        return table


def score_columns(metrics: Iterable[str], prefix: str) -> dict[str, list[str]]:
    """Name the columns of each metric: value, status and reason."""
    return {name: [f"{prefix}{name}", f"{prefix}{name}_status", f"{prefix}{name}_reason"] for name in metrics}


def filled(names: Sequence[str], scores: Sequence[Score]) -> dict[str, Any]:
    """Return the columns of one metric by name; where there is no score the value is NaN."""
    import numpy as np

    values = np.array([np.nan if score.value is None else score.value for score in scores], dtype=np.float64)
    statuses, reasons = [str(score.status) for score in scores], [score.reason for score in scores]
    return dict(zip(names, (values, statuses, reasons), strict=True))
