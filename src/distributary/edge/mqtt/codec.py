"""Packets of MQTT 3.1.1 and 5 as bytes, and bytes as packets.

Rules:

- Whatever the bytes are, the outcome is a packet or an `MqttError` that says what is wrong: malformed (not
  what its kind looks like) or against the protocol. Both directions are read, so that tests can be clients.
- Strict: reserved bits, flags, lengths, empty lists, topics with wildcards, packet identifiers of 0, texts
  that are not UTF-8 or hold U+0000, codes that a packet may not have: each is refused.
- This is the codec for every packet; `frames` reads the many that are PUBLISH and acknowledgements faster,
  and is tested to read the same.
"""

from __future__ import annotations

from collections.abc import Callable

from distributary.edge.mqtt.fields import PacketReader, text_bytes, variable_integer
from distributary.edge.mqtt.packets import (
    NO_PROPERTIES,
    VERSION_3,
    VERSION_5,
    AckPacket,
    AuthPacket,
    CodesPacket,
    ConnackPacket,
    ConnectPacket,
    DisconnectPacket,
    FilterRequest,
    MqttError,
    MqttPacket,
    PacketKind,
    PingPacket,
    Properties,
    PublishPacket,
    ReasonCode,
    SubscribePacket,
    UnsubscribePacket,
    WillMessage,
    bad_packet,
    protocol_error,
)
from distributary.edge.mqtt.properties import WILL, read_properties, write_properties

K = PacketKind
PROTOCOL_NAME = "MQTT"
LONGEST_REASON = 400
"""Characters of a reason that a client is told."""

CONNACK_CODES_3 = {
    ReasonCode.SUCCESS: 0,
    ReasonCode.UNSUPPORTED_VERSION: 1,
    ReasonCode.CLIENT_ID_NOT_VALID: 2,
    ReasonCode.SERVER_UNAVAILABLE: 3,
    ReasonCode.SERVER_BUSY: 3,
    ReasonCode.QUOTA_EXCEEDED: 3,
    ReasonCode.BAD_USER_OR_PASSWORD: 4,
    ReasonCode.NOT_AUTHORIZED: 5,
}
"""What version 3.1.1 says in CONNACK; other reasons have no code there, the connection just ends."""
_REASONS_3 = {code: reason for reason, code in reversed(CONNACK_CODES_3.items())}
REFUSED_3 = 0x80
"""What version 3.1.1 says in SUBACK for a filter that is refused."""

_SHORT_ACKS = {0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99}
_RELEASE_CODES = {0x00, 0x92}
_ACK_CODES = {
    K.PUBACK: _SHORT_ACKS,
    K.PUBREC: _SHORT_ACKS,
    K.PUBREL: _RELEASE_CODES,
    K.PUBCOMP: _RELEASE_CODES,
}
_SUBACK_CODES = {0, 1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2}
_UNSUBACK_CODES = {0, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91}
_DISCONNECT_CODES = {0x00, 0x04, *range(0x80, 0xA3)} - {0x84, 0x85, 0x86, 0x88, 0x8A, 0x8C, 0x91, 0x92}
_AUTH_CODES = {0x00, 0x18, 0x19}


# Reading.


def read_packet(first: int, body: bytes, version: int) -> MqttPacket:
    """The packet of a first byte and the body behind its length; MqttError when it is none.

    The version is that of the connection; CONNECT names its own.
    """
    kind = first >> 4
    if kind == K.PUBLISH:
        return _read_publish(first & 15, body, version)
    if not kind or (kind == K.AUTH and version != VERSION_5):
        raise bad_packet(f"there is no packet of kind {kind}")
    flags = 2 if kind in (K.PUBREL, K.SUBSCRIBE, K.UNSUBSCRIBE) else 0
    if first & 15 != flags:
        raise bad_packet(f"{K(kind).name} has other flags than {flags}")
    reader = PacketReader(body)
    packet = _READERS[K(kind)](reader, K(kind), version)
    reader.finish()
    return packet


def _packet_id(reader: PacketReader) -> int:
    packet_id = reader.two()
    if not packet_id:
        raise bad_packet("a packet identifier of 0")
    return packet_id


