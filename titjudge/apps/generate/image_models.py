"""Hosted models that make images: OpenAI's images API and servers that speak it, Gemini, and litellm for the rest.

Each is the provider of the same name with another question: addresses, keys, rate limits, errors and secrets are handled as
for judges. One image per request. Edits have source images in their requests.
"""

from __future__ import annotations

import base64
import hashlib
import io
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import orjson
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from titjudge.apps.generate.image_prices import check_counts
from titjudge.core.errors import ConfigError, UserError, must_be
from titjudge.core.redaction import redact, url_parts
from titjudge.core.types import FailureKind, ImageFile, Json, Message, ProviderSettings, Usage, Values
from titjudge.core.words import truncated
from titjudge.data.image_decoding import inspect
from titjudge.data.images import ImageFiles, loaded
from titjudge.providers.base import Ending, Model, ending
from titjudge.providers.hosted import http, litellm_client
from titjudge.providers.hosted.base import AskedFor
from titjudge.providers.hosted.error_bodies import holds_error
from titjudge.providers.hosted.failures import ProviderFailure
from titjudge.providers.hosted.gemini import Gemini, content_of
from titjudge.providers.hosted.litellm import LiteLLM
from titjudge.providers.hosted.openai import OpenAI
from titjudge.providers.usage import gemini_usage, openai_usage

_OPENAI_SOURCE = (
    7_168  # maximum tokens of a source: tiles, and 6,240 in high fidelity (platform.openai.com, image generation)
)
_GEMINI_SOURCE = 2_240  # at the highest media resolution (ai.google.dev, media resolution)
_NO_EDITS = frozenset({"dall-e-3"})  # OpenAI's models without an endpoint for edits (platform.openai.com, images)
_FETCHES = 4  # times that the address of a finished image is asked: it is paid, and asking costs nothing
_LONGEST_TEXT = 8_192  # characters of a revised prompt that are kept
# Written by titjudge, and not to be set by --option.
_WRITTEN = frozenset({"model", "prompt", "response_format", "stream", "contents", "seed"})


@dataclass(frozen=True, slots=True)
class ImageRequest:
    """One image to be made.

    Attributes:
        name: The name of its file, which failures are reported by.
        prompt: The expected content.
        seed: Seed of the noise, for services that take one.
        sources: The images that an edit is made from, in the order of the instruction.
    """

    name: str
    prompt: str
    seed: int
    sources: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class MadeImage:
    """An image that a service made.

    Attributes:
        raw: The file.
        usage: Tokens billed; empty if the service reports none.
        revised_prompt: The prompt that the image was really made from, if the service rewrote it.
        version: The model that made it, as the service names it.
        others: Number of further images in the answer, which are not kept.
        seconds: Time from sending the request to the image.
    """

    raw: bytes
    usage: Usage
    revised_prompt: str = ""
    version: str = ""
    others: int = 0
    seconds: float = 0.0


class ImageModel(Model, ABC):
    """A hosted model that makes images.

    Attributes:
        image_options: Settings that are sent with each request: size, quality, ...
    """

    vendor_in_list: ClassVar[str] = ""
    """The vendor's name in the price list; empty if the model's name begins with it."""
    image_options: Values

    @property
    def source_tokens(self) -> int:
        """Maximum input tokens of one source of an edit; 0 if the model makes no edits."""
        return 0

    @abstractmethod
    async def make(self, request: ImageRequest) -> MadeImage:
        """Ask for one image, once.

        Raises:
            ConfigError: There is no key.
            DataError: A source cannot be read; nothing was sent.
            Exception: No image came; see `classify`.
        """


