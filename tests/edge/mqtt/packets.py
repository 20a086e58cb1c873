"""Strategies for packets of MQTT."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from distributary.edge.mqtt.packets import (
    VERSION_3,
    VERSION_5,
    AckPacket,
    CodesPacket,
    ConnackPacket,
    ConnectPacket,
    DisconnectPacket,
    FilterRequest,
    MqttPacket,
    PacketKind,
    PingPacket,
    PublishPacket,
    ReasonCode,
    SubscribePacket,
    UnsubscribePacket,
    WillMessage,
)

K = PacketKind
versions = st.sampled_from([VERSION_3, VERSION_5])
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=8)
topics = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0+#"), min_size=1, max_size=8)
payloads = st.binary(max_size=200)
packet_ids = st.integers(1, 65_535)
two = st.integers(0, 65_535)
four = st.integers(0, 2**32 - 1)
pairs = st.lists(st.tuples(texts, texts), min_size=1, max_size=3).map(tuple)

MESSAGE = {
    "payload_format_indicator": st.integers(0, 1),
    "message_expiry_interval": four,
    "content_type": texts,
    "response_topic": topics,
    "correlation_data": payloads,
    "user_property": pairs,
}
TOLD = {"reason_string": texts, "user_property": pairs}


def properties(version: int, chosen: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.just({}) if version == VERSION_3 else st.fixed_dictionaries({}, optional=chosen)


def publishes(version: int) -> st.SearchStrategy[MqttPacket]:
    more = MESSAGE | {
        "topic_alias": st.integers(1, 65_535),
        "subscription_identifier": st.lists(st.integers(1, 268_435_455), min_size=1, max_size=2).map(tuple),
    }
    packets = st.builds(
        PublishPacket,
        topics,
        payloads,
        st.integers(0, 2),
        st.booleans(),
        packet_ids,
        st.booleans(),
        properties(version, more),
    )
    return packets.map(lambda packet: packet if packet.qos else packet._replace(packet_id=0, duplicate=False))


def plain_publishes(version: int) -> st.SearchStrategy[MqttPacket]:
    """Of few topics, so that they come again."""
    few = st.sampled_from(["a", "a/b", "quotes/é", "x" * 200])
    packets = st.builds(
        PublishPacket,
        few,
        payloads,
        st.integers(0, 2),
        st.booleans(),
        packet_ids,
        st.just(False),
        st.just({}),
    )
    return packets.map(lambda packet: packet if packet.qos else packet._replace(packet_id=0))


def connects(version: int) -> st.SearchStrategy[MqttPacket]:
    asked = {
        "session_expiry_interval": four,
        "receive_maximum": st.integers(1, 65_535),
        "maximum_packet_size": st.integers(1, 2**32 - 1),
        "topic_alias_maximum": two,
        "request_response_information": st.integers(0, 1),
        "request_problem_information": st.integers(0, 1),
        "authentication_method": texts,
        "user_property": pairs,
    }
    wills = st.builds(
        WillMessage,
        topics,
        payloads,
        st.integers(0, 2),
        st.booleans(),
        properties(version, MESSAGE | {"will_delay_interval": four}),
    )
    packets = st.builds(
        ConnectPacket,
        st.just(version),
        texts,
        st.booleans(),
        two,
        st.none() | wills,
        st.none() | texts,
        st.none() | payloads,
        properties(version, asked),
    )
    if version == VERSION_3:
        return packets.map(
            lambda packet: packet if packet.user is not None else packet._replace(password=None)
        )
    return packets


def acks(version: int) -> st.SearchStrategy[MqttPacket]:
    kinds = st.sampled_from([K.PUBACK, K.PUBREC, K.PUBREL, K.PUBCOMP])
    if version == VERSION_3:
        return st.builds(AckPacket, kinds, packet_ids, st.just(0), st.just({}))
    firsts = st.builds(
        AckPacket,
        st.sampled_from([K.PUBACK, K.PUBREC]),
        packet_ids,
        st.sampled_from([0, 0x10, 0x80, 0x87, 0x97]),
        properties(version, TOLD),
    )
    seconds = st.builds(
        AckPacket,
        st.sampled_from([K.PUBREL, K.PUBCOMP]),
        packet_ids,
        st.sampled_from([0, 0x92]),
        properties(version, TOLD),
    )
    return firsts | seconds


def subscribes(version: int) -> st.SearchStrategy[MqttPacket]:
    if version == VERSION_3:
        no = st.just(False)
        requests = st.builds(FilterRequest, texts, st.integers(0, 2), no, no, st.just(0))
    else:
        requests = st.builds(
            FilterRequest, texts, st.integers(0, 2), st.booleans(), st.booleans(), st.integers(0, 2)
        )
    asked = {"subscription_identifier": st.integers(1, 268_435_455), "user_property": pairs}
    filters = st.lists(requests, min_size=1, max_size=3).map(tuple)
    return st.builds(SubscribePacket, packet_ids, filters, properties(version, asked))


def unsubscribes(version: int) -> st.SearchStrategy[MqttPacket]:
    filters = st.lists(texts, min_size=1, max_size=3).map(tuple)
    return st.builds(UnsubscribePacket, packet_ids, filters, properties(version, {"user_property": pairs}))


def answers(version: int) -> st.SearchStrategy[MqttPacket]:
    """What a server sends."""
    five = version == VERSION_5
    codes = st.lists(
        st.sampled_from([0, 1, 2, 0x80, 0x87] if five else [0, 1, 2, 0x80]), min_size=1, max_size=3
    )
    welcomes = {"assigned_client_identifier": texts, "server_keep_alive": two, "receive_maximum": packet_ids}
    reasons = st.sampled_from([ReasonCode.SUCCESS, ReasonCode.NOT_AUTHORIZED, ReasonCode.CLIENT_ID_NOT_VALID])
    unsubacks = st.lists(st.sampled_from([0, 0x11]), min_size=1, max_size=3) if five else st.just([])
    return st.one_of(
        st.builds(ConnackPacket, st.booleans(), reasons, properties(version, welcomes | TOLD)),
        st.builds(CodesPacket, st.just(K.SUBACK), packet_ids, codes.map(tuple), properties(version, TOLD)),
        st.builds(
            CodesPacket, st.just(K.UNSUBACK), packet_ids, unsubacks.map(tuple), properties(version, TOLD)
        ),
        st.just(PingPacket(K.PINGRESP)),
    )


def disconnects(version: int) -> st.SearchStrategy[MqttPacket]:
    if version == VERSION_3:
        return st.just(DisconnectPacket())
    more = {"session_expiry_interval": four} | TOLD
    return st.builds(DisconnectPacket, st.sampled_from([0, 4, 0x81, 0x8E]), properties(version, more))


def packets(version: int) -> st.SearchStrategy[MqttPacket]:
    """Any packet, of either side."""
    return st.one_of(
        publishes(version),
        plain_publishes(version),
        connects(version),
        acks(version),
        subscribes(version),
        unsubscribes(version),
        answers(version),
        disconnects(version),
        st.just(PingPacket()),
    )
