"""Local embeddings against the official recipe written out by hand, and the traps that change vectors silently."""

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
from builders import read_lines

from titjudge.core.errors import ConfigError, UserError
from titjudge.core.types import Embedding, FailureKind, ProviderSettings
from titjudge.providers.local import hub
from titjudge.providers.local.sentence_transformers import SentenceTransformers, default

TEXTS = [
    "a red sphere",
    "the picture shows a small dog beside two cats on grass " * 6,
    "Ein rotes Haus, 日本語, and a checkerboard floor",
    "x",
]


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.qwen3_embedding(tmp_path_factory.mktemp("qwen"))


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.qwen3_embedding_plain(tmp_path_factory.mktemp("bare"))


def make(folder: Path | str, **options: Any) -> SentenceTransformers:
    return SentenceTransformers(str(folder), ProviderSettings(str(folder), options={"device": "cpu", **options}))


def embed(embedder: SentenceTransformers, texts: list[str]) -> list[Embedding]:
    async def run() -> list[Embedding]:
        try:
            return await embedder.embed(texts)
        finally:
            await embedder.aclose()

    return asyncio.run(run())


def by_hand(
    folder: Path, texts: list[str], side: str = "left", length: int = 8192, dtype: str = "float32"
) -> np.ndarray:
    """The release's recipe: pad, cut at `length`, hidden state of the last real token, L2 norm."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tok = AutoTokenizer.from_pretrained(folder)
    tok.padding_side = side
    model = AutoModel.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()
    batch = tok(texts, padding=True, truncation=True, max_length=length, return_tensors="pt")
    with torch.no_grad():
        states = model(**batch).last_hidden_state
    rows = []
    for row, mask in zip(states, batch["attention_mask"], strict=True):
        last = int(mask.nonzero().max())
        rows.append(row[last] / row[last].norm())
    return torch.stack(rows).numpy()


def matrix(found: list[Embedding]) -> np.ndarray:
    return np.stack([each.vector for each in found])


@pytest.mark.slow
@pytest.mark.parametrize("side", ["left", "right"])
def test_qwen3_embedding_is_the_official_recipe(qwen: Path, side: str) -> None:
    found = matrix(embed(make(qwen, dtype="float64"), TEXTS))
    assert found.dtype == np.float32
    assert np.abs(found - by_hand(qwen, TEXTS, side, dtype="float64")).max() < 1e-6


def test_in_single_precision_the_official_padding_gives_the_official_vector(qwen: Path) -> None:
    found = matrix(embed(make(qwen), TEXTS))  # the other padding rounds differently, by up to 3e-6
    assert np.abs(found - by_hand(qwen, TEXTS)).max() < 1e-6


def test_one_batch_of_the_same_shape_is_exact(qwen: Path) -> None:
    assert np.abs(matrix(embed(make(qwen), TEXTS[:2])) - by_hand(qwen, TEXTS[:2])).max() < 1e-6


def test_a_folder_without_modules_needs_its_pooling(bare: Path) -> None:
    with pytest.raises(UserError, match=r"modules\.json.*lasttoken"):
        embed(make(bare), ["a"])
    with pytest.raises(UserError, match="pooling"):
        _ = make(bare, pooling="median").identity


def test_named_pooling_and_no_chat_template(bare: Path) -> None:
    """Left to itself sentence-transformers would take the mean, of the chat template's tokens too."""
    from sentence_transformers import SentenceTransformer

    found = matrix(embed(make(bare, pooling="lasttoken"), TEXTS))
    wanted = by_hand(bare, TEXTS)
    assert np.abs(found - wanted).max() < 1e-6
    careless = SentenceTransformer(str(bare), device="cpu").encode(TEXTS[:1], normalize_embeddings=True)
    assert float(careless[0] @ wanted[0]) < 0.99
    mean = matrix(embed(make(bare, pooling="mean"), TEXTS))
    assert float(mean[0] @ wanted[0]) < 0.99


