"""What judges of the ladder see of it, and at what price, when they read it with an eye of honest sharpness.

    python -m benchmarks.ladder_judges [--scenes N] [--seed S] [--difficulty 1|2|3] [--template NAME] [--pixels 768 1536 ...]
                                       [--metrics NAME ...] [--perfect]

The metrics are the real ones. Whatever is asked about an image is answered by the eye of `ladder_eye`: it gets what is sent (the
image, a part of it, a crop) scaled to `--pixels` on the long side, with noise and JPEG. No error rate is put in. What is the same
in two images of a prompt is read the same in both. Everything that is only text (comparing, settling, choosing where to look) is
done without a mistake, so that differences are those of what was seen. Readers know which box is which. With
`--perfect`, the eye sees all of a picture without an error, whatever its size: that is for prices, and takes a second for a scene.

A description has some 300 words, as the paper's instruction has it: of many boxes it mentions a share, drawn for each prompt. "every
box described" is what it would say without that bound.

"one error below none": half where the scores are equal. "pairs in order": of the six pairs of a prompt, those in which the image
with more errors has the lower score. "wrong found": wrong boxes noticed. "false not met": share of the right boxes that are not
accepted. The second table is the mean of right boxes accepted and wrong ones noticed. "looks" are requests with pictures. Tokens are estimated
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
from dataclasses import dataclass, field
from itertools import combinations, repeat
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.ladder_eye import Eye, eye_for
from benchmarks.scripted_ask import ScriptedAsk
from titjudge.apps.scenes.generate import ScenePlan, plan
from titjudge.apps.scenes.ladder import TEMPLATES
from titjudge.apps.scenes.scene import CABINET, LEVELS, Options
from titjudge.apps.scenes.template import SIZES
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Item, Score
from titjudge.engine.prices import price_of
from titjudge.metrics.agent.looks import Box, origin
from titjudge.metrics.agent.metric import tit_agent
from titjudge.metrics.agent.pairs import tit_agent_pairs
from titjudge.metrics.graph_alignment import graph_alignment
from titjudge.metrics.tit import lmm_score, tit_llm
from titjudge.metrics.yes_no import yes_no
from titjudge.providers.token_counts import image_tokens, text_tokens_estimate

PRICED_AS = ("openai", "gpt-4o")
METRICS = {
    "lmm-score": lmm_score,
    "tit-llm": tit_llm,
    "tit-llm, every box described": tit_llm,
    "yes-no": yes_no,
    "graph-alignment": graph_alignment,
    "tit-agent": tit_agent,
    "tit-agent, description, 64 looks": tit_agent.configured({"first_look": "description"}),
    "tit-agent, description, every box described": tit_agent.configured({"first_look": "description"}),
    "tit-agent, sight": tit_agent.configured({"first_look": "sight"}),
    "tit-agent-pairs, sight": tit_agent_pairs.configured({"first_look": "sight"}),
}
SHARPEST = 2.0  # pixels seen over pixels of the image, across: what more enlargement shows nothing of
WORDS = 300  # of a description: "between 250 and 350 words"
WHOLE: Box = (0, 0, 1, 1)
MARK = re.compile(r"#(\d+)=([01])")
LIBRARY = PromptLibrary()


class Pictures:
    """The images of a prompt, and what the eye makes of a box in a part of one."""

    def __init__(self, scene: ScenePlan, difficulty: int, pixels: int, folder: Path, *, perfect: bool = False) -> None:
        self.scene, self.template, self.pixels = scene, TEMPLATES[scene.asked.template], pixels
        self.perfect = perfect
        self.rung = self.template.rungs[difficulty]
        self.things = scene.asked.groups
        self.arrays = [self.template.picture(shown.scene, self.rung) for shown in scene.shown]
        self.wrong = [{error.element[0] for error in shown.errors} for shown in scene.shown]
        self.files = [folder / f"{pixels}-{level}.png" for level in LEVELS]
        for array, file in zip(self.arrays, self.files, strict=True):
            Image.fromarray(array).save(file, compress_level=1)
        self._seen: dict[Any, Any] = {}
        self._accepted: dict[Any, bool] = {}

    def number_of(self, claim: str) -> int:
        """Which box a claim is about: the one that its words name."""
        return next(number for number in range(len(self.things)) if self.sentence(number) in claim)

    def level_of(self, file: Path) -> int:
        """Which of the images a file is, or a part of."""
        cut = origin(file)
        return self.files.index(file if cut is None else cut.image)

    def place(self, number: int) -> Box:
        """Where a box lies, in fractions."""
        left, top, right, bottom = self.template.place(self.things[number], self.rung, self.scene.asked)
        height, width = self.arrays[0].shape[:2]
        return left / width, top / height, right / width, bottom / height

    def sentence(self, number: int) -> str:
        """What the prompt says of a box."""
        return self.template.sentence(self.things[number])

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
        if self.perfect:
            return thing.name not in self.wrong[level]
        level = level if thing.name in self.wrong[level] else 0
        key = level, number, part, self.sharpness(file)
        if key not in self._accepted:
            eye = eye_for(self.scene.asked, self.rung, key[3])
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
        left, top, right, bottom = self.template.inside(self.things[number], self.rung, self.scene.asked)
        return self._seen[level, part, eye.share][top - y : bottom - y, left - x : right - x]


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
class Scripted(ScriptedAsk):
    """An `ask` for one image."""

    pictures: Pictures
    level: int
    bill: Bill = field(default_factory=Bill)
    shared: Bill = field(default_factory=Bill)
    complete: bool = False  # a description mentions every box
    siblings: Sequence[Item] = ()
    paid: set[Any] = field(default_factory=set)  # what was asked, also about other images: it is asked once

    def book(self, template: str, schema: Any, given: dict[str, Any], text: str) -> None:
        prompt, images = LIBRARY.get(template), given.get("images", ())
        messages = prompt.messages({name: value for name, value in given.items() if name in prompt.variables})
        key = template, *(file.name for file in images), *(message.text for message in messages)
        if key in self.paid and template != "tit/compare":  # two images never have the same description
            return
        self.paid.add(key)
        sent = sum(text_tokens_estimate(message.text) for message in messages)
        sent += sum(image_tokens(*PRICED_AS, *_size(file)) for file in images)
        bill = self.shared if template == "agent/split" else self.bill
        bill.add(Bill(1, bool(images), sent, text_tokens_estimate(text)))

    # ------------------------------------------------------------------ what is seen

    def _report(self, number: int, files: Sequence[Path]) -> tuple[bool, int] | None:
        """Whether a box is as asked, by the picture that shows it largest, and which picture that is."""
        order = sorted(range(len(files)), key=lambda at: -self.pictures.sharpness(files[at]))
        for at in order:
            held = self.pictures.accepts(self.pictures.level_of(files[at]), number, files[at])
            if held is not None:
                return held, at
        return None

    def _held(self, number: int, files: Sequence[Path]) -> bool:
        report = self._report(number, files)
        return report is not None and report[0]

    def _says(self, number: int, files: Sequence[Path]) -> str:
        report = self._report(number, files)
        if report is None:
            return f"{self.pictures.things[number].name} is not in this part."
        words = self.pictures.sentence(number)
        return f"#{number}={report[0]:d} {words if report[0] else 'It is not so that: ' + words}"

    def _all(self) -> range:
        return range(len(self.pictures.things))

    def _tit_describe(self, given: Mapping[str, Any]) -> str:
        """Describe some boxes, in the words that the paper's instruction allows, or all of them."""
        words, said = 0, []
        for number in Random(self.pictures.scene.prompt_id).sample(self._all(), len(self._all())):
            said.append(self._says(number, given["images"]))
            words += len(said[-1].split())
            if words > WORDS and not self.complete:
                break
        return " ".join(said)

    def _agent_inventory(self, given: Mapping[str, Any]) -> str:
        places = {n: " ".join(f"{side:.0%}"[:-1] for side in self.pictures.place(n)) for n in self._all()}
        says = {number: self._says(number, given["images"]) for number in self._all()}
        return "\n".join(f"{number + 1}. {text} [{places[number]}]" for number, text in says.items())

    def _agent_zoom(self, given: Mapping[str, Any]) -> str:
        return " ".join(self._says(number, given["images"]) for number in _asked(given["question"]))

    def _agent_parts(self, given: Mapping[str, Any]) -> str:
        pairs = zip(given["images"], given["questions"], strict=True)
        reports = [self._agent_zoom({"images": [file], "question": text}) for file, text in pairs]
        return "\n".join(f"Picture {number}: {report}" for number, report in enumerate(reports, 1))

    def _tiif_questions_3(self, given: Mapping[str, Any]) -> str:
        held = [self._held(_asked(text)[0], given["images"]) for text in given["questions"]]
        return "\n".join("yes" if so else "no" for so in held)

    def _longt2ibench_align_graph(self, given: Mapping[str, Any]) -> str:
        held = [self._held(_asked(text)[0], given["images"]) for _, text in given["attributes"]]
        entities = [{"number": n, "seen": "there", "aligned": True} for n, _ in enumerate(given["entities"], 1)]
        attributes = [{"number": n, "seen": "so" if so else "not so", "aligned": so} for n, so in enumerate(held, 1)]
        return json.dumps({"entities": entities, "attributes": attributes, "relations": [], "summary": "Some differ."})

    def _lmm_score_rate(self, given: Mapping[str, Any]) -> str:
        held = [self._held(number, given["images"]) for number in self._all()]
        return json.dumps({"reason": "Some boxes are not as they should be.", "score": 100 * sum(held) / len(held)})

    def _agent_pair(self, given: Mapping[str, Any]) -> str:
        elements = {claim: self.pictures.number_of(words) for claim, words in _numbered(given["prompt"])}
        places = []
        for *pictures, claims in given["places"]:
            for claim in claims.split(", "):
                reports = [self._report(elements[claim], [given["images"][at - 1]]) for at in pictures]
                first, second = ["cannot_be_seen" if r is None else "met" if r[0] else "not_met" for r in reports]
                place = {
                    "claims": [int(claim)],
                    "first_seen": "all of them, in a row",
                    "second_seen": "not all of them",
                }
                places.append({**place, "first": first, "second": second})
        return json.dumps({"places": places})

    # ------------------------------------------------------------------ what is only text

    def _tit_compare(self, given: Mapping[str, Any]) -> str:
        held = [mark == "1" for _, mark in MARK.findall(given["description"])]
        wrong = [self.pictures.sentence(int(n)) for n, mark in MARK.findall(given["description"]) if mark == "0"]  # fmt: skip
        score = 100 * sum(held) / len(held)
        return json.dumps({"missing": [], "contradicted": wrong, "reason": "Some boxes differ.", "score": score})

    def _agent_split(self, given: Mapping[str, Any]) -> str:
        things = self.pictures.things
        return json.dumps(
            {"things": [{"thing": things[n].name, "span": self.pictures.sentence(n)} for n in self._all()]}
        )

    def _agent_orchestrate(self, given: Mapping[str, Any]) -> str:
        reports: dict[int, tuple[str, bool]] = {}
        for line in "\n".join(given["evidence"]).splitlines():
            for number, mark in MARK.findall(line):
                reports[int(number)] = (line.split()[0], mark == "1")
        return self._turn(given, reports)

    def _agent_see(self, given: Mapping[str, Any]) -> str:
        evidence = {int(number) - 1: line.partition(":")[0] for line in given["evidence"] for number in re.findall(r"picture (\d+)", line)}  # fmt: skip
        reports = {n: self._report(n, given["images"]) for n in self._all()}
        return self._turn(given, {n: (evidence[report[1]], report[0]) for n, report in reports.items() if report})

    def _turn(self, given: Mapping[str, Any], reports: Mapping[int, tuple[str, bool]]) -> str:
        """Settle what is reported, and look at the places of what is not, or is to be verified."""
        again = set(re.findall(r"\d+", given["verify"].partition("\n")[0]))
        met: dict[str, list[int]] = defaultdict(list)
        settle: list[Any] = []
        looks, sees, risky = [], "prompt" in given, set(re.findall(r"\d+", given.get("risky", "")))
        claims = dict(_numbered(given["prompt"]) if sees else (line.partition(". ")[::2] for line in given["claims"]))
        elements = {claim: self.pictures.number_of(words) for claim, words in claims.items()}
        wrong = [claim for claim, element in elements.items() if element in reports and not reports[element][1]]
        if sees and risky and len(wrong) <= given["places"]:
            risky.update(wrong)
        for claim, element in elements.items():
            name, held = reports.get(element, ("", False))
            unseen = not name or (claim in again and name.partition(".")[0] == "E1")
            if unseen or claim in risky:
                box = [*self._around(element)]
                looks.append(
                    box if sees else {"tool": "zoom", "question": f"What is in the box? #{element}", "box": box}
                )
            if unseen:
                continue
            if sees:
                settle.append(
                    f"{claim} | all of them, in a row | {'met' if held else 'not_met'}{f' | {name}' * (name != 'E1')}"
                )
            elif held:
                met[name.partition(".")[0]].append(int(claim))
            else:
                settle.append({"claims": [int(claim)], "verdict": "not_met", "evidence": name})
        settle += [{"claims": of, "verdict": "met", "evidence": name} for name, of in met.items()]
        thought = {} if sees else {"thought": "Some boxes are to be seen enlarged."}
        return json.dumps({**thought, "settle": settle, "looks": looks})

    def _around(self, number: int) -> Iterator[float]:
        box = self.pictures.place(number)
        for at, value in enumerate(box):
            yield round(min(1.0, max(0.0, value + (0.006 if at > 1 else -0.006))), 2)


