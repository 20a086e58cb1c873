"""The edge under load: stock MQTT, beside mosquitto in one run on this machine's loopback.

python -m bench edge                     all of it (some ten minutes)
python -m bench edge --quick             small versions
python -m bench edge --only qos-1        the workloads whose names have this part ...
python -m bench edge --only ours         ... or one broker
python -m bench edge --only crowd        thousands of clients at rest; `stalled`: one that stops reading

Clients speak plain MQTT 3.1.1 from bytes that were made before the clock runs. Workloads: QoS 0, 1 and 2; 1
and 100 subscribers; 100 B and 10 KB; many messages under way, and one at a time; then wildcards, retained
messages, sessions that last, all of these together, and conditions on a JSON payload, which mosquitto has
not. Every subscriber's messages are checked, each once and in order, before a number is given. Processor time
is that of the broker's process; delays are at a tenth of the load.

- `clients`: what publishers and subscribers say, and how they answer; `traffic`: the workloads
- `crowd`: thousands of clients at rest; `stalled`: one that stops reading while others go on
"""

from __future__ import annotations

import sys
from collections.abc import Collection

from bench.edge import crowd, stalled, traffic
from bench.report import Result


def known(quick: bool) -> list[str]:
    """What can be asked for: workloads, and brokers."""
    return [*(case.name for case in traffic.cases(quick)), crowd.NAME, stalled.NAME, *traffic.BROKERS]


def unknown(quick: bool, only: Collection[str]) -> list[str]:
    """What is asked for and neither a broker nor a part of a workload's name."""
    names = known(quick)
    return [part for part in only if not any(part and part in name for name in names)]


def run(quick: bool, only: Collection[str] = ()) -> list[Result]:
    """Measure the workloads and brokers named in `only`, or whose names contain one (default: all)."""
    brokers = [name for name in traffic.BROKERS if name in only] or list(traffic.BROKERS)
    parts = [part for part in only if part not in traffic.BROKERS]
    results: list[Result] = []
    for case in traffic.cases(quick):
        if not parts or any(part in case.name for part in parts):
            print(f"  {case.name}", file=sys.stderr, flush=True)
            results += traffic.measured(case, brokers, quick)
    for more in (crowd, stalled):
        if not parts or any(part in more.NAME for part in parts):
            print(f"  {more.NAME}", file=sys.stderr, flush=True)
            results += more.measured(brokers, quick)
    return results