class OpenAIImages(OpenAI, ImageModel):
    """One model behind `/images/generations` and `/images/edits`: OpenAI, Azure's v1 address, vLLM-Omni, SGLang, xAI, Together and others.

    OpenAI's own models take no seed and always answer with the image itself; other servers are asked for that, and sent the
    seed until they refuse it.
    """

    vendor_in_list = "openai"

    @property
    def path(self) -> str:
        return "/images/generations"

    @property
    def source_tokens(self) -> int:
        return 0 if self.model in _NO_EDITS else _OPENAI_SOURCE

    async def make(self, request: ImageRequest) -> MadeImage:
        body: Json = {"model": self.model, "prompt": request.prompt, "n": 1, **self.image_options}
        if not self.at_openai:
            body |= {"response_format": "b64_json", "seed": request.seed}
        body = {name: value for name, value in body.items() if name not in self.refused}
        if request.sources:
            answer, endpoint = await self._post("/images/edits", *await _form(body, request.sources))
        else:
            answer, endpoint = await self._post(self.path, orjson.dumps(body))
        if not answer.is_success:
            raise self.read_error(answer, AskedFor(body))
        with _reading(self, answer.body) as found:
            data = answer.json()
            found.usage = _usage(data.get("usage"), answer.headers)
            if not data.get("data") and holds_error(data):
                raise self.error_in(answer, found.usage)
            return await _made(self, request, found, data["data"] or [], data.get("model"), endpoint.host)


class GeminiImages(Gemini, ImageModel):
    """One of Google's image models: `:generateContent` with images as answers, or `:predict` for Imagen.

    Options of Gemini: `aspectRatio` and `imageSize` (1K, 2K, 4K). Of Imagen: its `parameters` (`aspectRatio`, `negativePrompt`, ...).
    """

    vendor_in_list = "gemini"

    def __init__(self, settings: ProviderSettings) -> None:
        super().__init__(settings)
        if self.vertex:
            raise ConfigError(
                "images are made through the Gemini API: unset GOOGLE_GENAI_USE_VERTEXAI, or use litellm/vertex_ai/..."
            )
        self._imagen = "imagen" in self.model

    @property
    def source_tokens(self) -> int:
        return 0 if self._imagen else _GEMINI_SOURCE

    async def make(self, request: ImageRequest) -> MadeImage:
        home = self.path.rpartition(":")[0]
        verb, body = (
            ("predict", self._predict(request)) if self._imagen else ("generateContent", await self._generate(request))
        )
        answer, _ = await self._post(f"{home}:{verb}", orjson.dumps(body))
        if not answer.is_success:
            raise self.read_error(answer, AskedFor({"seed"}))
        with _reading(self, answer.body) as found:
            data = answer.json()
            found.usage = gemini_usage(data.get("usageMetadata"), answer.headers)
            if not (data.get("candidates") or data.get("predictions")) and holds_error(data):
                raise self.error_in(answer, found.usage)
            images, refusal = _imagen_answer(data) if self._imagen else _gemini_answer(data)
            if not images:
                kind = FailureKind.REFUSED if refusal else FailureKind.RETRY
                raise self.unusable(refusal or "the answer contains no image", found.usage, kind)
            entries = [{"b64_json": image} for image in images]
            return await _made(self, request, found, entries, data.get("modelVersion"))

    async def _generate(self, request: ImageRequest) -> Json:
        config: Json = {"responseModalities": ["TEXT", "IMAGE"]}
        if self.image_options:
            config["imageConfig"] = dict(self.image_options)
        if "seed" not in self.refused:
            config["seed"] = request.seed
        message = Message("user", (*await _opened(request.sources), request.prompt))
        return {"contents": [await content_of(message)], "generationConfig": config}

    def _predict(self, request: ImageRequest) -> Json:
        return {
            "instances": [{"prompt": request.prompt}],
            "parameters": {"sampleCount": 1, "includeRaiReason": True, **self.image_options},
        }


class LiteLLMImages(LiteLLM, ImageModel):
    """One model behind litellm's `aimage_generation` and `aimage_edit`: fal, Black Forest Labs, Stability, Recraft, Bedrock, Vertex, xAI, ..."""

    @property
    def source_tokens(self) -> int:  # of the models behind litellm that bill tokens, OpenAI's have the most
        return 0 if self.model.rpartition("/")[2] in _NO_EDITS else _OPENAI_SOURCE

    async def make(self, request: ImageRequest) -> MadeImage:
        litellm = self._litellm or await self._load()
        arguments = {**self._call_arguments(), "prompt": request.prompt, "n": 1, **self.image_options}
        make = litellm.aimage_generation
        if request.sources:
            make = litellm.aimage_edit
            del arguments["n"]  # not every vendor's edits take it; one is made if it is not given
            arguments["image"] = [_named_file(*source) for source in await _numbered(request.sources)]
        try:
            with litellm_client.traced(self) as trace:
                answer = await make(**arguments)
        except Exception as error:
            failed = self.failed(error, trace)
            if isinstance(failed, ProviderFailure) and failed.failure.kind is FailureKind.UNUSABLE:
                # No image came: it is requested once more, as from the other providers.
                failed.failure = replace(failed.failure, kind=FailureKind.RETRY, reply=None)
            raise failed from error
        with _reading(self, trace.body) as found:
            found.usage = _usage(trace.data().get("usage"), trace.headers)
            return await _made(self, request, found, answer.model_dump(warnings=False)["data"] or [])


