"""LPG-Bench: long prompts, 13 generators, human ranks with ties (TIT-Score paper, sections 3 and 5, A.11).

The paper has 200 prompts, all with ranks; the published data set has grown to 1,000, of which these 200 have ranks.

The layout of the official data set on the hub is documented nowhere. Two layouts of titjudge are read as well:

    DATA/prompts.jsonl   prompt_id, prompt (and theme: means are then also by theme)
    DATA/images.jsonl    image, prompt_id, generator          or   DATA/images/GENERATOR/PROMPT_ID[_SAMPLE].png
    DATA/ranks.jsonl or ranks.csv (1 is best, equal ranks are ties; either may be left out, then nothing is compared)
        prompt_id, generator, rank                            or   prompt_id and one column (key) for each generator
    DATA/pairs.jsonl or pairs.csv instead of ranks: prompt_id, image_a, image_b, preference (a, b or tie)

A copy of the data set from the hub is read as the suite `folder` reads images: as tables (parquet, `metadata.csv` of an
imagefolder), or as a file of prompts and a tree of images with generators and prompt ids in their paths.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from statistics import fmean

from titjudge.core import item_meta, registry
from titjudge.core.declarations import ESTIMATED, Declaration, Population, Unit
from titjudge.core.errors import DataError, must_be
from titjudge.core.files import read_jsonl, scan_jsonl
from titjudge.core.names import plain
from titjudge.core.types import InvalidItem, Item, Items, Note, Pair, Score, Table
from titjudge.data.opinions import RATERS, Opinions, column_of, number_reader, spread
from titjudge.data.tables import read_table
from titjudge.suites.base import Notes, SuiteInputs, benchmark_table
from titjudge.suites.folder import Folder
from titjudge.suites.image_tree import ImageTree
from titjudge.suites.pair_files import read_pairs
from titjudge.suites.patterns import PromptPlace, loose_place

FIRST_PLACES = Declaration(
    "lpg_first_places",
    "first places and means of each generator",
    Population.SAME_PROMPTS,
    Unit.PROMPT,
    ESTIMATED,
    "first places",
    by_column={"first_places": Population.COMMON_OF_ALL},
)

PAPER = {"prompts": 200, "generators": 13, "images": 2600}  # with human ranks
PUBLISHED = {"prompts": 1000, "generators": 13, "images": 13000}  # today
_THEMES = 12  # columns of a table
_NOBODY = "nobody"  # if no column names people
_NOT_RANKS = {"prompt_id", "prompt", "source"}


class LpgBench(Folder):
    """LPG-Bench: 200 prompts of over 250 words with human ranks of 13 generators (TIT-Score paper); 1,000 prompts in its repository.

    Agreement of metrics with the ranks is computed by `titjudge.stats`.

    Args:
        rank: The column of ranks.csv that has the ranks.
    """

    name = "lpg-bench"
    metrics = ("tit", "tit-llm", "lmm-score", "self-eval")
    AGGREGATES = True
    DEVIATIONS = (
        "how the data set lies on the hub is documented nowhere, and was not read for this: a copy is read as data sets usually are, "
        "or one of two layouts of this project (titjudge/suites/lpg_bench.py)",
        "human preferences are taken from ranks, as published; every pair of a prompt is formed, equal ranks are ties, and "
        "accuracy is over the pairs without a human tie (12,832 of 15,600 in the full set)",
        "people's mean ranks and first places are of the ranks as published (from pairs.jsonl: of the share of the other images beaten, "
        "ties at their mean rank); a metric's are of its scores within each prompt, ties at their mean rank",
        "a predicted tie counts as wrong: the paper does not state it, its Table 4 implies it; half credit is also shown",
        "SRCC, KRCC (tau-b) and nDCG are means over prompts; the paper names neither the tau variant nor the gain of nDCG. Our nDCG "
        "(gain: share of the other images beaten) is about .82 by chance and does not compare with the paper's, which is .73 there; "
        "`paper fit` (that gain squared) is .73 by chance and .84 with an accuracy of 67%: a fit to the paper's Table 2, not its definition",
        "significance thresholds are for scores exchanged within prompts, because pairs of a prompt share images; the paper's "
        "(A.2: mu + 1.645 sigma and mu + 3.09 sigma of independent pairs) are in results.json as `paper_threshold_05` and "
        "`paper_threshold_001`",
        "ranks that `label export` makes from votes: `rank` is Copeland's (wins and half the ties), `sort_rank` a merge sort of "
        "the decided pairs that begins with Copeland's order, equals together (A.11.3 names no algorithm); they differ only where "
        "the pairs go round in a circle or ties are not transitive; `--suite-option rank=sort_rank` compares with the latter",
        "several images of a generator for one prompt are all judged and enter its means; the first that is listed is the one "
        "that people ranked",
        "the embedder is a bundled MiniLM (512 tokens) by default; the paper's are Qwen3-Embedding-8B and -4B",
        "strict: the captioner runs at temperature 0; the released snippet uses the default sampling of the model. A "
        "description cut at 512 tokens has no score, and scores are not rounded to four decimals. official: as the snippet",
        "the paper prints the six classes of themes (A.6), but not the class of each of its prompts: means by theme need `theme`, one "
        "or several, in prompts.jsonl",
        "the learned metrics of Table 2 are plug-ins that load their published weights; the paper's values were not recomputed with them",
        "`prompts make --recipe six-block` follows 3.1 and A.3 with a template of ours; `prompts review` stands for the manual review",
        "tit-llm, lmm-score and self-eval: the paper prints neither template nor scale; both are ours",
    )

    def __init__(self, inputs: SuiteInputs = SuiteInputs(), *, rank: str = "rank") -> None:
        super().__init__(inputs)
        self._rank = rank

    def load(self, folder: Path) -> Items:
        """Yield items in the order of the files; `id` is the image path.

        Raises:
            DataError: The folder has no images, or is none that the suite `folder` reads.
        """
        own = self._is_own(folder) and (folder / "images").is_dir() and not (folder / "images.jsonl").is_file()
        for item in _tree(folder, self.image_roots) if own else super().load(folder):
            if isinstance(item, Item) and not item.generator:
                yield InvalidItem(item.id, "no generator is given. Name it in a column or folder", "", item.prompt_id)
            else:
                yield item

    def prompts(self, folder: Path) -> Iterator[PromptPlace | InvalidItem]:
        """Yield the prompts; images of prompts in prompts.jsonl belong into images/GENERATOR/.

        Raises:
            DataError: images.jsonl lists the images already, or an id is not a file name.
        """
        if (folder / "images.jsonl").is_file():
            raise DataError(
                "images.jsonl lists the images of this folder. Copy prompts.jsonl into a separate folder", folder
            )
        if not self._is_own(folder):
            yield from super().prompts(folder)
            return
        for line, record in read_jsonl(folder / "prompts.jsonl", ("prompt_id", "prompt")):
            place = loose_place(str(record["prompt_id"]), str(record["prompt"]))
            if PurePosixPath(place.image).stem != place.prompt_id:
                raise DataError(
                    f"the id '{place.prompt_id}' cannot be a file name. Change it", folder / "prompts.jsonl", line
                )
            yield replace(place, image=f"images/{place.image}")

    def pairs(self, folder: Path) -> list[Pair]:
        """Return human pairs, ties included, from the ranks (or the pairs) of the folder; none if it has neither.

        A ranked image that is not there is "GENERATOR/PROMPT_ID (no image)" in its pairs, so that they are counted.

        Raises:
            DataError: Ranks or pairs are malformed, both are there, or no rank belongs to any image.
        """
        files = [folder / f"{stem}{suffix}" for stem in ("ranks", "pairs") for suffix in (".jsonl", ".csv")]
        there = [file for file in files if file.is_file()]
        if len(there) > 1:
            raise DataError(f"the folder has {' and '.join(file.name for file in there)}. Remove all but one", folder)
        if not there:
            return []
        if there[0].stem == "pairs":
            return read_pairs(there[0], notes=self._notes)
        from titjudge.stats.ranking.rank_agreement import ranks_to_pairs

        images: dict[tuple[str, str], str] = {}
        for item in self.items(folder):
            if isinstance(item, Item):  # people ranked one image of each generator: the first
                images.setdefault((item.prompt_id, item.generator), item.id)
        return ranks_to_pairs(_with_images(read_ranks(there[0], self._rank, self._notes), images, there[0]))

    def _is_own(self, folder: Path) -> bool:
        """Return True if the folder has titjudge's layout: the first line of prompts.jsonl has its keys."""
        file = folder / "prompts.jsonl"
        if self.inputs.images or self.inputs.prompt_file or self.inputs.columns or not file.is_file():
            return False
        first = next(scan_jsonl(file, ("prompt_id", "prompt")), None)
        return first is not None and not isinstance(first[1], DataError)

    def aggregate(self, items: Sequence[Item], scores: Sequence[Score]) -> list[Table]:
        """Make a table of how much of the published set is here, and one by metric of first places and means by theme."""
        here = {
            "prompts": len({item.prompt_id for item in items}),
            "generators": len({item.generator for item in items}),
            "images": len(items),
        }
        notes = []
        if here == PUBLISHED:
            line = "The full set of today; people's ranks, and the paper's tables, are of 200 of its prompts."
            notes = [Note("lpg_published_set", line)]
        elif here != PAPER:
            line = "The paper's tables are of its 200 prompts with human ranks: these data are others."
            notes = [Note("lpg_other_set", line)]
        rows = tuple((name, here[name], PAPER[name], PUBLISHED[name]) for name in here)
        columns = ("what", "here", "in the paper, ranked", "published today")
        return [
            benchmark_table("LPG-Bench: the data judged", columns, rows, *notes, id="lpg_data"),
            *_first_places(items, scores),
        ]


