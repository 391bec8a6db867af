"""The report in a real browser: it opens, filters, sorts and moves; nothing hostile runs; axe finds no serious fault."""

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from page_layout import serious_faults
from PIL import Image
from report_runs import PROMPT, key_of, picture, score, small_results, small_run, write_run

from titjudge.core.types import InvalidItem, Item, Status
from titjudge.report import write_report
from titjudge.runs.folder.run_folder import RunFolder

VENDOR = Path(__file__).resolve().parent.parent / "vendor"
HOSTILE = (
    "</script><script>window.hacked=1</script>",
    '"><img src=x onerror="window.hacked=1">',
    "<svg onload=window.hacked=1></svg>",
    "javascript:window.hacked=1",
    "{{constructor.constructor('window.hacked=1')()}} ${window.hacked=1}",
    "\u202eright to left\u2066 marks",
    "W" * 100_000,
)


@pytest.fixture
def show(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a report at a place; complaints of the page's console fail the test."""
    contexts, complaints = [], []

    def opened(path: Path, place: str = "", *, width: int = 1300, height: int = 800, dark: bool = False) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on(
            "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda request: (
                None if request.url.startswith(("file:", "data:", "blob:")) else complaints.append(request.url)
            ),
        )
        page.goto(path.as_uri() + place)
        page.wait_for_selector("html[data-ready]")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    return write_report([small_run(folder / "run", status="incomplete: budget")], folder / "report.html")


def until(page: Any, expression: str) -> None:
    """Wait until an expression is true; by asking again, since the page's policy forbids evaluating strings inside it."""
    for _ in range(3000):
        if page.evaluate(f"Boolean({expression})"):
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"never became true: {expression}")


def visit(page: Any, place: str) -> None:
    page.evaluate(f"location.hash = '#{place}'")
    until(page, f"document.body.dataset.view === '{place.partition('?')[0]}'")
    page.wait_for_timeout(20)


def rows(page: Any) -> int:
    return int(page.locator(".view:not([hidden]) .rows li").count())


def test_headline_tables_and_charts(show: Callable[..., Any], report: Path) -> None:
    page = show(report)
    assert page.locator(".lead").inner_text() == "So far: No clear winner between model_a and model_b."
    assert "incomplete: budget" in page.locator("#view-overview").inner_text()
    assert page.locator("#view-overview table").count() == 5
    page.locator("nav >> text=People").click()
    page.locator(".chart svg").first.wait_for(state="visible")
    fill = page.locator(".chart .f-c0").first.evaluate("e => getComputedStyle(e).fill")
    assert fill == "rgb(28, 90, 125)"
    page.locator(".chart summary").first.click()
    page.locator(".chart table").first.wait_for(state="visible")


def test_tables_sort_by_their_headings(show: Callable[..., Any], report: Path) -> None:
    page = show(report)
    page.locator("summary", has_text="Leaderboard").click()
    table = page.locator("details.block", has_text="Leaderboard").locator("table")
    first = table.locator("tbody tr:first-child th")
    heading = table.get_by_role("button", name="tit: mean", exact=True)
    heading.click()
    assert first.inner_text() == "model_a"
    heading.click()
    assert first.inner_text() == "model_b"
    assert table.locator("th[aria-sort=ascending]").count() == 1


def test_images_are_filtered_searched_and_sorted(show: Callable[..., Any], report: Path) -> None:
    page = show(report, "#images")
    assert rows(page) == 5
    form = page.locator("#view-images .filters")
    form.locator("[name=g]").select_option("model_b")
    until(page, "document.querySelectorAll('#view-images .rows li').length === 2")
    form.locator("[name=s]").select_option("refused")
    until(page, "document.querySelectorAll('#view-images .rows li').length === 1")
    assert "refused" in page.locator("#view-images .detail").inner_text()
    form.locator("[name=g]").select_option("")
    form.locator("[name=s]").select_option("")
    form.locator("[name=m]").select_option(label="tit")
    form.locator("[name=o]").select_option("low")
    until(page, "location.hash.includes('o=low')")
    assert "0.600" in page.locator("#view-images .rows li:first-child").inner_text()
    form.locator("[name=q]").fill("number 2 kind")
    until(page, "document.querySelectorAll('#view-images .rows li').length === 0")
    assert "Nothing matches" in page.locator("#view-images .detail").inner_text()
    form.locator("[name=q]").fill("NUMBER 2")
    until(page, "document.querySelectorAll('#view-images .rows li').length === 2")
    assert page.locator("#view-images .found").inner_text() == "2 of 5 images"


