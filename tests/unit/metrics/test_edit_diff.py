"""TIT for edits: blind descriptions, one comparison, and a source that is paid for once."""

import json
from pathlib import Path
from typing import Any

import pytest
from builders import png

from titjudge.core.types import Item, Request, Status
from titjudge.metrics.edit_diff import agreement, edit_diff
from titjudge.testing import score_one

INSTRUCTION = "paint the door red and remove the cat"


def compared(*outcomes: str, extra: tuple[str, ...] = ()) -> dict[str, Any]:
    changes = [{"change": f"change {number}", "outcome": outcome} for number, outcome in enumerate(outcomes)]
    return {"differences": ["blue door -> red door"], "changes": changes, "extra": list(extra), "reason": "so"}


def answer(request: Request, comparison: dict[str, Any]) -> str:
    return f"A view of {request.images[0].path.name}." if request.images else json.dumps(comparison)


def edited(folder: Path, generator: str = "one", sources: tuple[str, ...] = ("source.png",)) -> Item:
    before = tuple(png(folder / name, (number, 2, 3)) for number, name in enumerate(sources))
    return Item(
        generator, INSTRUCTION, png(folder / f"{generator}.png", (len(generator), 9, 9)), generator, sources=before
    )


def test_nobody_sees_an_image_beside_the_instruction(tmp_path: Path) -> None:
    score, requests = score_one(
        edit_diff, edited(tmp_path), lambda request: answer(request, compared("done", "not_done", extra=("snow",)))
    )
    shown = [request for request in requests if request.images]
    (text,) = [request for request in requests if not request.images]
    assert [len(request.images) for request in shown] == [1, 1]
    assert not any(INSTRUCTION in message.text for request in shown for message in request.messages)
    assert (
        "<before>\nA view of source.png.\n</before>\n\n<after>\nA view of one.png.\n</after>" in text.messages[-1].text
    )
    assert score.value == pytest.approx(1 / 3)
    assert {name: score.parts[name] for name in ("done", "elsewhere", "not_done", "extra")} == {
        "done": 1, "elsewhere": 0, "not_done": 1, "extra": ["snow"],
    }  # fmt: skip


def test_a_source_is_described_once_for_all_generators(tmp_path: Path) -> None:
    described: list[str] = []
    for generator in ("one", "three", "eleven"):
        _, requests = score_one(
            edit_diff, edited(tmp_path, generator), lambda request: answer(request, compared("done")),
            cache=tmp_path / "cache",
        )  # fmt: skip
        described += [request.images[0].path.name for request in requests if request.images]
    assert sorted(described) == ["eleven.png", "one.png", "source.png", "three.png"]


def test_several_sources_are_described_in_their_order(tmp_path: Path) -> None:
    item = edited(tmp_path, sources=("person.png", "coat.png"))
    _, requests = score_one(edit_diff, item, lambda request: answer(request, compared("done")))
    text = requests[-1].messages[-1].text
    assert text.index("A view of person.png.") < text.index("A view of coat.png.") < text.index("A view of one.png.")


@pytest.mark.parametrize(
    ("counts", "value"),
    [((2, 0, 0, 0), 1), ((0, 0, 2, 0), 0), ((1, 0, 1, 0), 1 / 2), ((1, 1, 0, 0), 1 / 3), ((1, 0, 0, 3), 1 / 4)],
)
def test_the_score_is_the_jaccard_index_of_changes_asked_for_and_made(counts: tuple[int, ...], value: float) -> None:
    assert agreement(*counts) == pytest.approx(value)


def test_a_comparison_that_names_no_change_of_the_instruction_is_no_score(tmp_path: Path) -> None:
    score, _ = score_one(edit_diff, edited(tmp_path), lambda request: answer(request, compared()))
    assert (score.value, score.status) == (None, Status.UNPARSED)


def test_without_a_description_of_one_image_there_is_no_score(tmp_path: Path) -> None:
    def answers(request: Request) -> str:
        return "" if request.images and "source" in request.images[0].path.name else answer(request, compared("done"))

    score, requests = score_one(edit_diff, edited(tmp_path), answers)
    assert score.value is None
    assert not [request for request in requests if not request.images]


def test_a_dry_run_has_an_answer_to_every_question(tmp_path: Path) -> None:
    assert score_one(edit_diff, edited(tmp_path)).score.status is Status.OK
