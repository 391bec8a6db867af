"""Canaries: frozen questions with their answers, by which a model that has changed is noticed.

A canary is a known-answer item scored by a metric. The first time, the scores are frozen in a file; later, the same
questions are asked again, without the cache, and compared. A flip is a score that moved by more than `MOVED` units, or
is missing on one side only. The unit of a metric is twice the spread of its frozen scores, and at most its range: the
range of a cosine or a logit alone does not show what a large change is. A model that is not deterministic flips now and
then, so the questions are asked `ROUNDS` times when they are frozen, and drift is more flips than between these rounds.
Questions about one image flip together, as they rest on one description of it, also questions of several metrics: the unit of
the test is the image.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from titjudge.core import item_meta
from titjudge.core.errors import BudgetExhausted, DataError, UserError, file_fault
from titjudge.core.files import write_atomic
from titjudge.core.run_records import CanaryRecord, Manifest
from titjudge.core.types import Item, Json, Note, Values
from titjudge.engine.ask import Purpose, Sample
from titjudge.engine.pipeline import Engine
from titjudge.engine.scoring import score_item
from titjudge.metrics import Metric
from titjudge.probes import battery, item_scorer
from titjudge.probes.item_scorer import versions_of
from titjudge.stats.comparable_runs import drift_between, models_of
from titjudge.suites.known_answer.suite import KnownAnswer

COUNT = 50
MOVED = 0.05  # in units of the metric
ALPHA = 0.01
ROUNDS = 3  # how often each question is asked when it is frozen
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Canary:
    """A frozen question: an item, a metric, the frozen value, and the values of the further rounds of freezing."""

    item: str
    metric: str
    value: float | None
    again: tuple[float | None, ...]


class CanaryReport(CanaryRecord):
    """The result of asking the canaries, as the manifest of the run keeps it."""

    @property
    def drifted(self) -> bool:
        """Return True if a model has changed."""
        return self.state == "drift"

    def lines(self) -> list[Note]:
        """Write the result for people; empty when nothing has changed."""
        if self.state == "frozen":
            return [Note("canaries_frozen", f"canaries: {self.asked} answers frozen in {self.file}")]
        if self.state == "incomplete":
            return [Note("canaries_incomplete", f"canaries: {self.why}; drift cannot be judged")]
        notes = [
            Note("backend_new", f"note: {role} answered from a backend not seen before: {', '.join(new)}")
            for role, new in self.backends.items()
        ]
        if not self.drifted:
            return notes
        moved = "" if self.effect is None else f", values moved by {100 * self.effect:+.1f}% of the scale on average"
        versions = [
            f"DRIFT: {role} answers as {', '.join(each['now']) or 'an unnamed version'}, was "
            f"{', '.join(each['before']) or 'an unnamed version'}"
            for role, each in self.versions.items()
        ]
        apart = "scores of this run are not comparable with earlier ones (judges agreement --allow-drift joins them all the same)"
        return [
            Note(
                "answers_drifted",
                f"DRIFT: {len(self.flips)} of {self.asked} canaries have a different answer now{moved}",
            ),
            *(Note("version_drifted", line) for line in versions),
            *notes,
            Note("drift_not_comparable", apart),
        ]


def _reported(state: str, file: Path, fingerprint: str, **more: Any) -> CanaryReport:
    """Make a report; all of its keys but `why` and `backends` are in the manifest."""
    empty: Json = {"asked": 0, "flips": [], "own_flip_rate": 0.0, "p_value": None, "versions": {}, "effect": None}
    return CanaryReport(state=state, file=str(file), fingerprint=fingerprint, **empty | more)


def canary_items(data: Path, count: int = COUNT, *, edited: bool = True) -> list[Item]:
    """List up to `count` known-answer items, always the same, by hash, so that a few have all levels of errors.

    If there are more canaries than images, `edited` adds images without errors with a prompt that has one.

    Raises:
        DataError: The folder has no known answers.
    """
    items = [item for item in KnownAnswer().load(data) if isinstance(item, Item)]
    if not items:
        raise DataError("no image has known answers. Give --data a folder of `probe images`", data)
    perfect = [item for item in items if item_meta.ALIGNMENT.required(item) >= 1]
    edits = [trial.changed for test in battery.sensitivity(perfect) for trial in test.trials] if edited else []
    return [*_by_hash(items), *_by_hash({item.id: item for item in edits}.values())][:count]


def _by_hash(items: Iterable[Item]) -> list[Item]:
    return sorted(items, key=lambda item: hashlib.sha256(item.id.encode()).digest())


def canary_file(folder: Path, engine: Engine, metrics: Mapping[str, Metric]) -> Path:
    """Return the file of the canaries of these models and metrics: `canaries/NAME-HASH.json` in a folder."""
    identity = _identity(engine, metrics)
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:10]
    name = "-".join(re.sub(r"[^A-Za-z0-9.]+", "-", model) for model in identity["roles"].values()) or "models"
    return folder / "canaries" / f"{name[:80]}-{digest}.json"


def _identity(engine: Engine, metrics: Mapping[str, Metric]) -> Json:
    roles = {role for metric in metrics.values() for role in metric.roles if role != "embedder"}
    return {
        "roles": {role: engine.roles[role].label for role in sorted(roles)},
        "endpoints": {role: engine.roles[role].provider.base_url for role in sorted(roles)},
        "metrics": {name: metric.version for name, metric in sorted(metrics.items())},
        "protocol": engine.protocol,
    }


async def ask_canaries(
    engine: Engine, metrics: Mapping[str, Metric], data: Path, file: Path, *, count: int = COUNT
) -> CanaryReport:
    """Ask the canaries and compare the answers with `file`; without the file, freeze them there.

    Args:
        engine: Asks the models of the run.
        metrics: The metrics of the run, by name.
        data: A known-answer folder (the bundled example does).
        file: The file of the frozen answers.
        count: Number of questions, over all metrics.

    Raises:
        DataError: The file is damaged, or belongs to other models, metrics or data.
        FatalProviderError: As the engine raises it.
    """
    questions = _questions(metrics, data, count)
    fingerprint = await asyncio.to_thread(_fingerprint, questions, _identity(engine, metrics))
    kept = _load(file, fingerprint) if file.is_file() else None
    round_ = 0 if kept is None else int(kept["rounds"])
    before, engine.failed = engine.failed, "again"  # the model may have changed in what it refuses, too
    try:
        now = await _ask(engine, metrics, questions, round_)
        further = [await _ask(engine, metrics, questions, k) for k in range(1, ROUNDS)] if kept is None else []
    except BudgetExhausted:
        why = "the cap was reached before all were asked"
        return _reported("incomplete", file, fingerprint, why=why)
    finally:
        engine.failed = before
    if kept is None and all(value is None for value in now.values()):
        why = f"none of {len(now)} got an answer, so none is frozen"
        return _reported("incomplete", file, fingerprint, why=why)
    versions = versions_of(engine.roles.open())
    if kept is None:
        canaries = [Canary(*key, value, tuple(again[key] for again in further)) for key, value in now.items()]
        _save(file, fingerprint, canaries, versions, ROUNDS)
        flips, comparisons = _own_flips(canaries, _units(canaries, metrics))
        return _reported("frozen", file, fingerprint, asked=len(now), own_flip_rate=flips / max(comparisons, 1))
    canaries = [Canary(r["item"], r["metric"], r["value"], tuple(r["again"])) for r in kept["canaries"]]
    _save(file, fingerprint, canaries, kept["versions"], round_ + 1)
    return _report(canaries, now, metrics, kept["versions"], versions, file, fingerprint)


def _questions(metrics: Mapping[str, Metric], data: Path, count: int) -> list[tuple[str, Item]]:
    count_each = max(1, count // max(len(metrics), 1))
    return [
        (name, item)
        for name, metric in metrics.items()
        for item in canary_items(data, count_each, edited="questions" not in metric.needs)
    ]


async def plan_canaries(
    engine: Engine, metrics: Mapping[str, Metric], data: Path, file: Path, *, count: int = COUNT
) -> int:
    """Ask the questions of `ask_canaries` in a dry run; return how often each is asked.

    Raises:
        DataError: As `ask_canaries`.
    """
    questions = _questions(metrics, data, count)
    rounds, first = ROUNDS, 0
    if file.is_file():
        fingerprint = await asyncio.to_thread(_fingerprint, questions, _identity(engine, metrics))
        rounds, first = 1, int(_load(file, fingerprint)["rounds"])
    for round_ in range(first, first + rounds):
        await _ask(engine, metrics, questions, round_)
    return rounds


async def _ask(
    engine: Engine, metrics: Mapping[str, Metric], questions: Sequence[tuple[str, Item]], round_: int
) -> dict[tuple[str, str], float | None]:
    """Score each item by its metric; every round has separate sample numbers, so that no answer is from the cache."""
    gate = asyncio.Semaphore(32)
    sample = Sample(round_, purpose=Purpose.CANARY)

    async def score_one(item: Item, name: str, metric: Metric) -> tuple[tuple[str, str], float | None]:
        async with gate:
            score = await score_item(engine, replace(item, id=f"canary:{item.id}"), name, metric, sample=sample)
        return (item.id, name), score.value

    return dict(await asyncio.gather(*(score_one(item, name, metrics[name]) for name, item in questions)))


def _units(canaries: Sequence[Canary], metrics: Mapping[str, Metric]) -> dict[str, float]:
    """Return the unit of each metric: twice the spread of its frozen values, at most its range."""
    frozen = {name: [c.value for c in canaries if c.metric == name and c.value is not None] for name in metrics}
    whole = {name: metric.range[1] - metric.range[0] for name, metric in metrics.items()}
    return {name: min(whole[name], 2 * item_scorer.spread(frozen[name], metrics[name].range)) for name in metrics}


def _moved(before: float | None, now: float | None, unit: float) -> bool:
    if before is None or now is None:
        return (before is None) != (now is None)
    return abs(now - before) > MOVED * unit


def _own_flips(canaries: Sequence[Canary], units: Mapping[str, float]) -> tuple[int, int]:
    """Count the flips between the rounds in which the canaries were frozen: (flips, comparisons)."""
    moved = [_moved(canary.value, again, units[canary.metric]) for canary in canaries for again in canary.again]
    return sum(moved), len(moved)


def _report(
    canaries: Sequence[Canary],
    now: Mapping[tuple[str, str], float | None],
    metrics: Mapping[str, Metric],
    before: Mapping[str, Sequence[str]],
    versions: Mapping[str, Sequence[str]],
    file: Path,
    fingerprint: str,
) -> CanaryReport:
    """Compare the answers of now with the frozen ones, and report whether a model has changed."""
    units = _units(canaries, metrics)
    flips, changes = [], []
    for canary in canaries:
        value, unit = now[canary.item, canary.metric], units[canary.metric]
        if _moved(canary.value, value, unit):
            flips.append({"item": canary.item, "metric": canary.metric, "before": canary.value, "now": value})
        if value is not None and canary.value is not None:
            changes.append((value - canary.value) / unit)
    own_flips, comparisons = _own_flips(canaries, units)
    p_value = _exchange_p(canaries, now, units)
    changed = {
        role: {"before": list(before[role]), "now": list(answered)}
        for role, answered in versions.items()
        if role in before and models_of(answered) - models_of(before[role])
    }
    backends = {
        role: new
        for role, answered in versions.items()
        if role in before and role not in changed and (new := sorted(set(answered) - set(before[role])))
    }
    more = {"backends": backends} if backends else {}
    return _reported(
        "drift" if changed or p_value < ALPHA else "same",
        file,
        fingerprint,
        asked=len(canaries),
        flips=flips,
        own_flip_rate=own_flips / max(comparisons, 1),
        p_value=p_value,
        versions=changed,
        effect=sum(changes) / len(changes) if changes else None,
        **more,
    )


def _exchange_p(
    canaries: Sequence[Canary], now: Mapping[tuple[str, str], float | None], units: Mapping[str, float]
) -> float:
    """Compute the probability that a model which has not changed differs from the frozen rounds as much as it does now.

    Were nothing changed, any of the rounds of an image could be the one of today, whatever its questions have in common.
    For each image and each round: how often its questions have moved between that round and the others. The sum over
    images for today's rounds is compared with the sums of all ways to choose one round of each image, counted exactly.
    """
    apart: dict[str, list[int]] = {}
    for canary in canaries:
        rounds = [canary.value, *canary.again, now[canary.item, canary.metric]]
        counts = apart.setdefault(canary.item.partition("#")[0], [0] * len(rounds))
        for k, value in enumerate(rounds):
            counts[k] += sum(_moved(other, value, units[canary.metric]) for other in rounds)
    ways = Counter({0: 1})
    for counts in apart.values():
        longer = Counter[int]()
        for total, number in ways.items():
            for count in counts:
                longer[total + count] += number
        ways = longer
    today = sum(counts[-1] for counts in apart.values())
    return sum(number for total, number in ways.items() if total >= today) / ways.total()


def _fingerprint(questions: Sequence[tuple[str, Item]], identity: Values) -> str:
    content = [identity, [[name, item.id, item.prompt, _hash(item.image)] for name, item in questions]]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _hash(image: Path | None) -> str:
    return hashlib.sha256(image.read_bytes()).hexdigest() if image and image.is_file() else ""


def _load(file: Path, fingerprint: str) -> Json:
    """Read the frozen answers.

    Raises:
        DataError: The file is damaged, or belongs to other questions or models.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        complete = {"format", "fingerprint", "canaries", "versions", "rounds"} <= content.keys()
    except OSError as error:
        raise DataError(f"the drift check cannot be read: {file_fault(error)}", file) from error
    except (ValueError, AttributeError):
        complete = False
    if not complete or content["format"] != FORMAT:
        raise DataError("not a drift check of this version. Delete the file to make a new one", file)
    if content["fingerprint"] != fingerprint:
        raise DataError(
            "this drift check belongs to other models, metrics or images. Give another file, or delete it", file
        )
    return dict(content)


def _save(
    file: Path, fingerprint: str, canaries: Sequence[Canary], versions: Mapping[str, Sequence[str]], rounds: int
) -> None:
    """Write the file; `rounds` counts how often they were asked, so that the next round has new sample numbers."""
    content = {
        "format": FORMAT,
        "fingerprint": fingerprint,
        "rounds": rounds,
        "versions": {role: list(answered) for role, answered in versions.items()},
        "canaries": [asdict(canary) for canary in canaries],
    }
    write_atomic(file, json.dumps(content, indent=1))


def refuse_drift(manifests: Mapping[str, Manifest], *, allow: bool) -> list[Note]:
    """Return the reasons of `drift_between` as warnings.

    Raises:
        UserError: There are some, and joining such runs is not allowed.
    """
    reasons = drift_between(manifests)
    if reasons and not allow:
        raise UserError(f"these runs are not comparable: {'; '.join(reasons)}. Add --allow-drift to join them anyway")
    return [Note("joined_across_drift", f"joined across a drift: {reason}") for reason in reasons]
