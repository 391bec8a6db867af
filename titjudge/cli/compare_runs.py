"""`compare people`, `compare cascade`, `compare forgetting`: what a stored run or sweep says beyond its scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from titjudge.cli.compare_generators import check_files, file_options, read_judged, write_out
from titjudge.cli.options import JSON, PATH, option
from titjudge.cli.terminal import say

if TYPE_CHECKING:
    from titjudge.core.types import Table
    from titjudge.stats.ppi import Estimate

METRIC = option("--metric", "The metric to look at, where the run has several.", "NAME")


@click.command(short_help="Generators as people would rank them, from few human and many judge pairs.")
@click.argument("run", type=PATH)
@option("--pairs", "The few human pairs (jsonl or csv)  [default: the run's].", "FILE", name="pairs_file", type=PATH)
@option(
    "--gold",
    "A run, or table, of a dear judge on a random part of the prompts, in the place of people.",
    "RUN",
    type=PATH,
)
@option("--gold-metric", "The metric of --gold  [default: as --metric].", "NAME")
@METRIC
@option("--level", "Level of the intervals.", "P", type=click.FloatRange(0.5, 0.9999), default=0.95)
@file_options
def people(
    run: Path, pairs_file: Path | None, gold: Path | None, gold_metric: str | None, metric: str | None, level: float,
    plot: Path | None, out: Path | None, json_file: Path | None,
) -> int:  # fmt: skip
    """Rank the generators of RUN as people would, from few human pairs and all pairs that a judge has scored.

    Prediction-powered inference: the interval holds for people however wrong the judge is, as long as the human pairs
    are a random sample of all pairs. Beside it stand people alone and the judge alone (whose interval is not to be
    believed), and how many more labels would separate two neighbours.

    With --gold a dear judge stands in the place of people: RUN is a cheap judge on all prompts, --gold the dear one on a
    random part of them, and the scores are those that the dear judge would have given.
    `judge --limit N --limit-seed S` draws such a part; `--limit N` alone takes the first prompts.

    \b
    Examples:
      python cli.py compare people runs/first --pairs human_pairs.jsonl
      python cli.py compare people runs/first --metric tit-llm --level 0.99 \\
        --json board.json
      python cli.py compare people runs/cheap --gold runs/dear
    """
    if gold_metric is not None and gold is None:
        from titjudge.core.errors import ConfigError

        raise ConfigError("--gold-metric goes with --gold")
    check_files(plot, out)
    if gold is not None:
        tables, lines, rows, record = _two_tiers((run, metric), (gold, gold_metric or metric), pairs_file, level)
    else:
        tables, lines, rows, record = _people(run, metric, pairs_file, level)
    if plot is not None:
        from titjudge.report.verdict_charts import write_joined

        write_joined(rows, plot, *(("people", "the judge") if gold is None else ("the dear judge", "the cheap one")))
        lines = [*lines, f"plot   {plot}"]
    _tell(tables, lines, json_file, record, out)
    return 0


_Told = tuple[Sequence["Table"], Sequence[str], Sequence[tuple[str, "Estimate"]], dict[str, Any]]


def _people(run: Path, metric: str | None, pairs_file: Path | None, level: float) -> _Told:
    from titjudge.runs.human_study import study
    from titjudge.runs.run_folder import RunFolder
    from titjudge.suites.folder import read_pairs

    folder = RunFolder(run)
    folder.manifest()
    human = read_pairs(pairs_file, items=folder.judged) if pairs_file else folder.results().human_pairs
    if not human:
        raise _nothing(pairs_file or run, "no human pairs: give some with --pairs FILE, or collect them with `label`")
    found = study(folder, human, metric)
    board = found.board(level)
    rows = [(each.generator, each.win_rate) for each in board.standings]
    return board.tables(), [], rows, {"run": str(run), "metric": found.metric, **board.to_json()}


def _two_tiers(
    run: tuple[Path, str | None], gold: tuple[Path, str | None], pairs_file: Path | None, level: float
) -> _Told:
    from titjudge.core.errors import ConfigError
    from titjudge.stats.two_tier import two_tier

    if pairs_file is not None:
        raise ConfigError("--gold stands in the place of people: it does not go with --pairs")
    tables = [read_judged(path, metric) for path, metric in (run, gold)]
    found = two_tier(*tables, level=level)
    notes = [f"  note: {note}" for table in tables for note in table.notes]
    record = {"run": str(run[0]), "gold": str(gold[0]), "metric": tables[1].metric, **found.to_json()}
    return found.tables(), notes, [(each.names[0], each.estimate) for each in found.generators], record


@click.command(short_help="The cheapest rule over the judges of a sweep.")
@click.argument("sweep", type=PATH, metavar="SWEEP_DIR")
@option("--pairs", "Human pairs (jsonl or csv)  [default: the sweep's].", "FILE", name="pairs_file", type=PATH)
@option("--max-price", "Most that 1,000 pairs may cost.", "USD", type=click.FloatRange(min=0))
@option(
    "--tolerance",
    "Accuracy that may be given up against the best judge alone.",
    "SHARE",
    type=click.FloatRange(0, 1),
    default=0.01,
)
@option("--longest", "Most judges in a chain.", "N", type=click.IntRange(1, 3), default=2)
@option(
    "--price",
    "USD per million tokens, for answers stored without a price; repeatable.",
    "MODEL=IN,OUT[,CACHED]",
    name="prices",
    multiple=True,
)
@JSON
def cascade(
    sweep: Path,
    pairs_file: Path | None,
    max_price: float | None,
    tolerance: float,
    longest: int,
    prices: tuple[str, ...],
    json_file: Path | None,
) -> int:
    """Find the cheapest rule over the judges of a sweep: the cheap one first, a dearer one where it is unsure.

    Prices are the list prices of the stored answers; what two judges share (a description) is paid once. The
    recommendation is the cheapest rule within --tolerance of the best judge alone, or with --max-price the most accurate
    one that costs no more.

    \b
    Examples:
      python cli.py compare cascade runs/sweep
      python cli.py compare cascade runs/sweep --pairs pairs.jsonl \\
        --max-price 5 --json cascade.json
    """
    from titjudge.engine.prices import parse_price_flag
    from titjudge.runs.sweep_judges import swept_judges
    from titjudge.stats.cascade import recommend
    from titjudge.suites.folder import read_pairs

    judges = swept_judges(sweep, dict(parse_price_flag(each) for each in prices), longest=longest)
    pairs = read_pairs(pairs_file) if pairs_file else judges.pairs
    if not pairs:
        raise _nothing(sweep, "no human pairs to mark the judges on: give some with --pairs FILE")
    if not judges.values:
        missing = "; ".join(f"{name}: {reason}" for name, reason in judges.left_out.items())
        raise _nothing(sweep, f"no judge with a price ({missing}): give it with --price MODEL=IN,OUT")
    found = recommend(
        pairs,
        judges.values,
        judges.prices,
        max_price=None if max_price is None else max_price / 1000,
        together=judges.together,
        tolerance=tolerance,
        longest=longest,
    )
    notes = [f"left out: {name}: {reason} (--price MODEL=IN,OUT)" for name, reason in judges.left_out.items()]
    if len(judges.values) == 1:
        notes.append("only one judge: there is nothing to escalate to")
    if not any(judges.prices.values()):
        notes.append("every judge is free: the rule is chosen by accuracy alone")
    lines = [f"\nrecommended: {found.outcome.rule}", *(f"  note: {note}" for note in notes)]
    record = {"sweep": str(sweep), **found.to_json(), "left_out": judges.left_out}
    _tell([found.table(), found.frontier_table()], lines, json_file, record)
    return 0


@click.command(short_help="Where in the prompt generators stop reading.")
@click.argument("run", type=PATH)
@METRIC
@option("--bins", "Places in the prompt.", "N", type=click.IntRange(2, 50), default=10)
@file_options
def forgetting(
    run: Path, metric: str | None, bins: int, plot: Path | None, out: Path | None, json_file: Path | None
) -> int:
    """Where generators stop reading: how often claims are met by place in the prompt, by kind and by prompt length.

    For runs of a metric that settles claims: tit-agent, graph-alignment, dsg, tifa.

    \b
    Examples:
      python cli.py compare forgetting runs/first
      python cli.py compare forgetting runs/first --metric tit-agent \\
        --plot curve.svg --json curve.json
    """
    from titjudge.report.forgetting_chart import write_chart
    from titjudge.runs.human_study import claims_of_run
    from titjudge.runs.run_folder import RunFolder
    from titjudge.stats.forgetting import forgetting as curve

    check_files(plot, out)
    name, claims = claims_of_run(RunFolder(run), metric)
    found = curve(claims, bins=bins)
    if plot is not None:
        write_chart(found, plot)
    lines = [f"plot   {plot}"] if plot is not None else []
    record = {"run": str(run), "metric": name, "claims": len(claims), **found.to_json()}
    _tell(found.tables(), lines, json_file, record, out)
    return 0


def _tell(
    tables: Sequence[Table],
    lines: Sequence[str],
    json_file: Path | None,
    record: dict[str, Any],
    out: Path | None = None,
) -> None:
    from titjudge.cli.output import show_tables, write_json

    show_tables(tables)
    for line in lines:
        say(line)
    write_out(tables, out)
    write_json(json_file, record)


def _nothing(place: Path, message: str) -> Any:
    from titjudge.core.errors import DataError

    return DataError(message, place)


@click.command(short_help="Agreement on single questions, facets and elements.")
@click.argument("run", type=PATH)
@option("--human", "People's marks: rows of image, element, value.", "FILE", type=PATH, required=True)
@METRIC
@option("--out", "Write the table: Markdown, LaTeX or CSV (.md, .tex, .csv).", "FILE", type=PATH)
@JSON
def elements(run: Path, human: Path, metric: str | None, out: Path | None, json_file: Path | None) -> int:
    """Compare what RUN says of single elements with people: TP, FP, FN, TN, accuracy and kappa, by type or pillar.

    The metric is yes-no (an element is the text of a question), checklist (a facet, as pillar / sub-capability / facet),
    graph-alignment (cat, cat | black, cat | on | mat) or fga-blip2 (an element of the data; a score of .5 or more is yes).
    People say yes or no, of facets 0, 1, 2 or n/a. Intervals are over prompts.

    \b
    Examples:
      python cli.py compare elements runs/mine --human marks.csv
      python cli.py compare elements runs/mine --metric yes-no --human marks.jsonl
    """
    from titjudge.runs.element_marks import element_marks
    from titjudge.stats.element_agreement import agreement_table, element_agreement

    check_files(None, out)
    chosen, marks, notes = element_marks(run, human, metric)
    found = element_agreement(marks)
    record = {"run": str(run), "metric": chosen, "elements": {kind: of.to_json() for kind, of in found.items()}}
    _tell([agreement_table(f"{chosen} against people, by element", found, notes)], [], json_file, record, out)
    return 0


COMMANDS = (people, cascade, forgetting, elements)
