import gzip
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from loading import loaded
from PIL import Image

from titjudge.core.errors import ConfigError, DataError
from titjudge.core.paths import example_folder
from titjudge.core.types import InvalidItem, Item
from titjudge.suites.base import SuiteInputs
from titjudge.suites.folder import Folder, read_items
from titjudge.suites.pair_files import read_pairs


def write_lines(path: Path, *records: object) -> Path:
    path.write_text(
        "\n".join(r if isinstance(r, str) else json.dumps(r, ensure_ascii=False) for r in records) + "\n",
        encoding="utf-8",
    )
    return path


def test_the_bundled_example(example: Path) -> None:
    items, bad = loaded(example)
    assert (len(items), bad) == (24, {})
    assert len({item.prompt_id for item in items}) == 6
    assert items[0].generator == "model_a"
    assert items[0].meta["graph"]["entities"]
    assert len(Folder().pairs(example)) == 36


def test_a_list_of_images_may_have_the_prompts(tmp_path: Path) -> None:
    write_lines(tmp_path / "images.jsonl", {"image": "a.png", "prompt": "a cat", "generator": "g"}, {"image": "b.png"})
    items, bad = loaded(tmp_path)
    assert [(item.id, item.prompt, item.generator) for item in items] == [("a.png", "a cat", "g")]
    assert "the key 'prompt' is missing" in str(bad)


def test_bad_lines_are_named_and_the_rest_is_judged(tmp_path: Path) -> None:
    write_lines(tmp_path / "prompts.jsonl", {"prompt_id": "p", "prompt": "a cat 🐈"}, {"prompt_id": "e", "prompt": " "})
    write_lines(
        tmp_path / "images.jsonl",
        {"image": "a.png", "prompt_id": "p"},
        "{broken",
        {"image": "b.png", "prompt_id": "nobody"},
        {"image": "a.png", "prompt_id": "p"},
        {"image": "../../etc/passwd", "prompt_id": "p"},
        {"image": "/etc/passwd", "prompt_id": "p"},
        {"image": "c.png", "prompt_id": "e"},
        {"prompt_id": "p"},
        {"image": "sub/a.png", "prompt_id": "p"},
    )
    items, bad = loaded(tmp_path)
    assert [item.id for item in items] == ["a.png", "sub/a.png"]
    assert "images.jsonl:2" in bad["images.jsonl:2"]
    assert "no prompt 'nobody'" in bad["b.png"]
    assert "twice" in bad["a.png (again)"]
    assert "outside" in bad["../../etc/passwd"]
    assert "outside" in bad["/etc/passwd"]
    assert "empty" in bad["c.png"]
    assert "'image' is missing" in bad["images.jsonl:8"]


def test_manifests_as_jsonl_and_csv(tmp_path: Path) -> None:
    long = "word " * 20_000
    jsonl = write_lines(tmp_path / "m.jsonl", {"image": "a b/ü.png", "prompt": long, "generator": "g", "seed": 3})
    (tmp_path / "m.csv").write_text(
        f'image,prompt,generator,seed\na b/ü.png,"{long}",g,3\nshort\n', encoding="utf-8-sig"
    )
    for file in (jsonl, tmp_path / "m.csv"):
        items, _ = loaded(file)
        (item,) = items
        assert (item.id, item.generator, item.prompt) == ("a b/ü.png", "g", long)
        assert item.image == tmp_path / "a b" / "ü.png"
        assert str(item.meta["seed"]) == "3"
    assert "cells where the first line has" in loaded(tmp_path / "m.csv")[1]["m.csv:3"]


def test_descriptions_may_stand_in_for_images(tmp_path: Path) -> None:
    lines = [
        {"prompt": "a cat", "description": "a dog", "id": "x"},
        {"prompt": "a cat", "description": "a cat"},
        {"prompt": "a cat"},
    ]
    items, bad = loaded(write_lines(tmp_path / "m.jsonl", *lines))
    assert [(item.id, item.image, item.meta["description"]) for item in items] == [
        ("x", None, "a dog"),
        ("m.jsonl:2", None, "a cat"),
    ]
    assert "neither 'image' nor 'description'" in bad["m.jsonl:3"]


