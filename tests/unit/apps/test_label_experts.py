"""What is open goes to experts: exactly what the export lists, with what was said; their majority decides, kill -9 or not."""

import contextlib
import csv
import http.client
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from builders import read_lines
from commands import Started, serving
from labelling_data import make_data
from pages import page_text

from titjudge.apps.label import server
from titjudge.apps.label.dataset import load_dataset
from titjudge.apps.label.element_form import Elements
from titjudge.apps.label.elements import SPLIT
from titjudge.apps.label.forms import collect, export_labels
from titjudge.apps.label.pair_form import Pairs
from titjudge.apps.label.questions import Question
from titjudge.apps.label.service import Service
from titjudge.apps.label.store import Store
from titjudge.cli.commands import run_command
from titjudge.core.errors import UserError

ROOT = Path(__file__).resolve().parents[3]
NOTE = "=1+1 <script>window.hacked = 1</script>"
SERVE = """
import sys
from pathlib import Path
from titjudge.apps.label.server import serve_experts
from titjudge.web import PageAddress
serve_experts(Path(sys.argv[1]), store=Path(sys.argv[2]), experts=2, at=PageAddress(port=int(sys.argv[3])),
              ready=lambda links, number: print(number, *links, flush=True))
"""
GRAPH = {"entities": ["cat", "mat"], "attributes": [["cat", "black"]], "relations": [["cat", "on", "mat"]]}


def made(folder: Path, images: int = 3) -> Path:
    return make_data(folder, [f"i{number}.png" for number in range(images)], graph=GRAPH)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return made(tmp_path / "data")


def split_pairs(data: Path, path: Path) -> Path:
    """i0 against i1 is open (7, 6, 2), i0 against i2 agreed on, i1 against i2 incomplete."""
    with contextlib.closing(Store(path)) as store:
        Service(load_dataset(data), store, Pairs("all"), annotators=15, seed=0)
        for person in range(15):
            who, answer = f"annotator-{person + 1:02d}", "left" if person < 7 else "right" if person < 13 else "tie"
            store.add(who, Question("pair", "p", ("i0.png", "i1.png")), answer, note=NOTE if person == 0 else "")
            store.add(who, Question("pair", "p", ("i0.png", "i2.png")), "left")
            if person < 5:
                store.add(who, Question("pair", "p", ("i1.png", "i2.png")), "left" if person % 2 else "right")
    return path


@contextlib.contextmanager
def deciding(data: Path, path: Path, experts: int = 3, annotators: int | None = None) -> Iterator[Service]:
    labelling = collect(path)
    dataset = labelling.form.load(data)
    with contextlib.closing(Store(path)) as store:
        form = labelling.form.for_experts(labelling, dataset, annotators)
        yield Service(dataset, store, form, annotators=experts, seed=labelling.seed)


def verdict(service: Service, who: str, better: str) -> dict[str, Any]:
    """Vote for an image, or tie."""
    state = service.state(who)
    sides = dict(zip((service._images[code] for code in state["sheet"]["images"]), ("left", "right"), strict=True))
    return service.vote(who, state["question"], sides.get(better, better), note=f"says {who}")


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_experts_see_exactly_what_the_export_lists_with_what_was_said(data: Path, tmp_path: Path) -> None:
    store = split_pairs(data, tmp_path / "v.db")
    export_labels(store, tmp_path / "out")
    listed = read_lines(tmp_path / "out" / "experts.jsonl")
    assert [(line["image_a"], line["image_b"]) for line in listed] == [("i0.png", "i1.png")]
    with deciding(data, store) as service:
        assert service.names == ["expert-01", "expert-02", "expert-03"]
        assert service.form.open == 1
        for who in service.names:
            state = service.state(who)
            assert (state["expert"], state["at_most"], state["stopped"]) == (True, 1, False)
            left = service._images[state["sheet"]["images"][0]]
            assert state["sheet"]["said"] == {
                "left": 7 if left == "i0.png" else 6, "tie": 2, "both_bad": 0, "right": 6 if left == "i0.png" else 7
            }  # fmt: skip
            assert state["sheet"]["notes"] == [f"{'left' if left == 'i0.png' else 'right'}: {NOTE}"]
            assert "annotator-" not in json.dumps(state), "who said what is not told"


