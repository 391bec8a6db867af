"""Convert requests, replies, embeddings, scores and items to JSON types, and back; and the keys of answers."""

from __future__ import annotations

import base64
import hashlib
import math
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path, PurePath
from typing import Any, TypeVar, cast

import orjson

from titjudge.core.answer_probabilities import FirstToken
from titjudge.core.item_meta import DESCRIPTION, FAMILY_KEYS
from titjudge.core.patterns import lazy_pattern
from titjudge.core.score_parts import SUMMED, description
from titjudge.core.types import (
    Cause,
    Embedding,
    InvalidItem,
    Item,
    Json,
    Reply,
    Request,
    Score,
    Status,
    ToolCall,
    Usage,
    Values,
)
from titjudge.core.words import count_words, truncated

T = TypeVar("T")
MAX_PROMPT = 1_000_000  # characters
_LONG = 100  # characters
_HALF = re.compile("[\ud800-\udfff]")
_MOST = 2**63  # of a whole number: 64 bits
_CHECKSUM = "seal"  # its key in a record


def without_surrogates(value: T) -> T:
    """Replace lone surrogates by question marks, in a text or in all texts of JSON data: UTF-8 cannot encode them.

    They come from JSON escapes (half an emoji, where a text was cut) and from file names.
    """
    cleaned: Any = value
    if isinstance(value, str):
        cleaned = value if value.isascii() else value.encode("utf-8", "replace").decode()
    elif isinstance(value, list | tuple):
        cleaned = [without_surrogates(child) for child in value]
    elif isinstance(value, Mapping):
        cleaned = {without_surrogates(key): without_surrogates(child) for key, child in value.items()}
    return cast(T, cleaned)


def json_bytes(value: Any, option: int = 0) -> bytes:
    """Write JSON; `option` is orjson's. Lone surrogates become question marks, for a paid answer must not fail for one.

    Raises:
        TypeError: It is not JSON data.
    """
    try:
        return orjson.dumps(value, option=option)
    except TypeError:  # this is the only reason that can be repaired, and checking for it first would double the cost
        return orjson.dumps(without_surrogates(value), option=option)


def json_problem(value: Any, place: str = "") -> str:
    """Return the place of a value that cannot be written to a JSON file unchanged; empty if there is none.

    Numbers must be finite, whole ones fit into 64 bits, keys are texts, and texts have neither a zero byte nor half of a surrogate
    pair (which a path, in the bytes of the system, may have).
    """
    where = f"'{place[:_LONG]}' " if place else ""
    if isinstance(value, Mapping):
        for key, child in value.items():
            if not isinstance(key, str):
                return f"{where}has the key {_brief(key)}, which must be a text"
            odd = "\0" in key or not key.isascii()  # nearly all keys are plain
            if problem := (odd and json_problem(key)) or json_problem(child, f"{place}.{key}".lstrip(".")):
                return problem
    elif isinstance(value, list | tuple):
        for number, child in enumerate(value):
            if problem := json_problem(child, f"{place}.{number}".lstrip(".")):
                return problem
    elif isinstance(value, str | PurePath):
        text = str(value)
        if "\0" in text or (text is value and not text.isascii() and _HALF.search(text)):
            return f"{where}must be Unicode text without a zero byte, not {_brief(text)}"
    elif isinstance(value, float):
        if not math.isfinite(value):
            return f"{where}must be a finite number, not {value}"
    elif isinstance(value, int):
        if not -_MOST <= value < _MOST:
            return f"{where}must be a whole number of at most 64 bits, not {_brief(value)}"
    elif value is not None:
        return f"{where}must be text, a number, true or false, not {type(value).__name__}"
    return ""


def _brief(value: Any) -> str:
    if isinstance(value, int) and value.bit_length() > _LONG:  # Python writes no number of thousands of digits
        return f"one of {value.bit_length():,} bits"
    return truncated(ascii(value) if isinstance(value, str) else repr(value), _LONG)


