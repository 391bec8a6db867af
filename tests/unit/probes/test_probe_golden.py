"""The trust cards of the replayed example, as they were agreed on.

`python tests/unit/probes/test_probe_golden.py` writes them anew; look at the difference before it is committed. Descriptions and
verdicts are the recorded ones; vectors are word counts, so that no card depends on a model or its library.
"""

import asyncio
import hashlib
import json
import math
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from titjudge.providers import Embedder

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "known_answer"
GOLDEN = ROOT / "tests" / "golden"
METRICS = ("tit", "tit-llm")
DIGITS = 4


class WordCounts(Embedder):
    """Square roots of word counts, in 4,096 places chosen by a hash of the word."""

    name, local, max_tokens, identity = "words", True, 10_000, {"model": "words"}

    async def embed(self, texts: Sequence[str]) -> list[Any]:
        return [self._vector(re.findall(r"\w+", text.lower())) for text in texts]

    def _vector(self, words: list[str]) -> Any:
        import numpy as np

        from titjudge.core.types import Embedding

        vector = np.zeros(4096)
        for word, count in Counter(words).items():
            vector[int.from_bytes(hashlib.sha256(word.encode()).digest()[:2]) % 4096] += math.sqrt(count)
        return Embedding(vector / np.linalg.norm(vector), len(words), len(words))


def card(metric: str, work: Path) -> dict[str, Any]:
    """The card of the replayed example, without what depends on the machine, rounded."""
    from titjudge.core import registry
    from titjudge.core.config import RunConfig
    from titjudge.core.prompts import PromptLibrary
    from titjudge.engine.pipeline import Engine
    from titjudge.engine.roles import Roles
    from titjudge.probes.probe import probe

    replay = {"model": "recorded", "options": {"file": str(EXAMPLE / "descriptions.jsonl")}}
    config = RunConfig.model_validate({"captioner": replay, "judge": replay})
    judge = registry.load("metrics", metric)
    pairwise = registry.load("metrics", "pairwise-text") if "judge" in judge.roles else None

    async def go() -> dict[str, Any]:
        engine = Engine(Roles(config, embedder=lambda role: WordCounts()), PromptLibrary())
        try:
            return (await probe(engine, metric, judge, EXAMPLE, work, pairwise=pairwise)).to_json()
        finally:
            await engine.aclose()

    found = asyncio.run(go())
    return {key: rounded(value) for key, value in found.items() if key not in ("seconds_per_1000", "versions")}


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DIGITS) + 0.0
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list | tuple) else value


def text(content: dict[str, Any]) -> str:
    """JSON with a line of the card on a line of the file."""
    head = json.dumps({key: value for key, value in content.items() if key != "lines"}, indent=1)
    lines = ",\n".join(f"  {json.dumps(each)}" for each in content["lines"])
    return f'{head[:-2]},\n "lines": [\n{lines}\n ]\n}}\n'


def close(one: Any, other: Any) -> bool:
    """Equal, but for the last digit."""
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= 1.5 * 10**-DIGITS
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(close(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(close, one, other))
    return bool(one == other)


@pytest.mark.slow
@pytest.mark.parametrize("metric", METRICS)
def test_the_card_of_the_replayed_example(metric: str, tmp_path: Path) -> None:
    agreed = json.loads((GOLDEN / f"trust_card_{metric}.json").read_text(encoding="utf-8"))
    found = json.loads(text(card(metric, tmp_path)))
    lines, before = found.pop("lines"), agreed.pop("lines")
    assert [each["name"] for each in lines] == [each["name"] for each in before]
    changed = [each for each, old in zip(lines, before, strict=True) if not close(each, old)]
    hint = "if this is meant: python tests/unit/probes/test_probe_golden.py"
    assert changed == [], hint
    assert close(found, agreed), hint


def main() -> None:
    sys.path.insert(0, str(ROOT))
    GOLDEN.mkdir(exist_ok=True)
    for metric in METRICS:
        with tempfile.TemporaryDirectory() as work:
            content = text(card(metric, Path(work)))
        (GOLDEN / f"trust_card_{metric}.json").write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
