"""How long large images hold the event loop while they are checked, hashed and encoded for a request.

    python -m benchmarks.event_loop [--side 4096] [--times 3]

Four images (JPEG, PNG, WebP, AVIF) go, alone and together, through what a hosted captioner does with them. "held" is the
longest time between two turns of a loop that has nothing else to do, "of it own CPU" what this process computed in the
turn that computed longest: on a busy machine only the second says something. "idle" is what the same loop is held for as many
seconds without any image: what others on the machine do to it. The best of a few times counts.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from titjudge.data.images import ImageFiles
from titjudge.providers.hosted.base import _Encoded

KINDS = ("jpg", "png", "webp", "avif")


def made(folder: Path, side: int) -> list[Path]:
    """A smooth noise in every format."""
    rough = np.random.default_rng(1).integers(0, 255, (side // 8, side // 8, 3), dtype=np.uint8)
    image = Image.fromarray(rough).resize((side, side), Image.Resampling.BICUBIC)
    files = [folder / f"noise.{kind}" for kind in KINDS]
    for file in files:
        image.save(file, **({"compress_level": 1} if file.suffix == ".png" else {"quality": 90}))
    return files


async def held(files: list[Path], idle: float = 0.0) -> tuple[float, float, float]:
    """Longest turn of the loop, and most CPU seconds of this process in one, while the files are encoded; and all seconds."""
    images, encoded = ImageFiles(), _Encoded(len(files))
    work = asyncio.gather(*(_encode(images, encoded, file) for file in files), asyncio.sleep(idle))
    longest = most = 0.0
    began = clock = time.perf_counter()
    cpu = time.process_time()
    while not work.done():
        await asyncio.sleep(0)
        now, used = time.perf_counter(), time.process_time()
        longest, most = max(longest, now - clock), max(most, used - cpu)
        clock, cpu = now, used
    await work
    return longest, most, time.perf_counter() - began


async def _encode(images: ImageFiles, encoded: _Encoded, file: Path) -> None:
    await encoded.get(await images.open(file))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=4096)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = made(Path(folder), options.side)
        for chosen in (*([file] for file in files), files):
            found = [asyncio.run(held(chosen)) for _ in range(options.times)]
            longest, most, seconds = (min(each[i] for each in found) for i in range(3))
            nothing = min(asyncio.run(held([], seconds))[0] for _ in range(options.times))
            name = " + ".join(file.suffix[1:] for file in chosen)
            print(
                f"{name}: held {longest * 1000:.1f} ms, of it own CPU {most * 1000:.1f} ms, idle {nothing * 1000:.1f} ms, "
                f"done in {seconds:.2f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
