"""Prompts in the EXIF comment of JPEG and WebP files, as A1111 saves them."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from commands import cli
from PIL import Image

from titjudge.core.types import InvalidItem, Item
from titjudge.data import embedded_prompts
from titjudge.data.embedded_prompts import embedded_prompt
from titjudge.suites.folder import Folder

SETTINGS = "\nNegative prompt: dog\nSteps: 20, Sampler: Euler, Seed: 77, Model hash: 1f, Model: sd_xl, Size: 8x8"
UNICODE = b"UNICODE\0"


def with_comment(file: Path, comment: bytes | str) -> Path:
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0x9286] = comment
    Image.new("RGB", (8, 8), "red").save(file, exif=exif)
    return file


@pytest.mark.parametrize("ending", ["jpg", "webp"])
def test_the_comment_of_a1111_is_the_prompt(tmp_path: Path, ending: str) -> None:
    file = with_comment(tmp_path / f"a.{ending}", UNICODE + f"ein Hüt,\n(sitting:1.2){SETTINGS}".encode("utf-16-be"))
    found = embedded_prompt(file)
    assert found is not None
    assert (found.prompt, found.source, found.seed, found.model) == ("ein Hüt,\n(sitting:1.2)", "A1111", 77, "sd_xl")


@pytest.mark.parametrize("prompt", ["a cat", "一只红色的狐狸在雪地里奔跑", "ein Hüt 🦊"])
@pytest.mark.parametrize(
    ("code", "encoding"),
    [
        (UNICODE, "utf-16-be"),
        (UNICODE, "utf-16-le"),
        (UNICODE, "utf-16"),
        (UNICODE, "utf-8"),
        (bytes(8), "utf-8"),
        (b"", "utf-8"),
    ],
)
def test_a_comment_is_read_in_the_encodings_that_programs_use(
    tmp_path: Path, prompt: str, code: bytes, encoding: str
) -> None:
    file = with_comment(tmp_path / "a.jpg", code + f"{prompt}{SETTINGS}".encode(encoding))
    found = embedded_prompt(file)
    assert found is not None
    assert found.prompt == prompt


@pytest.mark.parametrize(
    ("comment", "prompt"),
    [
        (b"ASCII\0\0\0a cat\nSteps: 20, Sampler: Euler", "a cat"),
        (UNICODE + json.dumps({"prompt": "a fox", "seed": 5}).encode("utf-16-be"), "a fox"),
        (b"ASCII\0\0\0Screenshot", None),
        (b"ASCII\0\0\0{braces} and no JSON", None),
        (UNICODE + '{"seed": 5}'.encode("utf-16-be"), None),
        (UNICODE, None),
        (b"", None),
        (UNICODE + SETTINGS.encode("utf-16-be"), None),
    ],
)
def test_only_a_comment_that_says_how_the_image_was_made_is_a_prompt(
    tmp_path: Path, comment: bytes, prompt: str | None
) -> None:
    found = embedded_prompt(with_comment(tmp_path / "a.jpg", comment))
    assert (found and found.prompt) == prompt


def test_a_comment_of_another_length_than_people_write_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = with_comment(tmp_path / "a.webp", b"ASCII\0\0\0" + b"a cat " * 200_000 + SETTINGS.encode())
    assert embedded_prompt(file) is None
    monkeypatch.setattr(embedded_prompts, "MAX_BYTES", 100)
    assert embedded_prompt(with_comment(tmp_path / "b.webp", f"a cat{SETTINGS}")) is None


@pytest.mark.parametrize("ending", ["jpg", "webp"])
def test_damaged_images_hold_a_prompt_or_none(tmp_path: Path, ending: str) -> None:
    file, random = with_comment(tmp_path / f"a.{ending}", UNICODE + f"a cat{SETTINGS}".encode("utf-16-be")), Random(8)
    whole = file.read_bytes()
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(random.choice([1, 2, 6])):
            damaged[random.randrange(min(len(damaged), 400))] = random.randrange(256)
        file.write_bytes(damaged[: random.choice([len(damaged), random.randrange(len(damaged))])])
        found = embedded_prompt(file)
        assert found is None or found.prompt


def test_a_folder_of_such_images_needs_no_texts(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with_comment(data / "1.jpg", UNICODE + f"a cat{SETTINGS}".encode("utf-16-be"))
    with_comment(data / "2.webp", UNICODE + f"a dog{SETTINGS}".encode("utf-16-be"))
    Image.new("RGB", (8, 8)).save(data / "3.jpg")
    suite = Folder()
    found: list[Any] = list(suite.load(data))
    items = [item for item in found if isinstance(item, Item)]
    assert [(item.id, item.prompt, item.generator, item.sample) for item in items] == [
        ("1.jpg", "a cat", "sd_xl", 77),
        ("2.webp", "a dog", "sd_xl", 77),
    ]
    assert [item.id for item in found if isinstance(item, InvalidItem)] == ["3.jpg"]
    assert suite.notes == ["2 prompts are those that stand in the images themselves (A1111 2)"]
    said = cli(tmp_path, "judge", "--data", "data", "--captioner", "fake/c", "--metric", "tit", "--dry-run")
    assert "2 prompts are those that stand in the images themselves (A1111 2)" in said
