"""The questions and answers of people, and the common base of the forms of questions."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from titjudge.apps.label.dataset import LabelingData
from titjudge.core.declarations import Declaration, Population, Unit
from titjudge.core.errors import UserError
from titjudge.core.types import Json, Note, Pair, Table
from titjudge.stats.generators.sequential import share_at_most

LEAST = 0.7
_LOOK_MS = 500  # an answer before that comes from a key that was kept down or pressed blindly
_READ_MS = 10  # a character: 1,000 words a minute, several times as fast as people read


@dataclass(frozen=True, slots=True)
class Reliability:
    """How an annotator answers attention checks.

    Attributes:
        right: Sum of the shares of checks that are right.
        checks: Number of checks.
        least: The required accuracy.
    """

    right: float = 0
    checks: int = 0
    least: float = 0

    @property
    def accuracy(self) -> float | None:
        return self.right / self.checks if self.checks else None

    @property
    def at_most(self) -> float | None:
        """Upper 95 % bound of the accuracy, valid at all checks together; None without a check."""
        return share_at_most(self.right, self.checks) if self.checks else None

    @property
    def stopped(self) -> bool:
        """Whether the accuracy is certainly too low."""
        return self.at_most is not None and self.at_most < self.least

    def line(self, annotator: str, what: str) -> str:
        """Explain in a line why `what` (such as 12 votes) of an annotator is left out."""
        return (
            f"left out: {what} of {annotator}, who is right in {self.right:g} of {self.checks} checks "
            f"(at most {100 * (self.at_most or 0):.0f} %, at 95 %; asked for: {100 * self.least:g} %)"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the numbers for JSON."""
        return {
            "gold": self.checks,
            "gold_accuracy": self.accuracy,
            "gold_at_most": self.at_most,
            "left_out": self.stopped,
        }


def at_most_note(people: Mapping[str, Reliability]) -> tuple[Note, ...]:
    """Make the note that explains the column of this name, if anybody has had a check."""
    note = "at most: the bound on the share of checks that are right, at 95 %, however often one looks"
    return (Note("about_at_most", note),) if any(person.checks for person in people.values()) else ()


ANNOTATORS = Declaration("annotators", "votes of each person", Population.VOTES, Unit.VOTE)

PAIR, GOLD, IMAGE, RANK = "pair", "gold", "image", "rank"
ANNOTATOR, EXPERT = "annotator", "expert"
T = TypeVar("T")


def is_expert(annotator: str) -> bool:
    """Return True if this is the name of an expert, who decides what annotators leave open."""
    return annotator.startswith(f"{EXPERT}-")


@dataclass(frozen=True, slots=True)
class Question:
    """One question to a person.

    Attributes:
        kind: `pair`, `gold` for a pair that is an attention check, `image` for all elements of an image, or `rank` for the ranks of
            all images of a prompt.
        prompt_id: The prompt that is shown.
        images: Ids of the images that are shown, the left one first.
    """

    kind: str
    prompt_id: str
    images: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LabelAnswer:
    """The answer of one person to one question. Times are Unix seconds.

    Attributes:
        turn: Number of earlier answers and undos of the annotator.
        text: The answer as its form writes it: left, right, tie or both_bad for a pair, marks or ranks as JSON for images.
        note: The reason that the annotator gave.
        shown_at: When the question was shown; None if unknown.
        duration_ms: How long the question was in view, without pauses; None if unknown.
        ended_at: When it was taken back or replaced; None if it is valid.
        taken_back: Whether it was taken back.
    """

    annotator: str
    turn: int
    question: Question
    text: str
    note: str
    shown_at: float | None
    answered_at: float
    duration_ms: int | None
    ended_at: float | None = None
    taken_back: bool = False

    @property
    def stands(self) -> bool:
        return self.ended_at is None


def outcome_of(text: str) -> int:
    """Return 1 if by an answer left is better, -1 if right is, 0 for a tie."""
    return {"left": 1, "right": -1}.get(text, 0)


def median_seconds(answers: Iterable[LabelAnswer]) -> float | None:
    """Compute the median of the seconds for which questions were in view; None if no answer has it."""
    seconds = [answer.duration_ms / 1000 for answer in answers if answer.duration_ms is not None]
    return statistics.median(seconds) if seconds else None


