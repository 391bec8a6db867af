"""The canaries of a run: which of its metrics ask them, and with which models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from titjudge.core.config import RunConfig
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
class CanaryOutcome:
    """The report of a run's canaries, or why there is none."""

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
class _Setup:
    """The metrics that ask canaries, the folder of known answers, and the models."""

    metrics: dict[str, Metric]
    data: Path
    config: RunConfig


def _setup(config: RunConfig, metrics: Mapping[str, Metric]) -> _Setup | str:
    """Select the metrics that ask a model that can have changed (a recording cannot); or say why there are none.

    A recorded captioner replays the descriptions of the bundled example, so that the judge is asked.
    """
    recorded = {name for name in _MODELS if (role := config.role(name)) is not None and role.provider == "recorded"}
    usable = {
        name: metric for name, metric in metrics.items() if metric.scope == "item" and _changeable(metric, recorded)
    }
    data = example_folder()
    if data is None:
        return "the bundled example, whose images they show, is not there"
    if not usable:
        return f"no metric of this run asks a model that can have changed ({', '.join(metrics)})"
    if "captioner" in recorded and config.data != data:
        assert config.captioner is not None
        captioner = config.captioner.model_copy(update={"options": {"file": str(data / "descriptions.jsonl")}})
        config = config.model_copy(update={"captioner": captioner})
    return _Setup(usable, data, config)


async def ask_before(
    config: RunConfig, engine: Engine, metrics: Mapping[str, Metric], cache: AnswerCache, journal: Journal | None
) -> CanaryOutcome:
    """Ask the canaries of a run.

    Raises:
        DataError: The file of canaries is damaged.
        FatalProviderError: As the engine raises it.
    """
    setup = _setup(config, metrics)
    if isinstance(setup, str):
        return CanaryOutcome(None, setup)
    file = canary_file(cache_folder(config.cache), engine, setup.metrics)
    if setup.config is config:
        return CanaryOutcome(await ask_canaries(engine, setup.metrics, setup.data, file))
    other = Engine(Roles(setup.config), engine.library, cache, engine.budget, journal=journal)
    other.sender = engine.sender  # what stops the run stops the canaries
    try:
        return CanaryOutcome(await ask_canaries(other, setup.metrics, setup.data, file))
    finally:
        await other.aclose()


async def plan_before(
    config: RunConfig, metrics: Mapping[str, Metric], library: PromptLibrary, cache: AnswerCache
) -> tuple[list[Expected], str]:
    """Return the expected requests of a run's canaries, and a line on them for the dry run."""
    setup = _setup(config, metrics)
    if isinstance(setup, str):
        return [], f"canaries: none would be asked: {setup}"
    planner = Planner(setup.config, library, cache)
    try:
        file = canary_file(cache_folder(config.cache), planner.engine, setup.metrics)
        rounds = await plan_canaries(planner.engine, setup.metrics, setup.data, file)
        requests = planner.noted()
    finally:
        await planner.aclose()
    often = f"{rounds} times, as they are frozen" if rounds > 1 else "once, to compare"
    return requests, f"canaries: {len(requests)} of the requests, each question asked {often}"


def _changeable(metric: Metric, recorded: set[str]) -> bool:
    """Tell whether a metric asks a live model, and no recorded judge, which has no answer to a new question."""
    asked = set(metric.roles) & set(_MODELS)
    return bool(asked - recorded) and "judge" not in asked & recorded
