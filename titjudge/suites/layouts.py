"""Recognise folders of images with one list of prompts: which part of a name is the generator, the prompt and the sample.

    DATA/step_1000/0000.png, DATA/step_2000/0000.png, ... + DATA/prompts.txt
    DATA/0001_0.png, 0001-seed42.png, 0001/0.png, step_1000/seed_42/0001.png, img_0001.png, cat.png, ...

The list is prompts.txt, .csv, .tsv, .json, .jsonl, .xlsx or .parquet, or a table `metadata` without a column of images; in DATA, in
each folder of DATA, or beside DATA.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from titjudge.core.errors import DataError, Unclear
from titjudge.core.names import plain
from titjudge.core.types import Json
from titjudge.data.data_paths import files_below, inside
from titjudge.data.embedded_prompts import embedded_prompt
from titjudge.data.tables import scan_table
from titjudge.suites.base import image_files, printable
from titjudge.suites.edit_folders import SESSIONS, TURNS
from titjudge.suites.image_tree import ImageTree
from titjudge.suites.manifests import METADATA, NAMES, find_tables, first_filled, names_images
from titjudge.suites.patterns import fields_of
from titjudge.suites.prompt_list import numberings
from titjudge.suites.prompt_names import PromptNames
from titjudge.suites.readings import (
    check_generators,
    choose,
    groups_of,
    guesses,
    ids_of,
    is_checkpoint,
    is_generator,
    pairing,
    readings,
    unclear,
    with_table,
)
from titjudge.suites.samples import split_sample

LISTS = tuple(f"prompts{ending}" for ending in ".txt .csv .tsv .jsonl .json .xlsx .parquet".split())
"""Names of a list of prompts."""
_DEEPEST = 4  # folders above an image
_OUTER = frozenset("data images image imgs img outputs output results".split())  # folders around those of generators
_NUMBERED = re.compile(r"([A-Za-z]*[_-]?)(\d+)")  # 7, img_7, seed42
_SUFFIXED = re.compile(r"(.+?)([_-][A-Za-z]*[_-]?)(\d+)")  # 0001_0, cat-seed42
_AFTER_WORD = re.compile(r"(.+?)([_-])(\d+)([_-]?)")  # flux_0, sd3_00001_
_PREFIXED = re.compile(r"([A-Za-z]*[_-]?)(\d+)([_-])(.+)")  # 42_0001, seed42_cat
_OF_SAMPLES = ("seed", "sample")
_MAYBE_SAMPLES = ("", *"run batch try take round rep repeat attempt variation draw".split())
_OF_PROMPTS = ("", "prompt", "p", "id", "idx", "image", "img")
"""Words before the number of a folder that show its kind; a bare number may be a prompt's."""


def recognised(folder: Path, prompt_file: str = "", roots: Sequence[Path] = ()) -> ImageTree | None:
    """Read a folder of images with one list of prompts.

    Args:
        folder: The data folder.
        prompt_file: The list, if the user has named it.
        roots: Further folders to which links may lead.

    Returns:
        The images by a pattern; None if there is no list, or another layout assigns the prompts.

    Raises:
        Unclear: The names of the images can be read in several ways, or in none.
        DataError: The list cannot be read.
    """
    if not prompt_file and (folder / "images.jsonl").is_file():
        return None
    images = image_files(folder) if folder.is_dir() else []
    if prompt_file and not images:
        raise DataError(f"no subfolder has images for the prompts of {prompt_file}. Add images", folder)
    names = [name for path in images if printable(name := path.relative_to(folder).as_posix()) == name]
    if not prompt_file and (tree := _prompt_folders(folder, names)) is not None:
        return tree
    above = folder.parent if folder.name not in ("", "..") else folder.resolve().parent
    inner = [folder, *(folder / top for top in sorted({name.split("/")[0] for name in names if "/" in name}))]
    listed = any(_files(place, LISTS + METADATA) for place in inner) or _files(above, LISTS)
    if not names or not (prompt_file or (listed and not _says_itself(folder, images, roots))):
        return None
    inside_folder = [prompt_file] if prompt_file else _inner_lists(inner, roots)
    lists = inside_folder or _lists(above, LISTS)
    if not lists:
        return None
    patterns = list(dict.fromkeys(_patterns(names, PromptNames(numberings(lists[0])[0].prompts))))
    possible = readings(names, patterns, lists)
    if not possible:
        meant = guesses(names, patterns, lists[0])
        unclear(_no_match(names, lists[0]), folder, meant, [] if meant else with_table(names, patterns))
    reading = choose(possible, folder)
    check_generators(reading, folder)
    if not inside_folder and reading.share < 1:
        unclear(
            f"{lists[0]} is not in this folder and has prompts without an image: is it the right one?", folder, possible
        )
    return ImageTree(reading.pattern, reading.prompt_file)


