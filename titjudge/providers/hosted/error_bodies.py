"""Read the error of a server, however many gateways have wrapped it.

Forms of OpenAI, Azure, Google, Anthropic, FastAPI (`detail`), Cloudflare (`errors`), LiteLLM's proxy (the vendor's JSON
inside a message), and OpenRouter (`metadata.raw`, openrouter.ai/docs/api-reference/errors).

The wordings of refused parameters are of OpenAI, Azure, Anthropic, Bedrock, Google, Mistral, Groq, vLLM and litellm, each as its
service answers it. An error may repeat words of the prompt, so a wording counts only if no quoted text comes before it.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from titjudge.core.patterns import lazy_pattern
from titjudge.core.types import FailureKind, Values
from titjudge.providers.base import SAMPLING_PARAMETERS
from titjudge.providers.hosted.failures import LONGEST_WAIT, kind_of_status
from titjudge.providers.hosted.http import parsed

_MESSAGES = tuple("message Message msg detail error error_message errorMessage error_msg error_description raw".split())
_WRAPPERS = tuple("error errors detail details metadata innererror inner_error body response cause".split())
_CODES = tuple("code type __type status statusCode reason error_code error_type".split())
_SIGNS = frozenset({*_MESSAGES, "errors", "code", "metadata"})  # keys of which an error has at least one
_NO_FAILURE = {"", "0", "200", "none", "null", "false", "ok", "success", "[]", "{}"}
_DEEPEST, _LONGEST, _MOST = 20, 20_000, 12  # levels, characters of JSON within a text, entries of a list and messages
_BEFORE_JSON = lazy_pattern(r"""[^'"{}\[\]\n]{0,120}?(?:(?:\b[bB]|^)['"])?(?=[{\[])""")  # `400 - b'{"error": ...`
_NO_QUOTA = set(
    (
        "insufficient_quota billing_hard_limit_reached billing_not_active billing_disabled "
        "account_deactivated budget_exceeded exceeded_current_quota_error arrearage "
        "allocationquota.freetieronly blocked_api_access"
    ).split()
)
_NO_CREDIT = lazy_pattern(
    r"""^[^'"`\n]*?(?:\b(?:credits?|funds|balance|free (?:tier|allocation))\b[^.'"`]{0,60}\b(?:too low|insufficient|not enough|depleted|exhausted|exceeded|used up)"""
    r"""|\b(?:insufficient|not enough|out of|no (?:more )?|used all (?:available )?)(?: account)? ?(?:credits?|funds|balance)\b"""
    r"""|\b(?:budget|spend(?:ing)?|usage|credit)\b[^.'"`]{0,20}\b(?:limits?|cap|exceeded)\b(?! per (?:second|minute))|over budget|exceeded[ \w]{0,20}\b(?:budget|credits)\b"""
    r"""|(?:requires?|enable) billing|good standing|out of call volume quota|余额不足|欠费)""",
    re.IGNORECASE,
)
_NO_MODEL = {"model_not_found", "model_decommissioned", "model_deprecated", "model_not_available"}
_FILTERED = {  # OpenAI and Azure, Alibaba, xAI
    "content_filter",
    "content_policy_violation",
    "responsibleaipolicyviolation",
    "moderation_blocked",
    "data_inspection_failed",
    "safety_check_failed",
    "1301",
}
_FILTERS = lazy_pattern(
    r"""^[^'"`\n]*\b(?:content (?:management |filter)|content policy|safety system|moderation|inappropriate content|flagged (?:as|for|by)"""
    r"""|was filtered|nsfw|sensitive content|guardrails?\b[^.'"`]{0,40}\b(?:violat|block|fail|interven)|violat\w+[^.'"`]{0,20}\bguardrail)|^[^'"`\n]*(?:敏感|不安全|违规)""",
    re.IGNORECASE,
)
LONG_TERM = lazy_pattern(
    r"\b(?:per|a|each)[ _-](?:day|month)|Per(?:Day|Month)|\b(?:daily|monthly)\b|\((?:RPD|TPD)\)|\btoday\b",
    re.IGNORECASE,
)
_RANGE = lazy_pattern(
    r"invalid value|must be|should be|between|at (?:most|least)|(?:greater|less) than|range|(?:max|min)imum",
    re.IGNORECASE,
)
PASSING = "json_validate_failed"  # Groq: the model's JSON did not match the schema this time
_REFUSED_PARAMETER = {"unsupported_parameter", "unsupported_value", "unknown_parameter", "extra_forbidden"}
_STATUSES = {
    "invalid_request_error": 400,
    "invalid_argument": 400,
    "bad_request": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "unauthenticated": 401,
    "unauthorized": 401,
    "insufficient_quota": 402,
    "billing_error": 402,
    "permission_error": 403,
    "permission_denied": 403,
    "forbidden": 403,
    "not_found_error": 404,
    "not_found": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "too_many_requests": 429,
    "resource_exhausted": 429,
    "unavailable": 503,
    "overloaded_error": 529,
}
_WORDED = (
    (
        lazy_pattern(
            r"not authenticated|unauthori[sz]ed|(?:invalid|incorrect|missing) (?:api[ _-]?)?(?:key|token)",
            re.IGNORECASE,
        ),
        401,
    ),
    (lazy_pattern(r"rate limit|too many requests", re.IGNORECASE), 429),
    (lazy_pattern(r"overloaded|over capacity|temporarily|try again", re.IGNORECASE), 503),
)


