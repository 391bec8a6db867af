"""Sample numbers are in the keys of answers on disk: these integers may never change."""

import pytest

from titjudge.engine.ask import Purpose, Sample


@pytest.mark.parametrize(
    ("sample", "number"),
    [
        (Sample(), 0),
        (Sample(attempt=2), 2),
        (Sample(repeat=1), 100),
        (Sample(repeat=4, attempt=2), 402),
        (Sample(repeat=2, purpose=Purpose.PROBE), 200),
        (Sample(purpose=Purpose.CANARY), 1_000_000),
        (Sample(repeat=3, attempt=1, purpose=Purpose.CANARY), 1_003_001),
    ],
)
def test_the_numbers_are_those_of_the_caches_on_disk(sample: Sample, number: int) -> None:
    assert sample.number == number


@pytest.mark.parametrize(
    "sample",
    [
        Sample(repeat=1, attempt=100),
        Sample(repeat=1, attempt=1_000, purpose=Purpose.CANARY),
        Sample(repeat=10_000),
        Sample(repeat=10_000, purpose=Purpose.PROBE),
    ],
)
def test_no_asking_takes_the_number_of_another_one(sample: Sample) -> None:
    with pytest.raises(ValueError, match="sample numbers"):
        _ = sample.number


def test_a_run_repeats_its_judge_and_a_probe_repeats_everything() -> None:
    assert Sample(1).repeats("judge")
    assert not Sample(1).repeats("captioner")
    assert Sample(1, purpose=Purpose.PROBE).repeats("captioner")
