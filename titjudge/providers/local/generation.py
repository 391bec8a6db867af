"""Generating for many requests at once: grouped by what is asked of the sampler, sorted by length, bounded in memory.

A row's tokens do not depend on its batch mates: rows are left-padded, end on their own, and sampled rows draw from a
generator of their own. Imported in the worker thread only.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from titjudge.core.answer_probabilities import LEAST, FirstToken
from titjudge.core.errors import UserError
from titjudge.core.types import ImageFile, Reply, Request, Status, Usage
from titjudge.providers.json_schema import instruction
from titjudge.providers.local.base import RowError, answer_limit
from titjudge.providers.local.images import decoded
from titjudge.providers.local.loading import Loaded
from titjudge.providers.local.microbatch import halve_on_failure

SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
SHAPING = ("temperature", "top_h", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff")


@dataclass(frozen=True, slots=True)
class Plan:
    """A request made ready: its conversation, and how long it is (`tokens`: text by its bytes, images as counted)."""

    at: int
    request: Request
    turns: list[dict[str, Any]]
    images: tuple[ImageFile, ...]
    tokens: int
    limit: int


def run(
    loaded: Loaded,
    requests: Sequence[Request],
    *,
    rows: int,
    tokens: int,
    template: Mapping[str, Any],
    stopping: Callable[[], bool] = lambda: False,
) -> list[Reply | Exception]:
    """Generate a reply, or find an exception, for each request.

    Args:
        loaded: The model.
        requests: What is asked.
        rows: Requests generated for at once, at most.
        tokens: Padded tokens of a batch, answers included, at most (one request may have more).
        template: Arguments of the chat template, for example `enable_thinking`, beside those of a request.
        stopping: Asked at every token; True ends generation.
    """
    results: list[Reply | Exception] = [RowError("not generated")] * len(requests)
    plans = []
    for at, request in enumerate(requests):
        try:
            plans.append(plan(loaded, at, request))
        except Exception as error:
            results[at] = error
    for batch in batches(plans, rows, tokens):
        answers = halve_on_failure(
            batch, lambda part: _generate(loaded, part, template, stopping), may_halve=_smaller_may_do
        )
        for each, answer in zip(batch, answers, strict=True):
            results[each.at] = _told(answer) if isinstance(answer, Exception) else answer
    return results


def _smaller_may_do(error: Exception) -> bool:
    """Whether a smaller batch may not fail so; frees the memory that it will need."""
    if isinstance(error, UserError) and not _out_of_memory(error):
        return False
    _free()
    return True


def _out_of_memory(error: Exception) -> bool:
    said = str(error).lower()
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "out of memory" in said
        or "can't allocate memory" in said
    )


def _told(error: Exception) -> Exception:
    if _out_of_memory(error):
        return RowError(
            "out of memory on a single request; set the option processor to a smaller size, or a smaller max_tokens"
        )
    return error


def _free() -> None:
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


# -- planning ----------------------------------------------------------------------------------------------------------


def plan(loaded: Loaded, at: int, request: Request) -> Plan:
    """Encode the conversation of a request, parts in their order, and its length.

    Raises:
        RowError: images for a model that reads none.
    """
    images = tuple(request.images)
    if images and not loaded.images:
        raise RowError("this model reads no images")
    turns = [{"role": each.role, "content": _content(each.parts, loaded.images)} for each in request.messages]
    if request.schema is not None:
        turns = _with_instruction(turns, instruction(request.schema))
    text = sum(len(part.encode()) for each in request.messages for part in each.parts if isinstance(part, str))
    length = text // 4 + _image_tokens(loaded, images)
    return Plan(at, request, turns, images, length, answer_limit(request))


def _content(parts: Sequence[Any], images: bool) -> Any:
    """Parts in their order; plain text where the model's template knows no parts."""
    if not images:
        return "\n".join(part for part in parts if isinstance(part, str))
    return [
        {"type": "text", "text": part} if isinstance(part, str) else {"type": "image", "picture": part}
        for part in parts
    ]


