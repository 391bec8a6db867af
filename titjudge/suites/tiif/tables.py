"""Results of TIIF-Bench from counts: the JSON of `aggregate tiif` and the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from titjudge.core.types import Json, Table, Values
from titjudge.suites.base import benchmark_table
from titjudge.suites.tiif.answers import AnswerCounts, AnswerProblem
from titjudge.suites.tiif.layout import DIMENSIONS, LENGTHS, SIZES, TYPES, TypeCounts, roll_up, which_set

_SHOWN = 20
_MEANS = ("overall", "basic", "advanced")


def summarise(cells: Mapping[str, TypeCounts], problems: Sequence[AnswerProblem], expected: Mapping[str, int]) -> Json:
    """Compute the result of one generator and length: by the official rule, by image (paper), counts and coverage.

    Values are in percent, unrounded, None where nothing was answered. `expected` is the number of prompts of each type.
    """
    official = roll_up({kind: cell.accuracy() for kind, cell in cells.items()})
    per_image = roll_up({kind: cell.accuracy(per_image=True) for kind, cell in cells.items()})
    scored = {kind: cells[kind].files if kind in cells else 0 for kind in TYPES}
    files = sum(scored.values())
    return {
        **official,
        "files": files,
        "questions": sum(cell.questions for cell in cells.values()),
        "correct": sum(cell.correct for cell in cells.values()),
        "per_image": per_image,
        "coverage": {
            "scored": files,
            "expected": sum(expected.values()),
            "unusable": len(problems),
            "missing_types": [kind for kind in TYPES if expected.get(kind) and not scored[kind]],
            "incomplete_types": {
                kind: [scored[kind], expected[kind]] for kind in TYPES if 0 < scored[kind] < expected.get(kind, 0)
            },
        },
        "problems": _named(problems),
    }


def _named(problems: Sequence[AnswerProblem]) -> list[dict[str, str]]:
    return [{"path": problem.path, "reason": problem.reason} for problem in problems]


def results(answers: AnswerCounts, expected: Mapping[tuple[str, str], Mapping[str, int]] | None = None) -> Json:
    """Compute `{"generators": {NAME: {"short": {...}, "long": {...}}}, ...}`; a length without answers has no values.

    Args:
        answers: The counts.
        expected: The number of prompts by (generator, length), then type; without it the set is inferred from the files,
            and `"set"` says which.
    """
    inferred = which_set((kind, cell.files) for cells in answers.cells.values() for kind, cell in cells.items())
    generators: Json = {}
    for generator in answers.generators:
        generators[generator] = {}
        for length in LENGTHS:
            problems = [p for p in answers.problems if p.generator == generator and p.length in (length, "")]
            sizes = SIZES[inferred] if expected is None else expected.get((generator, length), {})
            cells = answers.cells.get((generator, length), {})
            generators[generator][length] = summarise(cells, problems, sizes)
    record: Json = {"generators": generators, "unit": "percent"}
    if expected is None:
        record["set"] = inferred
    record["problems"] = _named(answers.problems)
    record["warnings"] = _warnings(record, inferred=expected is None)
    return record


def _rows(record: Values) -> list[tuple[str, str, Json]]:
    """List the results with generator and length."""
    return [(name, length, lengths[length]) for name, lengths in record["generators"].items() for length in LENGTHS]


def _warnings(record: Values, *, inferred: bool) -> list[str]:
    """Say where answers are missing, so that means must not be compared."""
    warnings = []
    rows = _rows(record)
    for name, length, result in rows:
        coverage = result["coverage"]
        if coverage["scored"] and coverage["scored"] < coverage["expected"]:
            types = ""
            if parts := len(coverage["incomplete_types"]):
                types += f"; {parts} types are incomplete"
            if missing := coverage["missing_types"]:
                types += f"; without an answer: {', '.join(missing)} (left out of every mean, as upstream does)"
            warnings.append(f"{name}, {length}: {coverage['scored']} of {coverage['expected']} images{types}")
        elif not coverage["scored"] and coverage["expected"]:
            warnings.append(f"{name}, {length}: no answers")
    scored = {result["files"] for _, _, result in rows if result["files"]}
    if len(scored) > 1:
        warnings.append("coverage differs between rows: these numbers do not rank the generators")
    if record["problems"]:
        warnings.append(f"{len(record['problems'])} files or folders could not be used and are not scored")
    if inferred and warnings:
        warnings.append(f"what is expected follows the {record['set']} set, inferred from the number of files")
    return warnings


def tables(record: Values) -> list[Table]:
    """Make the tables of overall results, dimensions and types, a row for each generator and length; percent."""
    rows = _rows(record)
    named = tuple(f"{problem['path']}: {problem['reason']}" for problem in record["problems"][:_SHOWN])
    more = len(record["problems"]) - _SHOWN
    notes = (*record["warnings"], *named, *((f"... and {more} more",) if more > 0 else ()))
    summary = benchmark_table(
        "TIIF-Bench: accuracy in percent, official rule, and by means over the images of each type",
        (
            *("generator", "length", *_MEANS),
            *("overall (images)", "basic (images)", "advanced (images)"),
            *("images", "expected", "unusable", "questions", "correct"),
        ),
        (
            (
                *(name, length, *map(result.get, _MEANS), *map(result["per_image"].get, _MEANS)),
                *map(result["coverage"].get, ("scored", "expected", "unusable")),
                *(result["questions"], result["correct"]),
            )
            for name, length, result in rows
        ),
        *notes,
        id="tiif",
    )
    dimensions = benchmark_table(
        "TIIF-Bench: the nine dimensions, percent, official rule",
        ("generator", "length", *DIMENSIONS),
        ((name, length, *map(result["dimensions"].get, DIMENSIONS)) for name, length, result in rows),
        *record["warnings"],
    )
    types = benchmark_table(
        "TIIF-Bench: the 39 types, percent, official rule",
        ("type", *(f"{name} {length}" for name, length, _ in rows)),
        ((kind, *(result["types"][kind] for _, _, result in rows)) for kind in TYPES),
        *record["warnings"],
    )
    return [summary, dimensions, types]


def published_table(record: Values) -> Table:
    """Make the table of what an official summary file says, a row for each generator and length; percent."""
    rows = (
        (name, length, *map(result.get, _MEANS), *map(result["dimensions"].get, DIMENSIONS))
        for name, length, result in _rows(record)
    )
    columns = ("generator", "length", *_MEANS, *DIMENSIONS)
    return benchmark_table("TIIF-Bench: as the official summary says, percent", columns, rows)
