"""The table of a sweep: all judges over the same pairs, and what each judge has scored itself beside them."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from titjudge.core.run_records import MetricResult
from titjudge.core.types import Item, Pair, Score
from titjudge.runs.study.sweep import ModelLabel, Row, Swept, _ranked
from titjudge.stats.people.agreement import agreement

QUALITY = {"A": 60, "B": 50, "C": 40, "D": 30}
ITEMS = [Item(f"{g}{p}", "", None, g, f"p{p}") for p in range(40) for g in QUALITY]
PAIRS = [Pair(f"p{p}", f"{a}{p}", f"{b}{p}", "a") for p in range(40) for a, b in combinations(QUALITY, 2)]


def row(name: str, spread: dict[bool, float | None], pairs: list[Pair], seed: int = 9) -> Row:
    """A judge with this noise on the 20 easy prompts (True) and the 20 hard ones; None: it has not scored them."""
    rng = np.random.default_rng(seed)
    values: dict[str, float | None] = {}
    for item in ITEMS:
        noise = spread[int(item.prompt_id[1:]) < 20]
        values[item.id] = None if noise is None else QUALITY[item.generator] + rng.normal() * noise
    numbers = agreement(ITEMS, [Score(id, "m", value) for id, value in values.items()], pairs).metrics["m"]
    models = dict.fromkeys(("captioner", "embedder", "judge", "prompts"), ModelLabel()) | {"judge": ModelLabel(name)}
    return Row("m", models, name, numbers, None, None, 0, values)


def table(rows: list[Row], pairs: list[Pair]) -> Swept:
    return Swept(Path("sweep"), _ranked(rows, pairs), {}, {}, 0.0, "complete")


def test_all_numbers_of_a_row_are_over_the_images_that_all_judges_have() -> None:
    easy, whole, tiny = {True: 9.0, False: None}, {True: 4.0, False: 40.0}, {True: None, False: 0.1}
    judges = [row("mini", easy, PAIRS), row("large", whole, PAIRS)]
    assert judges[0].numbers.accuracy > judges[1].numbers.accuracy  # type: ignore[operator]
    swept = table(judges, PAIRS)
    shown = swept.table()
    assert [cells["judge"] for cells in shown.records] == ["large", "mini"]
    common = [pair for pair in PAIRS if int(pair.prompt_id[1:]) < 20]
    by_name = {judge.run: judge for judge in judges}
    for cells in shown.records:
        judge = by_name[str(cells["judge"])]
        same: MetricResult = row(judge.run, whole if judge.run == "large" else easy, common).numbers
        assert judge.common is not None
        assert (judge.common.accuracy, judge.common.srcc, judge.common.ndcg) == (same.accuracy, same.srcc, same.ndcg)
        assert cells["accuracy"].value == pytest.approx(same.accuracy)  # type: ignore[union-attr]
        assert cells["srcc"].value == pytest.approx(same.srcc)  # type: ignore[union-attr]
        assert cells["own_accuracy"].value == pytest.approx(judge.numbers.accuracy)  # type: ignore[union-attr]
    declared = shown.declared
    assert declared.sizes["common_pairs"] == [120]
    assert declared.sizes["own_pairs"] == [120, 240]
    assert set(declared.excluded) == {"no_score"}
    assert {name: len(pairs) for name, pairs in declared.excluded["no_score"].items()} == {"m (judge mini)": 120}
    few = row("few", {True: None, False: None}, PAIRS)
    for item in ITEMS[:8]:
        few.values[item.id] = float(QUALITY[item.generator])  # type: ignore[index]
    aside = table([*judges, few], PAIRS).table()
    assert [cells["judge"] for cells in aside.records] == ["large", "mini", "few"]
    assert aside.records[2]["accuracy"] is None
    assert aside.declared.excluded["too_few_pairs"].keys() == {"m (judge few)"}
    apart = table([row("mini", easy, PAIRS), row("other", tiny, PAIRS)], PAIRS).table()
    assert [cells["accuracy"] for cells in apart.records] == [None, None]  # no pair in common: no number side by side


def test_judges_that_have_all_images_have_one_accuracy() -> None:
    whole = {True: 4.0, False: 40.0}
    swept = table([row("one", whole, PAIRS), row("two", whole, PAIRS, seed=1)], PAIRS)
    assert "own accuracy" not in swept.table().columns
    assert not swept.table().declared.excluded
    assert all("common" not in judge.to_json() for judge in swept.rows)
