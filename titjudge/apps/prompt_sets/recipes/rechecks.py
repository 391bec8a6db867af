"""Run the recipes' checks again on a prompt that a person has edited."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from titjudge.apps.prompt_sets.recipes._drafts import IN_ENGLISH, Checked, not_english
from titjudge.apps.prompt_sets.recipes.facets import Bilingual
from titjudge.apps.prompt_sets.recipes.long_graph import ENTITIES_SAID, IN_INTERVAL, length_problems, unsaid_entities
from titjudge.apps.prompt_sets.recipes.six_block import SixBlocks
from titjudge.apps.prompt_sets.recipes.tiif import CONCEPTS_KEPT, unsaid_concepts

Line = Mapping[str, Any]


def _facet_texts(line: Line) -> Checked:
    draft = Bilingual(prompt_en=line["prompt"], prompt_zh=line["prompt_zh"])
    return draft.checked_texts(line["length"] == "long")


def _interval(line: Line) -> Checked:
    fewest, most = map(int, line["interval"].split("-"))
    return {IN_INTERVAL: length_problems(line["prompt"], fewest, most)}


_CHECKS: tuple[Callable[[Line], Checked], ...] = (
    _facet_texts,
    _interval,
    lambda line: {IN_ENGLISH: not_english(line["prompt"])},
    lambda line: SixBlocks(**line["blocks"], prompt=line["prompt"]).checked(),
    lambda line: {CONCEPTS_KEPT: unsaid_concepts(line["prompt"], line["concepts"])},
    lambda line: {ENTITIES_SAID: unsaid_entities(line["graph"]["entities"], line["prompt"])},
)


def check_again(line: Line) -> dict[str, list[str] | None]:
    """Run the checks that a line of `make-prompts` names on its present prompt.

    Returns:
        The problems by check; None for a check that code cannot do: a model made it, or it is about the whole set.
    """
    problems: Checked = {}
    for check in _CHECKS:  # a check of another recipe fails for want of its keys
        with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
            problems |= check(line)
    return {str(name): problems.get(str(name)) for name in line.get("checks") or ()}
