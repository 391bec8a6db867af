"""What it costs to read a data set of Hugging Face, beside pyarrow's own reading of the same columns.

    python -m benchmarks.parquet [--rows 10000] [--bytes 40000]

The table has images as structs of bytes and path, in groups of 500 rows. "items" is what the folder suite makes of the rows, without
the bytes of images; "images" is every image read once, in order. pyarrow reads the same columns group by group. The best of three
times counts; the memory is the most that the process had, in MiB, before and after our reading.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.parquet import ParquetFile, ParquetWriter

from titjudge.core.types import Item
from titjudge.data import images
from titjudge.suites.folder import Folder

GROUP = 500


def made(file: Path, rows: int, size: int) -> Path:
    """A table of noise that is no image: nothing decodes it here."""
    random, kind = np.random.default_rng(1), pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    schema = pa.schema([("image", kind), ("prompt", pa.string())])
    with ParquetWriter(file, schema) as writer:
        for start in range(0, rows, GROUP):
            numbers = range(start, min(start + GROUP, rows))
            content = [{"bytes": random.bytes(size), "path": f"{number}.png"} for number in numbers]
            writer.write_table(pa.table([content, [f"a cat, number {each}" for each in numbers]], schema=schema))
    return file


def theirs(file: Path, *columns: str) -> list[Any]:
    with ParquetFile(file) as opened:
        groups = range(opened.num_row_groups)
        return [len(opened.read_row_group(each, columns=list(columns)).to_pylist()) for each in groups]


def best(work: Callable[[], object]) -> float:
    def once() -> float:
        begun = time.perf_counter()
        work()
        return time.perf_counter() - begun

    return min(once() for _ in range(3))


def memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--bytes", type=int, default=40_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = made(Path(folder) / "table.parquet", asked.rows, asked.bytes)
        before = memory()
        items = best(lambda: sum(1 for _ in Folder().load(file)))
        places = [item.image for item in Folder().load(file) if isinstance(item, Item) and item.image is not None]
        read = best(lambda: sum(len(images.read(place)) for place in places))
        after = memory()
        their_items = best(lambda: theirs(file, "image.path", "prompt"))
        their_images = best(lambda: theirs(file, "image.bytes"))
        both, their_both = items + read, their_items + their_images
        for name, ours, other in (
            ("items", items, their_items),
            ("images", read, their_images),
            ("both", both, their_both),
        ):
            print(f"{name:<7} {ours:6.2f} s, pyarrow {other:6.2f} s, ratio {ours / other:5.2f}")
        print(f"memory  {before} MiB, then {after} MiB; the table has {file.stat().st_size >> 20} MiB")


if __name__ == "__main__":
    main()
