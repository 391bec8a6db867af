"""Sources of edits: whatever columns, patterns and names are used, no result gets the source of another."""

import io
import json
import random
from itertools import product
from pathlib import Path

import pytest
from builders import write_lines
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loading import sorted_out
from PIL import Image

from titjudge.core import item_meta
from titjudge.core.errors import ConfigError
from titjudge.core.types import InvalidItem, Item
from titjudge.data.images import read
from titjudge.suites.base import Suite, SuiteInputs
from titjudge.suites.folder import Folder
from titjudge.suites.sources import content_name

_SOURCES = (
    "input_image", "source_image", "source_img", "source", "original_image", "original", "src", "input", "ori_img", "before",
)  # fmt: skip
_RESULTS = ("edited_image", "output_image", "target_img", "edited", "after", "result")
_INSTRUCTIONS = ("instruction", "edit", "edit_prompt", "instruct_prompt", "ins_en", "prompt", "text")
_MANY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _picture(path: Path, key: int, *, result: bool) -> str:
    """A picture that says whose source or result it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (key % 256, key // 256, 255 * result)).save(path, "PNG")  # whatever its ending
    return path.name


def _key(path: Path) -> tuple[int, bool]:
    with Image.open(io.BytesIO(read(path))) as image:
        low, high, result = image.convert("RGB").getpixel((0, 0))  # type: ignore[misc]
    return low + 256 * high, bool(result)


def _loaded(data: Path, **inputs: object) -> tuple[list[Item], dict[str, str], Suite]:
    suite = Folder(SuiteInputs(**inputs))  # type: ignore[arg-type]
    return *sorted_out(suite.load(data)), suite


def _keys(item: Item) -> tuple[int, tuple[int, ...]]:
    """Whose result the item has, and whose sources."""
    assert item.image is not None
    result, is_result = _key(item.image)
    sources = [_key(source) for source in item.sources]
    assert is_result
    assert not any(is_result for _, is_result in sources)
    return result, tuple(key for key, _ in sources)


@pytest.mark.parametrize(("source", "result", "instruction"), list(product(_SOURCES, _RESULTS, _INSTRUCTIONS)))
def test_columns_of_edits_are_known_by_any_of_their_usual_names(
    tmp_path: Path, source: str, result: str, instruction: str
) -> None:
    names = {role: _picture(tmp_path / f"{role}.png", 7, result=role == "after") for role in ("before", "after")}
    write_lines(
        tmp_path / "edits.jsonl",
        {"id": 1, source: names["before"], result: names["after"], instruction: "make it blue", "mood": "x"},
    )
    (item,), bad, suite = _loaded(tmp_path / "edits.jsonl")
    assert not bad
    assert (_keys(item), item.prompt, item.meta) == ((7, (7,)), "make it blue", {"id": 1, "mood": "x"})
    assert any(f"'{source}' is read as source" in note for note in suite.notes) or source == "source"


def test_a_table_that_is_no_edit_keeps_its_columns(tmp_path: Path) -> None:
    _picture(tmp_path / "a.png", 1, result=True)
    others = {"source": "coco", "input": "x", "result": "good", "target": 3, "after": "y", "edit": False, "output": "z"}
    write_lines(tmp_path / "data.jsonl", {"image": "a.png", "prompt": "a cat", **others})
    (item,), _, _ = _loaded(tmp_path / "data.jsonl")
    assert (item.sources, item.meta) == ((), others)


def test_the_image_of_a_table_with_an_edited_one_is_the_source(tmp_path: Path) -> None:
    for name in ("image", "edited_image"):
        _picture(tmp_path / f"{name}.png", 1, result=name != "image")
    row = {name: f"{name}.png" for name in ("image", "edited_image")}
    write_lines(tmp_path / "data.jsonl", {**row, "instruction": "add a hat"})
    assert _keys(_loaded(tmp_path / "data.jsonl")[0][0]) == (1, (1,))


@pytest.mark.parametrize(
    "row",
    [
        {"input_image": ["0.png", "1.png"]},
        {"input_image": '["0.png", "1.png"]'},
        {"input_image": "0.png", "input_image_2": "1.png"},
        {"input_image_2": "1.png", "input_image_1": "0.png", "input_image_3": None},
    ],
)
def test_several_sources_keep_the_order_of_the_instruction(tmp_path: Path, row: dict[str, object]) -> None:
    for key in range(2):
        _picture(tmp_path / f"{key}.png", key, result=False)
    _picture(tmp_path / "r.png", 5, result=True)
    write_lines(tmp_path / "data.jsonl", {"edited_image": "r.png", "instruction": "put both side by side", **row})
    assert _keys(_loaded(tmp_path / "data.jsonl")[0][0]) == (5, (0, 1))


def test_an_empty_cell_before_a_source_would_shift_the_others_and_is_refused(tmp_path: Path) -> None:
    _picture(tmp_path / "0.png", 0, result=False)
    _picture(tmp_path / "r.png", 0, result=True)
    row = {"edited_image": "r.png", "instruction": "blue", "input_image": None, "input_image_2": "0.png"}
    without = {"edited_image": "r.png", "instruction": "blue", "input_image": ""}
    write_lines(tmp_path / "data.jsonl", row, without)
    items, bad, _ = _loaded(tmp_path / "data.jsonl")
    assert not items
    assert "'input_image' has no image here" in bad["data.jsonl:1"]
    assert "the edit has no source image" in bad["data.jsonl:2"]


def test_named_columns_go_before_usual_names_and_a_result_is_never_its_own_source(tmp_path: Path) -> None:
    for name in ("a", "b"):
        _picture(tmp_path / f"{name}.png", 3, result=name == "b")
    write_lines(tmp_path / "data.jsonl", {"left": "a.png", "image": "b.png", "prompt": "blue", "input_image": "b.png"})
    (item,), _, _ = _loaded(tmp_path / "data.jsonl", columns={"source": ["left"]})
    assert _keys(item) == (3, (3,))
    items, bad, _ = _loaded(tmp_path / "data.jsonl", columns={"source": ["image"], "image": ["image"]})
    assert not items
    assert "result and source are the same" in bad["b.png"]


def test_a_source_outside_of_the_data_folder_is_refused_as_an_image_is(tmp_path: Path) -> None:
    _picture(tmp_path / "out.png", 1, result=False)
    _picture(tmp_path / "data" / "r.png", 1, result=True)
    write_lines(tmp_path / "data" / "x.jsonl", {"edited_image": "r.png", "edit": "b", "source": "../out.png"})
    items, bad, _ = _loaded(tmp_path / "data" / "x.jsonl")
    assert not items
    assert "the source path leads outside" in bad["x.jsonl:1"]
    assert len(_loaded(tmp_path / "data" / "x.jsonl", image_roots=(tmp_path,))[0]) == 1


@pytest.mark.parametrize(
    ("digests", "judged"),
    [("right", True), ("changed", False), (["0" * 16], False), ([], False), (None, False), ("the path", False), ({"a": 1}, False)],
)  # fmt: skip
def test_only_the_content_that_generate_has_recorded_makes_a_source_elsewhere_known(
    tmp_path: Path, digests: object, *, judged: bool
) -> None:
    source = tmp_path / "src" / "1.png"
    _picture(source, 1, result=False)
    _picture(tmp_path / "mine" / "1.png", 1, result=True)
    recorded = {"right": [content_name(source)], "changed": [content_name(source)], "the path": [str(source)]}
    line = {"file_name": "1.png", "prompt": "blue", "source_image": str(source)}
    made = {"source_digests": recorded.get(str(digests), digests)}
    write_lines(tmp_path / "mine" / "metadata.jsonl", {**line, "made_with": made})
    if digests == "changed":
        _picture(source, 2, result=False)
    if digests == "the path":
        source.unlink()
    items, bad, _ = _loaded(tmp_path / "mine")
    assert [_keys(item) for item in items] == [(1, (1,))] * judged
    assert judged or "outside the data folder" in bad["metadata.jsonl:1"]


def test_the_same_instruction_for_another_source_is_another_prompt_and_a_copy_of_the_source_is_not(
    tmp_path: Path,
) -> None:
    keys = {"x0": 0, "y0": 0, "x1": 1}
    for name, key in keys.items():
        _picture(tmp_path / f"{name}.png", key, result=False)
        _picture(tmp_path / f"{name}_r.png", key, result=True)
    rows = [{"edited_image": f"{n}_r.png", "input_image": f"{n}.png", "edit": "blue", "model": n} for n in keys]
    write_lines(tmp_path / "data.jsonl", *rows)
    x0, y0, x1 = (item.prompt_id for item in _loaded(tmp_path / "data.jsonl")[0])
    assert x0 == y0 != x1


def test_magicbrush_and_instructpix2pix_are_read_from_their_parquet_files(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    def cell(key: int, *, result: bool) -> dict[str, object]:
        file = tmp_path / "cell.png"
        _picture(file, key, result=result)
        return {"bytes": file.read_bytes(), "path": "image.png"}

    magic = [
        {
            "img_id": str(key), "turn_index": 1, "source_img": cell(key, result=False), "mask_img": cell(key, result=False),
            "instruction": "blue", "target_img": cell(key, result=True),
        }
        for key in range(20)
    ]  # fmt: skip
    pix = [
        {
            "original_prompt": "a red hat", "original_image": cell(key, result=False), "edit_prompt": "make it blue",
            "edited_prompt": "a blue hat", "edited_image": cell(key, result=True),
        }
        for key in range(20)
    ]  # fmt: skip
    for name, rows in (("magic", magic), ("pix", pix)):
        parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / f"{name}.parquet", row_group_size=7)
        items, bad, _ = _loaded(tmp_path / f"{name}.parquet")
        assert not bad
        assert [_keys(item) for item in items] == [(key, (key,)) for key in range(20)]
        assert len({item.prompt_id for item in items}) == 20
        assert {item.prompt for item in items} == {"blue" if name == "magic" else "make it blue"}
    masks = [item_meta.MASK.required(item) for item in _loaded(tmp_path / "magic.parquet")[0]]
    assert [_key(Path(mask))[0] for mask in masks] == list(range(20))


def _tree(folder: Path, keys: list[int], seed: int) -> dict[str, int]:
    """Results of two generators and sources, written in an order and with endings and zeros that differ; names by key."""
    chance = random.Random(seed)
    names = {f"{key:0{chance.randint(1, 4)}}": key for key in keys}
    for name, key in chance.sample(sorted(names.items()), len(names)):
        for generator in ("a", "b"):
            _picture(folder / "out" / generator / f"{name}.png", key, result=True)
        if chance.random() < 0.8:
            written = chance.choice([name, str(key)])
            _picture(
                folder / "src" / f"{written}.{chance.choice(['png', 'webp', 'jpg.png', 'gif'])}", key, result=False
            )
    return names


@_MANY
@given(st.lists(st.integers(0, 400), min_size=1, max_size=8, unique=True), st.integers(0, 10**6))
def test_no_result_of_a_tree_gets_the_source_of_another(
    tmp_path_factory: pytest.TempPathFactory, keys: list[int], seed: int
) -> None:
    folder = tmp_path_factory.mktemp("tree")
    (folder / "src").mkdir()
    names = _tree(folder, keys, seed)
    write_lines(folder / "p.jsonl", *({"id": str(key), "prompt": f"edit {key}"} for key in sorted(keys, reverse=True)))
    suite = Folder(
        SuiteInputs(
            images="{generator}/{prompt_id}.png",
            prompt_file=f"{folder / 'p.jsonl'}:id,prompt",
            sources=("../src/{prompt_id}",),
        )
    )
    found = list(suite.load(folder / "out"))
    assert len(found) == 2 * len(names)
    for item in found:
        if isinstance(item, InvalidItem):
            assert "the source '" in item.reason
        else:
            key = int(item.prompt_id)
            assert (_keys(item), item.prompt) == ((key, (key,)), f"edit {key}")


@_MANY
@given(st.lists(st.integers(0, 60_000), min_size=1, max_size=6, unique=True), st.integers(0, 10**6))
def test_no_row_of_a_table_gets_the_source_of_another(
    tmp_path_factory: pytest.TempPathFactory, keys: list[int], seed: int
) -> None:
    chance = random.Random(seed)
    folder = tmp_path_factory.mktemp("table")
    columns = {
        "source": chance.choice(_SOURCES), "result": chance.choice(_RESULTS), "instruction": chance.choice(_INSTRUCTIONS),
    }  # fmt: skip
    rows = []
    for number, key in enumerate(keys):
        before, after = f"{chance.random()}.png", f"{chance.random()}.png"
        _picture(folder / "x" / before, key, result=False)
        _picture(folder / "x" / after, key, result=True)
        row = [
            (columns["source"], f"x/{before}"),
            (columns["result"], f"x/{after}"),
            (columns["instruction"], f"{key}"),
        ]
        rows.append(dict(chance.sample([*row, ("number", number)], 4)))
    write_lines(folder / "data.jsonl", *rows)
    items, bad, _ = _loaded(folder / "data.jsonl")
    assert not bad
    assert [(_keys(item), item.prompt) for item in items] == [((key, (key,)), str(key)) for key in keys]


def test_a_source_beside_its_result_is_taken_and_is_no_result_itself(tmp_path: Path) -> None:
    for key in range(2):
        _picture(tmp_path / "m" / f"{key}.png", key, result=True)
    _picture(tmp_path / "m" / "0_SRCIMG.png", 0, result=False)
    write_lines(tmp_path / "p.jsonl", {"id": "0", "prompt": "blue"}, {"id": "1", "prompt": "red"})
    inputs = {"images": "{generator}/{prompt_id}.png", "prompt_file": f"{tmp_path / 'p.jsonl'}:id,prompt"}
    items, bad, _ = _loaded(tmp_path, **inputs)
    assert (_keys(items[0]), items[1].sources, bad) == ((0, (0,)), (), {})
    (tmp_path / "m" / "0.txt").write_text("blue")
    (tmp_path / "m" / "1.txt").write_text("red")
    assert [len(item.sources) for item in _loaded(tmp_path / "m")[0]] == [1, 0]


def test_sources_below_the_images_are_no_results_of_a_generator(tmp_path: Path) -> None:
    _picture(tmp_path / "a" / "0.png", 0, result=True)
    _picture(tmp_path / "src" / "0.png", 0, result=False)
    (tmp_path / "p.txt").write_text("blue\n")
    inputs = {"images": "{generator}/{prompt_id}.png", "prompt_file": f"{tmp_path / 'p.txt'}:0"}
    (item,), bad, _ = _loaded(tmp_path, sources=("src/{prompt_id}.png",), **inputs)
    assert (_keys(item), item.generator, bad) == ((0, (0,)), "a", {})


def test_several_patterns_are_several_sources_in_their_order_and_two_files_of_one_name_are_in_doubt(
    tmp_path: Path,
) -> None:
    _picture(tmp_path / "out" / "0.png", 0, result=True)
    for key, name in enumerate(("one/0.png", "two/0.png")):
        _picture(tmp_path / name, key, result=False)
    (tmp_path / "p.txt").write_text("join them\n")
    inputs = {"images": "{prompt_id}.png", "prompt_file": f"{tmp_path / 'p.txt'}:0"}
    patterns = tuple(str(tmp_path / name / "{prompt_id}") for name in ("two", "one"))
    assert _keys(_loaded(tmp_path / "out", sources=patterns, **inputs)[0][0]) == (0, (1, 0))
    _picture(tmp_path / "one" / "0.webp", 9, result=False)
    items, bad, _ = _loaded(tmp_path / "out", sources=patterns, **inputs)
    assert not items
    assert "two sources fit" in bad["0.png"]
    with pytest.raises(ConfigError, match=r"--images has no field \{generator\}"):
        _loaded(tmp_path / "out", sources=("{generator}/{prompt_id}",), **inputs)
    with pytest.raises(ConfigError, match="requires --images"):
        _loaded(tmp_path / "out", sources=patterns)


def test_a_list_of_prompts_names_sources_for_images_and_for_what_is_still_to_be_made(tmp_path: Path) -> None:
    _picture(tmp_path / "r.png", 4, result=True)
    _picture(tmp_path / "s.png", 4, result=False)
    write_lines(tmp_path / "prompts.jsonl", {"prompt_id": "p", "prompt": "blue", "source": "s.png", "set": "coco"})
    write_lines(tmp_path / "images.jsonl", {"prompt_id": "p", "image": "r.png"})
    (item,), _, suite = _loaded(tmp_path)
    assert (_keys(item), item.meta) == ((4, (4,)), {"set": "coco"})
    (place,) = suite.prompts(tmp_path)
    assert not isinstance(place, InvalidItem)
    (line,) = place.lines(1, 0)
    assert line["source_image"] == str(tmp_path / "s.png")
    write_lines(tmp_path / "prompts.jsonl", {"prompt_id": "p", "prompt": "blue", "source": "coco"})
    assert _loaded(tmp_path)[0][0].meta == {"source": "coco"}


def test_a_prompt_file_of_a_tree_names_sources_relative_to_itself(tmp_path: Path) -> None:
    _picture(tmp_path / "out" / "k.png", 4, result=True)
    _picture(tmp_path / "list" / "s.png", 4, result=False)
    file = write_lines(tmp_path / "list" / "p.jsonl", {"id": "k", "instruction": "blue", "source_image": "s.png"})
    inputs = {"images": "{prompt_id}.png", "prompt_file": str(file)}
    (item,), _, suite = _loaded(tmp_path / "out", **inputs)
    assert (_keys(item), item.prompt) == ((4, (4,)), "blue")
    (place,) = suite.prompts(tmp_path / "out")
    assert not isinstance(place, InvalidItem)
    assert json.loads(json.dumps(place.fields)) == {"source_image": str(tmp_path / "list" / "s.png")}
    (tmp_path / "list" / "p.jsonl").write_text('{"id": "k", "instruction": "blue", "source_image": [3]}\n')
    assert "the source must be a path" in _loaded(tmp_path / "out", **inputs)[1]["k.png"]
