"""Test how much a judge can be trusted: a battery of tests, its trust card, and canaries that detect changed models.

Effects on scores are in spans: 1 is the distance between the judge's mean scores for images without errors and with the most
errors. Shares and p-values are from 0 to 1, intervals are 95% and over prompts. Without known answers in the data, the tests
raise `DataError`.

| module | content |
| --- | --- |
| `probe` | `probe(engine, name, metric, ...)`: run the battery over a judge, and exchange texts with other judges, and write its card |
| `battery`, `prompt_edits` | the tests: items with known answers, each also with one thing changed |
| `item_scorer` | scoring the items of a battery; the unit of the effects |
| `trust_card` | effects, intervals, p-values and verdicts of a card |
| `canary` | frozen questions, asked again before a run, that show whether a model has changed |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from titjudge.core.lazy import lazy_exports

if TYPE_CHECKING:
    from titjudge.probes.canary import CanaryReport, ask_canaries
    from titjudge.probes.item_scorer import Prober
    from titjudge.probes.trust_card import Line
    from titjudge.report.card_record import CardRecord
    from titjudge.stats.comparable_runs import drift_between

    __all__ = ["CanaryReport", "CardRecord", "Line", "Prober", "ask_canaries", "drift_between"]
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "titjudge.stats.comparable_runs": "drift_between",
            "titjudge.probes.canary": "CanaryReport ask_canaries",
            "titjudge.probes.item_scorer": "Prober",
            "titjudge.report.card_record": "CardRecord",
            "titjudge.probes.trust_card": "Line",
        },
    )
