"""What is found in subscriptions that are held against a schema, and what is not."""

from __future__ import annotations

from contextlib import suppress
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary import Event, InputError, Subscription
from distributary.filters.lint.conditions import MAX_REMARKS
from distributary.filters.lint.covering import MAX_COMPARED
from distributary.filters.lint.findings import FINDINGS, Severity
from distributary.filters.lint.lint import lint
from distributary.filters.lint.schema import MAX_LOOKUPS, EventSchema
from distributary.filters.profile import Profile
from distributary.filters.where.filter import WhereFilter

DDL = """price double, at timestamp, tags array<string>, name string, ok boolean, day date,
         props map<string,string>, wind struct<speed: int>, topic string"""
SCHEMA = EventSchema.of_ddl(DDL)


def found(where: str, schema: EventSchema | None = SCHEMA) -> list[tuple[str, str]]:
    return [(each.what, each.advice) for each in lint([Subscription("s", "ann", where=where)], schema)]


@pytest.mark.parametrize(
    ("where", "what", "advice"),
    [
        ("prise > 5", "unknown attribute", "write price"),
        ("Price > 5", "unknown attribute", "write price"),
        ('name = "New York"', "unknown attribute", "write 'New York' for the text"),
        ("name = abc", "unknown attribute", "write 'abc' for the text"),
        ("wind.sped = 5", "unknown attribute", "write wind.speed"),
        ("name = 5", "type clash", "write '5', or cast(name as double)"),
        ("price = '5'", "type clash", "write 5"),
        ("price between 1 and 'x'", "type clash", "write a number"),
        ("price in (1, 'x')", "type clash", "write a number"),
        ("at > 'yesterday'", "type clash", "write such as '2026-06-01T12:30:00Z'"),
        ("price like '5%'", "type clash", "compare with < and >, or write cast(price as text) like ..."),
        ("tags = 'red'", "type clash", "write array_contains(tags, 'red')"),
        ("wind = 5", "type clash", "name what is inside, as in wind.part"),
        ("ok = 1", "type clash", "write ok or not ok"),
        ("name", "type clash", "compare name with a value"),
        ("price = name", "type clash", "cast one of them, as in cast(price as text)"),
        ("lower(price) = 'x'", "type clash", "give it a text, or cast"),
        ("length(name) = 'x'", "type clash", "write a number"),
        ("price + name > 5", "type clash", "give it numbers, or cast"),
        ("at - day = 5", "type clash", "compare with an interval"),
        ("tags[0] = 5", "type clash", "write '5', or cast(tags[0] as double)"),
        ("price = null", "never true", "write price is null"),
        ("price <> null", "never true", "write price is not null"),
        ("price not in (1, null)", "never true", "leave null out, or add price is null"),
        ("price > 5 and price < 4", "never true", ""),
    ],
)
def test_what_is_wrong_with_a_condition_is_found_with_what_to_write(
    where: str, what: str, advice: str
) -> None:
    assert (what, advice) in found(where)
    assert what in FINDINGS


@pytest.mark.parametrize(
    "where",
    [
        "price > 5 and name = 'x' and ok",
        "at > '2026-01-01' and day = date '2026-01-01'",
        "array_contains(tags, 'red')",
        "props['utm'] = 'x' and props.utm = 'x'",
        "wind.speed > 2 and wind is not null",
        "topic like 'A/%' and id = 'e1'",
        "at - day > interval '1 day'",
        "case when ok then 1 else 2 end = 1",
        "cast(price as text) = '5'",
        "hour(at) between 8 and 17 and at + interval '1 month' > now()",
    ],
)
def test_nothing_is_said_of_a_condition_that_is_well(where: str) -> None:
    assert [each for each in found(where) if each[0] != "slow"] == []


def test_a_condition_that_no_index_can_narrow_is_said_to_be_slow() -> None:
    assert [what for what, _ in found("name like '%x'")] == ["slow"]
    assert found("name like 'x%'") == []


def test_without_a_schema_only_what_needs_none_is_found() -> None:
    assert found("prise = 5", None) == []
    assert [what for what, _ in found("a = 1 and a = 2", None)] == ["never true"]


