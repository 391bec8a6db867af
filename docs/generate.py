"""Fill the generated parts of the documentation: `python docs/generate.py` writes, `--check` says whether they are current.

It also writes docs/schemas: run.schema.json, by which editors check and complete run.yaml, and those of manifest.json
and results.json in a run folder.

A part stands between `<!-- generated: NAME ARGUMENT -->` and `<!-- end -->`; NAME is commands, help, metrics, suites, keys,
meta, advice, populations or declarations.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

ROOT = Path(__file__).resolve().parents[1]
NULL = {"type": "null"}
PART = re.compile(r"(<!-- generated: (\w+) ?([\w-]*) -->\n).*?(<!-- end -->)", re.DOTALL)


def fenced(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"


def table(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    def line(cells: tuple[Any, ...]) -> str:
        return "| " + " | ".join(str(cell if cell is not None else "").replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(columns), line(tuple("---" for _ in columns)), *(line(row) for row in rows)])


def help_(name: str) -> str:
    """The help of a command with all its options; without a name that of the program."""
    import click

    from titjudge.cli.commands import command_of, commands
    from titjudge.cli.option_groups import full_help

    settings = {**commands.context_settings, "max_content_width": 110, "terminal_width": 110}
    top = click.Context(commands, info_name="python cli.py", **settings)
    if not name:
        return fenced(commands.get_help(top))
    return fenced(full_help(click.Context(command_of(name), parent=top, info_name=name)))


def commands_(_: str) -> str:
    """Every command that the help lists, with its first sentence."""
    import click

    from titjudge.cli.commands import command_of
    from titjudge.cli.overview import names

    rows: list[tuple[str, str]] = []
    for name in sorted(names()):
        command = command_of(name)
        below = {part: command.commands[part] for part in command.commands} if isinstance(command, click.Group) else {}
        found = {name: command} | {f"{name} {part}": each for part, each in sorted(below.items())}
        rows += [
            (f"`{title}`", " ".join((each.help or "").partition("\n\n")[0].split()))
            for title, each in found.items()
            if not each.hidden
        ]
    return table(("command", "what it does"), rows)


def metrics(_: str) -> str:
    from titjudge.core import registry

    found = [registry.load("metrics", name) for name in registry.names("metrics")]
    rows = [(f"`{m.name}`", m.summary, m.asks, f"{m.range[0]:g} to {m.range[1]:g}", m.source) for m in found]
    return table(("metric", "what it is", "asks", "range", "source"), rows)


def suites(_: str) -> str:
    from titjudge.core import registry

    found = [registry.load("suites", name) for name in registry.names("suites")]
    rows = [
        (f"`{s.name}`", (s.__doc__ or "").strip().partition("\n")[0], ", ".join(s.metrics), s.VERSION) for s in found
    ]
    return table(("suite", "what it is", "metrics", "version"), rows)


def keys(_: str) -> str:
    """Every key of run.yaml with its default, in the groups of `judge --help-all`, and those of a role."""
    from titjudge.cli.option_table import keys_by_group
    from titjudge.core.config import Limits, RoleConfig, RunConfig

    rows = key_rows("", RunConfig) | key_rows("limits.", Limits)
    parts = {title: [rows[name] for name in names if name in rows] for title, names in keys_by_group().items()}
    parts["A model: `captioner`, `judge`, `embedder`"] = [*key_rows("captioner.", RoleConfig).values()]
    return "\n\n".join(
        f"### {title}\n\n{table(('key', 'default', 'what it is'), part)}" for title, part in parts.items()
    )


def key_rows(prefix: str, model: Any) -> dict[str, tuple[str, str, str]]:
    """The rows of a model's keys, by name."""
    from titjudge.core.config import Limits

    texts = key_texts(model)
    fields = {name: (field, field.get_default(call_default_factory=True)) for name, field in model.model_fields.items()}
    return {
        name: (f"`{prefix}{name}`", shown_default(default), " ".join(texts[name].split()))
        for name, (field, default) in fields.items()
        if not isinstance(default, Limits)
    }


def shown_default(default: Any) -> str:
    from pydantic_core import PydanticUndefined

    if default is PydanticUndefined:
        return "`required`"
    shown = getattr(default, "model", default)
    return "" if shown is None or shown in ([], {}) else f"`{shown}`"


def advice(_: str) -> str:
    """What to do about missing scores, by cause."""
    from titjudge.core.failure_advice import WORDS, remedy

    return table(
        ("images without a score", "what to do"), [(words, remedy(cause)) for cause, (words, _) in WORDS.items()]
    )


def meta(_: str) -> str:
    """Every key of `Item.meta` that the program reads."""
    from titjudge.core.item_meta import KEYS

    rows = [(f"`{key.name}`", key.form.words, key.written, key.read) for key in KEYS.values()]
    return table(("key", "value", "who writes it", "who reads it"), rows)


def populations(_: str) -> str:
    from titjudge.core.declarations import UNDECLARED, Population

    rows = [(UNDECLARED.said(population), f"`{population}`", population.meaning) for population in Population]
    return table(("population", "id", "what belongs to it"), rows)


def reasons(_: str) -> str:
    from titjudge.core.declarations import Doubt, Exclusion

    rows = [
        (each.words, f"`{each}`", key)
        for names, key in ((Exclusion, "`excluded`"), (Doubt, "`doubts`"))
        for each in names
    ]
    return table(("reason", "id", "key"), rows)


