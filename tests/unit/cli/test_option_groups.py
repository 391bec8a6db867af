"""Help of long commands: one screen of common options, and all of them in groups."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from commands import cli

import titjudge
from titjudge.cli.commands import Command, command_of
from titjudge.cli.option_groups import Option
from titjudge.cli.option_table import GROUPS, SPECS, keys_by_group
from titjudge.cli.overview import names
from titjudge.core.config import Limits, RunConfig

LONG = ["judge", "prompts make", "serve", "probe judge", "prompts facets", "score", "bench"]


def leaf_of(name: str) -> click.Command:
    """The command of a name such as `judge` or `prompts make`."""
    top, _, part = name.partition(" ")
    command = command_of(top)
    found = command.get_command(click.Context(command), part) if isinstance(command, click.Group) else command
    assert found is not None
    return found


def titles(text: str) -> list[str]:
    return [line[:-1] for line in text.splitlines() if line.endswith(":") and line[:-1] in (*GROUPS, "Options")]


def flags(text: str) -> set[str]:
    return {line.split()[0].rstrip(",") for line in text.splitlines() if line.startswith("  -")}


def test_the_help_of_judge_is_one_screen_of_80_columns_that_begins_with_examples(tmp_path: Path) -> None:
    text = cli(tmp_path, "judge", "--help")
    lines = text.splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 80
    assert text.index("Examples:") < text.index("Data:")
    assert 12 <= len(flags(text)) <= 20


def test_all_options_of_judge_stand_in_the_seven_groups(tmp_path: Path) -> None:
    text = cli(tmp_path, "judge", "--help-all")
    assert titles(text) == [*GROUPS]
    options = [each for each in command_of("judge").params if isinstance(each, click.Option) and not each.hidden]
    assert {option.opts[0] for option in options} <= flags(text)
    assert [option.name for option in options if not (isinstance(option, Option) and option.group in GROUPS)] == []


@pytest.mark.parametrize("name", LONG)
def test_the_short_help_is_a_part_of_the_long_one_and_names_it(name: str, tmp_path: Path) -> None:
    short, everything = cli(tmp_path, *name.split(), "--help"), cli(tmp_path, *name.split(), "--help-all")
    assert f"All {len(flags(everything)) - 1} options" in short
    assert flags(short) < flags(everything)


def test_the_line_of_a_common_option_fits_beside_its_flag() -> None:
    options = [each for name in LONG for each in leaf_of(name).params if isinstance(each, Option)]
    assert {option.brief for option in options if len(option.brief) > 44} == set()


def test_every_key_of_the_configuration_has_a_group() -> None:
    keys = {name for model in (RunConfig, Limits) for name in model.model_fields} - {"limits"}
    assert keys <= {key for names in keys_by_group().values() for key in names}


def test_a_short_command_lists_all_its_options_and_takes_help_all_too(tmp_path: Path) -> None:
    text = cli(tmp_path, "merge", "--help")
    assert titles(text) == ["Options"]
    assert "--help-all" not in text
    assert cli(tmp_path, "merge", "--help-all") == text


NAMES, ENTRIES = 130, 420  # they may only fall
GLOBAL = {"--version", "--help", "--json", "--explain", "--log-level", "--log-file"}


def leaves(command: click.Command) -> Iterator[click.Command]:
    """A command, or all commands of a group."""
    if not isinstance(command, click.Group):
        yield command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from leaves(below)


def options() -> list[click.Option]:
    """All options of all commands, also the hidden ones."""
    commands = [leaf for name in names() for leaf in leaves(command_of(name))]
    params = [each for command in commands for each in command.get_params(click.Context(command))]
    return [each for each in params if isinstance(each, click.Option)]


def long_flag(option: click.Option) -> str:
    return max(option.opts, key=len)


def test_global_options_are_listed_once_and_the_number_of_options_only_falls(tmp_path: Path) -> None:
    listed = [long_flag(each) for each in options() if not each.hidden]
    assert not GLOBAL & {*listed}
    assert {word.rstrip(",") for word in cli(tmp_path, "--help").split()} >= GLOBAL
    assert len({*listed} | GLOBAL) <= NAMES
    assert len(listed) + len(GLOBAL) <= ENTRIES


def test_an_option_has_the_same_flags_text_type_and_group_in_all_commands() -> None:
    meanings: dict[str, set[str]] = {}
    for each in options():
        if long_flag(each) == "--help":
            continue  # click's own
        group = each.group if isinstance(each, Option) else ""
        meaning = repr((each.opts, each.secondary_opts, each.help, each.type, each.metavar, each.is_flag, group))
        meanings.setdefault(long_flag(each), set()).add(re.sub(r" at 0x\w+", "", meaning))
    assert {flag: found for flag, found in meanings.items() if len(found) > 1} == {}


def test_every_option_is_in_the_table_and_every_line_of_the_table_is_used() -> None:
    apart = {"--help", "--help-all", "--log-level", "--log-file"}
    assert {long_flag(each).partition("/")[0] for each in options()} - apart == {each.flag for each in SPECS.values()}


# of other programs, and of the command lines that titjudge starts
FOREIGN = {
    "--mmproj", "--postfix", "--sample", "--resolution", "--language", "--query-gpu", "--file", "--head", "--max-model-len",
    "--logdir", "--answers", "--generate", "--version", "--help", "--help-all", "--log-level", "--log-file", "--no-report",
    "--no-both-bad",
}  # fmt: skip


def test_no_text_of_the_package_names_an_option_that_does_not_exist() -> None:
    known = {each.flag for each in SPECS.values()} | FOREIGN
    package = Path(titjudge.__file__).parent
    files = [each for each in package.rglob("*") if each.suffix in (".py", ".yaml", ".md", ".html")]
    named = {
        f"{each.relative_to(package)}: {flag}"
        for each in files
        for flag in re.findall(r"(?<![\w<!$({-])--[a-z][a-z-]*[a-z]\b(?!-)", each.read_text(encoding="utf-8"))
        if flag not in known
    }
    assert named == set()


def test_an_option_of_a_package_that_names_no_group_is_always_listed() -> None:
    own = click.Option(["--mine"], help="Mine.")
    grouped = [Option([f"--rare-{number}"], group=GROUPS[0], help="Rare.") for number in range(25)]
    text = Command("long", params=[own, *grouped]).get_help(click.Context(Command("long")))
    assert "--mine" in text
    assert "--rare" not in text


@pytest.mark.parametrize(
    "command",
    [
        "export sft r",
        "export preferences r",
        "export split t",
        "merge a b",
        "prompts export",
        "answers export",
        "probe images",
    ],
)
def test_a_command_that_writes_a_result_requires_its_place(command: str) -> None:
    name = " ".join(word for word in command.split() if len(word) > 1)
    with pytest.raises(click.MissingParameter, match="out"):
        leaf_of(name).make_context(name, [word for word in command.split() if len(word) == 1])
