"""The canaries of a run: which of its metrics can be asked today, and with whose eyes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from titjudge.core.config import RunConfig
from titjudge.core.dry_run import DryRun
from titjudge.core.paths import cache_folder, example_folder
from titjudge.core.prompts import PromptLibrary
from titjudge.engine.cache import AnswerCache
from titjudge.engine.forecast import Planner
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.engine.sender import Journal
from titjudge.metrics import Metric
from titjudge.probes.canary import CanaryReport, ask_canaries, canary_file, plan_canaries
from titjudge.providers.dry_run import Expected

_MODELS = ("captioner", "judge")


@dataclass(frozen=True, slots=True)
class Asked:
    """What became of the canaries of a run: their report, or why there is none."""

    report: CanaryReport | None
    why: str = ""

    def lines(self) -> list[str]:
        if self.report is None:
            return [f"canaries: none was asked: {self.why}"]
        if self.report.state == "same":
            return [
                f"canaries: {self.report.asked} asked again, {len(self.report.flips)} have another answer: no drift"
            ]
        return self.report.lines()


@dataclass(frozen=True, slots=True)
class _Seats:
    """Which metrics ask canaries, of which known answers, and with which models."""

    metrics: dict[str, Metric]
    place: Path
    config: RunConfig


def _seats(config: RunConfig, metrics: Mapping[str, Metric]) -> _Seats | str:
    """Those of the metrics that ask a model which can have changed (a recording cannot); or why there are none.

    A recorded captioner sees the canaries through the descriptions of the bundled example, so that the judge is asked.
    """
    recorded = {name for name in _MODELS if (seat := config.role(name)) is not None and seat.provider == "recorded"}
    usable = {
        name: metric for name, metric in metrics.items() if metric.scope == "item" and _changeable(metric, recorded)
    }
    place = example_folder()
    if place is None:
        return "the bundled example, whose images they show, is not there"
    if not usable:
        return f"no metric of this run asks a model that can have changed ({', '.join(metrics)})"
    if "captioner" in recorded and config.data != place:
        assert config.captioner is not None
        seat = config.captioner.model_copy(update={"options": {"file": str(place / "descriptions.jsonl")}})
        config = config.model_copy(update={"captioner": seat})
    return _Seats(usable, place, config)


async def ask_before(
    config: RunConfig, engine: Engine, metrics: Mapping[str, Metric], cache: AnswerCache, journal: Journal | None
) -> Asked:
    """Ask the canaries of the metrics of a run.

    Raises:
        DataError: the file of canaries is damaged. FatalProviderError: as the engine raises it.
    """
    seats = _seats(config, metrics)
    if isinstance(seats, str):
        return Asked(None, seats)
    file = canary_file(cache_folder(config.cache), engine, seats.metrics)
    if seats.config is config:
        return Asked(await ask_canaries(engine, seats.metrics, seats.place, file))
    other = Engine(Roles(seats.config), engine.library, cache, engine.budget, journal=journal)
    other.sender = engine.sender  # what stops the run stops the canaries
    try:
        return Asked(await ask_canaries(other, seats.metrics, seats.place, file))
    finally:
        await other.aclose()


async def plan_before(
    config: RunConfig, metrics: Mapping[str, Metric], library: PromptLibrary, cache: AnswerCache
) -> tuple[list[Expected], str]:
    """Count the requests of the canaries of a run, and a line on them, as a dry run tells."""
    seats = _seats(config, metrics)
    if isinstance(seats, str):
        return [], f"canaries: none would be asked: {seats}"
    planner = Planner(seats.config, library, cache, DryRun.EXPECTED)
    try:
        file = canary_file(cache_folder(config.cache), planner.engine, seats.metrics)
        rounds = await plan_canaries(planner.engine, seats.metrics, seats.place, file)
        found = planner.noted()
    finally:
        await planner.aclose()
    often = f"{rounds} times, as they are frozen" if rounds > 1 else "once, to compare"
    return found, f"canaries: {len(found)} of the requests, each question asked {often}"


def _changeable(metric: Metric, recorded: set[str]) -> bool:
    """Say whether a role asks a live model, and no recorded judge, who has no answer to a new question."""
    asked = set(metric.roles) & set(_MODELS)
    return bool(asked - recorded) and "judge" not in asked & recorded
