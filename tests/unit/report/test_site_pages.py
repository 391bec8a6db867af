"""A published board: whole, safe, small, and added to by the same command."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import orjson
import pytest
from PIL import Image
from report_runs import picture, score, small_run, write_run
from test_html_page import hostile_run

from titjudge.core.errors import DataError, UserError
from titjudge.core.types import InvalidItem, Item, Status
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.publishing import publish
from titjudge.runs.study.score_files import read_scores


class Page(HTMLParser):
    """The elements of a page with their attributes, and its words."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data

    @property
    def links(self) -> list[str]:
        return [value for _, attributes in self.elements for name in ("href", "src") if (value := attributes.get(name))]


def pages(board: Path) -> dict[Path, Page]:
    return {file: Page(file) for file in board.rglob("*.html")}


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
    for file, page in pages(board).items():
        for link in page.links:
            assert not re.match(r"[a-z]+:|//|/", link), (file, link)
            if not link.startswith("#"):
                target = (file.parent / unquote(link.partition("#")[0])).resolve()
                assert target.is_file(), (file, link)
                assert board.resolve() in target.parents


@pytest.mark.parametrize("make", [small_run, hostile_run])
def test_every_link_and_image_is_there_and_nothing_is_a_script(tmp_path: Path, make: Any) -> None:
    publish([make(tmp_path / "run").path], tmp_path / "board", title="<script>alert(1)</script>")
    check_links(tmp_path / "board")
    for page in pages(tmp_path / "board").values():
        tags = {tag for tag, _ in page.elements}
        assert not tags & {"script", "style", "iframe", "object", "embed", "form", "base", "b"}
        assert not [
            name for _, attributes in page.elements for name in attributes if name.startswith("on") or name == "style"
        ]
        policy = [attributes["content"] for _, attributes in page.elements if attributes.get("http-equiv")]
        assert policy
        assert "default-src 'none'" in str(policy[0])
        assert "script-src" not in str(policy[0])


def test_the_first_page_says_the_verdict_then_ranks_with_intervals_tiers_and_what_is_missing(board: Path) -> None:
    page = Page(board / "index.html")
    assert "new beats old" in page.words
    assert page.words.index("new beats old") < page.words.index("Leaderboard: tit")
    for word in ("tier", "refused", "without a score", "12.5%", "["):
        assert word in page.words, word
    assert "1 score is missing" in page.words
    assert "No." in Page(board / "failures.html").words


def test_each_prompt_shows_all_images_side_by_side_and_each_generator_all_its_prompts(board: Path) -> None:
    for p in range(8):
        page = Page(board / "prompts" / f"p{p}.html")
        assert sum(tag == "img" for tag, _ in page.elements) == 2
        assert f"It is new of {p}." in page.words
    images = [attributes for tag, attributes in Page(board / "generators" / "old.html").elements if tag == "img"]
    assert len(images) == 8
    assert all(one["loading"] == "lazy" and one["width"] == "256" for one in images)
    assert len([tag for tag, _ in Page(board / "matrix.html").elements if tag == "img"]) == 16


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
    assert "newest beats the 2 others" in Page(board / "index.html").words
    assert (board / "generators" / "newest.html").is_file()
    check_links(board)


def test_another_run_is_joined_to_those_of_the_board_even_if_their_images_are_gone(tmp_path: Path, board: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in (board / "thumbnails").rglob("*.webp")}
    (tmp_path / "a").rename(tmp_path / "elsewhere")
    made = publish([run_of(tmp_path / "b", ("newest",), started=2.0).path], board)
    assert [run.name for run in made.runs] == ["run", "run-2"]
    words = Page(board / "index.html").words
    assert "newest" in words
    assert "not compared with each other" not in words
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert sum(tag == "img" for tag, _ in Page(board / "prompts" / "p3.html").elements) == 3
    check_links(board)


