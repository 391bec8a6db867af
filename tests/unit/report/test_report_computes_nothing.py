"""The report reads records and calls statistics: a mean, a spread or a test of its own would be a second one to keep equal."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import titjudge.report

FILES = sorted(Path(titjudge.report.__file__).parent.glob("*.py"))
ARRAYS = {"model.py", "plots.py"}  # the index of cached answers; the geometry of charts
STATISTICS = {
    "average", "corrcoef", "fmean", "mean", "median", "nanmean", "nanmedian", "nanstd", "percentile", "pstdev", "quantile", "std",
    "stdev", "var", "variance",
}  # fmt: skip


def called(node: ast.AST) -> str:
    """Return the last part of the name of what is called; empty where nothing is."""
    if not isinstance(node, ast.Call):
        return ""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def computed(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if called(node) in STATISTICS:
            yield called(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and called(node.left) == "sum":
            yield "sum / ..."


def imported(source: str) -> set[str]:
    names = {
        name
        for node in ast.walk(ast.parse(source))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_report_computes_no_statistics(file: Path) -> None:
    source = file.read_text()
    assert list(computed(source)) == []
    assert not imported(source) & {"scipy", "statistics"}
    assert ("numpy" in imported(source)) == (file.name in ARRAYS)


@pytest.mark.parametrize("line", ["np.mean(x)", "scores.std()", "sum(x) / len(x)", "fmean(x)"])
def test_statistics_are_found(line: str) -> None:
    assert len(list(computed(line))) == 1
