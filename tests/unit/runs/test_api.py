"""The Python API: one, many, sync, async, failures, pandas."""

import asyncio
import gc
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import image_file
from PIL import Image
from serving import rating

from tests.kit import Server
from titjudge import Judge, Status, UserError
from titjudge.core.config import load_config
from titjudge.core.errors import ConfigError
from titjudge.runs.api.images_in_memory import ImagesInMemory


def picture(tmp_path: Path, name: str = "a.png", red: int = 0) -> Path:
    Image.new("RGB", (8, 8), (red, 0, 0)).save(tmp_path / name)
    return tmp_path / name


def test_one_and_many_in_order_with_a_failure_among_them(tmp_path: Path) -> None:
    good, other = picture(tmp_path), picture(tmp_path, "b.png", 90)
    with Judge("self-eval", captioner="fake/x") as judge:
        assert judge.score(good, "a red square").value == 0
    with Judge("tit-llm", captioner="fake/x", judge="fake/y") as judge:
        assert judge.score(good, "a red square").value == 0
        scores = judge.score_many([(good, "a"), (tmp_path / "none.png", "b"), (other, "c")])
    assert [score.status for score in scores] == [Status.OK, Status.BAD_INPUT, Status.OK]
    assert scores[1].value is None
    assert "no such image" in scores[1].reason
    assert [record["value"] for record in scores.to_records()] == [0, None, 0]


def test_an_edit_is_scored_with_its_sources_and_refused_by_a_metric_that_does_not_look_at_them(tmp_path: Path) -> None:
    after, before = picture(tmp_path), Image.new("RGB", (8, 8), (0, 90, 0))
    with Judge("lmm-score", captioner="fake/x") as judge:
        refused = judge.score(after, "make it red", sources=[before])
        plain = judge.score(after, "make it red")
    assert (refused.status, plain.status) == (Status.BAD_INPUT, Status.OK)
    with Judge("lmm-score", captioner="fake/x", ignore_sources=True) as judge:
        assert judge.score(after, "make it red", sources=[before]).status is Status.OK
        scores = judge.score_many([(after, "make it red", [before]), (after, "make it red")])
        assert [score.status for score in scores] == [Status.OK, Status.OK]
        with pytest.raises(TypeError, match="the sources of item 0 must be a list of images, not Image"):
            judge.score(after, "make it red", sources=before)  # type: ignore[arg-type]


