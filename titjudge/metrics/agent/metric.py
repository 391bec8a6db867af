"""The agentic judge: a long prompt as claims, an orchestrator that looks until they are settled, and the share that holds.

How claims enter the score:

    met              numerator and denominator, by weight (macro 3, micro 1)
    not met          denominator
    cannot be seen   neither: looked for, and the image cannot show it either way
    open             neither: never settled

The share is taken of decided weight (met and not met). Where less than 60% of all weight is decided there is no number.

`parts` of a score, in JSON types (a score without a number has them too, as far as it came; keys are only ever added):

    claims          the claim table, in the order of the prompt: {number (from 1), claim, kind (entity, attribute, relation,
                    text, style), level (macro, micro), weight, span [start, end) in characters of the prompt, quote,
                    position (start over length), verdict (met, not_met, cannot_be_seen, open), evidence ("E2" or null: the
                    look that settled it), before (earlier verdicts, each [verdict, "E1"])}
    evidence        one for each look, in order: {id ("E1"), tool (describe, ask, zoom, count, read_text, compare),
                    question, box ([left, top, right, bottom] in fractions, or null), text, failed ("" or a status),
                    cut (the answer was longer than is read), settles (it can settle a claim), source (the OCR engine)}
    transcript      one for each round, the first being the description: {round (0 for it), protocol ("tools" or "json"; ""
                    for it), thought, settled (each {claim, verdict, evidence}), looks (ids of the evidence that came of
                    it), refused (lines: what was not accepted, and why)}
    number, weight  of claims, by verdict; levels: met share of decided claims, by level (null where none is decided)
    counts          looks, rounds, and everything that was refused, by kind (`agent_case.COUNTS`)
    stopped         covered, little left, looks, budget, no progress, rounds, or "no answer: STATUS"
    protocol        that of the last round: "tools", "json", or "" where no round was begun
    max_looks, max_cost  the bounds it was judged under (max_cost in USD, or null)
    unfounded, repeated, claims_over, prompt_words, prompt_covered, ocr: see `agent_claims.Claims`, `ocr.engine_version`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from titjudge.core import ocr
from titjudge.core.errors import Unanswered
from titjudge.core.types import Ask, Item, Score, Status
from titjudge.metrics import metric
from titjudge.metrics.agent.claims import WEIGHTS, shortened, split, words_of
from titjudge.metrics.agent.crops import Crops
from titjudge.metrics.agent.dry_run import plan
from titjudge.metrics.agent.looks import CostTrackingAsk, DryRunReached, ImageInspector
from titjudge.metrics.agent.loop import investigate
from titjudge.metrics.agent.state import COUNTS, AgentState

MAX_LOOKS, MOST_LOOKS = 8, 64  # at one image, the description included
DECIDED_PERCENT = 60
"""Least share of the claims' weight that must be met or not met for an item to have a score."""

_STATES = ("met", "not_met", "cannot_be_seen", "open")


@metric(
    "tit-agent",
    roles=("captioner", "judge"),
    range=(0, 100),
    version="3",
    source="titjudge; macro and micro level of adherence as in the TIT-Score paper, A.11; weights ours (3 and 1)",
)
async def tit_agent(
    item: Item,
    ask: Ask,
    *,
    max_looks: Annotated[
        int, Field(ge=1, le=MOST_LOOKS, description=f"looks at one image, 1 to {MOST_LOOKS}, the description included")
    ] = MAX_LOOKS,
    max_cost: Annotated[
        float | None,
        Field(ge=0, allow_inf_nan=False, description="USD for one image; once spent, no further look is taken"),
    ] = None,
) -> Score:
    """Weighted share of a prompt's claims that the image meets, settled by a judge that looks again where it is unsure.

    The judge takes the prompt apart once (one question, the same for all images of a prompt) and then sends the
    captioner to look: description, questions, zooms, counts, words. It calls tools natively where its provider has them,
    else it answers in JSON. Options: `max_looks` (1 to 64; default 8; an item's own `item.meta["max_looks"]` goes first)
    and `max_cost` (USD by list price: once an item's questions have cost as much, no further look is taken).
    Value: 100 x met weight / (met + not met weight), macro claims 3, micro claims 1. `parts` hold the claim table, the
    evidence, the transcript, and counts of looks and of everything refused. Claims that cannot be seen, or stay open,
    are counted and shown; an item with less than 60% of its weight decided is unparsed. An item whose judge gives no
    usable answer, or whose looks end in an outage, has no score, and keeps what was found in `parts`.

    Raises:
        ConfigError: `max_cost` is given, and a model's price is not known.
    """
    looks = _max_looks(item.meta.get("max_looks", max_looks))
    if looks is None:
        given = shortened(repr(item.meta["max_looks"]), 40)
        return Score.none(Status.BAD_INPUT, f"max_looks is a whole number from 1 to {MOST_LOOKS}, not {given}")
    if item.image is None:
        return Score.none(Status.BAD_INPUT, "this metric needs an image")
    if not words_of(item.prompt):
        return Score.none(Status.BAD_INPUT, "the prompt is empty")
    case, watched = AgentState(), CostTrackingAsk(ask, priced=max_cost is not None)
    try:
        score = await _judge(item, watched, case, looks, max_cost)
        return replace(score, parts={**score.parts, "max_cost": max_cost})
    except DryRunReached:
        await plan(item, ask, case, looks, max_cost=max_cost, paid=watched.cost)
        return Score.none(Status.MISSING, "a plan: nothing was asked")


