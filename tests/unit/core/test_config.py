import json
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from titjudge.core.config import Limits, RoleConfig, RunConfig, load_config
from titjudge.core.errors import ConfigError
from titjudge.core.paths import run_schema
from titjudge.runs.folder.identity import default_folder

ISSUE = """
data: examples/known_answer
metrics: [tit, tit-llm]
captioner: {model: openai/gpt-4o, base_url: null, api_key_env: OPENAI_API_KEY, max_tokens: 512, temperature: 0}
judge:     {model: gemini/gemini-2.5-pro, max_tokens: 2048}
embedder:  {model: default}
limits:    {concurrency: 32, max_cost: 5.00, timeout: 120, rpm: null, tpm: null}
prices:    {gpt-4o: {input: 2.5, output: 10.0, cached_input: 1.25}}
cache: cache
out: runs/first
"""


def test_the_shape_of_run_yaml(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(ISSUE)
    config = load_config(tmp_path / "run.yaml")
    assert config.captioner is not None
    assert (config.captioner.provider, config.captioner.model_name) == ("openai", "gpt-4o")
    assert config.captioner.sampling == {"max_tokens": 512, "temperature": 0}
    assert config.limits.max_cost == 5.0
    assert config.prices["gpt-4o"].cached_input == 1.25


def test_flags_go_before_the_file(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(ISSUE)
    config = load_config(
        tmp_path / "run.yaml", {"judge": {"model": "openai"}, "limits": {"max_cost": 1.0, "rpm": None}, "limit": None}
    )
    assert config.judge is not None
    assert (config.judge.model_name, config.judge.max_tokens) == ("gpt-4o", 2048)
    assert (config.limits.max_cost, config.limits.concurrency) == (1.0, 32)


def test_a_role_may_be_a_plain_name() -> None:
    config = load_config(None, {"captioner": "gemini/gemini-2.5-flash"})
    assert config.captioner is not None
    assert config.captioner.model_name == "gemini-2.5-flash"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metricz: [tit]", "unknown key 'metricz'. Did you mean 'metrics'"),
        ("captioner: {model: openai/x, modle: y}", "unknown key 'captioner.modle'. Did you mean 'model'"),
        ("limits: {concurency: 3}", "unknown key 'limits.concurency'. Did you mean 'concurrency'"),
        ("prices: {gpt-4o: {imput: 1, output: 2}}", "unknown key 'prices.gpt-4o.imput'. Did you mean 'input'"),
        ("captioner: {model: openay/gpt-4o}", "unknown provider 'openay'. Did you mean 'openai'"),
        ("metrics: [tti]", "unknown metric 'tti'. Did you mean 'tit'"),
        ("embedder: defalt", "unknown embedder 'defalt'. Did you mean 'default'"),
        ("suite: folders", "unknown suite 'folders'. Did you mean 'folder'"),
        ("captioner: {base_url: http://x}", "'captioner.model' is missing. Give --captioner PROVIDER/MODEL"),
        ("limits: {max_cost: -1}", "limits.max_cost"),
        ("limits: {max_cost: much}", "limits.max_cost"),
        ("[1, 2]", "mapping"),
        ("a: [", "line 1: a bracket is not closed"),
        ("limits: 3", "run.yaml: 'limits': must be a mapping of keys, not 3"),
        ("report: perhaps", "'report': must be a valid boolean, not 'perhaps'"),
    ],
)
def test_one_line_that_says_what_to_mend(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml"):
        load_config(tmp_path / "none.yaml")


def test_every_flag_of_judge_has_its_key() -> None:
    from titjudge.cli.judge import judge
    from titjudge.core.config import Limits, RunConfig

    keys = {*RunConfig.model_fields, *Limits.model_fields, "base_url", "squash", "trust_remote_code"}
    names = {"folder": "data", "provider": "captioner", "price": "prices"}
    not_settings = {
        "json_file",
        "dry_run",
        "config_file",
        "settle",
        "margin",
        "sinks",
        "step",
        "official_files",
        "settings",
    }
    for option in judge.params:
        if (
            option.name not in not_settings and option.expose_value
        ):  # the log's flags are of the command, not of the run
            assert names.get(str(option.name), option.name) in keys, option.name
    assert yaml.safe_load(ISSUE).keys() <= keys


def test_a_flag_says_what_its_key_says() -> None:
    """The flags are made from the source of the configuration, without importing it: both must read the same."""
    from titjudge.cli.judge import judge
    from titjudge.core.config import Limits, RunConfig

    fields = {**RunConfig.model_fields, **Limits.model_fields}
    schema = json.loads(run_schema().read_bytes())
    keys = {**schema["properties"], **schema["$defs"]["Limits"]["properties"]}
    flags = {str(option.name): option for option in judge.params if option.name in fields}
    unset = judge.make_context("judge", []).params
    assert len(flags) > 20
    for name, option in flags.items():
        assert isinstance(option, click.Option)
        assert unset[name] in (None, ()), f"--{name} would hide the key of a file"
        field, text = fields[name], option.help or ""
        if name not in ("out", "metrics"):  # which other commands have too, without the key
            assert text == keys[name]["description"], name
        shown = isinstance(field.default, str | int | float) and field.default is not False
        assert ("[default:" in (option.get_help_record(click.Context(judge)) or ("", ""))[1]) == shown, name


def from_text(folder: Path, text: str, overrides: dict[str, object] | None = None) -> RunConfig:
    (folder / "r.yaml").write_text(text)
    return load_config(folder / "r.yaml", overrides)


def test_a_judge_given_by_a_flag_sends_the_whole_panel_of_the_file_home(tmp_path: Path) -> None:
    config = from_text(tmp_path, "judge: [openai/a, openai/b]", {"judge": {"model": "openai/c"}})
    assert [role.model for role in (config.judge, *config.panel) if role] == ["openai/c"]
    assert len(from_text(tmp_path, "{judge: openai/a, panel: [openai/b]}").panel) == 1


def test_a_key_and_an_address_do_not_travel_to_another_provider(tmp_path: Path) -> None:
    text = "judge: {model: openai/gpt-4o, api_key_env: MY_KEY, base_url: 'http://here/v1', max_tokens: 9}"
    moved = from_text(tmp_path, text, {"judge": {"model": "gemini"}}).judge
    assert moved is not None
    assert (moved.api_key_env, moved.base_url, moved.max_tokens) == (None, None, 9)
    stayed = from_text(tmp_path, text, {"judge": {"model": "openai/gpt-4.1"}}).judge
    assert stayed is not None
    assert (stayed.api_key_env, stayed.base_url) == ("MY_KEY", "http://here/v1")


def test_an_embedder_does_not_go_to_the_vendor_unnoticed_where_the_others_have_an_address(tmp_path: Path) -> None:
    address = {"base_url": "http://x/v1"}
    text = "{captioner: openai/a, judge: gemini/b, embedder: %s}"
    for embedder in ("openai/c", "gemini/c"):
        with pytest.raises(ConfigError, match=f"the embedder {embedder}. Give its address"):
            from_text(tmp_path, text % embedder, address)
    for embedder in (
        "default",
        "'sentence-transformers/c'",
        "{model: openai/c, base_url: 'https://api.openai.com/v1'}",
    ):
        config = from_text(tmp_path, text % embedder, address)
        assert config.embedder.base_url in (None, "https://api.openai.com/v1")
    assert from_text(tmp_path, "{judge: litellm/a/b, embedder: openai/c}", address).embedder.base_url is None


def test_a_base_url_holds_for_the_models_of_the_file_too(tmp_path: Path) -> None:
    config = from_text(tmp_path, "{captioner: recorded, judge: [openai/a, openai/b]}", {"base_url": "http://x/v1"})
    assert [role.base_url for role in (config.captioner, config.judge, *config.panel) if role] == [
        None,
        "http://x/v1",
        "http://x/v1",
    ]
    with pytest.raises(ConfigError, match="base_url requires a captioner"):
        load_config(None, {"captioner": "recorded", "base_url": "http://x/v1"})
    alone = load_config(None, {"base_url": "http://x/v1"})  # of a server that speaks OpenAI's API
    assert [(role.model, role.base_url) for role in (alone.captioner, alone.judge) if role] == [
        ("openai", "http://x/v1")
    ] * 2


def test_squash_is_for_all_models_that_see_images(tmp_path: Path) -> None:
    text = "captioner: openai/gpt-4o\njudge: [openai/a, {model: openai/b, squash: 512}]\nembedder: openai/e\n"
    config = from_text(tmp_path, text, {"squash": 1024})
    assert {name: role.squash for name, role in config.roles.items()} == {
        name: None if name == "embedder" else 1024 for name in config.roles
    }
    with pytest.raises(ConfigError, match="squash"):
        from_text(tmp_path, text, {"squash": 8})


def test_code_that_comes_with_models_is_trusted_where_models_run(tmp_path: Path) -> None:
    text = "{captioner: local/a, judge: [openai/b, {model: vllm/c, options: {dtype: float16}}], embedder: sentence-transformers/d}"
    config = from_text(tmp_path, text, {"trust_remote_code": True})
    assert config.captioner is not None
    assert config.judge is not None
    assert config.captioner.options == config.embedder.options == {"trust_remote_code": True}
    assert config.judge.options == {}
    assert config.panel[0].options == {"dtype": "float16", "trust_remote_code": True}
    assert from_text(tmp_path, text).embedder.options == {}
    with pytest.raises(ConfigError, match="requires a model on this machine"):
        load_config(None, {"captioner": {"model": "openai/a"}, "trust_remote_code": True})


def test_a_key_in_the_place_of_its_name_is_refused_and_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must be the name of an environment variable") as caught:
        from_text(tmp_path, "judge: {model: openai/a, api_key_env: sk-abcdef0123456789}")
    assert "abcdef" not in str(caught.value)


def test_sections_without_content_count_as_absent(tmp_path: Path) -> None:
    assert from_text(tmp_path, "limits:\nprices:\npanel:\njudge:\n") == load_config(None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("judge: [openai/a, openai/b, openai/a]", "given twice"),
        ("{judge: [openai/a, openai/b], quorum: 3}", "quorum 3 is more than the number of judges"),
        ("limits: {max_cost: .inf}", "finite"),
        ("prices: {a: {input: .inf, output: 1}}", "finite"),
    ],
)
def test_what_could_never_hold_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_text(tmp_path, text)


