"""Clients by WebSocket: what they are given, acknowledge and come back to; pages of other origins."""

from __future__ import annotations

import json

import pytest
import websockets

from distributary.edge.web.service import WebLimits
from edge.web.serving import served_web, socket_to
from live.loops import alone, until


@alone
async def test_a_client_publishes_subscribes_and_goes_on_after_what_it_acknowledged() -> None:
    async with served_web() as web:
        async with socket_to(web) as ann:
            await ann.say("open", session="ann")
            opened = await ann.hear("opened")
            assert (opened["present"], opened["subscriptions"]) == (False, [])
            await ann.say("subscribe", request=1, id="s1", topic="a")
            assert (await ann.hear())["request"] == 1
            await ann.say(
                "publish",
                request=2,
                events=[{"id": "e1", "topic": "a"}, {"id": 7.5}, {"id": "e2", "topic": "a"}],
            )
            done = await ann.hear("done")
            assert (done["request"], done["ids"]) == (2, ["e1", "e2"])
            assert [each["place"] for each in done["rejected"]] == [1]
        async with socket_to(web) as ann:
            await ann.say("open", session="ann")
            assert (await ann.hear("opened"))["subscriptions"] == [{"id": "s1", "topic": "a"}]
            assert [(await ann.hear("event"))["event"]["id"] for _ in range(2)] == ["e1", "e2"]
            await ann.say("acknowledge", place=1)
            session = web.service.sessions.get("ann")
            assert session is not None
            await until(lambda: len(session.mailbox) == 1)
        async with socket_to(web) as ann:
            await ann.say("open", session="ann", after=1, mark=opened["mark"])
            again = await ann.hear("event")
            assert (again["place"], again["event"]["id"]) == (2, "e2")
            await ann.say("unsubscribe", request=5, id="s1")
            assert (await ann.hear("done"))["request"] == 5
            await ann.say("unsubscribe", request=6, id="s1")
            assert (await ann.hear("refused"))["reason"] == "there is no subscription 's1'"


@alone
async def test_what_a_client_says_to_have_counts_as_acknowledged_if_it_speaks_of_the_same_places() -> None:
    async with served_web() as web:
        await web.subscribed(topic="a")
        await web.ask("POST", "/events", [{"id": f"e{n}", "topic": "a"} for n in range(3)])
        await web.until_kept("ann", 3)
        async with socket_to(web) as ann:
            await ann.say("open", session="ann", after=2, mark="of another session")
            mark = (await ann.hear("opened"))["mark"]
            assert (await ann.hear("event"))["place"] == 1
        async with socket_to(web) as ann:
            await ann.say("open", session="ann", after=2, mark=mark)
            assert (await ann.hear("event"))["place"] == 3


@alone
async def test_no_more_is_under_way_than_the_window() -> None:
    async with served_web() as web, socket_to(web) as ann:
        await ann.say("open", session="ann", window=3)
        await ann.say("subscribe", request=1, id="s1", topic="a")
        await ann.say("publish", request=2, events=[{"id": f"e{n}", "topic": "a"} for n in range(9)])
        assert [(await ann.hear("event"))["place"] for _ in range(3)] == [1, 2, 3]
        await ann.say("publish", request=3, events=[])
        assert (await ann.hear())["type"] == "done"  # nothing came before the answer
        await ann.say("acknowledge", place=2)
        assert [(await ann.hear("event"))["place"] for _ in range(2)] == [4, 5]
        await ann.say("publish", request=4, events=[])
        assert (await ann.hear())["type"] == "done"


@alone
async def test_another_connection_takes_over_and_the_one_before_is_told() -> None:
    async with served_web() as web, socket_to(web) as first:
        await first.say("open", session="ann")
        await first.hear("opened")
        async with socket_to(web) as second:
            await second.say("open", session="ann")
            assert (await second.hear("opened"))["present"]
            assert "took over" in (await first.hear("end"))["reason"]
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await first.hear()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1001


