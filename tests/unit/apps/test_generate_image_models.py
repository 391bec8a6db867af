"""What hosted image models are asked, and how their answers and refusals are read."""

import asyncio
import base64
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from image_service import ENCODED, form, picture
from PIL import Image

from tests.kit import Scripted, Server
from titjudge.apps.generate.image_models import ImageModel, ImageRequest, MadeImage, image_model
from titjudge.core.errors import ConfigError
from titjudge.core.types import Failure, FailureKind, ProviderSettings

REQUEST = ImageRequest("a.png", "a red cube", 7)


def model(provider: str, server: Server, name: str = "painter", **options: Any) -> ImageModel:
    address = server.url if provider == "gemini" else server.openai
    return image_model(provider, ProviderSettings(name, base_url=address, timeout=20), options)


def asked(maker: ImageModel, request: ImageRequest = REQUEST) -> MadeImage | Failure:
    async def ask() -> MadeImage | Failure:
        try:
            return await maker.make(request)
        except Exception as error:
            return maker.classify(error)
        finally:
            await maker.aclose()

    return asyncio.run(ask())


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for vendor in ("OPENAI", "GEMINI"):
        monkeypatch.setenv(f"{vendor}_API_KEY", "sk-test-0123456789")


def made(answer: MadeImage | Failure) -> MadeImage:
    assert isinstance(answer, MadeImage), answer
    return answer


def failed(answer: MadeImage | Failure) -> Failure:
    assert isinstance(answer, Failure)
    return answer


def test_a_server_of_the_images_api_is_asked_for_the_image_itself_and_sent_the_seed(server: Server) -> None:
    usage = {"input_tokens": 9, "output_tokens": 200, "total_tokens": 209}
    server.script(Scripted(body={"data": [{"b64_json": ENCODED, "revised_prompt": "a cube"}], "usage": usage}))
    image = made(asked(model("openai", server, size="512x512")))
    assert (image.raw, image.revised_prompt) == (picture(), "a cube")
    assert (image.usage.input, image.usage.output) == (9, 200)
    assert server.last.path == "/v1/images/generations"
    assert server.last.body == {
        "model": "painter", "prompt": "a red cube", "n": 1, "size": "512x512", "response_format": "b64_json", "seed": 7,
    }  # fmt: skip


def edit(folder: Path, *colours: str) -> ImageRequest:
    """An edit of pictures of these colours."""
    sources = [folder / f"{colour}.png" for colour in colours]
    for source, colour in zip(sources, colours, strict=True):
        source.write_bytes(picture(colour))
    return replace(REQUEST, sources=tuple(sources))


@pytest.mark.parametrize("colours", [("green",), ("green", "blue")])
def test_an_edit_is_the_form_that_openais_own_client_sends(
    server: Server, tmp_path: Path, colours: tuple[str, ...]
) -> None:
    import openai  # 860 modules: not when tests are collected

    request = edit(tmp_path, *colours)
    server.script(*[Scripted(body={"data": [{"b64_json": ENCODED}]})] * 2)
    assert made(asked(model("openai", server, size="512x512", quality="low"), request)).raw == picture()
    ours, seen = form(server.last), server.last
    images = [("source.png", picture(colour), "image/png") for colour in colours]
    with openai.OpenAI(api_key="sk-test-0123456789", base_url=server.openai, max_retries=0) as client:
        client.images.edit(
            model="painter", prompt="a red cube", n=1, size="512x512", quality="low", response_format="b64_json",
            image=images if len(images) > 1 else images[0], extra_body={"seed": 7},
        )  # fmt: skip
    assert server.last.path == seen.path == "/v1/images/edits"
    assert form(server.last) == ours
    assert [content for _, content in ours[1]] == [picture(colour) for colour in colours]


def test_gemini_gets_the_sources_of_an_edit_before_its_instruction(server: Server, tmp_path: Path) -> None:
    part = {"inlineData": {"mimeType": "image/png", "data": ENCODED}}
    server.script(Scripted(body={"candidates": [{"content": {"parts": [part]}}]}))
    made(asked(model("gemini", server, "gemini-2.5-flash-image"), edit(tmp_path, "green", "blue")))
    *sources, text = server.last.body["contents"][0]["parts"]
    assert [base64.b64decode(source["inlineData"]["data"]) for source in sources] == [picture("green"), picture("blue")]
    assert text == {"text": "a red cube"}


