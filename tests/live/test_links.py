"""Links between nodes on real sockets: greetings, one link a pair, refusals, breaks, bounds, TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trustme

from distributary.errors import DistributaryError
from distributary.live import connection
from distributary.live import links as links_module
from distributary.live.codec import encode
from distributary.live.connection import Connection, Limits
from distributary.live.frames import frame
from distributary.live.greeting import Endpoint, Greeting
from distributary.live.links import Links
from distributary.live.security import TlsFiles
from distributary.overlay.courier import Ack
from live.loops import alone, until

QUICK = Limits(beat=0.2, first_pause=0.02, longest_pause=0.3)


class Site:
    """A node's links, and what came over them."""

    def __init__(self, address: int, network: str = "plant", **options: Any) -> None:
        self.came: list[tuple[Any, int]] = []
        self.notices: list[str] = []
        self.links = Links(
            address,
            network,
            lambda message, sender: self.came.append((message, sender)),
            limits=options.pop("limits", QUICK),
            on_notice=self.notices.append,
            **options,
        )


@asynccontextmanager
async def sites(*addresses: int, **options: Any) -> AsyncIterator[list[Site]]:
    made = [Site(address, **options) for address in addresses]
    for site in made:
        await site.links.listen()
    try:
        yield made
    finally:
        for site in made:
            await site.links.close()


@alone
async def test_messages_go_both_ways_over_one_link_in_order() -> None:
    async with sites(1, 2) as (one, two):
        one.links.introduce(2, two.links.endpoint)
        two.links.introduce(1, one.links.endpoint)
        for number in range(500):
            one.links.send(2, Ack(0.0, number))
            two.links.send(1, Ack(1.0, number))
        await until(lambda: len(one.came) == len(two.came) == 500)
        assert two.came == [(Ack(0.0, number), 1) for number in range(500)]
        assert one.came == [(Ack(1.0, number), 2) for number in range(500)]
        await asyncio.sleep(links_module.OVERLAP + 0.2)
        assert one.links.linked == [2]
        assert two.links.linked == [1]
        both = one.links._peers[2].connection, two.links._peers[1].connection
        assert [each.connects for each in both if each is not None] == [True, False], "the lower one's stays"
        assert one.notices == two.notices == []


@alone
async def test_a_node_can_send_to_itself() -> None:
    async with sites(1) as (one,):
        one.links.send(1, Ack(0.0, 1))
        assert one.came == [], "not within the call"
        await until(lambda: one.came == [(Ack(0.0, 1), 1)])


@alone
async def test_nodes_are_found_by_asking_those_that_are_linked() -> None:
    async with sites(1, 2, 3) as (one, two, three):
        assert await one.links.meet(two.links.endpoint) == 2
        assert await three.links.meet(two.links.endpoint) == 2
        one.links.send(3, Ack(0.0, 9))
        await until(lambda: three.came == [(Ack(0.0, 9), 1)])


@alone
async def test_neighbours_of_a_node_find_each_other_when_it_is_gone() -> None:
    async with sites(1, 2, 3, 4) as (one, middle, three, four):
        for outer in (one, three, four):
            await outer.links.meet(middle.links.endpoint)
        await until(lambda: all(len(each.links._peers) == 3 for each in (one, three, four)))
        await middle.links.close()
        three.links.send(1, Ack(0.0, 9))  # to one that came before it
        three.links.send(4, Ack(0.0, 9))  # and to one that came after it
        await until(lambda: one.came == four.came == [(Ack(0.0, 9), 3)])


@alone
async def test_a_link_that_broke_is_made_again() -> None:
    async with sites(1, 2) as (one, two):
        one.links.introduce(2, two.links.endpoint)
        one.links.send(2, Ack(0.0, 1))
        await until(lambda: len(two.came) == 1)
        one.links.cut(2)
        await until(lambda: two.links.linked == [])
        one.links.send(2, Ack(0.0, 2))
        await until(lambda: len(two.came) == 2)
        assert one.links.counts["made"] == 2
        assert one.links.counts["broken"] == 1
        assert one.notices == ["the link to node 2 broke: cut"]


@alone
async def test_a_node_that_comes_back_at_the_same_place_is_reached() -> None:
    one, two = Site(1), Site(2)
    await one.links.listen()
    place = await two.links.listen()
    one.links.introduce(2, place)
    one.links.send(2, Ack(0.0, 1))
    await until(lambda: len(two.came) == 1)
    await two.links.close()
    await until(lambda: one.links.linked == [])
    one.links.send(2, Ack(0.0, 2))
    await asyncio.sleep(0.1)
    again = Site(2)
    await again.links.listen(port=place.port)
    await until(lambda: again.came == [(Ack(0.0, 2), 1)])
    await one.links.close()
    await again.links.close()


