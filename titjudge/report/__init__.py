"""What people see of a run: one self-contained HTML file, and exports for other programs.

| module | what it does |
|---|---|
| `write` | `write_report(runs, out)`: the HTML file |
| `model` | run folders to plain JSON, every long text once |
| `summary`, `side_by_side`, `cells` | headline, tables, differences between runs |
| `people`, `charts` | a metric against people, in numbers and as SVG |
| `cases`, `forgetting`, `card` | claims and transcripts of an agentic judge; where generators stop reading; the trust card |
| `thumbnails` | images that fit the room there is |
| `exports` | csv, json, parquet, LaTeX, Markdown |
| `web/` | the page, its style and its script |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from titjudge.report.exports import export
    from titjudge.report.html import write_report

__all__ = ["export", "write_report"]


def __getattr__(name: str) -> Any:
    import importlib

    if name in __all__:
        return getattr(importlib.import_module(f"titjudge.report.{'exports' if name == 'export' else 'html'}"), name)
    raise AttributeError(f"module 'titjudge.report' has no attribute '{name}'")
