"""Where filters by example: three-valued logic, what is read and how it is written, and what is refused."""

from __future__ import annotations

from math import inf, nan

import pytest

from distributary.errors import FilterError
from distributary.filters.where.domain import Conjunction
from distributary.filters.where.evaluate import evaluate
from distributary.filters.where.filter import WhereFilter
from distributary.model import Event

where = WhereFilter.parse


def truth(text: str, **attributes: object) -> bool | None:
    return evaluate(where(text).expression, attributes)


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("a = 5", 5, True),
        ("a = 5", 5.0, True),
        ("a = 5", 6, False),
        ("a = 5", "5", None),
        ("a = 5", None, None),
        ("a <> 5", "x", None),
        ("a != 5", 4, True),
        ("a = '5'", 5, None),
        ("a = 1", True, None),
        ("a = true", 1, None),
        ("a = true", True, True),
        ("a > false", True, True),
        ("a = null", None, None),
        ("a <> null", 5, None),
        ("a = 5", nan, None),
        ("not a = 5", nan, None),
        ("a is null", nan, False),
        ("a is null", (1, 2), False),
        ("a = 5", (5,), None),
        ("a is null", None, True),
        ("a is not null", None, False),
        ("a = 0", -0.0, True),
        ("a = -0.0", 0, True),
        ("a > 1e308", inf, True),
        ("a < 0", -inf, True),
        ("a = 9007199254740993", 9007199254740992.0, False),
        ("a > 9007199254740992.0", 9007199254740993, True),
        ("a < 'b'", "a\U0001f600", True),
        ("a > '\uffff'", "\U00010000", True),
        ("a < 'a'", "B", True),
        ("a in (1, null)", 1, True),
        ("a in (1, null)", 2, None),
        ("a not in (1, null)", 2, None),
        ("a not in (1, null)", 1, False),
        ("a not in (1, 'x')", 2, None),
        ("a not in (1, 2)", 3, True),
        ("a between 1 and 3", 3, True),
        ("a between 3 and 1", 2, False),
        ("a between 1 and null", 0, False),
        ("a between 1 and null", 2, None),
        ("a not between 1 and null", 0, True),
        ("a like 'x%'", "xyz", True),
        ("a like 'X%'", "xyz", False),
        ("a like '%'", "", True),
        ("a like '_'", "", False),
        ("a like 'a_c'", "a\nc", True),
        ("a like 'a%c'", "a\n\nc", True),
        ("a like '%b%b%'", "abc", False),
        ("a like 'ab%bc'", "abc", False),
        ("a like 'x%'", 5, None),
        ("a not like 'x%'", 5, None),
        ("a like '5!%' escape '!'", "5%", True),
        ("a like '5!%' escape '!'", "50", False),
        ("a like 'a\\%'", "a\\b", True),
        ("a", True, True),
        ("a", 1, None),
        ("not a", False, True),
        ("a is true", 1, False),
        ("a is not true", None, True),
        ("a is false", False, True),
        ("a = 1 and null", 2, False),
        ("a = 1 or null", 1, True),
        ("a = 1 or null", 2, None),
        ("not (a = 1 and null)", 1, None),
    ],
)
def test_three_valued_logic(text, value, expected):
    assert truth(text, a=value) is expected


def test_a_missing_attribute_is_like_null():
    assert truth("a = 1") is None
    assert truth("a is null") is True


def test_attributes_are_compared_with_each_other_by_type():
    assert truth("low < high", low=1, high=1.5) is True
    assert truth("low < high", low="a", high=1.5) is None
    assert truth("low = high", low=1) is None
    assert truth("5 between low and high", low=4, high=6) is True


def test_unknown_does_not_match():
    filter = where("not price > 8")
    assert not filter.matches(Event("e", attributes={}))
    assert filter.matches(Event("e", attributes={"price": 7}))


def test_names_are_taken_as_written():
    assert truth("Price = 1", price=1) is None
    assert truth("Price = 1", Price=1) is True
    for text in ("wind.speed > 3", '"wind.speed" > 3', '"wind"."speed" > 3'):
        assert where(text).text == "wind.speed > 3"
    assert evaluate(where('"odd ""name" = 1').expression, {'odd "name': 1}) is True
    assert where('"in" = 1 and order = 2').text == '"in" = 1 and order = 2'
    assert where('"it\'s" = \'x\' or "a1" = 1').text == "\"it's\" = 'x' or a1 = 1"


