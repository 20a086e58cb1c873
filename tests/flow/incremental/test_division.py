"""An operator that is divided while it works gives, with its replicas, what it would have given."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given, settings

from distributary.flow import Item, Union, UnionBranch, apply, splitting_of, start
from distributary.flow.incremental.division import branched, divided
from flow.random_queries import KINDS, RANDOMS, SOURCES, random_arrivals, random_operation, random_streams

STREAMS = [(source.name, source.schema) for source in SOURCES]


def in_order(items: list[Item]) -> list[Item]:
    return sorted(items, key=lambda item: item.order)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12)
@given(rng=RANDOMS)
def test_an_operator_divided_at_any_moment_gives_what_the_whole_one_gives(kind: str, rng: Random) -> None:
    operation, inputs = random_operation(rng, kind, STREAMS)
    items = random_streams(rng)
    schemas = [dict(STREAMS)[name] for name in inputs]
    splitting = splitting_of(operation, *schemas)
    if splitting is None:
        return
    steps = random_arrivals(rng, {name: items[name] for name in inputs})
    moment, parts = rng.randrange(len(steps)), rng.randint(1, 3)
    whole, found = start(operation, *schemas), []
    for source, step in steps[:moment]:
        for number in [number for number, name in enumerate(inputs) if name == source]:
            found += whole.receive(number, step) if isinstance(step, Item) else whole.advance(number, step)
    states, state = divided(operation, splitting, schemas, whole.state(), parts)
    replicas = [start(splitting.replica, *schemas) for _ in range(parts)]
    final = start(splitting.final, *[splitting.replica.schema(*schemas)] * parts)
    for running, one in zip([*replicas, final], [*states, state], strict=True):
        running.restore(json.loads(json.dumps(one)))
    for source, step in steps[moment:]:
        for number in [number for number, name in enumerate(inputs) if name == source]:
            for part, replica in enumerate(replicas):
                if not isinstance(step, Item):
                    partial = replica.advance(number, step)
                elif splitting.part_of(number, step, parts) == part:
                    partial = replica.receive(number, step)
                else:
                    continue
                for item in partial:
                    found += final.receive(part, item)
                found += final.advance(part, replica.watermark)
    assert in_order(found) == apply(operation, schemas, [items[name] for name in inputs])
    assert not any(running.late for running in (*replicas, final))


@pytest.mark.parametrize("kind", ["union", "filter", "aggregate", "count", "sort", "truncate", "unique"])
@settings(max_examples=12)
@given(rng=RANDOMS)
def test_replicas_take_over_the_inputs_of_a_union_at_any_moment(kind: str, rng: Random) -> None:
    schema = STREAMS[0][1]
    behind = None if kind == "union" else random_operation(rng, kind, STREAMS[:1])[0]
    splitting = splitting_of(Union(), schema, schema) if behind is None else splitting_of(behind, schema)
    if splitting is None or splitting.keys is not None:
        return
    items = random_streams(rng)
    names = ["one", "two"]
    steps = random_arrivals(rng, {name: items[name] for name in names})
    moment = rng.randrange(len(steps))
    union, found = start(Union(), schema, schema), []
    whole = union if behind is None else start(behind, schema)
    for source, step in steps[:moment]:
        number = names.index(source)
        united = union.receive(number, step) if isinstance(step, Item) else union.advance(number, step)
        if behind is None:
            found += united
        else:
            for item in united:
                found += whole.receive(0, item)
            found += whole.advance(0, union.watermark)
    states, state = branched(behind, splitting, [schema, schema], whole.state(), union.state())
    replica = None if behind is None else splitting.replica
    branches = [start(UnionBranch(index, replica), schema) for index in range(2)]
    partial_schema = schema if replica is None else replica.schema(schema)
    final = start(splitting.final, partial_schema, partial_schema)
    for running, one in zip([*branches, final], [*states, state], strict=True):
        running.restore(json.loads(json.dumps(one)))
    marks = union.watermarks
    rest = [(name, mark) for name, mark in zip(names, marks, strict=True)] + steps[moment:]
    for source, step in rest:  # a reader that begins hears first how far its stream's time has come
        number = names.index(source)
        branch = branches[number]
        partial = branch.receive(0, step) if isinstance(step, Item) else branch.advance(0, step)
        for item in partial:
            found += final.receive(number, item)
        found += final.advance(number, branch.watermark)
    together = apply(Union(), [schema, schema], [items[name] for name in names])
    assert in_order(found) == (together if behind is None else apply(behind, [schema], [together]))
