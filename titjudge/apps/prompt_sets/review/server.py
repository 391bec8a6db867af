"""`prompts review`: the page where people accept, edit or reject prompts, and their decisions in FILE.review.jsonl beside the set.

The file is append-only: each person's last decision on a prompt counts, and the majority of the people decides. A decision is synced to disk before the page shows the next prompt.
It belongs to the exact line that was reviewed: if the line has changed, its prompt is undecided again.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

import titjudge.apps.label as label
from titjudge.apps.prompt_sets.recipes._drafts import IN_ENGLISH, Checked, not_english
from titjudge.apps.prompt_sets.recipes.facets import Bilingual
from titjudge.apps.prompt_sets.recipes.long_graph import ENTITIES_SAID, IN_INTERVAL, length_problems, unsaid_entities
from titjudge.apps.prompt_sets.recipes.six_block import SixBlocks
from titjudge.apps.prompt_sets.recipes.tiif import CONCEPTS_KEPT, unsaid_concepts
from titjudge.apps.prompt_sets.review import PORT
from titjudge.apps.prompt_sets.review.annotations import corrected, disagreements, fields_of, lines_of, majority
from titjudge.core.errors import DataError, UserError, must_be
from titjudge.core.files import Appender, scan_jsonl, write_jsonl
from titjudge.web import PageAddress
from titjudge.web.http_guard import App, json_response, read_json, same
from titjudge.web.page_app import json_of, keyed_route, page_app, serve_page

Line = dict[str, Any]


def _facet_texts(line: Line) -> Checked:
    draft = Bilingual(prompt_en=line["prompt"], prompt_zh=line["prompt_zh"])
    return draft.checked_texts(line["length"] == "long")


def _interval(line: Line) -> Checked:
    fewest, most = map(int, line["interval"].split("-"))
    return {IN_INTERVAL: length_problems(line["prompt"], fewest, most)}


_CHECKS: tuple[Callable[[Line], Checked], ...] = (
    _facet_texts,
    _interval,
    lambda line: {IN_ENGLISH: not_english(line["prompt"])},
    lambda line: SixBlocks(**line["blocks"], prompt=line["prompt"]).checked(),
    lambda line: {CONCEPTS_KEPT: unsaid_concepts(line["prompt"], line["concepts"])},
    lambda line: {ENTITIES_SAID: unsaid_entities(line["graph"]["entities"], line["prompt"])},
)


def check_again(line: Line) -> dict[str, list[str] | None]:
    """Run the checks that a line of `prompts make` names on its present prompt.

    Returns:
        The problems by check; None for a check that code cannot do: a model made it, or it is about the whole set.
    """
    problems: Checked = {}
    for check in _CHECKS:  # a check of another recipe fails because its keys are missing
        with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
            problems |= check(line)
    return {str(name): problems.get(str(name)) for name in line.get("checks") or ()}


ACCEPTED, REJECTED = "accepted", "rejected"
BY_PERSON = "accepted by a person"
_KEYS = ("prompt_id", "decision", "reviewer", "time", "line")  # of a decision


class Review:
    """A set under review. Methods may be called from any thread.

    Attributes:
        lines: The prompts that can be reviewed.
        problems: The faults of the other lines.

    Raises:
        DataError: The set cannot be read or has no prompt, or the file of decisions is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.file = path, Path(f"{path}.review.jsonl")
        self.lines: list[Line] = []
        self.problems: list[str] = []
        prompt_ids: set[str] = set()
        for number, line in scan_jsonl(path, ("prompt_id", "prompt")):
            if isinstance(line, DataError):
                self.problems.append(str(line))
            elif problem := _problem(line, prompt_ids):
                self.problems.append(f"{path}:{number}: {problem}")
            else:
                prompt_ids.add(line["prompt_id"])
                self.lines.append(line)
        if not self.lines:
            raise DataError(
                "; ".join(
                    ["no line is a JSON object with prompt_id and prompt. Write one per line", *self.problems[:1]]
                ),
                path,
            )
        self._fingerprints = {line["prompt_id"]: fingerprint(line) for line in self.lines}
        self._parts = {line["prompt_id"]: lines_of(line) for line in self.lines}
        self.decisions()

    def decisions(self) -> dict[str, dict[str, Line]]:
        """Read each person's last decision on each prompt, by prompt_id and person, except on lines that have changed."""
        last: dict[str, dict[str, Line]] = {}
        if self.file.exists():
            for number, decision in scan_jsonl(self.file, _KEYS, whole=True):
                if isinstance(decision, DataError):
                    raise decision
                texts = {key: decision.get(key, "") for key in (*_KEYS, "text", "reason")}
                if not all(isinstance(text, str) for text in texts.values()) or texts["decision"] not in (
                    ACCEPTED,
                    REJECTED,
                ):
                    raise DataError(
                        must_be("the line", f"a decision ({ACCEPTED} or {REJECTED}) with texts", texts),
                        self.file,
                        number,
                    )
                if self._fingerprints.get(decision["prompt_id"]) == decision["line"]:
                    try:
                        corrected(self._parts[decision["prompt_id"]], decision.get("parts", {}))
                    except DataError as error:
                        raise DataError(str(error), self.file, number) from error
                    last.setdefault(decision["prompt_id"], {})[decision["reviewer"]] = decision
        return last

    def decide(
        self,
        place: int,
        fingerprint: str,
        decision: str,
        reviewer: str,
        *,
        reason: str = "",
        text: str = "",
        parts: Any = None,
    ) -> None:
        """Write a decision to disk.

        Args:
            place: Index of the prompt.
            fingerprint: Fingerprint of the line that the person saw.
            decision: Accepted or rejected.
            reviewer: Name of the person.
            reason: Why the prompt is rejected.
            text: The edited prompt; empty if it is accepted unchanged.
            parts: Corrected facets, graph or questions, as lines by part (`annotations`).

        Raises:
            DataError: The decision is malformed, or the line has changed.
            OSError: It cannot be written.
        """
        line, text, reason = self.lines[place], text.strip(), reason.strip()
        if fingerprint != self._fingerprints[line["prompt_id"]]:
            raise DataError(f"the prompt '{line['prompt_id']}' has changed. Load the page again")
        if (
            decision not in (ACCEPTED, REJECTED)
            or (decision == REJECTED) is not bool(reason)
            or ((text or parts) and reason)
        ):
            raise DataError(
                must_be("'decision'", f"'{ACCEPTED}', with or without a text, or '{REJECTED}' with a reason", decision)
            )
        record = {"prompt_id": line["prompt_id"], "decision": decision}
        record |= {"reason": reason} if reason else {}
        record |= {"text": text} if text and text != line["prompt"].strip() else {}
        record |= {"parts": changed} if parts and (changed := corrected(lines_of(line), parts)) else {}
        now = datetime.now(UTC).isoformat(timespec="seconds")
        out = Appender(self.file, sync=True)
        try:
            out.add({**record, "reviewer": reviewer, "time": now, "line": fingerprint})
        finally:
            out.close()

    def show(self, place: int | None, reviewer: str) -> dict[str, Any]:
        """Describe the prompt at an index for the page of a person; without one, the first that they have not decided.

        The decisions of others are shown only after the person has decided.
        """
        everyone = self.decisions()
        decided = {name: people[reviewer] for name, people in everyone.items() if reviewer in people}
        if place is None or not 0 <= place < len(self.lines):
            place = self._undecided_after(-1, decided) or 0
        line = self.lines[place]
        decision = decided.get(line["prompt_id"], {})
        parts = lines_of(line) | decision.get("parts", {})
        edited = {**line, "prompt": decision.get("text", line["prompt"]), **fields_of(decision.get("parts", {}))}
        people = list(everyone.get(line["prompt_id"], {}).values()) if decision else []
        accepting = [lines_of(line) | each.get("parts", {}) for each in people if each["decision"] == ACCEPTED]
        counts = Counter(decision["decision"] for decision in decided.values())
        return {
            "file": self.path.name,
            "at": place,
            "total": len(self.lines),
            ACCEPTED: counts[ACCEPTED],
            REJECTED: counts[REJECTED],
            "edited": sum("text" in decision or "parts" in decision for decision in decided.values()),
            "next": self._undecided_after(place, decided),
            "seen": self._fingerprints[line["prompt_id"]],
            "line": line | fields_of(decision.get("parts", {})),
            "decision": decision,
            "parts": parts,
            "people": people,
            "disagreements": disagreements(accepting),
            "rechecked": check_again(edited) if "text" in decision or "parts" in decision else None,
        }

    def _undecided_after(self, place: int, decided: dict[str, Line]) -> int | None:
        count = len(self.lines)
        following = ((place + step) % count for step in range(1, count + 1))
        return next((other for other in following if self.lines[other]["prompt_id"] not in decided), None)

    def export(self, out: Path, *, accepted_only: bool = False) -> Counter[str]:
        """Write the prompts that most people accept as JSON lines; edited ones are marked and keep the checks that they pass again.

        Returns:
            How many are accepted, edited, rejected and undecided. A prompt without a majority is undecided.

        Raises:
            UserError: Some are undecided (unless `accepted_only`), none is accepted, or `out` is the set itself.
        """
        if out.resolve() in (self.path.resolve(), self.file.resolve()):
            raise UserError(f"--out {out} would overwrite the set or its decisions. Choose another file")
        everyone = self.decisions()
        decided = {
            name: merged
            for line in self.lines
            if (merged := _merged(line, everyone.get(name := line["prompt_id"], {})))
        }
        undecided = [line["prompt_id"] for line in self.lines if line["prompt_id"] not in decided]
        if undecided and not accepted_only:
            names = ", ".join(undecided[:3]) + (", ..." if len(undecided) > 3 else "")
            raise UserError(
                f"{len(undecided)} of {len(self.lines)} prompts are undecided, or without a majority ({names}). Review them, or add "
                "--accepted-only"
            )
        counts = Counter({"undecided": len(undecided)})
        rows = []
        for line in self.lines:
            decision = decided.get(line["prompt_id"], {})
            counts[decision.get("decision", "")] += 1
            if decision.get("decision") == ACCEPTED:
                counts["edited"] += "text" in decision or "parts" in decision
                rows.append(_final(line, decision))
        if not rows:
            raise UserError(f"{self.path}: no prompt is accepted yet. Review them with `prompts review {self.path}`")
        write_jsonl(out, rows)
        return counts


