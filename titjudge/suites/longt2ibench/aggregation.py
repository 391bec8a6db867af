"""`suites aggregate longt2ibench`: the flags of LongT2IBench's official files, and their results."""

from __future__ import annotations

from pathlib import Path

from titjudge.core.errors import UserError
from titjudge.suites.aggregation import Aggregated, Aggregation, Flag, Judged


def _compute(
    generations: Path | None,
    predictions: Path | None,
    run: Judged | None,
    write_generations: Path | None,
    write_predictions: Path | None,
    split: Path | None,
    matching: str,
) -> Aggregated:
    """Compute the results from one of three sources, and write the official files that were asked for."""
    from titjudge.core.files import write_json
    from titjudge.suites.longt2ibench import suite

    if sum(source is not None for source in (generations, predictions, run)) != 1:
        raise UserError("give --generations FILE, --predictions FILE or --run RUN")
    if run is None and (write_generations is not None or write_predictions is not None):
        raise UserError("--write-generations and --write-predictions require the answers of a run. Add --run RUN")
    if run is not None:
        items, scores = run()
        if write_generations is not None:
            write_json(write_generations, suite.generation_results(items, scores))
        if write_predictions is not None:
            write_json(write_predictions, suite.prediction_results(items, scores))
        return Aggregated(*suite.aggregate_run(items, scores, matching=matching))
    if generations is not None:
        return Aggregated(*suite.aggregate_generations(generations, split, matching=matching))
    assert predictions is not None
    return Aggregated(*suite.aggregate_predictions(predictions))


LONGT2IBENCH = Aggregation(
    summary="LongT2IBench: accuracy, SRCC and PLCC.",
    help="""Compute the results of LongT2IBench: accuracy of the interpretation (with --split), SRCC and PLCC, also by prompt length.

    \b
    Example:
      python cli.py suites aggregate longt2ibench --run runs/mine \\
        --write-generations g.json --write-predictions p.json
    """,
    flags=(
        Flag("generations", "A saved generation_results file of the official script."),
        Flag("predictions", "A saved prediction_results file of the official script."),
        Flag("run", "A run of the suite instead of saved results.", "RUN"),
        Flag("write-generations", "With --run: write its answers as generation_results."),
        Flag("write-predictions", "With --run: write its scores as prediction_results."),
        Flag("split", "The split (train, test or val .json) with the annotations."),
        Flag("matching", "How predicted elements are matched.", "RULE", default="casefold"),
    ),
    compute=_compute,
    metrics=("graph-alignment",),
)