def _max_looks(given: Any) -> int | None:
    """A whole number from 1 to 64, also in digits (a CSV manifest knows only text); None when it is not one."""
    if isinstance(given, str) and given.strip().isascii() and given.strip().isdigit() and len(given.strip()) < 4:
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MOST_LOOKS:
        return None
    return given


async def _judge(item: Item, ask: CostTrackingAsk, case: AgentState, looks: int, max_cost: float | None) -> Score:
    case.claims = await split(item.prompt, ask)
    claims, unfounded = len(case.claims.claims), len(case.claims.unfounded)
    if unfounded >= max(1, claims):
        reason = f"{unfounded} of {claims + unfounded} claims quote words that are not in the prompt"
        return Score.none(Status.UNPARSED, reason, **_parts(item, case, looks))
    try:
        with Crops() as crops:
            await investigate(case, ImageInspector(item, ask, crops), ask, looks, max_cost)
    except Unanswered as failure:
        case.stopped = f"no answer: {failure.status}"
        return Score.none(failure.status, failure.reason, **_parts(item, case, looks))
    return _scored(item, case, looks)


def _scored(item: Item, case: AgentState, looks: int) -> Score:
    parts = _parts(item, case, looks)
    weight = parts["weight"]
    met, decided = weight["met"], weight["met"] + weight["not_met"]
    if 100 * decided < DECIDED_PERCENT * case.claims.weight:
        share = 100 * decided / case.claims.weight
        reason = (
            f"only {share:.0f}% of the claims' weight is met or not met, {DECIDED_PERCENT}% are needed ({case.stopped})"
        )
        blind = case.failures if not any(evidence.usable for evidence in case.evidence) else []
        if blind:
            reason = f"no look brought anything: {blind[0].reason}"
        return Score.none(blind[0].status if blind else Status.UNPARSED, reason, **parts)
    return Score.of(100 * met / decided, reason=_summary(parts), **parts)


def _summary(parts: Mapping[str, Any]) -> str:
    number = parts["number"]
    text = f"{number['met']} of {number['met'] + number['not_met']} claims met"
    if number["cannot_be_seen"]:
        text += f", {number['cannot_be_seen']} cannot be seen"
    if number["open"]:
        text += f", {number['open']} open"
    return f"{text}; {parts['counts']['looks']} looks; stopped: {parts['stopped']}"


def _parts(item: Item, case: AgentState, looks: int) -> dict[str, Any]:
    """Everything behind a score, in JSON types."""
    rows = _table(item.prompt, case)
    return {
        "claims": rows,
        "number": {state: sum(row["verdict"] == state for row in rows) for state in _STATES},
        "weight": {state: sum(row["weight"] for row in rows if row["verdict"] == state) for state in _STATES},
        "levels": {level: _share([row for row in rows if row["level"] == level]) for level in WEIGHTS},
        "unfounded": list(case.claims.unfounded),
        "repeated": case.claims.repeated,
        "claims_over": case.claims.over,
        "prompt_words": len(words_of(item.prompt)),
        "prompt_covered": round(case.claims.covered, 4),
        "evidence": [evidence.to_json() for evidence in case.evidence],
        "transcript": case.transcript,
        "counts": {name: case.counts[name] for name in COUNTS},
        "max_looks": looks,
        "stopped": case.stopped,
        "protocol": case.transcript[-1]["protocol"] if case.transcript else "",
        "ocr": ocr.engine_version(),
    }


def _table(prompt: str, case: AgentState) -> list[dict[str, Any]]:
    rows = []
    for claim in case.claims.claims:
        ruling = case.rulings.get(claim.number)
        rows.append(
            {
                "number": claim.number,
                "claim": claim.text,
                "kind": claim.kind,
                "level": claim.level,
                "weight": claim.weight,
                "span": [claim.start, claim.end],
                "quote": prompt[claim.start : claim.end],
                "position": round(claim.start / len(prompt), 6),
                "verdict": ruling.verdict if ruling else "open",
                "evidence": f"E{ruling.evidence}" if ruling else None,
                "before": [[verdict, f"E{number}"] for verdict, number in ruling.before] if ruling else [],
            }
        )
    return rows


def _share(rows: list[dict[str, Any]]) -> float | None:
    """Met claims over decided ones, in [0, 1]; None where none is decided."""
    decided = [row["verdict"] == "met" for row in rows if row["verdict"] in ("met", "not_met")]
    return sum(decided) / len(decided) if decided else None