def test_a_source_that_a_service_may_not_read_is_sent_as_png_upright(server: Server, tmp_path: Path) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.new("RGB", (30, 20), "green").save(tmp_path / "turned.jpg", exif=turned)
    server.script(Scripted(body={"data": [{"b64_json": ENCODED}]}))
    made(asked(model("openai", server), replace(REQUEST, sources=(tmp_path / "turned.jpg",))))
    _, [(_, content)] = form(server.last)
    with Image.open(io.BytesIO(content)) as sent:
        assert (sent.format, sent.size) == ("PNG", (20, 30))


def test_models_without_sources_say_so(server: Server) -> None:
    assert model("gemini", server, "imagen-4.0-generate-001").source_tokens == 0


def test_openai_itself_gets_neither_seed_nor_form(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    maker = model("openai", server)
    monkeypatch.setattr(maker.endpoints.all[0], "host", "api.openai.com")  # type: ignore[attr-defined]
    server.script(Scripted(body={"data": [{"b64_json": ENCODED}]}))
    made(asked(maker))
    assert set(server.last.body) == {"model", "prompt", "n"}


def test_a_seed_that_a_server_refuses_is_left_out_from_then_on(server: Server) -> None:
    error = {"error": {"message": "Unknown parameter: 'seed'.", "code": "unknown_parameter", "param": "seed"}}
    server.script(Scripted(status=400, body=error), Scripted(body={"data": [{"b64_json": ENCODED}]}))
    maker = model("openai", server)
    assert failed(asked(maker)).kind is FailureKind.RETRY
    made(asked(maker))
    assert "seed" not in server.last.body


@pytest.mark.parametrize(
    "answer",
    [
        Scripted(status=400, body={"error": {"code": "moderation_blocked", "message": "blocked"}}),
        Scripted(body={"data": []}),
        Scripted(body={"data": [{}]}),
    ],
    ids=["OpenAI", "xAI", "an empty entry"],
)
def test_a_refusal_by_moderation_is_no_image_and_not_asked_again(server: Server, answer: Scripted) -> None:
    server.script(answer)
    assert failed(asked(model("openai", server))).kind is FailureKind.REFUSED


@pytest.mark.parametrize(
    "body", [b"not json", b"[]", b'{"data": 5}', {"data": [{"b64_json": "AAAA"}]}, {"data": [{"b64_json": "?"}]}]
)
def test_an_answer_that_is_no_image_may_have_been_billed(server: Server, body: Any) -> None:
    server.script(Scripted(body=body))
    failure = failed(asked(model("openai", server)))
    assert (failure.kind, failure.answered, failure.maybe_billed) == (FailureKind.RETRY, True, True)


ODD: list[Any] = [None, 5, "x", [], [None], ["x"], [[]], {"b64_json": ENCODED}]
ODD_ENTRIES: list[Any] = [
    *({"b64_json": value} for value in (5, ["x"], {"a": 1}, "\u00e9\u00e9", "?", "AAAA", "data:", True)),
    *({"url": value} for value in (
        {"a": 1}, 5, "https://[::1", "https://a:99999999/x", "https://x\r\nHost: y/", "file:///etc/passwd", "data:,", "x",
        "http://", "https:///x", "\u0000",
    )),
]  # fmt: skip
ODD_PARTS: list[Any] = [
    *({"inlineData": value} for value in (5, "x", {"mimeType": "x"}, {"data": 5}, {"data": "\u00e9"}, {"data": ["x"]})), 5, None,
]  # fmt: skip
ODD_ANSWERS = [
    *(("openai", "painter", {"data": value}) for value in ODD),
    *(("openai", "painter", {"data": [entry]}) for entry in ODD_ENTRIES),
    *(("litellm", "openai/painter", {"data": value}) for value in ODD),
    *(("litellm", "openai/painter", {"data": [entry]}) for entry in ODD_ENTRIES),
    *(("gemini", "gemini-2.5-flash-image", {"candidates": value}) for value in ODD),
    *(("gemini", "gemini-2.5-flash-image", {"candidates": [{"content": {"parts": [part]}}]}) for part in ODD_PARTS),
    *(("gemini", "imagen-4.0-generate-001", {"predictions": value}) for value in ODD),
    *(("gemini", "imagen-4.0-generate-001", {"predictions": [{"bytesBase64Encoded": entry}]}) for entry in (5, "\u00e9", [1])),
    *((provider, name, value) for provider, name in (
        ("openai", "painter"), ("litellm", "openai/painter"), ("gemini", "gemini-2.5-flash-image"),
        ("gemini", "imagen-4.0-generate-001"),
    ) for value in (5, "x", [], {"usage": 5}, {"usageMetadata": [5], "usage": [None]}, b"<html>busy</html>", b"", b"[" * 9999)),
]  # fmt: skip


@pytest.mark.parametrize(("provider", "name", "body"), ODD_ANSWERS)
def test_an_odd_answer_is_never_free(server: Server, provider: str, name: str, body: Any) -> None:
    server.script(Scripted(body=orjson.dumps(body) if not isinstance(body, bytes) else body))
    failure = failed(asked(model(provider, server, name)))
    assert failure.maybe_billed or failure.answered, failure
    assert failure.kind in (FailureKind.RETRY, FailureKind.REFUSED), failure
    assert server.count() == 1


def test_an_odd_text_beside_an_image_costs_no_image(server: Server) -> None:
    for text in (5, ["x"], {"a": 1}, None, "\u00e9" * 100_000):
        server.script(Scripted(body={"data": [{"b64_json": ENCODED, "revised_prompt": text}], "model": text}))
        image = made(asked(model("openai", server)))
        assert image.raw == picture()
        assert len(image.revised_prompt) < 10_000


def test_a_key_that_an_answer_repeats_is_not_kept(server: Server) -> None:
    text = "painter of sk-test-0123456789"
    server.script(Scripted(body={"data": [{"b64_json": ENCODED, "revised_prompt": text}], "model": text}))
    image = made(asked(model("openai", server)))
    assert "0123456789" not in image.revised_prompt + image.version


def test_an_image_as_a_data_address_in_either_field_is_an_image(server: Server) -> None:
    for field in ("b64_json", "url"):
        server.script(Scripted(body={"data": [{field: f"data:image/png;base64,{ENCODED}"}]}))
        assert made(asked(model("openai", server))).raw == picture()


def test_an_image_behind_an_address_is_fetched_at_once_and_again_where_that_fails(server: Server) -> None:
    address = f"{server.url}/files/1.png"
    server.script(
        Scripted(body={"data": [{"url": address}]}), Scripted(status=503, body="later"), Scripted(body=picture())
    )
    assert made(asked(model("openai", server))).raw == picture()
    assert [seen.method for seen in server.requests] == ["POST", "GET", "GET"]
    assert "authorization" not in server.last.headers  # no key to a store of files


def test_an_address_elsewhere_without_tls_is_not_asked(server: Server) -> None:
    server.script(Scripted(body={"data": [{"url": "http://localhost.example/a.png"}]}))
    assert "must be an https address" in failed(asked(model("openai", server))).message
    assert server.count() == 1


def test_gemini_is_asked_for_an_image_with_its_settings(server: Server) -> None:
    part = {"inlineData": {"mimeType": "image/png", "data": ENCODED}}
    usage = {"promptTokenCount": 4, "candidatesTokenCount": 1290, "totalTokenCount": 1294}
    server.script(
        Scripted(body={"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}], "usageMetadata": usage})
    )
    image = made(asked(model("gemini", server, "gemini-2.5-flash-image", aspectRatio="16:9")))
    assert (image.raw, image.usage.output) == (picture(), 1290)
    assert server.last.path.endswith("/models/gemini-2.5-flash-image:generateContent")
    config = {"responseModalities": ["TEXT", "IMAGE"], "imageConfig": {"aspectRatio": "16:9"}, "seed": 7}
    assert server.last.body["generationConfig"] == config


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"promptFeedback": {"blockReason": "SAFETY"}}, FailureKind.REFUSED),
        ({"candidates": [{"finishReason": "IMAGE_SAFETY"}]}, FailureKind.REFUSED),
        ({"candidates": [{"finishReason": "NO_IMAGE"}]}, FailureKind.RETRY),
        ({"candidates": [{"finishReason": "STOP", "content": {"parts": [{"text": "Sure!"}]}}]}, FailureKind.RETRY),
    ],
)
def test_gemini_refuses_with_a_status_of_success(server: Server, body: Any, kind: FailureKind) -> None:
    server.script(Scripted(body=body))
    failure = failed(asked(model("gemini", server, "gemini-2.5-flash-image")))
    assert (failure.kind, failure.answered) == (kind, True)


