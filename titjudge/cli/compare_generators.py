"""`compare generators`: is this generator better than that one, where, by how much, and how sure?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from titjudge.cli.options import JSON, PATH, option, with_options
from titjudge.cli.terminal import say

if TYPE_CHECKING:
    from titjudge.core.types import Table
    from titjudge.stats.generator_differences import Gate, GeneratorDifference
    from titjudge.stats.scores_table import ScoreTable

F = TypeVar("F", bound=Callable[..., Any])

scores_options: Callable[[F], F] = with_options(
    click.argument("runs", nargs=-1, type=PATH, metavar="[RUN ...]"),
    option(
        "--scores",
        "A table in place of runs: prompt_id, generator, score, and columns with categories (.csv, .csv.gz, .jsonl, .parquet).",
        "FILE",
        type=PATH,
    ),
    option("--metric", "The metric of the runs, or the score's column in the table  [default: score].", "NAME"),
    option("--allow-drift", "Compare runs although a judge, its version or the protocol differs.", is_flag=True),
    option(
        "--per-prompt",
        "Several images of a prompt count by their mean, the best, or any or all of them being right (any:0.8: from that score on).",
        "HOW",
        default="mean",
    ),
)
"""The options that name a command's scores."""

file_options: Callable[[F], F] = with_options(
    option("--plot", "Draw the chart (.svg or .png).", "FILE", type=PATH),
    option("--out", "Write the tables: Markdown, LaTeX or CSV (.md, .tex, .csv).", "FILE", type=PATH),
    JSON,
)
"""The options that name the files a command writes."""


def read_input(
    runs: Sequence[Path],
    scores: Path | None,
    metric: str | None,
    allow_drift: bool,
    by: Sequence[str] = (),
    per_prompt: str = "mean",
) -> ScoreTable:
    """Read the table of scores that a command was given, from runs or from a file.

    Raises:
        ConfigError: both or neither was given, or one in the place of the other.
    """
    from titjudge.core.errors import ConfigError
    from titjudge.stats.per_prompt import PerPrompt

    rule = PerPrompt.parse(per_prompt)
    if bool(runs) == (scores is not None):
        raise ConfigError("name run folders, or a table with --scores FILE" + (", not both" if runs else ""))
    if table := next((path for path in runs if path.is_file()), None):
        raise ConfigError(f"{table} is no run folder: a table of scores is given with --scores {table}")
    if scores is not None and scores.is_dir():
        raise ConfigError(f"{scores} is a folder: a run is named without --scores")
    if scores is not None:
        from titjudge.stats.scores_table import read_scores

        return read_scores(scores, metric, by, rule)
    from titjudge.runs.generator_scores import run_scores

    return run_scores(runs, metric, by, allow_drift=allow_drift, per_prompt=rule)


def read_judged(path: Path, metric: str | None) -> ScoreTable:
    """Read the table of scores of one judge: a run folder, or a file."""
    return read_input([path], None, metric, False) if path.is_dir() else read_input((), path, metric, False)


def check_files(plot: Path | None, out: Path | None) -> None:
    """Say that a file cannot be written before anything is computed."""
    from titjudge.cli.output import check_writable

    if plot is not None:
        from titjudge.report.chart_files import check_chart

        check_chart(plot)
        check_writable(plot)
    if out is not None:
        from titjudge.report.table_files import check_table_file

        check_table_file(out)
        check_writable(out)


def write_out(tables: Sequence[Table], out: Path | None) -> None:
    """Write `--out FILE`, where it was given, and say so."""
    if out is not None:
        from titjudge.report.table_files import write_tables

        write_tables(tables, out)
        say(f"tables {out}")


