"""Read the files of Qwen-Image-Bench (tables, and the metadata with the facets of each prompt), and make its results of them.

Saved answers of a judge come in three shapes:

- long: one answer a line, `{"case", "ID", "model", "dim", "response"}`
- wide (input of compute_scores.py): one ID a line, `<dim>_response_<model>` columns
- judged (output of judge.py, `_judged.csv/.json/.jsonl`): one ID a line, `<dim>_judge_output` columns
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from titjudge.core import item_meta
from titjudge.core.errors import DataError, must_be
from titjudge.core.files import write_atomic, write_json
from titjudge.core.numbers import mean
from titjudge.core.types import Item, Json, Note, Score, Table, Values
from titjudge.data.data_paths import is_stray
from titjudge.data.tables import Rows, scan_table
from titjudge.metrics.checklist import COLUMNS, PillarMarks, gate, judge_answer, rubric, rubric_size, sub_capabilities
from titjudge.suites.base import benchmark_table, first_rows
from titjudge.suites.spreadsheet import write_sheets

Facets = dict[str, list[list[str]]]  # pillar -> [sub-capability, facet], in the order of the metadata

SUFFIXES = (".csv", ".json", ".jsonl")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that was not used, and why; `model` is the generator concerned, if there is one."""

    name: str
    reason: str
    model: str = ""


@dataclass(slots=True)
class Metadata:
    """The facets that each prompt activates, by its ID as text."""

    facets: dict[str, Facets] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def read_rows(path: Path) -> Rows:
    """Yield number and object of every row: csv, jsonl, or json (an array, or one object per line); a bad row is a DataError.

    Raises:
        DataError: The file cannot be read, has another format, is not UTF-8, or is a json array with invalid JSON.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise DataError(must_be("the format", f"one of {', '.join(SUFFIXES)}", path.suffix), path)
    for number, row in scan_table(path):
        if not isinstance(row, DataError) and None in row.values() and path.suffix.lower() == ".csv":
            row = DataError("the row has fewer cells than there are columns. Add cells", path, number)
        yield number, row


def id_text(value: Any) -> str:
    """Return an ID as text, empty if there is none: 7, 7.0, "7" and " 7 " are the same ID."""
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
        DataError: The file cannot be read, or has no usable row.
    """
    metadata = Metadata()
    for number, row in read_rows(path):
        where = f"{path.name}:{number}"
        if isinstance(row, DataError):
            metadata.problems.append(Problem(where, str(row)))
            continue
        name, dims = id_text(row.get("ID")), row.get("dims_en")
        if not name or not isinstance(dims, str):
            metadata.problems.append(Problem(where, "the row must have an ID and a text dims_en"))
            continue
        where = f"{where}: ID {name}"
        if name in metadata.facets:
            metadata.problems.append(Problem(where, "duplicate ID; the first row is used. Remove one of them"))
        else:
            metadata.facets[name], unknown = parse_facets(dims)
            metadata.problems += [
                Problem(where, f"the rubric has no facet '{entry}'. Correct its name") for entry in unknown
            ]
    if not metadata.facets:
        raise DataError("the file has no metadata. Give rows with ID and dims_en", path)
    return metadata


def find_metadata(folder: Path) -> Path | None:
    """Find `bench_metadata.json` in the folder or in its `metadata/`; None if there is none."""
    places = (folder / "bench_metadata.json", folder / "metadata" / "bench_metadata.json")
    return next((place for place in places if place.is_file()), None)


def manifests(folder: Path) -> list[Path]:
    """List the tables of images in a folder: every csv, json and jsonl but the outputs of the official scripts."""
    ends, outputs = ("_judged", "_bench_scores", "bench_metadata"), ("scores_detail", "responses", "pairs", "fetched")
    tables = [path for path in sorted(folder.iterdir()) if path.suffix.lower() in SUFFIXES and not is_stray(path.name)]
    return [path for path in tables if not path.stem.endswith(ends) and path.stem not in outputs]