def test_topics_documents_and_tolerances_are_held_against_the_schema() -> None:
    schema = EventSchema.of_ddl("price double, name string")
    filters: list[dict[str, Any]] = [
        {"topic": "A"},
        {"path": "//a"},
        {"change": {"name": 1}},
        {"change": {"prize": 1}},
        {"change": {"price": 1}},
        {"where": "topic = 'A'"},
    ]
    subscriptions = [Subscription(f"s{n}", f"u{n}", **each) for n, each in enumerate(filters)]
    told = [(each.subscription, each.filter, each.what) for each in lint(subscriptions, schema)]
    assert told == [
        ("s0", "topic", "missing"),
        ("s1", "path", "missing"),
        ("s2", "change", "type clash"),
        ("s3", "change", "unknown attribute"),
        ("s5", "where", "unknown attribute"),
    ]


def test_an_arrow_schema_and_sampled_events_say_the_same_as_a_ddl_text() -> None:
    arrow = pa.schema(
        {
            "price": pa.float64(),
            "tags": pa.list_(pa.dictionary(pa.int32(), pa.string())),
            "wind": pa.struct({"speed": pa.int32()}),
            "at": pa.timestamp("ns"),
            "data": pa.large_binary(),
            "amount": pa.decimal128(10, 2),
        }
    )
    text = EventSchema.of_ddl(
        "price double, tags array<string>, wind struct<speed int>, at timestamp not null comment 'x, y', "
        "`data` binary, amount decimal(10, 2)"
    )
    assert EventSchema.of_arrow(arrow) == text
    event = {"id": "e", "price": 1.5, "tags": ["a"], "wind": {"speed": 3}}
    sampled = EventSchema.of_events([Event.from_record(event)])
    assert {name: text.attributes[name] for name in sampled.attributes} == sampled.attributes


def test_what_was_not_seen_in_a_sample_is_a_warning_and_in_a_schema_an_error() -> None:
    sampled = EventSchema.of_events([Event("e", attributes={"a": 1}), Event("f", attributes={"a": "x"})])
    (one,) = lint([Subscription("s", "ann", where="b = 1")], sampled)
    assert one.severity is Severity.WARNING
    assert found("a = 1 or a = 'x'", sampled) == []
    (one,) = lint([Subscription("s", "ann", where="b = 1")], EventSchema.of_ddl("a int"))
    assert one.severity is Severity.ERROR


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a doubel",
        "a int,, b int",
        "a array<int",
        "a int b int",
        "`a int",
        "a int, a int",
        "a decimal(1",
        "a " + "array<" * 100_000 + "int",
    ],
)
def test_a_ddl_text_that_is_none_is_refused_with_the_place(text: str) -> None:
    with pytest.raises(InputError) as error:
        EventSchema.of_ddl(text)
    assert error.value.field == "schema"


@given(st.text(alphabet="ab <>(),:`'map intray", max_size=40))
def test_no_ddl_text_does_harm(text: str) -> None:
    with suppress(InputError):
        assert EventSchema.of_ddl(text).attributes


VALUES = {
    "n": st.sampled_from([0, 1, 2, 2.5, -3]),
    "t": st.sampled_from(["", "a", "red", "2026-06-01", "2"]),
    "b": st.booleans(),
    "i": st.sampled_from([date(2026, 6, 1), datetime(2026, 6, 1, 12)]),
    "l": st.sampled_from([("red",), (), ("a", "b")]),
}
KINDS = EventSchema.of_ddl("n double, t string, b boolean, i timestamp, l array<string>")
OPERANDS = st.sampled_from(
    [
        *VALUES,
        "lower({0})",
        "length({0})",
        "{0} + {1}",
        "{0} - {1}",
        "hour({0})",
        "coalesce({0}, {1})",
        "{0}[0]",
        "abs({0})",
        "{0} || {1}",
        "date({0})",
        "nullif({0}, {1})",
        "cast({0} as text)",
    ]
)
LITERALS = st.sampled_from(
    ["1", "2.5", "'a'", "'red'", "'2026-06-01'", "true", "date '2026-06-01'", "interval '1 day'"]
)


@st.composite
def leaves(draw: st.DrawFn) -> str:
    names = st.sampled_from(sorted(VALUES))
    operand = draw(OPERANDS).format(draw(names), draw(names))
    form = draw(
        st.sampled_from(
            ["{0} = {1}", "{0} < {1}", "{0} in ({1}, {2})", "{0} like 'r%'", "{0} = {3}", "({0}) is true"]
        )
    )
    return form.format(operand, draw(LITERALS), draw(LITERALS), draw(names))


