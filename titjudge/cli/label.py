"""`label`: a page where people vote or mark, and what their votes come to. `view`: the runs folder in a browser."""

from __future__ import annotations

from pathlib import Path

import click

from titjudge.cli.options import JSON, PATH, GroupByDefault, option
from titjudge.cli.terminal import say

_PART = click.FloatRange(0, 1)
_SHARE = click.FloatRange(0, 1 / 3, min_open=True)


class _ServeByDefault(GroupByDefault):
    """`label DATA` without a further word."""

    default = "serve"


_MODES = click.Choice(["pairs", "yes-no", "facets", "graph", "rating"])


@click.group(cls=_ServeByDefault)
def label() -> None:
    """Let people vote on pairs of images, or mark single ones (`label DATA`), and turn that into labels and agreement.

    \b
    Examples:
      python cli.py label examples/known_answer --annotators 3
      python cli.py label examples/known_answer --mode rating \\
        --store ratings.sqlite
      python cli.py label export labels.sqlite labelled
      python cli.py label experts examples/known_answer
      python cli.py label tasks examples/known_answer tasks.json
    """


@label.command(short_help="Serve the page on which people vote or mark.")
@click.argument("data", type=PATH)
@option(
    "--mode",
    "What people do: compare pairs, or mark single images: answers to the questions of an item, facets of the checklist, "
    "elements of its graph, or 1 to 10 for each pillar.",
    type=_MODES,
    default="pairs",
)
@option("--annotators", "How many people vote; each gets a link  [default: 15, or 3 who mark].", "N", type=int)
@option("--store", "Where votes are kept.", "FILE", type=PATH, default=Path("labels.sqlite"))
@option(
    "--plan",
    "merge: fewer votes, by merge sort; all: every pair.",
    type=click.Choice(["merge", "all"]),
    default="merge",
)
@option(
    "--votes",
    "An item is asked until N have answered, or fewer settle it  [default: everybody].",
    "N",
    type=int,
    default=0,
)
@option(
    "--gold",
    "Pairs with a known answer, or elements (image, element, value), mixed in as checks.",
    "FILE",
    type=PATH,
)
@option("--gold-share", "Share of checks among the questions, up to 0.33  [default: about 1 in 12].", "X", type=_SHARE)
@option(
    "--gold-least",
    "Who is certainly right in fewer of the checks is asked no more; 0: nobody.",
    "X",
    type=_PART,
    default=0.7,
)
@option("--seed", "Order of pairs and sides.", default=0)
@option("--host", "Address to listen on.", default="127.0.0.1")
@option("--port", "Port  [default: 8765, or a free one where that is taken].", "N", type=int)
def serve(
    data: Path,
    mode: str,
    annotators: int | None,
    store: Path,
    plan: str,
    votes: int,
    gold: Path | None,
    gold_share: float | None,
    gold_least: float,
    seed: int,
    host: str,
    port: int | None,
) -> int:
    """Serve the page; every vote, and the marks of every image, are on disk before the next comes."""
    import logging

    from titjudge.web.http_guard import moved
    from titjudge.web.label.server import PORT, serve_label

    logging.basicConfig(level=logging.WARNING, format="%(message)s")

    def ready(links: list[str]) -> None:
        for number, link in enumerate(links, 1):
            say(f"annotator {number}: {link}")
        if told := moved(links[0], PORT, port):
            say(told)
        say(f"{'votes' if mode == 'pairs' else 'marks'} are kept in {store}; Ctrl-C ends, the same command goes on")

    serve_label(
        data,
        annotators=(15 if mode == "pairs" else 3) if annotators is None else annotators,
        host=host,
        port=port,
        store=store,
        mode=mode,
        plan=plan,
        enough=votes,
        gold=gold,
        gold_share=gold_share,
        gold_least=gold_least,
        seed=seed,
        ready=ready,
    )
    return 0


