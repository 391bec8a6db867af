"""Verify a run: everything in it is computed again from its stored answers, and no request is sent.

Checked in this order: the prompt templates and metric versions against the manifest, the lines of the folder, each item's
image against the hash that was judged, each score against the same metric over the stored answers (values to 1e-9
relative), and each table cell of results.json against the tables of the recomputed scores.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from titjudge.core.errors import ConfigError, DataError
from titjudge.core.files import has_lines
from titjudge.core.prompts import PromptLibrary
from titjudge.core.run_records import Manifest, Results, TableRecord
from titjudge.core.serialization import checksum_differs, item_from, score_from, score_record
from titjudge.core.tables import Cell, Table
from titjudge.core.types import Item, Json, Note, Score, Status
from titjudge.data import containers
from titjudge.data.images import RequestImages
from titjudge.engine.pipeline import Engine
from titjudge.engine.scoring import Panel
from titjudge.metrics import Metric
from titjudge.runs.check.replay import BAD_CHECKSUM, Stored, StoredImages, checked_lines, replay_engine
from titjudge.runs.folder import journal
from titjudge.runs.folder.identity import config_of
from titjudge.runs.folder.run_folder import FILES, RunFolder
from titjudge.runs.loop import prepared
from titjudge.runs.outcome import slimness
from titjudge.runs.resolve import stored_run
from titjudge.runs.results import summarize
from titjudge.stats.people.agreement_tables import UNNAMED
from titjudge.stats.scores.per_prompt import PerPrompt
from titjudge.stats.verdict.judged_runs import JudgedRun, StoredScores, readers
from titjudge.stats.verdict.verdict import verdict
from titjudge.suites.base import Suite

TOLERANCE = 1e-9
_SECTIONS = tuple("metrics leaderboard leaderboard_srcc items bad_items failures cut spent list_cost verdict".split())
_SENTENCES = tuple(
    "reason reasons apart ndcg_gain ndcg_ties ndcg_paper_fit_gain".split()
)  # of titjudge, but beside those below
_QUOTED = ("item", "id")  # an input: they are stored with it


def cells(before: Results, now: Results, tables: Sequence[Table]) -> Iterator[tuple[str, Any, Any]]:
    """Yield every cell of two results: its place in words, and its value in each (None if it is missing).

    Sentences of titjudge decide nothing: of those both must have one, and of the words in a table their numbers must agree.
    """
    yield from _table_cells(before.tables, tables)
    first, second = before.to_json(), now.to_json()
    for name in _SECTIONS:
        yield from _walk(name, first.get(name), second.get(name))


def _paired(before: Sequence[TableRecord], now: Sequence[Table]) -> Iterator[tuple[TableRecord, Table | None]]:
    """Pair the tables of the same id in their order; None stands for one that is gone."""
    new = list(now)
    for first in before:
        second = next((table for table in new if table.declared.id == first.id), None)
        yield first, second
        new = [table for table in new if table is not second]


def _columns(table: TableRecord | Table) -> dict[str | int, str]:
    """Return the titles of the columns by key, or by place if they have no keys."""
    return dict(zip(table.keys or range(len(table.columns)), table.columns, strict=True))


def _table_cells(before: Sequence[TableRecord], now: Sequence[Table]) -> Iterator[tuple[str, Any, Any]]:
    for first, second in _paired(before, now):
        title = f"table '{first.title}'"
        if second is None:
            yield title, first.title, None
            continue
        index = {key: number for number, key in enumerate(_columns(second))}
        columns = _columns(first)
        if not index.keys() >= columns.keys():
            yield f"{title}, columns", first.columns, list(second.columns)
            continue
        yield f"{title}, number of rows", len(first.rows), len(second.rows)
        for row, record, cells_now in zip(first.rows, TableRecord.of_table(second).rows, second.rows, strict=False):
            for (key, column), value in zip(columns.items(), row, strict=False):
                text = record[index[key]]
                is_same = isinstance(cells_now[index[key]], Cell) and _numbers(value) == _numbers(text)
                yield f"{title}, row '{record[0]}', column '{column}'", value, value if is_same else text


def _numbers(text: object) -> list[str]:
    """List the numbers in the text of a cell."""
    return re.findall(r"[-<]?\d[\d.,]*%?|∞", str(text))


def _walk(path: str, before: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            first, second = before.get(key), now.get(key)
            if key in _SENTENCES and before.keys().isdisjoint(_QUOTED):
                first, second = bool(first), bool(second)
            yield from _walk(f"{path}.{key}", first, second)
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, (first, second) in enumerate(zip(before, now, strict=True)):
            yield from _walk(f"{path}[{number}]", first, second)
    else:
        yield path, before, now


def same(first: Any, second: Any) -> bool:
    """Return True if two JSON values are equal, numbers to a relative tolerance of 1e-9."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if _number(first) and _number(second):
        return first == second or math.isclose(first, second, rel_tol=TOLERANCE, abs_tol=1e-12)
    return type(first) is type(second) and bool(first == second)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def text_of_cell(value: Any) -> str:
    """Format a cell for a message."""
    return "no value" if value is None else repr(value)


