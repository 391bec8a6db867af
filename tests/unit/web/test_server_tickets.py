"""Tickets for reports."""

from pathlib import Path

from titjudge.web.view.server import Tickets

HOUR = 3600.0


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_ticket_opens_a_page_once_and_within_a_minute() -> None:
    clock = Clock()
    tickets = Tickets(clock)
    first, second = tickets.give(["a"]), tickets.give(["a", "b"])
    assert first != second
    assert tickets.take(second) == ("a", "b")
    assert tickets.take(second) == ()
    clock.now += 61
    assert tickets.take(first) == ()
    assert tickets.take("a guess") == ()


def test_a_ticket_opens_files_once_its_page_was_opened_and_while_they_are_looked_at() -> None:
    clock = Clock()
    tickets = Tickets(clock)
    ticket = tickets.give(["a"])
    assert tickets.folder(ticket) is None, "not before the page is opened"
    tickets.take(ticket)
    assert tickets.folder(ticket) is None, "a report that is one file has no others"
    tickets.keep(ticket, Path("report"))
    for _ in range(5):
        clock.now += 20 * HOUR
        tickets.give(["b"])
        assert tickets.folder(ticket) == Path("report")
        assert tickets.take(ticket) == ()
    clock.now += 25 * HOUR
    assert tickets.folder(ticket) is None


def test_a_ticket_that_has_ended_is_not_kept_by_a_late_page() -> None:
    clock = Clock()
    tickets = Tickets(clock)
    ticket = tickets.give(["a"])
    clock.now += 61
    tickets.keep(ticket, Path("report"))
    assert tickets.folder(ticket) is None
