import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from titjudge.core.errors import Unanswered
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import ImageFile, Item, Reply, Score, Status
from titjudge.metrics.graph_alignment import (
    OFFICIAL_DECODING,
    Graph,
    GraphVerdict,
    PromptGraph,
    forced,
    graph_alignment,
    ratio,
    read_verdict,
)
from titjudge.metrics.longt2ibench_text import CATEGORIES, Alignment, parse_target, read_elements, split_list

TEXT = """<level> all entity:
 cat,mat

entity_score:
  align: [cat]
  misalign: [mat]

attribute_score:
  align: [[black, small]cat]
  misalign: [[red]mat]

relation_score:
  align: []
  misalign: [cat[lies on]mat]"""
ALIGNMENT = {
    "entity": [(("cat",), True), (("mat",), False)],
    "attribute": [(("cat", "black"), True), (("cat", "small"), True), (("mat", "red"), False)],
    "relation": [(("cat", "lies on", "mat"), False)],
}
GRAPH = Graph(("cat", "mat"), (("cat", "black"), ("mat", "red")), (("cat", "lies on", "mat"),))
PICTURE = ImageFile("0", "image/png", 1, 1, Path("x"), bytes)


def write(alignment: Alignment) -> str:
    """The target text of an alignment, as train.py writes it."""
    lines = ["all entity:\n " + ",".join(element[0] for element, _ in alignment["entity"])]
    for category in CATEGORIES:
        block = [f"{category}_score:"]
        for label, wanted in (("align", True), ("misalign", False)):
            elements = [element for element, aligned in alignment[category] if aligned is wanted]
            if category == "attribute":
                groups: dict[str, list[str]] = {}
                for entity, attribute in elements:
                    groups.setdefault(entity, []).append(attribute)
                shown = [f"[{', '.join(attributes)}]{entity}" for entity, attributes in groups.items()]
            elif category == "relation":
                shown = [f"{one}[{relation}]{two}" for one, relation, two in elements]
            else:
                shown = [element[0] for element in elements]
            block.append(f"  {label}: [{', '.join(shown)}]")
        lines.append("\n".join(block))
    return "\n\n".join(lines)


def as_sets(alignment: Alignment) -> dict[str, set[Any]]:
    return {category: set(alignment[category]) for category in CATEGORIES}


# -- the text ----------------------------------------------------------------------------------------------------------


def test_the_target_text() -> None:
    parsed = parse_target(TEXT)
    assert parsed is not None
    assert parsed.alignment == ALIGNMENT
    assert (parsed.entities, parsed.complete, parsed.problems) == (("cat", "mat"), True, ())
    assert write(ALIGNMENT) == TEXT.removeprefix("<level> ")


@pytest.mark.parametrize(
    "text",
    [
        f"<think>all entity: x entity_score: align: [dog]</think>\n{TEXT}",
        f"'{TEXT}'",
        f"```\n{TEXT}\n```\nThe mat [red] is missing.",
        TEXT.replace("\n", "\r\n"),
        TEXT.replace("_score:", "_score**:").replace("align:", "Align:"),
        TEXT.replace("align: ", "aligned: "),
        TEXT.replace("]\n", "] \n") + "  ",
        f"{TEXT}\n\nentity_score:\n  align: [dog]\n  misalign: []",
    ],
)
def test_ways_to_write_it(text: str) -> None:
    parsed = parse_target(text)
    assert parsed is not None
    assert parsed.alignment == ALIGNMENT
    assert parsed.complete


@pytest.mark.parametrize("text", ["", "I cannot see the image.", '{"score": 1}', "all entity: cat, mat"])
def test_no_lists_no_parse(text: str) -> None:
    assert parse_target(text) is None


def test_a_text_that_is_cut_off_is_never_complete_and_holds_nothing_false() -> None:
    whole = as_sets(ALIGNMENT)
    for end in range(TEXT.index("entity_score") + 14, len(TEXT)):
        parsed = parse_target(TEXT[:end])
        assert parsed is not None
        assert not parsed.complete, end
        assert parsed.problems
        for category, marks in as_sets(parsed.alignment).items():
            assert marks <= whole[category], end


