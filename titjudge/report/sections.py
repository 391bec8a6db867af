"""The parts that a page is made of: sections with parts, and the blocks in them. The template draws them in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from titjudge.core.tables import Cell, Note, Table, Value, text_of
from titjudge.report.drawing import Chart


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark on a separate line."""

    text: str


@dataclass(frozen=True, slots=True)
class Charts:
    """Charts side by side, and the names of the things with a colour in them, in the order of the colours."""

    charts: tuple[Chart, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """A number of a headline: its label, the number, the line below it, and the fragment of the page that it leads to."""

    label: str
    value: str
    note: str
    link: str


@dataclass(frozen=True, slots=True)
class Side:
    """An image of a duel.

    Attributes:
        generator: The generator that made it.
        image: Its number; None if the report does not have it.
        score: Its score, as text.
        reason: The judge's reason.
    """

    generator: str
    image: int | None
    score: str
    reason: str


@dataclass(frozen=True, slots=True)
class PromptDuel:
    """A prompt with the images of two generators; `ahead` is the side that was scored higher, 0 or 1."""

    prompt: str
    sides: tuple[Side, Side]
    ahead: int


@dataclass(frozen=True, slots=True)
class PromptDuels:
    """Prompts below a common title, such as the prompts that a generator won most."""

    title: str
    duels: tuple[PromptDuel, ...]


@dataclass(frozen=True, slots=True)
class Opening:
    """The first lines of the page.

    Attributes:
        headline: The verdict in one short sentence.
        numbers: Its numbers, in a line below it.
        charts: The generators with the intervals of their means, and the margin of the best.
        sentences: The other sentences of the verdict.
        notes: Remarks on what was judged.
        examples: The prompts that show the verdict.
    """

    headline: str
    numbers: str = ""
    charts: tuple[Table, ...] = ()
    sentences: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    examples: tuple[PromptDuels, ...] = ()

    @property
    def images(self) -> set[int]:
        """Numbers of the images that it shows."""
        return {
            side.image
            for duels in self.examples
            for duel in duels.duels
            for side in duel.sides
            if side.image is not None
        }


@dataclass(frozen=True, slots=True)
class Headline:
    """The main numbers of a run.

    Attributes:
        name: The run; empty if there is only one.
        counts: Its size, suite and date in one line; empty if the opening has it.
        status: `complete`, or what it stopped at.
        facts: Its main numbers.
        warnings: The warnings of its results.
    """

    name: str
    counts: str
    status: str
    facts: tuple[Fact, ...]
    warnings: tuple[Note, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of remarks."""

    title: str
    note: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FoldedText:
    """A long text that is opened when it is asked for."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Links:
    """Links to files beside the page, by their places, and a remark."""

    title: str
    links: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class SearchList:
    """A list that is searched, filtered and sorted, beside what is chosen in it; the scripts of the page fill it.

    Attributes:
        noun: The listed things, in the plural.
        searched: The words in which the search looks.
        filter: The filter beside that by generator.
    """

    noun: str
    searched: str
    filter: str


@dataclass(frozen=True, slots=True)
class PictureMatrix:
    """Prompts down and generators across, a picture in each cell; the scripts of the page fill it."""


Block = Table | Remark | Charts | Opening | Headline | Listing | FoldedText | Links | SearchList | PictureMatrix


@dataclass(frozen=True, slots=True)
class Part:
    """Blocks below one heading, such as the blocks of one metric.

    Attributes:
        title: The heading; empty if a section has only one part.
        blocks: The content below it.
        folded: Whether it is opened only when it is asked for.
    """

    title: str
    blocks: tuple[Block, ...]
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the page.

    Attributes:
        id: Its name in links.
        label: Its name in the navigation.
        title: Its heading.
        introduction: Its subject; words between backquotes are code.
        parts: Its parts.
        titled: Whether the heading is seen, not only read aloud.
    """

    id: str
    label: str
    title: str
    introduction: str = ""
    parts: tuple[Part, ...] = ()
    titled: bool = True

    @property
    def blocks(self) -> Iterator[Block]:
        """The blocks of all parts."""
        return (block for part in self.parts for block in part.blocks)

    @property
    def tables(self) -> list[Table]:
        """The tables, without tables of the numbers of charts."""
        return [block for block in self.blocks if isinstance(block, Table)]

    @property
    def charts(self) -> list[Chart]:
        """The charts."""
        return [chart for block in self.blocks if isinstance(block, Charts) for chart in block.charts]

    @property
    def is_list(self) -> bool:
        """Whether the section is a list beside what is chosen in it."""
        return any(isinstance(block, SearchList) for block in self.blocks)

    @property
    def layout(self) -> str:
        """How the section fills the window: `split` and `wide` to its edges, `page` as a column to read."""
        wide = any(isinstance(block, PictureMatrix) for block in self.blocks)
        return "wide" if wide else "split" if self.is_list else "page"


def single(*blocks: Block | Sequence[Block]) -> tuple[Part, ...]:
    """Make the only part of a section; lists of blocks are joined."""
    joined: list[Block] = []
    for block in blocks:
        joined += block if isinstance(block, list | tuple) else [block]  # type: ignore[list-item]
    return (Part("", tuple(joined)),)


def fragment(view: str, **filters: Any) -> str:
    """Make the link to a view of the report with its filters: `#images?g=...`."""
    query = urlencode({name: value for name, value in filters.items() if value not in (None, "")})
    return f"#{view}?{query}" if query else f"#{view}"


def linked(value: Value, link: str, *, bar: bool = False) -> Cell | None:
    """Make the cell of a value that leads to a part of the page; None stays None."""
    if value is None:
        return None
    cell = value if isinstance(value, Cell) else Cell(text_of(value))
    return replace(cell, link=link, bar=bar)


def strings(value: Any) -> list[str]:
    """Return the members of a list as texts; an empty list for anything else."""
    return [str(member) for member in value] if isinstance(value, list | tuple) else []
