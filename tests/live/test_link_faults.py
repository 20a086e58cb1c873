"""Links that are disturbed on purpose: nodes cut off, frames dropped, doubled and late, each counted."""

from __future__ import annotations

import pytest

from distributary.errors import DistributaryError
from distributary.live.lines import LinkLines
from distributary.live.link_faults import LinkFaults
from distributary.overlay.courier import Ack
from live.loops import alone, until
from live.test_links import Site, sites


def disturb(site: Site, text: str) -> LinkFaults:
    """Give a node, before it is linked, links with these faults."""
    faults = LinkFaults(1, int)
    site.links.lines = LinkLines(faults=faults)
    faults.ask(text.encode())
    return faults


@alone
async def test_frames_are_doubled_dropped_and_late_but_in_order() -> None:
    async with sites(1, 2) as (one, two):
        faults = disturb(one, '{"drop": 0.2, "duplicate": 0.3, "delay": 0.3, "delay_ms": 20}')
        await one.links.meet(two.links.endpoint)
        for number in range(300):
            one.links.send(2, Ack(0.0, number))
        fired = faults.fired
        await until(lambda: len(two.came) >= 300 - fired["drop"] + fired["duplicate"] - 10)
        numbers = [message.number for message, _ in two.came]
        assert numbers == sorted(numbers)
        assert 0 < len(set(numbers)) < 300
        assert len(numbers) > len(set(numbers))
        assert min(fired[kind] for kind in ("drop", "duplicate", "delay")) > 0
        counted = {f"fault {kind}": count for kind, count in fired.items()}
        assert one.links.lines.fired == counted


@alone
async def test_who_is_cut_off_hears_nothing_until_the_cut_ends() -> None:
    async with sites(1, 2, 3) as (one, two, three):
        faults = disturb(one, "{}")
        for site in (two, three):
            await one.links.meet(site.links.endpoint)
        faults.ask(b'{"cut": ["2"]}')
        one.links.send(2, Ack(0.0, 1))
        two.links.send(1, Ack(0.0, 2))
        one.links.send(3, Ack(0.0, 3))
        await until(lambda: three.came == [(Ack(0.0, 3), 1)])
        await until(lambda: one.links.linked == [3] and two.links.linked == [])
        one.links.send(2, Ack(0.0, 4))
        two.links.send(1, Ack(0.0, 5))
        seen = faults.fired["cut"]
        await until(lambda: faults.fired["cut"] > seen)  # the other one tries to connect, in vain
        assert (one.came, two.came) == ([], [])
        faults.ask(b"{}")
        await until(lambda: (Ack(0.0, 5), 2) in one.came or one.links.linked == [2, 3])
        one.links.send(2, Ack(0.0, 6))
        await until(lambda: (Ack(0.0, 6), 1) in two.came)
        assert (Ack(0.0, 1), 1) not in two.came
        assert (Ack(0.0, 2), 2) not in one.came


@alone
async def test_a_cut_may_be_one_way() -> None:
    async with sites(1, 2) as (one, two):
        faults = disturb(one, "{}")
        await one.links.meet(two.links.endpoint)
        faults.ask(b'{"cut_to": ["*"]}')
        two.links.send(1, Ack(0.0, 1))
        one.links.send(2, Ack(0.0, 2))
        await until(lambda: one.came == [(Ack(0.0, 1), 2)])
        await until(lambda: one.links.linked == two.links.linked == [])
        one.links.send(2, Ack(0.0, 3))
        await until(lambda: "node 2 is out of reach: this node was cut off from it on purpose" in one.notices)
        faults.ask(b'{"cut_from": ["2"]}')
        one.links.send(2, Ack(0.0, 3))
        two.links.send(1, Ack(0.0, 4))
        await until(lambda: faults.fired["cut"] >= 3)
        assert (Ack(0.0, 2), 1) not in two.came
        assert (Ack(0.0, 4), 2) not in one.came


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "these are no faults: Input data was truncated"),
        (b'{"drop": 2}', "these are no faults: Expected `float` <= 1.0"),
        (b'{"kill": 1}', "these are no faults: Object contains unknown field `kill`"),
    ],
)
def test_what_are_no_faults_is_refused(text: bytes, reason: str) -> None:
    faults = LinkFaults(1, int)
    faults.ask(b'{"drop": 0.5}')
    with pytest.raises(DistributaryError, match=reason):
        faults.ask(text)
    assert faults.asked.drop == 0.5, "and what was wanted stays"