def test_a_csv_without_a_column_says_which_there_are(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("image,words\na.png,x\n")
    with pytest.raises(DataError, match=r"'prompt' is missing \(there are: image, words\)"):
        loaded(tmp_path / "m.csv")


def test_images_with_text_files(tmp_path: Path) -> None:
    for name in ("gen_a/1.png", "gen_b/1.png", "gen_b/2.jpg", "lonely.webp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "1.txt").write_text("one\n")
    (tmp_path / "gen_b" / "2.txt").write_text("zwei ü", encoding="utf-8")
    (tmp_path / "orphan.txt").write_text("x")
    items, bad = loaded(tmp_path)
    assert [(i.id, i.generator, i.prompt_id, i.prompt) for i in items] == [
        ("gen_a/1.png", "gen_a", "1", "one"),
        ("gen_b/1.png", "gen_b", "1", "one"),
        ("gen_b/2.jpg", "gen_b", "2", "zwei ü"),
    ]
    assert set(bad) == {"lonely.webp", "orphan.txt"}
    assert bad["lonely.webp"] == "no prompt: lonely.txt is missing. Add it"


def test_images_without_any_text_are_told_how_a_list_of_prompts_is_given(tmp_path: Path) -> None:
    (tmp_path / "0000.png").write_bytes(b"x")
    assert "put the prompts of all images into prompts.txt, or --prompt-file FILE" in loaded(tmp_path)[1]["0000.png"]


def test_nothing_to_judge_is_said(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(DataError):
            loaded(path)


def test_pairs_name_the_line_that_is_wrong(tmp_path: Path) -> None:
    good = {"prompt_id": "p", "image_a": "a", "image_b": "b", "preference": "Tie"}
    assert read_pairs(write_lines(tmp_path / "p.jsonl", good))[0].preference == "tie"
    with pytest.raises(DataError, match=r"p\.jsonl:2: the preference must be a, b, tie or both_bad, not 'up'"):
        read_pairs(write_lines(tmp_path / "p.jsonl", good, {**good, "preference": "up"}))


def test_a_prompt_that_is_no_text_is_not_judged(tmp_path: Path) -> None:
    write_lines(
        tmp_path / "prompts.jsonl",
        {"prompt_id": "null", "prompt": None},
        {"prompt_id": "list", "prompt": ["a"]},
        "{broken",
        {"prompt_id": "p", "prompt": "a cat"},
        {"prompt_id": "p", "prompt": "a dog"},
        {"prompt_id": "p", "prompt": "a cat", "again": 1},
    )
    write_lines(
        tmp_path / "images.jsonl",
        {"image": "a.png", "prompt_id": "null", "generator": "g"},
        {"image": "b.png", "prompt_id": "list"},
        {"image": None, "prompt_id": "p"},
        {"image": "c.png", "prompt_id": "p"},
    )
    items, bad = loaded(tmp_path)
    assert [(item.id, item.prompt) for item in items] == [("c.png", "a cat")]
    assert bad["a.png"] == "the prompt must be a text, not None"
    assert "must be a text" in bad["b.png"]
    assert "must be a path" in bad["images.jsonl:3"]
    assert set(bad) == {"a.png", "b.png", "images.jsonl:3", "prompts.jsonl:3", "prompts.jsonl:5"}
    assert "the first one is used. Remove one of them" in bad["prompts.jsonl:5"]
    manifest = write_lines(tmp_path / "m.jsonl", {"image": "a.png", "prompt": None}, {"prompt": "x", "description": 3})
    assert {"a.png", "m.jsonl:2"} == set(loaded(manifest)[1])


def test_bad_input_is_counted_for_its_generator(tmp_path: Path) -> None:
    write_lines(tmp_path / "prompts.jsonl", {"prompt_id": "p", "prompt": "a cat"})
    write_lines(tmp_path / "images.jsonl", {"image": "a.png", "prompt_id": "q", "generator": "g"})
    (bad,) = Folder().load(tmp_path)
    assert (bad.generator, bad.prompt_id) == ("g", "q")


def test_file_names_that_are_not_utf_8_are_named(tmp_path: Path) -> None:
    for suffix in (b".png", b".txt"):
        (tmp_path / os.fsdecode(b"caf\xe9" + suffix)).write_bytes(b"x")
    items, bad = loaded(tmp_path)
    assert (items, bad["caf\\udce9.png"]) == ([], "the file name is not UTF-8. Rename it")
    json.dumps(bad, ensure_ascii=False).encode()


def test_the_same_name_with_another_prompt_is_another_group(tmp_path: Path) -> None:
    for generator, prompt in (("a", "one"), ("b", "one"), ("c", "two")):
        (tmp_path / generator).mkdir()
        (tmp_path / generator / "1.png").write_bytes(b"x")
        (tmp_path / generator / "1.txt").write_text(prompt)
    assert [item.prompt_id for item in loaded(tmp_path)[0]] == ["1", "1", "c/1"]


def test_other_facets_of_the_same_prompt_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"x")
    (tmp_path / "a.txt").write_text("a cat")
    facets = {"prompt": "a cat", "facets": {"Quality": []}}
    write_lines(tmp_path / "facets.jsonl", facets, facets)
    assert len(loaded(tmp_path)[0]) == 1
    write_lines(tmp_path / "facets.jsonl", facets, {**facets, "facets": {"Style": []}})
    with pytest.raises(DataError, match=r"facets\.jsonl:2"):
        loaded(tmp_path)


def test_an_image_paired_with_itself_is_named_with_its_line(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "p.jsonl", {"prompt_id": "p", "image_a": "a", "image_b": "a", "preference": "a"})
    with pytest.raises(DataError, match=r"p\.jsonl:1: 'a' is paired with itself"):
        read_pairs(file)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("picture.png", b"\x89PNG", "this is an image. Give its folder"),
        ("notes.txt", b"a cat", "a manifest must be one of .jsonl, .ndjson, .json, .csv,"),
        ("all.jsonl", b'\n[{"image": "a.png"}]', "one JSON array, not JSON lines. Let its name end in .json"),
        ("windows.jsonl", '{"image": "a.png", "prompt": "a cat"}\n'.encode("utf-16"), "UTF-16"),
        ("bare.jsonl", '{"image": "a.png", "prompt": "a cat"}\n'.encode("utf-16-le"), "UTF-16"),
    ],
)
def test_a_file_that_is_no_manifest_is_one_error(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=re.escape(message)):
        list(Folder().load(tmp_path / name))


