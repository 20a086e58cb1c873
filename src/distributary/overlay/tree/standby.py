"""The root's log on two disks: the root's own, and that of one of its children, the standby.

Rules:

- The root numbers events and keeps them, on its disk, until the standby has them on its own. Only then is an
  event *committed*: forwarded, delivered and acknowledged. So whoever has an event of some number has the one
  that the standby has, and a standby that takes over goes on with the same log.
- The standby is sent every event, in order, and says how far it has come. What it has not said to have is
  sent again after a while. Whenever all of the log is sent, that is another copy with a stamp of its own:
  what belongs to an earlier one and comes late changes nothing. What a standby has of the same epoch it keeps
  meanwhile, and would go on with all of it: only what the root has otherwise is replaced.
- When the standby is gone the root proposes another child, in a new epoch: the one before may take over in
  this one, and what both would commit then must not be mixed up. The epoch begins when that child has all
  that is committed; a root that reaches nobody stays in the old one, and gives way to the standby.
- While there is no standby, nothing is committed. A root that knew of no other node but the standby goes on
  alone, in a new epoch, after the time of an election; one of a larger tree waits for the others, also when
  it has started again and reaches nobody.
- A root that has never had a standby is alone in its network, and commits by itself.
- Both keep the latest `room` events.

On disk: a `RoleRecord` under `role`, and the log (`log_records`).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain

from distributary.model import Event
from distributary.overlay.node import Address
from distributary.overlay.packed_events import frozen
from distributary.overlay.tree.event_log import KeptEvents, NumberedEvent, NumberedRun, divided
from distributary.overlay.tree.events import LowerParts
from distributary.overlay.tree.log_records import LogRecords
from distributary.overlay.tree.messages import CopyReceipt, LogCopies, RoleRecord, RootTerm
from distributary.overlay.tree.state import TreeState

MOST_UNCOMMITTED = 20_000
"""Events that wait for the standby, beyond which the root takes no more."""
NOTHING = -1
"""How far a standby has come that has no log at all."""
ROLE = "role"
"""The name of the role on disk."""


class StandbyLog:
    """The copy of the root's log that a standby keeps."""

    def __init__(self, state: TreeState, records: LogRecords) -> None:
        self._node, self._root, self._records = state.node, state.root, records
        self.term: RootTerm | None = None
        """The term that the copy belongs to; None if there is none."""
        self._stamp = 0
        self._kept = KeptEvents(state.settings.room, state.settings.room_bytes)
        self._confirmed = 0
        """Up to this number the root has sent what is here since it began to send its log."""

    @property
    def floor(self) -> int:
        """The copy begins after this number."""
        return self._kept.floor

    @property
    def position(self) -> int:
        """The copy has everything up to this number."""
        return self._kept.last

    def restore(self, role: RoleRecord, events: Sequence[NumberedEvent]) -> None:
        """Take up a copy that was on disk."""
        self.term = role.term
        self._kept.begin(events[0][0] - 1 if events else role.floor)
        self._kept.extend(events)
        self._confirmed = self.position

    def receive(self, message: LogCopies, sender: Address) -> None:
        """Keep what the root of the latest term sends, and say how far it goes; ignore any other root."""
        term = message.term
        if term != self._root.term or term.root != sender:
            return
        same = self.term is not None and self.term.epoch == term.epoch
        if message.begin and (not same or message.stamp > self._stamp):
            self._begin(message, same)
        elif not same or message.stamp > self._stamp:
            self._node.send(sender, CopyReceipt(term, NOTHING, message.stamp))
            return
        self.term = term
        known = self._confirmed - message.after
        if message.stamp == self._stamp and 0 <= known < len(message.events):
            self._keep(message.events[known:])
        self._node.send(sender, CopyReceipt(term, self._confirmed, self._stamp))

    def _begin(self, message: LogCopies, same: bool) -> None:
        """Begin another copy; what is here stays until it is seen to differ, if it is of the same epoch.

        A root whose numbers do not go as far as what was forgotten here has another log.
        """
        if not same or not message.after <= self.position or message.last < self.floor:
            self.drop()
            self._kept.begin(message.after)
        self._stamp, self._confirmed = message.stamp, max(message.after, self.floor)
        self._node.store(ROLE, RoleRecord(message.term, False, self._node.address, self.floor))

    def serves(self, term: RootTerm | None) -> bool:
        """Whether this is the copy of a term, and has all that was committed before that began."""
        if term is None or self.term != term:
            return False
        begun = term.starts[-1].number if term.starts and term.starts[-1].epoch == term.epoch else 0
        return self.position >= begun

    def drop(self) -> None:
        """Forget the copy: another node is the standby."""
        if self.term is not None:
            self.term = None
            self._node.store(ROLE, None)
            self._records.drop()
            self._kept.begin(self._kept.floor)

    def drop_older(self, term: RootTerm) -> None:
        """Forget a copy of an earlier epoch: this one began with another standby."""
        if self.term is not None and self.term.epoch < term.epoch:
            self.drop()

    def hand_over(self) -> tuple[NumberedEvent, ...]:
        """Have no copy any more, as this node becomes the root: what is on disk is the root's log now."""
        self.term = None
        events = self._kept.after(self._kept.floor)
        self._kept.begin(self._kept.floor)
        return events

    def _keep(self, events: Sequence[Event]) -> None:
        """Keep the events that follow what is confirmed, but for those that are here already."""
        after = self._confirmed
        self._confirmed += len(events)
        if after < self.position:
            known = self._compare(after, events)
            after, events = after + known, events[known:]
        if events and after == self.position:
            self._records.keep(after, events)
            self._kept.extend(NumberedRun(range(after + 1, after + 1 + len(events)), events))
            self._records.forget(self._kept.floor)

    def _compare(self, after: int, events: Sequence[Event]) -> int:
        """How many of these are here; what is here in place of the next one is forgotten."""
        alike = 0
        for (_, mine), sent in zip(self._kept.after(after), events, strict=False):
            if mine.key != sent.key:
                self._kept.cut(after + alike)
                self._records.cut(after + alike, self._kept.after(self._kept.floor))
                break
            alike += 1
        return alike


