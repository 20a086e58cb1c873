"""How long a message takes from one node to another.

Rules:

- A model says how long a message would take by itself (`delay`); `delays` keeps those of a link in order, as
  a connection does: a message never arrives before one that was sent earlier from the same node to the same.
- Where a node stands, and how far two are apart, are functions of the seed and the addresses alone, whatever
  was asked before. What differs from message to message is drawn from a generator of the model's own.
- All times are in seconds, one way; files and tables of round-trip times are in milliseconds, both ways.

Cost: a dictionary lookup a message, and a draw where messages differ.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, hypot, inf, isfinite, nextafter
from pathlib import Path
from random import Random

from distributary.errors import DistributaryError
from distributary.overlay.node import Address, Message
from distributary.overlay.wire import size_of


class LinkOrder:
    """Ensures that messages of a link arrive in the order in which they were sent."""

    def __init__(self) -> None:
        self._last: dict[tuple[Address, Address], float] = {}

    def kept(self, now: float, sender: Address, to: Address, delay: float) -> float:
        """The delay, or as much more as it takes not to overtake the link's last message."""
        link = (sender, to)
        last = self._last.get(link, 0.0)
        due = now + delay
        if due < last:
            delay = last - now
            while (due := now + delay) < last:  # where subtracting and adding again has rounded down
                delay = nextafter(delay, inf)
        self._last[link] = due
        return delay


class Latency:
    """A latency model; subclasses implement `delay`."""

    def __init__(self) -> None:
        self._order = LinkOrder()

    def delay(self, now: float, sender: Address, to: Address, message: Message) -> float:
        """The delay of this message in seconds if no other were on its link."""
        raise NotImplementedError

    def delays(self, now: float, sender: Address, to: Address, message: Message) -> tuple[float, ...]:
        """The delays of the copies of a message; one for a message that is neither lost nor repeated."""
        return (self._order.kept(now, sender, to, self.delay(now, sender, to, message)),)


@dataclass(frozen=True)
class ConstantLatency(Latency):
    """The same delay for every message."""

    seconds: float

    def __post_init__(self) -> None:
        _require_span(self.seconds, "a delay")

    def delay(self, now: float, sender: Address, to: Address, message: Message) -> float:
        return self.seconds

    def delays(self, now: float, sender: Address, to: Address, message: Message) -> tuple[float, ...]:
        return (self.seconds,)


class UniformLatency(Latency):
    """A delay drawn uniformly between two bounds for each message.

    >>> model = UniformLatency(0.01, 0.09, seed=1)
    >>> all(0.01 <= model.delay(0, 1, 2, "") <= 0.09 for _ in range(100))
    True
    """

    def __init__(self, least: float, most: float, *, seed: int) -> None:
        super().__init__()
        _require_span(least, "the least delay")
        if not least <= most < inf:
            raise DistributaryError(
                f"delays from {least:g} to {most:g} s: the second must not be the smaller"
            )
        self._least, self._range = least, most - least
        self._random = Random(f"{seed}/uniform").random

    def delay(self, now: float, sender: Address, to: Address, message: Message) -> float:
        return self._least + self._range * self._random()


class MatrixLatency(Latency):
    """Delays between places, from a table of measured round-trip times.

    Each node stands at a place: where `places` puts it, or at one drawn by the seed.

    >>> model = MatrixLatency(["here", "there"], [[1, 80], [82, 1]], seed=1, places={1: "here", 2: "there"})
    >>> model.delay(0, 1, 2, ""), model.delay(0, 2, 1, "")
    (0.04, 0.041)
    """

    def __init__(
        self,
        names: Sequence[str],
        milliseconds: Sequence[Sequence[float]],
        *,
        seed: int,
        places: Mapping[Address, str] | None = None,
    ) -> None:
        super().__init__()
        if len(milliseconds) != len(names) or any(len(row) != len(names) for row in milliseconds):
            raise DistributaryError(f"a matrix of {len(names)} places has as many rows and columns")
        self._one_way = [[value / 2000 for value in row] for row in milliseconds]
        self._seed = seed
        self._numbers = {name: number for number, name in enumerate(names)}
        self._places: dict[Address, int] = {}
        for address, name in (places or {}).items():
            if name not in self._numbers:
                raise DistributaryError(f"node {address} is to stand at {name!r}, which is not in the matrix")
            self._places[address] = self._numbers[name]

    @classmethod
    def read(
        cls, path: str | Path, *, seed: int, places: Mapping[Address, str] | None = None
    ) -> MatrixLatency:
        """Read a CSV file of round-trip times in milliseconds.

        The first line names the places after an empty (or any) first cell; each line after it names a
        place and gives the times from there to each of them, in the same order. Times need not be the same
        both ways; the time from a place to itself may be left empty and is 0 then.
        """
        names, rows = read_matrix(Path(path))
        return cls(names, rows, seed=seed, places=places)

    def delay(self, now: float, sender: Address, to: Address, message: Message) -> float:
        return self._one_way[self._place(sender)][self._place(to)]

    def _place(self, address: Address) -> int:
        number = self._places.get(address)
        if number is None:
            number = Random(f"{self._seed}/place/{address}").randrange(len(self._numbers))
            self._places[address] = number
        return number


