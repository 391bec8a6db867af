"""The section of the metrics against people: charts of agreement by properties of the pairs, and of generators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from titjudge.core.declarations import Declaration, Population, Unit
from titjudge.core.tables import Table, percent, plain
from titjudge.core.words import count_words, percentage
from titjudge.report.drawing import COLOURS, Canvas, Chart, shortened
from titjudge.report.model import Report
from titjudge.report.plots import NO_NAME, categories, series, shares
from titjudge.report.sections import Charts, Section, single
from titjudge.stats.people.agreement_cuts import (
    Cut,
    JudgedPairs,
    by_label,
    by_length,
    by_rank_gap,
    by_score_gap,
    mean_win_shares,
    win_shares,
)
from titjudge.stats.ranking.leaderboard import leaderboard
from titjudge.stats.scores.per_prompt import PerPrompt

CUTS = Declaration(
    "agreement_cuts",
    "agreement of each metric with {people}, in parts",
    Population.OWN_PAIRS,
    Unit.PROMPT,
    counts="pairs",
)
WON = Declaration(
    "won_with_people",
    "win rates and mean scores of generators",
    Population.HUMAN_PAIRS,
    Unit.PROMPT,
    by_column={"mean": Population.IMAGES_OF_BOTH},
)

_HAZE = 400  # maximum number of faint dots, one per image
_CATEGORY_KEYS = ("category", "type", "dimension", "theme", "class")
_CATEGORIES = 12  # most of a chart


@dataclass(frozen=True, slots=True)
class _Generator:
    """The share of comparisons that the images of a generator win with people, and its mean score."""

    name: str
    human: float
    score: float
    interval: tuple[float, float] | None


def people(report: Report) -> Section | None:
    """Make the section; None without pairs."""
    title = f"The metrics against {report.reference}"
    charts = _charts(report)
    if not charts:
        return None
    pairs = "Pairs that come from how the images were made" if report.constructed else "Human pairs"
    introduction = (
        f"{pairs} are the yardstick. Bars are 95% intervals over prompts; pairs of fewer than two prompts have none. The dotted "
        "line is what tossing a coin reaches."
    )
    names = tuple(judge.label for judge in report.judges[:COLOURS])
    return Section("people", report.reference.capitalize(), title, introduction, single(Charts(tuple(charts), names)))


def _charts(report: Report) -> list[Chart]:
    """Chart the agreement of metrics with people, as far as the report has data; nothing without pairs."""
    if not report.pairs or not report.judges:
        return []
    judged = judged_pairs(report)
    key, by_category = _by_category(report, judged)
    words = [count_words(report.entries[a].prompt) for a, _, _ in report.pairs]
    gaps = f"Agreement with {report.reference} by the distance of the two scores, in fifths of each metric’s gaps."
    ranks = f"Places between the two images in the ranking of that prompt by {report.reference}."
    charts = [
        _lines(report, cut, f"people-{id}", title, note, axis, joined=id != "category")
        for id, cut, title, note, axis in (
            ("gap", by_score_gap(judged), "Is a clear verdict a safe one?", gaps, "gap between the two scores"),
            (
                "rank",
                by_rank_gap(judged),
                "Agreement by how clearly one image is better",
                ranks,
                f"gap in rank by {report.reference}",
            ),
            ("length", by_length(judged, words), "Agreement by length of the prompt", "", "words in the prompt"),
            ("category", by_category, f"Agreement by {key}", "", key),
        )
    ]
    charts += [_scatter(report, judge) for judge in range(min(COLOURS, len(report.judges)))]
    return [chart for chart in charts if chart is not None]


def judged_pairs(report: Report) -> JudgedPairs:
    """Arrange the human pairs of a report, with the scores of all its judges."""
    scores = [[report.value(entry, judge) for entry in report.entries] for judge in range(len(report.judges))]
    return JudgedPairs(
        report.pairs,
        [entry.prompt_id for entry in report.entries],
        scores,
        [report.unit(entry) for entry in report.entries],
    )


def _by_category(report: Report, judged: JudgedPairs) -> tuple[str, Cut]:
    """Compute the accuracy by the first category field that the items have; ("", {}) if there is none."""
    for key in _CATEGORY_KEYS:
        named = [report.entries[a].meta.get(key) for a, _, _ in report.pairs]
        labels = [name if isinstance(name, str) else None for name in named]
        kinds = sorted({name for name in labels if name})
        if 2 <= len(kinds) <= _CATEGORIES:
            return key, by_label(judged, labels, kinds)
    return "", {}


def _lines(report: Report, cut: Cut, id: str, title: str, note: str, axis: str, *, joined: bool) -> Chart | None:
    """Chart the accuracy of each metric over the bins of a cut; None if it is empty."""
    judges = [judge for judge in cut if judge < COLOURS]
    if not judges:
        return None

    def draw(canvas: Canvas) -> None:
        axes = canvas.axes()
        shift = 0.5 / len(judges)
        for place, judge in enumerate(judges):
            points = [(part.value, part.interval) for part in cut[judge]]
            series(canvas, axes, points, judge, (place - (len(judges) - 1) / 2) * shift * 0.5, joined=joined)
        categories(axes, [part.label for part in cut[judges[0]]], axis)
        shares(axes)
        axes.axhline(0.5, color=canvas.palette.soft, linewidth=0.8, dashes=(2, 3), zorder=1)

    rows = tuple(
        (report.judges[judge].label, part.label, percent(part.value, part.interval), part.pairs)
        for judge in cut
        for part in cut[judge]
    )
    return Chart(
        id,
        title,
        note,
        draw,
        Table(
            title,
            ("metric", axis, "agreement", "pairs"),
            rows,
            declared=CUTS.over(families=bool(report.families), constructed=report.constructed),
            keys=("metric", "part", "agreement", "pairs"),
        ),
    )


def _scatter(report: Report, judge: int) -> Chart | None:
    """Chart the mean score of each generator against the share of comparisons won with people, with a faint dot an image."""
    shares = win_shares(report.pairs)
    points = _generators(report, judge, shares)
    if len(points) < 2:
        return None
    about = report.judges[judge]
    haze = _images(report, judge, shares)

    def draw(canvas: Canvas) -> None:
        axes = canvas.axes()
        axes.plot([x for x, _ in haze], [y for _, y in haze], color=canvas.colour(judge), linestyle="none", marker="o",
                  markersize=3.2, markeredgewidth=0, alpha=0.38, zorder=2)  # fmt: skip
        axes.margins(0.08, 0.1)
        for point in points:
            if point.interval is not None:
                canvas.interval(axes, [point.human] * 2, point.interval, canvas.colour(judge))
        canvas.marks(axes, [p.human for p in points], [p.score for p in points], judge, markersize=7, zorder=4)
        _names(canvas, axes, points)
        axes.set_xlabel(f"share of comparisons won with {report.reference}")
        axes.xaxis.set_major_formatter(lambda x, _: percentage(x, 0))

    rows = tuple(
        (point.name or NO_NAME, percent(point.human), plain(point.score, point.interval, about.scale.digits))
        for point in points
    )
    title = f"{shortened(about.label, 28)} against {report.reference}"
    note = "One large mark a generator, its bar the 95% interval of the mean; one faint dot an image."
    numbers = Table(
        title,
        ("generator", f"won with {report.reference}", "mean score"),
        rows,
        declared=WON.over(len(report.pairs), families=bool(report.families), constructed=report.constructed),
        keys=("generator", "won", "mean"),
    )
    return Chart(f"people-judge-{judge}", title, note, draw, numbers)


def _generators(report: Report, judge: int, shares: Mapping[int, float]) -> list[_Generator]:
    """Return each generator's share of comparisons won and its mean score, both over the images with scores that people compared."""
    about = report.judges[judge]
    run = report.runs[about.run]
    if not run.metric(about.metric).ranks_images:
        return []
    scores = {image: report.entries[image].scores.get(judge) for image in shares}
    values = {
        str(image): score.value for image, score in scores.items() if score is not None and score.value is not None
    }
    entries = {id: report.entries[int(id)] for id in values}
    board = leaderboard(
        [(id, entry.generator, entry.prompt_id) for id, entry in entries.items()],
        values,
        higher_is_better=about.scale.higher,
        bounds=about.scale.range,
        per_prompt=PerPrompt.parse(run.results.per_prompt),
        families=report.families,
    )
    won = mean_win_shares(
        {image: share for image, share in shares.items() if str(image) in values},
        [entry.generator for entry in report.entries],
    )
    means = {name: place.mean for name, place in board.places.items() if place.mean is not None}
    return [_Generator(name, won[name], mean, board.places[name].interval) for name, mean in sorted(means.items())]


