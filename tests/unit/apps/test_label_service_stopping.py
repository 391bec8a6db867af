"""An item with enough votes is asked no more; what somebody was looking at counts; agreement is not bent by it."""

import contextlib
import json
import math
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from labelling_data import make_data

from benchmarks.label_stops import alphas
from titjudge.apps.label.dataset import load_dataset
from titjudge.apps.label.element_form import Elements
from titjudge.apps.label.forms import collect, export_labels
from titjudge.apps.label.pair_form import Pairs
from titjudge.apps.label.questions import Question
from titjudge.apps.label.service import Service
from titjudge.apps.label.store import Store
from titjudge.apps.label.votes import decide_pairs
from titjudge.cli.commands import run_command
from titjudge.core.errors import UserError
from titjudge.stats.people.votes import krippendorff_alpha

IMAGES = 6


@pytest.fixture
def data(tmp_path: Path) -> Path:
    names = [f"i{number}.png" for number in range(IMAGES)]
    return make_data(tmp_path / "data", names, questions=["Is there a cat?", "Is it black?"])


@contextlib.contextmanager
def pairs(data: Path, store: Path, annotators: int, votes: int, plan: str = "all") -> Iterator[Service]:
    with contextlib.closing(Store(store)) as opened:
        yield Service(load_dataset(data), opened, Pairs(plan), annotators=annotators, votes=votes, seed=0)


@contextlib.contextmanager
def marks(data: Path, store: Path, annotators: int, votes: int, mode: str = "yes-no") -> Iterator[Service]:
    form = Elements(mode)
    with contextlib.closing(Store(store)) as opened:
        yield Service(form.load(data), opened, form, annotators=annotators, votes=votes, seed=0)


def label_at_random(service: Service, answer: Any) -> None:
    """Annotators in a random order, each an item at a time, until nobody is asked anything."""
    draw, going = random.Random(1), list(service.names)
    while going:
        who = draw.choice(going)
        state = service.state(who)
        if state["sheet"]:
            service.vote(who, state["question"], answer(state, draw))
        else:
            assert state["at_most"] == 0
            going.remove(who)


@pytest.mark.parametrize(("votes", "least"), [(3, 2), (15, 10)])
def test_a_pair_is_asked_until_the_rules_decide_it_or_it_has_its_votes(
    data: Path, tmp_path: Path, votes: int, least: int
) -> None:
    store = tmp_path / "v.db"
    with pairs(data, store, 20, votes) as service:
        label_at_random(service, lambda state, draw: draw.choice(["left", "left", "right", "tie"]))
    found = decide_pairs(collect(store))
    numbers = Counter(cast.pair for cast in found.votes)
    assert len(numbers) == math.comb(IMAGES, 2)
    assert set(numbers.values()) <= set(range(least, votes + 1))
    assert (found.expected, found.summary.rules["incomplete"]) == (votes, 0)
    assert max(Counter(cast.pair for cast in found.early).values()) == least


def test_an_image_is_asked_until_each_element_has_a_majority_or_its_marks(data: Path, tmp_path: Path) -> None:
    store = tmp_path / "m.db"
    with marks(data, store, 9, 3) as service:
        label_at_random(service, lambda state, draw: [draw.choice(["yes", "yes", "no"]) for _ in range(2)])
        numbers = Counter(row.question.images[0] for row in service.store.answers())
    assert len(numbers) == IMAGES
    assert set(numbers.values()) == {2, 3}
    result = export_labels(store, tmp_path / "out").result
    assert result["rules"] == {"majority": 2 * IMAGES}
    with marks(data, tmp_path / "r.db", 5, 2, "rating") as service:
        label_at_random(service, lambda state, draw: [str(draw.randint(1, 10)) for _ in state["sheet"]["elements"]])
        assert Counter(row.question.images[0] for row in service.store.answers()) == {
            f"i{n}.png": 2 for n in range(IMAGES)
        }


def test_without_a_number_everybody_is_asked_everything(data: Path, tmp_path: Path) -> None:
    with pairs(data, tmp_path / "v.db", 4, 0) as service:
        label_at_random(service, lambda state, draw: "left")
        assert len(service.store.answers()) == 4 * math.comb(IMAGES, 2)


