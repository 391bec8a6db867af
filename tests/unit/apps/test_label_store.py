"""Votes on disk, one annotator's questions, and what is refused at the start."""

import contextlib
import itertools
import json
import sqlite3
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from titjudge.apps.label.dataset import LabelingData, load_dataset
from titjudge.apps.label.pair_form import Pairs
from titjudge.apps.label.questions import Question
from titjudge.apps.label.queues import Queue, merge_sort
from titjudge.apps.label.service import Service
from titjudge.apps.label.store import Store
from titjudge.cli.options import say_address
from titjudge.core.errors import DataError, UserError
from titjudge.core.types import Item, Pair
from titjudge.web import http_guard


def dataset(groups: int = 2, images: int = 6, gold: tuple[Pair, ...] = ()) -> LabelingData:
    found = LabelingData(Path("nowhere"))
    for group in range(groups):
        names = tuple(f"g{group}i{number}" for number in range(images))
        found.prompts[f"g{group}"] = f"prompt {group}"
        found.images[f"g{group}"] = names
        found.items |= {name: Item(name, f"prompt {group}", Path(name), prompt_id=f"g{group}") for name in names}
    found.gold = gold
    return found


@pytest.fixture
def store(tmp_path: Path):
    opened = Store(tmp_path / "votes.db")
    yield opened
    opened.close()


def test_votes_and_undos_cannot_be_changed(store: Store) -> None:
    store.add("x", Question("pair", "g", ("a", "b")), "left")
    store.undo("x")
    for statement in ("UPDATE answers SET answer = 'right'", "DELETE FROM answers"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            store._db.execute(statement)


def test_the_file_belongs_to_its_owner_alone(store: Store) -> None:
    assert store.path.stat().st_mode & 0o077 == 0


def test_undo_goes_back_step_by_step(store: Store) -> None:
    for image, answer in (("b", "left"), ("c", "right")):
        store.add("x", Question("pair", "g", ("a", image)), answer)
    store.add("y", Question("pair", "g", ("a", "b")), "tie")
    assert [store.undo("x").text, store.undo("x").text, store.undo("x")] == ["right", "left", None]
    assert store.turn("x") == 4
    assert [vote.annotator for vote in store.answers()] == ["y"]
    assert [vote.stands for vote in store.answers(ended=True)] == [False, False, True]


def test_the_last_row_of_a_person_for_a_question_counts(store: Store) -> None:
    question = Question("image", "g", ("a",))
    for text in ("[1]", "[2]", None, "[3]"):
        store.add("x", question, text)
    store.add("y", question, "[4]")
    assert [(answer.annotator, answer.text) for answer in store.answers()] == [("x", "[3]"), ("y", "[4]")]
    every = [(answer.text, answer.stands, bool(answer.taken_back)) for answer in store.answers("x", ended=True)]
    assert every == [("[1]", False, False), ("[2]", False, True), ("[3]", True, False)]
    assert store.prompts_after(4) == (5, {"g"})


def test_what_was_answered_before_an_undo_is_shown_again_also_after_a_restart(tmp_path: Path) -> None:
    with contextlib.closing(Store(tmp_path / "v.db")) as opened:
        service = Service(dataset(), opened, Pairs(), annotators=1, seed=1)
        (who,) = service.names
        after = service.vote(who, service.state(who)["question"], "left", note="dark")
        shown = service.undo(who, after["question"])
        assert shown["sheet"]["note"] == "dark"
    with contextlib.closing(Store(tmp_path / "v.db")) as opened:
        assert Service(dataset(), opened, Pairs(), annotators=1, seed=1).state(who) == shown


def test_a_store_goes_on_only_as_it_began(store: Store) -> None:
    store.begin(dataset(), plan="merge", seed=1, rules={"annotators": 2})
    with pytest.raises(UserError, match="seed 1, not 2"):
        store.begin(dataset(), plan="merge", seed=2, rules={"annotators": 2})
    with pytest.raises(UserError, match="plan merge, not all"):
        store.begin(dataset(), plan="all", seed=1, rules={"annotators": 2})
    changed = dataset()
    changed.prompts["g0"] = "another text"
    with pytest.raises(DataError, match="'g0' has changed"):
        store.begin(changed, plan="merge", seed=1, rules={"annotators": 2})


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is not a database, and long enough to be read as one " * 20)
    with pytest.raises(UserError, match="not a store"):
        Store(tmp_path / "text.db")
    with pytest.raises(UserError, match="the store of votes does not exist"):
        Store(tmp_path / "absent.db", create=False)


@pytest.mark.parametrize("version", ["3", "5"])
def test_a_store_of_another_version_is_refused(tmp_path: Path, version: str) -> None:
    with contextlib.closing(Store(tmp_path / "v.db")) as store:
        store._read("UPDATE meta SET value = ? WHERE key = 'schema_version'", (version,))
    with pytest.raises(UserError, match=f"version {version}"):
        Store(tmp_path / "v.db")


def test_two_processes_on_one_store_see_each_other(tmp_path: Path) -> None:
    first, second = Store(tmp_path / "votes.db"), Store(tmp_path / "votes.db")
    here, there = (Service(dataset(), opened, Pairs("merge"), annotators=1, seed=1) for opened in (first, second))
    name = here.names[0]
    assert here.state(name) == there.state(name)
    after = here.vote(name, here.state(name)["question"], "left")
    assert there.state(name) == after
    first.close()
    second.close()


@pytest.mark.parametrize("number", [0, 1001])
def test_the_number_of_annotators_is_checked(store: Store, number: int) -> None:
    with pytest.raises(UserError, match="from 1 to 1000"):
        Service(dataset(), store, Pairs("merge"), annotators=number, seed=1)


def test_tokens_differ_and_hold_over_restarts(tmp_path: Path) -> None:
    tokens = []
    for _ in range(2):
        opened = Store(tmp_path / "votes.db")
        voting = Service(dataset(), opened, Pairs("merge"), annotators=15, seed=1)
        tokens.append([voting.token(name) for name in voting.names])
        opened.close()
    assert tokens[0] == tokens[1]
    assert len(set(tokens[0])) == 15


def run_through(ballot: Queue) -> list:
    asked = []
    while (question := ballot.question()) is not None:
        following = ballot.upcoming(question)
        before = ballot.progress()
        asked.append(question)
        ballot.take(question, "left" if question.images[0] > question.images[1] else "right")
        now = ballot.question()
        assert now is None or set(now.images) - set(question.images) <= set(following)
        assert ballot.progress()[0] == before[0] + 1
        assert ballot.progress()[1] < before[1]
    assert ballot.progress()[1] == 0
    return asked


def test_order_and_sides_are_random_and_reproducible() -> None:
    sides = Counter()
    first = run_through(Queue(dataset(8), (3, "one"), merge_sort))
    assert first == run_through(Queue(dataset(8), (3, "one"), merge_sort))
    assert first != run_through(Queue(dataset(8), (3, "two"), merge_sort))
    assert first != run_through(Queue(dataset(8), (4, "one"), merge_sort))
    for question in first:
        sides[question.images[0] < question.images[1]] += 1
    assert min(sides.values()) > len(first) / 4


def test_a_prompt_is_asked_to_its_end_before_the_next() -> None:
    groups = [question.prompt_id for question in run_through(Queue(dataset(4), (3, "one"), merge_sort))]
    assert len([1 for x, y in itertools.pairwise(groups) if x != y]) == 3


def test_gold_pairs_are_mixed_in_once_each() -> None:
    gold = tuple(Pair("g0", "g0i0", f"g1i{number}", "a") for number in range(3))
    ballot = Queue(dataset(4, 8, gold), (3, "one"), merge_sort)
    asked = run_through(ballot)
    places = [place for place, question in enumerate(asked) if question.kind == "gold"]
    assert len(places) == 3
    assert places[0] > 0
    assert {frozenset(asked[p].images) for p in places} == {frozenset((g.a, g.b)) for g in gold}
    for question in reversed(asked):
        ballot.give_back(question)
    assert ballot.question() == asked[0]


def test_gold_pairs_must_be_in_the_data(tmp_path: Path, example: Path) -> None:
    gold = tmp_path / "gold.jsonl"
    line = {"prompt_id": "ka_01", "image_a": "images/6f5e0e843f.jpg", "image_b": "images/gone.jpg", "preference": "a"}
    gold.write_text(json.dumps(line))
    with pytest.raises(DataError, match=r"unknown image 'images/gone\.jpg'"):
        load_dataset(example, gold)
    gold.write_text(json.dumps(line | {"prompt_id": "ka_99"}))
    with pytest.raises(DataError, match="unknown prompt 'ka_99'"):
        load_dataset(example, gold)
    assert len(load_dataset(example, example / "pairs.jsonl").gold) == 36


def test_nothing_to_compare_is_said(tmp_path: Path) -> None:
    Image.new("L", (4, 4)).save(tmp_path / "one.png")
    (tmp_path / "one.txt").write_text("a prompt")
    with pytest.raises(DataError, match="no prompt has two usable images"):
        load_dataset(tmp_path)


def test_a_file_that_is_no_image_is_left_out_with_its_reason(tmp_path: Path) -> None:
    for number, name in enumerate(("a", "b")):
        (tmp_path / name).mkdir()
        Image.new("L", (4, 4), number).save(tmp_path / name / "x.png")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "x.png").write_text("<svg onload=alert(1)>")
    (tmp_path / "x.txt").write_text("a prompt")
    found = load_dataset(tmp_path)
    assert found.images == {"x": ("a/x.png", "b/x.png")}
    assert found.problems == ["c/x.png: the file is SVG, which titjudge does not read. Save it as PNG or JPEG"]


