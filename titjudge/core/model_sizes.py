"""Memory that a model takes in this process, and the sizes of models that several learned metrics share."""

from __future__ import annotations

from typing import NamedTuple

TEXT = 700  # tokens of a long prompt with its instruction, and of the answer


class Size(NamedTuple):
    """The size of a model, from which its memory follows.

    Attributes:
        parameters: Billions of parameters.
        layers: Layers that keep keys and values; 0 for an encoder.
        kv_heads: Heads of keys and values.
        head_dim: Their dimension.
        hidden: Hidden size of the text model, or of an encoder's larger half.
        intermediate: Size of its feed-forward layer.
        tokens: Tokens of one request.
        bytes: Bytes of a number.
    """

    parameters: float
    layers: int
    kv_heads: int
    head_dim: int
    hidden: int
    intermediate: int
    tokens: int
    bytes: int = 2

    @property
    def weights(self) -> int:
        """Bytes of the parameters."""
        return int(self.parameters * 1e9) * self.bytes

    @property
    def row(self) -> int:
        """Bytes that each request of a batch takes."""
        cache = 2 * self.layers * self.kv_heads * self.head_dim
        return self.tokens * self.bytes * (cache + 2 * self.intermediate + 4 * self.hidden)


def clip_l(tokens: int) -> Size:
    return Size(0.428, 0, 0, 0, 1024, 4096, tokens, 4)


def clip_h(tokens: int, parameters: float = 0.986) -> Size:
    return Size(parameters, 0, 0, 0, 1280, 5120, tokens, 4)


def blip2(tokens: int) -> Size:
    return Size(1.17, 0, 0, 0, 1408, 6144, tokens, 4)


def qwen_7b(tokens: int) -> Size:
    """Qwen2-VL-7B and Qwen2.5-VL-7B; an image of 1024 x 1024 pixels is 37 x 37 blocks of 28."""
    return Size(8.29, 28, 4, 128, 3584, 18944, tokens)
