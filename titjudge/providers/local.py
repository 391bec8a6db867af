"""Vision-language and language models on this machine, through transformers' Auto classes and the models' own templates.

Qwen2.5-VL, Qwen3-VL, InternVL, Gemma 3, SmolVLM, LLaVA and whatever else `AutoModelForImageTextToText` or
`AutoModelForCausalLM` knows. Requests that arrive together are generated for together; a metric never knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from titjudge import hub
from titjudge.batching import MicroBatcher
from titjudge.errors import ConfigError, UserError
from titjudge.providers import Capabilities, ProviderSettings
from titjudge.providers.tokens import input_bound
from titjudge.types import Failure, FailureKind, Reply, Request, Usage

if TYPE_CHECKING:
    from titjudge.providers.local_load import Loaded

OPTIONS = frozenset(
    {
        "attention",
        "batch_size",
        "batch_tokens",
        "device",
        "device_map",
        "dtype",
        "enable_thinking",
        "processor",
        "revision",
        "trust_remote_code",
    }
)
OMITTED = frozenset(
    {
        "detail",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "media_resolution",
        "presence_penalty",
        "reasoning_effort",
        "thinking_budget",
        "thinking_level",
        "top_logprobs",
    }
)
_CHANGE_ANSWERS = ("attention", "enable_thinking", "processor")


class Local:
    """One model of this machine, loaded when the first request comes, in the thread that generates.

    Args:
        settings: `model` is a name on the hub or a folder. `options`: `dtype` (auto: the checkpoint's own), `device` (cuda
            where there is one), `device_map` (auto spreads a large model; needs accelerate), `attention`, `revision`,
            `processor` (arguments of the model's processor, for example {size: {shortest_edge: 3136, longest_edge: 1003520}}), `enable_thinking`
            (given to the chat template), `batch_size` (rows; 16), `batch_tokens` (padded tokens of a batch, answers
            included; 65536), `trust_remote_code` (false).

    Without any sampling parameter the model's own generation_config applies; at temperature 0 it is greedy. A sampled
    answer depends on the request, `seed` and the sample number alone, not on what else is asked at the time.

    Raises:
        ConfigError: an unknown option or no model name.
    """

    name = "local"
    version = 1

    def __init__(self, settings: ProviderSettings) -> None:
        unknown = sorted(set(settings.options) - OPTIONS)
        if unknown:
            raise ConfigError(f"unknown option of local models '{unknown[0]}'. Known: {', '.join(sorted(OPTIONS))}")
        if not settings.model:
            raise ConfigError("name the model: local/MODEL, a name on the hub or a folder")
        self.settings = settings
        self.model = settings.model
        self.account = f"local|{settings.model}"
        self._options = dict(settings.options)
        self._loaded: Loaded | None = None
        self._broken: UserError | None = None
        self._closing = False
        self._rows = int(self._options.get("batch_size", 16))
        self._tokens = int(self._options.get("batch_tokens", 65_536))
        self._batcher: MicroBatcher[Request, Reply] = MicroBatcher(self._run, max_batch=4 * self._rows)

    # -- what can be known without loading -----------------------------------------------------------------------------

    @cached_property
    def _place(self) -> tuple[Any, str]:
        folder, commit = hub.folder_of(self.model, str(self._options.get("revision", "")))
        if hub.has_remote_code(folder) and not self._options.get("trust_remote_code"):
            config = hub.read_json(folder, "config.json")
            if not _known(str(config.get("model_type", ""))):
                raise UserError(
                    f"model '{self.model}' wants to run its own code; set the option trust_remote_code: true if you trust it"
                )
        return folder, commit

    @cached_property
    def capabilities(self) -> Capabilities:
        """Whether it reads pictures, from its config.json.

        Raises:
            UserError: no such model, or it wants to run its own code.
        """
        config = hub.read_json(self._place[0], "config.json")
        sees = any(name in config for name in ("vision_config", "vision_tower", "mm_vision_tower", "perceiver_config"))
        return Capabilities(images=sees, schema=False, omit=OMITTED, local=True)

    @cached_property
    def base_url(self) -> str:
        """What pins the weights and the arithmetic; part of the cache key as an address is of a hosted model."""
        pinned = hub.identity_of(self.model, str(self._options.get("revision", "")))
        words = [pinned.get("revision") or pinned["content"], str(self._options.get("dtype", "auto"))]
        words += [f"{name}={self._options[name]}" for name in _CHANGE_ANSWERS if name in self._options]
        return "local:" + ",".join([*words, f"transformers={version('transformers')}"])

    def ready(self) -> None:
        """Find the model now rather than at the first request.

        Raises:
            UserError: there is none.
        """
        _ = self.capabilities

    # -- answering -----------------------------------------------------------------------------------------------------

    async def complete(self, request: Request) -> Reply:
        """Generate one answer, together with the requests that arrive at the same time.

        Raises:
            UserError: the model cannot be loaded. Unanswered: the picture cannot be read. RowError: see `classify`.
        """
        return await self._batcher.submit(request)

    def _run(self, requests: list[Request]) -> list[Reply | Exception]:
        from titjudge.providers import local_generate

        loaded = self._ready_model()
        thinking: Mapping[str, Any] = {}
        if "enable_thinking" in self._options:
            thinking = {"enable_thinking": bool(self._options["enable_thinking"])}
        answers = local_generate.run(
            loaded,
            requests,
            rows=self._rows,
            tokens=self._tokens,
            template=thinking,
            stopping=lambda: self._closing,
        )
        pinned = hub.identity_of(self.model, str(self._options.get("revision", "")))
        said = f"{(pinned.get('revision') or pinned['content'])[:12]} {loaded.dtype} {loaded.attention} pil".replace(
            "  ", " "
        )
        endpoint = f"local {loaded.device}"
        return [
            answer.with_(model_version=said, endpoint=endpoint) if isinstance(answer, Reply) else answer
            for answer in answers
        ]

    def _ready_model(self) -> Loaded:
        if self._broken is not None:
            raise self._broken
        if self._loaded is None:
            from titjudge.providers import local_load

            try:
                folder, commit = self._place
                self._loaded = local_load.load(self.model, folder, commit, self._options)
            except UserError as error:
                self._broken = error
                raise
        return self._loaded

    def classify(self, error: Exception) -> Failure:
        fatal = isinstance(error, UserError | MemoryError)
        said = " ".join(str(error).split())[:400] or type(error).__name__
        return Failure(FailureKind.FATAL if fatal else FailureKind.REJECTED, said)

    def usage_bound(self, request: Request) -> Usage:
        total, images = input_bound(request, self.name, self.model, request.params)
        return Usage(input=total, output=int(request.params.get("max_tokens") or 512), image=images)

    async def aclose(self) -> None:
        self._closing = True
        self._batcher.close()
        self._loaded = None


def _known(model_type: str) -> bool:
    """Whether transformers has this architecture itself (the folder's own code is then not needed, nor run)."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return model_type in CONFIG_MAPPING_NAMES


__all__ = ["Local"]
