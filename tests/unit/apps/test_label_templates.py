"""The pages and interfaces that are filled from static files."""

import re

import pytest

from titjudge.apps.label.server import rendered


@pytest.mark.parametrize("name", ["pairs", "elements"])
def test_each_part_of_a_page_is_filled_and_each_id_stands_once(name: str) -> None:
    page = rendered(f"{name}.html", page=name)
    assert "[[" not in page
    assert f'src="{name}.js"' in page
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(set(ids)) == len(ids)


def test_values_are_escaped() -> None:
    assert "&lt;b&gt;" in rendered("pairs.html", page="<b>")
