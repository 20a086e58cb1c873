"""What a server must do, statement by statement of the specification; docs/mqtt.md names the test of each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from distributary.edge.access import AccessError, Identity
from distributary.edge.access.access import Access
from distributary.edge.mailbox import MailboxBounds, MailboxPolicy
from distributary.edge.mqtt.codec import write_packet
from distributary.edge.mqtt.packets import (
    VERSION_3,
    VERSION_5,
    AckPacket,
    AuthPacket,
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
from distributary.edge.mqtt.retained import RetainedBounds
from distributary.edge.mqtt.room import MqttPeer, MqttSettings
from distributary.edge.mqtt.shared import GROUPS_HERE
from distributary.model import Event
from edge.mqtt.world import Wire, World, acknowledgement, joined, lasting, messages, payloads

K = PacketKind


@pytest.fixture
def world() -> World:
    return World()


def ended(packets: list[MqttPacket]) -> int:
    """The reason of the DISCONNECT that ends these packets."""
    assert isinstance(packets[-1], DisconnectPacket), packets
    return packets[-1].reason


# CONNECT.


def test_the_first_packet_must_be_connect(world: World) -> None:
    wire = Wire(world)
    assert wire.send(PingPacket()) == []
    assert wire.closed


def test_a_second_connect_is_a_protocol_error(world: World) -> None:
    ann = joined(world)
    assert ended(ann.send(ConnectPacket(VERSION_5, "ann"))) == ReasonCode.PROTOCOL_ERROR
    assert ann.closed


def test_an_unknown_version_is_told_so(world: World) -> None:
    wire = Wire(world, VERSION_3)
    data = bytearray(write_packet(ConnectPacket(VERSION_3, "ann"), VERSION_3))
    data[8] = 3
    assert wire.send_bytes(bytes(data)) == [ConnackPacket(False, ReasonCode.UNSUPPORTED_VERSION)]
    assert wire.closed


def test_who_says_nothing_is_let_go(world: World) -> None:
    wire = Wire(world)
    world.pass_time(11)
    assert wire.closed


def test_who_is_not_let_in_is_told_and_nothing_they_sent_is_done(world: World) -> None:
    wire = Wire(world, peer=MqttPeer(loopback=False))
    came = wire.send(ConnectPacket(VERSION_5, "ann"), PublishPacket("a", b"x"))
    assert isinstance(came[0], ConnackPacket)
    assert (came[0].reason, came[0].present, len(came)) == (ReasonCode.NOT_AUTHORIZED, False, 1)
    assert wire.closed
    assert not world.network.log
    old = Wire(world, VERSION_3, MqttPeer(loopback=False))
    assert old.send(ConnectPacket(VERSION_3, "ann")) == [ConnackPacket(False, ReasonCode.NOT_AUTHORIZED)]


def test_a_client_without_a_name_gets_one(world: World) -> None:
    first, second = Wire(world).connect(""), Wire(world).connect("")
    names = {each.properties["assigned_client_identifier"] for each in (first, second)}
    assert len(names) == 2
    assert Wire(world, VERSION_3).connect("").reason == ReasonCode.SUCCESS
    refused = Wire(world, VERSION_3)
    assert refused.connect("", clean=False).reason == ReasonCode.CLIENT_ID_NOT_VALID
    assert refused.closed


def test_names_of_the_specification_are_accepted_and_bad_ones_refused(world: World) -> None:
    assert Wire(world).connect("0123456789abcdefABCDEFZ").reason == ReasonCode.SUCCESS
    refused = Wire(world)
    assert refused.connect("a\nb").reason == ReasonCode.CLIENT_ID_NOT_VALID
    assert refused.closed


def test_authentication_of_several_steps_is_refused(world: World) -> None:
    wire = Wire(world)
    answer = wire.connect(properties={"authentication_method": "SCRAM"})
    assert answer.reason == ReasonCode.BAD_AUTHENTICATION_METHOD
    assert wire.closed
    assert ended(joined(world).send(AuthPacket())) == ReasonCode.PROTOCOL_ERROR


def test_the_second_connection_of_a_client_takes_over(world: World) -> None:
    first = joined(world)
    joined(world)
    assert ended(first.take()) == ReasonCode.SESSION_TAKEN_OVER
    assert first.closed


@pytest.mark.parametrize("version", [VERSION_3, VERSION_5])
def test_clean_start_and_session_present(world: World, version: int) -> None:
    kept: dict[str, Any] = lasting() if version == VERSION_5 else {"clean": False}
    first = Wire(world, version)
    assert not first.connect(**kept).present
    first.subscribe("a")
    first.leave()
    second = Wire(world, version)
    assert second.connect(**kept).present
    joined(world, "bob").publish("a", b"1", 1)
    assert payloads(second.take()) == [b"1"]
    third = Wire(world, version)
    assert not third.connect(clean=True).present
    joined(world, "bob").publish("a", b"2", 1)
    assert third.take() == []


def test_a_session_expires(world: World) -> None:
    ann = joined(world, **lasting(50))
    ann.subscribe("a")
    world.pass_time(60)
    ann.vanish()
    world.pass_time(49)
    assert world.sessions.get("ann") is not None
    world.pass_time(2)
    assert world.sessions.get("ann") is None
    assert not Wire(world).connect(**lasting()).present


def test_disconnect_may_change_the_expiry_of_a_session_that_lasts(world: World) -> None:
    ann = joined(world, **lasting(50))
    ann.leave(session_expiry_interval=500)
    world.pass_time(100)
    assert Wire(world).connect(**lasting()).present
    short = joined(world, "bob")
    assert ended(short.send(DisconnectPacket(0, {"session_expiry_interval": 5}))) == ReasonCode.PROTOCOL_ERROR


def test_the_keep_alive_ends_a_silent_connection_after_one_and_a_half(world: World) -> None:
    ann = joined(world, keep_alive=10)
    world.pass_time(14)
    assert ann.send(PingPacket()) == [PingPacket(K.PINGRESP)]
    world.pass_time(15)
    assert not ann.closed
    world.pass_time(1)
    assert ended(ann.take()) == ReasonCode.KEEP_ALIVE_TIMEOUT


def test_a_connect_that_does_not_come_in_time_ends_the_connection_though_it_comes_in_drops(
    world: World,
) -> None:
    whole = write_packet(ConnectPacket(VERSION_5, "ann", True, keep_alive=10), VERSION_5)
    slow, quick = Wire(world), Wire(world)
    for place in range(10):
        slow.send_bytes(whole[place : place + 1])
        assert not slow.closed
        world.pass_time(1)
    assert quick.send_bytes(whole)
    world.pass_time(1)
    assert slow.closed
    assert not quick.closed
    late = Wire(world)
    world.pass_time(9)
    assert late.send_bytes(whole)
    world.pass_time(14)  # the time of a keep-alive begins when the client is let in
    assert not late.closed


def test_a_huge_connect_is_not_waited_for(world: World) -> None:
    for said in (b"\x10\x81\x80\x10", b"\x10\xff\xff\xff\x7f"):  # 256 KB and a byte; 256 MB
        huge = Wire(world)
        huge.send_bytes(said)
        assert huge.closed


def test_a_keep_alive_above_the_longest_is_answered_by_the_server_s(world: World) -> None:
    assert Wire(world).connect(keep_alive=5).properties.get("server_keep_alive") is None
    assert Wire(world).connect(keep_alive=0).properties["server_keep_alive"] == 3600


# Wills.


def test_a_will_waits_for_its_delay_or_the_end_of_its_session(world: World) -> None:
    watch = joined(world, "watch")
    watch.subscribe("w/#")
    for name, delay, expiry in (("long", 50, 10), ("short", 5, 100)):
        will = WillMessage(f"w/{name}", b"gone", 1, properties={"will_delay_interval": delay})
        joined(world, name, **lasting(expiry), will=will).vanish()
    world.pass_time(4)
    assert watch.take() == []
    world.pass_time(2)
    assert [each.topic for each in messages(watch.take())] == ["w/short"]
    world.pass_time(5)
    assert [each.topic for each in messages(watch.take())] == ["w/long"]


def test_a_will_is_not_published_after_a_good_end_or_a_return(world: World) -> None:
    watch = joined(world, "watch")
    watch.subscribe("w/#")
    will = WillMessage("w/a", b"gone", 1, properties={"will_delay_interval": 5})
    joined(world, **lasting(), will=will).vanish()
    joined(world, **lasting()).leave()
    world.pass_time(10)
    assert watch.take() == []
    joined(world, will=WillMessage("w/b", b"gone")).leave()
    assert watch.take() == []
    joined(world, will=WillMessage("w/c", b"gone", retain=True)).leave(4)
    assert [(each.topic, each.retain) for each in messages(watch.take())] == [("w/c", False)]
    late = joined(world, "late")
    late.subscribe("w/#")
    assert [(each.topic, each.retain) for each in messages(late.take())] == [("w/c", True)]


def test_a_will_is_published_when_the_session_is_taken_over_or_the_broker_crashes(world: World) -> None:
    watch = joined(world, "watch", **lasting())
    watch.subscribe("w/#")
    joined(world, will=WillMessage("w/a", b"gone", 1))
    joined(world, will=WillMessage("w/b", b"gone", 1), **lasting())
    assert [each.topic for each in messages(watch.take())] == ["w/a"]
    world.crash()
    world.settle()
    back = joined(world, "watch", **lasting())
    assert "w/b" in [each.topic for each in messages(back.take())]


# PUBLISH, in.


def test_a_message_is_acknowledged_when_the_broker_says_that_it_is_safe(world: World) -> None:
    bob = joined(world, "bob")
    world.broker.alone = False
    assert bob.send(PublishPacket("a", b"x", 1, packet_id=7), settle=False) == []
    world.turn()
    assert (bob.take(), len(world.network.log)) == ([], 1)
    world.settle()
    assert bob.take() == [AckPacket(K.PUBACK, 7)]


def test_what_came_in_one_turn_is_published_together(world: World) -> None:
    ann, bob = joined(world), joined(world, "bob")
    world.broker.batches.clear()
    for wire in (ann, bob):
        wire.send(*[PublishPacket("a", b"%d" % number) for number in range(10)], settle=False)
    world.settle()
    assert world.broker.batches == [20]


def test_two_messages_with_the_same_id_in_their_payload_are_two_events(world: World) -> None:
    ann = joined(world)
    ann.subscribe("a")
    same = b'{"id": "e1", "source": "me", "topic": "x", "document": "y"}'
    joined(world, "bob").send(PublishPacket("a", same), PublishPacket("a", same))
    assert payloads(ann.take()) == [same, same]
    assert world.network.log[0].attributes["payload.id"] == "e1"
    assert (world.network.log[0].source, world.network.log[0].topic) == ("bob", "a")


def test_a_message_of_qos_2_that_comes_again_is_published_once(world: World) -> None:
    bob = joined(world, "bob", **lasting())
    packet = PublishPacket("a", b"x", 2, packet_id=7)
    assert bob.send(packet) == [AckPacket(K.PUBREC, 7)]
    assert bob.send(packet._replace(duplicate=True)) == [AckPacket(K.PUBREC, 7)]
    world.crash()
    bob = joined(world, "bob", **lasting())
    assert bob.send(packet._replace(duplicate=True)) == [AckPacket(K.PUBREC, 7)]
    assert bob.send(AckPacket(K.PUBREL, 7)) == [AckPacket(K.PUBCOMP, 7)]
    assert bob.send(AckPacket(K.PUBREL, 7)) == [AckPacket(K.PUBCOMP, 7, 0x92)]
    assert len(world.network.log) == 1
    bob.send(packet)
    assert len(world.network.log) == 2


def test_more_messages_at_a_time_than_allowed_end_the_connection() -> None:
    world = World(MqttSettings(receive_maximum=2))
    bob = Wire(world)
    assert bob.connect("bob").properties["receive_maximum"] == 2
    sent = [PublishPacket("a", b"x", 2, packet_id=number) for number in (1, 2, 3)]
    assert ended(bob.send(*sent)) == ReasonCode.RECEIVE_MAXIMUM_EXCEEDED


def test_topic_aliases(world: World) -> None:
    ann, bob = joined(world), joined(world, "bob")
    ann.subscribe("#")
    bob.send(
        PublishPacket("a", b"1", properties={"topic_alias": 100}),
        PublishPacket("", b"2", properties={"topic_alias": 100}),
    )
    assert [(each.topic, each.payload) for each in messages(ann.take())] == [("a", b"1"), ("a", b"2")]
    again = joined(world, "bob")
    unknown = PublishPacket("", b"3", properties={"topic_alias": 100})
    assert ended(again.send(unknown)) == ReasonCode.PROTOCOL_ERROR
    above = PublishPacket("a", b"3", properties={"topic_alias": 101})
    assert ended(joined(world, "bob").send(above)) == ReasonCode.TOPIC_ALIAS_INVALID


def test_topic_aliases_are_sent_to_a_client_that_asks_for_them(world: World) -> None:
    ann, bob = joined(world, properties={"topic_alias_maximum": 2}), joined(world, "bob")
    ann.subscribe("#")
    topics = ["a-topic", "x", "a-topic", "another", "a-third", "another", "a-third", "a-topic"]
    for topic in topics:
        bob.publish(topic, topic.encode())
    came = messages(ann.take())
    assert [each.payload.decode() for each in came] == topics
    told = [(each.topic, each.properties.get("topic_alias")) for each in came]
    known = [("a-topic", 1), ("x", None), ("", 1), ("another", 2), ("a-third", None), ("", 2)]
    assert told == [*known, ("a-third", None), ("", 1)]
    ann.leave()
    again = joined(world, properties={"topic_alias_maximum": 1})
    again.subscribe("#")
    bob.publish("another", b"1")
    assert [(each.topic, each.properties) for each in messages(again.take())] == [
        ("another", {"topic_alias": 1})
    ]


def test_no_more_aliases_are_sent_than_the_server_remembers_and_none_unasked() -> None:
    world = World(MqttSettings(topic_aliases=1))
    ann, cleo = joined(world, properties={"topic_alias_maximum": 65_535}), joined(world, "cleo")
    ann.subscribe("#")
    cleo.subscribe("#")
    bob = joined(world, "bob")
    for topic in ("topic-1", "topic-2", "topic-1"):
        bob.publish(topic, b"x")
    assert [each.properties for each in messages(ann.take())] == [{"topic_alias": 1}, {}, {"topic_alias": 1}]
    assert [(each.topic, each.properties) for each in messages(cleo.take())] == [
        (topic, {}) for topic in ("topic-1", "topic-2", "topic-1")
    ]


def test_a_message_that_was_too_long_for_its_client_leaves_no_alias_behind(world: World) -> None:
    ann = joined(world, properties={"topic_alias_maximum": 5, "maximum_packet_size": 60})
    bob = joined(world, "bob")
    ann.subscribe("#")
    for payload in (b"x" * 60, b"short", b"short again"):
        bob.publish("a-topic", payload)
    assert [(each.topic, each.payload) for each in messages(ann.take())] == [
        ("a-topic", b"short"),
        ("", b"short again"),
    ]


@pytest.mark.parametrize("version", [VERSION_3, VERSION_5])
def test_an_empty_topic_is_refused(world: World, version: int) -> None:
    bob = joined(world, "bob", version=version)
    bob.publish("")
    assert bob.closed
    assert not world.network.log


def test_a_client_s_message_has_no_subscription_identifier(world: World) -> None:
    packet = PublishPacket("a", b"x", properties={"subscription_identifier": (1,)})
    assert ended(joined(world).send(packet)) == ReasonCode.PROTOCOL_ERROR


def test_a_packet_above_the_maximum_ends_the_connection() -> None:
    world = World(MqttSettings(longest_packet=1000))
    bob = Wire(world)
    assert bob.connect("bob").properties["maximum_packet_size"] == 1000
    assert ended(bob.publish("a", b"x" * 1000)) == ReasonCode.PACKET_TOO_LARGE


def test_nothing_is_read_while_the_broker_is_congested(world: World) -> None:
    bob = joined(world, "bob")
    world.broker.congested = True
    bob.publish("a")
    assert bob.paused
    world.broker.congested = False
    world.pass_time(1)
    assert not bob.paused


def test_what_the_broker_refuses_is_not_acknowledged(world: World) -> None:
    bob = joined(world, "bob")
    world.broker.refuses = "the broker has stopped"
    came = bob.publish("a", b"x", 1)
    assert not any(isinstance(each, AckPacket) for each in came)
    assert ended(came) == ReasonCode.IMPLEMENTATION_SPECIFIC


class Strict(Access):
    """Nobody may publish to `no`, subscribe to `no`, or see `hidden`."""

    def may_publish(self, identity: Identity, event: Event) -> str | None:
        return "not to this topic" if event.topic == "no" else None

    def may_publish_all(self, identity: Identity) -> bool:
        return False

    def may_see_all(self, identity: Identity) -> bool:
        return False

    def may_see(self, identity: Identity, event: Event) -> bool:
        return event.topic != "hidden"

    def parts(self, identity: Identity, subscription: Any) -> Any:
        if subscription.topic == "mqtt:no":
            raise AccessError("not this topic")
        return (subscription,)


def test_what_is_not_allowed_is_refused_with_its_reason() -> None:
    world = World(access=Strict())
    ann, old = joined(world), joined(world, "old", version=VERSION_3)
    (answer,) = ann.publish("no", b"x", 1)
    assert answer == AckPacket(K.PUBACK, 5, 0x87, {"reason_string": "not to this topic"})
    assert old.publish("no", b"x", 1) == [AckPacket(K.PUBACK, 5)]
    assert ann.publish("no", b"x", 2)[0][:3] == (K.PUBREC, 5, 0x87)
    assert old.publish("no", b"x", 2) == [AckPacket(K.PUBREC, 5)]
    assert old.send(AckPacket(K.PUBREL, 5)) == [AckPacket(K.PUBCOMP, 5)]
    assert not world.network.log
    assert (ann.subscribe("no", "a"), old.subscribe("no", "a")) == ((0x87, 2), (0x80, 2))
    silent = joined(world, "silent", properties={"request_problem_information": 0})
    assert silent.publish("no", b"x", 1) == [AckPacket(K.PUBACK, 5, 0x87)]
    short = joined(world, "short", properties={"maximum_packet_size": 10})
    assert short.publish("no", b"x", 1) == [AckPacket(K.PUBACK, 5, 0x87)]


def test_a_retained_message_that_may_not_be_seen_is_not_given() -> None:
    world = World(access=Strict())
    joined(world, "bob").send(
        PublishPacket("hidden", b"x", retain=True), PublishPacket("a", b"x", retain=True)
    )
    ann = joined(world)
    ann.subscribe("#")
    assert [each.topic for each in messages(ann.take())] == ["a"]


# PUBLISH, out.


@pytest.mark.parametrize(("published", "granted", "sent"), [(2, 1, 1), (0, 2, 0), (2, 2, 2), (1, 0, 0)])
def test_a_message_is_sent_at_the_lower_qos(world: World, published: int, granted: int, sent: int) -> None:
    ann = joined(world)
    assert ann.subscribe("a", qos=granted) == (granted,)
    joined(world, "bob").publish("a", b"x", published)
    (came,) = messages(ann.take())
    assert (came.qos, came.duplicate, bool(came.packet_id)) == (sent, False, sent > 0)


def test_overlapping_filters_give_one_copy_at_the_greatest_qos_with_all_identifiers(world: World) -> None:
    ann = joined(world)
    ann.subscribe("a/+", qos=0, properties={"subscription_identifier": 3})
    ann.subscribe("a/#", qos=2, properties={"subscription_identifier": 4})
    ann.subscribe("#", qos=1)
    joined(world, "bob").publish("a/b", b"x", 2)
    (came,) = messages(ann.take())
    assert came.qos == 2
    assert sorted(came.properties["subscription_identifier"]) == [3, 4]


def test_no_local(world: World) -> None:
    ann = joined(world)
    ann.subscribe("a", no_local=True)
    ann.publish("a", b"own")
    joined(world, "bob").publish("a", b"other")
    assert payloads(ann.take()) == [b"other"]
    shared = SubscribePacket(1, (FilterRequest("$share/g/a", 1, no_local=True),))
    assert ended(ann.send(shared)) == ReasonCode.PROTOCOL_ERROR


def test_no_more_messages_are_under_way_than_the_client_allows(world: World) -> None:
    ann = joined(world, properties={"receive_maximum": 2})
    ann.subscribe("a")
    bob = joined(world, "bob")
    for number in range(5):
        bob.publish("a", b"%d" % number, 1 + number % 2, packet_id=number + 1)
    came = messages(ann.take())
    assert [each.payload for each in came] == [b"0", b"1"]
    assert ann.send(PingPacket()) == [PingPacket(K.PINGRESP)]
    later = messages(ann.send(acknowledgement(came[0])))
    assert [each.payload for each in later] == [b"2"]
    ann.send(acknowledgement(came[1]))
    assert payloads(ann.send(AckPacket(K.PUBCOMP, came[1].packet_id))) == [b"3"]


def test_what_was_not_acknowledged_is_sent_again_as_a_duplicate_with_its_identifier(world: World) -> None:
    ann = joined(world, **lasting())
    ann.subscribe("a")
    bob = joined(world, "bob")
    bob.publish("a", b"1", 1)
    bob.publish("a", b"2", 2)
    first = messages(ann.take())
    ann.vanish()
    bob.publish("a", b"3", 1)
    back = Wire(world)
    back.connect(**lasting())
    again = messages(back.take())
    assert [each.payload for each in again] == [b"1", b"2", b"3"]
    assert [each.duplicate for each in again] == [True, True, False]
    assert [each.packet_id for each in again[:2]] == [each.packet_id for each in first]
    assert back.send(acknowledgement(again[1])) == [AckPacket(K.PUBREL, again[1].packet_id)]
    back.send(AckPacket(K.PUBACK, again[0].packet_id, 0x80))
    back.vanish()
    last = Wire(world)
    last.connect(**lasting())
    came = last.take()
    assert came[0] == AckPacket(K.PUBREL, again[1].packet_id)
    assert payloads(came) == [b"3"]


def test_nothing_is_sent_before_connack(world: World) -> None:
    ann = joined(world, **lasting())
    ann.subscribe("a")
    ann.vanish()
    joined(world, "bob").publish("a", b"1", 1)
    back = Wire(world)
    came = back.send(ConnectPacket(VERSION_5, "ann", False, properties=lasting()["properties"]))
    assert [type(each) for each in came] == [ConnackPacket, PublishPacket]


def test_a_message_too_long_for_the_client_counts_as_sent(world: World) -> None:
    ann = joined(world, properties={"maximum_packet_size": 100, "receive_maximum": 1})
    ann.subscribe("a")
    bob = joined(world, "bob")
    bob.publish("a", b"x" * 200, 1)
    bob.publish("a", b"short", 1)
    assert payloads(ann.take()) == [b"short"]


@pytest.mark.parametrize("longest", [None, 40, 12])
def test_no_answer_is_longer_than_its_client_takes(longest: int | None) -> None:
    world = World(access=Strict())
    properties = {} if longest is None else {"maximum_packet_size": longest}
    connect = ConnectPacket(VERSION_5, "ann", properties=properties)
    (refused,) = Wire(world, peer=MqttPeer(loopback=False)).send(connect)
    ann = joined(world, properties=properties)
    subscribe = SubscribePacket(1, (FilterRequest("$filter/where=price >/a", 1),))
    (subscribed,) = ann.send(subscribe)
    (acknowledged,) = ann.publish("no", b"x", 1)
    (disconnected,) = ann.send(connect)
    answers = [refused, subscribed, acknowledged, disconnected]
    sizes = [len(write_packet(each, VERSION_5)) for each in answers]
    assert all("reason_string" in each.properties for each in answers) == (longest is None)  # type: ignore[union-attr]
    assert longest is None or max(sizes) <= longest


def test_a_message_expires(world: World) -> None:
    ann = joined(world, **lasting(1000))
    ann.subscribe("a")
    ann.vanish()
    bob = joined(world, "bob")
    for seconds in (10, 100):
        properties = {"message_expiry_interval": seconds}
        bob.send(PublishPacket("a", b"%d" % seconds, 1, packet_id=5, properties=properties))
        bob.send(PublishPacket(f"r/{seconds}", b"r", retain=True, properties=properties))
    world.pass_time(30)
    back = Wire(world)
    back.connect(**lasting(1000))
    (came,) = messages(back.take())
    assert (came.payload, came.properties["message_expiry_interval"]) == (b"100", 70)
    back.subscribe("r/#")
    assert [each.topic for each in messages(back.take())] == ["r/100"]


def test_a_slow_client_is_sent_nothing_until_it_has_read(world: World) -> None:
    ann = joined(world)
    ann.subscribe("a")
    ann.buffered = 2 << 20
    joined(world, "bob").publish("a", b"1")
    assert ann.take() == []
    ann.buffered = 0
    ann.connection.drained()
    world.settle()
    assert payloads(ann.take()) == [b"1"]


def test_a_client_of_version_5_is_told_what_its_mailbox_did_not_keep() -> None:
    world = World(MqttSettings(bounds=MailboxBounds(MailboxPolicy.DROP_OLDEST, events=2)))
    ann = joined(world, **lasting())
    ann.subscribe("a")
    ann.vanish()
    bob = joined(world, "bob")
    for number in range(5):
        bob.publish("a", b"%d" % number, 1)
    back = Wire(world)
    back.connect(**lasting())
    came = messages(back.take())
    assert [each.payload for each in came] == [b"3", b"4"]
    assert came[0].properties["user_property"] == (
        ("gap", "3 events are missing before this one: the mailbox was full"),
    )
    assert "user_property" not in came[1].properties


@pytest.mark.parametrize(("policy", "kept"), [("keep", [b"0", b"1"]), ("latest", [b"4"])])
def test_a_client_chooses_what_becomes_of_messages_when_its_mailbox_is_full(
    policy: str, kept: list[bytes]
) -> None:
    world = World(MqttSettings(bounds=MailboxBounds(MailboxPolicy.DROP_OLDEST, events=2)))
    chosen = lasting(user_property=(("mailbox", policy), ("other", "is ignored")))
    ann, plain = joined(world, **chosen), joined(world, "plain", **lasting())
    for wire in (ann, plain):
        wire.subscribe("a")
        wire.vanish()
    bob = joined(world, "bob")
    for number in range(5):
        bob.publish("a", b"%d" % number, 1)
    world.crash()
    assert payloads(joined(world, **chosen).take()) == kept
    assert payloads(joined(world, "plain", **lasting()).take()) == [b"3", b"4"]


@pytest.mark.parametrize("said", [(("mailbox", "some"),), (("mailbox", "keep"), ("mailbox", "latest"))])
def test_a_policy_that_is_none_is_refused(world: World, said: tuple[tuple[str, str], ...]) -> None:
    wire = Wire(world)
    answer = wire.connect(properties={"user_property": said})
    assert answer.reason == ReasonCode.IMPLEMENTATION_SPECIFIC
    assert "keep, latest, drop-oldest, disconnect" in answer.properties["reason_string"]
    assert wire.closed


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("qos", [1, 2])
def test_a_gap_is_told_again_until_the_message_that_it_came_with_is_acknowledged(
    qos: int, crashes: bool
) -> None:
    world = World(MqttSettings(bounds=MailboxBounds(MailboxPolicy.DROP_OLDEST, events=2)))
    ann = joined(world, **lasting())
    ann.subscribe("a")
    ann.vanish()
    bob = joined(world, "bob")
    for number in range(5):
        bob.publish("a", b"%d" % number, qos, packet_id=number + 1)
        bob.send(AckPacket(K.PUBREL, number + 1))
    told = ("gap", "3 events are missing before this one: the mailbox was full")
    ann = Wire(world)
    ann.connect(**lasting())
    came = messages(ann.take())
    assert [each.payload for each in came] == [b"3", b"4"]
    assert came[0].properties["user_property"] == (told,)
    ann.send(acknowledgement(came[1]))  # which the gap did not come with
    if crashes:
        world.crash()
    else:
        ann.vanish()
    ann = Wire(world)
    ann.connect(**lasting())
    came = messages(ann.take())
    assert [(each.payload, each.properties["user_property"]) for each in came] == [(b"3", (told,))]
    ann.send(acknowledgement(came[0]))
    ann.vanish()
    back = Wire(world)
    back.connect(**lasting())
    joined(world, "bob").publish("a", b"5", 1)
    (last,) = messages(back.take())
    assert (last.payload, last.properties) == (b"5", {})


def test_a_gap_waits_for_a_message_that_has_room_for_it() -> None:
    world = World(MqttSettings(bounds=MailboxBounds(MailboxPolicy.DROP_OLDEST, events=2)))
    ann = joined(world, **lasting())
    ann.subscribe("a")
    ann.vanish()
    bob = joined(world, "bob")
    for number in range(4):
        bob.publish("a", b"%d" % number * (150 if number == 2 else 1), 1)
    back = Wire(world)
    back.connect(**lasting(maximum_packet_size=200))
    long, short = messages(back.take())
    assert (len(long.payload), long.properties) == (150, {})
    assert short.properties["user_property"][0][1].startswith("2 events are missing")


def test_topics_that_begin_with_a_dollar_are_not_matched_by_wildcards(world: World) -> None:
    ann = joined(world)
    ann.subscribe("#", "+/a", "$own/#")
    bob = joined(world, "bob")
    bob.publish("$SYS/a")
    bob.publish("$own/a")
    (came,) = messages(ann.take())
    assert came.topic == "$own/a"


def test_topics_are_compared_as_they_are(world: World) -> None:
    ann = joined(world)
    ann.subscribe("/a", "A", "e\u0301", "\ufeffb")
    bob = joined(world, "bob")
    for topic in ("a", "/a", "a/", "\u00e9", "A", "e\u0301", "b", "\ufeffb"):
        bob.publish(topic)
    assert [each.topic for each in messages(ann.take())] == ["/a", "A", "e\u0301", "\ufeffb"]


# SUBSCRIBE and UNSUBSCRIBE.


def test_each_filter_has_its_answer_in_order(world: World) -> None:
    ann = joined(world)
    assert ann.subscribe("a/#", "a/#/b", "", "+a", "$share//a", "$share/g", "b", qos=1) == (
        (1, 0x8F, 0x8F, 0x8F, 0x8F, 0x8F, 1)
    )
    (answer,) = ann.send(UnsubscribePacket(77, ("a/#", "nothing", "b")))
    assert answer == CodesPacket(K.UNSUBACK, 77, (0, 0x11, 0))
    joined(world, "bob").publish("a/b")
    assert ann.take() == []


def test_a_filter_that_is_subscribed_to_again_takes_the_place_of_the_one_before(world: World) -> None:
    ann, bob = joined(world), joined(world, "bob")
    ann.subscribe("a", qos=0)
    ann.subscribe("a", qos=1)
    bob.publish("a", b"x", 2)
    assert [each.qos for each in messages(ann.take())] == [1]


@pytest.mark.parametrize(("handling", "first", "again"), [(0, 1, 1), (1, 1, 0), (2, 0, 0)])
def test_retain_handling(world: World, handling: int, first: int, again: int) -> None:
    joined(world, "bob").send(PublishPacket("a", b"x", retain=True))
    ann = joined(world)
    for count in (first, again):
        ann.subscribe("a", retain_handling=handling)
        came = messages(ann.take())
        assert [each.retain for each in came] == [True] * count


def test_retain_as_published(world: World) -> None:
    plain, published = joined(world, "plain"), joined(world, "published")
    plain.subscribe("a")
    published.subscribe("a", retain_as_published=True)
    bob = joined(world, "bob")
    bob.send(PublishPacket("a", b"1", retain=True), PublishPacket("a", b"2"))
    assert [each.retain for each in messages(plain.take())] == [False, False]
    assert [each.retain for each in messages(published.take())] == [True, False]


def test_retained_messages_survive_a_crash_and_are_removed_by_an_empty_one(world: World) -> None:
    bob = joined(world, "bob")
    bob.send(PublishPacket("a", b"1", retain=True), PublishPacket("b", b"2", retain=True))
    bob.send(PublishPacket("b", b"", retain=True), PublishPacket("a", b"not retained"))
    world.crash()
    ann = joined(world)
    ann.subscribe("#")
    assert [(each.topic, each.payload) for each in messages(ann.take())] == [("a", b"1")]
    assert len(world.room.retained) == 1


def retained_now(world: World) -> list[tuple[str, bytes]]:
    """What somebody who comes now is given of all topics."""
    late = joined(world, "late")
    late.subscribe("#")
    return sorted((each.topic, each.payload) for each in messages(late.take()))


@pytest.mark.parametrize("bounds", [RetainedBounds(messages=2), RetainedBounds(bytes=4)])
def test_what_does_not_fit_is_delivered_and_not_retained_and_told_once(bounds: RetainedBounds) -> None:
    world = World(MqttSettings(retained=bounds))
    ann, bob = joined(world), joined(world, "bob")
    ann.subscribe("#")
    for topic in "abcd":
        bob.send(PublishPacket(topic, b"1", retain=True))
    assert len(messages(ann.take())) == 4
    assert retained_now(world) == [("a", b"1"), ("b", b"1")]
    told = [each for each in world.notices if "no room" in each]
    assert len(told) == 1
    assert "'c'" in told[0]
    bob.send(PublishPacket("a", b"2", retain=True), PublishPacket("b", b"", retain=True))
    bob.send(PublishPacket("c", b"3", retain=True))
    assert retained_now(world) == [("a", b"2"), ("c", b"3")]
    world.crash()
    assert retained_now(world) == [("a", b"2"), ("c", b"3")]


def test_an_older_message_is_not_retained_in_place_of_one_that_does_not_fit() -> None:
    world = World(MqttSettings(retained=RetainedBounds(bytes=6)))
    bob = joined(world, "bob")
    bob.send(PublishPacket("a", b"1", retain=True), PublishPacket("b", b"1", retain=True))
    bob.send(PublishPacket("a", b"123456", retain=True))
    assert retained_now(world) == [("b", b"1")]
    world.crash()
    assert retained_now(world) == [("b", b"1")]


def test_messages_that_have_expired_make_room() -> None:
    world = World(MqttSettings(retained=RetainedBounds(messages=1)))
    bob = joined(world, "bob")
    bob.send(PublishPacket("a", b"1", retain=True, properties={"message_expiry_interval": 10}))
    world.now += 11
    bob.send(PublishPacket("b", b"2", retain=True))
    assert retained_now(world) == [("b", b"2")]
    world.crash()
    assert len(world.room.retained) == 1


def test_what_was_begun_is_completed_after_unsubscribe(world: World) -> None:
    ann = joined(world, **lasting())
    ann.subscribe("a")
    joined(world, "bob").publish("a", b"x", 2)
    (first,) = messages(ann.take())
    ann.send(UnsubscribePacket(3, ("a",)))
    ann.vanish()
    back = Wire(world)
    back.connect(**lasting())
    (again,) = messages(back.take())
    assert (again.qos, again.packet_id, again.duplicate) == (2, first.packet_id, True)


def test_a_message_of_qos_2_that_was_sent_does_not_expire(world: World) -> None:
    ann = joined(world, **lasting(1000))
    ann.subscribe("a")
    expiring = {"message_expiry_interval": 10}
    joined(world, "bob").send(PublishPacket("a", b"x", 2, packet_id=5, properties=expiring))
    assert len(messages(ann.take())) == 1
    ann.vanish()
    world.pass_time(100)
    back = Wire(world)
    back.connect(**lasting(1000))
    assert payloads(back.take()) == [b"x"]


# Shared subscriptions.


def test_each_message_goes_to_one_member_of_a_group(world: World) -> None:
    workers = [joined(world, f"worker{number}") for number in range(3)]
    for worker in workers:
        assert worker.subscribe("$share/g/jobs/#", qos=1) == (1,)
    other = joined(world, "other")
    other.subscribe("$share/h/jobs/#")
    bob = joined(world, "bob")
    sent = [b"%d" % number for number in range(30)]
    for number, payload in enumerate(sent):
        bob.publish("jobs/a", payload, 2, packet_id=number + 1)
    came = [messages(worker.take()) for worker in workers]
    assert sorted(each.payload for part in came for each in part) == sorted(sent)
    assert all(len(part) == 10 and {each.qos for each in part} == {1} for part in came)
    assert payloads(other.take()) == sent


def test_what_a_member_did_not_acknowledge_goes_to_another_when_its_session_ends(world: World) -> None:
    first, second = joined(world, "first"), joined(world, "second")
    for worker in (first, second):
        worker.subscribe("$share/g/jobs")
    bob = joined(world, "bob")
    for number in range(4):
        bob.publish("jobs", b"%d" % number, 1)
    held = payloads(first.take())
    assert len(held) == 2
    second.take()
    first.vanish()
    assert payloads(second.take()) == held


def test_a_message_of_qos_2_that_a_member_was_sent_goes_to_nobody_else(world: World) -> None:
    first, second = joined(world, "first"), joined(world, "second")
    for worker in (first, second):
        worker.subscribe("$share/g/jobs")
    bob = joined(world, "bob")
    for number in range(2):
        bob.publish("jobs", b"%d" % number, 2, packet_id=number + 1)
    second.take()
    first.vanish()
    assert second.take() == []


@pytest.mark.parametrize("qos", [1, 2])
def test_what_a_member_refuses_goes_to_nobody_else(world: World, qos: int) -> None:
    first, second = joined(world, "first"), joined(world, "second")
    for worker in (first, second):
        worker.subscribe("$share/g/jobs")
    joined(world, "bob").publish("jobs", b"x", qos)
    (came,) = messages(second.take())
    second.send(acknowledgement(came)._replace(reason=0x83))
    second.vanish()
    assert first.take() == []


def test_who_joins_a_group_where_there_are_other_brokers_is_told_what_it_does_not_keep(world: World) -> None:
    def told(worker: Wire) -> list[tuple[tuple[int, ...], object]]:
        came = worker.send(SubscribePacket(7, (FilterRequest("$share/g/jobs", 1), FilterRequest("other", 1))))
        return [(each.reasons, each.properties.get("reason_string")) for each in came]  # type: ignore[union-attr]

    assert told(joined(world)) == [((1, 1), None)]
    world.linked.append(9)
    assert told(joined(world, "bob")) == [((1, 1), GROUPS_HERE)]
    assert joined(world, "cleo").subscribe("other", qos=1) == (1,)
    quiet = joined(world, "dora", properties={"request_problem_information": 0})
    assert told(quiet) == [((1, 1), None)]


def test_a_group_whose_members_are_away_waits_for_them_through_a_crash(world: World) -> None:
    ann = joined(world, **lasting())
    ann.subscribe("$share/g/jobs")
    ann.vanish()
    bob = joined(world, "bob")
    bob.publish("jobs", b"1", 1)
    world.crash()
    joined(world, "bob").publish("jobs", b"2", 1)
    back = Wire(world)
    back.connect(**lasting())
    assert payloads(back.take()) == [b"1", b"2"]
    back.send(UnsubscribePacket(3, ("$share/g/jobs",)))
    joined(world, "bob").publish("jobs", b"3", 1)
    assert back.take() == []
    assert [each.subscriber for each in world.sessions if each.subscriber.startswith("$share")] == []


# More than a topic.


def test_a_filter_says_more_than_a_topic(world: World) -> None:
    ann, old = joined(world), joined(world, "old", version=VERSION_3)
    words = (("where", "price > 8"), ("other", "is ignored"))
    ann.subscribe("q/#", properties={"user_property": words})
    old.subscribe("$filter/where=price > 8 and name <> 'a%2Fb'/q/#", "$filter/path=%2F%2Ftitle/x/#")
    bob = joined(world, "bob")
    for payload in (b'{"price": 7}', b'{"price": 9, "name": "a/b"}', b'{"price": 9, "name": "c"}'):
        bob.publish("q/a", payload)
    bob.publish("x/a", b"<a><title/></a>")
    bob.publish("x/a", b"<a><other/></a>")
    assert len(messages(ann.take())) == 2
    assert payloads(old.take()) == [b'{"price": 9, "name": "c"}', b"<a><title/></a>"]


@pytest.mark.parametrize(
    "text", ["where=price >", "where=", "who=ann", "change=price", "where=a=1&where=a=2"]
)
def test_a_wrong_condition_is_told(world: World, text: str) -> None:
    ann = joined(world)
    (answer,) = ann.send(SubscribePacket(9, (FilterRequest(f"$filter/{text}/q/#", 1),)))
    assert isinstance(answer, CodesPacket)
    assert (answer.reasons, len(answer.properties["reason_string"]) > 5) == ((0x8F,), True)


def test_an_event_that_did_not_come_by_mqtt_is_a_message_too(world: World) -> None:
    ann = joined(world)
    ann.subscribe("a")
    world.broker.publish([Event("e1", "a", {"price": 8.4})], lambda reason: None)
    world.settle()
    (came,) = messages(ann.take())
    assert (came.payload, came.qos) == (b'{"id":"e1","price":8.4}', 1)


def test_everybody_is_told_when_the_broker_ends(world: World) -> None:
    ann = joined(world)
    world.room.close()
    assert ended(ann.take()) == ReasonCode.SERVER_SHUTTING_DOWN
    late = Wire(world)
    assert late.closed


STATEMENTS = {
    "1.5.4": 3,
    "1.5.5": 1,
    "1.5.7": 1,
    "2.1.3": 1,
    "2.2.1": 6,
    "2.2.2": 1,
    "3.1.0": 2,
    "3.1.2": 30,
    "3.1.3": 12,
    "3.1.4": 6,
    "3.2.0": 2,
    "3.2.2": 22,
    "3.3.1": 13,
    "3.3.2": 20,
    "3.3.4": 10,
    "3.4.2": 3,
    "3.5.2": 3,
    "3.6.1": 1,
    "3.6.2": 3,
    "3.7.2": 3,
    "3.8.1": 1,
    "3.8.3": 5,
    "3.8.4": 8,
    "3.9.2": 2,
    "3.9.3": 2,
    "3.10.1": 1,
    "3.10.3": 2,
    "3.10.4": 6,
    "3.11.2": 2,
    "3.11.3": 2,
    "3.12.4": 1,
    "3.14.0": 1,
    "3.14.1": 1,
    "3.14.2": 4,
    "3.14.4": 3,
    "3.15.1": 1,
    "3.15.2": 3,
    "4.1.0": 2,
    "4.2.0": 1,
    "4.3.1": 1,
    "4.3.2": 5,
    "4.3.3": 13,
    "4.4.0": 2,
    "4.5.0": 2,
    "4.6.0": 6,
    "4.7.0": 1,
    "4.7.1": 2,
    "4.7.2": 1,
    "4.7.3": 4,
    "4.8.2": 6,
    "4.9.0": 3,
    "4.12.0": 7,
    "4.12.1": 2,
    "4.13.1": 1,
    "4.13.2": 1,
    "6.0.0": 4,
}
"""How many normative statements each section of version 5 has; they are numbered from 1."""
OF_CLIENTS = {
    *("2.2.1-1", "3.1.2-20", "3.1.2-21", "3.1.2-30", "3.2.2-4", "3.2.2-5", "3.2.2-11", "3.2.2-14"),
    *("3.2.2-15", "3.2.2-17", "3.2.2-18", "3.2.2-21", "3.3.2-10", "3.3.4-8", "4.5.0-2", "4.6.0-1"),
    *("4.6.0-2", "4.6.0-3", "4.6.0-4"),
}
"""Those that only clients can keep, and 2.2.1-1, a number that is not in use."""


def page_rows() -> list[list[str]]:
    """The rows of the page's table of statements."""
    page = Path(__file__).parent.parent.parent.parent / "docs/mqtt.md"
    rows = [line.split("|") for line in page.read_text().splitlines() if line.startswith("| ")]
    return [row for row in rows if re.match(r" \d\.\d", row[1])]


