"""The same comparisons on a GPU, at the true shapes of Qwen2.5-VL-7B and Qwen3-Embedding-8B, with random weights.

    python -m benchmarks.gpu_vlm [--images 64] [--batch 16] [--new 64] [--texts 256] [--rounds 3] [--tiny]

Shapes are those of the published config.json files; weights are drawn on the device in bfloat16, so nothing is
downloaded and the tokens mean nothing. Printed: images a second, one at a time / provider, provider / batched loop,
provider / memory-bandwidth limit of decoding (every step reads the weights of the text part once, at the speed at which
this device copies memory, measured here; pictures, prompts and the key-value cache come on top), embedder / one encode
call. `--tiny` runs the same code on small shapes and any device, to see that it works. Needs about 40 GB on the
device; without a GPU it says so and exits 3.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import math
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import local_vlm

QWEN25_VL_7B: dict[str, Any] = {
    "text": {
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "vocab_size": 152064,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]},
    },
    "vision": {
        "depth": 32,
        "hidden_size": 1280,
        "intermediate_size": 3420,
        "num_heads": 16,
        "patch_size": 14,
        "out_hidden_size": 3584,
        "fullatt_block_indexes": [7, 15, 23, 31],
        "window_size": 112,
    },
}
QWEN3_EMBEDDING_8B: dict[str, Any] = {
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151665,
    "max_position_embeddings": 40960,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
}


def random_model(kind: Any, config: Any, device: str) -> Any:
    """A model of the configured shape with random bfloat16 weights, made on the device."""
    import torch

    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            return kind(config).eval()
    finally:
        torch.set_default_dtype(torch.float32)


def reshaped(config: dict[str, Any], shape: dict[str, Any]) -> dict[str, Any]:
    """A configuration with another shape; what was derived from the old one is left to be derived again."""
    return {name: value for name, value in config.items() if name not in ("layer_types", "max_window_layers")} | shape


def vlm_provider(folder: Path, device: str, batch: int, tiny: bool) -> Any:
    """A `Local` whose processor is the tiny folder's and whose model has the true shape."""
    from transformers import AutoConfig, Qwen2_5_VLForConditionalGeneration

    from titjudge.providers import ProviderSettings
    from titjudge.providers.local.huggingface import Local

    options = {
        "batch_size": batch,
        "device": device,
        "dtype": "bfloat16",
        "processor": {"size": {"shortest_edge": 3136, "longest_edge": 1280 * 784}},
    }
    provider = Local(ProviderSettings(str(folder), options=options))
    loaded = provider._ready_model()
    if not tiny:
        config = AutoConfig.from_pretrained(folder)
        about = config.to_dict()
        about["text_config"] = reshaped(about["text_config"], QWEN25_VL_7B["text"])
        about["vision_config"] |= QWEN25_VL_7B["vision"]
        fresh = type(config)(**about)
        model = random_model(Qwen2_5_VLForConditionalGeneration, fresh, device)
        model.generation_config = loaded.model.generation_config
        provider._loaded = dataclasses.replace(loaded, model=model)
    return provider


