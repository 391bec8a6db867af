"""Read and embed prompts for an audit (`titjudge.apps.prompt_sets.audit_statistics`)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from titjudge.apps.prompt_sets.audit_statistics import ENCODERS, SAME, Audit, audit, by_frequency, evenness_note
from titjudge.core import registry
from titjudge.core.config import RunConfig
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.types import InvalidItem, Item, Values
from titjudge.engine.cache import open_cache
from titjudge.report.drawing import WIDTH, Canvas, Chart, shortened
from titjudge.report.html import write_page
from titjudge.runs.open_run import open_engine
from titjudge.suites.folder import Prompts
from titjudge.suites.loading import open_suite
from titjudge.suites.patterns import PromptPlace

_BARS = 30  # values of a column that are drawn


def write_prompt_page(audit: Audit, source: str, out: Path) -> None:
    """Write the page of an audit.

    Raises:
        OSError: The file cannot be written.
    """
    count = len(audit.prompts)
    lines = [
        f"{count:,} prompts, {audit.unique:,} of them unique ({audit.unique / count:.0%}) at a cosine of {SAME}.",
        f"Counted {audit.counted}.",
    ]
    if audit.leaks:
        lines.append(f"{len({leak.prompt for leak in audit.leaks}):,} are near-duplicates of a prompt of another set.")
    cut = "; ".join(f"{name} would cut {audit.cut(limit)[0]:,}" for name, limit in ENCODERS.items())
    limits = {f"{name} {limit}": limit for name, limit in ENCODERS.items() if limit <= 1.3 * max(audit.tokens)}
    charts = [
        _histogram(
            "tokens",
            "How long the prompts are",
            f"Prompts by tokens. {cut}.",
            audit.tokens,
            "tokens of a prompt",
            limits,
        ),
        _histogram("words", "Words", "Prompts by words.", audit.words, "words of a prompt"),
    ]
    if audit.nearest:
        note = f"Prompts by similarity to the nearest other prompt; right of {SAME} are near-duplicates."
        bins = np.linspace(min(0.0, *audit.nearest), 1.0, 41)
        axis = "cosine with the nearest other prompt"
        charts.append(_histogram("alike", "How alike the prompts are", note, audit.nearest, axis, {"": SAME}, bins))
    if audit.grades:
        note = "Prompts by Flesch-Kincaid school grade: for English."
        charts.append(
            _histogram(
                "reading",
                "Reading level",
                note,
                audit.grades,
                "school grade",
                bins=np.linspace(*_span(audit.grades), 41),
            )
        )
    charts += [_balance(k, name, values) for k, (name, values) in enumerate(audit.columns.items())]
    write_page(f"Prompts of {source}", lines, charts, audit.tables(), out)


def _histogram(
    id: str,
    title: str,
    note: str,
    values: Sequence[float],
    axis: str,
    marks: Mapping[str, float] | None = None,
    bins: np.ndarray | None = None,
) -> Chart:
    """Chart a histogram over prompts, with a line at each mark."""

    def draw(canvas: Canvas) -> None:
        axes = canvas.axes()
        edges = np.linspace(0, max(values) * 1.02 + 1, 41) if bins is None else bins
        axes.hist(values, bins=edges.tolist(), color=canvas.colour(0))
        top = axes.get_ylim()[1]
        for name, place in (marks or {}).items():
            axes.axvline(place, color=canvas.colour(1), linewidth=1.4, linestyle="--")
            axes.annotate(
                name,
                (place, top),
                xytext=(3, -2),
                textcoords="offset points",
                fontsize=9,
                va="top",
                color=canvas.palette.ink,
            )
        axes.set_xlabel(axis)

    return Chart(id, title, note, draw)


def _balance(number: int, column: str, values: Mapping[str, int]) -> Chart:
    """Chart the numbers of prompts with the most frequent values of a column, with a line at the mean."""
    kept, rare = by_frequency(values)[:_BARS], len(values) - _BARS
    height = 0.5 + 0.22 * len(kept)

    def draw(canvas: Canvas) -> None:
        axes = canvas.axes((0.3, 0.35 / height, 0.68, 1 - 0.4 / height), grid="x")
        axes.barh(range(len(kept)), [count for _, count in kept], color=canvas.colour(0), height=0.7)
        axes.axvline(sum(values.values()) / len(values), color=canvas.colour(1), linewidth=1.4, linestyle="--")
        axes.set_yticks(range(len(kept)), [shortened(value, 25) for value, _ in kept])
        axes.invert_yaxis()
        axes.xaxis.get_major_locator().set_params(integer=True)

    rest = f"; {rare} rarer ones are in the table" if rare > 0 else ""
    note = f"Prompts by {column}; the line: all equally often; {evenness_note(values)}{rest}."
    return Chart(f"balance-{number}", f"Balance of {column}", note, draw, size=(WIDTH, height))


def _span(values: Sequence[float]) -> tuple[float, float]:
    return min(0.0, *values), max(values) + 1


def audit_prompts(
    config: RunConfig, data: Path, *, columns: str = "", against: Sequence[str] = (), tokenizer: Path | None = None
) -> tuple[Audit, list[tuple[str, str]]]:
    """Audit the prompts of a list or a data folder.

    Args:
        config: Gives embedder, cache and caps.
        data: The list of prompts (FILE, or FILE:ID,PROMPT), or a data folder.
        columns: ID,PROMPT of a list whose columns have other names than usual.
        against: Other lists of prompts, data folders, or suites: NAME, NAME:FOLDER.
        tokenizer: A folder with a tokenizer of transformers, which counts tokens instead of the embedder.

    Returns:
        The audit, and place and reason of each invalid row.

    Raises:
        UserError: There are no prompts, or a list or tokenizer is missing.
    """
    prompts, meta, problems = _read(data, columns)
    others = {name: _other(name) for name in against}
    texts = [*prompts.values(), *(text for other in others.values() for text in other.values())]
    embedded = asyncio.run(embed_texts(config, sorted(set(texts))))
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
        embedder=embedded.embedder,
        clip=embedded.clip,
    )
    return result, problems


def _matrix(vectors: Mapping[str, np.ndarray], prompts: Mapping[str, str]) -> np.ndarray:
    """Stack the vectors of prompts, shape (prompts, dim)."""
    return np.stack([vectors[text] for text in prompts.values()])


def _read(argument: Path, columns: str = "") -> tuple[dict[str, str], dict[str, Values], list[tuple[str, str]]]:
    """Read the texts and the meta of prompts by id, and place and reason of each invalid row; `argument` may be FILE:ID,PROMPT."""
    data = argument
    if not argument.exists():
        file, _, columns = str(argument).rpartition(":")
        data = Path(file)
        if not data.is_file():
            raise ConfigError(f"{argument}: no such file or folder. Give a list of prompts or a data folder")
    suite = Prompts(columns=columns)
    prompts: dict[str, str] = {}
    meta: dict[str, Values] = {}
    problems = []
    for item in suite.items(data):
        if isinstance(item, InvalidItem):
            problems.append((item.id, item.reason))
        elif item.prompt_id not in prompts:
            prompts[item.prompt_id], meta[item.prompt_id] = item.prompt, item.meta
    if not prompts:
        raise DataError("no prompts found. Give a list with one prompt per line or row, or a data folder", data)
    return _sorted(prompts), meta, problems


def _sorted(prompts: Mapping[str, str]) -> dict[str, str]:
    """Sort prompts by their texts, so that an audit depends neither on the order of rows nor on ids."""
    return dict(sorted(prompts.items(), key=lambda item: item[::-1]))


def _other(argument: str) -> dict[str, str]:
    """Read the prompts of a list or data folder, or of a suite in a folder (by default the one that `suites fetch` makes)."""
    name, _, folder = argument.partition(":")
    if Path(argument).exists() or name not in registry.names("suites"):
        return _read(Path(argument))[0]
    suite = open_suite(RunConfig(suite=name))
    place = Path(folder or name)
    if suite.PROMPTS is None and not place.exists():
        raise ConfigError(
            f"--against {argument}: the folder {place} does not exist. Run `titjudge suites fetch {name}`, or give {name}:FOLDER"
        )
    try:
        listed: list[PromptPlace | Item | InvalidItem] = [*suite.prompts(place)]
    except ConfigError:  # its prompts come with its images
        listed = [*suite.items(place)]
    prompts = {item.prompt_id: item.prompt for item in listed if not isinstance(item, InvalidItem)}
    if not prompts:
        raise DataError(f"no prompts found. Give the folder of the benchmark as {name}:FOLDER", place)
    return _sorted(prompts)


class EmbeddedTexts(NamedTuple):
    """Embeddings of texts.

    Attributes:
        vectors: Vector by text.
        tokens: Number of tokens by text.
        embedder: Their embedder, in words.
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
        raise ConfigError(f"--tokenizer {folder}: no such folder. Give the folder of a tokenizer")
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:
        raise ConfigError(
            f"--tokenizer {folder}: transformers cannot load it ({type(error).__name__}). Give a folder with tokenizer.json"
        ) from error
    return [len(ids) for ids in tokenizer(list(texts))["input_ids"]]
