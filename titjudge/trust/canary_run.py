"""The canaries of a run: which of its metrics can be asked today, and with whose eyes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from titjudge.cache import AnswerCache
from titjudge.config import RunConfig
from titjudge.engine import Engine
from titjudge.metrics import Metric
from titjudge.paths import cache_folder, example_folder
from titjudge.roles import Roles
from titjudge.sending import Journal
from titjudge.trust.canary import CanaryReport, ask_canaries, canary_file

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


async def ask_before(
    config: RunConfig, engine: Engine, metrics: Mapping[str, Metric], cache: AnswerCache, journal: Journal | None
) -> Asked:
    """Ask the canaries of the metrics that ask a model which can have changed; a recording cannot.

    A recorded captioner sees the canaries through the descriptions of the bundled example, so that the judge is asked.

    Raises:
        DataError: the file of canaries is damaged. FatalProviderError: as the engine raises it.
    """
    recorded = {name for name in _MODELS if (seat := config.role(name)) is not None and seat.provider == "recorded"}
    usable = {
        name: metric
        for name, metric in metrics.items()
        if "siblings" not in metric.needs and _changeable(metric, recorded)
    }
    place = example_folder()
    if place is None:
        return Asked(None, "the bundled example, whose images they show, is not there")
    if not usable:
        return Asked(None, f"no metric of this run asks a model that can have changed ({', '.join(metrics)})")
    file = canary_file(cache_folder(config.cache), engine, usable)
    descriptions = place / "descriptions.jsonl"
    if "captioner" not in recorded or config.data == place:
        return Asked(await ask_canaries(engine, usable, place, file))
    assert config.captioner is not None
    seat = config.captioner.model_copy(update={"options": {"file": str(descriptions)}})
    other = Engine(
        Roles(config.model_copy(update={"captioner": seat})), engine.library, cache, engine.budget,
        protocol=engine.protocol, journal=journal, lenient=config.lenient,
    )  # fmt: skip
    try:
        return Asked(await ask_canaries(other, usable, place, file))
    finally:
        await other.aclose()


def _changeable(metric: Metric, recorded: set[str]) -> bool:
    """It asks a live model, and no recorded judge, who has no answer to a new question."""
    asked = set(metric.roles) & set(_MODELS)
    return bool(asked - recorded) and "judge" not in asked & recorded
