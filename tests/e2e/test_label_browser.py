"""Keyboard voting in a real browser: Debian's Chromium, driven by playwright. Skipped, visibly, where either is missing."""

import contextlib
import itertools
import json
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import commands
import pytest
from builders import write_lines
from PIL import Image
from viewing import viewing

from titjudge.apps.label.dataset import load_dataset
from titjudge.apps.label.questions import Question
from titjudge.apps.label.store import Store
from titjudge.core.types import Pair
from titjudge.web.http_guard import listen

ROOT = Path(__file__).resolve().parents[2]
FACET = "Quality / Detail / Noise"
PROMPT = (
    "A <b>quiet</b> <script>window.hacked = 1</script><img src=x onerror='window.hacked=1'> {{7*7}} \u202ertl\u202c "
)
SERVE = """
import sys
from pathlib import Path
from titjudge.apps.label import Rules
from titjudge.apps.label.server import serve_label
from titjudge.web import PageAddress
serve_label(Path(sys.argv[1]), annotators=2, store=Path(sys.argv[2]),
            rules=Rules(sys.argv[4], seed=5), at=PageAddress(port=int(sys.argv[3])),
            ready=lambda links: print(*links, flush=True))
"""
SERVE_OPEN = SERVE.replace("annotators=2", "annotators=9").replace("seed=5", "seed=5, open_link=True")
SERVE_AT = SERVE.replace("int(sys.argv[3])", "int(sys.argv[3]), url='http://localhost:' + sys.argv[3]")
SERVE_EXPERTS = """
import sys
from pathlib import Path
from titjudge.apps.label.server import serve_experts
from titjudge.web import PageAddress
serve_experts(Path(sys.argv[1]), store=Path(sys.argv[2]), experts=2, annotators=3, at=PageAddress(port=0),
              ready=lambda links, number: print(*links, flush=True))
"""

for _package in ("starlette", "uvicorn"):
    pytest.importorskip(_package)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    lines = []
    for number in range(4):
        name = f"g{number}'\"><script>window.hacked=1<!--.png".replace("/", "")
        Image.new("RGB", (64, 64), (40 * number, 90, 120)).save(folder / name)
        lines.append({"image": name, "prompt_id": "p", "generator": f"g{number}"})
    write_lines(folder / "images.jsonl", *lines)
    (folder / "prompts.jsonl").write_text(json.dumps({"prompt_id": "p", "prompt": PROMPT + "w" * 100_000}) + "\n")
    return folder


@contextlib.contextmanager
def serving(
    data: Path, store: Path, port: int = 0, mode: str = "pairs", script: str = SERVE
) -> Iterator[tuple[commands.Started, list[str]]]:
    with commands.serving(script, data, store, port, mode) as served:
        yield served


@contextlib.contextmanager
def page_of(browser: Any, link: str, **options: Any) -> Iterator[Any]:
    context = browser.new_context(**options)
    page = context.new_page()
    page.trouble = []
    page.on("pageerror", lambda error: page.trouble.append(str(error)))
    page.on(
        "console", lambda message: page.trouble.append(message.text) if "Content Security" in message.text else None
    )
    page.goto(link)
    page.wait_for_selector("body:not([data-state=loading])")
    yield page
    assert page.trouble == []
    context.close()


def begin(page: Any) -> None:
    """Close the guide and read the prompt to its end; keys count once both are done."""
    page.click("#begin")
    page.wait_for_selector("#begin", state="hidden")
    page.keyboard.press("End")
    page.wait_for_selector("#more", state="hidden")


def press(page: Any, key: str) -> None:
    before = page.evaluate("document.body.dataset.question")
    page.keyboard.press(key)
    page.wait_for_function("before => document.body.dataset.question !== before", arg=before)


def votes(
    store: Path, query: str = "SELECT annotator, answer FROM answers WHERE answer IS NOT NULL ORDER BY id"
) -> list[Any]:
    with contextlib.closing(sqlite3.connect(store)) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.slow
