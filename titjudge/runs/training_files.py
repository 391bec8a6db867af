"""Finished runs as training data: conversations for supervised tuning, preferences, and splits by prompt."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from titjudge.core import containers, registry
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.files import read_json, read_table, write_atomic
from titjudge.core.types import Item, Score, Status
from titjudge.runs.human_study import choose
from titjudge.runs.run_folder import RunFolder
from titjudge.stats.equality import same
from titjudge.suites.folder import read_pairs

Json = dict[str, Any]
FORMATS = ("ms-swift", "llama-factory", "trl")


def sft_lines(run: Path, metric: str | None, form: str, template: str = "") -> tuple[list[Json], list[str]]:
    """Make a conversation of every answer that a score rests on: what was asked about which image, and the answer.

    Args:
        run: The run folder.
        metric: Whose scores; needed where the run has several.
        form: One of `FORMATS`; llama-factory's is its `sharegpt` with roles and contents as messages.
        template: Only answers to this prompt template.

    Returns:
        The lines (`messages`, `images`, `score`, `prompt_id`, `prompt`, `item`, `provenance`), and what was left out, in words.

    Raises:
        ConfigError: no such metric. DataError: the folder is no run, or no answer fits.
    """
    folder = RunFolder(run)
    manifest, items = folder.manifest(), _items(folder)
    scores, chosen = _scores(folder.scores(), metric, folder)
    replies = {record["key"]: record for record in folder.replies() if record["status"] == Status.OK}
    lines: list[Json] = []
    left: list[str] = []
    for score in scores.values():
        item = items.get(score.item_id)
        if item is None or score.value is None:
            continue
        for key in score.replies:
            reply = replies.get(key)
            if reply is None or (template and reply["template"] != template):
                continue
            shown = sum(isinstance(part, Mapping) for _, *parts in reply["messages"] for part in parts)
            if shown > 1 or (shown and (item.image is None or containers.holder(item.image) is not None)):
                left.append(
                    f"{item.id}: its answer to {reply['template']} is about an image that is no file of its own"
                )
                continue
            lines.append(
                {
                    **_conversation(reply, item, form),
                    "score": score.value,
                    "prompt_id": item.prompt_id,
                    "prompt": item.prompt,
                    "item": item.id,
                    "provenance": {
                        "metric": chosen,
                        "template": reply["template"],
                        "sha256": manifest.prompts.get(reply["template"], ""),
                        "model": f"{reply['provider']}/{reply['model']}".rstrip("/"),
                        "answered_by": reply["model_version"],
                    },
                }
            )
    if not lines:
        raise DataError(f"no answer behind a score of {chosen}{f' to {template}' if template else ''}", run)
    return lines, left


def _conversation(reply: Mapping[str, Any], item: Item, form: str) -> Json:
    messages: list[Json] = []
    images = []
    for role, *parts in reply["messages"]:
        content: list[Json] = []
        for part in parts:
            if isinstance(part, str):
                content.append({"type": "text", "text": part})
            else:
                content.append({"type": "image"})
                images.append(_file(item))
        messages.append({"role": role, "content": content})
    messages.append({"role": "assistant", "content": [{"type": "text", "text": reply["text"]}]})
    if form != "trl":  # both want the place of an image as a tag in the text
        for message in messages:
            message["content"] = "\n".join(
                "<image>" if part["type"] == "image" else part["text"] for part in message["content"]
            )
    return {"messages": messages, "images": images}


def preferences(
    run: Path, metric: str | None, *, margin: float = 0.0, agree: Sequence[str] = (), people: Path | None = None
) -> tuple[list[Json], Json]:
    """Make pairs of images of one prompt, the better one chosen.

    Args:
        run: The run folder.
        metric: Whose scores; needed where the run has several.
        margin: How far apart the two scores are at least.
        agree: Further metrics of the run that must order a pair the same way.
        people: A file of people's pairs: only those that people have ordered the same way.

    Returns:
        The lines (`prompt`, `chosen`, `rejected`, `margin`, ...), and how many pairs were dropped, by reason.

    Raises:
        ConfigError: no such metric. DataError: the folder is no run, or a line of people's pairs is malformed.
    """
    folder = RunFolder(run)
    items = _items(folder)
    stored = folder.scores()
    scores, chosen = _scores(stored, metric, folder)
    others = {name: _scores(stored, name, folder)[0] for name in agree}
    up = {name: bool(registry.metric_of(name).higher_is_better) for name in (chosen, *agree)}
    ordered = None if people is None else _people(people)
    by_prompt: dict[str, list[Item]] = defaultdict(list)
    for item in items.values():
        score = scores.get(item.id)
        if score is not None and score.value is not None and item.image is not None:
            by_prompt[item.prompt_id].append(item)
    lines: list[Json] = []
    dropped = {"equal or below the margin": 0, "another metric disagrees": 0, "people do not say so": 0}
    for prompt_id, group in by_prompt.items():
        for first, second in combinations(group, 2):
            gap = _gap(scores, first, second, up[chosen])
            if gap is None or abs(gap) < margin:
                dropped["equal or below the margin"] += 1
                continue
            better, worse = (first, second) if gap > 0 else (second, first)
            if any((_gap(of, better, worse, up[name]) or 0) <= 0 for name, of in others.items()):
                dropped["another metric disagrees"] += 1
                continue
            if ordered is not None and (better.id, worse.id) not in ordered:
                dropped["people do not say so"] += 1
                continue
            lines.append(
                {
                    "prompt_id": prompt_id,
                    "prompt": better.prompt,
                    "chosen": _file(better),
                    "rejected": _file(worse),
                    "margin": abs(gap),
                    "chosen_score": scores[better.id].value,
                    "rejected_score": scores[worse.id].value,
                    "chosen_generator": better.generator,
                    "rejected_generator": worse.generator,
                    "provenance": {"metric": chosen, "agree": list(agree), "people": people is not None},
                }
            )
    return lines, dropped


def _gap(scores: Mapping[str, Score], first: Item, second: Item, up: bool) -> float | None:
    """How much better the first is; None where one has no score or both are equal."""
    one, two = scores.get(first.id), scores.get(second.id)
    if one is None or two is None or one.value is None or two.value is None or same(one.value, two.value):
        return None
    return one.value - two.value if up else two.value - one.value


def _people(file: Path) -> set[tuple[str, str]]:
    """Read the ids of the better and the worse image of every pair that people have ordered."""
    pairs = [pair for pair in read_pairs(file) if pair.preference != "tie"]
    return {(pair.a, pair.b) if pair.preference == "a" else (pair.b, pair.a) for pair in pairs}


def _scores(
    stored: Mapping[tuple[str, str], Score], metric: str | None, folder: RunFolder
) -> tuple[dict[str, Score], str]:
    chosen = choose({name for _, name in stored}, metric, folder)
    return {item: score for (item, name), score in stored.items() if name == chosen}, chosen


def _items(folder: RunFolder) -> dict[str, Item]:
    return {item.id: item for item in folder.judged()}


def _file(item: Item) -> str:
    return str(Path(str(item.image)).resolve())


def split(table: Path, shares: Mapping[str, float], seed: int, out: Path) -> dict[str, int]:
    """Split a table of lines by prompt: no prompt stands in two parts, neither by its id nor by its text.

    Args:
        table: JSON lines, CSV or a JSON list with `prompt_id`, `prompt`, or both.
        shares: Share of the prompts of each part, adding up to 1.
        seed: Deals the prompts otherwise.
        out: A folder for PART.jsonl, or PART.json where the table is a JSON list.

    A JSON list, as `export sft --format llama-factory` writes it, is split into such lists, with their dataset_info.json.

    Returns:
        How many lines each part has.

    Raises:
        ConfigError: the shares do not add up to 1, or there are fewer prompts than parts. DataError: a row has no prompt; names file and row.
    """
    from scipy.cluster.hierarchy import DisjointSet

    if not same(sum(shares.values()), 1.0) or min(shares.values()) < 0:
        said = ", ".join(f"{name} {share:g}" for name, share in shares.items())
        raise ConfigError(f"the shares are 0 or more and add up to 1, not {said}")
    rows: list[tuple[str, Json]] = []
    groups: Any = DisjointSet()
    listed = is_json_list(table)
    for number, record in _listed(table) if listed else read_table(table):
        names = [f"{key} {record[key]}" for key in ("prompt_id", "pair", "prompt") if record.get(key) not in (None, "")]
        if not names:
            there = ", ".join(map(str, record)) or "none"
            raise DataError(f"neither prompt_id nor prompt (there are: {there})", table, number)
        for name in names:
            groups.add(name)
            groups.merge(names[0], name)
        rows.append((names[0], record))
    if not rows:
        raise DataError("no rows", table)
    order = sorted(groups.subsets(), key=lambda names: _lot(seed, min(names)))
    parts = zip(order, _parts(len(order), shares), strict=True)
    part_of = {name: part for names, part in parts for name in names}
    dealt: dict[str, list[Json]] = {name: [] for name in shares}
    for name, record in rows:
        dealt[part_of[name]].append(record)
    if listed:
        write_llama_factory({out / f"{name}.json": of for name, of in dealt.items()})
    else:
        for name, of in dealt.items():
            write_lines(of, out / f"{name}.jsonl")
    return {name: len(of) for name, of in dealt.items()}


def write_lines(lines: Sequence[Json], out: Path) -> None:
    """Write records as JSON lines."""
    write_atomic(out, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def write_llama_factory(files: Mapping[Path, Sequence[Json]]) -> None:
    """Write each list of conversations as a JSON list, and beside them the dataset_info.json that LLaMA-Factory reads."""
    tags = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}
    about = {
        "formatting": "sharegpt",
        "columns": {"messages": "messages", "images": "images"},
        "tags": {**tags, "system_tag": "system"},
    }
    for file, lines in files.items():
        write_atomic(file, json.dumps(lines, ensure_ascii=False, indent=1))
    info = {file.stem: {"file_name": file.name, **about} for file in files}
    write_atomic(next(iter(files)).with_name("dataset_info.json"), json.dumps(info, indent=1))


def is_json_list(file: Path) -> bool:
    """Tell whether a file begins as a JSON list does."""
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return opened.read(256).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["


def _listed(file: Path) -> Iterator[tuple[int, Json]]:
    for number, record in enumerate(read_json(file), 1):
        if not isinstance(record, dict):
            raise DataError("not an object", file, number)
        yield number, record


def _parts(count: int, shares: Mapping[str, float]) -> Iterator[str]:
    """Name the part of each prompt: every part with a share gets one at least, and the largest part what is left."""
    largest = max(shares, key=lambda name: shares[name])
    counts = {name: max(1, round(count * share)) if share else 0 for name, share in shares.items()}
    counts[largest] = count - sum(number for name, number in counts.items() if name != largest)
    if counts[largest] < 1:
        raise ConfigError(f"{count} prompts are too few for {sum(map(bool, shares.values()))} parts")
    for name, number in counts.items():
        yield from [name] * number


def _lot(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed} {name}".encode()).digest()
