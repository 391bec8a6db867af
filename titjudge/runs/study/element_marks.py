"""Compare the elements that a run has judged (questions, facets, elements of graphs) with people's marks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from titjudge.core import item_meta
from titjudge.core.errors import DataError
from titjudge.core.names import plain
from titjudge.core.score_parts import (
    alignment,
    element_name,
    element_scores,
    facet_name,
    facet_points,
    predictions,
    sequence,
)
from titjudge.core.types import Item, Score
from titjudge.data.tables import read_table
from titjudge.metrics.checklist import POINTS
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.study.human_study import choose_metric
from titjudge.stats.people.element_agreement import ElementLabels
from titjudge.stats.verdict.judged_runs import whole_frame

_MEANING = {"true": "yes", "false": "no", "na": "n/a"}
_MARKS = {points: str(mark) for mark, points in POINTS.items()}


def element_marks(run: Path, human: Path, metric: str | None = None) -> tuple[str, list[ElementLabels], list[str]]:
    """Join the elements that a metric of a run has judged with people's marks.

    Args:
        run: The run folder.
        human: A table with image, element, value. An element is the text of a question, a facet as
            `pillar / sub-capability / facet`, or an element of a graph (`cat`, `cat | black`, `cat | on | mat`) or of
            FGA-BLIP2 (`red cube (color)`); its value is yes or no, for facets 0, 1, 2 or n/a.
        metric: `yes-no`, `checklist`, `graph-alignment` or `fga-blip2`; needed where the run has several with elements.

    Returns:
        The metric, the marks, and notes on what could not be joined.

    Raises:
        ConfigError: No such metric.
        DataError: The file is malformed (names file and row), or nothing is in common.
    """
    people, frame = _people(human), whole_frame(RunFolder(run))
    elements = {
        name: [
            (item, *element)
            for _, item, score in frame.rows(name)
            if score.value is not None
            for element in _elements(item, score)
        ]
        for name in frame.metrics
    }
    named = [name for name in frame.metrics if elements[name]]
    if not named:
        raise DataError("no score of it has elements (yes-no, checklist, graph-alignment and fga-blip2 have)", run)
    notes: list[str] = []
    chosen = choose_metric(named, metric, run, notes)
    marks: dict[tuple[str, str], ElementLabels] = {}
    declared = frame.families()
    for item, element, kind, value in elements[chosen]:
        key, prompt = (item.id, element.casefold()), frame.prompt(item)
        if key in people:
            said = _same_scale(people[key], value)
            marks.setdefault(key, ElementLabels(prompt, kind, value, said, declared.get(prompt, "")))
    if not marks:
        first = next(iter(people), None)
        raise DataError(f"no element of it is one of {chosen} of this run{f', not {first}' if first else ''}", human)
    unjoined = len(people) - len(marks)
    notes += [f"{unjoined:,} of people's marks are on elements that the judge has not marked"] if unjoined else []
    return chosen, list(marks.values()), notes


def _people(file: Path) -> dict[tuple[str, str], str]:
    """Read people's marks by image and element."""
    marks: dict[tuple[str, str], str] = {}
    lines: dict[tuple[str, str], int] = {}
    for number, record in read_table(file, ("image", "element", "value")):
        text = str(record["value"]).strip().casefold()
        value = _MEANING.get(text, text)
        if value not in ("yes", "no", "0", "1", "2", "n/a"):
            raise DataError(f"the value is yes, no, 0, 1, 2 or n/a, not '{record['value']}'", file, number)
        key = (plain(str(record["image"])), str(record["element"]).strip().casefold())
        before = lines.setdefault(key, number)
        if marks.setdefault(key, value) != value:
            what = f"'{record['element']}' of '{record['image']}' is there twice, with another value in row {before}"
            raise DataError(
                f"{what}: give one value, such as the majority in elements.csv of `label export`", file, number
            )
    return marks


def _same_scale(people: str, judge: str) -> str:
    """Read people's 1 and 0 as yes and no, where the judge says yes or no."""
    return {"1": "yes", "0": "no"}.get(people, people) if judge in ("yes", "no") else people


def _elements(item: Item, score: Score) -> Iterator[tuple[str, str, str]]:
    """Yield name, kind and value of the elements of a score."""
    for kind, marks in (alignment(score.parts) or {}).items():
        for element, met in marks:
            yield element_name(sequence(element)), str(kind), "yes" if met else "no"
    for question, answer in zip(score.parts.get("questions", ()), predictions(score.parts), strict=False):
        if answer in ("yes", "no"):
            yield str(question), str(item_meta.TYPE.get(item) or "question"), answer
    for (pillar, sub, facet), points in facet_points(score.parts).items():
        mark = "n/a" if points is None else _MARKS.get(points)
        if mark is not None:
            yield facet_name(pillar, sub, facet), pillar, mark
    for element, kind, value in element_scores(score.parts):
        yield element, kind, "yes" if value >= 0.5 else "no"  # the threshold of EvalMuse's accuracy
