"""Agreement of a judge with people on single elements: questions, facets, entities, attributes, relations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from titjudge.core.declarations import Declaration, Population, Unit
from titjudge.core.grouping import grouped
from titjudge.core.types import Json, Note, Table
from titjudge.stats.bootstrap import Interval, by_content, codes, multiplicities, number, percentile_interval
from titjudge.stats.intervals import share_interval

ELEMENTS = Declaration(
    "elements",
    "judgements of people and the metric",
    Population.ELEMENTS,
    Unit.PROMPT,
    order="name of the kind",
    counts="elements",
)

_RESAMPLES = 2000
ALL = "all"


@dataclass(frozen=True, slots=True)
class ElementLabels:
    """The labels of judge and people for one element of an image: `yes` or `no`, or 0, 1, 2 and `n/a` for a facet.

    `family` is the family of the prompt, if it has one.
    """

    prompt_id: str
    kind: str
    judge: str
    people: str
    family: str = ""


@dataclass(frozen=True, slots=True)
class ElementAgreement:
    """Agreement over the elements of one kind.

    Attributes:
        counts: Confusion matrix: (judge's label, people's label) -> count.
        accuracy: Share of the elements with the same label, with its 95% interval.
        kappa: Cohen's kappa, with a cluster bootstrap interval; None if all labels are the same.
        families: Whether families of prompts are the unit of intervals.
    """

    kind: str
    prompts: int
    counts: Mapping[tuple[str, str], int]
    accuracy: float
    interval: Interval | None
    kappa: float | None
    kappa_interval: Interval | None
    families: bool = False

    @property
    def elements(self) -> int:
        """Number of elements."""
        return sum(self.counts.values())

    @property
    def confusion(self) -> dict[str, int]:
        """TP, FP, FN, TN: positive is `yes`, or a facet labelled 1 or 2; without elements that either labels `n/a`."""
        counts = dict.fromkeys(("TP", "FP", "FN", "TN"), 0)
        for (judge, people), count in self.counts.items():
            if "n/a" not in (judge, people):
                right = _positive(judge) == _positive(people)
                counts[("T" if right else "F") + ("P" if _positive(judge) else "N")] += count
        return counts

    @property
    def recall(self) -> float | None:
        """Share of the elements with a yes from people that also have a yes from the judge: TP / (TP + FN); None without any."""
        counts = self.confusion
        positive = counts["TP"] + counts["FN"]
        return counts["TP"] / positive if positive else None

    def to_json(self) -> Json:
        """Return all but the kind and the counts, with the confusion."""
        return {
            "elements": self.elements,
            "prompts": self.prompts,
            **self.confusion,
            "recall": self.recall,
            "accuracy": self.accuracy,
            "interval": self.interval,
            "kappa": self.kappa,
            "kappa_interval": self.kappa_interval,
        }


def element_agreement(marks: Iterable[ElementLabels]) -> dict[str, ElementAgreement]:
    """Compute the agreement over all elements and over each kind, by name.

    Args:
        marks: Of elements that both judge and people have labelled; at least one.
    """
    listed = list(marks)
    by_kind = grouped(listed, lambda mark: mark.kind)
    kinds = {kind: _agreement(kind, by_kind[kind]) for kind in sorted(by_kind)} if len(by_kind) > 1 else {}
    return {ALL: _agreement(ALL, listed)} | kinds


def _agreement(kind: str, marks: Sequence[ElementLabels]) -> ElementAgreement:
    """Compute accuracy, kappa and their intervals for the elements of one kind."""
    prompts = {mark.prompt_id for mark in marks}
    unit, units = codes(mark.family or mark.prompt_id for mark in marks)
    unit = by_content(unit, ((str(mark.judge), str(mark.people)) for mark in marks))
    label, labels = codes(value for mark in marks for value in (mark.judge, mark.people))
    judge, people = label[::2], label[1::2]
    right = (judge == people).astype(np.float64)
    table = np.zeros((len(units), len(labels), len(labels)))
    np.add.at(table, (unit, judge, people), 1.0)
    draws = np.concatenate(
        [_kappas(np.tensordot(rows, table, axes=1)) for rows in multiplicities(len(units), _RESAMPLES)]
    )
    return ElementAgreement(
        kind,
        len(prompts),
        Counter((mark.judge, mark.people) for mark in marks),
        float(right.mean()),
        share_interval(unit, right),
        number(_kappas(table.sum(axis=0)[None])[0]),
        percentile_interval(draws, len(units)),
        families=len(units) < len(prompts),
    )


def _kappas(tables: np.ndarray) -> np.ndarray:
    """Compute Cohen's kappa of confusion matrices, shape (n, k, k); NaN if the agreement by chance is complete."""
    total = tables.sum(axis=(1, 2))
    observed = np.trace(tables, axis1=1, axis2=2) / total
    chance = (tables.sum(axis=2) * tables.sum(axis=1)).sum(axis=1) / total**2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(1 - chance > 1e-12, (observed - chance) / (1 - chance), np.nan)


def _positive(value: str) -> bool:
    return value in ("yes", "1", "2")


def agreement_table(title: str, agreements: Mapping[str, ElementAgreement], notes: Sequence[Note] = ()) -> Table:
    """Tabulate the agreement of each kind."""
    rows = tuple(
        (
            row.kind, row.elements, row.prompts, *row.confusion.values(), row.recall,
            row.accuracy, _span(row.interval), row.kappa, _span(row.kappa_interval),
        )
        for row in agreements.values()
    )  # fmt: skip
    counts, statistics = (
        ("TP", "FP", "FN", "TN"),
        ("recall", "accuracy", "95% interval", "kappa", "95% interval of kappa"),
    )
    legend = "TP: judge and people both answer yes (a facet: 1 or 2); recall: TP / (TP + FN)"
    declared = ELEMENTS.over(families=any(row.families for row in agreements.values()))
    first = ("kind", "elements", "prompts", *counts)
    return Table(
        title,
        (*first, *statistics),
        rows,
        (Note("about_elements", legend), *notes),
        declared=declared,
        keys=(*first, "recall", "accuracy", "interval", "kappa", "kappa_interval"),
    )


def _span(interval: Interval | None) -> str | None:
    return None if interval is None else f"[{interval[0]:.3f}, {interval[1]:.3f}]"
