"""`label export`: decide pairs by the three rules of A.11, rank images, and list the pairs that are left to experts.

pairs.jsonl, pairs.csv   decided pairs: prompt_id, image_a, image_b, preference, votes, rule
open.csv                 pairs without a decision, and why
experts.csv              every vote of an expert
experts.jsonl            open pairs: fill in `verdicts`, then export again with `experts`
ranks.csv                images of a prompt from best to worst: rank by Copeland's count, sort_rank by sorting (A.11.3)
battles.jsonl            every vote on a pair in the format of arenas: model_a, model_b, winner
votes.csv                every vote on a pair that was not taken back, with its note, for `compare --votes`
votes.jsonl              every vote, also those taken back
labels.json              agreement, annotators, counts

`element_export` does the same for marks of elements.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, fields, replace
from pathlib import Path
from typing import Any

from titjudge.apps.label.aggregate import PairKey, annotator_table, battles, votes_csv
from titjudge.apps.label.collected import collect, decide_pairs
from titjudge.apps.label.element_export import export_marks
from titjudge.apps.label.rankings import Ranked, leaderboard, ranks
from titjudge.apps.label.reliability import read_known
from titjudge.apps.label.store import Vote, is_expert
from titjudge.core.errors import DataError, UserError
from titjudge.core.files import csv_text, jsonl_text, read_jsonl, write_atomic
from titjudge.core.types import Table
from titjudge.stats.people.votes import CHOICES, PANEL, Rule
from titjudge.stats.people.votes import Outcome as PairOutcome
from titjudge.stats.people.votes import Vote as Choice

_COLUMNS = (
    "prompt_id", "image_a", "image_b", "preference", "source", "votes_a", "votes_b", "votes_tie", "votes_bad", "implied",
)  # fmt: skip


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
        store: The SQLite file of the votes; it is only read.
        out: The folder; existing files of these names are replaced, but verdicts in `out/experts.jsonl` are kept.
        experts: An `experts.jsonl` in which the panel has filled in `verdicts` (a, b, tie or both_bad, three for each pair).
        gold: For marks: elements with a known value (image, element, value), to measure how often each annotator is right.
        annotators: How many votes a pair should have; None: as many as links (or voters, if more) without those who are left
            out, and three for marks.
        least: Leave out annotators whose share of right checks is certainly lower; None: as served.

    Returns:
        The content of `labels.json`, and tables to print. Alpha is Krippendorff's nominal alpha with a 95% interval over
        pairs; None with a reason if it is undefined.

    Raises:
        UserError: There is no such store, it has no vote, or `out` cannot be written.
        DataError: The experts' file is malformed; names file and line.
    """
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
    summary = decided_pairs.summary
    if not decided_pairs.votes:
        raise UserError(
            "; ".join((f"{store}: no votes {'that count' if collected.left_out else 'yet'}", *collected.left_out))
        )
    counted = [vote for vote in votes if collected.counts(vote.annotator)]
    annotated = (vote for vote in votes if not is_expert(vote.annotator))
    people, table = annotator_table(annotated, collected.people)
    table = replace(table, notes=(*table.notes, *collected.left_out))
    result = summary.to_json() | {
        "votes": sum(vote.kind == "pair" and vote.undone_at is None for vote in counted),
        "undone": sum(vote.undone_at is not None for vote in votes),
        "plan": collected.plan,
        "votes_expected": decided_pairs.expected,
        "annotator_details": people,
        "left_out": collected.left_out,
    }
    records = [
        {"prompt_id": o.prompt_id, "image_a": o.a, "image_b": o.b, "preference": o.preference, "source": f"votes: {o.rule}",
         "votes_a": o.votes_a, "votes_b": o.votes_b, "votes_tie": o.votes_tie, "votes_bad": o.votes_bad,
         "implied": o.implied}
        for o in summary.outcomes
    ]  # fmt: skip
    decided = [record for record in records if record["preference"] is not None]
    pending = [record for record in records if record["preference"] is None]
    ranked = ranks(summary.outcomes, images)
    files = {
        "pairs.jsonl": jsonl_text(decided),
        "pairs.csv": csv_text(_COLUMNS, ([record[key] for key in _COLUMNS] for record in decided)),
        "open.csv": csv_text(_COLUMNS, ([record[key] for key in _COLUMNS] for record in pending)),
        "experts.jsonl": jsonl_text(_for_experts(summary.needs_experts, prompts, {**kept, **verdicts})),
        "ranks.csv": csv_text([field.name for field in fields(Ranked)], map(astuple, ranked)),
        "battles.jsonl": jsonl_text(battles(counted, images)),
        "votes.csv": votes_csv(counted, images),
        "experts.csv": votes_csv((vote for vote in votes if is_expert(vote.annotator)), images),
        "votes.jsonl": jsonl_text({name: getattr(vote, name) for name in Vote.__dataclass_fields__} for vote in votes),
        "labels.json": json.dumps(result, indent=2, ensure_ascii=False),
    }
    _write(out, files)
    order = leaderboard(ranked)
    decisions = summary.table()
    decisions = replace(decisions, notes=(*decisions.notes, *collected.early_note, *_implied_note(summary.rules)))
    return result, [decisions, *([order] if order else []), table]


