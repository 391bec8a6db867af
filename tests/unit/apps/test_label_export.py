"""Votes to pairs, ranks, agreement and the experts' list."""

import itertools
import json
import re
from pathlib import Path
from random import Random

import pytest
from builders import read_lines
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from labelling_data import begin_store

from titjudge.apps.label.command import label
from titjudge.apps.label.dataset import LabelingData
from titjudge.apps.label.forms import export_labels
from titjudge.apps.label.questions import Question
from titjudge.apps.label.queues import merge_sort
from titjudge.apps.label.store import Store
from titjudge.apps.label.votes import leaderboard, ranks
from titjudge.core.errors import DataError, UserError
from titjudge.core.types import Item, Pair
from titjudge.stats.people.votes import VoteOutcome
from titjudge.suites.pair_files import read_pairs, read_votes

IMAGES = [f"i{number}" for number in range(5)]


def begin(path: Path, plan: str = "merge", annotators: int = 15) -> Store:
    return begin_store(path, IMAGES, gold=[Pair("p", "i0", "i4", "a")], plan=plan, annotators=annotators)


def sort(store: Store, annotator: str, order: list[str]) -> int:
    """Vote as somebody who sees the images in this order, best first."""
    outcomes: dict = {}
    asked = 0
    while (question := merge_sort(IMAGES, outcomes).question) is not None:
        x, y = question
        better = order.index(x) < order.index(y)
        left, right = (x, y) if asked % 2 else (y, x)
        store.add(
            annotator,
            Question("pair", "p", (left, right)),
            "left" if better == (left == x) else "right",
            duration_ms=2000,
        )
        outcomes |= {(x, y): 1 if better else -1, (y, x): -1 if better else 1}
        asked += 1
    return asked


def test_agreeing_annotators_decide_every_pair(tmp_path: Path) -> None:
    store = begin(tmp_path / "v.db")
    asked = sum(sort(store, f"n{person}", IMAGES) for person in range(15))
    store.close()
    export = export_labels(tmp_path / "v.db", tmp_path / "out")
    result, tables = export.result, export.tables
    assert asked < 15 * 10
    assert result["votes"] == asked
    rules = result["rules"]
    assert (result["pairs"], result["decided"], rules["consensus"] + rules["implied"]) == (10, 10, 10)
    assert rules["implied"] > 0
    assert f"{rules['implied']} pairs are decided by what people's sorts imply" in tables[0].notes[-1]
    for name in ("pairs.jsonl", "pairs.csv"):
        pairs = read_pairs(tmp_path / "out" / name)
        assert {(p.a, p.b): p.preference for p in pairs} == dict.fromkeys(itertools.combinations(IMAGES, 2), "a")
    assert result["alpha"] == pytest.approx(1.0)  # all say that the first is better: chance has it in either order
    ranks = (tmp_path / "out" / "ranks.csv").read_text().splitlines()[1:]
    assert [line.split(",")[1:4] for line in ranks] == [[i, f"gen-{i}", str(n)] for n, i in enumerate(IMAGES, 1)]
    assert [table.title for table in tables] == ["Votes", "Generators by the votes of people", "Annotators"]
    assert tables[1].rows[0] == ("gen-i0", 1, 1, 1, 1, 1)


def test_votes_that_a_sort_implies_are_no_votes_and_decide_by_a_rule_that_says_so(tmp_path: Path) -> None:
    store = begin(tmp_path / "v.db", annotators=1)
    asked = sort(store, "n", IMAGES)
    store.close()
    result = export_labels(tmp_path / "v.db", tmp_path / "out").result
    lines = read_lines(tmp_path / "out" / "pairs.jsonl")
    assert {(line["source"], line["votes_a"], line["implied"]) for line in lines} == {
        ("votes: consensus", 1, 0),
        ("votes: implied", 0, 1),
    }
    assert sum(line["votes_a"] for line in lines) == asked == result["votes"]


def test_the_rules_count_votes_that_were_cast_and_never_make_a_consensus_of_implied_ones(tmp_path: Path) -> None:
    """15 people, 9 of whom were shown the pair (3, 5, 1); the sorts of the others add 1, 5 and none: 4, 10 and 1 in all."""
    store = begin(tmp_path / "v.db", annotators=15)
    for person, answer in enumerate(["left"] * 3 + ["right"] * 5 + ["tie"]):
        store.add(f"n{person:02d}", Question("pair", "p", ("i0", "i1")), answer)
    for person in range(9, 15):
        first, last = ("i0", "i1") if person == 9 else ("i1", "i0")
        store.add(f"n{person:02d}", Question("pair", "p", (first, "i2")), "left")
        store.add(f"n{person:02d}", Question("pair", "p", ("i2", last)), "left")
    store.close()
    result = export_labels(tmp_path / "v.db", tmp_path / "out").result
    rows = read_lines(tmp_path / "out" / "pairs.jsonl")
    (pair,) = [row for row in rows if (row["image_a"], row["image_b"]) == ("i0", "i1")]
    assert (pair["votes_a"], pair["votes_b"], pair["votes_tie"], pair["implied"]) == (3, 5, 1, 6)
    assert (pair["preference"], pair["source"]) == ("b", "votes: implied")
    assert result["votes"] == 21
    assert result["human_ceiling"]["votes"] <= 21
    assert result["rules"]["consensus"] == 0