def require_topic(topic: str) -> None:
    """Refuse a topic name with wildcards."""
    if "+" in topic or "#" in topic:
        raise MqttError(ReasonCode.TOPIC_NAME_INVALID, "the topic of a message has no wildcards")


def _read_publish(flags: int, body: bytes, version: int) -> PublishPacket:
    reader = PacketReader(body)
    qos, duplicate = flags >> 1 & 3, bool(flags & 8)
    if qos == 3:
        raise bad_packet("there is no QoS 3")
    if duplicate and not qos:
        raise bad_packet("a message of QoS 0 is no duplicate")
    topic = reader.text()
    require_topic(topic)
    packet_id = _packet_id(reader) if qos else 0
    properties = NO_PROPERTIES
    if version == VERSION_5:
        properties = read_properties(reader, K.PUBLISH)
        if (answer := properties.get("response_topic")) is not None:
            require_topic(answer)
            if not answer:
                raise protocol_error("an empty response topic")
        if properties.get("topic_alias") == 0:
            raise MqttError(ReasonCode.TOPIC_ALIAS_INVALID, "a topic alias of 0")
    if not topic and "topic_alias" not in properties:
        raise protocol_error("a message without a topic")
    return PublishPacket(topic, reader.rest(), qos, bool(flags & 1), packet_id, duplicate, properties)


def _read_connect(reader: PacketReader, kind: PacketKind, version: int) -> ConnectPacket:
    name, level = reader.text(), reader.byte()
    if name != PROTOCOL_NAME or level not in (VERSION_3, VERSION_5):
        raise MqttError(ReasonCode.UNSUPPORTED_VERSION, f"{name} of level {level} is not spoken here")
    flags, keep_alive = reader.byte(), reader.two()
    if flags & 1:
        raise bad_packet("the reserved flag of CONNECT is set")
    has_user, has_password, has_will = bool(flags & 0x80), bool(flags & 0x40), bool(flags & 4)
    if level == VERSION_3 and has_password and not has_user:
        raise bad_packet("a password without a user name")
    will_qos = flags >> 3 & 3
    if will_qos == 3 or (not has_will and flags & 0x38):
        raise bad_packet("the flags of the will do not go together")
    properties = read_properties(reader, K.CONNECT) if level == VERSION_5 else NO_PROPERTIES
    if "authentication_data" in properties and "authentication_method" not in properties:
        raise protocol_error("authentication data without a method")
    client = reader.text()
    will = _read_will(reader, level, will_qos, bool(flags & 0x20)) if has_will else None
    user = reader.text() if has_user else None
    password = reader.binary() if has_password else None
    return ConnectPacket(level, client, bool(flags & 2), keep_alive, will, user, password, properties)


def _read_will(reader: PacketReader, version: int, qos: int, retain: bool) -> WillMessage:
    properties = read_properties(reader, WILL) if version == VERSION_5 else NO_PROPERTIES
    topic = reader.text()
    if not topic:
        raise bad_packet("a will without a topic")
    require_topic(topic)
    if properties.get("response_topic") is not None:
        require_topic(properties["response_topic"])
    return WillMessage(topic, reader.binary(), qos, retain, properties)


def _read_connack(reader: PacketReader, kind: PacketKind, version: int) -> ConnackPacket:
    flags, code = reader.byte(), reader.byte()
    if flags > 1:
        raise bad_packet("reserved flags of CONNACK are set")
    if version == VERSION_5:
        try:
            reason = ReasonCode(code)
        except ValueError as error:
            raise bad_packet(f"CONNACK has no code {code:#x}") from error
        return ConnackPacket(bool(flags), reason, read_properties(reader, kind))
    if code not in _REASONS_3:
        raise bad_packet(f"CONNACK has no code {code:#x}")
    return ConnackPacket(bool(flags), _REASONS_3[code])


def _read_ack(reader: PacketReader, kind: PacketKind, version: int) -> AckPacket:
    packet_id = _packet_id(reader)
    if version != VERSION_5 or not reader.left:
        return AckPacket(kind, packet_id)
    code = _code(reader, kind, _ACK_CODES[kind])
    properties = read_properties(reader, kind) if reader.left else NO_PROPERTIES
    return AckPacket(kind, packet_id, code, properties)


