"""The OpenAPI description of the JSON routes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orjson

from titjudge.core.files import read_yaml
from titjudge.core.types import Json


def description(metrics: Sequence[str]) -> Json:
    """Make the description for a server with these metrics."""
    written = orjson.dumps(read_yaml(Path(__file__).with_name("openapi.yaml"), "a description"))
    named: Json = orjson.loads(written.replace(b'["METRIC"]', orjson.dumps(list(metrics))))
    return named
