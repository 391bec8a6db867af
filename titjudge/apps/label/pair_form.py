"""The form of questions in which people choose which of two images follows its prompt better."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, fields, replace
from pathlib import Path

from titjudge.apps.label.dataset import LabelingData, load_dataset
from titjudge.apps.label.questions import (
    EXPERT,
    GOLD,
    PAIR,
    Export,
    ExportRules,
    FormBase,
    LabelAnswer,
    Labelling,
    Question,
    Settled,
    is_expert,
    median_seconds,
    outcome_of,
)
from titjudge.apps.label.queues import Plan, Queue, listed, plan_of, shuffled
from titjudge.apps.label.votes import (
    ANSWERS,
    Images,
    Ranked,
    decide_pairs,
    leaderboard,
    on_pairs,
    ranks,
    settled_pairs,
)
from titjudge.core.errors import DataError, UserError, must_be
from titjudge.core.files import csv_text, jsonl_text, read_jsonl
from titjudge.core.item_meta import CLUSTER
from titjudge.core.numbers import mean
from titjudge.core.types import Json, Note, Table
from titjudge.stats.people.votes import BOTH_BAD, CHOICES, PANEL, Rule, Vote, VoteOutcome
from titjudge.suites.pair_files import VOTE_COLUMNS

PAIRS = "pairs"
_DECIDED = tuple("prompt_id image_a image_b preference source votes_a votes_b votes_tie votes_bad implied".split())
_SIDES = {"a": "left", "b": "right"}
_CHOICES = {"left": "a", "right": "b"}
_WINNERS = {"left": "model_a", "right": "model_b", "tie": "tie", BOTH_BAD: "tie (bothbad)"}
PairKey = tuple[str, str, str]


class Pairs(FormBase):
    """Asks which of two images follows their prompt better.

    Args:
        plan: Which pairs of a prompt are asked: `all`, or `merge` (merge sort).
        both_bad: Whether "both bad" is an answer, beside left, right and tie (the three of A.11 of the TIT paper).

    Raises:
        UserError: There is no such plan.
    """

    page = "pairs"
    item = "votes"
    mode = PAIRS

    def __init__(self, plan: str = "all", *, both_bad: bool = True) -> None:
        super().__init__(plan)
        self.both_bad, self.rules = both_bad, {"both_bad": both_bad}
        self._plan: Plan = plan_of(plan)

    # -- asking ----------------------------------------------------------------------------------------------------

    @property
    def answers(self) -> tuple[str, ...]:
        """The allowed answers."""
        return tuple(answer for answer in ANSWERS if self.both_bad or answer != BOTH_BAD)

    def load(self, data: Path, gold: Path | None = None) -> LabelingData:
        """Read the images and gold pairs."""
        return load_dataset(data, gold)

    def check_rules(self, enough: int) -> None:
        """Refuse to stop asking while people sort."""
        if enough and self.plan != "all":
            raise UserError("merge sort requires the answers of each person. Add --plan all to stop at enough votes")

    def queue(self, dataset: LabelingData, key: tuple[int, str], share: float | None, settled: Settled) -> Queue:
        """Make the queue of an annotator: pairs as the plan asks for them, with gold pairs at random places."""
        return Queue(dataset, key, self._plan, share, settled)

    def sheet(self, question: Question, dataset: LabelingData, earlier_answer: LabelAnswer | None) -> Json:
        """List the allowed answers."""
        return {"answers": self.answers}

    def check(self, question: Question, dataset: LabelingData, answer: object) -> str:
        """Check that the answer is left, right, tie or, if allowed, both_bad."""
        if not isinstance(answer, str) or answer not in self.answers:
            raise DataError(must_be("'answer'", f"one of {', '.join(self.answers)}", answer))
        return answer

    # -- counting --------------------------------------------------------------------------------------------------

    def score(self, answer: LabelAnswer) -> float | None:
        """Return 1 if a gold pair is answered right, 0 if not; None for any other pair."""
        if answer.question.kind != GOLD:
            return None
        left, right = answer.question.images
        for pair in self.gold:
            if pair.prompt_id == answer.question.prompt_id and {pair.a, pair.b} == {left, right}:
                better = {"a": pair.a, "b": pair.b}.get(pair.preference)
                return float(outcome_of(answer.text) == (0 if better is None else 1 if left == better else -1))
        return None

    def settled(self, answers: Sequence[LabelAnswer], enough: int) -> set[tuple[str, ...]]:
        """List the pairs that the rules of A.11 have decided, or that have all their votes."""
        return settled_pairs(answers, self.images, enough)

    def early(self, enough: int) -> int:
        """Return how many votes every pair gets: two thirds."""
        return -(-2 * enough // 3)

    # -- deciding --------------------------------------------------------------------------------------------------

    def for_experts(self, labelling: Labelling, dataset: LabelingData, annotators: int | None) -> OpenPairs:
        """Make the form that asks experts about the pairs that no rule decides."""
        return OpenPairs(labelling, dataset, annotators)

    def export(self, labelling: Labelling, rules: ExportRules) -> Export:
        """Decide pairs by the three rules of A.11, rank images, and list the pairs that are left to experts."""
        if rules.gold is not None:
            raise UserError(
                f"{labelling.path}: --gold requires marks, but this store has votes. Give known pairs to `label`"
            )
        kept = rules.out / "experts.jsonl" if rules.out is not None else None
        verdicts = _read_verdicts(rules.experts) if rules.experts is not None else {}
        all_verdicts = (_read_verdicts(kept) if kept is not None and kept.is_file() else {}) | verdicts
        outcomes = decide_pairs(labelling, rules.annotators, _expert_votes(verdicts))
        if not outcomes.votes:
            what = "that count" if labelling.left_out else "yet. Collect votes with `label`"
            raise UserError("; ".join((f"{labelling.path}: no votes {what}", *labelling.left_out)))
        summary, images = outcomes.summary, self.images
        counted = on_pairs((answer for answer in labelling.answers if labelling.counts(answer.annotator)), images)
        by_experts = on_pairs((answer for answer in labelling.answers if is_expert(answer.annotator)), images)
        people, table = self._annotators(labelling)
        result = summary.to_json() | {
            "votes": len(counted),
            "undone": sum(not answer.stands for answer in labelling.answers),
            "plan": self.plan,
            "votes_expected": outcomes.expected,
            "annotator_details": people,
            "left_out": labelling.left_out,
        }
        decided = [_record(outcome, self.families) for outcome in summary.outcomes if outcome.preference is not None]
        pending = [_record(outcome, self.families) for outcome in summary.outcomes if outcome.preference is None]
        columns = (*_DECIDED, *([CLUSTER.name] if self.families else []))
        ranked = ranks(summary.outcomes, images, self.identical)
        files = {
            "pairs.jsonl": jsonl_text(decided),
            "pairs.csv": csv_text(columns, (list(record.values()) for record in decided)),
            "open.csv": csv_text(columns, (list(record.values()) for record in pending)),
            "experts.jsonl": jsonl_text(_for_experts(summary.needs_experts, labelling.prompts, all_verdicts)),
            "ranks.csv": csv_text([field.name for field in fields(Ranked)], map(astuple, ranked)),
            "battles.jsonl": jsonl_text(_battle(answer, images) for answer in counted),
            "votes.csv": _votes_csv(counted, self.families),
            "experts.csv": _votes_csv(by_experts, self.families),
            "votes.jsonl": jsonl_text(_vote_record(*numbered) for numbered in enumerate(labelling.answers, 1)),
        }
        votes = summary.table()
        notes = (*votes.notes, *labelling.early_note("pair"), *_implied_note(summary.rules))
        order = leaderboard(ranked, summary.votes)
        tables = [replace(votes, notes=notes), *([order] if order else []), table]
        return Export(result, tables, files, "pairs.jsonl", "judge --data DATA --pairs", len(decided))

    def _annotators(self, labelling: Labelling) -> tuple[list[Json], Table]:
        """Sum up each annotator: votes, undos, ties, preferred side, seconds, and right attention checks."""
        columns = ("votes", "undone", "ties", "both bad", "left of decided", "median seconds")
        line = "left of decided: far from 0.5 over many votes means that someone favours a side"
        return labelling.annotator_table(_annotator, columns, Note("about_left_of_decided", line))


def _annotator(answers: Sequence[LabelAnswer]) -> Json:
    """Sum up the answers of one annotator."""
    pairs = [answer for answer in answers if answer.stands and answer.question.kind == PAIR]

    return {
        "votes": len(pairs),
        "undone": sum(not answer.stands for answer in answers),
        "tie_share": mean(answer.text == "tie" for answer in pairs),
        "both_bad_share": mean(answer.text == BOTH_BAD for answer in pairs),
        "left_share": mean(answer.text == "left" for answer in pairs if outcome_of(answer.text)),
        "median_seconds": median_seconds(pairs),
    }


def _record(outcome: VoteOutcome, families: Mapping[str, str]) -> Json:
    o = outcome
    values = (o.prompt_id, o.a, o.b, o.preference, f"votes: {o.rule}", o.votes_a, o.votes_b, o.votes_tie, o.votes_bad)
    record = dict(zip(_DECIDED, (*values, o.implied), strict=True))
    return record | ({CLUSTER.name: families.get(o.prompt_id, "")} if families else {})


def _battle(answer: LabelAnswer, images: Images) -> dict[str, str]:
    """Make the line of an answer in the format of arenas, with the images; model_a was shown on the left."""
    left, right = answer.question.images
    return {
        "prompt_id": answer.question.prompt_id,
        "model_a": images[left][1],
        "model_b": images[right][1],
        "winner": _WINNERS[answer.text],
        "judge": answer.annotator,
        "image_a": left,
        "image_b": right,
    }


def _votes_csv(answers: Iterable[LabelAnswer], families: Mapping[str, str]) -> str:
    """Write answers as CSV; image_a was shown on the left."""
    rows = []
    for a in answers:
        row = (a.question.prompt_id, *a.question.images, a.annotator, _CHOICES.get(a.text, a.text), a.note)
        rows.append((*row, *([families.get(a.question.prompt_id, "")] if families else [])))
    return csv_text((*VOTE_COLUMNS, "note", *([CLUSTER.name] if families else [])), rows)


def _vote_record(number: int, answer: LabelAnswer) -> Json:
    """Make the line of an answer, which may have been taken back, in `votes.jsonl`."""
    left, right = answer.question.images
    return {
        "id": number,
        "annotator": answer.annotator,
        "turn": answer.turn,
        "kind": answer.question.kind,
        "prompt_id": answer.question.prompt_id,
        "left": left,
        "right": right,
        "answer": answer.text,
        "shown_at": answer.shown_at,
        "voted_at": answer.answered_at,
        "duration_ms": answer.duration_ms,
        "note": answer.note,
        "undone_at": answer.ended_at,
    }


def _implied_note(rules: Mapping[str, int]) -> tuple[Note, ...]:
    """Make the note that counts the pairs decided by votes that follow from a sort and were not cast."""
    number = rules[Rule.IMPLIED.value]
    note = Note(
        "pairs_implied",
        f"{number:,} pairs are decided by what people's sorts imply, not by votes that were cast as A.11 counts them: "
        "`label serve --plan all` asks every pair",
    )
    return (note,) if number else ()


def _for_experts(
    outcomes: Iterable[VoteOutcome], prompts: Mapping[str, str], verdicts_of: Mapping[PairKey, list[str]]
) -> list[Json]:
    """List the pairs with verdicts first, then the open ones; without vote counts, which could influence experts."""
    entries: dict[PairKey, list[str]] = {key: verdicts for key, verdicts in verdicts_of.items() if verdicts}
    for outcome in outcomes:
        pair, reverse = (outcome.prompt_id, outcome.a, outcome.b), (outcome.prompt_id, outcome.b, outcome.a)
        if pair not in entries and reverse not in entries:
            entries[pair] = []
    return [
        {"prompt_id": group, "image_a": a, "image_b": b, "prompt": prompts.get(group, ""), "verdicts": verdicts}
        for (group, a, b), verdicts in entries.items()
    ]


def _read_verdicts(file: Path) -> dict[PairKey, list[str]]:
    """Read the verdicts of experts by pair.

    Raises:
        DataError: A line is malformed, or a pair is listed twice; names file and line.
    """
    by_pair: dict[PairKey, list[str]] = {}
    for number, record in read_jsonl(file, ("prompt_id", "image_a", "image_b", "verdicts")):
        verdicts = record["verdicts"]
        if not isinstance(verdicts, list) or any(verdict not in CHOICES for verdict in verdicts):
            raise DataError(must_be("'verdicts'", 'a list of "a", "b", "tie" or "both_bad"', verdicts), file, number)
        if len(verdicts) > PANEL:
            raise DataError(f"the pair has {len(verdicts)} verdicts of {PANEL} experts. Remove some", file, number)
        key = (str(record["prompt_id"]), str(record["image_a"]), str(record["image_b"]))
        if key in by_pair or (key[0], key[2], key[1]) in by_pair:
            raise DataError("duplicate pair. Remove one of the lines", file, number)
        by_pair[key] = verdicts
    return by_pair


def _expert_votes(verdicts: Mapping[PairKey, Sequence[str]]) -> list[Vote]:
    return [
        Vote(group, a, b, f"expert-{number}", verdict)
        for (group, a, b), choices in verdicts.items()
        for number, verdict in enumerate(choices, 1)
    ]


class OpenPairs(Pairs):
    """Asks experts about the pairs that the annotators leave open.

    Raises:
        UserError: No pair is open.
    """

    role = EXPERT

    def __init__(self, labelling: Labelling, dataset: LabelingData, annotators: int | None) -> None:
        form = labelling.form
        super().__init__(form.plan, both_bad=form.rules["both_bad"] is True)
        outcomes = decide_pairs(labelling.without_experts(), annotators)
        pairs = outcomes.summary.needs_experts
        present = [(pair.a, pair.b) for pair in pairs if pair.a in dataset.items and pair.b in dataset.items]
        if not present:
            raise labelling.nothing_open(outcomes.summary.rules, len(pairs))
        self.open = len(present)
        self._plan, self._seed = listed(present), labelling.seed
        notes = {(a.annotator, frozenset(a.question.images)): a.note for a in labelling.standing}
        self._answers_by_pair: dict[frozenset[str], list[tuple[str, str, str]]] = defaultdict(list)
        for cast in outcomes.votes:
            vote, pair = cast.choice, frozenset((cast.choice.a, cast.choice.b))
            if cast.direct:
                self._answers_by_pair[pair].append((vote.a, vote.choice, notes.get((vote.annotator, pair), "")))

    def sheet(self, question: Question, dataset: LabelingData, earlier_answer: LabelAnswer | None) -> Json:
        """Describe the pair as annotators see it, with their answers and notes."""
        left, right = question.images
        answers = [
            (_answer_on(choice, turned=first != left), note)
            for first, choice, note in self._answers_by_pair[frozenset((left, right))]
        ]
        counts = Counter(answer for answer, _ in answers)
        reasons = [f"{answer.replace('_', ' ')}: {note}" for answer, note in answers if note]
        return super().sheet(question, dataset, earlier_answer) | {
            "said": {answer: counts[answer] for answer in ("left", "tie", "both_bad", "right")},
            "notes": shuffled(reasons, self._seed, left, right),
        }


def _answer_on(choice: str, *, turned: bool) -> str:
    """Convert a choice between a and b to an answer (left, right, ...); with `turned`, a is on the right."""
    answer = _SIDES.get(choice, choice)
    return {"left": "right", "right": "left"}.get(answer, answer) if turned else answer
