"""Source images of edits: where suites expect them, and what is said where one is missing."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from builders import png, write_lines

from titjudge.core.config import RunConfig
from titjudge.core.errors import DataError
from titjudge.core.types import InvalidItem, Item
from titjudge.suites.loading import open_suite
from titjudge.suites.patterns import PromptPlace
from titjudge.suites.sources import find_sources


def edits(name: str, folder: Path, **options: str) -> list[Item | InvalidItem]:
    return list(open_suite(RunConfig(suite=name, suite_options=options)).load(folder))


def gedit(folder: Path) -> Path:
    rows = [
        {"key": key, "task_type": kind, "instruction": f"edit {key}", "instruction_language": language,
         "Intersection_exist": key == "a"}
        for key, kind, language in (("a", "color_alter", "en"), ("b", "subject-add", "en"), ("c", "subject-add", "cn"))
    ]  # fmt: skip
    write_lines(folder / "gedit.jsonl", *rows)
    for path in (
        "color_alter/en/a",
        "color_alter/en/a_SRCIMG",
        "subject-add/en/b",
        "subject-add/cn/c",
        "subject-add/cn/c_SRCIMG",
    ):
        (file := folder / f"results/bagel/fullset/{path}.png").parent.mkdir(parents=True, exist_ok=True)
        png(file)
    return folder


def test_the_source_of_gedit_lies_beside_the_result_and_is_no_result_itself(tmp_path: Path) -> None:
    found, missing = edits("gedit-bench", gedit(tmp_path))
    assert isinstance(found, Item)
    assert (found.prompt, found.generator, found.meta["task_type"]) == ("edit a", "bagel", "color_alter")
    assert [source.name for source in found.sources] == ["a_SRCIMG.png"]
    assert isinstance(missing, InvalidItem)
    assert missing.prompt_id == "b"
    assert missing.reason.startswith("the source image is missing. Add results/bagel/fullset/subject-add/en/b_SRCIMG")


def test_the_chinese_half_of_gedit_is_a_variant(tmp_path: Path) -> None:
    (found,) = edits("gedit-bench", gedit(tmp_path), variant="cn")
    assert isinstance(found, Item)
    assert (found.prompt_id, found.sources[0].name) == ("c", "c_SRCIMG.png")


def test_without_a_file_beside_it_the_source_is_the_image_in_the_table(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    data = png(tmp_path / "source.png").read_bytes()
    rows = [{
        "key": "a", "task_type": "color_alter", "instruction": "edit", "instruction_language": "en",
        "Intersection_exist": True, "input_image": {"bytes": data, "path": "a.png"},
    }]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "train-0.parquet")
    (result := tmp_path / "bagel/fullset/color_alter/en/a.png").parent.mkdir(parents=True)
    png(result)
    (found,) = edits("gedit-bench", tmp_path)
    assert isinstance(found, Item)
    assert found.sources == (tmp_path / "train-0.parquet" / "input_image" / "1",)


def imgedit(folder: Path) -> Path:
    record = {"id": "animal/1.jpg", "prompt": "remove the cat", "edit_type": "remove"}
    (folder / "Benchmark/Basic").mkdir(parents=True)
    (folder / "Benchmark/Basic/basic_edit.json").write_text(json.dumps({"7": record}))
    (folder / "results/bagel").mkdir(parents=True)
    png(folder / "results/bagel/7.png")
    return folder


def test_the_source_of_imgedit_is_found_by_the_name_in_its_file(tmp_path: Path) -> None:
    (tmp_path / "Benchmark/singleturn/animal").mkdir(parents=True)
    source = png(tmp_path / "Benchmark/singleturn/animal/1.jpg")
    (found,) = edits("imgedit-bench", imgedit(tmp_path))
    assert isinstance(found, Item)
    assert (found.sources, found.meta["edit_type"]) == ((source,), "remove")


def kris(folder: Path, **changes: str) -> Path:
    records = {
        "viewpoint_change": {"1": {"ori_img": "1.jpg", "gt_img": "1-gt.jpg", "ins_en": "from above", **changes}},
        "temporal_prediction": {
            "1": {"ori_img": ["1-2.jpg", "1-1.jpg"], "ins_en": "what next", "explain_en": "it melts"}
        },
    }
    for category, annotation in records.items():
        (place := folder / "KRIS_Bench" / category).mkdir(parents=True)
        (place / "annotation.json").write_text(json.dumps(annotation))
        (results := folder / "results/bagel" / category).mkdir(parents=True)
        for name in ("1.jpg", "1-1.jpg", "1-2.jpg", "1-gt.jpg"):
            png(place / name)
        png(results / "1.jpg")
    return folder


def test_ids_of_kris_are_unique_with_their_category_which_gives_the_kinds_of_knowledge(tmp_path: Path) -> None:
    frames, view = edits("kris-bench", kris(tmp_path))
    assert isinstance(frames, Item)
    assert isinstance(view, Item)
    assert [item.prompt_id for item in (frames, view)] == ["temporal_prediction/1", "viewpoint_change/1"]
    assert [source.name for source in frames.sources] == ["1-2.jpg", "1-1.jpg"]
    assert (frames.meta["dimension"], frames.meta["knowledge"]) == ("Temporal Prediction", "Factual Knowledge")
    assert (frames.meta["explanation"], "reference_image" in frames.meta) == ("it melts", False)
    assert Path(view.meta["reference_image"]).name == "1-gt.jpg"
    places = list(open_suite(RunConfig(suite="kris-bench")).prompts(tmp_path))
    assert [place.image for place in places if isinstance(place, PromptPlace)] == [
        "results/{generator}/temporal_prediction/1.png", "results/{generator}/viewpoint_change/1.png",
    ]  # fmt: skip


def test_an_image_of_the_right_result_that_is_named_must_be_there(tmp_path: Path) -> None:
    _, view = edits("kris-bench", kris(tmp_path, gt_img="9-gt.jpg"))
    assert isinstance(view, InvalidItem)
    assert view.reason == "the image of the right result is missing. Add KRIS_Bench/viewpoint_change/9-gt.jpg"


@pytest.mark.parametrize(
    ("cells", "absent"),
    [
        ([{}, {}], [False, False]),
        ([{}, {"consistency_free": True}], [True, False]),
        ([{"consistency_free": None}, {"consistency_free": True}], [False, False]),
        ([{"consistency_free": None}, {"consistency_free": None}], [False, False]),
        ([{"consistency_free": None}, {}], [False, True]),
        ([{}, {"consistency_free": False}], [True, False]),
        ([{"consistency_free": math.nan}, {"consistency_free": None}], [True, False]),
        (
            [{"consistency_free": None}, {"consistency_free": 1}],
            [True, False],
        ),  # pandas makes NaN of a null among numbers
    ],
)
def test_rise_knows_which_edits_have_no_cell_in_a_column_for_consistency(
    tmp_path: Path, cells: list[dict[str, Any]], absent: list[bool]
) -> None:
    names = [f"temporal_reasoning_{n}" for n in (1, 2)]
    rows = [
        {"index": name, "category": "temporal_reasoning", "instruction": "later", "image": "t/1.png", **cell}
        for name, cell in zip(names, cells, strict=True)
    ]
    (tmp_path / "data/t").mkdir(parents=True)
    (tmp_path / "data/data_total.json").write_text(json.dumps(rows))
    (results := tmp_path / "outputs/bagel/images/temporal_reasoning").mkdir(parents=True)
    for place in (tmp_path / "data/t/1.png", *(results / f"{name}.png" for name in names)):
        png(place)
    found = [item for item in edits("rise-bench", tmp_path) if isinstance(item, Item)]
    assert [item.meta["consistency_free_absent"] for item in found] == absent
    given = [value if (value := cell.get("consistency_free")) is not None and value == value else "" for cell in cells]
    assert [item.meta["consistency_free"] for item in found] == given


def test_sources_elsewhere_are_named_by_an_option(tmp_path: Path) -> None:
    (tmp_path / "elsewhere/animal").mkdir(parents=True)
    source = png(tmp_path / "elsewhere/animal/1.jpg")
    (found,) = edits("imgedit-bench", imgedit(tmp_path), sources=f"{tmp_path}/elsewhere/{{source}}")
    assert isinstance(found, Item)
    assert found.sources == (source,)


def test_a_list_means_several_sources_in_its_order_and_all_must_be_there(tmp_path: Path) -> None:
    places = [png(tmp_path / name) for name in ("2.png", "1.jpg")]
    assert find_sources(tmp_path, ["{image}"], {"image": ["2.png", "1.jpg"]}) == tuple(places)
    with pytest.raises(DataError, match=r"Add 2\.png or 3\.png"):
        find_sources(tmp_path, ["{image}"], {"image": ["2.png", "3.png"]})


def test_no_name_in_the_data_leads_out_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    png(tmp_path / "secret.png")
    with pytest.raises(DataError, match="outside the data folder"):
        find_sources(tmp_path / "data", ["{image}"], {"image": "../secret.png"})
