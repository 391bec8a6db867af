"""Edits of which it is known what was done: a source, an instruction, and five results that are true by construction.

    done        the change in the instruction, and nothing else
    not_done    the source itself
    elsewhere   a change of the same kind to another thing
    collateral  the change in the instruction, and one further change
    over_edit   the change in the instruction, and most of the rest changed as well

DIR/metadata.jsonl, pairs.jsonl, images/, sources/, README.md   as `--suite folder` reads them; the generator of a result is
its outcome, and each pair prefers what is done to another outcome
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from titjudge.apps.scenes.annotation import marks, pair_records
from titjudge.apps.scenes.composition import alike_behind, compose, graph_of
from titjudge.apps.scenes.errors import ATTRIBUTE, COUNT, MISSING, Edit, plant, spoil, subtle, tidy
from titjudge.apps.scenes.generate import (
    Look,
    Render,
    RenderProgress,
    open_folder,
    save_image,
)
from titjudge.apps.scenes.scene import Error, Options, Scene
from titjudge.core.errors import DataError
from titjudge.core.files import read_jsonl, write_atomic, write_jsonl
from titjudge.runs.folder.run_folder import FolderLock
from titjudge.suites.known_answer.suite import DONE, OUTCOMES

VERSION = "2"  # raised when the same seed makes other edits
_KINDS = (ATTRIBUTE, MISSING, COUNT)
_TRIES = 400
_OVER = (0.5, 0.7)  # share of the elements of the source that are another after over-editing
_README = """\
# Known-answer edits

{edits} edits, five results each, made by

    python cli.py probe images --edits --scenes {edits} --seed {seed} --size {size} --rays {samples} --out DIR

Source and results are renderings of one still life (Mitsuba 3), so that what was done is known: `done` is what the
instruction says and nothing else, `not_done` the source itself, `elsewhere` a change of the same kind to another thing,
`collateral` what the instruction says and one further change, `over_edit` that and most of the rest changed too.

pairs.jsonl prefers `done` to each of the others. The trust card of a judge says which of them it tells apart:

    python cli.py probe --data DIR --metric viescore-edit --judge PROVIDER/MODEL

The generator of a result is its outcome, so that a comparison of generators shows their scores:

    python cli.py judge --data DIR --metric viescore-edit --metric edit-diff --judge PROVIDER/MODEL --captioner PROVIDER/MODEL
    python cli.py compare generators RUN
