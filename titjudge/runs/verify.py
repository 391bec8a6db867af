"""Does a run hold? Everything it says is computed again from its own stored answers, and nothing is asked.

Checked in this order: the lines of the folder, the prompt templates and metric versions against the manifest, each
item's image against the hash that was judged, each score against the same metric over the stored answers (values to
1e-9 relative), and each table cell of results.json against the tables of the recomputed scores.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from titjudge.core import containers
from titjudge.core.config import RunConfig
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.images import Shown
from titjudge.core.prompts import PromptLibrary
from titjudge.core.run_records import Manifest
from titjudge.core.serialization import checksum_differs, item_from, score_from, score_record
from titjudge.core.types import InvalidItem, Item, Score, Status
from titjudge.engine.pipeline import Engine
from titjudge.engine.scoring import Panel
from titjudge.metrics import Metric
from titjudge.runs import journal
from titjudge.runs.loop import prepared
from titjudge.runs.replay import UNSEALED, Stored, StoredPictures, replaying
from titjudge.runs.resolve import load_metrics, load_suite
from titjudge.runs.results import summarize
from titjudge.runs.results_diff import added, cells, same, shown, without_intervals
from titjudge.runs.run_folder import FILES, RunFolder
from titjudge.stats.intervals import WAY
from titjudge.stats.per_prompt import PerPrompt

_ABSENT = frozenset({Status.FAILED, Status.BUDGET, Status.MISSING})  # nothing came: nothing is on file


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that does not hold. `kind`: manifest, line, prompt, metric, question, image, score or table."""

    kind: str
    where: str
    what: str
    item: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(slots=True)
class Verification:
    """What was checked, and what does not hold, in the order in which it was found."""

    run: Path
    checked: Counter[str] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.problems

    @property
    def first_item(self) -> Problem | None:
        """The first problem that names an item: one of its score or image before one of a line."""
        named = [each for each in self.problems if each.item]
        return next((each for each in named if each.kind in ("score", "picture")), named[0] if named else None)

    @property
    def first_cell(self) -> Problem | None:
        return next((each for each in self.problems if each.kind == "table"), None)

    def add(self, kind: str, where: str, what: str, item: str = "") -> None:
        problem = Problem(kind, where, what, item)
        if problem not in self.problems[-20:]:
            self.problems.append(problem)

    def to_json(self) -> dict[str, Any]:
        """Give `{"holds", "checked", "problems", "first_item", "first_cell", "notes"}`; at most 1,000 problems are listed."""
        as_dict = [{"kind": p.kind, "where": p.where, "what": p.what, "item": p.item} for p in self.problems[:1000]]
        item, cell = self.first_item, self.first_cell
        return {
            "run": str(self.run),
            "holds": self.holds,
            "checked": dict(self.checked),
            "wrong": dict(Counter(each.kind for each in self.problems)),
            "first_item": {"item": item.item, "where": item.where, "what": item.what} if item else None,
            "first_cell": {"cell": cell.where, "what": cell.what} if cell else None,
            "problems": as_dict,
            "notes": self.notes,
        }


def config_of(identity: Mapping[str, Any], path: Path) -> RunConfig:
    """Read the configuration a run was made with.

    Raises:
        DataError: the manifest has none that this version can read.
    """
    try:
        return RunConfig.model_validate(identity)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise DataError(
            f"its configuration cannot be read ({where}: {first['msg']})", path / "manifest.json"
        ) from error


def verify(path: Path) -> Verification:
    """Check a run folder; reads only.

    Raises:
        DataError: this is no run folder, or nothing was judged in it. ConfigError: a suite, metric or prompt folder of the run is not here.
    """
    return asyncio.run(_verify(RunFolder(path)))


