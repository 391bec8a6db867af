"""Tables of votes and pairs: one reader, in whatever shape several people are written down."""

import json
from pathlib import Path

import pytest
from commands import cli
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from titjudge.core.errors import DataError
from titjudge.core.types import CONSTRUCTION, Pair
from titjudge.stats.people.votes import read_choice
from titjudge.suites.pair_files import read_pairs, read_votes

HEAD = "prompt_id,image_a,image_b"
TURNED = {"a": "b", "b": "a"}
WANTED = {("p", "x", "y", "a"), ("q", "v", "w", "tie")}  # 2 : 1 each


def table(folder: Path, text: str, name: str = "v.csv") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def decided(pairs: list[Pair]) -> set[tuple[str, str, str, str]]:
    """The pairs, whichever image is written first."""
    return {
        (p.prompt_id, *((p.a, p.b, p.choice) if p.a < p.b else (p.b, p.a, TURNED.get(p.choice, p.choice))))
        for p in pairs
    }


@pytest.mark.parametrize(
    "text",
    [
        f"{HEAD},annotator,preference\np,x,y,ann,a\np,x,y,bob,A\np,y,x,eve,a\nq,v,w,ann,tie\nq,v,w,bob,Tie\nq,v,w,eve,b\n",
        "Prompt ID,Image_A,imageB,Votes\np,x,y,a;a;b\nq,v,w,tie;tie;b\n",
        f"{HEAD},annotator,preference\np,x,y,0,a\np,x,y,1,a\np,x,y,2,\np,x,y,3,b\nq,v,w,0,tie\nq,v,w,1,tie\nq,v,w,2,b\n",
        f"{HEAD},preference\np,x,y,a\np,x,y,a\np,x,y,b\nq,v,w,tie\nq,v,w,tie\nq,w,v,a\n",
        f"{HEAD},Worker ID,vote\np,x,y,1,left\np,x,y,2,LEFT\np,x,y,3,right\nq,v,w,1,same\nq,v,w,2,draw\nq,v,w,4,right\n",
        f"{HEAD},rater1,rater2,rater3\np,x,y,a,a,b\nq,v,w,tie,b,tie\n",
        f"{HEAD},annotator_a,annotator_b,annotator_c\np,x,y,image_a,Image A,image_b\nq,v,w,tie,,tie\n",
        f"{HEAD},vote 1,vote 2,vote 3\np,x,y,x,x,y\nq,v,w,tie,w,tie\n",
        f'{HEAD},preference\np,x,y,"a,a,b"\nq,v,w,"[tie, tie, b]"\n',
        f"{HEAD},preference\np,x,y,a;b;a\nq,v,w,tie|b|tie\n",
        "prompt_id;image_a;image_b;annotator;preference\np;x;y;1;a\np;x;y;2;a\np;x;y;3;b\nq;v;w;1;tie\nq;w;v;2;tie\n",
    ],
)
def test_every_shape_of_a_table_is_the_same_majority(tmp_path: Path, text: str) -> None:
    file = table(tmp_path, text)
    assert decided(read_pairs(file)) == WANTED
    cli(tmp_path, "label", "convert", "v.csv", "--out", "p.jsonl")
    assert decided(read_pairs(tmp_path / "p.jsonl")) == WANTED


@pytest.mark.parametrize("value", [["a", "a", "b"], {"ann": "a", "bob": "a", "eve": "b"}, "a", "model 1", "first"])
def test_lines_of_json_hold_one_vote_a_list_or_names(tmp_path: Path, value: object) -> None:
    line = {"prompt_id": "p", "image_a": "x", "image_b": "y", "preference": value}
    assert decided(read_pairs(table(tmp_path, json.dumps(line), "v.jsonl"))) == {("p", "x", "y", "a")}


