"""How often the trust card catches judges with a known flaw, and one without: scripted judges through `probe` itself.

    python -m benchmarks.planted_judges            # about ten minutes of processor time
    python -m benchmarks.planted_judges --quick    # a fifth of the cards
    python -m benchmarks.planted_judges --write    # and puts the table into docs/measurements/judges.md

The known answers are those of the bundled example, each prompt once (6 prompts) or twice (12), its images small. All judges
take a third of their span off for each level of errors in the image and a tenth of it for an error planted in the prompt (a
quarter for several); each score has a normal noise of its own.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from unittest import mock

from PIL import Image

from benchmarks.coverage import PAGE, fill
from titjudge.core.config import RunConfig
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Ask, Item, Score
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.metrics import Metric, metric
from titjudge.probes import battery, probe
from titjudge.probes.prompt_edits import KINDS
from titjudge.probes.trust_card import CAUGHT, PASS
from titjudge.providers.fake import Fake
from titjudge.report.card_record import CardRecord as Card

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "known_answer"
PART = re.compile(
    r"(<!-- measured: python -m benchmarks\.planted_judges --write -->\n).*?(<!-- end measured -->)", re.DOTALL
)
SPAN = 60.0  # points between an image without errors and one with the most
COUNTS = "wrong count"


@dataclass(frozen=True, slots=True)
class Judge:
    """A scripted judge.

    Attributes:
        noise: Standard deviation of a score, in spans.
        sees: Tells of (kind of error, place in the prompt from 0 to 1) whether the judge sees it.
        lines: The lines of the card that should catch it.
        coin: Whether it guesses.
    """

    name: str
    noise: float
    sees: Callable[[str, float], bool] = lambda kind, place: True
    lines: tuple[str, ...] = ()
    coin: bool = False


def _but_counts(kind: str, place: float) -> bool:
    return kind != COUNTS


def _first_half(kind: str, place: float) -> bool:
    return place < 0.5


FOUND = "share of errors found out"
REPEATED = "difference between repeated answers"
EVERY = tuple(f"{kind}, {FOUND}" for kind in KINDS)
JUDGES = (
    Judge("clean", 0.04),
    Judge("noisy: .1 of its span a score", 0.1, lines=(REPEATED,)),
    Judge("noisy: .2 of its span a score", 0.2, lines=(REPEATED,)),
    Judge("blind to counts", 0.04, _but_counts, (f"{COUNTS}, {FOUND}",)),
    Judge("blind to counts, noise .1", 0.1, _but_counts, (f"{COUNTS}, {FOUND}",)),
    Judge("ignores the second half", 0.04, _first_half, (f"second half of the prompt, {FOUND}",)),
    Judge("ignores the second half, noise .1", 0.1, _first_half, (f"second half of the prompt, {FOUND}",)),
    Judge("a coin", 0.2, lines=EVERY, coin=True),
)


def known_answers(folder: Path, copies: int) -> Path:
    """Write the example into `folder`, each prompt `copies` times, with images of 32 pixels."""
    (folder / "images").mkdir(parents=True)
    for name in ("prompts", "images", "pairs"):
        rows = [json.loads(row) for row in (EXAMPLE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
        made = []
        for copy in range(copies):
            for row in rows:
                files = {
                    key: value.replace("images/", f"images/{copy}-")
                    for key, value in row.items()
                    if isinstance(value, str) and value.startswith("images/")
                }
                made.append({**row, "prompt_id": f"{row['prompt_id']}-{copy}", **files})
                if name == "images":
                    with Image.open(EXAMPLE / row["image"]) as image:
                        image.resize((32, 32)).save(folder / files["image"])
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")
    return folder


def scripted(judge: Judge, prompts: dict[str, str], seed: int) -> Metric:
    """Make the metric of a judge; the same seed gives the same scores."""

    async def score(item: Item, ask: Ask) -> Score:
        """Score as the judge does."""
        what, _, how = item.id.partition("#")
        key = f"{seed}/{what}/{how}/{item.prompt}"
        noise = Random(hashlib.sha256(key.encode()).digest()).gauss(0.0, SPAN * judge.noise)
        if judge.coin:
            return Score.of(min(100.0, max(0.0, 50.0 + noise)))
        value = 90.0 - SPAN / 3 * item.meta["level"] + noise
        kind = next((kind for kind in KINDS if how.startswith(kind)), "")
        if kind and judge.sees(kind, battery.place(prompts[item.prompt_id], item.prompt)):
            value -= SPAN * (0.25 if "several" in how else 0.1)
        return Score.of(min(100.0, max(0.0, value)))

    return metric("planted", roles=("captioner",), range=(0, 100))(score)


async def card_of(judge: Judge, data: Path, work: Path, seed: int) -> Card:
    """Probe a judge."""
    config = RunConfig.model_validate({"captioner": "fake/none"})
    engine = Engine(Roles(config, make=lambda role: Fake()), PromptLibrary())
    rows = [json.loads(row) for row in (data / "prompts.jsonl").read_text(encoding="utf-8").splitlines()]
    prompts = {row["prompt_id"]: row["prompt"] for row in rows}
    try:
        return await probe.probe(engine, "planted", scripted(judge, prompts, seed), data, work)
    finally:
        await engine.aclose()


def cards(judge: Judge, copies: int, number: int, folder: Path) -> list[Card]:
    """Probe a judge `number` times, with other noise each time.

    Which errors can be planted, and what the changed images look like, does not depend on the judge: it is made once.
    """
    data = folder / f"known-{copies}"
    if not data.is_dir():
        known_answers(data, copies)
    with (
        mock.patch.object(battery, "sensitivity", _once(battery.sensitivity)),
        mock.patch.object(battery, "changed_images", _once(battery.changed_images)),
    ):
        return [asyncio.run(card_of(judge, data, folder / f"work-{copies}", seed)) for seed in range(number)]


def _once(function: Callable[..., list[battery.Test]]) -> Callable[..., list[battery.Test]]:
    known: dict[tuple[str, ...], list[battery.Test]] = {}

    @functools.wraps(function)
    def once(items: list[Item], *rest: object) -> list[battery.Test]:
        key = tuple(item.id for item in items)
        if key not in known:
            known[key] = function(items, *rest)
        return known[key]

    return once


def row(judge: Judge, made: list[Card]) -> tuple[str, ...]:
    """Tabulate the cards of a judge: those that catch its flaw, those on which another line is caught, and what passes."""
    own = [[line for line in card.lines if line.name in judge.lines] for card in made]
    rightly = {*judge.lines, *([REPEATED] if judge.noise > battery.ROBUST else [])}
    others = [any(line.verdict == CAUGHT and line.name not in rightly for line in card.lines) for card in made]
    caught = sum(any(line.verdict == CAUGHT for line in lines) for lines in own)
    passed = sum(line.verdict == PASS for lines in own for line in lines)
    number = sum(map(len, own))
    return (
        f"{caught} of {len(made)}" if judge.lines else "-",
        f"{passed} of {number}" if judge.lines else "-",
        f"{sum(others)} of {len(made)}",
    )


def main() -> None:
    """Print the table."""
    quick = "--quick" in sys.argv[1:]
    started = time.process_time()
    columns = ("judge", "prompts", "caught in its flaw", "of these lines pass", "any other line caught")
    lines = [f"| {' | '.join(columns)} |", "| --- | --- | --- | --- | --- |"]
    print("\n".join(lines), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for judge in JUDGES:
            for copies in (1, 2):
                number = 200 if judge.name == "clean" and copies == 2 else 20
                made = cards(judge, copies, number // 5 if quick else number, Path(folder))
                lines.append(f"| {' | '.join((judge.name, str(6 * copies), *row(judge, made)))} |")
                print(lines[-1], flush=True)
    print(f"the processor worked {time.process_time() - started:.0f} s")
    if "--write" in sys.argv[1:]:
        fill(PAGE.with_name("judges.md"), PART, "\n".join(lines))


if __name__ == "__main__":
    main()
