"""The order of answers, against sorting plainly."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.matching.index import Pairs
from distributary.matching.order import MANY, at_places, by_row, by_row_and_rank

ROWS = 5
pairs = st.lists(st.tuples(st.integers(0, ROWS - 1), st.integers(0, 60)), max_size=150, unique=True)


def as_pairs(given_pairs: list[tuple[int, int]]) -> Pairs:
    rows, slots = np.array(given_pairs, np.int32).reshape(-1, 2).T
    return Pairs(rows, slots)


@given(pairs)
def test_pairs_are_put_in_order_of_rows_and_keep_their_own(given_pairs: list[tuple[int, int]]) -> None:
    ordered = by_row(as_pairs(given_pairs), ROWS)
    found = list(zip(ordered.rows.tolist(), ordered.slots.tolist(), strict=True))
    assert found == sorted(given_pairs, key=lambda pair: pair[0])


@given(pairs, st.permutations(range(61)))
def test_pairs_of_a_row_are_put_in_order_of_rank(
    given_pairs: list[tuple[int, int]], ranking: list[int]
) -> None:
    given_as_pairs = as_pairs(given_pairs)
    ordered = by_row_and_rank(given_as_pairs, np.array(ranking).take, ROWS)
    found = list(zip(ordered.rows.tolist(), ordered.slots.tolist(), strict=True))
    assert found == sorted(given_pairs, key=lambda pair: (pair[0], ranking[pair[1]]))


@given(st.sampled_from((0.3, 0.8)), st.integers(0, 1 << 32))
def test_rows_with_many_pairs_are_put_in_order_of_rank(share: float, seed: int) -> None:
    rng = random.Random(seed)
    ranking = rng.sample(range(150), 150)
    given_pairs = [(row, slot) for row in range(ROWS) for slot in range(150) if rng.random() < share]
    rng.shuffle(given_pairs)
    ordered = by_row_and_rank(as_pairs(given_pairs), np.array(ranking).take, ROWS)
    found = list(zip(ordered.rows.tolist(), ordered.slots.tolist(), strict=True))
    assert found == sorted(given_pairs, key=lambda pair: (pair[0], ranking[pair[1]]))


@pytest.mark.parametrize("seed", range(3))
def test_pairs_of_many_numbers_that_are_seldom_are_put_in_order_of_rank(seed: int) -> None:
    """They are sorted digit by digit."""
    rng, rows = random.Random(seed), 200
    ranking = rng.sample(range(3000), 3000)
    given_pairs = [(row, slot) for row in range(rows) for slot in rng.sample(range(3000), 30)]
    rng.shuffle(given_pairs)
    ordered = by_row_and_rank(as_pairs(given_pairs), np.array(ranking).take, rows)
    found = list(zip(ordered.rows.tolist(), ordered.slots.tolist(), strict=True))
    assert found == sorted(given_pairs, key=lambda pair: (pair[0], ranking[pair[1]]))


@given(st.integers(0, 1 << 32), st.sampled_from((1, 3, 2**50)))
def test_rows_with_many_pairs_of_very_many_numbers_are_put_in_order_of_rank(seed: int, step: int) -> None:
    """Sorted by a word for each pair, where row, rank and number fit into one."""
    rng = random.Random(seed)
    ranking = [step * place for place in rng.sample(range(1000), 1000)]
    given_pairs = [(row, slot) for row in range(ROWS) for slot in (*rng.sample(range(999), 30), 999)]
    rng.shuffle(given_pairs)
    ordered = by_row_and_rank(as_pairs(given_pairs), np.array(ranking).take, ROWS)
    found = list(zip(ordered.rows.tolist(), ordered.slots.tolist(), strict=True))
    assert found == sorted(given_pairs, key=lambda pair: (pair[0], ranking[pair[1]]))


@pytest.mark.parametrize("count", [0, 5, MANY - 1, MANY, MANY + 7])
def test_values_are_taken_at_many_places_as_at_few(count: int) -> None:
    rng = np.random.default_rng(count)
    values = rng.integers(-5, 1 << 30, 300).astype(np.int32)
    places = rng.integers(0, 300, count).astype(np.int32)
    assert at_places(values, places).tolist() == [int(values[place]) for place in places]
    assert at_places(values[::2], places // 2).tolist() == at_places(values[::2].copy(), places // 2).tolist()


@pytest.mark.parametrize("rows", [1, 2, 31, 32, 33, 64, 65, 2047, 2048])
@pytest.mark.parametrize("each", [1, 3, 200])
def test_batches_of_any_size_are_put_in_order_of_rank(rows: int, each: int) -> None:
    rng = np.random.default_rng(rows * each)
    numbers = 100_000
    ranks = rng.permutation(numbers)
    slots = np.concatenate([rng.choice(numbers, each, replace=False) for _ in range(rows)]).astype(np.int32)
    mixed = rng.permutation(len(slots))
    given_pairs = Pairs(np.repeat(np.arange(rows, dtype=np.int32), each)[mixed], slots[mixed])
    order = np.lexsort((ranks[given_pairs.slots], given_pairs.rows))
    ordered = by_row_and_rank(given_pairs, ranks.take, rows)
    assert np.array_equal(ordered.rows, given_pairs.rows[order])
    assert np.array_equal(ordered.slots, given_pairs.slots[order])
