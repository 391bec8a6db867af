"""Claims, evidence and transcript of an agentic judge as JSON for the page; long texts once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from titjudge.core.score_parts import claims, evidence, objects, place, sequence, transcript
from titjudge.report.text_pool import Texts

Json = dict[str, Any]
DRAWN = frozenset({"claims", "evidence", "transcript"})
"""Parts of a score that `case` covers; the page lists the others."""


def case(parts: Mapping[str, Any], prompt: str, texts: Texts) -> Json | None:
    """Return claims with their span of the prompt, evidence and transcript; None where no claim was settled.

    Spans are in UTF-16 units, as in JavaScript. Malformed parts are left out, and never an error.
    """
    drawn = [_claim(each, prompt, texts) for each in claims(parts) if "verdict" in each]
    if not drawn:
        return None
    record: Json = {"claims": drawn}
    if looks := [_evidence(each, texts) for each in evidence(parts)]:
        record["evidence"] = looks
    if rounds := [_round(each, texts) for each in transcript(parts)]:
        record["rounds"] = rounds
    if parts.get("stopped"):
        record["stopped"] = str(parts["stopped"])
    return record


def _claim(claim: Mapping[str, Any], prompt: str, texts: Texts) -> Json:
    made: Json = {"n": _whole(claim.get("number")), "t": texts.add(str(claim.get("claim", "")))}
    made |= {key: str(claim[key]) for key in ("kind", "level", "verdict", "evidence") if claim.get(key)}
    if claim.get("seen"):
        made["seen"] = texts.add(f"{claim['seen']}{' (unsure)' if claim.get('sure') is False else ''}")
    span = claim.get("span")
    if isinstance(span, list | tuple) and len(span) == 2 and all(_whole(end) is not None for end in span):
        start, end = (min(max(int(at), 0), len(prompt)) for at in span)
        if start < end:
            made["at"] = [_units(prompt, start), _units(prompt, end)]
    before = [f"{one[0]} ({one[1]})" for one in sequence(claim.get("before")) if len(sequence(one)) == 2]
    return made | ({"before": before} if before else {})


def _evidence(evidence: Mapping[str, Any], texts: Texts) -> Json:
    made: Json = {"id": str(evidence.get("id", "")), "tool": str(evidence.get("tool", ""))}
    made |= {key: str(evidence[key]) for key in ("question", "failed", "source") if evidence.get(key)}
    if evidence.get("text"):
        made["t"] = texts.add(str(evidence["text"]))
    if (box := place(evidence.get("box"))) is not None:
        made["box"] = [round(value, 4) for value in box]
    if evidence.get("cut"):
        made["cut"] = 1
    return made


def _round(row: Mapping[str, Any], texts: Texts) -> Json:
    made: Json = {"n": _whole(row.get("round"))}
    if row.get("protocol"):
        made["by"] = str(row["protocol"])
    if row.get("thought"):
        made["t"] = texts.add(str(row["thought"]))
    settled = [
        [_whole(one.get("claim")), str(one.get("verdict", "")), str(one.get("evidence", ""))]
        for one in objects(row.get("settled"))
    ]
    for name, listed in (
        ("settled", settled),
        ("looks", list(map(str, sequence(row.get("looks"))))),
        ("refused", list(map(str, sequence(row.get("refused"))))),
    ):
        if listed:
            made[name] = listed
    return made


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _units(text: str, at: int) -> int:
    """Convert the index of a character to UTF-16 units."""
    return at if text.isascii() else len(text[:at].encode("utf-16-le", "surrogatepass")) // 2
