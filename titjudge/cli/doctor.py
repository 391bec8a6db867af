"""`doctor`: what works here, before a run finds out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from titjudge.cli.options import JSON, model_options, option, overrides_of

KEYS = {"openai": ("OPENAI_API_KEY",), "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY")}


@click.command()
@option(
    "--ask",
    "Send one tiny question to the captioner and judge named, and say which endpoint (each of several) and model version answered.",
    is_flag=True,
)
@option(
    "--local",
    "Also say what this machine can run: memory, devices, which known models fit and at what batch size.",
    is_flag=True,
)
@model_options
@JSON
def doctor(ask: bool, local: bool, json_file: Path | None, **flags: Any) -> int:
    """Which providers have keys, which models load, where the cache lies; with --ask, who really answers.

    \b
    Examples:
      python cli.py doctor
      python cli.py doctor --local
      python cli.py doctor --ask --judge openai/m --base-url http://HOST:8000/v1
    """
    from titjudge.cli.output import show_tables, write_json
    from titjudge.core.config import load_config
    from titjudge.core.paths import cache_folder
    from titjudge.core.retirements import default_model, notices
    from titjudge.core.types import Table
    from titjudge.engine.cache import AnswerCache

    config = load_config(flags["config_file"], overrides_of(flags))
    rows: list[tuple[str, str, str]] = [_key(name, names) for name, names in KEYS.items()]
    rows += _clouds()
    rows.append(_embedder(config))
    cache = AnswerCache(cache_folder(config.cache))
    rows.append(
        (
            "cache",
            "ok" if not cache.warnings else "warning",
            "; ".join([str(cache.folder), f"{len(cache)} entries", *cache.warnings]),
        )
    )
    cache.close()
    named = [role for name, role in config.roles.items() if name != "embedder"]
    models = [(role.provider, role.model_name) for role in named] or [(name, default_model(name)) for name in KEYS]
    rows += [("retirement", "announced", line) for line in notices(models)]
    if ask:
        rows += _ask(config)
    tables = [Table("doctor", ("what", "state", "facts"), tuple(rows))]
    if local:
        from titjudge.providers.local.hardware import local_report

        found = [*local_report(), _weights()]
        tables.append(Table("this machine", ("what", "state", "facts"), tuple(found)))
        rows += found
    show_tables(tables)
    write_json(json_file, [dict(zip(("what", "state", "facts"), row, strict=True)) for row in rows])
    return 0 if all(state != "failed" for _, state, _ in rows) else 2


def _key(provider: str, names: tuple[str, ...]) -> tuple[str, str, str]:
    found = next((name for name in names if os.environ.get(name)), None)
    return (provider, "ok" if found else "no key", f"{found} is set" if found else f"set {' or '.join(names)}")


def _clouds() -> list[tuple[str, str, str]]:
    """Whose settings for Azure OpenAI and Vertex AI are here; nobody is asked."""
    endpoint = os.environ.get("AZURE_OPENAI_ENDPOINT")
    by = [name for name in ("AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_API_KEY") if os.environ.get(name)]
    azure = (
        f"{endpoint}, by {by[0] if by else 'Entra ID'}"
        if endpoint
        else "set AZURE_OPENAI_ENDPOINT for azure/DEPLOYMENT"
    )
    rows = [("azure", "ok" if endpoint else "no address", azure)]
    if os.environ.get("GOOGLE_GENAI_USE_VERTEXAI"):
        from titjudge.core.errors import ConfigError
        from titjudge.core.types import ProviderSettings
        from titjudge.providers.hosted.gemini import Gemini

        try:
            vertex = Gemini(ProviderSettings("gemini"))
            where = vertex.base_url if vertex.vertex else "off: gemini/ goes to the Gemini API"
            rows.append(("vertex ai", "ok", where))
        except ConfigError as error:
            rows.append(("vertex ai", "failed", str(error)))
    return rows


def _weights() -> tuple[str, str, str]:
    """Whose weights of learned metrics lie where `$TITJUDGE_WEIGHTS` says; the others come from the hub."""
    from titjudge.core.learned_metrics import BUILT_IN
    from titjudge.providers.local.hub import offline

    place = os.environ.get("TITJUDGE_WEIGHTS", "")
    others = "not to be had: HF_HUB_OFFLINE is set" if offline() else "from the hub when they are first used"
    if not place:
        return ("weights of learned metrics", "ok", f"TITJUDGE_WEIGHTS is not set; what is not cached is {others}")
    folder = Path(place).expanduser()
    if not folder.is_dir():
        return ("weights of learned metrics", "failed", f"TITJUDGE_WEIGHTS: {folder} is no folder")
    here = [row.key for row in BUILT_IN if (folder / row.key).is_dir()]
    facts = f"{folder}: {', '.join(here) or 'none'}; others, where not cached, are {others}"
    return ("weights of learned metrics", "ok", facts)


def _embedder(config: Any) -> tuple[str, str, str]:
    import asyncio

    from titjudge.core.errors import TitjudgeError
    from titjudge.engine.roles import Roles

    async def try_it() -> str:
        roles = Roles(config)
        try:
            embedder = roles.embedder()
            (vector,) = await embedder.embed(["a red cube"])
            return f"{embedder.name}: {len(vector.vector)} dimensions, reads {embedder.max_tokens} tokens"
        finally:
            await roles.aclose()

    try:
        return (f"embedder {config.embedder.model}", "ok", asyncio.run(try_it()))
    except TitjudgeError as error:
        return (f"embedder {config.embedder.model}", "failed", str(error))


def _ask(config: Any) -> list[tuple[str, str, str]]:
    """One row for each model and each of its addresses."""
    import asyncio

    from titjudge.core.errors import TitjudgeError, UserError
    from titjudge.core.prompts import PromptLibrary
    from titjudge.core.types import Message
    from titjudge.engine.pipeline import Engine
    from titjudge.engine.roles import Roles

    seats = [(n, role) for n, role in config.roles.items() if n != "embedder" and role.provider != "recorded"]
    if not seats:
        raise UserError("--ask needs a model: add --captioner or --judge PROVIDER/MODEL")

    async def one(engine: Engine, name: str, address: str) -> tuple[str, str, str]:
        role = engine.roles["judge"]
        request = engine.request(
            role,
            (Message("user", ("Answer with the word ok.",)),),
            template="doctor",
            item_id="doctor",
            schema=None,
            params={"max_tokens": 16},
        )
        try:
            reply = await engine.answer(role, request, accept_truncated=True)
        except TitjudgeError as error:
            return (f"{name} {role.label}", "failed", f"{address}: {error}" if address else str(error))
        return (
            f"{name} {role.label}",
            "ok",
            f"{reply.endpoint} answered as {reply.model_version or 'an unnamed version'} in {reply.seconds:.2f} s",
        )

    async def run() -> list[tuple[str, str, str]]:
        found = []
        for name, role in seats:
            for address in [each.strip() for each in (role.base_url or "").split(",")]:  # each proves itself
                alone = role.model_copy(update={"base_url": address or None})
                engine = Engine(Roles(config.model_copy(update={"judge": alone})), PromptLibrary(config.prompts))
                try:
                    found.append(await one(engine, name, address))
                finally:
                    await engine.aclose()
        return found

    return asyncio.run(run())
