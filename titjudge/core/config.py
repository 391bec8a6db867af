"""run.yaml and the flags of the command line as one validated object. Every flag has a key; unknown keys are errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from titjudge.core import registry
from titjudge.core.errors import ConfigError, nearest, rule_of, unknown
from titjudge.core.files import read_yaml
from titjudge.core.names import plain
from titjudge.core.redaction import redact
from titjudge.core.serialization import json_problem
from titjudge.core.types import Json, ProviderSettings, Values


def first_key_problem(error: ValidationError) -> ErrorDetails:
    """Return the first unknown key, as a misspelt one often explains the other problems; otherwise the first problem."""
    problems = error.errors(include_url=False)
    return next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])


def key_place(problem: ErrorDetails, model: type[BaseModel]) -> tuple[str, list[str]]:
    """Return the place of a problem as the file has it, such as `tables.0.title`, and the keys that are known there.

    Pydantic's names of validators and of the branches of a union are not keys, and are left out.
    """
    parts, types = list[str](), list[Any]([model])
    unknown = problem["loc"][-1:] if problem["type"] == "extra_forbidden" else ()
    for part in problem["loc"][: len(problem["loc"]) - len(unknown)]:
        if below := [inner for kind in types for inner in _below(kind, part)]:
            parts.append(str(part))
            types = below
    models = [kind for kind in types if isinstance(kind, type) and issubclass(kind, BaseModel)]
    return ".".join([*parts, *map(str, unknown)]), [name for kind in models for name in kind.model_fields]


def _below(kind: Any, part: int | str) -> Iterator[Any]:
    """Yield the types that a type has at a key or an index."""
    arguments = get_args(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        if part in kind.model_fields:
            yield from _alternatives(kind.model_fields[str(part)].annotation)
    elif isinstance(part, int) and get_origin(kind) in (list, Sequence):
        yield from _alternatives(arguments[0])
    elif isinstance(part, str) and get_origin(kind) in (dict, Mapping):
        yield from _alternatives(arguments[1])


def _alternatives(kind: Any) -> Iterator[Any]:
    """Yield the types of a union; of any other type, the type itself."""
    if get_origin(kind) is Annotated:
        yield from _alternatives(get_args(kind)[0])
    elif get_origin(kind) in (Union, UnionType):
        for alternative in get_args(kind):
            yield from _alternatives(alternative)
    else:
        yield kind


def key_problem(error: ValidationError, model: type[BaseModel], above: str = "") -> str:
    """Describe the first problem: the key, its fault, and for an unknown key the nearest known one.

    Args:
        error: The validation error.
        model: The model.
        above: The place of the whole in its file, with a full stop behind it.
    """
    problem = first_key_problem(error)
    place, fields = key_place(problem, model)
    where = f"{above}{place}"
    if problem["type"] == "extra_forbidden":
        return _unknown_key(where, fields)
    if problem["type"] == "missing":
        return f"'{where}' is missing. Add it"
    return f"{where}: {rule_of(problem)}".removeprefix(": ")


def _unknown_key(place: str, known: Sequence[str]) -> str:
    """Describe an unknown key, with the nearest known one; the known ones are listed if none is near."""
    near = nearest(place.rpartition(".")[2], known)
    return f"unknown key '{place}'.{near}" if near else unknown("key", place, known)


Positive = Annotated[int, Field(gt=0)]
Dollars = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
_SAMPLING = tuple(
    "max_tokens temperature top_p seed thinking_budget thinking_level reasoning_effort detail max_side squash".split()
)
# Roles that neither describe nor judge: flags for captioner and judge leave them alone.
TOOL_ROLES = ("embedder", "detector")
FOR_SEVERAL_ROLES = ("base_url", "trust_remote_code", "squash", "provider")
"""What the overrides of `load_config` can have beside the keys of `RunConfig`."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def flag_of(role: str) -> str:
    """Return the option that names the model of a role, up to the model."""
    return f"--set {role}=" if role == "detector" else f"--{role} "


def _variable(name: str | None) -> str | None:
    if name and not _VARIABLE.fullmatch(name):
        raise ValueError("must be the name of an environment variable that contains the key, not the key")
    return name


