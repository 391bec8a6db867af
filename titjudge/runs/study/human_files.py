"""Readers of human data, CSV or JSON lines: votes and scores."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError
from titjudge.core.numbers import finite
from titjudge.core.types import Pair
from titjudge.data.tables import read_table
from titjudge.stats.people.score_correlation import SCORE
from titjudge.stats.people.votes import Vote, read_choice

COLUMNS = ("prompt_id", "image_a", "image_b", "annotator", "preference")


def read_votes(path: Path | str) -> list[Vote]:
    """Read votes from a `.csv` with a header or from JSON lines, with the columns of `COLUMNS`; others are ignored.

    `preference` is a, b, tie or both_bad (left and right mean a and b; case does not matter).

    Raises:
        DataError: A missing column or value, another preference, or a line that is no object; names file and line.
    """
    path = Path(path)
    return [_vote(record, path, line) for line, record in read_table(path, COLUMNS)]


def pair_records(pairs: Sequence[Pair]) -> list[dict[str, str]]:
    """Return pairs as the lines of a `pairs.jsonl`, or the rows of a `pairs.csv`."""
    return [
        {"prompt_id": p.prompt_id, "image_a": p.a, "image_b": p.b, "preference": p.choice, "source": p.source}
        for p in pairs
    ]


def _vote(record: Mapping[str, Any], path: Path, line: int) -> Vote:
    cells = []
    for name in COLUMNS:
        value = record.get(name)
        if isinstance(value, bool) or not isinstance(value, (str, int)) or not str(value).strip():
            raise DataError(f"'{name}' is missing or no text", path, line)
        cells.append(str(value).strip())
    group, a, b, annotator, choice = cells
    chosen = read_choice(choice) or read_choice(choice, "left", "right")
    if chosen is None:
        raise DataError(f"preference '{choice}' is not a, b, tie or both_bad", path, line)
    return Vote(group, a, b, annotator, chosen)


def read_human_scores(path: Path | str, parts: Collection[str] = ()) -> dict[str, dict[str, float]]:
    """Read human scores by column and image id from JSON lines or CSV with `image` and `score`, or columns of parts.

    Args:
        path: The table.
        parts: Further columns, such as pillars, by the names that the judge gives them; case does not matter. Their cells
            may be empty.

    Raises:
        DataError: A column is missing, or a score is no finite number; names file and line.
    """
    path = Path(path)
    part_names = {part.casefold(): part for part in parts}
    scores: dict[str, dict[str, float]] = {}
    for line, record in read_table(path, ("image",)):
        cells = {
            part_names.get(str(column).casefold(), column): value
            for column, value in record.items()
            if column == SCORE or str(column).casefold() in part_names
        }
        if not cells:
            others = f"; or a column for {', '.join(parts)}" if parts else ""
            raise DataError(f"the column '{SCORE}' is missing{others}", path, line)
        for column, value in cells.items():
            if column == SCORE or value not in (None, ""):
                scores.setdefault(column, {})[str(record["image"])] = _number(column, value, path, line)
    return scores


def _number(column: str, value: Any, path: Path, line: int) -> float:
    if (number := finite(value)) is None:
        raise DataError(f"the {column} is a number, not '{value}'", path, line)
    return number
