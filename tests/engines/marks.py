"""How engines become parameters of a test, with the marks by which they are chosen and shared out.

`pytest -m spark` takes the engines on Spark, `-k network` the one of that name. Engines that keep something
between tests (a session of Spark's, another process, the answers to all cases) stay in one process.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

OTHER_PROCESSES = ("spark-connect", "spark-cluster")


def engine(name: str, *values: Any, chaos: bool = False) -> Any:
    """The parameters (engine, *values) of a test."""
    if name.startswith(OTHER_PROCESSES):
        marks = [pytest.mark.spark, pytest.mark.xdist_group("processes")]
    elif name.startswith("spark"):
        marks = [pytest.mark.spark, pytest.mark.xdist_group("session")]
    else:
        marks = [pytest.mark.xdist_group(f"{name} engine")]
    marks += [pytest.mark.chaos] * chaos
    return pytest.param(name, *values, marks=marks, id="-".join([name, *map(str, values)]))


def engines(names: Iterable[str], chaos: Iterable[str] = ()) -> list[Any]:
    """A parameter for each engine; those of `chaos` run only with `make chaos`."""
    return [engine(name) for name in names] + [engine(name, chaos=True) for name in chaos]
