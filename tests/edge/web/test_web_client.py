"""The Python client by WebSocket: the same as the native one, through breaks, restarts and refusals."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.typing import Subprotocol

from distributary.client import RefusedError, WebClient, connect, connect_plain
from distributary.client.endpoints import connect_web
from distributary.client.web import SUBPROTOCOL, WINDOW
from distributary.edge.sessions import Session
from distributary.edge.web.server import WebServer
from distributary.errors import DistributaryError
from distributary.model import Event
from edge.listening import listening
from edge.web.serving import ServedWeb, served_web
from live.loops import alone, until


def quote(number: int, price: float = 9.0) -> Event:
    return Event(f"e{number}", "quotes/OTE", {"price": price, "source": "exchange"})


class Proxy:
    """Passes bytes on, and breaks all connections when told to."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._writers: set[asyncio.StreamWriter] = set()
        self.connections = 0
        self.silent = False
        """Whether what the server answers is kept from clients."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        async with listening(self._serve) as port:
            yield f"ws://127.0.0.1:{port}"

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        their_reader, their_writer = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers.add(their_writer)
        both = (
            self._pass(reader, their_writer, to_client=False),
            self._pass(their_reader, writer, to_client=True),
        )
        try:
            await asyncio.gather(*both)
        finally:
            their_writer.transport.abort()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, to_client: bool
    ) -> None:
        try:
            while data := await reader.read(1 << 16):
                if not (to_client and self.silent):
                    writer.write(data)
        except OSError:
            pass
        writer.transport.abort()


@asynccontextmanager
async def behind_proxy(web: ServedWeb) -> AsyncIterator[tuple[Proxy, str]]:
    proxy = Proxy(web.port)
    async with proxy.open() as address:
        # The name that the proxy is reached by leads to this machine too, so the server takes it.
        yield proxy, address


@alone
async def test_what_one_client_publishes_another_gets_if_it_asked() -> None:
    async with served_web() as web:
        address = f"ws://{web.address}"
        async with connect(address) as seller, connect(address, name="ann") as buyer:
            assert isinstance(buyer, WebClient)
            assert (buyer.name, buyer.broker) == ("ann", "serve")
            async with buyer.subscribed(topic="quotes/*", where="price > 8") as events:
                await seller.publish(*(quote(number, price=number) for number in range(600)))
                got = [await anext(events) for _ in range(591)]
            assert [event.id for event in got] == [f"e{number}" for number in range(9, 600)]
            assert got[0] == quote(9, price=9)
            assert buyer.gaps == 0
        await until(
            lambda: [each.subscriber for each in web.service.sessions] == ["ann"]
        )  # the named one waits


@alone
async def test_a_broken_connection_loses_and_doubles_nothing() -> None:
    async with served_web() as web, behind_proxy(web) as (proxy, address):  # noqa: SIM117
        async with connect(address, name="ann") as buyer, connect(f"ws://{web.address}") as seller:
            async with buyer.subscribed(topic="quotes") as events:
                got: list[str] = []
                for round in range(4):
                    await seller.publish(*(quote(number) for number in range(round * 50, round * 50 + 50)))
                    got += [(await anext(events)).id for _ in range(20)]
                    proxy.cut()
                    await until(lambda made=round + 2: proxy.connections == made and buyer.broker is not None)
                while len(got) < 200:
                    got.append((await anext(events)).id)
            assert got == [f"e{number}" for number in range(200)]
            assert (proxy.connections, buyer.gaps) == (5, 0)


@alone
async def test_what_was_published_and_not_answered_is_sent_again_and_arrives_once() -> None:
    async with served_web() as web, behind_proxy(web) as (proxy, address):
        await web.subscribed(topic="quotes")
        async with connect(address) as seller:
            await seller.publish(quote(0))
            proxy.silent = True
            publishing = asyncio.ensure_future(seller.publish(quote(1), quote(2)))
            await web.until_kept("ann", 3)
            assert not publishing.done()  # it is safe, and the answer is lost
            proxy.silent = False
            proxy.cut()
            await publishing
            await seller.publish(quote(3))
        await web.until_kept("ann", 4)
        session = web.service.sessions.get("ann")
        assert session is not None
        kept = [entry.delivery.event.id for entry in session.take()]  # type: ignore[union-attr]
        assert kept == ["e0", "e1", "e2", "e3"]


@alone
async def test_another_process_of_the_same_name_goes_on_after_what_was_taken() -> None:
    async with served_web() as web:
        address = f"ws://{web.address}"
        first = connect_web(address, name="ann")
        await first.__aenter__()
        context = first.subscribed(id="s1", topic="quotes")
        events = await context.__aenter__()
        async with connect(address) as seller:
            await seller.publish(*(quote(number) for number in range(5)))
        got = [(await anext(events)).id for _ in range(3)]  # e2 is being worked on when the process is gone
        session = web.service.sessions.get("ann")
        assert session is not None
        await until(lambda: len(session.mailbox) == 3)
        assert first._line is not None
        first._task.cancel()  # type: ignore[union-attr]
        first._line.transport.abort()
        await until(lambda: not session.connected)
        async with connect(address, name="ann") as second, second.subscribed(id="s1", topic="quotes") as rest:
            got += [(await anext(rest)).id for _ in range(3)]
        assert got == ["e0", "e1", "e2", "e2", "e3", "e4"]


async def gone(client: WebClient, session: Session) -> None:
    """The process of a client is killed."""
    assert client._line is not None
    client._task.cancel()  # type: ignore[union-attr]
    client._line.transport.abort()
    await until(lambda: not session.connected)


@pytest.mark.parametrize("id", [None, "of the first"])
def test_what_a_killed_process_had_asked_for_does_not_hold_up_the_next(id: str | None) -> None:
    @alone
    async def killed_and_followed() -> None:
        async with served_web() as web:
            address, many = f"ws://{web.address}", web.service.limits.window + 100
            first = connect_web(address, name="ann")
            await first.__aenter__()
            await first.subscribed(id=id, topic="quotes").__aenter__()
            session = web.service.sessions.get("ann")
            assert session is not None
            await gone(first, session)
            async with connect(address, name="ann") as second, connect(address) as seller:  # noqa: SIM117
                async with second.subscribed(topic="quotes") as events:
                    await seller.publish(*(quote(number) for number in range(many)))
                    got = [(await anext(events)).id for _ in range(many)]
                    assert got == [f"e{number}" for number in range(many)]
                    assert len(session.subscriptions) == 1

    killed_and_followed()


@alone
async def test_a_connection_on_which_nobody_answers_is_closed_when_the_wait_for_it_ends() -> None:
    came, ended = asyncio.Event(), asyncio.Event()

    async def answer_nothing(line: ServerConnection) -> None:
        await line.recv()
        came.set()
        await line.wait_closed()
        ended.set()

    async with serve(answer_nothing, "127.0.0.1", 0, subprotocols=[Subprotocol(SUBPROTOCOL)]) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        entering = asyncio.ensure_future(connect(f"ws://127.0.0.1:{port}").__aenter__())
        await came.wait()
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        await asyncio.wait_for(ended.wait(), 5)


@alone
async def test_everybody_who_waits_is_told_that_the_client_was_closed() -> None:
    async with served_web() as web:
        async with connect(f"ws://{web.address}") as client:
            web.service.broker.publish = lambda events, done: None  # type: ignore[method-assign]
            waiting = [asyncio.create_task(client.publish(quote(number))) for number in range(3 * WINDOW)]
            await until(lambda: len(client._unanswered) == WINDOW)
        told = await asyncio.gather(*waiting, return_exceptions=True)
        assert {str(each) for each in told} == {"the client was closed"}


@alone
async def test_a_session_that_the_broker_has_lost_is_made_anew_and_told_as_a_gap() -> None:
    async with served_web() as web, behind_proxy(web) as (proxy, address):  # noqa: SIM117
        async with connect(address, name="ann") as buyer, connect(f"ws://{web.address}") as seller:
            async with buyer.subscribed(topic="quotes") as events:
                await seller.publish(quote(1))
                assert (await anext(events)).id == "e1"
                session = web.service.sessions.get("ann")
                assert session is not None
                session.close("lost")
                await until(lambda: proxy.connections == 2 and buyer.broker is not None)
                await until(lambda: bool((web.service.sessions.get("ann") or session).subscriptions))
                await seller.publish(quote(2))
                assert (await anext(events)).id == "e2"
            assert buyer.gaps == 1


@alone
async def test_a_gap_that_is_told_again_is_counted_once_and_acknowledged_with_what_came_before() -> None:
    async with served_web() as web, behind_proxy(web) as (proxy, address):  # noqa: SIM117
        async with connect(f"ws://{web.address}") as seller:
            await web.ask("PUT", "/sessions/ann", {"events": 2, "policy": "keep"})
            async with connect(address, name="ann") as buyer:
                assert isinstance(buyer, WebClient)
                async with buyer.subscribed(topic="quotes") as events:
                    session = web.service.sessions.get("ann")
                    assert session is not None
                    await seller.publish(*map(quote, range(5)))
                    assert (await anext(events)).id == "e0"
                    await until(lambda: buyer.gaps == 1)
                    proxy.cut()
                    await until(lambda: proxy.connections == 2 and buyer.broker is not None)
                    await until(lambda: not session.mailbox.untaken and session.connected)
                    assert [entry.place for entry in session.mailbox.after(0)] == [1, 2, 5]
                    assert (await anext(events)).id == "e1"
                    waiting = asyncio.ensure_future(anext(events))
                    await until(lambda: not list(session.mailbox.after(0)))
                    await seller.publish(quote(5))
                    assert (await waiting).id == "e5"
                    assert buyer.gaps == 1


@alone
async def test_refusals_are_raised_with_their_reasons() -> None:
    async with served_web() as web:
        async with connect(f"ws://{web.address}") as client:
            with pytest.raises(RefusedError, match="event e1 was refused: document") as refused:
                await client.publish(Event("e1", document="<a"), Event("e2"))
            assert [event.id for event, _ in refused.value.refused] == ["e1"]
            async with client.subscribed(id="s1", topic="a"):
                with pytest.raises(DistributaryError, match="already"):
                    await client.subscribed(id="s1", topic="a").__aenter__()
        with pytest.raises(DistributaryError, match="cannot connect"):
            async with connect("ws://127.0.0.1:1"):
                pass
        with pytest.raises(RefusedError, match="no control characters"):
            async with connect(f"ws://{web.address}", name="ann\a"):
                pass


def test_secrets_are_not_sent_in_the_open() -> None:
    with pytest.raises(DistributaryError, match="use wss"):
        connect("ws://example.org", token="secret")
    with pytest.raises(DistributaryError, match="of one kind"):
        connect("ws://localhost:8080", "localhost:7000")
    with pytest.raises(DistributaryError, match="an address is such as"):
        connect_web("ftp://localhost")


@alone
async def test_a_client_that_does_not_last_is_told_that_its_connection_ended() -> None:
    async with served_web() as web, behind_proxy(web) as (proxy, address):  # noqa: SIM117
        async with connect(address, lasting=False) as client:
            events = client.subscribe(topic="a")
            waiting = asyncio.ensure_future(anext(events))
            await until(lambda: any(each.subscriptions for each in web.service.sessions))
            proxy.cut()
            with pytest.raises(DistributaryError, match="the connection ended"):
                await waiting
            with pytest.raises(DistributaryError, match="the connection ended"):
                await client.publish(quote(1))


def test_a_program_without_an_event_loop_publishes_and_subscribes() -> None:
    served, done, where = threading.Event(), threading.Event(), []

    @alone
    async def serve() -> None:
        async with served_web() as web:
            where.append(web.address)
            where.append(str(web.broker.endpoint))
            served.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        served.wait()
        for first, endpoint in ((1, f"ws://{where[0]}"), (3, where[1])):
            with connect_plain(endpoint) as seller, connect_plain(endpoint) as buyer:
                with buyer.subscribed(topic="quotes") as events:
                    seller.publish(Event(f"other{first}", "x"), quote(first), quote(first + 1))
                    assert [next(events).id, next(events).id] == [f"e{first}", f"e{first + 1}"]
                with pytest.raises(RefusedError):
                    seller.publish(Event("bad", document="<a"))
    finally:
        done.set()
        thread.join()


@alone
async def test_a_client_finds_its_session_at_a_server_that_was_started_again() -> None:
    async with served_web() as web:
        second = WebServer(web.service)
        await second.start()
        assert second.endpoint is not None
        async with connect(f"ws://{second.endpoint}", f"ws://{web.address}", name="ann") as buyer:  # noqa: SIM117
            async with buyer.subscribed(topic="quotes") as events, connect(f"ws://{web.address}") as seller:
                await seller.publish(quote(1))
                assert (await anext(events)).id == "e1"
                await second.stop()
                await seller.publish(quote(2))
                assert (await anext(events)).id == "e2"
                assert buyer.gaps == 0
