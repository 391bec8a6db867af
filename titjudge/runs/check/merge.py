"""Merge run folders of one run into one: shards of a cluster, or the same run on two machines.

The runs must have the same identity (models, metrics, protocol, prompts, data), apart from their shards. A score with a
value wins over one without, otherwise the newer run's score wins; an answer that is in several folders is kept once, and
every bill is kept. The runs themselves are only read.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import orjson

from titjudge.core.config import RunConfig
from titjudge.core.errors import UserError
from titjudge.core.files import JsonlReader
from titjudge.core.numbers import known_sum
from titjudge.core.registry import base_metric
from titjudge.core.run_records import Manifest, RoleRecord, joined_pairs, stopped_by
from titjudge.core.serialization import short_digest
from titjudge.core.types import Json, Note, Pair, Status, Values
from titjudge.engine.budget import Spending
from titjudge.metrics import Metric
from titjudge.probes.canary import refuse_drift
from titjudge.runs.folder.identity import config_of, differing, identity
from titjudge.runs.folder.journal import damage_lines, write_records
from titjudge.runs.folder.run_folder import PLACE, RunFolder, compares_images
from titjudge.runs.outcome import Outcome, finish
from titjudge.runs.resolve import stored_run
from titjudge.suites.base import Suite


def merge(runs: Sequence[Path], out: Path, *, pairs: Sequence[Pair] | None = None, report: bool = True) -> Outcome:
    """Merge run folders into `out`, with manifest, tables and report. Merging the same runs again, or more, renews it.

    Args:
        runs: Run folders, finished or not; no process may be writing them.
        out: The folder of the merge.
        pairs: Human pairs; without them the pairs of the runs.
        report: Whether to write report.html.

    Raises:
        DataError: One is not a run folder.
        UserError: They are not parts of one run, one is being written, or `out` has something that would be lost.
    """
    distinct = {run.resolve(): run for run in reversed(runs)}  # the same folder may be given under two paths
    parts = [ShardRun(folder, folder.manifest()) for folder in map(RunFolder, reversed(distinct.values()))]
    if any(part.folder.path.resolve() == out.resolve() for part in parts):
        raise UserError(f"{out} is one of the runs to merge. Choose another --out")
    target = RunFolder(out)
    _check_alike(parts)
    _check_disjoint(parts)
    if (out / "manifest.json").is_file():
        _check_replaced(target, parts)
    for part in parts:
        if part.folder.is_locked():
            raise UserError(f"{part.folder.path}: another titjudge is writing this run. Wait until it ends")
    parts.sort(key=lambda part: part.manifest.updated or 0.0)
    shared = {name: value for name, value in parts[0].manifest.identity.items() if name != "shard"}
    config = config_of(shared, parts[0].folder.path)
    _announce(target, parts, config)
    target.open(config)
    try:
        return _join(parts, target, config, pairs, report)
    finally:
        target.close()


def _join(
    parts: Sequence[ShardRun], target: RunFolder, config: RunConfig, pairs: Sequence[Pair] | None, report: bool
) -> Outcome:
    run = stored_run(config)
    metrics, suite = run.metrics, run.suite
    if pairs is None:
        pairs = _pairs(parts, suite, config)
    status = _status(parts)
    warnings = _write(parts, target, metrics, status)  # its memory is free before tables are made
    warnings += other_models(parts)
    warnings += refuse_drift({part.folder.path.name: part.manifest for part in parts}, allow=True)
    warnings += (
        Note(line.id, f"{part.folder.path.name}: {line}") for part in parts for line in damage_lines(part.folder.damage)
    )
    rules = {part.folder.results().per_prompt for part in parts} - {""}
    rule = rules.pop() if len(rules) == 1 else "mean"
    return finish(target, suite, pairs, metrics, status=status, extra_warnings=warnings, report=report, per_prompt=rule)


def _write(parts: Sequence[ShardRun], target: RunFolder, metrics: Mapping[str, Metric], status: str) -> list[Note]:
    """Write the records and the manifest of the merge; returns warnings about scores that are not comparable."""
    items = MergedItems(parts)
    scores = MergedScores(parts, items, metrics)
    _replace_files(
        target.path,
        replies=_replies(parts),
        vectors=_vectors(parts),
        billing=(record for part in parts for record in part.read("billing")),
        items=items,
        scores=scores,
    )
    target.write_manifest(_manifest(parts, items, scores, metrics, status, target.money()))
    return different_questions(parts, scores)


def _replace_files(folder: Path, **records: Iterable[Record]) -> None:
    """Write NAME.jsonl for each name, and put all of them in place together once they are complete."""
    new = {name: folder / f".{name}.jsonl.new" for name in records}
    try:
        for name, file in new.items():
            write_records(file, records[name])
        for name, file in new.items():
            file.replace(folder / f"{name}.jsonl")
    finally:
        for file in new.values():
            file.unlink(missing_ok=True)


def _announce(target: RunFolder, parts: Sequence[ShardRun], config: RunConfig) -> None:
    """Write a manifest before anything else, so that a killed merge can be repeated."""
    if (target.path / "manifest.json").is_file() or any(target.path.glob("*.jsonl")):
        return
    target.path.mkdir(parents=True, exist_ok=True)
    record = {"identity": identity(config), "status": "running", "merged": _sources(parts)}
    target.write_manifest(Manifest.model_validate(record))


def _sources(parts: Sequence[ShardRun]) -> list[Json]:
    """List the runs of a merge for its manifest."""
    ordered = sorted(parts, key=lambda part: (part.shard or (0, 0), part.folder.path.name))
    return [{"run": part.source[0], "shard": part.source[1], "status": part.manifest.status} for part in ordered]


def _check_alike(parts: Sequence[ShardRun]) -> None:
    """Check that all parts have the same identity, prompts and metric versions.

    Raises:
        UserError: Two differ; the message names what is different.
    """
    first = parts[0]
    for part in parts[1:]:
        changed = [key for key in differing(first.manifest.identity, part.manifest.identity) if key != "shard"]
        changed += _changed("prompt", first.manifest.prompts, part.manifest.prompts)
        changed += _changed(
            "metric", *({n: (m.version, m.options) for n, m in p.manifest.metrics.items()} for p in (first, part))
        )
        if changed:
            raise UserError(
                f"{part.folder.path} and {first.folder.path} are not parts of one run: they differ in {', '.join(changed)}. Merge parts of one run"
            )


def _changed(what: str, first: Values, second: Values) -> list[str]:
    return [f"{what} {name}" for name in first if name in second and first[name] != second[name]]


def _check_disjoint(parts: Sequence[ShardRun]) -> None:
    """Check that no part is a merge of another one, whose bills would be counted twice.

    Raises:
        UserError: A part is such a merge.
    """
    sources = {part.source for part in parts}
    for part in parts:
        for source in part.manifest.merged or ():
            if (source.run, source.shard) in sources:
                raise UserError(f"{part.folder.path} was merged from {source.run}. Give only one of them")


def _check_replaced(target: RunFolder, parts: Sequence[ShardRun]) -> None:
    """Check that `target` is a merge of the same runs or of some of them, so that replacing it loses nothing.

    Raises:
        UserError: It is something else.
    """
    former = target.manifest().merged
    if former is None:
        raise UserError(f"{target.path} is a run that was not merged. Choose another --out")
    sources = {part.source for part in parts}
    lost = [source.run for source in former if (source.run, source.shard) not in sources]
    if lost:
        raise UserError(f"{target.path} was also merged from {', '.join(lost)}. Give these runs also, or another --out")


def _status(parts: Sequence[ShardRun]) -> str:
    """Return the status of the merge: complete when every part is and no shard is missing."""
    shards = _shards(parts)
    if shards and len({count for _, count in shards}) == 1:
        count = shards[0][1]
        missing = [f"{number}/{count}" for number in range(1, count + 1) if (number, count) not in shards]
        if missing:
            return f"incomplete: shard {', '.join(missing)} missing"
    for part in parts:
        status = part.manifest.status
        if status != "complete" and not (shards and stopped_by(status) == "shard"):
            return "incomplete: interrupted" if status == "running" else status
    return "complete"


def _shards(parts: Sequence[ShardRun]) -> list[tuple[int, int]]:
    """List the shards that the parts contain, also in former merges; none when a part is a whole run."""
    shards = []
    for part in parts:
        merged = [shard for source in part.manifest.merged or () if (shard := shard_numbers(source.shard))]
        held = [part.shard] if part.shard else merged
        if not held:
            return []
        shards += held
    return shards


def _replies(parts: Sequence[ShardRun]) -> Iterator[Record]:
    """Yield every answer once, without identical lines and without cached copies of a good answer."""
    lines: set[bytes] = set()
    good: set[bytes] = set()  # digests of the keys: a long run has many
    for part in parts:
        for record in part.read("replies"):
            line, key = (
                short_digest(orjson.dumps(record, option=orjson.OPT_SORT_KEYS)),
                short_digest(record["key"].encode()),
            )
            if line in lines or (record["cached"] and key in good):
                continue
            lines.add(line)
            if record["status"] == Status.OK:
                good.add(key)
            yield record


def _vectors(parts: Sequence[ShardRun]) -> Iterator[Record]:
    keys: set[bytes] = set()
    for part in parts:
        for record in part.read("vectors"):
            if (key := short_digest(record["key"].encode())) not in keys:
                keys.add(key)
                yield record


def _pairs(parts: Sequence[ShardRun], suite: Suite, config: RunConfig) -> list[Pair]:
    """Collect the human pairs of the runs; if no run has stored results, read them from the data."""
    stored = [results for part in parts if (results := part.folder.results()).pairs is not None]
    if stored:
        return joined_pairs(stored)
    return suite.pairs(config.data) if config.data is not None and config.data.exists() else []


def _manifest(
    parts: Sequence[ShardRun],
    items: MergedItems,
    scores: MergedScores,
    metrics: Iterable[str],
    status: str,
    money: Spending,
) -> Manifest:
    newest = parts[-1].manifest
    scored, failed, done = scores.count(metrics)
    roles: dict[str, RoleRecord] = {}
    for part in parts:
        for name, role in part.manifest.roles.items():
            roles[name] = roles[name].plus(role) if name in roles else role
    return newest.with_(
        identity={name: value for name, value in newest.identity.items() if name != "shard"},
        prompts={name: digest for part in parts for name, digest in part.manifest.prompts.items()},
        roles={name: role.to_json() for name, role in roles.items()},
        status=status,
        started=min(part.manifest.started or 0.0 for part in parts),
        updated=max(part.manifest.updated or 0.0 for part in parts),
        progress={
            "total": len(items),
            "done": done + len(items) - len(items.judged),
            "scored": scored,
            "failed": failed,
        },
        spent=known_sum(money.spent, money.unpriced),
        unpriced=money.unpriced,
        merged=_sources(parts),
    )


Record = Json
Key = tuple[str, str]  # item and metric


@dataclass(frozen=True, slots=True)
class ShardRun:
    """A run folder to merge, and its manifest. Its lines are read again when they are needed, and not kept.

    Attributes:
        folder: The run folder.
        manifest: Its manifest.
    """

    folder: RunFolder
    manifest: Manifest
    _readers: dict[str, JsonlReader] = field(default_factory=dict)

    @property
    def source(self) -> tuple[str, str | None]:
        """The name of its folder and its shard (`2/4`), by which the manifest of a merge knows it."""
        return self.folder.path.name, self.manifest.identity.get("shard")

    @property
    def shard(self) -> tuple[int, int] | None:
        """(1, 4) for the first of four; None for a run that is not a shard."""
        return shard_numbers(self.manifest.identity.get("shard"))

    def read(self, name: str) -> Iterator[Record]:
        """Read the records of NAME.jsonl; none if there is no such file."""
        return self.folder.read(f"{name}.jsonl")

    def located(self, name: str) -> Iterator[tuple[int, Record]]:
        """Read the records of NAME.jsonl, each with its offset."""
        return self.folder.located(f"{name}.jsonl")

    def read_at(self, name: str, offset: int) -> Record:
        """Read the record of NAME.jsonl at an offset again."""
        if name not in self._readers:
            self._readers[name] = JsonlReader(self.folder.path / f"{name}.jsonl")
        return self._readers[name].read_at(offset)

    def text_answers(self) -> Iterator[tuple[str, str, bytes]]:
        """Yield key, template and digest of every good answer to a question without an image."""
        for reply in self.read("replies"):
            has_image = any(isinstance(piece, dict) for _, *pieces in reply["messages"] for piece in pieces)
            if reply["status"] == Status.OK and not has_image:
                yield reply["key"], reply["template"], hashlib.sha256(reply["text"].encode()).digest()[:16]


class MergedItems:
    """The items of all parts, each once, in the order of the data if shards know it; the newest record counts.

    Only ids, places and hashes of prompts are kept, and the records are read again when they are written.

    Raises:
        UserError: Two parts have different prompts for one item.
    """

    def __init__(self, parts: Sequence[ShardRun]) -> None:
        self._parts = parts
        self._lines: dict[str, tuple[int, int]] = {}  # part and offset of the record
        self._prompts: dict[str, int] = {}  # hashes, of valid items: only whether they differ is asked
        places: dict[str, tuple[int, int]] = {}
        for number, part in enumerate(parts):
            for position, (offset, item) in enumerate(part.located("items")):
                id = sys.intern(item["id"])
                places.setdefault(id, (item.get(PLACE, position), number))
                if "bad" in item:
                    self._prompts.pop(id, None)
                elif self._prompts.setdefault(id, prompt := hash(item["prompt"])) != prompt:
                    raise UserError(
                        f"{part.folder.path}: the prompt of {id} differs from the other runs. Leave out this run"
                    )
                self._lines[id] = number, offset
        self.ranks = {id: rank for rank, id in enumerate(sorted(places, key=places.__getitem__))}

    def __len__(self) -> int:
        return len(self.ranks)

    def __iter__(self) -> Iterator[Record]:
        """Read the records again, in the order of the merge."""
        for id in self.ranks:
            part, offset = self._lines[id]
            yield self._parts[part].read_at("items", offset)

    @property
    def judged(self) -> list[str]:
        """The ids of the items that are valid."""
        return [id for id in self.ranks if id in self._prompts]


class _ScoreLine(NamedTuple):
    """The place of a score, and whether it has a value."""

    part: int
    offset: int
    has_value: bool


class MergedScores:
    """The scores of a merge: which line of which part has the score of an item by a metric.

    The newest score with a value counts, otherwise the newest. Scores that compare the images of a prompt come from one
    part: the one with most of them.
    """

    def __init__(self, parts: Sequence[ShardRun], items: MergedItems, metrics: Mapping[str, Metric]) -> None:
        self._parts, self._items = parts, items
        self._chosen: dict[Key, _ScoreLine] = {}
        comparing: list[dict[Key, _ScoreLine]] = []
        for number, part in enumerate(parts):
            last: dict[Key, _ScoreLine] = {}
            for offset, record in part.located("scores"):
                key = sys.intern(record["item"]), sys.intern(record["metric"])
                last[key] = _ScoreLine(number, offset, record["value"] is not None)
            compared = {name for name in {name for _, name in last} if _compares(name, metrics)}
            comparing.append({key: line for key, line in last.items() if key[1] in compared})
            for key, line in last.items():
                if line.has_value or key not in self._chosen or not self._chosen[key].has_value:
                    self._chosen[key] = line
        if any(comparing):
            self._choose_together(comparing)

    def _choose_together(self, comparing: Sequence[Mapping[Key, _ScoreLine]]) -> None:
        """Take the scores that compare the images of a prompt from one part."""
        prompts: dict[str, list[str]] = {}
        for item in self._items:
            prompts.setdefault(item["prompt_id"], []).append(item["id"])
        for metric in dict.fromkeys(name for last in comparing for _, name in last):
            for items_of_prompt in prompts.values():
                keys = [(item, metric) for item in items_of_prompt]
                counts = [sum(key in last and last[key].has_value for key in keys) for last in comparing]
                best = max(range(len(comparing)), key=lambda number: (counts[number], number))
                for key in keys:
                    if counts[best] and key in comparing[best]:
                        self._chosen[key] = comparing[best][key]

    def __iter__(self) -> Iterator[Record]:
        """Read the records again, in the order of the items; scores of unknown items come last."""
        ranks = self._items.ranks
        for key in sorted(self._chosen, key=lambda key: ranks.get(key[0], len(ranks))):
            yield self._read(self._chosen[key])

    def _read(self, line: _ScoreLine) -> Record:
        return self._parts[line.part].read_at("scores", line.offset)

    def with_value(self) -> Iterator[tuple[int, Record]]:
        """Read the records that have a value, each with the number of its part."""
        return ((line.part, self._read(line)) for line in self._chosen.values() if line.has_value)

    def count(self, metrics: Iterable[str]) -> tuple[int, int, int]:
        """Count the scores of these metrics with a value, those without one, and the valid items that have all of them."""
        names = set(metrics)
        with_values = [line.has_value for (_, name), line in self._chosen.items() if name in names]
        done = sum(all((item, name) in self._chosen for name in names) for item in self._items.judged)
        return sum(with_values), len(with_values) - sum(with_values), done


def shard_numbers(shard: str | None) -> tuple[int, int] | None:
    """Parse "1/4" to (1, 4)."""
    return (int(shard.split("/")[0]), int(shard.split("/")[1])) if shard else None


def _compares(name: str, metrics: Mapping[str, Metric]) -> bool:
    """Return True if a metric, or the vote of one judge in it (`pairwise [openai/gpt-6-luna]`), compares images."""
    metric = metrics.get(name) or metrics.get(base_metric(name))
    return metric is not None and compares_images(metric)


def other_models(parts: Sequence[ShardRun]) -> list[Note]:
    """List warnings for the roles in which the parts used different weights, programs or embedders of one name."""
    pins: dict[str, set[str]] = {}
    for part in parts:
        for name, pin in part.manifest.pins.items():
            pins.setdefault(name, set()).add(pin)
    return [
        Note("joined_over_models", f"joined over different models: {name} was {' and '.join(sorted(models))}")
        for name, models in pins.items()
        if len(models) > 1
    ]


def different_questions(parts: Sequence[ShardRun], scores: MergedScores) -> list[Note]:
    """List warnings for the metrics that judged images of one prompt by different questions.

    A metric may derive questions, claims or a graph from the prompt alone, once for all its images. Parts that share no
    cache may have got different answers to that request.
    """
    first: dict[int, int] = {}  # hashes of key and answer: ambiguous ones are checked below
    ambiguous: set[int] = set()
    for part in parts:
        for key, _, answer in part.text_answers():
            if first.setdefault(hash(key), hash(answer)) != hash(answer):
                ambiguous.add(hash(key))
    del first
    if not ambiguous:
        return []
    texts = [
        {key: (template, answer) for key, template, answer in part.text_answers() if hash(key) in ambiguous}
        for part in parts
    ]
    answers: dict[tuple[str, str, str], set[bytes]] = {}  # by metric, prompt and key
    templates: dict[str, str] = {}
    for part_number, score in scores.with_value():
        for key in score["replies"]:
            if key in (text_answers := texts[part_number]):
                templates[key], answer = text_answers[key]
                answers.setdefault((score["metric"], score["prompt_id"], key), set()).add(answer)
    mixed: dict[tuple[str, str], dict[str, None]] = {}
    for (name, prompt, key), different in answers.items():
        if len(different) > 1:
            mixed.setdefault((name, templates[key]), {})[prompt] = None
    return [
        Note(
            "different_questions",
            f"{name}: images of {_listed(list(prompts))} were judged by different answers to {template}: their scores are "
            "not comparable; judge whole prompts in one run",
        )
        for (name, template), prompts in mixed.items()
    ]


def _listed(prompts: Sequence[str]) -> str:
    count = "one prompt" if len(prompts) == 1 else f"{len(prompts)} prompts"
    return f"{count} ({', '.join(prompts[:3])}{', ...' if len(prompts) > 3 else ''})"
