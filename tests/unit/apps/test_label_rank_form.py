"""Rankings of all images of a prompt: what is asked, what an answer may be, and the votes, ranks and means of the export."""

import contextlib
import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import cli
from labelling_data import make_data

from titjudge.apps.label.forms import export_labels
from titjudge.apps.label.rank_form import Ranks
from titjudge.apps.label.service import Service
from titjudge.apps.label.store import Store
from titjudge.core.errors import DataError, UserError

IMAGES = ["a.png", "b.png", 'c"1.png', "d.png"]


@contextlib.contextmanager
def ranking(data: Path, store: Path, annotators: int = 2, **rules: Any) -> Iterator[Service]:
    form = Ranks()
    with contextlib.closing(Store(store)) as opened:
        yield Service(form.load(data), opened, form, annotators=annotators, seed=0, **rules)


def rank(service: Service, who: str, ranks: dict[str, int]) -> dict[str, Any]:
    """Rank the images that are shown, by their names."""
    state = service.state(who)
    names = [service._images[code] for code in state["sheet"]["images"]]
    return service.vote(who, state["question"], [ranks[name] for name in names])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_data(tmp_path / "data", IMAGES)


def test_all_images_of_a_prompt_are_asked_at_once_and_the_store_goes_on(data: Path, tmp_path: Path) -> None:
    with ranking(data, tmp_path / "r.db") as service:
        state = service.state("annotator-01")
        assert (len(state["sheet"]["images"]), state["sheet"]["ranks"], state["at_most"]) == (4, [None] * 4, 1)
        for wrong in (None, [1, 2, 3], [0, 1, 2, 3], [1, 2, 3, 5], [1, 2, 3, True], ["1", 2, 3, 4]):
            with pytest.raises(DataError, match="4 ranks from 1 to 4"):
                service.vote("annotator-01", state["question"], wrong)
        done = rank(service, "annotator-01", dict(zip(IMAGES, (1, 2, 2, 4), strict=True)))
        assert (done["sheet"], done["done"]) == (None, 1)
    with ranking(data, tmp_path / "r.db") as service:
        assert service.state("annotator-01")["sheet"] is None
        back = service.undo("annotator-01", service.state("annotator-01")["question"])
        assert sorted(back["sheet"]["ranks"]) == [1, 2, 2, 4]
        assert service.state("annotator-02")["at_most"] == 1


def test_an_export_has_pairs_ranks_and_mean_ranks(data: Path, tmp_path: Path) -> None:
    with ranking(data, tmp_path / "r.db", 3) as service:
        for who, ranks in (("01", (1, 2, 2, 4)), ("02", (1, 3, 3, 3)), ("03", (2, 1, 3, 4))):
            rank(service, f"annotator-{who}", dict(zip(IMAGES, ranks, strict=True)))
    export = export_labels(tmp_path / "r.db", tmp_path / "out")
    assert export.main == "pairs.jsonl"
    assert export.result["rankings"] == 3
    assert export.result["mean_ranks"] == pytest.approx({"g0": 4 / 3, "g1": 5 / 3, "g2": 7 / 3, "g3": 10 / 3})
    assert export.result["votes"] == 18
    lines = (tmp_path / "out" / "pairs.jsonl").read_text().splitlines()
    decided = {(row["image_a"], row["image_b"]): row["preference"] for row in map(json.loads, lines)}
    assert decided["a.png", "b.png"] == "a"
    assert decided["b.png", 'c"1.png'] == "tie"  # two of three
    with (tmp_path / "out" / "rankings.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    second = [row for row in rows if row["annotator"] == "annotator-02"]
    assert {row["image"]: row["rank"] for row in second} == dict(
        zip(IMAGES, "1222", strict=True)
    )  # 3, 3, 3 share rank 2
    assert "Mean ranks" in [table.title for table in export.tables]


def test_a_prompt_with_enough_rankings_is_not_asked_again(data: Path, tmp_path: Path) -> None:
    with ranking(data, tmp_path / "r.db", 3, votes=1) as service:
        rank(service, "annotator-02", dict.fromkeys(IMAGES, 1))
        assert service.state("annotator-01")["sheet"] is None


def test_a_new_image_is_ranked_with_the_others(tmp_path: Path) -> None:
    with ranking(make_data(tmp_path / "few", IMAGES[:3]), tmp_path / "r.db") as service:
        rank(service, "annotator-01", dict.fromkeys(IMAGES[:3], 1))
    with ranking(make_data(tmp_path / "all", IMAGES), tmp_path / "r.db") as service:
        assert len(service.state("annotator-01")["sheet"]["images"]) == 4
        rank(service, "annotator-01", dict(zip(IMAGES, (2, 1, 3, 4), strict=True)))
    result = export_labels(tmp_path / "r.db", tmp_path / "out").result
    assert (result["rankings"], result["votes"]) == (1, 6)  # the last ranking replaces the one before
    assert result["mean_ranks"] == {"g1": 1, "g0": 2, "g2": 3, "g3": 4}


def test_what_a_ranking_lacks_is_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a ranking has no attention checks"):
        Ranks().load(data, tmp_path / "gold.jsonl")
    with ranking(data, tmp_path / "r.db"):
        pass
    told = cli(tmp_path, "label", "serve", "data", "--mode", "pairs", "--store", "r.db", code=2)
    assert "r.db was started with --mode rank, not pairs. Use --mode rank, or another --store" in told
    with pytest.raises(UserError, match="no votes yet"):
        export_labels(tmp_path / "r.db", tmp_path / "out")
