"""Who is the root: how the role is handed over, how a failed root is replaced, and how one comes back.

Rules:

- The latest term counts. A root that hears of a later one is an ordinary node from then on.
- A root that leaves tells its standby, which is elected at once (`RootDeparture`): that has all that is
  committed, on its disk. What the root has on its own stays there, as if it had been killed. Where there
  are no heartbeats, and so no standby, it makes a child the root (`RootHandover`) and tells it everything.
- The root tells its children of each other, and which of them is its standby (`standby`). When more than half
  of them have not heard of it for long, the standby becomes the root, and the log goes on. If the standby has
  been silent for as long again, the one with the lowest address does, in a new epoch. With a root of one
  child, that child decides alone. A root that only begins a term, or answers, is not silent.
- A child that has lost the root says so to its own children, and they to theirs: those who were children of
  the root, and went elsewhere before it could tell that, then agree to an election, though they are not
  elected; but for the standby, which is told by the child of the root that the others agree with.
- A root that has lost its standby cannot know whether that has taken over. It goes on with another, or alone
  after a while, in a new epoch (`EpochStart`).
- A root that steps down for one of another epoch publishes again what that one may not have: what it
  committed after the place at which that epoch began. Homes know events by their keys.
- A root that starts again with its disk asks its standby: if that has not become the root, it is the root as
  before, and also if there is no answer for as long as an election takes. Then it needs another standby for
  what it does not know to be committed, and goes on telling the one before and its contacts of its term
  (`estranged`), as they may know of a later one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from distributary.overlay.node import Address, Message
from distributary.overlay.tree import messages
from distributary.overlay.tree.event_log import NumberedEvent
from distributary.overlay.tree.events import LowerParts
from distributary.overlay.tree.intake import Intake
from distributary.overlay.tree.interest import Interest
from distributary.overlay.tree.log_records import LogRecords
from distributary.overlay.tree.outbox import EntryOutbox
from distributary.overlay.tree.parent import ParentProtocol
from distributary.overlay.tree.registry import ParentRegistry
from distributary.overlay.tree.standby import NOTHING, ReplicatedLog, StandbyLog
from distributary.overlay.tree.upstream import NOT_GRANTED

EVERYTHING = Interest(((),))
RETURN = 8.0
"""Heartbeats for which a root that came back waits for its standby before it takes another."""


class RootSuccession:
    """How a node learns of roots, becomes one, and is one no more."""

    def __init__(
        self,
        parts: LowerParts,
        parent: ParentProtocol,
        outbox: EntryOutbox,
        on_elected: Callable[[Address], None] | None,
    ) -> None:
        state, self._upstream, self._children, self._events = parts
        self._node, self._post = state.node, state.post
        self._settings, self._random = state.settings, state.random
        self._root, self._link, self._log = state.root, state.link, state.log
        self._parent, self._outbox, self._on_elected = parent, outbox, on_elected
        self._records = LogRecords(state.node)
        self.standby_log = StandbyLog(state, self._records)
        self.replicated = ReplicatedLog(parts, self._records)
        self.intake = Intake(parts, self.replicated)
        self._heard = -math.inf
        """When the root was last heard of otherwise than as the parent."""
        self._timeouts: dict[Address, float] = {}
        """Other children of the root that have not heard of it for long, and when they said so."""
        self._below: dict[Address, float] = {}
        """Those which were such children and are below one now, and when they agreed."""
        self._warned = -math.inf
        """When the parent, which is not the root, last said that it has not been heard of for long."""
        self._role: messages.RoleRecord | None = None
        """What this node was, by its disk, until it is known whether it is the root again."""
        self._recovered: tuple[NumberedEvent, ...] = ()
        self._recovering_since = 0.0
        self._estranged: Address | None = None
        """The standby of before, as long as this node is the root again and has no other."""
        self._recovered_at = 0.0

    def begin(self, known: Iterable[messages.RegistryEntry] = ()) -> None:
        """Be the root, with a register of what another root knew."""
        registry = ParentRegistry(self._node.address, self._settings.fanout, self._random)
        registry.learn(known)
        self._root.registry = registry

    # Terms.

    def learn(self, term: messages.RootTerm, sender: Address) -> None:
        """Take a later term for the present one; step down as root, and pass the news on."""
        root, before, proposed = self._root, self._root.term, self.replicated.proposed
        if before is not None and term <= before:
            return
        if proposed is not None and term <= proposed:  # which others may know already, and then it counts
            return
        if term.root == self._node.address and self._take_up(term):
            return
        root.term = term
        self._heard = self._node.now
        again = self._step_down(before, term) if root.is_root and before is not None else ()
        if self._role is not None:
            again = self._give_up_recovery(term)
        self._children.announce(term)
        self._parent.ask_again()
        root.send_waiting()
        self._outbox.send_again()
        if again:
            self._outbox.publish([event for _, event in again])

    def _take_up(self, term: messages.RootTerm) -> bool:
        """Take up a later term of this node's own, which it has forgotten; whether it is the root."""
        if self._role is not None:
            self._root.term, self._role = term, self._role._replace(term=term)
        elif self._root.is_root:
            self._begin_forked(term)
        return self._role is not None or self._root.is_root

    def compare(self, term: messages.RootTerm, sender: Address) -> None:
        """Learn a later term, or tell the sender of an earlier one which is the latest."""
        self.learn(term, sender)
        if term == self._root.term and term.root == sender:
            self._heard = self._node.now
        if self._root.term is not None and term < self._root.term:
            self._post(sender, messages.RootAnnouncement(self._root.term))

    def _step_down(self, before: messages.RootTerm, term: messages.RootTerm) -> tuple[NumberedEvent, ...]:
        """Be an ordinary node, which needs a parent; returns what is to be published again."""
        self._root.registry = None
        place = term.place_of(before.epoch, self._log.position)
        again = self._log.all_after(place) if term.epoch != before.epoch else ()
        self.replicated.end_term()
        self._upstream.granted = NOT_GRANTED
        self._upstream.update()
        self._parent.seek(None)
        return again

    # Giving and taking the role.

    def hand_over(self) -> None:
        """Make a child the root; without children there is nobody to take over, nor to miss the root."""
        root, log, successor = self._root, self._log, self._children.successor()
        if root.registry is None or root.term is None or successor is None:
            return
        later = root.term = root.term.continued(successor)
        state = (log.position, log.all_after(0), root.registry.known, self.intake.published, log.floor)
        self._post(successor, messages.RootHandover(later, *state))
        root.registry = None
        self.replicated.end_term()
        self._children.announce(later)

    def depart(self) -> bool:
        """Have the standby be elected in place of this root, which leaves; whether there is one that can."""
        root, standby = self._root, self.replicated.named
        if root.registry is None or root.term is None or standby is None or not self.replicated.guarded:
            return False
        self._post(standby, messages.RootDeparture(root.term))
        root.term = root.term.continued(standby)
        root.registry = None
        self.replicated.retire()
        self._children.announce(root.term)
        return True

    def root_departed(self, message: messages.RootDeparture, sender: Address) -> None:
        """As the standby: the root leaves, or has failed, as the nodes above this one say, too.

        One that is about to leave itself is no root any more either.
        """
        later, me = message.term.continued(self._node.address), self._node.address
        if self._root.term not in (message.term, later) or not self.standby_log.serves(message.term):
            return
        if sender != message.term.root and not self._is_below_lost(message.term):
            return
        if not self._root.is_root and not self._children.leaving:
            others = dict.fromkeys((*self._link.root_children, sender))
            self._be_elected([one for one in others if one not in (me, message.term.root)], later)

    def take_over(self, message: messages.RootHandover, sender: Address) -> None:
        """Become the root in place of one that leaves, with all that it knew; numbers go on."""
        root = self._root
        if root.is_root or (root.term is not None and message.term < root.term):
            return
        self.standby_log.drop()
        self._become_root(message)

    def _become_root(self, state: messages.RootHandover) -> None:
        """Be the root of a term, with the log and all else that is known of what was before."""
        root, log = self._root, self._log
        root.term = term = state.term
        self._parent.abandon()
        position = state.position if log.epoch < 0 else term.place_of(log.epoch, log.position)
        if log.epoch != term.epoch:
            self._children.restart()
        self._link.place(None, 0)
        self._link.root_children = ()
        self._events.forget_gap()
        log.begin(term.epoch, state.floor)
        log.ask(EVERYTHING, state.floor)
        known = [each for each in state.events if each[0] <= position]
        if known:
            log.take(known)
        if len(known) < len(state.events):
            self._events.take(state.events[len(known) :])
        log.skip_to(max(state.position, position))
        self.intake.begin_term(state.published, state.events)
        self._act_as_root(state.known)

    def _act_as_root(
        self,
        known: Iterable[messages.RegistryEntry],
        *,
        alone: bool = False,
        before: messages.RoleRecord | None = None,
        uncommitted: Sequence[NumberedEvent] = (),
    ) -> None:
        self.begin(known)
        self.replicated.begin_term(after_another=not alone, before=before, uncommitted=uncommitted)
        self._upstream.tell_granted()
        self._children.grant_all()
        if self._root.term is not None:
            self._children.announce(self._root.term)
        self._outbox.send_again()
        if self._on_elected is not None:
            self._on_elected(self._node.address)

    # Replacing a root that has failed.

    def check_root(self, interval: float) -> None:
        """As a child of the root: tell the others that it is silent; become the root if enough agree."""
        link, term, me, now = self._link, self._root.term, self._node.address, self._node.now
        silent = now - max(link.heard, self._heard)
        if not link.root_children or silent <= self._settings.election * interval:
            return
        if term is None or link.parent != term.root:
            return
        others = [one for one in link.root_children if one != me]
        for other in others:
            self._node.send(other, messages.RootTimeout(term))
        self._children.warn(messages.RootTimeout(term))
        rivals = [one for one, when in self._timeouts.items() if now - when < 3 * interval]
        agreed = {*rivals, *(one for one, when in self._below.items() if now - when < 3 * interval)}
        if 2 * (len(agreed) + 1) <= len(link.root_children):
            return
        # The root may have failed before it could tell that there is another standby.
        is_known = link.standby_in == term
        if self.standby_log.serves(term):
            self._be_elected(others, term.continued(me))
            return
        if is_known and link.standby not in (None, me):  # it may be a child of the root no more
            self._node.send(link.standby, messages.RootDeparture(term))
        if me < min(rivals, default=me + 1) and (
            (is_known and link.standby in (None, me)) or silent > 2 * self._settings.election * interval
        ):
            self._begin_epoch(others)

    def suspect_root(self, address: Address, silent: float) -> None:
        """Have the root, if it is this node, not been heard of since that time."""
        if self._root.term is not None and address == self._root.term.root:
            self._heard = min(self._heard, silent)

    def standby_named(self, standby: Address | None) -> None:
        """The root says who is its standby: ask for a copy of its log, or forget the one that is here."""
        copy, term = self.standby_log, self._root.term
        if standby == self._node.address and copy.term is None and term is not None:
            self._node.send(term.root, messages.CopyReceipt(term, NOTHING))
        elif standby is not None and standby != self._node.address:
            copy.drop()

    def root_timed_out(self, message: messages.RootTimeout, sender: Address) -> None:
        """Another node has not heard of the same root for long: count it, pass it on downwards, or agree."""
        term, link = self._root.term, self._link
        if term is None or message.term != term or self._root.is_root:
            return
        if link.parent == term.root:
            if sender in link.root_children:
                (self._below if message.below else self._timeouts)[sender] = self._node.now
            return
        if sender == link.parent:
            self._warned = self._node.now
            self._children.warn(messages.RootTimeout(term, True))
        if not message.below and self._is_below_lost(term):
            self._node.send(sender, messages.RootTimeout(term, True))

    def _is_below_lost(self, term: messages.RootTerm) -> bool:
        """Whether this node is no child of the root, and those above it have lost it."""
        recently = self._node.now - 3 * (self._settings.heartbeat or 0.0)
        return self._link.parent != term.root and self._warned > recently

    def _be_elected(self, others: list[Address], term: messages.RootTerm) -> None:
        """As the standby: become the root in place of one that has failed or left; the log goes on."""
        copy = self.standby_log
        position, floor = copy.position, copy.floor
        events = copy.hand_over()
        self._become_root(messages.RootHandover(term, position, events, (), (), floor))
        self._tell(others)

    def _begin_epoch(self, others: list[Address]) -> None:
        """Become the root without its log, in a new epoch: what only the lost root had is lost."""
        before, log = self._root.term, self._log
        if before is None:
            return
        self.standby_log.drop()
        self._parent.abandon()
        self._root.term = before.forked(self._next_epoch(), log.position, self._node.address)
        self._link.place(None, 0)
        self._link.root_children = ()
        self._events.forget_gap()
        known = log.all_after(log.floor)
        log.begin(self._root.term.epoch, log.position)
        log.ask(EVERYTHING, log.position)
        self.intake.begin_term((event.key for _, event in known), ())
        self._children.restart()
        self._act_as_root(())
        self._tell(others)

    def _tell(self, others: list[Address]) -> None:
        """Tell those who elected this node that it is the root."""
        if self._root.term is not None:
            for other in others:
                self._post(other, messages.RootAnnouncement(self._root.term))

    def _next_epoch(self) -> float:
        """A time for a new epoch: later than the one before, even if that began by a clock that is ahead."""
        before, now = self._root.term, self._node.now
        return now if before is None else max(now, math.nextafter(before.epoch, math.inf))

    # As the root: with or without a standby.

    def look_after(self, interval: float) -> None:
        """With every heartbeat: see to the standby, or to whether this node is the root again."""
        if self._role is not None:
            self._ask_standby(self._role, interval)
        elif self._root.is_root and self.replicated.standby is not None:
            self.replicated.send_again(interval)
        elif self._root.is_root:
            self._find_standby(interval)

    def _find_standby(self, interval: float) -> None:
        """Appoint a child, or go on alone when there is none for long; in a new epoch if there was one."""
        before, candidate = self.replicated.before, self._children.successor()
        if self._estranged is not None and self._node.now - self._recovered_at < RETURN * interval:
            candidate = None  # the standby before has answered, and will be a child again soon
        if before is not None and self._children.is_served(before):
            candidate = before
        if candidate is not None:
            differs = self.replicated.may_differ(candidate)
            self.replicated.appoint(candidate, self._forked() if differs else None)
        elif self.replicated.has_waited(interval):
            self._begin_forked(self._forked())
            self.replicated.go_alone()

    def _forked(self) -> messages.RootTerm | None:
        """A term of this node in a new epoch, which goes on with what is committed."""
        term = self._root.term
        return term and term.forked(self._next_epoch(), self._log.position, self._node.address)

    def _begin_forked(self, term: messages.RootTerm | None) -> None:
        """Begin a new epoch: the standby before may have taken over in this one."""
        if term is None:
            return
        self._root.term = term
        self._log.fork(term.epoch, self._log.position)
        self._children.restart()
        self.begin()  # whoever had another root meanwhile tells where it is now
        self._children.grant_all()
        self._children.announce(term)

    # Coming back.

    def restore(self, role: messages.RoleRecord, stored: Mapping[str, Message]) -> set[str]:
        """Take up what was on disk: be the standby again, or find out whether this node is still the root.

        Returns the names of what was taken up.
        """
        events = self._records.restore(stored, role.floor)
        self._root.term = role.term
        if role.is_root:
            self._role, self._recovered = role, events
        else:
            self.standby_log.restore(role, events)
        return self._records.names

    def start_recovery(self) -> None:
        """As the node starts: ask the standby; a root that had none is the root again."""
        role = self._role
        if role is None:
            return
        self._recovering_since = self._node.now
        if role.standby is None:
            self._recover(role.term, certain=True)
        else:
            self._ask_standby(role, math.inf)

    @property
    def estranged(self) -> tuple[Address, ...]:
        """As a root that came back and has no standby since: who may know of a later root."""
        standby = self._estranged
        if standby is None or not self._root.is_root or self.replicated.standby is not None:
            self._estranged = None
            return ()
        return (standby, *self._parent.contacts)

    @property
    def recovering(self) -> bool:
        """Whether this node was the root and does not know yet whether it still is."""
        return self._role is not None

    def _ask_standby(self, role: messages.RoleRecord, interval: float) -> None:
        if self._node.now - self._recovering_since > self._settings.election * interval:
            self._recover(role.term, certain=False)
        elif role.standby is not None:
            floor = self._recovered[0][0] - 1 if self._recovered else role.floor
            self.replicated.send_recovered(role, floor, self._recovered)

    def log_received(self, message: messages.CopyReceipt, sender: Address) -> None:
        """The standby has come this far; while this node comes back: is the root again once it has all."""
        role = self._role
        if role is None:
            self.replicated.received(message, sender)
            if self.replicated.agreed:
                self._begin_forked(self.replicated.proposed)
                self.replicated.begin_epoch()
            return
        last = self._recovered[-1][0] if self._recovered else role.floor
        if self.replicated.has_recovered(role, message, sender, last):
            self._recover(role.term, certain=True)

    def _recover(self, term: messages.RootTerm, *, certain: bool) -> None:
        """Be the root again; if it is certain, all that is on the disk is committed."""
        role, events = self._role, self._recovered
        if role is None:
            return
        self._role, self._recovered = None, ()
        floor = events[0][0] - 1 if events else role.floor
        last = events[-1][0] if events else floor
        position = last if certain else max(floor, min(role.committed, last))
        self._root.term = term
        log = self._log
        log.begin(term.epoch, floor)
        log.ask(EVERYTHING, floor)
        committed = tuple(each for each in events if each[0] <= position)
        if committed:
            log.take(committed)
        log.skip_to(position)
        self.intake.begin_term((), events)
        self._estranged, self._recovered_at = role.standby, self._node.now
        self._act_as_root((), alone=role.standby is None, before=role, uncommitted=events[len(committed) :])

    def _give_up_recovery(self, term: messages.RootTerm) -> tuple[NumberedEvent, ...]:
        """Another node is the root; returns what is to be published again."""
        role, events = self._role, self._recovered
        self._role, self._recovered = None, ()
        again: tuple[NumberedEvent, ...] = ()
        if role is not None and role.term.epoch != term.epoch:
            last = events[-1][0] if events else role.floor
            place = term.place_of(role.term.epoch, last)
            again = tuple(each for each in events if each[0] > place)
        self.replicated.forget_recovered()
        if self._link.parent is None:
            self._parent.seek(None)
        return again
