"""What day it is, where models retire and prices change: this machine's, or that of the variable TITJUDGE_TODAY.

The variable (YYYY-MM-DD) shows today what a command will say and do on a later day.
"""

from __future__ import annotations

import os
from datetime import UTC, date, datetime

from titjudge.core.errors import ConfigError

TODAY = "TITJUDGE_TODAY"


def now() -> datetime:
    """Tell the moment, in UTC.

    Raises:
        ConfigError: the variable holds no day.
    """
    wanted = os.environ.get(TODAY)
    if not wanted:
        return datetime.now(UTC)
    try:
        return datetime.fromisoformat(wanted).replace(hour=12, tzinfo=UTC)
    except ValueError:
        raise ConfigError(f"{TODAY}={wanted[:40]!r} is not a day: write it as 2026-12-01") from None


def today() -> date:
    """Tell the day, in UTC; raises as `now`."""
    return now().date()
