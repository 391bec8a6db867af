"""Exports of one or several runs: csv, json and parquet for programs, LaTeX for papers, Markdown for pull requests."""

from __future__ import annotations

import importlib
import io
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from titjudge.core.errors import ConfigError, MissingExtra, nearest
from titjudge.core.files import csv_text, write_atomic
from titjudge.core.run_records import StoredRun
from titjudge.core.score_parts import contradicted, description, missing
from titjudge.core.types import Item
from titjudge.report import result_tables
from titjudge.report.generator_sections import generator_sections
from titjudge.report.model import Report, load
from titjudge.report.side_by_side import comparisons
from titjudge.report.table_cells import DASH, Json, spending, strings

COLUMNS = (
    "run", "item", "generator", "prompt_id", "metric", "value", "status", "reason", "missing", "contradicted",
    "description", "prompt", "image", "sample",
)  # fmt: skip
_SCHEMA_VERSION = 1


def export(runs: Sequence[StoredRun], kind: str, out: Path, *, baseline: str = "") -> Path:
    """Write the runs to `out` as `kind`; returns the path.

    `csv` and `parquet` have one row a score (columns `COLUMNS`; lists as JSON in csv). A csv cell of text that a
    spreadsheet would run as a formula gets an apostrophe in front. `json` holds manifests, results and scores. `latex` and
    `markdown` hold the tables of agreement, of the leaderboard and of generators against each other, with intervals.

    Args:
        runs: Run folders.
        kind: One of `KINDS`.
        out: The file.
        baseline: A generator that the tables compare the others with besides the best.

    Raises:
        ConfigError: `kind` is unknown.
        MissingExtra: pyarrow is not installed.
        DataError: A folder is not a run, or there is no such baseline.
    """
    if kind not in KINDS:
        raise ConfigError(f"there is no export '{kind}'.{nearest(kind, KINDS)} Known: {', '.join(KINDS)}")
    report = load(runs)
    report.baseline = baseline
    write_atomic(out, KINDS[kind](report))
    return out


def _rows(report: Report) -> Iterator[dict[str, Any]]:
    """Yield one row a score, in the order of the items and of the metrics."""
    for number, run in enumerate(report.runs):
        metrics = [judge.metric for _, judge in report.judges_of(number)]
        items = {item.id: (at, item) for at, item in enumerate(run.items)}
        known = len(items)
        scores = sorted(
            run.scores.values(),
            key=lambda score: (items.get(score.item_id, (known, None))[0], score.item_id, metrics.index(score.metric)),
        )
        for lean in scores:
            score = run.scores.whole(lean.item_id, lean.metric)
            _, item = items.get(score.item_id, (known, None))
            of_item = (item.prompt, str(item.image or ""), item.sample) if isinstance(item, Item) else ("", "", None)
            of_score = (
                run.name, score.item_id, score.generator, score.prompt_id, score.metric, score.value, str(score.status),
                score.reason, strings(missing(score.parts)), strings(contradicted(score.parts)), description(score.parts),
            )  # fmt: skip
            yield dict(zip(COLUMNS, (*of_score, *of_item), strict=True))


# -- for programs ----------------------------------------------------------------------------------------------------------


def _csv(report: Report) -> bytes:
    def cell(value: Any) -> Any:
        return (orjson.dumps(value).decode() if value else "") if isinstance(value, list) else value

    return csv_text(COLUMNS, ([cell(value) for value in row.values()] for row in _rows(report))).encode(
        errors="replace"
    )


def _json(report: Report) -> bytes:
    from titjudge.core.serialization import score_record

    record = {
        "schema_version": _SCHEMA_VERSION,
        "runs": [
            {
                "name": run.name,
                "manifest": run.manifest.to_json(),
                "results": run.results.to_json(),
                "scores": [score_record(run.scores.whole(*key)) for key in run.scores],
            }
            for run in report.runs
        ],
    }
    return orjson.dumps(record, default=str, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _parquet(report: Report) -> bytes:
    try:
        pyarrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtra("pyarrow", "parquet", "the parquet export") from error
    strings_ = pyarrow.list_(pyarrow.string())
    special = {"value": pyarrow.float64(), "sample": pyarrow.int64(), "missing": strings_, "contradicted": strings_}
    schema = pyarrow.schema([(name, special.get(name, pyarrow.string())) for name in COLUMNS])
    out = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(list(_rows(report)), schema=schema), out)
    return out.getvalue()


