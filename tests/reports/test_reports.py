"""Every public report in this folder stays fixed. See `kinds.py` for how to add one."""

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from kinds import Report, Weights  # noqa: E402


def _reports() -> list[Report]:
    found: list[Report] = []
    for path in sorted(HERE.glob("*.py")):
        if path.stem not in ("kinds", "test_reports"):
            spec = importlib.util.spec_from_file_location(f"reports_{path.stem}", path)
            assert spec
            assert spec.loader
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            found += module.REPORTS
    return found


REPORTS = _reports()


def _parameter(number: int, report: Report) -> Any:
    marks = [pytest.mark.slow] if isinstance(report, Weights) else []
    return pytest.param(report, marks=marks, id=f"{number}-{report.source}")


@pytest.mark.parametrize("report", [_parameter(*each) for each in enumerate(REPORTS)])
def test_report(report: Report, tmp_path: Path, quick_retries: None) -> None:
    report.check(tmp_path)


def test_every_report_names_its_source() -> None:
    assert [
        r for r in REPORTS if not re.fullmatch(r"[\w.-]+/[\w.-]+#\d+|found beside [\w.-]+/[\w.-]+#\d+", r.source)
    ] == []
    assert [r for r in REPORTS if not r.symptom or len(r.symptom) > 120] == []
