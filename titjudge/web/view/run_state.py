"""One run as a list shows it: the content of its manifest, its results and its scores so far, in one record."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import orjson

from titjudge.core.errors import DataError
from titjudge.core.failure_advice import advice
from titjudge.core.files import open_regular
from titjudge.core.numbers import is_number
from titjudge.core.registry import first_metric
from titjudge.core.run_records import FailureRecord, Manifest, PlaceRecord, ProgressRecord, Results, Verdict
from titjudge.core.tables import rank_range
from titjudge.core.types import Values
from titjudge.stats.verdict.sentences import headline, is_undecided, sentences

_BLOCK = 1 << 20
Identity = tuple[int, ...]


def identity(file: Path) -> Identity:
    """Return a value that changes when a file is written or replaced; empty if there is no file."""
    try:
        facts = os.stat(file)
    except OSError:
        return ()
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


@dataclass(frozen=True, slots=True)
class ScoreLine:
    """One line of scores.jsonl, as far as a list shows it; `value` is None if there is no score."""

    item: str
    metric: str
    generator: str
    prompt_id: str
    value: float | None
    status: str
    reason: str
    cause: str


@dataclass(slots=True)
class ScoreTail:
    """The scores of one run so far.

    Attributes:
        file: The scores.jsonl.
        latest: The last line of each item and metric; the newest come last.
    """

    file: Path
    latest: dict[tuple[str, str], ScoreLine] = field(default_factory=dict)
    _seen: Identity = ()
    _read: int = 0
    _torn: bytes = b""

    def look(self) -> bool:
        """Read the lines added since the last call, all of them if the file was replaced; return True if there were any."""
        now = identity(self.file)
        if now == self._seen:
            return False
        if now[:2] != self._seen[:2] or now[2] < self._read:
            self._forget()
        try:
            self._read_on()
        except (OSError, DataError):
            self._forget()
            return True
        self._seen = now
        return True

    def _forget(self) -> None:
        self._seen, self._read, self._torn = (), 0, b""
        self.latest.clear()

    def _read_on(self) -> None:
        """Read the lines that were added; a line that is not finished waits for the next look."""
        with open_regular(self.file) as handle:
            handle.seek(self._read)
            while block := handle.read(_BLOCK):
                self._read += len(block)
                *lines, self._torn = (self._torn + block).split(b"\n")
                for line in lines:
                    self._add(line)

    def _add(self, line: bytes) -> None:
        try:
            score = score_line(orjson.loads(line))
        except (orjson.JSONDecodeError, AttributeError, TypeError, KeyError):
            return  # a damaged line; the run itself reports it
        self.latest.pop((score.item, score.metric), None)
        self.latest[score.item, score.metric] = score

    @property
    def metrics(self) -> list[str]:
        """The metrics that have scored something."""
        return list(dict.fromkeys(metric for _, metric in self.latest))

    def places(self, metric: str, *, higher_is_better: bool) -> Mapping[str, PlaceRecord]:
        """Return the place of each generator so far by a metric, best first."""
        from titjudge.stats.ranking.leaderboard import leaderboard

        lines = [score for score in self.latest.values() if score.metric == metric]
        images = [(score.item, score.generator, score.prompt_id or score.item) for score in lines]
        values = {score.item: score.value for score in lines}
        return leaderboard(images, values, higher_is_better=higher_is_better, intervals=False).places

    def failures(self) -> list[FailureRecord]:
        """List the scores so far that have no value."""
        lines = (score for score in self.latest.values() if score.value is None)
        return [FailureRecord(item=s.item, status=s.status, reason=s.reason, cause=s.cause) for s in lines]

    def reasons(self) -> Counter[str]:
        """Count why images have no score, the metrics together."""
        return Counter(": ".join(filter(None, (failure.status, failure.reason))) for failure in self.failures())


def score_line(record: Values) -> ScoreLine:
    """Take from a record of scores.jsonl what a list shows.

    Raises:
        KeyError: It names no item or metric.
    """
    value, texts = record.get("value"), ("generator", "prompt_id", "status", "reason", "cause")
    return ScoreLine(
        item=str(record["item"]),
        metric=str(record["metric"]),
        value=float(value) if is_number(value) else None,
        **{name: str(record.get(name, "")) for name in texts},
    )


RUNNING, STOPPED, UNREADABLE = "running", "stopped", "unreadable"
_UNTROUBLED = (RUNNING, "complete", "settled")
_REMAKE = "Run the command that made it again"


@dataclass(frozen=True, slots=True)
class RunState:
    """One run as the page shows it.

    Attributes:
        id: Its path below the runs folder.
        status: The status in the manifest, `stopped` if that is `running` but no process writes the run, or `unreadable`.
        total: Number of (item, metric) pairs; None while unknown.
        scored: How many of them have a score, and `failed` how many were judged without one.
        items: Number of images.
        coverage: Share of the images (of a running run: of those judged so far) with a score by the metric that decides,
            0 to 1.
        metric: The metric that decides.
        lower: The metrics of which less is better.
        boards: Mean score of each generator by metric, best first; the generator is empty if the images name none.
        ranks: The ranks that the tests by the metric that decides leave open, by generator.
        verdict: Which generator is better, in sentences, the most important first; empty if the results have none.
        brief: The first of these sentences, for a narrow column.
        leader: False if the best generator cannot be distinguished from the second.
        advice: Remedies for missing scores, a line for each cause.
        spent: USD; None while it is unknown.
        unpriced: Requests without a known price; their cost is not in `spent`.
        limits: As in the manifest.
        seconds_left: Seconds until it will be done at the pace so far; None if that is unknown.
        started: Unix seconds, as `updated`.
        errors: Errors that models or servers answered with, those included after which the answer came.
        trouble: The last of them that no answer has followed.
        waits: Reasons why a running run waits, one line each.
        scored_by: Scores with a value so far, by metric.
        report: Whether there is a report.
        problem: Why the run cannot be read.
        lacking: Why not all images of the data are judged (field of the same name in the manifest).
    """

    id: str
    status: str
    total: int | None = None
    scored: int = 0
    failed: int = 0
    items: int | None = None
    coverage: float | None = None
    metric: str = ""
    lower: tuple[str, ...] = ()
    boards: Mapping[str, tuple[tuple[str, float], ...]] = field(default_factory=dict)
    ranks: Mapping[str, str] = field(default_factory=dict)
    verdict: tuple[str, ...] = ()
    brief: str = ""
    leader: bool = True
    advice: tuple[str, ...] = ()
    spent: float | None = None
    unpriced: int = 0
    limits: Values = field(default_factory=dict)
    seconds_left: float | None = None
    started: float | None = None
    updated: float | None = None
    errors: int = 0
    trouble: str = ""
    waits: tuple[str, ...] = ()
    scored_by: Mapping[str, int] = field(default_factory=dict)
    suite: str = ""
    metrics: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    report: bool = False
    problem: str = ""
    lacking: str = ""

    @property
    def cap(self) -> float | None:
        """The most that the run may spend, in USD; None without a cap."""
        cap = self.limits.get("max_cost")
        return float(cap) if is_number(cap) else None

    @property
    def means(self) -> tuple[tuple[str, float], ...]:
        """Mean score of each generator by the metric that decides, best first."""
        return self.boards.get(self.metric, ())

    @property
    def judged_nothing(self) -> bool:
        """Return True if it ended before anything was judged, for example without a key."""
        return self.status not in _UNTROUBLED and not self.scored and not self.failed


def read_state(name: str, file: Path) -> RunState:
    """Read the state of a run from manifest.json.

    Raises:
        OSError: It cannot be read.
    """
    try:
        manifest = Manifest.read(file, _REMAKE)
    except DataError as error:
        return RunState(name, UNREADABLE, problem=f"manifest.json: {error.message}")
    progress, metrics = manifest.progress, tuple(manifest.metrics)
    items = progress.total if progress else None
    metric = first_metric(metrics) if metrics else ""
    return RunState(
        name,
        manifest.status,
        total=items * len(metrics) if items is not None and metrics else None,
        items=items,
        metric=metric,
        lower=tuple(name for name, record in manifest.metrics.items() if record.higher_is_better is False),
        spent=manifest.spent,
        unpriced=manifest.unpriced,
        limits=manifest.limits,
        seconds_left=_seconds_left(manifest),
        started=manifest.started,
        updated=manifest.updated,
        errors=sum(role.errors for role in manifest.roles.values()),
        trouble=next((role.trouble for role in manifest.roles.values() if role.trouble), ""),
        waits=tuple(progress.waits) if progress and manifest.status == RUNNING else (),
        suite=manifest.suite.name,
        metrics=metrics,
        models=tuple(sorted({role.model for role in manifest.roles.values()} - {""})),
        lacking=manifest.lacking,
    )


def _seconds_left(manifest: Manifest) -> float | None:
    """Estimate how long the rest takes, at the pace of this session."""
    progress, began, now = manifest.progress, manifest.started, manifest.updated
    if manifest.status != RUNNING or progress is None or began is None or now is None:
        return None
    done, everything = _work(progress)
    return (everything - done) * (now - began) / done if everything is not None and 0 < done <= everything else None


def _work(progress: ProgressRecord) -> tuple[int, int | None]:
    """Return how much this session has done of how much: answers, or items if no answers are known to come."""
    if progress.expected:
        return progress.answers, progress.expected
    return progress.done - progress.resumed, None if progress.total is None else progress.total - progress.resumed


def read_results(file: Path) -> Results | None:
    """Read results.json; None if it is missing or damaged."""
    try:
        return Results.read(file, _REMAKE)
    except (OSError, DataError):
        return None


def with_results(state: RunState, results: Results) -> RunState:
    """Add the content of the results."""
    whole = {name: result for name, result in results.metrics.items() if " [" not in name}  # not by kind of prompt
    places: dict[str, dict[str, PlaceRecord]] = {}
    if not results.leaderboard:  # the images name no generator
        places = {name: {"": PlaceRecord(mean=result.mean)} for name, result in whole.items()}
    for standing in results.leaderboard:
        for name, place in standing.metrics.items():
            places.setdefault(name, {})[standing.generator] = place
    metric = first_metric(state.metrics, results.unscored) if state.metrics else state.metric
    ranks = {name: str(rank_range(place.ranks)) for name, place in places.get(metric, {}).items() if place.ranks}
    verdict = results.verdict or Verdict()
    lines = sentences(verdict, results.settle, state.lacking) if results.verdict else []
    covered = results.covered
    return replace(
        state,
        metric=metric,
        scored=sum(result.scored or 0 for result in whole.values()),
        failed=min(
            len({failure.item for failure in results.failures}),
            covered[2] - covered[1] if covered else len(results.failures),
        ),
        coverage=covered[1] / covered[2] if covered else 0.0 if state.items else None,
        boards={name: _means(by_generator) for name, by_generator in places.items()},
        ranks=ranks,
        verdict=tuple(lines),
        brief=headline(verdict, results.settle, state.lacking)[0] or "".join(lines[:1]),
        leader=not is_undecided(verdict, results.settle),
        advice=_advice(state, results.failures),
    )


def with_scores(state: RunState, tail: ScoreTail, *, running: bool = False) -> RunState:
    """Add the content of the scores so far."""
    failures, judged = tail.failures(), len(tail.latest)
    scored = judged - len(failures)
    scored_by = dict(Counter(score.metric for score in tail.latest.values() if score.value is not None))
    metric = first_metric(tail.metrics, {*tail.metrics} - scored_by.keys()) if tail.metrics else state.metric
    decided = [score.value is not None for score in tail.latest.values() if score.metric == metric]
    images = len(decided) if running else max(state.items or 0, len(decided))
    boards = {name: _means(tail.places(name, higher_is_better=name not in state.lower)) for name in tail.metrics}
    return replace(
        state,
        scored=scored,
        failed=len(failures),
        metric=metric,
        coverage=sum(decided) / images if images else None,
        scored_by=scored_by,
        boards=boards,
        advice=_advice(state, failures),
    )


def _advice(state: RunState, failures: Iterable[FailureRecord]) -> tuple[str, ...]:
    return tuple(map(str, advice(failures, state.limits)))


def _means(places: Mapping[str, PlaceRecord]) -> tuple[tuple[str, float], ...]:
    return tuple((generator, place.mean) for generator, place in places.items() if place.mean is not None)
