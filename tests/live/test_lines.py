"""LinkLines that are slow on purpose: when frames arrive, in which order, and what is unsent meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as some

from distributary.live.codec import encode
from distributary.live.frames import frame
from distributary.live.greeting import LinkBeat
from distributary.live.lines import Line, LineSpeed, LinkLines
from distributary.overlay.courier import Ack
from live.loops import alone, until
from live.test_links import QUICK, Site, sites


class Hands:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> None:
        heappush(self._due, (when, next(self._order), callback))

    def run(self, until: float = inf) -> None:
        while self._due and self._due[0][0] <= until:
            self.now, _, callback = heappop(self._due)
            callback()
        self.now = until if until < inf else self.now


moments = some.lists(some.tuples(some.integers(0, 1000), some.integers(1, 500)), max_size=30)


@given(moments, some.integers(0, 200), some.sampled_from([50, 1000, inf]))
def test_frames_arrive_in_order_when_the_line_has_sent_them(
    sent: list[tuple[int, int]], delay: int, rate: float
) -> None:
    hands, arrived = Hands(), []
    line = Line(
        hands, lambda data: arrived.append((hands.now, data)), LineSpeed(delay / 100, rate), lambda: (0.0,)
    )
    due, free = [], 0.0
    for number, (hundredths, size) in enumerate(sorted(sent)):
        now = hundredths / 100
        hands.run(now)
        line.send(bytes([number]) * size)
        free = max(free, now) + size / rate
        due.append((free + delay / 100, bytes([number]) * size))
        assert line.unsent == pytest.approx((free - now) * rate if rate < inf else 0, abs=1)
    hands.run()
    assert b"".join(data for _, data in arrived) == b"".join(data for _, data in due)
    taken = 0
    for time, data in arrived:  # each write has all that is there by then, and nothing that is not
        while data:
            when, expected = due[taken]
            assert when == pytest.approx(time)
            assert data.startswith(expected)
            data, taken = data[len(expected) :], taken + 1


def round_trip(site: Site, other: int) -> float:
    """As beats have measured it; 0 before the first."""
    return next((state.round_trip or 0.0 for state in site.links.states if state.address == other), 0.0)


@alone
async def test_measured_round_trips_are_those_that_were_set() -> None:
    """They are never quicker; that they come close once is waited for, as the machine may be busy."""
    async with sites(1, 2, 3) as (one, two, three):
        one.links.lines = LinkLines({2: LineSpeed(0.05)})
        two.links.lines = LinkLines({1: LineSpeed(0.03), 3: LineSpeed(0.0, 1000)})
        await one.links.meet(two.links.endpoint)
        await two.links.meet(three.links.endpoint)
        await until(lambda: 0.08 <= round_trip(one, 2) < 0.1)
        await until(lambda: 0.08 <= round_trip(two, 1) < 0.1)
        beat = len(frame(encode(LinkBeat(1.0))))
        await until(lambda: round_trip(two, 3) >= beat / 1000)
        assert min(round_trip(one, 2), round_trip(two, 1)) >= 0.08


@alone
async def test_a_narrow_link_makes_its_publishers_wait_and_no_other() -> None:
    limits = QUICK._replace(queued=20_000)
    async with sites(1, 2, 3, limits=limits) as (one, two, three):
        one.links.lines = LinkLines({2: LineSpeed(0.0, 100_000)})
        await one.links.meet(two.links.endpoint)
        await one.links.meet(three.links.endpoint)
        number = 0
        while not one.links.congested:
            one.links.send(2, Ack(0.0, number))
            one.links.send(3, Ack(0.0, number))
            number += 1
            await asyncio.sleep(0)
        await until(lambda: len(three.came) == number)
        assert len(two.came) < number, "the narrow link is still busy"
        await until(lambda: len(two.came) == number)
        assert not one.links.congested
        assert [message.number for message, _ in two.came] == list(range(number))