def test_a_prompt_in_utf16_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"x")
    (tmp_path / "a.txt").write_text("a cat", encoding="utf-16")
    (bad,) = Folder().load(tmp_path)
    assert bad == InvalidItem("a.png", "a.txt: this is UTF-16 text. Save the file as UTF-8", "", "a")


# -- links -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A data folder with a link to a folder outside, one to a file outside, one inside, and one to itself."""
    outside, data = tmp_path / "outside", tmp_path / "data"
    outside.mkdir()
    data.mkdir()
    (outside / "secret.txt").write_text("the secret")
    (outside / "secret.png").write_bytes(b"secret")
    (data / "here.png").write_bytes(b"here")
    (data / "out.png").symlink_to(outside / "secret.png")
    (data / "folder").symlink_to(outside)
    (data / "loop.png").symlink_to(data / "loop.png")
    (data / "alias.png").symlink_to("here.png")
    (data / "..dots.png").write_bytes(b"dots")
    return data


def test_links_stay_inside_the_data_folder(linked: Path) -> None:
    names = [
        "a" * 5000 + ".png",
        "here.png",
        "alias.png",
        "..dots.png",
        "out.png",
        "folder/secret.png",
        "folder/../here.png",
        "loop.png",
    ]
    write_lines(linked / "prompts.jsonl", {"prompt_id": "p", "prompt": "a cat"})
    write_lines(linked / "images.jsonl", *({"image": name, "prompt_id": "p"} for name in names))
    items, bad = loaded(linked)
    assert [item.id for item in items] == ["here.png", "alias.png", "..dots.png", "folder/../here.png"]
    assert "leads outside the data folder" in bad["out.png"]
    assert "leads outside the data folder" in bad["folder/secret.png"]
    assert "is a link to itself" in bad["loop.png"]
    assert "too long for a file" in bad["a" * 5000 + ".png"]


