"""Events and subscriptions as records: what is read, what is refused and why, and that nothing changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import InputError
from distributary.model import Delivery, Event, Subscription

names = st.text(st.characters(exclude_characters="./", exclude_categories=["Cs"]), min_size=1, max_size=5)
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5))
topics = st.lists(names, min_size=1, max_size=4).map("/".join)


def test_a_nested_objects_attributes_get_dotted_names() -> None:
    event = Event.from_record({"id": "e1", "wind": {"speed": 3, "from": {"degrees": 90}}, "calm": False})
    assert event.attributes == {"wind.speed": 3, "wind.from.degrees": 90, "calm": False}


def test_an_attribute_given_nested_and_dotted_is_refused() -> None:
    with pytest.raises(InputError, match=r"wind\.speed: given twice"):
        Event.from_record({"id": "e1", "wind": {"speed": 3}, "wind.speed": 4})


def test_a_json_array_is_carried_along_as_a_tuple() -> None:
    assert Event.from_record({"id": "e1", "tags": ["a", "b"]}).attributes == {"tags": ("a", "b")}


def test_a_whole_number_serves_as_id() -> None:
    assert Event.from_record({"id": 7}).id == "7"


@pytest.mark.parametrize("given_id", [None, "", True, 1.5, ["e1"], {"a": 1}])
def test_anything_else_is_no_id(given_id: object) -> None:
    with pytest.raises(InputError) as caught:
        Event.from_record({"id": given_id})
    assert caught.value.field == "id"


@pytest.mark.parametrize("field", ["topic", "document"])
def test_topic_and_document_are_strings(field: str) -> None:
    with pytest.raises(InputError) as caught:
        Event.from_record({"id": "e1", field: 5})
    assert caught.value.field == field


def test_an_empty_topic_is_refused() -> None:
    with pytest.raises(InputError, match="an empty topic") as caught:
        Event("e1", topic="")
    assert caught.value.field == "topic"


@pytest.mark.parametrize("topic", ["/", "/A", "A/", "A//B", "//A", "/A//B", "$S/+/#"])
def test_a_topic_is_kept_as_it_came(topic: str) -> None:
    assert Event("e1", topic=topic).topic == topic
    assert Event.from_record({"id": "e1", "topic": topic}).to_record()["topic"] == topic


def test_a_leading_slash_makes_another_topic() -> None:
    assert Event("e1", topic="/A/B") != Event("e1", topic="A/B")


@given(topics, st.dictionaries(names, scalars, max_size=4))
def test_an_event_survives_being_written_and_read(topic: str, attributes: dict[str, object]) -> None:
    attributes = {
        name: value for name, value in attributes.items() if name not in ("id", "topic", "document")
    }
    event = Event("e1", topic, attributes, "<a/>")  # type: ignore[arg-type]
    assert Event.from_record(event.to_record()) == event


def test_a_subscription_survives_being_written_and_read() -> None:
    record = {
        "id": "s1",
        "subscriber": "ann",
        "topic": "quotes/NYSE/*",
        "where": "price > 8.3 and price < 8.7",
        "path": "/rss/channel/item[author]/title",
        "change": {"price": 0.05},
    }
    assert Subscription.from_record(record).to_record() == record


def test_a_subscription_without_filters_is_refused() -> None:
    with pytest.raises(InputError, match="no filter"):
        Subscription("s1", "ann")


def test_an_unknown_field_is_refused_because_it_may_be_a_misspelt_filter() -> None:
    with pytest.raises(InputError, match="topc: unknown field; known are"):
        Subscription.from_record({"id": "s1", "subscriber": "ann", "topc": "A", "where": "a > 1"})


def test_a_kind_that_an_application_adds_is_a_known_field() -> None:
    record = {"id": "s1", "subscriber": "ann", "near": [1, 2]}
    subscription = Subscription.from_record(record, more_kinds=["near"])
    assert subscription.filters() == {"near": [1, 2]}
    assert subscription.to_record() == record


@pytest.mark.parametrize("change", [5, "price", [["price", 1]]])
def test_a_tolerance_is_an_object(change: object) -> None:
    with pytest.raises(InputError, match="change: must be an object"):
        Subscription.from_record({"id": "s1", "subscriber": "ann", "change": change})


def rarely(usual: object, *others: object) -> st.SearchStrategy[object]:
    """One value mostly, now and then another."""
    return st.one_of(*[st.just(usual)] * 3, st.sampled_from(others))


RECORDS = st.fixed_dictionaries(
    {},
    optional={
        "id": rarely("s1", None, "", 7, True, "\ud800"),
        "subscriber": rarely("ann", None, "", 7, "\ud800"),
        "topic": rarely("quotes/*", None, 7, "a//b"),
        "where": rarely("price > 1", None, "price >", ["a"]),
        "path": rarely("/rss", None, {}, "/rss["),
        "change": rarely({"price": 0.5}, None, {"price": -1}, {}, [], 1.5),
        "added": st.none() | st.just("x"),
        "wheer": st.just("price > 1"),
    },
)


@given(RECORDS)
def test_records_that_are_read_at_once_are_read_as_field_by_field(record: dict[str, object]) -> None:
    def told(build: Callable[..., Subscription]) -> object:
        try:
            return build(record, ("added",))
        except InputError as error:
            return str(error), error.field

    assert told(Subscription.from_record) == told(Subscription._from_unusual_record)


def test_a_subscription_names_its_subscriber() -> None:
    with pytest.raises(InputError, match="subscriber: missing"):
        Subscription.from_record({"id": "s1", "topic": "A"})


def test_a_delivery_says_which_subscriptions_asked() -> None:
    record = Delivery(Event("e1"), "ann", ("s1", "s2")).to_record()
    assert record == {"event": {"id": "e1"}, "subscriber": "ann", "subscriptions": ["s1", "s2"]}


HALF = "\ud800"


@pytest.mark.parametrize(
    "build",
    [
        lambda: Event(HALF),
        lambda: Event("e", topic=HALF),
        lambda: Event("e", document=HALF),
        lambda: Event("e", attributes={"a": HALF}),
        lambda: Event("e", attributes={HALF: 1}),
        lambda: Subscription(HALF, "ann", topic="A"),
        lambda: Subscription("s", HALF, topic="A"),
        lambda: Subscription("s", "ann", topic=HALF),
        lambda: Subscription("s", "ann", where=f"a = '{HALF}'"),
        lambda: Subscription("s", "ann", path=f"/a[b='{HALF}']"),
    ],
)
def test_half_a_surrogate_pair_is_no_text(build: Callable[[], object]) -> None:
    with pytest.raises(InputError, match="half of a surrogate pair"):
        build()
