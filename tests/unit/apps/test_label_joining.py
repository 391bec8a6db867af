"""People who come by one link and --open cannot be combined with names."""

import contextlib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from labelling_data import make_data

from titjudge.apps.label.dataset import load_dataset
from titjudge.apps.label.forms import export_labels
from titjudge.apps.label.pair_form import Pairs
from titjudge.apps.label.server import Organiser
from titjudge.apps.label.service import Service
from titjudge.apps.label.store import Store
from titjudge.core.errors import DataError, UserError

Served = Callable[..., contextlib.AbstractContextManager[Service]]


@pytest.fixture
def served(tmp_path: Path) -> Served:
    """Serve three images of a prompt by an open link; again and again, with the same store."""
    dataset = load_dataset(make_data(tmp_path / "data", ["a.png", "b.png", "c.png"]))

    @contextlib.contextmanager
    def serve(annotators: Any = 3, *, open_link: bool = True, votes: int = 0) -> Iterator[Service]:
        with contextlib.closing(Store(tmp_path / "v.db")) as store:
            yield Service(dataset, store, Pairs(), annotators=annotators, open_link=open_link, seed=0, votes=votes)

    return serve


def vote(service: Service, who: str, answer: str = "left") -> None:
    service.vote(who, service.state(who)["question"], answer, 4000)


def test_a_new_name_gets_a_key_that_opens_its_page_also_after_a_restart(served: Served) -> None:
    with served() as service:
        card = service.join(" Anna  Maria ")
        assert card["name"] == "Anna Maria"
        assert service.annotator(card["key"]) == "Anna Maria"
        vote(service, "Anna Maria")
    with served() as again:
        assert again.names == ["Anna Maria"]
        assert again.annotator(card["key"]) == "Anna Maria"
        assert again.state("Anna Maria")["done"] == 1


def test_a_name_that_somebody_has_is_asked_about_and_nothing_is_given_away(served: Served) -> None:
    with served() as service:
        key = service.join("Anna")["key"]
        assert service.join("anna") == {"taken": {"name": "Anna", "done": 0, "last": None}}
        vote(service, "Anna")
        answer = service.join("ANNA", "a guess")
        assert (answer["taken"]["name"], answer["taken"]["done"]) == ("Anna", 1)
        assert key not in json.dumps(answer)
        assert service.join("anna", key) == {"name": "Anna", "key": key}, "the browser that took it"
        assert service.names == ["Anna"]


def test_who_says_that_it_is_them_goes_on_and_the_organiser_reads_it(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with served() as service:
        key = service.join("Anna", sure=True)["key"]
        assert caplog.messages == []
        assert service.join("anna", sure=True) == {"name": "Anna", "key": key}
        assert caplog.messages == ["Anna goes on in another browser"]


def test_no_more_people_come_than_may_and_who_has_come_goes_on(served: Served) -> None:
    with served(2) as service:
        key = service.join("anna")["key"]
        service.join("ben")
        with pytest.raises(DataError, match="all 2 places are taken"):
            service.join("chris")
        assert service.join("anna", key)["key"] == key
    with served(3) as service:
        assert service.join("chris")["name"] == "chris"


def test_of_many_who_type_a_name_at_once_one_has_it(served: Served) -> None:
    with served(9) as service, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(service.join, ["anna", "Anna", "ANNA", "aNNa"] * 4))
    assert sum("key" in answer for answer in answers) == 1


def test_who_voted_by_a_link_of_their_own_has_the_name_already(served: Served) -> None:
    with served(["anna", "ben"], open_link=False) as service:
        vote(service, "anna")
        assert service.store.people() == []
    with served() as service:
        assert service.names == ["anna"]
        assert service.join("Anna")["taken"]["done"] == 1
        assert service.join("ben")["name"] == "ben"


def test_the_names_stand_on_the_page_of_the_organiser_and_in_the_export(served: Served, tmp_path: Path) -> None:
    with served() as service:
        before = Organiser(service).overview()
        assert (before["people"], before["seats"]) == ([], 3)
        for name in ("Zoë", "नेहा"):
            service.join(name)
            for _ in range(3):
                vote(service, name)
        assert [one["name"] for one in Organiser(service).overview()["people"]] == ["Zoë", "नेहा"]
    exported = export_labels(tmp_path / "v.db", tmp_path / "out")
    assert [row["annotator"] for row in exported.result["annotator_details"]] == ["Zoë", "नेहा"]
    assert "Zoë" in (tmp_path / "out" / "votes.csv").read_text(encoding="utf-8")
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == sorted(exported.files)


def test_a_pair_should_have_as_many_votes_as_people_have_voted(served: Served, tmp_path: Path) -> None:
    with served(None) as service:
        for name in ("anna", "ben", "chris"):
            service.join(name)
        for name in ("anna", "ben"):
            for _ in range(3):
                vote(service, name, "tie")
    assert export_labels(tmp_path / "v.db", tmp_path / "out").result["votes_expected"] == 2
    with served(3):
        assert export_labels(tmp_path / "v.db", tmp_path / "out").result["votes_expected"] == 3


def test_names_and_an_open_link_exclude_each_other(served: Served) -> None:
    with pytest.raises(UserError, match="--open cannot be combined with names"), served(["anna"]):
        pass


def test_without_an_open_link_nobody_can_come(served: Served) -> None:
    with served(2, open_link=False) as service, pytest.raises(DataError, match="places are taken"):
        service.join("anna")
