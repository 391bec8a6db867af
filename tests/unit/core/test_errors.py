"""Messages quote little of what they are about."""

import pytest

from titjudge.core.errors import ConfigError, DataError, Unclear

LONG = (
    "x" * 5000, "a word " * 1000, "\u6587" * 5000, "it's " * 1000, '{"a": "b"} ' * 500, "\u0661" * 5000, "a" * 399 + " " + "b" * 5000,
)  # fmt: skip


@pytest.mark.parametrize("cell", LONG)
@pytest.mark.parametrize("form", ["the value {} is none", "the value '{}' is none", "the value {!r} is none", '"{}"'])
def test_a_long_cell_is_cut(cell: str, form: str) -> None:
    message = form.format(cell)
    for error in (ConfigError(message), DataError(message, "file.csv", 3)):
        assert len(str(error)) < 1700
    assert len(DataError(message).message) <= 400


def test_the_commands_of_unclear_data_are_whole() -> None:
    path = "folder/" * 100
    error = Unclear("which?", path, [(f"--images '{path}'", "first")])
    assert path in str(error).splitlines()[1]


def test_a_short_message_stays_as_it_is() -> None:
    words = "a 'name' and\nanother line " * 10
    assert str(ConfigError(words)) == words
