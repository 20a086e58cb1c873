"""What a run costs: messages and bytes by kind, node and link, and for each operation.

Rules:

- Messages are counted when they are sent, even if they are lost. A message that carries another counts as its
  own kind (`Routed`); only a courier's packet counts as what it carries, so that costs with and without
  couriers can be compared.
- A kind is named after its class; class names are unique.
- Counts are kept once, by kind and link; all other sums are computed from them, so they agree.
- An operation is what `Simulator.call` names as a cause; upkeep has none. The costs of each operation are
  kept by kind, so that acknowledgements, for example, can be excluded.

Cost: less than a microsecond a message; about two more for the size of a message, which `sizes=False` saves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from distributary.overlay.courier import Packet
from distributary.overlay.node import Address, Message
from distributary.overlay.wire import size_of
from distributary.sim.simulator import Cause, Observer

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Traffic:
    """A number of messages, and their bytes in total (0 if sizes are not measured)."""

    messages: int = 0
    bytes: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.messages + other.messages, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of an operation: its traffic, and the length of its longest chain of messages."""

    messages: int = 0
    bytes: int = 0
    hops: int = 0

    def __add__(self, other: Cost) -> Cost:
        hops = max(self.hops, other.hops)
        return Cost(self.messages + other.messages, self.bytes + other.bytes, hops)


class Metrics(Observer):
    """Counts messages and bytes.

    >>> from distributary.overlay.node import Node
    >>> from distributary.sim.latency import ConstantLatency
    >>> from distributary.sim.simulator import Simulator
    >>> metrics = Metrics()
    >>> world = Simulator(1, ConstantLatency(0.1), [metrics])
    >>> one, two = Node(1), Node(2)
    >>> two.handle(str, lambda message, sender: None)
    >>> world.add(one), world.add(two)
    (None, None)
    >>> world.call(1, lambda: one.send(2, "hello"), cause="greeting")
    >>> metrics.by_kind(), metrics.cost("greeting")
    ({'str': Traffic(messages=1, bytes=6)}, Cost(messages=1, bytes=6, hops=1))
    """

    def __init__(self, *, sizes: bool = True) -> None:
        self.sizes = sizes
        self._links: defaultdict[tuple[type, Address, Address], list[int]] = defaultdict(lambda: [0, 0])
        """Messages and bytes."""
        self._causes: defaultdict[Cause, defaultdict[type, list[int]]]
        self._causes = defaultdict(lambda: defaultdict(lambda: [0, 0, 0]))
        """Messages, bytes and largest depth; upkeep has the cause None."""

    # What the simulator calls.

    def sent(
        self, now: float, sender: Address, to: Address, message: Message, cause: Cause, depth: int
    ) -> None:
        kind = type(message)
        if kind is Packet:
            kind = type(message.message)
        size = size_of(message) if self.sizes else 0
        counted = self._links[kind, sender, to]
        counted[0] += 1
        counted[1] += size
        spent = self._causes[cause][kind]
        spent[0] += 1
        spent[1] += size
        if depth > spent[2]:
            spent[2] = depth

    # Traffic. Dictionaries are in the order of their keys.

    def total(self) -> Traffic:
        """All traffic together."""
        counts = self._links.values()
        return Traffic(sum(count for count, _ in counts), sum(size for _, size in counts))

    def by_kind(self) -> dict[str, Traffic]:
        """The traffic of each kind of message."""
        return self._sums(lambda kind, sender, to: kind.__name__)

    def by_sender(self) -> dict[Address, Traffic]:
        """The traffic that each node sent."""
        return self._sums(lambda kind, sender, to: sender)

    def by_receiver(self) -> dict[Address, Traffic]:
        """The traffic sent to each node."""
        return self._sums(lambda kind, sender, to: to)

    def by_link(self) -> dict[tuple[Address, Address], Traffic]:
        """The traffic between each sender and receiver."""
        return self._sums(lambda kind, sender, to: (sender, to))

    def _sums(self, key_of: Callable[[type, Address, Address], K]) -> dict[K, Traffic]:
        sums: defaultdict[K, list[int]] = defaultdict(lambda: [0, 0])
        for (kind, sender, to), (count, size) in self._links.items():
            summed = sums[key_of(kind, sender, to)]
            summed[0] += count
            summed[1] += size
        return {key: Traffic(*sums[key]) for key in sorted(sums)}  # type: ignore[type-var]

    # Operations.

    def costs_by_kind(self, cause: Cause) -> dict[str, Cost]:
        """The cost of an operation by kind of message; nothing for one that sent no message."""
        kinds: Mapping[type, list[int]] = self._causes.get(cause, {})
        return dict(sorted((kind.__name__, Cost(*spent)) for kind, spent in kinds.items()))

    def cost(self, cause: Cause, *, without: Iterable[str] = ()) -> Cost:
        """The cost of an operation, without messages of these kinds."""
        excluded = frozenset(without)
        costs = self.costs_by_kind(cause).items()
        return sum((cost for kind, cost in costs if kind not in excluded), Cost())

    def upkeep(self) -> dict[str, Traffic]:
        """The traffic that no operation caused, by kind."""
        return {kind: Traffic(cost.messages, cost.bytes) for kind, cost in self.costs_by_kind(None).items()}