_WITHOUT_ANSWER = frozenset({Status.FAILED, Status.BUDGET, Status.MISSING})


@dataclass(frozen=True, slots=True)
class VerifyProblem:
    """Something that is wrong.

    Attributes:
        kind: `manifest`, `line`, `prompt`, `metric`, `question`, `picture`, `score` or `table`.
        where: The place, as a person finds it: file and line, item and metric, or table cell.
        what: The fault.
        item: The item that it concerns; empty if none is known.
    """

    kind: str
    where: str
    what: str
    item: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(slots=True)
class VerificationResult:
    """The checks that were made, and the problems in the order in which they were found.

    Attributes:
        run: The run folder.
        checked: How many items, scores, cells, ... were checked.
        problems: The faults.
        notes: Parts that could not be checked, with reasons.
    """

    run: Path
    checked: Counter[str] = field(default_factory=Counter)
    problems: list[VerifyProblem] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.problems

    @property
    def first_item(self) -> VerifyProblem | None:
        """The first problem that names an item; one with its score or image comes before one with a line."""
        named = [problem for problem in self.problems if problem.item]
        return min(named, key=lambda problem: problem.kind not in ("score", "picture"), default=None)

    @property
    def first_cell(self) -> VerifyProblem | None:
        """The first problem with a table cell."""
        return next((problem for problem in self.problems if problem.kind == "table"), None)

    def add(self, kind: str, where: str, what: str, item: str = "") -> None:
        """Add a problem, unless it is one of the last 20."""
        problem = VerifyProblem(kind, where, what, item)
        if problem not in self.problems[-20:]:
            self.problems.append(problem)

    def to_json(self) -> Json:
        """Return the verification as JSON, with the first 1,000 problems."""
        item, cell = self.first_item, self.first_cell
        return {
            "run": str(self.run),
            "holds": self.holds,
            "checked": dict(self.checked),
            "wrong": dict(Counter(problem.kind for problem in self.problems)),
            "first_item": {"item": item.item, "where": item.where, "what": item.what} if item else None,
            "first_cell": {"cell": cell.where, "what": cell.what} if cell else None,
            "problems": [asdict(problem) for problem in self.problems[:1000]],
            "notes": self.notes,
        }


def verify(path: Path) -> VerificationResult:
    """Check a run folder without changing it.

    Raises:
        DataError: This is not a run folder, or nothing was judged in it.
        ConfigError: The run's suite, a metric or its prompt folder is missing.
    """
    return asyncio.run(_verify(RunFolder(path)))


