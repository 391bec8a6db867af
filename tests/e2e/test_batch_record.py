"""Answers become a recording beside the data: from people and models that see the pictures, or from a paid run's cache."""

import base64
import json
import os
import shutil
from hashlib import sha256
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from answers import verdict
from builders import read_lines
from PIL import Image

from titjudge.cli.answers import answers
from titjudge.cli.commands import run_command
from titjudge.core.config import load_config
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.types import Status
from titjudge.providers import ProviderSettings
from titjudge.providers.recorded import Recorded
from titjudge.runs.offline.batch import export, import_answers
from titjudge.runs.offline.recording import Kept, record
from titjudge.runs.session import Session

VERDICT = verdict(70)
WHO = "a person"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "images").mkdir(parents=True)
    lines = []
    for number in range(3):
        Image.new("RGB", (80, 80), (number * 9, 1, 2)).save(folder / "images" / f"{number}.png")
        lines.append({"image": f"images/{number}.png", "prompt": f"a red cube, number {number}"})
    (folder / "data.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def session(data: Path, model: str = "recorded", **more: Any) -> Session:
    file = {"file": str(data / "descriptions.jsonl")}
    role = {"model": model, "options": file} if model == "recorded" else {"model": model}
    given = {"data": data / "data.jsonl", "captioner": role, "judge": role, "metrics": ["tit-llm"], "report": False}
    return Session(load_config(None, {**given, "out": data.parent / "run", **more}))


def exported(data: Path, **more: Any) -> list[dict[str, Any]]:
    made = session(data, **more)
    done = export(made, data.parent / "questions.jsonl")
    return [json.loads(line) for file in done.files for line in file.read_text().splitlines()]


def recorded(data: Path, given: list[Any], by: str = WHO, **more: Any) -> Kept:
    file = data.parent / "given.jsonl"
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in given))
    made = session(data, **more)
    return record(made, [file] if given else [], data / "answers.jsonl", by=by)


def all_answered(data: Path) -> None:
    """Descriptions, then verdicts."""
    for text in ("a description", VERDICT):
        recorded(data, [{"custom_id": line["custom_id"], "text": text} for line in exported(data)])


def kept(data: Path) -> list[dict[str, Any]]:
    return read_lines(data / "answers.jsonl")


def test_questions_for_people_are_plain_and_answers_lead_to_the_next(data: Path) -> None:
    first = exported(data)
    assert [line["template"] for line in first] == ["tit/describe"] * 3
    assert sorted(line["images"] for line in first) == [[str(data / "images" / f"{n}.png")] for n in range(3)]
    assert first[0]["question"].startswith("Please provide a detailed")
    assert "schema" not in first[0]
    answers = [{"custom_id": line["custom_id"], "text": f"seen {n}"} for n, line in enumerate(first)]
    assert recorded(data, answers) == Kept(imported=3)
    second = exported(data)
    assert [line["template"] for line in second] == ["tit/compare"] * 3
    assert second[0]["images"] == []
    assert second[0]["schema"]["properties"].keys() == {"missing", "contradicted", "reason", "score"}
    answers = [{"custom_id": line["custom_id"], "text": VERDICT} for line in second]
    assert recorded(data, answers) == Kept(imported=3, already=3)
    assert exported(data) == []
    outcome = session(data).run()
    assert outcome.results.metrics["tit-llm"].coverage == 1
    assert outcome.results.spent == 0


def test_a_line_tells_people_all_and_names_no_place_of_this_machine(data: Path) -> None:
    all_answered(data)
    lines = kept(data)
    assert [line["template"] for line in lines] == ["tit/describe"] * 3 + ["tit/compare"] * 3
    assert {line["by"] for line in lines} == {WHO}
    assert [line["images"] for line in lines[:3]] == [[f"images/{n}.png"] for n in range(3)]
    assert lines[0]["answer"] == "a description"
    assert "a red cube" in lines[3]["question"]
    assert str(data.parent) not in (data / "answers.jsonl").read_text()


