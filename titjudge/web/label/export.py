"""`label export`: the three rules of A.11, pairs and ranks for judging, and the pairs that experts have to settle.

pairs.jsonl, pairs.csv   decided pairs: prompt_id, image_a, image_b, preference, votes, rule
open.csv                 pairs without a decision, and why
experts.csv              what each expert says on the page for experts
experts.jsonl            pairs for the panel: fill in `verdicts`, then export again with `experts`
ranks.csv                images of a prompt from best to worst: rank by Copeland's count, sort_rank by sorting (A.11.3)
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
from dataclasses import astuple, fields, replace
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError, UserError
from titjudge.core.files import csv_text, write_atomic
from titjudge.core.types import Table
from titjudge.web.label.store import Vote, is_expert

_VOTES = ("votes_a", "votes_b", "votes_tie", "direct", "votes_bad")
_VERDICTS = ("a", "b", "tie", "both_bad")
_PANEL = 3


def export_labels(
    store: Path,
    out: Path,
    *,
    experts: Path | None = None,
    annotators: int | None = None,
    gold: Path | None = None,
    least: float | None = None,
) -> tuple[dict[str, Any], list[Table]]:
    """Turn votes into decided pairs, ranks and agreement, and write them into the folder `out`.

    Args:
        store: the SQLite file of the votes; it is only read.
        out: made when absent; its files of these names are replaced. Filled-in verdicts of `out/experts.jsonl` are
            kept.
        experts: an `experts.jsonl` whose `verdicts` (a, b, tie or both_bad, three a pair) the panel has filled in.
        gold: elements whose value is known (image, element, value), for marks: how often each annotator is right.
        annotators: how many votes a pair should have; as many as there were links (or voters, if more), less those who are left
            out, when None; three for marks.
        least: leave out who is certainly right in fewer of the checks; None: as it was served.

    Returns:
        What `labels.json` holds, and tables to print. Alpha is nominal Krippendorff with a 95% interval over pairs;
        None with a reason when it is undefined.

    Raises:
        UserError: no such store, no vote in it, or `out` cannot be written.
        DataError: the experts' file is malformed; names file and line.
    """
    from titjudge.stats.votes import krippendorff_alpha
    from titjudge.web.label.aggregate import annotator_table, battles, counts, votes_csv
    from titjudge.web.label.collected import collect, decide_pairs
    from titjudge.web.label.element_export import export_marks
    from titjudge.web.label.rankings import Ranked, leaderboard, ranks
    from titjudge.web.label.reliability import read_known

    collected = collect(store)
    if least is not None:
        collected = replace(collected, least=least)
    if not collected.of_pairs:
        if experts is not None:
            raise UserError(f"{store}: --experts is for pairs, and this store has marks of mode {collected.plan}")
        if not any(row.marks for row in collected.submissions):
            raise UserError(f"{store}: no marks yet")
        if gold is not None:
            collected = replace(collected, known=read_known(gold))
            if not any(one.checks for one in collected.people.values()):
                raise DataError("nobody has marked an element of it", gold)
        result, tables, files = export_marks(collected, annotators)
        _write(out, files)
        return result, tables
    if gold is not None:
        raise UserError(f"{store}: --gold is for marks; gold pairs are given where the page is served")
    votes, images, prompts = collected.votes, collected.images, collected.prompts
    kept = _read_verdicts(out / "experts.jsonl") if (out / "experts.jsonl").is_file() else {}
    verdicts = _read_verdicts(experts) if experts is not None else {}
    decided_pairs = decide_pairs(collected, annotators, _expert_votes(verdicts))
    found, voters, summary = decided_pairs.found, decided_pairs.voters, decided_pairs.summary
    if not found:
        raise UserError(
            "; ".join((f"{store}: no votes {'that count' if collected.left_out else 'yet'}", *collected.left_out))
        )
    shown = [cast for cast in found if cast.direct]
    direct = krippendorff_alpha(counts(cast for cast in decided_pairs.early if cast.direct), annotators=voters)
    asked = Counter(cast.pair for cast in shown)
    counted = [vote for vote in votes if collected.counts(vote.annotator)]
    annotated = (vote for vote in votes if not is_expert(vote.annotator))
    people, table = annotator_table(annotated, collected.people)
    table = replace(table, notes=(*table.notes, *collected.left_out))
    result = summary.to_json() | {
        "votes": sum(vote.kind == "pair" and vote.undone_at is None for vote in counted),
        "undone": sum(vote.undone_at is not None for vote in votes),
        "plan": collected.plan,
        "votes_expected": decided_pairs.expected,
        "alpha_shown_pairs": direct.alpha,
        "alpha_shown_pairs_interval": list(direct.interval) if direct.interval else None,
        "alpha_shown_pairs_reason": direct.reason,
        "annotator_details": people,
        "left_out": collected.left_out,
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
        "ranks.csv": csv_text([field.name for field in fields(Ranked)], map(astuple, ranked)),
        "battles.jsonl": _jsonl(battles(counted, images)),
        "votes.csv": votes_csv(counted, images),
        "experts.csv": votes_csv((vote for vote in votes if is_expert(vote.annotator)), images),
        "votes.jsonl": _jsonl({name: getattr(vote, name) for name in Vote.__dataclass_fields__} for vote in votes),
        "labels.json": json.dumps(result, indent=2, ensure_ascii=False),
    }
    _write(out, files)
    order = leaderboard(ranked)
    return result, [_summary_table(summary.table(), direct, collected.early_note), *([order] if order else []), table]


def _summary_table(table: Table, direct: Any, notes: Sequence[str]) -> Table:
    low, high = direct.interval or (None, None)
    rows = [*table.rows, ("alpha, shown pairs only", direct.alpha), ("  95% low", low), ("  95% high", high)]
    return Table(table.title, table.columns, tuple(rows), (*table.notes, *notes))


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
