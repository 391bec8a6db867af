"""The form of questions in which people rank all images of a prompt, as in TIIF-Bench's user study (paper, A4.4).

A ranking counts as a vote on each pair of its images, so that `label export` decides pairs and ranks by the same rules as for
votes; equal ranks are ties. The mean ranks of generators are also given.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from titjudge.apps.label.dataset import LabelingData, load_dataset
from titjudge.apps.label.pair_form import Pairs
from titjudge.apps.label.questions import (
    PAIR,
    RANK,
    Export,
    ExportRules,
    FormBase,
    LabelAnswer,
    Labelling,
    Question,
    Settled,
)
from titjudge.apps.label.queues import Queue, all_at_once
from titjudge.core.declarations import Declaration, Population, Unit
from titjudge.core.errors import DataError, UserError, must_be
from titjudge.core.files import csv_text
from titjudge.core.tables import plain
from titjudge.core.types import Json, Note, Table

MEAN_RANKS = Declaration(
    "mean_ranks", "mean ranks of generators by people", Population.VOTES, Unit.VOTE, order="mean rank"
)


class Ranks(FormBase):
    """Asks for the ranks of all images of a prompt, 1 for the best; equal ranks are allowed."""

    page = "ranks"
    item = "rankings"
    mode = RANK

    def __init__(self) -> None:
        super().__init__(RANK)

    # -- asking ----------------------------------------------------------------------------------------------------

    def load(self, data: Path, gold: Path | None = None) -> LabelingData:
        """Read the images.

        Raises:
            UserError: Attention checks are given; a ranking has none.
        """
        if gold is not None:
            raise UserError("--gold requires pairs or marks: a ranking has no attention checks. Remove it")
        return load_dataset(data)

    def queue(self, dataset: LabelingData, key: tuple[int, str], share: float | None, settled: Settled) -> Queue:
        """Make the queue of an annotator: prompts one by one, each with all its images in random order."""
        return Queue(dataset, key, all_at_once, share, settled)

    def sheet(self, question: Question, dataset: LabelingData, earlier_answer: LabelAnswer | None) -> Json:
        """Give the ranks of an earlier answer, in the order of the images."""
        earlier = ranks_of(earlier_answer) if earlier_answer else {}
        return {"ranks": [earlier.get(image) for image in question.images]}

    def check(self, question: Question, dataset: LabelingData, answer: object) -> str:
        """Check the ranks, in the order of the images, and write them with equals at the lowest rank that they share (1, 2, 2, 4)."""
        count = len(question.images)
        if (
            not isinstance(answer, list)
            or len(answer) != count
            or not all(type(rank) is int and 1 <= rank <= count for rank in answer)
        ):
            raise DataError(must_be("'answer'", f"{count} ranks from 1 to {count}", answer))
        ranks = {
            image: 1 + sum(other < rank for other in answer)
            for image, rank in zip(question.images, answer, strict=True)
        }
        return json.dumps(ranks, ensure_ascii=False)

    # -- counting --------------------------------------------------------------------------------------------------

    def settled(self, answers: Sequence[LabelAnswer], enough: int) -> set[tuple[str, ...]]:
        """List the sets of images of a prompt that have all their rankings."""
        people: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for answer in answers:
            people[tuple(sorted(answer.question.images))].add(answer.annotator)
        return {images for images, names in people.items() if len(names) >= enough}

    # -- deciding --------------------------------------------------------------------------------------------------

    def for_experts(self, labelling: Labelling, dataset: LabelingData, annotators: int | None) -> Ranks:
        """Refuse: the pairs of a ranking have no page for experts.

        Raises:
            UserError: Always.
        """
        raise UserError(f"{labelling.path}: rankings have no page for experts. Fill in experts.jsonl of `label export`")

    def export(self, labelling: Labelling, rules: ExportRules) -> Export:
        """Export the votes on pairs that the rankings imply, and the rankings themselves."""
        pairs = Pairs(both_bad=False)
        pairs.images, pairs.families, pairs.identical = self.images, self.families, set()
        current = {
            (answer.annotator, answer.question.prompt_id): answer for answer in labelling.standing
        }  # the last ones
        counted = [answer for answer in labelling.answers if not answer.stands or answer in current.values()]
        answers = [vote for answer in counted for vote in _votes(answer)]
        export = pairs.export(replace(labelling, form=pairs, answers=answers), rules)
        rows = [
            (answer.question.prompt_id, image, self.images.get(image, ("", ""))[1], answer.annotator, rank)
            for answer in current.values()
            for image, rank in ranks_of(answer).items()
        ]
        by_generator: dict[str, list[int]] = defaultdict(list)
        for _, _, generator, _, rank in rows:
            by_generator[generator].append(rank)
        means = [
            (generator, len(ranks), sum(ranks) / len(ranks), ranks.count(1))
            for generator, ranks in by_generator.items()
        ]
        means.sort(key=lambda row: (row[2], row[0]))
        table = Table(
            "Mean ranks",
            ("generator", "ranks", "mean rank", "first"),
            tuple((name, count, plain(mean, digits=2), first) for name, count, mean, first in means),
            (Note("about_mean_ranks", "1 is best; each ranking also counts as a vote on each pair of its images"),),
            declared=MEAN_RANKS.over(len(current)),
        )
        result = export.result | {"rankings": len(current), "mean_ranks": {row[0]: row[2] for row in means}}
        files = export.files | {
            "rankings.csv": csv_text(("prompt_id", "image", "generator", "annotator", "rank"), rows)
        }
        return replace(export, result=result, files=files, tables=[table, *export.tables])


def ranks_of(answer: LabelAnswer) -> dict[str, int]:
    """Read the rank of each image from the text of an answer."""
    return {str(image): int(rank) for image, rank in json.loads(answer.text).items()}


def _votes(answer: LabelAnswer) -> list[LabelAnswer]:
    """Make the votes on pairs that a ranking implies; the time of each is unknown."""
    ranks = ranks_of(answer)
    return [
        replace(
            answer,
            question=Question(PAIR, answer.question.prompt_id, (a, b)),
            text="tie" if ranks[a] == ranks[b] else "left" if ranks[a] < ranks[b] else "right",
            duration_ms=None,
        )
        for a, b in combinations(ranks, 2)
    ]
