"""What models in this process have in common, whichever library generates: named early, asked in batches, failing alike."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

from titjudge.core.errors import ConfigError, UserError
from titjudge.core.types import Failure, FailureKind, ProviderSettings, Reply, Request, Usage
from titjudge.providers.base import Provider
from titjudge.providers.image_size import fitted
from titjudge.providers.local import hub
from titjudge.providers.local.load_once import LoadOnce
from titjudge.providers.local.microbatch import MicroBatcher
from titjudge.providers.token_counts import input_bound

M = TypeVar("M")
_ANSWER = 512  # tokens of an answer, where the request does not say


class RowError(Exception):
    """One request cannot be answered; the others of its batch can."""


class InProcess(Provider, Generic[M]):
    """One model of this machine, `M` when loaded: at the first request, in the thread that generates.

    A subclass names itself, loads (`_load`), answers a batch (`_run`) and says what it can (`capabilities`).

    Args:
        settings: `model` is a name on the hub or a folder; `options` may hold `revision` and `trust_remote_code`.
        most: requests that `_run` is given at once.

    Raises:
        ConfigError: no model name.
    """

    def __init__(self, settings: ProviderSettings, *, most: int) -> None:
        if not settings.model:
            raise ConfigError(f"name the model: {self.name}/MODEL, a name on the hub or a folder")
        self.settings = settings
        self.model = settings.model
        self.account = f"{self.name}|{settings.model}"
        self._options = dict(settings.options)
        self._revision = str(self._options.get("revision", ""))
        self._ready_model = LoadOnce(self._load)
        self._batcher: MicroBatcher[Request, Reply] = MicroBatcher(self._run, max_batch=most)

    # -- what can be known without loading -----------------------------------------------------------------------------

    @cached_property
    def _place(self) -> tuple[Path, str]:
        """Folder of the small files and the commit they are of; see `hub.folder_of`.

        Raises:
            UserError: no such model, or it wants to run its own code.
        """
        folder, commit = hub.folder_of(self.model, self._revision)
        if hub.has_remote_code(folder) and not self._options.get("trust_remote_code"):
            config = hub.read_json(folder, "config.json")
            if not _known(str(config.get("model_type", ""))):
                raise hub.untrusted(self.model)
        return folder, commit

    @cached_property
    def _sees(self) -> bool:
        """Whether the model reads images, from its config.json."""
        config = hub.read_json(self._place[0], "config.json")
        return any(name in config for name in ("vision_config", "vision_tower", "mm_vision_tower", "perceiver_config"))

    @cached_property
    def _untold(self) -> frozenset[str]:
        """`chat_template_kwargs` where they would change nothing: thinking is settled by an option, or no template asks.

        What is not sent is then not recorded as sent.
        """
        told = str(self._options.get("chat_template") or "") or _templates(self._place[0])
        settled = "enable_thinking" in self._options or "enable_thinking" not in told
        return frozenset({"chat_template_kwargs"}) if settled else frozenset()

    @cached_property
    def _weights(self) -> str:
        """What pins the weights: the commit on the hub, or the hash of the folder's content."""
        pinned = hub.identity_of(self.model, self._revision)
        return pinned.get("revision") or pinned["content"]

    def ready(self) -> None:
        """Find the model now rather than at the first request.

        Raises:
            UserError: there is none, or it wants to run its own code.
        """
        _ = self._place

    def load(self) -> None:
        self._ready_model()

    # -- answering -----------------------------------------------------------------------------------------------------

    async def complete(self, request: Request) -> Reply:
        """Generate one answer, together with the requests that arrive at the same time.

        Raises:
            UserError: the model cannot be loaded. Unanswered: the image cannot be read. RowError: see `classify`.
        """
        return await self._batcher.submit(fitted(request))

    def _run(self, requests: list[Request]) -> Sequence[Reply | Exception]:
        raise NotImplementedError

    def _load(self) -> M:
        raise NotImplementedError

    def classify(self, error: Exception) -> Failure:
        fatal = isinstance(error, UserError | MemoryError)
        said = " ".join(str(error).split())[:400] or type(error).__name__
        return Failure(FailureKind.FATAL if fatal else FailureKind.REJECTED, said)

    def usage_bound(self, request: Request) -> Usage:
        request = fitted(request)
        total, images = input_bound(request, self.name, self.model, request.params)
        return Usage(input=total, output=answer_limit(request), image=images)

    async def aclose(self) -> None:
        self._batcher.close()
        self._ready_model.drop()


def answer_limit(request: Request) -> int:
    """Bound the longest answer to a request, in tokens."""
    return int(request.params.get("max_tokens") or _ANSWER)


def _templates(folder: Path) -> str:
    """Read the chat templates in a model's small files, one after the other."""
    files = [*folder.glob("*.jinja"), *folder.glob("additional_chat_templates/*.jinja")]
    found = [path.read_text(encoding="utf-8", errors="replace") for path in files]
    for name in ("chat_template.json", "tokenizer_config.json", "processor_config.json"):
        held = hub.read_json(folder, name).get("chat_template") or ""
        found += [str(each.get("template", "")) for each in held] if isinstance(held, list) else [str(held)]
    return "\n".join(found)


def _known(model_type: str) -> bool:
    """Whether transformers has this architecture itself (the folder's own code is then not needed, nor run)."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return model_type in CONFIG_MAPPING_NAMES
