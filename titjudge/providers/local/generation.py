"""Generate for many requests at once: grouped by their sampling parameters, sorted by length, bounded in memory.

A row's tokens do not depend on the other rows of its batch: rows are left-padded, end separately, and each sampled row
has a separate generator of random numbers. Imported in the worker thread only.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from titjudge.core.answer_probabilities import LEAST, FirstToken
from titjudge.core.errors import UserError
from titjudge.core.types import ImageFile, Json, Reply, Request, Usage, Values
from titjudge.providers.json_schema import IN_PROMPT, add_instruction
from titjudge.providers.local import hub
from titjudge.providers.local.base import (
    Outcomes,
    RowError,
    decoded,
    halve_on_failure,
    make_reply,
    max_tokens,
    not_a_number,
    split_thought,
)
from titjudge.providers.local.loading import LoadedModel

SAMPLING = tuple("temperature top_p top_k min_p repetition_penalty".split())
_SHAPING = tuple("temperature top_h top_k top_p min_p typical_p epsilon_cutoff eta_cutoff".split())


@dataclass(frozen=True, slots=True)
class GenerationPlan:
    """A request made ready.

    Attributes:
        position: Its place among the requests.
        request: The request.
        turns: Its conversation, as the chat template takes it.
        images: Its images.
        tokens: Estimate of its input: text by its bytes, images as the processor counts.
        limit: Maximum number of tokens of the answer.
    """

    position: int
    request: Request
    turns: list[Json]
    images: tuple[ImageFile, ...]
    tokens: int
    limit: int


def run(
    loaded: LoadedModel,
    requests: Sequence[Request],
    *,
    rows: int,
    tokens: int,
    template: Values,
    stopping: Callable[[], bool] = lambda: False,
) -> Outcomes:
    """Return a reply or an exception for each request.

    Args:
        loaded: The model.
        requests: The requests.
        rows: Maximum number of requests in a batch.
        tokens: Padded tokens of a batch, answers included, at most (one request may have more).
        template: Arguments of the chat template, which take precedence over the arguments of a request.
        stopping: Asked at every token; True ends generation.
    """
    results: Outcomes = [RowError("not generated")] * len(requests)
    plans = []
    for position, request in enumerate(requests):
        try:
            plans.append(plan(loaded, position, request))
        except Exception as error:
            results[position] = error
    for batch in batches(plans, rows, tokens):
        answers = halve_on_failure(
            batch, lambda part: _generate(loaded, part, template, stopping), may_halve=_may_halve
        )
        for row, answer in zip(batch, answers, strict=True):
            if isinstance(answer, Exception) and hub.is_out_of_memory(answer):
                answer = RowError(
                    "out of memory on a single request; set the option processor to a smaller size, or a smaller max_tokens"
                )
            results[row.position] = answer
    return results


def _may_halve(error: Exception) -> bool:
    """Return True if smaller batches may pass after a batch failed; frees the memory that they will need."""
    import gc

    import torch

    if isinstance(error, UserError) and not hub.is_out_of_memory(error):
        return False
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return True


# -- planning ----------------------------------------------------------------------------------------------------------


def plan(loaded: LoadedModel, position: int, request: Request) -> GenerationPlan:
    """Prepare a request: its conversation as chat templates take it, and its length.

    Raises:
        RowError: It has images and the model reads none.
    """
    images = tuple(request.images)
    if images and not loaded.images:
        raise RowError("this model cannot read images")
    turns = [{"role": message.role, "content": _content(message.parts, loaded.images)} for message in request.messages]
    if request.schema is not None:
        add_instruction(turns, request.schema)
    text = sum(len(part.encode()) for message in request.messages for part in message.parts if isinstance(part, str))
    length = text // 4 + _image_tokens(loaded, images)
    return GenerationPlan(position, request, turns, images, length, max_tokens(request))


def _content(parts: Sequence[Any], images: bool) -> Any:
    """Parts in their order; plain text if the model's template knows no parts."""
    if not images:
        return "\n".join(part for part in parts if isinstance(part, str))
    return [
        {"type": "text", "text": part} if isinstance(part, str) else {"type": "image", "file": part} for part in parts
    ]


