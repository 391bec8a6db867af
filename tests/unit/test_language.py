"""The documentation and the help are plain English: measures of tests/language.py, with the values that were reached."""

import builtins
import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import mean

import click
import pytest
from language import (
    DROPPED,
    ODD,
    OURS,
    docstrings,
    headings,
    hits,
    messages,
    prose,
    raised,
    report_texts,
    sentences,
    words,
)
from pages import DOCS, README, all_pages, page_of, relative

TEXTS = {page: page.read_text(encoding="utf-8") for page in all_pages()}
PROSE = {page: prose(text) for page, text in TEXTS.items()}
NEWCOMERS = ("first-run", "your-images", "control-cost", "compare-generators", "how-it-judges")


def per_thousand(count: int, text: str) -> float:
    return 1000 * count / len(words(text))


def test_odd_constructions_are_rare_in_pages() -> None:
    found = [f"{page.stem}: {hit}" for page, text in PROSE.items() for hit in hits(text, ODD)]
    assert per_thousand(len(found), "\n".join(PROSE.values())) <= 3, "\n".join(found)


def check_lengths(texts: Iterable[str]) -> None:
    lengths = {sentence: len(words(sentence)) for text in texts for sentence in sentences(text)}
    assert mean(lengths.values()) <= 16
    assert sum(length > 25 for length in lengths.values()) <= 0.1 * len(lengths)
    assert [sentence for sentence, length in lengths.items() if length > 40] == []


def test_sentences_are_short() -> None:
    check_lengths(PROSE.values())


@pytest.mark.parametrize(("texts", "least"), [(messages, 900), (report_texts, 25)])
def test_messages_and_reports_are_plain(texts: Callable[[], dict[str, str]], least: int) -> None:
    found = texts()
    assert len(found) >= least
    odd = [f"{place}: {hit}" for place, text in found.items() for hit in hits(text, ODD)]
    assert per_thousand(len(odd), "\n".join(found.values())) <= 3, "\n".join(odd)
    assert [f"{place}: {hit}" for place, text in found.items() for hit in hits(text, DROPPED)] == []
    check_lengths(found.values())


def test_messages_are_not_questions() -> None:
    assert [f"{place}: {text}" for place, text in messages().items() if "?" in text.partition("Did you mean")[0]] == []


WITHOUT_ACTION = {
    "built-in exceptions": "a reason, to which the caller adds the place and the action in a message of ours; or a fault in code",
    "Exception": "the fate of one request or image: `core/failure_advice.py` gives the action for its status or its cause",
    "error": "zlib's; a fault of one answer, as above",
    "kind": "a class of `providers/hosted/http.py` in a variable, as above",
    "type(error)": "an error that `Judge` raises again with the number of the image",
}
"""Kinds of errors whose texts need no action, and the reason."""


SCORE_REASON = "X: X"
"""Status and reason of a score, in a table of a suite: the advice on missing scores has the action."""


def test_messages_give_the_next_action() -> None:
    found = raised()
    assert sum(message.kind in OURS for message in found.values()) >= 850
    kinds = {each.kind for each in found.values() if not isinstance(getattr(builtins, each.kind, None), type)}
    assert kinds - {*OURS} <= WITHOUT_ACTION.keys()
    assert [
        f"{place}: {message.text}"
        for place, message in found.items()
        if message.kind in OURS and message.text != SCORE_REASON and not message.has_action
    ] == []


WITHOUT_VALUE = {
    "the caller adds the row, the image, the prompt or the file": [
        "a question is empty. Write its text",
        "a value does not fit its tag. Remove the tag",
        "an element of the image is not valid UTF-8. Correct its text",
        "an image has no id. Add it",
        "the edit has no source image. Add its path",
        "the image is missing. Restore it",
        "the prompt has no questions. Add one",
        "the safety checker of the pipeline blacked out the image. Change the prompt",
    ],
    "a page shows it beside its field or its row": [
        "the name is empty. Type your name",
        "there is no such run here. Reload the list of runs",
    ],
    "the fault is the kind of the request, or the state of an object": [
        "the judge was closed before this was judged. Make another Judge",
        "the model was closed before it answered. Run the command again",
        "videos cannot be judged. Send images",
    ],
}
"""Messages without a value and without their place, by the reason."""


