"""Votes and ratings from files, good and bad."""

import json
from pathlib import Path

import pytest

from titjudge.core.errors import DataError
from titjudge.core.types import Item
from titjudge.runs.study.human_files import HumanRatings, pair_records, read_human_scores
from titjudge.stats.people.votes import Vote, aggregate_votes
from titjudge.suites.pair_files import VOTE_COLUMNS as COLUMNS
from titjudge.suites.pair_files import read_votes

HEADER = ",".join(COLUMNS)


def test_csv_and_json_lines_say_the_same(tmp_path: Path) -> None:
    votes = [Vote("p,1", "x", "y", "ann", "a"), Vote("p,1", "x", "y", "bob", "b"), Vote("p,1", "x", "y", "eve", "tie")]
    table = tmp_path / "votes.csv"
    table.write_text(
        f'\ufeff{HEADER},time\n"p,1",x,y,ann,A,1\n"p,1",x,y,bob,right,2\n\n"p,1",x,y,eve, Tie,3\n', "utf-8"
    )
    lines = tmp_path / "votes.jsonl"
    rows = [dict(zip(COLUMNS, (v.prompt_id, v.a, v.b, v.annotator, v.choice), strict=True)) for v in votes]
    lines.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n", "utf-8")
    assert read_votes(table) == read_votes(lines) == votes


def test_numbers_as_ids_are_text(tmp_path: Path) -> None:
    file = tmp_path / "votes.jsonl"
    file.write_text('{"prompt_id": 3, "image_a": 1, "image_b": 2, "annotator": 7, "preference": "left"}')
    assert read_votes(file) == [Vote("3", "1", "2", "7", "a")]


def test_decided_pairs_become_records() -> None:
    found = aggregate_votes([Vote("p", "x", "y", f"n{k}", "b") for k in range(15)])
    assert pair_records(found.pairs) == [
        {"prompt_id": "p", "image_a": "x", "image_b": "y", "preference": "b", "source": "votes: consensus"}
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.csv", b"", "v.csv:1: the columns 'prompt_id', 'image_a', 'image_b', 'preference' are missing"),
        ("v.csv", b"prompt_id,image_a,image_b,annotator\n", "the column 'preference' is missing"),
        ("v.csv", HEADER.encode() + b"\np,x,y,ann\n", "v.csv:2: 4 cells where the first line has 5 columns"),
        ("v.csv", HEADER.encode() + b"\np,x,y,,a\n", "v.csv:2: 'annotator' is missing"),
        (
            "v.csv",
            HEADER.encode() + b"\np,x,y,ann,a\np,x,y,bob,better\n",
            "v.csv:3: the preference must be a, b, tie or both_bad, not 'better'",
        ),
        ("v.csv", HEADER.encode() + b"\np,x,y,\xff,a\n", "not UTF-8"),
        ("v.jsonl", b"\xff", "v.jsonl:1: not JSON: column 1: a text is not UTF-8"),
        ("v.jsonl", b"\n[1]\n", "v.jsonl:2: the line must be a JSON object, not [1]"),
        ("v.jsonl", b"{", "v.jsonl:1: not JSON: column 2: it ends too early"),
        (
            "v.jsonl",
            b'{"prompt_id": "p", "image_a": true}',
            "the key 'image_b' is missing",
        ),
        ("v.jsonl", b"[" * 100_000, "not JSON: column"),
    ],
)
def test_bad_files_are_named_with_the_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_votes(tmp_path / name)
    assert message in str(caught.value)


def test_a_missing_file_is_a_user_error(tmp_path: Path) -> None:
    for name in ("none.csv", "none.jsonl"):
        with pytest.raises(DataError, match=rf"{name}: .*No such file"):
            read_votes(tmp_path / name)


ITEMS = {
    f"{g}/{p}_{s}.png": Item(f"{g}/{p}_{s}.png", f"a {p}", None, g, p, {}, s)
    for g in ("old", "new")
    for p in "pq"
    for s in (0, 1)
}
WANTED = {"old/p_0.png": 4.0, "new/p_1.png": 2.5}


