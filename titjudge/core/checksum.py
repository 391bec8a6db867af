"""A line of a run folder carries its own checksum, so that a changed byte is found even where no number depends on it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

FIELD = "seal"


def seal_of(record: Mapping[str, Any]) -> str:
    """The first 16 hexadecimal digits of the SHA-256 over the record's content, its seal left out."""
    content = {name: value for name, value in record.items() if name != FIELD}
    raw = orjson.dumps(content, option=orjson.OPT_SORT_KEYS | orjson.OPT_SERIALIZE_NUMPY)
    return hashlib.sha256(raw).hexdigest()[:16]


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with its seal. It protects from accidents, not from somebody who computes a new one."""
    return {**record, FIELD: seal_of(record)}


def broken(record: Mapping[str, Any]) -> bool:
    """Whether the record has a seal that does not fit; one without a seal is not broken."""
    return FIELD in record and record[FIELD] != seal_of(record)
