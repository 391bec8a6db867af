"""Structured output: the JSON schema to ask for, and the JSON object in an answer.

Nothing is guessed: an answer that does not validate gives None.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import BaseModel, BeforeValidator, ValidationError

from titjudge.core.errors import rule_of
from titjudge.core.patterns import lazy_pattern
from titjudge.core.serialization import without_surrogates

M = TypeVar("M", bound=BaseModel)

_LONGEST = 200_000  # characters; of a longer answer only the end is parsed
_MOST_BRACES = 2_000
_LONGEST_QUOTED, _DEEPEST_QUOTED = 10_000, 8  # characters, and braces around, of an object that may be quoted
_NUMBER = lazy_pattern(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


# The tags in which open models write what they think: <think>, [THINK], <seed:think>, <reasoning>, <|begin_of_thought|>,
# <|START_THINKING|>, <unused94>thought, and the channels of gpt-oss (harmony) and Gemma.
_THOUGHT = r"[\w:.▁-]{0,16}(?:think|thought|思考|推理|reasoning|reflection|scratch_?pad|monologue)[\w:.-]{0,12}"
_THOUGHT_ENDS = lazy_pattern(
    rf"(?:<|&lt;)/\s*{_THOUGHT}\s*(?:>|&gt;)|\[/{_THOUGHT}\]|◁/{_THOUGHT}▷|<[|｜](?:/|end[_▁](?:of[_▁])?){_THOUGHT}[|｜]>|<\|{_THOUGHT}_end\|>|<unused95>"
    r"|<\|inner_suffix\|>|<channel\|>|<\|channel\|>\s*final\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>"
    r"|<\|start\|>assistant<\|message\|>",
    re.IGNORECASE,
)
_THOUGHT_BEGINS = lazy_pattern(
    rf"(?:<|&lt;)\s*{_THOUGHT}(?:\s[^<>]*)?(?:>|&gt;)|\[{_THOUGHT}\]|◁{_THOUGHT}▷|<[|｜](?!/|end){_THOUGHT}[|｜]>|<unused94>|<\|inner_prefix\|>"
    r"|<\|channel\|?>\s*(?:analysis|commentary|thought)\b",
    re.IGNORECASE,
)
_THOUGHT_LINE = lazy_pattern(rf"(?m)^\s*(?:<\|start\|>assistant)?(?:{_THOUGHT_BEGINS.pattern})", re.IGNORECASE)
_SPOKEN = lazy_pattern(  # harmony without its control tokens, Granite, and Ollama
    r"\s*(?:analysis(?=[A-Z])(?:.*(?P<final>assistantfinal))?"
    r"|(?i:here(?:'s| is) my thought process:)(?:.*(?P<response>(?i:here(?:'s| is) my response:)))?"
    r"|[Tt]hinking\.\.\.\n(?:.*(?P<done>\.\.\.done thinking\.))?)",
    re.DOTALL,
)
_BRACKETS = str.maketrans("＜〈⟨《＞〉⟩》［］｜", "<<<<>>>>[]|")  # of full width, as one character each
_TAGGED = lazy_pattern("[<&[◁＜〈⟨《［]")
_TAG = lazy_pattern(r"[<\[](?P<end>/?)(?P<name>[A-Za-z][\w:.-]{0,40})(?:\s[^<>\[\]]{0,80})?[>\]]")
_ANSWER_TAGS = frozenset("answer final_answer final output result response json conclusion solution".split())
_CHAT_TOKEN = lazy_pattern(
    r"<\|[\w/▁｜| -]{1,40}\|?>|</?s>|<(?:eos|bos|pad|end_of_turn|start_of_turn)>|<｜[^<>]{1,40}｜>|\[/?INST\]"
)


def after_thinking(text: str) -> str:
    """Return the text after the last thought, all of it when there is none; nothing if a thought does not end."""
    rest, thinks = _after_thoughts(text)
    return "" if thinks else rest


def ends_in_thinking(text: str) -> bool:
    """Whether a text ends inside a thought that begins a line (`<think>` or another such tag): it contains no answer."""
    return _after_thoughts(text)[1]


def _after_thoughts(text: str) -> tuple[str, bool]:
    start, thinks = 0, False
    if spoken := _SPOKEN.match(text):
        start, thinks = spoken.end(), not any(spoken.groups())
    if not _TAGGED.search(text):  # most answers
        return text[start:], thinks
    plain = text.translate(_BRACKETS)
    for end in _THOUGHT_ENDS.finditer(plain):
        start, thinks = max(start, end.end()), False
    return text[start:], thinks or _THOUGHT_LINE.search(plain[start:]) is not None


def without_chat_tokens(text: str) -> str:
    """Remove control tokens of a chat template (`<|im_end|>`) from both ends of a text, with the blanks there."""
    text = text.strip()
    while (token := _CHAT_TOKEN.match(text)) is not None:
        text = text[token.end() :].lstrip()
    for token in reversed(list(_CHAT_TOKEN.finditer(text))):
        if token.end() != len(text):
            break
        text = text[: token.start()].rstrip()
    return text


def json_object(text: str) -> dict[str, Any] | None:
    """Parse a text that is a JSON object; None when it is not, or if a key occurs twice with different values."""
    repeated: list[str] = []
    try:
        value = without_surrogates(json.loads(text, object_pairs_hook=_noting(repeated)))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and not repeated else None


def objects(text: str) -> list[dict[str, Any]]:
    """Return the complete top-level JSON objects in a text, in order; code fences and prose are skipped."""
    return [found.value for found in _found(text)]


class _Found(NamedTuple):
    """A complete top-level object, its position in the text, and keys that occur twice in it."""

    value: dict[str, Any]
    start: int
    end: int
    repeated: tuple[str, ...]


def _noting(repeated: list[str]) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    """Make a hook for `json` that adds to `repeated` the keys of an object that have two different values."""

    def hook(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs):
            repeated.extend(key for key, each in pairs if each != value[key])
        return value

    return hook


def _found(text: str) -> Iterator[_Found]:
    """Yield each complete top-level object in the last `_LONGEST` characters."""
    repeated: list[str] = []
    decoder = json.JSONDecoder(object_pairs_hook=_noting(repeated))
    start = text.find("{", max(0, len(text) - _LONGEST))
    for _ in range(_MOST_BRACES):
        if start < 0:
            return
        repeated.clear()
        try:
            value, end = decoder.raw_decode(text, start)
            value = without_surrogates(value)
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
            continue
        yield _Found(value, start, end, tuple(repeated))
        start = text.find("{", end)


def _asides(text: str, question: str) -> list[tuple[int, int]]:
    """Return the spans of a text that are not an answer: inside a tag pair that closes before the end, or an open thought.

    A tag in the `question` may be quoted, and opens no thought.
    """
    text = text.translate(_BRACKETS)
    opened: dict[str, list[int]] = {}
    spans = []
    last = len(without_chat_tokens(text.strip().removesuffix("```")))
    for tag in _TAG.finditer(text):
        name = tag["name"].casefold()
        if not tag["end"]:
            opened.setdefault(name, []).append(tag.start())
        elif opened.get(name):
            start = opened[name].pop()
            if name not in _ANSWER_TAGS and tag.end() < last:
                spans.append((start, tag.end()))
    thoughts = (thought for thought in _THOUGHT_BEGINS.finditer(text) if thought[0] not in question)
    return spans + [(thought.start(), len(text)) for thought in thoughts]


def _words(text: str) -> tuple[str, ...]:
    """Return the keys, values and words of an object in one order, as a model that quotes may change all else."""
    with contextlib.suppress(ValueError, RecursionError):
        text = json.dumps(json.loads(text), ensure_ascii=False)
    words = re.findall(r"[^\W_]+(?:\.\d+)?", text.casefold())
    return tuple(sorted(word.removesuffix(".0") for word in words))


def _braced(text: str) -> set[tuple[str, ...]]:
    """Return the words of everything in braces in the last `_LONGEST` characters, JSON or not."""
    opened = list[int]()
    found = set()
    text = text[-_LONGEST:]
    for brace in itertools.islice(re.finditer("[{}]", text), _MOST_BRACES):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened and brace.end() - (start := opened.pop()) < _LONGEST_QUOTED and len(opened) < _DEEPEST_QUOTED:
            found.add(_words(text[start : brace.end()]))
    return found


def validated(
    text: str, schema: type[M], *, lenient: bool = False, question: str = ""
) -> tuple[M | None, tuple[str, ...]]:
    """Return the last object in `text` that validates as `schema`, with flags that show how it was obtained.

    It is the last one, because a judge may quote the text it judges (which may contain a score) before it answers. An
    object in the text of the `question` is skipped, whatever its form, because it may be quoted after the answer. So is
    an object inside a tag pair that closes before the end (`<draft>{...}</draft>`). There is no clear answer if a key of the
    object occurs twice, or if an object with other values comes before it without a word between them. An object that
    validates under the only key of another (`{"answer": {...}}`) is accepted and flagged `unwrapped`. With `lenient`,
    an answer without any complete object is repaired with json-repair and flagged
    `json-repaired`.
    """
    answer = after_thinking(text)
    asides = _asides(answer, question)
    asked = _braced(question)
    skipped = max((end for _, end in asides), default=0)
    kept: tuple[M, tuple[str, ...]] | None = None
    begins = len(answer)
    for found in reversed(list(_found(answer))):
        if kept is not None and answer[found.end : begins].strip(", \t\r\n"):
            return kept
        quoted = bool(asked) and _words(answer[found.start : found.end]) in asked
        if quoted or any(start < found.start and found.end <= end for start, end in asides):
            skipped = max(skipped, found.end)
            continue
        flags: tuple[str, ...] = ()
        try:
            data = schema.model_validate(found.value)
        except ValidationError:
            inner = _wrapped(found.value)
            if inner is None or (asked and _words(json.dumps(inner)) in asked):
                continue
            try:
                data, flags = schema.model_validate(inner), ("unwrapped",)
            except ValidationError:
                continue
        if found.repeated if kept is None else data != kept[0] and not found.repeated:
            return None, ()
        kept, begins = kept or (data, flags), found.start
    if kept is not None:
        return kept
    begin = answer.find("{", skipped)
    if lenient and begin >= 0:
        import json_repair

        repaired = without_surrogates(json_repair.loads(answer[begin:][-_LONGEST:]))
        if not asked or _words(json.dumps(repaired)) not in asked:
            with contextlib.suppress(ValidationError):
                return schema.model_validate(repaired), ("json-repaired",)
    return None, ()


def _wrapped(candidate: dict[str, Any]) -> dict[str, Any] | None:
    """Return the object under the only key of another."""
    (value,) = candidate.values() if len(candidate) == 1 else (None,)
    return value if isinstance(value, dict) else None


def plain_number(value: Any) -> Any:
    """Accept a JSON number, also as a string, but not `true` or `"1_0"`, which Python would read as 1 and 10.

    Raises:
        ValueError: It is not a number.
    """
    if isinstance(value, bool) or (isinstance(value, str) and not _NUMBER.fullmatch(value.strip())):
        raise ValueError("must be a number")
    return value


Number = Annotated[float, BeforeValidator(plain_number)]
Whole = Annotated[int, BeforeValidator(plain_number)]


def problem(text: str, schema: type[BaseModel]) -> str:
    """Return in one line why `text` did not validate, for the repair turn and the report."""
    candidates = list(_found(after_thinking(text)))
    if not candidates:
        return "the answer has no complete JSON object"
    if repeated := candidates[-1].repeated:
        return f"the key {repeated[0][:40]!r} occurs twice"
    try:
        schema.model_validate(candidates[-1].value)
    except ValidationError as error:
        return f"field {first_problem(error)}"
    return "no object in the answer validates"


def first_problem(error: ValidationError, whole: str = "(top)") -> str:
    """Return in one line the first invalid field and why; `whole` is the name of the object itself."""
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or whole}: {rule_of(first)}"


_KNOWN: dict[Any, dict[str, Any]] = {}


def schema_of(model: Any) -> dict[str, Any]:
    """Return the JSON schema of a pydantic model, with `$ref`s resolved as some servers do not support them; cached by model."""
    if model not in _KNOWN:
        schema = model.model_json_schema()
        _KNOWN[model] = _inline(schema, schema.pop("$defs", {}))
    return _KNOWN[model]


def _inline(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inline(child, definitions) for child in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inline(definitions[node["$ref"].rpartition("/")[2]], definitions)
    return {key: _inline(value, definitions) for key, value in node.items()}


def smallest(schema: Mapping[str, Any], fields: Mapping[str, Any] | None = None) -> str:
    """Write the smallest JSON that validates against a pydantic model's schema, with these fields instead of the schema's."""
    return json.dumps({**_instance(schema), **(fields or {})}, ensure_ascii=False)


def _instance(node: Mapping[str, Any]) -> Any:
    """Make the smallest value that a JSON schema allows."""
    if "const" in node:
        return node["const"]
    if "enum" in node:
        return node["enum"][0]
    if "anyOf" in node:
        return _instance(node["anyOf"][0])
    kind = node.get("type", "object")
    if kind == "object":
        return {name: _instance(child) for name, child in node.get("properties", {}).items()}
    if kind == "array":
        return [_instance(node.get("items", {"type": "string"}))] * int(node.get("minItems", 0))
    if kind in ("integer", "number"):
        low = node.get("minimum", node.get("exclusiveMinimum", 0))
        return low + 1 if "exclusiveMinimum" in node else low
    if kind == "boolean":
        return False
    return "x" * int(node.get("minLength", 1)) if kind == "string" else None
