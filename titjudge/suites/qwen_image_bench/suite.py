"""Qwen-Image-Bench: 1,000 prompts, five pillars, 56 facets (arXiv 2605.28091; official code @b6b556b, the 56-facet one)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path

from titjudge.core import item_meta
from titjudge.core.errors import ConfigError, DataError, must_be
from titjudge.core.types import InvalidItem, Item, Items, Json, Score, Table, Values
from titjudge.data.tables import Rows
from titjudge.metrics.checklist import FACETS
from titjudge.suites.base import Columns, Results, Suite, SuiteInputs, check_generator, judged, number_repeats
from titjudge.suites.manifests import item_of
from titjudge.suites.patterns import PromptPlace, loose_place
from titjudge.suites.qwen_image_bench.dataset import (
    LEVELS,
    Levels,
    Metadata,
    Problem,
    coverage,
    find_metadata,
    id_text,
    judge_responses,
    levels,
    manifests,
    parse_facets,
    read_metadata,
    read_rows,
    summarise,
    tables,
    write_bench_scores,
    write_bench_xlsx,
    write_judged,
    write_scores_detail,
    write_scores_result,
)
from titjudge.suites.samples import sample_of

METRIC = "checklist"
_ROLES = {"prompt": "prompt", "prompt_id": "ID", "generator": "model", "sample": "sample"}
PROMPTS = ("prompt", "prompt_cn", "prompt_en")
"""Columns with the prompt that images are to be made from; the images of the published board were made from the Chinese."""
_HUB_IMAGES = "images/"
_IN_HUB = re.compile(rf"\w+_response_|[^=]+={_HUB_IMAGES}")
_TABLE = {"prompt", "image_path", "file_name"}
_OWN = {"file_name", "ID", "prompt", "image_path", "model", "generator"}


def aggregate_responses(responses: Path, metadata: Path, protocol: str = "official", facets: int = 56) -> Results:
    """Compute results from saved answers of a judge.

    Args:
        responses: csv, json or jsonl in one of three shapes: an answer a line (`case, ID, model, dim, response`), the wide
            rows of compute_scores.py (`<dim>_response_<model>`), or a `_judged` file of judge.py.
        metadata: `ID, dims_en` rows (bench_metadata.json).
        protocol: "official" (all facets that the judge marked count) or "strict", also called "paper-gated" (only the
            facets that the prompt activates).
        facets: Number of facets in the rubric: 56 (the paper's), or 38 (Stability AI's fork).

    Returns:
        `{"cases": {CASE: {"status", "level1", "level2", "level3"}}, "models": {NAME: {"overall", "level1", "level2",
        "level3"}}, "coverage": {NAME: {...}}, "problems": [...]}` and the tables. Status is ok, parse_failure, or invalid
        if the official code crashes; points are in [0, 100], None if nothing was marked.

    Raises:
        DataError: A file cannot be read or has nothing of use.
        ConfigError: The protocol is unknown.
    """
    activated = read_metadata(metadata)
    judged = judge_responses(responses, activated, protocol, facets)
    models = {model: summarise(levels(row) for row in rows.values()) for model, rows in judged.rows.items()}
    statuses = {
        model: {image: {pillar: verdict.status for pillar, verdict in row.items()} for image, row in rows.items()}
        for model, rows in judged.rows.items()
    }
    counts = {model: coverage(images, activated.facets) for model, images in statuses.items()}
    cases = {
        case: {"status": verdict.status, **{level: getattr(verdict, level) for level in LEVELS}}
        for case, verdict in judged.cases.items()
    }
    return {"cases": cases, **_result(models, counts, judged.problems)}, tables(models, counts, judged.problems)


def aggregate_run(items: Sequence[Item], scores: Sequence[Score]) -> Results:
    """Compute `models`, `coverage` and `problems` as `aggregate_responses` does from the scores of a run, and the tables."""
    summary = QwenImageBench().summary(items, scores)
    return _result(*summary), tables(*summary)


def _result(models: Json, counts: Json, problems: Sequence[Problem]) -> Json:
    named = sorted(problems, key=lambda problem: problem.name)
    return {"models": models, "coverage": counts, "problems": [*map(asdict, named)]}


class QwenImageBench(Suite):
    """Qwen-Image-Bench: five pillars, 23 sub-capabilities, 56 facets by checklist.

    It reads DATA/*.csv, *.json or *.jsonl with ID, prompt, image_path (and optionally model, dims_en), one file a generator
    unless there is a column `model` or `generator`; image paths are relative to the file and stay inside its folder. In
    the hub's file a column is a generator: those are judged whose images are there, with the Chinese prompt.

    Args:
        metadata: bench_metadata.json, if it is neither in the data folder nor in its `metadata/`.
        facets: 38 for the rubric of Stability AI's fork.
    """

    name = "qwen-image-bench"
    metrics = (METRIC,)
    TAKES_COLUMNS = True
    DEVIATIONS = (
        "the rubric is the paper's (56 facets, 23 sub-capabilities; code @b6b556b); `--suite-option facets=38` selects "
        "Stability AI's later fork, which asks about a pillar even if it has dropped every facet that the prompt activates",
        "answers on which the official code crashes (a JSON list or number, a score of Infinity) are counted as invalid "
        "and drop out like a parse failure; upstream the whole run ends",
        "images are sent as they are; judge.py squashes images with a side over 1,024 pixels to 1024 x 1024, aspect ratio "
        "ignored (`squash: 1024` of the judge in run.yaml does so, too)",
        "official: every facet that the judge marks counts, whether or not the prompt activates it, and names that the "
        "rubric does not have count as further sub-capabilities, as upstream",
        "strict (paper-gated): only the facets that the prompt activates enter the means (Eq. 8 to 10); marks are 0, 1, 2 "
        "or N/A, and anything else (true, 0.5, '01') is unread, not converted; a truncated answer is not read",
        "both: one call for each active pillar (3 to 5), as upstream; according to the paper, all 56 facets are judged",
        "facet names with a slash are kept whole in the metadata; upstream cuts them",
        "both: decoding asks for T=0, top_k 1, top_p 1, repetition penalty 1.05, seed 42, 4,096 tokens and thinking, as judge.py; "
        "what a model does not take (by our tables, its chat template, or the role's key `omit`) is neither sent nor recorded",
        "level 3 is aggregated and exported; upstream it is not",
        "the images of the published board were made from the Chinese prompts (prompt_cn); images from "
        "prompt_en cannot be compared with it",
        "Q-Judger and its 130,000 human labels were not run here; `export sft --human` makes such rows of your own annotators' marks",
        "`prompts make --recipe facets`: templates ours; facets are found in the English text, and the expert gate is `prompts review`",
        "no table by the 17 domains of the paper: the published metadata do not name them. `--by language` and `--by prompt_characters` "
        "(short: up to 235 or 70) give its other slices",
        "Figure 4's radar of 56 facets is a heat map here: a radar has at most 12 axes",
        "the benchmark is not refreshed, and has no video, unlike the plans of the paper",
        "a pillar without a usable answer (an empty one is asked for three times) drops out of the image's mean, as upstream, but "
        "is reported, and its facets count as questions without an answer",
    )

    def __init__(
        self, inputs: SuiteInputs = SuiteInputs(), *, metadata: Path | str | None = None, facets: int | str = 56
    ) -> None:
        super().__init__(inputs)
        if str(facets) not in map(str, FACETS):
            raise ConfigError(must_be("facets", " or ".join(map(str, FACETS)), facets))
        self._further: Json = {} if int(facets) == FACETS[0] else {item_meta.RUBRIC_FACETS.name: int(facets)}
        self._metadata = Path(metadata) if metadata else None

    def load(self, folder: Path) -> Items:
        """Yield items in the order of the files; `id` is `<generator>/<ID>`, `meta` has ID, facets and further columns.

        Further rows of an ID are further images, `<generator>/<ID> (2)` and so on: every row counts in the means, as
        upstream.

        Raises:
            DataError: There is no table of images, it cannot be read, or there are no metadata for it.
        """
        files = manifests(folder) if folder.is_dir() else [folder]
        if not files:
            raise DataError("no table of images found. Add a csv, json or jsonl with ID, prompt and image_path", folder)
        place = self._metadata or find_metadata(folder if folder.is_dir() else folder.parent)
        metadata = read_metadata(place) if place else None
        if all(_is_hub(file, self.inputs.columns) for file in files) and not any(
            True for file in files for _ in _rows(file, self.inputs.columns)
        ):
            hint = f"Run `suites fetch {self.name} --include 'images/GENERATOR/*'`, or give a table of other images"
            raise DataError(f"none of its images exists. {hint}", files[0])
        yield from number_repeats(
            replace(item, meta={**item.meta, **self._further}) if isinstance(item, Item) and self._further else item
            for file in files
            for item in _items(file, metadata, self.image_roots, self.inputs.columns)
        )

    def prompts(self, folder: Path) -> Iterator[PromptPlace]:
        """Yield the prompts of all tables with ID and prompt (prompt_cn, prompt_en), the metadata among them.

        Raises:
            DataError: No row has both, or a table cannot be read.
        """
        place = self._metadata or find_metadata(folder)
        seen: set[str] = set()
        for file in [*([place] if place else []), *manifests(folder)]:
            for _, row in read_rows(file):
                cells = {} if isinstance(row, DataError) else row
                text = next((str(cells[name]) for name in PROMPTS if cells.get(name)), "")
                name = id_text(cells.get("ID"))
                if text and name and name not in seen:
                    seen.add(name)
                    yield replace(loose_place(name, text), fields={"ID": name})
        if not seen:
            raise DataError(f"no table has rows with ID and prompt. Add one of {', '.join(PROMPTS)}", folder)

    def aggregate(self, items: Sequence[Item], scores: Sequence[Score]) -> list[Table]:
        """Make the tables of `aggregate_responses` from the scores of a run."""
        return tables(*self.summary(items, scores))

    def write_official(self, items: Sequence[Item], scores: Sequence[Score], folder: Path) -> int:
        """Write the files of judge.py and compute_scores.py; the .xlsx files only if openpyxl is installed.

        Raises:
            DataError: A generator's name is not a file name.
        """
        models, _, _ = self.summary(items, scores)
        for generator in models:
            check_generator(generator)
        folder.mkdir(parents=True, exist_ok=True)
        xlsx = find_spec("openpyxl") is not None
        for generator, result in models.items():
            images = [item for item in items if item.generator == generator]
            write_judged(images, scores, folder / f"{generator}_judged.jsonl")
            write_bench_scores(result, folder / f"{generator}_bench_scores.json")
            if xlsx:
                write_bench_xlsx(result, folder / f"{generator}_bench_scores.xlsx")
        write_scores_detail(models, folder / "scores_detail.json")
        if xlsx:
            write_scores_result(models, folder / "scores_result.xlsx")
        return (len(models) * 3 + 2) if xlsx else (len(models) * 2 + 1)

    def summary(self, items: Sequence[Item], scores: Sequence[Score]) -> tuple[Json, Json, list[Problem]]:
        """Compute `models` and `coverage` as in `aggregate_responses`, and list the failed pillars."""
        rows: dict[str, list[Levels]] = {item.generator: [] for item in items}
        statuses: dict[str, dict[tuple[str, str], dict[str, str]]] = {item.generator: {} for item in items}
        problems = []
        for item, score in judged(items, scores, METRIC):
            row = {level: score.parts.get(level, {}) for level in LEVELS}
            rows[item.generator].append(row)
            failed, invalid = score.parts.get("failed", {}), score.parts.get("invalid", ())
            statuses[item.generator][item.prompt_id, item.id] = dict.fromkeys(row["level1"], "ok") | {
                pillar: "invalid" if pillar in invalid else "parse_failure" for pillar in failed
            }
            problems += [Problem(f"{item.id}: {name}", str(why), item.generator) for name, why in failed.items()]
        facets = {item.prompt_id: item_meta.FACETS.get(item, {}) for item in items}
        counts = {name: coverage(images, facets) for name, images in statuses.items()}
        return {name: summarise(images) for name, images in rows.items()}, counts, problems


def _items(file: Path, metadata: Metadata | None, roots: Sequence[Path], columns: Columns) -> Items:
    """Yield the items of a table of images, with the facets that their prompts activate."""
    for number, row in _rows(file, columns):
        where = f"{file.name}:{number}"
        if isinstance(row, DataError):
            yield InvalidItem(where, str(row))
            continue
        row = {**row, "image_path": row.get("image_path") or row.get("file_name")}  # as `generate` lists images
        absent = [key for key in ("ID", "prompt", "image_path") if not str(row.get(key) or "").strip()]
        generator = str(row.get("model") or row.get("generator") or file.stem)
        if absent:
            yield InvalidItem(where, f"the row has no {' and no '.join(absent)}. Fill the cell", generator)
            continue
        prompt_id = id_text(row["ID"])
        name = f"{generator}/{prompt_id}"
        facets = _facets(row, metadata, prompt_id)
        if isinstance(facets, str):
            yield InvalidItem(name, facets, generator, prompt_id)
            continue
        meta = {str(key): value for key, value in row.items() if key not in _OWN} | {
            "ID": prompt_id,
            item_meta.FACETS.name: facets,
        }
        image, prompt = str(row["image_path"]), str(row["prompt"])
        yield item_of(image, prompt, generator, prompt_id, meta, file.parent, roots, sample_of(row), name=name)


def _rows(file: Path, columns: Columns) -> Rows:
    """Yield the rows with the columns that the user has named; one for each image if several columns have images."""
    if _is_hub(file, columns):
        yield from _hub_rows(file, columns)
        return
    images = columns.get("image", ())
    named = {_ROLES[role]: names[0] for role, names in columns.items() if role != "image"}
    for number, row in read_rows(file):
        if isinstance(row, DataError):
            yield number, row
            continue
        if absent := [name for name in named.values() if name not in row]:
            yield number, DataError(f"the key '{absent[0]}' is missing. Add it", file, number)
            continue
        row = {**row, **{role: row[name] for role, name in named.items()}}
        rest = {key: value for key, value in row.items() if key not in images}
        for name in images:
            yield number, {**rest, "image_path": row.get(name), **({"model": name} if len(images) > 1 else {})}
        if not images:
            yield number, row


def _is_hub(file: Path, columns: Columns) -> bool:
    """Return True if a file comes from the hub: its rows have two prompts, and no column of an image."""
    if "image" in columns:
        return False
    first = next((row for _, row in read_rows(file)), None)
    return isinstance(first, dict) and {"prompt_cn", "prompt_en"} <= first.keys() and not _TABLE & first.keys()


def _hub_rows(file: Path, columns: Columns) -> Rows:
    """Yield a row for each image whose folder is there, without the judge's replies in the file."""
    prompt = columns.get("prompt", PROMPTS[1:2])[0]
    is_there: dict[Path, bool] = {}
    for number, row in read_rows(file):
        if isinstance(row, DataError):
            yield number, row
            continue
        rest = {key: value for key, value in row.items() if not _IN_HUB.match(f"{key}={value}")}
        for key, value in row.items():
            if isinstance(value, str) and value.startswith(_HUB_IMAGES):
                folder = file.parent / Path(value).parent
                if is_there.setdefault(folder, folder.is_dir()):
                    yield number, {**rest, "prompt": row.get(prompt), "image_path": value, "model": key}


def _facets(row: Values, metadata: Metadata | None, prompt_id: str) -> dict[str, list[list[str]]] | str:
    """Return the activated facets of a row, or the reason why there are none."""
    if metadata is not None and prompt_id in metadata.facets:
        facets = metadata.facets[prompt_id]
    elif isinstance(row.get("dims_en"), str) and row["dims_en"].strip():
        facets, _ = parse_facets(row["dims_en"])
    elif metadata is None:
        return "no metadata: put bench_metadata.json into the data folder"
    else:
        return f"the metadata have no ID {prompt_id}. Add it"
    return facets or f"ID {prompt_id}: the metadata name no facet of the rubric"
