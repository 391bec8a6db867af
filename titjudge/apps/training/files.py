"""Make training data from finished runs: conversations for supervised tuning, preferences, and splits by prompt."""

from __future__ import annotations

import hashlib
import importlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from titjudge.core.errors import ConfigError, DataError, MissingExtra, Unanswered, must_be
from titjudge.core.files import read_json, read_yaml, write_atomic, write_json, write_jsonl
from titjudge.core.grouping import grouped
from titjudge.core.prompts import Prompt, PromptLibrary
from titjudge.core.score_parts import facet_name
from titjudge.core.types import ImageFile, Item, Status
from titjudge.data import containers, images
from titjudge.data.tables import read_table
from titjudge.metrics.checklist import PILLAR, activated_facets, checklist_text, judge_answer, rubric_size
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.study.human_study import choose_metric, people_marks
from titjudge.stats.equality import same
from titjudge.stats.pairwise_accuracy import Values
from titjudge.stats.verdict.judged_runs import whole_frame
from titjudge.suites.manifests import TWO_IMAGES
from titjudge.suites.pair_files import read_pairs

Json = dict[str, Any]
FORMATS = ("ms-swift", "llama-factory", "trl")
_ROWS = 64  # pairs of images in memory at a time
_MARKS = {"0": 0, "1": 1, "2": 2, "n/a": "N/A"}  # people's values of a facet, and a judge's
_MEDIA_TAG = re.compile(r"<(?:image|video|audio)>", re.IGNORECASE)


def sft_lines(run: Path, metric: str | None, form: str, template: str = "") -> tuple[list[Json], list[str]]:
    """Make a conversation of every answer behind a score: the question, its image and the answer.

    Args:
        run: The run folder.
        metric: Name of the metric; needed if the run has several.
        form: One of `FORMATS`; llama-factory's is its `sharegpt` with roles and contents as messages.
        template: Take only answers to this prompt template.

    Returns:
        The lines (`messages`, `images`, `score`, `prompt_id`, `prompt`, `item`, `provenance`), and notes on those left out.

    Raises:
        ConfigError: no such metric. DataError: the folder is not a run, or no answer fits.
    """
    folder = RunFolder(run)
    manifest, frame = folder.manifest(), whole_frame(folder)
    chosen = choose_metric(frame.metrics, metric, run)
    replies = {record["key"]: record for record in folder.replies() if record["status"] == Status.OK}
    lines: list[Json] = []
    left_out: list[str] = []
    for _, item, score in frame.rows(chosen):
        if score.value is None:
            continue
        for key in score.replies:
            reply = replies.get(key)
            if reply is None or (template and reply["template"] != template):
                continue
            if problem := _problem(reply, item, form):
                left_out.append(f"{item.id}: {problem}")
                continue
            provenance = {
                "metric": chosen,
                "template": reply["template"],
                "sha256": manifest.prompts.get(reply["template"], ""),
                "model": f"{reply['provider']}/{reply['model']}".rstrip("/"),
                "answered_by": reply["model_version"],
            }
            lines.append(_line(reply, item, form, score.value, provenance))
    if not lines and left_out:
        raise DataError(
            f"none of {len(left_out)} answers can be used: {left_out[0]}. Choose another metric, or --framework", run
        )
    if not lines:
        raise DataError(
            f"no answer of {chosen}{f' to {template}' if template else ''} is stored. Choose another metric", run
        )
    return lines, left_out


def people_lines(run: Path, human: Path, form: str) -> tuple[list[Json], list[str]]:
    """Make a conversation of people's marks on the facets of each pillar of an image (Qwen-Image-Bench paper, 3.3).

    The question is the published one, and the answer has the facets on which people decided.

    Args:
        run: The run folder, with the images; its judge need not have been asked about facets.
        human: Marks of facets, as elements.csv of `label export`; its `votes` and `of` give the majority.
        form: One of `FORMATS`.

    Returns:
        The lines, as in `sft_lines`, with `score` (0 to 100) and `majority` (facet -> votes for the mark, and of how many); and notes
        on those left out.

    Raises:
        DataError: The file is malformed, or has no mark on a facet of an image of the run.
    """
    marks, frame = people_marks(human), whole_frame(RunFolder(run))
    template = PromptLibrary().get(PILLAR)
    provenance = {"metric": "checklist", "template": PILLAR, "sha256": template.sha256, "answered_by": "people"}
    lines: list[Json] = []
    left_out: list[str] = []
    for item in frame.items(str(run)):
        try:
            activated = activated_facets(item)
        except Unanswered as failure:
            left_out.append(f"{item.id}: {failure.reason}")
            continue
        for pillar, pairs in activated.items():
            decided = [
                (sub, facet, *mark)
                for sub, facet in pairs
                if (mark := marks.get((item.id, facet_name(pillar, sub, facet).casefold()))) and mark[0] in _MARKS
            ]
            if not decided:
                continue
            reply = _answered_by_people(template, item, pillar, decided)
            if problem := _problem(reply, item, form):
                left_out.append(f"{item.id}: {problem}")
                continue
            score = judge_answer(reply["text"], pillar, facets=rubric_size(item)).level1
            majority = {facet: [row.get("votes"), row.get("of")] for _, facet, _, row in decided}
            lines.append(_line(reply, item, form, score, provenance, majority=majority))
    if not lines:
        first = f" ({left_out[0]})" if left_out else ""
        raise DataError(
            f"no mark is of an image of {run} and a facet of the rubric{first}. Write the marks with `label export`",
            human,
        )
    return lines, left_out


