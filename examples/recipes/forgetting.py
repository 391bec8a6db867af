"""Where generators stop reading: the share of claims met by tenth of the prompt, and the place behind which it is lower.
python forgetting.py runs/agent tit-agent    # or graph-alignment, dsg, tifa: metrics that settle single claims"""

import sys
from pathlib import Path

import numpy as np

from titjudge.core.grouping import grouped
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.stats.bootstrap import codes
from titjudge.stats.scores.claims import claims_of

CELLS = 100  # hundredths of the prompt


def fall(met: np.ndarray, cell: np.ndarray) -> tuple[float, int]:
    """Return the sum of squares that the best step down explains, and the cell at which it lies."""
    n, hits = np.bincount(cell, minlength=CELLS).cumsum(), np.bincount(cell, met, CELLS).cumsum()
    with np.errstate(invalid="ignore", divide="ignore"):
        drop = (hits / n - (hits[-1] - hits) / (n[-1] - n))[:-1]
    explained = np.nan_to_num(np.maximum(drop, 0) ** 2 * (n * (n[-1] - n))[:-1])
    return float(explained.max()), int(explained.argmax()) + 1


if __name__ == "__main__":
    run, metric, rng = RunFolder(Path(sys.argv[1])), sys.argv[2], np.random.default_rng(0)
    every = claims_of(run.judged(), [score for (_, name), score in run.scores().items() if name == metric])
    settled = [claim for claim in every if claim.met is not None]
    for generator, own in grouped(settled, lambda claim: claim.generator).items():
        own.sort(key=lambda claim: (claim.prompt_id, claim.kind))
        met, place = np.array([float(claim.met) for claim in own]), np.array([claim.position for claim in own])
        group, _ = codes((claim.prompt_id, claim.kind) for claim in own)  # p: verdicts are exchanged within these
        tenth, cell = np.minimum(place * 10, 9).astype(int), np.minimum(place * CELLS, CELLS - 1).astype(int)
        rates = [f"{met[tenth == k].mean():.0%}" if k in tenth else "-" for k in range(10)]
        found, where = fall(met, cell)
        draws = (fall(met[np.lexsort((rng.random(len(met)), group))], cell)[0] for _ in range(999))
        p = sum(draw >= found - 1e-9 for draw in (found, *draws)) / 1000
        said = f"fewer are met behind {where / CELLS:.0%} of the prompt" if p < 0.05 else "no fall beyond chance"
        print(f"{generator}: {' '.join(rates)}; {said} (p {p:.3f})")
