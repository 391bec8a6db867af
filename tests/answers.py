"""What a model of the tests says to the metrics that compare a description with the prompt."""

import json
from typing import Any

from tests.kit import Seen


def verdict(score: float, **more: Any) -> str:
    """The answer to `tit/compare`: nothing is missing, and a score from 0 to 100; `more` keys replace others."""
    return json.dumps({"missing": [], "contradicted": [], "reason": "because", "score": score, **more})


def good(seen: Seen) -> str:
    """Descriptions for pictures, verdicts for texts: another score for each text."""
    return f"A description of {seen.images[0]}." if seen.images else verdict(seen.digest[0] / 3)
