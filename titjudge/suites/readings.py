"""Ways to read the names of images: which prompt each was made from. If there is more than one, nothing is judged.

A wrong number would judge every image against its neighbour's prompt, and the scores would not show it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from titjudge.core.errors import Unclear
from titjudge.core.names import plain
from titjudge.suites.patterns import compiled
from titjudge.suites.prompt_list import Numbering, numberings
from titjudge.suites.prompt_names import PromptNames

Groups = Mapping[str, Mapping[str, str]]
"""Generator -> name of an image -> the prompt id that its name has."""
_MOST = 4  # readings that an error lists
_MANY = 10  # prompts; with fewer, as many generators may have their numbers
_SAMPLE_FIRST = re.compile(r"(^|/)\{sample\}.*\{prompt_id\}")  # a number without a word, at a place for a prompt
_TABLE = "TABLE.csv:ID,PROMPT"
_HASH = re.compile(r"(?=.*\d)[0-9a-f]{6,}(-[0-9a-f]{4,})*", re.IGNORECASE)
_CHECKPOINT = r"(global_?|last_?|best_?)?(step|iter|iteration|epoch|ep|ckpt|checkpoint|model|generator|lora|version|v)"
_GENERATOR = re.compile(
    rf"({_CHECKPOINT}|base|baseline|ours|"
    r"flux|sd|sdxl|stable|dall|dalle|gpt|imagen|gemini|nano|midjourney|mj|kandinsky|pixart|qwen|ideogram|playground|lumina|sana|"
    r"hunyuan|hidream|kolors|wan|infinity|janus|emu|bagel|cogview|seedream|recraft|firefly|omnigen|deepfloyd|auraflow|z)"
    r"s?(?![a-z]).*",
    re.IGNORECASE,
)
"""Beginnings of names of checkpoints and of families of image models."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A way to read the names of images.

    Attributes:
        pattern: Of the names.
        numbering: Of the prompts.
        prompts: The prompt of each image that has one.
        alone: Whether it is valid for the images of one generator only, and puts a reading of all into doubt.
        sure: Whether it relies on texts of prompts that no name has by chance.
        others: Other meanings that the names of the generators may have: `prompts`, `categories` or `samples`.
    """

    pattern: str
    numbering: Numbering
    prompts: Mapping[str, str]
    alone: bool = False
    sure: bool = False
    others: Collection[str] = ()

    @property
    def prompt_file(self) -> str:
        """The prompts, as `--prompt-file` takes them; empty if that cannot express them."""
        return self.numbering.prompt_file

    @property
    def share(self) -> float:
        """Share of the prompts that have an image."""
        there = set(self.numbering.prompts.values())
        return len(there & set(self.prompts.values())) / len(there)

    @property
    def may_be_taken(self) -> bool:
        """Return True if this reading needs no choice by the user: options can express it, and it is unlikely to fit by chance."""
        if self.sure:
            return True
        if (
            self.numbering.by in ("text", "rows")
            or self.alone
            or not self.prompt_file
            or _SAMPLE_FIRST.search(self.pattern)
        ):
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
        """The options that select it."""
        return f"--images {shlex.quote(self.pattern)} --prompt-file {shlex.quote(self.prompt_file)}"


def pairing(name: str, prompt: str) -> str:
    """Show the prompt that an image is judged by."""
    text = " ".join(prompt.split())
    return f'{name} <- "{text if len(text) <= 60 else text[:57] + "..."}"'


def prompt_id_of(written: str, prompts: Mapping[str, str]) -> str:
    """Return the id that a name means: without leading zeros if no prompt has them."""
    written = plain(written)
    return written.lstrip("0") or "0" if written.isdecimal() and written not in prompts else written


def ids_of(written: Iterable[str], prompts: Mapping[str, str]) -> dict[str, str]:
    """Map the parts of names to the ids of the prompts: an id, or the text of a prompt or its beginning."""
    names = set(written)
    found = {name: key for name in names if (key := prompt_id_of(name, prompts)) in prompts}
    rest = names - found.keys()
    texts = PromptNames(prompts).find(rest, whole=bool(found)) if rest else {}
    return found | texts


def is_checkpoint(name: str) -> bool:
    """Return True if a name begins like the name of a checkpoint: a number after the word is a part of it."""
    return re.fullmatch(rf"{_CHECKPOINT}s?(?![a-z]).*", name, re.IGNORECASE) is not None


def is_generator(name: str) -> bool:
    """Return True if a name begins like the name of a checkpoint or an image model."""
    return _GENERATOR.fullmatch(name) is not None


def groups_of(names: Iterable[str], pattern: str) -> dict[str, dict[str, str]]:
    """Group the names that fit a pattern by generator, each with the prompt id that it has."""
    regex = compiled(pattern)
    groups: dict[str, dict[str, str]] = {}
    for name in names:
        if (match := regex.fullmatch(name)) is not None:
            groups.setdefault(plain(match.groupdict().get("generator", "")), {})[name] = match["prompt_id"]
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
            if reading.numbering.by == "text" and not reading.sure and reading.share < 0.5:
                continue
            different.setdefault((frozenset(reading.prompts.items()), parts), reading)
    return list(different.values())


def guesses(names: Sequence[str], patterns: Iterable[str], file: str) -> list[Reading]:
    """List the possible meanings if nothing fits: the pattern by which most images have a prompt, with each numbering."""
    numbered = numberings(file)
    best: list[Reading] = []
    for pattern in patterns:
        ids = {name: written for group in groups_of(names, pattern).values() for name, written in group.items()}
        of_this = [Reading(pattern, numbering, _known(numbering, ids)) for numbering in numbered]
        best = max(best, of_this, key=lambda readings: max((len(reading.prompts) for reading in readings), default=0))
    return [reading for reading in best if reading.prompts and reading.numbering.by in ("text", "ids", "lines", "rows")]


def choose(readings: Sequence[Reading], place: Path) -> Reading:
    """Return the reading that is certain.

    It is the only one, or the only plain one (every one of many prompts has its samples) if each of the others leaves most
    prompts without an image.

    Raises:
        Unclear: There are several.
    """
    if sure := [reading for reading in readings if reading.sure]:
        readings = sure
    most = max((len(reading.prompts) for reading in readings), default=0)
    if twice := [read for read in readings if read.pattern.count("{prompt_id}") == 2 and len(read.prompts) == most]:
        readings = twice
    plain = [reading for reading in readings if reading.is_plain]
    if len(plain) == 1:
        readings = [other for other in readings if other in plain or other.share >= 0.5 or other.alone]
    if len(readings) != 1 or not readings[0].may_be_taken:
        unclear(
            f"it is in doubt which prompt each image was made from{_counts(readings)}",
            place,
            readings,
            _further(readings),
        )
    return readings[0]


def check_generators(reading: Reading, place: Path) -> None:
    """Refuse to take for generators what may be prompts, categories or samples.

    Raises:
        Unclear: It is in doubt.
    """
    if reading.others:
        names = sorted(groups_of(reading.prompts, reading.pattern))
        shown = ", ".join(names[:2]) + (", ..." if len(names) > 2 else "")
        *kinds, last = ("generators", *reading.others)
        hint = " (these need a table with the columns image and prompt)" if last == "samples" else ""
        what = f"it is in doubt whether {shown} are {', '.join(kinds)} or {last}{hint}"
        unclear(what, place, [reading], _further([reading]))


def _further(readings: Sequence[Reading]) -> list[tuple[str, str]]:
    """Return options for what the generators of the first reading may be instead."""
    options: dict[str, str] = {}
    for reading in readings[:1]:
        first = min(groups_of(reading.prompts, reading.pattern))
        if "prompts" in reading.others:
            # each generator would be a prompt, and each prompt a sample
            pattern = re.sub(r"[_-]?\{(sample|seed|index)\}", "", reading.pattern)
            pattern = pattern.replace("{prompt_id}", "{sample}").replace("{generator}", "{prompt_id}")
            if pattern not in {other.pattern for other in readings}:
                said = f"--images {shlex.quote(pattern)} --prompt-file {_TABLE}"
                options[said] = f"{first} is a prompt: TABLE.csv has its text"
        if "categories" in reading.others:
            of_parts = replace(reading, pattern=reading.pattern.replace("{generator}", "{category}"))
            options[of_parts.options] = f"{first} is a category: all images are by one generator"
    return list(options.items())


def with_table(names: Sequence[str], patterns: Sequence[str]) -> list[tuple[str, str]]:
    """Return the option that reads images if their names show nothing: a table with the prompt of each."""
    for pattern in sorted(patterns, key=lambda pattern: "{sample}" not in pattern and "{seed}" not in pattern):
        if (written := next(iter(groups_of(names, pattern).values()), None)) is not None:
            first = next(iter(written.values()))
            return [
                (f"--images {shlex.quote(pattern)} --prompt-file {_TABLE}", f"TABLE.csv: the prompt of {first}, ...")
            ]
    return []


def _counts(readings: Sequence[Reading]) -> str:
    """Write how many prompts and images there are, by the first reading; nothing if a reading has only one generator."""
    if not readings or readings[0].alone:
        return ""
    first = readings[0]
    largest = max(map(len, groups_of(list(first.prompts), first.pattern).values()), default=0)
    of_each = "" if largest == len(first.prompts) else " a generator"
    return f" ({len(first.numbering.prompts):,} prompts, {largest:,} images{of_each})"


def unclear(
    message: str, place: Path, readings: Sequence[Reading], further: Sequence[tuple[str, str]] = ()
) -> NoReturn:
    """Refuse data with the options for each way to read them, and an image that they read differently.

    Args:
        message: The doubt.
        place: The data folder.
        readings: The ways to read the data.
        further: Options for other ways, with their meaning.

    Raises:
        Unclear: Always.
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
    options += further
    raise Unclear(f"{message}{'. Choose one:' if options else ''}", place, options)


