"""Who may come in by the web, and what of others they see: nothing."""

from __future__ import annotations

import asyncio
import base64
import ssl
from pathlib import Path

import pytest
import trustme
import websockets

from distributary.client import RefusedError, connect
from distributary.edge.access import Access
from distributary.edge.access.passwords import hash_password
from distributary.edge.web.server import WebServer, require_safe
from distributary.errors import DistributaryError
from distributary.model import Event
from edge.web.serving import served_web, socket_to
from live.loops import alone, until

RULES = """
[users.ann]
password = "{hashed}"
publish = [{{topic = "ann"}}]
subscribe = [{{topic = "shared"}}, {{topic = "ann"}}]

[users.bob]
password = "{hashed}"
publish = [{{topic = "shared"}}]
subscribe = [{{topic = "shared", where = "secret is null"}}]
"""


def access_file(directory: Path) -> Access:
    path = directory / "access.toml"
    path.write_text(RULES.format(hashed=hash_password(b"a long password")))
    return Access(path)


def basic(user: str, password: str = "a long password") -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@alone
async def test_whoever_does_not_log_in_gets_nothing_but_the_way_to(tmp_path: Path) -> None:
    async with served_web(access_file(tmp_path)) as web:
        for method, path in (
            ("GET", "/"),
            ("POST", "/events"),
            ("GET", "/events?topic=a"),
            ("POST", "/tickets"),
        ):
            reply = await web.ask(method, path)
            assert reply.status == 401
            assert reply.headers["www-authenticate"].startswith("Bearer")
        for header in (basic("ann", "wrong"), basic("nobody"), "Bearer abc", "Basic !", "Digest x"):
            assert (await web.ask("GET", "/", authorization=header)).status == 401
        with pytest.raises(websockets.InvalidStatus) as refused:
            await websockets.connect(f"ws://{web.address}/ws")
        assert refused.value.response.status_code == 401
        assert (await web.ask("GET", "/", authorization=basic("ann"))).status == 200
        assert (await web.ask("GET", "/?ticket=abc", authorization=basic("ann"))).status == 401


LENGTH, JSON = "content-length: 16", "content-type: application/json"
AS_ANN = f"authorization: {basic('ann')}"
HEADERS = {
    "nothing more than the log-in": ((AS_ANN, JSON, LENGTH), 200),
    "no log-in, and another's address": (("x-forwarded-for: 127.0.0.1", JSON, LENGTH), 401),
    "no log-in, and an address as the standard has it": (("forwarded: for=127.0.0.1", JSON, LENGTH), 401),
    "a proxy's user": (("remote-user: ann", "x-forwarded-user: ann", JSON, LENGTH), 401),
    "a user in a cookie": (("cookie: user=ann", JSON, LENGTH), 401),
    "another method in a header": (("x-http-method-override: GET", JSON, LENGTH), 401),
    "a second log-in": ((AS_ANN, f"authorization: {basic('bob')}", JSON, LENGTH), 400),
    "a log-in on a line that is folded": ((AS_ANN, " and more", JSON, LENGTH), 401),
    "a blank behind the name of a header": ((AS_ANN.replace(":", " :", 1), JSON, LENGTH), 400),
    "a zero byte": ((f"{AS_ANN}\0", JSON, LENGTH), 400),
    "a second host": ((AS_ANN, "host: evil.example", JSON, LENGTH), 400),
    "another length": ((AS_ANN, JSON, LENGTH, "content-length: 3"), 400),
    "a length below zero": ((AS_ANN, JSON, "content-length: -1"), 400),
    "a length, and parts": ((AS_ANN, JSON, LENGTH, "transfer-encoding: chunked"), 400),
    "an unknown form of the body": ((AS_ANN, JSON, "transfer-encoding: x, chunked"), 400),
}
PLACES = {
    "/sessions/../sessions/phone": 404,
    "/sessions/%2e%2e/phone": 404,
    "/sessions/..%2fbob%2fphone": 404,
    "/console/../sessions": 404,
    "//evil.example/sessions": 404,
    "/sessions/a%00b": 422,
    "/sessions/a\x01": 400,
}


@alone
async def test_headers_prove_nothing_and_have_one_meaning(tmp_path: Path) -> None:
    async with served_web(access_file(tmp_path)) as web:
        for attempt, (lines, status) in HEADERS.items():
            async with web.line() as line:
                head = "\r\n".join(["POST /events HTTP/1.1", f"host: {web.address}", *lines, "", ""])
                line.writer.write(head.encode() + b'{"topic": "ann"}')
                assert (await line.reader.readline()).split()[1] == b"%d" % status, attempt


@alone
async def test_what_comes_behind_a_body_of_two_lengths_is_not_done(tmp_path: Path) -> None:
    async with served_web(access_file(tmp_path)) as web, web.line() as line:
        head = ["POST /events HTTP/1.1", f"host: {web.address}", AS_ANN, "content-length: 5"]
        hidden = ["PUT /sessions/hidden HTTP/1.1", f"host: {web.address}", AS_ANN, "content-length: 0"]
        lines = [*head, "transfer-encoding: chunked", "", "0", "", *hidden, "", ""]
        line.writer.write("\r\n".join(lines).encode())
        assert (await line.reader.read()).count(b"HTTP/1.1 ") == 1
        assert list(web.service.sessions) == []


@alone
async def test_a_path_leads_nowhere_but_where_it_says(tmp_path: Path) -> None:
    async with served_web(access_file(tmp_path)) as web:
        await web.ask("PUT", "/sessions/phone", {}, authorization=basic("bob"))
        for path, status in PLACES.items():
            async with web.line() as line:
                head = "\r\n".join([f"GET {path} HTTP/1.1", f"host: {web.address}", AS_ANN, "", ""])
                line.writer.write(head.encode())
                assert (await line.reader.readline()).split()[1] == b"%d" % status, path


