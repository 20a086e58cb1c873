"""Planning a segment: runs of numbers, and the keys that conjunctions are found by."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.matching.where.collecting import CollectedConditions
from distributary.matching.where.constraints import runs, starts_of
from distributary.matching.where.plan import _key_constraints

OFTEN = st.sampled_from([0.0, 0.01, 0.02, 0.02 + 1e-12, 0.5, 1.0])
CONJUNCTIONS = st.lists(st.lists(st.tuples(st.booleans(), OFTEN), max_size=5), max_size=12)
LAST = np.iinfo(np.int32).max


@given(st.lists(st.tuples(st.integers(0, LAST), st.integers(0, 5)), max_size=20), st.booleans())
def test_runs_are_the_numbers_of_each_run_one_after_another(given: list[tuple[int, int]], wide: bool) -> None:
    """At the end of what 32 bits hold too."""
    starts = np.array([start for start, _ in given], np.int64 if wide else np.int32)
    sizes = np.array([size for _, size in given], np.int32)
    expected = [number for start, size in given for number in range(start, start + size)]
    assert runs(starts, sizes).tolist() == expected


@pytest.mark.parametrize(("start", "width"), [(LAST - 2, np.int32), (LAST - 1, np.int64), (2**40, np.int64)])
def test_runs_have_32_bits_only_if_every_number_fits(start: int, width: type[np.integer]) -> None:
    found = runs(np.array([0, start]), np.array([2, 2]))
    assert found.dtype == width
    assert found.tolist() == [0, 1, start, start + 1]


@given(CONJUNCTIONS, OFTEN)
def test_the_key_is_the_first_of_the_rarest_equalities_that_are_rare_enough(
    conjunctions: list[list[tuple[bool, float]]], keyed_below: float
) -> None:
    flat = replace(
        CollectedConditions().flat(), start=starts_of(np.array([len(one) for one in conjunctions], np.int64))
    )
    constraints = [constraint for one in conjunctions for constraint in one]
    equality = np.array([equal for equal, _ in constraints], np.bool_)
    often = np.array([share for _, share in constraints], np.float64)
    expected = np.zeros(len(constraints), np.bool_)
    for begin, end in pairwise(flat.start.tolist()):
        equalities = [at for at in range(begin, end) if equality[at]]
        rarest = min(equalities, key=lambda at: often[at], default=None)
        if rarest is not None and often[rarest] <= keyed_below:
            expected[rarest] = True
    assert _key_constraints(flat, equality, often, keyed_below).tolist() == expected.tolist()
