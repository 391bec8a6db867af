"""Two parts of the study, about edits: judges against people, and the published numbers again from the recorded replies.

The unit of statistics is the source of an edit.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from benchmarks import ceiling
from benchmarks.ceiling import Image
from benchmarks.edit_replies import (
    MEASURES,
    PARTS,
    TASKS,
    Replies,
    people_of,
    replies_of,
    scores_of,
    source_of,
    task_name,
)
from benchmarks.study_page import Found, judges_figure, percent, table
from titjudge.stats.bootstrap import Floats, Interval, codes, group_sums, multiplicities, percentile_interval
from titjudge.stats.equality import with_ties
from titjudge.stats.intervals import mean_intervals
from titjudge.stats.pairwise_accuracy import pair_index, pairwise_accuracy
from titjudge.stats.ranking.correlation import FEWEST as FEWEST_IMAGES
from titjudge.stats.ranking.correlation import weighted_correlation, weighted_ranks

RETIRED = "gpt4o_0shot"  # the judge that the others are held against
FEWEST = 0.5  # share of edits with an overall score
TOP = 10.0  # of a rating
NEARLY = 0.999999  # in place of a correlation of 1, which has no mean on the scale of Fisher
NOTEBOOK = re.compile(r"=+> (\S+) : \nSC\| (\S+)\nPQ\| (\S+)\nO\| (\S+)\n")
NO = "\N{EN DASH}"


@dataclass(frozen=True, slots=True)
class MeanCorrelation:
    """Spearman's correlation within each stratum, averaged over strata, in [-1, 1], with a 95% interval over prompts.

    `n` counts the images that have both numbers, `strata` those whose correlation is defined; None without any.
    """

    n: int
    strata: int
    srcc: float | None
    srcc_interval: Interval | None


def mean_correlation(
    scores: Sequence[float | None],
    human: Sequence[float | None],
    strata: Sequence[str],
    groups: Sequence[str],
    *,
    resamples: int = 1000,
    most: float | None = None,
) -> MeanCorrelation:
    """Compute Spearman's correlation within each stratum, and average it on Fisher's scale: tanh(mean(atanh(r))).

    With the generators as strata this is what VIEScore means to report. A perfect correlation is infinite on that scale, and one
    such draw would decide the mean: that of n images counts as at most 1 - 1 / n, or `most`.

    Args:
        scores: One number an image; images with None or NaN are left out.
        human: One number an image, in the same order; None or NaN likewise.
        strata: Stratum of each image, as its generator.
        groups: Prompt of each image, the unit of resampling.
        resamples: Bootstrap draws of prompts for the interval.
        most: The largest that a correlation counts as, below 1.
    """
    x, y = (np.array(values, dtype=np.float64) for values in (scores, human))
    both = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    x, y = with_ties(x[both]), with_ties(y[both])
    stratum, names = codes(strata[k] for k in both.tolist())
    group, distinct = codes(groups[k] for k in both.tolist())
    strata_rows = [np.flatnonzero(stratum == k) for k in range(len(names))]
    strata_rows = [rows for rows in strata_rows if len(rows) >= FEWEST_IMAGES and np.ptp(x[rows]) and np.ptp(y[rows])]
    if not strata_rows:
        return MeanCorrelation(len(both), 0, None, None)
    ranks = [(rows, weighted_ranks(x[rows]), weighted_ranks(y[rows])) for rows in strata_rows]

    ends = np.array([[most or 1 - 1 / len(rows)] for rows in strata_rows])

    def weighted_mean(weights: Floats) -> Floats:
        columns = [(weights[:, group[rows]], first, second) for rows, first, second in ranks]
        with np.errstate(invalid="ignore", divide="ignore"):  # a stratum without an image in a draw is left out of it
            correlations = np.stack(
                [weighted_correlation(first(drawn), second(drawn), drawn) for drawn, first, second in columns]
            )
            z = np.arctanh(np.clip(correlations, -ends, ends))
            mean: Floats = np.tanh(np.nansum(z, axis=0) / np.isfinite(z).sum(axis=0))
        return mean

    whole = float(weighted_mean(np.ones((1, len(distinct))))[0])
    blocks = [weighted_mean(block) for block in multiplicities(len(distinct), resamples)] if len(distinct) > 1 else []
    interval = percentile_interval(np.concatenate(blocks), len(distinct)) if blocks else None
    return MeanCorrelation(len(both), len(strata_rows), whole, interval)


def number(value: float | None, interval: Interval | None) -> str:
    """`0.454 [0.401, 0.502]`."""
    if value is None:
        return NO
    ends = " [{:.3f},\u00a0{:.3f}]".format(*interval) if interval else ""
    return f"{value:.3f}{ends}"


def points(value: float, interval: Interval | None) -> str:
    """`-1.5 [-4.9, +1.8]`, of shares in points of 100."""
    ends = " [{:+.1f},\u00a0{:+.1f}]".format(*(100 * each for each in interval)) if interval else ""
    return f"{100 * value:+.1f}{ends}"


def srcc(scores: Sequence[float | None], human: Sequence[float], strata: Sequence[str], edits: Sequence[Image]) -> str:
    """Write Spearman's correlation within editors."""
    found = mean_correlation(scores, human, strata, [source_of(edit) for _, edit in edits])
    return number(found.srcc, found.srcc_interval)