def _numbered(prompt: str) -> Iterator[tuple[str, str]]:
    """Yield each claim of a numbered prompt, with the sentence before its number."""
    for words, claim in re.findall(r"([^\[\]]*)\[(\d+)\]", prompt):
        yield claim, re.split(r"(?<=[.!?]) ", words.strip())[-1]


def _asked(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"#(\d+)", text)]


def _size(file: Path) -> tuple[int, int]:
    with Image.open(file) as image:
        return image.size


def _item(pictures: Pictures, level: int, looks: int) -> Item:
    asked = [f"Is this true? {pictures.sentence(n)} #{n}" for n in range(len(pictures.things))]
    names = [thing.name for thing in pictures.things]
    says = [[thing.name, f"{pictures.sentence(n)} #{n}"] for n, thing in enumerate(pictures.things)]
    graph = {"entities": names, "attributes": says, "relations": []}
    meta = {"max_looks": looks, "graph": graph, "questions": asked, "gold_answers": ["yes"] * len(asked)}
    return Item("i", pictures.scene.prompt, pictures.files[level], "g", "p", meta)


def _verdicts(score: Score, ask: Scripted) -> dict[int, bool]:
    """What a score says of each box; of a metric without verdicts what the eye sees of the whole image."""
    rows = score.parts.get("claims")
    if isinstance(rows, list):
        return {ask.pictures.number_of(row["claim"]): row["verdict"] == "met" for row in rows}
    if "description" in score.parts:
        said = {int(n): mark == "1" for n, mark in MARK.findall(str(score.parts["description"]))}
        return {number: said.get(number, True) for number in ask._all()}
    file = [ask.pictures.files[ask.level]]
    return {number: ask._held(number, file) for number in ask._all()}


