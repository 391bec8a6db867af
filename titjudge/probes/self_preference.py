"""Self-preference: models describe the same images and judge each other's descriptions.

The excess of a judge J is how much higher it scores its own text than another model's text on the same image, beyond
how much higher another judge K does: (own by J - other by J) - (own by K - other by K), each judge's scores in units of
its own span. The other text is that of a third author where there is one, so that K's preference for its own texts does
not enter; with two authors it is K's, and the effect is the sum of both preferences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from titjudge.core.types import Item
from titjudge.probes.battery import ROBUST
from titjudge.probes.item_scorer import Prober
from titjudge.probes.trust_card import Line, line, untested

NAME = "self-preference"
_untested = partial(untested, "is not bribed", NAME, "at most", ROBUST)
Scores = Mapping[str, float]  # item -> score, in spans of the judge
_SAME = {"o": "gpt", "chatgpt": "gpt", "gemma": "gemini", "qwq": "qwen", "qvq": "qwen"}


def family(model: str) -> str:
    """Return the family of `provider/model`: the first word of the model's name, with known aliases as one.

    >>> family("openai/gpt-4o") == family("litellm/openai/o3-mini")
    True
    """
    word = re.match(r"[a-z]*", model.rpartition("/")[2].lower())
    name = word[0] if word else ""
    return _SAME.get(name, name) or model


def excess(scores: Mapping[tuple[str, str], Scores], judge: str, groups: Mapping[str, str]) -> list[tuple[str, float]]:
    """Compute (prompt, excess) of each image.

    Args:
        scores: Scores by (judge, author); every judge is an author, too.
        judge: The judge.
        groups: Item -> prompt.
    """
    judges = {name for name, _ in scores}
    authors = {author for _, author in scores}
    rows = []
    for item, group in groups.items():
        effects = []
        for outsider in judges - {judge}:
            for other in (authors - {judge, outsider}) or {outsider}:
                cells = [scores[who, author].get(item) for who in (judge, outsider) for author in (judge, other)]
                if None not in cells:
                    own_by_judge, other_by_judge, own_by_outsider, other_by_outsider = (cell or 0.0 for cell in cells)
                    effects.append((own_by_judge - other_by_judge) - (own_by_outsider - other_by_outsider))
        if effects:
            rows.append((group, sum(effects) / len(effects)))
    return rows


async def exchange(probed: Prober, items: Sequence[Item], rivals: Sequence[str]) -> Line:
    """Compute the line of the judge that is probed (the role `judge`) against the models of the roles `rivals`.

    Each of these models describes every image and judges every description. The model of the role `captioner` is the
    third author where it is of another family.
    """
    engine = probed.engine
    open_roles = {name: engine.roles[name] for name in ("judge", *rivals)}
    families = {name: family(role.label) for name, role in open_roles.items()}
    others = [name for name in rivals if families[name] != families["judge"]]
    if not others:
        return _untested(note="needs two families: name a second --judge of another family")
    blind = [open_roles[r].label for r in ("judge", *others) if not open_roles[r].provider.capabilities.images]
    if blind:
        return _untested(note=f"{blind[0]} cannot see images, so it writes no descriptions")
    judges = ["judge", *others]
    third = family(engine.roles["captioner"].label) not in [families[name] for name in judges]
    authors = [*judges, "captioner"] if third else judges
    scores: dict[tuple[str, str], Scores] = {}
    reach = {}
    for judge in judges:
        runs = {author: await _judged(probed, items, judge, author) for author in authors}
        span = sum(run.span(items) for run in runs.values()) / len(runs)
        scores |= {(judge, author): _in_spans(run, items, span) for author, run in runs.items()}
        reach[judge] = max(run.reach(span) for run in runs.values())
    rows = excess(scores, "judge", {item.id: item.prompt_id for item in items})
    against = ", ".join(open_roles[role].label for role in others)
    note = f"against {against}" + ("" if third or len(others) > 1 else "; which of the two it is cannot be told")
    return line(
        "is not bribed",
        NAME,
        rows,
        rule="at most",
        limit=ROBUST,
        failed=len(items) - len(rows),
        note=note,
        reach=reach["judge"] + max(reach[name] for name in others),
    )


async def _judged(probed: Prober, items: Iterable[Item], judge: str, author: str) -> Prober:
    engine = probed.engine
    alias = {"captioner": author, "judge": judge}
    run = Prober(engine, probed.name, probed.metric, probed.on_score, alias=alias)
    mark = f"#told by {engine.roles[author].label}, judged by {engine.roles[judge].label}"
    await run.score([replace(item, id=f"{item.id}{mark}") for item in items])
    probed.stopped = probed.stopped or run.stopped
    run.scores = {key.removesuffix(mark): score for key, score in run.scores.items()}
    return run


def _in_spans(run: Prober, items: Sequence[Item], span: float) -> Scores:
    """Return a judge's scores of one author's texts in units of its span, which is the mean over the authors."""
    return {item.id: value / span for item in items if (value := run.value(item)) is not None}
