"""Texts: their words in any script, their first characters, lists of them, and numbers as text."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeGuard

from titjudge.core.numbers import is_number, sum_words
from titjudge.core.patterns import lazy_pattern

_SIGN = "\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Chinese and Japanese
_MARK = "\u3000-\u303f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"  # their space and punctuation
_WORD = lazy_pattern(rf"[{_SIGN}]|[^\s{_SIGN}{_MARK}]+")

_MOSTLY = 0.3  # share of a prompt's letters; a few words to draw in an English prompt are fewer


SENTENCE_END = lazy_pattern(r"""[.!?]["'”’»)\]]*\s+|[。！？]|\n+""")
_WORD_OR_SIGN = lazy_pattern(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|(?:(?![\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])[\w'’\-])+"
)
FUNCTION_WORDS = frozenset(  # of English: they name nothing in an image
    (
        "a an the this that these those and or but nor so as if than then while of in on at to from by with into onto over "
        "under above below between behind before after near next across along around through toward towards against upon "
        "off out up down for is are was were be been being am has have had having do does did it its he him his she her "
        "hers they them their there here which who whom whose what where when how very just also too such own like"
    ).split()
)


def words_of(text: str) -> list[tuple[int, int]]:
    """Return start and end of each word; each Chinese, Japanese or Korean character counts as one."""
    return [match.span() for match in _WORD_OR_SIGN.finditer(text)]


NUMBER_WORDS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen "
    "twenty"
).split()
"""English words of the numbers from 1 to 20."""


def sentences(text: str) -> list[str]:
    """Split a text into its sentences, without the blanks around them."""
    ends = [0, *(match.end() for match in SENTENCE_END.finditer(text)), len(text)]
    return [part for start, end in pairwise(ends) if (part := text[start:end].strip())]


def count_words(text: str) -> int:
    """Count the words of a text, with each Chinese or Japanese character as a word."""
    return len(text.split() if text.isascii() else _WORD.findall(text))


def normalised(text: str) -> str:
    """Write each character in one way: composed (NFC), and in its usual width."""
    usual = (
        unicodedata.normalize("NFKC", sign) if unicodedata.decomposition(sign)[:4] in ("<wid", "<nar") else sign
        for sign in text
    )
    return unicodedata.normalize("NFC", "".join(usual))


def truncated(text: str, longest: int) -> str:
    """Cut a text to at most `longest` characters, with a mark at its end that there was more."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def in_one_line(text: str) -> str:
    """Write a text, such as a name with line breaks or tabs, in one line."""
    return " ".join(text.split())


def first_of(names: Sequence[str], most: int = 6) -> str:
    """List the first names, each with at most 60 characters, and how many more there are: `a, b and 3 more`."""
    shown = in_one_line(", ".join(truncated(name, 60) for name in names[:most]))
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown


def is_texts(value: Any) -> TypeGuard[list[str]]:
    """Return True if a value is a list of texts; an empty one is."""
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


WIDE = 4  # with more metrics than this a leaderboard shows ranks only
DASH = "–"


def number(value: float, digits: int | None = None, *, signed: bool = False) -> str:
    """Format a number with thousands separators: `1,234`, `0.395`; without `digits` up to four decimals, by its size."""
    if not math.isfinite(value):
        return DASH
    sign = "+" if signed else ""
    if isinstance(value, int):
        return f"{value:{sign},}"
    if digits is not None:
        return f"{value:{sign}z,.{digits}f}"
    return f"{value:{sign}z.4f}".rstrip("0").rstrip(".") if abs(value) < 1000 else f"{value:{sign},.1f}"


def decimals(values: Iterable[float]) -> int:
    """Return how many decimals show three digits of the largest value, and at least one: `72.2`, `8.83`, `0.883`, `0.0455`."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return min(6, max(1, 2 - math.floor(math.log10(largest)))) if largest else 1


def score_digits(scores: Iterable[float]) -> int:
    """Return the decimals that scores are shown with, given some of them or the ends of their scale: three up to 2, otherwise one."""
    return 3 if max(map(abs, scores), default=0.0) <= 2 else 1


def percentage(value: float, digits: int = 1) -> str:
    """Format a fraction: `88.9%`."""
    return f"{100 * value:z.{digits}f}%"


def points(value: float) -> str:
    """Format a difference of two fractions in percentage points: `+5.0 pts`."""
    return f"{100 * value:+z.1f} pts"


def p_value(p: float) -> str:
    """Format a p-value: `0.013`, `<0.0001`."""
    return "<0.0001" if p < 0.0001 else f"{p:.2g}"


def money(value: float) -> str:
    """Format US dollars, sums below $1 with four decimals."""
    return "$0" if value == 0 else f"${value:,.2f}" if value >= 1 else f"${value:.4f}"


def spending(value: float | None, unpriced: int = 0) -> str:
    """Format a sum of US dollars that `unpriced` requests are not in, as their price is unknown."""
    text = money(value) if is_number(value) else DASH
    return sum_words(value, unpriced, text) if unpriced else text


def interval(low: str, high: str) -> str:
    """Format an interval from its formatted ends: `[77.8, 97.2]`."""
    return f"[{low}, {high}]"


SHORT_EN, SHORT_ZH = 235, 70  # maximum length of a short prompt in characters (Qwen-Image-Bench paper, 3.2)


def script(prompt: str) -> str:
    """Name the script (as Unicode does: CJK, HANGUL, ...) of a prompt that is not in Latin letters; empty for Latin."""
    if prompt.isascii():
        return ""
    letters = [character for character in prompt if character.isalpha()]
    names = Counter(unicodedata.name(character, "?").partition(" ")[0] for character in letters)
    foreign = names.total() - names["LATIN"]
    del names["LATIN"]
    return names.most_common(1)[0][0] if foreign > _MOSTLY * len(letters) else ""


_WORDS_OF_LANGUAGES = {
    name: frozenset(words.split())
    for name, words in {
        "": "the a an of in on with and is are at to from by its under behind",
        "German": "der die das den dem und ein eine einen einem einer mit auf im am ist sind von zu über unter",
        "French": "le la les des du de un une et avec dans sur est sous au aux",
        "Spanish": "el la los las del de un una y con en es sobre por al",
        "Italian": "il lo gli le di del della un una con nel su è e che",
        "Portuguese": "o os as do da dos de um uma com em no na e sobre",
        "Dutch": "de het een met van op en is zijn onder naast",
    }.items()
}
_FEWEST = 2  # different function words that identify a language


def language(prompt: str) -> str:
    """Name the language of a prompt that is not in English, by its function words, or its script; empty if none is found."""
    if found := script(prompt):
        return found
    words = set(prompt.casefold().split())
    counts = {name: len(words & known) for name, known in _WORDS_OF_LANGUAGES.items()}
    best = max(counts, key=lambda name: counts[name])  # English if as many are English
    return best if counts[best] >= _FEWEST else ""