def _of_pattern(pattern: str, groups: Groups, numbered: Sequence[Numbering]) -> Iterator[Reading]:
    """Yield the readings of all images, and the readings that put the prompts of one generator into doubt."""
    fits = [(numbering, _fits(numbering, groups)) for numbering in numbered]
    whole = [fit for _, fit in fits if len(fit) == len(groups)]
    for numbering, fit in fits:
        if len(fit) == len(groups):
            everything = {name: prompt for prompts in fit.values() for name, prompt in prompts.items()}
            written = {text for ids in groups.values() for text in ids.values()}
            if numbering.names is not None:
                sure = numbering.names.are_sure(written)
            else:
                sure = numbering.by == "ids" and not any(map(str.isdecimal, written))
            yield Reading(pattern, numbering, everything, sure=sure, others=_others(pattern, groups, fit, numbering))
            continue
        for generator, prompts in fit.items() if numbering.names is None else ():
            if any(prompts != other[generator] for other in whole):
                yield Reading(pattern.replace("{generator}", generator), numbering, prompts, alone=True)


def _others(
    pattern: str, groups: Groups, fit: Mapping[str, Mapping[str, str]], numbering: Numbering
) -> tuple[str, ...]:
    """List what the names of several generators may be instead, unless they look like names of generators.

    They may be prompts if there are as many; or at least half as many, if they are hashes or words of prompts, or none
    has an image of each prompt. They may be categories if no two of them share a prompt, and samples or other parts of
    the list if all together have no more images than the list has prompts.
    """
    texts = set(numbering.prompts.values())
    listed = len(texts)
    if len(groups) < 2 or listed < 2 or all(map(is_generator, groups)):
        return ()
    of_each = [set(prompts.values()) for prompts in fit.values()]
    total = sum(map(len, of_each))
    by_number = numbering.by != "text" and all(
        written.isdecimal() for ids in groups.values() for written in ids.values()
    )
    half = 2 * len(groups) > listed or re.search(r"\{generator\}[^/]*\{prompt_id\}", pattern) is not None
    doubt = all(map(_HASH.fullmatch, groups)) or max(map(len, of_each)) < listed or _are_words(groups, texts)
    others = {
        "prompts": by_number and (len(groups) == listed or (half and doubt)),
        "categories": total == len(set[str]().union(*of_each)),
        "samples": by_number and total <= listed,
    }
    return tuple(kind for kind, possible in others.items() if possible)