def test_imagen_has_a_wire_of_its_own(server: Server) -> None:
    server.script(
        Scripted(body={"predictions": [{"bytesBase64Encoded": ENCODED}]}),
        Scripted(body={"predictions": [{"raiFilteredReason": "a face"}]}),
    )
    maker = model("gemini", server, "imagen-4.0-generate-001")
    assert made(asked(maker)).raw == picture()
    assert server.last.path.endswith("/models/imagen-4.0-generate-001:predict")
    assert server.last.body["instances"] == [{"prompt": "a red cube"}]
    failure = failed(asked(maker))
    assert (failure.kind, failure.message) == (FailureKind.REFUSED, "a face")


def test_litellm_sends_one_request_and_its_refusals_are_refusals(server: Server) -> None:
    moderated = {"error": {"code": "moderation_blocked", "message": "Your request was rejected by the safety system."}}
    server.script(
        Scripted(body={"created": 1, "data": [{"b64_json": ENCODED}]}),
        Scripted.fault(429),
        Scripted(status=400, body=moderated),
    )
    maker = model("litellm", server, "openai/gpt-image-2", quality="low")
    assert made(asked(maker)).raw == picture()
    assert (server.last.path, server.last.body["quality"]) == ("/v1/images/generations", "low")
    assert failed(asked(maker)).kind is FailureKind.RATE_LIMIT
    assert failed(asked(maker)).kind is FailureKind.REFUSED
    assert server.count() == 3


