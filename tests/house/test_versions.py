"""What `make versions` installs: the lower bound of everything that we depend on directly."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from scripts.versions import TESTS, TOP, at_an_end, direct, installed, python_of, pythons


def imported(path: Path, seen: set[Path]) -> Iterator[str]:
    """What a module of the tests imports when it is loaded, and what those of ours that it imports do."""
    if path in seen:
        return
    seen.add(path)
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        else:
            continue
        for name in names:
            own = TOP / "tests" / name.replace(".", "/")
            if own.with_suffix(".py").exists():
                yield from imported(own.with_suffix(".py"), seen)
            elif not own.is_dir():
                yield name.partition(".")[0]


def test_every_direct_dependency_of_the_library_and_of_spark_has_a_lowest_version() -> None:
    asked = {Requirement(each).name: Requirement(each) for each in direct()}
    assert {"numba", "numpy", "pandas", "pyarrow", "pyspark", "sqlglot"} <= set(asked)
    bounds = {name: [each.operator for each in one.specifier] for name, one in asked.items()}
    assert [name for name, operators in bounds.items() if ">=" not in operators] == []


def test_the_lowest_end_takes_the_lowest_that_a_python_has_a_wheel_for() -> None:
    asked = at_an_end("lowest")
    assert asked[:2] == ["--resolution", "lowest-direct"]
    assert {"--only-binary=numba", "--only-binary=llvmlite", "numpy>=2.0,<3"} <= set(asked)
    assert "--only-binary=pyspark" not in asked, "there is no wheel of it"
    assert at_an_end("highest")[1] == "highest"


def test_what_the_tests_import_is_installed() -> None:
    names = {"-".join(Requirement(each).name.lower().split("_")) for each in installed()}
    given = {module for module, found in packages_distributions().items() if names & {*map(str.lower, found)}}
    seen: set[Path] = set()
    needed = {name for each in ("tests/conftest.py", *TESTS) for name in imported(TOP / each, seen)}
    assert sorted(needed - given - {"distributary"} - sys.stdlib_module_names) == []


def test_a_python_that_is_only_a_shim_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {
        "bin/python3.13": "#!/bin/sh\nexit 127\n",
        "pyenv/versions/3.13.9/bin/python3.13": "#!/bin/sh\necho Python 3.13.9\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert python_of("3.13") == str(tmp_path / "pyenv/versions/3.13.9/bin/python3.13")
    assert python_of("3.14") is None
    assert pythons()[-1].endswith("3.13")


def test_the_tests_that_are_run_are_there() -> None:
    assert [each for each in TESTS if not (TOP / each).exists()] == []
