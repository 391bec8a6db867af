"""Copies of LPG-Bench as the hub may have them: prompts and images are found, or one line says what to name."""

import json
from pathlib import Path
from typing import Any

import pytest

from titjudge.core.errors import DataError
from titjudge.core.types import InvalidItem, Item
from titjudge.suites.base import SuiteInputs
from titjudge.suites.lpg_bench import LpgBench

PROMPTS = ["a red cube", "a blue ball", "a green cone"]


def write(folder: Path, files: dict[str, Any]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def images(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "")


def found(folder: Path, **options: str) -> dict[tuple[str, str], str]:
    items = [item for item in LpgBench(**options).load(folder) if isinstance(item, Item)]
    return {(item.generator, item.prompt_id): item.prompt for item in items}


RECORDS = [{"id": n, "prompt": text, "theme": "toys"} for n, text in enumerate(PROMPTS, 1)]
LINES = "".join(json.dumps(record) + "\n" for record in RECORDS)
TREES = {
    "json array": {"prompts.json": RECORDS, **images("flux/1.png", "flux/2.png", "sd_3/003.png")},
    "json lines": {"prompts.jsonl": LINES, **images("images/flux/1.png", "images/flux/2.png", "images/sd_3/3.png")},
    "csv below": {
        "data/long_prompts.csv": "id,text\n1,a red cube\n2,a blue ball\n3,a green cone\n",
        **images("data/img/flux/1.webp", "data/img/flux/2.webp", "data/img/sd_3/3.webp"),
    },
    "ids": {
        "prompts.json": dict(zip("123", PROMPTS, strict=True)),
        **images("flux/prompt_1.jpg", "flux/prompt_2.jpg", "sd_3/prompt_3.jpg"),
    },
    "a prompt's folder": {"prompts.json": RECORDS, **images("1/flux.png", "2/flux.png", "3/sd_3.png")},
    "one line each": {"prompts.txt": "\n".join(PROMPTS), **images("flux/1.png", "flux/2.png", "sd_3/3.png")},
    "a list": {"prompts.json": PROMPTS, **images("flux/1.png", "flux/2.png", "sd_3/3.png")},
    "no ids": {"meta.csv": "prompt\na red cube\na blue ball\na green cone\n", **images("flux/1.png", "flux/2.png", "sd_3/3.png")},
    "flat": {"prompts.json": RECORDS, **images("flux_1.png", "flux_2.png", "sd_3_3.png")},
    "several": {"prompts.json": RECORDS, "README.md": "#", **images("flux/1_0.png", "flux/2_0.png", "sd_3/3_0.png", "sd_3/3_1.png")},
    "one generator": {"prompts.json": RECORDS, **images("images/flux/1.png", "images/flux/2.png", "images/flux/3.png")},
}  # fmt: skip


@pytest.mark.parametrize("files", TREES.values(), ids=TREES.keys())
def test_trees_of_images_are_read(tmp_path: Path, files: dict[str, Any]) -> None:
    by_id = dict(zip("123", PROMPTS, strict=True))
    last = "flux" if "images/flux/3.png" in files else "sd_3"
    expected = {(name, key): by_id[key] for name, key in (("flux", "1"), ("flux", "2"), (last, "3"))}
    assert found(write(tmp_path, files)) == expected


def test_themes_come_along_and_the_reading_is_told(tmp_path: Path) -> None:
    write(tmp_path, TREES["json array"])
    suite = LpgBench()
    items = [each for each in suite.load(tmp_path) if isinstance(each, Item)]
    assert {item.meta["theme"] for item in items} == {"toys"}
    assert "prompts are read from prompts.json, images from {generator}/{prompt_id}.{suffix}" in suite.notes
    assert "2 of 3 prompts have no image by sd_3" in suite.notes
    places = {place.prompt_id: place.image for place in suite.prompts(tmp_path)}
    assert places["2"] == "images/{generator}/2.png"


def test_tables_with_images_are_read(tmp_path: Path) -> None:
    rows = "file_name,text,model,prompt_id\nflux/1.png,a red cube,flux,1\nsd/1.png,a red cube,sd,1\n"
    write(tmp_path, {"metadata.csv": rows, **images("flux/1.png", "sd/1.png")})
    assert found(tmp_path) == {("flux", "1"): "a red cube", ("sd", "1"): "a red cube"}
    suite = LpgBench(SuiteInputs(columns={"image": ["flux", "sd"], "prompt": ["text"]}))
    write(tmp_path, {"metadata.csv": "flux,sd,text,prompt_id\nflux/1.png,sd/1.png,a red cube,1\n"})
    assert [item.generator for item in suite.load(tmp_path) if isinstance(item, Item)] == ["flux", "sd"]


def test_a_table_without_generators_names_its_rows(tmp_path: Path) -> None:
    write(tmp_path, {"metadata.csv": "file_name,text\n1.png,a red cube\n", **images("1.png")})
    (item,) = LpgBench().load(tmp_path)
    assert isinstance(item, InvalidItem)
    assert item.reason == "no generator is given"


def test_what_is_said_counts(tmp_path: Path) -> None:
    write(tmp_path, {"a.csv": "key,long\nx,a red cube\n", "b.csv": "key,long\nx,b\n", **images("out/flux--x.png")})
    with pytest.raises(DataError, match=r"several files can have the prompts: a\.csv, b\.csv.*prompts=FILE:ID,PROMPT"):
        found(tmp_path)
    said = {"prompts": "a.csv:key,long", "images": "out/{generator}--{prompt_id}.png"}
    assert found(tmp_path, **said) == {("flux", "x"): "a red cube"}
    with pytest.raises(DataError, match=r"none of 1 images, such as out/flux--x\.png, has an id of a\.csv:key,long"):
        found(tmp_path, prompts="a.csv:key,long")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no images found. Give GENERATOR/PROMPT_ID.png"),
        ({"images.zip": "", "prompts.json": RECORDS}, "no images found. Unpack images.zip first"),
        ({"images.tar.gz": "", "prompts.json": RECORDS}, "no images found. Unpack images.tar.gz first"),
        (images("flux/1.png"), r"no file of prompts, such as prompts\.jsonl\. Add --suite-option prompts=FILE"),
        ({"prompts.csv": "number\n1\n", **images("flux/1.png")}, "prompts.csv:#,PROMPT"),
        ({"prompts.json": "{", **images("flux/1.png")}, "prompts.json"),
        ({"prompts.txt": "a\nb\nc\n", **images("flux/1.png")}, r"numbered from 0 or from 1\. Add .*prompts=prompts\.txt or prompts\.txt:1"),
    ],
)  # fmt: skip
def test_what_does_not_fit_says_what_would(tmp_path: Path, files: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(LpgBench().load(write(tmp_path, files)))