def _with_instruction(turns: list[dict[str, Any]], words: str) -> list[dict[str, Any]]:
    at = max((n for n, turn in enumerate(turns) if turn["role"] == "user"), default=len(turns) - 1)
    content = turns[at]["content"]
    if isinstance(content, str):
        content = f"{content}\n\n{words}"
    elif content and content[-1]["type"] == "text":
        content = [*content[:-1], {"type": "text", "text": f"{content[-1]['text']}\n\n{words}"}]
    else:
        content = [*content, {"type": "text", "text": words}]
    return [*turns[:at], {**turns[at], "content": content}, *turns[at + 1 :]]


def _image_tokens(loaded: Loaded, images: Sequence[ImageFile]) -> int:
    if not images:
        return 0
    try:
        sizes = [(each.height, each.width) for each in images]
        return int(sum(loaded.processor._get_num_multimodal_tokens(image_sizes=sizes)["num_image_tokens"]))
    except Exception:  # a processor that does not say: patches of 28 pixels are near enough for planning
        return sum(each.width * each.height // 784 for each in images)


def batches(plans: Sequence[Plan], rows: int, tokens: int) -> list[list[Plan]]:
    """Plans that can be generated together, the longest first, at most `rows` rows and `tokens` padded tokens."""
    groups: dict[Any, list[Plan]] = {}
    for each in plans:
        params = sorted((name, repr(value)) for name, value in each.request.params.items())
        groups.setdefault((tuple(params), len(each.images), each.request.choices), []).append(each)
    made: list[list[Plan]] = []
    for group in groups.values():
        batch: list[Plan] = []
        for each in sorted(group, key=lambda p: (-p.tokens, p.at)):
            longest = batch[0].tokens + batch[0].limit if batch else 0
            if batch and (len(batch) >= rows or (len(batch) + 1) * longest > tokens):
                made.append(batch)
                batch = []
            batch.append(each)
        made.append(batch)
    return made


# -- one batch ---------------------------------------------------------------------------------------------------------


def _generate(
    loaded: Loaded, batch: Sequence[Plan], template: Mapping[str, Any], stopping: Callable[[], bool]
) -> list[Reply | Exception]:
    import torch

    asked = batch[0].request.params.get("chat_template_kwargs") or {}
    inputs, opened = _inputs(loaded, batch, {**asked, **template})
    width = int(inputs["input_ids"].shape[1])
    choices = batch[0].request.choices
    room = min(1 if choices else batch[0].limit, loaded.positions - width)
    if room <= 0:
        raise RowError(f"the request has {width} tokens and the model reads {loaded.positions}")
    watch = _Watch(len(batch), loaded.model.device)
    config, noise = _sampling(loaded, batch, room)
    arguments: dict[str, Any] = {"logits_processor": [watch, *noise], "stopping_criteria": [_stop(stopping)]}
    if config.stop_strings:
        arguments["tokenizer"] = loaded.tokenizer
    if choices:  # as the model computes them, before repetition penalty and temperature
        arguments |= {"output_logits": True, "return_dict_in_generate": True}
    with torch.inference_mode():
        made = loaded.model.generate(**inputs.to(loaded.model.device), generation_config=config, **arguments)
    if stopping():
        raise UserError("the model was closed while it answered")
    firsts = _first_tokens(loaded, made.logits[0], choices, opened) if choices else [None] * len(batch)
    made = made.sequences if choices else made
    mask = inputs["attention_mask"].sum(dim=1).tolist()
    images = [0] * len(batch)
    if loaded.image_token is not None:
        images = (inputs["input_ids"] == loaded.image_token).sum(dim=1).tolist()
    bad = watch.bad.tolist()
    return [
        RowError(f"the model computed not-a-number in {loaded.dtype}; set the option dtype: bfloat16 or float32")
        if bad[n]
        else replace(
            _reply(loaded, each, made[n, width:].tolist(), room, mask[n], images[n], opened[n], config.stop_strings),
            first_token=firsts[n],
        )
        for n, each in enumerate(batch)
    ]


def _first_tokens(
    loaded: Loaded, logits: Any, choices: Sequence[str], opened: Sequence[bool]
) -> list[FirstToken | None]:
    """Weigh the choices that are tokens of the model; None for a row that begins, or is begun, with a thought."""
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
        for row, start, thinks in zip(logprobs, starts, opened, strict=True)
    ]


