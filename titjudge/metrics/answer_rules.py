"""Answer rules: how a judge's reply to questions becomes numbers (`answer:` in the YAML file of a suite).

A rule takes the text of a reply and the questions it answers, and returns a number for each of them. It returns None if
the reply cannot be parsed, and `[]` if in addition the published script does not ask again. The thoughts of a
reasoning model are never read. A rule that follows a published script to the letter names it.
"""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from titjudge.core.patterns import lazy_pattern
from titjudge.core.refusals import declines
from titjudge.core.structured_output import after_thinking, json_object, without_chat_tokens

_LABEL = r"\W*(?:\d+[.)]\s*)?(?:(?:(?:the )?(?:final |correct )?(?:answer|verdict)|a|答案|回答)\W*[:=-])?\W*"
_ENDS = r"(?=\W*$|\s*[^\w\s])"
_PLAIN_YES = "yep|yeah|yup|oui|ja|sí|sì|sim|да|tak|evet|はい|네|예|نعم|हाँ|हां|对的?|對|有的?|正确|正確|没错"
_PLAIN_NO = (
    "nope|nah|non|nein|nee|nie|não|нет|hayır|いいえ|아니요|아니오|لا|नहीं|不|不是的|不对|不對|没有|沒有|没|不正确"
)
_COURTESY = "certainly|of course|absolutely|definitely|indeed"  # which also open a reply with another meaning
_YES = rf"yes\b|是的?(?!\w)|(?:{_PLAIN_YES}|affirmative|correct|true|存在|(?P<courtesy>{_COURTESY})){_ENDS}"
_NO = (  # as an answer: `No dog can be seen` and `No idea` do not answer a question that is not known
    r"no\b(?!\.\s*\d)(?=\W*$|\s*[^\w\s]|\s+(?:it|its|there|this|that|these|those|the|they|he|she)\b)|(?:否|不是)(?!\w)"
    rf"|(?:{_PLAIN_NO}|negative|incorrect|false|not at all|(?:{_COURTESY}) not|错误|不存在){_ENDS}"
)
_ANSWER = lazy_pattern(rf"{_LABEL}(?:(?P<yes>{_YES})|(?P<no>{_NO}))", re.IGNORECASE)
_CONCLUSION = lazy_pattern(
    r"(?:\b(?:answer|verdict|conclusion|response)(?: to (?:the|this|your) question)?\s*(?:is|would be|=|:)|(?:答案|回答|结论)\s*(?:是|为|:)?|\bi(?:'d| would|'ll| will)? (?:say|answer)"
    r"|\b(?:it|that)(?:'s| is) a|\\boxed)[\s:*\"'“{(<\[]*(?:(?P<yes>yes|是的?|对|有)|(?P<no>no|否|不是|不对|没有))(?!\w)"
    r"(?=\W*$|\s*[.,;:!?)\]}*\"'”。，！<]|\s+(?:because|as|since)\b)",
    re.IGNORECASE | re.MULTILINE,
)
_WORDS = {  # the other word: anywhere in the line, or right after it in another language
    True: lazy_pattern(rf"\byes\b|^\W*(?:\w{{1,4}}\s)?(?:{_PLAIN_YES}|是的?){_ENDS}", re.IGNORECASE),
    False: lazy_pattern(rf"\bno\b|^\W*(?:\w{{1,4}}\s)?(?:{_PLAIN_NO}|否|不是){_ENDS}", re.IGNORECASE),
}
_ALONE = {
    yes: lazy_pattern(rf"(?m)^\W*(?:\d+[.)]\s*)?{word}\W*$", re.IGNORECASE)
    for yes, word in ((True, "yes"), (False, "no"))
}
_NEGATION = lazy_pattern(
    r"n't\b|\b(?:not?|cannot|never|none|nothing|nobody|nowhere|without|neither|nor|zero|kein\w*|nicht|nein|pas|aucun\w*|non|ning\w+|não|nenhum\w*|нет|не)\b"
    r"|[不没沒無无未]|ない|ません|없|않",
    re.IGNORECASE,
)
_CLAUSE = lazy_pattern(
    r"[.!?,;:。！？，；：\n]|\b(?:but|however|though|although|aber|mais|pero)\b|但是?|不过", re.IGNORECASE
)
_BUT = lazy_pattern(r"\b(?:but|aber|mais|pero|mas|ma|но)\b|但|不过|でも|しかし|하지만", re.IGNORECASE)
_SIMPLE = lazy_pattern(r"(?:\b(?:yes|no)|是的?|否)$", re.IGNORECASE)
_TO_SOMEONE = lazy_pattern(
    r"\W*(?:i|i'm|i'd|i'll|we|please|sorry|unfortunately|as an?|there)\b|\W*[我请請抱对對]", re.IGNORECASE
)
_REVISED = lazy_pattern(  # the speaker takes the word back, or does not know
    r"[^\w\s]\s*(?:wait|hold on|correction|oops)\s*[^\w\s]|\b(?:scratch that|on second thought|my mistake|i (?:was|am) (?:wrong|mistaken)"
    r"|i mis\w+|you(?: are|'re) right|i (?:can't|cannot|can not|am unable to) (?:tell|say|determine|judge|know))\b",
    re.IGNORECASE,
)
_UNSURE = lazy_pattern(  # before a conclusion, in its clause
    r"n't\b|\b(?:not|might|may|could|expected|usual\w*|whoever|anyone|somebody|some|doubt\w*|wrong)\b[^,;:]*$",
    re.IGNORECASE,
)
_OTHER = r"(?!\1\b)(?:yes|no)\b"
_UNDECIDED = lazy_pattern(  # `yes/no`, `no or yes`; `no, wait: yes`; `no idea`
    rf"(yes|no)\b(?:\W*(?:(?:or|and)\b\W*)?{_OTHER}(?=\W*$|\s*[,.;:!?])|.*[^\w\s]\s*{_OTHER}\W*$|(?<=no) (?:idea|clue)\b)",
    re.IGNORECASE,
)
_FENCED = lazy_pattern(r"```\w*\s*(.*?)\s*```", re.DOTALL)
_ANSWER_KEYS = frozenset({"answer", "final_answer", "final answer", "答案", "回答"})
_FACT_KEYS = _ANSWER_KEYS | set("yes result response output verdict present visible value".split())
_ASKED = lazy_pattern(r"[^.!?。！？\n]*[?？]\s*")
_CONDITION = lazy_pattern(r"\b(?:if|unless|whether|depends|either|or)\b|如果|除非|是否", re.IGNORECASE)
_SENTENCE_END = lazy_pattern(r"(?<=[.!?。！？])\s*|\n+")
_TURNS = lazy_pattern(
    r"\b(?:actually|wait|but|however|correction|though|although|yes|no|oh|oops|mistaken?|sorry|false|wrong|incorrect|untrue|not true|kidding|joking)\b|但|不过|是的|错|不对|不是",
    re.IGNORECASE,
)
_BLOCKED = lazy_pattern(  # in a question: no sentence answers it for certain
    r"n't\b|n’t\b|\b(?:no|not|never|none|nothing|nobody|without|absent|absence|lack\w*|missing|free|empty|fewer|less|few|only|alone|except|exclud\w*|"
    r"instead|rather|or|either|neither|nor|if|unless|avoid\w*|hidden|invisible|zero|devoid|at most|cannot)\b|[不没無无未]|还是|或|只有|仅",
    re.IGNORECASE,
)
_SHORT = lazy_pattern(
    r"(?:it|they|he|she|there|this|that) (?:is|are|does|do|has|have|was|were)(?P<not>n't| not| none)?\W*", re.IGNORECASE
)
_DENIALS = frozenset("no not none never nothing nobody without neither nor zero nowhere".split())
_STOPS = frozenset(
    re.findall(
        r"\w+",
        "a an the any some this that these those is are was were be been being do does did has have had can could there it its they he she here show shows "
        "shown showing depict depicts depicted contain contains include includes feature features visible present seen see appear appears exist exists i we "
        "single at all clearly image picture photo photograph scene",
    )
)
_PLACE = lazy_pattern(
    r"\b(?:in|within|on|of|by) (?:the|this|that) (?:given |provided )?(?:image|picture|photo|photograph|scene|frame)\b|\bat all\b"
)
_PICTURE = lazy_pattern(r"\b(?:image|picture|photo\w*|screenshot)s?\b|[图圖]|照片")
_LONGEST_REST = 600  # characters after yes or no that may contradict it
_PLURAL = lazy_pattern(r"(\w{2,}?(?:ch|sh|x|ss)(?=es$)|\w{3,}(?<!s)(?=s$))\w*$")
_HAN = lazy_pattern("[\u4e00-\u9fff]")
_HAN_NO = lazy_pattern("并?没有|并?不存在|看不到|[没沒不无無未否]")
_HAN_STOPS = lazy_pattern(
    "请问|请判断|这[张幅]|(?:图片|图像|图|照片|画面)[中里内上]?|[中里内上]?是否|[中里内](?=有|存在|没|出现|$)|[吗呢？?。.！!，, \\s]|可以看到|能看到|看到|我|任何|出现|存在|一[只个条张位名辆把座朵本棵头匹件]|[有了着的是]"
)
_LONGEST = 100_000  # characters of a list that is parsed


