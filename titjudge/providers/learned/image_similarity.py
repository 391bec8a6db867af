"""Likeness of two images by a model that sees images alone: an edit and its source. Imported in the worker thread only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from titjudge.data.learned_metrics import LearnedMetric
from titjudge.providers.learned.base import Adapter, Measured, ModelCheckpoint, measured


class ClassTokens(Adapter):
    """Cosine of the class tokens of two images, behind the last layer and its norm: DINO, DINOv2 and other vision transformers."""

    spare = ("pooler.", "embeddings.mask_token")

    def __init__(self, row: LearnedMetric, checkpoint: ModelCheckpoint, options: Mapping[str, Any]) -> None:
        from transformers import AutoModel

        super().__init__(row, checkpoint, options)
        self.model = checkpoint.on_device(AutoModel.from_pretrained(checkpoint.weights, **checkpoint.weights_pin))
        self.images = checkpoint.image_processor()

    def score(self, pairs: Sequence[tuple[Sequence[Any], str]]) -> list[Measured]:
        """Measure each pair: the source and the result, and a text that is not read."""
        import torch

        pixels = self.images([image for images, _ in pairs for image in images], return_tensors="pt")["pixel_values"]
        with torch.inference_mode():
            states = self.model(pixel_values=pixels.to(self.model.device, self.model.dtype)).last_hidden_state
        tokens = torch.nn.functional.normalize(states[:, 0].float(), dim=1)
        return [measured(float(cosine), (0, 0)) for cosine in (tokens[0::2] * tokens[1::2]).sum(dim=1)]
