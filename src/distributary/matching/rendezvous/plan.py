"""`Rendezvous`, the plan that says where events and subscriptions meet.

Subscriptions are divided among numbered *parts*, each of which is matched by itself. The plan says in which
parts a subscription lives and which parts an event visits.

The contract: for every event and every subscription that matches it (tolerances aside) there is exactly one
part that the event visits and the subscription lives in. It holds for all subscriptions and events, also
for those that the plan was not made for.

How: a part belongs to one *class*: topics, values of an attribute, names in documents, everywhere. A
subscription is filed in one class, under one of its keys there (see `keys`), and in each class
an event finds whatever is filed under a key that it has:

- under a topic or a name, a subscription lives in one part; an event visits it if it has the key, and
  visits no part twice;
- under an attribute, it lives in one part for each bucket that its values reach into; an event visits one
  bucket, and no part belongs to two buckets;
- what has no key of use lives in one of the parts that every event visits.

A subscription with a tolerance always lives in one part, for what it remembers cannot be divided.

Which key: the one that the smallest share of events is likely to have. Events are unknown, so what
subscriptions ask for is taken for what events bring. A wrong guess costs time and nothing else.

Making a plan takes some passes over the census; `parts_of` takes about as long as parsing the filters;
`route` is done by kernels, but for documents, which are looked at one by one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from distributary.errors import DistributaryError
from distributary.filters.filter import Filter
from distributary.matching.batch import EventBatch
from distributary.matching.index import Pairs
from distributary.matching.rendezvous import labels, topics, values
from distributary.matching.rendezvous.census import SubscriptionCensus
from distributary.matching.rendezvous.keys import SubscriptionKeys, fingerprint
from distributary.matching.rendezvous.labels import LabelParts
from distributary.matching.rendezvous.parts import (
    PROVISIONAL,
    PartAllotment,
    PartGroup,
    PartRange,
    Visits,
    combined,
)
from distributary.matching.rendezvous.topics import TopicNode, TopicParts
from distributary.matching.rendezvous.values import AttributeParts, Spans

FORMAT = 1
WIDE = 0.5
"""A range that holds a larger share of an attribute's values is not filed under the attribute."""
MAX_BUCKETS = 64
"""Nor is one that would live in more buckets than this."""
REACH_COST = 1.5
"""A span is stored once for each bucket that it reaches into, so it must be that much more selective."""
LABEL_COST = 2.0
"""A document has many names and visits the parts of all of them."""
PRESENCE_COST = 0.9
"""Even a name that all documents have keeps away the events that have none; so does a value."""


TOPIC, VALUES, LABEL, EVERYWHERE = "topic", "values", "label", "everywhere"
"""The classes of parts."""


