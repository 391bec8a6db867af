import asyncio
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from titjudge.core.errors import ConfigError, Unanswered
from titjudge.core.prompts import PromptLibrary
from titjudge.core.score_parts import question_counts
from titjudge.core.types import ImageFile, Item, Reply, Score, Status
from titjudge.metrics.checklist import (
    DECODING,
    checklist,
    checklist_text,
    correct,
    extract,
    gate,
    judge_answer,
    official_points,
    plain_points,
    rubric,
    sub_capabilities,
)

Q = "Quality"
PICTURE = ImageFile("0", "image/png", 1, 1, Path("x"), bytes)


def quality(**marks: Any) -> str:
    """An answer on Quality with these marks (facet names without spaces), all others N/A."""
    found = {
        sub: {facet: {"score": marks.get(facet.replace(" ", ""), "N/A")} for facet in facets}
        for sub, facets in rubric()[Q].items()
    }
    return json.dumps(found)


GOOD = quality(Noise=1, EdgeClarity=2, PhysicalLogic=0)


class Scripted:
    def __init__(self, answers: Mapping[str, str | Exception], protocol: str = "official") -> None:
        self.answers, self.protocol, self.calls = answers, protocol, list[dict[str, Any]]()

    async def __call__(self, template: str, *, role: str, images: Sequence[Path] = (), **rest: Any) -> Reply:
        self.calls.append({"template": template, "role": role, "images": images, **rest})
        answer = self.answers[rest["pillar"]]
        if isinstance(answer, Exception):
            raise answer
        return Reply(answer)


FACETS = {Q: [["Detail", "Noise"], ["Realism", "Material Texture"]], "Aesthetics": [["Composition", "Composition"]]}
ITEM = Item("g/1", "a cat", Path("1.png"), "g", "1", {"facets": FACETS})
AESTHETICS = json.dumps(
    {"Composition": {"Composition": {"score": 2}}, "Lighting": {"Lighting & Atmosphere": {"score": 0}}}
)


def run(
    answers: Mapping[str, str | Exception], protocol: str = "official", item: Item = ITEM
) -> tuple[Score, Scripted]:
    ask = Scripted(answers, protocol)
    return asyncio.run(checklist(item, ask)), ask  # type: ignore[arg-type]


# -- the prompt --------------------------------------------------------------------------------------------------------


def test_the_prompt_is_the_published_one() -> None:
    prompt = PromptLibrary().get("qwen_image_bench/pillar")
    system, user = prompt.messages({"prompt": "P", "pillar": Q, "checklist": checklist_text(Q)}, [PICTURE])
    text = "".join("<image>" if isinstance(part, ImageFile) else part for part in user.parts)
    assert hashlib.sha256(system.text.encode()).hexdigest()[:16] == "654a1e24488b20c4"
    assert len(text) == 1381
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "48bb6af4097b4bed"


def test_a_prompt_text_is_data() -> None:
    prompt = PromptLibrary().get("qwen_image_bench/pillar")
    _, user = prompt.messages({"prompt": "{{ 7 * 7 }} <image>", "pillar": Q, "checklist": "-"}, [PICTURE])
    assert "{{ 7 * 7 }} <image>" in user.text


def test_no_such_pillar() -> None:
    with pytest.raises(ConfigError, match="unknown pillar"):
        checklist_text("Charm")