def test_missing_lists_are_named() -> None:
    parsed = parse_target("entity_score:\n align: [cat]\nrelation_score:\n align: []\n misalign: []")
    assert parsed is not None
    assert not parsed.complete
    assert "entity_score has no misalign list" in parsed.problems
    assert "attribute_score has no align list" in parsed.problems


def test_unreadable_entries_are_named_and_left_out() -> None:
    text = TEXT.replace("[cat[lies on]mat]", "[cat lies on mat]").replace("[red]mat", "[red]")
    parsed = parse_target(text)
    assert parsed is not None
    assert parsed.alignment["relation"] == []
    assert parsed.complete
    assert parsed.problems == (
        "attribute_score: '[red]' cannot be read",
        "relation_score: 'cat lies on mat' cannot be read",
    )


def test_commas_and_brackets_in_names() -> None:
    assert split_list("a, b, c", ["A, B"]) == ["a, b", "c"]
    assert read_elements("[red]cat, old, [big]dog", "attribute")[0] == [("cat, old", "red"), ("dog", "big")]
    assert read_elements("[red [dark], big]cat", "attribute")[0] == [("cat", "red [dark]"), ("cat", "big")]
    assert read_elements("cat[on]mat, old, dog[by]tree", "relation")[0] == [
        ("cat", "on", "mat, old"),
        ("dog", "by", "tree"),
    ]
    assert read_elements("cat, old[on]mat", "relation")[0] == [("cat, old", "on", "mat")]
    known = {"relation": ["a[x]b", "c, d[y]e"]}
    assert read_elements("a[x]b, c, d[y]e", "relation", known)[0] == [("a", "x", "b"), ("c, d", "y", "e")]
    assert read_elements("sign [left][above]door", "relation", {"entity": ["sign [left]"]})[0] == [
        ("sign [left]", "above", "door")
    ]


NAMES = st.text("abcdef ", min_size=1, max_size=6).map(str.strip).filter(bool)


@st.composite
def alignments(draw: st.DrawFn, names: st.SearchStrategy[str] = NAMES) -> Alignment:
    entities = draw(st.lists(names, min_size=1, max_size=4, unique_by=str.casefold))
    entity = st.sampled_from(entities)
    attributes = draw(st.lists(st.tuples(entity, NAMES), max_size=5, unique=True))
    relations = draw(st.lists(st.tuples(entity, NAMES, entity), max_size=4, unique=True))
    verdict = st.booleans()
    return {
        "entity": [((name,), draw(verdict)) for name in entities],
        "attribute": [(each, draw(verdict)) for each in attributes],
        "relation": [(each, draw(verdict)) for each in relations],
    }


@given(alignments())
def test_what_is_written_is_read(alignment: Alignment) -> None:
    parsed = parse_target(write(alignment))
    assert parsed is not None
    assert parsed.complete
    assert as_sets(parsed.alignment) == as_sets(alignment)


@given(st.text("[], abc:\n", max_size=60))
def test_no_text_crashes_the_parser(text: str) -> None:
    parse_target(f"entity_score: align: [{text} relation_score: misalign: [{text}")


# -- ratio and force ---------------------------------------------------------------------------------------------------


def test_misaligned_entities_force_what_is_theirs() -> None:
    alignment: Alignment = {
        "entity": [(("Cat",), False), (("mat",), True), (("dog",), False), (("dog",), True)],
        "attribute": [(("cat", "black"), True), (("mat", "red"), True), (("dog", "old"), True)],
        "relation": [(("mat", "under", "cat"), True), (("mat", "by", "dog"), True), (("cat", "on", "mat"), False)],
    }
    mended, changed = forced(alignment)
    assert changed == 2
    assert [aligned for _, aligned in mended["attribute"]] == [False, True, True]
    assert [aligned for _, aligned in mended["relation"]] == [False, True, False]
    assert ratio(mended) == 5 / 10


@given(alignments())
def test_forcing_only_takes_away(alignment: Alignment) -> None:
    mended, changed = forced(alignment)
    before, after = ratio(alignment), ratio(mended)
    assert before is not None
    assert after is not None
    total = sum(len(alignment[category]) for category in CATEGORIES)
    assert after == pytest.approx(before - changed / total)
    assert forced(mended) == (mended, 0)


def test_no_elements_no_ratio() -> None:
    assert ratio({"entity": [], "attribute": [], "relation": []}) is None


