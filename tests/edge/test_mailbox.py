"""A mailbox against a model that does the same plainly: a list that is searched from the front each time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.edge.mailbox import (
    Mailbox,
    MailboxBounds,
    MailboxEntry,
    MailboxGap,
    MailboxItem,
    MailboxPolicy,
    size_of,
)
from distributary.edge.mailbox_entries import each_size
from distributary.model import Delivery, DeliveryBatch, Event
from properties.examples import examples


class PlainMailbox:
    """The rules of a mailbox, one after the other, without a thought for speed."""

    def __init__(self, bounds: MailboxBounds) -> None:
        self.bounds, self.last, self.taken = bounds, 0, 0
        self.entries: list[MailboxEntry] = []
        self.told: set[int] = set()

    def put(self, delivery: Delivery, now: float, size: int | None = None) -> None:
        self.last += 1
        if self.bounds.policy is MailboxPolicy.LATEST:
            for entry in self.items():
                if entry.delivery.event.topic == delivery.event.topic:
                    self.give_up(entry, "a later event of its topic came")
        self.entries.append(MailboxItem(self.last, delivery, size or size_of(delivery), now))
        self.shrink()

    def put_gap(self, reason: str) -> None:
        self.last += 1
        self.entries.append(MailboxGap(self.last, 0, reason))
        self.join()

    def items(self) -> list[MailboxItem]:
        return [entry for entry in self.entries if isinstance(entry, MailboxItem)]

    def shrink(self) -> None:
        while (
            len(self.items()) > self.bounds.events
            or sum(each.size for each in self.items()) > self.bounds.bytes
        ):
            last = self.bounds.policy in (MailboxPolicy.KEEP, MailboxPolicy.DISCONNECT)
            self.give_up(self.items()[-1 if last else 0], "the mailbox was full")

    def give_up(self, item: MailboxItem, reason: str) -> None:
        self.entries[self.entries.index(item)] = MailboxGap(item.place, 1, reason)
        self.join()

    def join(self) -> None:
        joined: list[MailboxEntry] = []
        for entry in self.entries:
            before = joined[-1] if joined else None
            if (
                isinstance(before, MailboxGap)
                and isinstance(entry, MailboxGap)
                and bool(before.events) == bool(entry.events)
                and not self.told & {before.place, entry.place}
            ):
                joined[-1] = MailboxGap(entry.place, before.events + entry.events, entry.reason, before.begin)
            else:
                joined.append(entry)
        self.entries = joined

    def untaken(self) -> list[MailboxEntry]:
        return [entry for entry in self.entries if entry.place > self.taken]

    def take(self, most: int, through: int) -> list[MailboxEntry]:
        taken: list[MailboxEntry] = []
        while len(taken) < most and (left := self.untaken()) and left[0].place <= through:
            taken.append(left[0])
            self.taken = left[0].place
            if isinstance(left[0], MailboxGap):
                self.told.add(left[0].place)
        return taken

    def acknowledge(self, place: int) -> bool:
        found = [entry for entry in self.entries if entry.place == place]
        found = [entry for entry in found if isinstance(entry, MailboxItem) or place in self.told]
        self.entries = [entry for entry in self.entries if entry not in found]
        self.join()
        return bool(found)

    def acknowledge_through(self, place: int) -> None:
        self.entries = [entry for entry in self.entries if entry.place > place]

    def restore(self) -> None:
        self.taken, self.told = 0, {entry.place for entry in self.gaps()}

    def gaps(self) -> list[MailboxGap]:
        return [entry for entry in self.entries if isinstance(entry, MailboxGap)]

    def expire(self, now: float) -> None:
        if self.bounds.seconds is not None:
            for item in self.items():
                if item.kept_at < now - self.bounds.seconds:
                    self.give_up(item, "too old")

    def withdraw(self, may_see: Any) -> None:
        for item in self.items():
            if not may_see(item.delivery.event):
                self.give_up(item, "you may see it no longer")


def without_reasons(entries: Any) -> list[Any]:
    """Entries as they are compared: of gaps that became one, the reason is the last one's to be given up."""
    return [entry._replace(reason="") if isinstance(entry, MailboxGap) else entry for entry in entries]


bounds = st.builds(
    MailboxBounds,
    st.sampled_from(MailboxPolicy),
    st.integers(1, 8),
    st.sampled_from([250, 700, 10_000]),
    st.sampled_from([None, 3.0]),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("AB"), st.sampled_from([0, 200])),
        st.tuples(st.just("put"), st.sampled_from("ABC"), st.just(0)),
        st.tuples(st.just("put_run"), st.text("AB", min_size=1, max_size=4), st.sampled_from([0, 200])),
        st.tuples(st.just("take"), st.integers(1, 3), st.integers(0, 2)),
        st.tuples(st.just("acknowledge"), st.integers(0, 6), st.none()),
        st.tuples(st.just("acknowledge_through"), st.integers(0, 6), st.none()),
        st.tuples(st.just("acknowledge_range"), st.integers(0, 6), st.integers(0, 4)),
        st.tuples(st.just("skip"), st.integers(0, 6), st.none()),
        st.tuples(st.just("put_gap"), st.none(), st.none()),
        st.tuples(st.sampled_from(["begin", "expire", "restore"]), st.none(), st.none()),
        st.tuples(st.just("withdraw"), st.sampled_from("AB"), st.none()),
        st.tuples(st.just("rebound"), bounds, st.none()),
    ),
    max_size=40,
)


