"""What judges of the ladder see of it, and at what price, when they read it with an eye of honest sharpness.

    python -m benchmarks.ladder_judges [--scenes N] [--seed S] [--difficulty 1|2|3] [--pixels 768 1536 ...]

The metrics are the real ones. Whatever is asked about an image is answered by the eye of `ladder_eye`: it gets what is sent (the
image, a part of it, a crop) scaled to `--pixels` on the long side, with noise and JPEG. No error rate is put in. What is the same
in two images of a prompt is read the same in both. Everything that is only text (comparing, settling, choosing where to look) is
done without a mistake, so that differences are those of what was seen. Readers know which box is which.

A description has some 300 words, as the paper's instruction has it: of many boxes it mentions a share, drawn for each prompt. "every
box described" is what it would say without that bound.

"pair": one error against none, half where the scores are equal. "SRCC": of the score with the number of errors, the mean over
prompts. "element": mean of right boxes accepted and wrong ones noticed. "looks" are requests with pictures. Tokens are estimated
from the texts as they are sent and answered, and dollars from the list price of openai/gpt-4o; what is asked once for all images
of a prompt is divided among them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import repeat
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from PIL import Image
from scipy.stats import spearmanr

from benchmarks.ladder_eye import Eye
from titjudge.apps.scenes.cabinet import RUNGS, cabinet, tile
from titjudge.apps.scenes.generate import ScenePlan, plan
from titjudge.apps.scenes.ladder import _sentence
from titjudge.apps.scenes.scene import LEVELS
from titjudge.core import structured_output
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Item, Reply, Score
from titjudge.engine.prices import price_of
from titjudge.metrics.agent.crops import Box, origin
from titjudge.metrics.agent.metric import tit_agent
from titjudge.metrics.lmm_score import lmm_score
from titjudge.metrics.tit import tit_llm
from titjudge.metrics.yes_no import yes_no
from titjudge.providers.token_counts import image_tokens, text_tokens_estimate

PRICED_AS = ("openai", "gpt-4o")
METRICS = {
    "lmm-score": lmm_score,
    "tit-llm": tit_llm,
    "tit-llm, every box described": tit_llm,
    "yes-no": yes_no,
    "tit-agent": tit_agent,
    "tit-agent, description, 64 looks": tit_agent.configured({"first_look": "description"}),
    "tit-agent, description, every box described": tit_agent.configured({"first_look": "description"}),
    "tit-agent, sight": tit_agent.configured({"first_look": "sight"}),
}
SHARPEST = 2.0  # pixels seen over pixels of the image, across: what more enlargement shows nothing of
WORDS = 300  # of a description: "between 250 and 350 words"
WHOLE: Box = (0, 0, 1, 1)
MARK = re.compile(r"#(\d+)=([01])")
LIBRARY = PromptLibrary()


class Pictures:
    """The images of a prompt, and what the eye makes of a box in a part of one."""

    def __init__(self, scene: ScenePlan, difficulty: int, pixels: int, folder: Path) -> None:
        self.scene, self.rung, self.pixels = scene, RUNGS[difficulty], pixels
        self.things = scene.asked.things
        self.arrays = [cabinet(shown.scene, self.rung) for shown in scene.shown]
        self.wrong = [{error.element[0] for error in shown.errors} for shown in scene.shown]
        self.files = [folder / f"{pixels}-{level}.png" for level in LEVELS]
        for array, file in zip(self.arrays, self.files, strict=True):
            Image.fromarray(array).save(file, compress_level=1)
        self._seen: dict[Any, Any] = {}
        self._accepted: dict[Any, bool] = {}

    def place(self, number: int) -> Box:
        """Where a box lies, in fractions."""
        left, top, right, bottom = self.rung.place(self.things[number])
        height, width = self.arrays[0].shape[:2]
        return left / width, top / height, right / width, bottom / height

    def sharpness(self, file: Path) -> float:
        """Pixels that a reader sees of a file, over pixels of the image that it shows, across."""
        with Image.open(file) as sent:
            longest = max(sent.size)
            enlarged = sent.width / ((_box(file)[2] - _box(file)[0]) * self.arrays[0].shape[1])
        return min(SHARPEST, enlarged * min(1.0, self.pixels / longest))

    def accepts(self, level: int, number: int, file: Path) -> bool | None:
        """Whether a box looks in a file as the prompt asks; None where it is not all in it."""
        part, thing = _box(file), self.things[number]
        if not _inside(self.place(number), part):
            return None
        level = level if thing.name in self.wrong[level] else 0
        key = level, number, part, self.sharpness(file)
        if key not in self._accepted:
            eye = Eye(self.rung, key[3], self.scene.asked.wall, self.scene.asked.view.light)
            self._accepted[key] = eye.accepts(self._cut(eye, level, number, part), thing)
        return self._accepted[key]

    def _cut(self, eye: Eye, level: int, number: int, part: Box) -> Any:
        """What the eye sees of the inside of a box."""
        array = self.arrays[level]
        height, width = array.shape[:2]
        x, y = int(part[0] * width), int(part[1] * height)
        if (level, part, eye.share) not in self._seen:
            shown = array[y : round(part[3] * height), x : round(part[2] * width)]
            self._seen[level, part, eye.share] = eye.sees(np.ascontiguousarray(shown), 100 * level + number)
        h, w = tile(self.things[0], self.rung, self.scene.asked.wall, self.scene.asked.view.light, None).shape[:2]
        left, top, right, bottom = self.rung.place(self.things[number])
        down, across = (top + bottom - h) // 2 - y, (left + right - w) // 2 - x
        return self._seen[level, part, eye.share][down : down + h, across : across + w]


def _box(file: Path) -> Box:
    cut = origin(file)
    return WHOLE if cut is None else cut.box


def _inside(inner: Box, outer: Box) -> bool:
    return inner[0] >= outer[0] and inner[1] >= outer[1] and inner[2] <= outer[2] and inner[3] <= outer[3]


@dataclass
class Bill:
    """What was asked: requests, those with pictures, tokens in and out."""

    requests: float = 0
    looks: float = 0
    sent: float = 0
    answered: float = 0

    def add(self, other: Bill, share: float = 1) -> None:
        for name in ("requests", "looks", "sent", "answered"):
            setattr(self, name, getattr(self, name) + share * getattr(other, name))


@dataclass
class Scripted:
    """An `ask` for one image."""

    pictures: Pictures
    level: int
    bill: Bill = field(default_factory=Bill)
    shared: Bill = field(default_factory=Bill)
    complete: bool = False  # a description mentions every box
    protocol = "strict"
    siblings = ()

    def has_tools(self, role: str) -> bool:
        return False

    async def __call__(self, template: str, *, role: str, images: Sequence[Path] = (), schema: Any = None, **given: Any) -> Reply:  # fmt: skip
        known = LIBRARY.get(template).variables
        variables = {name: value for name, value in given.items() if name in known}
        text = "\n".join(message.text for message in LIBRARY.get(template).messages(variables))
        kind = template.rpartition("/")[2]
        method = "question" if template.startswith("tiif/") else kind
        reply = getattr(self, f"_{method}")(images, variables)
        bill = self.shared if kind == "split" else self.bill
        seen = sum(image_tokens(*PRICED_AS, *_size(file)) for file in images)
        bill.add(Bill(1, bool(images), text_tokens_estimate(text) + seen, text_tokens_estimate(reply)))
        return replace(Reply(reply), data=structured_output.validated(reply, schema)[0] if schema else None)

    # ------------------------------------------------------------------ what is seen

    def _report(self, number: int, files: Sequence[Path]) -> tuple[bool, int] | None:
        """Whether a box is as asked, by the picture that shows it largest, and which picture that is."""
        order = sorted(range(len(files)), key=lambda at: -self.pictures.sharpness(files[at]))
        for at in order:
            held = self.pictures.accepts(self.level, number, files[at])
            if held is not None:
                return held, at
        return None

    def _says(self, number: int, files: Sequence[Path]) -> str:
        report = self._report(number, files)
        if report is None:
            return f"box {self.pictures.things[number].name[4:]} is not in this part."
        words = _sentence(self.pictures.things[number])
        return f"#{number}={report[0]:d} {words if report[0] else 'It is not so that: ' + words}"

    def _all(self) -> range:
        return range(len(self.pictures.things))

    def _describe(self, files: Sequence[Path], _: Any) -> str:
        """Describe some boxes, in the words that the paper's instruction allows, or all of them."""
        words, said = 0, []
        for number in Random(self.pictures.scene.prompt_id).sample(self._all(), len(self._all())):
            said.append(self._says(number, files))
            words += len(said[-1].split())
            if words > WORDS and not self.complete:
                break
        return " ".join(said)

    def _inventory(self, files: Sequence[Path], _: Any) -> str:
        places = {number: [round(each, 3) for each in self.pictures.place(number)] for number in self._all()}
        return "\n".join(f"{n + 1}. {self._says(n, files)} {places[n]}" for n in self._all())

    def _zoom(self, files: Sequence[Path], given: Mapping[str, Any]) -> str:
        return " ".join(self._says(number, files) for number in _asked(given["question"]))

    def _parts(self, files: Sequence[Path], given: Mapping[str, Any]) -> str:
        lines = enumerate(zip(files, given["questions"], strict=True), 1)
        return "\n".join(f"Picture {n}: {self._zoom([file], {'question': text})}" for n, (file, text) in lines)

    def _question(self, files: Sequence[Path], given: Mapping[str, Any]) -> str:
        reports = [self._report(number, files) for text in given["questions"] for number in _asked(text)]
        return "\n".join("yes" if report and report[0] else "no" for report in reports)

    def _rate(self, files: Sequence[Path], _: Any) -> str:
        held = [bool((self._report(number, files) or (False, 0))[0]) for number in self._all()]
        return json.dumps({"reason": "Some boxes are not as they should be.", "score": 100 * sum(held) / len(held)})

    # ------------------------------------------------------------------ what is only text

    def _compare(self, _: Any, given: Mapping[str, Any]) -> str:
        held = [mark == "1" for _, mark in MARK.findall(given["description"])]
        wrong = [_sentence(self.pictures.things[int(n)]) for n, mark in MARK.findall(given["description"]) if mark == "0"]  # fmt: skip
        score = 100 * sum(held) / len(held)
        return json.dumps({"missing": [], "contradicted": wrong, "reason": "Some boxes differ.", "score": score})

    def _split(self, *_: Any) -> str:
        sentences = [_sentence(thing) for thing in self.pictures.things]
        return json.dumps({"claims": [
            {"claim": f"{words} #{n}", "kind": "attribute", "things": [self.pictures.things[n].name], "span": words}
            for n, words in enumerate(sentences)
        ]})  # fmt: skip

    def _orchestrate(self, _: Any, given: Mapping[str, Any]) -> str:
        reports: dict[int, tuple[str, bool]] = {}
        for line in "\n".join(given["evidence"]).splitlines():
            for number, mark in MARK.findall(line):
                reports[int(number)] = (line.split()[0], mark == "1")
        return self._turn(given, reports)

    def _see(self, files: Sequence[Path], given: Mapping[str, Any]) -> str:
        evidence = {int(number) - 1: line.split()[0] for line in given["evidence"] for number in re.findall(r"picture (\d+)", line)}  # fmt: skip
        reports = {n: self._report(n, files) for n in self._all()}
        return self._turn(given, {n: (evidence[report[1]], report[0]) for n, report in reports.items() if report})

    def _turn(self, given: Mapping[str, Any], reports: Mapping[int, tuple[str, bool]]) -> str:
        """Settle what is reported, and look at the places of what is not, or is to be verified."""
        again = set(re.findall(r"\d+", given["verify"].partition("\n")[0]))
        met: dict[str, list[int]] = defaultdict(list)
        settle, looks, sees = [], [], "see()" in given["evidence"][0]
        for line in given["claims"]:
            claim, element = map(int, re.findall(r"^(\d+)\..*#(\d+)$", line)[0])
            name, held = reports.get(element, ("", False))
            if not name or (str(claim) in again and name.partition(".")[0] == "E1"):
                question = {} if sees else {"question": f"What is in the box? #{element}"}
                looks.append({"tool": "zoom", **question, "box": [*self._around(element)]})
            elif held:
                met[name.partition(".")[0]].append(claim)
            else:
                why = {"because": "it is otherwise"} if sees else {}
                settle.append({"claims": [claim], "verdict": "not_met", "evidence": name, **why})
        settle += [{"claims": claims, "verdict": "met", "evidence": name} for name, claims in met.items()]
        return json.dumps({"thought": "Some boxes are to be seen enlarged.", "settle": settle, "looks": looks})

    def _around(self, number: int) -> Iterator[float]:
        box = self.pictures.place(number)
        for at, value in enumerate(box):
            yield round(min(1.0, max(0.0, value + (0.004 if at > 1 else -0.004))), 4)


