"""Answers of a run as a portable recording: `answers.jsonl` beside the data, which the `recorded` provider replays."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from titjudge.config import RoleConfig
from titjudge.errors import ConfigError, DataError, UserError
from titjudge.images import Pictures
from titjudge.offline import IMPORTED, FromFile, Imported, question_text, read_answers, walk
from titjudge.providers import Provider
from titjudge.providers.recorded import question_key
from titjudge.providers.recorded import read_answers as read_recording
from titjudge.session import Session
from titjudge.types import Item, Status


@dataclass(slots=True)
class Kept(Imported):
    """What became of answers that were to be recorded: `imported` ones are in the recording now, `already` ones were."""


def record(session: Session, files: Sequence[Path], to: Path, *, by: str = "") -> Kept:
    """Add answers to the recording `to`: those in `files`, and what the models of `session` answered into the cache.

    A file holds lines as `offline.import_answers` takes them. Only answers that a run would use are recorded (they fit
    what was asked), and only in text: turns with native tools are named as unusable. One that is in the recording is
    never replaced. `by` says who answered; without it the model's name.

    Raises:
        DataError: a file or the recording cannot be read. ConfigError: nobody says who gave an answer.
        UserError: the recording cannot be written.
    """
    result = Kept()
    answers = read_answers(files, result)
    kept = read_recording(to) if to.is_file() else {}
    asked: set[str] = set()
    used: dict[str, dict[str, Any]] = {}

    def seat(config: RoleConfig, real: Provider) -> FromFile:
        return FromFile(real, answers, asked, first=not real.capabilities.cache)

    def journal(kind: str, reply: dict[str, Any]) -> None:
        if kind == "reply" and reply["status"] == Status.OK and not reply["attempt"]:
            used[reply["key"]] = reply

    asyncio.run(walk(session, seat, journal))
    lines: dict[str, dict[str, Any]] = {}
    shown = asyncio.run(_paths(session, to.parent))
    for key, reply in used.items():
        if reply.get("tools"):
            result.unusable.append((key, "it was asked with native tools, which a recording cannot offer"))
            continue
        question = question_key(reply["messages"], reply["sample"])
        if question in kept:
            result.already += 1
        elif question not in lines and "recorded" not in reply["flags"]:
            lines[question] = _line(question, reply, shown, by)
    for key in sorted(answers.keys() - used.keys()):
        if key in asked:
            result.unusable.append((key, answers[key].reason or "the answer does not fit what was asked"))
        else:
            result.unknown.append(key)
    result.imported = len(lines)
    if lines:
        _append(to, sorted(lines.values(), key=lambda line: (line["template"], line["images"], line["key"])))
    return result


def _line(key: str, reply: dict[str, Any], shown: dict[str, str], by: str) -> dict[str, Any]:
    who = by or reply["model_version"] or ("" if IMPORTED in reply["flags"] else reply["model"])
    if not who:
        raise ConfigError("answers from a file do not say who gave them: add --by, for example --by 'a person'")
    digests = [part["image"] for _, *parts in reply["messages"] for part in parts if isinstance(part, dict)]
    line = {
        "key": key,
        "template": reply["template"],
        "images": [shown.get(digest, f"sha256:{digest}") for digest in digests],
        "question": question_text(reply["messages"]),
        "answer": reply["text"],
        "by": who,
    }
    return {**line, "sample": reply["sample"]} if reply["sample"] else line


async def _paths(session: Session, home: Path) -> dict[str, str]:
    """Path, relative to the recording, of every picture by the hash of what is sent; a name where it lies elsewhere."""
    pictures, found = Pictures(session.cache), {}
    for item in session.items():
        if isinstance(item, Item) and item.image is not None:
            try:
                digest = (await pictures.open(item.image)).sha256
            except DataError:
                continue  # nobody was asked about it
            place, root = item.image.resolve(), home.resolve()
            found[digest] = place.relative_to(root).as_posix() if place.is_relative_to(root) else place.name
            pictures.forget(item.image)
    return found


def _append(file: Path, lines: Iterable[dict[str, Any]]) -> None:
    """The recording with more lines, in one step: whole or not at all."""
    aside = file.with_name(f".{file.name}.new")
    try:
        before = file.read_bytes() if file.is_file() else b""
        if before and not before.endswith(b"\n"):
            before += b"\n"
        added = b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)
        file.parent.mkdir(parents=True, exist_ok=True)
        aside.write_bytes(before + added)
        os.replace(aside, file)
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from error
