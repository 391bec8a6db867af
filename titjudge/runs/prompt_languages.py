"""Warn of prompts in a script that the embedder was not trained on, whose scores mean little."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from titjudge.core.config import RunConfig
from titjudge.core.types import InvalidItem, Item
from titjudge.core.words import script
from titjudge.metrics import Metric

MULTILINGUAL = "sentence-transformers/BAAI/bge-m3"
_ENGLISH = re.compile(r"(^|/)all-|[-_.]en([-_.]|$)", re.IGNORECASE)  # names of English sentence embedders


class Foreign:
    """Collects the prompts that are not in Latin letters."""

    def __init__(self) -> None:
        self._scripts: dict[str, str] = {}  # by prompt id

    def look(self, item: Item | InvalidItem) -> Item | InvalidItem:
        """Note the script of an item's prompt, and return the item."""
        if isinstance(item, Item) and (name := script(item.prompt)):
            self._scripts[item.prompt_id or item.id] = name
        return item

    def notes(self, config: RunConfig, metrics: Iterable[Metric]) -> list[str]:
        """Return the warning as one line; none where the embedder may be multilingual or no metric embeds."""
        concerned = [metric.name for metric in metrics if "embedder" in metric.roles]
        multilingual = config.embedder.provider != "default" and not _ENGLISH.search(config.embedder.model_name)
        if multilingual or not concerned or not self._scripts:
            return []
        name = "all-MiniLM-L6-v2" if config.embedder.provider == "default" else config.embedder.model_name
        kinds = ", ".join(kind for kind, _ in Counter(self._scripts.values()).most_common(3))
        several = len(self._scripts) > 1
        return [
            f"{len(self._scripts):,} prompt{'s are' if several else ' is'} not in Latin letters ({kinds}), and the embedder "
            f"{name} was trained on English: {', '.join(concerned)} means little there. A multilingual one: "
            f"--embedder {MULTILINGUAL}"
        ]
