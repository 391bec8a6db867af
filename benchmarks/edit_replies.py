"""Read what judges and people said of edits: VIEScore's replies with ImagenHub's marks, and the votes of GenAI-Bench.

Both are copies of repositories that are not part of this project. A reply is read by the parser of `viescore-edit`; the
authors' own reading of it is kept beside.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ceiling import Image, marks
from titjudge.metrics.viescore import overall, read_ratings
from titjudge.stats.bootstrap import Floats

TASKS = ("Text-Guided_IE", "Mask-Guided_IE", "Subject-Driven_IE")
PARTS = ("SC", "PQ")
MEASURES = ("success", "quality", "overall")
GUESS = "guess_if_cannot_parse | "  # before the reply, where the authors drew random ratings
LABELS = {"[[A>B]]": "a", "[[B>A]]": "b", "[[A=B=Good]]": "tie", "[[A=B=Bad]]": "both_bad"}
VOTES = {"leftvote": "a", "rightvote": "b", "tievote": "tie", "bothbad_vote": "both_bad"}


@dataclass(frozen=True, slots=True)
class EditReply:
    """What a judge said of one side of an edit.

    Attributes:
        text: The reply; where the authors kept its fields alone, these as JSON.
        published: The smallest of the ratings that the authors took from it, or drew; None where these are no ratings.
        guessed: Whether they drew it.
    """

    text: str
    published: float | None
    guessed: bool

    @property
    def rating(self) -> float | None:
        """The smallest rating that `viescore-edit` reads, 0 to 10; None where it reads none."""
        ratings = read_ratings(self.text)
        return min(ratings) if ratings else None


Replies = Mapping[str, Mapping[Image, EditReply]]
"""Side of an edit (`PARTS`) -> edit -> reply."""


def task_name(task: str) -> str:
    """`text-guided edits`."""
    return f"{task.removesuffix('_IE').lower()} edits"


def source_of(edit: str) -> str:
    """Name the source that an edit begins with: turns of one session of MagicBrush have the same."""
    found = re.match(r"(sample_\d+)_\d+\.", edit)
    return found[1] if found else edit


def people_of(checkout: Path, task: str) -> dict[Image, Floats]:
    """Read the marks of three people, shape (3, 3): raters by `MEASURES`, each 0 to 1, overall the geometric mean."""
    return {
        edit: np.array([[sc, pq, math.sqrt(sc * pq)] for sc, pq in given])
        for edit, given in marks(checkout, f"ImagenHub_{task}", task).items()
    }


def replies_of(checkout: Path, task: str) -> dict[str, Replies]:
    """Read the replies of each judge."""
    found = {}
    for folder in sorted((checkout / "paper_implementation" / "_answers").glob("results_*")):
        sides = {part: dict(_side(folder / f"ImagenHub_{task}", part)) for part in PARTS}
        if all(sides.values()):
            found[folder.name.removeprefix("results_")] = sides
    return found


def _side(folder: Path, part: str) -> Iterator[tuple[Image, EditReply]]:
    for file in sorted(folder.glob(f"*/{part}.json")):
        for edit, told in json.loads(file.read_text(encoding="utf-8")).items():
            yield (file.parent.name, edit), _reply(told)


def _reply(told: Mapping[str, Any]) -> EditReply:
    reason, score = str(told.get("reasoning", "")), told.get("score")
    guessed = reason.startswith(GUESS)
    text = reason.removeprefix(GUESS) if guessed else json.dumps({"score": score, "reasoning": reason})
    try:
        published = min(map(float, score if isinstance(score, list) else [score]))  # type: ignore[list-item]
    except (TypeError, ValueError):
        published = None
    return EditReply(text, published, guessed)


def scores_of(replies: Replies) -> dict[str, dict[Image, float]]:
    """Score edits by `MEASURES`, 0 to 10, as `viescore-edit` reads the replies; an edit without a rating is left out."""
    sides = [
        {edit: rating for edit, reply in replies[part].items() if (rating := reply.rating) is not None}
        for part in PARTS
    ]
    both = {edit: overall([sides[0][edit]], [sides[1][edit]])[2] for edit in sides[0] if edit in sides[1]}
    return dict(zip(MEASURES, (*sides, both), strict=True))


@dataclass(frozen=True, slots=True)
class EditVote:
    """A vote of people on two edits of one source, and a judge's.

    Attributes:
        pair: Number of the pair.
        source: Description of the source.
        people: a, b, tie or both_bad.
        judge: The same; None where the reply has none of the four labels.
        correct: What the authors' table counts.
    """

    pair: int
    source: str
    people: str
    judge: str | None
    correct: bool


def votes_of(checkout: Path) -> dict[str, list[EditVote]]:
    """Read the votes of GenAI-Bench on edits by judge; one without any is left out."""
    files = sorted((checkout / "results" / "image_edition").glob("*/pairwise.jsonl"))
    found = {file.parent.name: _votes(file) for file in files}
    sources = {vote.pair: vote.source for votes in found.values() for vote in votes if vote.source}
    return {
        name: [EditVote(v.pair, sources.get(v.pair, str(v.pair)), v.people, v.judge, v.correct) for v in votes]
        for name, votes in found.items()
        if votes
    }


def _votes(file: Path) -> list[EditVote]:
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [
        EditVote(
            row["idx"], row.get("source_prompt", ""), VOTES[row["human_vote"]],
            LABELS.get(str(row.get("model_vote"))), bool(row["correct"]),
        )
        for row in rows
    ]  # fmt: skip
