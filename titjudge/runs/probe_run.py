"""`probe` from a configuration to a run folder with a card in it."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from titjudge.core import registry
from titjudge.core.config import RoleConfig, RunConfig
from titjudge.core.dry_run import DryRun
from titjudge.core.errors import ConfigError
from titjudge.core.paths import example_folder
from titjudge.core.types import Item, Score
from titjudge.engine.forecast import Forecast, ForecastSum, Planner
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.probes.battery import MOST
from titjudge.probes.probe import probe
from titjudge.probes.trust_card import Card
from titjudge.runs.identity import default_folder
from titjudge.runs.manifest import provenance
from titjudge.runs.resolve import resolve
from titjudge.runs.run_folder import RunFolder, resumed_budget
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
    """Probe the one metric of a configuration; returns the card and the run folder, which holds it as card.json.

    `edits` and `repeats` as in `probe`; `rivals` are other models for the exchange that shows self-preference; `say` is
    called with a line of progress every 10 seconds.
    Asked again, the answers come from the cache. Changed images lie in `images/` of the run folder.

    Raises:
        ConfigError: no metric or several, a model or a price is missing.
        DataError: the data hold no known answers.
        FatalProviderError: a key, a quota or a model name is wrong; answers up to then are kept.
    """
    session = _session(config)
    path = probe_folder(config)
    folder = RunFolder(path)
    folder.open(session.config)
    try:
        return asyncio.run(_run(session, folder, repeats, edits, rivals, say)), path
    finally:
        folder.close()
        session.cache.close()


def probe_folder(config: RunConfig) -> Path:
    """Name the folder in which the probe of a configuration is kept."""
    whole = resolve(_with_data(config))
    usual = default_folder(whole)
    return whole.out or usual.with_name(f"probe-{usual.name}")


def dry_run(config: RunConfig, *, repeats: int = 3, edits: int = MOST, rivals: Sequence[RoleConfig] = ()) -> Forecast:
    """Price what `run_probe` would ask: the same battery over estimating providers; nothing is sent or kept.

    Raises:
        ConfigError, DataError: as `run_probe`.
    """
    return asyncio.run(_dry_run(_session(config), repeats, edits, rivals))


async def _dry_run(session: Session, repeats: int, edits: int, rivals: Sequence[RoleConfig]) -> Forecast:
    seated = session.config.model_copy(update={"panel": list(rivals)})
    planner = Planner(seated, session.library, session.cache, DryRun.EXPECTED)
    scored: set[str] = set()
    try:
        with tempfile.TemporaryDirectory() as work:
            await _battery(
                session, planner.engine, Path(work), repeats, edits, seated,
                on_score=lambda score: scored.add(score.item_id),
            )  # fmt: skip
        total = ForecastSum(planner)
        total.add(planner.noted())
        return total.forecast(len(scored))
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


async def _battery(
    session: Session, engine: Engine, work: Path, repeats: int, edits: int, seated: RunConfig, **told: Any
) -> Card:
    """Ask everything that is asked of a judge; changed images are written to `work`."""
    assert session.config.data is not None
    ((name, metric),) = session.metrics.items()
    pairwise = None
    if "judge" in metric.roles:
        pairwise = registry.load("metrics", "pairwise-text" if "captioner" in metric.roles else "pairwise")
    rivals = seated.judge_roles[1:]
    return await probe(
        engine, name, metric, session.config.data, work, repeats=repeats, edits=edits, pairwise=pairwise, rivals=rivals, **told
    )  # fmt: skip


class _Watch:
    """Keeps each score, and tells now and then how many there are."""

    def __init__(self, keep: Callable[[Score], None], engine: Engine, say: Callable[[str], None] | None) -> None:
        self._keep, self._engine, self._say = keep, engine, say
        self._told, self._count = time.monotonic(), 0

    def take(self, score: Score) -> None:
        self._keep(score)
        self._count += 1
        if self._say is None or time.monotonic() - self._told < EVERY:
            return
        self._told = time.monotonic()
        asked = sum(role.tally.asked for role in self._engine.roles.open())
        self._say(f"probing: {self._count} scores, {asked} questions asked, ${self._engine.budget.spent:.3f} spent")


async def _run(
    session: Session,
    folder: RunFolder,
    repeats: int,
    edits: int,
    rivals: Sequence[RoleConfig],
    say: Callable[[str], None] | None,
) -> Card:
    config = session.config
    seated = config.model_copy(update={"panel": list(rivals)})
    roles = Roles(seated)
    roles.check_prices(role for each in session.metrics.values() for role in each.roles)
    session.restore(folder)
    engine = Engine(
        roles,
        session.library,
        session.cache,
        resumed_budget(config.limits, folder.money()),
        journal=folder.journal,
        known=folder.known_keys(),
        failed=config.failed,
    )
    started, status = time.time(), "failed"

    def listed(items: Iterable[Item]) -> None:
        folder.list_items((item, None) for item in items)

    try:
        work = folder.path / "images"
        watch = _Watch(folder.add_score, engine, say)
        card = await _battery(session, engine, work, repeats, edits, seated, on_score=watch.take, on_items=listed)
        status = card.notes[0] if card.notes else "complete"
        folder.write(CARD, card.to_json())
        return card
    finally:
        await engine.aclose()
        more: dict[str, Any] = {"kind": "probe", "status": status, "started": started, "updated": time.time()}
        folder.write_manifest(provenance(config, engine, session.metrics, **more))
