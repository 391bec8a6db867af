"""`label`: a page where people vote on images, and the labels made of their votes."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from titjudge.apps.label import PORT, Rules
from titjudge.cli.commands import Group
from titjudge.cli.option_table import PATH
from titjudge.cli.options import JSON, gathered, option, options, say_address
from titjudge.cli.output import show_results
from titjudge.cli.terminal import say
from titjudge.core.errors import ConfigError, must_be
from titjudge.web import PageAddress

_STORE = option("store", default=Path("labels.sqlite"))


@click.group(cls=Group, resumed=True, default="serve")
def label() -> None:
    """Let people vote on pairs of images, or mark single images (`label DATA`); turn votes into labels and agreement.

    \b
    Examples:
      python cli.py label examples/known_answer --annotators 3
      python cli.py label examples/known_answer --mode rating \\
        --store ratings.sqlite
      python cli.py label export labels.sqlite labelled
      python cli.py label experts examples/known_answer
      python cli.py label convert votes.csv --out pairs.jsonl
    """


@label.command(short_help="Serve the page on which people vote or mark.")
@click.argument("data", type=PATH)
@options("annotators")
@gathered("rules", Rules, votes={"show_default": False})
@_STORE
@gathered("at", PageAddress, port={"shown": PORT})
def serve(data: Path, annotators: str | None, rules: Rules, store: Path, at: PageAddress) -> int:
    """Serve the page on which people vote; every answer is stored on disk before the next question is shown.

    Without --annotators 15 people vote on pairs, 10 rank, or 3 mark single images. With --votes it stops asking about an item after N
    answers, or once fewer have settled it; without it, all are asked. About 1 question in 12 is a check of --gold.

    \b
    Examples:
      python cli.py label my_images --annotators anna,ben,chris
      python cli.py label my_images --open
      python cli.py label my_images --mode yes-no --votes 3
    """
    from titjudge.apps.label.server import serve_label
    from titjudge.apps.label.store import annotators_of

    _log_warnings()
    usual = None if rules.open_link else 15 if rules.mode == "pairs" else 10 if rules.mode == "rank" else 3
    people = annotators_of(annotators) if annotators else usual
    numbered = [f"annotator {number}" for number in range(1, people + 1)] if isinstance(people, int) else people
    names = ["everybody"] if rules.open_link else numbered or []

    def ready(links: list[str]) -> None:
        lines = [f"{name}: {link}" for name, link in zip((*names, "organiser"), links, strict=True)]
        say_address(lines, links[0], PORT, at.port)
        say(
            f"{'votes' if rules.mode == 'pairs' else 'rankings' if rules.mode == 'rank' else 'marks'} are kept in {store}; Ctrl-C ends. To continue, run the command again"
        )

    serve_label(data, annotators=people, store=store, rules=rules, at=at, ready=ready)
    return 0


def _log_warnings() -> None:
    import logging

    logging.basicConfig(level=logging.WARNING, format="%(message)s")


@label.command(short_help="Serve the page on which experts decide what the votes leave open.")
@click.argument("data", type=PATH)
@options(annotators="3", votes=None)
@_STORE
@gathered("at", PageAddress, port={"shown": PORT})
def experts(data: Path, annotators: str, votes: int | None, store: Path, at: PageAddress) -> int:
    """Serve the items that the annotators have left open, with their answers; the majority of the experts decides.

    --annotators is the number of experts. `label export` lists the same items.

    \b
    Example:
      python cli.py label experts my_images --store labels.sqlite
    """
    from titjudge.apps.label.server import serve_experts
    from titjudge.apps.label.store import annotators_of

    number = annotators_of(annotators)
    if not isinstance(number, int):
        raise ConfigError(must_be("--annotators", "the number of experts", annotators))
    _log_warnings()

    def ready(links: list[str], count: int) -> None:
        say_address([f"expert {place}: {link}" for place, link in enumerate(links, 1)], links[0], PORT, at.port)
        say(f"{count:,} open; verdicts are kept in {store}; Ctrl-C ends. To continue, run the command again")

    serve_experts(data, store=store, experts=number, annotators=votes, at=at, ready=ready)
    return 0


@label.command(short_help="Write pairs, ranks, elements and agreement from votes and marks.")
@click.argument("store", type=PATH)
@click.argument("out", type=PATH)
@options("experts", "gold", "gold_least", "votes")
@JSON
def export(
    store: Path,
    out: Path,
    experts: Path | None,
    gold: Path | None,
    gold_least: float | None,
    votes: int | None,
    json_file: Path | None,
) -> int:
    """Write pairs, ranks and open pairs, or the majority value of each element, and the agreement into the folder OUT.

    --votes and --gold-least are by default as the page was served. With --gold it shows how often each annotator is right.

    \b
    Example:
      python cli.py label export labels.sqlite labelled
    """
    from titjudge.apps.label.forms import export_labels

    exported = export_labels(store, out, experts=experts, annotators=votes, gold=gold, least=gold_least)
    show_results(exported.tables, exported.result, json_file)
    say(f"\nwritten into {out}: {', '.join(exported.files)}")
    if not exported.decided:
        say(f"{exported.main} is empty: nothing is decided yet; open.csv has the reasons", colour="red")
        return 1
    say(f"next: python cli.py {exported.command} {shlex.quote(str(out / exported.main))}")
    return 0


@label.command(short_help="Turn votes into preferences, with Krippendorff's alpha.")
@click.argument("votes_file", type=PATH, metavar="FILE")
@options("experts", "votes", "out")
@JSON
def convert(votes_file: Path, experts: Path | None, votes: int | None, out: Path | None, json_file: Path | None) -> int:
    """Turn votes into preferences by the three rules of the TIT-Score paper (A.11), with Krippendorff's alpha.

    Without --experts, the majority decides the pairs that the third rule leaves to experts (`majority` in the table). --votes is
    the planned number of votes for each pair, by default the present one. --out gets the decided pairs, for `judge --pairs`.

    FILE (csv or jsonl) has the columns prompt_id, image_a, image_b, preference (a, b, tie or both_bad) and, if people have names,
    annotator. A column for each person (rater1, rater2) or a list in one cell also does. `judge --pairs FILE` reads the same
    votes in the same way. If no pair is decided, the exit code is 1.

    \b
    Example:
      python cli.py label convert votes.csv --out pairs.jsonl
    """
    from titjudge.core.files import write_jsonl
    from titjudge.runs.study.human_files import pair_records
    from titjudge.stats.people.votes import aggregate_votes
    from titjudge.suites.base import Notes
    from titjudge.suites.pair_files import read_votes

    notes = Notes()
    cast, verdicts = (read_votes(file, notes=notes) if file else () for file in (votes_file, experts))
    summary = aggregate_votes(cast, verdicts, annotators=votes or 1, majority=not experts)
    show_results([summary.table()], summary.to_json(), json_file, notes)
    if not summary.pairs:
        say(f"{votes_file}: no pair is decided; nothing was written", colour="red")
        return 1
    if out is not None:
        write_jsonl(out, pair_records(summary.pairs))
        say(f"pairs  {out}")
    return 0
