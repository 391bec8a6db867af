"""The forms of questions by name, the content of a store in its form, and `label export`, which writes what it decides.

Pairs:

    pairs.jsonl, pairs.csv   decided pairs: prompt_id, image_a, image_b, preference, votes, rule
    open.csv                 pairs without a decision, and why
    experts.csv              every vote of an expert
    experts.jsonl            open pairs: fill in `verdicts`, then export again with `experts`
    ranks.csv                images of a prompt from best to worst: rank by Copeland's count, sort_rank by sorting (A.11.3)
    battles.jsonl            every vote on a pair in the format of arenas: model_a, model_b, winner
    votes.csv                every vote on a pair that was not taken back, with its note, for `judges agreement --single-votes`
    votes.jsonl              every vote, also those taken back

Marks:

    marks.jsonl, marks.csv   every mark that was not taken back: image, element, value, annotator
    experts.csv              every mark of an expert
    discarded.csv            images that most annotators discarded, with their reasons; their elements are in no other file
    elements.csv             decided elements: image, element, value (for `judges elements RUN --human`)
    open.csv                 elements without a majority, or with an undecided majority, and why
    ratings.csv              mode rating: the mean rating of each pillar by image, instead of the two files above

Ranks: the files of pairs, and

    rankings.csv             every rank: prompt_id, image, generator, annotator, rank (1 is best)

All: labels.json, with agreement, annotators, counts.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from titjudge.apps.label.element_form import Elements
from titjudge.apps.label.elements import MODES as ELEMENT_MODES
from titjudge.apps.label.pair_form import PAIRS, Pairs
from titjudge.apps.label.questions import RANK, Export, ExportRules, Labelling
from titjudge.apps.label.rank_form import Ranks
from titjudge.apps.label.store import Store
from titjudge.core.files import write_atomic
from titjudge.stats.people.votes import PANEL

Form = Pairs | Elements | Ranks

__all__ = ["collect", "form_of", "form_of_store", "mode_of"]


def form_of(mode: str, plan: str | None = None, *, both_bad: bool = True) -> Form:
    """Make the form of a mode; `plan` and `both_bad` are for pairs."""
    if mode == RANK:
        return Ranks()
    return Pairs(plan or "all", both_bad=both_bad) if mode == PAIRS else Elements(mode)


def mode_of(plan: str) -> str:
    """Return the mode of a store that was begun with a plan; `pairs` for the plans of pairs."""
    return plan if plan in (*ELEMENT_MODES, RANK) else PAIRS


def form_of_store(store: Store) -> Form:
    """Make the form of the questions in a store, with its checks and images."""
    plan = store.setting("plan") or "all"
    form = form_of(mode_of(plan), plan, both_bad=store.setting("both_bad") != str(False))
    store.inform(form)
    return form


def collect(path: Path) -> Labelling:
    """Read a store.

    Raises:
        UserError: There is none.
    """
    with closing(Store(path, create=False)) as store:
        return Labelling(
            path=path,
            form=form_of_store(store),
            seed=int(store.setting("seed") or 0),
            annotators=int(store.setting("annotators") or 0),
            panel=int(store.setting("experts") or PANEL),
            enough=int(store.setting("votes") or 0),
            least=float(store.setting("gold_least") or 0),
            prompts=store.prompts(),
            answers=store.answers(ended=True),
        )


def export_labels(
    store: Path,
    out: Path,
    *,
    experts: Path | None = None,
    annotators: int | None = None,
    gold: Path | None = None,
    least: float | None = None,
) -> Export:
    """Turn answers into decisions and agreement, and write them into the folder `out`.

    Args:
        store: The SQLite file of the answers; it is only read.
        out: The folder; existing files of these names are replaced, but verdicts in `out/experts.jsonl` are kept.
        experts: An `experts.jsonl` in which the panel has filled in `verdicts` (a, b, tie or both_bad, three for each pair).
        gold: For marks: elements with a known value (image, element, value), to measure how often each annotator is right.
        annotators: How many votes a pair should have; None: as many as links (or voters, if more) without excluded
            annotators, and three for marks.
        least: Leave out annotators whose share of right checks is certainly lower; None: as served.

    Returns:
        The written files, and tables to print. Alpha is Krippendorff's nominal alpha with a 95% interval over
        pairs; None with a reason if it is undefined.

    Raises:
        UserError: There is no such store, or it has no vote.
        OSError: `out` cannot be written.
        DataError: The experts' file is malformed; names file and line.
    """
    labelling = collect(store)
    if least is not None:
        labelling = replace(labelling, least=least)
    export = labelling.form.export(labelling, ExportRules(out, annotators, experts, gold))
    content = json.dumps(export.result, indent=2, ensure_ascii=False)
    export = replace(export, files=export.files | {"labels.json": content})
    for name, text in export.files.items():
        write_atomic(out / name, text)
    return export