# -- extraction --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"Here it is:\r\n{GOOD}\r\nthat is all",
        f"\ufeff{GOOD}",
        f"<think>{{draft}}</think>{GOOD}",
        f"{{not json}}</think>a</think>{GOOD}",
        f"<think>no braces here\n{GOOD}",
        GOOD.replace("0}", "NaN}"),
        f"[{GOOD}]  as prose [ ",
    ],
)
def test_answers_that_parse(text: str) -> None:
    assert judge_answer(text, Q).status == "ok"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n ",
        "null",
        "I cannot judge this image.",
        f"On a scale {{0,1,2}}: {GOOD}",
        f"{GOOD}\n{GOOD}",
        f"{GOOD}</think>",
        f"<think>draft {GOOD} then {GOOD}",
        GOOD[:-3],
        GOOD[:-1] + ",}",
        "{ // ok\n" + GOOD[1:],
        GOOD.replace('"', "'"),
        GOOD.replace('"', "”"),
        None,
    ],
)
def test_answers_without_a_json_object(text: str | None) -> None:
    verdict = judge_answer(text, Q)
    assert (verdict.status, verdict.level1, dict(verdict.level2)) == ("parse_failure", None, {})
    assert verdict.reason


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '[{"Noise": {"score": 1}}]',
        "0",
        "17",
        "false",
        '""',
        '"1"',
        "NaN",
        quality(Noise=math.inf),
        quality(Noise=1).replace("1", "1e999"),
        '{"Detail": {"Noise": {"score": ' + "9" * 5000 + "}}}",
        "[" * 100_000,
        17,
        ["a"],
    ],
)
def test_answers_on_which_the_official_code_crashes(text: Any) -> None:
    verdict = judge_answer(text, Q)
    assert (verdict.status, verdict.level1) == ("invalid", None)
    assert verdict.reason


def test_duplicate_keys_last_one_wins() -> None:
    assert judge_answer('{"Detail": {"Noise": {"score": 0}, "Noise": {"score": 2}}}', Q).level1 == 100


