"""Claims and transcripts of a report in a real browser."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from page_layout import serious_faults
from report_runs import PROMPT, agent_parts, agent_run, picture, score, write_run
from test_report_browser import HOSTILE, VENDOR, show, until, visit

from titjudge.core.types import Item
from titjudge.report import write_report

__all__ = ["show"]  # a fixture


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cases")
    return write_report([agent_run(folder / "run")], folder / "report.html")


def test_claims_are_told_with_their_evidence_and_marked_in_the_prompt(show: Callable[..., Any], report: Path) -> None:
    page = show(report, "#images?i=0")
    detail = page.locator("#view-images .detail")
    rows = detail.locator(".claims tbody tr")
    assert rows.count() == 3  # of claims that are not met or not settled; the others are folded
    first = rows.nth(0).inner_text()
    for told in (
        "The bowl holds three oranges",
        "attribute",
        "micro",
        "three bright oranges",
        "not met",
        "before: met (E1)",
        "Count: 2",
    ):
        assert told in first
    assert "cannot be seen" in rows.nth(1).inner_text()
    assert "open" in rows.nth(2).inner_text()
    assert detail.locator(".the-prompt mark.notmet").first.inner_text() == "three bright oranges"
    assert "A round blue bowl" in detail.locator(".the-prompt mark.met").all_inner_texts()
    assert detail.locator(".the-prompt mark.unseen").first.inner_text() == "FRESH FARM FRUIT"
    assert detail.locator(".key-line").inner_text().split("\n") == ["not met", "not settled", "met"]


def test_met_claims_are_folded_by_object_and_the_page_counts_enlarged_looks(
    show: Callable[..., Any], report: Path
) -> None:
    page = show(report, "#images?i=0")
    case = page.locator("#view-images .the-case")
    assert "Verdicts from the whole image: 3; from an enlarged part: 1" in case.inner_text()
    folds = case.locator("details.fold")
    assert [summary.split() for summary in folds.locator("summary").all_inner_texts()] == [
        ["bowl", "1", "met"],
        ["apples", "1", "met"],
    ]
    assert folds.locator("tr").count() == 0
    folds.first.locator("summary").click()
    until(page, "document.querySelectorAll('.fold[open] tbody tr').length === 1")
    assert "A round blue bowl" in folds.first.inner_text()


def test_the_transcript_is_folded_and_the_keyboard_opens_it(show: Callable[..., Any], report: Path) -> None:
    page = show(report, "#images?i=0")
    folded = page.locator("#view-images .transcript")
    assert "2 rounds, 4 looks, stopped: no progress" in folded.inner_text()
    assert folded.locator("li").count() == 0
    folded.locator("summary").focus()
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.transcript').open && document.querySelectorAll('.rounds > li').length === 3")
    told = folded.inner_text()
    for text in ("First look", "The number of oranges is not certain.", "E2 count “oranges in the bowl”", "Settled claim 2 (not met).",
                 "Box 0.50, 0.00, 1.00, 0.45", "Brought nothing: refused", "Refused: there is no tool 'x-ray'", "Settled no claim."):  # fmt: skip
        assert text in told
    drawn = folded.locator(".boxed rect").evaluate(
        "e => ['x', 'y', 'width', 'height'].map((name) => e.getAttribute(name))"
    )
    assert drawn == ["0.5", "0", "0.5", "0.45"]
    page.keyboard.press("r")
    until(page, "!document.querySelector('.transcript').open || document.querySelector('.receipts').open")


def test_what_was_not_met_is_named_in_the_pair(show: Callable[..., Any], tmp_path: Path) -> None:
    pairs = [{"prompt_id": "p0", "a": "a0.png", "b": "b0.png", "preference": "a"}]
    run = agent_run(tmp_path / "run", prompts=1)
    (run.path / "results.json").write_text('{"pairs": %s}' % str(pairs).replace("'", '"'))  # noqa: UP031
    page = show(write_report([run], tmp_path / "report.html"), "#pairs?i=0")
    assert "not met The bowl holds three oranges" in page.locator("#view-pairs .details").first.inner_text()


@pytest.mark.slow
def test_hostile_claims_and_looks_are_text(show: Callable[..., Any], tmp_path: Path) -> None:
    items, scores = [], []
    for number, text in enumerate(HOSTILE):
        item = Item(
            f"{number}.png",
            f"{PROMPT} {text[:200]}",
            picture(tmp_path / "img" / f"{number}.png"),
            text[:200],
            f"p{number}",
        )
        parts = agent_parts(item.prompt)
        for claim in parts["claims"]:
            claim |= {"claim": text, "kind": text[:60], "level": text[:60], "before": [[text, text]]}
        parts["claims"][0] |= {"verdict": text, "span": [-5, 10**9]}
        for look in parts["evidence"]:
            look |= {"tool": text, "question": text, "text": text, "source": text}
        parts["evidence"][3]["failed"] = text
        for entry in parts["transcript"]:
            entry |= {"thought": text, "refused": [text]}
        items.append(item)
        scores.append(score(item, "tit-agent", 50.0, **parts | {"stopped": text}))
    run = write_run(tmp_path / "run", items, scores, results={}, metrics={"tit-agent": {"range": [0, 100]}})
    page = show(write_report([run], tmp_path / "report.html"))
    for place in (f"images?i={n}" for n in range(len(items))):
        visit(page, place)
        page.keyboard.press("r")
        page.wait_for_timeout(20)
        assert page.evaluate("window.hacked") is None
        assert page.evaluate("[...document.querySelectorAll('a')].every(a => a.getAttribute('href').startsWith('#'))")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place


def test_on_a_phone_nothing_is_wider_than_the_page(show: Callable[..., Any], report: Path) -> None:
    page = show(report, "#images?i=1", width=390, height=800)
    page.keyboard.press("r")
    until(page, "document.querySelectorAll('.rounds > li').length === 3")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_on_a_phone_a_claim_its_verdict_and_what_settled_it_are_in_sight(
    show: Callable[..., Any], report: Path
) -> None:
    page = show(report, "#images?i=0", width=390, height=800)
    first = page.locator("#view-images .claims tbody tr").first
    for told in ("The bowl holds three oranges", "not met", "Count: 2"):
        box = first.get_by_text(told, exact=False).first.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("place", ["images?i=0", "prompts?i=0"])
def test_beside_the_panes_nothing_scrolls(show: Callable[..., Any], report: Path, width: int, place: str) -> None:
    page = show(report, f"#{place}", width=width, height=800)
    assert page.evaluate("document.documentElement.scrollHeight") <= 800


def test_of_a_long_answer_the_sentence_that_speaks_of_the_claim_is_told(
    show: Callable[..., Any], tmp_path: Path
) -> None:
    parts = agent_parts(PROMPT)
    filler = "The picture is calm and bright, and it is taken from slightly above a table of dark wood. " * 3
    parts["evidence"][0]["text"] = f"{filler}There is a round bowl in blue. {filler}"
    item = Item("a.png", PROMPT, picture(tmp_path / "a.png"), "model_a", "p0")
    run = write_run(tmp_path / "run", [item], [score(item, "tit-agent", 50.0, **parts)], results={}, metrics={})
    page = show(write_report([run], tmp_path / "report.html"), "#images?i=0")
    page.locator("#view-images .fold summary").first.click()
    told = page.locator("#view-images .fold tbody tr").first.locator(".result").inner_text()
    assert told == "… There is a round bowl in blue."


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_no_serious_fault_in_claims(browser: Any, report: Path, dark: bool) -> None:
    axe = (VENDOR / "axe.min.js").read_text(encoding="utf-8")
    scheme = "dark" if dark else "light"
    context = browser.new_context(viewport={"width": 1300, "height": 800}, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto(report.as_uri())
    page.wait_for_selector("html[data-ready]")
    page.evaluate(axe)
    visit(page, "images?i=0")
    page.keyboard.press("r")
    page.wait_for_timeout(50)
    found = serious_faults(page, "images?i=0")
    context.close()
    assert found == []