@given(leaves(), st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=8))
def test_what_is_said_to_clash_is_true_of_no_event(where: str, events: list[dict[str, Any]]) -> None:
    said = list(lint([Subscription("s", "ann", where=where)], KINDS))
    clash = [each for each in said if each.what == "type clash" and each.severity is Severity.ERROR]
    filter = WhereFilter.parse(where)
    if "coalesce" in where or "nullif" in where:
        clash = [each for each in clash if "is never true" in each.message]
    if clash:
        assert not any(filter.matches(Event("e", attributes=event)) for event in events), clash


TOPICS = st.sampled_from(["A", "A/B", "A/*", "A/B/#", "A/*/C", "B", "mqtt:+/B"])
WHERES = st.sampled_from(["a > 1", "a > 2", "a > 2 and b = 1", "a = 3 or b = 1", "b = 1", "a like '%x'"])


@st.composite
def subscription_sets(draw: st.DrawFn) -> list[Subscription]:
    filters = st.fixed_dictionaries(
        {}, optional={"topic": TOPICS, "where": WHERES, "change": st.sampled_from([{"a": 0}, {"a": 1}])}
    ).filter(bool)
    given = draw(st.lists(filters, max_size=12))
    return [Subscription(f"s{n}", "ann", **each) for n, each in enumerate(given)]


@given(subscription_sets())
def test_covered_is_exactly_what_some_other_covers_and_one_of_equals_stays(given: list[Subscription]) -> None:
    told = {each.subscription for each in lint(given) if each.what == "covered"}
    profiles = {each.id: Profile.of(each) for each in given}
    order = list(profiles)
    expected = {
        mine
        for mine in order
        for other in order
        if mine != other
        and profiles[other].covers(profiles[mine])
        and (not profiles[mine].covers(profiles[other]) or order.index(other) < order.index(mine))
    }
    assert told == expected


def test_subscriptions_of_others_cover_nothing() -> None:
    given = [Subscription("a", "ann", topic="A"), Subscription("b", "bob", topic="A/B")]
    assert list(lint(given)) == []


def test_covering_is_cut_off_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    given = [Subscription(f"s{n}", "ann", where=f"a = {n}") for n in range(MAX_COMPARED + 2)]
    compared = 0
    covers = Profile.covers

    def counted(mine: Profile, other: Profile) -> bool:
        nonlocal compared
        compared += 1
        return covers(mine, other)

    monkeypatch.setattr(Profile, "covers", counted)
    told = list(lint(given))
    assert [each.what for each in told] == ["not compared"]
    assert compared <= MAX_COMPARED * len(given)


@pytest.mark.parametrize(
    ("where", "advice"),
    [
        ("case when price = 'x' then 1 else 2 end = 1", "write a number"),
        ("case when ok then 1 when lower(price) = 'x' then 2 end = 1", "give it a text, or cast"),
        (
            "case when ok and (name = 'a' or not tags = 'red') then 1 end = 1",
            "write array_contains(tags, 'red')",
        ),
        ("case when ok then case when day = 5 then 1 end end = 1", "write such as '2026-06-01T12:30:00Z'"),
        ("coalesce(case when at > 'soon' then 1 end, 2) = 1", "write such as '2026-06-01T12:30:00Z'"),
        ("if(name = 5, 1, 2) = 1", "write '5', or cast(name as double)"),
        ("array_contains(tags, 5)", "look for a text"),
        ("array_contains(tags, price)", "look for a text"),
        ("array_contains(days, 'soon')", "look for a timestamp"),
    ],
)
def test_what_clashes_within_an_operation_is_found(where: str, advice: str) -> None:
    schema = EventSchema.of_ddl(DDL + ", days array<date>")
    assert ("type clash", advice) in found(where, schema)


@pytest.mark.parametrize(
    "where",
    [
        "array_contains(tags, 'red') and array_contains(tags, name)",
        "array_contains(days, '2026-06-01') and array_contains(days, day)",
        "array_contains(numbers, price)",
        "case when price > 5 and name = 'x' then 1 else 2 end = 1",
        "case when price is null then 1 end = 1",
    ],
)
def test_nothing_is_said_of_an_operation_whose_parts_compare(where: str) -> None:
    schema = EventSchema.of_ddl(DDL + ", days array<date>, numbers array<int>")
    assert [each for each in found(where, schema) if each[0] != "slow"] == []


