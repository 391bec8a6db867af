"""`serve`: rewards for training frameworks, over HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from titjudge.apps.rewards import PORT
from titjudge.cli.commands import Command
from titjudge.cli.options import RunKeys, configured, gathered, model_options, options, say_address
from titjudge.cli.terminal import say
from titjudge.core.errors import UserError
from titjudge.web import PageAddress

_TOKEN = "TITJUDGE_TOKEN"


@click.command(
    cls=Command, resumed=True, epilog="See docs/how-to/reward-server.md for the lines to change in each framework."
)
@options("metrics")
@model_options
@options("rpm", "out", missing="error", max_body=256)
@gathered("at", PageAddress, port={"shown": PORT}, url=None)
@options("token_file", "no_token")
@configured
def serve(keys: RunKeys, missing: Any, max_body: int, at: PageAddress, token_file: Path | None, no_token: bool) -> int:
    """Serve rewards to a training run: any metrics, in the wire formats of five frameworks, from one process.

    A judgement that failed is an HTTP error, never a number. Answers are cached, and running the same command again
    continues the same run folder under the same cap.

    \b
    Examples:
      python cli.py serve --metric tit --captioner openai/gpt-6-luna --max-cost 50
      python cli.py serve --metric tit-llm --metric hpsv3 --provider openai
      curl http://serve:TOKEN@127.0.0.1:8767/health
    """
    from titjudge.apps.rewards.server import serve_rewards

    config = keys.config()
    if not config.metrics:
        config = config.model_copy(update={"metrics": ["tit-llm" if config.judge else "tit"]})
    token = "" if no_token else _token(token_file)

    def ready(address: str, folder: Path) -> None:
        with_token = address.replace("://", f"://serve:{token}@") if token else address
        say_address([f"rewards by {', '.join(config.metrics)}: {with_token}"], f"{address}/", PORT, at.port)
        say(f"ledger and rewards are kept in {folder}; Ctrl-C ends. To continue, run the command again")

    serve_rewards(
        config,
        token=token,
        host=at.host,
        port=at.port,
        missing=missing,
        ignore_inputs=config.ignore_sources,
        max_body=max_body * 2**20,
        ready=ready,
        loading=lambda model: say(f"loading {model}"),
    )
    return 0


def _token(file: Path | None) -> str:
    """Read the token from a file or the environment, or make one.

    Raises:
        UserError: It cannot be read, is too short, or has characters that a URL cannot contain.
    """
    import re
    import secrets

    from titjudge.core.files import read_text

    token = read_text(file) if file is not None else os.environ.get(_TOKEN)
    if token is None:
        return secrets.token_urlsafe(24)
    if not re.fullmatch(r"[A-Za-z0-9._~-]{8,}", token.strip()):
        where = file or f"the variable {_TOKEN}"
        raise UserError(f"{where}: the token must have at least 8 characters: letters, digits and . _ ~ -. Change it")
    return token.strip()