async def _verify(folder: RunFolder) -> Verification:
    found = Verification(folder.path)
    manifest = folder.manifest()
    config = config_of(manifest.identity, folder.path)
    if not folder.begun:
        raise DataError("nothing was judged in this run: there is nothing to verify", folder.path)
    metrics, suite = load_metrics(config), load_suite(config)
    library = PromptLibrary(config.prompts)
    _check_versions(manifest, metrics, library, found)
    if checksum_differs(orjson.loads((folder.path / "manifest.json").read_bytes())):
        found.add("manifest", "manifest.json", UNSEALED)
    complete = manifest.status == "complete"
    _check_ends(folder, complete, found)
    stored, pictures = Stored(folder.path, found.add), StoredPictures(found.add)
    scores, listed = _scores(folder, found), list(_items(folder, found))
    if (folder.path / "billing.jsonl").is_file():
        found.checked["bills"] = sum("cost" in each for each in _records(folder, "billing.jsonl", found))
    engine = replaying(config, manifest, library, stored, pictures)
    check = _Check(engine, stored, pictures, Panel.of(config), scores, found)
    try:
        for item in prepared(listed, metrics):
            if isinstance(item, Item):
                for name, metric in metrics.items():
                    await check.metric(item, name, metric, complete)
    finally:
        await engine.aclose()
        stored.close()
    found.checked.update(answers=stored.answers, vectors=stored.vectors, pictures=pictures.seen)
    _note(found, stored, pictures, check)
    if (folder.path / "report.html").is_file():
        found.notes.append("report.html is not checked: `python cli.py report` writes it anew from what is")
    if manifest.status == "running":
        found.notes.append("the run was going on, or was killed: its tables are not compared")
    else:
        _check_tables(folder, listed, check.recomputed, suite, metrics, found)
    return found


def _check_versions(
    manifest: Manifest, metrics: Mapping[str, Metric], library: PromptLibrary, found: Verification
) -> None:
    for name, digest in manifest.prompts.items():
        found.checked["prompts"] += 1
        try:
            now = library.get(name).sha256
        except ConfigError as error:
            found.add("prompt", f"prompt {name}", str(error))
            continue
        if now != digest:
            found.add("prompt", f"prompt {name}", f"its SHA-256 was {digest[:16]} in the run and is {now[:16]} here")
    for name, record in manifest.metrics.items():
        if name in metrics and metrics[name].version != record.version:
            what = f"version {record.version} in the run, version {metrics[name].version} here"
            found.add("metric", f"metric {name}", what)


def _check_ends(folder: RunFolder, complete: bool, found: Verification) -> None:
    """Look for a last line without its end: a kill leaves one, a complete run has none."""
    for file in (folder.path / f"{name}.jsonl" for name in ("items", *FILES)):
        if file.is_file() and journal.torn(file):
            if complete:
                found.add("line", file.name, "its last line has no end")
            else:
                found.notes.append(f"{file.name}: its last line has no end and was left out")


def _records(folder: RunFolder, name: str, found: Verification) -> Iterator[dict[str, Any]]:
    file = folder.path / name
    if not file.is_file():
        found.add("line", name, "the file is missing")
        return
    damage: dict[str, str] = {}
    for number, record in journal.records(file, damage):
        if checksum_differs(record):
            found.add("line", f"{name}:{number}", UNSEALED, str(record.get("item", "")))
        yield record
    for where, what in damage.items():
        found.add("line", where, what)


def _items(folder: RunFolder, found: Verification) -> Iterator[Item | InvalidItem]:
    for record in _records(folder, "items.jsonl", found):
        found.checked["items"] += 1
        yield item_from(record)


def _scores(folder: RunFolder, found: Verification) -> dict[tuple[str, str], Score]:
    scores: dict[tuple[str, str], Score] = {}
    for record in _records(folder, "scores.jsonl", found):
        try:
            score = score_from(record)
        except (TypeError, ValueError) as error:
            found.add("line", "scores.jsonl", f"not a score ({error})", str(record["item"]))
            continue
        scores[score.item_id, score.metric] = score
    return scores


