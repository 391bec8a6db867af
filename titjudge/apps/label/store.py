"""Votes and marks on disk: one SQLite file, append-only, which several processes may use at once.

A vote, or the marks of an image, is committed and synced before the next question is shown (WAL with `synchronous=FULL`:
a power cut loses nothing). An undo is a row of its own, so that what was taken back stays readable. Triggers refuse changes.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from titjudge.apps.label.dataset import LabelingData
from titjudge.core.errors import DataError, UserError
from titjudge.core.types import Pair
from titjudge.stats.people.votes import BOTH_BAD, pair_of

SCHEMA_VERSION = "1"
ANNOTATOR, EXPERT = "annotator", "expert"
ANSWERS = ("left", "right", "tie", BOTH_BAD)
_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS prompts(id TEXT PRIMARY KEY, text TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS images(id TEXT PRIMARY KEY, prompt_id TEXT NOT NULL, generator TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS gold(
  prompt_id TEXT NOT NULL, image_a TEXT NOT NULL, image_b TEXT NOT NULL, preference TEXT NOT NULL,
  PRIMARY KEY(prompt_id, image_a, image_b)) STRICT;
CREATE TABLE IF NOT EXISTS known(
  image TEXT NOT NULL, element TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY(image, element)) STRICT;
CREATE TABLE IF NOT EXISTS votes(
  id INTEGER PRIMARY KEY AUTOINCREMENT, annotator TEXT NOT NULL, turn INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK(kind IN ('pair', 'gold')), prompt_id TEXT NOT NULL,
  left_image TEXT NOT NULL, right_image TEXT NOT NULL, answer TEXT NOT NULL CHECK(answer IN ('left', 'right', 'tie')),
  shown_at REAL, voted_at REAL NOT NULL, duration_ms INTEGER, source TEXT NOT NULL, UNIQUE(annotator, turn)) STRICT;
CREATE TABLE IF NOT EXISTS undos(
  vote_id INTEGER PRIMARY KEY REFERENCES votes(id), annotator TEXT NOT NULL, turn INTEGER NOT NULL,
  undone_at REAL NOT NULL, UNIQUE(annotator, turn)) STRICT;
CREATE TABLE IF NOT EXISTS submissions(
  id INTEGER PRIMARY KEY AUTOINCREMENT, annotator TEXT NOT NULL, turn INTEGER NOT NULL, image TEXT NOT NULL,
  marks TEXT, note TEXT NOT NULL, shown_at REAL, sent_at REAL NOT NULL, duration_ms INTEGER, UNIQUE(annotator, turn)) STRICT;
"""
_INDEX = """
CREATE INDEX IF NOT EXISTS votes_by_prompt ON votes(prompt_id);
CREATE INDEX IF NOT EXISTS submissions_by_image ON submissions(image);
"""
_APPEND_ONLY = "".join(
    f"CREATE TRIGGER IF NOT EXISTS {table}_{event.lower()} BEFORE {event} ON {table}"
    f" BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END;\n"
    for table in ("votes", "undos", "submissions")
    for event in ("UPDATE", "DELETE")
)


def is_expert(annotator: str) -> bool:
    """Tell whether this is the name of an expert, who decides what annotators leave open."""
    return annotator.startswith(f"{EXPERT}-")


@dataclass(frozen=True, slots=True)
class Vote:
    """One answer of an annotator.

    Attributes:
        turn: Number of earlier votes and undos of the annotator.
        kind: `pair`, or `gold` for an attention check.
        left: Id of the image that was shown on the left.
        right: Id of the image that was shown on the right.
        answer: left, right, tie or both_bad.
        duration_ms: How long the pair was in view, without pauses; None if unknown.
        note: The reason that the annotator gave.
        undone_at: When the vote was taken back. Times are Unix seconds.
    """

    id: int
    annotator: str
    turn: int
    kind: str
    prompt_id: str
    left: str
    right: str
    answer: str
    shown_at: float | None
    voted_at: float
    duration_ms: int | None
    source: str
    note: str = ""
    undone_at: float | None = None

    @property
    def outcome(self) -> int:
        """1 if left is better, -1 if right is, 0 for a tie."""
        return {"left": 1, "right": -1}.get(self.answer, 0)


