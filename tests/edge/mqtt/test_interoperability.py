"""Clients that others have written work with this server as they are: paho-mqtt, mosquitto's, aiomqtt."""

from __future__ import annotations

import asyncio
import queue
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiomqtt
import paho.mqtt.client as paho
import pytest
import trustme
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from distributary.edge.mqtt.server import MqttServer
from edge.mqtt.serving import served, serving

PATIENCE = 60
THREE, FIVE = MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5
VERSIONS = pytest.mark.parametrize("version", [THREE, FIVE], ids=["3.1.1", "5"])


class Paho:
    """A client of paho-mqtt that puts what happens into queues."""

    def __init__(self, port: int, name: str, version: Any, **connecting: Any) -> None:
        self.messages: queue.Queue[paho.MQTTMessage] = queue.Queue()
        self.told: queue.Queue[Any] = queue.Queue()
        clean = {"clean_session": connecting.pop("clean", True)} if version == THREE else {}
        self.client = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=version, **clean)
        if tls := connecting.pop("tls", None):
            self.client.tls_set_context(tls)
        if will := connecting.pop("will", None):
            self.client.will_set(*will)
        self.client.on_message = lambda client, data, message: self.messages.put(message)
        self.client.on_connect = lambda client, data, flags, code, more: self.told.put(flags)
        self.client.on_subscribe = lambda client, data, number, codes, more: self.told.put(codes)
        self.client.connect("localhost" if tls else "127.0.0.1", port, **connecting)
        self.client.loop_start()
        self.present = self.told.get(timeout=PATIENCE).session_present

    def subscribe(self, *asked: Any, **more: Any) -> list[int]:
        self.client.subscribe(*asked, **more)
        return [code.value for code in self.told.get(timeout=PATIENCE)]

    def publish(self, topic: str, payload: Any, qos: int = 0, **more: Any) -> None:
        self.client.publish(topic, payload, qos, **more).wait_for_publish(PATIENCE)

    def next(self) -> paho.MQTTMessage:
        return self.messages.get(timeout=PATIENCE)

    def leave(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()
        self.client._reset_sockets()  # It has two of its own, which it leaves to the garbage collector.

    def vanish(self) -> None:
        """End without DISCONNECT, as a crash does."""
        self.client.loop_stop()
        self.client._sock.close()  # type: ignore[union-attr]


def by_qos(client: Paho, count: int) -> dict[int, list[bytes]]:
    """The payloads of so many messages; paho hands out those of QoS 2 when they are released, so later."""
    came: dict[int, list[bytes]] = {}
    for message in (client.next() for _ in range(count)):
        came.setdefault(message.qos, []).append(message.payload)
    return came


@pytest.fixture(scope="module")
def server() -> Iterator[MqttServer]:
    with serving() as server:
        yield server


@VERSIONS
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_arrives_as_it_was_sent_at_every_qos(server: MqttServer, version: Any, qos: int) -> None:
    ann, bob = Paho(server.port, "ann", version), Paho(server.port, "bob", version)
    assert ann.subscribe("plain/#", qos) == [qos]
    for payload in (b"\x00\xff bytes", b'{"id": 1, "x": 2.50}', b'{"id": 1, "x": 2.50}', b"<a>x</a>", b""):
        bob.publish("plain/a", payload, qos)
        came = ann.next()
        assert (came.topic, came.payload, came.qos, came.retain) == ("plain/a", payload, qos, False)
    ann.leave()
    bob.leave()


@VERSIONS
def test_a_filter_says_more_than_a_topic(server: MqttServer, version: Any) -> None:
    ann, bob = Paho(server.port, "ann", version), Paho(server.port, "bob", version)
    if version == FIVE:
        asked = Properties(PacketTypes.SUBSCRIBE)
        asked.UserProperty = [("where", "price > 8"), ("change", "price:0.5")]
        ann.subscribe("quotes5/#", options=SubscribeOptions(qos=1), properties=asked)
    else:
        ann.subscribe("$filter/where=price > 8&change=price:0.5/quotes3/#", 1)
    for price in (7, 9, 9.1, 9.6, 8.5, 3):
        bob.publish(f"quotes{version}/x".replace("4", "3"), f'{{"price": {price}}}', 1)
    assert [ann.next().payload for _ in range(3)] == [b'{"price": 9}', b'{"price": 9.6}', b'{"price": 8.5}']
    assert ann.messages.empty()
    assert ann.subscribe("$filter/where=price >/quotes/#", 1) == [0x8F if version == FIVE else 0x80]
    ann.leave()
    bob.leave()


@VERSIONS
def test_the_last_value_of_a_topic_is_retained_until_an_empty_one(server: MqttServer, version: Any) -> None:
    bob = Paho(server.port, "bob", version)
    bob.publish("kept/a", b"1", 1, retain=True)
    bob.publish("kept/a", b"2", 1, retain=True)
    bob.publish("kept/b", b"3", 1, retain=True)
    bob.publish("kept/b", b"", 1, retain=True)
    ann = Paho(server.port, "ann", version)
    ann.subscribe("kept/#", 1)
    came = ann.next()
    assert (came.topic, came.payload, came.retain) == ("kept/a", b"2", True)
    bob.publish("kept/a", b"4", 1, retain=True)
    came = ann.next()
    assert (came.payload, came.retain) == (b"4", False)
    assert ann.messages.empty()
    ann.leave()
    bob.leave()


@VERSIONS
def test_a_tolerance_starts_from_the_retained_value_that_is_given_first(
    server: MqttServer, version: Any
) -> None:
    ann, bob, topic = Paho(server.port, "ann", version), Paho(server.port, "bob", version), f"from{version}/a"

    def publish(*prices: float, retain: bool = False) -> None:
        for price in prices:
            bob.publish(topic, f'{{"price": {price}}}', 1, retain=retain)

    publish(10, retain=True)
    ann.subscribe(f"$filter/change=price:5/{topic}", 1)
    assert (first := ann.next()).retain
    publish(12, 15)
    publish(16)
    assert [first.payload, ann.next().payload] == [b'{"price": 10}', b'{"price": 16}']
    publish(18, retain=True)
    ann.subscribe(f"$filter/change=price:5/{topic}", 1)  # again: it is given again what is retained
    assert (ann.next().payload, ann.messages.empty()) == (b'{"price": 18}', True)
    publish(22, 24)
    assert ann.next().payload == b'{"price": 24}'
    if version == FIVE:  # who asks for nothing that is retained begins with what comes next
        asked = SubscribeOptions(qos=1, retainHandling=2)
        bob.subscribe(f"$filter/change=price:5/{topic}", options=asked)
        publish(19)
        assert bob.next().payload == b'{"price": 19}'
    ann.leave()
    bob.leave()


def test_where_a_tolerance_starts_survives_the_broker(tmp_path: Path) -> None:
    with serving(data=tmp_path) as server:
        ann, bob = Paho(server.port, "ann", THREE, clean=False), Paho(server.port, "bob", THREE)
        bob.publish("kept/a", b'{"price": 10}', 1, retain=True)
        ann.subscribe("$filter/change=price:5/kept/#", 1)
        assert ann.next().payload == b'{"price": 10}'
        ann.leave()
        bob.leave()
    with serving(data=tmp_path) as server:
        ann, bob = Paho(server.port, "ann", THREE, clean=False), Paho(server.port, "bob", THREE)
        for price in (13, 16):
            bob.publish("kept/a", f'{{"price": {price}}}', 1)
        got = ann.next().payload
        if got == b'{"price": 10}':  # it comes again where its acknowledgement did not arrive before the end
            got = ann.next().payload
        assert got == b'{"price": 16}'
        ann.leave()
        bob.leave()


@VERSIONS
def test_a_will_is_published_for_a_client_that_vanishes(server: MqttServer, version: Any) -> None:
    ann = Paho(server.port, "ann", version)
    ann.subscribe("wills/#", 1)
    for name, leaves in (("good", True), ("bad", False)):
        bob = Paho(server.port, "bob", version, will=(f"wills/{name}", b"gone", 1, False))
        bob.leave() if leaves else bob.vanish()
    assert ann.next().topic == "wills/bad"
    ann.leave()


@VERSIONS
def test_a_session_keeps_what_comes_while_its_client_is_away(server: MqttServer, version: Any) -> None:
    name = f"away{version}"
    lasting: dict[str, Any] = {"clean": False}
    if version == FIVE:
        lasting = {"clean_start": False, "properties": Properties(PacketTypes.CONNECT)}
        lasting["properties"].SessionExpiryInterval = 100
    ann = Paho(server.port, name, version, **lasting)
    assert not ann.present
    ann.subscribe(f"{name}/#", 2)
    ann.leave()
    bob = Paho(server.port, "bob", version)
    for number in range(5):
        bob.publish(f"{name}/a", str(number), number % 3)
    ann = Paho(server.port, name, version, **lasting)
    assert ann.present
    assert by_qos(ann, 5) == {0: [b"0", b"3"], 1: [b"1", b"4"], 2: [b"2"]}
    ann.leave()
    bob.leave()


def test_sessions_and_retained_messages_survive_the_broker(tmp_path: Path) -> None:
    with serving(data=tmp_path) as server:
        ann = Paho(server.port, "ann", THREE, clean=False)
        ann.subscribe("kept/#", 2)
        ann.leave()
        bob = Paho(server.port, "bob", THREE)
        for number in range(20):
            bob.publish("kept/a", str(number), 1 + number % 2, retain=number == 7)
        bob.leave()
    with serving(data=tmp_path) as server:
        ann = Paho(server.port, "ann", THREE, clean=False)
        assert ann.present
        numbers = [b"%d" % number for number in range(20)]
        assert by_qos(ann, 20) == {1: numbers[::2], 2: numbers[1::2]}
        ann.subscribe("kept/+", 0)
        assert (ann.next().payload, ann.messages.empty()) == (b"7", True)
        ann.leave()


def test_properties_are_passed_on(server: MqttServer) -> None:
    ann, bob = Paho(server.port, "ann", FIVE), Paho(server.port, "bob", FIVE)
    asked = Properties(PacketTypes.SUBSCRIBE)
    asked.SubscriptionIdentifier = 77
    ann.subscribe("passed/#", options=SubscribeOptions(qos=1), properties=asked)
    given = Properties(PacketTypes.PUBLISH)
    given.UserProperty = [("b", "2"), ("a", "1"), ("b", "3")]
    given.ResponseTopic, given.CorrelationData, given.ContentType = "answers/bob", b"\x00\xff", "text/plain"
    given.PayloadFormatIndicator, given.MessageExpiryInterval, given.TopicAlias = 1, 1000, 5
    bob.publish("passed/a", "x", 1, properties=given)
    came = ann.next().properties
    assert came.UserProperty == given.UserProperty
    assert (came.ResponseTopic, came.CorrelationData) == ("answers/bob", b"\x00\xff")
    assert (came.ContentType, came.PayloadFormatIndicator) == ("text/plain", 1)
    assert came.SubscriptionIdentifier == [77]
    assert 990 <= came.MessageExpiryInterval <= 1000
    ann.leave()
    bob.leave()


def test_over_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with serving(tls=context) as server:
        ann = Paho(server.port, "ann", FIVE, tls=trusting)
        ann.subscribe("secret/#", 1)
        ann.publish("secret/a", b"x" * 100_000, 1)
        assert ann.next().payload == b"x" * 100_000
        ann.leave()


def test_two_brokers_of_a_network(tmp_path: Path) -> None:
    async def both() -> None:
        async with served(name="hall-1") as first:
            contacts = [first.room.broker.broker.endpoint]  # type: ignore[attr-defined]
            async with (
                served(name="hall-2", contacts=contacts) as second,
                aiomqtt.Client("127.0.0.1", first.port, identifier="ann") as ann,
                aiomqtt.Client("127.0.0.1", second.port, identifier="bob") as bob,
            ):
                await ann.subscribe("far/#", 1)
                await bob.publish("far/a", b"hello", 1, retain=True)
                came = await anext(aiter(ann.messages))
                assert (str(came.topic), came.payload, came.retain) == ("far/a", b"hello", False)
                await ann.subscribe("far/+", 1)
                assert (await anext(aiter(ann.messages))).retain

    asyncio.run(asyncio.wait_for(both(), 60))


@pytest.mark.parametrize("version", [aiomqtt.ProtocolVersion.V311, aiomqtt.ProtocolVersion.V5])
def test_aiomqtt(version: Any) -> None:
    async def run() -> list[Any]:
        async with (
            served("flooding") as server,
            aiomqtt.Client("127.0.0.1", server.port, protocol=version) as client,
        ):
            await client.subscribe("many/#", 1)
            for number in range(100):
                await client.publish("many/a", number, qos=number % 3)
            return [(await anext(aiter(client.messages))).payload for _ in range(100)]

    assert asyncio.run(asyncio.wait_for(run(), 60)) == [b"%d" % number for number in range(100)]


@pytest.mark.skipif(shutil.which("mosquitto_sub") is None, reason="mosquitto's clients are not installed")
@pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mosquitto_s_clients(server: MqttServer, version: str, qos: int) -> None:
    port, topic = str(server.port), f"mosquitto/{version}/{qos}"
    base = ["-p", port, "-V", version, "-q", str(qos), "-t", topic]
    sent = "".join(f"line {number}\n" for number in range(200))
    published = ["mosquitto_pub", *base, "-l"]
    subprocess.run(["mosquitto_pub", *base, "-r", "-m", "first"], check=True, timeout=PATIENCE)
    listening = subprocess.Popen(
        ["mosquitto_sub", *base, "-C", "201", "-W", str(PATIENCE)], stdout=subprocess.PIPE, text=True
    )
    assert listening.stdout is not None
    assert listening.stdout.readline() == "first\n"  # So it is subscribed.
    subprocess.run(published, input=sent, text=True, check=True, timeout=PATIENCE)
    assert listening.stdout.read() == sent
    assert listening.wait(PATIENCE) == 0
    listening.stdout.close()
