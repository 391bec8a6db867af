"""All annotators who mark single images: what each sees, and their marks on disk before the next image."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from titjudge.core.errors import DataError
from titjudge.stats.votes import Rule
from titjudge.web.label.collected import RATING, decide, marks_of, tally
from titjudge.web.label.dataset import LabelingData
from titjudge.web.label.elements import Element, settle
from titjudge.web.label.question_order import due, shuffled
from titjudge.web.label.reliability import Reliability, of_marks
from titjudge.web.label.service import AnnotationService, Stale, milliseconds, same, text_of
from titjudge.web.label.store import Store, Submission, is_expert, standing

_AHEAD = 3


class ElementService(AnnotationService):
    """Takes marks. Methods may be called from any thread; what an annotator sees depends on the store alone.

    Prompts come in a random order, and so do the images of a prompt, one after the other: a long text is read once.

    Raises:
        UserError: the number of annotators is wrong, or the store was begun otherwise.
        DataError: an image that has marks has other elements now.
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
        self._read, self._out = 0, set[str]()
        for row in store.submissions():
            known = elements.get(row.image)
            if is_expert(row.annotator) or not row.marks or known is None:
                continue
            if [mark[0] for mark in row.marks] != [each.name for each in known]:
                raise DataError(
                    f"the elements of '{row.image}' have changed since the marks of {store.path} began: use another store"
                )

    def _order(self, annotator: str) -> list[str]:
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
        rows = standing(self.store.submissions(annotator)).values() if self._known else ()
        return of_marks(rows, self._known, self._least).get(annotator, Reliability(0, 0, 0))

    def settled(self) -> set[str]:
        """List the images with so many marks that they are asked no more: each element has a majority, or all its marks.

        Images with known elements are asked of everybody.
        """
        if not self._enough:
            return set()
        sent = self.store.sent_after(self._read)
        out = {who for who in self.names if self.stopped(who)}
        changed = {image for _, image in sent} if out == self._out else set(self._elements)
        self._read, self._out = (sent[-1][0] if sent else self._read), out
        for image in changed - self._known.keys():
            rows = (row for row in self.store.submissions(image=image) if self.counts(row.annotator))
            votes = tally(marks_of(rows)).values()
            enough = bool(votes) and all(self._is_enough(count) for count in votes)
            (self._settled.add if enough else self._settled.discard)(image)
        return self._settled

    def _is_enough(self, count: Counter[str]) -> bool:
        if self._mode == RATING:  # a mean has no majority
            return count.total() >= self._enough
        return decide(count, self._enough)[0] != Rule.INCOMPLETE

    def state(self, annotator: str) -> dict[str, Any]:
        """Say what the page shows: image, prompt, elements, what was taken back of them, progress, images to load ahead."""
        with self._lock:
            rows = self.store.submissions(annotator)
            stopped = self.stopped(annotator)
            left = [] if stopped else self._left(annotator, rows)
            question = self._name(annotator, len(rows), tuple(left[:1]))
            state: dict[str, Any] = {
                "annotator": annotator,
                "question": question,
                "mode": self._mode,
                "done": len(standing(rows)),
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
        done = standing(rows).keys() | self.settled()
        return [image for image in self._order(annotator) if image not in done]

    def _sheet(self, image: str, rows: Sequence[Submission]) -> dict[str, Any]:
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
        """Put the values of all elements of an image, in their order, on disk and return the next state.

        Raises:
            DataError: a value is missing or not allowed.
            Stale: `question` is not the current one.
        """
        with self._lock:
            with self.store.writing():
                rows = self.store.submissions(annotator)
                left = self._left(annotator, rows)
                asked = [*left[:1], *self.settled()]  # settled while it was looked at: it counts
                image = next((one for one in asked if same(self._name(annotator, len(rows), (one,)), question)), "")
                if image not in self._elements or image in standing(rows) or self.stopped(annotator):
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
        """Take back the marks of the last image and return to it.

        Raises:
            Stale: `question` is not the current one.
        """
        with self._lock:
            with self.store.writing():
                rows = self.store.submissions(annotator)
                left = self._left(annotator, rows)
                if not same(self._name(annotator, len(rows), tuple(left[:1])), question) or self.stopped(annotator):
                    raise Stale
                last = max(standing(rows).values(), key=lambda row: row.turn, default=None)
                if last is not None:
                    self.store.submit(annotator, last.image, None)
            return self.state(annotator)
