"""Explanations, replays, MQTT over WebSocket, and a description that tells what the application does."""

from __future__ import annotations

import asyncio
import json
import re
import time
from random import Random
from urllib.parse import quote

import pytest
import websockets
from hypothesis import given
from hypothesis import strategies as st

from distributary.edge.mqtt.room import MqttRoom
from distributary.edge.web import replaying
from distributary.edge.web.application import HANDLERS
from distributary.edge.web.openapi import SCHEMAS, description
from distributary.edge.web.replaying import MOST_SAMPLES, OffsetSample, OffsetTable, ReplayClock
from distributary.model import Offset
from edge.console.quiet_broker import QuietBroker
from edge.session_world import TornDisk
from edge.web.serving import ServedWeb, served_web
from live.loops import alone, until


@alone
async def test_an_explanation_says_what_every_filter_says() -> None:
    async with served_web() as web:
        event = {"id": "e1", "topic": "quotes/OTE", "price": 7}
        asked = {"topic": "quotes", "where": "price > 8"}
        reply = await web.ask("POST", "/explanations", {"event": event, "subscription": asked})
        assert (reply.status, reply.json["matches"]) == (200, False)
        assert [(each["kind"], each["passes"]) for each in reply.json["filters"]] == [
            ("topic", True),
            ("where", False),
        ]
        await web.subscribed("ann", "s1", **asked)
        own = {"event": {**event, "price": 9}, "session": "ann", "subscription": "s1"}
        assert (await web.ask("POST", "/explanations", own)).json["matches"]
        for wrong, status in (
            ({}, 422),
            ({"event": event, "subscription": {}}, 422),
            ({"event": event, "subscription": "s1"}, 422),
            ({**own, "subscription": "s2"}, 404),
            ({**own, "session": "bob"}, 404),
        ):
            assert (await web.ask("POST", "/explanations", wrong)).status == status


async def _streamed(web: ServedWeb, path: str, count: int) -> list[dict[str, object]]:
    async with web.line() as line:
        await line.send("GET", path)
        events = line.server_sent()
        return [json.loads((await anext(events))["data"]) for _ in range(count)]


@alone
async def test_a_replay_begins_at_an_offset_or_a_time_and_goes_on_with_what_comes() -> None:
    async with served_web() as web:
        await web.subscribed(topic="a")
        for number in range(6):
            await web.ask("POST", "/events", {"id": f"e{number}", "topic": "a"})
        await web.until_kept("ann", 6)
        session = web.service.sessions.get("ann")
        assert session is not None
        offsets = [list(entry.delivery.offset or ()) for entry in session.take()]  # type: ignore[union-attr]
        path = f"/events?topic=a&from={quote(json.dumps(offsets[2]))}"
        assert [each["event"]["id"] for each in await _streamed(web, path, 3)] == ["e3", "e4", "e5"]  # type: ignore[index]
        later = time.time()
        web.service.clock.table.add(OffsetSample(later - 10, Offset(*offsets[0])))
        web.service.clock.table.add(OffsetSample(later - 5, Offset(*offsets[3])))
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(later - 4))
        assert [
            each["event"]["id"] for each in await _streamed(web, f"/events?topic=a&from={moment}Z", 2)
        ] == ["e4", "e5"]  # type: ignore[index]
        assert (await web.ask("GET", "/events?topic=a&from=yesterday")).status == 422
        assert (await web.ask("GET", "/events?topic=a&from=[1")).status == 422
        refused = await web.ask("PUT", "/sessions/ann/subscriptions/s2", {"topic": "a", "from": offsets[0]})
        assert "a session of its own" in refused.json["error"]
        await web.ask("PUT", "/sessions/bob", {})
        await web.ask("PUT", "/sessions/bob/subscriptions/s1", {"topic": "a", "from": offsets[4]})
        await web.until_kept("bob", 1)
        await web.ask("POST", "/events", {"id": "e6", "topic": "a"})
        await web.until_kept("bob", 2)