@given(
    st.lists(
        st.tuples(st.sampled_from("pq"), st.sampled_from(["xy", "xz", "yz"]), st.sampled_from("abcde"),
                  st.sampled_from(["a", "b", "tie", "both_bad"]), st.booleans()),
        min_size=1, max_size=30, unique_by=lambda vote: vote[:3],
    ),
    st.randoms(use_true_random=False), st.booleans(),
)  # fmt: skip
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_neither_order_nor_sides_nor_repetitions_matter(tmp_path: Path, votes, random, named) -> None:  # type: ignore[no-untyped-def]
    def told(votes: list[tuple[str, str, str, str, bool]]) -> set[tuple[str, str, str, str]] | str:
        rows = [
            (prompt, *(pair[::-1] if turned else pair), *([who] if named else []), TURNED.get(c, c) if turned else c)
            for prompt, pair, who, c, turned in votes
        ]
        head = f"{HEAD}{',annotator' if named else ''},preference"
        try:
            return decided(read_pairs(table(tmp_path, "\n".join([head, *map(",".join, rows)]))))
        except DataError as error:
            return str(error)

    once = told(votes)
    mixed = [(*vote[:4], random.random() < 0.5) for vote in votes]
    random.shuffle(mixed)
    assert told(mixed) == once
    if named:
        assert told([*votes, *random.sample(votes, k=len(votes) // 2)]) == once


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        *(
            (text, "a")
            for text in ("a", "A", " Left ", "first", "image_a", "Image 1", "model-a", "A is better", "a wins", "x.png")
        ),
        *((text, "b") for text in ("B", "RIGHT", "second", "option_b", "the right", "y.png")),
        *((text, "tie") for text in ("Tie", "same", "draw", "equal", "both_good", "Tie (both good)", "no preference")),
        *((text, "both_bad") for text in ("both_bad", "Both bad", "tie (bothbad)", "both are bad", "equally bad")),
        *(
            (text, None)
            for text in ("", "1", "0", "both", "neither", "good", "better", "ab", "z.png", "skip", None, 1, True, ["a"])
        ),
    ],
)
def test_the_words_for_a_choice(text: object, choice: str | None) -> None:
    assert read_choice(text, "x.png", "y.png") == choice


def test_a_pair_of_one_vote_keeps_its_source_and_so_do_equal_ones(tmp_path: Path) -> None:
    head = f"{HEAD},preference,source\n"
    alone = read_pairs(table(tmp_path, f"{head}p,x,y,a,{CONSTRUCTION}\n"))
    twice = read_pairs(table(tmp_path, f"{head}p,x,y,a,{CONSTRUCTION}\np,y,x,b,{CONSTRUCTION}\n"))
    assert alone == twice == [Pair("p", "x", "y", "a", CONSTRUCTION)]


def test_a_repetition_of_one_person_counts_once_and_is_reported(tmp_path: Path) -> None:
    notes: dict[str, None] = {}
    file = table(tmp_path, f"{HEAD},annotator,preference\np,x,y,ann,a\np,y,x,ann,b\np,x,y,bob,tie\n")
    assert [(vote.annotator, vote.choice) for vote in read_votes(file, notes=notes)] == [("ann", "a"), ("bob", "tie")]
    assert "1 vote" in " ".join(notes)


def test_two_votes_of_one_person_are_refused_with_both_rows(tmp_path: Path) -> None:
    file = table(tmp_path, f"{HEAD},annotator,preference\np,x,y,ann,a\np,x,y,bob,a\np,x,y,ann,b\n")
    for read in (read_pairs, read_votes):
        with pytest.raises(DataError, match=r"v\.csv:4: 'ann' .* row 2"):
            read(file)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{HEAD},preference\np,x,y,up\n", "v.csv:2: the preference must be a, b, tie or both_bad, not 'up'"),
        (f"{HEAD},preference\np,x,y,1\n", "not '1'"),
        (f"{HEAD},preference\np,x,y,neither\n", "not 'neither'"),
        (f"{HEAD},preference\np,x,y,a;up\n", "not 'a;up'"),
        (f"{HEAD},preference\np,x,y,\n", "not ''"),
        (f"{HEAD},quality,beauty\np,x,y,a,b\n", "the column 'preference' is missing"),
        (f"{HEAD},preference\n", "the file has no pairs"),
        (f"{HEAD},preference\np,x,y,a\np,x,y,b\n", "the votes decide none of 1 pairs"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(DataError, match=told.replace("(", "\\(")):
        read_pairs(table(tmp_path, text))


def test_battles_count_each_and_only_a_repetition_of_one_judge_counts_once(tmp_path: Path) -> None:
    head = f"{HEAD},model_a,model_b,winner"

    def counted(winners: list[str], judges: list[str], column: str = "judge") -> tuple[int, int]:
        rows = [f"p,x,y,m,n,{winner},{judge}" for winner, judge in zip(winners, judges, strict=True)]
        notes: dict[str, None] = {}
        return len(read_pairs(table(tmp_path, "\n".join([f"{head},{column}", *rows])), notes=notes)), len(notes)

    nine = [*["model_a"] * 9, "model_b"]
    assert counted(nine, [""] * 10) == (10, 0)  # nobody is named: ten people
    assert counted(nine, [f"j{k}" for k in range(10)]) == (10, 0)
    assert counted(nine, ["crowd"] * 10) == (10, 0)  # one name of several people, as they differ
    assert counted(["model_a", "A", "left", "m"], ["ann"] * 3 + ["bob"]) == (2, 1)
    assert counted(["tie", "tie"], ["ann"] * 2, "User ID") == (1, 1)
    with pytest.raises(DataError, match="--pairs"):
        read_votes(tmp_path / "v.csv")


@pytest.mark.parametrize(
    ("choices", "wanted"),
    [
        ("aaabb", "a"), ("bbbaa", "b"), ("aabbt", None), ("aabt", "a"), ("abtt", "tie"), ("abttx", "tie"), ("abtxx", "both_bad"),
        ("aax", "a"), ("aabtx", None), ("abt", None), ("aaaabbb", "a"), ("ab", None),
    ],
)  # fmt: skip
def test_the_majority_decides_what_is_left_to_experts_who_are_not_there(
    tmp_path: Path, choices: str, wanted: str | None
) -> None:
    words = {"t": "tie", "x": "both bad"}
    rows = [f"{p},x,y,{k},{words.get(c, c)}" for p, cs in (("p", choices), ("q", "b")) for k, c in enumerate(cs)]
    file = table(tmp_path, "\n".join([f"{HEAD},annotator,preference", *rows]))
    assert {p.prompt_id: p.choice for p in read_pairs(file)} == ({"p": wanted} if wanted else {}) | {"q": "b"}
    cli(tmp_path, "label", "convert", "v.csv", "--out", "p.jsonl")
    assert decided(read_pairs(tmp_path / "p.jsonl")) == decided(read_pairs(file))


def test_votes_that_decide_nothing_write_no_file(tmp_path: Path) -> None:
    table(tmp_path, f"{HEAD},annotator,preference\np,x,y,ann,a\np,x,y,bob,b\n")
    out = cli(tmp_path, "label", "convert", "v.csv", "--out", "p.jsonl", code=1)
    assert "no pair is decided" in out
    assert not (tmp_path / "p.jsonl").exists()
    cli(tmp_path, "label", "convert", "v.csv", "--votes", "15", code=1)
