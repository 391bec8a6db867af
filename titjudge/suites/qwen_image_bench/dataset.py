"""Qwen-Image-Bench on disk: tables of rows (csv, json, jsonl) and the metadata that say which facets a prompt activates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError
from titjudge.core.files import read_json, read_text, scan_csv, scan_jsonl
from titjudge.metrics.checklist import homes, rubric

Rows = Iterator[tuple[int, dict[str, Any] | DataError]]
Facets = dict[str, list[list[str]]]  # pillar -> [sub-capability, facet], in the order of the metadata

SUFFIXES = (".csv", ".json", ".jsonl")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that was not used, by name, and why."""

    name: str
    reason: str
    model: str = ""


@dataclass(slots=True)
class Metadata:
    """Which facets each prompt activates, by ID as text."""

    facets: dict[str, Facets] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def read_rows(path: Path) -> Rows:
    """Read number and object of every row: csv (a header), jsonl, json (an array, or one object a line); a bad row is a DataError.

    Raises:
        DataError: the file cannot be read at all: missing, another format, not UTF-8, a json array that is no JSON.
    """
    suffix = path.suffix.lower()
    if suffix == ".csv":
        return _csv_rows(path)
    if suffix == ".jsonl":
        return scan_jsonl(path)
    if suffix == ".json":
        return _json_rows(path)
    raise DataError(f"the format is one of {', '.join(SUFFIXES)}", path)


def _csv_rows(path: Path) -> Rows:
    for line, row in scan_csv(path):
        lacks = not isinstance(row, DataError) and None in row.values()
        yield line, DataError("the row has fewer cells than there are columns", path, line) if lacks else row


def _json_rows(path: Path) -> Rows:
    if not read_text(path).lstrip().startswith("["):
        yield from scan_jsonl(path)
        return
    for number, record in enumerate(read_json(path), 1):
        yield number, record if isinstance(record, dict) else DataError(f"element {number} is not an object", path)


def id_text(value: Any) -> str:
    """Write an ID as text: 7, 7.0, "7" and " 7 " are one ID; an empty text when there is none."""
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = str(value).strip()
    whole = text.removesuffix(".0")
    return str(int(whole)) if whole.isascii() and whole.isdigit() else text


def parse_facets(text: str) -> tuple[Facets, list[str]]:
    """Parse the facets in a `dims_en` text (`L1 / L2 / L3; ...`), and the entries that the rubric does not have.

    Split on " / " at most twice: two facets have a slash in their name. (The official code splits on every "/".)
    """
    found: Facets = {}
    unknown = []
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        levels = [level.strip() for level in entry.split(" / ", 2)]
        pillar, sub, facet = (*levels, levels[-1])[:3] if len(levels) > 1 else (entry, "", "")
        if pillar not in rubric() or homes(pillar).get(facet) != sub:
            unknown.append(entry)
        elif [sub, facet] not in found.setdefault(pillar, []):
            found[pillar].append([sub, facet])
    return found, unknown


def read_metadata(path: Path) -> Metadata:
    """Read the activated facets of every ID; what cannot be used is named in `problems`.

    Raises:
        DataError: the file cannot be read, or holds no usable row.
    """
    found = Metadata()
    for number, row in read_rows(path):
        where = f"{path.name}:{number}"
        if isinstance(row, DataError):
            found.problems.append(Problem(where, str(row)))
            continue
        name, dims = id_text(row.get("ID")), row.get("dims_en")
        if not name or not isinstance(dims, str):
            found.problems.append(Problem(where, "a row of metadata has an ID and a text dims_en"))
        elif name in found.facets:
            found.problems.append(Problem(f"{where}: ID {name}", "the ID is there twice; the first row counts"))
        else:
            found.facets[name], unknown = parse_facets(dims)
            found.problems += [
                Problem(f"{where}: ID {name}", f"the rubric has no facet '{entry}'") for entry in unknown
            ]
    if not found.facets:
        raise DataError("no metadata here: expected rows of ID and dims_en", path)
    return found


def find_metadata(folder: Path) -> Path | None:
    """`bench_metadata.json` in the folder, in its `metadata/`, or None."""
    places = (folder / "bench_metadata.json", folder / "metadata" / "bench_metadata.json")
    return next((place for place in places if place.is_file()), None)


def manifests(folder: Path) -> list[Path]:
    """List the tables of images in a folder: every csv, json and jsonl that is no output of the official scripts."""
    return [path for path in sorted(folder.iterdir()) if path.suffix.lower() in SUFFIXES and not _is_other(path.stem)]


def _is_other(stem: str) -> bool:
    ends = ("_judged", "_bench_scores", "bench_metadata")
    return stem.endswith(ends) or stem in ("scores_detail", "responses", "pairs", "fetched")
