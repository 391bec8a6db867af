"""Every error titjudge raises on purpose.

TitjudgeError
├── UserError            what the person typed, configured or pointed at is wrong: one line, exit code 2
│   ├── ConfigError      a key, value or combination in a configuration
│   ├── DataError        a data file: carries the file and the line
│   └── MissingExtra     an optional package is not installed: carries the install command
├── Unanswered           one question got no usable answer: becomes a Score with value None and a status
├── FatalProviderError   asking on is pointless (wrong key, no quota, no such model): the run stops
├── BudgetExhausted      the cap is reached: nothing new is sent, the run ends as `incomplete: budget`
│   └── BudgetHeld       it is not, but what is left is held by others: the item steps back and waits for its turn
└── CacheWriteError      an answer could not be put on disk: the run ends before more is paid for
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from titjudge.core.types import Reply, Status


class TitjudgeError(Exception):
    """Base class of everything below; `except TitjudgeError` catches nothing that is a bug."""


class UserError(TitjudgeError):
    """Something the person can mend. The message says what was wrong, where, and what to do."""


class ConfigError(UserError):
    """A key, a value or a combination in a configuration is wrong."""


class DataError(UserError):
    """A data file is wrong; `str()` names the file and, where there is one, the line."""

    def __init__(self, message: str, path: Path | str | None = None, line: int | None = None) -> None:
        self.message, self.path, self.line = message, path, line
        where = "" if path is None else f"{path}:{line}: " if line is not None else f"{path}: "
        super().__init__(where + message)


class MissingExtra(UserError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}: pip install 'titjudge[{extra}]'")


class Unanswered(TitjudgeError):
    """One question got no usable answer; the runner turns it into a Score without a value.

    Attributes: `status` (refused, truncated, unparsed, failed, ...), `reason` (one line), `reply` (what came, if anything).
    """

    def __init__(self, status: Status, reason: str, reply: Reply | None = None) -> None:
        self.status, self.reason, self.reply = status, reason, reply
        super().__init__(f"{status}: {reason}")


class FatalProviderError(TitjudgeError):
    """Asking on is pointless: a wrong key, no quota left, a model that does not exist."""


class BudgetExhausted(TitjudgeError):
    """The cap on money, requests or tokens is reached; nothing new is sent."""


class BudgetHeld(BudgetExhausted):
    """There is room below the cap, but other items hold it.

    Whoever gives back what it holds, and reserves `cost` USD and `tokens` again, gets its turn. Answers up to then are
    kept.
    """

    def __init__(self, reason: str, cost: float, tokens: int) -> None:
        self.cost, self.tokens = cost, tokens
        super().__init__(reason)


class CacheWriteError(TitjudgeError):
    """An answer could not be put on disk: paying for more would lose more."""


def nearest(name: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` when something close to `name` is known, else an empty string (both ready to append)."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" Did you mean '{close[0]}'?" if close else ""
