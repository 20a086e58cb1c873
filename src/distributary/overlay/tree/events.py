"""The events that come to a node of a tree: each once and in the order of the root, none left out.

Rules:

- With an event comes the number of the one before it on this link. One that comes before its turn waits.
- A link that was there before all of the interest was asked for on it (`since` above `start`) has left out
  events that an earlier parent may have granted: up to there, nothing but a fetch moves the position.
- What is missing is fetched: from the parent if that has it, else from somebody further up. The root has
  everything, as long as its room lasts; what was forgotten even there is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from distributary.model import Event
from distributary.overlay.node import Address
from distributary.overlay.tree.messages import (
    DetachNotice,
    EventFetch,
    EventFetchReply,
    ForwardedEvent,
    Heartbeat,
)
from distributary.overlay.tree.stream import EventLog

if TYPE_CHECKING:
    from distributary.overlay.tree.tree import TreeNode


class Events:
    """The stream as it comes in."""

    def __init__(self, tree: TreeNode) -> None:
        self.tree = tree
        self.stream = EventLog(tree.shape.room)
        self.fetches = 0
        self.missing = 0
        """How often something asked for had been forgotten everywhere, for want of room or of a root."""
        self._listeners: list[Callable[[Event], None]] = []
        self._early: dict[int, ForwardedEvent] = {}
        self._gap = 0
        """Events up to this number are known to be missing, unless the position is above it."""
        self._unsure = 0
        """Up to this number what comes over the link may not be all that was asked for."""
        self._fetching: float | None = None
        """When something was last asked for that has not come."""
        handle = tree.node.handle
        handle(ForwardedEvent, self._forwarded)
        handle(Heartbeat, self._beat)
        handle(EventFetch, self._fetch_asked)
        handle(EventFetchReply, self._fetched)

    def listen(self, listener: Callable[[Event], None]) -> None:
        self._listeners.append(listener)

    @property
    def complete(self) -> bool:
        """Whether nothing is known to be missing."""
        return self._gap <= self.stream.position

    # Beginnings.

    def begin_link(self, early: dict[int, ForwardedEvent]) -> None:
        """Events come from another parent now; these have come already."""
        self._early = early
        self._fetching = None

    def enter(self, epoch: float, start: int) -> None:
        """Begin another epoch at a number of it."""
        self.missing += not self.complete
        self.stream.begin(epoch, start)
        self._gap = self._unsure = 0
        self._early = {number: each for number, each in self._early.items() if each.epoch == epoch}

    def forget_early(self) -> None:
        self._early.clear()
        self._unsure = 0

    def forget_gap(self) -> None:
        self.forget_early()
        self._gap = 0

    # What comes.

    def take(self, number: int, event: Event) -> None:
        """The next event: to the clients and to the children who asked for it."""
        self.stream.take(number, event)
        for listener in self._listeners:
            listener(event)
        self.tree.downward.forward(number, event)

    def _forwarded(self, message: ForwardedEvent, sender: Address) -> None:
        upward = self.tree.upward
        if upward.hears(sender, message.link):
            upward.heard = self.tree.node.now
            if message.epoch == self.stream.epoch and message.number > self.stream.position:
                self._early[message.number] = message
                self.drain()
                self.need(message.after)
        elif upward.move is not None and upward.awaits(sender, message.link):
            upward.move.early[message.number] = message
        else:
            self._disown(sender, message.link)

    def _disown(self, sender: Address, link: int) -> None:
        """Somebody takes this node for a child that it is not, or not by this link."""
        if self.tree.shape.beat is not None:
            self.tree.node.send(sender, DetachNotice(link))

    def drain(self) -> None:
        """Take those that have come early and whose turn it is now."""
        stream = self.stream
        while self._early and stream.position >= self._unsure:
            number = min(self._early)
            message = self._early[number]
            if number > stream.position:
                if message.after > stream.position:
                    break
                self.take(number, message.event)
            del self._early[number]
        self.tree.upward.switch_when_reached()

    def _beat(self, message: Heartbeat, sender: Address) -> None:
        tree, upward = self.tree, self.tree.upward
        tree.belief.hear_of(message.reign, sender)
        if tree.is_root or not upward.hears(sender, message.link):
            if not upward.awaits(sender, message.link):
                self._disown(sender, message.link)
            return
        upward.heard, upward.linked = tree.node.now, True
        upward.above, tree.succession.heirs = message.above, message.heirs
        if message.epoch != self.stream.epoch:
            return
        if max(message.after, self._unsure) <= self.stream.position:
            self.stream.skip_to(message.position)
            self.drain()
        else:
            self.need(message.after)

    # What is missing.

    def fetch_up_to(self, number: int) -> None:
        """Trust the link only above this number; fetch what lies before it."""
        self._unsure = max(self._unsure, number)
        self.need(number)

    def need(self, through: int) -> None:
        self._gap = max(self._gap, through)
        if not self.complete:
            self._fetch(again_after=None)

    def fetch_again(self, after: float) -> None:
        """Ask again for what was asked for so long ago and has not come."""
        if not self.complete:
            self._fetch(again_after=after)

    def _fetch(self, again_after: float | None) -> None:
        """Ask for what is missing, unless that was asked for lately."""
        tree, now = self.tree, self.tree.node.now
        waited = self._fetching is not None and again_after is not None and now - self._fetching > again_after
        if self._fetching is not None and not waited:
            return
        if tree.parent is not None and tree.upward.linked:
            self.fetches += 1
            self._fetching = now
            epoch, position = self.stream.epoch, self.stream.position
            message = EventFetch(tree.address, tree.version, epoch, position, self._gap, tree.interest)
            tree.node.send(tree.parent, message)

    def _fetch_asked(self, message: EventFetch, sender: Address) -> None:
        tree, stream, root = self.tree, self.stream, self.tree.belief.root
        _, version, epoch, after, through, interest = message
        if epoch != stream.epoch:
            return
        if tree.is_root or stream.answers(interest, after, through):
            found = stream.between(interest, after, through)
            missing = stream.forgotten(after)
            tree.node.send(message.node, EventFetchReply(version, epoch, after, through, found, missing))
        elif tree.parent is not None:
            tree.node.send(tree.parent, message)
        elif root is not None:
            tree.node.send(root, message)

    def _fetched(self, message: EventFetchReply, sender: Address) -> None:
        stream = self.stream
        if self.tree.is_root or message.epoch != stream.epoch:
            return
        self._fetching = None
        if message.version == self.tree.version and message.after <= stream.position < message.through:
            self.missing += message.missing
            for number, event in message.events:
                if number > stream.position:
                    self.take(number, event)
            stream.skip_to(message.through)
        self.drain()
        self.need(self._gap)
