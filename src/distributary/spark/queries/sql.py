"""Expressions and comparisons of queries as Spark SQL text, with the very meaning they have in plain Python.

Rules: no subexpression is written twice for its own sake (texts would grow exponentially with nesting), so a
value that a formula needs more than once is bound by a lambda; nothing raises in ANSI mode (`try_...`, casts
that are guarded); text literals that are more than plain words are written as bytes, so that no setting of
the parser matters. Three tricks:

- `x % Infinity` is x for a finite x and NaN otherwise, and `nanvl(.., null)` makes that null: a number as a
  stream may hold it, computed once. Adding 0.0 turns -0.0 into 0.0.
- An integer and a number are compared exactly, through the number's floor.
- Upper and lower case are `translate` of the letters a to z.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from distributary.filters.topic import WILDCARD, TopicFilter
from distributary.filters.where.values import MIRRORED
from distributary.flow.language import expression as expressions
from distributary.flow.language.schema import MAX_INTEGER, MIN_INTEGER, Type
from distributary.flow.language.topics import FilledLevel, TopicTemplate
from distributary.model import MAX_TOPIC_BYTES, MAX_TOPIC_LEVELS

SQL_TYPES = {Type.TEXT: "string", Type.INTEGER: "bigint", Type.NUMBER: "double", Type.BOOLEAN: "boolean"}

PLAIN = re.compile(r"[A-Za-z0-9_ .,:;/|&#@!?<>=+*()\[\]-]*")
LARGE = 2.0**63
"""The first number beyond 64-bit integers."""
MOST = 2**31 - 1

Value = tuple[str, Type | None]
"""SQL text and the type of its value; None for what is always null, or compares with nothing."""


def text_literal(text: str) -> str:
    """A text as SQL.

    >>> text_literal("quotes/OTE"), text_literal("it's")
    ("'quotes/OTE'", "cast(X'69742773' as string)")
    """
    return f"'{text}'" if PLAIN.fullmatch(text) else f"cast(X'{text.encode().hex()}' as string)"


def literal(value: str | int | float | bool | None, type: Type | None = None) -> str:
    """A value as SQL; `type` is that of a null.

    >>> literal(7), literal(-0.5), literal(None, Type.TEXT)
    ('7L', '(-0.5D)', 'cast(null as string)')
    """
    match value:
        case None:
            return f"cast(null as {SQL_TYPES[type]})" if type is not None else "null"
        case bool():
            return "true" if value else "false"
        case str():
            return text_literal(value)
    written = f"{value}L" if isinstance(value, int) else f"{value!r}D"
    return f"({written})" if value < 0 else written


def settled(number: str) -> str:
    """A double as a stream may hold it: null unless finite, and no -0.0."""
    return f"(nanvl(({number}) % double('Infinity'), cast(null as double)) + 0D)"


def bound(value: str, body: str) -> str:
    """`body`, in which `v` stands for the value, which is computed once. (The value is outside its scope.)"""
    return f"transform(array({value}), v -> {body})[0]"


# Expressions


def expression_sql(expression: expressions.Expression, columns: Mapping[str, Value]) -> Value:
    """A resolved expression as SQL over columns, each given as SQL with its type.

    >>> size = expressions.Column("size")
    >>> expression_sql(expressions.Unary("is null", size), {"size": ("n", Type.INTEGER)})
    ('(n is null)', <Type.BOOLEAN: 'boolean'>)
    """

    def value(part: expressions.Expression) -> Value:
        return expression_sql(part, columns)

    def typed(part: expressions.Expression, type: Type) -> str:
        text, found = value(part)
        return literal(None, type) if found is None else text

    match expression:
        case expressions.Column(name):
            return columns[name]
        case expressions.Literal(given):
            return literal(given), expressions.literal_type(given)
        case expressions.Widen(operand):
            return f"cast({typed(operand, Type.INTEGER)} as double)", Type.NUMBER
        case expressions.Unary("is null", operand):
            return f"({value(operand)[0]} is null)", Type.BOOLEAN
        case expressions.Unary("not", operand):
            return f"(not {typed(operand, Type.BOOLEAN)})", Type.BOOLEAN
        case expressions.Unary(_, operand):
            text, type = value(operand)
            if type is Type.NUMBER:
                return f"(0D - {text})", Type.NUMBER
            return f"try_subtract(0L, {typed(operand, Type.INTEGER)})", Type.INTEGER
        case expressions.Binary("and" | "or" as operator, left, right):
            return f"({typed(left, Type.BOOLEAN)} {operator} {typed(right, Type.BOOLEAN)})", Type.BOOLEAN
        case expressions.Binary("||", left, right):
            return f"concat({typed(left, Type.TEXT)}, {typed(right, Type.TEXT)})", Type.TEXT
        case expressions.Binary(operator, left, right) if operator in expressions.COMPARISONS:
            return comparison(value(left), operator, value(right)), Type.BOOLEAN
        case expressions.Binary(operator, left, right):
            return _arithmetic(operator, value(left), value(right))
        case expressions.Case(branches, otherwise):
            return _case(
                [(typed(test, Type.BOOLEAN), value(then)) for test, then in branches], value(otherwise)
            )
        case expressions.Call("coalesce", arguments):
            parts = [value(argument) for argument in arguments]
            return f"coalesce({', '.join(text for text, _ in parts)})", _type_of(parts)
        case expressions.Call(function, arguments):
            return _call(function, [value(argument) for argument in arguments])
    raise TypeError(f"not an expression: {expression!r}")


def _type_of(parts: Sequence[Value]) -> Type | None:
    return next((type for _, type in parts if type is not None), None)


def _case(branches: Sequence[tuple[str, Value]], otherwise: Value) -> Value:
    written = " ".join(f"when {test} then {then}" for test, (then, _) in branches)
    return f"(case {written} else {otherwise[0]} end)", _type_of([*(then for _, then in branches), otherwise])


TRIED = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod"}


def _arithmetic(operator: str, left: Value, right: Value) -> Value:
    number = operator == "/" or Type.NUMBER in (left[1], right[1])
    type = Type.NUMBER if number else Type.INTEGER
    sides = [literal(None, type) if found is None else text for text, found in (left, right)]
    if number and operator in "+-*":
        return settled(f"{sides[0]} {operator} {sides[1]}"), type
    tried = f"{TRIED[operator]}({sides[0]}, {sides[1]})"
    return (settled(tried) if number else tried), type


def _call(function: str, arguments: list[Value]) -> Value:
    text, type = arguments[0]
    if type is None:
        type = Type.INTEGER if function in ("abs", "floor", "ceil") else Type.TEXT
        text = literal(None, type)
    match function:
        case "abs" if type is Type.NUMBER:
            return f"abs({text})", type
        case "abs":
            return f"try_cast(abs(cast({text} as decimal(20,0))) as bigint)", type
        case "floor" | "ceil" if type is Type.NUMBER:
            fits = f"v >= {literal(-LARGE)} and v < {literal(LARGE)}"
            return bound(text, f"case when {fits} then {function}(v) end"), Type.INTEGER
        case "floor" | "ceil":
            return text, Type.INTEGER
        case "upper" | "lower":
            upper, lower = "".join(map(chr, expressions.LOWER)), "".join(map(chr, expressions.LOWER.values()))
            source, target = (lower, upper) if function == "upper" else (upper, lower)
            return f"translate({text}, '{source}', '{target}')", Type.TEXT
        case "trim":
            return f"trim(BOTH ' ' FROM {text})", Type.TEXT
        case "length":
            return f"cast(char_length({text}) as bigint)", Type.INTEGER
        case "concat":
            parts = [literal(None, Type.TEXT) if found is None else part for part, found in arguments]
            return f"concat({', '.join(parts)})", Type.TEXT
        case "substring":
            bounds = [int(part.rstrip("L")) for part, _ in arguments[1:]]
            start, length = min(bounds[0], MOST), min(bounds[1] if len(bounds) > 1 else MOST, MOST)
            return f"substring({text}, {start}, {length})", Type.TEXT
    raise ValueError(f"no function {function!r}")


# Comparisons


def comparison(left: Value, operator: str, right: Value) -> str:
    """A comparison that is exact between integers and numbers, and null between other different types."""
    types = left[1], right[1]
    if None in types:
        return literal(None, Type.BOOLEAN)
    if types[0] is types[1]:
        return f"({left[0]} {operator} {right[0]})"
    if set(types) != {Type.INTEGER, Type.NUMBER}:
        return literal(None, Type.BOOLEAN)
    if types[0] is Type.NUMBER:
        return comparison(right, MIRRORED[operator], left)
    whole, number = "v.i", "v.x"
    order = (
        f"case when {whole} is null or {number} is null then null when {number} >= {literal(LARGE)} then -1 "
        f"when {number} < {literal(-LARGE)} then 1 when {whole} < floor({number}) then -1 "
        f"when {whole} > floor({number}) then 1 when {number} > cast(floor({number}) as double) then -1 "
        "else 0 end"
    )
    pair = f"named_struct('i', {left[0]}, 'x', {right[0]})"
    return f"({bound(pair, order)} {operator} 0)"


def compared_with(value: Value, operator: str, other: Any) -> str:
    """A comparison with a literal: an integer with a number by the integers around that."""
    text, type = value
    kind = expressions.literal_type(other)
    if type is Type.INTEGER and kind is Type.NUMBER:
        if not math.isfinite(other):
            return literal(None, Type.BOOLEAN) if other != other else _beyond(text, operator, other > 0)
        return _integer_with_number(text, operator, other)
    if type is Type.NUMBER and kind is Type.INTEGER and abs(other) <= 2**53:
        return f"({text} {operator} {literal(float(other))})"
    if kind is Type.NUMBER and other != other:
        return literal(None, Type.BOOLEAN)
    return comparison(value, operator, (literal(other), kind))


def _unless_null(text: str, outcome: bool) -> str:
    return f"(case when {text} is not null then {literal(outcome)} end)"


def _integer_with_number(text: str, operator: str, number: float) -> str:
    below, above = math.floor(number), math.ceil(number)
    if operator in ("=", "<>") and below != above:
        return _unless_null(text, operator == "<>")
    nearest = above if operator in ("<", ">=") else below
    if MIN_INTEGER <= nearest <= MAX_INTEGER:
        return f"({text} {operator} {literal(nearest)})"
    return _beyond(text, operator, nearest > 0)


def _beyond(text: str, operator: str, above: bool) -> str:
    """The comparison of an integer with a number above or below all integers."""
    return _unless_null(text, {"=": False, "<>": True}.get(operator, (operator in ("<", "<=")) == above))


# Patterns


def like_regex(pattern: str, escape: Any = None) -> str:
    """A LIKE pattern as a regular expression of Java's.

    >>> like_regex("wi_d%")
    '(?s)^wi.d.*\\\\z'
    """
    written = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            written.append(_exact_regex(next(characters)))
        else:
            written.append({"%": ".*", "_": "."}.get(character) or _exact_regex(character))
    return "(?s)^" + "".join(written) + r"\z"


def _exact_regex(text: str) -> str:
    """A text as a regular expression of Java's that matches it alone."""
    return "".join(each if each.isalnum() and each.isascii() else f"\\x{{{ord(each):x}}}" for each in text)


