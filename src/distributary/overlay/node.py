"""A node of an overlay: a state machine that touches no socket, no clock and no global random source.

Rules:

- Whoever runs a node (the simulator, or a runner with sockets) drives it through four entries, `start`,
  `receive`, `wake` and `call`, one at a time. Each returns the effects that the node wants, in order:
  messages to send, alarms to be woken by, items to hand to its clients, values to keep on its disk, clients'
  requests that are done. Nothing else leaves a node.
- What follows a `Store` may depend on it: whoever runs the node holds back every later effect, of this entry
  and of those after it, until the value is safe. A node that starts again with its disk is made anew and
  given what was stored (`Broker.restore`); all else that it knew is gone.
- A node reads the time as `now`, which is what its driver said at the last entry.
- A node is put together from layers. A layer is a plain object that keeps the node it lives on, registers
  one handler for each of its message types and alarms, and calls `send`, `wake_after` and `deliver`.
- A message is immutable (a NamedTuple or a frozen dataclass) and holds only plain values, other messages,
  events and subscriptions, so that it can be measured, written to a trace, and put on a wire.
- Messages may be lost, repeated, overtaken and late: a handler must not assume more than its layer secures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from distributary.model import DeliveryBatch, Event, EventKey, SubscriptionKey

Address = int
"""Names a node in its overlay; on a ring it is the node's identifier. Where that is on a network is the
business of whoever carries the messages."""

Message = Any
"""A NamedTuple or a frozen dataclass; its class is its kind."""

SendMessage = Callable[[Address, Message], None]
"""Sends a message to a node: `Node.send`, or a courier's."""

M = TypeVar("M")


class Token(NamedTuple):
    """What an alarm was set for: the name that its layer registered, and whatever it needs to remember."""

    alarm: str
    about: Any = None


class Send(NamedTuple):
    """Send a message to a node; it may get lost."""

    to: Address
    message: Message


class Wake(NamedTuple):
    """Wake this node with the token after so many seconds."""

    after: float
    token: Token


class Deliver(NamedTuple):
    """Hand an item to the clients of this node."""

    item: Any

    @property
    def items(self) -> list[Any]:
        """The item, or one after the other where it is a batch of deliveries."""
        return self.item.deliveries if isinstance(self.item, DeliveryBatch) else [self.item]


class Store(NamedTuple):
    """Keep a value on this node's disk under a name; None removes what is there."""

    name: str
    value: Message | None


class RegistrationKey(NamedTuple):
    """What a client asks a query network to register or withdraw, by its name."""

    what: Literal["source", "query", "withdrawal"]
    name: str


RequestKey = EventKey | SubscriptionKey | RegistrationKey
"""What a client waits for."""


class SafeEvents(NamedTuple):
    """All that was published at a node up to a number, which `Broker.publish_all` gave."""

    through: int
    events: Sequence[Event]
    """Those that were not told to be safe before, in order."""


class Acknowledge(NamedTuple):
    """Tell the clients who asked for it that this is done: events are safe, or a subscription in force."""

    what: RequestKey | SafeEvents

    @property
    def keys(self) -> list[RequestKey]:
        """What that is known by."""
        if isinstance(self.what, SafeEvents):
            return [event.key for event in self.what.events]
        return [self.what]


Effect = Send | Wake | Deliver | Store | Acknowledge

_new_tuple = tuple.__new__
"""Makes an effect in half the time of calling its class, which takes keywords too."""


class Node:
    """Where layers meet: routes what comes in to their handlers and gathers what they want done.

    >>> class Ping(NamedTuple): pass
    >>> class Pong(NamedTuple): pass
    >>> node = Node(7)
    >>> node.handle(Ping, lambda message, sender: node.send(sender, Pong()))
    >>> node.receive(Ping(), 3, now=0.5)
    [Send(to=3, message=Pong())]
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self.now = 0.0
        self._effects: list[Effect] = []
        self._handlers: dict[type, Callable[[Any, Address], None]] = {}
        self._alarms: dict[str, Callable[[Any], None]] = {}
        self._starters: list[Callable[[], None]] = []

    # What its driver calls.

    def start(self, now: float) -> list[Effect]:
        """Begin, or begin again after a crash that left the state: alarms set before are gone."""
        self.now = now
        for starter in self._starters:
            starter()
        return self._take()

    def receive(self, message: Message, sender: Address, now: float) -> list[Effect]:
        """Handle a message; KeyError for a class that no layer handles."""
        self.now = now
        # `dispatch` and `_take` written out: every message of a simulation comes this way.
        self._handlers[type(message)](message, sender)
        effects = self._effects
        if not effects:
            return []
        self._effects = []
        return effects

    def wake(self, token: Token, now: float) -> list[Effect]:
        """Handle an alarm that is due."""
        self.now = now
        self._alarms[token.alarm](token.about)
        return self._take()

    def call(self, action: Callable[[], None], now: float) -> list[Effect]:
        """Do what a client of this node asks for: `node.call(lambda: layer.publish(event), now)`."""
        self.now = now
        action()
        return self._take()

    def _take(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    # What its layers call.

    def handle(self, kind: type[M], handler: Callable[[M, Address], None]) -> None:
        """Have every message of this class given to the handler, with its sender."""
        if kind in self._handlers:
            raise ValueError(f"{kind.__name__} has a handler already")
        self._handlers[kind] = handler

    def at_alarm(self, alarm: str, handler: Callable[[Any], None]) -> None:
        """Have the handler called with what a token is about when its alarm is due."""
        if alarm in self._alarms:
            raise ValueError(f"{alarm} has a handler already")
        self._alarms[alarm] = handler

    def at_start(self, starter: Callable[[], None]) -> None:
        """Have this called, in the order of registration, whenever the node starts."""
        self._starters.append(starter)

    def dispatch(self, message: Message, sender: Address) -> None:
        """Give a message to its handler: one that came inside another, or is to be handled once more."""
        self._handlers[type(message)](message, sender)

    def send(self, to: Address, message: Message) -> None:
        """Have a message sent."""
        self._effects.append(_new_tuple(Send, (to, message)))

    def wake_after(self, seconds: float, alarm: str, about: Any = None) -> None:
        """Set an alarm; its handler is called with `about`."""
        self._effects.append(Wake(seconds, Token(alarm, about)))

    def deliver(self, item: Any) -> None:
        """Have an item handed to the clients of this node."""
        self._effects.append(_new_tuple(Deliver, (item,)))

    def store(self, name: str, value: Message | None) -> None:
        """Have a value kept on this node's disk, or removed with None; what is wanted later waits for it."""
        self._effects.append(Store(name, value))

    def acknowledge(self, what: RequestKey | SafeEvents) -> None:
        """Have the clients who asked for it told that events are safe, or that a subscription is in force."""
        self._effects.append(Acknowledge(what))
