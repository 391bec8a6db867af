"""Answers on disk: one SQLite file, append-only, which several processes may use at once.

An answer is committed and synced before the next question is shown (WAL with `synchronous=FULL`: a power cut loses nothing).
The last row of a person for a question counts: a further answer replaces the one before, a row without an answer takes it back.
Triggers refuse changes.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import sqlite3
import threading
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from titjudge.apps.label.dataset import LabelingData
from titjudge.apps.label.questions import ANNOTATOR, RANK, FormBase, LabelAnswer, Question, is_expert
from titjudge.core.errors import DataError, UserError, file_fault, must_be
from titjudge.core.types import Pair
from titjudge.stats.people.votes import pair_of
from titjudge.stats.scores.families import families

MAX_ANNOTATORS = 1000
_LONGEST = 40  # characters of a name
_NAME = re.compile(r"\w[\w .@+-]*")


def annotators_of(text: str) -> int | list[str]:
    """Read `--annotators`: a number, or names with commas between them."""
    return int(text) if text.strip().isdecimal() else [name.strip() for name in text.split(",")]


def names_of(people: int | Sequence[str], role: str) -> list[str]:
    """Name the people who answer, with two digits if only their number is given (`annotator-01`).

    Raises:
        UserError: There are too few or too many, two have the same name, or a name cannot be one.
    """
    names = [f"{role}-{number:02d}" for number in range(1, people + 1)] if isinstance(people, int) else list(people)
    if not 1 <= len(names) <= MAX_ANNOTATORS:
        raise UserError(must_be(f"the number of {role}s", f"from 1 to {MAX_ANNOTATORS}", len(names)))
    for name in names if not isinstance(people, int) else ():
        _check_name(name)
    if len({folded(name) for name in names}) < len(names):
        raise UserError(f"two annotators of {', '.join(names)} have the same name. Give each a different name")
    return names


def name_of(typed: str) -> str:
    """Read a typed name; spaces at its ends are removed, and several in a row become one.

    Raises:
        DataError: It cannot be a name; the message gives the reason.
    """
    name = unicodedata.normalize("NFC", " ".join(typed.split()))
    if not name:
        raise DataError("the name is empty. Type your name")
    if len(name) > _LONGEST:
        raise DataError(f"the name has {len(name):,} characters, more than {_LONGEST}. Type a shorter name")
    _check_name(name)
    return name


def folded(name: str) -> str:
    """Write a name so that all spellings which people take for the same one are equal: `Anna` and `anna`."""
    return unicodedata.normalize("NFKC", name).casefold()


def _check_name(name: str) -> None:
    """Refuse what cannot be a name; accents and vowel signs belong to the letter before them."""
    letters = "".join(sign for sign in name if not unicodedata.category(sign).startswith("M"))
    if (
        not _NAME.fullmatch(letters)
        or not name.startswith(letters[0])
        or len(name) > _LONGEST
        or is_expert(folded(name))
    ):
        raise DataError(
            f"{name!r} cannot be the name of an annotator. Use up to {_LONGEST} letters, digits, spaces and . @ + - _. Begin "
            "with a letter or a digit, but not with 'expert-'"
        )


SCHEMA_VERSION = "4"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS prompts(id TEXT PRIMARY KEY, text TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS images(id TEXT PRIMARY KEY, prompt_id TEXT NOT NULL, generator TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS gold(
  prompt_id TEXT NOT NULL, image_a TEXT NOT NULL, image_b TEXT NOT NULL, preference TEXT NOT NULL,
  PRIMARY KEY(prompt_id, image_a, image_b)) STRICT;
CREATE TABLE IF NOT EXISTS known(
  image TEXT NOT NULL, element TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY(image, element)) STRICT;
CREATE TABLE IF NOT EXISTS identical(image_a TEXT NOT NULL, image_b TEXT NOT NULL, PRIMARY KEY(image_a, image_b)) STRICT;
CREATE TABLE IF NOT EXISTS people(folded TEXT PRIMARY KEY, name TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS answers(
  id INTEGER PRIMARY KEY AUTOINCREMENT, annotator TEXT NOT NULL, turn INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK(kind IN ('pair', 'gold', 'image', 'rank')), prompt_id TEXT NOT NULL, image TEXT NOT NULL, other TEXT,
  answer TEXT, note TEXT NOT NULL, shown_at REAL, answered_at REAL NOT NULL, duration_ms INTEGER,
  UNIQUE(annotator, turn)) STRICT;
CREATE INDEX IF NOT EXISTS answers_by_prompt ON answers(prompt_id);
CREATE TRIGGER IF NOT EXISTS answers_update BEFORE UPDATE ON answers BEGIN SELECT RAISE(ABORT, 'answers is append-only'); END;
CREATE TRIGGER IF NOT EXISTS answers_delete BEFORE DELETE ON answers BEGIN SELECT RAISE(ABORT, 'answers is append-only'); END;
"""
_COLUMNS = (
    "annotator, turn, kind, prompt_id, image, other, answer, note, shown_at, answered_at, duration_ms"  # of a row
)
_ANSWERS = f"""
SELECT {_COLUMNS}, ended_at, taken_back FROM (
  SELECT *, lead(answered_at) OVER later AS ended_at, lead(id) OVER later IS NOT NULL AND lead(answer) OVER later IS NULL AS taken_back
  FROM answers {{}} WINDOW later AS (PARTITION BY annotator, kind, prompt_id, image, other ORDER BY id))
WHERE answer IS NOT NULL {{}} ORDER BY id"""


