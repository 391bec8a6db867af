"""`suites aggregate tiif` and `suites aggregate tiif-text`: the flags of TIIF-Bench's official files, and their results."""

from __future__ import annotations

from pathlib import Path

from titjudge.core.errors import UserError
from titjudge.suites.aggregation import Aggregated, Aggregation, Flag, Judged


def _answers(
    answers: Path | None,
    run: Judged | None,
    write_answers: Path | None,
    xlsx: Path | None,
    summary: Path | None,
    scores: Path | None,
    published: Path | None,
) -> Aggregated:
    """Compute the results from a tree of answers, a run or a published summary, and write the files that were asked for."""
    from titjudge.core.files import csv_text
    from titjudge.suites.tiif import answers as tree
    from titjudge.suites.tiif import summary_files
    from titjudge.suites.tiif.answers import published_table, results, tables

    if published is not None:
        if answers is not None or run is not None:
            raise UserError("--published cannot be combined with --answers or --run. Remove one of them")
        read = summary_files.read_xlsx if published.suffix.lower() == ".xlsx" else summary_files.read_dimension_text
        summaries = read(published)
        return Aggregated(summaries, [published_table(summaries)])
    written = []
    if run is not None:
        if write_answers is None:
            raise UserError("--run requires a folder for the official files. Add --write-answers DIR")
        count = tree.write_answers(write_answers, *run())
        written.append(f"{count} answers written to {write_answers}")
        answers = write_answers
    if answers is None:
        raise UserError("give --answers DIR, or --run RUN with --write-answers DIR")
    counted = tree.read_answers(answers)
    if xlsx is not None:
        summary_files.write_xlsx(counted, xlsx)
    if summary is not None:
        summary.write_text(summary_files.dimension_text(counted), encoding="utf-8")
    if scores is not None:
        rows = [(score.item_id, score.value) for score in tree.answers_as_scores(answers)]
        scores.write_text(csv_text(("image", "score"), rows), encoding="utf-8")
    result = results(counted)
    return Aggregated(result, tables(result), written)


TIIF = Aggregation(
    summary="TIIF-Bench: types, nine dimensions, overall.",
    help="""Compute the tables of TIIF-Bench in percent: types, nine dimensions, Basic, Advanced and Overall.

    \b
    Examples:
      python cli.py suites aggregate tiif --answers eval_results \\
        --xlsx result_summary.xlsx
      python cli.py suites aggregate tiif --run runs/mine --write-answers eval_results
      python cli.py suites aggregate tiif --published result_summary.xlsx
    """,
    flags=(
        Flag("answers", "Folder with the answers as GENERATOR/TYPE/{short,long}/INDEX.json.", "DIR"),
        Flag("run", "A run of the suite tiif instead of a folder of answers.", "RUN"),
        Flag("write-answers", "With --run: the folder to write its answers to, in the official layout.", "DIR"),
        Flag("xlsx", "Write the official result_summary.xlsx."),
        Flag("summary", "Write the official summary by dimension (a text file)."),
        Flag("scores", "Write the scores of the answers as CSV, for `judges agreement --human`."),
        Flag("published", "Read an official result_summary.xlsx or summary by dimension instead of answers."),
    ),
    compute=_answers,
    metrics=("yes-no",),
)


def _text(
    ocr: tuple[Path, ...], questions: Path | None, run: Judged | None, write_ocr: Path | None, official: Path | None
) -> Aggregated:
    """Compute the scores of text rendering from OCR results or from a run, and write the files that were asked for."""
    from titjudge.core.files import write_json
    from titjudge.suites.tiif import text_rendering

    written = []
    if run is not None:
        if ocr or write_ocr is None:
            raise UserError("--run RUN requires --write-ocr DIR, without --ocr. Correct the options")
        count = text_rendering.write_ocr(*run(), write_ocr)
        written.append(f"{count} files written to {write_ocr}")
        ocr = tuple(sorted(write_ocr.glob("*.json")))
    if not ocr:
        raise UserError("give --ocr FILE, or --run RUN with --write-ocr DIR")
    by_file = {file: text_rendering.aggregate_text(file, questions) for file in ocr}
    if official is not None:
        keyed = [text_rendering.official_keys(file, result) for file, (result, _) in by_file.items()]
        write_json(official, keyed, indent=4)
    results = {file.stem: result for file, (result, _) in by_file.items()}
    tables = [table for _, of_file in by_file.values() for table in of_file]
    return Aggregated(results if len(by_file) > 1 else next(iter(results.values())), tables, written)


TIIF_TEXT = Aggregation(
    summary="TIIF-Bench text rendering: GNED, recall and PNED.",
    help="""Compute the text rendering scores of TIIF-Bench: GNED, recall and PNED.

    \b
    Examples:
      python cli.py suites aggregate tiif-text --ocr a.json --ocr b.json \\
        --official gned.json
      python cli.py suites aggregate tiif-text --run runs/mine --write-ocr ocr
    """,
    flags=(
        Flag(
            "ocr",
            "Results of PaddleOCR (2 or 3) with the words to find; repeatable, one file for each generator.",
            several=True,
        ),
        Flag("questions", "The text questions, if the results do not contain the words to find."),
        Flag("run", "A run of the suite tiif instead of OCR results.", "RUN"),
        Flag(
            "write-ocr",
            "With --run: the folder to write the words that were read to, as the official OCR script does (GENERATOR.json).",
            "DIR",
        ),
        Flag("official", "Write the official file: file_name, GNED_score_short, ... of each generator."),
    ),
    compute=_text,
    metrics=("text-rendering", "text-rendering-vlm"),
)
