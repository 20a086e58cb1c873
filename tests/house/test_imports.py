"""Who may import whom, as the plan of the house says; and what importing the package must not load."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from house.picture import PICTURE, picture
from house.rooms import EVERYTHING, MODULES, ROOMS, SOURCE, imported_rooms, room_at

BY_NAME = {"__version__", "Event", "Matcher", "Subscription"}
"""Names, not rooms, that are imported from `distributary` itself."""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_imports_only_from_the_rooms_below_it(path: Path) -> None:
    room = room_at(path)
    allowed = ROOMS[room].imports
    foreign = imported_rooms(path) - {room} - BY_NAME
    if allowed == EVERYTHING:
        assert "distributary_lab" not in foreign
    else:
        assert foreign <= set(allowed)


def test_every_permission_is_used() -> None:
    used: dict[str, set[str]] = {room: set() for room in ROOMS}
    for path in MODULES:
        used[room_at(path)] |= imported_rooms(path)
    for name, room in ROOMS.items():
        assert room.imports == EVERYTHING or not set(room.imports) - used[name], name


def test_the_check_sees_a_forbidden_import(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("def f():\n    from distributary_lab import report\n    import distributary.cli.main\n")
    assert imported_rooms(module) == {"distributary_lab", "cli"}


def test_the_picture_of_the_rooms_shows_the_table_that_is_tested() -> None:
    assert PICTURE.read_text() == picture(), "draw it again: python tests/house/picture.py"


def test_every_module_can_be_imported() -> None:
    """Those too that no test uses, and that have no example in a docstring."""
    for path in MODULES:
        if path.stem != "__main__":
            import_module(".".join(path.relative_to(SOURCE).with_suffix("").parts))


@pytest.mark.parametrize("heavy", ["pyspark", "numba", "matplotlib", "sqlalchemy", "pydantic", "pyarrow"])
def test_importing_the_package_loads_nothing_heavy(heavy: str) -> None:
    code = f"import sys, distributary, distributary.filters.kinds; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


LOADED = """
import sys
from distributary.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print(*sorted(sys.modules), file=sys.stderr)
"""


def modules_after(*arguments: str) -> set[str]:
    """The modules that a command leaves loaded."""
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, check=True
    )
    return set(ran.stderr.splitlines()[-1].split())


def test_the_list_of_commands_loads_no_command() -> None:
    loaded = modules_after("--help")
    assert not {name for name in loaded if name.startswith("distributary.cli.")} - {
        "distributary.cli.main",
        "distributary.cli.arguments",
        "distributary.cli.terminal",
    }
    assert not loaded & {"pyarrow", "numpy", "rich.table", "sqlglot"}


def test_matching_loads_no_spark_simulator_planner_or_lab(tmp_path: Path) -> None:
    subscriptions, events = tmp_path / "subscriptions.jsonl", tmp_path / "events.jsonl"
    subscriptions.write_text('{"id": "s1", "subscriber": "ann", "topic": "A"}\n')
    events.write_text('{"id": "e1", "topic": "A"}\n')
    loaded = modules_after("match", "--subscriptions", str(subscriptions), "--events", str(events))
    assert "distributary.matching.matcher" in loaded
    rooms = {".".join(name.split(".")[:2]) for name in loaded}
    assert not rooms & {
        f"distributary.{room}" for room in ("spark", "sim", "plan", "systems", "overlay", "flow")
    }
    assert not loaded & {"pyspark", "distributary_lab"}