def _asked(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"#(\d+)", text)]


def _size(file: Path) -> tuple[int, int]:
    with Image.open(file) as image:
        return image.size


def _item(pictures: Pictures, level: int, looks: int) -> Item:
    asked = [f"Is this true? {_sentence(thing)} #{n}" for n, thing in enumerate(pictures.things)]
    meta = {"max_looks": looks, "questions": asked, "gold_answers": ["yes"] * len(asked)}
    return Item("i", pictures.scene.prompt, pictures.files[level], "g", "p", meta)


def _verdicts(score: Score, ask: Scripted) -> dict[int, bool]:
    """What a score says of each box; of a metric without verdicts what the eye sees of the whole image."""
    rows = score.parts.get("claims")
    if isinstance(rows, list):
        return {_asked(row["claim"])[0]: row["verdict"] == "met" for row in rows}
    if "description" in score.parts:
        said = {int(n): mark == "1" for n, mark in MARK.findall(str(score.parts["description"]))}
        return {number: said.get(number, True) for number in ask._all()}
    file = [ask.pictures.files[ask.level]]
    return {number: bool((ask._report(number, file) or (False, 0))[0]) for number in ask._all()}


def measure(number: int, seed: int, difficulty: int, pixels: int) -> dict[str, dict[str, Any]]:
    """What each metric says of the images of one prompt: scores by level, verdicts right and wrong, and the bill."""
    found: dict[str, dict[str, Any]] = {}
    scene = plan(seed, number, LEVELS, lambda *_: [], difficulty=difficulty)
    with tempfile.TemporaryDirectory() as folder:
        pictures = Pictures(scene, difficulty, pixels, Path(folder))
        for name, metric in METRICS.items():
            scores, bill, counts, once = [], Bill(), Counter[tuple[bool, bool]](), Bill()
            for level in LEVELS:
                ask = Scripted(pictures, level, complete="every box" in name)
                score = asyncio.run(metric(_item(pictures, level, 64 if "64" in name else 8), ask))  # type: ignore[arg-type]
                assert score.value is not None, score.reason
                scores.append(score.value)
                for box, met in _verdicts(score, ask).items():
                    right = pictures.things[box].name not in pictures.wrong[level]
                    counts[right, met == right] += 1
                bill.add(ask.bill)
                once = ask.shared
            bill.add(once)
            found[name] = {"scores": scores, "counts": counts, "bill": bill}
    return found


