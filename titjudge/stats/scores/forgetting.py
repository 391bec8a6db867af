"""Where generators stop reading: the share of claims that are met, by position in the prompt, kind and length of prompt.

A claim is one requirement of a prompt, with its position in the prompt and a verdict. Claims that cannot be seen in the
image (`met` is None) are counted, but are part of no rate. Claims of one prompt are correlated: intervals are over prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from titjudge.core.errors import DataError
from titjudge.core.formats import WIDE
from titjudge.core.tables import Table, p_value, percent, plain
from titjudge.stats.bootstrap import Floats, Interval, Ints, codes, multiplicities, percentile_interval
from titjudge.stats.intervals import share_intervals
from titjudge.stats.scores.population import comparable_if_few
from titjudge.stats.significance import ALPHA

BINS = 10
CELLS = 100  # resolution of a step: hundredths of the prompt
PERMUTATIONS = 999
WORDS = 100  # width of the bins of prompt length


@dataclass(frozen=True, slots=True)
class ClaimOutcome:
    """A claim with its `position` in the prompt, in [0, 1], and the length of the prompt in `words`."""

    claim: str
    kind: str
    position: float
    met: bool | None
    generator: str
    prompt_id: str
    words: int

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> ClaimOutcome:
        """Make a claim from a record with these keys.

        Raises:
            DataError: A key is missing, `position` is outside [0, 1], or `met` is not true, false or null.
        """
        name = str(record.get("claim", ""))
        words, prompt_id = record.get("words"), record.get("prompt_id")
        position, met = record.get("position"), record.get("met")
        if isinstance(position, bool) or not isinstance(position, int | float) or not 0 <= position <= 1:
            raise DataError(f"claim '{name}': position is a number from 0 to 1, not {position!r}")
        if met is not None and not isinstance(met, bool):
            raise DataError(f"claim '{name}': met is true, false or null, not {met!r}")
        if not isinstance(words, int) or words < 1 or prompt_id is None:
            raise DataError(
                f"claim '{name}': it needs the id of its prompt (prompt_id) and how many words that has (words)"
            )
        generator, kind = str(record.get("generator", "")), str(record.get("kind", ""))
        return cls(name, kind, float(position), met, generator, str(prompt_id), words)


@dataclass(frozen=True, slots=True)
class Rate:
    """Share of met claims among those that can be seen, with a 95% interval over prompts; None without any."""

    generator: str
    label: str
    rate: float | None
    interval: Interval | None
    claims: int
    unseen: int


@dataclass(frozen=True, slots=True)
class Step:
    """The change point at which a generator's rate drops most.

    Attributes:
        position: In the prompt, in [0, 1]; None, with a reason, where there is no step.
        before, after: Rates on its two sides.
        within_kinds: Drop among claims of the same kind (Mantel-Haenszel), since kinds that are harder may stand last.
        p_value: Permutation test that exchanges verdicts among the claims of one kind within prompts.
    """

    generator: str
    position: float | None
    interval: Interval | None
    before: float | None
    after: float | None
    within_kinds: float | None
    p_value: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Forgetting:
    """Rates by position (in tenths), by kind and by length of prompt, and the step of each generator."""

    places: tuple[Rate, ...]
    kinds: tuple[Rate, ...]
    lengths: tuple[Rate, ...]
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()

    @property
    def unseen(self) -> int:
        """Number of claims that cannot be seen in their image, or were not settled."""
        return _unseen(self.places)

    def tables(self) -> list[Table]:
        """Tabulate the rates and the steps."""
        return [
            _wide("Claims met by place in the prompt", "place", self.places, self.notes),
            _wide("Claims met by kind", "kind", self.kinds, self.notes),
            _wide("Claims met by length of the prompt", "words", self.lengths, self.notes),
            self.steps_table(),
        ]

    def steps_table(self) -> Table:
        """Tabulate the step of each generator."""
        rows = tuple(
            (s.generator, plain(s.position, s.interval, 2), percent(s.before), percent(s.after), percent(s.within_kinds),
             p_value(s.p_value), s.reason or None)
            for s in self.steps
        )  # fmt: skip
        columns = ("generator", "stops at", "met before", "met after", "drop within kinds", "p", "note")
        notes = (
            "place as a fraction of the prompt, with its 95% interval; p by exchanging verdicts within prompts",
            "drop within kinds: among claims of the same kind only, since style and light tend to stand last",
            *self.notes,
        )
        return Table("Where generators stop reading", columns, rows, notes)


def _unseen(rates: Sequence[Rate]) -> int:
    return sum(rate.unseen for rate in rates)


def _wide(title: str, what: str, rates: Sequence[Rate], more: Sequence[str]) -> Table:
    """Tabulate rates with one row a label and one column a generator."""
    generators, labels = list(dict.fromkeys(r.generator for r in rates)), list(dict.fromkeys(r.label for r in rates))
    narrow = len(generators) <= WIDE
    cells = {(r.generator, r.label): percent(r.rate, r.interval if narrow else None) for r in rates}
    counts = {label: sum(r.claims for r in rates if r.label == label) for label in labels}
    rows = tuple((label, *(cells.get((g, label)) for g in generators), counts[label]) for label in labels)
    intervals = "95% intervals over prompts" if narrow else "95% intervals over prompts are in --json"
    notes = (
        f"{intervals}; {_unseen(rates)} claims cannot be seen in their image, or were not settled, and are left out",
        *more,
    )
    return Table(title, (what, *(g or "(unnamed)" for g in generators), "claims"), rows, notes)


def forgetting(
    claims: Iterable[ClaimOutcome | Mapping[str, Any]], *, bins: int = BINS, resamples: int = 2000
) -> Forgetting:
    """Compute the rates of generators by position, kind and length of prompt, and the step of each.

    Only claims of the prompts that all generators have count. Generators that share too few prompts (`population.comparable`)
    keep their own, and a note names them.

    Args:
        claims: Claims, or records for `ClaimOutcome.from_record`.
        bins: Bins of the position.
        resamples: Bootstrap draws of prompts for the interval of a step.

    Raises:
        DataError: A record is malformed.
    """
    listed = [claim if isinstance(claim, ClaimOutcome) else ClaimOutcome.from_record(claim) for claim in claims]
    generators = sorted({claim.generator for claim in listed})
    listed, notes = _common(listed, generators)

    def place(claim: ClaimOutcome) -> tuple[int, str]:
        k = min(int(claim.position * bins), bins - 1)
        return k, f"{100 * k / bins:.0f}-{100 * (k + 1) / bins:.0f}%"

    def length(claim: ClaimOutcome) -> tuple[int, str]:
        k = (claim.words - 1) // WORDS
        return k, f"{k * WORDS + 1}-{(k + 1) * WORDS}"

    def rates(label: Callable[[ClaimOutcome], tuple[Any, str]]) -> tuple[Rate, ...]:
        labels = [text for _, text in sorted({label(claim) for claim in listed})]
        return tuple(
            rate
            for generator in generators
            for rate in _rates(generator, [c for c in listed if c.generator == generator], label, labels)
        )

    return Forgetting(
        rates(place),
        rates(lambda claim: (claim.kind, claim.kind)),
        rates(length),
        tuple(_step(g, [c for c in listed if c.generator == g], resamples) for g in generators),
        notes,
    )


def _common(listed: list[ClaimOutcome], generators: Sequence[str]) -> tuple[list[ClaimOutcome], tuple[str, ...]]:
    """Keep the claims of prompts that all compared generators have; also return notes on what that changes."""
    prompt, prompts = codes(claim.prompt_id for claim in listed)
    has = np.full((len(prompts), len(generators)), np.nan)
    has[prompt, [generators.index(claim.generator) for claim in listed]] = 1.0
    if np.isfinite(has).all() or len(generators) < 2:
        return listed, ()
    compared = comparable_if_few(has)
    common = np.isfinite(has[:, compared]).all(axis=1) & bool(compared)
    if not common.any():
        compared = []
    names = {generators[k] for k in compared}
    kept = [
        claim for claim, k in zip(listed, prompt.tolist(), strict=True) if claim.generator not in names or common[k]
    ]
    notes = (
        [f"over the {int(common.sum()):,} of {len(prompts):,} prompts that all compared generators have"]
        if names
        else []
    )
    if others := [name or "(unnamed)" for name in generators if name not in names]:
        notes.append(f"{', '.join(others)}: over their own prompts, so not comparable with the other columns")
    return kept, tuple(notes)


def _rates(
    generator: str,
    claims: Sequence[ClaimOutcome],
    label: Callable[[ClaimOutcome], tuple[Any, str]],
    labels: Sequence[str],
) -> list[Rate]:
    """Compute a generator's rate for each label; `label` sorts and names the bin of a claim."""
    number = {text: k for k, text in enumerate(labels)}
    visible = [(claim, number[label(claim)[1]]) for claim in claims if claim.met is not None]
    unseen = [number[label(claim)[1]] for claim in claims if claim.met is None]
    group, groups = codes(claim.prompt_id for claim, _ in visible)
    met, trials = np.zeros((len(groups), len(labels))), np.zeros((len(groups), len(labels)))
    cell = np.array([k for _, k in visible], dtype=np.int64)
    np.add.at(trials, (group, cell), 1.0)
    np.add.at(met, (group, cell), np.array([float(bool(claim.met)) for claim, _ in visible]))
    intervals = share_intervals(met, trials)
    n, hits = trials.sum(axis=0), met.sum(axis=0)
    return [
        Rate(generator, text, float(hits[k] / n[k]) if n[k] else None, intervals[k], int(n[k]), unseen.count(k))
        for k, text in enumerate(labels)
    ]


