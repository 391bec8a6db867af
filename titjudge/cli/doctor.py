"""`doctor`: check keys, models, cache and endpoints before a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from titjudge.cli.commands import Command
from titjudge.cli.options import JSON, RunKeys, configured, model_options, options
from titjudge.cli.output import show_results
from titjudge.cli.terminal import say
from titjudge.core.declarations import FACTS
from titjudge.core.errors import ConfigError, TitjudgeError, UserError

if TYPE_CHECKING:
    from titjudge.core.config import RunConfig

Row = tuple[str, str, str]
_COLUMNS = ("what", "state", "facts")
_WHICH_COLOUR = "Which colour fills this image? Answer with one word."
_UNSEEN = "the image may not reach the model"


@click.command(cls=Command)
@options("ask", "local")
@model_options
@JSON
@configured
def doctor(keys: RunKeys, ask: bool, local: bool, json_file: Path | None) -> int:
    """Check which providers have keys, which models load, and where the cache is; with --ask, also whether models answer.

    The exit code is 2 if a check has failed.

    \b
    Examples:
      python cli.py doctor
      python cli.py doctor --local
      python cli.py doctor --ask --judge openai/m --base-url http://HOST:8000/v1
    """
    from titjudge.core import registry
    from titjudge.core.types import Table
    from titjudge.providers.retirements import notices

    config = keys.config()
    providers = dict.fromkeys([*registry.TABLES["providers"], *registry.names("providers")])
    rows = [row for name in providers for row in _setup(name)]
    rows += [_embedder(config), *_detector(config), _cache(config), *_overridden()]
    roles = [role for name, role in config.roles.items() if name != "embedder"]
    models = [(role.provider, role.named) for role in roles] or [(name, "") for name in providers]
    rows += [("retirement", "announced", line) for line in notices(models)]
    if ask:
        rows += _ask(config)
    tables = [Table("doctor", _COLUMNS, tuple(rows), declared=FACTS)]
    if local:
        from titjudge.providers.local.hardware import local_report

        machine = [*local_report(), _weights()]
        tables.append(Table("this machine", _COLUMNS, tuple(_too_large_in_one(machine)), declared=FACTS))
        rows += machine
    show_results(tables, [dict(zip(_COLUMNS, row, strict=True)) for row in rows], json_file)
    return 0 if all(state != "failed" for _, state, _ in rows) else 2


def _setup(provider: str) -> list[Row]:
    """Check the keys and addresses of a provider; no request is sent."""
    from titjudge.core import registry

    try:
        setup = getattr(registry.load("providers", provider), "setup", list)
    except ConfigError as error:
        return [(provider, "warning", str(error))]
    return list(setup())


def _overridden() -> list[Row]:
    """Name what packages announce under a name of titjudge's own: it is not used."""
    from titjudge.cli.overview import BUILT_IN
    from titjudge.core import registry

    targets_by_kind = {
        "commands": registry.overridden("commands", BUILT_IN),
        **{kind: registry.overridden(kind) for kind in registry.TABLES},
    }
    return [
        (name, "warning", f"an entry point of titjudge.{kind} ({target}) is not used: the name is titjudge's own")
        for kind, targets in targets_by_kind.items()
        for name, target in targets.items()
    ]


def _cache(config: RunConfig) -> Row:
    """Open the cache."""
    from titjudge.engine.cache import open_cache

    try:
        with open_cache(config.cache) as cache:
            facts = "; ".join([str(cache.folder), f"{len(cache)} entries", *cache.warnings])
            return ("cache", "warning" if cache.warnings else "ok", facts)
    except UserError as error:
        return ("cache", "failed", str(error))


def _too_large_in_one(rows: list[Row]) -> list[Row]:
    """Write in one line how many of the known models do not fit; `--json` has each."""
    from titjudge.providers.local.hardware import TOO_LARGE

    names = [name.rpartition("/")[2] for name, state, _ in rows if state == TOO_LARGE]
    kept = [row for row in rows if row[1] != TOO_LARGE]
    return [*kept, (f"{len(names)} known models", TOO_LARGE, ", ".join(names))] if names else kept


