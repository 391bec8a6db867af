"""An `ask` without models, for benchmarks: what is asked with the template `tit/describe` is answered by the method `_tit_describe`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from titjudge.core import structured_output
from titjudge.core.types import Reply


class ScriptedAsk:
    """Answers by its own methods, one for each template; each gets what the metric has given."""

    protocol, siblings, dry_run = "strict", (), False

    def has_tools(self, role: str) -> bool:
        return False

    def has_role(self, role: str) -> bool:
        return False

    async def __call__(self, template: str, *, schema: Any = None, **given: Any) -> Reply:
        text = getattr(self, "_" + template.replace("/", "_"))(given)
        self.book(template, schema, given, text)
        if schema is None:
            return Reply(text)
        return replace(Reply(text), data=structured_output.validated(text, schema)[0])

    def book(self, template: str, schema: Any, given: dict[str, Any], text: str) -> None:
        """Count a request and its answer."""
        raise NotImplementedError
