"""`suites aggregate longt2ibench`: results from official files of LongT2IBench, or from a run."""

from __future__ import annotations

from titjudge.core.errors import UserError
from titjudge.suites.aggregation import Aggregated, Aggregation, Source


def _compute(source: Source, matching: str) -> Aggregated:
    """Compute the results from a run or from the file of one official script, and write the official files."""
    from titjudge.core.files import read_json
    from titjudge.suites.longt2ibench import suite

    folder = source.official_files
    if source.judged is not None:
        written = []
        if folder is not None:
            count = suite.LongT2IBench().write_official(*source.judged, folder)
            written.append(f"{count} files written to {folder}")
        return Aggregated(*suite.aggregate_run(*source.judged, matching=matching), written)
    source.check_count(1, 2, "generation_results or prediction_results, and the split if you have it")
    if folder is not None:
        raise UserError("--official-files requires a run. Give a run folder, or remove the option")
    if isinstance(read_json(source.files[0]), list):
        source.check_count(1, 1, "prediction_results alone")
        return Aggregated(*suite.aggregate_predictions(source.files[0]))
    return Aggregated(*suite.aggregate_generations(*source.files, matching=matching))


LONGT2IBENCH = Aggregation(
    summary="LongT2IBench: accuracy, SRCC and PLCC.",
    help="""Compute the results of LongT2IBench: accuracy of the interpretation, SRCC and PLCC, also by prompt length.

    Give a run, or generation_results or prediction_results of the official scripts. For the accuracy, generation_results
    needs the split (train, test or val .json) with the annotations as a second file. The official files of a run are
    generation_results.json and prediction_results.json.

    --suite-option matching=RULE chooses how predicted elements are matched: exact, casefold or loose.

    \b
    Examples:
      python cli.py suites aggregate longt2ibench runs/mine \\
        --official-files official
      python cli.py suites aggregate longt2ibench generation_results.json test.json
    """,
    compute=_compute,
    metrics=("graph-alignment",),
    options={"matching": ("casefold", "exact", "loose", "exact-group", "casefold-group", "loose-group")},
)
