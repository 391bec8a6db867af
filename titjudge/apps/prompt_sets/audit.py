"""Read and embed prompts for an audit (`titjudge.apps.prompt_sets.audit_statistics`)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from titjudge.apps.prompt_sets.audit_statistics import Audit, audit
from titjudge.core import registry
from titjudge.core.config import RunConfig
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.types import InvalidItem, Item, Values
from titjudge.core.words import script
from titjudge.engine.cache import open_cache
from titjudge.runs.open_run import open_engine
from titjudge.suites.folder import Prompts
from titjudge.suites.loading import open_suite
from titjudge.suites.patterns import PromptPlace


def audit_prompts(
    config: RunConfig, data: Path, *, columns: str = "", against: Sequence[str] = (), tokenizer: Path | None = None
) -> tuple[Audit, list[str]]:
    """Audit the prompts of a list or a data folder.

    Args:
        config: Gives embedder, cache and caps.
        data: The list of prompts (FILE, or FILE:ID,PROMPT), or a data folder.
        columns: ID,PROMPT of a list whose columns have other names than usual.
        against: Other lists of prompts, data folders, or suites: NAME, NAME:FOLDER.
        tokenizer: A folder with a tokenizer of transformers, which counts tokens in place of the embedder.

    Returns:
        The audit, and the problems of invalid rows.

    Raises:
        UserError: There are no prompts, or a list or tokenizer is missing.
    """
    prompts, meta, problems = _read(data, columns)
    others = {name: _other(name) for name in against}
    texts = [*prompts.values(), *(text for other in others.values() for text in other.values())]
    embedded = asyncio.run(embed_texts(config, list(dict.fromkeys(texts))))
    vectors, name = embedded.vectors, embedded.embedder
    counts = [embedded.tokens[text] for text in prompts.values()]
    if tokenizer is not None:
        name, counts = str(tokenizer), _count(tokenizer, list(prompts.values()))
    result = audit(
        prompts,
        _matrix(vectors, prompts),
        counts,
        name,
        further=meta,
        others={name: (list(other), _matrix(vectors, other)) for name, other in others.items()},
        scripts=[script(text) for text in prompts.values()],
        embedder=embedded.embedder,
        clip=embedded.clip,
    )
    return result, problems


def _matrix(vectors: Mapping[str, np.ndarray], prompts: Mapping[str, str]) -> np.ndarray:
    """Stack the vectors of prompts, shape (prompts, dim)."""
    return np.stack([vectors[text] for text in prompts.values()])


def _read(argument: Path, columns: str = "") -> tuple[dict[str, str], dict[str, Values], list[str]]:
    """Read the texts and the meta of prompts by id, and the problems of invalid rows; `argument` may be FILE:ID,PROMPT."""
    data = argument
    if not argument.exists():
        file, _, columns = str(argument).rpartition(":")
        data = Path(file)
        if not data.is_file():
            raise ConfigError(f"{argument}: no such file or folder")
    suite = Prompts(columns=columns)
    prompts: dict[str, str] = {}
    meta: dict[str, Values] = {}
    problems = []
    for item in suite.items(data):
        if isinstance(item, InvalidItem):
            problems.append(f"{item.id}: {item.reason}")
        elif item.prompt_id not in prompts:
            prompts[item.prompt_id], meta[item.prompt_id] = item.prompt, item.meta
    if not prompts:
        raise DataError("no prompts here", data)
    return prompts, meta, problems


def _other(argument: str) -> dict[str, str]:
    """Read the prompts of a list or data folder, or of a suite in a folder (by default the one that `fetch` makes)."""
    name, _, folder = argument.partition(":")
    if Path(argument).exists() or name not in registry.names("suites"):
        return _read(Path(argument))[0]
    suite = open_suite(RunConfig(suite=name))
    place = Path(folder or name)
    if suite.PROMPTS is None and not place.exists():
        raise ConfigError(
            f"--against {argument}: no folder {place} here: `titjudge fetch {name}`, or give {name}:FOLDER"
        )
    try:
        listed: list[PromptPlace | Item | InvalidItem] = [*suite.prompts(place)]
    except ConfigError:  # its prompts come with its images
        listed = [*suite.items(place)]
    prompts = {item.prompt_id: item.prompt for item in listed if not isinstance(item, InvalidItem)}
    if not prompts:
        raise DataError("no prompts here", place)
    return prompts


class EmbeddedTexts(NamedTuple):
    """Embeddings of texts.

    Attributes:
        vectors: Vector by text.
        tokens: Number of tokens by text.
        embedder: What made them, in words.
        clip: Whether that is CLIP's text encoder.
    """

    vectors: dict[str, np.ndarray]
    tokens: dict[str, int]
    embedder: str
    clip: bool


async def embed_texts(config: RunConfig, texts: Sequence[str]) -> EmbeddedTexts:
    """Embed distinct texts."""
    with open_cache(config.cache) as cache:
        async with open_engine(config, cache, asks=["embedder"]) as engine:
            embeddings = dict(zip(texts, [embedding for _, embedding in await engine.embed(texts)], strict=True))
            embedder = engine.roles.embedder()
    vectors = {text: embedding.vector for text, embedding in embeddings.items()}
    tokens = {text: embedding.tokens_total for text, embedding in embeddings.items()}
    return EmbeddedTexts(vectors, tokens, f"the embedder {embedder.name}", embedder.clip)


def _count(folder: Path, texts: Sequence[str]) -> list[int]:
    """Count the tokens of texts by a tokenizer of transformers, special tokens included."""
    if not folder.is_dir():
        raise ConfigError(f"--tokenizer {folder}: no such folder")
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:
        raise ConfigError(f"--tokenizer {folder}: {type(error).__name__}: no tokenizer of transformers") from error
    return [len(ids) for ids in tokenizer(list(texts))["input_ids"]]