@alone
async def test_a_connection_that_was_under_way_when_links_closed_is_closed() -> None:
    async with sites(1, 2) as (one, two):
        await one.links.close()
        _, made = await asyncio.get_running_loop().create_connection(
            partial(Connection, one.links, connects=True), *two.links.endpoint
        )
        assert made._transport.is_closing()


@alone
async def test_what_is_sent_to_nobody_is_dropped_told_and_counted() -> None:
    async with sites(1, limits=QUICK._replace(lost=5)) as (one,):
        for number in range(8):
            one.links.send(77, Ack(0.0, number))
        assert one.links.counts["dropped"] == 3
        await until(lambda: one.links.counts["dropped"] == 8)
        assert one.notices == ["node 77 is out of reach: nobody knows where it is"]


@pytest.mark.parametrize(
    ("greeting", "reason"),
    [
        (Greeting(1, 1, "other", 9, None), "this is network 'plant', not 'other'"),
        (Greeting(7, 9, "plant", 9, None), "versions 7 to 9"),
        (Greeting(1, 1, "plant", 2, None), "node 2 is this one"),
        (Greeting(1, 1, "plant", 9, None, "tree"), "run '', not 'tree'"),
    ],
    ids=["another network", "another version", "the same address", "another system"],
)
def test_strangers_are_refused_with_the_reason(greeting: Greeting, reason: str) -> None:
    @alone
    async def check() -> None:
        async with sites(2) as (two,):
            reader, writer = await asyncio.open_connection(*two.links.endpoint)
            writer.write(frame(encode(greeting)))
            told = await reader.read()
            assert reason.encode() in told
            assert two.links.counts["refused"] == 1
            assert two.links.linked == []
            writer.close()

    check()


@alone
async def test_whoever_is_refused_learns_why() -> None:
    async with sites(2) as (two,):
        stranger = Site(9, "other")
        with pytest.raises(DistributaryError, match="this is network 'plant', not 'other'"):
            await stranger.links.meet(two.links.endpoint)
        await stranger.links.close()


@alone
async def test_hostile_bytes_end_their_own_connection_only() -> None:
    random = Random(1)
    attempts = [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\xff\xff\xff\xff",
        frame(b""),
        frame(encode(Ack(0.0, 1))),
        frame(b"\x91" * 4000),
        frame(bytes(5000)),
        *(frame(random.randbytes(random.randrange(1, 200))) for _ in range(50)),
    ]
    async with sites(1, 2) as (one, two):
        await one.links.meet(two.links.endpoint)
        for data in attempts:
            reader, writer = await asyncio.open_connection(*two.links.endpoint)
            writer.write(data)
            assert await reader.read() == b"", "closed without a word"
            writer.close()
        greeted = frame(encode(Greeting(1, 1, "plant", 3, None)))
        reader, writer = await asyncio.open_connection(*two.links.endpoint)
        writer.write(greeted + frame(b"\x94\x06\xc0"))
        await reader.read()
        writer.close()
        one.links.send(2, Ack(0.0, 5))
        await until(lambda: (Ack(0.0, 5), 1) in two.came)
        assert two.came == [(Ack(0.0, 5), 1)]
        assert two.links.counts["refused"] == len(attempts) + 1
        assert len(two.links._strangers) == 0


@alone
async def test_whoever_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 0.2)
    async with sites(2) as (two,):
        reader, writer = await asyncio.open_connection(*two.links.endpoint)
        assert await reader.read() == b""
        writer.close()
        await until(lambda: not two.links._strangers)


@asynccontextmanager
async def deaf(site: Site, address: int = 9) -> AsyncIterator[Endpoint]:
    """A node that greets, and then neither reads nor speaks."""
    held: list[asyncio.StreamWriter] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        writer.write(frame(encode(Greeting(1, 1, "plant", address, None))))
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        held.append(writer)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    place = Endpoint("127.0.0.1", server.sockets[0].getsockname()[1])
    site.links.introduce(address, place)
    try:
        yield place
    finally:
        server.close()
        for writer in held:
            writer.transport.abort()


@alone
async def test_a_node_that_is_not_heard_of_is_given_up() -> None:
    async with sites(1) as (one,), deaf(one):
        one.links.send(9, Ack(0.0, 1))
        await until(lambda: one.links.linked == [9])
        await until(lambda: one.links.linked == [])
        assert one.notices == ["the link to node 9 broke: nothing was heard for long"]


@alone
async def test_who_stood_still_itself_takes_nobody_for_silent() -> None:
    async with sites(1, 2) as (one, two):
        one.links.introduce(2, two.links.endpoint)
        one.links.send(2, Ack(0.0, 1))
        await until(lambda: len(two.came) == 1)
        time.sleep(2.0)
        one.links.send(2, Ack(0.0, 2))
        await until(lambda: len(two.came) == 2)
        assert one.links.counts["broken"] == two.links.counts["broken"] == 0


