"""Wording carries no meaning: with every sentence of titjudge in other words, it decides as before."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import ROOT, cli
from wording import other_words

from titjudge.core.failure_advice import advice
from titjudge.core.run_records import FailureRecord
from titjudge.core.types import Cause, Failure, FailureKind, Status
from titjudge.engine.retry import terminal_error
from titjudge.probes.trust_card import line, with_verdicts
from titjudge.report.model import load
from titjudge.report.overview import overview_tables
from titjudge.runs.folder.run_folder import RunFolder

pytestmark = pytest.mark.slow


def facts(value: Any) -> Any:
    """JSON data without letters: keys, numbers, and what is there."""
    if isinstance(value, dict):
        return {key.casefold(): facts(part) for key, part in value.items()}
    return (
        [facts(part) for part in value]
        if isinstance(value, list)
        else value.casefold()
        if isinstance(value, str)
        else value
    )


def headings(page: Path) -> list[str]:
    return re.findall(r"<section[^>]* id=\"([^\"]+)\"|<h\d", page.read_text(encoding="utf-8"))


def card() -> list[tuple[str, str, float | None]]:
    """Verdicts of lines of a trust card of every rule, clear and not."""
    lines = [
        line("notices", f"{rule} {shift}", [(f"p{k}", shift + k % 3 / 10) for k in range(24)], rule=rule, limit=0.1)
        for rule in ("at most", "at least", "within")
        for shift in (-0.9, 0.0, 0.9)
    ]
    return [(each.rule, each.verdict, each.adjusted) for each in with_verdicts(lines)]


GATE = ("compare", "generators", "plain", "--baseline", "model_a", "--fail-if-worse", "60")
UNEVEN = (
    ("judge", "--data", "uneven", "--out", "part", "--min-coverage", "0"),
    ("compare", "generators", "part", "--baseline", "model_a"),
    ("judges", "agreement", "part"),
    ("judges", "people", "part"),
    ("compare", "generators", "old.csv"),
    ("compare", "plan", "old.csv", "--pair", "a,b", "--difference", "2"),
    ("compare", "early-stopping", "old.csv", "--pair", "all"),
    ("compare", "bridge", "old.csv", "new.csv"),
)
"""Commands on uneven data, whose results have exclusions, doubts and notes."""


def results_of(folder: Path) -> list[Any]:
    """Make the results of the commands of `UNEVEN` in a folder."""
    found = []
    for command in UNEVEN:
        cli(folder, *command, "--json", "made.json")
        found.append(json.loads((folder / "made.json").read_text()))
    return found


def make_uneven_data(folder: Path) -> None:
    """Copy the bundled example without some descriptions, and write scores of two judges on different prompts, in families."""
    shutil.copytree(ROOT / "examples" / "known_answer", folder / "uneven")
    file = folder / "uneven" / "descriptions.jsonl"
    file.write_text("\n".join(line for k, line in enumerate(file.read_text().splitlines()) if k % 7))
    for name, generators in (("old", "abcdef"), ("new", "abcde")):
        rows = [
            f"p{p},{g},{'' if (p + k) % 11 == 0 else 40 + 6 * k + 7 * p % 13 + (p * k) % 5},f{p // 3}"
            for p in range(36)
            for k, g in enumerate(generators)
            if not (g == "c" and p < 12) and (g != "e" or p < 4)
        ]
        (folder / f"{name}.csv").write_text("\n".join(["prompt_id,generator,score,cluster", *rows]))


@pytest.fixture(scope="module")
def runs(main_job: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The bundled example, judged as it is (`plain`); while the tests run, titjudge speaks in other words."""
    folder = tmp_path_factory.mktemp("words")
    shutil.copytree(main_job / "cache", folder / "cache")  # the vectors
    cli(folder, "judge", "--out", "plain", "--json", "plain.json")
    cli(folder, "compare", "generators", "plain", "--json", "generators.json")
    cli(folder, *GATE, "--json", "gate.json")
    (folder / "card.json").write_text(json.dumps(card()))
    cli(folder, "report", "plain", "--format", "site", "--out", "site")
    make_uneven_data(folder)
    (folder / "uneven.json").write_text(json.dumps(results_of(folder)))
    with other_words() as places:
        assert places > 1000
        yield folder


def test_a_run_made_before_a_text_was_improved_still_holds(runs: Path) -> None:
    assert "plain: verified" in cli(runs, "verify", "plain")


def test_a_run_in_other_words_has_the_same_numbers_and_holds(runs: Path) -> None:
    cli(runs, "judge", "--out", "reworded", "--json", "reworded.json")
    before, after = (json.loads((runs / name).read_text()) for name in ("plain.json", "reworded.json"))
    assert facts(before) == facts(after)
    assert before["notes"] != after["notes"]
    assert "reworded: verified" in cli(runs, "verify", "reworded")
    _tamper(runs / "reworded" / "results.json")
    cli(runs, "verify", "reworded", code=1)


def _tamper(file: Path) -> None:
    content = json.loads(file.read_text())
    row = content["tables"][0]["rows"][0]
    row[1] = row[1].replace("8", "9", 1)
    file.write_text(json.dumps(content))


def test_report_and_board_have_the_same_parts(runs: Path) -> None:
    before = headings(runs / "plain" / "report.html")
    cli(runs, "report", "plain")
    assert headings(runs / "plain" / "report.html") == before
    assert [table.declared.id for table in overview_tables(load([RunFolder(runs / "plain")]))][:2] == [
        "agreement",
        "leaderboard",
    ]
    cli(runs, "report", "plain", "--format", "site", "--out", "site2")
    assert headings(runs / "site" / "index.html") == headings(runs / "site2" / "index.html")


def test_a_comparison_has_the_same_values(runs: Path) -> None:
    cli(runs, "compare", "generators", "plain", "--json", "again.json")
    before, after = (json.loads((runs / name).read_text()) for name in ("generators.json", "again.json"))
    assert facts(before) == facts(after)


def test_results_of_uneven_data_are_the_same(runs: Path) -> None:
    assert "part: verified" in cli(runs, "verify", "part")
    shutil.rmtree(runs / "part")
    before, after = json.loads((runs / "uneven.json").read_text()), results_of(runs)
    for command, first, second in zip(UNEVEN, before, after, strict=True):
        assert facts(first) == facts(second), command
    assert before != after
    text = json.dumps(before)
    assert all(f'"{id}"' in text for id in ("no_score", "too_few_own_mean", "few_units", "no_score_estimated"))


def test_gate_and_trust_card_have_the_same_verdicts(runs: Path) -> None:
    cli(runs, *GATE, "--json", "gate2.json")
    before, after = (json.loads((runs / name).read_text())["gate"] for name in ("gate.json", "gate2.json"))
    assert (before["verdicts"], before["outcome"]) == (after["verdicts"], after["outcome"])
    known = json.loads((runs / "card.json").read_text())
    assert json.loads(json.dumps(card())) == known
    assert {verdict for _, verdict, _ in known} >= {"caught", "not enough data"}


def test_advice_is_the_same(runs: Path) -> None:
    later, never = Failure(FailureKind.RATE_LIMIT, "later"), Failure(FailureKind.REJECTED, "never")
    causes = [getattr(terminal_error(failure), "cause", None) for failure in (later, never)]
    assert causes == [Cause.CROWDED, Cause.REJECTED]
    failures = [FailureRecord(item="a", status="failed", cause="crowded"), FailureRecord(item="b", status="refused")]
    assert [line.cause for line in advice(failures, {})] == [Cause.CROWDED, Status.REFUSED]
