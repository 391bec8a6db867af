"""For tests: assert what an image shows; script answers, a server or the contract of providers for what builds on titjudge.

    assert_image("out/cube.png", "a red cube", metric="tit-llm", at_least=80, provider="openai")
    result = score_one(my_metric, Item("i", "a red door", image), ['{"score": 80}'])
    with Server() as server:                  # speaks OpenAI's, Gemini's and Anthropic's wire formats
        ...

`titjudge.testing.provider_spec` is the contract of hosted providers; it needs pytest, nothing else here does.
"""

from titjudge.testing.assertions import assert_image
from titjudge.testing.scoring import Scored, score_one
from titjudge.testing.server import Server
from titjudge.testing.wires import Scripted, Seen

__all__ = ["Scored", "Scripted", "Seen", "Server", "assert_image", "score_one"]
