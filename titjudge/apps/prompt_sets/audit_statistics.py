"""Audit of a set of prompts: lengths, near-duplicates, balance of categories, readability, words that no image can show.

Prompts whose embeddings have a cosine of at least 0.85 count as duplicates. In CLIP's text embeddings that is the count
of the TIIF-Bench paper (3.1 and Fig. 1); the cosines of other embedders are of other scales.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np

from titjudge.core.declarations import Declaration, Population, Unit, in_order
from titjudge.core.grouping import grouped
from titjudge.core.types import Json, Note, Table, Values
from titjudge.core.words import count_words, first_of, script, truncated

PROMPT_LIST = Declaration("audit", "prompts of the list", Population.PROMPTS, Unit.PROMPT)
_table = partial(Table, declared=PROMPT_LIST)

SAME = 0.85  # cosine from which two prompts are duplicates
ENCODERS = {"CLIP": 77, "Long-CLIP": 248, "T5": 512}
"""Text encoders of image generators, and how many tokens each reads, start and end tokens included."""
_CHUNK = 1024  # prompts whose cosines with all others are in memory at once
_MOST_VALUES = 60  # of a categorical column
_SHOWN = 80  # characters of a prompt in a table
_MOST_ROWS = 20  # of near-duplicates in a table
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
class NearDuplicate:
    """Two prompts with the same meaning.

    Attributes:
        prompt: Id of the one.
        other: Id of the other, of the same set or of the one that `source` names.
        cosine: Cosine of their embeddings.
        source: Name of the set of the other; empty if it is the same set.
    """

    prompt: str
    other: str
    cosine: float
    source: str = ""


@dataclass(frozen=True, slots=True)
class Audit:
    """Statistics of a set of prompts.

    Attributes:
        prompts: Text by id.
        words: Number of words of each prompt, in order.
        tokens: Number of tokens of each prompt, as `tokenizer` counts them.
        tokenizer: Name of the tokenizer.
        unique: Number of prompts left after near-duplicates are dropped.
        nearest: Cosine of each prompt with its nearest other one; empty with fewer than two prompts.
        alike: Groups of near-duplicates, of which one prompt counts: ids, and the lowest cosine with that prompt.
        leaks: Near-duplicates of prompts of another set.
        columns: Categorical column -> value -> number of prompts.
        grades: School grade of each prompt with words in English (Flesch-Kincaid).
        unshowable: Kind -> prompt id -> words of this kind.
        scripts: Script, "" for Latin -> number of prompts mostly in it.
        embedder: The embedder, in words.
        clip: They are CLIP text embeddings, so that the count is comparable with TIIF-Bench.
    """

    prompts: Mapping[str, str]
    words: Sequence[int]
    tokens: Sequence[int]
    tokenizer: str
    unique: int
    nearest: Sequence[float]
    alike: Sequence[tuple[list[str], float]]
    leaks: Sequence[NearDuplicate]
    columns: Mapping[str, Mapping[str, int]]
    grades: Sequence[float]
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
            f"by {self.embedder or 'these embeddings'}, on another scale than CLIP's, which TIIF-Bench uses. To compare with "
            "its count, give --embedder sentence-transformers/FOLDER_OF_CLIP"
        )

    def cut(self, limit: int) -> tuple[int, float | None]:
        """Count the prompts that an encoder of `limit` tokens truncates, and the mean share of their tokens that it drops."""
        dropped = [1 - limit / count for count in self.tokens if count > limit]
        return len(dropped), sum(dropped) / len(dropped) if dropped else None

    def to_json(self) -> Json:
        """Return the statistics without the texts."""
        cut = {name: self.cut(limit) for name, limit in ENCODERS.items()}
        return {
            "prompts": len(self.prompts),
            "lengths": {name: _quantiles(lengths) for name, lengths in self._lengths().items()},
            "tokenizer": self.tokenizer,
            "cut": {
                name: {"tokens": ENCODERS[name], "prompts": count, "dropped": share}
                for name, (count, share) in cut.items()
            },
            "unique": self.unique,
            "unique_share": self.unique / len(self.prompts),
            "embedder": self.embedder,
            "counted_as_tiif_bench": self.clip,
            "alike": [{"prompts": ids, "cosine": cosine} for ids, cosine in self.alike],
            "leaks": [asdict(leak) for leak in self.leaks],
            "columns": self.columns,
            "grade": _median(self.grades),
            "unshowable": self.unshowable,
            "scripts": self.scripts,
        }

    def _lengths(self) -> dict[str, Sequence[int]]:
        return {"words": self.words, "characters": [*map(len, self.prompts.values())], "tokens": self.tokens}

    def tables(self) -> list[Table]:
        """Tabulate the statistics."""
        tables = [
            *self._length_tables(),
            *self._duplicate_tables(),
            *(self._balance_table(column, values) for column, values in self.columns.items()),
            self._language(),
            *self._unshowable_tables(),
        ]
        return [replace(table, declared=PROMPT_LIST.over(len(self.prompts))) for table in tables]

    def _length_tables(self) -> list[Table]:
        lengths = tuple((name, *_quantiles(lengths).values()) for name, lengths in self._lengths().items())
        cut = tuple((name, limit, *self.cut(limit)) for name, limit in ENCODERS.items())
        columns = ("encoder", "tokens read", "prompts cut", "mean share dropped of those")
        note = f"tokens as {self.tokenizer} counts them; other tokenizers differ by some percent"
        return [
            _table("Lengths", ("of a prompt", "least", "median", "mean", "nine of ten up to", "most"), lengths),
            _table("What text encoders would cut", columns, cut, (Note("tokens_of", note),)),
        ]

    def _duplicate_tables(self) -> list[Table]:
        shares = ((len(self.prompts), self.unique, self.unique / len(self.prompts)),)
        tables = [
            _table(
                f"Unique prompts (cosine below {SAME})",
                ("prompts", "unique", "share"),
                shares,
                (Note("how_unique", self.counted),),
            )
        ]
        alike = [(first_of(ids), cosine, truncated(self.prompts[ids[0]], _SHOWN)) for ids, cosine in self.alike]
        leaks = [
            (leak.prompt, f"{leak.source}: {leak.other}", leak.cosine, truncated(self.prompts[leak.prompt], _SHOWN))
            for leak in self.leaks
        ]
        for title, columns, rows in (
            ("Near-duplicate prompts", ("prompts", "lowest cosine", "text of the first"), alike),
            ("Prompts that another set has", ("prompt", "near-duplicate of", "cosine", "text"), leaks),
        ):
            more = Note("more_prompts", f"and {len(rows) - _MOST_ROWS:,} more")
            rest = (more,) if len(rows) > _MOST_ROWS else ()
            tables += [_table(title, columns, tuple(rows[:_MOST_ROWS]), rest)] if rows else []
        return tables

    def _balance_table(self, column: str, values: Mapping[str, int]) -> Table:
        rows = tuple((value, number, number / len(self.prompts)) for value, number in by_frequency(values))
        return _table(f"Balance of {column}", (column, "prompts", "share"), rows, (evenness_note(values),))

    def _unshowable_tables(self) -> list[Table]:
        rows = []
        for kind, by_prompt in self.unshowable.items():
            frequent = Counter(word for words in by_prompt.values() for word in words).most_common(5)
            words = ", ".join(word for word, _ in frequent)
            rows += [(kind, len(by_prompt), len(by_prompt) / len(self.prompts), words)] if by_prompt else []
        note = "found by words, in English: a place to look, not a verdict"
        columns = ("kind", "prompts", "share", "words")
        return [_table("What no image can show", columns, tuple(rows), (Note("found_by_words", note),))] if rows else []

    def _language(self) -> Table:
        scripts = [(f"mostly in {name.title() or 'Latin'} letters", count) for name, count in self.scripts.items()]
        grade = ("reading level, school grade (median)", _median(self.grades))
        note = "Flesch-Kincaid grade, syllables counted by groups of vowels: for English"
        return _table("Language", ("what", "value"), (*scripts, grade), (Note("about_grade", note),))


def audit(
    prompts: Mapping[str, str],
    vectors: np.ndarray,
    tokens: Sequence[int],
    tokenizer: str,
    *,
    further: Mapping[str, Values] | None = None,
    others: Mapping[str, tuple[Sequence[str], np.ndarray]] | None = None,
    embedder: str = "",
    clip: bool = False,
) -> Audit:
    """Compute the statistics of a set of prompts.

    Args:
        prompts: Text by id; at least one. Of near-duplicates the first one counts, so give them in an order of the texts.
        vectors: Their embeddings, unit length, shape (prompts, dim).
        tokens: Number of tokens of each.
        tokenizer: Name of the tokenizer.
        further: Other columns of each prompt, by id.
        others: Other sets by name: ids and embeddings.
        embedder: The embedder, in words.
        clip: They are CLIP text embeddings.
    """
    names, texts = list(prompts), list(prompts.values())
    kept, alike = unique(names, vectors, [str((further or {}).get(name, {}).get("pair") or name) for name in names])
    leaks = [leak for source, other in (others or {}).items() for leak in _leaks(names, vectors, source, *other)]
    return Audit(
        prompts,
        list(map(count_words, texts)),
        tokens,
        tokenizer,
        len(kept),
        nearest(vectors),
        sorted(_groups(alike), key=lambda group: -group[1]),
        sorted(leaks, key=lambda leak: -leak.cosine),
        sorting_columns(further or {}),
        [found for found in map(grade, texts) if found is not None],
        {kind: _words_of(pattern, prompts) for kind, pattern in _PATTERNS.items()},
        dict(Counter(map(script, texts)).most_common()),
        embedder,
        clip,
    )


def unique(
    names: Sequence[str], vectors: np.ndarray, versions: Sequence[str] = ()
) -> tuple[list[int], list[NearDuplicate]]:
    """Drop each near-duplicate of a prompt kept before it; returns the indices kept, and the dropped ones.

    Prompts with the same entry in `versions` are versions of one prompt (short and long), and meant to have the same meaning.
    """
    kept: list[int] = []
    groups = np.unique(versions, return_inverse=True)[1] if versions else np.arange(len(names))
    alike, room = [], np.empty_like(vectors)
    for place, vector in enumerate(vectors):
        if kept:
            cosines = np.where(groups[kept] == groups[place], -2.0, room[: len(kept)] @ vector)
            best = int(np.argmax(cosines))
            if cosines[best] >= SAME:
                alike.append(NearDuplicate(names[place], names[kept[best]], round(float(cosines[best]), 4)))
                continue
        room[len(kept)] = vector
        kept.append(place)
    return kept, alike


def _groups(alike: Iterable[NearDuplicate]) -> Iterator[tuple[list[str], float]]:
    """Yield each prompt that was kept with its near-duplicates, and their lowest cosine with it."""
    for kept, pairs in grouped(alike, lambda pair: pair.other).items():
        yield in_order([kept, *(pair.prompt for pair in pairs)]), min(pair.cosine for pair in pairs)


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
    names: Sequence[str], vectors: np.ndarray, source: str, ids: Sequence[str], others: np.ndarray
) -> Iterator[NearDuplicate]:
    """List the prompts of another set, with the embeddings `others`, that the prompts of this one repeat."""
    if not len(others):
        return
    for start, cosines in _cosines(vectors, others):
        best = cosines.argmax(axis=1)
        for row in np.flatnonzero(cosines.max(axis=1) >= SAME).tolist():
            cosine = round(float(cosines[row, best[row]]), 4)
            yield NearDuplicate(names[start + row], ids[int(best[row])], cosine, source)


def _cosines(left: np.ndarray, right: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    for start in range(0, len(left), _CHUNK):
        yield start, left[start : start + _CHUNK] @ right.T


def sorting_columns(further: Mapping[str, Values]) -> dict[str, dict[str, int]]:
    """Count the values of each categorical column: texts or integers, at least two, each of two prompts on average."""
    columns: dict[str, Counter[str]] = {}
    for record in further.values():
        for name, value in record.items():
            category = isinstance(value, str | int) and not isinstance(value, bool)
            if name != "pair" and category and len(str(value)) <= _SHOWN:
                columns.setdefault(name, Counter())[str(value)] += 1
    return {
        name: dict(by_frequency(values))
        for name, values in columns.items()
        if 2 <= len(values) <= min(_MOST_VALUES, values.total() // 2)
    }


def evenness(counts: Sequence[int]) -> float:
    """Compute the normalised entropy of the counts: 1 when all are equal, near 0 when one has all."""
    total = sum(counts)
    shares = [count / total for count in counts if count]
    return -sum(share * math.log(share) for share in shares) / math.log(len(counts)) if len(counts) > 1 else 1.0


def evenness_note(values: Mapping[str, int]) -> Note:
    """Measure how evenly prompts spread over the values of a column."""
    return Note("evenness", f"evenness {evenness(list(values.values())):.2f} (1: all equally often)")


def by_frequency(values: Mapping[str, int]) -> list[tuple[str, int]]:
    """List the values of a column with their numbers, the most frequent first."""
    return sorted(values.items(), key=lambda item: (-item[1], item[0]))


def grade(text: str) -> float | None:
    """Compute the Flesch-Kincaid school grade of an English text; None without words (Kincaid and others, 1975)."""
    words = re.findall(r"[A-Za-z']+", text)
    if not words:
        return None
    sentences = max(1, len(re.findall(r"[.!?]+(?:\s|$)", text)))
    syllables = sum(max(1, len(re.findall(r"[aeiouy]+", re.sub(r"e$", "", word.lower())))) for word in words)
    return round(0.39 * len(words) / sentences + 11.8 * syllables / len(words) - 15.59, 1)


def _words_of(pattern: re.Pattern[str], prompts: Mapping[str, str]) -> dict[str, list[str]]:
    by_prompt = {name: [word.lower() for word in pattern.findall(text)] for name, text in prompts.items()}
    return {name: words for name, words in by_prompt.items() if words}


def _quantiles(values: Sequence[int]) -> dict[str, float]:
    statistics = (np.min(values), np.median(values), np.mean(values), np.quantile(values, 0.9), np.max(values))
    rounded = [round(float(value), 1) for value in statistics]
    names = ("least", "median", "mean", "p90", "most")
    return {name: int(value) if value.is_integer() else value for name, value in zip(names, rounded, strict=True)}


def _median(values: Sequence[float]) -> float | None:
    return round(float(np.median(values)), 1) if values else None
