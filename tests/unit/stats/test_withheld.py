"""Which scores results do not count, by the replies of the whole run."""

import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from titjudge.core.serialization import lean_score, score_record
from titjudge.core.types import Item, Score, Status
from titjudge.stats.scores.withheld import counted, withheld


class Watched(Item):
    """An item that tells whether it is still in memory."""

    __slots__ = ("__weakref__",)


SAME = "The system is at capacity; your upload is in the queue. Try again later, please."


def run(*texts: str, **parts: Any) -> tuple[list[Score], list[str]]:
    """Score an image for each text; every second one is of another generator."""
    items = [
        Item(f"{n}.png", "p", Path(f"{n}.png"), generator="ab"[n % 2], prompt_id=str(n)) for n, _ in enumerate(texts)
    ]
    scores = [
        Score(item.id, "tit", 0.5, parts={"description": text, **parts}, generator=item.generator)
        for item, text in zip(items, texts, strict=True)
    ]
    return withheld(scores, items)


@pytest.mark.parametrize(
    "text",
    [
        SAME,
        "请稍后再试，您的请求正在排队。",
        "Bitte versuchen Sie es später noch einmal.",
        "I would need more context first.",
    ],
)
def test_one_text_about_the_conversation_for_different_images_is_a_refusal(text: str) -> None:
    counted, warnings = run(text, text, "a red dog")
    assert [(score.value, score.status) for score in counted[:2]] == [(None, Status.REFUSED)] * 2
    assert counted[2].value == 0.5
    assert any("a 1 of 2, b 1 of 1" in line for line in warnings)


def test_one_description_for_different_images_counts_and_is_named() -> None:
    counted, warnings = run(*["The image is entirely black."] * 3)
    assert [score.value for score in counted] == [0.5] * 3
    assert any("3 images of 3 prompts" in line for line in warnings)
    assert run("A dog.", "A dog.", "A cat.")[1] == []
    assert run(SAME, "A dog.")[0][0].value == 0.5  # once is no evidence


def test_refusals_are_counted_by_generator() -> None:
    items = [Item(f"{n}", "p", None, generator="ab"[n % 2], prompt_id="p") for n in range(6)]
    scores = [
        Score(item.id, "tit", None if n in (1, 3) else 1.0, Status.REFUSED if n in (1, 3) else Status.OK, generator=item.generator)
        for n, item in enumerate(items)
    ]  # fmt: skip
    both = [*scores, *(replace(score, metric="tit-llm") for score in scores)]
    assert withheld(scores, items)[1] == ["tit: refused images by generator: a 0 of 3, b 2 of 3"]
    assert withheld(both, items)[1] == ["tit, tit-llm: refused images by generator: a 0 of 3, b 2 of 3"]


@pytest.mark.parametrize(
    ("kinds", "counts"),
    [(["denial", "denial"], False), (["affirmation"] * 3, False), (["denial"], True), (["denial", "affirmation"], True), (["", ""], True), (["denial", ""], True),
     (["denial", "denial", ""], False), (["denial", "denial", "", "", ""], True), (["denial", "denial", "affirmation"], True)],
)  # fmt: skip
def test_no_mean_beside_unreadable_replies_of_one_kind(kinds: list[str], counts: bool) -> None:
    items = [Item(f"{n}", "p", None, generator="a", prompt_id="p") for n in range(len(kinds) + 2)]
    scores = [Score(item.id, "questions", 1.0, generator="a") for item in items]
    for n, kind in enumerate(kinds):
        scores[n] = Score(items[n].id, "questions", None, Status.UNPARSED, parts={"unread_as": [kind]}, generator="a")
    counted, warnings = withheld(scores, items)
    assert [score.value for score in counted[-2:]] == ([1.0] * 2 if counts else [None] * 2)
    assert bool(warnings) is not counts


def test_every_reader_of_a_run_counts_the_same_scores() -> None:
    """Leaner scores keep what shows that the whole run refused."""
    items = [Item(f"{n}", "p", Path(f"{n}.png"), generator="ab"[n % 2], prompt_id=str(n)) for n in range(3)]
    scores = [
        Score(item.id, "tit", 0.5, parts={"description": SAME}, generator=item.generator, prompt_id=item.prompt_id)
        for item in items
    ]
    lean = [lean_score(score_record(score), counted=True) for score in scores]
    assert [score.value for score in counted(lean, lambda: items).values()] == [None] * 3
    assert [
        score.status for score in counted([lean_score(score_record(score)) for score in scores], lambda: items).values()
    ] == [Status.REFUSED] * 3
    assert [score.value for score in counted(scores[:1], lambda: items).values()] == [0.5]


def test_whole_items_are_not_kept_while_scores_are_checked() -> None:
    """The prompts and texts of 320,000 items took 430 MB more than their scores."""
    known: list[weakref.ref[Item]] = []
    most = 0

    def items() -> Iterator[Item]:
        nonlocal most
        for n in range(50):
            item = Watched(f"{n}.png", "p", Path(f"{n}.png"), prompt_id=str(n))
            known.append(weakref.ref(item))
            most = max(most, sum(reference() is not None for reference in known))
            yield item

    scores = [Score(f"{n}.png", "tit", 0.5, parts={"description": SAME}) for n in range(50)]
    assert {score.status for score in counted(scores, items).values()} == {Status.REFUSED}
    assert most <= 2
