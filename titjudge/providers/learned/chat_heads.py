"""Learned metrics read off a chat model: how likely its answers are, or a head on one token's state.

Answers: VQAScore, Q-Eval-Score (five words), the expected-value LMM score (ten digits). Heads: HPSv3, LongT2IExpert,
LibreHPS, EditReward. Imported in the worker thread only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from titjudge.core.errors import Unanswered, UserError, must_be
from titjudge.core.prompts import Prompt
from titjudge.core.types import Json, Status, Values
from titjudge.data.learned_metrics import LearnedMetric
from titjudge.providers.learned.base import Adapter, ImageAndText, Measured, ModelCheckpoint, measured
from titjudge.providers.learned.state_dicts import fill, unwrapped
from titjudge.providers.learned.vqascore import tensors, weight_files
from titjudge.providers.local import hub, loading

_ZERO_WIDTH_SPACE = "\u200b"  # put into control tokens that a prompt spells out, so that they stay text


def harmless(text: str, controls: Sequence[str]) -> str:
    """Break up every control token of the model in a text, so that no prompt can place one."""
    for token in controls:
        if len(token) > 1:
            text = text.replace(token, token[0] + _ZERO_WIDTH_SPACE + token[1:])
    return text


def controls_of(tokenizer: Any) -> list[str]:
    """List the tokenizer's special and added tokens, longest first."""
    added = [str(token) for token in tokenizer.get_added_vocab()]
    return sorted({*map(str, tokenizer.all_special_tokens), *added}, key=len, reverse=True)


def inputs_of(
    processor: Any, turns: Sequence[list[Json]], *, generate: bool, pad_left: bool, sanitize: bool = False
) -> Any:
    """Tokenize conversations, padded to one length (on the left with `pad_left`); with `generate` they end where an answer begins."""
    return processor.apply_chat_template(
        list(turns),
        add_generation_prompt=generate,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
        processor_kwargs={"padding": True, "padding_side": "left" if pad_left else "right"},
        **({"sanitize_control_tokens": True} if sanitize else {}),
    )


def _lengths(inputs: Any, positions: int, key: str) -> list[int]:
    """Count the tokens of each row.

    Raises:
        Unanswered: A row has more than the model reads.
    """
    lengths: list[int] = inputs["attention_mask"].sum(dim=1).tolist()
    if max(lengths) > positions:
        raise Unanswered(
            Status.BAD_INPUT, f"'{key}' reads {positions} tokens; the prompt with its image has {max(lengths)}"
        )
    return lengths


class AnswerTokens(Adapter):
    """The likely answer of a chat model, read from the probabilities of the first token of its answer.

    The score is the probability of the row's `answer` over the whole vocabulary; or, with `labels`, each with a value, the sum
    of these values weighted by the softmax over the labels' first tokens. `parts["mass"]` is then the probability of all labels
    together: if it is small, the model meant to give another answer.
    """

    def __init__(self, row: LearnedMetric, checkpoint: ModelCheckpoint, options: Values) -> None:
        super().__init__(row, checkpoint, options)
        self.loaded = _chat_model(row, checkpoint, options)
        self.answer = row.options.get("answer")
        labels: Mapping[str, float] = row.options.get("labels") or {str(self.answer): 1.0}
        encoded = [self.loaded.tokenizer(label, add_special_tokens=False)["input_ids"] for label in labels]
        if self.answer and len(encoded[0]) != 1:
            raise UserError(must_be(f"'{self.answer}'", f"one token of '{checkpoint.weights}'", len(encoded[0])))
        if len({ids[0] for ids in encoded}) < len(encoded):
            raise UserError(
                f"two labels of '{row.key}' start with the same token of '{checkpoint.weights}'. Change one of them"
            )
        self.first = torch.tensor([ids[0] for ids in encoded], device=self.loaded.model.device)
        self.values = torch.tensor(list(labels.values()), device=self.loaded.model.device)
        self.controls = controls_of(self.loaded.tokenizer)

    def score(self, pairs: Sequence[ImageAndText]) -> list[Measured]:
        turns = []
        for image, text in pairs:
            plain = text if self.answer else harmless(text, self.controls)
            question = self.checkpoint.asked(plain)
            content = [{"type": "image", "image": image}, {"type": "text", "text": question}]
            turns.append([{"role": "user", "content": content}])
        inputs = inputs_of(self.loaded.processor, turns, generate=True, pad_left=True, sanitize=bool(self.answer))
        lengths = _lengths(inputs, self.loaded.positions, self.row.key)
        with torch.inference_mode():
            # the logits of all positions of a batch would take gigabytes
            output = self.loaded.model(**inputs.to(self.loaded.model.device), logits_to_keep=1)
            logits = output.logits[:, -1].float()
        masses = torch.softmax(logits, dim=-1)[:, self.first].sum(dim=-1)
        if self.answer:
            return [measured(float(mass), (length, length)) for mass, length in zip(masses, lengths, strict=True)]
        values = (torch.softmax(logits[:, self.first], dim=-1) * self.values).sum(dim=-1)
        return [
            measured(float(value), (length, length), mass=float(mass))
            for value, mass, length in zip(values, masses, lengths, strict=True)
        ]


