"""Judges retire: what is announced, what answers instead, and what that costs."""

import json
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from builders import described_images
from click.testing import CliRunner

from tests.kit import Scripted, Seen, Server
from tests.kit.wires import text_for
from titjudge import Judge, UserError
from titjudge.cli.doctor import doctor
from titjudge.cli.judge import judge
from titjudge.cli.judges import judges
from titjudge.core.config import RoleConfig, load_config
from titjudge.core.errors import ConfigError
from titjudge.core.types import Usage
from titjudge.engine.cache import AnswerCache
from titjudge.engine.prices import price_of
from titjudge.engine.roles import Roles
from titjudge.providers import retirements
from titjudge.providers.vendors import family
from titjudge.runs.check.verify import verify
from titjudge.runs.folder.identity import config_of
from titjudge.runs.folder.run_folder import RunFolder, identity
from titjudge.runs.session import Session

ROOT = Path(__file__).resolve().parents[3]
PRO, FLASH = "gemini-2.5-pro", "gemini-3.8-flash"
BEFORE, AFTER = "2026-11-30", "2026-12-01"
OLD_DEFAULT, NEW_DEFAULT = "2026-09-01", "2026-09-02"  # ninety days before the model retires


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "key-of-nobody")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return described_images(tmp_path / "data", 6, "a red cube, number {number}")