def _are_words(names: Collection[str], texts: Iterable[str]) -> bool:
    """Return True if most names are made of words of texts: `bench` of "a green bench"."""
    words = {word for text in texts for word in re.findall(r"\w+", plain(text).casefold())}
    known = [name for name in names if words.issuperset(re.findall(r"[^\W_]+", name.casefold()))]
    return 2 * len(known) > len(names)


def _fits(numbering: Numbering, groups: Groups) -> dict[str, dict[str, str]]:
    """Give the images of each generator their prompts; without the generators whose images it cannot mean."""
    fit = {generator: _prompts(numbering, ids) for generator, ids in groups.items()}
    if numbering.by == "title" and not (all(fit.values()) and any(map(numbering.uses_all, fit.values()))):
        return {}  # only the number of lines can show that the first, which looks like a prompt, is none
    return {generator: prompts for generator, prompts in fit.items() if prompts}


def _prompts(numbering: Numbering, ids: Mapping[str, str]) -> dict[str, str]:
    """Give images their prompts; none if a number has no prompt, or most images have none."""
    prompts, assigned = numbering.prompts, _known(numbering, ids)
    numbers = {int(written) for written in ids.values() if written.isdecimal()}
    strange = numbering.names is None and any(ids[name].isdecimal() for name in ids.keys() - assigned.keys())
    if (strange and all(map(str.isdecimal, prompts))) or 2 * len(assigned) < len(ids):
        return {}
    if numbering.by == "rows" and numbers != set(range(min(map(int, prompts)), max(numbers, default=0) + 1)):
        return {}  # a file with ids is doubted only if the images are counted without a gap
    return assigned


def _known(numbering: Numbering, ids: Mapping[str, str]) -> dict[str, str]:
    """Give the images whose ids, or texts, are known their prompts."""
    prompts = numbering.prompts
    if numbering.names is not None:
        found = numbering.names.find(
            {written for written in ids.values() if prompt_id_of(written, prompts) not in prompts}
        )
        return {name: prompts[found[written]] for name, written in ids.items() if written in found}
    return {name: prompts[key] for name, written in ids.items() if (key := prompt_id_of(written, prompts)) in prompts}
