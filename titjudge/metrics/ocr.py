"""OCR: read the text in images (rapidocr), and compare words with those asked for.

Formulas: TIIF-Bench paper, 3.3 (GNED); cal_gned_and_recall_models.py (@3aae750) for case, splitting and recall.
"""

from __future__ import annotations

import asyncio
import ctypes
import functools
import os
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from titjudge.core.errors import MissingExtra
from titjudge.core.words import normalised
from titjudge.data.image_decoding import inspect
from titjudge.data.images import read

RECALL_THRESHOLD = 0.3
_QUESTION = re.compile(r"Is the text '(.*)' in the image\?")


def words_from_questions(questions: Iterable[str]) -> list[str]:
    """Extract the words of `Is the text '...' in the image?` questions, in order, with repetitions, which count."""
    return [match[1] for question in questions if (match := _QUESTION.fullmatch(question.strip()))]


def words_read(strings: Sequence[str]) -> list[str]:
    """Split strings into lowercase words at single spaces (two in a row leave an empty word, tabs do not split).

    Without any strings there is one empty word, as in the official code: GNED is then exactly 1.
    """
    return [word for string in strings or [""] for word in string.lower().split(" ")]


class TextErrors(NamedTuple):
    """Errors of the words read, against the words asked for.

    Attributes:
        gned: Global normalised edit distance, in [0, 1]; 0 is perfect.
        recall: Share of the words asked for that were read, in [0, 1].
        pned: Pairwise normalised edit distance, 0 or more: GNED before it is divided by the number of words (LeX-Art,
            cal_pned_and_recall.py @48a80d5), so that longer texts count more.
    """

    gned: float
    recall: float
    pned: float


def split_words(strings: Sequence[str]) -> list[str]:
    """Split strings into words at blanks, in lower case, each character written in one way (strict protocol)."""
    return [word for string in strings for word in normalised(string).casefold().split()]


def text_errors(gold: Sequence[str], read: Sequence[str], *, strict: bool = False) -> TextErrors:
    """Compare the words that were read with those asked for.

    Args:
        gold: The words asked for; they are lowercased and not split.
        read: The strings that were read; they are lowercased and split into words.
        strict: Split both in the same way, by `split_words`.

    GNED: the normalised Levenshtein distances of the best assignment of words, plus one for each word too many or
    missing, over the larger number of words. Recall: the share of gold words that, in order, find an unused word with a
    distance of at most 0.3.

    Raises:
        ValueError: There are no gold words.
    """
    import numpy as np
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist
    from scipy.optimize import linear_sum_assignment

    if strict:
        gold_words, words = split_words(gold), split_words(read) or [""]
    else:
        gold_words, words = [word.lower() for word in gold], words_read(read)
    if not gold_words:
        raise ValueError("the prompt has no text to render, so neither GNED nor recall is defined")
    costs = cdist(words, gold_words, scorer=Levenshtein.normalized_distance, dtype=np.float64)
    rows, columns = linear_sum_assignment(costs)
    matched = float(costs[rows, columns].sum())
    pned = matched + abs(len(words) - len(gold_words))
    used: set[int] = set()
    for column in range(len(gold_words)):
        hits = (row for row in range(len(words)) if row not in used and costs[row, column] <= RECALL_THRESHOLD)
        hit = next(hits, None)
        if hit is not None:
            used.add(hit)
    return TextErrors(pned / max(len(words), len(gold_words)), len(used) / len(gold_words), pned)


@functools.cache
def _engine() -> Any:
    try:
        from rapidocr import RapidOCR
    except ImportError as error:
        raise MissingExtra("rapidocr and onnxruntime", "ocr", "reading text in images") from error
    return RapidOCR(params={"Global.log_level": "error"})


@functools.cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="titjudge-ocr")


def _after_fork() -> None:
    """Begin without the threads of the parent process.

    The engine of the parent is kept for good: its end would wait for threads that are not in this process.
    """
    if _engine.cache_info().currsize:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_engine()))
    for cached in (_engine, _thread):
        cached.cache_clear()


os.register_at_fork(after_in_child=_after_fork)


def engine_version() -> str:
    """Return name and version of the OCR engine, as scores record it; empty when none is installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"rapidocr {version('rapidocr')}"
    except PackageNotFoundError:
        return ""


def read_text(path: Path) -> list[str]:
    """Read the strings in an image with rapidocr and the models of its wheel.

    Raises:
        MissingExtra: Rapidocr is not installed.
        ValueError: The image cannot be read.
    """
    engine = _engine()
    try:
        raw = read(path)
        inspect(raw, path)  # the engine itself would open any format
        result = engine(raw)
    except Exception as error:
        raise ValueError(f"the image cannot be read: {error}") from error
    return [str(text) for text in result.txts or ()]


async def read_text_async(path: Path) -> list[str]:
    """Call `read_text` in a separate thread, one image at a time."""
    return await asyncio.get_running_loop().run_in_executor(_thread(), read_text, path)
