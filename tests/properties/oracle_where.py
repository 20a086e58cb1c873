"""The oracle of where filters: sqlglot's own tree, evaluated plainly, and conditions and attributes to try.

It shares nothing with the filter but SQL: no template, no tree of ours, no domains. `wants(text, attributes)`
is True, False or None (unknown); an event passes when it is True.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import sqlglot
from hypothesis import strategies as st
from sqlglot import exp

NAMES = ["a", "b", "c", "A", "wind.speed", '"odd name"']
NUMBERS = [0, 1, 2, 5, -1, 2.5, -0.0, 0.1, 1e300, 2**53, 2**53 + 1, float(2**53), -(2**53) - 1]
TEXTS = [
    "",
    "a",
    "ab",
    "abc",
    "b",
    "%",
    "a_c",
    "a%c",
    "x\ny",
    "é",
    "\U0001f600",
    "\uffff",
    "it's",
    "a\0",
    "5",
]


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Any:
    return sqlglot.parse_one(text, into=exp.Condition, dialect="postgres")


def wants(text: str, attributes: Mapping[str, Any]) -> bool | None:
    """What SQL says about the condition for these attributes."""
    return _truth(_parsed(text), attributes)


def _truth(node: Any, attributes: Mapping[str, Any]) -> bool | None:
    if isinstance(node, exp.Paren):
        return _truth(node.this, attributes)
    if isinstance(node, exp.Escape):
        return _negated_if(node.this, _like(node.this, node.expression.this, attributes))
    if isinstance(node, exp.Like):
        return _negated_if(node, _like(node, None, attributes))
    if isinstance(node, exp.Not):
        return _not(_truth(node.this, attributes))
    if isinstance(node, exp.And):
        return _and(_truth(node.this, attributes), _truth(node.expression, attributes))
    if isinstance(node, exp.Or):
        return _or(_truth(node.this, attributes), _truth(node.expression, attributes))
    if isinstance(node, exp.Between):
        value, low, high = (_value(node.args[part], attributes) for part in ("this", "low", "high"))
        return _negated_if(node, _and(_compared(low, "<=", value), _compared(value, "<=", high)))
    if isinstance(node, exp.In):
        value = _value(node.this, attributes)
        result: bool | None = False
        for item in node.expressions:
            result = _or(result, _compared(value, "==", _value(item, attributes)))
        return _negated_if(node, result)
    if isinstance(node, exp.Is):
        value, other = _value(node.this, attributes), _value(node.expression, attributes)
        return _negated_if(node, value is other)
    operators = {exp.EQ: "==", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
    if type(node) in operators:
        left, right = _value(node.this, attributes), _value(node.expression, attributes)
        return _compared(left, operators[type(node)], right)
    value = _value(node, attributes)
    return value if isinstance(value, bool) else None


def _negated_if(node: Any, truth: bool | None) -> bool | None:
    return _not(truth) if node.args.get("negate") else truth


def _not(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def _and(first: bool | None, second: bool | None) -> bool | None:
    if first is False or second is False:
        return False
    return True if first and second else None


def _or(first: bool | None, second: bool | None) -> bool | None:
    return _not(_and(_not(first), _not(second)))


def _value(node: Any, attributes: Mapping[str, Any]) -> Any:
    if isinstance(node, exp.Paren):
        return _value(node.this, attributes)
    if isinstance(node, exp.Neg):
        return -_value(node.this, attributes)
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean):
        return node.this
    if isinstance(node, exp.Literal):
        if node.is_string:
            return node.this
        return int(node.this) if re.fullmatch("[0-9]+", node.this) else float(node.this)
    if isinstance(node, exp.Column):
        return attributes.get(".".join(part.name for part in node.parts))
    if isinstance(node, exp.Add):
        left, right = _value(node.this, attributes), _value(node.expression, attributes)
        if _sort(left) == _sort(right) == "number":
            total = left + right
            return total if abs(total) < math.inf else None
        return None
    if isinstance(node, exp.Abs):
        value = _value(node.this, attributes)
        return abs(value) if _sort(value) == "number" else None
    raise AssertionError(f"the oracle does not know {node!r}")


def _sort(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value == value):
        return "number"
    return "text" if isinstance(value, str) else "none"


def _compared(left: Any, operator: str, right: Any) -> bool | None:
    if _sort(left) == "none" or _sort(left) != _sort(right):
        return None
    less, equal = left < right, left == right
    outcomes = {"==": equal, "!=": not equal, "<": less, "<=": less or equal}
    return outcomes.get(operator, not less and (operator == ">=" or not equal))


def _like(node: Any, escape: str | None, attributes: Mapping[str, Any]) -> bool | None:
    value = _value(node.this, attributes)
    return _fits(node.expression.this, value, escape) if isinstance(value, str) else None


def _fits(pattern: str, text: str, escape: str | None) -> bool:
    if not pattern:
        return not text
    if pattern[0] == escape:
        return text[:1] == pattern[1:2] and _fits(pattern[2:], text[1:], escape)
    if pattern[0] == "%":
        return any(_fits(pattern[1:], text[start:], escape) for start in range(len(text) + 1))
    return text != "" and pattern[0] in ("_", text[0]) and _fits(pattern[1:], text[1:], escape)


# What to try. The strategies are made once, and mostly choose from pools: that keeps them quick.


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_numbers = st.sampled_from([*map(repr, NUMBERS), "1e2", "2.50", "- 5", ".5", "1E-3", "9007199254740993"])
_texts = st.sampled_from([_quoted(text) for text in TEXTS])
_literals = st.one_of(
    _numbers,
    _texts,
    st.sampled_from(["true", "false", "null"]),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.text(alphabet="abc'%\n", max_size=3).map(_quoted),
)
_alike = st.one_of(*(st.lists(kind, min_size=1, max_size=4) for kind in (_numbers, _texts, _literals)))
_names = st.sampled_from(NAMES)
_operators = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])
_negations = st.sampled_from(["", "not "])
_patterns = st.text(alphabet="ab%_c\n", max_size=5).map(_quoted)
_escaped = (
    st.lists(st.sampled_from(["a", "c", "%", "_", "!%", "!_", "!!"]), max_size=4).map("".join).map(_quoted)
)

_leaves = st.one_of(
    st.builds("{} {} {}".format, _names, _operators, _numbers),
    st.builds("{} {} {}".format, _names, _operators, _literals),
    st.builds("{} {} {}".format, _literals, _operators, _names),
    st.builds("{} {} {}".format, _names, _operators, _names),
    st.builds("{} {}between {} and {}".format, _names, _negations, _numbers, _numbers),
    st.builds("{} {}between {} and {}".format, _names, _negations, _literals, _literals),
    st.builds(lambda name, no, items: f"{name} {no}in ({', '.join(items)})", _names, _negations, _alike),
    st.builds("{} {}like {}".format, _names, _negations, _patterns),
    st.builds("{} {}like {} escape '!'".format, _names, _negations, _escaped),
    st.builds("{} is {}{}".format, _names, _negations, st.sampled_from(["null", "true", "false"])),
    _names,
    st.sampled_from(["true", "false", "1 = 1", "2 < 1", "null", "'a' = 'a'"]),
)


def _joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    some = st.lists(parts, min_size=2, max_size=3)
    return st.one_of(
        some.map(lambda texts: " and ".join(f"({text})" for text in texts)),
        some.map(lambda texts: " OR ".join(f"({text})" for text in texts)),
        some.map(" and ".join),
        some.map("  or ".join),
        parts.map("not ({})".format),
        parts.map("NOT {}".format),
    )


@lru_cache
def conditions(max_leaves: int = 6) -> st.SearchStrategy[str]:
    """Valid conditions as text; some are true for every event, and some for none."""
    return st.recursive(_leaves, _joined, max_leaves=max_leaves)


@lru_cache
def attribute_maps() -> st.SearchStrategy[dict[str, Any]]:
    """Attributes of an event: values near those of `conditions`, of every type, and missing ones."""
    others = [True, False, None, float("nan"), float("inf"), float("-inf"), (), (1, 2), ("a",)]
    value = st.one_of(
        st.sampled_from([*NUMBERS, *TEXTS]),
        st.sampled_from(others),
        st.integers(-3, 7),
        st.floats(),
        st.integers(2**53 - 2, 2**53 + 2),
        st.text(alphabet="ab%_c\0", max_size=4),
        st.text(max_size=3),
    )
    return st.dictionaries(st.sampled_from([name.strip('"') for name in NAMES]), value, max_size=len(NAMES))
