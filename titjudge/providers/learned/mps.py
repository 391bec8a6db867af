"""MPS: CLIP's tokens, four layers of cross-attention from image to text, cosine with the text's end token.

Written from the description in the paper (Zhang et al., CVPR 2024, 4.1) and the released shapes. The released code leaves
one step to the batch. Here the condition mask is scaled by the highest similarity of each sample, so that a score depends
only on its image and text. Imported in the worker thread only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from titjudge.core.errors import UserError
from titjudge.data.learned_metrics import LearnedMetric
from titjudge.providers.learned import state_dicts
from titjudge.providers.learned.base import Adapter, ImageAndText, Measured, ModelCheckpoint, counted, measured

CONDITION = (
    "light, color, clarity, tone, style, ambiance, artistry, shape, face, hair, hands, limbs, structure, instance, "
    "texture, quantity, attributes, position, number, location, word, things."
)


class ScaleNorm(nn.Module):  # type: ignore[misc]
    """Layer norm with a learned scale; its bias is a constant of the file (zero)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.register_buffer("bias", torch.zeros(width))

    def forward(self, x: Any) -> Any:
        return functional.layer_norm(x, x.shape[-1:], self.weight, self.bias)


class Gated(nn.Module):  # type: ignore[misc]
    """The second half of the features, through SiLU, gates the first."""

    def forward(self, x: Any) -> Any:
        value, gate = x.chunk(2, dim=-1)
        return functional.silu(gate) * value


def _heads(x: Any, count: int) -> Any:
    """Reshape (rows, tokens, heads * width) to (rows, heads, tokens, width)."""
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def _attend(queries: Any, keys: Any, values: Any, mask: Any = None) -> Any:
    """Attend by many heads of queries (rows, heads, tokens, width) to one head of keys and values (rows, tokens, width)."""
    count = queries.shape[1]
    keys, values = (tensor.unsqueeze(1).expand(-1, count, -1, -1) for tensor in (keys, values))
    attended = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
    return attended.transpose(1, 2).flatten(2)


def rotated(x: Any) -> Any:
    """Apply rotary positions over the second but last dimension, in halves (base 10000)."""
    tokens, width = x.shape[-2:]
    rates = 10_000 ** (-torch.arange(0, width, 2, device=x.device, dtype=torch.float32) / width)
    angles = torch.arange(tokens, device=x.device, dtype=torch.float32)[:, None] * rates
    angles = torch.cat([angles, angles], dim=-1)
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    return x * angles.cos().to(x.dtype) + turned * angles.sin().to(x.dtype)