MAY_BE_LEFT_OUT = frozenset(
    "temperature top_p top_k min_p seed frequency_penalty presence_penalty repetition_penalty".split()
)
_BEFORE = r"^[^'\"`\n]{0,90}?"  # no quotation: it may be the prompt's
_NAME = r"(?P<quote>[`'\"]?)\b(?P<name>[a-z][a-zA-Z_]+)\b(?P=quote)"
_REFUSALS = [
    lazy_pattern(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_BEFORE}\b(?:unsupported|unrecognized|unknown|unexpected)(?: request)? (?:parameter|value|argument|field|name|option|"
        rf"keyword argument)s?(?: supplied)?:? {_NAME}",
        rf"{_BEFORE}{_NAME}(?: parameter| argument)?(?: is|:) (?:not (?:supported|allowed|permitted|enabled)|unsupported|deprecated|"
        rf"no longer supported|extra (?:inputs|fields) (?:are )?not permitted)",
        rf"{_BEFORE}{_NAME} (?:does not support|may only be set|can only be set)",
        rf"{_BEFORE}[`'\"]*temperature[`'\"]* and {_NAME} cannot both be",
        rf"{_BEFORE}(?:does not|doesn't|do not|don't) support(?: parameters?)?:? ?\[?{_NAME}",
        r"extra_forbidden['\"], ['\"]loc['\"]: [\[(]['\"]body['\"], ['\"](?P<name>\w+)['\"]",
    )
]
_SAME = {
    "topP": "top_p",
    "topK": "top_k",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
    "thinkingBudget": "thinking_budget",
    "thinkingLevel": "thinking_level",
}
_PARAMETERS = SAMPLING_PARAMETERS | {"max_completion_tokens"}


def refused_parameter(message: str) -> str:
    """Return the name of the parameter that an error refuses, "" if it refuses none.

    >>> refused_parameter("Unsupported value: 'temperature' does not support 0 with this model.")
    'temperature'
    """
    names = (match["name"] for pattern in _REFUSALS if (match := pattern.search(message.strip()[:600])) is not None)
    return next((name for name in (_SAME.get(name, name) for name in names) if name in _PARAMETERS), "")


@dataclass(slots=True)
class ServerError:
    """An error without its wrappers.

    Attributes:
        messages: Its texts, the outermost first.
        codes: Its codes, types and reasons, in lower case.
        param: The parameter that a field of it names.
        vendor: The vendor behind a gateway, if the gateway names it.
        moderated: A field reports that the input was flagged.
        generated: The model's text, if the server returns it with the error.
        details: Google's `details`.
    """

    messages: list[str] = field(default_factory=list)
    codes: set[str] = field(default_factory=set)
    param: str = ""
    vendor: str = ""
    moderated: bool = False
    generated: str = ""
    details: list[Values] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Its texts in one, with the vendor's name."""
        first, *further = dict.fromkeys(self.messages) if self.messages else ["no text"]
        return ": ".join([f"{first} ({self.vendor})" if self.vendor else first, *further])

    @property
    def status(self) -> int:
        """The HTTP status that its codes, or common words, stand for; 500 if they have no meaning."""
        numbers = [int(code) for code in self.codes if code.isdecimal() and len(code) == 3 and 400 <= int(code) < 600]
        named = (_STATUSES[code] for code in sorted(self.codes) if code in _STATUSES)
        worded = (status for words, status in _WORDED if any(map(words.search, self.messages)))
        return max(numbers, default=0) or next(named, 0) or next(worded, 500)

    @property
    def wait(self) -> float | None:
        """Read the seconds of "Please try again in 1m2.5s" or "retry after 450ms"; it is there even if a gateway drops the header."""
        match = re.search(
            r"(?:try again|retry)\w* (?:in|after) (?:(\d{1,4})h)?(?:(\d{1,4})m)?(\d{1,9}(?:\.\d+)?) ?(ms|milliseconds?|s|sec|seconds?)\b",
            self.text,
            re.IGNORECASE,
        )
        if not match:
            return None
        seconds = float(match[3]) / (1000 if match[4].startswith("m") else 1)
        return min(3600 * int(match[1] or 0) + 60 * int(match[2] or 0) + seconds, LONGEST_WAIT)

    @property
    def refused(self) -> str:
        """The parameter that it refuses, by a field or in words; empty if it refuses none."""
        name = self.param.rpartition(".")[2]
        if name and self.codes & _REFUSED_PARAMETER:
            return name
        worded = next(filter(None, map(refused_parameter, self.messages)), "")
        return worded or (name if name in MAY_BE_LEFT_OUT and not _RANGE.search(self.text) else "")

    def filtered(self, status: int) -> bool:
        """Return True if it reports that a content filter refused the request."""
        return status in (400, 403, 422, 446, 451, 500, 502) and (
            self.moderated
            or not self.codes.isdisjoint(_FILTERED)
            or (status < 500 and any(map(_FILTERS.search, self.messages)))
        )

    def kind(self, status: int) -> FailureKind:
        """Classify it by an HTTP status and by its codes."""
        if not self.codes.isdisjoint(_NO_QUOTA):
            return FailureKind.FATAL
        if self.filtered(status):
            return FailureKind.REFUSED
        if status in (400, 402, 403, 429, 500) and any(map(_NO_CREDIT.search, self.messages)):
            return FailureKind.FATAL
        codes = _NO_MODEL if status == 404 else {*_NO_MODEL, "unsupported_parameter"} if status == 400 else set()
        if codes & self.codes or (status == 400 and "invalid model" in self.text.lower()):
            return FailureKind.FATAL
        return kind_of_status(status)


