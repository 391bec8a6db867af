"""Learned metrics that titjudge runs: the model's name is a row of `titjudge.data.learned_metrics`.

A request is one image and one text, the reply a JSON measurement; requests that arrive together are scored together.
"""

from __future__ import annotations

import json
import math
import os
from functools import cached_property
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from titjudge.core.errors import ConfigError, UserError, unknown
from titjudge.core.files import read_yaml
from titjudge.core.prompts import Prompt, prompt_names, read_prompt, template_folders
from titjudge.core.types import Json, ProviderSettings, Reply, Request, Usage
from titjudge.data.learned_metrics import ASKED, NATIVE, find, rows
from titjudge.providers.base import check_options
from titjudge.providers.learned.base import LearnedMetricProvider, Measured, ModelCheckpoint
from titjudge.providers.local import hub
from titjudge.providers.local.base import Outcomes, decoded, halve_on_failure, not_a_number
from titjudge.providers.local.loading import complete_weights

ADAPTERS = {
    "dual": "titjudge.providers.learned.clip_and_blip:DualEncoder",
    "itm": "titjudge.providers.learned.clip_and_blip:ItmHead",
    "t5": "titjudge.providers.learned.vqascore:ClipFlanT5",
    "prob": "titjudge.providers.learned.chat_heads:AnswerTokens",
    "likeness": "titjudge.providers.learned.clip_and_blip:ClassTokens",
    "mps": "titjudge.providers.learned.mps:Mps",
    "labels": "titjudge.providers.learned.chat_heads:AnswerTokens",
    "head": "titjudge.providers.learned.chat_heads:TokenHead",
}
"""The classes that rows of titjudge's own name in short; others are `module:Class`."""
OPTIONS = frozenset("antialias base batch_size device dtype local weights".split())
FOLDER = "TITJUDGE_WEIGHTS"
SETTINGS = "TITJUDGE_SCORERS"


class Scorer(LearnedMetricProvider):
    """The model of one learned metric, loaded when the first request comes, in the thread that scores.

    Args:
        settings: `model` is a key of the table. `options`: `weights` (a folder, or the released file) and `base` (folder
            with configuration, processor and tokenizer) instead of the hub's; `dtype` (the row's, otherwise float32),
            `device`, `batch_size` (32), `antialias` (true; HPSv2 only), `local` (options of the chat model behind a
            VQAScore). Without `weights`, `$TITJUDGE_WEIGHTS/<key>` goes before the hub. A metric names its model itself
            and has no options: they are in the YAML file that `$TITJUDGE_SCORERS` names, by key, after the options of
            `all`.

    Raises:
        ConfigError: There is no such row, or titjudge does not run it; or an option is unknown.
    """

    name = "scorer"

    def __init__(self, settings: ProviderSettings) -> None:
        row = find(settings.model)
        if row is None or row.status == ASKED:
            keys = [row.key for row in rows(NATIVE)]
            raise ConfigError(unknown("learned metric", settings.model, keys))
        if row.adapter == "external":
            raise ConfigError(
                f"'{row.key}' runs a command that you configure. Write external/{row.key}, not scorer/{row.key}"
            )
        options = {**_from_file(row.key), **settings.options}
        check_options("option of learned metrics", options, OPTIONS)
        self._size = int(options.get("batch_size", 32))
        super().__init__(max_batch=4 * self._size)
        self.row, self.version = row, row.version
        self.images_read = 2 if row.reads_source else 1
        self._templates = template_folders(settings.prompts)
        self.account = f"scorer|{row.key}"
        self._options = options

    # -- where the files lie -------------------------------------------------------------------------------------------

    @cached_property
    def _checkpoint(self) -> ModelCheckpoint:
        """Find the files that the model is loaded from: the user's files, otherwise the files on the hub.

        Raises:
            UserError: They are not available; the message explains where to put them.
        """
        hub.quiet()
        own_weights = self._own_weights()
        try:
            file, commit = None, ""
            if own_weights is not None:
                weights, file = str(own_weights), own_weights if own_weights.is_file() else None
            else:
                weights, _, name = self.row.weights.partition(":")
                _, commit = hub.folder_of(weights)
                file = _download(weights, name, commit) if name else None
            base = str(self._options.get("base") or "")
            if not base and own_weights is not None and (own_weights / "tokenizer_config.json").is_file():
                base = str(own_weights)
            base = base or self.row.base or weights
            device = hub.default_device(self._options)
            base_commit = hub.folder_of(base)[1]
            return ModelCheckpoint(weights, commit, base, base_commit, file, self._dtype, device, self._prompts)
        except UserError as error:
            raise UserError(
                f"{error} Put the weights of '{self.row.key}' into ${FOLDER}/{self.row.key}, or give weights and base in "
                f"the YAML file of ${SETTINGS}. `metrics` lists the required files."
            ) from error

    @cached_property
    def _prompts(self) -> dict[str, Prompt]:
        """The templates of the row, by dimension: the user's template of this name if there is one, otherwise titjudge's."""
        names = {dimension: about.get("template") for dimension, about in self.row.dimensions.items()}
        return {dimension: read_prompt(name, self._templates) for dimension, name in names.items() if name}

    @property
    def _dtype(self) -> str:
        return str(self._options.get("dtype") or self.row.options.get("dtype", "float32"))

    def _own_weights(self) -> Path | None:
        """Find the user's own folder or file of the weights; None if they come from the hub.

        Raises:
            UserError: They are not at the place in the option, or the hub has none.
        """
        place = str(self._options.get("weights") or "")
        if not place and os.environ.get(FOLDER):
            folder = Path(os.environ[FOLDER]).expanduser() / self.row.key
            place = str(folder / self.row.weights.partition(":")[2]) if folder.is_dir() else ""
        if place:
            path = Path(place).expanduser()
            if not path.exists():
                raise UserError(f"'{path}' has no weights of '{self.row.key}'. Correct the option weights")
            return path
        if not self.row.weights:
            raise UserError(
                f"'{self.row.key}' has no weights on the hub ({self.row.source}). Put them into ${FOLDER}/{self.row.key}, or give "
                f"their folder with the option weights"
            )
        return None

    @cached_property
    def base_url(self) -> str:
        """The identity of weights and arithmetic; part of the cache key. Touches no network and loads nothing.

        Weights on the hub are named by their commit if they are in the local cache, otherwise only by their name.
        """
        own_weights = self._own_weights()
        parts = [self.row.weights if own_weights is None else _digest(own_weights), self._dtype]
        if own_weights is None:
            parts.append(_commit(self.row.weights.partition(":")[0]))
        if self._options.get("base"):
            parts.append(_digest(Path(str(self._options["base"]))))
        parts += [f"{name}={self._options[name]}" for name in ("antialias", "local") if name in self._options]
        own_prompts = [prompt for prompt in self._prompts.values() if not _is_bundled(prompt)]
        parts += [f"prompt={prompt.sha256[:16]}" for prompt in own_prompts]
        return "scorer:" + ",".join([*filter(None, parts), f"transformers={version('transformers')}"])

    # -- answering -----------------------------------------------------------------------------------------------------

    def _run(self, requests: list[Request]) -> Outcomes:
        adapter = self._loaded()

        def score(batch: list[Request]) -> Outcomes:
            pairs = [(self._pictures(request), request.messages[-1].text) for request in batch]
            elements = [_elements(request) for request in batch]
            scores = adapter.score(pairs, elements) if any(elements) else adapter.score(pairs)
            return [self._reply(score) for score in scores]

        batches = (requests[start : start + self._size] for start in range(0, len(requests), self._size))
        return [result for batch in batches for result in halve_on_failure(batch, score)]

    def _pictures(self, request: Request) -> Any:
        """Decode the image of a request; of an edit a tuple of the source and the result."""
        images = tuple(decoded(image, on_white=False) for image in request.images)
        return images if self.row.reads_source else images[0]

    def _reply(self, measurement: Measured) -> Reply | Exception:
        """Make the reply of a measurement; a score that is not a number becomes an error."""
        if not math.isfinite(measurement["score"]):
            return ArithmeticError(
                f"'{self.row.key}' computed not-a-number in {self._dtype}; {not_a_number(self._dtype)}"
            )
        checkpoint = self._checkpoint
        pinned = checkpoint.weights_commit[:12] or "own weights"
        return Reply(
            json.dumps(measurement),
            usage=Usage(input=measurement["tokens_used"]),
            finish_reason="stop",
            model_version=f"{pinned} {checkpoint.dtype}",
            endpoint=f"local {checkpoint.device}",
        )

    def _load(self) -> Any:
        module, _, kind = ADAPTERS.get(self.row.adapter, self.row.adapter).partition(":")
        try:
            hub.quiet_transformers()
            adapter = getattr(import_module(module), kind)
            with complete_weights(self.row.key, getattr(adapter, "spare", ())):
                return adapter(self.row, self._checkpoint, self._options)
        except Exception as error:  # loaders raise of every kind
            raise hub.loading_error(self.row.key, error) from error

    def usage_bound(self, request: Request) -> Usage:
        return Usage(input=self.row.tokens)


