"""The benchmark of the agentic judge's looks: scripted eyes without errors order every scene."""

import argparse
from collections import Counter

from benchmarks.agent_looks import measure


def test_eyes_without_errors_order_every_scene() -> None:
    rates = argparse.Namespace(scenes=1, mentioned=0.3, whole=0.0, crop=0.0, found=1.0, bulk=0.0)
    found = measure(rates)
    assert found["tit-agent"][0] == found["lmm-score"][0] == [1.0, 1.0, 1.0]
    assert found["lmm-score"][1] == 1
    assert 2 < found["tit-agent"][1] <= 5, "places share requests"


def test_a_detector_that_finds_everything_saves_the_looks_that_ask_where_things_are() -> None:
    found = measure(argparse.Namespace(scenes=1, mentioned=0.3, whole=0.0, crop=0.0, found=1.0, bulk=0.0))
    knows, asks, detected = (found[name] for name in ("tit-agent", "asks where", "detector"))
    assert knows[0] == asks[0] == detected[0]
    assert detected[1:] == knows[1:]  # as if it had known the places
    assert detected[1] < asks[1]
    assert detected[2] < asks[2]


def test_counts_that_a_judge_takes_for_met_are_mended_by_enlarged_places() -> None:
    errors: dict[str, Counter[str]] = {}
    measure(argparse.Namespace(scenes=1, mentioned=1.0, whole=0.0, crop=0.0, found=1.0, bulk=1.0), errors)
    sight = errors["sight"]
    assert 0 < sight["easily misread"] == sight["easily misread, mended"]
    assert sight["found"] == sight["wrong"]
    assert not sight["false not met"]
