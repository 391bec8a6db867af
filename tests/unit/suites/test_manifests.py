"""Tables as people have them: an imagefolder, what a spreadsheet writes, columns of any name."""

import re
import shlex
from pathlib import Path

import pytest
from builders import png, write_lines
from commands import cli
from loading import loaded_with_notes
from pages import page_text

from titjudge.core.config import load_config
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.types import Item
from titjudge.runs.folder.identity import identity
from titjudge.suites.base import SuiteInputs
from titjudge.suites.folder import Folder


@pytest.mark.parametrize("prompt", ["text", "caption", "prompt"])
def test_an_imagefolder_is_read_by_its_metadata(tmp_path: Path, prompt: str) -> None:
    png(tmp_path / "a" / "1.png")
    write_lines(
        tmp_path / "metadata.jsonl",
        {"file_name": "a/1.png", prompt: "a cat", "seed": 3},
        {"file_name": "a/1.png"},
        {"seed": 4},
    )
    (item,), bad, notes = loaded_with_notes(tmp_path)
    assert (item.id, item.prompt, item.image) == ("a/1.png", "a cat", tmp_path / "a" / "1.png")
    assert item.meta == {"seed": 3}
    assert bad == {
        "metadata.jsonl:2": "metadata.jsonl:2: the key 'prompt' is missing. Add it",
        "metadata.jsonl:3": "metadata.jsonl:3: the keys 'prompt' and 'image' are missing. Add them",
    }
    assert notes[0].startswith("'file_name' is read as image")
    assert len(notes) == 1
    assert notes[0].endswith("--columns image=...,prompt=...,generator=...,prompt_id=...,sample=... changes this")
    assert item.sample == 3
    assert (f"'{prompt}' is read as prompt" in notes[0]) == (prompt != "prompt")


def test_the_splits_of_an_imagefolder_are_read_by_their_own_metadata(tmp_path: Path) -> None:
    for split in ("test", "train"):
        png(tmp_path / split / "1.png")
        (tmp_path / split / "metadata.csv").write_text("file_name,text\n1.png,a cat\n../../out.png,a dog\n")
    items, bad, _ = loaded_with_notes(tmp_path)
    assert [(item.id, item.image) for item in items] == [
        (f"{split}/1.png", tmp_path / split / "1.png") for split in ("test", "train")
    ]
    assert set(bad) == {"test/../../out.png", "train/../../out.png"}
    assert all("leads outside the data folder" in reason for reason in bad.values())


@pytest.mark.parametrize(
    "text",
    [
        '\ufeffimage;prompt;model\r\n1.png;"a cat; red, and ""big""";x\r\n',
        'image\tprompt\tmodel\n1.png\t"a cat; red, and ""big"""\tx\n',
        'sep=;\r\nimage;prompt;model\r\n1.png;"a cat; red, and ""big""";x\r\n',
        '"image","prompt","model"\n1.png,"a cat; red, and ""big""",x\n',
        '"image;file"\t"prompt"\tmodel\n1.png\t"a cat; red, and ""big"""\tx\n',
    ],
)
def test_a_table_is_read_as_spreadsheets_write_it(tmp_path: Path, text: str) -> None:
    png(tmp_path / "1.png")
    (tmp_path / "m.csv").write_text(text, encoding="utf-8", newline="")
    (item,), bad, _ = loaded_with_notes(
        tmp_path / "m.csv", **({"image": ["image;file"]} if "image;file" in text else {})
    )
    assert (item.prompt, item.generator, bad) == ('a cat; red, and "big"', "x", {})


def test_rows_are_numbered_as_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("sep=;\nimage;prompt\n1.png;a cat;x\n")
    assert list(loaded_with_notes(tmp_path / "m.csv")[1]) == ["m.csv:3"]


def test_columns_are_named_by_the_user(tmp_path: Path) -> None:
    png(tmp_path / "1.png")
    file = write_lines(
        tmp_path / "m.jsonl", {"bild": "1.png", "prompt": "no", "satz": "a cat", "von": "x", "n": 7, "image": ""}
    )
    (item,), _, notes = loaded_with_notes(file, image=["bild"], prompt=["satz"], generator=["von"], prompt_id=["n"])
    assert (item.id, item.prompt, item.generator, item.prompt_id) == ("1.png", "a cat", "x", "7")
    assert notes == ["not used: prompt (1 value), image"]
    (tmp_path / "m.csv").write_text("image,prompt\n1.png,a cat\n")
    with pytest.raises(DataError, match=r"m\.csv:1: the column 'bild' is missing \(there are: image, prompt\)"):
        loaded_with_notes(tmp_path / "m.csv", image=["bild"])


def test_several_image_columns_are_a_generator_each(tmp_path: Path) -> None:
    for name in ("a", "b"):
        png(tmp_path / f"{name}.png")
    file = write_lines(tmp_path / "m.jsonl", {"flux": "a.png", "sd": "b.png", "text": "a cat", "model": "no"})
    items, _, _ = loaded_with_notes(file, image=["flux", "sd"])
    assert [(item.id, item.generator, item.prompt_id) for item in items] == [
        ("a.png", "flux", "a cat"),
        ("b.png", "sd", "a cat"),
    ]