@dataclass(frozen=True, slots=True)
class Response:
    """One answer.

    Attributes:
        case: Its name in results.
        id: The ID of the prompt; empty if the line names none.
        model: The generator; empty if the line names none.
        pillar: The pillar that was judged.
        text: The judge's answer; None if there is none.
        line: The line of the row with all answers about an image; 0 if each line is one answer.
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
        problems: Everything that was left out.
    """

    cases: dict[str, PillarMarks] = field(default_factory=dict)
    rows: dict[str, dict[tuple[str, int], dict[str, PillarMarks]]] = field(default_factory=dict)
    lines: dict[tuple[str, str, int], int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def read_responses(path: Path) -> Iterator[Response | Problem]:
    """Yield every answer in a file of one of the three shapes; a row that cannot be used is a Problem.

    The generators of wide rows are collected from all rows (the official script looks at the first only).

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
    """Yield the answers in a row that has several: a column per pillar (judged), or per pillar and generator (wide)."""
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
            # judge.py leaves cells of other pillars empty (None, or NaN after pandas)
            if text not in (None, "") and text == text:
                yield Response(f"{name or where}/{model}/{pillar}", name, model, pillar, text, line)
    if not has_answers:
        yield Problem(where, "no answer columns. Add dim and response, <dim>_response_<model> or <dim>_judge_output")
    elif not name:
        yield Problem(where, "the row has no ID. Add it")


def judge_responses(path: Path, metadata: Metadata, protocol: str, facets: int = 56) -> JudgedResponse:
    """Score every answer of a file.

    Raises:
        DataError: The file cannot be read or has no answer.
        ConfigError: The protocol is unknown.
    """
    judged = JudgedResponse(problems=list(metadata.problems))
    for response in read_responses(path):
        if isinstance(response, Problem):
            judged.problems.append(response)
        else:
            _add(judged, response, metadata, protocol, facets)
    if not judged.cases:
        raise DataError("the file has no answers. Give lines with case, ID, model, dim, response", path)
    return judged


def _add(judged: JudgedResponse, response: Response, metadata: Metadata, protocol: str, facets: int) -> None:
    """Score an answer, and put its verdict in its place."""

    def problem(reason: str) -> None:
        judged.problems.append(Problem(case, reason, response.model))

    case = response.case
    if case in judged.cases:
        again = next(n for n in count(2) if f"{case} ({n})" not in judged.cases)
        if not response.line:
            problem(f"duplicate case, kept as '{case} ({again})'. Remove one of them")
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
        problem("the line has no model or ID, so it is in no result. Add them")
    elif is_pillar:
        if response.id not in metadata.facets:
            problem(f"the metadata have no ID {response.id}. Add it")
        judged.rows.setdefault(response.model, {}).setdefault(_image(judged, response), {})[response.pillar] = verdict


def _image(judged: JudgedResponse, response: Response) -> tuple[str, int]:
    """Choose the image of an ID that an answer is about: the image of its row, otherwise the first without its pillar."""
    rows, nth = judged.rows.get(response.model, {}), 1
    while (image := (response.id, nth)) in rows:
        line = judged.lines[response.model, *image]
        if line == response.line if response.line else response.pillar not in rows[image]:
            break
        nth += 1
    judged.lines[response.model, *image] = response.line
    return image


LEVELS = ("level1", "level2", "level3")
Levels = Mapping[str, Values]
"""By level, then pillar: its points, and the points of its sub-capabilities and of their facets."""
_OURS = (
    "ID",
    item_meta.FACETS.name,
    item_meta.RUBRIC_FACETS.name,
)  # keys of an item's meta that are not columns of the input
_SUMMARY = "Level-1 Summary"
_ORDER = ("Quality", "Aesthetics", "Alignment", "Creative Generation", "Real-world Fidelity")  # of compute_scores.py


def levels(row: Mapping[str, PillarMarks]) -> Levels:
    """Collect the three levels of one image from the verdicts on its pillars; failed pillars drop out."""
    return {
        level: {pillar: getattr(verdict, level) for pillar, verdict in row.items() if verdict.status == "ok"}
        for level in LEVELS
    }


def total(row: Levels) -> float | None:
    """Compute the score of one image: the mean of its pillars."""
    return mean(row["level1"].values())


def summarise(rows: Iterable[Levels]) -> Json:
    """Average the images of a generator: each entry of each level, and `overall`, the mean of the images' totals.

    Entries without any number are left out, as in the official files; `overall` is then None.
    """
    rows = list(rows)
    means = {level: _means([row[level] for row in rows]) for level in LEVELS}
    return {"overall": mean(total(row) for row in rows), **means}


def _means(trees: Sequence[Any]) -> Any:
    """Average each leaf over the trees that have it, without leaves that none has, and branches without leaves."""
    if trees and not isinstance(trees[0], Mapping):
        return mean(trees)
    keys = dict.fromkeys(key for tree in trees for key, value in tree.items() if value is not None)
    means = {key: _means([tree[key] for tree in trees if tree.get(key) is not None]) for key in keys}
    return {key: value for key, value in means.items() if value is not None and value != {}}


def coverage(rows: Mapping[tuple[str, Any], Mapping[str, str]], facets: Mapping[str, Facets]) -> Json:
    """Count the answers of a generator.

    Args:
        rows: The status of every judged pillar, by image: its ID, and the distinction between images of one ID.
        facets: The facets that each ID activates; `missing` counts their pillars without an answer.
    """
    statuses = [status for row in rows.values() for status in row.values()]
    missing = [row for (name, _), row in rows.items() for pillar in facets.get(name, {}) if pillar not in row]
    return {
        "prompts": len({name for name, _ in rows}),
        "images": len(rows),
        "of_prompts": len(facets),
        "answers": len(statuses),
        **{status: statuses.count(status) for status in ("ok", "parse_failure", "invalid")},
        "missing": len(missing),
    }


def tables(models: Values, counts: Values, problems: Sequence[Problem]) -> list[Table]:
    """Make the tables of pillars and overall, sub-capabilities, facets, coverage, and the first problems."""
    order = sorted(models, key=lambda name: (models[name]["overall"] is None, -(models[name]["overall"] or 0), name))
    pillars = list(rubric())
    rows = [(name, *map(models[name]["level1"].get, pillars), models[name]["overall"]) for name in order]
    unused = [(problem.name, problem.model, problem.reason) for problem in problems]
    return [
        benchmark_table(
            "Qwen-Image-Bench", ("generator", *pillars, "Overall"), rows, *_notes(counts), id="qwen_image_bench"
        ),
        _detail("Qwen-Image-Bench: sub-capabilities", models, order, 2),
        _detail("Qwen-Image-Bench: facets", models, order, 3),
        _coverage_table(order, counts),
        *first_rows("Qwen-Image-Bench: not used", ("what", "generator", "why"), unused),
    ]


def _notes(counts: Values) -> list[Note]:
    line = "Overall is the mean of the images' totals, not of the pillars' means. Scale 0 to 100."
    notes = [Note("qwen_overall", line)]
    failed = {name: c["parse_failure"] + c["invalid"] + c["missing"] for name, c in counts.items()}
    if any(failed.values()):
        named = ", ".join(f"{name} {count}" for name, count in failed.items() if count)
        line = f"Pillars without a usable answer drop out of an image's mean: {named}."
        notes.append(Note("pillars_without_answer", line))
    if len({(c["prompts"], failed[name]) for name, c in counts.items()}) > 1:
        line = "Generators were judged on different numbers of prompts or answers: their order may be due to that."
        notes.append(Note("judged_on_different_numbers", line))
    return notes


def _detail(title: str, models: Values, order: Sequence[str], level: int) -> Table:
    """Make the table of one level: a row for each entry of the rubric (and of answers beside it), a column for each generator."""
    names: dict[tuple[str, ...], None] = {}
    for pillar in rubric():
        published = [(pillar, sub, facet) for facet, sub in sub_capabilities(pillar).items()]
        further = [
            (pillar, sub, facet)
            for model in order
            for sub, facets in models[model]["level3"].get(pillar, {}).items()
            for facet in facets
        ]
        names |= dict.fromkeys(name[:level] for name in (*published, *further))
    rows = ((*name, *(_at(models[model][f"level{level}"], name) for model in order)) for name in names)
    heads = ("pillar", "sub-capability", "facet")[:level]
    return benchmark_table(title, (*heads, *order), rows)


def _at(tree: Any, path: Sequence[str]) -> Any:
    """Return the entry of a tree at a path; None if there is none."""
    for name in path:
        tree = tree.get(name) if tree is not None else None
    return tree


def _coverage_table(order: Sequence[str], counts: Values) -> Table:
    columns = ("prompts", "images", "of_prompts", "answers", "ok", "parse_failure", "invalid", "missing")
    rows = ((name, *map(counts[name].get, columns)) for name in order if name in counts)
    note = Note(
        "qwen_coverage",
        "answers counts pillars; parse_failure: no JSON object; invalid: JSON on which the official code crashes; "
        "missing: a pillar that the prompt activates, without any answer",
    )
    return benchmark_table("Qwen-Image-Bench: coverage", ("generator", *columns), rows, note)


def write_bench_scores(result: Values, path: Path) -> None:
    """Write one generator's result as judge.py's `<stem>_bench_scores.json`, with level3 added."""
    write_json(
        path,
        {
            "level1": result["level1"],
            "level2": result["level2"],
            "total": result["overall"],
            "level3": result["level3"],
        },
    )


def write_bench_xlsx(result: Values, path: Path) -> None:
    """Write one generator's result as judge.py's `<stem>_bench_scores.xlsx`: a summary, and one sheet per pillar.

    Raises:
        MissingExtra: openpyxl is not installed.
    """
    summary = [*result["level1"].items(), ("Total", result["overall"])]
    pillars = {name: [("Sub-dimension", "Score"), *subs.items()] for name, subs in result["level2"].items() if subs}
    write_sheets(path, {_SUMMARY: [("Dimension", "Score"), *summary], **pillars})


def write_scores_result(models: Values, path: Path) -> None:
    """Write all generators as compute_scores.py's `scores_result.xlsx`: a summary, best first, and one sheet per pillar.

    Raises:
        MissingExtra: openpyxl is not installed.
    """
    order = _best_first(models)
    heads = ("Model", *_ORDER, "Total")
    summary = [(name, *map(models[name]["level1"].get, _ORDER), models[name]["overall"]) for name in order]
    sheets = {_SUMMARY: [heads, *summary]}
    for pillar in _ORDER:
        level2 = {name: models[name]["level2"].get(pillar, {}) for name in order}
        if subs := sorted({sub for points in level2.values() for sub in points}):
            sheets[pillar] = [("Model", *subs), *((name, *map(points.get, subs)) for name, points in level2.items())]
    write_sheets(path, sheets)


def _best_first(models: Values) -> list[str]:
    return sorted(models, key=lambda name: models[name]["overall"] or 0, reverse=True)


def write_scores_detail(models: Values, path: Path) -> None:
    """Write all generators as compute_scores.py's `scores_detail.json` (best first), with level3 added."""
    order = _best_first(models)
    write_json(
        path,
        {
            name: {"total": models[name]["overall"], **{level: models[name][level] for level in LEVELS}}
            for name in order
        },
    )


def write_judged(items: Sequence[Item], scores: Sequence[Score], path: Path) -> None:
    """Write answers as judge.py's `<stem>_judged.jsonl`: a line for each item, in order, with None if there is no answer.

    Further columns of the input are kept. `judge_model_output` has the corrected marks of all pillars as JSON text,
    `<dim>_judge_output` the raw answers.
    """
    by_id = {score.item_id: score for score in scores}
    lines = []
    for item in items:
        score = by_id.get(item.id)
        outputs = score.parts.get("outputs", {}) if score else {}
        facets = rubric_size(item)
        corrected = {pillar: judge_answer(text, pillar, facets=facets).corrected for pillar, text in outputs.items()}
        marks = {pillar: mark for pillar, mark in corrected.items() if mark is not None}
        row = {
            "ID": int(item.prompt_id) if item.prompt_id.isascii() and item.prompt_id.isdigit() else item.prompt_id,
            "model": item.generator,
            "prompt": item.prompt,
            "image_path": str(item.image or ""),
            **{name: value for name, value in item.meta.items() if name not in _OURS},
        }
        row["judge_model_output"] = json.dumps(marks, ensure_ascii=False) if marks else None
        row |= {f"{column}_judge_output": outputs.get(pillar) for column, pillar in COLUMNS.items()}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    write_atomic(path, "".join(lines))
