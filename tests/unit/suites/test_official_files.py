"""Published files come at their revision, are checked, and are named where there is no network."""

import hashlib
import http.server
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from titjudge.cli.catalog import fetch
from titjudge.core import registry
from titjudge.core.errors import DataError, UserError
from titjudge.suites import official_files
from titjudge.suites.official_files import OfficialFiles, fetch_suite

FILES = {"data/a b.json": b"[]", "data/[1].csv": b"id,text\n"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A server with the files, the paths that it was asked for, and a suite `x` whose files they are."""
    paths: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            name = {"/o/r/abc/data/a%20b.json": "data/a b.json", "/o/r/abc/data/%5B1%5D.csv": "data/[1].csv"}[self.path]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(FILES[name])

        def log_message(self, *_: object) -> None:
            return

    sums = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    monkeypatch.setattr(official_files, "official_files", lambda: {"x": OfficialFiles("o/r", "abc", sums)})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setattr(official_files, "GITHUB", f"http://127.0.0.1:{server.server_port}")
        yield paths
        server.shutdown()
        thread.join()


def test_files_come_once(tmp_path: Path, asked: list[str]) -> None:
    assert fetch_suite("x", tmp_path / "new") == 2
    assert {name: (tmp_path / "new" / name).read_bytes() for name in FILES} == FILES
    assert fetch_suite("x", tmp_path / "new") == 0
    assert len(asked) == 2


def test_another_file_is_neither_kept_nor_overwritten(
    tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a b.json").write_bytes(b"mine")
    with pytest.raises(DataError, match="Move it away"):
        fetch_suite("x", tmp_path)
    assert (tmp_path / "data" / "a b.json").read_bytes() == b"mine"
    monkeypatch.setitem(FILES, "data/a b.json", b"[1]")
    with pytest.raises(DataError, match="not written"):
        fetch_suite("x", tmp_path / "new")
    assert not (tmp_path / "new" / "data" / "a b.json").exists()


def test_without_a_network_it_says_what_to_put_where(
    tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(official_files, "GITHUB", "http://127.0.0.1:1")
    with pytest.raises(UserError, match=r"put data/a b\.json, data/\[1\]\.csv of github\.com/o/r at abc into"):
        fetch_suite("x", tmp_path)
    with pytest.raises(UserError, match=r"Known: x"):
        fetch_suite("y", tmp_path)


def test_the_command(tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(fetch, ["x"], standalone_mode=False)
    assert (ran.return_value, "2 files downloaded into x" in ran.output) == (0, True)
    assert (tmp_path / "x" / "data" / "a b.json").is_file()


def test_every_known_file_belongs_to_a_suite_and_is_pinned() -> None:
    unpinned = []
    for suite, source in official_files.official_files().items():
        registry.load("suites", suite)
        assert all(re.fullmatch(r"[0-9a-f]{64}|[0-9a-f]{40}", each) for each in source.files.values())
        assert all(not path.startswith("/") and ".." not in path for path in source.files)
        if not re.fullmatch(r"[0-9a-f]{40}", source.revision) or not source.files:
            unpinned.append(suite)
    assert unpinned == ["gedit-bench", "longt2ibench", "lpg-bench"]  # by the first download


def test_gits_own_id_of_a_file_will_do(tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    content = FILES["data/a b.json"]
    git_id = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    monkeypatch.setattr(
        official_files, "official_files", lambda: {"x": OfficialFiles("o/r", "abc", {"data/a b.json": git_id})}
    )
    assert [fetch_suite("x", tmp_path), fetch_suite("x", tmp_path)] == [1, 0]
    (tmp_path / "data" / "a b.json").write_bytes(b"mine")
    with pytest.raises(DataError, match="Move it away"):
        fetch_suite("x", tmp_path)