# -- verdicts ----------------------------------------------------------------------------------------------------------


def verdict(entities: Sequence[bool], attributes: Sequence[bool] = (), relations: Sequence[bool] = ()) -> GraphVerdict:
    def numbered(values: Sequence[bool]) -> list[dict[str, Any]]:
        return [{"number": i, "seen": "", "aligned": value} for i, value in enumerate(values, 1)]

    return GraphVerdict.model_validate(
        {
            "entities": numbered(entities),
            "attributes": numbered(attributes),
            "relations": numbered(relations),
            "summary": "s",
        }
    )


def test_every_element_needs_one_verdict() -> None:
    alignment, reason = read_verdict(GRAPH, verdict([True, True], [True, False], [True]))
    assert reason == ""
    assert alignment is not None
    assert ratio(alignment) == 4 / 5
    assert read_verdict(GRAPH, verdict([True], [True, True], [True])) == (None, "no verdict on entity 2")
    assert read_verdict(GRAPH, verdict([True, True], [True], []))[1] == "no verdict on attribute 2, relation 1"


def test_what_belongs_to_an_absent_entity_needs_none() -> None:
    alignment, _ = read_verdict(GRAPH, verdict([True, False], [True]))
    assert alignment is not None
    assert ratio(alignment) == 2 / 5


def test_two_verdicts_on_one_element() -> None:
    twice = verdict([True, True], [True, True], [True])
    twice.entities.append(twice.entities[0].model_copy(update={"aligned": False}))
    assert read_verdict(GRAPH, twice) == (None, "two verdicts on entity 1")


@pytest.mark.parametrize(
    "raw",
    [
        {"entities": [], "relations": []},
        {"entities": [{"name": "", "attributes": []}], "relations": []},
        {"entities": [{"name": "a", "attributes": []}] * 2, "relations": []},
        {
            "entities": [{"name": "a", "attributes": []}],
            "relations": [{"subject": "a", "relation": "on", "object": "b"}],
        },
    ],
)
def test_graphs_that_make_no_sense(raw: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        PromptGraph.model_validate(raw)


# -- the metric --------------------------------------------------------------------------------------------------------


class Scripted:
    def __init__(self, protocol: str, *replies: Reply | Exception) -> None:
        self.protocol, self.replies, self.calls = protocol, list(replies), list[dict[str, Any]]()

    async def __call__(self, template: str, **rest: Any) -> Reply:
        self.calls.append({"template": template, **rest})
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def run(ask: Scripted, item: Item | None = None) -> Score:
    item = item or Item("1", "a black cat on a red mat", Path("1.png"))
    return asyncio.run(graph_alignment(item, ask))  # type: ignore[arg-type]


def data(value: BaseModel) -> Reply:
    return Reply("{}", data=value)


EXTRACTED = PromptGraph.model_validate(
    {
        "entities": [{"name": "cat", "attributes": ["black"]}, {"name": "mat", "attributes": ["red", ""]}],
        "relations": [{"subject": "cat", "relation": "lies on", "object": "mat"}] * 2,
    }
)


def test_strict_extracts_then_aligns() -> None:
    ask = Scripted("strict", data(EXTRACTED), data(verdict([True, False], [True, True], [True])))
    score = run(ask)
    assert [call["template"] for call in ask.calls] == ["longt2ibench/extract_graph", "longt2ibench/align_graph"]
    assert "images" not in ask.calls[0]
    assert ask.calls[1]["relations"] == [("cat", "lies on", "mat")]
    assert (score.value, score.parts["forced"], score.parts["ratio_as_answered"]) == (2 / 5, 2, 4 / 5)
    assert score.parts["graph_from"] == "extracted"


def test_strict_takes_the_graph_of_the_data() -> None:
    ask = Scripted("strict", data(verdict([True, True], [True, True], [True])))
    score = run(ask, Item("1", "p", Path("1.png"), meta={"graph": GRAPH.to_json()}))
    assert (score.value, score.parts["graph_from"], len(ask.calls)) == (1, "the data", 1)
    assert Graph.from_json(GRAPH.to_json()) == GRAPH
    annotated = {
        "attributes": {"cat": {"colour": "black"}},
        "relations": [{"entity1": "cat", "relation": "on", "entity2": "mat"}],
    }
    read = Graph.from_json({"entities": ["cat", "mat"], **annotated})
    assert read == Graph(("cat", "mat"), (("cat", "colour: black"),), (("cat", "on", "mat"),))


@pytest.mark.parametrize(
    "graph",
    [["cat"], {"entities": ["cat"], "attributes": [["cat"]]}, {"entities": 3}, {"entities": ["cat"], "relations": 5}],
)
def test_a_graph_of_another_form_is_the_items_fault_and_says_the_form(graph: Any) -> None:
    with pytest.raises(Unanswered, match=r"does not have the form entities: \[name\]") as failure:
        run(Scripted("strict"), Item("1", "p", Path("1.png"), meta={"graph": graph}))
    assert failure.value.status is Status.BAD_INPUT


def test_strict_an_incomplete_verdict_is_no_score() -> None:
    score = run(Scripted("strict", data(EXTRACTED), data(verdict([True, True]))))
    assert (score.value, score.status) == (None, Status.UNPARSED)
    assert "attribute 1" in score.reason


def test_no_answer_is_no_score() -> None:
    with pytest.raises(Unanswered):
        run(Scripted("strict", Unanswered(Status.REFUSED, "no")))


def test_official_asks_as_published_and_reads_the_text() -> None:
    ask = Scripted("official", Reply(TEXT))
    score = run(ask)
    assert ask.calls[0]["template"] == "longt2ibench/ha_cot"
    assert ask.calls[0]["params"] == OFFICIAL_DECODING
    assert score.value == 3 / 6
    assert score.parts["alignment"]["relation"] == [[["cat", "lies on", "mat"], False]]


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (Reply("no idea"), Status.UNPARSED),
        (Reply(TEXT[:-20], status=Status.TRUNCATED), Status.TRUNCATED),
        (Reply(TEXT[:-20]), Status.UNPARSED),
        (Reply("".join(f"{c}_score: align: [] misalign: []\n" for c in CATEGORIES)), Status.UNPARSED),
    ],
)
def test_official_answers_without_a_score(reply: Reply, status: Status) -> None:
    score = run(Scripted("official", reply))
    assert (score.value, score.status) == (None, status)
    assert score.reason


