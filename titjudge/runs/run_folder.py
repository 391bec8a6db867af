"""A run: a folder that can be resumed, merged and verified.

manifest.json   what was asked of whom: configuration, versions, prompt hashes, pins of what answers here, status, money
items.jsonl     what was judged, and what could not be
replies.jsonl   every answer used: rendered prompt, raw text, usage, model version (append-only)
vectors.jsonl   every embedding used (append-only)
billing.jsonl   every request: its worst case before it goes out, what it cost afterwards (append-only)
scores.jsonl    one line a score, with the digest of what it is `of`; the last line of an item and metric counts (append-only)
results.json    the tables, as `--json` prints them
report.html     for people
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from titjudge.core.config import Limits, RunConfig
from titjudge.core.errors import DataError, UserError
from titjudge.core.files import Appender, write_atomic
from titjudge.core.run_records import SCHEMA_VERSION, Manifest, Results, is_locked
from titjudge.core.score_parts import SUMMED
from titjudge.core.serialization import item_from, score_from, score_record, with_checksum
from titjudge.core.types import InvalidItem, Item, Score, Status
from titjudge.engine.budget import JOB, Budget
from titjudge.metrics import Metric
from titjudge.runs import journal
from titjudge.runs.identity import differing, extends, identity, other_run
from titjudge.runs.score_digests import PLACE, Marks, compares, listed_record

_BEGUN = ".identity.json"  # what the run was begun as, for the day on which its manifest is lost
_REMAKE = "the `judge` or `merge` command that made it makes it again"
_SPARE = 2**22  # bytes: the answers that are on their way, and their bills
_CAPS = ("max_cost", "max_requests", "max_tokens")
NOTHING: dict[str, Any] = {}
FILES_OF = {"reply": "replies", "vector": "vectors", "sent": "billing", "bill": "billing"}
FILES = (*dict.fromkeys(FILES_OF.values()), "scores")


class RunFolder:
    """One run on disk. Opening it for writing takes a lock, so that two processes never write one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage: dict[str, str] = {}  # lines that were left out when they were read, and why
        self._lock: int | None = None
        self._fresh = False  # made by this `open`
        self._appenders: dict[str, Appender] = {}

    # -- reading ---------------------------------------------------------------------------------------------------

    def manifest(self) -> Manifest:
        """Read manifest.json.

        Raises:
            DataError: this is no run folder, or the file is damaged.
        """
        try:
            return Manifest.read(self.path / "manifest.json", _REMAKE)
        except OSError as error:
            if (self.path / _BEGUN).is_file():
                raise DataError(f"it has no manifest.json: {_REMAKE}", self.path) from error
            raise DataError("not a run folder: it has no manifest.json", self.path) from error

    def items(self, *, slim: bool = False) -> Iterator[Item | InvalidItem]:
        """Read what was to be judged; `slim` leaves out prompt, image and meta, for what only counts and groups."""
        for record in self.read("items.jsonl"):
            if slim:
                record |= {name: sys.intern(record[name]) for name in ("id", "generator", "group")}
                record |= {"prompt": "", "image": None, "meta": NOTHING}
            yield item_from(record)

    def judged(self) -> Iterator[Item]:
        """Read the items that could be judged."""
        return (item for item in self.items() if isinstance(item, Item))

    def stats(self) -> dict[str, Any]:
        """Read size and time (ns) of each item's image file when it was listed, by item id."""
        return {record["id"]: record["stat"] for record in self.read("items.jsonl") if record.get("stat")}

    def scores(self, *, slim: bool = False) -> dict[tuple[str, str], Score]:
        """Read the last score of each item and metric; `slim` leaves out replies and all parts but those that tables sum up."""
        found: dict[tuple[str, str], Score] = {}
        for record in self.read("scores.jsonl"):
            if slim:
                for name in ("item", "metric", "generator", "group"):
                    record[name] = sys.intern(record[name])
                record["replies"] = ()
                record["reason"] = "" if record["value"] is not None else record["reason"]
                record["parts"] = {key: value for key, value in record["parts"].items() if key in SUMMED} or NOTHING
            score = score_from(record)
            found[score.item_id, score.metric] = score
        return found

    def _holding(self, listed: Path, metrics: Mapping[str, Metric]) -> set[tuple[str, str]]:
        """Find item and metric of every score with a value whose item, as `listed` now, is what it was when it was scored.

        Scores that compare images hold for a whole prompt or not at all: for all of its images, all compared with each
        other. A comparison that nobody answered is tried again with the next session.
        """
        comparing = {name for name, metric in metrics.items() if compares(metric)}
        last: dict[tuple[str, str], str | None] = {}
        for record in self.read("scores.jsonl"):
            if record["metric"] in metrics:
                part = record["metric"] in comparing and record["parts"].get("unanswered")
                known = None if record["value"] is None or part else record.get("of", "")
                last[record["item"], record["metric"]] = known
        if not last:
            return set()
        now = Marks((record for _, record in journal.records(listed, {})), prompts=bool(comparing))
        then = now
        if "" in last.values():  # written before scores said what they are of
            then = Marks(self.read("items.jsonl"), prompts=bool(comparing))
        done = set()
        for (item, name), known in last.items():
            found = now.of(item, together=name in comparing)
            if found and known is not None and found == (known or then.of(item, together=name in comparing)):
                done.add((item, name))
        for name in comparing:
            for members in now.prompts.values():
                own = {(item, name) for item in members}
                if not own <= done:
                    done -= own
        return done

    def replies(self) -> Iterator[dict[str, Any]]:
        """Read the answers that the run used, in the order of the file."""
        return self.read("replies.jsonl")

    def vectors(self) -> Iterator[dict[str, Any]]:
        """Read the embeddings that the run used, in the order of the file."""
        return self.read("vectors.jsonl")

    def results(self) -> Results:
        """Read results.json; empty results where there is none.

        Raises:
            DataError: it is damaged.
        """
        file = self.path / "results.json"
        return Results.read(file, "the same `judge` or `merge` command writes it anew") if file.is_file() else Results()

    def is_locked(self) -> bool:
        """Tell whether a process is writing this run."""
        return is_locked(self.path)

    def read(self, name: str) -> Iterator[dict[str, Any]]:
        """Read the records of one of the folder's files; none where there is no such file."""
        file = self.path / name
        return (record for _, record in journal.records(file, self.damage)) if file.is_file() else iter(())

    # -- writing ---------------------------------------------------------------------------------------------------

    def open(self, config: RunConfig) -> None:
        """Begin or go on with a run.

        Raises:
            UserError: the folder belongs to another configuration, or another process is writing it.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(f"{self.path}: another titjudge is writing this run") from error
        except OSError as error:
            if self.path.is_file():
                raise UserError(f"{self.path} is a file: --out takes a folder") from error
            raise UserError(f"{self.path}: {error.strerror}") from error
        try:
            self._take(identity(config))
        except Exception:
            self.close()
            raise

    def _take(self, mine: dict[str, Any]) -> None:
        if (self.path / "manifest.json").is_file() or (self.path / _BEGUN).is_file():
            theirs = self._begun_as()
            if (changed := differing(theirs, mine)) and self.begun:
                if not extends(theirs, mine):
                    raise UserError(f"{self.path} {other_run(theirs, mine)}")
                self.write(_BEGUN, mine)
                self.write_manifest(self.manifest().with_(identity=mine))
            elif changed:  # a start that failed before anything was asked
                self._begin(mine)
        elif any(each.is_file() and not each.name.startswith(".") for each in self.path.iterdir()):
            raise UserError(f"{self.path} is not empty and not a run: choose another --out")
        else:
            self._fresh = True
            self._begin(mine)
        try:
            if not (self.path / _BEGUN).is_file():
                self.write(_BEGUN, mine)
            for name in FILES:
                self._appenders[name] = Appender(self.path / f"{name}.jsonl")
            self._spare.write_bytes(bytes(_SPARE))
        except OSError as error:
            raise UserError(f"{error.filename or self.path}: {error.strerror}") from error

    def _begun_as(self) -> dict[str, Any]:
        """Read the identity of the run in this folder. A manifest that is lost or damaged is made again from it.

        Raises:
            DataError: the manifest is damaged, and nothing else says what the run was begun as.
        """
        try:
            return self.manifest().identity
        except DataError as error:
            try:
                begun: dict[str, Any] = orjson.loads((self.path / _BEGUN).read_bytes())
            except (OSError, orjson.JSONDecodeError):
                raise DataError(
                    "manifest.json is damaged: put a copy of it back, or choose another --out (answers in the cache are "
                    "not paid again)",
                    self.path,
                ) from error
            self._begin(begun)
            self.damage["manifest.json"] = "it was made again; models and versions of earlier sessions are not in it"
            return begun

    def _begin(self, mine: Mapping[str, Any]) -> None:
        self.write(_BEGUN, mine)
        self.write_manifest(Manifest(schema_version=SCHEMA_VERSION, identity=dict(mine), status="running"))

    @property
    def begun(self) -> bool:
        """Whether anything was asked, answered or scored."""
        files = [self.path / f"{name}.jsonl" for name in FILES]
        return (self.path / "batches").exists() or any(file.is_file() and file.stat().st_size for file in files)

    def discard(self) -> None:
        """Close, and remove what `open` made where nothing has begun since: a failed start leaves no folder behind."""
        gone = self._fresh and not self.begun
        self.close()
        if not gone:
            return
        for name in ("manifest.json", _BEGUN, "items.jsonl", ".lock", *(f"{name}.jsonl" for name in FILES)):
            (self.path / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # it holds something that is not ours
            self.path.rmdir()

    @property
    def _spare(self) -> Path:
        """Room that is given up when the disk is full, so that answers on their way are still kept, and their bills."""
        return self.path / ".spare"

    def journal(self, kind: str, record: Mapping[str, Any]) -> None:
        """Append a line.

        Raises:
            OSError: it cannot be written.
        """
        appender, line = self._appenders[FILES_OF[kind]], with_checksum(record)
        try:
            appender.add(line)
        except OSError:
            if kind == "sent" or not self._spare.is_file():
                raise
            self._spare.unlink()
            appender.add(line)
            raise

    def add_score(self, score: Score, mark: str = "") -> None:
        """Append a score; `mark` says what it is of (`titjudge.runs.score_digests`)."""
        self._appenders["scores"].add(with_checksum(score_record(score) | ({"of": mark} if mark else {})))

    def known_keys(self) -> dict[str, bool]:
        """List the keys of answers that are in the folder already, and whether there is a good one."""
        known = {record["key"]: True for record in self.vectors()}
        for record in self.replies():
            known[record["key"]] = record["status"] == Status.OK or known.get(record["key"], False)
        return known

    def money(self) -> dict[str, Any]:
        """Sum up the ledger, which tells also after a kill.

        Returns:
            USD `spent` by this run, `list_cost` of all answers used, `requests` and `tokens` paid; `uncertain`: USD, and
            `uncertain_tokens`, that requests without an answer may have cost (what was sent and not settled: its worst
            case); `in_jobs`: USD and tokens of that which is in batch jobs, by its entry.
        """
        spent = uncertain = embedded = 0.0
        requests = tokens = uncertain_tokens = 0
        out: dict[str, tuple[float, int]] = {}
        for line in self.read("billing.jsonl"):
            if "worst" in line:
                out[line["id"]] = line["worst"], line["tokens"]
                continue
            out.pop(line.get("id", ""), None)
            spent += line["cost"]
            uncertain += line["uncertain"]
            uncertain_tokens += line.get("uncertain_tokens", 0)
            tokens += line["tokens"]
            requests += line.get("requests", 1)
            embedded += line["cost"] if line["role"] == "embedder" else 0.0
        listed: dict[bytes, float] = {}
        for record in self.replies():
            if not record["attempt"]:  # a repair turn is part of the answer it repaired
                listed[record["key"].encode()[-32:]] = record["list_cost"] or 0.0
        return {
            "spent": spent,
            "list_cost": sum(listed.values()) + embedded,
            "requests": requests + len(out),
            "tokens": tokens,
            "uncertain": uncertain + sum(cost for cost, _ in out.values()),
            "uncertain_tokens": uncertain_tokens + sum(count for _, count in out.values()),
            "in_jobs": {entry: each for entry, each in out.items() if entry.startswith(JOB)},
        }

    def used(self) -> dict[str, float]:
        """Sum what counts against each cap (`max_cost`, `max_requests`, `max_tokens`): what was billed, and may have been."""
        money = self.money()
        return {
            "max_cost": money["spent"] + money["uncertain"],
            "max_requests": money["requests"],
            "max_tokens": money["tokens"] + money["uncertain_tokens"],
        }

    def mark(self, status: str) -> None:
        """Say in the manifest how the run ended when nothing else can be said."""
        self.write_manifest(self.manifest().with_(status=status, updated=time.time()))

    def list_items(
        self, items: Iterable[tuple[Item | InvalidItem, int | None]], metrics: Mapping[str, Metric] = NOTHING
    ) -> tuple[int, set[tuple[str, str]]]:
        """Write items.jsonl anew, whole or not at all.

        Args:
            items: what is to be judged, with the place of each among all items where it has one.
            metrics: the metrics of the run.

        Returns:
            How many items there are, and item and metric of the scores that hold for them.
        """
        aside = self.path / ".items.jsonl.new"
        aside.unlink(missing_ok=True)
        appender = Appender(aside)
        count = 0
        try:
            for item, place in items:
                appender.add(listed_record(item) | ({} if place is None else {PLACE: place}))
                count += 1
        finally:
            appender.close()
        done = self._holding(aside, metrics)
        aside.replace(self.path / "items.jsonl")
        return count, done

    def write(self, name: str, content: Any, *, sync: bool = True) -> Path:
        """Write a file whole, or not at all; with `sync`, which may take long, also when the power fails."""
        target = self.path / name
        data = (
            content
            if isinstance(content, bytes)
            else json.dumps(content, indent=2, ensure_ascii=False, default=str).encode()
        )
        write_atomic(target, data, sync=sync)
        return target

    def write_manifest(self, manifest: Manifest, *, sync: bool = True) -> None:
        """Write manifest.json as `write` does, with its checksum."""
        self.write("manifest.json", with_checksum(manifest.to_json()), sync=sync)

    def close(self) -> None:
        """Write what is still in memory, and give the folder free."""
        for appender in self._appenders.values():
            appender.close()
        self._appenders.clear()
        if self._lock is not None:
            with contextlib.suppress(OSError):
                self._spare.unlink()
            os.close(self._lock)
            self._lock = None


def caps(limits: Limits) -> dict[str, float]:
    """Return the caps that are set, by name: USD, requests, tokens."""
    return {name: cap for name in _CAPS if (cap := getattr(limits, name)) is not None}


def resumed_budget(limits: Limits, money: Mapping[str, Any] = NOTHING) -> Budget:
    """Make the budget of a run, less what its earlier sessions have spent (`RunFolder.money`)."""
    budget = Budget(limits.max_cost, limits.max_requests, limits.max_tokens)
    if money:
        in_jobs = money["in_jobs"] if limits.batch else {}  # without --batch it is asked, and paid, beside the jobs
        uncertain = max(0.0, money["uncertain"] - sum(cost for cost, _ in in_jobs.values()))
        tokens = money["uncertain_tokens"] - sum(count for _, count in in_jobs.values())
        budget.resume(
            money["spent"], money["requests"] - len(in_jobs), money["tokens"], uncertain, tokens, in_jobs=in_jobs
        )
    return budget


def rest_of_caps(limits: Limits, others: Iterable[Path]) -> Limits:
    """Lower the caps of a run by what the runs in other folders, which share them, have used."""
    used = [RunFolder(path).used() for path in others]
    rest = {name: max(0, cap - sum(each[name] for each in used)) for name, cap in caps(limits).items()}
    return limits.model_copy(update=rest)
