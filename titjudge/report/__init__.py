"""Show a run to people: one self-contained HTML file, and exports for other programs.

| module | what it does |
|---|---|
| `html` | `write_report(runs, out)`: the HTML file |
| `model` | run folders to JSON, every long text once |
| `summary`, `side_by_side`, `result_tables`, `provenance` | headline, differences between runs, tables |
| `human_agreement`, `charts` | agreement of metrics with people, in numbers and as SVG |
| `transcripts`, `forgetting`, `trust_card` | transcripts of an agentic judge; forgetting curves; the trust card |
| `generator_sections`, `generator_slices`, `generator_questions` | comparison of generators: gaps, tiers, categories, worst prompts, sample sizes |
| `tables_page` | a page of tables without a script |
| `svg` | heat map, radar and power curves as SVG |
| `verdict_charts`, `table_files` | charts and tables of comparisons as files |
| `judged_images`, `thumbnails` | identity of images across runs; thumbnails that fit the size of the file |
| `exports` | csv, json, parquet, LaTeX, Markdown |
| `sinks` | experiment trackers |
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