@alone
async def test_nobody_sees_the_sessions_or_the_events_of_others(tmp_path: Path) -> None:
    async with served_web(access_file(tmp_path)) as web:
        ann, bob = basic("ann"), basic("bob")
        for header in (ann, bob):
            assert (await web.ask("PUT", "/sessions/phone", {}, authorization=header)).status == 201
            path = "/sessions/phone/subscriptions/s1"
            put = await web.ask("PUT", path, {"topic": "shared"}, authorization=header)
            left = {"topic": "shared", "where": "secret is null"}
            told = {"in_force": [left]} if header == bob else {}
            assert (put.status, put.json) == (201, {"id": "s1", "topic": "shared"} | told)
            assert (await web.ask("GET", path, authorization=header)).json == put.json
        assert sorted(each.subscriber for each in web.service.sessions) == ["ann/phone", "bob/phone"]
        refused = await web.ask(
            "PUT", "/sessions/phone/subscriptions/s2", {"topic": "ann"}, authorization=bob
        )
        assert refused.status == 403
        events = [
            {"id": "e1", "topic": "shared/x"},
            {"id": "e2", "topic": "ann/x"},
            {"id": "e3", "topic": "shared/x", "secret": 1},
        ]
        reply = await web.ask("POST", "/events", events, authorization=bob)
        assert (reply.status, [each["place"] for each in reply.json["rejected"]]) == (207, [1])
        assert (await web.ask("POST", "/events", events[:1], authorization=ann)).status == 403
        await web.until_kept("ann/phone", 2)
        await web.until_kept("bob/phone", 1)
        session = web.service.sessions.get("bob/phone")
        assert session is not None
        assert [entry.delivery.event.id for entry in session.take()] == ["e1"]  # type: ignore[union-attr]
        question = {"event": events[2], "subscription": {"topic": "shared"}}
        assert (await web.ask("POST", "/explanations", question, authorization=bob)).status == 403
        assert (await web.ask("POST", "/explanations", question, authorization=ann)).json["matches"]


@alone
async def test_the_client_logs_in_and_is_told_what_it_may_not(tmp_path: Path) -> None:
    async with served_web(access_file(tmp_path)) as web:
        address = f"ws://{web.address}"
        with pytest.raises(RefusedError, match="log in"):
            async with connect(address):
                pass
        async with connect(address, name="pc", user="ann", password="a long password") as client:
            await until(lambda: web.service.sessions.get("ann/pc") is not None)
            with pytest.raises(RefusedError, match="none of your grants"):
                await client.publish(Event("e1", "shared/x"))
            with pytest.raises(RefusedError):
                async with client.subscribed(topic="other"):
                    pass
            async with client.subscribed(topic="ann") as events:
                await client.publish(Event("e2", "ann/x"))
                assert (await anext(events)).id == "e2"


@alone
async def test_whose_log_in_expires_is_given_and_asked_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served_web(access_file(tmp_path)) as web:
        headers = {"Authorization": basic("ann")}
        async with (
            socket_to(web, additional_headers=headers) as giving,
            socket_to(web, additional_headers=headers) as asking,
            web.line() as line,
        ):
            for socket in (giving, asking):
                await socket.say("open")
                await socket.hear("opened")
            await giving.say("subscribe", request=1, topic="shared")
            await giving.hear("done")
            await line.send("GET", "/events?topic=shared", authorization=basic("ann"))
            events = line.server_sent()
            waiting = asyncio.ensure_future(anext(events))
            await until(lambda: sum(bool(each.subscriptions) for each in web.service.sessions) == 2)
            monkeypatch.setattr(web.service.access, "known", lambda identity: False)
            await web.ask("POST", "/events", {"topic": "shared"}, authorization=basic("bob"))
            assert "log-in has expired" in (await giving.hear())["reason"]
            assert "log-in has expired" in (await waiting)["data"]
            await asking.say("subscribe", request=1, topic="shared")
            assert "log-in has expired" in (await asking.hear())["reason"]


@alone
async def test_with_tls_the_client_and_pages_of_its_own_come_by_wss(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with served_web(access_file(tmp_path)) as web:
        secure = WebServer(web.service, context)
        place = await secure.start()
        options = {"user": "ann", "password": "a long password", "context": trusting}
        async with connect(f"https://{place}", **options) as client, client.subscribed(topic="ann") as events:
            await client.publish(Event("e1", "ann"))
            assert (await anext(events)).id == "e1"
        headers = {"Authorization": basic("ann")}
        for origin, let_in in ((f"https://{place}", True), (f"http://{place}", False)):
            connecting = websockets.connect(
                f"wss://{place}/ws", ssl=trusting, origin=origin, additional_headers=headers
            )
            if let_in:
                await (await connecting).close()
            else:
                with pytest.raises(websockets.InvalidStatus):
                    await connecting
        await secure.stop()


@alone
async def test_beyond_this_machine_it_does_not_listen_without_tls_and_log_in() -> None:
    async with served_web() as web:
        with pytest.raises(DistributaryError, match="needs TLS and an access file; or listen on 127"):
            await WebServer(web.service).start("0.0.0.0")
        with pytest.raises(DistributaryError, match=r"cannot listen on .*Address already in use"):
            await WebServer(web.service).start("127.0.0.1", web.port)
    with pytest.raises(DistributaryError, match="needs an access file"):
        require_safe("::", tls=True, log_in=False)
    require_safe("0.0.0.0", tls=True, log_in=True)
