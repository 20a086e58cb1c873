"""Arrays that grow: what was added is there in its order, however it came."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.matching import growing
from distributary.matching.growing import GrowingArray, paged, return_free_memory, with_room

NUMBERS = st.integers(-(2**31), 2**31 - 1)
ADDITIONS = st.lists(st.one_of(NUMBERS, st.lists(NUMBERS, max_size=40)), max_size=30)


@pytest.fixture(autouse=True)
def _even_small_arrays_have_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "LARGE", 64)
    monkeypatch.setattr(growing, "HUGE", 256)


@given(ADDITIONS)
def test_numbers_come_back_in_the_order_in_which_they_were_added(additions: list[int | list[int]]) -> None:
    numbers, expected = GrowingArray("i"), list[int]()
    for addition in additions:
        if isinstance(addition, int):
            numbers.append(addition)
            expected.append(addition)
        else:
            numbers.extend(np.array(addition, np.int32))
            expected += addition
        assert len(numbers) == len(expected)
    assert numbers.taken().dtype == np.int32
    assert numbers.taken().tolist() == numbers.taken().tolist() == expected


def test_what_came_one_by_one_can_be_struck_out_again() -> None:
    numbers = GrowingArray("B")
    numbers.extend(np.array([1, 2], np.uint8))
    numbers.frombytes(b"\x03\x04\x05")
    numbers.shorten(3)
    numbers.append(6)
    assert numbers.taken().tolist() == [1, 2, 3, 6]


def test_room_is_made_once_for_many_additions_and_is_empty() -> None:
    array = with_room(np.array([5, 6, 7], np.int64), 2, 100)
    assert array[:2].tolist() == [5, 6]
    assert len(array) == 100
    assert not array[2:].any()
    assert with_room(array, 2, 100) is array
    assert len(with_room(array, 100, 101)) == 150


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="how much is resident is read there")
def test_room_takes_no_memory_and_what_is_dropped_is_given_back() -> None:
    before = _resident()
    array = paged(1 << 27, np.uint8)
    assert _resident() - before < 1 << 24
    array[:] = 1
    assert _resident() - before > 1 << 26
    del array
    assert _resident() - before < 1 << 24


def _resident() -> int:
    """Bytes of this process that are in memory."""
    (line,) = [
        line for line in Path("/proc/self/smaps_rollup").read_text().splitlines() if line.startswith("Rss:")
    ]
    return int(line.split()[1]) * 1024


@pytest.mark.skipif(growing._malloc_trim() is None, reason="this C library's allocator cannot be told")
def test_memory_that_nobody_uses_is_given_back() -> None:
    """Blocks too small for pages of their own, with one in use behind them that keeps them in the heap."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    blocks = [np.ones(8_000, np.uint8) for _ in range(5_000)]
    last = np.ones(8_000, np.uint8)
    del blocks
    before = resident()
    return_free_memory()
    assert resident() < before - 20_000_000
    assert last.all()
