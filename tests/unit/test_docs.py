"""The documentation cannot rot: its generated parts are current, its examples run, its links lead somewhere."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import jsonschema
import numpy as np
import pytest
import yaml
from commands import cli
from pages import DOCS, README, ROOT, all_pages, extension_text, page_of, relative
from PIL import Image
from report_runs import small_run

PAGES = [ROOT / "CONTRIBUTING.md", *all_pages()]


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(language: str, *pages: Path) -> list[str]:
    return [
        block for page in pages or PAGES for block in re.findall(rf"```{language}\n(.*?)```", text(page), re.DOTALL)
    ]


def test_generated_parts_are_current() -> None:
    done = subprocess.run([sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_readme_is_read_in_one_sitting() -> None:
    assert len(text(README).splitlines()) <= 180


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_lead_to_files(page: Path) -> None:
    links = [link for link in re.findall(r"\]\(([^)#\s]+)\)", text(page)) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []
    parts = [(page.parent / link, part) for link, part in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", text(page))]
    assert [part for file, part in parts if part not in anchors(page if file.is_dir() else file)] == []


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text(page), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_the_drawings_of_the_architecture_name_what_is_there() -> None:
    page = page_of("architecture")
    named = {name for block in blocks("text", page) for name in re.findall(r"^[a-z_]+/[\w./]*", block, re.MULTILINE)}
    named |= set(re.findall(r"`((?:core|engine|runs|providers|metrics|suites|stats)/[\w./]+)`", text(page)))
    assert len(named) > 12
    assert [name for name in sorted(named) if not (ROOT / "titjudge" / name).exists()] == []


def test_the_run_yaml_loads(tmp_path: Path) -> None:
    from titjudge.core.config import load_config

    (block,) = blocks("yaml", page_of("configuration"))
    (tmp_path / "run.yaml").write_text(block)
    assert load_config(tmp_path / "run.yaml").limits.max_cost == 5
    assert yaml.safe_load(block)["metrics"] == ["tit", "tit-llm"]
    named = re.search(r"\$schema=(\S+)", block)
    assert named is not None
    jsonschema.validate(yaml.safe_load(block), json.loads(text(ROOT / named[1])))


@pytest.mark.parametrize("page", [page for page in PAGES if "```yaml\n# " in text(page)], ids=relative)
def test_examples_of_configurations_load(page: Path, tmp_path: Path) -> None:
    from titjudge.core.config import load_config

    for block in blocks("yaml", page):
        if re.match(r"# (?!my_)\w+\.yaml\n", block):  # a suite has other keys
            (tmp_path / "run.yaml").write_text(block)
            load_config(tmp_path / "run.yaml")


def test_the_tables_of_variables_and_statuses_are_complete() -> None:
    from titjudge.core.types import Status

    code = "\n".join(file.read_text(encoding="utf-8") for file in sorted((ROOT / "titjudge").rglob("*.py")))
    read = set(re.findall(r'environ(?:\.get\(|\[)"([A-Z_]+)"|"(TITJUDGE_[A-Z]+)"', code))
    names = {first or second for first, second in read} - {"TERM", "XDG_CACHE_HOME"}
    assert len(names) > 10
    assert [name for name in sorted(names) if f"`{name}`" not in text(page_of("environment"))] == []
    assert [status for status in Status if f"| `{status}` |" not in text(page_of("statuses"))] == []


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The examples of docs/extend as a package, announced as its entry points would announce it."""
    from titjudge.core import registry

    pages = sorted((DOCS / "extend").glob("*.md"))
    folder = tmp_path / "my_package"
    folder.mkdir()
    (folder / "__init__.py").touch()
    for block in blocks("python", *pages):
        name = re.match(r"# my_package/(\w+\.py)\n", block)
        assert name is not None
        (folder / name[1]).write_text(block)
    for kind, entry, target in re.findall(
        r'\[project\.entry-points\."titjudge\.(\w+)"\]\n(\w+) = "([\w.:]+)"', extension_text()
    ):
        monkeypatch.setitem(
            registry.announced("commands") if kind == "commands" else registry.TABLES[kind], entry, target
        )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_package"]:
        monkeypatch.delitem(sys.modules, name)
    (prompt,) = blocks("markdown", *pages)
    (tmp_path / "prompts" / "mine").mkdir(parents=True)
    (tmp_path / "prompts" / "mine" / "mood.md").write_text(prompt)
    return tmp_path


def test_the_metric_of_the_extension_page_judges(package: Path) -> None:
    from titjudge import Judge

    Image.new("RGB", (8, 8)).save(package / "image.png")
    with Judge(metric="mood", captioner="fake/any", prompts=package / "prompts") as judge:
        score = judge.score(package / "image.png", "a calm sea")
    assert (score.value, score.status) == (0.0, "ok")