def rater_correlations(
    people: Mapping[Image, Floats], measure: int, most: float | None = None
) -> tuple[MeanCorrelation, MeanCorrelation]:
    """Correlate one rater with another, and one with the mean of the other two, within editors, over each choice of them."""
    edits = list(people)
    marks = np.array([people[edit][:, measure] for edit in edits])
    sides = (
        [(marks[:, j], marks[:, k]) for j, k in combinations(range(3), 2)],
        [(marks[:, k], np.delete(marks, k, axis=1).mean(axis=1)) for k in range(3)],
    )
    strata = [f"{editor} {k}" for k in range(3) for editor, _ in edits]
    sources = [source_of(edit) for _, edit in edits] * 3
    one, others = (
        mean_correlation(
            *(np.concatenate(side).tolist() for side in zip(*some, strict=True)), strata, sources, most=most
        )
        for some in sides
    )
    return one, others


def shared_difference(
    people: Mapping[Image, Floats], first: Mapping[Image, float], second: Mapping[Image, float]
) -> str:
    """Write by how much more pairs the first judge orders as people do than the second, over those that both have scored."""
    edits = [edit for edit in people if edit in first and edit in second]
    truth = np.array([people[edit][:, 2].mean() for edit in edits])
    index = pair_index(ceiling.pairs_of(edits, truth, source_of))
    credit = [
        index.predictions({"/".join(edit): side[edit] for edit in edits}) * index.preference / 2
        for side in (first, second)
    ]
    sums = group_sums(index.group, len(index.groups), credit[0] - credit[1], np.ones(len(index)))
    return points(float(sums[:, 0].sum() / sums[:, 1].sum()), mean_intervals(sums[:, 0], sums[:, 1])[0])


def edit_judges(given: argparse.Namespace) -> Found:
    """Hold judges with published replies, and single people, against the marks of people, by task."""
    texts, figures = [], {}
    for task in TASKS:
        found, drawn, single = _judges_of(given.viescore, task, replies_of(given.viescore, task))
        texts.append(f"**{task_name(task).capitalize()}**\n\n{found}")
        figures.setdefault("study-edits.svg", judges_figure(drawn, single, most=0.9, what="edits"))
    return "\n\n".join(texts), figures