@click.command(short_help="Is one generator better than another, where, and how sure?")
@scores_options
@option("--baseline", "Compare every other generator with this one  [default: all pairs].", "GENERATOR")
@option(
    "--by",
    "Also by category: a column of the table, what the suite knows (type, theme, ...), prompt_length, language, element, pillar, sub_capability, facet; repeatable.",
    "COLUMN",
    multiple=True,
)
@option(
    "--fail-if-worse",
    "Exit code 1 when a generator is worse than the baseline by more than DELTA, by its interval.",
    "DELTA",
    type=click.FloatRange(min=0),
)
@option("--strict", "With --fail-if-worse: exit code 1 also when these prompts cannot tell.", is_flag=True)
@option("--junit", "With --fail-if-worse: a test case for each generator, as CI systems read it.", "FILE", type=PATH)
@option(
    "--comment",
    "With --fail-if-worse: a comment in Markdown with the three worst prompts; thumbnails go into a folder beside it.",
    "FILE",
    type=PATH,
)
@option("--image-url", "With --comment: where that folder will be found.", "URL", default="")
@file_options
def generators(
    runs: tuple[Path, ...], scores: Path | None, metric: str | None, allow_drift: bool, per_prompt: str,
    baseline: str | None, by: tuple[str, ...], fail_if_worse: float | None, strict: bool, junit: Path | None,
    comment: Path | None, image_url: str, plot: Path | None, out: Path | None, json_file: Path | None,
) -> int:  # fmt: skip
    """Compare generators prompt by prompt, across different images.

    For each pair: the difference with its 95% interval, prompts won, same and lost, p (by exchange within prompts) and p
    adjusted (Holm over pairs, Benjamini-Hochberg over slices), and the smallest difference that these prompts would have
    shown with 80% power.

    \b
    Examples:
      python cli.py compare generators runs/first
      python cli.py compare generators runs/step-1000 runs/step-2000
      python cli.py compare generators --scores scores.csv --by category
      python cli.py compare generators runs/first --baseline base \\
          --fail-if-worse 0.01 --out verdict.md
    """
    from titjudge.cli.output import check_writable, show_notes, show_tables, write_json
    from titjudge.core.errors import ConfigError
    from titjudge.stats.generator_differences import gate, generator_differences, verdict_tables

    check_files(plot, out)
    if baseline is None and (fail_if_worse is not None or strict):
        raise ConfigError("--fail-if-worse needs --baseline GENERATOR: worse than what?")
    for flag, given in (("--strict", strict), ("--junit", junit), ("--comment", comment)):
        if given and fail_if_worse is None:
            raise ConfigError(f"{flag} goes with --fail-if-worse DELTA")
    if image_url and comment is None:
        raise ConfigError("--image-url goes with --comment FILE")
    for file in (junit, comment):
        check_writable(file)
    columns = tuple(dict.fromkeys(each for given in by for each in given.split(",") if each))
    table = read_input(runs, scores, metric, allow_drift, columns, per_prompt)
    found = generator_differences(table, baseline=baseline)
    decided = gate(found, fail_if_worse) if fail_if_worse is not None else None
    tables = verdict_tables(table, found)
    show_tables(tables)
    missing = [f"{table.missing:,} images have no score and are left out"] if table.missing else []
    show_notes([*table.notes, *missing], tables)
    if plot is not None:
        from titjudge.report.verdict_charts import write_differences

        write_differences(found, plot, fail_if_worse)
        say(f"plot   {plot}")
    write_out(tables, out)
    record: dict[str, Any] = {
        "source": table.source, "metric": table.metric, "baseline": baseline, "missing": table.missing,
        "generators": [dict(zip(tables[0].columns, row, strict=True)) for row in tables[0].rows],
        "pairs": [each.to_json() for each in found], "notes": list(table.notes),
    }  # fmt: skip
    if decided is not None:
        record["gate"] = decided.to_json()
        _tell(decided, found, strict)
        _write_gate(decided, table, found, runs, junit, comment, strict=strict, image_url=image_url)
    write_json(json_file, record)
    return 1 if decided is not None and (decided.failed or (strict and decided.open)) else 0


def _tell(decided: Gate, found: Sequence[GeneratorDifference], strict: bool) -> None:
    """Say what the gate says, of each candidate in a line."""
    from titjudge.runs.gate_files import verdict_line
    from titjudge.stats.generator_differences import CANNOT_TELL, WORSE

    colours = {WORSE: "red", CANNOT_TELL: "yellow"}
    say()
    for each in found:
        say(verdict_line(decided, each), colour=colours.get(decided.verdicts[each.a]))
    if decided.open and not decided.failed:
        say("not told apart counts as a failure (--strict)" if strict else "--strict makes that a failure")


