"""Print text from untrusted sources (file names, answers of servers) without control characters."""

from __future__ import annotations

from typing import Any

import click

from titjudge.core.patterns import lazy_pattern

_CONTROL = lazy_pattern("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Escape control characters and bidirectional marks as `\\xNN` and `\\uNNNN`."""
    return _CONTROL.sub(lambda match: _escaped(match[0]), text)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def say(message: Any = "", *, err: bool = False, nl: bool = True, colour: str | None = None) -> None:
    """Print a line as `click.echo` does, with control characters escaped; `colour` is used on terminals only."""
    text = printable(str(message))
    click.echo(click.style(text, fg=colour) if colour else text, err=err, nl=nl)
