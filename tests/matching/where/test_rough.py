"""Rough bounds decide what the bounds themselves would, and leave open what they cannot tell."""

import numpy as np
import pyarrow as pa
import pytest

from distributary.filters.where.filter import WhereFilter
from distributary.matching.batch import EventBatch
from distributary.matching.columns import BOOLEAN, NULL, NUMBER
from distributary.matching.where.bitsets import WhereBitsets
from distributary.matching.where.plan import Buckets, bucket_of
from distributary.matching.where.rough import EACH, MOST, NOT_ROUGH, may_hold, rough_value, surely_holds
from distributary.matching.where.rough import lane as whole_lane
from distributary.model import Event

CUTS = np.array([-1.7e308, -3.0, 0.0, 5e-324, 0.1, 0.1 + 1e-12, 7.0, 1.7e308])
BUCKETS = Buckets(
    np.array([0, len(CUTS), len(CUTS), len(CUTS)], np.int32),
    CUTS,
    np.array([1, 0, 0], np.uint8),
    np.array([[10, 11, 12, 0]], np.uint8),
    np.array([13], np.int32),
)
SPREAD = np.concatenate([CUTS, np.linspace(-5, 10, 301), np.linspace(0.1, 0.1 + 1e-12, 90)])
VALUES = np.unique(np.concatenate([SPREAD, np.nextafter(SPREAD, np.inf), [-np.inf, np.inf, -1e308, 1e308]]))


def rough(value, tag=NUMBER):
    return rough_value(BUCKETS, 0, tag, value, bucket_of(BUCKETS, 0, tag, value))


def lane(value, place):
    return np.uint64(whole_lane(value, place))  # a kernel called from Python gives an int


def test_rough_values_never_decrease_and_fit_a_lane():
    found = [rough(value) for value in VALUES.tolist()]
    assert found == sorted(found)
    assert len(set(found)) > 150
    assert all(0 < each < MOST for each in found)


@pytest.mark.parametrize("place", range(4))
def test_what_is_sure_holds_and_what_cannot_be_does_not(place):
    random = np.random.default_rng(place)
    sure = refused = 0
    for low, value, high in random.choice(VALUES, (4_000, 3)).tolist():
        low, high = min(low, high), max(low, high)
        lower, upper = lane(rough(low), place), lane(rough(high), place)
        for other in range(4):
            upper |= np.uint64(0) if other == place else lane(MOST, other)
        lanes = EACH | lane(rough(value), place)
        if surely_holds(lower, upper, lanes):
            sure += 1
            assert may_hold(lower, upper, lanes)
            assert low <= value <= high
        if not may_hold(lower, upper, lanes):
            refused += 1
            assert not low <= value <= high
    assert sure > 500
    assert refused > 1_000


def test_values_of_other_kinds_are_outside_of_all_ranges():
    lower, upper = lane(rough(-np.inf), 0), lane(rough(np.inf), 0)
    for tag, value in ((BOOLEAN, 0.0), (BOOLEAN, 1.0), (NULL, 0.0)):
        upper_of_all = upper | sum((lane(MOST, other) for other in range(1, 4)), np.uint64(0))
        assert not may_hold(lower, upper_of_all, EACH | lane(rough(value, tag), 0))


@pytest.mark.parametrize("constrained", [1, 2, 3, 4, 5])
def test_ranges_are_found_as_their_bounds_say(constrained):
    random = np.random.default_rng(constrained)
    count = 3_000
    low = np.round(random.random((count, constrained)) * 0.7, 3)
    high = np.round(low + 0.3, 3)
    names = [f"a{number}" for number in range(constrained)]
    texts = [
        " and ".join(f"{name} between {a!r} and {b!r}" for name, a, b in zip(names, lows, highs, strict=True))
        for lows, highs in zip(low.tolist(), high.tolist(), strict=True)
    ]
    index = WhereBitsets()
    index.add_many(range(count), list(map(WhereFilter.parse, texts)))
    # Half of the values are bounds, and of those half are moved by the least that can be.
    values = random.random((2_500, constrained))
    bounds = np.concatenate([low, high])[random.integers(0, 2 * count, len(values))]
    moved = np.nextafter(bounds, np.where(random.random(bounds.shape) < 0.5, 1.0, 0.0))
    choice = random.random(values.shape)
    values = np.where(choice < 0.25, bounds, np.where(choice < 0.5, moved, values))
    expected = [np.flatnonzero(((low <= row) & (row <= high)).all(axis=1)).tolist() for row in values[:200]]

    ids = {"id": [f"e{number}" for number in range(len(values))]}
    table = pa.table({**ids, **{name: values[:, place] for place, name in enumerate(names)}})
    for size in (200, 64, len(values)):
        rows, slots = index.match_batch(EventBatch.from_table(table.slice(0, size)))
        for row in range(min(size, 200)):
            assert np.sort(slots[rows == row]).tolist() == expected[row]
    ((_, segment),) = index.segments()
    assert (segment.readable["block_rough"] != NOT_ROUGH).all() == (constrained <= 4)
    for number, row in enumerate(values[:200].tolist()):
        event = Event(f"e{number}", attributes=dict(zip(names, row, strict=True)))
        assert index.match(event) == expected[number]


def test_blocks_of_equalities_have_no_rough_bounds():
    index = WhereBitsets()
    texts = [f"a = {number % 7} and b < {number}" for number in range(2_000)]
    index.add_many(range(len(texts)), list(map(WhereFilter.parse, texts)))
    event = Event("e", attributes={"a": 3, "b": 1_000})
    assert index.match(event) == [number for number in range(1_001, 2_000) if number % 7 == 3]
    ((_, segment),) = index.segments()
    assert (segment.readable["block_rough"] == NOT_ROUGH).all()
