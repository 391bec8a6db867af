"""`agreement`: what the CLI and the report show, on the example and on every kind of too little."""

import itertools
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from builders import read_lines

from titjudge.core.errors import DataError
from titjudge.core.run_records import PeopleAgreement, Results
from titjudge.core.tables import plain
from titjudge.core.types import InvalidItem, Item, Pair, Score, Status
from titjudge.stats.people.agreement import MARKS_JUDGE, NO_PAIRS, agreement
from titjudge.stats.people.agreement_tables import agreement_tables, chance_level
from titjudge.stats.ranking.rank_agreement import ranks_to_pairs

KEYS = {
    "accuracy",
    "accuracy_interval",
    "tie_rate",
    "half_credit_accuracy",
    "pairs",
    "pairs_scored",
    "srcc",
    "krcc",
    "ndcg",
}
KEYS |= {"coverage", "threshold_05", "p_value", "reasons"}


def known_answer(example: Path) -> tuple[list[Item], list[Pair]]:
    images = read_lines(example / "images.jsonl")
    items = [Item(str(d["image"]), "", None, str(d["variant_model"]), str(d["prompt_id"]), d) for d in images]
    pairs = [
        Pair(str(d["prompt_id"]), str(d["image_a"]), str(d["image_b"]), str(d["preference"]))
        for d in read_lines(example / "pairs.jsonl")
    ]
    return items, pairs


def check(found: Results) -> dict[str, object]:
    """What must hold of any result: JSON without NaN, and tables whose rows fit their columns."""
    as_json = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert set(as_json) - {"bradley_terry", "populations"} == {
        "metrics",
        "leaderboard",
        "leaderboard_srcc",
        "notes",
        "explained",
        "warnings",
        "reference",
    }
    for each in as_json["metrics"].values():
        assert each.keys() >= KEYS
        for name in ("accuracy", "srcc", "ndcg"):
            assert each[name] is not None or name == "ndcg" or each["reasons"][name]
    for table in agreement_tables(found):
        assert all(len(row) == len(table.columns) for row in table.rows)
        assert all(cell is None or isinstance(cell, (str, int, float)) for row in table.plain_rows for cell in row)
    return dict(as_json)


def test_the_construction_agrees_with_itself(example: Path) -> None:
    items, pairs = known_answer(example)
    truth = [Score(i.id, "truth", float(i.meta["alignment"])) for i in items]
    found = agreement(
        items, truth + [Score(s.item_id, "error", 1 - (s.value or 0)) for s in truth], pairs, negate={"error"}
    )
    check(found)
    for name in ("truth", "error"):
        each = found.metrics[name]
        assert (each.accuracy, each.pairs, each.pairs_scored, each.tie_rate) == (1.0, 36, 36, 0.0)
        assert (each.srcc, each.krcc, each.ndcg) == pytest.approx((1.0, 1.0, 1.0))
        assert each.threshold_05 == 25
        assert found.leaderboard_srcc[name] == pytest.approx(1.0)
    assert not any(note.id == "no_better_than_guessing" for note in found.notes)
    first = found.leaderboard[0]
    truth_place, error_place = first.metrics["truth"], first.metrics["error"]
    assert first.human is not None
    assert first.human.rank == truth_place.rank == error_place.rank == 1
    assert (truth_place.mean or 0) + (error_place.mean or 0) == pytest.approx(1.0)
    assert not found.warnings


def test_a_noisy_metric_has_intervals_around_its_numbers(example: Path) -> None:
    items, pairs = known_answer(example)
    rng = random.Random(1)
    noisy = [Score(i.id, "noisy", float(i.meta["alignment"]) + rng.gauss(0, 0.3)) for i in items]
    found = agreement(items, noisy, pairs, strengths=True, resamples=200)
    each = found.metrics["noisy"]
    for name in ("accuracy", "srcc", "krcc", "ndcg"):
        low, high = getattr(each, f"{name}_interval")
        assert low <= getattr(each, name) <= high
        assert low < high
    strengths = check(found)["bradley_terry"]
    assert isinstance(strengths, dict)
    assert list(strengths) == ["people", "noisy"]
    assert len(strengths["people"]["generators"]) == 4
    assert found == agreement(items, noisy, pairs, strengths=True, resamples=200)


