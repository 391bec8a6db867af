"""Wire formats: read images and prompts from a request, and write rewards in the form that its client expects.

| client                  | route               | request                                             | answer                 |
| ----------------------- | ------------------- | --------------------------------------------------- | ---------------------- |
| flow_grpo               | /, /METRIC          | pickle: images, prompts                             | outputs                |
| flow_grpo (GenEval)     | /, /METRIC          | pickle: images, meta_datas, only_strict             | scores, rewards, ...   |
| verl-omni               | /, /METRIC          | pickle: images, prompts, metadata                   | scores                 |
| EditScore, OmniGen2-RL  | /, /METRIC          | pickle: output_image, input_images, meta_datas      | scores, rewards, ...   |
| Flow-Factory            | /compute, /METRIC/… | JSON: prompt, image, condition_images               | rewards                |
| UniRL                   | /score              | JSON: requests with history and required_rewards    | results, errors        |
| any                     | /v1/rewards         | JSON: samples with prompt, image, sources; metrics  | results                |

A missing reward is NaN in lists and null in the last format.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import orjson

from titjudge.apps.rewards import pickles
from titjudge.core.errors import must_be, unknown
from titjudge.core.files import json_fault
from titjudge.core.types import Json, Values
from titjudge.core.words import is_texts
from titjudge.runs.api.image_scorer import Entry

Missing = Literal["error", "skip", "group-mean"]
"""The replacement for a missing reward: an error, no number, or the mean of the other rewards of the same prompt."""

_PROMPT_KEYS = ("prompt", "instruction")  # in a sample's metadata


class BadRequest(Exception):
    """A request that cannot be answered; the text has the reason, `status` is the HTTP status."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


class Reward(NamedTuple):
    """A reward as it is sent.

    Attributes:
        value: The score; None if it is missing.
        status: The status of the score.
        reason: Why the score is as it is, or missing.
    """

    value: float | None
    status: str = "ok"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """The content of one request.

    Attributes:
        pairs: Images, as `Judge.score` takes them, each with its prompt; of an edit also with the images it was made from.
        metrics: The names of the metrics for each pair.
        shape: The variant of the answer that the client expects.
        echo: Data that is sent back unchanged.
    """

    pairs: list[Entry]
    metrics: list[tuple[str, ...]]
    shape: str = ""
    echo: Any = None


class WireFormat:
    """Reads a request and writes its answer.

    Attributes:
        media_type: Media type of answers and errors.
        tells_errors: Whether the answer has a reason for each missing reward, so that rewards may be missing.
    """

    media_type = "application/json"
    tells_errors = False

    def read(self, body: bytes, metric: str) -> Batch:
        """Read the body of a request; `metric` is the one in its path.

        Raises:
            BadRequest: The body is malformed.
        """
        raise NotImplementedError

    def write(self, batch: Batch, rewards: Sequence[Mapping[str, Reward]]) -> bytes:
        """Write the answer; `rewards` has the rewards of each pair, by metric."""
        raise NotImplementedError

    def error(self, text: str) -> bytes:
        return orjson.dumps({"error": text})


class Pickled(WireFormat):
    """flow_grpo, verl-omni and EditScore, distinguished by their keys. Answers are pickles of plain lists and dicts."""

    media_type = "application/octet-stream"

    def read(self, body: bytes, metric: str) -> Batch:
        try:
            data = pickles.loads(body)
        except pickles.RefusedPickle as error:
            raise BadRequest(
                f"{error}. Send a dict of text, numbers, arrays and PIL images, with pickle protocol 3 to 5"
            ) from error
        if not isinstance(data, dict):
            raise BadRequest(must_be("the pickle", "a dict", data))
        if "output_image" in data:
            metas = _listed(data, "meta_datas")
            images, prompts = _listed(data, "output_image"), [_prompt_of(meta) for meta in metas]
            return _batch(images, prompts, metric, "edit", metas, _sources(data, "input_images", len(images)))
        images = _listed(data, "images")
        if "meta_datas" in data:
            return _batch(images, [_prompt_of(meta) for meta in _listed(data, "meta_datas")], metric, "geneval")
        return _batch(images, _listed(data, "prompts"), metric)

    def write(self, batch: Batch, rewards: Sequence[Mapping[str, Reward]]) -> bytes:
        values = _numbers(rewards)
        if batch.shape == "edit":
            reasons = [reward.reason for by_metric in rewards for reward in by_metric.values()]
            answer = {"scores": values, "rewards": values, "reasoning": reasons, "meta_data": batch.echo}
        elif batch.shape == "geneval":
            same = dict.fromkeys(("scores", "rewards", "strict_rewards"), values)
            answer = {**same, "group_rewards": {}, "group_strict_rewards": {}}
        else:
            answer = {"outputs": values, "scores": values}
        return pickle.dumps(answer, protocol=4)

    def error(self, text: str) -> bytes:
        return pickle.dumps({"error": text}, protocol=4)