class _Check:
    """Scores items again and compares. `recomputed` is what the tables are made from: the new scores, in stored order."""

    def __init__(
        self,
        engine: Engine,
        stored: Stored,
        pictures: StoredPictures,
        panel: Panel,
        scores: Mapping[tuple[str, str], Score],
        found: Verification,
    ) -> None:
        self.engine, self.stored, self.pictures, self.panel = engine, stored, pictures, panel
        self.before, self.found = scores, found
        self.recomputed = dict(scores)
        self.unanswered = self.pictureless = 0
        self._shown: dict[tuple[str, str], Shown] = {}

    async def metric(self, item: Item, name: str, metric: Metric, complete: bool) -> None:
        """Score an item again and compare with what is stored."""
        before = dict(self._stored_of(item, name))
        if not before:
            if complete and metric.applies(item):
                self.found.add("score", f"{item.id}, {name}", "the run is complete, and the score is missing", item.id)
            return
        self._expect(item, name)
        self.stored.begin(item.id, frozenset(self._keys(item, name)))
        try:
            now = await self.panel.score(self.engine, item, name, metric)
        except Exception as error:
            status = Status.BAD_INPUT if isinstance(error, DataError | OSError) else Status.UNPARSED
            none = Score.none(status, f"the metric fails on the stored answers: {error}")
            now = [replace(none, item_id=item.id, metric=key) for key in before]
        again = {score.metric: _plain(score) for score in now}
        for key, score in before.items():
            self.found.checked["scores"] += 1
            self._compare(item, score, again.get(key))

    def _stored_of(self, item: Item, name: str) -> Iterator[tuple[str, Score]]:
        names = [name]
        if len(self.panel.judges) > 1:
            labels = [self.engine.roles[judge].label for judge in self.panel.judges]
            names += [f"{name} [{label}]" for label in dict.fromkeys(labels)]
        for each in names:
            if (item.id, each) in self.before:
                yield each, self.before[item.id, each]

    def _expect(self, item: Item, name: str) -> None:
        """Note which images were judged: the item's, and those it was compared with."""
        self.pictures.item = item.id
        self.pictures.expected = {}
        for each in (item, *item.same_prompt):
            if each.image is not None:
                if (each.id, name) not in self._shown:
                    self._shown[each.id, name] = self.stored.pictures_of(self._keys(each, name))
                self.pictures.expected[each.image] = self._shown[each.id, name]
        if item.image is not None and self.pictures.expected[item.image].all:
            self.pictures.count(item.image)

    def _keys(self, item: Item, name: str) -> list[str]:
        return list(dict.fromkeys(key for _, score in self._stored_of(item, name) for key in score.replies))

    def _compare(self, item: Item, before: Score, now: Score | None) -> None:
        where = f"{item.id}, {before.metric}"
        absent = [key for key in before.replies if key not in self.stored.keys]
        if absent:
            what = f"{len(absent)} of the {len(before.replies)} answers it names are not on file"
            self.found.add("score", where, what, item.id)
        if now is None:
            self.found.add("score", where, "the metric no longer gives this score", item.id)
            return
        if self._beyond_reach(item, before, now):
            return
        what = difference(before, now, exact=not self.stored.missed)
        self.unanswered += not what and before.value is None and before.status in _ABSENT
        if what and before.value is None and self._explained(before, now):
            self.unanswered += 1
            return
        if what:
            self.found.add("score", where, what, item.id)
            self.recomputed[item.id, before.metric] = now

    def _beyond_reach(self, item: Item, before: Score, now: Score) -> bool:
        """Tell whether a metric looks at the image itself, and the image is not here."""
        shown = [each.image for each in (item, *item.same_prompt) if each.image is not None]
        if now.status is Status.BAD_INPUT and any(not containers.exists(image) for image in shown):
            self.pictureless += before.value is not None
            return True
        return False

    def _explained(self, before: Score, now: Score) -> bool:
        """Tell whether a score has no value because its question was answered later, for another item, or never."""
        if before.status in _ABSENT:
            return now.value is None or not self.stored.used <= set(before.replies)
        return before.status is not Status.BAD_INPUT and self.stored.ended_as(before.replies, before.status)


