"""For tests of what builds on titjudge: score an item with scripted answers, a loopback server, the contract of providers.

    result = score_one(my_metric, Item("i", "a red door", image), ['{"score": 80}'])
    with Server() as server:                  # speaks OpenAI's, Gemini's and Anthropic's wire formats
        ...

`titjudge.testing.provider_spec` is the contract of hosted providers; it needs pytest, nothing else here does.
"""

from titjudge.testing.scoring import Scored, score_one
from titjudge.testing.server import Server
from titjudge.testing.wires import Scripted, Seen

__all__ = ["Scored", "Scripted", "Seen", "Server", "score_one"]