def fields_of(record: Any) -> Json:
    """Return the fields of a dataclass by name, as they are."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def json_value(value: Any) -> Any:
    """Convert a record for JSON, as `default=` of `json.dumps`: by its `to_json` method, otherwise a dataclass by its fields.

    Anything else becomes text.
    """
    if hasattr(value, "to_json"):
        return value.to_json()
    return fields_of(value) if is_dataclass(value) else str(value)


def request_record(request: Request) -> Json:
    """Convert a request, with images by hash; `tools` (names) and `choices` only if there are some."""
    record: Json = {
        "item": request.item_id,
        "role": request.role,
        "template": request.template,
        "provider": request.provider,
        "model": request.model,
        "params": dict(request.params),
        "sample": request.sample,
        "attempt": request.attempt,
        "messages": [
            [m.role, *[part if isinstance(part, str) else {"image": part.sha256} for part in m.parts]]
            for m in request.messages
        ],
    }
    if request.choices:
        record["choices"] = list(request.choices)
    if request.tools:
        record["tools"] = [tool.name for tool in request.tools]
        record["messages"] = [
            [*turn, *(f"{c.name}({c.arguments})" for c in m.calls), *(f"{r.call.name}: {r.text}" for r in m.results)]
            for m, turn in zip(request.messages, record["messages"], strict=True)
        ]
    return record


def reply_record(reply: Reply) -> Json:
    """Convert a reply, without `data`, which is parsed again from the text.

    `tool_calls`, each [name, arguments, id, signature], and `first_token` only if there are some.
    """
    usage = reply.usage
    record: Json = {
        "text": reply.text,
        "status": str(reply.status),
        "reason": reply.reason,
        "usage": [usage.input, usage.output, usage.cached_input, usage.thinking, usage.image, *_said(usage.cost)],
        "finish_reason": reply.finish_reason,
        "model_version": reply.model_version,
        "endpoint": reply.endpoint,
        "list_cost": reply.list_cost,
        "seconds": round(reply.seconds, 4),
        "flags": list(reply.flags),
    }
    if reply.tool_calls:
        record["tool_calls"] = [[call.name, call.arguments, call.id, call.signature] for call in reply.tool_calls]
    if reply.first_token is not None:
        record["first_token"] = reply.first_token.record()
    return record


def _said(cost: float | None) -> list[float]:
    return [] if cost is None else [cost]


def reply_from(record: Values) -> Reply:
    """Make a reply from what `reply_record` returned."""
    return Reply(
        text=record["text"],
        status=Status(record["status"]),
        reason=record["reason"],
        usage=Usage(*record["usage"]),
        finish_reason=record["finish_reason"],
        model_version=record["model_version"],
        endpoint=record["endpoint"],
        list_cost=record["list_cost"],
        seconds=record["seconds"],
        flags=tuple(record["flags"]),
        tool_calls=tuple(ToolCall(*call) for call in record["tool_calls"]) if "tool_calls" in record else (),
        first_token=FirstToken.read(record["first_token"]) if "first_token" in record else None,
    )


def embedding_record(vector: Embedding) -> Json:
    import numpy as np

    raw = np.ascontiguousarray(vector.vector, dtype="<f4").tobytes()
    tokens = {"tokens_used": vector.tokens_used, "tokens_total": vector.tokens_total}
    return {"vector": base64.b64encode(raw).decode(), **tokens}


def embedding_from(record: Values) -> Embedding:
    import numpy as np

    vector = np.frombuffer(base64.b64decode(record["vector"]), dtype="<f4")
    return Embedding(vector, record["tokens_used"], record["tokens_total"])


def score_record(score: Score) -> Json:
    return {
        "item": score.item_id,
        "metric": score.metric,
        "value": score.value,
        "status": str(score.status),
        "reason": score.reason,
        "parts": dict(score.parts),
        "replies": list(score.replies),
        "generator": score.generator,
        "prompt_id": score.prompt_id,
        **({"cause": str(score.cause)} if score.cause else {}),
    }


def score_from(record: Values) -> Score:
    """Make a score from a line of scores.jsonl."""
    return Score(
        item_id=record["item"],
        metric=record["metric"],
        value=record["value"],
        status=Status(record["status"]),
        reason=record["reason"],
        parts=record["parts"],
        replies=tuple(record["replies"]),
        generator=record["generator"],
        prompt_id=record["prompt_id"],
        cause=Cause(record["cause"]) if "cause" in record else None,
    )


def storable(item: Item | InvalidItem) -> Item | InvalidItem:
    """Return the item, or an invalid one if it cannot be stored: data nested too deeply, huge integers, endless prompts."""
    if isinstance(item, Item):
        if len(item.prompt) > MAX_PROMPT:  # a few kilobytes of a compressed file can unpack to gigabytes
            reason = f"the prompt has {len(item.prompt):,} characters, more than {MAX_PROMPT:,}. Shorten it"
            return InvalidItem(item.id, reason, item.generator, item.prompt_id)
        try:
            orjson.dumps(
                [item.id, item.prompt, item.generator, item.prompt_id, item.meta, item.sample],
                option=orjson.OPT_SERIALIZE_NUMPY,
            )
        except TypeError as error:
            return InvalidItem(
                item.id,
                f"its data cannot be kept as JSON: {error}. Correct the columns of the row",
                item.generator,
                item.prompt_id,
            )
    return item


def item_record(item: Item | InvalidItem) -> Json:
    """Return the line of items.jsonl for an item, or for an input that cannot be judged."""
    if isinstance(item, InvalidItem):
        record = {"id": item.id, "bad": item.reason, "generator": item.generator, "prompt_id": item.prompt_id}
        return record if item.counts else {**record, "counts": False}
    return {
        "id": item.id,
        "prompt": item.prompt,
        "image": os.path.realpath(item.image) if item.image else None,
        "generator": item.generator,
        "prompt_id": item.prompt_id,
        "meta": dict(item.meta),
        **({"sample": item.sample} if item.sample else {}),
        **({"sources": [os.path.realpath(source) for source in item.sources]} if item.sources else {}),
    }


def item_from(record: Values, folder: Path = Path()) -> Item | InvalidItem:
    """Make an item from what `item_record` returned; `folder` is the run's, to which images of a published run are relative."""
    if "bad" in record:
        names = record["id"], record["bad"], record["generator"], record["prompt_id"]
        return InvalidItem(*names, record.get("counts", True))
    image = _placed(record["image"], folder) if record["image"] else None
    return Item(
        record["id"],
        record["prompt"],
        image,
        record["generator"],
        record["prompt_id"],
        record["meta"],
        record.get("sample", 0),
        sources=tuple(_placed(source, folder) for source in record.get("sources", ())),
    )


