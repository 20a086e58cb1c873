"""Random queries of all kinds of operators, random streams for them, and random ways for those to arrive.

Tests of every engine take from here. `random_catalogue` gives valid queries over `SOURCES`, `random_streams`
the items of those sources, and `random_arrivals` an order in which they may come within their lateness. Each
takes a `random.Random`: seeded for a loop, or drawn by Hypothesis from `RANDOMS`. With
`use_true_random=False` there, a failing case is made smaller, at some hundred times the cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import strategies as st

from distributary.flow import (
    END,
    Aggregate,
    Catalogue,
    Copy,
    Count,
    FilterOperation,
    Function,
    Item,
    Join,
    Map,
    Operation,
    Operator,
    Query,
    Rename,
    Schema,
    Sort,
    Source,
    Split,
    Truncate,
    Type,
    Union,
    Unique,
)
from distributary.model import Event

RANDOMS = st.randoms(use_true_random=True)

LATENESS = 15

SCHEMA = Schema({"s": "text", "i": "integer", "x": "number", "b": "boolean", "at": "integer"}, time="at")
OTHER = Schema({"k": "text", "v": "integer", "when": "integer"}, time="when")
SOURCES = (
    Source("one", SCHEMA, topic="one", lateness=LATENESS),
    Source("two", SCHEMA, topic="two", lateness=LATENESS),
    Source("other", OTHER, topic="other", lateness=LATENESS),
)

KINDS = (
    *("filter", "map", "rename", "copy", "union", "split", "aggregate", "count", "join", "sort"),
    *("truncate", "unique", "function"),
)

TEXTS = ["", "a", "b", "B", "a|b", "1:a", "\u00e9\U0001f600", "it's %", "\\"]
INTEGERS = [0, 1, 2, 3, -1, -2, 7, 2**53 + 1, 2**63 - 1, -(2**63)]
NUMBERS = [0.0, 0.1, 0.2, -0.1, 1.0, 2.0, -2.5, 1e16, -1e16, 2.0**53, 2.0**62, 1e300, 5e-324]
VALUES: dict[Type, Sequence[Any]] = {
    Type.TEXT: TEXTS,
    Type.INTEGER: INTEGERS,
    Type.NUMBER: NUMBERS,
    Type.BOOLEAN: [False, True],
}
PUBLIC = list(VALUES)

TIME_WINDOWS = ["10 ms", "7 ms", "20 ms", "1 second"]
SLIDING = ["10 ms every 5 ms", "9 ms every 4 ms", "20 ms every 7 ms"]
COUNT_WINDOWS = ["2 items", "3 items every 1", "4 items every 3", "1 item"]

Stream = tuple[str, Schema]
"""The name by which an operator reads it, and its schema."""


# Data


def random_streams(rng: Random, max_items: int = 20, span: int = 60) -> dict[str, list[Item]]:
    """Items for every source, of times within so many milliseconds; of few different values or of many."""
    beginning = rng.choice([0, 0, -30, 1_700_000_000_000])
    variety = rng.choice([2, 4, 20])
    return {
        source.name: random_items(rng, source.schema, rng.randint(0, max_items), beginning, span, variety)
        for source in SOURCES
    }


def random_items(
    rng: Random, schema: Schema, count: int, beginning: int, span: int, variety: int = 20
) -> list[Item]:
    items = []
    for number in range(count):
        time = beginning + rng.randint(0, span)
        attributes = {
            name: rng.choice(VALUES[type][:variety]) if rng.random() < 0.8 else None
            for name, type in schema.attributes.items()
        }
        attributes[schema.time] = time
        items.append(Item(rng.choice(["e", "z", "e&", "%"]) + str(number), time, attributes))
    return items


def events_of(items: dict[str, list[Item]]) -> list[Event]:
    """The events that stand for items of the sources."""
    return [Event(item.id, name, dict(item.attributes)) for name, found in items.items() for item in found]


Step = tuple[str, Item | int]
"""A source, and an item of it or its watermark."""


def random_arrivals(rng: Random, items: dict[str, list[Item]], lateness: int = LATENESS) -> list[Step]:
    """The items in an order in which none is late, with watermarks among them; every stream ends."""
    delayed = [
        (item.time + rng.randint(0, lateness), name, item) for name, found in items.items() for item in found
    ]
    steps: list[Step] = []
    for moment, name, item in sorted(delayed, key=lambda each: each[0]):
        steps.append((name, item))
        if rng.random() < 0.5:
            # Whoever arrives later was delayed by at most the lateness, so its time is not before this.
            steps.append((rng.choice(sorted(items)), moment - lateness))
    ends: list[Step] = [(name, END) for name in items]
    rng.shuffle(ends)
    return steps + ends


# Conditions and expressions


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def random_condition(rng: Random, schema: Schema) -> str:
    """A condition as filters take it, never one that is true of everything."""
    name = rng.choice(list(schema.attributes))
    type = schema.attributes[name]
    value, more = literal(rng.choice(VALUES[type])), literal(rng.choice(VALUES[type]))
    simple = [
        f"{quoted(name)} {rng.choice(['=', '<>', '<', '<=', '>', '>='])} {value}",
        f"{quoted(name)} is not null",
        f"{quoted(name)} in ({value}, {more})",
    ]
    if type is Type.TEXT:
        simple.append(f"{quoted(name)} like '%a%'")
    first = rng.choice(simple)
    if rng.random() < 0.5:
        return first
    other = rng.choice(list(schema.attributes))
    return f"{first} and not {quoted(other)} = {literal(rng.choice(VALUES[schema.attributes[other]]))}"


def random_expression(rng: Random, schema: Schema, type: Type, depth: int = 2) -> str:
    """An expression of this type."""
    columns = [quoted(name) for name, found in schema.attributes.items() if found is type]
    if depth == 0 or rng.random() < 0.25:
        return rng.choice(columns) if columns and rng.random() < 0.75 else literal(rng.choice(VALUES[type]))

    def part(of: Type = type) -> str:
        return "(" + random_expression(rng, schema, of, depth - 1) + ")"

    def numeric() -> str:
        return part(rng.choice([Type.INTEGER, Type.NUMBER]))

    common: list[Callable[[], str]] = [
        lambda: f"coalesce({part()}, {part()})",
        lambda: f"case when {part(Type.BOOLEAN)} then {part()} else {part()} end",
        lambda: f"nullif({part()}, {part()})",
    ]
    special: dict[Type, list[Callable[[], str]]] = {
        Type.INTEGER: [
            lambda: f"{part()} {rng.choice('+-*%')} {part()}",
            lambda: f"-{part()}",
            lambda: f"abs({part()})",
            lambda: f"{rng.choice(['floor', 'ceil'])}({numeric()})",
            lambda: f"length({part(Type.TEXT)})",
        ],
        Type.NUMBER: [
            lambda: f"{part()} {rng.choice('+-*%')} {numeric()}",
            lambda: f"{numeric()} / {numeric()}",
            lambda: f"-{part()}",
            lambda: f"abs({part()})",
        ],
        Type.TEXT: [
            lambda: f"{part()} || {part()}",
            lambda: f"{rng.choice(['upper', 'lower', 'trim'])}({part()})",
            lambda: f"substring({part()}, {rng.randint(1, 3)}, {rng.randint(0, 3)})",
            lambda: f"concat({part()}, {part()})",
        ],
        Type.BOOLEAN: [
            lambda: f"{part()} {rng.choice(['and', 'or', '=', '<'])} {part()}",
            lambda: f"not {part()}",
            lambda: f"{part(Type.TEXT)} is null",
            lambda: f"{numeric()} {rng.choice(['=', '<>', '<', '<=', '>', '>='])} {numeric()}",
            lambda: f"{part(Type.TEXT)} {rng.choice(['=', '<', '>='])} {part(Type.TEXT)}",
        ],
    }
    return rng.choice(common + special[type])()


# Operations


def random_operation(rng: Random, kind: str, there: Sequence[Stream]) -> tuple[Operation, tuple[str, ...]]:
    """An operation of this kind that fits some of the streams, and the names of those."""
    name, schema = rng.choice(there)
    if kind == "union":
        alike = [other for other, theirs in there if theirs == schema]
        return Union(), (name, *rng.choices(alike, k=rng.randint(1, 2)))
    if kind == "join":
        other, theirs = rng.choice(there)
        return random_join(rng, schema, theirs), (name, other)
    return SINGLE[kind](rng, schema), (name,)


def some(rng: Random, names: Sequence[str], least: int = 0, most: int = 2) -> list[str]:
    """Some of the names, each once."""
    return rng.sample(names, min(len(names), rng.randint(least, most)))


def keys_of(schema: Schema, *taken: str) -> list[str]:
    """The attributes to group by, but for the time and what is taken."""
    groupable = (Type.TEXT, Type.INTEGER, Type.BOOLEAN)
    return [
        n for n, type in schema.attributes.items() if type in groupable and n not in (schema.time, *taken)
    ]


def fresh(schema: Schema, name: str) -> str:
    """A name that no attribute has, from one that an attribute has."""
    new = name + "'"
    while new in schema:
        new += "'"
    return new


def fresh_names(rng: Random, schema: Schema) -> dict[str, str]:
    """New names for one or two attributes."""
    chosen = some(rng, list(schema.attributes), 1)
    names = {name: fresh(schema, name) for name in chosen}
    return names if len(set(names.values())) == len(names) else {chosen[0]: names[chosen[0]]}


def random_filter(rng: Random, schema: Schema) -> Operation:
    condition = random_condition(rng, schema)
    return FilterOperation(where=condition) if rng.random() < 0.6 else FilterOperation(block=condition)


def random_map(rng: Random, schema: Schema) -> Operation:
    names = [name for name in ("m", "n", "s", "i") if name != schema.time]
    values = {
        rng.choice(names): random_expression(rng, schema, rng.choice(PUBLIC))
        for _ in range(rng.randint(1, 2))
    }
    return Map(values, rng.choice([True, False, some(rng, list(schema.attributes), 0, 3)]))


def random_rename(rng: Random, schema: Schema) -> Operation:
    return Rename(fresh_names(rng, schema))


def random_copy(rng: Random, schema: Schema) -> Operation:
    return Copy(fresh_names(rng, schema))


def random_aggregate(rng: Random, schema: Schema) -> Operation:
    values = {"n": "count()"}
    for number in range(rng.randint(0, 3)):
        function = rng.choice(["count", "sum", "average", "min", "max"])
        argument = quoted(rng.choice(list(schema.attributes)))
        if function in ("sum", "average"):
            argument = random_expression(rng, schema, rng.choice([Type.INTEGER, Type.NUMBER]), depth=1)
        values[f"a{number}"] = f"{function}({argument})"
    window = rng.choice(TIME_WINDOWS + SLIDING + COUNT_WINDOWS)
    groups = some(rng, keys_of(schema, *values))
    times = [fresh(schema, "ended")] if schema.time in values else [None, fresh(schema, "ended")]
    return Aggregate(window, values, groups, rng.choice(times))


def random_count(rng: Random, schema: Schema) -> Operation:
    name = "count" if schema.time != "count" else "many"
    groups = some(rng, keys_of(schema, name))
    return Count(rng.choice(TIME_WINDOWS + SLIDING + COUNT_WINDOWS), groups, name)


def random_join(rng: Random, left: Schema, right: Schema) -> Operation:
    pairs = [
        (mine, theirs)
        for mine, type in left.attributes.items()
        for theirs, other in right.attributes.items()
        if type is other
    ]
    prefix = "r"
    while any(name.startswith(prefix) for name in left.attributes):
        prefix += "_"
    on = dict(rng.choices(pairs, k=rng.randint(1, 2)))
    return Join(on, rng.choice([0, 3, 10]), prefix, rng.choice([None, fresh(left, "later")]))


def random_sort(rng: Random, schema: Schema) -> Operation:
    by = [name + rng.choice(["", " asc", " desc"]) for name in some(rng, list(schema.attributes), 1)]
    return Sort(rng.choice(TIME_WINDOWS), by, rng.choice([None, fresh(schema, "sorted")]))


def random_function(rng: Random, schema: Schema) -> Operation:
    gives = {"of": "text", "number": "integer"}
    window = rng.choice(TIME_WINDOWS + SLIDING)
    keys = keys_of(schema)
    match rng.choice(["item", "none", "union", "merge"] + ["keyed"] * bool(keys)):
        case "item":
            return Function("flow.functions:repeat", gives, options={"times": rng.randint(0, 2)})
        case "union":
            return Function("flow.functions:odd", gives, window, "union")
        case "keyed":
            return Function("flow.functions:shape", gives, window, "keyed", by=some(rng, keys, 1))
        case "merge":
            steps = {"partial": "flow.functions:ids", "merge": "flow.functions:merged_ids"}
            return Function("flow.functions:sorted_ids", gives, window, "merge", **steps)
    return Function("flow.functions:shape", gives, window)


SINGLE: dict[str, Callable[[Random, Schema], Operation]] = {
    "filter": random_filter,
    "map": random_map,
    "rename": random_rename,
    "copy": random_copy,
    "split": lambda rng, schema: Split(),
    "aggregate": random_aggregate,
    "count": random_count,
    "sort": random_sort,
    "truncate": lambda rng, schema: Truncate(rng.choice(TIME_WINDOWS), rng.randint(1, 3)),
    "unique": lambda rng, schema: Unique(rng.choice(TIME_WINDOWS), some(rng, list(schema.attributes), 1)),
    "function": random_function,
}


# Queries

QUERIES = "pqrstuvwxyz"
"""What the first queries of a catalogue are called."""


def random_catalogue(
    rng: Random, kinds: Sequence[str] = KINDS, max_operators: int = 5, queries: int = 2
) -> Catalogue:
    """Queries of these kinds of operators; a later one may read the streams of those before it.

    Every other one asks for its answer in stream order.
    """
    there: list[Stream] = [(source.name, source.schema) for source in SOURCES]
    made = []
    for number in range(queries):
        name = QUERIES[number] if number < len(QUERIES) else f"query{number}"
        query, inside = random_query(rng, name, there, kinds, max_operators)
        made.append(replace(query, ordered=number % 2 == 1))
        there += inside
    catalogue = Catalogue(SOURCES, made)
    catalogue.check()
    return catalogue


def random_query(
    rng: Random, name: str, there: Sequence[Stream], kinds: Sequence[str], max_operators: int
) -> tuple[Query, list[Stream]]:
    """A query over some of the streams, and the streams it adds, by their names for other queries."""
    inside = dict(there)
    operators = []
    added: list[Stream] = []
    for number in range(rng.randint(1, max_operators)):
        operation, inputs = random_operation(rng, rng.choice(kinds), list(inside.items()))
        operator = Operator(f"o{number}", operation, inputs)
        schema = operation.schema(*[inside[each] for each in inputs])
        operators.append(operator)
        inside.update(dict.fromkeys(operator.streams, schema))
        added += [(f"{name}.{stream}", schema) for stream in operator.streams]
    return Query(name, operators), added