def test_a_comparison_with_null_is_found_within_a_choice() -> None:
    assert ("never true", "write price is null") in found(
        "case when price = null then 1 else 2 end = 2", None
    )


def test_names_that_no_event_has_are_looked_up_a_bounded_number_of_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up = []
    monkeypatch.setattr(
        "distributary.filters.lint.schema.get_close_matches",
        lambda name, known, count: looked_up.append(name) or [],
    )
    schema = EventSchema.of_ddl("price double")
    wishes = [Subscription(f"s{n}", "ann", where=f"a{n % 300} = 1 or b{n % 300} = 1") for n in range(900)]
    unknown = [each for each in lint(wishes, schema, covered=False) if each.what == "unknown attribute"]
    assert len(unknown) == 1800
    assert len(looked_up) == len(set(looked_up)) == MAX_LOOKUPS


def test_of_one_condition_so_much_is_told_and_no_more() -> None:
    where = " or ".join(f"a{number} = 1" for number in range(2 * MAX_REMARKS))
    told = list(lint([Subscription("s", "ann", where=where)], SCHEMA))
    assert [each.what for each in told].count("unknown attribute") == MAX_REMARKS
    assert (told[-1].what, told[-1].severity) == ("not told", Severity.NOTE)
    long = "name in (" + ", ".join(map(str, range(50_000))) + ")"
    assert all(len(str(each)) < 1000 for each in lint([Subscription("s", "ann", where=long)], SCHEMA))


def test_a_subscriber_with_very_many_subscriptions_is_compared_within_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("distributary.filters.lint.covering.MAX_COMPARISONS", 1000)
    compared = []
    covers = Profile.covers
    monkeypatch.setattr(Profile, "covers", lambda one, other: compared.append(one) or covers(one, other))
    wishes = [Subscription(f"s{n:03}", "ann", where=f"price = {n}") for n in range(200)]
    (told,) = [each for each in lint(wishes, SCHEMA) if each.what == "not compared"]
    assert len(compared) <= 1000 + MAX_COMPARED
    assert "of 'ann'" in told.message


ALWAYS = "is true for every event"
ALL_TOPICS = "asks for every topic but those that begin with $"


@pytest.mark.parametrize(
    ("filters", "told"),
    [
        ({"where": "true"}, [("where", "note", ALWAYS, "")]),
        ({"where": "1 = 1 or a = 2"}, [("where", "warning", ALWAYS, "write true if that is meant")]),
        (
            {"where": "a is null or not a is null", "topic": "A"},
            [("where", "warning", ALWAYS, "leave it out")],
        ),
        ({"where": "true", "topic": "A"}, [("where", "note", ALWAYS, "leave it out")]),
        ({"topic": "mqtt:#"}, [("topic", "note", ALL_TOPICS, "")]),
        ({"topic": "mqtt:+/#", "change": {"a": 1}}, [("topic", "note", ALL_TOPICS, "")]),
        ({"path": "//*"}, [("path", "note", "asks for every document", "")]),
        ({"path": "//*", "topic": "A"}, []),
        ({"topic": "mqtt:#", "where": "a = 1"}, []),
        ({"topic": "mqtt:+"}, []),
    ],
)
def test_what_asks_for_everything_is_told(filters, told):
    found = lint([Subscription("s", "ann", **filters)])
    assert [(each.filter, each.severity.value, each.message, each.advice) for each in found] == told


def test_what_lets_every_event_pass_makes_the_others_of_a_subscriber_needless():
    given = [
        Subscription("topic", "ann", topic="A"),
        Subscription("all", "ann", where="a is null or a is not null"),
        Subscription("path", "ann", path="a", change={"a": 1}),
        Subscription("also all", "ann", where="1 = 1"),
        Subscription("bob's", "bob", topic="A"),
    ]
    covered = [(each.subscription, each.message) for each in lint(given) if each.what == "covered"]
    by = "subscription 'all' of 'ann' gets everything that this one gets"
    assert covered == [("topic", by), ("path", by), ("also all", by)]
