"""The study of docs/measurements/study.md and docs/measurements/study-edits.md: which judges agree with people, what they cost, and what a verdict takes.

    python -m benchmarks.study [PART ...] [--viescore CHECKOUT] [--genai CHECKOUT] [--human FILE] [--tiif CHECKOUT] [--write | --check]

Parts are judges, prompts, two-judges and price, and of edits edit-judges, edit-votes, edit-failures, edit-bridge and edit-parity. Each is computed from public data that are not part of this project; a
part whose data are not named is skipped, and said to be. `--write` puts tables and figures into docs/, `--check` ends with
exit code 1 where they are not what docs/ has. Nothing is asked over the network.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np

from benchmarks import ceiling
from benchmarks.study_edit_bridge import edit_bridge
from benchmarks.study_edit_failures import edit_failures
from benchmarks.study_edit_votes import edit_votes
from benchmarks.study_edits import edit_judges, edit_parity
from benchmarks.study_page import Found, figure, judges_figure, percent, rule, standalone, table
from benchmarks.verdicts import HUMAN
from titjudge.core.types import Pair
from titjudge.runs.study.score_files import read_scores
from titjudge.stats.bootstrap import Floats, Interval
from titjudge.stats.generators.generator_differences import generator_differences
from titjudge.stats.generators.planning import prompts_needed
from titjudge.stats.generators.sequential import OPEN, replay_pairs
from titjudge.stats.pairwise_accuracy import Values, pair_index, pairwise_accuracy
from titjudge.stats.scores.scores_table import Entry, ScoreTable, score_table

DOCS = Path(__file__).resolve().parents[1] / "docs" / "measurements"
PART = re.compile(
    r"(<!-- measured: python -m benchmarks\.study ([\w-]+)[^\n]* -->\n).*?(<!-- end measured -->)", re.DOTALL
)
MODELS = ("openai/gpt-4o", "openai/gpt-6-luna", "gemini/gemini-3.8-flash")  # of the price
TREES = "eval-results/testmini_subset_eval_results/testmini_subset_eval_results_"
LEVEL, POWER, FOLDS, DIVISIONS, ORDERS, ENDLESS = 0.05, 0.8, 5, 20, 20, 10_000
GAPS = (0.0, 0.02, 0.05, 0.1, 0.2, 1.0)
Calls = dict[tuple[str, str], float]  # two generators -> 1 or -1: which is better; 0: these prompts cannot tell


def calls(scores: ScoreTable) -> Calls:
    """Say of every two generators which is better: p below .05 after Holm, over all pairs of the table."""
    return {
        (each.a, each.b): math.copysign(1, each.difference) if (each.p_adjusted or 0) < LEVEL else 0.0
        for each in generator_differences(scores)
        if each.difference is not None and each.p_adjusted is not None
    }


def power_prompts(scores: ScoreTable, names: tuple[str, str], sign: float = 0.0) -> float:
    """How many prompts show the difference found with power 80%; infinity where its sign is not the wanted one."""
    d = scores.differences(*map(scores.column, names))
    gap = float(d.mean()) if len(d) > 1 else 0.0
    return prompts_needed(float(d.var(ddof=1)), gap, POWER) if gap and gap * (sign or gap) > 0 else math.inf


def typical(counts: Sequence[float]) -> str:
    """Write the median of numbers of prompts, those without end among them."""
    middle = float(np.median(counts)) if counts else math.inf
    return f"{middle:,.0f}" if middle < ENDLESS else "no end"


def chosen_elsewhere(pairs: Sequence[Pair], columns: Mapping[str, Values], size: int) -> float:
    """Agreement of the mean of `size` judges that were chosen on other prompts, over several divisions; equal scores count half."""
    index = pair_index(pairs)
    scores = np.array([index.scores(column) for column in columns.values()])
    gaps = scores[:, index.a] - scores[:, index.b]
    right = np.stack([
        (np.sign(gaps[list(some)].mean(axis=0).round(9)) * index.preference + 1) / 2
        for some in combinations(range(len(gaps)), size)
    ])  # fmt: skip
    rng, credit = np.random.default_rng(0), []
    for _ in range(DIVISIONS):
        fold = rng.permutation(len(index.groups))[index.group] % FOLDS
        for k in range(FOLDS):
            best = int(np.argmax(right[:, fold != k].mean(axis=1)))
            credit.append(right[best, fold == k])
    return float(np.concatenate(credit).mean())


def judges(given: argparse.Namespace) -> Found:
    """Judges with published replies, pools of them and single people, against people's ratings of ImagenHub."""
    rated = ceiling.ratings(given.viescore)
    images = sorted(rated)
    people = np.array([rated[image] for image in images])
    truth = people.mean(axis=1)
    pairs = ceiling.pairs_of(images, truth)
    told, filled = ceiling.replies(given.viescore), ceiling.answers(given.viescore, images)

    def scored(column: Sequence[float | None]) -> ScoreTable:
        entries = [
            Entry(p, g, f"{g}/{p}", None if v is None else float(v)) for (g, p), v in zip(images, column, strict=True)
        ]
        return score_table(entries, metric="rating", source="ImagenHub")

    gold = calls(scored(truth.tolist()))
    known = {pair: sign for pair, sign in gold.items() if sign}
    rows, drawn = [], []

    def add(name: str, columns: Sequence[Floats], share: str, own: ScoreTable) -> None:
        found = pairwise_accuracy(pairs, ceiling.named(images, columns[0]))
        verdicts = calls(own)
        same, opposite = (sum(verdicts.get(pair, 0.0) == way * sign for pair, sign in known.items()) for way in (1, -1))
        prompts = typical([power_prompts(own, pair, sign) for pair, sign in known.items()])
        agreement = found.half_credit_accuracy or 0.0
        decided = found.correct / (found.correct + found.wrong) if found.correct + found.wrong else 0.5
        drawn.append((name, agreement, found.half_credit_interval or (agreement, agreement)))
        rows.append([
            name, share, f"{percent(found.tie_rate or 0.0)} / {percent(decided)}", percent(agreement, found.half_credit_interval),
            "{:+.1f} [{:+.1f},\u00a0{:+.1f}]".format(*(100 * each for each in _flat(ceiling.against_two(images, people, columns)))),
            f"{same} / {opposite}", prompts,
        ])  # fmt: skip

    for name, column in filled.items():
        own = scored([told[name].get(image) for image in images])
        share = percent(sum(image in told[name] for image in images) / len(images))
        add("CLIPScore" if name == "autometrics" else name, [column] * 3, share, own)
    mean = np.mean([filled[name] for name in ceiling.THREE], axis=0)
    add("mean of three", [mean] * 3, "", scored(mean.tolist()))
    order = sorted(range(len(rows)), key=lambda k: -drawn[k][1])
    rows, drawn = [rows[k] for k in order], [drawn[k] for k in order]
    single = [
        ceiling.accuracy(images, np.delete(people, k, axis=1).mean(axis=1), people[:, k])
        for k in range(people.shape[1])
    ]
    named = {name: ceiling.named(images, column) for name, column in filled.items()}
    alone, three = (chosen_elsewhere(pairs, named, size) for size in (1, 3))
    columns = (
        "judge", "images scored", "equal pairs / right of the others", "pairs as people [95%]", "minus one person, points [95%]",
        f"verdicts of {len(known)}: same / opposite", "prompts",
    )  # fmt: skip
    ours = [power_prompts(scored(truth.tolist()), pair) for pair in known]
    text = table(columns, rows) + (
        f"\n\n{len(images)} images, {len({p for _, p in images})} prompts, {len(pairs):,} pairs on which the mean rating differs. "
        f"One person orders {', '.join(percent(each) for each in sorted(single))} of pairs as the mean of the other two does. "
        f"Chosen on other prompts ({FOLDS} folds, mean of {DIVISIONS} divisions): the best judge {percent(alone)}, the best mean of three {percent(three)}. "
        f"The three raters together tell {len(known)} of {len(gold)} pairs of generators apart; their own *prompts*: {typical(ours)}."
    )  # fmt: skip
    return text, {"study-judges.svg": judges_figure(drawn, single)}


