"""Correlation of metrics, and of the parts that they measure, with human scores: over all images and over generators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from titjudge.core.declarations import Declaration, Population, Unit
from titjudge.core.serialization import fields_of
from titjudge.core.tables import Table, plain
from titjudge.core.types import Item, Json, Note, Score
from titjudge.stats.ranking.correlation import (
    Correlation,
    GeneratorCorrelation,
    correlation,
    generator_correlation,
)
from titjudge.stats.scores.families import ALONE, Families
from titjudge.stats.scores.part_scores import part_scores

CORRELATIONS = Declaration(
    "human_scores", "scores of people and the metric", Population.IMAGES_OF_BOTH, Unit.PROMPT, counts="images"
)
_KEYS = ("metric", "part", "srcc", "plcc", "krcc", "images", "missing", "raters")
IN_COMMON = replace(
    CORRELATIONS, population=Population.COMMON_IMAGES, by_column={"own_srcc": Population.IMAGES_OF_BOTH}
)
"""Of metrics that have scored different images."""
OF_GENERATORS = Declaration(
    "human_scores_of_generators",
    "mean scores of generators by people and by the metric",
    Population.IMAGES_OF_COMMON,
    Unit.PROMPT,
    counts="images",
)

SCORE = "score"  # the part that is the score of the metric itself
ALL = ""  # the slice of all images

Parts = Mapping[str, Mapping[str, float | None]]
"""Name of a part -> item id -> number."""


@dataclass(frozen=True, slots=True)
class ScoreCorrelation:
    """The correlation of one part of a metric with the ratings of people.

    Attributes:
        metric: Name of the metric.
        part: Name of the part: a pillar, a kind of claim, or `SCORE`.
        images: Over all images that people and the metric have.
        common: Over the images that all compared metrics have; None if all metrics have the same.
        generators: Over the generators by their means, by slice of the images; `ALL` is one of them.
    """

    metric: str
    part: str
    images: Correlation
    generators: Mapping[str, GeneratorCorrelation]
    common: Correlation | None = None


def judged_parts(items: Mapping[str, Item], scores: Sequence[Score]) -> dict[str, Parts]:
    """Return the scores of the images and their parts, by metric in alphabetical order."""
    parts: dict[str, dict[str, dict[str, float | None]]] = {}
    for metric in sorted({score.metric for score in scores}):
        of_metric = [score for score in scores if score.metric == metric]
        parts[metric] = {SCORE: {score.item_id: score.value for score in of_metric}}
        for by_item in part_scores(items, of_metric).values():
            for item, values in by_item.items():
                for part, value in values.items():
                    parts[metric].setdefault(part, {})[item] = value
    return dict(parts)


def score_correlations(
    items: Mapping[str, Item],
    judged: Mapping[str, Parts],
    people: Parts,
    slices: Mapping[str, Sequence[str]],
    declared: Families = ALONE,
) -> list[ScoreCorrelation]:
    """Correlate each metric, and each of its parts, with the people who have scored it.

    Metrics are compared over the images that all of them have; metrics with fewer than half as many images as the fullest one
    are not compared.

    Args:
        items: Every image by its id.
        judged: Scores by metric.
        people: Ratings of people.
        slices: Ids of the images over which generators are compared, by name; `ALL` is one of them.
        declared: Prompt -> its family.
    """
    units = {id: declared.get(item.prompt_id, item.prompt_id) for id, item in items.items()}
    rows = []
    for metric, parts in judged.items():
        for part in filter(parts.__contains__, people):
            rated = people[part]
            of_part = {name: other[part] for name, other in judged.items() if part in other}
            both = {
                name: {id for id in values if None not in (values[id], rated.get(id))}
                for name, values in of_part.items()
            }
            compared = [ids for ids in both.values() if 2 * len(ids) >= max(map(len, both.values()))]
            common = set[str]().union(*compared).intersection(*compared) if both[metric] in compared else set()
            row = _correlate(metric, part, items, parts[part], rated, slices, units)
            if any(ids != common for ids in both.values()):
                values = {id: value for id, value in parts[part].items() if id in common}
                row = replace(row, common=_correlate(metric, part, items, values, rated, {}, units).images)
            rows.append(row)
    return rows


def _correlate(
    metric: str,
    part: str,
    items: Mapping[str, Item],
    judged: Mapping[str, float | None],
    rated: Mapping[str, float | None],
    slices: Mapping[str, Sequence[str]],
    units: Mapping[str, str],
) -> ScoreCorrelation:
    """Correlate the values of a metric for one part with people's ratings, over images and over generators."""

    def columns(ids: Sequence[str]) -> tuple[list[float | None], list[float | None], list[Item]]:
        return [judged.get(id) for id in ids], [rated.get(id) for id in ids], [items[id] for id in ids]

    x, y, images = columns(list(items))
    over_images = correlation(x, y, [units[item.id] for item in images])
    generators = {}
    for name, ids in slices.items():
        x, y, images = columns(ids)
        made_by, of = [item.generator for item in images], [units[item.id] for item in images]
        prompts = [item.prompt_id or item.id for item in images]
        generators[name] = generator_correlation(x, y, made_by, of, prompts=prompts)
    return ScoreCorrelation(metric, part, over_images, generators)


