"""`compare`: agreement of runs with people, votes into pairs, rankings against a reference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from titjudge.cli import compare_generators, compare_runs
from titjudge.cli.commands import COMPARE, Group
from titjudge.cli.options import JSON, PATH, option
from titjudge.cli.output import show_results
from titjudge.cli.terminal import say
from titjudge.core.errors import ConfigError, DataError, nearest
from titjudge.core.numbers import known_sum

if TYPE_CHECKING:
    from titjudge.core.types import Item, Score, Table
    from titjudge.stats.generators.paired_differences import Difference


@click.group(cls=Group, section=COMPARE, default="runs")
def compare() -> None:
    """Measure how far runs agree with human pairs (`compare RUN...`), compare generators and judges, convert votes and ranks.

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
      python cli.py compare cascade runs/sweep
      python cli.py compare forgetting runs/first --plot curve.svg
      python cli.py compare elements runs/mine --human marks.jsonl
    """


for command in (*compare_runs.COMMANDS, *compare_generators.COMMANDS):
    compare.add_command(command)


@compare.command(short_help="Measure the agreement of runs with human pairs or scores.")
@click.argument("runs", nargs=-1, required=True, type=PATH)
@option(
    "--pairs", "Human pairs (jsonl or csv)  [default: those of the first run].", "FILE", name="pairs_file", type=PATH
)
@option(
    "--human",
    "Human scores (jsonl or csv with image, score, or a column for each pillar): SRCC, PLCC, KRCC over all images, and SRCC, KRCC of "
    "the generators by their means.",
    "FILE",
    type=PATH,
)
@option("--by", "With --human: generators also by each value of this column of the data (type, theme, ...).", "COLUMN")
@option(
    "--votes",
    "Single votes (as for `compare votes`): also show how often one person agrees with the others.",
    "FILE",
    name="votes_file",
    type=PATH,
)
@option("--strengths", "Also fit Bradley-Terry strengths of the generators, with intervals.", is_flag=True)
@option("--allow-drift", "Compare runs even if a model changed between them.", is_flag=True)
@JSON
def runs(
    runs: tuple[Path, ...], pairs_file: Path | None, human: Path | None, by: str | None, votes_file: Path | None, strengths: bool,
    allow_drift: bool, json_file: Path | None,
) -> int:  # fmt: skip
    """Measure the agreement of one or several runs with the same human pairs or scores, and the differences between runs.

    Without human pairs: differences in mean score between the runs, or between the generators of one run.

    \b
    Examples:
      python cli.py compare runs/first --pairs pairs.jsonl --strengths
      python cli.py compare runs/gpt runs/gemini --json agreement.json
      python cli.py compare runs/first --human ratings.csv --by type
    """
    from titjudge.core import registry
    from titjudge.probes.canary import refuse_drift
    from titjudge.runs.folder.run_folder import RunFolder
    from titjudge.runs.results import not_applicable
    from titjudge.runs.study.human_files import read_votes
    from titjudge.stats.generators.paired_differences import differences_table, paired_differences
    from titjudge.stats.pairwise_accuracy import values_by_metric
    from titjudge.stats.people.agreement import agreement
    from titjudge.stats.people.agreement_tables import agreement_tables
    from titjudge.stats.people.votes import human_ceiling
    from titjudge.suites.folder import read_pairs

    folders = [RunFolder(path) for path in runs]
    stored = [folder.results() for folder in folders]
    pairs = read_pairs(pairs_file, items=folders[0].judged) if pairs_file else stored[0].human_pairs
    manifests = {str(path): folder.manifest() for path, folder in zip(runs, folders, strict=True)}
    drift = refuse_drift(manifests, allow=allow_drift)
    short = [path.resolve().name for path in runs]
    labels = short if len(set(short)) == len(short) else [str(path) for path in runs]
    judged: dict[str, tuple[dict[str, Item], list[Score]]] = {}
    for label, folder in zip(labels, folders, strict=True):
        listed, stored_scores = folder.compared()
        judged[label] = listed, list(stored_scores.values())
    items: dict[str, Item] = {}
    scores: list[Score] = []
    for label, (listed, own) in judged.items():
        items |= listed
        scores += own if len(runs) == 1 else [replace(score, metric=f"{score.metric} ({label})") for score in own]
    names = sorted({score.metric for score in scores})
    metrics = {name: registry.load("metrics", name.partition(" ")[0]) for name in names}
    lower = {name for name, metric in metrics.items() if not metric.higher_is_better}
    ranges = {name: metric.range for name, metric in metrics.items()}
    shown = list(items.values())
    excluded = not_applicable(shown, scores, {registry.base_metric(name): metric for name, metric in metrics.items()})
    agreed = agreement(shown, scores, pairs, negate=lower, ranges=ranges, not_applicable=excluded, strengths=strengths)
    tables = agreement_tables(agreed)
    results: dict[str, Any] = agreed.to_json()
    notes = []
    if votes_file is not None:
        ceiling = human_ceiling(read_votes(votes_file))
        results["human_ceiling"] = ceiling
        notes.append(ceiling.line() or f"{votes_file}: no vote on a pair that others decide: no human ceiling")
    if human is not None:
        correlated, results["human_scores"] = _correlations(human, items, scores, names, by)
        tables += correlated
    elif by is not None:
        raise ConfigError("--by goes with --human: it slices the correlation of generators with human scores")
    if pairs and len(names) > 1:
        values = values_by_metric(scores, negate=lower)
        differences = paired_differences(pairs, {name: values[name] for name in names})
    else:
        differences = _without_people(judged)
    if differences:
        tables.append(differences_table(differences))
        results["differences"] = differences
    results["spent"] = known_sum(sum(run.spent or 0.0 for run in stored), sum(run.unpriced for run in stored))
    results["list_cost"] = known_sum(
        sum(run.list_cost or 0.0 for run in stored), sum(run.list_cost is None for run in stored)
    )
    notes += [*results.get("warnings", []), *drift]
    if mixed := [f"{path}: {line}" for path, manifest in manifests.items() for line in manifest.mixed]:
        results["mixed"] = mixed
    show_results(tables, results, json_file, [*notes, *mixed])
    return 0


def _without_people(judged: dict[str, tuple[dict[str, Item], list[Score]]]) -> list[Difference]:
    """Compare mean scores: those of each run with the first run over the images of both, or in one run those of its generators.

    Args:
        judged: Items by id, and scores, of each run.
    """
    from titjudge.runs.study.generator_scores import prompt_keys
    from titjudge.stats.generators.paired_differences import prompt_differences, run_differences

    sides: dict[str, list[Score]] = {label: scores for label, (_, scores) in judged.items()}
    items = {label: listed for label, (listed, _) in judged.items()}
    prompt_of = prompt_keys(items)
    if len(judged) == 1:
        ((listed, scores),) = judged.values()
        generators = sorted({item.generator for item in listed.values()} - {""})
        sides = {name: [score for score in scores if score.generator == name] for name in generators}
        items = dict.fromkeys(generators, listed)
    elif set.intersection(*map(set, items.values())):
        every = {id: item for listed in items.values() for id, item in listed.items()}
        return run_differences(list(every.values()), sides, baseline=next(iter(sides)))
    differences: list[Difference] = []
    for metric in dict.fromkeys(score.metric for scores in sides.values() for score in scores):
        values: dict[str, dict[str, list[float | None]]] = {}  # side -> prompt -> its scores
        for name, scores in sides.items():
            for score in scores:
                if score.metric == metric and score.item_id in items[name]:
                    prompt = prompt_of(items[name][score.item_id])
                    values.setdefault(name, {}).setdefault(prompt, []).append(score.value)
        if len(values) > 1:
            of_metric = prompt_differences(values, baseline=next(iter(values)))
            differences += [replace(each, what=f"{each.what}, {metric}") for each in of_metric]
    return differences


def _correlations(
    file: Path, items: dict[str, Item], scores: list[Score], names: list[str], by: str | None
) -> tuple[list[Table], dict[str, Any]]:
    """Correlate each metric with human scores, and its pillars and claims if people have scored these.

    Over all images, and over the generators by their means; these also over the images of each value of the column `by`.
    """
    from titjudge.core.serialization import fields_of
    from titjudge.core.tables import plain
    from titjudge.core.types import Table
    from titjudge.runs.study.human_files import SCORE, read_human_scores
    from titjudge.stats.ranking.correlation import correlation, generator_correlation
    from titjudge.stats.scores.part_scores import part_scores

    values: dict[str, dict[str, dict[str, Any]]] = {}  # metric -> score, or the name of a part -> item
    for name in names:
        own = [score for score in scores if score.metric == name]
        values[name] = {SCORE: {score.item_id: score.value for score in own}}
        for by_item in part_scores(items, own).values():
            for item, parts in by_item.items():
                for part, value in parts.items():
                    values[name].setdefault(part, {})[item] = value
    people = read_human_scores(file, sorted({part for of in values.values() for part in of} - {SCORE}))
    order = list(items)
    if not any(image in items for of in people.values() for image in of):
        raise DataError("none of its images is in the runs: images are named as in scores.jsonl", file)
    slices = _slices(items, by)
    rows: list[tuple[Any, ...]] = []
    generator_rows: list[tuple[Any, ...]] = []
    out: dict[str, Any] = {}
    for name in names:
        for part in (part for part in people if part in values[name]):
            judged, rated = values[name][part], people[part]
            c = correlation(
                [judged.get(image) for image in order],
                [rated.get(image) for image in order],
                [items[image].prompt_id for image in order],
            )
            entry = fields_of(c)
            for kind, images in slices.items():
                g = generator_correlation(
                    [judged.get(image) for image in images],
                    [rated.get(image) for image in images],
                    [items[image].generator for image in images],
                    [items[image].prompt_id for image in images],
                )
                if kind:
                    entry.setdefault("generators_by", {})[kind] = g
                else:
                    entry["generators"] = g
                if g.n > 1:
                    cells = (plain(g.srcc, g.srcc_interval), plain(g.krcc, g.krcc_interval), g.n, g.images, g.reason)
                    generator_rows.append((name, part, *([kind or "all"] if by else []), *cells))
            if part == SCORE:
                out[name] = entry | out.get(name, {})
            else:
                out.setdefault(name, {}).setdefault("parts", {})[part] = entry
            rows.append((name, part, c.srcc, c.plcc, c.krcc, c.n, c.missing))
    columns = ("metric", "of", "SRCC", "PLCC", "KRCC", "images", "without both")
    tables = [Table("Correlation with human scores", columns, tuple(rows), ("over all images; intervals in --json",))]
    if generator_rows:
        shown = ["metric", "of", *([by] if by else []), "SRCC", "KRCC", "generators", "images", ""]
        if not any(row[-1] for row in generator_rows):
            shown, generator_rows = shown[:-1], [row[:-1] for row in generator_rows]
        note = "generators by their means over the images that have both numbers; 95% intervals by resampling prompts; KRCC is tau-b"
        tables.append(Table("Rank correlation of generators with people", tuple(shown), tuple(generator_rows), (note,)))
    return tables, out


def _slices(items: dict[str, Item], by: str | None) -> dict[str, list[str]]:
    """List the images of each value of a column of the data, after all images, whose value is empty.

    Raises:
        ConfigError: The data have no such column.
    """
    slices = {"": list(items)}
    if by is not None:
        for image, item in items.items():
            if item.meta.get(by) not in (None, ""):
                slices.setdefault(str(item.meta[by]), []).append(image)
        if len(slices) == 1:
            known = sorted({key for item in items.values() for key in item.meta})
            raise ConfigError(
                f"--by {by}: the data have no such column.{nearest(by, known)} They have: {', '.join(known) or 'none'}"
            )
    return slices


@compare.command()
@option(
    "--csv",
    "A table with a row for each generator and a column for each ranking.",
    "FILE",
    name="csv_file",
    type=PATH,
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
    return 0


@compare.command(short_help="Turn votes into preferences, with Krippendorff's alpha.")
@click.argument("votes_file", type=PATH, metavar="FILE")
@option("--experts", "Votes of experts on the pairs that the annotators leave open.", "FILE", type=PATH)
@option("--annotators", "How many annotators each pair should have.", "N", default=15)
@option("--pairs-out", "Write the decided pairs as JSON lines, for `judge --pairs`.", "FILE", type=PATH)
@JSON
def votes(
    votes_file: Path, experts: Path | None, annotators: int, pairs_out: Path | None, json_file: Path | None
) -> int:
    """Turn votes into preferences by the three rules of the TIT-Score paper (A.11), with Krippendorff's alpha.

    FILE (csv or jsonl) has the columns prompt_id, image_a, image_b, annotator, preference (a, b, tie or
    both_bad).

    \b
    Example:
      python cli.py compare votes votes.csv --pairs-out pairs.jsonl
    """
    from titjudge.core.files import Appender
    from titjudge.runs.study.human_files import pair_records, read_votes
    from titjudge.stats.people.votes import aggregate_votes

    summary = aggregate_votes(read_votes(votes_file), read_votes(experts) if experts else (), annotators=annotators)
    show_results([summary.table()], summary.to_json(), json_file)
    if pairs_out is not None:
        pairs_out.unlink(missing_ok=True)
        out = Appender(pairs_out)
        for record in pair_records(summary.pairs):
            out.add(record)
        out.close()
        say(f"pairs  {pairs_out}")
    return 0