class FlowFactory(WireFormat):
    def read(self, body: bytes, metric: str) -> Batch:
        data = _json(body)
        if data.get("video") or data.get("condition_videos"):
            raise BadRequest("videos cannot be judged. Send images")
        images = [_decoded(image) for image in _listed(data, "image")]
        sources = [list(map(_decoded, values)) for values in _sources(data, "condition_images", len(images))]
        return _batch(images, _listed(data, "prompt"), metric, sources=sources)

    def write(self, batch: Batch, rewards: Sequence[Mapping[str, Reward]]) -> bytes:
        return json.dumps({"rewards": _numbers(rewards)}).encode()  # its client reads NaN, which orjson does not write


class UniRL(WireFormat):
    tells_errors = True

    def read(self, body: bytes, metric: str) -> Batch:
        pairs: list[Entry] = []
        metrics = []
        for sample in _listed(_json(body), "requests"):
            turns, names = _required(sample, "history"), _required(sample, "required_rewards")
            if not (isinstance(turns, list) and turns and isinstance(turns[-1], dict)):
                raise BadRequest(must_be("'history'", "a list of turns with text and image_b64", turns))
            if not is_texts(names):
                raise BadRequest(must_be("'required_rewards'", "a list of names", names))
            text = _text(turns[-1].get("text"))
            if any(_required(turn, "text") not in ("", text) for turn in turns):
                raise BadRequest(
                    "the turns of 'history' have different texts, but each turn is a separate edit. Send one request per edit"
                )
            *sources, image = [_decoded(_required(turn, "image_b64")) for turn in turns]
            pairs.append((image, text, sources))
            metrics.append(tuple(names))
        return Batch(pairs, metrics)

    def write(self, batch: Batch, rewards: Sequence[Mapping[str, Reward]]) -> bytes:
        results = [{n: {n: r.value} for n, r in pair.items() if r.value is not None} for pair in rewards]
        errors = [{n: f"{r.status}: {r.reason}" for n, r in pair.items() if r.value is None} for pair in rewards]
        return orjson.dumps({"results": results, "errors": errors})


class Own(WireFormat):
    tells_errors = True

    def read(self, body: bytes, metric: str) -> Batch:
        data = _json(body)
        samples = _listed(data, "samples")
        names = data.get("metrics") or [metric]
        if not is_texts(names):
            raise BadRequest(must_be("'metrics'", "a list of names", names))
        _check_keys("the request", data, ("samples", "metrics"))
        pairs: list[Entry] = []
        for sample in samples:
            image, prompt = _decoded(_required(sample, "image")), _text(_required(sample, "prompt"))
            _check_keys("a sample", sample, ("prompt", "image", "sources"))
            if not isinstance(sources := sample.get("sources") or [], list):
                raise BadRequest(must_be("'sources'", "a list of images", sources))
            pairs.append((image, prompt, list(map(_decoded, sources))))
        return Batch(pairs, [tuple(names)] * len(pairs))

    def write(self, batch: Batch, rewards: Sequence[Mapping[str, Reward]]) -> bytes:
        return orjson.dumps({"results": [{name: r._asdict() for name, r in pair.items()} for pair in rewards]})


PICKLED, FLOW_FACTORY, UNIRL, OWN = Pickled(), FlowFactory(), UniRL(), Own()


