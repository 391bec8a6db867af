"""Suites that are a YAML file: what they read, how they ask, what they refuse."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from titjudge.core import registry
from titjudge.core.errors import ConfigError, DataError, Unanswered
from titjudge.core.types import InvalidItem, Item, Reply, Score, Status
from titjudge.metrics.answer_rules import RULES, VisualQuestion
from titjudge.metrics.questions import Asked, after_parents, questions
from titjudge.suites.base import SuiteInputs
from titjudge.suites.question_suite import QuestionSuite

SPEC: dict[str, Any] = {
    "name": "mine",
    "summary": "mine",
    "prompts": {"files": ["prompts.csv"], "id": "id", "fields": {"theme": "theme"}, "rows": "questions"},
    "questions": {"question": "question", "category": "kind", "id": "number", "parents": "after"},
    "tables": [
        {"title": "by theme", "by": "theme"},
        {"title": "by kind", "mean": "answers", "by": "category", "upto": ["-"], "overall": None},
    ],
}
ROWS = """id,prompt,theme,number,question,kind,after
1,a red cat,animals,1,Is there a cat?,entity - whole,0
1,a red cat,animals,2,Is the cat red?,attribute - colour,1
2,a blue house,places,1,Is there a house?,entity - whole,0
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "prompts.csv").write_text(ROWS)
    for name in ("a/1.png", "a/2.png", "b/1.webp"):
        path = tmp_path / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    return tmp_path


def suite(folder: Path, protocol: str = "strict", **changes: Any) -> QuestionSuite:
    file = folder / "mine.yaml"
    file.write_text(json.dumps(SPEC | changes))  # JSON is YAML
    made: QuestionSuite = registry.load("suites", str(file))(SuiteInputs(protocol))
    return made


class Scripted:
    """Answers by the question."""

    siblings = ()

    def __init__(self, said: Mapping[str, str | Status], protocol: str = "strict") -> None:
        self.said, self.protocol, self.asked = said, protocol, list[dict[str, Any]]()

    async def __call__(self, template: str, **given: Any) -> Reply:
        self.asked.append({"template": template, **given})
        text = self.said.get(given.get("question", ""), "yes")
        if isinstance(text, Status):
            raise Unanswered(text, "no answer")
        return Reply(text)


def score(item: Item, ask: Scripted) -> Score:
    found = asyncio.run(questions(item, ask))  # type: ignore[arg-type]
    return Score(item.id, "questions", found.value, found.status, found.reason, found.parts)


def test_a_file_of_ones_own_is_read_asked_and_tabled(data: Path) -> None:
    mine = suite(data)
    items = list(mine.load(data))
    assert [(item.id, item.generator, item.prompt_id) for item in items] == [
        ("a/1.png", "a", "1"), ("a/2.png", "a", "2"), ("b/1.webp", "b", "1"),
    ]  # fmt: skip
    ask = Scripted({"Is there a cat?": "No.", "Is there a house?": "yes"})
    tables = mine.aggregate(items, [score(item, ask) for item in items])  # type: ignore[arg-type]
    assert tables[0].columns == ("generator", "images", "scored", "overall", "animals", "places")
    assert tables[0].rows == (("a", 2, 2, 50.0, 0.0, 100.0), ("b", 1, 1, 0.0, 0.0, None))  # the child of a no is a no
    assert tables[1].columns == ("generator", "images", "scored", "attribute", "entity")
    assert tables[1].rows[0][3:] == (0.0, 50.0)
    assert {each["template"] for each in ask.asked} == {"questions/yes_no"}
    assert ask.asked[0]["prompt"] == "a red cat"
    assert ask.asked[0]["fields"]["theme"] == "animals"


def test_an_image_with_a_question_without_answer_has_no_score(data: Path) -> None:
    mine = suite(data)
    items = [item for item in mine.load(data) if isinstance(item, Item)]
    for said in (Status.REFUSED, Status.TRUNCATED, Status.FAILED, "perhaps"):
        with pytest.raises(Unanswered, match="1 of 2 questions without an answer"):
            score(items[0], Scripted({"Is the cat red?": said}))
    table = mine.aggregate(items, [])[0]
    assert table.rows[0] == ("a", 2, 0, None)
    assert list(table.declared.excluded) == ["no_score"]
    assert sum(map(len, table.declared.excluded["no_score"].values())) == 3