def _step(generator: str, claims: Sequence[ClaimOutcome], resamples: int) -> Step:
    """Find the place at which a generator's rate drops most, and test whether it drops at all."""
    visible = sorted(
        (claim for claim in claims if claim.met is not None), key=lambda claim: (claim.prompt_id, claim.kind)
    )
    group, groups = codes(claim.prompt_id for claim in visible)
    met = np.array([bool(claim.met) for claim in visible], dtype=np.float64)
    if len(groups) < 2 or not met.any() or met.all():
        reason = "fewer than two prompts" if len(groups) < 2 else "every claim has the same verdict"
        return Step(generator, None, None, None, None, None, None, f"no step can be looked for: {reason}")
    cell = np.array([min(int(claim.position * CELLS), CELLS - 1) for claim in visible])
    hits, trials = np.zeros((len(groups), CELLS)), np.zeros((len(groups), CELLS))
    np.add.at(hits, (group, cell), met)
    np.add.at(trials, (group, cell), 1.0)
    drop, cut = _split(hits.sum(axis=0)[None], trials.sum(axis=0)[None])
    alike, _ = codes((claim.prompt_id, claim.kind) for claim in visible)
    p_value = _exchange(met, cell, alike, float(drop[0]))
    if p_value >= ALPHA:
        return Step(generator, None, None, None, None, None, p_value, "no step beyond chance")
    where = int(cut[0])
    before, after = met[cell < where].mean(), met[cell >= where].mean()
    draws = [_split(block @ hits, block @ trials)[1] / CELLS for block in multiplicities(len(groups), resamples, 0)]
    interval = percentile_interval(np.concatenate(draws), len(groups)) if draws else None
    kinds = [claim.kind for claim in visible]
    return Step(
        generator, where / CELLS, interval, float(before), float(after), _within(kinds, met, cell >= where), p_value
    )


