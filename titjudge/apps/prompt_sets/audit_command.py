"""`prompts audit`: lengths, near-duplicates, leaks and balance of a set of prompts."""

from __future__ import annotations

from pathlib import Path

import click

from titjudge.cli.commands import Command
from titjudge.cli.option_table import PATH
from titjudge.cli.options import JSON, RunKeys, configured, options
from titjudge.cli.output import check_writable, show_tables, write_json
from titjudge.cli.terminal import say


@click.command(cls=Command, short_help="Audit a set of prompts: lengths, duplicates, balance.")
@click.argument("data", type=PATH)
@options("against", "tokenizer", "html", "out", "embedder", "max_cost", "settings")
@JSON
@configured
def audit(
    keys: RunKeys,
    data: Path,
    against: tuple[str, ...],
    tokenizer: Path | None,
    html: Path | None,
    out: Path | None,
    json_file: Path | None,
) -> int:
    """Audit a set of prompts: lengths, parts that text encoders cut off, near-duplicates, balance, language.

    DATA is a list of prompts (.jsonl, .csv, .parquet, or .txt with one prompt per line), with the columns of id and prompt if
    these have other names (FILE:ID,PROMPT), or a data folder. Two prompts are
    near-duplicates if the cosine of their embeddings is at least 0.85. Use --against with the prompts of a
    benchmark to find leaked prompts. TIIF-Bench counts unique prompts with CLIP's text embeddings: to compare
    with its paper, give --embedder a folder of CLIP. The default embedder, MiniLM, has another scale.
    Columns with few different values (type, theme, ...) are counted.

    \b
    Examples:
      python cli.py prompts audit prompts.csv
      python cli.py prompts audit prompts.txt --html audit.html
      python cli.py prompts audit mine.jsonl --against benchmark.csv \\
        --against starter --against geneval2
      python cli.py prompts audit prompts.csv \\
        --embedder sentence-transformers/openai/clip-vit-base-patch32
    """
    from titjudge.apps.prompt_sets.audit import audit_prompts as run_audit
    from titjudge.core.grouping import brief
    from titjudge.report.tables import check_table_file, write_tables

    check_writable(html, data)
    if out is not None:
        check_table_file(out)
        check_writable(out, data)
    audit, problems = run_audit(keys.config(), data, against=against, tokenizer=tokenizer)
    tables = audit.tables()
    show_tables(tables)
    if problems:
        count = "1 row is not a prompt" if len(problems) == 1 else f"{len(problems):,} rows are not prompts"
        say(f"\n{count}: {brief(problems)}", err=True)
    if html is not None:
        from titjudge.apps.prompt_sets.audit import write_prompt_page

        write_prompt_page(audit, data.name, html)
        say(f"page   {html}")
    if out is not None:
        write_tables(tables, out)
    write_json(json_file, audit.to_json())
    return 0
