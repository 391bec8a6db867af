"""Learned metrics as a provider: the model name is a row of `titjudge.core.learned_metrics.TABLE`, the answer a JSON measurement.

What a metric asks is one image and one text; requests that arrive together are scored together.
"""

from __future__ import annotations

import json
import math
import os
from functools import cached_property
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from titjudge.core.errors import ConfigError, Unanswered, UserError, nearest
from titjudge.core.files import read_yaml
from titjudge.core.learned_metrics import BUILT_IN, TABLE, Baseline
from titjudge.core.types import Failure, FailureKind, Reply, Request, Status, Usage
from titjudge.providers import SAMPLING_PARAMETERS, Capabilities, Provider, ProviderSettings
from titjudge.providers.local import hub
from titjudge.providers.local.images import decoded
from titjudge.providers.local.load_once import LoadOnce
from titjudge.providers.local.microbatch import MicroBatcher, halve_on_failure

if TYPE_CHECKING:
    from titjudge.providers.learned.clip_and_blip import Source

ADAPTERS = {
    "dual": "clip_and_blip:DualEncoder",
    "itm": "clip_and_blip:ItmHead",
    "t5": "vqascore:ClipFlanT5",
    "prob": "chat_heads:AnswerTokens",
    "mps": "mps:Mps",
    "labels": "chat_heads:AnswerTokens",
    "head": "chat_heads:TokenHead",
}
OPTIONS = frozenset({"antialias", "base", "batch_size", "device", "dtype", "local", "weights"})
FOLDER = "TITJUDGE_WEIGHTS"
SETTINGS = "TITJUDGE_SCORERS"