"""


@dataclass(frozen=True, slots=True)
class EditPlan:
    """An edit and its results.

    Attributes:
        edit_type: The type whose rubric of ImgEdit-Bench fits: adjust or remove.
        results: The scene shown, by outcome; `not_done` is the source.
    """

    edit_id: str
    instruction: str
    edit_type: str
    error: Error
    results: dict[str, Scene]


def plan_edit(seed: int, number: int, look: Look) -> EditPlan:
    """Draw the edit of that number from the seed until `look` finds nothing wrong with any result.

    Raises:
        DataError: No draw of a bounded number fits.
    """
    kind = _KINDS[number % len(_KINDS)]
    for attempt in range(_TRIES):
        rng = Random(f"titjudge edits {VERSION}/{seed}/{number}/{attempt}")
        source = compose(rng, with_sign=rng.random() < 0.5)
        drawn = None if alike_behind(source.things) else _draw(source, kind, rng)
        if drawn is None:
            continue
        error, results = drawn
        graph = graph_of(source, rng)
        if not any(look(scene, graph) for scene in results.values()):
            edit_type = "remove" if kind == MISSING else "adjust"
            return EditPlan(f"edit_{seed}_{number + 1:04d}", instruction_of(error), edit_type, error, results)
    raise DataError(f"edit {number} of seed {seed} cannot show all objects. Use another --seed")


def _draw(source: Scene, kind: str, rng: Random) -> tuple[Error, dict[str, Scene]] | None:
    """Draw an edit of a kind with its results; None if any of them is impossible."""
    graph = graph_of(source, rng)
    marking = marks(graph, source)
    if marking is None or marking.wrong:
        return None
    done = _small_change(source, source, kind, set(), rng)
    if done is None:
        return None
    target, error = done
    name = error.element[0]
    elsewhere = _small_change(source, source, kind, {name}, rng)
    collateral = _small_change(source, target, rng.choice(_KINDS), {name}, rng)

    def spares(edit: Edit) -> bool:
        return name not in changed(target, edit[0]) and tidy(source, edit[0])

    over = spoil(source, target, graph, _OVER, _KINDS, rng, spares)
    if elsewhere is None or collateral is None or over is None:
        return None
    return error, dict(zip(OUTCOMES, (target, source, elsewhere[0], collateral[0], over[0]), strict=True))


def _small_change(source: Scene, scene: Scene, kind: str, touched: set[str], rng: Random) -> Edit | None:
    """Draw a change of one of the things on the table that is not touched yet; None if there is none."""

    def fits(edit: Edit) -> bool:
        name = edit[1].element[0]
        return subtle(edit[1]) and tidy(source, edit[0]) and changed(scene, edit[0]) == {name} and name not in touched

    return plant(source, scene, kind, rng, fits)


def changed(before: Scene, after: Scene) -> set[str]:
    """Return the names of the things that differ between two scenes."""
    names = {thing.name for scene in (before, after) for thing in scene.things}
    return {name for name in names if before.get(name) != after.get(name)}


def instruction_of(error: Error) -> str:
    """Write the instruction that a planted change follows."""
    name = error.element[0]
    if error.kind == MISSING:
        return f"Remove the {name}."
    if error.kind == COUNT:
        return f"Change the number of {name} from {error.asked} to {error.shown}."
    return f"Change the {error.element[1]} of the {name} from {error.asked} to {error.shown}."


def make_edits(
    out: Path, edits: int, options: Options, *, look: Look, render: Render, watch: Callable[[RenderProgress], None]
) -> Path:
    """Make a folder of known edits, or the rest of it; an interruption loses one edit.

    Raises:
        UserError: The folder has something else, was made with other options, or is being made by another process.
        DataError: No edit fits.
    """
    open_folder(out, options)
    with closing(FolderLock(out / ".made")):
        file = out / "metadata.jsonl"
        lines = [line for _, line in read_jsonl(file)] if file.is_file() else []
        ready = {str(line["prompt_id"]) for line in lines}
        fresh = 0
        for number in range(edits):
            plan = plan_edit(options.seed, number, look)
            if plan.edit_id in ready:
                continue
            lines += _lines(plan, out, render)
            write_jsonl(file, lines)
            fresh += len(OUTCOMES)
            watch(RenderProgress((number + 1) * len(OUTCOMES), edits * len(OUTCOMES), fresh))
        write_jsonl(out / "pairs.jsonl", _pairs(lines, options.seed))
        write_atomic(out / "README.md", _README.format(edits=edits, **asdict(options)))
    return out


def _lines(plan: EditPlan, out: Path, render: Render) -> Iterator[dict[str, Any]]:
    """Render the results of an edit, and yield their lines."""
    images = {outcome: save_image(out, render(scene)) for outcome, scene in plan.results.items()}
    source = f"sources/{plan.edit_id}.jpg"  # a separate file: no result is the same file as its source
    write_atomic(out / source, (out / images["not_done"]).read_bytes())
    for outcome, image in images.items():
        yield {
            "image": image,
            "source_image": source,
            "instruction": plan.instruction,
            "prompt_id": plan.edit_id,
            "generator": outcome,
            "edit_type": plan.edit_type,
            "change": plan.error.to_json(),
        }


def _pairs(lines: Sequence[Mapping[str, Any]], seed: int) -> Iterator[dict[str, Any]]:
    """Yield the lines of pairs.jsonl: outcome `done` is preferred to each other outcome; the others are not compared."""
    rng = Random(f"titjudge pairs of edits {VERSION}/{seed}")
    done = {line["prompt_id"]: line["image"] for line in lines if line["generator"] == DONE}
    for line in lines:
        if line["generator"] != DONE:
            better, worse = (done[line["prompt_id"]], 1.0), (line["image"], 0.0)
            yield from pair_records(line["prompt_id"], [better, worse], rng)