# -- for people --------------------------------------------------------------------------------------------------------------


def _tables(report: Report) -> list[Json]:
    return [
        *result_tables.agreement(report),
        *comparisons(report),
        *result_tables.leaderboards(report),
        *result_tables.official(report),
        *(
            table | {"title": f"{table['title']}: {section.title}"}
            for section in generator_sections(report)
            for table in section.tables
        ),
    ]


def _shown(cell: Any) -> str:
    """Format a cell in one line: `88.9% [77.8%, 97.2%]`."""
    if not isinstance(cell, dict):
        return str(cell)
    interval = re.fullmatch(r"([+-]?[\d.]+%?) – ([+-]?[\d.]+%?)", cell.get("s", ""))
    sub = f"[{interval[1]}, {interval[2]}]" if interval else f"({cell['s']})" if cell.get("s") else ""
    return f"{cell['t']} {sub}".strip()


def _markdown(report: Report) -> bytes:
    lines = []
    for run in report.runs:
        lines += [f"### titjudge: {md(run.name)}", ""]
        lines.append(
            f"Status **{md(run.manifest.status)}**, spent {spending(run.spent, run.unpriced)}, "
            f"list price {spending(run.list_cost, run.unpriced)}."
        )
        lines += ["", *(f"> {md(warning)}" for warning in run.results.warnings), ""]
    for table in _tables(report):
        if table["rows"]:
            notes = (f"\n{md(note)}" for note in table.get("notes", ()))
            lines += [f"**{md(table['title'])}**", "", *md_table(table), *notes, ""]
    return ("\n".join(lines).rstrip() + "\n").encode(errors="replace")


def md_table(table: Json) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    yield "| " + " | ".join(md(name) for name in table["columns"]) + " |"
    yield "|" + "|".join("---" if at < table["text"] else "--:" for at in range(len(table["columns"]))) + "|"
    for row in table["rows"]:
        yield "| " + " | ".join(md(_shown(cell)) for cell in row) + " |"


_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;"})


def md(text: str) -> str:
    """Escape text so that Markdown shows it as it is: no markup, no HTML, no link, no mention, one line."""
    line = " ".join(text.split())
    line = re.sub(r"([\\`*_{}\[\]()#|~!$])", r"\\\1", line)
    return line.translate(_HTML).replace("://", ":&#47;/")


_TEX = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--", "’": "'", "·": r"\textperiodcentered{}",
        "<": r"\textless{}", ">": r"\textgreater{}", "…": r"\ldots{}", '"': r"\textquotedbl{}", "−": "$-$"}  # fmt: skip


def _tex(text: str) -> str:
    """Escape text so that LaTeX sets it as it is; control characters and line ends become spaces."""
    line = re.sub(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]+", " ", text)
    return "".join(_TEX.get(character, character) for character in line)


LATEX_HEAD = "% needs \\usepackage{booktabs} and \\usepackage[T1]{fontenc}"


def _latex(report: Report) -> bytes:
    lines = [LATEX_HEAD, ""]
    for table in _tables(report):
        if table["rows"]:
            lines += [*tex_table(table), ""]
    if len(lines) == 2:
        lines.append("% nothing to tabulate: results.json has neither agreement nor leaderboard")
    return ("\n".join(lines).rstrip() + "\n").encode(errors="replace")


def tex_table(table: Json) -> Iterator[str]:
    """Yield the lines of a table in LaTeX."""
    slug = re.sub(r"[^a-z0-9]+", "-", table["title"].lower()).strip("-")
    columns = "".join("l" if at < table["text"] else "r" for at in range(len(table["columns"])))
    yield from (
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{_tex(table['title'])}}}",
        rf"  \label{{tab:{slug}}}",
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
    )
    yield "    " + " & ".join(_tex(name) for name in table["columns"]) + r" \\"
    yield r"    \midrule"
    for row in table["rows"]:
        shown = [_tex(_shown(cell)) if cell != DASH else "--" for cell in row]
        yield "    " + " & ".join(f"{{{one}}}" if one.startswith("[") else one for one in shown) + r" \\"
    yield from (r"    \bottomrule", r"  \end{tabular}", r"\end{table}")


KINDS: dict[str, Callable[[Report], bytes]] = {
    "csv": _csv,
    "json": _json,
    "parquet": _parquet,
    "latex": _latex,
    "markdown": _markdown,
}
