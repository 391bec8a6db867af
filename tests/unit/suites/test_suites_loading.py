"""Suites are loaded by name, with what the run says to them and options of their own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from titjudge.core import registry
from titjudge.core.config import RunConfig
from titjudge.core.errors import ConfigError
from titjudge.core.types import Item, Score
from titjudge.suites import Suite, SuiteInputs
from titjudge.suites.loading import open_suite, suite_class

STRICT = SuiteInputs()
BUNDLED = Path(registry.__file__).parents[1] / "suites"


class Bare(Suite):
    """Has a name, metrics and items."""

    name = "bare"
    metrics = ("tit",)

    def load(self, folder: Path) -> Iterator[Item]:
        return iter(())


class Optional(Bare):
    """Has an option and files of its own."""

    def __init__(self, inputs: SuiteInputs = STRICT, *, mode: str = "en") -> None:
        super().__init__(inputs)
        self.mode = mode

    def write_official(self, items: object, scores: object, folder: Path) -> int:
        return 0


class Deaf(Bare):
    """Does not take what the run says."""

    def __init__(self, mode: str = "en") -> None:
        pass


@pytest.fixture(autouse=True)
def _announced(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Bare", "Optional", "Deaf", "Path"):
        monkeypatch.setitem(registry.TABLES["suites"], name.lower(), f"{__name__}:{name}")


def test_a_suite_without_a_constructor_knows_what_the_run_says() -> None:
    suite = open_suite(RunConfig(suite="bare", protocol="official", image_root=[BUNDLED]))
    assert (suite.protocol, suite.image_roots, suite.notes) == ("official", (BUNDLED,), [])
    assert not suite.writes_official
    assert suite.aggregate([], list[Score]()) == []


def test_options_are_keywords_of_the_constructor() -> None:
    suite = open_suite(RunConfig(suite="optional", protocol="official", suite_options={"mode": "zh"}))
    assert isinstance(suite, Optional)
    assert (suite.mode, suite.protocol, suite.writes_official) == ("zh", "official", True)
    with pytest.raises(ConfigError, match=r"has no option 'mod'\. Did you mean 'mode'\? Known: mode"):
        open_suite(RunConfig(suite="optional", suite_options={"mod": "zh"}))
    with pytest.raises(ConfigError, match="has no option 'inputs'"):
        open_suite(RunConfig(suite="optional", suite_options={"inputs": "zh"}))


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"columns": {"image": ["file"]}}, "the suite bare has fixed columns"),
        ({"images": "{prompt_id}.png", "prompt_file": "p.txt"}, "the suite bare has a fixed layout"),
    ],
)
def test_what_a_suite_does_not_take_is_refused(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        open_suite(RunConfig(suite="bare", **keys))


def test_what_is_no_suite_is_named() -> None:
    with pytest.raises(
        ConfigError, match=r"the suite 'path' must be a class that inherits from titjudge\.suites\.Suite"
    ):
        suite_class("path")
    with pytest.raises(ConfigError, match="must have `inputs` as its first parameter"):
        open_suite(RunConfig(suite="deaf"))


def test_the_bundled_files_are_found_by_their_names() -> None:
    files = sorted(BUNDLED.glob("*.yaml"))
    assert len(files) > 5
    assert [suite_class(file.stem).name for file in files] == [file.stem for file in files]
