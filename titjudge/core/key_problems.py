"""What is wrong with the keys of a file that a pydantic model describes, in one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from titjudge.core.errors import nearest


def first_key_problem(error: ValidationError) -> ErrorDetails:
    """Return the first unknown key, as a misspelt one often explains the other problems; else the first problem."""
    problems = error.errors(include_url=False)
    return next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])


def key_place(problem: ErrorDetails, model: type[BaseModel]) -> tuple[str, list[str]]:
    """Return the place of a problem as the file has it, such as `tables.0.title`, and the keys that are known there.

    Pydantic's names of validators and of the branches of a union are no keys, and are left out.
    """
    parts, types = list[str](), list[Any]([model])
    unknown = problem["loc"][-1:] if problem["type"] == "extra_forbidden" else ()
    for part in problem["loc"][: len(problem["loc"]) - len(unknown)]:
        if below := [inner for kind in types for inner in _below(kind, part)]:
            parts.append(str(part))
            types = below
    models = [kind for kind in types if isinstance(kind, type) and issubclass(kind, BaseModel)]
    return ".".join([*parts, *map(str, unknown)]), [name for kind in models for name in kind.model_fields]


def _below(kind: Any, part: int | str) -> Iterator[Any]:
    """Yield the types that a type has at a key or an index."""
    arguments = get_args(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        if part in kind.model_fields:
            yield from _alternatives(kind.model_fields[str(part)].annotation)
    elif isinstance(part, int) and get_origin(kind) in (list, Sequence):
        yield from _alternatives(arguments[0])
    elif isinstance(part, str) and get_origin(kind) in (dict, Mapping):
        yield from _alternatives(arguments[1])


def _alternatives(kind: Any) -> Iterator[Any]:
    """Yield the types of a union; of any other type, the type itself."""
    if get_origin(kind) is Annotated:
        yield from _alternatives(get_args(kind)[0])
    elif get_origin(kind) in (Union, UnionType):
        for alternative in get_args(kind):
            yield from _alternatives(alternative)
    else:
        yield kind


def key_problem(error: ValidationError, model: type[BaseModel], above: str = "") -> str:
    """Describe the first problem: the key, what is wrong with it, and for an unknown one the nearest known key.

    Args:
        error: What the model says.
        model: The model.
        above: The place of the whole in its file, with a full stop behind it.
    """
    problem = first_key_problem(error)
    place, fields = key_place(problem, model)
    where = f"{above}{place}"
    if problem["type"] == "extra_forbidden":
        return f"unknown key '{where}'.{nearest(str(problem['loc'][-1]), fields)}"
    if problem["type"] == "missing":
        return f"'{where}' is missing"
    message = problem["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else message