def _placed(image: str, folder: Path) -> Path:
    return Path(image) if os.path.isabs(image) else Path(os.path.normpath(folder / image))


# Parts of a score that only a case of a report shows.
_SHOWN_ONLY = frozenset("description missing contradicted evidence transcript".split())
_SHORT = 400  # characters of a description that is kept, to compare it with others
_NONE: Values = {}


def lean_score(record: Values, *, counted: bool = False) -> Score:
    """Make a score without what only a case of a report shows: the reason of a value, some parts, the keys of the replies.

    In the place of the keys is one hash of them, which is the same for scores of the same replies within this process.

    Args:
        record: As `score_record` makes it; strings that repeat are kept once.
        counted: Whether to leave out all parts that tables do not sum up.
    """
    parts = record["parts"]
    kept = {name: parts[name] for name in parts if (name in SUMMED if counted else name not in _SHOWN_ONLY)}
    if 0 < len(text := description(parts)) <= _SHORT:  # a refusal may be the description of many images
        kept["description"] = sys.intern(text)
    elif text:
        kept["description_words"] = count_words(text)
    shared = {name: sys.intern(record[name]) for name in ("item", "metric", "generator", "prompt_id")}
    reason = record["reason"] if record["value"] is None else ""
    replies = {str(hash(frozenset(record["replies"])))} if record["replies"] else ()
    return score_from({**record, **shared, "reason": reason, "replies": replies, "parts": kept or _NONE})


