"""Detectors on this machine: transformers' zero-shot object detection finds things in an image by their names.

OWLv2, OWL-ViT, Grounding DINO and whatever else `AutoModelForZeroShotObjectDetection` knows. A request is one image and
the names of things, one per line of its last turn; the reply is JSON: boxes in fractions of the image's width and height,
with scores.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib.metadata import version
from typing import Any, NamedTuple

from titjudge.core.errors import ConfigError, TitjudgeError, UserError, must_be
from titjudge.core.types import Json, ProviderSettings, Reply, Request
from titjudge.providers.base import SAMPLING_PARAMETERS, Capabilities, check_options
from titjudge.providers.local import hub
from titjudge.providers.local.base import LocalProvider, Outcomes, RowError, decoded

OPTIONS = frozenset("device dtype revision text_threshold threshold top_k trust_remote_code".split())
MOST_BOXES = 100  # of one image, without the option top_k
_THRESHOLDS = ("threshold", "text_threshold")
_DIGITS = 4  # of a coordinate and a score


class _Detector(NamedTuple):
    """A model with its processor, and the maximum number of tokens of the names that it reads at once (None: any number)."""

    model: Any
    processor: Any
    longest: int | None


class ZeroShotDetection(LocalProvider[_Detector]):
    """A zero-shot object detector, loaded when the first request comes, in the thread that computes.

    Args:
        settings: `model` is a name on the hub or a folder. `options`: `threshold` (least score of a box; by default the
            model processor's threshold: 0.1 for OWLv2, 0.25 for Grounding DINO), `text_threshold` (Grounding DINO: least
            score of a word of a name), `top_k` (most boxes of an image, the best; 100), `dtype` (float32), `device`
            (cuda, if available), `revision`, `trust_remote_code` (false).

    Names that are longer than a model reads are cut (OWLv2: 16 tokens). A model that reads all names as one text
    (Grounding DINO) is shown the image again for names that do not fit. It may call a box by a part of a name: the box
    counts if only one name has these words, otherwise it is left out.

    Raises:
        ConfigError: An option is unknown or no number, or there is no model name.
    """

    name = "zero-shot-object-detection"
    capabilities = Capabilities(images=True, schema=True, omit=SAMPLING_PARAMETERS, direct=True)

    def __init__(self, settings: ProviderSettings) -> None:
        check_options("option of zero-shot object detection", settings.options, OPTIONS)
        super().__init__(settings, max_batch=16)
        self._least = {name: self._number(name, 0, 1) for name in _THRESHOLDS if name in self._options}
        self._most = int(self._number("top_k", 1, 10_000)) if "top_k" in self._options else MOST_BOXES

    def _number(self, option: str, low: float, high: float) -> float:
        given = self._options[option]
        if isinstance(given, bool) or not isinstance(given, int | float) or not low <= given <= high:
            raise ConfigError(must_be(f"the option {option} of {self.name}", f"a number from {low} to {high}", given))
        return given

    # -- what can be known without loading -----------------------------------------------------------------------------

    def _check_type(self) -> None:
        """Check that the model is one of zero-shot object detection.

        Raises:
            UserError: It is of another kind; or as `_folder`.
        """
        from transformers.models.auto.modeling_auto import MODEL_FOR_ZERO_SHOT_OBJECT_DETECTION_MAPPING_NAMES

        kind = str(hub.read_json(self._folder[0], "config.json").get("model_type", ""))
        if kind not in MODEL_FOR_ZERO_SHOT_OBJECT_DETECTION_MAPPING_NAMES and not self._options.get(
            "trust_remote_code"
        ):
            known = ", ".join(MODEL_FOR_ZERO_SHOT_OBJECT_DETECTION_MAPPING_NAMES)
            raise UserError(
                f"'{self.model}' is not a model for zero-shot object detection: its model_type is {kind or 'missing'}, not one of "
                f"{known}. Use google/owlv2-base-patch16-ensemble, for example"
            )

    def ready(self) -> None:
        """Find the model now rather than at the first request.

        Raises:
            UserError: There is none, or it is of another kind.
        """
        self._check_type()

    @cached_property
    def base_url(self) -> str:
        """The identity of the weights and the arithmetic; part of the cache key as an address is of a hosted model."""
        self._check_type()
        parts = [self._weights, self._dtype, *(f"{name}={least:g}" for name, least in self._least.items())]
        return f"{self.name}:" + ",".join([*parts, f"top_k={self._most}", f"transformers={version('transformers')}"])

    @property
    def _dtype(self) -> str:
        return str(self._options.get("dtype", "float32"))

    # -- answering -----------------------------------------------------------------------------------------------------

    async def complete(self, request: Request) -> Reply:
        """Find the things that a request names.

        Raises:
            ConfigError: The request asks for something else.
            UserError: The model cannot be loaded.
            Unanswered: The image cannot be read.
            RowError: The model does not fit into memory with this image.
        """
        if request.schema is None or "boxes" not in request.schema.get("properties", {}) or len(request.images) != 1:
            raise ConfigError(
                f"{self.name}/{self.model} only detects objects. Give it with --set detector=MODEL, and another model as "
                f"{request.role or 'captioner and judge'}"
            )
        return await super().complete(request)

    def _run(self, requests: list[Request]) -> Outcomes:
        loaded = self._loaded()
        results: Outcomes = []
        for request in requests:
            try:
                results.append(self._detect(loaded, request))
            except TitjudgeError as error:
                results.append(error)
            except Exception as error:  # of torch or transformers, of any kind
                small = " (it does not fit into memory; set the option device: cpu, or dtype: bfloat16)"
                why = f"the detector failed: {hub.message_of(error)}"
                results.append(RowError(why + small if hub.is_out_of_memory(error) else why))
        return results

    def _detect(self, loaded: _Detector, request: Request) -> Reply:
        image = decoded(request.images[0], on_white=True)
        names = [line.strip() for line in request.messages[-1].text.splitlines() if plain(line)]
        boxes = [box for part in _parts(loaded, list(dict.fromkeys(names))) for box in self._boxes(loaded, image, part)]
        boxes.sort(key=lambda box: -box["score"])
        return Reply(
            json.dumps({"boxes": boxes[: self._most]}, ensure_ascii=False),
            finish_reason="stop",
            model_version=f"{self._weights[:12]} {self._dtype}",
            endpoint=f"local {loaded.model.device}",
        )

    def _boxes(self, loaded: _Detector, image: Any, names: Sequence[str]) -> Iterator[Json]:
        """Yield name, box and score of each object that the model finds, by transformers' processing of its output."""
        import torch

        model, processor, _ = loaded
        texts = [plain(name) for name in names]
        inputs = processor(images=image, text=[texts], return_tensors="pt", truncation=True)
        with torch.inference_mode():
            outputs = model(**inputs.to(model.device, model.dtype))
        (detections,) = processor.post_process_grounded_object_detection(
            outputs, target_sizes=[(image.height, image.width)], text_labels=[texts], **self._least
        )
        sides = torch.tensor([image.width, image.height] * 2, dtype=torch.float32)
        places = (detections["boxes"].float().cpu() / sides).clamp(0, 1).tolist()
        scores = detections["scores"].float().tolist()
        for text, place, score in zip(detections["text_labels"], places, scores, strict=True):
            index = index_of(text, texts)
            box = [round(side, _DIGITS) for side in place]
            if index is not None and box[0] < box[2] and box[1] < box[3]:
                yield {"name": names[index], "box": box, "score": round(score, _DIGITS)}

    def _load(self) -> _Detector:
        from titjudge.providers.local import loading

        hub.quiet_transformers()
        folder, commit = self._folder
        source = self.model if commit else str(folder)
        common = {"trust_remote_code": bool(self._options.get("trust_remote_code", False)), **hub.pinned(commit)}
        try:
            import transformers

            processor = loading.load_processor(source, **common)
            with loading.complete_weights(self.model):
                model = transformers.AutoModelForZeroShotObjectDetection.from_pretrained(
                    source, dtype=self._dtype, **common
                )
            model.to(hub.default_device(self._options)).eval()
        except Exception as error:  # loaders raise of every kind
            raise hub.loading_error(self.model, error) from error
        return _Detector(model, processor, getattr(model.config, "max_text_len", None))


