"""What becomes of a running operator's memory when it is divided while it runs.

Rules:

- Where the input may be divided in any way, the first replica gets all that the operator remembers, and the
  others begin with nothing: the items so far all went to the first. Where it is divided by key, each gets
  what belongs to its keys.
- The final operator has nothing to remember: no operator gives out anything of a window that is still open.
- Nobody's watermark goes back, and none runs ahead of what is still remembered.

Together, replicas and final give from then on exactly what the operator would have given; the tests compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distributary.flow.incremental.running import State
from distributary.flow.incremental.start import start
from distributary.flow.language.operators import Operation
from distributary.flow.language.schema import Item, Schema
from distributary.flow.splitting import Splitting, UnionBranch


def divided(
    operation: Operation, splitting: Splitting, schemas: Sequence[Schema], state: State, parts: int
) -> tuple[list[State], State]:
    """The states of so many replicas and of the final operator, from that of the whole operator.

    >>> from distributary.flow import Count, splitting_of
    >>> schema, count = Schema({"at": "integer"}, "at"), Count("10 ms")
    >>> whole = start(count, schema)
    >>> _ = whole.receive(0, Item("a", 3, {"at": 3}))
    >>> replicas, final = divided(count, splitting_of(count, schema), [schema], whole.state(), 2)
    >>> [len(replica["open"]) for replica in replicas]
    [1, 0]
    """
    marks = state["watermarks"]
    if splitting.keys is None:
        replicas = [state] + [_empty(splitting.replica, schemas, marks) for _ in range(parts - 1)]
    else:
        replicas = [_share(splitting, state, part, parts) for part in range(parts)]
    return replicas, _final_state(operation, splitting, schemas, state, parts)


def branched(
    operation: Operation | None, splitting: Splitting, schemas: Sequence[Schema], state: State, union: State
) -> tuple[list[State], State]:
    """The same for replicas that take one input each of a union before the operator, with the union's state.

    Without an operator, it is the union itself that is divided, and `state` is its own.
    """
    marks = union["watermarks"]
    then = None if operation is None else splitting.replica
    replicas = [_empty(UnionBranch(index, then), [schemas[0]], [mark]) for index, mark in enumerate(marks)]
    if operation is None:
        return replicas, _final_state(None, splitting, schemas, state, len(marks))
    # The first remembers items of all inputs, so it is no further than the operator was; its own input's
    # watermark reaches it with what it reads next.
    replicas[0] = {"watermarks": list(state["watermarks"]), "then": state}
    return replicas, _final_state(operation, splitting, [schemas[0]], state, len(marks))


def _empty(replica: Operation, schemas: Sequence[Schema], watermarks: Sequence[int]) -> State:
    running = start(replica, *schemas)
    for number, watermark in enumerate(watermarks):
        running.advance(number, watermark)
    return running.state()


def _final_state(
    operation: Operation | None, splitting: Splitting, schemas: Sequence[Schema], state: State, parts: int
) -> State:
    if operation is None:
        return _empty(splitting.final, [schemas[0]] * parts, [min(state["watermarks"])] * parts)
    whole = start(operation, *schemas)
    whole.restore(state)
    given = splitting.replica.schema(*schemas)
    return _empty(splitting.final, [given] * parts, [whole.watermark] * parts)


def _share(splitting: Splitting, state: State, part: int, parts: int) -> State:
    """What of a state belongs to the keys of one part."""
    assert splitting.keys is not None
    keys = splitting.keys

    def own(items: Sequence[Any], input: int = 0) -> list[Any]:
        return [item for item in items if splitting.part_of(input, Item(*item), parts) == part]

    def of_group(group: Sequence[Any]) -> bool:
        stand_in = Item("", 0, dict(zip(keys[0], group, strict=True)))
        return splitting.part_of(0, stand_in, parts) == part

    share: State = {"watermarks": list(state["watermarks"])}
    if "kept" in state:
        share["kept"] = [own(items, side) for side, items in enumerate(state["kept"])]
    if "waiting" in state:
        share["waiting"] = own(state["waiting"])
        share["groups"] = [group for group in state["groups"] if of_group(group[0])]
    if "open" in state:
        share["open"] = [[begin, kept] for begin, items in state["open"] if (kept := own(items))]
    return share
