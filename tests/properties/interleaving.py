"""The one property of every index: after any interleaving of changes it answers as the oracle does."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from distributary.matching import frozen
from distributary.matching.batch import EventBatch
from distributary.matching.index import Index
from distributary.model import Event

SLOTS = 12

Wants = Callable[[Any, Event], bool]


def steps(filters: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[str, Any]]]:
    """Additions, removals, questions and reorganisations in random order."""
    slot = st.integers(0, SLOTS - 1)
    step = st.one_of(
        st.tuples(st.just("add"), st.tuples(slot, filters)),
        st.tuples(st.just("add"), st.tuples(slot, filters)),
        st.tuples(st.just("remove"), slot),
        st.tuples(st.sampled_from(["ask", "compact", "reopen"]), st.none()),
    )
    return st.lists(step, max_size=25)


def check_against_oracle(
    index: Index[Any], taken: Sequence[tuple[str, Any]], events: Sequence[Event], wants: Wants
) -> None:
    """Run the steps; whenever asked, and at the end, compare `match` and `match_batch` with the oracle.

    `wants(filter, event)` is the oracle. A step that cannot be taken (the slot is taken, or empty) is left
    out. "reopen" freezes the index, writes it to a directory and continues on the memory-mapped copy.
    """
    held: dict[int, Any] = {}
    for what, given in taken:
        if what == "add" and given[0] not in held:
            index.add(*given)
            held[given[0]] = given[1]
        elif what == "remove" and given in held:
            index.remove(given)
            del held[given]
        elif what == "compact":
            index.compact()
        elif what == "reopen":
            with tempfile.TemporaryDirectory() as directory:
                frozen.write(Path(directory) / "index", index.freeze(), {})
                arrays = frozen.read(Path(directory) / "index")
                index = type(index).open(arrays)
                _compare(index, held, events, wants)
                index = type(index).open({name: array.copy() for name, array in arrays.items()})
        elif what == "ask":
            _compare(index, held, events, wants)
    _compare(index, held, events, wants)


def _compare(index: Index[Any], held: dict[int, Any], events: Sequence[Event], wants: Wants) -> None:
    expected = [sorted(slot for slot, filter in held.items() if wants(filter, event)) for event in events]
    assert [index.match(event) for event in events] == expected
    rows, slots = index.match_batch(EventBatch.from_events(events))
    found: list[list[int]] = [[] for _ in events]
    for row, slot in zip(rows.tolist(), slots.tolist(), strict=True):
        found[row].append(slot)
    assert [sorted(row) for row in found] == expected
    assert len(index) == len(held)
    assert {slot: index.filter(slot) for slot in index.slots()} == held
    assert index.memory() > 0 or not held