def plain(name: str) -> str:
    """Write a name as detectors read names: in lower case, without the full stop, which ends a name for Grounding DINO."""
    return " ".join(name.lower().replace(".", " ").split())


def index_of(text: str, names: Sequence[str]) -> int | None:
    """Find the name that a detector means by the text of a box.

    It is the name that equals the text, or the only one with all words of the text, or the only one without a further word.

    Returns:
        The index of the name; None if none or several are meant.
    """
    if text in names:
        return names.index(text)
    words = set(plain(text).split())
    if not words:
        return None
    words_of = [set(name.split()) for name in names]
    for candidates in (
        [index for index, of_name in enumerate(words_of) if words <= of_name],
        [index for index, of_name in enumerate(words_of) if of_name <= words],
    ):
        if len(candidates) == 1:
            return candidates[0]
    return None


def _parts(loaded: _Detector, names: list[str]) -> list[list[str]]:
    """Divide names so that the names of each part are read at once."""
    if loaded.longest is None:
        return [names] if names else []
    parts: list[list[str]] = []
    for name in names:
        text = ". ".join(map(plain, [*(parts[-1] if parts else []), name])) + "."
        if parts and len(loaded.processor.tokenizer(text)["input_ids"]) <= loaded.longest:
            parts[-1].append(name)
        else:
            parts.append([name])
    return parts


__all__ = ["ZeroShotDetection"]