def test_two_annotators_vote_with_the_keyboard_at_once(browser: Any, data: Path, tmp_path: Path) -> None:
    store = tmp_path / "votes.db"
    with serving(data, store) as (_, links), page_of(browser, links[0]) as one, page_of(browser, links[1]) as two:
        for page in (one, two):
            page.keyboard.press("ArrowLeft")  # the guide is open: no vote
            begin(page)
        for key_one, key_two in (("ArrowLeft", "3"), ("2", "ArrowRight"), ("1", "ArrowDown")):
            press(one, key_one)
            press(two, key_two)
        press(one, "z")
        one.keyboard.press("p")
        assert one.is_visible("#rest")
        one.keyboard.press("ArrowRight")  # paused: no vote
        one.keyboard.press("p")
        assert one.is_hidden("#rest")
        press(one, "3")
        assert one.evaluate("Math.max(...performance.getEntriesByName('next-pair').map((e) => e.duration))") < 5000
    mine = {name: [a for who, a in votes(store) if who == name] for name in ("annotator-01", "annotator-02")}
    assert mine == {"annotator-01": ["left", "tie", "left", "right"], "annotator-02": ["right", "right", "tie"]}
    assert len(votes(store, "SELECT * FROM answers WHERE answer IS NULL")) == 1
    assert all(0 <= row[0] < 60_000 for row in votes(store, "SELECT duration_ms FROM answers WHERE answer IS NOT NULL"))


def test_a_prompt_is_shown_as_text_and_images_appear(browser: Any, data: Path, tmp_path: Path) -> None:
    with serving(data, tmp_path / "votes.db") as (_, links), page_of(browser, links[0]) as page:
        begin(page)
        assert page.evaluate("document.getElementById('prompt').textContent") == PROMPT + "w" * 100_000
        assert page.evaluate("document.querySelector('#prompt *')") is None
        assert page.evaluate("window.hacked === undefined")
        assert page.evaluate("[left, right].every((img) => img.naturalWidth === 64)")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.click("#frame-right")
        assert page.evaluate("large.src === right.src")
        page.keyboard.press("ArrowLeft")
        assert page.evaluate("large.src === left.src")
        page.keyboard.press("Escape")
        assert page.is_hidden("#zoom")
    assert votes(tmp_path / "votes.db") == []


@pytest.mark.slow
def test_a_long_prompt_is_read_to_its_end_before_its_first_answer(browser: Any, data: Path, tmp_path: Path) -> None:
    store = tmp_path / "votes.db"
    (data / "prompts.jsonl").write_text(json.dumps({"prompt_id": "p", "prompt": "a red house " * 200}) + "\n")
    with serving(data, store) as (_, links), page_of(browser, links[0]) as page:
        page.click("#begin")
        page.wait_for_selector("#begin", state="hidden")
        assert page.evaluate("parseFloat(getComputedStyle(document.querySelector('#prompt')).fontSize)") < 17
        assert "More below" in page.inner_text("#more")
        page.keyboard.press("ArrowLeft")
        page.click("[data-answer=tie]")
        assert "end first" in page.inner_text("#more")
        page.evaluate("document.activeElement.blur()")
        for _number in range(9):
            page.keyboard.press("Space")
        page.wait_for_selector("#more", state="hidden")
        assert votes(store) == []
        press(page, "ArrowLeft")
        page.keyboard.press("Home")
        page.wait_for_selector("#more")
        press(page, "ArrowRight")  # the same prompt: it is read
        assert ", at most 4 to go" in page.inner_text("#left-over")
    assert [answer for _, answer in votes(store)] == ["left", "right"]


@pytest.mark.slow
def test_a_pair_takes_no_vote_before_its_images_are_there(browser: Any, data: Path, tmp_path: Path) -> None:
    store = tmp_path / "votes.db"
    with serving(data, store) as (_, links), page_of(browser, links[0]) as page:
        begin(page)
        held: list[Any] | None = []
        page.evaluate("blobs.clear()")
        page.route("**/api/image/**", lambda route: route.continue_() if held is None else held.append(route))
        page.keyboard.press("1")
        page.wait_for_function(
            "() => document.getElementById('count').textContent === '1 answered'"
        )  # of the next pair, that is
        page.keyboard.press("3")
        page.keyboard.press("w")
        page.keyboard.type("x")
        page.keyboard.press("z")
        waiting, held = held, None
        for route in waiting:
            route.continue_()
        page.wait_for_function("() => state.question === document.body.dataset.question")
        assert page.input_value("#note") == ""
        assert len(votes(store)) == 1
        press(page, "3")
    assert [answer for _, answer in votes(store)] == ["left", "right"]


