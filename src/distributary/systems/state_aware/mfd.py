"""MFD, multi-level filter decomposition: a value goes up from level to level, as far as it passes.

Section 4.3.3 of the dynamic-filter paper. A tolerance is split into sub-filters
(`matching.change.decomposition` says how, `matching.change.mfd` why the bound holds); each is kept at a
logical node, and the logical nodes of a level share a part of the item's segment. A value is routed to the
*sequencer* of its item, the owner of the first logical node, and multicast by it to the lowest level. Nodes
with output report it to the *leader* of the level, the owner of its last logical node, which multicasts the
value, with the names of all sub-filters that it passed, to the next level. Propagation ends at a level
without output.

Rules:

- A tolerance is written with its leading digits in base 4, as many as the largest whole ones have: so any two
  nodes split it alike, and small tolerances have as many levels as large ones.
- A sub-filter exists once for an item, attribute, set of other filters and consistency value: as a *proxy*
  while only sub-filters above need it, as a real one while there are subscriptions; it is removed when
  neither holds. Other filters are evaluated at the lowest level, once for all that have equal ones.
- Only sub-filters that feed one above produce output.
- The sequencer puts the values of all publishers in one order, so that all levels see the same one: otherwise
  the levels' tolerances would not add up. (In the paper an item has one publisher, which sends to the lowest
  level itself.) A value that another node ordered, which was the sequencer before, counts as newer.
- A registration goes to the highest sub-filter first and then down, so that whatever passes the lowest level
  finds the rest in place. A new sub-filter takes the latest value as its first, whatever the levels below
  decide: the lowest level, which keeps it, sends it there. If there is none yet, the lowest level remembers
  to *begin* it with the next one, and that too is output. A sub-filter that begins counts as passed.
- The leader waits `window` seconds after it received the value itself. Later reports go up by a multicast of
  their own, so nothing is lost.
- A sub-filter takes each value once, and none that is older than the one it took last.
- The home takes whatever it is sent. Deliveries are those of `ChangeMFD`.
- Proxies are soft state. A repeated registration goes all the way down and restores what is missing. With it,
  every sub-filter tells the one below which value it was fed last: if that is not the last one that passed, a
  value was lost and it begins again, or the one below was out of touch and begins again itself.

A publication costs the route to the sequencer, then for each level that is reached its nodes and the reports,
then the multicast to the homes.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from distributary.matching.change.decomposition import Key, chain_of, leading_unit
from distributary.model import Event, SubscriptionKey
from distributary.overlay.ring.ring import Arrival, Ring
from distributary.systems.state_aware.broker import (
    Held,
    LastDelivered,
    PublishedValue,
    StateAwareBroker,
    TrackedSubscription,
)
from distributary.systems.state_aware.order import LatestValue, ValueStamp
from distributary.systems.state_aware.segments import Segments
from distributary.systems.state_aware.sub_filters import HostedSubFilter, SubFilterName, SubFilterStart

WINDOW = 0.25
"""Seconds that a leader waits for reports: a few hops within a level."""

REMEMBERED = 1000
"""How many forwarded values a leader remembers."""


class LevelValue(NamedTuple):
    """A value for a level: the sub-filters below that it passed, and those that it begins."""

    item: str
    event: Event
    stamp: ValueStamp
    level: int
    passed: frozenset[SubFilterName] = frozenset()
    begins: frozenset[SubFilterStart] = frozenset()
    length: int | None = None
    """How long the segment of the item is, where that differs."""


class LevelReport(NamedTuple):
    """The output of a node, for the leader of its level."""

    output: LevelValue
    """The message for the next level."""


class SubFilterValues(NamedTuple):
    """From the lowest level to a sub-filter that begins: the latest values of its item."""

    item: str
    start: SubFilterStart
    others: frozenset[SubFilterName]
    """The sub-filters that begin with these values too, and need not be fed."""
    values: tuple[LatestValue, ...]


class ProxyRequest(NamedTuple):
    """Create or refresh a proxy for a sub-filter above, and begin some with the next value."""

    item: str
    name: SubFilterName
    below: tuple[Key, ...]
    """The sub-filters further down, the lowest last."""
    child: SubFilterName | None
    begins: frozenset[SubFilterStart]
    everywhere: bool
    """Whether to go down level by level, even where there is a proxy already."""
    seen: tuple[tuple[str, ValueStamp, ValueStamp | None], ...] = ()
    """By topic, what the sub-filter above was shown last, and what it was fed last by the one below."""


class ProxyRelease(NamedTuple):
    """A sub-filter no longer needs the one below."""

    item: str
    name: SubFilterName
    child: SubFilterName


@dataclass(slots=True)
class _LevelOutput:
    """The output of a level for one value, as collected by its leader."""

    closes: float
    outputs: int = 0
    passed: frozenset[SubFilterName] = frozenset()
    begins: frozenset[SubFilterStart] = frozenset()
    done: bool = False


class MFDBroker(StateAwareBroker):
    """A node of an MFD network. `window` is how long leaders wait, longer than a few hops take."""

    several_attributes: ClassVar[bool] = False

    def __init__(self, ring: Ring, segments: Segments, *, window: float = WINDOW, **options: Any) -> None:
        self.window = window
        self._filters: dict[str, dict[SubFilterName, HostedSubFilter]] = {}
        self._gathered: OrderedDict[tuple[str, int, ValueStamp], _LevelOutput] = OrderedDict()
        super().__init__(ring, segments, **options)
        ring.listen(PublishedValue, self._order)
        ring.listen(LevelValue, self._receive_value)
        ring.listen(LevelReport, lambda message, arrival: self._gather(message.output))
        ring.listen(SubFilterValues, self._begin_higher)
        ring.listen(ProxyRequest, self._support_child)
        ring.listen(ProxyRelease, self._withdraw)
        self.node.at_alarm("mfd window", self._window_closed)

    # Publication.

    def send_value(self, item: str, event: Event, published: ValueStamp) -> None:
        self.ring.route(self.segments.start(item), PublishedValue(item, event, published))

    def _order(self, message: PublishedValue, arrival: Arrival) -> None:
        """As the sequencer: put a value in order, and send it to the lowest level."""
        item, event, published = message
        assert event.topic is not None
        if self.order.admits(event.topic, published):
            self.send_to_lowest(item, event, self.stamp())

    def send_to_lowest(self, item: str, event: Event, stamp: ValueStamp) -> None:
        """Send a value to the lowest level of an item."""
        self._cast(LevelValue(item, event, stamp, 1))

    def _cast(self, message: LevelValue) -> None:
        item, level = message.item, message.level
        first, length = self.segments.level_stretch(item, level, self.length_of(item))
        self.ring.multicast_segment(first, length, message)

    def _receive_value(self, message: LevelValue, arrival: Arrival) -> None:
        """Apply a value to the sub-filters of its level that it is for; notify homes and report output."""
        item, event, stamp, level, passed, begins, _ = message
        topic = event.topic or ""
        if level == 1:
            self.latest.keep(item, event, stamp)
        fired: list[TrackedSubscription] = []
        outputs: set[SubFilterName] = set()
        upwards = {begin for begin in begins if begin.name.level > level}
        asked = {begin.name: begin.anew for begin in begins if begin.name.level == level}
        for hosted in list(self._filters.get(item, {}).values()):
            if hosted.level != level:
                continue
            fed = hosted.matches(event) if level == 1 else hosted.parent in passed
            if (not fed and hosted.name not in asked) or hosted.number(event) is None:
                continue
            if asked.get(hosted.name):
                hosted.states.pop(topic, None)
            lets_pass, taking = self._take(hosted, event, stamp, fed=fed)
            fired += taking
            upwards |= hosted.begins.pop(topic, set())
            if lets_pass and hosted.children:
                outputs.add(hosted.name)
        self.notify(item, event, stamp, fired)
        self._output(LevelValue(item, event, stamp, level + 1, frozenset(outputs), frozenset(upwards)))

    def _begin_with_latest(self, item: str, hosted: HostedSubFilter, above: set[SubFilterStart]) -> None:
        """On the lowest level: begin a sub-filter, and others above, with the latest values there are."""
        values: dict[SubFilterStart, list[LatestValue]] = {}
        for each in self.latest.of(item):
            topic = each.event.topic or ""
            if hosted.number(each.event) is None or not hosted.matches(each.event):
                continue
            starts = above | hosted.begins.pop(topic, set())
            self._begin(item, SubFilterStart(hosted.name), each, frozenset(start.name for start in starts))
            for start in starts:
                values.setdefault(start, []).append(each)
        begun = frozenset(start.name for start in values)
        for start in sorted(values):
            told = SubFilterValues(item, start, begun, tuple(values[start]))
            self.ring.route(self._place(item, start.name), told)

    def on_latest(self, item: str) -> None:
        for hosted in list(self._filters.get(item, {}).values()):
            if not hosted.below:
                self._begin_with_latest(item, hosted, set())

    def _begin_higher(self, message: SubFilterValues, arrival: Arrival) -> None:
        item, start, others, values = message
        for each in values:
            self._begin(item, start, each, others)

    def _begin(
        self, item: str, start: SubFilterStart, latest: LatestValue, others: frozenset[SubFilterName]
    ) -> None:
        """Begin a sub-filter here with a value; it counts as passed for those above that do not begin too."""
        event, stamp = latest
        topic = event.topic or ""
        hosted = self._filters.get(item, {}).get(start.name)
        if hosted is None:
            return
        if start.anew:
            hosted.states.pop(topic, None)
        state = hosted.states.get(topic)
        if state is not None and None not in state.apart.values():
            return
        lets_pass, fired = self._take(hosted, event, stamp, fed=not hosted.below)
        self.notify(item, event, stamp, fired)
        if lets_pass and hosted.children.keys() - others:
            self._output(LevelValue(item, event, stamp, hosted.level + 1, frozenset({hosted.name})))

    def _take(
        self, hosted: HostedSubFilter, event: Event, stamp: ValueStamp, *, fed: bool
    ) -> tuple[bool, list[TrackedSubscription]]:
        """Apply a value to a sub-filter: whether it passes, and the subscriptions that fire."""
        value, topic = hosted.number(event), event.topic or ""
        assert value is not None
        state, shown = hosted.states.get(topic), hosted.shown.get(topic)
        lets_pass = state is None
        slots: list[SubscriptionKey] = []
        if state is not None and fed and stamp.is_newer(shown):
            lets_pass, slots = hosted.advance(state, value)
        if shown is None or not shown.follows(stamp):
            slots += hosted.begin(topic, value)
            if fed or state is None:
                hosted.shown[topic] = stamp
            if fed:
                hosted.fed[topic] = stamp
        if lets_pass:
            hosted.passed[topic] = stamp, self.node.now
        fired = [hosted.subscriptions[slot] for slot in slots]
        for tracked in fired:
            tracked.delivered[topic] = LastDelivered(topic, (), stamp, stamp)
        return lets_pass, fired

    def _output(self, output: LevelValue) -> None:
        """Report the output of this node to the leader, which may be this node."""
        leader = self.segments.leader_place(output.item, output.level - 1, self.length_of(output.item))
        if self.ring.owns(leader):
            self._gather(output)
        elif output.passed or output.begins:
            self.ring.route(leader, LevelReport(output))

    def _gather(self, output: LevelValue) -> None:
        """Collect output; it is forwarded when the window closes, or at once after that."""
        item, _, stamp, level, passed, begins, _ = output
        about = (item, level, stamp)
        gathered = self._gathered.get(about)
        if gathered is None:
            first, _ = self.segments.level_stretch(item, level - 1, self.length_of(item))
            window = 0.0 if self.ring.owns(first) else self.window
            gathered = self._gathered[about] = _LevelOutput(self.node.now + window)
            if len(self._gathered) > REMEMBERED:
                self._gathered.popitem(last=False)
        if not passed and not begins:
            return
        if gathered.done or gathered.closes <= self.node.now:
            gathered.done = True
            self._cast(output)
            return
        gathered.outputs += 1
        gathered.passed |= passed
        gathered.begins |= begins
        self.node.wake_after(gathered.closes - self.node.now, "mfd window", (output, gathered.outputs))

    def _window_closed(self, about: tuple[LevelValue, int]) -> None:
        output, number = about
        gathered = self._gathered.get((output.item, output.level, output.stamp))
        if gathered is not None and gathered.outputs == number and not gathered.done:
            gathered.done = True
            self._cast(output._replace(passed=gathered.passed, begins=gathered.begins))

    # Subscription.

    def register_key(self, tracked: TrackedSubscription) -> int:
        name, _ = self._sub_filter(tracked)
        return self._place(tracked.registered.item, name)

    def on_admitted(self, tracked: TrackedSubscription, held: Held | None, *, is_new: bool) -> None:
        item = tracked.registered.item
        name, below = self._sub_filter(tracked)
        hosted, is_first = self._host(item, name, below)
        lost = self._learn(tracked, held) if held is not None else []
        if is_new:
            hosted.slots[tracked.name] = None
            hosted.subscriptions[tracked.name] = tracked
            lost = list(hosted.states)
        for topic in lost:
            if topic in hosted.states:
                hosted.states[topic].apart[tracked.name] = None
        waits = any(state.apart.get(tracked.name, 0.0) is None for state in hosted.states.values())
        begins = frozenset({SubFilterStart(name)}) if lost or waits or is_first else frozenset()
        everywhere = is_first or not is_new or held is None
        self._ask_below(item, hosted, begins, everywhere=everywhere)

    def _learn(self, tracked: TrackedSubscription, held: Held) -> list[str]:
        """Adopt what the home remembers; returns the topics with values that were lost or sent elsewhere."""
        known = {topic: last.stamp for topic, last in tracked.delivered.items()}
        elsewhere = [each.topic for each in held if each.stamp.is_newer(known.get(each.topic))]
        return [*elsewhere, *tracked.learn(held, self.settled)]

    def _ask_below(
        self, item: str, hosted: HostedSubFilter, begins: frozenset[SubFilterStart], *, everywhere: bool
    ) -> None:
        """Create or refresh the sub-filters below one; if they exist, only tell the lowest what to begin."""
        if not hosted.below:
            above = {begin for begin in begins if begin.name != hosted.name}
            for topic in {**hosted.shown, **dict.fromkeys(hosted.states)}:
                hosted.begins.setdefault(topic, set()).update(above)
            self.latest.need(item)
            self._begin_with_latest(item, hosted, above)
            return
        if everywhere:
            key, *below = hosted.below
            child, seen = hosted.name, hosted.seen()
        else:
            key, below = hosted.below[-1], []
            child, seen = None, ()
        name = hosted.name._replace(key=key)
        support = ProxyRequest(item, name, tuple(below), child, begins, everywhere, seen)
        self.ring.route(self._place(item, name), support)

    def _support_child(self, message: ProxyRequest, arrival: Arrival) -> None:
        item, name, below, child, begins, everywhere, seen = message
        hosted, is_new = self._host(item, name, below)
        if child is not None:
            if child in hosted.children and self._has_missed(hosted, {topic: at for topic, at, _ in seen}):
                begins |= {SubFilterStart(child, anew=True)}
            hosted.children[child] = self.node.now
        stale = [topic for topic, _, fed in seen if fed is not None and not hosted.has_passed(topic, fed)]
        for topic in stale:
            hosted.states.pop(topic, None)
        if is_new or stale:
            begins |= {SubFilterStart(name)}
        refreshing = everywhere and self.refresh is not None
        self._ask_below(item, hosted, begins, everywhere=is_new or refreshing)

    def _has_missed(self, hosted: HostedSubFilter, shown: dict[str, ValueStamp]) -> bool:
        """Whether a value that passed here long enough ago never reached the sub-filter above."""
        return any(
            when <= self.settled and stamp.is_newer(shown.get(topic))
            for topic, (stamp, when) in hosted.passed.items()
        )

    def on_dismissed(self, tracked: TrackedSubscription, *, moved: bool) -> None:
        item, name = tracked.registered.item, tracked.name
        sub_filter, _ = self._sub_filter(tracked)
        hosted = self._filters[item][sub_filter]
        del hosted.slots[name], hosted.subscriptions[name]
        for state in hosted.states.values():
            state.apart.pop(name, None)
        self._prune(item, hosted, moved=moved)

    def _withdraw(self, message: ProxyRelease, arrival: Arrival) -> None:
        hosted = self._filters.get(message.item, {}).get(message.name)
        if hosted is not None:
            hosted.children.pop(message.child, None)
            self._prune(message.item, hosted)

    def _prune(self, item: str, hosted: HostedSubFilter, *, moved: bool = False) -> None:
        """Remove a sub-filter that is no longer needed, and tell the one below unless it has `moved`."""
        if hosted.slots or hosted.children or self._filters.get(item, {}).get(hosted.name) is not hosted:
            return
        del self._filters[item][hosted.name]
        if not self._filters[item]:
            del self._filters[item]
        if hosted.parent is not None and not moved:
            withdraw = ProxyRelease(item, hosted.parent, hosted.name)
            self.ring.route(self._place(item, hosted.parent), withdraw)

    # Sub-filters.

    def _host(self, item: str, name: SubFilterName, below: tuple[Key, ...]) -> tuple[HostedSubFilter, bool]:
        """The sub-filter of this name, created as a proxy if needed; and whether it was created."""
        filters = self._filters.setdefault(item, {})
        is_new = name not in filters
        if is_new:
            filters[name] = HostedSubFilter(name, below)
        return filters[name], is_new

    def _sub_filter(self, tracked: TrackedSubscription) -> tuple[SubFilterName, tuple[Key, ...]]:
        """The name of a subscription's sub-filter, and the keys of those below it, the lowest last."""
        ((attribute, tolerance),) = tracked.change.tolerances
        *below, key = chain_of(leading_unit(tolerance, self.segments.digits), tolerance)
        return SubFilterName(tracked.rule, attribute, key), tuple(reversed(below))

    def _place(self, item: str, name: SubFilterName) -> int:
        return self.segments.logical_place(item, name.logical, self.length_of(item))

    def length_of(self, item: str) -> int:
        """How long the segment of an item is, as far as this node knows."""
        return self.segments.length

    # The home, and soft state.

    def decide(self, own: TrackedSubscription, event: Event, stamp: ValueStamp) -> bool:
        own.remember(event, stamp)
        return True

    def correct(self, own: TrackedSubscription, topic: str, stamp: ValueStamp) -> None:
        return  # registering would begin the sub-filters again, with that same value, and so on

    def tidy(self, oldest: float) -> None:
        """Remove proxies that were not refreshed, or whose place another node owns now."""
        for item, filters in list(self._filters.items()):
            for hosted in list(filters.values()):
                if not self.ring.owns(self._place(item, hosted.name)):
                    hosted.children.clear()
                    self._prune(item, hosted, moved=True)
                    continue
                for child in [child for child, since in hosted.children.items() if since < oldest]:
                    del hosted.children[child]
                self._prune(item, hosted)