@pytest.mark.parametrize(
    ("verdicts", "rule", "preference"),
    [
        (["i1.png", "i1.png", "i0.png"], "experts", "b"),
        (["i0.png", "i0.png"], "experts", "a"),
        (["i0.png", "i1.png", "tie"], "expert tie", "tie"),
        (["both_bad", "both_bad", "tie"], "experts", "both_bad"),
        (["i0.png", "i1.png"], "needs experts", None),
        (["i0.png"], "needs experts", None),
    ],
)
def test_the_majority_of_the_experts_decides(
    data: Path, tmp_path: Path, verdicts: list[str], rule: str, preference: str | None
) -> None:
    store = split_pairs(data, tmp_path / "v.db")
    before = export_labels(store, tmp_path / "before").result
    with deciding(data, store) as service:
        for who, better in zip(service.names, verdicts, strict=False):
            assert verdict(service, who, better)["sheet"] is None
    result = export_labels(store, tmp_path / "out").result
    assert result["rules"][rule] == 1
    decided = {(row["image_a"], row["image_b"]): row for row in rows(tmp_path / "out" / "pairs.csv")}
    assert decided.get(("i0.png", "i1.png"), {}).get("preference") == preference
    for key in ("alpha", "annotators", "votes", "human_ceiling", "votes_expected"):
        assert result[key] == before[key], "experts are no annotators"
    assert len(result["annotator_details"]) == 15
    said = rows(tmp_path / "out" / "experts.csv")
    assert [(row["annotator"], row["note"]) for row in said] == [
        (f"expert-{n:02d}", f"says expert-{n:02d}") for n in range(1, len(verdicts) + 1)
    ]
    assert (
        "expert" not in (tmp_path / "out" / "votes.csv").read_text() + (tmp_path / "out" / "battles.jsonl").read_text()
    )


def test_a_panel_of_one_decides_alone_and_may_take_it_back(data: Path, tmp_path: Path) -> None:
    store = split_pairs(data, tmp_path / "v.db")
    with deciding(data, store, experts=1) as service:
        after = verdict(service, "expert-01", "i1.png")
        assert export_labels(store, tmp_path / "out").result["rules"]["experts"] == 1
        assert service.undo("expert-01", after["question"])["sheet"]["note"] == "says expert-01"
        assert export_labels(store, tmp_path / "out").result["rules"]["experts"] == 0
        verdict(service, "expert-01", "i0.png")
    with deciding(data, store, experts=1) as service:
        assert (service.state("expert-01")["done"], service.state("expert-01")["sheet"]) == (1, None)
    assert collect(store).annotators == 15, "a panel changes no other number"


def test_fewer_annotators_open_what_was_incomplete(data: Path, tmp_path: Path) -> None:
    store = split_pairs(data, tmp_path / "v.db")
    with deciding(data, store, annotators=5) as service:
        assert service.form.open == 2


@contextlib.contextmanager
def marking(data: Path, path: Path, mode: str = "graph", annotators: int = 3) -> Iterator[Service]:
    form = Elements(mode)
    with contextlib.closing(Store(path)) as store:
        yield Service(form.load(data), store, form, annotators=annotators, seed=0)


def mark(service: Any, who: str, values: list[str], images: int = 9) -> None:
    for _ in range(images):
        if (state := service.state(who))["sheet"]:
            service.vote(who, state["question"], values, note=f"{NOTE} {who}")


def disagree(data: Path, path: Path) -> Path:
    """Four people: all see a cat and a mat, they are two against two over black and on."""
    with marking(data, path, annotators=4) as service:
        for who, values in zip(
            service.names, (["yes", "yes"], ["yes", "yes"], ["no", "no"], ["no", "no"]), strict=True
        ):
            mark(service, who, ["yes", "yes", *values])
    return path


def test_experts_mark_the_open_elements_alone(data: Path, tmp_path: Path) -> None:
    store = disagree(data, tmp_path / "m.db")
    export_labels(store, tmp_path / "out")
    left = {(row["image"], row["element"]) for row in rows(tmp_path / "out" / "open.csv")}
    with deciding(data, store) as service:
        state = service.state("expert-01")
        assert service.form.open == len(left) == 6
        assert [element["text"] for element in state["sheet"]["elements"]] == ["cat: black", "cat on mat"]
        assert [element["said"] for element in state["sheet"]["elements"]] == [{"yes": 2, "no": 2}] * 2
        assert len(state["sheet"]["notes"]) == 4
        for who, values in (("expert-01", ["yes", "no"]), ("expert-02", ["yes", "no"])):
            mark(service, who, values)
        mark(service, "expert-03", ["no", "no"], images=1)
        assert service.state("expert-01")["sheet"] is None
    result = export_labels(store, tmp_path / "out").result
    assert result["rules"] == {"majority": 6, "experts": 6}
    decided = {(row["image"], row["element"]): row for row in rows(tmp_path / "out" / "elements.csv")}
    assert {decided[key]["value"] for key in left if key[1] == "cat | black"} == {"yes"}
    assert {decided[key]["value"] for key in left if key[1] != "cat | black"} == {"no"}
    assert {decided[key]["rule"] for key in left} == {"experts"}
    assert rows(tmp_path / "out" / "open.csv") == []
    assert "expert" not in (tmp_path / "out" / "marks.csv").read_text()
    assert {row["annotator"] for row in rows(tmp_path / "out" / "experts.csv")} == {f"expert-0{n}" for n in (1, 2, 3)}
    assert [person["annotator"] for person in result["annotator_details"]] == [f"annotator-0{n}" for n in (1, 2, 3, 4)]