def test_what_may_be_skipped_and_what_is_asked_again(data: Path) -> None:
    mine = suite(data, "official", official={"ask": {"unanswered": "skip"}})
    first = next(item for item in mine.load(data) if isinstance(item, Item))
    assert score(first, Scripted({"Is the cat red?": Status.REFUSED})).value == 1.0
    with pytest.raises(Unanswered, match="no answer"):  # an outage is no refusal
        score(first, Scripted({"Is the cat red?": Status.FAILED}))
    with pytest.raises(Unanswered):
        score(first, Scripted({"Is the cat red?": Status.REFUSED, "Is there a cat?": Status.REFUSED}))


def test_a_cut_reply_is_asked_for_with_more_tokens_and_never_skipped(data: Path) -> None:
    mine = suite(data, ask={"max_tokens": 512, "max_tokens_again": [2048, 8192], "unanswered": "skip"})
    first = next(item for item in mine.load(data) if isinstance(item, Item))

    class CutBelow(Scripted):
        async def __call__(self, template: str, **given: Any) -> Reply:
            reply = await super().__call__(template, **given)
            if given["question"] == "Is the cat red?" and given["params"]["max_tokens"] < self.enough:
                raise Unanswered(Status.TRUNCATED, "cut")
            return reply

        enough = 8192

    ask = CutBelow({"Is the cat red?": "no"})
    assert score(first, ask).value == 0.5
    limits = [each["params"]["max_tokens"] for each in ask.asked if each["question"] == "Is the cat red?"]
    assert limits == [512, 2048, 8192]
    ask.enough = 10_000
    with pytest.raises(Unanswered, match="1 of 2 questions without an answer; cut"):
        score(first, ask)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"surprise": 1}, "unknown key 'surprise'."),
        ({"tables": [{"title": "t", "overal": "all"}]}, "unknown key 'tables.0.overal'. Did you mean 'overall'?"),
        ({"questions": [{"quesion": "Is it good?"}]}, "unknown key 'questions.0.quesion'. Did you mean 'question'?"),
        ({"questions": {"question": "q", "categry": "c"}}, "unknown key 'questions.categry'. Did you mean 'category'?"),
        ({"official": {"ask": {"trys": 2}}}, "unknown key 'official.ask.trys'. Did you mean 'tries'?"),
        ({"variants": {"two": {"aks": {}}}}, "unknown key 'variants.two.aks'. Did you mean 'ask'?"),
        ({"tables": [{"by": "theme"}]}, "'tables.0.title' is missing"),
        ({"tables": []}, "tables: List should have at least 1 item"),
        ({"ask": {"answer": "guess"}}, "ask.answer: unknown answer rule 'guess'"),
        ({"official": {"ask": {"tries": 0}}}, "official.ask.tries: must be greater"),
        ({"tables": [{"title": "t", "by": "mood"}]}, "tables.0.by: unknown field 'mood'"),
        (
            {"tables": [{"title": "t", "where": {"mood": "sad"}}]},
            "tables.0.where: unknown field 'mood'",
        ),
        ({"prompts": {"files": []}}, "prompts.files"),
        ({"metric": "question"}, "metric: unknown metric 'question'. Did you mean 'questions'?"),
        ({"metric": "viescore-edit"}, "questions: viescore-edit has fixed questions"),
        ({"questions": []}, "questions: questions requires them"),
    ],
)
def test_a_wrong_key_is_named_with_its_file(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        suite(tmp_path, **change)
    assert str(caught.value).startswith(f"{tmp_path / 'mine.yaml'}: ")
    assert says in str(caught.value)


def test_a_file_is_plain_data(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("name: !!python/object/apply:os.system [echo]\n")
    with pytest.raises(ConfigError, match="line 1: a special character begins a text"):
        registry.load("suites", str(tmp_path / "bad.yaml"))
    with pytest.raises(ConfigError, match=r"absent\.yaml"):
        registry.load("suites", str(tmp_path / "absent.yaml"))


def test_only_rows_with_the_wanted_value_are_prompts(data: Path) -> None:
    chosen = suite(data, prompts=SPEC["prompts"] | {"where": {"theme": "Animals"}})
    assert {item.prompt_id for item in chosen.load(data) if isinstance(item, Item)} == {"1"}
    none = suite(data, prompts=SPEC["prompts"] | {"where": {"theme": "plants"}})
    with pytest.raises(DataError, match="the file has no rows with theme=plants"):
        list(none.load(data))


@pytest.mark.parametrize(
    "change", [{"images": ["../{generator}/{prompt_id}"]}, {"prompts": SPEC["prompts"] | {"folders": [".."]}}]
)
def test_a_file_leads_nowhere_else(data: Path, change: dict[str, Any]) -> None:
    below = data / "below"
    below.mkdir()
    (below / "prompts.csv").write_text(ROWS)
    with pytest.raises(DataError, match="outside"):
        list(suite(below, **change).load(below))


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("3,p,t,1,Q?,k,9\n", "prompts.csv:2: question 1 of '3' has the parent 9, which does not exist. Correct them"),
        ("3,p,t,1,Q?,k,0\n3,p,t,1,R?,k,0\n", "prompts.csv:2: two questions of '3' have one id. Correct them"),
        ("3,p,t,1,,k,0\n", "prompts.csv:2: a question is empty. Write its text"),
        (",p,t,1,Q?,k,0\n", "prompts.csv:2: 'id' must be an id, not ''"),
        ("3, ,t,1,Q?,k,0\n", "prompts.csv:2: 'prompt' must be a prompt, not ' '"),
    ],
)
def test_a_bad_row_is_named_and_the_rest_is_read(data: Path, rows: str, says: str) -> None:
    header, rest = ROWS.split("\n", 1)
    (data / "prompts.csv").write_text(f"{header}\n{rows}{rest}")
    found = list(suite(data).load(data))
    assert [item.reason for item in found if isinstance(item, InvalidItem)] == [says]
    assert sum(isinstance(item, Item) for item in found) == 3


