"""Write the report as one self-contained HTML file: no network, no inline handler, no untrusted text in the markup."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from titjudge.core.errors import DataError
from titjudge.core.files import write_atomic
from titjudge.core.numbers import is_number
from titjudge.core.run_records import StoredRun
from titjudge.core.tables import Cell, CellFormat, Table, text_of
from titjudge.core.types import Json, Values
from titjudge.report.contents import contents
from titjudge.report.drawing import Chart
from titjudge.report.judged_images import Judged
from titjudge.report.matrix import matrix_data
from titjudge.report.model import Report, as_json, load
from titjudge.report.sections import Charts, Opening, Remark, Section, single
from titjudge.report.thumbnails import PlacedImage, Thumbnail, thumbnails

if TYPE_CHECKING:
    import jinja2
    from markupsafe import Markup

LIMIT = 15_000_000  # bytes of the whole file, except for full_images
LISTED = 25_000  # images: a file of more lists a part of them, as it would open too slowly; a folder has more
_ROOM_KEPT = 60_000  # bytes kept free for the page around data and images
_PACK_ABOVE = 300_000  # characters of JSON from which it is compressed
_IMAGE_DATA = b'id="image-data">'  # as page.html has it
_DATA = "@@data@@"  # if it has the data
_IMAGES = "@@images@@"  # where page.html has the images, whose space is known when all else is written
_SHAPES = (  # of a legend, as `drawing.MARKERS`
    "M1 6a5 5 0 1 0 10 0a5 5 0 1 0-10 0",
    "M2 2h8v8h-8z",
    "M6 1l5 9.5h-10z",
    "M6 0.5l5.5 5.5l-5.5 5.5l-5.5-5.5z",
    "M6 11l5-9.5h-10z",
    "M4 1h4v3h3v4h-3v3h-4v-3h-3v-4h3z",
)
_SCRIPTS = tuple(
    (
        "base.js chunks.js edits.js marks.js tables.js lists.js receipts.js cases.js images.js pairs.js "
        "prompts.js votes.js closeup.js matrix.js main.js"
    ).split()
)
_STYLES = ("base.css", "views.css", "cases.css", "edits.css", "opening.css", "matrix.css")


def write_report(
    runs: Sequence[StoredRun],
    out: Path,
    *,
    agreement_json: Json | None = None,
    baseline: str = "",
    full_images: bool = False,
    keep_images: bool = False,
    most: int | None = None,
) -> Path:
    """Write the report of one or several runs as one HTML file; returns its path.

    Args:
        runs: Run folders; several are shown side by side and compared with the first.
        out: The file, written atomically.
        agreement_json: Results in the form of results.json that replace the results of the first run.
        baseline: A generator that the others are compared with besides the best.
        full_images: Embed images of up to 2,048 pixels, however large the file becomes; otherwise they are made to fit
            into 15 MB with the rest of the page.
        keep_images: Refuse to replace a report by one with fewer images (their files have moved, or changed).
        most: Maximum number of images that it lists; by default `LISTED`.

    Raises:
        DataError: A folder is not a run, or is damaged; images would be lost; or there is no such baseline.
    """
    report = load(runs, agreement_json, baseline=baseline, deciding_first=True)
    page = render(report, full_images=full_images, most=most)
    if keep_images:
        check_images(out, page)
    write_atomic(out, page)
    return out


def check_images(out: Path, page: bytes) -> None:
    """Check that a new page has all images of the page that it replaces.

    Raises:
        DataError: It does.
    """
    if not out.is_file():
        return
    (before, _), (now, missing) = images_in(out.read_bytes()), images_in(page)
    if missing and now < before:
        raise DataError(
            f"not replaced: it shows {before:,} images, and a new one would show {now:,}: "
            f"{missing[0]}. Choose another --out, or delete it first",
            out,
        )


def images_in(page: bytes) -> tuple[int, list[str]]:
    """Count the images that a report shows, and list why each of the others is missing."""
    _, _, rest = page.partition(_IMAGE_DATA)
    lines = rest.partition(b"</script>")[0].splitlines()
    reasons = [base64.b64decode(line[1:]).decode(errors="replace") for line in lines if line.startswith(b"!")]
    return sum(bool(line) for line in lines) - len(reasons), reasons


def render(report: Report, *, full_images: bool = False, limit: int = LIMIT, most: int | None = None) -> bytes:
    """Render the page of a report as one file, in UTF-8."""
    sections = contents(report)
    numbers = entries_to_list(report, sections, most or LISTED)
    images = shown_images(report, numbers)
    page = page_with(report, sections, as_json(report, images, numbers), numbers)
    space = max(0, (limit - len(page) - _ROOM_KEPT) * 3 // 4)
    return with_images(page, thumbnails(list(images), space, full=full_images))


def page_with(
    report: Report,
    sections: Sequence[Section],
    data: Values,
    numbers: Sequence[int],
    *,
    title: str = "",
    folder: bool = False,
) -> str:
    """Render the page of a report around its data; its images are put in by `with_images`.

    Args:
        report: The report.
        sections: Its sections.
        data: The data for its scripts.
        numbers: Numbers of the entries that the page lists, ascending.
        title: Its title; by default the names of the runs.
        folder: Whether data and images are in files beside the page.
    """
    listed = len(numbers), len(report.entries)
    remark = (
        f"this page lists {listed[0]:,} of {listed[1]:,} images: images of the verdict, images that people compared, and whole prompts "
        "from the whole length of the data. Tables and figures are of all images; `report --format csv` has every score"
        + ("" if folder else ", and `report --format folder` lists more images")
    )
    page = _page(
        title or " · ".join(run.name for run in report.runs) or "no run",
        sections,
        place={number: place for place, number in enumerate(numbers)},
        remark=remark if listed[0] < listed[1] else "",
        counts=listed,
        folder=folder,
    )
    return _put(report.local.text(page), _DATA, packed(report.local.strip({**data, **matrix_data(report)})))


def _page(title: str, sections: Sequence[Section], **content: Any) -> str:
    """Render the page of some sections, without its data and images."""
    style, script = _joined(_STYLES), _joined(_SCRIPTS)
    content |= {"style_hash": _sha256(style), "script_hash": _sha256(script)}
    content |= {
        "title": title,
        "sections": sections,
        "style": style,
        "script": script,
        "data": _DATA,
        "images": _IMAGES,
    }
    return _environment().get_template("page.html").render(content)


def write_page(title: str, lines: Sequence[str], charts: Sequence[Chart], tables: Sequence[Table], out: Path) -> None:
    """Write a page without images: its title, a few lines, charts and tables.

    Raises:
        OSError: The file cannot be written.
    """
    blocks = single([Remark(line) for line in lines], Charts(tuple(charts)), tables)
    page = _page(
        title, [Section("overview", "Overview", title, parts=blocks)], place={}, remark="", counts=(0, 0), folder=False
    )
    nothing: Values = {name: [] for name in ("items", "pairs", "judges", "runs", "texts", "replies")}
    write_atomic(out, with_images(_put(page, _DATA, packed(nothing)), []))


def with_images(page: str, thumbs: Iterable[Thumbnail | PlacedImage]) -> bytes:
    """Put the images into a page, as UTF-8."""
    return _put(page, _IMAGES, "\n".join(map(_image_line, thumbs))).encode(errors="replace")


def _put(page: str, place: str, content: str) -> str:
    """Put content at the last place of a mark: earlier parts may contain the mark in texts of the data."""
    before, _, after = page.rpartition(place)
    return f"{before}{content}{after}"


def shown_images(report: Report, numbers: Sequence[int]) -> dict[Judged, int]:
    """Find the images that the entries show, and number them; entries may share one."""
    entries = [report.entries[number] for number in numbers]
    pictures = (image for entry in entries for image in (entry.shown, *entry.sources) if image is not None)
    return {image: number for number, image in enumerate(dict.fromkeys(pictures))}


def entries_to_list(report: Report, sections: Sequence[Section], most: int) -> Sequence[int]:
    """Choose the numbers of the entries that a page lists: at most `most`, ascending.

    If there are more entries, entries in the opening come first, then entries that people compared, then whole prompts,
    taken at even distances from all of the data.
    """
    if len(report.entries) <= most:
        return range(len(report.entries))
    openings = [block for section in sections for block in section.blocks if isinstance(block, Opening)]
    chosen = {number for block in openings for number in block.images}
    for a, b, _ in report.pairs:
        if len(chosen) + 2 > most:
            break
        chosen |= {a, b}
    by_prompt: dict[str, list[int]] = {}
    for number, entry in enumerate(report.entries):
        by_prompt.setdefault(entry.prompt_id or entry.id, []).append(number)
    prompts = list(by_prompt.values())
    step = max(1, math.ceil(len(report.entries) / max(1, most - len(chosen))))
    for members in (members for start in range(step) for members in prompts[start::step]):
        if len(chosen) + len(members) > most:
            break
        chosen.update(members)
    return sorted(chosen)


def listed_in(page: bytes) -> tuple[int, int]:
    """Return how many images a report lists, and how many its runs have."""
    match = re.search(rb'data-listed="(\d+) (\d+)"', page)
    return (int(match[1]), int(match[2])) if match else (0, 0)


@functools.cache
def _environment() -> jinja2.Environment:
    """Make the environment of the templates once: text is escaped, and a name that is not defined is an error."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        loader=jinja2.FunctionLoader(web_file),
    )
    environment.filters |= {"code": _code, "number": text_of}
    environment.globals |= {
        "kind": lambda block: type(block).__name__,
        "shown": _shown,
        "bar_axes": _bar_axes,
        "bar_ends": _bar_ends,
        "along": lambda value, axis: f"{4 + 92 * (value - axis[0]) / (axis[1] - axis[0]):.2f}",
        "shapes": _SHAPES,
    }
    return environment