def too_fast(answers: Iterable[LabelAnswer], prompts: Mapping[str, str]) -> int:
    """Count the answers that came before a person can have looked and, for the first one about a prompt, read it.

    Args:
        answers: The answers of one annotator in order, also withdrawn ones.
        prompts: Text of each prompt id.
    """
    count, read = 0, set[str]()
    for answer in answers:
        first = answer.question.prompt_id not in read
        read.add(answer.question.prompt_id)
        needed = max(_LOOK_MS, first * _READ_MS * len(prompts.get(answer.question.prompt_id, "")))
        count += answer.duration_ms is not None and answer.duration_ms < needed
    return count


Settled = Callable[[str], Collection[tuple[str, ...]]]
"""Returns the images of those questions about a prompt that need no further answers."""


@dataclass(frozen=True, slots=True)
class ExportRules:
    """How answers are counted, and where the results are written.

    Attributes:
        out: The folder of the export, whose verdicts of experts are kept; None if nothing is written.
        annotators: Number of answers that an item should have; None: as served.
        experts: A file with verdicts of experts.
        gold: A file with known values of elements.
    """

    out: Path | None = None
    annotators: int | None = None
    experts: Path | None = None
    gold: Path | None = None


@dataclass(frozen=True, slots=True)
class Export:
    """What `label export` prints and writes.

    Attributes:
        result: The content of `labels.json`.
        tables: The tables to print.
        files: The content of each file by its name.
        main: The file that is used next, and `command` what takes it as its last argument.
        decided: Number of pairs or elements in that file.
    """

    result: Json
    tables: list[Table]
    files: dict[str, str]
    main: str
    command: str
    decided: int


class FormBase:
    """The common base of the forms of questions (`forms.Form`): display, counting, decisions and export.

    Attributes:
        plan: The name under which a store keeps the form: the mode or, for pairs, which of them are asked.
        item: The name of an item, in messages.
        rules: Settings of the form that the store keeps.
        role: The role of the person: annotator or expert.
        open: Number of items that are open for experts.
        gold: Pairs with a known answer.
        known_values: Elements with a known value: image -> element -> value, casefolded.
        images: Prompt id and generator of each image id of the store.
        identical: Pairs of images whose files are identical.
        families: Prompt -> its family.
    """

    item: str
    role = ANNOTATOR
    open = 0
    rules: Mapping[str, object] = {}

    def __init__(self, plan: str) -> None:
        self.plan = plan
        self.gold: Sequence[Pair] = ()
        self.known_values: Mapping[str, Mapping[str, str]] = {}
        self.images: Mapping[str, tuple[str, str]] = {}
        self.identical: set[tuple[str, str]] = set()
        self.families: Mapping[str, str] = {}

    @property
    def units(self) -> dict[str, str]:
        """Image -> its prompt, or the family of the prompt: the unit of statistics."""
        return {image: self.families.get(prompt, prompt) for image, (prompt, _) in self.images.items()}

    def load(self, data: Path, gold: Path | None = None) -> LabelingData:
        """Read what is shown, and the attention checks.

        Raises:
            DataError: There is nothing to ask about, or the checks do not belong to the data.
        """
        raise NotImplementedError

    def check_rules(self, enough: int) -> None:
        """Check that items can stop being asked about after `enough` answers.

        Raises:
            UserError: They cannot.
        """

    def check_answers(self, answers: Sequence[LabelAnswer], dataset: LabelingData, store: Path) -> None:
        """Check that the answers of a store are about the items of the data.

        Raises:
            DataError: Items have changed.
        """

    def score(self, answer: LabelAnswer) -> float | None:
        """Return the accuracy of the answer to an attention check, from 0 to 1; None if the question is not a check."""
        return None

    def early(self, enough: int) -> int:
        """Return how many answers every item gets, over which alone agreement is unbiased by stopping; 0: over all."""
        return 0

    def for_experts(self, labelling: Labelling, dataset: LabelingData, annotators: int | None) -> Any:
        """Make the form that asks experts about open items, with the answers of the annotators.

        Raises:
            UserError: Nothing is open.
        """
        raise NotImplementedError

    def export(self, labelling: Labelling, rules: ExportRules) -> Export:
        """Decide all items and make what `label export` prints and writes.

        Raises:
            UserError: There is no answer, or none that counts.
        """
        raise NotImplementedError

    def reliability(self, answers: Iterable[LabelAnswer], least: float) -> dict[str, Reliability]:
        """Compute each annotator's accuracy on attention checks; `answers` are valid ones only, none withdrawn or replaced."""
        scores: dict[str, list[float]] = {}
        for answer in answers:
            mine, score = scores.setdefault(answer.annotator, []), self.score(answer)
            mine += [] if score is None else [score]
        return {name: Reliability(float(sum(mine)), len(mine), least) for name, mine in scores.items()}