def _flat(found: tuple[float, Interval | None]) -> tuple[float, float, float]:
    value, interval = found
    return value, *(interval or (value, value))


def prompts(given: argparse.Namespace) -> Found:
    """How many prompts tell two generators apart, by how far apart people's marks put them."""
    scores = read_scores(given.human, "yes_no", bounds=(0.0, 1.0))
    pairs = list(combinations(scores.generators, 2))
    replayed = replay_pairs(scores, pairs, repeat=ORDERS, seed=5)
    spots = []
    for k, pair in enumerate(pairs):
        gap = abs(float(scores.differences(*map(scores.column, pair)).mean()))
        own = replayed[ORDERS * k : ORDERS * (k + 1)]
        used, stayed = np.mean([each.used for each in own]), np.mean([each.verdict == OPEN for each in own])
        spots.append((gap, power_prompts(scores, pair), float(used), float(stayed)))
    rows, most = [], len(scores.prompts)
    for low, high in pairwise(GAPS):
        some = np.array([each for each in spots if low <= each[0] < high])
        if len(some):
            fixed = float(np.median(some[:, 1]))
            shown = f"{fixed:,.0f}" if fixed <= 100 * most else f"more than {100 * most:,}"
            name = f"{100 * low:.0f} to {100 * high:.0f}" if high < 1 else f"{100 * low:.0f} and more"
            rows.append(
                [name, str(len(some)), shown, f"{np.median(some[:, 2]):,.0f}", percent(float(some[:, 3].mean()))]
            )
    columns = (
        "difference, points of 100",
        "pairs of generators",
        "planned, power 80%",
        "`settle` stops after",
        "still open at the end",
    )
    text = table(columns, rows) + (
        f"\n\n{len(scores.generators)} generators, {most:,} prompts, one image each, people's yes / no; medians over pairs, "
        f"`settle` over {ORDERS} random orders of the prompts."
    )  # fmt: skip
    return text, {"study-prompts.svg": _prompts_figure(spots, most)}


