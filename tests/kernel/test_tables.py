"""Kernels take arrays of one type."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from distributary.kernel import CACHE_LINE, empty_in_line, sealed


def test_sealed_arrays_are_plain_contiguous_and_read_only(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(6))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    for array in (np.arange(6), np.arange(12)[::2] // 2, mapped):
        view = sealed(array)
        assert type(view) is np.ndarray
        assert view.flags.c_contiguous
        assert not view.flags.writeable
        assert view.tolist() == [0, 1, 2, 3, 4, 5]
        assert sealed(view) is view


def test_sealing_leaves_the_array_itself_writable() -> None:
    array = np.zeros(3)
    sealed(array)
    array[0] = 1
    assert array.tolist() == [1, 0, 0]


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.float64])
def test_an_array_can_begin_where_a_line_of_the_cache_does(kind: type[np.generic]) -> None:
    arrays = [empty_in_line(count, kind) for count in range(20)]
    assert [array.ctypes.data % CACHE_LINE for array in arrays[1:]] == [0] * 19
    assert [(array.dtype, array.shape) for array in arrays] == [(kind, (count,)) for count in range(20)]