@dataclass(frozen=True)
class Region:
    """A part of the world: its share of the nodes, and round-trip times to those listed before it."""

    name: str
    share: float
    milliseconds: tuple[float, ...] = ()


REGIONS = (
    Region("america east", 0.25),
    Region("america west", 0.15, (65,)),
    Region("europe", 0.30, (80, 140)),
    Region("asia east", 0.12, (160, 105, 220)),
    Region("asia southeast", 0.06, (220, 170, 165, 70)),
    Region("asia south", 0.04, (190, 220, 120, 125, 60)),
    Region("america south", 0.05, (115, 175, 190, 260, 320, 300)),
    Region("australia", 0.03, (200, 140, 265, 105, 95, 150, 315)),
)
"""Round-trip times between data centres as operators of public clouds publish them (Virginia, California,
Ireland, Tokyo, Singapore, Mumbai, São Paulo, Sydney), rounded to 5 ms; shares as hosts of wide-area testbeds
and DNS servers are spread: most in North America and Europe."""


class WideAreaLatency(Latency):
    """Delays shaped like those measured between hosts of a wide-area network.

    A node stands in one of some regions, at a point within it, behind an access link. The round trip between
    two nodes is the regions' (or, within one, the distance of their points), stretched by a detour of the
    pair's own, plus both access links. A message takes half of it, and sometimes more.

    The shape is that of the measured sets which simulations commonly use (the King set of DNS servers, 2002;
    PlanetLab's all-pairs pings): several humps from the continents, a long tail, a median of 100 to 200 ms,
    and detours by which for some pairs the way over a third node is shorter. It is no replay of such a set:
    for that, read one with `MatrixLatency.read`.
    """

    ACROSS = 30.0
    """Milliseconds that a round trip across a region takes at most."""
    ACCESS = (1.5, 0.8)
    """Of the round trip over an access link, in milliseconds: mean and deviation of its logarithm (median
    4.5 ms, one in ten above 12 ms)."""
    DETOUR = 0.25
    """Deviation of the logarithm of a pair's detour: the way over a third node is shorter for some pairs."""
    JITTER = 0.05
    """The mean of what a message may take longer than the quickest, as a share; exponential."""

    def __init__(self, *, seed: int) -> None:
        super().__init__()
        self._seed = seed
        self._hosts: dict[Address, _Host] = {}
        self._quickest: dict[tuple[Address, Address], float] = {}
        self._jitter = Random(f"{seed}/jitter").expovariate

    def round_trip(self, one: Address, other: Address) -> float:
        """The quickest round trip between two nodes in seconds; both ways are the same."""
        return 2 * self._least(one, other)

    def delay(self, now: float, sender: Address, to: Address, message: Message) -> float:
        return self._least(sender, to) * (1 + self._jitter(1 / self.JITTER))

    def _least(self, sender: Address, to: Address) -> float:
        known = self._quickest.get((sender, to))
        if known is None:
            known = self._quickest[sender, to] = self._measured(min(sender, to), max(sender, to)) / 2000
        return known

    def _measured(self, one: Address, other: Address) -> float:
        first, second = self._host(one), self._host(other)
        if one == other:
            return 0.1
        if first.region == second.region:
            between = hypot(first.x - second.x, first.y - second.y) * self.ACROSS
        else:
            low, high = sorted((first.region, second.region))
            between = REGIONS[high].milliseconds[low]
        detour = exp(abs(Random(f"{self._seed}/detour/{one}/{other}").gauss(0, self.DETOUR)))
        return between * detour + first.access + second.access

    def _host(self, address: Address) -> _Host:
        host = self._hosts.get(address)
        if host is None:
            random = Random(f"{self._seed}/host/{address}")
            region = random.choices(range(len(REGIONS)), [region.share for region in REGIONS])[0]
            x = y = 1.0
            while hypot(x, y) > 0.5:
                x, y = random.random() - 0.5, random.random() - 0.5
            host = self._hosts[address] = _Host(region, x, y, random.lognormvariate(*self.ACCESS))
        return host