_MODELS: Values = {"openai": OpenAIImages, "gemini": GeminiImages, "litellm": LiteLLMImages}


def image_model(name: str, settings: ProviderSettings, options: Values) -> ImageModel:
    """Make the model of a provider (`openai`, `gemini`, `litellm`).

    Raises:
        ConfigError: There is no such provider here, the settings are not for it, or one of them is written by titjudge, is for
            the program that sends the request, or makes more than one image.
    """
    if name not in _MODELS:
        choices = ", ".join(f"{provider}/MODEL" for provider in _MODELS)
        raise ConfigError(must_be("--model", f"{choices} or diffusers/REPO", f"{name}/..."))
    image_model: ImageModel = _MODELS[name](settings)
    check_counts(options)
    foreign = litellm_client.load().types.utils.all_litellm_params if name == "litellm" else ()
    if others := sorted(options.keys() & foreign):
        raise ConfigError(f"--option {others[0]} is a setting of litellm and cannot be changed. Remove it")
    if clash := sorted(options.keys() & _WRITTEN):
        raise ConfigError(
            f"--option {clash[0]} is set by titjudge: each request is for one image, with the seed of its line. Remove it"
        )
    image_model.image_options = options
    return image_model


def _usage(usage: Any, headers: Mapping[str, str]) -> Usage | None:
    """Read usage as the images API writes it (`input_tokens`, `output_tokens`)."""
    if isinstance(usage, Mapping) and "input_tokens" in usage:
        details = usage.get("input_tokens_details")
        usage = {
            "prompt_tokens": usage["input_tokens"],
            "completion_tokens": usage.get("output_tokens"),
            "total_tokens": usage.get("total_tokens"),
            "cost": usage.get("cost"),
            "prompt_tokens_details": details,
        }
    return openai_usage(usage, headers)


def _gemini_answer(data: Values) -> tuple[list[Any], str]:
    """Find the images of an answer, the last drawn first, and why there are none (Google refuses with status 200)."""
    blocked = (data.get("promptFeedback") or {}).get("blockReason") or ""
    candidate = (data.get("candidates") or [{}])[0]
    parts = (candidate.get("content") or {}).get("parts") or []
    images = [part["inlineData"]["data"] for part in parts if part.get("inlineData") and not part.get("thought")]
    finish = str(candidate.get("finishReason") or "")
    if images:
        return images[::-1], ""
    if blocked:
        return [], f"the prompt was blocked: {blocked}"
    if ending(finish or None) is Ending.FILTERED:
        return [], f"the image was blocked: {finish} {candidate.get('finishMessage') or ''}".strip()
    return [], ""


def _imagen_answer(data: Values) -> tuple[list[Any], str]:
    predictions = data.get("predictions") or []
    if not predictions:
        return [], "the prompt or the image was filtered, without a reason"
    images = [prediction["bytesBase64Encoded"] for prediction in predictions if prediction.get("bytesBase64Encoded")]
    return images, str(predictions[0].get("raiFilteredReason") or "")


async def _opened(sources: Sequence[Path]) -> list[ImageFile]:
    """Open the sources of an edit as they are sent: formats that a service may not read become PNG.

    Raises:
        DataError: One is not an image.
    """
    files = ImageFiles()
    return [await files.open(source) for source in sources]


async def _numbered(sources: Sequence[Path]) -> list[tuple[str, bytes, str]]:
    """Read the sources of an edit under names that reveal nothing about this machine: name, bytes and media type of each.

    Raises:
        DataError: One is not an image.
    """
    return [
        (f"{number}.{source.media_type.rpartition('/')[2]}", await loaded(source, bytes), source.media_type)
        for number, source in enumerate(await _opened(sources), 1)
    ]


