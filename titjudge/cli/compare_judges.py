"""`compare people`, `cascade`, `forgetting`, `elements`, `bridge` and `costs`: how far a judge is right, and at what price."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from titjudge.cli.compare_options import METRIC, SCORE_METRIC, OutputFiles, file_options, read_judged, table_options
from titjudge.cli.options import JSON, PATH, option
from titjudge.cli.output import show_notes, show_results
from titjudge.cli.terminal import say
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.formats import p_value

if TYPE_CHECKING:
    from titjudge.runs.study.human_study import Study


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
@option("--gold", "A run, or table, of an expensive judge on a random part of the prompts, in place of people.", "RUN")
@option("--gold-metric", "Metric of --gold  [default: as --metric].", "NAME")
@METRIC
@option("--level", "Confidence level of the intervals.", "P", type=click.FloatRange(0.5, 0.9999), default=0.95)
@file_options
def people(
    run: Path, pairs_file: Path | None, gold: Path | None, gold_metric: str | None, metric: str | None, level: float,
    files: OutputFiles,
) -> int:  # fmt: skip
    """Rank the generators of RUN as people would, from few human pairs and the judge's scores of all images.

    Uses prediction-powered inference: the interval covers the win rate among people however wrong the judge is, as long as
    the human pairs are a random sample of all pairs. For comparison it also shows people alone, the judge alone (whose
    interval ignores the judge's errors), and how many more human pairs would separate two neighbours.

    With --gold an expensive judge takes the place of people: RUN is a cheap judge on all prompts, --gold the expensive one
    on a random part of them, and the scores estimate those of the expensive judge.
    `judge --limit N --limit-seed S` draws such a part; `--limit N` alone takes the first prompts.

    \b
    Examples:
      python cli.py compare people runs/first --pairs human_pairs.jsonl
      python cli.py compare people runs/first --metric tit-llm --level 0.99 \\
        --json board.json
      python cli.py compare people runs/cheap --gold runs/dear
    """
    from titjudge.report.plots import joined_chart

    record: dict[str, Any]
    if gold is None:
        if gold_metric is not None:
            raise ConfigError("--gold-metric goes with --gold")
        study = _study(run, metric, pairs_file)
        board = study.board(level)
        record = {"run": str(run), "metric": study.metric, **board.to_json()}
        rows = [(standing.generator, standing.win_rate) for standing in board.standings]
        files.finish(board.tables(), record, chart=lambda: joined_chart(rows, "people", "the judge"))
        return 0
    if pairs_file is not None:
        raise ConfigError("--gold stands in the place of people: it does not go with --pairs")
    from titjudge.core.serialization import fields_of
    from titjudge.stats.ppi.two_tier import two_tier

    cheap, dear = read_judged(run, metric), read_judged(gold, gold_metric or metric)
    estimated = two_tier(cheap, dear, level=level)
    record = {"run": str(run), "gold": str(gold), "metric": dear.metric, **fields_of(estimated)}
    rows = [(generator.names[0], generator.estimate) for generator in estimated.generators]
    files.finish(
        estimated.tables(),
        record,
        notes=[*cheap.notes, *dear.notes],
        chart=lambda: joined_chart(rows, "the dear judge", "the cheap one"),
    )
    return 0


def _study(run: Path, metric: str | None, pairs_file: Path | None) -> Study:
    """Read a run together with its human pairs, or those of a file."""
    from titjudge.runs.folder.run_folder import RunFolder
    from titjudge.runs.study.human_study import study
    from titjudge.suites.pair_files import read_pairs

    folder = RunFolder(run)
    folder.check()
    notes: dict[str, None] = {}
    pairs = read_pairs(pairs_file, items=folder.judged, notes=notes) if pairs_file else folder.results().human_pairs
    show_notes(notes)
    if not pairs:
        message = "no human pairs: give some with --pairs FILE, or collect them with `label`"
        raise DataError(message, pairs_file or run)
    return study(folder, pairs, metric)


@click.command(short_help="Find the cheapest way to use the judges of a sweep.")
@click.argument("sweep", type=PATH, metavar="SWEEP_DIR")
@option("--pairs", "Human pairs (jsonl or csv)  [default: the sweep's].", "FILE", name="pairs_file")
@option("--max-price", "The most that 1,000 pairs may cost.", "USD", type=click.FloatRange(min=0))
@option(
    "--tolerance",
    "How much less accurate than the best judge alone a rule may be.",
    "SHARE",
    type=click.FloatRange(0, 1),
    default=0.01,
)
@option("--longest", "The most judges in a chain.", "N", type=click.IntRange(1, 3), default=2)
@PRICES
@JSON
def cascade(
    sweep: Path, pairs_file: Path | None, max_price: float | None, tolerance: float, longest: int,
    prices: tuple[str, ...], json_file: Path | None,
) -> int:  # fmt: skip
    """Find the cheapest way to use the judges of a sweep: a cheap one first, an expensive one where the first is unsure.

    Prices are the list prices of the stored answers; what two judges share (a description) is paid once. Recommends the
    cheapest rule within --tolerance of the best judge alone or, with --max-price, the most accurate one within that price.
    Judges that agree with people no more often than guessing (p .05 or more, as `judge` reports it) are in no rule.

    \b
    Examples:
      python cli.py compare cascade runs/sweep
      python cli.py compare cascade runs/sweep --pairs pairs.jsonl \\
        --max-price 5 --json cascade.json
    """
    from titjudge.engine.prices import parse_price_flag
    from titjudge.runs.study.sweep_judges import swept_judges
    from titjudge.stats.ppi.cascade import guessing_judges, recommend
    from titjudge.suites.pair_files import read_pairs

    judges = swept_judges(sweep, dict(map(parse_price_flag, prices)), longest=longest)
    read: dict[str, None] = {}
    pairs = read_pairs(pairs_file, notes=read) if pairs_file else judges.pairs
    if not pairs:
        raise DataError("no human pairs to mark the judges on: give some with --pairs FILE", sweep)
    if not judges.values:
        missing = "; ".join(f"{name}: {reason}" for name, reason in judges.left_out.items())
        raise DataError(f"no judge can be used: {missing}", sweep)
    guessing = guessing_judges(pairs, judges.values)
    judges = judges.without({name: f"no better than guessing (p {p_value(p)})" for name, p in guessing.items()})
    notes = [*read, *(f"left out: {name}: {reason}" for name, reason in judges.left_out.items())]
    if not judges.values:
        record = {"sweep": str(sweep), "rule": None, "recommended": None, "left_out": judges.left_out}
        show_results([], record, json_file, notes)
        say(
            f"recommended: nothing: by these pairs ({len(pairs):,}) no judge agrees with people more often than guessing"
        )
        return 0
    advice = recommend(
        pairs,
        judges.values,
        judges.prices,
        max_price=None if max_price is None else max_price / 1000,
        together=judges.together,
        tolerance=tolerance,
        longest=longest,
    )
    if len(judges.values) == 1:
        notes.append("only one judge: there is nothing to escalate to")
    if not any(judges.prices.values()):
        notes.append("every judge is free: the rule is chosen by accuracy alone")
    record = {"sweep": str(sweep), **advice.to_json(), "left_out": judges.left_out}
    show_results([advice.table(), advice.frontier_table()], record, json_file)
    for line in (f"\nrecommended: {advice.outcome.rule}", *(f"  note: {note}" for note in notes)):
        say(line)
    return 0


@click.command(short_help="Show where in the prompt generators stop reading.")
@click.argument("run", type=PATH)
@METRIC
@option("--bins", "Into how many parts the prompt is divided.", "N", type=click.IntRange(2, 50), default=10)
@file_options
def forgetting(run: Path, metric: str | None, bins: int, files: OutputFiles) -> int:
    """Show where generators stop reading: how often claims are met, by place in the prompt, by kind and by prompt length.

    For runs of a metric that checks single claims: tit-agent, graph-alignment, dsg, tifa.

    \b
    Examples:
      python cli.py compare forgetting runs/first
      python cli.py compare forgetting runs/first --metric tit-agent \\
        --plot curve.svg --json curve.json
    """
    from titjudge.core.serialization import fields_of
    from titjudge.report.plots import forgetting_chart
    from titjudge.runs.folder.run_folder import RunFolder
    from titjudge.runs.study.human_study import claims_of_run
    from titjudge.stats.scores.forgetting import forgetting as curve

    name, claims, notes = claims_of_run(RunFolder(run), metric)
    by_place = curve(claims, bins=bins)
    record = {"run": str(run), "metric": name, "claims": len(claims), **fields_of(by_place)}
    if not by_place.notes:  # all generators have the same prompts
        del record["notes"]
    files.finish(by_place.tables(), record, notes=notes, chart=lambda: forgetting_chart(by_place, bins))
    return 0


@click.command(short_help="Compare single questions, facets and elements with people.")
@click.argument("run", type=PATH)
@option("--human", "People's marks: rows of image, element, value.", "FILE", required=True)
@METRIC
@table_options
def elements(run: Path, human: Path, metric: str | None, files: OutputFiles) -> int:
    """Compare what RUN says of single elements with people: TP, FP, FN, TN, recall, accuracy, kappa, by type or pillar.

    The metric is yes-no (an element is the text of a question), checklist (a facet: pillar / sub-capability / facet),
    graph-alignment (cat, cat | black, cat | on | mat) or fga-blip2 (an element of the data; a score of .5 or more is yes).
    People say yes or no, of facets 0, 1, 2 or n/a. The intervals resample prompts.

    \b
    Examples:
      python cli.py compare elements runs/mine --human marks.csv
      python cli.py compare elements runs/mine --metric yes-no --human marks.jsonl
    """
    from titjudge.runs.study.element_marks import element_marks
    from titjudge.stats.people.element_agreement import agreement_table, element_agreement

    chosen, marks, notes = element_marks(run, human, metric)
    agreement = element_agreement(marks)
    record = {"run": str(run), "metric": chosen, "elements": agreement}
    files.finish([agreement_table(f"{chosen} against people, by element", agreement, notes)], record)
    return 0


@click.command(short_help="Estimate scores by a new judge from those of an old one.")
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

    tables = [read_judged(path, metric) for path in (old, new)]
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
    """Show what the answers behind the scores of RUNS cost: questions, looks at the image, tokens and list price by metric.

    A recording costs nothing: --priced-as says what the same answers would have cost. --json has each image.

    \b
    Examples:
      python cli.py compare costs runs/first
      python cli.py compare costs runs/recorded --priced-as openai/gpt-4o
    """
    from titjudge.engine.prices import parse_price_flag
    from titjudge.runs.folder.run_folder import RunFolder
    from titjudge.runs.study.answer_costs import Pricing, answer_costs, costs_table

    pricing = Pricing(priced_as, dict(map(parse_price_flag, prices)))
    run_costs = [(run, answer_costs(RunFolder(run), pricing)) for run in runs]
    tables = [costs_table(metrics, pricing) for _, metrics in run_costs]
    if len(runs) > 1:
        tables = [replace(table, title=f"{table.title}, {run}") for table, run in zip(tables, runs, strict=True)]
    records = {str(run): [cost.to_json() for cost in metrics] for run, metrics in run_costs}
    files.finish(tables, {"priced_as": priced_as, "runs": records})
    return 0


COMMANDS = (people, cascade, forgetting, elements, bridge, costs)
