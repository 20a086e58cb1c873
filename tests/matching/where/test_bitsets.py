"""What the layout of conditions must get right beside the answers: paths, mixed columns, numbers, hashes."""

from __future__ import annotations

from itertools import pairwise
from math import inf

import numpy as np
import pyarrow as pa
import pytest

from distributary.filters.where.filter import WhereFilter
from distributary.kernel import sealed
from distributary.matching.batch import EventBatch
from distributary.matching.matcher import Matcher
from distributary.matching.where.bitsets import ROWS, WhereBitsets
from distributary.matching.where.blocks import BLOCK
from distributary.matching.where.find import ROOM
from distributary.matching.where.texts import named_texts, rank_texts, text_hash
from distributary.model import Event, Subscription
from distributary.workloads import ranges, rules


def index_of(*texts: str) -> WhereBitsets:
    index = WhereBitsets()
    index.add_many(range(len(texts)), map(WhereFilter.parse, texts))
    return index


def pairs(index: WhereBitsets, table: pa.Table) -> list[tuple[int, int]]:
    rows, slots = index.match_batch(EventBatch.from_table(table))
    return sorted(zip(rows.tolist(), slots.tolist(), strict=True))


def test_one_column_may_hold_every_type():
    index = index_of("a = 1", "a = '1'", "a = true", "a is null", "a is not null", "a >= ''", "a <> 1")
    values = [1, "1", True, None, (1,), float("nan"), False, 2]
    batch = EventBatch.from_events(
        [Event(str(number), attributes={"a": value}) for number, value in enumerate(values)]
    )
    rows, slots = index.match_batch(batch)
    found = [sorted(slots[rows == row].tolist()) for row in range(len(values))]
    assert found == [[0, 4], [1, 4, 5], [2, 4], [3], [4], [4], [4], [4, 6]]


def test_whole_numbers_that_a_float_cannot_hold_are_told_apart():
    index = index_of(f"a = {2**53 + 1}", f"a > {2**53}", f"a <= {2**53}", f"a in (1, {2**53 + 1})", "a > 5")
    table = pa.table({"id": ["0", "1", "2"], "a": pa.array([2**53, 2**53 + 1, 2**53 + 2], pa.int64())})
    assert pairs(index, table) == [(0, 2), (0, 4), (1, 0), (1, 1), (1, 3), (1, 4), (2, 1), (2, 4)]


def test_numbers_beyond_every_float_compare_as_numbers():
    index = index_of("a > 1e308", "a < 1e308", f"a = {10**300}", f"a > {10**300}", "a > 5")
    values = (10**400, -(10**400), 10**300, 10**300 + 1, 1e300)
    found = [index.match(Event("e", attributes={"a": value})) for value in values]
    assert found == [[0, 3, 4], [1], [1, 2, 4], [1, 3, 4], [1, 3, 4]]
    assert 1e300 > 10**300


@pytest.mark.parametrize("text", ["a <> 9007199254740993.0 or a = x'00'", "a not between x'00' and -1e400"])
def test_a_number_that_no_float_holds_beside_bytes_keeps_what_it_asks_for(text):
    events = [Event(f"e{number}", attributes={"a": value}) for number, value in enumerate((4, inf, "x"))]
    for engine in ("bitsets", "counting"):
        matcher = Matcher([Subscription("s", "u", where=text)], engines={"where": engine})
        assert [matcher.match(event) for event in events] == [["s"], ["s"], []]


def test_minus_zero_is_zero():
    index = index_of("a = 0", "a = -0.0", "a > -0.0", "a <= 0", "a in (0, 'x')")
    table = pa.table({"id": ["0", "1"], "a": [-0.0, 5e-324]})
    assert pairs(index, table) == [(0, 0), (0, 1), (0, 3), (0, 4), (1, 2)]


def test_infinities_lie_beyond_all_bounds():
    index = index_of("a > 1", "a < 1", "a >= 1e308", "a <> 0", "a <= 1.7976931348623157e+308")
    table = pa.table({"id": ["0", "1"], "a": [float("inf"), float("-inf")]})
    assert pairs(index, table) == [(0, 0), (0, 2), (0, 3), (1, 1), (1, 3), (1, 4)]


def test_a_filter_that_holds_in_several_ways_is_reported_once():
    index = index_of("a > 1 or b > 1 or c like '%x%'", "a > 1 or a > b")
    table = pa.table({"id": ["0", "1", "2"], "a": [2, 2, 0], "b": [2, 0, 0], "c": ["x", "y", "axb"]})
    assert pairs(index, table) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]


def test_a_condition_without_disjunctive_form_is_evaluated():
    exploded = " and ".join(f"(a{number} = 1 or b{number} = 1)" for number in range(8))
    assert WhereFilter.parse(exploded).conjunctions is None
    index = index_of(exploded, "a0 = 1", exploded + " and c = 1")
    table = pa.table({"id": ["0", "1"]} | {f"a{number}": [1, number] for number in range(8)} | {"c": [0, 1]})
    assert pairs(index, table) == [(0, 0), (0, 1)]


