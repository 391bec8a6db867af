"""Tables of means by category for each generator, as a suite's YAML file describes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from titjudge.core.score_parts import could_be
from titjudge.core.score_parts import questions as questions_of
from titjudge.core.types import Item, Score, Status, Table
from titjudge.metrics.text_reading import matched_share
from titjudge.suites.base import Scored, by_generator
from titjudge.suites.question_data import counts
from titjudge.suites.question_schema import TableSpec

_IN_PART = "scored in part"


def make_tables(spec: TableSpec, items: Sequence[Item], scores: Sequence[Score], *, grids: bool = False) -> list[Table]:
    """Make a table and, where it has bounds and images lack a score, that of these images.

    Args:
        spec: What it shows.
        items: All images.
        scores: Scores of the suite's metric.
        grids: The images of a prompt count as one, see `Official`.
    """
    if spec.by and spec.mean != "answers" and items and not any(_column(spec, item) for item in items):
        return []  # the data lack this field
    selected = [item for item in items if counts(item.meta, spec.where)]
    if spec.mean == "words":
        return [_words_table(spec, selected, scores)]
    tables = [make_table(spec, selected, scores, grids=grids)]
    complete = {score.item_id for score in scores if score.value is not None and not could_be(score.parts)}
    if spec.bounds and any(item.id not in complete for item in selected):
        tables.append(_unscored(spec, selected, scores, spec.bounds))
    return tables


def make_table(spec: TableSpec, items: Sequence[Item], scores: Iterable[Score], *, grids: bool = False) -> Table:
    """Make one table, a row for each generator.

    Args:
        spec: What it shows.
        items: All images.
        scores: Scores of the suite's metric.
        grids: The images of a prompt count as one, see `Official`.
    """
    counts: dict[str, tuple[int, int]] = {}
    means: dict[str, dict[str, float]] = {}
    overall: dict[str, float | None] = {}
    for generator, images, scored in by_generator(items, scores):
        counts[generator] = len(images), len(scored)
        if grids:
            done = {item.id for item, _ in scored}
            incomplete = {item.prompt_id for item in images if item.id not in done}
            scored = [(item, score) for item, score in scored if item.prompt_id not in incomplete]
        values = _answers(spec, _last(scored) if grids else scored) if spec.mean == "answers" else _images(spec, scored)
        means[generator] = {key: spec.times * sum(column) / len(column) for key, column in values.items() if column}
        overall[generator] = _overall(spec, means[generator], [value for column in values.values() for value in column])
    keys = {key for by_column in means.values() for key in by_column}
    order = [key for key in spec.order if key in keys] + sorted(keys - set(spec.order)) if spec.by else []
    overall_column = ("overall",) if spec.overall is not None else ()
    rows = tuple(
        (name, *counts[name], *([overall[name]] if overall_column else ()), *map(means[name].get, order))
        for name in counts
    )
    lacking = sum(total - done for total, done in counts.values())
    notes = (f"{lacking:,} of {len(items):,} images have no score, and enter no mean",) if lacking else ()
    return Table(spec.title, ("generator", "images", "scored", *overall_column, *order), rows, notes)


def _words_table(spec: TableSpec, items: Sequence[Item], scores: Iterable[Score]) -> Table:
    """Make the table of the shares of words that were read: over all images, and by the values of fields."""
    columns = [
        (key, value) for key in spec.columns for value in sorted({str(item.meta.get(key, "")) for item in items} - {""})
    ]
    rows = [
        (
            generator,
            len(images),
            len(scored),
            matched_share([score for _, score in scored]),
            *(
                matched_share([score for item, score in scored if str(item.meta.get(key, "")) == value])
                for key, value in columns
            ),
        )
        for generator, images, scored in by_generator(items, scores)
    ]
    titles = ("generator", "images", "scored", "text score", *(f"{key} {value}" for key, value in columns))
    return Table(spec.title, titles, tuple(rows))


def _unscored(spec: TableSpec, items: Sequence[Item], scores: Iterable[Score], bounds: tuple[float, float]) -> Table:
    """Count the images without a score, or with a part of one, and bound the means by the worst and the best that is missing."""
    by_id = {score.item_id: score for score in scores}
    parts = _parts_by_column(spec, items, by_id)
    filled = ([_filled(item, by_id, bounds, end, parts[_column(spec, item)]) for item in items] for end in (0, 1))
    means, worst, best = (_means(spec, items, which) for which in (by_id.values(), *filled))
    lacking: dict[tuple[str, str], Counter[str]] = {}
    for item in items:
        score = by_id.get(item.id, Score.none(Status.MISSING, ""))
        if score.value is None or could_be(score.parts):
            reason = _IN_PART if score.value is not None else str(score.status)
            for column in ("overall", _column(spec, item)):
                lacking.setdefault((item.generator, column), Counter())[reason] += 1
    reasons = [
        reason for reason in (*map(str, Status), _IN_PART) if any(reason in by_reason for by_reason in lacking.values())
    ]
    rows = [
        (*key, *(by_reason[reason] for reason in reasons), means.get(key), worst.get(key), best.get(key))
        for key, by_reason in lacking.items()
    ]
    columns = ("generator", "category", *reasons, "mean", "if all were worst", "if all were best")
    return Table(f"{spec.title}: images without a score", columns, tuple(rows))


def _parts_by_column(spec: TableSpec, items: Iterable[Item], by_id: Mapping[str, Score]) -> dict[str, list[str]]:
    """Return the parts that scores have in each column; where no image of it has a score, all that the table wants."""
    parts: dict[str, set[str]] = {}
    for item in items:
        score = by_id.get(item.id)
        parts.setdefault(_column(spec, item), set()).update(
            _values(spec, score) if score and score.value is not None else ()
        )
    return {column: sorted(names) or spec.parts for column, names in parts.items()}


def _means(spec: TableSpec, items: Sequence[Item], scores: Iterable[Score]) -> dict[tuple[str, str], Any]:
    """Return the means of a table by generator and column."""
    table = make_table(spec, items, scores)
    return {(row[0], column): cell for row in table.rows for column, cell in zip(table.columns, row, strict=True)}


def _filled(
    item: Item, by_id: Mapping[str, Score], bounds: tuple[float, float], end: int, parts: Iterable[str]
) -> Score:
    """Return the score of an item, with the worst (end 0) or the best (1) in place of what is missing."""
    score = by_id.get(item.id) or Score(item.id, "", None)
    if score.value is None:
        return replace(score, value=bounds[end], parts=dict.fromkeys(parts, bounds[end]))
    ends = {name: pair[end] for name, pair in could_be(score.parts).items()}
    return replace(score, value=ends.pop("", score.value), parts={**score.parts, **ends}) if ends else score


def _column(spec: TableSpec, item: Item) -> str:
    return _key(spec, item.meta.get(spec.by)) if spec.by else ""


def _images(spec: TableSpec, scored: Sequence[Scored]) -> dict[str, list[float]]:
    """Return values by column: those of images, or of prompts as the mean of their images."""
    by_column: dict[str, dict[str, list[float]]] = {}
    for item, score in scored:
        unit = item.prompt_id if spec.mean == "prompts" else item.id
        for name, value in _values(spec, score).items():
            by_column.setdefault(_column(spec, item), {}).setdefault(f"{unit} {name}", []).append(value)
    return {key: [sum(values) / len(values) for values in units.values()] for key, units in by_column.items()}


def _values(spec: TableSpec, score: Score) -> dict[str, float]:
    """Return what a score contributes to the means, by the name of its part: its value, or the parts that the table wants."""
    values = {name: score.parts.get(name) if name else score.value for name in spec.parts}
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


def _answers(spec: TableSpec, scored: Sequence[Scored]) -> dict[str, list[float]]:
    by_column: dict[str, list[float]] = {}
    for item, score in scored:
        for question in questions_of(score.parts):
            answer = question.get("counted" if spec.counted else "answer")
            if isinstance(answer, int | float):
                named = question.get("category") if spec.by == "category" else item.meta.get(spec.by)
                by_column.setdefault(_key(spec, named) if spec.by else "", []).append(float(answer))
    return by_column


def _last(scored: Sequence[Scored]) -> list[Scored]:
    """Return the last image of each prompt."""
    in_order = sorted(scored, key=lambda pair: pair[0].sample)
    return list({item.prompt_id: (item, score) for item, score in in_order}.values())


def _key(spec: TableSpec, value: Any) -> str:
    text = str(value if value is not None else "")
    for end in spec.upto:
        text = text.split(end, 1)[0].strip()
    return text


def _overall(spec: TableSpec, means: Mapping[str, float], values: Sequence[float]) -> float | None:
    if not means or spec.overall is None:
        return None
    if spec.overall == "all":
        return spec.times * sum(values) / len(values)
    if spec.overall == "columns":
        return sum(means.values()) / len(means)
    if any(key not in means for key in spec.overall):
        return None
    return sum(weight * means[key] for key, weight in spec.overall.items())