async def _verify(folder: RunFolder) -> VerificationResult:
    result = VerificationResult(folder.path)
    manifest = folder.manifest()
    config = config_of(manifest.identity, folder.path)
    if not folder.begun:
        raise DataError("the run has no scores to verify. Judge images first", folder.path)
    run = stored_run(config)
    metrics, suite = run.metrics, run.suite
    _check_versions(manifest, metrics, PromptLibrary(config.prompts), result)
    if checksum_differs(orjson.loads((folder.path / "manifest.json").read_bytes())):
        result.add("manifest", "manifest.json", BAD_CHECKSUM)
    complete = manifest.status == "complete"
    _check_ends(folder, complete, result)
    stored, images = Stored(folder.path, result.add), StoredImages(result.add)
    read_item, read_score = readers(**slimness(manifest, suite, metrics))
    scores = _stored_scores(folder, result, read_score)
    items = [read_item(item_from(record, folder.path)) for _, record in _located(folder, "items.jsonl", result)]
    result.checked["items"] = len(items)
    if has_lines(folder.path / "billing.jsonl"):
        result.checked["bills"] = sum("cost" in bill for _, bill in _located(folder, "billing.jsonl", result))
    async with replay_engine(config, manifest, stored, images) as engine:
        checker = _ScoreChecker(engine, stored, images, Panel.from_config(config), scores, result)
        for item in prepared(folder.items(), metrics):
            if isinstance(item, Item):
                for name, metric in metrics.items():
                    await checker.check(item, name, metric, complete)
    result.checked.update(answers=stored.answers, vectors=stored.vectors, images=images.seen)
    checker.add_notes()
    if (folder.path / "report.html").is_file():
        line = "report.html is not checked: `python cli.py report` writes it again from what is"
        result.notes.append(Note("report_not_checked", line))
    if manifest.status == "running":
        line = "the run was going on, or was killed: its tables are not compared"
        result.notes.append(Note("run_not_ended", line))
    else:
        _check_tables(folder, JudgedRun(UNNAMED, manifest, Results(), items, scores), suite, metrics, result)
    return result


def _check_versions(
    manifest: Manifest, metrics: Mapping[str, Metric], library: PromptLibrary, result: VerificationResult
) -> None:
    for name, digest in manifest.prompts.items():
        result.checked["templates"] += 1
        try:
            now = library.get(name).sha256
        except ConfigError as error:
            result.add("prompt", f"prompt {name}", str(error))
            continue
        if now != digest:
            result.add("prompt", f"prompt {name}", f"its SHA-256 was {digest[:16]} in the run and is {now[:16]} here")
    for name, record in manifest.metrics.items():
        if name in metrics and metrics[name].version != record.version:
            what = f"version {record.version} in the run, version {metrics[name].version} here"
            result.add("metric", f"metric {name}", what)


def _check_ends(folder: RunFolder, complete: bool, result: VerificationResult) -> None:
    """Report a last line without its newline, which a kill leaves, as a problem of a complete run and a note on others."""
    for file in (folder.path / f"{name}.jsonl" for name in ("items", *FILES)):
        if has_lines(file) and journal.torn(file):
            if complete:
                result.add("line", file.name, "its last line has no end")
            else:
                result.notes.append(Note("line_torn", f"{file.name}: its last line has no end and was left out"))


def _located(folder: RunFolder, name: str, result: VerificationResult) -> Iterator[tuple[int, Json]]:
    """Read the valid records of a file that every run has, with their offsets, and report the other lines."""
    if not has_lines(folder.path / name):
        result.add("line", name, "the file is missing")
    return checked_lines(folder.path / name, result.add)


def _stored_scores(folder: RunFolder, result: VerificationResult, read: Callable[[Json], Score]) -> StoredScores:
    """Read the last score of each item and metric; what `read` leaves out is read again when the score is checked."""

    def readable() -> Iterator[tuple[int, Json]]:
        for offset, record in _located(folder, "scores.jsonl", result):
            try:
                read(record)
            except (TypeError, ValueError) as error:
                result.add("line", "scores.jsonl", f"not a score ({error})", str(record["item"]))
            else:
                yield offset, record

    return StoredScores(folder.path, readable(), read)