def _from_file(key: str) -> Json:
    """Read the options of a row from the file that the environment names; `all` has the options of every row.

    Raises:
        ConfigError: The file is unreadable or not a mapping of mappings, or a key of it is not a row.
    """
    if not os.environ.get(SETTINGS, "").strip():
        return {}
    path = Path(os.environ[SETTINGS].strip()).expanduser()
    content = read_yaml(path, "the file of learned metrics", SETTINGS)
    if not all(isinstance(options, dict) for options in content.values()):
        raise ConfigError(f"{SETTINGS}: {path} must be a mapping of learned metrics to their options")
    known = ["all", *(row.key for row in rows(NATIVE))]
    for name in map(str, content):
        if name not in known:
            raise ConfigError(f"{SETTINGS}: {path}: {unknown('learned metric', name, known)}")
    return {**content.get("all", {}), **content.get(key, {})}


def _is_bundled(prompt: Prompt) -> bool:
    """Return True if a template comes with titjudge: the version of the row stands for its text in a key."""
    bundled = template_folders()
    return prompt.name in prompt_names(bundled) and read_prompt(prompt.name, bundled).sha256 == prompt.sha256


def _elements(request: Request) -> list[str]:
    """List the elements of the prompt that are asked for, from the system turn of `baselines/elements`."""
    first = request.messages[0]
    return [str(element) for element in json.loads(first.text)] if first.role == "system" else []


def _download(repository: str, file: str, commit: str) -> Path:
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(repository, file, revision=commit or None, local_files_only=hub.offline()))
    except Exception as error:  # the hub's client raises a dozen kinds
        raise hub.absent(f"{repository}/{file}") from error


def _digest(path: Path) -> str:
    return hub.content_hash(path if path.is_dir() else path.parent)


def _commit(repository: str) -> str:
    from huggingface_hub import try_to_load_from_cache

    file = try_to_load_from_cache(repository, "config.json")
    return Path(file).parent.name if isinstance(file, str) else ""


__all__ = ["Scorer"]
