"""Probe a judge from a configuration: a run folder with the trust card in it."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from math import fsum
from pathlib import Path
from typing import Any

from titjudge.core import registry
from titjudge.core.config import RoleConfig, RunConfig
from titjudge.core.errors import ConfigError
from titjudge.core.files import write_json
from titjudge.core.numbers import sum_words
from titjudge.core.paths import example_folder
from titjudge.core.run_records import RoleRecord
from titjudge.core.types import Item, Score
from titjudge.engine.cache import open_cache
from titjudge.engine.forecast import Forecast, ForecastSum
from titjudge.engine.pipeline import Engine
from titjudge.probes.battery import MOST
from titjudge.probes.probe import probe
from titjudge.report.card_record import CardRecord
from titjudge.runs.folder.identity import default_folder
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.open_run import COMPLETE, OpenRun, open_folder, open_planner
from titjudge.runs.resolve import ResolvedRun, resolve

CARD = "card.json"
EVERY = 10.0  # seconds between lines of progress


def run_probe(
    config: RunConfig,
    *,
    repeats: int = 3,
    edits: int = MOST,
    rivals: Sequence[RoleConfig] = (),
    say: Callable[[str], None] | None = None,
) -> tuple[CardRecord, Path]:
    """Probe the one metric of a configuration; asked again, the answers come from the cache.

    Args:
        config: Models, limits and the metric.
        repeats: As in `titjudge.probes.probe.probe`.
        edits: As there.
        rivals: Other models, for the test of self-preference.
        say: Called with a line of progress every 10 seconds.

    Returns:
        The card, and the run folder, which has it as card.json and the edited images in `images/`.

    Raises:
        ConfigError: There is not one metric, or a model or a price is missing.
        DataError: The data have no known answers.
        FatalProviderError: A key, a quota or a model name is wrong; answers up to then are kept.
    """
    run = _resolved(config)
    with open_folder(run, _folder(run)) as folder:
        return asyncio.run(_run(run, folder, rivals, say, repeats=repeats, edits=edits)), folder.path


def probe_folder(config: RunConfig) -> Path:
    """Name the folder in which the probe of a configuration is kept."""
    return _folder(_resolved(config))


def _folder(run: ResolvedRun) -> Path:
    usual = default_folder(run.config)
    return run.config.out or usual.with_name(f"probe-{usual.name}")


def dry_run(config: RunConfig, *, repeats: int = 3, edits: int = MOST, rivals: Sequence[RoleConfig] = ()) -> Forecast:
    """Estimate the price of what `run_probe` would ask; nothing is sent or kept.

    Raises:
        ConfigError, DataError: As `run_probe`.
    """
    return asyncio.run(_dry_run(_resolved(config), rivals, repeats=repeats, edits=edits))


async def _dry_run(run: ResolvedRun, rivals: Sequence[RoleConfig], **options: Any) -> Forecast:
    config = _with_rivals(run, rivals)
    items: set[str] = set()
    options["on_score"] = lambda score: items.add(score.item_id)
    with open_cache(config.cache) as cache, tempfile.TemporaryDirectory() as images:
        async with open_planner(config, cache) as planner:
            await _probe(run, config, planner.engine, Path(images), **options)
            total = ForecastSum(planner)
            total.add(planner.estimates.take_all())
            return total.forecast(len(items))


def _resolved(config: RunConfig) -> ResolvedRun:
    """Complete the configuration of a probe.

    Raises:
        ConfigError: There is not one metric that scores one image.
    """
    if len(config.metrics) != 1:
        raise ConfigError(f"probe tests one metric, not {', '.join(config.metrics)}. Choose one with --metric")
    run = resolve(config if config.data is not None else config.model_copy(update={"data": example_folder()}))
    if any(metric.scope == "prompt" for metric in run.metrics.values()):
        raise ConfigError(
            f"the metric {config.metrics[0]} does not score single images, as probe requires. Choose another with --metric"
        )
    return run


def _with_rivals(run: ResolvedRun, rivals: Sequence[RoleConfig]) -> RunConfig:
    """Return the configuration of a run with the rivals as further judges."""
    return run.config.model_copy(update={"panel": list(rivals)})


async def _probe(run: ResolvedRun, config: RunConfig, engine: Engine, images: Path, **options: Any) -> CardRecord:
    """Probe the run's metric; edited images are written to the folder `images`."""
    assert config.data is not None
    ((name, metric),) = run.metrics.items()
    pairwise = None
    if "judge" in metric.roles:
        pairwise = registry.load("metrics", "pairwise-text" if "captioner" in metric.roles else "pairwise")
    rivals = config.judge_roles[1:]
    return await probe(engine, name, metric, config.data, images, pairwise=pairwise, rivals=rivals, **options)


async def _run(
    resolved: ResolvedRun,
    folder: RunFolder,
    rivals: Sequence[RoleConfig],
    say: Callable[[str], None] | None,
    **options: Any,
) -> CardRecord:
    async with OpenRun(resolved, folder, kind="probe", models=_with_rivals(resolved, rivals)) as run:
        said_at = time.monotonic()
        scores: list[Score] = []

        def on_score(score: Score) -> None:
            nonlocal said_at
            folder.add_score(score)
            scores.append(score)
            run.progress.count(score)
            if say is not None and time.monotonic() - said_at >= EVERY:
                said_at = time.monotonic()
                say(_progress_line(run))

        def on_items(items: Iterable[Item]) -> None:
            folder.list_items((item, None) for item in items)

        images = folder.path / "images"
        card = await _probe(resolved, run.config, run.engine, images, on_score=on_score, on_items=on_items, **options)
        run.status = card.notes[0] if card.notes else COMPLETE
    folder.check_in_place()
    card = _of_all_sessions(card, folder, scores)
    write_json(folder.path / CARD, card.to_json(), sync=True)
    return card


def _of_all_sessions(card: CardRecord, folder: RunFolder, scores: Iterable[Score]) -> CardRecord:
    """Set price, time and versions of a card by the stored answers behind its scores, whichever session asked for them."""
    scored = [score for score in scores if score.value is not None]
    keys = {key for score in scored for key in score.replies}
    answers = {reply["key"]: reply for reply in folder.replies() if reply["key"] in keys and not reply["attempt"]}
    embedder = folder.manifest().roles.get("embedder", RoleRecord())
    vectors = len(keys - answers.keys()) / embedder.asked if embedder.asked else 0.0
    unknown = embedder.unpriced or any(reply["list_cost"] is None for reply in answers.values())
    price = fsum(reply["list_cost"] or 0.0 for reply in answers.values()) + vectors * embedder.spent
    seconds = fsum(reply["seconds"] for reply in answers.values()) + vectors * embedder.seconds
    versions: dict[str, set[str]] = {role: set() for role in card.versions}
    for reply in answers.values():
        versions.setdefault(reply["role"], set()).add(reply["model_version"])
    share = 1000 / len(scored) if scored else None
    return card.model_copy(
        update={
            "price_per_1000": None if share is None or unknown else price * share,
            "seconds_per_1000": None if share is None else seconds * share,
            "versions": {role: sorted(filter(None, names)) for role, names in versions.items()},
        }
    )


def _progress_line(run: OpenRun) -> str:
    asked = sum(role.tally.asked for role in run.engine.roles.open())
    budget = run.engine.budget
    spent = sum_words(budget.spent, budget.unpriced, f"${budget.spent:.3f}")
    return f"probing: {run.progress.done} scores, {asked} questions asked, {spent} spent"