def test_where_people_and_sorts_disagree_experts_decide(tmp_path: Path) -> None:
    store = begin(tmp_path / "v.db", annotators=3)
    store.add("n0", Question("pair", "p", ("i0", "i1")), "left")
    store.add("n1", Question("pair", "p", ("i0", "i1")), "tie")
    store.add("n2", Question("pair", "p", ("i1", "i2")), "left")
    store.add("n2", Question("pair", "p", ("i2", "i0")), "left")
    store.close()
    result = export_labels(tmp_path / "v.db", tmp_path / "out").result
    assert {"prompt_id": "p", "image_a": "i0", "image_b": "i1"} in result["needs_experts"]


def split_votes(path: Path) -> None:
    """7 for i0, 6 for i1, 2 ties: the paper's example of high disagreement."""
    store = begin(path, "all")
    for person in range(15):
        store.add(
            f"n{person:02d}",
            Question("pair", "p", ("i0", "i1")),
            "left" if person < 7 else "right" if person < 13 else "tie",
        )
    store.close()


def test_disagreement_goes_to_experts_and_comes_back(tmp_path: Path) -> None:
    split_votes(tmp_path / "v.db")
    out, experts = tmp_path / "out", tmp_path / "out" / "experts.jsonl"
    result = export_labels(tmp_path / "v.db", out).result
    assert result["rules"]["needs experts"] == 1
    assert (out / "pairs.jsonl").read_text() == ""
    assert "p,i0,i1,,votes: needs experts,7,6,2,0,0" in (out / "open.csv").read_text()
    (entry,) = read_lines(experts)
    assert entry == {"prompt_id": "p", "image_a": "i0", "image_b": "i1", "prompt": "the prompt", "verdicts": []}
    experts.write_text(json.dumps(entry | {"verdicts": ["b", "tie", "b"]}) + "\n")
    result = export_labels(tmp_path / "v.db", out).result
    assert result["decided"] == 0, "verdicts count only when they are handed in"
    assert json.loads(experts.read_text())["verdicts"] == ["b", "tie", "b"], "and are never overwritten"
    result = export_labels(tmp_path / "v.db", out, experts=experts).result
    assert [p.preference for p in read_pairs(out / "pairs.csv")] == ["b"]
    assert json.loads(experts.read_text())["verdicts"] == ["b", "tie", "b"]
    experts.write_text(json.dumps(entry | {"verdicts": ["a", "tie", "b"]}) + "\n")
    export_labels(tmp_path / "v.db", out, experts=experts)
    assert [p.preference for p in read_pairs(out / "pairs.csv")] == ["tie"]


@pytest.mark.parametrize(
    ("verdicts", "message"),
    [("a", "must be a list"), (["c"], "must be a list"), (["a"] * 4, "4 verdicts"), (None, "must be a list")],
)
def test_malformed_verdicts_are_refused_with_their_line(tmp_path: Path, verdicts: object, message: str) -> None:
    split_votes(tmp_path / "v.db")
    experts = tmp_path / "experts.jsonl"
    experts.write_text(json.dumps({"prompt_id": "p", "image_a": "i0", "image_b": "i1", "verdicts": verdicts}))
    with pytest.raises(DataError, match=rf"experts.jsonl:1: .*{message}"):
        export_labels(tmp_path / "v.db", tmp_path / "out", experts=experts)


def test_missing_annotators_leave_a_pair_open(tmp_path: Path) -> None:
    store = begin(tmp_path / "v.db", "all")
    for person in range(9):
        store.add(f"n{person}", Question("pair", "p", ("i0", "i1")), "left")
    store.close()
    result = export_labels(tmp_path / "v.db", tmp_path / "out").result
    assert result["rules"]["incomplete"] == 1
    assert result["votes_expected"] == 15
    result = export_labels(tmp_path / "v.db", tmp_path / "out", annotators=9).result
    assert result["rules"]["consensus"] == 1


def test_ranks_are_none_while_a_pair_is_open(tmp_path: Path) -> None:
    split_votes(tmp_path / "v.db")
    export_labels(tmp_path / "v.db", tmp_path / "out")
    assert "p,i0,gen-i0,,0,0,0,1" in (tmp_path / "out" / "ranks.csv").read_text()