def _plain(score: Score) -> Score:
    """Give the score as it comes back from a file; a value that is no number counts as none."""
    record = orjson.loads(orjson.dumps(score_record(score), option=orjson.OPT_SERIALIZE_NUMPY))
    if score.value is not None and not math.isfinite(score.value):
        record |= {"value": None, "status": Status.UNPARSED, "reason": f"the value is {score.value}"}
    return score_from(record)


def difference(before: Score, now: Score, *, exact: bool = True) -> str:
    """Say in one line what differs between a stored score and the recomputed one; empty when nothing does.

    With `exact` also reason and parts count; they need not say the same where an answer never came.
    """
    if not same(before.value, now.value):
        reason = f" ({now.status}: {now.reason})" if now.value is None else ""
        return f"{shown(before.value)} is stored, {shown(now.value)} comes out{reason}"
    if before.status != now.status and not (before.status in _ABSENT and now.status in _ABSENT):
        return f"the status {before.status} is stored, {now.status} comes out"
    if exact and before.value is not None:
        if before.reason != now.reason:
            return "the stored reason is not the one that was answered"
        for name in {**before.parts, **now.parts}:
            if not same(before.parts.get(name), now.parts.get(name)):
                return f"the stored part '{name}' does not follow from the answers"
    if (before.generator, before.prompt_id) != (now.generator, now.prompt_id):
        return "the stored generator or group is not the item's"
    return ""


def _note(found: Verification, stored: Stored, pictures: StoredPictures, check: _Check) -> None:
    counts = (
        (pictures.absent, "images are not here: their hashes could not be checked"),
        (check.pictureless, "scores were computed from images that are not here, and could not be computed again"),
        (check.unanswered, "scores have no value because no answer came: nothing to compute them from"),
        (
            stored.matched_by_text,
            "questions were found by what was said: the adapter or model that made their keys is not here",
        ),
    )
    found.notes += [f"{count} {what}" for count, what in counts if count]


def _check_tables(
    folder: RunFolder,
    listed: Sequence[Item | InvalidItem],
    scores: Mapping[tuple[str, str], Score],
    suite: Any,
    metrics: dict[str, Metric],
    found: Verification,
) -> None:
    try:
        before = folder.results()
    except DataError as error:
        found.add("line", "results.json", error.message)
        return
    if not (folder.path / "results.json").is_file():
        found.notes.append("there is no results.json: no table to compare")
        return
    money = folder.money()
    rule = PerPrompt.parse(before.per_prompt or "mean")
    results, _ = summarize(
        listed, scores.values(), suite, before.human_pairs, metrics, status="", money=money, per_prompt=rule
    )
    now = orjson.loads(orjson.dumps(results, default=str, option=orjson.OPT_SERIALIZE_NUMPY))
    earlier = before.intervals != WAY
    if earlier:
        found.notes.append("the intervals of this run were computed in another way than now: they are not compared")
    unlike = not before.per_prompt and any(
        "spread" in place for row in now["leaderboard"] for place in row["metrics"].values()
    )
    if unlike:
        found.notes.append("the leaderboard of this run averaged images and not prompts: it is not compared")
    if new := added(before.to_json(), now):
        found.notes.append(f"not compared, as the run does not have what comes out now: {', '.join(new)}")
    for where, first, second in cells(before.to_json(), now):
        if unlike and where.startswith(("table 'Leaderboard'", "leaderboard[")):
            continue
        if earlier:
            first, second = without_intervals(where, first), without_intervals(where, second)
        found.checked["cells"] += 1
        if not same(first, second):
            found.add("table", where, f"{shown(first)} is stored, {shown(second)} comes out")


__all__ = ["Problem", "Verification", "config_of", "difference", "verify"]