def _split(hits: Floats, trials: Floats) -> tuple[Floats, Ints]:
    """Find the best change point of each row of counts by cell: the sum of squares it explains, and the first cell behind it.

    Only cuts after which the rate is lower count.
    """
    n, h = trials.cumsum(axis=1)[:, :-1], hits.cumsum(axis=1)[:, :-1]
    total, met = trials.sum(axis=1, keepdims=True), hits.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        fall = h / n - (met - h) / (total - n)
        explained = np.where(fall > 0, fall**2 * n * (total - n) / total, 0.0)
    explained = np.nan_to_num(explained)
    best = explained.argmax(axis=1)
    # Equal over a gap without claims: take its middle.
    last = explained.shape[1] - 1 - explained[:, ::-1].argmax(axis=1)
    same = explained[np.arange(len(best)), best] == explained[np.arange(len(last)), last]
    return explained.max(axis=1), np.where(same, (best + last + 1) // 2, best) + 1


def _exchange(met: Floats, cell: Ints, group: Ints, drop: float) -> float:
    """Compute the p-value of a drop by exchanging verdicts within groups; claims are sorted by group."""
    rng = np.random.default_rng(0)
    trials = np.bincount(cell, minlength=CELLS).astype(np.float64)[None]
    larger = done = 0
    rows = max(1, min(PERMUTATIONS, (1 << 21) // len(met)))
    while done < PERMUTATIONS:
        count = min(rows, PERMUTATIONS - done)
        order = np.argsort(group[None] + rng.random((count, len(met))), axis=1)
        flat = (np.arange(count)[:, None] * CELLS + cell[None]).ravel()
        sums = np.bincount(flat, weights=met[order].ravel(), minlength=count * CELLS)
        hits = sums.reshape(count, CELLS).astype(np.float64)
        larger += int((_split(hits, np.broadcast_to(trials, hits.shape))[0] >= drop - 1e-12).sum())
        done += count
    return (larger + 1) / (PERMUTATIONS + 1)


def _within(kinds: Sequence[str], met: Floats, late: Any) -> float | None:
    """Compute the Mantel-Haenszel average of the drop within kinds; None when no kind is on both sides."""
    kind, names = codes(kinds)
    top = bottom = 0.0
    for k in range(len(names)):
        first, second = met[(kind == k) & ~late], met[(kind == k) & late]
        if len(first) and len(second):
            weight = len(first) * len(second) / (len(first) + len(second))
            top += weight * float(first.mean() - second.mean())
            bottom += weight
    return top / bottom if bottom else None
