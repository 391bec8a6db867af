"""What the report says, before it is drawn."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from report_runs import DESCRIPTION, PROMPT, key_of, picture, reply, score, sha256, small_results, small_run, write_run

from titjudge.core.errors import DataError
from titjudge.core.files import write_json
from titjudge.core.tables import Cell, Table, text_of
from titjudge.core.types import InvalidItem, Item, Status
from titjudge.report.model import as_json, load
from titjudge.report.overview import overview
from titjudge.report.people import judged_pairs
from titjudge.report.provenance import failures, provenance
from titjudge.report.sections import Fact, Headline, Listing, Opening, Section
from titjudge.report.transcripts import Texts
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.stats.equality import same
from titjudge.stats.people.agreement_cuts import by_length, by_rank_gap, by_score_gap, human_ranks, score_gaps


def _text(made: dict[str, Any], number: int) -> str:
    entry = made["texts"][number]
    return entry if isinstance(entry, str) else "".join(_text(made, part) for part in entry)


def _table(section: Section, title: str) -> Table:
    return next(table for table in section.tables if table.title == title)


def _words(row: Sequence[Any]) -> list[str]:
    """The texts of a row, without intervals and notes."""
    return [cell.text if isinstance(cell, Cell) else text_of(cell) for cell in row]


def _headline(section: Section) -> Headline:
    return next(block for block in section.blocks if isinstance(block, Headline))


def _opening(section: Section) -> Opening:
    return next(block for block in section.blocks if isinstance(block, Opening))


def _facts(section: Section) -> dict[str, Fact]:
    return {fact.label: fact for fact in _headline(section).facts}


def test_texts_are_kept_once_and_come_back_whole() -> None:
    texts = Texts()
    long = "a prompt of some length, longer than what is worth splitting"
    first, again = texts.add(long), texts.add(long)
    inside = texts.compose(f"before {long} after {long}", [long, "short"])
    assert first == again
    assert texts.get(inside) == f"before {long} after {long}"
    assert sum(isinstance(entry, str) and long in entry for entry in texts.table) == 1
    assert texts.compose(f"before {long} after {long}", [long]) == inside
    assert texts.get(texts.compose("", [long])) == ""


def test_lone_surrogates_become_question_marks() -> None:
    texts = Texts()
    assert texts.get(texts.add("bad \udcff name")) == "bad ? name"


def test_a_prompt_is_in_the_report_once(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    made = as_json(load([run]), {})
    whole = [entry for entry in made["texts"] if isinstance(entry, str)]
    assert sum(f"{PROMPT} Number 1." in entry for entry in whole) == 1
    assert sum(DESCRIPTION in entry for entry in whole) == 1


def test_receipts_lead_to_the_rendered_prompt(tmp_path: Path) -> None:
    made = as_json(load([small_run(tmp_path / "run")]), {})
    judged = made["items"][0]["s"][1]
    answer = made["replies"][judged["k"][0]]
    assert answer["k"] == key_of("r0")
    assert _text(made, answer["text"]) == '{"score": 80}'
    role, text, image = answer["msg"][0]
    assert (role, image) == ("user", sha256(tmp_path / "run" / "img" / "a1.png"))
    assert _text(made, text) == f"Compare with:\n{PROMPT} Number 1.\nThat is all."
    embedded = made["replies"][made["items"][0]["s"][0]["k"][0]]
    assert _text(made, embedded["embedded"]) == DESCRIPTION


def test_the_page_ties_what_the_tables_tie(tmp_path: Path) -> None:
    """Rounding to nine digits would part 1.00000000049 from 1.00000000051, and join 1.0000000001 with 1.000000002 less 1e-9."""
    values = [
        1.00000000049,
        1.00000000051,
        0.3333333331,
        0.3333333335,
        1e-15,
        0.0,
        70.47619047619047,
        70.47619047619048,
    ]
    items = [Item(f"{k}.png", PROMPT, None) for k in range(len(values))]
    run = write_run(tmp_path, items, [score(item, "tit", value) for item, value in zip(items, values, strict=True)])
    shown = [item["s"][0]["v"] for item in as_json(load([run]), {})["items"]]
    couples = [(shown[k], shown[k + 1]) for k in range(0, len(shown), 2)]
    assert [a == b for a, b in couples] == [True, False, True, True]
    assert [a == b for a, b in couples] == [same(values[k], values[k + 1]) for k in range(0, len(values), 2)]


def test_an_answer_that_is_not_on_file_is_said_to_be_lost(tmp_path: Path) -> None:
    item = Item("a.png", PROMPT, None)
    run = write_run(tmp_path, [item], [score(item, "tit", 0.5, replies=["nowhere"])])
    assert as_json(load([run]), {})["replies"] == [{"k": key_of("nowhere"), "lost": 1}]


def test_the_last_good_answer_of_a_key_counts(tmp_path: Path) -> None:
    item = Item("a.png", PROMPT, None)
    replies = [reply("k", "cut", status="truncated"), reply("k", "whole")]
    run = write_run(tmp_path, [item], [score(item, "tit", 0.5, replies=["k"])], replies=replies)
    made = as_json(load([run]), {})
    assert _text(made, made["replies"][0]["text"]) == "whole"


def test_a_failure_has_no_number(tmp_path: Path) -> None:
    made = as_json(load([small_run(tmp_path / "run")]), {})
    refused = made["items"][3]["s"][1]
    assert refused["v"] is None
    assert refused["st"] == "refused"


def test_pairs_that_name_unknown_images_are_left_out(tmp_path: Path) -> None:
    assert load([small_run(tmp_path / "run")]).pairs == [(0, 1, -1), (2, 3, 1)]


def test_scores_without_their_item_are_shown_all_the_same(tmp_path: Path) -> None:
    item = Item("a.png", PROMPT, None, "model_a")
    report = load([write_run(tmp_path, [], [score(item, "tit", 0.5)])])
    assert [(entry.id, entry.generator) for entry in report.entries] == [("a.png", "model_a")]


def test_an_empty_run_is_a_report(tmp_path: Path) -> None:
    first = _opening(overview(load([write_run(tmp_path, [], [], metrics={})])))
    assert first.headline == "No image got a score."


def test_a_folder_that_is_no_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a run folder"):
        load([RunFolder(tmp_path)])


# -- sections ---------------------------------------------------------------------------------------------------------------


def test_headline_says_agreement_coverage_and_money(tmp_path: Path) -> None:
    section = overview(load([small_run(tmp_path / "run", status="incomplete: budget")]))
    assert _headline(section).status == "incomplete: budget"
    first = _opening(section)
    assert first.headline == "So far: No clear winner between model_a and model_b."
    assert first.numbers.startswith("They share 1 prompt with a score")
    assert (
        first.sentences[-1] == "tit (0.0%) and tit-llm (0.0%) cannot be distinguished on the 1 pair that both scored."
    )
    facts = {label: (fact.value, fact.note) for label, fact in _facts(section).items()}
    assert facts["agreement with people, tit"] == ("75.0%", "[50.0, 100.0], 95% interval")
    assert facts["agreement with people, tit-llm"] == ("50.0%", "no interval: too few prompts")
    assert facts["coverage"] == ("60.0%", "3 of 5 images, tit-llm")
    assert facts["spent"] == ("$0.2500", "list price $0.5000")


def test_what_is_undefined_is_a_dash(tmp_path: Path) -> None:
    table = _table(overview(load([small_run(tmp_path / "run")])), "Agreement with people")
    rows = {_words(row)[0]: dict(zip(table.columns, _words(row), strict=True)) for row in table.rows}
    assert rows["tit-llm"]["SRCC"] == "–"
    assert rows["tit"]["SRCC"] == "0.500"
    assert "KRCC" not in table.columns  # undefined for every metric


def test_what_chance_reaches_stands_below_an_ndcg(tmp_path: Path) -> None:
    results = small_results()
    results["metrics"]["tit"] |= {"ndcg_chance": 0.8, "ndcg_paper_fit": 0.85, "ndcg_paper_fit_chance": 0.7}
    run = write_run(tmp_path / "run", [Item("a1.png", PROMPT, None)], [], results=results)
    table = _table(overview(load([run])), "Agreement with people")
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert (row["nDCG"].text, row["nDCG"].aside) == ("0.900", "chance 0.800")
    assert (row["paper fit"].text, row["paper fit"].aside) == ("0.850", "chance 0.700")
    assert not [name for name in row if name.endswith(" chance")]


def test_leaderboard_has_intervals_and_links(tmp_path: Path) -> None:
    table = _table(overview(load([small_run(tmp_path / "run")])), "Leaderboard")
    first, second = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    assert first["tit: mean"].aside == "[0.700, 0.900]"
    assert first["generator"].link == "#images?g=model_a"
    assert first["tit: mean"].link == "#images?g=model_a&m=0"
    assert second["people: mean rank"] is None


def test_the_notes_of_the_leaderboard_say_how_images_of_a_prompt_were_joined_and_the_rank_correlation(
    tmp_path: Path,
) -> None:
    results = small_results() | {"per_prompt": "best", "leaderboard_srcc": {"tit": 1.0}}
    report = load([write_run(tmp_path, [Item("a1.png", PROMPT, None)], [], results=results)])
    table = _table(overview(report), "Leaderboard")
    assert any("the best image of each prompt" in note for note in table.notes)
    assert "Rank correlation (SRCC) of the generators with the order of people: tit 1.000." in table.notes
    assert "SRCC with people" not in [str(row[0]) for row in table.rows]


def test_tables_of_a_suite_are_shown_but_not_those_drawn_here(tmp_path: Path) -> None:
    results = small_results()
    results["tables"] += [
        {"id": "leaderboard", "title": "Leaderboard", "columns": [], "rows": []},
        {"id": "agreement", "title": "Agreement with people", "columns": [], "rows": []},
    ]
    item = Item("a1.png", PROMPT, None)
    section = overview(load([write_run(tmp_path, [item], [], results=results)]))
    assert [table.title for table in section.tables] == ["Agreement with people", "Leaderboard", "By kind"]


def test_failures_by_generator_and_reason(tmp_path: Path) -> None:
    failed, bad, cost = failures(load([small_run(tmp_path / "run")])).tables
    assert _words(failed.rows[0]) == ["model_b", "tit-llm", "refused", "the model declined to answer", "1"]
    assert failed.rows[0][4].note == "50.0% of 2 judged"
    assert failed.rows[0][0].link == "#images?g=model_b&s=refused"
    assert _words(bad.rows[0]) == ["../out.png", "model_a", "the image path leads outside the data folder"]
    assert _words(cost.rows[-1])[-1] == "$0.2500"


def test_provenance_names_models_prompts_and_deviations(tmp_path: Path) -> None:
    suite = {"name": "folder", "version": "1", "deviations": ["reads 512 tokens"]}
    report = load([small_run(tmp_path / "run", suite=suite)])
    section = provenance(report)
    (listing,) = (block for block in section.blocks if isinstance(block, Listing))
    assert listing.lines == ("reads 512 tokens",)
    answered = _table(section, "Who answered").rows[0]
    assert _words(answered) == ["judge", "fake/judge", "judge-1", "loopback", "4"]
    assert _words(_table(section, "Prompts").rows[0]) == ["tit/describe", "a" * 64]
    assert "Suite folder, version 1, strict protocol" in listing.note


def test_agreement_from_elsewhere_replaces_the_first_runs(tmp_path: Path) -> None:
    report = load([small_run(tmp_path / "run")], {"metrics": {"tit": {"accuracy": 0.25}}})
    assert any("25.0%" in said for said in _opening(overview(report)).sentences)


def test_a_run_without_results_is_computed_from_its_scores(tmp_path: Path) -> None:
    item = Item("a.png", PROMPT, None, "model_a", "p")
    scores = [score(item, "tit", 0.5), score(item, "tit-llm", None, Status.FAILED, reason="x")]
    section = overview(load([write_run(tmp_path, [item], scores)]))
    assert [table.title for table in section.tables] == ["Metrics", "Leaderboard"]
    assert {label: fact.value for label, fact in _facts(section).items()} == {"coverage": "0.0%", "spent": "–"}


# -- side by side ----------------------------------------------------------------------------------------------------------


def test_two_runs_are_compared_on_the_same_pairs_and_images(tmp_path: Path) -> None:
    runs = [
        small_run(tmp_path / "one"),
        small_run(
            tmp_path / "two",
            shift=0.05,
            identity={"suite": "folder", "protocol": "strict", "judge": {"model": "fake/other"}},
        ),
    ]
    report = load(runs)
    assert len(report.entries) == 5 * 1  # the same items, not twice
    assert [judge.label for judge in report.judges] == ["tit · one", "tit-llm · one", "tit · two", "tit-llm · two"]
    section = overview(report)
    compared = _table(section, "Runs compared")
    row = next(row for row in compared.rows if row[2] == "mean score of tit")
    assert row[:2] == ("two", "one")
    assert row[6].text == "+0.0500"
    changed = _table(section, "Changes between the runs")
    assert ("judge.model", "fake/judge", "fake/other") in changed.rows
    assert not [row for row in changed.rows if any("[" in str(cell) for cell in row)]  # lists are written as words


def test_other_weights_and_recordings_under_one_name_are_a_change(tmp_path: Path) -> None:
    runs = [small_run(tmp_path / name) for name in ("one", "two")]
    for run, weights in zip(runs, ("local:a", "local:b"), strict=True):
        pinned = {"pins": {"judge": weights}, "recordings": {"answers.jsonl": weights[-1] * 64}}
        run.write_manifest(run.manifest().with_(**pinned))
    changed = list(_table(overview(load(runs)), "Changes between the runs").rows)
    assert changed == [
        ("what answered as judge", "local:a", "local:b"),
        ("recording answers.jsonl", "a" * 64, "b" * 64),
    ]


def test_the_same_run_twice_changed_nothing(tmp_path: Path) -> None:
    run = small_run(tmp_path / "one")
    report = load([run, run])
    assert [loaded.name for loaded in report.runs] == ["one", "one (2)"]
    changed = _table(overview(report), "Changes between the runs")
    assert changed.rows == ()


# -- against people --------------------------------------------------------------------------------------------------------


def test_verdicts_turn_metrics_where_less_is_better(tmp_path: Path) -> None:
    less = {"tit": {"range": [0, 1], "higher_is_better": False}}
    report = load([small_run(tmp_path / "run", metrics=less)])
    gaps = dict(score_gaps(judged_pairs(report), 0))
    assert gaps[0] == pytest.approx(0.1)  # people prefer b, whose number is lower, so better
    assert gaps[1] == pytest.approx(-0.1)


def test_a_run_whose_manifest_does_not_say_which_way_is_better_is_read_by_its_results(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    stored = json.loads((run.path / "results.json").read_bytes())
    stored["metrics"]["tit"]["higher_is_better"] = False
    write_json(run.path / "results.json", stored)
    report = load([run])
    assert [judge.scale.higher for judge in report.judges] == [False, True]
    assert dict(score_gaps(judged_pairs(report), 0))[0] == pytest.approx(0.1)


def test_ranks_of_people_share_places() -> None:
    from titjudge.report.model import ImageEntry, Report

    entries = [ImageEntry(str(number), "", "p", "") for number in range(3)]
    report = Report([], [], entries, [(0, 1, 1), (0, 2, 1), (1, 2, 0)])
    assert human_ranks(judged_pairs(report)) == {0: 1.0, 1: 2.5, 2: 2.5}


def test_accuracy_cut_by_length_and_gap_covers_every_pair(tmp_path: Path) -> None:
    items, pairs, scores = [], [], []
    for group in range(8):
        for rank in range(4):
            item = Item(f"{group}-{rank}", " ".join(["word"] * (10 + group)), None, f"m{rank}", f"p{group}")
            items.append(item)
            scores.append(score(item, "tit", 0.9 - 0.2 * rank if group else 0.2 * rank))
        pairs += [
            {"prompt_id": f"p{group}", "a": f"{group}-{a}", "b": f"{group}-{b}", "preference": "a"}
            for a in range(4)
            for b in range(a + 1, 4)
        ]
    report = load([write_run(tmp_path, items, scores, results={"pairs": pairs})])
    judged = judged_pairs(report)
    words = [len(report.entries[a].prompt.split()) for a, _, _ in report.pairs]
    for cut in (by_length(judged, words), by_rank_gap(judged), by_score_gap(judged)):
        assert sum(one.pairs for one in cut[0]) == 48
        assert sum(one.pairs * (one.value or 0) for one in cut[0]) == pytest.approx(42)
    assert [one.label for one in by_rank_gap(judged)[0]] == ["1", "2", "3"]
    assert by_length(judged, words)[0][0].value == pytest.approx(
        0.5
    )  # the first bin holds the group that is upside down


def test_pictures_are_shared_between_runs(tmp_path: Path) -> None:
    path = picture(tmp_path / "same.png")
    item = Item("same.png", PROMPT, path)
    runs = [write_run(tmp_path / name, [item], [score(item, "tit", 0.5)]) for name in ("one", "two")]
    report = load(runs)
    assert [[one.path for one in entry.judged] for entry in report.entries] == [[path, path]]


def test_images_are_counted_as_in_the_results(tmp_path: Path) -> None:
    bad = [InvalidItem("a.png (again)", "listed twice", "g", "p", counts=False), InvalidItem("prompts.jsonl:2", "no object", counts=False),
           InvalidItem("c.png", "the image file is empty", "g", "p")]  # fmt: skip
    item = Item("a.png", PROMPT, picture(tmp_path / "a.png"), "g", "p")
    report = load([write_run(tmp_path / "run", [item, *bad], [score(item, "tit", None, Status.REFUSED)])])
    assert _opening(overview(report)).notes[0].startswith("2 images (1 of them unusable), 1 prompt, 1 generator")
    (row,) = _table(failures(report), "Without a score").rows
    assert row[-1].note == "100.0% of 1 judged"


def test_an_image_that_fails_by_two_metrics_is_one_failure(tmp_path: Path) -> None:
    items = [Item(f"{name}.png", PROMPT, picture(tmp_path / f"{name}.png"), "g", "p") for name in "ab"]
    scores = [score(item, metric, None, Status.REFUSED) for item in items for metric in ("tit-llm", "tit")]
    (row,) = _table(failures(load([write_run(tmp_path / "run", items, scores)])), "Without a score").rows
    assert (row[1], row[-1].value, row[-1].note) == ("tit, tit-llm", "2", "100.0% of 2 judged")


def test_a_source_of_several_results_is_one_image_of_the_page(tmp_path: Path) -> None:
    source = picture(tmp_path / "source.png")
    items = [
        Item(f"{name}.png", "make it blue", picture(tmp_path / f"{name}.png"), name, "p", sources=(source,))
        for name in "ab"
    ]
    run = write_run(tmp_path / "run", items, [score(item, "tit", 0.5) for item in items])
    entries = load([run]).entries
    assert entries[0].sources == entries[1].sources
    assert [one.path for one in entries[0].sources] == [source.resolve()]
