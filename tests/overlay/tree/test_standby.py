"""A root and its standby, message by message: what is kept, dropped, committed and told when."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from random import Random

import pytest

from distributary.model import Event
from distributary.overlay.node import Effect, Node, Send, Store, Token
from distributary.overlay.tree.interest import Interest
from distributary.overlay.tree.messages import (
    AttachRequest,
    CopyReceipt,
    EpochStart,
    Heartbeat,
    LogCopies,
    LogRecord,
    RoleRecord,
    RootAnnouncement,
    RootDeparture,
    RootTerm,
    RootTimeout,
)
from distributary.overlay.tree.node import TreeNode
from distributary.overlay.tree.state import TreeSettings

ROOT, STANDBY, OTHER = 1, 2, 3
BEAT = Token("tree heartbeat")
EVENTS = tuple(Event(f"e{number}", "A", {"source": "p"}) for number in range(1, 8))


def tree_at(address: int, *, is_root: bool = False) -> TreeNode:
    return TreeNode(Node(address), TreeSettings(heartbeat=1.0), is_root=is_root, contacts=[OTHER])


def sent(effects: Iterable[Effect], kind: type) -> list[tuple[int, object]]:
    return [
        (each.to, each.message)
        for each in effects
        if isinstance(each, Send) and isinstance(each.message, kind)
    ]


def stamp_of(effects: Iterable[Effect]) -> int:
    """The stamp of the last copy of the log that was sent."""
    return [each.stamp for _, each in sent(effects, LogCopies) if isinstance(each, LogCopies)][-1]


def root_with_standby() -> TreeNode:
    """A root with two children, of which one stands by and has the first two events."""
    tree = tree_at(ROOT, is_root=True)
    node = tree.node
    node.start(0.0)
    for child in (STANDBY, OTHER):
        node.receive(AttachRequest(5, 0, Interest(), False), child, 0.1)
    stamp = stamp_of(node.wake(BEAT, 1.0))
    assert tree.standby == STANDBY
    term = tree.root.term
    assert term is not None
    node.call(lambda: tree.publish(*EVENTS[:2]), 1.1)
    node.receive(CopyReceipt(term, 2, stamp), STANDBY, 1.2)
    assert tree.log.position == 2
    return tree


def test_a_root_that_steps_down_leaves_nothing_on_its_disk() -> None:
    tree = root_with_standby()
    node, term = tree.node, tree.root.term
    assert term is not None
    node.call(lambda: tree.publish(*EVENTS[2:4]), 2.0)  # which the standby has not said to have
    effects = node.receive(RootAnnouncement(term.continued(STANDBY)), STANDBY, 2.1)
    assert not tree.is_root
    removed = {each.name for each in effects if isinstance(each, Store) and each.value is None}
    assert removed == {"role", "events 1", "events 3"}


def test_only_a_standby_without_a_copy_is_sent_all_of_the_log_again() -> None:
    tree = root_with_standby()
    term = tree.root.term
    assert term is not None
    again = tree.node.receive(CopyReceipt(term, -1), STANDBY, 1.3)
    stamp = stamp_of(again)
    for late in (
        CopyReceipt(term, 1, stamp),
        CopyReceipt(term, 2, stamp - 1),
        CopyReceipt(term, -1, stamp - 1),
    ):
        assert sent(tree.node.receive(late, STANDBY, 1.4), LogCopies) == []
    assert stamp_of(tree.node.receive(CopyReceipt(term, -1, stamp), STANDBY, 1.5)) > stamp


def lose_standby(tree: TreeNode) -> tuple[RootTerm, int]:
    """Let the standby fall silent, so that the other child is proposed; the term, and the copy's stamp."""
    proposals: list[LogCopies] = []
    for beat in range(2, 12):
        tree.node.receive(AttachRequest(5, 0, Interest(), False), OTHER, beat - 0.1)
        copies = sent(tree.node.wake(BEAT, float(beat)), LogCopies)
        proposals += [each for to, each in copies if to == OTHER and isinstance(each, LogCopies)]
    assert tree.standby == OTHER
    return proposals[-1].term, proposals[-1].stamp


def test_a_new_epoch_begins_though_events_keep_coming() -> None:
    tree = root_with_standby()
    proposed, stamp = lose_standby(tree)
    assert tree.root.term != proposed
    tree.node.call(lambda: tree.publish(*EVENTS[2:5]), 12.0)
    # It has all that is committed, but not what came since.
    tree.node.receive(CopyReceipt(proposed, 2, stamp), OTHER, 12.1)
    assert tree.root.term == proposed
    assert tree.log.position == 2
    tree.node.receive(CopyReceipt(proposed, 5, stamp), OTHER, 12.2)
    assert tree.log.position == 5


