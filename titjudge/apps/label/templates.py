"""Render the pages in `static`: Jinja, with values in `[[ ]]`."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jinja2

STATIC = Path(__file__).parent / "static"


def rendered(name: str, **values: Any) -> str:
    """Render a file of `static`; values are escaped, and each that it names must be given."""
    return _environment().get_template(name).render(values)


@functools.cache
def _environment() -> jinja2.Environment:
    import jinja2

    return jinja2.Environment(
        variable_start_string="[[",
        variable_end_string="]]",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FileSystemLoader(STATIC),
    )
