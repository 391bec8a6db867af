"""Stand-ins answer what the metric can read: by its plan, by the choices, by the schema."""

import asyncio
import json
import math
from pathlib import Path

import pytest
from builders import png, write_lines
from commands import cli

from titjudge.core.structured_output import schema_of
from titjudge.core.types import Request, ToolCall
from titjudge.metrics.answer_rules import VisualQuestion
from titjudge.providers.dry_run import _Zeros, made_up_reply
from titjudge.providers.fake import Fake

SCHEMA = schema_of(VisualQuestion)
COLOURS = """
name: colours
summary: Do the colours fit the prompt?
prompts: {files: [prompts.csv], id: id, prompt: prompt}
questions: [{question: "Is it red?"}, {question: "Is it bright?"}]
tables: [{title: Colours}]
"""
TEMPLATE = "---\nversion: 1\nsource: ours\nvars: [prompt, fields, questions]\n---\n{{ questions }}\n"


def test_the_plan_of_the_metric_goes_before_the_schema() -> None:
    assert made_up_reply(Request("p", "m", (), planned="yes"), "usual").text == "yes"
    planned = made_up_reply(Request("p", "m", (), schema=SCHEMA, planned={"question": "Is it?"}), "usual")
    assert json.loads(planned.text)["question"] == "Is it?"
    calls = (ToolCall("id", "look", "{}"),)
    assert made_up_reply(Request("p", "m", (), planned=calls), "usual").tool_calls == calls
    assert VisualQuestion.model_validate_json(made_up_reply(Request("p", "m", (), schema=SCHEMA), "usual").text)
    assert made_up_reply(Request("p", "m", ()), "usual").text == "usual"


def test_choices_are_equally_likely() -> None:
    first = asyncio.run(Fake().complete(Request("p", "m", (), choices=("yes", "no")))).first_token
    assert first is not None
    assert {token: math.exp(chance) for token, chance in first.tokens} == pytest.approx({"yes": 0.5, "no": 0.5})


@pytest.mark.parametrize(
    "ask",
    [
        "{}",
        "{template: mine/ask, each: image, answer: labels}",
        "{template: mine/ask, each: image, answer: score-list}",
    ],
)
def test_a_question_suite_is_tried_without_a_key(tmp_path: Path, ask: str) -> None:
    (tmp_path / "colours.yaml").write_text(f"{COLOURS}ask: {ask}\n")
    (tmp_path / "prompts.csv").write_text("id,prompt\n1,a red cat\n")
    (tmp_path / "prompts" / "mine").mkdir(parents=True)
    (tmp_path / "prompts" / "mine" / "ask.md").write_text(TEMPLATE)
    png(tmp_path / "images" / "mine" / "1.png")
    arguments = ("--suite", "colours.yaml", "--data", ".", "--provider", "fake", "--no-report", "--json", "out.json")
    cli(tmp_path, "judge", *arguments)
    (scored,) = json.loads((tmp_path / "out.json").read_text())["metrics"].values()
    assert (scored["scored"], scored["mean"]) == (1, 1)


@pytest.mark.parametrize("metric", ["checklist", "graph-alignment"])
def test_metrics_of_many_elements_are_tried_without_a_key(tmp_path: Path, metric: str) -> None:
    png(tmp_path / "data" / "1.png")
    graph = {"entities": ["cat", "mat"], "attributes": [["cat", "red"]], "relations": [["cat", "on", "mat"]]}
    write_lines(tmp_path / "data" / "prompts.jsonl", {"prompt_id": "p", "prompt": "a red cat", "graph": graph})
    write_lines(tmp_path / "data" / "images.jsonl", {"image": "1.png", "prompt_id": "p"})
    cli(tmp_path, "judge", "data", "--metric", metric, "--provider", "fake", "--no-report", "--json", "out.json")
    (scored,) = json.loads((tmp_path / "out.json").read_text())["metrics"].values()
    assert (scored["scored"], scored["coverage"]) == (1, 1)
    assert scored["mean"] == {"checklist": 100, "graph-alignment": 1}[metric]


def test_the_vector_of_a_plan_can_be_used_like_an_array() -> None:
    """A metric of another package may do more with it than a cosine."""
    import numpy as np

    zeros = _Zeros()
    assert (len(zeros), list(zeros), zeros.tolist(), zeros.shape) == (1, [0.0], [0.0], (1,))
    assert np.asarray(zeros, dtype="float64").tolist() == [0.0]
    assert float(np.linalg.norm(zeros)) == 0.0