def fingerprint(line: Line) -> str:
    """Hash a line, to recognise it again."""
    return hashlib.sha256(orjson.dumps(line, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def _problem(line: Line, prompt_ids: set[str]) -> str:
    """Describe what is wrong with a line; empty if nothing is. `prompt_ids` are the ids of earlier lines."""
    for key in ("prompt_id", "prompt"):
        if not isinstance(line[key], str) or not line[key].strip():
            return f"'{key}' must be a text"
    return f"another prompt has the prompt_id '{line['prompt_id']}'" if line["prompt_id"] in prompt_ids else ""


def _merged(line: Line, people: dict[str, Line]) -> Line:
    """Join the decisions of people on a line to one, by their majority; empty if there is none.

    The text is the most frequent one among accepting people, and a corrected line counts if more than half of them have it.
    """
    counts = Counter(each["decision"] for each in people.values())
    decision = next((name for name, count in counts.items() if 2 * count > len(people)), "")
    if not decision:
        return {}
    votes = {"reviewers": list(people), "accepted": counts[ACCEPTED], "rejected": counts[REJECTED]}
    merged = {"decision": decision, "votes": votes, "time": max(each["time"] for each in people.values())}
    if decision == REJECTED:
        return merged
    accepting = [each for each in people.values() if each["decision"] == ACCEPTED]
    texts = Counter(each.get("text", "") for each in accepting)
    text = next((text for text, count in texts.items() if 2 * count > len(accepting)), None)
    if text is None:
        return {}
    own = lines_of(line)
    everyones = [own | each.get("parts", {}) for each in accepting]
    changed = {part for each in accepting for part in each.get("parts", {})}
    parts = {part: lines for part, lines in majority(everyones).items() if part in changed and lines != own[part]}
    if not all(parts.values()):
        return {}
    differ = disagreements(everyones)
    return (
        merged
        | ({"text": text} if text else {})
        | ({"parts": parts} if parts else {})
        | ({"disagreements": differ} if differ else {})
    )


def _final(line: Line, decision: Line) -> Line:
    """Make the exported line of an accepted prompt."""
    checks = [str(check) for check in line.get("checks") or ()]
    review = {**decision["votes"], "time": decision["time"]}
    final = {**line, "review": review | {key: decision[key] for key in ("disagreements",) if key in decision}}
    if "text" in decision or "parts" in decision:
        final |= {"prompt": decision.get("text", line["prompt"]), **fields_of(decision.get("parts", {}))}
        rechecked = check_again(final)
        checks = [name for name in checks if rechecked[name] == []]
        final["edited"] = {"was": line["prompt"], "checks_dropped": [name for name in rechecked if name not in checks]}
        if "parts" in decision:
            final["edited"]["parts_were"] = {part: lines_of(line)[part] for part in decision["parts"]}
    final["checks"] = [*checks, BY_PERSON]
    return final


_STATIC = Path(__file__).parent / "static"
_LABEL_CSS = Path(label.__file__).parent / "static" / "label.css"


def serve_review(
    review: Review,
    *,
    reviewers: Sequence[str],
    at: PageAddress,
    ready: Callable[[list[str]], None] | None = None,
) -> None:
    """Serve the review of a set of prompts until Ctrl-C.

    Args:
        review: The set and its decisions.
        reviewers: The names under which decisions are recorded; each has a link.
        at: Address of the page. Beyond loopback everyone who has the link can decide.
        ready: Called with the links once the server listens.

    Raises:
        UserError: The address cannot be used.
    """
    keys = {secrets.token_urlsafe(24): reviewer for reviewer in reviewers}
    serve_page(build_app(review, keys, at), [f"#{key}" for key in keys], at, PORT, ready)


def build_app(review: Review, people: Mapping[str, str], at: PageAddress) -> App:
    """Make the page and its two endpoints as an ASGI application; `people` are the reviewers by the keys that open it."""
    page = _Endpoints(review)

    def keys(token: str) -> str | None:
        return next((reviewer for key, reviewer in people.items() if same(key, token)), None)

    names = {"/": "review.html", "/review.css": "review.css", "/review.js": "review.js"}
    files = {path: _STATIC / name for path, name in names.items()} | {"/label.css": _LABEL_CSS}
    routes = [
        keyed_route("/api/prompt", page.prompt, keys),
        keyed_route("/api/decide", page.decide, keys, method="POST"),
    ]
    return page_app(files, routes, at)


class _Endpoints:
    """The endpoints; each is called with the request and the name of the reviewer."""

    def __init__(self, review: Review) -> None:
        self._review = review

    async def prompt(self, request: Any, reviewer: str) -> Any:
        place = request.query_params.get("at", "")
        return await json_of(self._review.show, int(place) if place.isdecimal() and len(place) < 10 else None, reviewer)

    async def decide(self, request: Any, reviewer: str) -> Any:
        try:
            return await json_of(self._decide, await read_json(request), reviewer)
        except OSError as error:
            return json_response({"error": f"not stored: {error.strerror or error}"}, 507)

    def _decide(self, body: Any, reviewer: str) -> dict[str, Any]:
        fields = body if isinstance(body, dict) else {}
        place, texts = fields.get("at"), {key: fields.get(key, "") for key in ("seen", "decision", "reason", "text")}
        if type(place) is not int or not 0 <= place < len(self._review.lines):
            raise DataError(must_be("'at'", f"a whole number below {len(self._review.lines)}", place))
        if not all(isinstance(text, str) for text in texts.values()):
            raise DataError(must_be("seen, decision, reason and text", "texts", [*texts.values()]))
        self._review.decide(
            place, texts.pop("seen"), texts.pop("decision"), reviewer, **texts, parts=fields.get("parts")
        )
        return self._review.show(place, reviewer)