@pytest.mark.slow
def test_a_reason_is_written_beside_a_vote_and_its_keys_do_not_vote(browser: Any, data: Path, tmp_path: Path) -> None:
    store, why = tmp_path / "votes.db", "=1+2 z? <b>3</b>"
    with serving(data, store) as (_, links), page_of(browser, links[0]) as page:
        begin(page)
        page.keyboard.press("w")
        page.keyboard.type(why)
        page.keyboard.press("ArrowLeft")
        page.reload()  # what is not yet sent is still there
        page.wait_for_selector("body[data-question]")
        begin(page)
        assert page.input_value("#note") == why
        assert votes(store) == []
        page.keyboard.press("w")
        page.keyboard.press("Enter")
        press(page, "3")
        assert page.input_value("#note") == ""
        press(page, "z")
        assert page.input_value("#note") == why
        press(page, "1")
    assert votes(store, "SELECT answer, note FROM answers WHERE answer IS NOT NULL") == [("right", why), ("left", why)]


@pytest.mark.slow
def test_kill_9_in_the_middle_and_the_page_goes_on(browser: Any, data: Path, tmp_path: Path) -> None:
    store = tmp_path / "votes.db"
    with contextlib.ExitStack() as stack:
        process, links = stack.enter_context(serving(data, store))
        page = stack.enter_context(page_of(browser, links[0]))
        begin(page)
        press(page, "1")
        press(page, "1")
        process.send_signal(signal.SIGKILL)
        process.wait()
        before = page.evaluate("document.body.dataset.question")
        page.keyboard.press("3")
        page.wait_for_selector("#notice:not([hidden])")
        assert "not stored yet" in page.inner_text("#notice")
        stack.enter_context(serving(data, store, urlsplit(links[0]).port))
        page.wait_for_function("before => document.body.dataset.question !== before", arg=before)
        page.wait_for_selector("#notice", state="hidden")
        page.reload()
        page.wait_for_selector("body[data-state=asking], body[data-state=done]")
        assert page.inner_text("#count") == "3 answered"
    assert votes(store) == [("annotator-01", answer) for answer in ("left", "left", "right")]


@pytest.mark.slow
def test_a_phone_sees_both_images_and_votes_by_touch(browser: Any, data: Path, tmp_path: Path) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    with serving(data, tmp_path / "votes.db") as (_, links), page_of(browser, links[0], **phone) as page:
        page.tap("#begin")
        page.evaluate("document.querySelector('#prompt').scrollTop = 1e9")
        for selector in (
            "#frame-left",
            "#frame-right",
            "[data-answer=left]",
            "[data-answer=tie]",
            "[data-answer=right]",
        ):
            box = page.locator(selector).bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
            assert box["y"] + box["height"] <= 844
            assert box["height"] >= 44
        assert page.evaluate(
            "(p => p.scrollWidth <= p.clientWidth)(document.querySelector('.where'))"
        )  # no "0 answ..."
        before = page.evaluate("document.body.dataset.question")
        page.tap("[data-answer=tie]")
        page.wait_for_function("before => document.body.dataset.question !== before", arg=before)
    assert votes(tmp_path / "votes.db") == [("annotator-01", "tie")]


