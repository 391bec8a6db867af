"""A set of prompts is reviewed with the keyboard in a real browser, on a wide page and on a phone's."""

from pathlib import Path
from typing import Any

from builders import read_lines
from reviewing import GRAPH, SHORT, make_set, reviewing
from test_label_browser import page_of

WIDE = "document.scrollingElement.scrollWidth > innerWidth || document.querySelector('#stage').scrollWidth > innerWidth"


def test_a_set_is_reviewed_with_the_keyboard(browser: Any, tmp_path: Path) -> None:
    path = make_set(tmp_path)
    with (
        reviewing(path, "--author", "ada") as served,
        page_of(browser, served.link.replace("#", "#x"), viewport={"width": 390, "height": 844}) as page,
    ):

        def at(place: str) -> None:
            page.wait_for_function("place => document.body.dataset.at === place", arg=place)

        assert page.is_visible("#broken")
        page.goto(served.link)
        at("0 0")
        assert page.is_hidden("#broken")
        assert "Is it raining?" in page.inner_text("#about")
        assert "✓ every concept kept" in page.inner_text("#about")
        assert not page.evaluate(WIDE)
        page.keyboard.press("e")
        page.fill("#text", "Two red cubes stand on grass")
        page.keyboard.press("a")  # writes a letter, decides nothing
        page.keyboard.press("Control+Enter")
        at("1 1")
        page.keyboard.press("r")
        page.keyboard.press("Enter")  # a reason is required
        assert page.is_visible("#why")
        page.keyboard.type("a cat again")
        page.keyboard.press("Enter")
        at("2 2")
        assert page.inner_text("#prompt").startswith("<script>")
        assert page.evaluate("window.hacked") is None
        page.keyboard.press("a")
        at("2 3")
        assert "All 3 prompts are decided" in page.inner_text("#done")
        page.keyboard.press("ArrowLeft")
        at("1 3")
        assert "Rejected: a cat again · ada" in page.inner_text("#verdict")
        page.keyboard.press("ArrowLeft")
        at("0 3")
        assert page.is_disabled("#previous")
        assert page.is_enabled("#next")
        assert "✗ every concept kept: it does not say 'wooden table'" in page.inner_text("#about")
        assert SHORT["prompt"] in page.inner_text("#before")
        page.keyboard.press("e")
        page.keyboard.press("Escape")
        assert page.is_visible("#bar")
        page.keyboard.press("a")  # once more: the edited text stands
        page.wait_for_function("document.querySelector('#verdict').textContent.startsWith('Accepted as edited')")
    decided = read_lines(tmp_path / "set.jsonl.review.jsonl")
    last = {each["prompt_id"]: each for each in decided}
    assert last["t1"]["text"] == "Two red cubes stand on grassa"
    assert last["g1"]["reason"] == "a cat again"
    assert last["<b>h</b>"]["decision"] == "accepted"


def test_several_people_correct_a_graph_and_see_where_they_differ(browser: Any, tmp_path: Path) -> None:
    path = make_set(tmp_path, GRAPH)
    with reviewing(path, "--author", "ada", "--author", "ben") as served:
        assert served.process.stdout is not None
        links = [link.partition(": ")[2] for link in (served.link, served.process.stdout.readline().strip())]
        for link, removed in zip(links, ("cat | grey", ""), strict=True):
            with page_of(browser, link, viewport={"width": 390, "height": 844}) as page:
                page.wait_for_function("() => document.body.dataset.at === '0 0'")
                page.keyboard.press("e")
                area = page.locator("#parts textarea")
                lines = area.input_value().split("\n")
                area.fill("\n".join([line for line in lines if line != removed] + ["cat | red | blue | x"]))
                page.keyboard.press("Control+Enter")
                page.wait_for_function("() => document.querySelector('#notice').textContent.includes('must be ENTITY')")
                area.fill("\n".join(line for line in lines if line != removed))
                assert not page.evaluate(WIDE)
                page.keyboard.press("Control+Enter")
                page.wait_for_function("() => document.body.dataset.at === '0 1'")
                if not removed:
                    told = page.inner_text("#others")
                    assert "2 people have decided" in told
                    assert "cat | grey" in told
                    assert "1 of 2" in told
                    assert not page.evaluate(WIDE)
                else:
                    assert page.is_hidden("#others")
