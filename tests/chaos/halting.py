"""`distributary run` that stands still at one point of a micro-batch's commit, for somebody to kill it there.

    python halting.py "after archive" 7 run pipeline.toml

Commits take milliseconds, so nobody who watches the disk could hit a phase of one. `in` an output is before
its manifest is written, `after` it is after that; `recorded` is after the batch's record.
"""

from __future__ import annotations

import sys
import threading

from distributary.cli.main import main
from distributary.spark import storage


def manifests(phase: str, batch: int) -> tuple[str, ...]:
    """How the locations end whose writing begins or ends a phase."""
    if phase == "recorded":
        return (f"/metrics/batches/{batch}.json",)
    output = phase.partition(" ")[2]
    return (f"/{output}/batch={batch}/_SUCCESS", f"/{output}/_complete/{batch}")


def halt_at(phase: str, batch: int) -> None:
    """Have this process stand still when it comes to a phase of a batch."""
    ends, write = manifests(phase, batch), storage.write_atomically

    def halting(location: str, text: str) -> None:
        here = location.endswith(ends)
        if not (here and phase.startswith("in ")):
            write(location, text)
        if here:
            threading.Event().wait()

    storage.write_atomically = halting


if __name__ == "__main__":
    halt_at(sys.argv[1], int(sys.argv[2]))
    sys.argv = ["distributary", *sys.argv[3:]]
    sys.exit(main())
