"""Prompts in the EXIF comment of JPEG and WebP files, as A1111 saves them."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from commands import cli
from PIL import Image
from PIL.PngImagePlugin import PngInfo

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


def with_chunk(file: Path, name: str, text: str) -> Path:
    chunks = PngInfo()
    chunks.add_itxt(name, text)
    Image.new("RGB", (8, 8)).save(file, pnginfo=chunks)
    return file


def encoded(text: Any, **others: Any) -> dict[str, Any]:
    return {"class_type": "CLIPTextEncode", "inputs": {"text": text, "clip": ["4", 1], **others}}


def sampled(positive: str, **nodes: Any) -> dict[str, Any]:
    given = {"positive": [positive, 0], "negative": ["n", 0], "model": ["4", 0]}
    return {"k": {"class_type": "KSampler", "inputs": given}, "n": encoded("blurry"), **nodes}


def joining(**inputs: Any) -> dict[str, Any]:
    return sampled("j", j={"class_type": "Any", "inputs": inputs}, a=encoded("a red fox"), b=encoded("a blue bird"))


ZEROED = {"class_type": "ConditioningZeroOut", "inputs": {"conditioning": ["a", 0]}}


@pytest.mark.parametrize(
    ("graph", "prompt"),
    [
        (joining(conditioning_1=["a", 0], conditioning_2=["b", 0]), None),  # Combine
        (joining(conditioning_to=["a", 0], conditioning_from=["b", 0]), None),  # Concat, Average
        (joining(conditioning_to=["a", 0], conditioning_from=["a", 0]), "a red fox"),
        (joining(cond1=["a", 0], cond2=["b", 0], negative=["n", 0]), None),  # two prompts of one guider
        (joining(conditioning=["a", 0], set_cond_area="default", strength=1.0), "a red fox"),
        (joining(positive=["a", 0], negative=["n", 0], control_net=["c", 0], image=["i", 0]), "a red fox"),
        (joining(text=["t", 0], prefix="a photo of") | {"t": encoded("a red fox")}, None),
        (joining(text_a="a red fox", text_b="a blue bird", delimiter=" "), None),
        (joining(string_a="a red fox", string_b=["b", 0]), None),
        (joining(text_g="a red fox", text_l="a red fox", width=1024), "a red fox"),  # SDXL
        (joining(text_g="a red fox", text_l="a blue bird", width=1024), None),
        (joining(clip_l="fox", t5xxl="a red fox", guidance=3.5), "a red fox"),  # Flux
        (joining(clip_l="a red fox", t5xxl="", guidance=3.5), "a red fox"),
        (joining(clip_l="fox", clip_g="fox", t5xxl="a red fox"), None),  # SD 3
        (joining(text=["t", 0], text_0="a red fox") | {"t": encoded("a red fox")}, "a red fox"),  # a node that shows it
        ({**joining(conditioning=["a", 0]), "n": ZEROED}, "a red fox"),
        (sampled("0", **{str(n): {"inputs": {"conditioning": [str(n + 1), 0]}} for n in range(150)}), None),
    ],
)
def test_a_graph_of_comfyui_that_joins_texts_has_none_of_them(
    tmp_path: Path, graph: dict[str, Any], prompt: str | None
) -> None:
    found = embedded_prompt(with_chunk(tmp_path / "a.png", "prompt", json.dumps(graph)))
    assert (found and found.prompt) == prompt


@pytest.mark.parametrize("settings", [SETTINGS, SETTINGS.replace("77", "78, Lora hashes: x\nTemplate: a cat")])
@pytest.mark.parametrize(
    "prompt",
    [
        "a list\nSteps: 3, 2, 1\nand a cat",
        "a poster\nSteps: 3, Sampler: jars\nand a cat",
        "a poster that reads\nNegative prompt: none\nin red",
        "Negative prompt: none, Steps: 3, Size: big",
    ],
)
def test_lines_of_a_prompt_that_look_like_settings_of_a1111_belong_to_it(
    tmp_path: Path, prompt: str, settings: str
) -> None:
    found = embedded_prompt(with_chunk(tmp_path / "a.png", "parameters", prompt + settings))
    assert found is not None
    assert found.prompt == prompt


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
    assert suite.notes == ["2 prompts are read from the images themselves (A1111 2)"]
    said = cli(tmp_path, "judge", "--data", "data", "--captioner", "fake/c", "--metric", "tit", "--dry-run")
    assert "2 prompts are read from the images themselves (A1111 2)" in said
