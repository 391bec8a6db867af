"""`suites aggregate tiif` and `suites aggregate tiif-text`: results from official files of TIIF-Bench, or from a run."""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path

from titjudge.suites.aggregation import Aggregated, Aggregation, Source


def _answers(source: Source) -> Aggregated:
    """Compute the results from a tree of answers, a run or a published summary, and write the official files."""
    from titjudge.core.files import csv_text, write_atomic
    from titjudge.suites.tiif import answers as tree
    from titjudge.suites.tiif import summary_files
    from titjudge.suites.tiif.answers import published_table, results, tables
    from titjudge.suites.tiif.suite import Tiif

    folder, written = source.official_files, []
    if source.judged is not None:
        result = Tiif().summary(*source.judged)
        if folder is not None:
            count = Tiif().write_official(*source.judged, folder)
            written.append(f"{count} files written to {folder}")
        return Aggregated(result, tables(result), written)
    source.check_count(1, 1, "one folder of answers or one official summary")
    (place,) = source.files
    if place.is_file():
        read = summary_files.read_xlsx if place.suffix.lower() == ".xlsx" else summary_files.read_dimension_text
        summaries = read(place)
        return Aggregated(summaries, [published_table(summaries)])
    counted = tree.read_answers(place)
    if folder is not None:
        rows = [(score.item_id, score.value) for score in tree.answers_as_scores(place)]
        write_atomic(folder / "scores.csv", csv_text(("image", "score"), rows))
        write_atomic(folder / "summary.txt", summary_files.dimension_text(counted))
        written.append(f"scores.csv and summary.txt written to {folder}")
        if find_spec("openpyxl") is not None:
            summary_files.write_xlsx(counted, folder / "result_summary.xlsx")
            written.append(f"result_summary.xlsx written to {folder}")
    result = results(counted)
    return Aggregated(result, tables(result), written)


TIIF = Aggregation(
    summary="TIIF-Bench: types, nine dimensions, overall.",
    help="""Compute the tables of TIIF-Bench in percent: types, nine dimensions, Basic, Advanced and Overall.

    Give a run, a folder of answers (GENERATOR/TYPE/{short,long}/INDEX.json), or an official result_summary.xlsx or summary by
    dimension. The official files of a run are its answers and OCR results. For a folder of answers they are
    result_summary.xlsx, summary.txt, and scores.csv, which `judges agreement --human` reads.

    \b
    Examples:
      python cli.py suites aggregate tiif eval_results --official-files official
      python cli.py suites aggregate tiif runs/mine
      python cli.py suites aggregate tiif result_summary.xlsx
    """,
    compute=_answers,
    metrics=("yes-no",),
)


def _text(source: Source, questions: str) -> Aggregated:
    """Compute the scores of text rendering from OCR results or from a run, and write the official file."""
    from titjudge.core.files import write_json
    from titjudge.suites.tiif import text_rendering

    folder, files, written = source.official_files, source.files, []
    with tempfile.TemporaryDirectory() as temporary:
        if source.judged is not None:
            ocr = (folder or Path(temporary)) / "ocr"
            count = text_rendering.write_ocr(*source.judged, ocr)
            files = tuple(sorted(ocr.glob("*.json")))
            written += [] if folder is None else [f"{count} files written to {ocr}"]
        texts = Path(questions) if questions else None
        by_file = {file: text_rendering.aggregate_text(file, texts) for file in files}
    if folder is not None:
        keyed = [text_rendering.official_keys(file, result) for file, (result, _) in by_file.items()]
        write_json(folder / "gned.json", keyed, indent=4)
        written.append(f"gned.json written to {folder}")
    results = {file.stem: result for file, (result, _) in by_file.items()}
    tables = [table for _, of_file in by_file.values() for table in of_file]
    return Aggregated(results if len(by_file) > 1 else next(iter(results.values())), tables, written)


TIIF_TEXT = Aggregation(
    summary="TIIF-Bench text rendering: GNED, recall and PNED.",
    help="""Compute the text rendering scores of TIIF-Bench: GNED, recall and PNED.

    Give a run, or for each generator a file with results of PaddleOCR (2 or 3) and the words to find. If a file does not
    contain these words, --suite-option questions=FILE names the text questions. The official file is gned.json
    (file_name, GNED_score_short, ... of each generator); for a run also ocr/GENERATOR.json.

    \b
    Examples:
      python cli.py suites aggregate tiif-text a.json b.json \\
        --official-files official
      python cli.py suites aggregate tiif-text runs/mine
    """,
    compute=_text,
    metrics=("text-rendering", "text-rendering-vlm"),
    options={"questions": ()},
)
