"""The folder of a board: names of files from any text, nothing written twice, and nothing removed that is not its own."""

from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from titjudge.core.errors import DataError
from titjudge.report.site_folder import SiteFolder, slug


@pytest.mark.parametrize("name", ["model_a", "gpt-image-2", "p1", "flux.1"])
def test_a_plain_name_stays(name: str) -> None:
    assert slug(name) == name


@given(st.text(), st.text())
def test_two_texts_have_two_names_that_are_safe_files(one: str, other: str) -> None:
    assert (slug(one) == slug(other)) == (one == other) or one.encode(errors="replace") == other.encode(
        errors="replace"
    )
    assert set(slug(one)) <= set("abcdefghijklmnopqrstuvwxyz0123456789_.-")
    assert not slug(one).startswith(".")
    assert len(slug(one)) <= 60


@pytest.mark.parametrize("name", ["..", "../../etc/passwd", "a/b", "A", "con", "index", "", ".", "x" * 300, "NUL.html"])
def test_a_name_that_is_no_file_of_its_own_gets_a_hash(name: str) -> None:
    assert slug(name)[-9] == "-"
    assert "/" not in slug(name)


def test_the_name_of_one_text_is_not_that_of_another_with_its_hash() -> None:
    assert slug(slug("Model")) != slug("Model")


def written(folder: Path, **files: str) -> SiteFolder:
    with SiteFolder(folder) as site:
        for name, content in files.items():
            site.put(f"{name}.html", content.encode())
    return site


def test_what_has_not_changed_is_not_written_and_what_is_gone_is_removed(tmp_path: Path) -> None:
    written(tmp_path / "board", a="one", b="two")
    before = (tmp_path / "board" / "a.html").stat()
    site = written(tmp_path / "board", a="one", c="three")
    assert (site.written, site.unchanged, site.removed) == (1, 1, 1)
    after = (tmp_path / "board" / "a.html").stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)
    assert sorted(file.name for file in (tmp_path / "board").iterdir()) == ["a.html", "c.html", "site.json"]


def test_a_file_of_somebody_else_stays(tmp_path: Path) -> None:
    written(tmp_path / "board", a="one")
    (tmp_path / "board" / "CNAME").write_text("example.org")
    written(tmp_path / "board", b="two")
    assert (tmp_path / "board" / "CNAME").read_text() == "example.org"
    assert not (tmp_path / "board" / "a.html").exists()


def test_a_folder_that_is_no_board_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(DataError, match="is not a published leaderboard"):
        SiteFolder(tmp_path)
    with pytest.raises(DataError, match="this is a file"):
        SiteFolder(tmp_path / "mine.txt")


def test_a_list_that_names_files_elsewhere_removes_none_of_them(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("mine")
    board = tmp_path / "board"
    written(board, a="one")
    (board / "link").symlink_to(outside)
    names = ["../outside/a.txt", str(outside / "a.txt"), "link/a.txt", "a.html"]
    (board / "site.json").write_bytes(orjson.dumps({"files": names}))
    written(board, b="two")
    assert (outside / "a.txt").read_text() == "mine"
    assert not (board / "a.html").exists()


def test_a_session_that_fails_removes_nothing_and_knows_its_files(tmp_path: Path) -> None:
    written(tmp_path / "board", a="one")
    site = SiteFolder(tmp_path / "board")
    with pytest.raises(OSError, match=r"exists|directory"), site:
        _put_both(site)
    assert (tmp_path / "board" / "a.html").exists()
    written(tmp_path / "board", c="three")
    assert sorted(file.name for file in (tmp_path / "board").iterdir()) == ["c.html", "site.json"]


def test_a_file_from_pieces_is_written_once(tmp_path: Path) -> None:
    for expected in ((1, 0), (0, 1)):
        with SiteFolder(tmp_path / "board") as site:
            site.put_pieces("runs/a/items.jsonl", [b"one\n", b"two\n"])
        assert (site.written, site.unchanged) == expected
    assert (tmp_path / "board/runs/a/items.jsonl").read_bytes() == b"one\ntwo\n"


def _put_both(site: SiteFolder) -> None:
    site.put("b.html", b"two")
    site.put("b.html/c.html", b"three")
