"""The canaries of a run: which of its metrics ask them, and with which models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from titjudge.core.config import RunConfig
from titjudge.core.paths import cache_folder, example_folder
from titjudge.engine.cache import AnswerCache
from titjudge.metrics import Metric
from titjudge.probes.canary import CanaryReport, ask_canaries, canary_file, plan_canaries
from titjudge.providers.dry_run import Expected
from titjudge.runs.open_run import OpenRun, open_planner
from titjudge.runs.resolve import ResolvedMetrics

_MODELS = ("captioner", "judge")


@dataclass(frozen=True, slots=True)
class _Setup:
    """The metrics that ask canaries, the folder of known answers, and the models.

    Attributes:
        metrics: The metrics that ask canaries, by name.
        data: The folder of known answers.
        config: Names the models.
    """

    metrics: dict[str, Metric]
    data: Path
    config: RunConfig


def _setup(run: ResolvedMetrics) -> _Setup | str:
    """Select the metrics that ask a model that can have changed (a recording cannot); or say why there are none.

    A recorded captioner replays the descriptions of the bundled example, so that the judge is asked.
    """
    config, metrics = run.config, run.metrics
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


async def ask_before(run: OpenRun) -> list[str]:
    """Ask the canaries of a run, put their report into its manifest, and say what they have shown, a line each.

    Raises:
        DataError: The file of canaries is damaged.
        FatalProviderError: As the engine raises it.
    """
    setup = _setup(run.run)
    if isinstance(setup, str):
        return [f"canaries: none was asked: {setup}"]
    file = canary_file(cache_folder(run.config.cache), run.engine, setup.metrics)
    if setup.config is run.run.config:
        report = await ask_canaries(run.engine, setup.metrics, setup.data, file)
    else:
        async with run.other_models(setup.config) as engine:
            report = await ask_canaries(engine, setup.metrics, setup.data, file)
    run.canary = report.to_json()
    return _lines(report)


def _lines(report: CanaryReport) -> list[str]:
    if report.state == "same":
        return [f"canaries: {report.asked} asked again, {len(report.flips)} have another answer: no drift"]
    return report.lines()


async def plan_before(run: ResolvedMetrics, cache: AnswerCache) -> tuple[list[Expected], str]:
    """Return the expected requests of a run's canaries, and a line on them for the dry run."""
    setup = _setup(run)
    if isinstance(setup, str):
        return [], f"canaries: none would be asked: {setup}"
    async with open_planner(setup.config, cache) as planner:
        file = canary_file(cache_folder(run.config.cache), planner.engine, setup.metrics)
        rounds = await plan_canaries(planner.engine, setup.metrics, setup.data, file)
        requests = planner.estimates.take_all()
    often = f"{rounds} times, as they are frozen" if rounds > 1 else "once, to compare"
    return requests, f"canaries: {len(requests)} of the requests, each question asked {often}"


def _changeable(metric: Metric, recorded: set[str]) -> bool:
    """Tell whether a metric asks a live model, and no recorded judge, which has no answer to a new question."""
    models = set(metric.roles) & set(_MODELS)
    return bool(models - recorded) and "judge" not in models & recorded
