"""Replay answers from files, of a model or a person, as a captioner or a judge, without any network.

`descriptions.jsonl` has one object per line: `image` (path relative to the file's folder) and `description`; an optional
`instruction` is the question that was asked. It answers the question for a description of an image, whatever its wording.

`answers.jsonl` (beside it) has one answer a line, to exactly one question. `answers record` writes it:

    key         the question: SHA-256 over the texts, the bytes of the images and the number of the sample, so it is
                the same on every machine, for every model, role and folder
    template    name of the prompt              sample      number of a repeated answer, absent for the first
    images      their paths, for people        question    the texts that were sent, for people
    answer      the answer                      by          its author
    choices     tokens whose probability was asked for, with `first_token`, their probabilities; absent elsewhere
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from titjudge.core.answer_probabilities import FirstToken
from titjudge.core.cells import version
from titjudge.core.errors import DataError, Unanswered, must_be
from titjudge.core.files import read_jsonl
from titjudge.core.serialization import request_record
from titjudge.core.types import ProviderSettings, Reply, Request, Status
from titjudge.providers.base import Capabilities, Provider, check_options

DESCRIBE = "tit/describe"
ANSWERS = "answers.jsonl"
_KEY = re.compile(r"[0-9a-f]{64}")


def question_key(messages: Sequence[Any], sample: int = 0, choices: Sequence[str] = ()) -> str:
    """Compute the key of a question, 64 hex digits: the same wherever and by whom it is answered.

    Args:
        messages: The conversation as `serialization.request_record` has it (texts, and images by the hash of their bytes).
        sample: Number of a repeated answer to the same question.
        choices: Tokens for which the probability is requested.
    """
    content = {"messages": messages, "sample": sample, **({"choices": list(choices)} if choices else {})}
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()


def read_answers(file: Path) -> Mapping[str, Reply]:
    """Read the answers of a recording, by key.

    Raises:
        DataError: The file cannot be read, a line is damaged, or a question is answered twice; names file and line.
    """
    return _read_answers(file, version(file))


@lru_cache(maxsize=4)  # captioner, judge and the check of a run read one file
def _read_answers(file: Path, _: tuple[int, int]) -> dict[str, Reply]:
    answers: dict[str, Reply] = {}
    lines: dict[str, int] = {}
    for number, record in read_jsonl(file, required=("key", "answer")):
        key, answer = record["key"], record["answer"]
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise DataError(must_be("'key'", "64 hex digits", key), file, number)
        if not isinstance(answer, str) or not (answer.strip() or "first_token" in record):
            raise DataError(must_be("'answer'", "a text that is not empty", answer), file, number)
        if key in answers:
            raise DataError(f"line {lines[key]} answers the same question. Remove one of the lines", file, number)
        try:
            first = FirstToken.read(record["first_token"]) if "first_token" in record else None
        except (LookupError, TypeError, ValueError) as error:
            raise DataError(
                "'first_token' has no log probabilities. Add them, or remove the key", file, number
            ) from error
        answers[key], lines[key] = _reply(answer, file, first), number
    return answers


class Recorded(Provider):
    """Replays `descriptions.jsonl` and `answers.jsonl`. Costs nothing and is never cached.

    Args:
        settings: `options["file"]` is the path of the descriptions, `options["answers"]` the path of the answers (default:
            answers.jsonl beside the descriptions). Either may be absent (with `options["new"]` both); an answer goes before
            a description.

    Raises:
        DataError: Both files are missing, or one is malformed.
    """

    name = "recorded"
    account = "recorded"
    needs_model = False
    capabilities = Capabilities(direct=True, cache=False, probabilities=True)

    def __init__(self, settings: ProviderSettings) -> None:
        check_options("option of recorded answers", settings.options, ("answers", "file", "new"))
        self.file = Path(settings.options.get("file", "descriptions.jsonl"))
        self.answers = Path(settings.options.get("answers") or self.file.with_name(ANSWERS))
        may_miss = self.answers.is_file() or settings.options.get("new")
        named = "answers" in settings.options and not may_miss
        self._answers = read_answers(self.answers) if self.answers.is_file() or named else {}
        self._texts: dict[Path, str] = {}
        if not may_miss and not self.file.exists():
            raise DataError(
                f"no answers are recorded: {self.file.name} and {self.answers.name} are missing. Use `answers record`",
                self.file.parent,
            )
        if self.file.is_file() or not may_miss:
            lines: dict[Path, int] = {}
            for number, record in read_jsonl(self.file, required=("image", "description")):
                image, text = (self.file.parent / str(record["image"])).resolve(), str(record["description"])
                if self._texts.setdefault(image, text) != text:
                    raise DataError(
                        f"'{record['image']}' has another description in line {lines[image]}. Remove one of the lines",
                        self.file,
                        number,
                    )
                lines.setdefault(image, number)

    async def complete(self, request: Request) -> Reply:
        """Find the recorded answer.

        Raises:
            Unanswered: Nothing is recorded for this question.
        """
        image = request.images[0].path if len(request.images) == 1 else None
        messages = request_record(request)["messages"]
        answer = self.recall(messages, request.sample, request.template, image, request.choices)
        if answer is None:
            raise Unanswered(Status.MISSING, self._reason_missing(request))
        return answer

    def recall(
        self, messages: Sequence[Any], sample: int, template: str, image: Path | None, choices: Sequence[str] = ()
    ) -> Reply | None:
        """Find what is recorded for a question; `image` is the one image that it shows, if it is one.

        Args: as `question_key`.
        """
        answer = self._answers.get(question_key(messages, sample, choices))
        if answer is None and template == DESCRIBE and image is not None and image.resolve() in self._texts:
            return _reply(self._texts[image.resolve()], self.file)
        return answer

    def _reason_missing(self, request: Request) -> str:
        what = request.images[0].path.name if request.images else "a question without an image"
        if request.template == DESCRIBE:
            return f"{self.file.name} has no description of {what}"
        if not self._answers:
            return f"{self.file.name} has descriptions only, no answer to {request.template}"
        sample = f", sample {request.sample}" if request.sample else ""
        return f"{self.answers.name} has no answer to {request.template} ({what}{sample})"


def _reply(text: str, file: Path, first: FirstToken | None = None) -> Reply:
    """Make the reply of a recorded answer; its file replaces the address of a server."""
    return Reply(
        text, finish_reason="stop", model_version="recorded", endpoint=file.name, flags=("recorded",), first_token=first
    )
