"""What it costs to judge one generator on each suite that labs run: dry runs at list prices, on empty images of the right number.

    python -m benchmarks.suite_prices FOLDER [--judge openai/gpt-4o]   # FOLDER holds checkouts, each under its own name
    python -m benchmarks.suite_prices FOLDER --write                   # and puts the table into docs/reference/benchmarks.md

A checkout that is not there is left out. Of DPG-Bench without its dpg_bench.csv (too large for some copies of the repository) the
prompts are priced with made-up questions, as many as an evaluation of it counts; GEdit-Bench, whose instructions are in no
repository, with those of ImgEdit-Bench. The table then says `about`. Nothing is sent. One image of 1024 x 1024 for each prompt is priced, and multiplied with
the images that the suite asks for: requests are the same for each.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from titjudge.core.config import load_config
from titjudge.core.types import InvalidItem
from titjudge.runs.session import Session
from titjudge.suites.loading import open_suite, suite_class
from titjudge.suites.question_data import QuestionSpec, SourceImages, read_prompts
from titjudge.suites.question_suite import QuestionSuite
from titjudge.suites.sources import source_paths

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "benchmarks.md"
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
    ("longtext-bench", {}, "X-Omni", 4),
    ("longtext-bench", {"variant": "zh"}, "X-Omni", 4),
    ("oneig-bench", {"variant": "en"}, "OneIG-Benchmark", 4),
    ("oneig-bench", {"variant": "zh"}, "OneIG-Benchmark", 4),
    ("wise-verified", {}, "WISE", 1),
    ("wise", {}, "WISE", 1),
    ("wegenbench", {}, "WeGenBench", 1),
    ("wegenbench", {"variant": "zh"}, "WeGenBench", 1),
    ("not-geneval", {}, "geneval", 4),
    ("gedit-bench", {}, "ImgEdit", 1),
    ("imgedit-bench", {}, "ImgEdit", 1),
    ("imgedit-uge", {}, "ImgEdit", 1),
    ("kris-bench", {}, "Bagel", 1),
    ("rise-bench", {}, "RISEBench", 1),
)
"""Suite, options, checkout, images for each prompt."""
_GEDIT_EDITS = 606
_TEXTS = ("*.json", "*.jsonl", "*.csv")
_DPG_QUESTIONS = (13, 14)
"""Questions of every other prompt: 13.5 on average, says scripts/benchmark/summarize_bench3.py of github.com/hmss2002/ASCR @16be49e."""


def dpg_stand_in(checkout: Path, target: Path) -> bool:
    """Write a CSV of questions for the prompts of a checkout of DPG-Bench that lacks its own; True where that was needed."""
    prompts = sorted((checkout / "dpg_bench" / "prompts").glob("*.txt"))
    if not prompts or (checkout / "dpg_bench" / "dpg_bench.csv").is_file():
        return False
    target.mkdir(parents=True, exist_ok=True)
    with (target / "dpg_bench.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("item_id", "text", "proposition_id", "dependency", "tuple", "question_natural_language"))
        for at, path in enumerate(prompts):
            text = path.read_text(encoding="utf-8").strip()
            words = text.split()
            for number in range(1, _DPG_QUESTIONS[at % 2] + 1):
                question = f"{number}: does the picture show {' '.join(words[number : number + 5])}?"
                rows.writerow((path.stem, text, number, 0, "entity - whole", question))
    return True


def gedit_stand_in(checkout: Path, target: Path) -> bool:
    """Write a table of as many edits as GEdit-Bench has in English, with instructions of ImgEdit-Bench; always True."""
    edits = json.loads((checkout / "Benchmark/Basic/basic_edit.json").read_text(encoding="utf-8"))
    with (target / "gedit.jsonl").open("w", encoding="utf-8") as file:
        for key, edit in list(edits.items())[:_GEDIT_EDITS]:
            row = {
                "key": key,
                "task_type": edit["edit_type"],
                "instruction": edit["prompt"],
                "instruction_language": "en",
            }
            file.write(json.dumps({**row, "Intersection_exist": True}) + "\n")
    return True


def kris_stand_in(checkout: Path, target: Path) -> bool:
    """Write the annotations of KRIS-Bench from BAGEL's list of all of them; always False, as these are its own."""
    annotations: dict[str, dict[str, Any]] = {}
    for edit in json.loads((checkout / "eval/gen/kris/final_data.json").read_text(encoding="utf-8")):
        annotations.setdefault(edit["type"], {})[edit["id"]] = edit
    for category, records in annotations.items():
        place = target / "KRIS_Bench" / category / "annotation.json"
        place.parent.mkdir(parents=True)
        place.write_text(json.dumps(records), encoding="utf-8")
    return False