def _prompts_figure(spots: Sequence[tuple[float, float, float, float]], most: int) -> str:
    left, right, top, bottom = 70.0, 690.0, 20.0, 300.0
    drawing = figure(720, 350)
    ends = ((0.01, 0.7), (5.0, 4000.0))

    def at(gap: float, count: float) -> tuple[float, float]:
        shares = [
            (math.log(min(max(value, low), high)) - math.log(low)) / (math.log(high) - math.log(low))
            for value, (low, high) in zip((gap, count), ends, strict=True)
        ]
        return left + (right - left) * shares[0], bottom - (bottom - top) * shares[1]

    for count in (10, 30, 100, 300, 1000, 3000):
        rule(drawing, at(ends[0][0], count), at(ends[0][1], count))
        drawing.text(left - 8, at(0.01, count)[1] + 4, f"{count:,}", anchor="end")
    for gap in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5):
        drawing.text(at(gap, 5)[0], bottom + 17, f"{100 * gap:.0f}")
    for gap, fixed, used, _ in spots:
        if gap >= ends[0][0] and fixed <= most:
            drawing.mark(*at(gap, fixed), 1)
        if gap >= ends[0][0]:
            drawing.mark(*at(gap, used), 0)
    for place, y, name in (
        (0, 40, "settle: stopped after, mean of 20 orders"),
        (1, 60, "planned: power 80%, fixed number"),
    ):
        drawing.mark(right - 250, y, place)
        drawing.text(right - 238, y + 4, name, anchor="start", soft=False)
    drawing.text((left + right) / 2, bottom + 38, "difference of the two generators, points of 100 (logarithmic)")
    drawing.text(20, (top + bottom) / 2, "prompts (logarithmic)", turned=-90)
    return standalone(drawing)


def two_judges(given: argparse.Namespace) -> Found:
    """Whether GPT-4o and Qwen-VL give the same verdicts on the generators of TIIF-Bench."""
    from scipy.stats import kendalltau

    from titjudge.suites.tiif.answers import answers_as_scores

    old, new = (
        score_table(
            [Entry(each.prompt_id, each.generator, each.item_id, each.value) for each in answers_as_scores(tree)],
            metric="yes-no", source=str(tree),
        )
        for tree in (given.tiif / f"{TREES}GPT-4o", given.tiif / f"{TREES}QwenVL")
    )  # fmt: skip
    first, second = calls(old), calls(new)
    both = [(first[pair], second[pair]) for pair in first if pair in second]
    names = [name for name in old.generators if name in new.generators]
    means = np.array([[np.nanmean(each.means[:, each.column(name)]) for name in names] for each in (old, new)])
    rows = [
        ["both say the same one is better", str(sum(a == b != 0 for a, b in both))],
        ["they say opposite ones", str(sum(a * b < 0 for a, b in both))],
        ["only GPT-4o can tell", str(sum(a != 0 == b for a, b in both))],
        ["only Qwen-VL can tell", str(sum(b != 0 == a for a, b in both))],
        ["neither can tell", str(sum(a == 0 == b for a, b in both))],
    ]
    text = table((f"{len(both)} pairs of {len(names)} generators, {len(old.prompts)} prompts", "pairs"), rows) + (
        f"\n\nKendall's tau of the two orders {kendalltau(*means).statistic:.3f}; the scores of one generator differ by "
        f"{100 * np.abs(means[0] - means[1]).mean():.1f} points on average, by {100 * np.abs(means[0] - means[1]).max():.1f} at most."
    )  # fmt: skip
    return text, {}