def _named_file(name: str, raw: bytes, _media_type: str) -> io.BytesIO:
    """Make the open file that litellm takes of any vendor."""
    file = io.BytesIO(raw)
    file.name = name
    return file


async def _form(fields: Values, sources: Sequence[Path]) -> tuple[bytes, str]:
    """Write a request for an edit as multipart form data; returns it with its content type.

    Raises:
        DataError: A source is not an image.
    """
    import httpx

    read = await _numbered(sources)
    name = "image" if len(read) == 1 else "image[]"
    files = [(name, source) for source in read]
    texts = {key: value if isinstance(value, str) else orjson.dumps(value).decode() for key, value in fields.items()}
    boundary = hashlib.sha256(
        orjson.dumps([texts, [hashlib.sha256(raw).hexdigest() for _, raw, _ in read]])
    ).hexdigest()  # the same for the same edit
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    form = httpx.Request("POST", "http://localhost", data=texts, files=files, headers=headers)
    return form.read(), headers["Content-Type"]


@dataclass(slots=True)
class _FoundUsage:
    """The usage read from an answer before an unreadable part."""

    usage: Usage | None = None


@contextmanager
def _reading(model: Any, body: bytes) -> Iterator[_FoundUsage]:
    """Guard everything that is read from an answer with a status of success: it may be billed, whatever it contains.

    Raises:
        ProviderFailure: There is no image, or a server wrote something odd.
    """
    found = _FoundUsage()
    try:
        yield found
    except ProviderFailure:
        raise
    except (UserError, http.TransportError) as error:
        raise model.unusable(f"the image could not be downloaded: {error}", found.usage, FailureKind.RETRY) from None
    except Exception:
        raise model.unusable(http.unreadable(body), found.usage, FailureKind.RETRY) from None


async def _made(
    model: Any, request: ImageRequest, found: _FoundUsage, entries: Sequence[Any], version: Any = "", host: str = ""
) -> MadeImage:
    """Read the first image of an answer: the image itself, or an address that has it for some minutes.

    Raises:
        ProviderFailure: It is refused: the answer is empty (as xAI refuses).
        Exception: It cannot be read; see `_reading`.
    """
    first: Values = entries[0] if entries else {}
    encoded, address = first.get("b64_json"), first.get("url") or ""
    if not encoded and not address:
        raise model.unusable("the answer contains no image: refused by moderation", found.usage, FailureKind.REFUSED)
    if not encoded and not address.startswith("data:"):
        raw = await _fetched(address, host, model.settings.timeout)
    else:
        text = encoded or address
        raw = _decoded(text.partition(",")[2] if text.startswith("data:") else text)
    inspect(raw, Path(request.name))
    revised, version = (
        truncated(redact(text), _LONGEST_TEXT) if isinstance(text, str) else ""
        for text in (first.get("revised_prompt"), version)
    )
    return MadeImage(raw, found.usage or Usage(), revised, version, len(entries) - 1)


def _decoded(text: str) -> bytes:
    """Read base64, also with line breaks, in the alphabet of addresses, or without `=` at its end: the image is paid.

    Raises:
        ValueError: It is not base64.
    """
    text = "".join(text.split()).replace("-", "+").replace("_", "/").rstrip("=")
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)


async def _fetched(address: str, host: str, timeout: float) -> bytes:
    """Fetch a finished image, again after failures: it is paid, and asking costs nothing.

    Raises:
        TransportError: It is not available.
    """
    parts = url_parts(address)
    if parts.scheme != "https" and parts.hostname != host:
        raise http.Untrusted("the address of the image must be an https address of the service")
    async for attempt in AsyncRetrying(
        stop=stop_after_attempt(_FETCHES),
        wait=wait_random_exponential(0.5, 8),
        retry=retry_if_exception_type((http.Dropped, http.TimedOut, http.Unreachable)),
        reraise=True,
    ):
        with attempt:
            answer = await http.shared.get(address, timeout=timeout)
            if answer.status != 200:
                raise http.Dropped(f"HTTP {answer.status} from the address of the image")
    return answer.body
