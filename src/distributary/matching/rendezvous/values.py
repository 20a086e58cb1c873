"""Where conditions and attribute values meet: in order-preserving buckets of the values.

The line of an attribute (numbers, then the fingerprints of texts; see `keys`) is cut into buckets
that hold about as many subscriptions each. A subscription lives in every bucket that its spans reach into;
an event visits the one bucket that its value is in.

Rules:

- A bucket has a place of its own, which no other bucket of the attribute shares, for else a subscription
  that lives in several buckets could meet an event twice. An attribute that has only one bucket of one part
  may share it with others of that kind: what lives there lives nowhere else.
- The last numbers and the first texts may be in one bucket: an event's value is one of the two.
- A value that very many subscriptions name is a bucket by itself, divided by the hash of their ids.
- The *scale* of an attribute, some quantiles of the bounds that subscriptions name, says which share of the
  values a subscription is likely to want. It decides where one is filed, never whether it is found.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import ceil, inf, isfinite, nextafter

import numpy as np
from numpy.typing import NDArray

from distributary.kernel import Bytes, Floats, Ints, Longs, kernel, sealed
from distributary.matching.columns import NULL, OTHER, STRING, AttributeColumn, Strings
from distributary.matching.rendezvous.keys import CRC_TABLE, NUMBERS, TEXTS, Span, text_fingerprint
from distributary.matching.rendezvous.parts import (
    FULL,
    PROVISIONAL,
    PartAllotment,
    PartRange,
    Visits,
    append_visits,
)

SCALE = 256
"""Quantiles in a scale."""

REPLICAS = 2.0
"""How many times an attribute's subscriptions are stored, on average, because they reach over buckets."""

NO_STRINGS = Strings(
    np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_)
)

Spans = Sequence[Span]
Sides = tuple[tuple[float, ...], tuple[float, ...]]
"""Ascending places on the side of the numbers and on that of the texts."""


@dataclass(frozen=True)
class AttributeParts:
    """One attribute: its scale, where it is cut, and the place of each bucket."""

    scale: Sides
    cuts: Sides = ((), ())
    places: tuple[PartRange, ...] = (PROVISIONAL,)

    def share(self, spans: Spans) -> float:
        """Which share of the attribute's values is likely to lie in the spans."""
        inside = 0
        for side, low, high in spans:
            scale = self.scale[side]
            inside += bisect_right(scale, high) - bisect_left(scale, low)
        return inside / (len(self.scale[NUMBERS]) + len(self.scale[TEXTS]))

    def reach(self, spans: Spans) -> int:
        """How many buckets the spans reach into, counted for each span."""
        cuts = self.cuts
        return sum(
            1 + bisect_right(cuts[side], high) - bisect_right(cuts[side], low) for side, low, high in spans
        )

    def buckets(self, spans: Spans) -> set[int]:
        """The buckets that the spans reach into, each once."""
        texts_from = len(self.cuts[NUMBERS])
        found: set[int] = set()
        for side, low, high in spans:
            cuts = self.cuts[side]
            shift = texts_from if side == TEXTS else 0
            found.update(range(shift + bisect_right(cuts, low), shift + bisect_right(cuts, high) + 1))
        return found

    def parts(self, spans: Spans, identity: int) -> list[int]:
        """The parts where a subscription with these spans lives, ascending."""
        return sorted([self.places[bucket].part_of(identity) for bucket in self.buckets(spans)])

    def loads(self, given: Iterable[Spans]) -> list[int]:
        """How many of these subscriptions live in each bucket."""
        loads = Counter(bucket for spans in given for bucket in self.buckets(spans))
        return [loads[bucket] for bucket in range(len(self.places))]

    def visits(self, column: AttributeColumn) -> Visits:
        """The rows and the parts that they visit, each pair once."""
        strings = column.strings or NO_STRINGS
        texts = (sealed(strings.data), sealed(strings.starts), sealed(strings.ends))
        return _visits(sealed(column.tags), sealed(column.numbers), *texts, CRC_TABLE, *self._arrays)

    @cached_property
    def _arrays(self) -> tuple[Floats, Floats, Ints]:
        """The cuts on either side and the places, for kernels."""
        numbers, texts = (sealed(np.array(cuts, np.float64)) for cuts in self.cuts)
        return numbers, texts, sealed(np.array(self.places, np.int32))


def draft(spans_by_attribute: Mapping[str, Sequence[Spans]]) -> dict[str, AttributeParts]:
    """The attributes with their scales; all that subscriptions say about each is given. One bucket each."""
    scales = {name: _quantiles(_ends(given), SCALE) for name, given in spans_by_attribute.items()}
    return {name: AttributeParts(scale) for name, scale in scales.items() if any(scale)}


