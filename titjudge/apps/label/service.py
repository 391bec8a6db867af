"""Serve questions to all annotators of a labelling: tokens, blinded images, and answers that are on disk before the next question."""

from __future__ import annotations

import hashlib
import hmac
import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from titjudge.apps.label.dataset import LabelingData
from titjudge.apps.label.forms import Form
from titjudge.apps.label.questions import (
    ANNOTATOR,
    LEAST,
    Question,
    Reliability,
    is_expert,
    median_seconds,
    too_fast,
)
from titjudge.apps.label.queues import Queue
from titjudge.apps.label.store import MAX_ANNOTATORS, Store, name_of, names_of
from titjudge.core.errors import DataError, UserError
from titjudge.core.types import Json
from titjudge.web.http_guard import same

_log = logging.getLogger("titjudge.apps.label")
_MAX_DURATION = 24 * 3600 * 1000  # ms; a longer one is an error of the clock
_MAX_NOTE = 2000  # characters, as on the page


class Stale(Exception):
    """The answer belongs to a question that is no longer the current one: another tab, or a repeated request."""


@dataclass(frozen=True, slots=True)
class PersonProgress:
    """The progress of one annotator.

    Attributes:
        name: The annotator.
        done: Number of answers.
        left: The most questions that can follow.
        seconds: Median time for an answer, without pauses; None if it is unknown.
        too_fast: Number of answers that came before a person can have read the prompt and looked.
        last: When the last answer came, in Unix seconds; None before the first.
        stopped: Whether too many checks were wrong, so that nothing more is asked.
    """

    name: str
    done: int
    left: int
    seconds: float | None
    too_fast: int
    last: float | None
    stopped: bool


