"""The data of a report on one or several runs, and its JSON: items, scores, answers, pairs; every long text once."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from titjudge.core import item_meta
from titjudge.core.files import JsonlReader
from titjudge.core.local_names import LocalNames
from titjudge.core.registry import first_metric
from titjudge.core.run_records import MetricRecord, StoredRun, Verdict
from titjudge.core.score_parts import (
    Aligned,
    Compared,
    TokensRead,
    bounds_of,
    contradicted,
    description,
    missing,
    weakest,
)
from titjudge.core.serialization import without_surrogates
from titjudge.core.types import CONSTRUCTION, PEOPLE, PREFERENCES, InvalidItem, Item, Json, Score
from titjudge.data import containers
from titjudge.report.card_record import CardRecord
from titjudge.report.crops import ClaimCrops
from titjudge.report.judged_images import Judged, Sameness
from titjudge.report.transcripts import DRAWN, Texts, case
from titjudge.stats.equality import with_ties
from titjudge.stats.generators.comparison_tables import Scale
from titjudge.stats.scores.families import Families, families
from titjudge.stats.verdict.judged_runs import JudgedRun, stored_run

_SHOWN = frozenset({*Compared.__annotations__, *Aligned.__annotations__})
_ANSWER_FIELDS = tuple(
    (
        "role template provider model model_version endpoint status reason finish_reason params usage flags "
        "list_cost cached sample attempt"
    ).split()
)
_NO_IMAGE = Judged(None)
CARD = "card.json"  # of the run, or beside it


@dataclass(frozen=True, slots=True)
class JudgedMetric:
    """One metric of one run.

    Attributes:
        run: Number of the run.
        metric: Name of the metric.
        label: Its name in the report, with the name of the run if there are several.
        scale: How its scores are read.
    """

    run: int
    metric: str
    label: str
    scale: Scale


class ByJudge(Mapping[int, Score]):
    """Scores by judge number: a dictionary for each of a million images would be most of the memory."""

    __slots__ = ("_scores",)

    def __init__(self, scores: tuple[Score | None, ...] = ()) -> None:
        self._scores = scores

    def __getitem__(self, judge: int) -> Score:
        score = self._scores[judge] if judge < len(self._scores) else None
        if score is None:
            raise KeyError(judge)
        return score

    def __iter__(self) -> Iterator[int]:
        return (judge for judge, score in enumerate(self._scores) if score is not None)

    def __len__(self) -> int:
        return sum(score is not None for score in self._scores)


@dataclass(slots=True)
class ImageEntry:
    """One image with its prompt, in all runs that judged it.

    Attributes:
        bad: Why the item is invalid; empty if it is valid.
        scores: Score by judge number.
        slot: Number of the first entry with the same id, generator and prompt: two runs with different images in one slot
            (checkpoints whose files have the same names) have an entry each.
        runs, judged: Numbers of the runs that judged it, and the image in each of them.
        sources: Of an edit, the images that it was made from, as the first of these runs has them.
    """

    id: str
    generator: str
    prompt_id: str
    prompt: str
    bad: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    scores: Mapping[int, Score] = field(default_factory=ByJudge)
    slot: int = 0
    runs: tuple[int, ...] = ()
    judged: tuple[Judged, ...] = ()
    sources: tuple[Judged, ...] = ()

    @property
    def shown(self) -> Judged | None:
        """The image to show: of the files in several runs the first that still exists."""
        files = [(judged, judged.path) for judged in self.judged if judged.path is not None]
        return next((judged for judged, path in files if containers.exists(path)), files[0][0] if files else None)


class StoredAnswers:
    """The answers or embeddings of a run by their keys: the place of each, and not its content."""

    def __init__(self, run: StoredRun, name: str, counts: Callable[[Json], bool]) -> None:
        """Read their places; `counts` returns True if a record replaces an earlier one with its key."""
        self._offsets = dict[int, int]()  # by the hash of the key
        for offset, record in run.located(name):
            key = hash(record["key"])
            if counts(record) or key not in self._offsets:
                self._offsets[key] = offset
        self._reader = JsonlReader(run.path / name) if self._offsets else None

    def get(self, key: str) -> Json | None:
        """Read the record with a key; None if there is none."""
        offset = self._offsets.get(hash(key))
        return self._reader.read_at(offset) if self._reader and offset is not None else None


@dataclass(slots=True, kw_only=True)
class Loaded(JudgedRun):
    """The contents of one run folder; parts that only the cases show are read when they are written.

    Attributes:
        stats: Size and time of each item's image file when it was listed.
        source_stats: Likewise of the sources of each edit.
    """

    replies: StoredAnswers
    vectors: StoredAnswers
    card: CardRecord
    stats: dict[str, Any]
    source_stats: dict[str, Any]

    @property
    def unpriced(self) -> int:
        """Requests without a known price; their cost is in no sum."""
        return max(self.manifest.unpriced, self.results.unpriced)

    @property
    def spent(self) -> float | None:
        """USD spent."""
        return self.manifest.spent if self.results.spent is None else self.results.spent


@dataclass(slots=True)
class Report:
    """All data of a report.

    Attributes:
        pairs: (entry a, entry b, preference) with 1 for a, 0 for a tie, -1 for b.
        baseline: A generator that the others are compared with besides the best.
        local: Takes out what the page must not show.
        families: Families of the prompts of all runs.
        verdict: The verdict on the runs, once it is known.
    """

    runs: list[Loaded]
    judges: list[JudgedMetric]
    entries: list[ImageEntry]
    pairs: list[tuple[int, int, int]]
    baseline: str = ""
    local: LocalNames = field(default_factory=lambda: LocalNames(()))
    families: Families = field(init=False)
    verdict: Verdict | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        pairs = [pair for run in self.runs for pair in run.results.human_pairs]
        self.families = families((item for run in self.runs for item in run.items.values()), pairs=pairs)

    @property
    def constructed(self) -> bool:
        """Whether the preferences of all runs come from how the images were made."""
        return bool(self.runs) and all(run.results.constructed for run in self.runs)

    @property
    def reference(self) -> str:
        """The origin of the preferences: people, or construction."""
        return CONSTRUCTION if self.constructed else PEOPLE

    def unit(self, entry: ImageEntry) -> str:
        """Return the family of the prompt of an entry, or the prompt."""
        return self.families.get(entry.prompt_id, entry.prompt_id)

    def judges_of(self, run: int) -> list[tuple[int, JudgedMetric]]:
        """Return the judges of a run with their numbers."""
        return [(number, judge) for number, judge in enumerate(self.judges) if judge.run == run]

    def value(self, entry: ImageEntry, judge: int) -> float | None:
        """Return the score of an entry, negated if less is better; None if there is none."""
        score = entry.scores.get(judge)
        if score is None or score.value is None or not math.isfinite(score.value):
            return None
        return score.value if self.judges[judge].scale.higher else -score.value

    def whole(self, judge: int, score: Score) -> Score:
        """Read a score of a judge with its reason, replies and all parts, which are not kept."""
        return self.runs[self.judges[judge].run].scores.whole(score.item_id, score.metric)


def load(
    runs: Sequence[StoredRun],
    agreement: Mapping[str, Any] | None = None,
    *,
    baseline: str = "",
    deciding_first: bool = False,
) -> Report:
    """Read the run folders.

    Args:
        runs: The folders.
        agreement: Takes the place of the first run's results, in the shape of results.json.
        baseline: A generator that the others are compared with besides the best.
        deciding_first: Whether the metric that decides comes first of each run, and not the first of its manifest.

    Raises:
        DataError: A folder is not a run, or one of its files is damaged.
    """
    loaded = [load_run(run, name, alone=len(runs) == 1) for run, name in zip(runs, _names(runs), strict=True)]
    if agreement and loaded:
        loaded[0].results = loaded[0].results.with_(**agreement)
    judges = [judge for number, run in enumerate(loaded) for judge in _judges(number, run, several=len(loaded) > 1)]
    if deciding_first:
        first = [first_metric(run.manifest.metrics or [""], run.results.unscored) for run in loaded]
        judges.sort(key=lambda judge: (judge.run, judge.metric != first[judge.run]))
    entries, places = _entries(loaded, judges)
    pairs = _pairs(loaded, places)
    local = LocalNames.of_runs((run.path, one.manifest, one.listed) for run, one in zip(runs, loaded, strict=True))
    return Report(loaded, judges, entries, pairs, baseline, local)


def load_run(run: StoredRun, name: str, *, alone: bool) -> Loaded:
    """Read one run folder."""
    stored = stored_run(run, name, alone=alone)
    edits = any(item.sources for item in stored.items.values())
    return Loaded(
        name=name,
        manifest=stored.manifest,
        results=stored.results,
        listed=stored.listed,
        scores=stored.scores,
        replies=StoredAnswers(run, "replies.jsonl", lambda record: record.get("status") == "ok"),
        vectors=StoredAnswers(run, "vectors.jsonl", lambda record: True),
        card=_card(run.path / CARD, run.path.parent / CARD),
        stats=run.stats(),
        source_stats=run.source_stats() if edits else {},
    )


def _card(*files: Path) -> CardRecord:
    """Read the trust card in the first of the files that has one; an empty one if none has."""
    for file in files:
        try:
            card = CardRecord.of_json(orjson.loads(file.read_bytes()))
        except (OSError, orjson.JSONDecodeError):
            continue
        if card is not None:
            return card
    return CardRecord()


def _names(runs: Sequence[StoredRun]) -> list[str]:
    """Name the runs after their folders, with a number if a name repeats."""
    counts: dict[str, int] = {}
    names = []
    for run in runs:
        name = without_surrogates(run.path.resolve().name or str(run.path))
        counts[name] = counts.get(name, 0) + 1
        names.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return names


def _judges(number: int, run: Loaded, *, several: bool) -> list[JudgedMetric]:
    """List the metrics of a run, in the order of its manifest and then of its scores."""
    judges = []
    for name in dict.fromkeys([*run.manifest.metrics, *(metric for _, metric in run.scores)]):
        record = run.manifest.metrics.get(name, MetricRecord())
        values = [
            score.value for (_, metric), score in run.scores.items() if metric == name and score.value is not None
        ]
        label = f"{name} · {run.name}" if several else name
        judges.append(JudgedMetric(number, name, label, Scale.from_records(record, run.metric(name), values)))
    return judges


def _entries(runs: Sequence[Loaded], judges: Sequence[JudgedMetric]) -> tuple[list[ImageEntry], list[dict[str, int]]]:
    """Merge the items of all runs: the same id, prompt, generator and image is one entry; also return entry by id for each run."""
    entries: list[ImageEntry] = []
    slots: dict[tuple[str, str, str], list[int]] = {}
    places: list[dict[str, int]] = []
    same, sources = Sameness(), dict[tuple[Path | None, Any], Judged]()
    for number, run in enumerate(runs):
        columns = [judge.metric if judge.run == number else None for judge in judges]
        metrics = [metric for metric in columns if metric is not None]
        only, no_image = (number,), (_NO_IMAGE,)  # shared by most entries
        entry_of: dict[str, int] = {}
        for item in [*run.listed, *_orphans(run)]:
            prompt = item.prompt if isinstance(item, Item) else ""
            slot = slots.setdefault((item.id, item.generator, prompt), []) if len(runs) > 1 else []
            judged = judged_image(run, item, metrics)
            place = next((place for place in slot if _shows(entries[place], item, judged, same)), None)
            if place is None:
                place = len(entries)
                slot.append(place)
                entries.append(_entry(item, slot[0], _sources(run, item, metrics, sources)))
            if run.results.pairs:
                entry_of[item.id] = place
            entry = entries[place]
            entry.runs = (*entry.runs, number) if entry.runs else only
            entry.judged = (*entry.judged, judged) if entry.judged or judged is not _NO_IMAGE else no_image
            entry.scores = ByJudge(
                tuple(
                    entry.scores.get(judge) if metric is None else run.scores.get((item.id, metric))
                    for judge, metric in enumerate(columns)
                )
            )
        places.append(entry_of)
    return entries, places


def _entry(item: Item | InvalidItem, slot: int, sources: tuple[Judged, ...]) -> ImageEntry:
    """Make the entry of an item that no run has judged yet."""
    if isinstance(item, Item):
        prompt, bad, meta = item.prompt, "", item.meta
    else:
        prompt, bad, meta = "", item.reason, {}
    return ImageEntry(item.id, item.generator, item.prompt_id, prompt, bad, meta, slot=slot, sources=sources)


def judged_image(run: Loaded, item: Item | InvalidItem, metrics: Sequence[str]) -> Judged:
    """Identify the image of an item by the answers behind its scores."""
    if isinstance(item, InvalidItem) or item.image is None:
        return _NO_IMAGE
    return Judged.from_record(
        item.image, run.stats.get(item.id), _answers(run, item, metrics), of_edit=bool(item.sources)
    )


def _sources(
    run: Loaded, item: Item | InvalidItem, metrics: Sequence[str], distinct: dict[tuple[Path | None, Any], Judged]
) -> tuple[Judged, ...]:
    """Identify the sources of an edit; one that several results were made from is kept once, in `distinct`."""
    if isinstance(item, InvalidItem) or not item.sources:
        return ()
    stats = run.source_stats.get(item.id)
    if not isinstance(stats, list) or len(stats) != len(item.sources):
        return ()
    answers = _answers(run, item, metrics)
    sources = [Judged.from_source_record(path, stat, answers) for path, stat in zip(item.sources, stats, strict=True)]
    return tuple(distinct.setdefault((source.path, source.stat), source) for source in sources)


def _answers(run: Loaded, item: Item, metrics: Sequence[str]) -> list[Json]:
    """Read the answers that the scores of an item were made of."""
    scores = [run.scores.whole(item.id, metric) for metric in metrics if (item.id, metric) in run.scores]
    keys = dict.fromkeys(key for score in scores for key in score.replies)
    return [answer for key in keys if (answer := run.replies.get(key)) is not None]


def _shows(entry: ImageEntry, item: Item | InvalidItem, judged: Judged, same: Sameness) -> bool:
    """Whether an entry has the same image, or the same description if there is none."""
    if (
        isinstance(item, Item)
        and item_meta.DESCRIPTION.get(entry) != item_meta.DESCRIPTION.get(item)
        and not judged.path
    ):
        return False
    return any(same(image, judged) for image in entry.judged)


def _orphans(run: Loaded) -> list[Item]:
    """Make items for scores without an item (of a damaged or merged folder), so that they are shown."""
    ids = {item.id for item in run.listed}
    lost = {score.item_id: score for score in run.scores.values() if score.item_id not in ids}
    return [Item(score.item_id, "", None, score.generator, score.prompt_id) for score in lost.values()]


def _pairs(runs: Sequence[Loaded], places: Sequence[dict[str, int]]) -> list[tuple[int, int, int]]:
    """Merge the pairs of all runs, each once, without pairs of unknown images (results.json warns of them)."""
    pairs: dict[tuple[int, int, int], None] = {}
    for run, entry_of in zip(runs, places, strict=True):
        for pair in run.results.pairs or ():
            a, b, sign = entry_of.get(pair.a), entry_of.get(pair.b), PREFERENCES.get(pair.preference)
            if a is not None and b is not None and sign is not None and a != b:
                pairs[a, b, sign] = None
    return list(pairs)


def as_json(report: Report, images: Mapping[Judged, int], listed: Sequence[int] | None = None) -> Json:
    """Return the data that the scripts of the page read.

    Args:
        report: The report.
        images: The images, numbered.
        listed: The numbers of the entries to list, ascending; by default all. Pairs of others are left out.
    """
    numbers = range(len(report.entries)) if listed is None else listed
    writer = ItemWriter(report)
    items = [writer.item(report.entries[number], images) for number in numbers]
    return about(report, numbers) | {"items": items, "replies": writer.replies, "texts": writer.texts.table}


def about(report: Report, numbers: Sequence[int]) -> Json:
    """Return the data of the page on metrics, runs and pairs of the listed images."""
    place = {number: place for place, number in enumerate(numbers)}
    return {
        "judges": [
            {
                **{name: getattr(judge, name) for name in ("label", "metric", "run")},
                **{name: getattr(judge.scale, name) for name in ("range", "higher", "digits")},
            }
            for judge in report.judges
        ],
        "runs": [run.name for run in report.runs],
        "constructed": report.constructed,
        "pairs": [
            value for a, b, sign in report.pairs if a in place and b in place for value in (place[a], place[b], sign)
        ],
    }


class ItemWriter:
    """Turn entries into JSON; answers and texts that several items share are written once.

    Attributes:
        texts: The texts that what was written refers to by number.
        replies: The answers, likewise; `restart` begins new ones, whose numbers go on.
    """

    def __init__(self, report: Report) -> None:
        self.report, self.texts, self.first_reply = report, Texts(), 0
        self.replies: list[Json] = []
        self._numbers: dict[tuple[int, str], int | None] = {}
        self._crops = ClaimCrops()
        self._values = [_values(report.entries, place) for place in range(len(report.judges))]

    def restart(self) -> None:
        """Begin new texts and answers, for a separate file."""
        self.texts = Texts(self.texts.first + len(self.texts.table))
        self.first_reply += len(self.replies)
        self.replies, self._numbers = [], {}

    def item(self, entry: ImageEntry, images: Mapping[Judged, int]) -> Json:
        """Write an entry with all that is known of its scores."""
        return self._head(entry, images) | {"s": self.scores(entry)}

    def outline(self, entry: ImageEntry, images: Mapping[Judged, int]) -> Json:
        """Write an entry with only the values and statuses of its scores."""
        scores = [entry.scores.get(place) for place in range(len(self.report.judges))]
        return self._head(entry, images) | {
            "s": [score and self._value(entry, score, place) for place, score in enumerate(scores)]
        }

    def _head(self, entry: ImageEntry, images: Mapping[Judged, int]) -> Json:
        """Write what is known of an entry besides its scores."""
        record: Json = {"id": entry.id, "g": entry.generator, "grp": entry.prompt_id}
        if entry.prompt:
            record["p"] = self.texts.compose(entry.prompt, [entry.prompt.strip()])
        if entry.bad:
            record["bad"] = entry.bad
        if (picture := entry.shown) is not None and picture in images:
            record["im"] = images[picture]
        if entry.sources:
            record["src"] = [images[source] for source in entry.sources if source in images]
        if len(entry.runs) < len(self.report.runs):
            record["rn"] = list(entry.runs)
        return record

    def scores(self, entry: ImageEntry) -> list[Json | None]:
        """Write the scores of an entry with reasons, details and answers; None for a judge that has not judged it."""
        lean = [entry.scores.get(place) for place in range(len(self.report.judges))]
        scores = [score and self.report.whole(place, score) for place, score in enumerate(lean)]
        fragments = [entry.prompt.strip(), *filter(None, (description(score.parts) for score in scores if score))]
        return [self._score(entry, score, place, fragments) if score else None for place, score in enumerate(scores)]

    def _value(self, entry: ImageEntry, score: Score, place: int) -> Json:
        value: Json = {"v": self._values[place].get(id(entry)), "st": str(score.status)}
        bounds = bounds_of(score.parts)
        return value | ({"b": [*bounds]} if bounds else {})

    def _score(self, entry: ImageEntry, score: Score, place: int, fragments: Sequence[str]) -> Json:
        """Write one score of one judge: value, reason, details, claims with crops, other parts, and its answers by number."""
        run, parts = self.report.judges[place].run, score.parts
        record = self._value(entry, score, place)
        if score.reason:
            record["r"] = self.texts.add(score.reason)
        for key, listed in (("mi", missing(parts)), ("co", contradicted(parts))):
            if details := [as_text(detail) for detail in listed]:
                record[key] = details
        if weak := weakest(parts):
            record["wk"] = [[as_text(entry.get(key)) for key in ("sentence", "closest")] for entry in weak]
        if text := description(parts):
            record["d"] = self.texts.add(text)
        read = [parts.get(key) for key in TokensRead.__annotations__]
        if any(isinstance(count, int) for count in read):
            record["n"] = read
        drawn = case(parts, entry.prompt, self.texts)
        if drawn is not None:
            record["ag"] = drawn
            crops, crop_of = self._crops.of_claims(parts, entry.shown)
            if crops:
                drawn["crops"] = crops
                for claim in drawn["claims"]:
                    if claim["n"] in crop_of:
                        claim["cr"] = crop_of[claim["n"]]
        hidden = _SHOWN | DRAWN if drawn is not None else _SHOWN
        if rest := {key: value for key, value in parts.items() if key not in hidden}:
            record["x"] = [[key, self.texts.compose(as_text(value), fragments)] for key, value in rest.items()]
        record["k"] = [number for key in score.replies if (number := self._reply(run, key, fragments)) is not None]
        return record

    def _reply(self, run: int, key: str, fragments: Sequence[str]) -> int | None:
        """Return the number of an answer or embedding, which is written if it is new."""
        if (run, key) not in self._numbers:
            self._numbers[run, key] = self.first_reply + len(self.replies)
            loaded = self.report.runs[run]
            if (reply := loaded.replies.get(key)) is not None:
                self.replies.append(self._answer(key, reply, fragments))
            elif (vector := loaded.vectors.get(key)) is not None:
                self.replies.append(self._vector(key, vector, fragments))
            else:
                self.replies.append({"k": key, "lost": 1})
        return self._numbers[run, key]

    def _answer(self, key: str, reply: Json, fragments: Sequence[str]) -> Json:
        messages = [
            [str(turn[0]), *(self._part(part, fragments) for part in turn[1:])] for turn in reply.get("messages") or ()
        ]
        record: Json = {"k": key, "text": self.texts.compose(str(reply.get("text", "")), fragments), "msg": messages}
        return record | {name: reply[name] for name in _ANSWER_FIELDS if reply.get(name)}

    def _part(self, part: Any, fragments: Sequence[str]) -> int | str:
        """Encode part of a message: the number of a text, or the hash of an image."""
        if isinstance(part, Mapping):
            return str(part.get("image", ""))
        return self.texts.compose(str(part), fragments)

    def _vector(self, key: str, vector: Json, fragments: Sequence[str]) -> Json:
        text = self.texts.compose(str(vector.get("text", "")), fragments)
        return {"k": key, "embedded": text, "tokens": [vector.get("tokens_used"), vector.get("tokens_total")]}


def _values(entries: Sequence[ImageEntry], place: int) -> dict[int, float]:
    """Return a judge's values by the identity of the entry, with ties exactly equal, so that the page can compare them."""
    scores = ((id(entry), entry.scores.get(place)) for entry in entries)
    scored = {key: score.value for key, score in scores if score is not None and score.value is not None}
    equal = with_ties(np.array([*scored.values()], dtype=np.float64))
    return {key: float(f"{value:.11g}") for key, value in zip(scored, equal.tolist(), strict=True)}


def as_text(value: Any) -> str:
    """Return a text as it is, and anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def is_set(value: Any) -> bool:
    """Return whether a setting has a value."""
    return value not in (None, {}, [], "")


def setting(value: Any) -> str:
    """Format a value of a configuration in one line."""
    if isinstance(value, Mapping):
        return "; ".join(f"{key} {setting(member)}" for key, member in value.items() if is_set(member))
    if isinstance(value, list | tuple) and all(isinstance(member, str) for member in value):
        return ", ".join(value)
    return as_text(value)
