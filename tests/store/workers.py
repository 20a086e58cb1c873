"""What the processes do that share a store in tests; importable, so that they can be spawned."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from distributary import Subscription
from distributary.errors import InputError
from distributary.store import SubscriptionStore, snapshots

STREAM = "stream"
TURNS = 8


def subscription(name: str) -> Subscription:
    return Subscription(
        name, f"of {name}", topic="quotes/NYSE", where=f"name = '{name}'", change={"price": 0.5}
    )


def snapshot_often() -> None:
    snapshots.SMALLEST_LOG, snapshots.ROWS_OF_A_COMMIT = 12, 1


def commit_and_bind(store: SubscriptionStore, worker: int, told: Connection) -> None:
    """Commit subscriptions of its own and some that others want too, and bind batches; tell what was done."""
    snapshot_often()
    random = Random(worker)
    for turn in range(TURNS):
        mine = f"{worker}.{turn}"
        told.send(("commit", store.commit([subscription(mine)]), [mine], []))
        wanted = f"wanted {turn}"
        try:
            told.send(("commit", store.commit([subscription(wanted)]), [wanted], []))
        except InputError:
            told.send(("refused", wanted))
        if random.random() < 0.5:
            told.send(("commit", store.commit(remove=[mine]), [], [mine]))
        told.send(("bound", turn, store.bind(STREAM, turn)))
    store.close()
    told.close()


def commit_until_killed(store: SubscriptionStore, seed: int, lines: int, told: Connection) -> None:
    """Commit, bind and compact until, after so many lines of the store's code, the process kills itself."""
    snapshot_often()
    random = Random(seed)
    sys.settrace(_kill_after(lines))
    turn = 0
    live: list[str] = []
    while True:
        turn += 1
        name = f"{seed}.{turn}"
        gone = live[:1] if len(live) > 3 else []
        told.send(("commit", store.commit([subscription(name)], gone), [name], gone))
        live = [*live[len(gone) :], name]
        batch = seed * 10_000 + turn
        told.send(("bound", batch, store.bind(STREAM, batch)))
        if random.random() < 0.2:
            store.compact()


def _kill_after(lines: int) -> Callable[[FrameType, str, Any], Any]:
    left = lines
    source = str(Path(snapshots.__file__).parent)

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.startswith(source):
            return None
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace
