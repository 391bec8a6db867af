"""Audit of a set of prompts: lengths, near-duplicates, balance of categories, readability, words that no image can show.

Prompts whose embeddings have a cosine of .85 or more count as duplicates. In CLIP's text embeddings that is the count of the TIIF-Bench
paper (3.1 and Fig. 1); the cosines of other embedders are of other scales.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from titjudge.core.types import Table
from titjudge.core.words import count_words

SAME = 0.85  # cosine from which two prompts are duplicates
ENCODERS = {"CLIP": 77, "Long-CLIP": 248, "T5": 512}
"""Text encoders of image generators, and how many tokens each reads, start and end tokens included."""
_CHUNK = 1024  # prompts whose cosines with all others are held at once
_MOST_VALUES = 60  # of a categorical column
_SHOWN = 80  # characters of a prompt in a table
_UNSHOWABLE: Mapping[str, str] = {
    "sound": r"sounds?|noises?|nois(?:y|ily)|silen(?:t|ce|tly)|whisper\w*|music|melod\w+|humming|echo\w*|roaring|singing|hears?|heard|loud\w*",
    "smell and taste": r"smell\w*|scents?|scented|aromas?|aromatic|fragran\w+|odou?rs?|tastes?|tasty|delicious|bitter|stench",
    "touch and temperature": r"warm to the touch|soft to the touch|cold to the touch|chilly|feels? (?:soft|smooth|rough|cold|warm|hot)",
    "time": r"suddenly|slowly|gradually|moments? (?:ago|later)|eventually|yesterday|tomorrow|begins? to|about to|used to|after(?:wards)?|before long",
    "thought": r"thinks?|thinking of|thoughts?|remember\w*|memor(?:y|ies)|believes?|hopes? (?:to|that|for)|wonders?|wishes|dreams? of|knows? that|symboli[sz]\w+|metaphor\w*",
    "absence": r"no|not|without|never|none|neither|nor|nothing|nobody|absent|lack(?:s|ing)?",
}
_PATTERNS = {kind: re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for kind, words in _UNSHOWABLE.items()}


@dataclass(frozen=True, slots=True)
class Alike:
    """Two near-duplicate prompts; `other` is of the same set, or of the one that `source` names."""

    prompt: str
    other: str
    cosine: float
    source: str = ""


@dataclass(frozen=True, slots=True)
class Audit:
    """Statistics of a set of prompts.

    Attributes:
        prompts: Text by id.
        words, characters, tokens: Length of each prompt, in order; tokens as `tokenizer` counts them.
        unique: Number of prompts left after near-duplicates are dropped.
        nearest: Cosine of each prompt with its nearest other one; empty with fewer than two prompts.
        alike: Prompts that were dropped, each with the most similar one of those kept.
        leaks: Near-duplicates of prompts of another set.
        columns: Categorical column -> value -> number of prompts.
        grades: School grade of each prompt in English (Flesch-Kincaid); None where it has no words.
        unshowable: Kind -> prompt id -> words of this kind.
        scripts: Script, "" for Latin -> number of prompts mostly in it.
        embedder: What made the embeddings, in words.
        clip: They are CLIP text embeddings, so that the count is that of TIIF-Bench.
    """

    prompts: Mapping[str, str]
    words: Sequence[int]
    characters: Sequence[int]
    tokens: Sequence[int]
    tokenizer: str
    unique: int
    nearest: Sequence[float]
    alike: Sequence[Alike]
    leaks: Sequence[Alike]
    columns: Mapping[str, Mapping[str, int]]
    grades: Sequence[float | None]
    unshowable: Mapping[str, Mapping[str, Sequence[str]]]
    scripts: Mapping[str, int]
    embedder: str = ""
    clip: bool = False

    @property
    def counted(self) -> str:
        """How unique prompts are counted, in words."""
        if self.clip:
            return f"as TIIF-Bench counts: CLIP text embeddings ({self.embedder}), cosine {SAME}"
        return (
            f"by {self.embedder or 'these embeddings'}, of which {SAME} is another scale than of CLIP's text embeddings: not the count of "
            "TIIF-Bench (that is --embedder sentence-transformers/FOLDER_OF_CLIP)"
        )

    def cut(self, limit: int) -> tuple[int, float | None]:
        """Count the prompts that an encoder of `limit` tokens truncates, and the mean share of their tokens that it drops."""
        dropped = [1 - limit / count for count in self.tokens if count > limit]
        return len(dropped), sum(dropped) / len(dropped) if dropped else None

    def to_json(self) -> dict[str, Any]:
        """Return the statistics without the texts."""
        cut = {name: self.cut(limit) for name, limit in ENCODERS.items()}
        return {
            "prompts": len(self.prompts),
            "lengths": {name: _quantiles(of) for name, of in self._lengths().items()},
            "tokenizer": self.tokenizer,
            "cut": {
                name: {"tokens": ENCODERS[name], "prompts": count, "dropped": share}
                for name, (count, share) in cut.items()
            },
            "unique": self.unique,
            "unique_share": self.unique / len(self.prompts),
            "embedder": self.embedder,
            "counted_as_tiif_bench": self.clip,
            "alike": [_alike_json(each) for each in self.alike],
            "leaks": [_alike_json(each) for each in self.leaks],
            "columns": {name: dict(values) for name, values in self.columns.items()},
            "grade": _median([grade for grade in self.grades if grade is not None]),
            "unshowable": {
                kind: {name: list(words) for name, words in of.items()} for kind, of in self.unshowable.items()
            },
            "scripts": dict(self.scripts),
        }

    def _lengths(self) -> dict[str, Sequence[int]]:
        return {"words": self.words, "characters": self.characters, "tokens": self.tokens}

    def tables(self) -> list[Table]:
        """Tabulate the statistics."""
        count = len(self.prompts)
        lengths = [(name, *_quantiles(of).values()) for name, of in self._lengths().items()]
        cut = [(name, limit, *self.cut(limit)) for name, limit in ENCODERS.items()]
        counted = f"tokens as {self.tokenizer} counts them; other tokenizers differ by some percent"
        cut_columns = ("encoder", "tokens read", "prompts cut", "mean share dropped of those")
        unique = ((count, self.unique, self.unique / count),)
        tables = [
            Table("Lengths", ("of a prompt", "least", "median", "mean", "nine of ten up to", "most"), tuple(lengths)),
            Table("What text encoders would cut", cut_columns, tuple(cut), (counted,)),
            Table(f"Unique prompts (cosine below {SAME})", ("prompts", "unique", "share"), unique, (self.counted,)),
        ]
        for title, found in (("Prompts that say the same", self.alike), ("Prompts that another set has", self.leaks)):
            rows = tuple(
                (a.prompt, f"{a.source}{a.other}", a.cosine, _short(self.prompts[a.prompt])) for a in found[:20]
            )
            rest = (f"and {len(found) - 20:,} more",) if len(found) > 20 else ()
            if rows:
                tables.append(Table(title, ("prompt", "says the same as", "cosine", "text"), rows, rest))
        for name, values in self.columns.items():
            counts = sorted(values.items(), key=lambda each: (-each[1], each[0]))
            shares = tuple((value, number, number / count) for value, number in counts)
            even = f"evenness {evenness(list(values.values())):.2f} (1: all equally often)"
            tables.append(Table(f"Balance of {name}", (name, "prompts", "share"), shares, (even,)))
        tables.append(self._language())
        if shown := [
            (kind, len(of), len(of) / count, ", ".join(w for w, _ in Counter(x for each in of.values() for x in each).most_common(5)))
            for kind, of in self.unshowable.items()
            if of
        ]:  # fmt: skip
            note = "found by words, in English: a place to look, not a verdict"
            tables.append(Table("What no image can show", ("kind", "prompts", "share", "words"), tuple(shown), (note,)))
        return tables

    def _language(self) -> Table:
        grades = [grade for grade in self.grades if grade is not None]
        rows: list[tuple[Any, ...]] = [
            (f"mostly in {script.title() or 'Latin'} letters", count) for script, count in self.scripts.items()
        ]
        rows.append(("reading level, school grade (median)", _median(grades)))
        note = "Flesch-Kincaid grade, syllables counted by groups of vowels: for English"
        return Table("Language", ("what", "value"), tuple(rows), (note,))


def audit(
    prompts: Mapping[str, str],
    vectors: np.ndarray,
    tokens: Sequence[int],
    tokenizer: str,
    *,
    further: Mapping[str, Mapping[str, Any]] | None = None,
    others: Mapping[str, tuple[Sequence[str], np.ndarray]] | None = None,
    scripts: Sequence[str] = (),
    embedder: str = "",
    clip: bool = False,
) -> Audit:
    """Compute the statistics of a set of prompts.

    Args:
        prompts: Text by id, in order; at least one.
        vectors: Their embeddings, unit length, shape (prompts, dim).
        tokens: Number of tokens of each.
        tokenizer: Name of the tokenizer.
        further: Other columns of each prompt, by id.
        others: Other sets by name: ids and embeddings.
        scripts: The script of each prompt, "" for Latin.
        embedder: What made the embeddings, in words.
        clip: They are CLIP text embeddings.
    """
    names, texts = list(prompts), list(prompts.values())
    kept, alike = unique(names, vectors, [str((further or {}).get(name, {}).get("pair") or name) for name in names])
    leaks = [
        each for source, (ids, there) in (others or {}).items() for each in _leaks(names, vectors, source, ids, there)
    ]
    return Audit(
        prompts,
        list(map(count_words, texts)),
        list(map(len, texts)),
        tokens,
        tokenizer,
        len(kept),
        nearest(vectors),
        sorted(alike, key=lambda each: -each.cosine),
        sorted(leaks, key=lambda each: -each.cosine),
        sorting_columns(further or {}),
        list(map(grade, texts)),
        {kind: _with(pattern, prompts) for kind, pattern in _PATTERNS.items()},
        dict(Counter(scripts or [""] * len(names)).most_common()),
        embedder,
        clip,
    )


def unique(names: Sequence[str], vectors: np.ndarray, versions: Sequence[str] = ()) -> tuple[list[int], list[Alike]]:
    """Drop each near-duplicate of a prompt kept before it; returns the indices kept, and what was dropped.

    Prompts with the same entry in `versions` are versions of one prompt (short and long), and meant to say the same.
    """
    kept: list[int] = []
    groups = np.unique(versions, return_inverse=True)[1] if versions else np.arange(len(names))
    alike, room = [], np.empty_like(vectors)
    for place, vector in enumerate(vectors):
        if kept:
            cosines = np.where(groups[kept] == groups[place], -2.0, room[: len(kept)] @ vector)
            best = int(np.argmax(cosines))
            if cosines[best] >= SAME:
                alike.append(Alike(names[place], names[kept[best]], round(float(cosines[best]), 4)))
                continue
        room[len(kept)] = vector
        kept.append(place)
    return kept, alike


def nearest(vectors: np.ndarray) -> list[float]:
    """Compute the cosine of each vector with its nearest other one; nothing for fewer than two."""
    if len(vectors) < 2:
        return []
    nearest_cosines: list[float] = []
    for start, cosines in _cosines(vectors, vectors):
        cosines[np.arange(len(cosines)), start + np.arange(len(cosines))] = -2.0
        nearest_cosines += np.round(cosines.max(axis=1), 4).tolist()
    return nearest_cosines


def _leaks(
    names: Sequence[str], vectors: np.ndarray, source: str, ids: Sequence[str], there: np.ndarray
) -> Iterator[Alike]:
    if not len(there):
        return
    for start, cosines in _cosines(vectors, there):
        best = cosines.argmax(axis=1)
        for row in np.flatnonzero(cosines.max(axis=1) >= SAME).tolist():
            cosine = round(float(cosines[row, best[row]]), 4)
            yield Alike(names[start + row], ids[int(best[row])], cosine, f"{source}: ")


def _cosines(left: np.ndarray, right: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    for start in range(0, len(left), _CHUNK):
        yield start, left[start : start + _CHUNK] @ right.T


def sorting_columns(further: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Count the values of each categorical column: texts or integers, at least two, each of two prompts on average."""
    columns: dict[str, Counter[str]] = {}
    for record in further.values():
        for name, value in record.items():
            category = isinstance(value, str | int) and not isinstance(value, bool)
            if name != "pair" and category and len(str(value)) <= _SHOWN:
                columns.setdefault(name, Counter())[str(value)] += 1
    return {
        name: dict(values)
        for name, values in columns.items()
        if 2 <= len(values) <= min(_MOST_VALUES, values.total() // 2)
    }


def evenness(counts: Sequence[int]) -> float:
    """Compute the normalised entropy of the counts: 1 when all are equal, near 0 when one has all."""
    total = sum(counts)
    shares = [count / total for count in counts if count]
    return -sum(share * math.log(share) for share in shares) / math.log(len(counts)) if len(counts) > 1 else 1.0


def grade(text: str) -> float | None:
    """Compute the Flesch-Kincaid school grade of an English text; None without words (Kincaid and others, 1975)."""
    words = re.findall(r"[A-Za-z']+", text)
    if not words:
        return None
    sentences = max(1, len(re.findall(r"[.!?]+(?:\s|$)", text)))
    syllables = sum(max(1, len(re.findall(r"[aeiouy]+", re.sub(r"e$", "", word.lower())))) for word in words)
    return round(0.39 * len(words) / sentences + 11.8 * syllables / len(words) - 15.59, 1)


def _with(pattern: re.Pattern[str], prompts: Mapping[str, str]) -> dict[str, list[str]]:
    words_of = {name: [word.lower() for word in pattern.findall(text)] for name, text in prompts.items()}
    return {name: words for name, words in words_of.items() if words}


def _quantiles(values: Sequence[int]) -> dict[str, float]:
    statistics = (np.min(values), np.median(values), np.mean(values), np.quantile(values, 0.9), np.max(values))
    rounded = [round(float(value), 1) for value in statistics]
    names = ("least", "median", "mean", "p90", "most")
    return {name: int(value) if value.is_integer() else value for name, value in zip(names, rounded, strict=True)}


def _median(values: Sequence[float]) -> float | None:
    return round(float(np.median(values)), 1) if values else None


def _alike_json(each: Alike) -> dict[str, Any]:
    return {"prompt": each.prompt, "other": each.other, "cosine": each.cosine} | (
        {"source": each.source.removesuffix(": ")} if each.source else {}
    )


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
