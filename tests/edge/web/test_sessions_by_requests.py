"""Sessions and subscriptions by HTTP, and what they get as server-sent events."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from distributary.edge.access import Access, Identity
from distributary.edge.web import managing, server_sent
from distributary.edge.web.faults import WebError
from edge.web.serving import served_web
from live.loops import alone, until


@alone
async def test_subscriptions_are_registered_changed_listed_and_removed() -> None:
    async with served_web() as web:
        path = "/sessions/ann/subscriptions/s1"
        assert (await web.ask("PUT", path, {"topic": "a"})).status == 404
        assert (await web.ask("PUT", "/sessions/ann", {"expiry": 60, "policy": "latest"})).status == 201
        assert (await web.ask("PUT", path, {"topic": "a"})).status == 201
        assert (await web.ask("PUT", path, {"where": "price > 8"})).status == 200
        listed = await web.ask("GET", "/sessions/ann/subscriptions")
        assert listed.json == [{"id": "s1", "where": "price > 8"}]
        assert (await web.ask("GET", path)).json == listed.json[0]
        found = (await web.ask("GET", "/sessions/ann")).json
        assert (found["policy"], found["expiry"], found["connected"]) == ("latest", 60.0, False)
        assert (await web.ask("DELETE", path)).status == 204
        assert (await web.ask("DELETE", path)).status == 404
        assert (await web.ask("DELETE", "/sessions/ann")).status == 204
        assert (await web.ask("GET", "/sessions/ann")).status == 404


@alone
async def test_what_cannot_be_is_refused_with_a_sentence() -> None:
    async with served_web() as web:
        for body, reason in (
            ({"policy": "burn"}, "policy: is one of keep, latest, drop-oldest, disconnect"),
            ({"events": -1}, "events: must be a whole number of 0 to 1,000,000, not -1"),
            ({"expiry": 0}, "expiry: must be above 0: a session made by a request has no connection"),
            ({"colour": 1}, "colour: is no setting of a session"),
        ):
            reply = await web.ask("PUT", "/sessions/ann", body)
            assert (reply.status, reply.json["error"]) == (422, reason)
        await web.ask("PUT", "/sessions/ann", {})
        path = "/sessions/ann/subscriptions/s1"
        for body in (
            {},
            {"where": "price >"},
            {"topic": "a", "id": "s2"},
            {"topic": "a", "subscriber": "bob"},
        ):
            assert (await web.ask("PUT", path, body)).status == 422
        for query, reason in (
            ("topic=a&wher=b>1", "wher: is none of topic, where, path, change, from"),
            ("topic=a&topic=b", "topic: given twice; keep one of them"),
            ("topic=a&change=b", "change: write change=NAME:TOLERANCE,NAME:TOLERANCE"),
            ("topic=a&from=[9e99,1]", "from: must be an offset, as events carry it, or a time in ISO 8601"),
            (
                f"topic=a&from=[{'9' * 400},1]",
                "from: must be an offset, as events carry it, or a time in ISO 8601",
            ),
        ):
            reply = await web.ask("GET", f"/events?{query}")
            assert (reply.status, reply.json["error"][: len(reason)]) == (422, reason)
        beyond = await web.ask("POST", "/sessions/ann/acknowledgements", {"place": 1})
        assert (beyond.status, beyond.json["error"]) == (
            422,
            "place: no event has had it here: the last one's is 0",
        )
        assert (await web.ask("GET", "/nothing")).status == 404
        assert (await web.ask("PATCH", "/sessions/ann")).status == 405


@alone
async def test_a_stream_goes_on_after_the_last_event_id_and_keeps_what_was_not_acknowledged() -> None:
    async with served_web() as web:
        await web.subscribed(topic="a")
        await web.ask("POST", "/events", [{"id": f"e{number}", "topic": "a"} for number in range(5)])
        async with web.line() as line:
            await line.send("GET", "/sessions/ann/events")
            events = line.server_sent()
            got = [await anext(events) for _ in range(5)]
        assert [each["id"] for each in got] == ["1", "2", "3", "4", "5"]
        assert [json.loads(each["data"])["event"]["id"] for each in got] == ["e0", "e1", "e2", "e3", "e4"]
        session = web.service.sessions.get("ann")
        assert session is not None
        await until(lambda: not session.connected)
        async with web.line() as line:
            await line.send("GET", "/sessions/ann/events", last_event_id="3")
            events = line.server_sent()
            assert [(await anext(events))["id"] for _ in range(2)] == ["4", "5"]
        assert len(session.mailbox) == 2
        assert (await web.ask("POST", "/sessions/ann/acknowledgements", {"place": 5})).status == 204
        assert len(session.mailbox) == 0
        assert (await web.ask("GET", "/sessions/ann/events", last_event_id="x")).status == 400


@alone
async def test_no_more_subscriptions_are_made_at_once_than_one_after_the_other(tmp_path: Path) -> None:
    file = tmp_path / "access.toml"
    file.write_text("[users.ann]\nsubscribe = [{where = 'true'}]\nquotas = {subscriptions = 2}")
    async with served_web(Access(file)) as web:
        ann, service = Identity("ann"), web.service
        session, _ = managing.put_session(service, ann, "pc", {})
        made = await asyncio.gather(
            *(managing.put_subscription(service, ann, session, {"topic": "a"}, f"s{n}") for n in range(5)),
            return_exceptions=True,
        )
        assert [isinstance(each, WebError) for each in made] == [False, False, True, True, True]
        assert len(session.subscriptions) == 2
        assert not service.registering


@alone
async def test_a_stream_has_a_tolerance_where_its_address_says_so() -> None:
    async with served_web() as web, web.line() as stream:
        await stream.send("GET", "/events?topic=a&change=price:0.5")
        await until(lambda: any(each.subscriptions for each in web.service.sessions))
        prices = [{"id": f"e{number}", "topic": "a", "price": 8 + 0.25 * number} for number in range(5)]
        await web.ask("POST", "/events", prices)
        sent = stream.server_sent()
        got = [json.loads((await anext(sent))["data"])["event"]["id"] for _ in range(2)]
        assert got == ["e0", "e3"]


@alone
async def test_whoever_waits_is_told_when_the_server_ends() -> None:
    async with served_web() as web, web.line() as stream, web.line() as publisher:
        await web.subscribed(topic="a")
        await stream.send("GET", "/sessions/ann/events")
        await until(lambda: any(each.connected for each in web.service.sessions))
        web.service.broker.publish = lambda events, done: None  # type: ignore[method-assign]
        await publisher.send("POST", "/events", b'{"topic": "a"}', content_type="application/json")
        await until(lambda: len(web.service._unanswered) == 1)
        web.service.end()
        assert (await publisher.reply()).status == 503
        last = await anext(stream.server_sent())
        assert (last["event"], "the broker ends" in last["data"]) == ("end", True)


@alone
async def test_gaps_are_told_in_a_stream() -> None:
    async with served_web() as web:
        await web.ask("PUT", "/sessions/ann", {"events": 2, "policy": "drop-oldest"})
        await web.ask("PUT", "/sessions/ann/subscriptions/s1", {"topic": "a"})
        await web.ask("POST", "/events", [{"topic": "a"} for _ in range(5)])
        session = web.service.sessions.get("ann")
        assert session is not None
        await until(lambda: session.mailbox.last == 5)
        async with web.line() as line:
            await line.send("GET", "/sessions/ann/events")
            events = line.server_sent()
            gap = await anext(events)
            assert (gap["event"], gap["id"]) == ("gap", "3")
            assert json.loads(gap["data"])["events"] == 3
            assert (await anext(events))["id"] == "4"
        async with web.line() as line:
            await line.send("GET", "/sessions/ann/events", last_event_id="99")
            gap = await anext(line.server_sent())
            assert json.loads(gap["data"])["reason"] == "the session is a new one, and has nothing of before"
        assert len(session.mailbox) == 2  # a place that was never given acknowledges nothing


@alone
async def test_what_was_sent_long_ago_counts_as_arrived_and_its_loss_is_told() -> None:
    server_sent.KEPT, before = 10, server_sent.KEPT
    try:
        async with served_web() as web:
            await web.subscribed(topic="a")
            async with web.line() as line:
                await line.send("GET", "/sessions/ann/events")
                events = line.server_sent()
                for start in range(0, 40, 4):
                    await web.ask("POST", "/events", [{"topic": "a"} for _ in range(4)])
                    for number in range(start, start + 4):
                        assert (await anext(events))["id"] == str(number + 1)
            session = web.service.sessions.get("ann")
            assert session is not None
            await until(lambda: not session.connected)
            assert len(session.mailbox) == 10
            async with web.line() as line:
                await line.send("GET", "/sessions/ann/events", last_event_id="20")
                events = line.server_sent()
                assert (await anext(events))["event"] == "gap"
                assert (await anext(events))["id"] == "31"
    finally:
        server_sent.KEPT = before


@alone
async def test_a_stream_of_its_own_ends_with_its_connection() -> None:
    async with served_web() as web:
        async with web.line() as line:
            await line.send("GET", "/events?topic=a&where=price%20%3E%208")
            events = line.server_sent()
            first = asyncio.ensure_future(anext(events))
            await until(lambda: any(session.subscriptions for session in web.service.sessions))
            await web.ask(
                "POST", "/events", [{"topic": "a", "price": 1}, {"id": "e2", "topic": "a", "price": 9}]
            )
            assert json.loads((await first)["data"])["event"]["id"] == "e2"
        await until(lambda: len(web.service.sessions) == 0)
        assert (await web.ask("GET", "/events")).status == 422
        assert len(web.service.sessions) == 0
