"""The benchmark of judges on the ladder: a crop is read where it was cut, and eyes that err nowhere order every image right."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from benchmarks import ladder_judges
from benchmarks.ladder_eye import eye_for
from benchmarks.ladder_judges import METRICS, Pictures, measure
from titjudge.apps.scenes.generate import plan
from titjudge.apps.scenes.scene import LEVELS, Options
from titjudge.metrics.agent import looks

pytestmark = pytest.mark.slow


def pictures(folder: Path, pixels: int = 768) -> Pictures:
    return Pictures(plan(Options(1, ladder=1), 0, lambda *_: []), 1, pixels, folder)


def test_a_box_is_read_where_it_lies_in_a_crop_and_sharper_than_in_the_whole(tmp_path: Path) -> None:
    shown = pictures(tmp_path, 200)
    box = shown.place(7)
    with looks.Crops() as cut:
        (part,) = asyncio.run(cut.cut(shown.files[0], [box]))
        assert shown.sharpness(part) > 1 > shown.sharpness(shown.files[0])
        assert shown.accepts(0, 24, part) is None, "another box is not in it"
        left, top, right, bottom = shown.template.inside(shown.things[7], shown.rung, shown.scene.asked)
        truth = shown.arrays[0][top:bottom, left:right] / 255
        away = {}
        for file, area in ((part, box), (shown.files[0], ladder_judges.WHOLE)):
            eye = eye_for(shown.scene.asked, shown.rung, shown.sharpness(file))
            away[file] = np.abs(shown._cut(eye, 0, 7, area) - truth).mean()
    assert away[part] < away[shown.files[0]] / 2


def test_eyes_that_err_nowhere_order_all_images_and_looks_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def truth(self: Pictures, level: int, number: int, file: Path) -> bool | None:
        seen = ladder_judges._inside(self.place(number), ladder_judges._box(file))
        return self.things[number].name not in self.wrong[level] if seen else None

    monkeypatch.setattr(Pictures, "accepts", truth)
    found = measure(0, 1, 1, 768)
    assert found.keys() == METRICS.keys()
    for name in set(METRICS) - {"tit-llm", "tit-agent"}:  # a description mentions a share
        scores = found[name]["scores"]
        assert scores == sorted(scores, reverse=True), name
        assert len(set(scores)) == len(LEVELS), name
        assert not any(wrong for (_, _, right), wrong in found[name]["counts"].items() if not right), name
    assert found["tit-agent, sight"]["bill"].looks < found["tit-agent, description, 64 looks"]["bill"].looks
    assert found["tit-llm"]["bill"].requests == 2 * len(LEVELS)
