"""Expressions: what they say, which types they have, and what is refused."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import InputError
from distributary.flow.language.expression import evaluate, write
from distributary.flow.language.parse import parse_expression, resolve_text
from distributary.flow.language.schema import Schema, Type

SCHEMA = Schema(
    {
        "i": "integer",
        "j": "integer",
        "x": "number",
        "y": "number",
        "s": "text",
        "b": "boolean",
        "at": "integer",
    },
    time="at",
)
ROW = {"i": 7, "j": -2, "x": 2.5, "y": None, "s": "Ab c", "b": True, "at": 0}


def value_of(text: str, **changed: object) -> object:
    return evaluate(resolve_text(text, SCHEMA).expression, {**ROW, **changed})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i + j * 2", 3),
        ("i / j", -3.5),
        ("i / 0", None),
        ("i % j", 1),
        ("j % i", -2),
        ("i % 0", None),
        ("x % 2", 0.5),
        ("-x % 2", -0.5),
        ("x + y", None),
        ("i + 0.5", 7.5),
        ("9223372036854775807 + 1", None),
        ("-(-9223372036854775807 - 1)", None),
        ("abs(-9223372036854775807 - 1)", None),
        ("abs(j)", 2),
        ("1e308 * 10", None),
        ("floor(-x)", -3),
        ("ceil(x)", 3),
        ("floor(1e300)", None),
        ("upper(s) || lower(s)", "AB Cab c"),
        ("upper('stra\u00dfe')", "STRA\u00dfE"),
        ("length('na\u00efve \U0001f600')", 7),
        ("substring(s, 2, 2)", "b "),
        ("substring(s, 9)", ""),
        ("trim('  a b ')", "a b"),
        ("concat(s, '!', s)", "Ab c!Ab c"),
        ("concat(s, null)", None),
        ("coalesce(y, i)", 7.0),
        ("case when y > 1 then 'high' when y is null then 'none' else 'low' end", "none"),
        ("case i when 6 then 1 when 7 then 2 end", 2),
        ("case when x > 3 then 1 end", None),
        ("nullif(i, 7)", None),
        ("y > 1 and false", False),
        ("y > 1 or true", True),
        ("y > 1 and true", None),
        ("not y > 1", None),
        ("y is null and s is not null", True),
        ("i between 1 and 7", True),
        ("i not in (1, 7)", False),
        ("i in (1, null)", None),
        ("9007199254740993 > 9007199254740992.0", True),
        ("b = (i > 3)", True),
        ("s < 'B'", True),
    ],
)
def test_value_is_what_the_language_says(text: str, expected: object) -> None:
    found = value_of(text)
    assert found == expected
    assert type(found) is type(expected)


def test_a_zero_is_never_negative() -> None:
    for text in ("-x", "x * -1.0", "x / -1", "x % 5.0"):
        assert math.copysign(1.0, value_of(text, x=0.0)) == 1.0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("i + j", Type.INTEGER),
        ("i / j", Type.NUMBER),
        ("i + x", Type.NUMBER),
        ("coalesce(null, i)", Type.INTEGER),
        ("case when b then i else x end", Type.NUMBER),
        ("i > x", Type.BOOLEAN),
        ("floor(x)", Type.INTEGER),
        ("s || 'x'", Type.TEXT),
    ],
)
def test_type_is_what_the_language_says(text: str, type: Type) -> None:
    assert resolve_text(text, SCHEMA).type is type


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("i + s", "takes integer or number, not text"),
        ("s || i", "takes text, not integer"),
        ("i = s", "integer cannot be compared with text"),
        ("coalesce(i, s)", "one type is needed"),
        ("nothing + 1", "no attribute 'nothing'; there are i, j"),
        ("i and b", "takes boolean, not integer"),
        ("null", "always null"),
        ("round(x)", "ROUND is not supported"),
        ("f(x)", "no function 'f'"),
        ("i +", "cannot be understood"),
        ("i; j", "not supported"),
        ("(select 1)", "not supported"),
        ("99999999999999999999", "beyond 64 bits"),
        ("1e999", "no finite number"),
        ("substring(s, i)", "as literals"),
        ("(" * 2000 + "1" + ")" * 2000, "deep"),
        ("", "must be an expression"),
    ],
)
def test_what_is_not_of_the_language_is_refused_with_the_reason(text: str, told: str) -> None:
    with pytest.raises(InputError, match=r"set\.a: ") as caught:
        resolve_text(text, SCHEMA, "set.a")
    assert told in str(caught.value)


def test_a_refusal_tells_the_position() -> None:
    with pytest.raises(InputError) as caught:
        resolve_text("i + nothing", SCHEMA)
    assert caught.value.position == 4


names = st.sampled_from(["i", "x", "time", "odd name", "a.b", "select", 'say "hi"', "order"])
texts = st.recursive(
    st.one_of(
        names.map(lambda name: '"' + name.replace('"', '""') + '"'),
        st.integers(-10, 10).map(str),
        st.floats(-1e6, 1e6).map(repr),
        st.text("ab'% \n", max_size=4).map(lambda text: "'" + text.replace("'", "''") + "'"),
        st.sampled_from(["null", "true", "false"]),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "/", "%", "||", "<>", "and", "or", ">="]), inner).map(
            lambda parts: f"({parts[0]}) {parts[1]} ({parts[2]})"
        ),
        inner.map(lambda part: f"-({part})"),
        inner.map(lambda part: f"({part}) is not null"),
        st.tuples(inner, inner).map(lambda parts: f"case when {parts[0]} then {parts[1]} end"),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"coalesce({', '.join(parts)})"),
    ),
    max_leaves=8,
)


@given(texts)
def test_what_is_written_reads_as_the_same_expression(text: str) -> None:
    expression = parse_expression(text)
    assert parse_expression(write(expression)) == expression