def test_quoted_names_that_look_like_literals_do_not_confuse_the_cache():
    for name in ("it's", "it's not", "a 5 b", "a 6 b", "' = '"):
        filter = where(f"\"{name}\" = 'x' and b > 5")
        assert filter.text == f"\"{name}\" = 'x' and b > 5"
        assert where(f"\"{name}\" = 'y' and b > 6").text == f"\"{name}\" = 'y' and b > 6"


@pytest.mark.parametrize("mark", ["\0", "\1", "\2", "\x020;"])
def test_marks_of_the_cache_in_a_text_are_no_literals_and_no_names(mark):
    where("a > 5 and b = 'x'")
    for text in (
        f"a > {mark} and b = 'x'",
        f"{mark} > 5 and b = 'x'",
        f"a > 5 and b = {mark}",
        f'"{mark}" = 1',
    ):
        with pytest.raises(FilterError):
            where(text)


def test_conditions_that_differ_in_names_alone_are_told_apart():
    for names in (("a", "b"), ("b", "a"), ("a", "a"), ("x.y", "z"), ("order", "limit")):
        filter = where(f"{names[0]} > 1 and {names[1]} < 5")
        assert filter.text == f"{names[0]} > 1 and {names[1]} < 5"
        assert [name for c in filter.conjunctions for name, _ in c.domains] == sorted(set(names))


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("  a>=5 AND b<3 ", "a >= 5 and b < 3"),
        ("5 < a", "a > 5"),
        ("'x' = a", "a = 'x'"),
        ("a != - 5", "a <> -5"),
        ("a = 1.50 or a = 1E3 or a = .5", "a = 1.5 or a = 1000.0 or a = 0.5"),
        ("((a = 1) and ((b = 2)))", "a = 1 and b = 2"),
        ("a = 1 and (b = 2 or c = 3)", "a = 1 and (b = 2 or c = 3)"),
        ("(a = 1 and b = 2) or c = 3", "a = 1 and b = 2 or c = 3"),
        ("NOT a IN (1,2)", "a not in (1, 2)"),
        ("not (a is null)", "a is not null"),
        ("not not a", "a"),
        ("not not not a = 1", "not a = 1"),
        ("a = 'it''s'", "a = 'it''s'"),
        ("a LIKE '50!%' ESCAPE '!'", "a like '50!%' escape '!'"),
        ("1 = 2 or a", "false or a"),
        ("(a) > (5)", "a > 5"),
        ("a\n=\t1", "a = 1"),
        ("a = 00012", "a = 12"),
        ("a = -" + "0" * 5_000 + "12", "a = -12"),
        ("a = - 0 or a = -\n1e1", "a = 0 or a = -10.0"),
        ("a = 1" + "0" * 305, "a = 1" + "0" * 305),
    ],
)
def test_canonical_text(text, canonical):
    assert where(text).text == canonical
    assert where(canonical).text == canonical
    assert where(text) == where(canonical)


