"""Claims, evidence and transcript of an agentic judge as JSON for the page; every long text is stored once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from titjudge.core.score_parts import claims, evidence, objects, place, sequence, transcript
from titjudge.core.serialization import without_surrogates
from titjudge.core.types import Json, Values

_WORTH = 40  # characters; splitting at shorter texts costs more than it saves


class Texts:
    """A table of texts, numbered from `first`. An entry is a string, or a list of numbers of entries to concatenate."""

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self.table: list[str | list[int]] = []
        self._plain: dict[str, int] = {}
        self._composed: dict[tuple[int, ...], int] = {}

    def add(self, text: str) -> int:
        """Return the number of a text, which is added if it is new."""
        text = without_surrogates(text)
        number = self._plain.get(text)
        if number is None:
            number = self._plain[text] = self.first + len(self.table)
            self.table.append(text)
        return number

    def compose(self, text: str, fragments: Sequence[str]) -> int:
        """Return the number of a text; the `fragments` that it contains are stored once."""
        found = {fragment for fragment in fragments if len(fragment) >= _WORTH and fragment in text}
        pieces = _split(text, sorted(found, key=len, reverse=True)) if found else []
        if len(pieces) < 2:
            return self.add(text)
        numbers = tuple(self.add(piece) for piece in pieces)
        number = self._composed.get(numbers)
        if number is None:
            number = self._composed[numbers] = self.first + len(self.table)
            self.table.append(list(numbers))
        return number

    def get(self, number: int) -> str:
        """Return the text of a number."""
        entry = self.table[number - self.first]
        return entry if isinstance(entry, str) else "".join(self.get(part) for part in entry)


def _split(text: str, fragments: Sequence[str]) -> list[str]:
    """Split a text at the fragments, which are separate pieces."""
    if not fragments:
        return [text] if text else []
    first, rest = fragments[0], fragments[1:]
    pieces: list[str] = []
    for number, between in enumerate(text.split(first)):
        if number:
            pieces.append(first)
        pieces.extend(_split(between, rest))
    return pieces


DRAWN = frozenset({"claims", "evidence", "transcript"})
"""Parts of a score that `case` covers; the page lists the others."""


def case(parts: Values, prompt: str, texts: Texts) -> Json | None:
    """Return claims with their span of the prompt, evidence and transcript; None if no claim was decided.

    Spans are in UTF-16 units, as in JavaScript. Malformed parts are left out, and never an error.
    """
    drawn = [_claim(row, prompt, texts) for row in claims(parts) if "verdict" in row]
    if not drawn:
        return None
    record: Json = {"claims": drawn}
    if looks := [_evidence(row, texts) for row in evidence(parts)]:
        record["evidence"] = looks
    if rounds := [_round(row, texts) for row in transcript(parts)]:
        record["rounds"] = rounds
    if parts.get("stopped"):
        record["stopped"] = str(parts["stopped"])
    return record


def _claim(claim: Values, prompt: str, texts: Texts) -> Json:
    """Write a claim: its text, verdict, evidence, the observation, its span of the prompt, and verdicts before the last."""
    record: Json = {"n": _whole(claim.get("number")), "t": texts.add(str(claim.get("claim", "")))}
    record |= {key: str(claim[key]) for key in ("kind", "level", "verdict", "evidence") if claim.get(key)}
    if claim.get("thing"):
        record["of"] = str(claim["thing"])
    if claim.get("seen"):
        record["seen"] = texts.add(f"{claim['seen']}{' (unsure)' if claim.get('sure') is False else ''}")
    span = claim.get("span")
    if isinstance(span, list | tuple) and len(span) == 2 and all(_whole(end) is not None for end in span):
        start, end = (min(max(int(index), 0), len(prompt)) for index in span)
        if start < end:
            record["at"] = [_units(prompt, start), _units(prompt, end)]
    before = [
        f"{verdict[0]} ({verdict[1]})" for verdict in sequence(claim.get("before")) if len(sequence(verdict)) == 2
    ]
    return record | ({"before": before} if before else {})


def _evidence(evidence: Values, texts: Texts) -> Json:
    """Write what a tool of the judge found, and where in the image."""
    record: Json = {"id": str(evidence.get("id", "")), "tool": str(evidence.get("tool", ""))}
    record |= {key: str(evidence[key]) for key in ("question", "failed", "source") if evidence.get(key)}
    if evidence.get("text"):
        record["t"] = texts.add(str(evidence["text"]))
    if (box := place(evidence.get("box"))) is not None:
        record["box"] = [round(value, 4) for value in box]
    if evidence.get("cut"):
        record["cut"] = 1
    return record


def _round(row: Values, texts: Texts) -> Json:
    """Write a round of the judge: its thoughts, decisions, looks and refusals."""
    record: Json = {"n": _whole(row.get("round"))}
    if row.get("protocol"):
        record["by"] = str(row["protocol"])
    if row.get("thought"):
        record["t"] = texts.add(str(row["thought"]))
    settled = [
        [_whole(verdict.get("claim")), str(verdict.get("verdict", "")), str(verdict.get("evidence", ""))]
        for verdict in objects(row.get("settled"))
    ]
    for name, listed in (
        ("settled", settled),
        ("looks", list(map(str, sequence(row.get("looks"))))),
        ("refused", list(map(str, sequence(row.get("refused"))))),
    ):
        if listed:
            record[name] = listed
    return record


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _units(text: str, index: int) -> int:
    """Convert the index of a character to UTF-16 units."""
    return index if text.isascii() else len(text[:index].encode("utf-16-le", "surrogatepass")) // 2
