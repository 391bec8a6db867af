"""Text rendering as LongText-Bench and OneIG-Bench measure it: text that a vision model reads, and text asked for."""

from __future__ import annotations

import ast
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from titjudge.core import item_meta
from titjudge.core.errors import Unanswered
from titjudge.core.refusals import declines, refusal
from titjudge.core.structured_output import after_thinking
from titjudge.core.types import Ask, Item, Json, Score, Status
from titjudge.core.words import is_texts, normalised, truncated
from titjudge.metrics import metric
from titjudge.metrics._shared import checked_meta, image_of

_LETTERS = "\u4e00-\u9fa5a-zA-Z0-9àâäéèêëîïôöùûüçÀÂÄÉÈÊËÎÏÔÖÙÛÜÇ"
_NOISE = "addCriterion"  # which Qwen2.5-VL writes into text that it reads
_NOTHING = "No text recognized"  # the answer that the prompt asks for if there is no text


class Wanted(BaseModel):
    """The text that the prompt asks for (`item.meta["text"]`).

    Attributes:
        texts: The texts.
        rule: How texts are compared: by words, or by characters (`signs`), in any order; `oneig` also by edit distance.
        source: The whole text in the form of the published script, if that is not the texts joined by spaces.
        max_tokens: Maximum number of tokens of a reply.
    """

    model_config = ConfigDict(extra="forbid")

    texts: list[str] = Field(min_length=1)
    rule: Literal["words", "signs", "oneig"]
    source: str = ""
    max_tokens: int = 1024


def tidied(text: str, *, signs: bool) -> str:
    """Keep letters, digits and Chinese characters; with single spaces between words, or with `signs` without spaces."""
    if signs:
        return "".join(re.findall(f"[{_LETTERS}]", text))
    return re.sub(r"\s+", " ", re.sub(rf"[^{_LETTERS}\s]", "", text)).strip()


def letters(text: str, *, signs: bool) -> str:
    """Keep letters and digits of every script, with their marks, as `tidied` does."""
    kept = ["\0"]
    for sign in normalised(text):
        kind = unicodedata.category(sign)[0]
        keep = kind in "LN" or (kind == "M" and kept[-1].strip() and kept[-1] != "\0")
        kept.append(sign if keep else " " if sign.isspace() else "\0")
    words = "".join(kept).replace("\0", "").split()
    return "".join(words) if signs else " ".join(words)


def lost_letters(text: str) -> str:
    """Return the letters and digits that the published rule drops from a text."""
    return "".join(dict.fromkeys(sign for sign in letters(text, signs=True) if not re.match(f"[{_LETTERS}]", sign)))


def has_chinese(text: str) -> bool:
    """Return True if a text has a Chinese character."""
    return re.search("[\u4e00-\u9fff]", text) is not None


def _has_unspaced(text: str) -> bool:
    """Return True if a text is in a script without spaces between words: Chinese, Japanese, Thai, Lao, Burmese, Khmer."""
    pattern = "[\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
    return re.search(pattern, text) is not None


def read_reply(reply: str, *, official: str = "") -> str:
    """Return the text that the model read; empty if it found none.

    Args:
        reply: The model's reply.
        official: The rule whose published script is followed to the letter, otherwise empty. `words` and `signs`
            (LongText-Bench) drop only the last of their two phrases; all three take "No text recognized" without a full
            stop, which is what the prompt asks for, for text.
    """
    if official:
        phrases = [f"{_NOTHING}."] if official != "oneig" else [_NOISE, f"{_NOTHING}."]
        for phrase in phrases:
            reply = reply.replace(phrase, "")
        return reply
    text = after_thinking(reply).replace(_NOISE, "").strip()
    return "" if text.strip(" '\"`").removesuffix(".").casefold() == _NOTHING.casefold() else text


def units(text: str, *, signs: bool) -> Counter[str]:
    """Count the words, or the characters, of a tidied text."""
    return Counter(text if signs else text.split())


