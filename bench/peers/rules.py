"""Rules over orders: 3 to 5 conditions, equalities alone, with one range, with `in` and `<>`; hypermatch's.

A rule is a list of conditions (name, operator, values), written in each peer's language. The draws are those
of `distributary.workloads.rules`, with prices and risks rounded to decimals that every peer holds exactly.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from bench.peers.workload import Asked, Workload
from distributary.model import Subscription
from distributary.workloads import rules

SEED = 1
DECIMALS = {"price": 2, "risk": 4, "quantity": 0}
PARTS = 25
"""Into how many parts of a range's domain values fall where only equalities can be asked."""

Value = str | int | float


class Condition(NamedTuple):
    """An attribute, one of `=`, `<>`, `in` and `between`, and the values that it is compared with."""

    name: str
    operator: str
    values: tuple[Value, ...]


Rule = Sequence[Condition]


def mixed(count: int, rows: int, rounds: int) -> Workload:
    """Three to five conditions, of which one or two are ranges."""
    drawn = [[*equalities, *ranges] for equalities, ranges in islice(_draws(count), count)]
    title = f"{count:,} rules of 3 to 5 conditions, ranges among them"
    return _workload("mixed", title, drawn, rows, rounds, (_RULER, _ATREE))


def equalities(count: int, rows: int, rounds: int) -> Workload:
    """The same with every range narrowed to a part of its domain that has a name."""
    drawn = [
        [
            *equalities,
            *(Condition(f"{name}_part", "=", (_part(name, values[0]),)) for name, _, values in ranges),
        ]
        for equalities, ranges in islice(_draws(count), count)
    ]
    title = f"{count:,} rules of 3 to 5 equalities"
    return _workload("equalities", title, drawn, rows, rounds, (_RULER, _QUAMINA, _ATREE))


def one_range(count: int, rows: int, rounds: int) -> Workload:
    """Two or three equalities and a range."""
    several = ((equal, ranges) for equal, ranges in _draws(3 * count) if len(equal) > 1)
    drawn = [[*equal, ranges[0]] for equal, ranges in islice(several, count)]
    title = f"{count:,} rules of 2 or 3 equalities and a range"
    return _workload("one-range", title, drawn, rows, rounds, (_ESPER, _LUCENE, _RULER, _ATREE))


def alternatives(count: int, rows: int, rounds: int) -> Workload:
    """An equality or two, an attribute among three values, and one that is not a value."""
    several = (equal for equal, _ in _draws(3 * count) if len(equal) > 1)
    drawn = [_with_alternatives(equal) for equal in islice(several, count)]
    title = f"{count:,} rules of equalities, in and <>"
    return _workload("alternatives", title, drawn, rows, rounds, (_ESPER, _LUCENE, _RULER, _ATREE))


