"""LongT2IBench statistics: interpretation accuracy, SRCC and PLCC overall and by prompt length (paper, Tables 1 and 2)."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from titjudge.core.errors import ConfigError, nearest
from titjudge.core.numbers import mean
from titjudge.core.types import Table
from titjudge.metrics.longt2ibench_text import CATEGORIES, Alignment
from titjudge.stats.equality import with_ties
from titjudge.suites.base import first_rows
from titjudge.suites.longt2ibench.relations import relation_table

INTERVALS = ((30, 50), (50, 70), (70, 90), (90, 110), (110, None))
STATUSES = ("align", "misalign")
_ARTICLE = re.compile(r"^(?:a|an|the)\s+")
_GROUP = "-group"


def _casefold(text: str) -> str:
    return " ".join(text.casefold().split())


def _loose(text: str) -> str:
    return _ARTICLE.sub("", " ".join(re.sub(r"[^\w\s]|_", " ", text.casefold()).split()))


RULES: dict[str, Callable[[str], str]] = {"exact": str.strip, "casefold": _casefold, "loose": _loose}
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
    """Ground-truth elements, and those of them found in the predicted list of the same name; by category and list."""

    matching: str = "casefold"
    found: dict[tuple[str, str], int] = field(default_factory=dict)
    total: dict[tuple[str, str], int] = field(default_factory=dict)
    contradicted: int = 0

    def __post_init__(self) -> None:
        if self.matching not in MATCHINGS:
            hint = nearest(self.matching, MATCHINGS)
            raise ConfigError(f"there is no matching rule '{self.matching}'.{hint} There are: {', '.join(MATCHINGS)}")

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
                self.total[key] = self.total.get(key, 0) + 1
                self.found[key] = self.found.get(key, 0) + (element in lists[aligned] and element not in both)

    def to_json(self) -> dict[str, Any]:
        """Micro recall by category (and `all`): align, misalign, overall, in [0, 1], None without elements; and counts."""
        return {
            name: {
                **{status: self._share(categories, (status,)) for status in STATUSES},
                "overall": self._share(categories, STATUSES),
                "counts": {
                    s: [self._sum(self.found, categories, (s,)), self._sum(self.total, categories, (s,))]
                    for s in STATUSES
                },
            }
            for name, categories in (*((category, (category,)) for category in CATEGORIES), ("all", CATEGORIES))
        }

    def _share(self, categories: Sequence[str], statuses: Sequence[str]) -> float | None:
        total = self._sum(self.total, categories, statuses)
        return self._sum(self.found, categories, statuses) / total if total else None

    @staticmethod
    def _sum(counts: Mapping[tuple[str, str], int], categories: Sequence[str], statuses: Sequence[str]) -> int:
        return sum(counts.get((category, status), 0) for category in categories for status in statuses)


def words(prompt: str) -> int:
    """Words of a prompt: what white space separates (the paper does not say)."""
    return len(prompt.split())


def interval(count: int) -> str:
    """Name the word-count interval of the paper, its lower end included; empty below 30 words."""
    for low, high in INTERVALS:
        if count >= low and (high is None or count < high):
            return f"{low}-{high}" if high else f"{low}+"
    return ""


def correlate(pairs: Iterable[tuple[float, float]]) -> dict[str, Any]:
    """SRCC, PLCC and their mean between predicted and human scores; None with fewer than two pairs or a constant side."""
    from scipy.stats import pearsonr, spearmanr

    both = list(pairs)
    one, two = (with_ties(np.array([pair[k] for pair in both])) for k in range(2))
    if len(set(one.tolist())) < 2 or len(set(two.tolist())) < 2:
        return {"srcc": None, "plcc": None, "average": None, "n": len(both)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of values that are almost constant
        srcc, plcc = _bounded(spearmanr(one, two)[0]), _bounded(pearsonr(one, two)[0])
    average = None if srcc is None or plcc is None else (srcc + plcc) / 2
    return {"srcc": srcc, "plcc": plcc, "average": average, "n": len(both)}


def _bounded(value: Any) -> float | None:
    found = float(value)
    return found if -1.0001 <= found <= 1.0001 else None  # NaN and what a denormal spread makes of it


def by_interval(rows: Sequence[tuple[str, float, float]]) -> dict[str, Any]:
    """`correlate` of (prompt, predicted, human) rows: `overall`, and for each interval of prompt length."""
    found = {"overall": correlate((predicted, human) for _, predicted, human in rows)}
    for low, high in INTERVALS:
        name = interval(low)
        found[name] = correlate((p, h) for prompt, p, h in rows if interval(words(prompt)) == name)
        assert high is None or high > low
    return found


def generators(images: Sequence[tuple[str, str]]) -> list[str]:
    """Name the generator of each (name, image path): where none is given, its folder, if the images lie in several."""
    folders = [PurePosixPath(path).parent.name for _, path in images]
    several = len(set(folders)) > 1
    return [name or (folder if several else "") for (name, _), folder in zip(images, folders, strict=True)]


def alignment_rates(rows: Iterable[tuple[str, str, Alignment | None, Alignment]]) -> dict[str, Any]:
    """Share of aligned elements by category, of (generator, prompt, people's alignment, the judge's) rows.

    Returns:
        `{"generator" | "words": {NAME: {"images", "judge": {CATEGORY: share}, "people": {CATEGORY: share}}}}`; of images
        without a named generator, or of fewer than 30 words, nothing.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {"generator": {}, "words": {}}
    for generator, prompt, truth, predicted in rows:
        for cut, name in (("generator", generator), ("words", interval(words(prompt)))):
            if not name:
                continue
            of = found[cut].setdefault(name, {"images": 0, "judge": {}, "people": {}})
            of["images"] += 1
            for who, alignment in (("judge", predicted), ("people", truth or {})):
                for category, marks in alignment.items():
                    of[who].setdefault(category, []).extend(float(aligned) for _, aligned in marks)
    order = {"generator": sorted(found["generator"]), "words": [interval(low) for low, _ in INTERVALS]}
    return {
        cut: {name: _shares(found[cut][name]) for name in names if name in found[cut]} for cut, names in order.items()
    }


