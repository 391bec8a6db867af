"""Marks of single images: elements, what locks what, the page over HTTP, kill -9, majority and agreement, comparing a run."""

import contextlib
import csv
import http.client
import json
import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from commands import Started, serving
from PIL import Image

from titjudge.apps.label.dataset import Element
from titjudge.apps.label.element_form import Elements
from titjudge.apps.label.elements import check_values, decide, elements_of, read_marks
from titjudge.apps.label.forms import export_labels
from titjudge.apps.label.service import Service, Stale
from titjudge.apps.label.store import Store
from titjudge.cli.commands import run_command
from titjudge.core.errors import DataError, UserError
from titjudge.core.types import Item
from titjudge.metrics.checklist import rubric

ROOT = Path(__file__).resolve().parents[3]
GRAPH: dict[str, list[Any]] = {
    "entities": ["cat", "mat", "window"],
    "attributes": [["Cat", "black"], ["mat", "red"], ["dog", "loud"]],
    "relations": [["cat", "on", "mat"], ["mat", "by", "window"]],
}
QUESTIONS = ["Is there a cat?", "Is the mat red?"]
SERVE = """
import sys
from pathlib import Path
from titjudge.apps.label import Rules
from titjudge.apps.label.server import serve_label
from titjudge.web import PageAddress
data, store, mode, port = sys.argv[1:]
serve_label(Path(data), annotators=2, store=Path(store), rules=Rules(mode), at=PageAddress(port=int(port)),
            ready=lambda links: print(*links, flush=True))
"""


