"""Copies what other brokers retain to a broker that has joined their network later.

Rules:

- A broker is *whole* when it has what was retained before it joined: at once where it founded the network,
  else when a whole broker has given it all that it retains. That is kept on its disk.
- It asks one broker after another, those that it is linked to first, and those that they name where they
  retain nothing. Who does not answer in time is passed over; after some rounds it goes on without.
- It asks when its own subscription to retained messages is in force, and says up to where the network's log
  had come then (`since`). A broker answers when it has come at least as far: so what its answer does not have
  is given to the asking broker as it is published, and nothing falls between.
- Answers come in batches, in the order of topics; each is asked for with the last topic of the one before,
  and says what is retained of the topics up to its own last one. So whoever answers need remember nothing;
  all of its answers must be those of a whole broker.
- Nothing here waits or knows a socket: `tick` is called now and then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from distributary.edge.stored import StoredRetained
from distributary.live.peers import PeerAnswer, PeerRoom
from distributary.model import Offset
from distributary.overlay.node import Address

ABOUT = "mqtt.retained"
MOST_TOGETHER, MOST_BYTES = 500, 1 << 20
"""Messages of a batch, and bytes of their topics and payloads after which no more are put into it."""
PATIENCE = 2.0
"""Seconds in which an answer must have come."""
FIRST_PAUSE, LONGEST_PAUSE, ROUNDS = 0.5, 30.0, 10
"""Seconds until all are asked again, and how often."""
MOST_ASKED = 64
"""Brokers that are asked in a round."""
PLACE_PATIENCE = 10.0
"""Seconds for which a place in the log is waited for; beyond that there is no log."""


class RetainedRequest(NamedTuple):
    """What do you retain of the topics after this one?"""

    after: str
    since: Offset | None
    """How far you must have come to answer; None where there is no log."""


class RetainedReply(NamedTuple):
    """What is retained of some topics."""

    messages: tuple[StoredRetained, ...]
    through: str | None
    """The last topic that the answer speaks of; None if that is all."""
    whole: bool
    """Whether the broker has all that was retained before it joined, too."""
    ready: bool = True
    """Whether the broker had come as far as it was asked to; else the answer is of nothing."""


class SortedTopics:
    """The topics that a broker retains, in order, as they were at a place of the log: for its answers."""

    def __init__(self) -> None:
        self._topics: list[str] = []
        self._reached: Offset | None = None
        self._known = False

    def after(
        self, topic: str, since: Offset | None, reached: Offset | None, retained: Callable[[], list[str]]
    ) -> list[str]:
        """Topics after one, of all that are `retained` where those of before are not as late as asked."""
        late = since is None or (self._reached is not None and self._reached >= since)
        if not self._known or not topic or not late:
            self._topics, self._reached, self._known = sorted(retained()), reached, True
        first = bisect_right(self._topics, topic)
        return self._topics[first : first + MOST_TOGETHER + 1]

    def forget(self) -> None:
        """Have them no longer."""
        self._topics, self._known = [], False


class RetainedCopy:
    """Asks other brokers for what they retain, until one that is whole has given all of it."""

    def __init__(
        self,
        peers: PeerRoom,
        now: Callable[[], float],
        since: Callable[[], Offset | None],
        merge: Callable[[RetainedReply], None],
        done: Callable[[bool], None],
    ) -> None:
        self._peers, self._now, self._since = peers, now, since
        self._merge, self._done = merge, done
        self.running = False
        self._begun = self._until = 0.0
        """When it began; until when nothing is done, unless an answer comes."""
        self._pause, self._rounds = FIRST_PAUSE, 0
        self._waiting: deque[Address] = deque()
        """Those who are to be asked in this round; the first of them is being asked, if anybody is."""
        self._named: set[Address] = set()
        self._asking: str | None = None
        """The topic after which the first one is asked; None while nobody is."""
        self._in_doubt = False
        """Whether somebody of this round did not answer, or is not whole."""
        self._partly = False
        """Whether who is asked was not whole with one of its answers: it has become so since, perhaps."""

    def begin(self) -> None:
        """Begin to ask, from the start."""
        self.running = True
        self._begun = self._until = self._now()
        self._pause, self._rounds, self._asking, self._in_doubt = FIRST_PAUSE, 0, None, False
        self._waiting.clear()
        self._named.clear()

    def tick(self) -> None:
        """Go on, if nothing is waited for."""
        if not self.running or self._now() < self._until:
            return
        if self._since() is None and self._now() < self._begun + PLACE_PATIENCE:
            return
        if self._asking is not None:  # the answer is late
            self._leave_first(in_doubt=True)
        if not self._waiting:
            self._call_all(self._peers.linked)
        if self._waiting:
            self._ask("")
        else:
            self._wait_for_next_round(in_doubt=True)

    def _call_all(self, peers: list[Address]) -> None:
        new = [each for each in peers if each not in self._named][: MOST_ASKED - len(self._named)]
        self._named.update(new)
        self._waiting += new

    def _ask(self, after: str) -> None:
        self._asking, self._until = after, self._now() + PATIENCE
        self._partly &= bool(after)
        self._peers.ask(self._waiting[0], ABOUT, RetainedRequest(after, self._since()), self._told)

    def _told(self, answer: PeerAnswer) -> None:
        """Whoever was asked has answered."""
        reply = answer.what
        if not self.running or self._asking is None:
            return
        if not isinstance(reply, RetainedReply):
            self._call_all(list(answer.linked))
            self._leave_first(in_doubt=False)
        elif not reply.ready:  # the same is asked again a little later
            self._asking, self._until = None, self._now() + FIRST_PAUSE
            self._rounds += 1
            self._end_if_tired()
            return
        else:
            self._merge(reply)
            self._partly |= not reply.whole
            if reply.through is not None:
                self._ask(reply.through)
                return
            if not self._partly:
                self._end(complete=True)
                return
            self._leave_first(in_doubt=True)
        if self._waiting:
            self._ask("")
        else:
            self._wait_for_next_round()

    def _leave_first(self, *, in_doubt: bool) -> None:
        self._waiting.popleft()
        self._asking = None
        self._in_doubt |= in_doubt

    def _wait_for_next_round(self, *, in_doubt: bool = False) -> None:
        """All were asked: it is done if nobody retains anything; else they are asked again later."""
        if not (self._in_doubt or in_doubt):
            self._end(complete=True)
            return
        self._rounds += 1
        self._until = self._now() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        self._in_doubt = False
        self._named.clear()
        self._end_if_tired()

    def _end_if_tired(self) -> None:
        if self._rounds >= ROUNDS:
            self._end(complete=False)

    def _end(self, *, complete: bool) -> None:
        self.running, self._asking = False, None
        self._done(complete)
