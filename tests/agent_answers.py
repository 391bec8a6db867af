"""What a model of the tests answers where tit-agent has a prompt taken apart."""

import json
from collections.abc import Sequence

ClaimTexts = tuple[str, str, str, str]  # text, kind, level, and the span of the prompt

BOWL_CLAIMS: Sequence[ClaimTexts] = (
    ("There is a bowl", "entity", "macro", "A blue bowl"),
    ("The bowl is blue", "attribute", "micro", "blue"),
    ("The bowl holds three oranges", "attribute", "micro", "three oranges"),
    ("There is a wooden table", "entity", "macro", "wooden table"),
    ("A sign reads FRESH", "text", "micro", "a sign reads FRESH"),
)
"""Of "A blue bowl holds three oranges on a wooden table. Behind it a sign reads FRESH"."""


def claim_records(claims: Sequence[ClaimTexts]) -> list[dict[str, str]]:
    """The claims as the model writes them."""
    return [dict(zip(("claim", "kind", "level", "span"), claim, strict=True)) for claim in claims]


def split(claims: Sequence[ClaimTexts]) -> str:
    """The whole answer."""
    return json.dumps({"claims": claim_records(claims)})
