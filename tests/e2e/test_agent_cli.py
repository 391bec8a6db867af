"""A whole run of `judge --metric tit-agent` against a loopback server, through the command line."""

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import orjson
import pytest
from agent_answers import BOWL_CLAIMS, split
from commands import judge
from PIL import Image

from tests.kit import Scripted, Seen, Server

PROMPT = "A blue bowl holds three oranges on a wooden table. Behind it a sign reads FRESH, in warm light."


def data_folder(folder: Path) -> Path:
    """Two images of one prompt by two generators."""
    data = folder / "data"
    data.mkdir()
    (data / "prompts.jsonl").write_text(json.dumps({"prompt_id": "p", "prompt": PROMPT}) + "\n")
    with (data / "images.jsonl").open("w") as file:
        for number, name in enumerate(("one", "two")):
            Image.new("RGB", (320, 320), (90 * number, 40, 200)).save(data / f"{name}.png")
            file.write(json.dumps({"image": f"{name}.png", "prompt_id": "p", "generator": name, "max_looks": 4}) + "\n")
    pair = {"prompt_id": "p", "image_a": "one.png", "image_b": "two.png", "preference": "a"}
    (data / "pairs.jsonl").write_text(json.dumps(pair) + "\n")
    return data


def answered(settle: list[tuple[int, str, str]], looks: list[dict[str, Any]]) -> str:
    settled = [{"claim": claim, "verdict": verdict, "evidence": evidence} for claim, verdict, evidence in settle]
    return json.dumps({"thought": "looking", "settle": settled, "looks": looks})


def handler(seen: Seen) -> Scripted | str:
    """A model that plays both roles: image one has three oranges, image two has two."""
    if seen.images:
        if "Count what is named" in seen.text:
            return "in a row\nCount: 3" if seen.images[0] in PICTURES[:1] else "in front\nCount: 2"
        return (
            "It says FRESH."
            if "enlarged part" in seen.text
            else f"A blue bowl on a wooden table ({seen.digest.hex()[:6]})."
        )
    if "Take the prompt below apart" in seen.text:
        return split(BOWL_CLAIMS)
    counted = re.search(r"(E\d) count\(.*Count: (\d)", seen.text)
    if counted is None:
        looks = [
            {"tool": "count", "question": "oranges", "box": []},
            {"tool": "zoom", "question": "What does the sign say?", "box": [0.5, 0.0, 1.0, 0.5]},
            {"tool": "x-ray", "question": "what is inside?", "box": []},
            {"tool": "zoom", "question": "What?", "box": [320, 320, 640, 640]},
        ]
        return answered([(1, "met", "E1"), (2, "met", "E1"), (4, "met", "E1")], looks)
    verdict = "met" if counted[2] == "3" else "not_met"
    return answered([(3, verdict, counted[1]), (5, "met", "E3")], [])


PICTURES: list[str] = []


def scores(folder: Path) -> dict[str, dict[str, Any]]:
    (file,) = folder.glob("runs/*/scores.jsonl")
    return {record["item"]: record for record in map(orjson.loads, file.read_bytes().splitlines())}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    import hashlib

    made = data_folder(tmp_path)
    PICTURES[:] = [hashlib.sha256((made / name).read_bytes()).hexdigest() for name in ("one.png", "two.png")]
    return made


def test_a_run_of_the_agentic_judge(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("--metric", "tit-agent", "--max-cost", "1", "--price", "gpt-4o=2.5,10", "--json", "out.json")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    with Server(handler) as server:
        out = judge(tmp_path, server, *command, report=True)
        first = server.count()
        found = scores(tmp_path)
        splits = server.count(lambda seen: "Take the prompt below apart" in seen.text)
        judge(tmp_path, server, *command, "--out", "again", report=True)
        assert server.count() == first
    assert list((tmp_path / "tmp").glob("titjudge-zoom-*")) == []
    assert splits == 1
    assert found["one.png"]["value"] == 100
    assert found["two.png"]["value"] == pytest.approx(100 * (5 + 4 * 2 / 3) / 9)
    parts = found["two.png"]["parts"]
    assert [row["verdict"] for row in parts["claims"]] == ["met", "met", "not_met", "met", "met"]
    assert (parts["stopped"], parts["counts"]["looks"], parts["max_looks"]) == ("covered", 3, 4)
    assert (parts["counts"]["invented_tools"], parts["counts"]["bad_boxes"]) == (1, 1)
    assert len(found["two.png"]["replies"]) == 6
    results = json.loads((tmp_path / "out.json").read_text())["metrics"]["tit-agent"]
    assert (results["accuracy"], results["coverage"]) == (1.0, 1.0)
    assert "sk-test" not in out


def test_a_dry_run_prices_the_looks_and_sends_nothing(tmp_path: Path, data: Path) -> None:
    with Server(handler) as server:
        judge(tmp_path, server, "--metric", "tit-agent", "--dry-run", "--json", "out.json", report=True)
        assert server.count() == 0
    roles = json.loads((tmp_path / "out.json").read_text())["roles"]
    assert roles["captioner"]["requests"] == 2 * 2
    assert roles["judge"]["requests"] == 1 + 2 * 2
    assert roles["captioner"]["list_cost"][1] > 0


def test_a_cap_stops_the_run_and_the_same_command_goes_on(tmp_path: Path, data: Path) -> None:
    command = ("--metric", "tit-agent")
    with Server(handler) as server:
        judge(tmp_path, server, *command, "--set", "max_requests=3", code=3, report=True)
        assert server.count() <= 3
        judge(tmp_path, server, *command, report=True)
        assert server.count() == 1 + 2 * 5
    assert [scores(tmp_path)[name]["value"] for name in ("one.png", "two.png")] == pytest.approx(
        [100, 100 * (5 + 4 * 2 / 3) / 9]
    )


def test_an_outage_of_the_eyes_is_no_score(tmp_path: Path, data: Path) -> None:
    def faulty(seen: Seen) -> Scripted | str:
        return (
            Scripted.fault(400)
            if "Count what is named" in seen.text and seen.images[0] == PICTURES[1]
            else handler(seen)
        )

    with Server(faulty) as server:
        judge(tmp_path, server, "--metric", "tit-agent", code=4, report=True)
    found = scores(tmp_path)
    assert found["one.png"]["value"] == 100
    assert (found["two.png"]["value"], found["two.png"]["status"]) == (None, "failed")
    assert len(found["two.png"]["parts"]["evidence"]) == 3
