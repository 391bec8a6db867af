import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loading import sorted_out

from titjudge.core.errors import ConfigError, DataError
from titjudge.core.types import InvalidItem, Item, Score
from titjudge.suites.base import SuiteInputs
from titjudge.suites.qwen_image_bench.dataset import (
    id_text,
    parse_facets,
    read_metadata,
    summarise,
    write_bench_scores,
    write_bench_xlsx,
    write_judged,
    write_scores_detail,
    write_scores_result,
)
from titjudge.suites.qwen_image_bench.suite import QwenImageBench, aggregate_responses

META = [
    {"ID": 1, "dims_en": "Quality / Detail / Noise; Aesthetics / Composition / Composition"},
    {"ID": 2, "dims_en": "Quality / Realism / Physical Logic; Quality / Detail / Noise"},
]


def q(noise: Any, logic: Any = "N/A") -> str:
    return json.dumps({"Detail": {"Noise": {"score": noise}}, "Realism": {"Physical Logic": {"score": logic}}})


def line(case: str, name: Any, model: str | None, text: Any, dim: str = "Quality") -> dict[str, Any]:
    return {"case": case, "ID": name, "model": model, "dim": dim, "response": text}


@pytest.fixture
def metadata(tmp_path: Path) -> Path:
    path = tmp_path / "bench_metadata.json"
    path.write_text(json.dumps(META))
    return path


def write_lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
    return path


def problems(result: dict[str, Any]) -> str:
    return "\n".join(f"{p['name']}: {p['reason']}" for p in result["problems"])


# -- metadata ----------------------------------------------------------------------------------------------------------


def test_facets_with_a_slash_in_their_name() -> None:
    text = "Creative Generation / Visual Storytelling / Camera / Lens Style; Alignment / Relations / Difference/Similarity;"
    facets, unknown = parse_facets(text)
    assert facets == {
        "Creative Generation": [["Visual Storytelling", "Camera / Lens Style"]],
        "Alignment": [["Relations", "Difference/Similarity"]],
    }
    assert unknown == []


def test_two_levels_mean_the_same_name_twice_and_unknown_facets_are_named() -> None:
    assert parse_facets("Quality / Resolution; Quality / Charm; Mood / A / B; Quality") == (
        {"Quality": [["Resolution", "Resolution"]]},
        ["Quality / Charm", "Mood / A / B", "Quality"],
    )


def test_the_published_metadata_name_only_facets_of_the_rubric(shared: Path) -> None:
    known = read_metadata(shared / "qwen_image_bench" / "bench_metadata.json")
    assert (len(known.facets), known.problems) == (1000, [])
    assert sum(len(pillars) for pillars in known.facets.values()) == 4105
    assert sum(len(of) for pillars in known.facets.values() for of in pillars.values()) == 5169


@pytest.mark.parametrize(
    ("raw", "text"), [(7, "7"), (7.0, "7"), (" 07", "7"), ("7.0", "7"), ("a.0", "a.0"), (None, ""), (True, "")]
)
def test_ids(raw: Any, text: str) -> None:
    assert id_text(raw) == text


def test_bad_metadata_are_named(tmp_path: Path) -> None:
    rows = [*META, META[0], {"ID": 3}, {"dims_en": "x"}, {"ID": 4, "dims_en": "Quality / Detail / Charm"}]
    known = read_metadata(write_lines(tmp_path / "m.jsonl", [*rows, "[1]\n", "{\n"]))
    assert [problem.name for problem in known.problems] == [
        "m.jsonl:3: ID 1", "m.jsonl:4", "m.jsonl:5", "m.jsonl:6: ID 4", "m.jsonl:7", "m.jsonl:8",
    ]  # fmt: skip