class VisualQuestion(BaseModel):
    """A question about an image.

    Attributes:
        id: The name by which other questions refer to it in `parents`.
        question: Its text; for a rule that parses labels, the label.
        category: The group of questions in which tables count its answer.
        weight: Its weight in the score of the image.
        most: The best answer.
        parents: Ids of the questions it depends on: if one of them is answered "no", it counts as "no".
        answer: The right answer, if that is not "yes".
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


@dataclass(frozen=True, slots=True)
class AnswerRule:
    """An answer rule.

    Attributes:
        read: Parses a reply to questions.
        write: Makes a reply in which every question has the best answer, for models that only replace another.
    """

    read: Callable[[str, Sequence[VisualQuestion]], Answers]
    write: Callable[[Sequence[VisualQuestion]], str]


def read_yes_no(text: str, question: str = "") -> bool | None:
    """Return whether an answer is yes or no; None if it is neither, or both.

    It is read from its first line, which has to begin with the word in any case and must not contain the other one; from a
    conclusion such as "The answer is yes."; or from a sentence that affirms or denies what the `question` asks, such as "No
    dog is visible." No later line may be the other word alone, and no clause may mean the opposite ("No, there is a dog.").
    The question may be repeated before. A JSON object is read by its key `answer`, or its only key.
    """
    text = unicodedata.normalize("NFKC", without_chat_tokens(after_thinking(text)))
    fenced = _FENCED.fullmatch(text)
    if (data := json_object(fenced[1] if fenced else text)) is not None:
        pairs = [(key.strip().casefold(), value) for key, value in data.items()]
        named = [pair for pair in pairs if len(pairs) == 1 or pair[0] in _ANSWER_KEYS]
        key, value = named[0] if len(named) == 1 else ("", "")
        fact = isinstance(value, bool) and key in _FACT_KEYS
        text = ("yes" if value else "no") if fact else value if isinstance(value, str) else ""
    text = re.sub(r"</?\w{1,20}>", " ", text).replace("’", "'").strip()
    while asked := _ASKED.match(text):  # the question is repeated before the answer
        text = text[asked.end() :].strip()
    first, _, others = text.partition("\n")
    conclusions = list(_CONCLUSION.finditer(text))
    verdicts = {conclusion["yes"] is not None for conclusion in conclusions}
    if match := _ANSWER.match(first):
        yes = match["yes"] is not None
        rest = text[match.end() :]
        if _contradicts(yes, first[match.end() :], rest, question) or _ALONE[not yes].search(others):
            return None
        if not _SIMPLE.search(match[0]) and _BUT.search(first):
            return None
        if match["courtesy"] and rest.strip(" .!,") and not read_sentence(rest.lstrip(" .!,"), question):
            return None
        if match[0][-1:] in "有没沒" and _HAN_NO.search(question):
            return None  # whether there is one, not whether there is none
        verdicts.add(yes)
    elif verdicts and (
        _CONDITION.search(text) or any(_UNSURE.search(_clause(text, each.start())) for each in conclusions)
    ):
        return None
    elif not verdicts and question:
        return read_sentence(re.sub(rf"^{_LABEL}", "", text, flags=re.IGNORECASE), question)
    return verdicts.pop() if len(verdicts) == 1 else None


def _clause(text: str, end: int) -> str:
    """Return the text before a position, from the start of its clause."""
    return re.split(r"[.!?;,\n]|\b(?:so|thus|therefore|hence|and)\b", text[:end])[-1]


def _contradicts(yes: bool, line: str, rest: str, question: str) -> bool:
    """Return True if the text after yes or no means the opposite, takes it back, or is about the conversation."""
    about_image = not question or _PICTURE.search(_PLACE.sub("", question.casefold())) is not None
    if _WORDS[not yes].search(line) or _REVISED.search(rest):
        return True
    if _TO_SOMEONE.match(rest) and declines(rest.lstrip(" .!,:;，。"), answers=about_image):
        return True
    if not yes and _NEGATION.search(line) and _NEGATION.search(question):
        return True  # "Is there no dog?" "No, there is no dog."
    clauses = _CLAUSE.split(rest[:_LONGEST_REST]) if question else []
    return any(read_sentence(clause, question) is (not yes) for clause in clauses)


def read_sentence(text: str, question: str) -> bool | None:
    """Return whether the first sentence affirms or denies what a question asks, in the words of the question and their order.

    "There is no dog." denies "Is there a dog on the sofa?", and "There is a dog." is no answer to it. A question that
    itself contains a negation or a choice is answered by no sentence.
    """
    first, *others = _SENTENCE_END.split(text.strip(), maxsplit=1)
    if any(_TURNS.search(other) for other in others) or _BLOCKED.search(question):
        return None
    if short := _SHORT.fullmatch(first.replace("’", "'")):
        return short["not"] is None
    if _HAN.search(question):
        asked, said = _HAN_STOPS.sub("", question), _HAN_STOPS.sub("", _HAN_NO.sub("", first))
        denials = len(_HAN_NO.findall(first))
        denied, affirmed = bool(said) and said in asked, bool(said) and said == asked
    else:
        asked_words, words = _content(question), _content(first)
        denials = sum(word in _DENIALS for word in words)
        kept = [word for word in words if word not in _DENIALS]
        rest = iter(asked_words)
        denied = bool(kept) and all(word in rest for word in kept)  # in this order
        affirmed = bool(kept) and kept == asked_words
    if denials == 1:
        return False if denied else None
    return True if affirmed and not denials else None


def _content(text: str) -> list[str]:
    """List the content words of a sentence, without the endings of plurals."""
    text = _PLACE.sub(" ", text.casefold().replace("’", "'").replace("can't", "can not").replace("cannot", "can not"))
    words = re.findall(r"\w+", text.replace("n't", " not").replace("'s", " "))
    return [_PLURAL.sub(r"\1", word) for word in words if word not in _STOPS]


def begins_like(text: str) -> str:
    """Return `denial` or `affirmation` if a reply that cannot be read begins like one, otherwise an empty text."""
    first = _SENTENCE_END.split(after_thinking(text).strip(), maxsplit=1)[0].casefold().replace("’", "'")
    if _NEGATION.search(first):
        return "denial"
    return "affirmation" if re.match(r"\W*(?:yes\b|yeah|there (?:is|are)\b|是|有)", first) else ""


def is_undecided(line: str) -> bool:
    """Return True if a line that begins with yes or no also contains the other one as an answer (`yes/no`), or `no idea`."""
    return _UNDECIDED.match(line.strip()) is not None


def _first_word(text: str, questions: Sequence[VisualQuestion]) -> Answers:
    answer = read_yes_no(text, questions[0].question if len(questions) == 1 else "")
    return None if answer is None else [float(answer)]


def _any_word(text: str, questions: Sequence[VisualQuestion]) -> Answers:
    """T2I-CoReBench, evaluate.py: the word yes anywhere is a yes, even beside a no."""
    answer = after_thinking(text).strip().lower()
    if re.search(r"\byes\b", answer):
        return [1.0]
    return [0.0] if re.search(r"\bno\b", answer) else None


def _exactly_yes(text: str, questions: Sequence[VisualQuestion]) -> Answers:
    """OneIG-Bench, alignment_score.py: anything but `Yes` is a no."""
    return [float(after_thinking(text) == "Yes")]


def _plain_yes(text: str, questions: Sequence[VisualQuestion]) -> Answers:
    """DPG-Bench, compute_dpg_bench.py: anything but yes is a no; a VLM may write it with a capital and a full stop."""
    return [float(after_thinking(text).strip().lower().removesuffix(".") == "yes")]


def _labels(text: str, questions: Sequence[VisualQuestion]) -> Answers:
    """Read each label, which must occur once, at the start of a line, with a whole number on its scale."""
    answers = []
    for question in questions:
        label = re.escape(question.question)
        values = re.findall(rf"(?im)^[\s*#-]*{label}[\s*]*[:：]?[\s*]*(\d+)[\s*.]*$", after_thinking(text))
        if len(values) != 1 or float(values[0]) > question.most:
            return None
        answers.append(float(values[0]))
    return answers


def _wise_labels(text: str, questions: Sequence[VisualQuestion]) -> Answers:
    """WISE, gpt_eval.py: the last value of a label counts; without labels, the first lines that are a number."""
    text = after_thinking(text)
    names = "|".join(re.escape(question.question) for question in questions)
    matches = re.findall(rf"\*{{0,2}}({names})\*{{0,2}}\s*:?\s*(\d)", text, re.IGNORECASE)
    last = {name.lower(): float(value) for name, value in matches}
    if not last:
        lines = re.findall(r"(?m)^\s*([0-2])\s*$", text)[: len(questions)]
        last = {question.question.lower(): float(line) for question, line in zip(questions, lines, strict=False)}
    values = [last.get(question.question.lower()) for question in questions]
    answers = [value for value, q in zip(values, questions, strict=True) if value is not None and value <= q.most]
    return answers if len(answers) == len(questions) else None


def _wise_score(text: str, questions: Sequence[VisualQuestion]) -> Answers:
    """WISE_Verified, vllm_eval.py: the first `Score: 0` or `Score: 1`, otherwise the only line that is 0 or 1."""
    text = after_thinking(text)
    match = re.search(r"\*{0,2}Score\*{0,2}\s*:?\s*([01])\b", text, re.IGNORECASE)
    if match:
        return [float(match[1])]
    lines = re.findall(r"(?m)^\s*([01])\s*$", text)
    return [float(lines[0])] if len(lines) == 1 else None


def _one_or_zero(text: str, questions: Sequence[VisualQuestion]) -> Answers:
    """Read a reply that is 1 or 0, with nothing but punctuation around it."""
    match = re.fullmatch(r"[\s\"'`*(\[]*([01])[\s\"'`*)\].。]*", after_thinking(text))
    return None if match is None else [float(match[1])]


def _between(text: str, tag: str) -> Any:
    """Evaluate the Python literal inside a tag; None if there is none."""
    match = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    if match is None or len(match[1]) > _LONGEST:
        return None
    try:
        return ast.literal_eval(match[1].strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _score_list(text: str, questions: Sequence[VisualQuestion]) -> Answers:
    """Read `<score>[1, 0]</score>`: a 0 or 1 for each question."""
    marks = _between(after_thinking(text), "score")
    if not isinstance(marks, list) or len(marks) != len(questions):
        return None
    return [float(mark) for mark in marks] if all(type(mark) is int and mark in (0, 1) for mark in marks) else None


def _unigenbench(text: str, questions: Sequence[VisualQuestion]) -> Answers:
    """UniGenBench, eval_common.py: as many analyses as marks; a mark of 1 is a 1, anything else is a 0."""
    text = after_thinking(text)
    analysis, marks = _between(text, "analysis"), _between(text, "score")
    try:
        if not len(analysis) == len(marks) == len(questions):
            return None
    except TypeError:
        return None
    if not isinstance(marks, list | tuple) or not (_survives_json(analysis) and _survives_json(marks)):
        return []
    return [float(mark == 1) for mark in marks]


def _survives_json(value: Any) -> bool:
    """Return True if a value, written as JSON by the official code, is a Python literal again: no true, false or null."""
    if isinstance(value, list | tuple):
        return all(map(_survives_json, value))
    if isinstance(value, dict):
        return all(isinstance(key, str | int | float) and _survives_json(item) for key, item in value.items())
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _yes(questions: Sequence[VisualQuestion]) -> str:
    return "Yes"


def _best_labels(questions: Sequence[VisualQuestion]) -> str:
    return "\n".join(f"{question.question}: {question.most:g}" for question in questions)


def _ones(questions: Sequence[VisualQuestion]) -> str:
    marks = [1] * len(questions)
    return f"<analysis>{marks}</analysis><score>{marks}</score>"


RULES = {
    "yes-no": AnswerRule(_first_word, _yes),
    "labels": AnswerRule(_labels, _best_labels),
    "score-list": AnswerRule(_score_list, _ones),
    "one-or-zero": AnswerRule(_one_or_zero, lambda questions: "1"),
    "t2i-corebench": AnswerRule(_any_word, _yes),
    "oneig": AnswerRule(_exactly_yes, _yes),
    "dpg-bench": AnswerRule(_plain_yes, _yes),
    "wise": AnswerRule(_wise_labels, _best_labels),
    "wise-verified": AnswerRule(_wise_score, lambda questions: "Score: 1"),
    "unigenbench": AnswerRule(_unigenbench, _ones),
}