def test_columns_in_a_configuration_and_on_the_command_line_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("columns: {image: [a, b], prompt: text}\n")
    config = load_config(tmp_path / "run.yaml")
    assert config.columns == {"image": ["a", "b"], "prompt": ["text"]}
    assert load_config(None, {"columns": "image=a,prompt=text,image=b"}).columns == config.columns
    assert "columns" not in identity(load_config(None, {}))
    assert identity(config)["columns"] == config.columns
    for wrong, message in (
        ("image", "must be image=COLUMN"),
        ("picture=a", "picture"),
        ("prompt=a,prompt=b", "only images and sources can have several columns, not the prompt"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_config(None, {"columns": wrong})


def test_the_command_says_what_it_took_for_what(tmp_path: Path) -> None:
    png(tmp_path / "data" / "1.png")
    (tmp_path / "data" / "m.csv").write_text("file_name;caption\n1.png;a cat\n")
    asked = ("judge", "--data", "data/m.csv", "--captioner", "fake/any", "--metric", "tit", "--dry-run")
    assert "'file_name' is read as image, 'caption' is read as prompt; --columns" in cli(tmp_path, *asked)
    said = cli(tmp_path, *asked, "--suite", "tiif", "--columns", "image=file_name", code=2)
    assert "the suite tiif has fixed columns" in said


def test_the_dry_runs_of_the_page_on_data_run(tmp_path: Path) -> None:
    page = page_text("judge-images")
    page = re.sub(r"```sh\n# .*?```", "", page, flags=re.DOTALL)  # the benchmarks: see test_benchmark_trees
    commands = re.findall(r"^python cli\.py (judge .*--dry-run)", page, re.MULTILINE)
    for name in ("flux/1.png", "sd3/1.png", "my_images/1.png"):
        png(tmp_path / name)
    for name in ("step_1000/0000.png", "step_2000/0000.png"):
        png(tmp_path / "samples" / name)
    (tmp_path / "samples" / "prompts.txt").write_text("a cat\n")
    (tmp_path / "my_list.csv").write_text("id,prompt\n0,a cat\n")
    (tmp_path / "shared.csv").write_text("flux;sd3;prompt_en\nflux/1.png;sd3/1.png;a cat\nflux/2.png;;a dog\n")
    write_lines(tmp_path / "my_images" / "metadata.jsonl", {"file_name": "1.png", "text": "a cat"})
    commands = [command for command in commands if "train.parquet" not in command]  # see test_parquet
    for name in ("flux/0001_0", "flux/0001_1", "sd3/0002_0", "sd3/other"):
        png(tmp_path / "out" / f"{name}.png")
    (tmp_path / "prompts.csv").write_text("index,prompt_en\n1,a cat\n2,a dog\n")
    judged = [cli(tmp_path, *shlex.split(command), GEMINI_API_KEY="none") for command in commands]
    assert len(judged) >= 3
    (tree,) = (said for said, command in zip(judged, commands, strict=True) if "--images" in command)
    assert "1 of 2 prompts have no image by flux" in tree
    assert "1 images do not fit '{generator}/{prompt_id}_{sample}.png' and are left out" in tree
    (shared,) = (said for said, command in zip(judged, commands, strict=True) if "shared.csv" in command)
    assert "3 items found: 2 usable, 1 refused" in shared


@pytest.mark.parametrize("zero", ["0", "0.0", '"0"', '"0.0"'])
def test_a_prompt_with_the_number_0_has_an_id(tmp_path: Path, zero: str) -> None:
    """Whether a program writes 0, or 0.0 because another cell of the column is empty."""
    png(tmp_path / "a.png")
    png(tmp_path / "b.png")
    rows = [
        f'{{"image": "{name}.png", "prompt": "a cup", "prompt_id": {value}, "model": {n}}}'
        for n, (name, value) in enumerate([("a", "0"), ("b", zero)])
    ]
    (tmp_path / "images.jsonl").write_text("\n".join(rows))
    items, _, _ = loaded_with_notes(tmp_path / "images.jsonl")
    assert {(item.prompt_id, item.generator) for item in items} == {("0", "0"), ("0", "1")}


def test_two_texts_under_one_prompt_id_are_reported(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        png(tmp_path / f"{name}.png")
    rows = [("a", "1", "a cup"), ("b", "1", "a hat"), ("c", "2", "a cup")]
    table = "".join(f"{name}.png,{number},{text}\n" for name, number, text in rows)
    (tmp_path / "m.csv").write_text(f"image,prompt_id,prompt\n{table}")
    suite = Folder(SuiteInputs())
    assert [item.prompt for item in suite.items(tmp_path / "m.csv") if isinstance(item, Item)] == [
        "a cup",
        "a hat",
        "a cup",
    ]
    assert [note for note in suite.notes if "1 prompt id with more than one text, such as 1" in note]
