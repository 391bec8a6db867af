"""What a score was given for: the digest of an item changes with its sources, and only theirs has any."""

from dataclasses import replace
from pathlib import Path

from builders import png

from titjudge.core.serialization import item_from, item_record
from titjudge.core.types import Ask, Item, Score
from titjudge.metrics import metric
from titjudge.runs.folder.run_folder import digest_of, listed_record


@metric("any", roles=("judge",), range=(0, 1))
async def _any(item: Item, ask: Ask) -> Score:
    """Score nothing."""
    return Score.of(1)


def _edit(folder: Path) -> Item:
    sources = (png(folder / "a.png"), png(folder / "b.png"))
    return Item("after.png", "make it blue", png(folder / "after.png").resolve(), sources=sources)


def test_an_edit_is_the_same_after_it_was_written_down(tmp_path: Path) -> None:
    edit = _edit(tmp_path)
    assert item_from(item_record(edit)) == edit


def test_an_item_without_sources_has_the_keys_that_it_always_had(tmp_path: Path) -> None:
    image = replace(_edit(tmp_path), sources=())
    assert {*listed_record(image)} == {"id", "prompt", "image", "generator", "prompt_id", "meta", "stat"}


def test_a_digest_tells_other_sources_their_order_and_a_changed_one_apart(tmp_path: Path) -> None:
    edit = _edit(tmp_path)
    others = [edit, replace(edit, sources=()), replace(edit, sources=edit.sources[::-1])]
    digests = {digest_of(item, _any) for item in others}
    png(edit.sources[1], size=32)
    assert len(digests | {digest_of(edit, _any)}) == 4