def test_the_provider_of_the_extension_page_answers(package: Path) -> None:
    import asyncio

    from titjudge import Request
    from titjudge.core import registry
    from titjudge.core.types import Message
    from titjudge.providers import ProviderSettings

    made = registry.load("providers", "shout")(ProviderSettings("any"))
    reply = asyncio.run(made.complete(Request("shout", "any", (Message("user", ("a calm sea",)),))))
    assert reply.text == "A CALM SEA"
    assert made.usage_bound(Request("shout", "any", ())).input >= reply.usage.input


@pytest.mark.slow
def test_the_learned_metric_of_the_extension_page_scores_an_image_whatever_its_prompt(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tiny_models
    import torch
    from safetensors.torch import save_file

    from titjudge import Judge

    tiny_models.picture(60, 60).save(package / "image.png")
    clip = tiny_models.clip(package / "clip")
    save_file({"weight": torch.full((1, 16), 0.5), "bias": torch.tensor([2.0])}, package / "head.safetensors")
    own = {"aesthetics": {"weights": str(package / "head.safetensors"), "base": str(clip), "device": "cpu"}}
    (package / "scorers.yaml").write_text(json.dumps(own))
    monkeypatch.setenv("TITJUDGE_SCORERS", str(package / "scorers.yaml"))
    with Judge(metric="aesthetics", cache=package / "cache") as judge:
        scores = [judge.score(package / "image.png", prompt) for prompt in ("a calm sea", "two dogs")]
    assert scores[0].value == scores[1].value != 2.0


def test_the_hosted_provider_of_the_extension_page_is_known_by_its_class(
    package: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it answers is held to the contract by tests/contract/test_provider_spec.py."""
    from titjudge.cli.commands import run_command
    from titjudge.core import registry
    from titjudge.core.types import ProviderSettings
    from titjudge.engine.prices import price_of
    from titjudge.providers.token_counts import image_rule

    monkeypatch.setattr("titjudge.cli.doctor._embedder", lambda config: ("embedder", "ok", ""))
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    assert run_command("titjudge", ["providers", "--json", str(package / "p.json")]) == 0
    assert (
        run_command("titjudge", ["doctor", "--set", f"cache={package / 'c'}", "--json", str(package / "d.json")]) == 0
    )
    capsys.readouterr()
    listed = {row["name"]: row for row in json.loads(text(package / "p.json")) if row["kind"] == "provider"}
    assert listed["messages"]["default_model"] == "claude-sonnet-4-5"
    assert listed["messages"]["key"] == "ANTHROPIC_API_KEY"
    rows = {row["what"]: row for row in json.loads(text(package / "d.json"))}
    assert (rows["messages"]["state"], rows["messages"]["facts"]) == ("no key", "set ANTHROPIC_API_KEY")
    known = price_of("messages", "claude-sonnet-4-5", base_url="https://api.anthropic.com")
    assert known == price_of("litellm", "anthropic/claude-sonnet-4-5")
    assert known is not None
    elsewhere = price_of("messages", "claude-sonnet-4-5", base_url="http://127.0.0.1:9")
    assert elsewhere is not None
    assert elsewhere.elsewhere
    assert image_rule("messages", "claude-sonnet-4-5") == image_rule("anthropic", "claude-sonnet-4-5")
    made = registry.load("providers", "messages")(ProviderSettings("claude-sonnet-4-5"))
    assert made.family.max_output == 64_000
    able = made.capabilities
    assert (able.schema, able.tools, able.probabilities) == (False, False, False)


def test_the_suite_of_the_extension_page_is_judged_and_its_run_read_and_shown(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib

    from titjudge.cli.commands import run_command
    from titjudge.core.config import load_config
    from titjudge.report.sinks import Target, send
    from titjudge.runs import RunFolder, Session

    data = package / "data"
    data.mkdir()
    for name in ("a-calm-sea.png", "42.png"):
        Image.new("RGB", (8, 8)).save(data / name)
    keys = {"data": data, "suite": "names", "metrics": ["mood"], "captioner": {"model": "fake/any"}, "report": False}
    config = load_config(
        None, {**keys, "prompts": package / "prompts", "out": package / "run", "cache": package / "cache"}
    )
    outcome = Session(config).run()
    assert outcome.failures == [("42.png", "bad_input", "the name is a number, not a prompt")]
    monkeypatch.chdir(package)
    assert send(RunFolder(package / "run"), [Target.parse("lines:shown/exp7")], step=4) == []
    (line,) = (package / "shown" / "exp7.jsonl").read_text().splitlines()
    shown = json.loads(line)
    assert (shown["step"], shown["mood/mean"], list(shown["images"])) == (4, 0.0, ["a-calm-sea.png"])
    assert shown["Metrics"][0]["metric"] == "mood"
    worst = importlib.import_module("my_package.worst").worst
    assert worst(package / "run", "mood") == (["a-calm-sea.png"], {})
    assert run_command("titjudge", ["worst", "run", "--metric", "mood", "--json", "worst.json"]) == 0
    assert json.loads(text(package / "worst.json")) == ["a-calm-sea.png"]


@pytest.mark.parametrize(("higher", "first"), [(True, "a-sea.png"), (False, "two-dogs-and-a-cat.png")])
def test_the_worst_images_of_the_extension_page_are_those_that_the_metric_finds_worst(
    package: Path, monkeypatch: pytest.MonkeyPatch, higher: bool, first: str
) -> None:
    import importlib

    from titjudge import Score, metric
    from titjudge.core import registry
    from titjudge.core.config import load_config
    from titjudge.runs import Session

    @metric("words", roles=(), range=(0, 100), higher_is_better=higher)
    async def words(item: Any, ask: Any) -> Score:
        """How many words the prompt has."""
        return Score.of(len(item.prompt.split()))

    monkeypatch.setattr(sys.modules[__name__], "words", words, raising=False)
    monkeypatch.setitem(registry.TABLES["metrics"], "words", f"{__name__}:words")
    (package / "data").mkdir()
    for name in ("a-sea.png", "two-dogs-and-a-cat.png"):
        Image.new("RGB", (8, 8)).save(package / "data" / name)
    keys = {"data": package / "data", "suite": "names", "metrics": ["words"], "report": False}
    Session(load_config(None, {**keys, "out": package / "run", "cache": package / "cache"})).run()
    worst = importlib.import_module("my_package.worst").worst
    assert worst(package / "run", "words", 1) == ([first], {})


@pytest.mark.slow
def test_the_tests_of_the_extension_page_pass(package: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(package), str(ROOT)])}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "my_package/test_mine.py"]
    done = subprocess.run(command, cwd=package, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None, done.stdout
    assert int(passed[1]) > 30


def test_the_suite_file_of_the_extension_page_is_judged(tmp_path: Path) -> None:
    from titjudge.core.config import load_config
    from titjudge.runs import Session

    block, _ = blocks("yaml", page_of("suite"))
    (tmp_path / "my_suite.yaml").write_text(block)
    (tmp_path / "data" / "images" / "gen").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "data" / "images" / "gen" / "1_0.png")
    (tmp_path / "data" / "prompts.csv").write_text("id,prompt,theme,question\n1,a red house,city,Is the house red?\n")
    keys = {"data": tmp_path / "data", "suite": str(tmp_path / "my_suite.yaml"), "judge": {"model": "fake/any"}}
    config = load_config(None, {**keys, "out": tmp_path / "run", "cache": tmp_path / "cache", "report": False})
    outcome = Session(config).run()
    assert outcome.failures == []
    assert [table.rows for table in outcome.tables if table.title == "Colours"] == [(("gen", 1, 1, 100.0, 100.0),)]


def test_the_suite_of_edits_of_the_extension_page_is_read(tmp_path: Path) -> None:
    from titjudge.core import registry

    (file := tmp_path / "my_edits.yaml").write_text(blocks("yaml", page_of("suite"))[1])
    assert registry.load("suites", str(file)).metrics == ("viescore-edit",)


def test_the_examples_of_the_python_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ast
    import asyncio
    import inspect

    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TITJUDGE_CACHE", str(tmp_path / "cache"))
    Image.new("RGB", (8, 8)).save("image.png")
    small_run(tmp_path / "runs" / "first")
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks("python", page_of("python")):
        offline = block.replace("gemini/gemini-3.8-flash", "fake/one").replace("openai/gpt-6-luna", "fake/two")
        offline = offline.replace('provider="gemini"', 'provider="fake"')
        ran = eval(compile(offline, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if inspect.iscoroutine(ran):
            asyncio.run(ran)
    assert names["score"].value == 0
    assert list(names["judged"]["tit-llm_status"]) == ["ok", "bad_input"]
    assert list(names["frame"][["metric", "value"]].groupby("metric").count()["value"]) == [4, 3]
    assert names["rewards"] == [0.0] * 4
    names["test_the_model_still_draws_a_cat"]()


def test_the_doctests_of_titjudge_are_right() -> None:
    import doctest
    import importlib

    files = [path for path in sorted((ROOT / "titjudge").rglob("*.py")) if ">>> " in text(path)]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in files]
    found = {name: doctest.testmod(importlib.import_module(name)) for name in names}
    assert {name: result for name, result in found.items() if result.failed or not result.attempted} == {}
    assert len(found) >= 8


@pytest.mark.parametrize("package", ["titjudge", "titjudge.report"])
def test_the_examples_of_packages_run(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib
    import textwrap

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TITJUDGE_CACHE", str(tmp_path / "cache"))
    Image.new("RGB", (8, 8)).save("image.png")
    small_run(tmp_path / "runs" / "first")
    lines = (importlib.import_module(package).__doc__ or "").splitlines()
    example = textwrap.dedent("\n".join(line for line in lines if not line or line.startswith("    ")))
    names: dict[str, Any] = {}
    exec(example.replace('provider="gemini"', 'provider="fake"'), names)
    assert names["score"].value == 0 if package == "titjudge" else Path("report.html").stat().st_size > 10_000


def test_the_examples_of_readme_and_the_page_on_edits_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TITJUDGE_CACHE", str(tmp_path / "cache"))
    for number, name in enumerate(("image", "a", "b", "c", "1", "2", "before", "after")):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(f"{name}.png")
    for page in (README, page_of("judge-edits")):
        names: dict[str, Any] = {}
        for block in blocks("python", page):
            exec(re.sub(r'"(gemini|openai)(/[\w.-]+)?"', '"fake/one"', block), names)
        assert names["score"].status == "ok", page
        assert [score.status for score in names["scores"]] == ["ok", "ok"], page


def test_the_reward_functions_of_the_page_on_rewards_are_called_as_trainers_call_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TITJUDGE_CACHE", str(tmp_path / "cache"))
    orms: dict[str, Any] = {}
    names: dict[str, Any] = {"decode": lambda completion: bytes.fromhex(completion) or None, "orms": orms}
    for block in blocks("python", page_of("reward-server")):
        exec(block.replace('provider="gemini"', 'provider="fake"'), names)
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "PNG")
    image, pixels = file.getvalue().hex(), np.zeros((1, 8, 8, 3), np.uint8)
    with names["judge"]:
        assert names["reward"](prompts=["a cat"], completions=[image], completion_ids=[[1]]) == [0.0]
        assert orms["titjudge"]()([image, ""], messages=[[{"role": "user", "content": "a cat"}]] * 2) == [0.0, 0.0]
        assert names["titjudge_score"]()(pixels, ["a cat"], [{}]) == ([0.0], {})
        row = {"data_source": "mine", "ground_truth": "a cat", "extra_info": {}}
        assert names["compute_score"](solution_image=pixels[0], **row) == 0.0


def test_the_query_over_all_runs_counts_the_last_line_of_each_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    duckdb = pytest.importorskip("duckdb", reason="needs `pip install 'titjudge[test]'`")
    from titjudge.core.serialization import score_record
    from titjudge.core.types import Score, Status

    def scored(run: str, *scores: Score) -> None:
        (tmp_path / "runs" / run).mkdir(parents=True)
        (tmp_path / "runs" / run / "scores.jsonl").write_text(
            "\n".join(json.dumps(score_record(score)) for score in scores)
        )

    def score(image: str, value: float | None, **parts: Any) -> Score:
        status = Status.OK if value is not None else Status.REFUSED
        return Score(image, "tit", value, status, generator="m", parts=parts)

    scored("a", score("1.png", None), score("2.png", 0.5), score("1.png", 0.7, tokens=3))
    scored("b", score("1.png", 0.1), score("2.png", None))
    monkeypatch.chdir(tmp_path)
    (query,) = blocks("sql", page_of("files"))
    found = duckdb.sql(query).fetchall()
    assert [(Path(run).parent.name, mean, scored, images) for run, _, _, mean, scored, images in found] == [
        ("a", pytest.approx(0.6), 2, 2),
        ("b", pytest.approx(0.1), 1, 2),
    ]


def command_in(name: str, rest: str) -> click.Command:
    """The command behind `cli.py NAME REST`; a first word that is no path of the examples must be a sub-command."""
    from titjudge.cli.commands import command_of

    command, words = command_of(name), rest.split()
    while isinstance(command, click.Group):
        context = click.Context(command)
        word = words.pop(0) if words else ""
        if word not in command.list_commands(context):
            path = "/" in word or word == "my_images" or word.startswith("-") or not word
            default = command.default if path else ""  # type: ignore[attr-defined]
            assert default, f"'{name}' has no sub-command '{word}'"
            word = default
        part = command.get_command(context, word)
        assert part is not None
        command = part
    return command


def test_a_sub_command_that_is_gone_is_no_path_of_the_examples() -> None:
    assert command_in("compare", "runs/first").name == "generators"
    assert command_in("judges", "ranks a.csv").name == "ranks"
    for gone in ("compare cascaded runs/sweep", "label serv my_images", "judges"):
        with pytest.raises(AssertionError, match="has no sub-command"):
            command_in(*gone.split(maxsplit=1) if " " in gone else (gone, ""))


def unknown_options(command: click.Command, rest: str) -> set[str]:
    """The options in `rest` that a command does not have."""
    help_ = {"--help", "--help-all", "--log-level", "--log-file"}
    options = help_ | {
        option for parameter in command.params for option in [*parameter.opts, *parameter.secondary_opts]
    }
    unquoted = re.sub(r"'[^']*'|\"[^\"]*\"", "''", rest)  # a command of the user's in quotes has options of its own
    return {word.partition("=")[0] for word in unquoted.split() if word.startswith("--")} - options


def commands_in_prose(page: str) -> list[tuple[str, str]]:
    """The commands between backquotes outside of blocks and generated parts: (name, rest).

    They are those after `python cli.py`, and those of several words that begin with the name of a command.
    """
    from titjudge.cli.commands import names

    prose = re.sub(r"```.*?```|<!-- generated.*?<!-- end -->", "", page, flags=re.DOTALL)
    found = []
    for span in re.findall(r"`([^`\n]+(?:\n[^`\n]+)?)`", prose):
        words = span.split()
        if words[:2] == ["python", "cli.py"] and len(words) > 2:
            found.append((words[2], " ".join(words[3:])))
        elif len(words) > 1 and words[0] in names():
            found.append((words[0], " ".join(words[1:])))
    return found


def faults_of_a_command_in_prose(name: str, rest: str) -> str:
    """What is wrong with a command that prose names, empty for nothing; capitals stand for what the user gives."""
    from titjudge.cli.commands import command_of, names

    if name not in names():
        return "no such command"
    command, words = command_of(name), rest.split()
    while isinstance(command, click.Group) and words:
        context, word = click.Context(command), words.pop(0)
        subs = command.list_commands(context)
        if re.fullmatch(r"[a-z][a-z0-9-]*", word) and word not in subs:
            return f"no sub-command '{word}'"
        command = command.get_command(context, word if word in subs else getattr(command, "default", "")) or command
    unknown = unknown_options(command, rest)
    return f"no option {', '.join(sorted(unknown))}" if unknown else ""


def test_a_command_in_prose_that_is_gone_is_told() -> None:
    page = "Use `python cli.py jugde --data x`, `compare generatrs A`, `judges\nagreement RUN --vots f` or `judge --dta D`; `compare RUN`, `mood x`."
    faults = [faults_of_a_command_in_prose(*each) for each in commands_in_prose(page)]
    assert faults == ["no such command", "no sub-command 'generatrs'", "no option --vots", "no option --dta", ""]


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_command_in_prose_exists(page: Path) -> None:
    faults = [
        (*each, fault) for each in commands_in_prose(text(page)) if (fault := faults_of_a_command_in_prose(*each))
    ]
    assert faults == []


def test_every_command_of_the_shell_blocks_exists() -> None:
    from titjudge.cli.commands import names

    used = re.findall(r"python cli\.py ([a-z-]+)((?: [^`#\n]*)?)", "\n".join(blocks("sh")))
    assert used
    for name, rest in used:
        assert name in names()
        assert unknown_options(command_in(name, rest), rest) == set(), (name, rest)


@pytest.mark.slow
def test_the_blocks_of_output_are_what_the_example_prints(main_job: Path) -> None:
    shown = ("No generator is shown", "Agreement with construction", "Leaderboard")
    found = [block for block in blocks("text", README, page_of("first-run")) if block.startswith(shown)]
    assert len(found) == 4
    assert unprinted(found, (main_job / "printed.txt").read_text(encoding="utf-8")) == []


@pytest.mark.slow
def test_the_readme_shows_what_two_metrics_print(tmp_path: Path) -> None:
    found = [block for block in blocks("text", README) if block.startswith("tit-aligned")]
    assert len(found) == 1
    assert unprinted(found, cli(tmp_path, "judge", "--metric", "tit", "--metric", "tit-aligned", COLUMNS="80")) == []


def unprinted(shown: list[str], printed: str) -> list[str]:
    """List the lines of blocks that a command did not print."""
    lines = {line.strip() for line in printed.splitlines()}
    return [line for block in shown for line in block.splitlines() if line.strip() and line.strip() not in lines]
