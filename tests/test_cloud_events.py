"""CloudEvents as events and back, without loss; whatever bytes come, the outcome is events and reasons."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.cloud_events import CONTEXT, EXTENSIONS, OWN, cloud_event, read_cloud_event
from distributary.edge.web.bodies import CLOUD_EVENT, CLOUD_EVENTS, JSON, LINES, read_events
from distributary.edge.web.faults import WebError
from distributary.edge.web.records import to_json
from distributary.errors import InputError
from distributary.json_text import read_object
from distributary.model import Event

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)
NAMES = st.sampled_from([*OWN, *CONTEXT, "price", "wind.speed", "Größe", "data.type", "data.price"])
SCALARS = (
    TEXTS | st.integers(-(2**53), 2**53) | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)
)
MEMBERS = st.dictionaries(NAMES, SCALARS, max_size=5)
CLOUD_EVENT_RECORDS = st.fixed_dictionaries(
    {"specversion": st.just("1.0"), "id": TEXTS, "source": TEXTS, "type": TEXTS},
    optional={
        "subject": TEXTS,
        "time": TEXTS,
        "topic": TEXTS,
        "traceparent": TEXTS,
        "data": MEMBERS | SCALARS | st.lists(SCALARS, max_size=3),
    },
)


@given(CLOUD_EVENT_RECORDS)
def test_a_cloud_event_that_is_read_and_sent_on_is_the_same(record: dict[str, Any]) -> None:
    try:
        event = read_cloud_event(record)
    except InputError as error:
        doubled = ("topic", "data.type", "data.price", "data.data")
        if error.field in doubled:  # two names for one
            return
        raise
    sent = read_object(to_json(cloud_event(event)))
    for name in ("id", "source", "type", "subject", "time", "traceparent"):
        assert sent.get(name) == record.get(name)
    assert read_cloud_event(sent) == event


ATTRIBUTES = st.dictionaries(
    st.sampled_from(["price", "wind.speed", "source", "type", "subject", "Größe", *EXTENSIONS[:2]]), SCALARS
)


@given(TEXTS, TEXTS | st.none(), ATTRIBUTES, TEXTS | st.none())
def test_an_event_that_is_sent_as_a_cloud_event_has_all_that_it_had(
    id: str, topic: str | None, attributes: dict[str, Any], document: str | None
) -> None:
    event = Event(id, topic, attributes, document)
    back = read_cloud_event(read_object(to_json(cloud_event(event))))
    assert (back.id, back.document) == (event.id, event.document)
    if topic is not None:
        assert back.topic == topic
    lacking = {name for name in attributes if back.attributes.get(name) != attributes[name]}
    moved = {name for name in lacking if back.attributes.get(f"data.{name}") == attributes[name]}
    assert lacking - moved <= {"source"}, (event, back)  # a number as a source is a text there
    assert back.source == (event.source or "/")


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ({}, "specversion"),
        ({"specversion": "0.3", "id": "a", "source": "b", "type": "c"}, "specversion"),
        ({"specversion": "1.0", "source": "b", "type": "c"}, "id"),
        ({"specversion": "1.0", "id": "", "source": "b", "type": "c"}, "id"),
        ({"specversion": "1.0", "id": "a", "source": "b", "type": "c", "Upper": 1}, "Upper"),
        ({"specversion": "1.0", "id": "a", "source": "b", "type": "c", "list": [1]}, "list"),
        ({"specversion": "1.0", "id": "a", "source": "b", "type": "c", "data_base64": "!"}, "data_base64"),
        (
            {"specversion": "1.0", "id": "a", "source": "b", "type": "c", "data": 1, "data_base64": "aa=="},
            "data_base64",
        ),
        ({"specversion": "1.0", "id": "a", "source": "b", "type": "c", "topic": 7}, "topic"),
    ],
)
def test_what_is_no_cloud_event_is_told_by_its_field(record: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as refused:
        read_cloud_event(record)
    assert refused.value.field == field


def test_xml_is_the_document_and_bytes_are_base64() -> None:
    base = {"ce-specversion": "1.0", "ce-id": "a", "ce-source": "b", "ce-type": "c"}
    for kind, body, found in (
        ("application/xml", b"<a/>", {"document": "<a/>"}),
        ("text/plain", "\u00e9".encode(), {"data": "\u00e9"}),
        ("application/octet-stream", b"\xff", {"data_base64": "/w=="}),
        ("application/json", b"[1, 2]", {"data": (1, 2)}),
    ):
        [(_, event)], rejected = read_events({**base, "content-type": kind}, body, 1)
        assert rejected == []
        assert {"document": event.document, **event.attributes}.items() >= found.items()
        sent = cloud_event(event)
        assert read_cloud_event(read_object(to_json(sent))) == event


@given(st.sampled_from([JSON, CLOUD_EVENT, CLOUD_EVENTS, LINES[0], "binary"]), st.data())
def test_whatever_bytes_come_the_outcome_is_events_and_reasons(kind: str, data: st.DataObject) -> None:
    record = data.draw(CLOUD_EVENT_RECORDS | MEMBERS | SCALARS)
    body = json.dumps(data.draw(st.sampled_from([record, [record, 7, record]]))).encode()
    cut = data.draw(st.integers(0, len(body)))
    body = data.draw(st.sampled_from([body, body[:cut], body[cut:], body[:cut] + b"\xff\n\0" + body[cut:]]))
    headers = {"content-type": kind}
    if kind == "binary":
        names = data.draw(st.dictionaries(st.sampled_from(["id", "source", "type", "X y", "topic"]), TEXTS))
        headers = {"ce-specversion": "1.0", **{f"ce-{name}": value for name, value in names.items()}}
    try:
        events, rejected = read_events(headers, body, 3)
    except WebError as error:
        if error.status in (400, 413, 415):
            return
        raise
    places = [place for place, _ in events] + [each.place for each in rejected]
    assert sorted(places) == list(range(len(places)))
    assert all(each.reason for each in rejected)
