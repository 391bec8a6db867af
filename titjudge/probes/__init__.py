"""Find out how far a judge can be believed: a battery of tests, its trust card, canaries against silent changes.

| module | what it holds |
| --- | --- |
| `probe` | `probe(engine, name, metric, ...)`: run the battery over a judge and write its card |
| `battery`, `prompt_edits`, `attacks` | what is put to a judge: known answers, and each again with one thing changed |
| `self_preference` | whether a judge prefers what a model of its own family wrote |
| `item_scorer`, `effect_size` | scoring the items of a battery; the unit in which effects are told |
| `trust_card` | effects, intervals, p-values and verdicts of a card |
| `canary`, `canary_run` | frozen questions, asked again before a run: has a model changed? |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from titjudge.core.lazy import lazy_exports

if TYPE_CHECKING:
    from titjudge.probes.canary import CanaryReport, ask_canaries, drift_between
    from titjudge.probes.item_scorer import Prober
    from titjudge.probes.trust_card import Card, Line

    __all__ = ["CanaryReport", "Card", "Line", "Prober", "ask_canaries", "drift_between"]
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "titjudge.probes.canary": "CanaryReport ask_canaries drift_between",
            "titjudge.probes.item_scorer": "Prober",
            "titjudge.probes.trust_card": "Card Line",
        },
    )
