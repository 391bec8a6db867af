"""GenEval's own results, its prompts as questions (which is not GenEval), and GenEval 2 with Soft-TIFA."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from commands import cli

from titjudge.core import registry
from titjudge.core.answer_probabilities import Probability, tokens_by_choice
from titjudge.core.errors import DataError, Unanswered
from titjudge.core.types import InvalidItem, Item, Reply, Score, Status
from titjudge.metrics.answer_rules import VisualQuestion
from titjudge.metrics.questions import geometric_mean, questions, soft_tifa, tokens_of
from titjudge.suites.geneval_results import TASKS, aggregate_results
from titjudge.suites.question_data import geneval_questions

POSITION = {
    "tag": "position",
    "include": [{"class": "dog", "count": 1}, {"class": "car", "count": 1, "position": ["left of", 0], "color": "red"}],
    "prompt": "a photo of a car left of a dog",
}
COUNTING = {
    "tag": "counting",
    "include": [{"class": "clock", "count": 2}],
    "exclude": [{"class": "clock", "count": 3}],
    "prompt": "a photo of two clocks",
}


def test_results_of_several_generators(tmp_path: Path) -> None:
    for name, marks in (("a", (True, False)), ("b", (True, True))):
        lines = [{"tag": "colors", "correct": mark, "metadata": "m"} for mark in marks]
        lines.append({"tag": "counting", "correct": False, "metadata": "n"})
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found, (table,) = aggregate_results([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])
    assert found["a"]["tasks"] == {"colors": 0.5, "counting": 0.0}
    assert (found["a"]["overall"], found["a"]["prompts_any"], found["a"]["prompts_all"]) == (0.25, 0.5, 0.0)
    assert table.rows[1] == ("b", 3, 2, 0.5, 0.0, 1.0, 2 / 3, 0.5, 0.5)
    assert table.columns[4:6] == ("counting", "colors")
    given = ("a.jsonl", "b.jsonl", "--json", "t.json")
    assert table.title in cli(tmp_path, "suites", "aggregate", "geneval", *given)
    assert json.loads((tmp_path / "t.json").read_text()) == found
    assert "c.jsonl" in cli(tmp_path, "suites", "aggregate", "geneval", "c.jsonl", code=2)


@pytest.mark.parametrize(
    ("without", "more", "prompts", "says"),
    [
        ((), (), 553, []),
        (("color_attr",), (), 553, ["color_attr"]),
        ((), ("negation",), 553, ["negation"]),
        ((), (), 552, ["552"]),
        ((), (), 560, ["560"]),
        (("counting", "colors"), ("negation",), 42, ["counting, colors", "negation", "42"]),
    ],
)
def test_missing_and_unknown_tasks_and_prompts_are_noted(
    tmp_path: Path, without: tuple[str, ...], more: tuple[str, ...], prompts: int, says: list[str]
) -> None:
    tasks = [task for task in (*TASKS, *more) if task not in without]
    rows = [{"tag": tasks[n % len(tasks)], "correct": True, "metadata": str(n)} for n in range(prompts)]
    (tmp_path / "flux.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (_, *notes) = aggregate_results([tmp_path / "flux.jsonl"])[1][0].notes
    assert len(notes) == len(says)
    assert all(word in note and "flux" in note for word, note in zip(says, notes, strict=True))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"tag": "a", "correct": "yes", "metadata": ""}', r"r\.jsonl:1: 'correct' must be true or false, not 'yes'"),
        ('{"tag": 1, "correct": true, "metadata": ""}', r"r\.jsonl:1: 'tag' must be the name of a task"),
        ('{"correct": true, "metadata": ""}', r"r\.jsonl:1: the key 'tag' is missing"),
        ("", r"r\.jsonl: the file has no results"),
    ],
)
def test_bad_results_are_named(tmp_path: Path, line: str, says: str) -> None:
    (tmp_path / "r.jsonl").write_text(line)
    with pytest.raises(DataError, match=says):
        aggregate_results([tmp_path / "r.jsonl"])


def test_questions_are_made_of_the_metadata() -> None:
    asked = geneval_questions(POSITION)
    assert [each["question"] for each in asked] == [
        "Does the image show at least one 'dog'?", "Does the image show at least one 'car'?", "Is the car red?",
        "Is the car left of the dog?",
    ]  # fmt: skip
    assert asked[3]["parents"] == ["1", "0"]
    assert geneval_questions(COUNTING)[0]["question"] == "Does the image show exactly 2 of the object 'clock'?"


class Judge:
    """Says yes, but no to one question; or how likely an answer is."""

    siblings = ()

    def __init__(self, no: str = "", chances: tuple[float, float] | None = None, protocol: str = "strict") -> None:
        self.no, self.chances, self.protocol = no, chances, protocol
        self.choices: list[Any] = []

    async def __call__(self, template: str, **given: Any) -> Reply:
        if "choices" not in given:
            return Reply("No" if self.no and self.no in given["question"] else "Yes")
        self.choices.append(tokens_by_choice(given["choices"])["right"])
        if self.chances is None:
            raise Unanswered(Status.FAILED, "no probabilities")
        return Reply("", probabilities={"right": Probability(*self.chances), "other": Probability(0.6, 0.64)})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    lines = [POSITION, {"tag": "x", "prompt": "p", "include": [{"count": 1}]}, COUNTING, {"prompt": "p"}]
    (tmp_path / "evaluation_metadata.jsonl").write_text("\n".join(map(json.dumps, lines)))
    for name in ("00000/samples/0000.png", "00000/samples/0001.png", "00002/samples/0000.png"):
        path = tmp_path / "images/gen" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    return tmp_path


def test_not_geneval_reads_genevals_tree(data: Path) -> None:
    suite = registry.load("suites", "not-geneval")()
    found = list(suite.load(data))
    bad = [each.reason for each in found if isinstance(each, InvalidItem)]
    assert (
        bad[0]
        == "evaluation_metadata.jsonl:2: the row is not in the format of GenEval: the key 'class' is missing. Correct it"
    )
    assert bad[1] == "evaluation_metadata.jsonl:4: the key 'tag' is missing. Add it"
    items = [each for each in found if isinstance(each, Item)]
    assert [(each.prompt_id, each.sample, each.generator) for each in items] == [
        ("0", 0, "gen"),
        ("0", 1, "gen"),
        ("2", 0, "gen"),
    ]
    scores = []
    for item, no in zip(items, ("", "car red", ""), strict=True):
        score = asyncio.run(questions(item, Judge(no)))  # type: ignore[arg-type]
        scores.append(Score(item.id, "questions", score.value, parts=score.parts))
    assert [score.value for score in scores] == [1.0, 0.0, 1.0]  # all or nothing
    (table,) = suite.aggregate(items, scores)
    assert table.rows == (("gen", 3, 3, 0.75, 1.0, 0.5),)
    assert table.title.startswith("Not GenEval")


def test_the_tokens_of_right_answers() -> None:
    yes, four, dozen = (
        VisualQuestion(question="Is it red?", answer="Yes"),
        VisualQuestion(question="How many cars?", answer="four"),
        VisualQuestion(question="How many cars?", answer="dozen"),
    )
    assert tokens_of(yes, official=True) == ["Yes", "yes", " Yes", " yes"]
    assert tokens_of(four, official=True) == ["four", "Four", " four", " Four", "4", " "]
    assert tokens_of(four, official=False) == ["four", "Four", " four", " Four", "4", " 4"]
    assert tokens_of(dozen, official=True)[-2:] == ["other", " other"]
    assert "other" not in tokens_of(dozen, official=False)
    assert geometric_mean([0.5, 0.5]) == pytest.approx(0.5)
    assert geometric_mean([0.5, 0.0]) == 0.0


def test_geneval2_reads_paths_by_prompt(tmp_path: Path) -> None:
    row = {"prompt": "two cars", "atom_count": 3, "vqa_list": [["How many cars?", "two"], ["Any cars?", "Yes"]],
           "skills": ["count", "object"]}  # fmt: skip
    (tmp_path / "geneval2_data.jsonl").write_text(
        json.dumps(row) + "\n" + json.dumps({**row, "prompt": "x", "skills": []})
    )
    (tmp_path / "flux.json").write_text(json.dumps({"two cars": "a.png", "a stranger": "b.png", "x": "../c.png"}))
    suite = registry.load("suites", "geneval2")(images=str(tmp_path / "flux.json"))
    assert suite.metrics == ("soft-tifa",)
    found = list(suite.load(tmp_path))
    reasons = [each.reason for each in found if isinstance(each, InvalidItem)]
    assert reasons[0] == (
        "geneval2_data.jsonl:2: the lists of questions have different lengths: 2 of 'vqa_list[].0', 0 of 'skills[]', 2 of 'vqa_list[].1'. Complete them"
    )
    (item,) = (each for each in found if isinstance(each, Item))
    assert (item.generator, item.prompt_id, item.meta["atomicity"]) == ("flux", "0", 3)
    judge = Judge(chances=(0.25, 0.36))
    score = asyncio.run(soft_tifa(item, judge))  # type: ignore[arg-type]
    assert (score.value, score.parts["am"], score.parts["upper"]) == pytest.approx((0.25, 0.25, 0.36))
    assert judge.choices[1] == ("Yes", "yes", "YES", " Yes", " yes", " YES")
    tables = suite.aggregate([item], [Score(item.id, "soft-tifa", score.value, parts=score.parts)])
    assert tables[0].rows == (("flux", 1, 1, pytest.approx(25), pytest.approx(25)),)
    assert tables[2].columns[3:] == ("object", "count")
    with pytest.raises(Unanswered, match="no probabilities"):
        asyncio.run(soft_tifa(item, Judge()))  # type: ignore[arg-type]


def test_a_list_of_paths_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "geneval2_data.jsonl").write_text(
        json.dumps({"prompt": "p", "atom_count": 3, "vqa_list": [["Any?", "Yes"]], "skills": ["object"]})
    )
    load = registry.load("suites", "geneval2")
    for content, says in (
        ("[]", "must be an object of prompts and image paths"),
        ('{"q": "a.png"}', "none of its 1 keys is a prompt"),
    ):
        (tmp_path / "paths.json").write_text(content)
        with pytest.raises(DataError, match=says):
            list(load(images=str(tmp_path / "paths.json")).load(tmp_path))


def test_soft_tifa_needs_half_of_the_probability_on_possible_answers() -> None:
    """Strict: no score for a model that begins with something else; official: the published number, with a reason."""
    asked = {"questions": [{"question": "Any cars?"}, {"question": "How many cars?", "answer": "two"}]}
    item = Item(id="a", prompt="two cars", prompt_id="p", image=Path("a.png"), meta={"asked": asked})

    class Unsure(Judge):
        async def __call__(self, template: str, **given: Any) -> Reply:
            self.choices.append(given["choices"])
            return Reply("", probabilities={"right": Probability(0.1, 0.1), "other": Probability(0.2, 0.2)})

    with pytest.raises(Unanswered, match=r"30\.0% of the probability"):
        asyncio.run(soft_tifa(item, Unsure()))  # type: ignore[arg-type]
    judge = Unsure(protocol="official")
    score = asyncio.run(soft_tifa(item, judge))  # type: ignore[arg-type]
    assert (score.value, score.parts["mass"]) == pytest.approx((0.1, 0.3))
    assert "30.0%" in score.reason
    assert not {token for choices in judge.choices for token in choices["right"]} & set(judge.choices[0]["other"])
    assert {"No", " no"} <= set(judge.choices[0]["other"])
    assert {"3", " three", "Ten", "0"} <= set(judge.choices[1]["other"])