@dataclass(frozen=True)
class Rendezvous:
    """Where subscriptions live and what events visit; made by `plan`.

    >>> from distributary.filters.topic import TopicFilter
    >>> from distributary.model import Event
    >>> wanted = [{"topic": TopicFilter.parse(f"{letter}/*")} for letter in "ABCDEFGH"]
    >>> census = SubscriptionCensus()
    >>> for filters in wanted:
    ...     census.add(filters)
    >>> plan = Rendezvous.plan(census, capacity=4)
    >>> visited = plan.route(EventBatch.from_events([Event("e1", topic="C/1")])).slots
    >>> len(set(visited) & set(plan.parts_of(wanted[2], "s3")))
    1
    """

    parts: int
    """Parts are numbered from 0 up to this."""
    everywhere: PartRange
    topics: TopicParts
    values: dict[str, AttributeParts]
    labels: LabelParts
    least: float
    """The share of all subscriptions that a part holds: keys that are more selective gain nothing."""
    groups: tuple[PartGroup, ...]
    """What the parts are for, and how many subscriptions are expected there."""

    @classmethod
    def plan(cls, census: SubscriptionCensus, *, capacity: int, weight: float = 1.0) -> Rendezvous:
        """A plan with about `capacity` subscriptions in a part at most.

        `weight` is how many subscriptions each that the census has seen stands for.
        """
        if capacity < 1 or not weight > 0:
            raise DistributaryError(
                f"capacity and weight must be positive; got {capacity} and {weight}, give for example "
                "capacity=250_000"
            )
        given = census.kept
        per_keys = census.weight * weight
        room = capacity / per_keys
        return _draft(given, room)._with_buckets(given, room)._settled(given, room, per_keys)

    def parts_of(self, filters: Mapping[str, Filter], subscription_id: str) -> list[int]:
        """The parts where a subscription lives, at least one, ascending."""
        keys = SubscriptionKeys(filters)
        kind, key = self._choice(keys)
        identity = fingerprint(subscription_id)
        if kind == TOPIC:
            prefix, node = key
            return [self.topics.part(prefix, node, identity)]
        if kind == VALUES:
            return self.values[key].parts(keys.values[key], identity)
        if kind == LABEL:
            return [self.labels.places[key].part_of(identity)]
        return [self.everywhere.part_of(identity)]

    def route(self, batch: EventBatch) -> Pairs:
        """The rows of a batch and the parts that they visit, each pair once, ascending.

        Rejected rows visit nothing.
        """
        found: list[Visits] = []
        if batch.topics is not None and self.topics.light is not None:
            found.append(self.topics.visits(batch.topics))
        for name, attribute in self.values.items():
            column = batch.column(name)
            if column is not None:
                found.append(attribute.visits(column))
        if self.labels.places and batch.documents is not None:
            found.append(self.labels.visits(batch))
        sound = np.ones(batch.rows, np.bool_)
        sound[list(batch.rejected)] = False
        return combined(found, sound, self.everywhere)

    def describe(self) -> str:
        """The plan for people: what is filed where, in how many parts, and how many are expected there."""
        width = max(len(group.what) for group in self.groups)
        lines = [
            f"  {what:<{width}}  {parts:>5} parts  about {expected / parts:>9,.0f} subscriptions each"
            for what, parts, expected in self.groups
        ]
        return "\n".join([f"{self.parts} parts", *lines])

    def to_json(self) -> str:
        """The plan as text, to be read by `from_json` elsewhere."""
        return json.dumps(
            {
                "format": FORMAT,
                "parts": self.parts,
                "everywhere": self.everywhere,
                "topics": [[prefix, *node] for prefix, node in self.topics.nodes.items()],
                "light": self.topics.light,
                "values": {name: [a.scale, a.cuts, a.places] for name, a in self.values.items()},
                "labels": {
                    label: [self.labels.shares[label], place] for label, place in self.labels.places.items()
                },
                "least": self.least,
                "groups": self.groups,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Rendezvous:
        """The plan that `to_json` wrote."""
        read = json.loads(text)
        if read.get("format") != FORMAT:
            raise DistributaryError(
                f"the rendezvous plan has format {read.get('format')}, this version reads {FORMAT}; plan anew"
            )
        nodes = {
            prefix: TopicNode(share, divided, _range(parts))
            for prefix, share, divided, parts in read["topics"]
        }
        attributes = {
            name: AttributeParts(_sides(scale), _sides(cuts), tuple([PartRange(*one) for one in places]))
            for name, (scale, cuts, places) in read["values"].items()
        }
        names = LabelParts(
            {label: share for label, (share, _) in read["labels"].items()},
            {label: PartRange(*place) for label, (_, place) in read["labels"].items()},
        )
        return cls(
            read["parts"],
            PartRange(*read["everywhere"]),
            TopicParts(nodes, _range(read["light"])),
            attributes,
            names,
            read["least"],
            tuple([PartGroup(*group) for group in read["groups"]]),
        )

    # Choosing a key

    def _choice(self, keys: SubscriptionKeys) -> tuple[str, Any]:
        """The class in which a subscription is filed, and the key there: what the fewest events have.

        The key is a node with its fingerprint, an attribute, a label, or None for what lives everywhere.
        """
        least = self.least
        kind, cost = EVERYWHERE, 1.0
        key: Any = None
        if keys.topic and self.topics.light is not None:
            prefix, node = self.topics.find(keys.topic)
            if prefix is not None:
                kind, key = TOPIC, (prefix, node)
                cost = node.share if node is not None else least
        if cost > least and self.values:
            for name, spans in keys.values.items():
                attribute = self.values.get(name)
                if attribute is not None:
                    asked = self._values_cost(attribute, spans, keys.single)
                    if asked < cost:
                        kind, key, cost = VALUES, name, asked
        if cost > least and self.labels.places and keys.labels:
            label = self.labels.find(keys.labels)
            share = 1.0 if label is None else LABEL_COST * max(self.labels.shares[label], least)
            if label is not None and min(share, PRESENCE_COST) < cost:
                kind, key = LABEL, label
        return kind, key

    def _values_cost(self, attribute: AttributeParts, spans: Spans, single: bool) -> float:
        """The cost of filing under an attribute; 1 or more when that is not to be done."""
        share = attribute.share(spans)
        if len(spans) == 1 and spans[0][1] == spans[0][2]:
            return min(max(share, self.least), PRESENCE_COST)
        if single or share > WIDE or attribute.reach(spans) > MAX_BUCKETS:
            return 1.0
        return max(share, self.least) * REACH_COST

    # Making a plan

    def _with_buckets(self, given: Sequence[SubscriptionKeys], room: float) -> Rendezvous:
        """The draft with its attributes cut into buckets for what would be filed under them."""
        filed = self._filed(given)
        cut = {
            name: values.cut(attribute, filed.values.get(name, []), room)
            for name, attribute in self.values.items()
        }
        return replace(self, values=cut)

    def _settled(self, given: Sequence[SubscriptionKeys], room: float, per_keys: float) -> Rendezvous:
        """The draft with places of sizes that fit what is filed there."""
        filed = self._filed(given)
        allotment = PartAllotment(room)
        settled = replace(
            self,
            topics=topics.settle(self.topics, filed.topics, allotment),
            values=values.settle(self.values, filed.values, allotment),
            labels=labels.settle(self.labels, filed.labels, allotment),
        )
        # What found no place after all, for being too little to be worth one, lives everywhere too.
        left = sum(settled._choice(keys)[0] == EVERYWHERE for keys in given)
        everywhere = allotment.hashed(left, "everywhere")
        groups = tuple([group._replace(expected=group.expected * per_keys) for group in allotment.groups])
        return replace(settled, parts=allotment.parts, everywhere=everywhere, groups=groups)

    def _filed(self, given: Sequence[SubscriptionKeys]) -> _Filed:
        filed = _Filed([], {}, [])
        for keys in given:
            kind, key = self._choice(keys)
            if kind == TOPIC:
                filed.topics.append(keys.topic)
            elif kind == VALUES:
                filed.values.setdefault(key, []).append(keys.values[key])
            elif kind == LABEL:
                filed.labels.append(keys.labels)
        return filed


class _Filed(NamedTuple):
    """What is filed in each class."""

    topics: list[tuple[int, ...]]
    values: dict[str, list[Spans]]
    labels: list[tuple[str, ...]]


def _draft(given: Sequence[SubscriptionKeys], room: float) -> Rendezvous:
    """A plan in which every key is known and nothing has its place yet."""
    spans: dict[str, list[Spans]] = {}
    for keys in given:
        for name, found in keys.values.items():
            spans.setdefault(name, []).append(found)
    return Rendezvous(
        1,
        PROVISIONAL,
        topics.draft([keys.topic for keys in given if keys.topic], room),
        values.draft(spans),
        labels.draft([keys.labels for keys in given if keys.labels]),
        min(1.0, room / max(len(given), 1)),
        (),
    )


def _range(given: Any) -> PartRange | None:
    return None if given is None else PartRange(*given)


def _sides(given: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    numbers, texts = given
    return tuple(numbers), tuple(texts)
