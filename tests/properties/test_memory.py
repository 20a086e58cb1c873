"""The memory of tolerances kept elsewhere: a stream cut into pieces matches as the whole stream does."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary import Event, Matcher, Subscription
from distributary.matching.batch import EventBatch
from properties import test_matcher
from properties.examples import examples
from properties.oracle import MatcherOracle, passes

IDS = st.integers(0, 9).map(lambda number: f"s{number}")
TOLERANCES = st.dictionaries(st.sampled_from("ab"), st.sampled_from([0, 0.5, 1, 3]), min_size=1)


@st.composite
def tolerant_subscriptions(draw: st.DrawFn) -> Subscription:
    """Mostly with a tolerance, and with other filters that most events pass."""
    topic = draw(st.sampled_from([None, "A", "A/*", "A", "mqtt:A/#"]))
    return Subscription(
        draw(IDS),
        draw(st.sampled_from(["ann", "bob"])),
        topic=topic,
        where=draw(st.sampled_from([None, None, "a > 1"])),
        change=draw(TOLERANCES if topic is None else st.none() | TOLERANCES),
    )


def subscriptions() -> st.SearchStrategy[Subscription]:
    return st.one_of(tolerant_subscriptions(), tolerant_subscriptions(), test_matcher.subscriptions())


def events() -> st.SearchStrategy[Event]:
    """Mostly numbers that move a little, of few topics, so that tolerances have something to remember."""
    moving = st.builds(
        Event,
        st.just("e"),
        st.sampled_from(["A", "A", "A/B", None]),
        st.fixed_dictionaries({"a": st.integers(0, 4)}, optional={"b": st.integers(0, 4)}),
    )
    return st.one_of(moving, moving, test_matcher.events())


changes = st.lists(
    st.one_of(
        st.tuples(st.just("add"), subscriptions()),
        st.tuples(st.just("add"), subscriptions()),
        st.tuples(st.just("remove"), IDS),
        st.tuples(st.just("replace"), IDS),
    ),
    max_size=6,
)
pieces = st.lists(st.tuples(changes, st.lists(events(), max_size=5), st.booleans()), max_size=6)


class Log:
    """Subscriptions as a store keeps them: a list of changes, each addition with a serial of its own."""

    def __init__(self) -> None:
        self.held: dict[str, Subscription] = {}
        self.taken: list[tuple[str, Subscription | None, int]] = []

    def note(self, what: str, given_: Any) -> None:
        """Take a step, unless it cannot be taken."""
        if what == "add" and given_.id not in self.held:
            self._add(given_)
        elif what != "add" and given_ in self.held:
            before = self.held.pop(given_)
            self.taken.append((given_, None, 0))
            if what == "replace":
                self._add(before)

    def _add(self, subscription: Subscription) -> None:
        self.held[subscription.id] = subscription
        self.taken.append((subscription.id, subscription, 1000 - 7 * len(self.taken)))

    def apply(self, matcher: Matcher | MatcherOracle, since: int) -> None:
        """Apply the changes from number `since` on."""
        for subscription_id, subscription, serial in self.taken[since:]:
            if subscription is None:
                matcher.remove(subscription_id)
            elif isinstance(matcher, Matcher):
                matcher.add(subscription, serial=serial)
            else:
                matcher.add(subscription)


def found(matcher: Matcher, given_events: list[Event]) -> list[tuple[int, str, str]]:
    rows, ids, subscribers = matcher.matches(EventBatch.from_events(given_events))
    assert rows.dtype == np.int32
    return list(zip(rows.tolist(), ids.to_pylist(), subscribers.to_pylist(), strict=True))


@pytest.mark.parametrize("engine", ["thresholds", "sf"])
@settings(max_examples=examples(60))
@given(taken=pieces)
def test_pieces_of_a_stream_match_as_the_whole_does(
    engine: str, taken: list[tuple[list[tuple[str, Any]], list[Event], bool]]
) -> None:
    """Each piece is matched by a matcher of its own: some version opened, and the changes since applied."""
    log, oracle = Log(), MatcherOracle()
    memories: dict[str | None, bytes | None] = {}
    with tempfile.TemporaryDirectory() as directory:
        base, base_version = Path(directory) / "0", 0
        Matcher(engines={"change": engine}).freeze(base)
        for number, (steps, given_events, freezes) in enumerate(taken, 1):
            before = len(log.taken)
            for step in steps:
                log.note(*step)
            log.apply(oracle, before)
            matcher = Matcher.open(base)
            log.apply(matcher, base_version)
            topics = list({event.topic for event in given_events})
            matcher.restore(topics, [memories.get(topic) for topic in topics])
            expected = [
                (row, one, oracle.held[one].subscriber)
                for row, event in enumerate(given_events)
                for one in oracle.match(event)
            ]
            assert found(matcher, given_events) == expected
            memories.update(zip(topics, matcher.recall(topics), strict=True))
            if freezes:
                matcher.forget()
                base, base_version = Path(directory) / str(number), len(log.taken)
                matcher.freeze(base)


@settings(max_examples=examples(50))
@given(
    st.lists(subscriptions(), max_size=8, unique_by=lambda one: one.id),
    st.lists(events(), max_size=8),
    st.permutations(range(8)),
)
def test_what_is_recalled_does_not_depend_on_who_remembers(
    held: list[Subscription], given_events: list[Event], order: list[int]
) -> None:
    """Equal memories are equal bytes, whichever engine and whichever order of registration."""
    topics = list({event.topic for event in given_events})
    serials = {one.id: number for number, one in enumerate(held)}
    shuffled = [held[at] for at in order if at < len(held)]
    recalled = []
    for engine, registered in (("thresholds", held), ("sf", held), ("thresholds", shuffled)):
        matcher = Matcher(
            registered, serials=[serials[one.id] for one in registered], engines={"change": engine}
        )
        matcher.matches(EventBatch.from_events(given_events))
        recalled.append(matcher.recall(topics))
    assert recalled[0] == recalled[1] == recalled[2]


@settings(max_examples=examples(50))
@given(st.lists(subscriptions(), max_size=8, unique_by=lambda one: one.id), st.lists(events(), max_size=8))
def test_events_that_no_tolerance_sees_and_the_others_make_up_the_whole(
    held: list[Subscription], given_events: list[Event]
) -> None:
    matcher = Matcher(held)
    batch = EventBatch.from_events(given_events)
    tolerant = [any(one.change is not None and passes(one, event) for one in held) for event in given_events]
    assert matcher.has_tolerances == any(one.change is not None for one in held)
    assert matcher.tolerant_rows(batch).tolist() == tolerant
    left = matcher.matches(batch, tolerances="leave")
    assert matcher.recall([event.topic for event in given_events]) == [None] * len(given_events)
    rows, ids, _ = matcher.matches(batch)
    pairs = list(zip(rows.tolist(), ids.to_pylist(), strict=True))
    assert list(zip(left.rows.tolist(), left.subscriptions.to_pylist(), strict=True)) == [
        (row, one) for row, one in pairs if not tolerant[row]
    ]
