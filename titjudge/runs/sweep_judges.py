"""The judges of a stored sweep for a cascade: their scores, what they cost, and what several of them share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import orjson

from titjudge.core import registry
from titjudge.core.errors import DataError
from titjudge.core.types import Pair, Usage
from titjudge.engine.prices import UserPrices, price_of
from titjudge.runs.run_folder import RunFolder
from titjudge.stats.pairwise_accuracy import Values, values_by_metric

_ROLES = ("captioner", "embedder", "judge", "prompts")
IMAGES = 2  # of a pair


@dataclass(frozen=True, slots=True)
class SweptJudges:
    """The judges of a sweep.

    `values` and `prices` (USD a pair) are by judge; `together` are prices of several that share answers, such as a
    description; `left_out` says which rows have no price, and `pairs` are the sweep's human pairs.
    """

    values: dict[str, Values]
    prices: dict[str, float]
    together: dict[frozenset[str], float]
    pairs: list[Pair]
    left_out: dict[str, str]


def swept_judges(folder: Path, prices: UserPrices | None = None, *, longest: int = 2) -> SweptJudges:
    """Read a sweep.

    Args:
        folder: of the sweep.
        prices: model -> rates (USD per million tokens) for answers that were stored without a price.
        longest: most judges in a chain, 1 to 3: the combinations whose shared price is wanted.

    Raises:
        DataError: the folder holds no sweep, or one of its runs is gone.
    """
    rows = _rows(folder)
    names = _names(rows)
    runs = {str(row["run"]): RunFolder(folder / str(row["run"])) for row in rows}
    answers: dict[str, tuple[float | None, str]] = {}
    for run in runs.values():
        run.manifest()
        for record in run.replies():
            if answers.get(record["key"], (None, ""))[0] is None:
                answers[record["key"]] = _cost(record, prices or {}), str(record.get("model", ""))
    scores = {name: run.scores() for name, run in runs.items()}
    values: dict[str, Values] = {}
    used: dict[str, set[str]] = {}
    images: dict[str, int] = {}
    left_out: dict[str, str] = {}
    for row, name in zip(rows, names, strict=True):
        own = [score for (_, metric), score in scores[str(row["run"])].items() if metric == row["metric"]]
        keys = {key for score in own for key in score.replies if key in answers}
        unknown = sorted({answers[key][1] for key in keys if answers[key][0] is None})
        if unknown or not own:
            left_out[name] = f"the price of {', '.join(unknown)} is unknown" if unknown else "it has no scores"
            continue
        higher = registry.metric_of(str(row["metric"])).higher_is_better
        values[name] = values_by_metric(own, negate=() if higher else (row["metric"],))[row["metric"]]
        used[name], images[name] = keys, len(own)

    def price(some: Sequence[str]) -> float:
        keys = set().union(*(used[name] for name in some))
        return IMAGES * sum(answers[key][0] or 0.0 for key in keys) / max(images[name] for name in some)

    together = {frozenset(some): price(some) for n in range(2, longest + 1) for some in combinations(values, n)}
    pairs = {pair: None for run in runs.values() for pair in run.results().human_pairs}
    return SweptJudges(values, {name: price([name]) for name in values}, together, list(pairs), left_out)


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
    """Name each row: its metric, and the models that are not the same in all rows."""
    varied = [role for role in _ROLES if len({str(row.get(role) or "") for row in rows if row.get(role)}) > 1]
    names = []
    for row in rows:
        used = ", ".join(str(row[role]) for role in varied if row.get(role))
        names.append(f"{row['metric']} ({used})" if used else str(row["metric"]))
    return names if len(set(names)) == len(names) else [_full(row) for row in rows]


def _full(row: Mapping[str, Any]) -> str:
    return f"{row['metric']} ({', '.join(f'{role} {row[role]}' for role in _ROLES if row.get(role))}; {row['run']})"


def _cost(record: Mapping[str, Any], prices: UserPrices) -> float | None:
    """Price an answer in USD: as it was stored, else after the given rates."""
    stored = record.get("list_cost")
    if stored is not None:
        return float(stored)
    price = price_of(str(record.get("provider", "")), str(record.get("model", "")), prices)
    return None if price is None else price.cost(Usage(*record["usage"]))