def correlation_record(correlations: Sequence[ScoreCorrelation]) -> Json:
    """Return correlations for `--json`: of each metric, with the correlations of its parts under `parts`."""
    record: Json = {}
    for row in correlations:
        by_slice = dict(row.generators)
        entry = fields_of(row.images) | {"generators": by_slice.pop(ALL)}
        entry |= {"common": row.common} if row.common else {}
        if by_slice:
            entry["generators_by"] = by_slice
        metric = record.setdefault(row.metric, {})
        if row.part == SCORE:
            record[row.metric] = entry | metric
        else:
            metric.setdefault("parts", {})[row.part] = entry
    return record


def correlation_tables(
    correlations: Sequence[ScoreCorrelation],
    by: str | None = None,
    raters: Mapping[str, str] | None = None,
    *,
    families: bool = False,
) -> list[Table]:
    """Tabulate correlations over images, and over generators if at least two are scored.

    Args:
        correlations: Of metrics and parts.
        by: The column of the data that the slices are by.
        raters: How many people rate each image, by part.
        families: Whether families of prompts are the unit.
    """
    uneven = any(row.common for row in correlations)
    columns = (
        "metric",
        "of",
        "SRCC",
        "PLCC",
        "KRCC",
        "images",
        "without both",
        "raters",
        *(["own SRCC"] if uneven else []),
    )
    rows = tuple(
        (row.metric, row.part, c.srcc, c.plcc, c.krcc, c.n, c.missing, (raters or {}).get(row.part))
        + ((plain(row.images.srcc, note=f"{row.images.n} images"),) if uneven else ())
        for row in correlations
        for c in (row.common or row.images,)
    )
    over_images = Table(
        "Correlation with human scores",
        columns,
        rows,
        (Note("intervals_in_json", "intervals are in --json"),),
        declared=(IN_COMMON if uneven else CORRELATIONS).over(families=families),
        keys=(*_KEYS, *(["own_srcc"] if uneven else [])),
    )
    return [over_images, *_generator_table(correlations, by, families)]


def _generator_table(correlations: Sequence[ScoreCorrelation], by: str | None, families: bool) -> list[Table]:
    """Tabulate the correlations over generators; no table if fewer than two are scored."""
    rows = [
        (
            row.metric,
            row.part,
            *([name or "all"] if by else []),
            plain(g.srcc, g.srcc_interval),
            plain(g.krcc, g.krcc_interval),
            g.n,
            g.images,
            g.reason,
        )
        for row in correlations
        for name, g in row.generators.items()
        if g.n > 1
    ]
    columns = {"metric": "metric", "part": "of", "by": by or "", "srcc": "SRCC", "krcc": "KRCC", "generators": "generators",
               "images": "images", "reason": ""}  # fmt: skip
    if not by:
        del columns["by"]
    if not any(row[-1] for row in rows):
        del columns["reason"]
        rows = [row[:-1] for row in rows]
    note = "generators by their means; KRCC is tau-b"
    title = "Rank correlation of generators with people"
    return (
        [
            Table(
                title,
                tuple(columns.values()),
                tuple(rows),
                (Note("about_generator_correlations", note),),
                declared=OF_GENERATORS.over(families=families),
                keys=tuple(columns),
            )
        ]
        if rows
        else []
    )