def _write_gate(
    decided: Gate, table: ScoreTable, found: Sequence[GeneratorDifference], runs: Sequence[Path], junit: Path | None,
    comment: Path | None, *, strict: bool, image_url: str,
) -> None:  # fmt: skip
    """Write the files of `--junit` and `--comment`, where they were given, and say so."""
    from titjudge.runs.gate_files import write_comment, write_junit

    if junit is not None:
        write_junit(junit, table.metric, found, decided, strict=strict)
        say(f"junit  {junit}")
    if comment is not None:
        write_comment(comment, table, found, decided, runs, strict=strict, image_url=image_url)
        say(f"comment {comment}")


@click.command(short_help="What it would have cost to find out which generator is better, on finished scores.")
@scores_options
@option(
    "--pair",
    "Two generators, three or more to race for the best, or `all` for every two; repeatable.",
    "A,B|all",
    name="pairs",
    multiple=True,
    required=True,
)
@option(
    "--margin",
    "Stop also when the two lie within M of each other: equivalent.",
    "M",
    type=click.FloatRange(min=0, min_open=True),
)
@option("--repeat", "Random orders of the prompts.", "N", type=click.IntRange(1, 10_000), default=1)
@option("--seed", "Of the random orders.", "S", type=click.IntRange(0), default=0)
@file_options
def settle(
    runs: tuple[Path, ...], scores: Path | None, metric: str | None, allow_drift: bool, per_prompt: str,
    pairs: tuple[str, ...], margin: float | None, repeat: int, seed: int, plot: Path | None, out: Path | None,
    json_file: Path | None,
) -> int:  # fmt: skip
    """Replay `judge --settle` on finished scores: after how many prompts, in random order, would it have stopped?

    Prompts come one by one, judged for both generators, until a 95% interval that holds at every moment at once leaves zero
    (or lies within the margin: equivalent); else the pair stays open. Three or more generators race for the best. This saves
    money on one question: a full ranking of many generators needs as many judgements as judging everything.

    \b
    Examples:
      python cli.py compare settle runs/first --pair old,new --repeat 20
      python cli.py compare settle --scores scores.csv --pair all --margin 0.01
    """
    from titjudge.cli.output import show_notes, show_tables, write_json
    from titjudge.stats.replay_settling import replay_pairs, replay_race, replay_tables

    check_files(plot, out)
    table = read_input(runs, scores, metric, allow_drift, per_prompt=per_prompt)
    two, races = _questions(pairs, table)
    found = replay_pairs(table, two, margin=margin, repeat=repeat, seed=seed)
    raced = [one for names in races for one in replay_race(table, names, margin=margin, repeat=repeat, seed=seed)]
    tables = replay_tables(found, raced)
    show_tables(tables)
    show_notes(table.notes, tables)
    if plot is not None:
        from titjudge.report.verdict_charts import write_settling

        write_settling(found, raced, plot)
        say(f"plot   {plot}")
    write_out(tables, out)
    record: dict[str, Any] = {
        "source": table.source, "metric": table.metric, "margin": margin, "repeat": repeat, "seed": seed,
        "pairs": [each.to_json() for each in found],
    }  # fmt: skip
    if raced:
        record["races"] = raced
    write_json(json_file, record)
    return 0


def _questions(pairs: Sequence[str], table: ScoreTable) -> tuple[list[tuple[str, str]], list[tuple[str, ...]]]:
    """Read the pairs and the races that --pair names."""
    from itertools import combinations

    from titjudge.core.errors import ConfigError

    two: list[tuple[str, str]] = []
    races: list[tuple[str, ...]] = []
    for given in pairs:
        names = tuple(name.strip() for name in given.split(","))
        if given == "all":
            two += combinations(table.generators, 2)
            continue
        if len(names) < 2 or len(set(names)) < len(names):
            raise ConfigError(f"--pair takes two or more generators, each once, or all: not '{given}'")
        for name in names:
            table.column(name)
        if len(names) == 2:
            two.append((names[0], names[1]))
        else:
            races.append(names)
    return two, races


def _numbers(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, ...]:
    """Whole numbers from 1, with commas between."""
    try:
        found = tuple(dict.fromkeys(int(each) for each in (value or "").split(",") if each.strip()))
    except ValueError:
        found = (0,)
    if value and (not found or not all(1 <= each <= 1000 for each in found)):
        raise click.BadParameter(f"whole numbers from 1 to 1000 with commas between, not '{value}'")
    return found