def _shares(of: Mapping[str, Any]) -> dict[str, Any]:
    means = {who: {category: mean(of[who].get(category, ())) for category in CATEGORIES} for who in ("judge", "people")}
    return {"images": of["images"], **means}


def tables(result: Mapping[str, Any]) -> list[Table]:
    """Make the tables of a result: interpretation (in percent, as the paper's Table 2), correlations (Table 1), coverage."""
    coverage = result["coverage"]
    found = [_correlation_table(result["correlation"], result.get("short_prompts", 0))]
    if result.get("interpretation"):
        found.insert(0, _recall_table(result))
    found += [_rates_table(cut, of) for cut, of in result.get("alignment", {}).items() if of]
    if result.get("relations"):
        found.append(relation_table(result["relations"]))
    found.append(Table("LongT2IBench: coverage", tuple(coverage), (tuple(coverage.values()),)))
    problems = [(each["name"], each["reason"]) for each in result["problems"]]
    found += first_rows("LongT2IBench: not used, or used in part", ("what", "why"), problems)
    return found


def _recall_table(result: Mapping[str, Any]) -> Table:
    rows = tuple(
        (
            name,
            *(None if of[s] is None else 100 * of[s] for s in (*STATUSES, "overall")),
            *(of["counts"][s][1] for s in STATUSES),
        )
        for name, of in result["interpretation"].items()
    )
    notes = (
        f"Percent of the elements that people marked, found in the predicted list of the same name; matching: {result['matching']}.",
    )
    columns = ("elements", "align", "misalign", "overall", "n align", "n misalign")
    return Table("LongT2IBench: interpretation accuracy", columns, rows, notes)


def _rates_table(cut: str, rates: Mapping[str, Any]) -> Table:
    rows = tuple(
        (
            name,
            of["images"],
            *(None if of[who][c] is None else 100 * of[who][c] for who in ("judge", "people") for c in CATEGORIES),
        )
        for name, of in rates.items()
    )
    columns = (cut, "images", *CATEGORIES, *(f"{category} (people)" for category in CATEGORIES))
    notes = ("Percent of the elements that are aligned: as the judge says, and as people do of the same images.",)
    return Table(f"LongT2IBench: aligned elements by {cut}", columns, rows, notes)


def _correlation_table(correlation: Mapping[str, Any], short: int) -> Table:
    rows = tuple((name, of["srcc"], of["plcc"], of["average"], of["n"]) for name, of in correlation.items())
    notes: tuple[str, ...] = ("Intervals are of words between white space, the lower end included.",)
    if short:
        notes += (f"{short} prompts have fewer than 30 words: only in overall.",)
    return Table("LongT2IBench: alignment score against people", ("words", "SRCC", "PLCC", "mean", "n"), rows, notes)
