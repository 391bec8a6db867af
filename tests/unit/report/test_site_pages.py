"""A published board: whole, safe, small, and added to by the same command."""

import base64
import re
from html import unescape
from pathlib import Path
from typing import Any

import orjson
import pytest
from PIL import Image
from report_runs import picture, score, small_run, write_run
from test_html_page import data_of, hostile_run, page_of
from test_report_folder import chunks_of

from titjudge.core.errors import DataError, UserError
from titjudge.core.types import InvalidItem, Item, Status
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.publishing import publish
from titjudge.runs.study.score_files import read_scores


def words(board: Path) -> str:
    """The text of the page of a board, without script, style and data."""
    text = re.sub(r"<(script|style)\b.*?</\1>", "", (board / "index.html").read_text(encoding="utf-8"), flags=re.DOTALL)
    return unescape(re.sub(r"<[^>]*>", "", text))


def images(board: Path) -> list[str]:
    """What the page shows of each image: the places of its files, or why there is none."""
    lines = page_of(board / "index.html").raw["script#image-data"].splitlines()
    return [line[1:] if line.startswith("+") else base64.b64decode(line[1:]).decode() for line in lines]


def items(board: Path) -> list[dict[str, Any]]:
    """The items of the page with all that its files say of them."""
    data = data_of(page_of(board / "index.html"))
    for chunk in chunks_of(board):
        for place, scores in zip(chunk["items"], chunk["scores"], strict=True):
            data["items"][place]["s"] = scores
            data["items"][place]["reasons"] = [
                chunk["texts"][1][score["r"] - chunk["texts"][0]] for score in scores if score and "r" in score
            ]
    return list(data["items"])


def run_of(
    folder: Path, generators: tuple[str, ...], *, started: float = 1.0, name: str = "run", prompts: int = 8
) -> RunFolder:
    """Each generator is a little better than the one before; the first has a refusal."""
    items, scores = [], []
    for k, generator in enumerate(generators):
        for p in range(prompts):
            path = picture(folder / "img" / f"{generator}{p}.png", (20 * p + k, 60 * k, 90), (300, 200))
            item = Item(f"{generator}/{p}.png", f"Scene {p}, a boat", path, generator, f"p{p}")
            refused = k == 0 and p == 0
            status = Status.REFUSED if refused else Status.OK
            value = None if refused else 0.1 * k + 0.01 * p
            items.append(item)
            scores.append(score(item, "tit", value, status, reason="No." if refused else f"It is {generator} of {p}."))
    results = {"metrics": {"tit": {"mean": 0.5, "images": len(items), "scored": len(items) - 1}}}
    return write_run(
        folder / name,
        items,
        scores,
        results=results,
        started=started,
        metrics={"tit": {"version": "1", "range": [-1, 1]}},
    )


@pytest.fixture
def board(tmp_path: Path) -> Path:
    publish([run_of(tmp_path / "a", ("old", "new")).path], tmp_path / "board")
    return tmp_path / "board"


def check_links(board: Path) -> None:
    for _, attributes in page_of(board / "index.html").elements:
        for link in filter(None, (attributes.get("href"), attributes.get("src"))):
            assert link.startswith(("#", "data:,")) or (board / link).is_file(), link
    shown = [file for line in images(board) if line.startswith("thumbnails/") for file in line.split(" ")]
    assert [file for file in shown if not (board / file).is_file()] == []


@pytest.mark.parametrize("make", [small_run, hostile_run])
def test_every_link_and_image_is_there_and_no_title_is_markup(tmp_path: Path, make: Any) -> None:
    publish([make(tmp_path / "run").path], tmp_path / "board", title="<script>alert(1)</script>")
    check_links(tmp_path / "board")
    page = page_of(tmp_path / "board" / "index.html")
    assert sum(tag == "script" for tag, _ in page.elements) == 3
    assert not [
        name for _, attributes in page.elements for name in attributes if name.startswith("on") or name == "style"
    ]
    policy = [str(attributes["content"]) for _, attributes in page.elements if attributes.get("http-equiv")]
    assert "default-src 'none'" in policy[0]
    assert "unsafe" not in policy[0]