class ReplicatedLog:
    """The root's side: what is not committed yet, and who is the standby."""

    def __init__(self, parts: LowerParts, records: LogRecords) -> None:
        state, _, self._children, self._events = parts
        self._records = records
        self._node, self._settings = state.node, state.settings
        self._root, self._log = state.root, state.log
        self.standby: Address | None = None
        self.committed_listeners: list[Callable[[], None]] = []
        """Called when more of the log is committed."""
        self._uncommitted: deque[NumberedRun] = deque()
        """Events, in the runs in which they were numbered."""
        self._waits = 0
        """How many these are."""
        self._copied = NOTHING
        """The standby has said to have everything up to this number."""
        self._stamp = 0
        """Of the copy that the standby is sent."""
        self._sent = NOTHING
        self._progress = 0.0
        """When the standby has last come further, or was last sent what it had been sent before."""
        self._alone_since: float | None = None
        """Since when there has been no standby, although there was one; None if there is, or never was."""
        self.proposed: RootTerm | None = None
        """The first term of the epoch that begins when the standby has the log; None if it is the present."""
        self._before: Address | None = None
        """The standby before, which may have taken over."""
        self._company = -math.inf
        """When there was last another node in the tree beside the standby."""
        self._has_company = False
        """Whether other nodes beside the standby are there, or were a while ago."""
        self._stored_position = 0

    @property
    def named(self) -> Address | None:
        """The node that would take over now."""
        return self.standby if self.proposed is None and self.standby is not None else self._before

    @property
    def last(self) -> int:
        """The highest number given to an event."""
        return self._uncommitted[-1].numbers[-1] if self._uncommitted else self._log.position

    @property
    def is_alone(self) -> bool:
        """Whether the root has no child, commits by itself, and nothing waits to be committed."""
        had = self.standby is not None or self._alone_since is not None
        return not had and not self._uncommitted and not self._children.addresses

    @property
    def full(self) -> bool:
        """Whether the root should number no more events for now."""
        return self._waits >= MOST_UNCOMMITTED

    def begin_term(
        self,
        *,
        after_another: bool,
        before: RoleRecord | None = None,
        uncommitted: Sequence[NumberedEvent] = (),
    ) -> None:
        """Begin a term as the root; after another root, a standby is needed from the start.

        A root that comes back says what it was before, and what is on its disk and perhaps not committed.
        """
        self._forget_uncommitted()
        self._wait_for(NumberedRun.of(uncommitted))
        self.standby, self.proposed = None, None
        self._before = None if before is None else before.standby
        self._alone_since = self._node.now if after_another else None
        self._has_company = before is not None and before.company
        self._company = self._node.now if self._has_company else -math.inf
        self._records.cut(self.last, (*self._log.all_after(self._log.floor), *uncommitted))
        self._store_role()

    def end_term(self) -> None:
        """Be the root no more: what is not committed is forgotten, and published again by its entries."""
        self.standby = self._alone_since = self.proposed = None
        self._node.store(ROLE, None)
        self._records.drop()
        self._forget_uncommitted()

    @property
    def guarded(self) -> bool:
        """Whether the standby has all that is committed, and would go on with the same log."""
        return self.standby is not None and self.proposed is None and self._copied >= self._log.position

    def retire(self) -> None:
        """Be the root no more, as this node leaves: the log stays on its disk, as if it had been killed."""
        self._forget_uncommitted()
        self.standby = self._alone_since = None

    def _forget_uncommitted(self) -> None:
        self._uncommitted.clear()
        self._waits = 0

    def _wait_for(self, run: NumberedRun) -> None:
        """Have events wait until they are committed."""
        if run:
            self._uncommitted.append(run)
            self._waits += len(run)

    def append(self, events: Sequence[Event]) -> None:
        """Number events, and commit them as soon as the standby has them."""
        after = self.last
        self._wait_for(NumberedRun(range(after + 1, after + 1 + len(events)), frozen(events)))
        if self.standby is not None and self._sent == after:
            self._send_parts(after, events)
        self._records.keep(after, events)
        self._commit()

    def received(self, message: CopyReceipt, sender: Address) -> None:
        """The standby has come this far."""
        if sender != self.standby or message.term != (self.proposed or self._root.term):
            return
        if message.through == NOTHING and message.stamp in (0, self._stamp):
            self._send_all()  # it has lost what it had, or has not got its beginning
        elif message.stamp > self._stamp:
            self._stamp = message.stamp  # by a clock that was ahead of this one
            self._send_all()
        elif message.stamp == self._stamp and message.through > self._copied:
            self._copied, self._progress = message.through, self._node.now
            self._commit()

    def child_gone(self, address: Address) -> None:
        """A child is gone; if it was the standby, there is none now."""
        if address == self.standby:
            if self.proposed is None:
                self._before, self._alone_since = self.standby, self._node.now
            self.standby = self.proposed = None

    @property
    def agreed(self) -> bool:
        """Whether the standby has all that is committed, so that the epoch proposed to it can begin."""
        return self.proposed is not None and self._copied >= self._log.position

    def begin_epoch(self) -> None:
        """The epoch proposed has begun."""
        self.proposed = self._before = self._alone_since = None
        self._store_role()
        self._commit()

    def send_again(self, interval: float) -> None:
        """With every heartbeat: send the standby again what it has not said to have."""
        self._note_state(interval)
        late = self._node.now - self._progress > 2 * interval
        if self.standby is not None and self._copied < self.last and late:
            self._send_all() if self._copied == NOTHING else self._send_from(self._copied)

    def _note_state(self, interval: float) -> None:
        """Note on disk how far the log is committed, and whether there is or was company a while ago."""
        registry = self._root.registry
        if registry is not None and registry.present > 1:
            self._company = self._node.now
        company = self._node.now - self._company <= self._settings.election * interval
        if (company, self._log.position) != (self._has_company, self._stored_position):
            self._has_company = company
            self._store_role()

    def has_waited(self, interval: float) -> bool:
        """Whether the root may go on alone: long without the standby, which was all there was for long."""
        since, patience = self._alone_since, self._settings.election * interval
        if since is None or since - self._company < patience:
            return False
        return self._node.now - since > patience

    @property
    def before(self) -> Address | None:
        """The standby before, which would not need a new epoch."""
        return self._before

    def may_differ(self, standby: Address) -> bool:
        """Whether another node may have taken over if this one is to be the standby now."""
        return self._before not in (None, standby)

    def send_recovered(self, role: RoleRecord, floor: int, events: tuple[NumberedEvent, ...]) -> None:
        """Send the standby of before the log that was on disk, to learn whether it is still one."""
        if role.standby is None:
            return
        recovered = tuple(event for _, event in events)
        if not self._stamp:  # asked again, it is the same copy: it may take longer than that
            self._stamp_copy()
        for start, part in divided(recovered):
            copies = LogCopies(role.term, floor + start, part, not start, self._stamp)
            self._node.send(role.standby, copies._replace(last=floor + len(recovered)))

    def has_recovered(self, role: RoleRecord, message: CopyReceipt, sender: Address, last: int) -> bool:
        """Whether the standby of before has said to have all of the log that was on disk."""
        if sender != role.standby or message.term != role.term:
            return False
        if message.stamp > self._stamp:  # by a clock that was ahead of this one
            self._stamp = message.stamp + 1
        return message.stamp == self._stamp and message.through >= last

    def forget_recovered(self) -> None:
        """Remove from the disk the log of a root that is one no more."""
        self._node.store(ROLE, None)
        self._records.drop()

    def go_alone(self) -> None:
        """Commit without a standby, as the first term of an epoch begins."""
        self._alone_since = self._before = None
        self._store_role()
        self._commit()

    def appoint(self, standby: Address, proposed: RootTerm | None) -> None:
        """Make a child the standby, and send it the log; in a new epoch, if one is proposed."""
        self.standby, self.proposed = standby, proposed
        if proposed is None:
            self._before = self._alone_since = None
            self._store_role()
        self._send_all()

    def _store_role(self) -> None:
        term = self._root.term
        if term is not None:
            self._stored_position = position = self._log.position
            role = RoleRecord(term, True, self.standby, self._log.floor, self._has_company, position)
            self._node.store(ROLE, role)

    def _send_all(self) -> None:
        self._copied = NOTHING
        self._stamp_copy()
        self._send_from(self._log.floor, begin=True)

    def _stamp_copy(self) -> None:
        """Begin another copy."""
        self._stamp = max(self._stamp + 1, int(self._node.now * 1_000_000))

    def _send_from(self, after: int, *, begin: bool = False) -> None:
        """Send the log after a number, in parts that are no longer than nodes take."""
        self._progress = self._node.now
        run: list[Event] = []
        for number, event in chain(self._log.all_after(after), *self._uncommitted):
            if number != after + len(run) + 1:  # the log of a root may have a gap where epochs met
                self._send_parts(after, run, begin=begin)
                after, run, begin = number - 1, [], False
            run.append(event)
        self._send_parts(after, run, begin=begin)

    def _send_parts(self, after: int, events: Sequence[Event], *, begin: bool = False) -> None:
        term = self.proposed or self._root.term
        if self.standby is None or term is None or not (events or begin):
            return
        for start, part in divided(events):
            first = begin and not start
            copies = LogCopies(term, after + start, part, first, self._stamp)
            self._node.send(self.standby, copies._replace(last=self.last) if first else copies)
        self._sent = after + len(events)

    def _commit(self) -> None:
        through = self._log.position
        if self.proposed is None and self.standby is not None:
            through = self._copied
        elif self.standby is None and self._alone_since is None:
            through = self.last
        committed = self._take_up_to(through)
        if not committed:
            return
        self._events.take(NumberedRun.joined(committed))
        self._records.forget(self._log.floor)
        for listener in self.committed_listeners:
            listener()

    def _take_up_to(self, through: int) -> list[NumberedRun]:
        """Have those up to a number wait no more."""
        taken: list[NumberedRun] = []
        while self._uncommitted and self._uncommitted[0].numbers[0] <= through:
            run = self._uncommitted.popleft()
            if run.numbers[-1] > through:
                rest = run.after(through)
                self._uncommitted.appendleft(rest)
                run = run[: len(run) - len(rest)]
            taken.append(run)
            self._waits -= len(run)
        return taken
