"""Clients that go on where they were: after broken connections, at other brokers, after whole restarts."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from distributary.client import Client, RefusedError, connect, read_session, session_record
from distributary.client.session import ClientSession
from distributary.errors import DistributaryError
from distributary.live.broker import LiveBroker
from distributary.live.greeting import Endpoint
from distributary.live.journal import Journal
from distributary.live.requests import Publications, Requests
from distributary.model import Event, Offset, Subscription, SubscriptionKey
from distributary.overlay.broker import RememberedValues, SessionState
from live.loops import alone, until
from properties.examples import examples


def broker(name: str, data: Path | None = None, **options: Any) -> LiveBroker:
    return LiveBroker("distributary", "tree", name=name, data=data, on_notice=lambda _: None, **options)


@asynccontextmanager
async def halls(directory: Path, count: int = 2) -> AsyncIterator[list[LiveBroker]]:
    """Brokers with directories, all of which have joined."""
    made = [broker("hall-0", directory / "hall-0")]
    await made[0].start()
    for number in range(1, count):
        made.append(broker(f"hall-{number}", directory / f"hall-{number}", contacts=[made[0].endpoint]))
        await made[number].start()
    try:
        await until(lambda: all(each.joined for each in made))
        yield made
    finally:
        for each in made:
            await each.stop()


def quote(number: int, price: float = 9.0) -> Event:
    return Event(f"e{number}", "quotes/OTE", {"price": price, "source": "exchange"})


def cut(client: Client) -> None:
    """Break the connection of a client, with all that is on its way."""
    if client._writer is not None:
        client._writer.transport.abort()


@alone
async def test_nothing_is_missed_and_nothing_comes_twice_when_connections_break(tmp_path: Path) -> None:
    random = Random(3)
    async with halls(tmp_path) as (first, second), connect(first.endpoint) as seller:
        buyer = connect(second.endpoint, first.endpoint, name="ann")
        async with buyer, buyer.subscribed(where="price > 1") as events:

            async def sell() -> None:
                for number in range(0, 1_500, 10):
                    await seller.publish(*(quote(number + each) for each in range(10)))
                    if random.random() < 0.15:
                        cut(random.choice([seller, buyer, buyer]))

            selling = asyncio.create_task(sell())
            got = [(await anext(events)).id for _ in range(1_500)]
            await selling
            assert got == [f"e{number}" for number in range(1_500)]
            assert buyer.gaps == 0


@alone
async def test_what_was_lost_on_the_way_to_a_client_is_given_again_at_the_same_broker(tmp_path: Path) -> None:
    async with broker("hall", tmp_path) as hall, connect(hall.endpoint) as seller:
        ann = connect(hall.endpoint, name="ann")
        async with ann, ann.subscribed(where="price > 1") as events:
            await seller.publish(quote(1))
            assert (await anext(events)).id == "e1"
            assert ann._task is not None
            ann._final, take = False, ann._take
            ann._take = lambda message: None  # type: ignore[method-assign,assignment]  # it never arrives
            await seller.publish(quote(2))
            await asyncio.sleep(0.1)
            ann._take = take  # type: ignore[method-assign]
            cut(ann)
            await seller.publish(quote(3))
            assert [(await anext(events)).id for _ in range(2)] == ["e2", "e3"]


@alone
async def test_a_client_whose_broker_is_gone_goes_on_at_another(tmp_path: Path) -> None:
    async with halls(tmp_path, 3) as (first, second, third):
        ann = connect(third.endpoint, second.endpoint, name="ann")
        async with ann, ann.subscribed(where="price > 1") as events, connect(first.endpoint) as seller:
            await seller.publish(quote(1))
            assert (await anext(events)).id == "e1"
            await third.stop()
            await seller.publish(quote(2), quote(3))
            assert [(await anext(events)).id for _ in range(2)] == ["e2", "e3"]
            assert ann.broker == "hall-1"
            assert ann.gaps == 0


@alone
async def test_a_client_that_was_given_nothing_yet_misses_nothing_either(tmp_path: Path) -> None:
    async with broker("hall", tmp_path) as hall, connect(hall.endpoint) as seller:
        await seller.publish(*(quote(number) for number in range(5)))
        async with connect(hall.endpoint, name="ann") as ann, ann.subscribed(where="price > 1"):
            saved = ann.session
            assert saved.offset is not None
        await seller.publish(quote(7))
        async with connect(hall.endpoint, session=saved) as again:
            assert again.name == "ann"
            async with again.subscribed(id=saved.subscriptions[0].id, where="price > 1") as events:
                assert (await anext(events)).id == "e7"


@alone
async def test_another_process_goes_on_with_what_the_first_has_taken(tmp_path: Path) -> None:
    async with broker("hall", tmp_path) as hall, connect(hall.endpoint) as seller:
        async with (
            connect(hall.endpoint, name="ann") as ann,
            ann.subscribed(id="s1", topic="quotes") as events,
        ):
            await seller.publish(*(quote(number) for number in range(10)))
            got = [(await anext(events)).id for _ in range(4)]
            await until(lambda: len(ann._session._items) == 6)
            saved = json.dumps(session_record(ann.session))
        await seller.publish(quote(10))
        session = read_session(json.loads(saved))
        async with connect(hall.endpoint, session=session) as again:
            async with again.subscribed(id="s1", topic="quotes") as events:
                got += [(await anext(events)).id for _ in range(7)]
            assert got == [f"e{number}" for number in range(11)]
            assert again.gaps == 0
        with pytest.raises(DistributaryError, match="the session is that of ann, not of bob"):
            connect(hall.endpoint, session=session, name="bob")


@alone
async def test_tolerances_start_from_what_was_given_before(tmp_path: Path) -> None:
    random = Random(1)
    prices = [round(random.uniform(0, 20), 1) for _ in range(300)]
    due, last = [], None
    for number, price in enumerate(prices):
        if last is None or abs(price - last) > 5:
            due.append(f"e{number}")
            last = price
    async with halls(tmp_path) as (first, second), connect(first.endpoint) as seller:
        ann = connect(second.endpoint, first.endpoint, name="ann")
        async with ann, ann.subscribed(topic="quotes", change={"price": 5}) as events:
            for number, price in enumerate(prices):
                if number % 20 == 10:
                    cut(ann)
                await seller.publish(quote(number, price))
            assert [(await anext(events)).id for _ in due] == due
            await until(lambda: ann._session._received.offset.number == len(prices))  # type: ignore[union-attr]
            assert ann._queues[ann.session.subscriptions[0].id].empty()


@alone
async def test_a_whole_network_that_starts_again_has_all_that_was_acknowledged(tmp_path: Path) -> None:
    async with halls(tmp_path, 3) as brokers:
        places = [each.endpoint for each in brokers]
        ann = connect(places[1], name="ann")
        async with connect(places[2]) as seller:
            async with ann, ann.subscribed(id="s1", topic="quotes") as events:
                await seller.publish(quote(1))
                assert (await anext(events)).id == "e1"
                saved = ann.session
            await seller.publish(*(quote(number) for number in range(2, 50)))
        for each in brokers:
            await until(lambda each=each: bool(each._neighbours.known))  # type: ignore[misc]
    again = [broker(f"hall-{number}", tmp_path / f"hall-{number}") for number in range(3)]
    starting = [asyncio.create_task(each.start(*place)) for each, place in zip(again, places, strict=True)]
    await asyncio.gather(*starting)
    async with connect(*places, session=saved) as ann, ann.subscribed(id="s1", topic="quotes") as events:
        assert [(await anext(events)).id for _ in range(2, 50)] == [f"e{n}" for n in range(2, 50)]
        for number in (1, 2):
            async with connect(places[number]) as seller:
                await seller.publish(quote(50 + number))
            assert (await anext(events)).id == f"e{50 + number}", "the three are one network again"
        assert ann.session.offset is not None
        assert ann.session.offset.number == 51, "and the log goes on"
    for each in again:
        await each.stop()


@alone
async def test_a_client_goes_on_at_a_broker_that_has_forgotten_everything() -> None:
    hall = broker("hall")
    place = await hall.start()
    async with connect(place) as client, client.subscribed(where="price > 1") as events:
        await client.publish(quote(1))
        assert (await anext(events)).id == "e1"
        await hall.stop()
        again = broker("hall")
        await again.start(*place)
        await client.publish(quote(2))
        assert (await anext(events)).id == "e2", "its epoch is later than any before"
        await again.stop()


@alone
async def test_nothing_is_answered_before_it_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = threading.Event()
    turn.set()
    commit = Journal._commit

    def slow(journal: Journal, rows: list[Any]) -> None:
        turn.wait(20)
        commit(journal, rows)

    monkeypatch.setattr(Journal, "_commit", slow)
    async with broker("hall", tmp_path) as hall, connect(hall.endpoint, name="ann") as client:
        async with client.subscribed(where="price > 1") as events:
            await client.publish(quote(1))
            assert (await anext(events)).id == "e1"
            turn.clear()
            publishing = asyncio.create_task(client.publish(quote(2)))
            taking = asyncio.create_task(anext(events))  # type: ignore[arg-type]
            await until(lambda: len(hall.clients.publications) == 1)
            await asyncio.sleep(0.1)
            assert not publishing.done()
            assert not taking.done(), "nor delivered: a crash could still undo it"
            turn.set()
            await publishing
            assert (await taking).id == "e2"
        assert len(hall.clients.publications) == 0


@alone
async def test_a_broker_whose_disk_is_full_stops_and_nothing_is_lost(tmp_path: Path) -> None:
    told: list[str] = []
    full = LiveBroker("distributary", "tree", name="hall", data=tmp_path, on_notice=told.append)
    place = await full.start()
    client = connect(place, name="ann")
    async with client, client.subscribed(where="price > 1") as events:
        await client.publish(quote(1))
        assert full.journal is not None
        assert full.journal._database is not None
        full.journal._database.execute("PRAGMA max_page_count = 1").fetchall()
        large = Event("e2", "quotes", {"price": 4, "text": "x" * 200_000})
        publishing = asyncio.create_task(client.publish(large, quote(3)))
        await full.failure.wait()
        await until(lambda: client.broker is None)
        assert not publishing.done()
        await full.stop()
        again = broker("hall", tmp_path)  # with room on its disk
        await again.start(*place)
        await publishing
        assert [(await anext(events)).id for _ in range(3)] == ["e1", "e2", "e3"]
        assert client.gaps == 0
        await again.stop()
    assert told == [
        f"{tmp_path / 'journal.sqlite'} cannot be written: database or disk is full. Nothing is accepted here"
        " any more, and what was acknowledged is safe: make room or mend the disk, and start the node again"
    ]


@alone
async def test_a_broker_that_waits_for_its_contacts_sends_clients_elsewhere(tmp_path: Path) -> None:
    told: list[str] = []
    nobody = Endpoint("127.0.0.1", 1)
    waiting = LiveBroker(
        "distributary", "tree", name="waits", contacts=[nobody], data=tmp_path, on_notice=told.append
    )
    starting = asyncio.create_task(waiting.start())
    await until(lambda: bool(told))
    assert told[0].startswith("no contact lets this node in: cannot connect to 127.0.0.1:1")
    assert told[0].endswith("; they are tried again")
    with pytest.raises(DistributaryError, match="the broker has not joined yet") as raised:
        await connect(waiting.endpoint).__aenter__()
    assert not isinstance(raised.value, RefusedError)
    async with broker("hall") as hall, connect(waiting.endpoint, hall.endpoint) as client:
        assert client.broker == "hall"
    starting.cancel()
    with suppress(asyncio.CancelledError):
        await starting


@alone
async def test_a_broker_that_waits_joins_as_soon_as_a_contact_is_there(tmp_path: Path) -> None:
    first = broker("hall-0")
    place = await first.start()
    await first.stop()
    second = broker("hall-1", tmp_path, contacts=[place])
    starting = asyncio.create_task(second.start())
    await until(lambda: second.links.endpoint is not None)
    first = broker("hall-0")
    await first.start(*place)
    await starting
    await until(lambda: second.joined)
    await second.stop()
    await first.stop()


@alone
async def test_one_directory_is_for_one_broker(tmp_path: Path) -> None:
    async with broker("hall-0", tmp_path):
        with pytest.raises(DistributaryError, match="is in use by process"):
            await broker("hall-1", tmp_path).start()


@alone
async def test_a_session_that_a_broker_refuses_is_told_to_its_subscriptions(tmp_path: Path) -> None:
    refused = SessionState((Subscription("s1", "ann", topic="A"),), Offset(0.0, 1))
    async with LiveBroker("distributary", "state-aware-sf", name="hall") as hall:
        client = connect(hall.endpoint, session=refused)
        with pytest.raises(RefusedError, match="change: missing"):
            async with client, client.subscribed(id="s1", topic="A") as events:
                await anext(events)


# The parts.


def test_a_request_is_answered_when_all_that_it_asks_for_is_acknowledged() -> None:
    requests = Requests()
    done: list[str] = []
    one, two, three = (SubscriptionKey("ann", f"s{number}") for number in range(3))
    first = requests.open([one, two, two], lambda: done.append("first"))
    second = requests.open([two, three], lambda: done.append("second"))
    requests.acknowledged(one)
    requests.acknowledged(two)
    assert done == [], "not all has been asked for"
    first.close()
    second.close()
    assert (done, len(requests)) == (["first"], 1)
    third = requests.open([three], lambda: done.append("third"))
    second.abandon()
    assert len(requests) == 1
    third.close()
    requests.acknowledged(three)
    assert (done, len(requests)) == (["first", "third"], 0)


@pytest.mark.parametrize("seed", range(examples(30)))
def test_events_are_answered_in_order_once_all_up_to_them_is_safe(seed: int) -> None:
    random, publications = Random(f"publications {seed}"), Publications()
    published = safe = 0
    asked: list[int] = []
    done: list[int] = []
    for _ in range(50):
        if random.random() < 0.6:
            published += random.randint(0, 3)
            publications.published(published)
            asked.append(published)
            publications.when_safe(published, partial(done.append, published))
        else:
            safe = random.randint(safe, published)
            publications.safe_through(safe)
            assert done == [each for each in asked if each <= safe]
        assert len(publications) == published - safe


@pytest.mark.parametrize("seed", range(examples(50)))
def test_what_is_received_again_is_new_once_and_the_place_taken_is_never_ahead(seed: int) -> None:
    """A log that is read from any place before where the client is, in this or a later epoch."""
    random = Random(seed)
    log = [Event(f"e{number}", "A", {"price": random.randrange(9), "source": "s"}) for number in range(12)]
    session = ClientSession()
    session.begin(Subscription("s1", "ann", topic="A", change={"price": 2}))
    session.begin(Subscription("s2", "ann", topic="A"))
    epoch, taken = 1.0, 0
    got: list[Event] = []
    waiting: list[Any] = []
    while len(got) < len(log):
        epoch += random.choice([0.0, 0.0, 1.0])
        place = random.randint(0, len(got))
        for number in range(place, min(place + random.randint(1, 6), len(log))):
            new, item = session.receive(log[number], ("s1", "s2"), Offset(epoch, number + 1))
            assert new in ((), ("s1", "s2"))
            if new:
                got.append(log[number])
                waiting.append(item)
        for _ in range(random.randint(0, len(waiting))):
            item = waiting.pop(0)
            session.take(item)
            session.take(item)
            taken += 1
        if taken < len(got):
            offset = session.taken.offset
            assert offset is None or offset.number <= taken
        assert session.taken.last == session_of(log[:taken])
    assert got == log


def session_of(events: list[Event]) -> tuple[RememberedValues, ...]:
    if not events:
        return ()
    return (RememberedValues("s1", "A", (("price", events[-1].attributes["price"]),)),)


def test_what_comes_before_the_answer_counts_for_tolerances() -> None:
    session, wanted = ClientSession(), Subscription("s1", "ann", topic="A", change={"price": 2})
    session.expect(wanted)
    session.receive(Event("e1", "A", {"price": 7}), ("s1",), Offset(1.0, 1))
    session.begin(wanted)
    assert session.received.last == (RememberedValues("s1", "A", (("price", 7),)),)


def test_progress_is_taken_after_what_came_before_it() -> None:
    session = ClientSession()
    session.begin(Subscription("s1", "ann", topic="A"))
    _, item = session.receive(Event("e1", "A"), ("s1",), Offset(1.0, 1))
    session.reach(Offset(1.0, 9))
    assert (session.received.offset, session.taken.offset) == (Offset(1.0, 9), None)
    session.take(item)
    assert session.taken.offset == Offset(1.0, 9)
    session.reach(Offset(1.0, 4))
    assert session.received.offset == session.taken.offset == Offset(1.0, 9)


def test_what_is_not_above_the_offset_is_dropped_though_its_key_is_forgotten() -> None:
    session = ClientSession(SessionState((Subscription("s1", "ann", topic="A"),), Offset(1.0, 5)))
    news = [session.receive(Event(f"e{n}", "A"), ("s1",), Offset(1.0, n))[0] for n in (4, 5, 6)]
    assert news == [(), (), ("s1",)]


def test_without_a_log_nothing_is_dropped() -> None:
    session = ClientSession()
    session.begin(Subscription("s1", "ann", topic="A"))
    for _ in range(2):
        assert session.receive(Event("e1", "A"), ("s1",), None)[0] == ("s1",)


@settings(max_examples=examples(50), deadline=None)
@given(
    some.none() | some.builds(Offset, some.floats(0, 1e10), some.integers(0, 1 << 60)),
    some.lists(
        some.tuples(some.sampled_from(["s1", "s2"]), some.none() | some.text("AB/", min_size=1)), max_size=3
    ),
)
def test_a_session_survives_json(offset: Offset | None, named: list[tuple[str, str | None]]) -> None:
    last = tuple(RememberedValues(id, topic, (("price", 0.1), ("size", 2.0))) for id, topic in named)
    wanted = (
        Subscription("s1", "ann", where="a > 1"),
        Subscription("s2", "ann", topic="A", change={"b": 0.5}),
    )
    session = SessionState(wanted, offset, last)
    assert read_session(json.loads(json.dumps(session_record(session)))) == session


@pytest.mark.parametrize(
    "record", [{}, [], {"subscriptions": 3, "offset": None, "last": []}, {"offset": "a"}]
)
def test_what_is_no_session_is_told(record: Any) -> None:
    with pytest.raises(DistributaryError, match="this is no session"):
        read_session(record)