def test_a_metric_named_twice_is_asked_once() -> None:
    assert load_config(None, {"metrics": ["tit", "tit-llm", "tit"]}).metrics == ["tit", "tit-llm"]


def test_a_provider_stands_where_the_command_names_no_model_and_before_the_file(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("captioner: gemini/a\njudge: [gemini/b, gemini/c]\n")
    config = load_config(tmp_path / "run.yaml", {"provider": "openai", "captioner": {"model": "fake/x"}, "judge": None})
    assert config.captioner is not None
    assert config.judge is not None
    assert (config.captioner.model, config.judge.model, config.panel) == ("fake/x", "openai", [])


HOSTILE = (
    "9223372036854775808", "-9223372036854775809", "9" * 5000, "1:59:59:59:59:59:59:59:59:59:59:59:59", f"0x{'f' * 40}",
    "1.0e+300", "1.0e+999", ".nan", "-.inf", "text", "''", "[1, 2]", "{a: {b: [c]}}", "{1: 2}", "{null: 1}", "{2024-01-01: 3}",
    "!!binary aGVsbG8=", "!!set {a, b}", "!!bool x", "!!timestamp abc", '"\\ud83d"', '"a\\0b"', "x" * 5000, "2024-01-01", "null",
)  # fmt: skip
KEYS = [
    *RunConfig.model_fields, *(f"limits.{key}" for key in Limits.model_fields),
    *(f"captioner.{key}" for key in RoleConfig.model_fields), "captioner.options.body", "metric_options.tit-agent.max_looks",
    "suite_options.x", "prices.m.input", "columns.image",
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_a_value_can_be_kept_in_a_manifest_or_is_refused_in_one_short_line(tmp_path: Path, key: str) -> None:
    for value in HOSTILE:
        *above, last = key.split(".")
        content = f"{last}: {value}"
        for name in reversed(above):
            model = "  model: fake/m\n" if name == "captioner" and last != "model" else ""
            content = f"{name}:\n{model}  " + content.replace("\n", "\n  ")
        refused = ""
        try:
            config = from_text(tmp_path, content)
            default_folder(config)  # from all that a manifest holds
        except ConfigError as error:
            refused = str(error)
        assert refused or json.loads(config.model_dump_json()) == config.model_dump(mode="json")
        assert len(refused) < 1000, value[:40]
        assert "\n" not in refused, value[:40]


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"seed": 2**63}, "'seed'"),
        ({"captioner": {"model": "fake/m", "options": {"body": {"seed": 10**6000}}}}, "'captioner.options.body.seed'"),
        ({"metric_options": {"tit": {"x": [1, float("nan")]}}}, "'metric_options.tit.x.1'"),
        ({"suite_options": {"x": b"bytes"}}, "'suite_options.x'"),
        ({"suite_options": {"x": {1: 2}}}, "'suite_options.x'"),
        ({"limits": {"max_cost": 1e300}}, "'limits.max_cost'"),
    ],
)
def test_what_no_manifest_can_hold_is_named_by_its_key_from_python_too(values: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        load_config(None, values)


@pytest.mark.parametrize("columns", ["prompt=invite\u0301", {"prompt": "invite\u0301"}, {"prompt": ["invite\u0301"]}])
def test_names_of_columns_are_compared_in_nfc(columns: Any) -> None:
    assert load_config(None, {"columns": columns}).columns == {"prompt": ["invit\u00e9"]}
