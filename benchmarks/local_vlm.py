"""A local vision-language model on 64 pictures: the provider, the model card's snippet one at a time, a batched loop.

    python -m benchmarks.local_vlm [--model DIR] [--images 64] [--batch 16] [--new 32] [--rounds 3]

Without `--model` a Qwen2.5-VL of a few layers with random weights is built (the tokens mean nothing, their cost is real).
All run in this process in float32, greedy, one after the other in each round; ratios are medians over the rounds. The
batched loop gets its pictures sorted by size and its batch size by hand, which the provider must find out itself.
Exit 1 when the provider is not 3 times as fast as one at a time, or takes more than 1.15 of the batched loop.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import io
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROMPT = "Please provide a detailed, single-paragraph description of the image in English."
SIZES = [(112, 112), (168, 112), (112, 168), (140, 140)]


def pictures(count: int) -> list[bytes]:
    """PNG files of coloured blocks in four sizes."""
    from tiny_models import picture

    files = []
    for number in range(count):
        buffer = io.BytesIO()
        picture(*SIZES[number % len(SIZES)], seed=number).save(buffer, "PNG")
        files.append(buffer.getvalue())
    return files


def opened(raw: bytes) -> Any:
    from PIL import Image

    return Image.open(io.BytesIO(raw)).convert("RGB")


def turn(image: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "image", "image": image}, {"type": "text", "text": PROMPT}]}]


def one_at_a_time(model: Any, processor: Any, files: Sequence[bytes], new: int) -> list[str]:
    """The official snippet in a loop."""
    texts = []
    for raw in files:
        inputs = processor.apply_chat_template(
            turn(opened(raw)), add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
        ).to(model.device)
        made = model.generate(**inputs, max_new_tokens=new, do_sample=False)
        trimmed = [out[len(ids) :] for ids, out in zip(inputs["input_ids"], made, strict=True)]
        texts += processor.batch_decode(trimmed, skip_special_tokens=True)
    return texts


def batched_loop(model: Any, processor: Any, files: Sequence[bytes], new: int, batch: int) -> list[str]:
    """What one would write by hand: sorted by size, left-padded, `batch` at once."""
    images = [opened(raw) for raw in files]
    order = sorted(range(len(images)), key=lambda n: images[n].width * images[n].height)
    texts = [""] * len(images)
    processor.tokenizer.padding_side = "left"
    for start in range(0, len(order), batch):
        chunk = order[start : start + batch]
        inputs = processor.apply_chat_template(
            [turn(images[n]) for n in chunk],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            processor_kwargs={"padding": True},
        ).to(model.device)
        made = model.generate(**inputs, max_new_tokens=new, do_sample=False)
        trimmed = made[:, inputs["input_ids"].shape[1] :]
        for n, text in zip(chunk, processor.batch_decode(trimmed, skip_special_tokens=True), strict=True):
            texts[n] = text
    return texts


async def through_provider(provider: Any, files: Sequence[bytes], new: int) -> list[str]:
    from titjudge.core.types import ImageFile, Message, Request

    def request(raw: bytes) -> Any:
        image = opened(raw)
        digest = hashlib.sha256(raw).hexdigest()
        shown = ImageFile(digest, "image/png", image.width, image.height, Path("x.png"), lambda: raw)
        return Request("local", "m", (Message("user", (shown, PROMPT)),), {"max_tokens": new, "temperature": 0})

    return [reply.text for reply in await asyncio.gather(*(provider.complete(request(raw)) for raw in files))]


async def measure(
    folder: Path, count: int, batch: int, new: int, rounds: int, dtype: str = "float32"
) -> tuple[float, float]:
    """(one at a time / provider, provider / batched loop), medians."""
    from titjudge.providers import ProviderSettings
    from titjudge.providers.local.huggingface import Local

    provider = Local(ProviderSettings(str(folder), options={"dtype": dtype, "batch_size": batch}))
    loaded = provider._ready_model()
    model, processor = loaded.model, loaded.processor
    files = pictures(count)
    await through_provider(provider, files[:2], 2)
    one_at_a_time(model, processor, files[:1], 2)
    faster, slower = [], []
    for number in range(rounds):
        seconds, texts = {}, {}
        for name in ("loop", "provider", "one"):
            start = time.perf_counter()
            if name == "provider":
                texts[name] = await through_provider(provider, files, new)
            elif name == "loop":
                texts[name] = batched_loop(model, processor, files, new, batch)
            else:
                texts[name] = one_at_a_time(model, processor, files, new)
            seconds[name] = time.perf_counter() - start
        same = sum(a.strip() == b for a, b in zip(texts["one"], texts["provider"], strict=True))
        faster.append(seconds["one"] / seconds["provider"])
        slower.append(seconds["provider"] / seconds["loop"])
        times = ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items())
        print(f"round {number + 1}: {times}; {same} of {count} texts as one at a time")
    await provider.aclose()
    return median(faster), median(slower)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--new", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    from tiny_models import qwen25_vl

    with tempfile.TemporaryDirectory() as scratch:
        folder = given.model or qwen25_vl(Path(scratch))
        faster, slower = asyncio.run(measure(folder, given.images, given.batch, given.new, given.rounds))
    print(f"one at a time / provider (median): {faster:.2f}, wanted at least 3")
    print(f"provider / batched loop (median): {slower:.3f}, wanted at most 1.15")
    return 0 if faster >= 3 and slower <= 1.15 else 1


if __name__ == "__main__":
    raise SystemExit(main())
