"""The events that come to a node: each once and in the order of the root, none left out.

Rules:

- With an event comes the number of the one before it on this link. One that comes before its turn waits.
- A link that was there before all of the interest was asked for on it (`since` above `start`) has left out
  events that an earlier parent may have granted: up to there, nothing but a fetch moves the position.
- What is missing is fetched: from the parent if that has it, else from a node further up. The root has
  everything, as long as its room lasts; what was forgotten even there is counted. It comes in parts where it
  is much, so that no message is longer than nodes take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from distributary.overlay.node import Address
from distributary.overlay.tree.children import Children
from distributary.overlay.tree.event_log import MOST_TOGETHER, NumberedEvent, NumberedRun
from distributary.overlay.tree.link import EarlyEvent
from distributary.overlay.tree.messages import EventFetch, EventFetchReply, ForwardedEvents, RootTerm
from distributary.overlay.tree.state import TreeState
from distributary.overlay.tree.upstream import UpstreamInterest
from distributary.overlay.wire import event_size


class EventReception:
    """Puts the events that come in order, fetches missing ones, and hands them to clients and children."""

    def __init__(self, state: TreeState, upstream: UpstreamInterest, children: Children) -> None:
        self._node, self._root, self._link, self._log = state.node, state.root, state.link, state.log
        self._upstream, self._children = upstream, children
        self.listeners: list[Callable[[NumberedRun], None]] = []
        """Called with all events, each once and in the order of the root, as many as come together."""
        self._early: dict[int, EarlyEvent] = {}
        self._gap = 0
        """Events up to this number are known to be missing, unless the position is above it."""
        self._unsure = 0
        """Up to this number what comes over the link may not be all that was asked for."""
        self._fetching: float | None = None
        """When something was last fetched that has not come."""

    @property
    def complete(self) -> bool:
        """Whether nothing is known to be missing."""
        return self._gap <= self._log.position

    # Beginnings.

    def begin_link(self, early: dict[int, EarlyEvent]) -> None:
        """Events come from another parent now; these have come already."""
        self._early = early
        self._fetching = None

    def begin_epoch(self, term: RootTerm, start: int) -> None:
        """Begin another epoch: at a number of it, or as far as the epochs before have the same log."""
        log, epoch = self._log, term.epoch
        if log.epoch < 0:
            log.begin(epoch, start)
        else:
            log.fork(epoch, term.place_of(log.epoch, log.position))
        self._gap = self._unsure = 0
        self._early = {number: each for number, each in self._early.items() if each.epoch == epoch}

    def forget_early(self) -> None:
        """Drop what came before its turn: this node is the root now, and nothing comes from a parent."""
        self._early.clear()
        self._unsure = 0

    def forget_gap(self) -> None:
        """As `forget_early`, where nobody has what is missing."""
        self.forget_early()
        self._gap = 0

    # What comes.

    def take(self, events: Sequence[NumberedEvent]) -> None:
        """Hand the next events, at least one, to the clients, and to the children who asked for them."""
        run = NumberedRun.of(events)
        self._log.take(run)
        for listener in self.listeners:
            listener(run)
        self._children.forward(run)

    def receive(self, message: ForwardedEvents) -> bool:
        """Take events from the parent, or keep them until their turn; whether any was new."""
        position = self._log.position
        if message.epoch != self._log.epoch or message.numbers[-1] <= position:
            return False
        if not self._early and message.after <= position and position >= self._unsure:
            self.take(NumberedRun(message.numbers, message.events).after(position))
        else:
            self._early.update(early_events(message))
            self.drain()
        return True

    def drain(self) -> None:
        """Take those that have come early and whose turn it is now."""
        position = self._log.position
        if not self._early or position < self._unsure:
            return
        next_ones: list[NumberedEvent] = []
        for number in sorted(self._early):
            early = self._early[number]
            if number > position:
                if early.after > position:
                    break
                next_ones.append((number, early.event))
                position = number
            del self._early[number]
        if next_ones:
            self.take(next_ones)

    def skip(self, after: int, position: int) -> bool:
        """Move on to a position, if nothing is missing before `after`; otherwise fetch that."""
        up_to_date = max(after, self._unsure) <= self._log.position
        if up_to_date:
            self._log.skip_to(position)
            self.drain()
        else:
            self.need(after)
        return up_to_date

    # What is missing.

    def fetch_up_to(self, number: int) -> None:
        """Trust the link only above this number; fetch what lies before it."""
        self._unsure = max(self._unsure, number)
        self.need(number)

    def need(self, through: int) -> None:
        """Fetch what is missing up to a number, unless something is being fetched."""
        self._gap = max(self._gap, through)
        if self._fetching is None:
            self._fetch()

    def fetch_again(self, after: float) -> None:
        """Fetch what is missing, unless that was tried in the last `after` seconds."""
        if self._fetching is None or self._node.now - self._fetching > after:
            self._fetch()

    def _fetch(self) -> None:
        link, log, upstream = self._link, self._log, self._upstream
        if not self.complete and link.parent is not None and link.attached:
            self._fetching = self._node.now
            asked = (upstream.version, log.epoch, log.position, self._gap, upstream.interest)
            self._node.send(link.parent, EventFetch(self._node.address, *asked))

    def serve_fetch(self, message: EventFetch, sender: Address) -> None:
        """Answer a fetch if everything asked for is here; otherwise pass it on upwards.

        Where the events are many bytes, the first part of them is the answer, and the node fetches the rest.
        """
        log, is_root, root = self._log, self._root.is_root, self._root.address
        node, version, epoch, after, through, interest = message
        if epoch != log.epoch:
            return
        if is_root or log.answers(interest, after, through):
            found, missing = log.between(interest, after, through), log.forgotten(after)
            part = first_part(found)
            if len(part) < len(found):
                through = part[-1][0]
            self._node.send(node, EventFetchReply(version, epoch, after, through, part, missing))
        elif self._link.parent is not None:
            self._node.send(self._link.parent, message)
        elif root is not None:
            self._node.send(root, message)

    def take_fetched(self, message: EventFetchReply) -> bool:
        """Take what was fetched, as far as it is still missing; whether it belongs to this epoch."""
        log = self._log
        if self._root.is_root or message.epoch != log.epoch:
            return False
        self._fetching = None
        if message.version == self._upstream.version and message.after <= log.position < message.through:
            self._log.missing += message.missing
            missed = [each for each in message.events if each[0] > log.position]
            if missed:
                self.take(missed)
            log.skip_to(message.through)
        self.drain()
        return True


def early_events(message: ForwardedEvents) -> dict[int, EarlyEvent]:
    """The events of a message by their numbers, each with the one before it."""
    befores = (message.after, *message.numbers)
    return {
        number: EarlyEvent(message.epoch, after, event)
        for number, after, event in zip(message.numbers, befores, message.events, strict=False)
    }


def first_part(events: tuple[NumberedEvent, ...]) -> tuple[NumberedEvent, ...]:
    """As many of the first events as a reply may carry, and one at least."""
    size = 0
    for place, (_, event) in enumerate(events):
        size += event_size(event)
        if size > MOST_TOGETHER and place:
            return events[:place]
    return events


class LowerParts(NamedTuple):
    """The parts of a node that those which change the tree work with: its parent's and the root's."""

    state: TreeState
    upstream: UpstreamInterest
    children: Children
    events: EventReception