def _chat_model(row: LearnedMetric, checkpoint: ModelCheckpoint, options: Values) -> loading.LoadedModel:
    """Load the vision-language model that a row scores with.

    Raises:
        UserError: It cannot be loaded, or reads no images.
    """
    folder, commit = hub.folder_of(checkpoint.weights, checkpoint.weights_commit)
    chosen = {"dtype": checkpoint.dtype, "device": checkpoint.device, **dict(options.get("local") or {})}
    loaded = loading.load(checkpoint.weights, folder, commit, chosen)
    if not loaded.images:
        raise UserError(f"'{row.key}' requires a model that reads images, which '{checkpoint.weights}' does not")
    return loaded


class TokenHead(Adapter):
    """A head of linear layers with ReLU between, on the last state of one token of the question or the answer.

    The row's options: `token`; `head` (prefix of the head's parameters in the weights, or the name of a file beside
    them); `template`, the prompt with the question, or with `raw` the whole conversation; `answer` (the turn with the
    token), if there is one; `text_first`; `pixels` (least, most); `sigmoid`; `positions` ("text": the tokens of an image
    have positions like words, not by row and column). The head computes in float32; its first output is the score, a
    second one is kept as `sigma`. With `axes` it has two outputs for each of them, mean and log of sigma; the first is
    the score. With `dimensions`, which name a `template` and a `head` each, the model is asked once for each, and the
    means over them count.
    """

    def __init__(self, row: LearnedMetric, checkpoint: ModelCheckpoint, options: Values) -> None:
        super().__init__(row, checkpoint, options)
        self.options = row.options
        base, pinned = (
            (checkpoint.base, checkpoint.base_pin) if checkpoint.file else (checkpoint.weights, checkpoint.weights_pin)
        )
        self.processor = loading.load_processor(base, **_sized(row.options.get("pixels")), **pinned)
        self.tokenizer = self.processor.tokenizer
        token = str(row.options["token"])
        if token not in self.tokenizer.get_added_vocab():
            if checkpoint.file is None:
                raise UserError(
                    f"not the weights of '{row.key}': the tokenizer in {checkpoint.weights} has no token {token}. Give other weights"
                )
            self.tokenizer.add_tokens([token], special_tokens=True)
        self.token = int(self.tokenizer.convert_tokens_to_ids(token))
        self.controls = controls_of(self.tokenizer)
        model, heads = self._from_file(base, pinned) if checkpoint.file else self._from_folder(pinned)
        self.model = model.to(device=checkpoint.device).eval()
        self.heads = {
            name: head.to(device=checkpoint.device, dtype=torch.float32).eval() for name, head in heads.items()
        }
        self.positions = int(getattr(model.config.get_text_config(), "max_position_embeddings", 0) or 2**31)

    def _from_file(self, base: str, pinned: Values) -> tuple[Any, dict[str, nn.Module]]:
        """Load backbone and heads from one released state dict; the vocabulary has the size that the file has."""
        from transformers import AutoConfig, AutoModelForImageTextToText

        state = unwrapped(self.checkpoint.state())
        heads = {}
        for dimension, about in self.row.dimensions.items():
            prefix = str(about["head"])
            of_head = {name.removeprefix(prefix): state.pop(name) for name in list(state) if name.startswith(prefix)}
            heads[dimension] = head_of(of_head, self.row.key)
        config = AutoConfig.from_pretrained(base, **pinned)
        rows = [value.shape[0] for name, value in state.items() if name.endswith("embed_tokens.weight")]
        if not rows or rows[0] <= self.token:
            raise UserError(
                f"the weights of '{self.row.key}' have no embedding of {self.options['token']}. Give other weights"
            )
        config.get_text_config().vocab_size = rows[0]
        kind = AutoModelForImageTextToText._model_mapping[type(config)]
        dtype = getattr(torch, self.checkpoint.dtype)
        model, report = kind.from_pretrained(
            None, config=config, state_dict=state, dtype=dtype, output_loading_info=True
        )
        wrong = [name for key in ("missing_keys", "unexpected_keys", "mismatched_keys") for name in report[key]]
        if wrong:
            raise UserError(
                f"the weights of '{self.row.key}' do not fit its architecture: {len(wrong)} parameters, first {wrong[0]}. Download the weights again"
            )
        return model, heads

    def _from_folder(self, pinned: Values) -> tuple[Any, dict[str, nn.Module]]:
        """Load the backbone as transformers keeps it, and the head from a file beside it or, by a prefix, from its weights."""
        from transformers import AutoModelForImageTextToText

        dtype = getattr(torch, self.checkpoint.dtype)
        model = AutoModelForImageTextToText.from_pretrained(self.checkpoint.weights, dtype=dtype, **pinned)
        return model, {name: self._head_in_folder(str(about["head"])) for name, about in self.row.dimensions.items()}

    def _head_in_folder(self, prefix: str) -> nn.Module:
        """Load a head from the weights, by the prefix of its parameters, or from the file of this name beside them."""
        if prefix.endswith("."):
            files = weight_files(self.checkpoint, prefix)
            of_head = {name.removeprefix(prefix): value for file in files for name, value in tensors(file, prefix)}
            return head_of(of_head, self.row.key)
        path = Path(self.checkpoint.weights).expanduser() / prefix
        if not path.is_file():
            raise UserError(f"'{self.row.key}' requires its head. Put {path.name} into the folder of its weights")
        return head_of(unwrapped(torch.load(path, map_location="cpu", weights_only=True)), self.row.key)

    def score(self, pairs: Sequence[ImageAndText]) -> list[Measured]:
        answers = [self._ask(pairs, dimension) for dimension in self.heads]
        outputs = torch.stack([rows for rows, _ in answers])
        means = outputs.mean(dim=0)
        scores = torch.sigmoid(means[:, 0]) if self.options.get("sigmoid") else means[:, 0]
        by_head = [dict(zip(self.heads, column.tolist(), strict=True)) for column in outputs[:, :, 0].T]
        lengths = [max(counts) for counts in zip(*(counts for _, counts in answers), strict=True)]
        return [
            measured(float(score), (length, length), **self._parts(row), **(by_name if len(self.heads) > 1 else {}))
            for score, row, length, by_name in zip(scores, means, lengths, by_head, strict=True)
        ]

    def _ask(self, pairs: Sequence[ImageAndText], dimension: str) -> tuple[torch.Tensor, list[int]]:
        """Return the outputs of a dimension's head for each pair, and the number of tokens of each."""
        if self.options.get("raw"):
            texts = [self.checkpoint.asked(harmless(text, self.controls)) for _, text in pairs]
            images = [[image] for image, _ in pairs]
            inputs = self.processor(text=texts, images=images, padding=True, padding_side="right", return_tensors="pt")
        else:
            prompt = self.checkpoint.prompts[dimension]
            turns = [question(prompt, self.options, *pair, self.controls) for pair in pairs]
            inputs = inputs_of(self.processor, turns, generate="answer" not in self.options, pad_left=False)
        lengths = _lengths(inputs, self.positions, self.row.key)
        places = [int((row == self.token).nonzero()[-1]) for row in inputs["input_ids"]]
        if self.options.get("positions") == "text":
            rows, width = inputs["input_ids"].shape
            inputs["position_ids"] = torch.arange(width).expand(3, rows, -1)
        with torch.inference_mode():
            states = self.model.model(**inputs.to(self.model.device)).last_hidden_state
            rows = torch.stack([state[place] for state, place in zip(states, places, strict=True)])
            return self.heads[dimension](rows.float()), lengths

    def _parts(self, row: Any) -> dict[str, float]:
        axes = self.options.get("axes")
        if not axes:
            return {"sigma": float(row[1])} if len(row) > 1 else {}
        others = {name: float(torch.sigmoid(row[2 * index])) for index, name in enumerate(axes) if index}
        return {"sigma": float(row[1].clamp(-10, 2).exp()), **others}


