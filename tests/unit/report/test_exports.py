"""Exports: the same numbers for programs, papers and pull requests; nothing in them is run or rendered by who reads them."""

import csv
import importlib.util
import io
import json
import re
from pathlib import Path

import pytest
from report_runs import PROMPT, score, small_run, write_run

from titjudge.core.errors import ConfigError, DataError, MissingExtra
from titjudge.core.types import Item
from titjudge.report import export
from titjudge.report.exports import COLUMNS, KINDS
from titjudge.report.tables import escape_latex, escape_markdown


def test_csv_has_one_row_a_score_and_no_invented_number(tmp_path: Path) -> None:
    out = export([small_run(tmp_path / "run")], "csv", tmp_path / "deep" / "scores.csv")
    rows = list(csv.DictReader(io.StringIO(out.read_text(encoding="utf-8"))))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == 8
    refused = next(row for row in rows if row["status"] == "refused")
    assert refused["value"] == ""
    assert json.loads(next(row for row in rows if row["missing"])["missing"]) == ["a white mug behind the apples"]
    assert float(rows[0]["value"]) == 0.9


def test_csv_text_is_never_a_formula(tmp_path: Path) -> None:
    item = Item("=HYPERLINK(1)", PROMPT, None, "+x", "@y")
    out = export(
        [write_run(tmp_path / "run", [item], [score(item, "tit", -0.5, reason='-1+1,"\n')])], "csv", tmp_path / "s.csv"
    )
    (row,) = csv.DictReader(io.StringIO(out.read_text(encoding="utf-8")))
    assert (row["item"], row["generator"], row["prompt_id"]) == ("'=HYPERLINK(1)", "'+x", "'@y")
    assert row["value"] == "-0.5"  # a number stays one
    assert row["reason"] == "'-1+1,\"\n"


def test_json_holds_everything_of_both_runs(tmp_path: Path) -> None:
    runs = [small_run(tmp_path / "one"), small_run(tmp_path / "two")]
    record = json.loads(export(runs, "json", tmp_path / "r.json").read_bytes())
    assert [run["name"] for run in record["runs"]] == ["one", "two"]
    assert record["runs"][0]["results"]["metrics"]["tit"]["accuracy"] == 0.75
    assert record["runs"][0]["scores"][-1]["value"] is None


def test_parquet_needs_pyarrow_and_says_so(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    if importlib.util.find_spec("pyarrow") is None:
        with pytest.raises(MissingExtra, match=r"titjudge\[parquet\]"):
            export([run], "parquet", tmp_path / "s.parquet")
        return
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(export([run], "parquet", tmp_path / "s.parquet"))
    assert tuple(table.column_names) == COLUMNS
    assert table.column("value").null_count == 1


def test_latex_has_intervals_and_is_escaped(tmp_path: Path) -> None:
    tex = export([small_run(tmp_path / "run_1")], "latex", tmp_path / "t.tex").read_text(encoding="utf-8")
    assert r"75.0\% [50.0, 100.0]" in tex
    assert r"model\_a" in tex
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") == 3
    for line in tex.splitlines():
        if line.endswith(r"\\"):
            assert len(re.findall(r"(?<!\\)&", line)) in (1, 5, 6, 8)


def test_latex_specials() -> None:
    assert escape_latex("\\input{x} $1 & #2 _ ^ ~ %") == (
        r"\textbackslash{}input\{x\} \$1 \& \#2 \_ \textasciicircum{} \textasciitilde{} \%"
    )
    assert escape_latex("a\n\u202eb") == "a b"


def test_markdown_shows_tables_with_intervals(tmp_path: Path) -> None:
    text = export([small_run(tmp_path / "run", status="incomplete: budget")], "markdown", tmp_path / "t.md").read_text(
        encoding="utf-8"
    )
    assert "Status **incomplete: budget**, spent $0.2500, list price $0.5000." in text
    assert r"75.0% \[50.0, 100.0\]" in text
    assert "> tit read a third of every prompt" in text


def test_markdown_text_is_shown_as_text() -> None:
    hostile = (
        "<script>alert(1)</script> [x](javascript:1) ![i](http://e.vil/p.png) @everyone #1 |cell| `code`\n\n# title"
    )
    shown = escape_markdown(hostile)
    assert "<" not in shown
    assert "\n" not in shown
    assert "@" not in shown
    assert "://" not in shown
    assert not re.search(r"(?<!\\)[\[\]|`]", shown)


def test_runs_without_results_export_too(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [], [])
    for kind in set(KINDS) - {"parquet"}:
        assert export([run], kind, tmp_path / kind).stat().st_size > 0


def test_several_runs_export_their_differences(tmp_path: Path) -> None:
    text = export(
        [small_run(tmp_path / "one"), small_run(tmp_path / "two", shift=0.05)], "markdown", tmp_path / "t.md"
    ).read_text(encoding="utf-8")
    assert "**Runs compared**" in text


def test_an_unknown_kind_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown export 'latx'.*'latex'"):
        export([small_run(tmp_path / "run")], "latx", tmp_path / "t")


def test_rows_stand_in_the_order_of_the_data_with_prompt_and_path(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    lines = (run.path / "scores.jsonl").read_bytes().splitlines(keepends=True)
    (run.path / "scores.jsonl").write_bytes(b"".join(reversed(lines)))  # answers come in any order
    rows = list(csv.DictReader(export([run], "csv", tmp_path / "out.csv").read_text().splitlines()))
    assert [(row["item"], row["metric"]) for row in rows] == [
        (f"{name}{group}.png", metric) for group in (1, 2) for name in "ab" for metric in ("tit", "tit-llm")
    ]
    assert rows[0]["prompt"] == f"{PROMPT} Number 1."
    assert rows[0]["image"] == str((tmp_path / "run" / "img" / "a1.png").resolve())


def test_no_two_columns_of_a_table_have_one_name_and_tables_have_labels(tmp_path: Path) -> None:
    text = export([small_run(tmp_path / "run")], "latex", tmp_path / "out.tex").read_text()
    heads = [line for line in text.splitlines() if line.strip().startswith("generator &")]
    names = [name.strip() for name in heads[0].removesuffix(r"\\").split("&")]
    assert len(names) == len(set(names))
    assert "tit: mean rank" in names
    assert r"\label{tab:leaderboard}" in text


def test_generators_against_each_other_are_among_the_tables(tmp_path: Path) -> None:
    items = [Item(f"{name}{p}", PROMPT, None, name, f"p{p}") for p in range(8) for name in ("<low>", "mid", "top")]
    step = {"<low>": 0.1, "mid": 0.2, "top": 0.5}
    run = write_run(
        tmp_path / "run", items, [score(item, "tit", step[item.generator] + k % 7 / 50) for k, item in enumerate(items)]
    )
    page = export([run], "markdown", tmp_path / "r.md", baseline="mid").read_text(encoding="utf-8")
    (table,) = re.findall(r"\*\*Prompt by prompt: tit\*\*\n\n(.+?)\n\n(Won, same, lost .+)\n", page, re.DOTALL)
    head, _, *rows = table[0].splitlines()
    assert "| minus top | minus mid |" in head
    assert [row.split(" | ")[0] for row in rows] == ["| top", "| mid", "| &lt;low&gt;"]
    assert r"\caption{Prompt by prompt: tit}" in export([run], "latex", tmp_path / "r.tex").read_text(encoding="utf-8")
    with pytest.raises(DataError, match="unknown generator 'nobody'"):
        export([run], "latex", tmp_path / "none.tex", baseline="nobody")
    assert not (tmp_path / "none.tex").exists()