def rated(folder: Path, text: str, name: str = "r.csv", parts: tuple[str, ...] = ()) -> HumanRatings:
    (folder / name).write_text(text, "utf-8")
    return read_human_scores(folder / name, parts, ITEMS)


@pytest.mark.parametrize(
    "text",
    [
        "image,score\nold/p_0.png,4\nnew/p_1.png,2.5\n",
        "image,rater,score\nold/p_0.png,a,5\nnew/p_1.png,a,2\nold/p_0.png,b,3\nnew/p_1.png,b,3\n",
        "image,score\nold/p_0.png,5\nnew/p_1.png,2\nold/p_0.png,3\nnew/p_1.png,3\n",
        "Image_ID,Worker ID,Rating\nold/p_0.png,a,5\nnew/p_1.png,a,2\nold/p_0.png,b,3\nnew/p_1.png,b,3\n",
        "file_name,rater1,rater2,rater3\nold/p_0.png,5,3,4\nnew/p_1.png,2,,3\n",
        "image,score_1,score_2\nold/p_0.png,5,3\nnew/p_1.png,2,3\n",
        "image,WorkerId,Ratings\nold/p_0.png,0,5\nnew/p_1.png,0,2\nold/p_0.png,1,3\nnew/p_1.png,1,3\nnew/p_1.png,2,NA\n",
        'image,scores\nold/p_0.png,"{""ann"": 5, ""ben"": 3}"\nnew/p_1.png,"{""ann"": 2, ""ben"": 3}"\n',
        'image,score\nold/p_0.png,"[5, 3, 4]"\nnew/p_1.png,2;3\n',
        "image;score\nold/p_0.png;4,00\nnew/p_1.png;2,5\n",
        'image;rater;mos\nold/p_0.png;a;4,5\nold/p_0.png;b;3,5\nnew/p_1.png;a;"2,500"\n',
        "prompt_id,generator,sample,score\np,old,0,4\np,new,1,2.5\n",
        "prompt,Model,seed,rating\na p,old,0,4\na p,new,1,2.5\n",
        "prompt_id;generator;seed;annotator;score\np;old;0;x;4,5\np;old;0;y;3,5\np;new;1;x;2,5\n",
    ],
)
def test_every_shape_of_a_table_of_ratings_is_the_same_mean(tmp_path: Path, text: str) -> None:
    assert rated(tmp_path, text).means == {"score": WANTED}
    head, *rows = text.strip().split("\n")
    assert rated(tmp_path, "\n".join([head, *rows[::-1]])).means == {"score": WANTED}


def test_a_tab_separates_numbers_with_a_decimal_comma(tmp_path: Path) -> None:
    assert rated(tmp_path, "image\tscore\nx\t4,5\n", "r.tsv").means["score"] == {"x": 4.5}


def test_lines_of_json_hold_a_list_or_names(tmp_path: Path) -> None:
    found = rated(
        tmp_path, '{"image": "x", "score": {"a": 5, "b": 4}}\n{"image": "y", "rating": [1, null, 2]}', "r.jsonl"
    )
    assert (found.means, found.raters) == ({"score": {"x": 4.5, "y": 1.5}}, {"score": {"x": 2, "y": 2}})
    assert len(found.notes) == 1


def test_parts_are_averaged_as_scores_are(tmp_path: Path) -> None:
    text = "image,annotator,quality\nx,a,1\nx,b,3\ny,a,\n"
    assert rated(tmp_path, text, parts=("Quality",)).means == {"Quality": {"x": 2.0}}


def test_the_same_rating_of_one_person_counts_once(tmp_path: Path) -> None:
    found = rated(tmp_path, "image,rater,score\nx,a,5\nx,a,5\nx,b,2\n")
    assert (found.means["score"], found.raters["score"]) == ({"x": 3.5}, {"x": 2})
    assert "1 rating" in found.notes[0]