@pytest.mark.parametrize("raw", [b"", b"[]", b"[1, 2", b"\xff\xfe[", b'[{"ID": 1}]'])
def test_unusable_metadata(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "m.json"
    path.write_bytes(raw)
    with pytest.raises(DataError, match=r"m\.json"):
        read_metadata(path)
    with pytest.raises(DataError, match="format"):
        read_metadata(tmp_path / "m.xlsx")


# -- answers that exist ------------------------------------------------------------------------------------------------


def test_cases_and_models(tmp_path: Path, metadata: Path) -> None:
    rows = [
        line("a", 1, "m", q(1, 0)),
        line("b", 1, "m", json.dumps({"Composition": {"Composition": {"score": 2}}}), "Aesthetics"),
        line("c", 2, "m", q(2)),
        line("d", 2, "n", "no"),
        line("e", None, None, "[1]"),
    ]
    result, tables = aggregate_responses(write_lines(tmp_path / "r.jsonl", rows), metadata)
    assert result["cases"]["a"] == {
        "status": "ok",
        "level1": 30.0,
        "level2": {"Detail": 60.0, "Realism": 0.0},
        "level3": {"Detail": {"Noise": 60.0}, "Realism": {"Physical Logic": 0.0}},
    }
    assert [result["cases"][case]["status"] for case in "de"] == ["parse_failure", "invalid"]
    m = result["models"]["m"]
    assert m["level1"] == {"Quality": 65.0, "Aesthetics": 100.0}
    assert m["overall"] == (65 + 100) / 2  # rows (30 + 100) / 2 and 100: not the mean of the pillars
    assert m["level3"]["Quality"] == {"Detail": {"Noise": 80.0}, "Realism": {"Physical Logic": 0.0}}
    assert result["models"]["n"] == {"overall": None, "level1": {}, "level2": {}, "level3": {}}
    assert result["coverage"]["n"]["parse_failure"] == 1
    assert result["coverage"]["m"] == {
        "prompts": 2, "images": 2, "of_prompts": 2, "answers": 3, "ok": 3, "parse_failure": 0, "invalid": 0, "missing": 0,
    }  # fmt: skip
    assert tables[0].rows[-1][0] == "n"
    assert any(note.id == "judged_on_different_numbers" for note in tables[0].notes)


def test_every_row_of_an_id_counts_as_upstream(tmp_path: Path, metadata: Path) -> None:
    """Several images for one prompt: 0 and 2 are 50.0, in every shape; each row keeps its own pillars."""
    aesthetics = json.dumps({"Composition": {"Composition": {"score": 2}}})
    wide = [
        {"ID": 1, "quality_response_m": q(0), "aesthetics_response_m": None},
        {"ID": 1, "quality_response_m": q(2), "aesthetics_response_m": aesthetics},
    ]
    judged = [
        {"ID": 1, "quality_judge_output": q(0), "aesthetics_judge_output": None},
        {"ID": 1, "quality_judge_output": q(2), "aesthetics_judge_output": aesthetics},
    ]
    answers = [line("a", 1, "m", q(0)), line("b", 1, "m", q(2)), line("c", 1, "m", aesthetics, "Aesthetics")]
    for name, rows, overall in (("w.jsonl", wide, 50), ("m_judged.jsonl", judged, 50), ("r.jsonl", answers, 75)):
        result, _ = aggregate_responses(write_lines(tmp_path / name, rows), metadata)
        assert result["models"]["m"]["level1"]["Quality"] == 50.0
        assert result["models"]["m"]["overall"] == overall  # the pillars of a row are averaged before the rows are
        assert (result["coverage"]["m"]["prompts"], result["coverage"]["m"]["images"]) == (1, 2)
        assert result["coverage"]["m"]["missing"] == 1
        assert not problems(result)


def test_gated(tmp_path: Path, metadata: Path) -> None:
    rows = [line("a", 1, "m", q(1, 0)), line("b", 9, "m", q(1)), line("c", 1, "m", q(1), "Alignment")]
    path = write_lines(tmp_path / "r.jsonl", rows)
    for name in ("strict", "paper-gated"):
        result, _ = aggregate_responses(path, metadata, protocol=name)
        assert result["cases"]["a"]["level2"] == {"Detail": 60.0}
        assert (result["cases"]["b"]["level1"], result["cases"]["c"]["level1"]) == (None, None)
        assert result["models"]["m"]["overall"] == 60
        assert "b: the metadata have no ID 9" in problems(result)
    with pytest.raises(ConfigError):
        aggregate_responses(path, metadata, protocol="loose")


def test_bad_input_is_counted_and_named_and_nothing_crashes(tmp_path: Path, metadata: Path) -> None:
    rows = [
        line("a", 1, "m", q(1)),
        line("a", 2, "m", q(2)),
        line("b", 1, "m", q(2)),
        line("c", 1, "m", q(2), "Charm"),
        line("d", 2, "m", 17, "Aesthetics"),
        line("e", 99, "m", q(1)),
        line("f", 1, "", q(0)),
        {"ID": 5},
        "[]\n",
        '"\xff\n',
        "{",
    ]
    path = tmp_path / "r.jsonl"
    path.write_bytes(
        b"".join((row if isinstance(row, str) else json.dumps(row) + "\n").encode("latin-1") for row in rows)
    )
    result, _ = aggregate_responses(path, metadata)
    named = problems(result)
    assert "a: duplicate case, kept as 'a (2)'. Remove one of them" in named
    assert "c: invalid: there is no pillar 'Charm'" in named
    assert "e: the metadata have no ID 99" in named
    assert "f: the line has no model or ID" in named
    assert all(f"r.jsonl:{number}: " in named for number in (8, 9, 10, 11))
    assert result["cases"]["d"]["status"] == "invalid"
    assert set(result["models"]) == {"m"}
    assert result["models"]["m"]["level1"] == {"Quality": (60 + 100 + 100 + 60) / 4}


def test_no_answers_at_all(tmp_path: Path, metadata: Path) -> None:
    with pytest.raises(DataError, match="no answers"):
        aggregate_responses(write_lines(tmp_path / "r.jsonl", ["\n"]), metadata)
    with pytest.raises(DataError):
        aggregate_responses(tmp_path / "absent.jsonl", metadata)


def test_wide_rows_models_from_all_of_them(tmp_path: Path, metadata: Path) -> None:
    rows = [
        {"ID": 1, "quality_response_m": q(1), "aesthetics_response_m": ""},
        {"ID": 2, "quality_response_m": q(2), "quality_response_n": q(0), "real_world_fidelity_response_n": "?"},
    ]
    result, _ = aggregate_responses(write_lines(tmp_path / "wide.jsonl", rows), metadata)
    assert {name: of["overall"] for name, of in result["models"].items()} == {"m": 80, "n": 0}
    assert result["cases"]["2/n/Real-world Fidelity"]["status"] == "parse_failure"
    assert result["coverage"]["m"]["missing"] == 1


@pytest.mark.parametrize("suffix", ["csv", "json", "jsonl"])
def test_judged_files_are_read_and_written(tmp_path: Path, metadata: Path, suffix: str) -> None:
    suite = QwenImageBench()
    items = [Item("g/1", 'a "cat", ü', tmp_path / "1.png", "g", "1", {"facets": {"Quality": [["Detail", "Noise"]]}})]
    scores = [Score("g/1", "checklist", 60.0, parts={"outputs": {"Quality": q(1)}})]
    path = tmp_path / f"x_judged.{suffix}"
    write_judged(items, scores, path)
    row = json.loads(path.read_text(encoding="utf-8"))
    assert json.loads(row["judge_model_output"])["Quality"]["Detail"] == {"Noise": {"score": 1}}
    if suffix == "csv":
        import csv

        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, row)
            writer.writeheader()
            writer.writerow(row)
    result, _ = aggregate_responses(path, metadata)
    assert result["models"]["g"]["overall"] == 60
    assert list(result["cases"]) == ["1/g/Quality"]
    assert suite.pairs(tmp_path) == []