class RoleConfig(_Strict):
    """One model in one role. `model` is `provider/model`; a provider alone means its default model."""

    model: str
    """`provider/model`, or a provider alone for its default model."""
    base_url: str | None = None
    """Address of a compatible server; several, comma-separated, share the load. A run keeps to the one it began with, wherever it was set."""
    api_key_env: Annotated[str | None, AfterValidator(_variable)] = None
    """Name of the environment variable with the key (never the key)."""
    max_tokens: Positive | None = None
    """Maximum number of tokens of an answer, without the thinking tokens of the model."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """0 to 2; without it 0 under the strict protocol, the provider's own under the official one."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """Sample from the likeliest tokens with this share of the probability."""
    seed: int | None = None
    """Seed of the model's sampling, if its provider takes one."""
    thinking_budget: int | None = Field(default=None, ge=-1)
    """Most thinking tokens; -1: as many as the model likes."""
    thinking_level: Literal["minimal", "low", "medium", "high"] | None = None
    """How much a Gemini model from 3 on thinks."""
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high"] | None = None
    """How much a reasoning model thinks."""
    detail: Literal["low", "high", "auto"] | None = None
    """Detail in which images are read (OpenAI); low is cheap and coarse."""
    max_side: int | None = Field(default=None, ge=64)
    """Longest side, in pixels, of images as they are sent to a hosted model; larger ones are scaled down."""
    squash: int | None = Field(default=None, ge=64)
    """Side, in pixels, of the square that images with a longer side are squashed into, whatever their shape (Q-Judger: 1024)."""
    top_logprobs: Positive | None = None
    """Number of likeliest tokens to request from a server where probabilities are needed (20; some servers allow only 5)."""
    structured: Literal["auto", "native", "prompt"] = "auto"
    """Answers in JSON: by the server's own schema mode (native), by words in the prompt, or what the model can (auto)."""
    omit: list[str] = Field(default_factory=list)
    """Parameters that this server does not take, for example [top_k, chat_template_kwargs]: neither sent nor recorded."""
    options: Json = Field(default_factory=dict)
    """Provider-specific settings: client (sdk: the vendor's package instead of HTTP), tools (true or false: native tool calls), body (settings that only the server knows, put into each request), dtype, device_map, revision, file, ..."""

    @property
    def provider(self) -> str:
        return self.model.partition("/")[0]

    @property
    def named(self) -> str:
        """The model as the user names it; empty for the provider's default."""
        return self.model.partition("/")[2]

    @property
    def model_name(self) -> str:
        return self.named or registry.default_model(self.provider)

    @property
    def label(self) -> str:
        """`provider/model`, for people."""
        return f"{self.provider}/{self.model_name}" if self.model_name else self.provider

    @property
    def sampling(self) -> Json:
        """The sampling parameters of its requests."""
        return {name: value for name in _SAMPLING if (value := getattr(self, name)) is not None}

    def settings(self, timeout: float, prompts: Path | None = None) -> ProviderSettings:
        return ProviderSettings(
            self.model_name,
            self.base_url or "",
            self.api_key_env or "",
            timeout,
            self.structured,
            self.options,
            prompts,
        )


def _role(value: Any) -> Any:
    return {"model": value} if isinstance(value, str) else value


Role = Annotated[RoleConfig, BeforeValidator(_role, json_schema_input_type=str | RoleConfig)]


class Limits(_Strict):
    concurrency: Annotated[int, Field(gt=0, le=4096)] = 32
    """Maximum number of simultaneous requests for each account."""
    max_cost: Dollars | None = None
    """Hard cap in USD on what the run may spend, over all roles and retries."""
    max_requests: int | None = Field(default=None, ge=0)
    """Hard cap on requests over the whole run."""
    max_tokens: int | None = Field(default=None, ge=0)
    """Hard cap on input and output tokens over the whole run."""
    min_coverage: float | None = Field(default=0.9, ge=0, le=1, allow_inf_nan=False)
    """Least share of images, 0 to 1, that each metric must score, and of questions about them; below it the exit code is 4. With 0 any share will do."""
    timeout: Seconds = Field(default=120, gt=0)
    """Longest time for one request, in seconds."""
    attempts: Positive = 8
    """Requests for one answer that may fail by a fault: HTTP 500, 502, 504, a broken connection, an answer that cannot be read."""
    patience: Seconds = 600
    """Maximum waiting time in seconds for one answer while the server is overloaded (HTTP 429, 503, 529) or, after earlier answers, not reachable."""
    rpm: Positive | None = None
    """Requests a minute the account allows; without it the pace is learned from the server's answers."""
    tpm: Positive | None = None
    """Tokens a minute the account allows."""
    batch: bool = False
    """Use batch jobs of hosted models: half the price, up to a day. Run the command again to collect the answers."""
    batch_poll: Seconds = Field(default=30, gt=0)
    """Seconds between looks at live batch jobs."""
    batch_idle: Seconds = Field(default=2, gt=0)
    """Seconds without a new question after which a batch job is sent."""


