"""What was turned down as a next edit, by a clock of the test's."""

import pytest

from mercury_lsp.features.declined import (
    COOLDOWN_SECONDS,
    FORGIVEN_SECONDS,
    MAX_COOLDOWN_SECONDS,
    MAX_DECLINED,
    MAX_OFFERS,
    Declined,
    Offer,
)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_each_rejection_doubles_the_quiet_up_to_a_limit() -> None:
    clock = Clock()
    declined = Declined(clock)
    for n in range(8):
        declined.decline(declined.offer(Offer("a", "x", str(n))))
        quiet = min(MAX_COOLDOWN_SECONDS, COOLDOWN_SECONDS * 2**n)
        clock.now += quiet - 0.1
        assert declined.is_quiet("a") and not declined.is_quiet("b")
        clock.now += 0.2
        assert not declined.is_quiet("a")


def test_a_long_time_without_a_rejection_is_a_new_beginning() -> None:
    clock = Clock()
    declined = Declined(clock)
    for n in range(3):
        declined.decline(declined.offer(Offer("a", "x", str(n))))
    clock.now += FORGIVEN_SECONDS
    declined.decline(declined.offer(Offer("a", "x", "again")))
    clock.now += COOLDOWN_SECONDS
    assert not declined.is_quiet("a")


def test_what_was_declined_stays_so_when_the_document_is_closed() -> None:
    declined = Declined(Clock())
    declined.offer(Offer("a", "x", "y"))
    declined.decline_last("a")
    declined.forget("a")
    assert declined.of("a") == {("x", "y")} and not declined.is_quiet("a")


@pytest.mark.parametrize("name", ["next-edit-9", ""])
def test_an_unknown_offer_is_nothing_to_worry_about(name: str) -> None:
    declined = Declined(Clock())
    declined.decline(name)
    declined.decline_last("nowhere")
    assert not declined.is_quiet("a") and declined.of("a") == frozenset()


def test_memory_is_bounded() -> None:
    declined = Declined(Clock())
    first = declined.offer(Offer("a", "x", "first"))
    for n in range(MAX_OFFERS):
        declined.offer(Offer("a", "x", str(n)))
    declined.decline(first)
    assert declined.of("a") == frozenset()
    for n in range(2 * MAX_DECLINED):
        declined.decline(declined.offer(Offer("a", "x", str(n))))
    assert len(declined.of("a")) == MAX_DECLINED
