"""`compare`: agreement of runs with people, votes into pairs, rankings against a reference."""

from __future__ import annotations

from pathlib import Path

import click

from titjudge.cli import compare_generators, compare_judges
from titjudge.cli.commands import Group
from titjudge.cli.options import EXPLAIN, JSON, PATH, option
from titjudge.cli.output import show_results
from titjudge.cli.terminal import say
from titjudge.core.errors import ConfigError


@click.group(cls=Group, default="runs")
def compare() -> None:
    """Measure how well runs agree with human pairs (`compare RUN...`), compare generators and judges, convert votes and ranks.

    \b
    Examples:
      python cli.py compare runs/first --pairs pairs.jsonl
      python cli.py compare runs/gpt runs/gemini
      python cli.py compare votes votes.csv --pairs-out pairs.jsonl
      python cli.py compare ranks --csv leaderboards.csv --reference human
      python cli.py compare generators runs/first --baseline base
      python cli.py compare settle runs/first --pair old,new --repeat 20
      python cli.py compare plan runs/pilot --difference 0.02 --pair old,new
      python cli.py compare bridge runs/gpt-4o runs/qwen
      python cli.py compare people runs/first --pairs human_pairs.jsonl
      python cli.py compare elements runs/mine --human marks.jsonl
      python cli.py compare costs runs/recorded --priced-as openai/gpt-4o
    """


for command in (*compare_judges.COMMANDS, *compare_generators.COMMANDS):
    compare.add_command(command)


@compare.command(short_help="Measure the agreement of runs with human pairs or scores.")
@click.argument("runs", nargs=-1, required=True, type=PATH)
@option(
    "--pairs", "Human pairs (jsonl or csv)  [default: the human pairs of the first run].", "FILE", name="pairs_file"
)
@option(
    "--human",
    "Human scores (jsonl or csv with image, score, or a column for each pillar): SRCC, PLCC, KRCC over all images, and SRCC, KRCC of "
    "the generators by their means.",
    "FILE",
)
@option("--by", "With --human: generators also by each value of this column of the data (type, theme, ...).", "COLUMN")
@option(
    "--votes",
    "Single votes (as for `compare votes`): also show how often one person agrees with the others.",
    "FILE",
    name="votes_file",
)
@option("--strengths", "Also fit Bradley-Terry strengths of the generators, with intervals.", is_flag=True)
@option("--allow-drift", "Compare runs even if a model changed between them.", is_flag=True)
@EXPLAIN
@JSON
def runs(
    runs: tuple[Path, ...],
    pairs_file: Path | None,
    human: Path | None,
    by: str | None,
    votes_file: Path | None,
    strengths: bool,
    allow_drift: bool,
    json_file: Path | None,
) -> int:
    """Measure the agreement of one or several runs with the same human pairs or scores, and the differences between runs.

    Without human pairs: differences in mean score between the runs, or between the generators of one run.

    \b
    Examples:
      python cli.py compare runs/first --pairs pairs.jsonl --strengths
      python cli.py compare runs/gpt runs/gemini --json agreement.json
      python cli.py compare runs/first --human ratings.csv --by type
    """
    from titjudge.runs.study.compared_runs import ComparedRuns
    from titjudge.stats.generators.paired_differences import differences_table
    from titjudge.stats.people.agreement_tables import agreement_tables
    from titjudge.stats.people.score_correlation import correlation_record, correlation_tables
    from titjudge.stats.people.votes import human_ceiling
    from titjudge.suites.pair_files import read_votes

    if by is not None and human is None:
        raise ConfigError("--by requires --human: it splits the correlation of generators with human scores")
    compared = ComparedRuns(runs, allow_drift=allow_drift)
    pairs = compared.pairs(pairs_file)
    agreed = compared.agreement(pairs, strengths=strengths)
    tables, record = agreement_tables(agreed), agreed.to_json()
    notes: list[str] = []
    if votes_file is not None:
        said: dict[str, None] = {}
        record["human_ceiling"] = ceiling = human_ceiling(read_votes(votes_file, notes=said))
        notes += said
        notes.append(ceiling.line() or f"{votes_file}: no vote on a pair that others decide: no human ceiling")
    if human is not None:
        correlations, raters = compared.correlations(human, by)
        tables += correlation_tables(correlations, by, raters, families=bool(compared.families))
        record |= {"human_scores": correlation_record(correlations), "raters": raters}
    if differences := compared.differences(pairs):
        tables.append(differences_table(differences, families=bool(compared.families)))
        record["differences"] = differences
    record |= compared.costs()
    if compared.mixed:
        record["mixed"] = compared.mixed
    show_results(
        tables, record, json_file, [*notes, *compared.notes, *agreed.warnings, *compared.drift, *compared.mixed]
    )
    empty = []
    if pairs_file is not None and not any(metric.pairs_scored for metric in agreed.metrics.values()):
        empty.append(f"{pairs_file}: no pair with a preference has both its images scored")
    if human is not None and all(row.images.srcc is None for row in correlations):
        empty.append(f"{human}: nothing can be correlated: {correlations[0].images.reason}")
    for line in empty:
        say(line, colour="red")
    return int(bool(empty))