def test_a_recording_moves_with_its_folder(data: Path, tmp_path: Path) -> None:
    all_answered(data)
    there = Path(shutil.copytree(data, tmp_path / "other" / "place"))
    shutil.rmtree(data)
    outcome = session(there, out=tmp_path / "again", cache=tmp_path / "empty").run()
    assert outcome.results.metrics["tit-llm"].coverage == 1


def test_what_a_paid_run_answered_is_recorded_from_its_cache(data: Path) -> None:
    hosted = {"model": "openai/gpt-4o"}
    for text in ("a description", VERDICT):
        questions = exported(data, **hosted)
        file = data.parent / "bought.jsonl"
        lines = [{"custom_id": line["custom_id"], "text": text, "model": "gpt-4o-2024"} for line in questions]
        file.write_text("\n".join(map(json.dumps, lines)))
        made = session(data, **hosted)
        assert import_answers(made, file).imported == 3
    assert recorded(data, [], by="", **hosted) == Kept(imported=6)
    assert {line["by"] for line in kept(data)} == {"gpt-4o-2024"}
    assert recorded(data, [], by="", **hosted) == Kept(already=6)
    assert exported(data) == []  # `recorded` has them all now


def test_an_answer_that_is_recorded_is_never_replaced(data: Path) -> None:
    first = exported(data)
    recorded(data, [{"custom_id": line["custom_id"], "text": "the first"} for line in first])
    found = recorded(data, [{"custom_id": line["custom_id"], "text": "the second"} for line in first])
    assert found.imported == 0
    assert found.already == 3
    assert {line["answer"] for line in kept(data)} == {"the first"}


def test_what_cannot_be_used_is_named_and_not_recorded(data: Path) -> None:
    recorded(data, [{"custom_id": line["custom_id"], "text": "seen"} for line in exported(data)])
    keys = [line["custom_id"] for line in exported(data)]
    stranger = "ask:" + "0" * 64
    given = [
        {"custom_id": keys[0], "text": "a nice picture"},
        {"custom_id": keys[1], "text": VERDICT},
        {"custom_id": keys[1], "text": VERDICT.replace("70", "10")},
        {"custom_id": keys[2], "text": " "},
        {"custom_id": stranger, "text": "whose?"},
        "{broken",
    ]
    found = recorded(data, given)
    assert found.imported == 1
    assert [key for key, _ in found.unusable] == [keys[2], keys[0]]
    assert found.unknown == [stranger]
    assert len(found.bad) == 2
    assert any("answered twice" in line for line in found.bad)
    assert any(":6:" in line for line in found.bad)
    assert json.loads(kept(data)[3]["answer"])["score"] == 70


def test_nobody_answered_is_an_error(data: Path) -> None:
    given = [{"custom_id": line["custom_id"], "text": "seen"} for line in exported(data)]
    with pytest.raises(ConfigError, match="--author"):
        recorded(data, given, by="")
    assert not (data / "answers.jsonl").exists()


def test_a_recorded_answer_is_not_for_the_cache(data: Path) -> None:
    made = session(data)
    with pytest.raises(ConfigError, match="answers record"):
        import_answers(made, data.parent / "given.jsonl")


def test_beside_another_model_only_its_own_questions_are_exported(data: Path) -> None:
    lines = [json.dumps({"image": f"images/{number}.png", "description": f"seen {number}"}) for number in range(2)]
    (data / "descriptions.jsonl").write_text("\n".join(lines))
    found = exported(data, judge="openai/gpt-4o")
    assert len(found) == 2
    assert {line["body"]["model"] for line in found} == {"gpt-4o"}