def test_the_first_page_says_the_verdict_then_ranks_with_intervals_and_what_is_missing(board: Path) -> None:
    page = words(board)
    assert page.index("new beats old.") < page.index("mean by tit") < page.index("Images of each generator")
    for word in ("rank", "refused", "without a score", "12.5%", "["):
        assert word in page, word
    assert "No." in page[page.index("Failures and cost") :]


def test_the_page_has_each_image_with_its_reason(board: Path) -> None:
    listed = items(board)
    assert len(listed) == len(images(board)) == 16
    assert sorted(reason for item in listed if item["g"] == "new" for reason in item["reasons"]) == [
        f"It is new of {p}." for p in range(8)
    ]


def test_thumbnails_are_small_and_named_by_content(board: Path) -> None:
    files = list((board / "thumbnails").rglob("*.webp"))
    assert len(files) == 16
    for file in files:
        assert re.fullmatch(r"[0-9a-f]{32}-256\.webp", file.name)
        with Image.open(file) as image:
            assert max(image.size) == 256


def test_no_path_of_this_machine_is_in_any_file(tmp_path: Path, board: Path) -> None:
    for file in board.rglob("*"):
        if file.is_file():
            assert str(tmp_path).encode() not in file.read_bytes(), file


def test_the_scores_are_those_that_compare_reads(board: Path) -> None:
    table = read_scores(board / "scores.csv", "tit")
    assert set(table.generators) == {"old", "new"}
    assert len(table.prompts) == 8


def test_the_same_command_writes_nothing(tmp_path: Path, board: Path) -> None:
    again = publish([tmp_path / "a" / "run"], board)
    assert (again.written, again.removed) == (0, 0)


def test_a_run_with_one_more_generator_takes_the_place_of_the_run_before(tmp_path: Path, board: Path) -> None:
    made = publish([run_of(tmp_path / "a", ("old", "new", "newest")).path], board)
    assert [run.name for run in made.runs] == ["run"]
    assert "newest beats the 2 others." in words(board)
    assert {item["g"] for item in items(board)} == {"old", "new", "newest"}
    check_links(board)


def test_another_run_is_joined_to_those_of_the_board_even_if_their_images_are_gone(tmp_path: Path, board: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in (board / "thumbnails").rglob("*.webp")}
    (tmp_path / "a").rename(tmp_path / "elsewhere")
    made = publish([run_of(tmp_path / "b", ("newest",), started=2.0).path], board)
    assert [run.name for run in made.runs] == ["run", "run-2"]
    assert "newest" in words(board)
    assert "not compared with each other" not in words(board)
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert sum(line.startswith("thumbnails/") for line in images(board)) == 24
    check_links(board)


def test_runs_that_are_no_one_comparison_are_ranked_apart_and_the_board_says_why(tmp_path: Path, board: Path) -> None:
    other = run_of(tmp_path / "b", ("third", "fourth"), started=2.0)
    manifest = orjson.loads((other.path / "manifest.json").read_bytes())
    manifest["protocol"] = "official"
    (other.path / "manifest.json").write_bytes(orjson.dumps(manifest))
    publish([other.path], board)
    page = words(board)
    assert "not compared with each other" in page
    assert page.count("mean by tit") == 2
    assert "run: new beats old." in page
    assert "run-2: fourth beats third." in page
    check_links(board)


def test_a_generator_that_is_gone_leaves_the_board(tmp_path: Path, board: Path) -> None:
    publish([run_of(tmp_path / "a", ("new",)).path], board)
    assert {item["g"] for item in items(board)} == {"new"}
    assert len(list((board / "thumbnails").rglob("*.webp"))) == 8
    check_links(board)


def test_images_of_edits_stand_beside_their_sources(tmp_path: Path) -> None:
    source = picture(tmp_path / "img" / "source.png", (9, 9, 9))
    result = picture(tmp_path / "img" / "result.png", (90, 9, 9))
    item = Item("a", "Make it red", result, "editor", "p", sources=(source,))
    run = write_run(tmp_path / "run", [item], [score(item, "tit", 0.5)])
    publish([run.path], tmp_path / "board")
    (edit,) = items(tmp_path / "board")
    shown = images(tmp_path / "board")
    assert len({shown[edit["im"]], *(shown[at] for at in edit["src"])}) == 2
    check_links(tmp_path / "board")


