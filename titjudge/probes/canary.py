"""Frozen questions with their answers: has a model changed since it was last trusted?

A canary is a known-answer item put through a metric, once for each model of the metric. The first time, the answers are
frozen in a file; later, the same questions are asked again, past every cache (an old answer says nothing of today), and
compared. A flip is a value that moved by more than `MOVED` of the metric's unit, or a value that is there on one side
only. The unit is twice the spread of the frozen values, for a cosine or a logit has no range that says what much is, and at
most the metric's range. A model that is not deterministic flips now and then: so the questions are asked twice when they are frozen, and drift
is a share of flips beyond what the model does by itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from titjudge.core.errors import BudgetExhausted, DataError
from titjudge.core.files import write_atomic
from titjudge.core.run_records import Manifest
from titjudge.core.samples import Purpose, Sample
from titjudge.core.types import Item
from titjudge.engine.pipeline import Engine
from titjudge.engine.scoring import score_item
from titjudge.metrics import Metric
from titjudge.probes import battery, effect_size
from titjudge.suites.known_answer.suite import KnownAnswer

COUNT = 50
MOVED = 0.05
ALPHA = 0.01
ROUNDS = 3  # askings when they are frozen
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Canary:
    """One frozen question: an item, a metric, its value when it was frozen, and those when it was asked again at once."""

    item: str
    metric: str
    value: float | None
    again: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Flip:
    """A canary whose answer is another one now."""

    item: str
    metric: str
    before: float | None
    now: float | None


@dataclass(frozen=True, slots=True)
class CanaryReport:
    """What the canaries say.

    `state` is `frozen` (the first time), `same`, `drift`, or `incomplete` (`why` says so: the cap was reached, or none was
    answered when they were to be frozen). `flips` among `asked`; `own` is the share of flips between the askings when they were frozen; `p_value` that a
    model which has not changed would flip so many more now. `versions`: role -> (before, now), for roles that answered as
    another model version; `backends`: role -> fingerprints of the same version that were not seen before, which is no drift
    by itself (a provider has several in use at a time). `effect` is the mean change of the values in the metric's unit.
    """

    state: str
    asked: int
    flips: tuple[Flip, ...]
    own: float
    p_value: float | None
    versions: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
    effect: float | None
    frozen: str
    fingerprint: str
    why: str = ""
    backends: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def drifted(self) -> bool:
        """Whether a model has changed."""
        return self.state == "drift"

    def lines(self) -> list[str]:
        """Say what to tell people; empty when nothing has changed."""
        if self.state == "frozen":
            return [f"canaries: {self.asked} answers frozen in {self.frozen}"]
        if self.state == "incomplete":
            return [f"canaries: {self.why}; nothing can be said about drift"]
        seen = [
            f"note: {role} answered from a backend not seen before: {', '.join(new)}"
            for role, new in self.backends.items()
        ]
        if not self.drifted:
            return seen
        moved = "" if self.effect is None else f", values moved by {100 * self.effect:+.1f}% of the scale on average"
        found = [
            f"DRIFT: {len(self.flips)} of {self.asked} canaries have another answer than when they were frozen{moved}"
        ]
        found += [
            f"DRIFT: {role} answers as {', '.join(now) or 'an unnamed version'}, was {', '.join(before) or 'an unnamed version'}"
            for role, (before, now) in self.versions.items()
        ]
        return [
            *found,
            *seen,
            "scores of this run are not comparable with earlier ones (compare --allow-drift joins them all the same)",
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "asked": self.asked,
            "flips": [{name: getattr(flip, name) for name in flip.__dataclass_fields__} for flip in self.flips],
            "own_flip_rate": self.own,
            "p_value": self.p_value,
            "versions": {role: {"before": list(b), "now": list(n)} for role, (b, n) in self.versions.items()},
            "effect": self.effect,
            "file": self.frozen,
            "fingerprint": self.fingerprint,
            **({"backends": {role: list(new) for role, new in self.backends.items()}} if self.backends else {}),
            **({"why": self.why} if self.why else {}),
        }


def canary_items(data: Path, count: int = COUNT, *, edited: bool = True) -> list[Item]:
    """Up to `count` known-answer items, always the same: the images in a fixed disorder, so that few are of all levels.

    Where there are more canaries than images, `edited` adds images without errors whose prompt asks for something else.

    Raises:
        DataError: the folder holds no known answers.
    """
    items = [item for item in KnownAnswer().load(data) if isinstance(item, Item)]
    if not items:
        raise DataError("no image with known answers, so there can be no canaries", data)
    perfect = [item for item in items if item.meta["alignment"] >= 1]
    more = [trial.changed for test in battery.sensitivity(perfect) for trial in test.trials] if edited else []
    return [*_disorder(items), *_disorder({item.id: item for item in more}.values())][:count]


def _disorder(items: Iterable[Item]) -> list[Item]:
    return sorted(items, key=lambda item: hashlib.sha256(item.id.encode()).digest())


def canary_file(folder: Path, engine: Engine, metrics: Mapping[str, Metric]) -> Path:
    """Where the canaries of these models and metrics are kept: `canaries/NAME-HASH.json` in a folder."""
    identity = _identity(engine, metrics)
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:10]
    name = "-".join(re.sub(r"[^A-Za-z0-9.]+", "-", model) for model in identity["roles"].values()) or "models"
    return folder / "canaries" / f"{name[:80]}-{digest}.json"


def _identity(engine: Engine, metrics: Mapping[str, Metric]) -> dict[str, Any]:
    wanted = {role for metric in metrics.values() for role in metric.roles if role != "embedder"}
    return {
        "roles": {role: engine.roles[role].label for role in sorted(wanted)},
        "endpoints": {role: engine.roles[role].provider.base_url for role in sorted(wanted)},
        "metrics": {name: metric.version for name, metric in sorted(metrics.items())},
        "protocol": engine.protocol,
    }


async def ask_canaries(
    engine: Engine, metrics: Mapping[str, Metric], data: Path, file: Path, *, count: int = COUNT
) -> CanaryReport:
    """Ask the canaries and compare with those in `file`, which is written when it is not there yet.

    About `count` questions altogether (three times as many the first time), spread over the metrics.

    Args:
        engine: Asks the models of the run.
        metrics: The metrics of the run, by name.
        data: A known-answer folder (the bundled example does).
        file: Where the frozen answers are kept.
        count: Questions altogether.

    Raises:
        DataError: the file is damaged, or belongs to other models, metrics or data.
        FatalProviderError: as the engine raises it.
    """
    asked = _questions(metrics, data, count)
    fingerprint = await asyncio.to_thread(_fingerprint, asked, _identity(engine, metrics))
    kept = _load(file, fingerprint) if file.is_file() else None
    round_ = 0 if kept is None else int(kept["rounds"])
    before, engine.failed = engine.failed, "again"  # a refusal of yesterday says nothing of today
    try:
        now = await _ask(engine, metrics, asked, round_)
        further = [await _ask(engine, metrics, asked, k) for k in range(1, ROUNDS)] if kept is None else []
    except BudgetExhausted:
        return _incomplete(file, fingerprint, "the cap was reached before all were asked")
    finally:
        engine.failed = before
    if kept is None and all(value is None for value in now.values()):
        return _incomplete(file, fingerprint, f"none of {len(now)} got an answer, so none is frozen")
    versions = _versions(engine)
    if kept is None:
        canaries = [Canary(*key, value, tuple(again[key] for again in further)) for key, value in now.items()]
        _save(file, fingerprint, canaries, versions, ROUNDS)
        flipped, of = _own(canaries, _units(canaries, metrics))
        return CanaryReport("frozen", len(now), (), flipped / max(of, 1), None, {}, None, str(file), fingerprint)
    canaries = [Canary(r["item"], r["metric"], r["value"], tuple(r["again"])) for r in kept["canaries"]]
    _save(file, fingerprint, canaries, kept["versions"], round_ + 1)
    return _report(canaries, now, metrics, kept["versions"], versions, str(file), fingerprint)


def _questions(metrics: Mapping[str, Metric], data: Path, count: int) -> list[tuple[str, Item]]:
    each = max(1, count // max(len(metrics), 1))
    return [
        (name, item)
        for name, metric in metrics.items()
        for item in canary_items(data, each, edited="questions" not in metric.needs)
    ]


async def plan_canaries(
    engine: Engine, metrics: Mapping[str, Metric], data: Path, file: Path, *, count: int = COUNT
) -> int:
    """Walk the questions of `ask_canaries` through an engine that answers nothing; returns how often each is asked.

    Raises:
        DataError: as `ask_canaries`.
    """
    asked = _questions(metrics, data, count)
    rounds, first = ROUNDS, 0
    if file.is_file():
        fingerprint = await asyncio.to_thread(_fingerprint, asked, _identity(engine, metrics))
        rounds, first = 1, int(_load(file, fingerprint)["rounds"])
    for round_ in range(first, first + rounds):
        await _ask(engine, metrics, asked, round_)
    return rounds


def _incomplete(file: Path, fingerprint: str, why: str) -> CanaryReport:
    return CanaryReport("incomplete", 0, (), 0.0, None, {}, None, str(file), fingerprint, why)


async def _ask(
    engine: Engine, metrics: Mapping[str, Metric], asked: Sequence[tuple[str, Item]], round_: int
) -> dict[tuple[str, str], float | None]:
    """Ask each item and metric anew for its value: no round shares its sample numbers with another."""
    gate = asyncio.Semaphore(32)
    sample = Sample(round_, purpose=Purpose.CANARY)

    async def one(item: Item, name: str, metric: Metric) -> tuple[tuple[str, str], float | None]:
        async with gate:
            score = await score_item(engine, replace(item, id=f"canary:{item.id}"), name, metric, sample=sample)
        return (item.id, name), score.value

    found = await asyncio.gather(*(one(item, name, metrics[name]) for name, item in asked))
    return dict(found)


def _versions(engine: Engine) -> dict[str, list[str]]:
    return {
        role.name: sorted({version for version, _ in role.tally.versions if version}) for role in engine.roles.open()
    }


def _units(canaries: Sequence[Canary], metrics: Mapping[str, Metric]) -> dict[str, float]:
    """By metric: what its frozen values say is much."""
    frozen = {name: [c.value for c in canaries if c.metric == name and c.value is not None] for name in metrics}
    whole = {name: metric.range[1] - metric.range[0] for name, metric in metrics.items()}
    return {name: min(whole[name], 2 * effect_size.spread(frozen[name], metrics[name].range)) for name in metrics}


def _moved(before: float | None, now: float | None, unit: float) -> bool:
    if before is None or now is None:
        return (before is None) != (now is None)
    return abs(now - before) > MOVED * unit


def _own(canaries: Sequence[Canary], units: Mapping[str, float]) -> tuple[int, int]:
    """How often the model flipped by itself when the canaries were frozen: (flips, comparisons)."""
    found = [_moved(each.value, again, units[each.metric]) for each in canaries for again in each.again]
    return sum(found), len(found)


def _report(
    canaries: Sequence[Canary],
    now: Mapping[tuple[str, str], float | None],
    metrics: Mapping[str, Metric],
    before: Mapping[str, Sequence[str]],
    versions: Mapping[str, Sequence[str]],
    file: str,
    fingerprint: str,
) -> CanaryReport:
    from scipy.stats import fisher_exact

    units = _units(canaries, metrics)
    flips, changes = [], []
    for each in canaries:
        value, unit = now[each.item, each.metric], units[each.metric]
        if _moved(each.value, value, unit):
            flips.append(Flip(each.item, each.metric, each.value, value))
        if value is not None and each.value is not None:
            changes.append((value - each.value) / unit)
    own, of = _own(canaries, units)
    counts = [[len(flips), len(canaries) - len(flips)], [own, of - own]]
    p_value = float(fisher_exact(counts, alternative="greater").pvalue)
    changed = {
        role: (tuple(before[role]), tuple(found))
        for role, found in versions.items()
        if role in before and _models(found) - _models(before[role])
    }
    backends = {
        role: new
        for role, found in versions.items()
        if role in before and role not in changed and (new := tuple(sorted(set(found) - set(before[role]))))
    }
    drift = bool(changed) or p_value < ALPHA
    effect = sum(changes) / len(changes) if changes else None
    state = "drift" if drift else "same"
    return CanaryReport(
        state, len(canaries), tuple(flips), own / max(of, 1), p_value, changed, effect, file, fingerprint, "", backends
    )


def _models(versions: Iterable[str]) -> set[str]:
    """Strip the model versions of the fingerprints of the backends that ran them (`version@fingerprint`)."""
    return {version.partition("@")[0] for version in versions}


def _fingerprint(asked: Sequence[tuple[str, Item]], identity: Mapping[str, Any]) -> str:
    content = [identity, [[name, item.id, item.prompt, _hash(item.image)] for name, item in asked]]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _hash(image: Path | None) -> str:
    return hashlib.sha256(image.read_bytes()).hexdigest() if image is not None and image.is_file() else ""


def _load(file: Path, fingerprint: str) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        complete = {"format", "fingerprint", "canaries", "versions", "rounds"} <= found.keys()
    except (OSError, ValueError, AttributeError) as error:
        raise DataError(f"the canaries cannot be read ({error}); delete the file to freeze new ones", file) from error
    if not complete or found["format"] != FORMAT:
        raise DataError("not a file of canaries of this version; delete it to freeze new ones", file)
    if found["fingerprint"] != fingerprint:
        raise DataError(
            "these canaries belong to other models, metrics or images; name another file, or delete it", file
        )
    return dict(found)


def _save(
    file: Path, fingerprint: str, canaries: Sequence[Canary], versions: Mapping[str, Sequence[str]], rounds: int
) -> None:
    """Write the file whole, or not at all. `rounds` counts how often they were asked, so that no asking repeats another."""
    content = {
        "format": FORMAT,
        "fingerprint": fingerprint,
        "rounds": rounds,
        "versions": {role: list(each) for role, each in versions.items()},
        "canaries": [{name: getattr(each, name) for name in each.__dataclass_fields__} for each in canaries],
    }
    write_atomic(file, json.dumps(content, indent=1))


def drift_between(manifests: Mapping[str, Manifest]) -> list[str]:
    """Why runs should not be joined, from their manifests by name; empty when nothing speaks against it.

    A run whose canaries drifted, and two runs in which the same model of the same role answered as different versions.
    """
    reasons = []
    answered: dict[tuple[str, str], dict[str, set[str]]] = {}
    for name, manifest in manifests.items():
        canary = manifest.canary
        if canary is not None and canary.state == "drift":
            reasons.append(f"{name}: its canaries drifted ({len(canary.flips)} of {canary.asked} flipped)")
        for role, record in manifest.roles.items():
            versions = _models(each.version for each in record.answered if each.version)
            if versions:
                answered.setdefault((role, record.model), {})[name] = versions
    for (role, model), runs in answered.items():
        if len({frozenset(found) for found in runs.values()}) > 1:
            shown = "; ".join(f"{name}: {', '.join(sorted(found))}" for name, found in runs.items())
            reasons.append(f"{role} {model} answered as different versions ({shown})")
    return reasons


def refuse_drift(manifests: Mapping[str, Manifest], *, allow: bool) -> list[str]:
    """Give the reasons of `drift_between`, as warnings, when they are allowed.

    Raises:
        UserError: there are some and they are not.
    """
    from titjudge.core.errors import UserError

    reasons = drift_between(manifests)
    if reasons and not allow:
        raise UserError(
            f"these runs are not comparable: {'; '.join(reasons)}. Join them all the same with --allow-drift"
        )
    return [f"joined across a drift: {reason}" for reason in reasons]
