"""Subscriptions with a tolerance by HTTP and WebSocket begin with what MQTT's clients had retained."""

from __future__ import annotations

import asyncio
import time

from distributary.edge.mqtt.room import MqttRoom
from distributary.model import Event
from edge.web.serving import ServedWeb, served_web, socket_to
from live.loops import alone, until


def with_mqtt(web: ServedWeb) -> MqttRoom:
    """MQTT beside the web, at the same broker."""
    loop, service = asyncio.get_running_loop(), web.service
    room = MqttRoom(
        service.broker,
        service.sessions,
        service.access,
        now=time.time,
        soon=lambda action: loop.call_soon(action) and None,
    )
    room.start({})
    object.__setattr__(service, "mqtt", room)
    return room


@alone
async def test_a_tolerance_starts_from_the_latest_value_which_is_given_first() -> None:
    async with served_web() as web:
        room = with_mqtt(web)
        retained = Event("e1", "a/b", {"price": 10, "mqtt.retain": True})
        web.service.broker.publish([retained], lambda reason: None)
        await until(lambda: len(room.retained) == 1)
        await web.subscribed(topic="a", change={"price": 5})
        async with socket_to(web) as bob:
            await bob.say("open", session="bob")
            await bob.say("subscribe", request=1, id="s1", topic="a", change={"price": 5})
            await bob.say("subscribe", request=2, id="s2", topic="a/b")
            prices = [{"id": f"p{price}", "topic": "a/b", "price": price} for price in (14, 16, 20)]
            await web.ask("POST", "/events", prices)
            told = [await bob.hear("event") for _ in range(4)]
        assert [(each["event"]["price"], each["subscriptions"]) for each in told] == [
            (10, ["s1"]),
            (14, ["s2"]),
            (16, ["s1", "s2"]),
            (20, ["s2"]),
        ]
        await web.until_kept("ann", 2)
        session = web.service.sessions.get("ann")
        assert session is not None
        assert [each.delivery.event.attributes["price"] for each in session.mailbox.after(0)] == [10, 16]  # type: ignore[union-attr]