def test_no_question_is_built_on_an_answer_that_is_still_open(data: Path) -> None:
    (data / "descriptions.jsonl").write_text(
        "\n".join(json.dumps({"image": f"images/{number}.png", "description": "a cube"}) for number in range(3))
    )
    more: dict[str, Any] = {"metrics": ["tit-agent"], "limit": 1}
    claim = {"claim": "There is a cube", "kind": "entity", "level": "macro", "span": "red cube"}
    (split,) = exported(data, **more)
    recorded(data, [{"custom_id": split["custom_id"], "text": json.dumps({"claims": [claim]})}], **more)
    looks = [
        {"tool": "ask", "question": "What is there?"},
        {"tool": "zoom", "question": "And here?", "box": [0, 0, 0.5, 1]},
    ]
    (turn,) = exported(data, **more)
    recorded(data, [{"custom_id": turn["custom_id"], "text": json.dumps({"settle": [], "looks": looks})}], **more)
    asked, zoomed = exported(data, **more)
    assert (asked["template"], asked["images"]) == ("agent/ask", [str(data / "images" / "0.png")])
    assert "box" not in asked
    assert zoomed["template"] == "agent/zoom"
    assert (zoomed["part_of"], zoomed["box"]) == (str(data / "images" / "0.png"), [0, 0, 0.5, 1])
    head, _, content = zoomed["images"][0].partition(",")  # its file is gone by now
    assert head == "data:image/png;base64"
    crops = data.parent / "crops"
    made = session(data, **more)
    (file,) = export(made, data.parent / "again.jsonl", crops=crops).files
    (crop,) = json.loads(file.read_text().splitlines()[1])["images"]
    assert Path(crop).parent == crops
    assert Path(crop).read_bytes() == base64.b64decode(content)
    assert sha256(base64.b64decode(content)).hexdigest()[:16] not in crop  # equal parts of two images look unequal
    recorded(data, [{"custom_id": zoomed["custom_id"], "text": "Half of a cube."}], **more)
    (seen,) = [line for line in kept(data) if line["template"] == "agent/zoom"]
    assert (seen["images"], seen["box"]) == (["images/0.png"], [0, 0, 0.5, 1])


def test_the_questions_of_an_image_stand_together_and_name_all_they_are_asked_for(data: Path) -> None:
    lines = [{"image": f"images/{n}.png", "prompt": f"a cube {n % 2}", "prompt_id": f"p{n % 2}"} for n in range(3)]
    (data / "data.jsonl").write_text("\n".join(map(json.dumps, lines)))
    questions = exported(data, metrics=["tit-agent", "lmm-score"])
    blocks = [(item, [line["template"] for line in group]) for item, group in groupby(questions, itemgetter("item"))]
    both = ["agent/split", "lmm_score/rate"]
    assert sorted(blocks) in (
        [("images/0.png", both), ("images/1.png", both), ("images/2.png", both[1:])],
        [("images/0.png", both[1:]), ("images/1.png", both), ("images/2.png", both)],
    )
    shared = {line["item"]: line.get("items") for line in questions if line["template"] == "agent/split"}
    assert sorted(filter(None, shared.values()), key=len) == [sorted(["images/0.png", "images/2.png"], key=_drawn)]
    assert shared["images/1.png"] is None


def test_the_order_of_the_images_is_not_that_of_the_data(data: Path) -> None:
    """Data may be sorted by what they know of an image, and who answers must not be told."""
    order = [line["item"] for line in exported(data, metrics=["lmm-score"])]
    assert order == sorted(order, key=_drawn)
    many = [f"images/{number}.png" for number in range(100)]
    assert sum(one > other for one, other in pairwise(sorted(many, key=_drawn))) > 30


def _drawn(item: str) -> bytes:
    return sha256(item.encode()).digest()


def test_with_nothing_to_ask_no_old_question_stays_in_the_files(data: Path) -> None:
    made = session(data)
    first = export(made, data.parent / "q.jsonl", max_requests=1)
    assert [file.name for file in first.files] == ["q.jsonl", "q-2.jsonl", "q-3.jsonl"]
    mine = data.parent / "q-4.jsonl"
    mine.write_text("a file of mine\n")
    all_answered(data)
    done = export(made, data.parent / "q.jsonl", max_requests=1)
    assert (done.requests, done.files) == (0, [data.parent / "q.jsonl"])
    assert (data.parent / "q.jsonl").read_bytes() == b""
    assert sorted(file.name for file in data.parent.glob("q[.-]*")) == ["q-4.jsonl", "q.jsonl"]
    assert mine.read_text() == "a file of mine\n"