class Store:
    """The file of one labelling. Methods may be called from any thread.

    Raises:
        UserError: The file cannot be made or opened, or is not a store of labels.
    """

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._depth = 0
        if not create and not path.is_file():
            raise UserError(f"{path}: the store of votes does not exist. Create it with `label DATA`")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
        except (OSError, sqlite3.Error) as error:
            raise UserError(f"{path}: the store of votes cannot be opened: {file_fault(error)}") from error
        try:
            for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "trusted_schema=OFF"):
                self._db.execute(f"PRAGMA {pragma}").fetchall()
            self._db.executescript(_SCHEMA)
            version = self.setting("schema_version", SCHEMA_VERSION)
        except sqlite3.Error as error:
            self._db.close()
            raise UserError(f"{path}: not a store of votes, or damaged. Give another --store") from error
        if version != SCHEMA_VERSION:
            self._db.close()
            raise UserError(
                f"{path}: version {version} of the store cannot be read, only {SCHEMA_VERSION}. Use another store"
            )

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

    def _read(self, query: str, arguments: Sequence[object] = ()) -> list[Any]:
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

    def begin(self, dataset: LabelingData, *, plan: str, seed: int, rules: Mapping[str, object]) -> None:
        """Store what is labelled, or check that it has not changed since; `rules` may change.

        Raises:
            UserError: The store was begun with another plan or seed.
            DataError: The text of a prompt has changed.
        """
        with self.writing():
            for key, value in (("plan", plan), ("seed", str(seed))):
                stored_value = self.setting(key, value)
                if stored_value != value:
                    raise UserError(
                        f"{self.path} was started with {key} {stored_value}, not {value}. Use {stored_value}, or another store"
                    )
            known_prompts = self.prompts()
            for group, prompt in dataset.prompts.items():
                if known_prompts.get(group, prompt) != prompt:
                    raise DataError(
                        f"the prompt '{group}' has changed since the first votes in {self.path}. Use another store"
                    )
            texts = [(key, str(value)) for key, value in rules.items()]
            texts.append(("families", json.dumps(families(dataset.items.values()))))
            self._db.executemany("INSERT OR REPLACE INTO meta VALUES(?, ?)", texts)
            images = [(item.id, item.prompt_id, item.generator) for item in dataset.items.values()]
            self._db.executemany("INSERT OR IGNORE INTO prompts VALUES(?, ?)", dataset.prompts.items())
            self._db.executemany(
                "INSERT INTO images VALUES(?, ?, ?) ON CONFLICT(id) DO UPDATE SET generator = excluded.generator"
                " WHERE generator = ''",  # the data may name it later
                images,
            )
            rows = [(pair.prompt_id, pair.a, pair.b, pair.choice) for pair in dataset.gold]
            self._db.executemany("INSERT OR REPLACE INTO gold VALUES(?, ?, ?, ?)", rows)
            self._db.executemany("INSERT OR IGNORE INTO identical VALUES(?, ?)", sorted(dataset.identical))
            known_rows = [(image, *pair) for image, values in dataset.known_values.items() for pair in values.items()]
            self._db.executemany("INSERT OR REPLACE INTO known VALUES(?, ?, ?)", known_rows)

    def prompts(self) -> dict[str, str]:
        return dict(self._read("SELECT id, text FROM prompts ORDER BY rowid"))

    def images(self) -> dict[str, tuple[str, str]]:
        """Read (prompt id, generator) of each image id."""
        rows = self._read("SELECT id, prompt_id, generator FROM images ORDER BY rowid")
        return {image: (prompt_id, generator) for image, prompt_id, generator in rows}

    def gold(self) -> list[Pair]:
        rows = self._read("SELECT prompt_id, image_a, image_b, preference FROM gold ORDER BY rowid")
        return [pair_of(group, a, b, preference, "gold") for group, a, b, preference in rows]

    def known_values(self) -> dict[str, dict[str, str]]:
        """Read the elements with a known value: image -> element -> value."""
        known_values: dict[str, dict[str, str]] = {}
        for image, element, value in self._read("SELECT image, element, value FROM known ORDER BY rowid"):
            known_values.setdefault(image, {})[element] = value
        return known_values

    def inform(self, form: FormBase) -> None:
        """Give a form the images of this store and, if it asks annotators, the checks."""
        form.images = self.images()
        form.families = json.loads(self.setting("families") or "{}")
        form.identical = set(self._read("SELECT image_a, image_b FROM identical"))
        if form.role == ANNOTATOR:
            form.gold, form.known_values = self.gold(), self.known_values()

    # -- people who typed their names ------------------------------------------------------------------------------

    def people(self) -> list[str]:
        """Read the names that people have taken, in the order in which they came."""
        return [name for (name,) in self._read("SELECT name FROM people ORDER BY rowid")]

    def person(self, name: str) -> str | None:
        """Return a name as the first person who took it wrote it; None if it is free."""
        rows = self._read("SELECT name FROM people WHERE folded = ?", (folded(name),))
        return rows[0][0] if rows else None

    def add_person(self, name: str) -> None:
        self._read("INSERT OR IGNORE INTO people VALUES(?, ?)", (folded(name), name))

    def add_voters(self) -> None:
        """Count the names under which answers came from the page as taken, by whichever link their people came."""
        with self.writing():
            for (name,) in self._read("SELECT annotator FROM answers GROUP BY annotator ORDER BY min(id)"):
                if not is_expert(name):
                    self.add_person(name)

    # -- answers ---------------------------------------------------------------------------------------------------

    def turn(self, annotator: str) -> int:
        """Count the answers and undos of an annotator."""
        return int(self._read("SELECT coalesce(max(turn) + 1, 0) FROM answers WHERE annotator = ?", (annotator,))[0][0])

    def prompts_after(self, row: int) -> tuple[int, set[str]]:
        """Return the number of the last answer or undo, and the prompts of those after the number `row`."""
        rows = self._read("SELECT id, prompt_id FROM answers WHERE id > ? ORDER BY id", (row,))
        return (rows[-1][0] if rows else row), {prompt for _, prompt in rows}

    def answers(
        self, annotator: str | None = None, *, prompt_id: str | None = None, ended: bool = False
    ) -> list[LabelAnswer]:
        """Read answers in order, withdrawn or replaced ones only if `ended`."""
        columns = {"annotator": annotator, "prompt_id": prompt_id}
        conditions = {column: value for column, value in columns.items() if value is not None}
        where = f"WHERE {' AND '.join(f'{column} = ?' for column in conditions)}" if conditions else ""
        query = _ANSWERS.format(where, "" if ended else "AND ended_at IS NULL")
        return [_answer(row) for row in self._read(query, tuple(conditions.values()))]

    def last(self, annotator: str, question: Question) -> LabelAnswer | None:
        """Read the last answer of an annotator to a question, even if it was taken back."""
        answers = self.answers(annotator, prompt_id=question.prompt_id, ended=True)
        return next((answer for answer in reversed(answers) if answer.question == question), None)

    def add(
        self,
        annotator: str,
        question: Question,
        text: str | None,
        *,
        note: str = "",
        shown_at: float | None = None,
        duration_ms: int | None = None,
    ) -> None:
        """Write an answer, or that the answer before is taken back (None); it is on disk when this returns."""
        image, *others = question.images
        other = json.dumps(others, ensure_ascii=False) if question.kind == RANK else next(iter(others), None)
        with self.writing():
            row = (annotator, self.turn(annotator), question.kind, question.prompt_id, image, other, text, note)
            self._db.execute(
                f"INSERT INTO answers({_COLUMNS}) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, shown_at, time.time(), duration_ms),
            )

    def undo(self, annotator: str) -> LabelAnswer | None:
        """Take back the last valid answer, and return it; None if there is none."""
        with self.writing():
            answers = self.answers(annotator)
            if not answers:
                return None
            self.add(annotator, answers[-1].question, None)
        return answers[-1]

    def close(self) -> None:
        with self._lock:
            self._db.close()


def _answer(row: Sequence[Any]) -> LabelAnswer:
    annotator, turn, kind, prompt_id, image, other, *rest = row
    others = () if other is None else json.loads(other) if kind == RANK else (other,)
    question = Question(kind, prompt_id, (image, *others))
    return LabelAnswer(annotator, turn, question, *rest)