def test_a_text_beside_an_image_is_no_way_to_a_file_elsewhere(linked: Path) -> None:
    (linked / "here.txt").symlink_to(linked.parent / "outside" / "secret.txt")
    items, bad = loaded(linked)
    assert items == []
    assert "the prompt is a link that leads outside" in bad["here.png"]


def test_a_data_folder_may_itself_be_reached_by_a_link(linked: Path, tmp_path: Path) -> None:
    (tmp_path / "other").symlink_to(linked)
    write_lines(tmp_path / "data" / "m.jsonl", {"image": "here.png", "prompt": "a cat"})
    assert [item.id for item in loaded(tmp_path / "other" / "m.jsonl")[0]] == ["here.png"]


def test_no_suite_follows_links_that_lead_out(linked: Path) -> None:
    from titjudge.suites.longt2ibench.suite import LongT2IBench
    from titjudge.suites.lpg_bench import LpgBench
    from titjudge.suites.qwen_image_bench.suite import QwenImageBench

    def reasons(suite: Any, folder: Path) -> list[str]:
        return [each.reason for each in suite.load(folder) if isinstance(each, InvalidItem)]

    secret = linked.parent / "outside" / "secret.png"
    lpg, qwen, longt2i = linked / "lpg", linked / "qwen", linked / "longt2i"
    (lpg / "images" / "g").mkdir(parents=True)
    write_lines(lpg / "prompts.jsonl", {"prompt_id": "p", "prompt": "a cat"})
    (lpg / "images" / "g" / "p.png").symlink_to(secret)
    qwen.mkdir()
    (qwen / "bench_metadata.json").write_text('[{"ID": 1, "dims_en": "Quality / Detail / Noise"}]')
    write_lines(qwen / "g.jsonl", {"ID": 1, "prompt": "a cat", "image_path": "p.png"})
    (qwen / "p.png").symlink_to(secret)
    longt2i.mkdir()
    structure = {"entities": ["cat"], "entity_alignment": {"align": ["cat"], "misalign": []}}
    structure |= {f"{kind}_alignment": {"align": [], "misalign": []} for kind in ("attribute", "relation")}
    element = {"en_prompt_text": "a cat", "img_path": "p.png", "Align ratio": 1, "en_structured_data": structure}
    (longt2i / "split").mkdir()
    (longt2i / "split" / "test.json").write_text(json.dumps([element]))
    (longt2i / "p.png").symlink_to(secret)
    for made, folder in ((LpgBench, lpg), (QwenImageBench, qwen), (LongT2IBench, longt2i)):
        (reason,) = reasons(made(), folder)
        assert "leads outside the data folder" in reason, folder
        assert "--image-root DIR" in reason, folder
        assert reasons(made(SuiteInputs(image_roots=(secret.parent,))), folder) == [], folder


def test_images_elsewhere_are_read_below_a_named_folder_only(linked: Path) -> None:
    elsewhere = linked.parent / "outside"
    names = [str(elsewhere / "secret.png"), "../outside/secret.png", "secret.png", "out.png", str(linked / "here.png")]
    manifest = write_lines(linked / "m.jsonl", *({"image": name, "prompt": "a cat"} for name in [*names, "/etc/x.png"]))
    _, bad = loaded(manifest)
    assert bad.keys() == {*names[:2], names[3], "/etc/x.png"}
    assert all("--image-root DIR" in reason for reason in bad.values())
    found = list(Folder(SuiteInputs(image_roots=(elsewhere,))).load(manifest))
    assert [item.id for item in found if isinstance(item, Item)] == names
    assert {item.image.resolve() for item in found[:3] if isinstance(item, Item) and item.image} == {
        (elsewhere / "secret.png").resolve()
    }
    assert [item.id for item in found if isinstance(item, InvalidItem)] == ["/etc/x.png"]