def _code(text: str) -> Markup:
    """Set the words between backquotes as code."""
    from markupsafe import Markup, escape

    return Markup(re.sub("`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def _shown(value: Any) -> tuple[str, str, float | None, str]:
    """Return text, aside, number to sort by and link of a value of a table."""
    if isinstance(value, Cell):
        return value.text, value.aside, value.order, value.link
    return text_of(value), "", value if is_number(value) else None, ""


def _bar_axes(table: Table) -> list[tuple[float, float] | None]:
    """Return the common axis of the bars of each column; None for a column without any."""
    axes: list[tuple[float, float] | None] = []
    for column in range(len(table.columns)):
        cells = (row[column] for row in table.rows)
        ends = [end for cell in cells if isinstance(cell, Cell) and cell.bar for end in _bar_ends(cell) or ()]
        ends += table.axis or () if ends else ()
        axes.append((min(ends), max(ends)) if ends and min(ends) < max(ends) else None)
    return axes


def _bar_ends(value: Any) -> tuple[float, float, float] | None:
    """Return low end, value and high end of the bar of a cell; None if none is drawn."""
    if not isinstance(value, Cell) or not value.bar or isinstance(value.value, str) or not math.isfinite(value.value):
        return None
    if value.interval is None:
        return (0.0, value.value, value.value) if value.format is CellFormat.PERCENT and not value.note else None
    low, high = value.interval
    return None if low is None or high is None else (low, value.value, high)


def packed(data: Values, above: int | None = None) -> str:
    """Write JSON for a script, compressed if it has more characters than `above` (`{"packed": base64 of gzip}`)."""
    text = orjson.dumps(data, default=str, option=orjson.OPT_SERIALIZE_NUMPY).decode()  # NaN and infinities become null
    if len(text) <= (_PACK_ABOVE if above is None else above):
        return script_safe(text)
    raw = gzip.compress(text.encode(), compresslevel=6, mtime=0)
    return script_safe(json.dumps({"packed": base64.b64encode(raw).decode()}))


def script_safe(text: str) -> str:
    """Escape JSON so that nothing in it can end a script element or start a comment, whatever its strings contain."""
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _image_line(thumb: Thumbnail | PlacedImage) -> str:
    """Write the line of an image: base64 of a WebP file, `+` and the places of its files, or `!` and base64 of why there is none."""
    if isinstance(thumb, PlacedImage):
        return "+" + " ".join(thumb).rstrip()
    raw = thumb if isinstance(thumb, bytes) else thumb.encode(errors="replace")
    return ("" if isinstance(thumb, bytes) else "!") + base64.b64encode(raw).decode()


def _joined(names: Sequence[str]) -> str:
    """Concatenate style sheets, or scripts in one closure."""
    content = "\n".join(web_file(name) for name in names)
    return f'"use strict";(() => {{\n{content}\n}})();' if names[0].endswith(".js") else content


def web_file(name: str) -> str:
    """Read a file of the folder `web`."""
    return (resources.files("titjudge.report") / "web" / name).read_text(encoding="utf-8")


def _sha256(content: str) -> str:
    """Return the hash of a script or a style for a content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