def _images(report: Report, judge: int, shares: Mapping[int, float]) -> list[tuple[float, float]]:
    """List (share of comparisons won, score) of the images that have both, every n-th if there are too many."""
    scored = ((share, report.entries[image].scores.get(judge)) for image, share in sorted(shares.items()))
    points = [(share, score.value) for share, score in scored if score is not None and score.value is not None]
    return points[:: max(1, -(-len(points) // _HAZE))]


def _names(canvas: Canvas, axes: Any, points: Sequence[_Generator]) -> None:
    """Write names beside the marks at places that cover nothing; a name that fits nowhere is left out (the table has it)."""
    axes.set_xlim(axes.get_xlim())  # fix the limits: the names are placed in page coordinates
    axes.set_ylim(axes.get_ylim())
    spots = axes.transData.transform([(point.human, point.score) for point in points])
    scale = axes.figure.dpi / 72
    right = axes.bbox.x1
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in spots]
    for point, (x, _) in zip(points, spots, strict=True):
        if point.interval is not None:
            low, high = (float(axes.transData.transform((point.human, end))[1]) for end in point.interval)
            taken.append((x - 2, low, x + 2, high))
    for point, (x, y) in zip(points, spots, strict=True):
        text = shortened(point.name, 16)
        width, height = 5.6 * scale * len(text), 11 * scale
        for dx, dy in ((7, -3.5), (7, 6), (7, -13), (-7, -3.5), (-7, 6), (-7, -13)):
            left = x + dx * scale if dx > 0 else x + dx * scale - width
            box = (left, y + dy * scale, left + width, y + dy * scale + height)
            free = not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken)
            if free and box[2] < right + 4 and left > axes.bbox.x0:
                axes.annotate(text, (point.human, point.score), xytext=(dx, dy), textcoords="offset points", fontsize=9,
                              ha="left" if dx > 0 else "right", va="bottom", color=canvas.palette.ink, zorder=5)  # fmt: skip
                taken.append(box)
                break