class CrossAttention(nn.Module):  # type: ignore[misc]
    """Attention from image tokens to text tokens, with a feed-forward beside it."""

    def __init__(self, width: int, heads: int, head: int, factor: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = ScaleNorm(width)
        self.to_q = nn.Linear(width, heads * head, bias=False)
        self.to_kv = nn.Linear(width, 2 * head, bias=False)
        self.to_out = nn.Linear(heads * head, width, bias=False)
        self.ff = nn.Sequential(
            nn.Linear(width, 2 * factor * width, bias=False), Gated(), nn.Linear(factor * width, width, bias=False)
        )

    def forward(self, x: Any, context: Any, mask: Any) -> Any:
        x = self.norm(x)
        keys, values = self.to_kv(context).chunk(2, dim=-1)
        return self.to_out(_attend(_heads(self.to_q(x), self.heads), keys, values, mask)) + self.ff(x)


class SelfAttention(nn.Module):  # type: ignore[misc]
    """Attention among image tokens, with rotary positions, and a feed-forward beside it, from one projection."""

    def __init__(self, width: int, heads: int, head: int, factor: int) -> None:
        super().__init__()
        self.heads, self.widths = heads, (heads * head, head, head, 2 * factor * width)
        self.norm = ScaleNorm(width)
        self.fused_attn_ff_proj = nn.Linear(width, sum(self.widths), bias=False)
        self.attn_out = nn.Linear(heads * head, width, bias=False)
        self.ff_out = nn.Sequential(Gated(), nn.Linear(factor * width, width, bias=False))

    def forward(self, x: Any) -> Any:
        queries, keys, values, rest = self.fused_attn_ff_proj(self.norm(x)).split(self.widths, dim=-1)
        attended = _attend(rotated(_heads(queries, self.heads)), rotated(keys), values)
        return self.attn_out(attended) + self.ff_out(rest)


class CrossModel(nn.Module):  # type: ignore[misc]
    """The layers after CLIP; parameters have the names of the released file, without its `fn.`."""

    def __init__(self, layers: int, width: int, heads: int, head: int, factor: int) -> None:
        super().__init__()
        shape = (width, heads, head, factor)
        self.layers = nn.ModuleList(
            [nn.ModuleList([CrossAttention(*shape), SelfAttention(*shape)]) for _ in range(layers)]
        )

    def forward(self, x: Any, context: Any, mask: Any) -> Any:
        for pair in self.layers:
            cross_attention, self_attention = list(pair)
            x = x + cross_attention(x, context, mask)
            x = x + self_attention(x)
        return x

    @classmethod
    def shaped(cls, state: Mapping[str, Any]) -> CrossModel:
        """Make a model of the shape that a state dict has."""
        layers = 1 + max(int(name.split(".")[1]) for name in state)
        head = state["layers.0.0.to_kv.weight"].shape[0] // 2
        inner, width = state["layers.0.0.to_q.weight"].shape
        factor = state["layers.0.0.ff.2.weight"].shape[1] // width
        return cls(layers, width, inner // head, head, factor)


class Mps(Adapter):
    """MPS's overall score: exp(logit_scale) * cosine. The row's `threshold` is the threshold of the condition mask."""

    def __init__(self, row: LearnedMetric, checkpoint: ModelCheckpoint, options: Mapping[str, Any]) -> None:
        from transformers import CLIPModel

        super().__init__(row, checkpoint, options)
        if checkpoint.file is None:
            raise UserError(f"'{row.key}' requires its released state dict. Give the file with the option weights")
        clip, cross = state_dicts.mps(checkpoint.state())
        if "layers.0.0.to_kv.weight" not in cross or "layers.0.0.to_q.weight" not in cross:
            raise UserError(
                f"not the weights of MPS: the weights of '{row.key}' have no cross-attention. Give other weights"
            )
        self.model, self.cross = CLIPModel(checkpoint.config()), CrossModel.shaped(cross)
        state_dicts.fill(self.model, clip, row.key)
        state_dicts.fill(self.cross, cross, row.key)
        self.model, self.cross = checkpoint.on_device(self.model), checkpoint.on_device(self.cross)
        self.tokenizer, self.images = checkpoint.tokenizer(), checkpoint.image_processor()
        self._condition: Any = None

    def score(self, pairs: Sequence[ImageAndText]) -> list[Measured]:
        texts = [text for _, text in pairs]
        pixels = self.images([image for image, _ in pairs], return_tensors="pt")["pixel_values"]
        with torch.inference_mode():
            if self._condition is None:
                self._condition = self._text([CONDITION])[0]
            tokens, ends = self._text(texts)
            states = self.model.vision_model(pixel_values=pixels.to(self.model.device, self.model.dtype))
            image = self.model.visual_projection(states.last_hidden_state)
            mask = self._mask(tokens)
            attentive = self.cross(image, tokens, mask)[:, 0]
            cosines = functional.cosine_similarity(attentive.float(), ends.float())
            factor = float(self.model.logit_scale.float().exp())
        lengths = counted(self.tokenizer, texts, self.row.tokens)
        attended = torch.isfinite(mask[:, 0, 0]).sum(dim=1).tolist()
        return [
            measured(float(cosine) * factor, length, cosine=float(cosine), attended=float(count))
            for cosine, length, count in zip(cosines, lengths, attended, strict=True)
        ]

    def _text(self, texts: Sequence[str]) -> tuple[Any, Any]:
        """Compute projected tokens (rows, 77, width), padding included, and projected end tokens (rows, width)."""
        ids = self.tokenizer(
            list(texts), padding="max_length", truncation=True, max_length=self.row.tokens, return_tensors="pt"
        )["input_ids"]
        out = self.model.text_model(input_ids=ids.to(self.model.device))
        return self.model.text_projection(out.last_hidden_state), self.model.text_projection(out.pooler_output)

    def _mask(self, tokens: Any) -> Any:
        """Make a mask that is 0 where a text token resembles the condition, otherwise minus infinity; shape (rows, 1, 1, 77)."""
        similarity = torch.einsum("bid,jd->bij", tokens, self._condition[0]).amax(dim=-1)
        similarity = similarity / similarity.amax(dim=-1, keepdim=True)
        mask = torch.where(similarity > float(self.row.options["threshold"]), 0.0, float("-inf"))
        return mask.to(tokens.dtype)[:, None, None, :]
