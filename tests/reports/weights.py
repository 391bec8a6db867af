"""Reports about local models whose weights do not fit."""

from typing import Any

import tiny_models
from kinds import Weights


def without(part: str) -> Any:
    """Lose the tensors with a part of a name."""
    return lambda tensors: {name: value for name, value in tensors.items() if part not in name}


def prefixed(tensors: dict[str, Any]) -> dict[str, Any]:
    """Name the tensors as a wrapper for several processors does."""
    return {f"module.{name}": value for name, value in tensors.items()}


REPORTS = [
    Weights("microsoft/olive-recipes#380", "all weights have other names: the model is random", change=prefixed, refused=["'module.'"]),
    Weights("microsoft/olive-recipes#380", "the part that sees is lost", change=without("visual.blocks"), refused=["visual"]),
    Weights("QwenLM/Qwen3-VL#1763", "a layer is lost", change=without("layers.1."), refused=["layers.1."]),
    Weights(
        "QwenLM/Qwen3-VL#1763", "an embedder whose weights have other names", tiny_models.qwen3_embedding, prefixed,
        "--embedder", "sentence-transformers/{folder}", refused=["'module.'"],
    ),
]
