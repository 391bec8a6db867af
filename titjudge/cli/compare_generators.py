"""`compare generators`, `compare early-stopping`, `compare plan`: is one generator better, how sure is that, and what does it cost?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from titjudge.cli.commands import Command
from titjudge.cli.compare_options import GateRule, OutputFiles, ScoreSource, file_options, scores_options
from titjudge.cli.options import gathered, option, options
from titjudge.cli.output import check_writable
from titjudge.cli.terminal import say
from titjudge.core.errors import ConfigError, must_be
from titjudge.core.names import split_names
from titjudge.core.types import Note
from titjudge.core.words import first_of

if TYPE_CHECKING:
    from titjudge.report.drawing import Chart
    from titjudge.stats.generators.generator_differences import Gate, GeneratorDifference
    from titjudge.stats.generators.planning import Plan
    from titjudge.stats.scores.scores_table import ScoreTable


class GateFiles(NamedTuple):
    """The files of a gate.

    Attributes:
        junit: File of test cases.
        comment: Markdown file for a pull request.
        image_url: The future URL of the images of that comment.
    """

    junit: Path | None = None
    comment: Path | None = None
    image_url: str = ""

    def check(self) -> None:
        """Check that the flags go together, and that the files can be written.

        Raises:
            UserError: They do not, or one cannot.
        """
        if self.image_url and self.comment is None:
            raise ConfigError("--image-url requires --comment FILE")
        for file in (self.junit, self.comment):
            check_writable(file)


@click.command(cls=Command, short_help="Compare the mean scores of generators, paired by prompt.")
@scores_options
@gathered("limit", GateRule)
@option("by", multiple=True)
@gathered("written", GateFiles)
@file_options
def generators(
    source: ScoreSource, limit: GateRule, written: GateFiles, files: OutputFiles, by: tuple[str, ...]
) -> int:
    """Compare the mean scores of generators, paired by prompt.

    For each pair of generators: the difference with its 95% interval; the prompts that the first wins, ties and loses; p of
    a permutation test within prompts, and p adjusted for several comparisons (p Holm over pairs, or p best where the baseline
    has the best mean and may have been chosen for it; p BH, Benjamini-Hochberg, over categories); and the smallest difference that this many prompts show with 80% power.

    \b
    Examples:
      python cli.py compare generators runs/first
      python cli.py compare generators runs/step-1000 runs/step-2000
      python cli.py compare generators scores.csv --by category
      python cli.py compare generators runs/first --baseline base \\
          --fail-if-worse 0.01 --out verdict.md
    """
    from titjudge.report.plots import differences_chart
    from titjudge.runs.study.gate_files import write_comment, write_junit
    from titjudge.stats.generators.generator_differences import (
        gate,
        generator_differences,
        generator_records,
        is_best,
        verdict_tables,
    )
    from titjudge.stats.generators.slices import rank_ranges

    for flag, file in (("--junit", written.junit), ("--comment", written.comment)):
        if file and limit.fail_if_worse is None:
            raise ConfigError(f"{flag} requires --fail-if-worse DELTA")
    table = source.read(tuple(dict.fromkeys(column for names in by for column in names.split(",") if column)))
    baseline, margin = limit.baseline, limit.fail_if_worse
    best = baseline is not None and is_best(table, baseline)
    chosen = best and margin is None
    differences = generator_differences(table, baseline=baseline, chosen=chosen)
    ranks = rank_ranges(table)
    tables = verdict_tables(table, differences, ranks, chosen=chosen)
    notes = [*table.notes, *table.missing_notes((table.column(d.a), table.column(d.b)) for d in differences)]
    verdict = gate(differences, margin, table) if margin is not None else None
    if verdict is not None:
        if best:
            line = f"{baseline} has the best mean here: were it chosen for that, a false alarm would be likelier"
            notes.append(Note("baseline_is_best", line))
        notes += source.unknown_ends(table, "not worse rests on the spread that these prompts show")
    record = {
        "source": table.source,
        "metric": table.metric,
        "baseline": baseline,
        "missing": table.missing,
        "adjustment": "best" if chosen else "Holm",
        "generators": generator_records(table, ranks),
        "pairs": differences,
        "notes": notes,
        **({} if verdict is None else {"gate": verdict}),
    }
    files.finish(tables, record, notes=notes, chart=lambda: differences_chart(differences, margin))
    if verdict is None:
        return 0
    strict, runs = limit.strict, () if source.table else source.runs
    _show_gate(verdict, differences, strict)
    if junit := written.junit:
        write_junit(junit, table.metric, differences, verdict, strict=strict)
        say(f"junit  {junit}")
    if comment := written.comment:
        write_comment(comment, table, differences, verdict, runs, strict=strict, image_url=written.image_url)
        say(f"comment {comment}")
    return int(verdict.failed or (strict and verdict.open))


def _show_gate(verdict: Gate, differences: Sequence[GeneratorDifference], strict: bool) -> None:
    """Print a line for each generator that the gate has compared with the baseline."""
    from titjudge.core.words import in_one_line
    from titjudge.runs.study.gate_files import verdict_line
    from titjudge.stats.generators.generator_differences import CANNOT_TELL, WORSE

    colours = {WORSE: "red", CANNOT_TELL: "yellow"}
    say()
    for difference in differences:
        say(in_one_line(verdict_line(verdict, difference)), colour=colours.get(verdict.verdicts[difference.a]))
    if verdict.open and not verdict.failed:
        say("an undecided comparison is a failure (--strict)" if strict else "--strict makes this a failure")


@click.command("early-stopping", cls=Command, short_help="Replay `judge --settle` on finished scores.")
@scores_options
@option("pair", multiple=True, required=True)
@options("margin", orders=1, seed=0)
@file_options
def settle(
    source: ScoreSource, files: OutputFiles, pair: tuple[str, ...], margin: float | None, orders: int, seed: int
) -> int:
    """Replay `judge --settle` on finished scores: after how many prompts, in random order, would it have stopped?

    Prompts come one by one, each judged for both generators. A pair is settled once a 95% interval that is valid at every
    stop excludes zero, or lies within the margin (equivalent); otherwise it stays open. Three or more generators race for
    the best. This saves money on a single question: a full ranking of many generators costs as much as judging everything.

    \b
    Examples:
      python cli.py compare early-stopping runs/first --pair old,new --orders 20
      python cli.py compare early-stopping scores.csv --pair all \\
          --margin 0.01
    """
    from titjudge.report.plots import settling_chart
    from titjudge.stats.generators.sequential import replay_pairs, replay_race, replay_tables

    table = source.read()
    notes = [*table.notes]
    two, races = _questions(pair, table, notes)
    settled = replay_pairs(table, two, margin=margin, repeat=orders, seed=seed)
    raced = [race for names in races for race in replay_race(table, names, margin=margin, repeat=orders, seed=seed)]
    record: dict[str, Any] = {
        "source": table.source,
        "metric": table.metric,
        "margin": margin,
        "repeat": orders,
        "seed": seed,
        "pairs": settled,
    }
    if raced:
        record["races"] = raced
    compared = [*two, *(pair for names in races for pair in combinations(names, 2))]
    notes += table.missing_notes((table.column(a), table.column(b)) for a, b in compared)
    notes += source.unknown_ends(table, "intervals are asymptotic")
    files.finish(
        replay_tables(settled, raced, table), record, notes=notes, chart=lambda: settling_chart(settled, raced)
    )
    return 0


def _questions(
    pairs: Sequence[str], table: ScoreTable, notes: list[Note]
) -> tuple[list[tuple[str, str]], list[tuple[str, ...]]]:
    """Read the pairs of generators, and the races of three or more, that `--pair` names; note pairs that `all` cannot compare."""
    from titjudge.stats.generators.generator_differences import compared_pairs

    two: list[tuple[str, str]] = []
    races: list[tuple[str, ...]] = []
    for value in pairs:
        if value == "all":
            every = compared_pairs(table)
            two += [names for names in every if len(table.unit_differences(*map(table.column, names))[0]) > 1] or every
            few = [" and ".join(names) for names in every if names not in two]
            if few:
                line = f"not compared, because they share fewer than two prompts or families: {first_of(few)}"
                notes.append(Note("not_compared", line))
            continue
        names = split_names(value, table.generators)
        if len(names) < 2 or len(set(names)) < len(names):
            raise ConfigError(must_be("--pair", "two or more different generators, or all", value))
        for name in names:
            table.column(name)
        if len(names) == 2:
            two.append((names[0], names[1]))
        else:
            races.append(names)
    return two, races


@click.command(cls=Command, short_help="Plan how many prompts, images and answers a difference takes.")
@scores_options
@options(difference=..., power=0.8, pair=None)
@option("images_per_prompt", multiple=True)
@option("repeats", multiple=True)
@options("image_cost")
@file_options
def plan(
    source: ScoreSource,
    files: OutputFiles,
    difference: float,
    power: float,
    pair: str | None,
    images_per_prompt: tuple[int, ...],
    repeats: tuple[int, ...],
    image_cost: float | None,
) -> int:
    """Plan a comparison from a pilot: prompts x images x judge answers, with the cost, as a range.

    The pilot is a run, or a table, of two generators on some prompts (30 or more). Only a pilot with several images of each
    prompt, or several answers (`judge --set samples=3`), can show the effect of more of them. For these it tries 1, 2 and 4
    images and 1 and 3 answers, or the numbers of --images-per-prompt and --repeats. The cost is the run's list price.

    \b
    Examples:
      python cli.py compare plan runs/pilot --difference 0.02 --pair old,new
      python cli.py compare plan pilot.csv --difference 0.02 \\
          --image-cost 0.003 --plot power.svg
    """
    from titjudge.report.plots import plan_curves, power_chart
    from titjudge.stats.generators.planning import Pilot, cheapest, plan_table, plans

    table = source.read()
    notes = [*table.notes]
    if pair is None and len(table.generators) != 2:
        raise ConfigError(
            f"there are {len(table.generators)} generators: {', '.join(table.generators)}. Choose two with --pair A,B"
        )
    two, races = _questions([pair or "all"], table, notes)
    if races:
        raise ConfigError(must_be("--pair", "one pair A,B", pair))
    if files.plot and len(two) > 1:
        raise ConfigError("--plot can draw one pair only. Give --pair A,B, or remove --plot")
    cost = table.cost if image_cost is None else image_cost
    pilots = [Pilot.from_scores(table, a, b) for a, b in two]
    if difference > (scale := pilots[0].scale or difference):
        raise ConfigError(
            must_be("--difference", f"at most {scale:g}, the length of the scale of {table.metric}", difference)
        )
    options = [
        option
        for pilot in pilots
        for option in plans(
            pilot,
            difference,
            power,
            cost=cost,
            seeds=images_per_prompt or ((1, 2, 4) if pilot.seeds is not None else pilot.design[:1]),
            samples=repeats or ((1, 3) if pilot.samples is not None else pilot.design[1:]),
        )
    ]
    if not options:
        raise ConfigError(
            f"{table.source}: the pilot has too few or unequal images or answers per prompt, so other numbers cannot be "
            "planned. Give each prompt of both generators the same number, at least 2"
        )
    record = {
        "source": table.source,
        "metric": table.metric,
        "difference": difference,
        "power": power,
        "image_cost": cost,
        "pilots": [{"a": p.a, "b": p.b, "prompts": p.prompts, "variance": p.variance} for p in pilots],
        "plans": options,
    }

    def chart() -> Chart:
        return power_chart(
            plan_curves(options, pilots[0]),
            power,
            "USD" if options[0].dollars else "judgements",
            title=f"Power: {pilots[0].a} against {pilots[0].b}, a difference of {difference:g}",
        )

    lines = [_cheapest_line(cheapest(options))] if len(two) == 1 else []
    files.finish([plan_table(options, pilots, power)], record, notes=notes, lines=lines, chart=chart)
    return 0


def _cheapest_line(plan: Plan) -> str:
    price = f", about ${plan.dollars[1]:,.2f}" if plan.dollars else ""
    return f"cheapest: {plan.prompts:,} prompts ({plan.range[0]:,} to {plan.range[1]:,}), images of each: {plan.seeds}, answers to each: {plan.samples}{price}"


COMMANDS = (generators, settle, plan)
