"""The verdict on runs: who is better, what the loser fails at, what would tell, and which metric can be trusted."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from titjudge.core.run_records import (
    BetterGenerator,
    Manifest,
    Results,
    SettledPair,
    SettleRecord,
    Verdict,
    WeakPart,
)
from titjudge.core.types import Item, Pair, Score, Status
from titjudge.stats.generators.generator_differences import generator_differences
from titjudge.stats.generators.paired_differences import paired_differences
from titjudge.stats.pairwise_accuracy import values_by_metric
from titjudge.stats.people.agreement import agreement
from titjudge.stats.people.agreement_tables import agreement_tables
from titjudge.stats.verdict.better_generator import better_generator, second_opinion
from titjudge.stats.verdict.judged_runs import JudgedRun, RunScores, joined_table
from titjudge.stats.verdict.sentences import headline, sentences
from titjudge.stats.verdict.verdict import verdict


def judged(
    values: dict[str, Sequence[float | None]], *, metrics: Sequence[str] = ("tit-llm",), pairs: Sequence[Pair] = (),
    themes: Sequence[str] = (), name: str = "run", named: bool = True, **results: Any,
) -> JudgedRun:  # fmt: skip
    """A run of generators with these scores by prompt, under each metric; `tit` gives a hundredth of them."""
    items, scores = {}, RunScores()
    for generator, row in values.items():
        for prompt, value in enumerate(row):
            meta = {"theme": themes[prompt]} if themes else {}
            item = Item(
                f"{generator}/{prompt}", f"a thing {prompt}", None, generator if named else "", f"p{prompt}", meta
            )
            items[item.id] = item
            for metric in metrics:
                own = value / 100 if value is not None and metric == "tit" else value
                status = Status.OK if own is not None else Status.FAILED
                said = f"seen by {metric}"
                scores[item.id, metric] = Score(
                    item.id, metric, own, status, said, {}, (), item.generator, item.prompt_id
                )
    agreed = agreement(list(items.values()), list(scores.values()), pairs, resamples=10)
    record = agreed.joined(
        Results(pairs=[{"prompt_id": p.prompt_id, "a": p.a, "b": p.b, "preference": p.preference} for p in pairs])
    )  # type: ignore[misc]
    records = {metric: {"version": "1", "range": (0, 100) if metric != "tit" else (-1, 1)} for metric in metrics}
    manifest = Manifest.model_validate(
        {"metrics": records, "protocol": "strict", "status": results.get("status", "complete")}
    )
    return JudgedRun(name, manifest, Results.model_validate(record.to_json() | results), list(items.values()), scores)


def spread(level: float, prompts: int = 40, seed: int = 0, width: float = 8) -> list[float]:
    shared = np.random.default_rng(99).normal(60, 10, prompts)
    return [
        float(np.clip(value, 0, 100))
        for value in shared + level + np.random.default_rng(seed).normal(0, width, prompts)
    ]


def said_of(run: JudgedRun) -> list[str]:
    return sentences(verdict([run]), run.results.settle, run.manifest.lacking)


def lead(run: JudgedRun) -> str:
    return said_of(run)[0]


def test_the_better_of_two_is_named_with_the_difference_and_p_of_compare_generators() -> None:
    run = judged({"old": spread(0, seed=1), "new": spread(9, seed=2)})
    record = verdict([run]).generators
    assert record is not None
    table = joined_table([run], "tit-llm")
    assert table is not None
    (same,) = generator_differences(table, baseline="old")
    assert (record.first, record.second, record.better) == ("new", "old", True)
    assert (record.difference, record.interval, record.p) == (same.difference, same.interval, same.p)
    assert (record.wins, record.same, record.losses) == (same.wins, same.same, same.losses)
    assert lead(run).startswith("new beats old by ")
    assert " of 100 [" in lead(run)
    assert " on 40 prompts (tit-llm, p " in lead(run)


def test_two_that_are_level_get_the_number_of_prompts_that_would_tell() -> None:
    run = judged({"old": spread(0, seed=1), "new": spread(1, seed=2)})
    record = verdict([run]).generators
    assert record is not None
    assert not record.better
    assert record.needed is not None
    assert record.needed.range[0] <= record.needed.prompts <= record.needed.range[1]
    assert "cannot be distinguished on 40 prompts (difference " in lead(run)
    assert f"about {record.needed.prompts:,} prompts would show a difference of " in lead(run)


def test_prompts_too_few_to_plan_from_say_what_they_would_have_shown() -> None:
    run = judged({"old": spread(0, 12, seed=1), "new": spread(1, 12, seed=2)})
    record = verdict([run]).generators
    assert record is not None
    assert record.needed is None
    assert "these prompts can only show a difference of" in lead(run)


@pytest.mark.parametrize(("width", "doubt"), [(1.0, "one_score"), (8.0, "")])
def test_a_verdict_that_one_more_score_would_undo_says_so(width: float, doubt: str) -> None:
    run = judged({"old": spread(0, seed=1, width=width), "new": spread(9, seed=2, width=width)})
    record = verdict([run]).generators
    assert record is not None
    assert (record.better, record.doubt) == (True, doubt)
    assert ("the level is not reliable" in lead(run)) == bool(doubt)


def test_a_verdict_whose_interval_contains_0_says_so() -> None:
    low = [50.0 + 3 * k % 17 for k in range(12)]
    run = judged({"old": low, "new": [score + 2 for score in low]})
    assert "the level is not reliable: p-value and interval disagree" in lead(run)


def test_a_handful_of_prompts_decides_nothing() -> None:
    run = judged({"old": [1, 2, 3, 4], "new": [91, 92, 93, 94]})
    assert (
        lead(run)
        == "new and old cannot be distinguished: they share 4 prompts with a score, and at least 6 are needed."
    )


def test_prompts_that_lack_a_score_are_named() -> None:
    record = verdict([judged({"old": [1, 2, 3, None, None], "new": [91, 92, 93, 94, 95]})]).generators
    assert record is not None
    assert "3 prompts" in record.reason
    assert re.search(r"judge old on \S+, \S+$", record.reason)


def test_six_prompts_may_decide() -> None:
    record = verdict([judged({"old": [1, 2, 3, 4, 5, 6], "new": [91, 92, 93, 94, 95, 97]})]).generators
    assert record is not None
    assert (record.better, record.reason, record.prompts) == (True, "", 6)


@pytest.mark.parametrize("higher", [True, False])
def test_of_several_images_of_a_prompt_those_that_show_the_difference_best_are_named(higher: bool) -> None:
    """The winner's best beside the loser's worst, where more is better and where less is."""
    near, far = spread(-20, seed=1), spread(20, seed=2)
    run = judged({"near": near, "far": far}, metrics=("distance",))
    second = [replace(item, id=f"{item.id}, second image") for item in run.items.values()]
    for item, again in zip(run.items.values(), second, strict=True):
        first = run.scores[item.id, "distance"]
        assert first.value is not None
        run.scores[again.id, "distance"] = replace(first, item_id=again.id, value=first.value + 1)
    result = run.results.metrics["distance"].model_copy(update={"higher_is_better": higher})
    results = run.results.model_copy(update={"metrics": {"distance": result}})
    run = replace(run, results=results, listed=[*run.listed, *second])
    record = better_generator([run], "distance")
    assert record is not None
    shown = record.won[0]
    assert (record.first, record.second) == (("far", "near") if higher else ("near", "far"))
    assert shown.first.item.endswith("second image") == higher
    assert shown.second.item.endswith("second image") != higher


def test_where_the_winner_loses_is_said() -> None:
    themes = ["text" if prompt % 4 == 0 else "scenes" for prompt in range(48)]
    new = [value - (45 if theme == "text" else -12) for value, theme in zip(spread(10, 48, 2), themes, strict=True)]
    run = judged({"old": spread(0, 48, 1), "new": new}, themes=themes)
    record = verdict([run]).generators
    assert record is not None
    assert record.weak is not None
    assert (record.weak.column, record.weak.value, record.weak.generator) == ("theme", "text", "new")
    assert "it loses where theme is text (by " in lead(run) or "new loses where theme is text (by " in lead(run)


@pytest.mark.parametrize(("met", "told"), [(0.91, True), (0.997, False), (1.0, False)])
def test_what_it_does_worst_at_is_said_unless_it_fails_at_nothing(met: float, told: bool) -> None:
    record = verdict([judged({"old": spread(0, 48, 1), "new": spread(20, 48, 2)})]).generators
    assert record is not None
    weakest = WeakPart(column="element", value="count", generator="new", mean=met)
    said = sentences(Verdict(generators=record.joined(BetterGenerator(weakest=weakest))))[0]
    assert ("it does worst at count (91%)" in said) == told
    assert ("worst" in said) == told


def test_three_generators_are_named_in_order_with_those_that_cannot_be_told_apart() -> None:
    run = judged({"a": spread(0, seed=1), "b": spread(15, seed=2), "c": spread(15.2, seed=3)})
    said = said_of(run)
    assert "cannot be distinguished" in said[0]
    assert said[1] in {
        "In order: c and b; a. Generators listed together cannot be distinguished.",
        "In order: b and c; a. Generators listed together cannot be distinguished.",
    }
    run = judged({"a": spread(0, seed=1), "b": spread(10, seed=2), "c": spread(25, seed=3)})
    assert lead(run).startswith("c beats the 2 others, and b, the next, by ")


def test_the_best_of_several_is_not_flattered_by_its_choice() -> None:
    run = judged({name: spread(0, seed=seed) for seed, name in enumerate("abcde")})
    record = verdict([run]).generators
    assert record is not None
    assert not record.better
    assert lead(run).startswith("No generator is shown to be better than the others: ")
    table = joined_table([run], "tit-llm")
    assert table is not None
    chosen = generator_differences(table, baseline=record.first, chosen=True)
    below = next(each for each in chosen if each.a == record.second)
    assert record.p == below.p_adjusted
    assert below.interval is not None
    assert record.interval == (-below.interval[1], -below.interval[0])


def test_tit_llm_decides_where_a_run_has_several_metrics_and_the_others_are_asked() -> None:
    run = judged({"old": spread(0, seed=1), "new": spread(9, seed=2)}, metrics=("tit", "tit-llm"))
    record = verdict([run]).generators
    assert record is not None
    assert (record.metric, record.others) == ("tit-llm", {"tit": "same"})
    assert "tit says the same." in said_of(run)


def test_a_metric_without_any_score_changes_no_result_of_another() -> None:
    values = {name: [float(60 + 3 * k + shift) for k in range(12)] for name, shift in (("a", 5), ("b", 0), ("c", -6))}
    pairs = [Pair(f"p{k}", f"{x}/{k}", f"{y}/{k}", "a") for k in range(12) for x, y in ("ab", "bc", "ac")]
    alone, both = (judged(values, metrics=metrics, pairs=pairs) for metrics in (("tit",), ("tit-llm", "tit")))
    nothing = {
        key: Score(key[0], key[1], None, Status.BAD_INPUT, "no words") for key in both.scores if key[1] == "tit-llm"
    }
    both.scores.update(nothing)
    found = agreement(both.listed, list(both.scores.values()), pairs, resamples=10)
    both.results = found.joined(Results(pairs=both.results.pairs))
    empty, whole = found.metrics["tit-llm"], found.metrics["tit"]
    assert (empty.coverage, empty.accuracy, empty.pairs_scored) == (0, None, 0)
    assert whole.accuracy == alone.results.metrics["tit"].accuracy == 1
    assert whole.threshold_05
    assert whole.common is None
    board = agreement_tables(found)[1]
    assert [row[:3] for row in board.rows] == [row[:3] for row in agreement_tables(alone.results)[1].rows]
    assert board.keys.index("tit:mean") < board.keys.index("tit-llm:mean")
    assert found.populations["leaderboard"].excluded.keys() == {"no_score_of_any"}
    better, expected = verdict([both]).generators, verdict([alone]).generators
    assert better
    assert expected
    assert (better.metric, better.first, better.p, better.difference) == ("tit", "a", expected.p, expected.difference)
    assert found.joined(Results(verdict=verdict([both]))).covered == ("tit", 36, 36)


def test_the_prompts_won_and_lost_most_have_their_images_and_reasons() -> None:
    new = spread(9, seed=2)
    new[7], new[11] = 0.0, 100.0
    old = spread(0, seed=1)
    old[7], old[11] = 100.0, 0.0
    record = verdict([judged({"old": old, "new": new})]).generators
    assert record is not None
    assert (record.won[0].prompt_id, record.lost[0].prompt_id) == ("p11", "p7")
    assert (record.won[0].difference, record.lost[0].difference) == (100, -100)
    assert (record.lost[0].first.item, record.lost[0].second.item) == ("new/7", "old/7")
    assert record.lost[0].first.reason == "seen by tit-llm"
    assert len(record.won) == len(record.lost) == 3


def test_prompts_that_only_one_generator_lacks_leave_the_question_open() -> None:
    new: list[float | None] = [None if prompt < 14 else value for prompt, value in enumerate(spread(9, seed=2))]
    run = judged({"old": spread(0, seed=1), "new": new})
    record = verdict([run]).generators
    assert record is not None
    assert not record.better
    assert "new lacks a score on 14 prompts" in lead(run)
    assert "what is left out may decide" in lead(run)


@pytest.mark.parametrize("exist", [True, False])
def test_an_image_that_does_not_exist_is_a_missing_score(exist: bool) -> None:
    """What the leader lacks may decide; that the loser lacks scores is said, and changes no verdict."""
    easy = [value if prompt < 24 else None for prompt, value in enumerate(spread(9, seed=2))]
    for others, better in ((spread(0, seed=1), False), (spread(20, seed=1), True)):
        run = judged({"new": easy, "old": others})
        if not exist:
            lacking = [key for key, score in run.scores.items() if score.value is None]
            run = replace(run, listed=[item for item in run.listed if (item.id, "tit-llm") not in lacking])
            for key in lacking:
                del run.scores[key]
        record = verdict([run]).generators
        assert record is not None
        assert (record.first, record.better) == ("old" if better else "new", better)
        assert (record.difference or 0.0) > 0
        assert "new lacks a score on 16 prompts" in lead(run)
        assert record.to_judge == ([] if better else ["judge new on p24, p25, p26, p27, p28, p29 and 10 more"])
        assert ("python cli.py judge" in said_of(run)[-1]) != better
        ranks = [(ranked.rank_low, ranked.rank_high) for ranked in record.ranking]
        assert ranks == ([(1, 1), (2, 2)] if better else [(1, 2), (1, 2)])


def test_ranks_overlap_where_what_the_leader_lacks_may_decide() -> None:
    few = [value if prompt < 12 else None for prompt, value in enumerate(spread(20, seed=3))]
    run = judged({"few": few, "a": spread(0, seed=1), "b": spread(-9, seed=2)})
    assert "few (1 to 3); a (1 to 2); b (2 to 3)" in said_of(run)[1]


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"a": [50.0] * 8}, []),
        ({"a": [50.0] * 8, "b": [None] * 8}, ["b (0 prompts)", "judge b on p0, p1, p2, p3, p4, p5 and 2 more"]),
        ({"a": [50.0] * 8 + [None] * 8, "b": [None] * 8 + [50.0] * 8}, ["they share 0 prompts", "judge a on p8"]),
        ({"a": [*range(5)], "b": [*range(5)]}, []),
    ],
)
def test_prompts_that_are_missing_come_with_the_command(
    values: dict[str, list[float | None]], named: list[str]
) -> None:
    run = judged(values)
    said = sentences(verdict([run]), command="judge again")
    assert all(any(words in line for line in said) for words in named)
    assert (said[-1].endswith(": judge again")) == bool(named)


def test_unequal_numbers_of_images_are_said_and_each_prompt_counts_once() -> None:
    run = judged({"old": spread(0, 12, seed=1), "new": spread(9, 12, seed=2)})
    for prompt in range(0, 12, 2):
        item = replace(run.items[f"new/{prompt}"], id=f"new/{prompt}/again")
        value = (run.scores[f"new/{prompt}", "tit-llm"].value or 0.0) - 4
        again = replace(run.scores[f"new/{prompt}", "tit-llm"], item_id=item.id, value=value)
        run = replace(run, listed=[*run.listed, item])
        run.scores[item.id, "tit-llm"] = again
    record = verdict([run]).generators
    assert record is not None
    assert record.images == (1, 2)
    assert "on 12 prompts with 1 to 2 images each" in lead(run)
    new = np.array(spread(9, 12, seed=2)) - np.where(np.arange(12) % 2, 0, 2)
    assert record.difference == pytest.approx(float(new.mean()) - float(np.mean(spread(0, 12, seed=1))))


def test_one_generator_alone_gets_its_mean() -> None:
    assert lead(judged({"only": [50.0] * 8})) == "The mean score is 50.0 of 100 on 8 prompts (tit-llm)."


def test_a_run_that_is_not_complete_speaks_of_now() -> None:
    run = judged({"old": spread(0, seed=1), "new": spread(9, seed=2)}, status="incomplete: budget")
    assert lead(run).startswith("So far: new beats old by ")
    assert {"incomplete", "budget"} < set(re.findall(r"\w+", said_of(run)[-1]))
    run.manifest = run.manifest.with_(status="complete", identity={"shard": "1/2"})
    assert lead(run).startswith("So far: new")
    assert "shard 1/2" in said_of(run)[-1]


def test_a_run_that_stopped_when_it_was_settled_gives_that_verdict() -> None:
    pair = SettledPair(a="old", b="new", verdict="new", used=9, of=40, interval=(-12.0, -3.0), method="betting")
    settle = SettleRecord(metric="tit-llm", pairs=[pair], images=18, of_images=80)
    run = judged({"old": spread(0, seed=1), "new": spread(9, seed=2)}, settle=settle.to_json(), status="settled")
    found = verdict([run])
    assert found.generators is not None
    assert found.generators.p is None
    assert found.generators.first == "new"
    assert found.generators.won
    assert lead(run) == "settled: new is the better one, old - new between -12 and -3 (18 of 80 images judged)."


def test_a_run_for_each_checkpoint_gives_one_verdict() -> None:
    runs = [
        judged({"x": spread(0, seed=1)}, name="step_1000", named=False),
        judged({"y": spread(9, seed=2)}, name="step_2000", named=False),
    ]
    found = verdict(runs)
    assert found.runs == ["step_1000", "step_2000"]
    assert found.generators is not None
    assert (found.generators.first, found.generators.second) == ("step_2000", "step_1000")
    assert found.generators.won[0].first.run == "step_2000"
    assert sentences(found)[0].startswith("step_2000 beats step_1000 by ")


def test_two_judgements_of_the_same_images_are_no_comparison_of_generators() -> None:
    runs = [judged({"a": spread(0), "b": spread(9)}, name=name) for name in ("one", "two")]
    assert verdict(runs).generators is None
    assert verdict(runs).apart == ["they judged the same images"]


def test_a_baseline_takes_the_place_of_the_runner_up() -> None:
    run = judged({"a": spread(0, seed=1), "b": spread(10, seed=2), "c": spread(25, seed=3)})
    record = verdict([run], "a").generators
    assert record is not None
    assert (record.first, record.second) == ("c", "a")
    assert sentences(verdict([run], "a"))[0].startswith("c beats a by ")


# -- which metric can be trusted ---------------------------------------------------------------------------------------


def compared(prompts: int) -> tuple[dict[str, Sequence[float | None]], list[Pair]]:
    pairs = [Pair(f"p{prompt}", f"old/{prompt}", f"new/{prompt}", "b") for prompt in range(prompts)]
    return {"old": [50.0] * prompts, "new": [60.0] * prompts}, pairs


def with_judge(run: JudgedRun, metric: str, right: Sequence[bool | None]) -> JudgedRun:
    """The run with another metric that is right on these prompts, and has no score where it is None."""
    scores = RunScores(run.scores)
    for item in run.items.values():
        wins = right[int(item.id.partition("/")[2])]
        value = None if wins is None else 0.5 + 0.1 * (wins == (item.generator == "new"))
        scores[item.id, metric] = Score(item.id, metric, value, Status.OK, "", {}, (), item.generator, item.prompt_id)
    agreed = agreement(list(run.items.values()), list(scores.values()), run.results.human_pairs, resamples=10)
    return JudgedRun(run.name, run.manifest, run.results.joined(agreed), run.listed, scores)


def test_a_metric_with_scores_on_few_pairs_is_not_compared() -> None:
    values, pairs = compared(40)
    run = with_judge(judged(values, pairs=pairs), "good", [prompt % 8 != 0 for prompt in range(40)])
    run = with_judge(run, "lucky", [True if prompt < 5 else None for prompt in range(40)])
    record = verdict([with_judge(run, "tit-llm", [prompt % 3 != 0 for prompt in range(40)])]).judges
    assert record is not None
    assert [ranked.metric for ranked in record.ranking] == ["good", "tit-llm", "lucky"]
    assert (record.first, record.second, record.pairs) == ("good", "tit-llm", 40)


@pytest.mark.parametrize(("other", "told"), [(2, True), (7, False)])
def test_the_better_metric_is_named_only_where_it_is_shown(other: int, told: bool) -> None:
    values, pairs = compared(60)
    run = judged(values, pairs=pairs)
    run = with_judge(run, "tit-llm", [prompt % 8 != 0 for prompt in range(60)])
    run = with_judge(run, "tit", [prompt % other != 0 for prompt in range(60)])
    record = verdict([run]).judges
    assert record is not None
    scored = values_by_metric(score for _, score in run.scores.items())
    (same,) = paired_differences(pairs, {name: scored[name] for name in (record.first, record.second)})
    assert (record.p, record.difference, record.better) == (same.p_value, same.difference, told)
    said = sentences(Verdict(judges=record))[0]
    assert ("agrees with people more often than" in said) == told
    assert ("cannot be distinguished on the 60 pairs that both scored (p " in said) == (not told)


def test_one_metric_says_how_often_it_agrees() -> None:
    values, pairs = compared(20)
    said = sentences(Verdict(judges=verdict([judged(values, pairs=pairs)]).judges))
    assert said[0].startswith("tit-llm prefers the image that people prefer in 100.0% of 20 pairs")


def test_how_much_of_a_source_is_left_decides_nothing_and_stands_in_no_sentence() -> None:
    better = {"old": [0.2] * 30, "new": [0.9] * 30}
    alone = verdict([judged(better, metrics=("preservation",))])
    assert alone.generators is None
    both = verdict([judged(better, metrics=("preservation", "preservation-l1", "viescore-edit"))])
    assert both.generators is not None
    assert both.generators.metric == "viescore-edit"
    assert not any("preservation" in line for line in sentences(both))


# -- the first screen of a page ----------------------------------------------------------------------------------------------


def test_the_headline_is_one_short_sentence_and_its_numbers_are_a_line() -> None:
    short, numbers = headline(verdict([judged({"old": spread(0, seed=1), "new": spread(9, seed=2)})]))
    assert short == "new beats old."
    assert re.match(r"By [\d.]+ of 100 \[.*\] on 40 prompts \(tit-llm, p ", numbers)
    level = judged({name: spread(0, seed=seed) for seed, name in enumerate("abc")})
    short, numbers = headline(verdict([level]), lacking="budget")
    assert re.fullmatch(r"So far: No clear winner between [abc] and [abc]\.", short)
    assert numbers.startswith("On 40 prompts (difference ")
    assert len(headline(verdict([judged({n: spread(k, seed=k) for k, n in ((0, "a"), (20, "b"), (40, "c"))})]))[0]) < 30


def test_the_headline_of_a_settled_run_has_its_numbers_below_and_one_generator_has_its_mean() -> None:
    pair = SettledPair(generators=["new", "old"], verdict="new", used=8, of=40, interval=(1.0, 9.0))
    settle = SettleRecord(pairs=[pair], images=16, of_images=80, saved=0.5)
    short, numbers = headline(Verdict(), settle)
    assert short == "settled: new is the better one."
    assert numbers == "new - old between 1 and 9 (16 of 80 images judged, about $0.5000 saved)."
    assert headline(verdict([judged({"only": spread(0)})]))[0].startswith("The mean score is ")
    assert headline(Verdict()) == ("", "")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (9, 9, "agree: both find new better"),
        (9, -9, "disagree: two finds old better"),
        (9, 0, "differ: two cannot distinguish"),
        (0, 9, "differ: only two finds new better"),
        (0, 0, "agree: neither distinguishes"),
    ],
)
def test_two_judges_of_the_same_generators_agree_or_not(first: float, second: float, expected: str) -> None:
    runs = [
        judged({"old": spread(0, seed=1, width=2), "new": spread(lead, seed=2, width=2)}, name=name)
        for name, lead in (("one", first), ("two", second))
    ]
    records = [verdict([run]).generators for run in runs]
    assert records[0] is not None
    assert records[1] is not None
    said, order = second_opinion(records[0], "one", runs[1], records[1])
    assert said.startswith("The judges of one and two ")
    assert expected in said
    assert order == ""


def test_the_orders_of_three_generators_are_correlated_and_strangers_are_not_compared() -> None:
    one = judged({name: spread(9.0 * k, seed=k, width=2) for k, name in enumerate("abc")}, name="one")
    other = judged({"x": spread(0), "y": spread(9)}, name="two")
    records = [verdict([run]).generators for run in (one, other)]
    assert records[0] is not None
    assert records[1] is not None
    assert "correlate by 1.00 (SRCC)" in second_opinion(records[0], "one", one, records[0])[1]
    assert second_opinion(records[0], "one", other, records[1]) == ("", "")


def test_judges_who_tell_the_first_two_alike_but_order_the_others_otherwise_do_not_agree() -> None:
    levels = {"one": (20, 11, 0, -9), "two": (0, -9, 20, 11)}
    runs = [
        judged({g: spread(at, seed=k, width=2) for k, (g, at) in enumerate(zip("abcd", row, strict=True))}, name=name)
        for name, row in levels.items()
    ]
    records = [verdict([run]).generators for run in runs]
    assert records[0] is not None
    assert records[1] is not None
    said, order = second_opinion(records[0], "one", runs[1], records[1])
    assert said == "The judges of one and two disagree: one finds a best, two finds c best."
    assert "-0.60 (SRCC)" in order