def test_experts_are_asked_only_about_images_with_an_open_element(data: Path, tmp_path: Path) -> None:
    with marking(data, tmp_path / "m.db", annotators=4) as service:
        for number, who in enumerate(service.names):
            mark(service, who, ["yes", "yes", "yes" if number < 2 else "no", "yes"], images=1)
            mark(service, who, ["yes"] * 4)
    with deciding(data, tmp_path / "m.db") as service:
        opened = set(service.dataset.elements)
        assert 0 < len(opened) < 3
        asked = set()
        while (state := service.state("expert-01"))["sheet"]:
            asked |= {service._images[code] for code in state["sheet"]["images"]}
            service.vote("expert-01", state["question"], ["yes"] * len(state["sheet"]["elements"]))
        assert asked == opened


def test_experts_who_disagree_leave_it_open_for_good(data: Path, tmp_path: Path) -> None:
    store = disagree(data, tmp_path / "m.db")
    with deciding(data, store, experts=2) as service:
        mark(service, "expert-01", ["yes", "yes"])
        mark(service, "expert-02", ["yes", "no"])
    result = export_labels(store, tmp_path / "out").result
    assert result["rules"] == {"majority": 6, "experts": 3, SPLIT: 3}
    assert {row["rule"] for row in rows(tmp_path / "out" / "open.csv")} == {SPLIT}


def test_what_opens_later_is_asked_too(data: Path, tmp_path: Path) -> None:
    store = disagree(data, tmp_path / "m.db")
    with deciding(data, store) as service:
        mark(service, "expert-01", ["yes", "no"])
    with marking(data, store, annotators=7) as service:
        for who in ("annotator-05", "annotator-06", "annotator-07"):
            mark(service, who, ["yes", "no", "no", "no"])  # 4 to 3 still see a mat
    with marking(data, store, annotators=8) as service:
        mark(service, "annotator-08", ["yes", "no", "no", "no"])
    with deciding(data, store) as service:
        sheet = service.state("expert-01")["sheet"]
        assert [element["text"] for element in sheet["elements"]] == ["mat"]
        mark(service, "expert-01", ["yes"], images=1)
        assert (service.state("expert-01")["sheet"] or {}).get("images") != sheet["images"]


def test_where_nothing_is_open_it_says_why(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def told(store: Path, folder: Path = data) -> str:
        assert run_command("titjudge", ["label", "experts", str(folder), "--store", str(store)]) == 2
        text = capsys.readouterr().err
        assert len(text.strip().splitlines()) == 1
        return text

    assert "the store of votes does not exist" in told(tmp_path / "absent.db")
    with marking(data, tmp_path / "m.db") as service:
        mark(service, "annotator-01", ["yes"] * 4)
    assert "nothing is open for experts (12 incomplete)" in told(tmp_path / "m.db")
    with marking(data, tmp_path / "r.db", "rating") as service:
        mark(service, "annotator-01", ["5"] * 5)
    assert "ratings are averaged" in told(tmp_path / "r.db")
    (tmp_path / "x").mkdir()
    other = made(tmp_path / "x" / "other")
    for image in ("i0.png", "i1.png"):
        (other / image).rename(other / f"x{image}")
    (other / "images.jsonl").unlink()
    with (other / "images.jsonl").open("w") as stream:
        stream.writelines(json.dumps({"image": f.name, "prompt_id": "p"}) + "\n" for f in sorted(other.glob("*.png")))
    assert "is not of these data" in told(split_pairs(data, tmp_path / "v.db"), other)
    with pytest.raises(UserError, match="number of experts"), deciding(data, tmp_path / "v.db", experts=0):
        pass


def test_the_command_prints_what_its_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = page_text("collect-votes").split("```text\n")[1:]
    block = next(block for block in blocks if block.startswith("expert 1")).split("```")[0]
    links = [line.split()[-1] for line in block.splitlines()[:3]]
    monkeypatch.setattr(server, "serve_experts", lambda data, **given: given["ready"](links, 35))
    assert run_command("titjudge", ["label", "experts", str(tmp_path)]) == 0
    assert capsys.readouterr().out == block


@pytest.mark.slow
def test_verdicts_outlive_kill_9(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    store = split_pairs(data, tmp_path / "v.db")

    @contextlib.contextmanager
    def served(port: int = 0) -> Iterator[tuple[Started, Any]]:
        with serving(SERVE, data, store, port) as (process, links):
            yield process, urlsplit(links[1])

    def ask(link: Any, path: str, body: Any = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {link.fragment}", "Content-Type": "application/json"}
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", link.port, timeout=20)) as connection:
            connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, headers)
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())

    with served() as (process, link):
        question = ask(link, "/api/state")[1]["question"]
        status, after = ask(link, "/api/vote", {"question": question, "answer": "both_bad", "note": "= " + "w" * 9000})
        assert (status, after["done"]) == (200, 1)
        process.send_signal(signal.SIGKILL)
        process.wait()
    with served(link.port) as (_, link):
        assert ask(link, "/api/state")[1] == after
    with contextlib.closing(Store(store)) as opened:
        (vote,) = opened.answers("expert-01")
    assert (vote.text, vote.note[:3], len(vote.note)) == ("both_bad", "= w", 2000)