def read(body: bytes) -> ServerError:
    """Read the body of an error; of a body that is not JSON, its text."""
    found = ServerError()
    try:
        content = parsed(body)
    except (ValueError, RecursionError):
        content = body[:2000].decode("utf-8", "replace")
    _read(content, found, 0)
    if not found.messages:
        found.messages.append(", ".join(sorted(found.codes)) or body[:2000].decode("utf-8", "replace") or "no text")
    return found


def holds_error(data: Any) -> bool:
    """Whether the JSON of an answer with a status of success, which has no choices, is an error."""
    if isinstance(data, list):
        data = data[0] if data else None
    return isinstance(data, Mapping) and (
        any(data.get(name) for name in ("error", "errors", "detail"))
        or any(
            isinstance(data.get(name), str) and data[name] for name in ("message", "msg", "error_message", "error_msg")
        )
    )


def says_failure(error: Any) -> bool:
    """Return True if the `error` next to a whole answer reports a failure: some gateways write `code: 0` or `success`."""
    if isinstance(error, str):
        error = {"message": error}
    said = [error.get(name) for name in _SIGNS] if isinstance(error, Mapping) else [error]
    return any(str(value).strip().lower() not in _NO_FAILURE for value in said)


def _read(value: Any, found: ServerError, depth: int) -> None:
    """Add the content of a part of an error; texts that contain JSON are read as JSON."""
    if depth > _DEEPEST or len(found.messages) >= _MOST:
        return
    if isinstance(value, list):
        for entry in value[:_MOST]:
            _read(entry, found, depth + 1)
    elif isinstance(value, Mapping):
        _read_object(value, found, depth)
    elif isinstance(value, str) and value.strip():
        inner = _json_in(value)
        if inner is None:
            found.messages.append(value.strip())
        else:
            _read(inner, found, depth + 1)


def _read_object(value: Values, found: ServerError, depth: int) -> None:
    found.codes |= {str(value[name]).lower() for name in _CODES if isinstance(value.get(name), str | int)}
    place = value.get("loc")  # of FastAPI: ["body", "temperature"]
    if isinstance(place, list | tuple) and place and isinstance(value.get("msg"), str):
        found.param = found.param or str(place[1] if place[0] == "body" and len(place) > 1 else place[-1])
        found.messages.append(f"{'.'.join(map(str, place))}: {value['msg']}")
        return
    found.param = found.param or (value["param"] if isinstance(value.get("param"), str) else "")
    found.vendor = found.vendor or (value["provider_name"] if isinstance(value.get("provider_name"), str) else "")
    found.moderated |= bool(value.get("flagged_input")) or ("reasons" in value and bool(value["reasons"]))
    found.generated = found.generated or str(value.get("failed_generation") or "")
    details = value.get("details")
    if isinstance(details, list):
        found.details += [entry for entry in details if isinstance(entry, Mapping)]
    for name in dict.fromkeys((*_MESSAGES, *_WRAPPERS)):
        if name != "details" or not isinstance(details, list):
            _read(value.get(name), found, depth + 1)


def _json_in(text: str) -> Any:
    """Read the object or list that a text is, or that follows a few plain words; None if there is none with an error.

    Words of the prompt may be quoted in an error, so a quotation before the JSON ends the search.
    """
    start = _BEFORE_JSON.match(text)
    if start is None:
        return None
    rest = text[start.end() : start.end() + _LONGEST]
    for candidate in (rest, rest.replace("\\'", "'")):
        try:
            inner, _ = json.JSONDecoder().raw_decode(candidate)
            break
        except (ValueError, RecursionError):
            continue
    else:
        try:
            inner = ast.literal_eval(rest[: max(rest.rfind("}"), rest.rfind("]")) + 1])
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return None
    entries = inner if isinstance(inner, list | tuple) else [inner]
    is_error = any(isinstance(entry, Mapping) and not _SIGNS.isdisjoint(map(str, entry)) for entry in entries)
    return (list(entries) if isinstance(inner, tuple) else inner) if is_error else None
