"""From serials to numbers, whether or not the serials ascend."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from distributary.matching.serials import NONE, Serials

SERIALS = st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, max_size=30)


@given(SERIALS, st.booleans(), st.integers(-(2**63), 2**63 - 1))
def test_each_serial_leads_to_its_number_and_others_to_none(
    serials: list[int], ascending: bool, other: int
) -> None:
    if ascending:
        serials.sort()
    numbers = np.arange(7, 7 + len(serials), dtype=np.int32)
    opened = Serials.open(Serials.freeze(np.array(serials, np.int64), numbers))
    assert opened.find(np.array(serials, np.int64)).tolist() == numbers.tolist()
    if other not in serials:
        assert opened.find(np.array([other], np.int64)).tolist() == [NONE]
