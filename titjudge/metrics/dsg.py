"""DSG, the Davidsonian Scene Graph: yes/no questions with dependencies (ICLR 2024; github.com/j-min/DSG).

The judge writes the questions, once for each prompt; the captioner answers each of them about the image. The prompt
that asks for questions is ours; its output format, the aggregation and the prompt that asks for an answer are DSG's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from pydantic import Field, model_validator

from titjudge.core import item_meta
from titjudge.core.structured_output import Whole
from titjudge.core.types import Ask, Item, Score
from titjudge.metrics import metric
from titjudge.metrics._shared import (
    ANSWER_PARAMS,
    MOST_QUESTIONS,
    QuestionModel,
    captioner_answers,
    image_of,
    ready_questions,
    write_questions,
    yes_or_no,
)


class SceneQuestion(QuestionModel):
    """One fact of a prompt as a question; `parents` are the facts without which it makes no sense."""

    id: Whole = Field(ge=1)
    tuple: str = ""
    question: str = Field(min_length=1)
    parents: list[Whole] = Field(default_factory=list)


class SceneGraph(QuestionModel):
    """What the judge answers to `dsg/questions`; a parent of 0 is DSG's way of saying that there is none."""

    questions: list[SceneQuestion] = Field(min_length=1, max_length=MOST_QUESTIONS)

    @model_validator(mode="after")
    def _consistent(self) -> SceneGraph:
        """Check that ids differ, and that parents exist and form no circle."""
        ids = [question.id for question in self.questions]
        if len(set(ids)) < len(ids):
            raise ValueError("two questions have the same id")
        parents = {q.id: [parent for parent in q.parents if parent != 0] for q in self.questions}
        for id_, above in parents.items():
            unknown = [parent for parent in above if parent not in parents]
            if unknown:
                raise ValueError(f"question {id_} has the parent {unknown[0]}, which does not exist")
        try:
            TopologicalSorter(parents).prepare()
        except CycleError as error:
            raise ValueError(f"question {error.args[1][0]} depends on itself through its parents") from error
        return self


def valid_questions(yes: Mapping[int, bool], parents: Mapping[int, Sequence[int]]) -> dict[int, bool]:
    """Return for each question whether it is valid, which it is unless one of its direct parents was answered "no".

    This is DSG's rule (`calc_vqa_score`): the answers to the parents count, even where a parent is not valid itself.
    Parent 0 is the root and counts as a "yes".
    """
    return {id_: all(parent == 0 or yes[parent] for parent in parents.get(id_, ())) for id_ in yes}


def dsg_score(yes: Mapping[int, bool], parents: Mapping[int, Sequence[int]]) -> tuple[float, float]:
    """Compute the fraction of questions answered "yes".

    Returns:
        The score with dependencies, in which a question with a parent answered "no" counts as "no", and without them.

    Raises:
        ValueError: There are no questions (the official code returns 0.0).
    """
    if not yes:
        raise ValueError("the prompt has no questions")
    valid = valid_questions(yes, parents)
    return sum(yes[id_] and valid[id_] for id_ in yes) / len(yes), sum(yes.values()) / len(yes)


@metric(
    "dsg",
    roles=("judge", "captioner"),
    range=(0, 1),
    version="3",  # 2 did not read sentences such as "No dog is visible.", and asked nothing again
    source="DSG, github.com/j-min/DSG @2fdce11; dsg/questions ours, dsg/answer theirs",
)
async def dsg(item: Item, ask: Ask) -> Score:
    """Davidsonian Scene Graph: the share of yes/no questions about a prompt answered "yes"; a child of a "no" counts as "no".

    `item.meta["dsg"]` may have the questions, [{"id", "question", "parents"}, ...]; otherwise the judge writes them.
    """
    image_of(item)
    graph = ready_questions(item, item_meta.DSG, SceneGraph)
    if graph is None:
        graph = await write_questions(item, ask, "dsg/questions", SceneGraph)
    answers = await captioner_answers(
        item,
        ask,
        "dsg/answer",
        graph.questions,
        planned=lambda question: "yes",
        read=lambda reply, asked: yes_or_no(item, ask, "captioner", reply, asked.question, ANSWER_PARAMS),
    )
    yes = {question.id: said_yes for question, said_yes in zip(graph.questions, answers, strict=True)}
    parents = {question.id: question.parents for question in graph.questions}
    value, plain = dsg_score(yes, parents)
    valid = valid_questions(yes, parents)
    rows = [{**q.model_dump(), "yes": yes[q.id], "valid": valid[q.id]} for q in graph.questions]
    return Score.of(value, without_dependencies=plain, questions=rows)
