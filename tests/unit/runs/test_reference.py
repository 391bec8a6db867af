"""Published tables, and a run among their rows: a rank only where the two can be compared."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import titjudge.suites
from tests.commands import cli
from tests.report_runs import write_run
from titjudge.core.errors import ConfigError, UserError
from titjudge.core.types import InvalidItem, Item, Score, Table
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.study.reference import standings
from titjudge.stats.generators.published_tables import published, published_names

CHINESE = "一张木桌上放着一个蓝色的碗"


@pytest.mark.parametrize("name", published_names())
def test_every_table_is_whole_and_says_where_it_comes_from(name: str) -> None:
    found = published(name)
    assert found.cells
    assert len({row for row, _ in found.cells}) == len(found.cells)
    assert {len(values) for _, values in found.cells} == {len(found.columns)}
    assert all((found.title, found.judge, found.source, found.date, found.scale))
    for each in found.counterparts:
        assert any(isinstance(value, float) for value in found.column(each.column).values())
    assert found.source in " ".join(found.table().notes)


def test_an_unknown_name_is_an_error_that_helps() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'tiif-bench'"):
        published("tiif-bensh")


def board(
    folder: Path, *, judge: str = "local/Qwen-Image-Bench", prompts: int = 1000, prompt: str = CHINESE,
    unscored: int = 0, suite: str = "qwen-image-bench", **manifest: Any,
) -> RunFolder:  # fmt: skip
    """A run of one generator, `mine`, whose overall is 60."""
    items = [Item(f"mine/{k}", prompt, None, "mine", str(k)) for k in range(prompts)]
    scores = [replace(Score.of(60.0), item_id=item.id, metric="checklist") for item in items[unscored:]]
    table = {
        "id": "qwen_image_bench",
        "title": "Qwen-Image-Bench",
        "columns": ["generator", "Overall"],
        "rows": [["mine", 60.0]],
        "notes": [],
    }
    record = {
        "protocol": "official", "suite": {"name": suite, "version": "1"},
        "roles": {"judge": {"model": judge, "answered": [], "asked": 1}},
        "metrics": {"checklist": {"version": "1", "range": [0, 100]}},
    }  # fmt: skip
    return write_run(folder, items, scores, results={"tables": [table]}, **{**record, **manifest})


def test_the_tables_that_references_name_are_those_of_suites() -> None:
    folder = Path(titjudge.suites.__file__).parent
    texts = "\n".join(
        path.read_text(encoding="utf-8") for path in folder.rglob("*.*") if path.suffix in (".py", ".yaml")
    )
    named = {counterpart.table for name in published_names() for counterpart in published(name).counterparts} - {""}
    made = {f"oneig_{mode}_{part}" for mode in ("EN", "ZH") for part in ("class", "text")}
    assert len(named) > 10
    assert [name for name in named - made if f'"{name}"' not in texts and f"id: {name}" not in texts] == []


def mine(table: Table) -> tuple[Any, ...]:
    (row,) = [row for row in table.rows if row[3] == "this run"]
    return row


def test_a_run_as_the_paper_did_it_takes_its_rank(tmp_path: Path) -> None:
    (table,) = standings(board(tmp_path / "run"), published("qwen-image-bench"))
    assert mine(table) == (2, "mine", 60.0, "this run", "")
    assert [row[1] for row in table.rows[:3]] == ["GPT Image 2", "mine", "Nano Banana 2.0"]
    assert len(table.rows) == 19


@pytest.mark.parametrize(
    ("what", "changed"),
    [
        ("judge", {"judge": "openai/gpt-4o"}),
        ("judge", {"roles": {"judge": {"model": "local/Qwen-Image-Bench"}, "judge 2": {"model": "openai/gpt-4o"}}}),
        ("judge", {"mixed": ["the judge: gpt-5 answered for gpt-4o"]}),
        ("protocol", {"protocol": "strict"}),
        ("language", {"prompt": "a blue bowl on a wooden table"}),
        ("subset", {"prompts": 999}),
        ("suite", {"suite": "folder"}),
        ("count", {"unscored": 60}),
    ],
)
def test_what_makes_the_comparison_void_takes_the_rank_away(tmp_path: Path, what: str, changed: Any) -> None:
    (table,) = standings(board(tmp_path / "run", **changed), published("qwen-image-bench"))
    rank, *_, differs = mine(table)
    assert (rank, differs) == (None, what)
    assert any(note.startswith(f"{what}: ") and note.endswith("(no rank)") for note in table.notes)


def test_a_few_missing_scores_are_flagged_and_leave_the_rank(tmp_path: Path) -> None:
    (table,) = standings(board(tmp_path / "run", unscored=3), published("qwen-image-bench"))
    assert mine(table) == (2, "mine", 60.0, "this run", "count")
    assert "count: mine: 997 of 1,000 images have a score" in table.notes


def tiif_run(folder: Path, model: str, prompts: int) -> RunFolder:
    """A run of TIIF-Bench of one generator, `m`, whose overall is 70 on short prompts and 60 on long ones."""
    items = [
        Item(f"m/{k}/{length}", "a cat", None, "m", f"{k}/{length}", {"length": length})
        for k in range(prompts)
        for length in ("short", "long")
    ]
    scores = [replace(Score.of(0.5), item_id=item.id, metric="yes-no") for item in items]
    table = {
        "id": "tiif", "title": "Accuracy", "columns": ["generator", "length", "overall"],
        "rows": [["m", "short", 70.0], ["m", "long", 60.0]], "notes": [],
    }  # fmt: skip
    return write_run(
        folder, items, scores, results={"tables": [table]}, protocol="official",
        suite={"name": "tiif"}, roles={"judge": {"model": model}},
    )  # fmt: skip


@pytest.mark.parametrize(("model", "same"), [("openai/gpt-4o-2024-11-20", True), ("openai/gpt-4o-mini", False)])
def test_a_judge_of_a_similar_name_is_another_judge(tmp_path: Path, model: str, same: bool) -> None:
    short, long = standings(tiif_run(tmp_path / "run", model, 277), published("tiif-bench"))
    assert (mine(short)[0], mine(long)[0]) == ((8, 14) if same else (None, None))
    assert [mine(each)[2] for each in (short, long)] == [70.0, 60.0]
    assert "aggregation" in mine(short)[4]


@pytest.mark.parametrize("prompts", [277, 2538])
def test_a_run_is_ranked_among_the_rows_made_on_the_same_prompts(tmp_path: Path, prompts: int) -> None:
    run = tiif_run(tmp_path / "run", "local/Qwen2.5-VL-72B-Instruct", prompts)
    short, _ = standings(run, published("tiif-bench-qwen"))
    ranks = {row[1]: row[0] for row in short.rows}
    assert (ranks["SD XL"] is None, ranks["JanusPro"] is None) == (prompts == 277, prompts == 2538)
    assert ranks["FLUX.1 dev"] is None, "nobody knows on which prompts it was made"
    better = {"GPT-4o", "DALL-E 3", "MidJourney v6"} if prompts == 277 else set()
    assert mine(short)[0] == 1 + len(better)
    assert "subset" not in mine(short)[4]
    assert "rows" in mine(short)[4]
    assert any(f"published rows are not of this run's {prompts:,} prompts" in note for note in short.notes)


def test_a_run_of_other_prompts_than_any_row_has_no_rank(tmp_path: Path) -> None:
    short, _ = standings(tiif_run(tmp_path / "run", "openai/gpt-4o", 100), published("tiif-bench"))
    assert mine(short)[0] is None
    assert "subset: 100 prompts, not 277 or 2,538 (no rank)" in short.notes
    assert all(row[0] for row in short.rows if row[3] == "published")


@pytest.mark.parametrize("name", ["tiif-bench", "tiif-bench-qwen"])
def test_a_style_score_that_no_thirty_questions_give_is_of_the_full_set(name: str) -> None:
    found = published(name)
    scores = {row: [found.column(f"Style {length}")[row] for length in ("short", "long")] for row, _ in found.cells}

    def given_by(questions: int, score: float) -> bool:
        return abs(100 * round(score * questions / 100) / questions - score) < 0.0051

    full = {
        row for row, both in scores.items() if not all(given_by(30, score) or given_by(29, score) for score in both)
    }
    assert all(given_by(300, score) for row in full for score in scores[row])
    assert {row for row, count in found.prompts_of.items() if count == 2538} == full
    assert found.prompts == 277


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("lpg-bench", "Chance is at about .73 in this table"),
        ("tiif-bench-judges", "do not follow from the paper's own two boards"),
        ("qwen-image-bench-tiers", "57.02 is printed"),
        ("tiif-bench-qwen", "made on an unknown number of prompts: FLUX.1 dev"),
    ],
)
def test_what_one_should_know_of_a_number_is_shown_with_it(tmp_path: Path, name: str, words: str) -> None:
    assert words in " ".join(cli(tmp_path, "suites", "published", name).split())


def test_a_run_that_has_nothing_to_compare_says_what_it_takes(tmp_path: Path) -> None:
    run = board(tmp_path / "run")
    with pytest.raises(UserError, match="results of yes-no on tiif"):
        standings(run, published("tiif-bench"))
    with pytest.raises(UserError, match="cannot be compared with a run"):
        standings(run, published("lpg-bench-ranks"))


def test_another_variant_takes_the_rank_away_and_an_unread_row_does_not(tmp_path: Path) -> None:
    items = [Item(f"m/{k}", "a cat", None, "m", str(k)) for k in range(599)]
    scores = [replace(Score.of(1.0), item_id=item.id, metric="questions") for item in items]
    items.append(InvalidItem("prompts.csv:601", "the cell is not JSON", prompt_id="599"))
    table = {"id": "unigenbench", "columns": ["generator", "overall"], "rows": [["m", 88.0]], "notes": []}
    run = write_run(
        tmp_path / "run", items, scores, results={"tables": [table]}, protocol="official", suite={"name": "unigenbench"},
        roles={"judge": {"model": "gemini/gemini-2.5-pro"}}, identity={"suite_options": {"variant": "en_long"}},
    )  # fmt: skip
    (short,), (long,) = (standings(run, published(f"unigenbench-en{length}")) for length in ("", "-long"))
    assert (mine(short)[0], mine(short)[4]) == (None, "suite, count")
    assert "suite: variant=en_long, not None (no rank)" in short.notes
    assert (mine(long)[0], mine(long)[4]) == (12, "count")
    assert "count: 1 of 600 prompts could not be judged" in long.notes


@pytest.mark.parametrize("name", [name for name in published_names() if name.startswith("unigenbench-")])
def test_overall_is_the_mean_of_its_ten_dimensions(name: str) -> None:
    for row, (overall, *dimensions) in published(name).cells:
        assert len(dimensions) == 10
        assert sum(dimensions) / 10 == pytest.approx(overall, abs=0.01), row


@pytest.mark.parametrize("name", [name for name in published_names() if name.startswith("t2i-corebench")])
def test_means_are_those_of_the_dimensions(name: str) -> None:
    found = published(name)
    if found.of != "generator":
        return
    for row, (overall, composition, *rest) in found.cells:
        shown, reasoning, asked = rest[:4], rest[4], rest[5:]
        assert sum(asked) / 8 == pytest.approx(reasoning, abs=0.11), row
        if overall is not None:
            assert sum(shown) / 4 == pytest.approx(composition, abs=0.11), row
            assert (sum(shown) + sum(asked)) / 12 == pytest.approx(overall, abs=0.11), row


def test_the_report_has_the_table(tmp_path: Path) -> None:
    board(tmp_path / "run", judge="openai/gpt-4o", prompts=3)
    said = cli(tmp_path, "report", "run", "--reference", "qwen-image-bench")
    assert "This run among published rows" in said
    assert "This run among published rows" in (tmp_path / "run" / "report.html").read_text()
    assert "This run among published rows" not in (tmp_path / "run" / "results.json").read_text()
    assert "did you mean" in cli(tmp_path, "report", "run", "--reference", "qwen-image-bensh", code=2).lower()
    assert "arXiv 2605.28091, Table 2" in cli(tmp_path, "suites", "published", "qwen-image-bench")
    assert "lpg-bench-ranks" in cli(tmp_path, "suites", "published")


def corebench(folder: Path, skipped: int, **manifest: Any) -> RunFolder:
    """A run of T2I-CoReBench by its Gemini judge: 1,080 images with ten questions each, `skipped` of them unanswered."""
    items = [Item(f"m/{k}", "a cat", None, "m", str(k)) for k in range(1080)]
    scores = []
    for n, item in enumerate(items):
        answers = [None if 10 * n + k < skipped else 1.0 for k in range(9)] + [1.0]
        rows = [{"question": "Is it?", "category": "", "answer": answer, "counted": answer} for answer in answers]
        scores.append(replace(Score.of(1.0, questions=rows), item_id=item.id, metric="questions"))
    table = {"id": "t2i_corebench", "columns": ["generator", "overall"], "rows": [["m", 100.0]], "notes": []}
    record = {
        "protocol": "official", "suite": {"name": "t2i-corebench"}, "roles": {"judge": {"model": "gemini/gemini-2.5-flash"}},
    }  # fmt: skip
    return write_run(folder, items, scores, results={"tables": [table]}, **{**record, **manifest})


def test_a_run_that_lost_many_of_its_questions_takes_no_rank(tmp_path: Path) -> None:
    reference = published("t2i-corebench")
    few, many = (standings(corebench(tmp_path / str(n), n), reference)[0] for n in (300, 3000))
    assert (mine(few)[0], mine(few)[4]) == (1, "questions")
    assert "questions: m: 270 of 10,800 questions about its scored images have no answer" in few.notes
    assert (mine(many)[0], mine(many)[4]) == (None, "questions")
    assert "questions: m: 2,700 of 10,800 questions about its scored images have no answer (no rank)" in many.notes


def test_boards_of_qwen_judges_compare_only_with_their_own_branch(tmp_path: Path) -> None:
    qwen = {"roles": {"judge": {"model": "openai/Qwen/Qwen3-VL-30B-A3B-Thinking"}}}
    reference = published("t2i-corebench-qwen3-vl-30b")
    (plain,) = standings(corebench(tmp_path / "a", 0, **qwen), reference)
    assert mine(plain)[0] is None
    assert "suite: variant=None, not qwen (no rank)" in plain.notes
    (same,) = standings(
        corebench(tmp_path / "b", 0, identity={"suite_options": {"variant": "qwen"}}, **qwen), reference
    )
    assert (mine(same)[0], mine(same)[4]) == (1, "")


def test_another_template_takes_the_rank_away(tmp_path: Path) -> None:
    options = {"suite_options": {"template": "mine/question"}}
    (table,) = standings(corebench(tmp_path / "run", 0, identity=options), published("t2i-corebench"))
    assert (mine(table)[0], mine(table)[4]) == (None, "template")


def test_a_column_of_all_rows_is_made_of_all_items(tmp_path: Path) -> None:
    items = [Item(f"m/{k}", "a cat", None, "m", str(k), {"words": 40 + k}) for k in range(16)]
    scores = [replace(Score.of(0.5), item_id=item.id, metric="graph-alignment") for item in items]
    id = "longt2ibench_correlation"
    table = {"id": id, "columns": ["words", "SRCC", "PLCC"], "rows": [["overall", 0.5, 0.4]], "notes": []}
    run = write_run(tmp_path / "run", items, scores, results={"tables": [table]}, suite={"name": "longt2ibench"})
    srcc, _ = standings(run, published("longt2ibench"))
    assert "subset: 16 prompts, and how many theirs are is not printed (no rank)" in srcc.notes


@pytest.mark.parametrize(("protocol", "flagged"), [("strict", True), ("official", False)])
def test_a_judge_that_was_handed_the_graph_does_not_compare_with_those_that_found_it(
    tmp_path: Path, protocol: str, flagged: bool
) -> None:
    items = [Item(f"m/{k}", "a cat", None, "m", str(k), {"words": 40}) for k in range(4)]
    scores = [replace(Score.of(0.5), item_id=item.id, metric="graph-alignment") for item in items]
    id = "longt2ibench_recall"
    table = {"id": id, "columns": ["elements", "overall"], "rows": [["all", 90.0]], "notes": []}
    run = write_run(
        tmp_path / "run", items, scores, results={"tables": [table]}, suite={"name": "longt2ibench"}, protocol=protocol
    )
    (table_of_run,) = standings(run, published("longt2ibench-interpretation"))
    assert ("protocol: strict, not official (no rank)" in table_of_run.notes) is flagged


@pytest.mark.parametrize(("prompts", "compared", "ranked"), [(1000, 200, True), (9, 3, False), (200, 200, True)])
def test_the_prompts_behind_an_agreement_are_those_that_people_compared(
    tmp_path: Path, prompts: int, compared: int, ranked: bool
) -> None:
    items = [Item(f"{g}/{k}", "a blue bowl", None, g, str(k)) for k in range(prompts) for g in "ab"]
    pairs = [{"prompt_id": str(k), "a": f"a/{k}", "b": f"b/{k}", "preference": "a"} for k in range(compared)]
    scores = [replace(Score.of(0.5), item_id=item.id, metric="tit") for item in items]
    results = {"metrics": {"tit": {"accuracy": 0.6}}, "pairs": pairs}
    run = write_run(tmp_path / "run", items, scores, results=results, suite={"name": "lpg-bench", "version": "1"})
    (table,) = standings(run, published("lpg-bench"))
    rank, *_, differs = mine(table)
    assert (rank is not None, "subset" in differs) == (ranked, not ranked)
    assert ranked or any(f"{compared} prompts" in note for note in table.notes)
