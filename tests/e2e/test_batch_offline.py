"""Questions out as a file, answers in from anywhere, and a run without any network."""

import json
from pathlib import Path
from typing import Any

import pytest
from answers import verdict
from builders import read_lines
from PIL import Image

from titjudge.cli.answers import answers
from titjudge.core.config import load_config
from titjudge.engine.cache import open_cache
from titjudge.runs.offline.batch import ImportedAnswers, export, import_answers
from titjudge.runs.session import Session

VERDICT = verdict(70)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    lines = []
    for number in range(4):
        Image.new("RGB", (8, 8), (number * 9, 1, 2)).save(folder / f"{number}.png")
        lines.append(json.dumps({"image": f"{number}.png", "prompt_id": f"p{number % 2}", "generator": "g"}))
    (folder / "images.jsonl").write_text("\n".join(lines))
    prompts = [json.dumps({"prompt_id": f"p{number}", "prompt": f"a red cube, number {number}"}) for number in range(2)]
    (folder / "prompts.jsonl").write_text("\n".join(prompts))
    return folder


def session(data: Path, model: str = "openai/gpt-4o", **more: Any) -> Session:
    given = {
        "data": data,
        "captioner": model,
        "judge": model,
        "metrics": ["tit-llm"],
        "out": data.parent / "run",
        **more,
    }
    return Session(load_config(None, given))


def exported(data: Path, name: str = "questions.jsonl", **more: Any) -> list[dict[str, Any]]:
    out = data.parent / name
    made = session(data, **more)
    done = export(made, out)
    lines = [json.loads(line) for file in done.files for line in file.read_text().splitlines()]
    assert done.requests == len(lines)
    return lines


def imported(data: Path, lines: list[Any], **more: Any) -> ImportedAnswers:
    file = data.parent / "answers.jsonl"
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    made = session(data, **more)
    return import_answers(made, file)


def chat(key: str, text: str | None, model: str = "gpt-4o-2024-08-06", **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **more}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    body = {"model": model, "choices": [choice], "usage": usage}
    return {"id": "x", "custom_id": key, "response": {"status_code": 200, "body": body}, "error": None}


@pytest.mark.parametrize("model", ["openai/gpt-4o", "gemini/gemini-2.5-pro"])
def test_out_and_in_again_until_all_is_judged_without_a_network(data: Path, model: str) -> None:
    first = exported(data, model=model)
    assert len(first) == 4
    assert {line["method"] for line in first} == {"POST"}
    assert {line["url"] for line in first} == {"/v1/chat/completions"}
    assert {line["body"]["model"] for line in first} == {model.partition("/")[2]}
    assert all("data:image/png;base64," in json.dumps(line["body"]) for line in first)
    answers = [{"custom_id": line["custom_id"], "text": f"description {n}"} for n, line in enumerate(first)]
    assert imported(data, answers, model=model) == ImportedAnswers(imported=4)

    second = exported(data, model=model)
    assert len(second) == 4
    assert not {line["custom_id"] for line in first} & {line["custom_id"] for line in second}
    assert all("description" in json.dumps(line["body"]) for line in second)
    lines = [chat(line["custom_id"], VERDICT, model.partition("/")[2]) for line in second]
    assert imported(data, lines, model=model) == ImportedAnswers(imported=4)

    assert exported(data, model=model) == []
    outcome = session(data, model=model).run()  # no server, no key
    assert outcome.status == "complete"
    assert outcome.results.metrics["tit-llm"].coverage == 1
    assert outcome.results.spent == 0
    replies = read_lines(outcome.folder / "replies.jsonl")
    assert all("imported" in reply["flags"] for reply in replies)
    assert {reply["endpoint"] for reply in replies} == {"file answers.jsonl"}


def test_both_stages_may_come_in_one_file_in_any_order(data: Path) -> None:
    first = exported(data)
    described = [{"custom_id": line["custom_id"], "text": f"description {n}"} for n, line in enumerate(first)]
    imported(data, described)
    judged = [chat(line["custom_id"], VERDICT) for line in exported(data)]
    found = imported(data, [*judged, *described], cache=data.parent / "another")
    assert found == ImportedAnswers(imported=8)


def test_the_same_question_goes_out_once(data: Path) -> None:
    with (data / "images.jsonl").open("a") as file:
        file.write("\n" + json.dumps({"image": "0.png", "prompt_id": "p1", "generator": "h"}))
    assert len(exported(data)) == 4


