"""`aggregate`: compute the official tables of a benchmark from answers that exist already."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from titjudge.cli.options import JSON, PATH, option
from titjudge.cli.output import show_results, write_json
from titjudge.cli.terminal import say
from titjudge.core.errors import UserError

if TYPE_CHECKING:
    from titjudge.core.types import Item, Score


@click.group()
def aggregate() -> None:
    """Compute the official tables of a benchmark from files that its scripts, or a run, have written. No model is asked.

    \b
    Examples:
      python cli.py aggregate tiif --answers eval_results --json tiif.json
      python cli.py aggregate tiif-text --ocr ocr.json
      python cli.py aggregate qwen-image-bench --responses r.jsonl \\
        --metadata bench_metadata.json
    """


def _judged(run: Path, *metrics: str) -> tuple[list[Item], list[Score]]:
    """Read the items of a run, and its scores by these metrics."""
    from titjudge.runs.folder.run_folder import RunFolder

    folder = RunFolder(run)
    folder.manifest()
    scores = [score for score in folder.scores().values() if score.metric in metrics]
    return list(folder.judged()), scores


@aggregate.command(short_help="TIIF-Bench: types, nine dimensions, overall.")
@option("--answers", "Folder with the answers as GENERATOR/TYPE/{short,long}/INDEX.json.", "DIR", type=PATH)
@option("--run", "A run of the suite tiif instead of a folder of answers.", "RUN", name="run_folder", type=PATH)
@option("--write-answers", "With --run: the folder to write its answers to, in the official layout.", "DIR", type=PATH)
@option("--xlsx", "Write the official result_summary.xlsx.", "FILE", type=PATH)
@option("--summary", "Write the official summary by dimension (a text file).", "FILE", type=PATH)
@option("--scores", "Write the scores of the answers as CSV, for `compare runs --human`.", "FILE", type=PATH)
@option(
    "--published", "Read an official result_summary.xlsx or summary by dimension instead of answers.", "FILE", type=PATH
)
@JSON
def tiif(
    answers: Path | None, run_folder: Path | None, write_answers: Path | None, xlsx: Path | None, summary: Path | None,
    scores: Path | None, published: Path | None, json_file: Path | None,
) -> int:  # fmt: skip
    """Compute the tables of TIIF-Bench in percent: types, nine dimensions, Basic, Advanced and Overall.

    \b
    Examples:
      python cli.py aggregate tiif --answers eval_results \\
        --xlsx result_summary.xlsx
      python cli.py aggregate tiif --run runs/mine --write-answers eval_results
      python cli.py aggregate tiif --published result_summary.xlsx
    """
    from titjudge.core.files import csv_text
    from titjudge.suites.tiif import answers as tiif_answers
    from titjudge.suites.tiif import summary_files
    from titjudge.suites.tiif.suite import aggregate_answers
    from titjudge.suites.tiif.tables import published_table

    if published is not None:
        if answers is not None or run_folder is not None:
            raise UserError("give --published, or --answers or --run, not both")
        read = summary_files.read_xlsx if published.suffix.lower() == ".xlsx" else summary_files.read_dimension_text
        summaries = read(published)
        show_results([published_table(summaries)], summaries, json_file)
        return 0
    if run_folder is not None:
        if write_answers is None:
            raise UserError("--run needs --write-answers DIR: where the official tree goes")
        count = tiif_answers.write_answers(write_answers, *_judged(run_folder, "yes-no"))
        say(f"{count} answers written to {write_answers}")
        answers = write_answers
    if answers is None:
        raise UserError("give --answers DIR, or --run RUN with --write-answers DIR")
    if xlsx is not None or summary is not None:
        counted = tiif_answers.read_answers(answers)
        if xlsx is not None:
            summary_files.write_xlsx(counted, xlsx)
        if summary is not None:
            summary.write_text(summary_files.dimension_text(counted), encoding="utf-8")
    if scores is not None:
        rows = [(score.item_id, score.value) for score in tiif_answers.answers_as_scores(answers)]
        scores.write_text(csv_text(("image", "score"), rows), encoding="utf-8")
    results, tables = aggregate_answers(answers)
    show_results(tables, results, json_file)
    return 0


@aggregate.command("tiif-text", short_help="TIIF-Bench text rendering: GNED, recall and PNED.")
@option(
    "--ocr",
    "Results of PaddleOCR (2 or 3) with the words to find; repeatable, one file for each generator.",
    "FILE",
    type=PATH,
    multiple=True,
)
@option("--questions", "The text questions, if the results do not contain the words to find.", "FILE", type=PATH)
@option("--run", "A run of the suite tiif instead of OCR results.", "RUN", name="run_folder", type=PATH)
@option(
    "--write-ocr",
    "With --run: the folder to write the words that were read to, as the official OCR script does (GENERATOR.json).",
    "DIR",
    type=PATH,
)
@option("--official", "Write the official file: file_name, GNED_score_short, ... of each generator.", "FILE", type=PATH)
@JSON
def tiif_text(
    ocr: tuple[Path, ...], questions: Path | None, run_folder: Path | None, write_ocr: Path | None,
    official: Path | None, json_file: Path | None,
) -> int:  # fmt: skip
    """Compute the text rendering scores of TIIF-Bench: GNED, recall and PNED.

    \b
    Examples:
      python cli.py aggregate tiif-text --ocr a.json --ocr b.json \\
        --official gned.json
      python cli.py aggregate tiif-text --run runs/mine --write-ocr ocr
    """
    from titjudge.core.files import write_atomic
    from titjudge.suites.tiif import text_rendering

    if run_folder is not None:
        if ocr or write_ocr is None:
            raise UserError("--run RUN goes with --write-ocr DIR, and without --ocr")
        count = text_rendering.write_ocr(*_judged(run_folder, *text_rendering.METRICS), write_ocr)
        say(f"{count} files written to {write_ocr}")
        ocr = tuple(sorted(write_ocr.glob("*.json")))
    if not ocr:
        raise UserError("give --ocr FILE, or --run RUN with --write-ocr DIR")
    by_file = {file: text_rendering.aggregate_text(file, questions) for file in ocr}
    if official is not None:
        keyed = [text_rendering.official_keys(file, result) for file, (result, _) in by_file.items()]
        write_atomic(official, json.dumps(keyed, ensure_ascii=False, indent=4))
    results = {file.stem: result for file, (result, _) in by_file.items()}
    tables = [table for _, of_file in by_file.values() for table in of_file]
    show_results(tables, results if len(by_file) > 1 else next(iter(results.values())), json_file)
    return 0


@aggregate.command("qwen-image-bench", short_help="Qwen-Image-Bench: levels 1, 2, 3 and overall.")
@option("--responses", "Answers of the judge: JSON lines of case, ID, model, dim, response.", "FILE", type=PATH)
@option("--metadata", "bench_metadata.json of the benchmark.", "FILE", type=PATH)
@option("--run", "A run of the suite instead of responses.", "RUN", name="run_folder", type=PATH)
@option(
    "--official-files",
    "With --run: the folder to write its answers and scores to, as the official scripts do: GENERATOR_judged.jsonl, "
    "GENERATOR_bench_scores.json and .xlsx, scores_detail.json, scores_result.xlsx.",
    "DIR",
    name="--write-answers",
    type=PATH,
)
@option(
    "--protocol",
    "strict averages over the facets that a prompt activates (paper, Eq. 8 to 10). A run has its own protocol.",
    type=click.Choice(["official", "strict"]),
    default="official",
)
@option(
    "--facets",
    "Number of facets in the rubric; 38 is Stability AI's fork. A run has its own rubric.",
    "N",
    type=click.Choice(["56", "38"]),
    default="56",
)
@option("--detail", "Write the official scores_detail.json, with level 3.", "FILE", type=PATH)
@option("--xlsx", "Write the official scores_result.xlsx.", "FILE", type=PATH)
@JSON
def qwen_image_bench(
    responses: Path | None, metadata: Path | None, run_folder: Path | None, official_files: Path | None, protocol: str,
    facets: str, detail: Path | None, xlsx: Path | None, json_file: Path | None,
) -> int:  # fmt: skip
    """Compute levels 1, 2, 3 and overall of Qwen-Image-Bench from responses of the judge, or from a run.

    \b
    Examples:
      python cli.py aggregate qwen-image-bench --responses r.jsonl \\
        --metadata bench_metadata.json
      python cli.py aggregate qwen-image-bench --run runs/mine \\
        --official-files judged
    """
    from titjudge.suites.qwen_image_bench.suite import QwenImageBench, aggregate_responses, aggregate_run
    from titjudge.suites.qwen_image_bench.tables import write_scores_detail, write_scores_result

    if run_folder is not None:
        if responses is not None:
            raise UserError("give --responses or --run, not both")
        items, scores = _judged(run_folder, "checklist")
        if official_files is not None:
            count = QwenImageBench().write_official(items, scores, official_files)
            say(f"{count} files written to {official_files}")
        results, tables = aggregate_run(items, scores)
    elif responses is None or metadata is None:
        raise UserError("give --responses FILE with --metadata FILE, or --run RUN")
    elif official_files is not None:
        raise UserError("--official-files needs --run RUN: whose answers to write")
    else:
        results, tables = aggregate_responses(responses, metadata, protocol=protocol, facets=int(facets))
    if detail is not None:
        write_scores_detail(results["models"], detail)
    if xlsx is not None:
        write_scores_result(results["models"], xlsx)
    show_results(tables, results, json_file)
    return 0


@aggregate.command(short_help="LongT2IBench: accuracy, SRCC and PLCC.")
@option("--generations", "A saved generation_results file of the official script.", "FILE", type=PATH)
@option("--predictions", "A saved prediction_results file of the official script.", "FILE", type=PATH)
@option("--run", "A run of the suite instead of saved results.", "RUN", name="run_folder", type=PATH)
@option("--write-generations", "With --run: write its answers as generation_results.", "FILE", type=PATH)
@option("--write-predictions", "With --run: write its scores as prediction_results.", "FILE", type=PATH)
@option("--split", "The split (train, test or val .json) with the annotations.", "FILE", type=PATH)
@option("--matching", "How predicted elements are matched.", "RULE", default="casefold")
@JSON
def longt2ibench(
    generations: Path | None, predictions: Path | None, run_folder: Path | None, write_generations: Path | None,
    write_predictions: Path | None, split: Path | None, matching: str, json_file: Path | None,
) -> int:  # fmt: skip
    """Compute the results of LongT2IBench: accuracy of the interpretation (with --split), SRCC and PLCC, also by prompt length.

    \b
    Example:
      python cli.py aggregate longt2ibench --run runs/mine \\
        --write-generations g.json --write-predictions p.json
    """
    from titjudge.suites.longt2ibench import saved
    from titjudge.suites.longt2ibench.suite import aggregate_run

    if sum(source is not None for source in (generations, predictions, run_folder)) != 1:
        raise UserError("give --generations FILE, --predictions FILE or --run RUN")
    if run_folder is None and (write_generations is not None or write_predictions is not None):
        raise UserError("--write-generations and --write-predictions need --run RUN: whose answers to write")
    if run_folder is not None:
        items, scores = _judged(run_folder, saved.METRIC)
        if write_generations is not None:
            write_json(write_generations, saved.generation_results(items, scores))
        if write_predictions is not None:
            write_json(write_predictions, saved.prediction_results(items, scores))
        results, tables = aggregate_run(items, scores, matching=matching)
    elif generations is not None:
        results, tables = saved.aggregate_generations(generations, split, matching=matching)
    elif predictions is not None:
        results, tables = saved.aggregate_predictions(predictions)
    show_results(tables, results, json_file)
    return 0


@aggregate.command(short_help="GenEval: the six tasks and their mean.")
@option(
    "--results",
    "results.jsonl of GenEval's evaluate_images.py; repeatable, one for each generator.",
    "FILE",
    type=PATH,
    multiple=True,
    required=True,
)
@JSON
def geneval(results: tuple[Path, ...], json_file: Path | None) -> int:
    """Compute the six tasks of GenEval and their mean from the results of its script.

    \b
    Example:
      python cli.py aggregate geneval --results flux.jsonl --results sd3.jsonl
    """
    from titjudge.suites.geneval import aggregate_results

    scores, tables = aggregate_results(results)
    show_results(tables, scores, json_file)
    return 0
