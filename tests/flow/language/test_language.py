"""Windows, aggregates, sources and operations: their texts, their arithmetic, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.errors import DistributaryError, InputError
from distributary.flow import (
    Aggregate,
    Catalogue,
    Copy,
    Count,
    CountWindow,
    FilterOperation,
    Function,
    Join,
    Map,
    Operation,
    Query,
    QueryBuilder,
    Rename,
    Schema,
    Sort,
    Source,
    TimeWindow,
    Truncate,
    Union,
    Unique,
    splitting_of,
)
from distributary.flow.aggregates import accumulator, parse_aggregate
from distributary.flow.language.file import make_operation
from distributary.flow.language.identifiers import join_id, window_id
from distributary.flow.language.window import parse_window
from distributary.model import Event
from flow.random_queries import INTEGERS, KINDS, NUMBERS, RANDOMS, SOURCES, random_operation

SCHEMA = Schema({"s": "text", "i": "integer", "x": "number", "b": "boolean", "at": "integer"}, time="at")


# Windows


@given(st.integers(1, 50), st.integers(1, 50), st.integers(-500, 500))
def test_an_item_is_in_the_windows_whose_span_holds_its_time(size: int, slide: int, time: int) -> None:
    slide = min(size, slide)
    starts = range(-600 // slide * slide, 600, slide)
    expected = [start for start in starts if start <= time < start + size]
    assert list(TimeWindow(size, slide).starts(time)) == expected


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("10 minutes", TimeWindow(600_000, 600_000)),
        ("minute", TimeWindow(60_000, 60_000)),
        ("1 Hour every 10 MINUTES", TimeWindow(3_600_000, 600_000)),
        ("90s", TimeWindow(90_000, 90_000)),
        ("1 item", CountWindow(1, 1)),
        ("100 items every 10 items", CountWindow(100, 10)),
    ],
)
def test_windows_are_read_and_written(text: str, window: TimeWindow | CountWindow) -> None:
    assert parse_window(text) == window
    assert parse_window(window.text) == window


@pytest.mark.parametrize(
    "text",
    [
        *("", "ten minutes", "10", "0 items", "0 seconds", "10 minutes every 1 hour", "5 items every 6"),
        *(
            "1 day every 1 ms",
            "10 items every 1 minute",
            "1 minute every 10 items",
            "99999999999999999 weeks",
        ),
    ],
)
def test_what_is_no_window_is_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_window(text)
    assert caught.value.field == "window"


# Aggregates


def total(text: str, values: list[object], name: str = "x") -> object:
    arithmetic = accumulator(parse_aggregate(text), SCHEMA)
    partial = arithmetic.start
    for value in values:
        partial = arithmetic.add(partial, {name: value})
    return arithmetic.finish(partial)


@given(st.lists(st.floats(-(2.0**61), 2.0**61)))
def test_the_sum_of_numbers_is_exact_but_for_what_is_tiny_and_the_last_rounding(values: list[float]) -> None:
    found = total("sum(x)", [*values])
    exact = sum(map(Fraction, values))
    if not values:
        assert found is None
        return
    assert isinstance(found, float)
    lost = Fraction(len(values), 2**62)
    assert abs(Fraction(found) - exact) <= lost + 2 * Fraction(math.ulp(found))


@given(st.lists(st.none() | st.sampled_from(NUMBERS)), RANDOMS)
def test_partial_results_merge_to_the_same_whatever_the_order_and_grouping(
    values: list[float | None], rng: Random
) -> None:
    for text in ("sum(x)", "average(x)", "count(x)", "min(x)", "max(x)", "count()"):
        arithmetic = accumulator(parse_aggregate(text), SCHEMA)
        partials = [arithmetic.add(arithmetic.start, {"x": value}) for value in values]
        while len(partials) > 1:
            rng.shuffle(partials)
            partials.append(arithmetic.merge(partials.pop(), partials.pop()))
        merged = arithmetic.finish(partials[0] if partials else arithmetic.start)
        assert merged == total(text, [*values])


@given(st.lists(st.none() | st.sampled_from(INTEGERS)))
def test_integers_aggregate_exactly(values: list[int | None]) -> None:
    there = [value for value in values if value is not None]
    exact = sum(there)
    fits = -(2**63) <= exact < 2**63
    assert total("sum(i)", [*values], "i") == (exact if there and fits else None)
    assert total("avg(i)", [*values], "i") == (float(exact) / float(len(there)) if there else None)
    assert total("min(i)", [*values], "i") == min(there, default=None)
    assert total("count(i)", [*values], "i") == len(there)


@pytest.mark.parametrize(
    "text", ["median(x)", "sum()", "sum(s)", "sum(nothing)", "x", "sum(x) + 1", "avg(b)"]
)
def test_what_is_no_aggregate_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        accumulator(parse_aggregate(text), SCHEMA)


# Ids


@given(st.lists(st.tuples(st.text("a&%", max_size=3), st.text("a&%", max_size=3)), unique=True))
def test_ids_of_pairs_differ_when_the_pairs_do(pairs: list[tuple[str, str]]) -> None:
    assert len({join_id(*pair) for pair in pairs}) == len(pairs)


groups = st.tuples(
    st.none() | st.text("1:|a", max_size=4), st.none() | st.integers(0, 11), st.none() | st.text("1:|")
)


@given(st.lists(groups, unique=True))
def test_ids_of_groups_differ_when_the_groups_do(values: list[tuple[object, ...]]) -> None:
    assert len({window_id(0, group) for group in values}) == len(values)


# Operations


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20)
@given(rng=RANDOMS)
def test_an_operation_is_made_again_from_its_parameters(kind: str, rng: Random) -> None:
    operation, _ = random_operation(rng, kind, [(source.name, source.schema) for source in SOURCES])
    again = replace(operation)
    assert again == operation
    assert hash(again) == hash(operation)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (FilterOperation("i>1 AND x<2"), FilterOperation(where="i > 1 and x < 2")),
        (Map({"a": "i+1", "b": "x"}), Map({"b": "( x )", "a": "i + 1"})),
        (Aggregate("60 s", {"n": "COUNT(*)"}, ["s"]), Aggregate("1 minute", {"n": "count()"}, ("s",))),
        (Join(["s"], "1 second"), Join({"s": "s"}, 1000)),
        (Sort("1 hour", ["x"]), Sort("60 minutes", ["x asc"])),
        (Count("1 minute").canonical, Aggregate("1 minute", {"count": "count()"})),
    ],
)
def test_what_means_the_same_compares_equal(one: Operation, other: Operation) -> None:
    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize(
    ("operation", "told"),
    [
        (FilterOperation("s > 1"), "where: 's' is text, not integer"),
        (FilterOperation("s = i"), "where: 's' is text and 'i' is integer; they do not compare"),
        (FilterOperation("i like 'a'"), "where: 'i' is integer, not text"),
        (FilterOperation(block="s"), "block: 's' is text, not boolean"),
        (Map({"at": "i"}), "set.at: is the time attribute, which a map cannot change"),
        (Map(keep=["y"]), "keep: no attribute 'y'; there are s, i, x, b, at"),
        (Rename({"s": "i"}), "names: two attributes would be called 'i'"),
        (Copy({"s": "i"}), "names: there is an attribute 'i' already"),
        (Aggregate("1 s", {"n": "count()"}, ["x"]), "group_by: 'x' is a number; group by text"),
        (Aggregate("1 s", {"s": "count()"}, ["s"]), "values.s: is an attribute of group_by as well"),
        (Aggregate("1 s", {"at": "count()"}), "time: there is an attribute 'at' already"),
        (Aggregate("1 s", {"n": "sum(s)"}), "values.n: sum(s) takes integer or number, not text"),
        (Sort("1 s", ["y desc"]), "by: no attribute 'y'"),
        (Sort("1 s", ["s"], time="x"), "time: there is an attribute 'x' already"),
        (Unique("1 s", ["y"]), "by: no attribute 'y'"),
        (Function("no.such:thing", {}), "use: cannot be loaded: ModuleNotFoundError"),
        (Function("math:pi", {}), "use: is no function: 'math:pi'"),
        (Function("math:floor", {"at": "integer"}), "gives.at: is the time attribute"),
    ],
)
def test_an_operation_that_does_not_fit_its_input_says_what_would_be_right(
    operation: Operation, told: str
) -> None:
    with pytest.raises(DistributaryError) as caught:
        operation.schema(SCHEMA)
    assert str(caught.value).startswith(told)


def test_operations_of_two_inputs_say_where_the_inputs_do_not_fit() -> None:
    other = Schema({"s": "integer", "when": "integer"}, time="when")
    with pytest.raises(DistributaryError) as caught:
        Union().schema(SCHEMA, other)
    assert "'s' is text in input 1 but integer in input 2" in str(caught.value)
    assert "'x' is number in input 1 but missing in input 2" in str(caught.value)
    assert "the time is 'at' in input 1 but 'when' in input 2" in str(caught.value)
    with pytest.raises(DistributaryError, match="keys need one type"):
        Join(["s"], 1).schema(SCHEMA, other)
    with pytest.raises(DistributaryError, match="both inputs have 'i'; give a prefix"):
        Join(["s"], 1).schema(SCHEMA, SCHEMA)


@pytest.mark.parametrize(
    ("kind", "parameters", "field"),
    [
        ("filter", {}, "where"),
        ("filter", {"where": "a >"}, "where"),
        ("filter", {"block": 7}, "block"),
        ("map", {"set": "a"}, "set"),
        ("map", {"set": {"a": "b +"}}, "set.a"),
        ("map", {"set": {}}, "set"),
        ("rename", {"names": {}}, "names"),
        ("copy", {"names": {"a": "c", "b": "c"}}, "names"),
        ("aggregate", {"window": "1 s"}, "values"),
        ("aggregate", {"window": "1 s", "values": {"a": "max"}}, "values.a"),
        ("count", {"window": "1 s", "group_by": "s"}, "group_by"),
        ("join", {"on": [], "within": "1 s"}, "on"),
        ("join", {"on": ["s"], "within": "soon"}, "within"),
        ("sort", {"window": "1 h every 1 s", "by": ["s"]}, "window"),
        ("truncate", {"window": "1 s", "items": 0}, "items"),
        ("unique", {"window": "1 s", "by": ["s", "s"]}, "by"),
        ("function", {"use": "a:b", "gives": {"a": "float"}}, "gives.a"),
        ("function", {"use": "a:b", "gives": {}, "replicas": "merge"}, "replicas"),
        ("function", {"use": "a:b", "gives": {}, "window": "1 s", "replicas": "keyed"}, "by"),
        ("function", {"use": "a:b", "gives": {}, "window": "1 s", "partial": "a:b"}, "partial"),
        ("function", {"use": "a:b", "gives": {}, "window": "5 items"}, "window"),
        ("union", {"extra": 1}, "extra"),
    ],
)
def test_a_malformed_operation_is_refused_by_its_field(
    kind: str, parameters: dict[str, object], field: str
) -> None:
    with pytest.raises(DistributaryError) as caught:
        make_operation(kind, parameters)
    assert str(caught.value).startswith(f"{field}: ")


@pytest.mark.parametrize("field", ["where", "block"])
@pytest.mark.parametrize("condition", ["at < now()", "i = 1 or hour(now()) > 8", "current_timestamp > s"])
def test_a_condition_on_the_clock_is_refused_with_what_to_write(field: str, condition: str) -> None:
    with pytest.raises(InputError) as caught:
        make_operation("filter", {field: condition})
    assert caught.value.field == field
    assert "now() in a subscription to what is published" in caught.value.reason


def test_what_cannot_be_divided_says_so() -> None:
    assert splitting_of(Count("5 items"), SCHEMA) is None
    assert splitting_of(Function("math:floor", {}, "1 s"), SCHEMA) is None
    keyed = splitting_of(Count("5 items", ["s"]), SCHEMA)
    assert keyed is not None
    assert keyed.keys == (("s",),)
    assert splitting_of(Truncate("1 s", 3), SCHEMA) is not None


# Sources and queries


def test_a_source_tells_all_its_faults() -> None:
    with pytest.raises(DistributaryError) as caught:
        Source("a b", {"at": "float"}, time="at", lateness="soon")
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == [
        "source 'a b', topic",
        "source 'a b', name",
        "source 'a b', schema",
        "source 'a b', lateness",
    ]


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ({"i": 1}, "at: is None, where source 'one' needs the time"),
        ({"at": 2**52 + 1}, "at: is 4503599627370497, where source 'one' needs the time"),
        ({"at": 1.0}, "at: 1.0 is not of type integer"),
        ({"at": True}, "at: True is not of type integer"),
        ({"at": 1, "i": 2**63}, "i: 9223372036854775808 is beyond 64 bits"),
        ({"at": 1, "x": math.nan}, "x: nan is no finite number"),
        ({"at": 1, "x": 10**400}, "x: 1000"),
        ({"at": 1, "s": ("a",)}, "s: ('a',) is not of type text"),
        ({"at": 1, "b": 1}, "b: 1 is not of type boolean"),
    ],
)
def test_an_event_that_does_not_fit_says_why(attributes: dict[str, object], told: str) -> None:
    with pytest.raises(InputError) as caught:
        SOURCES[0].item(Event("e", "one", attributes))  # type: ignore[arg-type]
    assert str(caught.value).startswith(told)


def test_an_item_holds_doubles_without_negative_zero_and_nulls_for_what_is_missing() -> None:
    item = SOURCES[0].item(Event("e", "one", {"at": 1, "x": -0.0, "more": 1}))
    assert item.attributes == {"s": None, "i": None, "x": 0.0, "b": None, "at": 1}
    assert math.copysign(1, item.attributes["x"]) == 1
    assert type(SOURCES[0].item(Event("e", "one", {"at": 1, "x": 3})).attributes["x"]) is float


def test_a_query_must_have_operators_with_names_and_as_many_inputs_as_their_kind_takes() -> None:
    with pytest.raises(DistributaryError, match="query 'q', operators: there are none"):
        Query("q", [])
    build = QueryBuilder("q")
    with pytest.raises(InputError, match="from: a union takes at least 2 inputs, not 1"):
        build.union("u", "one")
    with pytest.raises(InputError, match="the name of an operator is '1x'"):
        build.filter("1x", "one", where="i > 1")
    build.filter("a", "one", where="i > 1")
    build.filter("a", "one", where="i > 2")
    with pytest.raises(DistributaryError, match="two operators are called 'a'"):
        build.query()


def test_two_of_one_name_are_told() -> None:
    build = QueryBuilder("q")
    build.filter("a", "one", where="i > 1")
    twice = Catalogue([*SOURCES, SOURCES[0]], [build.query(), build.query()])
    assert [str(problem) for problem in twice.problems] == [
        "source 'one': there are two sources of this name",
        "query 'q': there are two queries of this name; the first is taken",
    ]
    assert list(twice.queries) == ["q"]
