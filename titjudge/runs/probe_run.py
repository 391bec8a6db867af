"""Probe a judge from a configuration: a run folder with the trust card in it."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from titjudge.core import registry
from titjudge.core.config import RoleConfig, RunConfig
from titjudge.core.errors import ConfigError
from titjudge.core.numbers import sum_words
from titjudge.core.paths import example_folder
from titjudge.core.types import Item, Score
from titjudge.engine.forecast import Forecast, ForecastSum, Planner
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.probes.battery import MOST
from titjudge.probes.probe import probe
from titjudge.probes.trust_card import Card
from titjudge.runs.folder.identity import default_folder
from titjudge.runs.folder.manifest import provenance
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.resolve import asked_roles, resolve
from titjudge.runs.session import Session

CARD = "card.json"
EVERY = 10.0  # seconds between lines of progress


def run_probe(
    config: RunConfig,
    *,
    repeats: int = 3,
    edits: int = MOST,
    rivals: Sequence[RoleConfig] = (),
    say: Callable[[str], None] | None = None,
) -> tuple[Card, Path]:
    """Probe the one metric of a configuration; asked again, the answers come from the cache.

    Args:
        config: models, limits and the metric.
        repeats: as in `titjudge.probes.probe.probe`.
        edits: as there.
        rivals: other models, for the test of self-preference.
        say: called with a line of progress every 10 seconds.

    Returns:
        The card, and the run folder, which holds it as card.json and the edited images in `images/`.

    Raises:
        ConfigError: there is not one metric, or a model or a price is missing.
        DataError: the data hold no known answers.
        FatalProviderError: a key, a quota or a model name is wrong; answers up to then are kept.
    """
    session = _session(config)
    folder = RunFolder(probe_folder(config))
    folder.open(session.config)
    try:
        return asyncio.run(_run(session, folder, rivals, say, repeats=repeats, edits=edits)), folder.path
    finally:
        folder.close()
        session.cache.close()


def probe_folder(config: RunConfig) -> Path:
    """Name the folder in which the probe of a configuration is kept."""
    resolved = resolve(_with_data(config))
    usual = default_folder(resolved)
    return resolved.out or usual.with_name(f"probe-{usual.name}")


def dry_run(config: RunConfig, *, repeats: int = 3, edits: int = MOST, rivals: Sequence[RoleConfig] = ()) -> Forecast:
    """Estimate the price of what `run_probe` would ask; nothing is sent or kept.

    Raises:
        ConfigError, DataError: as `run_probe`.
    """
    return asyncio.run(_dry_run(_session(config), rivals, repeats=repeats, edits=edits))


async def _dry_run(session: Session, rivals: Sequence[RoleConfig], **options: Any) -> Forecast:
    config = _with_rivals(session, rivals)
    planner = Planner(config, session.library, session.cache)
    items: set[str] = set()
    try:
        with tempfile.TemporaryDirectory() as images:
            options["on_score"] = lambda score: items.add(score.item_id)
            await _probe(session, config, planner.engine, Path(images), **options)
        total = ForecastSum(planner)
        total.add(planner.noted())
        return total.forecast(len(items))
    finally:
        await planner.aclose()
        session.cache.close()


def _session(config: RunConfig) -> Session:
    if len(config.metrics) != 1:
        raise ConfigError("probe takes one metric")
    session = Session(_with_data(config))
    if any(metric.scope == "prompt" for metric in session.metrics.values()):
        raise ConfigError("probe takes a metric that scores one image; the order of two images is tested along with it")
    return session


def _with_data(config: RunConfig) -> RunConfig:
    return config if config.data is not None else config.model_copy(update={"data": example_folder()})


def _with_rivals(session: Session, rivals: Sequence[RoleConfig]) -> RunConfig:
    """Return the session's configuration with the rivals as further judges."""
    return session.config.model_copy(update={"panel": list(rivals)})


async def _probe(session: Session, config: RunConfig, engine: Engine, images: Path, **options: Any) -> Card:
    """Probe the session's metric; edited images are written to the folder `images`."""
    assert config.data is not None
    ((name, metric),) = session.metrics.items()
    pairwise = None
    if "judge" in metric.roles:
        pairwise = registry.load("metrics", "pairwise-text" if "captioner" in metric.roles else "pairwise")
    rivals = config.judge_roles[1:]
    return await probe(engine, name, metric, config.data, images, pairwise=pairwise, rivals=rivals, **options)


async def _run(
    session: Session,
    folder: RunFolder,
    rivals: Sequence[RoleConfig],
    say: Callable[[str], None] | None,
    **options: Any,
) -> Card:
    config = _with_rivals(session, rivals)
    roles = Roles(config)
    roles.check_prices(asked_roles(session.metrics))
    session.restore(folder)
    engine = session.engine(roles, folder)
    started, status = time.time(), "failed"
    count, said_at = 0, time.monotonic()

    def on_score(score: Score) -> None:
        nonlocal count, said_at
        folder.add_score(score)
        count += 1
        if say is not None and time.monotonic() - said_at >= EVERY:
            said_at = time.monotonic()
            asked = sum(role.tally.asked for role in roles.open())
            say(
                f"probing: {count} scores, {asked} questions asked, {sum_words(engine.budget.spent, engine.budget.unpriced, f'${engine.budget.spent:.3f}')} spent"
            )

    def on_items(items: Iterable[Item]) -> None:
        folder.list_items((item, None) for item in items)

    try:
        images = folder.path / "images"
        card = await _probe(session, config, engine, images, on_score=on_score, on_items=on_items, **options)
        status = card.notes[0] if card.notes else "complete"
        folder.write(CARD, card.to_json())
        return card
    finally:
        await engine.aclose()
        more: dict[str, Any] = {"kind": "probe", "status": status, "started": started, "updated": time.time()}
        folder.write_manifest(provenance(session.config, engine, session.metrics, **more))
