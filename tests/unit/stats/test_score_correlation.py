"""Correlation of metrics and their parts with human scores, and what is recorded and tabulated of it."""

from pathlib import Path

from titjudge.core.types import Item, Score
from titjudge.stats.people.score_correlation import (
    ALL,
    SCORE,
    correlation_record,
    correlation_tables,
    judged_parts,
    score_correlations,
)

IDS = [f"{generator}{prompt}" for generator in "abc" for prompt in range(4)]
ITEMS = {
    id: Item(id, f"prompt {id[1]}", Path(f"{id}.png"), generator=id[0], prompt_id=id[1], meta={"theme": "odd"})
    for id in IDS
}
SCORES = [Score(id, "m", float(place), generator=id[0], prompt_id=id[1]) for place, id in enumerate(IDS)]


def test_a_metric_and_its_generators_are_correlated_in_each_slice() -> None:
    people = {SCORE: {id: 2.0 * place for place, id in enumerate(IDS)}, "Realism": {"a0": 1.0}}
    slices = {ALL: IDS, "odd": IDS[:8]}
    (found,) = score_correlations(ITEMS, judged_parts(ITEMS, SCORES), people, slices)
    assert (found.metric, found.part, found.images.n, found.images.srcc) == ("m", SCORE, 12, 1.0)
    assert {name: each.n for name, each in found.generators.items()} == {ALL: 3, "odd": 2}
    record = correlation_record([found])["m"]
    assert (record["srcc"], record["generators"].n, record["generators_by"]["odd"].images) == (1.0, 3, 8)
    over_images, generators = correlation_tables([found], "theme")
    assert over_images.rows[0][:3] == ("m", SCORE, 1.0)
    assert [row[2] for row in generators.rows] == ["all", "odd"]
    assert generators.columns[2] == "theme"


def test_one_generator_has_no_table() -> None:
    alone = {id: ITEMS[id] for id in IDS[:4]}
    found = score_correlations(
        alone, judged_parts(alone, SCORES[:4]), {SCORE: dict.fromkeys(alone, 1.0)}, {ALL: list(alone)}
    )
    assert len(correlation_tables(found)) == 1


def test_metrics_are_correlated_over_the_images_that_all_of_them_have() -> None:
    """The accurate metric lacks the images that are hard for the other one, and the third has one image only."""
    people = {SCORE: {id: float(place) for place, id in enumerate(IDS)}}
    some = [Score(id, "some", -float(IDS.index(id)) if id in IDS[8:] else float(IDS.index(id))) for id in IDS[2:]]
    scores = [*SCORES[:8], *some, Score("a3", "tiny", 1.0)]
    m, some_row, tiny = score_correlations(ITEMS, judged_parts(ITEMS, scores), people, {ALL: IDS})
    assert [row.metric for row in (m, some_row, tiny)] == ["m", "some", "tiny"]
    assert [row.common and row.common.n for row in (m, some_row, tiny)] == [6, 6, 0]
    assert [row.common and row.common.srcc for row in (m, some_row)] == [1.0, 1.0]
    assert [row.images.n for row in (m, some_row, tiny)] == [8, 10, 1]
    assert some_row.images.srcc != 1.0
    over_images, *_ = correlation_tables([m, some_row, tiny])
    assert over_images.columns[-1] == "own SRCC"
    assert "own SRCC: images that people and the metric have" in over_images.caption
    assert correlation_record([some_row])["some"]["common"].n == 6