def test_the_official_files(tmp_path: Path) -> None:
    row = {
        "level1": {"Quality": 60.0},
        "level2": {"Quality": {"Detail": 60.0}},
        "level3": {"Quality": {"Detail": {"Noise": 60.0}}},
    }
    models = {"low": summarise([]), "high": summarise([row])}
    write_scores_detail(models, tmp_path / "d.json")
    detail = json.loads((tmp_path / "d.json").read_text())
    assert list(detail) == ["high", "low"]
    assert list(detail["high"]) == ["total", "level1", "level2", "level3"]
    write_bench_scores(models["high"], tmp_path / "b.json")
    assert json.loads((tmp_path / "b.json").read_text()) == detail["high"]


def test_the_official_spreadsheets(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")

    def row(mark: float) -> dict[str, Any]:
        level2 = {"Quality": {"Detail": mark, "Artifacts": 60.0}, "Creative Generation": {"Imagination": mark}}
        level1 = {"Quality": (mark + 60) / 2, "Creative Generation": mark}
        return {"level1": level1, "level2": level2, "level3": {}}

    models = {"=1+1": summarise([]), "low": summarise([row(0)]), "high": summarise([row(100)])}
    write_scores_result(models, tmp_path / "r.xlsx")
    book = openpyxl.load_workbook(tmp_path / "r.xlsx")
    found = {sheet.title: list(sheet.iter_rows(values_only=True)) for sheet in book}
    pillars = ("Quality", "Aesthetics", "Alignment", "Creative Generation", "Real-world Fidelity")
    assert found == {
        "Level-1 Summary": [
            ("Model", *pillars, "Total"),
            ("high", 80, None, None, 100, None, 90),
            ("low", 30, None, None, 0, None, 15),
            ("=1+1", *[None] * 6),
        ],
        "Quality": [("Model", "Artifacts", "Detail"), ("high", 60, 100), ("low", 60, 0), ("=1+1", None, None)],
        "Creative Generation": [("Model", "Imagination"), ("high", 100), ("low", 0), ("=1+1", None)],
    }
    assert book["Level-1 Summary"]["A4"].data_type == "s"  # no formula
    write_bench_xlsx(models["low"], tmp_path / "b.xlsx")
    book = openpyxl.load_workbook(tmp_path / "b.xlsx")
    assert book.sheetnames == ["Level-1 Summary", "Quality", "Creative Generation"]
    summary = [("Dimension", "Score"), ("Quality", 30), ("Creative Generation", 0), ("Total", 15)]
    assert list(book["Level-1 Summary"].iter_rows(values_only=True)) == summary
    detail = [("Sub-dimension", "Score"), ("Detail", 0), ("Artifacts", 60)]
    assert list(book["Quality"].iter_rows(values_only=True)) == detail


def test_all_columns_of_the_input_are_in_the_judged_file(tmp_path: Path, metadata: Path) -> None:
    row = {
        "ID": 1,
        "prompt": "a",
        "image_path": "img/1.png",
        "dims_en": META[0]["dims_en"],
        "prompt_cn": "猫",
        "seed": 7,
    }
    write_lines(tmp_path / "x.jsonl", [row])
    (item,) = QwenImageBench().load(tmp_path)
    assert isinstance(item, Item)
    write_judged([item], [], tmp_path / "x_judged.jsonl")
    judged = json.loads((tmp_path / "x_judged.jsonl").read_text(encoding="utf-8"))
    assert judged | row | {"image_path": str(item.image)} == judged
    assert judged["model"] == "x"


def test_the_rubric_of_the_fork(tmp_path: Path, metadata: Path) -> None:
    """A facet that the fork has dropped stays where the judge put it, and is a name that the rubric does not have."""
    said = json.dumps({"Feature Matching": {"Graphic Design": {"score": 0}, "Feature Matching": {"score": 2}}})
    path = write_lines(tmp_path / "r.jsonl", [line("a", 1, "m", said, "Creative Generation")])
    assert aggregate_responses(path, metadata)[0]["cases"]["a"]["level2"] == {
        "Design Applications": 0,
        "Feature Matching": 100,
    }
    assert aggregate_responses(path, metadata, facets=38)[0]["cases"]["a"]["level2"] == {"Feature Matching": 50}


def test_the_option_facets(tmp_path: Path, metadata: Path) -> None:
    write_lines(tmp_path / "x.jsonl", [{"ID": 1, "prompt": "a", "image_path": "1.png"}])
    (item,) = QwenImageBench(facets="38").load(tmp_path)
    assert isinstance(item, Item)
    assert item.meta["rubric_facets"] == 38
    write_judged([item], [], tmp_path / "x_judged.jsonl")
    assert "rubric_facets" not in json.loads((tmp_path / "x_judged.jsonl").read_text())
    (item,) = QwenImageBench().load(tmp_path)
    assert isinstance(item, Item)
    assert "rubric_facets" not in item.meta
    with pytest.raises(ConfigError, match="56 or 38"):
        QwenImageBench(facets=40)


# -- means over rows ---------------------------------------------------------------------------------------------------

POINTS = st.sampled_from([None, 0.0, 60.0, 100.0])


@given(
    st.lists(st.dictionaries(st.sampled_from(["Quality", "Aesthetics", "Alignment"]), POINTS, max_size=3), max_size=6)
)
def test_models_against_the_slow_way(level1: list[dict[str, float | None]]) -> None:
    found = summarise([{"level1": row, "level2": {}, "level3": {}} for row in level1])
    totals = []
    for row in level1:
        numbers = [value for value in row.values() if value is not None]
        if numbers:
            totals.append(sum(numbers) / len(numbers))
    assert found["overall"] == (pytest.approx(sum(totals) / len(totals)) if totals else None)
    for pillar in ("Quality", "Aesthetics", "Alignment"):
        numbers = [row[pillar] for row in level1 if row.get(pillar) is not None]
        assert found["level1"].get(pillar) == (pytest.approx(sum(numbers) / len(numbers)) if numbers else None)


# -- the suite ---------------------------------------------------------------------------------------------------------


def test_loading(tmp_path: Path, metadata: Path) -> None:
    rows = [
        {"ID": 1, "prompt": "a", "image_path": "img/1.png", "lang": "en"},
        {"ID": "2", "prompt": "b", "image_path": "img/2.png", "model": "other"},
        {"ID": 1, "prompt": "a", "image_path": "img/1.png"},
        {"ID": 3, "prompt": "c", "image_path": "img/3.png"},
        {"ID": 4, "prompt": "c", "image_path": "img/3.png", "dims_en": META[0]["dims_en"]},
        {"ID": 2, "prompt": "b", "image_path": "../2.png"},
        {"ID": 2, "prompt": "", "image_path": "2.png"},
        "{\n",
    ]
    write_lines(tmp_path / "gen.jsonl", rows)
    write_lines(tmp_path / "gen_judged.jsonl", rows)
    items, bad = sorted_out(QwenImageBench().load(tmp_path))
    assert [item.id for item in items] == ["gen/1", "other/2", "gen/1 (2)", "gen/4"]
    assert items[0] == Item(
        "gen/1", "a", tmp_path / "img/1.png", "gen", "1",
        {"lang": "en", "ID": "1", "facets": {"Quality": [["Detail", "Noise"]], "Aesthetics": [["Composition", "Composition"]]}},
    )  # fmt: skip
    assert list(bad) == ["gen/3", "gen/2", "gen.jsonl:7", "gen.jsonl:8"]
    assert bad["gen/3"] == "the metadata have no ID 3. Add it"
    assert "outside" in bad["gen/2"]
    assert bad["gen.jsonl:7"] == "the row has no prompt. Fill the cell"


def test_loading_without_metadata_and_from_one_file(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("\ufeffID,prompt,image_path\n1,a,1.png\n1,b\n", encoding="utf-8")
    loaded = list(QwenImageBench().load(tmp_path / "t.csv"))
    assert [type(each) for each in loaded] == [InvalidItem, InvalidItem]
    assert "no metadata" in loaded[0].reason  # type: ignore[union-attr]
    write_lines(tmp_path / "m.jsonl", META)
    item = next(iter(QwenImageBench(metadata=tmp_path / "m.jsonl").load(tmp_path / "t.csv")))
    assert isinstance(item, Item)


def test_nothing_to_load(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no table"):
        list(QwenImageBench().load(tmp_path))
    (tmp_path / "t.csv").write_bytes(b"ID,prompt,image_path\n1,\xff,1.png\n")
    with pytest.raises(DataError, match=r"t\.csv"):
        list(QwenImageBench().load(tmp_path))


def test_aggregating_scores(tmp_path: Path) -> None:
    facets = {"Quality": [["Detail", "Noise"]], "Aesthetics": [["Composition", "Composition"]]}
    items = [Item(f"g/{n}", "p", tmp_path, "g", str(n), {"facets": facets}) for n in (1, 2)] + [
        Item("h/1", "p", tmp_path, "h", "1", {"facets": facets})
    ]
    parts = {
        "level1": {"Quality": 60.0},
        "level2": {"Quality": {"Detail": 60.0}},
        "level3": {"Quality": {"Detail": {"Noise": 60.0}}},
        "failed": {"Aesthetics": "refused: no"},
    }
    scores = [Score("g/1", "checklist", 60.0, parts=parts), Score("g/2", "checklist", None), Score("g/1", "tit", 0.5)]
    models, counts, named = QwenImageBench().summary(items, scores)
    assert models["g"]["overall"] == 60
    assert models["h"]["overall"] is None
    assert counts["g"]["missing"] == 2
    assert [problem.name for problem in named] == ["g/1: Aesthetics"]
    tables = QwenImageBench().aggregate(items, scores)
    assert tables[0].rows == (("g", 60.0, None, None, None, None, 60.0), ("h", None, None, None, None, None, None))
    assert len(tables[2].rows) == 56


def test_the_file_of_the_hub_is_input_as_it_is(tmp_path: Path) -> None:
    """A column is a generator; those count whose images are there, made from the Chinese prompt."""
    row = {
        "ID": 1,
        "prompt_cn": "猫",
        "prompt_en": "a cat",
        "dims_en": META[0]["dims_en"],
        "Flux": "images/flux/000001_a.png",
        "Sd-3": "images/sd3/000001_b.png",
        "quality_response_Flux": q(1),
    }
    write_lines(tmp_path / "qwen_image_bench_hf_v0518.jsonl", [row])
    (tmp_path / "fetched.json").write_text(json.dumps({"files": {}}))
    with pytest.raises(DataError, match=r"none of its images exists. Run `suites fetch qwen-image-bench --include"):
        list(QwenImageBench().load(tmp_path))
    (tmp_path / "images" / "flux").mkdir(parents=True)
    (item,) = QwenImageBench().load(tmp_path)
    assert isinstance(item, Item)
    assert (item.id, item.prompt, item.generator) == ("Flux/1", "猫", "Flux")
    assert item.image == tmp_path / "images" / "flux" / "000001_a.png"
    assert sorted(item.meta) == ["ID", "dims_en", "facets", "prompt_cn", "prompt_en"]

    suite = QwenImageBench(SuiteInputs(columns={"prompt": ["prompt_en"]}))
    assert [each.prompt for each in suite.load(tmp_path) if isinstance(each, Item)] == ["a cat"]
    write_lines(tmp_path / "mine.jsonl", [{"ID": 1, "prompt": "a cat", "image_path": "1.png"}])
    (tmp_path / "images" / "flux").rmdir()
    assert [each.id for each in QwenImageBench().load(tmp_path)] == ["mine/1"]


def test_the_official_files_of_a_run(tmp_path: Path, metadata: Path) -> None:
    write_lines(tmp_path / "x.jsonl", [{"ID": 1, "prompt": "a", "image_path": "1.png"}])
    items = [each for each in QwenImageBench().load(tmp_path) if isinstance(each, Item)]
    scores = [
        Score("x/1", "checklist", 60.0, parts={"level1": {"Quality": 60.0}, "level2": {"Quality": {"Detail": 60.0}}})
    ]
    count = QwenImageBench().write_official(items, scores, tmp_path / "out")
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert len(written) == count
    assert {"x_judged.jsonl", "x_bench_scores.json", "scores_detail.json"} <= written
