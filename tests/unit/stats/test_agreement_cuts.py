"""Shares of comparisons that images win with people, and their means by generator."""

from titjudge.stats.people.agreement_cuts import mean_win_shares, win_shares


def test_a_generator_has_the_mean_share_of_its_images() -> None:
    shares = win_shares([(0, 1, 1), (0, 2, 0), (3, 1, -1)])
    assert shares == {0: 0.75, 1: 0.5, 2: 0.5, 3: 0.0}
    assert list(mean_win_shares(shares, ["new", "old", "old", "new"]).items()) == [("new", 0.375), ("old", 0.5)]
