"""Human labels of elements in the files of EvalMuse-40K, RichHF-18K and ImagenWorld, made up here in their formats."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import cli
from report_runs import write_run

from titjudge.core.types import Item, Score

PROMPT = "A red cube, on a red table."
SEEN = {"red cube (color)": 0.9, "table": 0.2, "a dog": 0.8}
IMAGES = ("data/SDXL/1.png", "data/FLUX/1.png")


def judged(folder: Path, images: tuple[str, ...] = IMAGES) -> Path:
    """A stored run of fga-blip2 with the same scores of the elements for each image."""
    items = [Item(image, PROMPT, None, f"g{n}", "p") for n, image in enumerate(images)]
    scores = [Score(item.id, "fga-blip2", value=3.0, prompt_id="p", parts={"elements": SEEN}) for item in items]
    record = {"fga-blip2": {"version": "1", "range": [1, 5], "higher_is_better": True}}
    write_run(folder / "run", items, scores, metrics=record)
    return folder


def compared(folder: Path, human: str) -> tuple[dict[str, Any], str]:
    """Return the counts over all elements, and what the command prints."""
    told = cli(folder, "judges", "elements", "run", "--human", human, "--json", "e.json")
    found = json.loads((folder / "e.json").read_text())["elements"]["all"]
    return {name: found[name] for name in ("TP", "FP", "FN", "TN")}, told


def refused(folder: Path, human: str) -> str:
    return cli(folder, "judges", "elements", "run", "--human", human, code=2)


@pytest.mark.parametrize("written", [repr, lambda score: score])
def test_evalmuse_counts_most_annotators(tmp_path: Path, written: Callable[[Any], Any]) -> None:
    votes = [
        {"red cube (color)": [1, 1, 0], "table (object)": [1, 1, 1], "a dog (animal)": [0, 1]},  # the last is undecided
        {"red cube (color)": 0.0, "a dog (animal)": [0, 0, 1]},
    ]
    rows = [
        {"prompt_id": "p", "prompt": PROMPT, "img_path": image, "total_score": [3], "element_score": written(score)}
        for image, score in zip(("SDXL/1.png", "FLUX/1.png"), votes, strict=True)
    ]
    (judged(tmp_path) / "train_list.json").write_text(json.dumps(rows))
    counts, told = compared(tmp_path, "train_list.json")
    assert counts == {"TP": 1, "FP": 2, "FN": 1, "TN": 0}
    assert "EvalMuse-40K: an element counts as most of its annotators say" in told


def test_imagenworld_counts_objects_without_issues(tmp_path: Path) -> None:
    images = ("TIG/TIG_A_1/outputs/sdxl/out.png", "TIG/TIG_A_2/outputs/sdxl/out.png")
    judged(tmp_path, images)
    for image in images:
        place = tmp_path / "annotated" / Path(image).parents[2]
        (place / "input").mkdir(parents=True)
        (place / "input/metadata.json").write_text(json.dumps({"prompt": PROMPT, "objects": ["Red cube", "table"]}))
        for number in range(3):
            issues = ["table"] if number else ["Red cube", "table"]
            answer = {"from_name": "object_issues", "type": "choices", "value": {"choices": issues}}
            file = place / f"outputs/sdxl/annotator{number + 1}/evaluation.json"
            file.parent.mkdir(parents=True)
            file.write_text(json.dumps({"annotation": {"result": [{"type": "rating"}, answer]}}))
    counts, told = compared(tmp_path, "annotated")
    assert counts == {"TP": 2, "FP": 0, "FN": 0, "TN": 2}
    assert "ImagenWorld: an object counts as no if most annotators" in told
    file.write_text("[]")
    assert "evaluation.json: the content must be an object" in refused(tmp_path, "annotated")
    (tmp_path / "empty").mkdir()
    assert "no file outputs/MODEL/ANNOTATOR/evaluation.json with object_issues found" in refused(tmp_path, "empty")


def part(number: int, content: bytes) -> bytes:
    """A field of a protocol buffer, with its length."""
    size = bytes([len(content)]) if len(content) < 128 else bytes([len(content) & 127 | 128, len(content) >> 7])
    return bytes([number << 3 | 2]) + size + content


def example(**texts: str) -> bytes:
    """A record of a TFRecord file with texts, and a score that is a float."""
    entries = {name: part(1, part(1, text.encode())) for name, text in texts.items()}
    entries["overall_score"] = part(2, part(1, struct.pack("<f", 0.5)))
    features = b"".join(part(1, part(1, name.encode()) + part(2, value)) for name, value in entries.items())
    record = part(1, features)
    return struct.pack("<Q", len(record)) + b"\0" * 4 + record + b"\0" * 4


def test_richhf_labels_the_words_of_the_prompt(tmp_path: Path) -> None:
    labels = ("1 1 1 1 1 1 0", "1 1 0 1 1 0 1")  # A red cube on a red table
    file = judged(tmp_path, ("data/SDXL/a1.png", "data/FLUX/b2.png")) / "test.tfrecord"
    records = [
        example(filename=name, prompt_misalignment_label=label)
        for name, label in zip(("train/a1.png", "train/b2.png"), labels, strict=True)
    ]
    file.write_bytes(b"".join(records))
    counts, told = compared(tmp_path, "test.tfrecord")
    assert counts == {
        "TP": 1,
        "FP": 0,
        "FN": 1,
        "TN": 1,
    }  # a dog is not in the prompt; red has two labels in the second
    assert "RichHF-18K: people label words of the prompt" in told
    file.write_bytes(b"".join(records)[:-7])
    assert "test.tfrecord:2: the record is cut off" in refused(tmp_path, "test.tfrecord")
    file.write_bytes(b"\xff" * 40)
    assert "test.tfrecord:1: the record is damaged" in refused(tmp_path, "test.tfrecord")
    file.write_bytes(b"")
    assert "test.tfrecord: no image with labels. Check the download" in refused(tmp_path, "test.tfrecord")
    broken = records[0][:12] + b"\x0a\xff" + records[0][14:]
    file.write_bytes(broken)
    assert "test.tfrecord:1: the record is not a tf.train.Example" in refused(tmp_path, "test.tfrecord")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"element_score": "__import__('os').abort()"}, "train.json:1: 'element_score' must be an object of elements"),
        ({"element_score": {"table": [2]}}, "train.json:1: the score of 'table' must be numbers from 0 to 1"),
        (
            {"element_score": {"table": [1]}, "img_path": "other.png"},
            "none of 1 images, such as other.png, has a label",
        ),
    ],
)
def test_other_contents_are_named(tmp_path: Path, row: dict[str, Any], reason: str) -> None:
    (judged(tmp_path) / "train.json").write_text(json.dumps([{"img_path": "SDXL/1.png"} | row]))
    assert reason in refused(tmp_path, "train.json")


def test_an_image_of_another_generator_has_no_labels(tmp_path: Path) -> None:
    judged(tmp_path)  # SDXL/1.png and FLUX/1.png
    row = {"img_path": "FLUX/1.png", "element_score": {"table": [1]}}
    (tmp_path / "train.json").write_text(json.dumps([row]))
    assert compared(tmp_path, "train.json")[0] == {"TP": 0, "FP": 0, "FN": 1, "TN": 0}
    (tmp_path / "train.json").write_text(json.dumps([row | {"img_path": "SD3/1.png"}]))
    assert "none of 1 images, such as SD3/1.png" in refused(tmp_path, "train.json")


def test_an_image_that_fits_several_has_no_labels(tmp_path: Path) -> None:
    judged(tmp_path, ("a/1.png", "b/1.png"))
    (tmp_path / "train.json").write_text(json.dumps([{"img_path": "1.png", "element_score": {"table": [1]}}]))
    assert "none of 1 images, such as 1.png" in refused(tmp_path, "train.json")
