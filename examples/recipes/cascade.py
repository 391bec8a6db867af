"""Ask a cheap judge first, and an expensive one if the scores of both images are close: find how close, and the price.
python cascade.py runs/small runs/large tit-llm 0.01    # at most 0.01 less accurate on the human pairs than the best way"""

import sys
from pathlib import Path

import numpy as np

from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.study.compared_runs import ComparedRuns
from titjudge.stats.pairwise_accuracy import PairIndex
from titjudge.stats.verdict.judged_runs import whole_frame

if __name__ == "__main__":
    *folders, metric, tolerance = sys.argv[1:]
    runs = [RunFolder(Path(folder)) for folder in folders]
    pairs = [pair for pair in ComparedRuns([Path(folders[0])]).pairs(None) if pair.preference != "tie"]
    index, gaps, keys, price = PairIndex.from_pairs(pairs), [], [], {}
    for run in runs:
        frame = whole_frame(run)
        scores, (a, b) = [score for *_, score in frame.rows(metric)], index.values(frame.values(metric))
        gaps.append(np.nan_to_num(a - b))  # no answer is passed on, and is never right
        keys.append({key for score in scores for key in score.replies})
        price |= {reply["key"]: 2 * reply["list_cost"] / len(scores) for reply in run.replies()}  # USD a pair
    first, more = (sum(price.get(key, 0.0) for key in some) for some in (keys[0], keys[1] - keys[0]))
    margins = np.unique([0.0, *np.abs(gaps[0]), np.inf])  # a pair whose scores differ by less goes to the large judge
    passed = (np.abs(gaps[0]) < margins[:, None]) | (gaps[0] == 0)
    right = np.where(passed, *(np.sign(gap) == index.preference for gap in reversed(gaps)))

    def choose(some: np.ndarray) -> int:
        accuracy, asked = right[:, some].mean(axis=1), passed[:, some].mean(axis=1)
        return int(np.where(accuracy >= accuracy.max() - float(tolerance), asked, np.inf).argmin())

    fold = np.random.default_rng(0).permutation(len(index.groups))[index.unit] % 5  # families stay together
    unseen = np.concatenate([right[choose(fold != k), fold == k] for k in range(5)]).mean()
    best = choose(fold >= 0)
    print(f"to the large judge if scores differ by less than {margins[best]:.4g}: {passed[best].mean():.1%} of pairs")
    print(f"accuracy {right[best].mean():.3f} on these pairs, {unseen:.3f} on prompts without a say in the choice")
    print(f"USD per 1,000 pairs: {1000 * (first + passed[best].mean() * more):.4g}")