def test_failures_lower_coverage_and_never_count(example: Path) -> None:
    items, pairs = known_answer(example)
    lost = items[0]
    scores = [Score(i.id, "m", float(i.meta["alignment"])) for i in items[1:]]
    scores.append(Score(lost.id, "m", None, Status.REFUSED, "declined"))
    bad = InvalidItem("broken.jpg", "truncated", lost.generator, lost.prompt_id)
    found = agreement([*items, bad], scores, pairs)
    each = found.metrics["m"]
    touched = sum(lost.id in (pair.a, pair.b) for pair in pairs)
    assert touched == 3
    assert (each.pairs_scored, each.accuracy) == (36 - touched, 1.0)
    assert each.coverage == pytest.approx(23 / 25)
    table, board = agreement_tables(found)
    assert (table.records[0]["pairs"].text, len(table.declared.excluded["no_score"]["m"])) == ("33 of 36", touched)
    assert board.declared.excluded.keys() == {"too_few_own_mean"}
    (row,) = [row for row in found.leaderboard if row.generator == lost.generator]
    assert row.metrics["m"].coverage == pytest.approx(5 / 7)
    check(found)


def test_metrics_with_scores_on_other_prompts_have_columns_of_their_own() -> None:
    items = [Item(f"{g}{p}", "", None, g, f"p{p}") for g in "xyz" for p in range(12)]
    scores = [
        Score(item.id, name, float(k * 7 % 11))
        for name, judged in (("m", range(9)), ("n", range(3, 12)))
        for k, item in enumerate(items)
        if int(item.prompt_id[1:]) in judged
    ]
    pairs = [Pair(f"p{p}", f"x{p}", f"y{p}", "a" if p % 3 else "b") for p in range(12)]
    found = agreement(items, scores, pairs)
    table, board = agreement_tables(found)
    assert table.caption.startswith("over 6 human pairs that all compared rows scored; own accuracy: human pairs that")
    assert (
        "SRCC, KRCC, nDCG, nDCG chance, paper fit, paper fit chance: 12 images that people and all compared rows have"
        in table.caption
    )
    assert [row["pairs"].text for row in table.records] == ["6 of 12", "6 of 12"]
    for name, row in zip("mn", table.records, strict=True):
        common = agreement(items, scores, [pair for pair in pairs if 3 <= int(pair.prompt_id[1:]) < 9])
        assert row["accuracy"].value == common.metrics[name].accuracy
        assert row["srcc"] == plain(common.metrics[name].srcc)
        assert row["own_accuracy"].value == found.metrics[name].accuracy
    assert board.caption.startswith("over 9 prompts, the same for all in a column")
    assert "mean rank: 9 common prompts of all in a column" in board.caption
    assert board.declaration["excluded"] == {"no_score_of_any": {"m": 3, "n": 3}}
    alike = agreement(items, [score for score in scores if score.metric == "m"], pairs)
    assert "common" not in alike.to_json()["metrics"]["m"]


