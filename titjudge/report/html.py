"""One self-contained HTML file: no network, no inline handler, nothing untrusted in the markup."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from titjudge.core.errors import DataError
from titjudge.core.files import write_atomic
from titjudge.core.run_records import StoredRun
from titjudge.report.charts import charts
from titjudge.report.forgetting import Curve, curves
from titjudge.report.generator_sections import Section, generator_sections
from titjudge.report.model import Report, as_json, load
from titjudge.report.summary import summary
from titjudge.report.thumbnails import Thumbnail, thumbnails

if TYPE_CHECKING:
    import jinja2

LIMIT = 15_000_000  # bytes of the whole file, but for full_images
_ROOM_KEPT = 60_000  # bytes kept free for the page around data and images
_PACK_ABOVE = 300_000  # characters of JSON from which it is compressed
_IMAGE_DATA = b'id="image-data">'  # as page.html has it
_SCRIPTS = (
    "base.js",
    "marks.js",
    "tables.js",
    "lists.js",
    "receipts.js",
    "cases.js",
    "images.js",
    "pairs.js",
    "prompts.js",
    "main.js",
)
_STYLES = ("base.css", "views.css", "cases.css")


def write_report(
    runs: Sequence[StoredRun],
    out: Path,
    *,
    agreement_json: dict[str, Any] | None = None,
    baseline: str = "",
    full_images: bool = False,
    keep_images: bool = False,
) -> Path:
    """Write the report of one or several runs as one HTML file; returns its path.

    Args:
        runs: run folders; with several, they are shown side by side, the first being the one that others are compared with.
        out: the file to write (written whole, or not at all).
        agreement_json: results in the shape of results.json that take the place of the first run's.
        baseline: a generator that the others are compared with besides the best.
        full_images: embed images of up to 2,048 pixels, however large the file becomes; else it stays below 15 MB.
        keep_images: refuse to replace a report by one that has lost images (their files have moved, or changed).

    Raises:
        DataError: a folder is not a run, or is damaged; images would be lost; or there is no such baseline.
    """
    report = load(runs, agreement_json)
    report.baseline = baseline
    page = render(report, full_images=full_images)
    if keep_images and out.is_file():
        before, (now, missing) = images_in(out.read_bytes()), images_in(page)
        if missing and now < before[0]:
            raise DataError(
                f"left as it is: it shows {before[0]:,} images, and a new one would show {now:,} "
                f"({missing[0]}). --out writes elsewhere, --force replaces it",
                out,
            )
    write_atomic(out, page)
    return out


def images_in(page: bytes) -> tuple[int, list[str]]:
    """Count the images that a report shows, and say for each of the others why it does not."""
    _, _, rest = page.partition(_IMAGE_DATA)
    lines = rest.partition(b"</script>")[0].splitlines()
    reasons = [base64.b64decode(line[1:]).decode(errors="replace") for line in lines if line.startswith(b"!")]
    return sum(bool(line) for line in lines) - len(reasons), reasons


def render(report: Report, *, full_images: bool = False, limit: int = LIMIT) -> bytes:
    """Render the page of a report, as UTF-8."""
    images = list(dict.fromkeys(shown for entry in report.entries if (shown := entry.shown) is not None))
    data = as_json(report, {image: number for number, image in enumerate(images)})
    data["summary"] = summary(report)
    stops = curves(report)
    data["summary"]["claims"] = [curve.steps for curve in stops]
    sections = generator_sections(report)
    data["summary"]["generators"] = [section.to_json() for section in sections]
    packed = _data(data)
    people = charts(report)
    drawn = [
        _fields(chart)
        for of in (people, *(curve.charts for curve in stops), *(section.charts for section in sections))
        for chart in of
    ]
    style, script = joined(_STYLES), joined(_SCRIPTS)
    numbers = _chart_data(drawn)
    used = (
        len(packed) + len(numbers) + sum(len(chart["svg"]) for chart in drawn) + len(style) + len(script) + _ROOM_KEPT
    )
    made = thumbnails(images, max(0, (limit - used) * 3 // 4), full=full_images)
    return _page(
        data["summary"]["title"],
        drawn[: len(people)],
        stops,
        sections,
        numbers,
        style,
        script,
        packed,
        _image_lines(made),
    )


@functools.cache
def _template() -> jinja2.Template:
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    return environment.from_string(web_file("page.html"))


def _fields(chart: Any) -> Mapping[str, Any]:
    return {name: getattr(chart, name) for name in chart.__dataclass_fields__}


def _page(
    title: str,
    people: Sequence[Mapping[str, Any]],
    stops: Sequence[Curve],
    sections: Sequence[Section],
    numbers: str,
    style: str,
    script: str,
    data: str,
    images: str,
) -> bytes:
    return (
        _template()
        .render(
            title=title,
            charts=people,
            curves=stops,
            sections=sections,
            chart_data=numbers,
            style=style,
            script=script,
            data=data,
            images=images,
            script_hash=sha256(script),
            style_hash=sha256(style),
        )
        .encode(errors="replace")
    )


def _chart_data(drawn: Sequence[Mapping[str, Any]]) -> str:
    """Give the numbers behind the charts, without the drawings."""
    return script_safe(json.dumps([{key: value for key, value in chart.items() if key != "svg"} for chart in drawn]))


def _data(data: Mapping[str, Any]) -> str:
    """Write JSON for a script element: plain while it is small, else compressed (`{"packed": base64 of gzip}`)."""
    text = orjson.dumps(data, default=str, option=orjson.OPT_SERIALIZE_NUMPY).decode()  # NaN and infinities become null
    if len(text) <= _PACK_ABOVE:
        return script_safe(text)
    raw = gzip.compress(text.encode(), compresslevel=6, mtime=0)
    return script_safe(json.dumps({"packed": base64.b64encode(raw).decode()}))


def script_safe(text: str) -> str:
    """Escape JSON so that nothing in it can end a script element or start a comment, whatever its strings hold."""
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _image_lines(made: Sequence[Thumbnail]) -> str:
    """Write one line an image: base64 of a WebP file, or `!` and the base64 of the reason why there is none."""
    return "\n".join(
        base64.b64encode(one).decode()
        if isinstance(one, bytes)
        else "!" + base64.b64encode(one.encode(errors="replace")).decode()
        for one in made
    )


def joined(names: Sequence[str]) -> str:
    """Join style sheets, or scripts in one closure, of the page's own files."""
    content = "\n".join(web_file(name) for name in names)
    return f'"use strict";(() => {{\n{content}\n}})();' if names[0].endswith(".js") else content


def web_file(name: str) -> str:
    """Read a file of the page."""
    return (resources.files("titjudge.report") / "web" / name).read_text(encoding="utf-8")


def sha256(content: str) -> str:
    """Write the hash of a script or a style as a content security policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
