"""Runs the checks by code of the recipes again, on a line whose prompt a person has edited."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from titjudge.metrics.recipes._drafts import IN_ENGLISH, Checked, not_english
from titjudge.metrics.recipes.facets import Bilingual
from titjudge.metrics.recipes.long_graph import ENTITIES_SAID, IN_INTERVAL, outside, unsaid
from titjudge.metrics.recipes.six_block import SixBlocks
from titjudge.metrics.recipes.tiif import CONCEPTS_KEPT, unsaid_concepts

Line = Mapping[str, Any]


def check_again(line: Line) -> dict[str, list[str] | None]:
    """Run the checks that a line names on its present text.

    Args:
        line: Of `make-prompts`, with another `prompt`.

    Returns:
        For each check what is wrong; None where no code can tell: a model has made that check, or it takes the whole set.
    """
    found: Checked = {}
    for again in (_english, _six_blocks, _facets, _concepts, _interval, _entities):
        try:
            found |= again(line)
        except (
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
        ):  # of another recipe, or damaged: nothing is known of it
            continue
    return {str(name): found.get(str(name)) for name in line.get("checks") or ()}


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