def _code(reader: PacketReader, kind: PacketKind, codes: set[int]) -> int:
    code = reader.byte()
    if code not in codes:
        raise bad_packet(f"{kind.name} has no code {code:#x}")
    return code


def _read_subscribe(reader: PacketReader, kind: PacketKind, version: int) -> SubscribePacket:
    packet_id = _packet_id(reader)
    properties = read_properties(reader, kind) if version == VERSION_5 else NO_PROPERTIES
    filters = []
    while reader.left:
        text, options = reader.text(), reader.byte()
        qos, handling = options & 3, options >> 4 & 3
        reserved = 0xC0 if version == VERSION_5 else 0xFC
        if options & reserved or qos == 3:
            raise bad_packet("options of a subscription that there are not")
        if handling == 3:
            raise protocol_error("there is no retain handling 3")
        filters.append(FilterRequest(text, qos, bool(options & 4), bool(options & 8), handling))
    if not filters:
        raise protocol_error("SUBSCRIBE without a filter")
    return SubscribePacket(packet_id, tuple(filters), properties)


def _read_unsubscribe(reader: PacketReader, kind: PacketKind, version: int) -> UnsubscribePacket:
    packet_id = _packet_id(reader)
    properties = read_properties(reader, kind) if version == VERSION_5 else NO_PROPERTIES
    filters = []
    while reader.left:
        filters.append(reader.text())
    if not filters:
        raise protocol_error("UNSUBSCRIBE without a filter")
    return UnsubscribePacket(packet_id, tuple(filters), properties)


def _read_codes(reader: PacketReader, kind: PacketKind, version: int) -> CodesPacket:
    packet_id = _packet_id(reader)
    if version != VERSION_5 and kind == K.UNSUBACK:
        return CodesPacket(kind, packet_id, ())
    properties = read_properties(reader, kind) if version == VERSION_5 else NO_PROPERTIES
    known = _SUBACK_CODES if kind == K.SUBACK else _UNSUBACK_CODES
    if version != VERSION_5:
        known = {0, 1, 2, REFUSED_3}
    codes = []
    while reader.left:
        codes.append(_code(reader, kind, known))
    if not codes:
        raise bad_packet(f"{kind.name} without a code")
    return CodesPacket(kind, packet_id, tuple(codes), properties)


def _read_ping(reader: PacketReader, kind: PacketKind, version: int) -> PingPacket:
    return PingPacket(kind)


def _read_disconnect(reader: PacketReader, kind: PacketKind, version: int) -> DisconnectPacket:
    if version != VERSION_5 or not reader.left:
        return DisconnectPacket()
    code = _code(reader, kind, _DISCONNECT_CODES)
    return DisconnectPacket(code, read_properties(reader, kind) if reader.left else NO_PROPERTIES)


def _read_auth(reader: PacketReader, kind: PacketKind, version: int) -> AuthPacket:
    if not reader.left:
        return AuthPacket()
    code = _code(reader, kind, _AUTH_CODES)
    return AuthPacket(code, read_properties(reader, kind) if reader.left else NO_PROPERTIES)


_READERS: dict[PacketKind, Callable[[PacketReader, PacketKind, int], MqttPacket]] = {
    K.CONNECT: _read_connect,
    K.CONNACK: _read_connack,
    K.PUBACK: _read_ack,
    K.PUBREC: _read_ack,
    K.PUBREL: _read_ack,
    K.PUBCOMP: _read_ack,
    K.SUBSCRIBE: _read_subscribe,
    K.SUBACK: _read_codes,
    K.UNSUBSCRIBE: _read_unsubscribe,
    K.UNSUBACK: _read_codes,
    K.PINGREQ: _read_ping,
    K.PINGRESP: _read_ping,
    K.DISCONNECT: _read_disconnect,
    K.AUTH: _read_auth,
}


# Writing.


