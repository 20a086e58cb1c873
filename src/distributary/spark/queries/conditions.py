"""Conditions of queries on Spark: SQL where that says exactly the same, and a Python function where not.

A leaf on texts, integers, doubles and booleans is SQL text. Any other (functions, times, decimals, what is
inside arrays) is a call of one function that is registered with Spark: the leaf's text, and the columns that
it looks at. Python workers evaluate it, a batch of Arrow at a time, with the code that evaluates conditions
everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf

from distributary.filters.where import expression as conditions
from distributary.filters.where.evaluate import evaluate
from distributary.filters.where.filter import WhereFilter
from distributary.filters.where.write import write
from distributary.flow.language.expression import literal_type
from distributary.flow.language.schema import Type
from distributary.matching.columns import AttributeColumn
from distributary.spark.queries.sql import (
    Value,
    compared_with,
    comparison,
    like_regex,
    literal,
    text_literal,
)

FUNCTION = "distributary_condition"
"""The name under which Spark knows the function."""
MISSING = "cast(null as string)"


def condition_sql(
    condition: conditions.Expression, columns: Mapping[str, Value], raw: Mapping[str, str] | None = None
) -> str:
    """A condition of a filter as SQL: true, false or null; what `columns` does not have is missing.

    `raw` has the columns themselves, where those in `columns` are not. The session must know the function
    (`register`) if the text has `FUNCTION` in it.

    >>> condition_sql(conditions.Compare("price", ">", 8), {"price": ("p", Type.NUMBER)})
    '(p > 8.0D)'
    >>> condition_sql(WhereFilter.parse("abs(n) = 8").expression, {"n": ("n", Type.INTEGER)})
    "distributary_condition('abs(n) = 8', named_struct('c0', n))"
    """
    whole = {name: text for name, (text, _) in columns.items()} if raw is None else raw

    def said(condition: conditions.Expression) -> str:
        match condition:
            case conditions.And(parts):
                return "(" + " and ".join(map(said, parts)) + ")"
            case conditions.Or(parts):
                return "(" + " or ".join(map(said, parts)) + ")"
            case conditions.Not(part):
                return f"(not {said(part)})"
            case conditions.TruthConstant(truth):
                return literal(truth, Type.BOOLEAN)
            case conditions.IsNull(str(name)):
                return f"({whole.get(name, MISSING)} is null)"
        return _leaf_sql(condition, columns) if _is_plain(condition, columns) else _call(condition, whole)

    return said(condition)


def _is_plain(leaf: conditions.Leaf, columns: Mapping[str, Value]) -> bool:
    """Whether SQL says the leaf exactly: on columns and literals of the types that queries have."""
    if isinstance(leaf, conditions.MatchesPattern):
        return False
    for operand in conditions.operands_of(leaf):
        if not isinstance(operand, str) or (operand in columns and columns[operand][1] is None):
            return False
    return all(one is None or literal_type(one) is not None for one in conditions.literals_of(leaf))


def _leaf_sql(leaf: conditions.Leaf, columns: Mapping[str, Value]) -> str:
    def column(operand: conditions.Operand) -> Value:
        return columns.get(str(operand), ("null", None))

    match leaf:
        case conditions.Compare(name, operator, other):
            return compared_with(column(name), operator, other)
        case conditions.CompareAttributes(left, operator, right):
            return comparison(column(left), operator, column(right))
        case conditions.Between(name, low, high):
            value = column(name)
            return f"({compared_with(value, '>=', low)} and {compared_with(value, '<=', high)})"
        case conditions.In(name, others):
            value = column(name)
            return "(" + " or ".join(compared_with(value, "=", other) for other in others) + ")"
        case conditions.Like(name, pattern, escape):
            text, type = column(name)
            if type is not Type.TEXT:
                return literal(None, Type.BOOLEAN)
            return f"({text} rlike {text_literal(like_regex(str(pattern), escape))})"
        case conditions.IsTruth(name, truth):
            text, type = column(name)
            return f"coalesce({text} = {literal(truth)}, false)" if type is Type.BOOLEAN else "false"
        case conditions.Truth(name):
            text, type = column(name)
            return text if type is Type.BOOLEAN else literal(None, Type.BOOLEAN)
    raise TypeError(f"not a condition: {leaf!r}")


# What runs in Python


def register(spark: SparkSession) -> None:
    """Have a session know the function."""
    spark.udf.register(FUNCTION, arrow_udf(truths, "boolean"))  # type: ignore[call-overload]


def _call(leaf: conditions.Leaf, columns: Mapping[str, str]) -> str:
    """A leaf as a call of the function, with its columns in the order in which its text names them."""
    text = write(leaf)
    names = conditions.attributes_of(_parsed(text))
    fields = [f"'c{number}', {columns.get(name, MISSING)}" for number, name in enumerate(names)]
    given = ", ".join(fields or [f"'none', {MISSING}"])
    return f"{FUNCTION}({text_literal(text)}, named_struct({given}))"


@lru_cache(maxsize=1024)
def _parsed(text: str) -> conditions.Expression:
    return WhereFilter.parse(text).expression


def truths(texts: pa.Array, given: pa.Array) -> pa.Array:
    """Whether the condition, the same text in each row, is true of each struct of values; null if unknown.

    >>> truths(pa.array(["n % 2 = 0"] * 3), pa.array([{"c0": 4}, {"c0": 5}, {"c0": None}])).to_pylist()
    [True, False, None]
    """
    if not len(texts):
        return pa.array([], pa.bool_())
    condition = _parsed(texts[0].as_py())
    arrays = zip(conditions.attributes_of(condition), given.flatten(), strict=False)
    columns = [(name, AttributeColumn.from_arrow(array)) for name, array in arrays]
    rows = ({name: column.value(row) for name, column in columns} for row in range(len(texts)))
    return pa.array([evaluate(condition, values) for values in rows], pa.bool_())
