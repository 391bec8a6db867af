"""The forms of questions by name, and the content of a store in its form."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from titjudge.apps.label.element_form import Elements
from titjudge.apps.label.elements import MODES as ELEMENT_MODES
from titjudge.apps.label.pair_form import PAIRS, Pairs
from titjudge.apps.label.questions import Form, Labelling
from titjudge.apps.label.store import Store
from titjudge.stats.people.votes import PANEL

__all__ = ["collect", "form_of", "form_of_store"]


def form_of(mode: str, plan: str | None = None, *, both_bad: bool = True) -> Form:
    """Make the form of a mode; `plan` and `both_bad` are for pairs."""
    return Pairs(plan or "all", both_bad=both_bad) if mode == PAIRS else Elements(mode)


def form_of_store(store: Store) -> Form:
    """Make the form of what was asked in a store, with its checks and images."""
    plan = store.setting("plan") or "all"
    form = form_of(plan if plan in ELEMENT_MODES else PAIRS, plan, both_bad=store.setting("both_bad") != str(False))
    store.inform(form)
    return form


def collect(path: Path) -> Labelling:
    """Read a store.

    Raises:
        UserError: There is none.
    """
    with closing(Store(path, create=False)) as store:
        return Labelling(
            path=path,
            form=form_of_store(store),
            seed=int(store.setting("seed") or 0),
            annotators=int(store.setting("annotators") or 0),
            panel=int(store.setting("experts") or PANEL),
            enough=int(store.setting("votes") or 0),
            least=float(store.setting("gold_least") or 0),
            prompts=store.prompts(),
            answers=store.answers(ended=True),
        )