@given(st.text())
def test_no_text_crashes_it(text: str) -> None:
    assert judge_answer(text, Q).status in ("ok", "parse_failure", "invalid")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.sampled_from(["N/A", "1", "Noise", "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["Detail", "Noise", "score", "Realism", "x", "\ud800"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON_VALUES, st.sampled_from([None, [["Detail", "Noise"]]]))
def test_no_json_crashes_it_and_points_stay_in_range(value: Any, targeted: Any) -> None:
    verdict = judge_answer(json.dumps(value), Q, targeted)
    json.dumps([verdict.level2, verdict.level3], ensure_ascii=False).encode()
    numbers = [verdict.level1, *verdict.level2.values(), *(p for of in verdict.level3.values() for p in of.values())]
    assert all(number is None or 0 <= number <= 100 for number in numbers)


# -- correction --------------------------------------------------------------------------------------------------------


def test_flat_answers_find_their_sub_capabilities() -> None:
    marks = {"Noise": {"score": 1}, "Edge Clarity": 2, "Charm": {"score": 0}}
    assert correct(marks, Q) == {"Detail": {"Noise": {"score": 1}, "Edge Clarity": 2}, "Charm": {"Charm": {"score": 0}}}


def test_flat_answers_with_bare_numbers_have_no_score() -> None:
    verdict = judge_answer('{"Noise": 1, "Edge Clarity": 2}', Q)
    assert (verdict.status, verdict.level1, verdict.reason) == ("ok", None, "no facet was marked 0, 1 or 2")


def test_a_facet_moves_home_and_unknown_names_stay_and_count() -> None:
    verdict = judge_answer('{"Realism": {"Noise": {"score": 1}}, "Mood": {"Charm": {"score": 0}}}', Q)
    assert verdict.level2 == {"Detail": 60.0, "Mood": 0.0}
    assert verdict.level1 == 30
    assert verdict.foreign == ("Mood / Charm",)


def test_nested_then_flat_makes_sub_capabilities_of_facets() -> None:
    verdict = judge_answer('{"Detail": {"Noise": {"score": 1}}, "Edge Clarity": {"score": 2}}', Q)
    assert verdict.level2 == {"Detail": 60.0, "Edge Clarity": 100.0}


def test_the_one_rename_and_the_later_mark_counts() -> None:
    marks = {"Feature Matching": {"Feature Matching": {"score": 0}, "Feature Mapping": {"score": 2}}}
    assert correct(marks, "Creative Generation") == {"Feature Matching": {"Feature Matching": {"score": 2}}}
    assert correct({"X": {"Feature Mapping": 1}}, Q) == {"X": {"Feature Mapping": 1}}


def test_wrapped_answers_have_no_score() -> None:
    for wrapper in (Q, "scores"):
        assert judge_answer(json.dumps({wrapper: json.loads(GOOD)}), Q).level1 is None


def test_names_differ_by_case_and_spacing() -> None:
    assert judge_answer('{"Detail": {"noise": {"score": 1}, "Noise": {"score": 0}}}', Q).level2 == {"Detail": 30}
    assert judge_answer('{"Detail": {"Noise": {"Score": 1}}}', Q).level1 is None


def test_a_lone_surrogate_in_a_name_can_be_written() -> None:
    level3 = judge_answer('{"\\ud800": {"\\udfff": {"score": 1}}}', Q).level3
    json.dumps(level3, ensure_ascii=False).encode()


# -- points ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mark", "official", "plain"),
    [
        (0, 0, 0), (1, 60, 60), (2, 100, 100), (2.0, 100, 100), ("2", 100, 100), (" 1 ", 60, 60),
        (1.99, 60, None), (0.5, 0, None), (-0.5, 0, None), (True, 60, None), (False, 0, None),
        ("01", 60, None), ("１", 60, None), ("+2", 100, None),
        ("2.0", None, None), (3, None, None), (-1, None, None), (math.nan, None, None), (None, None, None),
        ([1], None, None), ({}, None, None), ("NA", None, None), ("N/A ", None, None), ("n/a", None, None), ("", None, None),
    ],
)  # fmt: skip
def test_points(mark: Any, official: float | None, plain: float | None) -> None:
    assert (official_points(mark), plain_points(mark)) == (official, plain)


def test_infinity() -> None:
    assert plain_points(math.inf) is None
    with pytest.raises(OverflowError):
        official_points(math.inf)


def slow_levels(answer: dict[str, dict[str, dict[str, Any]]], keep: set[tuple[str, str]] | None) -> Any:
    """Means by the paper, written out as sums and counts."""
    two: dict[str, float] = {}
    for sub, facets in answer.items():
        total, count = 0.0, 0
        for facet, mark in facets.items():
            if mark["score"] == "N/A" or (keep is not None and (sub, facet) not in keep):
                continue
            total, count = total + {0: 0, 1: 60, 2: 100}[mark["score"]], count + 1
        if count:
            two[sub] = total / count
    one = None
    if two:
        one = 0.0
        for value in two.values():
            one += value / len(two)
    return one, two


@st.composite
def answers(draw: st.DrawFn) -> tuple[str, dict[str, Any], list[list[str]]]:
    pillar = draw(st.sampled_from(list(rubric())))
    mark = st.fixed_dictionaries({"score": st.sampled_from([0, 1, 2, "N/A"])})
    answer = {sub: {facet: draw(mark) for facet in facets} for sub, facets in rubric()[pillar].items()}
    every = [[sub, facet] for facet, sub in sub_capabilities(pillar).items()]
    return pillar, answer, draw(st.lists(st.sampled_from(every), unique_by=tuple, max_size=6))


@given(answers())
def test_means_against_the_slow_way(case: tuple[str, dict[str, Any], list[list[str]]]) -> None:
    pillar, answer, targeted = case
    for keep in (None, targeted):
        one, two = slow_levels(answer, None if keep is None else {(sub, facet) for sub, facet in keep})
        verdict = judge_answer(json.dumps(answer), pillar, keep)
        assert verdict.level1 == (None if one is None else pytest.approx(one))
        assert {sub: value for sub, value in verdict.level2.items() if value is not None} == pytest.approx(two)


def test_gates() -> None:
    assert gate("official", FACETS, Q) is None
    assert gate("strict", FACETS, Q) == gate("paper-gated", FACETS, Q) == FACETS[Q]
    assert gate("strict", FACETS, "Alignment") == ()
    with pytest.raises(ConfigError, match="official or strict"):
        gate("fast", FACETS, Q)


# -- the metric --------------------------------------------------------------------------------------------------------


def test_the_decoding_is_that_of_the_paper() -> None:
    plain = {"temperature": 0, "top_p": 1, "top_k": 1, "repetition_penalty": 1.05, "seed": 42, "max_tokens": 4096}
    assert plain | {"chat_template_kwargs": {"enable_thinking": True}} == DECODING


def test_official_all_marked_facets_count_and_decoding_is_q_judgers() -> None:
    score, ask = run({Q: GOOD, "Aesthetics": AESTHETICS})
    assert score.parts["level2"][Q] == {"Realism": 0, "Detail": 80, "Resolution": None}
    assert score.parts["level1"] == {Q: 40, "Aesthetics": 50}
    assert score.value == 45
    assert [call["pillar"] for call in ask.calls] == list(FACETS)
    assert all(call["params"] == DECODING and call["accept_truncated"] for call in ask.calls)
    assert all(call["images"] == [Path("1.png")] and call["role"] == "judge" for call in ask.calls)


def test_gated_only_the_activated_facets_count() -> None:
    score, ask = run({Q: GOOD, "Aesthetics": AESTHETICS}, "strict")
    assert score.parts["level3"][Q] == {"Detail": {"Noise": 60}, "Realism": {"Material Texture": None}}
    assert score.parts["level1"] == {Q: 60, "Aesthetics": 100}
    assert score.value == 80
    assert not any(call["accept_truncated"] for call in ask.calls)
    assert all(call["params"] == DECODING for call in ask.calls)  # as Q-Judger was calibrated, under both protocols


def test_gated_what_is_no_mark_is_named() -> None:
    score, _ = run({Q: quality(Noise=True, MaterialTexture=2), "Aesthetics": AESTHETICS}, "strict")
    assert score.parts["unread"] == {Q: ["Noise"]}
    assert score.parts["level1"][Q] == 100


def test_a_failed_pillar_is_named_and_the_rest_is_judged() -> None:
    score, _ = run({Q: Unanswered(Status.REFUSED, "no"), "Aesthetics": AESTHETICS})
    assert (score.value, score.status) == (50, Status.OK)
    assert score.parts["failed"] == {Q: "refused: no"}
    assert Q in score.reason


def test_nothing_answered_nothing_scored() -> None:
    score, _ = run({Q: "[1, 2]", "Aesthetics": Unanswered(Status.FAILED, "down")})
    assert (score.value, score.status) == (None, Status.UNPARSED)
    assert score.parts["failed"] == {
        Q: "unparsed: invalid: the answer is a JSON list, not an object",
        "Aesthetics": "failed: down",
    }


def test_all_not_applicable_is_no_score() -> None:
    score, _ = run({Q: quality(), "Aesthetics": "{}"})
    assert (score.value, score.status) == (None, Status.UNPARSED)


@pytest.mark.parametrize(
    "item",
    [
        Item("1", "p", None),
        Item("1", "p", Path("x"), meta={"facets": {}}),
        Item("1", "p", Path("x"), meta={"facets": {"Charm": []}}),
    ],
)
def test_items_that_cannot_be_asked_about(item: Item) -> None:
    with pytest.raises(Unanswered) as refused:
        run({}, item=item)
    assert refused.value.status == Status.BAD_INPUT


def test_extract_gives_the_value_itself() -> None:
    assert extract('say {"a": [1]} so') == {"a": [1]}


@pytest.mark.parametrize(("size", "kept"), [(56, {"Composition", "Emotional Expression"}), (38, {"Composition"})])
def test_the_rubric_of_the_fork_is_asked_about_and_counted(size: int, kept: set[str]) -> None:
    pairs = [["Composition", "Composition"], ["Emotional Expression", "Emotional Expression"]]
    item = Item("g/1", "a", Path("1.png"), "g", "1", {"facets": {"Aesthetics": pairs}, "rubric_facets": size})
    score, ask = run({"Aesthetics": AESTHETICS}, "strict", item)
    assert set(score.parts["level3"]["Aesthetics"]) == kept
    assert ask.calls[0]["checklist"] == checklist_text("Aesthetics", size)
    assert ("Emotional Expression" in ask.calls[0]["checklist"]) is (size == 56)


def test_facets_without_a_mark_that_can_be_read_are_counted() -> None:
    unread = quality(Noise=1, MaterialTexture="often")
    score, _ = run({Q: unread, "Aesthetics": Unanswered(Status.REFUSED, "no")}, "strict")
    assert score.value == 60.0
    assert question_counts(score.parts) == (3, 2)
    assert question_counts(run({Q: GOOD, "Aesthetics": AESTHETICS}, "strict")[0].parts) == (3, 0)