def lean_item(item: Item | InvalidItem, *, alone: bool = False, counted: bool = False) -> Item | InvalidItem:
    """Keep of a long description only a digest, to compare it; texts that several items have are kept once.

    Args:
        item: The item.
        alone: Whether to leave the digest out too, as no other run can have the same item.
        counted: Whether to leave out prompt, images and all meta except families, as the item is only counted.
    """
    id, generator, prompt_id = map(sys.intern, (item.id, item.generator, item.prompt_id))
    if isinstance(item, InvalidItem):
        return replace(item, id=id, generator=generator, prompt_id=prompt_id)
    if counted:
        kept = {key.name: item.meta[key.name] for key in FAMILY_KEYS if key.name in item.meta} if item.meta else _NONE
        return Item(id, "", None, generator, prompt_id, kept or _NONE, item.sample)
    meta, prompt = _lean_meta(item.meta, alone), sys.intern(item.prompt)
    return replace(item, id=id, prompt=prompt, generator=generator, prompt_id=prompt_id, meta=meta)


def _lean_meta(meta: Values, alone: bool) -> Values:
    given = meta.get(DESCRIPTION.name)
    if not isinstance(given, str) or len(given) <= _LONG:
        return meta or _NONE
    others = {name: value for name, value in meta.items() if name != DESCRIPTION.name}
    if alone:
        return others or _NONE
    digest = hashlib.blake2b(given.encode(errors="replace"), digest_size=16).hexdigest()
    return {**others, "description": digest}


def checksum(record: Values) -> str:
    """Compute the first 16 hexadecimal digits of the SHA-256 of a record, without its checksum."""
    content = {name: value for name, value in record.items() if name != _CHECKSUM}
    raw = json_bytes(content, orjson.OPT_SORT_KEYS | orjson.OPT_SERIALIZE_NUMPY)
    return hashlib.sha256(raw).hexdigest()[:16]


def with_checksum(record: Values) -> Json:
    """Add the checksum, which detects accidental changes, and not deliberate ones."""
    return {**record, _CHECKSUM: checksum(record)}


def checksum_differs(record: Values) -> bool:
    """Return True if a record has a checksum that does not match."""
    return _CHECKSUM in record and record[_CHECKSUM] != checksum(record)


def request_key(request: Request) -> str:
    """Hash (SHA-256) everything that can change the answer; never a credential, a timeout or a concurrency."""
    content = {
        "provider": request.provider,
        "adapter": request.adapter_version,
        "model": request.model,
        "base_url": request.base_url,
        "params": dict(request.params),
        "schema": request.schema,
        "sample": request.sample,
        "attempt": request.attempt,
        "messages": [
            [
                message.role,
                *[part if isinstance(part, str) else ["image", part.sha256, part.media_type] for part in message.parts],
            ]
            for message in request.messages
        ],
    }
    if request.tools:  # left out if empty, so that keys from before there were tools stay valid
        content["tools"] = tool_content(request)
    if request.choices:  # likewise
        content["choices"] = request.choices
    return content_key("ask", content)


def tool_content(request: Request) -> list[Any]:
    """Return the tools of a request for its key: those offered, and the calls and results of each turn."""
    offered = [[tool.name, tool.description, tool.parameters] for tool in request.tools]
    return [offered, [[message.calls, message.results] for message in request.messages]]


def content_key(kind: str, content: Any) -> str:
    """Make a stable key for JSON content, in the namespace `kind`."""
    return f"{kind}:" + hashlib.sha256(json_bytes(content, orjson.OPT_SORT_KEYS)).hexdigest()


def short_digest(content: bytes) -> bytes:
    """Return 16 bytes that stand for a key or a record where millions of them are kept in memory."""
    return hashlib.blake2b(content, digest_size=16).digest()


KEY = lazy_pattern(r"[a-z]+:[0-9a-f]{64}")
"""The form of the keys that `content_key` makes."""
