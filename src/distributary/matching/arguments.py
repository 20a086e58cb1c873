"""The arguments of operations as columns, and functions of one column, for each distinct value once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from distributary.filters.where.expression import CONDITIONS, AttributeReference, Computation
from distributary.filters.where.operations import FUNCTIONS
from distributary.filters.where.values import plain
from distributary.filters.where.write import operand_key
from distributary.kernel import Flags
from distributary.matching import truths
from distributary.matching.column_making import chosen_rows, column_of_truths, distinct_rows
from distributary.matching.columns import AttributeColumn

if TYPE_CHECKING:
    from distributary.matching.batch import EventBatch

Partial = tuple[AttributeColumn, Flags]
"""A column, and the rows that it leaves to be computed one by one."""


def argument_column(batch: EventBatch, argument: Any) -> AttributeColumn:
    """The column of an argument: an attribute, an operation, a condition or a literal."""
    if isinstance(argument, AttributeReference):
        column = batch.column(argument.name)
        if column is None:
            return chosen_rows(AttributeColumn.from_values([None]), first_rows(batch))
        return column
    if isinstance(argument, Computation):
        column = batch.column(operand_key(argument))
        assert column is not None, "an operation always has a column"
        return column
    if isinstance(argument, CONDITIONS):
        return column_of_truths(truths.truths_of(batch, argument))
    return chosen_rows(AttributeColumn.from_values([argument]), first_rows(batch))


def first_rows(batch: EventBatch) -> NDArray[np.int64]:
    """The first row, as often as the batch has rows: the places of a value that all rows share."""
    return np.zeros(batch.rows, np.int64)


def per_distinct(batch: EventBatch, operand: Computation) -> Partial | None:
    """A function of one column and literals, computed for each distinct value."""
    function = FUNCTIONS.get(operand.function)
    columns = [
        place
        for place, argument in enumerate(operand.arguments)
        if isinstance(argument, (AttributeReference, Computation, *CONDITIONS))
    ]
    if function is None or len(columns) != 1 or function.takes_null:
        return None
    place = columns[0]
    argument = operand.arguments[place]
    column = argument_column(batch, argument)
    codes = None if column.strings is None else batch.codes(argument_name(argument), column)
    first, places = distinct_rows([(column, codes)], batch.rows)
    values = []
    for row in first.tolist():
        value = plain(column.value(row))
        given = [value if at == place else each for at, each in enumerate(operand.arguments)]
        values.append(None if None in given else plain(function.compute(*given)))
    return chosen_rows(AttributeColumn.from_values(values), places), np.zeros(batch.rows, np.bool_)


def argument_name(argument: Any) -> str:
    """The name of an argument's column: that of an attribute, or the key of an operation."""
    return argument.name if isinstance(argument, AttributeReference) else operand_key(argument)
