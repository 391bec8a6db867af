"""Whether runs are judged alike: a detector that one of them had is another way of judging."""

from titjudge.core.run_records import Manifest
from titjudge.stats.comparable_runs import judged_differently


def run(**models: str) -> Manifest:
    roles = {name: {"model": model} for name, model in models.items()}
    return Manifest.model_validate(
        {"metrics": {"tit-agent": {"version": "6"}, "tit-llm": {"version": "1"}}, "roles": roles}
    )


def test_a_run_with_a_detector_is_not_judged_as_one_without() -> None:
    with_one, without = run(judge="a/b", detector="c/d"), run(judge="a/b")
    assert judged_differently({"one": with_one, "two": without}, "tit-agent") == ["the detector differs (c/d, none)"]
    assert judged_differently({"one": with_one, "two": with_one}, "tit-agent") == []
    assert judged_differently({"one": without, "two": without}, "tit-agent") == []
    assert judged_differently({"one": with_one, "two": without}, "tit-llm") == []  # which asks none


def test_a_model_that_only_one_run_has_asked_is_no_difference() -> None:
    assert judged_differently({"one": run(judge="a/b"), "two": run(captioner="e/f", judge="a/b")}, "tit-agent") == []
