"""Names and what they lead to: every line of the tables can be imported, and is what its name says."""

import importlib
from typing import Any

import pytest

from titjudge.core import registry
from titjudge.core.errors import ConfigError
from titjudge.data.learned_metrics import COMMAND, NATIVE, TABLE, rows


def test_the_learned_metrics_are_the_rows_of_the_table_that_run_here() -> None:
    learned = [name for name, code in registry.TABLES["metrics"].items() if "learned_metric(" in code]
    assert learned == [name for name, row in TABLE.items() if row.status in (NATIVE, COMMAND)]
    assert len(learned) > 20


def test_a_row_of_another_package_with_a_name_of_the_table_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.announced("learned_metrics"), "pickscore", "other.rows:PICKSCORE")
    assert [row for row in rows() if row.key == "pickscore"] == [TABLE["pickscore"]]
    assert registry.overridden("learned_metrics") == {"pickscore": "other.rows:PICKSCORE"}


NAMES = {
    "metrics": """
checklist dsg edit-diff editscore graph-alignment imgedit imgedit-uge kris lmm-critique lmm-score
lmm-score-expected pairwise pairwise-text preservation preservation-l1 preservation-ssim q-eval questions rise
self-eval soft-tifa text-reading text-rendering text-rendering-vlm tifa tit tit-agent tit-agent-pairs tit-aligned tit-aligned-llm
tit-llm unifiedreward unifiedreward-2 viescore viescore-edit vqascore yes-no yes-no-detector
""",
    "suites": """
dpg-bench folder gedit-bench geneval2 imgedit-bench imgedit-uge known-answer kris-bench longt2ibench
longtext-bench lpg-bench not-geneval oneig-bench prompts qwen-image-bench rise-bench starter t2i-corebench
tiif unigenbench wegenbench wise wise-verified
""",
    "aggregations": """
geneval longt2ibench qwen-image-bench tiif tiif-text
""",
}


@pytest.mark.parametrize("kind", NAMES)
def test_the_files_of_a_folder_declare_exactly_these_names(kind: str) -> None:
    own = {name for name, code in registry.TABLES[kind].items() if "learned_metric(" not in code}
    assert own == {*NAMES[kind].split()}


@pytest.mark.parametrize("kind", ["metrics", "suites"])
def test_what_a_name_leads_to_has_that_name(kind: str) -> None:
    wrong = {name: found for name in registry.TABLES[kind] if (found := registry.load(kind, name).name) != name}
    assert wrong == {}


@pytest.mark.parametrize("kind", registry.TABLES)
def test_every_line_of_a_table_names_what_is_there(kind: str) -> None:
    def there(code: str) -> Any:
        module, _, attribute = code.partition("(")[0].partition(":")
        return getattr(importlib.import_module(module), attribute, None)

    assert [code for code in registry.TABLES[kind].values() if there(code) is None] == []


@pytest.mark.parametrize(("kind", "code"), [
    ("metrics", "json:dumps"), ("metrics", "json:__name__"), ("metrics", "titjudge.suites.folder:Folder"), ("suites", "json:dumps"),
])  # fmt: skip
def test_what_another_package_announces_must_be_what_it_is_announced_as(
    monkeypatch: pytest.MonkeyPatch, kind: str, code: str
) -> None:
    monkeypatch.setitem(registry.announced(kind), "strange", code)
    registry.names.cache_clear() if hasattr(registry.names, "cache_clear") else None
    with pytest.raises(ConfigError, match="strange"):
        registry.load(kind, "strange")


def test_the_deciding_metric_is_found_in_the_names_of_several_runs() -> None:
    assert registry.first_metric(["tit (a)", "tit-llm (b)", "tit-llm (a)"]) == "tit-llm (b)"
    assert registry.first_metric(["tit-llm [x/y]", "tit", "tit-llm"]) == "tit-llm"
