"""When the agentic judge's looks pay: crowded scenes, and eyes of known error rates that see small things in a crop only.

    python -m benchmarks.agent_looks [--scenes N] [--mentioned SHARE] [--whole RATE] [--crop RATE] [--found SHARE] [--bulk RATE]

The scenes are those of `probe images --hard`, planned but not rendered: their content is known by construction. Eyes
that see the whole image report an element wrongly with the rate `--whole`, and a description mentions a share `--mentioned`
of them; eyes that see one tray report each of its elements, wrongly with the rate `--crop`. The metrics are the real ones.
"unverified" is tit-agent with an orchestrator that does not look at verdicts of the description once more.

"sight" is a judge that sees the image and knows the claims. Of the wrong elements that are easily misread (a count above six), it
takes a share `--bulk` to be met when it goes through all claims at once. "wrong found": share of the wrong elements with the verdict
"not met" at the end. "errors among met": of the wrong elements whose first verdict is "met", the share that ends as "not met".

These orchestrators know where each tray is. One that does not asks the eyes first where the things are ("asks where"), or reads the
places that a detector proposes ("detector"). Both are told the true edges, as an ideal detector would find them; `--found` is the share of
things that the detector finds, and the orchestrator asks for the others. A request to the detector is not among the pictures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.scripted_ask import ScriptedAsk
from titjudge.apps.scenes import annotation
from titjudge.apps.scenes.crowd import COLUMNS, ROWS
from titjudge.apps.scenes.generate import ScenePlan, plan
from titjudge.apps.scenes.scene import LEVELS, Options
from titjudge.core.types import Item, Score
from titjudge.metrics.agent.claims import Split, check_claims
from titjudge.metrics.agent.looks import place_of
from titjudge.metrics.agent.metric import tit_agent
from titjudge.metrics.tit import lmm_score, tit_llm

METRICS = {
    "lmm-score": lmm_score, "tit-llm": tit_llm, "tit-agent": tit_agent, "unverified": tit_agent, "asks where": tit_agent,
    "detector": tit_agent, "sight": tit_agent.configured({"first_look": "sight"}),
}  # fmt: skip
LOOKS = 16  # at an image: the description, and one at each tray
MARK = re.compile(r"#(\d+)=([01])")
TRAY = re.compile(r"tray (\d) (\d)")


class Scripted(ScriptedAsk):
    """An `ask` for one image: answers follow from the truth of the image, the rates and the draw."""

    def __init__(
        self, scene: ScenePlan, level: int, rates: argparse.Namespace, orchestrator: str = "tit-agent"
    ) -> None:
        found = annotation.marks(scene.graph, scene.shown[level].scene)
        assert found is not None
        self.scene, self.rates, self.truth = scene, rates, found.all()
        self.verifies, self.orchestrator = orchestrator != "unverified", orchestrator
        self.rng = Random(f"{scene.prompt_id}/{level}")
        self.whole = [self._seen(number, rates.whole) for number in range(len(self.truth))]
        self.mentioned = [number for number in range(len(self.truth)) if self.rng.random() < rates.mentioned]
        things = scene.asked.things
        names = [*scene.graph.entities, *(name for name, each in scene.graph.attributes.items() for _ in each)]
        self.about = [*names, *(a for a, _, _ in scene.graph.relations)]
        entities, attributes = len(scene.graph.entities), len(names)
        self.words = [
            *["" for _ in scene.graph.entities],
            *(f"{key}: {value}" for each in scene.graph.attributes.values() for key, value in each.items()),
            *(f"{relation} {other}" for _, relation, other in scene.graph.relations),
        ]
        self.kinds = ["entity" if n < entities else "attribute" if n < attributes else "relation" for n in range(len(self.truth))]  # fmt: skip
        self.trays = {(ROWS.index(thing.row), COLUMNS.index(thing.column)): thing.name for thing in things}
        self.asked = Counter[str]()

    def _seen(self, number: int, rate: float) -> bool:
        return self.truth[number] != (self.rng.random() < rate)

    def book(self, template: str, schema: Any, given: dict[str, Any], text: str) -> None:
        if template != "agent/locate":
            self.asked["with a picture" if given.get("images") else "of texts"] += 1

    def _tit_describe(self, given: Any) -> str:
        return " ".join(f"#{number}={self.whole[number]:d}" for number in self.mentioned)

    def _tit_compare(self, given: Any) -> str:
        held = [self.whole[number] for number in self.mentioned]
        return json.dumps(
            {"missing": [], "contradicted": [], "reason": "", "score": 100 * sum(held) / max(1, len(held))}
        )

    def _lmm_score_rate(self, given: Any) -> str:
        return json.dumps({"reason": "", "score": 100 * sum(self.whole) / len(self.whole)})

    def _agent_split(self, given: Any) -> str:
        claims = [
            {"claim": f"#{n} {name} {self.words[n]}".strip(), "kind": kind, "level": "macro" if kind == "entity" else "micro", "things": [name], "span": name}
            for n, (name, kind) in enumerate(zip(self.about, self.kinds, strict=True))
        ]  # fmt: skip
        listed = check_claims(Split.model_validate({"claims": claims}).listed(), self.scene.prompt).claims
        self.elements = {claim.number: (int(re.findall(r"#(\d+)", claim.text)[0]), claim.risk) for claim in listed}
        return json.dumps({"claims": claims})

    def _agent_see(self, given: Any) -> str:
        """Settle the numbered claims, and look at the trays of risky and of wrong ones; later by the enlarged trays."""
        asked = {int(number) for marks in re.findall(r"\[([\d, ]+)\]", given["prompt"]) for number in marks.split(", ")}
        trays = dict(re.findall(r"^(E\d+): .*its part (\[.*?\])", "\n".join(given["evidence"]), re.MULTILINE))
        where = {name: _box(place) for place, name in self.trays.items()}
        risky = {int(number) for number in re.findall(r"\d+", given["risky"])}
        again = {int(number) for number in re.findall(r"\d+", given["verify"].partition("\n")[0])}
        settle, looks, wrong = [], [], []
        for number in sorted(asked):
            element, risk = self.elements[number]
            box = where.get(self.about[element])
            seen = next(
                (name for name, tray in trays.items() if box and tray == place_of((box[0], box[1], box[2], box[3]))), ""
            )
            if seen:
                held = self._seen(element, self.rates.crop)
            else:
                bulk = risk and not self.truth[element] and self.rng.random() < self.rates.bulk
                held = bool(bulk) or self.whole[element]
                wrong += [number] * (not held)
            if number in again and not seen and box:
                looks.append(box)
            else:
                settle.append(f"{number} | as it is | {'met' if held else 'not_met'}{f' | {seen}' * bool(seen)}")
        if risky:
            places = [where.get(self.about[self.elements[number][0]]) for number in wrong]
            looks += [box for box in places if box] if len({*map(str, places)}) <= given["places"] else []
            looks += [box for number in risky if (box := where.get(self.about[self.elements[number][0]]))]
        return json.dumps({"settle": settle, "looks": [box for n, box in enumerate(looks) if box not in looks[:n]]})

    def has_role(self, role: str) -> bool:
        return role == "detector" and self.orchestrator == "detector"

    def _agent_locate(self, given: Any) -> str:
        boxes = [
            {"name": name.casefold(), "box": _box(place), "score": 0.9}
            for place, name in self.trays.items()
            if self.rng.random() < self.rates.found
        ]
        return json.dumps({"boxes": boxes})

    def _agent_ask(self, given: Any) -> str:
        """Say where each thing is that is asked for: `tray 0 1: [0.25, 0, 0.5, 0.333]`."""
        trays = [(int(row), int(column)) for row, column in TRAY.findall(given["question"])]
        return " ".join(f"tray {place[0]} {place[1]}: {_box(place)}" for place in trays)

    def _known(self, evidence: list[str]) -> set[tuple[int, int]]:
        """The trays whose edges an orchestrator knows: by itself, or from what it has read."""
        if self.orchestrator not in ("asks where", "detector"):
            return {*self.trays}
        told = {(int(row), int(column)) for line in evidence for row, column in re.findall(r"tray (\d) (\d): \[", line)}
        proposed = "".join(line for line in evidence if line.startswith("places proposed by a detector"))
        return told | {place for place, name in self.trays.items() if f" {name.casefold()} [" in proposed}

    def _agent_orchestrate(self, given: Any) -> str:
        settle, places = [], set[tuple[int, int]]()
        where = {name: place for place, name in self.trays.items()}
        again = set(re.findall(r"\d+", given["verify"])) if self.verifies else set[str]()
        for line in given["claims"]:
            number, element = map(int, re.findall(r"^(\d+)\..*#(\d+)", line)[0])
            reports = [(e.split()[0], mark == "1") for e in given["evidence"] for k, mark in MARK.findall(e) if int(k) == element]  # fmt: skip
            if reports and str(number) in again and reports[-1][0] == "E1" and self.about[element] in where:
                places.add(where[self.about[element]])
            elif reports:
                evidence, held = reports[-1]
                settle.append({"claims": [number], "verdict": "met" if held else "not_met", "evidence": evidence})
            elif self.about[element] in where:
                places.add(where[self.about[element]])
        known = self._known(given["evidence"])
        zooms = [{"tool": "zoom", "question": f"What is on tray {r} {c}?", "box": _box((r, c))} for r, c in sorted(places & known)]  # fmt: skip
        asks = [{"tool": "ask", "question": f"Where are the edges of tray {r} {c}?"} for r, c in sorted(places - known)]
        return json.dumps({"settle": settle, "looks": [*asks, *zooms[:6]]})

    def _agent_parts(self, given: Any) -> str:
        reports = [self._agent_zoom({"question": question}) for question in given["questions"]]
        return "\n".join(f"Picture {number}: {report}" for number, report in enumerate(reports, 1))

    def _agent_zoom(self, given: Any) -> str:
        row, column = map(int, TRAY.findall(given["question"])[0])
        name = self.trays[row, column]
        return " ".join(f"#{n}={self._seen(n, self.rates.crop):d}" for n, each in enumerate(self.about) if each == name)


def _box(place: tuple[int, int]) -> list[float]:
    row, column = place
    return [column / 4, row / 3, (column + 1) / 4, (row + 1) / 3]


def measure(
    rates: argparse.Namespace, errors: dict[str, Counter[str]] | None = None
) -> dict[str, tuple[list[float], float, float]]:
    """For each metric the share of level 1, 2 and 3 that is below level 0, and requests an image: pictures and texts.

    `errors` gets for each agent the number of wrong elements, of those found, and of those that were at first met, or wrongly not met.
    """
    found = {}
    scenes = [plan(Options(1, hard=True), number, lambda *_: []) for number in range(rates.scenes)]
    with tempfile.TemporaryDirectory() as folder:
        from PIL import Image

        image = Path(folder) / "blank.png"
        Image.new("RGB", (768, 768)).save(image)
        for name, metric in METRICS.items():
            below, asked = [0.0, 0.0, 0.0], Counter[str]()
            for scene in scenes:
                values = []
                for level in LEVELS:
                    ask = Scripted(scene, level, rates, name)
                    meta = {"max_looks": LOOKS} if metric is tit_agent else {}
                    score = asyncio.run(metric(Item("i", scene.prompt, image, "g", "p", meta), ask))  # type: ignore[arg-type]
                    assert score.value is not None, score.reason
                    values.append(score.value)
                    asked += ask.asked
                    if errors is not None and "claims" in score.parts:
                        errors.setdefault(name, Counter()).update(_errors(score, ask))
                for level in (1, 2, 3):
                    below[level - 1] += (values[level] < values[0]) + 0.5 * (values[level] == values[0])
            images = len(scenes) * len(LEVELS)
            found[name] = ([each / len(scenes) for each in below], asked["with a picture"] / images, asked["of texts"] / images)  # fmt: skip
    return found


def _errors(score: Score, ask: Scripted) -> Counter[str]:
    counts = Counter[str]()
    for row in score.parts["claims"]:
        right = ask.truth[int(re.findall(r"#(\d+)", row["claim"])[0])]
        at_first, at_last = (row["before"][0][0] if row["before"] else row["verdict"]), row["verdict"]
        counts["right" if right else "wrong"] += 1
        counts["false not met"] += right and at_last == "not_met"
        counts["found"] += not right and at_last == "not_met"
        counts["among met"] += not right and at_first == "met"
        counts["mended"] += not right and at_first == "met" and at_last == "not_met"
        easily = not right and at_first == "met" and ask.elements[row["number"]][1] > 0
        counts["easily misread"] += easily
        counts["easily misread, mended"] += easily and at_last == "not_met"
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=60)
    parser.add_argument("--mentioned", type=float, default=0.5)
    parser.add_argument("--whole", type=float, default=0.1)
    parser.add_argument("--crop", type=float, default=0.01)
    parser.add_argument("--found", type=float, default=1.0)
    parser.add_argument("--bulk", type=float, default=0.5)
    errors: dict[str, Counter[str]] = {}
    print("metric      below level 0: level 1   level 2   level 3   pictures   texts (an image)")
    for name, (below, pictures, texts) in measure(parser.parse_args(), errors).items():
        print(f"{name:12}{below[0]:22.0%}{below[1]:10.0%}{below[2]:10.0%}{pictures:11.1f}{texts:8.1f}")
    print("agent       wrong found   errors among met   of these easily misread   false not met")
    for name, n in errors.items():
        mended = f"{n['mended']} of {n['among met']}"
        easily = f"{n['easily misread, mended']} of {n['easily misread']}"
        print(
            f"{name:12}{n['found'] / n['wrong']:11.1%}{mended:>19}{easily:>26}{n['false not met'] / n['right']:16.1%}"
        )


if __name__ == "__main__":
    main()
