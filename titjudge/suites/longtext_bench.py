"""LongText-Bench: 160 prompts, English or Chinese, with long texts to render (X-Omni, github.com/X-Omni-Team/X-Omni @2b8237b)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from titjudge.core import item_meta
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.types import Item, Score, Table
from titjudge.core.words import is_texts
from titjudge.metrics.text_reading import Wanted, compare, matched_share
from titjudge.suites.base import SuiteInputs, by_generator
from titjudge.suites.prompt_file import PromptFileSuite

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
        "official: a reply without a word is a reading of no words, as upstream; strict: an outage, asked for again",
        "both: text beyond what was asked for costs nothing, as upstream (recall only)",
        "what a reader thinks aloud is not text (strict); no temperature is sent under official, 0 under strict",
        "the score is over all words of all images, as upstream; the means by category and length are ours",
        "upstream ends on a prompt without words; here it is named. eval.sh passes results.json where results.jsonl was written",
    )
    PATTERNS = ("images/{generator}/{prompt_id}_{sample}", "images/{generator}/{prompt_id}")
    PLACE = "images/{generator}/{prompt_id}_{sample}.png"
    WIDTH = 4
    FOLDER = "textbench"
    KEYS = ("prompt_id", "prompt", "text")

    def __init__(self, inputs: SuiteInputs = SuiteInputs(), *, mode: str = "en", images: str = "") -> None:
        if mode not in _FILES:
            raise ConfigError(f"mode is en or zh, not '{mode}'")
        super().__init__(inputs, images=images)
        self._mode, self.FILE = mode, _FILES[mode]

    def meta(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return category, length and the texts to be read."""
        texts = row["text"]
        if not is_texts(texts) or not texts:
            raise DataError("'text' is no list of texts")
        wanted = Wanted(texts=texts, rule="words" if self._mode == "en" else "signs")
        if not compare(wanted, "", official=False):
            raise DataError("'text' has no words")
        fields = {key: row[key] for key in ("category", "length") if key in row}
        return {**fields, item_meta.TEXT.name: wanted.model_dump(exclude_defaults=True)}

    def aggregate(self, items: Sequence[Item], scores: Sequence[Score]) -> list[Table]:
        """Make the table of the shares of words: over all images, and by length and category."""
        columns = [
            (key, value)
            for key in ("length", "category")
            for value in sorted({str(item.meta.get(key, "")) for item in items} - {""})
        ]
        rows = []
        for generator, images, scored in by_generator(items, [score for score in scores if score.metric == _METRIC]):
            shares = [
                matched_share([score for item, score in scored if str(item.meta.get(key, "")) == value])
                for key, value in columns
            ]
            rows.append((generator, len(images), len(scored), matched_share([score for _, score in scored]), *shares))
        titles = ("generator", "images", "scored", "text score", *(f"{key} {value}" for key, value in columns))
        return [Table(f"LongText-Bench ({self._mode}): text score", titles, tuple(rows))]
