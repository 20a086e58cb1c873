"""Clients of brokers on real sockets: publish, subscribe, refusals, breaks, slow ones."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from distributary.client import RefusedError, connect
from distributary.client.connection import WINDOW
from distributary.errors import DistributaryError
from distributary.live import broker as live_broker
from distributary.live import client_line, journal
from distributary.live.broker import LiveBroker
from distributary.live.client_messages import ClientGreeting, ClientSubscribe
from distributary.live.codec import encode
from distributary.live.frames import frame
from distributary.live.greeting import Endpoint, parse_endpoint
from distributary.model import Event, Subscription, SubscriptionKey
from live.loops import alone, until


def broker(name: str = "hall-1", **options: Any) -> LiveBroker:
    return LiveBroker("distributary", options.pop("system", "tree"), name=name, **options)


def quote(number: int, price: float = 9.0) -> Event:
    return Event(f"e{number}", "quotes/OTE", {"price": price, "source": "exchange"})


@alone
async def test_what_one_client_publishes_another_gets_if_it_asked() -> None:
    async with broker() as hall, connect(str(hall.endpoint)) as seller, connect(hall.endpoint) as buyer:
        assert seller.broker == "hall-1"
        async with buyer.subscribed(topic="quotes/*", where="price > 8") as events:
            await seller.publish(*(quote(number, price=number) for number in range(12)))
            got = [await anext(events) for _ in range(3)]
        assert [event.id for event in got] == ["e9", "e10", "e11"]
        assert got[0] == quote(9, price=9)
        assert hall.clients.names == sorted([seller.name, buyer.name])


@alone
async def test_clients_at_different_brokers_reach_each_other() -> None:
    async with broker() as first, broker("hall-2", contacts=[first.endpoint]) as second:  # noqa: SIM117
        async with connect(first.endpoint) as seller, connect(second.endpoint) as buyer:
            got: list[Event] = []

            async def buy() -> None:
                async for event in buyer.subscribe(where="price > 8"):
                    got.append(event)

            buying = asyncio.create_task(buy())
            number = 0
            while not got:
                number += 1
                await seller.publish(quote(number))
                await asyncio.sleep(0.05)
            buying.cancel()
            with pytest.raises(asyncio.CancelledError):
                await buying
            await until(lambda: second.broker is not None and not len(second.broker.home))


@alone
async def test_many_events_come_once_each_and_in_order() -> None:
    async with broker() as hall, connect(hall.endpoint) as seller, connect(hall.endpoint) as buyer:  # noqa: SIM117
        async with buyer.subscribed(where="price > 8") as events:
            await seller.publish(*(quote(number) for number in range(3_000)))
            assert [(await anext(events)).id for _ in range(3_000)] == [f"e{n}" for n in range(3_000)]


@alone
async def test_who_waits_for_no_answer_takes_nobodys_turn() -> None:
    async with broker() as hall, connect(hall.endpoint) as client:
        for number in range(2 * WINDOW):
            publishing = asyncio.create_task(client.publish(quote(number)))
            await asyncio.sleep(0)
            publishing.cancel()
        async with asyncio.timeout(30):
            await client.publish(quote(-1))


@alone
async def test_a_subscription_that_is_given_up_before_its_answer_is_not_presented_again() -> None:
    async with broker() as hall, connect(hall.endpoint) as client:
        iterating = asyncio.create_task(anext(client.subscribe(id="s1", topic="quotes")))
        await asyncio.sleep(0)
        iterating.cancel()
        async with asyncio.timeout(30):
            await client.publish(quote(1))  # answered after all that was asked before
        assert client.session.subscriptions == ()


@alone
async def test_an_event_for_two_subscriptions_of_a_client_comes_to_both() -> None:
    async with broker() as hall, connect(hall.endpoint) as client:  # noqa: SIM117
        async with client.subscribed(where="price > 8") as dear, client.subscribed(topic="quotes/*") as every:
            await client.publish(quote(1, price=3), quote(2, price=9))
            assert (await anext(dear)).id == "e2"
            assert [(await anext(every)).id for _ in range(2)] == ["e1", "e2"]


@alone
async def test_what_is_refused_is_told_with_the_reason() -> None:
    async with broker() as hall, connect(hall.endpoint) as client:
        bad = Event("bad", document="<a")
        with pytest.raises(RefusedError, match="event bad was refused") as raised:
            await client.publish(quote(1), bad, quote(2))
        assert [event for event, _ in raised.value.refused] == [bad]
    async with broker(system="state-aware-sf") as hall, connect(hall.endpoint) as client:
        with pytest.raises(RefusedError, match="change: missing"):
            async with client.subscribed(topic="quotes/NYSE/OTE"):
                pass


@alone
async def test_another_network_is_refused() -> None:
    async with broker() as hall:
        with pytest.raises(RefusedError, match="this is network 'distributary', not 'other'"):
            async with connect(hall.endpoint, network="other"):
                pass


@alone
async def test_nobody_subscribes_in_another_s_name() -> None:
    async with broker() as hall:
        reader, writer = await asyncio.open_connection(*hall.endpoint)
        writer.write(frame(encode(ClientGreeting(1, 1, "distributary", "mallory"))))
        writer.write(frame(encode(ClientSubscribe(1, Subscription("s1", "ann", where="price > 1")))))
        told = b""
        while b"cannot subscribe for" not in told:
            told += await reader.read(1000)
        assert len(hall.broker.home) == 0  # type: ignore[union-attr]
        writer.close()


@alone
async def test_the_same_name_again_takes_the_place_of_the_one_before() -> None:
    async with broker() as hall, connect(hall.endpoint, name="ann") as before:  # noqa: SIM117
        async with connect(hall.endpoint, name="ann") as after:
            with pytest.raises(DistributaryError, match="another client connected as 'ann'"):
                async for _ in before.subscribe(where="price > 1"):
                    pass
            async with after.subscribed(where="price > 1") as events:
                await after.publish(quote(1))
                assert (await anext(events)).id == "e1"


@alone
async def test_a_subscription_ends_with_its_connection() -> None:
    async with broker() as hall:
        client = connect(hall.endpoint)
        async with client, client.subscribed(where="price > 1"):
            assert len(hall.broker.home) == 1  # type: ignore[union-attr]
            await client.close()
        await until(lambda: len(hall.broker.home) == 0)  # type: ignore[union-attr]


@alone
async def test_a_client_goes_on_when_its_broker_comes_back_without_a_log() -> None:
    hall = broker(system="flooding")
    place = await hall.start()
    async with connect(place) as client, client.subscribed(where="price > 1") as events:
        await client.publish(quote(1))
        assert (await anext(events)).id == "e1"
        await hall.stop()
        publishing = asyncio.create_task(client.publish(quote(2)))
        again = broker(system="flooding")
        await again.start(port=place.port)
        await publishing
        assert (await anext(events)).id == "e2"
        assert client.gaps == 1
        assert client.session.offset is None
    await again.stop()


@alone
async def test_a_client_goes_to_another_broker_when_its_own_is_gone() -> None:
    async with broker() as first:
        second = broker("hall-2", contacts=[first.endpoint])
        await second.start()
        async with connect(second.endpoint, first.endpoint) as client:
            assert client.broker == "hall-2"
            await second.stop()
            await client.publish(quote(1))
            assert client.broker == "hall-1"


@alone
async def test_a_slow_client_is_let_go_and_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_line, "MOST_QUEUED", 1 << 20)
    async with broker() as hall, connect(hall.endpoint) as client:
        _, writer = await asyncio.open_connection(*hall.endpoint, limit=1024)
        writer.write(frame(encode(ClientGreeting(1, 1, "distributary", "slow"))))
        writer.write(frame(encode(ClientSubscribe(1, Subscription("s1", "slow", where="price > 1")))))
        await until(lambda: len(hall.broker.home) == 1)  # type: ignore[union-attr]
        async with client.subscribed(where="price > 1") as events:
            large = "a" * 100_000
            for number in range(200):
                await client.publish(Event(f"e{number}", attributes={"price": 9, "text": large}))
                assert (await anext(events)).id == f"e{number}"
        assert hall.clients.slow == 1
        assert "slow" not in hall.clients.names
        writer.close()


@pytest.mark.parametrize("cause", ["what waits for the disk", "what is not acknowledged"])
@alone
async def test_publishers_wait_while_the_broker_has_too_much_to_do(
    cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [SubscriptionKey("ann", f"s{number}") for number in range(4)]
    async with (
        broker(data=tmp_path) as hall,
        connect(hall.endpoint) as seller,
        connect(hall.endpoint) as other,
    ):
        with monkeypatch.context() as busy:
            if cause == "what waits for the disk":
                busy.setattr(journal, "MOST_WAITING", -1)
            else:
                busy.setattr(live_broker, "MOST_UNACKNOWLEDGED", len(keys) - 1)
                hall.clients.requests.open(keys, lambda: None)
            await seller.publish(quote(1))  # taken, and nothing is read from its client any more
            assert hall.clients.waiting == 1
            publishing = asyncio.create_task(seller.publish(*map(quote, range(2, 100))))
            async with other.subscribed(where="price > 8"):  # others are answered meanwhile
                assert (hall.published, hall.clients.waiting) == (1, 1)
            assert not publishing.done()
        for key in keys:
            hall.clients.requests.acknowledged(key)
        await publishing
        assert (hall.published, hall.clients.waiting) == (99, 0)


@alone
async def test_hostile_clients_end_their_own_connection_only() -> None:
    async with broker() as hall, connect(hall.endpoint) as client:
        for data in (b"\xff" * 100, frame(b"\x90"), frame(encode(quote(1)))):
            reader, writer = await asyncio.open_connection(*hall.endpoint)
            writer.write(frame(encode(ClientGreeting(1, 1, "distributary", "mallory"))) + data)
            while await reader.read(1000):
                pass
            writer.close()
        await client.publish(quote(1))
        await until(lambda: hall.clients.names == [client.name])


@alone
async def test_nobody_there_is_told() -> None:
    with pytest.raises(DistributaryError, match=r"cannot connect to 127\.0\.0\.1:1"):
        async with connect("127.0.0.1:1"):
            pass
    with pytest.raises(DistributaryError, match=r"cannot connect to 192\.0\.2\.1 without TLS"):
        connect("192.0.2.1:7000")
    with pytest.raises(DistributaryError, match="name at least one endpoint"):
        connect()


@pytest.mark.parametrize("text", ["", "a", "a:", ":1", "a:b", "a:70000", "a:-1"])
def test_what_is_no_endpoint_is_told(text: str) -> None:
    with pytest.raises(DistributaryError, match="an endpoint is HOST:PORT"):
        parse_endpoint(text)
    assert parse_endpoint("a:1") == Endpoint("a", 1)


@alone
async def test_a_client_tells_that_no_broker_answers_and_when_one_does_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name == "distributary"]

    hall = LiveBroker("distributary", "tree", name="hall", on_notice=lambda notice: None)
    where = await hall.start()
    async with connect(where, name="ann") as ann:
        await hall.stop()
        await until(lambda: told() != [])
        assert told() == [
            f"ann: no broker answers, and all are tried again: cannot connect to {where}: Connection refused"
        ]
        again = LiveBroker("distributary", "tree", name="hall", on_notice=lambda notice: None)
        await again.start(*where)
        await until(lambda: len(told()) > 1)
        assert told()[1:] == ["ann: connected again, to broker 'hall'"]
        assert ann.broker == "hall"
        await again.stop()
