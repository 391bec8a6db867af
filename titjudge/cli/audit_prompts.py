"""`audit-prompts`: what a set of prompts is like, before images are made from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from titjudge.cli.options import JSON, PATH, option, with_options
from titjudge.cli.terminal import say

_EMBEDDING = with_options(
    option(
        "--embedder", "What tells how alike two prompts are  [default: the embedder in the package].", "PROVIDER/MODEL"
    ),
    option("--cache", "A folder for the vectors.", "DIR"),
    option("--max-cost", "Hard cap in USD, where the embedder is hosted.", "USD", type=float),
)


@click.command()
@click.argument("data", type=PATH)
@option("--columns", "The columns of a list of prompts, where they are not named as usual.", "ID,PROMPT", default="")
@option(
    "--against",
    "Another list, data folder, or suite (NAME, or NAME:FOLDER of its files), whose prompts this set should not have; "
    "repeatable.",
    "DATA",
    multiple=True,
)
@option("--tokenizer", "Count tokens with this tokenizer of transformers.", "DIR", type=PATH)
@option("--html", "Write a page with charts.", "FILE", name="page", type=PATH)
@option("--out", "Write the tables: Markdown, LaTeX or CSV (.md, .tex, .csv).", "FILE", type=PATH)
@_EMBEDDING
@JSON
def audit_prompts(
    data: Path,
    columns: str,
    against: tuple[str, ...],
    tokenizer: Path | None,
    page: Path | None,
    out: Path | None,
    json_file: Path | None,
    **flags: Any,
) -> int:
    """Audit a set of prompts: lengths and what text encoders would cut, near-duplicates, balance, language.

    DATA is a list of prompts (.jsonl, .csv, .parquet, or .txt with one a line) or a data folder. Two prompts say the same
    when the cosine of their embeddings is .85 or more (TIIF-Bench); a set of a benchmark's prompts, given with --against,
    shows what has leaked. Columns with few different values (type, theme, ...) are counted.

    \b
    Examples:
      python cli.py audit-prompts prompts.csv
      python cli.py audit-prompts prompts.txt --html audit.html
      python cli.py audit-prompts mine.jsonl --against benchmark.csv \\
        --against starter --against geneval2
    """
    from titjudge.cli.output import check_writable, show_tables, write_json
    from titjudge.core.config import load_config
    from titjudge.core.grouped_reasons import brief
    from titjudge.report.table_files import check_table_file, write_tables
    from titjudge.runs.prompt_audit import audit_prompts as look

    check_writable(page, data)
    if out is not None:
        check_table_file(out)
        check_writable(out, data)
    embedder = {"model": flags["embedder"]} if flags["embedder"] else None
    config = load_config(
        None, {"embedder": embedder, "cache": flags["cache"], "limits": {"max_cost": flags["max_cost"]}}
    )
    found, problems = look(config, data, columns=columns, against=against, tokenizer=tokenizer)
    tables = found.tables()
    show_tables(tables)
    if problems:
        rows = [tuple(problem.split(": ", 1)) for problem in problems]
        said = "1 row is no prompt" if len(problems) == 1 else f"{len(problems):,} rows are no prompts"
        say(f"\n{said}: {brief([(row[0], row[-1]) for row in rows])}", err=True)
    if page is not None:
        from titjudge.report.prompt_page import write_prompt_page

        write_prompt_page(found, data.name, page)
        say(f"page   {page}")
    if out is not None:
        write_tables(tables, out)
    write_json(json_file, found.to_json())
    return 0
