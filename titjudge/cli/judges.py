"""`judges`: how well judges agree with people, and at what price."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from titjudge.cli.commands import Group
from titjudge.cli.compare_options import OutputFiles, file_options, table_options
from titjudge.cli.option_table import PATH
from titjudge.cli.options import EXPLAIN, JSON, options
from titjudge.cli.output import show_notes, show_results
from titjudge.cli.terminal import say
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.paths import distinct_paths
from titjudge.core.types import Note


@click.group(cls=Group)
def judges() -> None:
    """Measure how well judges agree with people, and the price of their answers.

    \b
    Examples:
      python cli.py judges agreement runs/first --pairs pairs.jsonl
      python cli.py judges agreement runs/gpt runs/gemini
      python cli.py judges ranks leaderboards.csv human
      python cli.py judges people runs/first --pairs human_pairs.jsonl
      python cli.py judges elements runs/mine --human marks.jsonl
      python cli.py judges costs runs/recorded --priced-as openai/gpt-6-luna
    """


@judges.command(short_help="Measure the agreement of runs with human pairs or scores.")
@click.argument("runs", nargs=-1, required=True, type=PATH)
@options("pairs", "human", "by", "single_votes", "strengths", "allow_drift")
@EXPLAIN
@JSON
def agreement(
    runs: tuple[Path, ...],
    pairs: Path | None,
    human: Path | None,
    by: str | None,
    single_votes: Path | None,
    strengths: bool,
    allow_drift: bool,
    json_file: Path | None,
) -> int:
    """Measure the agreement of one or several runs with the same human pairs or scores, and the differences between runs.

    Without human pairs: differences in mean score between the runs, or between the generators of one run. With --human: SRCC,
    PLCC and KRCC over all images, and SRCC and KRCC of the generators by their means, also by the values of --by.

    \b
    Examples:
      python cli.py judges agreement runs/first --pairs pairs.jsonl --strengths
      python cli.py judges agreement runs/gpt runs/gemini --json agreement.json
      python cli.py judges agreement runs/first --human ratings.csv --by type
    """
    from titjudge.runs.study.compared_runs import ComparedRuns
    from titjudge.stats.generators.paired_differences import differences_table
    from titjudge.stats.people.agreement_tables import agreement_tables
    from titjudge.stats.people.score_correlation import correlation_record, correlation_tables
    from titjudge.stats.people.votes import human_ceiling
    from titjudge.suites.base import Notes
    from titjudge.suites.pair_files import read_votes

    if by is not None and human is None:
        raise ConfigError("--by requires --human: it splits the correlation of generators with human scores")
    compared = ComparedRuns(runs, allow_drift=allow_drift)
    human_pairs = compared.pairs(pairs)
    agreed = compared.agreement(human_pairs, strengths=strengths)
    tables, record = agreement_tables(agreed), agreed.to_json()
    notes: list[Note] = []
    if single_votes is not None:
        said = Notes()
        record["human_ceiling"] = ceiling = human_ceiling(read_votes(single_votes, notes=said))
        notes += said
        line = f"{single_votes}: no vote on a pair that others decide: no human ceiling"
        notes.append(ceiling.line() or Note("no_human_ceiling", line))
    if human is not None:
        correlations, raters = compared.correlations(human, by)
        tables += correlation_tables(correlations, by, raters, families=bool(compared.families))
        record |= {"human_scores": correlation_record(correlations), "raters": raters}
    if differences := compared.differences(human_pairs):
        tables.append(differences_table(differences, families=bool(compared.families)))
        record["differences"] = differences
    record |= compared.costs()
    if compared.mixed:
        record["mixed"] = compared.mixed
    show_results(
        tables, record, json_file, [*notes, *compared.notes, *agreed.warnings, *compared.drift, *compared.mixed]
    )
    empty = []
    if pairs is not None and not any(metric.pairs_scored for metric in agreed.metrics.values()):
        empty.append(f"{pairs}: no pair with a preference has both its images scored")
    if human is not None and all(row.images.srcc is None for row in correlations):
        empty.append(f"{human}: nothing can be correlated: {correlations[0].images.reason}")
    for line in empty:
        say(line, colour="red")
    return int(bool(empty))


@judges.command(short_help="Rank generators as people would, from few human pairs and many judge scores.")
@click.argument("run", type=PATH)
@options("pairs", "metric", level=0.95)
@file_options
def people(
    run: Path,
    pairs: Path | None,
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
      python cli.py judges people runs/first --pairs human_pairs.jsonl
      python cli.py judges people runs/first --metric tit-llm --level 0.99 \\
        --json board.json
    """
    from titjudge.report.plots import joined_chart
    from titjudge.runs.folder.run_folder import RunFolder
    from titjudge.runs.study.human_study import people_study
    from titjudge.suites.base import Notes
    from titjudge.suites.pair_files import read_pairs

    folder = RunFolder(run)
    folder.check()
    notes = Notes()
    human = read_pairs(pairs, items=folder.judged, notes=notes) if pairs else folder.results().human_pairs
    show_notes(notes)
    if not human:
        message = "the data have no human pairs. Give them with --pairs FILE, or collect them with `label`"
        raise DataError(message, pairs or run)
    chosen, board = people_study(folder, human, metric, level=level)
    files.finish(
        board.tables(),
        {"run": str(run), "metric": chosen, **board.to_json()},
        chart=lambda: joined_chart(board.standings),
    )
    return 0


