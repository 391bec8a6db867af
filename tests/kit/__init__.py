"""For tests: a server that speaks OpenAI's, Gemini's and Anthropic's wire formats, and the contract of providers on it."""

from tests.kit.server import Server
from tests.kit.wires import Scripted, Seen

__all__ = ["Scripted", "Seen", "Server"]
