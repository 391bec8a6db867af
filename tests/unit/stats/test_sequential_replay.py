"""What questions took, averaged over random orders: what the table of `compare early-stopping` and its chart show."""

from titjudge.stats.generators.sequential import OPEN, RaceResult, ReplayAverage, Settled, replay_averages


def test_orders_of_the_same_generators_are_averaged() -> None:
    orders = [
        Settled("a", "b", "a", 10, 40, None),
        RaceResult(("a", "b", "c"), "c", ("c",), 20, 45, 60),
        Settled("a", "b", OPEN, 40, 40, None),
    ]
    pair, race = replay_averages(orders)
    assert pair == ReplayAverage(("a", "b"), f"a 1x, {OPEN} 1x", 25.0, 40, 0.625, 0.5)
    assert [str(cell) for cell in race.cells()] == ["c", "45.0", "60", "75.0%"]
    assert str(race.cells(0.5)[-1]) == "$7.50"
    assert race.open == 0.0
