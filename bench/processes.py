"""The processor time of a process and all that it has started, from Linux's table of processes.

On a machine with neighbours it says what work costs, where the clock on the wall says who else was there.
"""

from __future__ import annotations

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds() -> float | None:
    """Seconds used so far by this process and those below it, ended ones included; None off Linux."""
    table = Path("/proc")
    if not (table / "self" / "stat").exists():
        return None
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for entry in table.iterdir():
        if entry.name.isdigit():
            try:
                # The name of the program, in parentheses, may hold anything.
                fields = (entry / "stat").read_text().rpartition(") ")[2].split()
            except OSError:
                continue  # it has ended
            parents[int(entry.name)] = int(fields[1])
            used[int(entry.name)] = sum(map(int, fields[11:15]))
    return sum(ticks for process, ticks in used.items() if _is_below(process, parents)) / TICKS


def _is_below(process: int, parents: dict[int, int]) -> bool:
    while process in parents and process != os.getpid():
        process = parents[process]
    return process == os.getpid()
