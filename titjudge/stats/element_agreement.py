"""How far a judge agrees with people on single elements: questions, facets, entities, attributes, relations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from titjudge.core.types import Table
from titjudge.stats.bootstrap import Interval, codes, multiplicities, number, percentile_interval
from titjudge.stats.intervals import share_interval

_RESAMPLES = 2000
ALL = "all"


@dataclass(frozen=True, slots=True)
class Mark:
    """What the judge and people say of one element of an image: `yes` or `no`, or 0, 1, 2 and `n/a` of a facet."""

    prompt_id: str
    kind: str
    judge: str
    people: str


@dataclass(frozen=True, slots=True)
class ElementAgreement:
    """Agreement over the elements of one kind.

    Attributes:
        counts: How often the judge said this and people that: (judge, people) -> count.
        accuracy: Share of the elements on which both say the same, with its 95% interval over prompts.
        kappa: Cohen's kappa; None where both always say one and the same thing.
    """

    kind: str
    prompts: int
    counts: Mapping[tuple[str, str], int]
    accuracy: float
    interval: Interval | None
    kappa: float | None
    kappa_interval: Interval | None

    @property
    def elements(self) -> int:
        """How many elements there are."""
        return sum(self.counts.values())

    @property
    def confusion(self) -> dict[str, int]:
        """TP, FP, FN, TN: positive is `yes`, or a facet marked 1 or 2; without what either calls not applicable."""
        found = dict.fromkeys(("TP", "FP", "FN", "TN"), 0)
        for (judge, people), count in self.counts.items():
            if "n/a" not in (judge, people):
                right = _positive(judge) == _positive(people)
                found[("T" if right else "F") + ("P" if _positive(judge) else "N")] += count
        return found

    def to_json(self) -> dict[str, Any]:
        """Give all of it as JSON types."""
        return {
            "elements": self.elements,
            "prompts": self.prompts,
            **self.confusion,
            "accuracy": self.accuracy,
            "interval": self.interval,
            "kappa": self.kappa,
            "kappa_interval": self.kappa_interval,
        }


def element_agreement(marks: Iterable[Mark]) -> dict[str, ElementAgreement]:
    """Compute the agreement over all elements and over each kind, in the order in which kinds first come.

    Args:
        marks: Of elements that judge and people have both marked; at least one.
    """
    listed = list(marks)
    kinds = list(dict.fromkeys(mark.kind for mark in listed))
    found = {ALL: _agreement(ALL, listed)}
    if len(kinds) > 1:
        found |= {kind: _agreement(kind, [mark for mark in listed if mark.kind == kind]) for kind in kinds}
    return found


def _agreement(kind: str, marks: Sequence[Mark]) -> ElementAgreement:
    prompt, prompts = codes(mark.prompt_id for mark in marks)
    said, values = codes(value for mark in marks for value in (mark.judge, mark.people))
    judge, people = said[::2], said[1::2]
    right = (judge == people).astype(np.float64)
    table = np.zeros((len(prompts), len(values), len(values)))
    np.add.at(table, (prompt, judge, people), 1.0)
    draws = np.concatenate(
        [_kappas(np.tensordot(rows, table, axes=1)) for rows in multiplicities(len(prompts), _RESAMPLES, 0)]
    )
    return ElementAgreement(
        kind,
        len(prompts),
        Counter((mark.judge, mark.people) for mark in marks),
        float(right.mean()),
        share_interval(prompt, right),
        number(_kappas(table.sum(axis=0)[None])[0]),
        percentile_interval(draws, len(prompts)),
    )


def _kappas(tables: np.ndarray) -> np.ndarray:
    """Compute Cohen's kappa of confusion tables, shape (n, k, k); NaN where chance alone agrees always."""
    total = tables.sum(axis=(1, 2))
    observed = np.trace(tables, axis1=1, axis2=2) / total
    chance = (tables.sum(axis=2) * tables.sum(axis=1)).sum(axis=1) / total**2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(1 - chance > 1e-12, (observed - chance) / (1 - chance), np.nan)


def _positive(value: str) -> bool:
    return value in ("yes", "1", "2")


def agreement_table(title: str, found: Mapping[str, ElementAgreement], notes: Sequence[str] = ()) -> Table:
    """Make the table for people."""
    rows = tuple(
        (
            each.kind, each.elements, each.prompts, *each.confusion.values(),
            each.accuracy, _span(each.interval), each.kappa, _span(each.kappa_interval),
        )
        for each in found.values()
    )  # fmt: skip
    columns = (
        "kind",
        "elements",
        "prompts",
        "TP",
        "FP",
        "FN",
        "TN",
        "accuracy",
        "95% interval",
        "kappa",
        "95% interval of kappa",
    )
    said = "TP: judge and people both say yes (a facet: 1 or 2); intervals are over prompts"
    return Table(title, columns, rows, (said, *notes))


def _span(interval: Interval | None) -> str | None:
    return None if interval is None else f"[{interval[0]:.3f}, {interval[1]:.3f}]"
