"""titjudge: judges text-to-image outputs against their prompts, and says how far the judgement agrees with people."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_WHERE = {
    "Judge": "titjudge.runs.judge",
    **dict.fromkeys(
        (
            "Embedding",
            "Failure",
            "FailureKind",
            "Item",
            "Message",
            "Pair",
            "Reply",
            "Request",
            "Score",
            "Status",
            "Tool",
            "Usage",
        ),
        "titjudge.core.types",
    ),
    **dict.fromkeys(("Capabilities", "Provider", "ProviderSettings"), "titjudge.providers"),
    **dict.fromkeys(("Metric", "metric"), "titjudge.metrics"),
    "TitjudgeError": "titjudge.core.errors",
    "UserError": "titjudge.core.errors",
    "Unanswered": "titjudge.core.errors",
}

__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'titjudge' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