@dataclass(frozen=True, slots=True)
class Submission:
    """The marks of one annotator for all elements of one image; a later submission for the image replaces it.

    Attributes:
        turn: Number of earlier submissions of the annotator.
        marks: (element, kind, value) of every element; None takes back the submission before.
        note: The reason that the annotator gave.
        duration_ms: How long the image was in view, without pauses; None if unknown.
    """

    id: int
    annotator: str
    turn: int
    image: str
    marks: tuple[tuple[str, str, str], ...] | None
    note: str
    shown_at: float | None
    sent_at: float
    duration_ms: int | None


_SELECT = (
    "SELECT v.id, v.annotator, v.turn, v.kind, v.prompt_id, v.left_image, v.right_image, "
    "CASE WHEN v.both_bad THEN 'both_bad' ELSE v.answer END, v.shown_at, v.voted_at, v.duration_ms, v.source, v.note, u.undone_at FROM votes v LEFT JOIN undos u ON u.vote_id = v.id"
)


class Store:
    """The file of one labelling. Methods may be called from any thread.

    Raises:
        UserError: The file cannot be made or opened, or is no store of labels.
    """

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._depth = 0
        if not create and not path.is_file():
            raise UserError(f"{path}: no such store of labels (`label DATA` makes one)")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
        except (OSError, sqlite3.Error) as error:
            raise UserError(f"{path}: the store of labels cannot be opened: {error}") from error
        try:
            for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "trusted_schema=OFF"):
                self._db.execute(f"PRAGMA {pragma}").fetchall()
            self._db.executescript(_SCHEMA + _INDEX + _APPEND_ONLY)
            with self.writing():
                known = {row[1] for row in self._db.execute("PRAGMA table_info(votes)")}
                for column in ("both_bad INTEGER NOT NULL DEFAULT 0", "note TEXT NOT NULL DEFAULT ''"):
                    if column.partition(" ")[0] not in known:
                        self._db.execute(f"ALTER TABLE votes ADD COLUMN {column}")
            version = self.setting("schema_version", SCHEMA_VERSION)
        except sqlite3.Error as error:
            self._db.close()
            raise UserError(f"{path}: not a store of labels, or a damaged one: {error}") from error
        if version != SCHEMA_VERSION:
            self._db.close()
            raise UserError(f"{path}: the store has version {version}, this titjudge reads {SCHEMA_VERSION}")

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Open a write transaction, which excludes other threads and processes; may be nested."""
        with self._lock:
            if self._depth == 0:
                self._db.execute("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                yield
                if self._depth == 1:
                    self._db.execute("COMMIT")
            except BaseException:
                if self._depth == 1 and self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            finally:
                self._depth -= 1

    def _read(self, query: str, arguments: Sequence[object] | Mapping[str, object] = ()) -> list[Any]:
        with self._lock:
            return self._db.execute(query, arguments).fetchall()

    # -- what is being labelled ------------------------------------------------------------------------------------

    def setting(self, key: str, default: str | None = None) -> str | None:
        """Read a setting; if it is not set yet, `default` is stored."""
        if default is not None:
            self._read("INSERT OR IGNORE INTO meta VALUES(?, ?)", (key, default))
        rows = self._read("SELECT value FROM meta WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else None

    def secret(self) -> bytes:
        """Read the key from which tokens and image codes are derived, so that links stay valid after a restart."""
        return bytes.fromhex(self.setting("secret", secrets.token_hex(32)) or "")

    def begin(self, material: LabelingData, *, plan: str, seed: int, rules: Mapping[str, object]) -> None:
        """Store what is labelled, or check that it has not changed since; `rules` may change.

        Raises:
            UserError: The store was begun with another plan or seed.
            DataError: The text of a prompt has changed.
        """
        with self.writing():
            for key, value in (("plan", plan), ("seed", str(seed))):
                known = self.setting(key, value)
                if known != value:
                    raise UserError(
                        f"{self.path} was begun with {key} {known}, not {value}: use that, or another store"
                    )
            known_prompts = dict(self._db.execute("SELECT id, text FROM prompts"))
            for group, prompt in material.prompts.items():
                if known_prompts.get(group, prompt) != prompt:
                    raise DataError(
                        f"the prompt '{group}' has changed since the votes of {self.path} began: use another store"
                    )
            texts = [(key, str(value)) for key, value in rules.items()]
            self._db.executemany("INSERT OR REPLACE INTO meta VALUES(?, ?)", texts)
            images = [(item.id, item.prompt_id, item.generator) for item in material.items.values()]
            self.describe(material.prompts, images, material.gold)
            known_rows = [(image, *pair) for image, values in material.known.items() for pair in values.items()]
            self._db.executemany("INSERT OR REPLACE INTO known VALUES(?, ?, ?)", known_rows)

    def describe(
        self, prompts: Mapping[str, str], images: Iterable[tuple[str, str, str]], gold: Iterable[Pair]
    ) -> None:
        """Store prompts (id to text), images (id, prompt id, generator) and gold pairs, which an export needs."""
        with self.writing():
            self._db.executemany("INSERT OR IGNORE INTO prompts VALUES(?, ?)", prompts.items())
            self._db.executemany(
                "INSERT INTO images VALUES(?, ?, ?) ON CONFLICT(id) DO UPDATE SET generator = excluded.generator"
                " WHERE generator = ''",  # an import may not have known it
                images,
            )
            rows = [(pair.prompt_id, pair.a, pair.b, pair.choice) for pair in gold]
            self._db.executemany("INSERT OR REPLACE INTO gold VALUES(?, ?, ?, ?)", rows)

    def prompts(self) -> dict[str, str]:
        return dict(self._read("SELECT id, text FROM prompts ORDER BY rowid"))

    def images(self) -> dict[str, tuple[str, str]]:
        """Read (prompt id, generator) of each image id."""
        rows = self._read("SELECT id, prompt_id, generator FROM images ORDER BY rowid")
        return {image: (prompt_id, generator) for image, prompt_id, generator in rows}

    def gold(self) -> list[Pair]:
        rows = self._read("SELECT prompt_id, image_a, image_b, preference FROM gold ORDER BY rowid")
        return [pair_of(group, a, b, preference, "gold") for group, a, b, preference in rows]

    def known(self) -> dict[str, dict[str, str]]:
        """Read the elements with a known value: image -> element -> value."""
        known: dict[str, dict[str, str]] = {}
        for image, element, value in self._read("SELECT image, element, value FROM known ORDER BY rowid"):
            known.setdefault(image, {})[element] = value
        return known

    # -- votes -----------------------------------------------------------------------------------------------------

    def turn(self, annotator: str) -> int:
        """Count the votes and undos of an annotator."""
        query = "SELECT 1 + max(coalesce((SELECT max(turn) FROM votes WHERE annotator = :who), -1), \
            coalesce((SELECT max(turn) FROM undos WHERE annotator = :who), -1))"
        return int(self._read(query, {"who": annotator})[0][0])

    def version(self) -> tuple[int, int]:
        """Count all votes and undos; the counts change with every vote and undo."""
        ((votes, undos),) = self._read("SELECT coalesce(max(id), 0), (SELECT count(*) FROM undos) FROM votes")
        return int(votes), int(undos)

    def votes(self, annotator: str | None = None, *, prompt_id: str | None = None, undone: bool = False) -> list[Vote]:
        """Read votes in order, without those taken back unless `undone`."""
        given = {"v.annotator": annotator, "v.prompt_id": prompt_id}
        wanted = {column: value for column, value in given.items() if value is not None}
        where = [*([] if undone else ["u.vote_id IS NULL"]), *(f"{column} = ?" for column in wanted)]
        query = f"{_SELECT} {'WHERE ' + ' AND '.join(where) if where else ''} ORDER BY v.id"
        return [Vote(*row) for row in self._read(query, tuple(wanted.values()))]

    def add(
        self,
        annotator: str,
        kind: str,
        prompt_id: str,
        left: str,
        right: str,
        answer: str,
        *,
        shown_at: float | None = None,
        duration_ms: int | None = None,
        voted_at: float | None = None,
        source: str = "page",
        note: str = "",
    ) -> Vote:
        """Write a vote; it is on disk when this returns."""
        now = time.time() if voted_at is None else voted_at
        with self.writing():
            turn = self.turn(annotator)
            values = (annotator, turn, kind, prompt_id, left, right, answer, shown_at, now, duration_ms, source, note)
            bad = answer == BOTH_BAD
            cursor = self._db.execute(
                "INSERT INTO votes(annotator, turn, kind, prompt_id, left_image, right_image, answer, shown_at,"
                " voted_at, duration_ms, source, note, both_bad) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*values[:6], "tie" if bad else answer, *values[7:], bad),
            )
        return Vote(int(cursor.lastrowid or 0), *values)

    def undo(self, annotator: str, vote: int | None = None) -> Vote | None:
        """Take back the last vote, or the one with this id, and return it; None if there is none."""
        with self.writing():
            query = f"{_SELECT} WHERE v.annotator = ? AND u.vote_id IS NULL AND v.id = coalesce(?, v.id) ORDER BY v.turn DESC LIMIT 1"
            rows = self._read(query, (annotator, vote))
            if not rows:
                return None
            undone = Vote(*rows[0])
            values = (undone.id, annotator, self.turn(annotator), time.time())
            self._db.execute("INSERT INTO undos VALUES(?, ?, ?, ?)", values)
        return undone

    # -- marks of elements -----------------------------------------------------------------------------------------

    def submissions(self, annotator: str | None = None, *, image: str | None = None) -> list[Submission]:
        """Read submissions in order, also those that were replaced or taken back."""
        wanted = {column: value for column, value in (("annotator", annotator), ("image", image)) if value is not None}
        where = f"WHERE {' AND '.join(f'{column} = ?' for column in wanted)}" if wanted else ""
        rows = self._read(f"SELECT * FROM submissions {where} ORDER BY id", tuple(wanted.values()))
        return [Submission(id, who, turn, image, _marks(text), *rest) for id, who, turn, image, text, *rest in rows]

    def sent(self, annotator: str) -> int:
        """Count the submissions of an annotator."""
        return int(self._read("SELECT count(*) FROM submissions WHERE annotator = ?", (annotator,))[0][0])

    def sent_after(self, number: int) -> list[tuple[int, str]]:
        """List (id, image) of the submissions after this id, in order."""
        return self._read("SELECT id, image FROM submissions WHERE id > ? ORDER BY id", (number,))

    def submit(
        self,
        annotator: str,
        image: str,
        marks: Sequence[tuple[str, str, str]] | None,
        *,
        note: str = "",
        shown_at: float | None = None,
        duration_ms: int | None = None,
        sent_at: float | None = None,
    ) -> None:
        """Write the marks of an image, or that they are taken back (None); they are on disk when this returns."""
        text = None if marks is None else json.dumps(marks, ensure_ascii=False)
        with self.writing():
            now = time.time() if sent_at is None else sent_at
            self._db.execute(
                "INSERT INTO submissions(annotator, turn, image, marks, note, shown_at, sent_at, duration_ms)"
                " VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
                (annotator, self.sent(annotator), image, text, note, shown_at, now, duration_ms),
            )

    def close(self) -> None:
        with self._lock:
            self._db.close()


def _marks(text: str | None) -> tuple[tuple[str, str, str], ...] | None:
    return None if text is None else tuple((name, kind, value) for name, kind, value in json.loads(text))


def current_submissions(rows: Iterable[Submission]) -> list[Submission]:
    """Keep the last submission of each annotator for each image, unless it was taken back, in order."""
    last = {(row.annotator, row.image): row for row in rows}
    return sorted((row for row in last.values() if row.marks is not None), key=lambda row: row.id)
