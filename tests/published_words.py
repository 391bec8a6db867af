"""The words of prompts that are quoted from papers and code, as tests compare them."""

import hashlib

from titjudge.core.prompts import PromptLibrary

_VALUES = {"prompt": "<prompt>", "explanation": "<explanation>", "reference": "<reference>", "labels": []}


def words_digest(name: str) -> str:
    """The first 16 digits of the SHA-256 of what a template of one message says, with a fixed text for each variable."""
    prompt = PromptLibrary().get(name)
    (message,) = prompt.messages({key: value for key, value in _VALUES.items() if key in prompt.variables})
    return hashlib.sha256(message.text.encode()).hexdigest()[:16]
