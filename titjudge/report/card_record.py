"""The trust card of a judge (card.json), as `probe` writes it, and its table in terminal and report."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import Field, ValidationError

from titjudge.core.declarations import Declaration, Population, Unit
from titjudge.core.run_records import Interval, Record
from titjudge.core.tables import Note, Table, p_value, plain

CARD = Declaration("trust_card", "tests of a judge with known answers", Population.KNOWN_ANSWERS, Unit.IMAGE)

MOST_PROMPTS = 1000


class CardVerdict(StrEnum):
    """The result of a line of the card for a judge."""

    CAUGHT = "caught"
    PASS = "pass"
    OPEN = "not enough data"


CAUGHT, PASS, OPEN = CardVerdict


class LimitRule(StrEnum):
    """On which side of its limit an effect should be."""

    AT_MOST = "at most"
    AT_LEAST = "at least"
    WITHIN = "within"


class CardLine(Record):
    """One test of a judge."""

    family: str = ""
    name: str = ""
    rule: str = ""
    """On which side of `limit` the effect should be: `at most`, `at least` or `within` (plus or minus)."""
    limit: float | None = None
    effect: float | None = None
    interval: Interval | None = None
    p_value: float | None = None
    """Probability of an effect this bad, or worse, for a judge exactly at the limit."""
    adjusted: float | None = None
    """The p-value after Holm's correction over the lines of the family, by which the judge is caught."""
    verdict: str = ""
    """`caught`, `pass` or `not enough data`."""
    trials: int = 0
    """Trials with their scores."""
    prompts: int = 0
    failed: int = 0
    """Trials without a score."""
    note: str = ""
    deviation: float | None = None
    """Standard deviation between prompts."""
    more: int | None = None
    """Further prompts like those seen after which there would be a verdict; null if unknown or over 1,000."""

    def row(self) -> tuple[Any, ...]:
        """Return the cells of the line."""
        wanted = "" if self.limit is None else f"{self.rule} {self.limit:g}"
        effect = None if self.effect is None else plain(self.effect, self.interval)
        p = p_value(self.p_value)
        return self.family, self.name, effect, wanted, p, self.verdict or None, self._counts(), self._lacks()

    def _counts(self) -> str:
        prompts = f" of {self.prompts} prompts" if self.prompts else ""
        return f"{self.trials}{prompts}" + (f", {self.failed} without a score" if self.failed else "")

    def _lacks(self) -> str | None:
        """Write the missing conditions for a verdict, and its note."""
        if self.verdict != OPEN or self.deviation is None:
            return self.note or ("more answers" if self.verdict == OPEN and self.trials else None)
        prompts = f"over {MOST_PROMPTS} prompts" if self.more is None else f"about {self.more} prompts"
        return f"{prompts}; {self.note}" if self.note else prompts


class CardRecord(Record):
    """The trust card of a judge."""

    metric: str = ""
    models: dict[str, str] = Field(default_factory=dict)
    """Models by role."""
    versions: dict[str, list[str]] = Field(default_factory=dict)
    """Versions of the models that answered, by role."""
    span: float | None = None
    """The unit of the effects on scores, in units of the metric; null if all effects are shares."""
    scores: int = 0
    price_per_1000: float | None = None
    """USD for 1,000 scores; null if unknown, or if all answers came from the cache."""
    seconds_per_1000: float | None = None
    """Model time for 1,000 scores; null as for the price."""
    lines: list[CardLine] = Field(default_factory=list)
    skipped: dict[str, str] = Field(default_factory=dict)
    """Tests that this judge cannot take, with the reason."""
    notes: list[Note] = Field(default_factory=list)
    same_score: float | None = None
    """The score of all images, if they have one and the same."""

    @classmethod
    def of_json(cls, card: Any) -> CardRecord | None:
        """Read a card from JSON that may have been edited by anyone, without invalid lines; None if it is not a card."""
        if not isinstance(card, Mapping) or not isinstance(card.get("lines"), list):
            return None
        lines = [line for line in card["lines"] if _reads(CardLine, line)]
        rest = {key: value for key, value in card.items() if key != "lines" and _reads(cls, {key: value})}
        return cls.model_validate({**rest, "lines": lines})

    def table(self) -> Table:
        """Make the table of the card."""
        columns = ("", "test", "effect [95%]", "should be", "p", "verdict", "trials", "lacks")
        return Table(
            "Trust card",
            columns,
            tuple(line.row() for line in self.lines),
            tuple(self._remarks()),
            declared=CARD.over(self.scores or None),
        )

    def _remarks(self) -> list[Note]:
        """List the lines below the table: verdicts, models, notes, tests left out, costs."""
        counts = (f"{sum(line.verdict == kind for line in self.lines)} {kind}" for kind in (PASS, CAUGHT, OPEN))
        models = ", ".join(f"{role} {model}" for role, model in self.models.items())
        unit = "shares" if self.span is None else f"on scores in units of the judge's own span, {self.span:.4g}"
        price = "unknown" if self.price_per_1000 is None else f"{self.price_per_1000:.2f} USD"
        seconds = "unknown" if self.seconds_per_1000 is None else f"{self.seconds_per_1000:.0f} s of model time"
        return [
            Note("verdicts_of_tests", ", ".join(counts)),
            Note("judge_tested", f"{self.metric} ({models}); {self.scores} scores; effects {unit}"),
            *self.notes,
            *self._same(),
            *self._not_tested(),
            Note("cost_of_scores", f"per 1,000 scores: {price}, {seconds}"),
        ]

    def _same(self) -> list[Note]:
        what = f"all images have the same score ({self.same_score}): this judge distinguishes nothing"
        return [] if self.same_score is None else [Note("same_score", what)]

    def _not_tested(self) -> list[Note]:
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.skipped.items():
            by_reason.setdefault(reason, []).append(name)
        return [Note("not_tested", f"not tested: {', '.join(names)}: {reason}") for reason, names in by_reason.items()]


def _reads(model: type[Record], value: Any) -> bool:
    try:
        model.model_validate(value)
    except ValidationError:
        return False
    return True
