"""The form of questions in which all elements of one image are marked: its questions, facets, graph or pillars."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, fields, replace
from pathlib import Path

from titjudge.apps.label.dataset import Element, LabelingData, load_dataset
from titjudge.apps.label.elements import (
    DISCARD,
    OPEN,
    ElementOutcome,
    Mark,
    agreement_by_kind,
    check_values,
    decide,
    decide_elements,
    discarded_images,
    find_elements,
    marks_of,
    mean_ratings,
    read_known,
    read_marks,
    right_values,
    share_as_most_others,
    tally,
    why_discarded,
)
from titjudge.apps.label.questions import (
    ANNOTATOR,
    EXPERT,
    Export,
    ExportRules,
    FormBase,
    LabelAnswer,
    Labelling,
    Question,
    Settled,
    is_expert,
    median_seconds,
)
from titjudge.apps.label.queues import Queue, one_by_one, shuffled
from titjudge.core.declarations import Declaration, Population, Unit
from titjudge.core.errors import DataError, UserError, must_be
from titjudge.core.files import csv_text, jsonl_text
from titjudge.core.types import Json, Note, Table, Values
from titjudge.stats.people.votes import PANEL, Rule

MARKS = Declaration("element_marks", "marks of people", Population.VOTES, Unit.VOTE)

RATING = "rating"
_LONGEST_REASON = 2000  # characters, as on the page
_RATINGS = tuple(map(str, range(1, 11)))


class Elements(FormBase):
    """Asks for a value of each element of an image.

    Args:
        plan: The mode: yes-no, facets, graph or rating.
    """

    page = "elements"
    item = "images"

    @property
    def mode(self) -> str:
        """The kind of elements that people mark in an image."""
        return self.plan

    @property
    def is_rating(self) -> bool:
        """Whether values are numbers, which have a mean and no majority."""
        return self.plan == RATING

    # -- asking ----------------------------------------------------------------------------------------------------

    def load(self, data: Path, gold: Path | None = None) -> LabelingData:
        """Read the images, the elements to mark in them, and known values."""
        dataset = load_dataset(data, least=1)
        dataset.elements = find_elements(dataset, self.plan)
        if gold is not None:
            dataset.known_values = read_known(gold, dataset.elements)
        return dataset

    def check_answers(self, answers: Sequence[LabelAnswer], dataset: LabelingData, store: Path) -> None:
        """Refuse data with other elements than the marked ones."""
        for answer in answers:
            (image,) = answer.question.images
            elements = dataset.elements.get(image)
            if is_expert(answer.annotator) or elements is None or why_discarded(answer.text):
                continue
            if [name for name, _, _ in read_marks(answer.text)] != [element.name for element in elements]:
                raise DataError(
                    f"the elements of '{image}' have changed since the first marks in {store}. Use another store"
                )

    def queue(self, dataset: LabelingData, key: tuple[int, str], share: float | None, settled: Settled) -> Queue:
        """Make the queue of an annotator: images one by one, with known ones at random places."""
        return Queue(dataset, key, one_by_one(dataset.elements), share, settled, self.known_values)

    def sheet(self, question: Question, dataset: LabelingData, earlier_answer: LabelAnswer | None) -> Json:
        """Describe the elements, with the values of an earlier answer."""
        values = {name: value for name, _, value in read_marks(earlier_answer.text)} if earlier_answer else {}
        elements = dataset.elements[question.images[0]]
        place = {element.name: number for number, element in enumerate(elements)}
        rows = [
            {
                "kind": element.kind,
                "text": element.text,
                "hint": element.hint,
                "values": element.values,
                "needs": [place[name] for name in element.needs],
                "value": values.get(element.name),
            }
            for element in elements
        ]
        return {"elements": rows}

    def check(self, question: Question, dataset: LabelingData, answer: object) -> str:
        """Check the values of all elements of the image, in their order; or the reason for which it is discarded."""
        if isinstance(answer, dict) and answer.keys() == {DISCARD} and self.role == ANNOTATOR:
            reason = answer[DISCARD]
            if not isinstance(reason, str) or not reason.strip():
                raise DataError(must_be(f"'{DISCARD}'", "a reason", reason))
            return json.dumps({DISCARD: reason.strip()[:_LONGEST_REASON]}, ensure_ascii=False)
        return json.dumps(check_values(dataset.elements[question.images[0]], answer), ensure_ascii=False)

    # -- counting --------------------------------------------------------------------------------------------------

    def score(self, answer: LabelAnswer) -> float | None:
        """Return the share of the known elements of an image that are marked right; None if none is known."""
        values = self.known_values.get(answer.question.images[0])
        if not values:
            return None
        if why_discarded(answer.text):
            return 0.0
        marked = {name.strip().casefold(): value for name, _, value in read_marks(answer.text)}
        right = [marked[name] in right_values(value) for name, value in values.items() if name in marked]
        return sum(right) / len(right) if right else None

    def settled(self, answers: Sequence[LabelAnswer], enough: int) -> set[tuple[str, ...]]:
        """List the images of which each element has a majority, or all its marks; not images with known elements."""
        by_image: dict[str, list[LabelAnswer]] = defaultdict(list)
        for answer in answers:
            by_image[answer.question.images[0]].append(answer)
        return {
            (image,)
            for image, of_image in by_image.items()
            if image not in self.known_values and self._all_settled(of_image, enough)
        }

    def _all_settled(self, answers: Sequence[LabelAnswer], enough: int) -> bool:
        discards = sum(bool(why_discarded(answer.text)) for answer in answers)
        if 2 * discards > enough:
            return True
        votes = tally(marks_of(answers))
        return bool(votes) and all(self._is_settled(count, enough) for count in votes.values())

    def _is_settled(self, count: Counter[str], enough: int) -> bool:
        if self.is_rating:
            return count.total() >= enough
        return decide(count, enough)[0] != Rule.INCOMPLETE

    def early(self, enough: int) -> int:
        """Return how many marks every element gets: a majority. Ratings stop at a number that does not depend on their values."""
        return 0 if self.is_rating else enough // 2 + 1

    # -- deciding --------------------------------------------------------------------------------------------------

    def for_experts(self, labelling: Labelling, dataset: LabelingData, annotators: int | None) -> OpenElements:
        """Make the form that asks experts about the elements without a majority, or with an undecided majority.

        `dataset` keeps only these.
        """
        return OpenElements(labelling, dataset, annotators)

    def export(self, labelling: Labelling, rules: ExportRules) -> Export:
        """Make the majority value of each element, the agreement, and the file for `judges elements`."""
        self._check_export(labelling, rules)
        marks = marks_of(labelling.standing)
        counted = [mark for mark in marks if labelling.counts(mark.annotator)]
        discarded = discarded_images(labelling, rules.annotators)
        if not counted and not discarded:
            raise UserError("; ".join((f"{labelling.path}: no marks that count", *labelling.left_out)))
        kept = [mark for mark in counted if mark.image not in discarded]
        votes = tally(kept)
        agreement = agreement_by_kind(
            labelling.first(kept, lambda mark: mark.key[:2]), self.units, _RATINGS if self.is_rating else ()
        )
        people, people_table = self._annotators(labelling, votes)
        expected = rules.annotators or labelling.enough or PANEL
        result: Json = {"mode": self.plan, "marks": len(counted), "annotators_expected": expected}
        result["alpha"] = agreement
        declared = MARKS.over(len(counted))
        tables = [replace(self._agreement_table(agreement, labelling), declared=declared), people_table]
        files = {"marks.jsonl": jsonl_text(map(asdict, counted)), "marks.csv": _csv(Mark, counted)}
        if discarded:
            rows = ((image, count, of, "; ".join(reasons)) for image, (count, of, reasons) in discarded.items())
            files["discarded.csv"] = csv_text(("image", "votes", "of", "reasons"), rows)
            result["discarded"] = len(discarded)
            tables.append(Table("Discarded images", ("images",), ((len(discarded),),), declared=declared))
        decided = len(votes)
        if self.is_rating:
            files["ratings.csv"] = csv_text(*mean_ratings(votes))
        else:
            outcomes = decide_elements(labelling, rules.annotators)
            decided = sum(outcome.decided for outcome in outcomes)
            files["elements.csv"] = _csv(ElementOutcome, (outcome for outcome in outcomes if outcome.decided))
            files["open.csv"] = _csv(ElementOutcome, (outcome for outcome in outcomes if not outcome.decided))
            files["experts.csv"] = _csv(Mark, (mark for mark in marks if is_expert(mark.annotator)))
            result["rules"] = dict(Counter(outcome.rule for outcome in outcomes))
            numbers = (("elements", len(votes)), *result["rules"].items())
            tables.insert(
                0,
                Table(
                    "Elements",
                    ("what", "number"),
                    numbers,
                    (Note("majority", f"majority of at least {expected}"),),
                    declared=declared,
                ),
            )
        result |= {"annotator_details": people, "left_out": labelling.left_out}
        if self.is_rating:
            return Export(result, tables, files, "ratings.csv", "judges agreement RUN --human", decided)
        return Export(result, tables, files, "elements.csv", "judges elements RUN --human", decided)

    def _check_export(self, labelling: Labelling, rules: ExportRules) -> None:
        """Check what is asked of an export, and read known elements if it names a file."""
        if rules.experts is not None:
            raise UserError(
                f"{labelling.path}: --experts requires pairs, but this store has marks of mode {self.plan}. Remove it"
            )
        if not labelling.standing:
            raise UserError(f"{labelling.path}: no marks yet. Collect them with `label`")
        if rules.gold is not None:
            self.known_values = read_known(rules.gold)
            if not any(person.checks for person in labelling.people.values()):
                raise DataError(
                    "no one has marked an element of this file. Remove it, or ask for these images", rules.gold
                )

    def _agreement_table(self, agreement: Mapping[str, Values], labelling: Labelling) -> Table:
        rows = tuple(
            (kind, a["alpha"], *(a["interval"] or (None, None)), a["elements"], a["reason"])
            for kind, a in agreement.items()
        )
        note = Note("kind_of_alpha", "Krippendorff's alpha, " + ("interval" if self.is_rating else "nominal"))
        columns = ("kind", "alpha", "95% low", "95% high", "elements", "note")
        return Table(
            "Agreement",
            columns,
            rows,
            (note, *(() if self.is_rating else labelling.early_note("element"))),
            declared=MARKS,
        )

    def _annotators(
        self, labelling: Labelling, votes: Mapping[tuple[str, str, str], Counter[str]]
    ) -> tuple[list[Json], Table]:
        """Sum up each annotator: images, undos, seconds, share of marks as most others, and right attention checks."""

        def describe(answers: Sequence[LabelAnswer]) -> Json:
            standing = [answer for answer in answers if answer.stands]

            counted = labelling.counts(answers[0].annotator)
            return {
                "images": len(standing),
                "taken_back": sum(answer.taken_back for answer in answers),
                "median_seconds": median_seconds(standing),
                "as_most_others": share_as_most_others(marks_of(standing), votes, counted=counted),
            }

        columns = ("images", "taken back", "median seconds", "as most others")
        line = "as most others: share of marks that are what more than half of the others say"
        return labelling.annotator_table(describe, columns, Note("about_as_most_others", line))


def _csv(row: type[Mark] | type[ElementOutcome], rows: Iterable[Mark | ElementOutcome]) -> str:
    return csv_text([field.name for field in fields(row)], map(astuple, rows))


class OpenElements(Elements):
    """Asks experts about the elements that the annotators leave open.

    Raises:
        UserError: No element is open, or elements are rated.
    """

    role = EXPERT

    def __init__(self, labelling: Labelling, dataset: LabelingData, annotators: int | None) -> None:
        super().__init__(labelling.form.plan)
        if self.is_rating:
            raise UserError(
                f"{labelling.path}: ratings are averaged, so experts have nothing to decide. Use `label export`"
            )
        open_elements: dict[str, set[str]] = defaultdict(set)
        for outcome in decide_elements(labelling.without_experts(), annotators):
            if outcome.rule in OPEN:
                open_elements[outcome.image].add(outcome.element)
        self.check_answers(labelling.standing, dataset, labelling.path)
        present = open_elements.keys() & dataset.elements.keys()
        dataset.elements = {image: _parts(dataset.elements[image], open_elements[image]) for image in present}
        self.open = sum(map(len, dataset.elements.values()))
        if not self.open:
            rules = Counter(outcome.rule for outcome in decide_elements(labelling, annotators))
            raise labelling.nothing_open(rules, len(open_elements))
        counted = [answer for answer in labelling.standing if labelling.counts(answer.annotator)]
        self._votes = tally(marks_of(counted))
        self._reasons: dict[str, list[str]] = defaultdict(list)
        for answer in counted:
            if answer.note:
                self._reasons[answer.question.images[0]].append(answer.note)
        self._seed = labelling.seed

    def sheet(self, question: Question, dataset: LabelingData, earlier_answer: LabelAnswer | None) -> Json:
        """Describe the elements as annotators see them, with their marks and notes."""
        sheet, image = super().sheet(question, dataset, earlier_answer), question.images[0]
        for row, element in zip(sheet["elements"], dataset.elements[image], strict=True):
            votes = self._votes[image, element.name, element.kind]
            row["said"] = {value: votes[value] for value in element.values}
        return sheet | {"notes": shuffled(self._reasons[image], self._seed, image)}


def _parts(elements: Iterable[Element], names: set[str]) -> tuple[Element, ...]:
    """Keep the elements of these names, and of the elements they need only the ones among them."""
    return tuple(
        replace(element, needs=tuple(name for name in element.needs if name in names))
        for element in elements
        if element.name in names
    )
