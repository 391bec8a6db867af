"""A suite that asks a vision model about GenEval's prompts, which is not GenEval (`geneval_results` reads its own results)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from titjudge.core.errors import DataError
from titjudge.core.types import Item, Score, Table
from titjudge.metrics.questions import Asking
from titjudge.suites.base import reason_of
from titjudge.suites.geneval_results import TASKS
from titjudge.suites.prompt_file import PromptFileSuite
from titjudge.suites.question_schema import TableSpec
from titjudge.suites.question_tables import make_table


class NotGenEval(PromptFileSuite):
    """Not GenEval: its 553 prompts and six tasks as yes/no questions to a vision model.

    Args:
        images: A pattern of image paths, from the working directory, where they are not in `images/`.
    """

    name = "not-geneval"
    metrics: tuple[str, ...] = ("questions",)
    DEVIATIONS: tuple[str, ...] = (
        "this is not GenEval, and its numbers do not compare with GenEval's: a vision model answers questions where GenEval detects "
        "objects with Mask2Former and names colours with CLIP. `aggregate geneval` reads GenEval's own results",
        "the questions are ours, made of the metadata: is each object there (as many as asked for), has it its colour, does it "
        "stand where it should; an image is correct where every answer is yes",
        "counting asks for exactly as many, as GenEval does by excluding one more; other tasks ask for at least one",
        "overall is the mean of the six tasks, as GenEval's",
    )
    PATTERNS = ("images/{generator}/{prompt_id}/samples/{sample}", "images/{generator}/{prompt_id}_{sample}")
    PLACE = "images/{generator}/{prompt_id}/samples/{sample}.png"
    WIDTH = 5
    FILE = "evaluation_metadata.jsonl"
    FOLDER = "prompts"
    KEYS = ("tag", "include", "prompt")
    NUMBERED = True

    def meta(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the task and the questions."""
        try:
            return {
                "task": str(row["tag"]),
                "asked": {**Asking(image="all").model_dump(), "questions": questions_of(row)},
            }
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise DataError(f"not as GenEval writes it: {reason_of(error)}") from error

    def aggregate(self, items: Sequence[Item], scores: Sequence[Score]) -> list[Table]:
        """Make the table of tasks."""
        spec = TableSpec(
            title="Not GenEval: its tasks as questions, share of correct images", by="task", order=list(TASKS), times=1
        )
        return [make_table(spec, items, [score for score in scores if score.metric == "questions"])]


def questions_of(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Make the questions of a prompt from its metadata: on each object, then on its colour and its place."""
    exact = {entry["class"] for entry in row.get("exclude", ())}
    questions: list[dict[str, Any]] = []
    for number, entry in enumerate(row["include"]):
        name, count = entry["class"], int(entry["count"])
        some = f"exactly {count} of the object '{name}'" if name in exact or count > 1 else f"at least one '{name}'"
        questions.append({"id": str(number), "question": f"Does the image show {some}?", "category": "object"})
        if "color" in entry:
            text = f"Is the {name} {entry['color']}?"
            questions.append({"id": f"{number} color", "question": text, "category": "color", "parents": [str(number)]})
        if "position" in entry:
            where, other = entry["position"]
            text = f"Is the {name} {where} the {row['include'][other]['class']}?"
            above = [str(number), str(int(other))]
            questions.append({"id": f"{number} position", "question": text, "category": "position", "parents": above})
    if not questions:
        raise ValueError("nothing to ask")
    return questions