@pytest.mark.slow
def test_a_graph_is_marked_with_the_keyboard_and_by_touch(browser: Any, data: Path, tmp_path: Path) -> None:
    graph = {"entities": ["cat", "mat"], "attributes": [["mat", "<b>red</b>"]], "relations": [["cat", "on", "mat"]]}
    (data / "prompts.jsonl").write_text(json.dumps({"prompt_id": "p", "prompt": PROMPT, "graph": graph}) + "\n")
    store = tmp_path / "marks.db"
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    with serving(data, store, mode="graph") as (_, links):
        with page_of(browser, links[0]) as page:
            begin(page)
            assert page.evaluate("document.querySelector('#elements b') === null && window.hacked === undefined")
            page.keyboard.press("y")
            page.keyboard.press("n")
            assert page.locator(".locked").count() == 2
            assert page.is_enabled("#submit")
            page.keyboard.press("ArrowUp")
            page.keyboard.press("ArrowDown")
            page.keyboard.press("1")
            assert page.inner_text("#missing") == "2 to mark"
            page.keyboard.press("Enter")  # not all is marked: nothing is sent
            page.reload()  # what was marked is still there
            page.wait_for_selector("body[data-state=asking]")
            page.wait_for_selector(".element")
            begin(page)
            assert page.inner_text("#missing") == "2 to mark"
            page.keyboard.press("n")
            page.keyboard.press("y")
            press(page, "Enter")
            press(page, "z")
            assert page.locator("[aria-pressed=true]").all_inner_texts() == ["yes", "yes", "no", "yes"]
        with page_of(browser, links[1], **phone) as page:
            page.tap("#begin")
            page.evaluate("document.querySelector('#prompt').scrollTop = 1e9")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            for number in range(2):
                page.locator(".element").nth(number).locator("button").nth(1).tap()
            box = page.locator("#submit").bounding_box()
            assert box["y"] + box["height"] <= 844
            before = page.evaluate("document.body.dataset.question")
            page.tap("#submit")
            page.wait_for_function("before => document.body.dataset.question !== before", arg=before)
    sent = votes(store, "SELECT annotator, answer FROM answers ORDER BY id")
    said = [(who, marks and [value for _, _, value in json.loads(marks)]) for who, marks in sent]
    assert said == [
        ("annotator-01", ["yes", "yes", "no", "yes"]),
        ("annotator-01", None),
        ("annotator-02", ["no", "no", "no", "no"]),
    ]


@pytest.mark.slow
def test_all_images_of_a_prompt_are_ranked_with_the_keyboard_and_by_touch(
    browser: Any, data: Path, tmp_path: Path
) -> None:
    store = tmp_path / "ranks.db"
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    with serving(data, store, mode="rank") as (_, links):
        with page_of(browser, links[0]) as page:
            begin(page)
            assert page.inner_text("#missing") == "4 to rank"
            for key in ("3", "1", "t", "2", "1", "4", "Enter"):  # 1 is taken back: not all have a rank
                page.keyboard.press(key)
            assert page.locator(".rank").all_inner_texts() == ["–", "2", "1", "3"]
            page.keyboard.press("1")
            page.reload()
            page.wait_for_selector(".card")
            begin(page)
            assert page.locator(".rank").all_inner_texts() == ["4", "2", "1", "3"]
            press(page, "Enter")
            press(page, "z")
            assert page.locator(".rank").all_inner_texts() == ["4", "2", "1", "3"]
            page.click(".look >> nth=0")
            assert page.is_visible("#large")
        with page_of(browser, links[1], **phone) as page:
            page.tap("#begin")
            page.evaluate("document.querySelector('#prompt').scrollTop = 1e9")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            for number in range(4):
                if number:
                    page.tap("#tie")
                page.locator(".card .frame").nth(number).tap()
            assert page.locator(".rank").all_inner_texts() == ["1"] * 4
            before = page.evaluate("document.body.dataset.question")
            page.tap("#submit")
            page.wait_for_function("before => document.body.dataset.question !== before", arg=before)
    sent = votes(store, "SELECT annotator, answer FROM answers ORDER BY id")
    said = [(who, ranks and list(json.loads(ranks).values())) for who, ranks in sent]
    assert said == [("annotator-01", [4, 2, 1, 3]), ("annotator-01", None), ("annotator-02", [1, 1, 1, 1])]


@pytest.mark.slow
def test_an_image_is_discarded_with_a_reason(browser: Any, data: Path, tmp_path: Path) -> None:
    (data / "prompts.jsonl").write_text(json.dumps({"prompt_id": "p", "prompt": PROMPT, "questions": ["Cat?"]}) + "\n")
    store = tmp_path / "marks.db"
    with serving(data, store, mode="yes-no") as (_, links), page_of(browser, links[0]) as page:
        begin(page)
        page.keyboard.press("d")
        assert "Write why you discard this image" in page.inner_text("#notice")
        page.keyboard.type("distorted")  # into the note
        page.keyboard.press("Enter")
        press(page, "d")
        assert page.is_hidden("#notice")
    assert votes(store) == [("annotator-01", '{"discard": "distorted"}')]


