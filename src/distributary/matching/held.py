"""Tables that kernels hand to one another through Python: passed as one object, and never taken apart there.

Calling a kernel with a table costs a quarter of a microsecond for each of its arrays, and getting one back
costs more. For a single event that adds up to more than the work itself, where dozens of arrays stay the same
from call to call, or what a kernel makes is read by another kernel only. So a kernel gives back
`HeldTables(tables)`, and another takes that and reads `held.tables`; either costs about a microsecond,
however many arrays there are. The arrays live as long as the object.

>>> import numpy as np
>>> from distributary.kernel import kernel
>>> @kernel
... def count_up(count):
...     return HeldTables((np.arange(count), np.ones(count)))
>>> @kernel
... def add_up(held):
...     numbers, ones = held.tables
...     return numbers.sum() + ones.sum()
>>> add_up(count_up(4))
10.0
"""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.experimental import structref

from distributary.kernel import kernel


@structref.register
class HeldTablesType(types.StructRef):  # type: ignore[name-defined,misc]
    """The type of `HeldTables` inside kernels: it knows the type of the tables."""

    def preprocess_fields(self, fields: Any) -> Any:
        """The fields, whose types are not those of single values."""
        return tuple((name, types.unliteral(kind)) for name, kind in fields)  # type: ignore[attr-defined]


class HeldTables(structref.StructRefProxy):  # type: ignore[misc]
    """Tables in the hands of kernels. Made in a kernel, or by `hold`."""

    def __new__(cls, tables: Any) -> HeldTables:
        held: HeldTables = structref.StructRefProxy.__new__(cls, tables)
        return held


structref.define_proxy(HeldTables, HeldTablesType, ["tables"])


@kernel
def hold(tables: Any) -> Any:
    """Hold a table, or a tuple of tables, for kernels."""
    return HeldTables(tables)
