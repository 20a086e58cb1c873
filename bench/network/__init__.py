"""Live brokers beside mosquitto and nats-server, in one run on this machine's loopback.

python -m bench network                    all of it (some ten minutes)
python -m bench network --quick            small versions
python -m bench network --only conditions  one workload, or those whose names have this part ...
python -m bench network --only ours,nats   ... or some brokers

Plain topics: events a second and processor time of the broker a message, with as many messages under way as
it takes, then the delay at a tenth of that rate; one message at a time, where nothing can be batched; and
100,000 subscriptions with a topic and a condition, which the others cannot have. Every subscriber's messages
are checked, each once and in order, before a number is given. Processor time is that of the broker's process,
of all three where there are three.

mosquitto (a package of most systems) and nats-server (`go install`, kept in `build/peers/programs`) are
started by the bench where they can be had. NATS has no acknowledgements without JetStream.

- `brokers`: starts and stops them; `protocols`: what their clients say; `load`: the generator
- `plain`: plain topics; `conditions`: many subscriptions with conditions
"""

from __future__ import annotations

import sys
from collections.abc import Collection

from bench.network import conditions, plain
from bench.report import Result

CONDITIONS = "conditions"


def known(quick: bool) -> list[str]:
    """What can be asked for: workloads, and brokers."""
    return [*(case.name for case in plain.cases(quick)), CONDITIONS, *plain.BROKERS]


def unknown(quick: bool, only: Collection[str]) -> list[str]:
    """What is asked for and neither a broker nor a part of a workload's name."""
    names = known(quick)
    return [part for part in only if not any(part and part in name for name in names)]


def run(quick: bool, only: Collection[str] = ()) -> list[Result]:
    """Measure the workloads and brokers named in `only`, or whose names contain one (default: all)."""
    brokers = [name for name in plain.BROKERS if name in only] or list(plain.BROKERS)
    parts = [part for part in only if part not in plain.BROKERS]
    results: list[Result] = []
    for case in plain.cases(quick):
        if not parts or any(part in case.name for part in parts):
            print(f"  {case.name}", file=sys.stderr, flush=True)
            results += plain.measured(case, brokers, quick)
    if not parts or any(part in CONDITIONS for part in parts):
        results += conditions.measured(quick)
    return results
