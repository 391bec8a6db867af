"""Where generators stop reading: the share of claims met by tenth of the prompt, and the place behind which it is lower.
python forgetting.py runs/agent tit-agent    # or graph-alignment, dsg, tifa: metrics that settle single claims"""

import sys
from pathlib import Path

import numpy as np

from titjudge.core.grouping import grouped
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.stats.bootstrap import codes
from titjudge.stats.scores.families import families
from titjudge.stats.scores.part_scores import claims_of


def fall(met: np.ndarray, cell: np.ndarray) -> tuple[float, int]:
    """Return the sum of squares that the best step down explains, and the hundredth of the prompt at which it lies."""
    n, hits = np.bincount(cell, minlength=100).cumsum(), np.bincount(cell, met, 100).cumsum()
    drop = (hits / np.maximum(n, 1) - (hits[-1] - hits) / np.maximum(n[-1] - n, 1))[:-1]
    explained = np.maximum(drop, 0) ** 2 * (n * (n[-1] - n))[:-1]
    return float(explained.max()), int(explained.argmax()) + 1


if __name__ == "__main__":
    run, rng, number = RunFolder(Path(sys.argv[1])), np.random.default_rng(0), {}
    every = claims_of(run.judged(), [score for (_, name), score in run.scores().items() if name == sys.argv[2]])
    declared, every = families(run.judged()), [claim for claim in every if claim.met is not None]
    for generator, own in grouped(every, lambda claim: claim.generator).items():
        own.sort(key=lambda claim: (claim.prompt_id, claim.kind, claim.position))
        met, cell = np.array([[claim.met, min(99, 100 * claim.position)] for claim in own]).T.astype(int)
        rows = [(c.prompt_id, c.kind) for c in own]  # p: verdicts are exchanged within these, those of a family alike
        (group, _), at = codes(rows), [number.setdefault(row, {}) for row in rows]
        ranks = [seen.setdefault(c.position, len(seen)) for seen, c in zip(at, own, strict=True)]
        slot, slots = codes((declared.get(p, p), kind, rank) for (p, kind), rank in zip(rows, ranks, strict=True))
        rates = [f"{met[cell // 10 == k].mean():.0%}" if k in cell // 10 else "-" for k in range(10)]
        found, where = fall(met, cell)
        draws = (fall(met[np.lexsort((rng.random(len(slots))[slot], group))], cell)[0] for _ in range(999))
        p = sum(draw >= found - 1e-9 for draw in (found, *draws)) / 1000
        said = f"fewer are met behind {where}% of the prompt" if p < 0.05 else "no fall beyond chance"
        print(f"{generator}: {' '.join(rates)}; {said} (p {p:.3f})")