class PriceConfig(_Strict):
    """USD per million tokens."""

    input: Dollars
    output: Dollars
    cached_input: Dollars | None = None


def _shard(value: str) -> str:
    number, _, count = value.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise ValueError("must be K/N with K from 1 to N, for example 2/4")
    return f"{int(number)}/{int(count)}"


def _compared(names: Any) -> Any:
    """Return the names of a list of columns as the names of tables are compared; anything else unchanged."""
    return [plain(name) if isinstance(name, str) else name for name in names] if isinstance(names, list) else names


def _columns(value: Any) -> Any:
    """Read `image=A,image=B,prompt=C`, or a mapping whose values are columns or lists of them."""
    if isinstance(value, str):
        columns: dict[str, list[str]] = {}
        for pair in value.split(","):
            role, equals, column = pair.partition("=")
            if not equals or not column.strip():
                raise ValueError(
                    "must be image=COLUMN,prompt=COLUMN,generator=COLUMN,prompt_id=COLUMN,sample=COLUMN,source=COLUMN,mask=COLUMN"
                )
            columns.setdefault(role.strip(), []).append(column)
        value = columns
    if isinstance(value, dict):
        value = {role: _compared([column] if isinstance(column, str) else column) for role, column in value.items()}
        several = [role for role, columns in value.items() if isinstance(columns, list) and len(columns) > 1]
        if doubled := [role for role in several if role not in ("image", "source")]:
            raise ValueError(
                f"only images and sources can have several columns, not the {doubled[0]}. Give it one column"
            )
    return value


_Columns = dict[Literal["image", "prompt", "generator", "prompt_id", "sample", "source", "mask"], list[str]]
Columns = Annotated[_Columns, BeforeValidator(_columns, json_schema_input_type=dict[str, str | list[str]] | str)]


