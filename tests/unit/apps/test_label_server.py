"""The page as a real server on loopback: votes over HTTP, kill -9, strangers, hostile data."""

import contextlib
import http.client
import json
import re
import signal
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from builders import write_lines
from commands import start
from PIL import Image

from titjudge.apps.label import Rules, server
from titjudge.apps.label.dataset import load_dataset
from titjudge.apps.label.forms import collect
from titjudge.apps.label.pair_form import Pairs
from titjudge.apps.label.service import Service
from titjudge.apps.label.store import Store
from titjudge.core.errors import DataError
from titjudge.web import PageAddress

pytestmark = pytest.mark.slow  # many in all, each of them short

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

ROOT = Path(__file__).resolve().parents[3]
HOSTILE = (
    "<script>alert(1)</script> {{7*7}} ${x} \u202eright-to-left \" onerror='x' javascript:alert(1) " + "w" * 100_000
)
SERVE = """
import logging
import sys
from pathlib import Path
from titjudge.apps.label import Rules
from titjudge.apps.label.server import serve_label
from titjudge.web import PageAddress
logging.basicConfig(format="%(message)s")
data, store, annotators, plan, seed, port = sys.argv[1:]
is_open = annotators == "open"
serve_label(Path(data), annotators=3 if is_open else int(annotators), store=Path(store),
            rules=Rules(open_link=is_open, plan=plan, seed=int(seed)), at=PageAddress(port=int(port)),
            ready=lambda links: print(*links, "ready", sep="\\n", flush=True))
"""


def make_data(folder: Path, groups: int = 2, images: int = 5, prompt: str = "a prompt") -> Path:
    """Images whose brightness is their quality: `quality` reads it from the picture, as an annotator would."""
    folder.mkdir()
    prompts, lines = [], []
    for group in range(groups):
        prompts.append({"prompt_id": f"p{group}", "prompt": f"{prompt} {group}"})
        for number in range(images):
            name = f"secret-generator-{number}_{group}.png"
            Image.new("L", (8, 8), 20 * number + 7).save(folder / name)
            lines.append({"image": name, "prompt_id": f"p{group}", "generator": f"secret-generator-{number}"})
    write_lines(folder / "prompts.jsonl", *prompts)
    write_lines(folder / "images.jsonl", *lines)
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_data(tmp_path / "data")


