"""Several run folders of one run into one: shards of a cluster, or the same run on two machines.

Joined are runs with the same identity (models, metrics, protocol, prompts, data); which shard a folder holds is not part
of it. A score with a value wins over one without, else the newer run's; an answer that is in several folders is kept
once, and what was paid stays paid. Reading changes nothing in the runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from titjudge.core.errors import UserError
from titjudge.core.files import Appender
from titjudge.core.run_records import Manifest, RoleRecord
from titjudge.core.types import Pair, Status
from titjudge.metrics import Metric
from titjudge.probes.canary import drift_between
from titjudge.runs.identity import identity
from titjudge.runs.journal import told
from titjudge.runs.merge_scores import Part, Record, chosen, examined_differently, other_models, shard_numbers
from titjudge.runs.outcome import Outcome, finish
from titjudge.runs.resolve import load_metrics, load_suite
from titjudge.runs.run_folder import RunFolder
from titjudge.runs.score_digests import PLACE
from titjudge.runs.verify import config_of


def merge(runs: Sequence[Path], out: Path, *, pairs: Sequence[Pair] | None = None, report: bool = True) -> Outcome:
    """Join run folders into `out`, with manifest, tables and report. Merging the same runs again, or more, renews it.

    Args:
        runs: run folders, finished or not; none of them may be going on.
        out: the folder of the merge.
        pairs: human pairs; without them those of the runs.
        report: whether to write report.html.

    Raises:
        DataError: one is no run folder. UserError: they are not parts of one run, one is being written, or `out` holds
            something that these runs would not replace.
    """
    apart = {run.resolve(): run for run in reversed(runs)}  # one run under two spellings of its path is one
    parts = [Part(folder, folder.manifest()) for folder in map(RunFolder, reversed(apart.values()))]
    if any(part.folder.path.resolve() == out.resolve() for part in parts):
        raise UserError(f"{out} is one of the runs to merge: choose another --out")
    target = RunFolder(out)
    _check_alike(parts)
    _check_apart(parts)
    if (out / "manifest.json").is_file():
        _check_replaced(target, parts)
    for part in parts:
        if part.folder.is_locked():
            raise UserError(f"{part.folder.path}: another titjudge is writing this run")
    parts.sort(key=lambda part: part.manifest.updated or 0.0)
    own = {name: value for name, value in parts[0].manifest.identity.items() if name != "shard"}
    config = config_of(own, parts[0].folder.path)
    _announce(target, parts, config)
    target.open(config)
    try:
        return _join(parts, target, load_metrics(config), load_suite(config), config, pairs, report)
    finally:
        target.close()


def _join(
    parts: Sequence[Part],
    target: RunFolder,
    metrics: dict[str, Metric],
    suite: Any,
    config: Any,
    pairs: Sequence[Pair] | None,
    report: bool,
) -> Outcome:
    if pairs is None:
        pairs = _pairs(parts, suite, config)
    items = _items(parts)
    scores, sources = chosen(parts, items, metrics)
    status = _status(parts)
    warnings = [*examined_differently(parts, scores, sources), *other_models(parts)]
    with _Files(target.path) as files:
        files.write("replies", _replies(parts))
        files.write("vectors", _vectors(parts))
        files.write("billing", (record for part in parts for record in part.read("billing")))
        files.write("items", iter(items))
        files.write("scores", _in_order(scores, items))
        files.put()
    manifest = _manifest(parts, items, scores, metrics, status, target.money()["spent"])
    target.write_manifest(manifest)
    drift = drift_between({part.folder.path.name: part.manifest for part in parts})
    warnings += [f"joined across a drift: {reason}" for reason in drift]
    warnings += [f"{part.folder.path.name}: {line}" for part in parts for line in told(part.folder.damage)]
    rules = {part.folder.results().per_prompt for part in parts} - {""}
    rule = rules.pop() if len(rules) == 1 else "mean"
    return finish(target, suite, pairs, metrics, status=status, extra_warnings=warnings, report=report, per_prompt=rule)


class _Files:
    """New files beside the old ones, put in their place together when all are whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: list[str] = []

    def __enter__(self) -> _Files:
        return self

    def write(self, name: str, records: Iterator[Record]) -> None:
        aside = self._folder / f".{name}.jsonl.new"
        aside.unlink(missing_ok=True)
        self._made.append(name)
        appender = Appender(aside)
        try:
            for record in records:
                appender.add(record)
        finally:
            appender.close()

    def put(self) -> None:
        while self._made:
            name = self._made.pop()
            (self._folder / f".{name}.jsonl.new").replace(self._folder / f"{name}.jsonl")

    def __exit__(self, *_: object) -> None:
        for name in self._made:
            (self._folder / f".{name}.jsonl.new").unlink(missing_ok=True)


def _announce(target: RunFolder, parts: Sequence[Part], config: Any) -> None:
    """Write a manifest before anything else, so that a merge that was killed can be made again."""
    if (target.path / "manifest.json").is_file() or any(target.path.glob("*.jsonl")):
        return
    target.path.mkdir(parents=True, exist_ok=True)
    record = {"identity": identity(config), "status": "running", "merged": _sources(parts)}
    target.write_manifest(Manifest.model_validate(record))


