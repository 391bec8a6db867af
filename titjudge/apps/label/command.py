"""`label`: a page where people vote on images, and the labels made of their votes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from titjudge.apps.label import PORT
from titjudge.cli.commands import Group
from titjudge.cli.options import JSON, PATH, option, page_options, say_address, with_options
from titjudge.cli.output import show_results
from titjudge.cli.terminal import say

_SHARE = click.FloatRange(0, 1)
_serve_options = with_options(
    option("--store", "The file (SQLite) that keeps the votes.", "FILE", default=Path("labels.sqlite")),
    page_options(PORT),
)


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
      python cli.py label convert votes.csv --pairs-out pairs.jsonl
    """


@label.command(short_help="Serve the page on which people vote or mark.")
@click.argument("data", type=PATH)
@option(
    "--mode",
    "Task: compare two images (pairs), rank all images of a prompt (rank), or mark single images: answer the questions of "
    "the item (yes-no), rate the facets of the checklist, check the elements of its graph, or rate each pillar from 1 to 10.",
    type=click.Choice(["pairs", "yes-no", "facets", "graph", "rating", "rank"]),
    default="pairs",
)
@option(
    "--annotators",
    "Number of people, or their names (anna,ben,chris); each gets a link  [default: 15, 10 to rank, or 3 for single images].",
    "N|NAMES",
)
@option(
    "--open",
    "One link for all: people type their names on its page. --annotators is then the maximum number of people.",
    name="open_link",
    is_flag=True,
)
@option(
    "--plan",
    "all: every pair of images of a prompt, as A.11 of the TIT paper counts votes; merge: fewer votes, by merge sort, which implies "
    "the others  [default: all, or as the store was begun].",
    type=click.Choice(["all", "merge"]),
)
@option(
    "--both-bad/--no-both-bad",
    'Offer "both bad" as an answer in addition to left, right and tie of the TIT paper (A.11).',
    default=True,
)
@option(
    "--votes",
    "Stop asking about an item after N answers, or once fewer have settled it  [default: ask all].",
    "N",
    name="enough",
    default=0,
    show_default=False,
)
@option("--gold", "Attention checks to mix in: pairs with a known answer, or elements (image, element, value).", "FILE")
@option(
    "--gold-share",
    "Share of checks among the questions  [default: about 1 in 12].",
    "X",
    type=click.FloatRange(0, 1 / 3, min_open=True),
)
@option(
    "--gold-least",
    "Stop asking an annotator who certainly answers less than this share of checks right; 0: never.",
    "X",
    type=_SHARE,
    default=0.7,
)
@option("--seed", "Seed of the order of the pairs, and of which image is on the left.", default=0)
@_serve_options
def serve(
    data: Path, mode: str, annotators: str | None, open_link: bool, store: Path, port: int | None, **rules: Any
) -> int:
    """Serve the page on which people vote; every answer is stored on disk before the next question is shown.

    \b
    Examples:
      python cli.py label my_images --annotators anna,ben,chris
      python cli.py label my_images --open
      python cli.py label my_images --mode yes-no --votes 3
    """
    from titjudge.apps.label.server import serve_label
    from titjudge.apps.label.store import annotators_of

    _log_warnings()
    usual = None if open_link else 15 if mode == "pairs" else 10 if mode == "rank" else 3
    people = annotators_of(annotators) if annotators else usual
    numbered = [f"annotator {number}" for number in range(1, people + 1)] if isinstance(people, int) else people
    names = ["everybody"] if open_link else numbered or []

    def ready(links: list[str]) -> None:
        lines = [f"{name}: {link}" for name, link in zip((*names, "organiser"), links, strict=True)]
        say_address(lines, links[0], PORT, port)
        say(
            f"{'votes' if mode == 'pairs' else 'rankings' if mode == 'rank' else 'marks'} are kept in {store}; Ctrl-C ends. To continue, run the command again"
        )

    serve_label(data, annotators=people, open_link=open_link, mode=mode, store=store, port=port, ready=ready, **rules)
    return 0


