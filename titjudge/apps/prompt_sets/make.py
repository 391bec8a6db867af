"""Make sets of prompts: draw the seeds of a recipe, and leave out near-duplicates of another prompt."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from titjudge.apps.prompt_sets.audit import embed_texts
from titjudge.apps.prompt_sets.audit_statistics import SAME, NearDuplicate, evenness, unique
from titjudge.apps.prompt_sets.recipes.seeds import RECIPES, Seed, seeds
from titjudge.core.config import RunConfig
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.files import write_jsonl
from titjudge.core.grouping import grouped
from titjudge.runs.folder.run_folder import RunFolder, rest_of_caps
from titjudge.stats.verdict.judged_runs import whole_frame
from titjudge.suites.prompt_list import read_prompts

_DRAWN = {  # value that a recipe draws in turn: its key in a line, and its name
    "six-block": ("theme_class", "classes of themes"),
    "tiif": ("type", "types"),
    "facets": ("targets", "pillars"),
    "long-graph": ("interval", "intervals of words"),
}


def write_seeds(recipe: str, number: int, seed: int, themes: Path | None, out: Path) -> list[Seed]:
    """Draw the seeds of a recipe, or take a person's themes or prompts, and write them as JSON lines.

    Raises:
        ConfigError: Themes for a recipe that draws themes itself, or none for one that does not.
        DataError: There are no themes in the file.
    """
    if themes is not None:
        seed_lines = _read_themes(recipe, themes)
    elif recipe in RECIPES:
        seed_lines = seeds(recipe, number, seed)
    else:
        raise ConfigError(f"--recipe {recipe} requires existing prompts. Add --themes FILE")
    write_jsonl(out, seed_lines)
    return seed_lines


def _read_themes(recipe: str, themes: Path) -> list[Seed]:
    """Read a person's themes or prompts as seeds.

    Raises:
        ConfigError: The recipe draws what it starts from.
        DataError: The file is missing or malformed, or has no themes.
    """
    if recipe in RECIPES and recipe != "six-block":
        raise ConfigError(f"--themes requires --recipe six-block or elements, not '{recipe}', which draws its themes")
    prompts, meta, problems, *_ = read_prompts(str(themes))
    if problems:
        raise DataError(problems[0].reason)
    if not prompts:
        raise DataError("no themes found. Write one theme per line", themes)
    return [{**meta.get(name, {}), "prompt_id": name, "prompt": theme} for name, theme in prompts.items()]


def finished_lines(
    run: Path, recipe: str, config: RunConfig, seed: int | None
) -> tuple[list[dict[str, Any]], list[NearDuplicate]]:
    """List the prompts that a recipe has made, without near-duplicates of another one.

    Args:
        run: The run folder.
        recipe: Name of the recipe.
        config: Gives embedder and cache, and caps, of which the embedder gets what the run has left.
        seed: The random seed of the recipe's seeds; None if a person gave them.

    Returns:
        The lines, and the pairs of prompts of which one was left out.
    """
    lines = list(prompt_lines(run, recipe))
    # Versions of one prompt stay together: they have the same meaning on purpose.
    groups = grouped(lines, lambda line: str(line.get("pair", line["prompt_id"])))
    config = config.model_copy(update={"limits": rest_of_caps(config.limits, [run])})
    first = {name: str(versions[0]["prompt"]) for name, versions in groups.items()}
    kept, alike = _unique(config, first) if groups else ([], [])
    lines = [line for name in kept for line in groups[name]]
    for line in lines:
        line["checks"] = list(dict.fromkeys([*line["checks"], f"unique at a cosine of {SAME}"]))
        line["provenance"] = {**line["provenance"], "seed": seed}
    return lines, alike


def balance(recipe: str, lines: Sequence[Mapping[str, Any]]) -> str:
    """Describe how evenly the prompts cover the values that the recipe draws in turn; empty if it draws none."""
    key, name = _DRAWN.get(recipe, ("", ""))
    values = [line.get(key) or [] for line in lines]
    counts = Counter(part.partition(" / ")[0] for v in values for part in ([v] if isinstance(v, str) else v))
    if len(counts) < 2:
        return ""
    times = " to ".join(map(str, sorted({min(counts.values()), max(counts.values())})))
    return f"{len(counts)} {name}, each {times} times, evenness {evenness(list(counts.values())):.2f}"


def _unique(config: RunConfig, prompts: dict[str, str]) -> tuple[list[str], list[NearDuplicate]]:
    """Return the names of the prompts to keep, and the pairs of near-duplicates."""
    vectors = asyncio.run(embed_texts(config, list(dict.fromkeys(prompts.values())))).vectors
    names = list(prompts)
    places, alike = unique(names, np.stack([vectors[text] for text in prompts.values()]))
    return [names[place] for place in places], alike


def prompt_lines(run: Path, metric: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of each prompt that has a score by `metric`.

    A line has `prompt_id`, `prompt`, the parts of the score (or of each of its `lines`) and `provenance`.
    """
    folder = RunFolder(run)
    manifest = folder.manifest()
    provenance = {
        "models": {name: role.model for name, role in manifest.roles.items() if role.asked or role.cached},
        "templates": dict(manifest.prompts),
        "metric": f"{metric} {manifest.metrics[metric].version}" if metric in manifest.metrics else metric,
    }
    for _, item, score in whole_frame(folder).rows(metric):
        if score.value is not None:
            prompt = {"prompt_id": item.prompt_id, "prompt": item.prompt}
            for line in score.parts.get("lines", [score.parts]):
                yield prompt | line | {"provenance": provenance}


def write_prompt_lines(lines: Sequence[Mapping[str, Any]], out: Path, *, complete: bool) -> str:
    """Write lines to `out` or, while they are not `complete`, to NAME.part.jsonl beside it.

    Returns:
        Their place, in words for the user.
    """
    part = out.with_suffix(f".part{out.suffix}")
    write_jsonl(out if complete else part, lines)
    if not complete:
        return f"{part} is incomplete: run the command again to finish {out}"
    part.unlink(missing_ok=True)
    return str(out)
