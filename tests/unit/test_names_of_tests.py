"""Each file of unit tests bears the name of a module or package that exists, so that a module's tests are found by its name."""

from pathlib import Path

import pytest

UNIT = Path(__file__).parent
PACKAGE = UNIT.parents[1] / "titjudge"
PACKAGES = sorted(folder for folder in UNIT.iterdir() if (PACKAGE / folder.name / "__init__.py").is_file())


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: folder.name)
def test_a_file_of_tests_is_named_after_a_module(folder: Path) -> None:
    modules = [file for file in (PACKAGE / folder.name).rglob("*.py") if file.stem != "__init__"]
    rooms = {file.parent.name for file in modules}
    names = rooms | {file.stem for file in modules} | {f"{file.parent.name}_{file.stem}" for file in modules}
    files = [file.stem.removeprefix("test_") for file in folder.rglob("test_*.py")]
    assert files
    assert [file for file in files if not any(file == name or file.startswith(f"{name}_") for name in names)] == []