def child_of_root() -> tuple[TreeNode, RootTerm]:
    tree, term = tree_at(OTHER), RootTerm(0.0, 0, ROOT)
    tree.attach(tree_at(ROOT, is_root=True))
    tree.settle(term)
    tree.node.start(0.0)
    return tree, term


def test_a_copy_that_comes_late_does_not_undo_a_later_one() -> None:
    tree, term = child_of_root()
    events = EVENTS
    for copies, through in (
        (LogCopies(term, 0, events[:3], True, 20), 3),
        (LogCopies(term, 3, events[3:4], False, 20), 4),
        (LogCopies(term, 0, events[:2], True, 10), 4),  # an earlier one
        (LogCopies(term, 0, events[:3], True, 20), 4),  # the same again
        (LogCopies(term, 0, events[:2], True, 30), 2),  # a root that came back and has less
        (LogCopies(term, 2, events[2:3], False, 20), 2),
        (LogCopies(term, 2, events[2:3], False, 40), -1),  # of a copy whose beginning has not come
    ):
        [(_, receipt)] = sent(tree.node.receive(copies, ROOT, 1.0), CopyReceipt)
        assert isinstance(receipt, CopyReceipt)
        assert receipt.through == through


def test_a_standby_to_be_keeps_its_copy_while_heartbeats_name_the_one_before() -> None:
    tree, term = child_of_root()
    proposed = RootTerm(9.0, 0, ROOT, (EpochStart(9.0, 2),))
    events = EVENTS[:2]
    tree.node.receive(LogCopies(proposed, 0, events, True), ROOT, 9.0)
    for each, standby in ((term, STANDBY), (proposed, OTHER)):
        tree.node.receive(Heartbeat(1, 0.0, 0, 0, each, None, (STANDBY, OTHER), standby), ROOT, 9.5)
        assert tree.is_standby
    tree.node.receive(Heartbeat(1, 0.0, 0, 0, proposed, None, (STANDBY, OTHER), STANDBY), ROOT, 9.6)
    assert not tree.is_standby


def test_a_standby_that_was_replaced_while_it_was_away_forgets_its_copy_wherever_it_comes_back() -> None:
    tree, term = child_of_root()
    tree.node.receive(LogCopies(term, 0, EVENTS[:2], True), ROOT, 1.0)
    assert tree.is_standby
    later = RootTerm(9.0, 0, ROOT, (EpochStart(9.0, 2),))
    tree.settle(later)
    effects = tree.node.receive(Heartbeat(1, 9.0, 0, 0, later, ROOT), ROOT, 9.5)  # not as a child of the root
    assert not tree.is_standby
    assert {each.name for each in effects if isinstance(each, Store)} == {"role", "events 1"}


@pytest.mark.parametrize("company", [True, False])
def test_a_root_that_comes_back_and_reaches_nobody_waits_if_there_were_others(company: bool) -> None:
    tree = tree_at(ROOT)
    role = RoleRecord(RootTerm(0.0, 0, ROOT), True, STANDBY, 0, company, committed=3)
    records = {"events 1": LogRecord(0, EVENTS)}
    tree.restore({"role": role, **records})
    told: set[int] = set()
    tree.node.start(100.0)
    for beat in range(101, 160):
        told |= {to for to, _ in sent(tree.node.wake(BEAT, float(beat)), RootAnnouncement)}
    assert tree.is_root
    assert told >= {STANDBY, OTHER}
    # What is not known to be committed may have been numbered otherwise by another root.
    assert tree.log.position == (3 if company else len(EVENTS))


def test_a_root_that_comes_back_is_what_it_was_when_its_standby_has_all() -> None:
    tree = tree_at(ROOT)
    term = RootTerm(0.0, 0, ROOT)
    records = {"events 1": LogRecord(0, EVENTS)}
    tree.restore({"role": RoleRecord(term, True, STANDBY, 0, True, committed=3), **records})
    stamp = stamp_of(tree.node.start(100.0))
    tree.node.receive(CopyReceipt(term, len(EVENTS), stamp), STANDBY, 100.5)
    assert tree.is_root
    assert tree.log.position == len(EVENTS)


def test_another_epoch_is_not_begun_soon_after_the_root_was_heard_of() -> None:
    tree = tree_at(STANDBY)
    tree.attach(tree_at(ROOT, is_root=True))
    term = RootTerm(0.0, 0, ROOT)
    tree.settle(term)
    tree.node.start(0.0)
    tree.node.receive(Heartbeat(1, 0.0, 0, 0, term, None, (STANDBY,), STANDBY), ROOT, 0.5)
    assert not elected_by(tree, range(1, 19))
    later = RootTerm(15.0, 0, ROOT, (EpochStart(15.0, 0),))
    tree.node.receive(RootAnnouncement(later), ROOT, 18.5)
    assert not elected_by(tree, range(19, 58))  # twice as long: there may be a standby that was not named yet
    assert elected_by(tree, range(58, 62))