def _log_warnings() -> None:
    import logging

    logging.basicConfig(level=logging.WARNING, format="%(message)s")


@label.command(short_help="Serve the page on which experts decide what the votes leave open.")
@click.argument("data", type=PATH)
@option("--experts", "How many experts there are; each gets a link.", "N", default=3)
@option("--annotators", "Annotators each item should have  [default: as `label export`].", "N")
@_serve_options
def experts(
    data: Path, store: Path, experts: int, annotators: int | None, host: str, port: int | None, url: str
) -> int:
    """Serve the items that the annotators have left open, with their answers; the majority of the experts decides.

    `label export` lists the same items.

    \b
    Example:
      python cli.py label experts my_images --store labels.sqlite
    """
    from titjudge.apps.label.server import serve_experts

    _log_warnings()

    def ready(links: list[str], number: int) -> None:
        say_address([f"expert {place}: {link}" for place, link in enumerate(links, 1)], links[0], PORT, port)
        say(f"{number:,} open; verdicts are kept in {store}; Ctrl-C ends. To continue, run the command again")

    serve_experts(data, store=store, experts=experts, annotators=annotators, host=host, port=port, url=url, ready=ready)
    return 0


@label.command(short_help="Write pairs, ranks, elements and agreement from votes and marks.")
@click.argument("store", type=PATH)
@click.argument("out", type=PATH)
@option("--experts", "experts.jsonl with the verdicts of the experts filled in.", "FILE")
@option(
    "--gold", "Elements with a known value (image, element, value): show how often each annotator is right.", "FILE"
)
@option(
    "--gold-least",
    "Leave out annotators who certainly answer less than this share of checks right  [default: as served].",
    "X",
    name="least",
    type=_SHARE,
)
@option("--annotators", "Annotators each pair should have  [default: as served].", "N")
@JSON
def export(store: Path, out: Path, json_file: Path | None, **rules: Any) -> int:
    """Write pairs, ranks and open pairs, or the majority value of each element, and the agreement into the folder OUT.

    \b
    Example:
      python cli.py label export labels.sqlite labelled
    """
    from titjudge.apps.label.forms import export_labels

    exported = export_labels(store, out, **rules)
    show_results(exported.tables, exported.result, json_file)
    say(f"\nwritten into {out}: {', '.join(exported.files)}")
    if not exported.decided:
        say(f"{exported.main} is empty: nothing is decided yet; open.csv has the reasons", colour="red")
        return 1
    say(f"next: python cli.py {exported.command} {shlex.quote(str(out / exported.main))}")
    return 0


@label.command(short_help="Turn votes into preferences, with Krippendorff's alpha.")
@click.argument("votes_file", type=PATH, metavar="FILE")
@option("--experts", "Votes of experts on the pairs that the annotators leave open.", "FILE")
@option(
    "--annotators", "Planned number of votes for each pair  [default: its present number].", "N", type=click.IntRange(1)
)
@option("--pairs-out", "Write the decided pairs as JSON lines, for `judge --pairs`.", "FILE")
@JSON
def convert(
    votes_file: Path, experts: Path | None, annotators: int | None, pairs_out: Path | None, json_file: Path | None
) -> int:
    """Turn votes into preferences by the three rules of the TIT-Score paper (A.11), with Krippendorff's alpha.

    Without --experts, the majority decides the pairs that the third rule leaves to experts (`majority` in the table).

    FILE (csv or jsonl) has the columns prompt_id, image_a, image_b, preference (a, b, tie or both_bad) and, if people have names,
    annotator. A column for each person (rater1, rater2) or a list in one cell also does. `judge --pairs FILE` reads the same
    votes in the same way. If no pair is decided, the exit code is 1.

    \b
    Example:
      python cli.py label convert votes.csv --pairs-out pairs.jsonl
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
