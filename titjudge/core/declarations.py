"""The basis of the numbers of a table: population, unit, rule for missing scores, order and correction.

A `Declaration` is a constant of the module that makes the table. Caption, `--json`, CSV, report and
docs/reference/populations.md take their words from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from titjudge.core.words import first_of, truncated

_PEOPLE = {"people": "people", "human": "human "}
_CONSTRUCTION = {"people": "construction", "human": ""}


class Printed(StrEnum):
    """Stable names, for programs and files, of things that are printed in words.

    Attributes:
        words: Its one printed name, in which `said` replaces `{people}` and `{human}`.
        meaning: What belongs to it.
    """

    words: str
    meaning: str

    def __new__(cls, id: str, words: str = "", meaning: str = "") -> Printed:
        member = str.__new__(cls, id)
        member._value_, member.words, member.meaning = id, words, meaning
        return member


class Population(Printed):
    """What the numbers of a table are over."""

    COMMON_OF_TWO = "common_of_two", "common prompts of the two", "prompts on which both have a score"
    COMMON_OF_ALL = (
        "common_of_all",
        "common prompts of all in this table",
        "prompts on which every compared generator has a score",
    )
    SAME_PROMPTS = (
        "same_prompts",
        "prompts, the same for all in this table",
        "prompts with a score of a compared generator; missing scores are estimated by least squares with an effect of the "
        "generator and of the prompt",
    )
    SAME_IN_COLUMN = (
        "same_in_column",
        "prompts, the same for all in a column",
        "the same for each metric or run separately, because they have scores on different prompts",
    )
    COMMON_IN_COLUMN = (
        "common_in_column",
        "common prompts of all in a column",
        "the same for each metric or run separately",
    )
    COMMON_OF_RACE = (
        "common_of_race",
        "common prompts of all in a race",
        "prompts on which every generator of the race has a score",
    )
    PROMPTS_OF_JUDGES = (
        "prompts_of_judges",
        "common prompts of the two judges",
        "prompts that both judges have; missing scores are estimated from the others",
    )
    RANKED_PROMPTS = (
        "ranked_prompts",
        "prompts ranked by {people}",
        "prompts with ranks by people, or human pairs",
    )
    IMAGES_OF_BOTH = (
        "images_of_both",
        "images that {people} and the metric have",
        "images with a human score, rank or pair, and a score of the metric",
    )
    COMMON_IMAGES = (
        "common_images",
        "images that {people} and all compared rows have",
        "images with a human score, rank or pair, and a score of every compared row",
    )
    IMAGES_OF_COMMON = (
        "images_of_common",
        "images that {people} and the metric have, for the same prompts",
        "the same; if prompts of a generator are missing, both means are estimated for the same prompts by least squares",
    )
    SCORED_BY_TWO = (
        "scored_by_two",
        "prompts, images or pairs that both have scored",
        "prompts, images or human pairs with a preference, that both rows have scored",
    )
    ALL_IMAGES = "all_images", "images of the row, scored or not", "images of the data"
    ITEMS = "items", "items", "images to judge, or prompts to make"
    SCORED_IMAGES = "scored_images", "scored images of the row", "images with a score"
    OWN_PAIRS = (
        "own_pairs",
        "{human}pairs that the row scored",
        "human pairs with a preference, if the row has scored both images",
    )
    COMMON_PAIRS = (
        "common_pairs",
        "{human}pairs that all compared rows scored",
        "human pairs with a preference that every compared row has scored",
    )
    JUDGED_PAIRS = (
        "judged_pairs",
        "pairs that the judge scored",
        "all pairs of images of a prompt, with and without human votes",
    )
    HUMAN_PAIRS = "human_pairs", "{human}pairs", "pairs of images on which people voted"
    VOTES = (
        "votes",
        "votes of {people}",
        "single votes, without votes of stopped annotators and votes that were taken back",
    )
    ELEMENTS = (
        "elements",
        "elements that {people} and the metric have",
        "elements that people marked and the metric judged",
    )
    REQUESTS = (
        "requests",
        "requests of all sessions",
        "requests to models, those included that the cache answered or that failed",
    )
    ANSWERS = "answers", "stored answers of the row", "answers behind the scores of the images"
    BENCHMARK = "benchmark", "images of the benchmark", "images, or prompts, as the published aggregation counts them"
    KNOWN_ANSWERS = (
        "known_answers",
        "known-answer images of the probe",
        "images with planted errors, and their questions",
    )
    ROWS_OF_BOTH = (
        "rows_of_both",
        "rows that both columns have",
        "generators with a number in the column and in the reference",
    )
    PROMPTS = "prompts", "prompts of the list", "prompts of the file or data set"


class Exclusion(Printed):
    """Why something is in the data but not counted in a table."""

    NO_SCORE = "no_score", "no score"
    ESTIMATED = "no_score_estimated", "no score, estimated"
    OF_NONE = "no_score_of_any", "no score of any generator"
    OF_SOME_IMAGES = "no_score_of_some_images", "no score of some images"
    TOO_FEW = "too_few", "too few common prompts or families"
    OWN_MEAN = "too_few_own_mean", "too few common prompts or families, own mean"
    FEW_PAIRS = "too_few_pairs", "scores on fewer than half of the pairs"
    OTHER_IMAGES = "other_images", "not two images of one prompt in this run"


class Unit(StrEnum):
    """The unit that intervals and tests resample or exchange as a whole; of a table without them, the unit it counts."""

    IMAGE = "image"
    PROMPT = "prompt"
    FAMILY = "family"
    VOTE = "vote"
    ELEMENT = "element"
    GENERATOR = "generator"
    REQUEST = "request"


RELIABLE = 10
"""Units, or people, below which a level is only approximate."""
FEW_ANNOTATORS = 30
"""People below which annotators are a sample of their own, beside that of the prompts."""


class Doubt(Printed):
    """Why the level of an interval is not reliable."""

    FEW_UNITS = "few_units", f"fewer than {RELIABLE} prompts or families"
    FEW_PEOPLE = "few_people", f"fewer than {RELIABLE} people"
    FEW_ANNOTATORS = "few_annotators", f"fewer than {FEW_ANNOTATORS} people, who may differ"
    ONE_SCORE = "one_score", "one more score at an end of the scale would move the number out of its interval"
    COARSE = "coarse", "few different scores, or a few far from the others, decide"
    DISAGREE = "disagree", "p-value and interval disagree on whether there is a difference"


_WORDS = {str(each): each.words for names in (Population, Exclusion, Doubt) for each in names}


SKIPPED = "skipped, and counted"
ESTIMATED = (
    "means: estimated for the same prompts; generators with too few common prompts come last, with unadjusted means"
)
NEEDS_BOTH = "counts only if both have a score"
NEEDS_ALL = "counts only if all have a score"


Sizes = Mapping[Any, Sequence[int]]
"""Population -> number of its units, or several such numbers."""


Excluded = Mapping[str, Mapping[str, Sequence[str]]]
"""`Exclusion` -> name of a generator, metric or run -> ids, such as its prompts without a score."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """The basis of the numbers of a table: population, unit, rules.

    Attributes:
        id: Stable name of the table, for programs.
        compares: The things it compares, or counts.
        population: Its `Population`; empty for a list of facts.
        unit: The thing that is counted or resampled.
        missing: The treatment of missing scores.
        order: The sort key of the rows.
        correction: Names of the corrections of its p-values.
        by_column: Population of each column, or kind of row, that has another one, by its key; the part after `:` if the key has one.
        counts: Key of the column with the number of units of each row, if rows have their own.
        sizes: Number of units of a population in these data, or the lowest and the highest.
        excluded: Ids that are in these data but not counted in the table, by reason and by the kind of thing.
        doubts: Name of each row whose level is not reliable -> `Doubt`.
        constructed: Whether the preferences come from how the images were made, so that no text speaks of people.
    """

    id: str
    compares: str = ""
    population: str = ""
    unit: str = ""
    missing: str = SKIPPED
    order: str = ""
    correction: str = ""
    by_column: Mapping[str, str] = field(default_factory=dict)
    counts: str = ""
    sizes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    excluded: Excluded = field(default_factory=dict)
    doubts: Mapping[str, str] = field(default_factory=dict)
    constructed: bool = False

    def over(
        self,
        sizes: Sizes | int | None = None,
        excluded: Excluded | None = None,
        *,
        families: bool = False,
        constructed: bool = False,
        doubts: Mapping[str, str] | None = None,
    ) -> Declaration:
        """Fill in the facts about the data at hand.

        Args:
            sizes: Of the populations, or of the first.
            excluded: Ids of things that are not counted.
            families: Whether these are the unit instead of prompts.
            constructed: Whether the preferences come from how the images were made.
            doubts: `Doubt` by row; rows with an empty one are reliable.
        """
        names = {self.population, *self.by_column.values()}
        found = {self.population: [sizes]} if isinstance(sizes, int) else sizes or {}
        return replace(
            self,
            unit=Unit.FAMILY if families and self.unit == Unit.PROMPT else self.unit,
            sizes={str(name): sorted({min(of), max(of)}) for name, of in found.items() if of and name in names},
            excluded={
                str(why): {name: in_order(ids) for name, ids in of.items()}
                for why, of in (excluded or {}).items()
                if of
            },
            doubts={name: doubt for name, doubt in (doubts or {}).items() if doubt},
            constructed=constructed,
        )

    def caption(self, titles: Mapping[str, str] | None = None) -> str:
        """Write populations and sizes, unit, correction and what is excluded in one line; empty for a list of facts.

        Args:
            titles: Of columns and rows, by key; a population that is of none of them is not named.
        """
        if not self.population:
            return ""
        columns = dict[str, dict[str, None]]()
        for key, title in (titles or {}).items():
            of, _, name = key.rpartition(":")
            if population := self.by_column.get(name):
                columns.setdefault(population, {})[title.removeprefix(f"{of}: ")] = None
        parts = [
            f"over {self._sized(self.population)}",
            *(f"{', '.join(names)}: {self._sized(population)}" for population, names in columns.items()),
            f"unit: {self.said(self.unit)}",
        ]
        if self.correction:
            parts.append(f"adjusted: {self.correction}")
        if self.excluded:
            parts.append(f"excluded: {self.left_out}")
        for why in sorted(set(self.doubts.values())):
            names = [truncated(name, 100) for name, doubt in self.doubts.items() if doubt == why]
            parts.append(f"level not reliable: {first_of(names)} ({self.said(why)})")
        return "; ".join(parts)

    def _sized(self, population: str) -> str:
        size = " to ".join(f"{number:,}" for number in self.sizes.get(population, ()))
        return f"{size} {self.said(population)}".lstrip()

    def said(self, name: str) -> str:
        """Return the printed name of a population, unit, `Exclusion` or `Doubt`; the name itself if it is another text."""
        return _WORDS.get(name, str(name)).format(**(_CONSTRUCTION if self.constructed else _PEOPLE))

    @property
    def left_out(self) -> str:
        """The exclusions: for each reason the first names with their numbers of ids, and the first ids."""
        reasons = []
        for why, of in self.excluded.items():
            names = [f"{truncated(name, 100)} {len(ids):,}".strip() if ids else name for name, ids in of.items()]
            listed = dict.fromkeys(truncated(id, 40) for ids in of.values() for id in ids)
            reasons.append(f"{first_of(names)} ({self.said(why)})" + (f": {first_of([*listed])}" if listed else ""))
        return "; ".join(reasons)

    def to_json(self) -> dict[str, object]:
        """Return the declared values by name, without empty ones; `size` is the size of the population, if it is one number.

        `excluded` has the numbers of ids, `excluded_ids` the first 100 of each, and `doubts` the numbers of rows.
        """
        if not self.population:
            return {"id": self.id}
        size = self.sizes.get(self.population, ())
        said = self.said
        ids = {why: {name: ids[:100] for name, ids in of.items()} for why, of in self.excluded.items()}
        record = asdict(self) | {
            **{name: said(getattr(self, name)) for name in ("compares", "population", "unit")},
            "sizes": {said(name): sizes for name, sizes in self.sizes.items()},
            "by_column": {name: said(population) for name, population in self.by_column.items()},
            "counts": "",
            "constructed": "",
            "size": size[0] if len(size) == 1 else size,
            "excluded": {why: {name: len(ids) for name, ids in of.items()} for why, of in self.excluded.items()},
            "excluded_ids": ids,
            "doubts": Counter(map(str, self.doubts.values())),
        }
        return {name: value for name, value in record.items() if value not in ("", (), [], {})}


def in_order(ids: Iterable[str]) -> list[str]:
    """Sort ids, p2 before p10, so that what is printed does not depend on the order of rows."""
    return sorted(ids, key=lambda id: (len(id), id))


UNDECLARED = Declaration("")
FACTS = Declaration("facts")
"""A list without a statistic, such as the list of all providers."""
BENCHMARK = Declaration(
    "benchmark",
    "numbers of a benchmark",
    Population.BENCHMARK,
    Unit.IMAGE,
    "as the benchmark counts them",
    "order of the benchmark",
    counts="images",
)