def _judges_of(
    checkout: Path, task: str, replies: Mapping[str, Replies]
) -> tuple[str, list[tuple[str, float, Interval]], list[float]]:
    marked = people_of(checkout, task)
    editors = {editor for judge in replies.values() for editor, _ in judge["SC"]}
    people = {edit: each for edit, each in marked.items() if edit[0] in editors}
    edits = list(people)
    truth = np.array([people[edit].mean(axis=0) for edit in edits])
    scored = {name: scores_of(judge) for name, judge in replies.items()}
    rows, drawn, silent = [], [], []
    for name, scores in scored.items():
        overall = scores["overall"]
        if sum(edit in overall for edit in edits) < FEWEST * len(edits):
            silent.append(f"{name} {percent(sum(edit in overall for edit in edits) / len(edits))}")
            continue
        row, agreement, interval = _judge_row(people, scores)
        reference = scored.get(RETIRED)
        against = (
            NO if reference is None or name == RETIRED else shared_difference(people, overall, reference["overall"])
        )
        rows.append([name, *row, against])
        drawn.append((name, agreement, interval))
    order = sorted(range(len(rows)), key=lambda k: -drawn[k][1])
    rows, drawn = [rows[k] for k in order], [drawn[k] for k in order]
    single = [
        ceiling.accuracy(edits, _overall(people, edits, [j for j in range(3) if j != k]), _overall(people, edits, [k]))
        for k in range(3)
    ]
    raters = [rater_correlations(people, k) for k in range(3)]
    for which, name in enumerate(("*one rater and another*", "*one rater, mean of two others*")):
        cells = [number(each[which].srcc, each[which].srcc_interval) for each in raters]
        ends = f"{percent(min(single))} to {percent(max(single))}" if which else NO
        rows.insert(which, [name, "", *cells, ends, "", ""])
    columns = (
        "judge", "edits scored", "SRCC success [95%]", "SRCC quality [95%]", "SRCC overall [95%]", "pairs as people [95%]",
        "minus one person, points [95%]", f"minus {RETIRED}, shared pairs, points [95%]",
    )  # fmt: skip
    pairs = ceiling.pairs_of(edits, truth[:, 2])
    said = f"\n\n{len(edits):,} edits of {len({edit for _, edit in edits})} instructions and {len({source_of(edit) for _, edit in edits})} sources by {len(editors)} editors, {len(pairs):,} pairs on which people differ."
    if others := sorted({editor for editor, _ in marked} - editors):
        quality = [number(rater_correlations(marked, 1, most)[0].srcc, None) for most in (None, NEARLY)]
        success = number(rater_correlations(marked, 0)[0].srcc, None)
        said += (
            f" With {', '.join(others)}, of which no judge has replies, one rater and another: success {success}, quality {quality[0]}, or "
            f"{quality[1]} where raters who agree wholly on an editor count as {NEARLY}."
        )
    if silent:
        said += f" Fewer than half of the edits scored, and left out: {', '.join(silent)}."
    return table(columns, rows) + said, drawn, single


def _overall(people: Mapping[Image, Floats], edits: Sequence[Image], raters: Sequence[int]) -> Floats:
    mean: Floats = np.array([people[edit][raters, 2].mean() for edit in edits])
    return mean


def _judge_row(
    people: Mapping[Image, Floats], scores: Mapping[str, Mapping[Image, float]]
) -> tuple[list[str], float, Interval]:
    edits = list(people)
    correlations = [
        srcc(
            [scores[measure].get(edit) for edit in edits], [float(people[edit][:, k].mean()) for edit in edits],
            [editor for editor, _ in edits], edits,
        )
        for k, measure in enumerate(MEASURES)
    ]  # fmt: skip
    known = [edit for edit in edits if edit in scores["overall"]]
    column = np.array([scores["overall"][edit] for edit in known])
    found = pairwise_accuracy(
        ceiling.pairs_of(known, _overall(people, known, [0, 1, 2]), source_of), ceiling.named(known, column)
    )
    agreement = found.half_credit_accuracy or 0.0
    interval = found.half_credit_interval or (agreement, agreement)
    less = ceiling.against_two(known, np.array([people[edit][:, 2] for edit in known]), [column] * 3, source_of)
    share = percent(len(known) / len(edits))
    return [share, *correlations, percent(agreement, interval), points(*less)], agreement, interval


