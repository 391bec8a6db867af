"""A part of the study: the board of one judge of edits is carried to another by `compare bridge`, and held against what that one says.

Of the editors that both judges have scored, two are hidden from the new judge's table in turn; the command estimates their
scores from the old judge's.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ceiling import Image
from benchmarks.edit_replies import TASKS, replies_of, scores_of
from benchmarks.study_edits import NO, RETIRED
from benchmarks.study_page import Found, table
from titjudge.cli.commands import run_command

HIDDEN = 2  # editors
SUCCESSORS = ("gpt4o_1shot", "gemini_0shot", "gemini_1shot", "gpt4v_0shot", "qwenvl_1shot")


def write_scores(file: Path, scores: Mapping[Image, float], editors: Collection[str]) -> None:
    """Write a table of scores of edits as `compare bridge` reads them."""
    with file.open("w", newline="", encoding="utf-8") as lines:
        rows = csv.writer(lines)
        rows.writerow(["prompt_id", "generator", "score"])
        rows.writerows([edit, editor, value] for (editor, edit), value in sorted(scores.items()) if editor in editors)


def bridged(old: Path, new: Path) -> dict[str, Any]:
    """Run `compare bridge` on two tables, and return what it writes as JSON.

    Raises:
        ValueError: It finds no bridge; what it said.
    """
    said, out = io.StringIO(), new.with_suffix(".json")
    asked = ["compare", "bridge", str(old), str(new), "--json", str(out)]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        if run_command("python cli.py", asked):
            raise ValueError(said.getvalue().strip())
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return found


def edit_bridge(given: argparse.Namespace) -> Found:
    """Carry the board of text-guided edits from one judge to others."""
    scores = {name: scores_of(replies)["overall"] for name, replies in replies_of(given.viescore, TASKS[0]).items()}
    if RETIRED not in scores:
        sys.exit(f"there are no replies of {RETIRED}")
    rows = [_row(name, scores[RETIRED], scores[name]) for name in SUCCESSORS if name in scores]
    columns = (
        f"{RETIRED} carried to", "bridges", "no bridge", "hidden editors within their interval", "missed", "half-width, median",
        "error with bridge, mean", "without", "hidden pairs in the new judge's order",
    )  # fmt: skip
    editors = sorted({editor for editor, _ in scores[RETIRED]})
    return table(
        columns, rows
    ) + f"\n\n{len(editors)} editors, scores from 0 to 10, {HIDDEN} editors hidden at a time.", {}


@dataclass(frozen=True, slots=True)
class Hidden:
    """An editor that was hidden from the new judge's table.

    Attributes:
        interval: What the bridge predicts, with 95%.
        carried: The score that the bridge gives.
        measured: What the new judge says.
        before: What the old judge said.
    """

    editor: str
    interval: tuple[float, float]
    carried: float
    measured: float
    before: float

    @property
    def held(self) -> bool:
        """Whether what the new judge says lies in the interval."""
        return self.interval[0] <= self.measured <= self.interval[1]


def replay(old: Mapping[Image, float], new: Mapping[Image, float]) -> tuple[list[list[Hidden]], int]:
    """Hide every two editors in turn; returns those of each bridge, and how often there was none."""
    editors = sorted({editor for editor, _ in old} & {editor for editor, _ in new})
    before, measured = (
        {editor: float(np.mean([v for (own, _), v in scores.items() if own == editor])) for editor in editors}
        for scores in (old, new)
    )
    found, none = [], 0
    with tempfile.TemporaryDirectory() as place:
        tables = Path(place) / "old.csv", Path(place) / "new.csv"
        write_scores(tables[0], old, editors)
        for hidden in combinations(editors, HIDDEN):
            write_scores(tables[1], new, set(editors) - set(hidden))
            try:
                told = {each["generator"]: each for each in bridged(*tables)["generators"]}
            except ValueError:
                none += 1
                continue
            found.append([
                Hidden(name, tuple(told[name]["interval"]), told[name]["score"], measured[name], before[name])
                for name in hidden
            ])  # fmt: skip
    return found, none


def _row(name: str, old: Mapping[Image, float], new: Mapping[Image, float]) -> list[str]:
    bridges, none = replay(old, new)
    every = [each for pair in bridges for each in pair]
    if not every:
        return [name, "0", str(none), *[NO] * 6]
    missed = Counter(each.editor for each in every if not each.held)
    ordered = sum((a.carried - b.carried) * (a.measured - b.measured) > 0 for a, b in bridges)
    return [
        name, str(len(bridges)), str(none), f"{sum(each.held for each in every)} of {len(every)}",
        ", ".join(f"{editor} {count}" for editor, count in missed.most_common()),
        f"{np.median([(each.interval[1] - each.interval[0]) / 2 for each in every]):.2f}",
        f"{np.mean([abs(each.carried - each.measured) for each in every]):.2f}",
        f"{np.mean([abs(each.before - each.measured) for each in every]):.2f}", f"{ordered} of {len(bridges)}",
    ]  # fmt: skip
