"""Serve single images to all annotators, who mark their elements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from titjudge.apps.label.collected import RATING, decide, marks_of, tally
from titjudge.apps.label.dataset import LabelingData
from titjudge.apps.label.elements import Element, settle
from titjudge.apps.label.question_order import due, shuffled
from titjudge.apps.label.reliability import Reliability, of_marks
from titjudge.apps.label.service import AnnotationService, Stale, milliseconds, text_of
from titjudge.apps.label.store import Store, Submission, current_submissions, is_expert
from titjudge.core.errors import DataError
from titjudge.stats.people.votes import Rule
from titjudge.web.http_guard import same

_AHEAD = 3  # images that the page loads ahead


class ElementService(AnnotationService):
    """Asks for a value of each element of an image.

    Prompts come in random order, and the images of a prompt come together, so that a long text is read once.

    Raises:
        UserError: The number of annotators is wrong, or the store was begun otherwise.
        DataError: The elements of an image that has marks have changed.
    """

    page = "elements"

    def __init__(
        self,
        material: LabelingData,
        store: Store,
        elements: Mapping[str, Sequence[Element]],
        *,
        mode: str,
        **rules: Any,
    ) -> None:
        super().__init__(material, store, plan=mode, **rules)
        self._elements, self._mode = elements, mode
        self._known = store.known()
        self._settled: set[str] = set()
        self._last_id, self._stopped = 0, set[str]()  # of `settled`: submissions read, and annotators left out
        for row in store.submissions():
            known = elements.get(row.image)
            if is_expert(row.annotator) or not row.marks or known is None:
                continue
            if [mark[0] for mark in row.marks] != [element.name for element in known]:
                raise DataError(
                    f"the elements of '{row.image}' have changed since the marks of {store.path} began: use another store"
                )

    def _order(self, annotator: str) -> list[str]:
        """List the images in the order of an annotator, with checks at random places."""
        key = (self._seed, annotator)
        groups = shuffled(self.material.images, *key, "prompts")
        images = [image for group in groups for image in shuffled(self.material.images[group], *key, group)]
        images = [image for image in images if image in self._elements]
        checks = shuffled((image for image in images if image in self._known), *key, "gold")
        ordinary = [image for image in images if image not in self._known]
        places = [(place, 1, image) for place, image in enumerate(ordinary)]
        places += [
            (at, 0, image) for at, image in zip(due(len(checks), len(ordinary), self._share, *key), checks, strict=True)
        ]
        return [image for *_, image in sorted(places) if image not in self.material.broken]

    def _turn(self, annotator: str) -> int:
        return self.store.sent(annotator)

    def _reliability(self, annotator: str) -> Reliability:
        rows = current_submissions(self.store.submissions(annotator)) if self._known else ()
        return of_marks(rows, self._known, self._least).get(annotator, Reliability(0, 0, 0))

    def settled(self) -> set[str]:
        """List the images that need no more marks: each element has a majority, or all its marks.

        Images with known elements are checks and are shown to everybody.
        """
        if not self._enough:
            return set()
        sent = self.store.sent_after(self._last_id)
        stopped = {name for name in self.names if self.stopped(name)}
        changed = {image for _, image in sent} if stopped == self._stopped else set(self._elements)
        self._last_id, self._stopped = (sent[-1][0] if sent else self._last_id), stopped
        for image in changed - self._known.keys():
            rows = (row for row in self.store.submissions(image=image) if self.counts(row.annotator))
            votes = tally(marks_of(rows)).values()
            enough = bool(votes) and all(self._is_enough(count) for count in votes)
            (self._settled.add if enough else self._settled.discard)(image)
        return self._settled

    def _is_enough(self, count: Counter[str]) -> bool:
        if self._mode == RATING:  # ratings have a mean, and no majority
            return count.total() >= self._enough
        return decide(count, self._enough)[0] != Rule.INCOMPLETE

    def state(self, annotator: str) -> dict[str, Any]:
        """Describe the image with its prompt, elements and values to correct, the progress, and images to load ahead."""
        with self._lock:
            rows = self.store.submissions(annotator)
            stopped = self.stopped(annotator)
            left = [] if stopped else self._left(annotator, rows)
            question = self._name(annotator, len(rows), tuple(left[:1]))
            state: dict[str, Any] = {
                "annotator": annotator,
                "question": question,
                "mode": self._mode,
                "done": len(current_submissions(rows)),
                "at_most": len(left),
                "stopped": stopped,
                "sheet": None,
                "upcoming": [self._codes[image] for image in left[1 : 1 + _AHEAD]],
            }
            if left:
                self._show(annotator, question)
                state["sheet"] = self._sheet(left[0], rows)
            return state

    def _left(self, annotator: str, rows: Sequence[Submission]) -> list[str]:
        """List the images that an annotator still has to mark."""
        done = {row.image for row in current_submissions(rows)} | self.settled()
        return [image for image in self._order(annotator) if image not in done]

    def _sheet(self, image: str, rows: Sequence[Submission]) -> dict[str, Any]:
        """Describe an image and its elements, with the values that the annotator gave before an undo."""
        before = next((row for row in reversed(rows) if row.image == image and row.marks), None)
        values = {name: value for name, _, value in (before.marks or ())} if before else {}
        place = {element.name: number for number, element in enumerate(self._elements[image])}
        return {
            "prompt": self.material.items[image].prompt,
            "image": self._codes[image],
            "note": before.note if before else "",
            "elements": [
                {
                    "kind": element.kind,
                    "text": element.text,
                    "hint": element.hint,
                    "values": element.values,
                    "needs": [place[name] for name in element.needs],
                    "value": values.get(element.name),
                }
                for element in self._elements[image]
            ],
        }

    def vote(
        self, annotator: str, question: str, answer: Any, duration_ms: object = None, note: object = None
    ) -> dict[str, Any]:
        """Write the values of all elements of an image, in their order, to disk and return the next state."""
        with self._lock:
            with self.store.writing():
                rows = self.store.submissions(annotator)
                left = self._left(annotator, rows)[:1]
                done = {row.image for row in current_submissions(rows)}
                asked = [*left, *(self.settled() - done)]  # one that was settled while it was on screen still counts
                image = next((one for one in asked if same(self._name(annotator, len(rows), (one,)), question)), "")
                if image not in self._elements or self.stopped(annotator):
                    raise Stale
                elements = self._elements[image]
                values = settle(elements, answer)
                self.store.submit(
                    annotator,
                    image,
                    [(element.name, element.kind, values[element.name]) for element in elements],
                    note=text_of(note),
                    shown_at=self._shown_at(annotator, question),
                    duration_ms=milliseconds(duration_ms),
                )
            return self.state(annotator)

    def undo(self, annotator: str, question: str) -> dict[str, Any]:
        """Take back the marks of the last image and return the state with it."""
        with self._lock:
            with self.store.writing():
                rows = self.store.submissions(annotator)
                left = self._left(annotator, rows)
                if not same(self._name(annotator, len(rows), tuple(left[:1])), question) or self.stopped(annotator):
                    raise Stale
                if marked := current_submissions(rows):
                    self.store.submit(annotator, marked[-1].image, None)
            return self.state(annotator)
