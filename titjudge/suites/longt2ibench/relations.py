"""The six categories of relations that LongT2IBench tells apart (paper, Figure 4d), and how many of each are aligned.

The paper names the categories and does not say how a relation gets its own; here the words of the relation decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from titjudge.core.numbers import mean
from titjudge.core.types import Json, Table, Values
from titjudge.metrics.longt2ibench_text import Alignment

_WORDS: Mapping[str, str] = {
    "connection": "attached bound chained connected connecting connects fastened fixed joined joining linked linking links tied",
    "possession": "belonging belongs contain containing contains had has have having holds includes including of owned owning owns "
    "possesses possessing with",
    "spatial": "above adjacent against along alongside amid among around at atop behind below beneath beside besides between beyond by "
    "close facing in inside left near nearby next off on opposite outside over right surrounded surrounding surrounds under "
    "underneath upon within",
    "from/to": "away from into onto out through to toward towards",
    "description": "appear appearing appears are as be being depicting depicts described is like look looks made representing "
    "represents resembles resembling seems showing shows symbolizing was were",
}
_KINDS = {kind: frozenset(words.split()) for kind, words in _WORDS.items()}
KINDS = ("action", "connection", "description", "possession", "from/to", "spatial")


def kind_of(relation: str) -> str:
    """Choose the category of a relation: the first in `_WORDS` of which it has a word, else action."""
    words = set(re.findall(r"[a-z]+", relation.casefold()))
    return next((kind for kind, typical in _KINDS.items() if words & typical), "action")


def relation_rates(rows: Iterable[tuple[Alignment | None, Alignment]]) -> Json:
    """Compute the shares of aligned relations by category.

    Args:
        rows: People's alignment of an image, and the judge's.

    Returns:
        `{CATEGORY: {"relations", "judge": share, "people": share}}`, of the categories that occur.
    """
    verdicts: dict[str, dict[str, list[float]]] = {kind: {"judge": [], "people": []} for kind in KINDS}
    for truth, predicted in rows:
        for who, alignment in (("judge", predicted), ("people", truth or {})):
            for (_, relation, _), aligned in alignment.get("relation", ()):
                verdicts[kind_of(relation)][who].append(float(aligned))
    return {
        kind: {"relations": len(by_rater["judge"]), **{who: mean(marks) for who, marks in by_rater.items()}}
        for kind, by_rater in verdicts.items()
        if any(by_rater.values())
    }


def percent(share: float | None) -> float | None:
    """Return a share in percent; None stays None."""
    return None if share is None else 100 * share


def relation_table(rates: Values) -> Table:
    """Make the table of `relation_rates`, in percent."""
    rows = tuple(
        (kind, rate["relations"], percent(rate["judge"]), percent(rate["people"])) for kind, rate in rates.items()
    )
    notes = ("The words of a relation say its category (the paper names six, and no rule).",)
    columns = ("category", "relations", "aligned", "aligned (people)")
    return Table("LongT2IBench: aligned relations by category", columns, rows, notes)