def test_missing_files_are_named(tmp_path: Path, data: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError, match=r"no prompts found here. Add prompts\.csv"):
        list(suite(data).load(empty))
    (empty / "prompts.csv").write_text(ROWS.split("\n", 1)[0])
    with pytest.raises(DataError, match=r"prompts\.csv: the file has no rows below the first line"):
        list(suite(data).load(empty))
    (empty / "prompts.csv").write_text(ROWS)
    with pytest.raises(
        DataError, match=r"no images found. Name them images/\{generator\}/\{prompt_id\}_\{sample\}\.png or"
    ):
        list(suite(data).load(empty))


def test_images_elsewhere_by_a_pattern(data: Path) -> None:
    suite(data)
    mine = registry.load("suites", str(data / "mine.yaml"))(
        images=str(data / "images" / "{generator}" / "{prompt_id}.png")
    )
    assert [item.id for item in mine.load(data)] == ["a/1.png", "a/2.png"]


def test_a_variant_changes_keys(data: Path) -> None:
    suite(data, variants={"two": {"prompts": {"files": ["two.csv"]}, "ask": {"max_tokens": 7}}})
    (data / "two.csv").write_text(ROWS.replace("red cat", "green cat"))
    load = registry.load("suites", str(data / "mine.yaml"))
    items = [item for item in load(variant="two").load(data) if isinstance(item, Item)]
    assert items[0].prompt == "a green cat"
    assert items[0].meta["asked"]["max_tokens"] == 7
    with pytest.raises(ConfigError, match=r"the suite mine: unknown variant 'three'\. Known: two"):
        load(variant="three")
    with pytest.raises(ConfigError, match=r"variants\.two\.ask\.tries"):
        suite(data, variants={"two": {"ask": {"tries": 0}}})


def test_zeros_are_handed_down_only_where_they_are_chained() -> None:
    asked = {"questions": [{"id": n, "question": n, "parents": p} for n, p in (("1", []), ("2", ["1"]), ("3", ["2"]))]}
    assert after_parents(Asked.model_validate(asked), [0, 1, 1]) == [0, 0, 1]
    assert after_parents(Asked.model_validate(asked | {"parents": "chained"}), [0, 1, 1]) == [0, 0, 0]


@pytest.mark.parametrize(
    ("rule", "text", "wanted"),
    [
        ("yes-no", "<think>yes</think>no", [0.0]),
        ("yes-no", "<think>yes or", None),
        ("labels", "Score: 1", [1.0]),
        ("labels", "**Score:** 1\n", [1.0]),
        ("labels", "Score: 1\nScore: 0", None),
        ("labels", "Score: 2", None),
        ("labels", "a Score: 1", None),
        ("score-list", "<score>[1]</score>", [1.0]),
        ("score-list", "<score>[True]</score>", None),
        ("score-list", "<score>[1, 0]</score>", None),
        ("score-list", "<score>[__import__('os')]</score>", None),
        ("one-or-zero", "<think>0</think> 1.", [1.0]),
        ("one-or-zero", "**0**", [0.0]),
        ("one-or-zero", "10", None),
        ("one-or-zero", "1 (yes) or 0", None),
        ("unigenbench", "<analysis>['a']</analysis><score>['1']</score>", [0.0]),
        ("unigenbench", "<score>[1]</score>", None),
        ("unigenbench", f"<analysis>['a']</analysis><score>{'[' * 5000}</score>", None),
    ],
)
def test_what_a_rule_reads(rule: str, text: str, wanted: list[float] | None) -> None:
    assert RULES[rule].read(text, [VisualQuestion(question="Score")]) == wanted