def hypermatch(count: int, rows: int, rounds: int) -> Workload:
    """The rules and events of hypermatch's own benchmark: ten rules for each number, all else alike."""
    numbers = [number % (count // 10) for number in range(count)]
    where = (
        "name like '%-myapp-%' and env = 'prod' and number = '{}' and array_contains(tags, 'tag1') "
        "and array_contains(tags, 'tag2') and region <> 'moon' and type in ('app', 'database')"
    )
    pattern = (
        '"env": ["prod"], "number": ["{}"], "tags": ["tag1", "tag2"], '
        '"region": [{{"anything-but": ["moon"]}}], "type": ["app", "database"]}}'
    )
    named = '"name": [{{"shellstyle": "*-myapp-*"}}], '
    own = (
        '{{"name": {{"wildcard": "*-myapp-*"}}, "env": {{"equals": "prod"}}, "number": {{"equals": "{}"}}, '
        '"tags": {{"allOf": [{{"equals": "tag1"}}, {{"equals": "tag2"}}]}}, '
        '"region": {{"anythingBut": [{{"equals": "moon"}}]}}, '
        '"type": {{"anyOf": [{{"equals": "app"}}, {{"equals": "database"}}]}}}}'
    )

    def written(text: str) -> Callable[[], Iterable[str]]:
        return lambda: map(text.format, numbers)

    tables = []
    for number in range(rounds + 1):
        chosen = np.random.default_rng([SEED, number]).integers(count // 10, size=rows).tolist()
        tables.append(_applications(chosen))
    subscriptions = [
        Subscription(f"r{number}", f"u{number}", where=where.format(value))
        for number, value in enumerate(numbers)
    ]
    peers = (
        Asked("hypermatch", written(own), _properties, "hypermatch"),
        Asked("ruler", written("{{" + pattern), _objects, "unnamed"),
        Asked("quamina", written("{{" + named + pattern), _objects, "json"),
    )
    notes = {"ruler": "without the wildcard on name, with which adding its rules does not end"}
    title = f"hypermatch's own benchmark, {count:,} rules"
    return Workload("hypermatch", title, "where", subscriptions, tables, peers, _objects, notes=notes)


def _draws(count: int) -> Iterator[tuple[list[Condition], list[Condition]]]:
    """The equalities and the ranges of each rule."""
    for draw in rules.draws(count, seed=SEED):
        for values, lows, highs in zip(
            draw.values.tolist(), draw.low.tolist(), draw.high.tolist(), strict=True
        ):
            yield (
                [
                    Condition(name, "=", (_value(name, value),))
                    for name, value in zip(rules.VALUES, values, strict=True)
                    if value >= 0
                ],
                [
                    Condition(name, "between", (_rounded(name, low), _rounded(name, high)))
                    for name, low, high in zip(rules.RANGES, lows, highs, strict=True)
                    if low == low
                ],
            )


def _with_alternatives(equal: list[Condition]) -> Rule:
    *others, last = equal
    size = rules.VALUES[last.name]
    number = _number(last.values[0])
    among = tuple(_value(last.name, (number + step) % size) for step in range(3))
    (free, *_) = [name for name in rules.VALUES if name not in {one.name for one in equal}]
    avoided = Condition(free, "<>", (_value(free, number % rules.VALUES[free]),))
    return [*others, Condition(last.name, "in", among), avoided]


def _value(name: str, number: int) -> Value:
    return number if name == "segment" else f"{name}-{number:04}"


def _number(value: Value) -> int:
    return int(value.rsplit("-")[-1]) if isinstance(value, str) else int(value)


def _rounded(name: str, value: float) -> Value:
    return round(value, DECIMALS[name]) if DECIMALS[name] else int(value)


def _part(name: str, value: Value) -> str:
    return f"{name}-{int(float(value) / rules.RANGES[name] * PARTS)}"


def _orders(rows: int, seed: int) -> pa.Table:
    table = rules.table(rows, seed=seed)
    for name, decimals in DECIMALS.items():
        if decimals:
            at = table.schema.get_field_index(name)
            table = table.set_column(at, name, pa.array(table[name].to_numpy().round(decimals)))
    for name in rules.RANGES:
        parts = [_part(name, value) for value in table[name].to_pylist()]
        table = table.append_column(f"{name}_part", pa.array(parts))
    return table


def _workload(
    name: str,
    title: str,
    drawn: Sequence[Rule],
    rows: int,
    rounds: int,
    peers: Sequence[Callable[[Sequence[Rule]], Asked]],
) -> Workload:
    subscriptions = [
        Subscription(f"r{number}", f"u{number % 1000}", where=" and ".join(map(_sql, rule)))
        for number, rule in enumerate(drawn)
    ]
    tables = [_orders(rows, SEED + number) for number in range(rounds + 1)]
    asked = [make(drawn) for make in peers]
    return Workload(name, title, "where", subscriptions, tables, asked, _objects)


def _sql(condition: Condition) -> str:
    values = [f"'{value}'" if isinstance(value, str) else repr(value) for value in condition.values]
    match condition.operator:
        case "in":
            return f"{condition.name} in ({', '.join(values)})"
        case "between":
            return f"{condition.name} between {values[0]} and {values[1]}"
        case operator:
            return f"{condition.name} {operator} {values[0]}"


def _patterns(drawn: Sequence[Rule]) -> Iterable[str]:
    """As Event Ruler and quamina write rules."""
    return (json.dumps({one.name: _pattern(one) for one in rule}) for rule in drawn)


def _pattern(condition: Condition) -> list[object]:
    match condition.operator:
        case "between":
            low, high = condition.values
            return [{"numeric": [">=", low, "<=", high]}]
        case "<>":
            return [{"anything-but": list(condition.values)}]
        case _:
            return list(condition.values)


def _expressions(drawn: Sequence[Rule]) -> Iterable[str]:
    """As a-tree writes rules."""
    return (" and ".join(map(_expression, rule)) for rule in drawn)


def _expression(condition: Condition) -> str:
    name, operator, values = condition
    match operator:
        case "between":
            return f"{name} >= {values[0]!r} and {name} <= {values[1]!r}"
        case "in":
            return f"{name} in [{', '.join(map(repr, values))}]"
        case _:
            return f"{name} {operator} {values[0]!r}"


def _conditions(drawn: Sequence[Rule]) -> Iterable[str]:
    """As lists, for peers whose rules are built by calls."""
    return map(json.dumps, drawn)


def _objects(table: pa.Table) -> Iterable[str]:
    return map(json.dumps, table.to_pylist())


def _properties(table: pa.Table) -> Iterable[str]:
    """As hypermatch's events."""
    for row in table.to_pylist():
        yield json.dumps(
            [
                {"Path": name, "Values": value if isinstance(value, list) else [value]}
                for name, value in row.items()
            ]
        )


def _applications(numbers: Sequence[int]) -> pa.Table:
    rows = len(numbers)
    return pa.table(
        {
            "id": [f"e{number}" for number in range(rows)],
            "name": [f"app-myapp-{number}" for number in range(rows)],
            "env": ["prod"] * rows,
            "number": list(map(str, numbers)),
            "tags": [["tag1", "tag2"]] * rows,
            "region": ["earth"] * rows,
            "type": ["app"] * rows,
        }
    )


def _asked(
    peer: str,
    write: Callable[[Sequence[Rule]], Iterable[str]],
    language: str,
    variant: tuple[str, ...],
    shown: str,
    drawn: Sequence[Rule],
) -> Asked:
    return Asked(peer, partial(write, drawn), _objects, language, variant, shown)


_RULER = partial(_asked, "ruler", _patterns, "json", (), "")
_QUAMINA = partial(_asked, "quamina", _patterns, "json", (), "")
_ATREE = partial(_asked, "atree", _expressions, "expressions", (), "")
_ESPER = partial(_asked, "esper", _conditions, "lists", (), "")
_LUCENE = partial(_asked, "lucene", _conditions, "lists", (), "")
