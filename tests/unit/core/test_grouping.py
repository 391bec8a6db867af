"""Groups in the order in which the first of each comes, and their means."""

from titjudge.core.grouping import group_means, grouped


def test_groups_keep_the_order_of_their_values() -> None:
    groups = grouped([3, 10, 4, 12, 1], lambda number: number > 9)
    assert list(groups.items()) == [(False, [3, 4, 1]), (True, [10, 12])]


def test_means_of_groups() -> None:
    assert group_means({"a": [1.0, 2.0], "b": [True, False, False, True]}) == {"a": 1.5, "b": 0.5}
    assert group_means({}) == {}
