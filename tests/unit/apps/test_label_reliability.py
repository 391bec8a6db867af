"""Items whose answer is known: how often a good annotator is stopped, who is stopped, and what becomes of their votes."""

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from labelling_data import make_data
from pages import page_text

from benchmarks.label_stops import ever_stopped
from titjudge.apps.label.dataset import load_dataset
from titjudge.apps.label.element_form import Elements
from titjudge.apps.label.forms import export_labels
from titjudge.apps.label.pair_form import Pairs
from titjudge.apps.label.service import Service, Stale
from titjudge.apps.label.store import Store
from titjudge.cli.commands import run_command
from titjudge.core.errors import DataError, UserError
from titjudge.core.types import Pair
from titjudge.stats.generators.sequential import share_at_most

IMAGES = 14
GOOD, BAD = "annotator-01", "annotator-02"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_data(tmp_path / "data", [name(n) for n in range(IMAGES)], questions=["Is there a cat?", "Is it black?"])


def name(number: int) -> str:
    return f"i{number:02d}.png"


@contextlib.contextmanager
def pairs(data: Path, store: Path, **rules: Any) -> Iterator[Service]:
    """Pairs with eight known answers: the image with the higher number is better."""
    dataset = load_dataset(data)
    dataset.gold = tuple(Pair("p", name(n), name(n + 6), "b") for n in range(8))
    with contextlib.closing(Store(store)) as opened:
        yield Service(dataset, opened, Pairs("merge"), annotators=2, seed=0, **rules)


def answer(service: Service, state: dict[str, Any], right: bool) -> str:
    left, better = (service._images[code] for code in state["sheet"]["images"])
    return "left" if (left > better) == right else "right"


def vote_on(service: Service, who: str, right: bool) -> list[dict[str, Any]]:
    states = [service.state(who)]
    while states[-1]["sheet"]:
        states.append(service.vote(who, states[-1]["question"], answer(service, states[-1], right), note="why"))
    return states


@pytest.mark.parametrize("least", [0.5, 0.7, 0.9])
def test_a_good_annotator_is_stopped_in_at_most_5_percent_of_labellings(least: float) -> None:
    assert 0 < ever_stopped(least, least, 80)[0] <= 0.05
    assert ever_stopped((1 + least) / 2, least, 80)[0] < 0.01
    assert ever_stopped(0.25, least, 80)[0] > 0.9


def test_the_bound_holds_for_images_with_several_known_elements() -> None:
    draw = random.Random(3)
    runs, stopped = 400, 0
    for _ in range(runs):  # the elements of an image are right or wrong together half of the time
        right = 0.0
        for n in range(1, 41):
            chances = [draw.random() < 0.7] * 2 if draw.random() < 0.5 else [draw.random() < 0.7, draw.random() < 0.7]
            right += sum(chances) / 2
            if share_at_most(right, n) < 0.7:
                stopped += 1
                break
    assert stopped / runs <= 0.05


def test_the_bound_is_that_of_a_mixture_worked_by_hand() -> None:
    assert share_at_most(0, 4) == pytest.approx(1 - 0.01**0.25)  # 5 (1 - p)^4 = 0.05
    assert share_at_most(3, 3) == 1.0
    assert share_at_most(1, 2) == pytest.approx(1 - (1 - (1 - 0.05 / 1.5) ** 0.5) / 2)  # 6 p (1 - p) = 0.05


def test_who_is_wrong_on_gold_pairs_is_stopped_and_left_out_and_the_others_go_on(data: Path, tmp_path: Path) -> None:
    store = tmp_path / "v.db"
    with pairs(data, store, gold_share=1 / 3) as service:
        states = vote_on(service, BAD, right=False)
        assert states[-1]["stopped"]
        assert (states[-1]["at_most"], states[-1]["upcoming"]) == (0, [])
        assert len(states) - 1 == service.store.turn(BAD) < 20
        assert {tuple(state) for state in states} == {tuple(states[0])}, "a check looks like any other question"
        for attempt in (service.undo, lambda who, question: service.vote(who, question, "left")):
            with pytest.raises(Stale):
                attempt(BAD, states[-1]["question"])
        good = vote_on(service, GOOD, right=True)
        assert not good[-1]["stopped"]
    with pairs(data, store, gold_share=1 / 3) as service:
        assert service.state(BAD) == states[-1]
    export = export_labels(store, tmp_path / "out")
    result, tables = export.result, export.tables
    people = {person["annotator"]: person for person in result["annotator_details"]}
    assert (people[GOOD]["gold_accuracy"], people[GOOD]["left_out"]) == (1.0, False)
    assert (people[BAD]["gold_accuracy"], people[BAD]["left_out"]) == (0.0, True)
    line = f"left out: {len(states) - 1} votes of {BAD}, who is right in 0 of 4 checks (at most 68 %, at 95 %; asked for: 70 %)"
    assert result["left_out"] == [line]
    assert line in page_text("collect-votes")
    assert any(line in table.notes for table in tables)
    assert (result["votes_expected"], result["annotators"]) == (1, 1)
    assert BAD not in (tmp_path / "out" / "votes.csv").read_text() + (tmp_path / "out" / "battles.jsonl").read_text()
    assert BAD in (tmp_path / "out" / "votes.jsonl").read_text(), "what was voted is kept"
    everyone = export_labels(store, tmp_path / "all", least=0).result
    assert (everyone["left_out"], everyone["annotators"]) == ([], 2)