def _image_tokens(loaded: LoadedModel, images: Sequence[ImageFile]) -> int:
    if not images:
        return 0
    try:
        sizes = [(image.height, image.width) for image in images]
        return int(sum(loaded.processor._get_num_multimodal_tokens(image_sizes=sizes)["num_image_tokens"]))
    except Exception:  # the processor cannot count them: patches of 28 pixels are near enough for planning
        return sum(image.width * image.height // 784 for image in images)


def batches(plans: Sequence[GenerationPlan], rows: int, tokens: int) -> list[list[GenerationPlan]]:
    """Group plans that can be generated together, the longest first, at most `rows` rows and `tokens` padded tokens."""
    groups: dict[Any, list[GenerationPlan]] = {}
    for row in plans:
        params = sorted((name, repr(value)) for name, value in row.request.params.items())
        groups.setdefault((tuple(params), len(row.images), row.request.choices), []).append(row)
    result: list[list[GenerationPlan]] = []
    for group in groups.values():
        batch: list[GenerationPlan] = []
        for row in sorted(group, key=lambda p: (-p.tokens, p.position)):
            longest = batch[0].tokens + batch[0].limit if batch else 0
            if batch and (len(batch) >= rows or (len(batch) + 1) * longest > tokens):
                result.append(batch)
                batch = []
            batch.append(row)
        result.append(batch)
    return result


# -- one batch ---------------------------------------------------------------------------------------------------------


def _generate(
    loaded: LoadedModel, batch: Sequence[GenerationPlan], template: Values, stopping: Callable[[], bool]
) -> Outcomes:
    """Generate the answers of one batch, in its order; a row whose scores were not numbers gets an error.

    Raises:
        RowError: The batch is longer than the model reads.
        UserError: The model was closed meanwhile.
    """
    import torch

    kwargs = batch[0].request.params.get("chat_template_kwargs") or {}
    inputs, in_thought = _inputs(loaded, batch, {**kwargs, **template})
    width = int(inputs["input_ids"].shape[1])
    choices = batch[0].request.choices
    limit = min(1 if choices else batch[0].limit, loaded.positions - width)
    if limit <= 0:
        raise RowError(f"the request has {width} tokens and the model reads {loaded.positions}")
    nan_rows = _NanRows(len(batch), loaded.model.device)
    config, noise = _sampling(loaded, batch, limit)
    arguments: Json = {"logits_processor": [nan_rows, *noise], "stopping_criteria": [_stop(stopping)]}
    if config.stop_strings:
        arguments["tokenizer"] = loaded.tokenizer
    if choices:  # as the model computes them, before repetition penalty and temperature
        arguments |= {"output_logits": True, "return_dict_in_generate": True}
    with torch.inference_mode():
        output = loaded.model.generate(**inputs.to(loaded.model.device), generation_config=config, **arguments)
    if stopping():
        raise UserError("the model was closed before it answered. Run the command again")
    firsts = _first_tokens(loaded, output.logits[0], choices, in_thought) if choices else [None] * len(batch)
    tokens = (output.sequences if choices else output)[:, width:].tolist()
    read = inputs["attention_mask"].sum(dim=1).tolist()
    images = [0] * len(batch)
    if loaded.image_token is not None:
        images = (inputs["input_ids"] == loaded.image_token).sum(dim=1).tolist()
    nan = nan_rows.is_nan.tolist()
    return [
        RowError(f"the model computed not-a-number in {loaded.dtype}; {not_a_number(loaded.dtype)}")
        if nan[n]
        else replace(
            _reply(loaded, row.request, tokens[n], Usage(input=read[n], image=images[n]), in_thought[n]),
            first_token=firsts[n],
        )
        for n, row in enumerate(batch)
    ]


def _first_tokens(
    loaded: LoadedModel, logits: Any, choices: Sequence[str], in_thought: Sequence[bool]
) -> list[FirstToken | None]:
    """Read the probabilities of the choices that are tokens of the model; None for a row whose answer begins with a thought."""
    ids: dict[int, str] = {}
    for text in choices:
        encoded = loaded.tokenizer(text, add_special_tokens=False)["input_ids"]
        if len(encoded) == 1:  # two spellings may be one token
            ids.setdefault(encoded[0], text)
    logprobs = logits.float().log_softmax(dim=-1)[:, list(ids)].clamp(min=LEAST).tolist()
    starts = loaded.tokenizer.batch_decode(logits.argmax(dim=-1)[:, None])
    return [
        None
        if thinks or start.lstrip().startswith("<think")
        else FirstToken(tuple(zip(ids.values(), row, strict=True)))
        for row, start, thinks in zip(logprobs, starts, in_thought, strict=True)
    ]


def _inputs(loaded: LoadedModel, batch: Sequence[GenerationPlan], template: Values) -> tuple[Any, list[bool]]:
    """Tokenize and pad a batch, and find for each row whether its prompt ends inside a thought."""
    conversations = [[{**turn, "content": _with_pixels(turn["content"])} for turn in row.turns] for row in batch]
    arguments: Json = {"padding": True}
    if loaded.images:
        arguments = {"processor_kwargs": {"padding": True, "padding_side": "left"}}
    if _holds_control_tokens(loaded, batch):  # a prompt that spells out <|im_end|> is data
        arguments["sanitize_control_tokens"] = True
    arguments |= {"add_generation_prompt": True, **template}
    inputs = loaded.processor.apply_chat_template(
        conversations, tokenize=True, return_dict=True, return_tensors="pt", **arguments
    )
    ends = loaded.tokenizer.batch_decode(inputs["input_ids"][:, -8:])
    return inputs, [end.rstrip().endswith("<think>") for end in ends]


def _holds_control_tokens(loaded: LoadedModel, batch: Sequence[GenerationPlan]) -> bool:
    """Whether a prompt spells out a control token of the model, such as <|im_end|>."""
    special = [
        token.content for token in loaded.tokenizer.added_tokens_decoder.values() if len(token.content.strip()) > 1
    ]
    return any(
        token in part
        for row in batch
        for message in row.request.messages
        for part in message.parts
        if isinstance(part, str)
        for token in special
    )


def _with_pixels(content: Any) -> Any:
    if isinstance(content, str):
        return content
    return [
        {"type": "image", "image": decoded(part["file"], on_white=True)} if "file" in part else part for part in content
    ]


def _sampling(loaded: LoadedModel, batch: Sequence[GenerationPlan], limit: int) -> tuple[Any, list[Any]]:
    """Make the generation config, and the logits processor that samples.

    The model's own config applies if the request sets nothing; temperature 0 is greedy.
    """
    params = batch[0].request.params
    config = copy.deepcopy(loaded.model.generation_config)
    config.max_new_tokens, config.max_length, config.num_return_sequences = limit, None, 1
    config.pad_token_id, config.eos_token_id = loaded.pad, sorted(loaded.eos) or None
    config.stop_strings = _stops(batch[0].request) or None
    sampling = {name: params[name] for name in SAMPLING if params.get(name) is not None}
    if sampling:
        config.do_sample = sampling.get("temperature", 1.0) > 0
        for name, value in sampling.items():
            setattr(config, name, value)
        if config.top_k is None:
            config.top_k = 0  # transformers would otherwise take 50
    warpers = _warpers(config, loaded.model.device) if config.do_sample else []
    for name in _SHAPING:
        setattr(config, name, None)
    if not config.do_sample:
        return config, []
    config.temperature, config.top_p, config.top_k = 1.0, 1.0, 0
    return config, [_RowSampler([_seed(row.request) for row in batch], loaded.model.device, warpers)]


def _warpers(config: Any, device: Any) -> list[Any]:
    """List the logits warpers that `config` stands for, in transformers' order."""
    from transformers.generation import logits_process as logits_process

    top_k = 50 if config.top_k is None else config.top_k  # transformers' own default
    steps: list[Any] = []
    if config.temperature not in (None, 1.0):
        steps.append(logits_process.TemperatureLogitsWarper(float(config.temperature)))
    if config.top_h is not None:
        steps.append(logits_process.TopHLogitsWarper(config.top_h))
    if top_k > 0:
        steps.append(logits_process.TopKLogitsWarper(top_k))
    if config.top_p is not None and config.top_p < 1:
        steps.append(logits_process.TopPLogitsWarper(config.top_p))
    if config.min_p is not None:
        steps.append(logits_process.MinPLogitsWarper(config.min_p))
    if config.typical_p is not None and config.typical_p < 1:
        steps.append(logits_process.TypicalLogitsWarper(config.typical_p))
    if config.epsilon_cutoff:
        steps.append(logits_process.EpsilonLogitsWarper(config.epsilon_cutoff))
    if config.eta_cutoff:
        steps.append(logits_process.EtaLogitsWarper(config.eta_cutoff, device=device))
    return steps


def _seed(request: Request) -> int:
    """Derive a number for the request's own draws: the same question, seed and sample give the same answer."""
    digest = hashlib.sha256(f"{request.params.get('seed', 0)}\0{request.sample}\0{request.attempt}".encode())
    for message in request.messages:
        for part in message.parts:
            digest.update((part if isinstance(part, str) else part.sha256).encode())
    return int.from_bytes(digest.digest()[:7], "big")


class _RowSampler:
    """Samples each row with a separate generator (Gumbel-max), so that the others of its batch do not matter.

    It leaves one token a row. transformers would apply temperature, top_k, top_p and the like after it, to a token that is
    drawn already, so these warpers are applied here.
    """

    def __init__(self, seeds: Sequence[int], device: Any, warpers: Sequence[Any]) -> None:
        import torch

        self._generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        self._warpers = warpers

    def __call__(self, ids: Any, scores: Any) -> Any:
        import torch

        for warp in self._warpers:
            scores = warp(ids, scores)
        size = scores.shape[1]
        noise = torch.stack([torch.rand(size, generator=g, device=g.device) for g in self._generators])
        gumbel = -torch.log(-torch.log(noise.clamp(1e-20, 1 - 1e-7)))
        chosen = (scores.float() + gumbel.to(scores.device)).argmax(dim=1, keepdim=True)
        return torch.full_like(scores, float("-inf")).scatter_(1, chosen, 0.0)


class _NanRows:
    """Remembers the rows whose scores were not numbers (`is_nan`), and replaces these scores by 0."""

    def __init__(self, rows: int, device: Any) -> None:
        import torch

        self.is_nan = torch.zeros(rows, dtype=torch.bool, device=device)

    def __call__(self, ids: Any, scores: Any) -> Any:
        import torch

        nan = torch.isnan(scores).any(dim=1).to(self.is_nan.device)
        if not nan.any():
            return scores
        self.is_nan |= nan
        return torch.nan_to_num(scores, nan=0.0, posinf=float("inf"), neginf=float("-inf"))


def _stop(stopping: Callable[[], bool]) -> Any:
    import torch
    from transformers import StoppingCriteria

    class Closing(StoppingCriteria):  # type: ignore[misc]
        def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
            return torch.full((input_ids.shape[0],), stopping(), dtype=torch.bool, device=input_ids.device)

    return Closing()


def _reply(loaded: LoadedModel, request: Request, tokens: list[int], prompt: Usage, in_thought: bool) -> Reply:
    """Make the reply of a row of generated tokens; `prompt` is the usage of the input."""
    end = next((n for n, token in enumerate(tokens) if token in loaded.eos), None)
    written = len(tokens) if end is None else end + 1
    text = loaded.tokenizer.decode(tokens[:written], skip_special_tokens=True)
    finish = "stop" if end is not None else "length"
    if end is None and (cuts := [position for stop in _stops(request) if (position := text.find(stop)) >= 0]):
        text, finish = text[: min(cuts)], "stop"
        written = _count(loaded, text)
    thought, answer = split_thought(text, in_thought)
    usage = replace(prompt, output=written, thinking=min(_count(loaded, thought), written))
    flags = (IN_PROMPT,) if request.schema is not None else ()
    return make_reply(thought, answer, usage, finish, flags)


def _stops(request: Request) -> list[str]:
    """List the texts at which an answer ends."""
    stop = request.params.get("stop") or ()
    return [stop] if isinstance(stop, str) else list(stop)


def _count(loaded: LoadedModel, text: str) -> int:
    return len(loaded.tokenizer(text, add_special_tokens=False)["input_ids"]) if text else 0