@pytest.mark.parametrize(
    ("text", "position", "said"),
    [
        ("", 0, "empty"),
        ("   ", 0, "empty"),
        ("a = 1 and ()", 10, "nothing between"),
        ("price > 5 and sqrt(x) > 1", 14, "sqrt(...)"),
        ("price > 5 and uper(x) = 'A'", 14, "did you mean upper(...)?"),
        ("sum(x) > 1", 0, "many events"),
        ("lower(a, b) = 'x'", 0, "takes 1 arguments"),
        ("a in (select b from c)", 6, "subquery"),
        ("a = 1; drop", 5, "second statement"),
        ("a = 1 -- x", 6, "comment"),
        ("a = 1 /* x */", 6, "comment"),
        ("a = 1 as b", 6, "alias"),
        ("case when a then b = 1", 0, "end is missing"),
        ("a::blob = 1", 3, "a type is expected"),
        ("a = 'x", 4, "not closed"),
        ('"a = 1', 0, "not closed"),
        ("a = 1e9999", 4, "beyond"),
        ("a = 1" + "0" * 1400, 4, "beyond"),
        ("a = 12abc", 4, "number"),
        ("a = 1.2.3", 4, "number"),
        ("(a = 1", 0, "not closed"),
        ("a = 1)", 5, "not opened"),
        ("a = 'xyz' b", 10, "not expected"),
        ("a = 1 = 2", None, "compared"),
        ("a = (b = 1)", 4, "compared"),
        ("a like b", 7, "string"),
        ("a like 5", 7, "string"),
        ("a like 'x!' escape '!'", 7, "escape"),
        ("a like 'x' escape '!!'", 7, "one character"),
        ("5 in (1, 2)", 0, "attribute"),
        ("a in 5", 5, "list"),
        ("a in (1 2)", None, "list"),
        ("a in ()", 6, "list"),
        ("a, b", 1, "comma"),
        ("5", 0, "not a condition"),
        ("a and 'x'", 6, "not a condition"),
        ("a glob 'x'", 2, "GLOB"),
        ("a is b", 5, "IS must"),
        ('"" = 1', 0, "name"),
        ("a = 'x\ud800'", 6, "surrogate"),
        ("a = ?", 4, "parameter"),
        ("`a` = 1", 0, "backquoted"),
    ],
)
def test_refusals_say_what_and_where(text, position, said):
    with pytest.raises(FilterError) as caught:
        where(text)
    assert said in caught.value.reason
    assert caught.value.field == "where"
    assert caught.value.text == text.encode(errors="backslashreplace").decode()
    if position is not None:
        assert caught.value.position == position


def test_positions_do_not_depend_on_the_literals():
    for literal in ("1", "1234567", "'a long string'"):
        with pytest.raises(FilterError) as caught:
            where(f"a = {literal} and b c")
        assert caught.value.position == len(f"a = {literal} and b ")


@pytest.mark.parametrize("given", [None, 5, True, ["a"], {"a": 1}, b"a = 1"])
def test_only_strings_are_conditions(given):
    with pytest.raises(FilterError):
        WhereFilter.parse(given)


@pytest.mark.parametrize(
    "text",
    ["true", "1 = 1", "a = 1 or 2 > 1", "a is null or a is not null", "a is not true or a", "not false"],
)
def test_a_condition_that_is_always_true_is_true_for_every_event_and_known_to_be(text):
    condition = where(text)
    assert condition.asks_for_all == "every event"
    assert condition.slow is None
    assert condition.conjunctions == (Conjunction(()),)
    for a in (None, 1, "x", True, False, (), float("nan")):
        assert condition.matches(Event("e", attributes={"a": a}))
    assert condition.matches(Event("e"))
    assert where("true").covers(condition)
    assert condition.covers(where("a = 1 or b like '%x%'"))


@pytest.mark.parametrize("text", ["a = a", "a <> 1 or a = 1", "a is null", "true and a = 1", "false", "null"])
def test_a_condition_that_some_event_fails_is_not_taken_for_always_true(text):
    condition = where(text)
    assert condition.asks_for_all is None
    assert not condition.matches(Event("e", attributes={"a": float("nan")}))
    assert where("true").covers(condition)
    assert not condition.covers(where("true"))


@pytest.mark.parametrize(
    "text", ["false", "null", "1 = 2", "a = 1 and a = 2", "a > 'x' and a < 5", "a = null"]
)
def test_a_condition_that_is_never_true_matches_nothing(text):
    filter = where(text)
    assert filter.conjunctions == ()
    assert filter.slow is None
    assert not filter.matches(Event("e", attributes={"a": 1}))


# Nesting and size


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(" * 10_000 + "a = 1" + ")" * 10_000, "parts"),
        ("not " * 10_000 + "a", "parts"),
        ("not (" * 10_000 + "a" + ")" * 10_000, "parts"),
        ("(a = 1 and (b = 2 or " * 500 + "c" + "))" * 500, "nested"),
        (" or ".join(["a = 1"] * 50_000), r"use in \(...\)"),
        ("a = 1 and " * 30_000, "parts"),
        ("(" * 5_000, "not closed"),
        ("'" * 99_999, "not closed"),
        ('"' * 99_999, "not closed"),
        ("-" * 100_000, "comment"),
        ("- " * 100_000, "parts"),
        ("a in (" + "(" * 50_000, "parts"),
        ("a = 1" * 100_000, "number"),
        ("9" * 900_000, "beyond"),
        ("a = 0." + "9" * 500_000, "beyond"),
        ("x" * 2_000_000, "longer"),
    ],
    ids=lambda text: text[:12],
)
def test_what_is_too_much_is_refused_clearly(text, said):
    with pytest.raises(FilterError, match=said):
        where(text)