_STAND_INS = {"dpg-bench": dpg_stand_in, "gedit-bench": gedit_stand_in, "kris-bench": kris_stand_in}


def edited_images(spec: QuestionSpec, data: Path) -> Iterator[Path]:
    """Yield where the sources of a suite of edits lie, and the images of right results."""
    if spec.sources == SourceImages():
        return
    for record in read_prompts(data, spec)[0].values():
        values = {**record.fields, "prompt_id": record.key, "generator": "generator"}
        for pattern in (spec.sources.paths[0], spec.sources.reference):
            if all(values.get(name) for name in re.findall(r"\{(\w+)\}", pattern)):
                yield from (
                    data / f"{path}{'' if Path(path).suffix else '.png'}"
                    for path in source_paths(pattern, values)
                    if path
                )


def priced(suite: str, options: dict[str, str], checkout: Path, judge: str) -> tuple[int, int, float | None, bool]:
    """Return prompts, requests, the price in USD (p50) of one image for each prompt, and whether that is about right only."""
    with tempfile.TemporaryDirectory() as place:
        data = Path(place) / "data"
        for pattern in _TEXTS:
            for file in checkout.rglob(pattern):
                target = data / file.relative_to(checkout)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
        about = suite in _STAND_INS and _STAND_INS[suite](checkout, data)
        empty = Image.new("RGB", (1024, 1024))
        suite_type = suite_class(suite)
        if issubclass(suite_type, QuestionSuite):
            for path in edited_images(suite_type.spec, data):
                path.parent.mkdir(parents=True, exist_ok=True)
                empty.save(path, "PNG")
        keys = {
            "data": data,
            "suite": suite,
            "suite_options": options,
            "judge": {"model": judge},
            "protocol": "official",
        }
        config = load_config(None, {**keys, "cache": Path(place) / "cache", "report": False})
        prompts = [each for each in open_suite(config).prompts(data) if not isinstance(each, InvalidItem)]
        for number, each in enumerate(prompts):  # each image another one, or their questions are one question
            path = data / each.path(0, 1, 0).replace("{generator}", "generator")
            path.parent.mkdir(parents=True, exist_ok=True)
            told = PngInfo()
            told.add_text("number", str(number))
            empty.save(path, pnginfo=told, compress_level=1)
        found = Session(config).dry_run()
    cost = found.costs["judge"]
    return len(prompts), found.roles["judge"].requests, None if cost is None else cost[1], about


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
            prompts, requests, cost, about = priced(suite, options, checkout, asked.judge)
        except Exception as error:
            print(f"{suite} {options}: left out: {error}")
            continue
        shown = " ".join([suite, *(f"{key}={value}" for key, value in options.items())])
        price = "unknown" if cost is None else f"{cost * images:,.2f}"
        say = "about " if about else ""
        lines.append(f"| `{shown}` | {prompts:,} | {prompts * images:,} | {say}{requests * images:,} | {say}{price} |")
        print(lines[-1], flush=True)
    if asked.write:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(PART.sub(lambda part: part[1] + "\n".join(lines) + "\n" + part[2], text), encoding="utf-8")


if __name__ == "__main__":
    main()
