"""Serve questions to all annotators of a labelling: tokens, blinded images, and votes that are on disk before the next one."""

from __future__ import annotations

import hashlib
import hmac
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from titjudge.apps.label.aggregate import casts
from titjudge.apps.label.annotator import AnnotatorQueue, Question
from titjudge.apps.label.dataset import LabelingData
from titjudge.apps.label.question_order import plan_of
from titjudge.apps.label.reliability import LEAST, Reliability, of_votes
from titjudge.apps.label.store import ANNOTATOR, ANSWERS, Store, is_expert
from titjudge.core.errors import DataError, UserError
from titjudge.stats.people.votes import BOTH_BAD, Rule, decide
from titjudge.web.http_guard import same

MAX_ANNOTATORS = 1000
_MAX_DURATION = 24 * 3600 * 1000  # ms; a longer one is an error of the clock
_MAX_NOTE = 2000  # characters, as on the page


class Stale(Exception):
    """The answer belongs to a question that is no longer the current one: another tab, or a repeated request."""


class AnnotationService:
    """What all modes share: personal links, codes instead of image names, and question ids.

    Methods may be called from any thread; what an annotator sees depends only on the store.

    Args:
        material: Prompts, images and checks.
        store: Where answers go.
        annotators: How many people answer.
        plan: Plan of the pairs, or mode of the marks.
        seed: Seed of orders and sides.
        gold_share: Share of checks among the questions; None: about 1 in 12.
        gold_least: Stop asking an annotator whose share of right checks is certainly lower.
        votes: Stop asking about an item after so many answers, or once fewer settle it; 0: never.
        both_bad: Whether "both bad" is an answer on a pair, beside left, right and tie (the three of A.11 of the TIT paper).

    Raises:
        UserError: The number of annotators is wrong, or the store was begun otherwise.
    """

    page = "label"
    role = ANNOTATOR

    def __init__(
        self,
        material: LabelingData,
        store: Store,
        *,
        annotators: int,
        plan: str,
        seed: int,
        gold_share: float | None = None,
        gold_least: float = LEAST,
        votes: int = 0,
        both_bad: bool = True,
    ) -> None:
        if not 1 <= annotators <= MAX_ANNOTATORS:
            raise UserError(f"the number of {self.role}s is between 1 and {MAX_ANNOTATORS}, not {annotators}")
        self.material, self.store = material, store
        if not 0 <= votes <= annotators:
            raise UserError(f"{votes} votes for each item need at least as many annotators, and these are {annotators}")
        self._enough = votes
        self._seed, self._share, self._least = seed, gold_share, gold_least
        rules: dict[str, object] = {f"{self.role}s": annotators}
        if self.role == ANNOTATOR:
            rules |= {"gold_least": gold_least, "votes": votes, "both_bad": both_bad}
        store.begin(material, plan=plan, seed=seed, rules=rules)
        self._secret = store.secret()
        self.names = [f"{self.role}-{number:02d}" for number in range(1, annotators + 1)]
        self._tokens = {self.token(name): name for name in self.names}
        self._images = {self._sign("image", image): image for image in material.items}
        self._codes = {image: code for code, image in self._images.items()}
        self._shown: dict[str, tuple[str, float]] = {}
        self._stops: dict[str, tuple[int, bool]] = {}
        self._lock = threading.RLock()

    def _sign(self, *parts: str) -> str:
        text = "\x1f".join(parts).encode("utf-8", "surrogatepass")
        return hmac.new(self._secret, text, hashlib.sha256).hexdigest()[:32]

    def token(self, annotator: str) -> str:
        """Derive the token of an annotator, which stays the same after a restart."""
        return self._sign("annotator", annotator)

    def annotator(self, token: str) -> str | None:
        """Return the annotator with this token; None if it is unknown."""
        return self._tokens.get(token)

    def image(self, code: str) -> Path | None:
        """Return the file of the image with this code; None if it is unknown.

        Raises:
            DataError: The file is outside the data folder.
        """
        image = self._images.get(code)
        return None if image is None else self.material.file(image)

    def drop(self, code: str, reason: str) -> None:
        """Ask no more questions about an image, because it cannot be shown."""
        with self._lock:
            self.material.broken.setdefault(self._images[code], reason)
            self._dropped()

    def _dropped(self) -> None:
        """React to a dropped image."""

    def stopped(self, annotator: str) -> bool:
        """Tell whether an annotator has failed too many checks and is asked no more."""
        turn = self._turn(annotator)
        if self._stops.get(annotator, (-1,))[0] != turn:
            self._stops[annotator] = turn, self._reliability(annotator).stopped
        return self._stops[annotator][1]

    def _turn(self, annotator: str) -> int:
        """Count the answers and undos of an annotator."""
        raise NotImplementedError

    def _reliability(self, annotator: str) -> Reliability:
        raise NotImplementedError

    def counts(self, annotator: str) -> bool:
        """Tell whether the answers of an annotator count: those of experts and of stopped annotators do not."""
        return not is_expert(annotator) and not self.stopped(annotator)

    def state(self, annotator: str) -> dict[str, Any]:
        """Describe the current question for the page."""
        raise NotImplementedError

    def vote(
        self, annotator: str, question: str, answer: Any, duration_ms: object = None, note: object = None
    ) -> dict[str, Any]:
        """Write an answer to disk and return the next state.

        Args:
            annotator: Who answers.
            question: Id of the question, from the state.
            answer: The answer; its form depends on the mode.
            duration_ms: How long the question was in view.
            note: The reason, in the annotator's words.

        Raises:
            DataError: The answer is not allowed.
            Stale: `question` is not the current one.
        """
        raise NotImplementedError

    def undo(self, annotator: str, question: str) -> dict[str, Any]:
        """Take back the last answer and return the state with its question.

        Args:
            annotator: Whose answer.
            question: Id of the current question, from the state.

        Raises:
            Stale: `question` is not the current one.
        """
        raise NotImplementedError

    def _name(self, annotator: str, turn: int, asked: tuple[str, ...] | None) -> str:
        """Make the id of a question."""
        return f"{turn}-{self._sign('question', annotator, str(turn), *(asked or ('done',)))[:16]}"

    def _show(self, annotator: str, question: str) -> None:
        """Remember when a question was first shown."""
        if self._shown.get(annotator, ("",))[0] != question:
            self._shown[annotator] = (question, time.time())

    def _shown_at(self, annotator: str, question: str) -> float | None:
        shown = self._shown.get(annotator)
        return shown[1] if shown and shown[0] == question else None


