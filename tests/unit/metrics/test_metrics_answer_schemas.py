"""Schemas of answers are in requests, and so in the keys of answers on disk: class names and docstrings included.

A schema that changes here makes every kept answer to its question unfindable: a run that goes on pays for it again. To rename
a class, keep its old name as `title` in its `model_config`.
"""

import hashlib
import json
from typing import Any

import pytest

from titjudge.core.config import load_config
from titjudge.core.prompts import PromptLibrary
from titjudge.core.structured_output import schema_of
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.metrics import (
    dsg,
    edit_diff,
    graph_alignment,
    learned,
    pairwise,
    tifa,
    tit,
    viescore,
)
from titjudge.metrics.agent import claims, state
from titjudge.metrics.rubric import RUBRICS as FILES
from titjudge.metrics.rubric import rubric_of

RUBRICS = {
    question.answer: question.schema_of_answer
    for file in FILES.iterdir()
    for questions in rubric_of(file.stem).questions.values()
    for question in questions
    if "style" in question.when.get("edit_type", ["style"])
}

SHA = {
    tit.TitComparison: "f0629d9a8f03a575",
    pairwise.Preference: "db3254fe401fdb56",
    tit.Rating: "6a9c8df335afbcc6",
    tit.Critique: "d3e6803cc144f28c",
    viescore.Semantics: "5b804de930e6e814",
    viescore.Quality: "fa9a40b857d1b56e",
    viescore.EditSemantics: "bbe02fd97f93e1da",
    RUBRICS["EditScore"]: "1507459fee1090b1",
    RUBRICS["Ratings"]: "42a14a6952e5ee40",
    RUBRICS["ConsistencyRating"]: "b5f07ba4b31ca6ff",
    RUBRICS["InstructionRating"]: "67c6db059dc801b5",
    RUBRICS["QualityRating"]: "089daf9798ab569f",
    RUBRICS["KnowledgeRating"]: "c733b3d56dd88768",
    RUBRICS["FinalScore"]: "5f77c6e1056b972f",
    RUBRICS["FinalMark"]: "81187dac0d2179f5",
    edit_diff.EditComparison: "d50b8bdee20c1131",
    dsg.SceneGraph: "230cf6d2e89fec22",
    tifa.Quiz: "c41e2fd953789684",
    graph_alignment.PromptGraph: "ceb04900c5908f8b",
    graph_alignment.GraphVerdict: "4cb98d343b19749b",
    learned.Measurement: "e6a16045c9a7d36f",
    learned.CommandAnswer: "d3bec90325186632",
    claims.Split: "58df9ad1b6bcbe22",
    state.AgentTurn: "4b93c58d347f7954",
}


@pytest.mark.parametrize("schema", SHA, ids=lambda schema: schema.__name__)
def test_the_schema_is_the_one_of_the_caches_on_disk(schema: Any) -> None:
    text = json.dumps(schema_of(schema), sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == SHA[schema]


def test_a_renamed_class_is_sent_under_the_name_of_its_schema() -> None:
    engine = Engine(Roles(load_config(None, {"judge": "fake/m"})), PromptLibrary())
    request = engine.request(engine.roles["judge"], (), template="", item_id="", schema=state.AgentTurn, params={})
    assert request.schema_name == "Turn"