def test_litellm_sends_an_edit_once_even_where_the_connection_breaks_afterwards(server: Server, tmp_path: Path) -> None:
    request = edit(tmp_path, "green", "blue")
    server.script(Scripted(body={"created": 1, "data": [{"b64_json": ENCODED}]}), Scripted.fault("drop_after"))
    maker = model("litellm", server, "openai/gpt-image-2", quality="low")
    assert made(asked(maker, request)).raw == picture()
    texts, files = form(server.last)
    assert (server.last.path, texts["prompt"], texts["quality"]) == ("/v1/images/edits", "a red cube", "low")
    assert [content for _, content in files] == [picture("green"), picture("blue")]
    lost = failed(asked(maker, request))
    assert (lost.kind, lost.maybe_billed, server.count()) == (FailureKind.RETRY, True, 2)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("together_ai/some-model", "image edit is not supported"),
        ("fal_ai/fal-ai/flux/schnell", "FAL_AI_API_KEY is not set"),
    ],
)
def test_what_litellm_cannot_send_ends_the_run_and_is_not_tried_again(
    server: Server, tmp_path: Path, name: str, message: str
) -> None:
    failure = failed(asked(image_model("litellm", ProviderSettings(name, timeout=20), {}), edit(tmp_path, "green")))
    assert (failure.kind, failure.maybe_billed, server.count()) == (FailureKind.FATAL, False, 0)
    assert message in failure.message


def checked(options: dict[str, Any]) -> Any:
    return image_model("openai", ProviderSettings("m"), options).image_options


