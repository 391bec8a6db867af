"""Known fixes for the error messages of servers that refuse a request."""

from __future__ import annotations

import re

from titjudge.core.patterns import lazy_pattern
from titjudge.providers import retirements

_SMALLER = "set max_side of this model, for example max_side: 1024, or save the images as JPEG"
_HINTS = tuple((lazy_pattern(pattern, re.IGNORECASE), hint) for pattern, hint in (
    (r"webp", "save the images as PNG or JPEG"),
    (r"(?:unsupported|invalid|unknown|not a valid|un(?:able|recognized)|failed|cannot|could not|can't)\b.{0,40}\b(?:image|media)\b.{0,20}"
     r"\b(?:format|type|data|file)|(?:decode|load|identify|process)\b.{0,30}\bimage",
     "save the images as PNG or JPEG"),
    (r"image.{0,20}input.{0,40}not (?:supported|enabled|available)|(?:not|n't) support\w* (?:any )?(?:image|vision|multimodal)|support image input"
     r"|not a (?:multimodal|vision)|at most 0 image|image_url.{0,60}(?:expected|not |unsupported|unknown)|unknown variant .?image_url"
     r"|(?:image|vision)\w*(?: inputs?| content)? (?:is|are) not (?:supported|allowed)|mmproj",
     "choose a model that reads images; llama.cpp also needs --mmproj"),
    (r"system.{0,40}(?:not (?:supported|allowed|enabled)|unsupported)|(?:support|allow)\w* .{0,20}system (?:role|message|prompt)"
     r"|developer instruction|roles must alternate|only user and assistant roles",
     "write the prompt templates without a system turn, or choose another model"),
    (r"budget.{0,10}\b(?<![.\d])0\b(?!\.)|thinking.{0,40}(?:budget|required|mandatory|cannot be (?:disabled|turned off))|only works in thinking mode",
     "this model always thinks: set thinking_budget above 0, or remove it"),
    (r"context.{0,20}(?:length|window|size)|maximum (?:context|model length)|(?:prompt|input) is too long|too many (?:input |prompt )?tokens(?! per)|tokens.{0,20}exceed.{0,40}context",
     "set max_side, lower max_tokens, or give the server a longer context (vLLM --max-model-len, llama.cpp -c, Ollama num_ctx)"),
    (r"max_?(?:completion_|output_?)?tokens.{0,60}(?:too (?:large|high|big)|exceed|at most|less than|maximum|range|<=)|(?:maximum|supports? at most).{0,40}"
     r"(?:output|completion) tokens",
     "lower max_tokens of this model in a file for --config"),
    (r"(?:image|photo|file|payload|request|body)\b.{0,60}\b(?:too large|exceeds?|larger than|over the limit)", _SMALLER),
))  # fmt: skip
_RETIRED = lazy_pattern(
    r"decommissioned|deprecated|retired|sunset|shut ?down|end[- ]of[- ]life|discontinued|no longer (?:available|supported|served|exists?)"
    r"|model.{0,60}(?:does not exist|not found|not exist|unavailable|is not available)|unknown model|invalid model",
    re.IGNORECASE,
)


def with_hint(message: str, model: str = "", status: int = 0, place: str = "") -> str:
    """Append the known fix to the line of an error of a server; the line itself if none is known.

    Args:
        message: The line.
        model: The model that was asked.
        status: HTTP status of the answer.
        place: The address that answered.

    >>> with_hint("HTTP 400 from http://a/v1: unsupported image format: webp")
    'HTTP 400 from http://a/v1: unsupported image format: webp (save the images as PNG or JPEG)'
    """
    hint = _hint(message) or (_SMALLER if status == 413 else "")
    if not hint and _RETIRED.search(message):
        names = {entry.model: entry.successor for entry in retirements.table() if entry.successor}
        successor = names.get(model.rpartition("/")[2].lower(), "")
        hint = f"name another model{f', such as its successor {successor},' if successor else ''} with --captioner or --judge"
    elif not hint and status in (404, 405) and not re.search(r"/v\d", place):
        hint = "is base_url complete? Most servers need /v1 at its end"
    return f"{message} ({hint})" if hint else message


def lasts(message: str) -> bool:
    """Whether an error has a cause that asking again does not remove."""
    return bool(_hint(message))


def _hint(message: str) -> str:
    return next((hint for pattern, hint in _HINTS if pattern.search(message)), "")