def test_a_chat_template_saved_with_the_modules_is_not_applied(bare: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    SentenceTransformer(str(bare), device="cpu").save(str(tmp_path))
    found = matrix(embed(make(tmp_path), TEXTS[:2]))
    assert np.abs(found - matrix(embed(make(bare, pooling="mean"), TEXTS[:2]))).max() < 1e-6


def test_no_prompt_even_when_the_folder_has_a_default_one(qwen: Path, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "prompted"
    shutil.copytree(qwen, folder)
    config = {"prompts": {"query": "Instruct: find\nQuery:"}, "default_prompt_name": "query"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(config))
    assert np.abs(matrix(embed(make(folder), TEXTS[:2])) - by_hand(qwen, TEXTS[:2])).max() < 1e-6


def test_truncation_is_counted_and_keeps_the_closing_token(tmp_path: Path) -> None:
    folder = tiny_models.qwen3_embedding(tmp_path / "m", positions=40)
    long = TEXTS[1]
    embedder = make(folder)
    assert embedder.max_tokens == 40
    short, cut, changed = embed(embedder, ["a red sphere", long, long + " and something else entirely"])
    assert not short.cut
    assert cut.cut
    assert cut.tokens_used == 40 < cut.tokens_total
    assert changed.tokens_total > cut.tokens_total
    assert np.abs(changed.vector - cut.vector).max() < 1e-6
    assert np.abs(cut.vector - by_hand(folder, [long], length=40)[0]).max() < 1e-6


def test_the_architecture_sets_the_limit_not_the_folder(tmp_path: Path) -> None:
    folder = tiny_models.bert_embedding(tmp_path, positions=64, reads=32)
    text = " ".join(["dog"] * 50)
    (one,) = embed(make(folder), [text])
    assert (one.tokens_used, one.tokens_total) == (52, 52)
    (cut,) = embed(make(folder, max_length=10), [text])
    assert (cut.tokens_used, cut.tokens_total) == (10, 52)
    assert make(folder, max_length=9999).max_tokens == 64


def test_calls_that_come_together_are_one_encode(qwen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = make(qwen)
    seen: list[list[str]] = []
    encode = embedder._encode
    monkeypatch.setattr(embedder, "_encode", lambda model, texts: seen.append(texts) or encode(model, texts))

    async def run() -> list[list[Embedding]]:
        return await asyncio.gather(*(embedder.embed([text]) for text in ["a", "b", "a", "c"]))

    answers = asyncio.run(run())
    assert seen == [["a", "b", "c"]]
    assert np.array_equal(answers[0][0].vector, answers[2][0].vector)


def test_vectors_are_unit_even_without_a_normalising_module(tmp_path: Path) -> None:
    (one,) = embed(make(tiny_models.bert_embedding(tmp_path)), ["a small dog"])
    assert abs(float(np.linalg.norm(one.vector)) - 1) < 1e-6


def test_a_vector_of_nan_is_an_error_not_a_number(qwen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = make(qwen)
    monkeypatch.setattr(embedder, "_encode", lambda model, texts: np.full((len(texts), 64), np.nan, np.float32))
    with pytest.raises(ArithmeticError, match="float32"):
        embed(embedder, ["a"])


def test_out_of_memory_halves_the_batch_and_goes_on(qwen: Path) -> None:
    import torch

    embedder = make(qwen, batch_size=4)
    model = embedder._loaded()
    encode, sizes = model.encode, []

    def encode_little(texts: list[str], batch_size: int, **kwargs: Any) -> Any:
        sizes.append(batch_size)
        if batch_size > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return encode(texts, batch_size=batch_size, **kwargs)

    model.encode = encode_little
    assert np.abs(matrix(embed(embedder, TEXTS)) - by_hand(qwen, TEXTS)).max() < 1e-5
    assert sizes == [4, 2, 1]


def test_no_such_model_is_one_line() -> None:
    with pytest.raises(UserError, match=r"nobody/nothing-8b.*HF_HUB_OFFLINE"):
        embed(make("nobody/nothing-8b"), ["a"])
    with pytest.raises(UserError, match="is not a model folder"):
        _ = make("./not/there").identity


def test_remote_code_is_refused(qwen: Path, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "remote"
    shutil.copytree(qwen, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoModel": "evil.Model"}}))
    with pytest.raises(UserError, match="contains Python code"):
        embed(make(folder), ["a"])


def test_damaged_weights_are_one_line(qwen: Path, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "damaged"
    shutil.copytree(qwen, folder)
    (folder / "model.safetensors").write_bytes(b"\x00" * 100)
    embedder = make(folder)
    with pytest.raises(UserError, match="damaged or incomplete") as caught:
        embed(embedder, ["a"])
    assert "\n" not in str(caught.value)
    assert embedder.classify(caught.value).kind is FailureKind.FATAL


def test_unknown_option_is_named() -> None:
    with pytest.raises(ConfigError, match="pooing"):
        make("x", pooing="mean")
    with pytest.raises(ConfigError, match="sentence-transformers/other"):
        default("other", ProviderSettings("other"))


def test_identity_says_what_changes_a_vector(qwen: Path, tmp_path: Path) -> None:
    import shutil

    base = make(qwen)
    assert base._loaded.model is None
    assert base.identity["content"] == make(qwen).identity["content"]
    moved = tmp_path / "moved"
    shutil.copytree(qwen, moved)
    assert make(moved).identity == base.identity
    weights = bytearray((moved / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (moved / "model.safetensors").write_bytes(weights)
    hub.content_hash.cache_clear()
    assert make(moved).identity != base.identity
    assert make(qwen, dtype="bfloat16").identity != base.identity
    assert make(qwen, max_length=100).identity != base.identity
    assert base._loaded.model is None


def test_the_packaged_model_is_known_by_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = default("", ProviderSettings(""))
    assert embedder.content == hub.content_hash(Path(embedder._source))
    monkeypatch.setattr(hub, "content_hash", lambda folder: pytest.fail("the weights are read"))
    assert embedder.identity["content"] == embedder.content


def test_a_bfloat16_checkpoint_is_read_in_float32(tmp_path: Path) -> None:
    folder = tiny_models.qwen3_embedding(tmp_path, dtype="bfloat16")
    assert np.abs(matrix(embed(make(folder), TEXTS)) - by_hand(folder, TEXTS)).max() < 1e-6


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    return read_lines(folder / name)


@pytest.mark.slow
@pytest.mark.parametrize(("options", "right"), [({}, 32), ({"max_length": 256}, 28)])
def test_the_packaged_model_orders_the_bundled_pairs(example: Path, options: dict[str, Any], right: int) -> None:
    """32 of 36 at 512 tokens; 28 of 36 where the shipped limit of 256 cuts both texts (examples/known_answer/README.md)."""
    prompts = {row["prompt_id"]: row["prompt"] for row in rows(example, "prompts.jsonl")}
    prompt_of = {row["image"]: prompts[row["prompt_id"]] for row in rows(example, "images.jsonl")}
    described = {row["image"]: row["description"] for row in rows(example, "descriptions.jsonl")}
    texts = [*prompts.values(), *described.values()]
    vectors = dict(zip(texts, embed(default("", ProviderSettings("", options=options)), texts), strict=True))
    cosine = {
        image: float(vectors[prompt_of[image]].vector @ vectors[text].vector) for image, text in described.items()
    }
    pairs = rows(example, "pairs.jsonl")
    assert len(pairs) == 36
    assert sum((cosine[p["image_a"]] > cosine[p["image_b"]]) == (p["preference"] == "a") for p in pairs) == right
    assert any(vector.cut for vector in vectors.values()) is bool(options)
