"""Webhooks: signed, in order, tried again, parked, and never sent to where users could not go themselves."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import h11
import pytest

from distributary.edge.web import outgoing
from distributary.edge.web.webhooks import WebhookRules
from edge.access.issuing import FILE, Place, ann_s_hash, token
from edge.listening import listening
from edge.web.serving import ServedWeb, served_web, socket_to
from live.loops import alone, until

QUICK = WebhookRules(failures=4, first_pause=0.001, longest_pause=0.002, private=True)


class Receiver:
    """A web server that answers requests with the statuses it is told to, then with 204."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?a=b"

    @property
    def records(self) -> list[Any]:
        return [json.loads(body) for _, body in self.requests]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line, body, head = h11.Connection(h11.SERVER), b"", None
        while not isinstance(event := line.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                line.receive_data(await reader.read(1 << 16))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
        assert head is not None
        assert head.target == b"/hook?a=b"
        self.requests.append(({name.decode(): value.decode() for name, value in head.headers}, body))
        status = self.statuses.pop(0) if self.statuses else 204
        writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\nlocation: /elsewhere\r\n\r\n".encode())


@asynccontextmanager
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    async with listening(made.serve) as made.port:
        yield made


async def hooked(web: ServedWeb, url: str, **more: Any) -> Any:
    await web.subscribed(topic="a")
    reply = await web.ask("PUT", "/sessions/ann/webhook", {"url": url, **more})
    assert reply.status == 200
    return reply.json


@alone
async def test_events_are_sent_in_order_as_signed_cloud_events_and_acknowledged() -> None:
    async with served_web(webhook_rules=QUICK) as web, receiver() as hook:
        secret = (await hooked(web, hook.url))["secret"]
        events = [{"id": f"e{n}", "topic": "a", "source": "/s", "price": n} for n in range(3)]
        await web.ask("POST", "/events", events)
        await until(lambda: len(hook.requests) == 3)
        assert [each["id"] for each in hook.records] == ["e0", "e1", "e2"]
        assert hook.records[2] == {
            "specversion": "1.0",
            "id": "e2",
            "source": "/s",
            "type": "distributary.event",
            "topic": "a",
            "data": {"price": 2},
        }
        headers, body = hook.requests[0]
        assert headers["content-type"] == "application/cloudevents+json; charset=utf-8"
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{expected}"
        session = web.service.sessions.get("ann")
        assert session is not None
        await until(lambda: len(session.mailbox) == 0)
        assert "secret" not in (await web.ask("GET", "/sessions/ann/webhook")).json


@alone
async def test_what_fails_is_sent_again_with_the_same_id_before_what_comes_after_it() -> None:
    async with served_web(webhook_rules=QUICK) as web, receiver() as hook:
        hook.statuses = [500, 302, 404]
        await hooked(web, hook.url)
        await web.ask("POST", "/events", [{"id": "e1", "topic": "a"}, {"id": "e2", "topic": "a"}])
        await until(lambda: len(hook.requests) == 5)
        assert [each["id"] for each in hook.records] == ["e1"] * 4 + ["e2"]
        ids = [headers["webhook-id"] for headers, _ in hook.requests]
        assert len(set(ids[:4])) == 1
        assert ids[4] != ids[0]


@alone
async def test_after_so_many_failures_a_webhook_is_parked_and_told_and_goes_on_when_set_again() -> None:
    notes: list[str] = []
    async with served_web(webhook_rules=QUICK, note=notes.append) as web, receiver() as hook:
        hook.statuses = [500] * 4
        await hooked(web, hook.url)
        await web.ask("POST", "/events", [{"id": "e1", "topic": "a"}, {"id": "e2", "topic": "a"}])
        await until(lambda: bool(notes))
        reason = "4 failures in a row, the last: the answer was 500"
        assert notes == [f"the webhook of 'ann' is parked: {reason}"]
        state = (await web.ask("GET", "/sessions/ann/webhook")).json
        assert (state["state"], state["reason"]) == ("parked", reason)
        session = web.service.sessions.get("ann")
        assert session is not None
        assert (len(session.mailbox), session.connected) == (2, False)
        await hooked(web, hook.url)
        await until(lambda: len(hook.requests) == 6)
        assert [each["id"] for each in hook.records[4:]] == ["e1", "e2"]
        hook.statuses = [410]
        await web.ask("POST", "/events", [{"id": "e3", "topic": "a"}])
        await until(lambda: len(notes) == 2)  # gone for good: not tried again
        assert len(hook.requests) == 7


@alone
async def test_a_webhook_whose_owner_s_log_in_has_ended_is_parked_and_told(tmp_path: Path) -> None:
    place, notes = Place(tmp_path), list[str]()
    place.write(FILE.format(hashed=ann_s_hash()).replace('topic = "plants", where', "where"))
    access = place.access(time.time)
    async with served_web(access, webhook_rules=QUICK, note=notes.append) as web, receiver() as hook:
        login = {"authorization": f"Bearer {token(sub='cleo', groups=['operators'])}"}
        await web.ask("PUT", "/sessions/pc", {}, **login)
        await web.ask("PUT", "/sessions/pc/subscriptions/s1", {"where": "true"}, **login)
        session = web.service.sessions.get("cleo/pc")
        assert session is not None
        for _ in range(2):
            await web.ask("PUT", "/sessions/pc/webhook", {"url": hook.url}, **login)
            assert session.identity is not None
            assert access.known(session.identity)
            assert (await web.ask("GET", "/sessions/pc/webhook", **login)).json["state"] == "running"
            session.identity = session.identity._replace(expires=1.0)
            session.expire(time.time())
            await until(lambda: "webhook-parked" in session.marks)
        state = (await web.ask("GET", "/sessions/pc/webhook", **login)).json
        assert (state["state"], state["reason"]) == (
            "parked",
            "the log-in has expired: log in, and set it again",
        )
        assert len(notes) == 2


@alone
async def test_events_come_together_where_that_is_asked_and_gaps_are_told() -> None:
    async with served_web(webhook_rules=QUICK) as web, receiver() as hook:
        await web.ask("PUT", "/sessions/ann", {"events": 2, "policy": "drop-oldest"})
        await web.ask("PUT", "/sessions/ann/subscriptions/s1", {"topic": "a"})
        await web.ask("POST", "/events", [{"id": f"e{n}", "topic": "a"} for n in range(5)])
        session = web.service.sessions.get("ann")
        assert session is not None
        await until(lambda: session.mailbox.last == 5)
        reply = await web.ask("PUT", "/sessions/ann/webhook", {"url": hook.url, "together": 10})
        assert reply.json["state"] == "running"
        await until(lambda: len(hook.requests) == 1)
        [records] = hook.records
        assert [each["type"] for each in records] == ["distributary.gap"] + ["distributary.event"] * 2
        assert records[0]["data"]["events"] == 3
        assert (await web.ask("DELETE", "/sessions/ann/webhook")).status == 204
        assert (await web.ask("DELETE", "/sessions/ann/webhook")).status == 404
        await web.ask("POST", "/events", [{"id": "e9", "topic": "a"}])
        await until(lambda: session.mailbox.last == 6)
        assert len(hook.requests) == 1


@alone
async def test_a_webhook_goes_on_after_a_restart_and_makes_room_for_a_client_that_connects() -> None:
    async with served_web(webhook_rules=QUICK) as web, receiver() as hook:
        await hooked(web, hook.url)
        await web.service.webhooks.stop()
        await web.ask("POST", "/events", {"id": "e1", "topic": "a"})
        await web.until_kept("ann", 1)
        assert hook.requests == []
        web.service.webhooks.start()
        await until(lambda: len(hook.requests) == 1)
        async with socket_to(web) as ann:
            await ann.say("open", session="ann")
            await ann.hear("opened")
            await web.ask("POST", "/events", {"id": "e2", "topic": "a"})
            assert (await ann.hear("event"))["event"]["id"] == "e2"
            assert (await web.ask("GET", "/sessions/ann/webhook")).json["state"] == "displaced"
        assert len(hook.requests) == 1


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/hook",
        "http://localhost/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://169.254.169.254/latest/meta-data",
        "http://0.0.0.0/",
        "http://0x7f000001/",
        "http://2130706433/",
        "ftp://example.org/",
        "http://ann:secret@example.org/",
        "http://",
        "http://example.org\r\nx: y/",
        7,
    ],
)
def test_addresses_of_this_machine_and_private_networks_are_refused(url: object) -> None:
    @alone
    async def ask() -> None:
        async with served_web() as web:
            await web.subscribed(topic="a")
            reply = await web.ask("PUT", "/sessions/ann/webhook", {"url": url})
            assert reply.status == 422
            assert reply.json["error"].startswith("url: ")

    ask()


@alone
async def test_a_name_that_leads_elsewhere_later_gains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiver() as hook:
        parts = outgoing.checked_address("http://rebound.example/hook?a=b")
        loop = asyncio.get_running_loop()

        async def lookup(*_: Any, **__: Any) -> Any:
            return [(2, 1, 6, "", ("93.184.216.34", 80)), (2, 1, 6, "", ("127.0.0.1", hook.port))]

        monkeypatch.setattr(loop, "getaddrinfo", lookup)
        with pytest.raises(outgoing.OutgoingError, match="private network"):
            await outgoing.resolved(parts, private=False)
        assert await outgoing.resolved(parts, private=True) == ("93.184.216.34", 80)


@alone
async def test_an_answer_that_does_not_come_is_given_up() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with listening(silent) as port:
        with pytest.raises(outgoing.OutgoingError, match="has not answered within"):
            await outgoing.post(f"http://127.0.0.1:{port}/", b"", {}, private=True, patience=0.05)
    with pytest.raises(outgoing.OutgoingError, match="cannot be reached"):
        await outgoing.post("http://127.0.0.1:1/", b"", {}, private=True)