def split(store: Path, mode: str) -> None:
    """Three annotators who do not agree on anything, with hostile reasons."""
    why = "<img src=x onerror='window.hacked=1'> " + "because " * 80
    with contextlib.closing(Store(store)) as opened:
        opened.begin(load_dataset(store.parent / "data"), plan=mode, seed=5, rules={"annotators": 3})
        images = sorted(path.name for path in store.parent.glob("data/*.png"))
        for who, answer, value in (("one", "left", "0"), ("two", "right", "1"), ("three", "tie", "2")):
            if mode == "all":
                for a, b in (images[:2], images[2:]):
                    opened.add(who, Question("pair", "p", (a, b)), answer, note=why)
            else:
                opened.add(who, Question("image", "p", (images[0],)), json.dumps([(FACET, "Quality", value)]), note=why)


@pytest.mark.slow
def test_an_expert_sees_what_was_said_and_decides_with_the_keyboard(browser: Any, data: Path, tmp_path: Path) -> None:
    store = tmp_path / "votes.db"
    split(store, "all")
    with serving(data, store, script=SERVE_EXPERTS) as (_, links), page_of(browser, links[0]) as page:
        assert "You decide open cases" in page.inner_text("#guide")
        begin(page)
        assert page.inner_text("#count") == "0 answered"
        assert page.inner_text("#said-counts") == "left by 1 · tie by 1 · right by 1"
        assert page.locator("#said-notes li").count() == 3
        assert page.evaluate("document.querySelector('#said-notes *:not(li)') === null && window.hacked === undefined")
        page.focus("#said")
        page.keyboard.press("ArrowDown")  # scrolls
        assert votes(store, "SELECT * FROM answers WHERE annotator LIKE 'expert-%'") == []
        axe = ROOT / "tests" / "vendor" / "axe.min.js"
        if axe.is_file():
            page.evaluate(axe.read_text())
            violations = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
            assert [v["id"] for v in violations if v["impact"] in ("serious", "critical")] == []
        press(page, "1")
        press(page, "4")
        assert page.is_visible("#done")
        press(page, "z")
        press(page, "3")
    said = votes(store, "SELECT answer FROM answers WHERE annotator = 'expert-01' ORDER BY id")
    assert said == [("left",), ("both_bad",), (None,), ("right",)]


@pytest.mark.slow
def test_an_expert_marks_what_is_open_on_a_phone(browser: Any, data: Path, tmp_path: Path) -> None:
    prompt = {"prompt_id": "p", "prompt": PROMPT, "facets": {"Quality": [["Detail", "Noise"]]}}
    (data / "prompts.jsonl").write_text(json.dumps(prompt) + "\n")
    store = tmp_path / "marks.db"
    split(store, "facets")
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    with serving(data, store, script=SERVE_EXPERTS) as (_, links), page_of(browser, links[0], **phone) as page:
        page.tap("#begin")
        page.evaluate("document.querySelector('#prompt').scrollTop = 1e9")
        assert page.locator(".element").count() == 1
        assert page.inner_text(".counts") == "0 by 1 · 1 by 1 · 2 by 1"
        assert page.evaluate("document.querySelector('#said-notes *:not(li)') === null && window.hacked === undefined")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        value = page.locator(".element button").nth(2)
        box = value.bounding_box()
        assert box["height"] >= 44
        assert box["y"] + box["height"] <= page.locator("#submit").bounding_box()["y"]
        value.tap()
        page.tap("#submit")
        page.wait_for_selector("body[data-state=done]")
    said = votes(store, "SELECT answer FROM answers WHERE annotator = 'expert-01'")
    assert [json.loads(marks) for (marks,) in said] == [[[FACET, "Quality", "2"]]]