@alone
async def test_the_queue_of_a_link_is_bounded_and_says_when_it_is_half_full() -> None:
    limits = Limits(queued=4 << 20, beat=60.0)
    async with sites(1, limits=limits) as (one,), deaf(one):
        one.links.send(9, Ack(0.0, 1))
        await until(lambda: one.links.linked == [9])
        assert not one.links.congested
        large = Greeting(1, 1, "a" * (256 << 10), 1, None)
        for _ in range(200):
            one.links.send(9, large)
            await asyncio.sleep(0)
        peer = one.links._peers[9]
        assert peer.unsent <= limits.queued
        assert one.links.congested
        assert one.links.counts["dropped"] > 100


@alone
async def test_beyond_loopback_nothing_goes_without_tls() -> None:
    one = Site(1)
    with pytest.raises(DistributaryError, match=r"cannot listen at 0\.0\.0\.0 without TLS"):
        await one.links.listen("0.0.0.0")
    with pytest.raises(DistributaryError, match=r"cannot connect to 192\.0\.2\.1 without TLS"):
        await one.links.meet(Endpoint("192.0.2.1", 1))
    await one.links.close()


@alone
async def test_a_port_in_use_is_told() -> None:
    async with sites(1) as (one,):
        other = Site(2)
        with pytest.raises(DistributaryError, match=f"cannot listen at {one.links.endpoint}"):
            await other.links.listen(port=one.links.endpoint.port)
        await other.links.close()


@alone
async def test_nobody_there_is_told() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    one = Site(1)
    with pytest.raises(DistributaryError, match=f"cannot connect to 127.0.0.1:{port}"):
        await one.links.meet(Endpoint("127.0.0.1", port))
    await one.links.close()


def tls_files(directory: Path, authority: trustme.CA, name: str) -> TlsFiles:
    made = authority.issue_cert(f"{name}.example")
    paths = [directory / f"{name}.{part}" for part in ("crt", "key", "ca")]
    made.cert_chain_pems[0].write_to_path(paths[0])
    made.private_key_pem.write_to_path(paths[1])
    authority.cert_pem.write_to_path(paths[2])
    return TlsFiles(*paths)


@alone
async def test_with_certificates_of_one_authority_nodes_talk_over_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    one = Site(1, tls=tls_files(tmp_path, authority, "one"))
    two = Site(2, tls=tls_files(tmp_path, authority, "two"))
    await two.links.listen("0.0.0.0")
    await one.links.meet(Endpoint("127.0.0.1", two.links.endpoint.port))
    one.links.send(2, Ack(0.0, 1))
    await until(lambda: two.came == [(Ack(0.0, 1), 1)])
    over = one.links._peers[2].connection
    assert over is not None
    assert over._transport.get_extra_info("ssl_object").version() == "TLSv1.3"
    await one.links.close()
    await two.links.close()


@alone
async def test_without_a_certificate_of_the_authority_nobody_is_let_in(tmp_path: Path) -> None:
    authority, another = trustme.CA(), trustme.CA()
    two = Site(2, tls=tls_files(tmp_path, authority, "two"))
    place = await two.links.listen()
    for files in (tls_files(tmp_path, another, "one"), None):
        one = Site(1, tls=files)
        with pytest.raises(DistributaryError):
            await one.links.meet(place)
        await one.links.close()
    context = ssl.create_default_context(cafile=str(tmp_path / "two.ca"))
    context.check_hostname = False
    reader, writer = await asyncio.open_connection(*place, ssl=context)
    writer.write(frame(encode(Greeting(1, 1, "plant", 1, None))))
    with suppress(OSError):  # by the system, the end is an error of TLS or of the connection, or no error
        assert await reader.read() == b""
    assert two.links.linked == []
    await two.links.close()


def test_certificates_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    files = TlsFiles(tmp_path / "a.crt", tmp_path / "a.key", tmp_path / "a.ca")
    with pytest.raises(DistributaryError, match=r"TLS: there is no file .*/a\.crt"):
        files.context(ssl.Purpose.CLIENT_AUTH)


@alone
async def test_a_port_that_cannot_be_is_told() -> None:
    one = Links(1, "plant", lambda message, sender: None)
    told = r"cannot connect to 127\.0\.0\.1:99999: no port has such a number"
    with pytest.raises(DistributaryError, match=told):
        await one.meet(Endpoint("127.0.0.1", 99999))
    await one.close()


@alone
async def test_whoever_does_not_speak_tls_is_told_as_such(tmp_path: Path) -> None:
    plain = Links(1, "plant", lambda message, sender: None)
    there = await plain.listen()
    with_tls = Links(2, "plant", lambda message, sender: None, tls=tls_files(tmp_path, trustme.CA(), "two"))
    with pytest.raises(DistributaryError, match="does it speak TLS"):
        await with_tls.meet(there)
    await with_tls.close()
    await plain.close()