def test_the_page_names_tests_that_exist() -> None:
    edge = Path(__file__).parent.parent
    source = "".join(path.read_text() for room in ("mqtt", "web") for path in (edge / room).glob("test_*.py"))
    tests = re.findall(r"def test_(\w+)", source)
    shown = [row[3] for row in page_rows()]
    named = {name for cell in shown for name in re.findall(r"\w+_\w+_\w+", cell)} - {"test_interoperability"}
    assert len(named) > 40
    assert [name for name in named if not any(test.startswith(name) for test in tests)] == []
    assert [cell for cell in shown if "no test" in cell] == []


def test_the_page_lists_every_statement_once() -> None:
    order = [f"{section}-{number + 1}" for section, count in STATEMENTS.items() for number in range(count)]
    listed: list[str] = []
    for row in page_rows():
        for part in row[1].split(","):
            first, *last = part.strip().split(" to ")
            listed += order[order.index(first) : order.index(last[0] if last else first) + 1]
    assert sorted(listed) == sorted(set(order) - OF_CLIENTS)


def test_more_than_is_sent_at_a_time_goes_out_though_the_transport_never_says_that_it_is_drained(
    world: World,
) -> None:
    ann, bob = joined(world), joined(world, "bob", version=VERSION_3)
    ann.subscribe("#", qos=0)
    size, count = 2_000, 1_500  # more than a megabyte
    bob.send(*[PublishPacket("a", b"%d " % number + b"x" * size) for number in range(count)])
    came = [each for each in ann.take() if isinstance(each, PublishPacket)]
    assert [int(each.payload.split()[0]) for each in came] == list(range(count))
