"""Web feeds over a dissemination tree (003, section 4.6): the root polls, and publishes what is new.

Sources are asked by the root alone, however many clients there are; clients have profiles over items.

Rules:

- Content that a feed has said before is not new, whatever id it comes under, and however often and in however
  many polls it comes. An item under a known id that says something else has been changed: that counts as new,
  unless `changes` is off.
- Polls may overlap, and their answers may overtake each other. Of a document that is older than one taken
  before, only items with unknown ids count: a change in it is out of date.
- A feed that fails (refuses, does not answer in time, sends what is no feed) is reported in its `FeedState`
  and polled again when its turn comes; the others do not notice. Items that cannot be read are counted there.
- Every broker can poll, and the one that is the root does. A new root that was not told what is new publishes
  what the feeds hold; since an item's event is named after its content, no client gets it twice.

Cost: a poll is linear in the document, and that is read only when it is not what it was; of each feed, the
latest document, contents and ids are remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import NamedTuple

from distributary.errors import DistributaryError, DocumentError
from distributary.feeds import FeedItem, ReadFeed, read_feed
from distributary.overlay.node import Address, Node
from distributary.systems.tree.broker import TreeAssembly, TreeBroker

POLL_EVERY = 60.0
"""Seconds between two polls of a feed, unless told otherwise."""
REMEMBERED = 1_000
"""How many contents and ids of each feed are remembered, or as many as its document holds."""


class FeedRequest(NamedTuple):
    """A poll: what does this feed hold?"""

    feed: str
    poll: int


class FeedReply(NamedTuple):
    """The document, or the reason why there is none."""

    feed: str
    poll: int
    document: str | bytes | None
    at: float
    """When the source answered, by its own clock: the order of its documents, whichever comes first."""
    reason: str = ""


class News:
    """What is new of one feed.

    >>> news = News()
    >>> rain, wind = FeedItem("1", "Rain"), FeedItem("2", "Wind")
    >>> [item.title for item in news.take([wind, rain])]
    ['Rain', 'Wind']
    >>> news.take([FeedItem("3", "Wind"), wind, rain])
    []
    >>> [item.title for item in news.take([FeedItem("1", "Heavy rain")])]
    ['Heavy rain']
    """

    def __init__(self, *, changes: bool = True, remembered: int = REMEMBERED) -> None:
        self._changes = changes
        self._remembered = remembered
        self._contents: dict[str, None] = {}
        """Contents, those that were said last at the end."""
        self._ids: dict[str, None] = {}

    def take(self, items: Iterable[FeedItem], *, outdated: bool = False) -> list[FeedItem]:
        """The new ones of a document, the oldest first; documents have the newest first."""
        document = list(items)
        new = []
        for item in reversed(document):
            is_change = item.id in self._ids
            is_said = item.content in self._contents
            self._note(self._ids, item.id)
            if is_change and not is_said and (outdated or not self._changes):
                continue
            new += [] if is_said else [item]
            self._note(self._contents, item.content)
        for memory in (self._contents, self._ids):
            for name in list(memory)[: -max(self._remembered, len(document))]:
                del memory[name]
        return new

    def _note(self, memory: dict[str, None], name: str) -> None:
        """Put a name at the end of a memory."""
        memory.pop(name, None)
        memory[name] = None


@dataclass
class FeedState:
    """How a feed has been doing, as its poller knows it."""

    source: Address
    news: News
    polls: int = 0
    answers: int = 0
    published: int = 0
    failures: int = 0
    failing: str = ""
    """Why the latest poll failed; empty when it did not."""
    rejected: int = 0
    """Items that could not be read; those of a document that stays the same, once."""
    last_rejected: str = ""
    answered: int = -1
    """The latest poll whose answer was taken."""
    latest: float = -inf
    """When, by its source, the latest document was made."""
    document: str | bytes | None = None
    """That document: while it stays the same, it is not read again."""
    open: set[int] = field(default_factory=set)
    """Polls without an answer yet."""


class FeedSource:
    """A node that answers polls; `fetch` gives a feed's document at a moment, or raises DistributaryError."""

    def __init__(self, node: Node, fetch: Callable[[str, float], str | bytes]) -> None:
        self.node = node
        self.asked = 0
        self._fetch = fetch
        node.handle(FeedRequest, self._answer)

    def _answer(self, asked: FeedRequest, sender: Address) -> None:
        self.asked += 1
        document, reason = None, ""
        try:
            document = self._fetch(asked.feed, self.node.now)
        except DistributaryError as error:
            reason = str(error)
        self.node.send(sender, FeedReply(asked.feed, asked.poll, document, self.node.now, reason))