@judges.command(short_help="Compare single questions, facets and elements with people.")
@click.argument("run", type=PATH)
@options(human=..., metric=None)
@table_options
def elements(run: Path, human: Path, metric: str | None, files: OutputFiles) -> int:
    """Compare the answers of RUN about single elements with people: TP, FP, FN, TN, recall, accuracy, kappa, by type or pillar.

    The metric is yes-no (an element is the text of a question), checklist (a facet: pillar / sub-capability / facet),
    graph-alignment (cat, cat | black, cat | on | mat) or fga-blip2 (an element of the data; a score of at least 0.5 is yes).
    People say yes or no, of facets 0, 1, 2 or n/a. --human also reads the files of EvalMuse-40K (train_list.json), RichHF-18K
    (.tfrecord) and ImagenWorld's annotated set (a folder). The intervals resample prompts.

    \b
    Examples:
      python cli.py judges elements runs/mine --human marks.csv
      python cli.py judges elements runs/mine --metric yes-no --human marks.jsonl
    """
    from titjudge.runs.study.human_study import element_marks
    from titjudge.stats.people.element_agreement import agreement_table, element_agreement

    chosen, marks, notes = element_marks(run, human, metric)
    agreement = element_agreement(marks)
    record = {"run": str(run), "metric": chosen, "elements": agreement}
    files.finish([agreement_table(f"{chosen} against people, by element", agreement, notes)], record)
    return 0


@judges.command(short_help="Show the cost of the answers of runs, by metric: looks, tokens, list price.")
@click.argument("runs", nargs=-1, required=True, type=PATH)
@options(priced_as="", price=None)
@table_options
def costs(runs: tuple[Path, ...], priced_as: str, price: tuple[str, ...], files: OutputFiles) -> int:
    """Show the cost of the answers behind the scores of RUNS: questions, image requests, tokens and list price by metric.

    A recording costs nothing: --priced-as prints the price of the same answers by another model. --json has each image.

    \b
    Examples:
      python cli.py judges costs runs/first
      python cli.py judges costs runs/recorded --priced-as openai/gpt-6-luna
    """
    from titjudge.engine.prices import parse_price_flag
    from titjudge.runs.folder.run_folder import RunFolder
    from titjudge.runs.study.answer_costs import Pricing, answer_costs, costs_table

    pricing = Pricing(priced_as, dict(map(parse_price_flag, price)))
    run_costs = [(run, answer_costs(RunFolder(run), pricing)) for run in distinct_paths(runs)]
    tables = [costs_table(metrics, pricing) for _, metrics in run_costs]
    if len(runs) > 1:
        tables = [replace(table, title=f"{table.title}, {run}") for table, run in zip(tables, runs, strict=True)]
    records = {str(run): [cost.to_json() for cost in metrics] for run, metrics in run_costs}
    files.finish(tables, {"priced_as": priced_as, "runs": records})
    return 0


@judges.command()
@click.argument("table", type=PATH)
@click.argument("column")
@JSON
def ranks(table: Path, column: str, json_file: Path | None) -> int:
    """Correlate (SRCC, KRCC) each ranking with a reference ranking.

    TABLE has a row for each generator and a column for each ranking; COLUMN is the reference. Ties count: SRCC gives them their mean rank, KRCC is tau-b. 1 - 6 sum d^2 / n(n^2 - 1), as some papers print it
    (TIIF-Bench, A4.2), is the same number without ties and another one with them.

    \b
    Example:
      python cli.py judges ranks leaderboards.csv human
    """
    from titjudge.runs.study.ranking_files import compare_ranks

    results, shown = compare_ranks(table, column)
    show_results([shown], results, json_file)
    return int(all(entry["srcc"] is None for entry in results["columns"].values()))