def _first_places(items: Sequence[Item], scores: Sequence[Score]) -> Iterator[Table]:
    """Count for each metric the prompts on which a generator is first, beside its mean score on each theme."""
    import numpy as np

    from titjudge.stats.generators.slices import averages, first_places
    from titjudge.stats.scores.frame import Frame
    from titjudge.stats.scores.population import compared, scores_of_all

    by_key = {(score.item_id, score.metric): score for score in scores}
    frame = Frame({"": items}, {"": by_key})
    by = ["theme"] if any(item_meta.THEME.get(item) for item in items) else []
    for metric in frame.metrics:
        higher = registry.metric_of(metric).higher_is_better
        table = frame.table(metric, by, higher_is_better=higher)
        if not table.images.any():
            continue
        sign, themes = 1.0 if higher else -1.0, table.slices.get("theme", {})
        means = {"mean": table.means, **dict(list(themes.items())[:_THEMES])}
        columns = [(sign * averages(scores_of_all(by_prompt, table.unit))).tolist() for by_prompt in means.values()]
        among = compared(table.means, table.unit)
        firsts = first_places(np.where(among, table.means, np.nan)).tolist()
        rows = [
            (name, first if inside else None, *(None if math.isnan(value) else value for value in values))
            for name, inside, first, *values in zip(table.generators, among.tolist(), firsts, *columns, strict=True)
        ]
        rows.sort(key=lambda row: (row[1] is None, -(row[1] or 0), row[0]))
        notes = [Note("lpg_first_places", "First places: prompts on which no generator scores better.")]
        further = len(themes) - _THEMES
        if further > 0:
            notes.append(Note("more_themes", f"{further} more themes: `compare generators RUN --by theme` has all."))
        yield Table(
            f"LPG-Bench: first places, {metric}",
            ("generator", "first places", *means),
            tuple(rows),
            tuple(notes),
            declared=table.over(FIRST_PLACES),
            keys=("generator", "first_places", *means),
        )


