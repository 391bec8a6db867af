"""Hosted models that make images: OpenAI's images API and servers that speak it, Gemini, and litellm for the rest.

Each is the provider of the same name with another question: addresses, keys, rate limits, errors and secrets are handled as
for judges. One image a request. Edits have source images in their requests.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import orjson
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from titjudge.core.errors import ConfigError, DataError
from titjudge.core.types import FailureKind, ImageFile, Message, ProviderSettings, Usage
from titjudge.data.image_decoding import inspect
from titjudge.data.images import ImageFiles, loaded
from titjudge.providers import finish_reasons
from titjudge.providers.base import Model
from titjudge.providers.finish_reasons import Ending
from titjudge.providers.hosted import http, litellm_client
from titjudge.providers.hosted.base import parsed, unreadable
from titjudge.providers.hosted.gemini import Gemini, content_of
from titjudge.providers.hosted.litellm import LiteLLM
from titjudge.providers.hosted.openai import OpenAI
from titjudge.providers.hosted.usage import gemini_usage, openai_usage

_OPENAI_SOURCE = (
    7_168  # most tokens of a source: tiles, and 6,240 in high fidelity (platform.openai.com, image generation)
)
_GEMINI_SOURCE = 2_240  # at the highest media resolution (ai.google.dev, media resolution)
_NO_EDITS = frozenset({"dall-e-3"})  # OpenAI's models without an endpoint for edits (platform.openai.com, images)
_FETCHES = 4  # times that the address of a finished image is asked: it is paid, and asking costs nothing
# Written by titjudge, and not to be set by --option.
_WRITTEN = frozenset({"model", "prompt", "n", "response_format", "stream", "contents", "seed"})


@dataclass(frozen=True, slots=True)
class ImageRequest:
    """One image to be made.

    Attributes:
        name: The name of its file, which failures are reported by.
        prompt: What it should show.
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
        usage: Tokens billed; empty where the service reports none.
        revised_prompt: The prompt that the image was really made from, where the service rewrote it.
        version: The model that made it, as the service names it.
    """

    raw: bytes
    usage: Usage
    revised_prompt: str = ""
    version: str = ""


class ImageModel(Model, ABC):
    """A hosted model that makes images.

    Attributes:
        image_options: Settings that go with each request: size, quality, ...
    """

    vendor_in_list: ClassVar[str] = ""
    """The vendor's name in the price list; empty where the model's name begins with it."""
    image_options: Mapping[str, Any]

    @property
    def source_tokens(self) -> int:
        """Input tokens that one source of an edit takes at most; 0 where the model makes no edits."""
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

    def __init__(self, settings: ProviderSettings, options: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self.image_options = checked(options)

    @property
    def path(self) -> str:
        return "/images/generations"

    @property
    def source_tokens(self) -> int:
        return 0 if self.model in _NO_EDITS else _OPENAI_SOURCE

    async def make(self, request: ImageRequest) -> MadeImage:
        body: dict[str, Any] = {"model": self.model, "prompt": request.prompt, "n": 1, **self.image_options}
        if not self._at_openai:
            body |= {"response_format": "b64_json", "seed": request.seed}
        body = {name: value for name, value in body.items() if name not in self.refused}
        if request.sources:
            answer, endpoint = await self._post("/images/edits", *await _form(body, request.sources))
        else:
            answer, endpoint = await self._post(self.path, orjson.dumps(body))
        if not answer.is_success:
            raise self.read_error(answer, sent=frozenset(body))
        usage: Usage | None = None
        try:
            data = parsed(answer.body)
            usage = _usage(data.get("usage"), answer.headers)
            entries = data["data"]
            first = entries[0] if entries else {}
        except Exception:  # whatever a server may write: it came with a status of success, so it may be billed
            raise self.unusable(unreadable(answer.body), usage) from None
        raw = await _image_of(self, request.name, first, usage, endpoint.host)
        return MadeImage(raw, usage or Usage(), str(first.get("revised_prompt") or ""), str(data.get("model") or ""))


class GeminiImages(Gemini, ImageModel):
    """One of Google's image models: `:generateContent` with images as answers, or `:predict` for Imagen.

    Options of Gemini: `aspectRatio` and `imageSize` (1K, 2K, 4K). Of Imagen: its `parameters` (`aspectRatio`, `negativePrompt`, ...).
    """

    vendor_in_list = "gemini"

    def __init__(self, settings: ProviderSettings, options: Mapping[str, Any]) -> None:
        super().__init__(settings)
        if self.vertex:
            raise ConfigError(
                "images are made through the Gemini API: unset GOOGLE_GENAI_USE_VERTEXAI, or use litellm/vertex_ai/..."
            )
        self.image_options = checked(options)
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
            raise self.read_error(answer, sent=frozenset({"seed"}))
        usage: Usage | None = None
        try:
            data = parsed(answer.body)
            usage = gemini_usage(data.get("usageMetadata"), answer.headers)
            image, refusal = _imagen_answer(data) if self._imagen else _gemini_answer(data)
        except Exception:  # as above
            raise self.unusable(unreadable(answer.body), usage) from None
        if not image:
            why, kind = (refusal, FailureKind.REFUSED) if refusal else ("an answer without an image", FailureKind.RETRY)
            raise self.unusable(why, usage, kind)
        raw = await _image_of(self, request.name, {"b64_json": image}, usage)
        return MadeImage(raw, usage or Usage(), version=str(data.get("modelVersion") or ""))

    async def _generate(self, request: ImageRequest) -> dict[str, Any]:
        config: dict[str, Any] = {"responseModalities": ["TEXT", "IMAGE"]}
        if self.image_options:
            config["imageConfig"] = dict(self.image_options)
        if "seed" not in self.refused:
            config["seed"] = request.seed
        message = Message("user", (*await _opened(request.sources), request.prompt))
        return {"contents": [await content_of(message)], "generationConfig": config}

    def _predict(self, request: ImageRequest) -> dict[str, Any]:
        return {
            "instances": [{"prompt": request.prompt}],
            "parameters": {"sampleCount": 1, "includeRaiReason": True, **self.image_options},
        }


class LiteLLMImages(LiteLLM, ImageModel):
    """One model behind litellm's `aimage_generation` and `aimage_edit`: fal, Black Forest Labs, Stability, Recraft, Bedrock, Vertex, xAI, ..."""

    def __init__(self, settings: ProviderSettings, options: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self.image_options = checked(options)

    @property
    def source_tokens(self) -> int:  # of the models behind litellm that bill tokens, OpenAI's have the most
        return 0 if self.model.rpartition("/")[2] in _NO_EDITS else _OPENAI_SOURCE

    async def make(self, request: ImageRequest) -> MadeImage:
        litellm = self._litellm or await self._load()
        arguments = {**self._call_arguments(), "prompt": request.prompt, "n": 1, **self.image_options}
        make = litellm.aimage_generation
        if request.sources:
            make = litellm.aimage_edit
            del arguments["n"]  # not every vendor's edits take it; one is made where it is not said
            arguments["image"] = [_named_file(*source) for source in await _numbered(request.sources)]
        try:
            with litellm_client.traced() as trace:
                answer = await make(**arguments)
        except Exception as error:
            raise self.failed(error, trace) from error
        usage: Usage | None = None
        try:
            data = answer.model_dump(warnings=False)
            usage = _usage(trace.data().get("usage"), trace.headers)
            first = (data.get("data") or [{}])[0]
        except Exception:  # as above
            raise self.unusable(unreadable(trace.body), usage) from None
        raw = await _image_of(self, request.name, first, usage)
        return MadeImage(raw, usage or Usage(), str(first.get("revised_prompt") or ""))


_MODELS: Mapping[str, Any] = {"openai": OpenAIImages, "gemini": GeminiImages, "litellm": LiteLLMImages}


def image_model(name: str, settings: ProviderSettings, options: Mapping[str, Any]) -> ImageModel:
    """Make the model of a provider (`openai`, `gemini`, `litellm`).

    Raises:
        ConfigError: There is no such provider here, or the settings are not for it.
    """
    if name not in _MODELS:
        choices = ", ".join(f"{provider}/MODEL" for provider in _MODELS)
        raise ConfigError(f"--model {name}/...: images are made by {choices} or diffusers/REPO")
    image_model: ImageModel = _MODELS[name](settings, options)
    return image_model


def checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of an image.

    Raises:
        ConfigError: One of them is written by titjudge.
    """
    if clash := sorted(_WRITTEN & set(options)):
        raise ConfigError(
            f"--option {clash[0]}: titjudge writes it; one image is asked for at a time, with the seed of its line"
        )
    return dict(options)


def _usage(usage: Any, headers: Mapping[str, str]) -> Usage | None:
    """Read usage as the images API writes it (`input_tokens`, `output_tokens`)."""
    if isinstance(usage, Mapping) and "input_tokens" in usage:
        details = usage.get("input_tokens_details")
        usage = {
            "prompt_tokens": usage["input_tokens"], "completion_tokens": usage.get("output_tokens"),
            "total_tokens": usage.get("total_tokens"), "cost": usage.get("cost"), "prompt_tokens_details": details,
        }  # fmt: skip
    return openai_usage(usage, headers)


def _gemini_answer(data: Mapping[str, Any]) -> tuple[str, str]:
    """Find the image of an answer, and why there is none (Google refuses with a status of success)."""
    blocked = (data.get("promptFeedback") or {}).get("blockReason") or ""
    candidate = (data.get("candidates") or [{}])[0]
    parts = (candidate.get("content") or {}).get("parts") or []
    images = [part["inlineData"]["data"] for part in parts if part.get("inlineData") and not part.get("thought")]
    finish = str(candidate.get("finishReason") or "")
    if images:
        return str(images[-1]), ""
    if blocked:
        return "", f"the prompt was blocked: {blocked}"
    if finish_reasons.ending(finish or None) is Ending.FILTERED:
        return "", f"the image was blocked: {finish} {candidate.get('finishMessage') or ''}".strip()
    return "", ""


def _imagen_answer(data: Mapping[str, Any]) -> tuple[str, str]:
    predictions = data.get("predictions") or []
    if not predictions:
        return "", "the prompt or the image was filtered, without a reason"
    return str(predictions[0].get("bytesBase64Encoded") or ""), str(predictions[0].get("raiFilteredReason") or "")


async def _opened(sources: Sequence[Path]) -> list[ImageFile]:
    """Open the sources of an edit as they are sent: what a service may not read is PNG.

    Raises:
        DataError: One is no image.
    """
    files = ImageFiles()
    return [await files.open(source) for source in sources]


async def _numbered(sources: Sequence[Path]) -> list[tuple[str, bytes, str]]:
    """Read the sources of an edit under names that say nothing of this machine: name, bytes and media type of each.

    Raises:
        DataError: One is no image.
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


async def _form(fields: Mapping[str, Any], sources: Sequence[Path]) -> tuple[bytes, str]:
    """Write a request for an edit as multipart form data; returns it with its content type.

    Raises:
        DataError: A source is no image.
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


async def _image_of(model: Any, name: str, entry: Mapping[str, Any], usage: Usage | None, host: str = "") -> bytes:
    """Read the image of an answer, which may be the image itself or an address that holds it for some minutes.

    Raises:
        ProviderFailure: There is none: refused where the answer is empty (as xAI refuses), else unusable.
    """
    encoded, address = entry.get("b64_json"), str(entry.get("url") or "")
    if not encoded and not address:
        raise model.unusable("an answer without an image: refused by moderation", usage, FailureKind.REFUSED)
    try:
        if address.startswith("data:"):
            encoded = address.partition(",")[2]
        raw = (
            base64.b64decode(encoded, validate=True)
            if encoded
            else await _fetched(address, host, model.settings.timeout)
        )
        inspect(raw, Path(name))
    except (binascii.Error, DataError, http.TransportError) as error:
        raise model.unusable(f"no image came: {error}", usage) from None
    return raw


async def _fetched(address: str, host: str, timeout: float) -> bytes:
    """Fetch a finished image, again after failures: it is paid, and asking costs nothing.

    Raises:
        TransportError: It cannot be had.
    """
    parts = urlsplit(address)
    if parts.scheme != "https" and parts.hostname != host:
        raise http.Untrusted("its address is no https address of the service")
    async for attempt in AsyncRetrying(
        stop=stop_after_attempt(_FETCHES), wait=wait_random_exponential(0.5, 8),
        retry=retry_if_exception_type((http.Dropped, http.TimedOut, http.Unreachable)), reraise=True,
    ):  # fmt: skip
        with attempt:
            answer = await http.shared.get(address, timeout=timeout)
            if answer.status != 200:
                raise http.Dropped(f"HTTP {answer.status} from the address of the image")
    return answer.body
