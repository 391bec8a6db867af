"""`--log-level` and `--log-file`: log what a command does. Without them nothing is logged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from titjudge.cli.terminal import printable

if TYPE_CHECKING:
    import logging

LEVELS = ("debug", "info", "warning", "error")
_DEFAULT = "info"  # level of --log-file without --log-level
_META = "titjudge.log"


def _chosen(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Open the log once both options are known; click calls this for each of them, given or not."""
    if context.resilient_parsing:
        return value
    chosen = context.meta.setdefault(_META, {})
    chosen[parameter.name] = value
    if len(chosen) == 2 and any(chosen.values()):
        context.call_on_close(open_log(chosen["log_level"] or _DEFAULT, chosen["log_file"]))
    return value


def add_log_options(command: click.Command) -> None:
    """Add `--log-level` and `--log-file` to a command, or to each command of a group; only `titjudge --help` lists them."""
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            add_log_options(subcommand)
        return
    command.params += [
        click.Option(
            ["--log-level"],
            type=click.Choice(LEVELS),
            expose_value=False,
            callback=_chosen,
            hidden=True,
        ),
        click.Option(
            ["--log-file"],
            type=click.Path(path_type=Path),
            metavar="FILE",
            expose_value=False,
            callback=_chosen,
            hidden=True,
        ),
    ]


def open_log(level: str, file: Path | None) -> Callable[[], None]:
    """Log at `level` and above to a file as JSON lines, or to standard error; API keys are redacted.

    Returns:
        A function that closes the log.

    Raises:
        OSError: The file cannot be written.
    """
    import logging

    from titjudge.core.redaction import RedactingFilter

    class Formatter(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            text = super().format(record)  # which sets `exc_text`
            return printable(text) if file is None else _json_line(record)

    handler: logging.Handler
    if file is None:
        handler = logging.StreamHandler()
    else:
        handler = logging.FileHandler(file, encoding="utf-8", errors="replace")
    handler.setFormatter(Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.addFilter(RedactingFilter())
    logger = logging.getLogger("titjudge")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level.upper())

    def close() -> None:
        logger.removeHandler(handler)
        logger.setLevel(before)
        handler.close()

    return close


def _json_line(record: logging.LogRecord) -> str:
    import datetime
    import json

    line: dict[str, Any] = {
        "time": datetime.datetime.fromtimestamp(record.created, datetime.UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": record.getMessage(),
        "fields": record.__dict__.get("fields", {}),
    }
    if record.exc_text:
        line["exception"] = record.exc_text
    return json.dumps(line, default=str)