@label.command(short_help="Serve the page on which experts decide what is open.")
@click.argument("data", type=PATH)
@option("--store", "Where votes are kept.", "FILE", type=PATH, default=Path("labels.sqlite"))
@option("--experts", "How many experts there are; each gets a link.", "N", type=int, default=3)
@option("--annotators", "Annotators an item should have  [default: as `label export`].", "N", type=int)
@option("--host", "Address to listen on.", default="127.0.0.1")
@option("--port", "Port  [default: 8765, or a free one where that is taken].", "N", type=int)
def experts(data: Path, store: Path, experts: int, annotators: int | None, host: str, port: int | None) -> int:
    """Serve what `label export` lists for experts, with what the annotators said; their majority decides it.

    \b
    Example:
      python cli.py label experts my_images --store labels.sqlite
    """
    import logging

    from titjudge.web.http_guard import moved
    from titjudge.web.label.server import PORT, serve_experts

    logging.basicConfig(level=logging.WARNING, format="%(message)s")

    def ready(links: list[str], number: int) -> None:
        for place, link in enumerate(links, 1):
            say(f"expert {place}: {link}")
        if told := moved(links[0], PORT, port):
            say(told)
        say(f"{number:,} open; verdicts are kept in {store}; Ctrl-C ends, the same command goes on")

    serve_experts(data, store=store, experts=experts, annotators=annotators, host=host, port=port, ready=ready)
    return 0


@label.command(short_help="Write pairs, ranks, elements and agreement from votes and marks.")
@click.argument("store", type=PATH)
@click.argument("out", type=PATH)
@option("--experts", "experts.jsonl with the verdicts filled in.", "FILE", type=PATH)
@option("--gold", "Elements whose value is known (image, element, value): is an annotator right?", "FILE", type=PATH)
@option(
    "--gold-least", "Leave out who is certainly right in fewer of the checks  [default: as served].", "X", type=_PART
)
@option("--annotators", "Annotators a pair should have  [default: as served].", "N", type=int)
@JSON
def export(
    store: Path,
    out: Path,
    experts: Path | None,
    gold: Path | None,
    gold_least: float | None,
    annotators: int | None,
    json_file: Path | None,
) -> int:
    """Write pairs, ranks and open pairs, or what most say of each element, and the agreement into the folder OUT."""
    from titjudge.cli.output import show_tables, write_json
    from titjudge.web.label.export import export_labels

    results, tables = export_labels(store, out, experts=experts, annotators=annotators, gold=gold, least=gold_least)
    show_tables(tables)
    write_json(json_file, results)
    return 0


@label.command(short_help="Write pairs, or images to mark, as tasks for Label Studio.")
@click.argument("data", type=PATH)
@click.argument("out", type=PATH)
@option("--mode", "What people do, as for the page.", type=_MODES, default="pairs")
@option("--address", "Where Label Studio finds the images.", "URL", default="")
@click.option("--seed", default=0, show_default=True)
def tasks(data: Path, out: Path, mode: str, address: str, seed: int) -> int:
    """Write the pairs of DATA, or its images and what is to be marked of them, as Label Studio tasks (OUT) and labelling interface.

    \b
    Example:
      python cli.py label tasks examples/known_answer tasks.json \\
        --mode graph --address "/data/local-files/?d="
    """
    from titjudge.cli.output import show_problems
    from titjudge.web.label.label_studio import write_tasks

    number, left = write_tasks(data, out, mode=mode, address=address, seed=seed)
    if left:
        say(f"{len(left):,} left out:", err=True)
        show_problems(left)
    say(f"{number} tasks written to {out}, the labelling interface to {out.with_suffix('.xml')}")
    return 0


@label.command("import", short_help="Read annotations of Label Studio into a store of votes or marks.")
@click.argument("file", type=PATH)
@click.argument("store", type=PATH)
@option("--data", "The data folder of the images: names their generators, which tasks do not.", "DATA", type=PATH)
def import_(file: Path, store: Path, data: Path | None) -> int:
    """Read annotations that Label Studio exported as JSON into a store of votes or marks, for `label export`."""
    from titjudge.web.label.label_studio import read_annotations

    added, known, skipped = read_annotations(file, store, data)
    say(f"{added} annotations read into {store} ({known} there already, {skipped} skipped or empty)")
    return 0


@click.command()
@click.argument("runs", type=PATH, default=Path("runs"))
@option("--host", "Address to listen on.", default="127.0.0.1")
@option("--port", "Port  [default: 8766, or a free one where that is taken].", "N", type=int)
def view(runs: Path, host: str, port: int | None) -> int:
    """Serve a folder of runs: those that are running, their progress and spend, and every report.

    \b
    Example:
      python cli.py view runs
    """
    from titjudge.web.http_guard import moved
    from titjudge.web.view.server import PORT, serve_view

    def ready(links: list[str]) -> None:
        say(f"{links[0]}  (Ctrl-C ends)")
        if told := moved(links[0], PORT, port):
            say(told)

    serve_view(runs, host=host, port=port, ready=ready)
    return 0
