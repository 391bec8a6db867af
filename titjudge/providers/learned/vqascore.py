"""VQAScore with CLIP-FlanT5: how likely the answer "Yes" is. With a chat model it is `chat_heads.AnswerTokens`.

Imported in the worker thread only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from titjudge.core.errors import UserError
from titjudge.data.learned_metrics import LearnedMetric
from titjudge.providers.learned.base import Adapter, ImageAndText, Measured, ModelCheckpoint, measured
from titjudge.providers.learned.state_dicts import fill

_PAD = (122, 116, 104)  # CLIP's mean colour, as t2v_metrics pads


class ClipFlanT5(Adapter):
    """CLIP-FlanT5: CLIP's last but one layer, two linear layers, FLAN-T5. The score is exp(-mean CE) over `▁Yes </s>`.

    That is sqrt(P(Yes) * P(end | Yes)): a geometric mean over the answer's tokens, not P(Yes).
    """

    def __init__(self, row: LearnedMetric, checkpoint: ModelCheckpoint, options: Mapping[str, Any]) -> None:
        import torch
        from transformers import (
            AutoTokenizer,
            CLIPImageProcessorPil,
            CLIPVisionModel,
            T5Config,
            T5ForConditionalGeneration,
        )

        super().__init__(row, checkpoint, options)
        config = T5Config.from_pretrained(checkpoint.weights, **checkpoint.weights_pin)
        config.scale_decoder_outputs = False  # T5 1.1 has an output layer that is separate
        self.model = T5ForConditionalGeneration.from_pretrained(
            checkpoint.weights, config=config, **checkpoint.weights_pin
        )
        if self.model.lm_head.weight.data_ptr() == self.model.shared.weight.data_ptr():
            raise UserError(
                f"'{row.key}' lost its output layer while loading (it was tied to the input embeddings). Install another version of transformers"
            )
        self.model.config.scale_decoder_outputs = False
        self.vision = CLIPVisionModel.from_pretrained(checkpoint.base, **checkpoint.base_pin)
        self.projector = _projector(row, checkpoint)
        self.tokenizer = AutoTokenizer.from_pretrained(checkpoint.weights, **checkpoint.weights_pin)
        self.images = CLIPImageProcessorPil.from_pretrained(checkpoint.base, **checkpoint.base_pin)
        for name in ("model", "vision", "projector"):
            setattr(self, name, checkpoint.on_device(getattr(self, name)))
        answer = self.tokenizer(str(row.options["answer"]))["input_ids"]
        self.labels = torch.tensor(answer, device=checkpoint.device)

    def score(self, pairs: Sequence[ImageAndText]) -> list[Measured]:
        import torch

        questions = [self.checkpoint.asked(text).partition("<image>") for _, text in pairs]
        head = self.tokenizer(questions[0][0])["input_ids"]
        tails = [self.tokenizer(text_after, verbose=False)["input_ids"] for _, _, text_after in questions]
        with torch.inference_mode():
            features = self._features([image for image, _ in pairs])
            room = self.row.tokens - len(head) - 1  # upstream cuts where the image is one token still
            rows = [self._row(head, image, tail[:room]) for image, tail in zip(features, tails, strict=True)]
            embeds = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
            mask = torch.nn.utils.rnn.pad_sequence([torch.ones(len(row)) for row in rows], batch_first=True)
            labels = self.labels.expand(len(pairs), -1)
            answers = self.model(inputs_embeds=embeds, attention_mask=mask.to(embeds.device), labels=labels)
            # Upstream has no rows beyond the vocabulary.
            logits = answers.logits[..., : len(self.tokenizer)].float()
            logprobs = torch.log_softmax(logits, dim=-1).gather(2, labels[..., None])[..., 0]
        return [
            measured(
                float(row.mean().exp()),
                (min(len(tail), room), len(tail)),
                answer=float(row[0].exp()),
                end=float(row[-1].exp()),
            )
            for row, tail in zip(logprobs, tails, strict=True)
        ]

    def _features(self, images: Sequence[Any]) -> Any:
        squares = [padded(image, _PAD) for image in images]
        pixels = self.images(squares, return_tensors="pt")["pixel_values"].to(self.vision.device, self.vision.dtype)
        states = self.vision(pixels, output_hidden_states=True).hidden_states[-2]
        return self.projector(states[:, 1:])  # without the class token

    def _row(self, head: list[int], features: Any, tail: list[int]) -> Any:
        import torch

        embed = self.model.shared
        ids = [torch.tensor(tokens, device=features.device) for tokens in (head, tail)]
        return torch.cat([embed(ids[0]), features.to(embed.weight.dtype), embed(ids[1])])


def padded(image: Any, colour: tuple[int, int, int]) -> Any:
    """Put the image in the middle of a square of `colour`."""
    from PIL import Image

    image = image.convert("RGB")
    side = max(image.size)
    square = Image.new("RGB", (side, side), colour)
    square.paste(image, ((side - image.width) // 2, (side - image.height) // 2))
    return square


def _projector(row: LearnedMetric, checkpoint: ModelCheckpoint) -> Any:
    """Load the projector, Linear, GELU, Linear, from the checkpoint (transformers' T5 ignores it)."""
    import torch

    state: dict[str, Any] = {}
    for path in weight_files(checkpoint, "mm_projector."):
        for name, value in tensors(path, "mm_projector."):
            state[name.rpartition("mm_projector.")[2]] = value
    if "0.weight" not in state or "2.weight" not in state:
        raise UserError(
            f"not the weights of CLIP-FlanT5: '{row.key}' has no mm_projector in {checkpoint.weights}. Give other weights"
        )
    (middle, first), last = state["0.weight"].shape, state["2.weight"].shape[0]
    projector = torch.nn.Sequential(torch.nn.Linear(first, middle), torch.nn.GELU(), torch.nn.Linear(middle, last))
    fill(projector, state, row.key)
    return projector


def weight_files(checkpoint: ModelCheckpoint, part: str) -> list[Path]:
    """List the files of weights with parameters that have `part` in their name, by the index of the shards.

    Other `.bin` files beside them (training_args.bin) have no tensors.
    """
    from transformers.utils import cached_file

    def find(name: str) -> Path | None:
        path = cached_file(
            checkpoint.weights, name, _raise_exceptions_for_missing_entries=False, **checkpoint.weights_pin
        )
        return None if path is None else Path(path)

    for name in ("model.safetensors", "pytorch_model.bin"):
        file, index = find(name), find(f"{name}.index.json")
        if file is not None:
            return [file]
        if index is not None:
            parts = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
            shards = sorted({shard for parameter, shard in parts.items() if part in parameter})
            return [path for path in map(find, shards) if path is not None]
    return []


def tensors(path: Path, part: str) -> list[tuple[str, Any]]:
    """Load the tensors of a file that have `part` in their name, with their names."""
    if path.suffix == ".safetensors":
        from safetensors import safe_open

        with safe_open(path, framework="pt") as file:
            return [(name, file.get_tensor(name)) for name in file.keys() if part in name]  # noqa: SIM118
    import torch

    state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    return [(name, value) for name, value in state.items() if part in name]
