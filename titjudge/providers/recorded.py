"""Answers from a file: descriptions that were written before, by a model or a person, replayed as a captioner.

`descriptions.jsonl` has one object a line: `image` (path relative to the file's folder) and `description`; an optional
`instruction` says what was asked.
"""

from __future__ import annotations

from pathlib import Path

from titjudge.errors import Unanswered
from titjudge.jsonl import read_jsonl
from titjudge.providers import Capabilities, ProviderSettings
from titjudge.types import Failure, FailureKind, Reply, Request, Status, Usage

DESCRIBE = "tit/describe"


class Recorded:
    """Replays `descriptions.jsonl`. Settings: `options["file"]` is its path. Costs nothing and is never cached.

    Raises:
        DataError: the file is missing or malformed (when the provider is made).
    """

    name = "recorded"
    version = 1
    base_url = ""
    account = "recorded"
    capabilities = Capabilities(local=True, cache=False)

    def __init__(self, settings: ProviderSettings) -> None:
        self.file = Path(settings.options.get("file", "descriptions.jsonl"))
        self._texts: dict[Path, str] = {}
        for _, record in read_jsonl(self.file, required=("image", "description")):
            self._texts[(self.file.parent / str(record["image"])).resolve()] = str(record["description"])

    async def complete(self, request: Request) -> Reply:
        """The recorded description of the request's picture.

        Raises:
            Unanswered: nothing is recorded for it.
        """
        pictures = request.pictures
        if request.template != DESCRIBE:
            raise Unanswered(
                Status.MISSING, f"{self.file.name} holds descriptions only, no answer to {request.template}"
            )
        text = self._texts.get(pictures[0].path.resolve()) if len(pictures) == 1 else None
        if text is None:
            what = pictures[0].path.name if pictures else "a question without a picture"
            raise Unanswered(Status.MISSING, f"{self.file.name} holds no description of {what}")
        return Reply(text, finish="stop", model_version="recorded", endpoint=self.file.name, flags=("recorded",))

    def classify(self, error: Exception) -> Failure:
        return Failure(FailureKind.REJECTED, str(error))

    def usage_bound(self, request: Request) -> Usage:
        return Usage()

    async def aclose(self) -> None:
        return None