def _asked(wanted: Wanted, *, official: bool) -> str:
    return wanted.source if official and wanted.source else " ".join(wanted.texts)


def compare(wanted: Wanted, read: str, *, official: bool) -> dict[str, float] | None:
    """Compare the text that was read with the text that was asked for; None if that has no words.

    Returns:
        `matched` of `wanted` words or characters; by the rule `oneig` also the edit `distance`.
    """
    gold = _asked(wanted, official=official)
    keep, unspaced = (tidied, has_chinese) if official else (letters, _has_unspaced)
    if wanted.rule == "oneig":
        gold, read = (keep(text, signs=unspaced(keep(text, signs=False))) for text in (gold, read))
        signs = unspaced(gold)
    else:
        signs = wanted.rule == "signs"
        gold, read = (keep(text, signs=signs) for text in (gold, read))
        if not signs:
            gold, read = (text.lower() if official else text.casefold() for text in (gold, read))
    asked = units(gold, signs=signs)
    if not asked:
        return None
    counts: dict[str, float] = {"matched": (asked & units(read, signs=signs)).total(), "wanted": asked.total()}
    if wanted.rule == "oneig":
        from rapidfuzz.distance import Levenshtein

        counts["distance"] = Levenshtein.distance(read, gold)
    return counts


def listed(cell: str) -> list[str]:
    """Parse a cell that contains a Python list of strings.

    Raises:
        ValueError: It does not.
    """
    try:
        texts = ast.literal_eval(cell)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError("the answer must be a list of texts") from error
    if not is_texts(texts) or not texts:
        raise ValueError("the answer must be a list of texts")
    return texts


def asks_for_text(item: Item) -> bool:
    """Return True if the prompt asks for text."""
    return item_meta.TEXT.is_in(item)


@metric(
    "text-reading",
    roles=("judge",),
    range=(0, 1),
    version="3",  # 2 dropped letters that are not Chinese, English or French under the strict protocol, too
    source="LongText-Bench (X-Omni), summary_scores.py; OneIG-Bench, text_score.py",
    needs=("text",),
    applies=asks_for_text,
)
async def text_reading(item: Item, ask: Ask) -> Score:
    """Share of the words (in Chinese: characters) asked for that a vision model reads in the image, in any order.

    Under the official protocol a reply without a word is an image in which nothing is read, and the published rule keeps
    Chinese, English and French letters; the score names the letters that it drops. Under the strict protocol a reply without
    a word is an outage, and letters of every script count.
    `item.meta["text"]` is a `Wanted`; suites make it. Parts: matched, wanted, read, and distance (OneIG-Bench).
    """
    image = image_of(item)
    wanted = checked_meta(Wanted, item_meta.TEXT.get(item), "text")
    official = ask.protocol == "official"
    params = {"max_tokens": wanted.max_tokens, **({} if official else {"temperature": 0.0})}
    reply = await ask("text_reading/read", role="judge", images=[image], params=params, accept_empty=official)
    read = read_reply(reply.text, official=wanted.rule if official else "")
    counts = compare(wanted, read, official=official)
    lost = lost_letters(_asked(wanted, official=True)) if official else ""
    warning = f"the published rule drops letters of the text asked for: {truncated(lost, 20)}" if lost else ""
    if counts is None:
        return Score.none(Status.BAD_INPUT, warning or "the text asked for has no letter and no digit")
    if not official and not counts["matched"] and declines(read):
        raise Unanswered(Status.REFUSED, refusal(read), reply)
    parts: Json = {"read": read, **counts}
    return Score.of(counts["matched"] / counts["wanted"], reason=warning, **parts)


def matched_share(scores: Sequence[Score]) -> float | None:
    """Return the share of all words asked for that were read, so that long texts count more; None without words."""
    wanted = sum(score.parts["wanted"] for score in scores)
    return sum(score.parts["matched"] for score in scores) / wanted if wanted else None