@pytest.mark.parametrize(
    "text",
    [
        " or ".join(["a = 1"] * 2_000),
        " and ".join(f"a{i} <> {i}" for i in range(1_000)),
        " or ".join(f"a{i} <> {i}" for i in range(1_000)),
        "a = '" + "x" * 500_000 + "'",
        "x" * 500_000,
    ],
    ids=lambda text: text[:12],
)
def test_what_is_long_is_read(text):
    filter = where(text)
    assert where(filter.text) == filter
    assert filter.conjunctions is not None or filter.slow is not None


def test_parentheses_alone_nest_without_limit():
    assert where("(" * 2_000 + "a = 1" + ")" * 2_000).text == "a = 1"


def test_deep_alternation_up_to_the_bound_is_read():
    text = "a0 = 1"
    for level in range(1, 40):
        text = f"a{level} = 1 {'and' if level % 2 else 'or'} ({text})"
    filter = where(text)
    assert filter.matches(Event("e", attributes={f"a{level}": 1 for level in range(40)}))
    with pytest.raises(FilterError, match="nested"):
        where("not (b and " * 60 + "a" + ")" * 60)


def test_a_long_list_is_one_domain():
    filter = where(f"a in ({', '.join(map(str, range(0, 20_000, 2)))})")
    ((conjunction,), _) = filter.conjunctions, filter.slow
    ((name, domain),) = conjunction.domains
    assert name == "a"
    assert len(domain.numbers) == 10_000
    assert where(filter.text) == filter
    assert filter.matches(Event("e", attributes={"a": 19_998}))
    outside = where(f"a not in ({', '.join(map(str, range(10_000)))})")
    assert outside.matches(Event("e", attributes={"a": 0.5}))
    assert len(outside.conjunctions[0].domains[0][1].numbers) == 10_001


def test_a_pattern_of_many_wildcards_is_decided_soon():
    filter = where(f"a like '{'%a' * 50}%b'")
    assert not filter.matches(Event("e", attributes={"a": "a" * 5_000}))


# Worked example: Triantafillou and Aekaterinidis, figures 1 and 2

QUOTE = {"Exchange": "NYSE", "Symbol": "OTE", "Price": 8.40, "Volume": 132700, "High": 8.80, "Low": 8.22}


def test_the_first_subscription_of_figure_2_matches_the_event_of_figure_1():
    first = where("Exchange = 'NYSE' and Symbol = 'OTE' and Price < 8.70 and Price > 8.30")
    second = where("Symbol = 'OTE' and Price = 8.20 and Low < 8.05")
    event = Event("e", attributes=QUOTE)
    assert first.matches(event)
    assert not second.matches(event)
    (conjunction,) = first.conjunctions
    assert [name for name, _ in conjunction.domains] == ["Exchange", "Price", "Symbol"]


def test_a_range_that_is_narrow_beside_its_bounds_is_guessed_to_be_rare() -> None:
    shares = [
        WhereFilter.parse(text).selectivity
        for text in (
            "price > 12.91 and price < 12.92",
            "price between 12.9 and 14",
            "price >= 12 and price <= 50 and volume > 1",
            "price > 12 and other < 13",
        )
    ]
    assert shares[0] < shares[1] < shares[3]
    assert shares[2] < WhereFilter.parse("price between -50 and 50 and volume > 1").selectivity
    whole = 10**400
    huge = [
        f"a between {whole} and {whole + 1}",
        f"a > 0.5 and a < {whole}",
        "a between 0 and 0",
        "a between 2 and 1",
    ]
    assert all(0 < WhereFilter.parse(text).selectivity < 1 for text in huge)