def price(given: argparse.Namespace) -> Found:
    """List prices of the request that the published replies answer (VIEScore), on the bundled scenes."""
    from titjudge.cli.commands import run_command

    rows = []
    with tempfile.TemporaryDirectory() as place:
        for model in MODELS:
            plan, said = Path(place) / "plan.json", io.StringIO()
            asked = ["judge", "--suite", "known-answer", "--metric", "viescore", "--captioner", model, "--dry-run"]
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                if run_command("python cli.py", [*asked, "--set", f"cache={place}/cache", "--json", str(plan)]):
                    sys.exit(said.getvalue())
            found = json.loads(plan.read_text(encoding="utf-8"))
            each = [value / found["items"] for value in found["list_cost"]]
            rows.append(
                [
                    f"`{model}`",
                    *(f"{1000 * value:.2f}" for value in each),
                    f"{200 * each[1]:.2f}",
                    f"{1000 * each[1]:.2f}",
                ]
            )
    columns = (
        "judge", "1,000 images, USD: p10", "p50", "p90", "two generators, 100 prompts: p50", "two generators, 500 prompts: p50",
    )  # fmt: skip
    return table(columns, rows), {}


MAKERS: Mapping[str, tuple[str | None, Callable[[argparse.Namespace], Found]]] = {
    "judges": ("viescore", judges),
    "prompts": ("human", prompts),
    "two-judges": ("tiif", two_judges),
    "price": (None, price),
    "edit-judges": ("viescore", edit_judges),
    "edit-failures": ("viescore", edit_failures),
    "edit-parity": ("viescore", edit_parity),
    "edit-votes": ("genai", edit_votes),
    "edit-bridge": ("viescore", edit_bridge),
}


def stale(part: str, found: Found, docs: Path, *, write: bool) -> list[str]:
    """Name the files of `docs` that do not have the part as found, and write them if wanted."""
    text, figures = found
    pages = {page: page.read_text(encoding="utf-8") for page in sorted(docs.glob("study*.md"))}
    wanted = {
        page: PART.sub(lambda match: f"{match[1]}\n{text}\n\n{match[3]}" if match[2] == part else match[0], old)
        for page, old in pages.items()
    } | {docs / name: svg for name, svg in figures.items()}
    behind = [path for path, new in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != new]
    for path in behind if write else ():
        path.write_text(wanted[path], encoding="utf-8")
    return [path.name for path in behind]


def copy_of(name: str) -> Path | None:
    """Find a copy of a repository in the folder that the environment variable TITJUDGE_STUDY_DATA names."""
    place = os.environ.get("TITJUDGE_STUDY_DATA")
    found = Path(place or ".", name)
    return found if place and found.is_dir() else None


def main(arguments: Sequence[str] | None = None, docs: Path = DOCS) -> None:
    """Print the parts whose data are at hand; write or check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(MAKERS))
    parser.add_argument(
        "--viescore", type=Path, default=copy_of("VIEScore"), help="a checkout of TIGER-AI-Lab/VIEScore"
    )
    parser.add_argument(
        "--human", type=Path, default=HUMAN if HUMAN.is_file() else None, help="LMM4LMM's marks as a table"
    )
    parser.add_argument("--tiif", type=Path, help="a checkout of A113N-W3I/TIIF-Bench")
    parser.add_argument(
        "--genai", type=Path, default=copy_of("GenAI-Bench"), help="a checkout of TIGER-AI-Lab/GenAI-Bench"
    )
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args(arguments)
    if unknown := [part for part in given.parts if part not in MAKERS]:
        parser.error(f"no part '{unknown[0]}': choose from {', '.join(MAKERS)}")
    behind = []
    for part in given.parts or MAKERS:
        source, make = MAKERS[part]
        if source and getattr(given, source) is None:
            print(f"skipped: {part}: name its data with --{source}")
            continue
        if source and not getattr(given, source).exists():
            parser.error(f"--{source} {getattr(given, source)}: no such file or folder")
        found = make(given)
        print(f"\n{part}\n\n{found[0]}", flush=True)
        if given.write or given.check:
            behind += [f"{name} ({part})" for name in stale(part, found, docs, write=given.write)]
    if given.check and behind:
        sys.exit(f"not current: {', '.join(behind)}: run python -m benchmarks.study --write")


if __name__ == "__main__":
    main()