def test_what_cannot_be_used_is_named_and_never_kept(data: Path) -> None:
    keys = [line["custom_id"] for line in exported(data)]
    refused = chat(keys[0], None, refusal="no")
    cut = chat(keys[1], "half an answ")
    cut["response"]["body"]["choices"][0]["finish_reason"] = "length"
    failed = {"custom_id": keys[2], "response": {"status_code": 500, "body": {"error": {"message": "boom"}}}}
    expired = {"custom_id": keys[3], "response": None, "error": {"code": "batch_expired", "message": "too late"}}
    stranger = {"custom_id": "ask:" + "0" * 64, "text": "whose?"}
    odd = [{"custom_id": "a\x1b[31m", "text": 5}, {"custom_id": 7, "text": "x"}, {"text": "x"}, "{broken", "[1]"]
    found = imported(data, [refused, cut, failed, expired, stranger, *odd])
    assert found.imported == 0
    reasons = dict(found.unusable)
    assert "declined" in reasons[keys[0]]
    assert "token limit" in reasons[keys[1]]
    assert "boom" in reasons[keys[2]]
    assert "too late" in reasons[keys[3]]
    assert found.unknown == ["ask:" + "0" * 64]
    assert [line.rpartition("answers.jsonl:")[2].partition(":")[0] for line in found.bad] == ["7", "8", "9", "10"]
    assert len(exported(data)) == 4


def test_an_answer_that_does_not_fit_its_schema_is_unusable(data: Path) -> None:
    imported(data, [{"custom_id": line["custom_id"], "text": "seen"} for line in exported(data)])
    keys = [line["custom_id"] for line in exported(data)]
    assert len(keys) == 2  # the same description, two prompts
    found = imported(data, [{"custom_id": keys[0], "text": "a nice picture"}, {"custom_id": keys[1], "text": VERDICT}])
    assert found.imported == 1
    ((key, reason),) = found.unusable
    assert key == keys[0]
    assert reason == "0.png, tit/compare: the answer has no complete JSON object"


def test_an_answer_that_is_there_is_never_replaced(data: Path) -> None:
    keys = [line["custom_id"] for line in exported(data)]
    imported(data, [{"custom_id": key, "text": "the first"} for key in keys])
    found = imported(data, [{"custom_id": key, "text": "the second"} for key in keys])
    assert found == ImportedAnswers(already=4)
    made = session(data)
    with open_cache(made.config.cache) as cache:
        kept = cache.get(keys[0])
    assert kept is not None
    assert kept["text"] == "the first"


def test_of_two_lines_with_one_key_the_good_one_counts(data: Path) -> None:
    key = exported(data)[0]["custom_id"]
    failed = {"custom_id": key, "response": {"status_code": 500, "body": {}}}
    refused = chat(key, None, refusal="no")
    assert imported(data, [failed, refused, {"custom_id": key, "text": "good"}, failed]) == ImportedAnswers(imported=1)


def test_keys_without_their_kind_are_understood(data: Path) -> None:
    key = exported(data)[0]["custom_id"].removeprefix("ask:")
    assert imported(data, [{"custom_id": key, "text": "good"}]) == ImportedAnswers(imported=1)


def test_files_beyond_the_limits_go_on_in_the_next(data: Path) -> None:
    made = session(data)
    out = data.parent / "deep" / "q.jsonl"
    done = export(made, out, max_requests=3)
    assert [file.name for file in done.files] == ["q.jsonl", "q-2.jsonl"]
    assert [len(file.read_text().splitlines()) for file in done.files] == [3, 1]
    assert sorted(file.name for file in out.parent.iterdir()) == ["q-2.jsonl", "q.jsonl"]


def test_recorded_descriptions_are_not_asked_for(data: Path) -> None:
    lines = [json.dumps({"image": f"{number}.png", "description": f"seen {number}"}) for number in range(4)]
    (data / "descriptions.jsonl").write_text("\n".join(lines))
    found = exported(data, captioner="recorded")
    assert len(found) == 4
    assert all("seen" in json.dumps(line["body"]) for line in found)


def test_the_commands(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--data", str(data), "--provider", "openai/gpt-4o", "--metric", "tit-llm"]
    out = tmp_path / "q.jsonl"
    assert answers.main(["export", *options, "--out", str(out)], standalone_mode=False) == 0
    assert "4 questions" in capsys.readouterr().out
    keys = [json.loads(line)["custom_id"] for line in out.read_text().splitlines()]
    given = tmp_path / "a.jsonl"
    given.write_text("\n".join(json.dumps({"custom_id": key, "text": "seen"}) for key in [*keys, "no\x1b[31m"]))
    report = tmp_path / "report.json"
    told = answers.main(["import", str(given), *options, "--json", str(report)], standalone_mode=False)
    assert told == 0
    said = capsys.readouterr()
    assert "4 answers imported" in said.out
    assert "1 not asked by this run" in said.err
    assert "\x1b" not in said.err
    assert json.loads(report.read_text())[str(given)]["imported"] == 4
    given.write_text("nonsense")
    assert answers.main(["import", str(given), *options], standalone_mode=False) == 1
