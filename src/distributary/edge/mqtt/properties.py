"""The properties of version 5: which there are, where each may stand, and their bytes.

Reading checks what section 2.2.2 of the specification asks for: known, allowed in its packet, at most once
(but for user properties, and subscription identifiers in PUBLISH), and with a value that it may have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from distributary.edge.mqtt.fields import PacketReader, text_bytes, variable_integer
from distributary.edge.mqtt.packets import PacketKind, Properties, bad_packet, protocol_error

WILL = 0
"""Stands in this table for the properties of a will, beside the kinds of packets."""

K = PacketKind
_ACKS = frozenset((K.PUBACK, K.PUBREC, K.PUBREL, K.PUBCOMP))
_MESSAGE = frozenset((K.PUBLISH, WILL))
_EVERYWHERE = frozenset((*K, WILL)) - {K.PINGREQ, K.PINGRESP}
_REASONS = _ACKS | {K.CONNACK, K.SUBACK, K.UNSUBACK, K.DISCONNECT, K.AUTH}


class _Property(NamedTuple):
    name: str
    form: str
    """byte, bit (a byte that is 0 or 1), two, four, length (a variable integer), text, binary, pair."""
    kinds: frozenset[int]
    zero: bool = True
    """Whether its number may be 0."""


_PROPERTIES: dict[int, _Property] = {
    0x01: _Property("payload_format_indicator", "bit", _MESSAGE),
    0x02: _Property("message_expiry_interval", "four", _MESSAGE),
    0x03: _Property("content_type", "text", _MESSAGE),
    0x08: _Property("response_topic", "text", _MESSAGE),
    0x09: _Property("correlation_data", "binary", _MESSAGE),
    0x0B: _Property("subscription_identifier", "length", frozenset((K.PUBLISH, K.SUBSCRIBE)), False),
    0x11: _Property("session_expiry_interval", "four", frozenset((K.CONNECT, K.CONNACK, K.DISCONNECT))),
    0x12: _Property("assigned_client_identifier", "text", frozenset((K.CONNACK,))),
    0x13: _Property("server_keep_alive", "two", frozenset((K.CONNACK,))),
    0x15: _Property("authentication_method", "text", frozenset((K.CONNECT, K.CONNACK, K.AUTH))),
    0x16: _Property("authentication_data", "binary", frozenset((K.CONNECT, K.CONNACK, K.AUTH))),
    0x17: _Property("request_problem_information", "bit", frozenset((K.CONNECT,))),
    0x18: _Property("will_delay_interval", "four", frozenset((WILL,))),
    0x19: _Property("request_response_information", "bit", frozenset((K.CONNECT,))),
    0x1A: _Property("response_information", "text", frozenset((K.CONNACK,))),
    0x1C: _Property("server_reference", "text", frozenset((K.CONNACK, K.DISCONNECT))),
    0x1F: _Property("reason_string", "text", frozenset(_REASONS)),
    0x21: _Property("receive_maximum", "two", frozenset((K.CONNECT, K.CONNACK)), False),
    0x22: _Property("topic_alias_maximum", "two", frozenset((K.CONNECT, K.CONNACK))),
    0x23: _Property("topic_alias", "two", frozenset((K.PUBLISH,))),
    0x24: _Property("maximum_qos", "bit", frozenset((K.CONNACK,))),
    0x25: _Property("retain_available", "bit", frozenset((K.CONNACK,))),
    0x26: _Property("user_property", "pair", frozenset(_EVERYWHERE)),
    0x27: _Property("maximum_packet_size", "four", frozenset((K.CONNECT, K.CONNACK)), False),
    0x28: _Property("wildcard_subscription_available", "bit", frozenset((K.CONNACK,))),
    0x29: _Property("subscription_identifier_available", "bit", frozenset((K.CONNACK,))),
    0x2A: _Property("shared_subscription_available", "bit", frozenset((K.CONNACK,))),
}
_BY_NAME = {each.name: (number, each) for number, each in _PROPERTIES.items()}


def read_properties(reader: PacketReader, kind: int) -> Properties:
    """The properties that stand next in a packet of a kind, by name.

    The values of `user_property` are a tuple of pairs, those of `subscription_identifier` in PUBLISH a tuple
    of numbers.
    """
    inside = reader.part(reader.variable_integer())
    found: dict[str, Any] = {}
    while inside.left:
        number = inside.variable_integer()
        known = _PROPERTIES.get(number)
        if known is None or kind not in known.kinds:
            raise bad_packet(f"property {number:#x} must not stand in this packet")
        name = known.name
        value = _read_value(inside, known)
        if known.form == "pair" or (kind == K.PUBLISH and number == 0x0B):
            found[name] = (*found.get(name, ()), value)
        elif name in found:
            raise protocol_error(f"the property {name} stands twice in a packet")
        else:
            found[name] = value
    return found


def _read_value(reader: PacketReader, known: _Property) -> Any:
    match known.form:
        case "byte" | "bit":
            value: Any = reader.byte()
            if known.form == "bit" and value > 1:
                raise protocol_error(f"the property {known.name} is 0 or 1, not {value}")
        case "two":
            value = reader.two()
        case "four":
            value = reader.four()
        case "length":
            value = reader.variable_integer()
        case "text":
            value = reader.text()
        case "binary":
            value = reader.binary()
        case _:
            value = (reader.text(), reader.text())
    if value == 0 and not known.zero:
        raise protocol_error(f"the property {known.name} must not be 0")
    return value


def write_properties(properties: Mapping[str, Any]) -> bytes:
    """The bytes of properties, their length first; a value of None is left out."""
    if not properties:
        return b"\0"
    parts = bytearray()
    for name, value in properties.items():
        number, known = _BY_NAME[name]
        if value is None:
            continue
        values = value if known.form == "pair" or isinstance(value, tuple) else (value,)
        for each in values:
            parts.append(number)
            parts += _written_value(known.form, each)
    return variable_integer(len(parts)) + bytes(parts)


def _written_value(form: str, value: Any) -> bytes:
    match form:
        case "byte" | "bit":
            return bytes((value,))
        case "two":
            return int(value).to_bytes(2, "big")
        case "four":
            return int(value).to_bytes(4, "big")
        case "length":
            return variable_integer(value)
        case "text":
            return text_bytes(value)
        case "binary":
            return len(value).to_bytes(2, "big") + bytes(value)
    return text_bytes(value[0]) + text_bytes(value[1])