def outcomes_of(pairs: dict[str, str]) -> list[VoteOutcome]:
    """Pairs of images as "xy", and which is preferred."""
    return [VoteOutcome("p", *pair, 0, 0, 0, 0, "consensus", preference) for pair, preference in pairs.items()]


def both_ranks(pairs: dict[str, str]) -> dict[str, tuple[int | None, int | None]]:
    images = {name: ("p", f"gen-{name}") for name in "abcdefg"}
    return {each.image: (each.rank, each.sort_rank) for each in ranks(outcomes_of(pairs), images)}


@given(st.lists(st.integers(1, 4), min_size=2, max_size=7))
def test_both_rankings_of_an_order_with_ties_are_that_order(levels: list[int]) -> None:
    of = dict(zip("abcdefg", levels, strict=False))
    pairs = {
        x + y: "tie" if of[x] == of[y] else "a" if of[x] < of[y] else "b" for x, y in itertools.combinations(of, 2)
    }
    expected = {name: 1 + sum(other < level for other in levels) for name, level in of.items()}
    assert both_ranks(pairs) == {name: (rank, rank) for name, rank in expected.items()}


def test_circles_have_ranks_by_sorting_too(tmp_path: Path) -> None:
    """a beats b beats c beats a: equal by wins. A sort sees a > b and c > a, and no more."""
    circle = {"ab": "a", "bc": "a", "ac": "b"}
    assert both_ranks(circle) == {"a": (1, 2), "b": (1, 3), "c": (1, 1)}
    assert both_ranks(dict(reversed(circle.items()))) == both_ranks(circle)
    ties = {"ab": "tie", "bc": "tie", "ac": "a"}
    assert both_ranks(ties) == {"a": (1, 1), "b": (2, 1), "c": (3, 3)}
    table = leaderboard(ranks(outcomes_of(circle), {name: ("p", f"gen-{name}") for name in "abc"}), 9)
    assert table is not None
    assert table.rows == (("gen-a", 1, 1, 1, 2, 0), ("gen-b", 1, 1, 1, 3, 0), ("gen-c", 1, 1, 1, 1, 1))
    assert table.notes[0].endswith("they differ on 1 of 1 prompts.")


@given(st.lists(st.sampled_from(["a", "b", "tie"]), min_size=21, max_size=21), st.randoms())
def test_the_sorted_ranks_depend_on_the_votes_alone(choices: list[str], random: Random) -> None:
    pairs = [(x + y, choice) for (x, y), choice in zip(itertools.combinations("abcdefg", 2), choices, strict=True)]
    turned = {"a": "b", "b": "a", "tie": "tie"}
    other = [(pair[::-1], turned[choice]) if random.random() < 0.5 else (pair, choice) for pair, choice in pairs]
    random.shuffle(other)
    found = both_ranks(dict(pairs))
    assert both_ranks(dict(other)) == found
    assert sorted(rank for _, rank in found.values() if rank)[0] == 1


def test_checks_undone_votes_and_sides_are_reported(tmp_path: Path) -> None:
    store = begin(tmp_path / "v.db", "all", 1)
    store.add("n", Question("gold", "p", ("i4", "i0")), "right")
    store.add("n", Question("pair", "p", ("i0", "i1")), "left", duration_ms=3000)
    store.add("n", Question("pair", "p", ("i1", "i2")), "right")
    store.undo("n")
    store.add("m", Question("gold", "p", ("i0", "i4")), "tie")
    store.close()
    result = export_labels(tmp_path / "v.db", tmp_path / "out").result
    careless, careful = result["annotator_details"]
    assert (careful["gold"], careful["gold_accuracy"], careful["undone"], careful["median_seconds"]) == (1, 1.0, 1, 3.0)
    assert (careful["votes"], careful["left_share"]) == (1, 1.0)
    assert (careless["gold_accuracy"], careless["votes"], careless["left_share"]) == (0.0, 0, None)
    assert result["pairs"] == 1, "a gold pair is no vote on the data"
    assert len((tmp_path / "out" / "votes.jsonl").read_text().splitlines()) == 4


def test_a_reason_goes_out_with_its_vote_and_is_no_formula(tmp_path: Path) -> None:
    store = begin(tmp_path / "v.db", annotators=1)
    store.add("n", Question("pair", "p", ("i1", "i0")), "both_bad", note="=HYPERLINK(1)")
    store.add("n", Question("pair", "p", ("i1", "i2")), "right")
    store.close()
    export_labels(tmp_path / "v.db", tmp_path / "out")
    file = tmp_path / "out" / "votes.csv"
    rows = file.read_text().splitlines()
    assert rows == [
        "prompt_id,image_a,image_b,annotator,preference,note",
        "p,i1,i0,n,both_bad,'=HYPERLINK(1)",
        "p,i1,i2,n,b,",
    ]
    assert [vote.choice for vote in read_votes(file)] == ["both_bad", "b"]
    assert json.loads((tmp_path / "out" / "votes.jsonl").read_text().splitlines()[0])["note"] == "=HYPERLINK(1)"


