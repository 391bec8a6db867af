"""MagicBrush and InstructPix2Pix as they are unpacked."""

import json
from pathlib import Path
from typing import Any

import pytest
from builders import png, read_lines
from commands import cli

from titjudge.core import item_meta
from titjudge.core.errors import DataError
from titjudge.core.types import InvalidItem, Item
from titjudge.suites.folder import Folder


def magicbrush(folder: Path, **changes: Any) -> Path:
    """Two sessions, of two turns and of one; `changes` are those of the first turn."""
    turns = []
    for session, count in (("242679", 2), ("7", 1)):
        before = f"{session}-input.png"
        for turn in range(1, count + 1):
            after, mask = f"{session}-output{turn}.png", f"{session}-mask{turn}.png"
            turns.append({"input": before, "mask": mask, "output": after, "instruction": f"edit {session} {turn}"})
            for shade, name in enumerate((before, mask, after)):
                png(folder / "images" / session / name, (turn, shade, int(session) % 256))
            before = after
    (folder / "edit_turns.json").write_text(json.dumps([turns[0] | changes, *turns[1:]]))
    (folder / "edit_sessions.json").write_text("{}")
    return folder


def sessions_only(folder: Path) -> Path:
    """The same edits as some copies of MagicBrush list them: by session."""
    file = magicbrush(folder) / "edit_turns.json"
    sessions: dict[str, list[Any]] = {}
    for turn in json.loads(file.read_text()):
        sessions.setdefault(turn["input"].partition("-")[0], []).append(turn)
    file.unlink()
    (folder / "edit_sessions.json").write_text(json.dumps(sessions))
    return folder


def instruct_pix2pix(folder: Path) -> Path:
    listed = {"shard-00/0000001": ["12", "34"], "shard-01/0000002": ["5"]}
    for number, (name, seeds) in enumerate(listed.items()):
        for seed in seeds:
            png(folder / name / f"{seed}_0.jpg", (number, 0, int(seed)))
            png(folder / name / f"{seed}_1.jpg", (number, 9, int(seed)))
        (folder / name / "prompt.json").write_text(json.dumps({"input": "a", "edit": f"edit {number}", "output": "b"}))
    (folder / "seeds.json").write_text(json.dumps(list(listed.items())))
    return folder


def loaded(folder: Path) -> list[Item | InvalidItem]:
    return list(Folder().load(folder))


def test_each_turn_of_magicbrush_is_an_edit_of_the_result_before_with_its_mask(tmp_path: Path) -> None:
    items = [item for item in loaded(magicbrush(tmp_path)) if isinstance(item, Item)]
    assert [item.prompt_id for item in items] == ["242679-output1", "242679-output2", "7-output1"]
    assert [item.prompt for item in items] == ["edit 242679 1", "edit 242679 2", "edit 7 1"]
    assert [item.sources[0].name for item in items] == ["242679-input.png", "242679-output1.png", "7-input.png"]
    assert [Path(item_meta.MASK.required(item)).name for item in items] == [
        "242679-mask1.png", "242679-mask2.png", "7-mask1.png"
    ]  # fmt: skip


def test_sessions_without_a_list_of_turns_are_the_same_edits(tmp_path: Path) -> None:
    by_turn, by_session = loaded(magicbrush(tmp_path / "turns")), loaded(sessions_only(tmp_path / "sessions"))
    ids = [(item.id, item.prompt_id, item.prompt) for item in by_turn if isinstance(item, Item)]
    assert [(item.id, item.prompt_id, item.prompt) for item in by_session if isinstance(item, Item)] == ids
    assert len(ids) == 3


@pytest.mark.parametrize("made", [magicbrush, sessions_only])
def test_a_list_of_prompts_beside_it_is_not_taken_for_its_own(tmp_path: Path, made: Any) -> None:
    (tmp_path / "prompts.txt").write_text("a cat\na dog\n")
    assert [isinstance(item, Item) for item in loaded(made(tmp_path / "dev"))] == [True, True, True]