def _inputs(loaded: Loaded, batch: Sequence[Plan], template: Mapping[str, Any]) -> tuple[Any, list[bool]]:
    """Pad the batch, and find for each row whether its prompt ends inside a thought."""
    conversations = [[{**turn, "content": _shown(turn["content"])} for turn in each.turns] for each in batch]
    arguments: dict[str, Any] = {"add_generation_prompt": True, **template}
    if loaded.images:
        padding: dict[str, Any] = {"processor_kwargs": {"padding": True, "padding_side": "left"}}
    else:
        padding = {"padding": True}
    if _holds_control_tokens(loaded, batch):  # a prompt that spells out <|im_end|> is data
        padding["sanitize_control_tokens"] = True
    made = loaded.processor.apply_chat_template(
        conversations, tokenize=True, return_dict=True, return_tensors="pt", **padding, **arguments
    )
    ends = loaded.tokenizer.batch_decode(made["input_ids"][:, -8:])
    return made, [end.rstrip().endswith("<think>") for end in ends]


def _holds_control_tokens(loaded: Loaded, batch: Sequence[Plan]) -> bool:
    special = [
        token.content for token in loaded.tokenizer.added_tokens_decoder.values() if len(token.content.strip()) > 1
    ]
    return any(
        token in part
        for each in batch
        for message in each.request.messages
        for part in message.parts
        if isinstance(part, str)
        for token in special
    )


def _shown(content: Any) -> Any:
    if isinstance(content, str):
        return content
    return [
        {"type": "image", "image": decoded(part["picture"], on_white=True)} if "picture" in part else part
        for part in content
    ]


def _sampling(loaded: Loaded, batch: Sequence[Plan], room: int) -> tuple[Any, list[Any]]:
    """Make generation settings: the model's own where none are given, greedy at temperature 0, else what the request says."""
    params = batch[0].request.params
    config = copy.deepcopy(loaded.model.generation_config)
    config.max_new_tokens, config.max_length, config.num_return_sequences = room, None, 1
    config.pad_token_id, config.eos_token_id = loaded.pad, sorted(loaded.eos) or None
    stop = params.get("stop")
    config.stop_strings = [stop] if isinstance(stop, str) else list(stop) if stop else None
    given = {name: params[name] for name in SAMPLING if params.get(name) is not None}
    if given:
        config.do_sample = given.get("temperature", 1.0) > 0
        for name, value in given.items():
            setattr(config, name, value)
        if config.top_k is None:
            config.top_k = 0  # transformers would otherwise take 50
    shape, noise = _shaping(config, loaded.model.device) if config.do_sample else [], []
    for name in SHAPING:
        setattr(config, name, None)
    if config.do_sample:
        config.temperature, config.top_p, config.top_k = 1.0, 1.0, 0
        noise = [_OwnNoise([_seed(each.request) for each in batch], loaded.model.device, shape)]
    return config, noise


def _shaping(config: Any, device: Any) -> list[Any]:
    """List what `config` does to the distribution before a token is drawn from it, in transformers' order."""
    from transformers.generation import logits_process as made

    top_k = 50 if config.top_k is None else config.top_k  # transformers' own default
    steps: list[Any] = []
    if config.temperature not in (None, 1.0):
        steps.append(made.TemperatureLogitsWarper(float(config.temperature)))
    if config.top_h is not None:
        steps.append(made.TopHLogitsWarper(config.top_h))
    if top_k > 0:
        steps.append(made.TopKLogitsWarper(top_k))
    if config.top_p is not None and config.top_p < 1:
        steps.append(made.TopPLogitsWarper(config.top_p))
    if config.min_p is not None:
        steps.append(made.MinPLogitsWarper(config.min_p))
    if config.typical_p is not None and config.typical_p < 1:
        steps.append(made.TypicalLogitsWarper(config.typical_p))
    if config.epsilon_cutoff:
        steps.append(made.EpsilonLogitsWarper(config.epsilon_cutoff))
    if config.eta_cutoff:
        steps.append(made.EtaLogitsWarper(config.eta_cutoff, device=device))
    return steps


