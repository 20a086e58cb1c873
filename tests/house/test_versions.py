"""What `make versions` installs: the lower bound of everything that we depend on directly."""

from __future__ import annotations

import pytest
from packaging.requirements import Requirement

from scripts.versions import TESTS, TOP, lower_bound, lowest


def test_every_direct_dependency_of_the_library_and_of_spark_has_a_lowest_version() -> None:
    pins = {Requirement(each).name: Requirement(each) for each in lowest()}
    assert {"numba", "numpy", "pandas", "pyarrow", "pyspark", "sqlglot"} <= set(pins)
    assert all([each.operator for each in pin.specifier] == ["=="] for pin in pins.values())


@pytest.mark.parametrize(
    ("asked", "pin"),
    [("numpy>=2.0,<3", "numpy==2.0"), ("pyspark[connect]>=4.1,<5", "pyspark==4.1"), ("packaging<30", None)],
)
def test_the_lowest_version_is_the_lower_bound(asked: str, pin: str | None) -> None:
    assert lower_bound(Requirement(asked)) == pin


def test_the_tests_that_are_run_are_there() -> None:
    assert [each for each in TESTS if not (TOP / each).exists()] == []
