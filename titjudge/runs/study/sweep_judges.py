"""Read the judges of a stored sweep for a cascade: their scores, and their prices alone and together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import orjson

from titjudge.core.errors import DataError
from titjudge.core.run_records import joined_pairs
from titjudge.core.types import Pair
from titjudge.engine.prices import UserPrices
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.study.answer_costs import list_price
from titjudge.runs.study.human_study import oriented_values
from titjudge.stats.pairwise_accuracy import Values

_ROLES = ("captioner", "embedder", "judge", "prompts")
IMAGES = 2  # of a pair


@dataclass(frozen=True, slots=True)
class SweptJudges:
    """The judges of a sweep.

    Attributes:
        values: The scores of each judge by item id; more is better.
        prices: USD for a pair of images, by judge.
        together: USD for a pair of several judges, which may share answers such as a description.
        pairs: The human pairs.
        left_out: Judges that are not used, and why.
    """

    values: dict[str, Values]
    prices: dict[str, float]
    together: dict[frozenset[str], float]
    pairs: list[Pair]
    left_out: dict[str, str]

    def without(self, reasons: Mapping[str, str]) -> SweptJudges:
        """Leave out judges, given with the reason."""
        values = {name: scores for name, scores in self.values.items() if name not in reasons}
        return replace(self, values=values, left_out={**self.left_out, **reasons})


def swept_judges(folder: Path, prices: UserPrices | None = None, *, longest: int = 2) -> SweptJudges:
    """Read a sweep.

    Args:
        folder: The folder of the sweep.
        prices: Rates (USD per million tokens) by model, for answers that were stored without a price.
        longest: Most judges in a cascade, 1 to 3; `together` has the prices of up to so many.

    Raises:
        DataError: The folder holds no sweep, or one of its runs is missing.
    """
    rows = _rows(folder)
    names = _names(rows)
    runs = {str(row["run"]): RunFolder(folder / str(row["run"])) for row in rows}
    answers: dict[str, tuple[float | None, str]] = {}
    for run in runs.values():
        run.check()
        for record in run.replies():
            if answers.get(record["key"], (None, ""))[0] is None:
                answers[record["key"]] = list_price(record, prices), str(record.get("model", ""))
    scores = {name: run.scores() for name, run in runs.items()}
    values: dict[str, Values] = {}
    used: dict[str, set[str]] = {}
    images: dict[str, int] = {}
    left_out: dict[str, str] = {}
    for row, name in zip(rows, names, strict=True):
        row_scores = [score for (_, metric), score in scores[str(row["run"])].items() if metric == row["metric"]]
        keys = {key for score in row_scores for key in score.replies if key in answers}
        unknown = sorted({answers[key][1] for key in keys if answers[key][0] is None})
        if unknown or not row_scores:
            left_out[name] = (
                f"the price of {', '.join(unknown)} is unknown (--price MODEL=IN,OUT)"
                if unknown
                else "it has no scores"
            )
            continue
        values[name] = oriented_values(row_scores, str(row["metric"]))
        used[name], images[name] = keys, len(row_scores)

    def price(judges: Sequence[str]) -> float:
        keys = set().union(*(used[name] for name in judges))
        return IMAGES * sum(answers[key][0] or 0.0 for key in keys) / max(images[name] for name in judges)

    together = {frozenset(judges): price(judges) for n in range(2, longest + 1) for judges in combinations(values, n)}
    pairs = joined_pairs(run.results() for run in runs.values())
    return SweptJudges(values, {name: price([name]) for name in values}, together, pairs, left_out)


def _rows(folder: Path) -> list[dict[str, Any]]:
    file = folder / "sweep.json"
    try:
        rows = orjson.loads(file.read_bytes())["rows"]
    except OSError as error:
        raise DataError("not the folder of a sweep: it has no sweep.json", folder) from error
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise DataError("damaged: it lists no rows; run the sweep again, its answers are kept", file) from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) and {"run", "metric"} <= set(row) for row in rows):
        raise DataError("damaged: a row names no run and metric; run the sweep again, its answers are kept", file)
    if not rows:
        raise DataError("the sweep has no finished row", file)
    return rows


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name each row by its metric and the models that differ between rows; where that is not unique, by all of them."""
    varied = [role for role in _ROLES if len({str(row[role]) for row in rows if row.get(role)}) > 1]
    names = []
    for row in rows:
        used = ", ".join(str(row[role]) for role in varied if row.get(role))
        names.append(f"{row['metric']} ({used})" if used else str(row["metric"]))
    if len(set(names)) == len(names):
        return names
    models = [", ".join(f"{role} {row[role]}" for role in _ROLES if row.get(role)) for row in rows]
    return [f"{row['metric']} ({used}; {row['run']})" for row, used in zip(rows, models, strict=True)]