@settings(max_examples=examples(400), deadline=None)
@given(bounds, steps)
def test_a_mailbox_does_what_its_rules_say(first: MailboxBounds, taken: list[tuple[str, Any, Any]]) -> None:
    mailbox, model, kept = Mailbox(first), PlainMailbox(first), dict[int, MailboxEntry]()
    for number, (what, given_, more) in enumerate(taken):
        if what == "put":
            delivery = Delivery(Event(f"e{number}", given_, {"note": "x" * more}), "ann", ("s",))
            mailbox.put(delivery, number)
            model.put(delivery, number)
        elif what == "put_run":
            events = tuple(
                Event(f"e{number}-{place}", topic, {"note": "x" * more}) for place, topic in enumerate(given_)
            )
            batch = DeliveryBatch("ann", 1.0, tuple(range(len(events))), events, (("s",),))
            mailbox.put_run(batch, number)
            for delivery in batch.deliveries:
                model.put(delivery, number, each_size(batch))
        elif what == "acknowledge_range":
            mailbox.acknowledge_range(mailbox.last - given_, mailbox.last - given_ + more)
            for place in range(model.last - given_, model.last - given_ + more + 1):
                model.acknowledge(place)
        elif what == "skip":
            mailbox.skip(mailbox.last - given_)
            model.taken = max(model.taken, model.last - given_)
        elif what == "put_gap":
            mailbox.put_gap("")
            model.put_gap("")
        elif what == "take":
            through = mailbox.last - more
            assert without_reasons(mailbox.take(given_, through)) == without_reasons(
                model.take(given_, through)
            )
        elif what == "acknowledge":
            assert mailbox.acknowledge(mailbox.last - given_) == model.acknowledge(model.last - given_)
        elif what == "acknowledge_through":
            mailbox.acknowledge_through(model.taken - given_)
            model.acknowledge_through(model.taken - given_)
        elif what == "begin":
            mailbox.begin()
            model.taken = 0
        elif what == "expire":
            mailbox.expire(number)
            model.expire(number)
        elif what == "withdraw":
            mailbox.withdraw(lambda event, topic=given_: event.topic != topic)
            model.withdraw(lambda event, topic=given_: event.topic != topic)
        elif what == "rebound" and given_.policy is not MailboxPolicy.LATEST:
            mailbox.rebound(given_)
            model.bounds = given_
            model.shrink()
        elif what == "restore":
            mailbox = Mailbox(mailbox.bounds, mailbox.last)
            mailbox.restore([kept[place] for place in sorted(kept)])
            model.restore()
        for place, entry in mailbox.changes():
            kept.pop(place, None) if entry is None else kept.update({place: entry})
        check(mailbox, model, kept)


def check(mailbox: Mailbox, model: PlainMailbox, kept: dict[int, MailboxEntry]) -> None:
    """The mailbox is as the model says, and what it told of its changes makes the same."""
    assert without_reasons(mailbox.after(0)) == without_reasons(model.entries)
    assert [kept[place] for place in sorted(kept)] == list(mailbox.after(0))
    assert mailbox.untaken == len(model.untaken())
    assert len(mailbox) == len(model.items())
    assert mailbox.bytes == sum(item.size for item in model.items())
    for place in range(mailbox.last + 1):
        expected = [entry for entry in model.entries if entry.place > place]
        assert without_reasons(mailbox.after(place)) == without_reasons(expected)
        assert (mailbox.get(place) is None) == (place not in {entry.place for entry in model.entries})


class AcknowledgingReader:
    """A subscriber that counts the gaps that it acknowledges, whatever connection breaks before it does."""

    def __init__(self, mailbox: Mailbox) -> None:
        self.mailbox = mailbox
        self.told: dict[int, int] = {}
        """By place how many events a gap has, of those that were told and are not acknowledged."""
        self.counted = self.arrived = 0
        """Events of gaps that were acknowledged; those that were given up after they had been taken."""

    def take(self, most: int) -> None:
        for entry in self.mailbox.take(most, self.mailbox.last):
            if isinstance(entry, MailboxGap):
                assert self.told.setdefault(entry.place, entry.events) == entry.events

    def acknowledge_through(self, place: int) -> None:
        for entry in self.mailbox.after(0):
            if isinstance(entry, MailboxGap) and entry.place <= place and entry.place not in self.told:
                self.arrived += entry.events
        self.mailbox.acknowledge_through(place)
        self.count([each for each in self.told if each <= place])

    def acknowledge_one(self, place: int) -> None:
        self.mailbox.acknowledge(place)
        self.count([each for each in self.told if each == place])

    def count(self, places: list[int]) -> None:
        self.counted += sum(map(self.told.pop, places))


