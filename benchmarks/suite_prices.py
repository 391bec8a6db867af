"""What it costs to judge one generator on each suite that labs run: dry runs at list prices, on empty images of the right number.

    python -m benchmarks.suite_prices FOLDER [--judge openai/gpt-4o]   # FOLDER holds checkouts, each under its own name
    python -m benchmarks.suite_prices FOLDER --write                   # and puts the table into docs/benchmarks.md

A checkout that is not there is left out. Nothing is sent. One image of 1024 x 1024 for each prompt is priced, and multiplied with
the images that the suite asks for: requests are the same for each.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from titjudge.core.config import load_config
from titjudge.core.types import InvalidItem
from titjudge.runs.resolve import load_suite
from titjudge.runs.session import Session

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
PART = re.compile(
    r"(<!-- measured: python -m benchmarks\.suite_prices FOLDER --write -->\n).*?(<!-- end measured -->)", re.DOTALL
)
SUITES = (
    ("geneval2", {}, "GenEval2", 1),
    ("unigenbench", {}, "UniGenBench", 4),
    ("unigenbench", {"variant": "en_long"}, "UniGenBench", 4),
    ("unigenbench", {"variant": "zh"}, "UniGenBench", 4),
    ("unigenbench", {"variant": "zh_long"}, "UniGenBench", 4),
    ("t2i-corebench", {}, "T2I-CoReBench", 4),
    ("dpg-bench", {}, "ELLA", 4),
    ("longtext-bench", {"mode": "en"}, "X-Omni", 4),
    ("longtext-bench", {"mode": "zh"}, "X-Omni", 4),
    ("oneig-bench", {"mode": "EN"}, "OneIG-Benchmark", 4),
    ("oneig-bench", {"mode": "ZH"}, "OneIG-Benchmark", 4),
    ("wise-verified", {}, "WISE", 1),
    ("wise", {}, "WISE", 1),
    ("not-geneval", {}, "geneval", 4),
)
"""Suite, options, checkout, images for each prompt."""
_TEXTS = ("*.json", "*.jsonl", "*.csv")


def priced(suite: str, options: dict[str, str], checkout: Path, judge: str) -> tuple[int, int, float | None]:
    """Return prompts, requests and the price in USD (p50) of one image for each prompt."""
    with tempfile.TemporaryDirectory() as place:
        data = Path(place) / "data"
        for pattern in _TEXTS:
            for file in checkout.rglob(pattern):
                target = data / file.relative_to(checkout)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
        keys = {
            "data": data,
            "suite": suite,
            "suite_options": options,
            "judge": {"model": judge},
            "protocol": "official",
        }
        config = load_config(None, {**keys, "cache": Path(place) / "cache", "report": False})
        prompts = [each for each in load_suite(config).prompts(data) if not isinstance(each, InvalidItem)]
        empty = Image.new("RGB", (1024, 1024))
        for number, each in enumerate(prompts):  # each image another one, or their questions are one question
            path = data / each.path(0, 1, 0).replace("{generator}", "generator")
            path.parent.mkdir(parents=True, exist_ok=True)
            told = PngInfo()
            told.add_text("number", str(number))
            empty.save(path, pnginfo=told, compress_level=1)
        found = Session(config).dry_run()
    cost = found.costs["judge"]
    return len(prompts), found.roles["judge"].requests, None if cost is None else cost[1]


def main() -> None:
    """Print the table; with --write put it into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--judge", default="openai/gpt-4o")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    lines = [f"| suite | prompts | images | requests | {asked.judge}, USD |", "| --- | ---: | ---: | ---: | ---: |"]
    for suite, options, name, images in SUITES:
        checkout = asked.folder / name
        if not checkout.is_dir():
            continue
        try:
            prompts, requests, cost = priced(suite, options, checkout, asked.judge)
        except Exception as error:
            print(f"{suite} {options}: left out: {error}")
            continue
        shown = " ".join([suite, *(f"{key}={value}" for key, value in options.items())])
        price = "unknown" if cost is None else f"{cost * images:,.2f}"
        lines.append(f"| `{shown}` | {prompts:,} | {prompts * images:,} | {requests * images:,} | {price} |")
        print(lines[-1], flush=True)
    if asked.write:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(PART.sub(lambda part: part[1] + "\n".join(lines) + "\n" + part[2], text), encoding="utf-8")


if __name__ == "__main__":
    main()
