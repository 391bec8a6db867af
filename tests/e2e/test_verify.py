"""A run is computed again from its own answers: it holds, and a changed byte anywhere is found and named."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from answers import good, verdict
from builders import compared_images
from click.testing import CliRunner
from PIL import Image

from tests.kit import Scripted, Seen, Server
from titjudge.cli.judges import judges
from titjudge.cli.merge import verify as command
from titjudge.core.config import load_config
from titjudge.core.serialization import checksum_differs, with_checksum
from titjudge.runs.check.verify import VerificationResult, verify
from titjudge.runs.session import Session


def run(folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Path:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    monkeypatch.setenv("OPENAI_BASE_URL", server.openai)
    settings: dict[str, Any] = {
        "data": folder / "data" if (folder / "data").is_dir() else compared_images(folder / "data", 8),
        "captioner": "openai/gpt-4o",
        "judge": "openai/gpt-4o",
        "metrics": ["tit-llm"],
        "out": folder / "run",
    }
    return Session(load_config(None, settings | changes)).run().folder


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with Server(good) as server:
        yield run(tmp_path, server, monkeypatch)
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.delenv("OPENAI_API_KEY")


def edit(file: Path, line: int, change: Callable[[bytes], bytes]) -> bytes:
    lines = file.read_bytes().splitlines(keepends=True)
    before, lines[line] = lines[line], change(lines[line])
    assert before != lines[line]
    file.write_bytes(b"".join(lines))
    return before


def flip(mark: bytes, beyond: int = 0) -> Callable[[bytes], bytes]:
    """Flips the lowest bit of the byte that many behind the last such mark."""

    def change(line: bytes) -> bytes:
        at = line.rindex(mark) + len(mark) + beyond
        return line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :]

    return change


def wrong(found: VerificationResult) -> dict[str, int]:
    """Problems by kind; a broken seal, which every changed line has, left out."""
    kinds: dict[str, int] = found.to_json()["wrong"]
    return {kind: count for kind, count in kinds.items() if kind != "line"}


def test_a_run_holds_without_server_and_without_key(judged: Path) -> None:
    found = verify(judged)
    assert found.holds, found.problems
    assert found.checked["scores"] == 8
    assert found.checked["answers"] == 16
    assert (found.checked["images"], found.checked["templates"]) == (8, 2)
    assert found.checked["cells"] > 50
    assert [note.id for note in found.notes] == ["report_not_checked"]
    (judged / "report.html").unlink()
    assert verify(judged).notes == []


def test_an_interval_that_was_changed_is_found(judged: Path) -> None:
    file = judged / "results.json"
    results = json.loads(file.read_bytes())
    results["metrics"]["tit-llm"]["accuracy_interval"] = [0.01, 0.99]
    file.write_text(json.dumps(results))
    assert not verify(judged).holds


def test_one_byte_of_any_answer_is_found_with_its_item_and_cell(judged: Path) -> None:
    replies = judged / "replies.jsonl"
    lines = replies.read_bytes().splitlines()
    assert len(lines) == 16
    for number, line in enumerate(lines):
        record = json.loads(line)
        describes = record["template"] == "tit/describe"
        before = edit(replies, number, flip(b'"text":"', 5) if describes else flip(b'score\\": '))
        found = verify(judged)
        assert found.first_item is not None
        assert found.first_item.item == record["item"]
        assert found.first_cell is not None
        assert "table '" in found.first_cell.where
        assert wrong(found)["score"] == 1
        edit(replies, number, lambda _, before=before: before)  # type: ignore[misc]
    assert verify(judged).holds


@pytest.mark.parametrize("mark", [b'"reason\\": \\"', b'"messages":[["', b'"status":"', b'"key":"ask:', b'"text"'])
def test_a_byte_that_no_cell_depends_on_is_found_too(judged: Path, mark: bytes) -> None:
    item = json.loads(edit(judged / "replies.jsonl", -1, flip(mark)))["item"]
    found = verify(judged)
    assert not found.holds
    assert found.first_item is not None
    assert found.first_item.item == item


def test_with_seals_every_byte_of_a_line_counts(judged: Path) -> None:
    for name in ("replies", "scores"):
        file = judged / f"{name}.jsonl"
        records = [with_checksum(json.loads(line)) for line in file.read_bytes().splitlines()]
        assert not any(map(checksum_differs, records))
        file.write_text("".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records))
    assert verify(judged).holds
    edit(judged / "replies.jsonl", 3, flip(b'"endpoint":"'))
    item = json.loads((judged / "replies.jsonl").read_bytes().splitlines()[3])["item"]
    found = verify(judged)
    assert found.first_item is not None
    assert found.first_item.item == item
    assert "seal" in next(each.what for each in found.problems if each.kind == "line")


def test_a_score_that_was_changed_is_named(judged: Path) -> None:
    edit(judged / "scores.jsonl", 2, lambda line: line.replace(b'"value":', b'"value":1'))
    item = json.loads((judged / "scores.jsonl").read_bytes().splitlines()[2])["item"]
    found = verify(judged)
    assert wrong(found) == {"score": 1}
    assert found.first_item is not None
    assert found.first_item.item == item
    assert found.first_cell is None


def test_a_score_that_was_taken_away_is_named(judged: Path) -> None:
    file = judged / "scores.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    gone = json.loads(lines[4])["item"]
    file.write_bytes(b"".join(lines[:4] + lines[5:]))
    found = verify(judged)
    assert found.first_item is not None
    assert found.first_item.item == gone
    assert "missing" in found.first_item.what
    assert found.first_cell is not None


def test_a_value_hidden_behind_a_failure_is_found(judged: Path) -> None:
    def hide(line: bytes) -> bytes:
        return json.dumps({**json.loads(line), "value": None, "status": "failed", "parts": {}}).encode() + b"\n"

    edit(judged / "scores.jsonl", 1, hide)
    assert wrong(verify(judged))["score"] == 1


def test_a_cell_that_was_changed_is_named(judged: Path) -> None:
    results = json.loads((judged / "results.json").read_text())
    results["metrics"]["tit-llm"]["accuracy"] = 0.99
    results["tables"][0]["rows"][0][1] = "99 %"
    (judged / "results.json").write_text(json.dumps(results))
    found = verify(judged)
    assert wrong(found) == {"table": 2}
    assert found.first_cell is not None
    assert "row 'tit-llm'" in found.first_cell.where
    assert "99 %" in found.first_cell.what


def test_a_picture_that_changed_is_named_and_one_that_is_gone_is_not_held_against_the_run(
    judged: Path, tmp_path: Path
) -> None:
    Image.new("RGB", (16, 16), (1, 2, 3)).save(tmp_path / "data" / "3.png")
    (tmp_path / "data" / "4.png").unlink()
    found = verify(judged)
    assert wrong(found) == {"picture": 1}
    assert found.first_item is not None
    assert found.first_item.item == "3.png"
    assert any("1 images are not here" in note for note in found.notes)
    shutil.rmtree(tmp_path / "data")
    found = verify(judged)
    assert found.holds, found.problems
    assert any("8 images are not here" in note for note in found.notes)


def test_another_prompt_is_named(judged: Path) -> None:
    manifest = json.loads((judged / "manifest.json").read_text())
    manifest["prompts"]["tit/compare"] = "0" * 64
    (judged / "manifest.json").write_text(json.dumps(with_checksum(manifest)))
    assert wrong(verify(judged)) == {"prompt": 1}


def test_the_adapter_that_made_the_keys_need_not_be_here(judged: Path) -> None:
    manifest = json.loads((judged / "manifest.json").read_text())
    for role in manifest["roles"].values():
        role["base_url"] = "https://elsewhere.example/v1"
    (judged / "manifest.json").write_text(json.dumps(with_checksum(manifest)))
    found = verify(judged)
    assert found.holds, found.problems
    assert any(note.id == "questions_found_by_text" for note in found.notes)


def test_failures_of_every_kind_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = iter([Scripted.fault("refusal"), Scripted.fault("length"), "not JSON", Scripted.fault("400")])

    def handler(seen: Seen) -> Scripted | str:
        if seen.images:
            return good(seen)
        return "still not JSON" if "could not be read" in seen.text else next(faults, None) or verdict(50)

    compared_images(tmp_path / "data", 8)
    (tmp_path / "data" / "7.png").write_bytes(b"not an image")
    with Server(handler) as server:
        folder = run(tmp_path, server, monkeypatch, limits={"concurrency": 1})
        found = verify(folder)
        assert found.holds, found.problems
        assert any(note.id == "scores_without_answer" for note in found.notes)
        assert len(json.loads((folder / "results.json").read_text())["failures"]) == 5
        again = run(tmp_path, server, monkeypatch, retry_failed=True)  # what failed is asked again, and now answered
    found = verify(again)
    assert found.holds, found.problems
    assert len(json.loads((again / "results.json").read_text())["failures"]) == 1


def test_a_refusal_without_its_answer_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = iter([Scripted.fault("refusal")])
    with Server(lambda seen: good(seen) if seen.images else next(faults, None) or verdict(50)) as server:
        folder = run(tmp_path, server, monkeypatch)
    lines = (folder / "replies.jsonl").read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["status"] != "refused"]
    assert len(kept) == len(lines) - 1
    (folder / "replies.jsonl").write_bytes(b"".join(kept))
    assert "not on file" in verify(folder).problems[0].what


def test_panels_and_samples_hold_and_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judges = ["openai/gpt-4o", "openai/gpt-4.1", "openai/gpt-4.1-mini"]
    faults = iter([Scripted.fault("refusal"), Scripted.fault("400")])
    with Server(lambda seen: good(seen) if seen.images else next(faults, None) or good(seen)) as server:
        folder = run(tmp_path, server, monkeypatch, judge=judges, samples=2)
    found = verify(folder)
    assert found.holds, found.problems
    assert found.checked["scores"] == 8 * 4
    edit(folder / "replies.jsonl", -1, flip(b'score\\": '))
    found = verify(folder)
    item = json.loads((folder / "replies.jsonl").read_bytes().splitlines()[-1])["item"]
    assert wrong(found)["score"] == 2  # the panel's and the judge's own
    assert found.first_item is not None
    assert found.first_item.item == item


def test_the_same_picture_under_two_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = compared_images(tmp_path / "data", 8)
    shutil.copy(data / "0.png", data / "2.png")
    with Server(good) as server:
        folder = run(tmp_path, server, monkeypatch)
    assert verify(folder).holds
    shutil.rmtree(data)
    assert verify(folder).holds


def test_images_that_were_compared_hold_and_their_pictures_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def handler(seen: Seen) -> str:
        return json.dumps({"reason": "nicer", "better": "first" if seen.images[0] < seen.images[1] else "second"})

    with Server(handler) as server:
        folder = run(tmp_path, server, monkeypatch, metrics=["pairwise"], captioner=None)
    found = verify(folder)
    assert found.holds, found.problems
    assert (found.checked["scores"], found.checked["images"]) == (8, 8)
    Image.new("RGB", (16, 16), (1, 2, 3)).save(tmp_path / "data" / "3.png")
    assert {"3.png"} >= {each.item for each in verify(folder).problems if each.kind == "score"}
    assert any(each.where.endswith("3.png") for each in verify(folder).problems if each.kind == "picture")
    shutil.rmtree(tmp_path / "data")
    assert verify(folder).holds


def test_what_looks_at_the_picture_itself_is_left_out_when_the_picture_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"description": "nicer", "better": "tie", "reason": "same"}
    listed = compared_images(tmp_path / "data", 8) / "images.jsonl"
    listed.write_text("".join(listed.read_text().splitlines(keepends=True)[:4]))
    with Server(lambda seen: json.dumps(answers)) as server:
        folder = run(tmp_path, server, monkeypatch, metrics=["pairwise"], captioner=None)
    shutil.rmtree(tmp_path / "data")  # two images a prompt: their questions do not tell whose picture is whose
    found = verify(folder)
    assert found.holds, found.problems
    assert any(note.id == "scores_without_image" for note in found.notes)


def test_the_command_names_item_and_cell_and_exits_with_1(judged: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    first = runner.invoke(command, [str(judged)], standalone_mode=False)
    assert (first.return_value, first.exception) == (0, None)
    assert "verified" in first.output
    edit(judged / "replies.jsonl", -1, flip(b'score\\": '))
    item = json.loads((judged / "replies.jsonl").read_bytes().splitlines()[-1])["item"]
    second = runner.invoke(command, [str(judged), "--json", str(tmp_path / "v.json")], standalone_mode=False)
    assert second.return_value == 1
    assert f"first item that differs: {item}" in second.output
    assert "first cell that differs: table '" in second.output
    stored = json.loads((tmp_path / "v.json").read_text())
    assert stored["holds"] is False
    assert stored["first_item"]["item"] == item
    assert stored["wrong"]["score"] == 1


def test_a_damaged_line_is_named(judged: Path) -> None:
    edit(judged / "replies.jsonl", 0, lambda line: line.replace(b"{", b"[", 1))
    found = verify(judged)
    assert found.problems[0].where == "replies.jsonl:1"
    assert found.first_item is not None
    assert found.first_cell is not None


def test_a_run_from_before_a_table_was_added_holds(judged: Path) -> None:
    file = judged / "results.json"
    content = json.loads(file.read_text())
    title = content["tables"].pop(0)["title"]
    file.write_text(json.dumps(content))
    found = verify(judged)
    assert found.holds
    assert title in " ".join(found.notes)


def test_a_metric_without_a_score_where_it_does_not_apply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words are read in the images alone whose prompts ask for some."""
    file = compared_images(tmp_path / "data", 8) / "images.jsonl"
    first, *others = file.read_text().splitlines()
    file.write_text("\n".join([json.dumps({**json.loads(first), "text_words": ["OPEN"]}), *others]))
    with Server(good) as server:
        judged = run(tmp_path, server, monkeypatch, metrics=["tit-llm", "text-rendering-vlm"])
    found = verify(judged)
    assert found.holds, found.problems
    assert found.checked["scores"] == 8 + 1
    ran = CliRunner().invoke(judges, ["agreement", str(judged), "--json", str(tmp_path / "c.json")])
    assert ran.exit_code == 0, ran.output
    read = json.loads((tmp_path / "c.json").read_text())["metrics"]["text-rendering-vlm"]
    assert (read["scored"], read["images"], read["coverage"]) == (1, 1, 1.0)