class RunConfig(_Strict):
    """The configuration of a `judge` run; the defaults judge the bundled example."""

    data: Path | None = None
    """Data folder, or one manifest (.jsonl, .json, .csv, .tsv, .xlsx, .parquet, .arrow, .tar, .tar.gz); without it the bundled example."""
    image_root: list[Path] = Field(default_factory=list)
    """A folder outside of DATA whose images the data may name, and to which links may lead."""
    images: str | None = None
    """Paths of images, below DATA if that is given: 'out/{generator}/{prompt_id}_{sample}.png'; needs a prompt file."""
    prompt_file: str | None = None
    """The prompts of `images`, or of a folder with names that contain the ids: FILE[:ID,PROMPT] (csv, tsv, xlsx, json, jsonl, parquet; two columns), or FILE.txt[:NUMBER OF ITS FIRST LINE]."""
    columns: Columns = Field(default_factory=dict)
    """Columns of a table with the images (several: one generator each), prompts, generators, prompt ids, samples and, of
    edits, source images (several: in the order of the instruction) and masks."""
    sources: list[str] = Field(default_factory=list)
    """Where the sources of edits lie, with the fields of `images`: 'src/{prompt_id}.png', below DATA or from here. Several: in the order of the instruction."""
    grid: str | None = None
    """ROWSxCOLUMNS: each image is a grid of several, for example 2x2; its cells are judged as samples of the prompt."""
    per_prompt: str = "mean"
    """Several images of one prompt count in the leaderboard by their mean, the best, or any or all of them being right (any:0.8: from that score on; without it the metric's best)."""
    suite: str = "folder"
    """How the data are read and aggregated; see `suites`."""
    protocol: Literal["official", "strict"] = "strict"
    """official follows the published code, its slips included; strict counts no failure as a score and follows the papers where
    `suites` names no deviation (LongT2IBench: the judge is handed the graph that in the paper it finds itself)."""
    pairs: Path | None = None
    """Human pairs (jsonl or csv), when they are not in the data folder or the run."""
    metrics: list[str] = Field(default_factory=list)
    """Names of metrics, see `metrics`; without them the suite's own."""
    captioner: Role | None = None
    """The vision-language model that describes images; `recorded` replays descriptions.jsonl and answers.jsonl."""
    judge: Role | None = None
    """The language model that compares prompt and description; several make a panel; `recorded` replays answers.jsonl."""
    panel: list[Role] = Field(default_factory=list)
    """Further judges; `judge: [a, b, c]` is short for a judge and a panel."""
    samples: Annotated[int, Field(gt=0, le=1000)] = 1
    """How often each judge is asked the same question; the spread is reported."""
    vote: Literal["mean", "median", "majority"] = "mean"
    """How a panel's votes, or one judge's samples, become one score."""
    quorum: Positive | None = None
    """Judges of a panel that must have answered for it to have a score; without it more than half."""
    embedder: Role = RoleConfig(model="default")
    """The embedding model of TIT-Score: default (inside the package), sentence-transformers/, openai/ or gemini/MODEL."""
    detector: Role | None = None
    """Proposes to tit-agent where things are: zero-shot-object-detection/MODEL on this machine, or any model that answers with boxes."""
    limits: Limits = Limits()
    """Limits of a run: requests in flight, money, tokens, time."""
    prices: dict[str, PriceConfig] = Field(default_factory=dict)
    """USD per million tokens by model, over the bundled table: `{MODEL: {input: 2.5, output: 10}}`."""
    prompts: Path | None = None
    """A folder whose templates replace the bundled ones of the same name."""
    cache: Path | None = None
    """Folder of the answers; without it $TITJUDGE_CACHE, or cache/ of a checkout, or the user's cache."""
    out: Path | None = None
    """The run folder; by default runs/DATA-HASH. Run the command again to resume it."""
    limit: Positive | None = None
    """At most N images, or prompts without images: the first prompts, with all images of each, so that generators can still be compared."""
    limit_seed: int | None = None
    """With `limit`: prompts drawn at random by this seed instead of the first ones."""
    lenient: bool = False
    """Repair malformed JSON answers with json-repair, and flag them."""
    ignore_sources: bool = False
    """Judge edits by metrics that look at the result alone; without it such a metric refuses what has source images."""
    retry_failed: bool = False
    """Repeat requests with refused, cut or unreadable answers. Other failures (outages, timeouts, rejected requests) are repeated without it."""
    canary: bool = False
    """Ask 50 frozen questions first (three times when they are frozen); report a model that has changed."""
    report: bool = True
    """Write report.html at the end, unless there are more than 100,000 images (`report --format folder` writes it then)."""
    shard: Annotated[str, AfterValidator(_shard)] | None = None
    """K/N: only the K-th of every N prompts, with all their images; `merge` joins the run folders. `generate` counts images."""
    engine: Literal["local", "ray"] = "local"
    """ray spreads the prompts over a cluster."""
    ray_address: str | None = None
    """Address of a Ray cluster; `auto`: the one on this machine. By default, one is started for the run."""
    workers: Positive | None = None
    """Number of Ray actors and shards; by default one per GPU or machine."""
    seed: int = 0
    """For everything drawn at random."""
    suite_options: Json = Field(default_factory=dict)
    """An option of the suite, by name."""
    metric_options: dict[str, Json] = Field(default_factory=dict)
    """An option of a metric, such as `max_looks` of tit-agent."""

    @model_validator(mode="after")
    def _fits_in_json(self) -> RunConfig:
        """Check that it can be written to a manifest unchanged."""
        if problem := json_problem(self.model_dump()):
            raise ValueError(problem)
        return self

    @property
    def share(self) -> tuple[int, int]:
        """(first, step): this shard has the prompts first, first + step, ...; (0, 1) is all of them."""
        if self.shard is None:
            return 0, 1
        number, _, count = self.shard.partition("/")
        return int(number) - 1, int(count)

    @property
    def failed(self) -> Literal["keep", "again"]:
        """Whether cached answers that cannot be used are kept or asked for again."""
        return "again" if self.retry_failed else "keep"

    @property
    def judge_roles(self) -> list[str]:
        """Role names of the judge and its panel: judge, judge 2, judge 3, ..."""
        return ["judge", *(f"judge {number}" for number in range(2, len(self.panel) + 2))]

    @property
    def roles(self) -> dict[str, RoleConfig]:
        """The configured roles, by name."""
        names = ("captioner", *self.judge_roles, "embedder", "detector")
        return {name: role for name in names if (role := self.role(name)) is not None}

    def settings_of(self, role: RoleConfig) -> ProviderSettings:
        """Return the settings of the provider of a role's model."""
        return role.settings(self.limits.timeout, self.prompts)

    def role(self, name: str) -> RoleConfig | None:
        """Return a role; a name with a slash is itself a `provider/model`."""
        if "/" in name:
            return RoleConfig(model=name)
        if name.startswith("judge "):
            return self.panel[int(name.removeprefix("judge ")) - 2]
        roles = {"judge": self.judge, "captioner": self.captioner, "embedder": self.embedder, "detector": self.detector}
        return roles.get(name)

    def without_model(self, roles: Iterable[str]) -> list[str]:
        """Return the roles among `roles` that have no model."""
        return [role for role in roles if self.role(role) is None]


