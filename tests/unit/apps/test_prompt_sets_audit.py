"""Audits of prompt sets: planted duplicates, leaks and lengths are found, and nothing else."""

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest
import tiny_models
from builders import read_lines
from commands import cli
from hypothesis import given
from hypothesis import strategies as st

from titjudge.apps.prompt_sets.audit_statistics import audit, evenness, grade, nearest, sorting_columns, unique
from titjudge.core.paths import starter_file
from titjudge.core.types import ProviderSettings
from titjudge.providers.local.sentence_transformers import SentenceTransformers

ROOT = Path(__file__).resolve().parents[3]


def unit(*angles: float) -> np.ndarray:
    return np.array([[np.cos(angle), np.sin(angle)] for angle in np.radians(angles)])


def test_a_prompt_that_says_the_same_as_one_kept_is_dropped() -> None:
    kept, alike = unique(["a", "b", "c", "d"], unit(0, 90, 20, 45))
    assert kept == [0, 1, 3]
    assert [(each.prompt, each.other, each.cosine) for each in alike] == [
        ("c", "a", round(float(np.cos(np.radians(20))), 4))
    ]


@given(st.lists(st.floats(0, 360), min_size=2, max_size=30))
def test_what_is_kept_is_apart_and_the_nearest_is_the_brute_force_one(angles: list[float]) -> None:
    vectors = unit(*angles)
    kept, alike = unique(list(map(str, angles)), vectors)
    cosines = vectors @ vectors.T
    assert all(cosines[i, j] < 0.85 for i in kept for j in kept if i != j)
    assert len(kept) + len(alike) == len(angles)
    np.fill_diagonal(cosines, -2)
    assert nearest(vectors) == pytest.approx(cosines.max(axis=1), abs=1e-4)


def test_what_encoders_cut() -> None:
    found = audit({"a": "x", "b": "y"}, unit(0, 90), [77, 154], "words")
    assert found.cut(77) == (1, 0.5)
    assert found.cut(248) == (0, None)


def test_columns_that_sort_and_columns_that_do_not() -> None:
    rows = {str(n): {"type": "ab"[n % 2], "number": n, "same": "x", "long": "y" * 200, "flag": True} for n in range(20)}
    for number in range(3):  # of a recipe that few prompts were made after
        rows[str(number)] |= {"subject": f"subject {number}", "pair": "one of two versions"}
    assert sorting_columns(rows) == {"type": {"a": 10, "b": 10}}
    assert evenness([10, 10]) == 1
    assert evenness([99, 1]) < 0.1


def test_reading_level() -> None:
    assert grade("") is None
    assert grade("The cat sat on the mat.") == pytest.approx(-1.4, abs=0.2)  # 6 words, 6 syllables
    long = grade("Extraordinarily complicated architectural configurations necessitate meticulous consideration.")
    assert long is not None
    assert long > 20


def test_the_command(tmp_path: Path) -> None:
    rows = [
        {"prompt_id": "a", "prompt": "A red cube stands on a wooden table.", "type": "x"},
        {"prompt_id": "b", "prompt": "A red cube is standing on a wooden table.", "type": "x"},
        {"prompt_id": "c", "prompt": "No birds sing in the silent <b>forest</b> at night.", "type": "自转车"},
        {"prompt_id": "d", "prompt": "Ein grünes Fahrrad lehnt an der Mauer.", "type": "自转车"},
        {"prompt_id": "f", "prompt": "A quiet harbour with three boats.", "type": "自转车"},
        {"prompt_id": "e", "prompt": " "},
    ]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "theirs.txt").write_text("A green bicycle.\nA red cube stands on a table made of wood.\n")
    told = cli(
        tmp_path, "prompts", "audit", "mine.jsonl", "--against", "theirs.txt", "--html", "page.html", "--out", "t.md",
        "--json", "a.json",
    )  # fmt: skip
    assert "1 row is not a prompt: mine.jsonl:6" in told
    assert "Glyph" not in told
    found = json.loads((tmp_path / "a.json").read_text())
    assert (found["prompts"], found["unique"]) == (5, 4)
    assert [each["prompts"] for each in found["alike"]] == [["a", "b"]]
    assert {each["prompt"] for each in found["leaks"]} == {"a", "b"}
    assert found["leaks"][0]["source"] == "theirs.txt"
    assert found["columns"] == {"type": {"x": 2, "自转车": 3}}
    assert found["unshowable"]["sound"] == {"c": ["silent"]}
    assert found["unshowable"]["absence"] == {"c": ["no"]}
    page = (tmp_path / "page.html").read_text()
    assert page.count("<script") == 3  # the data, the images and the script of the viewer
    titles = ("How long the prompts are", "Words", "How alike the prompts are", "Reading level", "Balance of type")
    assert page.count("<svg") == len(titles)
    assert all(f'<h2 dir="auto">{title}' in page for title in titles)
    assert "<b>forest" not in page
    assert "Prompts that another set has" in (tmp_path / "t.md").read_text()