def _implied_note(rules: Mapping[str, int]) -> tuple[str, ...]:
    """Say how many pairs are decided with votes that nobody cast."""
    number = rules[Rule.IMPLIED.value]
    note = (
        f"{number:,} pairs are decided by what people's sorts imply, not by votes that were cast as A.11 counts them: "
        "`label serve --plan all` asks every pair"
    )
    return (note,) if number else ()


def _for_experts(
    outcomes: Iterable[PairOutcome], prompts: Mapping[str, str], known: Mapping[PairKey, list[str]]
) -> list[dict[str, Any]]:
    """List the pairs with verdicts first, then the open ones; without vote counts, which could influence experts."""
    entries: dict[PairKey, list[str]] = {key: verdicts for key, verdicts in known.items() if verdicts}
    for outcome in outcomes:
        one, other = (outcome.prompt_id, outcome.a, outcome.b), (outcome.prompt_id, outcome.b, outcome.a)
        if one not in entries and other not in entries:
            entries[one] = []
    return [
        {"prompt_id": group, "image_a": a, "image_b": b, "prompt": prompts.get(group, ""), "verdicts": verdicts}
        for (group, a, b), verdicts in entries.items()
    ]


def _read_verdicts(file: Path) -> dict[PairKey, list[str]]:
    by_pair: dict[PairKey, list[str]] = {}
    for number, record in read_jsonl(file, ("prompt_id", "image_a", "image_b", "verdicts")):
        verdicts = record["verdicts"]
        if not isinstance(verdicts, list) or any(verdict not in CHOICES for verdict in verdicts):
            raise DataError('verdicts is a list of "a", "b", "tie" or "both_bad"', file, number)
        if len(verdicts) > PANEL:
            raise DataError(f"a pair has {len(verdicts)} verdicts, the panel has {PANEL} experts", file, number)
        key = (str(record["prompt_id"]), str(record["image_a"]), str(record["image_b"]))
        if key in by_pair or (key[0], key[2], key[1]) in by_pair:
            raise DataError("this pair is listed twice: keep one line", file, number)
        by_pair[key] = verdicts
    return by_pair


def _expert_votes(verdicts: Mapping[PairKey, Sequence[str]]) -> list[Choice]:
    return [
        Choice(group, a, b, f"expert-{number}", verdict)
        for (group, a, b), given in verdicts.items()
        for number, verdict in enumerate(given, 1)
    ]


def _write(out: Path, files: Mapping[str, str]) -> None:
    try:
        for name, content in files.items():
            write_atomic(out / name, content)
    except OSError as error:
        raise UserError(f"{out}: cannot be written: {error.strerror}") from error