def edit_parity(given: argparse.Namespace) -> Found:
    """Read the recorded replies with the parser of `viescore-edit`, and compute the published correlations again."""
    totals: dict[str, list[int]] = {}
    rows, told = [], published_values(given.viescore)
    equal, compared, apart = 0, 0, 0.0
    for task in TASKS:
        people = people_of(given.viescore, task)
        for name, replies in replies_of(given.viescore, task).items():
            counts = _read_counts(replies)
            totals[name] = [a + b for a, b in zip(totals.get(name, [0] * len(counts)), counts, strict=True)]
            if name not in (RETIRED, "gpt4v_0shot", "gemini_0shot"):
                continue
            values = editor_values(replies, people)
            means = [fisher([each[k] for each in values.values()]) for k in range(3)]
            plain = [math.tanh(float(np.mean([each[k] for each in values.values()]))) for k in range(3)]
            rows.append([f"{name}, {task_name(task)}", *(f"{each:.4f}" for each in (*means, *plain))])
            if name == "gemini_0shot" and task in told:
                pairs = [(a, b) for editor, own in told[task].items() for a, b in zip(values[editor], own, strict=True)]
                equal, compared = equal + sum(abs(a - b) < 6e-5 for a, b in pairs), compared + len(pairs)
                apart = max(apart, *(abs(a - b) for a, b in pairs))
    columns = (
        "judge",
        "replies",
        "read, same rating",
        "read, other rating",
        "drawn at random, unread",
        "drawn, yet read",
        "else unread",
    )
    text = table(columns, [[name, *(f"{each:,}" for each in counts)] for name, counts in totals.items()])
    columns = ("authors' ratings", "SC", "PQ", "O", "SC as averaged there", "PQ", "O")
    text += f"\n\n{table(columns, rows)}"
    if compared:
        text += f"\n\nOf {compared} correlations of single editors that the authors' notebook prints for gemini_0shot {equal} are the same to four digits; the others, all of O, differ by {apart:.4f} at most."
    return text, {}


def _read_counts(replies: Replies) -> list[int]:
    """Count replies: all, read as published or otherwise, drawn and unread, drawn and read, unread for another reason."""
    found = [reply for part in PARTS for reply in replies[part].values()]
    read = [(reply, reply.rating) for reply in found]
    same = sum(rating == reply.published and rating is not None and not reply.guessed for reply, rating in read)
    other = sum(rating != reply.published and rating is not None and not reply.guessed for reply, rating in read)
    drawn = sum(rating is None and reply.guessed for reply, rating in read)
    rescued = sum(rating is not None and reply.guessed for reply, rating in read)
    return [len(found), same, other, drawn, rescued, len(found) - same - other - drawn - rescued]


def editor_values(replies: Replies, people: Mapping[Image, Floats]) -> dict[str, list[float]]:
    """Correlate the authors' ratings of each editor, drawn ones too, with the mean mark of people: SC, PQ and O."""
    found = {}
    for editor in sorted({editor for editor, _ in replies["SC"]}):
        edits = [edit for edit in replies["SC"] if edit[0] == editor and edit in replies["PQ"] and edit in people]
        both = np.array([[_unit(replies[part][edit].published) for part in PARTS] for edit in edits])
        judged = np.column_stack([both, np.sqrt(both.prod(axis=1))]).T.tolist()
        marked = np.array([people[edit].mean(axis=0) for edit in edits]).T.tolist()
        ids = [edit for _, edit in edits]
        each = [
            mean_correlation(*columns, [editor] * len(ids), ids, resamples=0).srcc
            for columns in zip(judged, marked, strict=True)
        ]
        found[editor] = [math.nan if value is None else value for value in each]
    return found


def _unit(rating: float | None) -> float:
    """Bring a rating to 0 to 1 as the authors do; NaN where there is none."""
    return math.nan if rating is None else min(max(rating / TOP, 0.0), 1.0)


def fisher(values: Sequence[float]) -> float:
    """Average correlations on Fisher's scale; NaN are left out."""
    return math.tanh(float(np.nanmean(np.arctanh(values))))


def published_values(checkout: Path) -> dict[str, dict[str, list[float]]]:
    """Read the correlations of single editors that the authors' notebook prints for gemini_0shot, by task."""
    notebook = checkout / "paper_implementation" / "analyze_json.ipynb"
    if not notebook.is_file():
        return {}
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    printed = "".join("".join(out.get("text", "")) for cell in cells for out in cell.get("outputs", ()))
    found: dict[str, dict[str, list[float]]] = {}
    for part in re.split(r"=+> ImagenHub_", printed)[1:]:
        task = part.split("\n", 1)[0]
        for editor, *values in NOTEBOOK.findall(part):
            found.setdefault(task, {})[editor] = [float(value) for value in values]
    return found
