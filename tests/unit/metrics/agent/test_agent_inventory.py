"""The first look as an inventory: the image and its parts in one request, and claims settled by its lines."""

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from test_agent_loop import CLAIMS, PROMPT, StandIn, all_met, turn

from titjudge.core.types import Item, Score
from titjudge.metrics.agent import metric
from titjudge.metrics.agent.claims import Claim, smallest_share
from titjudge.metrics.agent.looks import MANY_CLAIMS, SMALLEST, parts_of, read_items, reports_of
from titjudge.metrics.agent.metric import tit_agent

LINES = """1. a blue bowl with two oranges [0.1, 0.4, 0.5, 0.8]
2. a wooden table [0, 0.7, 1, 1]
3. a sign that reads FRESH [0.7, 0.1, 0.705, 0.102] (unsure)
Warm light, a photograph."""


def judged(ask: Any, image: Path, first_look: str = "inventory", **meta: Any) -> Score:
    import asyncio

    configured = tit_agent.configured({"first_look": first_look})
    return asyncio.run(configured(Item("i", PROMPT, image, "g", "p", meta), ask))


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The things of the prompt are small, so that parts show them larger."""
    monkeypatch.setattr(metric, "smallest_share", lambda claims: 0.01)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "large.png"
    Image.new("RGB", (1500, 1200), (3, 4, 5)).save(path)
    return path


def test_an_inventory_shows_the_image_and_its_parts_in_one_request(large: Path, crowded: None) -> None:
    ask = StandIn(turn(all_met()), eyes={"agent/inventory": LINES})
    score = judged(ask, large)
    (asked,) = [each for each in ask.asked if each["template"] == "agent/inventory"]
    assert (asked["role"], asked["sizes"]) == ("captioner", [(512, 410), *[(1024, 819)] * 4])
    assert "Picture 3: its part [0.48, 0, 1, 0.52], enlarged 3.8 times" in asked["text"]
    assert not ask.count("tit/describe")
    assert score.value == 100
    assert score.parts["evidence"][0]["tool"] == "inventory"


def test_a_claim_rests_on_a_line_with_its_place_and_what_was_seen_there(large: Path) -> None:
    ask = StandIn(turn([(1, "met", "E1.1"), (3, "not_met", "[E1.1]"), *all_met()[3:]]), turn(), eyes={"agent/inventory": LINES})  # fmt: skip
    bowl, _, oranges, table, *_ = judged(ask, large).parts["claims"]
    assert oranges["place"] == bowl["place"] == [0.1, 0.4, 0.5, 0.8]
    assert (oranges["verdict"], oranges["evidence"], oranges["seen"]) == (
        "not_met",
        "E1",
        "a blue bowl with two oranges",
    )
    assert "place" not in table, "it was settled by the inventory as a whole"
    assert "E1.3 a sign that reads FRESH [0.6925, 0.091, 0.7125, 0.111] (unsure)" in ask.texts("agent/orchestrate")[0]


@pytest.mark.parametrize("line", ["E1.0", "E1.5", "E1.x", "E1.", "E1.99999999999999999999"])
def test_a_line_that_is_not_there_counts_as_the_whole_inventory(large: Path, line: str) -> None:
    score = judged(StandIn(turn(all_met(line)), eyes={"agent/inventory": LINES}), large)
    assert score.value == 100
    assert not any("seen" in row for row in score.parts["claims"])


def test_what_the_reader_was_not_sure_of_is_verified_though_it_holds(large: Path) -> None:
    seen: list[str] = []

    def verify(text: str) -> str:
        seen.append(next(line for line in text.splitlines() if line.startswith("Verify: ")))
        return turn(looks=[("zoom", "what is written?", [0.6, 0, 0.9, 0.2])])

    ask = StandIn(
        turn([*all_met()[:4], (5, "met", "E1.3"), (6, "met", "E1.4")]), verify, turn([(5, "not_met", "E2")]), turn(),
        eyes={"agent/inventory": LINES},
    )  # fmt: skip
    score = judged(ask, large)
    assert "5" in seen[0].removeprefix("Verify: ").split(", ")
    assert score.parts["claims"][4]["before"] == [["met", "E1"]]


def test_several_parts_are_looked_at_in_one_request_and_each_has_its_own_report(large: Path) -> None:
    boxes = [[0.2 * n, 0, 0.2 * n + 0.3, 0.5] for n in range(3)]
    looks = [("zoom", "what is it?", boxes[0]), ("count", "oranges", boxes[1]), ("describe", "", boxes[2])]
    said = "Picture 1: a bowl.\n**Picture 2:** one on the left. Count: 1\nPicture 3: a sign."
    ask = StandIn(
        turn(looks=looks), turn([(n, "met", f"E{2 + n % 3}") for n in range(1, 7)]),
        eyes={"agent/inventory": LINES, "agent/parts": said},
    )  # fmt: skip
    score = judged(ask, large)
    (asked,) = [each for each in ask.asked if each["template"] == "agent/parts"]
    assert len(asked["sizes"]) == 3
    assert "Count oranges, one after the other" in asked["text"]
    reports = {row["id"]: (row["tool"], row["text"], row["box"]) for row in score.parts["evidence"][1:]}
    assert reports == {
        "E2": ("zoom", "a bowl.", boxes[0]),
        "E3": ("count", "one on the left. Count: 1", boxes[1]),
        "E4": ("describe", "a sign.", boxes[2]),
    }
    assert score.parts["counts"]["looks"] == 2


def test_looks_by_a_description_share_requests_too(large: Path) -> None:
    looks = [("zoom", "what?", [0.2 * n, 0, 0.2 * n + 0.3, 0.5]) for n in range(3)]
    ask = StandIn(turn(looks=looks), turn(all_met("E2")))
    score = judged(ask, large, "description")
    assert (ask.count("agent/zoom"), ask.count("agent/parts")) == (0, 1)
    assert score.parts["counts"]["looks"] == 2


@pytest.mark.parametrize(("first_look", "looks"), [("inventory", 2), ("description", 1)])
def test_what_a_judge_with_an_inventory_leaves_open_is_looked_at_though_it_weighs_little(large: Path, first_look: str, looks: int) -> None:  # fmt: skip
    """It is what is hardest to see; a description leaves out much that is not worth a look."""
    claims = [*CLAIMS, *((f"Spoon {n} shines", "attribute", "micro", "wooden table") for n in range(40))]
    most = [(n, "met", "E1") for n in range(1, len(claims) + 1) if n != 10]
    zoom = ("zoom", "what does the last spoon do?", [0, 0, 0.2, 0.2])
    ask = StandIn(turn(most, [zoom]), turn([(10, "not_met", "E2")]), eyes={"agent/inventory": LINES}, claims=claims)  # fmt: skip
    parts = judged(ask, large, first_look).parts
    assert (parts["counts"]["looks"], parts["stopped"]) == (looks, "covered" if looks == 2 else "little left")
    ask = StandIn(turn(most), eyes={"agent/inventory": LINES}, claims=claims)
    assert judged(ask, large, first_look).parts["stopped"] == "little left"


def test_more_parts_than_the_looks_that_are_left_can_show_are_refused(large: Path) -> None:
    looks = [("zoom", f"what {n}?", [0.05 * n, 0, 0.05 * n + 0.2, 0.5]) for n in range(9)]
    ask = StandIn(turn(looks=looks), turn(all_met("E2")), eyes={"agent/inventory": LINES})
    score = judged(ask, large, max_looks=3)
    assert [len(each["sizes"]) for each in ask.asked if each["template"] == "agent/parts"] == [4, 4]
    assert score.parts["counts"]["looks_over_limit"] == 1
    assert score.parts["counts"]["looks"] == 3


@pytest.mark.parametrize(("size", "claims", "first"), [((1500, 1200), MANY_CLAIMS, "inventory"), ((1500, 1200), MANY_CLAIMS - 1, "describe"), ((1536, 1024), MANY_CLAIMS, "describe")])  # fmt: skip
def test_large_images_of_long_prompts_begin_with_an_inventory(size: tuple[int, int], claims: int, first: str, tmp_path: Path) -> None:  # fmt: skip
    Image.new("RGB", size).save(tmp_path / "image.png")
    many = [(f"{CLAIMS[n % 6][0]} {n}", *CLAIMS[n % 6][1:]) for n in range(claims)]
    ask = StandIn(turn([(n, "met", "E1") for n in range(1, claims + 1)]), claims=many)
    assert judged(ask, tmp_path / "image.png", "auto").parts["evidence"][0]["tool"] == first


@pytest.mark.parametrize("place", ["[10 40 50 80]", "[10, 40, 50, 80]", "[0.1, 0.4, 0.5, 0.8]", "[.1 .4 .5 .8]", "[100, 400, 500, 800]", "[ 10;40;50;80 ]"])  # fmt: skip
def test_places_are_read_in_percent_fractions_and_thousandths(place: str) -> None:
    (item,) = read_items(f"1. a bowl {place}")
    assert (item.text, item.box) == ("a bowl", (0.1, 0.4, 0.5, 0.8))


def test_one_scale_holds_for_all_places_of_an_inventory() -> None:
    """A small place near the upper left, in percent, is not taken for fractions."""
    corner, table = read_items("1. a fly [0 0 1 1]\n2. a table [0 70 100 100]")
    assert corner.box == pytest.approx((0, 0, SMALLEST, SMALLEST))
    assert table.box == (0, 0.7, 1, 1)
    assert read_items("1. a bowl [10 40 5000 80]")[0].box is None


def test_an_image_whose_smallest_thing_is_large_is_one_picture(large: Path) -> None:
    ask = StandIn(turn(all_met()), eyes={"agent/inventory": LINES})
    judged(ask, large)
    (asked,) = [each for each in ask.asked if each["template"] == "agent/inventory"]
    assert asked["sizes"] == [(1500, 1200)]
    assert "Picture" not in asked["text"]
    assert "parts" not in asked["text"]


def test_the_smallest_thing_decides_how_many_parts_there_are() -> None:
    claims = [
        Claim(n, text, "attribute", "micro", 0, 1, ("birds",)) for n, text in enumerate(("black", "900 birds"), 1)
    ]
    assert smallest_share(claims[:1]) == 0.5
    assert smallest_share(claims) == pytest.approx(0.5 / 30)
    assert [len(parts_of(2048, 1440, share)) for share in (0.5, 0.5 / 30, 0.01, 0.005)] == [0, 0, 4, 6]


@given(st.integers(1, 9000), st.integers(1, 9000), st.floats(0.001, 1))
def test_parts_cover_the_image_and_are_parts(width: int, height: int, smallest: float) -> None:
    parts = parts_of(width, height, smallest)
    assert len(parts) <= 9
    assert len(parts) != 1
    assert not parts or width * height > 1_600_000
    for _ in range(20 if parts else 0):
        x, y = random.random(), random.random()
        assert any(left <= x <= right and top <= y <= bottom for left, top, right, bottom in parts)
    assert all((right - left) * (bottom - top) < 1 for left, top, right, bottom in parts)


@pytest.mark.parametrize(
    ("line", "sure"),
    [
        ("a lamp [0, 0, 1, 1] (unsure)", False),
        ("a lamp (unsure) [0, 0, 1, 1]", False),
        ("a lamp, unsure", False),
        ("a man who looks unsure of himself", True),
    ],
)
def test_a_reader_is_unsure_where_it_says_so_of_the_line(line: str, sure: bool) -> None:
    (item,) = read_items(line)
    assert item.sure is sure
    assert ("himself" in line) is ("unsure" in item.text)


@given(st.text(max_size=300))
def test_any_text_is_read_as_lines(text: str) -> None:
    for item in read_items(text):
        assert any(map(str.isalnum, item.text)) or item.box is not None or not item.sure
        if item.box is not None:
            left, top, right, bottom = item.box
            assert 0 <= left < right <= 1
            assert 0 <= top < bottom <= 1
            assert right - left >= SMALLEST - 1e-9


@pytest.mark.parametrize(
    ("text", "reports"),
    [
        ("Picture 1: a. Picture 2: b.", ["a.", "b."]),
        ("**Picture 1**: a\n### Picture 2: b", ["a", "b"]),
        ('Picture 1: "A" is read.\n**Picture 2:** #2 is missing', ['"A" is read.', "#2 is missing"]),
        ("Picture 2: b Picture 1: a", None),
        ("Picture 1: a", None),
        ("I see a. Picture 1: a Picture 2: b", None),
        ("Picture 1: Picture 2: b", None),
        ("a and b", None),
    ],
)
def test_an_answer_about_several_parts_is_split_or_stands_for_all(text: str, reports: list[str] | None) -> None:
    assert reports_of(text, 2) == (reports or [text, text])


def test_a_number_of_thousands_of_digits_is_no_picture() -> None:
    text = f"Picture {'1' * 5_000}: a cat. Picture 2: a dog."
    assert reports_of(text, 2) == [text, text]