def measure(
    number: int,
    seed: int,
    difficulty: int,
    pixels: int,
    template: str = CABINET,
    metrics: Sequence[str] = tuple(METRICS),
    perfect: bool = False,
) -> dict[str, dict[str, Any]]:
    """What each metric says of the images of one prompt: scores by level, verdicts right and wrong, and the bill."""
    found: dict[str, dict[str, Any]] = {}
    scene = plan(Options(seed, ladder=difficulty, template=template), number, lambda *_: [])
    with tempfile.TemporaryDirectory() as folder:
        pictures = Pictures(scene, difficulty, pixels, Path(folder), perfect=perfect)
        for name in metrics:
            metric = METRICS[name]
            scores, bill, counts = [], Bill(), Counter[tuple[str, bool, bool]]()
            items = [_item(pictures, level, 64 if "64" in name else 8) for level in LEVELS]
            paid = set[Any]()
            for level in LEVELS:
                others = [item for item in items if item is not items[level]]
                ask = Scripted(pictures, level, complete="every box" in name, siblings=others, paid=paid)
                score = asyncio.run(metric(items[level], ask))  # type: ignore[arg-type]
                assert score.value is not None, score.reason
                scores.append(score.value)
                for box, met in _verdicts(score, ask).items():
                    right = pictures.things[box].name not in pictures.wrong[level]
                    counts[pictures.things[box].kind, right, met == right] += 1
                bill.add(ask.bill)
                bill.add(ask.shared)
            found[name] = {"scores": scores, "counts": counts, "bill": bill}
    return found