class Server:
    def __init__(
        self, data: Path, store: Path, annotators: int | str = 2, plan: str = "merge", seed: int = 7, port: int = 0
    ):
        arguments = [str(data), str(store), str(annotators), plan, str(seed), str(port)]
        self.process = start(store.parent, *arguments, script=SERVE)
        self.links = []
        while (line := self.process.stdout.readline().strip()) != "ready":
            assert line, self.process.communicate()[1]
            self.links.append(line)
        self.port = urlsplit(self.links[0]).port
        self.tokens = [urlsplit(link).fragment for link in self.links]

    def end(self, how: int = signal.SIGTERM) -> str:
        self.process.send_signal(how)
        return self.process.communicate(timeout=60)[1]

    def ask(self, method: str, path: str, who: int | None = 0, body: Any = None, **headers: str) -> Any:
        """(status, headers, content)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = {key.replace("_", "-"): value for key, value in headers.items()}
        if who is not None:
            sent.setdefault("Authorization", f"Bearer {self.tokens[who]}")
        if body is not None and not isinstance(body, bytes):
            body, sent = json.dumps(body).encode(), {"Content-Type": "application/json", **sent}
        with contextlib.closing(connection):
            connection.request(method, path, body, sent)
            reply = connection.getresponse()
            return reply.status, dict(reply.getheaders()), reply.read()

    def state(self, who: int = 0) -> Any:
        status, _, content = self.ask("GET", "/api/state", who)
        assert status == 200
        return json.loads(content)

    def vote(self, state: Any, answer: str, who: int = 0) -> Any:
        body = {"question": state["question"], "answer": answer, "duration_ms": 1234}
        status, _, content = self.ask("POST", "/api/vote", who, body)
        assert status == 200, content
        return json.loads(content)

    def brightness(self, code: str, who: int = 0) -> int:
        import io

        status, _, content = self.ask("GET", f"/api/image/{code}", who)
        assert status == 200
        with Image.open(io.BytesIO(content)) as image:
            return int(image.getpixel((0, 0)))

    def honest(self, state: Any, who: int = 0) -> str:
        left, right = (self.brightness(code, who) for code in state["sheet"]["images"])
        return "left" if left > right else "right"

    def finish(self, who: int = 0) -> Any:
        state = self.state(who)
        while state["sheet"]:
            state = self.vote(state, self.honest(state, who), who)
        return state


@contextlib.contextmanager
def serving(*arguments: Any, **keywords: Any) -> Iterator[Server]:
    server = Server(*arguments, **keywords)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.end()


def rows(store: Path, query: str = "SELECT * FROM answers WHERE answer IS NOT NULL ORDER BY id") -> list[Any]:
    with contextlib.closing(sqlite3.connect(store)) as connection:
        return connection.execute(query).fetchall()


def test_two_annotators_at_once_and_nobody_loses_a_vote(data: Path, tmp_path: Path) -> None:
    store = tmp_path / "votes.db"
    with serving(data, store) as server, ThreadPoolExecutor(2) as pool:
        first, second = pool.map(server.finish, (0, 1))
    assert first["at_most"] == second["at_most"] == 0
    voted = rows(store, "SELECT annotator, image, other, answer, duration_ms, shown_at, answered_at FROM answers")
    assert len(voted) == first["done"] + second["done"]
    assert {row[0] for row in voted} == {"annotator-01", "annotator-02"}
    for _, left, right, answer, duration, shown, at in voted:
        better = left if int(left.split("-")[2][0]) > int(right.split("-")[2][0]) else right
        assert {"left": left, "right": right}[answer] == better
        assert duration == 1234
        assert shown <= at
    assert first["done"] < 2 * 10, "merge sort asks less than all pairs"
    assert len({row[1] > row[2] for row in voted}) == 2, "sides are mixed"


def test_kill_9_in_the_middle_loses_nothing(data: Path, tmp_path: Path) -> None:
    store = tmp_path / "votes.db"
    with serving(data, store) as server:
        state = server.state()
        for _ in range(5):
            state = server.vote(state, server.honest(state))
        before, links, port = rows(store), server.links, server.port
        assert len(before) == 5
        server.end(signal.SIGKILL)
    with serving(data, store, port=port) as again:
        assert again.links == links
        assert again.state()["question"] == state["question"]
        assert again.state()["sheet"] == state["sheet"]
        assert rows(store) == before
        end = again.finish()
    assert rows(store)[:5] == before
    assert len(rows(store)) == end["done"]


def test_an_answer_counts_once_and_only_to_its_question(data: Path, tmp_path: Path) -> None:
    store = tmp_path / "votes.db"
    with serving(data, store) as server:
        state = server.state()
        following = server.vote(state, "tie")
        status, _, content = server.ask("POST", "/api/vote", 0, {"question": state["question"], "answer": "left"})
        assert status == 409
        assert json.loads(content)["question"] == following["question"]
        other = {"question": following["question"], "answer": "left"}
        assert server.ask("POST", "/api/vote", 1, other)[0] == 409, "the question of somebody else"
    assert len(rows(store)) == 1


def test_undo_returns_the_pair_and_stays_on_record(data: Path, tmp_path: Path) -> None:
    store = tmp_path / "votes.db"
    with serving(data, store) as server:
        first = server.state()
        second = server.vote(first, "left")
        status, _, content = server.ask("POST", "/api/undo", 0, {"question": second["question"]})
        back = json.loads(content)
        assert status == 200
        assert back["sheet"] == first["sheet"]
        assert back["done"] == 0
        assert server.ask("POST", "/api/undo", 0, {"question": second["question"]})[0] == 409, "a double press"
        server.vote(back, "right")
    assert [row[7] for row in rows(store)] == ["left", "right"]
    assert [row[0] for row in rows(store, "SELECT turn FROM answers WHERE answer IS NULL")] == [1]


def test_strangers_learn_nothing(data: Path, tmp_path: Path) -> None:
    with serving(data, tmp_path / "votes.db") as server:
        code = server.state()["sheet"]["images"][0]
        question = server.state()["question"]
        vote = {"question": question, "answer": "left"}
        for who, headers in (
            (None, {}),
            (None, {"Authorization": "Bearer nonsense"}),
            (None, {"Authorization": "Bearer "}),
        ):
            assert server.ask("GET", "/api/state", who, **headers)[0] == 401
            assert server.ask("GET", f"/api/image/{code}", who, **headers)[0] == 401
            assert server.ask("POST", "/api/vote", who, vote, **headers)[0] == 401
            assert server.ask("POST", "/api/undo", who, {"question": question}, **headers)[0] == 401
    assert rows(tmp_path / "votes.db") == []


def test_other_sites_and_foreign_names_are_refused(data: Path, tmp_path: Path) -> None:
    with serving(data, tmp_path / "votes.db") as server:
        vote = {"question": server.state()["question"], "answer": "left"}
        for headers in (
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": f"http://127.0.0.1:{server.port + 1}"},
            {"Sec_Fetch_Site": "cross-site"},
            {"Host": "evil.example"},
            {"Host": f"127.0.0.1.evil.example:{server.port}"},
        ):
            assert server.ask("POST", "/api/vote", 0, vote, **headers)[0] == 403, headers
        assert server.ask("GET", "/", 0, Host="evil.example")[0] == 403
        assert server.ask("GET", "/api/state", 0, Host="evil.example")[0] == 403
        plain = json.dumps(vote).encode()
        assert server.ask("POST", "/api/vote", 0, plain, Content_Type="text/plain")[0] == 400
        assert server.ask("POST", "/api/vote", 0, b"{" + b" " * 70_000, Content_Type="application/json")[0] == 400
        assert server.ask("POST", "/api/vote", 0, {**vote, "answer": "both"})[0] == 400
        assert server.ask("POST", "/api/vote", 0, ["left"])[0] == 400
        assert server.ask("GET", "/api/vote", 0)[0] == 405
        assert rows(tmp_path / "votes.db") == []
        own = f"http://127.0.0.1:{server.port}"
        assert server.ask("POST", "/api/vote", 0, vote, Origin=own, Sec_Fetch_Site="same-origin")[0] == 200


def test_no_file_but_the_images_can_be_read(data: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.png").write_bytes((data / "secret-generator-0_0.png").read_bytes())
    (data / "link.png").symlink_to(tmp_path / "outside.png")
    with (data / "images.jsonl").open("a") as file:
        file.write(json.dumps({"image": "link.png", "prompt_id": "p0"}) + "\n")
        file.write(json.dumps({"image": "../outside.png", "prompt_id": "p0"}) + "\n")
    with serving(data, tmp_path / "votes.db") as server:
        for path in ("../prompts.jsonl", "..%2fprompts.jsonl", "%2e%2e/%2e%2e/etc/passwd", "/etc/passwd", "", "link.png",
                     "secret-generator-0_0.png", "%00", "..%5c..%5cetc"):  # fmt: skip
            assert server.ask("GET", f"/api/image/{path}")[0] == 404, path
        assert server.ask("GET", "/../prompts.jsonl")[0] == 404
        state = server.state()
        codes = {state["sheet"]["images"][0], state["sheet"]["images"][1], *state["upcoming"]}
        for name in data.glob("secret*.png"):  # swapped for a link while the server runs
            name.unlink()
            name.symlink_to(tmp_path / "outside.png")
        for code in codes:
            status, _, content = server.ask("GET", f"/api/image/{code}")
            assert status == 422
            assert b"PNG" not in content
        log = server.end()
    assert "link.png: the image is a link that leads outside the data folder" in log
    assert "../outside.png: the image path leads outside" in log


def test_nothing_tells_which_generator_made_an_image(data: Path, tmp_path: Path) -> None:
    with serving(data, tmp_path / "votes.db") as server:
        state = server.state()
        assert "secret" not in json.dumps(state)
        _, headers, _ = server.ask("GET", f"/api/image/{state['sheet']['images'][0]}")
        assert "secret" not in json.dumps(headers)


def test_hostile_text_is_data_and_the_policy_forbids_scripts_in_the_page(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", 1, 3, HOSTILE)
    with serving(data, tmp_path / "votes.db") as server:
        assert server.state()["sheet"]["prompt"] == HOSTILE + " 0"
        status, headers, content = server.ask("GET", "/", None)
        page = content.decode()
        assert status == 200
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert not re.search(r"<[^>]*\s(on\w+|style)\s*=", page)
        assert not re.search(r"<script(?![^>]*\bsrc=)", page)
        assert "innerHTML" not in server.ask("GET", "/pairs.js", None)[2].decode()


def test_a_file_with_a_hostile_name_is_shown(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", 1, 2)
    name = "<img src=x onerror=alert(1)>\u202e'\"{{x}}.png"
    (data / "secret-generator-0_0.png").rename(data / name)
    text = (data / "images.jsonl").read_text().splitlines()
    text[0] = json.dumps({"image": name, "prompt_id": "p0"})
    (data / "images.jsonl").write_text("\n".join(text))
    with serving(data, tmp_path / "votes.db") as server:
        server.finish()
    assert name in rows(tmp_path / "votes.db")[0]


def test_an_image_that_cannot_be_decoded_is_asked_no_more(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", 1, 3)
    Image.effect_noise((64, 64), 90).save(data / "noise.png")
    (data / "secret-generator-0_0.png").write_bytes((data / "noise.png").read_bytes()[:900])
    with serving(data, tmp_path / "votes.db", plan="all") as server:
        state = server.state()
        assert state["at_most"] == 3
        while state["sheet"]:
            shown = [server.ask("GET", f"/api/image/{code}")[0] for code in state["sheet"]["images"]]
            state = server.state() if 422 in shown else server.vote(state, "tie")
        assert state["done"] == 1
        assert "truncated" in server.end()
    (vote,) = rows(tmp_path / "votes.db", "SELECT image, other FROM answers")
    assert sorted(vote) == ["secret-generator-1_0.png", "secret-generator-2_0.png"]


def test_every_pair_is_asked_unless_the_store_was_begun_otherwise(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_serve", lambda service, at, ready: None)
    for plan, kept in ((None, "all"), ("merge", "merge")):
        file = tmp_path / f"{plan}.db"
        for rules in (Rules(plan=plan), Rules()):
            server.serve_label(data, annotators=2, store=file, rules=rules, at=PageAddress(), ready=None)
        assert collect(file).form.plan == kept


def test_people_have_the_three_answers_of_the_paper_where_both_bad_is_not_offered(data: Path, tmp_path: Path) -> None:
    with contextlib.closing(Store(tmp_path / "v.db")) as store:
        service = Service(load_dataset(data), store, Pairs(both_bad=False), annotators=1, seed=0)
        state = service.state("annotator-01")
        assert state["sheet"]["answers"] == ("left", "right", "tie")
        with pytest.raises(DataError, match="one of left, right, tie"):
            service.vote("annotator-01", state["question"], "both_bad")
        experts = Service(load_dataset(data), store, Pairs(), annotators=1, seed=0)
        assert experts.state("annotator-01")["sheet"]["answers"] == ("left", "right", "tie", "both_bad")


def test_the_overview_opens_for_the_organiser_and_nobody_else(data: Path, tmp_path: Path) -> None:
    server = Server(data, tmp_path / "v.db", annotators=2)
    try:
        assert urlsplit(server.links[-1]).path == "/organiser.html"
        status, _, content = server.ask("GET", "/api/overview", -1)
        assert status == 200
        assert [one["name"] for one in json.loads(content)["people"]] == ["annotator-01", "annotator-02"]
        assert server.ask("GET", "/api/overview", 0)[0] == 401
        assert server.ask("GET", "/api/overview", None)[0] == 401
        assert server.ask("GET", "/api/state", -1)[0] == 401
    finally:
        server.end()


def test_people_come_by_one_link_and_type_their_names(data: Path, tmp_path: Path) -> None:
    with serving(data, tmp_path / "v.db", "open") as server:
        assert [urlsplit(link).path for link in server.links] == ["/join.html", "/organiser.html"]

        def join(body: Any, who: int | None = 0, **headers: str) -> Any:
            status, _, content = server.ask("POST", "/api/join", who, body, **headers)
            return status, json.loads(content) if status != 403 else None

        status, card = join({"name": "Zoë"})
        assert (status, card["name"]) == (200, "Zoë")
        server.tokens.append(card["key"])
        assert server.state(2)["annotator"] == "Zoë"
        assert join({"name": "zoë"})[1]["taken"]["name"] == "Zoë"
        assert join({"name": "zoë", "key": card["key"]})[1] == card
        assert join({"name": "zoë", "sure": "yes"})[1]["taken"]["name"] == "Zoë", "only true is sure"
        for name, reason in (
            ("", "Type your name"),
            ("a" * 41, "41 characters"),
            ("<img src=x>", "cannot be the name"),
        ):
            status, refused = join({"name": name})
            assert status == 400
            assert reason in refused["error"]
        for body in ([], {"name": 1}, {"name": "ben", "key": None}):
            assert join(body)[0] == 400
        assert join({"name": "ben"}, None)[0] == 401
        assert join({"name": "ben"}, 1)[0] == 401, "the organiser's key"
        assert join({"name": "ben"}, 2)[0] == 401, "the key of an annotator"
        assert join({"name": "ben"}, Origin="https://evil.example")[0] == 403
        assert server.ask("GET", "/api/state", 0)[0] == 401, "the link for everybody is nobody's"
        assert server.ask("GET", "/api/overview", 0)[0] == 401
        overview = json.loads(server.ask("GET", "/api/overview", 1)[2])
        assert [one["name"] for one in overview["people"]] == ["Zoë"]
    with serving(data, tmp_path / "v.db", 2) as server:
        assert server.ask("GET", "/join.html", None)[0] == 404
        assert server.ask("POST", "/api/join", 0, {"name": "ben"})[0] == 404