def bandwidth(device: str, size: int) -> float:
    """Bytes a second that this device moves: the best of some copies of `size` bytes, reading and writing counted."""
    import torch

    source = torch.empty(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    best = float("inf")
    for _ in range(8):
        _settle(device)
        start = time.perf_counter()
        target.copy_(source)
        _settle(device)
        best = min(best, time.perf_counter() - start)
    return 2 * size / best


def _settle(device: str) -> None:
    import torch

    if device.startswith("cuda"):
        torch.cuda.synchronize()


def step_bytes(model: Any) -> int:
    """Bytes of weights that one decoding step reads: the text part without its table of embeddings, and the output layer."""
    text = model.model.language_model
    skipped = {id(value) for value in text.embed_tokens.parameters()}
    read = {id(value): value for value in text.parameters() if id(value) not in skipped}
    read |= {id(value): value for value in model.lm_head.parameters()}
    return sum(value.numel() * value.element_size() for value in read.values())


async def vlm(provider: Any, images: int, batch: int, new: int, rounds: int) -> None:
    loaded = provider._ready_model()
    model, processor = loaded.model, loaded.processor
    files = local_vlm.pictures(images)
    await local_vlm.through_provider(provider, files[:2], 2)
    ratios: list[tuple[float, float]] = []
    seconds: list[float] = []
    few = max(4, images // 8)  # one at a time takes long: its time is that of these, scaled
    for number in range(rounds):
        times = []
        for run in (local_vlm.batched_loop, None, local_vlm.one_at_a_time):
            start = time.perf_counter()
            if run is None:
                await local_vlm.through_provider(provider, files, new)
            elif run is local_vlm.batched_loop:
                run(model, processor, files, new, batch)
            else:
                run(model, processor, files[:few], new)
            times.append(time.perf_counter() - start)
        loop, ours, one = times[0], times[1], times[2] * images / min(few, images)
        print(
            f"round {number + 1}: loop {loop:.2f} s, provider {ours:.2f} s, one at a time {one:.2f} s (from {min(few, images)} images)"
        )
        ratios.append((one / ours, ours / loop))
        seconds.append(ours)
    print(f"images a second (median): {images / median(seconds):.2f}")
    print(f"one at a time / provider (median): {median(a for a, _ in ratios):.2f}")
    print(f"provider / batched loop (median): {median(b for _, b in ratios):.3f}")
    speed = bandwidth(str(model.device), 2**32 if str(model.device).startswith("cuda") else 2**27)
    steps = math.ceil(images / batch) * new
    limit = steps * step_bytes(model) / speed
    print(
        f"provider / memory-bandwidth limit (median): {median(seconds) / limit:.2f} ({steps} steps of "
        f"{step_bytes(model) / 1e9:.2f} GB at {speed / 1e9:.0f} GB/s: {limit:.2f} s)"
    )


async def embedding(folder: Path, device: str, count: int, rounds: int, tiny: bool) -> None:
    from transformers import AutoConfig, Qwen3Model

    from benchmarks.embedding import ours, reference, texts
    from titjudge.core.types import ProviderSettings
    from titjudge.providers.local.sentence_transformers import SentenceTransformers

    options = {"dtype": "bfloat16", "device": device}
    embedder = SentenceTransformers(str(folder), ProviderSettings(str(folder), options=options))
    model = embedder._loaded()
    if not tiny:
        config = AutoConfig.from_pretrained(folder)
        shape = reshaped(config.to_dict(), QWEN3_EMBEDDING_8B)
        model[0].model = random_model(Qwen3Model, type(config)(**shape), device)
        model[1].embedding_dimension = QWEN3_EMBEDDING_8B["hidden_size"]
    known = texts()
    wanted = [f"{number}. {known[number % len(known)]}" for number in range(count)]
    await ours(embedder, wanted[:2])
    ratios = []
    for number in range(rounds):
        pair = (await ours(embedder, wanted), reference(model, wanted))
        ratios.append(pair[0] / pair[1])
        print(f"round {number + 1}: {count} texts, embedder {pair[0]:.2f} s, one encode call {pair[1]:.2f} s")
    print(f"embedder / one encode call (median): {median(ratios):.3f}")
    await embedder.aclose()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("images", 64), ("batch", 16), ("new", 64), ("texts", 256), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    import torch

    if not torch.cuda.is_available() and not given.tiny:
        print("benchmarks.gpu_vlm: no GPU here, nothing measured (--tiny tries the code on small shapes)")
        return 3
    device = "cuda" if torch.cuda.is_available() else "cpu"
    sys.path.insert(0, str(local_vlm.ROOT / "tests"))
    import tiny_models

    local_vlm.SIZES[:] = local_vlm.SIZES if given.tiny else [(1024, 1024), (1024, 768), (768, 1024), (896, 896)]
    with tempfile.TemporaryDirectory() as scratch:
        provider = vlm_provider(tiny_models.qwen25_vl(Path(scratch) / "vlm"), device, given.batch, given.tiny)
        print(f"Qwen2.5-VL{' (tiny)' if given.tiny else '-7B'} shapes, {device}")
        asyncio.run(_vlm_and_close(provider, given))
        del provider
        if device == "cuda":
            torch.cuda.empty_cache()
        print(f"Qwen3-Embedding{' (tiny)' if given.tiny else '-8B'} shapes, {device}")
        folder = tiny_models.qwen3_embedding(Path(scratch) / "embedding")
        asyncio.run(embedding(folder, device, given.texts, given.rounds, given.tiny))
    return 0


async def _vlm_and_close(provider: Any, given: argparse.Namespace) -> None:
    await vlm(provider, given.images, given.batch, given.new, given.rounds)
    await provider.aclose()


if __name__ == "__main__":
    raise SystemExit(main())
