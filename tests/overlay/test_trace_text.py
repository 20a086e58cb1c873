"""Traces as text: what is written of a message can be read again, whatever its kind."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from distributary.errors import DistributaryError
from distributary.overlay.trace_text import parse_line, text_of, value_of
from live.random_messages import ALL_KINDS, messages

plain = some.recursive(
    some.none()
    | some.booleans()
    | some.integers()
    | some.floats(allow_nan=False)
    | some.text()
    | some.binary(),
    lambda inner: (
        some.lists(inner)
        | some.tuples(inner, inner)
        | some.dictionaries(some.text(), inner)
        | some.frozensets(some.integers() | some.text())
    ),
)


@given(plain)
def test_plain_values_are_read_as_they_were_written(value: object) -> None:
    assert value_of(text_of(value)) == value


@pytest.mark.parametrize("name", ALL_KINDS)
@settings(max_examples=5, suppress_health_check=list(HealthCheck))
@given(some.data())
def test_every_kind_of_message_is_read_as_it_was_written(name: str, data: some.DataObject) -> None:
    message = data.draw(messages(name))
    text = text_of(message)
    if "<Type." in text:
        with pytest.raises(DistributaryError):
            value_of(text)
        return
    found = value_of(text)
    assert text_of(found) == text
    assert type(found) is type(message)


@pytest.mark.parametrize(
    "text",
    ["", "open('x')", "__import__('os')", "a.b", "[x for x in y]", "Ack(1)", "Ack(number=1, x=2)", "1 +"],
)
def test_what_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(DistributaryError):
        value_of(text)


def test_lines_are_taken_apart() -> None:
    sent = parse_line("12.05 sent 17 > 93 Ack(note=' | ') | publish e4 depth 2")
    assert sent == (12.05, "sent", 17, 93, "Ack(note=' | ')")
    assert parse_line("1.0 received 17 > 93 'a'") == (1.0, "received", 93, 17, "'a'")
    assert parse_line("1.0 woken 17 tick (1, 2)") == (1.0, "woken", 17, None, "tick (1, 2)")
    assert parse_line("1.0 happened everywhere a storm") == (1.0, "happened", None, None, "a storm")
    with pytest.raises(DistributaryError, match="no line of a trace: 'nonsense'"):
        parse_line("nonsense")