@click.command(short_help="How many prompts, seeds and samples, and dollars, a wanted difference takes.")
@scores_options
@option(
    "--difference",
    "The difference in mean score that is to be seen.",
    "D",
    type=click.FloatRange(min=0, min_open=True),
    required=True,
)
@option("--power", "How often it is to be seen.", "P", type=click.FloatRange(0.5, 0.999), default=0.8)
@option("--pair", "Two generators of the pilot, or every two  [default: the only two].", "A,B|all")
@option("--seeds", "Images a prompt  [default: 1,2,4 where the pilot can tell].", "K,...", callback=_numbers)
@option(
    "--samples",
    "Answers of the judge to an image  [default: 1,3 where the pilot can tell].",
    "S,...",
    callback=_numbers,
)
@option(
    "--image-cost", "Price of one judged image  [default: the run's list price].", "USD", type=click.FloatRange(min=0)
)
@file_options
def plan(
    runs: tuple[Path, ...], scores: Path | None, metric: str | None, allow_drift: bool, per_prompt: str,
    difference: float, power: float, pair: str | None, seeds: tuple[int, ...], samples: tuple[int, ...],
    image_cost: float | None, plot: Path | None, out: Path | None, json_file: Path | None,
) -> int:  # fmt: skip
    """Plan a comparison from a pilot: prompts x seeds x judge samples, and what they cost, as a range.

    The pilot is a run, or a table, of two generators on some prompts (30 or more). Several images a prompt (and
    `judge --samples`) tell what more of them would bring.

    \b
    Examples:
      python cli.py compare plan runs/pilot --difference 0.02 --pair old,new
      python cli.py compare plan --scores pilot.csv --difference 0.02 \\
          --image-cost 0.003 --plot power.svg
    """
    from titjudge.cli.output import show_notes, show_tables, write_json
    from titjudge.core.errors import ConfigError
    from titjudge.stats.planning import Pilot, cheapest, plan_table, plans

    check_files(plot, out)
    table = read_input(runs, scores, metric, allow_drift, per_prompt=per_prompt)
    if pair is None and len(table.generators) != 2:
        raise ConfigError(f"choose two generators with --pair A,B: {', '.join(table.generators)}")
    names = (table.generators[0], table.generators[-1])
    two, races = _questions([pair], table) if pair is not None else ([names], [])
    if races or (plot is not None and len(two) > 1):
        raise ConfigError("--pair takes two generators" + ("" if races else " where a chart is wanted"))
    cost = table.cost if image_cost is None else image_cost
    pilots = [Pilot.of(table, a, b) for a, b in two]
    by_pair = [
        plans(
            each, difference, power, cost=cost,
            seeds=seeds or ((1, 2, 4) if each.seeds is not None else (round(each.images),)),
            samples=samples or ((1, 3) if each.samples is not None else (round(each.answers),)),
        )
        for each in pilots
    ]  # fmt: skip
    found = [one for of in by_pair for one in of]
    if not found:
        raise ConfigError(
            f"{table.source}: the pilot has one image a prompt, or one answer an image, or --per-prompt joins its images: it "
            "cannot tell of other numbers"
        )
    shown = plan_table(found, pilots, difference, power)
    show_tables([shown])
    show_notes(table.notes, [shown])
    if len(two) == 1:
        best = cheapest(found)
        price = f", about ${best.dollars[1]:,.2f}" if best.dollars else ""
        say(f"cheapest: {best.prompts:,} prompts ({best.range[0]:,} to {best.range[1]:,}), images of each: {best.seeds}, "
            f"answers to each: {best.samples}{price}")  # fmt: skip
    if plot is not None:
        from titjudge.report.verdict_charts import write_power

        write_power(found, pilots[0], difference, power, plot)
        say(f"plot   {plot}")
    write_out([shown], out)
    write_json(json_file, {
        "source": table.source, "metric": table.metric, "difference": difference, "power": power, "image_cost": cost,
        "pilots": [{"a": each.a, "b": each.b, "prompts": each.prompts, "variance": each.variance} for each in pilots],
        "plans": [each.to_json() for each in found],
    })  # fmt: skip
    return 0


COMMANDS = (generators, settle, plan)
