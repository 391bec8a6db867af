"""Charts are drawn once: the page and a file show the same, in colours of their own."""

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from titjudge.core.errors import ConfigError
from titjudge.report.drawing import FILE, Chart, write_chart
from titjudge.report.plots import power_chart
from titjudge.stats.generators.planning import PowerCurve


@pytest.fixture
def chart() -> Chart:
    x = np.arange(2.0, 62.0)
    power = 1 - np.exp(-x / 20)
    return power_chart([PowerCurve("0.02", x, power, power * 0.9, power)], 0.8, "prompts", title="Power of <b>a</b>")


def words(svg: str) -> list[str]:
    return [text.text or "" for text in ElementTree.fromstring(svg).iter() if text.tag.endswith("text")]


def test_the_page_and_a_file_show_the_same(chart: Chart, tmp_path: Path) -> None:
    write_chart(chart, tmp_path / "power.svg")
    written = (tmp_path / "power.svg").read_text(encoding="utf-8")
    assert set(words(chart.svg)) < set(words(written))
    assert set(words(written)) - set(words(chart.svg)) == {"0.02", "Power of <b>a</b>"}  # the page says them around it
    assert FILE.series[0] in written
    assert 'class="s-c0"' in chart.svg
    assert not re.search("#[0-9a-f]{6}", chart.svg)


def test_the_same_numbers_give_the_same_bytes(chart: Chart, tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg", "one.png", "two.png"):
        write_chart(chart, tmp_path / name)
    for suffix in ("svg", "png"):
        assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()
    assert chart.svg == chart.svg


def test_another_suffix_is_an_error(chart: Chart, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.svg or \.png"):
        write_chart(chart, tmp_path / "power.pdf")


def test_the_numbers_of_a_power_curve_stand_with_it(chart: Chart) -> None:
    assert chart.numbers.title == chart.title
    first = chart.numbers.rows[0]
    assert first[:2] == ("0.02", 2)
    assert str(first[2]) == "9.5%"