def test_an_image_root_is_a_folder(linked: Path) -> None:
    from titjudge.core.config import RunConfig
    from titjudge.runs.folder.identity import identity
    from titjudge.suites.loading import open_suite, with_data

    config = RunConfig(data=linked, image_root=[linked.parent / "outside"])
    assert open_suite(config).image_roots == (linked.parent / "outside",)
    assert identity(config) == identity(RunConfig(data=linked))  # the same run goes on when its bad images are allowed
    with pytest.raises(ConfigError, match=r"--image-root .*none: no such file"):
        with_data(RunConfig(data=linked, image_root=[linked / "none"]))
    file = linked.parent / "a_file"
    file.touch()
    with pytest.raises(ConfigError, match=r"--image-root .*a_file: not a folder"):
        with_data(RunConfig(data=linked, image_root=[file]))


def test_a_pair_under_another_prompt_than_its_images_is_refused(tmp_path: Path) -> None:
    pair = {"image_a": "a.png", "image_b": "b.png", "preference": "a"}
    file = write_lines(tmp_path / "pairs.jsonl", {**pair, "prompt_id": "p"}, {**pair, "prompt_id": "q"})
    write_lines(tmp_path / "images.jsonl", {"image": "a.png", "prompt_id": "p"}, {"image": "b.png", "prompt_id": "p"})
    with pytest.raises(DataError, match="is an image of the prompt 'p', not 'q'") as caught:
        Folder().pairs(tmp_path)
    assert "2" in str(caught.value)
    assert len(read_pairs(file)) == 2  # without the images nothing is known of their prompts


def test_the_prompt_of_an_image_that_is_listed_twice_is_that_of_its_first_line(tmp_path: Path) -> None:
    write_lines(tmp_path / "images.jsonl", *({"image": image, "prompt_id": p} for image, p in ("ap", "bp", "aq")))
    write_lines(tmp_path / "pairs.jsonl", {"prompt_id": "p", "image_a": "a", "image_b": "b", "preference": "a"})
    assert len(Folder().pairs(tmp_path)) == 1


