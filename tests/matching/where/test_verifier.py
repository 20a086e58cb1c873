"""The where verifier answers for pairs, and only looks at the rows they name."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from distributary.filters.where.filter import WhereFilter
from distributary.matching.batch import EventBatch
from distributary.matching.where.verifier import WhereVerifier

TABLE = pa.table({"id": list("0123"), "a": [1, 5, 9, None], "b": ["x", "y", "xy", "z"]})


def verified(verifier: WhereVerifier, pairs: list[tuple[int, int]]) -> list[bool]:
    rows, slots = np.array(pairs, np.int32).reshape(-1, 2).T
    return verifier.verify(EventBatch.from_table(TABLE), rows, slots).tolist()


def test_pairs_come_back_in_their_order():
    verifier = WhereVerifier()
    verifier.add(3, WhereFilter.parse("a > 4"))
    verifier.add(7, WhereFilter.parse("b like '%y' or a is null"))
    assert verified(verifier, [(2, 3), (0, 3), (2, 7), (0, 7), (3, 7), (2, 3)]) == [
        True, False, True, False, True, True,
    ]  # fmt: skip
    assert verified(verifier, []) == []


def test_a_slot_without_a_condition_lets_all_pass():
    verifier = WhereVerifier()
    verifier.add(3, WhereFilter.parse("a > 4"))
    verifier.remove(3)
    assert verified(verifier, [(0, 3), (0, 99)]) == [True, True]