def _no_match(names: Sequence[str], file: str) -> str:
    return f"the names of {len(names):,} images, such as {names[0]}, do not match the prompts of {file}"


def prompts_of_one(folder: Path, prompt_file: str) -> dict[Path, str]:
    """Return the text of the prompt of each image by one generator, by the rules for folders of several.

    An id that the user has written, or that has letters, is found in ID.png, ID_0.png and ID/0.png.

    Raises:
        DataError: The folder has no images, or their names can be read in several ways, or in none.
    """
    files = {path.relative_to(folder): path for path in image_files(folder)}
    first = numberings(prompt_file)[1]
    if first.by == "ids" and not (Path(prompt_file).is_file() and all(map(str.isdecimal, first.prompts))):
        written = {name: (name.stem, name.stem.rpartition("_")[0], name.parent.name) for name in files}
        ids = ids_of({word for words in written.values() for word in words if word}, first.prompts)
        found = {name: [ids[word] for word in words if word in ids] for name, words in written.items()}
        if any(found.values()):
            return {files[name]: first.prompts[keys[0]] for name, keys in found.items() if keys}
    names = [name.as_posix() for name in files]
    if not names:
        raise DataError("the folder has no images. Add images, or correct the path", folder)
    patterns = [p for p in dict.fromkeys(_patterns(names, PromptNames(first.prompts))) if "{generator}" not in p]
    documented = [p for p in patterns if re.fullmatch(r"([^{}]*/)?\{prompt_id\}([_\W].*)?", p)]
    possible = readings(names, documented, [prompt_file]) or readings(names, patterns, [prompt_file])
    if not possible:
        raise DataError(f"{_no_match(names, prompt_file)}. Give --images PATTERN", folder)
    try:
        reading = choose(possible, folder)
    except Unclear:
        ways = {read.prompt_file: read for read in possible if read.prompt_file}
        shown = " or ".join(f"{file} ({pairing(*next(iter(read.prompts.items())))})" for file, read in ways.items())
        what = f"it is in doubt which prompt each image was made from. Give the prompts as {shown}"
        raise DataError(what, folder) from None
    return {folder / name: text for name, text in reading.prompts.items()}


def _prompt_folders(folder: Path, names: Sequence[str]) -> ImageTree | None:
    """Read folders of one prompt each, which lies beside its images as the only record of a table; None for any other data.

    Raises:
        DataError: Two folders of the same name have different prompts.
    """
    if not names or _files(folder, LISTS + METADATA):
        return None
    records: dict[str, Json] = {}
    places: dict[str, Path] = {}
    for file in (path for path in files_below(folder) if any(map(path.match, METADATA))):
        rows = [record for _, record in itertools.islice(scan_table(file), 2)]
        if (
            len(rows) != 1
            or isinstance(rows[0], DataError)
            or not first_filled(rows[0], NAMES["prompt"])
            or names_images(file)
        ):
            return None
        first = places.setdefault(file.parent.name, file)
        if records.setdefault(file.parent.name, rows[0]) != rows[0]:
            raise DataError(f"not the same prompt as in {first}. Judge these folders separately", file)
    prompts = {name: str(first_filled(record, NAMES["prompt"])) for name, record in records.items()}
    depths = {len(file.relative_to(folder).parts) - 2 for file in places.values()}
    if len(depths) != 1 or len(set(prompts.values())) == 1 < len(records):
        return None
    depth = depths.pop()
    counts: dict[str, tuple[int, int]] = {}  # images with a prompt, and generators
    for pattern in _patterns(names, PromptNames({})):
        parts = pattern.split("/")
        if parts[depth] == "{prompt_id}" and "{generator}" not in "/".join(parts[depth:]):
            groups = groups_of(names, pattern)
            counts[pattern] = (
                sum(written in prompts for ids in groups.values() for written in ids.values()),
                len(groups),
            )
    pattern = max(counts, key=lambda pattern: counts[pattern], default="")
    if not pattern or 2 * counts[pattern][0] < len(names):
        return None
    meta = {
        name: {key: value for key, value in record.items() if key not in NAMES["prompt"]}
        for name, record in records.items()
    }
    return ImageTree(pattern, file.name, prompts, meta=meta)


def _says_itself(folder: Path, images: Sequence[Path], roots: Sequence[Path]) -> bool:
    """Return True if the turns of MagicBrush, texts of the same name or the images themselves contain the prompts."""
    named = (folder / name for name in (TURNS, SESSIONS))
    if any(file.is_file() for file in named) or any(map(names_images, find_tables(folder, roots))):
        return True
    texts = {plain(path.stem) for path in files_below(folder) if path.suffix == ".txt"}
    stems = {plain(name) for path in images for name in (path.stem, *(split_sample(path.stem) or ())[:1])}
    return bool(stems & texts) or _holds_prompt(images[0])


