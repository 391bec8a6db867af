"""The check of licences lets no package through whose licence binds those who use it."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / ".ci" / "licences.py"


@pytest.fixture(scope="module")
def licences() -> ModuleType:
    spec = importlib.util.spec_from_file_location("licences_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("MIT", True),
        ("BSD-3-Clause AND 0BSD AND MIT AND Zlib AND CC0-1.0", True),
        ("GPL-3.0-only OR MIT", True),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", True),
        ("MPL-2.0", True),
        ("GNU Lesser General Public License v3 (LGPLv3)", True),
        ("Apache Software License", True),
        ("GPL-3.0-or-later", False),
        ("GNU General Public License v3 (GPLv3)", False),
        ("GNU Affero General Public License v3", False),
        ("MIT AND GPL-2.0-only", False),
        ("MIT AND LicenseRef-Own", False),
        ("LicenseRef-NVIDIA-Proprietary", False),
        ("UNKNOWN", False),
        ("", False),
    ],
)
def test_what_may_come_along(licences: ModuleType, name: str, allowed: bool) -> None:
    assert licences.allowed(name) is allowed


def installed(place: Path, name: str, *lines: str) -> None:
    folder = place / f"{name.replace('-', '_')}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        "\n".join(["Metadata-Version: 2.4", f"Name: {name}", "Version: 1.0", *lines]) + "\n"
    )


@pytest.mark.parametrize(
    ("licence", "code"),
    [
        ("License-Expression: MIT", 0),
        ("License-Expression: GPL-3.0-or-later", 1),
        ("Classifier: License :: OSI Approved :: GNU General Public License v3 (GPLv3)", 1),
        ("License: MIT License", 0),
        ("License: ask us", 1),
        ("Summary: says nothing", 1),
    ],
)
def test_a_requirement_of_a_requirement_counts(
    licences: ModuleType, licence: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    installed(tmp_path, "some-project", "License-Expression: MIT", "Requires-Dist: some-helper[fast]>=1",
              'Requires-Dist: only-for-tests; extra == "test"', 'Requires-Dist: old; python_version < "3"')  # fmt: skip
    installed(tmp_path, "some-helper", "License-Expression: MIT", 'Requires-Dist: deep-down; extra == "fast"')
    installed(tmp_path, "deep-down", licence)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert licences.main("some-project") == code
    told = capsys.readouterr()
    assert "licences of 3 packages" in told.out
    assert ("deep-down: " in told.err) is bool(code)


def test_what_is_required_and_not_installed_fails(
    licences: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installed(tmp_path, "some-project", "License-Expression: MIT", "Requires-Dist: nowhere-to-be-found")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert licences.main("some-project") == 1
    assert "nowhere-to-be-found: required, and not installed here" in capsys.readouterr().err