def test_answer_is_taken_for_text_and_an_object_for_its_text(data: Path) -> None:
    recorded(data, [{**line, "answer": "seen"} for line in exported(data)])
    first, second, third = (line["custom_id"] for line in sorted(exported(data), key=itemgetter("item")))
    given = [
        {"custom_id": first, "text": json.loads(VERDICT)},
        {"custom_id": second, "answer": json.loads(VERDICT)},
        {"custom_id": third, "answer": VERDICT},
    ]
    assert recorded(data, given) == Kept(imported=3, already=3)
    assert session(data).run().results.metrics["tit-llm"].coverage == 1


def test_a_rejected_answer_is_named_with_item_question_and_reason(data: Path) -> None:
    recorded(data, [{"custom_id": line["custom_id"], "text": "seen"} for line in exported(data)])
    first, second, third = (line["custom_id"] for line in sorted(exported(data), key=itemgetter("item")))
    given = [
        {"custom_id": first, "text": "a nice picture"},
        {"custom_id": second, "text": VERDICT.replace("70", "500")},
        {"custom_id": third, "text": ""},
    ]
    found = dict(recorded(data, given).unusable)
    assert found[first] == "images/0.png, tit/compare: the answer has no complete JSON object"
    assert found[second] == "images/1.png, tit/compare: field score: must be less than or equal to 100"
    assert found[third] == "images/2.png, tit/compare: 'text' is empty. Write the answer"


def corrected(data: Path, given: list[Any], **more: Any) -> Kept:
    file = data.parent / "corrections.jsonl"
    file.write_text("\n".join(map(json.dumps, given)))
    made = session(data, **more)
    return record(made, [file], data / "answers.jsonl", by="another person", replace=True)


def test_a_corrected_answer_takes_the_place_of_the_old_and_drops_what_was_built_on_it(data: Path) -> None:
    questions = sorted(exported(data), key=itemgetter("item"))
    all_answered(data)
    assert [line["template"] for line in kept(data)] == ["tit/describe"] * 3 + ["tit/compare"] * 3
    answer = [{"custom_id": questions[1]["custom_id"], "text": "seen better"}]
    assert recorded(data, answer).differing == ["images/1.png, tit/describe"]
    found = corrected(data, answer)
    assert (found.imported, found.replaced, found.dropped) == (1, 1, 1)
    lines = kept(data)
    assert [line["template"] for line in lines] == ["tit/describe"] * 3 + ["tit/compare"] * 2
    assert [(line["answer"], line["by"]) for line in lines[:3]] == [
        ("a description", WHO),
        ("seen better", "another person"),
        ("a description", WHO),
    ]
    (open_,) = exported(data)
    assert (open_["item"], open_["template"]) == ("images/1.png", "tit/compare")
    assert "seen better" in open_["question"]


