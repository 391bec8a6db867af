"""Where generators stop reading: the share of claims met by tenth of the prompt, and the place of its fall.
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
    """Return the sum of squares explained by the best step down, and its hundredth of the prompt."""
    n, hits = np.bincount(cell, minlength=100).cumsum(), np.bincount(cell, met, 100).cumsum()
    drop = (hits / np.maximum(n, 1) - (hits[-1] - hits) / np.maximum(n[-1] - n, 1))[:-1]
    explained = np.maximum(drop, 0) ** 2 * (n * (n[-1] - n))[:-1]
    return float(explained.max()), int(explained.argmax()) + 1


if __name__ == "__main__":
    run, rng, number = RunFolder(Path(sys.argv[1])), np.random.default_rng(0), {}
    items = {item.id: item for item in run.judged()}
    scores = [score for (id, name), score in run.scores().items() if name == sys.argv[2] and score.value is not None]
    every = [(s, claim) for s in scores for claim in claims_of(items[s.item_id], s) if claim[2] is not None]
    declared = families(items.values())
    for generator, own in grouped(every, lambda pair: pair[0].generator).items():
        own = sorted((items[score.item_id].prompt_id, kind, at, met) for score, (at, kind, met) in own)
        met, cell = np.array([[met, min(99, 100 * at)] for *_, at, met in own]).T.astype(int)
        ranks = [(seen := number.setdefault(row[:2], {})).setdefault(row[2], len(seen)) for row in own]
        slot, slots = codes((declared.get(p, p), kind, rank) for (p, kind, *_), rank in zip(own, ranks, strict=True))
        group = codes([row[:2] for row in own])[0]  # verdicts are exchanged within these, and alike within a family
        rates = [f"{met[cell // 10 == k].mean():.0%}" if k in cell // 10 else "-" for k in range(10)]
        draws = [fall(met[np.lexsort((rng.random(len(slots))[slot], group))], cell)[0] for _ in range(999)]
        p = (1 + sum(np.array(draws) >= fall(met, cell)[0] - 1e-9)) / 1000
        said = f"fewer are met behind {fall(met, cell)[1]}% of the prompt" if p < 0.05 else "no fall beyond chance"
        print(f"{generator}: {' '.join(rates)}; {said} (p {p:.3f})")
