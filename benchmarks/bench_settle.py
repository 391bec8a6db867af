"""How many images `bench --settle` makes until its question is settled, on people's marks for 12 generators x 2,100 prompts.

    python -m benchmarks.bench_settle [--human FILE] [--metric COLUMN] [--prompts N] [--image USD] [--judgement USD]

For each pair of the generators and ten random draws of N prompts: after how many prompts the question is settled, the images that the rounds
of `bench` have made by then, and both prices against making and judging everything. FILE has prompt_id, generator and the column
(LMM4LMM's marks, not part of this project; by default it is looked for beside the project).
"""

from __future__ import annotations

import argparse
from itertools import combinations

import numpy as np

from benchmarks.verdicts import HUMAN
from titjudge.apps.bench.benchmark import SETTLING, rounds
from titjudge.runs.study.score_files import read_scores
from titjudge.stats.generators.sequential import OPEN, settle

DRAWS = 10


def made(settled_after: int, prompts: int) -> int:
    """Count the prompts whose images were made by the end of the round in which a question was settled."""
    ends = rounds(prompts, lambda done: prompts, growth=SETTLING)
    return next((end for end in ends if end >= settled_after), prompts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--human", default=HUMAN)
    parser.add_argument("--metric", default="yes_no")
    parser.add_argument("--prompts", type=int, default=500)
    parser.add_argument("--image", type=float, default=0.04, help="USD for an image")
    parser.add_argument("--judgement", type=float, default=0.002, help="USD for a score")
    given = parser.parse_args()
    table = read_scores(given.human, given.metric, bounds=(0.0, 1.0) if given.metric == "yes_no" else None)
    rng = np.random.default_rng(1)
    shares, images, dollars, wrong, still_open = [], [], [], 0, 0
    for a, b in combinations(range(len(table.generators)), 2):
        truth = float(np.nanmean(table.means[:, a] - table.means[:, b]))
        for _ in range(DRAWS):
            scores = table.means[rng.permutation(len(table.means))[: given.prompts]][:, (a, b)]
            result = settle((table.generators[a], table.generators[b]), scores, width=table.width)
            judged = given.prompts if result.verdict == OPEN else result.used
            still_open += result.verdict == OPEN
            better = table.generators[a] if truth > 0 else table.generators[b]
            wrong += result.verdict not in (OPEN, better)
            paid = made(judged, given.prompts)
            shares.append(judged / given.prompts)
            images.append(paid / given.prompts)
            whole = given.prompts * (given.image + given.judgement)
            dollars.append((paid * given.image + judged * given.judgement) / whole)
    count = len(shares)
    print(
        f"{count} questions on {given.prompts} prompts each, {given.metric}; {still_open} stay open, {wrong} name the wrong one"
    )
    for name, values in (("prompts judged", shares), ("images made", images), ("dollars", dollars)):
        quartiles = np.quantile(values, (0.25, 0.5, 0.75))
        print(f"{name}: {np.mean(values):.0%} of all on average; quartiles {', '.join(f'{q:.0%}' for q in quartiles)}")


if __name__ == "__main__":
    main()