def test_messages_quote_the_value_or_carry_the_place() -> None:
    found = {
        message.text
        for message in raised().values()
        if message.kind in OURS and not message.placed and not message.has_value
    }
    assert found == {text for texts in WITHOUT_VALUE.values() for text in texts}


def test_common_forms_of_messages_are_written_in_one_place() -> None:
    forms = re.compile(
        r"must be .*, not X$|^unknown \w+ 'X'\. Known|^(?:--[a-z-]+|X) cannot be combined with (?:--[a-z-]+|X)$"
    )
    assert [f"{place}: {text}" for place, text in messages(helpers=False).items() if forms.search(text)] == []


def test_docstrings_begin_with_an_action_or_a_name() -> None:
    begins = re.compile(r"(?:Return what|Tell|Say)\b")
    assert [f"{place}: {text.splitlines()[0]}" for place, text in docstrings().items() if begins.match(text)] == []


def test_odd_constructions_are_rare_in_docstrings() -> None:
    found = [f"{place}: {hit}" for place, text in docstrings().items() for hit in hits(text, ODD)]
    assert per_thousand(len(found), "\n".join(docstrings().values())) <= 0.8, "\n".join(found)


def test_pages_address_the_reader() -> None:
    every = "\n".join(PROSE.values())
    assert per_thousand(len(re.findall(r"(?i)\byours?\b|\byou\b", every)), every) >= 8


@pytest.mark.parametrize("page", [page for page in TEXTS if page != README], ids=relative)
def test_a_page_begins_with_its_reader(page: Path) -> None:
    first = TEXTS[page].split("\n\n")[1]
    assert re.search(r"\bfor you\b", first), first


def test_no_heading_comes_twice() -> None:
    counts = Counter(heading for text in TEXTS.values() for heading in headings(text))
    assert [heading for heading, count in counts.items() if count > 1] == []


def test_no_dropped_word_of_the_glossary_is_used() -> None:
    assert [f"{page.stem}: {hit}" for page, text in PROSE.items() for hit in hits(text, DROPPED)] == []


def test_pages_keep_their_budgets() -> None:
    sizes = {page: len(words(text)) for page, text in PROSE.items()}
    assert sum(sizes.values()) <= 22_000
    assert {page.stem: size for page, size in sizes.items() if size > 1_100} == {}
    assert sizes[README] <= 550
    assert sizes[README] + sum(sizes[page_of(name)] for name in NEWCOMERS) <= 4_800


def test_the_changelog_is_short_and_plain() -> None:
    lines = (DOCS.parent / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    groups = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert len(lines) <= 60
    assert {line[4:] for line in lines if line.startswith("### ")} <= groups
    assert [
        line for line in lines if len(line) > 160 or any(hits(prose(line), found) for found in (ODD, DROPPED))
    ] == []


def test_pages_are_in_the_folder_of_their_kind() -> None:
    kinds = {"tutorial", "how-to", "extend", "reference", "explanation", "measurements"}
    assert {page.relative_to(DOCS).parts[0] for page in TEXTS if page != README} == kinds


def help_texts(command: click.Command, context: click.Context) -> list[str]:
    """The help of a command, of its options and of its sub-commands."""
    own = [command.help or "", *(getattr(each, "help", None) or "" for each in command.params)]
    if not isinstance(command, click.Group):
        return own
    below = [command.get_command(context, name) for name in command.list_commands(context)]
    return own + [text for each in below if each for text in help_texts(each, context)]


def test_odd_constructions_are_rare_in_help() -> None:
    from titjudge.cli.commands import commands

    every = "\n\n".join(dict.fromkeys(help_texts(commands, click.Context(commands))))
    found = hits(every, ODD)
    assert per_thousand(len(found), every) <= 3, "\n".join(found)
