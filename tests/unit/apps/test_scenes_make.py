"""The folder that is made: complete, resumable, refused where it would spoil something, read by the suite."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import read_lines
from scene_stubs import noise, unseen

from titjudge.apps.scenes.generate import RenderProgress, make
from titjudge.apps.scenes.scene import Options, Scene
from titjudge.core.errors import DataError, UserError
from titjudge.core.types import Item
from titjudge.suites.known_answer.suite import KnownAnswer

OPTIONS = Options(seed=3, size=24)


def made(
    out: Path, scenes: int = 2, render: Callable[[Scene], Any] = noise, options: Options = OPTIONS
) -> list[RenderProgress]:
    seen: list[RenderProgress] = []
    make(out, scenes, options, look=unseen, render=render, watch=seen.append)
    return seen


def content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    return read_lines(folder / f"{name}.jsonl")


def test_the_suite_reads_it_and_errors_come_along(tmp_path: Path) -> None:
    made(tmp_path / "out")
    items = list(KnownAnswer().load(tmp_path / "out"))
    assert all(isinstance(item, Item) for item in items)
    assert len(items) == 8
    for item in items:
        assert isinstance(item, Item)
        truth = [so for each in item.meta["graph_truth"].values() for so in each]
        assert sum(truth) / len(truth) == pytest.approx(item.meta["alignment"], abs=5e-5)
        assert bool(item.meta["errors"]) == (item.meta["level"] > 0)
        assert item.image is not None
        assert item.image.is_file()
    alignment = {item.id: item.meta["alignment"] for item in items if isinstance(item, Item)}
    pairs = KnownAnswer().pairs(tmp_path / "out")
    assert len(pairs) == 12
    assert all((alignment[p.a] > alignment[p.b]) == (p.preference == "a") for p in pairs)
    assert {p.preference for p in pairs} == {"a", "b"}


def test_no_generator_is_a_level(tmp_path: Path) -> None:
    made(tmp_path / "out", scenes=12)
    levels: dict[str, set[int]] = {}
    for line in lines(tmp_path / "out", "images"):
        levels.setdefault(line["variant_model"], set()).add(line["level"])
    assert set(levels) == {"model_a", "model_b", "model_c", "model_d"}
    assert all(len(each) > 1 for each in levels.values())


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    made(tmp_path / "one")
    made(tmp_path / "two")
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_an_interruption_loses_one_picture_and_leaves_a_folder_that_can_be_read(tmp_path: Path) -> None:
    calls: list[int] = []

    def interrupted(scene: Scene) -> Any:
        if len(calls) == 5:
            raise KeyboardInterrupt
        calls.append(1)
        return noise(scene)

    with pytest.raises(KeyboardInterrupt):
        made(tmp_path / "out", render=interrupted)
    assert len(list(KnownAnswer().load(tmp_path / "out"))) == 5
    assert [(each.done, each.fresh) for each in made(tmp_path / "out")] == [(6, 1), (7, 2), (8, 3)]
    made(tmp_path / "whole")
    assert content(tmp_path / "out") == content(tmp_path / "whole")


def test_what_is_finished_is_not_rendered_again_and_more_scenes_are_added(tmp_path: Path) -> None:
    made(tmp_path / "out")
    assert made(tmp_path / "out") == []
    assert len(made(tmp_path / "out", scenes=3)) == 4
    assert len(lines(tmp_path / "out", "prompts")) == 3


@pytest.mark.parametrize("damage", ["delete", "change"])
def test_a_damaged_picture_is_made_again(tmp_path: Path, damage: str) -> None:
    made(tmp_path / "out")
    before = content(tmp_path / "out")
    file = tmp_path / "out" / lines(tmp_path / "out", "images")[2]["image"]
    file.unlink() if damage == "delete" else file.write_bytes(b"no picture")
    assert len(made(tmp_path / "out")) == 1
    assert content(tmp_path / "out") == before


def test_other_options_and_other_folders_are_refused(tmp_path: Path) -> None:
    made(tmp_path / "out")
    with pytest.raises(UserError, match="made with size 24, not 32"):
        made(tmp_path / "out", options=Options(seed=3, size=32))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(UserError, match="has other content"):
        made(tmp_path / "mine")
    with pytest.raises(UserError, match="has other content"):
        made(tmp_path / "mine" / "letter.txt")


@pytest.mark.parametrize("name", ["made.json", ".made/scene_3_0001.json"])
def test_a_broken_state_is_named(tmp_path: Path, name: str) -> None:
    made(tmp_path / "out", scenes=1)
    (tmp_path / "out" / name).write_text("{")
    with pytest.raises(DataError, match="JSON"):
        made(tmp_path / "out", scenes=1)


def test_the_readme_says_how_it_was_made_and_that_a_captioner_is_needed(tmp_path: Path) -> None:
    made(tmp_path / "out")
    text = (tmp_path / "out" / "README.md").read_text()
    assert "--scenes 2 --seed 3 --size 24 --rays 16 --levels 0,1,2,3" in text
    assert "--captioner" in text
    assert "2 prompts, 8 images, 12 pairs" in text


def test_the_order_of_the_images_tells_nothing_of_their_levels(tmp_path: Path) -> None:
    made(tmp_path / "out", scenes=12)
    levels = [line["level"] for line in lines(tmp_path / "out", "images")]
    assert len(levels) == 48
    by_scene = [tuple(levels[at : at + 4]) for at in range(0, 48, 4)]
    assert len(set(by_scene)) > 6
    assert (0, 1, 2, 3) not in by_scene
    names = [line["image"] for line in lines(tmp_path / "out", "images")]
    assert names == sorted(names), "they come in the order of their hashes"


def test_two_processes_do_not_make_one_folder(tmp_path: Path) -> None:
    def at_the_same_time(scene: Scene) -> Any:
        with pytest.raises(UserError, match="another titjudge is writing there"):
            made(tmp_path / "out")
        return noise(scene)

    made(tmp_path / "out", scenes=1, render=at_the_same_time)
    assert len(lines(tmp_path / "out", "images")) == 4