def test_a_recording_is_on_the_disk_before_it_takes_the_place_of_the_old(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = exported(data)
    synced = []
    monkeypatch.setattr("titjudge.core.files.os.fsync", lambda file: synced.append(os.fstat(file).st_size))
    recorded(data, [{"custom_id": line["custom_id"], "text": "a description"} for line in questions])
    assert (data / "answers.jsonl").stat().st_size in synced


def test_a_correction_that_does_not_fit_changes_and_drops_nothing(data: Path) -> None:
    all_answered(data)
    before = (data / "answers.jsonl").read_bytes()
    (data / "answers.jsonl").rename(data / "aside.jsonl")
    questions = exported(data)
    recorded(data, [{"custom_id": line["custom_id"], "text": "a description"} for line in questions])
    verdicts = exported(data)
    (data / "aside.jsonl").rename(data / "answers.jsonl")
    found = corrected(data, [{"custom_id": verdicts[0]["custom_id"], "text": "not JSON"}])
    assert (found.imported, found.replaced, found.dropped) == (0, 0, 0)
    assert [key for key, _ in found.unusable] == [verdicts[0]["custom_id"]]
    assert (data / "answers.jsonl").read_bytes() == before
    with pytest.raises(ConfigError, match="--replace requires recorded answers"):
        corrected(data, [], captioner="openai/gpt-4o")


def test_turns_with_native_tools_are_named_and_not_recorded(data: Path) -> None:
    more: dict[str, Any] = {"metrics": ["tit-agent"], "limit": 1, "judge": "openai/gpt-4o"}
    (data / "descriptions.jsonl").write_text(json.dumps({"image": "images/0.png", "description": "a cube"}))
    claim = {"claim": "There is a cube", "kind": "entity", "level": "macro", "span": "red cube"}
    (split,) = exported(data, **more)
    assert (
        recorded(data, [{"custom_id": split["custom_id"], "text": json.dumps({"claims": [claim]})}], **more).imported
        == 1
    )
    (turn,) = exported(data, **more)
    assert turn["body"]["tools"]
    call = {"id": "c", "type": "function", "function": {"name": "count", "arguments": '{"question": "cubes"}'}}
    choice = {"message": {"role": "assistant", "content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}
    answer = {"custom_id": turn["custom_id"], "response": {"status_code": 200, "body": {"choices": [choice]}}}
    found = recorded(data, [answer], **more)
    assert found.imported == 0
    assert [key for key, reason in found.unusable if "native tools" in reason] == [turn["custom_id"]]
    assert len(kept(data)) == 1


def test_nothing_recorded_at_all_is_an_error_except_at_the_beginning(data: Path) -> None:
    options = {"file": str(data / "descriptions.jsonl")}
    with pytest.raises(DataError, match=r"descriptions\.jsonl"):
        Recorded(ProviderSettings("", options=options))
    with pytest.raises(DataError, match=r"mine\.jsonl"):
        Recorded(ProviderSettings("", options={**options, "answers": str(data / "mine.jsonl")}))
    assert Recorded(ProviderSettings("", options={**options, "new": True})).capabilities.direct


def test_the_commands(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    for number in range(2):
        Image.new("RGB", (8, 8), (number, 1, 2)).save(folder / f"{number}.png")
        (folder / f"{number}.txt").write_text(f"a cube, number {number}")
    options = ["--data", str(folder), "--provider", "recorded", "--metric", "tit-llm"]
    out, given, report = tmp_path / "q.jsonl", tmp_path / "a.jsonl", tmp_path / "r.json"
    for text in ("seen", VERDICT):
        assert answers.main(["export", *options, "--out", str(out)], standalone_mode=False) == 0
        assert "`answers record`" in capsys.readouterr().out
        keys = [json.loads(line)["custom_id"] for line in out.read_text().splitlines()]
        given.write_text("\n".join(json.dumps({"custom_id": key, "text": text}) for key in [*keys, "no\x1b[31m"]))
        told = answers.main(
            ["record", str(given), *options, "--author", WHO, "--json", str(report)], standalone_mode=False
        )
        said = capsys.readouterr()
        assert told == 0
        assert "2 answers recorded" in said.out
        assert "1 not asked by this run" in said.err
        assert "\x1b" not in said.err
    assert json.loads(report.read_text())["imported"] == 2
    assert (folder / "answers.jsonl").is_file()
    with pytest.raises(ConfigError, match="--out"):
        answers.main(
            ["record", "--data", str(data / "data.jsonl"), "--provider", "openai/gpt-4o", "--metric", "tit-llm"],
            standalone_mode=False,
        )
    assert answers.main(["record", *options, "--out", str(tmp_path / "new.jsonl")], standalone_mode=False) == 1


def test_an_unrecorded_question_is_missing(data: Path) -> None:
    all_answered(data)
    lines = kept(data)
    (data / "answers.jsonl").write_text("\n".join(json.dumps(line) for line in lines[1:]))
    outcome = session(data).run()
    ((item, status, reason),) = outcome.failures
    assert (item, status) == ("images/0.png", str(Status.MISSING))
    assert "no description of 0.png" in reason


def test_options_of_metrics_reach_an_export(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = data.parent / "q.jsonl"
    arguments = ["answers", "export", "--data", str(data), "--provider", "recorded", "--metric", "tit-agent"]
    assert run_command("titjudge", [*arguments, "--out", str(out), "--set", "tit-agent.max_looks=0"]) == 2
    assert "max_looks" in capsys.readouterr().err
    assert run_command("titjudge", [*arguments, "--out", str(out), "--set", "tit-agent.max_looks=12"]) == 0