def declarations(_: str) -> str:
    """Every declared table, with the module that makes it."""
    rows = []
    for declared in declared_tables():
        own = [f"`{name}`: {declared.said(population)}" for name, population in declared.by_column.items()]
        over = "; ".join([declared.said(declared.population), *own])
        order = "; ".join(filter(None, (declared.order, declared.correction and f"adjusted: {declared.correction}")))
        rows.append(
            (f"`{declared.id}`", declared.said(declared.compares), over, declared.unit, declared.missing, order)
        )
    return table(("id", "what it compares", "population", "unit", "missing scores", "order; what is adjusted"), rows)


def declared_tables() -> list[Any]:
    """Every `Declaration` with a population in the modules of the program, by id."""
    import importlib

    from titjudge.core.declarations import Declaration

    files = [
        path for path in sorted(ROOT.glob("titjudge/**/*.py")) if "Declaration(" in path.read_text(encoding="utf-8")
    ]
    modules = [importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts)) for path in files]
    found = {repr(each): each for module in modules for each in vars(module).values() if isinstance(each, Declaration)}
    return [found[name] for name in sorted(found) if found[name].population]


def key_texts(kind: type[BaseModel]) -> dict[str, str]:
    """The text below each key in the source. Pydantic would read the source for this whenever titjudge starts."""
    texts: dict[str, str] = {}
    for each in kind.__mro__[kind.__mro__.index(BaseModel) - 1 :: -1]:
        (source,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        assert isinstance(source, ast.ClassDef)
        for key, text in pairwise(source.body):
            match key, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                    texts[name] = inspect.cleandoc(words)
    return texts


class FromSource(GenerateJsonSchema):
    """Describe keys as the source does; leave out titles, which only repeat the key."""

    def model_schema(self, schema: Any) -> dict[str, Any]:
        made = super().model_schema(schema)
        for name, text in key_texts(schema["cls"]).items():
            made["properties"][name]["description"] = text
        return made

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def config_schema() -> dict[str, Any]:
    """Make the JSON schema (draft 2020-12) of run.yaml, as `load_config` reads it.

    Names of metrics and suites are suggested and not required, as other packages add some.
    """
    from titjudge.core.config import RunConfig

    schema = RunConfig.model_json_schema(schema_generator=FromSource)
    keys = schema["properties"]
    judge = keys["judge"]["anyOf"]
    judge.append({"type": "array", "items": {"anyOf": [kind for kind in judge if kind != NULL]}, "minItems": 1})
    keys["suite"]["anyOf"] = _known("suites")
    del keys["suite"]["type"]
    keys["metrics"]["items"] = {"anyOf": _known("metrics")}
    for name, key in keys.items():  # a key with nothing behind it counts as left out
        if NULL not in key.get("anyOf", ()):
            about = {word: key.pop(word) for word in ("description", "default") if word in key}
            keys[name] = about | {"anyOf": [*key["anyOf"], NULL] if "anyOf" in key else [key, NULL]}
    return {"$schema": GenerateJsonSchema.schema_dialect, **schema, "title": "run.yaml of titjudge"}


def _known(kind: str) -> list[dict[str, Any]]:
    from titjudge.core import registry

    return [{"enum": sorted(registry.TABLES[kind])}, {"type": "string"}]


def record_schema(kind: type[BaseModel]) -> dict[str, Any]:
    """Make the JSON schema (draft 2020-12) of manifest.json or results.json."""
    schema = kind.model_json_schema(schema_generator=FromSource)
    return {
        "$schema": FromSource.schema_dialect,
        **schema,
        "title": f"{kind.__name__.lower()}.json of a run of titjudge",
    }


def schemas() -> dict[Path, str]:
    """The files of docs/schemas and their content."""
    import json

    from titjudge.core.run_records import Manifest, Results

    found = {"run": config_schema(), "manifest": record_schema(Manifest), "results": record_schema(Results)}
    return {
        ROOT / "docs" / "schemas" / f"{name}.schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in found.items()
    }


MAKERS = {
    "commands": commands_, "help": help_, "metrics": metrics, "suites": suites, "keys": keys, "meta": meta, "advice": advice,
    "populations": populations, "reasons": reasons, "declarations": declarations,
}  # fmt: skip


def filled(text: str) -> str:
    return PART.sub(lambda match: f"{match[1]}{MAKERS[match[2]](match[3])}\n{match[4]}", text)


def changed(file: Path, content: str) -> bool:
    """Whether a file has another content; it is written, unless `--check` is given."""
    if file.exists() and file.read_text(encoding="utf-8") == content:
        return False
    if "--check" not in sys.argv:
        file.parent.mkdir(exist_ok=True)
        file.write_text(content, encoding="utf-8")
    return True


def main() -> None:
    sys.path.insert(0, str(ROOT))
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    stale = [file for file, content in schemas().items() if changed(file, content)]  # first: help is made from them
    stale += [page for page in pages if changed(page, filled(page.read_text(encoding="utf-8")))]
    if stale and "--check" in sys.argv:
        names = ", ".join(str(file.relative_to(ROOT)) for file in stale)
        sys.exit(f"{names}: not current: run python docs/generate.py")


if __name__ == "__main__":
    main()
