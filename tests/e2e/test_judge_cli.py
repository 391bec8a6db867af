"""Whole runs of the command line, as a newcomer's shell would start them."""

import json
import math
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import commands
import pytest
from answers import good, verdict
from builders import compared_images, read_lines, write_lines
from commands import hosted, judge
from PIL import Image

from tests.kit import Scripted, Seen, Server
from titjudge.report.model import load
from titjudge.report.overview import overview
from titjudge.report.sections import Headline
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.web.view.runs import Runs

ROOT = Path(__file__).resolve().parents[2]


def quiet(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Without the report: `main_job` writes one, and tests/unit/report/ and the browser tests look at others."""
    return (*arguments, *(("--no-report",) if arguments[0] == "judge" else ()))


def cli(folder: Path, *arguments: str, code: int = 0, **variables: str) -> str:
    return commands.cli(folder, *quiet(arguments), code=code, **variables)


def results(folder: Path, name: str = "out.json") -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))


PRICE = ("--price", "gpt-4o=2.5,10")  # a loopback server has no list price


@pytest.mark.slow
def test_the_main_job_without_any_argument(main_job: Path) -> None:
    folder, out = main_job, (main_job / "printed.txt").read_text(encoding="utf-8")
    found = results(folder)["metrics"]["tit"]
    assert found["accuracy"] == pytest.approx(32 / 36)
    assert found["pairs"] == 36
    assert found["coverage"] == 1
    assert found["accuracy_interval"][0] < 32 / 36 < found["accuracy_interval"][1]
    assert set(found) >= {"accuracy", "accuracy_interval", "tie_rate", "pairs", "srcc", "krcc", "ndcg", "coverage"}
    assert results(folder)["spent"] == 0
    assert len(results(folder)["leaderboard"]) == 4
    assert "0.8889" in out or "88.9" in out
    (page,) = folder.glob("runs/*/report.html")
    assert str(page.relative_to(folder)) in out
    assert "<html" in page.read_text(encoding="utf-8")[:500]


def test_the_same_command_again_asks_nothing_and_says_the_same(tmp_path: Path) -> None:
    compared_images(tmp_path / "data")
    with Server(good) as server:
        for _ in range(2):
            judge(tmp_path, server, *PRICE, "--json", "out.json")
            first = results(tmp_path)
        assert server.count() == 12
        judge(tmp_path, server, *PRICE, "--out", "elsewhere", "--json", "again.json")
        assert server.count() == 12
    again = results(tmp_path, "again.json")
    assert again["metrics"] == first["metrics"]
    assert again["spent"] == 0
    assert again["list_cost"] == first["list_cost"] > 0


def test_gemini_describes_and_judges(tmp_path: Path) -> None:
    data = compared_images(tmp_path / "data")
    with Server(good) as server:
        env = {"GEMINI_API_KEY": "AIza-test", "GOOGLE_GEMINI_BASE_URL": server.url}
        cli(tmp_path, "judge", "--data", str(data), "--provider", "gemini", "--json", "out.json", **env)
        assert server.count("gemini") == 12
        assert all("gemini-2.5-pro" in seen.path for seen in server.requests)
    assert set(results(tmp_path)["metrics"]) == {"tit", "tit-llm"}
    assert results(tmp_path)["metrics"]["tit-llm"]["coverage"] == 1


def test_a_failure_is_never_a_score(tmp_path: Path) -> None:
    compared_images(tmp_path / "data", images=8)

    faults = iter([Scripted.fault("refusal"), Scripted.fault("length"), "not JSON"])

    def handler(seen: Seen) -> Scripted | str:
        if seen.images:
            return good(seen)
        return "still not JSON" if "could not be read" in seen.text else next(faults, None) or verdict(50)

    with Server(handler) as server:
        out = judge(tmp_path, server, "--metric", "tit-llm", "--concurrency", "1", "--json", "out.json", code=4)
    found = results(tmp_path)
    statuses = sorted(each["status"] for each in found["failures"])
    assert statuses == ["refused", "truncated", "unparsed"]
    assert found["metrics"]["tit-llm"]["coverage"] == pytest.approx(5 / 8)
    assert "3 without a score" in out


def test_bad_input_is_named_and_the_rest_is_judged(tmp_path: Path) -> None:
    data = compared_images(tmp_path / "data")
    (data / "0.png").write_bytes(b"")
    (data / "1.png").write_text("not an image")
    (data / "2.png").unlink()
    with (data / "images.jsonl").open("a") as file:
        file.write("{broken\n")
    with Server(good) as server:
        out = judge(tmp_path, server, "--metric", "tit-llm", "--json", "out.json", code=4)
        assert server.count() == 6
    reasons = {each["item"]: each["reason"] for each in results(tmp_path)["failures"]}
    assert "empty" in reasons["0.png"]
    assert "not an image" in reasons["1.png"]
    assert "no such image" in reasons["2.png"]
    assert "images.jsonl:7" in reasons
    assert results(tmp_path)["metrics"]["tit-llm"]["coverage"] == pytest.approx(3 / 6)
    assert "3 without a score" in out


def test_a_run_has_one_coverage(tmp_path: Path) -> None:
    data = compared_images(tmp_path / "data", images=8)
    (data / "0.png").unlink()
    rows, texts = read_lines(data / "images.jsonl"), read_lines(data / "prompts.jsonl")
    rows[1]["prompt_id"] = "p9"
    write_lines(data / "images.jsonl", *rows)
    write_lines(data / "prompts.jsonl", *texts, {"prompt_id": "p9", "prompt": " "})
    (data / "pairs.jsonl").unlink()
    faults = iter([Scripted.fault("refusal")])

    def handler(seen: Seen) -> Scripted | str:
        return good(seen) if seen.images else next(faults, None) or good(seen)

    with Server(handler) as server:
        metrics = ("--metric", "tit", "--metric", "tit-llm", "--concurrency", "1", "--out", "runs/one")
        out = judge(tmp_path, server, *metrics, "--json", "out.json", code=4)
    cli(tmp_path, "judges", "agreement", "runs/one", "--json", "compared.json")
    (state,) = Runs(tmp_path / "runs").states()
    found, compared = results(tmp_path)["metrics"], results(tmp_path, "compared.json")["metrics"]
    shares = {name: (each["scored"], each["images"], each["coverage"]) for name, each in found.items()}
    assert shares == {name: (each["scored"], each["images"], each["coverage"]) for name, each in compared.items()}
    assert shares["tit-llm"] == (5, 8, 5 / 8)
    assert (state.coverage, state.failed) == (5 / 8, 3)
    assert "3 without a score" in out
    section = overview(load([RunFolder(tmp_path / "runs/one")]))
    headline = next(block for block in section.blocks if isinstance(block, Headline))
    assert [fact.value for fact in headline.facts if fact.label == "coverage"] == ["62.5%"]


def test_a_wrong_key_stops_at_once_with_one_line(tmp_path: Path) -> None:
    compared_images(tmp_path / "data", images=200)
    with Server(lambda seen: Scripted.fault("401")) as server:
        out = judge(tmp_path, server, "--concurrency", "8", code=2)
        assert server.count() <= 8
    assert "sk-test-0123456789" not in out
    assert "the key in OPENAI_API_KEY" in out
    assert len([line for line in out.splitlines() if line.startswith("titjudge:")]) == 1


def test_no_key_is_one_line_that_names_the_variable(tmp_path: Path) -> None:
    out = cli(
        tmp_path, "judge", "--data", str(compared_images(tmp_path / "data")), "--provider", "openai/gpt-4o", code=2
    )
    assert "OPENAI_API_KEY" in out
    assert "Traceback" not in out


def test_the_key_is_written_nowhere(tmp_path: Path) -> None:
    compared_images(tmp_path / "data")
    secret = "sk-test-0123456789"
    with Server(lambda seen: Scripted.fault("400") if seen.nth == 1 and not seen.images else good(seen)) as server:
        out = judge(tmp_path, server, code=4)
    assert secret not in out
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path


def test_the_cap_holds_and_a_higher_one_goes_on(tmp_path: Path) -> None:
    compared_images(tmp_path / "data", images=40)
    arguments = ("--price", "gpt-4o=1000,1000", "--json", "out.json")
    with Server(good) as server:
        judge(tmp_path, server, *arguments, "--metric", "tit-llm", "--max-cost", "0", code=3)
        assert server.count() == 0
        whole = 0.0
        out = judge(tmp_path, server, *arguments, "--metric", "tit-llm", "--max-cost", "40", code=3)
        assert "$40 cap reached" in out
        assert "again with a higher cap" in out
        first = results(tmp_path)
        assert 0 < first["spent"] <= 40
        assert first["status"].startswith("incomplete: budget")
        asked = server.count()
        judge(tmp_path, server, *arguments, "--metric", "tit-llm", "--max-cost", "1000")
        whole = results(tmp_path)["spent"]
        assert whole <= 1000
        assert server.count() == 80
        assert asked < 80
        assert results(tmp_path)["metrics"]["tit-llm"]["coverage"] == 1


def test_a_cap_without_a_price_refuses_to_start(tmp_path: Path) -> None:
    data = compared_images(tmp_path / "data")
    with Server(good) as server:
        out = cli(
            tmp_path,
            "judge",
            "--data",
            str(data),
            "--captioner",
            "openai/my-own",
            "--max-cost",
            "1",
            code=2,
            **hosted(server),
        )
        assert "--price my-own=IN,OUT" in out
        assert server.count() == 0


def test_a_dry_run_sends_nothing_and_prices_everything(tmp_path: Path) -> None:
    data = compared_images(tmp_path / "data")
    out = cli(tmp_path, "judge", "--data", str(data), "--provider", "gemini", "--dry-run", "--json", "out.json")
    found = results(tmp_path)
    assert found["roles"]["captioner"]["requests"] == 6
    assert found["roles"]["judge"]["requests"] == 6
    low, middle, high = found["list_cost"]
    assert 0 < low < middle < high
    assert "Dry run" in out
    assert not (tmp_path / "runs").exists()


def test_what_the_cache_holds_is_not_in_the_dry_run(tmp_path: Path) -> None:
    compared_images(tmp_path / "data")
    with Server(good) as server:
        judge(tmp_path, server, "--limit", "4")
        judge(tmp_path, server, "--dry-run", "--json", "out.json")
        assert server.count() == 6  # the first of two prompts, with all three of its images
    assert results(tmp_path)["roles"]["captioner"]["requests"] == 3
    assert results(tmp_path)["roles"]["captioner"]["cached"] == 3


def replies(folder: Path) -> int:
    """How many answers the runs there have written down."""
    return sum(len(file.read_bytes().splitlines()) for file in folder.glob("runs/*/replies.jsonl"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_killed_in_the_middle_nothing_is_asked_twice(tmp_path: Path, number: signal.Signals) -> None:
    data = compared_images(tmp_path / "data", images=60)
    arguments = (
        "judge",
        "--data",
        str(data),
        "--provider",
        "openai/gpt-4o",
        "--metric",
        "tit-llm",
        "--concurrency",
        "4",
        "--json",
        "out.json",
    )
    with Server(good) as server:
        server.answers_left = 30
        with commands.start(tmp_path, *quiet(arguments), **hosted(server)) as process:
            while process.poll() is None and (server.count() < 34 or replies(tmp_path) < 30):
                time.sleep(0.01)
            process.send_signal(number)
            if number != signal.SIGKILL:  # an interrupted run waits for what is on its way
                server.answers_left = math.inf
            process.communicate(timeout=60)
        assert 30 <= server.answered < 120
        server.answers_left = math.inf
        cli(tmp_path, *arguments, **hosted(server))
        if number == signal.SIGKILL:
            assert server.count() - 120 <= 4  # at most what was on its way when the process died
        else:
            assert server.count() == 120
    assert results(tmp_path)["metrics"]["tit-llm"]["coverage"] == 1


def test_answers_that_a_kill_kept_out_of_the_cache_come_back_from_the_journal(tmp_path: Path) -> None:
    compared_images(tmp_path / "data")
    arguments = ("--metric", "tit-llm", "--out", "run", "--json")
    with Server(good) as server:
        judge(tmp_path, server, *arguments, "first.json")
        asked = server.count()
        manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
        (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest | {"status": "running"}))
        (tmp_path / "run" / "scores.jsonl").unlink()
        shutil.rmtree(tmp_path / "cache")
        judge(tmp_path, server, *arguments, "again.json")
        assert server.count() == asked > 0
    assert results(tmp_path, "again.json")["metrics"] == results(tmp_path, "first.json")["metrics"]


def test_the_same_picture_under_three_names_is_paid_once(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for name in ("a", "b", "c"):
        (data / name).mkdir(parents=True)
        Image.new("RGB", (16, 16), (1, 2, 3)).save(data / name / "same.png")
    (data / "same.txt").write_text("a dark square 🟦")
    with Server(good, latency=0.05) as server:
        judge(tmp_path, server, "--json", "out.json")
        assert server.count() == 2
    assert [row["generator"] for row in results(tmp_path)["leaderboard"]] == ["a", "b", "c"] or len(
        results(tmp_path)["leaderboard"]
    ) == 3


def test_config_flags_and_typos(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("metricz: [tit]\n")
    assert "Did you mean 'metrics'" in cli(tmp_path, "judge", "--config", "run.yaml", code=2)
    assert "Did you mean 'judge'" in cli(tmp_path, "jugde", code=2)
    assert "unknown option '--metrik'. Did you mean" in cli(tmp_path, "judge", "--metrik", "tit", code=2)
    (tmp_path / "empty").mkdir()
    assert "nothing to judge" in cli(tmp_path, "judge", "--data", "empty", "--captioner", "openai", code=2)
    assert "no such file" in cli(tmp_path, "judge", "--data", "nowhere", code=2)


def test_another_configuration_does_not_write_into_a_run(tmp_path: Path) -> None:
    cli(tmp_path, "judge", "--out", "r", "--limit", "2")
    out = cli(tmp_path, "judge", "--out", "r", "--protocol", "official", code=2)
    assert "another protocol" in out


@pytest.mark.slow
def test_a_prompt_of_20000_words_is_judged_and_the_cut_is_reported(judged: Path, example: Path) -> None:
    data = judged / "data"
    shutil.copytree(example, data)
    lines = (data / "prompts.jsonl").read_text().splitlines()
    record = json.loads(lines[0])
    record["prompt"] = "A very long scene. " * 5000
    (data / "prompts.jsonl").write_text("\n".join([json.dumps(record), *lines[1:]]))
    out = cli(judged, "judge", "--data", str(data), "--json", "out.json")
    cut = results(judged)["cut"]["tit"]
    assert cut["scores"] >= 4
    assert cut["longest"] > 20_000
    assert "were cut to the model's 512 tokens" in out


def test_score_on_the_spot(tmp_path: Path) -> None:
    Image.new("RGB", (32, 32), (200, 0, 0)).save(tmp_path / "ü x.png")
    with Server(good) as server:
        out = cli(
            tmp_path,
            "score",
            "--prompt",
            "a red square",
            "--provider",
            "openai/gpt-4o",
            "ü x.png",
            "none.png",
            "--json",
            "out.json",
            **hosted(server),
        )
    first, second = results(tmp_path)["scores"]
    assert first["status"] == "ok"
    assert (second["value"], second["status"]) == (None, "bad_input")
    assert "ü x.png" in out


def test_cache_stats_and_clear(tmp_path: Path) -> None:
    cli(tmp_path, "judge", "--limit", "2")
    assert "embeddings" in cli(tmp_path, "cache", "stats")
    assert "forgotten" in cli(tmp_path, "cache", "clear", "--yes")
    assert "embeddings" not in cli(tmp_path, "cache", "stats")


def test_doctor(tmp_path: Path) -> None:
    out = cli(tmp_path, "doctor", OPENAI_API_KEY="sk-secret-1")
    assert "OPENAI_API_KEY is set" in out
    assert "sk-secret-1" not in out
    assert "384 dimensions, reads 512 tokens" in out
    with Server(good) as server:
        asked = cli(tmp_path, "doctor", "--ask", "--judge", "openai/mine", **hosted(server))
    assert f"127.0.0.1:{server.port}" in asked


@pytest.mark.slow
def test_compare_runs(judged: Path) -> None:
    cli(judged, "judge", "--out", "two", "--protocol", "official")  # rounds to 4 decimals, so that one pair is a tie
    cli(judged, "judges", "agreement", "one", "two", "--json", "out.json")
    found = results(judged)
    assert set(found["metrics"]) == {"tit (one)", "tit (two)"}
    assert found["differences"][0]["difference"] == pytest.approx(1 / 36)  # one has it right, two ties
    cli(
        judged,
        "judges",
        "agreement",
        "one",
        "--pairs",
        str(ROOT / "examples/known_answer/pairs.jsonl"),
        "--json",
        "single.json",
    )
    assert results(judged, "single.json")["metrics"]["tit"]["accuracy"] == pytest.approx(32 / 36)


def test_a_panel_with_repeats_and_both_orders(tmp_path: Path) -> None:
    data = compared_images(tmp_path / "data")

    def handler(seen: Seen) -> str:
        if '"better"' in json.dumps(seen.schema or {}):
            return json.dumps({"reason": "r", "better": "first"})
        return good(seen)

    with Server(handler) as server:
        arguments = (
            "--judge",
            "openai/a",
            "--judge",
            "openai/b",
            "--set",
            "samples=2",
            "--metric",
            "tit-llm",
            "--metric",
            "pairwise",
        )
        out = cli(
            tmp_path,
            "judge",
            "--data",
            str(data),
            "--captioner",
            "openai",
            *arguments,
            "--json",
            "out.json",
            **hosted(server),
        )
    names = set(results(tmp_path)["metrics"])
    assert names >= {"tit-llm", "tit-llm [openai/a]", "tit-llm [openai/b]", "pairwise"}
    assert results(tmp_path)["metrics"]["pairwise"]["tie_rate"] == 1
    assert "Steadiness of the judges" in out


def ledger(folder: Path) -> float:
    return sum(json.loads(line).get("cost", 0.0) for line in (folder / "billing.jsonl").read_text().splitlines())


def test_a_panel_member_without_a_price_refuses_to_start_and_the_retry_goes_on(tmp_path: Path) -> None:
    data = compared_images(tmp_path / "data")
    judges = (
        "--captioner",
        "openai/gpt-4o",
        "--judge",
        "openai/gpt-4o",
        "--judge",
        "openai/unknown-1",
        "--max-cost",
        "5",
        *PRICE,
    )
    arguments = ("judge", "--data", str(data), "--metric", "tit-llm", "--out", "r", *judges)
    with Server(good) as server:
        assert "--price unknown-1=IN,OUT" in cli(tmp_path, *arguments, code=2, **hosted(server))
        assert server.count() == 0
        cli(tmp_path, *arguments, "--price", "unknown-1=1,1", **hosted(server))


def test_what_changed_is_judged_again_and_the_rest_is_not(tmp_path: Path) -> None:
    data = compared_images(tmp_path / "data")
    arguments = ("--metric", "tit-llm", "--json", "out.json")
    with Server(good) as server:
        judge(tmp_path, server, *arguments)
        Image.new("RGB", (32, 32), (255, 255, 255)).save(data / "3.png")
        prompts = (data / "prompts.jsonl").read_text().replace("number 0", "number zero")
        (data / "prompts.jsonl").write_text(prompts)
        before = server.count()
        judge(tmp_path, server, *arguments)
        assert (
            server.count() - before == 1 + 4
        )  # one new picture; its judgement and those of the changed prompt's three


def test_a_repair_turn_is_counted_once_in_every_number(tmp_path: Path) -> None:
    compared_images(tmp_path / "data", images=2)

    def handler(seen: Seen) -> str:
        return good(seen) if seen.images or "could not be read" in seen.text else "not JSON"

    arguments = (*PRICE, "--metric", "tit-llm", "--out", "r", "--json", "out.json")
    with Server(handler) as server:
        judge(tmp_path, server, *arguments)
        assert server.count() == 6
    found, manifest = results(tmp_path), json.loads((tmp_path / "r" / "manifest.json").read_text())
    assert found["spent"] == pytest.approx(ledger(tmp_path / "r"), abs=2e-6)
    assert found["spent"] == pytest.approx(found["list_cost"], abs=2e-6)
    assert manifest["spent"] == pytest.approx(found["spent"], abs=2e-6)
    assert sum(role["spent"] for role in manifest["roles"].values()) == pytest.approx(found["spent"], abs=4e-6)


def test_a_run_with_nothing_to_ask_keeps_who_answered(tmp_path: Path) -> None:
    compared_images(tmp_path / "data")
    arguments = ("--metric", "tit-llm", "--out", "r")
    with Server(good) as server:
        judge(tmp_path, server, *arguments)
        first = json.loads((tmp_path / "r" / "manifest.json").read_text())
        judge(tmp_path, server, *arguments)
    again = json.loads((tmp_path / "r" / "manifest.json").read_text())
    assert again["roles"]["judge"]["answered"] == first["roles"]["judge"]["answered"] != []
    assert again["progress"]["done"] == again["progress"]["total"] == 6


def test_secrets_in_an_address_are_written_nowhere(tmp_path: Path) -> None:
    data = compared_images(tmp_path / "data", images=2)
    with Server(good) as server:
        address = f"http://user:hunter2@127.0.0.1:{server.port}/v1"
        out = cli(
            tmp_path,
            "judge",
            "--data",
            str(data),
            "--provider",
            "openai/gpt-4o",
            "--base-url",
            address,
            OPENAI_API_KEY="sk-x",
        )
    assert "hunter2" not in out
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"hunter2" not in path.read_bytes(), path


def test_what_is_wrong_is_said_before_anything_is_paid(tmp_path: Path) -> None:
    data = compared_images(tmp_path / "data")
    (data / "pairs.jsonl").write_text("{broken\n")
    arguments = ("--metric", "tit-llm")
    with Server(good) as server:
        assert "pairs.jsonl:1" in judge(tmp_path, server, *arguments, code=2)
        (data / "pairs.jsonl").unlink()
        assert "cannot be written" in judge(
            tmp_path, server, *arguments, "--json", str(data / "0.png" / "x.json"), code=2
        )
        assert server.count() == 0


def test_a_server_that_never_answers_ends_the_run_soon(tmp_path: Path) -> None:
    data = compared_images(tmp_path / "data", images=100)
    arguments = (
        "judge",
        "--data",
        str(data),
        "--provider",
        "openai/gpt-4o",
        "--metric",
        "tit-llm",
        "--concurrency",
        "32",
    )
    out = cli(tmp_path, *arguments, code=2, OPENAI_API_KEY="sk-x", OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    assert "no answer yet" in out


def test_a_file_of_votes_says_the_same_to_every_command(judged: Path, example: Path) -> None:
    """Three people, two of whom say what the example says: its accuracy stands, in every command and order."""
    right = read_lines(example / "pairs.jsonl")
    turned = {"a": "b", "b": "a"}
    rows = [
        ",".join((p["prompt_id"], p["image_a"], p["image_b"], who, choice(p["preference"])))
        for p in right
        for who, choice in (("ann", str), ("bob", lambda c: turned.get(c, c)), ("eve", str))
    ]
    (judged / "v.csv").write_text("\n".join(["prompt_id,image_a,image_b,annotator,preference", *rows[::-1]]))
    battles = [
        {"prompt_id": p["prompt_id"], "image_a": p["image_a"], "image_b": p["image_b"], "model_a": "m", "model_b": "n",
         "winner": {"a": "model_a", "b": "model_b"}[p["preference"] if k else turned[p["preference"]]]}
        for p in right for k in range(10)
    ]  # fmt: skip
    (judged / "b.jsonl").write_text("\n".join(map(json.dumps, battles)))
    cli(judged, "label", "convert", "v.csv", "--out", "p.jsonl")

    def accuracy(pairs: str) -> tuple[float, int]:
        cli(judged, "judges", "agreement", "one", "--pairs", pairs, "--json", "out.json")
        found = results(judged)["metrics"]["tit"]
        return found["accuracy"], found["pairs"]

    share, count = accuracy(str(example / "pairs.jsonl"))
    assert accuracy("v.csv") == accuracy("p.jsonl") == (share, count)
    assert accuracy("b.jsonl") == (pytest.approx(0.9 * share + 0.1 * (1 - share)), 10 * count)
    arguments = ("judge", str(example), "--captioner", "recorded", "--metric", "tit")
    cli(judged, *arguments, "--pairs", "b.jsonl", "--out", "battled", "--json", "out.json")
    assert results(judged)["metrics"]["tit"]["pairs"] == 10 * count
    cli(judged, "judges", "agreement", "battled", "--json", "out.json")
    assert results(judged)["metrics"]["tit"]["pairs"] == 10 * count
    cli(judged, "verify", "battled")
    (judged / "v.csv").write_text("prompt_id,image_a,image_b,preference\np,x.png,y.png,a\n")
    cli(judged, "judges", "agreement", "one", "--pairs", "v.csv", code=1)
    assert "v.csv" in cli(judged, *arguments, "--pairs", "v.csv", "--out", "none", code=2)


@pytest.mark.slow
def test_compare_with_human_scores_and_strengths(judged: Path, example: Path) -> None:
    lines = read_lines(example / "images.jsonl")
    (judged / "human.csv").write_text(
        "\n".join(["image,score", *(f"{each['image']},{each['alignment']}" for each in lines)]) + "\n"
    )
    out = cli(judged, "judges", "agreement", "one", "--human", "human.csv", "--strengths", "--json", "out.json")
    found = results(judged)
    assert found["human_scores"]["tit"]["n"] == 24
    assert 0.5 < found["human_scores"]["tit"]["srcc"] < 0.8
    assert "bradley_terry" in found
    assert "Correlation with human scores" in out
    (judged / "human.csv").write_text("image,score\nx,high\n")
    assert "human.csv:2" in cli(judged, "judges", "agreement", "one", "--human", "human.csv", code=2)
    (judged / "human.csv").write_text("image,score\nelsewhere.png,3\n")
    assert "none of its images is in the runs" in cli(
        judged, "judges", "agreement", "one", "--human", "human.csv", code=2
    )
