"""Test code that uses titjudge: assert the content of an image, script answers, check a provider.

    assert_image("out/cube.png", "a red cube", metric="tit-llm", at_least=80, provider="openai")
    result = score_one(my_metric, Item("i", "a red door", image), ['{"score": 80}'])

`titjudge.testing.provider_spec` is the contract of hosted providers; it needs pytest, nothing else here does.
"""

from importlib import import_module
from typing import Any

from titjudge.testing.assertions import assert_image
from titjudge.testing.scoring import Scored, score_one

__all__ = ["Scored", "assert_image", "score_one"]


def __getattr__(name: str) -> Any:
    """Find the loopback server of the tests, in a checkout."""
    if name in ("Scripted", "Seen", "Server"):
        return getattr(import_module("tests.kit"), name)
    raise AttributeError(name)