def test_families_are_the_unit_of_all_tables_of_agreement() -> None:
    items = [Item(f"{g}{p}", "", None, g, f"p{p}", {"cluster": str(p // 2)}) for g in "xyz" for p in range(12)]
    pairs = [Pair(f"p{p}", f"x{p}", f"y{p}", "a" if p % 3 else "b") for p in range(12)]
    scores = [Score(item.id, "m", float(k * 7 % 11)) for k, item in enumerate(items)]
    found = agreement(items, scores, pairs, strengths=True, resamples=20)
    assert {table.declaration["unit"] for table in agreement_tables(found)} == {"family"}


def test_without_pairs_there_is_a_leaderboard_and_a_reason() -> None:
    items = [Item(f"{g}{p}", "", None, g, f"p{p}") for g in "xyz" for p in range(3)]
    found = agreement(items, [Score(i.id, "m", ord(i.generator) + 0.0) for i in items])
    each = found.metrics["m"]
    assert (each.accuracy, each.srcc, each.p_value) == (None, None, None)
    assert each.reasons["accuracy"] == each.reasons["leaderboard_srcc"] == NO_PAIRS
    assert [row.generator for row in found.leaderboard] == ["z", "y", "x"]
    assert {row.human for row in found.leaderboard} == {None}
    assert found.leaderboard_srcc == {"m": None}
    assert agreement_tables(found)[0].columns == ("metric", "mean", "scored", "coverage", "description words")
    check(found)


ONE = [Item("i", "", None, "x", "p"), Item("j", "", None, "x", "p")]
TWO = [Score("i", "m", 1.0), Score("j", "m", 0.0)]


@pytest.mark.parametrize(
    ("items", "scores", "pairs"),
    [
        ([], [], []),
        (ONE, [], []),
        (ONE, [], [Pair("p", "i", "j", "a")]),
        ([], [], [Pair("p", "i", "j", "a")]),
        (ONE[:1], TWO[:1], []),
        (ONE, TWO, [Pair("p", "i", "j", "a")]),
        (ONE, TWO, [Pair("p", "i", "j", "tie")]),
        (ONE, [Score("i", "m", None, Status.FAILED)], [Pair("p", "i", "j", "b")]),
        (ONE, [Score("i", "m", 0.5), Score("j", "m", 0.5)], [Pair("p", "i", "j", "b")]),
        ([Item("i", "", None), Item("j", "", None)], TWO, [Pair("", "i", "j", "b")]),
    ],
)
def test_too_little_is_undefined_and_never_fails(items: list[Item], scores: list[Score], pairs: list[Pair]) -> None:
    check(agreement(items, scores, pairs, strengths=True, resamples=50))


def test_one_prompt_one_generator() -> None:
    found = agreement(ONE, TWO, [Pair("p", "i", "j", "a")])
    each = found.metrics["m"]
    assert (each.accuracy, each.accuracy_interval, each.threshold_05) == (1.0, None, None)
    assert "two prompts" in each.reasons["accuracy"]
    assert found.leaderboard[0].metrics["m"].rank is None  # there is no competition
    assert "fewer than 3 generators" in each.reasons["leaderboard_srcc"]


def test_scores_alone_name_their_images() -> None:
    scores = [Score(f"{g}{p}", "m", 1.0, generator=g, prompt_id=p) for g in "xy" for p in "pq"]
    assert {row.generator for row in agreement([], scores).leaderboard} == {"x", "y"}


def test_strangers_and_repeated_scores_are_named() -> None:
    found = agreement(ONE, [*TWO, Score("i", "m", -1.0), Score("stranger", "m", 9.0)], [Pair("p", "i", "ghost", "a")])
    text = " ".join(found.warnings)
    assert "stranger" in text
    assert "ghost" in text
    assert "the last counts" in text
    assert found.metrics["m"].mean == pytest.approx(-0.5)
    assert found.metrics["m"].reasons["accuracy"] == "no pair has both scores"


def test_a_pair_without_a_prompt_takes_that_of_its_image() -> None:
    items = [Item(f"{s}{k}", "", None, s, f"p{k}") for k in range(4) for s in "xy"]
    scores = [Score(i.id, "m", float(i.generator == "x") + k % 3) for k, i in enumerate(items)]
    named = [Pair(f"p{k}", f"x{k}", f"y{k}", "a") for k in range(4)]
    bare = [Pair("", pair.a, pair.b, pair.preference) for pair in named]
    assert agreement(items, scores, bare).to_json() == agreement(items, scores, named).to_json()


def test_many_metrics_keep_the_leaderboard_narrow() -> None:
    found = agreement(ONE, [Score("i", f"m{k}", 1.0) for k in range(6)], [Pair("p", "i", "j", "a")])
    assert len(agreement_tables(found)[1].columns) == 2 + 6


def test_a_bad_preference_is_a_data_error() -> None:
    with pytest.raises(DataError, match="not 'left'"):
        agreement(ONE, TWO, [Pair("p", "i", "j", "left")])


def test_the_result_cannot_be_changed_through_its_json() -> None:
    found = agreement(ONE, TWO, [Pair("p", "i", "j", "a")])
    found.to_json()["metrics"]["m"]["reasons"]["x"] = "y"
    assert "x" not in found.metrics["m"].reasons


@pytest.mark.slow
def test_a_metric_that_marks_the_judge_orders_no_images(example: Path) -> None:
    items, pairs = known_answer(example)
    truth = [Score(i.id, "truth", float(i.meta["alignment"])) for i in items]
    exam = [Score(i.id, "exam", 1.0) for i in items]
    found = agreement(items, truth + exam, pairs, marks_judge={"exam"}, strengths=True)
    check(found)
    assert found.metrics["truth"] == agreement(items, truth, pairs).metrics["truth"]
    each = found.metrics["exam"]
    assert (each.accuracy, each.pairs, each.mean, each.coverage) == (None, 0, 1.0, 1.0)
    assert set(each.reasons.values()) == {MARKS_JUDGE}
    assert {name for row in found.leaderboard for name in row.metrics} == {"truth"}
    assert set(found.bradley_terry) == {"people", "truth"}
    check(agreement(items, exam, pairs, marks_judge={"exam"}))


def test_all_pairs_count_and_opposites_are_said() -> None:
    """Whether two pairs are of one person is known to who reads the file, not here."""
    items = [Item(name, "", None, generator=name, prompt_id="p") for name in "xyz"]
    scores = [Score(name, "m", float(k), prompt_id="p") for k, name in enumerate("xyz")]
    pairs = [Pair("p", "x", "y", "a"), Pair("p", "y", "x", "b"), Pair("p", "x", "z", "b"), Pair("p", "z", "x", "b")]
    found = agreement(items, scores, pairs)
    assert found.metrics["m"].pairs == 4
    assert any("1 image pairs have conflicting preferences" in warning for warning in found.warnings)


def test_a_mean_that_one_more_score_would_move_is_named_with_the_leaderboard() -> None:
    items = [Item(f"{g}{p}", "", None, g, f"p{p}") for g in "xy" for p in range(40)]
    scores = [
        Score(i.id, "m", 97.0 - k % 3 * (30 if i.generator == "y" else 1), Status.OK) for k, i in enumerate(items)
    ]
    found = agreement(items, scores, ranges={"m": (0.0, 100.0)})
    assert found.populations["leaderboard"].doubts == {"x": "one_score"}
    assert not agreement(items, scores).populations


def test_a_metric_that_does_not_beat_guessing_is_told_so() -> None:
    items = [Item(f"{p}{name}", "", None, generator=name, prompt_id=p) for p in "pqr" for name in "xy"]
    scores = [Score(item.id, "m", float(item.id in ("px", "qx", "ry")), prompt_id=item.prompt_id) for item in items]
    pairs = [Pair(p, f"{p}x", f"{p}y", "a") for p in "pqr"]
    found = agreement(items, scores, pairs)
    assert found.metrics["m"].p_value == pytest.approx(0.5)
    assert "m: no better than guessing (p 0.5)." in found.notes
    assert found.metrics["m"].paper_threshold_05 == 3


def ranked_by_people() -> tuple[list[Item], list[Score], list[Pair]]:
    """Three generators on two prompts, ranked 1, 1, 3 and 2, 1, 3 by people; a metric that scores them the other way round."""
    ranks = {"p": {"p/x": 1.0, "p/y": 1.0, "p/z": 3.0}, "q": {"q/x": 2.0, "q/y": 1.0, "q/z": 3.0}}
    items = [Item(id, "a cat", None, id[-1], prompt) for prompt, images in ranks.items() for id in images]
    scores = [
        replace(Score.of(rank), item_id=id, metric="tit") for images in ranks.values() for id, rank in images.items()
    ]
    return items, scores, ranks_to_pairs(ranks)


def test_the_mean_ranks_of_people_are_of_their_ranks_as_given() -> None:
    items, scores, pairs = ranked_by_people()
    board = {row.generator: row.human.to_json() for row in agreement(items, scores, pairs).leaderboard if row.human}
    assert board == {
        "y": {"mean_rank": 1.0, "rank": 1, "first_places": 2},
        "x": {"mean_rank": 1.5, "rank": 2, "first_places": 1},
        "z": {"mean_rank": 3.0, "rank": 3, "first_places": 0},
    }


def test_without_given_ranks_people_rank_by_the_share_of_images_beaten() -> None:
    items, scores, pairs = ranked_by_people()
    unranked = [replace(pair, ranks=None) for pair in pairs]
    rows = agreement(items, scores, unranked).leaderboard
    board = {row.generator: row.human.to_json() for row in rows if row.human}
    assert board["x"] == {"mean_rank": 1.75, "rank": 2}
    assert board["y"] == {"mean_rank": 1.25, "rank": 1}


def test_the_leaderboard_shows_first_places_of_people_who_gave_ranks() -> None:
    items, scores, pairs = ranked_by_people()
    table = agreement_tables(agreement(items, scores, pairs))[1]
    assert table.columns[:5] == ("generator", "rank", "prompts", "people: mean rank", "people: first")
    assert [row[:5] for row in table.plain_rows[:2]] == [
        ["z", "1 to 3", "2", "3.00", 0],
        ["x", "1 to 3", "2", "1.50", 1],
    ]


def test_the_correlations_of_metrics_with_other_images_state_their_numbers() -> None:
    items, scores, pairs = ranked_by_people()
    other = [replace(score, metric="clip", value=None if score.item_id == "p/x" else score.value) for score in scores]
    last = agreement_tables(agreement(items, [*scores, *other], pairs))[1].records[-1]
    assert [str(last[f"{name}:mean_rank"]) for name in ("tit", "clip")] == ["-1.000, 6 images", "-1.000, 5 images"]
    alone = agreement_tables(agreement(items, scores, pairs))[1].records[-1]
    assert str(alone["tit:mean_rank"]) == "-1.000"


def test_tables_of_constructed_preferences_say_so_in_their_heads() -> None:
    items, scores, pairs = ranked_by_people()
    constructed = agreement_tables(agreement(items, scores, [replace(pair, source="construction") for pair in pairs]))
    assert [table.title for table in constructed] == ["Agreement with construction", "Leaderboard"]
    heads = [str(cell) for cell in (*constructed[1].columns, *(row[0] for row in constructed[1].rows))]
    assert {head for head in heads if "construction" in head} == {
        "construction: mean rank", "construction: first", "SRCC with construction",
    }  # fmt: skip
    said = [*heads, *(table.caption for table in constructed), *(str(table.declaration) for table in constructed)]
    assert not [words for words in said if "people" in words or "human" in words]
    assert "SRCC with construction: 6 images" in constructed[1].caption


@pytest.mark.parametrize(("values", "named"), [([70.0] * 8, True), ([70.0] * 7 + [71.0], False), ([70.0] * 5, False)])
def test_a_judge_that_gives_every_image_the_same_score_is_named(values: list[float], named: bool) -> None:
    items = [Item(f"{n}", "a prompt", None, "g", f"p{n}") for n in range(len(values))]
    found = agreement(items, [Score(item.id, "m", value) for item, value in zip(items, values, strict=True)])
    assert any("same score (70)" in warning for warning in found.warnings) == named


@pytest.mark.parametrize(("copied", "prompts"), [(3, 3), (2, 3), (1, 3), (2, 2)])
def test_generators_with_the_same_files_are_named(copied: int, prompts: int) -> None:
    items = [Item(f"{g}/{n}", "a prompt", None, g, f"p{n}") for g in "xy" for n in range(3 if g == "x" else prompts)]
    keys = {item.id: f"{item.prompt_id}" + ("" if int(item.id[2:]) < copied else item.generator) for item in items}
    found = agreement(items, [Score(item.id, "m", 0.5, replies=(keys[item.id],)) for item in items])
    told = f"x and y have identical image files on {copied} of their {prompts} common prompts."
    assert (told in found.warnings) == (copied > 1)


@pytest.mark.parametrize(("threshold", "shown"), [(None, "p 0.67"), (5, "83.3%, p 0.67")])
def test_a_p_value_without_a_chance_threshold_is_marked(threshold: int | None, shown: str) -> None:
    assert str(chance_level(PeopleAgreement(threshold_05=threshold, pairs_scored=6, p_value=0.67))) == shown
    assert chance_level(PeopleAgreement()) is None


@pytest.mark.parametrize(
    ("met", "ranks"),
    [
        ("ab cd", [None] * 4),
        ("ab bc ac de", [1.0, 2.0, 3.0, None, None]),
        ("ab bc cd", [1.0, 2.0, 3.0, 4.0]),
        ("ab ac ad", [1.0, 3.0, 3.0, 3.0]),  # a won 14 of 20 against each
    ],
)
def test_people_rank_no_generators_that_met_unlike_opponents_by_mean_rank(met: str, ranks: list[float | None]) -> None:
    couples, names = met.split(), sorted(set(met) - {" "})
    items = [Item(f"{g}{p}", "", None, g, str(p)) for g in names for p in range(60)]
    scores = [Score(item.id, "m", -float("abcde".index(item.generator))) for item in items]
    pairs = []
    for p in range(60):
        first, second = couples[p % len(couples)]
        upset = (p // len(couples)) % 10 < (3 if first == "a" else 2)
        pairs.append(Pair(str(p), f"{first}{p}", f"{second}{p}", "b" if upset else "a"))
    found = agreement(items, scores, pairs)
    people = {row.generator: row.human.mean_rank if row.human else None for row in found.leaderboard}
    if met == "ab bc ac de":  # all met within the group: mean ranks
        assert people["d"] is people["e"] is None
        assert sorted("abc", key=lambda name: people[name] or 9) == list("abc")
    else:
        assert [people[name] for name in names] == ranks
    assert (found.leaderboard_srcc["m"] is None) == (ranks[:3] == [None] * 3)
    assert len([line for line in found.warnings if line.startswith("people: ")]) == 1


def test_generators_without_some_prompts_are_correlated_by_means_for_the_same_prompts() -> None:
    """E is the worst by the metric and the best by people; on most of its prompts it stands beside D alone."""
    items, pairs = [], []
    for p in range(30):
        there = "DE" if p < 10 else "ABCD" if p < 28 else "ABCDE"
        items += [Item(f"{g}{p}", "", None, g, str(p)) for g in there]
        pairs += [
            Pair(str(p), f"{a}{p}", f"{b}{p}", "b" if b == "E" else "a") for a, b in itertools.combinations(there, 2)
        ]
    scores = [Score(i.id, "m", 60.0 - 5 * "ABCDE".index(i.generator) - 30 * (int(i.prompt_id) < 10)) for i in items]
    assert agreement(items, scores, pairs).leaderboard_srcc["m"] == pytest.approx(0)  # of 1 2 3 4 5 and 2 3 4 5 1


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([0.1 * n for n in range(1, 9)], "no score of 8"),
        ([8, 9, 3, 7, 8, 10], "no score of 6 is above 10"),
        ([80, 0.8, 75, 90, 0.5, 60], "2 of 6 scores"),
        ([80, 90, 12, 3, 0, 55], ""),
        ([0] * 8, ""),
        ([0.5, 85.5, 70, 12, 1.5, 20], ""),
    ],
)
def test_a_judge_that_answers_on_another_scale_is_named(values: list[float], named: str) -> None:
    items = [Item(f"{n}", "a prompt", None, "g", f"p{n}") for n in range(len(values))]
    scores = [Score(item.id, "m", value) for item, value in zip(items, values, strict=True)]
    found = [
        text for text in agreement(items, scores, ranges={"m": (0, 100)}).warnings if text.id == "scores_on_other_scale"
    ]
    assert len(found) == bool(named)
    assert not found or named in found[0]
    assert not [
        text for text in agreement(items, scores, ranges={"m": (0, 10)}).warnings if text.id == "scores_on_other_scale"
    ]
