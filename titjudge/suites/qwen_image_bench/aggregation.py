"""`suites aggregate qwen-image-bench`: results from official files of Qwen-Image-Bench, or from a run."""

from __future__ import annotations

from importlib.util import find_spec

from titjudge.suites.aggregation import Aggregated, Aggregation, Source


def _compute(source: Source, protocol: str, facets: str) -> Aggregated:
    """Compute the results from saved answers or from a run, and write the official files."""
    from titjudge.suites.qwen_image_bench.dataset import write_scores_detail, write_scores_result
    from titjudge.suites.qwen_image_bench.suite import QwenImageBench, aggregate_responses, aggregate_run

    folder, written = source.official_files, []
    if source.judged is not None:
        if folder is not None:
            count = QwenImageBench().write_official(*source.judged, folder)
            written.append(f"{count} files written to {folder}")
        return Aggregated(*aggregate_run(*source.judged), written)
    source.check_count(2, 2, "the answers of the judge and bench_metadata.json")
    responses, metadata = source.files
    results, tables = aggregate_responses(responses, metadata, protocol=protocol, facets=int(facets))
    if folder is not None:
        write_scores_detail(results["models"], folder / "scores_detail.json")
        written.append(f"scores_detail.json written to {folder}")
        if find_spec("openpyxl") is not None:
            write_scores_result(results["models"], folder / "scores_result.xlsx")
            written.append(f"scores_result.xlsx written to {folder}")
    return Aggregated(results, tables, written)


QWEN_IMAGE_BENCH = Aggregation(
    summary="Qwen-Image-Bench: levels 1, 2, 3 and overall.",
    help="""Compute levels 1, 2, 3 and overall of Qwen-Image-Bench from a run, or from answers of the judge and bench_metadata.json.

    The answers are JSON lines of case, ID, model, dim, response. The official files of a run are GENERATOR_judged.jsonl,
    GENERATOR_bench_scores.json and .xlsx, scores_detail.json and scores_result.xlsx; of answers the last two.

    For answers, --suite-option protocol=strict averages over the facets that a prompt activates (paper, Eq. 8 to 10), and
    --suite-option facets=38 reads the rubric of Stability AI's fork instead of the 56 facets.

    \b
    Examples:
      python cli.py suites aggregate qwen-image-bench r.jsonl bench_metadata.json
      python cli.py suites aggregate qwen-image-bench runs/mine \\
        --official-files judged
    """,
    compute=_compute,
    metrics=("checklist",),
    options={"protocol": ("official", "strict"), "facets": ("56", "38")},
)
