"""Operators piece by piece give what the interpreter gives, however items arrive and operators move."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings

from distributary.flow import (
    END,
    Count,
    FilterOperation,
    Function,
    Item,
    Join,
    Operation,
    RunningGraph,
    Schema,
    SourceIntake,
    Truncate,
    Union,
    UnionBranch,
    Unique,
    apply,
    interpret,
    splitting_of,
    start,
)
from distributary.flow.incremental.running import RunningOperator
from flow.random_queries import (
    KINDS,
    LATENESS,
    RANDOMS,
    SOURCES,
    Stream,
    events_of,
    random_arrivals,
    random_catalogue,
    random_operation,
    random_streams,
)

STREAMS: list[Stream] = [(source.name, source.schema) for source in SOURCES]
SCHEMA = Schema({"at": "integer"}, "at")


def moved(running: RunningOperator, operation: Operation, schemas: Sequence[Schema]) -> RunningOperator:
    """The operator started anew elsewhere, with its state as it comes over a wire."""
    again = start(operation, *schemas)
    again.restore(json.loads(json.dumps(running.state())))
    return again


def in_order(items: Sequence[Item]) -> list[Item]:
    return sorted(items, key=lambda item: item.order)


@settings(max_examples=100)
@given(RANDOMS)
def test_a_graph_gives_what_the_interpreter_gives_in_any_order_of_arrival_and_with_moves(rng: Random) -> None:
    catalogue = random_catalogue(rng)
    items = random_streams(rng)
    graph = RunningGraph.of(catalogue)
    found: dict[str, list[Item]] = defaultdict(list)
    watermarks: dict[str, int] = {}
    for source, step in random_arrivals(rng, items):
        given = graph.receive(source, step) if isinstance(step, Item) else graph.advance(source, step)
        for name, item in given:
            found[name].append(item)
            assert item.time >= watermarks.get(name, item.time)
        watermarks = {name: running.watermark for name, running in graph.running.items()}
        if rng.random() < 0.2:
            state = json.loads(json.dumps(graph.state()))
            graph = RunningGraph.of(catalogue)
            graph.restore(state)
    expected = interpret(catalogue, items).streams
    shared = catalogue.shared()
    makers = {stream: each.name for each in shared.operators for stream in each.streams}
    for bound in catalogue.operators:
        for stream in bound.streams:
            assert in_order(found[makers[shared.streams[stream]]]) == expected[stream]
    for running in graph.running.values():
        assert not running.late
        assert running.watermark == END


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30)
@given(rng=RANDOMS)
def test_replicas_and_their_final_give_what_the_whole_operator_gives(kind: str, rng: Random) -> None:
    operation, inputs = random_operation(rng, kind, STREAMS)
    given = random_streams(rng)
    schemas = [dict(STREAMS)[name] for name in inputs]
    splitting = splitting_of(operation, *schemas)
    if splitting is None:
        return
    parts = rng.randint(1, 3)
    shares: list[list[list[Item]]] = [[[] for _ in inputs] for _ in range(parts)]
    for number, name in enumerate(inputs):
        for item in given[name]:
            any_way = splitting.keys is None and rng.random() < 0.5
            part = rng.randrange(parts) if any_way else splitting.part_of(number, item, parts)
            shares[part][number].append(item)
    whole = apply(operation, schemas, [given[name] for name in inputs])
    assert run_apart(splitting.replica, splitting.final, schemas, shares, rng) == whole


def run_apart(
    replica: Operation,
    final: Operation,
    schemas: Sequence[Schema],
    shares: Sequence[Sequence[Sequence[Item]]],
    rng: Random,
) -> list[Item]:
    """What replicas and final give piece by piece, when each gets its items in any order, and all move."""
    partial_schemas = [replica.schema(*schemas)] * len(shares)
    last = start(final, *partial_schemas)
    results: list[Item] = []
    for part in rng.sample(range(len(shares)), len(shares)):
        running = start(replica, *schemas)
        for number, items in enumerate(shares[part]):
            partial = [
                result for item in rng.sample(items, len(items)) for result in running.receive(number, item)
            ]
            running = moved(running, replica, schemas)
            for item in [*partial, *running.advance(number, END)]:
                results += last.receive(part, item)
        results += last.advance(part, running.watermark)
        last = moved(last, final, partial_schemas)
    assert last.watermark == END
    return in_order(results)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("join", "union")])
@settings(max_examples=15)
@given(rng=RANDOMS)
def test_replicas_may_each_take_one_input_of_a_union(kind: str, rng: Random) -> None:
    schema = STREAMS[0][1]
    operation, _ = random_operation(rng, kind, STREAMS[:1])
    given = random_streams(rng)
    inputs = [given["one"], given["two"]]
    splitting = splitting_of(operation, schema)
    if splitting is None or splitting.keys is not None:
        return
    whole = apply(operation, [schema], [apply(Union(), [schema] * 2, inputs)])
    branches = [UnionBranch(index, splitting.replica) for index in range(2)]
    final = start(splitting.final, *(branch.schema(schema) for branch in branches))
    found: list[Item] = []
    for index, (branch, items) in enumerate(zip(branches, inputs, strict=True)):
        running = start(branch, schema)
        partial = [result for item in items for result in running.receive(0, item)]
        for result in partial + running.advance(0, END):
            found += final.receive(index, result)
        found += final.advance(index, END)
    assert in_order(found) == whole


@given(RANDOMS)
def test_within_its_lateness_no_event_is_late_and_beyond_it_each_is_told(rng: Random) -> None:
    source = SOURCES[0]
    intake = SourceIntake(source)
    events = events_of(random_streams(rng))
    rng.shuffle(events)
    latest, late = None, []
    for event in events:
        item = intake.admit(event)
        if event.topic != source.topic:
            assert item is None
            continue
        time = event.attributes["at"]
        assert isinstance(time, int)
        if latest is not None and time < latest - LATENESS:
            late.append(event.id)
        assert (item is None) is (event.id in late)
        latest = time if latest is None else max(latest, time)
    assert [each.id for each in intake.rejected] == late


def test_a_late_item_is_told_and_changes_nothing() -> None:
    running = start(Count("10 ms"), SCHEMA)
    running.advance(0, 5)
    assert running.receive(0, Item("a", 4, {"at": 4})) == []
    assert running.late == [(0, Item("a", 4, {"at": 4}))]
    assert running.advance(0, END) == []


def test_results_do_not_wait_longer_than_they_must() -> None:
    first = start(Truncate("10 ms", 2), SCHEMA)
    for at in (3, 1, 2):
        first.receive(0, Item(f"e{at}", at, {"at": at}))
    assert first.advance(0, 9) == []
    assert [item.id for item in first.advance(0, 10)] == ["e1", "e2"]
    assert first.advance(0, END) == []
    assert len(start(FilterOperation(where="at > 0"), SCHEMA).receive(0, Item("a", 1, {"at": 1}))) == 1


def test_a_join_promises_only_what_its_left_items_leave_open() -> None:
    join = start(Join(["at"], within=5, prefix="r_", time="t"), SCHEMA, SCHEMA)
    join.advance(0, 100)
    join.advance(1, 50)
    assert join.watermark == 45
    join.advance(1, END)
    assert join.watermark == 100


@pytest.mark.parametrize(
    "operation",
    [Count("10 ms"), Count("10 items every 3"), Truncate("10 ms", 2), Unique("10 ms", by=["at"])],
    ids=lambda operation: operation.kind,
)
def test_operators_forget_what_no_result_can_need(operation: Operation) -> None:
    running = start(operation, SCHEMA)
    for at in range(0, 10_000, 7):
        running.receive(0, Item(f"e{at}", at, {"at": at}))
        running.advance(0, at - 20)
    assert len(json.dumps(running.state())) < 600


def test_a_call_that_fails_is_rejected_whole_or_divided() -> None:
    steps = {"partial": "flow.functions:ids", "merge": "flow.functions:merged_ids"}
    function = Function(
        "flow.functions:sorted_ids", {"of": "text", "number": "integer"}, "10 ms", "merge", **steps
    )
    items = [Item(f"e{n}", n % 10 + n // 13 * 10, {"at": n % 10 + n // 13 * 10}) for n in range(20)]
    told: list[tuple[str, str]] = []
    whole = apply(function, [SCHEMA], [items], lambda id, reason: told.append((id, reason)))
    assert told == [("0", "flow.functions:sorted_ids failed: ValueError: too many")]
    assert {item.time for item in whole} == {19}
    splitting = splitting_of(function, SCHEMA)
    assert splitting is not None
    last = start(splitting.final, splitting.replica.schema(SCHEMA))
    replica = start(splitting.replica, SCHEMA)
    for item in items:
        replica.receive(0, item)
    for partial in replica.advance(0, END):
        last.receive(0, partial)
    assert last.advance(0, END) == whole
    assert last.rejected == told