def _tree(folder: Path, roots: Sequence[Path]) -> Items:
    """Yield images/GENERATOR/PROMPT_ID[_SAMPLE].<suffix>; a prompt without an image of a generator is an InvalidItem."""
    records = {str(row["prompt_id"]): row for _, row in read_jsonl(folder / "prompts.jsonl", ("prompt_id", "prompt"))}
    prompts = {name: str(row["prompt"]) for name, row in records.items()}
    texts = ("prompt_id", "prompt")
    meta = {name: {key: cell for key, cell in row.items() if key not in texts} for name, row in records.items()}
    pattern, *others = (f"images/{{generator}}/{{prompt_id}}{end}.{{suffix}}" for end in ("", "_{sample}"))
    missing: dict[str, dict[str, None]] = {}
    for item in ImageTree(pattern, "prompts.jsonl", prompts, others, meta=meta).items(folder, roots, {}):
        missing.setdefault(item.generator, dict.fromkeys(prompts)).pop(item.prompt_id, None)
        if isinstance(item, Item):
            item = replace(item, meta=item_meta.without(item, item_meta.SUFFIX))
        yield item
    for generator, names in missing.items():
        for name in names:
            yield InvalidItem(
                f"images/{generator}/{name}", "there is no image for this prompt. Add it", generator, name
            )


