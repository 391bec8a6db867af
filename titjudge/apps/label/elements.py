"""The elements to mark in one image: questions, facets, graph elements or pillars, with allowed and known values."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from titjudge.apps.label.dataset import Element, LabelingData, is_utf8
from titjudge.apps.label.questions import LabelAnswer, Labelling, is_expert
from titjudge.core import item_meta
from titjudge.core.errors import DataError, Unanswered, must_be, unknown
from titjudge.core.numbers import mean
from titjudge.core.score_parts import element_name, facet_name
from titjudge.core.types import Item
from titjudge.metrics.checklist import activated_facets, rubric
from titjudge.metrics.graph_alignment import graph_of
from titjudge.runs.study.human_study import mark_rows
from titjudge.stats.people.votes import PANEL, Rule, krippendorff_alpha

CANNOT_TELL = "cannot tell"
MAJORITY = "majority"
DISCARD = "discard"
SPLIT = "experts disagree"
OPEN = (Rule.NEEDS_EXPERTS, CANNOT_TELL)
ElementKey = tuple[str, str, str]  # image, element, kind
Tally = Mapping[ElementKey, Counter[str]]


@dataclass(frozen=True, slots=True)
class Mark:
    """The value that one annotator gave to one element."""

    image: str
    element: str
    value: str
    annotator: str
    kind: str
    note: str

    @property
    def key(self) -> ElementKey:
        return self.image, self.element, self.kind


@dataclass(frozen=True, slots=True)
class ElementOutcome:
    """The decision on one element: `votes` of `of` annotators gave `value`, which is None while it is open."""

    image: str
    element: str
    value: str | None
    kind: str
    rule: str
    votes: int | None
    of: int

    @property
    def decided(self) -> bool:
        return self.rule in (MAJORITY, Rule.EXPERTS)


def read_marks(text: str) -> list[tuple[str, str, str]]:
    """Read the marks of an image from the text of an answer: (element, kind, value) of every element; none if it is discarded."""
    content = json.loads(text)
    return [(name, kind, value) for name, kind, value in content] if isinstance(content, list) else []


def why_discarded(text: str) -> str:
    """Return the reason for which an annotator discards an image; empty if they mark it."""
    content = json.loads(text)
    return str(content[DISCARD]) if isinstance(content, dict) else ""


def discarded_images(labelling: Labelling, annotators: int | None = None) -> dict[str, tuple[int, int, list[str]]]:
    """Find the images that more than half of the annotators discard (LongT2IBench: NSFW or distorted ones).

    Args:
        labelling: The content of the store.
        annotators: How many annotators an image should have; None: as served, or three.

    Returns:
        By image: how many discard it, of how many, and their reasons.
    """
    people, reasons = Counter[str](), defaultdict[str, list[str]](list)
    for answer in labelling.standing:
        if labelling.counts(answer.annotator):
            (image,) = answer.question.images
            people[image] += 1
            if reason := why_discarded(answer.text):
                reasons[image].append(reason)
    expected = annotators or labelling.enough or PANEL
    return {
        image: (len(found), people[image], found)
        for image, found in reasons.items()
        if 2 * len(found) > max(expected, people[image])
    }


def marks_of(answers: Iterable[LabelAnswer]) -> list[Mark]:
    """List the marks in the order in which they were made."""
    return [
        Mark(answer.question.images[0], element, value, answer.annotator, kind, answer.note)
        for answer in answers
        for element, kind, value in read_marks(answer.text)
    ]


def tally(marks: Iterable[Mark]) -> dict[ElementKey, Counter[str]]:
    """Count the values of each element."""
    votes: dict[ElementKey, Counter[str]] = defaultdict(Counter)
    for mark in marks:
        votes[mark.key][mark.value] += 1
    return votes


def decide(
    votes: Counter[str], annotators: int = PANEL, experts: Counter[str] | None = None, panel: int = PANEL
) -> tuple[str, str | None]:
    """Decide one element: by the majority of the annotators or, if there is none or most are undecided, of the experts.

    Args:
        votes: How many annotators gave each value.
        annotators: Minimum number of annotators.
        experts: How many experts gave each value.
        panel: How many experts there should be.

    Returns:
        The rule, and the value; None while missing votes can change it, or if there is no majority.
    """
    value = _majority(votes, annotators)
    if value is not None and value != CANNOT_TELL:
        return MAJORITY, value
    if value is None and votes.total() < annotators:
        return Rule.INCOMPLETE.value, None
    undecided = (Rule.NEEDS_EXPERTS.value, None) if value is None else (CANNOT_TELL, CANNOT_TELL)
    if not experts:
        return undecided
    verdict = _majority(experts, panel)
    if verdict is not None:
        return (CANNOT_TELL if verdict == CANNOT_TELL else Rule.EXPERTS.value), verdict
    return (SPLIT, None) if experts.total() >= panel else undecided


def _majority(votes: Counter[str], people: int) -> str | None:
    value, most = max(votes.items(), key=lambda item: item[1])
    return value if 2 * most > max(people, votes.total()) else None


def decide_elements(labelling: Labelling, annotators: int | None = None) -> list[ElementOutcome]:
    """Decide each element that an annotator who counts has marked, in the order of the first mark; not of discarded images.

    Args:
        labelling: The content of the store.
        annotators: How many marks an element should have; None: as served, or three.
    """
    discarded = discarded_images(labelling, annotators)
    marks = [mark for mark in marks_of(labelling.standing) if mark.image not in discarded]
    votes = tally(mark for mark in marks if labelling.counts(mark.annotator))
    experts = tally(mark for mark in marks if is_expert(mark.annotator))
    outcomes = []
    for key, count in votes.items():
        panel, (image, element, kind) = experts.get(key), key
        rule, value = decide(count, annotators or labelling.enough or PANEL, panel, labelling.panel)
        deciding = panel if panel and rule == Rule.EXPERTS else count
        votes_for = deciding[value] if value else None
        outcomes.append(ElementOutcome(image, element, value, kind, rule, votes_for, deciding.total()))
    return outcomes


def agreement_by_kind(
    marks: Iterable[Mark], units: Mapping[str, str], scale: Iterable[str] = ()
) -> dict[str, dict[str, Any]]:
    """Compute Krippendorff's alpha over all elements, and over the elements of each kind.

    Args:
        marks: The marks of all people who count.
        units: Image -> its prompt, or the family of the prompt.
        scale: All values in order, if they are equally spaced numbers; otherwise alpha is nominal.
    """
    by_kind = {}
    cast: dict[ElementKey, dict[str, str]] = {}
    for mark in marks:
        cast.setdefault(mark.key, {})[mark.annotator] = mark.value
    for chosen in ("all", *dict.fromkeys(kind for _, _, kind in cast)):
        keys = [key for key in cast if chosen in ("all", key[2])]
        values = list(scale) or sorted({value for key in keys for value in cast[key].values()})
        alpha = krippendorff_alpha(
            [[list(cast[key].values()).count(value) for value in values] for key in keys],
            groups=[units.get(image, image) for image, _, _ in keys],
            cast=[{who: values.index(value) for who, value in cast[key].items()} for key in keys],
            interval_scale=bool(scale),
            noun="element",
        )
        by_kind[chosen] = {
            "alpha": alpha.alpha,
            "interval": list(alpha.interval) if alpha.interval else None,
            "elements": alpha.pairs,
            "reason": alpha.reason,
        }
    return by_kind


def mean_ratings(votes: Tally) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Compute the mean rating of each pillar by image, and their mean; returns the columns and a row for each image."""
    pillars = tuple(dict.fromkeys(element for _, element, _ in votes))
    means: dict[str, dict[str, float]] = defaultdict(dict)
    people: dict[str, int] = {}
    for (image, element, _), count in votes.items():
        means[image][element] = sum(int(value) * number for value, number in count.items()) / count.total()
        people[image] = count.total()
    rows = [
        (image, *(rated[pillar] for pillar in pillars), mean(rated.values()), people[image])
        for image, rated in means.items()
    ]
    return ("image", *pillars, "score", "annotators"), rows


