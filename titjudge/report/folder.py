"""Write the report as a folder: index.html, and images and data in separate files that it loads when they are looked at.

    report/index.html          the page, with the name, the prompt and the score of every image
    report/files/0012.js       all about a hundred images: reasons, details, answers
    report/files/017/17023.webp

A page opened from a disk may not fetch files, but it may load scripts: so data is in scripts that call one function with JSON.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from titjudge.core.errors import DataError
from titjudge.core.files import write_atomic
from titjudge.core.run_records import StoredRun
from titjudge.core.types import Json
from titjudge.report.contents import contents
from titjudge.report.html import check_images, entries_to_list, packed, page_with, shown_images, with_images
from titjudge.report.judged_images import Judged
from titjudge.report.model import ItemWriter, Report, about, load
from titjudge.report.thumbnails import PlacedImage, each_thumbnail

LISTED = 100_000  # images: of more, a part is listed
INDEX = "index.html"
FILES = "files"
_NEW = "files.new"
_ROOM = 2_000_000_000  # bytes of all images
_CHUNK = 100  # images
_PACK_ABOVE = 20_000  # characters of JSON from which a chunk is compressed
_SHELF = 1000  # images of a folder
_OURS = b'<meta name="generator" content="titjudge">'


def write_report_folder(
    runs: Sequence[StoredRun],
    out: Path,
    *,
    agreement_json: Json | None = None,
    baseline: str = "",
    full_images: bool = False,
    keep_images: bool = False,
) -> Path:
    """Write the report of one or several runs as a folder; returns the path of its index.html.

    Args:
        runs: As in `write_report`.
        out: The folder; a report that is there is replaced.
        agreement_json: As in `write_report`.
        baseline: As in `write_report`.
        full_images: Images of up to 2,048 pixels; otherwise they are made to fit into 2 GB together, with at most 1,024 pixels.
        keep_images: As in `write_report`.

    Raises:
        DataError: As `write_report`; or `out` has content that is not a report.
    """
    report = load(runs, agreement_json, baseline=baseline, deciding_first=True)
    _check_place(out)
    sections = contents(report)
    numbers = entries_to_list(report, sections, LISTED)
    images = shown_images(report, numbers)
    new = out / _NEW
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        put = lambda name, content: (new / name).write_bytes(content)  # noqa: E731
        page = page_with(report, sections, write_data(report, images, numbers, put), numbers, folder=True)
        index = with_images(page, _write_images(images, new, full=full_images))
        if keep_images:
            check_images(out / INDEX, index)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    if (out / FILES).exists():
        shutil.rmtree(out / FILES)
    new.rename(out / FILES)
    write_atomic(out / INDEX, index)
    return out / INDEX


def _check_place(out: Path) -> None:
    """Check that nothing but a report would be replaced."""
    if out.exists() and not out.is_dir():
        raise DataError("--format folder writes a folder, but this is a file. Choose another --out", out)
    index = out / INDEX
    ours = index.is_file() and _OURS in index.read_bytes()[:4000]
    if not ours and (index.exists() or (out / FILES).exists()):
        raise DataError("is not a report. Choose another --out", out)


def _write_images(images: Mapping[Judged, int], folder: Path, *, full: bool) -> Iterator[str | PlacedImage]:
    """Write each image into a file; yield its place, or why it cannot be shown."""
    for number, thumb in enumerate(each_thumbnail(list(images), _ROOM, full=full)):
        if isinstance(thumb, str):
            yield thumb
            continue
        shelf = folder / f"{number // _SHELF:03}"
        shelf.mkdir(exist_ok=True)
        (shelf / f"{number}.webp").write_bytes(thumb)
        yield PlacedImage(f"{FILES}/{shelf.name}/{number}.webp")


def write_data(
    report: Report, images: Mapping[Judged, int], numbers: Sequence[int], put: Callable[[str, bytes], object]
) -> Json:
    """Write the data of each image into files, and return the part for the page itself; images of a prompt lie together.

    Args:
        report: The report.
        images: The images, numbered.
        numbers: Numbers of the entries that the page lists.
        put: Writes a file of a name.
    """
    writer = ItemWriter(report)
    items = [writer.outline(report.entries[number], images) for number in numbers]
    texts = writer.texts.table
    groups: dict[str, list[int]] = {}
    for place, number in enumerate(numbers):
        groups.setdefault(report.entries[number].prompt_id or str(place), []).append(place)
    order = [place for group in groups.values() for place in group]
    for chunk, start in enumerate(range(0, len(order), _CHUNK)):
        places = order[start : start + _CHUNK]
        for place in places:
            items[place]["c"] = chunk
        put(f"{chunk:04}.js", _chunk(writer, report, places, numbers, chunk).encode())
    return about(report, numbers) | {"items": items, "replies": [], "texts": texts, "folder": FILES}


def _chunk(writer: ItemWriter, report: Report, places: Sequence[int], numbers: Sequence[int], chunk: int) -> str:
    """Write the script that hands a hundred images with their texts and answers to the page."""
    writer.restart()
    scores = [writer.scores(report.entries[numbers[place]]) for place in places]
    data = {
        "items": list(places),
        "scores": scores,
        "texts": [writer.texts.first, writer.texts.table],
        "replies": [writer.first_reply, writer.replies],
    }
    return f"titjudgeChunk({chunk}, {packed(report.local.strip(data), _PACK_ABOVE)});\n"
