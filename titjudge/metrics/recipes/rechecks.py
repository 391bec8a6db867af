"""Run the recipes' checks again on a prompt that a person has edited."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from titjudge.metrics.recipes._drafts import IN_ENGLISH, Checked, not_english
from titjudge.metrics.recipes.facets import Bilingual
from titjudge.metrics.recipes.long_graph import ENTITIES_SAID, IN_INTERVAL, outside, unsaid
from titjudge.metrics.recipes.six_block import SixBlocks
from titjudge.metrics.recipes.tiif import CONCEPTS_KEPT, unsaid_concepts

Line = Mapping[str, Any]


def check_again(line: Line) -> dict[str, list[str] | None]:
    """Run the checks that a line of `make-prompts` names on its present prompt.

    Returns:
        The problems by check; None for a check that code cannot do: a model made it, or it is about the whole set.
    """
    problems: Checked = {}
    for check in (_english, _six_blocks, _facets, _concepts, _interval, _entities):
        with contextlib.suppress(
            KeyError, TypeError, ValueError, AttributeError
        ):  # a line of another recipe, or damaged
            problems |= check(line)
    return {str(name): problems.get(str(name)) for name in line.get("checks") or ()}


def _english(line: Line) -> Checked:
    return {IN_ENGLISH: not_english(line["prompt"])}


def _six_blocks(line: Line) -> Checked:
    return SixBlocks(**line["blocks"], prompt=line["prompt"]).checked()


def _facets(line: Line) -> Checked:
    draft = Bilingual(prompt_en=line["prompt"], prompt_zh=line["prompt_zh"])
    return draft.checked_texts(line["length"] == "long")


def _concepts(line: Line) -> Checked:
    return {CONCEPTS_KEPT: unsaid_concepts(line["prompt"], line["concepts"])}


def _interval(line: Line) -> Checked:
    fewest, most = map(int, line["interval"].split("-"))
    return {IN_INTERVAL: outside(line["prompt"], fewest, most)}


def _entities(line: Line) -> Checked:
    return {ENTITIES_SAID: unsaid(line["graph"]["entities"], line["prompt"])}
