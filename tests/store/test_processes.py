"""Several processes on one store: nothing is lost, all agree, and killing one at any point harms nobody."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import Counter
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Any

import pytest

from distributary import Subscription
from distributary.store import SubscriptionStore, open_store
from distributary.store.durable import STALE
from store.kinds import Kind
from store.workers import STREAM, TURNS, commit_and_bind, commit_until_killed, subscription

SPAWN = multiprocessing.get_context("spawn")
FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(["distributary.store.sql", "distributary.store.directory"])
DEADLINE = 120


def heard(source: Connection) -> list[tuple[Any, ...]]:
    """All that a process has told until it ended, one way or another."""
    messages = []
    while source.poll(DEADLINE):
        try:
            messages.append(source.recv())
        except EOFError:
            return messages
    raise AssertionError("a process neither tells anything nor ends")


def ended(process: BaseProcess) -> int | None:
    process.join(DEADLINE)
    return process.exitcode


def check_consistent(store: SubscriptionStore) -> dict[int, tuple[set[str], set[str]]]:
    """See that the log leads to what is live at each version; returns what each version added and removed."""
    newest = store.version()
    live: dict[int, Subscription] = {}
    done: dict[int, tuple[set[str], set[str]]] = {version: (set(), set()) for version in range(1, newest + 1)}
    at = {}
    for change in store.changes(0, newest):
        if change.subscription is None:
            assert change.ended is not None
            assert live.pop(change.ended).id == change.id
        else:
            live[change.serial] = change.subscription
            assert change.subscription == subscription(change.id)
        done[change.version][change.subscription is None].add(change.id)
        at[change.version] = dict(live)
    assert all(len({one.id for one in then.values()}) == len(then) for then in at.values())
    for version in {newest, newest // 2} - {0}:
        assert dict(store.subscriptions(version)) == at[version]
    return done


def test_concurrent_processes_lose_nothing_and_agree(kind: Kind) -> None:
    with kind.fresh() as store:
        started = []
        for worker in range(3):
            source, sink = SPAWN.Pipe(duplex=False)
            process = SPAWN.Process(target=commit_and_bind, args=(store, worker, sink))
            process.start()
            sink.close()
            started.append((process, source))
        told = [heard(source) for _, source in started]
        assert [ended(process) for process, _ in started] == [0] * len(started)
        messages = [message for one in told for message in one]
        commits = {version: (set(add), set(remove)) for what, version, add, remove in of("commit", messages)}
        assert len(commits) == len(of("commit", messages)), "two commits were given the same version"
        assert check_consistent(store) == commits
        wanted = Counter(name for add, _ in commits.values() for name in add if name.startswith("wanted"))
        assert set(wanted.values()) == {1}, "an id was registered twice"
        assert len(of("refused", messages)) == 2 * len(wanted)
        bindings = {(batch, version) for _, batch, version in of("bound", messages)}
        assert dict(bindings) == store.bound(STREAM)
        assert len(bindings) == TURNS, "two processes were told different versions for a batch"


def of(what: str, messages: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [message for message in messages if message[0] == what]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.chaos)])
def test_a_writer_killed_anywhere_loses_nothing_that_was_acknowledged(kind: Kind, seed: int) -> None:
    random = Random(seed)
    commits: dict[int, tuple[set[str], set[str]]] = {}
    bindings: dict[int, int] = {}
    with kind.fresh() as store:
        for kill in range(8):
            lines = random.randrange(60 if kill == 0 else 2500)
            messages = heard_until_killed(store, seed * 100 + kill, lines)
            commits |= {version: (set(add), set(gone)) for _, version, add, gone in of("commit", messages)}
            bindings |= {batch: version for _, batch, version in of("bound", messages)}
            store.create()
            done = check_consistent(store)
            assert {version: done[version] for version in commits} == commits
            assert len(done) - len(commits) <= kill + 1, "more was committed than was ever tried"
            bound = store.bound(STREAM)
            assert {batch: bound[batch] for batch in bindings} == bindings
            assert all(version <= len(done) for version in bound.values())
        assert store.commit([subscription("after all")]) == len(done) + 1


def heard_until_killed(store: SubscriptionStore, seed: int, lines: int) -> list[tuple[Any, ...]]:
    source, sink = FORKSERVER.Pipe(duplex=False)
    process = FORKSERVER.Process(target=commit_until_killed, args=(store, seed, lines, sink))
    process.start()
    sink.close()
    messages = heard(source)
    assert ended(process) == -signal.SIGKILL
    return messages


def test_what_killed_writers_leave_is_swept_up_when_it_is_old(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", create=True)
    old, young = (tmp_path / "store" / "temporary" / f"{name}.partial" for name in ("old", "young"))
    for left in (old, young):
        left.write_bytes(b"half a commit")
    long_ago = time.time() - STALE - 60
    os.utime(old, (long_ago, long_ago))
    store.commit([subscription("s1")])
    store.compact()
    assert not old.exists()
    assert young.exists()
