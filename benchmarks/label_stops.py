"""What stopping does in `label`: how often annotators of an accuracy are stopped by gold items, and what it does to alpha.

    python -m benchmarks.label_stops

Exact for gold items (all sequences, summed by the number that is right); alpha over 20,000 simulated items.
"""

from __future__ import annotations

import random

from titjudge.apps.label.questions import LEAST
from titjudge.stats.generators.sequential import share_at_most
from titjudge.stats.people.votes import krippendorff_alpha


def ever_stopped(accuracy: float, least: float, checks: int) -> tuple[float, float]:
    """Sum the probability that somebody is stopped at one of the checks, and the mean number of checks until then."""
    going, stopped, waited = {0: 1.0}, 0.0, 0.0
    for n in range(1, checks + 1):
        after: dict[int, float] = {}
        for right, p in going.items():
            after[right + 1] = after.get(right + 1, 0) + p * accuracy
            after[right] = after.get(right, 0) + p * (1 - accuracy)
        ended = {right for right in after if share_at_most(right, n) < least}
        now = sum(after[right] for right in ended)
        stopped, waited = stopped + now, waited + n * now
        going = {right: p for right, p in after.items() if right not in ended}
    return stopped, waited / stopped if stopped else 0.0


def alphas(items: int, seed: int = 5) -> tuple[float, float, float]:
    """Compute alpha of three people who are right nine times in ten: all votes, those until two agree, the first two."""
    draw = random.Random(seed)
    every, until, first = [], [], []
    for _ in range(items):
        truth = draw.random() < 0.5
        votes = [truth == (draw.random() < 0.9) for _ in range(3)]
        asked = votes[:2] if votes[0] == votes[1] else votes
        for kept, of in ((every, votes), (until, asked), (first, votes[:2])):
            kept.append([sum(of), len(of) - sum(of)])
    one, two, three = (krippendorff_alpha(counts, resamples=0).alpha or 0.0 for counts in (every, until, first))
    return one, two, three


def main() -> None:
    """Print both tables."""
    print(f"stopped by gold items, asked for {LEAST:.0%}")
    for accuracy in (1 / 3, 0.5, LEAST, 0.8, 0.9):
        shares = [ever_stopped(accuracy, LEAST, checks) for checks in (10, 20, 200)]
        told = "".join(
            f"  {100 * share:5.1f} % in {checks}" for checks, (share, _) in zip((10, 20, 200), shares, strict=True)
        )
        print(f"  right {accuracy:4.0%}:{told}  after {shares[-1][1]:.0f} checks on average")
    print(
        "alpha of {:.3f} where all vote, {:.3f} where a third is asked if two differ, {:.3f} by the first two".format(
            *alphas(20_000)
        )
    )


if __name__ == "__main__":
    main()
