"""A reader of one's own gets the enlarged parts of an image in one question, and the recording says where they are."""

import json
from pathlib import Path

from builders import read_lines, write_lines
from commands import cli
from PIL import Image

from titjudge.runs.offline.batch import boxes_of

PROMPT = "A blue bowl with 900 beans stands on a wooden table."
METRIC = ("--data", "data", "--metric", "tit-agent", "--set", "tit-agent.first_look=inventory", "--provider", "recorded")  # fmt: skip
ANSWERS = {
    "agent/split": json.dumps({"claims": [{"claim": "a bowl with 900 beans", "kind": "entity", "level": "macro", "span": "A blue bowl"}]}),
    "agent/inventory": "1. a blue bowl [0.1, 0.2, 0.3, 0.4]",
    "agent/orchestrate": json.dumps({"settle": [{"claim": 1, "verdict": "met", "evidence": "E1.1"}], "looks": []}),
}  # fmt: skip


def test_an_inventory_is_answered_by_a_reader_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    Image.linear_gradient("L").resize((1700, 1000)).rotate(90).save(tmp_path / "data" / "image.png")
    write_lines(tmp_path / "data" / "images.jsonl", {"image": "image.png", "prompt_id": "p"})
    write_lines(tmp_path / "data" / "prompts.jsonl", {"prompt_id": "p", "prompt": PROMPT})
    for number, template in enumerate((*ANSWERS, "agent/orchestrate")):  # the last one verifies the count of 900
        cli(tmp_path, "answers", "export", *METRIC, "--out", f"{number}.jsonl", "--crops", "crops")
        (asked,) = read_lines(tmp_path / f"{number}.jsonl")
        assert asked["template"] == template
        if template == "agent/inventory":
            assert asked["boxes"] == [[0, 0, 1, 1], [0, 0, 0.52, 1], [0.48, 0, 1, 1]]
            assert asked["part_of"].endswith("image.png")
            assert [(tmp_path / name).is_file() for name in asked["images"]] == [True] * 3
        write_lines(tmp_path / "answered.jsonl", {"custom_id": asked["custom_id"], "text": ANSWERS[template]})
        cli(tmp_path, "answers", "record", *METRIC, "--author", "a reader", "answered.jsonl")
    lines = {
        line["template"]: line
        for line in map(json.loads, (tmp_path / "data" / "answers.jsonl").read_text().splitlines())
    }
    assert lines["agent/inventory"]["boxes"] == [[0, 0, 1, 1], [0, 0, 0.52, 1], [0.48, 0, 1, 1]]
    assert lines["agent/inventory"]["images"] == ["image.png"] * 3
    cli(tmp_path, "judge", *METRIC, "--out", "run")
    (score,) = read_lines(tmp_path / "run" / "scores.jsonl")
    assert score["value"] == 100
    assert score["parts"]["claims"][0]["place"] == [0.1, 0.2, 0.3, 0.4]


def test_a_question_about_one_part_has_one_box_and_about_whole_images_none() -> None:
    assert boxes_of([[0, 0, 1, 0.5]]) == {"box": [0, 0, 1, 0.5]}
    assert boxes_of([]) == boxes_of([None]) == boxes_of([None, None]) == {}