def _row(name: str, scenes: Sequence[Mapping[str, Any]], dollars_of_tit: float) -> tuple[str, float]:
    counts = sum((scene["counts"] for scene in scenes), Counter[tuple[bool, bool]]())
    bill, images = Bill(), len(scenes) * len(LEVELS)
    for scene in scenes:
        bill.add(scene["bill"], 1 / images)
    pairs = [0.5 + 0.5 * float(np.sign(s["scores"][0] - s["scores"][1])) for s in scenes]
    ordered = [-spearmanr(s["scores"], list(LEVELS)).statistic if len({*s["scores"]}) > 1 else 0.0 for s in scenes]
    element = np.mean([counts[side, True] / (counts[side, True] + counts[side, False]) for side in (True, False)])
    price = price_of(*PRICED_AS)
    assert price is not None
    dollars = 1000 * (bill.sent * price.input + bill.answered * price.output) / 1e6
    cells = [
        name, f"{np.mean(pairs):.0%}", f"{np.mean(ordered):.2f}", f"{element:.0%}", f"{bill.looks:.1f}", f"{bill.requests:.1f}",
        f"{bill.sent:,.0f}", f"{bill.answered:,.0f}", f"{dollars:.0f}", f"{dollars / (dollars_of_tit or dollars):.1f}",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |", dollars


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--difficulty", type=int, choices=tuple(RUNGS), default=3)
    parser.add_argument("--pixels", type=int, nargs="+", default=[768])
    options = parser.parse_args()
    head = "| metric | pair | SRCC | element | looks | requests | tokens in | tokens out | USD per 1,000 | to tit-llm |"
    for pixels in options.pixels:
        print(
            f"difficulty {options.difficulty}, {options.scenes} prompts of {len(LEVELS)} images, {pixels} pixels a look"
        )
        print(f"{head}\n|{' --- |' * (head.count('|') - 1)}")
        with ProcessPoolExecutor() as pool:
            same = map(repeat, (options.seed, options.difficulty, pixels))
            scenes = list(pool.map(measure, range(options.scenes), *same))
        _, of_tit = _row("tit-llm", [scene["tit-llm"] for scene in scenes], 0)
        for name in METRICS:
            print(_row(name, [scene[name] for scene in scenes], of_tit)[0], flush=True)


if __name__ == "__main__":
    main()
