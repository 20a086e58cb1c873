"""Random messages of every kind, from the annotations of their classes.

Classes that check what they hold get values that they accept; all others get anything that their annotations
allow. Nothing of the codec is used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from enum import Enum
from fractions import Fraction
from functools import cache
from importlib import import_module
from inspect import isclass
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as some

from distributary.flow import Query, Source
from distributary.flow.entries import SourceEntry
from distributary.flow.language.function import Function
from distributary.flow.language.operators import Copy, FilterOperation, Map, Operation, Rename, Split
from distributary.flow.language.operators import Union as UnionOperation
from distributary.flow.language.query import Operator
from distributary.flow.language.schema import Schema
from distributary.flow.language.windowed import Aggregate, Count, Join, Sort, Truncate, Unique
from distributary.flow.splitting import Gather, MergeOperation, PartialOperation, UnionBranch
from distributary.model import LOCAL, Event, Subscription
from distributary.overlay.kinds import NUMBERS
from distributary.overlay.ring.circle import Circle

texts = some.text(some.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
names = some.text("abcdefgh_", min_size=1, max_size=6)
wholes = some.integers(-(1 << 70), 1 << 170) | some.integers(-200, 70_000)
numbers = some.floats(allow_nan=False) | wholes
json_values = some.recursive(
    some.none() | some.booleans() | numbers | texts,
    lambda inner: (
        some.lists(inner, max_size=3).map(tuple) | some.dictionaries(texts, inner, min_size=1, max_size=3)
    ),
    max_leaves=6,
)
schemas = some.dictionaries(
    names, some.sampled_from(["text", "integer", "number", "boolean"]), max_size=4
).map(lambda given: Schema({**given, "at": "integer"}, time="at"))
windows = some.sampled_from(["10 seconds", "1 minute"])
EVENTS = some.builds(
    Event,
    texts,
    some.none() | some.sampled_from(["A/B", "quotes/NYSE/OTE", "/äö/"]),
    some.dictionaries(texts, json_values, max_size=4),
    some.none() | texts,
)
SUBSCRIPTIONS = some.builds(
    Subscription,
    texts,
    texts,
    some.sampled_from(["A/*", "quotes/#"]),
    some.none() | some.just("price > 8 and volume in (1, 2)"),
    some.none() | some.just("//a[@b = 'c']"),
    some.none() | some.just({"price": 0.5}),
)
AGGREGATES = some.builds(Aggregate, windows, some.just({"mean_price": "mean(price)"}), some.just(("symbol",)))
SOURCES = some.builds(
    Source,
    names,
    schemas,
    topic=some.just("trades/*"),
    lateness=some.integers(0, 5000),
    derived=some.booleans(),
)
CHECKED: dict[type, some.SearchStrategy[Any]] = {
    Event: EVENTS,
    Subscription: SUBSCRIPTIONS,
    Circle: some.builds(Circle, some.integers(1, 160)),
    Schema: schemas,
    Source: SOURCES,
    FilterOperation: some.just(FilterOperation("price > 8")),
    Map: some.just(Map({"double": "2 * price"})),
    Rename: some.just(Rename({"price": "cost"})),
    Copy: some.just(Copy({"price": "cost"})),
    UnionOperation: some.just(UnionOperation()),
    Split: some.just(Split()),
    Aggregate: AGGREGATES,
    Count: some.builds(Count, windows, some.just(("symbol",))),
    Sort: some.builds(Sort, windows, some.just(("price",))),
    Truncate: some.builds(Truncate, windows, some.integers(1, 9)),
    Unique: some.builds(Unique, windows, some.just(("symbol",))),
    Join: some.builds(Join, some.just({"symbol": "name"}), some.integers(0, 9000), some.just("other_")),
    Function: some.just(Function("statistics:median", {"middle": "number"}, "1 minute", options={"size": 3})),
    SourceEntry: some.builds(SourceEntry, SOURCES, some.just("trades/{symbol}"), texts),
    PartialOperation: some.builds(PartialOperation, AGGREGATES),
    MergeOperation: some.builds(MergeOperation, AGGREGATES, schemas),
    Gather: some.builds(Gather, some.none() | AGGREGATES),
    UnionBranch: some.builds(UnionBranch, some.integers(0, 9), some.none() | AGGREGATES),
}
"""What classes that check their values accept."""
operations = some.one_of(
    strategy for kind, strategy in CHECKED.items() if issubclass(kind, Operation) and kind is not SourceEntry
)
OPERATORS = some.builds(
    Operator, names, some.sampled_from([FilterOperation("price > 8"), Split()]), some.tuples(names)
)
CHECKED[Operator] = OPERATORS
CHECKED[Query] = some.builds(
    lambda name, operator: Query(name, (operator,), (operator.name + operator.operation.ports[0],)),
    names,
    OPERATORS,
)


def class_of(name: str) -> type:
    """The class that a full name of the table of kinds stands for."""
    module, _, qualified = name.rpartition(".")
    found: type = getattr(import_module(module), qualified)
    return found


def messages(name: str) -> some.SearchStrategy[Any]:
    """Random objects of the kind of that name."""
    return _of_class(class_of(name))


@cache
def _of_class(kind: type) -> some.SearchStrategy[Any]:
    if kind in CHECKED:
        return CHECKED[kind]
    hints = get_type_hints(kind)
    if issubclass(kind, tuple):
        sent = kind._fields  # type: ignore[attr-defined]
    else:
        sent = tuple(
            each.name for each in dataclasses.fields(kind) if each.init and LOCAL not in each.metadata
        )
    return some.builds(kind, **{name: some.deferred(lambda hint=hints[name]: _of(hint)) for name in sent})


def _inner() -> some.SearchStrategy[Any]:
    """What may be any message: a few kinds, whole numbers and other plain values."""
    kinds = ("model.EventKey", "overlay.courier.Ack", "overlay.ring.segments.RingSegment")
    few = [_of_class(class_of(f"distributary.{name}")) for name in kinds]
    return some.one_of(*few, EVENTS, wholes, texts, some.none(), some.booleans())


PLAIN: dict[Any, some.SearchStrategy[Any]] = {
    str: texts,
    int: wholes,
    float: numbers,
    bool: some.booleans(),
    bytes: some.binary(max_size=40),
    type(None): some.none(),
    Any: some.deferred(_inner),
    Hashable: some.deferred(_inner),
    Operation: operations,
}


def _of(hint: Any) -> some.SearchStrategy[Any]:
    if hint in PLAIN:
        return PLAIN[hint]
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Literal:
        return some.sampled_from(inside)
    if origin in (Union, UnionType):
        return some.one_of(*(_of(one) for one in inside if one is not Fraction))
    if origin is Sequence or (origin is tuple and inside[-1] is Ellipsis):
        return some.lists(_of(inside[0]), max_size=3).map(tuple)
    if origin is tuple:
        return some.tuples(*map(_of, inside))
    if origin is frozenset:
        return some.frozensets(_of(inside[0]), max_size=3)
    if origin is not None and issubclass(origin, Mapping):
        return some.dictionaries(texts, json_values if inside[1] is Any else _of(inside[1]), max_size=3)
    if isinstance(hint, TypeVar):
        return AGGREGATES
    if isclass(hint) and issubclass(hint, Enum):
        return some.sampled_from(list(hint))
    return _of_class(hint)


ALL_KINDS = sorted(NUMBERS, key=NUMBERS.__getitem__)
