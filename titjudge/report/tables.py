"""Render tables as Markdown, LaTeX and CSV; `web/blocks.html` renders them as HTML, and `cli.output` for the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from titjudge.core.errors import ConfigError, must_be
from titjudge.core.files import csv_text
from titjudge.core.tables import Table, text_of
from titjudge.core.words import DASH, in_one_line

LATEX_HEAD = "% needs \\usepackage{booktabs} and \\usepackage[T1]{fontenc}"
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;"})
_TEX = str.maketrans({"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--", "’": "'", "·": r"\textperiodcentered{}",
        "<": r"\textless{}", ">": r"\textgreater{}", "…": r"\ldots{}", '"': r"\textquotedbl{}", "−": "$-$",
        "∞": r"$\infty$"})  # fmt: skip


def check_table_file(path: Path) -> None:
    """Check the suffix of a file for tables, before anything is computed.

    Raises:
        ConfigError: It is none of .md, .tex and .csv.
    """
    if path.suffix.lower() not in _RENDERERS:
        raise ConfigError(must_be("a table", f"a file that ends in {', '.join(_RENDERERS)}", str(path)))


def write_tables(tables: Sequence[Table], path: Path) -> None:
    """Write tables in the format of the suffix.

    Raises:
        ConfigError: The suffix is none of .md, .tex and .csv.
        OSError: The file cannot be written.
    """
    check_table_file(path)
    text = _RENDERERS[path.suffix.lower()](tables)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(errors="replace"))


def csv(tables: Sequence[Table]) -> str:
    """Render tables as CSV, with an empty line between them."""
    return "\n".join(csv_text(*_csv(table)) for table in tables)


def _csv(table: Table) -> tuple[tuple[str, ...], list[list[str | float | None]]]:
    """Return columns and rows; the last columns are population, size if it is one number, unit, and the exclusions."""
    declared = table.sized
    if not declared.population:
        return table.columns, table.plain_rows
    size = declared.sizes.get(declared.population, ())
    over: dict[str, str | float | None] = {"population": declared.said(declared.population)}
    over |= {"size": size[0] if len(size) == 1 else None, "unit": declared.said(declared.unit)}
    over |= {"excluded": declared.left_out} if declared.excluded else {}
    return (*table.columns, *over), [[*row, *over.values()] for row in table.plain_rows]


def markdown(tables: Sequence[Table]) -> str:
    """Render tables as Markdown."""
    return "\n\n".join("\n".join(_markdown(table)) for table in tables) + "\n"


def _markdown(table: Table) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    yield f"**{escape_markdown(table.title)}**"
    yield ""
    yield "| " + " | ".join(map(escape_markdown, table.columns)) + " |"
    yield "|" + "|".join("--:" if numeric else "---" for numeric in table.numeric) + "|"
    for row in table.rows:
        yield "| " + " | ".join(escape_markdown(text_of(value)) for value in row) + " |"
    yield from (f"\n{escape_markdown(note)}" for note in (*table.all_notes, table.caption) if note)


def escape_markdown(text: str) -> str:
    """Escape text so that Markdown shows it as it is: no markup, no HTML, no link, no mention, one line."""
    line = re.sub(r"([\\`*_{}\[\]()#|~!$])", r"\\\1", _visible(text))
    return line.translate(_HTML).replace("://", ":&#47;/")


def latex(tables: Sequence[Table]) -> str:
    """Render tables as LaTeX, with booktabs."""
    return "\n\n".join([LATEX_HEAD, *("\n".join(_latex(table)) for table in tables)]) + "\n"


def _latex(table: Table) -> Iterator[str]:
    """Yield the lines of a table in LaTeX."""
    slug = re.sub(r"[^a-z0-9]+", "-", table.title.lower()).strip("-")
    yield from (r"\begin{table}", r"  \centering", rf"  \caption{{{escape_latex(table.title)}}}", rf"  \label{{tab:{slug}}}",
                rf"  \begin{{tabular}}{{{''.join('r' if numeric else 'l' for numeric in table.numeric)}}}", r"    \toprule",
                "    " + " & ".join(map(escape_latex, table.columns)) + r" \\", r"    \midrule")  # fmt: skip
    for row in table.rows:
        cells = ("--" if text == DASH else escape_latex(text) for text in map(text_of, row))
        yield "    " + " & ".join(f"{{{text}}}" if text.startswith("[") else text for text in cells) + r" \\"
    over = (rf"  \par\footnotesize {escape_latex(table.caption)}",) if table.caption else ()
    yield from (r"    \bottomrule", r"  \end{tabular}", *over, r"\end{table}")


def escape_latex(text: str) -> str:
    """Escape text so that LaTeX sets it as it is, in one line."""
    return _visible(text).translate(_TEX)


def _visible(text: str) -> str:
    """Write a text in one line, with spaces for control characters and bidirectional marks."""
    return in_one_line(re.sub(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]+", " ", text))


_RENDERERS = {".md": markdown, ".tex": latex, ".csv": csv}
