"""How a judge's reply becomes numbers: the rules that suites of questions name (`answer:` in their YAML files).

A rule takes the text of a reply and the questions it answers, and gives a number for each of them, or None where the reply
does not say what was asked (nothing at all, `[]`, where a published script then does not ask again either). What a reasoning model thinks aloud is never an answer. The rules that follow a published script
to the letter name it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from titjudge.core.structured_output import after_thinking

_YES_NO = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)
_LONGEST = 100_000  # characters of a list that is read


class Question(BaseModel):
    """A question about an image.

    Attributes:
        id: What `parents` name it by.
        question: Its words; of a rule that reads labels, the label.
        category: Where its answer counts in tables of answers.
        weight: Its share in the score of the image.
        most: The best answer.
        parents: Questions without which it makes no sense: where one of them is answered "no", it counts as "no".
        answer: What is asked for, where that is not "yes".
    """

    model_config = ConfigDict(extra="forbid")

    id: str = ""
    question: str
    category: str = ""
    weight: float = Field(default=1.0, gt=0)
    most: float = Field(default=1.0, gt=0)
    parents: list[str] = []
    answer: str = ""


Answers = list[float] | None
Rule = Callable[[str, Sequence[Question]], Answers]


def read_yes_no(text: str) -> bool | None:
    """Read True, False, or None where an answer starts with neither yes nor no (any case, signs before it ignored)."""
    match = _YES_NO.match(after_thinking(text))
    return None if match is None else match[1].lower() == "yes"


def _first_word(text: str, questions: Sequence[Question]) -> Answers:
    said = read_yes_no(text)
    return None if said is None else [float(said)]


def _any_word(text: str, questions: Sequence[Question]) -> Answers:
    """T2I-CoReBench, evaluate.py: the word yes anywhere is a yes, even beside a no."""
    found = after_thinking(text).strip().lower()
    if re.search(r"\byes\b", found):
        return [1.0]
    return [0.0] if re.search(r"\bno\b", found) else None


def _exactly_yes(text: str, questions: Sequence[Question]) -> Answers:
    """OneIG-Bench, alignment_score.py: anything but `Yes` is a no."""
    return [float(after_thinking(text) == "Yes")]


def _plain_yes(text: str, questions: Sequence[Question]) -> Answers:
    """DPG-Bench, compute_dpg_bench.py: anything but yes is a no; a VLM may write it with a capital and a full stop."""
    return [float(after_thinking(text).strip().lower().removesuffix(".") == "yes")]


def _labels(text: str, questions: Sequence[Question]) -> Answers:
    """Each label once, at the start of a line, with a whole number on its scale."""
    found = []
    for question in questions:
        label = re.escape(question.question)
        values = re.findall(rf"(?im)^[\s*#-]*{label}[\s*]*[:：]?[\s*]*(\d+)[\s*.]*$", after_thinking(text))
        if len(values) != 1 or float(values[0]) > question.most:
            return None
        found.append(float(values[0]))
    return found


def _wise_labels(text: str, questions: Sequence[Question]) -> Answers:
    """WISE, gpt_eval.py: of a label that stands twice the last counts; without labels, the first lines that are a number."""
    text = after_thinking(text)
    names = "|".join(re.escape(question.question) for question in questions)
    matches = re.findall(rf"\*{{0,2}}({names})\*{{0,2}}\s*:?\s*(\d)", text, re.IGNORECASE)
    last = {name.lower(): float(value) for name, value in matches}
    if not last:
        lines = re.findall(r"(?m)^\s*([0-2])\s*$", text)[: len(questions)]
        last = {question.question.lower(): float(line) for question, line in zip(questions, lines, strict=False)}
    values = [last.get(question.question.lower()) for question in questions]
    given = [
        value for value, question in zip(values, questions, strict=True) if value is not None and value <= question.most
    ]
    return given if len(given) == len(questions) else None


def _wise_score(text: str, questions: Sequence[Question]) -> Answers:
    """WISE_Verified, vllm_eval.py: the first `Score: 0` or `Score: 1`, else the only line that is 0 or 1."""
    text = after_thinking(text)
    match = re.search(r"\*{0,2}Score\*{0,2}\s*:?\s*([01])\b", text, re.IGNORECASE)
    if match:
        return [float(match[1])]
    lines = re.findall(r"(?m)^\s*([01])\s*$", text)
    return [float(lines[0])] if len(lines) == 1 else None


def _between(text: str, tag: str) -> Any:
    match = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    if match is None or len(match[1]) > _LONGEST:
        return None
    try:
        return ast.literal_eval(match[1].strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _score_list(text: str, questions: Sequence[Question]) -> Answers:
    """`<score>[1, 0]</score>`: a 0 or 1 for each question."""
    marks = _between(after_thinking(text), "score")
    fits = isinstance(marks, list) and len(marks) == len(questions)
    return (
        [float(mark) for mark in marks]
        if fits and all(type(mark) is int and mark in (0, 1) for mark in marks)
        else None
    )


def _unigenbench(text: str, questions: Sequence[Question]) -> Answers:
    """UniGenBench, eval_common.py: as many analyses as marks; only a mark of 1 counts, anything else is a 0."""
    text = after_thinking(text)
    analysis, marks = _between(text, "analysis"), _between(text, "score")
    try:
        fits = len(analysis) == len(marks) == len(questions)
    except TypeError:
        return None
    if not fits:
        return None
    if not isinstance(marks, list | tuple) or not (_kept(analysis) and _kept(marks)):
        return []
    return [float(mark == 1) for mark in marks]


def _kept(value: Any) -> bool:
    """Tell whether what upstream writes as JSON is also what it reads as Python: no true, false or null."""
    if isinstance(value, list | tuple):
        return all(map(_kept, value))
    if isinstance(value, dict):
        return all(isinstance(key, str | int | float) and _kept(each) for key, each in value.items())
    return isinstance(value, str | int | float) and not isinstance(value, bool)


RULES: dict[str, Rule] = {
    "yes-no": _first_word,
    "labels": _labels,
    "score-list": _score_list,
    "t2i-corebench": _any_word,
    "oneig": _exactly_yes,
    "dpg-bench": _plain_yes,
    "wise": _wise_labels,
    "wise-verified": _wise_score,
    "unigenbench": _unigenbench,
}