def cut(attribute: AttributeParts, given: Sequence[Spans], capacity: float) -> AttributeParts:
    """The attribute cut into buckets for the subscriptions filed there; their places are provisional."""
    # Single values reach over no cut, however often they are named.
    reaching = [[span for span in spans if span[1] < span[2]] for spans in given]
    width = sum(map(attribute.share, reaching)) / max(len(given), 1)
    most = (REPLICAS - 1) / width if width else inf
    wanted = ceil(min(2 * len(given) / (FULL * capacity), max(most, 1)))
    if wanted < 2:
        return attribute
    cuts = _cuts(_ends(given), wanted)
    fine = AttributeParts(attribute.scale, cuts, (PROVISIONAL,) * (len(cuts[NUMBERS]) + len(cuts[TEXTS]) + 1))
    return _joined(fine, fine.loads(given), FULL * capacity)


def settle(
    attributes: Mapping[str, AttributeParts], filed: Mapping[str, Sequence[Spans]], allotment: PartAllotment
) -> dict[str, AttributeParts]:
    """The attributes with places: `filed` are the subscriptions that are filed under each after all."""
    settled: dict[str, AttributeParts] = {}
    small: list[tuple[str, float]] = []
    for name, attribute in attributes.items():
        given = filed.get(name, ())
        loads = attribute.loads(given)
        if not given:
            continue
        if len(loads) == 1 and loads[0] <= FULL * allotment.capacity:
            small.append((name, loads[0]))
        else:
            places = allotment.own(loads, f"values of {name}")
            settled[name] = AttributeParts(attribute.scale, attribute.cuts, places)
    if not allotment.is_small(sum(load for _, load in small)):
        shared = allotment.pack(small, "values of other attributes")
        for name, place in shared.items():
            settled[name] = AttributeParts(attributes[name].scale, ((), ()), (place,))
    return settled


def _joined(attribute: AttributeParts, loads: Sequence[int], most: float) -> AttributeParts:
    """The attribute without the cuts between buckets that together hold no more than `most`."""
    kept: list[int] = []
    room = most
    for bucket, load in enumerate(loads):
        if bucket and load > room:
            kept.append(bucket - 1)
            room = most
        room -= load
    numbers = len(attribute.cuts[NUMBERS])
    cuts = (
        tuple([attribute.cuts[NUMBERS][place] for place in kept if place < numbers]),
        tuple([attribute.cuts[TEXTS][place - numbers] for place in kept if place >= numbers]),
    )
    return AttributeParts(attribute.scale, cuts, (PROVISIONAL,) * (len(kept) + 1))


def _ends(given: Iterable[Spans]) -> tuple[Floats, Floats]:
    """Both ends of all spans, ascending, by side; the infinite ones bound nothing."""
    ends: tuple[list[float], list[float]] = ([], [])
    for spans in given:
        for side, *both in spans:
            ends[side].extend(filter(isfinite, both))
    return np.sort(np.array(ends[NUMBERS])), np.sort(np.array(ends[TEXTS]))


def _quantiles(ends: tuple[Floats, Floats], count: int) -> Sides:
    """At most `count` of the ends, evenly chosen over both sides."""
    total = len(ends[NUMBERS]) + len(ends[TEXTS])
    if total > count:
        chosen = (np.arange(count) * total + total // 2) // count
        numbers = chosen[chosen < len(ends[NUMBERS])]
        texts = chosen[len(numbers) :] - len(ends[NUMBERS])
        ends = ends[NUMBERS][numbers], ends[TEXTS][texts]
    return tuple(ends[NUMBERS].tolist()), tuple(ends[TEXTS].tolist())


def _cuts(ends: tuple[Floats, Floats], wanted: int) -> Sides:
    """Cuts for about so many buckets, with a bucket for each value that fills one by itself."""
    sides = _quantiles(ends, wanted)
    cuts: list[list[float]] = []
    for quantiles in sides:
        found = set(quantiles)
        repeated = {one for one, other in pairwise(quantiles) if one == other}
        found.update(nextafter(value, inf) for value in repeated)
        cuts.append(sorted(found))
    return tuple(cuts[NUMBERS]), tuple(cuts[TEXTS])


@kernel
def _visits(
    tags: Bytes,
    numbers: Floats,
    data: Bytes,
    starts: Longs,
    ends: Longs,
    crc_table: NDArray[np.uint32],
    number_cuts: Floats,
    text_cuts: Floats,
    places: Ints,
) -> Visits:
    visits = np.empty((2, len(tags)), np.int32)
    count = 0
    for row in range(len(tags)):
        tag = tags[row]
        if tag not in (STRING, NULL, OTHER):
            bucket = np.searchsorted(number_cuts, numbers[row], "right")
        elif tag == STRING:
            value = np.float64(text_fingerprint(data, starts[row], ends[row], crc_table))
            bucket = len(number_cuts) + np.searchsorted(text_cuts, value, "right")
        else:
            continue
        visits, count = append_visits(visits, count, row, places[bucket, 0], places[bucket, 1])
    return visits[0, :count], visits[1, :count]
