"""`label export`: the three rules of A.11, pairs and ranks for judging, and the pairs that experts have to settle.

pairs.jsonl, pairs.csv   decided pairs: prompt_id, image_a, image_b, preference, votes, rule
open.csv                 pairs without a decision, and why
experts.jsonl            pairs for the panel: fill in `verdicts`, then export again with `experts`
ranks.csv                images of a prompt from best to worst
battles.jsonl            every vote on a pair as arenas write it: model_a, model_b, winner
votes.csv                every vote on a pair that stands, with its note, as `compare --votes` reads it
votes.jsonl              every vote, those taken back included
labels.json              agreement, annotators, counts

Marks of elements come out as `element_export` says.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError, UserError
from titjudge.core.files import csv_text, write_atomic
from titjudge.core.types import Table
from titjudge.web.label.store import Store

_VOTES = ("votes_a", "votes_b", "votes_tie", "direct", "votes_bad")
_VERDICTS = ("a", "b", "tie", "both_bad")
_PANEL = 3


def export_labels(
    store: Path, out: Path, *, experts: Path | None = None, annotators: int | None = None, gold: Path | None = None
) -> tuple[dict[str, Any], list[Table]]:
    """Turn votes into decided pairs, ranks and agreement, and write them into the folder `out`.

    Args:
        store: the SQLite file of the votes; it is only read.
        out: made when absent; its files of these names are replaced. Filled-in verdicts of `out/experts.jsonl` are
            kept.
        experts: an `experts.jsonl` whose `verdicts` (a, b, tie or both_bad, three a pair) the panel has filled in.
        gold: elements whose value is known (image, element, value), for marks: how often each annotator is right.
        annotators: how many votes a pair should have; as many as there were links (or voters, if more) when None.

    Returns:
        What `labels.json` holds, and tables to print. Alpha is nominal Krippendorff with a 95% interval over pairs;
        None with a reason when it is undefined.

    Raises:
        UserError: no such store, no vote in it, or `out` cannot be written.
        DataError: the experts' file is malformed; names file and line.
    """
    from titjudge.stats.votes import aggregate_votes, krippendorff_alpha
    from titjudge.web.label.aggregate import annotator_table, battles, casts, counts, ranks, votes_csv
    from titjudge.web.label.element_export import PANEL, export_marks
    from titjudge.web.label.elements import MODES

    opened = Store(store, create=False)
    try:
        votes, images, gold_pairs, prompts = opened.votes(undone=True), opened.images(), opened.gold(), opened.prompts()
        submissions = opened.submissions()
        plan, expected = opened.setting("plan") or "all", int(opened.setting("annotators") or 0)
    finally:
        opened.close()
    if plan in MODES:
        if experts is not None:
            raise UserError(f"{store}: --experts is for pairs, and this store has marks of mode {plan}")
        if not any(row.marks for row in submissions):
            raise UserError(f"{store}: no marks yet")
        result, tables, files = export_marks(submissions, plan, annotators or PANEL, gold)
        _write(out, files)
        return result, tables
    if gold is not None:
        raise UserError(f"{store}: --gold is for marks; gold pairs are given where the page is served")
    found = casts((vote for vote in votes if vote.undone_at is None), images, sorting=plan == "merge")
    if not found:
        raise UserError(f"{store}: no votes yet")
    voters = len({cast.choice.annotator for cast in found})
    expected = annotators or max(expected, voters)
    kept = _read_verdicts(out / "experts.jsonl") if (out / "experts.jsonl").is_file() else {}
    verdicts = _read_verdicts(experts) if experts is not None else {}
    summary = aggregate_votes([cast.choice for cast in found], _expert_votes(verdicts), annotators=expected)
    shown = [cast for cast in found if cast.direct]
    direct = krippendorff_alpha(counts(shown), annotators=voters)
    asked = Counter(cast.pair for cast in shown)
    people, table = annotator_table(votes, gold_pairs)
    result = summary.to_json() | {
        "votes": sum(vote.kind == "pair" and vote.undone_at is None for vote in votes),
        "undone": sum(vote.undone_at is not None for vote in votes),
        "plan": plan,
        "votes_expected": expected,
        "alpha_shown_pairs": direct.alpha,
        "alpha_shown_pairs_interval": list(direct.interval) if direct.interval else None,
        "alpha_shown_pairs_reason": direct.reason,
        "annotator_details": people,
    }
    records = [
        {"prompt_id": o.prompt_id, "image_a": o.a, "image_b": o.b, "preference": o.preference, "source": f"votes: {o.rule}",
         "votes_a": o.votes_a, "votes_b": o.votes_b, "votes_tie": o.votes_tie,
         "direct": asked[o.prompt_id, o.a, o.b], "votes_bad": o.votes_bad}
        for o in summary.outcomes
    ]  # fmt: skip
    decided = [record for record in records if record["preference"] is not None]
    pending = [record for record in records if record["preference"] is None]
    columns = ("prompt_id", "image_a", "image_b", "preference", "source", *_VOTES)
    ranked = ranks(summary.outcomes, images)
    files = {
        "pairs.jsonl": _jsonl(decided),
        "pairs.csv": csv_text(columns, ([record[key] for key in columns] for record in decided)),
        "open.csv": csv_text(columns, ([record[key] for key in columns] for record in pending)),
        "experts.jsonl": _jsonl(_for_experts(summary.needs_experts, prompts, {**kept, **verdicts})),
        "ranks.csv": csv_text(("prompt_id", "image", "generator", "rank", "wins", "ties", "losses", "open"), ranked),
        "battles.jsonl": _jsonl(battles(votes, images)),
        "votes.csv": votes_csv(votes, images),
        "votes.jsonl": _jsonl(asdict(vote) for vote in votes),
        "labels.json": json.dumps(result, indent=2, ensure_ascii=False),
    }
    _write(out, files)
    return result, [_summary_table(summary.table(), direct), table]


def _summary_table(table: Table, direct: Any) -> Table:
    low, high = direct.interval or (None, None)
    rows = [*table.rows, ("alpha, shown pairs only", direct.alpha), ("  95% low", low), ("  95% high", high)]
    return Table(table.title, table.columns, tuple(rows), table.notes)


def _for_experts(
    outcomes: Iterable[Any], prompts: Mapping[str, str], known: Mapping[Any, list[str]]
) -> list[dict[str, Any]]:
    """Pairs with verdicts first, as they were, then the open ones; without vote counts, so that nobody is led."""
    entries: dict[tuple[str, str, str], list[str]] = {key: verdicts for key, verdicts in known.items() if verdicts}
    for outcome in outcomes:
        one, other = (outcome.prompt_id, outcome.a, outcome.b), (outcome.prompt_id, outcome.b, outcome.a)
        if one not in entries and other not in entries:
            entries[one] = []
    return [
        {"prompt_id": group, "image_a": a, "image_b": b, "prompt": prompts.get(group, ""), "verdicts": verdicts}
        for (group, a, b), verdicts in entries.items()
    ]


def _read_verdicts(file: Path) -> dict[tuple[str, str, str], list[str]]:
    from titjudge.core.files import read_jsonl

    found: dict[tuple[str, str, str], list[str]] = {}
    for number, record in read_jsonl(file, ("prompt_id", "image_a", "image_b", "verdicts")):
        verdicts = record["verdicts"]
        if not isinstance(verdicts, list) or any(verdict not in _VERDICTS for verdict in verdicts):
            raise DataError('verdicts is a list of "a", "b", "tie" or "both_bad"', file, number)
        if len(verdicts) > _PANEL:
            raise DataError(f"a pair has {len(verdicts)} verdicts, the panel has {_PANEL} experts", file, number)
        key = (str(record["prompt_id"]), str(record["image_a"]), str(record["image_b"]))
        if key in found or (key[0], key[2], key[1]) in found:
            raise DataError("this pair is listed twice: keep one line", file, number)
        found[key] = verdicts
    return found


def _expert_votes(verdicts: Mapping[tuple[str, str, str], Sequence[str]]) -> list[Any]:
    from titjudge.stats.votes import Vote

    return [
        Vote(group, a, b, f"expert-{number}", verdict)
        for (group, a, b), given in verdicts.items()
        for number, verdict in enumerate(given, 1)
    ]


def _jsonl(records: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def _write(out: Path, files: Mapping[str, str]) -> None:
    try:
        for name, content in files.items():
            write_atomic(out / name, content)
    except OSError as error:
        raise UserError(f"{out}: cannot be written: {error.strerror}") from error
