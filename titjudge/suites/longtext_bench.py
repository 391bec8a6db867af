"""LongText-Bench: 160 prompts, English or Chinese, with long texts to render (X-Omni, github.com/X-Omni-Team/X-Omni @2b8237b)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from titjudge.core.errors import ConfigError, DataError
from titjudge.core.files import scan_jsonl
from titjudge.core.types import InvalidItem, Item, Score, Table
from titjudge.metrics.text_reading import Wanted, compare, matched_share
from titjudge.suites.prompt_file import PromptFileSuite, Prompts, file_in

_METRIC = "text-reading"
_FILES = {"en": "text_prompts.jsonl", "zh": "text_prompts_zh.jsonl"}


class LongTextBench(PromptFileSuite):
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
    PATTERNS = ("images/{generator}/{prompt_id}_{sample}", "images/{generator}/{prompt_id}")
    PLACE = "images/{generator}/{prompt_id}_{sample}.png"
    WIDTH = 4

    def __init__(self, *, mode: str = "en", images: str = "") -> None:
        if mode not in _FILES:
            raise ConfigError(f"mode is en or zh, not '{mode}'")
        super().__init__(images=images)
        self._mode = mode

    def read(self, folder: Path) -> tuple[Path, Prompts, list[InvalidItem]]:
        file = file_in(folder, _FILES[self._mode], "textbench")
        found: Prompts = {}
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
