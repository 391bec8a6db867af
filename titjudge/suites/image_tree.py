"""Trees of images by a pattern of their paths, such as `{generator}/{prompt_id}_{sample}.png`, and a file of prompts."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from titjudge.core.errors import ConfigError, DataError, must_be
from titjudge.core.files import read_json
from titjudge.core.types import InvalidItem, Items, Json, Note
from titjudge.data.data_paths import inside
from titjudge.suites.base import Notes, image_files, printable
from titjudge.suites.manifests import item_of, note_unused
from titjudge.suites.patterns import (
    FIELDS,
    PromptPlace,
    checked_pattern,
    compiled,
    fields_of,
    filled,
    named_pattern,
    source_field,
    split_pattern,
)
from titjudge.suites.prompt_list import PromptList, read_prompts
from titjudge.suites.readings import choose, guesses, ids_of, readings, unclear
from titjudge.suites.samples import sample_of
from titjudge.suites.sources import SourcePattern, without_named_sources


@dataclass(frozen=True, slots=True)
class ImageTree:
    """The places of images below the data folder, and the prompts they were made from.

    Attributes:
        pattern: Path of an image with fields in braces: prompt_id, and generator, sample or any others.
        prompts: FILE, FILE:ID,PROMPT or FILE.txt[:FIRST], see `titjudge.suites.prompt_list`; with `prompts_by_id` a name
            for messages.
        prompts_by_id: The prompts by their ids, if a suite has read them itself.
        meta: Further facts about the images of a prompt, with `prompts_by_id`.
        others: Further patterns, for images that have a prompt by one of them and none by `pattern`.
        sources: Patterns of the sources of edits (`titjudge.suites.sources.SourcePattern`), in the order of the instruction.
        unique: The id of a prompt, made of fields of the path, if {prompt_id} is unique only within a folder. Images
            in folders of which no prompt is known are left out.
    """

    pattern: str
    prompts: str
    prompts_by_id: dict[str, str] | None = None
    others: Sequence[str] = ()
    sources: Sequence[str] = ()
    unique: str = "{prompt_id}"
    meta: dict[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pattern", checked_pattern(self.pattern))

    def places(self, root: Path = Path(), roots: Sequence[Path] = ()) -> Iterator[PromptPlace | InvalidItem]:
        """Yield the prompts, and the places for their images.

        Args:
            root: The data folder, below which sources may lie.
            roots: Further folders in which sources may lie.

        Raises:
            ConfigError: The pattern has a field whose value for a new image is unknown.
        """
        unknown = {*fields_of(self.pattern)}.difference(FIELDS)
        if unknown:
            raise ConfigError(
                f"--images '{self.pattern}': {{{min(unknown)}}} has no value for a new image. Remove this field"
            )
        listed = self._read()
        yield from listed.problems
        sources = self._sources(root, roots, listed, ("prompt_id",))
        for name, prompt in listed.prompts.items():
            try:
                fields = source_field(sources(name, {"prompt_id": name}))
            except DataError as error:
                yield InvalidItem(name, error.message, prompt_id=name)
                continue
            yield PromptPlace(name, prompt, filled(self.pattern, {"prompt_id": name, "suffix": "png"}), fields)

    def items(self, root: Path, roots: Sequence[Path], notes: Notes) -> Items:
        """Yield the images that fit the pattern, in the order of their paths.

        Raises:
            DataError: No image fits, the prompts cannot be read, or it is in doubt which image belongs to which of them.
        """
        listed = self._read()
        prompts, further = listed.prompts, listed.meta
        note_unused(further, notes)
        yield from listed.problems
        matches: dict[str, re.Match[str]] = {}
        left_out = 0
        matches_by_name, known = self._matches(root, prompts)
        part = self.unique.removesuffix("{prompt_id}")  # of a set that is not judged if no prompt is in it

        @functools.cache
        def is_judged(written: str) -> bool:
            return part == self.unique or any(name.startswith(written) for name in prompts)

        for name, match in matches_by_name.items():
            if printable(name) != name:
                yield InvalidItem(printable(name), "the file name is not UTF-8. Rename it")
            elif match is None or not is_judged(filled(part, match.groupdict())):
                left_out += 1
            else:
                matches[name] = match
        sources = self._sources_by_name(matches, root, roots, listed, known)
        used = {place for paths in sources.values() if not isinstance(paths, DataError) for place in paths}
        matches = {name: match for name, match in matches.items() if root / name not in used}
        if not matches:
            raise DataError(f"none of {left_out:,} images fits '{self.pattern}'. Correct --images", root)
        ids_by_generator: dict[str, set[str]] = {}
        for match in matches.values():
            generator = match.groupdict().get("generator", "")
            ids_by_generator.setdefault(generator, set()).add(self._prompt_id(match, known))
        if listed.counted:
            _check_counting(self.prompts, root, self.pattern, list(matches))
        else:
            _check_shift(self.prompts, listed, set().union(*ids_by_generator.values()))
        for name, match in matches.items():
            fields = match.groupdict()
            written, generator = fields.pop("prompt_id"), fields.pop("generator", "")
            prompt_id = self._prompt_id(match, known)
            if prompt_id not in prompts:
                yield InvalidItem(
                    name, f"{self.prompts} has no prompt '{written}'. Add it, or rename the image", generator, written
                )
                continue
            if isinstance(item_sources := sources.get(name, ()), DataError):
                yield InvalidItem(name, item_sources.message, generator, prompt_id)
                continue
            meta = {**without_named_sources(further.get(prompt_id, {})), **fields}
            numbered = sample_of(fields)
            prompt = prompts[prompt_id]
            item = partial(item_of, name, prompt, generator, prompt_id, meta, root, roots, numbered)
            yield item(sources=item_sources, typed=True)
        if left_out:
            notes[
                Note("images_outside_pattern", f"{left_out:,} images do not fit '{self.pattern}' and are left out")
            ] = None
        if set(ids_by_generator) == {""}:
            notes.update(dict.fromkeys(_without_generator([match.groupdict() for match in matches.values()])))
        for generator, ids in ids_by_generator.items():
            if missing := len(prompts.keys() - ids):
                whose = f" by {generator}" if generator else ""
                notes[
                    Note("prompts_without_image", f"{missing:,} of {len(prompts):,} prompts have no image{whose}")
                ] = None

    def _matches(
        self, root: Path, prompts: Mapping[str, str]
    ) -> tuple[dict[str, re.Match[str] | None], dict[str, str]]:
        """Match the images below a folder by the first pattern that gives a prompt, or else the first.

        Returns:
            The matches by the paths of the images, and the prompt ids by their spelling in the paths.
        """
        regexes = [compiled(pattern) for pattern in (self.pattern, *self.others)]
        names = [path.relative_to(root).as_posix() for path in image_files(root)]
        fits = {name: [regex.fullmatch(name) for regex in regexes] for name in names}
        known = ids_of((self._written(match) for all_fits in fits.values() for match in all_fits if match), prompts)
        with_prompt = {
            name: next((match for match in all_fits if match and self._written(match) in known), all_fits[0])
            for name, all_fits in fits.items()
        }
        return with_prompt, known

    def _sources_by_name(
        self,
        matches: Mapping[str, re.Match[str]],
        root: Path,
        roots: Sequence[Path],
        listed: PromptList,
        known: Mapping[str, str],
    ) -> dict[str, tuple[Path, ...] | DataError]:
        """Find the sources of each result, by its name; an error explains why a required one is missing."""
        find = self._sources(root, roots, listed, fields_of(self.pattern))
        sources: dict[str, tuple[Path, ...] | DataError] = {}
        for name, match in matches.items():
            try:
                sources[name] = find(self._prompt_id(match, known), match.groupdict())
            except DataError as error:
                sources[name] = error
        return sources

    def _sources(
        self, root: Path, roots: Sequence[Path], listed: PromptList, fields: Sequence[str]
    ) -> Callable[[str, Mapping[str, str]], tuple[Path, ...]]:
        """Return the function that finds the sources of a prompt: by the patterns, otherwise as the file of prompts names them."""
        patterns = [SourcePattern(pattern, fields, root) for pattern in self.sources]

        def find(prompt_id: str, values: Mapping[str, str]) -> tuple[Path, ...]:
            if patterns:
                return tuple(pattern.find(values, prompt_id, roots) for pattern in patterns)
            return listed.sources(prompt_id, (root, *roots))

        return find

    def _read(self) -> PromptList:
        if self.prompts_by_id is None:
            return read_prompts(self.prompts)
        return PromptList(self.prompts_by_id, self.meta, [])

    def _written(self, match: re.Match[str]) -> str:
        return filled(self.unique, match.groupdict())

    def _prompt_id(self, match: re.Match[str], known: Mapping[str, str]) -> str:
        """Return the id of the prompt that a path means; the id in the path if there is none."""
        written = self._written(match)
        return known.get(written, written)


def _without_generator(images: Sequence[Mapping[str, str]]) -> Iterator[Note]:
    """Note fields that distinguish images like generators do, but do not name a generator."""
    for name in sorted(images[0].keys() - {*FIELDS}):
        values = {fields.get(name) for fields in images}
        if 1 < len(values) < len(images):
            yield Note(
                "field_like_generator",
                f"{{{name}}} has {len(values):,} values, and all images count as one generator's: "
                "write {generator} in its place to compare these",
            )


def _check_shift(file: str, listed: PromptList, image_ids: Collection[str]) -> None:
    """Refuse images with numbers that are the prompts' numbers shifted by one.

    Raises:
        DataError: Each would be judged by its neighbour's prompt.
    """
    if not all(map(str.isdecimal, (*image_ids, *listed.prompts))):
        return
    images, lines = set(map(int, image_ids)), set(map(int, listed.prompts))
    if images in ({line + 1 for line in lines}, {line - 1 for line in lines}):
        raise DataError(
            f"the images are numbered {min(images)} to {max(images)}, but the {len(lines):,} prompts of {Path(file).name} are "
            f"{min(lines)} to {max(lines)}, so each image would get its neighbour's prompt. Add --prompt-file "
            f"{file}:#{min(images)},PROMPT to number the rows of a table from {min(images)}",
            Path(file),
        )


def _check_counting(file: str, root: Path, pattern: str, names: Sequence[str]) -> None:
    """Refuse images of which it is in doubt from what number they count the lines of a file.

    Raises:
        Unclear: They may count from 0 or 1, a line may be a title, or there are more images than lines.
    """
    possible = readings(names, [pattern], [file])
    if not possible:
        what = f"the numbers of {len(names):,} images, such as {names[0]}, differ from the line numbers of {Path(file).name}"
        unclear(what, root, guesses(names, [pattern], file))
    if choose(possible, root).prompt_file != f"{file}:0":
        unclear(f"the images do not count the lines of {Path(file).name} from 0", root, possible)


def find_tree(folder: Path, patterns: Sequence[str], named: str = "") -> tuple[Path, list[str]]:
    """Find the images of a suite: the folder above all fields, and the patterns below it, the first of which fits an image.

    Args:
        folder: The data folder.
        patterns: Patterns of their paths below it, without ending.
        named: A pattern that the user has named instead, from the working directory.

    Raises:
        ConfigError: The pattern that the user has named begins with no folder.
        DataError: No pattern fits an image.
    """
    if named:
        root, pattern = named_pattern("images", named)
        return root, [pattern]
    split = [(top, f"{rest}.{{suffix}}") for top, rest in map(split_pattern, patterns)]
    for first, (top, pattern) in enumerate(split):
        place = inside(folder, top.as_posix(), "folder")
        regex = compiled(pattern)
        if any(regex.fullmatch(path.relative_to(place).as_posix()) for path in image_files(place)):
            return place, [below for other_top, below in split[first:] if other_top == top]
    expected = " or ".join(f"{pattern}.png" for pattern in patterns)
    raise DataError(f"no images found. Name them {expected}, or add --suite-option images=PATTERN", folder)


def listed_images(file: Path, prompts: Mapping[str, str], roots: Sequence[Path], notes: Notes) -> Items:
    """Yield the images of a JSON object {prompt: image path}; paths are relative to its folder, its name is the generator.

    Raises:
        DataError: It is no such object, or names no prompt that is known.
    """
    content = read_json(file)
    if not isinstance(content, dict) or not all(isinstance(path, str) for path in content.values()):
        raise DataError(must_be("the content", "an object of prompts and image paths", content), file)
    ids = {prompt: name for name, prompt in prompts.items()}
    if not ids.keys() & content.keys():
        raise DataError(f"none of its {len(content):,} keys is a prompt. Use prompts as keys", file)
    for prompt, path in content.items():
        if prompt in ids:
            yield item_of(path, prompt, file.stem, ids[prompt], {}, file.parent, roots, typed=True)
        else:
            yield InvalidItem(path, f"{file.name}: unknown prompt '{prompt:.60}'. Use a prompt of the suite", file.stem)
    if missing := len(ids.keys() - content.keys()):
        line = f"{missing:,} of {len(ids):,} prompts have no image by {file.stem}"
        notes[Note("listed_prompts_without_image", line)] = None