def load_config(path: Path | None, overrides: Json | None = None, named: Callable[[str], str] = repr) -> RunConfig:
    """Read a configuration from a YAML file, with the values of `overrides` (nested dicts) that are not None on top.

    `overrides` may also have `provider`, which is captioner and judge if these name none, with its default model. It may
    have `base_url`, the address of the captioner and of hosted judges. It may have `trust_remote_code`, whether models
    that run here may run the code that comes with them, and `squash`, for the captioner and the judges. Relative paths in
    the file are relative to the working directory, as on the command line. `named` writes the place of a wrong value of
    `overrides`.

    Raises:
        ConfigError: The file cannot be read, has an unknown key (the nearest is suggested) or an invalid value.
    """
    content = {} if path is None else read_yaml(path, "a configuration")
    # A key without a value counts as absent.
    values = {key: value for key, value in content.items() if value is not None}
    flags = dict(overrides or {})
    address, trusted, squash, provider = (flags.pop(key, None) for key in FOR_SEVERAL_ROLES)
    if address is not None and not any(
        source.get(role) for source in (flags, values) for role in ("captioner", "judge")
    ):
        provider = provider or "openai"  # which most servers speak
    if provider is not None:
        for name in ("captioner", "judge"):
            role = flags.get(name)
            flags[name] = {"model": provider, **role} if isinstance(role, dict) else role or provider
    try:
        config = RunConfig.model_validate(merge_keys(_split_panel(values), _split_panel(flags)))
        if address is not None:
            config = _set_base_url(config, address)
        if squash is not None:
            config = with_roles(config, {name: {"squash": squash} for name in config.roles if name not in TOOL_ROLES})
        if trusted:
            config = _set_trust_remote_code(config)
    except ValidationError as error:
        raise ConfigError(_explain(error, path, overrides, named)) from error
    for name, model in config.roles.items():
        _check_role(model, "embedders" if name == "embedder" else "providers")
    for metric in (*config.metrics, *config.metric_options):
        registry.check(registry.metric_kind(config.suite), metric)
    registry.check("suites", config.suite)
    _check_panel(config)
    _check_names(config)
    return config.model_copy(update={"metrics": list(dict.fromkeys(config.metrics))})


def _check_names(config: RunConfig) -> None:
    """Refuse folders that cannot be written into a manifest, as archives unpacked on another system have them."""
    names = (config.data, config.prompts, config.pairs, config.images, config.prompt_file, *config.image_root)
    for path in (str(Path(name).resolve()) for name in names if name):
        readable = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        if readable != path:
            raise ConfigError(
                f"the name of {readable} is not UTF-8, so it cannot be written to the manifest. Rename it"
            )


def _check_panel(config: RunConfig) -> None:
    judges = [config.judge, *config.panel] if config.judge else []
    for number, judge in enumerate(judges):
        if judge in judges[:number]:
            raise ConfigError(
                f"the judge {judge.model} is given twice, so its answers would count double. Remove one, or use `samples` to repeat a judge"
            )
    if config.quorum and config.quorum > max(1, len(judges)):
        raise ConfigError(
            f"quorum {config.quorum} is more than the number of judges, {len(judges)}. Lower it, or add judges"
        )


def _split_panel(content: Json) -> Json:
    """Split a list of judges into a judge and its panel; a judge given alone replaces a panel."""
    judge = content.get("judge")
    if isinstance(judge, list) and judge:
        return {**content, "judge": judge[0], "panel": judge[1:]}
    named = isinstance(judge, str) or (isinstance(judge, dict) and judge.get("model") is not None)
    return {**content, "panel": []} if named and content.get("panel") is None else content


def _set_base_url(config: RunConfig, address: str) -> RunConfig:
    """Set the address of the captioner and the judges that are asked over the network."""
    hosted = [name for name, role in config.roles.items() if name not in TOOL_ROLES and _is_hosted(role)]
    if not hosted:
        raise ConfigError("base_url requires a captioner or judge that uses it. Choose a model such as openai/MODEL")
    embedder = config.embedder
    if embedder.base_url is None and embedder.provider in {config.roles[name].provider for name in hosted}:
        raise ConfigError(
            f"base_url applies to captioner and judge, but not to the embedder {embedder.model}. Give its address in a "
            f"configuration file: embedder: {{model: {embedder.model}, base_url: ...}}"
        )
    return with_roles(config, {name: {"base_url": address} for name in hosted})


