"""Topic filters that are asked only about pairs another kind's index has found.

Nothing is compiled: the canonical text of a filter is compared with the bytes of the topic. Each pair costs
time linear in the shorter of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from distributary.filters.topic import TopicFilter
from distributary.kernel import kernel, sealed
from distributary.matching.batch import EventBatch
from distributary.matching.index import Arrays
from distributary.matching.layers import Verifier
from distributary.matching.topic.text import agrees, text_arrays, topic_arrays


class TopicVerifier(Verifier[TopicFilter]):
    """Does this row's topic pass that slot's filter?"""

    filter_class: ClassVar[type[Any]] = TopicFilter

    def compile(self, filters: Sequence[TopicFilter]) -> Arrays:
        return {}

    def check(
        self, arrays: Arrays, batch: EventBatch, rows: NDArray[np.int32], positions: NDArray[np.int32]
    ) -> NDArray[np.bool_]:
        if batch.topics is None:
            return np.zeros(len(rows), np.bool_)
        return _check(*topic_arrays(batch.topics), *text_arrays(arrays), sealed(rows), sealed(positions))


@kernel
def _check(
    topics: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    valid: NDArray[np.bool_],
    texts: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    rows: NDArray[np.int32],
    positions: NDArray[np.int32],
) -> NDArray[np.bool_]:
    passed = np.zeros(len(rows), np.bool_)
    for pair in range(len(rows)):
        row, position = rows[pair], positions[pair]
        if valid[row]:
            passed[pair] = agrees(
                texts, offsets[position], offsets[position + 1], topics, starts[row], ends[row]
            )
    return passed