def group_mean(prompt: str, prompts: Iterable[str], values: Iterable[float | None]) -> float | None:
    """Compute the mean of the finite values of a prompt; None if it has none."""
    of_prompt = [value for other, value in zip(prompts, values, strict=True) if other == prompt]
    finite = [value for value in of_prompt if value is not None and math.isfinite(value)]
    return math.fsum(finite) / len(finite) if finite else None


def _numbers(rewards: Iterable[Mapping[str, Reward]]) -> list[float]:
    return [math.nan if r.value is None else r.value for pair in rewards for r in pair.values()]


def _batch(
    images: list[Any],
    prompts: list[Any],
    metric: str,
    shape: str = "",
    echo: Any = None,
    sources: Sequence[Sequence[Any]] = (),
) -> Batch:
    """Make the batch of images and their prompts for one metric.

    Raises:
        BadRequest: Their numbers differ, or one cannot be read.
    """
    if len(images) != len(prompts):
        raise BadRequest(f"{len(images)} images do not fit {len(prompts)} prompts. Send one prompt per image")
    rows = zip(images, prompts, sources or [()] * len(images), strict=True)
    pairs: list[Entry] = [
        (_image(image), _text(prompt), list(map(_image, source_images))) for image, prompt, source_images in rows
    ]
    return Batch(pairs, [(metric,)] * len(pairs), shape, echo)


def _json(body: bytes) -> Json:
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is not JSON: {json_fault(error)}") from error
    if not isinstance(data, dict):
        raise BadRequest(must_be("the body", "a JSON object", data))
    return data


def _required(sample: Any, key: str) -> Any:
    if not isinstance(sample, dict) or key not in sample:
        raise BadRequest(f"a sample has no '{key}'. Add this key")
    return sample[key]


def _check_keys(what: str, data: Values, allowed: Sequence[str]) -> None:
    """Refuse unknown keys: the client would not learn that they are ignored."""
    for key in data:
        if key not in allowed:
            raise BadRequest(f"{what}: {unknown('key', key, allowed)}")


def _listed(data: Values, key: str) -> list[Any]:
    values: Any = data.get(key)
    if key in ("images", "output_image") and getattr(values, "ndim", 0) == 4:
        return list(values)  # one NumPy array of all images
    if not isinstance(values, list | tuple):
        raise BadRequest(must_be(f"'{key}'", "a list", values) if key in data else f"'{key}' is missing. Add this key")
    return list(values)


def _text(prompt: Any) -> str:
    if not isinstance(prompt, str):
        raise BadRequest(must_be("a prompt", "text", prompt))
    return prompt


def _prompt_of(meta: Any) -> str:
    """Read the prompt from the metadata of a sample: a dict, or a dict as JSON."""
    if isinstance(meta, str):
        meta = _json(meta.encode("utf-8", "replace"))
    prompt = next((meta[key] for key in _PROMPT_KEYS if key in meta), None) if isinstance(meta, dict) else None
    if prompt is None:
        raise BadRequest(f"the metadata of a sample has no {' or '.join(_PROMPT_KEYS)}. Add one of these keys")
    return _text(prompt)


def _image(image: Any) -> Any:
    if image is None or isinstance(image, str | int | float | list | tuple | dict):
        raise BadRequest(must_be("an image", "the bytes of an image file, an array or a PIL image", image))
    return image


def _decoded(image: Any) -> bytes:
    """Decode base64, with or without `data:image/png;base64,` before it."""
    if not isinstance(image, str) or not image:
        raise BadRequest(must_be("an image", "the base64 text of an image file", image))
    try:
        return base64.b64decode(image.partition(",")[2] if image.startswith("data:") else image, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadRequest(f"an image is not valid base64: {error}. Send the base64 text of an image file") from error


def _sources(data: Values, key: str, images: int) -> list[list[Any]]:
    """Read the images that each edit was made from: one, a list, or none, for each of `images` results."""
    entries = _listed(data, key) if data.get(key) is not None else []
    if entries and len(entries) != images:
        raise BadRequest(f"'{key}' has {len(entries)} entries for {images} images. Send one entry per image")
    lists = [list(entry) if isinstance(entry, list | tuple) else [] if entry is None else [entry] for entry in entries]
    return lists or [[]] * images