def _row(name: str, scenes: Sequence[Mapping[str, Any]], dollars_of_tit: float) -> tuple[str, float]:
    bill, images = Bill(), len(scenes) * len(LEVELS)
    for scene in scenes:
        bill.add(scene["bill"], 1 / images)
    below = [0.5 + 0.5 * float(np.sign(s["scores"][0] - s["scores"][1])) for s in scenes]
    pairs = [one > two for s in scenes for one, two in combinations(s["scores"], 2)]
    counts = sum((scene["counts"] for scene in scenes), Counter[tuple[str, bool, bool]]())
    found, wrong = (sum(n for (_, right, so), n in counts.items() if not right and so >= least) for least in (True, False))  # fmt: skip
    false, right = (sum(n for (_, held, so), n in counts.items() if held and so <= most) for most in (False, True))
    price = price_of(*PRICED_AS)
    assert price is not None
    dollars = 1000 * (bill.sent * price.input + bill.answered * price.output) / 1e6
    cells = [
        name, f"{np.mean(below):.0%}", f"{sum(pairs)} of {len(pairs)}", f"{found} of {wrong}", f"{false / right:.1%}",
        f"{bill.looks:.1f}", f"{bill.requests:.1f}",
        f"{bill.sent:,.0f}", f"{bill.answered:,.0f}", f"{dollars:.1f}", f"{dollars / (dollars_of_tit or dollars):.2f}",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |", dollars


def _element(scenes: Sequence[Mapping[str, Any]], kinds: Sequence[str]) -> float:
    """Mean of the share of right boxes of some kinds that are accepted and of wrong ones that are noticed."""
    counts = sum((scene["counts"] for scene in scenes), Counter[tuple[str, bool, bool]]())
    sides = [[sum(counts[kind, side, so] for kind in kinds) for so in (True, False)] for side in (True, False)]
    return float(np.mean([right / (right + wrong) for right, wrong in sides if right + wrong]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--difficulty", type=int, choices=tuple(SIZES), default=3)
    parser.add_argument("--template", choices=tuple(TEMPLATES), default=CABINET)
    parser.add_argument("--pixels", type=int, nargs="+", default=[768])
    parser.add_argument("--metrics", nargs="+", choices=tuple(METRICS), default=[*METRICS], metavar="NAME")
    parser.add_argument("--perfect", action="store_true")
    options = parser.parse_args()
    kinds = TEMPLATES[options.template].kinds
    head = (
        "| metric | one error below none | pairs in order | wrong found | false not met | looks | requests "
        "| tokens in | tokens out | USD per 1,000 | to tit-llm |"
    )
    metrics = list(dict.fromkeys(["tit-llm", *options.metrics]))
    for pixels in options.pixels:
        seen = "a perfect eye" if options.perfect else f"{pixels} pixels a look"
        print(
            f"{options.template}, difficulty {options.difficulty}, {options.scenes} prompts of {len(LEVELS)} images, {seen}"
        )
        print(f"{head}\n|{' --- |' * (head.count('|') - 1)}")
        with ProcessPoolExecutor() as pool:
            same = (options.seed, options.difficulty, pixels, options.template, metrics, options.perfect)
            scenes = list(pool.map(measure, range(options.scenes), *map(repeat, same)))
        _, dollars_of_tit = _row("tit-llm", [scene["tit-llm"] for scene in scenes], 0)
        for name in metrics:
            print(_row(name, [scene[name] for scene in scenes], dollars_of_tit)[0], flush=True)
        print(f"\n| element | {' | '.join(kinds)} |\n|{' --- |' * (len(kinds) + 1)}")
        for name in metrics:
            by_kind = [_element([scene[name] for scene in scenes], [kind]) for kind in kinds]
            print(f"| {name} | {' | '.join(f'{share:.0%}' for share in by_kind)} |", flush=True)


if __name__ == "__main__":
    main()
