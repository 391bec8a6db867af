"""The loop of the agentic judge: an orchestrator settles claims by evidence and sends for more, within bounds.

Only a schema-valid answer of the orchestrator acts. The loop ends for four reasons, and no text can name a fifth:

    covered       no claim is open
    looks         all looks are used up (the orchestrator sees what the last ones brought, and is not asked again)
    no progress   two answers in a row brought neither a look nor a verdict
    rounds        `max_looks + 3` answers
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema

from titjudge.errors import Unanswered
from titjudge.metrics.agent_claims import MAX_CLAIM, Claim, Claims, fenced, shortened
from titjudge.metrics.agent_looks import Eyes, Look, Order, Refused, Report, ordered, together
from titjudge.types import Ask, Status

VERDICTS = ("met", "not_met", "cannot_be_seen")
PARALLEL = 6  # looks in one answer
SPARE_ROUNDS = 3  # answers beyond one for each look
IDLE = 2  # answers without progress that end the loop
DECODING = {"temperature": 0, "max_tokens": 6144}
COUNTS = (
    "looks", "rounds", "failed_looks", "cut_answers", "boxes_clamped", "cut_questions",
    "repeats_refused", "invented_tools", "bad_boxes", "empty_questions", "looks_over_limit",
    "unknown_claims", "unknown_verdicts", "unsupported", "contradictory", "revised", "idle_rounds",
)  # fmt: skip
"""What is counted: work done, answers cut, and everything that was refused."""

_NOTE = 250  # characters
_NOTES = 20  # refusals that are told to the orchestrator, and kept in the transcript
_THOUGHT = 500  # characters
_ENDS_RUN = (Status.FAILED, Status.BAD_INPUT)  # of a look: an outage is not an answer, and the item has no score


_NOTHING = Report("")


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, int) else value


def _blank(value: Any) -> Any:
    return "" if value is None else value


class Settlement(BaseModel):
    """The verdict on one claim, and the evidence for it."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    claim: int
    verdict: Annotated[str, WithJsonSchema({"type": "string", "enum": list(VERDICTS)})]
    evidence: Annotated[str, BeforeValidator(_text)]


