"""The state of tit-agent while it judges one image: claims, verdicts, evidence, and the transcript of the rounds."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic.json_schema import SkipJsonSchema

from titjudge.core.errors import Unanswered
from titjudge.core.score_parts import EvidenceRow, RoundRow
from titjudge.core.structured_output import Whole
from titjudge.core.types import Json, Message, ToolCall
from titjudge.metrics.agent.claims import (
    MAX_CLAIM,
    Claim,
    Claims,
    absent_things,
    fenced,
    null_as,
    numbered,
    shortened,
    weights,
)
from titjudge.metrics.agent.looks import MOST_JOINED, Box, InventoryItem, Look, LookRequest, Observation
from titjudge.metrics.agent.places import Places

VERDICTS = ("met", "not_met", "cannot_be_seen")
PARALLEL = 6  # maximum number of looks in one round; half as many if the judge sees the image
MOST_PLACES = 4  # doubtful things beyond which nothing is verified; on parts of the image twice as many
COUNTS = """
    looks rounds failed_looks cut_answers boxes_clamped cut_questions repeats_refused invented_tools bad_boxes
    empty_questions looks_over_limit unknown_claims unknown_verdicts unsupported contradictory revised idle_rounds
    bad_arguments calls_over_limit no_calls verified
""".split()
"""The counts that a score keeps: work done, answers truncated, and everything that was refused."""

FirstLook = Literal["description", "inventory", "sight"]
"""The first look of the judge: a report on the whole image, an inventory with places, or the image itself."""

_NOTE, _THOUGHT = 250, 500  # maximum number of characters
_NOTES = 20  # most refusals of a round that the orchestrator is shown and the transcript keeps
_NOTHING = Observation("")
_VERIFY = (
    "These verdicts rest on one look at the whole image, which may have misread it. Look once more at the place of each, "
    'enlarged ("zoom", "count" and "read_text" take a box), {boxes}, and ask openly; then '
    "settle each of them again by the new report, whether its verdict holds or changes. For these claims looks may confirm "
    "what was reported."
)

_VERIFY_BY_SIGHT = (
    "These verdicts rest on the image as a whole, which may have been misread. Look at the place of each enlarged, unless a picture "
    "below shows it, with one box for each place; then settle each of them again by what you see there, whether its verdict holds "
    "or changes."
)
_BOXES = {"description": "neighbouring places together in one box", "inventory": "with one box for each place"}


def _numbers(claims: Sequence[Claim]) -> str:
    return ", ".join(str(claim.number) for claim in claims) or "none"


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, int) else value


class ClaimVerdict(BaseModel):
    """A verdict, the claims that it is on, and the evidence for it. One claim may stand alone, under `claim`."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True, title="Settlement")

    claims: Annotated[
        list[Whole],
        Field(validation_alias=AliasChoices("claims", "claim"), min_length=1),
        BeforeValidator(lambda value: value if isinstance(value, list) else [value]),
    ]
    verdict: Annotated[str, WithJsonSchema({"type": "string", "enum": list(VERDICTS)})]
    evidence: Annotated[str, BeforeValidator(_text)]


