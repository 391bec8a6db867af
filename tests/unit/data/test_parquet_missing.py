"""Without pyarrow: one line names the extra."""

import sys
from pathlib import Path

import pytest
from commands import cli

from titjudge.core.errors import MissingExtra
from titjudge.data import images


def test_without_pyarrow_one_line_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    said = cli(tmp_path, "judge", "--data", "a.parquet", "--captioner", "fake/any", "--metric", "tit", code=2)
    assert said.splitlines()[-1].endswith("a .parquet table needs pyarrow: pip install 'titjudge[parquet]'")
    with pytest.raises(MissingExtra):
        images.read(tmp_path / "a.parquet" / "image" / "1")
