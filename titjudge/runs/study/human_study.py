"""Read from a stored run what the statistics of trust need: the judge's preferences, and marks of elements, beside people's."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from titjudge.core import item_meta, registry
from titjudge.core.declarations import Excluded, Exclusion
from titjudge.core.errors import ConfigError, DataError, must_be, nearest
from titjudge.core.grouping import grouped
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
from titjudge.core.types import Item, Note, Pair, Score
from titjudge.data.published_labels import PublishedLabels, published_labels
from titjudge.data.tables import read_table
from titjudge.metrics.checklist import POINTS
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.stats.bootstrap import LEVEL
from titjudge.stats.equality import same
from titjudge.stats.pairwise_accuracy import Values
from titjudge.stats.people.element_agreement import ElementLabels
from titjudge.stats.ppi.ppi_leaderboard import PeopleBoard, people_board
from titjudge.stats.scores.families import Families, family_notes
from titjudge.stats.verdict.judged_runs import joined, stored_run, whole_frame


def people_study(
    run: RunFolder, human: Sequence[Pair], metric: str | None = None, *, level: float = LEVEL
) -> tuple[str, PeopleBoard]:
    """Join people's pairs with the preferences of a metric over all pairs of a run, to the leaderboard that people would give.

    A pair of which an image has no score is a tie of the judge, whether people compared it or not: if the two kinds were
    treated differently, the interval would miss its level. Warnings of the leaderboard count these, and pairs of other images.

    Args:
        run: The run folder.
        human: People's pairs.
        metric: The metric that is the judge; None for the first.
        level: Confidence level of the intervals.

    Returns:
        The metric, and the leaderboard.

    Raises:
        ConfigError: No such metric.
        DataError: No run folder, fewer than two generators, or no human pair of the run's images.
    """
    judged = stored_run(run, str(run.path))
    frame, items = joined([judged]), list(judged.items.values())
    warnings = frame.notes()
    name = choose_metric(frame.metrics, metric, run.path, warnings, frame.unscored)
    generator_of = {item.id: item.generator for item in items}
    if len(set(generator_of.values())) < 2:
        raise DataError(
            "its images are by fewer than two generators, so there is no ranking. Judge a second generator", run.path
        )
    prompt_of = {item.id: frame.prompt(item) for item in items}
    frame.pairs = [replace(pair, prompt_id=prompt_of.get(pair.a, "")) for pair in human]
    declared = frame.families()
    warnings += family_notes(list(dict.fromkeys(prompt_of.values())), declared)
    pairs = [
        replace(pair, prompt_id=declared.get(prompt_of[pair.a], prompt_of[pair.a]))
        for pair in human
        if pair.a in prompt_of and prompt_of[pair.a] == prompt_of.get(pair.b)
    ]
    if not any(generator_of[pair.a] != generator_of[pair.b] for pair in pairs):
        named = f"; a pair names '{human[0].a}', the run '{items[0].id}'" if human and not pairs else ""
        raise DataError(
            f"no human pair has two images of one prompt by two generators of this run{named}. Correct the names",
            run.path,
        )
    judge, unscored = _preferences(items, prompt_of, frame.values(name), declared)
    board = people_board(pairs, judge, generator_of, level=level)
    warnings += board.warnings
    if unscored:
        line = f"{unscored} of {len(judge)} pairs have no score of the judge: counted as its ties"
        warnings.append(Note("pairs_unscored", line))
    unknown = [f"{p.a} / {p.b}" for p in human if prompt_of.get(p.a) is None or prompt_of[p.a] != prompt_of.get(p.b)]
    excluded: Excluded = {Exclusion.OTHER_IMAGES: {"": unknown}} if unknown else {}
    return name, replace(board, warnings=tuple(warnings), excluded=excluded, families=bool(declared))


def choose_metric(
    names: Sequence[str], metric: str | None, run: Path, notes: list[Note] | None = None, unscored: Collection[str] = ()
) -> str:
    """Choose one of the metrics of a run.

    Args:
        names: The metrics to choose from, in the order of the run.
        metric: The one that was named; None for the first (`registry.first_metric`).
        run: The run folder.
        notes: Gets a line if the first of several was chosen; without it several are an error, as for training, which the
            wrong metric would spoil.
        unscored: The metrics without any score, which are chosen only by name.

    Raises:
        ConfigError: There is no such metric; or none was named of several, without `notes`.
        DataError: The run has no score.
    """
    available = sorted(set(names))
    listed = ", ".join(available)
    if not available:
        raise DataError("the run has no scores. Judge images first", run)
    if metric is not None and metric not in available:
        raise ConfigError(f"{run}: unknown metric '{metric}'.{nearest(metric, available)} Known: {listed}")
    if metric is not None or len(available) == 1:
        return metric or available[0]
    if notes is None:
        raise ConfigError(f"{run} has several metrics: {listed}. Choose one with --metric")
    chosen = registry.first_metric(names, unscored)
    others = [name for name in available if name not in {chosen, *unscored}]
    line = f"choose another with --metric: {', '.join(others)}" if others else f"no other of {listed} has a score"
    notes.append(Note("metric_chosen", f"by {chosen}; {line}"))
    return chosen


def _preferences(
    items: Sequence[Item], prompt_of: Mapping[str, str], values: Values, declared: Families
) -> tuple[list[Pair], int]:
    """Return the judge's preference over each pair, under the family of its prompt, and the number of pairs without a score."""
    pairs, unscored = [], 0
    for prompt, members in grouped(items, lambda item: prompt_of[item.id]).items():
        for a, b in combinations(members, 2):
            if a.generator == b.generator:
                continue
            x, y = values.get(a.id), values.get(b.id)
            unscored += x is None or y is None
            preferred = "tie" if x is None or y is None or same(x, y) else "a" if x > y else "b"
            pairs.append(Pair(declared.get(prompt, prompt), a.id, b.id, preferred))
    return pairs, unscored