def test_what_titjudge_writes_is_no_option() -> None:
    assert checked({"quality": "low"}) == {"quality": "low"}
    with pytest.raises(ConfigError, match="--option prompt is set by titjudge"):
        checked({"prompt": "x"})


@pytest.mark.parametrize(
    "name",
    [
        "n", "num_images", "numImages", "sampleCount", "samples", "batch_size", "num_outputs", "numberOfImages", "n_samples",
        "num_images_per_prompt", "candidateCount", "max_images", "num_results", "image_count", "imageCount", "quantity", "n_iter",
        "outputs", "number_results", "num_samples", "batch", "batch_count", "best_of", "num_generations", "variations",
        "sequential_image_generation", "num_imgs", "copies", "num", "amount", "nb_images", "nrOfImages", "num_predictions", "repeat",
    ],
)  # fmt: skip
def test_what_makes_several_images_is_refused(name: str) -> None:
    places: list[Any] = [
        {name: 4},
        {"extra_body": {name: 4}},
        {"input": {"parameters": {name: "4"}}},
        {"x": [{name: 2}]},
    ]
    for options in places:
        for provider, model in (("openai", "m"), ("gemini", "imagen-4.0-generate-001"), ("litellm", "fal_ai/m")):
            with pytest.raises(ConfigError, match=name):
                image_model(provider, ProviderSettings(model), options)
    assert checked({name: 1}) == {name: 1}


@pytest.mark.parametrize(
    "name",
    [
        "size", "num_inference_steps", "guidance_scale", "sampler", "sampleImageSize", "output_format", "negative_prompt", "style",
        "max_output_tokens", "image_size", "image_prompt_strength", "aspectRatio", "outputMimeType", "image_url", "resolution",
    ],
)  # fmt: skip
def test_other_settings_are_passed_on(name: str) -> None:
    assert checked({name: 4}) == {name: 4}


def test_a_setting_that_has_litellm_repeat_requests_is_refused() -> None:
    for name in ("num_retries", "max_retries", "fallbacks", "mock_response"):
        with pytest.raises(ConfigError, match=name):
            image_model("litellm", ProviderSettings("fal_ai/fal-ai/flux/schnell"), {name: 3})


def test_a_provider_that_makes_no_images_is_named_with_those_that_do() -> None:
    with pytest.raises(ConfigError, match=r"openai/MODEL, gemini/MODEL, litellm/MODEL or diffusers/REPO"):
        image_model("vllm", ProviderSettings("x"), {})


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:40] + "\n" + text[40:],
        lambda text: text.rstrip("="),
        lambda text: text.replace("+", "-").replace("/", "_"),
    ],
)
def test_base64_in_its_other_spellings_is_the_image(server: Server, change: Any) -> None:
    server.script(Scripted(body={"data": [{"b64_json": change(ENCODED)}]}))
    assert made(asked(model("openai", server))).raw == picture()


@pytest.mark.parametrize("provider", ["openai", "gemini"])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 429, "message": "too many requests"}, FailureKind.RATE_LIMIT),
        ({"code": "content_filter", "message": "no"}, FailureKind.REFUSED),
        ({"code": 402, "message": "insufficient balance"}, FailureKind.FATAL),
    ],
)
def test_an_error_with_http_200_is_one(server: Server, provider: str, error: Any, kind: FailureKind) -> None:
    server.script(Scripted(body={"error": error}))
    assert failed(asked(model(provider, server))).kind is kind


@pytest.mark.parametrize(
    "options",
    [
        {"quality": "low", "extra_body": {"quality": "high"}},
        {"extra_body": {"size": "4096x4096"}, "size": "1024x1024"},
        {"num_inference_images": 2}, {"generateCount": 3}, {"takes": 2}, {"num_images": [4]},
    ],
)  # fmt: skip
def test_a_setting_with_two_values_or_of_several_images_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        checked(options)


@pytest.mark.parametrize("value", [["https://a.example/1.png"], "data:image/png;base64,AAAA"])
def test_images_that_are_sent_are_no_number_of_images(value: Any) -> None:
    assert checked({"images": value, "quality": "low", "extra_body": {"quality": "low"}})["images"] == value