def test_without_its_columns_a_batch_matches_only_what_asks_for_that():
    index = index_of("a = 1", "a is null", "a is null and b is null and c is null", "b <> 'x'")
    assert pairs(index, pa.table({"id": ["0", "1"]})) == [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert pairs(index, pa.table({"id": pa.array([], pa.string())})) == []
    assert pairs(WhereBitsets(), pa.table({"id": ["0"], "a": [1]})) == []


def test_texts_are_ordered_by_code_point():
    index = index_of("a > 'é'", "a < 'z'", "a between 'a' and 'b'", "a like 'ab%'", "a = ''", "a >= ''")
    table = pa.table({"id": list("01234"), "a": ["\U0001f600", "\uffff", "ab", "", "aé"]})
    found = pairs(index, table)
    assert [[slot for at, slot in found if at == row] for row in range(5)] == [
        [0, 5],
        [0, 5],
        [1, 2, 3, 5],
        [1, 4, 5],
        [1, 2, 5],
    ]


def test_more_rows_and_conjunctions_than_a_block_holds():
    """Ranges that all lie over the same two attributes, and more rows than one pass takes."""
    count = 3 * BLOCK
    filters = [f"a >= {number} and a < {number + 7} and b > {number % 10}" for number in range(count)]
    index = index_of(*filters)
    a = np.arange(ROWS + 100) % (count + 50)
    b = np.arange(ROWS + 100) % 11
    rows, slots = index.match_batch(
        EventBatch.from_table(pa.table({"id": [str(row) for row in range(len(a))], "a": a, "b": b}))
    )
    numbers = np.arange(count)
    expected = (a[:, None] >= numbers) & (a[:, None] < numbers + 7) & (b[:, None] > numbers % 10)
    found = np.zeros_like(expected)
    found[rows, slots] = True
    assert len(rows) == expected.sum()
    assert (found == expected).all()


@pytest.mark.parametrize("held", [ROOM - 1, ROOM, ROOM + 1, 2 * ROOM + 1])
def test_one_event_passes_more_conditions_than_are_checked_at_a_time(held):
    count = held + BLOCK
    index = index_of(*(f"a >= {number} and b > -{number % 9 + 1}" for number in range(count)))
    expected = list(range(held))
    assert index.match(Event("e", attributes={"a": held - 1, "b": 0})) == expected
    assert pairs(index, pa.table({"id": ["e"], "a": [held - 1], "b": [0]})) == [
        (0, slot) for slot in expected
    ]


def test_blocks_of_other_kinds_beside_each_other_are_told_apart():
    """Each kind fills more than a block, and all have as many constraints."""
    values = {"number": 5, "text": "'t'", "yes": "true"}
    kinds = [(one, other) for one in values.values() for other in values.values()]
    count = len(kinds) * 2 * BLOCK
    asked = [kinds[number * len(kinds) // count] for number in range(count)]
    index = index_of(*(f"a = {one} and b = {other} and c > {n}" for n, (one, other) in enumerate(asked)))
    of_event = {5: 5, "'t'": "t", "true": True}
    for wanted in kinds:
        attributes = {"a": of_event[wanted[0]], "b": of_event[wanted[1]], "c": count - BLOCK}
        expected = [n for n, given in enumerate(asked) if given == wanted and n < count - BLOCK]
        assert index.match(Event("e", attributes=attributes)) == expected
        table = pa.table({"id": ["e"], **{name: [value] for name, value in attributes.items()}})
        assert [slot for _, slot in pairs(index, table)] == expected


def test_rare_values_are_keys_and_the_rest_is_grouped():
    index = index_of(*(f"a = {number} and b = {number % 3}" for number in range(3000)))
    ((_, segment),) = index.segments()
    assert len(segment.arrays["key_postings"]) == 3000
    common = index_of(*(f"a = {number % 3} and b > {number}" for number in range(3000)))
    ((_, segment),) = common.segments()
    assert len(segment.arrays["key_postings"]) == 0
    assert index.match(Event("e", attributes={"a": 2999, "b": 2})) == [2999]
    assert common.match(Event("e", attributes={"a": 1, "b": 5})) == [1, 4]


def test_texts_whose_hashes_fall_together_are_told_apart():
    texts = sorted(f"t{number}" for number in range(2000))
    table = named_texts([texts], np.array([True]))
    mask = len(table.slots) - 1
    data = np.frombuffer("".join(texts).encode(), np.uint8)
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])])
    places = {int(text_hash(data, start, end)) & mask for start, end in pairwise(offsets.tolist())}
    assert len(places) < len(texts), "no two fall together, so this shows nothing"
    asked = sorted([*texts, *(text + "x" for text in texts)])
    data = np.frombuffer("".join(asked).encode(), np.uint8)
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in asked])])
    values = np.zeros((len(asked), 1))
    tags = np.full(len(asked), 2, np.uint8)
    read = type(table)(*map(sealed, table))
    rank_texts(read, 0, *map(sealed, (data, offsets[:-1].copy(), offsets[1:].copy(), tags)), values, 0)
    number_of = {text: number for number, text in enumerate(texts)}
    expected = [
        2 * number_of[text] + 1 if text in number_of else 2 * sum(other < text for other in texts)
        for text in asked
    ]
    assert values[:, 0].tolist() == expected


@pytest.mark.parametrize("workload", [ranges, rules])
def test_workloads_hold_the_same_events_either_way(workload):
    events = list(workload.events(50, seed=3))
    assert events == [Event.from_record(record) for record in workload.table(50, seed=3).to_pylist()]
    assert [s.where for s in workload.subscriptions(20, seed=3)] == [
        s.where for s in workload.subscriptions(30, seed=3)
    ][:20]


@pytest.mark.parametrize(("workload", "count"), [(ranges, 3_000), (rules, 3_000), (rules, 20_000)])
@pytest.mark.parametrize("few", [1, 5, 40, 100])
def test_a_few_rows_find_what_many_find_whether_or_not_they_share_blocks(workload, count, few):
    index = index_of(*(one.where for one in workload.subscriptions(count, seed=1)))
    table = workload.table(400, seed=1)
    found = [
        (first + row, slot)
        for first in range(0, len(table), few)
        for row, slot in pairs(index, table.slice(first, few))
    ]
    assert len(table) > index.few_rows >= few
    assert found == pairs(index, table)
