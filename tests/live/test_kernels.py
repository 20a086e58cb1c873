"""A broker whose kernels are not compiled yet goes on without them while another process compiles them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from distributary.live import kernel_process
from distributary.live.kernel_process import BEGUN, DONE, NEVER, KernelProcess
from distributary.systems.kernel_use import KERNELS

ON_A_NEW_MACHINE = """
import asyncio, json, sys
from distributary import Event
from distributary.client import connect
from distributary.live.broker import LiveBroker
from distributary.live.kernel_process import KERNEL_PROCESS
from distributary.live.status import health
from distributary.systems.kernel_use import KERNELS

async def main(system):
    told = []
    async with LiveBroker("distributary", system, name="hall", nodes=2, on_notice=told.append) as hall:
        child = KERNEL_PROCESS._process
        async with connect(hall.endpoint) as seller, connect(hall.endpoint, name="ann") as ann:
            async with ann.subscribed(where="price > 8", path="//c") as events:
                for number in range(20):
                    await ann.subscribed(where=f"price > {number + 10}", path="//b").__aenter__()
                await seller.publish(Event("e1", "t", {"price": 9}, "<a><b><c/></b></a>"))
                got = (await anext(events)).id
        state = health(hall, {})["kernels"], KERNELS.withheld
        assert child.poll() is None
    return told, got, state, "numba" in sys.modules, child.poll() is not None, KERNELS.withheld

print(json.dumps(asyncio.run(main(sys.argv[1]))))
"""


@pytest.mark.parametrize("system", ["tree", "hope-kbsp"])
def test_a_broker_serves_while_kernels_are_compiled(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    command = [sys.executable, "-c", ON_A_NEW_MACHINE, system]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told, got, state, loaded, ended, withheld = json.loads(done.stdout)
    assert told[0] == BEGUN
    assert (got, state, loaded) == ("e1", ["compiling", True], False)
    assert (ended, withheld) == (True, False), "the process that compiles ends with its broker"


STARTED = """
import time
from distributary.live.kernel_process import KERNEL_PROCESS
KERNEL_PROCESS.enter(lambda text: None)
print(KERNEL_PROCESS._process.pid, flush=True)
time.sleep(600)
"""


def test_nothing_goes_on_compiling_for_a_process_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", STARTED], stdout=subprocess.PIPE) as broker:
        assert broker.stdout is not None
        compiling = Path("/proc", broker.stdout.readline().decode().strip())
        assert compiling.exists()
        broker.kill()
    ends = time.monotonic() + 60
    while compiling.exists() and "zombie" not in (compiling / "status").read_text():
        assert time.monotonic() < ends
        time.sleep(0.05)


Told = list[str]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    monkeypatch.setattr(kernel_process, "are_compiled", lambda: False)
    monkeypatch.setattr(KERNELS, "withheld", False)
    return []


def _ended(process: KernelProcess, look: Callable[[], Any]) -> None:
    child = process._process
    assert child is not None
    child.wait()
    look()


@pytest.mark.parametrize(
    ("code", "last", "state"), [("", DONE, "ready"), ("exit('no room')", NEVER, "withheld")]
)
def test_how_it_ended_is_told_once(
    code: str, last: str, state: str, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rehearsed_here.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(kernel_process, "REHEARSAL", "rehearsed_here")
    process = KernelProcess()
    process.enter(told.append)
    process.enter(told.append)
    assert KERNELS.withheld
    _ended(process, lambda: process.look(told.append))
    process.look(told.append)
    assert [each.split(":")[0] for each in told] == [BEGUN, last.split(":")[0]]
    assert (process.state, KERNELS.withheld) == (state, state == "withheld")
    assert ("no room" in told[-1]) == (state == "withheld")
    process.leave()
    process.leave()
    assert not KERNELS.withheld


def test_a_python_that_cannot_be_started_is_told(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    process = KernelProcess()
    process.enter(told.append)
    assert told[-1] == f"{NEVER}: No such file or directory"
    process.leave()


def test_nothing_is_started_where_the_cache_has_everything(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_process, "are_compiled", lambda: True)
    process = KernelProcess()
    process.enter(told.append)
    assert (told, process.state, KERNELS.withheld) == ([], "ready", False)