def write_packet(packet: MqttPacket, version: int) -> bytes:
    """The bytes of a packet.

    >>> write_packet(PublishPacket("A/B", b"hello"), VERSION_3)
    b'0\\n\\x00\\x03A/Bhello'
    """
    first, body = _written(packet, version)
    return bytes((first,)) + variable_integer(len(body)) + body


def write_told(
    packet: AckPacket | CodesPacket | ConnackPacket | DisconnectPacket,
    version: int,
    reason: str | None,
    longest: int | None,
) -> bytes:
    """The bytes of an answer with a reason in words, if there is one and it fits in what the client takes."""
    if reason is not None and version == VERSION_5:
        told = {**packet.properties, "reason_string": reason[:LONGEST_REASON]}
        written = write_packet(packet._replace(properties=told), version)
        if longest is None or len(written) <= longest:
            return written
    return write_packet(packet, version)


def _written(packet: MqttPacket, version: int) -> tuple[int, bytes]:
    match packet:
        case PublishPacket(topic, payload, qos, retain, packet_id, duplicate, properties):
            head = text_bytes(topic) + (packet_id.to_bytes(2, "big") if qos else b"")
            flags = duplicate << 3 | qos << 1 | retain
            return K.PUBLISH << 4 | flags, head + _properties(properties, version) + payload
        case AckPacket(kind, packet_id, reason, properties):
            body = packet_id.to_bytes(2, "big")
            if version == VERSION_5 and (reason or properties):
                body += bytes((reason,)) + (write_properties(properties) if properties else b"")
            return kind << 4 | (2 if kind == K.PUBREL else 0), body
        case ConnectPacket():
            return K.CONNECT << 4, _written_connect(packet)
        case ConnackPacket(present, reason, properties):
            code = reason if version == VERSION_5 else CONNACK_CODES_3[reason]
            return K.CONNACK << 4, bytes((present, code)) + _properties(properties, version)
        case SubscribePacket(packet_id, filters, properties):
            body = packet_id.to_bytes(2, "big") + _properties(properties, version)
            for text, qos, no_local, as_published, handling in filters:
                options = qos | no_local << 2 | as_published << 3 | handling << 4
                body += text_bytes(text) + bytes((options,))
            return K.SUBSCRIBE << 4 | 2, body
        case UnsubscribePacket(packet_id, texts, properties):
            body = packet_id.to_bytes(2, "big") + _properties(properties, version)
            return K.UNSUBSCRIBE << 4 | 2, body + b"".join(map(text_bytes, texts))
        case CodesPacket(kind, packet_id, reasons, properties):
            body = packet_id.to_bytes(2, "big") + _properties(properties, version)
            if version != VERSION_5:
                reasons = () if kind == K.UNSUBACK else tuple(min(code, REFUSED_3) for code in reasons)
            return kind << 4, body + bytes(reasons)
        case PingPacket(kind):
            return kind << 4, b""
        case DisconnectPacket(reason, properties) | AuthPacket(reason, properties):
            kind = K.AUTH if isinstance(packet, AuthPacket) else K.DISCONNECT
            if version != VERSION_5 or not (reason or properties):
                return kind << 4, b""
            return kind << 4, bytes((reason,)) + (write_properties(properties) if properties else b"")


def _properties(properties: Properties, version: int) -> bytes:
    return write_properties(properties) if version == VERSION_5 else b""


def _written_connect(packet: ConnectPacket) -> bytes:
    version, will = packet.version, packet.will
    flags = packet.clean << 1 | (packet.user is not None) << 7 | (packet.password is not None) << 6
    if will is not None:
        flags |= 4 | will.qos << 3 | will.retain << 5
    body = text_bytes(PROTOCOL_NAME) + bytes((version, flags)) + packet.keep_alive.to_bytes(2, "big")
    body += _properties(packet.properties, version) + text_bytes(packet.client)
    if will is not None:
        body += _properties(will.properties, version) + text_bytes(will.topic)
        body += len(will.payload).to_bytes(2, "big") + will.payload
    if packet.user is not None:
        body += text_bytes(packet.user)
    if packet.password is not None:
        body += len(packet.password).to_bytes(2, "big") + packet.password
    return body
