"""Reads and embeds the prompts of an audit; what is counted stands in `titjudge.stats.prompt_audit`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from titjudge.core import registry
from titjudge.core.config import RunConfig
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.paths import cache_folder
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import InvalidItem
from titjudge.engine.budget import Budget
from titjudge.engine.cache import AnswerCache
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.runs.prompt_languages import script
from titjudge.runs.resolve import load_suite
from titjudge.stats.prompt_audit import Audit, audit
from titjudge.suites.prompts import Prompts


def audit_prompts(
    config: RunConfig, data: Path, *, columns: str = "", against: Sequence[str] = (), tokenizer: Path | None = None
) -> tuple[Audit, list[str]]:
    """Audit the prompts of a list or a data folder.

    Args:
        config: Whose embedder, cache and caps.
        data: The list of prompts, or a data folder.
        columns: ID,PROMPT of a list whose columns are not named as usual.
        against: Other lists of prompts, data folders, or suites: NAME, NAME:FOLDER.
        tokenizer: A folder with a tokenizer of transformers, which counts tokens in the embedder's place.

    Returns:
        The audit, and what is wrong with rows, in words.

    Raises:
        UserError: there are no prompts, or a set or tokenizer cannot be had.
    """
    prompts, further, problems = _read(Prompts(columns=columns), data)
    others = {given: _other(given) for given in against}
    wanted = [*prompts.values(), *(text for other in others.values() for text in other.values())]
    vectors, tokens, name = asyncio.run(embed_texts(config, list(dict.fromkeys(wanted))))
    counts = [tokens[text] for text in prompts.values()]
    if tokenizer is not None:
        name, counts = str(tokenizer), _count(tokenizer, list(prompts.values()))
    matrix = np.stack([vectors[text] for text in prompts.values()])
    found = audit(
        prompts, matrix, counts, name,
        further=further,
        others={given: (list(of), np.stack([vectors[text] for text in of.values()])) for given, of in others.items()},
        scripts=[script(text) for text in prompts.values()],
    )  # fmt: skip
    return found, problems


def _read(suite: Prompts, data: Path) -> tuple[dict[str, str], dict[str, Mapping[str, Any]], list[str]]:
    if not data.exists():
        raise ConfigError(f"{data}: no such file or folder")
    prompts: dict[str, str] = {}
    further: dict[str, Mapping[str, Any]] = {}
    problems = []
    for item in suite.load(data):
        if isinstance(item, InvalidItem):
            problems.append(f"{item.id}: {item.reason}")
        elif item.prompt_id not in prompts:
            prompts[item.prompt_id], further[item.prompt_id] = item.prompt, item.meta
    if not prompts:
        raise DataError("no prompts here", data)
    return prompts, further, problems


def _other(given: str) -> dict[str, str]:
    """Read the prompts of a list or data folder, or of a suite whose files lie in a folder (as `fetch` names it)."""
    name, _, folder = given.partition(":")
    if Path(given).exists() or name not in registry.names("suites"):
        return _read(Prompts(), Path(given))[0]
    suite = load_suite(RunConfig(suite=name))
    place = Path(folder or name)
    if suite.PROMPTS is None and not place.exists():
        raise ConfigError(f"--against {given}: no folder {place} here: `titjudge fetch {name}`, or give {name}:FOLDER")
    try:
        found = [each for each in suite.prompts(place) if not isinstance(each, InvalidItem)]
    except ConfigError:  # its images come with it, and so do their prompts
        found = [each for each in suite.load(place) if not isinstance(each, InvalidItem)]
    if not found:
        raise DataError("no prompts here", place)
    return {each.prompt_id: each.prompt for each in found}


async def embed_texts(config: RunConfig, texts: Sequence[str]) -> tuple[dict[str, np.ndarray], dict[str, int], str]:
    """Embed distinct texts: vector and number of tokens of each, and the embedder in words."""
    cache, limits = AnswerCache(cache_folder(config.cache)), config.limits
    roles = Roles(config)
    engine = Engine(
        roles, PromptLibrary(config.prompts), cache, Budget(limits.max_cost, limits.max_requests, limits.max_tokens)
    )
    try:
        found = await engine.embed(texts)
        name = f"the embedder {roles.embedder().name}"
    finally:
        await engine.aclose()
        cache.close()
    vectors = {text: vector.vector for text, (_, vector) in zip(texts, found, strict=True)}
    return vectors, {text: vector.tokens_total for text, (_, vector) in zip(texts, found, strict=True)}, name


def _count(folder: Path, texts: Sequence[str]) -> list[int]:
    """Count the tokens of texts by a tokenizer of transformers, its marks of start and end among them."""
    if not folder.is_dir():
        raise ConfigError(f"--tokenizer {folder}: no such folder")
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:
        raise ConfigError(f"--tokenizer {folder}: {type(error).__name__}: no tokenizer of transformers") from error
    return [len(ids) for ids in tokenizer(list(texts))["input_ids"]]