def _sources(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """List what a merge is made from, as its manifest has it."""
    return [
        {
            "run": part.folder.path.name,
            "shard": part.manifest.identity.get("shard"),
            "status": part.manifest.status,
        }
        for part in sorted(parts, key=lambda part: (part.shard or (0, 0), part.folder.path.name))
    ]


def _check_alike(parts: Sequence[Part]) -> None:
    first = parts[0]
    for part in parts[1:]:
        mine, theirs = first.manifest.identity, part.manifest.identity
        changed = [name for name in sorted({*mine, *theirs} - {"shard"}) if mine.get(name) != theirs.get(name)]
        changed += _changed("prompt", first.manifest.prompts, part.manifest.prompts)
        changed += _changed(
            "metric", *({n: (m.version, m.options) for n, m in p.manifest.metrics.items()} for p in (first, part))
        )
        if changed:
            raise UserError(
                f"{part.folder.path} and {first.folder.path} are not parts of one run: another {', '.join(changed)}"
            )


def _changed(what: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return [f"{what} {name}" for name in one if name in other and one[name] != other[name]]


def _check_apart(parts: Sequence[Part]) -> None:
    """Check that no merge is joined with a run it was made from: what was paid would be counted twice.

    Raises:
        UserError: two of them overlap so.
    """
    given = {(part.folder.path.name, part.manifest.identity.get("shard")): part for part in parts}
    for part in parts:
        for each in part.manifest.merged or ():
            if (each.run, each.shard) in given:
                raise UserError(f"{part.folder.path} was merged from {each.run}: give one of them")


def _check_replaced(target: RunFolder, parts: Sequence[Part]) -> None:
    """Check that a former merge is made anew from at least the same runs; anything else in `out` stays.

    Raises:
        UserError: `out` would lose something.
    """
    former = target.manifest().merged
    if former is None:
        raise UserError(f"{target.path} holds a run that is no merge: choose another --out")
    given = [(part.folder.path.name, part.manifest.identity.get("shard")) for part in parts]
    lost = [each.run for each in former if (each.run, each.shard) not in given]
    if lost:
        raise UserError(f"{target.path} was merged from {', '.join(lost)} too: give those as well, or another --out")


def _status(parts: Sequence[Part]) -> str:
    """Give the status: complete when every part is, and no shard is missing."""
    there = _shards(parts)
    if there and len({count for _, count in there}) == 1:
        count = there[0][1]
        absent = [f"{number}/{count}" for number in range(1, count + 1) if (number, count) not in there]
        if absent:
            return f"incomplete: shard {', '.join(absent)} missing"
    for part in parts:
        status = part.manifest.status
        if status != "complete" and not (there and status.startswith("incomplete: shard")):
            return "incomplete: interrupted" if status == "running" else status
    return "complete"


def _shards(parts: Sequence[Part]) -> list[tuple[int, int]]:
    """List the shards that are there, alone or in a former merge; none when a part is a whole run."""
    found = []
    for part in parts:
        former = [shard for each in part.manifest.merged or () if (shard := shard_numbers(each.shard))]
        own = [part.shard] if part.shard else former
        if not own:
            return []
        found += own
    return found


def _items(parts: Sequence[Part]) -> list[Record]:
    """Join the items of all parts, each once, in the order of the data where shards say it; the newer part's record counts.

    Raises:
        UserError: an item has different prompts.
    """
    places: dict[str, tuple[int, int]] = {}
    found: dict[str, Record] = {}
    for number, part in enumerate(parts):
        for k, item in enumerate(part.read("items")):
            places.setdefault(item["id"], (item.get(PLACE, k), number))
            before = found.get(item["id"])
            if (
                before is not None
                and before.get("prompt", 0) != item.get("prompt", 0)
                and "bad" not in {*before, *item}
            ):
                raise UserError(f"{part.folder.path}: {item['id']} has another prompt than in the other runs")
            found[item["id"]] = item
    return sorted(found.values(), key=lambda item: places[item["id"]])


def _in_order(scores: Mapping[tuple[str, str], Record], items: Sequence[Record]) -> Iterator[Record]:
    places = {item["id"]: number for number, item in enumerate(items)}
    yield from sorted(scores.values(), key=lambda score: places.get(score["item"], len(places)))


def _replies(parts: Sequence[Part]) -> Iterator[Record]:
    """Yield every answer once: the same line twice is one, and a cached copy is not needed where the answer itself is."""
    lines: set[bytes] = set()
    good: set[str] = set()
    for part in parts:
        for record in part.read("replies"):
            digest = hashlib.sha256(orjson.dumps(record, option=orjson.OPT_SORT_KEYS)).digest()
            if digest in lines or (record["cached"] and record["key"] in good):
                continue
            lines.add(digest)
            if record["status"] == Status.OK:
                good.add(record["key"])
            yield record


def _vectors(parts: Sequence[Part]) -> Iterator[Record]:
    keys: set[str] = set()
    for part in parts:
        for record in part.read("vectors"):
            if record["key"] not in keys:
                keys.add(record["key"])
                yield record


def _pairs(parts: Sequence[Part], suite: Any, config: Any) -> list[Pair]:
    stored = [results for part in parts if (results := part.folder.results()).pairs is not None]
    if stored:
        return list(dict.fromkeys(pair for results in stored for pair in results.human_pairs))
    read: list[Pair] = suite.pairs(config.data) if config.data is not None and config.data.exists() else []
    return read


def _manifest(
    parts: Sequence[Part],
    items: Sequence[Record],
    scores: Mapping[tuple[str, str], Record],
    metrics: Mapping[str, Metric],
    status: str,
    spent: float,
) -> Manifest:
    newest = parts[-1].manifest
    judged = [item["id"] for item in items if "bad" not in item]
    own = [record["value"] for (_, name), record in scores.items() if name in metrics]
    done = sum(all((item, name) in scores for name in metrics) for item in judged)
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
            "done": done + len(items) - len(judged),
            "scored": sum(value is not None for value in own),
            "failed": sum(value is None for value in own),
        },
        spent=round(spent, 6),
        merged=_sources(parts),
    )
