"""Topic filters that are asked only about pairs another kind's index has found.

Nothing is compiled: the canonical text of a filter is compared with the bytes of the topic. Each pair costs
time linear in the shorter of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from distributary.filters.topic import TopicFilter
from distributary.kernel import Flags, Ints, kernel, read_table, sealed, sealed_table
from distributary.matching.batch import EventBatch
from distributary.matching.columns import Strings
from distributary.matching.index import Arrays
from distributary.matching.layers import Verifier
from distributary.matching.topic.text import TEXTS, FilterTexts, agrees


class TopicVerifier(Verifier[TopicFilter]):
    """Does this row's topic pass that slot's filter?"""

    filter_class: ClassVar[type[Any]] = TopicFilter

    def compile(self, filters: Sequence[TopicFilter]) -> Arrays:
        """Nothing: the texts are kept by the layers."""
        return {}

    def check(self, arrays: Arrays, batch: EventBatch, rows: Ints, positions: Ints) -> Flags:
        """Compare each pair's text with its topic."""
        if batch.topics is None:
            return np.zeros(len(rows), np.bool_)
        texts = read_table(FilterTexts, arrays, TEXTS)
        return _check(sealed_table(batch.topics), texts, sealed(rows), sealed(positions))


@kernel
def _check(topics: Strings, texts: FilterTexts, rows: Ints, positions: Ints) -> Flags:
    passed = np.zeros(len(rows), np.bool_)
    for pair in range(len(rows)):
        if topics.valid[rows[pair]]:
            passed[pair] = agrees(texts, positions[pair], topics, rows[pair])
    return passed