def test_a_set_is_held_against_suites_at_hand(tmp_path: Path) -> None:
    starter = read_lines(starter_file())[:2]
    (tmp_path / "mine.txt").write_text(f"A quiet harbour.\n{starter[0]['prompt']}\n")
    given = ("--against", "starter", "--against", f"known-answer:{ROOT / 'examples' / 'known_answer'}")
    cli(tmp_path, "prompts", "audit", "mine.txt", *given, "--json", "a.json")
    (leak,) = json.loads((tmp_path / "a.json").read_text())["leaks"]
    assert (leak["prompt"], leak["other"], leak["source"]) == ("1", starter[0]["prompt_id"], "starter")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["none.csv"], "none.csv: no such file or folder"),
        (
            ["one.txt", "--against", "tiif"],
            "the folder tiif does not exist. Run `titjudge suites fetch tiif`, or give tiif:FOLDER",
        ),
        (["empty.txt"], "no prompts found"),
        (["empty.csv"], "empty.csv: no prompts found"),
        (["bad.jsonl"], "titjudge: bad.jsonl:1: not JSON: column 13: a comma before a closing bracket. Remove it"),
        (["one.txt", "--against", "none.csv"], "none.csv: no such file or folder"),
        (["one.txt", "--tokenizer", "none"], "--tokenizer none: no such folder"),
        (["one.txt", "--out", "a.pdf"], "must be a file that ends in"),
        (["empty.csv", "--out", "empty.csv"], "empty.csv is an input of this command. Choose another file to write"),
    ],
)
def test_errors_are_one_line(tmp_path: Path, arguments: list[str], reason: str) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "empty.csv").touch()
    (tmp_path / "bad.jsonl").write_text('{"prompt": 1,}\n')
    (tmp_path / "one.txt").write_text("A red cube.\n")
    assert reason in cli(tmp_path, "prompts", "audit", *arguments, code=2)


def test_versions_of_one_prompt_are_no_duplicates(tmp_path: Path) -> None:
    rows = [("a", "A red cube.", "1"), ("b", "A red cube.", "2"), ("c", "A red cube!", "1")]
    (tmp_path / "mine.csv").write_text("number,text_en,pair\n" + "".join(",".join(row) + "\n" for row in rows))
    cli(
        tmp_path,
        "prompts",
        "audit",
        "mine.csv:number,text_en",
        "--against",
        "mine.csv:number,text_en",
        "--json",
        "a.json",
    )
    found = json.loads((tmp_path / "a.json").read_text())
    assert [each["prompts"] for each in found["alike"]] == [["a", "b"]]
    assert (found["unique"], len(found["leaks"])) == (2, 3)


@pytest.mark.slow
def test_only_a_count_by_clip_is_called_that_of_tiif_bench(tmp_path: Path) -> None:
    folder = tiny_models.clip(tmp_path / "encoder")
    (tmp_path / "mine.txt").write_text("a red cube\na blue ball\n")
    clip = cli(
        tmp_path, "prompts", "audit", "mine.txt", "--embedder", f"sentence-transformers/{folder}", "--json", "clip.json"
    )
    packaged = cli(tmp_path, "prompts", "audit", "mine.txt", "--json", "packaged.json")
    assert "as TIIF-Bench counts: CLIP text embeddings" in clip
    assert "as TIIF-Bench counts" not in packaged
    assert "on another scale than CLIP's" in packaged
    counted = [
        json.loads((tmp_path / name).read_text())["counted_as_tiif_bench"] for name in ("clip.json", "packaged.json")
    ]
    assert counted == [True, False]


@pytest.mark.slow
def test_clip_embeds_a_text_as_its_own_text_features(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from transformers import AutoTokenizer, CLIPModel

    folder = tiny_models.clip(tmp_path)
    texts = ["a red cube", "a blue ball on a table", "a" * 100]
    embedder = SentenceTransformers(str(folder), ProviderSettings("embedder"))
    found = asyncio.run(embedder.embed(texts))
    model, tokenizer = CLIPModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    for text, embedding in zip(texts, found, strict=True):
        with torch.no_grad():
            tokens = tokenizer([text], return_tensors="pt", truncation=True, max_length=77)
            features = model.get_text_features(**tokens).pooler_output[0].numpy()
        np.testing.assert_allclose(embedding.vector, features / np.linalg.norm(features), atol=1e-5)
    assert embedder.clip


@pytest.mark.slow
def test_pooling_can_be_named_where_a_folder_does_not_say_it(tmp_path: Path) -> None:
    folder = tiny_models.qwen3_embedding_plain(tmp_path / "encoder")
    (tmp_path / "mine.txt").write_text("a red cube\na blue ball\n")
    given = ("prompts", "audit", "mine.txt", "--embedder", f"sentence-transformers/{folder}")
    assert "Set the option pooling" in cli(tmp_path, *given, code=2)
    assert "Unique prompts" in cli(tmp_path, *given, "--set", "embedder.options.pooling=lasttoken")


def test_pooling_without_an_embedder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("a red cube\n")
    assert "'embedder.model' is missing" in cli(
        tmp_path, "prompts", "audit", "mine.txt", "--set", "embedder.options.pooling=mean", code=2
    )
