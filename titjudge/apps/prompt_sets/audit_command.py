"""`prompts audit`: lengths, near-duplicates, leaks and balance of a set of prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from titjudge.cli.commands import Command
from titjudge.cli.options import JSON, PATH, PROMPT_COLUMNS, TABLE_FILE, option
from titjudge.cli.output import check_writable, show_tables, write_json
from titjudge.cli.terminal import say


@click.command(cls=Command, short_help="Audit a set of prompts: lengths, duplicates, balance.")
@click.argument("data", type=PATH)
@PROMPT_COLUMNS
@option(
    "--against",
    "Prompts that must not leak into this set: a list, a data folder, or a suite (NAME, or NAME:FOLDER of its files); "
    "repeatable.",
    "DATA",
    multiple=True,
)
@option("--tokenizer", "Count tokens with this tokenizer (a folder of transformers).", "DIR")
@option("--html", "Write a page with charts.", "FILE", name="page")
@TABLE_FILE
@option("--embedder", "Embedding model that compares prompts  [default: the one in the package].", "PROVIDER/MODEL")
@option(
    "--pooling",
    "Pooling of the token vectors, if the folder of the embedding model does not state it.",
    type=click.Choice(["lasttoken", "mean", "cls"]),
)
@option("--cache", "Cache folder of the embeddings.", "DIR")
@option("--max-cost", "Cap in USD for a hosted embedding model.", "USD", type=float)
@JSON
def audit(
    data: Path,
    columns: str,
    against: tuple[str, ...],
    tokenizer: Path | None,
    page: Path | None,
    out: Path | None,
    json_file: Path | None,
    **flags: Any,
) -> int:
    """Audit a set of prompts: lengths, parts that text encoders cut off, near-duplicates, balance, language.

    DATA is a list of prompts (.jsonl, .csv, .parquet, or .txt with one prompt per line) or a data folder. Two prompts are
    near-duplicates if the cosine of their embeddings is at least 0.85. Use --against with the prompts of a
    benchmark to find leaked prompts. TIIF-Bench counts unique prompts so by CLIP's text embeddings: name a folder of CLIP
    to put a share beside the paper's. By default MiniLM compares, of which .85 is another scale.
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
    from titjudge.core.config import load_config
    from titjudge.core.grouping import brief
    from titjudge.report.tables import check_table_file, write_tables

    check_writable(page, data)
    if out is not None:
        check_table_file(out)
        check_writable(out, data)
    if flags["pooling"] and not flags["embedder"]:
        raise click.UsageError("--pooling requires --embedder")
    options = {"options": {"pooling": flags["pooling"]}} if flags["pooling"] else {}
    embedder = {"model": flags["embedder"], **options} if flags["embedder"] else None
    config = load_config(
        None, {"embedder": embedder, "cache": flags["cache"], "limits": {"max_cost": flags["max_cost"]}}
    )
    audit, problems = run_audit(config, data, columns=columns, against=against, tokenizer=tokenizer)
    tables = audit.tables()
    show_tables(tables)
    if problems:
        count = "1 row is not a prompt" if len(problems) == 1 else f"{len(problems):,} rows are not prompts"
        say(f"\n{count}: {brief(problems)}", err=True)
    if page is not None:
        from titjudge.apps.prompt_sets.audit import write_prompt_page

        write_prompt_page(audit, data.name, page)
        say(f"page   {page}")
    if out is not None:
        write_tables(tables, out)
    write_json(json_file, audit.to_json())
    return 0