def test_a_session_without_turns_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    file = sessions_only(tmp_path) / "edit_sessions.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "8": [], "9": [{"input": "9-input.png"}]}))
    *good, empty, broken = loaded(tmp_path)
    assert [isinstance(item, Item) for item in good] == [True, True, True]
    assert (empty.id, broken.id) == ("edit_sessions.json:8", "edit_sessions.json:9:1")
    assert isinstance(empty, InvalidItem)
    assert "an edit must be" in empty.reason


def test_each_seed_of_instructpix2pix_is_an_edit(tmp_path: Path) -> None:
    items = [item for item in loaded(instruct_pix2pix(tmp_path)) if isinstance(item, Item)]
    assert [(item.prompt_id, item.prompt) for item in items] == [
        ("shard-00/0000001/12", "edit 0"), ("shard-00/0000001/34", "edit 0"), ("shard-01/0000002/5", "edit 1")
    ]  # fmt: skip
    assert [item.image.name for item in items if item.image] == ["12_1.jpg", "34_1.jpg", "5_1.jpg"]
    assert [item.sources[0].name for item in items] == ["12_0.jpg", "34_0.jpg", "5_0.jpg"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"output": None}, 'an edit must be like {"input": FILE'),
        ({"input": "../../../etc/passwd"}, "the source"),
        ({"instruction": ""}, "the prompt is empty"),
    ],
)
def test_a_broken_turn_is_named_and_the_others_are_read(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    bad, *others = loaded(magicbrush(tmp_path, **changes))
    assert isinstance(bad, InvalidItem)
    assert reason in bad.reason
    assert [isinstance(item, Item) for item in others] == [True, True]


@pytest.mark.parametrize(
    ("name", "content"), [("edit_turns.json", "[]"), ("edit_sessions.json", "{}"), ("seeds.json", "[]")]
)
def test_a_list_without_edits_is_refused_by_its_name(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    said = cli(tmp_path, "judge", ".", "--metric", "preservation", "--dry-run", code=2)
    assert f"{name}: the file lists no edits. Unpack the data set again" in said


def test_sessions_in_a_list_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "edit_sessions.json").write_text("[1]")
    with pytest.raises(DataError, match=r"edit_sessions.json: the content must be an object of sessions"):
        loaded(tmp_path)


@pytest.mark.parametrize("content", ["{}", "[1", "[5]"])
def test_a_list_that_is_none_is_an_error(tmp_path: Path, content: str) -> None:
    for name in ("edit_turns.json", "seeds.json"):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        (folder / name).write_text(content)
        if content == "[5]":
            (bad,) = loaded(folder)
            assert isinstance(bad, InvalidItem)
            assert bad.id == f"{name}:1"
        else:
            with pytest.raises(DataError, match=name):
                loaded(folder)


def test_a_prompt_without_its_file_is_named(tmp_path: Path) -> None:
    folder = instruct_pix2pix(tmp_path)
    (folder / "shard-01" / "0000002" / "prompt.json").unlink()
    *_, last = loaded(folder)
    assert isinstance(last, InvalidItem)
    assert last.id == "seeds.json:2"


@pytest.mark.parametrize(
    ("made", "summary"),
    [
        (magicbrush, "MagicBrush: 3 turns of 2 sessions; 3 prompts"),
        (sessions_only, "MagicBrush: 3 turns of 2 sessions; 3 prompts"),
        (instruct_pix2pix, "InstructPix2Pix: 3 edits by 2 instructions; 3 prompts"),
    ],
)
def test_it_is_said_judged_and_its_edits_are_exported_for_other_generators(
    tmp_path: Path, made: Any, summary: str
) -> None:
    made(tmp_path / "data")
    said = cli(tmp_path, "judge", "data", "--metric", "preservation", "--out", "run")
    assert f"\n{summary}; " in said
    assert summary in cli(tmp_path, "judge", "data", "--metric", "preservation", "--dry-run")
    cli(tmp_path, "prompts", "export", "--data", "data", "-o", "todo.jsonl")
    lines = read_lines(tmp_path / "todo.jsonl")
    assert len(lines) == 3
    assert all(Path(line["source_image"]).is_file() for line in lines)