def _answered_by_people(template: Prompt, item: Item, pillar: str, marks: Iterable[tuple[str, str, str, Any]]) -> Json:
    """Make a reply to the question on a pillar, as a run stores it, of people's marks: sub-capability, facet, value, row."""
    answer: dict[str, Json] = {}
    for sub, facet, value, _ in marks:
        answer.setdefault(sub, {})[facet] = {"score": _MARKS[value]}
    variables = {"prompt": item.prompt, "pillar": pillar, "checklist": checklist_text(pillar, rubric_size(item))}
    picture = ImageFile("", "", 0, 0, item.image or Path(), bytes)
    turns = [
        [turn.role, *(part if isinstance(part, str) else {} for part in turn.parts)]
        for turn in template.messages(variables, [picture])
    ]
    return {"messages": turns, "text": json.dumps(answer, indent=2), "template": PILLAR}


def _line(reply: Mapping[str, Any], item: Item, form: str, score: float | None, provenance: Json, **more: Json) -> Json:
    """Make a line of training data of an answer."""
    about = {"score": score, "prompt_id": item.prompt_id, "prompt": item.prompt, "item": item.id}
    return {**_conversation(reply, item, form), **about, **more, "provenance": provenance}


def _problem(reply: Mapping[str, Any], item: Item, form: str) -> str:
    """Return the reason why an answer cannot be a conversation of the format `form`; empty if it can."""
    images = sum(isinstance(part, Mapping) for _, *parts in reply["messages"] for part in parts)
    if images > 1 or (images and (item.image is None or containers.holder(item.image) is not None)):
        return f"its answer to {reply['template']} is about an image that is not a separate file"
    if form != "trl" and (tag := _media_tag(reply)):
        return f"{tag} occurs in a text, and {form} would look for a file"
    return ""


def _media_tag(reply: Mapping[str, Any]) -> str:
    """Find a tag in the texts of a conversation that a trainer takes for an image, a video or a sound; empty if there is none."""
    texts = [reply["text"], *(part for _, *parts in reply["messages"] for part in parts if isinstance(part, str))]
    match = _MEDIA_TAG.search("\n".join(texts))
    return match[0] if match else ""


