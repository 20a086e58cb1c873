"""Windows by count: what a stream's state keeps is read by later releases."""

from __future__ import annotations

import pickle
from io import BytesIO

from distributary.flow import Item
from distributary.spark.queries.calls import CountWindowState, WaitingItems, _StateUnpickler


def test_state_that_an_earlier_release_kept_under_other_names_is_read() -> None:
    counted = CountWindowState(2, (Item("e1", 5, {"size": 1, "at": 5}),))
    waiting = WaitingItems(7, {(0, "|1:A"): (counted, [(9, Item("e2", 8, {"size": 2, "at": 8}, 1))])})
    written = pickle.dumps(waiting, protocol=2)
    for now, then in (
        (WaitingItems, b"distributary.spark.queries_calls\nWaiting"),
        (CountWindowState, b"distributary.spark.queries_calls\nCounted"),
        (Item, b"distributary.flow.schema\nItem"),
    ):
        name = f"{now.__module__}\n{now.__name__}".encode()
        assert name in written
        written = written.replace(name, then)
    assert _StateUnpickler(BytesIO(written)).load() == waiting
