"""Six blocks, as in LPG-Bench (TIT-Score paper, 3.1, A.3 and A.6): a paragraph of at least 250 words on a theme."""

from __future__ import annotations

from pydantic import Field

from titjudge.apps.prompt_sets.recipes._drafts import (
    IN_ENGLISH,
    Checked,
    Draft,
    drafted,
    filler,
    flat,
    kept_share,
    not_english,
    words,
)
from titjudge.core import item_meta
from titjudge.core.types import Ask, Item, Json
from titjudge.metrics import task

FEWEST_WORDS = 250
BLOCKS = ("core_subject", "environment", "composition", "lighting", "style", "details")
_KEPT = 0.4  # least share of a block's longer words that the paragraph has; it may put the rest in other words


class Theme(Draft):
    """What is answered to `recipes/theme`."""

    theme: str = Field(min_length=1)


class SixBlocks(Draft):
    """What is answered to `recipes/six_block`."""

    core_subject: str = Field(min_length=1)
    environment: str = Field(min_length=1)
    composition: str = Field(min_length=1)
    lighting: str = Field(min_length=1)
    style: str = Field(min_length=1)
    details: str = Field(min_length=1)
    prompt: str = Field(min_length=1)

    def checked(self) -> Checked:
        """Check length, language and form of the paragraph, and that every block is in it."""
        count = len(words(self.prompt))
        few = [f"it has {count} words, fewer than {FEWEST_WORDS}"] if count < FEWEST_WORDS else []
        left_out = [name for name in BLOCKS if kept_share(self.prompt, getattr(self, name)) < _KEPT]
        return {
            f"at least {FEWEST_WORDS} words": few,
            IN_ENGLISH: not_english(self.prompt),
            "one paragraph": ["it is more than one paragraph"] if "\n\n" in self.prompt else [],
            "all six blocks": [f"the paragraph leaves out the block '{name}'" for name in left_out],
        }


class DraftReview(Draft, title="Review"):
    """What is answered to `recipes/review`."""

    fluent: bool
    consistent: bool
    problems: list[str] = Field(default_factory=list)


@task("six-block", roles=("judge",), source="TIT-Score paper, 3.1, A.3 and A.6; templates ours")
async def six_block(item: Item, ask: Ask) -> list[Json]:
    """Write a prompt of at least 250 words in the six blocks of LPG-Bench, from a theme or a class of themes."""
    theme_class, tags = str(item_meta.THEME_CLASS.get(item, "")), str(item_meta.TAGS.get(item, ""))
    theme = item.prompt
    if item_meta.ABOUT.get(item):  # the seed is a class of themes and no theme
        named = await ask(
            "recipes/theme",
            role="judge",
            schema=Theme,
            planned={"theme": filler(item, 15)},
            theme_class=theme_class,
            about=item_meta.ABOUT.required(item),
            tags=tags,
            number=item_meta.NUMBER.required(item),
        )
        theme = named.data.theme

    async def check(draft: SixBlocks) -> list[str]:
        if problems := flat(draft.checked()):
            return problems
        planned = {"fluent": True, "consistent": True}
        review = (
            await ask("recipes/review", role="judge", schema=DraftReview, planned=planned, prompt=draft.prompt)
        ).data
        if review.fluent and review.consistent:
            return []
        return review.problems or ["the review calls it " + ("inconsistent" if review.fluent else "not fluent")]

    draft = await drafted(
        ask, "recipes/six_block", SixBlocks, check, {"prompt": filler(item, 270)}, theme=theme, tags=tags
    )
    line = {
        "prompt": draft.prompt,
        "theme": theme,
        "theme_class": theme_class,
        "tags": tags,
        "blocks": {name: getattr(draft, name) for name in BLOCKS},
        "checks": [*draft.checked(), "reviewed by the model: fluent, consistent"],
    }
    return [line]
