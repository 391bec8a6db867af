"""Options of metrics: keyword-only parameters of their functions, read as annotated."""

from typing import Annotated, Any

import pytest
from pydantic import Field

from titjudge.core.config import load_config
from titjudge.core.errors import ConfigError
from titjudge.core.types import Ask, Item, Score
from titjudge.metrics import Metric, metric
from titjudge.runs.folder.identity import identity
from titjudge.runs.resolve import load_metrics


@metric("strange", roles=(), range=(0, 1))
async def strange(
    item: Item, ask: Ask, *, depth: Annotated[int, Field(ge=1)] = 3, share: float | None = None, deep: bool = False
) -> Score:
    """A metric of a stranger's."""
    return Score.of(depth, share=share, deep=deep)


@metric("plain", roles=(), range=(0, 1))
async def plain(item: Item, ask: Ask) -> Score:
    """A metric without options."""
    return Score.of(1)


async def run(which: Metric) -> Score:
    return await which(Item("i", "p", None), None)  # type: ignore[arg-type]


def value(which: Metric) -> tuple[Any, ...]:
    import asyncio

    score = asyncio.run(run(which))
    return score.value, score.parts.get("share"), score.parts.get("deep")


def test_options_are_the_keyword_only_parameters() -> None:
    assert strange.defaults == {"depth": 3, "share": None, "deep": False}
    assert plain.defaults == {}
    assert value(strange) == (3, None, False)


def test_values_are_read_as_annotated() -> None:
    given = strange.configured({"depth": "7", "share": "0.5", "deep": "true"})
    assert given.options == {"depth": 7, "share": 0.5, "deep": True}
    assert value(given) == (7, 0.5, True)
    assert strange.options == {}
    assert strange.configured({}) is strange


@pytest.mark.parametrize(
    ("which", "given", "message"),
    [
        (
            strange,
            {"dept": 1},
            r"unknown option 'dept' of strange\. Did you mean 'depth'\? Known: depth \(default 3\), share",
        ),
        (plain, {"depth": 1}, "unknown option 'depth' of plain. Known: none"),
        (strange, {"depth": 0}, "strange.depth must be greater than or equal to 1"),
        (strange, {"depth": "few"}, "strange.depth must be a valid integer"),
        (strange, {"depth": None}, "strange.depth"),
    ],
)
def test_what_does_not_fit_is_named(which: Metric, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        which.configured(given)


def test_a_run_without_options_is_the_run_it_was() -> None:
    config = load_config(None, {"metrics": ["tit-agent"]})
    assert "metric_options" not in identity(config)
    given = load_config(None, {"metrics": ["tit-agent"], "metric_options": {"tit-agent": {"max_looks": 3}}})
    assert identity(given)["metric_options"] == {"tit-agent": {"max_looks": 3}}
    assert load_metrics(given)["tit-agent"].options == {"max_looks": 3}
    assert load_metrics(config)["tit-agent"].options == {}


def test_options_of_other_metrics_are_an_error() -> None:
    config = load_config(None, {"metrics": ["tit"], "metric_options": {"tit-agent": {"max_looks": 3}}})
    with pytest.raises(
        ConfigError, match=r"options are given for tit-agent, but the metrics are tit. Add --metric tit-agent"
    ):
        load_metrics(config)


def test_metrics_lists_the_options_with_their_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    from titjudge.cli.commands import run_command

    assert run_command("titjudge", ["metrics"]) == 0
    told = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "tit-agent.max_looks 8 looks at one image, 1 to 64, the description included" in told
    assert "tit-agent.max_cost - USD for one image; once spent, no further look is taken" in told


def test_an_option_without_a_description_has_none() -> None:
    assert strange.about_options == {"depth": "", "share": "", "deep": ""}