@dataclass(frozen=True)
class Labelling:
    """The content of a store.

    Attributes:
        form: The form of the questions.
        annotators: Number of links for annotators; `panel` is that for experts.
        enough: Number of answers after which an item is no longer asked, or fewer if they decide it; 0: everyone is asked.
        least: Annotators whose share of right checks is certainly lower do not count.
        prompts: Text of each prompt id.
        answers: All answers, also those taken back or replaced, and the answers of experts.
    """

    path: Path
    form: FormBase
    seed: int
    annotators: int
    panel: int
    enough: int
    least: float
    prompts: dict[str, str]
    answers: list[LabelAnswer]

    @cached_property
    def standing(self) -> list[LabelAnswer]:
        """The valid answers, in order."""
        return [answer for answer in self.answers if answer.stands]

    @cached_property
    def people(self) -> dict[str, Reliability]:
        """How reliable each annotator is, without experts."""
        return self.form.reliability((a for a in self.standing if not is_expert(a.annotator)), self.least)

    @cached_property
    def stopped(self) -> set[str]:
        """Annotators who are left out since they fail too many checks."""
        return {name for name, reliability in self.people.items() if reliability.stopped}

    @property
    def left_out(self) -> list[str]:
        """A line for each annotator who does not count, with the reason."""
        counts, items = Counter(answer.annotator for answer in self.standing), self.form.item
        return [
            self.people[name].line(name, f"{counts[name]:,} {items}") for name in self.people if name in self.stopped
        ]

    def counts(self, annotator: str) -> bool:
        """Return True if the answers of an annotator count: answers of experts and of unreliable annotators do not."""
        return annotator not in self.stopped and not is_expert(annotator)

    def without_experts(self) -> Labelling:
        """Leave out the answers of experts, to find what is open for them, also what they have decided."""
        return replace(self, answers=[answer for answer in self.answers if not is_expert(answer.annotator)])

    def first(self, values: Iterable[T], key: Callable[[T], Hashable]) -> list[T]:
        """Keep those over which agreement is measured: all, or the early ones of each key if items stop being asked."""
        most, counts = self.form.early(self.enough) if self.enough else 0, Counter[Hashable]()
        kept = []
        for value in values:
            counts[key(value)] += 1
            if not most or counts[key(value)] <= most:
                kept.append(value)
        return kept

    def early_note(self, item: str) -> tuple[Note, ...]:
        """Make the note that agreement is measured over the early answers, if items stop being asked."""
        number = self.form.early(self.enough)
        note = f"agreement: over the first {number} votes of each {item}; more were asked for where these left it open"
        return (Note("early_votes", note),) if self.enough else ()

    def annotator_table(
        self, describe: Callable[[Sequence[LabelAnswer]], Json], columns: Sequence[str], note: Note
    ) -> tuple[list[Json], Table]:
        """Sum up each annotator who is not an expert.

        Args:
            describe: Sums up all answers of one annotator.
            columns: Headings of its numbers.
            note: Explains them.
        """
        answers: dict[str, list[LabelAnswer]] = {}
        for answer in self.answers:
            if not is_expert(answer.annotator):
                answers.setdefault(answer.annotator, []).append(answer)
        records = [
            {
                "annotator": name,
                **describe(answers[name]),
                "too_fast": too_fast(answers[name], self.prompts),
                **self.people.get(name, Reliability()).to_json(),
            }
            for name in sorted(answers)
        ]
        headings = ("annotator", *columns, "too fast", "checks", "checks right", "at most")
        rows = tuple(tuple(record.values())[: len(headings)] for record in records)
        fast = "too fast: answers that came before a person can have read the prompt and looked at the image"
        return records, Table(
            "Annotators",
            headings,
            rows,
            (
                note,
                Note("about_too_fast", fast),
                *at_most_note(self.people),
                *(Note("annotator_left_out", line) for line in self.left_out),
            ),
            declared=ANNOTATORS.over(sum(map(len, answers.values()))),
        )

    def nothing_open(self, rules: Mapping[str, int], elsewhere: int) -> UserError:
        """Make the error for a store without open items; `elsewhere` counts the open items of other data."""
        rules_text = ", ".join(f"{number:,} {rule}" for rule, number in rules.items() if number)
        if elsewhere:
            return UserError(f"{self.path}: what is open for experts ({rules_text}) is not of these data")
        return UserError(f"{self.path}: nothing is open for experts ({rules_text or 'nobody has voted'})")
