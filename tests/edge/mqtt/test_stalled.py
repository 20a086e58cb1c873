"""A client that stops reading for an hour: others lose nothing, its mailbox is bounded, and it is told."""

from __future__ import annotations

import pytest

from distributary.edge.mailbox import MailboxBounds
from distributary.edge.mqtt.packets import VERSION_3, VERSION_5, AckPacket, PacketKind, PublishPacket
from distributary.edge.mqtt.room import MqttSettings
from edge.mqtt.world import Wire, World, joined

MINUTES, EACH = 60, 20
"""So many messages are published every minute."""
BOUND, WINDOW = 300, 50


def got(wire: Wire) -> list[PublishPacket]:
    """The messages that have come, and those that come when they are acknowledged."""
    came: list[PublishPacket] = []
    more = wire.take()
    while more:
        new = [each for each in more if isinstance(each, PublishPacket)]
        came += new
        more = wire.send(*[AckPacket(PacketKind.PUBACK, each.packet_id) for each in new if each.qos])
    return came


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("version", [VERSION_3, VERSION_5])
def test_a_client_that_does_not_read_for_an_hour_costs_others_nothing(version: int, qos: int) -> None:
    world = World(MqttSettings(bounds=MailboxBounds(events=BOUND), send_maximum=WINDOW))
    slow, quick = joined(world, "slow", version=version), joined(world, "quick")
    for wire in (slow, quick):
        wire.subscribe("#", qos=qos)
    publisher = joined(world, "publisher")
    slow.buffered = 10 << 20  # its transport has megabytes that nobody takes
    session = world.sessions.get("slow")
    assert session is not None
    sent: list[bytes] = []
    for minute in range(MINUTES):
        new = [b"%d-%d" % (minute, number) for number in range(EACH)]
        sent += new
        packets = [PublishPacket("a", each, qos, packet_id=qos * (n + 1)) for n, each in enumerate(new)]
        publisher.send(*packets)
        assert [each.payload for each in got(quick)] == new
        assert len(session.mailbox) <= BOUND
        for wire in (quick, publisher):
            wire.send_bytes(b"\xc0\x00")
        world.pass_time(60.0)
    assert not slow.closed
    assert not got(slow)
    slow.buffered = 0
    slow.connection.drained()
    world.settle()
    assert [each.payload for each in got(slow)] == sent[:BOUND]
    publisher.send(PublishPacket("a", b"last", qos, packet_id=qos))
    (last,) = got(slow)
    told = dict(last.properties.get("user_property", ()))
    missing = len(sent) - BOUND
    gap = {"gap": f"{missing} events are missing before this one: the mailbox was full"}
    assert told == (gap if version == VERSION_5 else {})
