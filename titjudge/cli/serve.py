"""`serve`: rewards for a training, over HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from titjudge.cli.options import PATH, key_option, model_options, option, overrides_of
from titjudge.cli.terminal import say

_TOKEN = "TITJUDGE_TOKEN"


@click.command(epilog="See docs/serve.md for the lines to change in each framework.")
@key_option("metrics", "NAME", "--metric", multiple=True)
@model_options
@key_option("max_requests", "N")
@key_option("max_tokens", "N")
@key_option("rpm", "N")
@key_option("tpm", "N")
@key_option("out", "DIR")
@option("--metric-option", "Option of a metric, METRIC.KEY=VALUE.", "METRIC.KEY=VALUE", "metric_options", multiple=True)
@key_option("samples", "N")
@key_option("vote")
@key_option("quorum", "N")
@option(
    "--missing",
    "What becomes of a judgement that failed. error: the request fails; skip: its place holds no number (NaN, null); "
    "group-mean: the mean of the other rewards of its prompt in the request, or else the request fails.",
    type=click.Choice(["error", "skip", "group-mean"]),
    default="error",
)
@option("--ignore-inputs", "Judge edited images by their prompt alone; else they are refused.", is_flag=True)
@option("--host", "Address to listen on.", default="127.0.0.1")
@option("--port", "Port  [default: 8767, or a free one where that is taken].", "N", type=int)
@option(
    "--token-file", f"File with the token  [default: {_TOKEN} of the environment, or a new one].", "FILE", type=PATH
)
@option("--no-token", "Answer everybody on this machine.", is_flag=True)
def serve(
    metric_options: tuple[str, ...], missing: Any, ignore_inputs: bool, host: str, port: int | None,
    token_file: Path | None, no_token: bool, **flags: Any,
) -> int:  # fmt: skip
    """Serve rewards to a training: one process, any metrics, the wire formats of five frameworks.

    A judgement that failed is an HTTP error and never a number. Answers are cached; the same command goes on with the
    same ledger, and keeps to the same cap.

    \b
    Examples:
      python cli.py serve --metric tit --captioner openai/gpt-4o --max-cost 50
      python cli.py serve --metric tit-llm --metric hpsv3 --provider openai
      curl http://serve:TOKEN@127.0.0.1:8767/health
    """
    from titjudge.cli.judge import metric_options_of
    from titjudge.core.config import load_config
    from titjudge.runs.reward_server import PORT, serve_rewards
    from titjudge.web.http_guard import moved

    overrides = overrides_of(flags) | {"metric_options": metric_options_of(metric_options)}
    config = load_config(flags["config_file"], overrides)
    if not config.metrics:
        config = config.model_copy(update={"metrics": ["tit-llm" if config.judge else "tit"]})
    token = "" if no_token else _token(token_file)

    def ready(address: str, folder: Path) -> None:
        with_token = address.replace("://", f"://serve:{token}@") if token else address
        say(f"rewards by {', '.join(config.metrics)}: {with_token}")
        if told := moved(f"{address}/", PORT, port):
            say(told)
        say(f"ledger and rewards are kept in {folder}; Ctrl-C ends, the same command goes on")

    serve_rewards(
        config, token=token, host=host, port=port, missing=missing, ignore_inputs=ignore_inputs, ready=ready,
        loading=lambda model: say(f"loading {model}"),
    )  # fmt: skip
    return 0


def _token(file: Path | None) -> str:
    """Read the token, or make one.

    Raises:
        UserError: It cannot be read, is empty, or cannot stand in a URL.
    """
    import re
    import secrets

    from titjudge.core.errors import UserError
    from titjudge.core.files import read_text

    given = read_text(file) if file is not None else os.environ.get(_TOKEN)
    if given is None:
        return secrets.token_urlsafe(24)
    if not re.fullmatch(r"[A-Za-z0-9._~-]{8,}", given.strip()):
        where = file or f"the variable {_TOKEN}"
        raise UserError(f"{where}: a token has at least 8 characters, and only letters, digits and . _ ~ -")
    return given.strip()
