"""Write the report as one self-contained HTML file: no network, no inline handler, no untrusted text in the markup."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from titjudge.core.errors import DataError
from titjudge.core.files import write_atomic
from titjudge.core.run_records import StoredRun
from titjudge.report.charts import charts
from titjudge.report.forgetting import curves
from titjudge.report.generator_sections import Section, generator_sections
from titjudge.report.model import Report, as_json, load
from titjudge.report.summary import summary
from titjudge.report.thumbnails import Thumbnail, thumbnails

if TYPE_CHECKING:
    import jinja2

LIMIT = 15_000_000  # bytes of the whole file, but for full_images
MOST_LISTED = 100_000  # images: a page of more lists a part of them, as no browser holds them all
LISTED = 25_000  # images of that part
_ROOM_KEPT = 60_000  # bytes kept free for the page around data and images
_PACK_ABOVE = 300_000  # characters of JSON from which it is compressed
_IMAGE_DATA = b'id="image-data">'  # as page.html has it
_SCRIPTS = (
    "base.js", "marks.js", "tables.js", "lists.js", "receipts.js", "cases.js", "images.js", "pairs.js", "prompts.js", "main.js",
)  # fmt: skip
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
        runs: Run folders; several are shown side by side and compared with the first.
        out: The file, written atomically.
        agreement_json: Results in the shape of results.json that replace those of the first run.
        baseline: A generator that the others are compared with besides the best.
        full_images: Embed images of up to 2,048 pixels, however large the file becomes; else they are made to fit
            into 15 MB with what the page holds besides.
        keep_images: Refuse to replace a report by one with fewer images (their files have moved, or changed).

    Raises:
        DataError: A folder is not a run, or is damaged; images would be lost; or there is no such baseline.
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
    """Count the images that a report shows, and list why each of the others is missing."""
    _, _, rest = page.partition(_IMAGE_DATA)
    lines = rest.partition(b"</script>")[0].splitlines()
    reasons = [base64.b64decode(line[1:]).decode(errors="replace") for line in lines if line.startswith(b"!")]
    return sum(bool(line) for line in lines) - len(reasons), reasons


def render(report: Report, *, full_images: bool = False, limit: int = LIMIT) -> bytes:
    """Render the page of a report, as UTF-8."""
    people, stops, sections = charts(report), curves(report), generator_sections(report)
    listed = _listed(report, sections)
    entries = report.entries if listed is None else [report.entries[number] for number in listed]
    images = list(dict.fromkeys(shown for entry in entries if (shown := entry.shown) is not None))
    data = as_json(report, {image: number for number, image in enumerate(images)}, listed)
    data["summary"] = summary(report) | {
        "claims": [curve.steps for curve in stops],
        "generators": [section.to_json() for section in sections],
    }
    if listed is not None:
        _tell_listed(data["summary"], listed, len(report.entries))
    packed = _data(data)
    drawn = [*people]
    drawn += [chart for curve in stops for chart in curve.charts]
    drawn += [chart for section in sections for chart in section.charts]
    numbers = script_safe(
        json.dumps([{key: value for key, value in asdict(chart).items() if key != "svg"} for chart in drawn])
    )
    style, script = joined(_STYLES), joined(_SCRIPTS)
    used = sum(map(len, (packed, numbers, style, script, *(chart.svg for chart in drawn)))) + _ROOM_KEPT
    thumbs = thumbnails(images, max(0, (limit - used) * 3 // 4), full=full_images)
    page = _template().render(
        title=data["summary"]["title"], charts=people, curves=stops, sections=sections, chart_data=numbers, style=style,
        script=script, data=packed, images=_image_lines(thumbs), script_hash=sha256(script), style_hash=sha256(style),
    )  # fmt: skip
    return page.encode(errors="replace")


def _listed(report: Report, sections: Sequence[Section]) -> list[int] | None:
    """Choose the images of a very long run that the page lists; None for all.

    Those of the worst prompts come first, then those that people compared, then whole prompts from the whole length of the data.
    """
    if len(report.entries) <= MOST_LISTED:
        return None
    chosen = {number for section in sections for prompt in section.worst for number in prompt["items"]}
    for a, b, _ in report.pairs:
        if len(chosen) + 2 > LISTED:
            break
        chosen |= {a, b}
    prompts: dict[str, list[int]] = {}
    for number, entry in enumerate(report.entries):
        prompts.setdefault(entry.prompt_id or entry.id, []).append(number)
    numbers = list(prompts.values())
    step = max(1, -(-len(report.entries) // max(1, LISTED - len(chosen))))
    for members in (members for start in range(step) for members in numbers[start::step]):
        if len(chosen) + len(members) > LISTED:
            break
        chosen.update(members)
    return sorted(chosen)


def _tell_listed(summary: dict[str, Any], listed: Sequence[int], images: int) -> None:
    """Say in the summary that the page lists a part of the images, and number the worst prompts' images as listed."""
    place = {number: place for place, number in enumerate(listed)}
    for section in summary["generators"]:
        for prompt in section["worst"]:
            prompt["items"] = [place[number] for number in prompt["items"]]
    summary["runs"][0]["warnings"] = [
        f"this page lists {len(listed):,} of {images:,} images: those of the worst prompts, those that people compared, and whole "
        "prompts from the whole length of the data. Tables and figures are of all images; `report --format csv` has every score",
        *summary["runs"][0]["warnings"],
    ]


@functools.cache
def _template() -> jinja2.Template:
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    return environment.from_string(web_file("page.html"))


def _data(data: Mapping[str, Any]) -> str:
    """Write JSON for a script element, compressed if it is large (`{"packed": base64 of gzip}`)."""
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


def _image_lines(thumbs: Sequence[Thumbnail]) -> str:
    """Write one line for each image: base64 of a WebP file, or `!` and the base64 of the reason why there is none."""
    return "\n".join(
        base64.b64encode(one).decode()
        if isinstance(one, bytes)
        else "!" + base64.b64encode(one.encode(errors="replace")).decode()
        for one in thumbs
    )


def joined(names: Sequence[str]) -> str:
    """Concatenate style sheets, or scripts in one closure."""
    content = "\n".join(web_file(name) for name in names)
    return f'"use strict";(() => {{\n{content}\n}})();' if names[0].endswith(".js") else content


def web_file(name: str) -> str:
    """Read a file of the folder `web`."""
    return (resources.files("titjudge.report") / "web" / name).read_text(encoding="utf-8")


def sha256(content: str) -> str:
    """Return the hash of a script or a style for a content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