class LabelingService(AnnotationService):
    """Asks which of two images follows their prompt better.

    Raises:
        UserError: The number of annotators or the plan is wrong, or the store was begun otherwise.
    """

    def __init__(self, material: LabelingData, store: Store, *, plan: str, **rules: Any) -> None:
        self._plan = plan_of(plan)
        if rules.get("votes") and plan != "all":
            raise UserError(
                "merge sort needs the answers of each person: to stop at enough votes, ask all pairs (--plan all)"
            )
        super().__init__(material, store, plan=plan, **rules)
        offered = store.setting("both_bad") != str(False)
        self._answers = tuple(answer for answer in ANSWERS if offered or answer != BOTH_BAD)
        self._gold, self._described = store.gold(), store.images()
        self._queues: dict[str, tuple[int, AnnotatorQueue]] = {}
        self._settled: dict[str, tuple[tuple[int, int], set[tuple[str, str]]]] = {}

    def _dropped(self) -> None:
        for _, queue in self._queues.values():
            queue.refresh()

    def _turn(self, annotator: str) -> int:
        return self.store.turn(annotator)

    def _reliability(self, annotator: str) -> Reliability:
        votes = self.store.votes(annotator) if self._gold else []
        return of_votes(votes, self._gold, self._least).get(annotator, Reliability(0, 0, 0))

    def settled(self, prompt_id: str) -> set[tuple[str, str]]:
        """List the pairs of a prompt that need no more votes: the rules of A.11 have decided them, or they have all votes."""
        if not self._enough:
            return set()
        version = self.store.version()
        cached = self._settled.get(prompt_id)
        if cached is None or cached[0] != version:
            cached = self._settled[prompt_id] = version, self._find_settled(prompt_id)
        return cached[1]

    def _find_settled(self, prompt_id: str) -> set[tuple[str, str]]:
        votes = self.store.votes(prompt_id=prompt_id)
        counted = {who for who in {vote.annotator for vote in votes} if self.counts(who)}
        table: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for cast in casts((vote for vote in votes if vote.annotator in counted), self._described, sorting=False):
            table[cast.choice.a, cast.choice.b][cast.choice.choice] += 1
        return {
            pair for pair, count in table.items() if decide(count, Counter(), self._enough)[0] is not Rule.INCOMPLETE
        }

    def state(self, annotator: str) -> dict[str, Any]:
        """Describe the question (prompt, codes of two images), the progress, and images to load ahead."""
        with self._lock:
            turn, queue = self._queue(annotator)
            return self._state(annotator, turn, queue)

    def vote(
        self, annotator: str, question: str, answer: Any, duration_ms: object = None, note: object = None
    ) -> dict[str, Any]:
        """Write an answer (left, right, tie, and both_bad where it is one) to disk and return the next state."""
        if answer not in self._answers:
            raise DataError(f"the answer is one of {', '.join(self._answers)}")
        with self._lock:
            with self.store.writing():
                turn, queue = self._queue(annotator)
                asked = queue.question()
                if not self._is_current(annotator, turn, asked, question):
                    # a pair that was settled while it was on screen still counts
                    settled = queue.settled_questions() if self._enough else ()
                    asked = next((one for one in settled if self._is_current(annotator, turn, one, question)), None)
                if asked is None or self.stopped(annotator):
                    raise Stale
                vote = self.store.add(
                    annotator,
                    asked.kind,
                    asked.prompt_id,
                    asked.left,
                    asked.right,
                    answer,
                    shown_at=self._shown_at(annotator, question),
                    duration_ms=milliseconds(duration_ms),
                    note=text_of(note),
                )
            queue.take(vote, vote.outcome)
            self._queues[annotator] = (turn + 1, queue)
            return self._state(annotator, turn + 1, queue)

    def undo(self, annotator: str, question: str) -> dict[str, Any]:
        """Take back the last vote and return the state with its question."""
        with self._lock:
            with self.store.writing():
                turn, queue = self._queue(annotator)
                if not self._is_current(annotator, turn, queue.question(), question) or self.stopped(annotator):
                    raise Stale
                vote = self.store.undo(annotator)
            if vote is not None:
                queue.give_back(vote)
                self._queues[annotator] = (turn + 1, queue)
            state = self.state(annotator)
            if vote is not None and state["pair"] and self._codes.get(vote.left) == state["pair"]["left"]:
                state["pair"]["note"] = vote.note
            return state

    def _queue(self, annotator: str) -> tuple[int, AnnotatorQueue]:
        turn = self.store.turn(annotator)
        cached = self._queues.get(annotator)
        if cached is None or cached[0] != turn:  # the first time, or another process has written
            queue = AnnotatorQueue(annotator, self.material, self._plan, self._seed, self._share, self.settled)
            for vote in self.store.votes(annotator):
                queue.take(vote, vote.outcome)
            cached = self._queues[annotator] = (turn, queue)
        return cached

    def _is_current(self, annotator: str, turn: int, question: Question | None, claimed: str) -> bool:
        return same(self._id(annotator, turn, question), claimed)

    def _id(self, annotator: str, turn: int, question: Question | None) -> str:
        return self._name(annotator, turn, None if question is None else (question.kind, question.left, question.right))

    def _state(self, annotator: str, turn: int, queue: AnnotatorQueue) -> dict[str, Any]:
        stopped = self.stopped(annotator)
        question = None if stopped else queue.question()
        name = self._id(annotator, turn, question)
        progress = queue.progress()
        state: dict[str, Any] = {
            "annotator": annotator,
            "question": name,
            "done": progress.done,
            "at_most": 0 if stopped else progress.at_most,
            "stopped": stopped,
            "prompts_done": progress.prompts_done,
            "prompts": progress.prompts,
            "answers": self._answers,
            "pair": None,
            "upcoming": [],
        }
        if question is not None:
            self._show(annotator, name)
            state["pair"] = {
                "prompt": self.material.prompts[question.prompt_id],
                "left": self._codes[question.left],
                "right": self._codes[question.right],
                "note": "",
            }
            state["upcoming"] = [self._codes[image] for image in queue.upcoming(question)]
        return state


def milliseconds(value: object) -> int | None:
    """Read a duration that a page sends; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_DURATION:
        return None
    return round(value)


def text_of(note: object) -> str:
    """Read the reason that an annotator gives, cut to the length that the page allows."""
    return str(note or "").strip()[:_MAX_NOTE]
