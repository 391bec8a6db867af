"""One answer of a model behind a network, as a test scripts it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_STATUS = {"html": 502, "bad_key": 401, "no_model": 404, "quota": 429}
_STATUS |= dict.fromkeys(("azure_filter", "no_schema", "no_tools"), 400)


@dataclass(frozen=True)
class Scripted:
    """One answer instead of the server's.

    Attributes:
        text: The answer; without it a text made from a hash of the request.
        kind: Kind of answer: refusal, length, empty, malformed (JSON cut short), html, page (HTML with status 200), drop_before, drop_after (no
            connection; broken in the middle of the answer), hang, bad_key, no_model.
        status: The HTTP status.
        headers: Further headers.
        finish_reason: The finish reason instead of the usual one; None is `null`.
    """

    text: str | None = None
    kind: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    finish_reason: str | None = ""

    @classmethod
    def fault(cls, kind: str | int, retry_after: float | str | None = None, **attributes: Any) -> Scripted:
        """Make a failure: `fault(429, retry_after=2)`, `fault("drop_before")`, `fault("refusal")`, ...

        Args:
            kind: A status or a `kind`.
            retry_after: Seconds, or a date, in the header `Retry-After`.
            **attributes: Further attributes.
        """
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        status = _STATUS.get(str(kind), int(kind) if str(kind).isdigit() else 200)
        return cls(kind="" if str(kind).isdigit() else str(kind), status=status, headers=headers, **attributes)
