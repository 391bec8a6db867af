"""Models of this machine through vLLM, in this process: continuous batching for a whole run at once.

If vLLM runs as a server instead, use `openai/MODEL --base-url http://HOST:8000/v1`; nothing of this file is needed.

Tried with vLLM 0.32 on a processor and a tiny random Qwen2.5-VL: descriptions and constrained JSON, in process and from
its server (the same descriptions); on one machine with other programs `gpu_memory_utilization` must be set (0.92 there).
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from titjudge.core.answer_probabilities import TOP, FirstToken
from titjudge.core.errors import ConfigError, DataError, MissingExtra, Unanswered, UserError
from titjudge.core.serialization import request_key
from titjudge.core.types import ImageFile, Json, Message, ProviderSettings, Reply, Request, Status, Usage
from titjudge.providers.base import SAMPLING_PARAMETERS
from titjudge.providers.json_schema import instruction
from titjudge.providers.local.base import (
    LocalChatModel,
    Outcomes,
    RowError,
    halve_on_failure,
    make_reply,
    max_tokens,
    split_thought,
)
from titjudge.providers.local.hub import message_of

SAMPLING = tuple("temperature top_p top_k min_p repetition_penalty frequency_penalty presence_penalty".split())
_OURS = frozenset({"batch_size", "chat_template", "enable_thinking", "revision"})
_SAME_ANSWERS = frozenset(  # options of the engine that change how fast it is, not its answers
    (
        "batch_size cpu_offload_gb disable_log_stats download_dir enable_chunked_prefill "
        "enable_prefix_caching gpu_memory_utilization limit_mm_per_prompt max_num_batched_tokens max_num_seqs "
        "pipeline_parallel_size revision swap_space tensor_parallel_size"
    ).split()
)


class _Prepared(NamedTuple):
    """A request as `LLM.chat` takes it: its place among the requests, conversation, sampling and template arguments."""

    position: int
    turns: list[Json]
    sampling: Any
    template: Json


class VLLM(LocalChatModel[Any]):
    """One model in vLLM's `LLM`, loaded when the first request comes, in the thread that generates.

    Args:
        settings: `model` is a name on the hub or a folder. `options`: `enable_thinking` and `chat_template` (given to the
            chat template), `batch_size` (maximum number of requests handed over at once; 1024), `revision`; everything
            else is an argument of vLLM's engine (dtype, quantization, max_model_len, tensor_parallel_size, ...).
            `structured` prompt puts the schema into the prompt only; auto and native also constrain the answer to it.

    Sampling parameters that are not set are the model's own (generation_config). A sampled answer depends on the
    request, `seed` and the sample number.

    Raises:
        MissingExtra: VLLM is not installed. ConfigError: no model name, or an address.
    """

    name = "vllm"
    version = 2  # 1 did not hand chat_template_kwargs on
    omitted = SAMPLING_PARAMETERS - {*SAMPLING, "max_tokens", "seed", "stop", "squash"}

    def __init__(self, settings: ProviderSettings) -> None:
        if settings.base_url:
            raise ConfigError(
                f"vllm/ cannot be combined with a server. Write openai/{settings.model} --base-url {settings.base_url}"
            )
        super().__init__(settings, max_batch=int(settings.options.get("batch_size", 1024)))
        if not _installed():
            served = f"openai/{settings.model} --base-url http://HOST:8000/v1"
            raise MissingExtra("vllm", "vllm", f"vllm/{settings.model} in this process (or, from a server, {served})")
        self._defaults: Json = {}

    @cached_property
    def base_url(self) -> str:
        """The identity of the weights and the arithmetic; part of the cache key as an address is of a hosted model."""
        parts = [f"{name}={value}" for name, value in sorted(self._options.items()) if name not in _SAME_ANSWERS]
        parts += [] if self._constrains else ["structured=prompt"]
        return "vllm:" + ",".join([self._weights, *parts, f"vllm={_version()}"])

    @property
    def _constrains(self) -> bool:
        """Whether answers are constrained to the schema of a request."""
        return self.settings.structured != "prompt"

    @property
    def _max_logprobs(self) -> int:
        """How many of the likeliest tokens the engine reports; -1 is all of them."""
        return int(self._options.get("max_logprobs", TOP))

    def _run(self, requests: list[Request]) -> Outcomes:
        llm = self._loaded()
        results: Outcomes = [RowError("not generated")] * len(requests)
        groups: dict[str, list[_Prepared]] = {}  # one call has one set of template arguments
        for position, request in enumerate(requests):
            try:
                template = {**(request.params.get("chat_template_kwargs") or {}), **self._thinking}
                prepared = _Prepared(position, conversation(request), self._sampling(request), template)
                groups.setdefault(repr(template), []).append(prepared)
            except DataError as error:
                results[position] = Unanswered(Status.BAD_INPUT, str(error))
            except Exception as error:
                results[position] = RowError(str(error))
        for batch in groups.values():
            outputs = halve_on_failure(batch, lambda part: self._generate(llm, part))  # one too long fails them all
            for prepared, output in zip(batch, outputs, strict=True):
                failed = isinstance(output, Exception)
                results[prepared.position] = RowError(message_of(output)) if failed else self._reply(output)
        return results

    def _generate(self, llm: Any, batch: Sequence[_Prepared]) -> list[Any]:
        arguments: Json = {"use_tqdm": False}
        if batch[0].template:
            arguments["chat_template_kwargs"] = batch[0].template
        if "chat_template" in self._options:
            arguments["chat_template"] = self._options["chat_template"]
        outputs = llm.chat([row.turns for row in batch], [row.sampling for row in batch], **arguments)
        return list(outputs)[-len(batch) :]  # older versions first finish what a failed call left behind

    def _sampling(self, request: Request) -> Any:
        from vllm.sampling_params import SamplingParams, StructuredOutputsParams

        params = dict(self._defaults)
        params |= {name: request.params[name] for name in (*SAMPLING, "stop") if name in request.params}
        params["max_tokens"] = max_tokens(request)
        if request.choices:
            params |= {"max_tokens": 1, "logprobs": self._max_logprobs}
        if params.get("temperature", 1.0) > 0:
            params["seed"] = int.from_bytes(hashlib.sha256(request_key(request).encode()).digest()[:4], "big") >> 1
        if request.schema is not None and self._constrains:
            params["structured_outputs"] = StructuredOutputsParams(json=dict(request.schema))
        return SamplingParams(**params)

    def _load(self) -> Any:
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")  # nothing is reported to anybody
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        from vllm import LLM

        arguments = {name: value for name, value in self._options.items() if name not in _OURS}
        if self._revision:
            arguments["revision"] = self._revision
        if self._reads_images:
            arguments.setdefault("limit_mm_per_prompt", {"image": 4})
        try:
            llm = LLM(model=self.model, **arguments)
            defaults = llm.get_default_sampling_params()
        except Exception as error:
            raise UserError(
                f"vLLM cannot load '{self.model}': {message_of(error)}. Check its name and options"
            ) from error
        self._defaults = {name: value for name in SAMPLING if (value := getattr(defaults, name, None)) is not None}
        return llm

    def _reply(self, output: Any) -> Reply:
        """Make the reply of an output of vLLM."""
        generated = output.outputs[0]
        usage = Usage(
            input=len(output.prompt_token_ids or ()),
            output=len(generated.token_ids),
            cached_input=getattr(output, "num_cached_tokens", None) or 0,
        )
        logprobs = getattr(generated, "logprobs", None)
        return make_reply(
            *split_thought(generated.text),
            usage,
            str(generated.finish_reason or ""),
            model_version=f"{self._weights[:12]} {self._options.get('dtype', 'auto')}",
            endpoint=f"vllm {_version()}",
            first_token=_first_token(logprobs[0], generated.token_ids[0], self._max_logprobs) if logprobs else None,
        )

    async def aclose(self) -> None:
        llm = self._loaded.model
        await super().aclose()
        core = getattr(getattr(llm, "llm_engine", None), "engine_core", None)
        for holder in (llm, core):  # 0.32 ends its processes through the core; left to the interpreter, they are killed
            shutdown = getattr(holder, "shutdown", None)
            if shutdown is not None:
                shutdown()
                return


def _first_token(logprobs: Mapping[int, Any], drawn_token: int, most: int) -> FirstToken | None:
    """Read the log probabilities of the `most` likeliest tokens (-1: of all) and of the one drawn, which may come behind them."""
    pairs = {ident: (str(token.decoded_token), float(token.logprob)) for ident, token in logprobs.items()}
    chosen = pairs.pop(drawn_token) if 0 <= most < len(pairs) else pairs[drawn_token]
    return FirstToken.from_top(list(pairs.values()), chosen)


def conversation(request: Request) -> list[Json]:
    """Write a request as `LLM.chat` takes it, images as data URLs; the prompt also states the schema, if any.

    Raises:
        DataError: An image changed or went away.
    """
    turns = [{"role": message.role, "content": _content(message)} for message in request.messages]
    if request.schema is not None:
        position = max((n for n, turn in enumerate(turns) if turn["role"] == "user"), default=len(turns) - 1)
        words = instruction(request.schema)
        content = turns[position]["content"]
        if isinstance(content, str):
            turns[position]["content"] = f"{content}\n\n{words}"
        else:
            turns[position]["content"] = [*content, {"type": "text", "text": words}]
    return turns


def _content(message: Message) -> Any:
    """Write parts in their order; plain text if there is no image, which every chat template takes."""
    if not any(isinstance(part, ImageFile) for part in message.parts):
        return message.text
    return [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {
            "type": "image_url",
            "image_url": {"url": f"data:{part.media_type};base64,{b64encode(part.load()).decode()}"},
        }
        for part in message.parts
    ]


def _installed() -> bool:
    return "vllm" in sys.modules or importlib.util.find_spec("vllm") is not None


def _version() -> str:
    try:
        return version("vllm")
    except PackageNotFoundError:
        return str(getattr(sys.modules.get("vllm"), "__version__", ""))


__all__ = ["VLLM"]
