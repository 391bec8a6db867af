"""Show a run to people: one self-contained HTML file, and exports for other programs.

    from pathlib import Path
    from titjudge.report import export, write_report
    from titjudge.runs import RunFolder

    run = RunFolder(Path("runs/first"))
    write_report([run], Path("report.html"))
    export([run], "csv", Path("scores.csv"))

| module | what it does |
|---|---|
| `html` | `write_report(runs, out)`: the HTML file; `write_page`: a page of tables and charts |
| `folder` | `write_report_folder(runs, out)`: the same as a folder, for very many images |
| `contents` | the sections of the page in their order |
| `sections` | what a section is made of: parts, tables, charts and other blocks |
| `verdict` | the first lines: who is better, and the prompts that show it |
| `overview`, `side_by_side` | main numbers, agreement with people, differences between runs, leaderboards, tables of suites |
| `people` | charts of agreement of metrics with people |
| `matrix` | prompts down, generators across, with pictures |
| `generators` | comparison of generators: gaps, tiers, categories, sample sizes |
| `provenance` | failures, cost, models, prompts, configuration |
| `drawing`, `plots` | charts, drawn once for the page and for files |
| `tables` | tables as Markdown, LaTeX and CSV; links in cells |
| `model`, `transcripts` | run folders to JSON, every long text once |
| `judged_images`, `thumbnails`, `crops` | identity of images across runs; thumbnails that fit the file; crops of claims |
| `standings` | ranks and means of generators, missing elements and costs of their images, and their scores as CSV |
| `site` | a board for any web server: the report as a folder, with the scores and the runs |
| `site_folder`, `site_images` | the files of a board, and its images by their content |
| `exports` | csv, json, parquet, LaTeX, Markdown |
| `sinks` | experiment trackers |
| `web/` | the page, its blocks, its style and its script |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from titjudge.core.lazy import lazy_exports

if TYPE_CHECKING:
    from titjudge.report.exports import export as export
    from titjudge.report.folder import write_report_folder as write_report_folder
    from titjudge.report.html import write_report as write_report
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "titjudge.report.exports": "export",
            "titjudge.report.folder": "write_report_folder",
            "titjudge.report.html": "write_report",
        },
    )
