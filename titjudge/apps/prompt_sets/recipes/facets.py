"""Qwen-Image-Bench (paper, 3.2): write a bilingual prompt, short and long, that tests target facets."""

from __future__ import annotations

from pydantic import Field

from titjudge.apps.prompt_sets.recipes._drafts import (
    Checked,
    Draft,
    bullets,
    drafted,
    filler,
    flat,
    kept_share,
    not_english,
)
from titjudge.apps.prompt_sets.recipes.facet_map import FACETS, by_pillar, mapped
from titjudge.core import item_meta
from titjudge.core.errors import Unanswered
from titjudge.core.types import Ask, Item, Json, Status
from titjudge.core.words import SHORT_EN, SHORT_ZH
from titjudge.metrics import task
from titjudge.metrics.checklist import rubric

_KEPT = 0.6  # least share of the short prompt's longer words that the long one has
_ZH = "图"  # of which a dry run writes Chinese prompts
MOST_MORE = 5  # most facets of the finished prompt beyond its targets (Eq. 4)


class FacetNote(Draft, title="Note"):
    """What in a prompt puts a facet to the test."""

    facet: str
    note: str = Field(min_length=1)


class Bilingual(Draft):
    """A prompt in both languages: what is answered to `recipes/facet_expand`."""

    prompt_en: str = Field(min_length=1)
    prompt_zh: str = Field(min_length=1)

    def checked_texts(self, long: bool) -> Checked:
        """Check length and language of both texts."""
        lengths = [
            f"the {name} prompt has {len(text)} characters, {'not ' if long else ''}more than {most}"
            for name, text, most in (("English", self.prompt_en, SHORT_EN), ("Chinese", self.prompt_zh, SHORT_ZH))
            if (len(text) > most) is not long
        ]
        languages = ["the English prompt is not in English"] if not_english(self.prompt_en) else []
        chinese = sum("\u4e00" <= character <= "\u9fff" for character in self.prompt_zh)
        if chinese < 0.4 * len(self.prompt_zh):
            languages.append("the Chinese prompt is not in Chinese")
        return {"length": lengths, "languages": languages}


class FacetDraft(Bilingual):
    """What is answered to `recipes/facet_draft`."""

    notes: list[FacetNote]

    def checked(self, targets: list[str]) -> Checked:
        """Check the notes and both texts."""
        noted = {note.facet for note in self.notes}
        unnoted = [f"no note on '{facet}'" for facet in targets if facet not in noted]
        return {"a note on each target": unnoted, **self.checked_texts(long=False)}


@task("facets", roles=("judge",), source="Qwen-Image-Bench paper, 3.2, Eq. 1 to 4; templates ours")
async def facets(item: Item, ask: Ask) -> list[Json]:
    """Write a bilingual prompt, short and long, that tests the target facets, and name all facets that it tests."""
    targets = [str(name) for name in item_meta.FACETS.required(item)]
    listed = bullets(f"{name}: {_criterion(name)}" for name in targets)
    tested: dict[bool, dict[str, str]] = {}  # the facets of the short prompt (False) and of the long one (True)

    async def align(draft: Bilingual, long: bool) -> list[str]:
        try:
            tested[long] = await mapped(ask, draft.prompt_en, targets)
        except Unanswered as failure:
            if failure.status is not Status.UNPARSED:
                raise
            return [f"its facets are unknown: {failure.reason}"]
        missing = [f"it does not put '{facet}' to the test" for facet in targets if facet not in tested[long]]
        surplus = len(tested[long]) - len(targets) - MOST_MORE
        if surplus > 0:
            missing.append(f"it puts {len(tested[long])} facets to the test, {surplus} too many")
        return missing

    async def check_short(draft: FacetDraft) -> list[str]:
        return flat(draft.checked(targets)) or await align(draft, long=False)

    async def check_long(draft: Bilingual) -> list[str]:
        return flat(_checked_long(draft, short)) or await align(draft, long=True)

    planned: Json = {"prompt_en": filler(item, 40)[:SHORT_EN], "prompt_zh": _ZH * SHORT_ZH}
    planned["notes"] = [{"facet": name, "note": "planned"} for name in targets]
    short = await drafted(
        ask,
        "recipes/facet_draft",
        FacetDraft,
        check_short,
        planned,
        facets=listed,
        length=f"at most {SHORT_EN} characters in English and at most {SHORT_ZH} in Chinese",
    )
    planned = {"prompt_en": f"{short.prompt_en} {filler(item, 50)}", "prompt_zh": _ZH * 2 * SHORT_ZH}
    long = await drafted(
        ask,
        "recipes/facet_expand",
        Bilingual,
        check_long,
        planned,
        facets=listed,
        prompt_en=short.prompt_en,
        prompt_zh=short.prompt_zh,
        length=f"of more than {SHORT_EN} characters in English and more than {SHORT_ZH} in Chinese",
    )
    notes = {note.facet: note.note for note in short.notes}
    lines = [
        {
            "prompt_id": f"{item.prompt_id}_{'long' if is_long else 'short'}",
            "prompt": draft.prompt_en,
            "prompt_zh": draft.prompt_zh,
            "length": "long" if is_long else "short",
            "pair": item.prompt_id,
            "facets": by_pillar(tested[is_long]),
            "dims_en": "; ".join(tested[is_long]),
            "notes": {name: notes.get(name, note) for name, note in tested[is_long].items()},
            "targets": targets,
            "checks": [*checked, "every target found again", f"at most {MOST_MORE} more"],
        }
        for is_long, draft, checked in (
            (False, short, short.checked(targets)),
            (True, long, _checked_long(long, short)),
        )
    ]
    return lines


def _checked_long(draft: Bilingual, short: Bilingual) -> Checked:
    kept = kept_share(draft.prompt_en, short.prompt_en) >= _KEPT
    return {
        "the short prompt kept": [] if kept else ["it leaves out much of what the short prompt says"],
        **draft.checked_texts(long=True),
    }


def _criterion(name: str) -> str:
    pillar, sub, facet = FACETS[name]
    return rubric()[pillar][sub][facet]
