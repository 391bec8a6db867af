"""`review-prompts`: people accept, edit or reject the prompts of a set before it is final."""

from __future__ import annotations

from pathlib import Path

import click

from titjudge.cli.options import PATH, option
from titjudge.cli.terminal import say


@click.command()
@click.argument("file", type=PATH)
@option("--reviewer", "The name that decisions are recorded under.", "NAME", default="reviewer")
@option("--host", "Address to listen on.", default="127.0.0.1")
@option("--port", "Port  [default: 8767, or a free one where that is taken].", "N", type=int)
@option("--export", "Write the accepted prompts, and serve nothing.", "OUT", name="out", type=PATH)
@option("--accepted-only", "With --export: also while some prompts are undecided.", is_flag=True)
def review_prompts(
    file: Path, reviewer: str, host: str, port: int | None, out: Path | None, accepted_only: bool
) -> int:
    """Serve a page where a person accepts, edits or rejects each prompt of FILE (JSON lines, as make-prompts writes).

    Each decision is on disk in FILE.review.jsonl before the next prompt comes; the last one on a prompt counts. --export
    writes the accepted prompts: edited ones are marked and keep the checks that code has run again on their new text.

    \b
    Examples:
      python cli.py review-prompts long.jsonl --reviewer ada
      python cli.py review-prompts long.jsonl --export final.jsonl
    """
    from titjudge.cli.output import check_writable
    from titjudge.core.errors import ConfigError
    from titjudge.web.http_guard import moved
    from titjudge.web.review.decisions import ACCEPTED, REJECTED, Review
    from titjudge.web.review.server import PORT, serve_review

    if accepted_only and out is None:
        raise ConfigError("--accepted-only goes with --export OUT")
    review = Review(file)
    for problem in review.problems:
        say(f"left out: {problem}", err=True)
    if out is not None:
        counts = review.export(out, accepted_only=accepted_only)
        said = ", ".join(f"{counts[name]} {name}" for name in ("edited", REJECTED, "undecided"))
        say(f"prompts {counts[ACCEPTED]} in {out} ({said})")
        return 0

    check_writable(review.file)

    def ready(links: list[str]) -> None:
        say(links[0])
        if told := moved(links[0], PORT, port):
            say(told)
        say(f"decisions are kept in {review.file}; Ctrl-C ends, the same command goes on")

    serve_review(review, reviewer=reviewer, host=host, port=port, ready=ready)
    return 0
