"""The ladder: scenes of 25, 40 or 60 groups with small things, for judges that pass the crowds from one look; its templates.

A group has one attribute that the prompt asks for. An error is one thing, one letter or one exchange in a group, checked by
its pixels and annotated with its place.
"""

from __future__ import annotations

from titjudge.apps.scenes.cabinet import Cabinet
from titjudge.apps.scenes.shelves import Shelves
from titjudge.apps.scenes.stand import Stand
from titjudge.apps.scenes.template import Template

TEMPLATES: dict[str, Template] = {template.name: template for template in (Cabinet(), Stand(), Shelves())}
MIXED = "mixed"  # all templates, in turns


def template_of(name: str, number: int) -> tuple[Template, int]:
    """Return the template of a scene, and its number among the scenes of that template.

    So a mixed set of N templates holds the first scenes that each template alone has with the same seed.
    """
    if name != MIXED:
        return TEMPLATES[name], number
    templates = list(TEMPLATES.values())
    return templates[number % len(templates)], number // len(templates)
