"""Files of the hub: at the address that HF_ENDPOINT names, pinned by the first download, gone on with, never another file."""

import hashlib
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner

from titjudge.cli.catalog import fetch
from titjudge.core.errors import ConfigError, DataError, UserError
from titjudge.suites import downloads, official_files
from titjudge.suites.official_files import LOCK, OfficialFiles, fetch_suite

COMMIT, OTHER = "a" * 40, "b" * 40
TOKEN = "hf_secretsecretsecret"
Handler = http.server.BaseHTTPRequestHandler


def git_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass
class Hub:
    """What a hub of one data set gives, and what it was asked."""

    files: dict[str, bytes] = field(default_factory=dict)
    commit: str = COMMIT
    asked: list[str] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)
    ranges: list[str | None] = field(default_factory=list)
    instead: Callable[[Handler], bool] = lambda request: False
    """Answers a request itself where it returns True."""
    address: str = ""

    def listing(self) -> bytes:
        entries = [
            {"rfilename": name, "size": len(content), "blobId": git_id(content)}
            if not name.endswith(".bin")
            else {
                "rfilename": name,
                "size": 3,  # of the pointer
                "blobId": git_id(b"ptr"),
                "lfs": {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)},
            }
            for name, content in self.files.items()
        ]
        return json.dumps({"sha": self.commit, "siblings": entries}).encode()

    def give(self, request: Handler) -> None:
        self.asked.append(request.path)
        self.tokens.append(request.headers["Authorization"])
        self.ranges.append(request.headers["Range"])
        if self.instead(request):
            return
        below = f"/datasets/O/N/resolve/{self.commit}/"
        if request.path.startswith("/api/datasets/O/N/revision/"):
            return reply(request, 200, self.listing())
        name = request.path.removeprefix(below).replace("%20", " ")
        if not request.path.startswith(below) or name not in self.files:
            return reply(request, 404)
        start = int((request.headers["Range"] or "bytes=0-")[6:-1])
        content = self.files[name][start:]
        if request.headers["Range"]:
            whole = len(self.files[name])
            return reply(request, 206, content, {"Content-Range": f"bytes {start}-{whole - 1}/{whole}"})
        return reply(request, 200, content)


def reply(request: Handler, status: int, content: bytes = b"", headers: dict[str, str] | None = None) -> None:
    request.send_response(status)
    for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(content)


def serve(hub: Hub) -> Iterator[Hub]:
    class Requests(Handler):
        def do_GET(self) -> None:
            hub.give(self)

        def log_message(self, *_: object) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Requests) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        hub.address = f"http://127.0.0.1:{server.server_port}"
        yield hub
        server.shutdown()
        thread.join()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub on this machine with the data set of the suite `x`, of which no revision is pinned."""
    for name in ("HF_HUB_OFFLINE", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(official_files, "official_files", lambda: {"x": OfficialFiles("datasets/O/N")})
    monkeypatch.setattr(downloads, "PAUSE", 0.0)
    for each in serve(Hub({"p.jsonl": b"{}\n", "images/a b.bin": b"0123456789"})):
        monkeypatch.setenv("HF_ENDPOINT", each.address + "/")
        yield each


@pytest.fixture
def elsewhere() -> Iterator[Hub]:
    yield from serve(Hub({}))


def content_of(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != LOCK)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_the_first_download_pins_what_later_ones_take(tmp_path: Path, hub: Hub) -> None:
    assert fetch_suite("x", tmp_path) == 2
    assert hub.asked[0] == "/api/datasets/O/N/revision/main?blobs=true"
    assert content_of(tmp_path) == hub.files
    lock = json.loads((tmp_path / LOCK).read_text("utf-8"))
    assert (lock["repository"], lock["revision"]) == ("datasets/O/N", COMMIT)
    assert lock["files"] == {name: hashlib.sha256(content).hexdigest() for name, content in hub.files.items()}

    asked = len(hub.asked)
    assert fetch_suite("x", tmp_path) == 0
    assert len(hub.asked) == asked  # nothing is asked when all is there
    (tmp_path / "p.jsonl").unlink()
    hub.files = {**hub.files, "p.jsonl": b"[]\n"}  # as if the hub had another file at the same commit
    with pytest.raises(
        DataError, match=r"p\.jsonl: the downloaded file differs from the pinned file .3 bytes. and was not written"
    ):
        fetch_suite("x", tmp_path)
    assert not (tmp_path / "p.jsonl").exists()


def test_another_commit_is_taken_on_demand_alone(tmp_path: Path, hub: Hub) -> None:
    fetch_suite("x", tmp_path)
    hub.commit = OTHER
    assert fetch_suite("x", tmp_path) == 0
    assert json.loads((tmp_path / LOCK).read_text("utf-8"))["revision"] == COMMIT
    hub.files["new.txt"] = b"new"
    assert fetch_suite("x", tmp_path, revision="v2") == 1
    assert json.loads((tmp_path / LOCK).read_text("utf-8"))["revision"] == OTHER
    hub.files["p.jsonl"] = b"changed"
    hub.commit = "c" * 40
    with pytest.raises(DataError, match=r"p\.jsonl: this is not the file of datasets/O/N @ccccccc. Move it away"):
        fetch_suite("x", tmp_path, revision="main")
    with pytest.raises(DataError, match="the hub returned commit ccccccc instead of ddddddd"):
        fetch_suite("x", tmp_path / "new", revision="d" * 40)


def test_chosen_files_of_a_pinned_data_set(tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours come without a listing; others of the same commit with the checksums that the hub gives."""
    ours = OfficialFiles("datasets/O/N", COMMIT, {"p.jsonl": hashlib.sha256(b"{}\n").hexdigest()})
    monkeypatch.setattr(official_files, "official_files", lambda: {"x": ours})
    assert fetch_suite("x", tmp_path) == 1
    assert (len(hub.asked), (tmp_path / LOCK).exists()) == (1, False)
    assert fetch_suite("x", tmp_path, include=["images/*"]) == 1
    assert content_of(tmp_path) == hub.files
    assert fetch_suite("x", tmp_path) == 0
    with pytest.raises(UserError, match=r"has no such file\. Give --include a path in it, such as"):
        fetch_suite("x", tmp_path, include=["pictures/*"])


