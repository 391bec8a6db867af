"""Flags and the configuration file that they override."""

from pathlib import Path

import pytest

from titjudge.cli.judge import judge
from titjudge.cli.options import RunKeys, option
from titjudge.core.config import RunConfig
from titjudge.core.errors import UserError


def config_of(*arguments: str) -> RunConfig:
    return RunKeys(judge.make_context("judge", list(arguments)).params).config()


@pytest.mark.parametrize("flags", [(), ("--limit", "3")])
def test_a_repeatable_flag_that_is_not_given_leaves_the_key_of_the_file(tmp_path: Path, flags: tuple[str, ...]) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(f"image_root: [{tmp_path}]\nsources: ['src/{{prompt_id}}.png']\n", encoding="utf-8")
    config = config_of("--config", str(file), *flags)
    assert (config.image_root, config.sources) == ([tmp_path], ["src/{prompt_id}.png"])


def test_a_repeatable_flag_replaces_the_key_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("sources: ['src/{prompt_id}.png']\n", encoding="utf-8")
    assert config_of("--config", str(file), "--sources", "a.png", "--sources", "b.png").sources == ["a.png", "b.png"]


def test_a_key_that_the_schema_does_not_have_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("titjudge.cli.options._keys", dict)
    with pytest.raises(LookupError, match=r"key rpm: run `make docs`"):
        option("rpm")


def test_set_reaches_keys_limits_models_and_metrics(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("judge: {model: openai/gpt-4o, top_p: 0.5}\nlimits: {attempts: 2}\n", encoding="utf-8")
    pairs = (
        "samples=3",
        "attempts=4",
        "judge.temperature=0.2",
        "tit-agent.max_looks=5",
        "judge.options.tools=false",
        "lenient=yes",
    )
    config = config_of("--config", str(file), *(word for pair in pairs for word in ("--set", pair)))
    assert (config.samples, config.limits.attempts, config.lenient) == (3, 4, True)
    assert config.judge is not None
    assert (config.judge.top_p, config.judge.temperature, config.judge.options) == (0.5, 0.2, {"tools": False})
    assert config.metric_options == {"tit-agent": {"max_looks": "5"}}


def test_set_leaves_the_model_to_the_options_that_name_it() -> None:
    config = config_of(
        "--provider",
        "openai",
        "--set",
        "captioner.max_tokens=9",
        "--judge",
        "gemini/a",
        "--judge",
        "gemini/b",
        "--set",
        "judge.seed=1",
    )
    assert config.captioner is not None
    assert (config.captioner.provider, config.captioner.max_tokens) == ("openai", 9)
    assert [(role.named, role.seed) for role in (config.judge, *config.panel) if role is not None] == [
        ("a", 1),
        ("b", None),
    ]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("attemps=3", "--set attemps: unknown key. Did you mean 'attempts'?"),
        ("captoner.seed=3", "--set captoner.seed: unknown key. Did you mean 'captioner'?"),
        ("captioner.sed=3", "unknown key 'captioner.sed'. Did you mean 'seed'?"),
        ("attempts=many", "--set limits.attempts: must be a valid integer, not 'many'"),
        ("vote=loud", "--set vote: must be 'mean', 'median' or 'majority', not 'loud'"),
        ("squash=5", "--set squash: must be greater than or equal to 64, not '5'"),
        ("trust_remote_code=maybe", "--set trust_remote_code must be yes or no, not 'maybe'"),
        ("max_cost=3", "--set max_cost: use the option --max-cost of this command instead"),
        ("limits.max_cost=3", "use the option --max-cost"),
        ("samples", "--set must be KEY=VALUE, not 'samples'"),
        ("prices=[", "--set prices: line 1: a bracket is not closed"),
        ("limits=3", "--set limits: must be a mapping of keys, not '3'"),
        ("captioner.sampling=3", "unknown key 'captioner.sampling'. Known: model, base_url"),
        ("captioner.omit=temperature", "must be a list, such as [a, b], not 'temperature'"),
    ],
)
def test_set_refuses_what_is_no_key_or_no_value_of_it(given: str, says: str) -> None:
    with pytest.raises(UserError) as refused:
        config_of("--captioner", "openai/a", "--set", given)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "given", ["{}", "{}=1", "{}.seed=1", "captioner.temperature={}", "captioner.options.api_key=[{}", "prices={}"]
)
def test_set_does_not_print_a_key(given: str) -> None:
    key = "sk-proj-" + 20 * "a1"
    with pytest.raises(UserError) as refused:
        config_of("--captioner", "openai/a", "--set", given.format(key))
    assert key not in str(refused.value)


def test_a_key_given_twice_is_refused_with_both_values() -> None:
    with pytest.raises(UserError) as refused:
        config_of(
            "--captioner", "openai/a", "--set", "captioner.seed=1", "--set", f"captioner.seed=sk-proj-{20 * 'a1'}"
        )
    assert str(refused.value).startswith("--set captioner.seed is given twice, as '1' and '[key]'. Remove one")


def test_a_wrong_value_is_named_by_where_it_was_given(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("captioner: {model: openai/a, max_tokens: 0}\n", encoding="utf-8")
    for options, place in (
        (("--set", "captioner.max_tokens=-1"), "--set captioner.max_tokens: "),
        (("--set", "captioner.max_tokens=9", "--concurrency", "0"), "--concurrency: "),
        ((), f"{file}: 'captioner.max_tokens': "),
    ):
        with pytest.raises(UserError) as refused:
            config_of("--config", str(file), *options)
        assert str(refused.value).startswith(place)