def test_an_image_shows_prompt_description_and_judgement(show: Callable[..., Any], report: Path) -> None:
    page = show(report, "#images?i=0")
    detail = page.locator("#view-images .detail")
    assert detail.locator("img").evaluate("e => e.complete && e.naturalWidth > 0")
    marked = detail.locator("mark.contradicted").all_inner_texts()
    assert "three glossy red apples" in "".join(marked)
    assert any("white mug" in text for text in detail.locator("mark.missing").all_inner_texts())
    assert "tit read up to about here: 50 of 60 tokens" in detail.locator(".the-prompt .cut").inner_text()
    assert "20 of 30 tokens" in detail.locator(".the-description .cut").inner_text()
    assert "two oranges" in detail.locator(".the-description").inner_text()
    assert "The apples are green." in detail.locator(".the-scores").inner_text()
    detail.locator(".receipts summary").first.click()
    receipt = detail.locator(".receipt").first
    assert key_of("r0") in receipt.inner_text()
    receipt.get_by_text("Rendered prompt").click()
    assert "Compare with:" in receipt.locator(".turn pre").inner_text()


def test_an_item_that_cannot_be_used_says_why(show: Callable[..., Any], report: Path) -> None:
    page = show(report, "#images?i=4")
    assert "leads outside the data folder" in page.locator("#view-images .detail .noimage").inner_text()


def test_pairs_put_the_worst_disagreement_first(show: Callable[..., Any], report: Path) -> None:
    page = show(report, "#pairs?m=1")
    assert "disagrees" in page.locator("#view-pairs .rows li:first-child").inner_text()
    detail = page.locator("#view-pairs .detail")
    assert "People prefer B" in detail.inner_text()
    assert detail.locator(".duel img").count() == 2
    table = detail.locator("table").inner_text()
    assert "0.900" in table
    assert "0.800" in table
    page.locator("#view-pairs .filters").locator("[name=s]").select_option("agree")
    until(page, "document.querySelectorAll('#view-pairs .rows li').length === 1")
    assert "People prefer A" in detail.inner_text()


def test_the_prompts_that_show_the_verdict_have_both_images_which_lead_to_their_pages(
    show: Callable[..., Any], report: Path
) -> None:
    page = show(report)
    page.locator(".duels figure img").first.wait_for(state="visible")
    assert page.locator(".duels figure").count() == page.locator(".duels figure :is(img, .noimage)").count() >= 2
    page.locator(".duels figure a").first.click()
    until(page, "document.body.dataset.view === 'images'")
    assert page.locator("#view-images .detail img").count() == 1


def test_numbers_lead_to_their_images(show: Callable[..., Any], report: Path) -> None:
    page = show(report, "#failures")
    page.get_by_role("link", name="model_b").click()
    page.locator("#view-images").wait_for(state="visible")
    assert rows(page) == 1


def test_the_keyboard_is_enough(show: Callable[..., Any], report: Path) -> None:
    page = show(report)
    page.keyboard.press("4")
    where = page.locator("#view-images .where")
    page.wait_for_selector("#view-images:not([hidden])")
    page.keyboard.press("j")
    until(page, "document.querySelector('#view-images .where').textContent === '2 of 5'")
    page.keyboard.press("j")
    page.keyboard.press("k")
    until(page, "document.querySelector('#view-images .where').textContent === '2 of 5'")
    page.keyboard.press("/")
    until(page, "document.activeElement.name === 'q'")
    page.keyboard.type("jkt?")
    page.keyboard.press("Escape")
    assert page.locator("#help").is_hidden()
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("#help").is_hidden()
    assert where.count() <= 1


def test_light_dark_and_back(show: Callable[..., Any], report: Path) -> None:
    page = show(report, dark=True)
    back = "getComputedStyle(document.documentElement).backgroundColor"
    assert page.evaluate(back) == "rgb(23, 24, 26)"
    page.get_by_role("button", name=re.compile("Theme")).click()
    assert page.evaluate(back) == "rgb(251, 250, 248)"
    page.keyboard.press("t")
    assert page.locator("#theme").inner_text() == "Theme: dark"
    assert page.evaluate(back) == "rgb(23, 24, 26)"


