"""`label export`: write what a store of answers decides.

Pairs:

    pairs.jsonl, pairs.csv   decided pairs: prompt_id, image_a, image_b, preference, votes, rule
    open.csv                 pairs without a decision, and why
    experts.csv              every vote of an expert
    experts.jsonl            open pairs: fill in `verdicts`, then export again with `experts`
    ranks.csv                images of a prompt from best to worst: rank by Copeland's count, sort_rank by sorting (A.11.3)
    battles.jsonl            every vote on a pair in the format of arenas: model_a, model_b, winner
    votes.csv                every vote on a pair that was not taken back, with its note, for `compare --votes`
    votes.jsonl              every vote, also those taken back

Marks:

    marks.jsonl, marks.csv   every mark that was not taken back: image, element, value, annotator
    experts.csv              every mark of an expert
    elements.csv             decided elements: image, element, value (for `compare elements RUN --human`)
    open.csv                 elements without a majority, or that most cannot tell, and why
    ratings.csv              mode rating: the mean rating of each pillar by image, instead of the two files above

Both: labels.json, with agreement, annotators, counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from titjudge.apps.label.forms import collect
from titjudge.apps.label.questions import Export, ExportRules
from titjudge.core.errors import UserError
from titjudge.core.files import write_atomic


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
        annotators: How many votes a pair should have; None: as many as links (or voters, if more) without those who are left
            out, and three for marks.
        least: Leave out annotators whose share of right checks is certainly lower; None: as served.

    Returns:
        What was written, and tables to print. Alpha is Krippendorff's nominal alpha with a 95% interval over
        pairs; None with a reason if it is undefined.

    Raises:
        UserError: There is no such store, it has no vote, or `out` cannot be written.
        DataError: The experts' file is malformed; names file and line.
    """
    labelling = collect(store)
    if least is not None:
        labelling = replace(labelling, least=least)
    export = labelling.form.export(labelling, ExportRules(out, annotators, experts, gold))
    content = json.dumps(export.result, indent=2, ensure_ascii=False)
    export = replace(export, files=export.files | {"labels.json": content})
    _write(out, export.files)
    return export


def _write(out: Path, files: Mapping[str, str]) -> None:
    try:
        for name, content in files.items():
            write_atomic(out / name, content)
    except OSError as error:
        raise UserError(f"{out}: cannot be written: {error.strerror}") from error