def _holds_prompt(image: Path) -> bool:
    try:
        return embedded_prompt(image) is not None
    except (DataError, OSError):
        return False


def _inner_lists(places: Sequence[Path], roots: Sequence[Path]) -> list[str]:
    """Find the lists in a folder or, if it has none, the one that all its folders have.

    Args:
        places: The folder, and the folders in it that have images.
        roots: Further folders to which links may lead.

    Raises:
        DataError: Some of these folders do not have it, they have different ones, or a link leads elsewhere.
    """
    folder, *below = places
    for place in places:
        lists = _lists(place, LISTS + METADATA)
        for file in lists:
            inside(folder, Path(file).relative_to(folder).as_posix(), "file", roots)
        if lists:
            for other in below if place != folder else ():
                _check_same(other, Path(lists[0]))
            return lists
    return []


def _files(folder: Path, names: Iterable[str]) -> list[Path]:
    return [file for name in names for file in sorted(folder.glob(name)) if file.is_file()]


def _lists(folder: Path, names: Iterable[str]) -> list[str]:
    """List the files of these names, which are lists of prompts and no tables of images.

    Raises:
        DataError: One is a table of images.
    """
    files = _files(folder, names)
    for file in files:
        if file.suffix != ".txt" and names_images(file):
            raise DataError("this table lists the images. Judge the file instead of its folder", file)
    return [str(file) for file in files]


def _check_same(folder: Path, file: Path) -> None:
    """Refuse a folder that has not the same list of prompts.

    Raises:
        DataError: It has none, or another.
    """
    other = folder / file.name
    if not other.is_file():
        raise DataError(f"{file.name} is missing. Add --prompt-file {file} if it applies here also", folder)
    if other.read_bytes() != file.read_bytes():
        raise DataError(f"not the same prompts as in {file}. Judge these folders separately", other)


def _patterns(names: Sequence[str], prompts: PromptNames) -> Iterator[str]:
    """Yield the patterns that names may have, the likeliest first; patterns of the commonest depth, the deepest of several."""
    counts = Counter(name.count("/") for name in names)
    depth = max(counts, key=lambda level: (counts[level], level))
    rows = [name.split("/") for name in names if name.count("/") == depth]
    *folders, files = (set(level) for level in zip(*rows, strict=True))
    outer = list(itertools.takewhile(_OUTER.issuperset, folders[:-1]))
    endings = {PurePosixPath(file).suffix for file in files}
    ending = endings.pop() if len(endings) == 1 else ".{suffix}"
    texts = [list(prompts.templates(level)) for level in (*folders, {PurePosixPath(file).stem for file in files})]
    for text in texts[:-1]:  # the number next to a text is a sample, or the prompt's if the images are the samples
        text += [template.replace("{sample}", "{index}") for template in text if "{sample}" in template]
    are_prompts = [bool(text) and prompts.are_sure(level) for text, level in zip(texts, folders, strict=False)]
    levels = [
        [*text, *_of_folders(level, index - len(outer), are_prompts[index])]
        for index, (text, level) in enumerate(zip(texts, folders, strict=False))
    ]
    stems = [*texts[-1], *_of_stems([PurePosixPath(row[-1]).stem for row in rows], bool(depth), any(are_prompts))]
    for parts in itertools.product(*levels, stems) if depth <= _DEEPEST else ():
        pattern = "/".join(parts) + ending
        count = Counter(fields_of(pattern))
        of_text = any(part in text for part, text in zip(parts, texts, strict=True))
        numbers = max(count["sample"], count["seed"]) if of_text else count["sample"] + count["seed"]
        twice = count["prompt_id"] == 2 and parts[-1].startswith("{prompt_id}")
        ignored = any(are_prompts) and not of_text  # texts of prompts are better evidence than numbers
        if (count["prompt_id"] == 1 or twice) and numbers <= 1 and count["generator"] <= 1 and not ignored:
            yield pattern


def _of_folders(names: set[str], depth: int, are_prompts: bool) -> Iterator[str]:
    """Yield what the folders of one depth may be: generators, samples, prompts, or always the same word.

    Args:
        names: The names of the folders.
        depth: How many folders are between them and the first that may be a generator's; below 0 outside of it.
        are_prompts: Whether the names are texts of prompts.
    """
    word = next(iter(_words(names, _NUMBERED)), None)
    kind = word and word.rstrip("_-").lower()
    if are_prompts:
        yield "{folder}"
        return
    if kind in _OF_SAMPLES:
        yield f"{word}{{{'seed' if kind == 'seed' else 'sample'}}}"
    same = names if len(names) == 1 and not {"{", "}"} & set(*names) else ()
    if depth and word is None:
        yield from same
    if kind not in _OF_SAMPLES:
        yield "{generator}"
        yield "{prompt_id}"
    if word and kind in _OF_PROMPTS:
        yield f"{word}{{prompt_id}}"
    if kind in _MAYBE_SAMPLES:
        yield f"{word}{{sample}}"
    yield from same


