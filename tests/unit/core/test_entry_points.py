"""What packages announce, read as `importlib.metadata` reads it."""

import sys
import zipfile
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from titjudge.core import entry_points as own

Install = Callable[[str, str], None]
KINDS = ("commands", "sinks", "metrics")


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install metadata of a package, in a folder of `sys.path` (FOLDER/NAME), with the text of its entry points."""

    def add(place: str, text: str) -> None:
        file = tmp_path / place / "entry_points.txt"
        file.parent.mkdir(parents=True)
        file.write_text(text, encoding="utf-8")
        monkeypatch.syspath_prepend(str(file.parents[1]))

    own.announced.cache_clear()
    own._files.cache_clear()
    yield add
    own.announced.cache_clear()
    own._files.cache_clear()


def found() -> dict[str, dict[str, str]]:
    return {kind: own.announced(kind) for kind in KINDS}


def expected() -> dict[str, dict[str, str]]:
    return {kind: {p.name: p.value for p in entry_points(group=f"titjudge.{kind}")} for kind in KINDS}


@pytest.mark.parametrize(
    "text",
    [
        "[titjudge.commands]\nmood = package.mood:command\n",
        "[console_scripts]\nx = y:z\n\n[titjudge.commands]\n# no = comment:line\nmood=package:mood\n\n  low = a.b : c \n[titjudge.sinks]\ns = t:u\n",
        "[titjudge.commands]\r\nmood = package:mood\r\n\r\n[titjudge.metrics]\r\nm = n:o\r\n",
        "  [titjudge.commands]  \nmood = package:mood\n[titjudge.commands2]\nlow = a:b\n[titjudge.commands]\nhigh = a:b [extra]\n",
        "",
        "mood = package:mood\n",
    ],
)
def test_every_spelling_is_read(text: str, install: Install) -> None:
    install("a/my_package-1.0.dist-info", text)
    assert found() == expected()
    assert "bench" in found()["commands"]


def test_of_a_package_installed_twice_the_first_counts(install: Install) -> None:
    install("a/My.Package-1.0.dist-info", "[titjudge.commands]\nold = package:old\n")
    install("b/my_package-2.0.egg-info", "[titjudge.commands]\nnew = package:new\n")
    install("b/other-2.0.dist-info", "[titjudge.sinks]\nnew = package:new\n")
    assert found() == expected()
    assert found()["commands"].keys() & {"old", "new"} == {"new"}


def test_packages_in_an_archive_are_found(tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.writestr("packed-1.0.dist-info/METADATA", "Name: packed\nVersion: 1.0\n")
        archive.writestr("packed-1.0.dist-info/entry_points.txt", "[titjudge.commands]\npacked = a:b\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "packed.zip")])
    assert found() == expected()
    assert "packed" in found()["commands"]


def test_no_file_and_a_folder_that_is_gone_announce_nothing(
    tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a/empty-1.0.dist-info").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "a"), str(tmp_path / "gone"), ""])
    assert found() == expected()
