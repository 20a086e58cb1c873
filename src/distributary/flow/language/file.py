"""Sources and queries from a TOML file, or from the tables of a larger one.

    [sources.trades]
    topic = "trades"
    time = "at"
    lateness = "5 seconds"
    schema = { symbol = "text", size = "integer", at = "integer" }

    [queries.busy]
    outputs = ["per_minute"]                 # default: the streams that no operator of the query reads
    super = { unit = ["large", "per_minute"] }
    ordered = true                           # in a network: the answer in stream order (default: false)

    [[queries.busy.operators]]
    name = "large"
    filter = { from = "trades", where = "size > 1000" }

    [[queries.busy.operators]]
    name = "per_minute"
    count = { from = "large", window = "1 minute", group_by = ["symbol"] }

A faulty source or query is left out and told of in the catalogue's `problems`, as many faults of it as can be
seen at once; only a file that is no TOML, or has unknown tables, is refused as a whole.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from distributary.errors import DistributaryError, InputError
from distributary.flow.catalogue import Catalogue
from distributary.flow.language.function import Function
from distributary.flow.language.operators import Copy, FilterOperation, Map, Operation, Rename, Split, Union
from distributary.flow.language.problems import Checks, located
from distributary.flow.language.query import Operator, Query
from distributary.flow.language.schema import listed
from distributary.flow.language.source import Source
from distributary.flow.language.windowed import Aggregate, Count, Join, Sort, Truncate, Unique

KINDS: dict[str, type[Operation]] = {
    each.kind: each
    for each in (
        *(FilterOperation, Map, Rename, Copy, Union, Split),
        *(Aggregate, Count, Join, Sort, Truncate, Unique, Function),
    )
}
TABLES = ("sources", "queries")
SOURCE_KEYS = ("topic", "where", "time", "lateness", "schema", "derived")
QUERY_KEYS = ("operators", "outputs", "super", "ordered")


def read_query_file(path: str | Path) -> Catalogue:
    """The catalogue that a TOML file describes."""
    from distributary.toml_files import read_toml, suggestion  # they load pydantic

    tables = read_toml(path)
    unknown = [f"unknown table {name!r}; {suggestion(name, TABLES)}" for name in tables if name not in TABLES]
    if unknown:
        raise DistributaryError(f"{path}: {', and '.join(unknown)}")
    return read_catalogue(tables)


def read_catalogue(tables: Mapping[str, Any]) -> Catalogue:
    """The catalogue that the tables `sources` and `queries` describe; other tables are not looked at.

    >>> operators = [{"name": "large", "filter": {"from": "trades", "where": "size >"}}]
    >>> print(read_catalogue({"queries": {"busy": {"operators": operators}}}).problems[0])
    query 'busy', operator 'large', where: something is missing behind this at position 5 of 'size >'
    """
    checks = Checks()
    sources, queries = [], []
    for name, table in _named(tables, "sources", checks):
        with checks.at(source=name):
            _check_keys(table, SOURCE_KEYS, "source")
            sources.append(Source(name, **{"schema": {}, **table}))
    for name, table in _named(tables, "queries", checks):
        with checks.at(query=name):
            queries.append(_query(name, table))
    return Catalogue(sources, queries, [located(fault) for fault in checks.found])


def _named(tables: Mapping[str, Any], what: str, checks: Checks) -> list[tuple[str, Any]]:
    """The tables called `what.name`, by their names."""
    given = tables.get(what, {})
    if isinstance(given, Mapping):
        return list(given.items())
    checks.fault(f"must be tables such as [{what}.name], not {given!r}", field=what)
    return []


def _check_keys(table: Any, known: tuple[str, ...], what: str) -> None:
    if not isinstance(table, Mapping):
        raise InputError(f"must be a table with {', '.join(known)}, not {table!r}", field=what)
    for key in table:
        if key not in known:
            raise InputError(f"unknown; known are {', '.join(known)}", field=str(key))


def _query(name: str, table: Any) -> Query:
    _check_keys(table, QUERY_KEYS, "query")
    rows = table.get("operators", [])
    if not isinstance(rows, list):
        raise InputError(f"must be [[queries.{name}.operators]] entries", field="operators")
    operators: list[Operator] = []
    checks = Checks()
    for number, row in enumerate(rows, 1):
        called = row.get("name") if isinstance(row, Mapping) else None
        with checks.at(operator=called if isinstance(called, str) else str(number)):
            operators.append(_operator(row))
    checks.finish()
    units, ordered = _units(table.get("super", {})), table.get("ordered", False)
    return Query(name, operators, table.get("outputs"), units, ordered)


def _units(given: Any) -> Mapping[str, list[str]]:
    fits = isinstance(given, Mapping) and all(
        isinstance(members, list) and all(isinstance(member, str) for member in members)
        for members in given.values()
    )
    if not fits:
        raise InputError('must be a table such as { unit = ["large", "per_minute"] }', field="super")
    return dict(given)


def _operator(row: Any) -> Operator:
    if not isinstance(row, Mapping):
        raise InputError(f"must be a table with a name and a kind, not {row!r}", field="operators")
    kinds = [key for key in row if key not in ("name", "publish")]
    if len(kinds) != 1 or kinds[0] not in KINDS:
        reason = f"must have a name and one kind of {listed(list(KINDS))}; it has {listed(kinds)}"
        raise InputError(reason, field="operator")
    kind = kinds[0]
    table = row[kind]
    if not isinstance(table, Mapping):
        raise InputError(f'must be a table such as {{ from = "trades" }}, not {table!r}', field=kind)
    parameters = dict(table)
    inputs = parameters.pop("from", None)
    if isinstance(inputs, str):
        inputs = [inputs]
    if not isinstance(inputs, list):
        raise InputError('missing; name the input, as "trades" or ["left", "right"]', field="from")
    operation = make_operation(kind, parameters)
    return Operator(row.get("name", ""), operation, tuple(inputs), row.get("publish"))


def make_operation(kind: str, parameters: Mapping[str, Any]) -> Operation:
    """An operation from its kind and its parameters.

    >>> make_operation("filter", {"where": "a > 1"})
    FilterOperation(where='a > 1', block=None)
    """
    known = inspect.signature(KINDS[kind]).parameters
    for name in parameters:
        if name not in known:
            raise InputError(f"unknown; a {kind} has {listed(list(known))}", field=name)
    for name, parameter in known.items():
        if parameter.default is parameter.empty and name not in parameters:
            raise InputError("missing", field=name)
    return KINDS[kind](**parameters)
