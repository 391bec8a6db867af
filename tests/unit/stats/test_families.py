"""Families of prompts, and few annotators: the units of every interval and test."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

from benchmarks.families import WIN_RATE, leaning_pairs, votes_of_people
from tests.builders import png, write_lines
from tests.commands import cli
from tests.report_runs import score, write_run
from titjudge.core.errors import DataError
from titjudge.core.run_records import BetterGenerator, Verdict
from titjudge.core.serialization import json_value, lean_item
from titjudge.core.types import Item, Pair
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.study.score_files import read_scores
from titjudge.stats.bootstrap import Floats, Ints
from titjudge.stats.generators.comparison_tables import compared_with_best
from titjudge.stats.generators.generator_differences import WORSE, gate, generator_differences, generators_table
from titjudge.stats.generators.planning import Pilot, plan_table
from titjudge.stats.generators.sequential import replay_pairs, replay_race, replay_tables
from titjudge.stats.generators.slices import tiers
from titjudge.stats.pairwise_accuracy import pairwise_accuracy
from titjudge.stats.people.votes import Vote, aggregate_votes, human_ceiling
from titjudge.stats.ppi.ppi_leaderboard import people_board
from titjudge.stats.ranking.leaderboard import leaderboard
from titjudge.stats.scores.families import Alike, families, family_notes, in_families, units
from titjudge.stats.scores.population import shared_prompts
from titjudge.stats.scores.scores_table import Entry, ScoreTable, score_table
from titjudge.stats.verdict.judged_runs import stored_run
from titjudge.stats.verdict.sentences import sentences
from titjudge.stats.verdict.verdict import verdict
from titjudge.suites.pair_files import read_votes


def test_too_few_families_in_common_are_counted_as_families() -> None:
    entries = [Entry(f"p{p}", g, "", float(p)) for p in range(8) for g in ("ab" if p < 2 else "a" if p < 5 else "b")]
    table = score_table(entries, metric="m", source="s.csv", families={f"p{p}": f"f{p // 2}" for p in range(8)})
    with pytest.raises(DataError, match=r"s\.csv: 'a' and 'b' have 1 prompt family with a score in common: judge"):
        table.common_scores(("a", "b"), "judge more")


def item(prompt: str, generator: str = "A", **meta: object) -> Item:
    return Item(f"{generator}/{prompt}", "a red door", None, generator, prompt, meta)


@pytest.mark.parametrize(
    ("metas", "found"),
    [
        ([{"cluster": "x"}, {"cluster": "x"}, {}], {"p0": "x", "p1": "x"}),
        ([{"cluster": 1}, {"cluster": 2}, {"theme": "t"}, {"theme": "t"}], {}),  # a column `cluster` decides alone
        ([{"pair": "q", "length": "short"}, {"pair": "q", "length": "long"}], {"p0": "q", "p1": "q"}),
        ([{"pair": "q"}, {"pair": "q"}], {}),
        ([{"theme": "t"}, {"theme": "t"}, {"theme": "u"}], {"p0": "t", "p1": "t", "p2": "u"}),
        ([{"theme": "t"}] * 6, {}),  # six prompts and more of a theme: a category
        ([{}, {}], {}),
    ],
)
def test_columns_declare_families(metas: list[dict[str, object]], found: dict[str, str]) -> None:
    listed = [item(f"p{k}", generator, **meta) for k, meta in enumerate(metas) for generator in "AB"]
    assert families(listed) == found
    assert families(lean_item(each, counted=True) for each in listed) == found


def test_short_and_long_wording_are_a_family() -> None:
    places = [("a", 1, "short"), ("a", 1, "long"), ("b", 1, "short"), ("a", 2, "short")]
    found = families(item(f"p{k}", type=t, index=i, length=length) for k, (t, i, length) in enumerate(places))
    unit = units([f"p{k}" for k in range(4)], found)
    assert unit is not None
    assert unit.tolist() == [0, 0, 1, 2]


def test_a_column_with_several_values_of_a_prompt_declares_nothing_and_is_reported() -> None:
    found = families([item("p", "A", cluster="x"), item("p", "B", cluster="y"), item("q", "A", cluster="x")])
    (note,) = family_notes(["p", "q"], found)
    assert not found
    assert all(f"'{part}'" in note for part in ("p", "x", "y", "cluster"))
    assert family_notes(["p", "q"], families([item("p", "A", theme="x"), item("p", "B", theme="y")])) == []


def test_a_prompt_in_two_families_is_an_error_of_a_file_and_a_warning_of_a_run(tmp_path: Path) -> None:
    listed = [
        item(f"p{p}", g, cluster="z" if p + k == 0 else f"f{p // 4}") for p in range(40) for k, g in enumerate("AB")
    ]
    pairs = [{"prompt_id": f"p{p}", "a": f"A/p{p}", "b": f"B/p{p}", "preference": "ab"[p % 2]} for p in range(40)]
    scores = [score(each, "tit-llm", 10.0 + k % 7) for k, each in enumerate(listed)]
    write_run(tmp_path / "run", listed, scores, results={"pairs": pairs})
    for words in ("compare run", "judges agreement run", "compare early-stopping run --pair A,B", "judges people run"):
        printed = " ".join(cli(tmp_path, *words.split()).split())
        assert "prompt 'p0' has 'z' and 'f0' in the column 'cluster'" in printed, words
    cli(tmp_path, "report", "run")
    assert "in the column &#39;cluster&#39;" in (tmp_path / "run" / "report.html").read_text()
    rows = [f"p{p},x{p},y{p},a,{'z' if p == 3 and k else 'f'}" for p in range(4) for k in range(2)]
    votes = tmp_path / "votes.csv"
    votes.write_text("\n".join(["prompt_id,image_a,image_b,preference,cluster", *rows]))
    with pytest.raises(DataError, match=r"votes.csv:9: prompt 'p3' has 'f' and 'z'"):
        read_votes(votes)
    rows_of = [{"file_name": png(tmp_path / "images" / f"{k}.png").name, "prompt": "a door", "prompt_id": "p", "cluster": name}
               for k, name in enumerate(("f", None, "g"))]  # fmt: skip
    write_lines(tmp_path / "images" / "metadata.jsonl", *rows_of)
    for more in ([], ["--dry-run"]):
        printed = cli(tmp_path, "judge", "images", "--provider", "fake", *more, code=2)
        assert "prompt 'p' has 'f' and 'g' in the column 'cluster'" in printed


def shared(rng: np.random.Generator, unit: Ints, share: float = 0.7) -> Floats:
    """Numbers with variance 1, of which each unit shares a part."""
    common = rng.normal(0, 1, int(unit.max()) + 1)[unit]
    return np.asarray(share**0.5 * common + (1 - share) ** 0.5 * rng.normal(0, 1, len(unit)))


def table(scores: Floats, unit: Ints | None, bounds: tuple[float, float] | None = (0, 100)) -> ScoreTable:
    entries = [
        Entry(f"p{p}", "ABCDE"[g], "", None if np.isnan(value) else float(value))
        for (p, g), value in np.ndenumerate(scores)
    ]
    declared = {} if unit is None else {f"p{p}": f"f{number}" for p, number in enumerate(unit.tolist())}
    return score_table(entries, metric="m", source="", bounds=bounds, families=declared)


def equal(rng: np.random.Generator, unit: Ints, generators: int = 2) -> Floats:
    """Scores of equal generators: families share the level, and most of what generators differ by."""
    level = 60 + 10 * shared(rng, unit, 1.0)
    return np.stack([level + 5 * shared(rng, unit) for _ in range(generators)], axis=1)


@pytest.mark.parametrize("unit", [np.repeat(np.arange(10), 4), np.repeat(np.arange(20), 2), np.arange(60) ** 2 // 240])
def test_levels_hold_for_families(unit: Ints) -> None:
    rng, runs = np.random.default_rng(1), 100
    held = said = worse = 0
    for _ in range(runs):
        scores = equal(rng, unit)
        (difference,) = generator_differences(table(scores, unit))
        low, high = difference.interval or (0.0, 0.0)
        held += low <= 0 <= high
        said += (difference.p or 1.0) < 0.05
        at_margin = table(scores - [3.0, 0.0], unit, (-3, 100))
        worse += gate(generator_differences(at_margin, baseline="B"), 3.0, at_margin).verdicts["A"] == WORSE
    assert held >= 0.91 * runs
    assert said <= 0.09 * runs
    assert worse <= 0.06 * runs


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_equal_generators_are_one_tier(missing: float) -> None:
    rng, unit, several = np.random.default_rng(2), np.repeat(np.arange(10), 4), 0
    for _ in range(60):
        scores = equal(rng, unit, 5)
        scores[rng.random(scores.shape) < missing] = np.nan
        several += len(tiers(scores, unit=unit)) > 1
    assert several <= 8


def test_prompts_on_their_own_have_the_same_numbers() -> None:
    rng = np.random.default_rng(3)
    scores = equal(rng, np.arange(20), 3)
    alone, one_each = (generator_differences(table(scores, unit)) for unit in (None, np.arange(20)))
    assert alone == one_each
    assert "families" not in json_value(alone[0])
    assert tiers(scores) == tiers(scores, unit=np.arange(20))


def test_estimates_stay_and_units_are_counted() -> None:
    unit = np.repeat(np.arange(8), [6, 1, 1, 4, 4, 2, 2, 4])
    scores = equal(np.random.default_rng(4), unit)
    (plain,), (found,) = (generator_differences(table(scores, each)) for each in (None, unit))
    assert found.difference == pytest.approx(plain.difference)
    assert (found.prompts, found.families, found.wins) == (24, 8, plain.wins)
    assert json_value(found)["families"] == 8
    assert shared_prompts(scores, unit).tolist() == [[8, 8], [8, 8]]
    assert "24 prompts in 8 families, too few" in table(scores, unit).notes[0]
    assert "too few" not in family_notes([f"p{k}" for k in range(24)], {f"p{k}": f"f{k // 2}" for k in range(24)})[0]


def test_generators_need_enough_families_in_common() -> None:
    scores = equal(np.random.default_rng(5), np.arange(20))
    assert compared_with_best(table(scores, np.arange(20) // 4)) is None
    assert compared_with_best(table(scores, np.arange(20) // 3)) is not None


def test_missing_scores_of_one_family_are_one_fact() -> None:
    scores = equal(np.random.default_rng(5), np.arange(40))[:, :2]
    scores[:16, 0] = np.nan
    lost = np.isnan(scores).astype(np.int64)
    alone, together = (replace(table(scores, unit), lost=lost) for unit in (None, np.arange(40) // 4))
    assert "on 16 prompts" in alone.unequally_missing(0, 1)
    assert together.unequally_missing(0, 1) == ""  # four families of ten
    scores[:36, 0] = np.nan
    fewer = replace(table(scores, np.arange(40) // 4), lost=np.isnan(scores).astype(np.int64))
    assert "on 9 families" in fewer.unequally_missing(0, 1)


@pytest.mark.parametrize("families", [1, 3])
def test_one_family_cannot_tell(tmp_path: Path, families: int) -> None:
    listed = [item(f"p{p}", g, cluster=f"f{p % families}") for p in range(40) for g in "ABC"]
    rng = np.random.default_rng(17)
    scores = [
        score(i, m, 50.0 - 9 * "ABC".index(i.generator) + rng.normal() * s)
        for i in listed
        for m, s in (("tit-llm", 6), ("lmm-score", 20))
    ]
    pairs = [
        {"prompt_id": f"p{p}", "a": f"{a}/p{p}", "b": f"{b}/p{p}", "preference": "a"}
        for p in range(40)
        for a, b in ("AB", "BC", "AC")
    ]
    write_run(tmp_path / "run", listed, scores, results={"pairs": pairs})
    cli(tmp_path, "judges", "agreement", "run", "--strengths", "--json", "run.json")
    cli(tmp_path, "compare", "generators", "run", "--json", "generators.json")
    found, generators = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("run", "generators"))
    metric, fit = found["metrics"]["tit-llm"], found["bradley_terry"]["tit-llm"]
    numbers = [metric["p_value"], metric["accuracy_interval"], *(row["interval"] for row in fit["generators"])]
    numbers += [row[key] for row in generators["pairs"] for key in ("p", "p_adjusted", "interval")]
    assert {number is None for number in numbers} == {families == 1}
    assert all((row["mcnemar_p"] or 1) >= 0.25 for row in found["differences"])
    assert min((row["p"] or 1 for row in generators["pairs"]), default=1) >= 0.25
    planned = ("compare", "plan", "run", "--pair", "A,B", "--difference", "2")
    assert "famil" in cli(tmp_path, *planned, code=2 if families == 1 else 0)


def test_six_prompts_are_too_few_and_the_line_says_so(tmp_path: Path) -> None:
    for prompts in (6, 10):
        rows = [f"p{p},{g},{p * 7 % 5 + 9 * k}" for p in range(prompts) for k, g in enumerate("AB")]
        (tmp_path / "scores.csv").write_text("\n".join(["prompt_id,generator,score", *rows]))
        printed = cli(tmp_path, "compare", "generators", "scores.csv")
        assert ("6 prompts, too few" in printed) == (prompts == 6)
        assert "too few" not in printed or prompts == 6


def test_a_plan_allows_for_families() -> None:
    unit = np.repeat(np.arange(30), 4)
    scores = equal(np.random.default_rng(6), unit)
    alone, found = (Pilot.from_scores(table(scores, each), "A", "B") for each in (None, unit))
    assert (found.prompts, found.units) == (120, 30)
    assert found.variance > 2 * alone.variance
    assert found.variance == pytest.approx(
        120 * (generator_differences(table(scores, unit))[0].detectable or 0) ** 2 / 8.4, rel=0.1
    )


def test_a_leaderboard_has_intervals_over_families() -> None:
    unit = np.repeat(np.arange(10), 4)
    scores = equal(np.random.default_rng(7), unit)
    images = [(f"{g}{p}", g, f"p{p}") for p in range(40) for g in "AB"]
    values = {f"{g}{p}": float(scores[p, k]) for p in range(40) for k, g in enumerate("AB")}
    widths = []
    for declared in ({}, {f"p{p}": f"f{number}" for p, number in enumerate(unit.tolist())}):
        low, high = leaderboard(images, values, families=declared).places["A"].interval or (0.0, 0.0)
        widths.append(high - low)
    assert widths[1] > 1.4 * widths[0]


def judged(right: Floats, unit: Ints, annotator: Ints | None = None) -> tuple[list[Pair], dict[str, float | None]]:
    pairs = [
        Pair(f"p{p}", f"a{p}", f"b{p}", "a", annotator="" if annotator is None else str(annotator[p]))
        for p in range(len(right))
    ]
    values = {f"a{p}": float(right[p]) for p in range(len(right))} | {f"b{p}": 0.5 for p in range(len(right))}
    return in_families(pairs, {f"p{p}": f"f{number}" for p, number in enumerate(unit.tolist())}), values


def test_accuracies_hold_for_families() -> None:
    rng, unit, runs, held, above = np.random.default_rng(8), np.repeat(np.arange(10), 4), 200, 0, 0
    for _ in range(runs):
        right = (rng.random(40) < ndtr(1.5 * shared(rng, unit, 1.0))).astype(float)
        found = pairwise_accuracy(*judged(right, unit))
        low, high = found.accuracy_interval or (0.0, 0.0)
        held += low <= 0.5 <= high
        above += found.p_value is not None and found.p_value < 0.05
    assert held >= 0.91 * runs
    assert above <= 0.09 * runs


@pytest.mark.parametrize("prompts", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_accuracies_hold_for_three_annotators_with_leanings(prompts: int) -> None:
    rng, runs, held = np.random.default_rng(9), 100, 0
    for _ in range(runs):
        annotator = rng.integers(0, 3, prompts)
        leaning = 0.8 * rng.normal(0, 1, 3)[annotator] + 0.6 * rng.normal(0, 1, prompts)
        right = (rng.random(prompts) < ndtr(0.67 + leaning)).astype(float)
        low, high = pairwise_accuracy(*judged(right, np.arange(prompts), annotator)).accuracy_interval or (0.0, 0.0)
        held += low <= ndtr(0.67 / 2**0.5) <= high
    assert held >= 0.91 * runs


def test_votes_of_families_and_of_few_people() -> None:
    rng = np.random.default_rng(10)
    choice = np.where(rng.random((40, 3)) < 0.5 + 0.45 * np.sign(np.repeat(rng.normal(0, 1, 10), 4))[:, None], "a", "b")

    def votes(family: bool) -> list[Vote]:
        return [
            Vote(f"p{p}", f"x{p}", f"y{p}", f"#{k}", str(choice[p, k]), family=f"f{p // 4}" if family else "")
            for p in range(40)
            for k in range(3)
        ]

    for of in (lambda each: aggregate_votes(each).agreement.interval, lambda each: human_ceiling(each).interval):
        (low, high), (low_of_family, high_of_family) = of(votes(False)), of(votes(True))
        assert high_of_family - low_of_family > high - low


def test_prompts_that_are_nearly_the_same_are_counted() -> None:
    alike, words = Alike(), "a heron stands on one leg beside a lantern and a small red door in the morning mist"
    prompts = [
        "An old map of Rome",
        f"{words}.",
        words.title(),
        words.replace("red", "blue"),
        "A photo of a cup",
        "A photo of a cow",
    ]
    for k, prompt in enumerate(prompts):
        for generator in "AB":
            alike.look(Item(f"{generator}{k}", prompt, None, generator, f"p{k}"))
    (note,) = alike.notes()
    assert note.startswith("2 prompts")
    assert "cluster" in note
    declared = Alike()
    for k in range(3):
        declared.look(Item(str(k), words, None, "", str(k), {"cluster": str(k)}))
    assert not declared.notes()


def test_prompts_of_a_table_that_are_nearly_the_same_are_counted(tmp_path: Path) -> None:
    words = "a heron stands on one leg beside a lantern and a small red door in the morning mist"
    rows = [f'p{p},{g},{p + k},"{words} {p // 2}"' for p in range(12) for k, g in enumerate("AB")]
    file = tmp_path / "scores.csv"
    for column, found in (("prompt", 11), ("text", 0)):
        file.write_text(f"prompt_id,generator,score,{column}\n" + "\n".join(rows))
        printed = cli(tmp_path, "compare", "generators", str(file))
        assert (f"{found} prompts nearly the same" in printed) == (found > 0)


def test_a_table_of_scores_names_families(tmp_path: Path) -> None:
    file, out = tmp_path / "scores.csv", tmp_path / "out.json"
    rows = [f"p{p},{g},{(p * 37 + k * 11) % 50 + 5 * k},f{p // 4}" for p in range(40) for k, g in enumerate("AB")]
    file.write_text("prompt_id,generator,score,cluster\n" + "\n".join(rows))
    printed = cli(tmp_path, "compare", "generators", str(file), "--json", str(out))
    record = json.loads(out.read_text())
    assert (record["pairs"][0]["prompts"], record["pairs"][0]["families"]) == (40, 10)
    assert "40 prompts in 10 families" in " ".join(printed.split())
    file.write_text(file.read_text().replace("cluster", "theme"))
    assert "40 prompts in 10 families" in " ".join(cli(tmp_path, "compare", "generators", str(file)).split())
    file.write_text(file.read_text().replace("theme", "cluster") + "\np0,C,4,f9")
    with pytest.raises(DataError, match=r"scores.csv:82: prompt 'p0' has 'f0' and 'f9'.*cluster"):
        read_scores(file)


def test_win_rates_hold_for_few_annotators_with_leanings() -> None:
    rng, held, nameless = np.random.default_rng(12), 0, 0
    for _ in range(20):
        human, judge, generator_of = leaning_pairs(rng, 8, 60)
        board = people_board(human, judge, generator_of)
        assert any("8 annotators" in line and "too few" in line for line in board.warnings)
        assert board.to_json()["doubt"] == board.tables()[0].declared.doubts["A"] == "few_people"
        unknown = people_board([replace(pair, annotator="") for pair in human], judge, generator_of)
        assert not any(line.id == "annotators" for line in unknown.warnings)
        ends = [
            next(s.win_rate.interval or (0, 0) for s in each.standings if s.generator == "A")
            for each in (board, unknown)
        ]
        held += ends[0][0] <= WIN_RATE <= ends[0][1]
        nameless += ends[1][0] <= WIN_RATE <= ends[1][1]
    assert held >= 17 > nameless


@pytest.mark.parametrize("spread", [0.0, 0.6])
def test_alpha_allows_for_few_annotators_who_differ(spread: float) -> None:
    rng, wider = np.random.default_rng(13), []
    for _ in range(10):
        votes = votes_of_people(rng, 6, 60, spread)
        found = aggregate_votes(votes, resamples=100).agreement
        unnamed = aggregate_votes(
            [replace(each, annotator=f"#{each.annotator}") for each in votes], resamples=100
        ).agreement
        assert "6 annotators" in found.reason
        assert "too few" in found.reason
        assert (found.alpha, unnamed.reason, found.doubt) == (unnamed.alpha, "", "few_people")
        (low, high), (inner_low, inner_high) = found.interval or (0, 0), unnamed.interval or (0, 0)
        assert low <= inner_low
        assert high >= inner_high
        wider.append((high - low) / (inner_high - inner_low))
    assert (np.mean(wider) > 1.8) == (spread > 0)
    assert np.mean(wider) < (5 if spread else 1.4)


def test_two_annotators_are_no_sample_for_alpha() -> None:
    votes = [Vote(f"p{p}", "x", "y", f"n{k}", "a" if p % 3 or k else "b") for p in range(20) for k in range(2)]
    found = aggregate_votes(votes, resamples=50).agreement
    assert "do not allow" in found.reason
    assert found.interval is not None


def test_tables_name_families_as_their_unit() -> None:
    rng, unit = np.random.default_rng(2), np.repeat(np.arange(10), 2)
    scores = table(np.round(equal(rng, unit, 3) + rng.normal(size=(20, 3))), unit)
    pairs, races = replay_pairs(scores, [("A", "B")]), replay_race(scores, "ABC")
    tables = [
        generators_table(scores, {}),
        *replay_tables(pairs, races, scores),
        plan_table([], [Pilot.from_scores(scores, "A", "B")], 0.8),
    ]
    assert {each.declaration["unit"] for each in tables} == {"family"}
    assert "families used" in tables[1].columns
    assert [each.declaration["size"] for each in tables] == [20] * 4


def test_a_generator_that_shares_few_families_is_named_with_their_number() -> None:
    record = BetterGenerator(first="A", second="B", difference=1.0, prompts=20, families=10, set_aside={"C": 1, "D": 3})
    (said,) = [line for line in sentences(Verdict(generators=record)) if line.startswith("Not compared")]
    assert "6 families" in said
    assert "C (1 family), D (3 families)" in said
    assert "prompt" not in said


@pytest.mark.parametrize("kind", ["pairs", "votes", "battles"])
def test_a_file_of_human_pairs_names_families(kind: str, tmp_path: Path) -> None:
    listed = [item(f"p{p}", g) for p in range(40) for g in "AB"]
    scores = [score(each, "tit-llm", 50.0 + k * 7 % 11) for k, each in enumerate(listed)]
    write_run(tmp_path / "run", listed, scores)
    rows = [f"p{p},A/p{p},B/p{p},{'ab'[p % 3 == 0]},f{p // 4}" for p in range(40)]
    head = "prompt_id,image_a,image_b,preference,cluster"
    if kind == "votes":
        head, rows = f"{head},annotator", [f"{row},{who}" for row in rows for who in "xyz"]
    if kind == "battles":
        head, rows = (
            "prompt_id,model_a,model_b,winner,cluster",
            [row.replace(f"/p{p}", "") for p, row in enumerate(rows)],
        )
    found = []
    for name in (head, head.replace("cluster", "other")):
        (tmp_path / "pairs.csv").write_text("\n".join([name, *rows]))
        printed = " ".join(
            cli(tmp_path, "judges", "agreement", "run", "--pairs", "pairs.csv", "--json", "out.json").split()
        )
        low, high = json.loads((tmp_path / "out.json").read_text())["metrics"]["tit-llm"]["accuracy_interval"]
        people = " ".join(cli(tmp_path, "judges", "people", "run", "--pairs", "pairs.csv").split())
        found.append((high - low, "40 prompts in 10 families" in printed, "40 prompts in 10 families" in people))
    assert found[0][0] != found[1][0]
    assert [row[1:] for row in found] == [(True, True), (False, False)]


def test_families_that_only_human_pairs_name_are_the_unit_of_every_statistic(tmp_path: Path) -> None:
    """The column `cluster` of the pairs reaches agreement, board, verdict, gate, people and report alike."""
    listed = [item(f"p{p}", g) for p in range(24) for g in "AB"]
    rng = np.random.default_rng(3)
    scores = [score(i, "tit-llm", 50.0 + 4 * (i.generator == "A") + rng.normal()) for i in listed]
    pairs = [
        {"prompt_id": f"p{p}", "a": f"A/p{p}", "b": f"B/p{p}", "preference": "a", "family": f"f{p // 2}"}
        for p in range(24)
    ]
    metrics = {"tit-llm": {"version": "1", "range": [0, 100], "higher_is_better": True}}
    write_run(tmp_path / "run", listed, scores, results={"pairs": pairs}, metrics=metrics)
    commands = ("judges agreement run", "compare run", "judges people run", "compare early-stopping run --pair A,B")
    for names in map(str.split, commands):
        cli(tmp_path, *names, "--json", "out.json")
        declared = json.loads((tmp_path / "out.json").read_text())["declared"]
        assert {table["unit"] for table in declared if table.get("unit") != "generator"} <= {"family"}, names
    record = verdict([stored_run(RunFolder(tmp_path / "run"), "run")]).generators
    assert record is not None
    assert (record.better, record.prompts, record.families) == (True, 24, 12)


@pytest.mark.parametrize(
    ("people", "doubt"), [(6, "few_people"), (12, "few_annotators"), (29, "few_annotators"), (30, "")]
)
def test_alpha_of_fewer_than_thirty_people_is_noted(people: int, doubt: str) -> None:
    agreement = aggregate_votes(votes_of_people(np.random.default_rng(15), people, 30, 0.6), resamples=50).agreement
    assert agreement.doubt == doubt
