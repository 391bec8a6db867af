"""`compare people`, `elements`, `bridge` and `costs`: how far a judge is right, and at what price."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from titjudge.cli.compare_options import METRIC, SCORE_METRIC, OutputFiles, file_options, read_judged, table_options
from titjudge.cli.options import PATH, option
from titjudge.cli.output import show_notes
from titjudge.core.errors import DataError
from titjudge.core.paths import distinct_paths

PRICES = option(
    "--price",
    "USD per million tokens, for answers stored without a price; repeatable.",
    "MODEL=IN,OUT[,CACHED]",
    name="prices",
    multiple=True,
)


@click.command(short_help="Rank generators as people would, from few human pairs and many judge scores.")
@click.argument("run", type=PATH)
@option("--pairs", "The few human pairs (jsonl or csv)  [default: the run's].", "FILE", name="pairs_file")
@METRIC
@option("--level", "Confidence level of the intervals.", "P", type=click.FloatRange(0.5, 0.9999), default=0.95)
@file_options
def people(
    run: Path,
    pairs_file: Path | None,
    metric: str | None,
    level: float,
    files: OutputFiles,
) -> int:
    """Rank the generators of RUN as people would, from few human pairs and the judge's scores of all images.

    Uses prediction-powered inference: the interval covers the win rate among people however wrong the judge is, as long as
    the human pairs are a random sample of all pairs. For comparison it also shows people alone, the judge alone (whose
    interval ignores the judge's errors), and how many more human pairs would separate two neighbours.

    \b
    Examples:
      python cli.py compare people runs/first --pairs human_pairs.jsonl
      python cli.py compare people runs/first --metric tit-llm --level 0.99 \\
        --json board.json
    """
    from titjudge.report.plots import joined_chart
    from titjudge.runs.folder.run_folder import RunFolder
    from titjudge.runs.study.human_study import people_study
    from titjudge.suites.pair_files import read_pairs

    folder = RunFolder(run)
    folder.check()
    notes: dict[str, None] = {}
    pairs = read_pairs(pairs_file, items=folder.judged, notes=notes) if pairs_file else folder.results().human_pairs
    show_notes(notes)
    if not pairs:
        message = "no human pairs: give some with --pairs FILE, or collect them with `label`"
        raise DataError(message, pairs_file or run)
    chosen, board = people_study(folder, pairs, metric, level=level)
    files.finish(
        board.tables(),
        {"run": str(run), "metric": chosen, **board.to_json()},
        chart=lambda: joined_chart(board.standings),
    )
    return 0


@click.command(short_help="Compare single questions, facets and elements with people.")
@click.argument("run", type=PATH)
@option("--human", "People's marks: rows of image, element, value.", "FILE", required=True)
@METRIC
@table_options
def elements(run: Path, human: Path, metric: str | None, files: OutputFiles) -> int:
    """Compare the answers of RUN about single elements with people: TP, FP, FN, TN, recall, accuracy, kappa, by type or pillar.

    The metric is yes-no (an element is the text of a question), checklist (a facet: pillar / sub-capability / facet),
    graph-alignment (cat, cat | black, cat | on | mat) or fga-blip2 (an element of the data; a score of at least 0.5 is yes).
    People say yes or no, of facets 0, 1, 2 or n/a. The intervals resample prompts.

    \b
    Examples:
      python cli.py compare elements runs/mine --human marks.csv
      python cli.py compare elements runs/mine --metric yes-no --human marks.jsonl
    """
    from titjudge.runs.study.human_study import element_marks
    from titjudge.stats.people.element_agreement import agreement_table, element_agreement

    chosen, marks, notes = element_marks(run, human, metric)
    agreement = element_agreement(marks)
    record = {"run": str(run), "metric": chosen, "elements": agreement}
    files.finish([agreement_table(f"{chosen} against people, by element", agreement, notes)], record)
    return 0


@click.command(short_help="Estimate the scores of a new judge from the scores of an old judge.")
@click.argument("old", type=PATH)
@click.argument("new", type=PATH)
@SCORE_METRIC
@file_options
def bridge(old: Path, new: Path, metric: str | None, files: OutputFiles) -> int:
    """Estimate the new judge's scores of generators that only the old judge has judged, when a judge was retired or changed.

    OLD and NEW are runs, or tables of scores (prompt_id, generator, score), by two judges over the same prompts. Generators
    that both have judged are the anchors: a rising line fitted through them maps old scores to new ones, and each mapped
    score has a 95% prediction interval. It takes ten anchors or more to make it narrow.

    \b
    Examples:
      python cli.py compare bridge runs/gpt-4o runs/qwen
      python cli.py compare bridge old.csv new.csv --plot bridge.svg
    """
    from titjudge.report.plots import bridge_chart
    from titjudge.stats.ppi.bridging import bridge as build
    from titjudge.stats.ppi.bridging import bridge_table

    tables = [read_judged(path, metric) for path in distinct_paths((old, new))]
    built = build(*tables)
    notes = [note for table in tables for note in table.notes]
    record = {"old": str(old), "new": str(new), **built.to_json()}
    files.finish([bridge_table(built)], record, notes=notes, chart=lambda: bridge_chart(built, str(old), str(new)))
    return 0


@click.command(short_help="Show what the answers of runs cost, by metric: looks, tokens, list price.")
@click.argument("runs", nargs=-1, required=True, type=PATH)
@option(
    "--priced-as",
    "Price every answer as this model's, recorded and local ones too, whose tokens are estimated.",
    "PROVIDER/MODEL",
    default="",
)
@PRICES
@table_options
def costs(runs: tuple[Path, ...], priced_as: str, prices: tuple[str, ...], files: OutputFiles) -> int:
    """Show the cost of the answers behind the scores of RUNS: questions, image requests, tokens and list price by metric.

    A recording costs nothing: --priced-as prints the price of the same answers by another model. --json has each image.

    \b
    Examples:
      python cli.py compare costs runs/first
      python cli.py compare costs runs/recorded --priced-as openai/gpt-4o
    """
    from titjudge.engine.prices import parse_price_flag
    from titjudge.runs.folder.run_folder import RunFolder
    from titjudge.runs.study.answer_costs import Pricing, answer_costs, costs_table

    pricing = Pricing(priced_as, dict(map(parse_price_flag, prices)))
    run_costs = [(run, answer_costs(RunFolder(run), pricing)) for run in distinct_paths(runs)]
    tables = [costs_table(metrics, pricing) for _, metrics in run_costs]
    if len(runs) > 1:
        tables = [replace(table, title=f"{table.title}, {run}") for table, run in zip(tables, runs, strict=True)]
    records = {str(run): [cost.to_json() for cost in metrics] for run, metrics in run_costs}
    files.finish(tables, {"priced_as": priced_as, "runs": records})
    return 0


COMMANDS = (people, elements, bridge, costs)
