"""Read the files of Qwen-Image-Bench: tables (csv, json, jsonl) and the metadata with the facets of each prompt."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError
from titjudge.data.data_paths import is_stray
from titjudge.data.tables import Rows, scan_table
from titjudge.metrics.checklist import rubric, sub_capabilities

Facets = dict[str, list[list[str]]]  # pillar -> [sub-capability, facet], in the order of the metadata

SUFFIXES = (".csv", ".json", ".jsonl")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that was not used, and why; `model` is the generator concerned, where there is one."""

    name: str
    reason: str
    model: str = ""


@dataclass(slots=True)
class Metadata:
    """The facets that each prompt activates, by its ID as text."""

    facets: dict[str, Facets] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def read_rows(path: Path) -> Rows:
    """Yield number and object of every row: csv, jsonl, or json (an array, or an object a line); a bad row is a DataError.

    Raises:
        DataError: The file cannot be read, has another format, is not UTF-8, or is a json array that is no JSON.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise DataError(f"the format is one of {', '.join(SUFFIXES)}", path)
    for number, row in scan_table(path):
        lacks = not isinstance(row, DataError) and None in row.values() and path.suffix.lower() == ".csv"
        yield number, DataError("the row has fewer cells than there are columns", path, number) if lacks else row


def id_text(value: Any) -> str:
    """Return an ID as text, empty where there is none: 7, 7.0, "7" and " 7 " are the same ID."""
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = str(value).strip()
    number = text.removesuffix(".0")
    return str(int(number)) if number.isascii() and number.isdigit() else text


def parse_facets(text: str) -> tuple[Facets, list[str]]:
    """Parse a `dims_en` text (`L1 / L2 / L3; ...`): its facets, and the entries that the rubric does not have.

    It splits on " / " at most twice, as two facets have a slash in their name. (The official code splits on every "/".)
    """
    facets: Facets = {}
    unknown = []
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        levels = [level.strip() for level in entry.split(" / ", 2)]
        pillar, sub, facet = (*levels, levels[-1])[:3] if len(levels) > 1 else (entry, "", "")
        if pillar not in rubric() or sub_capabilities(pillar).get(facet) != sub:
            unknown.append(entry)
        elif [sub, facet] not in facets.setdefault(pillar, []):
            facets[pillar].append([sub, facet])
    return facets, unknown


def read_metadata(path: Path) -> Metadata:
    """Read the activated facets of every ID; rows that cannot be used are among the `problems`.

    Raises:
        DataError: The file cannot be read, or holds no usable row.
    """
    metadata = Metadata()
    for number, row in read_rows(path):
        where = f"{path.name}:{number}"
        if isinstance(row, DataError):
            metadata.problems.append(Problem(where, str(row)))
            continue
        name, dims = id_text(row.get("ID")), row.get("dims_en")
        if not name or not isinstance(dims, str):
            metadata.problems.append(Problem(where, "a row of metadata has an ID and a text dims_en"))
            continue
        where = f"{where}: ID {name}"
        if name in metadata.facets:
            metadata.problems.append(Problem(where, "the ID is there twice; the first row counts"))
        else:
            metadata.facets[name], unknown = parse_facets(dims)
            metadata.problems += [Problem(where, f"the rubric has no facet '{entry}'") for entry in unknown]
    if not metadata.facets:
        raise DataError("no metadata here: expected rows of ID and dims_en", path)
    return metadata


def find_metadata(folder: Path) -> Path | None:
    """Find `bench_metadata.json` in the folder or in its `metadata/`; None where there is none."""
    places = (folder / "bench_metadata.json", folder / "metadata" / "bench_metadata.json")
    return next((place for place in places if place.is_file()), None)


def manifests(folder: Path) -> list[Path]:
    """List the tables of images in a folder: every csv, json and jsonl but the outputs of the official scripts."""
    return [
        path
        for path in sorted(folder.iterdir())
        if path.suffix.lower() in SUFFIXES and not is_stray(path.name) and not _is_output(path.stem)
    ]


def _is_output(stem: str) -> bool:
    ends = ("_judged", "_bench_scores", "bench_metadata")
    return stem.endswith(ends) or stem in ("scores_detail", "responses", "pairs", "fetched")