def test_to_pandas_has_one_row_a_score(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    with Judge("lmm-score", captioner="fake/x") as judge:
        frame = judge.score_many([(picture(tmp_path), "a"), (picture(tmp_path, "b.png"), "b")]).to_pandas()
    assert list(frame["metric"]) == ["lmm-score", "lmm-score"]
    assert list(frame["value"]) == [0, 0]
    assert list(frame["prompt"]) == ["a", "b"]
    assert [Path(image).name for image in frame["image"]] == ["a.png", "b.png"]
    frame.to_parquet(tmp_path / "scores.parquet")
    assert list(pandas.read_parquet(tmp_path / "scores.parquet")["value"]) == [0, 0]


def test_scores_in_a_terminal_are_short_and_a_slice_is_scores(tmp_path: Path) -> None:
    with Judge("lmm-score", captioner="fake/x") as judge:
        scores = judge.score_many([(picture(tmp_path), "word " * 300), (tmp_path / "none.png", "b")] * 20)
    assert len(repr(scores[0])) < 150
    assert len(repr(scores)) < 2_500
    assert "bad_input" in repr(scores[1])
    assert repr(replace(scores[0], prompt="\ud800\n")).encode().decode().isprintable()  # also in a terminal
    assert (type(scores[:3]), len(scores[:3]), scores[:3][1]) == (type(scores), 3, scores[1])


def test_image_and_prompt_that_are_exchanged_are_reported(tmp_path: Path) -> None:
    image = str(picture(tmp_path))
    with Judge("lmm-score", captioner="fake/x") as judge:
        wrong, right = judge.score_many([("a red cube", image), (image, "a red cube")])
    assert (wrong.status, right.status) == (Status.BAD_INPUT, Status.OK)
    assert "exchange" in wrong.reason


def test_names_and_keys_are_checked_at_once() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'tit'"):
        Judge("tti")
    with pytest.raises(ConfigError, match="Did you mean 'embedder'"):
        Judge("tit", captioner="fake/x", embeder="default")


@pytest.mark.slow
def test_the_default_metric_is_tit_score_with_the_embedded_model(tmp_path: Path) -> None:
    with Judge(captioner="fake/x") as judge:
        score = judge.score(picture(tmp_path), "A picture of something.")
    assert score.metric == "tit"
    assert score.value == pytest.approx(1.0, abs=1e-5)
    assert score.parts["prompt_tokens_used"] == score.parts["prompt_tokens"]


def test_threads_that_place_images_at_once_share_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def slowly(**options: Any) -> str:
        time.sleep(0.05)  # the other threads arrive meanwhile
        made.append(mkdtemp(dir=tmp_path, **options))
        return made[-1]

    mkdtemp = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", slowly)
    images = ImagesInMemory()
    with ThreadPoolExecutor(4) as pool:
        placed = list(pool.map(images.place, [b"a", b"b", b"c", b"a"]))
    assert len(made) == 1
    assert [one.path.read_bytes() for one in placed] == [b"a", b"b", b"c", b"a"]
    images.close()


def test_pictures_in_memory_are_scored_like_their_files(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    path = picture(tmp_path, red=200)
    with Image.open(path) as image:
        image.load()
    array = numpy.asarray(image)
    kinds = [
        path,
        image,
        path.read_bytes(),
        array,
        array / 255.0,
        array[:, :, 0],
        image.convert("CMYK"),
        image.convert("LA"),
    ]
    with Judge("lmm-score", captioner="fake/x", cache=tmp_path / "cache") as judge:
        scores = judge.score_many([(kind, "a red square") for kind in kinds])
        assert [score.value for score in scores] == [0] * len(kinds)
        assert judge.score(image, "a red square").value == 0
        folder = judge._scorer._memory._folder
        assert folder is not None
        assert {file.name for file in folder.iterdir()} == {score.item_id for score in scores[1:]}
    assert not folder.exists()
    assert scores[1].item_id == scores[3].item_id == scores[4].item_id  # the same content is the same picture
    assert scores[0].item_id == str(path)


@pytest.mark.parametrize("image", [None, 7, object(), ["a.png"]])
def test_what_is_no_image_is_one_line_that_names_what_is(image: object) -> None:
    with (
        Judge("lmm-score", captioner="fake/x") as judge,
        pytest.raises(
            TypeError, match=r"^an image must be a path .* a PIL image, the bytes of an image file, or a NumPy array"
        ),
    ):
        judge.score(image, "p")


def test_arrays_that_are_no_picture_are_refused() -> None:
    numpy = pytest.importorskip("numpy")
    wrong = {"height x width": numpy.zeros((2, 3, 4, 5)), "from 0 to 1": numpy.full((4, 4), 2.5),
             "from 0 to 255": numpy.full((4, 4), 300)}  # fmt: skip
    with Judge("lmm-score", captioner="fake/x") as judge:
        for said, array in wrong.items():
            with pytest.raises(ValueError, match=said):
                judge.score(array, "p")


def test_a_batch_that_is_no_picture_is_refused_once(caplog: pytest.LogCaptureFixture) -> None:
    numpy = pytest.importorskip("numpy")
    with Judge("lmm-score", captioner="fake/x") as judge, pytest.raises(ValueError, match="from 0 to 1"):
        judge.score_many(numpy.full((4, 3, 8, 8), 2.5), "p")
    gc.collect()
    assert not caplog.records, "asyncio logs what nobody has looked at"


@pytest.mark.parametrize(
    ("pairs", "said"), [(["a.png"], "item 0 must be an .*pair, not 'a.png'"), ([("a.png", "p"), Path("b.png")], "item 1 must be an"), ([("a.png", 3)], "must be a str")]
)  # fmt: skip
def test_pairs_that_are_none_are_named(pairs: list[object], said: str) -> None:
    with Judge("lmm-score", captioner="fake/x") as judge, pytest.raises(TypeError, match=said):
        judge.score_many(pairs)  # type: ignore[arg-type]


def test_a_metric_that_compares_images_compares_those_of_a_prompt(tmp_path: Path) -> None:
    a, b, alone = picture(tmp_path), picture(tmp_path, "b.png", 90), picture(tmp_path, "c.png", 200)
    with Judge("pairwise", judge="fake/x") as judge:
        scores = judge.score_many([(a, "p"), (b, "p"), (alone, "another")])
    assert scores[2].status == Status.BAD_INPUT
    assert "there is no other image" in scores[2].reason
    for score in (scores[0], scores[1]):
        assert "there is no other image" not in score.reason


def test_keys_of_limits_may_stand_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with Server() as server:
        settings = {"base_url": server.openai, "max_requests": 1, "limits": {"concurrency": 2}, "cache": tmp_path}
        with Judge("lmm-score", captioner="openai/m", **settings) as judge:  # type: ignore[arg-type]
            scores = judge.score_many([(picture(tmp_path, f"{n}.png", n), "p") for n in range(3)])
        assert server.count() == 1
    assert sorted(str(score.status) for score in scores) == ["budget", "budget", "ok"]


def test_a_key_of_limits_in_the_wrong_place_is_led_there(tmp_path: Path) -> None:
    from titjudge.core.config import load_config

    (tmp_path / "run.yaml").write_text("max_cost: 5\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"unknown key 'max_cost'. Write it under limits"):
        load_config(tmp_path / "run.yaml")


def test_several_metrics_give_a_score_of_each(tmp_path: Path) -> None:
    path = picture(tmp_path)
    with Judge(["lmm-score", "self-eval"], captioner="fake/x") as judge:
        scores = judge.score_many([(path, "a"), (path, "b")])
        with pytest.raises(UserError, match="lmm-score, self-eval"):
            judge.score(path, "a")
    assert [score.metric for score in scores] == ["lmm-score", "self-eval"] * 2


def test_async_with(tmp_path: Path) -> None:
    path = picture(tmp_path)

    async def work() -> float | None:
        async with Judge("lmm-score", captioner="fake/x") as judge:
            return (await judge.ascore(path, "p")).value

    assert asyncio.run(work()) == 0


def test_a_judge_that_nobody_closes_leaves_no_noise(tmp_path: Path) -> None:
    script = (
        "import gc, sys\n"
        "from titjudge import Judge\n"
        "def use():\n"
        "    judge = Judge('lmm-score', captioner='openai/m', base_url=sys.argv[2], cache=sys.argv[3])\n"
        "    print(judge.score(sys.argv[1], 'p').status)\n"
        "    return judge\n"
        "use(); gc.collect(); kept = use()\n"
    )
    path = picture(tmp_path)
    with Server() as server:
        arguments = [sys.executable, "-X", "dev", "-c", script, str(path), server.openai, str(tmp_path / "cache")]
        ran = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=True,
                             env={**os.environ, "OPENAI_API_KEY": "sk-test"})  # fmt: skip
    assert ran.stdout.split() == ["ok", "ok"]
    assert "nclosed" not in ran.stderr, ran.stderr


def test_a_judge_from_a_configuration_keeps_its_models_and_the_options_of_its_metrics(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(
        "captioner: fake/x\nmetrics: [lmm-score, tit-agent]\ncache: {}\n"
        "metric_options: {{tit-agent: {{max_looks: 3}}}}\n".format(tmp_path / "cache")
    )
    config = load_config(tmp_path / "run.yaml")
    with Judge.from_config(config, "lmm-score") as judge:
        assert judge.score(picture(tmp_path), "a red square").value == 0
    assert dict(Judge.from_config(config).metrics["tit-agent"].options)["max_looks"] == 3
    with pytest.raises(ConfigError, match="unknown metric"):
        Judge.from_config(config, "lmm-scores")


def test_a_provider_alone_is_captioner_and_judge_as_on_the_command_line(tmp_path: Path) -> None:
    with Judge("tit-llm", provider="fake", cache=tmp_path) as judge:
        assert judge.score(image_file(1), "a cat").value == 0
    with Judge("tit-llm", provider="fake", judge="fake/other", cache=tmp_path) as judge:
        judge.score(image_file(1), "a cat")
        assert {name: role.model for name, role in judge.open().roles.config.roles.items() if name != "embedder"} == {
            "captioner": "fake", "judge": "fake/other",
        }  # fmt: skip


def test_a_metric_without_its_model_is_refused_at_once_in_words_of_python() -> None:
    with pytest.raises(
        ConfigError, match=r'tit requires a captioner. Add captioner="PROVIDER/MODEL", or provider="openai"'
    ):
        Judge()


def test_what_was_spent_stands_beside_what_the_answers_would_have_cost(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    prices = {"gpt-4o": {"input": 2.5, "output": 10}}
    with Server(rating) as server:
        settings: Any = {"captioner": "openai/gpt-4o", "base_url": server.openai, "cache": tmp_path}
        with Judge("lmm-score", prices=prices, **settings) as judge:
            assert (judge.spent, judge.list_cost) == (0.0, 0.0)
            judge.score(image_file(1), "a cat")
            spent = judge.spent
            assert spent is not None
            assert spent > 0
        assert (judge.spent, judge.list_cost) == (spent, spent)  # also when it is closed
        with Judge("lmm-score", prices=prices, **settings) as again:
            again.score(image_file(1), "a cat")
        assert (again.spent, again.list_cost) == (0.0, spent)
        with Judge("lmm-score", **{**settings, "captioner": "openai/nobodys-model"}) as unpriced:
            unpriced.score(image_file(1), "a cat")
        assert (unpriced.spent, unpriced.list_cost) == (None, None)


def test_a_bar_shows_scores_answers_and_money_and_goes_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Judge("tit-llm", provider="fake", cache=tmp_path) as judge:
        judge.score_many([(image_file(number), "a cat") for number in range(3)])
        assert capsys.readouterr().err == ""  # nobody watches
        judge.score_many([(image_file(number), "a dog") for number in range(3)], progress=True)
    shown = capsys.readouterr().err
    assert "judging   0% |" in shown
    assert "/3 scores" in shown
    assert "answers=" in shown