def test_one_image_under_several_prompts_is_an_item_for_each(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    Image.new("RGB", (8, 8), 9).save(tmp_path / "b.png")
    lines = [
        ("a.png", "old"),
        ("b.png", "old"),
        ("a.png", "new"),
        ("a.png", "old"),
        ("a.png", "third"),
        ("b.png", "new"),
    ]
    manifest = write_lines(tmp_path / "m.jsonl", *({"image": image, "prompt": prompt} for image, prompt in lines))
    items = list(read_items(manifest))
    assert [(item.id, item.prompt) for item in items if isinstance(item, Item)] == [
        ("a.png", "old"), ("b.png", "old"), ("a.png (2)", "new"), ("a.png (3)", "third"), ("b.png (2)", "new"),
    ]  # fmt: skip
    assert [(item.id, item.reason) for item in items if isinstance(item, InvalidItem)] == [
        ("a.png (again)", "the same image is listed twice for its prompt; the first line is used. Remove one of them")
    ]


def test_pairs_of_an_image_under_several_prompts_are_of_the_right_one(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    write_lines(tmp_path / "prompts.jsonl", *({"prompt_id": name, "prompt": f"a {name}"} for name in ("p", "q")))
    write_lines(
        tmp_path / "images.jsonl",
        *({"image": f"{image}.png", "prompt_id": prompt} for prompt in ("p", "q") for image in ("a", "b")),
    )
    pair = {"image_a": "a.png", "image_b": "b.png"}
    write_lines(
        tmp_path / "pairs.jsonl",
        {"prompt_id": "p", "preference": "a", **pair},
        {"prompt_id": "q", "preference": "b", **pair},
    )
    assert [(pair.prompt_id, pair.a, pair.b, pair.preference) for pair in Folder().pairs(tmp_path)] == [
        ("p", "a.png", "b.png", "a"),
        ("q", "a.png (2)", "b.png (2)", "b"),
    ]


@pytest.mark.parametrize(("given", "hint"), [("ckpt", ": no such file or folder. Did you mean 'ckpts'?"), ("x/ckpt", ": no such file or folder. Correct the path")])  # fmt: skip
def test_a_folder_that_is_not_there_names_the_one_that_is_called_much_the_same(
    tmp_path: Path, given: str, hint: str
) -> None:
    from titjudge.core.config import load_config
    from titjudge.runs.resolve import resolve

    (tmp_path / "ckpts").mkdir()
    with pytest.raises(ConfigError) as caught:
        resolve(load_config(None, {"data": tmp_path / given}))
    assert str(caught.value).endswith(f"{given}{hint}")


def test_all_paths_that_do_not_exist_are_named_at_once(tmp_path: Path) -> None:
    from titjudge.core.config import RunConfig
    from titjudge.suites.loading import with_data

    roots = [tmp_path, tmp_path / "root"]
    table = f"{tmp_path / 'p.csv'}:id,prompt"
    config = RunConfig(data=tmp_path / "data", pairs=tmp_path / "votes", prompt_file=table, image_root=roots)
    with pytest.raises(ConfigError) as caught:
        with_data(config)
    named = [part.partition(": no such")[0] for part in str(caught.value).split("; ")]
    options = {"": "data", "--pairs ": "votes", "--prompt-file ": "p.csv", "--image-root ": "root"}
    assert named == [f"{option}{tmp_path / name}" for option, name in options.items()]


def test_missing_files_of_a_suite_and_of_the_configuration_are_named_with_the_rest(tmp_path: Path) -> None:
    from titjudge.cli.options import RunKeys
    from titjudge.core.config import RunConfig
    from titjudge.suites.loading import with_data

    votes, file = tmp_path / "votes", tmp_path / "run.yaml"
    with pytest.raises(ConfigError) as caught:
        with_data(RunConfig(data=tmp_path, suite="wise", pairs=votes))
    assert "no prompts found" in str(caught.value)
    assert str(caught.value).endswith(f"; --pairs {votes}: no such file or folder. Correct the path")
    with pytest.raises(ConfigError) as caught:
        RunKeys(data=tmp_path / "data", pairs=votes, config_file=file).config()
    named = [part.partition(": no such")[0] for part in str(caught.value).split("; ")]
    assert named == [str(tmp_path / "data"), f"--config {file}", f"--pairs {votes}"]


def test_keys_that_nothing_reads_are_listed_for_images_and_prompts(tmp_path: Path) -> None:
    sources = {"source_image": "s.png", "category": "x", "author": "A"}
    write_lines(tmp_path / "prompts.jsonl", *({"prompt_id": p, "prompt": f"a {p}", **sources} for p in "xy"))
    write_lines(tmp_path / "images.jsonl", *({"image": f"{p}.png", "prompt_id": p, "height": 8} for p in "xy"))
    suite = Folder()
    list(suite.items(tmp_path))
    assert suite.notes == ["not used: height (1 value)", "not used: author (1 value)"]


def test_the_truth_of_known_answers_is_no_unused_key() -> None:
    suite = Folder()
    list(suite.items(example_folder()))
    assert not any(note.id == "columns_unused" for note in suite.notes)


EMPTY = {
    "a.jsonl": b"", "a.json": b"[]", "a.csv": b"image,prompt\n", "a.tsv": b"image\tprompt\n", "a.tar": bytes(10240),
    "a.tar.gz": gzip.compress(bytes(10240)), "a.csv.gz": gzip.compress(b"image,prompt\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", EMPTY)
def test_a_manifest_without_rows_has_no_images(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(EMPTY[name])
    with pytest.raises(DataError, match="the table has no rows"):
        loaded(tmp_path / name)


def test_a_key_that_tells_the_images_of_each_prompt_apart_is_not_averaged_over(tmp_path: Path) -> None:
    write_lines(tmp_path / "prompts.jsonl", *({"prompt_id": p, "prompt": f"a {p}"} for p in "xyz"))
    rows = [{"image": f"{m}{p}.png", "prompt_id": p, "method": m, "height": 8} for p in "xyz" for m in "abc"]
    write_lines(tmp_path / "images.jsonl", *rows)
    with pytest.raises(DataError, match=r"method \(3 values\).*generator or sample"):
        list(Folder().load(tmp_path))
    write_lines(tmp_path / "images.jsonl", *({**row, "generator": row["method"]} for row in rows))
    assert len(list(Folder().load(tmp_path))) == 9