def test_runs_that_are_no_one_comparison_are_ranked_apart_and_the_board_says_why(tmp_path: Path, board: Path) -> None:
    other = run_of(tmp_path / "b", ("third", "fourth"), started=2.0)
    manifest = orjson.loads((other.path / "manifest.json").read_bytes())
    manifest["protocol"] = "official"
    (other.path / "manifest.json").write_bytes(orjson.dumps(manifest))
    publish([other.path], board)
    words = Page(board / "index.html").words
    assert "not compared with each other" in words
    assert "Leaderboard: tit, run" in words
    assert "Leaderboard: tit, run-2" in words
    check_links(board)


def test_a_generator_that_is_gone_leaves_the_board(tmp_path: Path, board: Path) -> None:
    publish([run_of(tmp_path / "a", ("new",)).path], board)
    assert not (board / "generators" / "old.html").exists()
    assert len(list((board / "thumbnails").rglob("*.webp"))) == 8
    check_links(board)


def test_images_of_edits_stand_beside_their_sources(tmp_path: Path) -> None:
    source = picture(tmp_path / "img" / "source.png", (9, 9, 9))
    result = picture(tmp_path / "img" / "result.png", (90, 9, 9))
    item = Item("a", "Make it red", result, "editor", "p", sources=(source,))
    run = write_run(tmp_path / "run", [item], [score(item, "tit", 0.5)])
    publish([run.path], tmp_path / "board")
    page = Page(tmp_path / "board" / "prompts" / "p.html")
    assert [attributes["alt"] for tag, attributes in page.elements if tag == "img"] == ["Source", "Image by editor"]


def test_an_image_that_has_changed_since_is_not_published(tmp_path: Path) -> None:
    run = run_of(tmp_path / "a", ("old", "new"))
    (tmp_path / "a" / "img" / "old3.png").write_bytes(b"\x89PNG another file altogether")
    publish([run.path], tmp_path / "board", full_images=True)
    assert "the file has changed since it was judged" in Page(tmp_path / "board" / "prompts" / "p3.html").words
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
    with pytest.raises(UserError, match="its manifest names /usr/bin/env"):
        publish([run.path], tmp_path / "board")
    assert not list((tmp_path / "board").rglob("*.html"))


def test_a_copy_on_the_board_and_a_folder_that_is_no_run_are_refused(tmp_path: Path, board: Path) -> None:
    with pytest.raises(UserError, match="copy of a run on this board"):
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
    assert "the file is empty" in Page(tmp_path / "board" / "failures.html").words
    assert "50.0%" in Page(tmp_path / "board" / "index.html").words
    check_links(tmp_path / "board")


def test_a_board_of_many_images_stays_within_its_size(tmp_path: Path) -> None:
    """A tenth of 60 generators x 200 prompts: as many bytes an image, and a first page below 300 kB."""
    names = tuple(f"generator-{k:02}" for k in range(20))
    publish([run_of(tmp_path / "a", names, prompts=12).path], tmp_path / "board")
    size = sum(file.stat().st_size for file in (tmp_path / "board").rglob("*") if file.is_file())
    assert size / (20 * 12) < 100_000_000 / 12_000
    assert (tmp_path / "board" / "index.html").stat().st_size < 300_000 * 20 / 60


def test_a_prompt_without_an_image_of_a_generator_is_counted_beside_its_rank(tmp_path: Path) -> None:
    run = run_of(tmp_path / "a", ("old", "new"))
    for name in ("items", "scores"):
        file = run.path / f"{name}.jsonl"
        file.write_bytes(
            b"".join(line for line in file.read_bytes().splitlines(keepends=True) if b"new/4.png" not in line)
        )
    publish([run.path], tmp_path / "board")
    assert "no image" in Page(tmp_path / "board" / "failures.html").words
    tables = orjson.loads((tmp_path / "board" / "results.json").read_bytes())["tables"]
    rows = {row[0]: dict(zip(tables[0]["columns"], row, strict=True)) for row in tables[0]["rows"]}
    assert (rows["new"]["images"], rows["new"]["no image"], rows["old"]["no image"]) == (7, 1, 0)
    check_links(tmp_path / "board")