def share_as_most_others(marks: Iterable[Mark], votes: Tally, *, counted: bool) -> float | None:
    """Compute the share of an annotator's marks that agree with more than half of the other annotators; None without any.

    Args:
        marks: The marks of the annotator.
        votes: The marks of all who count.
        counted: Whether the annotator is among them.
    """
    alike = []
    for mark in marks:
        others = votes.get(mark.key, Counter()) - Counter([mark.value] if counted else [])
        if others and 2 * max(others.values()) > others.total():
            alike.append(2 * others[mark.value] > others.total())
    return mean(alike)


LOCKED = "no"  # the value of an element that needs a missing one


def _questions(item: Item) -> Iterator[Element]:
    questions = item_meta.QUESTIONS.get(item)
    if not questions:
        raise DataError("the image has no questions. Add 'questions' to its row")
    if not isinstance(questions, list) or not all(isinstance(text, str) and text.strip() for text in questions):
        raise DataError(must_be("'questions'", "a list of texts that are not empty", questions))
    kind = str(item_meta.TYPE.get(item) or "question")
    for question in questions:
        yield Element(question, kind, ("yes", "no", CANNOT_TELL), question)


def _facets(item: Item) -> Iterator[Element]:
    for pillar, pairs in activated_facets(item).items():
        for sub, facet in pairs:
            hint = rubric()[pillar][sub][facet]
            yield Element(facet_name(pillar, sub, facet), pillar, ("0", "1", "2", "n/a"), f"{sub}: {facet}", hint)