def test_a_data_set_of_the_hub_by_its_name(tmp_path: Path, hub: Hub) -> None:
    assert fetch_suite("datasets/O/N", tmp_path) == 2
    with pytest.raises(DataError, match=r"the folder has files of datasets/O/N\. Choose another folder"):
        fetch_suite("models/O/N", tmp_path)


def test_a_broken_download_is_gone_on_with(tmp_path: Path, hub: Hub) -> None:
    """The body ends early: the rest is asked for; when the server is gone for good, the next command asks for it."""
    cut = iter([True, False])

    def breaks(request: Handler) -> bool:
        if not request.path.endswith(".bin") or not next(cut, False):
            return False
        reply(request, 200, b"0123", {"Content-Length": "10"})
        request.close_connection = True
        return True

    hub.instead = breaks
    assert fetch_suite("x", tmp_path / "one") == 2
    assert "bytes=4-" in hub.ranges
    assert content_of(tmp_path / "one") == hub.files

    hub.instead = lambda request: (
        (request.path.endswith(".bin") and hub.ranges[-1] is None and breaks(request))
        or (request.path.endswith(".bin") and (reply(request, 403) or True))
    )
    cut = iter([True])
    with pytest.raises(UserError, match="HTTP 403"):
        fetch_suite("x", tmp_path / "two")
    hub.instead = lambda request: False
    hub.ranges.clear()
    fetch_suite("x", tmp_path / "two")
    assert "bytes=4-" in hub.ranges
    assert content_of(tmp_path / "two") == hub.files


def test_what_does_not_end_is_cut_and_refused(tmp_path: Path, hub: Hub) -> None:
    hub.instead = lambda request: request.path.endswith(".bin") and (reply(request, 200, b"x" * 5_000_000) or True)
    with pytest.raises(DataError, match=r"bytes, expected 10\) and was not written"):
        fetch_suite("x", tmp_path)
    assert not (tmp_path / "images" / "a b.bin").exists()