def test_what_does_not_count_is_reported(tmp_path: Path) -> None:
    found = rated(tmp_path, "image,rater,score,rater1,rater2\nx,a,5,1,2\nx,b,,1,2\n")
    assert (found.means["score"], found.raters["score"]) == ({"x": 5}, {"x": 1})
    assert [
        word for note, word in zip(found.notes, ("count: 1", "rater1, rater2"), strict=True) if word not in note
    ] == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("image,rater,score\nx,a,5\nx,a,4\n", r"r\.csv:3: 'a' .* row 2"),
        ('image,score\nx,"4,5"\n', "not '4,5'"),  # 4.5, or 4 and 5
        ("image,score\nx,4/5\n", "not '4/5'"),
        ("image,score\nx,\n", "not ''"),
        ("image,score\n,3\n", "'image'"),
        ("thing,score\nx,3\n", "'image'.*there are: thing, score"),
        ("image,anna,ben\nx,3,4\n", "'score' is missing.*anna, ben"),
        ("prompt_id,generator,score\np,old,3\n", "2 images"),
        ("image,one,rater1,rater2\n" + "".join(f"{k},1,{k},{20 * k}\n" for k in range(1, 6)), "one scale"),
        (
            "image,rater,score\n"
            + "".join(f"{k},{r},{k * f}\n" for k in range(1, 6) for r, f in (("a", 0.2), ("b", 1))),
            "scale",
        ),
        ("image,rater,score\nx,a,4\nx,b,80\ny,a,3\ny,b,55\n", "'b' rates 2 images 19 times"),
        ('image,score\nx,"[4, 5, 80]"\ny,"[1, 2, 40]"\n', "scale"),
    ],
)
def test_ratings_that_cannot_be_read_are_named(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(DataError, match=told):
        rated(tmp_path, text)


def test_a_strict_person_is_no_other_scale(tmp_path: Path) -> None:
    rows = "".join(f"{k},{1 + k // 4},{k}\n" for k in range(1, 6))
    assert len(rated(tmp_path, "image,rater1,rater2\n" + rows).means["score"]) == 5


@pytest.mark.parametrize(
    ("numbers", "noted"),
    [
        ("1 2 0 5", "1 of 4 are 0, and the others are 1 to 5"),
        ("1 2 -1 5", "are -1"),
        ("0 80 -1 100 -1", "2 of 5 are -1"),
        ("3 4 -999 1", "are -999"),
        ("0 1 2 3", "are 0"),
        ("1 2 3", ""),
        ("0 1", ""),
        ("-1 0 1", ""),
        ("-2 -1 0 2", ""),
        ("0 50 100", ""),
        ("0 0.5 1", ""),
        ("0 0 0", ""),
    ],
)
def test_a_number_that_may_mean_that_nobody_rated_is_reported(tmp_path: Path, numbers: str, noted: str) -> None:
    rows = "".join(f"{n}.png,{number}\n" for n, number in enumerate(numbers.split()))
    (tmp_path / "r.csv").write_text(f"image,score\n{rows}")
    found = [note for note in read_human_scores(tmp_path / "r.csv").notes if "not rated" in note]
    assert len(found) == bool(noted)
    assert not found or noted in found[0]


@pytest.mark.parametrize(
    ("separator", "cell"), [(";", "1.234,5"), (",", '"1,234.5"'), ("\t", "1.234.567,8"), (",", '"12,345,678.9"')]
)
def test_a_mark_of_thousands_makes_no_list(tmp_path: Path, separator: str, cell: str) -> None:
    (tmp_path / "r.csv").write_text(f"image{separator}score\nx{separator}{cell}\n")
    with pytest.raises(DataError, match="must be a number"):
        read_human_scores(tmp_path / "r.csv")


@pytest.mark.parametrize("written", ["7", "7.0", " 7 "])
def test_prompts_whose_ids_are_numbers_are_found_however_a_program_writes_them(tmp_path: Path, written: str) -> None:
    item = Item("a/7.png", "a cup", None, "a", "7")
    (tmp_path / "r.csv").write_text(f"prompt_id,generator,score\n{written},a,3\n")
    assert read_human_scores(tmp_path / "r.csv", items={item.id: item}).means == {"score": {"a/7.png": 3}}
    (tmp_path / "v.csv").write_text(f"prompt_id,image_a,image_b,preference\n{written},a/7.png,b/7.png,a\n")
    images = {name: {"7": name} for name in ("a/7.png", "b/7.png")}
    assert [vote.prompt_id for vote in read_votes(tmp_path / "v.csv", images)] == ["7"]
