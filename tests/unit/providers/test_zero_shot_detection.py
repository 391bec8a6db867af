"""Detectors on this machine: transformers' own boxes, in fractions of the image, by the names that were asked for."""

import asyncio
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tiny_models

from titjudge.core.errors import ConfigError, Unanswered, UserError
from titjudge.core.types import ImageFile, Message, ProviderSettings, Reply, Request, Status
from titjudge.providers.local.zero_shot_detection import ZeroShotDetection, index_of, plain

pytestmark = pytest.mark.usefixtures("quiet")
NAMES = ("red mug", "lamp", "wooden table")
WIDTH, HEIGHT = 90, 60
SCHEMA = {"type": "object", "properties": {"boxes": {}}}


@pytest.fixture(scope="module")
def quiet() -> None:
    pytest.importorskip("torch")


@pytest.fixture(scope="module")
def owlv2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.owlv2(tmp_path_factory.mktemp("owlv2"))


@pytest.fixture(scope="module")
def dino(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = [word for name in NAMES for word in name.split()]
    return tiny_models.grounding_dino(tmp_path_factory.mktemp("dino"), words)


def picture() -> Any:
    return tiny_models.picture(WIDTH, HEIGHT, 3)


def shown() -> ImageFile:
    file = io.BytesIO()
    picture().save(file, "PNG")
    return ImageFile("0" * 64, "image/png", WIDTH, HEIGHT, Path("i.png"), file.getvalue)


def request(names: Sequence[str] = NAMES, **changes: Any) -> Request:
    messages = (Message("system", ("Find them.",)), Message("user", (shown(), "\n".join(names) + "\n")))
    return Request(
        **{"provider": "", "model": "", "messages": messages, "schema": SCHEMA, "role": "detector", **changes}
    )


def ask(folder: Path, *requests: Request, **options: Any) -> list[Reply]:
    provider = ZeroShotDetection(ProviderSettings(str(folder), options=options))

    async def answers() -> list[Reply]:
        replies = await asyncio.gather(*map(provider.complete, requests or (request(),)))
        await provider.aclose()
        return list(replies)

    return asyncio.run(answers())


def boxes(reply: Reply) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(reply.text)["boxes"]
    return found


def processed(folder: Path, names: Sequence[str], **least: float) -> list[tuple[str, list[float], float]]:
    """What transformers makes of the model's output, with boxes in fractions of the picture."""
    import torch
    from transformers import AutoModelForZeroShotObjectDetection, AutoProcessor

    processor, model = (
        AutoProcessor.from_pretrained(folder),
        AutoModelForZeroShotObjectDetection.from_pretrained(folder),
    )
    inputs = processor(images=picture(), text=[list(names)], return_tensors="pt")
    with torch.inference_mode():
        outputs = model.eval()(**inputs)
    sizes = [(HEIGHT, WIDTH)]
    (found,) = processor.post_process_grounded_object_detection(
        outputs, target_sizes=sizes, text_labels=[list(names)], **least
    )
    sides = torch.tensor([WIDTH, HEIGHT, WIDTH, HEIGHT])
    rows = zip(
        found["text_labels"], (found["boxes"] / sides).clamp(0, 1).tolist(), found["scores"].tolist(), strict=True
    )
    inside = [
        row for row in rows if row[1][0] < row[1][2] and row[1][1] < row[1][3]
    ]  # the rest is what OWLv2 adds to a square
    return sorted(inside, key=lambda row: -row[2])


def assert_same(found: list[dict[str, Any]], expected: list[tuple[str, list[float], float]]) -> None:
    assert found
    assert [box["name"] for box in found] == [name for name, _, _ in expected]
    for box, (_, place, score) in zip(found, expected, strict=True):
        assert box["box"] == pytest.approx(place, abs=1e-4)
        assert box["score"] == pytest.approx(score, abs=1e-4)


def test_boxes_of_owlv2_are_those_of_transformers(owlv2: Path) -> None:
    (reply,) = ask(owlv2)
    assert_same(boxes(reply), processed(owlv2, NAMES))
    assert reply.model_version.endswith(" float32")


def test_boxes_of_one_name_are_those_of_the_pipeline(owlv2: Path) -> None:
    from transformers import AutoModelForZeroShotObjectDetection, AutoProcessor, pipeline

    processor = AutoProcessor.from_pretrained(owlv2)
    detect = pipeline(
        "zero-shot-object-detection", AutoModelForZeroShotObjectDetection.from_pretrained(owlv2),
        tokenizer=processor.tokenizer, image_processor=processor.image_processor,
    )  # fmt: skip
    rows = detect(picture(), candidate_labels=["lamp"], threshold=0.2)
    (reply,) = ask(owlv2, request(["lamp"]), threshold=0.2)
    found, rows = boxes(reply), [row for row in rows if row["box"]["ymin"] < HEIGHT]
    assert len(found) == len(rows) > 3
    for box, row in zip(found, rows, strict=True):
        assert (box["name"], box["score"]) == (row["label"], pytest.approx(row["score"], abs=1e-4))
        sides = [
            row["box"][side] / length
            for side, length in (("xmin", WIDTH), ("ymin", HEIGHT), ("xmax", WIDTH), ("ymax", HEIGHT))
        ]
        assert box["box"] == pytest.approx(
            [min(1.0, side) for side in sides], abs=1.001 / HEIGHT
        )  # the pipeline's are whole pixels


def test_boxes_of_grounding_dino_are_those_of_transformers(dino: Path) -> None:
    least = {"threshold": 0.02, "text_threshold": 0.95}
    (reply,) = ask(dino, **least)
    expected = [
        (NAMES[at], box, score)
        for text, box, score in processed(dino, NAMES, **least)
        if (at := index_of(text, NAMES)) is not None
    ]
    assert_same(boxes(reply), expected)


def test_names_that_do_not_fit_into_one_text_are_read_in_several(tmp_path: Path) -> None:
    words = [word for name in NAMES for word in name.split()]
    short = tiny_models.grounding_dino(
        tmp_path, words, longest=8
    )  # two names at most: "red mug. lamp." has seven tokens
    (reply,) = ask(short, threshold=0.02, text_threshold=0.95)
    apart = ask(short, request(NAMES[:2]), request(NAMES[2:]), threshold=0.02, text_threshold=0.95)
    assert apart[0].text != apart[1].text
    assert boxes(reply) == sorted((box for each in apart for box in boxes(each)), key=lambda box: -box["score"])


def test_requests_that_come_together_have_the_answers_of_each_alone(owlv2: Path) -> None:
    requests = [request(["lamp"]), request(["red mug", "lamp"]), request([])]
    together = [reply.text for reply in ask(owlv2, *requests)]
    assert together == [ask(owlv2, each)[0].text for each in requests]
    assert json.loads(together[2]) == {"boxes": []}


def test_options_bound_the_boxes_and_are_part_of_the_key(owlv2: Path) -> None:
    whole = boxes(ask(owlv2)[0])
    (few,) = ask(owlv2, top_k=2)
    assert boxes(few) == whole[:2]
    (sure,) = ask(owlv2, threshold=0.52)
    assert boxes(sure) == [box for box in whole if box["score"] > 0.52] != whole
    keys = {
        ZeroShotDetection(ProviderSettings(str(owlv2), options=options)).base_url
        for options in ({}, {"top_k": 2}, {"threshold": 0.52}, {"dtype": "bfloat16"}, {"device": "cpu"})
    }
    assert len(keys) == 4  # where it computes is none


def test_a_name_longer_than_the_model_reads_is_cut(owlv2: Path) -> None:
    name = "a lamp " * 20
    (reply,) = ask(owlv2, request([name]))
    assert {box["name"] for box in boxes(reply)} == {name.strip()}


@pytest.mark.parametrize(
    ("text", "meant"),
    [("red mug", 0), ("mug", 0), ("lamp", 1), ("blue lamp", 1), ("red lamp", 1), ("red mug lamp", None), ("", None), ("cat", None)],
)  # fmt: skip
def test_a_part_of_a_name_means_the_only_name_that_has_it(text: str, meant: int | None) -> None:
    assert index_of(text, ["red mug", "lamp", "red table"]) == meant


def test_a_name_is_read_without_what_would_end_it() -> None:
    assert plain("Dr. No's  Mug.") == "dr no's mug"


def test_a_model_of_another_kind_is_named(tmp_path: Path) -> None:
    tiny_models.clip(tmp_path)
    provider = ZeroShotDetection(ProviderSettings(str(tmp_path)))
    for touch in (provider.ready, lambda: provider.base_url):
        with pytest.raises(UserError, match=r"is not a model for zero-shot object detection: its model_type is clip, not one of .*owlv2"):  # fmt: skip
            touch()


@pytest.mark.parametrize(
    ("model", "options", "line"),
    [
        ("", {}, "Write zero-shot-object-detection/MODEL"),
        ("m", {"treshold": 0.1}, "Did you mean 'threshold'"),
        (
            "m",
            {"threshold": 2},
            "the option threshold of zero-shot-object-detection must be a number from 0 to 1, not 2",
        ),
        ("m", {"top_k": "all"}, "a number from 1 to 10000, not 'all'"),
    ],
)
def test_settings_that_do_not_suit_it_are_refused(model: str, options: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        ZeroShotDetection(ProviderSettings(model, options=options))


def test_it_answers_no_other_question(owlv2: Path) -> None:
    with pytest.raises(ConfigError, match="Give it with --set detector=MODEL, and another model as captioner"):
        ask(owlv2, request(schema=None, role="captioner"))


def test_an_image_that_cannot_be_read_is_said_of_it_alone(owlv2: Path) -> None:
    broken = ImageFile("0" * 64, "image/png", 9, 9, Path("broken.png"), lambda: b"no picture")
    bad = request(messages=(Message("user", (broken, "lamp")),))
    provider = ZeroShotDetection(ProviderSettings(str(owlv2)))

    async def answers() -> list[Any]:
        found = await asyncio.gather(provider.complete(bad), provider.complete(request()), return_exceptions=True)
        await provider.aclose()
        return list(found)

    first, second = asyncio.run(answers())
    assert isinstance(first, Unanswered)
    assert first.status is Status.BAD_INPUT
    assert boxes(second)