def read_ranks(file: Path, column: str = "rank", notes: Notes | None = None) -> dict[str, dict[str, float]]:
    """Read ranks by prompt id and generator (1 is best, equal numbers are ties), from either shape of the file.

    If a column such as `annotator` names people, the mean of their ranks counts.

    Args:
        file: The table.
        column: The column of the ranks, if another column names the generators.
        notes: Gets a line on ranks that were averaged.

    Raises:
        DataError: A rank is not a number of at least 1, one person gives it twice, or the file has none; names file and line.
    """
    said: Opinions[tuple[str, str], float] = Opinions(file)
    read_number = number_reader(file)
    for number, record in read_table(file, ("prompt_id",)):
        prompt = plain(str(record["prompt_id"]))
        rater = column_of(record, RATERS)
        who = _NOBODY if rater is None else "" if record[rater] is None else plain(str(record[rater]))
        if column in record and "generator" in record:
            row_ranks = {plain(str(record["generator"])): record[column]}
        elif column != "rank":
            raise DataError(f"unknown column '{column}' next to generator. Remove it, or name it rank", file, number)
        else:
            row_ranks = {plain(str(key)): value for key, value in record.items() if key not in {*_NOT_RANKS, rater}}
        for generator, value in row_ranks.items():
            if value is None or value == "":
                continue
            if (rank := read_number(value)) is None or rank < 1:
                raise DataError(must_be(f"the rank of {generator}", "a number of at least 1", value), file, number)
            if rater is None and (prompt, generator) in said.of:
                first = said.lines[(prompt, generator), _NOBODY]
                raise DataError(
                    f"a second rank of {generator} for prompt {prompt} (the first is in row {first}). Remove one",
                    file,
                    number,
                )
            said.add((prompt, generator), who, rank, number, f"{generator} for prompt {prompt}")
    if not said.of:
        raise DataError("the table has no ranks. Add prompt_id, generator and rank, or one column per generator", file)
    ranks: dict[str, dict[str, float]] = {}
    for (prompt, generator), by_person in said.of.items():
        ranks.setdefault(prompt, {})[generator] = fmean(by_person.values())
    if notes is not None:
        people = spread([len(by_person) for by_person in said.of.values()])
        line = f"{file}: ranks by {people} people for each image: their mean counts"
        averaged = [Note("ranks_averaged", line)] if people != "1" else []
        notes.update(dict.fromkeys([*said.notes("ranks"), *averaged]))
    return ranks


def _with_images(
    ranks: Mapping[str, Mapping[str, float]], images: Mapping[tuple[str, str], str], file: Path
) -> dict[str, dict[str, float]]:
    """Replace generators by the ids of their images.

    Raises:
        DataError: No rank belongs to an image, so the names do not fit.
    """
    if images and not any((prompt, name) in images for prompt, by_generator in ranks.items() for name in by_generator):
        prompt, by_generator = next((prompt, by_generator) for prompt, by_generator in ranks.items() if by_generator)
        example = f"{next(iter(by_generator))} for prompt {prompt}"
        raise DataError(
            f"no rank belongs to an image (for example {example}). Correct the prompt ids or the names", file
        )
    return {
        prompt: {images.get((prompt, name), f"{name}/{prompt} (no image)"): rank for name, rank in by_generator.items()}
        for prompt, by_generator in ranks.items()
    }
