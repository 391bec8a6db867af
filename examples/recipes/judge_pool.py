"""Find which judges of a sweep agree best with people together: the mean of the standardised scores of at most three.
python judge_pool.py runs/sweep"""

import json
import sys
from itertools import combinations
from pathlib import Path

import numpy as np

from titjudge.core.run_records import joined_pairs
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.stats.pairwise_accuracy import PairIndex
from titjudge.stats.scores.families import families, in_families
from titjudge.stats.verdict.judged_runs import whole_frame


def main(folder: str) -> None:
    rows = json.loads(Path(folder, "sweep.json").read_bytes())["rows"]
    runs = {row["run"]: RunFolder(Path(folder, row["run"])) for row in rows}
    pairs = [pair for pair in joined_pairs(map(RunFolder.results, runs.values())) if pair.preference != "tie"]
    declared = families(item for run in runs.values() for item in run.items(slim=True))
    index, gaps = PairIndex.from_pairs(in_families(pairs, declared)), {}
    for row in rows:
        values = index.scores(whole_frame(runs[row["run"]]).values(row["metric"]))
        gaps[f"{row['metric']} ({row['run']})"] = (values[index.a] - values[index.b]) / (np.nanstd(values) or 1.0)
    pools = [pool for size in (1, 2, 3) for pool in combinations(gaps, size)]
    right = np.array([np.sign(sum(gaps[name] for name in pool).round(9)) == index.preference for pool in pools])
    fold = np.random.default_rng(0).permutation(len(index.groups))[index.unit] % 5  # families stay together
    held_out = np.concatenate([right[right[:, fold != k].mean(axis=1).argmax(), fold == k] for k in range(5)])
    accuracy = right.mean(axis=1)
    best, single = accuracy.argmax(), accuracy[: len(gaps)].argmax()
    print(f"best alone: {pools[single][0]}: accuracy {accuracy[single]:.3f}")
    print(f"best together: {' + '.join(pools[best])}: accuracy {accuracy[best]:.3f}")
    print(f"accuracy of such a choice on prompts without a say in it: {held_out.mean():.3f} ({len(pairs):,} pairs)")


if __name__ == "__main__":
    main(*sys.argv[1:])