def _of_stems(names: Sequence[str], in_folders: bool, in_prompts: bool) -> Iterator[str]:
    """Yield what the names of images may be: a prompt, a sample, or both; in folders a generator.

    Args:
        names: The names.
        in_folders: Whether the images are in folders.
        in_prompts: Whether a folder has the text of a prompt: its images may have any names.
    """
    stems = set(names)
    yield "{prompt_id}"
    for word in _words(stems, _NUMBERED):
        if word.strip("_-").lower() not in ("", *_OF_SAMPLES):
            yield f"{word}{{prompt_id}}"
        yield from (field if field == "{generator}" else f"{word}{field}" for field in _numbers(word))
    for between in _words(stems, _SUFFIXED, 2):
        before = {match[1] for stem in stems if (match := _SUFFIXED.fullmatch(stem)) and match[2] == between}
        for word in {"", *(word for word in _words(before, _NUMBERED) if word.strip("_-").lower() not in _OF_SAMPLES)}:
            yield from (f"{word}{{prompt_id}}{between}{field}" for field in _numbers(between))
    for word in _words(stems, _PREFIXED):
        for between in _words(stems, _PREFIXED, 3):
            if word.strip("_-").lower() not in ("", *_OF_SAMPLES):
                yield f"{{generator}}{between}{{prompt_id}}"
            if "{generator}" not in _numbers(word):
                yield f"{word}{_numbers(word)[0]}{between}{{prompt_id}}"
    for between in _words(stems, _AFTER_WORD, 2):
        for end in _words(stems, _AFTER_WORD, 4):
            makers = {match[1] for stem in stems if (match := _AFTER_WORD.fullmatch(stem))}
            if 1 < len(makers) <= len(stems) / 2:
                yield f"{{generator}}{between}{{prompt_id}}{end}"
    if in_folders and all(map(is_generator, stems)):
        yield "{generator}"
        for between, end in {match.group(2, 4) for match in map(_AFTER_WORD.fullmatch, stems) if match}:
            if not any(map(is_checkpoint, stems)):
                yield f"{{generator}}{between}{{sample}}{end}"
        return
    numbered = list(_of_last_number(stems))
    yield from numbered
    if in_prompts and not numbered:
        yield from ["{generator}"] if 2 * len(stems) <= len(names) else []
        yield "{name}"


def _of_last_number(stems: set[str]) -> Iterator[str]:
    """Yield what the last number in most names is, a prompt or a sample; earlier numbers are seeds, or the same in all."""
    forms = Counter(re.sub(r"\d+", "{}", stem) for stem in stems if not {"{", "}"} & set(stem))
    form, count = forms.most_common(1)[0] if forms else ("", 0)
    numbers = [re.findall(r"\d+", stem) for stem in stems if re.sub(r"\d+", "{}", stem) == form]
    if not _are_most(count, stems, lambda stem: re.sub(r"\d+", "{}", stem) == form) or not numbers[0]:
        return
    *before, _ = (column[0] if len(set(column)) == 1 else "" for column in zip(*numbers, strict=True))
    if before.count("") <= 1:
        fields = [number or "{seed}" for number in before]
        word = re.split(r"[\d{}]", form.rpartition("{}")[0])[-1]
        for field in (*(["{prompt_id}"] if "" not in before else []), *_numbers(word)):
            yield form.format(*fields, field)


def _numbers(word: str) -> list[str]:
    """List the possible meanings of a number after a word, if it is not the number of a prompt."""
    kind = word.strip("_-( ").lower()
    if is_generator(kind):
        return ["{generator}"]
    also = ["{generator}"] if kind and kind in _MAYBE_SAMPLES else []
    return ["{seed}" if "seed" in kind else "{sample}", *also]


def _words(names: Iterable[str], form: re.Pattern[str], group: int = 1) -> list[str]:
    """Return the word at that place of the names; nothing if it differs in more names than strays."""
    matches = {name: form.fullmatch(name) for name in names}
    common = Counter(match[group] for match in matches.values() if match).most_common(1)
    word, count = common[0] if common else ("", 0)
    has_word = {name for name, match in matches.items() if match and match[group] == word}
    return [word] if _are_most(count, matches, has_word.__contains__) else []


def _are_most(count: int, names: Collection[str], fits: Callable[[str], bool]) -> bool:
    """Return True if `count` of the names fit and the others are strays, such as `grid`: few, or without a number."""
    few = 10 * count >= 9 * len(names)
    return count > 0 and (
        few or (2 * count > len(names) and not any(re.search(r"\d", n) for n in names if not fits(n)))
    )
