"""Show a run to people: one self-contained HTML file, and exports for other programs.

| module | what it does |
|---|---|
| `html` | `write_report(runs, out)`: the HTML file |
| `model` | run folders to plain JSON, every long text once |
| `summary`, `side_by_side`, `result_tables` | headline, differences between runs, tables |
| `human_agreement`, `charts` | a metric against people, in numbers and as SVG |
| `transcripts`, `forgetting`, `trust_card` | transcripts of an agentic judge; where generators stop reading; the trust card |
| `generator_sections`, `generator_slices`, `generator_questions` | generators against each other: gaps, tiers, categories, worst prompts, what a verdict takes |
| `svg` | heat map, radar and curves, drawn element by element |
| `verdict_charts`, `table_files` | charts and tables of comparisons as files |
| `thumbnails` | images that fit the room there is |
| `exports` | csv, json, parquet, LaTeX, Markdown |
| `web/` | the page, its style and its script |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from titjudge.core.lazy import lazy_exports

if TYPE_CHECKING:
    from titjudge.report.exports import export as export
    from titjudge.report.html import write_report as write_report
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__, {"titjudge.report.exports": "export", "titjudge.report.html": "write_report"}
    )
