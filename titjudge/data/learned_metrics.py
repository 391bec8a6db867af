"""The table of learned metrics, `learned_metrics.yaml`, and the rows that other packages add.

A row is a metric (`titjudge.metrics.learned`) and the model `scorer/<key>` behind it
(`titjudge.providers.learned.provider`). A package adds one by an entry point of the group `titjudge.learned_metrics`, whose name is
the key of the row and whose value is a `LearnedMetric`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from titjudge.core import registry
from titjudge.core.errors import ConfigError
from titjudge.core.types import Values


class ModelSize(NamedTuple):
    """The size of a model, from which its memory follows.

    Attributes:
        parameters: Billions of parameters.
        layers: Layers that keep keys and values; 0 for an encoder.
        kv_heads: Heads of keys and values.
        head_dim: Their dimension.
        hidden: Hidden size of the text model, or of an encoder's larger half.
        intermediate: Size of its feed-forward layer.
        tokens: Tokens of one request.
        bytes: Bytes of a number.
    """

    parameters: float
    layers: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    hidden: int = 0
    intermediate: int = 0
    tokens: int = 0
    bytes: int = 2

    @property
    def weights(self) -> int:
        """Bytes of the parameters."""
        return int(self.parameters * 1e9) * self.bytes

    @property
    def row(self) -> int:
        """Bytes that each request of a batch takes."""
        cache = 2 * self.layers * self.kv_heads * self.head_dim
        return self.tokens * self.bytes * (cache + 2 * self.intermediate + 4 * self.hidden)


NATIVE = "built in"
COMMAND = "by your command"  # titjudge.providers.learned.external
ASKED = "by the models you name"  # captioner and judge; titjudge.metrics.dsg, viescore, lmm_score


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedMetric:
    """One learned metric; for all of them, a higher value is better.

    Attributes:
        key: Name of the metric.
        summary: The value it computes, in a line.
        adapter: The class that computes it: `module:Class`, or one of titjudge's: dual (two encoders), itm (image-text
            matching head), t5 (CLIP-FlanT5), prob (probability of an answer of a vision-language model), labels (expected
            value of answer labels), head (a head on the state of one token), mps, likeness (of an edit and its source);
            external (the user's own command); empty if the captioner and the judge are asked.
        weights: `owner/name` or `owner/name:file` on the Hugging Face hub; empty if they are not there and the user names
            a folder.
        base: Repository of configuration, processor and tokenizer; empty if they are with the weights.
        licence: Licence of weights and code.
        tokens: Tokens of a text that are read, special tokens included; 0: as many as the user's model reads.
        reads_prompt: It reads the prompt; if not, it scores an image once, whatever its prompts are.
        reads_source: It compares an edit with its one source.
        range: Lowest and highest value.
        source: Paper or code that it follows.
        status: The place where it runs: NATIVE, COMMAND or ASKED.
        options: Options of the adapter; `dtype` among them is the default of the row, `template` names the prompt that the
            text is put into, and `dimensions` are what the model is asked about one by one (see `TokenHead`).
        gigabytes: Size of the weights, if it is known from the hub's listing.
        whole_base: Whether weights of `base` are needed, too.
        size: Memory it takes, for models that run in this process.
        version: Raised if its values change: cached scores are then not used again.
    """

    key: str
    summary: str
    adapter: str = ""
    weights: str = ""
    base: str = ""
    licence: str
    tokens: int = 0
    reads_prompt: bool = True
    reads_source: bool = False
    range: tuple[float, float]
    source: str
    status: str = NATIVE
    options: Values = field(default_factory=dict)
    gigabytes: float = 0
    whole_base: bool = False
    size: ModelSize | None = None
    version: int = 1

    @property
    def dimensions(self) -> Mapping[str, Values]:
        """The options of each dimension with a separate question, by name; other metrics have one, without a name."""
        dimensions: Mapping[str, Values] = self.options.get("dimensions") or {"": self.options}
        return dimensions

    @property
    def also(self) -> str:
        """The second repository that is needed, in addition to the repository of the weights; empty if there is none."""
        return self.base if self.base != self.weights.partition(":")[0] else ""


def _row(key: str, values: Values) -> LearnedMetric:
    least, most = values["range"]
    size = ModelSize(**values["size"]) if "size" in values else None
    return LearnedMetric(**{**values, "key": key, "range": (float(least), float(most)), "size": size})


def _table() -> dict[str, LearnedMetric]:
    import yaml

    # Both are safe loaders; LibYAML's, where PyYAML has it, needs a seventh of the time.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    content = yaml.load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"), Loader=loader)  # noqa: S506
    return {key: _row(key, values) for key, values in content["metrics"].items()}


TABLE: Mapping[str, LearnedMetric] = _table()
"""The rows of titjudge; metrics of the captioner and the judge come last."""


def find(key: str) -> LearnedMetric | None:
    """Return a row, of titjudge or of another package; None if there is none.

    Raises:
        ConfigError: The object of another package is not a row of this key.
    """
    if key in TABLE or key not in registry.names("learned_metrics"):
        return TABLE.get(key)
    row = registry.load("learned_metrics", key)
    if not isinstance(row, LearnedMetric) or row.key != key:
        raise ConfigError(f"the entry point '{key}' of titjudge.learned_metrics must be a LearnedMetric with this key")
    return row


def rows(status: str | None = None) -> list[LearnedMetric]:
    """List the rows of a status, or all; one of another package that does not load is left out."""
    added = []
    for key in sorted({*registry.names("learned_metrics")} - TABLE.keys()):
        with contextlib.suppress(ConfigError):
            added.append(find(key))
    return [row for row in (*TABLE.values(), *added) if row is not None and status in (None, row.status)]