class FeedPoller:
    """Polls feeds and publishes what is new, while its broker is the root.

    `feeds` says which node serves each feed. Their polls are spread evenly over the interval, from the start
    of the node on; what clients ask for after that may miss what was published before. A poll that has
    no answer after `patience` seconds has failed; if the answer comes after all, it is taken.
    """

    def __init__(
        self,
        broker: TreeBroker,
        feeds: Mapping[str, Address],
        *,
        every: float = POLL_EVERY,
        patience: float | None = None,
        changes: bool = True,
    ) -> None:
        if every <= 0:
            raise DistributaryError(f"feeds cannot be polled every {every} seconds; give a time above 0")
        self.broker = broker
        self.feeds = {name: FeedState(source, News(changes=changes)) for name, source in feeds.items()}
        self._every = every
        self._patience = every if patience is None else patience
        node = broker.node
        node.handle(FeedReply, self._answered)
        node.at_alarm("poll feed", self._poll)
        node.at_alarm("poll is late", self._late)
        node.at_start(self._begin)

    @property
    def failing(self) -> dict[str, str]:
        """The feeds whose latest poll failed, and why."""
        return {name: state.failing for name, state in self.feeds.items() if state.failing}

    def _begin(self) -> None:
        for number, name in enumerate(self.feeds, 1):
            self.broker.node.wake_after(self._every * number / len(self.feeds), "poll feed", name)

    def _poll(self, name: str) -> None:
        node, state = self.broker.node, self.feeds[name]
        node.wake_after(self._every, "poll feed", name)
        if not self.broker.tree.is_root:
            return
        state.open.add(state.polls)
        node.send(state.source, FeedRequest(name, state.polls))
        node.wake_after(self._patience, "poll is late", (name, state.polls))
        state.polls += 1

    def _late(self, about: tuple[str, int]) -> None:
        name, poll = about
        if poll in self.feeds[name].open:
            self._fail(self.feeds[name], poll, f"no answer within {self._patience:g} s")

    def _answered(self, answer: FeedReply, sender: Address) -> None:
        state = self.feeds[answer.feed]
        if answer.document is None:
            self._fail(state, answer.poll, answer.reason)
            return
        if answer.document != state.document:
            try:
                read = read_feed(answer.document)
            except DocumentError as error:
                self._fail(state, answer.poll, str(error))
                return
            self._take(answer, state, read)
        state.open.discard(answer.poll)
        state.answers += 1
        state.latest = max(state.latest, answer.at)
        if answer.poll > state.answered:
            state.answered, state.failing = answer.poll, ""

    def _take(self, answer: FeedReply, state: FeedState, read: ReadFeed) -> None:
        outdated = answer.at < state.latest
        if not outdated:
            state.document = answer.document
        state.rejected += len(read.rejected)
        state.last_rejected = read.rejected[-1] if read.rejected else state.last_rejected
        new = state.news.take(read.items, outdated=outdated)
        for item in new:
            self.broker.publish(item.event(answer.feed))
        state.published += len(new)

    def _fail(self, state: FeedState, poll: int, reason: str) -> None:
        state.open.discard(poll)
        state.failures += 1
        if poll > state.answered:
            state.failing = reason


class FeedApplication:
    """Makes the brokers of a tree that carries feeds; each of them can be the root."""

    def __init__(
        self,
        assembly: TreeAssembly,
        feeds: Mapping[str, Address],
        *,
        every: float = POLL_EVERY,
        patience: float | None = None,
        changes: bool = True,
    ) -> None:
        self.assembly = assembly
        self.settle, self.disorder = assembly.settle, assembly.disorder
        self.pollers: dict[Address, FeedPoller] = {}
        self._poller = partial(FeedPoller, feeds=feeds, every=every, patience=patience, changes=changes)

    def __call__(self, address: Address) -> TreeBroker:
        """Make the broker of a node, with a poller that works while it is the root."""
        broker = self.assembly(address)
        self.pollers[address] = self._poller(broker)
        return broker

    @property
    def poller(self) -> FeedPoller:
        """The root's."""
        return self.pollers[self.assembly.root]
