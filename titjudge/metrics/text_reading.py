"""Text that a vision model reads in an image, against the text that was asked for: LongText-Bench, OneIG-Bench."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from titjudge.core.structured_output import after_thinking, first_problem
from titjudge.core.types import Ask, Item, Score, Status
from titjudge.metrics import metric
from titjudge.metrics._shared import image_of

_KEPT = "\u4e00-\u9fa5a-zA-Z0-9àâäéèêëîïôöùûüçÀÂÄÉÈÊËÎÏÔÖÙÛÜÇ"
_NOISE = "addCriterion"  # what Qwen2.5-VL writes into texts that it reads
_NOTHING = "No text recognized"


class Wanted(BaseModel):
    """The text that an image is to show (`item.meta["text"]`).

    Attributes:
        texts: The texts.
        rule: How texts are compared: words, or signs, without regard to their order; `oneig` also by edit distance.
        source: The texts as a published script has them, where that is not one after the other.
        max_tokens: Most tokens of a reply.
    """

    model_config = ConfigDict(extra="forbid")

    texts: list[str] = Field(min_length=1)
    rule: Literal["words", "signs", "oneig"]
    source: str = ""
    max_tokens: int = 1024


def tidied(text: str, *, signs: bool) -> str:
    """Keep letters, digits and Chinese signs; single spaces between words, or no spaces at all."""
    if signs:
        return "".join(re.findall(f"[{_KEPT}]", text))
    return re.sub(r"\s+", " ", re.sub(rf"[^{_KEPT}\s]", "", text)).strip()


def has_chinese(text: str) -> bool:
    """Tell whether there is a Chinese sign in a text."""
    return re.search("[\u4e00-\u9fff]", text) is not None


def read_reply(reply: str, *, official: str = "") -> str:
    """Take the text out of a reply; nothing where the model found none.

    Args:
        reply: What the model wrote.
        official: A published script's way: `words` and `signs` (LongText-Bench) drop only the last of their two phrases, and
            both this and `oneig` take "No text recognized" without a full stop, which the prompt asks for, for text.
    """
    if official:
        phrases = [f"{_NOTHING}."] if official != "oneig" else [_NOISE, f"{_NOTHING}."]
        for phrase in phrases:
            reply = reply.replace(phrase, "")
        return reply
    text = after_thinking(reply).replace(_NOISE, "").strip()
    return "" if text.strip(" '\"`").removesuffix(".").casefold() == _NOTHING.casefold() else text


def units(text: str, *, signs: bool) -> Counter[str]:
    """Count the words, or the signs, of a tidied text."""
    return Counter(text if signs else text.split())


def compare(wanted: Wanted, read: str, *, official: bool) -> dict[str, float] | None:
    """Compare what was read with what is wanted; None where nothing is wanted.

    Returns:
        `matched` of `wanted` words or signs; by the rule `oneig` also the edit `distance`.
    """
    gold = wanted.source if official and wanted.source else " ".join(wanted.texts)
    if wanted.rule == "oneig":
        gold, read = (tidied(text, signs=has_chinese(tidied(text, signs=False))) for text in (gold, read))
        signs = has_chinese(gold)
    else:
        signs = wanted.rule == "signs"
        gold, read = (tidied(text, signs=signs) for text in (gold, read))
        if not signs:
            gold, read = gold.lower(), read.lower()
    asked = units(gold, signs=signs)
    if not asked:
        return None
    found: dict[str, float] = {"matched": (asked & units(read, signs=signs)).total(), "wanted": asked.total()}
    if wanted.rule == "oneig":
        from rapidfuzz.distance import Levenshtein

        found["distance"] = Levenshtein.distance(read, gold)
    return found


def listed(cell: str) -> list[str]:
    """Read a cell that is a list of texts as Python writes it.

    Raises:
        ValueError: it is none.
    """
    try:
        texts = ast.literal_eval(cell)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError("no list of texts") from error
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError("no list of texts")
    return texts


def asks_for_text(item: Item) -> bool:
    """Whether there is text to look for."""
    return "text" in item.meta


@metric(
    "text-reading",
    roles=("judge",),
    range=(0, 1),
    source="LongText-Bench (X-Omni), summary_scores.py; OneIG-Bench, text_score.py",
    needs=("text",),
    applies=asks_for_text,
)
async def text_reading(item: Item, ask: Ask) -> Score:
    """Share of the words (in Chinese: signs) asked for that a vision model reads in the image, in any order.

    `item.meta["text"]` is a `Wanted`; suites make it. Parts: matched, wanted, read, and distance (OneIG-Bench).
    """
    image = image_of(item)
    try:
        wanted = Wanted.model_validate(item.meta.get("text"))
    except ValidationError as error:
        return Score.none(Status.BAD_INPUT, f"the item's text: {first_problem(error)}")
    official = ask.protocol == "official"
    params = {"max_tokens": wanted.max_tokens, **({} if official else {"temperature": 0.0})}
    reply = await ask("text_reading/read", role="judge", images=[image], params=params)
    read = read_reply(reply.text, official=wanted.rule if official else "")
    found = compare(wanted, read, official=official)
    if found is None:
        return Score.none(Status.BAD_INPUT, "no words are asked for in this image")
    parts: dict[str, Any] = {"read": read, **found}
    return Score.of(found["matched"] / found["wanted"], **parts)


def matched_share(scores: Sequence[Score]) -> float | None:
    """Share of all words asked for that were read: long texts count more."""
    wanted = sum(score.parts["wanted"] for score in scores)
    return sum(score.parts["matched"] for score in scores) / wanted if wanted else None