def elected_by(tree: TreeNode, beats: range) -> bool:
    """Whether a child of a silent root is the root after these heartbeats."""
    for beat in beats:
        tree.node.wake(BEAT, float(beat))
    return tree.is_root


@pytest.mark.parametrize("complete", [True, False])
def test_a_standby_that_was_not_named_yet_takes_over_if_it_has_all_that_is_committed(complete: bool) -> None:
    tree, term = child_of_root()
    tree.node.receive(Heartbeat(1, 0.0, 0, 0, term, None, (OTHER,), STANDBY), ROOT, 0.5)
    events = EVENTS[: 3 if complete else 2]
    proposed = RootTerm(1.0, 0, ROOT, (EpochStart(1.0, 3),))
    tree.node.receive(LogCopies(proposed, 0, events, True, 10), ROOT, 1.0)
    assert elected_by(tree, range(2, 30)) == complete
    if complete:
        assert tree.log.position == 3


def test_a_root_that_comes_back_takes_its_standby_again_rather_than_another_child() -> None:
    tree, term = tree_at(ROOT), RootTerm(0.0, 0, ROOT)
    tree.restore({"role": RoleRecord(term, True, STANDBY, 0, True)})
    stamp = stamp_of(tree.node.start(100.0))
    tree.node.receive(CopyReceipt(term, 0, stamp), STANDBY, 100.5)
    tree.node.receive(AttachRequest(5, 0, Interest(), False), OTHER, 100.6)
    tree.node.wake(BEAT, 101.0)
    assert tree.standby is None
    tree.node.receive(AttachRequest(5, 0, Interest(), False), STANDBY, 101.5)
    tree.node.wake(BEAT, 102.0)
    assert (tree.standby, tree.root.term) == (STANDBY, term)


CHILDREN = (STANDBY, OTHER, 4, 5, 6)
"""Those of a root before it was cut off; then all but one go to that one, and the root is lost."""


def silent_child(standby: int) -> tuple[TreeNode, RootTerm]:
    """The last child of a root that has failed, which it told of its other children before they went."""
    tree, term = child_of_root()
    tree.node.receive(Heartbeat(1, 0.0, 0, 0, term, None, CHILDREN, standby), ROOT, 0.5)
    return tree, term


def asked_by(effects: Iterable[Effect]) -> set[int]:
    return {to for to, _ in sent(effects, RootTimeout)}


def let_agree(tree: TreeNode, term: RootTerm) -> set[int]:
    """Have the root be silent for long, and those agree that went elsewhere; who is told to take over."""
    told: set[int] = set()
    for beat in range(1, 30):
        effects = tree.node.wake(BEAT, float(beat))
        for one in sorted(asked_by(effects) - {STANDBY}):
            tree.node.receive(RootTimeout(term, True), one, beat + 0.1)
        told |= {to for to, _ in sent(effects, RootDeparture)}
    return told


def test_the_last_child_of_a_lost_root_is_elected_though_the_others_have_gone_elsewhere() -> None:
    tree, term = silent_child(OTHER)
    tree.node.receive(LogCopies(term, 0, EVENTS[:3], True, 10), ROOT, 0.6)
    let_agree(tree, term)
    assert tree.is_root
    assert tree.log.position == 3


def test_the_last_child_of_a_lost_root_tells_the_standby_and_if_that_is_lost_too_goes_on_without() -> None:
    tree, term = silent_child(STANDBY)
    assert let_agree(tree, term) == {STANDBY}
    assert not tree.is_root
    for beat in range(30, 60):
        for one in (4, 5, 6):  # whose addresses are lower or higher: they are no children of the root
            tree.node.receive(RootTimeout(term, True), one, beat - 0.1)
        tree.node.wake(BEAT, float(beat))
    assert tree.is_root


def below(parent: int) -> tuple[TreeNode, RootTerm]:
    """A standby that has gone to another parent than the root."""
    tree, term = tree_at(STANDBY), RootTerm(0.0, 0, ROOT)
    tree.attach(tree_at(parent))
    tree.settle(term)
    tree.node.start(0.0)
    tree.node.receive(Heartbeat(1, 0.0, 0, 0, term, OTHER), parent, 0.5)
    tree.node.receive(LogCopies(term, 0, EVENTS[:3], True, 10), ROOT, 0.6)
    tree.node.receive(AttachRequest(5, 0, Interest(), False), 9, 0.7)
    return tree, term