@alone
async def test_gaps_are_told_until_acknowledged_and_a_session_without_a_name_ends_with_its_connection() -> (
    None
):
    async with served_web() as web:
        await web.ask("PUT", "/sessions/ann", {"events": 1, "policy": "latest"})
        await web.ask("PUT", "/sessions/ann/subscriptions/s1", {"topic": "a"})
        await web.ask("POST", "/events", [{"topic": "a"} for _ in range(3)])
        session = web.service.sessions.get("ann")
        assert session is not None
        await until(lambda: session.mailbox.last == 3)
        async with socket_to(web) as ann:
            await ann.say("open", session="ann")
            gap = await ann.hear("gap")
            assert (gap["place"], gap["events"]) == (2, 2)
        async with socket_to(web) as ann:  # the connection broke before it was acknowledged
            await ann.say("open", session="ann")
            assert await ann.hear("gap") == gap
            await ann.say("acknowledge", place=gap["place"])
            await until(lambda: [entry.place for entry in session.mailbox.after(0)] == [3])
        async with socket_to(web) as ann:
            await ann.say("open", session="ann")
            assert (await ann.hear("event"))["place"] == 3
        async with socket_to(web) as nobody:
            await nobody.say("open")
            await nobody.hear("opened")
            assert len(web.service.sessions) == 2
        await until(lambda: len(web.service.sessions) == 1)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("{", "not JSON"),
        ('{"type": "publish"}', "type: the first message of a connection is `open`"),
        ('{"type": "open", "session": 7}', "session: must be a text"),
        ('{"type": "open", "session": "a\\u0007"}', "no control characters"),
        ('{"type": "open", "after": "x"}', "after: must be a whole number"),
        ('{"type": "open"}|{"type": "burn"}', "type: no message is called 'burn'"),
        ('{"type": "open"}|{"type": "acknowledge", "place": "x"}', "place: must be the place of an event"),
        ('{"type": "open"}|[1]', "a record is a JSON object, not an array"),
    ],
)
def test_a_client_that_says_what_cannot_be_is_told_so_and_let_go(said: str, reason: str) -> None:
    @alone
    async def speak() -> None:
        async with served_web() as web, socket_to(web) as client:
            for each in said.split("|"):
                await client.line.send(each)
            assert reason in (await client.hear("end"))["reason"]
            with pytest.raises(websockets.ConnectionClosed):
                await client.hear()
        assert len(web.service.sessions) == 0

    speak()


@alone
async def test_a_connection_that_does_not_open_in_time_is_let_go() -> None:
    async with served_web(limits=WebLimits(patience=0.05)) as web, socket_to(web) as client:
        assert "which has not come" in (await client.hear("end"))["reason"]


@alone
async def test_pages_of_other_origins_may_not_connect_unless_allowed() -> None:
    async with served_web(origins=("https://example.org",)) as web:
        for origin in (f"http://{web.address}", "https://example.org"):
            async with socket_to(web, origin=origin) as page:
                await page.say("open")
                await page.hear("opened")
        for origin in ("https://evil.example", "null", f"https://{web.address}"):
            with pytest.raises(websockets.InvalidStatus) as refused:
                async with socket_to(web, origin=origin):
                    pass
            assert refused.value.response.status_code == 403
            assert (await web.ask("POST", "/events", {"topic": "a"}, origin=origin)).status == 403
        own = f"http://{web.address}"
        assert (await web.ask("POST", "/events", {"topic": "a"}, origin=own)).status == 200


@alone
async def test_on_loopback_only_names_of_this_machine_lead_here() -> None:
    async with served_web() as web:
        assert (await web.ask("GET", "/sessions/a", host=f"localhost:{web.port}")).status == 404
        assert (await web.ask("GET", "/sessions/a", host="evil.example")).status == 421
        assert (await web.ask("GET", "/sessions/a", host="[")).status == 421


@alone
async def test_a_ticket_is_good_once() -> None:
    async with served_web() as web:
        ticket = (await web.ask("POST", "/tickets", {})).json["ticket"]
        address = f"ws://{web.address}/ws?ticket={ticket}"
        async with websockets.connect(address) as line:
            await line.send('{"type": "open"}')
            assert json.loads(await line.recv())["type"] == "opened"
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with websockets.connect(address):
                pass
        assert refused.value.response.status_code == 401
