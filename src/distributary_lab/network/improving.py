"""What live networks that improve themselves look like from outside, and how long to wait for them."""

from __future__ import annotations

import time
from collections.abc import Callable

from distributary.live.local_network import LocalNetwork

PERIOD = 12
"""Seconds between optimisation periods of a tree."""
QUIET = 3
"""Periods without a change after which a network counts as improved."""
LONGEST = 25
"""Periods after which it is measured as it is."""


def parents_in(network: LocalNetwork) -> dict[str, str | None]:
    """The parent of each node of a tree, by names."""
    return {node["name"]: node["parent"] for node in network.status()}


def hosts_in(network: LocalNetwork) -> dict[str, str]:
    """Where each operator of a network of stream queries runs."""
    hosts: dict[str, str] = network.view()["queries"]["operators"]
    return hosts


def wait_until_improved(look: Callable[[], object], period: float = PERIOD) -> int:
    """Wait until what is looked at has stayed for some periods, or for long; how many it changed in."""
    before, since, changed = look(), 0, 0
    for _ in range(LONGEST):
        time.sleep(period)
        now = look()
        since = since + 1 if now == before else 0
        changed += now != before
        before = now
        if since >= QUIET:
            break
    return changed
