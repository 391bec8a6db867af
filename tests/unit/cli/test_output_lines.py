"""What the commands say of data that cannot be used, in whole or in part; in this process, with the fake provider."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from report_runs import picture, score, write_run

from titjudge.cli import commands
from titjudge.cli.commands import run_command
from titjudge.core.types import Item

Ran = tuple[int, str, str]
FAKE = ("--provider", "fake", "--metric", "tit-llm", "--no-report")


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Ran:
        capsys.readouterr()
        code = run_command("titjudge", list(arguments))
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def _folder(root: Path, generators: int = 2, prompts: int = 3) -> Path:
    for g in range(generators):
        for p in range(prompts):
            picture(root / f"g{g}" / f"{p}.png", (40 * g, 60 * p, 90))
            (root / f"{p}.txt").write_text(f"a thing of number {p}", encoding="utf-8")
    return root


def _without_prompts(root: Path, count: int) -> Path:
    for n in range(count):
        picture(root / f"{n:05}.png")
    return root


def test_a_dry_run_says_how_many_can_be_used_and_why_the_rest_cannot(cli: Callable[..., Ran], tmp_path: Path) -> None:
    data = _folder(tmp_path / "data")
    _without_prompts(data / "more", 5)
    picture(data / "g0" / "3.png").write_bytes(b"")
    (data / "3.txt").write_text("an empty file", encoding="utf-8")
    code, out, _ = cli("judge", "--data", "data", *FAKE, "--dry-run")
    assert code == 0
    assert "12 items found: 6 usable, 6 refused" in out
    assert "  more/00000.png: no prompt: more/00000.txt is missing" in out
    assert "  ... and 2 more like this" in out
    assert "g0/3.png: " in out
    assert "the image file is empty" in out


def test_a_dry_run_of_nothing_usable_is_not_free_but_nothing(cli: Callable[..., Ran], tmp_path: Path) -> None:
    _without_prompts(tmp_path / "data", 9)
    code, out, _ = cli("judge", "--data", "data", *FAKE, "--dry-run")
    assert code == 1
    assert "9 items found: 0 usable, 9 refused" in out
    assert "nothing can be judged" in out
    assert "list price" not in out


def test_a_run_of_nothing_usable_is_one_line_and_leaves_no_folder(cli: Callable[..., Ran], tmp_path: Path) -> None:
    _without_prompts(tmp_path / "data", 500)
    code, _, err = cli("judge", "--data", "data", *FAKE, "--out", "run")
    assert code == 2
    assert err.strip().splitlines()[-1] == (
        "titjudge: data: none of 500 can be judged: 00000.png: no prompt: 00000.txt is missing. Add it, or put the prompts of all images "
        "into prompts.txt, or --prompt-file FILE (and 499 more like this). Correct the data"
    )
    assert not (tmp_path / "run").exists()


def test_a_run_in_which_no_image_got_a_score_says_so(cli: Callable[..., Ran], tmp_path: Path) -> None:
    for n in range(40):
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / f"{n}.png").write_bytes(b"")
        (tmp_path / "data" / f"{n}.txt").write_text("something", encoding="utf-8")
    code, out, err = cli("judge", "--data", "data", *FAKE, "--out", "run")
    assert code == 1
    assert "nothing was judged: no image got a score" in out
    assert "Leaderboard" not in out  # no empty table
    assert "mean" not in out
    assert err.count("the image file is empty") == 3
    assert "... and 37 more like this" in err


def test_limit_says_what_it_drew_and_that_no_pair_is_left(cli: Callable[..., Ran], tmp_path: Path) -> None:
    data = _folder(tmp_path / "data")
    pair = {"prompt_id": "2", "image_a": "g0/2.png", "image_b": "g1/2.png", "preference": "a"}
    (data / "pairs.jsonl").write_text(json.dumps(pair), encoding="utf-8")
    code, out, _ = cli("judge", "--data", "data", *FAKE, "--out", "run", "--limit", "3")
    assert code == 0
    assert "--limit 3: 2 of 6 images, all those of 1 of 3 prompts" in out
    assert "none of the 1 human pairs is among these images" in out
    assert "no human pairs were given" not in out
    _, out, _ = cli("judge", "--data", "data", *FAKE, "--dry-run", "--limit", "3")
    assert "--limit 3: 2 of 6 images" in out


@pytest.mark.parametrize("command", ["dry", "judge", "score", "judges", "verify", "report", "metrics"])
def test_json_on_standard_output_is_nothing_but_json(cli: Callable[..., Ran], tmp_path: Path, command: str) -> None:
    _folder(tmp_path / "data")
    if command in ("judges", "verify", "report"):
        assert cli("judge", "--data", "data", *FAKE, "--out", "run")[0] == 0
    lines: dict[str, list[str]] = {
        "dry": ["judge", "--data", "data", *FAKE, "--dry-run"],
        "judge": ["judge", "--data", "data", *FAKE, "--out", "run"],
        "score": ["score", "--prompt", "a thing", "--provider", "fake", "data/g0/0.png"],
        "judges": ["judges", "agreement", "run"],
        "verify": ["verify", "run"],
        "report": ["report", "run"],
        "metrics": ["metrics"],
    }
    code, out, err = cli(*lines[command], "--json", "-")
    assert code == 0
    assert json.loads(out)
    assert err  # what people read stands there


@pytest.mark.parametrize(
    ("typed", "code", "says"), [(b"a thing\n", 0, "g0/0.png"), (b"\xff", 2, "UTF-8"), (b"\n", 2, "empty")]
)
def test_a_prompt_can_come_from_standard_input(
    cli: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: bytes, code: int, says: str
) -> None:
    _folder(tmp_path / "data")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(typed)))
    found, out, err = cli("score", "--prompt", "-", "--provider", "fake", "data/g0/0.png")
    assert found == code
    assert says in out + err


def test_a_failed_start_can_be_mended_in_the_same_folder(cli: Callable[..., Ran], tmp_path: Path) -> None:
    _folder(tmp_path / "data")
    (tmp_path / "run.yaml").write_text("data: data\nmetrics: [yes-no]\ncaptioner: fake/x\n", encoding="utf-8")
    start = ("judge", "--data", "data", "--provider", "openai/gpt-4o", "--no-report", "--out", "run", "--max-cost", "5")
    code, _, err = cli(*start, "--captioner", "openai/no-such-model", "--metric", "tit-llm")
    assert code == 2, err  # a cap on a model without a price
    assert not (tmp_path / "run").exists()


def test_a_prompt_that_is_not_there_names_the_folder_option(tmp_path: Path) -> None:
    from titjudge.core.errors import ConfigError
    from titjudge.core.prompts import PromptLibrary

    with pytest.raises(ConfigError, match=r"Add mine/mood\.md to the folder of --set prompts=DIR"):
        PromptLibrary().get("mine/mood")


def test_a_folder_in_which_nothing_began_is_taken_over(cli: Callable[..., Ran], tmp_path: Path) -> None:
    _folder(tmp_path / "data")
    run = tmp_path / "run"
    run.mkdir()
    (run / "manifest.json").write_text(json.dumps({"identity": {"metrics": ["tit"]}, "status": "failed: x"}))
    for name in ("scores", "replies", "vectors", "billing"):
        (run / f"{name}.jsonl").touch()
    assert cli("verify", "run")[0] == 2
    assert cli("judge", "--data", "data", *FAKE, "--out", "run")[0] == 0


def test_a_run_with_fewer_metrics_says_what_to_do(cli: Callable[..., Ran], tmp_path: Path) -> None:
    _folder(tmp_path / "data")
    assert cli("judge", "--data", "data", *FAKE, "--metric", "lmm-score", "--out", "run")[0] == 0
    before = (tmp_path / "run" / "manifest.json").read_bytes()
    code, _, err = cli("judge", "--data", "data", *FAKE, "--out", "run")
    assert code == 2
    assert "run is a run of tit-llm, lmm-score, and metrics can only be added: give tit-llm another --out" in err
    assert "is not paid again" in err
    assert (tmp_path / "run" / "manifest.json").read_bytes() == before


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ("empty", "nothing to judge: the folder has"),
        ("a.png", "this is an image"),
        ("notes.txt", "a manifest must be one of .jsonl, .ndjson, .json, .csv,"),
    ],
)
def test_data_that_are_none_are_said_before_a_missing_model(cli: Callable[..., Ran], tmp_path: Path, data: str, fault: str) -> None:  # fmt: skip
    (tmp_path / "empty").mkdir()
    picture(tmp_path / "a.png")
    (tmp_path / "notes.txt").write_text("notes", encoding="utf-8")
    code, _, err = cli("judge", "--data", data)
    assert code == 2
    assert fault in err
    assert "captioner" not in err


def test_an_unknown_provider_is_led_to_litellm(cli: Callable[..., Ran], tmp_path: Path) -> None:
    _folder(tmp_path / "data")
    code, _, err = cli("judge", "--data", "data", "--captioner", "no-such-provider/claude-x")
    assert code == 2
    assert "litellm/no-such-provider/MODEL" in err


def _manifest(root: Path, **record: Any) -> Path:
    file = root / "m.jsonl"
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps({"prompt": "a thing", **record}) + "\n")
    return file


def test_paths_as_people_have_them(tmp_path: Path) -> None:
    from titjudge.core.types import Item
    from titjudge.suites.folder import Folder

    root = tmp_path / "data"
    for name in ("deep/a.png", "deep/b.png", "..dots.png"):
        picture(root / name)
    picture(tmp_path / "out.png")
    outside = [
        "../out.png",
        str(tmp_path / "out.png"),
        "https://example.com/x.png",
        f"{root}/../out.png",
        f"{root}-two/a.png",
    ]
    for name in (str(root / "deep" / "a.png"), "deep\\b.png", "..dots.png", *outside):
        file = _manifest(root, image=name)
    found = list(Folder().load(file))
    assert [item.image.name for item in found if isinstance(item, Item) and item.image] == [
        "a.png",
        "b.png",
        "..dots.png",
    ]
    reasons = [item.reason for item in found if not isinstance(item, Item)]
    assert len(reasons) == 5
    assert reasons[2] == "the image is a web address. Download it into the data folder"
    for reason in (*reasons[:2], *reasons[3:]):
        assert (
            "leads outside the data folder: copy it there, put the manifest into their common parent folder" in reason
        )
        assert reason.endswith("`judge --image-root DIR`")


def test_score_with_two_metrics_gives_both(cli: Callable[..., Ran], tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    both = ("--metric", "tit-llm", "--metric", "lmm-score")
    code, out, _ = cli("score", "--prompt", "a thing", "--provider", "fake", *both, "a.png", "--json", "-")
    assert code == 0
    assert [(score["metric"], score["item"]) for score in json.loads(out)["scores"]] == [
        ("tit-llm", "a.png"),
        ("lmm-score", "a.png"),
    ]


def _run(folder: Path, names: list[str], values: dict[str, list[float]], prompts: list[str]) -> Path:
    """A finished run: for each generator one image a prompt with these scores."""
    items = [
        Item(f"{names[0]}{g}{n}.png", prompt, None, g, f"p{n}") for g in values for n, prompt in enumerate(prompts)
    ]
    flat = [value for each in values.values() for value in each]
    scores = [score(item, "tit-llm", value) for item, value in zip(items, flat, strict=True)]
    return write_run(folder, items, scores, results={"pairs": []}).path


@pytest.mark.parametrize("second", ["same", "other"])
def test_two_runs_without_pairs_are_compared(cli: Callable[..., Ran], tmp_path: Path, second: str) -> None:
    prompts = [f"prompt {n}" for n in range(12)]
    _run(tmp_path / "ck1", ["same"], {"": [50 + n for n in range(12)]}, prompts)
    _run(tmp_path / "ck2", [second], {"": [60 + n + n % 2 for n in range(12)]}, prompts)
    code, out, _ = cli("judges", "agreement", "ck1", "ck2", "--json", "-")
    assert code == 0
    (found,) = json.loads(out)["differences"]
    assert (found["first"], found["second"], found["n"], found["difference"]) == ("ck2", "ck1", 12, 10.5)
    low, high = found["interval"]
    assert 10 < low < 10.5 < high < 11
    assert found["p_value"] < 0.01


def test_two_runs_of_one_name_are_two(cli: Callable[..., Ran], tmp_path: Path) -> None:
    for number, name in enumerate("ab"):
        _run(tmp_path / name / "run", ["x"], {"": [50.0 + 10 * number] * 8}, [f"prompt {n}" for n in range(8)])
    _, out, _ = cli("judges", "agreement", "a/run", "b/run", "--json", "-")
    (found,) = json.loads(out)["differences"]
    assert (found["first"], found["second"], found["difference"]) == ("b/run", "a/run", 10.0)


def test_the_generators_of_a_run_without_pairs_are_compared(cli: Callable[..., Ran], tmp_path: Path) -> None:
    values = {"flux": [50.0 + n for n in range(10)], "sdxl": [40.0 + n for n in range(10)]}
    _run(tmp_path / "run", ["x"], values, [f"prompt {n}" for n in range(10)])
    _, out, _ = cli("judges", "agreement", "run", "--json", "-")
    (found,) = json.loads(out)["differences"]
    assert (found["first"], found["second"], found["prompts"], found["difference"]) == ("flux", "sdxl", 10, 10.0)


@pytest.mark.parametrize(("name", "goes_on"), [("judge", True), ("compare", False)])
def test_only_commands_that_keep_their_work_say_so_when_interrupted(
    name: str, goes_on: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands.Commands, "get_command", lambda self, context, name: interrupted)
    assert run_command("titjudge", [name]) == 130
    said = capsys.readouterr().err
    assert "titjudge: interrupted" in said
    assert ("run the command again" in said) == goes_on