@settings(max_examples=examples(300), deadline=None)
@given(bounds, st.lists(st.tuples(st.sampled_from("puuttatob"), st.integers(0, 3)), max_size=60))
def test_gaps_that_are_acknowledged_sum_up_to_what_was_given_up(
    first: MailboxBounds, steps: list[tuple[str, int]]
) -> None:
    mailbox = Mailbox(first)
    reader = AcknowledgingReader(mailbox)
    for number, (what, size) in enumerate(steps):
        if what in "pu":
            for each in range(size):
                mailbox.put(Delivery(Event(f"e{number}-{each}", "AB"[each % 2]), "ann", ("s",)), number)
        elif what == "t":
            reader.take(size + 1)
        elif what == "a":
            reader.acknowledge_through(min(reader.told, default=0))
        elif what == "o":
            for place in list(reader.told)[: size // 2]:
                reader.acknowledge_one(place)
        else:
            mailbox.begin()  # the connection broke: what is not acknowledged is told again
    mailbox.begin()
    reader.take(1_000)
    reader.acknowledge_through(mailbox.last)
    assert reader.counted + reader.arrived == mailbox.dropped
    assert list(mailbox.after(0)) == []


def test_a_gap_is_told_to_each_connection_until_it_is_acknowledged() -> None:
    mailbox = Mailbox(MailboxBounds(MailboxPolicy.KEEP, events=1))
    for number in range(3):
        mailbox.put(Delivery(Event(f"e{number}", "A"), "ann", ("s",)), 0)
    for _ in range(2):
        mailbox.begin()
        assert [entry.place for entry in mailbox.take(10, 3)] == [1, 3]
    mailbox.put(Delivery(Event("e3", "A"), "ann", ("s",)), 0)
    (later,) = mailbox.take(10, 4)
    assert (later.place, later.events) == (4, 1)  # not one with the gap that was told
    assert mailbox.acknowledge(3)
    mailbox.begin()
    assert [entry.place for entry in mailbox.take(10, 4)] == [1, 4]
    mailbox.acknowledge_through(4)
    assert not mailbox.acknowledge(4)
    mailbox.begin()
    assert mailbox.take(10, 4) == []


def test_gaps_that_are_never_acknowledged_stay_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributary.edge.mailbox.MOST_TOLD", 5)
    mailbox = Mailbox(MailboxBounds(MailboxPolicy.KEEP, events=2))
    for number in range(100):
        mailbox.put(Delivery(Event(f"e{number}", "A"), "ann", ("s",)), 0)
        assert len(mailbox.take(10, mailbox.last)) == 1
        assert len(list(mailbox.after(0))) <= 2 + 5 + 2 + 1
    mailbox.begin()
    gaps = [entry for entry in mailbox.take(1_000, 100) if isinstance(entry, MailboxGap)]
    assert sum(gap.events for gap in gaps) == mailbox.dropped == 98
    assert [gap.begin for gap in gaps[1:]] == [gap.place + 1 for gap in gaps[:-1]]
    mailbox.acknowledge_through(100)
    assert list(mailbox.after(0)) == []


@pytest.mark.parametrize("policy", MailboxPolicy)
def test_only_the_policy_disconnect_says_that_a_connection_is_to_be_let_go(policy: MailboxPolicy) -> None:
    mailbox = Mailbox(MailboxBounds(policy, events=1))
    for number in (1, 2):
        mailbox.put(Delivery(Event(f"e{number}", f"A/{number}"), "ann", ("s",)), 0)
    assert mailbox.overrun == (policy is MailboxPolicy.DISCONNECT)
    assert mailbox.dropped == 1


def test_other_bounds_with_the_policy_latest_keep_the_latest_of_each_topic() -> None:
    mailbox = Mailbox(MailboxBounds())
    for number, topic in enumerate("AABA"):
        mailbox.put(Delivery(Event(f"e{number}", topic), "ann", ("s",)), 0)
    mailbox.rebound(MailboxBounds(MailboxPolicy.LATEST))
    left = [entry.delivery.event.id for entry in mailbox.after(0) if isinstance(entry, MailboxItem)]
    assert left == ["e2", "e3"]


def test_of_what_a_crash_left_a_later_gap_stands_for_all_within_it() -> None:
    mailbox = Mailbox(MailboxBounds())
    item = MailboxItem(5, Delivery(Event("e"), "ann", ("s",)), 1, 0.0)
    mailbox.restore([MailboxGap(1, 1, ""), MailboxGap(2, 1, ""), MailboxGap(4, 3, "", 2), item])
    assert [entry.place for entry in mailbox.after(0)] == [1, 4, 5]
    assert mailbox.changes() == [(2, None)]
