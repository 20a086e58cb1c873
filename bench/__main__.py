"""Run benchmarks: a readable table, and the same numbers with machine and versions in a JSON file.

python -m bench                    all of them
python -m bench topics paths       some
python -m bench --quick            small versions that take seconds
python -m bench peers              other engines beside ours, where their toolchains are installed
python -m bench sizes              what an event costs with 1,000 to 1,000,000 subscriptions
python -m bench network            live brokers beside mosquitto and nats-server, where they are installed
python -m bench edge               MQTT clients at a broker, beside mosquitto where it is installed
python -m bench kafka_source       Kafka's messages into Spark, by its JAR and by Python alone
python -m bench kafka_delay        how long a message takes from Kafka to Kafka, by Spark and by a broker
python -m bench live_nodes         200 live nodes at rest: memory, messages, processor time
python -m bench scale              100 to 10,000 nodes of each system in the simulator
python -m bench peers --help       more about one of the last eight
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from types import ModuleType

from rich.console import Console
from rich.table import Table

from bench.report import Result

MODULES = (
    "topics",
    "conditions",
    "rules",
    "paths",
    "tolerances",
    "matcher",
    "lines",
    "planner",
    "hostile",
    "simulator",
    "trials",
    "systems",
    "spark",
    "spark_sql",
    "queries",
    "pipeline",
)
NAMED = ("peers", "sizes", "network", "edge", "live_nodes", "kafka_source", "kafka_delay", "scale")
"""Run only when they are named: they take long."""
LIBRARIES = ("distributary", "numba", "numpy", "pyarrow", "pyspark", "lxml", "sqlglot")


def main() -> int:
    named = [name for name in NAMED if name in sys.argv[1:]]
    description = import_module(f"bench.{named[0]}").__doc__ if named else __doc__
    parser = argparse.ArgumentParser(
        prog="bench", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "modules",
        nargs="*",
        help=f"which of {', '.join(MODULES)} (default: all of these), or {', '.join(NAMED)}",
    )
    parser.add_argument("--quick", action="store_true", help="small versions that take seconds")
    parser.add_argument("--only", default="", help="of those that have parts: which, with commas")
    parser.add_argument("--out", type=Path, default=Path("build/bench.json"))
    parsed = parser.parse_args()
    unknown = set(parsed.modules) - {*MODULES, *NAMED}
    if unknown:
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join((*MODULES, *NAMED))}")
    console = Console(width=None if sys.stdout.isatty() else 110)
    results: list[Result] = []
    for name in parsed.modules or MODULES:
        console.print(f"[dim]measuring {name} ...[/dim]")
        start = time.perf_counter()
        module = import_module(f"bench.{name}")
        options = {"only": parsed.only.split(",")} if hasattr(module, "known") and parsed.only else {}
        if options and (strangers := _unknown(module, parsed.quick, options["only"])):
            known = ", ".join(module.known(parsed.quick))
            parser.error(f"{name} has no {', '.join(strangers)}; there are {known}")
        measured = module.run(parsed.quick, **options)
        results.extend(measured)
        show(console, name, measured, time.perf_counter() - start)
    parsed.out.parent.mkdir(parents=True, exist_ok=True)
    parsed.out.write_text(json.dumps(report_of(results), indent=1) + "\n")
    console.print(f"numbers in {parsed.out}")
    return 0


def _unknown(module: ModuleType, quick: bool, only: list[str]) -> list[str]:
    """What is asked for and not there: by names, unless the module has a rule of its own."""
    if hasattr(module, "unknown"):
        return list(module.unknown(quick, only))
    return [name for name in only if name not in module.known(quick)]


def show(console: Console, name: str, results: list[Result], seconds: float) -> None:
    """A table for each workload."""
    for workload, rows in groupby(results, key=lambda result: result.workload):
        measured = list(rows)
        table = Table(title=f"[bold]{name}[/bold]: {workload}", title_justify="left", caption_justify="left")
        for heading in ("engine", "measure"):
            table.add_column(heading)
        table.add_column("value", justify="right")
        for heading in ("unit", "target"):
            table.add_column(heading)
        for result in measured:
            shown = f"{result.value:,.0f}" if abs(result.value) >= 1000 else f"{result.value:.3g}"
            target = f"[red]{result.target}: missed[/red]" if result.is_missed else result.target
            table.add_row(result.engine, result.measure, shown, result.unit, target)
        checks = dict.fromkeys(result.checked for result in measured if result.checked)
        table.caption = f"answers checked against: {'; '.join(checks)}" if checks else None
        console.print(table)
    console.print(f"[dim]{name} took {seconds:.0f} s[/dim]")


def report_of(results: list[Result]) -> dict[str, object]:
    return {
        "command": "python -m bench " + " ".join(sys.argv[1:]),
        "machine": {"processor": _processor(), "cores": os.cpu_count(), "system": platform.platform()},
        "python": platform.python_version(),
        "versions": {name: version(name) for name in LIBRARIES},
        "results": [asdict(result) for result in results],
    }


def _processor() -> str:
    """The processor's name, where the system tells it."""
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


if __name__ == "__main__":
    sys.exit(main())