# Topics


def topic_sql(pattern: TopicFilter, topic: str) -> str:
    """Whether a topic passes a pattern; ours pass over a slash at its start."""
    if WILDCARD not in pattern.levels:
        path = "/".join(pattern.levels)
        tests = [_path_sql(path, pattern.open, topic)]
        if not pattern.mqtt:
            tests.append(_path_sql("/" + path, pattern.open, topic))
        return f"({' or '.join(tests)})"
    levels = ["[^/]*" if level == WILDCARD else _exact_regex(level) for level in pattern.levels]
    start = "/?" if not pattern.mqtt else r"(?!\$)" if pattern.levels[0] == WILDCARD else ""
    regex = "(?s)^" + start + "/".join(levels) + ("(/.*)?" if pattern.open else "") + r"\z"
    return f"({topic} rlike {text_literal(regex)})"


def _path_sql(path: str, deeper: bool, topic: str) -> str:
    """Whether a topic is this one, or lies below it if it may be deeper."""
    same = f"{topic} = {text_literal(path)}"
    return f"{same} or startswith({topic}, {text_literal(path + '/')})" if deeper else same


def well_formed_topic(topic: str) -> str:
    """Whether an event can have this topic (see `model.check_topic`)."""
    slashes = f"length({topic}) - length(replace({topic}, '/'))"
    return (
        f"({topic} <> '' and octet_length({topic}) <= {MAX_TOPIC_BYTES} and {slashes} < {MAX_TOPIC_LEVELS})"
    )


def published_topic_sql(template: TopicTemplate, values: Mapping[str, Value]) -> str:
    """The topic that an item with these attributes is published under, or null.

    >>> published_topic_sql(TopicTemplate.parse("busy/large"), {})
    "'busy/large'"
    """
    if not template.values:
        return text_literal("/".join(str(level) for level in template.levels))
    levels = [
        text_literal(level) if isinstance(level, str) else _level_sql(level, values[level.attribute])
        for level in template.levels
    ]
    joined = ", '/', ".join(levels)
    return bound(f"concat({joined})", f"if({well_formed_topic('v')}, v, null)")


def _level_sql(level: FilledLevel, value: Value) -> str:
    """What an item fills in for a level, or for all levels of its topic; null when that is none."""
    text, type = value
    bare = "if(startswith(v, '/'), substring(v, 2), v)"
    if level.is_whole_topic:
        return f"nullif({bound(text, bare)}, '')"
    if level.level is not None:
        return f"nullif(split_part({bound(text, bare)}, '/', {level.level}), '')"
    if type is not Type.TEXT:
        return f"cast({text} as string)"
    return bound(text, "if(v = '' or contains(v, '/'), null, v)")
