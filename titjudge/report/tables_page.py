"""Write tables and charts as a self-contained page: no script, no network, no untrusted text in the markup."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from titjudge.core.files import write_atomic
from titjudge.core.numbers import is_number
from titjudge.core.types import Table
from titjudge.report.charts import Chart
from titjudge.report.html import joined, sha256, web_file
from titjudge.report.table_cells import DASH, number

_STYLES = ("base.css", "views.css", "sheet.css")


def write_page(title: str, lines: Sequence[str], charts: Sequence[Chart], tables: Sequence[Table], out: Path) -> None:
    """Write a page: its title, a few lines, charts and tables.

    Raises:
        OSError: The file cannot be written.
    """
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    style = joined(_STYLES)
    page = environment.from_string(web_file("tables_page.html")).render(
        title=title, lines=lines, charts=charts, tables=tables, style=style, style_hash=sha256(style),
        cell=_cell, is_number=is_number,
    )  # fmt: skip
    write_atomic(out, page.encode(errors="replace"))


def _cell(value: Any) -> str:
    if value is None:
        return DASH
    return number(value) if is_number(value) else str(value)
