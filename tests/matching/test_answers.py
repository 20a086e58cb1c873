"""The answers of a batch as tables."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distributary.matching.answers import deliveries_table, matches_table
from distributary.matching.batch import EventBatch
from distributary.matching.matcher import Matcher
from distributary.model import Event, Subscription

subscribers = st.sampled_from(["ann", "bob", "Zoë", "𝄞", "zz"])


@given(
    st.lists(st.tuples(subscribers, st.sampled_from("abc")), max_size=12), st.lists(st.sampled_from("abcd"))
)
def test_tables_hold_the_matches_and_deliveries_of_each_event(
    wanted: list[tuple[str, str]], topics: list[str]
) -> None:
    matcher = Matcher(Subscription(f"s{n}", who, topic=topic) for n, (who, topic) in enumerate(wanted))
    events = [Event(f"e{n}", topic=topic) for n, topic in enumerate(topics)]
    batch = EventBatch.from_events(events)
    found = matcher.matches(batch)
    assert matches_table(batch, found).to_pylist() == [
        {"event": event.id, "subscription": id} for event in events for id in matcher.match(event)
    ]
    assert deliveries_table(batch, found).to_pylist() == [
        {**delivery.to_record(), "event": event.id}
        for event in events
        for delivery in matcher.deliveries(event)
    ]
