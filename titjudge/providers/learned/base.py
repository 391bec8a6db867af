"""The common parts of learned metrics: one image and one text in, a measurement out; the places of their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from titjudge.core.errors import Unanswered
from titjudge.core.prompts import Prompt
from titjudge.core.types import Json, Reply, Request, Status, Values
from titjudge.data.learned_metrics import LearnedMetric
from titjudge.providers.base import SAMPLING_PARAMETERS, Capabilities, Provider
from titjudge.providers.local import hub
from titjudge.providers.local.base import LocalModel

ImageAndText = tuple[Any, str]
"""A PIL image, and the prompt that it was made from."""
Measured = Json
"""`score`, `tokens_used` and `tokens_total` of the text, and `parts`: further numbers by name."""


class LearnedMetricProvider(LocalModel[Any, Request, Reply], Provider):
    """A provider whose reply is a measurement, as JSON, of one image and one text."""

    capabilities = Capabilities(images=True, schema=True, omit=SAMPLING_PARAMETERS, direct=True)
    images_read = 1  # of each request

    async def complete(self, request: Request) -> Reply:
        """Score one image and one text, together with the requests that arrive at the same time.

        Raises:
            UserError: The weights cannot be loaded.
            Unanswered: There is no score, and why.
            ArithmeticError: The model computed no number.
        """
        if (count := len(request.images)) != self.images_read:
            reads = "one image" if self.images_read == 1 else "an image and its one source"
            raise Unanswered(Status.BAD_INPUT, f"this learned metric reads {reads}, not {count} images")
        return await self._batcher.submit(request)


@dataclass(frozen=True, slots=True)
class ModelCheckpoint:
    """The files that the model of a learned metric is loaded from, how it computes, and the prompt it is asked with.

    Attributes:
        weights: Folder, or name on the hub, of the weights.
        weights_commit: Their commit on the hub, "" for a folder.
        base: Folder, or name on the hub, of configuration, processor and tokenizer.
        base_commit: Their commit on the hub, "" for a folder.
        file: The released file of the weights, if there is one.
        dtype: Name of the floating-point type, as torch has it.
        device: The device that computes, as torch names it.
        prompts: The templates that a text is put into, by dimension (`LearnedMetric.dimensions`); none if it is read unchanged.
    """

    weights: str
    weights_commit: str
    base: str
    base_commit: str
    file: Path | None
    dtype: str
    device: str
    prompts: Mapping[str, Prompt] = field(default_factory=dict)

    @property
    def weights_pin(self) -> Json:
        """Arguments of `from_pretrained(weights)` that pin the commit."""
        return hub.pinned(self.weights_commit)

    @property
    def base_pin(self) -> Json:
        """Arguments of `from_pretrained(base)` that pin the commit."""
        return hub.pinned(self.base_commit)

    def asked(self, text: str) -> str:
        """Put a text into the template."""
        return self.prompts[""].messages({"prompt": text})[-1].text if self.prompts else text

    def config(self) -> Any:
        """Load the configuration of `base`."""
        from transformers import AutoConfig

        return AutoConfig.from_pretrained(self.base, **self.base_pin)

    def tokenizer(self) -> Any:
        """Load the tokenizer of `base`."""
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self.base, **self.base_pin)

    def image_processor(self) -> Any:
        """Load the image processor of `base`, computing with PIL."""
        from transformers import AutoImageProcessor

        return AutoImageProcessor.from_pretrained(self.base, backend="pil", **self.base_pin)

    def state(self) -> Json:
        """Load the state dict in `file`; a pickle with anything except tensors is refused."""
        assert self.file is not None
        if self.file.suffix == ".safetensors":
            from safetensors.torch import load_file

            return dict(load_file(self.file))
        import torch

        return dict(torch.load(self.file, map_location="cpu", weights_only=True))

    def on_device(self, model: Any) -> Any:
        """Move a model to the device, in the dtype, and set it to evaluation."""
        import torch

        return model.to(device=self.device, dtype=getattr(torch, self.dtype)).eval()


class Adapter:
    """The model of a learned metric. A subclass loads it, from arguments of this form, and scores.

    Args:
        row: The metric.
        checkpoint: The files of the model.
        options: The user's own, by name (see `titjudge.providers.learned.provider.Scorer`).
    """

    spare: tuple[str, ...] = ()
    """Beginnings of parameters that may be missing in the files, as the score does not depend on them."""

    def __init__(self, row: LearnedMetric, checkpoint: ModelCheckpoint, options: Values) -> None:
        self.row, self.checkpoint = row, checkpoint

    def score(self, pairs: Sequence[ImageAndText]) -> list[Measured]:
        """Measure each pair of an image and a text."""
        raise NotImplementedError


def measured(score: float, length: tuple[int, int], **parts: float) -> Measured:
    """Make the measurement of one image and text; `length` is (tokens of the text that were read, all its tokens)."""
    return {"score": score, "tokens_used": length[0], "tokens_total": length[1], "parts": parts}


def counted(tokenizer: Any, texts: Sequence[str], limit: int) -> list[tuple[int, int]]:
    """Count (tokens read, tokens there are) of each text, special tokens included."""
    ids = tokenizer(list(texts), truncation=False, padding=False, verbose=False)["input_ids"]
    return [(min(len(row), limit), len(row)) for row in ids]