class Service:
    """Asks the questions of a form. Methods may be called from any thread; the view of an annotator follows from the store.

    Args:
        dataset: Prompts, images and checks.
        store: Keeps the answers.
        form: The form of the questions.
        annotators: How many people answer, or their names; None with `open_link`: anyone.
        open_link: Whether people type their names on a page that one link opens.
        seed: Seed of orders and sides.
        gold_share: Share of checks among the questions; None: about 1 in 12.
        gold_least: Stop asking an annotator whose share of right checks is certainly lower.
        votes: Stop asking about an item after this number of answers, or fewer if they decide it; 0: never.

    Raises:
        UserError: The number of annotators is wrong, the form cannot keep to the rules, or the store was begun otherwise.
        DataError: The questions have changed since the answers in the store.
    """

    def __init__(
        self,
        dataset: LabelingData,
        store: Store,
        form: Form,
        *,
        annotators: int | Sequence[str] | None,
        open_link: bool = False,
        seed: int,
        gold_share: float | None = None,
        gold_least: float = LEAST,
        votes: int = 0,
    ) -> None:
        form.check_rules(votes)
        names = names_of(MAX_ANNOTATORS if annotators is None else annotators, form.role)
        if open_link and not isinstance(annotators, int | None):
            raise UserError(
                "--open cannot be combined with names, because people type them. Give the maximum number of people"
            )
        if not 0 <= votes <= len(names):
            raise UserError(
                f"{votes} votes per item require {votes} annotators, but there are {len(names)}. Add annotators"
            )
        self.seats = len(names) if open_link else 0
        self.dataset, self.store, self.form = dataset, store, form
        self._enough, self._seed, self._share, self._least = votes, seed, gold_share, gold_least
        rules: dict[str, object] = {f"{form.role}s": 0 if annotators is None else len(names)}
        if form.role == ANNOTATOR:
            rules |= {"gold_least": gold_least, "votes": votes, **form.rules}
        store.begin(dataset, plan=form.plan, seed=seed, rules=rules)
        store.inform(form)
        if form.role == ANNOTATOR:
            form.check_answers(store.answers(), dataset, store.path)
        if open_link:
            store.add_voters()
        self.names = store.people() if open_link else names
        self._secret = store.secret()
        self._tokens = {self.token(name): name for name in self.names}
        self._images = {self._sign("image", image): image for image in dataset.items}
        self._codes = {image: code for code, image in self._images.items()}
        self._sources = {
            self._sign("source", prompt, str(number)): (prompt, number)
            for prompt, sources in dataset.sources.items()
            for number in range(len(sources))
        }
        self._source_codes: dict[str, list[str]] = {}
        for code, (prompt, _) in self._sources.items():
            self._source_codes.setdefault(prompt, []).append(code)
        self._on_screen: dict[str, tuple[str, float]] = {}
        self._stops: dict[str, tuple[int, bool]] = {}
        self._queues: dict[str, tuple[int, Queue]] = {}
        self._settled: dict[str, set[tuple[str, ...]]] = {}
        self._last_row, self._left_out = 0, set[str]()  # of `settled`: answers read, and annotators who did not count
        self._lock = threading.RLock()

    def _sign(self, *parts: str) -> str:
        text = "\x1f".join(parts).encode("utf-8", "surrogatepass")
        return hmac.new(self._secret, text, hashlib.sha256).hexdigest()[:32]

    # -- people and images -----------------------------------------------------------------------------------------

    def token(self, annotator: str) -> str:
        """Derive the token of an annotator, which stays the same after a restart."""
        return self._sign("annotator", annotator)

    @property
    def organiser_token(self) -> str:
        """The token of the person who watches the labelling; it stays the same after a restart."""
        return self._sign("organiser")

    @property
    def open_token(self) -> str:
        """The token of the link by which people come and type their names; it stays the same after a restart."""
        return self._sign("open link")

    def admit(self, name: str) -> bool:
        """Take in a person under a name; False if the name is taken.

        Raises:
            DataError: As many people have come as may.
        """
        with self._lock, self.store.writing():
            if self.store.person(name) is not None:
                return False
            if len(self.names) >= self.seats:
                raise DataError(f"all {self.seats} places are taken. Ask the sender of the link for one more")
            self.store.add_person(name)
            self.names.append(name)
            self._tokens[self.token(name)] = name
        return True

    def join(self, typed: str, key: str = "", *, sure: bool = False) -> Json:
        """Let a person in who has come by the open link and typed a name.

        Args:
            typed: The name as it was typed.
            key: The key that this browser has from before; empty if it has none.
            sure: Whether the person claims a taken name as theirs, from another browser.

        Returns:
            `name` and its `key`. If another browser has taken the name: `taken`, with the name and its progress.

        Raises:
            DataError: It cannot be a name, or as many people have come as may.
        """
        name = name_of(typed)
        if not self.admit(name):
            name = self.store.person(name) or name
            if not same(self.token(name), key):
                if not sure:
                    progress = self.progress_of(name)
                    return {"taken": {"name": name, "done": progress.done, "last": progress.last}}
                _log.warning("%s goes on in another browser", name)
        return {"name": name, "key": self.token(name)}

    def annotator(self, token: str) -> str | None:
        """Return the annotator with this token; None if it is unknown."""
        return self._tokens.get(token)

    def image(self, code: str) -> Path | None:
        """Return the file of the image or source with this code; None if it is unknown.

        Raises:
            DataError: The file is outside the data folder.
        """
        if code in self._sources:
            return self.dataset.source(*self._sources[code])
        image = self._images.get(code)
        return None if image is None else self.dataset.file(image)

    def drop(self, code: str, reason: str) -> None:
        """Ask no more questions about an image, or about the images of a source, because it cannot be shown."""
        with self._lock:
            prompt, _ = self._sources.get(code, ("", 0))
            for image in self.dataset.images.get(prompt, ()) if code in self._sources else (self._images[code],):
                self.dataset.broken.setdefault(image, reason)
            for _, queue in self._queues.values():
                queue.refresh()

    def stopped(self, annotator: str) -> bool:
        """Return True if an annotator has failed too many checks and is asked no more."""
        turn = self.store.turn(annotator)
        if self._stops.get(annotator, (-1,))[0] != turn:
            answers = self.store.answers(annotator) if self.form.gold or self.form.known_values else []
            people = self.form.reliability(answers, self._least)
            self._stops[annotator] = turn, people.get(annotator, Reliability()).stopped
        return self._stops[annotator][1]

    def counts(self, annotator: str) -> bool:
        """Return True if the answers of an annotator count: answers of experts and of stopped annotators do not."""
        return not is_expert(annotator) and not self.stopped(annotator)

    def settled(self, prompt_id: str) -> set[tuple[str, ...]]:
        """List the images of those questions about a prompt that need no more answers."""
        if not self._enough:
            return set()
        self._forget_changed()
        if prompt_id not in self._settled:
            answers = self.store.answers(prompt_id=prompt_id)
            counted = {name for name in {answer.annotator for answer in answers} if self.counts(name)}
            counting = [answer for answer in answers if answer.annotator in counted]
            self._settled[prompt_id] = self.form.settled(counting, self._enough)
        return self._settled[prompt_id]

    def _forget_changed(self) -> None:
        """Forget what is settled of prompts with new answers; of all prompts if it has changed whose answers count."""
        last, changed = self.store.prompts_after(self._last_row)
        if last == self._last_row:
            return
        self._last_row, left_out = last, {name for name in self.names if self.stopped(name)}
        for prompt in changed if left_out == self._left_out else list(self._settled):
            self._settled.pop(prompt, None)
        self._left_out = left_out

    # -- progress --------------------------------------------------------------------------------------------------

    def progress(self) -> list[PersonProgress]:
        """Return the progress of all annotators."""
        with self._lock:
            return [self.progress_of(name) for name in self.names]

    def progress_of(self, name: str) -> PersonProgress:
        """Return the progress of one annotator."""
        with self._lock:
            done, at_most = self._queue(name)[1].progress()
            answers, stopped = self.store.answers(name, ended=True), self.stopped(name)
        return PersonProgress(
            name,
            done,
            0 if stopped else at_most,
            seconds=median_seconds(answer for answer in answers if answer.stands),
            too_fast=too_fast(answers, self.dataset.prompts),
            last=max((answer.answered_at for answer in answers if answer.stands), default=None),
            stopped=stopped,
        )

    # -- questions and answers -------------------------------------------------------------------------------------

    def state(self, annotator: str) -> Json:
        """Describe the current question for the page: its sheet, the progress, and images to load ahead."""
        with self._lock:
            return self._state(annotator, *self._queue(annotator))

    def vote(
        self, annotator: str, question: str, answer: object, duration_ms: object = None, note: object = None
    ) -> Json:
        """Write an answer to disk and return the next state.

        Args:
            annotator: The annotator.
            question: Id of the question, from the state.
            answer: The answer, as the form checks it.
            duration_ms: How long the question was in view.
            note: The reason, in the annotator's words.

        Raises:
            DataError: The answer is not allowed.
            Stale: `question` is not the current one.
        """
        with self._lock:
            with self.store.writing():
                turn, queue = self._queue(annotator)
                current = self._current(annotator, turn, queue, question)
                if current is None or self.stopped(annotator):
                    raise Stale
                text = self.form.check(current, self.dataset, answer)
                self.store.add(
                    annotator,
                    current,
                    text,
                    note=str(note or "").strip()[:_MAX_NOTE],
                    shown_at=self._shown_at(annotator, question),
                    duration_ms=milliseconds(duration_ms),
                )
            queue.take(current, text)
            self._queues[annotator] = turn + 1, queue
            return self._state(annotator, turn + 1, queue)

    def undo(self, annotator: str, question: str) -> Json:
        """Take back the last answer and return the state with its question.

        Args:
            annotator: Whose answer.
            question: Id of the current question, from the state.

        Raises:
            Stale: `question` is not the current one.
        """
        with self._lock:
            with self.store.writing():
                turn, queue = self._queue(annotator)
                if not same(self._id(annotator, turn, queue.question()), question) or self.stopped(annotator):
                    raise Stale
                undone = self.store.undo(annotator)
            if undone is not None:
                queue.give_back(undone.question)
                self._queues[annotator] = turn + 1, queue
            return self.state(annotator)

    def _queue(self, annotator: str) -> tuple[int, Queue]:
        """Return the number of answers and undos of an annotator, and the queue after them."""
        turn = self.store.turn(annotator)
        cached = self._queues.get(annotator)
        if cached is None or cached[0] != turn:  # the first time, or another process has written
            queue = self.form.queue(self.dataset, (self._seed, annotator), self._share, self.settled)
            for answer in self.store.answers(annotator):
                queue.take(answer.question, answer.text)
            cached = self._queues[annotator] = turn, queue
        return cached

    def _current(self, annotator: str, turn: int, queue: Queue, name: str) -> Question | None:
        """Find the question that has this id: the current one, or one that others settled while it was on screen."""
        candidates = [queue.question(), *(queue.settled_questions() if self._enough else ())]
        return next((q for q in candidates if q and same(self._id(annotator, turn, q), name)), None)

    def _id(self, annotator: str, turn: int, question: Question | None) -> str:
        parts = ("done",) if question is None else (question.kind, *question.images)
        return f"{turn}-{self._sign('question', annotator, str(turn), *parts)[:16]}"

    def _shown_at(self, annotator: str, question: str) -> float | None:
        on_screen = self._on_screen.get(annotator)
        return on_screen[1] if on_screen and on_screen[0] == question else None

    def _state(self, annotator: str, turn: int, queue: Queue) -> Json:
        """Describe the current question for the page, after `turn` answers and undos."""
        stopped = self.stopped(annotator)
        question = None if stopped else queue.question()
        name = self._id(annotator, turn, question)
        done, at_most = queue.progress()
        if question is not None and self._on_screen.get(annotator, ("",))[0] != name:
            self._on_screen[annotator] = name, time.time()
        return {
            "annotator": annotator,
            "question": name,
            "mode": self.form.mode,
            "expert": self.form.role != ANNOTATOR,
            "done": done,
            "at_most": 0 if stopped else at_most,
            "stopped": stopped,
            "sheet": None if question is None else self._sheet(annotator, question),
            "upcoming": [] if question is None else [self._codes[image] for image in queue.upcoming(question)],
        }

    def _sheet(self, annotator: str, question: Question) -> Json:
        """Describe a question, with the annotator's answer before an undo."""
        earlier_answer = self.store.last(annotator, question)
        return {
            "prompt": self.dataset.prompts[question.prompt_id],
            "images": [self._codes[image] for image in question.images],
            "sources": self._source_codes.get(question.prompt_id, []),
            "note": earlier_answer.note if earlier_answer else "",
            **self.form.sheet(question, self.dataset, earlier_answer),
        }


def milliseconds(value: object) -> int | None:
    """Read a duration that a page sends; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_DURATION:
        return None
    return round(value)
