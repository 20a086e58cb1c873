"""How a node gets, keeps and changes its parent: what it sends when, and what it does with what it receives.

Rules (the states of a change of parent are a table in `link`):

- A node that changes its parent asks the root, which forbids loops and too many children, then its new
  parent, and stays with the old one until the new one has granted its interest and the old one's events have
  reached to where the new one's begin. Then it leaves the old one.
- A node whose parent has failed does the same, first with its grandparent, and fetches the difference.
- A node that needs a parent, whichever, takes the one that the root picks at random, or one it chooses
  itself (`choose_by`): the root offers some that have room, the node probes them, and requests the best.
- If it chooses strictly, it takes no parent but those. When none of the offers will do it asks for others;
  when there are none, it waits without a parent (`waiting` says why), tells the root so, and asks again when
  the root says that there may be room, and from time to time. Its children are sent away, to find places of
  their own.
- Only the root of the latest term may grant anything. A new root is told which parent the node has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from distributary.overlay.node import Address
from distributary.overlay.tree import messages
from distributary.overlay.tree.events import LowerParts, early_events
from distributary.overlay.tree.link import ChangeState, ParentTransition
from distributary.overlay.tree.probing import ProbeResults, TreeProber
from distributary.overlay.tree.upstream import NOT_GRANTED

MOST_TRIES = 4
"""How often a node asks a new root to let it stay where it is; then it asks for any parent."""


class ParentProtocol:
    """The link to the parent at work."""

    def __init__(self, parts: LowerParts, prober: TreeProber, contacts: Iterable[Address]) -> None:
        self.granted_in: messages.RootTerm | None = None
        """The term in which this node's place was granted; a root of another term must be told of it."""
        state, self._upstream, self._children, self._events = parts
        self._node, self._post, self._settings = state.node, state.post, state.settings
        self._root, self._link, self._log = state.root, state.link, state.log
        self._prober, self.contacts = prober, tuple(contacts)
        """Nodes to ask when no other is known."""
        self.waiting = ""
        """Why this node has no parent and waits for one; empty if it does not wait."""
        self._choose: Callable[[ProbeResults], Address | None] | None = None
        self._strict = False
        self._waits_until = 0.0
        self._refused: set[Address] = set()
        """Parents that will not do, as far as this search has come."""
        self._stamp = 0
        self._tries = 0
        state.node.at_alarm("tree place", self._search_again)

    def choose_by(self, choose: Callable[[ProbeResults], Address | None], *, strict: bool) -> None:
        """Choose the parent oneself, whenever any will do: the best of those that answered a probe.

        None says that none of them will do: then, if `strict`, no parent is taken.
        """
        self._choose, self._strict = choose, strict

    def place(self, parent: Address, grandparent: Address | None) -> None:
        """Have this parent from the start, without messages."""
        self._link.place(parent, 1)
        self._link.grandparent = grandparent
        self._stamp = 1

    def detach(self) -> None:
        """Leave the parent, if there is one: this node leaves the tree."""
        link = self._link
        if link.parent is not None:
            self.abandon()
            self._post(link.parent, messages.DetachNotice(link.stamp))
            link.parent, link.attached = None, False

    # With every heartbeat.

    def send_heartbeat(self, interval: float) -> None:
        """Send the parent a heartbeat, and fetch again what has not come."""
        if self._link.parent is not None:
            self._node.send(self._link.parent, messages.ChildHeartbeat(self._link.stamp))
        self._events.fetch_again(2 * interval)

    def check(self, interval: float) -> None:
        """See whether the parent is alive, and whether what was asked of it and of the root is granted."""
        link = self._link
        silent = not link.attached or self._node.now - link.heard > self._settings.silence * interval
        if link.change is not None:
            self._hurry(link.change, interval, silent)
        elif self.waiting:
            return
        elif silent:
            link.attached = False
            self.seek(link.grandparent if self._choose is None else None)
        elif self._upstream.is_late(2 * interval):
            self._upstream.tell_again()
        elif self.granted_in != self._root.term:
            stays = self._tries < MOST_TRIES or (self._strict and self._tries % 2 == 1)
            self.seek(link.parent if stays else None)

    def _hurry(self, change: ParentTransition, interval: float, silent: bool) -> None:
        """See to it that a change of parent comes about, or another in its place."""
        waited = self._node.now - change.since
        if change.state is ChangeState.READY and waited > interval:
            self._switch(change)
        elif waited > self._settings.patience * interval:
            self.seek(None if silent else self._link.parent)
        elif change.new_parent is not None and waited > 2 * interval:
            self._post(change.new_parent, self._attach_request(change))

    # Asking the root.

    def seek(self, wanted: Address | None, *, must: bool = False, choose: bool = True) -> None:
        """Ask the root for a parent; for any with None. Replaces a change that is under way.

        With `must`, or if the old parent is gone, any parent is requested when this one is denied. Without
        `choose`, the root picks it although this node chooses its parents otherwise.
        """
        node, link, root = self._node, self._link, self._root.address
        avoid = () if link.attached or link.parent is None else (link.parent,)
        avoid = (*avoid, *sorted(self._refused))
        self.abandon()
        self._stamp = max(self._stamp + 1, int(node.now * 1_000_000))
        if wanted == node.address:
            wanted = None
        link.change = ParentTransition(self._stamp, wanted, node.now, must or not link.attached)
        choosing = wanted is None and choose and self._choose is not None
        asked = (node.address, self._stamp, self._root.term, link.parent, wanted, avoid)
        offers = self._settings.offers if choosing else 0
        message = messages.ParentRequest(*asked, link.stamp if link.attached else 0, offers=offers)
        known = (root, *link.root_children, *self.contacts)
        helpers = [one for one in dict.fromkeys(known) if one is not None and one != node.address]
        if helpers:
            to = helpers[0 if link.attached else self._tries % len(helpers)]
            self._tries += 1
            self._post(to, message)

    def ask_again(self) -> None:
        """There is another root: ask that one for what was asked for."""
        change = self._link.change
        if change is not None:
            self.seek(change.wanted, must=change.must)
            if self._link.change is not None:
                self._link.change.chosen = change.chosen

    def abandon(self) -> None:
        """Give up a change of parent that is under way."""
        change, self._link.change = self._link.change, None
        if change is not None and change.new_parent is not None:
            self._post(change.new_parent, messages.DetachNotice(change.stamp))

    def _answered(
        self, message: messages.ParentGrant | messages.ParentOffers | messages.ParentDenial
    ) -> ParentTransition | None:
        """The change under way, moved on, if a message of the root answers its request."""
        change = self._link.change
        if change is None or change.stamp != message.stamp or not change.advance(type(message)):
            return None
        return change

    def denied(self, message: messages.ParentDenial, sender: Address) -> None:
        """Stay with the old parent; without one, request any."""
        change = self._answered(message)
        if change is None:
            return
        self._link.change = None
        if change.must and change.wanted is not None:
            self.seek(None, must=True, choose=self._strict or not change.chosen)

    def offered(self, message: messages.ParentOffers, sender: Address) -> None:
        """Probe the parents on offer, and request the best; any, when none of them answers."""
        if message.term == self._root.term and self._answered(message) is not None:
            self._tries = 0  # the root answers: what follows is for it, not for other contacts
            wait = self._settings.probe_wait
            self._prober.probe(message.parents, lambda found: self._chosen(message, found), wait)

    def _chosen(self, offers: messages.ParentOffers, results: ProbeResults) -> None:
        """Request the best of the parents that were offered and probed."""
        change = self._link.change
        if self._choose is None or change is None or change.stamp != offers.stamp:
            return
        change.advance(messages.ParentRequest)
        best = self._choose(results) if results else None
        if best is None and self._strict:
            self._none_fits(change, set(offers.parents))
            return
        self.seek(best, must=not self._strict or change.must, choose=best is not None)
        if self._link.change is not None:
            self._link.change.chosen = True

    # Where no place is found.

    def _none_fits(self, change: ParentTransition, offered: set[Address]) -> None:
        """Ask for other parents; when all have been tried, stay where one is, or wait without a parent."""
        if offered - self._refused:
            self._refused |= offered
            self.seek(None, must=change.must)
            return
        link = self._link
        link.change = None
        self._refused.clear()
        if not change.must:
            return
        if link.parent is not None and link.attached:
            self._post(link.parent, messages.DetachNotice(link.stamp))
        link.attached = False
        self._children.send_away()
        self.waiting = "there is no parent under which the constraints are kept"
        self._waits_until = self._node.now + self._settings.retry
        self._node.wake_after(self._settings.retry, "tree place")
        self._root.send(messages.PlaceWait(self._node.address))

    def _search_again(self, about: object) -> None:
        if self._node.now >= self._waits_until:
            self._search_if_waiting()

    def _search_if_waiting(self) -> None:
        if self.waiting and self._link.change is None and not self._children.leaving:
            self.seek(None, must=True)

    def room_noticed(self, message: messages.RoomNotice, sender: Address) -> None:
        """Look for a parent again, if this node still waits for one."""
        self._search_if_waiting()

    def attach_denied(self, message: messages.AttachDenial, sender: Address) -> None:
        """The parent chosen has no place for this node by now: look for another."""
        change = self._link.awaited(sender, message.link)
        if change is not None and change.advance(messages.AttachDenial):
            self._refused.add(sender)
            self.seek(None, must=change.must)

    def granted(self, message: messages.ParentGrant, sender: Address) -> None:
        """Ask the parent granted by the root to serve this node, unless it does already."""
        change = self._answered(message) if message.term == self._root.term else None
        if change is None:
            return
        self.granted_in, self._tries = message.term, 0
        self.waiting = ""
        if message.parent == self._link.parent and self._link.attached:
            self._link.change = None
            return
        change.new_parent = message.parent
        self._post(change.new_parent, self._attach_request(change))

    def _attach_request(self, change: ParentTransition) -> messages.AttachRequest:
        return self._upstream.attach_request(change.stamp, chosen=self._strict and change.chosen)

    # What parents send, the present one and the one to come.

    def heartbeat(self, message: messages.Heartbeat, sender: Address) -> None:
        """Note that the parent is alive, and fetch what its heartbeat shows to be missing."""
        link = self._link
        if self._root.is_root or not link.hears(sender, message.link):
            if link.awaited(sender, message.link) is None:
                self._disown(sender, message.link)
            return
        link.heard, link.attached, self.waiting = self._node.now, True, ""
        link.grandparent, link.root_children = message.grandparent, message.root_children
        link.standby, link.standby_in = message.standby, message.term
        if message.epoch == self._log.epoch and self._events.skip(message.after, message.position):
            self._switch_when_reached()

    def forwarded(self, message: messages.ForwardedEvents, sender: Address) -> None:
        """Take events from the parent; keep those from the parent to come."""
        link = self._link
        if link.hears(sender, message.link):
            link.heard = self._node.now
            if self._events.receive(message):
                self._switch_when_reached()
                self._events.need(message.after)
        elif (change := link.awaited(sender, message.link)) is not None:
            change.early.update(early_events(message))
        else:
            self._disown(sender, message.link)

    def fetched(self, message: messages.EventFetchReply, sender: Address) -> None:
        """Take events that were fetched, and fetch what is still missing."""
        if self._events.take_fetched(message):
            self._switch_when_reached()
            self._events.need(0)

    def interest_granted(self, message: messages.InterestGrant, sender: Address) -> None:
        """Note what the parent serves, or that the parent to come does."""
        link = self._link
        if self._root.is_root or message.epoch < self._log.epoch:
            return
        if link.hears(sender, message.link):
            link.grandparent, link.heard = message.grandparent, self._node.now
            self._take_grant(message)
            self._events.drain()
            self._switch_when_reached()
            return
        change = link.awaited(sender, message.link)
        is_present = message.version == self._upstream.version
        if change is not None and is_present and change.advance(messages.InterestGrant):
            change.grant = message
            self._switch_when_reached()

    def unknown(self, message: messages.UnknownChild, sender: Address) -> None:
        """Attach again to a parent that does not know this node as its child."""
        link = self._link
        if link.hears(sender, message.link) and link.attached:
            link.attached = False
            self.seek(link.parent)

    def redirected(self, message: messages.ParentRedirect, sender: Address) -> None:
        """Go from a parent that leaves, or waits, to the one it names, or to one that this node chooses."""
        if self._link.hears(sender, message.link) and not self._root.is_root:
            self.seek(message.successor if self._choose is None else None, must=True)

    def _disown(self, sender: Address, stamp: int) -> None:
        """Tell a node that takes this one for its child that it is not, or not by this link."""
        if self._settings.heartbeat is not None:
            self._node.send(sender, messages.DetachNotice(stamp))

    def _take_grant(self, grant: messages.InterestGrant) -> None:
        """Note from which number on the parent serves which version of the interest; pass it on downwards."""
        log, upstream = self._log, self._upstream
        new_epoch = grant.epoch > log.epoch
        if new_epoch:
            self._events.begin_epoch(grant.term, grant.start)
            upstream.granted, upstream.since = NOT_GRANTED, 0
            self._children.restart()
        if grant.version <= upstream.granted:
            return
        upstream.granted = grant.version
        upstream.since = max(upstream.since, grant.since)
        if grant.version == upstream.version:
            log.ask(upstream.interest, max(grant.since, log.position))
        upstream.tell_granted()
        self._children.grant_all()
        if new_epoch:
            self._events.fetch_up_to(grant.since)

    # Switching over.

    def _switch_when_reached(self) -> None:
        """Switch to the new parent once the old one's events have come to where the new one's begin."""
        change = self._link.change
        if change is None or change.grant is None:
            return
        reached = self._log.position >= change.grant.since and self._log.epoch == change.grant.epoch
        if reached or not self._link.attached or self._settings.heartbeat is None:
            self._switch(change)

    def _switch(self, change: ParentTransition) -> None:
        """Have the new parent serve from now on; what lies between is fetched."""
        link, grant = self._link, change.grant
        if grant is None or not change.advance(messages.ParentConfirmation):
            return
        old, old_stamp = link.parent, link.stamp
        link.change = None
        self._refused.clear()
        link.place(change.new_parent, change.stamp)
        link.grandparent, link.heard = grant.grandparent, self._node.now
        if change.new_parent != self._root.address:
            link.root_children = ()  # else those known elect another, if it fails before a heartbeat
        self._events.begin_link({n: each for n, each in change.early.items() if each.epoch == grant.epoch})
        self._upstream.granted = NOT_GRANTED
        link.moves += 1
        if old is not None and old != link.parent:
            self._post(old, messages.DetachNotice(old_stamp))
        self._root.send(messages.ParentConfirmation(self._node.address, change.stamp))
        self._take_grant(grant)
        self._events.fetch_up_to(grant.since)
        self._events.drain()
