"""Models of this machine through vLLM, in this process: continuous batching for a whole run at once.

Where vLLM runs as a server instead, use `openai/MODEL --base-url http://HOST:8000/v1`; nothing of this file is needed.

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
from functools import cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from titjudge.core.answer_probabilities import TOP, FirstToken
from titjudge.core.errors import ConfigError, DataError, MissingExtra, Unanswered, UserError
from titjudge.core.keys import request_key
from titjudge.core.types import ImageFile, Message, Reply, Request, Status, Usage
from titjudge.providers import SAMPLING_PARAMETERS, Capabilities, ProviderSettings
from titjudge.providers.json_schema import instruction
from titjudge.providers.local.base import InProcess, RowError, answer_limit
from titjudge.providers.local.microbatch import halve_on_failure

SAMPLING = (
    "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty",
)  # fmt: skip
OMITTED = SAMPLING_PARAMETERS - {*SAMPLING, "max_tokens", "seed", "stop", "squash"}
_OURS = frozenset({"batch_size", "chat_template", "enable_thinking", "revision"})
_SAME_ANSWERS = frozenset(  # options of the engine that change how fast it is, not what it says
    {
        "batch_size", "cpu_offload_gb", "disable_log_stats", "download_dir", "enable_chunked_prefill",
        "enable_prefix_caching", "gpu_memory_utilization", "limit_mm_per_prompt", "max_num_batched_tokens",
        "max_num_seqs", "pipeline_parallel_size", "revision", "swap_space", "tensor_parallel_size",
    }
)  # fmt: skip


class VLLM(InProcess[Any]):
    """One model in vLLM's `LLM`, loaded when the first request comes, in the thread that generates.

    Args:
        settings: `model` is a name on the hub or a folder. `options`: `enable_thinking` and `chat_template` (given to the
            chat template), `batch_size` (most requests handed over at once; 1024), `revision`; everything else is an
            argument of vLLM's engine (dtype, quantization, max_model_len, tensor_parallel_size, ...). `structured`
            prompt puts the schema into the prompt only; auto and native also constrain the answer to it.

    Sampling parameters that are not set are the model's own (generation_config). A sampled answer depends on the
    request, `seed` and the sample number.

    Raises:
        MissingExtra: vLLM is not installed. ConfigError: no model name, or an address.
    """

    name = "vllm"
    version = 2  # 1 did not hand chat_template_kwargs on

    def __init__(self, settings: ProviderSettings) -> None:
        if settings.base_url:
            raise ConfigError(f"a vLLM server is asked with openai/{settings.model} --base-url {settings.base_url}")
        super().__init__(settings, most=int(settings.options.get("batch_size", 1024)))
        if not _installed():
            served = f"openai/{settings.model} --base-url http://HOST:8000/v1"
            raise MissingExtra("vllm", "vllm", f"vllm/{settings.model} in this process (or, from a server, {served})")
        self._defaults: dict[str, Any] = {}

    @cached_property
    def capabilities(self) -> Capabilities:
        """Whether it reads images.

        Raises:
            UserError: no such model, or it wants to run its own code.
        """
        omit = OMITTED | self._untold
        return Capabilities(images=self._sees, schema=self._constrains, omit=omit, local=True, probabilities=True)

    @cached_property
    def base_url(self) -> str:
        """What pins the weights and the arithmetic; part of the cache key as an address is of a hosted model."""
        words = [f"{name}={value}" for name, value in sorted(self._options.items()) if name not in _SAME_ANSWERS]
        words += [] if self._constrains else ["structured=prompt"]
        return "vllm:" + ",".join([self._weights, *words, f"vllm={_version()}"])

    @property
    def _constrains(self) -> bool:
        return self.settings.structured != "prompt"

    @property
    def _told(self) -> int:
        """How many of the likeliest tokens the engine tells; -1 is all of them."""
        return int(self._options.get("max_logprobs", TOP))

    def _run(self, requests: list[Request]) -> list[Reply | Exception]:
        llm = self._ready_model()
        found: list[Reply | Exception] = [RowError("not generated")] * len(requests)
        ready: list[tuple[int, list[dict[str, Any]], Any]] = []
        for at, request in enumerate(requests):
            try:
                ready.append((at, conversation(request), self._sampling(request)))
            except DataError as error:
                found[at] = Unanswered(Status.BAD_INPUT, str(error))
            except Exception as error:
                found[at] = RowError(str(error))
        groups: dict[str, list[tuple[int, list[dict[str, Any]], Any]]] = {}
        for each in ready:  # one call has one set of template arguments
            groups.setdefault(repr(requests[each[0]].params.get("chat_template_kwargs")), []).append(each)
        for batch in groups.values():
            template = requests[batch[0][0]].params.get("chat_template_kwargs") or {}
            outputs = halve_on_failure(batch, partial(self._generate, llm, template))  # one too long fails them all
            for (at, _, _), output in zip(batch, outputs, strict=True):
                found[at] = _row_error(output) if isinstance(output, Exception) else self._reply(output)
        return found

    def _generate(
        self, llm: Any, template: Mapping[str, Any], batch: Sequence[tuple[int, list[dict[str, Any]], Any]]
    ) -> list[Any]:
        arguments: dict[str, Any] = {"use_tqdm": False}
        if "enable_thinking" in self._options:
            template = {**template, "enable_thinking": bool(self._options["enable_thinking"])}
        if template:
            arguments["chat_template_kwargs"] = dict(template)
        if "chat_template" in self._options:
            arguments["chat_template"] = self._options["chat_template"]
        outputs = llm.chat([turns for _, turns, _ in batch], [params for _, _, params in batch], **arguments)
        return list(outputs)[-len(batch) :]  # older versions first finish what a failed call left behind

    def _sampling(self, request: Request) -> Any:
        from vllm import SamplingParams

        sent = dict(self._defaults)
        sent |= {name: request.params[name] for name in (*SAMPLING, "stop") if name in request.params}
        sent["max_tokens"] = answer_limit(request)
        if request.choices:
            sent |= {"max_tokens": 1, "logprobs": self._told}
        if sent.get("temperature", 1.0) > 0:
            sent["seed"] = int.from_bytes(hashlib.sha256(request_key(request).encode()).digest()[:4], "big") >> 1
        if request.schema is not None and self._constrains:
            sent |= constrained(dict(request.schema))
        return SamplingParams(**sent)

    def _load(self) -> Any:
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")  # nothing is reported to anybody
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        from vllm import LLM

        arguments = {name: value for name, value in self._options.items() if name not in _OURS}
        if self._revision:
            arguments["revision"] = self._revision
        if self._sees:
            arguments.setdefault("limit_mm_per_prompt", {"image": 4})
        try:
            llm = LLM(model=self.model, **arguments)
            defaults = llm.get_default_sampling_params()
        except Exception as error:
            said = " ".join(str(error).split())[:400]
            raise UserError(f"vLLM cannot load '{self.model}': {said or type(error).__name__}") from error
        self._defaults = {name: value for name in SAMPLING if (value := getattr(defaults, name, None)) is not None}
        return llm

    def _reply(self, output: Any) -> Reply:
        """Read what came; a thought that the model wrote before its answer is a flag, not part of the answer."""
        from titjudge.providers.local.generation import split_thought

        made = output.outputs[0]
        thought, answer = split_thought(made.text)
        written = len(made.token_ids)
        usage = Usage(
            input=len(output.prompt_token_ids or ()),
            output=written,
            cached_input=getattr(output, "num_cached_tokens", None) or 0,
        )
        status, reason = Status.OK, ""
        if made.finish_reason == "length":
            status, reason = Status.TRUNCATED, f"the answer reached its token limit ({written} tokens)"
        elif not answer:
            status, reason = Status.REFUSED, "the model ended its answer without a word"
        logprobs = getattr(made, "logprobs", None)
        first = _first_token(logprobs[0], made.token_ids[0], self._told) if logprobs else None
        return Reply(
            answer,
            status,
            reason,
            usage,
            finish_reason=str(made.finish_reason or ""),
            model_version=f"{self._weights[:12]} {self._options.get('dtype', 'auto')}",
            endpoint=f"vllm {_version()}",
            flags=(f"thought: {thought}",) if thought else (),
            first_token=first,
        )

    async def aclose(self) -> None:
        llm = self._ready_model.model
        await super().aclose()
        core = getattr(getattr(llm, "llm_engine", None), "engine_core", None)
        for holder in (llm, core):  # 0.32 ends its processes through the core; left to the interpreter, they are killed
            shutdown = getattr(holder, "shutdown", None)
            if shutdown is not None:
                shutdown()
                return


def _first_token(logprobs: Mapping[int, Any], drawn: int, most: int) -> FirstToken | None:
    """Read the likeliest tokens, `most` of them (-1: all), and the one that was drawn, which may stand behind them."""
    pairs = {ident: (str(each.decoded_token), float(each.logprob)) for ident, each in logprobs.items()}
    chosen = pairs.pop(drawn) if 0 <= most < len(pairs) else pairs[drawn]
    return FirstToken.of(list(pairs.values()), chosen)


def conversation(request: Request) -> list[dict[str, Any]]:
    """Write a request as `LLM.chat` takes it, images as data URLs; a schema is also said in words, which the model reads.

    Raises:
        DataError: an image changed or went away.
    """
    turns = [{"role": each.role, "content": _content(each)} for each in request.messages]
    if request.schema is not None:
        at = max((n for n, turn in enumerate(turns) if turn["role"] == "user"), default=len(turns) - 1)
        words = instruction(request.schema)
        content = turns[at]["content"]
        if isinstance(content, str):
            turns[at]["content"] = f"{content}\n\n{words}"
        else:
            turns[at]["content"] = [*content, {"type": "text", "text": words}]
    return turns


def _content(message: Message) -> Any:
    """Parts in their order; plain text where there is no image, which every chat template takes."""
    if not any(isinstance(part, ImageFile) for part in message.parts):
        return message.text
    return [
        {"type": "text", "text": part} if isinstance(part, str) else {"type": "image_url", "image_url": {"url": _url(part)}}
        for part in message.parts
    ]  # fmt: skip


def _url(image: ImageFile) -> str:
    return f"data:{image.media_type};base64,{b64encode(image.load()).decode()}"


def constrained(schema: dict[str, Any]) -> dict[str, Any]:
    """Make the sampling argument that holds an answer to a schema, by whichever name this vLLM has; none where it has none."""
    from vllm import sampling_params

    if hasattr(sampling_params, "StructuredOutputsParams"):
        return {"structured_outputs": sampling_params.StructuredOutputsParams(json=schema)}
    if hasattr(sampling_params, "GuidedDecodingParams"):
        return {"guided_decoding": sampling_params.GuidedDecodingParams(json=schema)}
    return {}


def _installed() -> bool:
    return "vllm" in sys.modules or importlib.util.find_spec("vllm") is not None


def _version() -> str:
    try:
        return version("vllm")
    except PackageNotFoundError:
        return str(getattr(sys.modules.get("vllm"), "__version__", ""))


__all__ = ["VLLM"]


def _row_error(error: Exception) -> RowError:
    return RowError(" ".join(str(error).split()) or type(error).__name__)