def _conversation(reply: Mapping[str, Any], item: Item, form: str) -> Json:
    """Return `messages` and `images` of a conversation in the format `form`."""
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
    if form != "trl":  # the two others mark an image by a tag in the text
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
        metric: Name of the metric; needed if the run has several.
        margin: Least difference of the two scores.
        agree: Further metrics of the run that must order a pair the same way.
        people: A file of human pairs, which must order a pair the same way.

    Returns:
        The lines (`prompt`, `chosen`, `rejected`, `margin`, ...), and how many pairs were dropped, by reason.

    Raises:
        ConfigError: no such metric. DataError: the folder is not a run, or a line of the human pairs is malformed.
    """
    frame = whole_frame(RunFolder(run))
    chosen = choose_metric(frame.metrics, metric, run)
    values, *others = (frame.values(choose_metric(frame.metrics, name, run)) for name in (chosen, *agree))
    ordered = None if people is None else _people(people)
    value_of = {item.id: score.value for _, item, score in frame.rows(chosen)}
    scored = (item for _, item, score in frame.rows(chosen) if score.value is not None and item.image is not None)
    lines: list[Json] = []
    dropped = {"equal or below the margin": 0, "another metric disagrees": 0, "people do not say so": 0}
    for prompt_id, siblings in grouped(scored, frame.prompt).items():
        for first, second in combinations(siblings, 2):
            gap = _gap(values, first, second)
            better, worse = (first, second) if (gap or 0) > 0 else (second, first)
            if gap is None or abs(gap) < margin:
                dropped["equal or below the margin"] += 1
            elif any((_gap(other, better, worse) or 0) <= 0 for other in others):
                dropped["another metric disagrees"] += 1
            elif ordered is not None and (better.id, worse.id) not in ordered:
                dropped["people do not say so"] += 1
            else:
                lines.append(
                    {
                        "prompt_id": prompt_id,
                        "prompt": better.prompt,
                        "chosen": _file(better),
                        "rejected": _file(worse),
                        "margin": abs(gap),
                        "chosen_score": value_of[better.id],
                        "rejected_score": value_of[worse.id],
                        "chosen_generator": better.generator,
                        "rejected_generator": worse.generator,
                        "provenance": {"metric": chosen, "agree": list(agree), "people": people is not None},
                    }
                )
    return lines, dropped


def write_preferences(lines: Sequence[Json], form: str, output: Path) -> None:
    """Write pairs in a form that trainers read.

    Args:
        lines: Pairs, as `preferences` makes them.
        form: jsonl: the lines as they are. pick-a-pic: a parquet table with the columns of
            Pick-a-Pic (jpg_0, jpg_1, label_0, label_1, model_0, model_1, caption; the preferred image is the first or the second by
            a hash), as Diffusion-DPO's scripts read it. paths: a JSON list of prompt, path1 (preferred), path2, model1 and
            model2, as trainers of reward models read HPDv3.
        output: The file.

    Raises:
        MissingExtra: pyarrow is not installed, for pick-a-pic.
        DataError: An image cannot be read.
    """
    if form == "jsonl":
        write_jsonl(output, lines)
    elif form == "paths":
        keys = {"path1": "chosen", "path2": "rejected", "model1": "chosen_generator", "model2": "rejected_generator"}
        records = [{"prompt": line["prompt"], **{key: line[name] for key, name in keys.items()}} for line in lines]
        write_json(output, records, indent=1)
    else:
        _write_pick_a_pic(lines, output)


def _write_pick_a_pic(lines: Sequence[Json], output: Path) -> None:
    """Write pairs as a parquet table with the columns of Pick-a-Pic.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtra("pyarrow", "parquet", "writing a table as Pick-a-Pic has it") from error
    texts = ("caption", "model_0", "model_1", "prompt_id")
    schema = arrow.schema(
        [(name, arrow.binary()) for name in TWO_IMAGES]
        + [("label_0", arrow.float64()), ("label_1", arrow.float64()), *((name, arrow.string()) for name in texts)]
    )
    output.parent.mkdir(parents=True, exist_ok=True)
    with parquet.ParquetWriter(output, schema) as writer:
        for start in range(0, len(lines), _ROWS):
            rows = [_pick_a_pic_row(line) for line in lines[start : start + _ROWS]]
            writer.write_table(arrow.Table.from_pylist(rows, schema))


def _pick_a_pic_row(line: Json) -> Json:
    """Make a row of a pair, with its two images in an order that a hash decides."""
    sides = ["chosen", "rejected"]
    if _random_key(0, f"{line['chosen']} {line['rejected']}")[0] % 2:
        sides.reverse()
    row: Json = {"caption": line["prompt"], "prompt_id": line["prompt_id"]}
    for number, side in enumerate(sides):
        row |= {
            f"jpg_{number}": images.read(Path(line[side])),
            f"label_{number}": float(side == "chosen"),
            f"model_{number}": line[f"{side}_generator"],
        }
    return row


def _gap(values: Values, first: Item, second: Item) -> float | None:
    """Return how much better the first image is; None if a score is missing or both are equal."""
    a, b = values.get(first.id), values.get(second.id)
    return None if a is None or b is None or same(a, b) else a - b


def _people(file: Path) -> set[tuple[str, str]]:
    """Read (better, worse) image ids from a file of human pairs."""
    pairs = [pair for pair in read_pairs(file) if pair.preference != "tie"]
    return {(pair.a, pair.b) if pair.preference == "a" else (pair.b, pair.a) for pair in pairs}


def _file(item: Item) -> str:
    return str(Path(str(item.image)).resolve())