def test_an_image_that_has_changed_since_is_not_published(tmp_path: Path) -> None:
    run = run_of(tmp_path / "a", ("old", "new"))
    (tmp_path / "a" / "img" / "old3.png").write_bytes(b"\x89PNG another file altogether")
    publish([run.path], tmp_path / "board", full_images=True)
    assert images(tmp_path / "board").count("the file has changed since it was judged") == 1
    assert b"another file altogether" not in b"".join(file.read_bytes() for file in (tmp_path / "board").rglob("*.png"))
    check_links(tmp_path / "board")


def test_full_images_are_the_files_as_they_were_judged(tmp_path: Path, board: Path) -> None:
    publish([tmp_path / "a" / "run"], board, full_images=True)
    there = {file.read_bytes() for file in (board / "images").rglob("*.png")}
    assert there == {file.read_bytes() for file in (tmp_path / "a" / "img").glob("*.png")}
    check_links(board)


def test_a_run_whose_model_is_a_file_of_this_machine_is_refused_and_nothing_is_published(tmp_path: Path) -> None:
    weights = tmp_path / "elsewhere" / "weights"
    weights.mkdir(parents=True)
    run = small_run(tmp_path / "a" / "run", identity={"suite": "folder", "judge": {"model": "local//usr/bin/env"}})
    with pytest.raises(UserError, match="its manifest contains the path /usr/bin/env"):
        publish([run.path], tmp_path / "board")
    assert not list((tmp_path / "board").rglob("*.html"))


def test_a_copy_on_the_board_and_a_folder_that_is_no_run_are_refused(tmp_path: Path, board: Path) -> None:
    with pytest.raises(UserError, match="is a copy on this leaderboard"):
        publish([board / "runs" / "run"], board)
    with pytest.raises(DataError, match="not a run folder"):
        publish([tmp_path], tmp_path / "other")


def test_an_image_that_could_not_be_used_is_counted_and_named(tmp_path: Path) -> None:
    path = picture(tmp_path / "img" / "a.png")
    item = Item("a", "A boat", path, "one", "p1")
    bad = InvalidItem("b", "the file is empty", "one", "p2")
    run = write_run(
        tmp_path / "run",
        [item, bad],
        [score(item, "tit", 0.5)],
        results={"metrics": {"tit": {"images": 2, "scored": 1}}},
    )
    publish([run.path], tmp_path / "board")
    assert "the file is empty" in words(tmp_path / "board")
    assert "50.0%" in words(tmp_path / "board")
    check_links(tmp_path / "board")


def test_a_board_of_many_images_stays_within_its_size(tmp_path: Path) -> None:
    """A tenth of 60 generators x 200 prompts: as many bytes an image, and a page below 300 kB."""
    names = tuple(f"generator-{k:02}" for k in range(20))
    publish([run_of(tmp_path / "a", names, prompts=12).path], tmp_path / "board")
    size = sum(file.stat().st_size for file in (tmp_path / "board").rglob("*") if file.is_file())
    assert size / (20 * 12) < 100_000_000 / 12_000
    assert (tmp_path / "board" / "index.html").stat().st_size < 300_000


def test_a_prompt_without_an_image_of_a_generator_is_counted_beside_its_rank(tmp_path: Path) -> None:
    run = run_of(tmp_path / "a", ("old", "new"))
    for name in ("items", "scores"):
        file = run.path / f"{name}.jsonl"
        file.write_bytes(
            b"".join(line for line in file.read_bytes().splitlines(keepends=True) if b"new/4.png" not in line)
        )
    publish([run.path], tmp_path / "board")
    tables = orjson.loads((tmp_path / "board" / "results.json").read_bytes())["tables"]
    (facts,) = [table for table in tables if "no image" in table["columns"]]
    rows = {row[0]: dict(zip(facts["columns"], row, strict=True)) for row in facts["rows"]}
    assert (rows["new"]["images"], rows["new"]["no image"], rows["old"]["no image"]) == (7, 1, None)
    check_links(tmp_path / "board")
