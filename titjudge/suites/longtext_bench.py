"""LongText-Bench: 160 prompts, English or Chinese, with long texts to render (X-Omni, github.com/X-Omni-Team/X-Omni @2b8237b)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from titjudge.core.data_paths import inside
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.files import scan_jsonl
from titjudge.core.types import InvalidItem, Item, Score, Table
from titjudge.metrics.text_reading import Wanted, compare, matched_share
from titjudge.suites.base import Suite
from titjudge.suites.image_tree import ImageTree, find_tree
from titjudge.suites.prompt_places import PromptPlace

_METRIC = "text-reading"
_FILES = {"en": "text_prompts.jsonl", "zh": "text_prompts_zh.jsonl"}


class LongTextBench(Suite):
    """LongText-Bench: long texts rendered in images, read by a vision model (share of words, in Chinese of signs).

    Args:
        mode: `en` or `zh`.
        images: A pattern of image paths, from the working directory, where they are not in `images/`.
    """

    name = "longtext-bench"
    metrics: tuple[str, ...] = (_METRIC,)
    DEVIATIONS: tuple[str, ...] = (
        "the reader is any vision model; upstream's is Qwen2.5-VL-7B-Instruct. A reply cut at 1,024 tokens has no score",
        "official: of the two phrases that the script means to drop, only the second is dropped (its loop starts anew from the "
        "reply), and 'No text recognized' without a full stop, as the prompt asks for it, counts as text; strict: both are dropped",
        "both: text beyond what was asked for costs nothing, as upstream (recall only)",
        "what a reader thinks aloud is not text (strict); no temperature is sent under official, 0 under strict",
        "the score is over all words of all images, as upstream; the means by category and length are ours",
        "upstream ends on a prompt without words; here it is named. eval.sh passes results.json where results.jsonl was written",
    )

    def __init__(self, *, mode: str = "en", images: str = "") -> None:
        if mode not in _FILES:
            raise ConfigError(f"mode is en or zh, not '{mode}'")
        self._mode, self._images = mode, images
        self.notes: dict[str, None] = {}

    def load(self, folder: Path) -> Iterator[Item | InvalidItem]:
        """Yield the images with the texts they are to show; what cannot be judged says file and row.

        Raises:
            DataError: there are no prompts, or no images.
        """
        file, found, problems = self._read(folder)
        yield from problems
        root, pattern = find_tree(
            folder, ["images/{generator}/{prompt_id}_{sample}", "images/{generator}/{prompt_id}"], self._images
        )
        tree = ImageTree(pattern, file.name, {name: prompt for name, (prompt, _) in found.items()})
        for item in tree.items(root, self.image_roots, self.notes):
            yield item if isinstance(item, InvalidItem) else replace(item, meta=found[item.prompt_id][1])

    def prompts(self, folder: Path) -> Iterator[PromptPlace | InvalidItem]:
        """Yield the prompts, and where the script expects their images.

        Raises:
            DataError: there are no prompts.
        """
        _, found, problems = self._read(folder)
        yield from problems
        for name, (prompt, _) in found.items():
            yield PromptPlace(name, prompt, f"images/{{generator}}/{name.zfill(4)}_{{sample}}.png")

    def _read(self, folder: Path) -> tuple[Path, dict[str, tuple[str, dict[str, Any]]], list[InvalidItem]]:
        places = [inside(folder, f"{below}{_FILES[self._mode]}", "file") for below in ("", "textbench/")]
        file = next((place for place in places if place.is_file()), None)
        if file is None:
            raise DataError(f"no {_FILES[self._mode]} here, nor in textbench/", folder)
        found: dict[str, tuple[str, dict[str, Any]]] = {}
        problems = []
        for number, row in scan_jsonl(file, ("prompt_id", "prompt", "text")):
            where = f"{file.name}:{number}"
            problem = row.message if isinstance(row, DataError) else self._wrong(row, found)
            if problem or isinstance(row, DataError):
                problems.append(InvalidItem(where, f"{where}: {problem}"))
                continue
            wanted = Wanted(texts=row["text"], rule="words" if self._mode == "en" else "signs")
            meta: dict[str, Any] = {key: row[key] for key in ("category", "length") if key in row}
            found[str(row["prompt_id"])] = row["prompt"], {**meta, "text": wanted.model_dump(exclude_defaults=True)}
        return file, found, problems

    def _wrong(self, row: dict[str, Any], known: dict[str, Any]) -> str:
        if str(row["prompt_id"]) in known:
            return f"the prompt '{row['prompt_id']}' stands twice"
        if not isinstance(row["prompt"], str) or not row["prompt"].strip():
            return "'prompt' is no prompt"
        texts = row["text"]
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            return "'text' is no list of texts"
        rule = Wanted(texts=texts, rule="words" if self._mode == "en" else "signs")
        return "" if compare(rule, "", official=False) else "'text' has no words"

    def aggregate(self, items: Sequence[Item], scores: Sequence[Score]) -> list[Table]:
        """Make the table: shares of words over all images, and by category and length."""
        by_id = {score.item_id: score for score in scores if score.metric == _METRIC and score.value is not None}
        columns = [("length", each) for each in sorted({str(item.meta.get("length", "")) for item in items} - {""})]
        columns += [
            ("category", each) for each in sorted({str(item.meta.get("category", "")) for item in items} - {""})
        ]
        rows = []
        for generator in sorted({item.generator for item in items}):
            own = [item for item in items if item.generator == generator]
            scored = [(item, by_id[item.id]) for item in own if item.id in by_id]
            parts = [
                matched_share([score for item, score in scored if str(item.meta.get(key, "")) == value])
                for key, value in columns
            ]
            rows.append((generator, len(own), len(scored), matched_share([score for _, score in scored]), *parts))
        titles = ("generator", "images", "scored", "text score", *(f"{key} {value}" for key, value in columns))
        return [Table(f"LongText-Bench ({self._mode}): text score", titles, tuple(rows))]
