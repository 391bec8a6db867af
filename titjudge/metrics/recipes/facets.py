"""Qwen-Image-Bench (paper, 3.2): target facets become a bilingual prompt, short or long, with the facets it puts to the test."""

from __future__ import annotations

from pydantic import Field

from titjudge.core.errors import Unanswered
from titjudge.core.types import Ask, Item, Score, Status
from titjudge.metrics import metric
from titjudge.metrics.checklist import rubric
from titjudge.metrics.facet_map import FACETS, by_pillar, mapped
from titjudge.metrics.recipes._drafts import Checked, Draft, bullets, drafted, filler, flat

SHORT_EN, SHORT_ZH = 235, 70  # characters that a short prompt has at most, and a long one more
MOST_MORE = 5  # facets of the finished prompt beyond those aimed at (Eq. 4)


class Note(Draft):
    """What in a prompt puts a facet to the test."""

    facet: str
    note: str = Field(min_length=1)


class FacetDraft(Draft):
    """What is answered to `recipes/facet_draft`."""

    prompt_en: str = Field(min_length=1)
    prompt_zh: str = Field(min_length=1)
    notes: list[Note]

    def checked(self, targets: list[str], long: bool) -> Checked:
        """Name the checks by code, and what each sees is wrong."""
        noted = {note.facet for note in self.notes}
        lengths = [
            f"the {name} prompt has {len(text)} characters, {'not ' if long else ''}more than {most}"
            for name, text, most in (("English", self.prompt_en, SHORT_EN), ("Chinese", self.prompt_zh, SHORT_ZH))
            if (len(text) > most) is not long
        ]
        languages = []
        chinese = sum("\u4e00" <= character <= "\u9fff" for character in self.prompt_zh)
        if chinese < 0.4 * len(self.prompt_zh):
            languages.append("the Chinese prompt is not in Chinese")
        if not self.prompt_en.isascii() and sum(map(str.isascii, self.prompt_en)) < 0.9 * len(self.prompt_en):
            languages.append("the English prompt is not in English")
        return {
            "a note on each target": [f"no note on '{facet}'" for facet in targets if facet not in noted],
            "length": lengths,
            "languages": languages,
        }


@metric("facets", roles=("judge",), range=(0, 1), source="Qwen-Image-Bench paper, 3.2, Eq. 1 to 4; templates ours")
async def facets(item: Item, ask: Ask) -> Score:
    """Write a bilingual prompt that puts the target facets to the test, and name the facets it does."""
    targets, long = [str(each) for each in item.meta["facets"]], item.meta["length"] == "long"
    found: dict[str, str] = {}

    async def check(draft: FacetDraft) -> list[str]:
        if problems := flat(draft.checked(targets, long)):
            return problems
        found.clear()
        try:
            found.update(await mapped(ask, draft.prompt_en))
        except Unanswered as failure:
            if failure.status is not Status.UNPARSED:
                raise
            return [f"which facets it puts to the test cannot be said: {failure.reason}"]
        left = [f"it does not put '{facet}' to the test" for facet in targets if facet not in found]
        over = len(found) - len(targets) - MOST_MORE
        return left + ([f"it puts {len(found)} facets to the test, {over} too many"] if over > 0 else [])

    length = (
        f"more than {SHORT_EN} characters in English and more than {SHORT_ZH} in Chinese"
        if long
        else f"at most {SHORT_EN} characters in English and at most {SHORT_ZH} in Chinese"
    )
    listed = bullets(f"{name}: {_criterion(name)}" for name in targets)
    draft = await drafted(
        ask, "recipes/facet_draft", FacetDraft, check, {"prompt_en": filler(item, 40)}, facets=listed, length=length
    )
    if ask.dry_run is not None:
        await mapped(ask, draft.prompt_en)
    return Score.of(
        1,
        prompt=draft.prompt_en,
        prompt_zh=draft.prompt_zh,
        length=item.meta["length"],
        facets=by_pillar(found),
        dims_en="; ".join(found),
        notes={**found, **{note.facet: note.note for note in draft.notes if note.facet in found}},
        targets=targets,
        checks=[*draft.checked(targets, long), "every target found again", f"at most {MOST_MORE} more"],
    )


def _criterion(name: str) -> str:
    pillar, sub, facet = FACETS[name]
    return rubric()[pillar][sub][facet]
