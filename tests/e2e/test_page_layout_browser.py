"""No page shows text over text, beside the window, or cut off, at the widths of a desktop, tablets and a phone."""

import json
from pathlib import Path
from typing import Any

import pytest
from builders import write_lines
from page_layout import problems, problems_at_all_widths
from report_runs import PROMPT, picture, small_run
from reviewing import make_set, reviewing
from test_label_browser import (
    SERVE_EXPERTS,
    SERVE_OPEN,
    begin,
    page_of,
    press,
    serving,
    split,
    type_name,
)
from viewing import viewing

from titjudge.report import write_report

LONG = {
    "prompt_id": "a-prompt-with-a-rather-long-id-0001",
    "prompt": " ".join([PROMPT] * 3),
    "concepts": ["a chalkboard that reads FRESH FARM FRUIT in pale capital letters", "bowl"],
    "checks": ["every concept kept", "words in the interval"],
    "questions": [f"Is object number {number} where the text says that it is?" for number in range(12)],
    "gold_answers": ["yes"] * 12,
}
ELEMENTS = {"entities": ["cat", "mat"], "attributes": [["mat", "dark red"]], "relations": [["cat", "on", "mat"]]}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    images = [picture(folder / f"g{number}.png", (60 * number, 90, 120), (640, 480)) for number in range(4)]
    lines = [{"image": file.name, "prompt_id": "p", "generator": file.stem} for file in images]
    write_lines(folder / "images.jsonl", *lines)
    prompt = {
        "prompt_id": "p",
        "prompt": LONG["prompt"],
        "graph": ELEMENTS,
        "facets": {"Quality": [["Detail", "Noise"]]},
    }
    (folder / "prompts.jsonl").write_text(json.dumps(prompt) + "\n")
    return folder


def test_what_lies_over_text_is_found(browser: Any) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.set_content(
        "<p style='height: 1em'>one two<p style='margin-top: -1.6em'>three<p>four<p style='margin-left: 400px'>five"
    )
    assert len(problems(page)) == 2
    page.set_content("<p>one<p>two<p style='overflow: hidden; height: 1.2em'>three <br> four<p>five")
    assert problems(page) == []


@pytest.mark.parametrize("mode", ["pairs", "graph", "rating"])
def test_the_pages_of_annotators(browser: Any, data: Path, tmp_path: Path, mode: str) -> None:
    with serving(data, tmp_path / "v.db", mode=mode) as (_, links), page_of(browser, links[0]) as page:
        page.wait_for_selector("#guide[open]")
        assert problems_at_all_widths(page) == {}
        begin(page)
        page.wait_for_selector("body[data-question]:not([data-question=''])")
        assert problems_at_all_widths(page) == {}
        assert problems_at_all_widths(page, height=600) == {}


@pytest.mark.parametrize("mode", ["all", "facets"])
def test_the_pages_of_experts_with_what_the_annotators_said(
    browser: Any, data: Path, tmp_path: Path, mode: str
) -> None:
    store = tmp_path / "v.db"
    split(store, mode)
    with serving(data, store, script=SERVE_EXPERTS) as (_, links), page_of(browser, links[0]) as page:
        begin(page)
        page.wait_for_selector("#said:not([hidden]), .counts")
        assert problems_at_all_widths(page) == {}


def test_the_page_on_which_people_type_their_names(browser: Any, data: Path, tmp_path: Path) -> None:
    with serving(data, tmp_path / "v.db", script=SERVE_OPEN) as (_, links):
        for long_name in ("W" * 40, "a name with spaces and of forty letters."):
            with page_of(browser, links[0]) as page:
                assert problems_at_all_widths(page) == {}
                type_name(page, "<b>" + "w" * 36)
                page.wait_for_function("() => document.getElementById('problem').textContent")
                assert problems_at_all_widths(page) == {}
                type_name(page, long_name)
                page.wait_for_selector("#guide[open]")
            with page_of(browser, links[0]) as page:
                type_name(page, long_name)
                page.wait_for_selector("#taken:not([hidden])")
                assert long_name in page.inner_text("#holder")
                assert problems_at_all_widths(page) == {}
        with page_of(browser, links[-1]) as page:
            page.wait_for_selector("#people tbody tr:nth-child(2)")
            assert problems_at_all_widths(page) == {}


def test_the_page_of_the_organiser(browser: Any, data: Path, tmp_path: Path) -> None:
    with serving(data, tmp_path / "v.db") as (_, links):
        for link in links[:2]:
            with page_of(browser, link) as page:
                begin(page)
                press(page, "1")
        with page_of(browser, links[-1]) as page:
            page.wait_for_selector("#tables table")
            assert problems_at_all_widths(page) == {}


def test_the_page_of_prompts_to_review_also_after_an_edit(browser: Any, tmp_path: Path) -> None:
    with reviewing(make_set(tmp_path, LONG)) as served, page_of(browser, served.link) as page:
        page.wait_for_selector("#about dd")
        assert problems_at_all_widths(page) == {}
        page.keyboard.press("e")
        assert problems_at_all_widths(page) == {}
        page.fill("#text", LONG["prompt"].replace("blue", "green"))
        page.keyboard.press("Control+Enter")
        page.wait_for_selector("#was:not([hidden])")
        assert problems_at_all_widths(page) == {}


def test_the_list_of_runs_and_the_page_of_a_run(browser: Any, tmp_path: Path) -> None:
    small_run(tmp_path / "a", verdict="x")
    small_run(
        tmp_path / "checkpoints-of-a-long-training" / "step-00012500-with-a-long-name",
        status="failed: " + "no key " * 9,
    )
    small_run(tmp_path / "live", status="running", updated=4e9, started=0.0)
    with viewing(tmp_path) as link:
        with page_of(browser, link) as page:
            page.wait_for_selector("#rows tr:nth-child(3)")
            assert problems_at_all_widths(page) == {}
        with page_of(browser, link.replace("/#", "/report.html#") + "/live") as page:
            page.frame_locator("#report").locator("html[data-ready]").wait_for()
            page.locator("#state", has_text="running").wait_for()
            assert problems_at_all_widths(page) == {}


def test_every_view_of_the_report_of_one_run_and_of_two(browser: Any, tmp_path: Path) -> None:
    runs = [small_run(tmp_path / name) for name in ("one", "checkpoint-with-a-long-name-00012500")]
    for shown in (runs[:1], runs):
        file = write_report(shown, tmp_path / "report.html")
        with page_of(browser, file.as_uri()) as page:
            page.wait_for_selector("html[data-ready]")
            views = page.evaluate("[...document.querySelectorAll('[id^=view-]')].map((view) => view.id.slice(5))")
            assert len(views) > 5
            for view in views:
                page.evaluate("view => { location.hash = view; }", view)
                page.wait_for_function("view => document.body.dataset.view === view", arg=view)
                assert problems_at_all_widths(page) == {}, view