def split(
    table: Path, shares: Mapping[str, float], seed: int, out: Path, *, even_words: bool = False
) -> dict[str, int]:
    """Split a table by prompt: no prompt is in two parts, neither by its id nor by its text.

    Args:
        table: JSON lines, CSV or a JSON list with `prompt_id`, `prompt`, or both.
        shares: Share of the prompts of each part, adding up to 1.
        seed: Random seed.
        out: A folder for PART.jsonl, or for PART.json and dataset_info.json if the table is a JSON list.
        even_words: Deal the prompts of each word-count interval of LongT2IBench by the shares (paper, Evaluation
            Setting); versions of one prompt are in the interval of the longest.

    Returns:
        The number of lines of each part.

    Raises:
        ConfigError: the shares do not add up to 1, or there are fewer prompts than parts.
        DataError: a row has no prompt, or for `even_words` no text of one; names file and row.
    """
    from titjudge.suites.longt2ibench.statistics import interval

    if not same(sum(shares.values()), 1.0) or min(shares.values()) < 0:
        listing = ", ".join(f"{name} {share:g}" for name, share in shares.items())
        raise ConfigError(f"the shares must be at least 0 and add up to 1, not {listing}. Change them")
    rows, groups = _rows_by_prompt(table)
    order = sorted(groups, key=lambda names: _random_key(seed, min(names)))
    part_names = _parts(len(order), shares)
    if even_words:
        longest = _most_words(rows, table)
        order.sort(key=lambda names: interval(max(longest.get(name, 0) for name in names)))
        part_names = _in_turn(list(part_names))
    part_of = {name: part for names, part in zip(order, part_names, strict=True) for name in names}
    parts: dict[str, list[Json]] = {part: [] for part in shares}
    for _, name, record in rows:
        parts[part_of[name]].append(record)
    if is_json_list(table):
        write_llama_factory({out / f"{part}.json": records for part, records in parts.items()})
    else:
        for part, records in parts.items():
            write_jsonl(out / f"{part}.jsonl", records)
    return {part: len(records) for part, records in parts.items()}


def _rows_by_prompt(table: Path) -> tuple[list[tuple[int, str, Json]], list[set[str]]]:
    """Read the rows of a table, and group the names of their prompts.

    Returns:
        Number, a name of the prompt, and content of each row; and the names that stand for one prompt, in sets: its id, its
        text, and the text of the pair of its versions.

    Raises:
        DataError: A row has no prompt, or there are no rows; names file and row.
    """
    from scipy.cluster.hierarchy import DisjointSet

    rows: list[tuple[int, str, Json]] = []
    groups: Any = DisjointSet()
    for number, record in _json_list(table) if is_json_list(table) else read_table(table):
        names = [f"{key} {record[key]}" for key in ("prompt_id", "pair", "prompt") if record.get(key) not in (None, "")]
        if not names:
            keys = ", ".join(map(str, record)) or "none"
            raise DataError(
                f"the row has neither prompt_id nor prompt, only {keys}. Add one of the columns", table, number
            )
        for name in names:
            groups.add(name)
            groups.merge(names[0], name)
        rows.append((number, names[0], record))
    if not rows:
        raise DataError("the table has no rows. Add one row per prompt", table)
    return rows, groups.subsets()


def _most_words(rows: Sequence[tuple[int, str, Json]], table: Path) -> dict[str, int]:
    """Count the words of the longest prompt with each name.

    Raises:
        DataError: A row has no text of a prompt; names file and row.
    """
    from titjudge.suites.longt2ibench.statistics import words

    longest: dict[str, int] = {}
    for number, name, record in rows:
        if not isinstance(record.get("prompt"), str):
            raise DataError(must_be("'prompt'", "text", record.get("prompt")), table, number)
        longest[name] = max(words(record["prompt"]), longest.get(name, 0))
    return longest


def write_llama_factory(files: Mapping[Path, Sequence[Json]]) -> None:
    """Write each list of conversations as a JSON list, with the dataset_info.json that LLaMA-Factory reads."""
    about = read_yaml(Path(__file__).with_name("llama_factory.yaml"), "a form of conversations")
    for file, lines in files.items():
        write_json(file, lines, indent=1)
    info = {file.stem: {"file_name": file.name, **about} for file in files}
    write_atomic(next(iter(files)).with_name("dataset_info.json"), json.dumps(info, indent=1))


def is_json_list(file: Path) -> bool:
    """Return True if a file begins as a JSON list does."""
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return opened.read(256).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["


def _json_list(file: Path) -> Iterator[tuple[int, Json]]:
    for number, record in enumerate(read_json(file), 1):
        if not isinstance(record, dict):
            raise DataError(must_be("the line", "a JSON object", record), file, number)
        yield number, record


def _parts(count: int, shares: Mapping[str, float]) -> Iterator[str]:
    """Yield the part of each prompt: every part with a share gets at least one, and the largest part the rest."""
    largest = max(shares, key=lambda name: shares[name])
    counts = {name: max(1, round(count * share)) if share else 0 for name, share in shares.items()}
    counts[largest] = count - sum(number for name, number in counts.items() if name != largest)
    if counts[largest] < 1:
        raise ConfigError(f"{count} prompts are too few for {sum(map(bool, shares.values()))} parts. Give fewer shares")
    for name, number in counts.items():
        yield from [name] * number


def _in_turn(parts: Sequence[str]) -> Iterator[str]:
    """Yield the same parts so that each stretch of them has every part by its share."""
    totals, counts = Counter(parts), Counter[str]()
    for number in range(1, len(parts) + 1):
        behind = max(totals, key=lambda name: (totals[name] * number / len(parts) - counts[name], name))
        counts[behind] += 1
        yield behind


def _random_key(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed} {name}".encode()).digest()
