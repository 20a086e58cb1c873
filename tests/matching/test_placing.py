"""The places of the ids that were found, against sorting plainly."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.kernel import Ints
from distributary.matching.index import Pairs
from distributary.matching.names import NameTable
from distributary.matching.placing import FEW, PlacedPairs, placed_numbers, placed_slots

NONE = -1
NumberPairs = list[tuple[int, int]]
small_pairs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 60)), max_size=150, unique=True)


def names_of(count: int, rng: random.Random) -> NameTable:
    """Ids that sort otherwise than their numbers; some changed since the base was made."""
    texts = [f"s{number}" for number in rng.sample(range(10 * count), count)]
    names = NameTable()
    for number, text in enumerate(texts):
        names.put(number, text)
        if number == count * 3 // 4 and rng.random() < 0.5:
            names.settle()
    return names


def as_pairs(given_pairs: NumberPairs) -> Pairs:
    rows, slots = np.array(given_pairs, np.int32).reshape(-1, 2).T
    return Pairs(np.ascontiguousarray(rows), np.ascontiguousarray(slots))


def check(found: PlacedPairs | None, expected: NumberPairs, names: NameTable) -> None:
    """Compare with the pairs of row and number, sorted by row and id; each id that is found is there once."""
    assert found is not None
    ordered = sorted(expected, key=lambda pair: (pair[0], str(names.text(pair[1]))))
    assert list(zip(found.rows.tolist(), found.numbers[found.places].tolist(), strict=True)) == ordered
    texts = [str(names.text(number)) for number in found.numbers.tolist()]
    assert texts == sorted({str(names.text(number)) for _, number in expected})


def linked(lists: list[list[int]], numbers: int) -> tuple[Ints, Ints]:
    """The lists of slots as a registry has them: by slot the first number, by number the next."""
    first, following = np.full(len(lists), NONE, np.int32), np.full(numbers, NONE, np.int32)
    for slot, members in enumerate(lists):
        first[slot] = members[0]
        for before, after in pairwise(members):
            following[before] = after
    return first, following


@given(small_pairs, st.integers(0, 1 << 32))
def test_pairs_of_row_and_number_are_put_in_order_of_id(given_pairs: NumberPairs, seed: int) -> None:
    names = names_of(61, random.Random(seed))
    check(placed_numbers(as_pairs(given_pairs), names, 5), given_pairs, names)


@given(small_pairs, st.integers(0, 1 << 32), st.booleans())
def test_slots_become_their_subscriptions_in_order_of_id(
    given_pairs: NumberPairs, seed: int, ascending: bool
) -> None:
    rng = random.Random(seed)
    alone = rng.random() < 0.3
    sizes = [1 if alone else rng.choice((1, 1, 2, 5, 40)) for _ in range(61)]
    numbers = iter(rng.sample(range(sum(sizes)), sum(sizes)))
    lists = [[next(numbers) for _ in range(size)] for size in sizes]
    names = names_of(sum(sizes), rng)
    first, following = linked(lists, sum(sizes))
    pairs = as_pairs(sorted(given_pairs) if ascending else given_pairs)
    without = np.full(61, NONE, np.int32)
    expected = [(row, number) for row, slot in given_pairs for number in lists[slot]]
    check(placed_slots(pairs, first, without, following, names, 5), expected, names)


@pytest.mark.parametrize("rows", [1, 2, 64, 65])
@pytest.mark.parametrize("numbers", [63, 64, 65, 4096, 4097, 9000])
@pytest.mark.parametrize("each", [1, FEW, FEW + 1, 63, 2000])
def test_rows_with_few_and_with_many_pairs(rows: int, numbers: int, each: int) -> None:
    """Sorted by insertion, by bits, and by bits with a summary; at every border between these."""
    rng = random.Random(rows * numbers * each)
    names = names_of(numbers, rng)
    given_pairs = [
        (row, number) for row in range(rows) for number in rng.sample(range(numbers), min(each, numbers))
    ]
    check(placed_numbers(as_pairs(given_pairs), names, rows), given_pairs, names)
    rng.shuffle(given_pairs)
    check(placed_numbers(as_pairs(given_pairs), names, rows), given_pairs, names)


def test_a_slot_with_a_tolerance_is_left_to_others() -> None:
    names = names_of(3, random.Random(1))
    first, following = linked([[0], [1], [2]], 3)
    changing = np.array([NONE, 2, NONE], np.int32)
    pairs = as_pairs([(0, 0), (1, 2)])
    assert placed_slots(pairs, first, changing, following, names, 2) is not None
    assert placed_slots(as_pairs([(0, 0), (1, 1)]), first, changing, following, names, 2) is None


def test_what_is_given_stays_as_it_is() -> None:
    names = names_of(200, random.Random(2))
    given_pairs = [(row, number) for row in range(3) for number in range(200)]
    pairs = as_pairs(given_pairs)
    placed_numbers(pairs, names, 3)
    assert list(zip(pairs.rows.tolist(), pairs.slots.tolist(), strict=True)) == given_pairs
