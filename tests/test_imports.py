"""Who may import whom, as the plan of the house says; and what importing the package must not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"

ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "kernel": set(),
    "toml_files": {"errors"},
    "model": {"errors"},
    "quarantine": {"errors"},
    "files": {"errors", "model", "quarantine"},
    "feeds": {"errors", "model", "quarantine"},
    "filters": {"errors", "model"},
    "store": {"errors", "model", "quarantine", "files", "filters"},
    "workloads": {"errors", "model", "quarantine", "feeds", "files", "filters"},
    "matching": {"errors", "kernel", "model", "filters"},
    "flow": {"errors", "toml_files", "model", "filters"},
    "spark": {"errors", "toml_files", "model", "quarantine", "files", "filters", "matching", "flow", "store"},
    "overlay": {"errors", "model", "filters", "flow"},
    "plan": {"errors", "toml_files", "kernel", "model", "filters", "flow"},
    "systems": {"errors", "model", "feeds", "filters", "overlay", "matching", "flow", "plan"},
    "sim": {
        "errors",
        "model",
        "quarantine",
        "files",
        "filters",
        "flow",
        "overlay",
        "plan",
        "systems",
        "workloads",
    },
    "cli": {"*"},
    "distributary": {"errors", "model", "matching", "cli"},
    "distributary_lab": {"*"},
}
"""Each room and the rooms it may import from, beside itself; `*` is every room of the product. The lab is
found by its entry point alone, and nothing but the lab imports `cli`."""

PACKAGES = ("distributary", "distributary_lab")
MODULES = sorted(SOURCE.rglob("*.py"))


def room_of(module: str) -> str:
    """The room of a dotted module name; the package's own `__init__` and `__main__` are `distributary`."""
    package, _, rest = module.partition(".")
    return package if package == "distributary_lab" or not rest else rest.partition(".")[0]


def room_at(path: Path) -> str:
    room = room_of(".".join(path.relative_to(SOURCE).with_suffix("").parts))
    return "distributary" if room.startswith("__") else room


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names = [node.module or ""]
            if node.module == "distributary":
                names = [f"distributary.{alias.name}" for alias in node.names]
        rooms |= {room_of(name) for name in names if name.split(".")[0] in PACKAGES}
    return rooms


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_imports_only_from_the_rooms_below_it(path: Path) -> None:
    room = room_at(path)
    allowed = ALLOWED[room]
    foreign = imported_rooms(path) - {room}
    assert foreign <= allowed or ("*" in allowed and "distributary_lab" not in foreign)


def test_the_check_sees_a_forbidden_import(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("def f():\n    from distributary_lab import report\n    import distributary.cli.main\n")
    assert imported_rooms(module) == {"distributary_lab", "cli"}


@pytest.mark.parametrize("heavy", ["pyspark", "numba", "matplotlib", "sqlalchemy", "pydantic"])
def test_importing_the_package_loads_nothing_heavy(heavy: str) -> None:
    code = f"import sys, distributary, distributary.filters.kinds; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