@pytest.mark.parametrize("protocol", ["strict", "official"])
def test_the_qwen_branch_of_t2i_corebench_is_a_variant(protocol: str) -> None:
    spec = registry.load("suites", "t2i-corebench").spec
    gemini, qwen = spec.asking(protocol), spec.variant("qwen").asking(protocol)
    official = protocol == "official"
    assert (gemini.template, gemini.repetition_penalty) == ("t2i_corebench/question", None)
    assert (qwen.template, qwen.repetition_penalty) == ("t2i_corebench/question_system", 1.05 if official else None)
    assert gemini.max_tokens_again == qwen.max_tokens_again == ([2048, 8192] if official else [])


def test_the_system_turn_of_t2i_corebench_ends_with_its_line_feed() -> None:
    from titjudge.core.prompts import PromptLibrary

    given = {"prompt": "p", "question": "q", "fields": {}}
    system, user = PromptLibrary().get("t2i_corebench/question_system").messages(given)
    whole = PromptLibrary().get("t2i_corebench/question").messages(given)[0].text
    assert whole == f"{system.text}\n{user.text}"
    assert len(system.text) == 1935


@pytest.mark.parametrize(("variant", "language", "scene"), [("", "en", "scene_name"), ("zh", "zh", "type")])
def test_wegenbench_weighs_its_questions(tmp_path: Path, variant: str, language: str, scene: str) -> None:
    asked = [{"question": name, "type": "object", "weight": weight} for name, weight in (("cat?", 30), ("text?", 10))]
    row = {"id": "ip_000.png", "prompt": "a cat", scene: "Animals", "style": "", "questions": asked}
    folder = tmp_path / "evaluation/Consistency/QA/questions"
    folder.mkdir(parents=True)
    (folder / f"wegenbench_general_{language}_questions.jsonl").write_text(json.dumps(row))
    (tmp_path / "images/gen").mkdir(parents=True)
    prefix = {"en": "en", "zh": "cn"}[language]
    (tmp_path / f"images/gen/{prefix}_ip_000.png").write_bytes(b"")
    wegenbench = registry.load("suites", "wegenbench")(**({"variant": variant} if variant else {}))
    (item,) = wegenbench.load(tmp_path)
    assert (item.id, item.prompt_id) == (f"gen/{prefix}_ip_000.png", "ip_000")
    found = score(item, Scripted({"cat?": "1", "text?": "0"}))
    assert found.value == 0.75
    scenes, kinds = wegenbench.aggregate([item], [found])
    assert (scenes.columns[3:], scenes.rows[0][3:]) == (("overall", "Animals"), (0.75, 0.75))
    assert (kinds.columns[3:], kinds.rows[0][3:]) == (("object",), (50.0,))
    with pytest.raises(Unanswered, match="one-or-zero"):
        score(item, Scripted({"cat?": "perhaps"}))
    (folder / f"wegenbench_general_{language}_questions.jsonl").write_text('{"id": "ip_000.png", "pro')
    with pytest.raises(DataError, match=f"no prompt can be used. .*{language}_questions.jsonl:1"):
        list(wegenbench.load(tmp_path))


@pytest.mark.parametrize(
    "name", ["wegenbench", "t2i-corebench", "wise", "wise-verified", "dpg-bench", "unigenbench", "geneval2"]
)
def test_bundled_files_name_what_is_there(name: str) -> None:
    from titjudge.core.prompts import PromptLibrary

    spec = registry.load("suites", name).spec
    assert spec.name == name
    specs = [spec, *map(spec.variant, spec.variants)]
    for asking in (each.asking(protocol) for each in specs for protocol in ("strict", "official")):
        plural = "questions" if asking.each == "image" else "question"
        assert PromptLibrary().get(asking.template).variables == {"prompt", "fields", plural}
