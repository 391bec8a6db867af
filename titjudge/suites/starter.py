"""The starter set: bundled prompts with questions, facets and graphs (examples/starter/README.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from titjudge.core import item_meta
from titjudge.core.errors import DataError
from titjudge.core.paths import starter_file
from titjudge.core.types import InvalidItem, Item, Items
from titjudge.suites.folder import Folder
from titjudge.suites.image_tree import ImageTree
from titjudge.suites.manifests import find_tables
from titjudge.suites.patterns import PromptPlace
from titjudge.suites.prompts import Prompts


class Starter(Folder):
    """Twenty bundled prompts (five of them short and long) with questions, facets and graphs: bring only images."""

    name = "starter"
    metrics = ("yes-no", "checklist", "graph-alignment")
    PROMPTS: Path = starter_file()

    def load(self, folder: Path) -> Items:
        """Yield the images of the prompts: those that tables or --images name, else GENERATOR/PROMPT_ID.png.

        Raises:
            DataError: There are no images of them.
        """
        if folder == self.PROMPTS.parent:
            raise DataError("give the images of these prompts: --images 'out/{generator}/{prompt_id}.png'", folder)
        listed = folder.is_file() or (folder / "images.jsonl").is_file() or find_tables(folder, self.image_roots)
        if self._tree is None and not listed:
            self._tree = _usual_tree()
        lines = {item.prompt_id: item for item in Prompts().load(self.PROMPTS) if isinstance(item, Item)}
        for item in super().load(folder):
            line = lines.get(item.prompt_id)
            if isinstance(item, InvalidItem):
                yield item
            elif line is None or line.prompt != item.prompt:
                reason = f"the starter set has no prompt '{item.prompt_id}' with this text"
                yield InvalidItem(item.id, reason, item.generator, item.prompt_id)
            else:
                image_meta = item_meta.without(item, item_meta.SUFFIX)
                yield replace(item, meta={**line.meta, **image_meta})

    def prompts(self, folder: Path) -> Iterator[PromptPlace | InvalidItem]:
        """Yield the bundled prompts."""
        return (self._tree or _usual_tree()).places()


def _usual_tree() -> ImageTree:
    return ImageTree("{generator}/{prompt_id}.{suffix}", str(starter_file()))
