"""`judge --metric tit-agent --set detector=...`: a detector of this machine beside a scripted judge, through the command line."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
import tiny_models
from commands import cli, hosted, judge

from tests.kit import Scripted, Seen, Server

PROMPT = "A red mug stands beside a lamp on a wooden table."
CLAIMS: list[dict[str, Any]] = [
    {"claim": "There is a mug", "kind": "entity", "level": "macro", "span": "A red mug", "things": ["mug"]},
    {"claim": "The mug is red", "kind": "attribute", "span": "red mug", "things": ["mug"]},
    {"claim": "The mug is beside a lamp", "kind": "relation", "span": "beside a lamp", "things": ["mug", "lamp"]},
]
PLACES = re.compile(r"places proposed by a detector \([^)]*\): (.*)")
IMAGES = ("one.png", "two.png")


class Model:
    """Captioner and judge: the judge looks at the first place that was proposed of the mug, and settles all by what is seen there."""

    def __init__(self) -> None:
        self.proposed: list[str] = []

    def __call__(self, seen: Seen) -> Scripted | str:
        if seen.images:
            return "A red mug beside a lamp." if "enlarged part" in seen.text else "A room."
        if "Take the prompt below apart" in seen.text:
            return json.dumps({"claims": CLAIMS})
        proposed = PLACES.search(seen.text)
        self.proposed.append(proposed[1] if proposed else "")
        if "E2 " in seen.text:
            return json.dumps(
                {"thought": "", "settle": [{"claims": [1, 2, 3], "verdict": "met", "evidence": "E2"}], "looks": []}
            )
        box = re.search(r"\[[^\]]*\]", self.proposed[-1])
        looks = [{"tool": "zoom", "question": "What is there?", "box": json.loads(box[0]) if box else [0, 0, 0.5, 0.5]}]
        return json.dumps({"thought": "", "settle": [], "looks": looks})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "prompts.jsonl").write_text(json.dumps({"prompt_id": "p", "prompt": PROMPT}))
    lines = [{"image": name, "prompt_id": "p", "generator": name[:3]} for name in IMAGES]
    (folder / "images.jsonl").write_text("\n".join(map(json.dumps, lines)))
    for number, name in enumerate(IMAGES):
        tiny_models.picture(96, 64, number).save(folder / name)
    return folder


@pytest.fixture
def detector(tmp_path: Path) -> Path:
    return tiny_models.owlv2(tmp_path / "owlv2")


def by_agent(folder: Path, server: Server, *more: str, code: int = 0) -> str:
    prices = ("--price", "gpt-4o=2.5,10", "--price", "gpt-4o-mini=0.15,0.6")
    return judge(folder, server, "--metric", "tit-agent", *prices, *more, code=code)


def named(model: Path) -> tuple[str, str]:
    return "--set", f"detector=zero-shot-object-detection/{model}"


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (folder / name).read_bytes().splitlines()]


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads((folder / "manifest.json").read_bytes())
    return found


@pytest.mark.slow
def test_a_detector_of_this_machine_is_asked_once_for_an_image_and_never_again(
    tmp_path: Path, data: Path, detector: Path
) -> None:
    model = Model()
    run = tmp_path / "run"
    with Server(model) as server:
        by_agent(tmp_path, server, *named(detector), "--max-cost", "1", "--out", "run")
        sent = server.count()
        assert sent == 1 + 2 * 4  # a split; a description, a zoom and two turns of the judge for each image
        located = [reply for reply in lines(run, "replies.jsonl") if reply["role"] == "detector"]
        assert {reply["item"] for reply in located} == set(IMAGES)
        for score in lines(run, "scores.jsonl"):
            parts, (reply,) = score["parts"], [each for each in located if each["item"] == score["item"]]
            assert score["value"] == 100
            assert reply["key"] in score["replies"]
            assert (parts["places"]["things"], parts["places"]["failed"]) == (["mug", "lamp"], "")
            best = next(place["box"] for place in parts["places"]["proposed"] if place["thing"] == "mug")
            assert parts["evidence"][1]["box"] == best  # the judge has looked where the detector said
            assert parts["counts"]["looks"] == 2
            boxes = json.loads(reply["text"])["boxes"]
            assert min(abs(box["box"][0] - best[0]) for box in boxes if box["name"] == "mug") < 0.001
        about = manifest(run)
        assert (about["roles"]["detector"]["asked"], about["roles"]["detector"]["spent"]) == (2, 0)
        assert about["pins"]["detector"].startswith("zero-shot-object-detection:")
        assert about["identity"]["detector"]["model"] == named(detector)[1].removeprefix("detector=")
        assert not any(line.get("role") == "detector" for line in lines(run, "billing.jsonl"))

        by_agent(tmp_path, server, *named(detector), "--max-cost", "1", "--out", "again")
        assert server.count() == sent
        again = manifest(tmp_path / "again")["roles"]["detector"]
        assert (again["asked"], again["cached"]) == (0, 2)

        assert "with another detector: choose another --out" in by_agent(tmp_path, server, "--out", "run", code=2)
        before = len(model.proposed)
        by_agent(tmp_path, server, "--out", "plain")
        assert set(model.proposed[before:]) == {""}
        plain = manifest(tmp_path / "plain")
        assert "detector" not in {*plain["identity"], *plain["roles"], *plain["pins"], *plain["prompts"]}
        assert all("places" not in score["parts"] for score in lines(tmp_path / "plain", "scores.jsonl"))

        shutil.rmtree(detector)  # the stored answers are enough
        cli(tmp_path, "verify", "run")


@pytest.mark.slow
def test_the_answers_of_a_detector_are_recorded_and_replayed(tmp_path: Path, data: Path, detector: Path) -> None:
    with Server(Model()) as server:
        by_agent(tmp_path, server, *named(detector), "--out", "run")
        asked = ("--data", str(data), "--metric", "tit-agent")
        cli(tmp_path, "answers", "record", *asked, "--provider", "openai/gpt-4o", *named(detector), **hosted(server))
        sent = server.count()
        cli(
            tmp_path,
            "judge",
            *asked,
            "--provider",
            "recorded",
            "--set",
            "detector=recorded",
            "--no-report",
            "--out",
            "replayed",
        )
        assert server.count() == sent
    scores = [
        {s["item"]: s["parts"]["places"] for s in lines(tmp_path / run, "scores.jsonl")} for run in ("run", "replayed")
    ]
    assert scores[0] == scores[1]


def test_a_detector_of_this_machine_answers_itself_where_questions_go_into_a_file(
    tmp_path: Path, data: Path, detector: Path
) -> None:
    offline = ("--data", str(data), "--metric", "tit-agent", "--provider", "recorded", *named(detector))
    exported = ("answers", "export", *offline, "--out", "open.jsonl")

    def open_questions() -> list[dict[str, Any]]:
        cli(tmp_path, *exported)
        return lines(tmp_path, "open.jsonl")

    (split,) = open_questions()
    answers = [{"custom_id": split["custom_id"], "text": json.dumps({"claims": CLAIMS})}]
    for expected in (["tit/describe"] * 2, ["agent/orchestrate"] * 2):
        (tmp_path / "given.jsonl").write_text("\n".join(map(json.dumps, answers)))
        cli(tmp_path, "answers", "record", *offline, "--author", "a person", "given.jsonl")
        questions = open_questions()
        assert [question["template"] for question in questions] == expected
        answers = [{"custom_id": question["custom_id"], "text": "A room."} for question in questions]
    assert all(PLACES.search(question["question"]) for question in questions)
    cli(tmp_path, *(each if each != "recorded" else "openai" for each in exported))
    assert {line["body"]["model"] for line in lines(tmp_path, "open.jsonl")} == {"gpt-4o"}


def test_a_dry_run_counts_what_costs_and_finds_the_detector(tmp_path: Path, data: Path, detector: Path) -> None:
    with Server(Model()) as server:
        by_agent(tmp_path, server, *named(detector), "--dry-run", "--json", "plan.json")
        by_agent(tmp_path, server, "--dry-run", "--json", "plain.json")
        assert server.count() == 0
    plan, plain = (json.loads((tmp_path / name).read_text())["roles"] for name in ("plan.json", "plain.json"))
    assert {name: role["requests"] for name, role in plan.items()} == {
        name: role["requests"] for name, role in plain.items()
    }
    assert plan["judge"]["tokens"]["text"] > plain["judge"]["tokens"]["text"]  # the judge reads the places


def test_a_hosted_model_that_answers_with_boxes_is_a_detector_at_its_price(tmp_path: Path, data: Path) -> None:
    def model(seen: Seen) -> Scripted | str:
        if "You find things in an image" in seen.text:
            assert seen.text.rstrip().endswith("mug\nlamp")
            return json.dumps({"boxes": [{"name": "mug", "box": [0.1, 0.1, 0.4, 0.5], "score": 0.9}]})
        return Model()(seen)

    with Server(model) as server:
        by_agent(tmp_path, server, "--set", "detector=openai/gpt-4o-mini", "--max-cost", "1", "--out", "run")
    assert manifest(tmp_path / "run")["roles"]["detector"]["spent"] > 0
    assert [score["parts"]["places"]["proposed"] for score in lines(tmp_path / "run", "scores.jsonl")] == [
        [{"thing": "mug", "box": [0.1, 0.1, 0.4, 0.5], "score": 0.9}]
    ] * 2


@pytest.mark.slow
def test_an_outage_of_the_detector_is_no_score_and_the_same_command_asks_it_again(tmp_path: Path, data: Path) -> None:
    out = [True]

    def model(seen: Seen) -> Scripted | str:
        if "You find things in an image" in seen.text:
            return Scripted.fault(400) if out[0] else json.dumps({"boxes": []})
        return Model()(seen)

    with Server(model) as server:
        by_agent(tmp_path, server, "--set", "detector=openai/gpt-4o-mini", "--out", "run", code=1)
        assert {(score["value"], score["status"]) for score in lines(tmp_path / "run", "scores.jsonl")} == {
            (None, "failed")
        }
        out[0] = False
        by_agent(tmp_path, server, "--set", "detector=openai/gpt-4o-mini", "--out", "run")
    assert [score["value"] for score in lines(tmp_path / "run", "scores.jsonl")][-2:] == [100, 100]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (("--set", "detector=owlv2"), "'owlv2' has no provider. Write PROVIDER/MODEL"),
        (("--set", "detector=zero-shot-object-detection"), "has no model. Write zero-shot-object-detection/MODEL"),
        (("--set", "detector=zero-shot-object-detection/./nowhere"), "'./nowhere' is not a model folder"),
        (("--set", "detector=zero-shot-object-detection/clip"), "is not a model for zero-shot object detection: its model_type is clip"),
        (("--captioner", "zero-shot-object-detection/owlv2"), "only detects objects"),
    ],
)  # fmt: skip
def test_what_is_no_detector_is_one_line(given: tuple[str, str], line: str, tmp_path: Path, data: Path) -> None:
    for name in ("clip", "owlv2"):
        if given[1].endswith(f"/{name}"):
            (tmp_path / name).mkdir()
            getattr(tiny_models, name)(tmp_path / name)
    with Server(Model()) as server:
        shown = by_agent(tmp_path, server, *given, "--out", "run", code=2)
    assert line in shown
    assert "Traceback" not in shown


def test_a_metric_that_asks_no_detector_leaves_it_alone(tmp_path: Path, data: Path) -> None:
    with Server(lambda seen: "A room." if seen.images else json.dumps({"missing": [], "contradicted": [], "reason": "", "score": 5})) as server:  # fmt: skip
        flags = ("--set", "detector=zero-shot-object-detection/./nowhere", "--out", "run")
        judge(tmp_path, server, "--metric", "tit-llm", *flags)
    assert "detector" not in {*manifest(tmp_path / "run")["roles"], *manifest(tmp_path / "run")["pins"]}


def test_doctor_finds_the_detector(tmp_path: Path, detector: Path) -> None:
    assert named(detector)[1].replace("=", " ", 1) in cli(tmp_path, "doctor", *named(detector))
    shown = cli(tmp_path, "doctor", "--set", "detector=zero-shot-object-detection/./nowhere", code=2)
    assert "'./nowhere' is not a model folder" in shown


def test_a_detector_answers_yes_no_questions_by_itself(tmp_path: Path, data: Path, detector: Path) -> None:
    asked = {"questions": ["Is there a mug in the image?", "Is it red?"], "gold_answers": ["no", "yes"]}
    (data / "prompts.jsonl").write_text(json.dumps({"prompt_id": "p", "prompt": PROMPT, **asked}))
    by_detector = ("judge", "--data", "data", "--metric", "yes-no-detector", *named(detector), "--no-report")
    cli(tmp_path, *by_detector, "--set", "yes-no-detector.threshold=0.2", "--out", "run")
    scores = lines(tmp_path / "run", "scores.jsonl")
    assert len(scores) == len(IMAGES)
    for score in scores:
        there = score["parts"]["boxes"]["mug"] > 0
        assert (score["value"], score["parts"]["preds"]) == (float(not there), ["yes" if there else "no", "open"])
    told = cli(tmp_path, "judge", "--data", "data", "--metric", "yes-no-detector", "--out", "none", code=2)
    assert "--set detector=" in told
