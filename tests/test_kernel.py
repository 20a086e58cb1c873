"""Kernels are compiled with or without a place to keep them, and take arrays of one type."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest

from distributary.kernel import compiling_told, kernel, sealed


def test_a_kernel_runs_where_nothing_can_be_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[bool] = []

    def refuse_to_cache(*, cache: bool = False, **options: Any) -> Any:
        tried.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return numba.njit(**options)

    monkeypatch.setattr("distributary.kernel.numba", SimpleNamespace(njit=refuse_to_cache))

    @kernel
    def double(number: int) -> int:
        return 2 * number

    assert double(21) == 42
    assert tried == [True, False]


def test_compiling_is_told_once_before_and_once_after_it() -> None:
    @numba.njit
    def inner(number: int) -> int:
        return 2 * number

    @numba.njit
    def outer(number: int) -> int:
        return inner(number) + 1

    told: list[str] = []
    with compiling_told(told.append):
        outer(1)
        assert [text.split()[0] for text in told] == ["compiling"]
        outer(1.5)
        assert len(told) == 1
    assert told[1].startswith("compiled 2 kernels")
    with compiling_told(told.append):
        outer(2)
    assert len(told) == 2


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