def test_a_taken_port_is_a_user_error() -> None:
    with http_guard.listen("127.0.0.1", 0) as taken, pytest.raises(UserError, match="cannot listen"):
        http_guard.listen("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize(
    ("host", "name", "known"),
    [
        ("127.0.0.1", "127.0.0.1:8000", True),
        ("127.0.0.1", "localhost:9", True),
        ("127.0.0.1", "[::1]:9", True),
        ("127.0.0.1", "192.168.0.7:8000", False),
        ("127.0.0.1", "evil.example", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "[", False),
        ("0.0.0.0", "192.168.0.7:8000", True),
        ("0.0.0.0", "evil.example", False),
        ("labels.example.org", "labels.example.org:80", True),
    ],
)
def test_which_host_names_are_answered(host: str, name: str, known: bool) -> None:
    assert http_guard.Guard(None, host)._known(name) is known


def test_the_usual_port_is_taken_where_it_is_free_and_said_where_it_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    with http_guard.listen("127.0.0.1", 0) as first:
        usual = first.getsockname()[1]
        with http_guard.listen("127.0.0.1", None, usual) as other:
            link = f"{http_guard.address('127.0.0.1', other)}/vote"
            assert other.getsockname()[1] != usual
            say_address([link], link, usual, None)
            assert capsys.readouterr().out.startswith(f"{link}\nport {usual} is in use")
            say_address([link], link, usual, 0)
            assert capsys.readouterr().out == f"{link}\n"
    with http_guard.listen("127.0.0.1", None, usual) as again:
        assert again.getsockname()[1] == usual
        link = f"{http_guard.address('127.0.0.1', again)}/vote"
        say_address([link], link, usual, None)
        assert capsys.readouterr().out == f"{link}\n"
