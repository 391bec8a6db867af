"""People's labels of elements in the files of published data sets: EvalMuse-40K, RichHF-18K, ImagenWorld.

The formats are from public pages and code: process/process_train.py of DYEvaLab/EvalMuse @0fa141b, parse_tfrecord_file.py and
match_label_to_token.py in richhf_18k of google-research @4c42994. ImagenWorld's authors describe none; its annotated set is read
as Label Studio's exports in the tree that public readers of it expect.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError, must_be
from titjudge.core.files import open_regular, read_json
from titjudge.core.names import plain
from titjudge.core.numbers import is_number
from titjudge.core.score_parts import element_words
from titjudge.core.words import FUNCTION_WORDS, is_texts
from titjudge.data.tables import first_row, is_table, read_table

Labels = Mapping[str, bool]
"""Element, in small letters -> whether people see it in the image."""
_SEPARATORS = re.compile(r'[,.?!":; ]')  # of the words that RichHF-18K labels
_LONGEST = 1 << 20  # bytes of a text that is evaluated
_RECORD, _CHECK = 12, 4  # bytes before and after a TFRecord


@dataclass(frozen=True, slots=True)
class PublishedLabels:
    """The labels of one data set.

    Attributes:
        name: The data set.
        rule: How its labels become yes and no, in a sentence.
        images: Image, as the data set names it -> what people labelled.
        read: Returns the label of an element, from what people labelled and the prompt; None if people gave none.
    """

    name: str
    rule: str
    images: Mapping[str, Any]
    read: Callable[[Any, str, str], bool | None]

    def of(self, images: Iterable[str]) -> dict[str, Any]:
        """Find what people labelled for images of a run: one path has to end with the whole other one.

        `SDXL/1.png` has no labels of `FLUX/1.png`. An image with several matches, or whose match has several images, has no labels.
        """
        ends: dict[str, set[str]] = {}
        for name in self.images:
            for end in _ends(name):
                ends.setdefault(end, set()).add(name)
        wholes = {next(_ends(name)): name for name in self.images}
        found: dict[str, str] = {}
        for image in images:
            whole, *shorter = _ends(image)
            fits = ends.get(whole) or {wholes[end] for end in shorter if end in wholes}
            if len(fits) == 1:
                found[image] = min(fits)
        counts = Counter(found.values())
        return {image: self.images[name] for image, name in found.items() if counts[name] == 1}


def _ends(path: str) -> Iterator[str]:
    """Yield a path without its ending, and the same from each of its folders on: the longest first."""
    parts = plain(path).rpartition(".")[0].split("/") if "." in path.rpartition("/")[2] else plain(path).split("/")
    for start in range(len(parts)):
        yield "/".join(parts[start:])


def published_labels(path: Path) -> PublishedLabels | None:
    """Read the labels of a published data set; None if the file is not in one of its formats.

    Args:
        path: train_list.json or train.json of EvalMuse-40K, a .tfrecord file of RichHF-18K, or a folder of ImagenWorld's annotated set.

    Raises:
        DataError: The file is damaged, or has no label; names file and row.
    """
    if path.is_dir():
        return _imagenworld(path)
    if path.name.lower().endswith(".tfrecord"):
        return _richhf(path)
    if is_table(path) and {"element_score", "img_path"} <= first_row(path).keys():
        return _evalmuse(path)
    return None


def _evalmuse(path: Path) -> PublishedLabels:
    images: dict[str, dict[str, bool]] = {}
    for number, row in read_table(path, ("element_score", "img_path")):
        labels = images.setdefault(str(row["img_path"]), {})
        for element, given in _literal(row["element_score"], path, number).items():
            votes = given if isinstance(given, list) else [given]
            if not votes or not all(is_number(vote) and 0 <= vote <= 1 for vote in votes):
                raise DataError(must_be(f"the score of '{element}'", "numbers from 0 to 1", given), path, number)
            share = sum(votes) / len(votes)
            if share != 0.5:
                labels[element.strip().casefold()] = share > 0.5
    rule = "an element counts as most of its annotators say; without a majority it is left out"
    return PublishedLabels("EvalMuse-40K", rule, images, _named)


def _literal(value: Any, path: Path, number: int) -> dict[str, Any]:
    """Return an object, which EvalMuse-40K may write as a Python literal."""
    if isinstance(value, str) and len(value) <= _LONGEST:
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            value = None
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise DataError(must_be("'element_score'", "an object of elements", value), path, number)
    return value


def _named(labels: Labels, prompt: str, element: str) -> bool | None:
    """Return the label of an element of that name, with or without its type."""
    name = element.strip().casefold()
    if name in labels:
        return labels[name]
    found = {label for full, label in labels.items() if element_words(full)[0] == element_words(name)[0]}
    return found.pop() if len(found) == 1 else None


def _imagenworld(folder: Path) -> PublishedLabels:
    """Read TASK/SET/input/metadata.json (`objects`) and TASK/SET/outputs/MODEL/ANNOTATOR/evaluation.json below a folder."""
    marks: dict[str, list[dict[str, bool]]] = {}
    for file in sorted(folder.rglob("outputs/*/*/evaluation.json")):
        model = file.parent.parent
        metadata = model.parent.parent / "input" / "metadata.json"
        if not metadata.is_file():
            raise DataError("input/metadata.json is missing. Add it", model.parent.parent)
        objects = _object(metadata).get("objects")
        if not is_texts(objects):
            raise DataError(must_be("'objects'", "a list of texts", objects), metadata)
        if (issues := _issues(file)) is not None:
            named = {issue.strip().casefold() for issue in issues}
            image = (model / "out.png").relative_to(folder).as_posix()
            marks.setdefault(image, []).append(
                {name: name not in named for each in objects if (name := each.strip().casefold())}
            )
    if not marks:
        raise DataError(
            "no file outputs/MODEL/ANNOTATOR/evaluation.json with object_issues found. Correct the folder", folder
        )
    images: dict[str, Labels] = {}
    for image, people in marks.items():
        votes = {name: [one[name] for one in people if name in one] for one in people for name in one}
        images[image] = {
            name: 2 * sum(given) > len(given) for name, given in votes.items() if 2 * sum(given) != len(given)
        }
    rule = (
        "an object counts as no if most annotators list it among the objects with issues, of whatever kind; without a majority it is "
        "left out"
    )
    return PublishedLabels("ImagenWorld", rule, images, _named)


def _object(file: Path) -> Mapping[str, Any]:
    content = read_json(file)
    if not isinstance(content, dict):
        raise DataError(must_be("the content", "an object", content), file)
    return content


def _issues(file: Path) -> list[str] | None:
    """Return the objects with issues that one annotator chose; None if the question was not answered."""
    annotation = _object(file).get("annotation")
    results = annotation.get("result") if isinstance(annotation, dict) else None
    if not isinstance(results, list):
        raise DataError(must_be("'annotation.result'", "a list", results), file)
    for result in results:
        if isinstance(result, dict) and result.get("from_name") == "object_issues":
            value = result.get("value")
            choices = value.get("choices") if isinstance(value, dict) else None
            if not is_texts(choices):
                raise DataError(must_be("'choices' of object_issues", "a list of texts", choices), file)
            return choices
    return None


def _richhf(path: Path) -> PublishedLabels:
    images: dict[str, list[bool]] = {}
    for number, record in enumerate(_tf_records(path), 1):
        features = _features(record, path, number)
        name, labels = (
            features.get(key, b"").decode("utf-8", "replace") for key in ("filename", "prompt_misalignment_label")
        )
        if not name or not re.fullmatch(r"[01]( [01])*", labels):
            raise DataError(
                "filename or prompt_misalignment_label is missing or malformed. Check the download", path, number
            )
        # The last part of a name is unique in Pick-a-Pic.
        images[name.rpartition("/")[2]] = [label == "1" for label in labels.split(" ")]
    rule = (
        "people label words of the prompt: an element counts as no if one of its words is labelled as misaligned, and as yes if none of "
        "those in the prompt is"
    )
    return PublishedLabels("RichHF-18K", rule, images, _worded)


def _worded(labels: list[bool], prompt: str, element: str) -> bool | None:
    """Return the label of an element from the labels of its words; function words, and words with two labels, do not count."""
    words = [word.casefold() for word in _SEPARATORS.split(prompt) if word]
    if len(words) != len(labels):
        return None
    said: dict[str, set[bool]] = {}
    for word, label in zip(words, labels, strict=True):
        said.setdefault(word, set()).add(label)
    named = {word for word in re.split(r"[|,.?!\":; ]", element_words(element)[0].casefold()) if word}
    found = [said[word] for word in named - FUNCTION_WORDS if word in said]
    if not found or any(len(each) > 1 for each in found):
        return None
    return all(True in each for each in found)


def _tf_records(path: Path) -> Iterator[bytes]:
    """Yield the records of a TFRecord file: length (8 bytes), check (4), data, check (4)."""
    with open_regular(path) as file:
        number = 0
        while head := file.read(_RECORD):
            number += 1
            length = int.from_bytes(head[:8], "little")
            if len(head) < _RECORD or length > 1 << 28:
                raise DataError("the record is damaged. Check the download", path, number)
            data = file.read(length)
            if len(data) < length or len(file.read(_CHECK)) < _CHECK:
                raise DataError("the record is cut off. Check the download", path, number)
            yield data


def _features(record: bytes, path: Path, number: int) -> dict[str, bytes]:
    """Return the first bytes value of each feature of a tf.train.Example, which is a protocol buffer."""
    try:
        features: dict[str, bytes] = {}
        for content in _fields(record, 1):  # Example.features
            for entry in _fields(content, 1):  # Features.feature, a map
                key = next(_fields(entry, 1), b"").decode("utf-8")
                feature = next(_fields(entry, 2), b"")
                values = next(_fields(feature, 1), b"")  # Feature.bytes_list
                features[key] = next(_fields(values, 1), b"")
        return features
    except (IndexError, ValueError) as error:
        raise DataError("the record is not a tf.train.Example. Check the download", path, number) from error


def _fields(message: bytes, wanted: int) -> Iterator[bytes]:
    """Yield the contents of the length-delimited fields with a number.

    Raises:
        ValueError, IndexError: The message is malformed.
    """
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == 0:
            _, at = _varint(message, at)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        elif kind == 2:
            length, at = _varint(message, at)
            if at + length > len(message):
                raise ValueError("a field is longer than its message")
            if tag >> 3 == wanted:
                yield message[at : at + length]
            at += length
        else:
            raise ValueError("an unknown kind of field")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a number is too long")
