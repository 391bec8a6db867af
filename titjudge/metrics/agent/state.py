"""Everything known about one image while it is judged: claims, verdicts, evidence, and what happened round by round."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema

from titjudge.core.errors import Unanswered
from titjudge.core.structured_output import Whole
from titjudge.core.types import Message, ToolCall
from titjudge.metrics.agent.claims import MAX_CLAIM, Claim, Claims, fenced, shortened
from titjudge.metrics.agent.looks import Look, LookRequest, Observation

VERDICTS = ("met", "not_met", "cannot_be_seen")
PARALLEL = 6  # looks in one answer
COUNTS = (
    "looks", "rounds", "failed_looks", "cut_answers", "boxes_clamped", "cut_questions",
    "repeats_refused", "invented_tools", "bad_boxes", "empty_questions", "looks_over_limit",
    "unknown_claims", "unknown_verdicts", "unsupported", "contradictory", "revised", "idle_rounds",
    "bad_arguments", "calls_over_limit", "no_calls",
)  # fmt: skip
"""What is counted: work done, answers cut, and everything that was refused."""

_NOTE = 250  # characters
_NOTES = 20  # refusals that are told to the orchestrator, and kept in the transcript
_THOUGHT = 500  # characters
_NOTHING = Observation("")


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, int) else value


def _blank(value: Any) -> Any:
    return "" if value is None else value


class ClaimVerdict(BaseModel):
    """The verdict on one claim, and the evidence for it."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True, title="Settlement")

    claim: Whole
    verdict: Annotated[str, WithJsonSchema({"type": "string", "enum": list(VERDICTS)})]
    evidence: Annotated[str, BeforeValidator(_text)]


class AgentTurn(BaseModel):
    """Verdicts and looks of one answer."""

    model_config = ConfigDict(extra="ignore", title="Turn")

    thought: Annotated[str, BeforeValidator(_blank)] = ""
    settle: list[ClaimVerdict]
    looks: list[Look]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one look brought, or why it brought nothing (`failed` is then the status)."""

    number: int
    order: LookRequest
    report: Observation = _NOTHING
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
class SettledClaim:
    """The verdict on a claim, the number of the evidence that settled it, and the verdicts it replaced."""

    verdict: str
    evidence: int
    before: tuple[tuple[str, int], ...] = ()


@dataclass(slots=True)
class Conversation:
    """A conversation with an orchestrator that calls tools: how it went on after `opening`, the variables of its template.

    `turns` end with its last answer; `calls` are those of that answer. `places` says of each which look of the turn it is,
    None for a settlement, or why it could not be read, and then `told` what it brought.
    """

    opening: dict[str, Any]
    turns: list[Message] = field(default_factory=list)
    calls: tuple[ToolCall, ...] = ()
    places: list[int | str | None] = field(default_factory=list)
    told: list[str] = field(default_factory=list)


@dataclass(slots=True)
class AgentState:
    """Everything known about one image and its claims."""

    claims: Claims = field(default_factory=lambda: Claims(()))
    rulings: dict[int, SettledClaim] = field(default_factory=dict)
    evidence: list[Evidence] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    transcript: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failures: list[Unanswered] = field(default_factory=list)
    talk: Conversation | None = None
    stopped: str = ""

    @property
    def open(self) -> list[Claim]:
        return [claim for claim in self.claims.claims if claim.number not in self.rulings]

    def note(self, count: str, text: str) -> str:
        """Count a refusal and tell the orchestrator about it in its next turn; returns the line it is told."""
        self.counts[count] += 1
        line = shortened(text, _NOTE)
        if len(self.notes) < _NOTES and line not in self.notes:
            self.notes.append(line)
        return line

    def begin(self, thought: str, protocol: str = "") -> dict[str, Any]:
        """The transcript's entry of the round that begins."""
        entry = {
            "round": self.counts["rounds"],
            "protocol": protocol,
            "thought": shortened(thought, _THOUGHT),
            "settled": [],
            "looks": [],
            "refused": [],
        }
        self.transcript.append(entry)
        return entry

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