def question(prompt: Prompt, options: Values, image: Any, text: str, controls: Sequence[str]) -> list[Json]:
    """Write the conversation of a `TokenHead` about an image and its prompt, with the turn of the answer, if any.

    Of an edit, `image` is a tuple of the source and the result.
    """
    turns: list[Json] = [
        {"role": message.role, "content": [{"type": "text", "text": message.text}]}
        for message in prompt.messages({"prompt": harmless(text, controls)})
    ]
    image_parts = [{"type": "image", "image": picture} for picture in (image if isinstance(image, tuple) else (image,))]
    words = turns[-1]["content"]
    turns[-1]["content"] = [*words, *image_parts] if options.get("text_first") else [*image_parts, *words]
    if "answer" in options:
        turns.append({"role": "assistant", "content": [{"type": "text", "text": str(options["answer"])}]})
    return turns


def head_of(state: Values, key: str) -> nn.Module:
    """Make a chain of the linear layers in a state dict, in the order of their numbers, with ReLU between.

    Raises:
        UserError: There are no layers, or their sizes do not fit together.
    """
    numbered = {int(n[-1]): name for name in state if name.endswith("weight") and (n := re.findall(r"\d+", name))}
    layers: list[nn.Module] = []
    width = None
    for number in sorted(numbered):
        weight = state[numbered[number]]
        bias = state.get(numbered[number].removesuffix("weight") + "bias")
        if weight.ndim != 2 or bias is None or width not in (None, weight.shape[1]):
            raise UserError(f"layer {number} in the head of '{key}' must be a linear layer that fits the one before")
        width = weight.shape[0]
        layer = nn.Linear(weight.shape[1], width)
        fill(layer, {"weight": weight, "bias": bias}, key)
        layers += [layer, nn.ReLU()]
    if not layers:
        raise UserError(f"the weights of '{key}' have no head. Give other weights")
    return nn.Sequential(*layers[:-1])


def _sized(pixels: Any) -> Json:
    """Make the arguments of a Qwen2-VL processor that keep images between two numbers of pixels."""
    return {"size": {"shortest_edge": pixels[0], "longest_edge": pixels[1]}} if pixels else {}
