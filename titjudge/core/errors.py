"""Every error titjudge raises on purpose.

TitjudgeError
├── UserError            an argument, a configuration or a data file is wrong: one line, exit code 2
│   ├── ConfigError      a key, value or combination in a configuration
│   ├── DataError        a data file: carries the file and the line
│   │   └── Unclear      data or a server that can be meant in several ways: carries the options that choose
│   └── MissingExtra     an optional package is not installed: carries the install command
├── Unanswered           a question got no usable answer: becomes a Score with value None and a status
├── FatalProviderError   every request will fail (wrong key, no quota, no such model): the run stops
├── BudgetExhausted      the cap is reached: nothing new is sent, the run ends as `incomplete: budget`
│   └── BudgetHeld       it is not, but other items have reserved the rest: the item releases its reservation and waits
└── CacheWriteError      an answer could not be written to disk: the run ends before more is paid for
"""

from __future__ import annotations

import errno
import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from titjudge.core.types import Cause, Reply, Status


class TitjudgeError(Exception):
    """Base class of all errors of titjudge; bugs are never one."""


_LONGEST = 400  # characters of a cell or a name
_LONG_PIECE = re.compile(rf"""\S{{{_LONGEST + 1},}}|(['"]).{{{_LONGEST + 1},}}\1""")
_LONGEST_LINE = 4 * _LONGEST


def brief(message: str) -> str:
    """Cut what a message quotes: words, and texts in quotes, of more than 400 characters, and lines of more than 1,600."""
    if len(message) <= _LONGEST:
        return message
    message = _LONG_PIECE.sub(lambda piece: f"{piece[0][: _LONGEST // 2]}…", message)
    lines = (line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…" for line in message.split("\n"))
    return "\n".join(lines)


class UserError(TitjudgeError):
    """A mistake that the user can correct. The message gives the fault, its place and the remedy."""

    def __init__(self, message: object = "") -> None:
        super().__init__(brief(str(message)))


class ConfigError(UserError):
    """A key, a value or a combination in a configuration is wrong."""


_HEAD, _TAIL = 260, 130  # characters of a message that are kept


class DataError(UserError):
    """A data file is wrong; `str()` contains the file and, if known, the line.

    A message may quote a cell of any length: the middle of a long one is cut out.
    """

    def __init__(self, message: str, path: Path | str | None = None, line: int | None = None) -> None:
        if len(message) > _HEAD + _TAIL:
            message = f"{message[:_HEAD]} … {message[-_TAIL:]}"
        self.message, self.path, self.line = message, path, line
        where = "" if path is None else f"{path}:{line}: " if line is not None else f"{path}: "
        super().__init__(where + message)


class Unclear(DataError):
    """Data or a server can be read in several ways; `str()` lists the options for each.

    Attributes:
        options: Options of the command for each meaning, with a remark about the first image.
    """

    def __init__(self, message: str, path: Path | str | None, options: Sequence[tuple[str, str]]) -> None:
        super().__init__(message, path)
        self.options = list(options)

    def __str__(self) -> str:
        return self.with_command("")

    def with_command(self, command: str) -> str:
        """Return the message with the whole command for each meaning."""
        lines = (f"  {f'{command} {options}'.strip()}{first and f'   # {first}'}" for options, first in self.options)
        return "\n".join([super().__str__(), *lines])


class MissingExtra(UserError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}: pip install 'titjudge[{extra}]'")


class Unanswered(TitjudgeError):
    """A question got no usable answer; the engine turns it into a Score without a value.

    Attributes: `status` (refused, truncated, unparsed, failed, ...), `reason` (one line), `reply` (what came, if
    anything), `parts` (of the score), `cause` (what happened to the request, if the status is `failed`).
    """

    def __init__(
        self,
        status: Status,
        reason: str,
        reply: Reply | None = None,
        *,
        parts: Mapping[str, Any] | None = None,
        cause: Cause | None = None,
    ) -> None:
        self.status, self.reason, self.reply, self.parts, self.cause = status, reason, reply, parts or {}, cause
        super().__init__(f"{status}: {reason}")


class FatalProviderError(TitjudgeError):
    """Every further request will fail: a wrong key, no quota left, a model that does not exist."""


class BudgetExhausted(TitjudgeError):
    """The cap on money, requests or tokens is reached; nothing new is sent."""


class BudgetHeld(BudgetExhausted):
    """The rest of the cap is reserved by other items.

    The item releases its reserve and waits until `cost` USD and `tokens` can be reserved. Its answers so far are
    kept.
    """

    def __init__(self, reason: str, cost: float, tokens: int) -> None:
        self.cost, self.tokens = cost, tokens
        super().__init__(reason)


class CacheWriteError(TitjudgeError):
    """An answer could not be written to disk: further ones would be paid for and lost."""


def nearest(name: str, names: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` if a known name is close to `name`, otherwise an empty string (both to be appended)."""
    import difflib

    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)
    return f" Did you mean '{close[0]}'?" if close else ""


def unknown(kind: str, name: str, names: Iterable[str]) -> str:
    """Return `unknown KIND 'name'. Did you mean 'x'? Known: x, y` with the first 20 names, or `none`."""
    names = list(names)
    listed = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return f"unknown {kind} '{name}'.{nearest(name, names)} Known: {listed or 'none'}"


def must_be(name: str, rule: str, value: object) -> str:
    """Return `NAME must be RULE, not VALUE`, with the first items of a list; of other objects only the type is quoted."""
    plain = value is None or isinstance(value, str | int | float)
    shown = repr(value) if plain else reprlib.repr(value) if isinstance(value, list) else type(value).__name__
    return f"{name} must be {rule}, not {shown:.80}"


FILE_REMEDIES = {
    errno.ENOENT: "Correct the path",
    errno.ENOTDIR: "Correct the path: a part of it is a file",
    errno.EISDIR: "Give a file, not a folder",
    errno.EEXIST: "Choose another name, or move this file away",
    errno.ENOSPC: "Free space on the disk, then run the command again",
    errno.EROFS: "Choose a path that can be written",
    errno.ENAMETOOLONG: "Shorten the name",
    errno.EIO: "Check the disk",
    errno.EMFILE: "Increase the limit of open files (`ulimit -n`)",
    errno.EACCES: "Change its permissions, or choose another path",
}
FILE_REMEDIES |= {errno.EPERM: FILE_REMEDIES[errno.EACCES], errno.EDQUOT: FILE_REMEDIES[errno.ENOSPC]}


def file_fault(error: BaseException) -> str:
    """Return the fault of a file and the next action; without a number of the system, the content is damaged."""
    fault = getattr(error, "strerror", None) or "damaged, or of another format"
    return f"{fault}. {FILE_REMEDIES.get(getattr(error, 'errno', None) or 0, 'Save or copy the file again')}"


def first_fault(words: object, faults: Mapping[str, str]) -> str:
    """Return the fault whose pattern is the first that fits the words of a library."""
    return next(fault for pattern, fault in faults.items() if re.search(pattern, str(words)))


def rule_of(problem: Mapping[str, Any]) -> str:
    """Return the broken rule of a problem that pydantic reports, without pydantic's words."""
    rule = re.sub(r"^Value error, |, (unable to|got a number).*|(?<=Invalid JSON):.*", "", problem["msg"])
    rule = re.sub(r"a valid dict.*", "a mapping of keys", rule).replace("a valid list", "a list, such as [a, b]")
    return rule.replace("Input should be", "must be")


def not_combined(first: str, second: str) -> str:
    """Return the message for two options of which only one can be given."""
    return f"{first} cannot be combined with {second}. Remove one of them"
