"""Values as cells: whatever a condition holds is looked up where the condition is filed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from distributary.errors import DistributaryError
from distributary.filters.where.domain import Domain, comparison, contains_value, intersection, union
from distributary.systems.attributes.schema import (
    Attribute,
    AttributeSchema,
    BooleanAttribute,
    CellRange,
    NumberAttribute,
    TextAttribute,
)

numbers = some.one_of(
    some.integers(-30, 30),
    some.integers(-300, 300).map(lambda tenths: tenths / 10),
    some.floats(allow_nan=False, allow_infinity=False, width=32),
    some.sampled_from([2**53, 2**53 + 1, float(2**53), 10**400, -(10**400), 1e300, 5e-324]),
)
texts = some.text("aflpz", max_size=2)
literals = some.one_of(numbers, numbers, texts, some.booleans())
values = some.one_of(literals, some.sampled_from([None, float("nan"), float("inf"), -float("inf"), (1,)]))
comparisons = some.builds(comparison, some.sampled_from(["=", "<", "<=", ">", ">=", "<>"]), literals)
domains = some.recursive(
    comparisons,
    lambda inner: some.one_of(
        some.lists(inner, min_size=2, max_size=3).map(union),
        some.lists(inner, min_size=2, max_size=2).map(intersection),
    ),
    max_leaves=4,
)
attributes: some.SearchStrategy[Attribute] = some.one_of(
    some.builds(
        lambda low, width, precision: NumberAttribute("a", low, low + width, precision),
        some.sampled_from([0, -5, 0.1, 2.5]),
        some.sampled_from([0.05, 1, 10, 20]),
        some.sampled_from([0.1, 0.01, 0.3, 1, 7]),
    ),
    some.just(TextAttribute("a")),
    some.just(TextAttribute("a", ("f", "l", "p"))),
    some.just(BooleanAttribute("a")),
)


@given(attributes, domains, values)
@settings(max_examples=400, deadline=None)
def test_a_value_in_a_domain_is_looked_up_where_the_domain_is_filed(
    attribute: Attribute, domain: Domain, value: Any
) -> None:
    reach = attribute.reach(domain)
    if reach is not None and contains_value(domain, value):
        assert any(reach.holds(spot) for spot in attribute.spots(value))


@given(attributes, numbers, numbers)
@settings(max_examples=300, deadline=None)
def test_a_value_inside_a_narrow_range_is_found(attribute: Attribute, low: Any, high: Any) -> None:
    domain = intersection([comparison(">", min(low, high)), comparison("<", max(low, high))])
    reach = attribute.reach(domain)
    try:
        middle = low / 2 + high / 2
    except OverflowError:
        return
    if reach is not None and contains_value(domain, middle):
        assert any(reach.holds(spot) for spot in attribute.spots(middle))


@given(attributes, domains)
@settings(max_examples=100, deadline=None)
def test_runs_are_cells_of_the_attribute_in_order_and_apart(attribute: Attribute, domain: Domain) -> None:
    reach = attribute.reach(domain)
    if reach is not None:
        ends = [end for run in reach.runs for end in run]
        assert ends == sorted(ends)
        assert all(0 <= end < attribute.cells for end in ends)
        assert all(
            after.first > before.last + 1 for before, after in zip(reach.runs, reach.runs[1:], strict=False)
        )


def test_values_on_the_grid_have_one_cell_and_a_range_those_inside_it() -> None:
    price = NumberAttribute("Price", 0.0, 20.0, 0.01)
    assert [price.spots(cell / 100) for cell in range(2001)] == [(cell,) for cell in range(2001)]
    reach = price.reach(intersection([comparison(">", 8.30), comparison("<", 8.70)]))
    assert reach is not None
    assert reach.runs == (CellRange(831, 869),)
    assert reach.cells == 39


def test_values_beyond_the_ends_belong_to_the_ends() -> None:
    price = NumberAttribute("Price", 0.0, 20.0, 0.01)
    assert price.spots(-5) == price.spots(-float("inf")) == (0,)
    assert price.spots(25.5) == price.spots(10**400) == (2000,)
    for domain, run in [
        (comparison("<", -3), CellRange(0, 0)),
        (comparison("<", 0), CellRange(0, 0)),
        (comparison(">", 20), CellRange(2000, 2000)),
        (comparison(">", 30), CellRange(2000, 2000)),
        (comparison(">", 0), CellRange(1, 2000)),
    ]:
        assert price.reach(domain).runs == (run,)  # type: ignore[union-attr]


def test_what_cannot_be_looked_up_has_no_reach() -> None:
    assert TextAttribute("a").reach(comparison(">", "m")) is None
    assert TextAttribute("a", ("f", "p")).reach(comparison(">", "m")) is not None
    assert NumberAttribute("a", 0, 9).reach(comparison("<>", "m")) is None
    assert NumberAttribute("a", 0, 9).reach(Domain(null=True)) is None


TOML = """
topic = true
[attributes.price]
type = "float"
minimum = 0.0
maximum = 20.0
precision = 0.01
[attributes.volume]
type = "integer"
minimum = 0
maximum = 1000
[attributes.exchange]
type = "string"
values = ["NYSE", "ASE"]
[attributes.open]
type = "boolean"
"""


def test_a_schema_is_read_from_toml_and_from_json(tmp_path: Path) -> None:
    written = tmp_path / "schema.toml"
    written.write_text(TOML)
    schema = AttributeSchema.read(written)
    assert schema.names == ("price", "volume", "exchange", "open", "topic")
    assert [schema[name].cells for name in schema.names] == [2001, 1001, 2, 2, 0]
    as_json = tmp_path / "schema.json"
    as_json.write_text(
        json.dumps({"attributes": {"price": {"type": "float", "minimum": 0, "maximum": 1, "precision": 0.5}}})
    )
    assert AttributeSchema.read(as_json)["price"].cells == 3


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({"attributes": {"a": {"type": "money"}}}, "'a' needs a type, one of float"),
        ({"attributes": {"a": {"type": "float", "minimum": 0, "maximum": 1}}}, "needs 'precision'"),
        ({"attributes": {"a": {"type": "integer", "minimum": 3, "maximum": 1}}}, "must be less than"),
        ({"attributes": {"a": {"type": "integer", "minimum": "x", "maximum": 1}}}, "must be a finite number"),
        (
            {"attributes": {"a": {"type": "float", "minimum": 0, "maximum": 1, "precision": 0}}},
            "more than 0, not 0",
        ),
        ({"attributes": {"a": {"type": "boolean", "values": []}}}, "cannot have 'values'"),
        ({"attributes": {"a": {"type": "string", "values": "abc"}}}, "a list of texts"),
        ({"attributes": {"a": {"type": "string", "values": [1]}}}, "must be texts"),
        ({"attributes": {}}, "without attributes"),
        ({"attribute": {}}, "unknown key 'attribute'"),
        ({"attributes": [], "topic": True}, "a table by name"),
        ({"attributes": {"topic": {"type": "boolean"}}, "topic": True}, "rename it"),
    ],
)
def test_a_malformed_schema_is_refused_with_what_is_wrong(record: dict[str, Any], says: str) -> None:
    with pytest.raises(DistributaryError, match=says):
        AttributeSchema.from_record(record)


def test_a_file_that_is_no_schema_is_named(tmp_path: Path) -> None:
    for name, text in [("a.toml", "= 3"), ("b.json", "[1"), ("c.json", "3")]:
        (tmp_path / name).write_text(text)
        with pytest.raises(DistributaryError, match=name):
            AttributeSchema.read(tmp_path / name)
    with pytest.raises(DistributaryError, match=r"missing\.toml"):
        AttributeSchema.read(tmp_path / "missing.toml")
