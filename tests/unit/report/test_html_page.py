"""The HTML file: self-contained, under its limit, and safe whatever it is given."""

import base64
import gzip
import hashlib
import io
import json
import re
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from report_runs import PROMPT, agent_run, judged, picture, score, small_results, small_run, write_run

from titjudge.core.types import InvalidItem, Item
from titjudge.report import write_report
from titjudge.report.contents import contents
from titjudge.report.drawing import COLOURS, PAGE, Chart, plain_svg
from titjudge.report.html import render, script_safe
from titjudge.report.model import Report, about, load
from titjudge.report.people import people
from titjudge.report.thumbnails import LADDER, thumbnail, thumbnails

HOSTILE = (
    "</script><script>window.hacked=1</script>",
    '"><img src=x onerror="window.hacked=1">',
    "<svg onload=window.hacked=1>",
    "javascript:window.hacked=1",
    "{{ 7 * 7 }} {% raw %} ${window.hacked=1} {# x #}",
    "<!--<script>",
    "]]></style><style>*{display:none}",
    "\u202eright to left\u2066 marks\u2069 \u2028 \u2029 line ends",
    "$\\frac{1}{0}$ \\textbf{x} 100% & _y_",
    "nul \x00 and bell \x07",
)


class Page(HTMLParser):
    """Elements with their attributes, and the text of script and style elements."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, str] = {}
        self._key = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._key = f"{tag}#{dict(attrs).get('id') or ''}" if tag in ("script", "style") else ""

    def handle_endtag(self, tag: str) -> None:
        self._key = ""

    def handle_data(self, data: str) -> None:
        if self._key:
            self.raw[self._key] = self.raw.get(self._key, "") + data


def page_of(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def data_of(page: Page) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(page.raw["script#data"])
    return json.loads(gzip.decompress(base64.b64decode(data["packed"]))) if "packed" in data else data


def hostile_run(folder: Path) -> Any:
    items: list[Item | InvalidItem] = []
    scores = []
    for number, text in enumerate(HOSTILE):
        path = picture(folder / "img" / f"{number} <b onclick=alert(1)>.png")
        item = Item(f"{number} {text}", f"{text} {PROMPT}", path, text, text, {"category": text})
        items.append(item)
        scores.append(
            score(
                item,
                "tit",
                0.1 * number,
                reason=text,
                description=text,
                missing=[text],
                contradicted=[text, "bowl"],
                odd={text: text},
            )
        )
        items.append(InvalidItem(f"bad {text}", text, text, text))
    pairs = [
        {"prompt_id": "", "a": items[at].id, "b": items[at + 2].id, "preference": "a"}
        for at in range(0, len(items) - 2, 2)
    ]
    board = [
        {"generator": text, "metrics": {"tit": {"mean": 0.5, "interval": [0.4, 0.6], "rank": 1}}, "human": None}
        for text in HOSTILE
    ]
    results = {"pairs": pairs, "leaderboard": board, "warnings": list(HOSTILE), "notes": list(HOSTILE),
               "metrics": {"tit": {"accuracy": 0.5}},
               "tables": [{"title": text, "columns": [text], "rows": [[text]], "notes": [text]} for text in HOSTILE]}  # fmt: skip
    return write_run(folder, items, scores, results=results, status=HOSTILE[0], deviations=list(HOSTILE),
                     metrics={"tit": {"range": [-1, 1]}, HOSTILE[1]: {}}, identity={HOSTILE[0]: HOSTILE[1]})  # fmt: skip


def test_one_file_without_network_or_inline_handler(tmp_path: Path) -> None:
    page = page_of(write_report([small_run(tmp_path / "run")], tmp_path / "out" / "report.html"))
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], tag
        assert "src" not in attributes
        target = attributes.get("href") or ""
        assert target.startswith(("#", "data:")) or not target, target
    policy = next(
        a["content"] for t, a in page.elements if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    )
    assert "default-src 'none'" in str(policy)
    assert "unsafe" not in str(policy)


def test_the_policy_allows_exactly_the_script_and_style_of_the_page(tmp_path: Path) -> None:
    page = page_of(write_report([small_run(tmp_path / "run")], tmp_path / "report.html"))
    policy = next(str(a["content"]) for t, a in page.elements if t == "meta" and "http-equiv" in a)
    for key in ("script#", "style#"):
        digest = base64.b64encode(hashlib.sha256(page.raw[key].encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_nothing_hostile_becomes_markup(tmp_path: Path) -> None:
    path = write_report([hostile_run(tmp_path / "hostile")], tmp_path / "hostile.html")
    kind = page_of(write_report([small_run(tmp_path / "run", status="incomplete: budget")], tmp_path / "plain.html"))
    page = page_of(path)
    once = (
        "html",
        "head",
        "body",
        "meta",
        "script",
        "style",
        "img",
        "iframe",
        "dialog",
        "form",
        "link",
        "object",
        "base",
    )

    def counted(one: Page) -> dict[str, int]:
        return {tag: sum(t == tag for t, _ in one.elements) for tag in once}

    assert counted(page) == counted(kind)
    assert {tag for tag, _ in page.elements} <= {tag for tag, _ in kind.elements} | {"details", "summary"}
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], tag
        assert str(attributes.get("href") or "#").startswith(("#", "data:"))
    told = data_of(page)
    assert told["items"][0]["id"] == f"0 {HOSTILE[0]}"
    assert told["items"][0]["s"][0]["mi"] == [HOSTILE[0]]
    assert f'<span dir="auto">{HOSTILE[4]}</span>' in path.read_text(encoding="utf-8").replace("&#39;", "'")


def test_a_page_names_no_folder_and_no_server_of_its_maker(tmp_path: Path) -> None:
    server = "http://gpu-17:8000/v1"
    item = Item("a.png", PROMPT, picture(tmp_path / "img" / "a.png"), "one", "p1")
    bad = InvalidItem("b.png", f"{tmp_path}/img/b.png: no such image file", "one", "p1")
    reason = f"cannot connect to {server}/chat; see {tmp_path}/img/a&b.log"
    run = write_run(tmp_path / "run", [item, bad], [score(item, "tit", 0.5, reason=reason)], results={"warnings": [reason]},
                    identity={"suite": "folder", "judge": {"model": "m", "base_url": server}})  # fmt: skip
    page = page_of(write_report([run], tmp_path / "r.html"))
    whole = (tmp_path / "r.html").read_text(encoding="utf-8") + json.dumps(data_of(page))
    assert "own-server" in whole
    assert "gpu-17" not in whole
    assert str(tmp_path) not in whole


@given(st.text())
def test_json_in_a_script_element_survives_and_cannot_leave_it(text: str) -> None:
    safe = script_safe(json.dumps(text, ensure_ascii=False))
    assert json.loads(safe) == text
    assert not re.search("[<>&\u2028\u2029]", safe)


def test_large_data_is_packed_and_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = small_run(tmp_path / "run")
    loose = data_of(page_of(write_report([run], tmp_path / "loose.html")))
    monkeypatch.setattr("titjudge.report.html._PACK_ABOVE", 10)
    page = page_of(write_report([run], tmp_path / "packed.html"))
    assert list(json.loads(page.raw["script#data"])) == ["packed"]
    assert data_of(page) == loose


def test_numbers_that_are_none_stay_readable_json(tmp_path: Path) -> None:
    item = Item("a.png", PROMPT, None)
    run = write_run(
        tmp_path / "run",
        [item],
        [score(item, "tit", 0.5, share=float("nan"))],
        results={"metrics": {"tit": {"accuracy": None}}},
    )
    assert data_of(page_of(write_report([run], tmp_path / "r.html")))["items"][0]["s"][1]["v"] == 0.5


def test_writing_again_gives_the_same_bytes(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    first = write_report([run], tmp_path / "first.html").read_bytes()
    assert write_report([run], tmp_path / "second.html").read_bytes() == first
    assert not list(tmp_path.glob(".*.new"))


# -- images ----------------------------------------------------------------------------------------------------------------


def images_of(page: Page) -> Iterator[bytes]:
    for line in page.raw["script#image-data"].split("\n"):
        yield base64.b64decode(line.removeprefix("!"))


def test_thumbnails_are_webp_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    page = page_of(write_report([small_run(tmp_path / "run")], tmp_path / "r.html"))
    made = list(images_of(page))
    first = data_of(page)["items"][0]["im"]
    with Image.open(io.BytesIO(made[first])) as image:
        assert image.format == "WEBP"
        red, _, blue = image.convert("RGB").getpixel((20, 10))  # type: ignore[misc]
        assert red > blue


def test_an_image_that_cannot_be_shown_says_why(tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"no image at all")
    (tmp_path / "empty.png").write_bytes(b"")
    whole = picture(tmp_path / "whole.png", size=(300, 200)).read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    made = {
        name: thumbnail(judged(tmp_path / name), 64, 60)
        for name in ("broken.png", "empty.png", "cut.png", "gone.png", ".")
    }
    assert made["empty.png"] == "the image file is empty. Replace it, or remove its row"
    assert made["gone.png"] == "no such image file. Correct the path"
    assert made["."].startswith("not a file")
    assert "cannot be decoded" in str(made["broken.png"])
    assert isinstance(made["cut.png"], str)


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "LA", "CMYK", "I;16", "1"])
def test_every_kind_of_image_gets_a_thumbnail(tmp_path: Path, mode: str) -> None:
    path = tmp_path / ("x.tif" if mode == "CMYK" else "x.png")
    Image.new(mode, (90, 60)).save(path)
    made = thumbnail(judged(path), 64, 60)
    assert isinstance(made, bytes), made
    with Image.open(io.BytesIO(made)) as image:
        assert max(image.size) == 64


@pytest.mark.slow
def test_size_and_quality_go_down_until_all_fit(tmp_path: Path) -> None:
    pictures = []
    for number in range(6):
        noise = Image.effect_noise((400, 400), 80)
        noise.save(tmp_path / f"{number}.png")
        pictures.append(judged(tmp_path / f"{number}.png"))
    free = thumbnails(pictures, 10_000_000)
    tight = thumbnails(pictures, 20_000)
    assert sum(map(len, tight)) <= 20_000 < sum(map(len, free))
    with Image.open(io.BytesIO(bytes(free[0]))) as image:  # type: ignore[arg-type]
        assert max(image.size) == 400  # never made larger than it is
    assert sum(map(len, thumbnails(pictures, 0))) < 6 * 4_000  # the last step of the ladder
    (full,) = thumbnails([judged(_large(tmp_path))], 0, full=True)
    with Image.open(io.BytesIO(bytes(full))) as image:  # type: ignore[arg-type]
        assert max(image.size) > LADDER[0][0]


def _large(folder: Path) -> Path:
    return picture(folder / "large.png", size=(2500, 900))


def test_the_page_stays_below_its_limit(tmp_path: Path) -> None:
    items = []
    for number in range(12):
        path = tmp_path / f"{number}.png"
        Image.effect_noise((300, 300), 90).save(path)
        items.append(Item(f"{number}.png", PROMPT, path, "g", "p"))
    report = load([write_run(tmp_path / "run", items, [])])
    limit = len(render(report, limit=0)) + 120_000
    assert len(render(report, limit=limit)) <= limit
    assert len(render(report, full_images=True, limit=limit)) > limit


def charts_of(report: Report) -> list[Chart]:
    """The charts of the section of people."""
    section = people(report)
    assert section is not None
    return section.charts


# -- charts ----------------------------------------------------------------------------------------------------------------


def test_charts_have_no_style_no_id_and_their_numbers(tmp_path: Path) -> None:
    charts = charts_of(load([small_run(tmp_path / "run")]))
    assert [chart.title for chart in charts][-3:] == [
        "Agreement by category",
        "tit against people",
        "tit-llm against people",
    ]
    for chart in charts:
        assert "style=" not in chart.svg
        assert "<style" not in chart.svg
        assert "xlink" not in chart.svg
        assert not re.search(r"#0000[0-9a-f]{2}", chart.svg), "a colour that no class stands for"
        assert chart.numbers.rows
        assert all(len(row) == len(chart.numbers.columns) for row in chart.numbers.rows)


def test_hostile_names_do_not_break_a_chart(tmp_path: Path) -> None:
    for chart in charts_of(load([hostile_run(tmp_path / "run")])):
        assert "<script" not in chart.svg
        assert "onerror" not in re.sub(r">[^<]*<", "><", chart.svg)


def test_scores_beside_people_are_of_the_images_that_people_compared(tmp_path: Path) -> None:
    """People compared two of four prompts: those on which both generators have low scores."""
    items = [Item(f"{g}{p}", PROMPT, None, g, f"p{p}") for p in range(4) for g in "xy"]
    scores = [score(item, "tit", 0.8 if item.prompt_id in ("p0", "p1") else 0.2 + 0.1 * (item.generator == "y"))
              for item in items]  # fmt: skip
    pairs = [{"prompt_id": f"p{p}", "a": f"x{p}", "b": f"y{p}", "preference": "b"} for p in (2, 3)]
    run = write_run(tmp_path, items, scores, results=small_results() | {"pairs": pairs})
    (numbers,) = [chart.numbers for chart in charts_of(load([run])) if chart.id == "people-judge-0"]
    assert [(row["generator"], row["mean"].value) for row in numbers.records] == [
        ("x", pytest.approx(0.2)),
        ("y", pytest.approx(0.3)),
    ]


def test_without_pairs_there_is_no_section_of_people(tmp_path: Path) -> None:
    item = Item("a.png", PROMPT, None)
    assert people(load([write_run(tmp_path, [item], [score(item, "tit", 0.5)])])) is None


def test_commands_in_an_introduction_are_set_as_code(tmp_path: Path) -> None:
    page = write_report([small_run(tmp_path / "run")], tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<code>titjudge verify</code> recomputes" in page


# -- sections --------------------------------------------------------------------------------------------------------------

ORDER = ("overview", "matrix", "people", "generators", "images", "prompts", "pairs", "failures", "provenance")


def test_sections_stand_in_their_documented_order(tmp_path: Path) -> None:
    with_pairs = [section.id for section in contents(load([small_run(tmp_path / "small")]))]
    without = [section.id for section in contents(load([agent_run(tmp_path / "run")]))]
    assert with_pairs == [name for name in ORDER if name != "generators"]  # too few prompts to compare
    assert without == [name for name in ORDER if name not in ("people", "pairs")]
    page = write_report([agent_run(tmp_path / "again")], tmp_path / "r.html").read_text(encoding="utf-8")
    navigation = page.partition("<nav")[2].partition("</nav>")[0]
    assert re.findall('data-view="([a-z]+)"', navigation) == without
    assert re.findall('<section id="view-([a-z]+)"', page) == without
    assert f"<kbd>{len(without)}</kbd>" in page


@pytest.mark.parametrize("turned", [False, True])
def test_the_numbers_in_each_figure_are_its_own_whatever_the_order_of_the_sections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turned: bool
) -> None:
    report = load([agent_run(tmp_path / "one"), agent_run(tmp_path / "two", prompts=4)])
    sections = contents(report)[:: -1 if turned else 1]
    monkeypatch.setattr("titjudge.report.html.contents", lambda _: sections)
    page = render(report).decode()
    figures = re.findall(
        r'<figure class="chart" id="([^"]*)" role="group" aria-label="([^"]*)">(.*?)</figure>', page, re.DOTALL
    )
    charts = [chart for section in sections for chart in section.charts]
    assert [(id, unescape(title)) for id, title, _ in figures] == [(chart.id, chart.title) for chart in charts]
    assert len({id for id, _, _ in figures}) == len(figures) > 2
    for (_, title, figure), chart in zip(figures, charts, strict=True):
        assert f'<caption class="away">{title}</caption>' in figure
        assert chart.numbers.title == chart.title
        assert figure.count("<tr>") == len(chart.numbers.rows) + 1


def test_plain_keeps_what_is_referred_to() -> None:
    svg = plain_svg(
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 1 1" width="9">'
        '<metadata>x</metadata><defs><style>*{}</style><path id="m1" d="M0 0" style="stroke: #000011"/></defs>'
        '<g id="axes_1"><use xlink:href="#m1" style="fill: #000022; evil: 1"/></g></svg>'
    )
    assert 'id="m1"' in svg
    assert 'href="#m1"' in svg
    assert 'class="s-ink"' in svg
    assert 'class="f-soft"' in svg
    for gone in ("metadata", "style", "axes_1", "evil", "width"):
        assert gone not in svg


def test_every_colour_of_the_page_is_one_that_matplotlib_knows() -> None:
    from matplotlib.colors import is_color_like

    colours = {PAGE.ink, PAGE.soft, PAGE.grid, *PAGE.series}
    assert all(map(is_color_like, colours))
    assert len(colours) == 3 + COLOURS


def long_run(folder: Path) -> Any:
    """40 prompts of three generators; people have compared the images of two prompts."""
    items = [Item(f"{p}-{g}", f"Scene {p} of many.", None, g, f"p{p}") for p in range(40) for g in "abc"]
    scores = [score(item, "tit-llm", float(int(item.id.split("-")[0]) + "abc".index(item.generator))) for item in items]
    pairs = [{"prompt_id": f"p{p}", "a": f"{p}-a", "b": f"{p}-b", "preference": "b"} for p in (17, 23)]
    return write_run(folder, items, scores, results={"pairs": pairs, "metrics": {"tit-llm": {"mean": 20.5}}})


def test_a_page_of_very_many_images_lists_a_part_of_them_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = long_run(tmp_path / "run")
    whole = data_of(page_of(write_report([run], tmp_path / "whole.html")))
    assert len(whole["items"]) == 120
    monkeypatch.setattr("titjudge.report.html.LISTED", 60)
    path = write_report([run], tmp_path / "part.html")
    page = page_of(path)
    part = data_of(page)
    names = [item["id"] for item in part["items"]]
    assert 50 < len(names) <= 60
    assert names == [item["id"] for item in whole["items"] if item["id"] in set(names)]
    assert {"17-a", "17-b", "23-a", "23-b"} < set(names)
    pairs = [names[at] for place, at in enumerate(part["pairs"]) if place % 3 < 2]
    assert pairs == ["17-a", "17-b", "23-a", "23-b"]
    assert f"this page lists {len(names)} of 120 images" in path.read_text(encoding="utf-8")


def test_pairs_by_construction_are_not_called_people(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    file = run.path / "results.json"
    file.write_text(json.dumps(json.loads(file.read_bytes()) | {"reference": "construction"}))
    report = load([run])
    section = people(report)
    assert section is not None
    assert about(report, range(len(report.entries)))["constructed"]
    texts = [section.label, section.title, section.introduction]
    texts += [text for chart in section.charts for text in (chart.title, chart.note)]
    assert "construction" in section.label.lower()
    assert not any("people" in text.lower() or "human" in text.lower() for text in texts)
