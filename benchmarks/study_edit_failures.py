"""A part of the study: what becomes of a ranking of editors where a judge refused edits, or could not be read.

Missing ratings are left out, with the edit for its editor alone or for all; counted as 0; drawn at random as the published code
does; or set to the worst and the best that they could have been, which bounds every other way.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.ceiling import Image
from benchmarks.edit_replies import PARTS, TASKS, Replies, people_of, replies_of, scores_of, task_name
from benchmarks.study_edits import FEWEST, TOP
from benchmarks.study_page import Found, percent, table
from titjudge.stats.bootstrap import Floats

DRAWS = 1000
LEAST = 0.01  # share of edits without a score, of a row


@dataclass(frozen=True, slots=True)
class Boards:
    """Mean overall scores of editors, 0 to 10, each of shape (editors,); with `drawn` (draws, editors).

    Attributes:
        editors: Names.
        lacking: Edits without an overall score.
        edits: Number of edits of an editor.
        people: Mean marks, 0 to 1.
        dropped: Without the edits that lack a score.
        shared: Number of edits that no editor lacks.
        common: Over these.
        zeros: Missing ratings are 0, the worst that they could have been.
        best: Missing ratings are 10.
        drawn: With missing ratings drawn from 0, 1, ... 10.
    """

    editors: list[str]
    lacking: Floats
    edits: int
    people: Floats
    dropped: Floats
    shared: int
    common: Floats
    zeros: Floats
    best: Floats
    drawn: Floats

    def moved(self, board: Floats) -> float:
        """Count the pairs of editors that a board orders otherwise than `dropped`; of several boards, on average."""
        signs = _order(np.atleast_2d(board)) * _order(self.dropped[None])
        return float((signs < 0).sum(axis=1).mean())

    def open_pairs(self) -> int:
        """Count the pairs of editors whose order depends on what the missing ratings would have been."""
        a, b = np.triu_indices(len(self.editors), 1)
        return int(((self.zeros[a] < self.best[b]) & (self.zeros[b] < self.best[a])).sum())

    def tau(self, board: Floats) -> float:
        """Kendall's tau-b with the ranking by people; of several boards, the mean."""
        from scipy.stats import kendalltau

        return float(np.mean([kendalltau(each, self.people).statistic for each in np.atleast_2d(board)]))


def _order(boards: Floats) -> Floats:
    a, b = np.triu_indices(boards.shape[1], 1)
    signs: Floats = np.sign((boards[:, a] - boards[:, b]).round(9))
    return signs


def boards_of(replies: Replies, people: Mapping[Image, Floats]) -> Boards:
    """Rank the editors that a judge has replies for in each way."""
    editors = sorted({editor for editor, _ in replies["SC"]})
    ids = sorted({edit for editor, edit in people if editor in editors})
    scores = scores_of(replies)
    sides = np.array([
        [[scores[measure].get((editor, edit), np.nan) for editor in editors] for edit in ids]
        for measure in ("success", "quality")
    ])  # fmt: skip
    overall = np.sqrt(sides.prod(axis=0))
    known = np.isfinite(overall)
    rng = np.random.default_rng(0)
    drawn = [_filled(sides, rng.integers(0, int(TOP) + 1, sides.shape).astype(float)) for _ in range(DRAWS)]
    return Boards(
        editors,
        lacking=(~known).sum(axis=0).astype(float),
        edits=len(ids),
        people=np.array([np.mean([people[editor, edit][:, 2].mean() for edit in ids]) for editor in editors]),
        dropped=np.nanmean(overall, axis=0),
        shared=int(known.all(axis=1).sum()),
        common=overall[known.all(axis=1)].mean(axis=0),
        zeros=_filled(sides, np.zeros(sides.shape)),
        best=_filled(sides, np.full(sides.shape, TOP)),
        drawn=np.array(drawn),
    )


def _filled(sides: Floats, values: Floats) -> Floats:
    """Average the overall scores of editors with `values` in place of missing ratings; both of shape (2, edits, editors)."""
    mean: Floats = np.sqrt(np.where(np.isfinite(sides), sides, values).prod(axis=0)).mean(axis=0)
    return mean


def edit_failures(given: argparse.Namespace) -> Found:
    """Say for each judge how many edits lack a score, and what the ways to count them do to the ranking of editors."""
    rows, worst, few = [], None, []
    for task in TASKS:
        people = people_of(given.viescore, task)
        for name, replies in replies_of(given.viescore, task).items():
            editors = {editor for editor, _ in replies["SC"]}
            total = sum(editor in editors for editor, _ in people)
            lacking = total - len(scores_of(replies)["overall"].keys() & people.keys())
            if not 0 < lacking <= (1 - FEWEST) * total:
                continue
            boards = boards_of(replies, people)
            if lacking < LEAST * total:
                few.append(boards.moved(boards.zeros))
                continue
            pairs = len(boards.editors) * (len(boards.editors) - 1) // 2
            rows.append([
                f"{name}, {task_name(task)}", f"{lacking} of {total:,}", _whys(replies, total),
                f"{percent(boards.lacking.min() / boards.edits)} to {percent(boards.lacking.max() / boards.edits)}",
                *(f"{boards.moved(each):.3g}" for each in (boards.common, boards.zeros, boards.drawn)),
                f"{boards.open_pairs()} of {pairs}",
                " / ".join(f"{boards.tau(each):.2f}" for each in (boards.dropped, boards.zeros, boards.drawn)),
            ])  # fmt: skip
            if worst is None or lacking / total > worst[2]:
                worst = f"{name}, {task_name(task)}", boards, lacking / total
    columns = (
        "judge", "edits without a score", "missing / drawn / unread ratings", "by editor", "pairs turned: same edits for all", "zeros",
        "random", "pairs left open", "tau with people: left out / zeros / random",
    )  # fmt: skip
    text = table(columns, rows)
    if few:
        turned = sum(count > 0 for count in few)
        text += f"\n\nOf {len(few)} more judges and tasks with fewer than {percent(LEAST)} of edits without a score, zeros turn a pair for {turned}."
    return text + (f"\n\n{_detail(*worst[:2])}" if worst else ""), {}


def _whys(replies: Replies, total: int) -> str:
    """Count the ratings that are missing: not in the files, drawn at random by the authors, or not a rating from 0 to 10."""
    found = [reply for part in PARTS for reply in replies[part].values()]
    unread = [reply for reply in found if reply.rating is None]
    drawn = sum(reply.guessed for reply in unread)
    return f"{2 * total - len(found):,} / {drawn:,} / {len(unread) - drawn:,}"


def _detail(name: str, boards: Boards) -> str:
    order = np.argsort(-boards.people, kind="stable")
    rows = [
        [
            boards.editors[k], f"{boards.people[k]:.3f}", f"{boards.lacking[k]:.0f}",
            *(f"{each[k]:.2f}" for each in (boards.dropped, boards.common, boards.zeros, boards.drawn.mean(axis=0))),
            f"{boards.zeros[k]:.2f} to {boards.best[k]:.2f}",
        ]
        for k in order
    ]  # fmt: skip
    columns = (
        name,
        "people",
        "without a score",
        "left out",
        f"same {boards.shared} edits",
        "zeros",
        "random",
        "worst to best",
    )
    return table(columns, rows)
