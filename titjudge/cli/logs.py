"""`--log-level` and `--log-file`: where the log of a command goes. Without them it goes nowhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from titjudge.cli.terminal import printable

if TYPE_CHECKING:
    import logging

LEVELS = ("debug", "info", "warning", "error")
_DEFAULT = "info"  # of a log file whose level nobody named
_META = "titjudge.log"


def _chosen(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Open the log once both options are known; click calls this for each of them, whether or not it is given."""
    if context.resilient_parsing:
        return value
    chosen = context.meta.setdefault(_META, {})
    chosen[parameter.name] = value
    if len(chosen) == 2 and any(chosen.values()):
        context.call_on_close(open_log(chosen["log_level"] or _DEFAULT, chosen["log_file"]))
    return value


def add_log_options(command: click.Command) -> None:
    """Give a command, or each command of a group, the options that choose the log."""
    if isinstance(command, click.Group):
        for below in command.commands.values():
            add_log_options(below)
        return
    command.params += [
        click.Option(
            ["--log-level"],
            type=click.Choice(LEVELS),
            expose_value=False,
            callback=_chosen,
            help="Log requests, retries, waits and batch jobs, on standard error or into --log-file.",
        ),
        click.Option(
            ["--log-file"],
            type=click.Path(path_type=Path),
            metavar="FILE",
            expose_value=False,
            callback=_chosen,
            help=f"Add the log to this file, a JSON object a line  [level: {_DEFAULT}].",
        ),
    ]


def open_log(level: str, file: Path | None) -> Callable[[], None]:
    """Send what titjudge logs at `level` and above to a file as JSON lines, or to standard error; keys are left out.

    Returns:
        What closes the log.

    Raises:
        UserError: The file cannot be written.
    """
    import logging

    from titjudge.core.errors import UserError
    from titjudge.core.redaction import RedactingFilter

    handler: logging.Handler
    if file is None:
        handler = logging.StreamHandler()
        handler.setFormatter(_lines())
    else:
        try:
            handler = logging.FileHandler(file, encoding="utf-8", errors="replace")
        except OSError as error:
            raise UserError(f"the log cannot be written to {file}: {error.strerror}") from error
        handler.setFormatter(_json_lines())
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


def _lines() -> logging.Formatter:
    import logging

    class Lines(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return printable(super().format(record))

    return Lines("%(asctime)s %(levelname)s %(name)s: %(message)s")


def _json_lines() -> logging.Formatter:
    import datetime
    import json
    import logging

    class JsonLines(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
            line: dict[str, Any] = {
                "time": moment.isoformat(timespec="milliseconds"),
                "level": record.levelname.lower(),
                "logger": record.name,
                "message": record.getMessage(),
                "fields": record.__dict__.get("fields", {}),
            }
            if record.exc_text:
                line["exception"] = record.exc_text
            return json.dumps(line, default=str)

    return JsonLines()
