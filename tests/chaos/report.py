"""What `make chaos` did: for each part the runs, the faults that fired, what was compared and what was wrong.

A plugin of pytest, registered where chaos is asked for. While a test runs it notes the faults injected into
simulators and what is published and delivered there; a test that breaks something else tells it with
`record_property("faults", {...})` and `record_property("compared", {...})`. All of it travels with the report
of the test, from whichever process, and is told in a table at the end.

`make chaos` keeps it in build/chaos.json (DISTRIBUTARY_CHAOS_REPORT) test by test, so that what runs in parts
adds up: a test that runs again takes the place of what was noted of it, and what other tests did stays as
long as seed and size are the same.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from chaos.sizes import TIMES, chosen

SEED = os.environ.get("DISTRIBUTARY_SEED", "1")
KEPT_IN = os.environ.get("DISTRIBUTARY_CHAOS_REPORT")
"""The file in which what was done is added up; none when a single test is repeated."""
FULL = bool(os.environ.get("DISTRIBUTARY_CHAOS_FULL"))


def without_case(nodeid: str) -> str:
    """A test without the case of it."""
    return nodeid.partition("[")[0]


def part_of(nodeid: str) -> str:
    """The part of the house that a test is about: its folder, or its file."""
    folder, _, file = nodeid.partition("::")[0].removeprefix("tests/").rpartition("/")
    return folder or file.removesuffix(".py")


@dataclass
class Findings:
    """What a test, or all tests of a part, did."""

    runs: int = 0
    violations: int = 0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    """How often each kind of fault fired."""
    compared: Counter[str] = field(default_factory=Counter)
    """Events that were published, and deliveries that were held against what was due."""

    def add(self, report: pytest.TestReport) -> None:
        """Count the report of a test that has run."""
        self.runs += 1
        self.violations += report.failed
        self.seconds += report.duration
        for name, value in report.user_properties:
            if name in ("faults", "compared"):
                getattr(self, name).update(value)

    def record(self) -> dict[str, Any]:
        return {
            "runs": self.runs,
            "violations": self.violations,
            "seconds": round(self.seconds, 1),
            "faults": dict(sorted(self.faults.items())),
            **{what: self.compared[what] for what in ("events", "deliveries")},
        }


def added_up(records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The sum of several records of findings."""
    total = Findings()
    for one in records:
        total.runs += one["runs"]
        total.violations += one["violations"]
        total.seconds += one["seconds"]
        total.faults.update(one["faults"])
        total.compared.update({what: one[what] for what in ("events", "deliveries")})
    return total.record()


@contextmanager
def watched() -> Iterator[tuple[Counter[str], Counter[str]]]:
    """Count faults that fire, and events and deliveries, in the simulators that are made meanwhile."""
    from distributary.sim.deployment import Deployment
    from distributary.sim.faults import Injection

    made: dict[type, list[Any]] = {Injection: [], Deployment: []}
    faults: Counter[str] = Counter()
    compared: Counter[str] = Counter()
    with pytest.MonkeyPatch.context() as patch:
        for kind, instances in made.items():
            patch.setattr(kind, "__init__", _noting(kind.__init__, instances))
        patch.setattr(Deployment, "publish", _counting(Deployment.publish, compared))
        try:
            yield faults, compared
        finally:
            for injection in made[Injection]:
                faults.update(injection.fired)
            compared["deliveries"] += sum(len(each.deliveries) for each in made[Deployment])


def _noting(make: Any, instances: list[Any]) -> Any:
    def made(self: Any, *given: Any, **named: Any) -> None:
        instances.append(self)
        make(self, *given, **named)

    return made


def _counting(publish: Any, compared: Counter[str]) -> Any:
    def published(self: Any, *given: Any, **named: Any) -> None:
        compared["events"] += 1
        publish(self, *given, **named)

    return published


class ChaosReport:
    """Chooses the cases, notes what each does, and tells in the end."""

    def __init__(self, config: pytest.Config) -> None:
        self.tests: defaultdict[str, Findings] = defaultdict(Findings)
        self.failed: list[dict[str, str]] = []
        self.began = time.monotonic()
        self.is_worker = hasattr(config, "workerinput")

    @pytest.hookimpl(trylast=True)  # when those that are not chaos are gone
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        kept = chosen(items, SEED)
        names = {item.nodeid for item in kept}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in names])
        items[:] = kept

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        try:
            with watched() as (faults, compared):
                yield
        finally:
            item.user_properties += [("faults", dict(faults)), ("compared", dict(compared))]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.failed:
            self.tests[without_case(report.nodeid)].add(report)
        if report.failed:
            self.failed.append({"test": report.nodeid, "told": report.longreprtext[-2000:]})

    def pytest_terminal_summary(self) -> None:
        if self.is_worker or not self.tests:
            return
        record = self.record()
        if KEPT_IN is not None:
            kept = Path(KEPT_IN)
            if kept.exists():
                record = continued(json.loads(kept.read_text()), record)
            kept.parent.mkdir(exist_ok=True)
            kept.write_text(json.dumps(record, indent=2) + "\n")
        tell(record)

    def record(self) -> dict[str, Any]:
        """Everything, for JSON."""
        noted = {"commit": _commit(), "date": datetime.now(UTC).isoformat(timespec="seconds")}
        tests = {name: {**found.record(), **noted} for name, found in self.tests.items()}
        return {
            "seed": int(SEED),
            "times": TIMES,
            "full": FULL,
            "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
            "elapsed": round(time.monotonic() - self.began, 1),
            **summed(tests),
            "failed": self.failed,
        }


def summed(tests: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What tests did, by test, by part, and all of it."""
    parts: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for name in sorted(tests):
        parts[part_of(name)].append(tests[name])
    return {
        "commits": sorted({one["commit"] for one in tests.values()}),
        "all": added_up(tests.values()),
        "parts": {name: added_up(found) for name, found in sorted(parts.items())},
        "tests": dict(sorted(tests.items())),
    }


def continued(before: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """A record with what an earlier one of the same seed and size has of other tests."""
    if any(before[what] != record[what] for what in ("seed", "times", "full")):
        return record
    again = record["tests"].keys()
    return {
        **record,
        "elapsed": round(before["elapsed"] + record["elapsed"], 1),
        **summed({**before["tests"], **record["tests"]}),
        "failed": [one for one in before["failed"] if without_case(one["test"]) not in again]
        + record["failed"],
    }


def _commit() -> str:
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or "unknown"


def tell(record: dict[str, Any]) -> None:
    """Print what was injected and found: by part, then by kind of fault, then what was wrong."""
    console = Console(width=120)
    table = Table("part", *(["runs", "faults", "events", "deliveries", "violations", "seconds"]))
    for name, part in [*record["parts"].items(), ("all", record["all"])]:
        counts = (part["runs"], sum(part["faults"].values()), part["events"], part["deliveries"])
        table.add_row(
            name, *(f"{count:,}" for count in (*counts, part["violations"], round(part["seconds"])))
        )
    console.print(table)
    kinds = Table("fault", "fired")
    for kind, count in record["all"]["faults"].items():
        kinds.add_row(kind, f"{count:,}")
    console.print(kinds)
    for failure in record["failed"]:
        console.print(failure["test"], markup=False, highlight=False)
    commits = ", ".join(record["commits"])
    shown = f"seed {record['seed']}, commit {commits}: {record['all']['violations']} violations"
    console.print(f"{shown} in {record['elapsed'] / 60:.0f} minutes", highlight=False)