@dataclass(slots=True)
class _ScoreChecker:
    """Computes scores again and compares them with the stored ones.

    Attributes:
        before: The stored scores; a score that comes out otherwise takes the place of the stored one in the tables.
        unanswered: Scores without a value that no answer explains.
        without_image: Scores that cannot be computed again, as the metric needs an image that is missing.
    """

    engine: Engine
    stored: Stored
    images: StoredImages
    panel: Panel
    before: StoredScores
    result: VerificationResult
    unanswered: int = 0
    without_image: int = 0
    _images_shown: Callable[[str, str], RequestImages] = field(init=False)
    _whole: Callable[[str, str], Score] = field(init=False)

    def __post_init__(self) -> None:
        self._whole = lru_cache(maxsize=1024)(self.before.whole)
        self._images_shown = lru_cache(maxsize=4096)(lambda item, name: self.stored.images_of(self._keys(item, name)))

    async def check(self, item: Item, name: str, metric: Metric, complete: bool) -> None:
        """Score an item again and compare with the stored scores; the scores of a complete run must be there."""
        before = dict(self._stored_of(item.id, name))
        if not before:
            if complete and metric.applies(item):
                self.result.add("score", f"{item.id}, {name}", "the run is complete, and the score is missing", item.id)
            return
        self._expect(item, name)
        self.stored.begin(item.id, frozenset(self._keys(item.id, name)))
        try:
            now = await self.panel.score(self.engine, item, name, metric)
        except Exception as error:
            status = Status.BAD_INPUT if isinstance(error, DataError | OSError) else Status.UNPARSED
            failed = Score.none(status, f"the metric fails on the stored answers: {error}")
            now = [replace(failed, item_id=item.id, metric=key) for key in before]
        again = {score.metric: _plain(score) for score in now}
        for key, score in before.items():
            self.result.checked["scores"] += 1
            self._compare(item, score, again.get(key))

    def _stored_of(self, item: str, name: str) -> Iterator[tuple[str, Score]]:
        """Yield the stored score of an item by a metric, and the scores of the single judges of a panel."""
        names = [name]
        if len(self.panel.judges) > 1:
            labels = [self.engine.roles[judge].label for judge in self.panel.judges]
            names += [f"{name} [{label}]" for label in dict.fromkeys(labels)]
        for key in names:
            if (item, key) in self.before:
                yield key, self._whole(item, key)

    def _expect(self, item: Item, name: str) -> None:
        """Set which images the item's questions must show: the item's, its sources, and the images it was compared with."""
        self.images.item = item.id
        self.images.expected = {}
        for other in (item, *item.same_prompt):
            expected = self._images_shown(other.id, name)
            if other.sources:
                expected = RequestImages(None, expected.all)  # no telling which of them is which
            for image in (other.image, *other.sources):
                if image is not None:
                    self.images.expected[image] = expected
        if item.image is not None and self.images.expected[item.image].all:
            self.images.count(item.image)

    def _keys(self, item: str, name: str) -> list[str]:
        return list(dict.fromkeys(key for _, score in self._stored_of(item, name) for key in score.replies))

    def _compare(self, item: Item, before: Score, now: Score | None) -> None:
        where = f"{item.id}, {before.metric}"
        absent = [key for key in before.replies if not self.stored.has(key)]
        if absent:
            what = f"{len(absent)} of the {len(before.replies)} answers it names are not on file"
            self.result.add("score", where, what, item.id)
        if now is None:
            self.result.add("score", where, "the metric no longer gives this score", item.id)
            return
        paths = [image for other in (item, *item.same_prompt) for image in (other.image, *other.sources)]
        missing = any(image is not None and not containers.exists(image) for image in paths)
        if now.status is Status.BAD_INPUT and missing:
            self.without_image += before.value is not None
            return
        what = difference(before, now, self.stored.said, exact=not self.stored.missed)
        self.unanswered += not what and before.value is None and before.status in _WITHOUT_ANSWER
        if what and before.value is None and self._explained(before, now):
            self.unanswered += 1
            return
        if what:
            self.result.add("score", where, what, item.id)
            self.before[item.id, before.metric] = replace(now, item_id=item.id, metric=before.metric)

    def _explained(self, before: Score, now: Score) -> bool:
        """Return True if the missing value of a score has a reason: its question was answered for another item, or never."""
        if before.status in _WITHOUT_ANSWER:
            return now.value is None or not self.stored.used <= set(before.replies)
        return before.status is not Status.BAD_INPUT and self.stored.ended_as(before.replies, before.status)

    def add_notes(self) -> None:
        """Write which parts could not be checked."""
        images, again, empty, found = (
            self.images.absent,
            self.without_image,
            self.unanswered,
            self.stored.matched_by_content,
        )
        counted = f"{again} scores were computed from images that are not here, and could not be computed again"
        by_text = f"{found} questions were found by their text: the adapter or model that made their keys is not here"
        unanswered = f"{empty} scores have no value because no answer came: nothing to compute them from"
        notes = {
            Note("images_absent", f"{images} images are not here: their hashes could not be checked"): images,
            Note("scores_without_image", counted): again,
            Note("scores_without_answer", unanswered): empty,
            Note("questions_found_by_text", by_text): found,
        }
        self.result.notes += (note for note, count in notes.items() if count)