def test_alpha_of_one_prompt_has_no_interval_over_prompts(tmp_path: Path) -> None:
    store = begin(tmp_path / "v.db")
    for person in range(6):
        sort(store, f"n{person}", IMAGES if person < 4 else [*IMAGES[:2], *IMAGES[:1:-1]])
    store.close()
    result = export_labels(tmp_path / "v.db", tmp_path / "out", annotators=6).result
    assert 0 < result["alpha"] < 1
    assert (result["alpha_interval"], result["alpha_reason"]) == (None, "fewer than two prompts: no interval")


def test_a_store_without_votes_cannot_be_exported(tmp_path: Path) -> None:
    begin(tmp_path / "v.db").close()
    with pytest.raises(UserError, match="no votes yet"):
        export_labels(tmp_path / "v.db", tmp_path / "out")
    with pytest.raises(UserError, match="the store of votes does not exist"):
        export_labels(tmp_path / "absent.db", tmp_path / "out")


def test_contradicting_answers_count_only_as_given(tmp_path: Path) -> None:
    store = begin(tmp_path / "v.db", annotators=1)
    for left, right in (("i0", "i1"), ("i1", "i2"), ("i2", "i0")):
        store.add("n", Question("pair", "p", (left, right)), "left")
    store.close()
    result = export_labels(tmp_path / "v.db", tmp_path / "out").result
    assert result["pairs"] == 3


def test_the_command_names_the_files_and_what_takes_them(tmp_path: Path) -> None:
    store = begin(tmp_path / "v.db")
    sort(store, "n0", IMAGES)
    store.close()
    out = tmp_path / "my labels"
    arguments = ["export", str(tmp_path / "v.db"), str(out)]
    said = CliRunner().invoke(label, [*arguments, "--votes", "1"], standalone_mode=False)
    written = re.search(r"^written into .*: (.*)$", said.output, re.MULTILINE)
    assert written
    assert sorted(written[1].split(", ")) == sorted(file.name for file in out.iterdir())
    assert f"next: python cli.py judge --data DATA --pairs '{out}/pairs.jsonl'" in said.output
    said = CliRunner().invoke(label, arguments, standalone_mode=False)  # of three annotators one has voted
    assert ("next:" in said.output, said.return_value) == (False, 1)


def test_a_store_given_in_place_of_its_export_is_refused_with_what_to_do(tmp_path: Path) -> None:
    begin(tmp_path / "v.db").close()
    for read in (read_votes, read_pairs):
        with pytest.raises(DataError, match="`label export`"):
            read(tmp_path / "v.db")


def test_families_of_the_data_are_the_unit_of_labels_and_stay_with_them(tmp_path: Path) -> None:
    """The column `cluster` of the data widens the interval of alpha, and is in the files that are exported."""
    results = {}
    for size in (1, 4):
        items = {
            f"{name}{k}": Item(f"{name}{k}", f"text {k}", None, name, f"p{k}", {"cluster": f"c{k // size}"})
            for k in range(24)
            for name in "ab"
        }
        store = Store(tmp_path / f"{size}.db")
        prompts = {item.prompt_id: item.prompt for item in items.values()}
        store.begin(LabelingData(tmp_path, prompts=prompts, items=items), plan="all", seed=0, rules={"annotators": 12})
        for person in range(12):
            for k in range(24):
                answer = "left" if (k // 4) % 2 == 0 or person % 4 == 0 else "right"
                store.add(f"n{person}", Question("pair", f"p{k}", (f"a{k}", f"b{k}")), answer, duration_ms=2000)
        store.close()
        export = export_labels(tmp_path / f"{size}.db", tmp_path / str(size))
        results[size] = export.result["alpha_interval"]
        assert export.tables[0].declared.unit == ("family" if size > 1 else "prompt")
    (low, high), (lower, higher) = results[1], results[4]
    assert higher - lower > high - low
    assert {vote.family for vote in read_votes(tmp_path / "4" / "votes.csv")} == {f"c{k}" for k in range(6)}
    for name in ("pairs.jsonl", "pairs.csv"):
        assert {pair.family for pair in read_pairs(tmp_path / "4" / name)} == {f"c{k}" for k in range(6)}
    assert "cluster" not in (tmp_path / "1" / "votes.csv").read_text().splitlines()[0]
