"""The packets of MQTT in one form for both versions, 3.1.1 and 5, and what goes wrong with them.

Version 3.1.1 has no properties and few reason codes: there the properties are empty, and a reason is written
as the code that 3.1.1 has for it, or not at all (`codec`). Names of properties are those of the specification
of version 5, in small letters with underscores.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from distributary.errors import DistributaryError

VERSION_3, VERSION_5 = 4, 5
"""The protocol levels of MQTT 3.1.1 and 5, as CONNECT names them."""

Properties = Mapping[str, Any]
NO_PROPERTIES: Properties = MappingProxyType({})


class PacketKind(IntEnum):
    """The kinds of control packets, as the upper half of a packet's first byte names them."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


class ReasonCode(IntEnum):
    """ReasonCode codes of version 5; one name where a code has several."""

    SUCCESS = 0x00
    DISCONNECT_WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    UNSPECIFIED = 0x80
    BAD_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC = 0x83
    UNSUPPORTED_VERSION = 0x84
    CLIENT_ID_NOT_VALID = 0x85
    BAD_USER_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_ID_IN_USE = 0x91
    PACKET_ID_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99


class MqttError(DistributaryError):
    """A client has broken the protocol, or is refused: its connection ends with this reason."""

    def __init__(self, reason: ReasonCode, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def bad_packet(text: str) -> MqttError:
    """Bytes that are no packet."""
    return MqttError(ReasonCode.BAD_PACKET, text)


def protocol_error(text: str) -> MqttError:
    """A packet that must not come, or not here."""
    return MqttError(ReasonCode.PROTOCOL_ERROR, text)


class WillMessage(NamedTuple):
    """What is published when a client is gone without saying so."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = NO_PROPERTIES


class ConnectPacket(NamedTuple):
    """A client asks to be let in."""

    version: int
    client: str
    clean: bool = True
    keep_alive: int = 0
    will: WillMessage | None = None
    user: str | None = None
    password: bytes | None = None
    properties: Properties = NO_PROPERTIES


class ConnackPacket(NamedTuple):
    """The answer to CONNECT."""

    present: bool
    reason: ReasonCode
    properties: Properties = NO_PROPERTIES


class PublishPacket(NamedTuple):
    """A message, either way. The topic is empty where an alias stands for it."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    packet_id: int = 0
    """0 at QoS 0, which has none."""
    duplicate: bool = False
    properties: Properties = NO_PROPERTIES


class AckPacket(NamedTuple):
    """PUBACK, PUBREC, PUBREL or PUBCOMP."""

    kind: PacketKind
    packet_id: int
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class FilterRequest(NamedTuple):
    """A topic filter of SUBSCRIBE with its options."""

    text: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


class SubscribePacket(NamedTuple):
    """A client subscribes."""

    packet_id: int
    filters: tuple[FilterRequest, ...]
    properties: Properties = NO_PROPERTIES


class UnsubscribePacket(NamedTuple):
    """A client unsubscribes."""

    packet_id: int
    filters: tuple[str, ...]
    properties: Properties = NO_PROPERTIES


class CodesPacket(NamedTuple):
    """SUBACK or UNSUBACK: a code for each filter."""

    kind: PacketKind
    packet_id: int
    reasons: tuple[int, ...]
    properties: Properties = NO_PROPERTIES


class PingPacket(NamedTuple):
    """PINGREQ or PINGRESP."""

    kind: PacketKind = PacketKind.PINGREQ


class DisconnectPacket(NamedTuple):
    """Either side ends the connection."""

    reason: int = 0
    properties: Properties = NO_PROPERTIES


class AuthPacket(NamedTuple):
    """A step of an authentication of several."""

    reason: int = 0
    properties: Properties = NO_PROPERTIES


MqttPacket = (
    ConnectPacket
    | ConnackPacket
    | PublishPacket
    | AckPacket
    | SubscribePacket
    | UnsubscribePacket
    | CodesPacket
    | PingPacket
    | DisconnectPacket
    | AuthPacket
)
