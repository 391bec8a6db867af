"""Read the files of Qwen-Image-Bench: tables (csv, json, jsonl) and the metadata with the facets of each prompt.

Saved answers of a judge come in three shapes:

- long: one answer a line, `{"case", "ID", "model", "dim", "response"}`
- wide (input of compute_scores.py): one ID a line, `<dim>_response_<model>` columns
- judged (output of judge.py, `_judged.csv/.json/.jsonl`): one ID a line, `<dim>_judge_output` columns
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError
from titjudge.core.types import Values
from titjudge.data.data_paths import is_stray
from titjudge.data.tables import Rows, scan_table
from titjudge.metrics.checklist import COLUMNS, PillarMarks, gate, judge_answer, rubric, sub_capabilities

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


@dataclass(frozen=True, slots=True)
class Response:
    """One answer.

    Attributes:
        case: Its name in results.
        id: The ID of the prompt; empty where the line names none.
        model: The generator; empty where the line names none.
        pillar: The pillar that was judged.
        text: What the judge wrote; None where there is no answer.
        line: The line of the row with all answers about an image; 0 where each line is one answer.
    """

    case: str
    id: str
    model: str
    pillar: str
    text: Any
    line: int = 0


@dataclass(slots=True)
class JudgedResponse:
    """The verdicts on saved answers.

    Attributes:
        cases: Every verdict by the name of its case.
        rows: Verdicts by generator, then image (an ID, and which of its rows from 1), then pillar.
        lines: The line of each (generator, ID, which of its rows).
        problems: What was left out.
    """

    cases: dict[str, PillarMarks] = field(default_factory=dict)
    rows: dict[str, dict[tuple[str, int], dict[str, PillarMarks]]] = field(default_factory=dict)
    lines: dict[tuple[str, str, int], int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def read_responses(path: Path) -> Iterator[Response | Problem]:
    """Yield every answer in a file of one of the three shapes; a row that cannot be used is a Problem.

    The generators of wide rows are those of all rows (the official script looks at the first only).

    Raises:
        DataError: The file cannot be read.
    """
    for number, row in read_rows(path):
        where = f"{path.name}:{number}"
        if isinstance(row, DataError):
            yield Problem(where, str(row))
        elif "response" in row and "dim" in row:
            case = where if row.get("case") is None else str(row["case"])
            model = "" if row.get("model") is None else str(row["model"])
            yield Response(case, id_text(row.get("ID")), model, str(row["dim"]), row["response"])
        else:
            yield from _columns(row, number, path)


def _columns(row: Values, line: int, path: Path) -> Iterator[Response | Problem]:
    """Yield the answers in a row that has several: a column a pillar (judged), or a column a pillar and generator (wide)."""
    name, where, stem = id_text(row.get("ID")), f"{path.name}:{line}", path.stem.removesuffix("_judged")
    has_answers = False
    for column, text in row.items():
        for prefix, pillar in COLUMNS.items():
            if column == f"{prefix}_judge_output":
                model = str(row.get("model") or row.get("generator") or stem)
            elif column.startswith(f"{prefix}_response_"):
                model = column.removeprefix(f"{prefix}_response_")
            else:
                continue
            has_answers = True
            if _is_answer(text):
                yield Response(f"{name or where}/{model}/{pillar}", name, model, pillar, text, line)
    if not has_answers:
        yield Problem(
            where, "no answer columns: expected dim and response, <dim>_response_<model> or <dim>_judge_output"
        )
    elif not name:
        yield Problem(where, "the row has no ID")


def _is_answer(text: Any) -> bool:
    """Tell whether a cell is an answer: judge.py leaves cells of other pillars empty (None, or NaN after pandas)."""
    return not (text is None or text == "" or (isinstance(text, float) and text != text))


def judge_responses(path: Path, metadata: Metadata, protocol: str, facets: int = 56) -> JudgedResponse:
    """Score every answer of a file.

    Raises:
        DataError: The file cannot be read or holds no answer.
        ConfigError: The protocol is unknown.
    """
    judged = JudgedResponse(problems=list(metadata.problems))
    for response in read_responses(path):
        if isinstance(response, Problem):
            judged.problems.append(response)
        else:
            _add(judged, response, metadata, protocol, facets)
    if not judged.cases:
        raise DataError("no answers here: expected lines of case, ID, model, dim, response", path)
    return judged


def _add(judged: JudgedResponse, response: Response, metadata: Metadata, protocol: str, facets: int) -> None:
    """Score an answer, and put its verdict where it belongs."""

    def problem(reason: str) -> None:
        judged.problems.append(Problem(case, reason, response.model))

    case = response.case
    if case in judged.cases:
        again = next(n for n in count(2) if f"{case} ({n})" not in judged.cases)
        if not response.line:
            problem(f"the case is there again; kept as '{case} ({again})'")
        case = f"{case} ({again})"
    is_pillar = response.pillar in rubric()
    targeted = gate(protocol, metadata.facets.get(response.id, {}), response.pillar)
    verdict = PillarMarks("invalid", f"there is no pillar '{response.pillar}'")
    if is_pillar:
        verdict = judge_answer(response.text, response.pillar, targeted, facets)
    judged.cases[case] = verdict
    if verdict.status != "ok":
        problem(f"{verdict.status}: {verdict.reason}")
    elif verdict.reason:
        problem(verdict.reason)
    if not response.model or not response.id:
        problem("the line names no model or no ID: judged, in no model's result")
    elif is_pillar:
        if response.id not in metadata.facets:
            problem(f"the metadata have no ID {response.id}")
        judged.rows.setdefault(response.model, {}).setdefault(_image(judged, response), {})[response.pillar] = verdict


def _image(judged: JudgedResponse, response: Response) -> tuple[str, int]:
    """Choose the image of an ID that an answer is about: that of its row, else the first that lacks its pillar."""
    rows, nth = judged.rows.get(response.model, {}), 1
    while (image := (response.id, nth)) in rows:
        line = judged.lines[response.model, *image]
        if line == response.line if response.line else response.pillar not in rows[image]:
            break
        nth += 1
    judged.lines[response.model, *image] = response.line
    return image
