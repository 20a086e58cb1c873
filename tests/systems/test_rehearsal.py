"""Kernels are compiled before nodes need them, and nodes do without until then, with the same answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from distributary.filters.kinds import parse_filters
from distributary.model import Event, Subscription
from distributary.systems import kernel_use
from distributary.systems.hope.addressing import Addressing
from distributary.systems.interests import InterestIndex
from distributary.systems.residents import Residents
from distributary.workloads import documents, mixed

EVERY_CALL = """
import gc, os
from numba.core.registry import CPUDispatcher
from distributary.filters.kinds import parse_filters
from distributary.systems.hope.addressing import Addressing
from distributary.systems.interests import InterestIndex
from distributary.systems.publishing import require_readable
from distributary.systems.rehearsal import _files, rehearse
from distributary.systems.residents import Residents
from distributary.workloads import documents, market, mixed, sensors, topics

def called():
    found = set()
    for each in gc.get_objects():
        function = each.py_func if isinstance(each, CPUDispatcher) else None
        if function is not None and (function.__module__ or "").startswith("distributary."):
            found |= {f"{function.__module__}.{function.__qualname__}{types}" for types in each.signatures}
    return found

rehearse()
before, kept = called(), list(_files())
assert len(kept) > 50 and all(map(os.path.exists, kept)), "the record would never be found true"
for workload, count in (mixed, 400), (documents, 60), (market, 1500), (sensors, 200), (topics, 300):
    asked, events = list(workload.subscriptions(count, seed=5)), list(workload.events(150, seed=5))
    residents, interests = Residents(), InterestIndex()
    for each in asked:
        residents.put(each)
        interests.put(each.key, each.subscriber, parse_filters(each))
    for event in events[:40]:
        require_readable(event)
        Addressing().of_event(event)
        interests.wanting(event)
        residents.firing(event)
    for together in (3, 30, 150):
        residents.wanted(events[:together])
    residents.remembered()
print(len(before), *sorted(called() - before), sep="\\n")
"""


def test_nothing_is_compiled_after_the_rehearsal() -> None:
    done = subprocess.run([sys.executable, "-c", EVERY_CALL], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rehearsed, *missing = done.stdout.split("\n")[:-1]
    assert int(rehearsed) > 50
    assert missing == []


@pytest.fixture
def withheld(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_use.KERNELS, "withheld", True)


Workloads = tuple[list[Subscription], list[Event]]


def _work() -> Workloads:
    asked = [*mixed.subscriptions(60, seed=3), *documents.subscriptions(20, seed=3)]
    return asked, [*mixed.events(40, seed=3), *documents.events(10, seed=3)]


def _answers(work: Workloads, opened_at: int | None = None) -> list[object]:
    """What residents and interests say to each event; kernels may be called from the given event on."""
    asked, events = work
    residents, interests = Residents(), InterestIndex[object, str]()
    for number, each in enumerate(asked):
        named = Subscription(f"s{number}", each.subscriber, **each.filters())  # type: ignore[arg-type]
        residents.put(named)
        interests.put(named.key, named.subscriber, parse_filters(named))
    found: list[object] = []
    for number, event in enumerate(events):
        if number == opened_at:
            kernel_use.KERNELS.withheld = False
        found.append(
            (sorted(residents.firing(event)), interests.wanting(event), Addressing().of_event(event))
        )
    return found


def test_answers_are_the_same_without_kernels_and_when_they_come(withheld: None) -> None:
    work = _work()
    without = _answers(work)
    between = _answers(work, opened_at=20)
    assert not kernel_use.KERNELS.withheld
    assert without == between == _answers(work)
    assert sum(bool(each[0]) for each in without) > 20  # type: ignore[index]


NO_NUMBA = """
import sys
from distributary.errors import DocumentError
from distributary.model import Event
from distributary.systems import kernel_use
from distributary.systems.publishing import require_readable
kernel_use.KERNELS.withheld = True
from systems.test_rehearsal import _answers, _work
_answers(_work())
require_readable(Event("e1", document="<a/>"))
try:
    require_readable(Event("e1", document="<a>"))
except DocumentError:
    print("refused", "numba" in sys.modules)
"""


def test_numba_is_not_even_loaded_while_kernels_are_withheld() -> None:
    tests = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", NO_NUMBA],
        env={**os.environ, "PYTHONPATH": str(tests)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "refused False\n", done.stderr


def test_a_record_holds_for_what_was_compiled_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    kept = tmp_path / "kernel.nbi"
    kept.touch()
    assert not kernel_use.are_compiled()
    assert kernel_use.note_compiled([str(kept)])
    assert kernel_use.are_compiled()
    monkeypatch.setenv("NUMBA_OPT", "1")  # other code
    assert not kernel_use.are_compiled()
    monkeypatch.delenv("NUMBA_OPT")
    kept.unlink()
    assert not kernel_use.are_compiled()
    (tmp_path / "cache" / kernel_use.RECORD).write_text(json.dumps([]))
    assert not kernel_use.are_compiled()


def test_where_nothing_can_be_written_no_record_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert not kernel_use.note_compiled([])
