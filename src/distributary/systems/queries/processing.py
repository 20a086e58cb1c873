"""The processor of a node: what an operator costs is the time that it takes there.

Rules:

- A node touches no clock. Whoever runs it gives it a `Processor`, which runs operators and says how many
  seconds each run took: a live node's reads a clock (`TimedProcessor`), a simulated one's has a speed and
  takes each item to be some work (`sim.processor`).
- Work is counted in cycles, which do not depend on the node: the seconds that it took, times the cycles a
  second of the processor. So what was measured at one node says how long it would take at another.
- Items wait until the processor has done with those that came before, in the order in which they came. Only
  operators' items do; messages about them are handled at once.
- A processor that takes no time (`INSTANT`) counts a cycle for each item in and each out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import NamedTuple, Protocol

from distributary.flow import Item
from distributary.overlay.node import Node
from distributary.systems.queries.messages import Element, OperatorSpec, StreamReader

Action = Callable[[], list[Item]]

REFERENCE_CYCLES = 1_000_000.0
"""The cycles that `reference_task` takes: this defines a cycle."""


class ProcessedItems(NamedTuple):
    """What an operator gave out, and the cycles that it took."""

    items: list[Item]
    cycles: float


class Processor(Protocol):
    """Runs operators, and says what they cost."""

    @property
    def speed(self) -> float:
        """Cycles a second."""

    def seconds_until(self, spec: OperatorSpec, items: int) -> float:
        """How long a node that has so many items for an operator waits until `run` gives its results.

        0 where running it takes its time.
        """

    def run(self, spec: OperatorSpec, items: int, action: Action) -> ProcessedItems:
        """Have an operator process so many items."""


class InstantProcessor:
    """A processor that takes no time."""

    speed = inf

    def seconds_until(self, spec: OperatorSpec, items: int) -> float:
        """Nothing waits."""
        return 0.0

    def run(self, spec: OperatorSpec, items: int, action: Action) -> ProcessedItems:
        """Process items; each is a cycle, and so is each result."""
        results = action()
        return ProcessedItems(results, float(items + len(results)))


INSTANT = InstantProcessor()


class TimedProcessor:
    """The processor of a live node, by a clock of its processor time.

    >>> from time import process_time
    >>> processor = TimedProcessor(process_time)
    >>> 0 < processor.speed < inf
    True
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        began = clock()
        reference_task()
        self._speed = REFERENCE_CYCLES / max(clock() - began, 1e-9)

    @property
    def speed(self) -> float:
        """Cycles a second, as measured at the start."""
        return self._speed

    def seconds_until(self, spec: OperatorSpec, items: int) -> float:
        """Nothing waits: the time passes while it runs."""
        return 0.0

    def run(self, spec: OperatorSpec, items: int, action: Action) -> ProcessedItems:
        """Process items, and read the clock before and after."""
        began = self._clock()
        results = action()
        return ProcessedItems(results, (self._clock() - began) * self._speed)


def reference_task() -> int:
    """What every node runs to learn its speed: dictionary work, as operators do."""
    counts: dict[int, int] = {}
    for number in range(50_000):
        counts[number % 997] = counts.get(number % 997, 0) + number
    return len(counts)


class WaitingElements(NamedTuple):
    """Elements that an operator's input has been sent, and that it has not processed yet."""

    stream: str
    reader: StreamReader
    elements: tuple[Element, ...]
    granted: bool
    """Whether they came with a grant: the operator may have been sent them before, elsewhere."""

    @property
    def items(self) -> int:
        """How many items are among them."""
        return sum(element.item is not None for element in self.elements)


class ProcessingQueue:
    """What waits for the processor of a node, in the order in which it came."""

    def __init__(
        self,
        node: Node,
        processor: Processor,
        work_of: Callable[[WaitingElements], tuple[OperatorSpec, int] | None],
        process: Callable[[WaitingElements], None],
    ) -> None:
        self.processor = processor
        self._node = node
        self._work_of = work_of
        """The operator that waiting elements are for, and how many items it processes of them; None if they
        are not wanted any more."""
        self._process = process
        self._waiting: deque[WaitingElements] = deque()
        self._scheduled = False
        """Whether the first of them is being processed."""
        node.at_alarm("flow work", self._work)
        node.at_start(self._restart)

    @property
    def backlog(self) -> int:
        """How many items wait."""
        return sum(each.items for each in self._waiting)

    def waits(self, operator: str) -> bool:
        """Whether anything waits for an operator."""
        return any(each.reader.name == operator for each in self._waiting)

    def add(self, waiting: WaitingElements) -> None:
        """Have elements processed when it is their turn."""
        self._waiting.append(waiting)
        if not self._scheduled:
            self._advance()

    def _advance(self) -> None:
        """Process what takes no time, and set an alarm for the first that does."""
        self._scheduled = True
        while self._waiting:
            first = self._waiting[0]
            work = self._work_of(first)
            seconds = 0.0 if work is None else self.processor.seconds_until(*work)
            if seconds > 0:
                self._node.wake_after(seconds, "flow work")
                return
            self._waiting.popleft()
            if work is not None:
                self._process(first)
        self._scheduled = False

    def _work(self, about: object) -> None:
        if self._waiting:
            first = self._waiting.popleft()
            if self._work_of(first) is not None:
                self._process(first)
        self._advance()

    def _restart(self) -> None:
        """Set the alarm that a node which starts again with its state has lost."""
        if self._waiting:
            self._advance()
