"""Drives one node: gives it what arrives, what its clients ask and the alarms that are due, and does what it
wants done.

Nothing here belongs to a protocol, a socket or a real clock. With `LoopClock` and `links` a runner is a node
of a network; with a virtual clock and a network in memory it does what the simulator does, step by step.

Rules:

- One entry at a time: whoever calls waits for the effects of the call to be handed on, in order. What a
  client asks while it is being handed something comes after all effects of before.
- An alarm of before a stop never rings after it.
- A message that its node cannot bear (it raises) is told to `on_fault` and is over; what the node wanted done
  until then is done. What a client asks raises at the client.
- What follows a `Store` waits until its disk says that the value is safe: of the same entry, and of all later
  ones. Stores themselves go to the disk at once, so that it can write together what comes while it is busy.
  Without a disk a store is safe at once, and gone with the process.
- What cannot be done of what the node wants (a message that does not fit in bytes, a client that fails to
  take a delivery) is told to `on_fault`, and the rest is done all the same.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

from distributary.overlay.node import (
    Acknowledge,
    Address,
    Deliver,
    Effect,
    Message,
    Node,
    RequestKey,
    SafeEvents,
    Send,
    Store,
    Token,
    Wake,
)


class AlarmClock(Protocol):
    """Tells the time, and rings."""

    def now(self) -> float:
        """Seconds since 1970, which never go back."""

    def after(self, seconds: float, ring: Callable[[], None]) -> None:
        """Have this called after so many seconds."""


class LoopClock:
    """The clock of an event loop: monotonic, begun at the time of day when it was made.

    A node that starts again without its memory is told a later time than before, which its numbers rely on.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._begun = time.time() - loop.time()

    def now(self) -> float:
        """The time of day when it was made, and what has passed since."""
        return self._begun + self._loop.time()

    def after(self, seconds: float, ring: Callable[[], None]) -> None:
        """Have this called by the loop."""
        self._loop.call_later(seconds, ring)


class Carrier(Protocol):
    """Brings messages to other nodes; they may get lost."""

    def send(self, to: Address, message: Message) -> None:
        """Have a message brought to a node."""


class Disk(Protocol):
    """Keeps values by name."""

    def write(self, stores: Sequence[Store], then: Callable[[], None]) -> None:
        """Write these together, after all given before, and call `then` when they are safe."""


