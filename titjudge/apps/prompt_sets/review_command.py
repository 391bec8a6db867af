"""`prompts review`: a page where people accept, edit or reject the prompts of a set."""

from __future__ import annotations

from pathlib import Path

import click

from titjudge.apps.prompt_sets.review import PORT
from titjudge.cli.commands import Command
from titjudge.cli.option_table import PATH
from titjudge.cli.options import gathered, option, options, say_address
from titjudge.cli.output import check_writable
from titjudge.cli.terminal import say
from titjudge.core.errors import ConfigError
from titjudge.web import PageAddress


@click.command(cls=Command, resumed=True, short_help="Serve a page on which a person reviews prompts.")
@click.argument("file", type=PATH)
@option("author", multiple=True, default=("reviewer",))
@gathered("at", PageAddress, port={"shown": PORT})
@options("out", "accepted_only")
def review(file: Path, author: tuple[str, ...], at: PageAddress, out: Path | None, accepted_only: bool) -> int:
    """Serve a page where people accept, edit or reject each prompt of FILE (JSON lines, as `prompts make` writes them).

    They can also correct its facets and notes, its graph, and its questions with answers. Each decision is written to
    FILE.review.jsonl before the next prompt is shown. The last decision of a person on a prompt counts, and the majority of
    the people decides. Each --author gets a link. --out writes the accepted prompts and ends, without serving the page. Edited ones are marked, and list only the checks that they have
    passed again.

    \b
    Examples:
      python cli.py prompts review long.jsonl --author ada --author ben
      python cli.py prompts review long.jsonl --out final.jsonl
    """
    from titjudge.apps.label.store import name_of, names_of
    from titjudge.apps.prompt_sets.review.server import ACCEPTED, REJECTED, Review, serve_review

    if accepted_only and out is None:
        raise ConfigError("--accepted-only requires --out FILE")
    review = Review(file)
    for problem in review.problems:
        say(f"left out: {problem}", err=True)
    if out is not None:
        counts = review.export(out, accepted_only=accepted_only)
        others = ", ".join(f"{counts[name]} {name}" for name in ("edited", REJECTED, "undecided"))
        say(f"prompts {counts[ACCEPTED]} in {out} ({others})")
        return 0

    check_writable(review.file)
    names = names_of([*dict.fromkeys(map(name_of, author))], "author")

    def ready(links: list[str]) -> None:
        lines = links if len(links) == 1 else [f"{name}: {link}" for name, link in zip(names, links, strict=True)]
        say_address(lines, links[0], PORT, at.port)
        say(f"decisions are kept in {review.file}; Ctrl-C ends. To continue, run the command again")

    serve_review(review, reviewers=names, at=at, ready=ready)
    return 0
