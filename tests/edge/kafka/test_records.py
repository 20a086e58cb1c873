"""Records as events and events as records: identities, topics, values, and what is malformed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.edge.kafka.records import KafkaRecord, RecordReader, message_of
from distributary.edge.kafka.settings import KafkaSource
from distributary.edge.payloads import payload_of
from distributary.errors import InputError
from distributary.model import Event

CLOUD = (("ce_specversion", b"1.0"), ("ce_id", b"e1"), ("ce_source", b"/bourse"), ("ce_type", b"quote"))


def read(
    value: bytes | None, *headers: tuple[str, bytes | None], key: bytes | None = None, **more: Any
) -> Event:
    """The event of a record at quotes[2]@7 by a source with these settings."""
    record = KafkaRecord("quotes", 2, 7, value, key, headers, 1_000)
    return RecordReader(KafkaSource(("quotes",), **more), "kafka").event(record)


def test_a_record_is_known_by_its_place_and_its_value_gives_attributes() -> None:
    event = read(b'{"price": 8.4, "id": 1, "kafka.topic": "other", "wind": {"speed": 3}}', key=b"OTE")
    assert (event.id, event.source, event.topic) == ("quotes-2-7", "kafka", "quotes")
    told = {"price": 8.4, "wind.speed": 3, "kafka.topic": "quotes", "kafka.partition": 2, "kafka.offset": 7}
    assert event.attributes.items() >= (told | {"kafka.key": "OTE", "kafka.time": 1_000}).items()


@pytest.mark.parametrize("values", ["auto", "json"])
def test_json_is_read_without_the_schema_id_of_a_registry(values: str) -> None:
    assert read(b'\0\0\0\1\2{"price": 8.4}', values=values) == read(b'{"price": 8.4}')
    cloud = read(b'\0\0\0\1\2{"price": 8.4}', *CLOUD, values=values)
    assert cloud.attributes["price"] == 8.4
    with pytest.raises(InputError, match="the value is no"):
        read(b"\0\0\0\1\2[8.4]", values=values)


def test_an_xml_value_is_the_document() -> None:
    assert read(b"<a><b/></a>").document == "<a><b/></a>"


def test_headers_are_attributes_where_they_are_texts() -> None:
    event = read(b"{}", ("trace", b"17"), ("odd", b"\xff"), ("empty", None))
    headers = {name: value for name, value in event.attributes.items() if name.startswith("kafka.header.")}
    assert headers == {"kafka.header.trace": "17", "kafka.header.empty": ""}


def test_a_cloud_event_is_known_by_its_own_id_and_source() -> None:
    event = read(b'{"price": 8.4, "type": "x"}', *CLOUD, ("content-type", b"application/json"))
    assert (event.source, event.id, event.topic) == ("/bourse", "e1", "quotes")
    assert event.attributes.items() >= {"price": 8.4, "type": "quote", "data.type": "x"}.items()
    assert payload_of(event) == b'{"price": 8.4, "type": "x"}'


def test_a_cloud_event_may_name_its_topic_and_have_no_data() -> None:
    event = read(None, *CLOUD, ("ce_topic", b"stocks/OTE"))
    assert (event.id, event.topic) == ("e1", "stocks/OTE")


def test_a_cloud_event_in_structured_form_is_read_too() -> None:
    value = b'{"specversion": "1.0", "id": "e1", "source": "/b", "type": "quote", "data": {"price": 8.4}}'
    event = read(value, ("content-type", b"application/cloudevents+json; charset=utf-8"), topic="{type}s")
    assert (event.source, event.id, event.topic) == ("/b", "e1", "quotes")
    assert event.attributes["price"] == 8.4


def test_bytes_of_a_cloud_event_come_out_as_they_came() -> None:
    assert payload_of(read(b"\xff\x00", *CLOUD, ("content-type", b"image/png"))) == b"\xff\x00"


@pytest.mark.parametrize(
    ("template", "topic"),
    [("{topic}", "quotes"), ("all/{key}", "all/OTE"), ("{topic}/{partition}", "quotes/2")],
)
def test_the_topic_is_made_by_a_template(template: str, topic: str) -> None:
    assert read(b"{}", key=b"OTE", topic=template).topic == topic


def test_names_of_topics_have_levels_where_that_is_said() -> None:
    record = KafkaRecord("plant.hall-1.heat", 0, 0, b"{}")
    reader = RecordReader(KafkaSource(("^plant",), separator="."), "kafka")
    assert reader.event(record).topic == "plant/hall-1/heat"


@pytest.mark.parametrize(
    ("value", "headers", "settings", "reason"),
    [
        (None, (), {}, "is a tombstone: it has no value"),
        (b"", (), {}, "no JSON object and no XML document"),
        (b"plain", (), {}, "no JSON object and no XML document"),
        (b"[1]", (), {"values": "json"}, "no JSON object"),
        (b'{"price": ', (), {}, "JSON"),
        (b'{"price": 1, "price": }', (), {}, "JSON"),
        (b"<a>", (), {}, "no JSON object and no XML document"),
        (b"<a/>", (), {"values": "json"}, "an XML document"),
        (b"{}", (), {"values": "xml"}, "no XML document"),
        (b"\xff{", (), {}, "no JSON object"),
        (b"{}", (), {"topic": "{key}"}, "the key, and it has none"),
        (b"{}", (("ce_id", b"e1"),), {}, "specversion"),
        (b"{}", CLOUD[:2], {}, "source"),
        (b"{", CLOUD, {}, "JSON"),
        (b"[]", (("content-type", b"application/cloudevents+json"),), {}, "JSON object"),
    ],
)
def test_what_is_malformed_is_refused_with_the_reason(
    value: bytes | None, headers: tuple[tuple[str, bytes]], settings: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        read(value, *headers, **settings)


def test_what_is_too_deep_or_too_long_is_refused() -> None:
    with pytest.raises(InputError, match="levels"):
        read(b'{"a":' * 80 + b"1" + b"}" * 80)
    with pytest.raises(InputError, match="bytes"):
        read(b'{"a": "' + b"x" * (16 << 20) + b'"}')


def test_keys_that_are_no_text_are_refused_only_where_the_topic_is_made_of_them() -> None:
    assert "kafka.key" not in read(b"{}", key=b"\xff").attributes
    with pytest.raises(InputError, match="not UTF-8"):
        read(b"{}", key=b"\xff", topic="{key}")


def test_tombstones_and_any_values_are_events_where_that_is_said() -> None:
    assert read(None, key=b"OTE", tombstones=True).attributes["kafka.tombstone"] is True
    assert payload_of(read(b"\xffplain", values="any")) == b"\xffplain"


TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
VALUES = st.one_of(
    TEXTS, st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False), st.booleans()
)


@given(TEXTS, TEXTS, st.dictionaries(st.from_regex("[a-z]{2,6}x", fullmatch=True), VALUES))
def test_an_event_that_was_written_is_read_as_the_same(
    id: str, source: str, attributes: dict[str, Any]
) -> None:
    event = Event(id, "quotes/OTE", {**attributes, "source": source})
    message = message_of(event, "dear")
    again = read(message.value, *message.headers, key=message.key)
    assert (again.key, again.topic) == (event.key, event.topic)
    assert again.attributes.items() >= attributes.items()


@given(st.binary(min_size=1))
def test_the_bytes_of_a_record_are_written_as_they_were_read(value: bytes) -> None:
    message = message_of(read(value, values="any"), "dear")
    assert message.value == value
    again = read(message.value, *message.headers, values="any")
    assert again.key == ("kafka", "quotes-2-7")
    assert payload_of(again) == value