def test_on_a_phone_the_list_gives_way_to_the_image(show: Callable[..., Any], report: Path) -> None:
    page = show(report, "#images", width=390, height=800)
    assert page.locator("#view-images .detail").is_hidden()
    page.locator("#view-images .rows a").nth(1).click()
    page.locator("#view-images .detail").wait_for(state="visible")
    page.get_by_role("link", name="List").click()
    page.locator("#view-images .side").wait_for(state="visible")
    for place in ("overview", "people", "images?i=0", "pairs?i=0", "failures", "provenance"):
        visit(page, place)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, place


def compared(tmp_path: Path) -> Path:
    """A report of three generators on 18 prompts of three types."""
    names = (HOSTILE[0], "plain", "right \u202e to left")
    items = [
        Item(f"{k}/{p}", f"{PROMPT} {p}", picture(tmp_path / f"{k}.png"), name, f"p{p}", {"type": ("sea", "land", "<i>sky")[p % 3]})
        for p in range(18)
        for k, name in enumerate(names)
    ]  # fmt: skip
    scores = [
        score(item, "tit", 0.3 * int(item.id[0]) + (len(item.id) + int(item.prompt_id[1:]) % 4) / 50) for item in items
    ]
    return write_report([write_run(tmp_path / "run", items, scores)], tmp_path / "report.html")


def test_generators_have_a_section_of_their_own(show: Callable[..., Any], tmp_path: Path) -> None:
    page = show(compared(tmp_path), "#generators", width=390, height=800)
    view = page.locator("#view-generators")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert view.locator(".chart h2").all_inner_texts()[:2] == ["Generators by type", "Profiles by type"]
    assert view.locator(".chart svg").first.locator("text", has_text=HOSTILE[0][:8]).count() == 1
    view.locator("details.folded", has_text="By type").locator("summary").click()
    assert view.locator("details.folded", has_text="By type").locator("tbody tr").count() == 9
    assert page.evaluate("window.hacked === undefined")


@pytest.mark.slow
def test_hostile_text_is_shown_and_never_runs(show: Callable[..., Any], tmp_path: Path) -> None:
    items: list[Item | InvalidItem] = []
    scores = []
    for text in HOSTILE:
        path = picture(tmp_path / "img" / f"{len(items)}<b onclick=window.hacked=1>.png")
        item = Item(f"{len(items)} {text}", f"{text} {PROMPT}", path, text, text, {"category": text[:40]})
        items.append(item)
        scores.append(
            score(
                item,
                "tit",
                0.01 * len(items),
                reason=text,
                description=text,
                missing=[text],
                contradicted=[text],
                odd=text,
            )
        )
        scores.append(score(item, "tit-llm", None, Status.REFUSED, reason=text))
        items.append(InvalidItem(f"bad {text}", text, text, text))
    names = [item.id for item in items[::2]]
    results = {
        "metrics": {"tit": {"accuracy": 0.5}},
        "pairs": [{"prompt_id": "", "a": a, "b": b, "preference": "b"} for a, b in itertools.pairwise(names)],
        "leaderboard": [
            {"generator": text, "metrics": {"tit": {"mean": 0.1, "interval": [0, 1]}}, "human": None}
            for text in HOSTILE
        ],
        "warnings": list(HOSTILE),
        "notes": list(HOSTILE),
        "tables": [{"title": text, "columns": [text], "rows": [[text]], "notes": [text]} for text in HOSTILE],
    }
    run = write_run(tmp_path / "run", items, scores, results=results, status=HOSTILE[0], deviations=list(HOSTILE))
    page = show(write_report([run], tmp_path / "report.html"))
    for place in (
        "overview",
        "people",
        "failures",
        "provenance",
        *(f"images?i={n}" for n in range(len(items))),
        "pairs?i=0",
        "pairs?i=3",
    ):
        visit(page, place)
        page.keyboard.press("r")
        assert page.evaluate("window.hacked") is None
        assert page.evaluate("[...document.querySelectorAll('a')].every(a => a.getAttribute('href').startsWith('#'))")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
    visit(page, "images?i=0")
    until(page, "document.querySelector('#view-images .detail h2')?.textContent.startsWith('0 ')")
    assert page.locator("#view-images .detail h2").inner_text() == f"0 {HOSTILE[0]}"
    assert HOSTILE[0] in page.locator("#view-images .the-prompt").inner_text()