@compare.command()
@option(
    "--csv",
    "A table with a row for each generator and a column for each ranking.",
    "FILE",
    name="csv_file",
    required=True,
)
@option("--reference", "The column the others are compared with.", "COLUMN", required=True)
@JSON
def ranks(csv_file: Path, reference: str, json_file: Path | None) -> int:
    """Correlate (SRCC, KRCC) each ranking with a reference ranking.

    Ties count: SRCC gives them their mean rank, KRCC is tau-b. 1 - 6 sum d^2 / n(n^2 - 1), as some papers print it
    (TIIF-Bench, A4.2), is the same number without ties and another one with them.

    \b
    Example:
      python cli.py compare ranks --csv leaderboards.csv --reference human
    """
    from titjudge.runs.study.ranking_files import compare_ranks

    results, table = compare_ranks(csv_file, reference)
    show_results([table], results, json_file)
    return int(all(entry["srcc"] is None for entry in results["columns"].values()))


@compare.command(short_help="Turn votes into preferences, with Krippendorff's alpha.")
@click.argument("votes_file", type=PATH, metavar="FILE")
@option("--experts", "Votes of experts on the pairs that the annotators leave open.", "FILE")
@option(
    "--annotators", "Planned number of votes for each pair  [default: its present number].", "N", type=click.IntRange(1)
)
@option("--pairs-out", "Write the decided pairs as JSON lines, for `judge --pairs`.", "FILE")
@JSON
def votes(
    votes_file: Path, experts: Path | None, annotators: int | None, pairs_out: Path | None, json_file: Path | None
) -> int:
    """Turn votes into preferences by the three rules of the TIT-Score paper (A.11), with Krippendorff's alpha.

    Without --experts, the majority decides what the third rule leaves to experts (`majority` in the table).

    FILE (csv or jsonl) has the columns prompt_id, image_a, image_b, preference (a, b, tie or both_bad) and, if people have names,
    annotator. A column for each person (rater1, rater2) or a list in one cell also does. `judge --pairs FILE` reads the same
    votes in the same way. If no pair is decided, the exit code is 1.

    \b
    Example:
      python cli.py compare votes votes.csv --pairs-out pairs.jsonl
    """
    from titjudge.core.files import write_jsonl
    from titjudge.runs.study.human_files import pair_records
    from titjudge.stats.people.votes import aggregate_votes
    from titjudge.suites.pair_files import read_votes

    notes: dict[str, None] = {}
    cast, verdicts = (read_votes(file, notes=notes) if file else () for file in (votes_file, experts))
    summary = aggregate_votes(cast, verdicts, annotators=annotators or 1, majority=not experts)
    show_results([summary.table()], summary.to_json(), json_file, notes)
    if not summary.pairs:
        say(f"{votes_file}: no pair is decided; nothing was written", colour="red")
        return 1
    if pairs_out is not None:
        write_jsonl(pairs_out, pair_records(summary.pairs))
        say(f"pairs  {pairs_out}")
    return 0