class Turn(BaseModel):
    """Verdicts and looks of one answer."""

    model_config = ConfigDict(extra="ignore")

    thought: Annotated[str, BeforeValidator(_blank)] = ""
    settle: list[Settlement]
    looks: list[Look]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one look brought, or why it brought nothing (`failed` is then the status)."""

    number: int
    order: Order
    report: Report = _NOTHING
    failed: str = ""

    @property
    def id(self) -> str:
        return f"E{self.number}"

    @property
    def usable(self) -> bool:
        """It can settle a claim."""
        return not self.failed and self.report.settles

    @property
    def shown(self) -> str:
        text = f"brought nothing ({self.failed})" if self.failed else fenced(self.report.text)
        return f"{self.id} {fenced(self.order.shown)}: {text}"

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "tool": self.order.tool,
            "question": self.order.question,
            "box": list(self.order.box) if self.order.box else None,
            "text": self.report.text,
            "failed": self.failed,
            "cut": self.report.cut,
            "settles": self.usable,
            "source": self.report.source,
        }


@dataclass(frozen=True, slots=True)
class Ruling:
    """The verdict on a claim, the number of the evidence that settled it, and the verdicts it replaced."""

    verdict: str
    evidence: int
    before: tuple[tuple[str, int], ...] = ()


@dataclass(slots=True)
class Case:
    """Everything known about one image and its claims."""

    claims: Claims = field(default_factory=lambda: Claims(()))
    rulings: dict[int, Ruling] = field(default_factory=dict)
    evidence: list[Evidence] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    transcript: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failures: list[Unanswered] = field(default_factory=list)
    stopped: str = ""

    @property
    def open(self) -> list[Claim]:
        return [claim for claim in self.claims.claims if claim.number not in self.rulings]

    def note(self, count: str, text: str) -> None:
        """Count a refusal and tell the orchestrator about it in its next turn."""
        self.counts[count] += 1
        line = shortened(text, _NOTE)
        if len(self.notes) < _NOTES and line not in self.notes:
            self.notes.append(line)

    def variables(self, looks_left: int) -> dict[str, Any]:
        """What the orchestrator is shown; all foreign text is bounded and fenced."""
        claims = [
            f"{c.number}. [{c.level} {c.kind}] {fenced(shortened(c.text, MAX_CLAIM))}" for c in self.claims.claims
        ]
        return {
            "claims": claims,
            "evidence": [evidence.shown for evidence in self.evidence],
            "verdicts": [f"{number}: {r.verdict} (E{r.evidence})" for number, r in sorted(self.rulings.items())],
            "open": ", ".join(str(claim.number) for claim in self.open) or "none",
            "notes": [fenced(note) for note in self.notes],
            "looks_left": looks_left,
            "parallel": PARALLEL,
        }


async def consult(case: Case, ask: Ask, looks_left: int) -> Turn:
    """One question to the orchestrator.

    Raises:
        Unanswered: there is no schema-valid answer, not even after the repair turn.
    """
    reply = await ask("agent/orchestrate", role="judge", schema=Turn, params=DECODING, **case.variables(looks_left))
    turn: Turn = reply.data
    return turn


async def investigate(case: Case, eyes: Eyes, ask: Ask, max_looks: int) -> None:
    """Look and settle until one of the four ends; `case.stopped` says which. The first look is a description.

    Raises:
        Unanswered: the orchestrator has no answer, or a look ended in an outage or on an image that cannot be used.
    """
    case.transcript.append(entry := _entry(case, ""))
    await _carry_out(case, eyes, [Order("describe")], entry)
    most, idle = max_looks + SPARE_ROUNDS, 0
    while True:
        case.counts["rounds"] += 1
        left = max_looks - case.counts["looks"] if case.counts["rounds"] < most else 0
        turn = await consult(case, ask, left)
        case.notes = []
        case.transcript.append(entry := _entry(case, turn.thought))
        settled = _settle(case, turn.settle, entry)
        if not case.open:
            case.stopped = "covered"
        orders = [] if case.stopped else _admit(case, turn.looks, left)
        if left and orders:
            await _carry_out(case, eyes, orders, entry)
        entry["refused"] = list(case.notes)
        idle = 0 if settled or orders else idle + 1
        if idle:
            case.note("idle_rounds", "nothing new was settled and no look was taken; claims are still open")
        if not case.stopped and not left:
            case.stopped = "looks" if case.counts["looks"] >= max_looks else "rounds"
        if not case.stopped and idle >= IDLE:
            case.stopped = "no progress"
        if case.stopped:
            return


def _entry(case: Case, thought: str) -> dict[str, Any]:
    return {
        "round": case.counts["rounds"],
        "thought": shortened(thought, _THOUGHT),
        "settled": [],
        "looks": [],
        "refused": [],
    }


def _settle(case: Case, given: list[Settlement], entry: dict[str, Any]) -> int:
    """Take over the verdicts that stand on evidence; returns how many are new."""
    known = {claim.number for claim in case.claims.claims}
    proposed: dict[int, set[str]] = {}
    for each in given:
        proposed.setdefault(each.claim, set()).add(_verdict(each))
    taken, torn = 0, {claim for claim, verdicts in proposed.items() if len(verdicts) > 1}
    for claim in sorted(torn & known):
        case.note("contradictory", f"claim {claim}: two verdicts in one answer; it stays as it was")
    for each in given:
        verdict, evidence = _verdict(each), _evidence(case, each.evidence)
        if each.claim not in known:
            case.note("unknown_claims", f"there is no claim {each.claim}")
        elif verdict not in VERDICTS:
            case.note("unknown_verdicts", f"claim {each.claim}: a verdict is {', '.join(VERDICTS)}")
        elif each.claim in torn:
            continue
        elif evidence is None:
            name = shortened(each.evidence, 20)
            case.note("unsupported", f"claim {each.claim}: '{name}' is no evidence that can settle a claim")
        else:
            taken += _rule(case, each.claim, verdict, evidence, entry)
    return taken


def _verdict(settlement: Settlement) -> str:
    return settlement.verdict.lower().replace(" ", "_").replace("-", "_")


def _evidence(case: Case, name: str) -> Evidence | None:
    """The evidence of that id, if it can settle anything."""
    digits = name.strip().strip("[]()").upper().removeprefix("E")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 6) or not 1 <= int(digits) <= len(case.evidence):
        return None
    found = case.evidence[int(digits) - 1]
    return found if found.usable else None


def _rule(case: Case, claim: int, verdict: str, evidence: Evidence, entry: dict[str, Any]) -> bool:
    """Settle a claim, or change its verdict where the evidence is newer. Saying the same again changes nothing."""
    old = case.rulings.get(claim)
    if old is not None and old.verdict == verdict:
        return False
    if old is not None and evidence.number <= old.evidence:
        case.note("unsupported", f"claim {claim} is settled by E{old.evidence}: only newer evidence changes that")
        return False
    before = () if old is None else (*old.before, (old.verdict, old.evidence))
    case.counts["revised"] += old is not None
    case.rulings[claim] = Ruling(verdict, evidence.number, before)
    entry["settled"].append({"claim": claim, "verdict": verdict, "evidence": evidence.id})
    return True


def _admit(case: Case, looks: list[Look], left: int) -> list[Order]:
    """The looks that are carried out now: known tools, good boxes, nothing twice, no more than are left."""
    done = {evidence.order.key: evidence.id for evidence in case.evidence}
    orders: list[Order] = []
    for look in looks:
        order = ordered(look)
        if isinstance(order, Refused):
            case.note(order.count, order.note)
        elif order.key in done:
            case.note("repeats_refused", f"{order.shown} was done before: {done[order.key]}")
        elif len(orders) >= min(PARALLEL, left):
            case.note("looks_over_limit", f"{order.shown}: no more than {min(PARALLEL, left)} looks could be taken")
        else:
            done[order.key] = "in the same answer"
            orders.append(order)
    return orders


async def _carry_out(case: Case, eyes: Eyes, orders: list[Order], entry: dict[str, Any]) -> None:
    """All looks at once; each leaves evidence, also of having brought nothing.

    Raises:
        Unanswered: an outage, or an image that cannot be used: after that no number would mean what it says.
    """
    case.counts["looks"] += len(orders)
    found = await together(*(eyes.look(order) for order in orders))
    for order, result in zip(orders, found, strict=True):
        case.counts["boxes_clamped"] += order.clamped
        case.counts["cut_questions"] += order.cut
        number = len(case.evidence) + 1
        if isinstance(result, Unanswered):
            case.counts["failed_looks"] += 1
            case.failures.append(result)
            case.evidence.append(Evidence(number, order, failed=str(result.status)))
        else:
            case.counts["cut_answers"] += result.cut
            case.evidence.append(Evidence(number, order, result))
        entry["looks"].append(case.evidence[-1].id)
    for result in found:
        if isinstance(result, Unanswered) and result.status in _ENDS_RUN:
            raise result