def answering(served: Callable[[], str]) -> Callable[[Seen], Scripted]:
    """A Gemini server that answers by whatever model serves at the moment."""

    def answer(seen: Seen) -> Scripted:
        body = {
            "candidates": [{"content": {"parts": [{"text": text_for(seen)}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 100, "totalTokenCount": 1100},
            "modelVersion": served(),
        }
        return Scripted(body=body)

    return answer


def config(data: Path, server: Server, **more: Any) -> Any:
    prices = {PRO: {"input": 10.0, "output": 10.0}, FLASH: {"input": 20.0, "output": 20.0}}
    made = {
        "data": data,
        "metrics": ["lmm-score"],
        "captioner": {"model": f"gemini/{PRO}", "base_url": server.url, "max_tokens": 100},
        "prices": prices,
        "cache": str(data.parent / "cache"),
        "out": str(data.parent / "out"),
        "report": False,
        "limits": {"concurrency": 1},
    }
    return load_config(None, {**made, **more})


def test_the_table_names_its_sources_and_every_line_is_read() -> None:
    lines = retirements.table()
    assert all("read 20" in each.source or "Firebase" in each.source for each in lines)
    assert all(isinstance(each.on, date) and (each.successor or not each.routed) for each in lines)
    assert len({(each.provider, each.model) for each in lines}) == len(lines)
    assert all(family(each.provider, each.model).name != "compatible" for each in lines)


def test_no_example_names_a_model_whose_end_is_announced() -> None:
    places = (
        "README.md",
        "docs/how-to/*.md",
        "docs/tutorial/*.md",
        "docs/extend/*.md",
        "docs/reference/co*.md",
        "titjudge/*/**/*.py",
    )
    ending = {f"{each.provider}/{each.model}" for each in retirements.table()}
    found = [
        f"{path.name}: {name}"
        for place in places
        for path in ROOT.glob(place)
        if path.name != "replace-a-judge.md"  # it is on such models
        for name in re.findall(r"(?:openai|gemini)/[\w.-]*\w", path.read_text(encoding="utf-8"))
        if name in ending
    ]
    assert not found


@pytest.mark.parametrize(
    ("asked", "answered", "same"),
    [
        ("gpt-4o", "gpt-4o-2024-08-06@fp_44709d6fcb", True),
        ("gpt-4o", "gpt-4o-mini-2024-07-18", False),
        ("gpt-4o-2024-08-06", "gpt-4o-2024-11-20", False),
        (PRO, f"{PRO}-001", True),
        (PRO, f"models/{PRO}", True),
        (PRO, "gemini-2.5-pro-preview-05-06", True),
        (PRO, FLASH, False),
        ("gemini-flash-latest", "gemini-3.5-flash", True),
        ("gpt-4", "gpt-4.1", False),
        ("google/gemini-2.5-pro", "google/gemini-2.5-pro", True),
        ("anthropic/claude-sonnet-4-5", "claude-sonnet-4-5-20250929", True),
        ("anthropic/claude-sonnet-4", "claude-sonnet-4-5-20250929", False),
        ("my-deployment", "gpt-4o-2024-08-06", True),
        ("m", "", True),
        (PRO, "", True),
    ],
)
def test_who_answered(asked: str, answered: str, same: bool) -> None:
    assert retirements.same_model(asked, answered) is same


def test_the_default_becomes_the_successor_ninety_days_before_it_retires(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = load_config(None, {"data": tmp_path, "judge": "gemini"})
    found = {}
    for day in (OLD_DEFAULT, NEW_DEFAULT):
        monkeypatch.setenv(retirements.TODAY, day)
        found[day] = (RoleConfig(model="gemini").model_name, identity(run)["judge"]["model"])
    assert found == {OLD_DEFAULT: (PRO, "gemini"), NEW_DEFAULT: (FLASH, f"gemini/{FLASH}")}
    assert RoleConfig(model=f"gemini/{PRO}").model_name == PRO  # what is named is asked for
    monkeypatch.setenv(retirements.TODAY, "2026-10-16")
    assert RoleConfig(model="openai").model_name == "gpt-6-luna"


def test_a_notice_is_one_short_line(monkeypatch: pytest.MonkeyPatch) -> None:
    models = [(each.provider, each.model) for each in retirements.table()]
    for day in ("2026-01-01", "2030-01-01"):
        monkeypatch.setenv(retirements.TODAY, day)
        lines = retirements.notices([*models, ("gemini", ""), ("openai", "")])
        assert max(map(len, lines)) <= 100
        assert len(lines) == len(models) + 2


def test_a_default_that_was_replaced_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(retirements.TODAY, AFTER)
    assert retirements.notices([("gemini", ""), ("gemini", "")]) == [
        f"{FLASH} is the default model of gemini, because {PRO} retired on 2026-12-01"
    ]
    with (
        Judge("self-eval", captioner="gemini", cache=tmp_path) as judge,
        pytest.warns(UserWarning, match="is the default model"),
    ):
        judge.open()
    monkeypatch.setenv(retirements.TODAY, BEFORE)
    assert retirements.notices([("gemini", "")]) == [
        f"{FLASH} is the default model of gemini, because {PRO} retires on 2026-12-01"
    ]
    monkeypatch.setenv(retirements.TODAY, OLD_DEFAULT)
    assert retirements.notices([("gemini", "")]) == retirements.notices([("gemini", PRO)])


def test_a_run_begun_with_the_old_default_goes_on_with_it_or_says_which_it_was(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()
    with Server(answering(lambda: asked.append("") or PRO)) as server:

        def run(model: str) -> str:
            role = {"model": model, "base_url": server.url, "max_tokens": 100}
            return Session(config(data, server, captioner=role)).run().status

        monkeypatch.setenv(retirements.TODAY, OLD_DEFAULT)
        assert run("gemini") == "complete"
        monkeypatch.setenv(retirements.TODAY, NEW_DEFAULT)
        with pytest.raises(UserError, match=rf"another captioner \(gemini/{PRO}, not gemini/{FLASH}\): choose another"):
            run("gemini")
        begun = len(asked)
        assert run(f"gemini/{PRO}") == "complete"
        assert len(asked) == begun  # it is the same run, and has its answers
        folder = RunFolder(data.parent / "out")
        stored = config_of(folder.manifest().identity, folder.path)
        assert (stored.captioner and stored.captioner.model) == f"gemini/{PRO}"
        assert verify(folder.path).problems == []


def test_a_day_that_is_none_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(retirements.TODAY, "tomorrow")
    with pytest.raises(ConfigError, match="2026-12-01"):
        retirements.today()


def test_the_dearer_of_both_is_set_aside_from_the_day_on(monkeypatch: pytest.MonkeyPatch) -> None:
    made = load_config(None, {"judge": f"gemini/{PRO}", "prices": {FLASH: {"input": 1000.0, "output": 1000.0}}})
    worst = {}
    for day in (BEFORE, AFTER):
        monkeypatch.setenv(retirements.TODAY, day)
        worst[day] = Roles(made)["judge"].worst(Usage(input=1000, output=100))
    price = price_of("gemini", PRO)
    assert price is not None
    assert worst == {BEFORE: price.cost(Usage(input=1000, output=100)), AFTER: pytest.approx(1.1)}


def test_an_unknown_price_of_the_successor_refuses_a_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    made = load_config(
        None,
        {
            "judge": {"model": f"gemini/{PRO}", "base_url": "http://127.0.0.1:1"},
            "prices": {PRO: {"input": 1, "output": 1}},
            "limits": {"max_cost": 1},
        },
    )
    monkeypatch.setenv(retirements.TODAY, BEFORE)
    Roles(made).check_prices(["judge"])
    monkeypatch.setenv(retirements.TODAY, AFTER)
    with pytest.raises(ConfigError, match=f"replaced by {FLASH}.*--price {FLASH}=IN,OUT"):
        Roles(made).check_prices(["judge"])


def test_a_server_that_switches_in_the_middle(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = iter([PRO] * 3 + [FLASH] * 97)
    with Server(answering(lambda: next(served))) as server:
        outcome = Session(config(data, server)).run()
        assert outcome.status == "complete"
        (line,) = outcome.mixed
        assert line.startswith(f"mixed run: 3 of 6 answers to gemini/{PRO} came from {FLASH}")
        assert line in outcome.warnings
        assert RunFolder(outcome.folder).manifest().mixed == [line]
        assert outcome.results.spent == pytest.approx(3 * 1100 * 10e-6 + 3 * 1100 * 20e-6)
        replies = list(RunFolder(outcome.folder).replies())
        cache = AnswerCache(data.parent / "cache")
        kept = {each["model_version"]: cache.get(each["key"]) is not None for each in replies}
        cache.close()
        assert kept == {PRO: True, FLASH: False}
        # the same run again asks nothing and keeps nothing of the other model; a new run asks what is not kept
        assert Session(config(data, server)).run().mixed == [line]
        assert server.count() == 6
        server.handler = answering(lambda: PRO)
        again = Session(config(data, server, out=str(data.parent / "again"))).run()
        assert (server.count(), again.mixed) == (9, [])


def test_a_cap_holds_against_the_dearer_model(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(retirements.TODAY, AFTER)
    with Server(answering(lambda: FLASH)) as server:
        prices = {PRO: {"input": 0.0, "output": 0.0}, FLASH: {"input": 1000.0, "output": 1000.0}}
        worst = Roles(config(data, server, prices=prices))["captioner"].worst(Usage(input=3000, output=8292))
        outcome = Session(config(data, server, prices=prices, limits={"max_cost": 2 * worst, "concurrency": 1})).run()
        assert outcome.results.spent == pytest.approx(server.count() * 1.1)
        assert 0 < outcome.results.spent <= 2 * worst


def test_what_is_said(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(retirements.TODAY, BEFORE)
    line = f"gemini/{PRO} retires on 2026-12-01; then {FLASH} answers, at its price"
    with Server(answering(lambda: FLASH)) as server:
        flags = ["--data", str(data), "--captioner", f"gemini/{PRO}", "--base-url", server.url, "--metric", "lmm-score"]
        flags += ["--out", str(data.parent / "out"), "--no-report"]
        dry = CliRunner().invoke(judge, [*flags, "--dry-run"])
        assert line in dry.output
        made = CliRunner().invoke(judge, flags)
        assert line in made.output
        assert made.exit_code == 0, made.output
        last = [each for each in made.output.splitlines() if each.strip()][-4:]
        assert any(each.startswith("mixed run: 6 of 6 answers") for each in last)
    facts = CliRunner().invoke(doctor, ["--judge", f"gemini/{PRO}", "--json", str(data.parent / "d.json")])
    assert facts.exit_code in (0, 2)
    rows = json.loads((data.parent / "d.json").read_text())
    assert [each["facts"].startswith(line) for each in rows if each["what"] == "retirement"] == [True]
    said = CliRunner().invoke(judges, ["agreement", str(data.parent / "out")])
    assert "mixed run: 6 of 6" in said.output
