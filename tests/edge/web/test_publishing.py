"""Events published by HTTP: every form, malformed ones one by one, limits, and who may not."""

from __future__ import annotations

import asyncio

import pytest

from distributary.edge.broker import LiveEdge
from distributary.edge.web.service import WebLimits
from edge.web.serving import served_web
from live.loops import alone, until

LINES = "application/x-ndjson"
CLOUD = {"specversion": "1.0", "id": "c1", "source": "/bourse", "type": "quote", "subject": "OTE"}


@alone
async def test_malformed_events_are_told_with_place_and_reason_and_the_others_are_published() -> None:
    async with served_web() as web:
        await web.subscribed(topic="quotes")
        events = [
            {"id": "e1", "topic": "quotes/A"},
            {"id": "e2", "topic": 4},
            7,
            {"id": "e4", "topic": "quotes"},
        ]
        reply = await web.ask("POST", "/events", events)
        assert reply.status == 207
        assert reply.json["ids"] == ["e1", "e4"]
        assert [each["place"] for each in reply.json["rejected"]] == [1, 2]
        assert reply.json["rejected"][0]["reason"] == "topic: must be a string, not 4"
        await web.until_kept("ann", 2)


@alone
async def test_an_event_that_the_broker_refuses_does_not_keep_the_others_from_being_published() -> None:
    async with served_web() as web:
        lines = b'{"id": "e1", "document": "<a/>"}\n\n{"id": "e2", "document": "<a"}\n{"id": "e3"}\n'
        reply = await web.ask("POST", "/events", lines, content_type=LINES)
        assert reply.status == 207
        assert reply.json["ids"] == ["e1", "e3"]
        assert [each["place"] for each in reply.json["rejected"]] == [1]


@alone
async def test_cloud_events_come_structured_binary_and_in_batches() -> None:
    async with served_web() as web:
        await web.subscribed(topic="quote/*", where="price > 8")
        headers = {f"ce_{name}": value for name, value in CLOUD.items()} | {"ce_subject": "O%2FTE"}
        structured, batch = "application/cloudevents+json", "application/cloudevents-batch+json"
        data = {"data": {"price": 8.5}}
        for reply in (
            await web.ask("POST", "/events", {**CLOUD, **data}, content_type=structured),
            await web.ask("POST", "/events", [{**CLOUD, **data, "id": "c2"}], content_type=batch),
            await web.ask("POST", "/events", {"price": 9}, **{**headers, "ce_id": "c3"}),
        ):
            assert (reply.status, reply.json["rejected"]) == (200, [])
        await web.until_kept("ann", 3)
        session = web.service.sessions.get("ann")
        assert session is not None
        kept = [entry.delivery.event for entry in session.take()]  # type: ignore[union-attr]
        assert [event.id for event in kept] == ["c1", "c2", "c3"]
        assert [event.topic for event in kept] == ["quote/OTE", "quote/OTE", "quote/O/TE"]
        assert kept[2].attributes["type"] == "quote"


@alone
async def test_a_body_that_is_no_list_of_events_is_refused_as_a_whole() -> None:
    async with served_web(limits=WebLimits(body=1000, events=3)) as web:
        assert (await web.ask("POST", "/events", b"[{]")).status == 415
        for body, status in ((b"[{]", 400), (b"[" * 900, 400), (b"{", 422), (b"[1,2,3,4]", 413)):
            assert (await web.ask("POST", "/events", body, content_type="application/json")).status == status
        assert (await web.ask("POST", "/events", b"x" * 1001, content_type=LINES)).status == 413
        assert (await web.ask("POST", "/events", b"x", content_encoding="gzip")).status == 415


@alone
async def test_a_body_without_a_length_is_read_no_further_than_allowed() -> None:
    async with served_web(limits=WebLimits(body=1000)) as web, web.line() as line:
        head = f"POST /events HTTP/1.1\r\nhost: {web.address}\r\ntransfer-encoding: chunked\r\n\r\n"
        line.writer.write(head.encode() + b"3e9\r\n" + b"x" * 1001 + b"\r\n")
        assert (await line.reader.readline()).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("brought", [b"", b"POST /events HTTP/1.1\r\nhost:"])
def test_a_connection_that_brings_no_whole_headers_in_time_ends(brought: bytes) -> None:
    @alone
    async def connect() -> None:
        async with served_web(limits=WebLimits(patience=0.05)) as web, web.line() as line:
            line.writer.write(brought)
            assert await line.reader.read() == b""

    connect()


@alone
async def test_a_body_that_comes_too_slowly_is_given_up() -> None:
    async with served_web(limits=WebLimits(patience=0.05)) as web, web.line() as line:
        head = f"POST /events HTTP/1.1\r\nhost: {web.address}\r\ncontent-length: 9\r\n\r\nab"
        line.writer.write(head.encode())
        assert (await line.reader.readline()).startswith(b"HTTP/1.1 408")


@alone
async def test_headers_beyond_the_limit_are_refused() -> None:
    async with served_web(limits=WebLimits(headers=2000)) as web:
        assert (await web.ask("GET", "/sessions/a", x="y" * 100)).status == 404
        async with web.line() as line:
            line.writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 4000)
            assert (await line.reader.readline()).startswith(b"HTTP/1.1 400")


@alone
async def test_publishers_wait_while_the_broker_is_congested(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served_web(limits=WebLimits(answer=0.05)) as web:
        busy = [True]
        monkeypatch.setattr(LiveEdge, "congested", property(lambda edge: busy[0]))
        assert (await web.ask("POST", "/events", {"topic": "a"})).status == 503
        waiting = asyncio.ensure_future(web.ask("POST", "/events", {"topic": "a"}))
        busy[0] = False
        await until(waiting.done)
        assert waiting.result().status == 200