def test_a_vote_on_what_others_settled_in_the_meantime_counts_also_after_a_restart(data: Path, tmp_path: Path) -> None:
    store = tmp_path / "v.db"
    with pairs(data, store, 4, 3) as service:
        seen = service.state("annotator-01")
        asked = {service._images[code] for code in seen["sheet"]["images"]}
        for who in ("annotator-02", "annotator-03"):
            while (state := service.state(who))["sheet"]:
                service.vote(who, state["question"], "tie")
        assert service.state("annotator-01")["sheet"] is None
    with pairs(data, store, 4, 3) as service:
        service.vote("annotator-01", seen["question"], "left")
        (vote,) = service.store.answers("annotator-01")
        assert set(vote.question.images) == asked
        assert service.undo("annotator-01", service.state("annotator-01")["question"])["sheet"] is None
    store = tmp_path / "m.db"
    with marks(data, store, 4, 3) as service:
        sheet = service.state("annotator-01")
        for who in ("annotator-02", "annotator-03"):
            while (state := service.state(who))["sheet"]:
                service.vote(who, state["question"], ["yes", "no"])
        assert service.state("annotator-01")["sheet"] is None
    with marks(data, store, 4, 3) as service:
        service.vote("annotator-01", sheet["question"], ["no", "no"])
        (row,) = service.store.answers("annotator-01")
        assert row.question.images[0] == service._images[sheet["sheet"]["images"][0]]


def test_who_is_not_reliable_settles_nothing(data: Path, tmp_path: Path) -> None:
    with marks(data, tmp_path / "m.db", 4, 3) as service:
        service.form.known_values = {f"i{number}.png": {"is there a cat?": "yes"} for number in range(4)}
        for who, values in (("annotator-01", ["no", "no"]), ("annotator-02", ["yes", "no"])):
            while (state := service.state(who))["sheet"]:
                service.vote(who, state["question"], values)
        assert service.state("annotator-01")["stopped"]
        assert service.settled("p") == set()
        while (state := service.state("annotator-03"))["sheet"]:
            service.vote("annotator-03", state["question"], ["yes", "no"])
        assert service.settled("p") == {("i4.png",), ("i5.png",)}
        assert service.state("annotator-04")["at_most"] == 4, "what is known is asked of everybody"


def test_what_an_unreliable_person_had_settled_is_asked_again(data: Path, tmp_path: Path) -> None:
    with marks(data, tmp_path / "m.db", 3, 2) as service:
        for who in ("annotator-01", "annotator-02"):
            for image in ("i0.png", "i1.png"):
                text = json.dumps([(name, "question", "yes") for name in ("Is there a cat?", "Is it black?")])
                service.store.add(who, Question("image", "p", (image,)), text)
        while (state := service.state("annotator-03"))["sheet"]:
            service.vote("annotator-03", state["question"], ["yes", "no"])
        assert state["done"] == IMAGES - 2
        service.form.settled = lambda answers, enough: set()
        service._settled.clear()
        assert service.state("annotator-03")["sheet"], "both images are open again"


def test_agreement_is_that_of_the_first_votes(data: Path, tmp_path: Path) -> None:
    store = tmp_path / "m.db"
    said = {
        "i0.png": ["yes", "yes"],
        "i1.png": ["yes", "no", "yes"],
        "i2.png": ["no", "no"],
        "i3.png": ["no", "yes", "no"],
    }
    with marks(data, store, 3, 3) as service:
        for image, values in said.items():
            for who, value in zip(service.names, values, strict=False):
                marks_text = json.dumps([(name, "question", value) for name in ("Is there a cat?", "Is it black?")])
                service.store.add(who, Question("image", "p", (image,)), marks_text)
    export = export_labels(store, tmp_path / "out")
    result, tables = export.result, export.tables
    first = krippendorff_alpha([[2, 0], [1, 1], [0, 2], [1, 1]] * 2).alpha
    every = krippendorff_alpha([[2, 0], [2, 1], [0, 2], [1, 2]] * 2).alpha
    assert result["alpha"]["all"]["alpha"] == pytest.approx(first)
    assert first != pytest.approx(every, abs=0.05)
    assert any("first 2 votes of each element" in note for table in tables for note in table.notes)


def test_stopping_would_bend_agreement_and_the_first_votes_do_not() -> None:
    """Three people who are right nine times in ten, about things that are so half of the time."""
    every, until, first = alphas(20_000)
    assert every == pytest.approx(0.64, abs=0.015)
    assert first == pytest.approx(0.64, abs=0.015)
    assert until > 0.66


def test_what_cannot_be_stopped_is_refused(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for votes, plan, message in (
        (3, "merge", "--plan all"),
        (5, "all", "votes per item require"),
        (-1, "all", "votes"),
    ):
        with pytest.raises(UserError, match=message), pairs(data, tmp_path / "v.db", 4, votes, plan):
            pass
    arguments = ["label", str(data), "--plan", "merge", "--votes", "3", "--store", str(tmp_path / "v.db")]
    assert run_command("titjudge", arguments) == 2
    assert "--plan all" in capsys.readouterr().err
    with pairs(data, tmp_path / "v.db", 4, 3, "all") as service:
        assert service.state("annotator-01")["sheet"], "what was refused has begun nothing"