def test_the_policy_stops_markup_and_inline_handlers(browser: Any, report: Path) -> None:
    page = browser.new_page()
    page.goto(report.as_uri())
    page.wait_for_selector("html[data-ready]")
    tries = {
        "markup": "document.body.innerHTML += '<b>x</b>'",
        "handler": "document.body.setAttribute('onclick', 'window.hacked = 1')",
        "script": "document.body.append(Object.assign(document.createElement('script'), {text: 'window.hacked = 1'}))",
    }
    for what, code in tries.items():
        page.evaluate(f"() => {{ try {{ {code}; document.body.click(); }} catch (error) {{ return error.name; }} }}")
        assert page.evaluate("window.hacked") is None, what
    assert page.locator("body > b").count() == 0
    page.close()


@pytest.mark.slow
def test_thousands_of_pairs_keep_a_short_page(show: Callable[..., Any], tmp_path: Path) -> None:
    items = [
        Item(f"{n}.png", f"{PROMPT} {n // 8}", None, f"m{n % 8}", f"p{n // 8}", {"description": "x"})
        for n in range(800)
    ]
    scores = [score(item, "tit", (n * 37 % 101) / 101) for n, item in enumerate(items)]
    pairs = [
        {"prompt_id": items[a].prompt_id, "a": items[a].id, "b": items[b].id, "preference": "a"}
        for start in range(0, 800, 8) for a in range(start, start + 8) for b in range(a + 1, start + 8)
    ]  # fmt: skip
    run = write_run(tmp_path / "run", items, scores, results={"pairs": pairs})
    page = show(write_report([run], tmp_path / "report.html"), "#pairs")
    assert page.locator("#view-pairs .found").inner_text() == "2,800 pairs"
    assert rows(page) < 40
    page.evaluate("document.querySelector('#view-pairs .scroller').scrollTop = 1e9")
    until(page, "document.querySelector('#view-pairs .rows li:last-child').getAttribute('aria-posinset') === '2800'")
    assert rows(page) < 40


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_no_serious_fault(browser: Any, report: Path, tmp_path: Path, dark: bool) -> None:
    axe = (VENDOR / "axe.min.js").read_text(encoding="utf-8")
    context = browser.new_context(
        viewport={"width": 1300, "height": 800}, color_scheme="dark" if dark else "light", bypass_csp=True
    )
    page = context.new_page()
    found = []
    places = ("overview", "people", "images?i=0", "pairs?i=0", "failures", "provenance")
    for file, place in [*((report, place) for place in places), (compared(tmp_path), "generators")]:
        if page.url.partition("#")[0] != file.as_uri():
            page.goto(file.as_uri())
            page.wait_for_selector("html[data-ready]")
            page.evaluate(axe)
        visit(page, place)
        found += serious_faults(page, place)
    context.close()
    assert found == []


@pytest.mark.slow
def test_pictures_of_two_checkpoints_stand_with_their_own_words(tmp_path: Path, show: Callable[..., Any]) -> None:
    runs = []
    for name, colour in (("ck1", (200, 40, 40)), ("ck2", (40, 40, 200))):
        items = [Item(f"{n}.png", f"{PROMPT} {n}", picture(tmp_path / name / f"{n}.png", colour), "", f"p{n}")
                 for n in range(2)]  # fmt: skip
        runs.append(write_run(tmp_path / "runs" / name, items, [
            score(item, "tit", 0.5, description=f"described in {name}") for item in items]))  # fmt: skip
    page = show(write_report(runs, tmp_path / "both.html"), "#images")
    assert page.inner_text("[data-of=images]") == "4"
    colour_of = """() => { const shown = document.querySelector('.the-image img'); const canvas = document.createElement('canvas');
        const pen = canvas.getContext('2d'); pen.drawImage(shown, 0, 0); return [...pen.getImageData(5, 5, 1, 1).data]; }"""
    for at in range(4):
        name = "ck1" if at < 2 else "ck2"
        red, _, blue, _ = page.evaluate(colour_of)
        assert (red > blue) == (name == "ck1")
        assert f"described in {name}" in page.inner_text(".detail")
        assert f"judged in {name}" in page.inner_text(".detail-head")
        assert page.locator(".row[aria-current] .row-scores .one").count() == 2  # tit and tit-llm of its own run
        page.keyboard.press("j")
        until(page, f"document.querySelector('.where').textContent.startsWith('{min(at + 2, 4)} of')")


