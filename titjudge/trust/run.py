"""`probe` from a configuration to a run folder with a card in it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path

from titjudge import registry
from titjudge.config import RunConfig
from titjudge.engine import Engine
from titjudge.errors import ConfigError
from titjudge.roles import Roles
from titjudge.run import RunFolder, default_folder, provenance
from titjudge.session import Session, example_folder
from titjudge.trust.card import Card
from titjudge.trust.probe import probe
from titjudge.types import Item

CARD = "card.json"


def run_probe(config: RunConfig, *, repeats: int = 3) -> tuple[Card, Path]:
    """Probe the one metric of a configuration; returns the card and the run folder, which holds it as card.json.

    Asked again, the answers come from the cache. Changed pictures lie in `images/` of the run folder.

    Raises:
        ConfigError: no metric or several, a model or a price is missing.
        DataError: the data hold no known answers.
        FatalProviderError: a key, a quota or a model name is wrong; answers up to then are kept.
    """
    if len(config.metrics) != 1:
        raise ConfigError("probe takes one metric")
    if config.data is None:
        config = config.model_copy(update={"data": example_folder()})
    session = Session(config)
    if any("siblings" in metric.needs for metric in session.metrics.values()):
        raise ConfigError("probe takes a metric that scores one image; the order of two images is tested along with it")
    path = session.config.out
    if path is None:
        usual = default_folder(session.config)
        path = usual.with_name(f"probe-{usual.name}")
    folder = RunFolder(path)
    folder.open(session.config)
    try:
        return asyncio.run(_run(session, folder, repeats)), path
    finally:
        folder.close()
        session.cache.close()


async def _run(session: Session, folder: RunFolder, repeats: int) -> Card:
    config = session.config
    assert config.data is not None
    roles = Roles(config)
    roles.check_prices(role for each in session.metrics.values() for role in each.roles)
    engine = Engine(
        roles,
        session.library,
        session.cache,
        session.budget(folder.money()),
        protocol=config.protocol,
        journal=folder.journal,
        lenient=config.lenient,
        known=folder.known_keys(),
    )
    ((name, metric),) = session.metrics.items()
    pairwise = None
    if "judge" in metric.roles:
        pairwise = registry.load("metrics", "pairwise-text" if "captioner" in metric.roles else "pairwise")
    started, status = time.time(), "failed"

    def listed(items: Iterable[Item]) -> None:
        folder.list_items(items)

    try:
        card = await probe(
            engine,
            name,
            metric,
            config.data,
            folder.path / "images",
            repeats=repeats,
            pairwise=pairwise,
            on_score=folder.add_score,
            on_items=listed,
        )
        status = card.notes[0] if card.notes else "complete"
        folder.write(CARD, card.to_json())
        return card
    finally:
        await engine.aclose()
        record = provenance(config, engine, session.metrics)
        times = {"started": started, "updated": time.time()}
        folder.write("manifest.json", record | {"kind": "probe", "status": status, **times})
