"""What the numbers of a table are over: population, unit, rule for missing scores, order and correction.

A `Declaration` is a constant of the module that makes the table. Caption, `--json`, CSV, report and docs/populations.md take their words from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum


class Population(StrEnum):
    """What the numbers of a table are over, by its one printed name.

    Attributes:
        meaning: What belongs to it.
    """

    meaning: str

    def __new__(cls, name: str, meaning: str) -> Population:
        member = str.__new__(cls, name)
        member._value_, member.meaning = name, meaning
        return member

    COMMON_OF_TWO = "common prompts of the two", "prompts on which both have a score"
    COMMON_OF_ALL = "common prompts of all in this table", "prompts on which every compared generator has a score"
    SAME_PROMPTS = (
        "same prompts for all in this table",
        "prompts with a score of a compared generator; missing scores are estimated by least squares with an effect of the "
        "generator and of the prompt",
    )
    COMMON_OF_RACE = "common prompts of all in a race", "prompts on which every generator of the race has a score"
    PROMPTS_OF_JUDGES = (
        "common prompts of the two judges",
        "prompts that both judges have; missing scores are estimated from the others",
    )
    OWN_PROMPTS = "the row's own prompts", "prompts on which the row has a score"
    RANKED_PROMPTS = (
        "prompts ranked by people",
        "prompts with ranks by people, or human pairs",
    )
    IMAGES_OF_BOTH = (
        "images that people and the metric have",
        "images with a human score, rank or pair, and a score of the metric",
    )
    SCORED_BY_TWO = "what both have scored", "images, or human pairs with a preference, that both rows have scored"
    ALL_IMAGES = "all images of the row", "images of the data, with and without a score"
    SCORED_IMAGES = "scored images of the row", "images with a score"
    OWN_PAIRS = "human pairs that the row scored", "human pairs with a preference, if the row has scored both images"
    COMMON_PAIRS = (
        "human pairs that all compared rows scored",
        "human pairs with a preference that every compared row has scored",
    )
    JUDGED_PAIRS = "pairs that the judge scored", "all pairs of images of a prompt, with and without human votes"
    HUMAN_PAIRS = "human pairs", "pairs of images on which people voted"
    VOTES = "votes of people", "single votes, without votes of stopped annotators and votes that were taken back"
    ELEMENTS = "elements that people and the metric have", "elements that people marked and the metric judged"
    ANSWERS = "stored answers of the row", "answers behind the scores of the images"
    BENCHMARK = "images of the benchmark", "images, or prompts, as the published aggregation counts them"
    KNOWN_ANSWERS = "known-answer images of the probe", "images with planted errors, and their questions"
    ROWS_OF_BOTH = "rows that both columns have", "generators with a number in the column and in the reference"
    PROMPTS = "all prompts of the list", "prompts of the file or data set"


class Unit(StrEnum):
    """What intervals and tests draw anew or exchange as a whole; of a table without them, what it counts."""

    IMAGE = "image"
    PROMPT = "prompt"
    PAIR = "human pair"
    VOTE = "vote"
    ELEMENT = "element"
    GENERATOR = "generator"
    REQUEST = "request"


SKIPPED = "skipped, and counted"
ESTIMATED = (
    "means: estimated for the same prompts; generators with too few common prompts come last, with their own means"
)
NEEDS_BOTH = "counts only if both have a score"
NEEDS_ALL = "counts only if all have a score"


@dataclass(frozen=True, slots=True)
class Declaration:
    """What the numbers of a table are over.

    Attributes:
        id: Stable name of the table, for programs.
        compares: What it compares, or counts.
        population: Its `Population`; empty for a list of facts.
        unit: What is counted or drawn anew.
        missing: What happens to missing scores.
        order: What the rows are sorted by.
        correction: Names of the corrections of its p-values.
        by_column: Population of each column that has another one.
    """

    id: str
    compares: str = ""
    population: str = ""
    unit: str = ""
    missing: str = SKIPPED
    order: str = ""
    correction: str = ""
    by_column: Mapping[str, str] = field(default_factory=dict)

    def caption(self, size: int | None = None) -> str:
        """Write population, its size and unit in one line; empty for a list of facts."""
        if not self.population:
            return ""
        count = "" if size is None else f" ({size:,})"
        columns: dict[str, list[str]] = {}
        for column, population in self.by_column.items():
            columns.setdefault(population, []).append(column)
        own = "".join(f"; {', '.join(names)}: {population}" for population, names in columns.items())
        adjusted = f"; adjusted: {self.correction}" if self.correction else ""
        return f"over {self.population}{count}{own}; unit: {self.unit}{adjusted}"

    def to_json(self) -> dict[str, object]:
        """Return what is declared by name, without what is empty."""
        return {name: value for name, value in asdict(self).items() if value} if self.population else {"id": self.id}


UNDECLARED = Declaration("")
FACTS = Declaration("facts")
"""A list without a statistic, such as that of all providers."""
BENCHMARK = Declaration(
    "benchmark",
    "numbers of a benchmark",
    Population.BENCHMARK,
    Unit.IMAGE,
    "as the benchmark counts them",
    "order of the benchmark",
)