_MEANING = {"true": "yes", "false": "no", "na": "n/a"}
_MARKS = {points: str(mark) for mark, points in POINTS.items()}


def element_marks(run: Path, human: Path, metric: str | None = None) -> tuple[str, list[ElementLabels], list[Note]]:
    """Join the elements that a metric of a run has judged with people's marks.

    Args:
        run: The run folder.
        human: A table with image, element, value. An element is the text of a question, a facet as
            `pillar / sub-capability / facet`, or an element of a graph (`cat`, `cat | black`, `cat | on | mat`) or of
            FGA-BLIP2 (`red cube (color)`); its value is yes or no, for facets 0, 1, 2 or n/a. Or the file of a published data
            set (`published_labels`).
        metric: `yes-no`, `checklist`, `graph-alignment` or `fga-blip2`; needed if the run has several with elements.

    Returns:
        The metric, the marks, and notes on what could not be joined.

    Raises:
        ConfigError: No such metric.
        DataError: The file is malformed (names file and row), or nothing is in common.
    """
    published = published_labels(human)
    people: Mapping[tuple[str, str], tuple[str, object]] = {} if published else people_marks(human)
    frame = whole_frame(RunFolder(run))
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
        raise DataError("the run has no scores with elements. Use yes-no, checklist, graph-alignment or fga-blip2", run)
    notes = frame.notes()
    chosen = choose_metric(named, metric, run, notes)
    if published:
        people = _published_marks(published, [(item, element) for item, element, *_ in elements[chosen]])
        notes.append(Note("rule_of_labels", f"{published.name}: {published.rule}"))
    marks: dict[tuple[str, str], ElementLabels] = {}
    declared = frame.families()
    for item, element, kind, value in elements[chosen]:
        key, prompt = (item.id, element.casefold()), frame.prompt(item)
        if key in people:
            said, _ = people[key]
            if value in ("yes", "no"):  # on the same scale
                said = {"1": "yes", "0": "no"}.get(said, said)
            marks.setdefault(key, ElementLabels(prompt, kind, value, said, declared.get(prompt, "")))
    if not marks:
        if published:
            if not published.images:
                raise DataError("no image with labels. Check the download", human)
            first_image = " ".join(next(iter(published.images)).split())
            raise DataError(
                f"none of {len(published.images):,} images, such as {first_image}, has a label of an element of {chosen} in this run. "
                "Keep file names and prompts as published",
                human,
            )
        first = next(iter(people), None)
        raise DataError(
            f"none of its elements is an element of {chosen} in this run{f', such as {first}' if first else ''}. Correct the names",
            human,
        )
    unjoined = len(people) - len(marks)
    line = f"{unjoined:,} of people's marks are on elements that the judge has not marked"
    notes += [Note("marks_unjoined", line)] if unjoined else []
    return chosen, list(marks.values()), notes


def _published_marks(
    published: PublishedLabels, elements: Sequence[tuple[Item, str]]
) -> dict[tuple[str, str], tuple[str, object]]:
    """Look up the labels of elements of images in a published data set."""
    images = published.of(dict.fromkeys(item.id for item, _ in elements))
    marks: dict[tuple[str, str], tuple[str, object]] = {}
    for item, element in elements:
        label = published.read(images[item.id], item.prompt, element) if item.id in images else None
        if label is not None:
            marks[item.id, element.casefold()] = ("yes" if label else "no"), None
    return marks


def people_marks(file: Path) -> dict[tuple[str, str], tuple[str, Mapping[str, object]]]:
    """Read people's marks by image and element in small letters: the value, and the whole row of the file.

    Raises:
        DataError: The file has other columns or values, or two values for one element; names file and row.
    """
    marks: dict[tuple[str, str], tuple[str, Mapping[str, object]]] = {}
    for number, record, image, element, value in mark_rows(file):
        if value not in ("yes", "no", "0", "1", "2", "n/a"):
            raise DataError(must_be("the value", "yes, no, 0, 1, 2 or n/a", record["value"]), file, number)
        marks[image, element] = value, record
    return marks


def mark_rows(file: Path) -> Iterator[tuple[int, Mapping[str, object], str, str, str]]:
    """Yield number, content, image, element and value of each row of a table of marks; elements and values in small letters.

    Raises:
        DataError: The file has other columns, or two values for one element; names file and row.
    """
    rows: dict[tuple[str, str], tuple[str, int]] = {}
    for number, record in read_table(file, ("image", "element", "value")):
        text = str(record["value"]).strip().casefold()
        value = _MEANING.get(text, text)
        key = (plain(str(record["image"])), str(record["element"]).strip().casefold())
        known, before = rows.setdefault(key, (value, number))
        if known != value:
            what = f"'{record['element']}' of '{record['image']}' has another value in row {before}"
            raise DataError(
                f"{what}. Give one value, such as the majority in elements.csv of `label export`", file, number
            )
        yield number, record, *key, value


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
