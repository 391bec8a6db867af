"""docs/trust_table.py counts what it says it counts."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
from pages import page_text

from titjudge.core.types import Item, Pair, Score
from titjudge.suites.known_answer.suite import KnownAnswer

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def module() -> Any:
    spec = importlib.util.spec_from_file_location("trust_table", ROOT / "docs" / "trust_table.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules["trust_table"] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def graph_scores(items: dict[str, Item], always: bool | None) -> list[Score]:
    """Verdicts on all elements: the truth, or always the same."""
    scores = []
    for item in items.values():
        graph, truth = item.meta["graph"], item.meta["graph_truth"]
        alignment = {
            category: [
                [[element] if isinstance(element, str) else element, right if always is None else always]
                for element, right in zip(graph[key], truth[category], strict=True)
            ]
            for category, key in (("entity", "entities"), ("attribute", "attributes"), ("relation", "relations"))
        }
        scores.append(Score(item.id, "graph-alignment", 1.0, parts={"alignment": alignment}, prompt_id=item.prompt_id))
    return scores


def test_wrong_elements_are_counted_by_kind(module: Any, example: Path) -> None:
    items = {item.id: item for item in KnownAnswer().load(example) if isinstance(item, Item)}
    honest = module.elements(items, graph_scores(items, None))
    assert set(honest) == set(module.KINDS)
    for kind, counts in module.elements(items, graph_scores(items, True)).items():
        assert counts.startswith("0 of ")
        total = counts.removeprefix("0 of ")
        assert honest[kind] == f"{total} of {total}"
    assert module.verdicts(items, graph_scores(items, None)) == "740 of 740"


def test_pairs_and_levels(module: Any, example: Path) -> None:
    items = {item.id: item for item in KnownAnswer().load(example) if isinstance(item, Item)}
    known: list[Pair] = KnownAnswer().pairs(example)
    truth = {name: item.meta["alignment"] for name, item in items.items()}
    assert module.pairs(truth, known) == "100% [54%, 100%]"
    assert module.pairs(dict.fromkeys(truth, 0.5), known).startswith("50%")
    assert module.pairs({}, known) == "-"
    assert [module.below(items, truth, level) for level in module.LEVELS] == ["6", "6", "6"]
    assert module.below(items, {}, 1) == "-"


def test_the_page_has_the_table_and_what_is_missing_is_named(module: Any) -> None:
    (part,) = module.PART.finditer(page_text("judges"))
    assert part[0].count("\n| ") == 2 + len(module.ROWS)
    assert "Not recorded: agent." in module.table([], ["agent"])


def test_the_study_has_the_same_figures(module: Any) -> None:
    def shown(page: str) -> str:
        found = module.PART.search(page_text(page))
        return found[0].partition("\n")[2]

    rows = [
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in shown("judges").splitlines()
        if line.startswith("|")
    ]
    assert rows[0] == module.COLUMNS
    assert module.short(rows[2:]) in shown("study")