def _plain(score: Score) -> Score:
    """Return the score as it would be read from a file; a value that is not finite counts as none."""
    record = orjson.loads(orjson.dumps(score_record(score), option=orjson.OPT_SERIALIZE_NUMPY))
    if score.value is not None and not math.isfinite(score.value):
        record |= {"value": None, "status": Status.UNPARSED, "reason": f"the value is {score.value}"}
    return score_from(record)


def difference(before: Score, now: Score, said: Sequence[str] = (), *, exact: bool = True) -> str:
    """Write in one line the difference between a stored and a recomputed score; empty if there is none.

    Args:
        before: The stored score.
        now: The recomputed one.
        said: The texts of the answers. A reason must be the same if it quotes one; of the words of a metric only the
            numbers count.
        exact: Whether to compare reason and parts, which may differ if an answer never came.
    """
    if not same(before.value, now.value):
        reason = f" ({now.status}: {now.reason})" if now.value is None else ""
        return f"{text_of_cell(before.value)} is stored, {text_of_cell(now.value)} comes out{reason}"
    if before.status != now.status and not (before.status in _WITHOUT_ANSWER and now.status in _WITHOUT_ANSWER):
        return f"the status {before.status} is stored, {now.status} comes out"
    if exact and before.value is not None:
        quoted = orjson.dumps(now.reason).decode().strip('"')
        own = not any(now.reason in text or quoted in text for text in said)
        if before.reason != now.reason and not (own and _numbers(before.reason) == _numbers(now.reason)):
            return "the stored reason is not the one that was answered"
        for name in {**before.parts, **now.parts}:
            if not same(before.parts.get(name), now.parts.get(name)):
                return f"the stored part '{name}' does not follow from the answers"
    if (before.generator, before.prompt_id) != (now.generator, now.prompt_id):
        return "the stored generator or group is not the item's"
    return ""


def _check_tables(
    folder: RunFolder, run: JudgedRun, suite: Suite, metrics: dict[str, Metric], result: VerificationResult
) -> None:
    try:
        before = folder.results()
    except DataError as error:
        result.add("line", "results.json", error.message)
        return
    if not (folder.path / "results.json").is_file():
        result.notes.append(Note("no_results", "there is no results.json: no table to compare"))
        return
    run.count(folder.items)
    results, tables = summarize(
        run.listed,
        run.scores.values(),
        suite,
        before.human_pairs,
        metrics,
        status="settled" if before.settle else "",
        money=folder.money(),
        per_prompt=PerPrompt.parse(before.per_prompt),
    )
    run.results = results.joined(Results(settle=before.settle))
    results = results.joined(Results(verdict=verdict([run])))
    stored = {table.id for table in before.tables}
    if new := [table.title for table in tables if table.declared.id not in stored]:
        line = f"not compared, as the run does not have these tables: {', '.join(new)}"
        result.notes.append(Note("tables_not_compared", line))
    for where, first, second in cells(before, results, tables):
        result.checked["cells"] += 1
        if not same(first, second):
            result.add("table", where, f"{text_of_cell(first)} is stored, {text_of_cell(second)} comes out")