def make_data(folder: Path, images: int = 3, **more: Any) -> Path:
    folder.mkdir()
    names = [f"g{number}.png" for number in range(images)]
    for name in names:
        Image.new("L", (8, 8)).save(folder / name)
    prompt = {"prompt_id": "p", "prompt": "a cat", "questions": QUESTIONS, "graph": GRAPH, **more}
    (folder / "prompts.jsonl").write_text(json.dumps(prompt) + "\n")
    lines = [json.dumps({"image": name, "prompt_id": "p", "generator": name[:2]}) for name in names]
    (folder / "images.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_data(tmp_path / "data")


@contextlib.contextmanager
def marking(data: Path, store: Path, mode: str, annotators: int = 2) -> Iterator[Service]:
    form = Elements(mode)
    with contextlib.closing(Store(store)) as opened:
        yield Service(form.load(data), opened, form, annotators=annotators, seed=0)


def values_of(elements: tuple[Element, ...], values: object) -> dict[str, str]:
    return {name: value for name, _, value in check_values(elements, values)}


def names(mode: str, **meta: Any) -> list[str]:
    return [element.name for element in elements_of(Item("i", "p", None, meta=meta), mode)]


def test_elements_are_named_as_compare_elements_reads_them() -> None:
    assert names("yes-no", questions=[*QUESTIONS, "is there a CAT?"]) == QUESTIONS
    facet = next(f"{p} / {s} / {f}" for p, subs in rubric().items() for s, facets in subs.items() for f in facets)
    assert names("facets")[0] == facet
    assert len(names("facets")) == 56
    assert names("facets", facets={"Quality": [["Detail", "Noise"]]}) == ["Quality / Detail / Noise"]
    assert names("graph", graph=GRAPH)[-3:] == ["dog | loud", "cat | on | mat", "mat | by | window"]
    assert names("rating") == list(rubric())


@pytest.mark.parametrize(
    ("mode", "meta", "message"),
    [
        ("yes-no", {}, "no questions"),
        ("yes-no", {"questions": "Is it?"}, "must be a list of texts that are not empty, not 'Is"),
        ("yes-no", {"questions": ["\ud800"]}, "not valid UTF-8"),
        ("graph", {}, "no graph"),
        ("graph", {"graph": {"entities": ["a"], "relations": [["a", "on"]]}}, "does not have the form"),
        ("facets", {"facets": {"Quality": [["Detail", "Shine"]]}}, "no facet 'Quality / Detail / Shine'"),
    ],
)
def test_an_item_without_its_elements_says_why(mode: str, meta: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        names(mode, **meta)


def test_a_locked_element_is_never_yes_nor_does_a_majority_make_it_so() -> None:
    draw = random.Random(7)
    for _ in range(300):
        things = [f"e{number}" for number in range(draw.randint(1, 5))]
        graph: dict[str, list[Any]] = {
            "entities": things,
            "attributes": [[draw.choice([*things, "stranger"]).upper(), f"a{n}"] for n in range(draw.randint(0, 4))],
            "relations": [[draw.choice(things), f"r{n}", draw.choice(things)] for n in range(draw.randint(0, 4))],
        }
        elements = elements_of(Item("i", "p", None, meta={"graph": graph}), "graph")
        people = [
            values_of(elements, [draw.choice(["yes", "no"]) for _ in elements]) for _ in range(draw.randint(1, 5))
        ]
        most = {e.name: decide(Counter(person[e.name] for person in people))[1] for e in elements}
        votes: list[dict[str, Any]] = [*people, most]
        for said in votes:
            for element in elements:
                if any(said[parent] == "no" for parent in element.needs):
                    assert said[element.name] != "yes"
        for element in elements:
            ends = {word.casefold() for word in element.name.split(" | ")}
            assert set(element.needs) == (ends & set(things) if element.kind != "entity" else set())


def test_a_locked_element_needs_no_value_and_every_other_does() -> None:
    elements = elements_of(Item("i", "p", None, meta={"graph": GRAPH}), "graph")
    said = values_of(elements, ["no", "yes", "yes", None, "yes", "yes", "yes", "yes"])
    assert list(said.values()) == ["no", "yes", "yes", "no", "yes", "yes", "no", "yes"]
    for wrong in (["yes"] * 7, ["yes"] * 7 + [None], ["yes"] * 7 + ["1"], ["yes"] * 7 + [["yes"]], "yes", None):
        with pytest.raises(DataError):
            check_values(elements, wrong)


def test_what_is_sent_stands_is_taken_back_and_comes_again(data: Path, tmp_path: Path) -> None:
    with marking(data, tmp_path / "m.db", "yes-no") as service:
        state = service.state("annotator-01")
        assert (state["done"], state["at_most"]) == (0, 3)
        after = service.vote("annotator-01", state["question"], ["yes", "cannot tell"], 1200, " a shadow \n")
        with pytest.raises(Stale):
            service.vote("annotator-01", state["question"], ["no", "no"])
        back = service.undo("annotator-01", after["question"])
        assert back["sheet"]["images"][0] == state["sheet"]["images"][0]
        assert [element["value"] for element in back["sheet"]["elements"]] == ["yes", "cannot tell"]
        assert back["sheet"]["note"] == "a shadow"
        with pytest.raises(DataError, match="'Is the mat red"):
            service.vote("annotator-01", back["question"], ["yes", None])
        while state["sheet"]:
            state = service.state("annotator-01")
            if state["sheet"]:
                service.vote("annotator-01", state["question"], ["no", "no"])
        assert (state["done"], state["at_most"], state["upcoming"]) == (3, 0, [])
        assert service.state("annotator-02")["done"] == 0
    with marking(data, tmp_path / "m.db", "yes-no") as service:
        assert service.state("annotator-01") == state
        back = service.undo("annotator-01", state["question"])
        assert service.undo("annotator-01", back["question"])["done"] == 1


def test_a_store_goes_on_with_its_mode_and_its_elements_alone(data: Path, tmp_path: Path) -> None:
    store = tmp_path / "m.db"
    with marking(data, store, "yes-no") as service:
        service.vote("annotator-01", service.state("annotator-01")["question"], ["no", "no"])
    with pytest.raises(UserError, match="started with plan yes-no, not graph"), marking(data, store, "graph"):
        pass
    changed = make_data(tmp_path / "changed", questions=["Is there a dog?"])
    with pytest.raises(DataError, match=r"the elements of 'g\d.png' have changed"), marking(changed, store, "yes-no"):
        pass


def test_an_image_that_cannot_be_shown_is_left_out(data: Path, tmp_path: Path) -> None:
    with marking(data, tmp_path / "m.db", "rating") as service:
        first = service.state("annotator-01")["sheet"]["images"][0]
        service.drop(first, "broken")
        state = service.state("annotator-01")
        assert state["at_most"] == 2
        assert state["sheet"]["images"][0] != first


def mark_all(data: Path, store: Path, mode: str, people: list[Any]) -> None:
    """Every annotator gives the same values for every image."""
    with marking(data, store, mode, len(people)) as service:
        for number, values in enumerate(people, 1):
            who = f"annotator-{number:02d}"
            while (state := service.state(who))["sheet"]:
                service.vote(who, state["question"], values, 1000)


def table(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_the_majority_of_three_decides_and_the_rest_is_open(data: Path, tmp_path: Path) -> None:
    mark_all(data, tmp_path / "m.db", "yes-no", [["yes", "yes"], ["yes", "no"], ["no", "cannot tell"]])
    export = export_labels(tmp_path / "m.db", tmp_path / "out")
    result, tables = export.result, export.tables
    assert result["rules"] == {"majority": 3, "needs experts": 3}
    decided, left = table(tmp_path / "out" / "elements.csv"), table(tmp_path / "out" / "open.csv")
    assert {(row["element"], row["value"], row["rule"]) for row in decided} == {(QUESTIONS[0], "yes", "majority")}
    assert {(row["element"], row["value"], row["rule"]) for row in left} == {(QUESTIONS[1], "", "needs experts")}
    assert len(table(tmp_path / "out" / "marks.csv")) == 18
    assert set(json.loads((tmp_path / "out" / "marks.jsonl").read_text().splitlines()[0])) >= {
        "image", "element", "value", "annotator"
    }  # fmt: skip
    assert [person["as_most_others"] for person in result["annotator_details"]] == [None, None, 0.0]
    assert {found.title for found in tables} == {"Elements", "Agreement", "Annotators"}


def test_an_image_that_most_discard_is_in_no_decision(data: Path, tmp_path: Path) -> None:
    store = tmp_path / "m.db"
    with marking(data, store, "yes-no", 3) as service:
        shown = {}
        for who, discarded in (
            ("annotator-01", {"g0.png", "g1.png"}),
            ("annotator-02", {"g0.png"}),
            ("annotator-03", set()),
        ):
            while (state := service.state(who))["sheet"]:
                (image,) = (service._images[code] for code in state["sheet"]["images"])
                for wrong in ({"discard": " "}, {"discard": 1}, {"discard": "x", "more": 1}, {}):
                    with pytest.raises(DataError):
                        service.vote(who, state["question"], wrong)
                answer = {"discard": "distorted"} if image in discarded else ["yes", "no"]
                shown = service.vote(who, state["question"], answer, 1000)
        back = service.undo(who, shown["question"])
        assert back["sheet"]["elements"][0]["value"] == "yes"
        service.vote(who, back["question"], ["yes", "no"])
    result = export_labels(store, tmp_path / "out").result
    assert result["discarded"] == 1
    assert table(tmp_path / "out" / "discarded.csv") == [
        {"image": "g0.png", "votes": "2", "of": "3", "reasons": "distorted; distorted"}
    ]
    assert {row["image"] for row in table(tmp_path / "out" / "elements.csv")} == {"g1.png", "g2.png"}
    assert "g0.png" not in (tmp_path / "out" / "open.csv").read_text()
    assert len(table(tmp_path / "out" / "marks.csv")) == 2 * (3 * 3 - 3)  # every mark is kept
    with marking(data, store, "yes-no", 3) as service:  # the store goes on
        assert service.state("annotator-01")["at_most"] == 0


def test_enough_discards_end_the_questions_about_an_image(data: Path, tmp_path: Path) -> None:
    form = Elements("yes-no")
    with contextlib.closing(Store(tmp_path / "m.db")) as store:
        service = Service(form.load(data), store, form, annotators=4, seed=0, votes=3)
        for who in ("annotator-01", "annotator-02"):
            while (state := service.state(who))["sheet"]:
                service.vote(who, state["question"], {"discard": "not safe"})
        assert service.state("annotator-03")["at_most"] == 0
    assert export_labels(tmp_path / "m.db", tmp_path / "out").result["discarded"] == 3  # nothing else is left
    assert table(tmp_path / "out" / "discarded.csv")[0]["reasons"] == "not safe; not safe"


def test_while_people_are_missing_only_a_safe_majority_counts() -> None:
    assert decide(Counter(yes=1)) == ("incomplete", None)
    assert decide(Counter(yes=2)) == ("majority", "yes")
    assert decide(Counter(yes=2, no=2)) == ("needs experts", None)
    assert decide(Counter(yes=2, no=1), annotators=5) == ("incomplete", None)


def test_alpha_is_told_by_type_and_ratings_go_by_distance(data: Path, tmp_path: Path) -> None:
    mark_all(data, tmp_path / "g.db", "graph", [["yes"] * 8, ["yes"] * 7 + ["no"], ["no", *["yes"] * 7]])
    result = export_labels(tmp_path / "g.db", tmp_path / "g").result
    assert set(result["alpha"]) == {"all", "entity", "attribute", "relation"}
    assert result["alpha"]["entity"]["alpha"] == pytest.approx(0.0, abs=0.2)
    near, far = ([["5", "2", "9", "7", "3"], each] for each in (["6", "3", "10", "8", "4"], ["10", "7", "4", "2", "8"]))
    found = []
    for name, people in (("near", near), ("far", far)):
        mark_all(data, tmp_path / f"{name}.db", "rating", people)
        result = export_labels(tmp_path / f"{name}.db", tmp_path / name).result
        found.append(result["alpha"]["all"]["alpha"])
    assert found[0] > 0.8 > 0 > found[1]
    rows = table(tmp_path / "near" / "ratings.csv")
    assert [rows[0][pillar] for pillar in rubric()] == ["5.5", "2.5", "9.5", "7.5", "3.5"]
    assert (rows[0]["score"], rows[0]["annotators"], len(rows)) == ("5.7", "2", 3)


def test_interval_alpha_is_that_of_the_textbook() -> None:
    """Two observers, values 1 to 3: worked by hand from the matrix of coincidences."""
    from titjudge.stats.people.votes import krippendorff_alpha

    counts = [[2, 0, 0], [1, 1, 0], [0, 0, 2]]
    observed = 2 * 1 / 6  # one unit whose two values are 1 apart
    expected = 2 * (3 * 1 * 1 + 3 * 2 * 4 + 1 * 2 * 1) / (6 * 5)
    alpha = krippendorff_alpha(counts, interval_scale=True, resamples=0).alpha
    assert alpha == pytest.approx(1 - observed / expected)


def test_marks_are_what_compare_elements_reads(data: Path, tmp_path: Path) -> None:
    from titjudge.runs.study.human_study import people_marks

    for mode, values in (("yes-no", ["yes", "no"]), ("graph", ["no", *["yes"] * 7]), ("facets", ["2"] * 56)):
        mark_all(data, tmp_path / f"{mode}.db", mode, [values] * 3)
        export_labels(tmp_path / f"{mode}.db", tmp_path / mode)
        assert len(people_marks(tmp_path / mode / "elements.csv")) == 3 * len(values)


def test_gold_elements_tell_who_is_right(data: Path, tmp_path: Path) -> None:
    mark_all(data, tmp_path / "m.db", "yes-no", [["yes", "yes"], ["no", "yes"]])
    gold = tmp_path / "gold.csv"
    gold.write_text("image,element,value\ng0.png,is there a cat?,yes\ng1.png,Is the mat red?,yes\n")
    result = export_labels(tmp_path / "m.db", tmp_path / "out", gold=gold).result
    assert [(person["gold"], person["gold_accuracy"]) for person in result["annotator_details"]] == [(2, 1.0), (2, 0.5)]
    gold.write_text("image,element,value\nelsewhere.png,Is there a cat?,yes\n")
    with pytest.raises(DataError, match="no one has marked an element of this file"):
        export_labels(tmp_path / "m.db", tmp_path / "out", gold=gold)
    gold.write_text("image,element,value\ng0.png,a,yes\ng0.png,A,no\n")
    with pytest.raises(DataError, match=r"gold.csv:3: 'A' of 'g0.png' has another value in row 2"):
        export_labels(tmp_path / "m.db", tmp_path / "out", gold=gold)


def test_nothing_to_mark_and_nothing_marked_are_said(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = make_data(tmp_path / "bare", questions=[])
    arguments = ["label", str(bare), "--mode", "yes-no", "--store", str(tmp_path / "x.db")]
    assert run_command("titjudge", arguments) == 2
    assert (
        "no image has elements for mode yes-no. Choose another mode, or correct the first: g0.png: the image has no questions"
        in capsys.readouterr().err
    )
    with marking(data, tmp_path / "m.db", "graph"):
        pass
    with pytest.raises(UserError, match="no marks yet"):
        export_labels(tmp_path / "m.db", tmp_path / "out")


@pytest.mark.slow
def test_over_http_marks_outlive_kill_9(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    links: list[str] = []

    @contextlib.contextmanager
    def served(port: int = 0) -> Iterator[Started]:
        with serving(SERVE, data, tmp_path / "m.db", "graph", port) as (process, links[:]):
            yield process

    def ask(method: str, path: str, body: Any = None, token: str | None = None) -> tuple[int, Any]:
        link = urlsplit(links[0])
        connection = http.client.HTTPConnection("127.0.0.1", link.port, timeout=60)
        headers = {"Authorization": f"Bearer {token or link.fragment}", "Content-Type": "application/json"}
        with contextlib.closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            reply = connection.getresponse()
            content = reply.read()
        return reply.status, json.loads(content) if content[:1] == b"{" else content

    with served() as process:
        state = ask("GET", "/api/state")[1]
        assert ask("GET", "/api/state", token="x")[0] == 401
        assert ask("GET", f"/api/image/{state['sheet']['images'][0]}")[0] == 200
        assert b"elements.js" in ask("GET", "/")[1]
        for path in ("/elements.js", "/page.js", "/label.css"):
            assert ask("GET", path)[0] == 200
        question = state["question"]
        for answer in ("yes", ["yes"], None, {"a": 1}, ["maybe"] * 8):
            assert ask("POST", "/api/vote", {"question": question, "answer": answer})[0] == 400
        answer = ["no", *["yes"] * 7]
        status, after = ask("POST", "/api/vote", {"question": question, "answer": answer, "note": "dark"})
        assert (status, after["done"]) == (200, 1)
        status, again = ask("POST", "/api/vote", {"question": question, "answer": answer})
        assert (status, again["done"]) == (409, 1)
        port = urlsplit(links[0]).port or 0
        process.send_signal(signal.SIGKILL)
        process.wait()
    with served(port):
        assert ask("GET", "/api/state")[1] == after
    with contextlib.closing(Store(tmp_path / "m.db")) as store:
        (row,) = store.answers()
    assert [value for _, _, value in read_marks(row.text)] == ["no", "yes", "yes", "no", "yes", "yes", "no", "yes"]
    assert row.note == "dark"