@dataclass(frozen=True, slots=True)
class _Host:
    """Where a node stands: its region, the point within a circle of diameter 1, its access link."""

    region: int
    x: float
    y: float
    access: float


class BandwidthLatency(Latency):
    """Another model's delays, plus the time to transmit a message over its sender's line.

    A line transmits one message after another: a message waits for the sender's earlier ones. A mapping gives
    each node its own line; nodes that it does not have are not held up.

    >>> model = BandwidthLatency(ConstantLatency(0.1), bytes_per_second=60)
    >>> model.delays(0.0, 1, 2, "hello"), model.delays(0.0, 1, 3, "hello")
    ((0.2,), (0.30000000000000004,))
    """

    def __init__(self, latency: Latency, bytes_per_second: float | Mapping[Address, float]) -> None:
        super().__init__()
        given = bytes_per_second
        for rate in given.values() if isinstance(given, Mapping) else [given]:
            if not 0 < rate < inf:
                raise DistributaryError(f"a line carries more than 0 bytes a second, not {rate:g}")
        self._latency = latency
        self._rates = given
        self._free: dict[Address, float] = {}

    def delay(self, now: float, sender: Address, to: Address, message: Message) -> float:
        rate = self._rates.get(sender, inf) if isinstance(self._rates, Mapping) else self._rates
        free = max(now, self._free.get(sender, 0.0)) + size_of(message) / rate
        self._free[sender] = free
        return free - now + self._latency.delay(now, sender, to, message)


def _require_span(seconds: float, what: str) -> None:
    if not 0 <= seconds < inf:
        raise DistributaryError(f"{what} of {seconds:g} s: it is a number of seconds, 0 or more")


def read_matrix(path: Path) -> tuple[list[str], list[list[float]]]:
    """The places of a CSV file of round-trip times, and the times in milliseconds from each to each."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream)
            lines = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except OSError as error:
        raise DistributaryError(f"cannot read {path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise DistributaryError(f"{path}: is no CSV file: {error}") from None
    if not lines:
        raise DistributaryError(f"{path}: is empty; its first line names the places")
    line, header = lines[0]
    names = [cell.strip() for cell in header[1:]]
    if not names or "" in names or len(set(names)) < len(names):
        raise DistributaryError(f"{path}:{line}: the first line names every place once, after its first cell")
    rows = [_matrix_row(f"{path}:{line}", row, number, names) for number, (line, row) in enumerate(lines[1:])]
    if len(rows) < len(names):
        raise DistributaryError(f"{path}: has no line for {names[len(rows)]!r}")
    return names, rows


def _matrix_row(place: str, row: list[str], number: int, names: list[str]) -> list[float]:
    cells = [cell.strip() for cell in row]
    if number >= len(names) or cells[0] != names[number]:
        due = repr(names[number]) if number < len(names) else "no further line"
        raise DistributaryError(f"{place}: {cells[0]!r} stands where the first line has {due}")
    if len(cells) != len(names) + 1:
        raise DistributaryError(f"{place}: {len(cells) - 1} times, but there are {len(names)} places")
    values = []
    for column, cell in enumerate(cells[1:]):
        try:
            value = 0.0 if column == number and not cell else float(cell)
        except ValueError:
            value = inf
        if not (isfinite(value) and value >= 0):
            raise DistributaryError(
                f"{place}: {cell!r} for {names[column]!r} is no time; milliseconds, 0 or more, are expected"
            )
        values.append(value)
    return values