class SeenVerdict(ClaimVerdict):
    """A verdict of a judge that sees the image, with what it sees at the place: an object, or a line with bars between its parts."""

    seen: Annotated[str, null_as("")] = ""

    @model_validator(mode="before")
    @classmethod
    def _of_a_line(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        parts = value.split("|")
        evidence = parts.pop() if re.fullmatch(r"\s*\[?[Ee]\d+\]?\s*", parts[-1]) else "E1"
        if len(parts) < 3:
            raise ValueError('a line is "numbers of claims | seen | verdict"')
        claims, *seen, verdict = parts
        spans = re.findall(r"(\d{1,6})(?:\s*[-–]\s*(\d{1,3}))?", claims)
        numbers = [number for first, last in spans for number in range(int(first), int(last or first) + 1)]
        return {"claims": numbers, "seen": "|".join(seen), "verdict": verdict, "evidence": evidence}


class AgentTurn(BaseModel):
    """Verdicts and looks of one answer."""

    model_config = ConfigDict(extra="ignore", title="Turn")

    thought: Annotated[str, null_as("")] = ""
    settle: list[ClaimVerdict]
    looks: list[Look]


class SeeingTurn(AgentTurn):
    """Verdicts of one answer of a judge that sees the image, and the places that it wants to see enlarged."""

    thought: SkipJsonSchema[Annotated[str, null_as("")]] = ""
    settle: list[Annotated[SeenVerdict, WithJsonSchema({"type": "string"})]]  # type: ignore[assignment]
    looks: list[
        Annotated[
            Look,
            BeforeValidator(lambda value: {"tool": "zoom", "box": value} if isinstance(value, list) else value),
            WithJsonSchema({"type": "array", "items": {"type": "number"}}),
        ]
    ]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The result of one look; `failed` is the status of one without a result."""

    number: int
    request: LookRequest
    observation: Observation = _NOTHING
    failed: str = ""

    @property
    def id(self) -> str:
        return f"E{self.number}"

    @property
    def usable(self) -> bool:
        """Return True if it can settle a claim."""
        return not self.failed

    @property
    def shown(self) -> str:
        if self.observation.items:
            return self.lines_shown(self.observation.items, "inventory of all that is in the image")
        text = f"brought nothing ({self.failed})" if self.failed else fenced(self.observation.text)
        return f"{self.id} {fenced(self.request.shown)}: {text}"

    def lines_shown(self, wanted: Sequence[InventoryItem], what: str) -> str:
        """Write lines of an inventory, each with the id by which a verdict cites it."""
        lines = [f"{self.id}.{n} {item.shown}" for n, item in enumerate(self.observation.items, 1) if item in wanted]
        how = f"for a claim that is not met, or rests on a line marked (unsure), cite the line ({self.id}.1)"
        return "\n".join([f"{self.id} {what}; {how}:", *lines])

    def item(self, number: int) -> InventoryItem | None:
        """Return a line of an inventory, counted from 1; None if there is no such line."""
        items = self.observation.items
        return items[number - 1] if 1 <= number <= len(items) else None

    def to_json(self) -> EvidenceRow:
        return EvidenceRow(
            id=self.id,
            tool=self.request.tool,
            question=self.request.questions,
            box=list(self.request.box) if self.request.box else None,
            text=self.observation.text,
            failed=self.failed,
            cut=self.observation.cut,
            settles=self.usable,
            source=self.observation.source,
        )


@dataclass(frozen=True, slots=True)
class SettledClaim:
    """The verdict on a claim, the number of the evidence that settled it, and the verdicts it replaced.

    Attributes:
        item: The line of the inventory that settled it.
        seen: The judge's observation there, if it sees the image itself.
    """

    verdict: str
    evidence: int
    before: tuple[tuple[str, int], ...] = ()
    item: InventoryItem | None = None
    seen: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """The image, or an enlarged part of it, that a judge is shown, and the number of the evidence that it is."""

    file: Path
    evidence: int
    what: str


@dataclass(slots=True)
class Conversation:
    """A conversation with an orchestrator that calls tools.

    Attributes:
        opening: The variables of its template.
        turns: The messages after the template, up to the orchestrator's last one.
        calls: The tool calls of that last message.
        places: For each call the index of its look in the turn, None for a verdict, or why it could not be parsed.
        outcomes: For each call its result, in words.
    """

    opening: Json
    turns: list[Message] = field(default_factory=list)
    calls: tuple[ToolCall, ...] = ()
    places: list[int | str | None] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LookBounds:
    """When looking ends.

    Attributes:
        looks: Maximum number of looks, the first one included.
        cost: Most USD by list price; None: no bound.
        point_worth: USD that a point of the score is worth: a look that can change less than it costs is not taken; None: any
            price.
    """

    looks: int
    cost: float | None = None
    point_worth: float | None = None


@dataclass(frozen=True, slots=True)
class Verification:
    """Verdicts that rest on the description alone and are looked at once more.

    Attributes:
        claims: Numbers of their claims.
        since: Number of looks when it began: later observations verify, and so does a part enlarged since a verdict.
    """

    claims: tuple[int, ...]
    since: int


@dataclass(slots=True)
class AgentState:
    """The state of the loop on one image.

    Attributes:
        first_look: Its first look.
        look_price: The cost of a look so far, with all questions that followed from it; USD by list price.
        pictures: The pictures for a judge that sees the image: the image, its parts, and the parts that it wanted to see
            enlarged.
        places: The proposals of a detector; None if none is configured.
        prompt: The prompt, for a judge that sees the image.
        verified: Claims with a verdict that was looked at once more.
        doubted: Claims with a verdict that was refused because the words seen contradict it; the next verdict counts.
    """

    bounds: LookBounds
    first_look: FirstLook = "description"
    look_price: float = 0.0
    pictures: list[Picture] = field(default_factory=list)
    places: Places | None = None
    claims: Claims = field(default_factory=lambda: Claims(()))
    settled: dict[int, SettledClaim] = field(default_factory=dict)
    evidence: list[Evidence] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    transcript: list[RoundRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failures: list[Unanswered] = field(default_factory=list)
    conversation: Conversation | None = None
    verification: Verification | None = None
    prompt: str = ""
    verified: set[int] = field(default_factory=set)
    doubted: set[int] = field(default_factory=set)
    stopped: str = ""

    @property
    def verdicts(self) -> dict[int, SettledClaim]:
        """The verdicts by claim: as settled, and not met if a thing that the claim is about is absent."""
        claims = self.claims.claims
        absent = absent_things(claims, {number: settled.verdict for number, settled in self.settled.items()})
        verdicts = dict(self.settled)
        for claim in claims:
            absences = [absent[thing] for thing in claim.things if thing in absent]
            if absences and not claim.introduces:
                verdicts[claim.number] = SettledClaim("not_met", self.settled[absences[0]].evidence)
        return verdicts

    def box_of(self, number: int) -> Box | None:
        """Return where a claim was settled; None where that is not known."""
        settled = self.verdicts.get(number)
        if settled is None:
            return None
        return settled.item.box if settled.item else self.evidence[settled.evidence - 1].request.box

    @property
    def open(self) -> list[Claim]:
        """The claims without a verdict."""
        settled = self.verdicts
        return [claim for claim in self.claims.claims if claim.number not in settled]

    def is_worth_a_look(self, claims: Sequence[Claim]) -> bool:
        """Return True if the points that verdicts on these claims may change are worth the price of a look."""
        weight = weights(self.claims.claims)
        points = sum(weight[claim.number] for claim in claims)
        return self.bounds.point_worth is None or points * self.bounds.point_worth >= self.look_price

    @property
    def on_parts(self) -> bool:
        """Whether verdicts are verified on parts of the image, by one who knows where they are."""
        return self.first_look != "description"

    @property
    def parallel(self) -> int:
        """Maximum number of looks in one round."""
        return PARALLEL // 2 if self.first_look == "sight" else PARALLEL

    def by_risk(self, claims: Sequence[Claim]) -> list[Claim]:
        """Order claims by how easily they are misread, the worst first, the others by a hash: of each place one claim.

        What a description says of a place was written without knowing the claim: there the hash alone decides.
        """
        ordered = sorted(claims, key=lambda claim: (-claim.risk if self.on_parts else 0, self._draw(claim)))
        places: dict[object, Claim] = {}
        for claim in ordered:
            places.setdefault(claim.place if self.on_parts else claim.number, claim)
        return list(places.values())

    def _draw(self, claim: Claim) -> bytes:
        """Draw a number for a claim: the same whenever it is judged, another for each image."""
        return hashlib.sha256(f"{self.evidence[0].observation.text}\n{claim.text}".encode("utf-8", "replace")).digest()

    @property
    def checkable(self) -> list[Claim]:
        """The claims whose verdicts can be verified: those with a weight, and on a part of the image none about style."""
        weight = weights(self.claims.claims)
        return [c for c in self.claims.claims if weight[c.number] and not (self.on_parts and c.kind == "style")]

    @property
    def risky(self) -> list[Claim]:
        """The claims that are most easily misread, of as many places as one look shows."""
        return self.by_risk([claim for claim in self.checkable if claim.risk])[:MOST_JOINED] if self.on_parts else []

    @property
    def unverified(self) -> list[Claim]:
        """The claims whose verdicts are to be looked at once more, and have not been."""
        wanted = self.verification
        if wanted is None:
            return []
        return [
            claim for claim in self.claims.claims if claim.number in wanted.claims and claim.number not in self.verified
        ]

    @property
    def to_verify(self) -> str:
        """The verdicts to be verified by another look, and how, as text for the judge; empty if there are none."""
        how = _VERIFY_BY_SIGHT if self.first_look == "sight" else _VERIFY.format(boxes=_BOXES[self.first_look])
        return f"Verify: {_numbers(self.unverified)}\n{how}" if self.unverified else ""

    def note(self, count: str, text: str) -> str:
        """Count a refusal, note it for the orchestrator's next turn, and return the (truncated) note."""
        self.counts[count] += 1
        line = shortened(text, _NOTE)
        if len(self.notes) < _NOTES and line not in self.notes:
            self.notes.append(line)
        return line

    def begin_round(self, thought: str, protocol: str = "") -> RoundRow:
        """Append the entry of a round to the transcript and return it."""
        entry = RoundRow(
            round=self.counts["rounds"],
            protocol=protocol,
            thought=shortened(thought, _THOUGHT),
            settled=[],
            looks=[],
            refused=[],
        )
        self.transcript.append(entry)
        return entry

    def _settled_lines(self) -> list[str]:
        """Write the verdicts, one line for all claims with the same verdict and evidence."""
        lines: dict[str, list[str]] = {}
        for number, settled in sorted(self.verdicts.items()):
            lines.setdefault(f"{settled.verdict} (E{settled.evidence})", []).append(str(number))
        return [f"{verdict}: {', '.join(numbers)}" for verdict, numbers in lines.items()]

    def _evidence_lines(self) -> list[str]:
        """Write the evidence; while verdicts are verified, of a first look only what these still need.

        Of an inventory these are the lines that they rest on; a description is needed until their places have been looked at.
        """
        if self.first_look == "sight":
            return self._picture_lines()
        if self.verification is None or self.open:
            return [evidence.shown for evidence in self.evidence]
        first, *later = self.evidence
        if self.first_look == "description":
            looked = any(evidence.usable for evidence in self.evidence[self.verification.since :])
            shown = f"{first.id} {fenced(first.request.shown)}: not shown again" if looked else first.shown
            return [shown, *[evidence.shown for evidence in later]]
        rests_on = [self.settled[claim.number].item for claim in self.unverified]
        lines = first.lines_shown(
            [item for item in rests_on if item], "the lines of the inventory that are to be verified"
        )
        return [lines, *[evidence.shown for evidence in later]]

    @property
    def pictures_shown(self) -> list[Picture]:
        """The pictures of a judge that sees the image: at first the image and its parts, later the image and newly enlarged parts.

        A claim that was left open is looked at in its own place, so the parts are not paid again. While verdicts are verified,
        newly enlarged parts are shown, else all that was enlarged since, else the image alone.
        """
        wanted = self.verification
        whole, *parts = self.pictures
        new = [part for part in parts if f"E{part.evidence}" in self.transcript[-1]["looks"]]
        if wanted is not None and not self.open:
            return new or [part for part in parts if part.evidence > wanted.since] or [whole]
        return [whole, *new]

    def _picture_lines(self) -> list[str]:
        """Write the content of each image, and for an image that is not sent again, the message in which it was sent."""
        shown = list(enumerate(self.pictures_shown, 1))
        lines = []
        for evidence in self.evidence:
            said = [f"picture {n} is {picture.what}" for n, picture in shown if picture.evidence == evidence.number]
            lines.append(f"{evidence.id}: {'; '.join(said) or f'{evidence.observation.text}, not shown again'}")
        return lines

    def variables(self, looks_left: int) -> Json:
        """Return the variables of the orchestrator's template, with texts truncated and escaped."""
        first, *later = self._evidence_lines()
        places = [self.places.shown] if self.places else []
        wanted = sorted({*self.open, *self.unverified}, key=lambda c: c.number) or self.claims.claims
        if self.first_look == "sight":
            claims: Json = {
                "prompt": numbered(self.prompt, wanted),
                "risky": "" if self.settled else _numbers(self.risky),
                "joined": MOST_JOINED,
                "places": 2 * MOST_PLACES,
            }
        else:
            claims = {
                "verdicts": self._settled_lines(),
                "claims": [
                    f"{c.number}. {'' if c.level == 'micro' else f'[{c.level}] '}{fenced(shortened(c.text, MAX_CLAIM))}"
                    for c in wanted
                ],
            }
        return {
            **claims,
            "evidence": [first, *filter(None, places), *later],
            "open": _numbers(self.open) if self.settled else "all",
            "notes": [fenced(note) for note in self.notes],
            "looks_left": looks_left,
            "parallel": self.parallel,
        }
