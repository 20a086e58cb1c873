"""The code can be read: docstrings everywhere, maps of packages, modules and functions of a bearable size."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from house.rooms import MODULES, SOURCE

LONGEST_MODULE = 500
LONGEST_FUNCTION = 60

LONG_KERNELS = {
    "distributary/matching/change/firing.py:fire",
    "distributary/matching/line_scan.py:_line",
    "distributary/matching/path/evaluate.py:work_out",
    "distributary/matching/path/xml/scan.py:_open_element",
    "distributary/matching/path/xml/scan.py:_scan_document",
}
"""Numba kernels that are longer; each says why in a comment."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tree_of(path: Path) -> ast.Module:
    """A module, parsed when a test first asks: every process collects the tests, and few run these."""
    return ast.parse(path.read_text())


@cache
def classes() -> dict[str, tuple[set[str], list[str]]]:
    """Every class of the house by its name: the methods with a docstring, and the names of its bases."""
    return {
        node.name: (
            {each.name for each in node.body if isinstance(each, Function) and ast.get_docstring(each)},
            [ast.unparse(base).split("[")[0].rpartition(".")[2] for base in node.bases],
        )
        for path in MODULES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef)
    }


def shown(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def inherits_docstring(class_name: str, method: str) -> bool:
    """Whether a base class in the house says what a method is for."""
    nothing: tuple[set[str], list[str]] = (set(), [])
    return any(
        method in classes().get(base, nothing)[0] or (base != class_name and inherits_docstring(base, method))
        for base in classes().get(class_name, nothing)[1]
    )


def undocumented(tree: ast.Module) -> Iterator[str]:
    """Public classes, functions and methods without a docstring of their own or of a base class."""
    if ast.get_docstring(tree) is None:
        yield "the module"
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            if ast.get_docstring(node) is None:
                yield node.name
            if isinstance(node, ast.ClassDef):
                for method in node.body:
                    if (
                        isinstance(method, Function)
                        and not method.name.startswith("_")
                        and ast.get_docstring(method) is None
                        and not inherits_docstring(node.name, method.name)
                    ):
                        yield f"{node.name}.{method.name}"


@pytest.mark.parametrize("path", MODULES, ids=shown)
def test_everything_public_says_what_it_is(path: Path) -> None:
    assert list(undocumented(tree_of(path))) == []


@pytest.mark.parametrize("path", [path for path in MODULES if path.name == "__init__.py"], ids=shown)
def test_a_package_s_map_names_all_its_modules(path: Path) -> None:
    told = ast.get_docstring(tree_of(path)) or ""
    within = {each.stem for each in path.parent.glob("*.py")} | {
        each.parent.name for each in path.parent.glob("*/__init__.py")
    }
    missing = [name for name in sorted(within) if not name.startswith("__") and f"`{name}" not in told]
    assert missing == []


@pytest.mark.parametrize("path", MODULES, ids=shown)
def test_modules_and_functions_are_of_a_bearable_size(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST_MODULE
    long = [
        f"{shown(path)}:{node.name}"
        for node in ast.walk(tree_of(path))
        if isinstance(node, Function) and (node.end_lineno or 0) - node.lineno + 1 > LONGEST_FUNCTION
    ]
    assert [name for name in long if name not in LONG_KERNELS] == []


def test_every_long_kernel_is_still_there_and_long() -> None:
    found = {
        f"{shown(path)}:{node.name}"
        for path, tree in ((path, tree_of(path)) for path in MODULES)
        for node in ast.walk(tree)
        if isinstance(node, Function) and (node.end_lineno or 0) - node.lineno + 1 > LONGEST_FUNCTION
    }
    assert set(LONG_KERNELS) <= found


def test_what_has_no_docstring_is_found() -> None:
    tree = ast.parse('class Thing:\n    """A thing."""\n    def go(self): ...\n    def _own(self): ...\n')
    assert list(undocumented(tree)) == ["the module", "Thing.go"]