def _weights() -> Row:
    """List the learned metrics whose weights are in `$TITJUDGE_WEIGHTS`; the others are downloaded from the hub."""
    from titjudge.data.learned_metrics import NATIVE, rows
    from titjudge.providers.local.hub import offline

    place = os.environ.get("TITJUDGE_WEIGHTS", "")
    others = "not available, because HF_HUB_OFFLINE is set" if offline() else "downloaded from the hub at first use"
    if not place:
        return ("weights of learned metrics", "ok", f"TITJUDGE_WEIGHTS is not set; others are {others}")
    folder = Path(place).expanduser()
    if not folder.is_dir():
        return ("weights of learned metrics", "failed", f"TITJUDGE_WEIGHTS: {folder} is not a folder")
    present = [row.key for row in rows(NATIVE) if (folder / row.key).is_dir()]
    facts = f"{folder}: {', '.join(present) or 'none'}; other weights, if not cached, are {others}"
    return ("weights of learned metrics", "ok", facts)


def _embedder(config: RunConfig) -> Row:
    """Embed a text with the configured model."""
    import asyncio

    from titjudge.runs.open_run import open_engine

    async def embed() -> str:
        async with open_engine(_without_retries(config)) as engine:
            embedder = engine.roles.embedder()
            ((_, vector),) = await engine.embed(["a red cube"])
            return f"{embedder.name}: {len(vector.vector)} dimensions, reads {embedder.max_tokens} tokens"

    say(f"loading the embedder {config.embedder.model} ...", err=True)  # takes half a minute on a busy machine
    try:
        return (f"embedder {config.embedder.model}", "ok", asyncio.run(embed()))
    except TitjudgeError as error:
        return (f"embedder {config.embedder.model}", "failed", str(error))


def _detector(config: RunConfig) -> list[Row]:
    """Find the configured detector, if any, without loading it."""
    from titjudge.providers import make_provider

    if config.detector is None:
        return []
    try:
        provider = make_provider(config.detector.provider, config.settings_of(config.detector))
        provider.ready()
        return [(f"detector {config.detector.model}", "ok", provider.base_url)]
    except TitjudgeError as error:
        return [(f"detector {config.detector.model}", "failed", str(error))]


def _without_retries(config: RunConfig) -> RunConfig:
    """Return a configuration in which every question is asked once: `doctor` is to find what does not answer."""
    return config.model_copy(update={"limits": config.limits.model_copy(update={"attempts": 1, "patience": 0.0})})


def _ask(config: RunConfig) -> list[Row]:
    """Ask each captioner and judge, at each of its addresses, one question; a captioner about an image."""
    import asyncio
    import tempfile

    from PIL import Image

    from titjudge.core.config import TOOL_ROLES
    from titjudge.core.types import Message, Status
    from titjudge.core.words import in_one_line, truncated
    from titjudge.engine.pipeline import ReplyRules
    from titjudge.runs.open_run import open_engine

    models = [
        (name, role) for name, role in config.roles.items() if name not in TOOL_ROLES and role.provider != "recorded"
    ]
    if not models:
        raise UserError("--ask requires a model. Add --captioner or --judge PROVIDER/MODEL")

    async def ask(name: str, judge: Any, address: str, image: Path) -> Row:
        say(f"asking {name} {judge.model}{f' at {address}' if address else ''} ...", err=True)
        async with open_engine(_without_retries(config.model_copy(update={"judge": judge}))) as engine:
            role = engine.roles["judge"]
            shown = name == "captioner" and role.provider.capabilities.images
            parts = (await engine.images.open(image), _WHICH_COLOUR) if shown else ("Answer with the word ok.",)
            request = engine.request(
                role,
                (Message("user", parts),),
                template="doctor",
                params={"max_tokens": 16},
            )
            try:
                reply = await engine.answer(role, request, ReplyRules(truncated=True))
            except TitjudgeError as error:
                return (f"{name} {role.label}", "failed", f"{address}: {error}" if address else str(error))
        version = reply.model_version or "an unnamed version"
        facts = f"{reply.endpoint} answered as {version} in {reply.seconds:.2f} s"
        if shown and role.tally.blind:
            return (f"{name} {role.label}", "warning", f"{facts}, with too few input tokens for an image: {_UNSEEN}")
        if shown and reply.status is Status.OK and "red" not in reply.text.lower():
            said = truncated(in_one_line(reply.text), 40)
            return (f"{name} {role.label}", "warning", f"{facts}, and described a red image as '{said}': {_UNSEEN}")
        return (f"{name} {role.label}", "ok", facts)

    async def ask_all(image: Path) -> list[Row]:
        return [
            await ask(name, role.model_copy(update={"base_url": address or None}), address, image)
            for name, role in models
            for address in map(str.strip, (role.base_url or "").split(","))
        ]

    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "red.png"
        Image.new("RGB", (256, 256), (220, 20, 20)).save(image)
        return asyncio.run(ask_all(image))
