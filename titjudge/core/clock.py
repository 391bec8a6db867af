"""The current day, on which retirements and prices of models depend: the machine's, or that of TITJUDGE_TODAY.

The environment variable (YYYY-MM-DD) shows what a command will do on a later day.
"""

from __future__ import annotations

import os
from datetime import UTC, date, datetime

from titjudge.core.errors import ConfigError

TODAY = "TITJUDGE_TODAY"


def now() -> datetime:
    """Return the current time in UTC.

    Raises:
        ConfigError: The variable is not a day.
    """
    day = os.environ.get(TODAY)
    if not day:
        return datetime.now(UTC)
    try:
        return datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC)
    except ValueError:
        raise ConfigError(f"{TODAY}={day[:40]!r} is not a day: write it as 2026-12-01") from None


def today() -> date:
    """Return the current day in UTC; raises as `now`."""
    return now().date()
