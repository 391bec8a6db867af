"""`suites aggregate qwen-image-bench`: the flags of Qwen-Image-Bench's official files, and their results."""

from __future__ import annotations

from pathlib import Path

from titjudge.core.errors import UserError
from titjudge.suites.aggregation import Aggregated, Aggregation, Flag, Judged


def _compute(
    responses: Path | None,
    metadata: Path | None,
    run: Judged | None,
    official_files: Path | None,
    protocol: str,
    facets: str,
    detail: Path | None,
    xlsx: Path | None,
) -> Aggregated:
    """Compute the results from saved answers or from a run, and write the official files that were asked for."""
    from titjudge.suites.qwen_image_bench.dataset import write_scores_detail, write_scores_result
    from titjudge.suites.qwen_image_bench.suite import QwenImageBench, aggregate_responses, aggregate_run

    written = []
    if run is not None:
        if responses is not None:
            raise UserError("--responses cannot be combined with --run. Remove one of them")
        items, scores = run()
        if official_files is not None:
            count = QwenImageBench().write_official(items, scores, official_files)
            written.append(f"{count} files written to {official_files}")
        results, tables = aggregate_run(items, scores)
    elif responses is None or metadata is None:
        raise UserError("give --responses FILE with --metadata FILE, or --run RUN")
    elif official_files is not None:
        raise UserError("--official-files requires the answers of a run. Add --run RUN")
    else:
        results, tables = aggregate_responses(responses, metadata, protocol=protocol, facets=int(facets))
    if detail is not None:
        write_scores_detail(results["models"], detail)
    if xlsx is not None:
        write_scores_result(results["models"], xlsx)
    return Aggregated(results, tables, written)


QWEN_IMAGE_BENCH = Aggregation(
    summary="Qwen-Image-Bench: levels 1, 2, 3 and overall.",
    help="""Compute levels 1, 2, 3 and overall of Qwen-Image-Bench from responses of the judge, or from a run.

    \b
    Examples:
      python cli.py suites aggregate qwen-image-bench --responses r.jsonl \\
        --metadata bench_metadata.json
      python cli.py suites aggregate qwen-image-bench --run runs/mine \\
        --official-files judged
    """,
    flags=(
        Flag("responses", "Answers of the judge: JSON lines of case, ID, model, dim, response."),
        Flag("metadata", "bench_metadata.json of the benchmark."),
        Flag("run", "A run of the suite instead of responses.", "RUN"),
        Flag(
            "official-files",
            "With --run: the folder to write its answers and scores to, as the official scripts do: GENERATOR_judged.jsonl, "
            "GENERATOR_bench_scores.json and .xlsx, scores_detail.json, scores_result.xlsx.",
            "DIR",
            alias="write-answers",
        ),
        Flag(
            "protocol",
            "strict averages over the facets that a prompt activates (paper, Eq. 8 to 10). Not used with --run.",
            None,
            choices=("official", "strict"),
            default="official",
        ),
        Flag(
            "facets",
            "Number of facets in the rubric; 38 is Stability AI's fork. Not used with --run.",
            "N",
            choices=("56", "38"),
            default="56",
        ),
        Flag("detail", "Write the official scores_detail.json, with level 3."),
        Flag("xlsx", "Write the official scores_result.xlsx."),
    ),
    compute=_compute,
    metrics=("checklist",),
)
