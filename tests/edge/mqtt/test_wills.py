"""Wills are messages like others: whoever may not publish them leaves none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from distributary.edge.access import Access, Identity
from distributary.edge.broker import Answer
from distributary.edge.mqtt.packets import WillMessage
from distributary.edge.mqtt.room import MqttRoom
from distributary.edge.sessions import Sessions
from distributary.model import Event
from edge.console.quiet_broker import QuietBroker, absent

ALLOWED, FORBIDDEN = "plants/bob/state", "plants/ann/state"
FILE = "[users.bob]\npublish = [{topic = 'plants/{user}'}]"


class NotingBroker(QuietBroker):
    """Notes what is published."""

    def __init__(self) -> None:
        super().__init__()
        self.topics: list[str | None] = []

    def publish(self, events: Sequence[Event], done: Answer) -> None:
        self.topics += [event.topic for event in events]
        done(None)


class World:
    """A room with a clock, for a user who has a grant."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "access.toml"
        self.file.write_text(FILE)
        self.access, self.broker, self.time = Access(self.file), NotingBroker(), 0.0
        self.notices: list[str] = []
        self.sessions = Sessions(self.broker, lambda: self.time, access=self.access)
        self.room = MqttRoom(
            self.broker,
            self.sessions,
            self.access,
            now=lambda: self.time,
            soon=lambda action: None,
            notice=self.notices.append,
        )

    def leave(self, topic: str, delay: int = 0) -> None:
        """A client of Bob's is gone without saying so."""
        bob = Identity("bob")
        session, _ = self.sessions.attach("bob/oven", absent(), None, 3_600, identity=bob)
        self.room.leave_will(
            bob, session, WillMessage(topic, b"gone", 1, False, {"will_delay_interval": delay})
        )


@pytest.mark.parametrize("delay", [0, 60])
def test_a_will_is_published_only_by_a_grant(tmp_path: Path, delay: int) -> None:
    world = World(tmp_path)
    for topic in (FORBIDDEN, ALLOWED):
        world.leave(topic, delay)
        world.time += delay
        world.room.tick()
    assert world.broker.topics == [ALLOWED]
    assert "none of your grants" in world.notices[0]


def test_a_grant_that_has_ended_meanwhile_does_not_hold(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.leave(ALLOWED, delay=60)
    world.file.write_text("[users.bob]")
    assert world.access.refresh()
    world.time += 60
    world.room.tick()
    assert world.broker.topics == []
