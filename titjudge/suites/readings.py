"""Ways to read the names of images: which prompt each was made from. Where there is more than one, nothing is judged.

A wrong number would judge every image against its neighbour's prompt, and nobody would see it in the scores.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from titjudge.core.errors import UnclearData
from titjudge.core.names import plain
from titjudge.suites.patterns import compiled
from titjudge.suites.prompt_list import Numbering, numberings

Groups = Mapping[str, Mapping[str, str]]
"""Generator -> name of an image -> the prompt id that its name has."""
_MOST = 4  # readings that an error lists
_MANY = 10  # prompts; with fewer, as many generators may have their numbers
_SAMPLE_FIRST = re.compile(r"(^|/)\{sample\}.*\{prompt_id\}")  # a number without a word, where a prompt could stand


@dataclass(frozen=True, slots=True)
class Reading:
    """A way to read the names of images.

    Attributes:
        pattern: Of the names.
        numbering: Of the prompts.
        prompts: The prompt of each image that has one.
        alone: Whether it holds for the images of one generator only, and puts a reading of all into doubt.
    """

    pattern: str
    numbering: Numbering
    prompts: Mapping[str, str]
    alone: bool = False

    @property
    def prompt_file(self) -> str:
        """The prompts, as `--prompt-file` takes them; empty where it has no words for them."""
        return self.numbering.prompt_file

    @property
    def share(self) -> float:
        """Share of the prompts that have an image."""
        there = set(self.numbering.prompts.values())
        return len(there & set(self.prompts.values())) / len(there)

    @property
    def may_be_taken(self) -> bool:
        """Whether it needs nobody to say it: the options have words for it, and it is no numbering or sample by chance."""
        if self.alone or not self.prompt_file or self.numbering.by == "rows" or _SAMPLE_FIRST.search(self.pattern):
            return False
        begins = self.numbering.by == "ids" or next(iter(self.numbering.prompts.values())) in self.prompts.values()
        return begins and (self.share >= 0.5 or "{sample}" not in self.pattern)

    @property
    def is_plain(self) -> bool:
        """Whether each of many prompts has its samples: no chance lets folders have just the numbers of all prompts."""
        several = re.search(r"\{prompt_id\}.*\{(sample|seed)\}", self.pattern) is not None
        return several and self.share == 1 and len(self.numbering.prompts) >= _MANY and self.may_be_taken

    @property
    def options(self) -> str:
        """The options that say it."""
        return f"--images {shlex.quote(self.pattern)} --prompt-file {shlex.quote(self.prompt_file)}"


def pairing(name: str, prompt: str) -> str:
    """Show which prompt an image is judged by."""
    text = " ".join(prompt.split())
    return f'{name} <- "{text if len(text) <= 60 else text[:57] + "..."}"'


def prompt_id_of(written: str, prompts: Mapping[str, str]) -> str:
    """Return the id that a name means: without leading zeros where no prompt has them."""
    written = plain(written)
    return written.lstrip("0") or "0" if written.isdecimal() and written not in prompts else written


def groups_of(names: Iterable[str], pattern: str) -> dict[str, dict[str, str]]:
    """Group the names that fit a pattern by generator, each with the prompt id that it has."""
    regex = compiled(pattern)
    groups: dict[str, dict[str, str]] = {}
    for name in names:
        if (match := regex.fullmatch(name)) is not None:
            groups.setdefault(match.groupdict().get("generator", ""), {})[name] = match["prompt_id"]
    return groups


def readings(names: Sequence[str], patterns: Iterable[str], files: Iterable[str]) -> list[Reading]:
    """List the ways in which the images have prompts, the likeliest first, each assignment of prompts and generators once."""
    numbered = [numbering for file in files for numbering in numberings(file)]
    different: dict[tuple[frozenset[tuple[str, str]], frozenset[frozenset[str]]], Reading] = {}
    for pattern in patterns:
        groups = groups_of(names, pattern)
        if 2 * sum(map(len, groups.values())) < len(names):
            continue
        parts = frozenset(map(frozenset, groups.values()))
        for reading in _of_pattern(pattern, groups, numbered):
            different.setdefault((frozenset(reading.prompts.items()), parts), reading)
    return list(different.values())


def guesses(names: Sequence[str], patterns: Iterable[str], file: str) -> list[Reading]:
    """List what may be meant where nothing fits: the pattern by which most images have a prompt, with each numbering."""
    numbered = numberings(file)
    best: list[Reading] = []
    for pattern in patterns:
        ids = {name: written for group in groups_of(names, pattern).values() for name, written in group.items()}
        of_this = [Reading(pattern, numbering, _known(numbering, ids)) for numbering in numbered]
        best = max(best, of_this, key=lambda readings: max((len(reading.prompts) for reading in readings), default=0))
    return [reading for reading in best if reading.prompts and reading.numbering.by in ("ids", "lines", "rows")]


def choose(readings: Sequence[Reading], place: Path) -> Reading:
    """Return the reading that is certain.

    It is the only one, or the only plain one (every one of many prompts has its samples) where each of the others leaves most
    prompts without an image.

    Raises:
        UnclearData: There are several.
    """
    plain = [reading for reading in readings if reading.is_plain]
    if len(plain) == 1:
        readings = [other for other in readings if other in plain or other.share >= 0.5 or other.alone]
    if len(readings) != 1 or not readings[0].may_be_taken:
        unclear(f"it is in doubt which prompt each image was made from{_counts(readings)}", place, readings)
    return readings[0]


def _counts(readings: Sequence[Reading]) -> str:
    """Say how many prompts and images there are, by the first reading; nothing where a reading is of one generator alone."""
    if not readings or readings[0].alone:
        return ""
    first = readings[0]
    largest = max(map(len, groups_of(list(first.prompts), first.pattern).values()), default=0)
    of_each = "" if largest == len(first.prompts) else " a generator"
    return f" ({len(first.numbering.prompts):,} prompts, {largest:,} images{of_each})"


def unclear(message: str, place: Path, readings: Sequence[Reading]) -> NoReturn:
    """Refuse data with the options for each way to read them, and an image that they read differently.

    Raises:
        UnclearData: Always.
    """
    listed = [reading for reading in readings if reading.prompt_file][:_MOST]
    if any(not reading.prompt_file for reading in readings):
        message += ", and whether the empty lines of the list count: take them out"
    common = (name for name in (listed[0].prompts if listed else ()) if all(name in other.prompts for other in listed))
    image = next((name for name in common if len({reading.prompts[name] for reading in listed}) == len(listed)), None)
    options = []
    for reading in listed:
        name = next(iter(reading.prompts)) if image is None else image
        options.append((reading.options, pairing(name, reading.prompts[name])))
    raise UnclearData(f"{message}{'; say which is meant:' if listed else ''}", place, options)


def _of_pattern(pattern: str, groups: Groups, numbered: Sequence[Numbering]) -> Iterator[Reading]:
    """Yield the readings of all images, and those that put the prompts of one generator into doubt."""
    fits = [(numbering, _fits(numbering, groups)) for numbering in numbered]
    whole = [fit for _, fit in fits if len(fit) == len(groups)]
    for numbering, fit in fits:
        if len(fit) == len(groups):
            everything = {name: prompt for prompts in fit.values() for name, prompt in prompts.items()}
            yield Reading(pattern, numbering, everything)
            continue
        for generator, prompts in fit.items():
            if any(prompts != other[generator] for other in whole):
                yield Reading(pattern.replace("{generator}", generator), numbering, prompts, alone=True)


def _fits(numbering: Numbering, groups: Groups) -> dict[str, dict[str, str]]:
    """Give the images of each generator their prompts; without the generators whose images it cannot mean."""
    fit = {generator: _prompts(numbering, ids) for generator, ids in groups.items()}
    if numbering.by == "title" and not (all(fit.values()) and any(map(numbering.uses_all, fit.values()))):
        return {}  # only the number of lines can show that the first, which looks like a prompt, is none
    return {generator: prompts for generator, prompts in fit.items() if prompts}


def _prompts(numbering: Numbering, ids: Mapping[str, str]) -> dict[str, str]:
    """Give images their prompts; none where a number has no prompt, or most images have none."""
    prompts, assigned = numbering.prompts, _known(numbering, ids)
    numbers = {int(written) for written in ids.values() if written.isdecimal()}
    strange = any(written.isdecimal() for name, written in ids.items() if name not in assigned)
    if (strange and all(map(str.isdecimal, prompts))) or 2 * len(assigned) < len(ids):
        return {}
    if numbering.by == "rows" and numbers != set(range(min(map(int, prompts)), max(numbers, default=0) + 1)):
        return {}  # a file with ids is doubted only where the images are counted without a gap
    return assigned


def _known(numbering: Numbering, ids: Mapping[str, str]) -> dict[str, str]:
    """Give the images whose ids are known their prompts."""
    prompts = numbering.prompts
    return {name: prompts[key] for name, written in ids.items() if (key := prompt_id_of(written, prompts)) in prompts}