def test_the_table_of_offsets_stays_small_and_is_never_late() -> None:
    table = OffsetTable()
    for number in range(10 * MOST_SAMPLES):
        table.add(OffsetSample(float(number), Offset(1.0, number)))
    assert len(table) <= MOST_SAMPLES + 1
    for moment in range(0, 10 * MOST_SAMPLES, 97):
        assert table.before(moment).number <= moment
    assert table.before(10 * MOST_SAMPLES).number == 10 * MOST_SAMPLES - 1


class ReachingBroker(QuietBroker):
    """A broker whose log comes as far as it is told."""

    number = 0

    def reached(self, subscriber: str) -> Offset | None:
        return Offset(1.0, self.number)


@given(
    st.lists(st.tuples(st.integers(-2, 9), st.integers(0, 2), st.booleans()), max_size=60),
    st.integers(2, 12),
)
def test_a_clock_that_starts_again_knows_what_it_knew_and_is_never_late(
    steps: list[tuple[int, int, bool]], most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replaying, "MOST_SAMPLES", most)
        broker, disk, now = ReachingBroker(), TornDisk(Random(1)), [100.0]
        clock, published = ReplayClock(broker, lambda: now[0], disk), list[tuple[float, int]]()
        for passed, came, crashes in steps:
            now[0] += passed
            published += [(now[0], broker.number + each) for each in range(came)]
            broker.number += came
            clock.tell_progress()
            if crashes:
                while disk.waiting:
                    disk.step()
                before, clock = clock, ReplayClock(broker, lambda: now[0], disk)
                clock.restore(dict(disk.stored))
                assert len(clock.table) == len(before.table) == len(disk.stored)
                for moment in range(90, 700, 7):
                    due = [number for at, number in published if at > moment]
                    assert clock.table.before(moment).number <= min(due, default=broker.number)
                assert clock.table.before(10_000.0) == before.table.before(10_000.0)


@alone
async def test_the_clock_of_replays_is_told_how_far_the_log_has_come() -> None:
    async with served_web() as web:
        await web.ask("POST", "/events", {"id": "e1", "topic": "a"})

        def reached() -> bool:
            web.service.clock.tell_progress()
            return web.service.clock.table.before(time.time() + 1).number >= 1

        await until(reached)


@alone
async def test_mqtt_goes_over_a_websocket_however_its_bytes_are_cut() -> None:
    async with served_web() as web:
        loop = asyncio.get_running_loop()
        room = MqttRoom(
            web.service.broker,
            web.service.sessions,
            web.service.access,
            now=time.time,
            soon=lambda action: loop.call_soon(action) and None,
        )
        object.__setattr__(web.service, "mqtt", room)
        with pytest.raises(websockets.InvalidStatus):
            await websockets.connect(f"ws://{web.address}/mqtt")
        with pytest.raises(websockets.InvalidStatus):
            await websockets.connect(
                f"ws://{web.address}/mqtt", subprotocols=["mqtt"], origin="https://evil.example"
            )
        async with websockets.connect(f"ws://{web.address}/mqtt", subprotocols=["mqtt"]) as line:
            assert line.subprotocol == "mqtt"
            connect = bytes([0x10, 15]) + b"\x00\x04MQTT\x04\x02\x00\x3c\x00\x03ann"
            await line.send(connect[:5])
            await line.send(connect[5:])
            assert await line.recv() == b"\x20\x02\x00\x00"
            await line.send(
                b"\x82\x08\x00\x01\x00\x03a/#\x00" + b"\xc0\x00"
            )  # SUBSCRIBE and PINGREQ together
            answers = b""
            while len(answers) < 7:
                answers += await line.recv()
            assert answers in (b"\x90\x03\x00\x01\x00\xd0\x00", b"\xd0\x00\x90\x03\x00\x01\x00")
            await web.ask("POST", "/events", {"id": "e1", "topic": "a/b", "x": 1})
            got = await line.recv()
            assert got[:7] == bytes([0x30, len(got) - 2]) + b"\x00\x03a/b"
            assert json.loads(got[7:])["x"] == 1
            await line.send("text")
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await line.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1003
        await until(lambda: not room.connections)


def test_the_description_names_every_request_and_no_other() -> None:
    described = {
        (path, method.upper()) for path, methods in description()["paths"].items() for method in methods
    }
    assert described == {(path, method) for path, methods in HANDLERS.items() for method in methods}
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(description())))
    assert references <= set(SCHEMAS)