def test_a_click_opens_the_picture_in_full_size_and_escape_closes_it(tmp_path: Path, show: Callable[..., Any]) -> None:
    item = Item("deep/large.png", PROMPT, picture(tmp_path / "large.png", size=(1600, 900)), "g", "p")
    page = show(
        write_report([write_run(tmp_path / "run", [item], [score(item, "tit", 0.5)])], tmp_path / "r.html"), "#images"
    )
    assert page.locator(".rows small").first.inner_text() == "g · p · large.png"
    page.click(".the-image .zoom")
    until(page, "document.querySelector('#picture .size').textContent === '1024 × 576 pixels'")
    assert page.inner_text("#picture .name") == "deep/large.png · g"
    box = page.locator("#picture img").bounding_box()
    assert box["width"] > 1000
    page.keyboard.press("j")  # the page behind does not move
    page.keyboard.press("Escape")
    assert not page.locator("#picture").is_visible()
    page.focus(".the-image .zoom")
    page.keyboard.press("Enter")
    assert page.locator("#picture img").is_visible()


def test_all_generators_of_a_prompt_stand_side_by_side(report: Path, show: Callable[..., Any]) -> None:
    page = show(report, "#prompts")
    assert page.inner_text("[data-of=prompts]") == "2"
    figures = page.locator("#view-prompts .grid figure")
    assert figures.count() == 2
    assert [figures.nth(n).locator("strong").inner_text() for n in range(2)] == ["model_a", "model_b"]
    assert figures.nth(0).locator("dd").all_inner_texts() == ["80.0", "0.900"]
    assert figures.nth(0).locator(".note").inner_text() == "The apples are green."
    assert figures.nth(0).locator(".best").count() == 2
    assert figures.nth(1).locator(".best").count() == 0
    page.keyboard.press("ArrowDown")
    until(page, "document.querySelector('#view-prompts .where').textContent === '2 of 2'")
    assert "Number 2." in page.inner_text("#view-prompts .short")
    figures.nth(0).locator("strong a").click()
    page.wait_for_selector("#view-images:not([hidden])")
    assert page.inner_text("#view-images .detail h2") == "a2.png"


def test_tabs_fade_where_there_are_more_of_them(report: Path, show: Callable[..., Any]) -> None:
    page = show(report)
    tabs = page.locator(".top nav")

    def faded() -> list[str]:
        return sorted(name for name in (tabs.get_attribute("class") or "").split() if name.startswith("more"))

    page.set_viewport_size({"width": 1440, "height": 900})
    page.wait_for_timeout(100)
    assert faded() == []
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(100)
    assert faded() == ["more-right"]
    for view, sides in (("pairs", ["more-left", "more-right"]), ("provenance", ["more-left"])):
        page.evaluate("view => { location.hash = view; }", view)
        page.wait_for_timeout(200)
        assert faded() == sides, view
        current = tabs.locator("[aria-current]").bounding_box()
        assert current["x"] >= 0
        assert current["x"] + current["width"] <= 390


def test_arrows_go_through_the_list_and_scroll_where_one_reads(report: Path, show: Callable[..., Any]) -> None:
    page = show(report, "#images?i=0")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#view-images .where").startswith("2 of")
    page.keyboard.press("ArrowUp")
    assert page.inner_text("#view-images .where").startswith("1 of")
    page.focus("#view-images select[name=o]")
    page.keyboard.press("ArrowDown")
    assert page.inner_text("#view-images .where").startswith("1 of")


def test_the_active_section_is_in_sight_on_a_phone(report: Path, show: Callable[..., Any]) -> None:
    page = show(report, "#provenance", width=390, height=800)
    box = page.locator("nav a[aria-current]").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390


def test_numbers_with_and_without_an_interval_stand_below_each_other(tmp_path: Path, show: Callable[..., Any]) -> None:
    results = small_results()
    results["leaderboard"][1]["metrics"]["tit"]["interval"] = None
    run = small_run(tmp_path / "run")
    (run.path / "results.json").write_bytes(orjson.dumps(results))
    page = show(write_report([run], tmp_path / "r.html"))
    page.locator("summary", has_text="Leaderboard").click()
    cells = page.locator("#view-overview details.block", has_text="Leaderboard").locator(
        "tbody tr td.num a[href*='m=1']"
    )
    boxes = [cells.nth(n).bounding_box() for n in range(2)]
    assert boxes[0]["x"] + boxes[0]["width"] == pytest.approx(boxes[1]["x"] + boxes[1]["width"], abs=1)


