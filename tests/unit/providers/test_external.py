"""Metrics that a command computes: what it is given, what it may answer, and everything that is no score."""

import asyncio
import json
import os
import shlex
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny_models

from titjudge.core import registry
from titjudge.core.config import RunConfig
from titjudge.core.errors import ConfigError
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Item, ProviderSettings, Score, Status
from titjudge.data.learned_metrics import COMMAND, rows
from titjudge.engine.cache import AnswerCache
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.engine.scoring import score_item
from titjudge.metrics.learned import external, learned_metric
from titjudge.providers.learned import subprocess
from titjudge.providers.learned.external import External, command_of, read, variable
from titjudge.providers.learned.subprocess import ProcessOutcome, run

HEAD = "import json, sys\nrows = [json.loads(line) for line in sys.stdin]\n"
ECHO = HEAD + 'for r in rows:\n    print(json.dumps({"id": r["id"], "score": len(r["prompt"])}))\n'

lmm4lmm, visionreward = learned_metric("lmm4lmm"), learned_metric("visionreward")


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = {"external": "titjudge.providers.learned.external:External"}
    monkeypatch.setitem(registry.TABLES, "providers", {**registry.TABLES["providers"], **mine})


def told(monkeypatch: pytest.MonkeyPatch, folder: Path, code: str, name: str = "lmm4lmm") -> Path:
    script = folder / "score it.py"
    script.write_text(textwrap.dedent(code))
    monkeypatch.setenv(variable(name), shlex.join([sys.executable, str(script)]))
    return script


def items(folder: Path, count: int = 3) -> list[Item]:
    made = []
    for n in range(count):
        path = folder / f"{n}.png"
        tiny_models.picture(40, 40, seed=n).save(path)
        made.append(Item(str(n), "p" * (n + 1), path))
    return made


def scored(wanted: list[Item], folder: Path, metric: Any = lmm4lmm) -> list[Score]:
    async def go() -> list[Score]:
        store = AnswerCache(folder / "cache")
        roles = Roles(RunConfig())
        engine = Engine(roles, PromptLibrary(), store)
        try:
            return list(await asyncio.gather(*(score_item(engine, each, "m", metric) for each in wanted)))
        finally:
            await roles.aclose()
            store.close()

    return asyncio.run(go())


def by_command(monkeypatch: pytest.MonkeyPatch, folder: Path, code: str, count: int = 3) -> list[Score]:
    told(monkeypatch, folder, code)
    return scored(items(folder, count), folder)


def test_one_command_scores_a_whole_batch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = ECHO + f"open({str(log)!r}, 'a').write(str(len(rows)) + ' ')\n"
    found = by_command(monkeypatch, tmp_path, code)
    assert [each.value for each in found] == [1, 2, 3]
    assert log.read_text() == "3 "
    again = scored(items(tmp_path), tmp_path)
    assert [each.value for each in again] == [1, 2, 3]
    assert log.read_text() == "3 "  # from the cache


def test_another_script_is_another_scorer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert by_command(monkeypatch, tmp_path, ECHO, 1)[0].value == 1
    assert by_command(monkeypatch, tmp_path, ECHO.replace("len(", "7 + len("), 1)[0].value == 8


def test_the_command_gets_prompt_and_picture_and_no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    code = HEAD + (
        "import os\nfrom pathlib import Path\nfor r in rows:\n"
        "    seen = {'id': r['id'], 'score': len(Path(r['image']).read_bytes()), 'reason': r['prompt'] + str(sorted(r))}\n"
        "    seen['parts'] = {'keys': sum(name.endswith('_API_KEY') for name in os.environ)}\n    print(json.dumps(seen))\n"
    )
    (item,) = items(tmp_path, 1)
    told(monkeypatch, tmp_path, code)
    assert item.image is not None
    prompt = "a\nred \u2028 cube {{ 1 }} \"';$(x)"
    (score,) = scored([Item("0", prompt, item.image)], tmp_path)
    assert score.value == item.image.stat().st_size
    assert score.parts["keys"] == 0
    assert "red" in score.reason
    assert "['id', 'image', 'prompt']" in score.reason


def test_tokens_that_were_not_read_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    extra = '"score": 2, "tokens_used": 32, "tokens_total": 90'
    (score,) = by_command(monkeypatch, tmp_path, HEAD + f'print(json.dumps({{"id": "0", {extra}}}))\n', 1)
    assert (score.value, score.parts["cut"], score.parts["prompt_tokens_used"]) == (2, True, 32)
    assert "only 32 of 90" in score.reason


BAD_LINES = {
    '{"id": "1"}': "gave no score",
    '{"id": "1", "score": null, "reason": "too dark"}': "too dark",
    '{"id": "1", "score": NaN}': "not a finite number",
    '{"id": "1", "score": 1e999}': "not a finite number",
    '{"id": "1", "score": "0.5"}': "not a finite number",
    '{"id": "1", "score": true}': "not a finite number",
    '{"id": "1", "score": 1, "tokens_used": 5}': "two counts",
    '{"id": "1", "score": 1, "tokens_used": 5, "tokens_total": 4}': "more tokens than there are",
    '{"id": "1", "score": 1, "tokens_used": -5, "tokens_total": 4}': "two counts",
    '{"id": "1", "score": 1, "parts": {"a": "b"}}': "finite numbers",
    '{"id": "1", "score": 1}\n{"id": "1", "score": 1}': "more than once",
    '{"id": "1", "score": 1': "1 lines of its output",
    '{"id": "9", "score": 1}': "1 lines of its output",
    '["1", 1]': "1 lines of its output",
    "": "did not answer",
}


