"""Every script and style of the report is in a list of a page, and every list names what is there."""

from pathlib import Path

from titjudge.report import html

WEB = Path(html.__file__).parent / "web"


def test_every_script_is_in_the_page() -> None:
    assert sorted(html._SCRIPTS) == sorted(file.name for file in WEB.glob("*.js"))


def test_every_style_is_in_a_page() -> None:
    assert sorted(html._STYLES) == sorted(file.name for file in WEB.glob("*.css"))