def test_without_anybody_who_counts_there_is_nothing_to_export(data: Path, tmp_path: Path) -> None:
    with pairs(data, tmp_path / "v.db") as service:
        vote_on(service, BAD, right=False)
    with pytest.raises(UserError, match=f"no votes that count; left out: .* of {BAD}"):
        export_labels(tmp_path / "v.db", tmp_path / "out")


@pytest.mark.parametrize(("share", "every"), [(1 / 3, 3), (0.25, 4), (0.1, 10)])
def test_checks_come_at_the_share_that_is_asked_for(data: Path, tmp_path: Path, share: float, every: int) -> None:
    with pairs(data, tmp_path / "v.db", gold_share=share, gold_least=0) as service:
        vote_on(service, GOOD, right=True)
        kinds = [vote.question.kind for vote in service.store.answers(GOOD)]
    blocks = [kinds[start : start + every] for start in range(0, len(kinds) - every, every)][:8]
    assert blocks
    assert [block.count("gold") for block in blocks] == [1] * len(blocks)


def known_file(tmp_path: Path, *rows: str) -> Path:
    file = tmp_path / "known.csv"
    file.write_text("\n".join(["image,element,value", *rows]) + "\n")
    return file


@contextlib.contextmanager
def marks(data: Path, store: Path, known: Path | None, **rules: Any) -> Iterator[Service]:
    form = Elements("yes-no")
    dataset = form.load(data, known)
    with contextlib.closing(Store(store)) as opened:
        yield Service(dataset, opened, form, annotators=3, seed=0, **rules)


def mark_on(service: Service, who: str, values: list[str]) -> list[str]:
    seen = []
    while (state := service.state(who))["sheet"]:
        seen.append(service._images[state["sheet"]["images"][0]])
        service.vote(who, state["question"], values)
    return seen


def test_who_is_wrong_on_known_elements_is_stopped_and_left_out(data: Path, tmp_path: Path) -> None:
    store, known = tmp_path / "m.db", known_file(tmp_path, *(f"{name(n)},IS THERE A CAT?,yes" for n in range(6)))
    with marks(data, store, known, gold_share=1 / 3) as service:
        seen = mark_on(service, BAD, ["no", "no"])
        assert service.state(BAD)["stopped"]
        assert sum(image < name(6) for image in seen) == 4
        assert len(seen) < IMAGES
        with pytest.raises(Stale):
            service.undo(BAD, service.state(BAD)["question"])
        assert len(mark_on(service, GOOD, ["yes", "no"])) == IMAGES
        mark_on(service, "annotator-03", ["yes", "yes"])
    with marks(data, store, None, gold_share=1 / 3) as service:
        assert service.state(BAD)["stopped"], "what is known outlives a restart without the file"
    result = export_labels(store, tmp_path / "out").result
    assert result["left_out"] == [
        f"left out: {len(seen)} images of {BAD}, who is right in 0 of 4 checks (at most 68 %, at 95 %; asked for: 70 %)"
    ]
    assert BAD not in (tmp_path / "out" / "marks.csv").read_text()
    assert result["rules"] == {"majority": IMAGES, "incomplete": IMAGES}
    assert result["annotator_details"][1]["as_most_others"] == pytest.approx(0.0)


def test_a_rating_is_known_by_a_range(data: Path, tmp_path: Path) -> None:
    form = Elements("rating")
    rows = [f"{name(n)},Quality,8-10" for n in range(6)]
    dataset = form.load(data, known_file(tmp_path, *rows))
    with contextlib.closing(Store(tmp_path / "r.db")) as opened:
        service = Service(dataset, opened, form, annotators=2, seed=0)
        mark_on(service, GOOD, ["9"] * 5)
        mark_on(service, BAD, ["7"] * 5)
        assert (service.stopped(GOOD), service.stopped(BAD)) == (False, True)
    for wrong in ("8-11", "9-7", "0-3"):
        with pytest.raises(DataError, match=f"must be one of 1, 2, .*, not '{wrong}'"):
            form.load(data, known_file(tmp_path, f"{name(0)},Quality,{wrong}"))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "the file has no elements"),
        (["i99.png,Is there a cat?,yes"], r"known.csv:2: 'i99.png' is not in the data"),
        (["i00.png,Is there a cat?,yes", "i00.png,Is there a dog?,yes"], r"known.csv:3: 'i00.png': unknown element"),
        (["i00.png,Is there a cat?,maybe"], r"must be one of yes, no, cannot tell, not 'maybe'"),
        (
            ["i00.png,Is it black?,yes", "i00.png,is it BLACK?,no"],
            r"known.csv:3: 'is it BLACK\?' of 'i00.png' has another value in row 2",
        ),
    ],
)
def test_a_file_of_known_elements_is_checked(data: Path, tmp_path: Path, rows: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message), marks(data, tmp_path / "m.db", known_file(tmp_path, *rows)):
        pass


def test_wrong_shares_are_refused(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flag, value in (("--gold-share", "0.5"), ("--gold-share", "0"), ("--gold-least", "1.5")):
        assert run_command("titjudge", ["label", str(data), "--store", str(tmp_path / "v.db"), flag, value]) == 2
        assert flag in capsys.readouterr().err