@pytest.mark.parametrize(
    ("status", "token", "words"),
    [
        (401, "", "private or not there: set HF_TOKEN"),
        (403, TOKEN, "HF_TOKEN may not read huggingface.co/datasets/O/N"),
        (404, "", "HTTP 404"),
        (429, "", "HTTP 429"),
        (500, "", "HTTP 500"),
    ],
)
def test_refusals_are_one_line_that_says_what_to_do(
    tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch, status: int, token: str, words: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    hub.instead = lambda request: bool(reply(request, status, headers={"Retry-After": "0"}) or True)
    with pytest.raises(UserError) as caught:
        fetch_suite("x", tmp_path)
    line = str(caught.value)
    assert words in line
    assert f"put its files of huggingface.co/datasets/O/N into {tmp_path}" in line
    assert "\n" not in line
    assert TOKEN not in line
    assert len(hub.asked) == (5 if status in (429, 500) else 1)  # what passes is asked again


def test_a_busy_hub_is_asked_again(tmp_path: Path, hub: Hub) -> None:
    left = iter([503, 429])

    def busy(request: Handler) -> bool:
        status = next(left, None)
        return status is not None and bool(reply(request, status) or True)

    hub.instead = busy
    assert fetch_suite("x", tmp_path) == 2


def test_the_token_goes_to_the_hub_alone(
    tmp_path: Path, hub: Hub, elsewhere: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    elsewhere.instead = lambda request: bool(reply(request, 200, hub.files["images/a b.bin"]) or True)
    hub.instead = lambda request: (
        request.path.endswith(".bin")
        and (reply(request, 302, headers={"Location": f"{elsewhere.address}/storage"}) or True)
    )
    assert fetch_suite("x", tmp_path) == 2
    assert set(hub.tokens) == {f"Bearer {TOKEN}"}
    assert elsewhere.tokens == [None]
    assert TOKEN not in (tmp_path / LOCK).read_text("utf-8")


@pytest.mark.parametrize("path", ["../out.bin", "/etc/out.bin", "fetched.json", ".parts/x"])
def test_paths_of_the_hub_stay_in_the_folder(tmp_path: Path, hub: Hub, path: str) -> None:
    hub.files[path] = b"x"
    with pytest.raises(DataError):
        fetch_suite("x", tmp_path / "data")
    assert not (tmp_path / "out.bin").exists()


@pytest.mark.parametrize(
    "listing", [b"<html>", b"[]", b'{"sha": "main", "siblings": []}', b'{"sha": 1, "siblings": 2}']
)
def test_what_is_no_hub_is_named(tmp_path: Path, hub: Hub, listing: bytes) -> None:
    hub.instead = lambda request: bool(reply(request, 200, listing) or True)
    with pytest.raises(UserError, match=r"not JSON|not come from a hub|no commit with checksums"):
        fetch_suite("x", tmp_path)


def test_without_a_network_it_says_what_to_put_where(tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    by_hand = r"By hand: put its files of huggingface\.co/datasets/O/N into"
    with pytest.raises(UserError, match=by_hand):
        fetch_suite("x", tmp_path)
    monkeypatch.setenv("HF_ENDPOINT", hub.address)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match=f"HF_HUB_OFFLINE is set.*{by_hand}"):
        fetch_suite("x", tmp_path)
    assert hub.asked == []


@pytest.mark.parametrize("address", ["hf-mirror.com", "ftp://x", "https://name:word@x", "https://"])
def test_an_endpoint_that_is_none(tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("HF_ENDPOINT", address)
    with pytest.raises(ConfigError) as caught:
        fetch_suite("x", tmp_path)
    assert "word" not in str(caught.value)


def test_a_token_that_is_none_is_not_told(tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_a b")
    with pytest.raises(ConfigError, match="HF_TOKEN has a space"):
        fetch_suite("x", tmp_path)


@pytest.mark.parametrize("text", ["[]", "{", '{"repository": "datasets/O/N", "revision": "x", "files": {"a": "b"}}'])
def test_a_damaged_lock(tmp_path: Path, hub: Hub, text: str) -> None:
    (tmp_path / LOCK).write_text(text)
    with pytest.raises(DataError, match=LOCK):
        fetch_suite("x", tmp_path)


def test_the_command(tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(fetch, ["datasets/O/N", "--include", "*.bin"], standalone_mode=False)
    assert (ran.return_value, "1 files downloaded into N" in ran.output) == (0, True)
    assert content_of(tmp_path / "N") == {"images/a b.bin": b"0123456789"}


@pytest.mark.parametrize(
    "address", ["socks5://user:secret-word@127.0.0.1:1", "socks4://127.0.0.1:1", "http://host:port"]
)
def test_a_proxy_that_cannot_be_used_is_named(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", address)
    with pytest.raises(UserError, match="ALL_PROXY") as caught:
        downloads.Downloads()
    assert "secret-word" not in str(caught.value)
