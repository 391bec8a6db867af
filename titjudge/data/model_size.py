"""Memory that a model takes in this process."""

from __future__ import annotations

from typing import NamedTuple


class ModelSize(NamedTuple):
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
    layers: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    hidden: int = 0
    intermediate: int = 0
    tokens: int = 0
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