def valid(value: object, schema: dict[str, object]) -> bool:
    """Whether a value is what a schema says, as far as the description uses schemas."""
    if "$ref" in schema:
        return valid(value, SCHEMAS[str(schema["$ref"]).rpartition("/")[2]])
    if "allOf" in schema:
        return all(valid(value, each) for each in schema["allOf"])  # type: ignore[attr-defined]
    if "anyOf" in schema or "oneOf" in schema:
        return any(valid(value, each) for each in schema.get("anyOf", schema.get("oneOf")))  # type: ignore[union-attr]
    kinds = {
        "string": str,
        "number": (int, float),
        "integer": int,
        "boolean": bool,
        "array": list,
        "object": dict,
    }
    given = schema["type"]
    allowed = given if isinstance(given, list) else [given]
    if value is None:
        return "null" in allowed
    if not any(isinstance(value, kinds[each]) for each in allowed if each != "null"):  # type: ignore[arg-type]
        return False
    if isinstance(value, list):
        return all(valid(each, schema["items"]) for each in value)  # type: ignore[arg-type]
    if isinstance(value, dict):
        known: dict[str, dict[str, object]] = schema.get("properties", {})  # type: ignore[assignment]
        there = set(schema.get("required", ())) <= set(value)  # type: ignore[call-overload]
        return there and all(valid(value[name], known[name]) for name in known if name in value)
    return value in schema.get("enum", [value])  # type: ignore[operator]


@alone
async def test_answers_are_as_the_description_says() -> None:
    async with served_web() as web:
        session, subscription = "/sessions/{session}", "/sessions/{session}/subscriptions/{subscription}"
        question = {"event": {"topic": "a"}, "subscription": {"topic": "a"}}
        for method, path, body in (
            ("GET", session, None),
            ("PUT", session, {"expiry": 60}),
            ("PUT", session, {"policy": "latest"}),
            ("PUT", session, {"policy": 7}),
            ("PUT", session, b"{"),
            ("GET", session, None),
            ("PUT", subscription, {"topic": "a", "change": {"price": 1}}),
            ("PUT", subscription, {"where": "true"}),
            ("PUT", subscription, {"where": "("}),
            ("GET", subscription, None),
            ("GET", "/sessions/{session}/subscriptions", None),
            ("POST", "/events", {"topic": "a"}),
            ("POST", "/events", [{"topic": "a"}, 7]),
            ("POST", "/events", [7]),
            ("POST", "/events", b"x"),
            ("GET", "/events", None),
            ("GET", "/sessions/{session}/webhook", None),
            ("PUT", "/sessions/{session}/webhook", {"url": "http://127.0.0.1/"}),
            ("DELETE", "/sessions/{session}/webhook", None),
            ("POST", "/sessions/{session}/acknowledgements", {"place": 1}),
            ("POST", "/sessions/{session}/acknowledgements", {"place": -1}),
            ("POST", "/explanations", question),
            ("POST", "/explanations", {}),
            ("POST", "/tickets", None),
            ("GET", "/openapi.json", None),
            ("GET", "/", None),
            ("DELETE", subscription, None),
            ("DELETE", subscription, None),
            ("DELETE", session, None),
            ("DELETE", session, None),
        ):
            reply = await web.ask(
                method, path.replace("{session}", "ann").replace("{subscription}", "s1"), body
            )
            described = description()["paths"][path][method.lower()]["responses"]
            assert str(reply.status) in described, (method, path, body, reply)
            content = described[str(reply.status)].get("content", {})
            if not content:
                assert reply.body == b""
                continue
            kind = reply.headers["content-type"].partition(";")[0]
            assert kind in content
            if kind == "application/json":
                assert valid(reply.json, content[kind]["schema"]), (method, path, body, reply)
        assert not valid({"error": 7}, {"$ref": "#/components/schemas/Fault"})
        assert not valid({}, {"$ref": "#/components/schemas/Fault"})
        page = (await web.ask("GET", "/")).body.decode()
        assert "<script" not in page
        assert "/sessions/{session}/webhook" in page
