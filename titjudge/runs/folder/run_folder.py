"""The folder of a run, which can be resumed, merged and verified.

manifest.json   configuration, model versions, prompt hashes, fingerprints of local models, status, money
items.jsonl     the items, invalid ones included
replies.jsonl   every answer used: rendered prompt, raw text, usage, model version (append-only)
vectors.jsonl   every embedding used (append-only)
billing.jsonl   every request: its worst case before it is sent, its cost afterwards (append-only)
scores.jsonl    scores, with the digest (`of`) of the judged input; the last line of an item and metric counts (append-only)
results.json    the tables, as `--json` prints them
report.html     the page

Digests of the judged input, by which a resumed run finds the scores that are still valid.

A score is valid while the item's line in items.jsonl (prompt, names, meta, size and time of its images) has not changed.
One that compares images (scope "prompt") is valid while none of the images of its prompt has changed, come or gone.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from titjudge.core.config import Limits, RunConfig
from titjudge.core.errors import CacheWriteError, DataError, UserError, file_fault
from titjudge.core.files import Appender, JsonlReader, has_lines, raw_lines, write_json
from titjudge.core.grouping import random_place
from titjudge.core.serialization import (
    item_from,
    item_record,
    lean_item,
    lean_score,
    score_from,
    score_record,
    with_checksum,
)
from titjudge.core.types import InvalidItem, Item, Json, Score, Status, Values
from titjudge.data import containers
from titjudge.engine.budget import JOB, Spending
from titjudge.metrics import Metric
from titjudge.runs.folder import journal
from titjudge.runs.folder.identity import begun_with, differing, extends, identity, other_run
from titjudge.stats.scores.withheld import counted

if TYPE_CHECKING:
    from titjudge.core.run_records import Manifest, Results


PLACE = "place"  # key in a shard's items.jsonl: position of the item in the data; not part of the digest


def compares_images(metric: Metric) -> bool:
    """Return True if a metric's score depends on the other images of the prompt."""
    return metric.scope == "prompt"


def listed_record(item: Item | InvalidItem) -> Json:
    """Make an item's line in items.jsonl, with size and time of its images, so that a changed image is judged again."""
    record = item_record(item)
    if isinstance(item, Item) and item.image is not None:
        record["stat"] = _stat(item.image)
    if isinstance(item, Item) and item.sources:
        record["source_stats"] = [_stat(source) for source in item.sources]
    return record


def _stat(image: Path) -> list[int] | None:
    """Return size and modification time (nanoseconds) of an image, or of the file that it is in; None without one."""
    try:
        stat = os.stat(containers.holder(image) or image)
    except OSError:
        return None
    return [stat.st_size, stat.st_mtime_ns]


def digest_of(item: Item, metric: Metric) -> str:
    """Return the digest of what `metric` judges in `item`, which has the other images of its prompt (`loop.prepared`)."""
    if not compares_images(metric) or not item.same_prompt:
        return _digest(listed_record(item)).hex()
    return Digests(map(listed_record, item.same_prompt), prompts=True).digest(item.id, together=True)


class Digests:
    """The digests of all items of a run, from their lines in items.jsonl; with `prompts`, also the digests of whole prompts."""

    def __init__(self, records: Iterable[Values], *, prompts: bool) -> None:
        self._digests: dict[str, bytes] = {}
        self._prompt_of: dict[str, str] = {}
        self.prompts: dict[str, list[str]] = {}
        for record in records:
            if "bad" not in record:
                self._digests[record["id"]] = _digest(record)
                if prompts:
                    self._prompt_of[record["id"]] = prompt = record["prompt_id"]
                    self.prompts.setdefault(prompt, []).append(record["id"])

    def digest(self, item: str, *, together: bool) -> str:
        """Return the digest of one item, or with `together` of all images of its prompt; empty for an unknown item."""
        if item not in self._digests:
            return ""
        if not together:
            return self._digests[item].hex()
        items = self.prompts[self._prompt_of[item]]
        return hashlib.sha256(b"".join(self._digests[id] for id in items)).digest()[:16].hex()


def _digest(record: Values) -> bytes:
    line = {name: value for name, value in record.items() if name != PLACE}
    return hashlib.sha256(orjson.dumps(line, option=orjson.OPT_SORT_KEYS)).digest()[:16]