def test_whoever_is_below_a_child_that_has_lost_the_root_agrees_once_the_parent_says_so() -> None:
    tree, term = below(4)
    assert asked_by(tree.node.receive(RootTimeout(term), OTHER, 20.0)) == set()
    assert sent(tree.node.receive(RootTimeout(term, True), 4, 20.1), RootTimeout) == [(9, (term, True))]
    assert sent(tree.node.receive(RootTimeout(term), OTHER, 20.2), RootTimeout) == [(OTHER, (term, True))]
    assert asked_by(tree.node.receive(RootTimeout(term), OTHER, 25.0)) == set()


def test_a_standby_that_has_gone_elsewhere_takes_over_if_its_parent_has_lost_the_root_too() -> None:
    tree, term = below(4)
    tree.node.receive(RootDeparture(term), OTHER, 20.0)
    assert not tree.is_root
    tree.node.receive(RootTimeout(term, True), 4, 20.1)
    told = sent(tree.node.receive(RootDeparture(term), OTHER, 20.2), RootAnnouncement)
    assert (tree.is_root, tree.log.position) == (True, 3)
    assert OTHER in {to for to, _ in told}


class CopyOnDisk:
    """A standby that is sent logs, what it says to have, and what is on its disk."""

    def __init__(self) -> None:
        self.tree, self.term = child_of_root()
        self.disk: dict[str, object] = {}
        self.through = -1

    def receive(self, copies: LogCopies) -> None:
        effects = list(self.tree.node.receive(copies, ROOT, 1.0))
        for each in effects:
            if isinstance(each, Store) and each.value is None:
                self.disk.pop(each.name, None)
            elif isinstance(each, Store):
                self.disk[each.name] = each.value
        for _, receipt in sent(effects, CopyReceipt):
            assert isinstance(receipt, CopyReceipt)
            self.through = receipt.through

    @property
    def kept(self) -> list[str]:
        """The ids of the events with which it would go on: those on its disk, from the first on."""
        records = [each for each in self.disk.values() if isinstance(each, LogRecord)]
        kept: list[str] = []
        for record in sorted(records, key=lambda each: each.after):
            assert record.after == len(kept)
            kept += [event.id for event in record.events]
        return kept

    def take_over(self) -> list[str]:
        """Be elected; the ids of the log that goes on."""
        link = self.tree.link
        link.root_children = (STANDBY, OTHER)
        self.tree.node.receive(RootDeparture(self.term), ROOT, 2.0)
        assert self.tree.is_root
        return [event.id for _, event in self.tree.log.all_after(0)]


def test_a_standby_that_is_sent_the_log_again_goes_on_with_all_that_it_had() -> None:
    standby = CopyOnDisk()
    standby.receive(LogCopies(standby.term, 0, EVENTS, True, 20, len(EVENTS)))
    standby.receive(LogCopies(standby.term, 0, EVENTS[:2], True, 30, len(EVENTS)))
    assert standby.through == 2
    assert standby.kept == [event.id for event in EVENTS]
    assert standby.take_over() == [event.id for event in EVENTS]


@pytest.mark.parametrize("seed", range(60))
def test_a_copy_is_the_root_s_log_whatever_was_there_before_and_keeps_what_both_have(seed: int) -> None:
    random = Random(seed)
    names = [f"e{number}" for number in range(random.randrange(12))]
    shared = random.randrange(len(names) + 1)
    theirs = [*names[:shared], *(f"x{number}" for number in range(random.randrange(8)))]
    standby = CopyOnDisk()
    for stamp, log in ((10, names), (20, theirs)):
        events = [Event(name, "A", {"source": "p"}) for name in log]
        cuts = sorted({0, len(log), *random.choices(range(len(log) + 1), k=3)})
        parts = [
            LogCopies(
                standby.term, first, tuple(events[first:last]), first == 0, stamp, len(log) * (not first)
            )
            for first, last in pairwise([*cuts, len(log)])
        ]
        for part in (*random.choices(parts, k=4), *parts):  # some come early, late or twice; then all
            standby.receive(part)
            common = shared if stamp > 10 else 0
            assert standby.kept[:common] == names[:common], "what both have is never forgotten"
            assert standby.through <= len(log)
            if standby.through >= 0:
                assert standby.kept[: standby.through] == log[: standby.through]
        assert standby.through == len(log)
    assert standby.kept[: len(theirs)] == theirs
    assert standby.kept[len(theirs) :] in ([], names[len(theirs) :])
