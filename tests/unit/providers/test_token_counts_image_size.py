"""Images larger than a role's `max_side` are scaled before they are sent, and are otherwise what they were."""

import asyncio
import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.kit import Server
from titjudge.core.config import load_config
from titjudge.core.serialization import request_key
from titjudge.core.types import Item, Message, Reply, Request
from titjudge.data import image_decoding, image_process, images
from titjudge.data.images import ImageFiles
from titjudge.engine.forecast import forecast
from titjudge.engine.roles import Roles
from titjudge.metrics.tit import lmm_score
from titjudge.providers import ProviderSettings
from titjudge.providers.hosted.gemini import Gemini
from titjudge.providers.hosted.openai import OpenAI
from titjudge.providers.local import huggingface, vllm
from titjudge.runs.folder.identity import identity
from titjudge.runs.open_run import open_planner


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    file = tmp_path / "photo.jpg"
    Image.linear_gradient("L").resize((600, 300)).convert("RGB").save(file)
    return file


def question(file: Path, **params: Any) -> Request:
    image = asyncio.run(ImageFiles().open(file))
    return Request("", "m", (Message("user", (image, "What is it?")),), params)


def sent(server: Server, kind: Any, request: Request) -> tuple[str, bytes]:
    provider = kind(ProviderSettings(request.model, server.openai if kind is OpenAI else server.url))

    async def work() -> None:
        await provider.complete(request)
        await provider.aclose()

    asyncio.run(work())
    body = server.last.body
    if kind is Gemini:
        data = body["contents"][0]["parts"][0]["inlineData"]
        assert "max_side" not in body.get("generationConfig", {})
        return data["mimeType"], base64.b64decode(data["data"])
    assert "max_side" not in body
    head, _, data = body["messages"][0]["content"][0]["image_url"]["url"].partition(";base64,")
    return head.removeprefix("data:"), base64.b64decode(data)


@pytest.mark.parametrize("kind", [OpenAI, Gemini])
def test_a_larger_image_is_scaled_and_a_smaller_one_is_not_touched(kind: Any, photo: Path) -> None:
    drawing = photo.with_name("drawing.png")
    Image.open(photo).save(drawing)
    with Server() as server:
        for file, form in ((photo, "JPEG"), (drawing, "PNG")):
            media_type, raw = sent(server, kind, question(file, max_side=200))
            with Image.open(io.BytesIO(raw)) as image:
                assert (image.size, image.format, media_type) == ((200, 100), form, f"image/{form.lower()}")
                ends = [image.convert("L").getpixel((100, y)) for y in (0, 99)]
            assert ends[0] < 10 < 245 < ends[1]  # type: ignore[operator]
            assert sent(server, kind, question(file, max_side=600))[1] == file.read_bytes()
            assert sent(server, kind, question(file))[1] == file.read_bytes()


def test_squashed_is_square_whatever_the_shape_and_without_loss(photo: Path) -> None:
    with Server() as server:
        media_type, raw = sent(server, OpenAI, question(photo, squash=200))
        assert sent(server, OpenAI, question(photo, squash=600))[1] == photo.read_bytes()
        _, both = sent(server, OpenAI, question(photo, squash=200, max_side=100))
    with Image.open(photo) as whole, Image.open(io.BytesIO(raw)) as image:
        assert (image.format, media_type) == ("PNG", "image/png")
        assert image.tobytes() == whole.resize((200, 200), Image.Resampling.LANCZOS).tobytes()
    with Image.open(io.BytesIO(both)) as image:
        assert image.size == (100, 100)
    assert request_key(question(photo)) != request_key(question(photo, squash=200))


def test_a_model_here_is_shown_squashed_images(photo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Request] = []

    async def submit(self: Any, request: Request) -> Reply:
        shown.append(request)
        return Reply("a cat")

    monkeypatch.setattr("titjudge.providers.local.base.MicroBatcher.submit", submit)
    assert "squash" not in huggingface.Local.omitted | vllm.VLLM.omitted
    monkeypatch.setattr(vllm, "_installed", lambda: True)
    model = vllm.VLLM(ProviderSettings("m"))
    asyncio.run(model.complete(question(photo, squash=200)))
    (image,) = shown[0].images
    assert (image.width, image.height, dict(shown[0].params)) == (200, 200, {})


def test_the_longest_side_is_part_of_the_key_and_of_what_a_request_can_cost(photo: Path) -> None:
    plain, fitted = question(photo), question(photo, max_side=200)
    assert request_key(plain) != request_key(fitted)
    gemini = Gemini(ProviderSettings("gemini-2.5-pro"))
    assert gemini.usage_bound(fitted).image < gemini.usage_bound(plain).image


def test_a_role_says_it_and_a_model_here_is_not_told() -> None:
    config = load_config(None, {"captioner": {"model": "openai/m", "max_side": 200}})
    assert Roles(config)["captioner"].sampling({}, "strict")["max_side"] == 200
    assert "max_side" in huggingface.Local.omitted & vllm.VLLM.omitted
    plain = load_config(None, {"captioner": "openai/m"})
    assert not {"max_side", "squash"} & set(identity(plain)["captioner"])
    squashing = load_config(None, {"captioner": {"model": "openai/m", "squash": 1024}})
    assert Roles(squashing)["captioner"].sampling({}, "strict")["squash"] == 1024
    assert identity(plain) != identity(squashing)
    assert identity(plain) != identity(load_config(None, {"captioner": {"model": "openai/m", "max_side": 200}}))
    way = load_config(None, {"captioner": {"model": "openai/m", "options": {"client": "sdk"}}})
    assert identity(plain) == identity(way)


def test_a_dry_run_says_what_it_saves(photo: Path) -> None:
    async def planned(**more: Any) -> Any:
        role = {"model": "gemini/gemini-2.5-pro", **more}
        planner = open_planner(load_config(None, {"captioner": role}), None)
        found = await forecast(planner, [Item("i", "a gradient", photo)], {"lmm-score": lmm_score})
        await planner.aclose()
        return found

    whole, small = asyncio.run(planned()), asyncio.run(planned(max_side=200))
    tokens, dollars = small.saved
    assert whole.saved == (0, 0.0)
    assert tokens == whole.roles["captioner"].middle.image - small.roles["captioner"].middle.image > 0
    assert dollars == pytest.approx(whole.total[1] - small.total[1])
    (note,) = [note for note in small.table().notes if "max_side" in note]
    assert f"save {tokens:,} image tokens, ${dollars:.4f}" in note
    assert json.loads(json.dumps(small.to_json()))["saved_by_max_side"]["image_tokens"] == tokens


def test_a_large_image_is_scaled_in_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "large.png"
    Image.new("1", (2100, 2100)).save(file)
    here = image_decoding.resized(file.read_bytes(), file, (50, 50))
    monkeypatch.setattr("titjudge.data.images.resized", None)
    assert images.scaled(file.read_bytes(), file, (50, 50)) == here
    assert images.scaled(file.read_bytes(), file, (50, 50), jpeg=False) == here
    image_process.close()