def _of_edits(folder: Path) -> Path:
    """A run over one edit by two generators: one has painted the right half blue, the other has changed nothing."""
    source = picture(folder / "source.png", (200, 40, 40), (64, 48))
    items, scores = [], []
    for generator in ("done", "not"):
        result = picture(folder / generator / "0.png", (200, 40, 40), (64, 48))
        if generator == "done":
            with Image.open(result) as image:
                image.paste((20, 20, 220), (32, 0, 64, 48))
                image.save(result)
        item = Item(f"{generator}/0.png", "make the right half blue", result, generator, "0", sources=(source,))
        items.append(item)
        scores.append(score(item, "tit", 0.5))
    write_run(folder / "run", items, scores, results=small_results())
    return write_report([RunFolder(folder / "run")], folder / "report.html")


def _changed(page: Any, stack: str) -> float:
    """Which share of a map of changes has a colour."""
    script = """stack => { const map = document.querySelector(stack + " canvas");
        const pixels = map.getContext("2d").getImageData(0, 0, map.width, map.height).data;
        return [...pixels].filter((value, at) => at % 4 === 3 && value > 0).length / (map.width * map.height); }"""
    return float(page.evaluate(script, stack))


@pytest.mark.parametrize("width", [1440, 390])
def test_an_edit_is_seen_with_its_source_up_to_a_slider_and_with_a_map_of_its_changes(
    tmp_path: Path, show: Callable[..., Any], width: int
) -> None:
    page = show(_of_edits(tmp_path), "#images?i=0", width=width)
    slider = page.locator(".the-image input[type=range]")
    clip = "() => getComputedStyle(document.querySelector('.the-image .source')).clipPath"
    assert "50%" in page.evaluate(clip)
    slider.fill("20")
    assert "80%" in page.evaluate(clip)
    page.get_by_label("Changes").check()
    page.wait_for_selector(".the-image canvas[width='64']")
    assert 0.45 < _changed(page, ".the-image") < 0.55
    page.goto(page.url.replace("i=0", "i=1"))
    page.wait_for_selector(".the-image canvas[width='64']")
    assert _changed(page, ".the-image") == 0
    assert page.locator(".the-image input[type=range]").input_value() == "20"
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_the_matrix_has_the_source_beside_the_prompt_and_one_slider_for_two_results_in_large(
    tmp_path: Path, show: Callable[..., Any]
) -> None:
    page = show(_of_edits(tmp_path), "#matrix?i=0")
    assert page.locator(".matrix-row .row-source").count() == 1
    page.locator("#closeup input[type=range]").fill("100")
    shown = "() => [...document.querySelectorAll('#closeup .source')].map((one) => getComputedStyle(one).clipPath)"
    assert len(page.evaluate(shown)) == 2
    assert len(set(page.evaluate(shown))) == 1


@pytest.mark.parametrize("width", [1440, 390])
def test_names_with_hyphens_are_not_broken(show: Any, tmp_path: Path, width: int) -> None:
    names = ("stable-diffusion-3.5-large-turbo", "gpt-image-2-high-quality")
    items = [
        Item(f"{g}{n}", f"{PROMPT} {n}", picture(tmp_path / f"{g}{n}.png"), g, f"{n}") for g in names for n in range(8)
    ]
    scores = [score(item, "tit", 0.1 * (place % 7)) for place, item in enumerate(items)]
    page = show(write_report([write_run(tmp_path / "run", items, scores)], tmp_path / "report.html"), width=width)
    lines = "nodes => nodes.filter(n => n.checkVisibility()).map(n => [n.textContent, n.getClientRects().length, n.offsetHeight])"
    found = page.eval_on_selector_all(".lead .whole, .ranking .whole, .block .whole", lines)
    assert {text.rstrip(".") for text, _, _ in found} >= set(names)
    assert [text for text, boxes, height in found if boxes > 1 or height > 45] == []


@pytest.mark.parametrize("width", [1440, 390])
def test_the_columns_of_the_matrix_show_whole_names(show: Any, tmp_path: Path, width: int) -> None:
    names = ("stable-diffusion-3.5-large-turbo", "recraft-v3-svg-very-long-name")
    items = [Item(g, PROMPT, picture(tmp_path / f"{g}.png"), g, "0") for g in names]
    run = write_run(tmp_path / "run", items, [score(item, "tit", 0.5) for item in items])
    page = show(write_report([run], tmp_path / "report.html"), "#matrix", width=width)
    sizes = "nodes => nodes.map(n => [n.textContent, n.scrollWidth - n.clientWidth])"
    assert sorted(page.eval_on_selector_all(".columns bdi", sizes)) == [[name, 0] for name in sorted(names)]
