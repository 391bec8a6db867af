"""The prompts of learned metrics' models, as tests compare them."""

from titjudge.core.prompts import PromptLibrary
from titjudge.data.learned_metrics import TABLE


def learned_prompt(key: str, text: str = "{}") -> str:
    """What the model of a row is asked about a text."""
    return PromptLibrary().get(TABLE[key].options["template"]).messages({"prompt": text})[-1].text