@pytest.mark.slow
def test_who_is_stopped_reads_thanks_and_can_undo_nothing(browser: Any, data: Path, tmp_path: Path) -> None:
    store = tmp_path / "votes.db"
    with contextlib.closing(Store(store)) as opened:
        images = sorted(path.name for path in data.glob("*.png"))
        dataset = load_dataset(data)
        dataset.gold = tuple(Pair("p", a, b, "a") for a, b in itertools.combinations(images, 2))[:4]
        opened.begin(dataset, plan="all", seed=5, rules={})
        for pair in opened.gold()[:3]:
            opened.add("annotator-01", Question("gold", "p", (pair.a, pair.b)), "right")
        opened.add("annotator-01", Question("gold", "p", (images[1], images[2])), "right")
    with serving(data, store) as (_, links), page_of(browser, links[0]) as page:
        assert page.is_visible("#stopped")
        assert page.is_hidden("#done")
        assert page.is_disabled("#undo")
        page.keyboard.press("z")
        page.keyboard.press("1")
        assert page.is_hidden("#notice")
    assert len(votes(store)) == 4
    assert votes(store, "SELECT * FROM answers WHERE answer IS NULL") == []


def test_a_link_without_its_token_opens_nothing(browser: Any, data: Path, tmp_path: Path) -> None:
    with serving(data, tmp_path / "votes.db") as (_, links), page_of(browser, links[0].partition("#")[0]) as page:
        assert page.is_visible("#broken")
        assert page.is_hidden("#stage")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(browser: Any, data: Path, tmp_path: Path, scheme: str) -> None:
    axe = ROOT / "tests" / "vendor" / "axe.min.js"
    if not axe.is_file():
        pytest.skip("tests/vendor/axe.min.js is missing")
    found = {}
    with serving(data, tmp_path / "votes.db") as (_, links), page_of(browser, links[0], color_scheme=scheme) as page:
        page.evaluate(axe.read_text())
        for name in ("guide", "voting", "paused"):
            found[name] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
            begin(page) if name == "guide" else page.keyboard.press("p")
    faults = [(name, v["id"], v["nodes"][0]["html"]) for name, all_ in found.items() for v in all_
              if v["impact"] in ("serious", "critical")]  # fmt: skip
    assert faults == []


@pytest.mark.slow
def test_the_live_view_shows_runs_as_text_and_follows_them(browser: Any, tmp_path: Path) -> None:
    run = tmp_path / "<img src=x onerror='window.hacked=1'>"
    run.mkdir()
    manifest = {"status": "running", "updated": 4e9, "metrics": {"tit": {}}, "progress": {"total": 4}, "spent": 0.5}
    (run / "manifest.json").write_text(json.dumps(manifest))
    scored = '{{"item": "{}", "metric": "tit", "value": 1}}\n'
    (run / "scores.jsonl").write_text(scored.format(0))
    with viewing(tmp_path) as link, contextlib.closing(browser.new_context()) as context:
        page = context.new_page()
        page.goto(link.partition("#")[0])  # without its key
        page.wait_for_function("() => document.querySelector('#notice').textContent.includes('locked')")
        assert page.inner_text("#summary") == ""  # not "Loading"
        page.goto(link)
        page.wait_for_selector("#rows .name")
        assert page.inner_text("#rows .name") == run.name
        assert page.evaluate("document.querySelector('#rows progress').value") == 1
        (run / "scores.jsonl").write_text("".join(scored.format(number) for number in range(3)))
        page.wait_for_function("() => document.querySelector('#rows progress').value === 3")
        assert page.evaluate("window.hacked === undefined")
        axe = ROOT / "tests" / "vendor" / "axe.min.js"
        if axe.is_file():
            page.evaluate(axe.read_text())
            violations = page.evaluate("axe.run()")["violations"]
            assert [v["id"] for v in violations if v["impact"] in ("serious", "critical")] == []


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
@pytest.mark.parametrize("mode", ["pairs", "yes-no"])
def test_an_edit_is_asked_about_with_its_source(
    browser: Any, tmp_path: Path, width: int, height: int, mode: str
) -> None:
    data = tmp_path / "edits"
    data.mkdir()
    for name, colour in (("source", "red"), ("a", "blue"), ("b", "purple")):
        Image.new("RGB", (96, 64), colour).save(data / f"{name}.png")
    images = [{"image": f"{name}.png", "prompt_id": "p", "generator": name} for name in "ab"]
    write_lines(data / "images.jsonl", *images)
    edit = {"prompt_id": "p", "prompt": "make it blue", "source": "source.png", "questions": ["Is it blue?"]}
    (data / "prompts.jsonl").write_text(json.dumps(edit) + "\n")
    size = {"viewport": {"width": width, "height": height}}
    with serving(data, tmp_path / "v.db", mode=mode) as (_, links), page_of(browser, links[0], **size) as page:
        begin(page)
        assert page.inner_text("#prompt-title") == "Instruction"
        assert page.evaluate("document.querySelector('#sources img').naturalWidth") == 96
        boxes = [
            page.locator(place).bounding_box() for place in ("#sources img", ".frame:not(#sources .frame) img >> nth=0")
        ]
        assert all(box["width"] > 80 and box["y"] + box["height"] <= height for box in boxes)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.click("#sources button")
        assert page.get_attribute("#large", "alt") == "Source"
        page.keyboard.press("Escape")
        page.keyboard.press("f")
        page.keyboard.press("s")
        assert page.get_attribute("#large", "alt") == "Source"
        page.screenshot(path=str(tmp_path / "large.png"))