def test_items_that_cannot_be_asked_about() -> None:
    score = run(Scripted("strict"), Item("1", " ", Path("x")))
    assert (score.value, score.status) == (None, Status.BAD_INPUT)


# -- prompts -----------------------------------------------------------------------------------------------------------


def test_the_official_prompt_is_the_published_one() -> None:
    system, user = PromptLibrary().get("longt2ibench/ha_cot").messages({"prompt": "P"}, [PICTURE])
    assert hashlib.sha256(system.text.encode()).hexdigest()[:16] == "d2e980d0af53d164"
    text, picture = user.parts
    assert isinstance(text, str)
    assert picture == PICTURE
    assert text.startswith("Text:P\n")
    assert hashlib.sha256(text.removeprefix("Text:P").encode()).hexdigest()[:16] == "f3fcdccfa63a1dd6"


def test_the_elements_are_numbered_in_the_prompt() -> None:
    prompt = PromptLibrary().get("longt2ibench/align_graph")
    variables = {"prompt": "P", "entities": ["cat", "{{ x }}"], "attributes": [("cat", "red")], "relations": []}
    text = prompt.messages(variables, [PICTURE])[-1].text
    assert "\n1. cat\n2. {{ x }}\n" in text
    assert "Attributes:\n1. cat: red\n" in text
    assert "Relations:\n(none)\n" in text


@pytest.mark.parametrize("name", ["tree, bare", "cup of tea, hot, sweet", "old man (seated), alone"])
def test_official_names_of_the_data_keep_their_commas(name: str) -> None:
    graph = Graph((name, "lamp"), ((name, "made of tin, rusty"), (name, "red")), (("lamp", "on, or by,", name),))
    alignment: Alignment = {category: [(each, True) for each in graph.elements[category]] for category in CATEGORIES}
    item = Item("1", "p", Path("1.png"), meta={"graph": graph.to_json()})
    score = run(Scripted("official", Reply(write(alignment))), item)
    assert {c: [tuple(each) for each, _ in score.parts["alignment"][c]] for c in CATEGORIES} == graph.elements
