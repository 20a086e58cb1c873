"""What an exact tolerance engine holds, in one plain form that any of them can write and read.

`Memory` is the whole content of an index as flat arrays: the members with their groups and tolerances, and
one *fact* for each value that was delivered. An index that is opened from it continues exactly where the
one that wrote it stopped, whichever of the exact engines either is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distributary.matching import frozen
from distributary.matching.index import Arrays


@dataclass(frozen=True, slots=True)
class Memory:
    """Members, their terms (one for each attribute a member watches) and the facts, as columns.

    Attributes are numbered by their place in `attributes`; topics as `TopicNumbers` does, with `topics[0]`
    number 1.
    """

    attributes: list[str]
    topics: list[str]
    slots: NDArray[np.int32]
    groups: NDArray[np.int32]
    term_slots: NDArray[np.int32]
    term_attributes: NDArray[np.int32]
    term_tolerances: NDArray[np.float64]
    fact_slots: NDArray[np.int32]
    fact_attributes: NDArray[np.int32]
    fact_topics: NDArray[np.int32]
    fact_values: NDArray[np.float64]

    def to_arrays(self) -> Arrays:
        return {
            **frozen.under("attributes", frozen.pack_texts(self.attributes)),
            **frozen.under("topics", frozen.pack_texts(self.topics)),
            **{name: getattr(self, name) for name in _COLUMNS},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Memory:
        return cls(
            frozen.unpack_texts(frozen.within(arrays, "attributes")),
            frozen.unpack_texts(frozen.within(arrays, "topics")),
            *(arrays[name] for name in _COLUMNS),
        )


_COLUMNS = tuple(field.name for field in fields(Memory) if field.name not in ("attributes", "topics"))