class Runner:
    """Runs a node.

    >>> class Silence:
    ...     def now(self): return 0.0
    ...     def after(self, seconds, ring): print("an alarm in", seconds)
    ...     def send(self, to, message): print(message, "to", to)
    >>> node, given = Node(7), []
    >>> runner = Runner(node, Silence(), Silence(), given.append)
    >>> runner.start()
    >>> runner.call(lambda: (node.send(3, "hello"), node.deliver("item"), node.wake_after(2, "tick")))
    hello to 3
    an alarm in 2
    >>> given
    ['item']
    """

    def __init__(
        self,
        node: Node,
        carrier: Carrier,
        clock: AlarmClock,
        on_delivery: Callable[[Any], None],
        on_fault: Callable[[str, Exception], None] | None = None,
        *,
        disk: Disk | None = None,
        on_acknowledgement: Callable[[RequestKey | SafeEvents], None] | None = None,
        before_entry: Sequence[Callable[[], None]] = (),
    ) -> None:
        self.node = node
        self.faults = 0
        """How many messages and alarms the node could not bear, and how much of what it wants failed."""
        self._carrier = carrier
        self._clock = clock
        self._on_delivery = on_delivery
        self._on_fault = on_fault
        self._disk = disk
        self._on_acknowledgement = on_acknowledgement
        self._before_entry = before_entry
        """Called before the node is asked or told anything; what they ask of the node comes first."""
        self._waiting: list[Effect] | None = None
        """What waits for the last values that were given to the disk; None when all are safe."""
        self._later: deque[list[Effect]] = deque()
        self._busy = False
        """Whether effects are being handed on; those that come meanwhile wait in `_later`."""
        self._life = 0
        self.runs = False
        """Whether the node is started, and not stopped since."""

    def start(self) -> None:
        """Start the node, or start it again with the memory it has."""
        self._life += 1
        self._waiting = None
        self.runs = True
        self._carry_out(self.node.start(self._clock.now()))

    def stop(self) -> None:
        """Give the node nothing any more: it is as if it had crashed."""
        self.runs = False

    def receive(self, message: Message, sender: Address) -> None:
        """Give the node a message."""
        if self.runs:
            self.prepare()
            what = f"{type(message).__name__} from node {sender}"
            self._bear(what, partial(self.node.receive, message, sender, self._clock.now()))

    def call(self, action: Callable[[], Any]) -> None:
        """Do what a client asks of the node; what that raises is raised here, after its effects so far."""
        self.prepare()
        self.call_unprepared(action)

    def call_unprepared(self, action: Callable[[], Any]) -> None:
        """As `call`, of what is itself called before the node is asked or told anything."""
        try:
            effects = self.node.call(action, self._clock.now())
        except Exception:
            self._carry_out(self.node.call(_nothing, self._clock.now()))
            raise
        self._carry_out(effects)

    def prepare(self) -> None:
        """Do what is done before the node is asked or told anything."""
        for prepare in self._before_entry:
            prepare()

    def _ring(self, token: Token, life: int) -> None:
        if self.runs and life == self._life:
            self.prepare()
            self._bear(f"alarm {token.alarm!r}", partial(self.node.wake, token, self._clock.now()))

    def _bear(self, what: str, enter: Callable[[], list[Effect]]) -> None:
        try:
            effects = enter()
        except Exception as error:
            self._tell(what, error)
            effects = self.node.call(_nothing, self._clock.now())
        self._carry_out(effects)

    def _tell(self, what: str, error: Exception) -> None:
        if self._on_fault is None:
            raise error
        self.faults += 1
        self._on_fault(what, error)

    def _carry_out(self, effects: list[Effect]) -> None:
        self._later.append(effects)
        if not self._busy:
            self._do_all(())

    def _do_all(self, effects: Iterable[Effect]) -> None:
        """Do these at once, and then what has come meanwhile."""
        self._busy = True
        try:
            for effect in effects:
                self._do(effect)
            while self._later:
                self._hand_on(self._later.popleft())
        finally:
            self._busy = False

    def _hand_on(self, effects: list[Effect]) -> None:
        stores: list[Store] = []
        for effect in effects:
            if isinstance(effect, Store):
                stores.append(effect)
                continue
            if stores:
                self._store(stores)
                stores = []
            if self._waiting is None:
                self._do(effect)
            else:
                self._waiting.append(effect)
        if stores:
            self._store(stores)

    def _store(self, stores: list[Store]) -> None:
        """Have values written; what comes from now on waits for them."""
        if self._disk is not None:
            waiting = self._waiting = []
            self._disk.write(stores, partial(self._stored, waiting, self._life))

    def _stored(self, waiting: list[Effect], life: int) -> None:
        """Values are safe: do what waited for them."""
        if not self.runs or life != self._life:
            return
        if self._waiting is waiting:
            self._waiting = None
        self._do_all(waiting)

    def _do(self, effect: Effect) -> None:
        if isinstance(effect, Send):
            self._send(effect)
        elif isinstance(effect, Deliver):
            self._deliver(effect)
        elif isinstance(effect, Wake):
            self._clock.after(effect.after, partial(self._ring, effect.token, self._life))
        elif isinstance(effect, Acknowledge):
            self._acknowledge(effect)

    def _send(self, effect: Send) -> None:
        try:
            self._carrier.send(effect.to, effect.message)
        except Exception as error:
            self._tell(f"sending {type(effect.message).__name__} to node {effect.to}", error)

    def _deliver(self, effect: Deliver) -> None:
        try:
            self._on_delivery(effect.item)
        except Exception as error:
            self._tell("what the client did with a delivery", error)

    def _acknowledge(self, effect: Acknowledge) -> None:
        try:
            if self._on_acknowledgement is not None:
                self._on_acknowledgement(effect.what)
        except Exception as error:
            self._tell("what the client did with an acknowledgement", error)


def _nothing() -> None:
    """No action: calling a node with it takes the effects that an exception left behind."""
