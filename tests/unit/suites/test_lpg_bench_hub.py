"""Copies of LPG-Bench as the hub may have them are read like any folder of images."""

import json
from pathlib import Path

import pytest

from titjudge.core.errors import DataError
from titjudge.core.types import InvalidItem, Item
from titjudge.suites.base import SuiteInputs
from titjudge.suites.lpg_bench import LpgBench

PROMPTS = ["a red cube", "a blue ball", "a green cone"]
RECORDS = [{"id": n, "prompt": text, "theme": "toys"} for n, text in enumerate(PROMPTS, 1)]


def tree(folder: Path, path: str) -> Path:
    """Write an image of each prompt by two generators."""
    for generator in ("flux", "sd_3"):
        for number in range(1, 4):
            place = folder / path.format(generator=generator, number=number)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
    return folder


def found(folder: Path, inputs: SuiteInputs = SuiteInputs()) -> dict[tuple[str, str], str]:
    items = [item for item in LpgBench(inputs).load(folder) if isinstance(item, Item)]
    return {(item.generator, item.prompt_id): item.prompt for item in items}


EXPECTED = {(name, str(n)): text for name in ("flux", "sd_3") for n, text in enumerate(PROMPTS, 1)}


@pytest.mark.parametrize("path", ["{generator}/{number}.png", "images/{generator}/00{number}.webp"])
def test_a_list_of_prompts_and_a_tree_of_images_are_read(tmp_path: Path, path: str) -> None:
    (tmp_path / "prompts.json").write_text(json.dumps(RECORDS))
    suite = LpgBench()
    items = [each for each in suite.load(tree(tmp_path, path)) if isinstance(each, Item)]
    assert {(item.generator, item.prompt_id): item.prompt for item in items} == EXPECTED
    assert {item.meta["theme"] for item in items} == {"toys"}
    places = [place.prompt_id for place in suite.prompts(tmp_path) if not isinstance(place, InvalidItem)]
    assert places == ["1", "2", "3"]


def test_named_prompts_and_paths_are_read(tmp_path: Path) -> None:
    file = tree(tmp_path, "imgs/{generator}-{number}.png") / "all.csv"
    file.write_text("number,text\n" + "".join(f"{n},{text}\n" for n, text in enumerate(PROMPTS, 1)))
    named = SuiteInputs(images="imgs/{generator}-{prompt_id}.png", prompt_file=f"{file}:number,text")
    assert found(tmp_path, named) == EXPECTED
    (tmp_path / "prompts.jsonl").write_text('{"prompt_id": "1", "prompt": "of another list"}\n')
    assert found(tmp_path, named) == EXPECTED


def test_tables_with_images_are_read(tmp_path: Path) -> None:
    tree(tmp_path, "{generator}/{number}.png")
    table = tmp_path / "metadata.csv"
    table.write_text("file_name,text,model,prompt_id\nflux/1.png,a red cube,flux,1\nsd_3/1.png,a red cube,sd_3,1\n")
    assert found(tmp_path) == {("flux", "1"): "a red cube", ("sd_3", "1"): "a red cube"}
    table.write_text("flux,sd,text,prompt_id\nflux/1.png,sd_3/1.png,a red cube,1\n")
    named = SuiteInputs(columns={"image": ["flux", "sd"], "prompt": ["text"]})
    assert found(tmp_path, named) == {("flux", "1"): "a red cube", ("sd", "1"): "a red cube"}
    table.write_text("file_name,text\nflux/1.png,a red cube\n")
    assert not found(tmp_path)


def test_a_single_generator_is_read_or_refused(tmp_path: Path) -> None:
    for number in range(1, 4):
        for place in (f"whole/images/flux/{number}.png", f"bare/{number}.png"):
            (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / place).touch()
    for name in ("whole", "bare"):
        (tmp_path / name / "prompts.json").write_text(json.dumps(RECORDS))
    assert set(found(tmp_path / "whole")) == {("flux", "1"), ("flux", "2"), ("flux", "3")}
    reasons = [item.reason for item in LpgBench().load(tmp_path / "bare") if isinstance(item, InvalidItem)]
    assert len(reasons) == 3
    assert all("Name it in a column or folder" in reason for reason in reasons)


def test_a_copy_without_prompts_or_images_is_refused(tmp_path: Path) -> None:
    (tmp_path / "images.zip").touch()
    with pytest.raises(DataError, match=r"no images\. Unpack archives first\."):
        list(LpgBench().load(tmp_path))
