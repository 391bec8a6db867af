"""LongT2IBench statistics: interpretation accuracy, SRCC and PLCC overall and by prompt length (paper, Tables 1 and 2).

The paper names six categories of relations (Figure 4d) and does not explain how a relation gets its category; here the
words of the relation decide.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from titjudge.core.errors import ConfigError, unknown
from titjudge.core.numbers import mean
from titjudge.core.types import Json, Note, Table, Values
from titjudge.metrics.longt2ibench_text import CATEGORIES, Alignment
from titjudge.stats.equality import with_ties
from titjudge.suites.base import benchmark_table, first_rows

_WORDS: Mapping[str, str] = {
    "connection": "attached bound chained connected connecting connects fastened fixed joined joining linked linking links tied",
    "possession": "belonging belongs contain containing contains had has have having holds includes including of owned owning owns "
    "possesses possessing with",
    "spatial": "above adjacent against along alongside amid among around at atop behind below beneath beside besides between beyond by "
    "close facing in inside left near nearby next off on opposite outside over right surrounded surrounding surrounds under "
    "underneath upon within",
    "from/to": "away from into onto out through to toward towards",
    "description": "appear appearing appears are as be being depicting depicts described is like look looks made representing "
    "represents resembles resembling seems showing shows symbolizing was were",
}
_KINDS = {kind: frozenset(words.split()) for kind, words in _WORDS.items()}
_RATERS = ("judge", "people")
KINDS = ("action", "connection", "description", "possession", "from/to", "spatial")

Correlated = tuple[str, float, float]
"""Prompt, predicted and human score of an image."""


def kind_of(relation: str) -> str:
    """Choose the category of a relation: the first in `_WORDS` of which it has a word, otherwise action."""
    words = set(re.findall(r"[a-z]+", relation.casefold()))
    return next((kind for kind, typical in _KINDS.items() if words & typical), "action")


def relation_rates(rows: Iterable[tuple[Alignment | None, Alignment]]) -> Json:
    """Compute the shares of aligned relations by category.

    Args:
        rows: People's alignment of an image, and the judge's.

    Returns:
        `{CATEGORY: {"relations", "judge": share, "people": share}}`, of the categories that occur.
    """
    marks: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for truth, predicted in rows:
        for who, alignment in (("judge", predicted), ("people", truth or {})):
            for (_, relation, _), aligned in alignment.get("relation", ()):
                marks[kind_of(relation), who].append(float(aligned))
    return {
        kind: {"relations": len(marks[kind, "judge"]), **{who: mean(marks[kind, who]) for who in _RATERS}}
        for kind in KINDS
        if any(marks[kind, who] for who in _RATERS)
    }


def percent(share: float | None) -> float | None:
    """Return a share in percent; None stays None."""
    return None if share is None else 100 * share


def relation_table(rates: Values) -> Table:
    """Make the table of `relation_rates`, in percent."""
    rows = ((kind, rate["relations"], percent(rate["judge"]), percent(rate["people"])) for kind, rate in rates.items())
    columns = ("category", "relations", "aligned", "aligned (people)")
    line = "The words of a relation say its category (the paper names six, and no rule)."
    note = Note("relation_categories", line)
    return benchmark_table("LongT2IBench: aligned relations by category", columns, rows, note)


INTERVALS = {30: "30-50", 50: "50-70", 70: "70-90", 90: "90-110", 110: "110+"}
"""Intervals of prompt length in words by their lower end, which is included."""
STATUSES = ("align", "misalign")
_CORRELATED = {"srcc": "SRCC", "plcc": "PLCC", "average": "mean of the two", "n": "n"}
"""Statistics by their keys in JSON, with the titles of their columns."""
_SCORE = "score"
_ARTICLE = re.compile(r"^(?:a|an|the)\s+")
_GROUP = "-group"


RULES: dict[str, Callable[[str], str]] = {
    "exact": str.strip,
    "casefold": lambda text: " ".join(text.casefold().split()),
    "loose": lambda text: _ARTICLE.sub("", " ".join(re.sub(r"[^\w\s]|_", " ", text.casefold()).split())),
}
MATCHINGS = (*RULES, *(f"{name}{_GROUP}" for name in RULES))


def _keys(alignment: Alignment, category: str, matching: str) -> list[tuple[tuple[str, ...], bool]]:
    """List the elements of a category as they are compared, with their verdicts.

    `*-group` makes one element of all attributes of an entity that have the same verdict, as the official text does.
    """
    rule = RULES[matching.removesuffix(_GROUP)]
    marks = [(tuple(rule(part) for part in element), aligned) for element, aligned in alignment[category]]
    if category != "attribute" or not matching.endswith(_GROUP):
        return marks
    groups: dict[tuple[str, bool], list[str]] = {}
    for (entity, attribute), aligned in marks:
        groups.setdefault((entity, aligned), []).append(attribute)
    return [((entity, *attributes), aligned) for (entity, aligned), attributes in groups.items()]


@dataclass(slots=True)
class Recall:
    """Counts the annotated elements, and how many were found in the predicted list of the same name, by category and list."""

    matching: str = "casefold"
    hits: Counter[tuple[str, str]] = field(default_factory=Counter)
    total: Counter[tuple[str, str]] = field(default_factory=Counter)
    contradicted: int = 0

    def __post_init__(self) -> None:
        if self.matching not in MATCHINGS:
            raise ConfigError(unknown("matching rule", self.matching, MATCHINGS))

    def add(self, truth: Alignment, predicted: Alignment) -> None:
        """Count one image. An element that was predicted in both lists was not answered: it is found in neither."""
        for category in CATEGORIES:
            lists: dict[bool, set[tuple[str, ...]]] = {True: set(), False: set()}
            for element, aligned in _keys(predicted, category, self.matching):
                lists[aligned].add(element)
            both = lists[True] & lists[False]
            self.contradicted += len(both)
            for element, aligned in _keys(truth, category, self.matching):
                key = category, STATUSES[not aligned]
                self.total[key] += 1
                self.hits[key] += element in lists[aligned] and element not in both

    def to_json(self) -> Json:
        """Return micro recall by category (and `all`): align, misalign, overall, in [0, 1], None without elements; and counts."""
        return {
            name: {
                **{status: self._share(categories, (status,)) for status in STATUSES},
                "overall": self._share(categories, STATUSES),
                "counts": {status: self._counts(categories, (status,)) for status in STATUSES},
            }
            for name, categories in (*((category, (category,)) for category in CATEGORIES), ("all", CATEGORIES))
        }

    def _share(self, categories: Sequence[str], statuses: Sequence[str]) -> float | None:
        hits, total = self._counts(categories, statuses)
        return hits / total if total else None

    def _counts(self, categories: Sequence[str], statuses: Sequence[str]) -> list[int]:
        keys = list(product(categories, statuses))
        return [sum(self.hits[key] for key in keys), sum(self.total[key] for key in keys)]


def words(prompt: str) -> int:
    """Count the words of a prompt: parts separated by white space (the paper does not define it)."""
    return len(prompt.split())


def interval(count: int) -> str:
    """Name the word-count interval of the paper, its lower end included; empty below 30 words."""
    return next((name for low, name in reversed(INTERVALS.items()) if count >= low), "")


def correlate(pairs: Iterable[tuple[float, float]]) -> Json:
    """Compute SRCC, PLCC and their mean of (predicted, human) scores; None with fewer than two pairs or a constant side."""
    from scipy.stats import pearsonr, spearmanr

    both = list(pairs)
    predicted, human = (with_ties(np.array([pair[k] for pair in both])) for k in range(2))
    if len(set(predicted.tolist())) < 2 or len(set(human.tolist())) < 2:
        return {"srcc": None, "plcc": None, "average": None, "n": len(both)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of values that are almost constant
        srcc, plcc = _valid(spearmanr(predicted, human)[0]), _valid(pearsonr(predicted, human)[0])
    average = None if srcc is None or plcc is None else (srcc + plcc) / 2
    return {"srcc": srcc, "plcc": plcc, "average": average, "n": len(both)}


def _valid(correlation: Any) -> float | None:
    value = float(correlation)
    return value if -1.0001 <= value <= 1.0001 else None  # not NaN, nor what a denormal spread gives


def by_interval(rows: Sequence[Correlated]) -> Json:
    """Correlate (prompt, predicted, human) rows: `overall`, and for each interval of prompt length."""
    by_name: dict[str, list[tuple[float, float]]] = {name: [] for name in ("", *INTERVALS.values())}
    for prompt, predicted, human in rows:
        by_name[interval(words(prompt))].append((predicted, human))
    del by_name[""]
    overall = correlate((predicted, human) for _, predicted, human in rows)
    return {"overall": overall, **{name: correlate(pairs) for name, pairs in by_name.items()}}


def generators(images: Sequence[tuple[str, str]]) -> list[str]:
    """Name the generator of each (name, image path): its folder if there is no name and the images lie in several."""
    folders = [PurePosixPath(path).parent.name for _, path in images]
    several = len(set(folders)) > 1
    return [name or (folder if several else "") for (name, _), folder in zip(images, folders, strict=True)]


def alignment_rates(rows: Iterable[tuple[str, str, Alignment | None, Alignment]]) -> Json:
    """Compute the shares of aligned elements by category, and the alignment scores (paper, Fig. 4 a to c).

    Args:
        rows: Generator, prompt, people's alignment and the judge's of each image.

    Returns:
        `{"generator" | "words": {NAME: {"images", "judge": {CATEGORY: share, "score": mean}, "people": (the same), "quartiles": of
        people's scores}}}`, all in [0, 1]; of images without a named generator, or of fewer than 30 words, nothing.
    """
    marks: defaultdict[tuple[str, str, str, str], list[float]] = defaultdict(list)
    images: Counter[tuple[str, str]] = Counter()
    for generator, prompt, truth, predicted in rows:
        for cut, name in (("generator", generator), ("words", interval(words(prompt)))):
            images[cut, name] += 1
            for who, alignment in (("judge", predicted), ("people", truth or {})):
                verdicts = {
                    category: [float(aligned) for _, aligned in elements] for category, elements in alignment.items()
                }
                for category, values in verdicts.items():
                    marks[cut, name, who, category] += values
                if (score := mean(chain.from_iterable(verdicts.values()))) is not None:
                    marks[cut, name, who, _SCORE].append(score)
    order = {"generator": sorted(name for cut, name in images if cut == "generator"), "words": INTERVALS.values()}
    return {
        cut: {
            name: {
                "images": images[cut, name],
                **{who: {each: mean(marks[cut, name, who, each]) for each in (*CATEGORIES, _SCORE)} for who in _RATERS},
                "quartiles": _quartiles(marks[cut, name, "people", _SCORE]),
            }
            for name in names
            if name and images[cut, name]
        }
        for cut, names in order.items()
    }


def _quartiles(scores: Sequence[float]) -> list[float]:
    return np.quantile(scores, (0.25, 0.5, 0.75)).tolist() if scores else []


def summarise(
    rows: Sequence[Correlated],
    counts: Mapping[str, int],
    problems: Sequence[tuple[str, str]],
    matching: str,
    recall: Recall | None,
) -> Json:
    """Collect results; without `recall` there is no interpretation accuracy.

    Args:
        rows: Prompt, predicted and human score of each image that has both.
        counts: Counts for the coverage.
        problems: Everything that was not used: its name and the reason.
        matching: The matching rule.
        recall: The counts of the elements that were found.
    """
    return {
        "matching": matching,
        "interpretation": recall.to_json() if recall else {},
        "contradicted": recall.contradicted if recall else 0,
        "correlation": by_interval(rows),
        "short_prompts": sum(not interval(words(prompt)) for prompt, _, _ in rows),
        "coverage": {**counts, "scored": len(rows)},
        "problems": [{"name": name, "reason": reason} for name, reason in problems],
    }


def tables(result: Values) -> list[Table]:
    """Make the tables of a result: interpretation (in percent, as the paper's Table 2), correlations (Table 1), coverage."""
    coverage = result["coverage"]
    all_tables = [_correlation_table(result["correlation"], result.get("short_prompts", 0))]
    if result.get("interpretation"):
        all_tables.insert(0, _recall_table(result))
    all_tables += [_rates_table(cut, rates) for cut, rates in result.get("alignment", {}).items() if rates]
    if result.get("relations"):
        all_tables.append(relation_table(result["relations"]))
    all_tables.append(benchmark_table("LongT2IBench: coverage", coverage, [tuple(coverage.values())]))
    problems = [(problem["name"], problem["reason"]) for problem in result["problems"]]
    all_tables += first_rows("LongT2IBench: not used, or used in part", ("what", "why"), problems)
    return all_tables


def _recall_table(result: Values) -> Table:
    """Make the table of the annotated elements that the judge found, as the paper's Table 2 has it."""
    rows = (
        (
            name,
            *(percent(recalls[status]) for status in (*STATUSES, "overall")),
            *(recalls["counts"][status][1] for status in STATUSES),
        )
        for name, recalls in result["interpretation"].items()
    )
    line = f"Percent of the elements that people marked, found in the predicted list of the same name; matching: {result['matching']}."
    note = Note("elements_found", line)
    columns = ("elements", "align", "misalign", "overall", "n align", "n misalign")
    return benchmark_table("LongT2IBench: interpretation accuracy", columns, rows, note, id="longt2ibench_recall")


def _rates_table(cut: str, rates: Values) -> Table:
    rows = (
        (
            name,
            group["images"],
            *(percent(group[who][category]) for who in _RATERS for category in (*CATEGORIES, _SCORE)),
            " / ".join(f"{percent(share):.1f}" for share in group["quartiles"]) or None,
        )
        for name, group in rates.items()
    )
    columns = (cut, "images", *CATEGORIES, _SCORE, *(f"{category} (people)" for category in (*CATEGORIES, _SCORE)))
    percents = "Percent of the elements that are aligned, by the judge and by people, for the same images."
    scores = "Score: mean of the images' shares of aligned elements. Quartiles: 25, 50 and 75% of people's scores."
    notes = Note("aligned_elements", percents), Note("longt2ibench_score", scores)
    return benchmark_table(f"LongT2IBench: aligned elements by {cut}", (*columns, "quartiles (people)"), rows, *notes)


def _correlation_table(correlation: Values, short: int) -> Table:
    rows = ((name, *map(values.get, _CORRELATED)) for name, values in correlation.items())
    line = "Intervals are of words between white space, the lower end included."
    notes = [Note("intervals_of_words", line)]
    if short:
        notes.append(Note("short_prompts", f"{short} prompts have fewer than 30 words: only in overall."))
    columns, id = ("words", *_CORRELATED.values()), "longt2ibench_correlation"
    return benchmark_table("LongT2IBench: alignment score against people", columns, rows, *notes, id=id)


def metrics_table(rows: Mapping[str, Sequence[Correlated]]) -> list[Table]:
    """Correlate further metrics with people by prompt length, as the paper's Table 1 has them; no table without metrics.

    Args:
        rows: By metric, prompt, score (more is better) and human score of each image that has both.
    """
    cells = [
        (name, interval, *map(values.get, _CORRELATED))
        for name, listed in rows.items()
        for interval, values in by_interval(listed).items()
    ]
    columns, title = (
        ("metric", "words", *_CORRELATED.values()),
        "LongT2IBench: metrics against people's alignment scores",
    )
    return [benchmark_table(title, columns, cells)] if cells else []
