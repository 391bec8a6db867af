"""Local web servers: labelling, review of prompts, a live view of runs, and rewards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from titjudge.core.lazy import lazy_exports

if TYPE_CHECKING:
    from titjudge.web.label.export import export_labels as export_labels
    from titjudge.web.label.server import serve_label as serve_label
    from titjudge.web.view.server import serve_view as serve_view
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "titjudge.web.label.export": "export_labels",
            "titjudge.web.label.server": "serve_label",
            "titjudge.web.view.server": "serve_view",
        },
    )
