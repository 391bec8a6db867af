"""Answers of a Qwen-Image-Bench judge that exist already, in three shapes, and what they say.

- long: one answer a line, `{"case", "ID", "model", "dim", "response"}`
- wide (input of compute_scores.py): one ID a line, `<dim>_response_<model>` columns
- judged (output of judge.py, `_judged.csv/.json/.jsonl`): one ID a line, `<dim>_judge_output` columns
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError
from titjudge.metrics.checklist import COLUMNS, Verdict, gate, judge_answer, rubric
from titjudge.suites.qwen_image_bench.dataset import Metadata, Problem, id_text, read_rows


@dataclass(frozen=True, slots=True)
class Response:
    """One answer: `id` and `model` are empty where the line names none; `text` is None where there is no answer.

    `line` is that of the row that holds all answers about one image, 0 where each line is an answer.
    """

    case: str
    id: str
    model: str
    pillar: str
    text: Any
    line: int = 0


@dataclass(slots=True)
class Judged:
    """Verdicts by case, and by model, image and pillar.

    An image is an ID and which of its rows; `problems` names what was left out.
    """

    cases: dict[str, Verdict] = field(default_factory=dict)
    rows: dict[str, dict[tuple[str, int], dict[str, Verdict]]] = field(default_factory=dict)
    lines: dict[tuple[str, str, int], int] = field(default_factory=dict)  # of each model, ID and which of its rows
    problems: list[Problem] = field(default_factory=list)


def read_responses(path: Path) -> Iterator[Response | Problem]:
    """Every answer in a file of one of the three shapes; a row that cannot be used is a Problem.

    Models of wide rows are taken from every row (the official script looks at the first only).

    Raises:
        DataError: the file cannot be read.
    """
    for number, row in read_rows(path):
        where = f"{path.name}:{number}"
        if isinstance(row, DataError):
            yield Problem(where, str(row))
        elif "response" in row and "dim" in row:
            case = row.get("case")
            model = "" if row.get("model") is None else str(row["model"])
            yield Response(
                where if case is None else str(case), id_text(row.get("ID")), model, str(row["dim"]), row["response"]
            )
        else:
            yield from _columns(row, number, path)


def _columns(row: Mapping[str, Any], line: int, path: Path) -> Iterator[Response | Problem]:
    name, where, stem = id_text(row.get("ID")), f"{path.name}:{line}", path.stem.removesuffix("_judged")
    known = False
    for column, text in row.items():
        for start, pillar in COLUMNS.items():
            if column == f"{start}_judge_output":
                model = str(row.get("model") or row.get("generator") or stem)
            elif column.startswith(f"{start}_response_"):
                model = column.removeprefix(f"{start}_response_")
            else:
                continue
            known = True
            if _asked(text):
                yield Response(f"{name or where}/{model}/{pillar}", name, model, pillar, text, line)
    if not known:
        yield Problem(
            where, "no answer columns: expected dim and response, <dim>_response_<model> or <dim>_judge_output"
        )
    elif not name:
        yield Problem(where, "the row has no ID")


def _asked(text: Any) -> bool:
    """Whether a cell is an answer: judge.py leaves the pillars that it did not ask empty (None; NaN once through pandas)."""
    return not (text is None or text == "" or (isinstance(text, float) and text != text))


def judge_responses(path: Path, metadata: Metadata, protocol: str, facets: int = 56) -> Judged:
    """Read the verdict on every answer of a file.

    Raises:
        DataError: the file cannot be read or holds no answer. ConfigError: an unknown protocol.
    """
    found = Judged(problems=list(metadata.problems))
    for response in read_responses(path):
        if isinstance(response, Problem):
            found.problems.append(response)
        else:
            _place(found, response, metadata, protocol, facets)
    if not found.cases:
        raise DataError("no answers here: expected lines of case, ID, model, dim, response", path)
    return found


def _place(found: Judged, response: Response, metadata: Metadata, protocol: str, facets: int) -> None:
    case = response.case
    if case in found.cases:
        again = 2
        while f"{case} ({again})" in found.cases:
            again += 1
        if not response.line:
            found.problems.append(Problem(case, f"the case is there again; kept as '{case} ({again})'", response.model))
        case = f"{case} ({again})"
    verdict = _verdict(response, metadata, protocol, facets)
    found.cases[case] = verdict
    if verdict.status != "ok":
        found.problems.append(Problem(case, f"{verdict.status}: {verdict.reason}", response.model))
    elif verdict.reason:
        found.problems.append(Problem(case, verdict.reason, response.model))
    if not response.model or not response.id:
        found.problems.append(
            Problem(case, "the line names no model or no ID: judged, in no model's result", response.model)
        )
        return
    if response.pillar not in rubric():
        return
    if response.id not in metadata.facets:
        found.problems.append(Problem(case, f"the metadata have no ID {response.id}", response.model))
    found.rows.setdefault(response.model, {}).setdefault(_image(found, response), {})[response.pillar] = verdict


def _image(found: Judged, response: Response) -> tuple[str, int]:
    """Which image of an ID an answer is about: of a row each time that of the row, else the first that lacks its pillar."""
    rows, nth = found.rows.get(response.model, {}), 1
    while (response.id, nth) in rows:
        if response.line:
            if found.lines[response.model, response.id, nth] == response.line:
                break
        elif response.pillar not in rows[response.id, nth]:
            break
        nth += 1
    found.lines[response.model, response.id, nth] = response.line
    return response.id, nth


def _verdict(response: Response, metadata: Metadata, protocol: str, facets: int) -> Verdict:
    targeted = gate(protocol, metadata.facets.get(response.id, {}), response.pillar)
    if response.pillar not in rubric():
        return Verdict("invalid", f"there is no pillar '{response.pillar}'")
    return judge_answer(response.text, response.pillar, targeted, facets)