def _seed(request: Request) -> int:
    """Derive a number for the request's own draws: the same question, seed and sample give the same answer."""
    digest = hashlib.sha256(f"{request.params.get('seed', 0)}\0{request.sample}\0{request.attempt}".encode())
    for message in request.messages:
        for part in message.parts:
            digest.update((part if isinstance(part, str) else part.sha256).encode())
    return int.from_bytes(digest.digest()[:7], "big")


class _OwnNoise:
    """Samples each row with its own generator (Gumbel-max on the shaped scores): batch mates do not matter.

    transformers would apply temperature, top_k, top_p and the like after this, to a token that is drawn already, so they
    are applied here.
    """

    def __init__(self, seeds: Sequence[int], device: Any, shape: Sequence[Any] = ()) -> None:
        import torch

        self._generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        self._shape = shape

    def __call__(self, ids: Any, scores: Any) -> Any:
        import torch

        for step in self._shape:
            scores = step(ids, scores)
        size = scores.shape[1]
        noise = torch.stack([torch.rand(size, generator=each, device=each.device) for each in self._generators])
        gumbel = -torch.log(-torch.log(noise.clamp(1e-20, 1 - 1e-7)))
        chosen = (scores.float() + gumbel.to(scores.device)).argmax(dim=1, keepdim=True)
        return torch.full_like(scores, float("-inf")).scatter_(1, chosen, 0.0)


class _Watch:
    """Remembers the rows whose scores were not numbers."""

    def __init__(self, rows: int, device: Any) -> None:
        import torch

        self.bad = torch.zeros(rows, dtype=torch.bool, device=device)

    def __call__(self, ids: Any, scores: Any) -> Any:
        import torch

        bad = torch.isnan(scores).any(dim=1).to(self.bad.device)
        if not bad.any():
            return scores
        self.bad |= bad
        return torch.nan_to_num(scores, nan=0.0, posinf=float("inf"), neginf=float("-inf"))


def _stop(stopping: Callable[[], bool]) -> Any:
    import torch
    from transformers import StoppingCriteria

    class Closing(StoppingCriteria):  # type: ignore[misc]
        def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
            return torch.full((input_ids.shape[0],), stopping(), dtype=torch.bool, device=input_ids.device)

    return Closing()


def _reply(
    loaded: Loaded,
    each: Plan,
    tokens: list[int],
    room: int,
    read: int,
    images: int,
    opened: bool,
    stops: Sequence[str] | None,
) -> Reply:
    end = next((n for n, token in enumerate(tokens) if token in loaded.eos), None)
    written = len(tokens) if end is None else end + 1
    text = loaded.tokenizer.decode(tokens[:written], skip_special_tokens=True)
    finish = "stop" if end is not None else "length"
    if stops and end is None:
        cuts = [at for stop in stops if (at := text.find(stop)) >= 0]
        if cuts:
            text, finish = text[: min(cuts)], "stop"
            written = len(loaded.tokenizer(text, add_special_tokens=False)["input_ids"])
    thought, answer = split_thought(text, opened)
    thinking = len(loaded.tokenizer(thought, add_special_tokens=False)["input_ids"]) if thought else 0
    usage = Usage(input=read, output=written, thinking=min(thinking, written), image=images)
    flags = ("schema-in-prompt",) if each.request.schema is not None else ()
    if thought:
        flags = (*flags, f"thought: {thought}")
    if finish == "length":
        cause = "all of it went into thinking" if thought and not answer else f"{written} tokens"
        return Reply(
            answer, Status.TRUNCATED, f"the answer reached its token limit ({cause})", usage, finish, flags=flags
        )
    if not answer:
        return Reply("", Status.REFUSED, "the model ended its answer without a word", usage, finish, flags=flags)
    return Reply(answer, usage=usage, finish_reason=finish, flags=flags)


def split_thought(text: str, opened: bool = False) -> tuple[str, str]:
    """(thought, answer). `opened`: the prompt itself began the thought, as some chat templates do."""
    before, closed, after = text.rpartition("</think>")
    if closed:
        return before.strip().removeprefix("<think>").strip(), after.strip()
    if opened or text.lstrip().startswith("<think>"):
        return text.strip().removeprefix("<think>").strip(), ""
    return "", text.strip()
