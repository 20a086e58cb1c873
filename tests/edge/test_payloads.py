"""Payloads come out as they went in, and say to conditions what they hold."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from distributary.edge.payloads import event_of, payload_of
from distributary.live.codec import decode, encode
from distributary.model import Event

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["id", "source", "topic", "document", "mqtt.retain", "payload.text", "x"]) | st.text()
objects = st.dictionaries(names, values, max_size=5)
indents = st.sampled_from([None, 1])
payloads = (
    st.binary()
    | st.text().map(str.encode)
    | st.builds(lambda object, indent: json.dumps(object, indent=indent).encode(), objects, indents)
    | st.text().map(lambda text: f"<a>{text}</a>".encode())
)


@given(payloads)
def test_the_bytes_come_out_of_the_network_as_they_went_in(payload: bytes) -> None:
    event = event_of("e1", "A/B", payload, {"source": "ann", "mqtt.qos": 1})
    sent = decode(encode(event))
    assert isinstance(sent, Event)
    assert payload_of(sent) == payload_of(event) == payload
    assert (sent.id, sent.source, sent.topic) == ("e1", "ann", "A/B")
    assert "mqtt.retain" not in sent.attributes


@given(
    st.dictionaries(
        st.text(st.characters(codec="ascii"), min_size=1), st.integers(0, 9) | st.text(max_size=3)
    )
)
def test_a_flat_object_becomes_attributes(given: dict[str, int | str]) -> None:
    ours = ("payload.", "mqtt.")
    moved = {"id", "source", "topic", "document"}
    expected = {
        f"payload.{name}" if name in moved else name: value
        for name, value in given.items()
        if not name.startswith(ours)
    }
    event = event_of("e1", "A", json.dumps(given).encode(), {})
    assert {name: event.attributes[name] for name in event.attributes if name != "payload.text"} == expected


def test_nested_objects_get_dotted_names_and_documents_are_documents() -> None:
    event = event_of("e1", "A", b'{"wind": {"speed": 3}, "mqtt": {"retain": true}}', {})
    assert dict(event.attributes) == {
        "wind.speed": 3,
        "payload.text": '{"wind": {"speed": 3}, "mqtt": {"retain": true}}',
    }
    assert event_of("e1", "A", b"<a>x</a>", {}).document == "<a>x</a>"
    assert event_of("e1", "A", b"<a>", {}).document is None


def test_what_is_too_deep_is_opaque() -> None:
    deep = b'{"a":' * 100 + b"1" + b"}" * 100
    assert set(event_of("e1", "A", deep, {}).attributes) == {"payload.text"}