class Scorer(Provider):
    """One learned metric's model, loaded when the first request comes, in the thread that scores.

    Args:
        settings: `model` is a key of the table. `options`: `weights` (a folder, or the released file) and `base` (folder
            with configuration, processor and tokenizer) instead of the hub's; `dtype` (the row's, else float32), `device`, `batch_size`
            (32), `antialias` (true; HPSv2 only), `local` (options of the chat model behind a VQAScore). Without
            `weights`, `$TITJUDGE_WEIGHTS/<key>` is looked at before the hub. A metric names its model itself and carries
            no options: they stand in the YAML file that `$TITJUDGE_SCORERS` names, by key, those of `all` first.

    Raises:
        ConfigError: no such row, or one that titjudge does not run; unknown option.
    """

    name = "scorer"
    version = 2  # raised where what a row computes changes: cached scores are then not used again

    def __init__(self, settings: ProviderSettings) -> None:
        row = TABLE.get(settings.model)
        known = [each.key for each in BUILT_IN]
        if row is None:
            hint = nearest(settings.model, known)
            raise ConfigError(f"unknown learned metric '{settings.model}'.{hint} Known: {', '.join(known)}")
        if row.adapter == "external":
            raise ConfigError(f"'{row.key}' runs by a command of yours: external/{row.key}, not scorer/{row.key}")
        options = {**_from_file(row.key), **settings.options}
        unknown = sorted(set(options) - OPTIONS)
        if unknown:
            raise ConfigError(f"unknown option of learned metrics '{unknown[0]}'. Known: {', '.join(sorted(OPTIONS))}")
        self.row: Baseline = row
        self.capabilities = Capabilities(images=True, schema=True, omit=SAMPLING_PARAMETERS, local=True)
        self.account = f"scorer|{row.key}"
        self._options = options
        self._size = int(self._options.get("batch_size", 32))
        self._ready_adapter = LoadOnce(self._load)
        self._batcher: MicroBatcher[Request, Reply] = MicroBatcher(self._run, max_batch=4 * self._size)

    # -- where the files lie -------------------------------------------------------------------------------------------

    @cached_property
    def _source(self) -> Source:
        given = self._own_weights()
        try:
            return self._located(given)
        except UserError as error:
            raise UserError(
                f"{error} The weights of '{self.row.key}' go into ${FOLDER}/{self.row.key}, or are named (weights, base) in "
                f"the YAML file of ${SETTINGS}; `metrics` lists what is needed."
            ) from error

    def _located(self, given: Path | None) -> Source:
        from titjudge.providers.learned.clip_and_blip import Source

        hub.quiet()
        file, commit = None, ""
        if given is not None:
            weights, file = str(given), given if given.is_file() else None
        else:
            weights, _, inside = self.row.weights.partition(":")
            _, commit = hub.folder_of(weights)
            file = _download(weights, inside, commit) if inside else None
        base = str(self._options.get("base") or "")
        if not base and given is not None and (given / "tokenizer_config.json").is_file():
            base = str(given)
        base = base or self.row.base or weights
        base_commit = hub.folder_of(base)[1]
        return Source(weights, commit, base, base_commit, file, self._dtype, self._device())

    @property
    def _dtype(self) -> str:
        return str(self._options.get("dtype") or self.row.options.get("dtype", "float32"))

    def _own_weights(self) -> Path | None:
        wanted = self._options.get("weights") or ""
        if not wanted and os.environ.get(FOLDER):
            beside = Path(os.environ[FOLDER]).expanduser() / self.row.key
            inside = self.row.weights.partition(":")[2]
            wanted = str(beside / inside if inside else beside) if beside.is_dir() else ""
        if not wanted and not self.row.weights:
            raise UserError(
                f"'{self.row.key}' has no weights on the hub: put them into ${FOLDER}/{self.row.key}, or name their folder "
                f"with the option weights ({self.row.source})"
            )
        if not wanted:
            return None
        path = Path(str(wanted)).expanduser()
        if not path.exists():
            raise UserError(f"no weights of '{self.row.key}' at '{path}'")
        return path

    def _device(self) -> str:
        import torch

        return str(self._options.get("device") or ("cuda" if torch.cuda.is_available() else "cpu"))

    @cached_property
    def base_url(self) -> str:
        """What pins weights and arithmetic; part of the cache key. Touches no network and loads nothing.

        Weights on the hub are named by their commit where they are in the local cache, else by their name alone.
        """
        given = self._own_weights()
        words = [self.row.weights if given is None else _digest(given), self._dtype]
        if given is None:
            words.append(_commit(self.row.weights.partition(":")[0]))
        if self._options.get("base"):
            words.append(_digest(Path(str(self._options["base"]))))
        words += [f"{name}={self._options[name]}" for name in ("antialias", "local") if name in self._options]
        return "scorer:" + ",".join([*filter(None, words), f"transformers={version('transformers')}"])

    # -- answering -----------------------------------------------------------------------------------------------------

    async def complete(self, request: Request) -> Reply:
        """Score one image and one text; `Reply.text` is {"score", "tokens_used", "tokens_total", "parts"}.

        Raises:
            UserError: the weights cannot be loaded. Unanswered: the image cannot be read. ArithmeticError: no number came.
        """
        if len(request.images) != 1:
            raise Unanswered(Status.BAD_INPUT, f"a learned metric reads one image, not {len(request.images)}")
        return await self._batcher.submit(request)

    def load(self) -> None:
        self._ready_adapter()

    def _run(self, requests: list[Request]) -> list[Reply | Exception]:
        adapter = self._ready_adapter()

        def score(batch: list[Request]) -> list[Reply | Exception]:
            pairs = [(decoded(each.images[0], on_white=False), each.messages[-1].text) for each in batch]
            elements = [_elements(each) for each in batch]
            scores = adapter.score(pairs, elements) if any(elements) else adapter.score(pairs)
            return [self._reply(score) for _, score in zip(batch, scores, strict=True)]

        batches = (requests[at : at + self._size] for at in range(0, len(requests), self._size))
        return [result for batch in batches for result in halve_on_failure(batch, score)]

    def _reply(self, found: dict[str, Any]) -> Reply | Exception:
        if not math.isfinite(found["score"]):
            return ArithmeticError(f"'{self.row.key}' computed not-a-number in {self._dtype}; try dtype: float32")
        source = self._source
        pinned = source.weights_commit[:12] or "own weights"
        return Reply(
            json.dumps(found),
            usage=Usage(input=found["tokens_used"]),
            finish_reason="stop",
            model_version=f"{pinned} {source.dtype}",
            endpoint=f"local {source.device}",
        )

    def _load(self) -> Any:
        module, _, kind = ADAPTERS[self.row.adapter].partition(":")
        try:
            hub.quiet_transformers()
            adapter = getattr(import_module(f"titjudge.providers.learned.{module}"), kind)
            return adapter(self.row, self._source, self._options)
        except Exception as error:  # loaders raise of every kind
            raise hub.loading_error(self.row.key, error) from error

    def classify(self, error: Exception) -> Failure:
        kind = FailureKind.FATAL if isinstance(error, UserError | MemoryError) else FailureKind.REJECTED
        return Failure(kind, " ".join(str(error).split())[:400] or type(error).__name__)

    def usage_bound(self, request: Request) -> Usage:
        return Usage(input=self.row.tokens)

    async def aclose(self) -> None:
        self._batcher.close()
        self._ready_adapter.drop()


def _from_file(key: str) -> dict[str, Any]:
    """Read the options of a row in the file that the environment names; `all` holds those of every row.

    Raises:
        ConfigError: unreadable, not a mapping of mappings, or a key that is no row.
    """
    told = os.environ.get(SETTINGS, "").strip()
    if not told:
        return {}
    path = Path(told).expanduser()
    content = read_yaml(path, "the file of learned metrics", SETTINGS)
    if not all(isinstance(each, dict) for each in content.values()):
        raise ConfigError(f"{SETTINGS}: {path}: a mapping of learned metrics to their options is wanted")
    known = ["all", *(row.key for row in BUILT_IN)]
    strange = next((str(name) for name in content if name not in known), None)
    if strange is not None:
        raise ConfigError(f"{SETTINGS}: {path}: unknown learned metric '{strange}'.{nearest(strange, known)}")
    return {**content.get("all", {}), **content.get(key, {})}


def _elements(request: Request) -> list[str]:
    """List the elements of the prompt that are asked for, from the system turn of `baselines/elements`."""
    first = request.messages[0]
    return [str(each) for each in json.loads(first.text)] if first.role == "system" else []


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

    found = try_to_load_from_cache(repository, "config.json")
    return Path(found).parent.name if isinstance(found, str) else ""


__all__ = ["Scorer"]
