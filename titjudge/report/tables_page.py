"""Write tables and charts as a self-contained page: no script, no network, no untrusted text in the markup."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from titjudge.core.files import write_atomic
from titjudge.core.tables import Table
from titjudge.report.drawing import Chart
from titjudge.report.html import render_page

_STYLES = ("base.css", "views.css", "sheet.css")


def write_page(title: str, lines: Sequence[str], charts: Sequence[Chart], tables: Sequence[Table], out: Path) -> None:
    """Write a page: its title, a few lines, charts and tables.

    Raises:
        OSError: The file cannot be written.
    """
    page = render_page("tables_page.html", _STYLES, title=title, lines=lines, charts=charts, tables=tables)
    write_atomic(out, page.encode(errors="replace"))
