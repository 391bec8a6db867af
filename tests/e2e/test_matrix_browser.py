"""The matrix of a report in a real browser: sorted, filtered, shown in large, and marked; its votes are read by `judges agreement`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from commands import cli
from report_runs import picture, score, write_run
from test_report_browser import VENDOR, show, until

from titjudge.core.types import Item, Status
from titjudge.report import write_report
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.suites.pair_files import read_votes

__all__ = ["show"]  # a fixture
OLD = (0.9, 0.2, 0.5, 0.4)
NEW = (0.1, 0.8, 0.5, None)


def made(folder: Path) -> RunFolder:
    """Four prompts of three generators: `new` loses the first to `old`, wins the second, is level on the third, and fails."""
    items, scores = [], []
    for p, (old, new) in enumerate(zip(OLD, NEW, strict=True)):
        for k, (name, value) in enumerate((("old", old), ("mid", 0.5), ("new", new))):
            path = picture(folder / "img" / f"{name}{p}.png", (40 * p + 30, 90 * k, 120), (400, 300))
            item = Item(
                f"{name}/{p}.png", f"Scene {p}, a boat", path, name, f"p{p}", {"theme": "sea" if p < 2 else "land"}
            )
            items.append(item)
            status = Status.OK if value is not None else Status.REFUSED
            scores.append(score(item, "tit", value, status, reason=f"It is {name} of {p}."))
            scores.append(score(item, "tit-llm", 100.0 * (p if name == "mid" else 1), reason="A boat."))
    return write_run(folder / "run", items, scores)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("matrix")
    return write_report([made(folder)], folder / "report.html", baseline="old")


def prompts(page: Any) -> list[str]:
    return [text.split(",")[0] for text in page.locator("#view-matrix .rows .matrix-prompt").all_inner_texts()]


def test_the_prompts_that_b_lost_most_stand_first_with_score_and_reason(show: Callable[..., Any], report: Path) -> None:
    page = show(report, "#matrix?m=tit")
    assert prompts(page) == ["Scene 0", "Scene 2", "Scene 1", "Scene 3"]
    heads = page.locator("#view-matrix .columns > div").all_inner_texts()
    assert [head.split() for head in heads] == [["Prompt"], ["A", "old"], ["B", "new"], ["mid"]]
    first = page.locator("#view-matrix .rows li").first
    assert "B − A −0.800" in first.inner_text()
    assert [cell.split("\n")[0] for cell in first.locator(".cell").all_inner_texts()] == ["0.900", "0.100", "0.500"]
    assert first.locator(".cell-reason").all_inner_texts() == [f"It is {name} of 0." for name in ("old", "new", "mid")]
    assert page.locator("#view-matrix .found").inner_text() == "4 prompts: B won 1, lost 1"
    assert first.locator("img").evaluate_all("all => all.every(one => one.naturalWidth > 0)")


def test_it_is_sorted_and_filtered_by_what_was_lost_has_failed_or_has_a_theme(
    show: Callable[..., Any], report: Path
) -> None:
    page = show(report, "#matrix?m=tit")
    form = page.locator("#view-matrix .filters")

    def chosen(expected: list[str], **fields: str) -> None:
        for name, value in fields.items():
            form.locator(f"[name={name}]").select_option(value)
        until(page, f"document.querySelectorAll('#view-matrix .rows li').length === {len(expected)}")
        assert prompts(page) == expected

    chosen(["Scene 0"], s="lost")
    chosen(["Scene 1"], s="won")
    chosen(["Scene 3"], s="failed")
    chosen(["Scene 0", "Scene 1"], s="", c="theme=sea", o="data")
    chosen(["Scene 1", "Scene 2", "Scene 0", "Scene 3"], c="", o="won")
    chosen(["Scene 3", "Scene 0", "Scene 1", "Scene 2"], o="failed")
    chosen(["Scene 0", "Scene 1", "Scene 3", "Scene 2"], o="odd", m="tit")
    form.locator("[name=q]").fill("scene 2")
    until(page, "document.querySelectorAll('#view-matrix .rows li').length === 1")
    assert prompts(page) == ["Scene 2"]


def test_large_images_are_stepped_through_and_zoomed_together(show: Callable[..., Any], report: Path) -> None:
    page = show(report, "#matrix?m=tit")
    page.locator("#view-matrix .rows li").first.get_by_role("button").nth(1).click()
    dialog = page.locator("#closeup")
    assert dialog.locator(".closeup-where").inner_text() == "1 of 4"
    assert "It is new of 0." in dialog.inner_text()
    page.keyboard.press("ArrowRight")
    assert "It is mid of 0." in dialog.inner_text()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("j")
    assert dialog.locator(".closeup-where").inner_text() == "2 of 4"
    moves = "[...document.querySelectorAll('.pane img')].map(one => one.style.transform)"
    page.keyboard.press("+")
    page.keyboard.press("+")
    pane = dialog.locator(".pane").first.bounding_box()
    page.mouse.move(pane["x"] + 100, pane["y"] + 100)
    page.mouse.down()
    page.mouse.move(pane["x"] + 130, pane["y"] + 110)
    page.mouse.up()
    first, second = page.evaluate(moves)
    assert first == second == "translate(30px, 10px) scale(1.5625)"
    page.keyboard.press("0")
    assert page.evaluate(moves) == ["translate(0px, 0px) scale(1)"] * 2
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    until(page, "!location.hash.includes('i=')")


def test_marks_are_kept_and_their_export_is_a_votes_file_that_compare_reads(
    show: Callable[..., Any], report: Path, tmp_path: Path
) -> None:
    page = show(report, "#matrix?m=tit&i=0")
    dialog = page.locator("#closeup")
    assert "The judge prefers A." in dialog.inner_text()
    page.keyboard.press("w")
    assert dialog.locator("[data-act=b]").get_attribute("aria-pressed") == "true"
    dialog.locator("[name=word]").fill("the boat <b>is</b> there")
    page.locator("body").press("Escape")
    until(page, "!/[?&]i=/.test(location.hash)")  # the address follows once the dialog says that it is closed
    page.evaluate("location.hash = '#matrix?m=tit&i=1'")
    until(page, "document.querySelector('#closeup .closeup-prompt').textContent.includes('Scene 1')")
    page.keyboard.press("i")
    page.reload()
    page.wait_for_selector("html[data-ready]")
    page.keyboard.press("Escape")
    until(page, "!/[?&]i=/.test(location.hash)")
    assert "judge is wrong the boat <b>is</b> there" in page.locator("#view-matrix .rows li").first.inner_text()
    page.locator("#view-matrix .filters [name=s]").select_option("wrong")
    until(page, "document.querySelectorAll('#view-matrix .rows li').length === 1")
    page.locator("[name=annotator]").fill("maya")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export 1 vote").click()
    votes = tmp_path / "votes.jsonl"
    download.value.save_as(votes)
    (vote,) = read_votes(votes)
    assert (vote.prompt_id, vote.a, vote.b, vote.annotator, vote.choice) == (
        "p0",
        "old/0.png",
        "new/0.png",
        "maya",
        "b",
    )
    assert orjson.loads(votes.read_bytes())["word"] == "the boat <b>is</b> there"
    run = str(report.parent / "run")
    cli(tmp_path, "label", "convert", "votes.jsonl", "--votes", "1", "--out", "pairs.jsonl")
    for file in ("votes.jsonl", "pairs.jsonl"):
        agreement = cli(
            tmp_path, "judges", "agreement", run, "--pairs", file, "--single-votes", "votes.jsonl", "--json", "out.json"
        )
        found = orjson.loads((tmp_path / "out.json").read_bytes())
        assert (found["metrics"]["tit"]["accuracy"], found["metrics"]["tit"]["pairs"]) == (0.0, 1), agreement


@pytest.mark.parametrize("width", [1440, 768, 390])
def test_nothing_is_wider_than_the_window_and_axe_finds_no_serious_fault(
    show: Callable[..., Any], report: Path, width: int
) -> None:
    page = show(report, "#matrix", width=width, height=800)
    for place in ("#matrix", "#matrix?i=0"):
        page.evaluate(f"location.hash = '{place}'")
        until(page, f"document.querySelector('#closeup').open === {str('i=' in place).lower()}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("document.querySelector('#closeup').scrollWidth") <= width
        page.evaluate((VENDOR / "axe.min.js").read_text(encoding="utf-8"))
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