_IDENTITY = ".identity.json"  # a copy of the run's identity, in case its manifest is lost
_REMAKE = "Run the `judge` or `merge` command that made it again"
_LOST = "the folder was moved, replaced or removed while titjudge was writing there"
_SPARE = 2**22  # bytes: enough for the answers in flight and their bills
_CAPS = ("max_cost", "max_requests", "max_tokens")
NOTHING: Json = {}
FILES_OF = {"reply": "replies", "vector": "vectors", "sent": "billing", "bill": "billing"}
FILES = (*dict.fromkeys(FILES_OF.values()), "scores")


class RunFolder:
    """A run on disk. `open` takes a lock, so that two processes never write one run.

    Attributes:
        path: The folder.
        damage: The problem of each line that was skipped in reading, by `file:line`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage: dict[str, str] = {}
        self._lock: FolderLock | None = None
        self._created = False  # by this object's `open`
        self._appenders: dict[str, Appender] = {}
        self._money: Spending | None = None  # until the next line, while the lock keeps other writers out

    # -- reading ---------------------------------------------------------------------------------------------------

    def manifest(self) -> Manifest:
        """Read manifest.json.

        Raises:
            DataError: This is not a run folder, or the file is damaged.
        """
        from titjudge.core.run_records import Manifest

        try:
            return Manifest.read(self.path / "manifest.json", _REMAKE)
        except OSError as error:
            if (self.path / _IDENTITY).is_file():
                raise DataError(f"it has no manifest.json. {_REMAKE}", self.path) from error
            raise DataError(
                f"not a run folder: it has no manifest.json. Give a run folder{_others(self.path)}", self.path
            ) from error

    def check(self) -> None:
        """Check that this is a run folder.

        Raises:
            DataError: It is none, or its manifest is damaged.
        """
        self.manifest()

    def items(self, *, slim: bool = False) -> Iterator[Item | InvalidItem]:
        """Read the items; `slim` leaves out prompt, image and meta, to save memory if items are only counted."""
        for record in self.read("items.jsonl"):
            item = item_from(record, self.path)
            yield lean_item(item, counted=True) if slim else item

    def shuffled(self) -> Iterator[Item | InvalidItem]:
        """Read the items prompt by prompt, in a random order that only the ids of the prompts decide.

        A run that ends early has then judged the same prompts of all generators.
        """
        places: list[int] = []  # as numbers, which need little memory: the order of the prompt, then the offset
        for offset, record in self.located("items.jsonl"):
            prompt = random_place(record.get("prompt_id") or record["id"])
            places.append(int.from_bytes(prompt[:8]) << 64 | offset)
        if places:
            reader = JsonlReader(self.path / "items.jsonl")
            for place in sorted(places):
                yield item_from(reader.read_at(place & (1 << 64) - 1), self.path)

    def judged(self) -> Iterator[Item]:
        """Read the valid items."""
        return (item for item in self.items() if isinstance(item, Item))

    def stats(self) -> Json:
        """Read size (bytes) and modification time (ns) of each image file as it was judged, by item id."""
        return {record["id"]: record["stat"] for record in self.read("items.jsonl") if record.get("stat")}

    def source_stats(self) -> Json:
        """Read size and modification time of each source image of each edit, as `stats` does of images, by item id."""
        return {r["id"]: r["source_stats"] for r in self.read("items.jsonl") if r.get("source_stats")}

    def scores(self, *, slim: bool = False) -> dict[tuple[str, str], Score]:
        """Read the last score of each item and metric, without a value if no table counts it (`withheld`).

        `slim` leaves out replies and the parts that no table sums up.
        """
        scores: dict[tuple[str, str], Score] = {}
        for record in self.read("scores.jsonl"):
            score = lean_score(record, counted=True) if slim else score_from(record)
            scores[score.item_id, score.metric] = score
        return counted(scores.values(), self.judged)

    def _valid_scores(self, items: Path, metrics: Mapping[str, Metric]) -> set[tuple[str, str]]:
        """Find item and metric of every score with a value whose item has not changed since.

        Scores that compare images are valid for all images of a prompt or for none. One in which a comparison has no
        answer is not valid, so that the next session tries again.

        Args:
            items: The new items.jsonl.
            metrics: The metrics of the run.
        """
        comparing = {name for name, metric in metrics.items() if compares_images(metric)}
        digests: dict[tuple[str, str], str] = {}  # of the judged input, by the last score with a value
        for record in self.read("scores.jsonl"):
            item, name = record["item"], record["metric"]
            if name in metrics:
                digests.pop((item, name), None)
                if record["value"] is not None and not (name in comparing and record["parts"].get("unanswered")):
                    digests[item, name] = record.get("of", "")
        if not digests:
            return set()
        now = Digests((record for _, record in journal.records(items, {})), prompts=bool(comparing))
        valid = {
            (item, name)
            for (item, name), digest in digests.items()
            if digest and digest == now.digest(item, together=name in comparing)
        }
        for name in comparing:
            for items_of_prompt in now.prompts.values():
                scores = {(item, name) for item in items_of_prompt}
                if not scores <= valid:
                    valid -= scores
        return valid

    def replies(self) -> Iterator[Json]:
        """Read the answers used, in the order of the file."""
        return self.read("replies.jsonl")

    def vectors(self) -> Iterator[Json]:
        """Read the embeddings used, in the order of the file."""
        return self.read("vectors.jsonl")

    def results(self) -> Results:
        """Read results.json; empty results if there is none.

        Raises:
            DataError: It is damaged.
        """
        from titjudge.core.run_records import Results

        file = self.path / "results.json"
        return (
            Results.read(file, "Run the `judge` or `merge` command again to write it") if file.is_file() else Results()
        )

    def is_locked(self) -> bool:
        """Return True if a process is writing this run."""
        from titjudge.core.run_records import is_locked

        return is_locked(self.path)

    def read(self, name: str) -> Iterator[Json]:
        """Read the records of a JSONL file of the folder; none without the file."""
        return (record for _, record in self.located(name))

    def located(self, name: str) -> Iterator[tuple[int, Json]]:
        """Read the records of a JSONL file of the folder, each with the offset at which a `JsonlReader` reads it again."""
        file = self.path / name
        lines = journal.located(file, self.damage) if has_lines(file) else ()
        return ((offset, record) for _, offset, record in lines)

    # -- writing ---------------------------------------------------------------------------------------------------

    def open(self, config: RunConfig) -> None:
        """Begin or resume a run.

        Raises:
            UserError: The folder belongs to another configuration, or another process is writing it.
        """
        self._lock = FolderLock(self.path)
        try:
            self._begin_or_resume(identity(config))
        except Exception:
            self.close()
            raise

    def _begin_or_resume(self, mine: Json) -> None:
        """Check the identity of the run in the folder, or begin one, and open its files for appending."""
        from titjudge.core.run_records import SCHEMA_VERSION, Manifest

        before, manifest = None, Manifest(schema_version=SCHEMA_VERSION, identity=mine, status="running")
        copy = self.path / _IDENTITY
        if (self.path / "manifest.json").is_file() or copy.is_file():
            before, theirs = self._earlier()
            changed = differing(theirs, mine)
            if changed and self._answered and not extends(theirs, mine):
                raise UserError(f"{self.path} {other_run(theirs, mine)}")
            if before is not None and (not changed or self._answered):  # otherwise an earlier start got no answer
                manifest = before.with_(identity=mine) if changed else before
        elif any(file.is_file() and not file.name.startswith(".") for file in self.path.iterdir()):
            raise UserError(f"{self.path} is not empty and not a run. Choose another --out")
        else:
            self._created = True
        try:
            if manifest is not before:
                self.write_manifest(manifest)
            if manifest is not before or not copy.is_file():
                write_json(copy, mine, sync=True)
            for name in FILES:
                self._appenders[name] = Appender(self.path / f"{name}.jsonl")
            self._spare.write_bytes(bytes(_SPARE))
        except OSError as error:
            raise UserError(f"{error.filename or self.path}: {file_fault(error)}") from error

    def _earlier(self) -> tuple[Manifest | None, Json]:
        """Read the manifest and the identity of the run in this folder.

        If the manifest is damaged, it is None, and the identity comes from its copy.

        Raises:
            DataError: The manifest is damaged, and so is the copy.
        """
        try:
            manifest = self.manifest()
            return manifest, begun_with(manifest.identity)
        except DataError as error:
            try:
                stored: Json = orjson.loads((self.path / _IDENTITY).read_bytes())
            except (OSError, orjson.JSONDecodeError):
                raise DataError(
                    "manifest.json is damaged. Restore a copy, or choose another --out (cached answers are not paid for "
                    "again)",
                    self.path,
                ) from error
            self.damage["manifest.json"] = "it was made again; models and versions of earlier sessions are not in it"
            return None, stored

    @property
    def in_place(self) -> bool:
        """True if the open folder was not moved, replaced or removed."""
        return self._lock is not None and not self._lock.lost

    def check_in_place(self) -> None:
        """Check before a round of work that the open folder is still at the place of its opening.

        Raises:
            CacheWriteError: It was moved, replaced or removed.
        """
        if self._lock is not None:
            self._lock.check_round()

    @property
    def begun(self) -> bool:
        """True if anything was asked, answered or scored."""
        return self._any_lines(*FILES)

    def _any_lines(self, *names: str) -> bool:
        """Whether batch jobs or a line in one of these files exist."""
        files = [self.path / f"{name}.jsonl" for name in names]
        return (self.path / "batches").exists() or any(has_lines(file) and any(raw_lines(file)) for file in files)

    @property
    def _answered(self) -> bool:
        """Whether the run has an answer or a score, or may owe money for one."""
        return self._any_lines("replies", "vectors", "scores") or self.used()["max_cost"] > 0

    def discard(self) -> None:
        """Close, and remove the folder if `open` made it and nothing was asked since."""
        unused = self._created and self.in_place and not self.begun
        self.close()
        if not unused:
            return
        for name in ("manifest.json", _IDENTITY, "items.jsonl", ".lock", *(f"{name}.jsonl" for name in FILES)):
            (self.path / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # it has other files
            self.path.rmdir()

    @property
    def _spare(self) -> Path:
        """A file that is removed when the disk is full, to free space for the answers in flight and their bills."""
        return self.path / ".spare"

    def journal(self, kind: str, record: Values) -> None:
        """Append a line to the file of its kind (`FILES_OF`).

        Raises:
            OSError: The disk is full, or the folder is not in its place; a line that is not `sent` may have been written.
        """
        if kind == "sent" and self._lock is not None:
            self._lock.check()
        self._money = None
        appender, line = self._appenders[FILES_OF[kind]], with_checksum(record)
        try:
            appender.add(line)
        except OSError:
            if kind == "sent" or not self._spare.is_file():
                raise
            self._spare.unlink()
            appender.add(line)
            raise

    def add_score(self, score: Score, digest: str = "") -> None:
        """Append a score; `digest` is the digest of its input (`titjudge.runs.folder.run_folder`)."""
        if self._lock is not None:
            self._lock.check()
        self._appenders["scores"].add(with_checksum(score_record(score) | ({"of": digest} if digest else {})))

    def known_keys(self) -> dict[str, bool]:
        """Map the key of each answer and embedding in the folder to whether one of its answers is good."""
        usable = {record["key"]: True for record in self.vectors()}
        for record in self.replies():
            usable[record["key"]] = record["status"] == Status.OK or usable.get(record["key"], False)
        return usable

    def money(self) -> Spending:
        """Sum up the ledger, which is complete even after a kill."""
        if self._money is not None and self._lock is not None:
            return self._money
        spent = uncertain = embedded = 0.0
        requests = tokens = uncertain_tokens = unpriced = 0
        overrun = 0.0
        unsettled: dict[str, tuple[float, int]] = {}
        for line in self.read("billing.jsonl"):
            if "worst" in line:
                unsettled[line["id"]] = line["worst"], line["tokens"]
                continue
            worst, _ = unsettled.pop(line.get("id", ""), (line["cost"], 0))
            overrun += max(0.0, line["cost"] - worst) if worst else 0.0  # without a price nothing was known
            unpriced += line.get("unpriced", 0)
            spent += line["cost"]
            uncertain += line["uncertain"]
            uncertain_tokens += line.get("uncertain_tokens", 0)
            tokens += line["tokens"]
            requests += line.get("requests", 1)
            embedded += line["cost"] if line["role"] == "embedder" else 0.0
        listed: dict[bytes, float | None] = {}
        for record in self.replies():
            if not record["attempt"]:  # a repair turn is part of the answer it repaired
                listed[record["key"].encode()[-32:]] = record["list_cost"]
        self._money = Spending(
            spent=spent,
            list_cost=sum(filter(None, listed.values()), embedded),
            unlisted=sum(price is None for price in listed.values()),
            requests=requests + len(unsettled),
            tokens=tokens,
            uncertain=uncertain + sum(cost for cost, _ in unsettled.values()),
            uncertain_tokens=uncertain_tokens + sum(count for _, count in unsettled.values()),
            unpriced=unpriced,
            overrun=overrun,
            in_jobs={entry: worst for entry, worst in unsettled.items() if entry.startswith(JOB)},
        )
        return self._money

    def used(self) -> dict[str, float]:
        """Sum what counts against each cap (`max_cost`, `max_requests`, `max_tokens`), billed or uncertain."""
        return self.money().against_caps()

    def set_status(self, status: str) -> None:
        """Set the status in the manifest, if the run ended before a whole manifest could be written."""
        self.write_manifest(self.manifest().with_(status=status, updated=time.time()))

    def list_items(
        self, items: Iterable[tuple[Item | InvalidItem, int | None]], metrics: Mapping[str, Metric] = NOTHING
    ) -> tuple[int, set[tuple[str, str]]]:
        """Replace items.jsonl, as a whole or not at all.

        Args:
            items: The items, each with its position in all shards (None if there is one shard).
            metrics: The metrics of the run.

        Returns:
            The number of items, and item and metric of the scores that are still valid.
        """
        new = self.path / ".items.jsonl.new"
        lines = (listed_record(item) | ({} if place is None else {PLACE: place}) for item, place in items)
        count = journal.write_records(new, lines)
        valid = self._valid_scores(new, metrics)
        new.replace(self.path / "items.jsonl")
        return count, valid

    def write_manifest(self, manifest: Manifest, *, sync: bool = True) -> None:
        """Write manifest.json, whole or not at all; `sync` waits until the disk has it.

        Raises:
            OSError: The disk is full, or the open folder is not in its place.
        """
        if self._lock is not None:
            self._lock.check()
        manifest.write(self.path / "manifest.json", sync=sync)

    def close(self) -> None:
        """Close the files and release the lock."""
        for appender in self._appenders.values():
            appender.close()
        self._appenders.clear()
        self._money = None
        if self._lock is not None:
            if self.in_place:
                with contextlib.suppress(OSError):
                    self._spare.unlink()
            self._lock.close()
            self._lock = None


class FolderLock:
    """The lock of a folder, which is made if it is missing: until `close`, no other process writes there.

    Raises:
        UserError: Another process is writing there, or it is not a writable folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
            self._place = os.open(
                folder, os.O_RDONLY | os.O_DIRECTORY
            )  # while it is open, its number is not used again
        except OSError as error:
            if folder.is_file():
                raise UserError(f"--out {folder} is a file. Give a folder") from error
            raise UserError(f"--out {folder}: {file_fault(error)}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            raise UserError(
                f"{folder}: another titjudge is writing there. Wait until it ends, or choose another --out"
            ) from error

    @property
    def lost(self) -> bool:
        """Whether the locked folder is no longer in its place: it was moved, replaced or removed."""
        try:
            return not os.path.samestat(os.stat(self.folder), os.fstat(self._place))
        except FileNotFoundError:
            return True

    def check(self) -> None:
        """Check that the locked folder is still in its place.

        Raises:
            OSError: It is not: files written by its path would begin a folder without a ledger.
        """
        if self.lost:
            raise OSError(errno.ESTALE, _LOST, str(self.folder))

    def check_round(self) -> None:
        """As `check`, before a round of work.

        Raises:
            CacheWriteError: The folder is not in its place.
        """
        if self.lost:
            raise CacheWriteError(f"{self.folder}: {_LOST}; restore it and run the command again")

    def close(self) -> None:
        """Release the lock."""
        os.close(self._lock)
        os.close(self._place)


def caps(limits: Limits) -> dict[str, float]:
    """Return the caps that are set, by name: USD, requests, tokens."""
    return {name: cap for name in _CAPS if (cap := getattr(limits, name)) is not None}


def rest_of_caps(limits: Limits, others: Iterable[Path]) -> Limits:
    """Lower the caps of a run by the use of other runs that share them."""
    used = [RunFolder(path).used() for path in others]
    rest = {name: max(0, cap - sum(run[name] for run in used)) for name, cap in caps(limits).items()}
    return limits.model_copy(update=rest)


def _others(path: Path, most: int = 5) -> str:
    """List the run folders next to a path that is not one, the newest first; empty if there are none."""
    manifests = sorted(path.parent.glob("*/manifest.json"), key=lambda file: file.stat().st_mtime, reverse=True)
    names = [str(file.parent) for file in manifests]
    return f", such as {', '.join(names[:most])}{', ...' if len(names) > most else ''}" if names else ""