def _graph(item: Item) -> Iterator[Element]:
    """Make an element of each entity, attribute and relation; the last two need their entities to be there."""
    graph = graph_of(item)
    if graph is None:
        raise DataError("the image has no graph with entities. Add 'graph' to its row")
    entities = {name.strip().casefold(): name for name in reversed(graph.entities)}
    for kind, elements in graph.elements.items():
        for words in elements:
            ends = {"entity": (), "attribute": words[:1], "relation": words[::2]}[kind]
            needs = tuple(
                dict.fromkeys(entities[end.strip().casefold()] for end in ends if end.strip().casefold() in entities)
            )
            text = ": ".join(words) if kind == "attribute" else " ".join(words)
            yield Element(element_name(words), kind, ("yes", "no"), text, needs=needs)


def _pillars(item: Item) -> Iterator[Element]:
    for pillar, subs in rubric().items():
        yield Element(pillar, pillar, tuple(map(str, range(1, 11))), pillar, ", ".join(subs))


MODES: dict[str, Callable[[Item], Iterator[Element]]] = {
    "yes-no": _questions,
    "facets": _facets,
    "graph": _graph,
    "rating": _pillars,
}


def elements_of(item: Item, mode: str) -> tuple[Element, ...]:
    """List the elements of an item, each name once.

    Raises:
        DataError: It has none, or they are malformed.
    """
    try:
        elements = list(MODES[mode](item))
    except Unanswered as error:
        raise DataError(error.reason) from error
    if not all(is_utf8(element.name + element.kind) for element in elements):
        raise DataError("an element of the image is not valid UTF-8. Correct its text")
    by_name: dict[str, Element] = {}
    for element in elements:
        by_name.setdefault(element.name.strip().casefold(), element)
    return tuple(by_name.values())


def find_elements(dataset: LabelingData, mode: str) -> dict[str, tuple[Element, ...]]:
    """List the elements of each image; images without any are left out, and added to `dataset.problems`.

    Raises:
        DataError: No image has anything to mark.
    """
    by_image = {}
    for images in dataset.images.values():
        for image in images:
            try:
                by_image[image] = elements_of(dataset.items[image], mode)
            except DataError as error:
                dataset.problems.append(f"{image}: {error.message}")
                dataset.broken[image] = error.message
    if not by_image:
        first = next(iter(dataset.broken.items()), None)
        raise DataError(
            f"no image has elements for mode {mode}. Choose another mode{', or correct the first: {}: {}'.format(*first) if first else ''}",
            dataset.root,
        )
    return by_image


def check_values(elements: Sequence[Element], values: object) -> list[tuple[str, str, str]]:
    """Check the values that an annotator gives to the elements, in their order; a locked element becomes `no`.

    Returns:
        (element, kind, value) of every element.

    Raises:
        DataError: An element that is not locked has no value, or a value that is not allowed.
    """
    if not isinstance(values, list) or len(values) != len(elements):
        raise DataError(must_be("'answer'", f"a list of {len(elements)} values", values))
    by_name = dict(zip((element.name for element in elements), values, strict=True))
    marks = []
    for element in elements:
        value = LOCKED if any(by_name.get(name) == LOCKED for name in element.needs) else by_name[element.name]
        if value not in element.values:
            raise DataError(must_be(f"'{element.text[:80]}'", f"one of {', '.join(element.values)}", value))
        marks.append((element.name, element.kind, str(value)))
    return marks


def right_values(known_value: str) -> set[str]:
    """List the right values: the known one or, for ratings, each of a range such as 7-9."""
    low, dash, high = (part.strip() for part in known_value.partition("-"))
    if dash and low.isdecimal() and high.isdecimal() and len(high) < 4:
        return {str(value) for value in range(int(low), int(high) + 1)}
    return {known_value}


def read_known(file: Path, elements: Mapping[str, Sequence[Element]] | None = None) -> dict[str, dict[str, str]]:
    """Read elements with a known value: rows of image, element, value (for ratings also a range).

    Args:
        file: CSV or JSON lines.
        elements: The elements of each image; if given, every row must name one of them.

    Raises:
        DataError: A column is missing, or an element has two values or is not in the data; names file and row.
    """
    by_image: dict[str, dict[str, str]] = defaultdict(dict)
    for number, record, image, key, value in mark_rows(file):
        if elements is not None:
            _check_known(elements, image, str(record["element"]), value, file, number)
        by_image[image][key] = value
    if not by_image:
        raise DataError("the file has no elements. Add rows with image, element and value", file)
    return dict(by_image)


def _check_known(
    elements: Mapping[str, Sequence[Element]], image: str, name: str, value: str, file: Path, line: int
) -> None:
    """Check that a known value belongs to an element of the data, and is one of its values.

    Raises:
        DataError: It does not.
    """
    if image not in elements:
        raise DataError(f"'{image}' is not in the data, or has no elements. Correct the name", file, line)
    values = {element.name.strip().casefold(): element.values for element in elements[image]}
    allowed_values = values.get(name.strip().casefold())
    if allowed_values is None:
        raise DataError(f"'{image}': {unknown('element', name, values)}", file, line)
    if not (right := right_values(value)) or not right <= set(allowed_values):
        raise DataError(must_be(f"'{name}'", f"one of {', '.join(allowed_values)}", value), file, line)
