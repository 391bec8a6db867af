"""The counter of `.ci/size.py`, and that no package is above its ceiling."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def size() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ci_size", ROOT / ".ci" / "size.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("", 0),
        ("x = 1\n", 3),
        ("x = (\n    1\n)\n", 5),  # line breaks do not count
        ("# a comment\nx = 1  # another\n", 3),
        ('"""A docstring."""\nx = 1\n', 3),
        ('def f():\n    """One\n    of three lines."""\n    return 1\n', 7),
        ('class A:\n    """Doc."""\n\n    x: int = 1\n    """Of an attribute."""\n', 9),  # a text of its own is code
        ("async def f(): return '''no\ndocstring'''\n", 8),
    ],
)
def test_tokens_without_comments_and_docstrings_are_counted(size: ModuleType, source: str, count: int) -> None:
    assert size.tokens(source) == count


def test_files_count_for_their_package(size: ModuleType, tmp_path: Path) -> None:
    for name, source in (("a.py", "x = 1\n"), ("one/b.py", "x = 12\n"), ("one/deep/c.py", "y = 1\n")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source)
    assert size.sizes(tmp_path) == {".": 3, "one": 6}


def test_a_package_above_its_ceiling_fails_and_ceilings_only_go_down(
    size: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ceilings = tmp_path / "size.toml"
    (tmp_path / "titjudge" / "core").mkdir(parents=True)
    monkeypatch.setattr(size, "ROOT", tmp_path)
    monkeypatch.setattr(size, "CEILINGS", ceilings)
    for source, code, ceiling in (("x = 1\n", 0, 3), ("x = [1]\n", 1, 4), ("x\n", 0, 1)):
        ceilings.write_text('# Notes.\n[tokens]\n"core" = 4\n')
        (tmp_path / "titjudge" / "core" / "a.py").write_text(source)
        assert size.main(["--lower"]) == code
        assert ceilings.read_text() == f'# Notes.\n[tokens]\n"core" = {ceiling}\n'
        assert ("Too large: core" in capsys.readouterr().out) == bool(code)