def _is_hosted(role: RoleConfig) -> bool:
    return registry.needs_model(role.provider) and not registry.uses_device(role.provider)


def _set_trust_remote_code(config: RunConfig) -> RunConfig:
    """Allow the models that run here to run the code that comes with them."""
    local = {name: role for name, role in config.roles.items() if registry.uses_device(role.provider)}
    if not local:
        raise ConfigError(
            "trust_remote_code requires a model on this machine. Use local/, vllm/ or sentence-transformers/MODEL"
        )
    return with_roles(
        config, {name: {"options": {**role.options, "trust_remote_code": True}} for name, role in local.items()}
    )


def with_roles(config: RunConfig, updates: Mapping[str, Values]) -> RunConfig:
    """Replace fields of roles, by role name."""
    roles = {
        name: RoleConfig.model_validate({**role.model_dump(), **updates.get(name, {})})
        for name, role in config.roles.items()
    }
    panel = [roles.pop(name) for name in config.judge_roles[1:]]
    return config.model_copy(update={**roles, "panel": panel})


def _check_role(role: RoleConfig, kind: str) -> None:
    if kind == "providers" and "/" not in role.model and role.provider not in registry.names(kind):
        close = nearest(role.model, registry.names(kind)) or f" For example openai/{role.model}"
        raise ConfigError(f"'{role.model}' has no provider. Write PROVIDER/MODEL (see `providers`).{close}")
    registry.check(kind, role.provider)
    if kind == "providers" and not role.model_name and registry.needs_model(role.provider):
        raise ConfigError(f"'{role.model}' has no model. Write {role.provider}/MODEL")


def merge_keys(base: Json, over: Json) -> Json:
    """Return `base` with the values of `over` that are not None on top, also within dicts."""
    out = dict(base)
    for key, value in over.items():
        if value is None:
            continue
        if isinstance(value, dict):
            old = out.get(key)
            old = {"model": old} if isinstance(old, str) else old if isinstance(old, dict) else {}
            merged = merge_keys(_without_old_provider(old, value), value)
            if merged:
                out[key] = merged
        else:
            out[key] = value
    return out


def _without_old_provider(old: Json, new: Json) -> Json:
    """Return the settings of a role without its provider's settings, if the new settings name another provider.

    Otherwise the key and the address of the one would be used for the other.
    """
    models = old.get("model"), new.get("model")
    providers = {model.partition("/")[0] for model in models if isinstance(model, str)}
    if len(providers) < 2:
        return old
    return {key: value for key, value in old.items() if key not in ("base_url", "api_key_env", "options")}


def _explain(error: ValidationError, path: Path | None, given: Any, named: Callable[[str], str]) -> str:
    """Describe the first problem in one line, with the nearest known key for an unknown one."""
    problem = first_key_problem(error)
    where, fields = key_place(problem, RunConfig)
    prefix = f"{path}: " if path else ""
    if problem["type"] == "extra_forbidden":
        parent, _, key = where.rpartition(".")
        if not parent and key in Limits.model_fields:
            return f"{prefix}unknown key '{key}'. Write it under limits, as limits: {{{key}: ...}}"
        return prefix + _unknown_key(where, fields if parent else [*fields, *Limits.model_fields])
    if problem["type"] == "missing":
        role, _, key = where.partition(".")
        remedy = f"Give {flag_of(role)}PROVIDER/MODEL, or the key in run.yaml" if key == "model" else "Add it"
        return f"{prefix}'{where}' is missing. {remedy}"
    loc, value = problem["loc"], problem.get("input")
    for part in loc:
        given = given.get(part) if isinstance(given, dict) else given
    if where := where or ".".join(map(str, loc)):
        of_file = given is None or isinstance(given, dict) != isinstance(value, dict)
        prefix = f"{prefix}'{where}': " if of_file else f"{named(where)}: "
    # A dict or a list may be long, and contain a secret; the value of api_key_env may be a key.
    hidden = isinstance(value, dict | list) or loc[-1:] == ("api_key_env",)
    return f"{prefix}{rule_of(problem)}{'' if hidden else f', not {redact(repr(value)):.100}'}"