def type_name(page: Any, name: str) -> None:
    page.fill("#name", name)
    page.click("#begin")


@pytest.mark.slow
def test_people_type_their_names_and_a_taken_one_is_asked_about(browser: Any, data: Path, tmp_path: Path) -> None:
    store = tmp_path / "votes.db"
    with serving(data, store, script=SERVE_OPEN) as (_, links):
        with page_of(browser, links[0]) as page:
            for name, told in (
                ("", "Type your name"),
                ("a" * 41, "41 characters"),
                ("<b>anna</b>", "cannot be the name"),
            ):
                type_name(page, name)
                page.wait_for_function(
                    "told => document.getElementById('problem').textContent.includes(told)", arg=told
                )
            assert page.evaluate("document.querySelector('#problem *')") is None
            page.fill("#name", "Anna")
            page.keyboard.press("Enter")
            page.wait_for_selector("#guide[open]")
            assert page.inner_text("#who").strip(" ·") == "Anna"
            begin(page)
            press(page, "1")
            page.goto(links[0])
            assert page.input_value("#name") == "Anna", "remembered"
            page.click("#begin")
            page.wait_for_function("() => document.getElementById('count')?.textContent === '1 answered'")
        with page_of(browser, links[0]) as page:
            type_name(page, "anna")
            page.wait_for_selector("#taken:not([hidden])")
            assert "Anna has given one answer from another browser" in page.inner_text("#taken")
            page.click("#another")
            type_name(page, "Ben")
            page.wait_for_selector("#guide[open]")
            begin(page)
            press(page, "3")
            page.goto(links[0])
            type_name(page, "anna")
            page.click("#same")
            page.wait_for_function("() => document.getElementById('count')?.textContent === '1 answered'")
            page.goto(links[0])
            type_name(page, "ben")  # a browser that two share asks neither of them
            page.wait_for_function("() => document.getElementById('who')?.textContent === 'Ben'")
    assert votes(store) == [("Anna", "left"), ("Ben", "right")]


def test_a_vote_from_another_address_than_the_announced_one_is_refused_in_words(
    browser: Any, data: Path, tmp_path: Path
) -> None:
    store = tmp_path / "votes.db"
    with listen("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    with serving(data, store, port, script=SERVE_AT) as (_, links):
        assert links[0].startswith(f"http://localhost:{port}/#")
        with page_of(browser, links[0].replace("localhost", "127.0.0.1")) as page:
            begin(page)
            page.keyboard.press("1")
            page.wait_for_selector("#notice:not([hidden])")
            assert page.inner_text("#notice") == f"Answers are taken from http://localhost:{port} only."
            assert votes(store) == []
        with page_of(browser, links[0]) as page:
            begin(page)
            press(page, "1")
    assert votes(store) == [("annotator-01", "left")]