@pytest.mark.parametrize("line", list(BAD_LINES))
def test_what_is_not_a_score_is_a_failure_with_its_reason(line: str) -> None:
    output = ('{"id": "0", "score": 0.25}\n' + line + '\n{"id": 2, "score": 1}\n').encode()
    found, why = read(ProcessOutcome(output, 0, False, False, "", 1.0, 1), {"0", "1", "2"})
    assert [found["0"]["score"], found["2"]["score"]] == [0.25, 1.0]  # type: ignore[index]
    said = found.get("1", why)
    assert isinstance(said, str)
    assert BAD_LINES[line] in said


def test_bytes_that_are_no_text_do_not_stop_the_rest() -> None:
    found, why = read(ProcessOutcome(b'\xff\xfe\n{"id": "0", "score": 1}', 0, False, False, "", 1.0, 1), {"0", "1"})
    assert found["0"]["score"] == 1  # type: ignore[index]
    assert "1 lines" in why


def test_a_crash_is_reported_by_its_last_line_and_keeps_whole_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code = (
        HEAD + 'print(json.dumps({"id": "0", "score": 4}), flush=True)\nraise RuntimeError("out of\\x1b[31m cards")\n'
    )
    first, *rest = sorted(by_command(monkeypatch, tmp_path, code), key=lambda score: score.value is None)
    assert first.value == 4  # whichever item came first into the batch
    for each in rest:
        assert (each.value, each.status) == (None, Status.FAILED)
        assert "exit code 1" in each.reason
        assert "RuntimeError: out of [31m cards" in each.reason


def test_late_is_a_failure_and_nothing_is_left_running(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    child, said = tmp_path / "child", tmp_path / "said"
    code = HEAD + (
        f"import subprocess\nchild = subprocess.Popen(['sleep', '60'])\nopen({str(child)!r}, 'w').write(str(child.pid))\n"
        f'print(json.dumps({{"id": "0", "score": 4}}), flush=True)\nopen({str(said)!r}, "w").close()\nchild.wait()\n'
    )
    wait = subprocess._wait

    def time_is_over(process: Any, deadline: float, enough: Callable[[], bool]) -> bool:
        assert deadline - time.monotonic() <= 1.5
        while not said.exists():
            time.sleep(0.01)
        return wait(process, min(deadline, time.monotonic()), enough)

    monkeypatch.setattr(subprocess, "_wait", time_is_over)
    script = told(monkeypatch, tmp_path, code)
    config = tmp_path / "run.yaml"
    config.write_text(json.dumps({"command": [sys.executable, str(script)], "timeout": 1.5}))
    monkeypatch.setenv(variable("lmm4lmm"), str(config))
    first, second = sorted(scored(items(tmp_path, 2), tmp_path), key=lambda score: score.value is None)
    assert first.value == 4
    assert (second.value, second.status) == (None, Status.FAILED)
    assert "within 1.5 s" in second.reason
    state = Path(f"/proc/{child.read_text()}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"


def test_output_is_bounded() -> None:
    code = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    outcome = run([sys.executable, "-c", code], b"", timeout=60, limit=1000, environment=dict(os.environ))
    assert outcome.overflow
    assert len(outcome.output) <= 1000
    found, why = read(outcome, {"0"})
    assert not found
    assert "more than 1000 bytes" in why


def test_much_noise_on_the_error_output_blocks_nothing() -> None:
    code = "import sys\nsys.stderr.write('y' * 3_000_000 + '\\nlast words\\n\\n')"
    outcome = run([sys.executable, "-c", code], b"z" * 300_000, timeout=60, limit=1000, environment=dict(os.environ))
    assert (outcome.code, outcome.last_words) == (0, "last words")


def test_a_failure_is_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (score,) = by_command(monkeypatch, tmp_path, HEAD, 1)
    assert score.value is None
    assert by_command(monkeypatch, tmp_path, ECHO, 1)[0].value == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "set TITJUDGE_EXTERNAL_MY_SCORER"),
        ("no-such-program-at-all x", "program"),
        ("python 'x", "closing quotation"),
        ("nowhere.yaml", "No such file"),
        ("{yaml}", "unknown key 'comand'"),
    ],
)
def test_a_wrong_command_is_one_clear_line(
    content: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "own.yaml"
    config.write_text("command: [python]\ncomand: 3\n")
    monkeypatch.setenv(variable("my-scorer"), content.replace("{yaml}", str(config)))
    with pytest.raises(ConfigError, match="TITJUDGE_EXTERNAL_MY_SCORER") as caught:
        command_of("my-scorer", {})
    assert said.lower() in str(caught.value).lower()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wrong", [{"timeout": 0}, {"timeout": "x"}, {"batch_size": 0}, {"pass_environment": "A"}])
def test_wrong_options(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        command_of("x", {"command": [sys.executable], **wrong})


def test_options_of_a_role_go_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable("x"), "no-such-program-at-all")
    made = External(ProviderSettings("x", options={"command": [sys.executable, "-V"], "version": "2"}))
    assert made.command.words == (sys.executable, "-V")
    assert made.command.version == "2"


def test_every_external_row_is_a_metric() -> None:
    assert [row.key for row in rows(COMMAND)] == [lmm4lmm.name, visionreward.name]


def test_a_stranger_declares_a_metric_of_his_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told(monkeypatch, tmp_path, ECHO, name="my-scorer")
    mine = external("my-scorer", range=(0, 9), source="mine", summary="Mine.")
    assert (mine.summary, mine.roles) == ("Mine.", ("external/my-scorer",))
    assert scored(items(tmp_path, 2), tmp_path, mine)[1].value == 2
