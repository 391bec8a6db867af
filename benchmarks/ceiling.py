"""What judges and single people reach on ImagenHub, from the ratings and stored answers of VIEScore.

    python -m benchmarks.ceiling CHECKOUT    # a copy of VIEScore's repository, which is not part of this project

Five generators x 197 prompts, rated by three people. Pairs are those on which the mean ratings differ; equal scores of a
judge, or a person, count half. Prints (1) each judge, (2) the plain mean of three judges, (3) one person against the mean of the
other two.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from titjudge.core.types import Pair
from titjudge.stats.bootstrap import Floats, Interval
from titjudge.stats.intervals import mean_intervals
from titjudge.stats.pairwise_accuracy import Values, pair_index, pairwise_accuracy

GENERATORS = ("DALLE2", "DeepFloydIF", "OpenJourney", "SD", "SDXL")
TASK = "ImagenHub_Text-Guided_IG"
THREE = ("gpt4o_1shot", "gpt4v_0shot", "gemini_0shot")
Image = tuple[str, str]  # generator, prompt


def marks(checkout: Path, task: str, sheet: str) -> dict[Image, list[list[float]]]:
    """Read the marks of three people, [what was asked for, quality] each, of every image that all of them have marked.

    Args:
        checkout: A copy of VIEScore's repository.
        task: Folder of the task, as `TASK`.
        sheet: What the files of the raters are called, before `_rater1.tsv`.
    """
    folder = checkout / "paper_implementation" / "_human_annotations" / "ImagenHub_human_eval_results" / task
    found: dict[Image, list[list[float]]] = {}
    for rater in (1, 2, 3):
        head, *rows = (folder / f"{sheet}_rater{rater}.tsv").read_text(encoding="utf-8").strip().splitlines()
        for row in rows:
            prompt, *cells = row.split("\t")
            for generator, cell in zip(head.split("\t")[1:], cells, strict=False):
                if cell.strip():
                    found.setdefault((generator.strip(), prompt), []).append([float(each) for each in json.loads(cell)])
    return {image: given for image, given in found.items() if len(given) == 3}


def ratings(checkout: Path) -> dict[Image, list[float]]:
    """Read how far each of three people found an image to be what the prompt says."""
    found = marks(checkout, TASK, "Text-To-Image")
    return {image: [each[0] for each in given] for image, given in found.items() if image[0] in GENERATORS}


def replies(checkout: Path) -> dict[str, dict[Image, float]]:
    """Read each judge's semantic score of each image; one that is missing or no number is left out."""
    found = {}
    for folder in sorted((checkout / "paper_implementation" / "_answers").glob("results_*")):
        scores: dict[Image, float] = {}
        for generator in GENERATORS:
            for file in (folder / TASK / generator / "SC.json", folder / TASK / f"{generator}.json"):
                if not file.is_file():
                    continue
                for prompt, told in json.loads(file.read_text(encoding="utf-8")).items():
                    value = told.get("score") if file.name == "SC.json" else next(iter(told.values()))
                    try:
                        scores[generator, prompt] = min(map(float, value if isinstance(value, list) else [value]))
                    except (TypeError, ValueError):
                        continue
        if scores:
            found[folder.name.removeprefix("results_")] = scores
    return found


def answers(checkout: Path, images: list[Image]) -> dict[str, Floats]:
    """Read each judge's semantic score of each image, standardised; one that is missing or no number has the mean, 0."""
    found = {}
    for name, scores in replies(checkout).items():
        column = np.array([scores.get(image, np.nan) for image in images])
        spread = np.nanstd(column) or 1.0
        found[name] = np.nan_to_num((column - np.nanmean(column)) / spread)
    return found


def pairs_of(images: Sequence[Image], truth: Floats, group: Callable[[str], str] = str) -> list[Pair]:
    """Pair the images of each prompt on which the truth differs; `group` names the unit of statistics of a prompt."""
    value = dict(zip(images, truth.tolist(), strict=True))
    by_prompt: dict[str, list[Image]] = {}
    for image in images:
        by_prompt.setdefault(image[1], []).append(image)
    return [
        Pair(group(prompt), "/".join(a), "/".join(b), "a" if value[a] > value[b] else "b")
        for prompt, some in by_prompt.items()
        for a, b in combinations(some, 2)
        if value[a] != value[b]
    ]


def named(images: Sequence[Image], column: Floats) -> Values:
    return {"/".join(image): float(value) for image, value in zip(images, column, strict=True)}


def accuracy(images: list[Image], truth: Floats, column: Floats) -> float:
    found = pairwise_accuracy(pairs_of(images, truth), named(images, column)).half_credit_accuracy
    assert found is not None
    return found


def against_two(
    images: Sequence[Image], people: Floats, columns: Sequence[Floats], group: Callable[[str], str] = str
) -> tuple[float, Interval | None]:
    """Agreement with two of three people minus the agreement of the third one with them, over each choice of the third.

    Args:
        people: ratings, shape (images, 3).
        columns: what stands in for each third person in turn.
        group: names the unit of statistics of a prompt.
    """
    prompts = sorted({group(prompt) for _, prompt in images})
    gained, counted = np.zeros(len(prompts)), np.zeros(len(prompts))
    for third in range(3):
        index = pair_index(pairs_of(images, np.delete(people, third, axis=1).mean(axis=1), group))
        ours, theirs = (
            index.predictions(named(images, each)) * index.preference for each in (columns[third], people[:, third])
        )
        at = np.array([prompts.index(prompt) for prompt in index.groups])[index.group]
        np.add.at(gained, at, (ours - theirs) / 2)
        np.add.at(counted, at, 1)
    return float(gained.sum() / counted.sum()), mean_intervals(gained, counted)[0]


def reached(checkout: Path) -> dict[str, float]:
    """Compute what the module says, by name."""
    rated = ratings(checkout)
    images = sorted(rated)
    people = np.array([rated[image] for image in images])
    truth = people.mean(axis=1)
    judges = answers(checkout, images)
    found = {f"judge {name}": accuracy(images, truth, column) for name, column in judges.items()}
    found["best judge"] = max(found.values())
    found["mean of three judges"] = accuracy(images, truth, np.mean([judges[name] for name in THREE], axis=0))
    for k in range(3):
        found[f"person {k + 1}"] = accuracy(images, np.delete(people, k, axis=1).mean(axis=1), people[:, k])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    for name, value in reached(parser.parse_args().checkout).items():
        print(f"{name:<70} {value:.3f}")


if __name__ == "__main__":
    main()
