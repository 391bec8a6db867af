"""What the organiser of a labelling sees."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from labelling_data import make_data

from titjudge.apps.label.dataset import load_dataset
from titjudge.apps.label.pair_form import Pairs
from titjudge.apps.label.server import Organiser
from titjudge.apps.label.service import Service
from titjudge.apps.label.store import Store


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    dataset = load_dataset(make_data(tmp_path / "data", ["a.png", "b.png", "c.png"]))
    with contextlib.closing(Store(tmp_path / "v.db")) as store:
        yield Service(dataset, store, Pairs(), annotators=["anna", "ben"], seed=0)


def vote(service: Service, who: str, answer: str) -> None:
    service.vote(who, service.state(who)["question"], answer, 4000)


def test_everybody_is_listed_with_what_they_have_done(service: Service) -> None:
    before = Organiser(service).overview()
    assert "no votes yet" in before["no_tables"]
    vote(service, "anna", "left")
    vote(service, "anna", "tie")
    anna, ben = Organiser(service).overview()["people"]
    assert (anna["name"], anna["done"], anna["seconds"]) == ("anna", 2, 4.0)
    assert (ben["name"], ben["done"], ben["seconds"], ben["last"]) == ("ben", 0, None, None)
    assert anna["left"] + 2 == ben["left"]


def test_answers_that_nobody_can_have_read_and_looked_for_are_counted(tmp_path: Path) -> None:
    dataset = load_dataset(make_data(tmp_path / "data", ["a.png", "b.png", "c.png"], prompt="a cat " * 500))
    with contextlib.closing(Store(tmp_path / "v.db")) as store:
        service = Service(dataset, store, Pairs(), annotators=["anna", "ben", "chris"], seed=0)
        for who, seconds in (("anna", (29, 1, 0.14)), ("ben", (31, 1, 0.6)), ("chris", (None, None, None))):
            for second in seconds:
                took = second and second * 1000
                service.vote(who, service.state(who)["question"], "left", took)
        overview = Organiser(service).overview()
        assert [person["too_fast"] for person in overview["people"]] == [2, 0, 0]
        table = overview["tables"][-1]
        assert [row[table["columns"].index("too fast")] for row in table["rows"]] == ["2", "0", "0"]


def test_the_tables_are_those_of_the_export(service: Service) -> None:
    for who in ("anna", "ben"):
        vote(service, who, "tie")
    overview = Organiser(service).overview()
    assert [table["title"] for table in overview["tables"]] == ["Votes", "Annotators"]
    assert ["Krippendorff's alpha", "–"] in overview["tables"][0]["rows"]


def test_the_link_of_the_organiser_opens_no_page_of_an_annotator(service: Service) -> None:
    assert service.annotator(service.organiser_token) is None
    assert service.organiser_token not in {service.token(name) for name in service.names}
