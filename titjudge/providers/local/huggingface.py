"""Vision-language and language models on this machine, through transformers' Auto classes and the models' own templates.

Qwen2.5-VL (MiMo-VL is one), Qwen3-VL, InternVL, Gemma 3 and 3n, SmolVLM, LLaVA and whatever else `AutoModelForImageTextToText` or
`AutoModelForCausalLM` knows. Requests that arrive together are answered in one batch.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING

from titjudge.core.types import ProviderSettings, Reply, Request
from titjudge.providers.base import SAMPLING_PARAMETERS, check_options
from titjudge.providers.local import hub
from titjudge.providers.local.base import LocalChatModel, Outcomes

if TYPE_CHECKING:
    from titjudge.providers.local.loading import LoadedModel

OPTIONS = frozenset(
    (
        "adapter attention batch_size batch_tokens device device_map dtype enable_thinking processor revision "
        "trust_remote_code"
    ).split()
)
_TAKEN = set("max_tokens temperature top_p top_k min_p repetition_penalty seed stop squash".split())
_CHANGE_ANSWERS = ("attention", "enable_thinking", "processor")


class Local(LocalChatModel["LoadedModel"]):
    """One model of this machine, loaded when the first request comes, in the thread that generates.

    Args:
        settings: `model` is a name on the hub or a folder. `options`: `dtype` (auto: the checkpoint's own), `device`
            (cuda, if available), `device_map` (auto spreads a large model; needs accelerate), `attention`, `revision`,
            `processor` (arguments of the model's processor, for example {size: {shortest_edge: 3136, longest_edge:
            1003520}}), `enable_thinking` (given to the chat template), `batch_size` (rows; 16), `batch_tokens` (padded
            tokens of a batch, answers included; 65536), `trust_remote_code` (false), `adapter` (a LoRA adapter that is
            merged into the weights: a folder, or a name on the hub; needs peft).

    Without any sampling parameter the model's own generation_config applies; at temperature 0 it is greedy. A sampled
    answer depends on the request, `seed` and the sample number alone, not on what else is asked at the time.

    Raises:
        ConfigError: An option is unknown, or there is no model name.
    """

    name = "local"
    version = 2  # 1 drew at temperature 1 whatever was asked
    omitted = SAMPLING_PARAMETERS - _TAKEN

    def __init__(self, settings: ProviderSettings) -> None:
        check_options("option of local models", settings.options, OPTIONS)
        self._rows = int(settings.options.get("batch_size", 16))
        self._tokens = int(settings.options.get("batch_tokens", 65_536))
        self._closing = False
        super().__init__(settings, max_batch=4 * self._rows)

    @cached_property
    def base_url(self) -> str:
        """The identity of the weights and the arithmetic; part of the cache key as an address is of a hosted model."""
        parts = [self._weights, str(self._options.get("dtype", "auto"))]
        parts += [f"{name}={self._options[name]}" for name in _CHANGE_ANSWERS if name in self._options]
        if self._options.get("adapter"):
            adapter = hub.identity_of(str(self._options["adapter"]))
            parts.append(f"adapter={adapter.get('revision') or adapter['content']}")
        return "local:" + ",".join([*parts, f"transformers={version('transformers')}"])

    def _run(self, requests: list[Request]) -> Outcomes:
        from titjudge.providers.local import generation

        loaded = self._loaded()
        replies = generation.run(
            loaded,
            requests,
            rows=self._rows,
            tokens=self._tokens,
            template=self._thinking,
            stopping=lambda: self._closing,
        )
        model_version = f"{self._weights[:12]} {loaded.dtype} {loaded.attention} pil".replace("  ", " ")
        endpoint = f"local {loaded.device}"
        return [
            replace(reply, model_version=model_version, endpoint=endpoint) if isinstance(reply, Reply) else reply
            for reply in replies
        ]

    def _load(self) -> LoadedModel:
        from titjudge.providers.local import loading

        folder, commit = self._folder
        return loading.load(self.model, folder, commit, self._options)

    async def aclose(self) -> None:
        self._closing = True
        await super().aclose()


__all__ = ["Local"]
