"""Who may import whom: the table of rooms that the import test and the picture are made from."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

TOP = Path(__file__).parent.parent.parent
SOURCE = TOP / "src"
PACKAGES = ("distributary", "distributary_lab")
MODULES = sorted(SOURCE.rglob("*.py"))

EVERYTHING = ("*",)
"""What the outermost rooms may import: every room of the product."""


class Room(NamedTuple):
    """A package or a module below `distributary`, or the lab beside it."""

    about: str
    """What it is, for the picture."""
    imports: tuple[str, ...]
    """The rooms it may import from, beside itself."""
    column: float = 0
    """Where it stands in the picture, from the left."""


ROOMS: dict[str, Room] = {
    "errors": Room("every error raised on purpose", (), 1.6),
    "kernel": Room("compiles Numba kernels", (), 3),
    "toml_files": Room("TOML, validated", ("errors",), 0.1),
    "model": Room("event, subscription, delivery", ("errors",), 1.1),
    "output": Room("writes without harm", ("errors",), 4.4),
    "json_text": Room("JSON within bounds", ("errors",), 5.4),
    "table_lines": Room("tables as JSON lines", (), 6.4),
    "metrics_text": Room("metrics for Prometheus", (), 7.4),
    "kafka_transactions": Room("writes to Kafka once", ("errors",), 6.4),
    "kafka_values": Room("Avro and Protobuf", ("errors",), 7.4),
    "arrow_rows": Room("rows that cannot be read", ("errors", "json_text"), 5.6),
    "quarantine": Room("rejected input, kept", ("errors", "output"), 4.6),
    "files": Room(
        "JSON lines and Arrow",
        ("errors", "output", "json_text", "table_lines", "arrow_rows", "model", "quarantine"),
        5.3,
    ),
    "feeds": Room("RSS and Atom", ("errors", "model", "quarantine"), 4.2),
    "cloud_events": Room("CloudEvents as events", ("errors", "json_text", "model"), 6.5),
    "filters": Room("topic, where, path, change", ("errors", "model"), 1.7),
    "store": Room("subscriptions that change", ("errors", "model", "filters"), 0),
    "workloads": Room("seeded generators", ("errors", "model", "quarantine", "feeds", "filters"), 4.4),
    "matching": Room("Matcher and its indexes", ("errors", "kernel", "arrow_rows", "model", "filters"), 1.05),
    "flow": Room("stream queries", ("errors", "toml_files", "model", "filters"), 2.1),
    "spark": Room(
        "match, deliver, pipelines",
        (
            "errors",
            "kernel",
            "output",
            "json_text",
            "metrics_text",
            "kafka_transactions",
            "kafka_values",
            "arrow_rows",
            "toml_files",
            "model",
            "cloud_events",
            "quarantine",
            "files",
            "filters",
            "matching",
            "flow",
            "store",
            "client",
        ),
        0.5,
    ),
    "overlay": Room("protocols without I/O", ("errors", "model", "filters"), 3.2),
    "plan": Room("trees and placements", ("errors", "toml_files", "kernel", "model", "filters", "flow"), 2.3),
    "systems": Room(
        "the documents' systems",
        ("errors", "model", "feeds", "filters", "overlay", "matching", "flow", "plan"),
        2.4,
    ),
    "sim": Room(
        "nodes in virtual time",
        (
            "errors",
            "output",
            "model",
            "quarantine",
            "files",
            "filters",
            "flow",
            "overlay",
            "plan",
            "systems",
            "workloads",
        ),
        4.0,
    ),
    "live": Room(
        "nodes on sockets",
        ("errors", "metrics_text", "toml_files", "model", "flow", "overlay", "systems"),
        3.0,
    ),
    "client": Room(
        "publish, subscribe", ("errors", "json_text", "model", "filters", "flow", "overlay", "live"), 4.4
    ),
    "edge": Room(
        "MQTT, web, sessions",
        (
            "errors",
            "json_text",
            "kafka_transactions",
            "kafka_values",
            "toml_files",
            "model",
            "cloud_events",
            "quarantine",
            "feeds",
            "filters",
            "matching",
            "overlay",
            "systems",
            "live",
            "client",
        ),
        3.6,
    ),
    "cli": Room("the command distributary", EVERYTHING, 1.4),
    "distributary": Room("the public names", ("errors", "model", "filters", "matching", "cli")),
    "distributary_lab": Room("experiments, report", EVERYTHING, 3.0),
}
"""Every room. The lab is found by its entry point, and nothing but the lab and `__main__` imports `cli`."""


def room_of(module: str) -> str:
    """The room of a dotted module name; the package's own `__init__` and `__main__` are `distributary`."""
    package, _, rest = module.partition(".")
    return package if package == "distributary_lab" or not rest else rest.partition(".")[0]


def room_at(path: Path) -> str:
    """The room that a source file belongs to."""
    room = room_of(".".join(path.relative_to(SOURCE).with_suffix("").parts))
    return "distributary" if room.startswith("__") else room


def imported_rooms(path: Path) -> set[str]:
    """The rooms that a file imports from, wherever in the file it does."""
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
