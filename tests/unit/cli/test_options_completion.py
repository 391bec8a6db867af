"""What a shell is told when somebody presses the tab key."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from titjudge.cli import main
from titjudge.core import registry

Complete = Callable[..., list[str]]


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Complete:
    """Ask as a shell's script asks: the words so far, the last of which is being typed."""

    def ask(*words: str, shell: str = "bash") -> list[str]:
        typed = ["titjudge", *words]
        monkeypatch.setenv("_TITJUDGE_COMPLETE", f"{shell}_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(typed))
        monkeypatch.setenv("COMP_CWORD", words[-1] if shell == "fish" else str(len(words)))
        with pytest.raises(SystemExit) as ended:
            main([])
        assert ended.value.code == 0
        return capsys.readouterr().out.splitlines()

    return ask


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("ju",), ["judge", "judges"]),
        (("judge", "--max-c"), ["--max-cost"]),
        (("judge", "--suite", "ti"), ["tiif"]),
        (("judge", "--suite=ti",), ["tiif"]),
        (("judge", "--metric", "tit"), ["tit", "tit-agent", "tit-agent-pairs", "tit-aligned", "tit-aligned-llm", "tit-llm"]),
        (("score", "--metric", "checkl"), ["checklist"]),
        (("judge", "--provider", "g"), ["gemini"]),
        (("probe", "--judge", "openai/"), ["openai/gpt-4o"]),
        (("judge", "--captioner", "reco"), ["recorded"]),
        (("judge", "--embedder", "sen"), ["sentence-transformers"]),
        (("judge", "--protocol", "o"), ["official"]),
        (("templates", "show", "tit/"), ["tit/check", "tit/compare", "tit/describe"]),
        (("answers", "export", "--metric", "viesc"), ["viescore", "viescore-edit"]),
        (("judge", "--set", "att"), ["attempts="]),
        (("judge", "--set=batch_",), ["batch_poll=", "batch_idle="]),
    ],
)  # fmt: skip
def test_names_are_completed(words: tuple[str, ...], offered: list[str], complete: Complete) -> None:
    assert complete(*words) == [f"plain,{value}" for value in offered]


def test_paths_are_left_to_the_shell(complete: Complete) -> None:
    assert complete("judge", "--data", "my") == ["file,my"]
    assert complete("report", "runs/f") == ["file,runs/f"]


def test_an_unknown_command_offers_nothing(complete: Complete) -> None:
    assert complete("no-such-command", "--sui") == [""]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_the_same_names(shell: str, complete: Complete) -> None:
    lines = " ".join(complete("judge", "--metric", "tit-l", shell=shell))
    assert "tit-llm" in lines
    assert "viescore" not in lines


def test_the_names_of_other_packages_are_offered(complete: Complete, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        registry, "announced", lambda kind: {"mood": "my_package.mood:mood"} if kind == "metrics" else {}
    )
    assert complete("judge", "--metric", "moo") == ["plain,mood"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_one_that_it_can_read(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "click.shell_completion.BashComplete._check_version", staticmethod(lambda: None)
    )  # asks bash, if there is one
    monkeypatch.setenv("_TITJUDGE_COMPLETE", f"{shell}_source")
    with pytest.raises(SystemExit):
        main([])
    script = capsys.readouterr().out
    assert f"_TITJUDGE_COMPLETE={shell}_complete" in script
    if shutil.which(shell) is None:
        return
    (tmp_path / "script").write_text(script)
    done = subprocess.run([shell, "-n", str(tmp_path / "script")], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
