"""How the process of a node is set up."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from weakref import ref

import pytest

from distributary.live.event_loop import run_node
from live.loops import LONGEST, until


@pytest.fixture(autouse=True)
def usual_collector() -> Iterator[None]:
    """Have the collector as it usually is before a test, and as it was after it."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_the_process_of_a_node_runs_its_coroutine_to_the_end() -> None:
    async def main() -> str:
        await asyncio.sleep(0)
        return "done"

    assert run_node(main()) == "done"
    assert gc.get_threshold() > (700, 10, 10)


def test_what_is_in_a_circle_goes_while_a_node_makes_little_else() -> None:
    class Circle:
        def __init__(self) -> None:
            self.itself = self

    async def main() -> None:
        made = ref(Circle())
        await asyncio.wait_for(until(lambda: made() is None), LONGEST)

    run_node(main())


def test_what_a_node_fails_of_is_raised() -> None:
    async def main() -> None:
        raise ValueError("the port is taken")

    with pytest.raises(ValueError, match="taken"):
        run_node(main())
